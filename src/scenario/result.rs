//! What a run gives, whoever ran it: the simulator or the lab.

use hdrhistogram::Histogram;

use super::Scenario;
use crate::dtp::{Codes, Regime};
use crate::qdisc::Reason;
use crate::stats::StageStats;
use crate::time::Instant;

/// A histogram of nanoseconds, three significant digits, up to 1000 s.
pub fn nanoseconds() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1_000_000_000_000, 3).expect("the bounds are right")
}

/// A point of a sender's series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// ns after the beginning.
    pub at: u64,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Smoothed round trip, ns.
    pub srtt: u64,
    /// Retransmission timeout, ns.
    pub timeout: u64,
    /// Retransmissions so far.
    pub retransmissions: u64,
    /// What the control steers by.
    pub inner: f64,
}

/// What a flow achieved.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// The line of the scenario it came from.
    pub group: String,
    /// Congestion control, or `udp`, or `ping`.
    pub kind: String,
    /// Whether its bytes go toward the servers.
    pub up: bool,
    /// Bytes of payload that reached the application, whole run.
    pub bytes: u64,
    /// Bits of payload per second, steady part.
    pub goodput: f64,
    /// Bytes per interval.
    pub series: Vec<u64>,
    /// The sender's state over time.
    pub points: Vec<Point>,
    /// Round trips, ns, steady part; for datagrams, the one-way delay.
    pub rtt: Histogram<u64>,
    /// Per interval: samples, mean and largest round trip, ns.
    pub rtt_series: Vec<(u64, u64, u64)>,
    /// Times from question to answer, or of whole pages, ns.
    pub times: Vec<u64>,
    /// Datagrams or echo requests sent.
    pub sent: u64,
    /// … and received.
    pub received: u64,
    /// ns from start to completion.
    pub completed: Option<u64>,
    /// Whether the connection was given up.
    pub aborted: bool,
    /// Retransmissions: whole run, steady part.
    pub retransmissions: [u64; 2],
    /// Times the retransmission timer went off.
    pub timeouts: u64,
    /// Packets acknowledged, whole run.
    pub delivered: u64,
    /// Packets acknowledged with a mark: whole run, steady part.
    pub echoed: [u64; 2],
}

/// A line of the depth series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    /// When.
    pub at: Instant,
    /// Packets held.
    pub packets: u32,
    /// Bytes held.
    pub bytes: u64,
    /// Marks since the start.
    pub marks: u64,
    /// Drops since the start.
    pub drops: u64,
    /// Bytes that left since the start.
    pub sent_bytes: u64,
    /// Longest sojourn since the line before, ns.
    pub worst: u64,
}

/// One packet's end at a port.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// When.
    pub at: Instant,
    /// Whose: index of the conversation.
    pub flow: u32,
    /// Bytes.
    pub len: u32,
    /// From arrival at the port, ns.
    pub sojourn: u64,
    /// Why it was dropped; `None` if it was sent.
    pub dropped: Option<Reason>,
    /// Whether it was marked here.
    pub marked: bool,
    /// DS byte as it left.
    pub ds: u8,
    /// Tin.
    pub tin: u8,
}

/// What a port's instruments showed.
pub struct PortResult {
    /// The port.
    pub name: String,
    /// Sojourn from arrival to departure, ns, steady part.
    pub total: Histogram<u64>,
    /// Sojourn until the queueing stage's decision, ns, steady part.
    pub decision: Histogram<u64>,
    /// Marks from start to end, and in the steady part.
    pub marks: [u64; 2],
    /// Drops, likewise.
    pub drops: [u64; 2],
    /// Packets that left.
    pub sent_packets: u64,
    /// Bytes that left.
    pub sent_bytes: u64,
    /// Largest depth in packets and bytes.
    pub peak: (u32, u64),
    /// Depth over time.
    pub depth: Vec<Depth>,
    /// Each packet, if asked for.
    pub verdicts: Vec<Verdict>,
    /// The stages' own counters at the end.
    pub stages: Vec<StageStats>,
}

impl PortResult {
    /// Whether packets left and nobody measured how long they had waited: the kernel's disciplines do not tell.
    pub fn is_untimed(&self) -> bool {
        self.sent_packets > 0
            && self.decision.is_empty()
            && self.total.is_empty()
            && self.depth.iter().all(|d| d.worst == 0)
    }
}

/// A point of a path's series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathPoint {
    /// ns after the beginning.
    pub at: u64,
    /// Paced rate, bytes of frame per second.
    pub rate: f64,
    /// The last report, in 1/32 code.
    pub ece: u16,
    /// The capacity that was reported, bytes per second; 0 if none was.
    pub capacity: u64,
    /// What the controller does.
    pub regime: Regime,
}

/// What a path of a layer did: one controller and its flows.
#[derive(Clone, Debug)]
pub struct PathResult {
    /// Source and destination.
    pub name: String,
    /// Its flows, as indices into those of the run.
    pub flows: Vec<usize>,
    /// The controller over time.
    pub points: Vec<PathPoint>,
    /// Frames of data that came, by their codes, steady part.
    pub codes: Codes,
    /// Flow updates sent by the receiver.
    pub updates: u64,
}

/// What a run gives.
pub struct Outcome {
    /// What was run.
    pub scenario: Scenario,
    /// With which seed.
    pub seed: u64,
    /// Virtual time that passed, ns.
    pub elapsed: u64,
    /// Events handled.
    pub events: u64,
    /// Frames that ports took in.
    pub frames: u64,
    /// By flow.
    pub flows: Vec<FlowResult>,
    /// By port with a pipeline.
    pub ports: Vec<PortResult>,
    /// By path of a layer.
    pub paths: Vec<PathResult>,
    /// What the clock showed at the beginning.
    pub origin: Instant,
    /// Names of the conversations that verdicts refer to.
    pub conversations: Vec<String>,
    /// The log of each node with `autorate`.
    pub autorate: Vec<Vec<crate::autorate::Line>>,
    /// Round trips of the machine itself, without any of this, ns; `None` where time is virtual.
    pub noise: Option<Histogram<u64>>,
}

impl Outcome {
    /// The flows of one group.
    pub fn group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a FlowResult> + 'a {
        self.flows.iter().filter(move |f| f.group == group)
    }

    /// Payload bits per second of a group, steady part.
    pub fn goodput(&self, group: &str) -> f64 {
        self.group(group).map(|f| f.goodput).sum()
    }

    /// Round trips of a group together, ns.
    pub fn rtt(&self, group: &str) -> Histogram<u64> {
        let mut all = nanoseconds();
        for flow in self.group(group) {
            all.add(&flow.rtt).expect("all histograms are alike");
        }
        all
    }

    /// Payload bits per second of each path, steady part.
    pub fn by_path(&self) -> Vec<f64> {
        self.paths.iter().map(|p| p.flows.iter().map(|f| self.flows[*f].goodput).sum()).collect()
    }

    /// The names of the groups, in their order.
    pub fn groups(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for flow in &self.flows {
            if !out.contains(&flow.group.as_str()) {
                out.push(&flow.group);
            }
        }
        out
    }
}

/// Jain's index of fairness: from 1/n, one has all, to 1, all have the same.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|s| s * s).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

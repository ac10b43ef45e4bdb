//! What is measured of a flow, and what a run gives.

use hdrhistogram::Histogram;

use super::gauge::{Gauges, nanoseconds, stages};
use super::tcp::Phase;
use super::{ORIGIN, elapsed};
use crate::pipeline::Pipeline;
use crate::scenario::Scenario;
use crate::time::{Instant, SECOND};

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

/// The instruments of one flow.
pub(super) struct Record {
    name: String,
    group: String,
    kind: String,
    steady: bool,
    up: bool,
    started: Instant,
    bytes: u64,
    steady_bytes: u64,
    steady_from: Instant,
    series: Vec<u64>,
    this_interval: u64,
    points: Vec<Point>,
    rtt: Histogram<u64>,
    rtt_series: Vec<(u64, u64, u64)>,
    interval_rtt: (u64, u64, u64),
    times: Vec<u64>,
    sent: u64,
    received: u64,
    completed: Option<u64>,
    stopped: Option<Instant>,
    aborted: bool,
    at_steady: (u64, u64, u64),
    retransmissions: [u64; 2],
    timeouts: u64,
    delivered: u64,
    echoed: [u64; 2],
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
    pub ports: Gauges,
}

impl Record {
    pub(super) fn new(name: String, group: String, kind: String, up: bool, started: Instant) -> Self {
        Record {
            name,
            group,
            kind,
            up,
            steady: false,
            started,
            bytes: 0,
            steady_bytes: 0,
            steady_from: ORIGIN,
            series: Vec::new(),
            this_interval: 0,
            points: Vec::new(),
            rtt: nanoseconds(),
            rtt_series: Vec::new(),
            interval_rtt: (0, 0, 0),
            times: Vec::new(),
            sent: 0,
            received: 0,
            completed: None,
            stopped: None,
            aborted: false,
            at_steady: (0, 0, 0),
            retransmissions: [0, 0],
            timeouts: 0,
            delivered: 0,
            echoed: [0, 0],
        }
    }

    /// Payload reached the application.
    pub(super) fn received(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.this_interval += bytes;
    }

    /// A round trip, or a one-way delay.
    pub(super) fn rtt(&mut self, _now: Instant, ns: u64) {
        self.rtt.saturating_record(ns);
        let (n, sum, worst) = &mut self.interval_rtt;
        (*n, *sum, *worst) = (*n + 1, *sum + ns, (*worst).max(ns));
    }

    /// A datagram or an echo request was sent.
    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    /// … and came.
    pub(super) fn came(&mut self) {
        self.received += 1;
    }

    /// A question was answered, or a page is complete.
    pub(super) fn time(&mut self, ns: u64) {
        self.times.push(ns);
    }

    pub(super) fn complete(&mut self, now: Instant) -> bool {
        let first = self.completed.is_none();
        if first {
            self.completed = Some(now.since(self.started));
        }
        first
    }

    pub(super) fn stopped(&mut self, now: Instant) {
        self.stopped = self.stopped.or(Some(now));
    }

    pub(super) fn point(&mut self, point: Point) {
        self.points.push(point);
    }

    /// An interval is over.
    pub(super) fn tick(&mut self) {
        self.series.push(std::mem::take(&mut self.this_interval));
        let (n, sum, worst) = std::mem::take(&mut self.interval_rtt);
        self.rtt_series.push((n, sum.checked_div(n).unwrap_or(0), worst));
    }

    /// The steady part begins; `figures` are retransmissions, packets delivered, packets echoed so far.
    pub(super) fn begin_steady(&mut self, now: Instant, figures: (u64, u64, u64)) {
        if !self.steady {
            self.steady = true;
            self.steady_from = now;
            self.rtt.reset();
            self.steady_bytes = self.bytes;
        }
        let (a, b, c) = &mut self.at_steady;
        (*a, *b, *c) = (*a + figures.0, *b + figures.1, *c + figures.2);
    }

    pub(super) fn finish(&mut self, phase: Option<Phase>, figures: (u64, u64, u64, u64)) {
        self.retransmissions[0] += figures.0;
        self.timeouts += figures.1;
        self.delivered += figures.2;
        self.echoed[0] += figures.3;
        self.aborted |= phase == Some(Phase::Aborted);
    }

    pub(super) fn result(mut self, now: Instant) -> FlowResult {
        self.retransmissions[1] = self.retransmissions[0] - self.at_steady.0;
        self.echoed[1] = self.echoed[0] - self.at_steady.2;
        let end = self.completed.map_or(self.stopped.unwrap_or(now), |ns| self.started + ns);
        // A flow counts from the beginning of the steady part, or from its own if that is later.
        let (from, bytes) = match self.steady && self.steady_from > self.started && end > self.steady_from {
            true => (self.steady_from, self.bytes - self.steady_bytes),
            false => (self.started, self.bytes),
        };
        let time = end.since(from).max(1);
        FlowResult {
            name: self.name,
            group: self.group,
            kind: self.kind,
            up: self.up,
            bytes: self.bytes,
            goodput: bytes as f64 * 8.0 * SECOND as f64 / time as f64,
            series: self.series,
            points: self.points,
            rtt: self.rtt,
            rtt_series: self.rtt_series,
            times: self.times,
            sent: self.sent,
            received: self.received,
            completed: self.completed,
            aborted: self.aborted,
            retransmissions: self.retransmissions,
            timeouts: self.timeouts,
            delivered: self.delivered,
            echoed: self.echoed,
        }
    }
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

/// The state of queues, for people.
pub(super) fn dump(ports: &[(String, &Pipeline, u32)], now: Instant) -> String {
    use std::fmt::Write;
    let mut out = format!("at {:.6} s\n", elapsed(now) as f64 / 1e9);
    for (name, pipeline, flying) in ports {
        let (packets, bytes) = (pipeline.packets(), pipeline.bytes());
        let _ = writeln!(out, "{name}: {packets} packets, {bytes} bytes held; {flying} in flight behind it");
        for stage in stages(pipeline, now) {
            let _ = writeln!(out, "  {stage:?}");
        }
    }
    out
}

//! A source and a destination by themselves: `weir load dtp-send` and `dtp-recv`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{Came, Inflow, Outflow, Port, Time, Way};
use crate::dtp::frame::Header;
use crate::dtp::{Codes, Tuning};
use crate::lab::Error;
use crate::mark::mb_ecn::endpoint::jain;
use crate::rng::Random;
use crate::run::nic::{IfName, mac_words};
use crate::time::SECOND;

/// The machine's clock, for so long.
struct Clock {
    begin: std::time::Instant,
    duration: Duration,
}

impl Clock {
    fn start(duration: Duration) -> Clock {
        Clock { begin: std::time::Instant::now(), duration }
    }
}

impl Time for Clock {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn is_over(&self) -> bool {
        self.begin.elapsed() >= self.duration
    }
}

/// A source of flows to one destination.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where.
    pub interface: IfName,
    /// MAC address of the source.
    pub from: [u8; 6],
    /// MAC address of the destination.
    pub to: [u8; 6],
    /// Flows, of which the last ones are reliable.
    pub flows: u16,
    /// How many of them are reliable.
    pub reliable: u16,
    /// Bytes of payload in a frame.
    pub payload: u16,
    /// How long the first flow sends.
    pub duration: Duration,
    /// How much later each next flow starts, and how much earlier it ends.
    pub stagger: Duration,
    /// The controller.
    pub tuning: Tuning,
}

/// A look at the controller.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Look {
    /// Seconds from the start.
    pub seconds: f64,
    /// Paced rate, bytes of frame per second.
    pub rate: f64,
    /// The last report, in 1/32 code.
    pub ece: u16,
    /// The capacity that was reported, bytes per second.
    pub capacity: u64,
    /// What the controller does.
    pub regime: &'static str,
}

/// What a source did.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    /// Frames by flow.
    pub frames: Vec<u64>,
    /// Frames that reliable flows sent again.
    pub retransmissions: u64,
    /// Flow updates that came.
    pub updates: u64,
    /// Round trip of the last heartbeat, ms.
    pub rtt_ms: f64,
    /// The controller, ten times a second.
    pub looks: Vec<Look>,
}

/// Sends until all flows are over.
///
/// # Errors
/// What the kernel says of the interface or the socket.
pub fn send(source: &Source) -> Result<Sent, Error> {
    let port = Port::open(&source.interface, source.from)?;
    let seed = source.from.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let mut random = Random::seeded(seed);
    let end = source.duration.as_nanos() as u64;
    let mut flow = |i: u16| {
        let later = source.stagger.as_nanos() as u64 * u64::from(i);
        Outflow {
            eid: Header::flow_eid(i.into(), random.u64() as u32),
            start: later,
            stop: end - later,
            payload: source.payload,
            gap: None,
            reliable: i >= source.flows - source.reliable,
        }
    };
    let flows: Vec<Outflow> = (0..source.flows).map(&mut flow).collect();
    let way = Way { to: source.to, qos: 0, tuning: source.tuning, look: SECOND / 10 };
    let mut looks = Vec::new();
    let sent = super::send(port, &way, &flows, &Clock::start(source.duration), |at, c, _| {
        let seconds = at as f64 / 1e9;
        looks.push(Look { seconds, rate: c.rate(), ece: c.ece(), capacity: c.capacity(), regime: c.regime().name() });
    })?;
    Ok(Sent {
        frames: sent.frames,
        retransmissions: sent.retransmissions.iter().sum(),
        updates: sent.updates,
        rtt_ms: sent.rtt as f64 / 1e6,
        looks,
    })
}

/// A flow as it arrived.
#[derive(Clone, Debug, Serialize)]
pub struct Arrived {
    /// MAC address of its source.
    pub source: String,
    /// Its number at the source.
    pub flow: u32,
    /// Bytes of payload, in order, in the part that counts.
    pub bytes: u64,
    /// Bits of payload per second, from its first frame that counts to its last.
    pub goodput: f64,
}

/// What a destination saw.
#[derive(Clone, Debug, Serialize)]
pub struct Received {
    /// The flows.
    pub flows: Vec<Arrived>,
    /// Bits of payload per second, by source.
    pub sources: Vec<f64>,
    /// Jain's index of the sources.
    pub jain_sources: f64,
    /// … and of the flows.
    pub jain_flows: f64,
    /// Mean depth that the frames told of, packets.
    pub mean_depth: f64,
    /// The least and the largest depth code.
    pub depth_codes: (u8, u8),
    /// The least and the largest capacity code, 0 left out.
    pub capacity_codes: (u8, u8),
    /// Flow updates sent.
    pub updates: u64,
}

/// A destination.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Where.
    pub interface: IfName,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Bytes of payload in a frame.
    pub payload: u16,
    /// When it ends at the latest.
    pub duration: Duration,
    /// What comes so soon after the first frame does not count.
    pub skip: Duration,
    /// It ends when nothing came for so long after something did.
    pub idle: Duration,
    /// What it averages over is in the controller's parameters.
    pub tuning: Tuning,
}

/// What counts of a flow.
struct Counted {
    bytes: u64,
    first: u64,
    last: u64,
    /// Bytes of the first frame that counts: its time is not in the measure.
    skip: u64,
}

/// What counts of all that came.
struct Count {
    skip: u64,
    first: Option<u64>,
    flows: BTreeMap<([u8; 6], u64), Counted>,
    codes: Codes,
    updates: u64,
}

impl Count {
    fn came(&mut self, c: &Came) {
        self.updates += u64::from(c.reported);
        if c.at - *self.first.get_or_insert(c.at) < self.skip {
            return;
        }
        self.codes.came(c.header.ecn, c.header.cap);
        let new = Counted { bytes: 0, first: c.at, last: c.at, skip: c.bytes };
        let flow = self.flows.entry((c.header.src, c.header.eid)).or_insert(new);
        flow.bytes += c.bytes;
        flow.last = c.at;
    }
}

/// Receives, and answers.
///
/// # Errors
/// What the kernel says of the interface or the socket.
pub fn receive(sink: &Sink) -> Result<Received, Error> {
    let port = Port::open(&sink.interface, sink.mac)?;
    let mut count = Count {
        skip: sink.skip.as_nanos() as u64,
        first: None,
        flows: BTreeMap::new(),
        codes: Codes::default(),
        updates: 0,
    };
    // Nobody has said which flows there are: whether one is reliable shows in the length of its frames.
    let expect = |_: &Header, rest: &[u8]| {
        let reliable = rest.len() > usize::from(sink.payload);
        Some(Inflow { payload: sink.payload, reliable, window: sink.tuning.window, silent: None })
    };
    let idle = sink.idle.as_nanos() as u64;
    super::receive(&port, &Clock::start(sink.duration), idle, expect, |came| count.came(came))?;
    Ok(summary(&count))
}

fn summary(count: &Count) -> Received {
    let mut sources: BTreeMap<[u8; 6], f64> = BTreeMap::new();
    let mut out = Vec::new();
    for ((mac, eid), flow) in &count.flows {
        let goodput = (flow.bytes - flow.skip) as f64 * 8e9 / (flow.last - flow.first).max(1) as f64;
        *sources.entry(*mac).or_default() += goodput;
        let source = mac_words(mac);
        out.push(Arrived { source, flow: (*eid as u32).saturating_sub(64), bytes: flow.bytes, goodput });
    }
    let sources: Vec<f64> = sources.into_values().collect();
    let shares: Vec<f64> = out.iter().map(|f| f.goodput).collect();
    let range = |counts, from| Codes::range(counts, from).unwrap_or_default();
    Received {
        jain_sources: jain(&sources),
        jain_flows: jain(&shares),
        flows: out,
        sources,
        mean_depth: count.codes.mean_depth(),
        depth_codes: range(&count.codes.depths, 0),
        capacity_codes: range(&count.codes.capacities, 1),
        updates: count.updates,
    }
}

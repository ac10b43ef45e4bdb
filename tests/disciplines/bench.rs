//! A pipeline on a bench: packets in and out by hand, in virtual time, with the sums checked after
//! every call.

use std::collections::HashMap;
use std::net::IpAddr;

use weir::classify::{FlowKeys, Hashing, Headers};
use weir::packet::{Marks, Network, Packet, truesize};
use weir::pipeline::{Link, Pipeline};
use weir::pool::{Frame, Pool};
use weir::qdisc::{Cx, Drops, NoFrames, Reason};
use weir::rng::Random;
use weir::spec::{self, Spec};
use weir::stats::StageStats;
use weir::stats::counters::Counters;
use weir::time::Instant;
use weir::trace::device::{self, CLOCK_BASE, Run, Setup};
use weir::trace::format::{Arrival, Outcome};

/// A packet to be offered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    /// Names the flow.
    pub(crate) flow: u16,
    /// Bytes, link header included.
    pub(crate) len: u32,
    /// DSCP and ECN.
    pub(crate) ds: u8,
    /// Kernel priority.
    pub(crate) priority: u32,
}

/// A packet that has left, one way or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Its number, in order of arrival.
    pub(crate) id: u64,
    pub(crate) flow: u16,
    pub(crate) len: u32,
    pub(crate) ds: u8,
    pub(crate) marks: Marks,
    pub(crate) at: Instant,
    pub(crate) sojourn: u64,
    /// Why it was dropped.
    pub(crate) dropped: Option<Reason>,
}

/// The bench.
pub(crate) struct Bench {
    pub(crate) pipeline: Pipeline,
    pub(crate) now: Instant,
    pub(crate) random: Random,
    pub(crate) counters: Counters,
    link: Link,
    pool: Pool,
    drops: Drops,
    hashing: Hashing,
    names: HashMap<usize, (u64, u16)>,
    received: [u64; 2],
    sent: [u64; 2],
    dropped: [u64; 2],
}

macro_rules! cx {
    ($b:expr) => {
        &mut Cx {
            pool: &mut $b.pool,
            drops: &mut $b.drops,
            random: &mut $b.random,
            hashing: &mut $b.hashing,
            frames: &mut NoFrames,
        }
    };
}

impl Bench {
    /// A pipeline by its words, with room for `capacity` packets; the clock stands at 2^40 ns.
    pub(crate) fn new(line: &str, capacity: usize) -> Self {
        Bench::on(line, capacity, Link::default())
    }

    /// The same on a link.
    pub(crate) fn on(line: &str, capacity: usize, link: Link) -> Self {
        let now = Instant::from_nanos(1 << 40);
        let mut pipeline = parsed(line).build(link);
        pipeline.start(now);
        Bench {
            pipeline,
            now,
            random: Random::seeded(1),
            counters: Counters::default(),
            link,
            pool: Pool::new(capacity),
            drops: Drops::default(),
            hashing: Hashing::Numbered(Default::default()),
            names: HashMap::new(),
            received: [0; 2],
            sent: [0; 2],
            dropped: [0; 2],
        }
    }

    /// Lets time pass, up to `until`, running what runs by the clock.
    pub(crate) fn wait_until(&mut self, until: Instant) {
        while let Some(next) = self.pipeline.next_event().filter(|t| *t <= until) {
            self.now = self.now.max(next);
            self.pipeline.tick(self.now, cx!(self));
            // A wake-up stands until somebody asks for a packet.
            if self.pipeline.next_event() == Some(next) {
                break;
            }
        }
        self.now = self.now.max(until);
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, nanos: u64) {
        self.wait_until(self.now + nanos);
    }

    /// Offers a packet; what was dropped meanwhile.
    pub(crate) fn enqueue(&mut self, offer: Offer) -> Vec<Gone> {
        let frame = self.pool.take().expect("the bench has room");
        let mut keys = FlowKeys { version: 4, protocol: 17, ports: [offer.flow, 9], ..FlowKeys::default() };
        keys.src[..2].copy_from_slice(&offer.flow.to_be_bytes());
        let headers = Headers { network: Network::V4, net_offset: 14, ds: offer.ds, keys, ..Headers::default() };
        let packet = &mut self.pool[&frame];
        *packet = Packet::default();
        packet.arrived = self.now;
        packet.len = offer.len;
        packet.truesize = truesize(offer.len);
        packet.priority = offer.priority;
        headers.apply(packet);
        self.counters.receive(packet);
        self.names.insert(frame.slot().index(), (self.received[0], offer.flow));
        add(&mut self.received, offer.len);
        self.pipeline.enqueue(self.now, frame, &headers, cx!(self));
        self.settle()
    }

    /// Asks for a packet; what was dropped meanwhile.
    pub(crate) fn dequeue(&mut self) -> (Option<Gone>, Vec<Gone>) {
        let frame = self.pipeline.dequeue(self.now, cx!(self));
        let sent = frame.map(|frame| {
            self.counters.send(&self.pool[&frame]);
            let gone = self.bury(frame, None);
            add(&mut self.sent, gone.len);
            gone
        });
        (sent, self.settle())
    }

    /// Gives the pipeline other parameters of the same kind; what was dropped meanwhile.
    pub(crate) fn change(&mut self, line: &str) -> Vec<Gone> {
        let spec = parsed(line);
        self.pipeline.change(&spec, self.link, self.now, cx!(self)).expect("the same kinds of stages");
        self.settle()
    }

    /// Packets dropped for one reason.
    pub(crate) fn dropped_by(&self, reason: Reason) -> u64 {
        self.drops.count(reason)
    }

    /// Figures of the first stage.
    pub(crate) fn stats(&self) -> StageStats {
        self.pipeline.stats(self.now).remove(0)
    }

    /// Packets so far: received, sent, dropped.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [self.received[0], self.sent[0], self.dropped[0]]
    }

    /// Buries the dropped and checks the sums.
    fn settle(&mut self) -> Vec<Gone> {
        let mut gone = Vec::new();
        while let Some((frame, reason)) = self.drops.pop(&mut self.pool) {
            let dead = self.bury(frame, Some(reason));
            add(&mut self.dropped, dead.len);
            gone.push(dead);
        }
        let held = [u64::from(self.pipeline.packets()), self.pipeline.bytes()];
        for i in 0..2 {
            let (received, accounted) = (self.received[i], self.sent[i] + self.dropped[i] + held[i]);
            assert_eq!(received, accounted, "received = sent + dropped + backlog ({})", ["packets", "bytes"][i]);
        }
        let stats = self.pipeline.stats(self.now);
        let counted: u64 = stats.iter().map(|s| s.basic().drops).max().unwrap_or(0);
        assert!(counted <= self.dropped[0], "{counted} drops counted, {} happened", self.dropped[0]);
        assert_eq!(self.pool.capacity() - self.pool.free(), self.pipeline.packets() as usize);
        gone
    }

    fn bury(&mut self, frame: Frame, dropped: Option<Reason>) -> Gone {
        let p = self.pool[&frame];
        let (id, flow) = self.names.remove(&frame.slot().index()).expect("every packet has a name");
        self.pool.give(frame);
        let (at, sojourn) = (self.now, self.now.since(p.arrived));
        Gone { id, flow, len: p.len, ds: p.ds, marks: p.marks, at, sojourn, dropped }
    }
}

/// A specification by its words.
pub(crate) fn parsed(line: &str) -> Spec {
    spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec
}

/// A packet of a table of arrivals: UDP between two hosts that only this flow has.
pub(crate) fn arrival(t_ns: u64, offer: Offer) -> Arrival {
    let [a, b] = offer.flow.to_be_bytes();
    Arrival {
        id: 0,
        t_ns,
        len: offer.len,
        src: IpAddr::from([10, 0, a, b]),
        dst: IpAddr::from([10, 1, a, b]),
        protocol: 17,
        sport: offer.flow,
        dport: 9,
        ds: offer.ds,
        truesize: truesize(offer.len),
        tcp: None,
        fwmark: 0,
        priority: offer.priority,
    }
}

/// Arrivals every `every` ns from `from` on, before `until`.
pub(crate) fn paced(from: u64, every: u64, until: u64, offer: Offer) -> Vec<Arrival> {
    (0..).map(|i| from + i * every).take_while(|t| *t < until).map(|t| arrival(t, offer)).collect()
}

/// Runs arrivals through a pipeline with a link of so many bits per second below it, if any.
pub(crate) fn through(line: &str, link_bps: Option<u64>, mut arrivals: Vec<Arrival>) -> (Run, Vec<Arrival>) {
    arrivals.sort_by_key(|a| a.t_ns);
    for (i, a) in arrivals.iter_mut().enumerate() {
        a.id = i as u64;
    }
    let setup = Setup { link_bps, clock_base: CLOCK_BASE, random: Random::seeded(1) };
    let run = device::run(&mut parsed(line).build(Link::default()), setup, &arrivals, |_, _| {});
    (run, arrivals)
}

/// What became of one flow's packets.
pub(crate) fn of_flow<'a>(run: &'a Run, arrivals: &[Arrival], flow: u16) -> Vec<&'a Outcome> {
    run.outcomes.iter().filter(|o| arrivals[o.id as usize].sport == flow).collect()
}

fn add(sums: &mut [u64; 2], len: u32) {
    sums[0] += 1;
    sums[1] += u64::from(len);
}

//! cake as a whole: small stories, and random schedules in every mode.

mod cases;
mod random;

use super::flows::State;
use super::*;
use crate::classify::{FlowKeys, Hashing};
use crate::packet::{Network, truesize};
use crate::pool::Pool;
use crate::qdisc::{Drops, NoFrames, Reason};
use crate::rng::Random;
use crate::spec;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    at: u64,
    flow: u32,
    number: u64,
    len: u32,
    charged: u32,
    sojourn: u64,
    dropped: Option<Reason>,
    marked: bool,
    ds: u8,
    tin: u8,
}

/// A cake with all that it needs, on a clock that only the test moves.
pub(super) struct Bench {
    cake: Cake,
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    now: u64,
    number: u64,
    fates: Vec<Fate>,
    /// Packets of each flow that are inside.
    standing: std::collections::HashMap<u32, u32>,
}

pub(super) fn params(line: &str) -> Params {
    let parsed = spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line)));
    match &parsed.spec.stages()[0] {
        Stage::Cake(p) => *p,
        other => panic!("{other}"),
    }
}

/// An IPv4 flow from one host to another.
pub(super) fn flow(src: u8, dst: u8, port: u16) -> Headers {
    let mut keys = FlowKeys { version: 4, protocol: 17, ports: [port, 5001], ..FlowKeys::default() };
    keys.src[..4].copy_from_slice(&[10, 0, 0, src]);
    keys.dst[..4].copy_from_slice(&[192, 0, 2, dst]);
    Headers { network: Network::V4, net_offset: 14, keys, ..Headers::default() }
}

impl Bench {
    pub(super) fn new(line: &str) -> Bench {
        Bench::with(&params(line), Link::default(), 4096)
    }

    fn with(params: &Params, link: Link, records: usize) -> Bench {
        Bench {
            cake: Cake::new(params, link, Handle::ROOT),
            pool: Pool::new(records),
            drops: Drops::default(),
            random: Random::constant(32_768, u32::MAX),
            hashing: Hashing::Numbered(Default::default()),
            now: 1 << 40,
            number: 0,
            fates: Vec::new(),
            standing: Default::default(),
        }
    }

    fn work<T>(&mut self, f: impl FnOnce(&mut Cake, Instant, &mut Cx<'_>) -> T) -> T {
        let cx = &mut Cx {
            pool: &mut self.pool,
            drops: &mut self.drops,
            random: &mut self.random,
            hashing: &mut self.hashing,
            frames: &mut NoFrames,
        };
        f(&mut self.cake, Instant::from_nanos(self.now), cx)
    }

    /// A packet of `flow` comes; false if there is no record for it.
    fn send(&mut self, id: u32, headers: &Headers, len: u32, ds: u8) -> bool {
        self.send_with(id, headers, len, ds, truesize(len))
    }

    fn send_with(&mut self, id: u32, headers: &Headers, len: u32, ds: u8, memory: u32) -> bool {
        let Some(frame) = self.pool.take() else { return false };
        let packet = &mut self.pool[&frame];
        *packet = Packet { len, truesize: memory, ..Packet::default() };
        packet.arrived = Instant::from_nanos(self.now);
        packet.arrived = Instant::from_nanos(self.now);
        // A number and a flow to know it by: fields that cake leaves alone.
        packet.fwmark = self.number as u32;
        packet.priority = id;
        Headers { ds, ..*headers }.apply(packet);
        self.number += 1;
        *self.standing.entry(id).or_default() += 1;
        self.work(|cake, now, cx| cake.enqueue(now, frame, headers, cx));
        self.collect();
        assert!(self.cake.memory <= self.cake.memory_limit, "the limit holds after every arrival");
        true
    }

    fn note(&mut self, frame: Frame, dropped: Option<Reason>) {
        let p = &self.pool[&frame];
        *self.standing.entry(p.priority).or_default() -= 1;
        self.fates.push(Fate {
            at: self.now,
            flow: p.priority,
            number: p.fwmark.into(),
            len: p.len,
            charged: p.charged,
            sojourn: self.now - p.arrived.as_nanos(),
            dropped,
            marked: !p.marks.is_empty(),
            ds: p.ds,
            tin: p.tin,
        });
        self.pool.give(frame);
    }

    fn collect(&mut self) {
        while let Some((frame, reason)) = self.drops.pop(&mut self.pool) {
            self.note(frame, Some(reason));
        }
    }

    /// Asks once.
    fn ask(&mut self) -> Option<Fate> {
        let frame = self.work(|cake, now, cx| cake.dequeue(now, cx));
        self.collect();
        self.note(frame?, None);
        self.fates.last().copied()
    }

    /// Sends full packets of a flow until so many of it are inside.
    fn top_up(&mut self, id: u32, headers: &Headers, standing: u32) {
        while self.standing.get(&id).is_none_or(|&n| n < standing) && self.send(id, headers, 1514, 0) {}
    }

    /// Asks as often as there is an answer, at this moment.
    fn drain_now(&mut self) {
        while self.ask().is_some() {}
    }

    /// Lets time pass, asking whenever cake wants to be asked.
    fn run_until(&mut self, end: u64) {
        self.drain_now();
        while let Some(at) = self.cake.next_event().map(Instant::as_nanos).filter(|&at| at <= end) {
            assert!(at > self.now, "a wake-up lies in the future");
            self.now = at;
            self.drain_now();
        }
        self.now = end;
    }

    fn sent(&self) -> impl Iterator<Item = &Fate> {
        self.fates.iter().filter(|f| f.dropped.is_none())
    }

    fn change(&mut self, line: &str) {
        let stage = spec::parse(line).unwrap().spec.stages()[0].clone();
        self.cake.can_change(&stage).unwrap();
        self.work(|cake, now, cx| cake.change(&stage, Link::default(), now, cx));
        self.collect();
    }

    /// Everything that must hold after every call.
    fn check(&self) {
        let cake = &self.cake;
        assert_eq!(self.number, self.fates.len() as u64 + u64::from(cake.packets()), "conservation");
        assert_eq!(self.pool.free() + cake.packets() as usize, self.pool.capacity(), "no record is lost");
        let (mut packets, mut bytes, mut memory) = (0, 0, 0);
        for (t, tin) in cake.tins.iter().enumerate() {
            let mut counts = [0; 5];
            let mut backlog = 0;
            let mut hosts = [vec![0u16; tin.flows.len() as usize], vec![0u16; tin.flows.len() as usize]];
            for f in 0..tin.flows.len() {
                let flow = &tin.flows[f];
                counts[flow.state as usize] += 1;
                assert_eq!(tin.flows.is_used(f), flow.state != State::None);
                let mut in_flow = 0;
                for slot in flow.queue.iter(&self.pool) {
                    packets += 1;
                    in_flow += self.pool[slot].len;
                    memory += u64::from(self.pool[slot].truesize);
                }
                assert_eq!(cake.heap.backlog(t, f), in_flow);
                assert!(in_flow == 0 || flow.state != State::None && flow.state != State::Decaying);
                assert!(flow.counted == 0 || flow.state == State::Bulk, "only bulk flows count for their hosts");
                if flow.counted & SOURCE != 0 {
                    hosts[0][usize::from(flow.src_host)] += 1;
                }
                if flow.counted & DESTINATION != 0 {
                    hosts[1][usize::from(flow.dst_host)] += 1;
                }
                backlog += u64::from(in_flow);
            }
            assert_eq!(tin.backlog, backlog, "tin {t}");
            bytes += backlog;
            let [_, sparse, waiting, bulk, decaying] = counts;
            assert_eq!((tin.sparse, tin.bulk, tin.decaying), (sparse + waiting, bulk, decaying), "tin {t}");
            for slot in 0..tin.flows.len() as u16 {
                assert_eq!(tin.sources.bulk(slot), hosts[0][usize::from(slot)], "a recount of host {slot}");
                assert_eq!(tin.destinations.bulk(slot), hosts[1][usize::from(slot)], "a recount of host {slot}");
            }
        }
        assert_eq!((cake.packets(), cake.bytes(), cake.memory), (packets, bytes, memory));
    }
}

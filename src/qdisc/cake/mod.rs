//! `cake`: a shaper over tins over flows over COBALT (`spec/cake.md`).
//!
//! A packet's tin is chosen by its DSCP, its queue by a keyed hash (`enqueue.rs`). When the shaper
//! allows, a tin is chosen by its own clock, a flow in it by DRR++, and COBALT judges the packet at
//! the head (`dequeue.rs`). The parts know nothing of each other: `overhead.rs` says what a packet
//! costs, `shaper.rs` when it may leave, `tins.rs` what share a tin has, `flows.rs` and `hosts.rs`
//! who queues where, `cobalt.rs` what becomes of it, `heap.rs` who gives way when memory is short,
//! `ack_filter.rs` which ACKs say nothing new, `autorate.rs` what rate arrives.
//!
//! Left out are what cannot happen here: aggregates to split (XDP sees frames), filters attached by
//! tc, and translated addresses (a bridge sees none).
//!
//! # Memory
//! All of it is taken by [`Cake::new`] and none after: eight tins, each with 64 bytes of state, a
//! tag, a bit and 12 bytes of host tables per queue, and 12 bytes for the heap; [`Params::memory`] sums
//! up.
//!
//! # Cache lines
//! For a packet that joins a standing queue and for one that leaves it, beside cake's and its tin's
//! own few lines, which stay in the first-level cache: its record; the record before it in its queue
//! (link; on leaving, none); the flow; a sixteenth of a line each of the tags and of the backlogs.
//!
//! A packet that opens an idle flow touches, instead of the record before it, the last of the new
//! flows, the two neighbours that it had among the decaying ones, and the bulk counts of its two hosts.
//! Their tags are looked at, and the hosts hashed, only if the queue was another's before. Each
//! departure looks at the oldest decaying flow and moves it behind the youngest.
//!
//! A flow that is not where its hash points to is sought in the one line of tags that its set has; that
//! a set is full is a byte's matter. With up to 1024 flows all of this is in the second-level cache, and
//! what a packet costs is instructions: reading these lines ahead of time was tried and gained nothing.

mod ack_filter;
mod autorate;
mod change;
mod cobalt;
mod dequeue;
mod enqueue;
mod flows;
mod heap;
mod hosts;
mod overhead;
mod params;
mod shaper;
mod stats;
mod tins;

use super::{Cx, Handle, Levels, Observation, Qdisc};
use crate::classify::Headers;
use crate::mark::mb_ecn::Depth;
use crate::packet::Packet;
use crate::pipeline::Link;
use crate::pool::Frame;
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::Instant;
use crate::units::Rate;
use autorate::Autorate;
pub use cobalt::Law;
use flows::{DESTINATION, SOURCE};
use heap::Heap;
use overhead::Overhead;
pub use overhead::{Adjusted, Lengths};
pub use params::{AckFilter, CeThreshold, FlowMode, Framing, MinOccupancy, Params, QUEUES, QUEUES_ALLOWED, TinMode};
pub use shaper::Pace;
use shaper::Shaper;
pub use stats::{Counters, Delays, Stats, TinStats};
use tins::Tin;

/// Tins that there can be.
const TINS: usize = heap::TINS as usize;

/// Moves an average towards a sample by 2^−k, in the kernel's two truncating steps
/// (`spec/cake.md` §2).
#[inline]
fn ewma(average: u64, sample: u64, k: u32) -> u64 {
    average - (average >> k) + (sample >> k)
}

/// `cake` at work.
#[derive(Debug)]
pub struct Cake {
    shaper: Shaper,
    basic: Basic,
    clock: Clock,
    /// When to ask again, on cake's own clock.
    wake: Option<i64>,
    tins: Box<[Tin; TINS]>,
    tin_count: usize,
    /// The tin whose turn it is where there is no shaper.
    turn: usize,
    /// In which directions hosts share evenly.
    fair: u8,
    /// The rule of minimum occupancy in force, and whether bulk flows count in it.
    rule: MinOccupancy,
    bulk_counts: bool,
    overhead: Overhead,
    lengths: Lengths,
    memory: u64,
    memory_peak: u64,
    memory_limit: u64,
    heap: Heap,
    rate: Rate,
    autorate: Autorate,
    params: Params,
    link: Link,
    handle: Handle,
}

/// The driver's clock as signed nanoseconds. One that is so far from its origin that sums could
/// overflow is taken to have started when the first packet came.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    origin: Option<u64>,
}

impl Clock {
    const PLAUSIBLE: u64 = 1 << 62;

    #[inline]
    fn read(&mut self, now: Instant) -> i64 {
        let nanos = now.as_nanos();
        let origin = *self.origin.get_or_insert(if nanos < Self::PLAUSIBLE { 0 } else { nanos - (1 << 40) });
        nanos.wrapping_sub(origin) as i64
    }

    fn show(&self, at: i64) -> Instant {
        Instant::from_nanos(self.origin.unwrap_or(0).wrapping_add_signed(at))
    }
}

impl Cake {
    /// An idle shaper on a link; `handle` is the major number by which priorities name a tin.
    ///
    /// # Panics
    /// If [`Params::queues`] is not a power of two in [`QUEUES_ALLOWED`].
    pub fn new(params: &Params, link: Link, handle: Handle) -> Self {
        assert!(
            params.queues.is_power_of_two() && QUEUES_ALLOWED.contains(&params.queues),
            "{} queues per tin are not a power of two in {QUEUES_ALLOWED:?}",
            params.queues
        );
        let mut cake = Cake {
            shaper: Shaper::default(),
            basic: Basic::default(),
            clock: Clock::default(),
            wake: None,
            tins: Box::new(std::array::from_fn(|_| Tin::new(params.queues))),
            tin_count: 0,
            turn: 0,
            fair: 0,
            rule: MinOccupancy::default(),
            bulk_counts: false,
            overhead: Overhead::new(params),
            lengths: Lengths::default(),
            memory: 0,
            memory_peak: 0,
            memory_limit: 0,
            heap: Heap::new(params.queues, params.exact_heap),
            rate: params.rate,
            autorate: Autorate::new(params.rate),
            params: *params,
            link,
            handle,
        };
        cake.configure();
        cake
    }

    /// Everything that follows from parameters and rate (`spec/cake.md` §19, §5, §14.1). Tins that
    /// the mode does not have are left for the caller to empty.
    fn configure(&mut self) {
        let p = &self.params;
        self.tin_count = p.tins.count();
        let (target, interval) = p.times();
        for (t, tin) in self.tins.iter_mut().enumerate().take(self.tin_count) {
            let share = p.tins.share(t, self.rate);
            tin.threshold = share.threshold;
            tin.quantum = share.quantum;
            tin.pace = Pace::new(share.threshold);
            tin.flow_quantum = shaper::flow_quantum(share.threshold);
            tin.law = Law::new(target, interval, tin.pace.time(self.link.mtu));
        }
        self.shaper.pace = self.tins[0].pace;
        self.overhead = Overhead::new(p);
        self.fair =
            if p.flows.fair_sources() { SOURCE } else { 0 } | if p.flows.fair_destinations() { DESTINATION } else { 0 };
        let counts = p.ingress || p.min_occupancy_both;
        self.bulk_counts = counts;
        // Other rules than the kernel's were tried for ingress mode; in egress mode they say nothing
        // unless asked to.
        self.rule = match p.min_occupancy {
            MinOccupancy::Kernel => MinOccupancy::Kernel,
            rule if counts => rule,
            _ => MinOccupancy::None,
        };
        self.memory_limit = p.memory_limit(self.rate, self.link.mtu);
        if self.tin_count < TINS {
            self.turn = TINS - 1;
        }
    }

    fn now(&mut self, now: Instant) -> i64 {
        self.clock.read(now)
    }

    /// Asks to be woken, instead of whenever was asked before.
    fn wake_at(&mut self, at: i64) {
        self.wake = Some(at);
    }

    fn tin_stats(&self, number: usize, name: Option<&'static str>) -> TinStats {
        let tin = &self.tins[number];
        TinStats {
            number,
            name,
            threshold: tin.threshold,
            law: tin.law,
            pace: tin.pace,
            flow_quantum: tin.flow_quantum,
            quantum: tin.quantum,
            deficit: tin.deficit,
            time_next: self.clock.show(tin.time_next),
            backlog: tin.backlog,
            sparse: tin.sparse,
            bulk: tin.bulk,
            decaying: tin.decaying,
            unresponsive: tin.unresponsive,
            counters: tin.counters,
        }
    }

    /// What there is to report.
    pub fn report(&self) -> Stats {
        let mode = self.params.tins;
        let names = mode.names();
        Stats {
            basic: self.basic,
            params: self.params,
            rate: self.rate,
            pace: self.shaper.pace,
            memory: self.memory,
            memory_peak: self.memory_peak,
            memory_limit: self.memory_limit,
            capacity: Rate::from_bytes_per_second(self.autorate.peak),
            lengths: self.lengths,
            tins: (mode.order().iter().enumerate())
                .map(|(i, &t)| self.tin_stats(t.into(), names.get(i).copied()))
                .collect(),
        }
    }
}

impl Qdisc for Cake {
    fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        self.arrival(now, frame, headers, cx);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        self.departure(now, cx)
    }

    fn next_event(&self) -> Option<Instant> {
        self.wake.map(|at| self.clock.show(at))
    }

    fn ends_by_timer(&self) -> bool {
        true
    }

    fn depth(&self, packet: &Packet) -> Depth {
        let tin = &self.tins[usize::from(packet.tin)];
        Depth {
            own: tin.flows[packet.queue].queue.len() as u32,
            active: tin.sparse + tin.bulk,
            total: self.basic.qlen,
            per_flow: true,
        }
    }

    counted_in!(basic);

    fn stats(&self, _: Instant) -> StageStats {
        StageStats::Cake(Box::new(self.report()))
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Cake(p) if p.queues != self.params.queues => Err(format!(
                "cake has {} queues per tin, which cannot change while it works; end the instance and start it anew",
                self.params.queues
            )),
            Stage::Cake(_) => Ok(()),
            other => Err(super::other_kind("cake", other)),
        }
    }

    fn change(&mut self, stage: &Stage, link: Link, now: Instant, cx: &mut Cx<'_>) {
        if let Stage::Cake(p) = stage {
            self.apply(p, link, now, cx);
        }
    }

    fn levels(&self) -> Levels {
        let mut levels = Levels { memory: self.memory, ..Levels::default() };
        for (level, tin) in levels.tins.iter_mut().zip(&self.tins[..]) {
            *level = tin.backlog;
        }
        levels
    }

    fn rate(&self) -> Option<Rate> {
        (!self.rate.is_zero()).then_some(self.rate)
    }

    fn observe(&self, packet: &Packet) -> Observation {
        let tin = &self.tins[usize::from(packet.tin)];
        let flow = &tin.flows[packet.queue];
        Observation {
            tin: Some(packet.tin.into()),
            queue: Some(packet.queue.into()),
            charged: Some(packet.charged),
            count: Some(flow.cobalt.count),
            p_drop: Some(flow.cobalt.p_drop),
            flows: Some([tin.bulk, tin.sparse, tin.decaying]),
            ..Observation::default()
        }
    }
}

#[cfg(test)]
mod tests;

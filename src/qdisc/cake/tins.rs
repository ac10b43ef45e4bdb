//! Tins: what share each has and who belongs there (`spec/cake.md` §5.2, §7).

use super::cobalt::Law;
use super::flows::{DESTINATION, Flow, Flows, List, SOURCE, State};
use super::hosts::Hosts;
use super::params::TinMode;
use super::shaper::Pace;
use super::stats::Counters;
use crate::packet::{Network, Packet};
use crate::rng::Random;
use crate::units::Rate;

/// What a mode says of one tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Rate up to which it is served before others.
    pub(crate) threshold: Rate,
    /// Weight where there is no shaper.
    pub(crate) quantum: u16,
}

impl TinMode {
    /// How many tins it has.
    pub const fn count(self) -> usize {
        self.order().len()
    }

    /// The tins in the order in which they are shown and in which marks name them.
    pub const fn order(self) -> &'static [u8] {
        match self {
            TinMode::BestEffort => &[0],
            TinMode::Diffserv3 => &[1, 0, 2],
            TinMode::Diffserv4 => &[1, 0, 2, 3],
            TinMode::Diffserv8 | TinMode::Precedence => &[0, 1, 2, 3, 4, 5, 6, 7],
        }
    }

    /// Names of the tins in the order of [`TinMode::order`]; none where tc numbers them.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            TinMode::Diffserv3 => &["Bulk", "Best Effort", "Voice"],
            TinMode::Diffserv4 => &["Bulk", "Best Effort", "Video", "Voice"],
            TinMode::BestEffort | TinMode::Diffserv8 | TinMode::Precedence => &[],
        }
    }

    /// What each tin gets of a rate, by its number.
    pub(crate) fn share(self, tin: usize, rate: Rate) -> Share {
        const EIGHT: [u16; 8] = [256, 224, 196, 171, 149, 130, 113, 98];
        let shifted = |by: u32| Rate::from_bytes_per_second(rate.bytes_per_second() >> by);
        let (threshold, quantum) = match (self, tin) {
            (TinMode::BestEffort, _) => (rate, u16::MAX),
            (TinMode::Diffserv8 | TinMode::Precedence, _) => {
                let mut left = rate.bytes_per_second();
                for _ in 0..tin {
                    left = left.wrapping_mul(7) >> 3;
                }
                (Rate::from_bytes_per_second(left), EIGHT[tin])
            }
            (_, 0) => (rate, 1024),
            (_, 1) => (shifted(4), 64),
            (TinMode::Diffserv4, 2) => (shifted(1), 512),
            _ => (shifted(2), 256),
        };
        Share { threshold, quantum }
    }

    /// The tin for a DS code point.
    pub fn tin(self, dscp: u8) -> usize {
        let table: &[u8; 64] = match self {
            TinMode::BestEffort => return 0,
            TinMode::Precedence => return usize::from(dscp >> 3),
            TinMode::Diffserv3 => &DIFFSERV3,
            TinMode::Diffserv4 => &DIFFSERV4,
            TinMode::Diffserv8 => &DIFFSERV8,
        };
        usize::from(table[usize::from(dscp & 63)])
    }
}

#[rustfmt::skip]
const DIFFSERV3: [u8; 64] = [
    0, 1, 0, 0, 2, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 2, 0, 2, 0,
    2, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0,
];

#[rustfmt::skip]
const DIFFSERV4: [u8; 64] = [
    0, 1, 0, 0, 2, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 2, 0, 2, 0, 2, 0,
    2, 0, 2, 0, 2, 0, 2, 0,
    3, 0, 2, 0, 2, 0, 2, 0,
    3, 0, 0, 0, 3, 0, 3, 0,
    3, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0,
];

#[rustfmt::skip]
const DIFFSERV8: [u8; 64] = [
    2, 0, 1, 2, 4, 2, 2, 2,
    1, 2, 1, 2, 1, 2, 1, 2,
    5, 2, 4, 2, 4, 2, 4, 2,
    3, 2, 3, 2, 3, 2, 3, 2,
    6, 2, 3, 2, 3, 2, 3, 2,
    6, 2, 2, 2, 6, 2, 6, 2,
    7, 2, 2, 2, 2, 2, 2, 2,
    7, 2, 2, 2, 2, 2, 2, 2,
];

/// The code point that sorts a packet (`spec/cake.md` §7.2).
pub(super) fn code_point(packet: &Packet) -> u8 {
    match packet.network {
        Network::V4 | Network::V6 => packet.dscp(),
        Network::Arp => 56,
        Network::Other => 0,
    }
}

/// A tin at work. What every packet needs stands first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Tin {
    /// Until when its threshold is used up.
    pub(super) time_next: i64,
    pub(super) sparse: u32,
    pub(super) bulk: u32,
    pub(super) decaying: u32,
    /// Credit where there is no shaper.
    pub(super) deficit: i32,
    pub(super) new: List,
    pub(super) old: List,
    pub(super) decayed: List,
    pub(super) backlog: u64,
    pub(super) pace: Pace,
    pub(super) law: Law,
    pub(super) flow_quantum: u16,
    pub(super) quantum: u16,
    pub(super) unresponsive: u32,
    pub(super) threshold: Rate,
    pub(super) counters: Counters,
    pub(super) flows: Flows,
    pub(super) sources: Hosts,
    pub(super) destinations: Hosts,
}

impl Tin {
    pub(super) fn new(queues: u32) -> Self {
        Tin {
            time_next: 0,
            sparse: 0,
            bulk: 0,
            decaying: 0,
            deficit: 0,
            new: List::default(),
            old: List::default(),
            decayed: List::default(),
            backlog: 0,
            pace: Pace::default(),
            law: Law::default(),
            flow_quantum: 0,
            quantum: 0,
            unresponsive: 0,
            threshold: Rate::default(),
            counters: Counters::default(),
            flows: Flows::new(queues),
            sources: Hosts::new(queues),
            destinations: Hosts::new(queues),
        }
    }

    /// Whether it has flows other than decaying ones.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// A quantum for a flow, less the busier its hosts are (`spec/cake.md` §9); `fair` has the bits
    /// of the directions that count, `dither` is a 16-bit draw.
    #[inline]
    pub(super) fn flow_quantum(&self, f: u32, fair: u8, dither: u16) -> i32 {
        let quantum = u32::from(self.flow_quantum);
        let load = if fair == 0 { 1 } else { self.load(f, fair) };
        let share = if load <= 1 { 65_535 } else { 65_535 / u32::from(load) };
        ((quantum * share + u32::from(dither)) >> 16) as i32
    }

    /// Bulk flows of the busier of a flow's hosts.
    #[inline]
    fn load(&self, f: u32, fair: u8) -> u16 {
        let flow = &self.flows[f];
        let source = if fair & SOURCE != 0 { self.sources.bulk(flow.src_host) } else { 0 };
        let destination = if fair & DESTINATION != 0 { self.destinations.bulk(flow.dst_host) } else { 0 };
        source.max(destination)
    }

    /// A packet came to a flow that is not in its turn (`spec/cake.md` §10 step 7).
    pub(super) fn wake_flow(&mut self, f: u32, fair: u8, random: &mut Random) {
        let flows = self.flows.all();
        let flow = &mut flows[f as usize];
        match flow.state {
            State::Sparse | State::Bulk => {}
            State::SparseWait => {
                flow.state = State::Bulk;
                self.sparse -= 1;
                self.bulk += 1;
                self.enter_hosts(f, fair);
            }
            idle @ (State::None | State::Decaying) => {
                flow.state = State::Sparse;
                if idle == State::Decaying {
                    self.decayed.remove(flows, f);
                    self.decaying -= 1;
                }
                self.new.push(flows, f);
                self.sparse += 1;
                if idle == State::None {
                    self.flows.occupy(f);
                }
                self.flows[f].deficit = self.flow_quantum(f, fair, random.u16());
            }
        }
    }

    /// The flow whose turn it is: decaying ones are looked at `first`, and when there is nothing else
    /// (`spec/cake.md` §12.3 step 1).
    #[inline]
    pub(super) fn next_flow(&self, first: bool) -> Option<u32> {
        let decayed = self.decayed.head();
        if first { decayed } else { None }.or(self.new.head()).or(self.old.head()).or(decayed)
    }

    /// A flow has used up its deficit: it gets a quantum and goes to the end of the line
    /// (`spec/cake.md` §12.3 step 2).
    #[inline]
    pub(super) fn rotate(&mut self, f: u32, fair: u8, random: &mut Random) {
        let flow = &mut self.flows[f];
        let was = flow.state;
        if was == State::Sparse {
            if flow.queue.is_empty() {
                flow.state = State::SparseWait;
            } else {
                flow.state = State::Bulk;
                self.sparse -= 1;
                self.bulk += 1;
                self.enter_hosts(f, fair);
            }
        }
        let quantum = self.flow_quantum(f, fair, random.u16());
        let flows = self.flows.all();
        flows[f as usize].deficit += quantum;
        match was {
            State::Decaying => self.decayed.pop(flows),
            State::Sparse => self.new.pop(flows),
            _ => self.old.pop(flows),
        }
        self.old.push(flows, f);
    }

    /// A flow was found empty: it decays, or is forgotten (`spec/cake.md` §12.4 step 4).
    #[inline]
    pub(super) fn retire(&mut self, f: u32, now: i64) {
        let flows = self.flows.all();
        let flow = &mut flows[f as usize];
        let (quiet, rests) = flow.cobalt.found_empty(now, &self.law);
        self.unresponsive -= u32::from(quiet);
        match std::mem::replace(&mut flow.state, State::Decaying) {
            State::Decaying => {
                self.decayed.pop(flows);
                self.decaying -= 1;
            }
            State::Sparse => {
                self.new.pop(flows);
                self.sparse -= 1;
            }
            State::Bulk => {
                self.old.pop(flows);
                self.bulk -= 1;
                self.leave_hosts(f);
            }
            State::SparseWait => {
                self.old.pop(flows);
                self.sparse -= 1;
            }
            State::None => self.old.pop(flows),
        }
        if rests {
            self.flows.forget(f);
        } else {
            self.decaying += 1;
            self.decayed.push(self.flows.all(), f);
        }
    }

    /// A flow became bulk: its hosts have one more.
    pub(super) fn enter_hosts(&mut self, f: u32, fair: u8) {
        let flow = &mut self.flows[f];
        if fair & SOURCE != 0 && flow.counted & SOURCE == 0 && self.sources.enter(flow.src_host) {
            flow.counted |= SOURCE;
        }
        if fair & DESTINATION != 0 && flow.counted & DESTINATION == 0 && self.destinations.enter(flow.dst_host) {
            flow.counted |= DESTINATION;
        }
    }

    /// A flow is no longer bulk.
    pub(super) fn leave_hosts(&mut self, f: u32) {
        let Flow { counted, src_host, dst_host, .. } = &mut self.flows[f];
        if *counted & SOURCE != 0 {
            self.sources.leave(*src_host);
        }
        if *counted & DESTINATION != 0 {
            self.destinations.leave(*dst_host);
        }
        *counted = 0;
    }

    /// Counts hosts afresh: what was counted under another isolation mode means nothing now.
    pub(super) fn reset_hosts(&mut self) {
        self.sources.reset_counts();
        self.destinations.reset_counts();
        self.flows.all().iter_mut().for_each(|f| f.counted = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffserv8_thresholds_at_a_hundred_megabit_fall_by_an_eighth_each() {
        let rate = Rate::from_bits_per_second(100_000_000);
        let thresholds: Vec<u64> =
            (0..8).map(|t| TinMode::Diffserv8.share(t, rate).threshold.bytes_per_second()).collect();
        assert_eq!(
            thresholds,
            [12_500_000, 10_937_500, 9_570_312, 8_374_023, 7_327_270, 6_411_361, 5_609_940, 4_908_697]
        );
    }

    #[test]
    fn code_points_go_to_the_tins_that_their_names_say() {
        let of = |mode: TinMode, tin| (0..64).filter(|&d| mode.tin(d) == tin).collect::<Vec<u8>>();
        assert_eq!(of(TinMode::Diffserv3, 1), [1, 8]);
        assert_eq!(of(TinMode::Diffserv3, 2), [4, 44, 46, 48, 56]);
        assert_eq!(of(TinMode::Diffserv4, 1), [1, 8]);
        assert_eq!(of(TinMode::Diffserv4, 2), [4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]);
        assert_eq!(of(TinMode::Diffserv4, 3), [32, 40, 44, 46, 48, 56]);
        assert_eq!(of(TinMode::Diffserv8, 0), [1]);
        assert_eq!(of(TinMode::Diffserv8, 1), [2, 8, 10, 12, 14]);
        assert_eq!(of(TinMode::Diffserv8, 3), [24, 26, 28, 30, 34, 36, 38]);
        assert_eq!(of(TinMode::Diffserv8, 4), [4, 18, 20, 22]);
        assert_eq!(of(TinMode::Diffserv8, 5), [16]);
        assert_eq!(of(TinMode::Diffserv8, 6), [32, 40, 44, 46]);
        assert_eq!(of(TinMode::Diffserv8, 7), [48, 56]);
        assert_eq!(of(TinMode::Precedence, 6), (48..56).collect::<Vec<u8>>());
        assert_eq!(of(TinMode::BestEffort, 0).len(), 64);
    }

    #[test]
    fn a_quantum_shrinks_with_the_load_of_the_busier_host() {
        let mut tin = Tin::new(1024);
        let quantum = |tin: &Tin, dither| tin.flow_quantum(0, SOURCE | DESTINATION, dither);
        for (flow_quantum, load, low, high) in
            [(1514, 1, 1513, 1514), (1514, 3, 504, 505), (762, 7, 108, 109), (300, 100, 2, 3), (300, 1024, 0, 1)]
        {
            tin.flow_quantum = flow_quantum;
            tin.destinations.reset_counts();
            (0..load).for_each(|_| assert!(tin.destinations.enter(0)));
            assert_eq!((quantum(&tin, 0), quantum(&tin, 65_535)), (low, high), "{flow_quantum} shared by {load}");
        }
        assert!(!tin.destinations.enter(0), "1024 flows is the end");
    }
}

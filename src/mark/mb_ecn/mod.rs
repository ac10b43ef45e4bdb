//! Multi-bit ECN: how deep the queue is and how fast the link, in the frames themselves
//! (`spec/mb-ecn.md`).
//!
//! Three carriers: Ouroboros data-transfer frames (`dtp.rs`, with `learn.rs` to know their flows), CE
//! on ECT(1) with a coded probability (`l4s.rs`), and an IPv6 hop-by-hop option (`hbh.rs`). A
//! [`Marker`] is told of each packet that comes to a queue and that leaves it.

pub mod code;
pub mod dtp;
pub mod endpoint;
pub mod hbh;
pub mod l4s;
pub mod learn;

use crate::packet::{Marks, Network, Packet, Signal};
use crate::pool::{Frames, Pool, Slot};
use crate::rng::Random;
use crate::time::{Instant, MILLISECOND};
use crate::units::Rate;
use dtp::{Changed, Key, Layout, Untouched};
use l4s::Accumulator;
use learn::Learner;

/// When a packet is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkAt {
    /// As it leaves, by what stands behind it.
    #[default]
    Dequeue,
    /// As it comes, by what stands before it.
    Enqueue,
}

/// Whose depth counts where flows have queues of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// The flow's, times the number of flows that wait, but no more than there is in all.
    #[default]
    Own,
    /// All of it.
    Total,
}

/// Ouroboros data-transfer frames, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dtp {
    /// What the layer is configured to.
    pub layout: Layout,
    /// Whether flows need not be learned.
    pub trust_all: bool,
    /// Flows that need not be learned.
    pub flows: Vec<Flow>,
}

/// A flow that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Ethernet source.
    pub src: [u8; 6],
    /// Ethernet destination.
    pub dst: [u8; 6],
    /// PoA EID.
    pub eid: u16,
}

/// The words behind `mb-ecn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Whether and how data-transfer frames are marked.
    pub dtp: Option<Dtp>,
    /// Whether ECT(1) is marked by the code.
    pub l4s: bool,
    /// Whether the IPv6 option is filled in.
    pub hbh: bool,
    /// When.
    pub mark_at: MarkAt,
    /// By whose depth.
    pub depth: Whose,
    /// Waiting time at which every ECT(1) packet is marked, µs.
    pub saturation: u32,
    /// Depth code at which a flow that does not listen loses its protection from the AQM.
    pub max: u8,
}

/// See [`Params::max`]: 1024 packets.
pub const DEFAULT_MAX: u8 = 40;

/// A flow whose packets wait longer loses its protection, too, ns.
const LONGEST: u64 = 500 * MILLISECOND;

impl Default for Params {
    fn default() -> Self {
        Params {
            dtp: None,
            l4s: false,
            hbh: false,
            mark_at: MarkAt::Dequeue,
            depth: Whose::Own,
            saturation: l4s::DEFAULT_SATURATION,
            max: DEFAULT_MAX,
        }
    }
}

/// Packets before one that would join now (§4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// In its own queue.
    pub own: u32,
    /// Queues of its class that hold packets.
    pub active: u32,
    /// In its class.
    pub total: u32,
    /// Whether flows have queues of their own.
    pub per_flow: bool,
}

impl Depth {
    /// One queue for all.
    pub fn single(packets: u32) -> Self {
        Depth { own: packets, active: 1, total: packets, per_flow: false }
    }

    /// The same but for one packet: that which has just joined.
    #[must_use]
    pub fn without_one(self) -> Self {
        Depth { own: self.own.saturating_sub(1), total: self.total.saturating_sub(1), ..self }
    }

    fn packets(&self, whose: Whose) -> u64 {
        let all = u64::from(self.total);
        match whose {
            Whose::Own => all.min(u64::from(self.own) * u64::from(self.active.max(1))),
            Whose::Total => all,
        }
    }
}

/// What a marker did to the frames of one carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carrier {
    /// Frames that carry it and may be written to.
    pub recognised: u64,
    /// Of those, frames in which a byte was changed.
    pub marked: u64,
}

/// What a marker counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that are data-transfer frames or have the option.
    pub candidates: u64,
    /// Frames whose depth was raised.
    pub marked_ecn: u64,
    /// Frames whose capacity was set or lowered.
    pub marked_cap: u64,
    /// Candidates that said as much already.
    pub unchanged: u64,
    /// Packets that came with ECT(1) to where they might be marked.
    pub ect_1: u64,
    /// ECT(1) that became CE.
    pub marked_ce: u64,
    /// What was done to frames of each carrier that is a field: data-transfer frames, and the option.
    pub carriers: [Carrier; 2],
    /// Frames left alone, by the test that failed, in the order of [`Untouched::ALL`].
    pub untouched: [u64; Untouched::ALL.len()],
    /// Drops of the AQM that were not carried out.
    pub suppressed: u64,
    /// The depth code written last.
    pub own_ecn: u8,
    /// The largest there was.
    pub max_own_ecn: u8,
}

/// What a marker reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// What is in force.
    pub params: Params,
    /// Counters.
    pub tally: Tally,
    /// The capacity code written, 0 if no rate is known.
    pub own_cap: u8,
    /// Flows that were learned.
    pub learned: usize,
}

/// Queues of which it is remembered whether they lost their protection; more share a place.
const PLACES: usize = 1 << 14;

/// Multi-bit ECN at one queueing stage.
#[derive(Debug)]
pub struct Marker {
    params: Params,
    learner: Learner,
    own_cap: u8,
    saturation: u8,
    accumulators: Box<[Accumulator]>,
    exceeded: Box<[bool]>,
    tally: Tally,
}

impl Marker {
    /// A marker that knows no flow and no rate yet.
    pub fn new(params: &Params) -> Self {
        let places = |wanted: bool| if wanted { PLACES } else { 0 };
        let protects = params.dtp.is_some() || params.hbh;
        Marker {
            params: params.clone(),
            learner: Learner::new([0; 2]),
            own_cap: 0,
            saturation: l4s::saturation(Rate::default()),
            accumulators: vec![Accumulator::default(); places(params.l4s)].into(),
            exceeded: vec![false; places(protects)].into(),
            tally: Tally::default(),
        }
    }

    /// Keys for the hash of flows, before the first packet: others shall not choose flows that
    /// share a bucket.
    pub fn seed(&mut self, keys: [u64; 2]) {
        self.learner = Learner::new(keys);
    }

    /// The rate of the link that the queue waits for, if it has one.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        let rate = rate.unwrap_or_default();
        self.own_cap = code::encode(rate.bytes_per_second());
        self.saturation = l4s::saturation_at(rate, self.params.saturation);
    }

    /// Takes other parameters; what was learned stays.
    pub fn change(&mut self, params: &Params) {
        let fresh = Marker::new(params);
        self.params = fresh.params;
        if self.accumulators.len() != fresh.accumulators.len() {
            self.accumulators = fresh.accumulators;
        }
        if self.exceeded.len() != fresh.exceeded.len() {
            self.exceeded = fresh.exceeded;
        }
    }

    /// A packet comes to the queue: finds out whether it is one to write to, and notes that in its
    /// record.
    pub fn arrives(&mut self, now: Instant, slot: Slot, pool: &mut Pool, frames: &dyn Frames) {
        let packet = &pool[slot];
        let bytes = frames.bytes(slot, packet);
        let signal = self.recognise(now, packet, bytes);
        pool[slot].signal = signal;
    }

    fn recognise(&mut self, now: Instant, packet: &Packet, bytes: &[u8]) -> Signal {
        if self.params.hbh && packet.network == Network::V6 && option_at(packet, bytes).is_some() {
            self.tally.candidates += 1;
            self.tally.carriers[1].recognised += 1;
            return Signal::OPTION;
        }
        let Some(dtp) = &self.params.dtp else { return Signal::NONE };
        match dtp::classify(bytes, &dtp.layout) {
            Err(refused) => {
                self.tally.untouched[refused.why as usize] += 1;
                if let Some(key) = refused.key {
                    self.learner.looks_wrong(&key, now);
                }
                Signal::NONE
            }
            Ok(candidate) => {
                self.tally.candidates += 1;
                let known = dtp.trust_all || dtp.flows.iter().any(|f| is(f, &candidate.key));
                if known || self.learner.looks_right(&candidate.key, candidate.is_flow, now) {
                    self.tally.carriers[0].recognised += 1;
                    return Signal::DTP;
                }
                self.tally.untouched[Untouched::Unlearned as usize] += 1;
                Signal::NONE
            }
        }
    }

    /// A packet has come to the queue, and `depth` stands before it.
    pub fn queued(&mut self, slot: Slot, depth: Depth, pool: &mut Pool, frames: &mut dyn Frames, random: &mut Random) {
        let place = place(&pool[slot]);
        let packet = &mut pool[slot];
        if let Some(exceeded) = self.exceeded.get_mut(place) {
            if depth.own == 0 {
                *exceeded = false;
            } else if u64::from(depth.own) >= code::decode(self.params.max) {
                *exceeded = true;
            }
            if packet.signal != Signal::NONE && !*exceeded {
                packet.signal = packet.signal.protected();
            }
        }
        if self.params.mark_at == MarkAt::Enqueue {
            self.mark(slot, place, depth, pool, frames, random);
        }
    }

    /// A packet leaves the queue at `now`, and `depth` stays behind it.
    pub fn leaves(
        &mut self,
        now: Instant,
        slot: Slot,
        depth: Depth,
        pool: &mut Pool,
        frames: &mut dyn Frames,
        random: &mut Random,
    ) {
        let packet = &pool[slot];
        let place = place(packet);
        self.tally.suppressed += u64::from(packet.marks.has(Marks::HELD_BACK));
        if let Some(exceeded) = self.exceeded.get_mut(place) {
            *exceeded = depth.own > 0 && (*exceeded || now.since(packet.enqueued) > LONGEST);
        }
        if self.params.mark_at == MarkAt::Dequeue {
            self.mark(slot, place, depth, pool, frames, random);
        }
        // The next stage has to find out for itself.
        pool[slot].signal = Signal::NONE;
    }

    fn mark(
        &mut self,
        slot: Slot,
        place: usize,
        depth: Depth,
        pool: &mut Pool,
        frames: &mut dyn Frames,
        random: &mut Random,
    ) {
        let own = code::encode(depth.packets(self.params.depth));
        self.tally.own_ecn = own;
        self.tally.max_own_ecn = self.tally.max_own_ecn.max(own);
        let packet = pool[slot];
        if packet.signal != Signal::NONE {
            self.write(slot, &packet, own, frames);
        }
        if self.params.l4s && packet.has_ds() && packet.ecn() == super::ecn::ECT_1 {
            self.tally.ect_1 += 1;
            let p = l4s::probability(own, self.saturation);
            let marked = match self.accumulators.get_mut(place) {
                Some(sum) if depth.per_flow => sum.marks(p),
                _ => p > 0 && (p >= l4s::ONE || u32::from(random.u16()) < p),
            };
            if marked && super::ecn::set_ce(&mut pool[slot]) {
                pool[slot].marks.add(Marks::MB_ECN);
                self.tally.marked_ce += 1;
            }
        }
    }

    /// Merges our codes into the two bytes of a recognised frame. Where they are is found anew, so
    /// that a frame that was changed in between is left alone.
    fn write(&mut self, slot: Slot, packet: &Packet, own: u8, frames: &mut dyn Frames) {
        let bytes = frames.bytes_mut(slot, packet);
        let ecn_at = match (packet.signal.carrier(), &self.params.dtp) {
            (Signal::OPTION, _) => option_at(packet, bytes),
            (Signal::DTP, Some(dtp)) => dtp::classify(bytes, &dtp.layout).ok().map(|c| c.ecn_at),
            _ => None,
        };
        let Some(ecn_at) = ecn_at else { return };
        let Changed { ecn, cap } = dtp::apply(bytes, ecn_at, own, self.own_cap);
        self.tally.carriers[usize::from(packet.signal.carrier() == Signal::OPTION)].marked += u64::from(ecn || cap);
        self.tally.marked_ecn += u64::from(ecn);
        self.tally.marked_cap += u64::from(cap);
        self.tally.unchanged += u64::from(!ecn && !cap);
    }

    /// Counters and state at `now`.
    pub fn stats(&self, now: Instant) -> Stats {
        Stats {
            params: self.params.clone(),
            tally: self.tally,
            own_cap: self.own_cap,
            learned: self.learner.learned(now),
        }
    }
}

/// Whether a packet that an AQM would drop is held back: the sender is told how deep the queue is by
/// the frame, and a drop would say no more (§5.6). The AQM goes on as after a mark.
pub fn hold_back(packet: &mut Packet) -> bool {
    let held_back = packet.signal.is_protected();
    if held_back {
        packet.marks.add(Marks::HELD_BACK);
    }
    held_back
}

/// Where the option's two bytes are in a frame.
fn option_at(packet: &Packet, bytes: &[u8]) -> Option<usize> {
    let offset = usize::from(packet.net_offset);
    hbh::find(bytes.get(offset..)?).map(|at| offset + at)
}

fn is(flow: &Flow, key: &Key) -> bool {
    (flow.src, flow.dst, flow.eid) == (key.src, key.dst, key.eid)
}

fn place(packet: &Packet) -> usize {
    (usize::from(packet.tin) * 1031 + packet.queue as usize) % PLACES
}

#[cfg(test)]
mod tests;

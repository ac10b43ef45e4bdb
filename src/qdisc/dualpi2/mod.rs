//! `dualpi2`: a classic and a low-latency queue under one PI controller (RFC 9332;
//! `spec/dualpi2.md`).
//!
//! The controller makes one base probability p′ from the larger delay of the two heads. Classic
//! packets are dropped or marked with p′², L4S packets are marked with k·p′, and above a step
//! threshold on their own delay always. A weighted scheduler prefers L and protects C.

mod controller;
mod params;

use super::{Cx, Handle, Observation, Qdisc, Reason};
use crate::classify::Headers;
use crate::mark::ecn;
use crate::packet::{Marks, Packet};
use crate::pipeline::Link;
use crate::pool::{Frame, Queue};
use crate::rng::Random;
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::{Instant, MICROSECOND};
use controller::Controller;
pub use controller::reported_gain;
pub use params::{EcnMask, LowLatency, Params, Stats, Step};

/// What is to become of a packet (`spec/dualpi2.md` §4), kept in [`Packet::tin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// C.
    Classic,
    /// L, under coupling and step.
    L4s,
    /// L, out of the AQM's reach.
    Exempt,
}

/// The classes' names and numbers in [`Packet::tin`].
pub const TINS: [(&str, usize); 3] =
    [("classic", Class::Classic as usize), ("l4s", Class::L4s as usize), ("exempt", Class::Exempt as usize)];

impl Class {
    fn of(tin: u8) -> Class {
        match tin {
            0 => Class::Classic,
            1 => Class::L4s,
            _ => Class::Exempt,
        }
    }
}

/// [`Packet::queue`]: bit 0 tells the queue, this bit that the step applies.
const STEP_APPLIES: u32 = 2;
/// [`Packet::queue`]: the packet was dropped here. The bits above hold the draws made until then,
/// modulo 2^29, and [`Packet::charged`] the credit: one call can drop several packets, and a trace
/// tells of each decision for itself.
const DROPPED: u32 = 4;
const DRAWS_SHIFT: u32 = 3;

/// One of the two queues. Packets and bytes are counted by their owner.
#[derive(Debug, Default)]
struct Lane {
    queue: Queue,
    /// When its first packet came.
    head: Option<Instant>,
}

impl Lane {
    fn push(&mut self, now: Instant, frame: Frame, cx: &mut Cx<'_>) {
        self.queue.push(cx.pool, frame);
        self.head.get_or_insert(now);
    }

    fn pop(&mut self, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = self.queue.pop(cx.pool)?;
        self.head = self.queue.front().map(|s| cx.pool[s].enqueued);
        Some(frame)
    }

    fn delay(&self, now: Instant) -> u64 {
        self.head.map_or(0, |t| now.since(t))
    }
}

/// `dualpi2` at work.
#[derive(Debug)]
pub struct Dualpi2 {
    params: Params,
    handle: Handle,
    mtu: u32,
    memory_limit: u32,
    controller: Controller,
    c: Lane,
    l: Lane,
    basic: Basic,
    low: LowLatency,
    credit: i32,
    memory: u32,
    max_memory: u32,
    packets_in_c: u32,
    packets_in_l: u32,
    maxq: u32,
    ecn_mark: u32,
    step_marks: u32,
    draws: u64,
}

impl Dualpi2 {
    /// Empty queues on a link; `handle` is the major number by which priorities name a class.
    pub fn new(params: &Params, link: Link, handle: Handle) -> Self {
        let mut new = Dualpi2 {
            params: *params,
            handle,
            mtu: link.mtu,
            memory_limit: params.memory_limit(link.mtu),
            controller: params.controller(),
            c: Lane::default(),
            l: Lane::default(),
            basic: Basic::default(),
            low: LowLatency::default(),
            credit: 0,
            memory: 0,
            max_memory: 0,
            packets_in_c: 0,
            packets_in_l: 0,
            maxq: 0,
            ecn_mark: 0,
            step_marks: 0,
            draws: 0,
        };
        new.credit = new.credit_init();
        new
    }

    fn weights(&self) -> [i32; 2] {
        let c = i32::from(self.params.classic_protection);
        [c, 100 - c]
    }

    fn credit_init(&self) -> i32 {
        let [c, l] = self.weights();
        (self.mtu as i32).wrapping_mul(c - l)
    }

    fn classify(&self, packet: &Packet) -> Class {
        if packet.has_ds() && packet.ecn() & self.params.ecn_mask.bits() != 0 {
            return Class::L4s;
        }
        match self.handle.minor_of(packet.priority) {
            Some(1) => Class::L4s,
            Some(2) => Class::Exempt,
            _ => Class::Classic,
        }
    }

    /// The AQM's judgement (`spec/dualpi2.md` §7): whether the packet must go; if not, it may have
    /// been marked.
    fn must_drop(&mut self, packet: &mut Packet, random: &mut Random) -> bool {
        if self.basic.backlog < 2 * u64::from(self.mtu) {
            return false;
        }
        let mut roll = |p: u32| random.u32() <= p;
        let p = self.controller.prob;
        let coupled = u64::from(p) * u64::from(self.params.coupling_factor);
        let coupled_roll = u32::try_from(coupled);
        let capable = packet.ecn() != ecn::NOT_ECT;
        match (Class::of(packet.tin), coupled_roll) {
            (Class::Exempt, _) => return false,
            (Class::Classic, coupled) => {
                if !(roll(p) && roll(p)) {
                    return false;
                }
                if coupled.is_err() || !capable {
                    return true;
                }
            }
            (Class::L4s, Err(_)) => {
                if self.params.drop_on_overload && roll(p) && roll(p) {
                    return true;
                }
            }
            (Class::L4s, Ok(coupled)) => {
                if !roll(coupled) {
                    return false;
                }
                if !capable {
                    return true;
                }
            }
        }
        if ecn::set_ce(packet) {
            packet.marks.add(Marks::PI2);
            self.ecn_mark = self.ecn_mark.wrapping_add(1);
        }
        false
    }

    /// The step (`spec/dualpi2.md` §9): whether the packet from L must go; if not, it may have been
    /// marked. `self.low.qlen` no longer counts it.
    fn step(&mut self, now: Instant, packet: &mut Packet) -> bool {
        let beyond = match self.params.step {
            Step::Packets(n) => self.low.qlen > n,
            Step::Time(us) => now.since(packet.enqueued) > u64::from(us) * MICROSECOND,
        };
        if packet.queue & STEP_APPLIES == 0 || !beyond {
            return false;
        }
        if packet.ecn() == ecn::NOT_ECT {
            return true;
        }
        if ecn::set_ce(packet) {
            packet.marks.add(Marks::STEP);
            self.step_marks = self.step_marks.wrapping_add(1);
            self.ecn_mark = self.ecn_mark.wrapping_add(1);
        }
        false
    }

    fn drop(&mut self, frame: Frame, reason: Reason, cx: &mut Cx<'_>) {
        self.basic.drops += 1;
        self.draws = cx.random.draws32;
        let packet = &mut cx.pool[&frame];
        packet.queue = packet.queue & 1 | DROPPED | (self.draws as u32) << DRAWS_SHIFT;
        packet.charged = self.credit as u32;
        cx.drops.push(cx.pool, frame, reason);
    }

    /// The next packet by weight, and the credit it will change if it is delivered
    /// (`spec/dualpi2.md` §8).
    fn schedule(&mut self, cx: &mut Cx<'_>) -> Option<(Frame, i32)> {
        let [wc, wl] = self.weights();
        let (c_waits, l_waits) = (!self.c.queue.is_empty(), !self.l.queue.is_empty());
        let from_l = l_waits && (!c_waits || self.credit <= 0);
        let weight = match (from_l, c_waits) {
            (true, true) => wc,
            (false, true) if l_waits => -wl,
            (true, false) | (false, true) => 0,
            (false, false) => {
                self.credit = self.credit_init();
                return None;
            }
        };
        let frame = self.take(from_l, cx)?;
        let change = weight.wrapping_mul(cx.pool[&frame].len as i32);
        Some((frame, change))
    }

    /// Takes out the oldest packet of L, or of C, accounting included.
    fn take(&mut self, from_l: bool, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = if from_l { self.l.pop(cx)? } else { self.c.pop(cx)? };
        let packet = &cx.pool[&frame];
        self.basic.removed(packet.len);
        self.memory -= packet.truesize;
        if from_l {
            self.low.qlen -= 1;
            self.low.backlog -= u64::from(packet.len);
        }
        Some(frame)
    }

    fn run_controller(&mut self, now: Instant) {
        if self.controller.due(now) {
            self.controller.run(self.c.delay(now).max(self.l.delay(now)));
        }
    }
}

impl Qdisc for Dualpi2 {
    fn enqueue(&mut self, now: Instant, frame: Frame, _: &Headers, cx: &mut Cx<'_>) {
        if self.controller.next().is_none() {
            self.run_controller(now);
        }
        let class = self.classify(&cx.pool[&frame]);
        let packet = &mut cx.pool[&frame];
        packet.enqueued = now;
        packet.tin = class as u8;
        packet.queue = u32::from(class != Class::Classic);
        let (len, truesize) = (packet.len, packet.truesize);
        let over_memory = u64::from(self.memory) + u64::from(truesize) > u64::from(self.memory_limit);
        if self.basic.qlen >= self.params.limit || over_memory {
            self.basic.overlimits += 1;
            if class != Class::Classic {
                self.low.overlimits += 1;
            }
            let full = self.basic.qlen >= self.params.limit;
            self.drop(frame, if full { Reason::QueueFull } else { Reason::Memory }, cx);
            return;
        }
        if self.params.drop_enqueue && self.must_drop(packet, cx.random) {
            self.drop(frame, Reason::Aqm, cx);
            return;
        }
        self.memory += truesize;
        self.max_memory = self.max_memory.max(self.memory);
        self.maxq = self.maxq.max(self.basic.qlen);
        self.basic.queued(len);
        if class == Class::Classic {
            self.packets_in_c = self.packets_in_c.wrapping_add(1);
            self.c.push(now, frame, cx);
            return;
        }
        if class == Class::L4s && self.low.qlen >= self.params.min_qlen_step {
            cx.pool[&frame].queue |= STEP_APPLIES;
        }
        self.packets_in_l = self.packets_in_l.wrapping_add(1);
        self.low.qlen += 1;
        self.low.backlog += u64::from(len);
        self.l.push(now, frame, cx);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        loop {
            let (frame, change) = self.schedule(cx)?;
            let packet = &mut cx.pool[&frame];
            if !self.params.drop_enqueue && self.must_drop(packet, cx.random) {
                self.drop(frame, Reason::Aqm, cx);
                continue;
            }
            let from_l = packet.queue & 1 == 1;
            if from_l && self.step(now, packet) {
                self.low.drops += 1;
                self.drop(frame, Reason::Step, cx);
                continue;
            }
            packet.released = now;
            packet.charged = packet.len;
            self.credit = self.credit.wrapping_add(change);
            self.basic.sent_packets += 1;
            self.basic.sent_bytes += u64::from(packet.len);
            self.low.sent_packets += u64::from(from_l);
            self.draws = cx.random.draws32;
            return Some(frame);
        }
    }

    fn start(&mut self, now: Instant) {
        self.run_controller(now);
    }

    fn next_event(&self) -> Option<Instant> {
        self.controller.next()
    }

    fn tick(&mut self, now: Instant, _: &mut Cx<'_>) {
        self.run_controller(now);
    }

    counted_in!(basic);

    fn stats(&self, now: Instant) -> StageStats {
        StageStats::Dualpi2(Box::new(Stats {
            basic: self.basic,
            params: self.params,
            target_ns: self.controller.target,
            tupdate_ns: self.controller.tupdate,
            alpha: self.controller.alpha,
            beta: self.controller.beta,
            prob: self.controller.prob,
            runs: self.controller.runs,
            last_delay_ns: self.controller.last_delay,
            delay_c_ns: self.c.delay(now),
            delay_l_ns: self.l.delay(now),
            packets_in_c: self.packets_in_c,
            packets_in_l: self.packets_in_l,
            maxq: self.maxq,
            ecn_mark: self.ecn_mark,
            step_marks: self.step_marks,
            credit: self.credit,
            credit_init: self.credit_init(),
            memory_used: self.memory,
            max_memory_used: self.max_memory,
            memory_limit: self.memory_limit,
            l: self.low,
        }))
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Dualpi2(_) => Ok(()),
            other => Err(super::other_kind("dualpi2", other)),
        }
    }

    /// The controller goes on from where it is. What is beyond smaller limits leaves from the head of
    /// C first, then of L (`spec/dualpi2.md` §11).
    fn change(&mut self, stage: &Stage, link: Link, _: Instant, cx: &mut Cx<'_>) {
        let Stage::Dualpi2(p) = stage else { return };
        self.params = *p;
        self.mtu = link.mtu;
        self.memory_limit = p.memory_limit(link.mtu);
        self.controller.change(p.controller());
        while self.basic.qlen > self.params.limit || self.memory > self.memory_limit {
            let Some(frame) = self.take(self.c.queue.is_empty(), cx) else { break };
            self.drop(frame, Reason::Flushed, cx);
        }
    }

    fn observe(&self, packet: &Packet) -> Observation {
        let (credit, draws) = if packet.queue & DROPPED == 0 {
            (self.credit, self.draws)
        } else {
            let later = (self.draws as u32).wrapping_sub(packet.queue >> DRAWS_SHIFT) << DRAWS_SHIFT >> DRAWS_SHIFT;
            (packet.charged as i32, self.draws - u64::from(later))
        };
        Observation {
            queue: Some((packet.queue & 1).into()),
            prob: Some(self.controller.prob),
            credit: Some(credit),
            draws: Some(draws),
            ..Observation::default()
        }
    }
}

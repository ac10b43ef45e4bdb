//! CoDel's judgement of one queue (RFC 8289; `spec/codel.md` §1): deliver, mark or drop.
//!
//! It knows nothing of how packets are kept: a [`Source`] hands it the next one. `codel` and
//! `fq_codel` both run on it.

use crate::mark::{ecn, mb_ecn, sce};
use crate::packet::{Marks, Packet};
use crate::pool::Frame;
use crate::qdisc::{Compat, Cx, Reason};
use crate::time::Instant;

/// CoDel's clock: 32 bits of 1024 ns, compared by signed difference (`spec/codel.md` §1.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ticks(pub u32);

impl Ticks {
    /// `ce_threshold` that never applies.
    pub const DISABLED: Ticks = Ticks(0x7FFF_FFFF);

    /// The tick that contains a moment.
    pub fn at(now: Instant) -> Ticks {
        Ticks((now.as_nanos() >> 10) as u32)
    }

    /// A length of time given in microseconds.
    pub fn from_us(us: u32) -> Ticks {
        Ticks(((u64::from(us) * 1000) >> 10) as u32)
    }

    /// The length of time in microseconds, as the kernel reports it.
    pub fn as_us(self) -> u32 {
        (u64::from(self.0) * 1024 / 1000) as u32
    }

    /// Whether this moment is later than `other`.
    pub fn after(self, other: Ticks) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }

    fn after_eq(self, other: Ticks) -> bool {
        (self.0.wrapping_sub(other.0) as i32) >= 0
    }

    /// This moment, so much later.
    pub fn plus(self, by: Ticks) -> Ticks {
        Ticks(self.0.wrapping_add(by.0))
    }

    /// From `other` to this moment, modulo 2^32.
    pub fn minus(self, other: Ticks) -> Ticks {
        Ticks(self.0.wrapping_sub(other.0))
    }
}

/// What CoDel is told (`spec/codel.md` §1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Acceptable standing sojourn.
    pub target: Ticks,
    /// Width of the window of observation.
    pub interval: Ticks,
    /// No drops while the backlog is at most this many bytes.
    pub mtu: u32,
    /// Mark instead of drop.
    pub ecn: bool,
    /// Sojourn above which every packet that can be marked is marked.
    pub ce_threshold: Ticks,
    /// With a mask, only packets whose DS byte under the mask equals the selector.
    pub ce_threshold_selector: u8,
    /// See `ce_threshold_selector`; zero for all packets.
    pub ce_threshold_mask: u8,
    /// Sojourn above which ECT(0) becomes ECT(1).
    pub sce_threshold: Option<sce::Threshold>,
    /// Which kernel's limits on drops per call and on the shortest step apply.
    pub compat: Compat,
}

/// Drops per call at most, in newer kernels (`spec/codel.md` §1.6 step 3a).
const DROPS_PER_CALL: u32 = 256;

/// What CoDel remembers of one queue (`spec/codel.md` §1.3).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct State {
    /// Signals given in this episode.
    pub count: u32,
    /// `count` as this episode began.
    pub lastcount: u32,
    /// Whether the queue is in the dropping state.
    pub dropping: bool,
    inv: u16,
    first_above: Ticks,
    /// When the next signal is due.
    pub drop_next: Ticks,
    /// Sojourn of the packet examined last.
    pub ldelay: Ticks,
}

/// What all queues of a discipline share.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Largest packet examined, bytes.
    pub maxpacket: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Packets marked for their sojourn.
    pub ce_mark: u32,
    /// Packets made ECT(1) for their sojourn.
    pub sce_mark: u32,
}

/// Where the packets of a queue come from.
pub trait Source {
    /// Takes out the oldest packet, accounting included.
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Frame>;
    /// Bytes that the whole discipline holds now, without packets already taken.
    fn backlog(&self) -> u64;
    /// Accounts for a packet that was taken and is being dropped.
    fn dropping(&mut self, packet: &Packet);
}

/// (u64(v) · f) >> 32 (`spec/cake.md` §2).
fn scale(v: u32, f: u32) -> u32 {
    ((u64::from(v) * u64::from(f)) >> 32) as u32
}

impl State {
    /// One Newton step towards 1/sqrt(count) from the value before (`spec/codel.md` §1.4). There is
    /// no table: small counts are inaccurate, and that is part of the behaviour.
    fn newton(&mut self) {
        let x = u64::from(self.inv) << 16;
        let square = (x * x) >> 32;
        let v = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square));
        let v = ((v >> 2).wrapping_mul(x)) >> 31;
        self.inv = (v >> 16) as u16;
    }

    fn next_signal(&self, from: Ticks, law: &Law) -> Ticks {
        let step = scale(law.interval.0, u32::from(self.inv) << 16);
        let least = match law.compat {
            Compat::V6_12 => 0,
            Compat::Latest => 1,
        };
        from.plus(Ticks(step.max(least)))
    }

    /// Whether the queue has been above target for an interval (`spec/codel.md` §1.5). `backlog`
    /// does not contain the packet in question.
    fn ok_to_drop(&mut self, packet: Option<&Packet>, now: Ticks, backlog: u64, law: &Law, tally: &mut Tally) -> bool {
        let Some(packet) = packet else {
            self.first_above = Ticks(0);
            return false;
        };
        self.ldelay = now.minus(Ticks::at(packet.enqueued));
        tally.maxpacket = tally.maxpacket.max(packet.len);
        if !self.ldelay.after_eq(law.target) || backlog <= u64::from(law.mtu) {
            self.first_above = Ticks(0);
            return false;
        }
        if self.first_above == Ticks(0) {
            self.first_above = now.plus(law.interval);
            return false;
        }
        let above = now.after(self.first_above);
        if above {
            // The moment is over and only that counts from now on. Left where it was, it would lie in
            // the future again after 2^31 ticks, and CoDel would be silent for 37 minutes.
            let over = now.minus(Ticks(1));
            self.first_above = if over == Ticks(0) { now.minus(Ticks(2)) } else { over };
        }
        above
    }

    /// Takes the next packet that is to be delivered (`spec/codel.md` §1.6).
    pub fn dequeue(
        &mut self,
        now: Instant,
        law: &Law,
        tally: &mut Tally,
        source: &mut impl Source,
        cx: &mut Cx<'_>,
    ) -> Option<Frame> {
        let Some(first) = source.take(cx) else {
            self.first_above = Ticks(0);
            self.dropping = false;
            return None;
        };
        let clock = now;
        let now = Ticks::at(now);
        let mut head = Some(first);
        let above = self.judge(&head, now, law, tally, source, cx);
        if self.dropping {
            if !above {
                self.dropping = false;
            } else {
                head = self.signal_while_due(head, now, law, tally, source, cx);
            }
        } else if above {
            head = self.begin_episode(head, now, law, tally, source, cx);
        }
        let frame = head?;
        if self.ldelay.after(law.ce_threshold) && law.selects(&cx.pool[&frame]) && ecn::set_ce(&mut cx.pool[&frame]) {
            tally.ce_mark += 1;
            cx.pool[&frame].marks.add(Marks::CE_THRESHOLD);
        }
        if let Some(threshold) = law.sce_threshold {
            let packet = &mut cx.pool[&frame];
            tally.sce_mark += u32::from(threshold.apply(clock.since(packet.enqueued), packet, cx.random));
        }
        Some(frame)
    }

    fn judge(
        &mut self,
        head: &Option<Frame>,
        now: Ticks,
        law: &Law,
        tally: &mut Tally,
        source: &impl Source,
        cx: &Cx<'_>,
    ) -> bool {
        let packet = head.as_ref().map(|f| &cx.pool[f]);
        self.ok_to_drop(packet, now, source.backlog(), law, tally)
    }

    fn signal_while_due(
        &mut self,
        mut head: Option<Frame>,
        now: Ticks,
        law: &Law,
        tally: &mut Tally,
        source: &mut impl Source,
        cx: &mut Cx<'_>,
    ) -> Option<Frame> {
        let mut signals = 0;
        while self.dropping && now.after_eq(self.drop_next) {
            let frame = head.take()?;
            if law.compat == Compat::Latest && signals == DROPS_PER_CALL {
                self.drop_next = self.next_signal(now, law);
                return Some(frame);
            }
            signals += 1;
            self.count = self.count.wrapping_add(1);
            self.newton();
            if mark_instead(law, tally, &frame, cx) {
                self.drop_next = self.next_signal(self.drop_next, law);
                return Some(frame);
            }
            head = drop_and_take(frame, source, cx);
            if self.judge(&head, now, law, tally, source, cx) {
                self.drop_next = self.next_signal(self.drop_next, law);
            } else {
                self.dropping = false;
            }
        }
        head
    }

    fn begin_episode(
        &mut self,
        head: Option<Frame>,
        now: Ticks,
        law: &Law,
        tally: &mut Tally,
        source: &mut impl Source,
        cx: &mut Cx<'_>,
    ) -> Option<Frame> {
        let frame = head?;
        let head = if mark_instead(law, tally, &frame, cx) {
            Some(frame)
        } else {
            let next = drop_and_take(frame, source, cx);
            // Only for what it notes: the sojourn, and whether the queue is still above.
            self.judge(&next, now, law, tally, source, cx);
            next
        };
        self.dropping = true;
        // Where the last episode left off, if it was recent (RFC 8289 §4.2, not as its pseudocode).
        let delta = self.count.wrapping_sub(self.lastcount);
        let window = law.interval.0.wrapping_mul(16);
        let since = now.minus(self.drop_next).0;
        if delta > 1 && (since.wrapping_sub(window) as i32) < 0 {
            self.count = delta;
            self.newton();
        } else {
            self.count = 1;
            self.inv = u16::MAX;
        }
        self.lastcount = self.count;
        self.drop_next = self.next_signal(now, law);
        head
    }
}

impl Law {
    fn selects(&self, packet: &Packet) -> bool {
        self.ce_threshold_mask == 0
            || packet.has_ds() && packet.ds & self.ce_threshold_mask == self.ce_threshold_selector
    }
}

fn mark_instead(law: &Law, tally: &mut Tally, frame: &Frame, cx: &mut Cx<'_>) -> bool {
    let packet = &mut cx.pool[frame];
    if mb_ecn::hold_back(packet) {
        return true;
    }
    if !law.ecn || !ecn::set_ce(packet) {
        return false;
    }
    packet.marks.add(Marks::ECN);
    tally.ecn_mark += 1;
    true
}

fn drop_and_take(frame: Frame, source: &mut impl Source, cx: &mut Cx<'_>) -> Option<Frame> {
    source.dropping(&cx.pool[&frame]);
    cx.drops.push(cx.pool, frame, Reason::Aqm);
    source.take(cx)
}

#[cfg(test)]
mod tests;

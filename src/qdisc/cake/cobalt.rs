//! COBALT's judgement of one queue: CoDel with BLUE beside it (`spec/cake.md` §13).

use super::params::MinOccupancy;
use crate::mark::{ecn, mb_ecn};
use crate::packet::Packet;
use crate::qdisc::{Compat, Reason};
use crate::rng::Random;

/// What COBALT is told, ns.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Law {
    /// Acceptable standing sojourn.
    pub target: u64,
    /// Width of the window of observation.
    pub interval: u64,
    /// Time of the largest packet at the tin's rate.
    pub mtu_time: u64,
}

impl Law {
    /// Stretched where one packet takes long (`spec/cake.md` §5.3).
    pub(super) fn new(target: u64, interval: u64, mtu_time: u64) -> Self {
        let stretched = (mtu_time.saturating_mul(3) / 2).max(target);
        let interval = interval.saturating_add(stretched - target).max(stretched.saturating_mul(2));
        Law { target: stretched, interval, mtu_time }
    }

    /// Whether a sojourn is over what is acceptable under a rule, with `bulk` flows in the tin
    /// (`spec/cake.md` §13.2); all comparisons strict.
    #[inline]
    pub(super) fn is_over(&self, sojourn: u64, rule: MinOccupancy, bulk: u32) -> bool {
        if sojourn <= self.target {
            return false;
        }
        let flows = self.mtu_time.wrapping_mul(bulk.into());
        match rule {
            MinOccupancy::Kernel => sojourn > flows.wrapping_mul(2) && sojourn > self.mtu_time.wrapping_mul(4),
            MinOccupancy::None => true,
            MinOccupancy::OneMtu => sojourn > self.mtu_time,
            MinOccupancy::TwoMtu => sojourn > self.mtu_time.wrapping_mul(2),
            MinOccupancy::FourMtu => sojourn > self.mtu_time.wrapping_mul(4),
            MinOccupancy::TwoMtuFlows => sojourn > flows.wrapping_mul(2),
            MinOccupancy::FourMtuFlows => sojourn > flows.wrapping_mul(4),
            MinOccupancy::Or => sojourn > flows.wrapping_mul(2) || sojourn > self.mtu_time.wrapping_mul(4),
        }
    }
}

/// Steps of BLUE's probability, units of 2^−32.
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;

/// 1/√count in units of 2^−32, for the counts where a Newton step would be too coarse.
const INVERSE_ROOTS: [u32; 16] = [
    4_294_967_295,
    4_294_967_295,
    3_037_000_500,
    2_479_700_525,
    2_147_483_647,
    1_920_767_767,
    1_753_413_056,
    1_623_345_051,
    1_518_500_250,
    1_431_655_765,
    1_358_187_914,
    1_294_981_364,
    1_239_850_263,
    1_191_209_601,
    1_147_878_294,
    1_108_955_788,
];

/// What COBALT remembers of one queue; it is inherited by whatever flow uses the queue next. Times
/// are ns on cake's own clock.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Vars {
    /// When the next signal is due.
    pub drop_next: i64,
    /// When BLUE's probability last moved.
    pub blue_timer: i64,
    /// Signals given in this episode.
    pub count: u32,
    inv: u32,
    /// BLUE's probability, units of 2^−32.
    pub p_drop: u32,
    /// Whether the queue is over its target.
    pub dropping: bool,
}

/// What is to become of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    /// Drop it, and why.
    pub(super) drop: Option<Reason>,
    /// It was marked.
    pub(super) marked: bool,
}

/// (u64(u32(v)) · f) >> 32: the interval is cut to 32 bits (`spec/cake.md` §13.3).
fn scale(v: u64, f: u32) -> i64 {
    ((u64::from(v as u32) * u64::from(f)) >> 32) as i64
}

impl Vars {
    fn update_inverse_root(&mut self) {
        self.inv = match INVERSE_ROOTS.get(self.count as usize) {
            Some(&inv) => inv,
            None => {
                let inv = u64::from(self.inv);
                let square = (inv * inv) >> 32;
                let v = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
                (v.wrapping_mul(inv) >> 31) as u32
            }
        };
    }

    /// Judges the packet at the head of the queue (`spec/cake.md` §13.2); `over` is
    /// [`Law::is_over`] of its sojourn.
    #[inline]
    pub(super) fn judge(
        &mut self,
        now: i64,
        over: bool,
        law: &Law,
        packet: &mut Packet,
        random: &mut Random,
        compat: Compat,
    ) -> Verdict {
        // A queue at rest, the common case: nothing is due, nothing to decay, nothing to draw.
        if !over && self.count == 0 && self.p_drop == 0 {
            self.dropping = false;
            self.drop_next = now.wrapping_add(law.interval as i64);
            return Verdict { drop: None, marked: false };
        }
        self.judge_busy(now, over, law, packet, random, compat)
    }

    #[inline(never)]
    fn judge_busy(
        &mut self,
        now: i64,
        over: bool,
        law: &Law,
        packet: &mut Packet,
        random: &mut Random,
        compat: Compat,
    ) -> Verdict {
        let mut verdict = Verdict { drop: None, marked: false };
        let mut sched = now.wrapping_sub(self.drop_next);
        let mut due = self.count != 0 && sched >= 0;
        if over {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = now.wrapping_add(scale(law.interval, self.inv));
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            verdict.marked = ecn::set_ce(packet);
            if !verdict.marked && !mb_ecn::hold_back(packet) {
                verdict.drop = Some(Reason::Aqm);
            }
            self.count = self.count.saturating_add(1);
            self.step(law);
            sched = now.wrapping_sub(self.drop_next);
        } else {
            while due {
                self.count -= 1;
                self.step(law);
                sched = now.wrapping_sub(self.drop_next);
                due = self.count != 0 && sched >= 0;
            }
        }
        // Older kernels draw for a packet that CoDel has condemned already.
        if self.p_drop != 0
            && (verdict.drop.is_none() || compat == Compat::V6_12)
            && random.u32() < self.p_drop
            && !mb_ecn::hold_back(packet)
        {
            verdict.drop.get_or_insert(Reason::Flood);
        }
        if self.count == 0 {
            self.drop_next = now.wrapping_add(law.interval as i64);
        } else if sched > 0 && verdict.drop.is_none() {
            self.drop_next = now;
        }
        verdict
    }

    fn step(&mut self, law: &Law) {
        self.update_inverse_root();
        self.drop_next = self.drop_next.wrapping_add(scale(law.interval, self.inv));
    }

    /// The queue was found empty (`spec/cake.md` §13.4). Gives whether BLUE went quiet, and whether
    /// nothing is left to decay, so that the queue can be forgotten.
    #[inline]
    pub(super) fn found_empty(&mut self, now: i64, law: &Law) -> (bool, bool) {
        let quiet = (self.count != 0 || self.p_drop != 0) && self.decay(now, law);
        self.dropping = false;
        (quiet, self.p_drop == 0 && self.count == 0 && now >= self.drop_next)
    }

    #[inline(never)]
    fn decay(&mut self, now: i64, law: &Law) -> bool {
        let mut quiet = false;
        if self.p_drop != 0 && now.wrapping_sub(self.blue_timer) > law.target as i64 {
            self.p_drop = self.p_drop.saturating_sub(BLUE_DOWN);
            self.blue_timer = now;
            quiet = self.p_drop == 0;
        }
        if self.count != 0 && now.wrapping_sub(self.drop_next) >= 0 {
            self.count -= 1;
            self.step(law);
        }
        quiet
    }

    /// A packet of the queue is about to be dropped for want of memory (`spec/cake.md` §13.5). Gives
    /// whether BLUE became active.
    pub(super) fn queue_full(&mut self, now: i64, law: &Law) -> bool {
        let mut active = false;
        if now.wrapping_sub(self.blue_timer) > law.target as i64 {
            active = self.p_drop == 0;
            self.p_drop = self.p_drop.saturating_add(BLUE_UP);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        active
    }
}

#[cfg(test)]
#[path = "cobalt_tests.rs"]
mod tests;

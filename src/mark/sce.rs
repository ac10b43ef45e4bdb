//! SCE, "some congestion experienced": ECT(0) becomes ECT(1) above a sojourn, a hint to slow down a
//! little that a later CE overrides.
//!
//! **Do not mix it with L4S.** There ECT(1) is no mark but the name under which a scalable sender asks
//! for the low-latency queue (RFC 9331): a packet marked here would be taken for one at the next
//! L4S bottleneck and overtake its own flow, and an L4S sender's packets would read as marked to an
//! SCE receiver. So `sce_threshold` is refused beside `dualpi2` and beside a
//! `ce_threshold_selector` that picks out ECT(1).

use super::ecn::{CE, ECT_0, ECT_1};
use crate::packet::{Marks, Packet};
use crate::rng::Random;
use crate::time::MICROSECOND;

/// From which sojourn on packets are marked: always above `high`, never up to `low`, with a
/// probability that rises linearly between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold {
    low_us: u32,
    high_us: u32,
}

impl Threshold {
    /// Every packet with a longer sojourn, in µs.
    pub const fn step(us: u32) -> Self {
        Threshold { low_us: us, high_us: us }
    }

    /// A ramp between two sojourns, in µs; `None` unless `high_us` is the longer.
    pub fn ramp(low_us: u32, high_us: u32) -> Option<Self> {
        (low_us < high_us).then_some(Threshold { low_us, high_us })
    }

    /// The sojourn up to which nothing is marked, µs.
    pub const fn low_us(self) -> u32 {
        self.low_us
    }

    /// The sojourn above which everything is marked, µs; [`Threshold::low_us`] if there is no ramp.
    pub const fn high_us(self) -> u32 {
        self.high_us
    }

    /// Marks a packet that is about to be delivered after `sojourn` nanoseconds, if it is due and
    /// ECT(0). Gives whether it did. A number is drawn only for a packet inside the ramp, so a step
    /// leaves every other rule's random numbers as they were.
    pub fn apply(self, sojourn: u64, packet: &mut Packet, random: &mut Random) -> bool {
        if !packet.has_ds() || packet.ecn() != ECT_0 || !self.is_due(sojourn, random) {
            return false;
        }
        packet.ds = packet.ds & !CE | ECT_1;
        packet.marks.add(Marks::SCE);
        true
    }

    fn is_due(self, sojourn: u64, random: &mut Random) -> bool {
        let [low, high] = [self.low_us, self.high_us].map(|us| u64::from(us) * MICROSECOND);
        if sojourn <= low {
            return false;
        }
        if sojourn > high {
            return true;
        }
        // draw / 2^32 < (sojourn − low) / (high − low)
        u128::from(random.u32()) * u128::from(high - low) < u128::from(sojourn - low) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::ecn::NOT_ECT;
    use crate::packet::Network;

    fn packet(ecn: u8) -> Packet {
        Packet { network: Network::V4, ds: 0b1011_1000 | ecn, ..Packet::default() }
    }

    #[test]
    fn only_ect_0_is_marked_and_nothing_but_its_ecn_field_changes() {
        let mut random = Random::seeded(1);
        let after = [NOT_ECT, ECT_1, ECT_0, CE].map(|ecn| {
            let mut p = packet(ecn);
            let marked = Threshold::step(1000).apply(2 * 1_000_000, &mut p, &mut random);
            (marked, p.dscp(), p.ecn(), p.marks.has(Marks::SCE))
        });
        assert_eq!(after, [(false, 46, 0, false), (false, 46, 1, false), (true, 46, 1, true), (false, 46, 3, false)]);
        let mut arp = Packet { network: Network::Arp, ds: ECT_0, ..Packet::default() };
        assert!(!Threshold::step(0).apply(1, &mut arp, &mut random));
        assert_eq!(random.draws32, 0);
    }

    #[test]
    fn a_step_marks_strictly_above_its_time() {
        let mut random = Random::seeded(1);
        let marked = [999_999, 1_000_000, 1_000_001].map(|sojourn| {
            let mut p = packet(ECT_0);
            Threshold::step(1000).apply(sojourn, &mut p, &mut random)
        });
        assert_eq!(marked, [false, false, true]);
    }

    #[test]
    fn a_ramp_marks_in_proportion_and_draws_only_inside_and_only_for_ect_0() {
        let ramp = Threshold::ramp(1000, 5000).unwrap();
        let mut random = Random::seeded(7);
        let n = 100_000;
        for (ms, share) in [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75), (6, 1.0)] {
            let marked = (0..n).filter(|_| ramp.apply(ms * 1_000_000, &mut packet(ECT_0), &mut random)).count() as f64;
            // Five standard deviations of a binomial share.
            let slack = 5.0 * (share * (1.0 - share) / n as f64).sqrt();
            assert!((marked / n as f64 - share).abs() <= slack, "{ms} ms: {marked} of {n}");
        }
        assert_eq!(random.draws32, 3 * n);
        ramp.apply(3_000_000, &mut packet(ECT_1), &mut random);
        assert_eq!(random.draws32, 3 * n);
    }

    #[test]
    fn a_ramp_needs_two_different_ends() {
        assert_eq!(Threshold::ramp(5, 5), None);
        assert_eq!(Threshold::ramp(6, 5), None);
    }
}

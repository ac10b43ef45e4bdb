//! When the next byte may leave: virtual clocks instead of a bucket (`spec/cake.md` §5.1, §11).

use crate::time::SECOND;
use crate::units::Rate;

/// Time per byte in the kernel's fixed point.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds per byte, scaled by 2^shift; zero if there is no rate.
    pub ns: u64,
    /// Binary places of `ns`.
    pub shift: u16,
}

impl Pace {
    /// The pair for a rate; below 64 bytes per second it is that of 64.
    pub fn new(rate: Rate) -> Self {
        if rate.is_zero() {
            return Pace::default();
        }
        let mut shift = 34;
        let mut ns = (SECOND << shift) / rate.bytes_per_second().max(64);
        while ns >= 1 << 34 {
            ns >>= 1;
            shift -= 1;
        }
        Pace { ns, shift }
    }

    /// How long `bytes` take, ns.
    #[inline]
    pub fn time(&self, bytes: u32) -> u64 {
        (u64::from(bytes).wrapping_mul(self.ns)) >> self.shift
    }
}

/// The quantum of a flow at a rate, bytes (`spec/cake.md` §5.1).
pub(super) fn flow_quantum(rate: Rate) -> u16 {
    if rate.is_zero() { 1514 } else { (rate.bytes_per_second() >> 12).clamp(300, 1514) as u16 }
}

/// The two clocks that pace the whole. Both must be in the future to hold a packet back: drops in
/// ingress mode move only the first, and cannot block sending for long.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Shaper {
    pub(super) pace: Pace,
    pub(super) time_next: i64,
    pub(super) failsafe_next: i64,
}

impl Shaper {
    /// No rate at all.
    pub(super) fn is_unlimited(&self) -> bool {
        self.pace.ns == 0
    }

    pub(super) fn is_throttled(&self, now: i64) -> bool {
        self.time_next > now && self.failsafe_next > now
    }

    /// When it will be worth asking again.
    pub(super) fn wake(&self) -> i64 {
        self.time_next.min(self.failsafe_next)
    }

    /// A packet comes to an idle shaper: what was not used is forgotten.
    pub(super) fn resume(&mut self, now: i64) {
        if self.time_next < now {
            self.time_next = now;
            self.failsafe_next = now;
        }
    }

    /// Charges `bytes` to the clocks, and to that of its tin, which paces itself by `tin`.
    #[inline]
    pub(super) fn charge(&mut self, tin: &Pace, tin_next: &mut i64, bytes: u32, now: i64, dropped: bool) {
        if self.is_unlimited() {
            return;
        }
        let tin_time = tin.time(bytes) as i64;
        if *tin_next < now {
            *tin_next += tin_time;
        } else if *tin_next < now + tin_time {
            *tin_next = now + tin_time;
        }
        let time = self.pace.time(bytes) as i64;
        self.time_next += time;
        if !dropped {
            self.failsafe_next += time + (time >> 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(n: u64) -> Rate {
        Rate::from_bits_per_second(n * 1_000_000)
    }

    #[test]
    fn the_fixed_point_pairs_are_those_of_the_specification() {
        for (rate, ns, shift) in [
            (mbit(1), 16_777_216_000, 21),
            (mbit(10), 13_421_772_800, 24),
            (mbit(100), 10_737_418_240, 27),
            (mbit(1000), 8_589_934_592, 30),
            (mbit(10_000), 13_743_895_347, 34),
        ] {
            assert_eq!(Pace::new(rate), Pace { ns, shift });
        }
        assert_eq!(Pace::new(Rate::from_bytes_per_second(1)), Pace::new(Rate::from_bytes_per_second(64)));
    }

    #[test]
    fn a_hundred_megabit_charge_moves_each_clock_by_its_own_measure() {
        let pace = Pace::new(mbit(100));
        let t0 = 1_000_000_000;
        let mut shaper = Shaper { pace, time_next: t0, failsafe_next: t0 };
        let mut tin = t0;
        shaper.charge(&pace, &mut tin, 1514, t0, false);
        assert_eq!((shaper.time_next, shaper.failsafe_next, tin), (t0 + 121_120, t0 + 181_680, t0 + 121_120));
        assert!(shaper.is_throttled(t0 + 121_119));
        assert!(!shaper.is_throttled(t0 + 121_120));
        assert_eq!(pace.time(60), 4_800);
        assert_eq!(pace.time(1538), 123_040);
    }

    #[test]
    fn a_dropped_packet_leaves_the_failsafe_clock_alone() {
        let pace = Pace::new(mbit(100));
        let mut shaper = Shaper { pace, ..Shaper::default() };
        let mut tin = 0;
        shaper.charge(&pace, &mut tin, 1514, 0, true);
        assert_eq!((shaper.time_next, shaper.failsafe_next), (121_120, 0));
    }

    #[test]
    fn time_per_byte_stays_within_two_to_the_minus_sixteen_of_the_rational() {
        for exponent in 6..36 {
            for bytes_per_second in [1u64 << exponent, (1u64 << exponent) * 3 / 2 + 1] {
                let pace = Pace::new(Rate::from_bytes_per_second(bytes_per_second));
                let exact = 65_536 * 1_000_000_000u128 / u128::from(bytes_per_second);
                let got = u128::from(pace.time(65_536));
                assert!(got <= exact && exact - got <= 1 + (exact >> 16), "{bytes_per_second} B/s");
            }
        }
    }
}

//! The code for unmodified Internet hosts: ECT(1) becomes CE with a probability that says the same
//! (`spec/mb-ecn.md` §8.2).

use super::code::encode;
use crate::units::Rate;

/// 2^(k/4) in units of 1/256, rounded.
const QUARTERS: [u64; 4] = [256, 304, 362, 431];

/// Certainty.
pub const ONE: u32 = 1 << 16;

/// The waiting time at which every packet is marked, µs, if nothing else is said.
pub const DEFAULT_SATURATION: u32 = 5000;

/// The code from which every packet is marked: that of eight packets, or of 5 ms at `rate` in
/// packets of 1514 bytes if that is more.
pub fn saturation(rate: Rate) -> u8 {
    saturation_at(rate, DEFAULT_SATURATION)
}

/// The same for another time, µs.
pub fn saturation_at(rate: Rate, us: u32) -> u8 {
    let packets = u128::from(rate.bytes_per_second()) * u128::from(us) / (1_000_000 * 1514);
    encode(u64::try_from(packets).unwrap_or(u64::MAX)).max(12)
}

/// The probability of a mark at a code, in units of 2^−16: certain from the saturation code on, half
/// of that for each four codes below, none for code 0.
pub fn probability(code: u8, saturation: u8) -> u32 {
    if code == 0 {
        return 0;
    }
    let Some(below) = saturation.checked_sub(code) else { return ONE };
    let halvings = below.div_ceil(4);
    let quarter = usize::from(4 * halvings - below);
    ((QUARTERS[quarter] << 8) >> halvings) as u32
}

/// Marks spread as evenly as the probability allows: `N` packets resolve `1/N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accumulator(u32);

impl Accumulator {
    /// Whether the next packet is marked, at a probability in units of 2^−16.
    pub fn marks(&mut self, probability: u32) -> bool {
        self.0 += probability;
        let due = self.0 >= ONE;
        if due {
            self.0 -= ONE;
        }
        due
    }
}

//! Randomness as an argument: a run with a seed is the same run everywhere.

/// The splitmix64 generator: one 64-bit word of state, every seed good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that starts from `seed`.
    pub const fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Where a discipline's random numbers come from. Draws are counted, so that a recorded run can
/// be compared draw for draw.
#[derive(Clone, Debug)]
pub struct Random {
    generator: SplitMix64,
    fixed16: Option<u16>,
    fixed32: Option<u32>,
    /// 16-bit numbers asked for so far.
    pub draws16: u64,
    /// 32-bit numbers asked for so far.
    pub draws32: u64,
}

impl Random {
    /// Both widths from one seeded generator.
    pub const fn seeded(seed: u64) -> Self {
        Random { generator: SplitMix64::new(seed), fixed16: None, fixed32: None, draws16: 0, draws32: 0 }
    }

    /// The same two numbers for ever: how most recorded scenarios were made.
    pub const fn constant(u16: u16, u32: u32) -> Self {
        Random::seeded(0).fix16(u16).fix32(u32)
    }

    /// Answers each 16-bit draw with `value` instead of asking the generator.
    pub const fn fix16(mut self, value: u16) -> Self {
        self.fixed16 = Some(value);
        self
    }

    /// Answers each 32-bit draw with `value` instead of asking the generator.
    pub const fn fix32(mut self, value: u32) -> Self {
        self.fixed32 = Some(value);
        self
    }

    /// A uniform 16-bit number.
    pub fn u16(&mut self) -> u16 {
        self.draws16 += 1;
        match self.fixed16 {
            Some(v) => v,
            None => (self.generator.next_u64() >> 48) as u16,
        }
    }

    /// A uniform 32-bit number.
    pub fn u32(&mut self) -> u32 {
        self.draws32 += 1;
        match self.fixed32 {
            Some(v) => v,
            None => (self.generator.next_u64() >> 32) as u32,
        }
    }

    /// A number from an exponential distribution with mean `mean`, cut off below, from one 64-bit draw.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        (-(1.0 - self.unit()).ln() * mean as f64) as u64
    }

    /// A uniform number from 0 to below 1, from one 64-bit draw.
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniform 64-bit number, always from the generator (weir's own rules, never the kernel's).
    pub fn u64(&mut self) -> u64 {
        self.generator.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_follows_its_published_sequence() {
        let mut g = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| g.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_fixed_width_does_not_move_the_generator() {
        let mut fed = Random::seeded(7).fix16(1);
        let mut plain = Random::seeded(7);
        fed.u16();
        assert_eq!(fed.u32(), plain.u32());
        assert_eq!((fed.draws16, fed.draws32), (1, 1));
    }
}

//! Rates and sizes that wear their unit, and the one place where a rate becomes a duration.

use std::fmt;

/// A rate in **bytes** per second. `tc` writes bits and stores bytes; so do we.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u64);

impl Rate {
    /// A rate of so many bytes per second.
    pub const fn from_bytes_per_second(n: u64) -> Self {
        Rate(n)
    }

    /// A rate of so many bits per second, cut to whole bytes as `tc` does.
    pub const fn from_bits_per_second(n: u64) -> Self {
        Rate(n / 8)
    }

    /// Bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// Nanoseconds that as many bytes take at this rate as take `nanos` at `other`; a debt stays one.
    pub fn time_of(self, nanos: i64, other: Rate) -> i128 {
        i128::from(nanos) * i128::from(other.0) / i128::from(self.0.max(1))
    }

    /// The lower of two rates of which either may be missing.
    pub fn lower(a: Option<Rate>, b: Option<Rate>) -> Option<Rate> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Zero stands for "no limit" wherever a discipline allows that.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Between which two rates another may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateRange {
    /// The lowest.
    pub min: Rate,
    /// The highest.
    pub max: Rate,
}

/// A number of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A share between nothing and all, in units of 1/(2^32 − 1): how `netem` keeps its percentages
/// (`spec/netem.md` §1).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fraction(pub u32);

impl Fraction {
    /// All.
    pub const ALL: Fraction = Fraction(u32::MAX);

    /// The nearest to a share of 0…1, half to even.
    pub fn from_ratio(share: f64) -> Self {
        Fraction((share * f64::from(u32::MAX)).round_ties_even() as u32)
    }

    /// The share, 0…1.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(u32::MAX)
    }

    /// What is missing to all.
    pub const fn rest(self) -> Self {
        Fraction(u32::MAX - self.0)
    }
}

/// An integer in C's notation: decimal, `0x…`, `0…`, with an optional sign.
pub fn c_integer(word: &str) -> Option<i64> {
    let (sign, body) = match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let (digits, base) = match body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if body.len() > 1 && body.starts_with('0') => (&body[1..], 8),
        None => (body, 10),
    };
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    i64::from_str_radix(digits, base).ok().map(|v| v * sign)
}

/// What a packet of some length costs on the link below: cells of ATM, or plain bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// Bytes as they are.
    #[default]
    Ethernet,
    /// 53 bytes on the wire for each 48 begun.
    Atm,
}

/// Time per byte of a shaper in the kernel's fixed point, with its length adjustment:
/// `spec/codel.md` §5 (used by `tbf` and `htb`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ByteTime {
    rate: Rate,
    /// Nanoseconds per byte, scaled by 2^shift.
    pub mult: u32,
    /// Binary places of `mult`.
    pub shift: u8,
    /// Bytes added to each packet.
    pub overhead: u16,
    /// Smallest length charged, in bytes.
    pub mpu: u16,
    /// Cell framing.
    pub link_layer: LinkLayer,
}

impl ByteTime {
    /// The fixed-point pair for a rate. A rate of zero takes no time at all.
    pub fn new(rate: Rate, overhead: u16, mpu: u16, link_layer: LinkLayer) -> Self {
        let (mut mult, mut shift) = (1u32, 0u8);
        if !rate.is_zero() {
            let mut factor = crate::time::SECOND;
            loop {
                mult = (factor / rate.bytes_per_second()) as u32;
                if mult & (1 << 31) != 0 || factor & (1 << 63) != 0 {
                    break;
                }
                factor <<= 1;
                shift += 1;
            }
        }
        ByteTime { rate, mult, shift, overhead, mpu, link_layer }
    }

    /// The rate it was made for.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The length a packet of `len` bytes is charged as.
    pub fn charged(&self, len: u32) -> u32 {
        let len = (len + u32::from(self.overhead)).max(u32::from(self.mpu));
        match self.link_layer {
            LinkLayer::Ethernet => len,
            LinkLayer::Atm => len.div_ceil(48) * 53,
        }
    }

    /// Nanoseconds that a packet of `len` bytes takes, adjustment included.
    pub fn nanos(&self, len: u32) -> u64 {
        if self.rate.is_zero() {
            return 0;
        }
        (u64::from(self.charged(len)) * u64::from(self.mult)) >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_megabit_is_as_recorded_from_the_kernel() {
        let t = ByteTime::new(Rate::from_bits_per_second(10_000_000), 0, 0, LinkLayer::Ethernet);
        assert_eq!((t.mult, t.shift), (3_355_443_200, 22));
        assert_eq!(t.nanos(1514), 1_211_200);
    }

    #[test]
    fn fixed_point_stays_within_two_to_the_minus_sixteen_of_the_rational() {
        for bits in (3..39).map(|e| 1u64 << e).chain([1_000_000, 20_000_000, 400_000_000_000]) {
            let rate = Rate::from_bits_per_second(bits);
            let t = ByteTime::new(rate, 0, 0, LinkLayer::Ethernet);
            let bytes = 1_000_000_000u32;
            let exact = u128::from(bytes) * 1_000_000_000 / u128::from(rate.bytes_per_second());
            let got = (u128::from(bytes) * u128::from(t.mult)) >> t.shift;
            assert!(got.abs_diff(exact) <= exact >> 16, "{bits} bit/s: {got} for {exact}");
        }
    }

    #[test]
    fn cells_decide_for_small_packets() {
        let t = ByteTime::new(Rate::from_bits_per_second(8_000_000), 10, 0, LinkLayer::Atm);
        assert_eq!([28, 38, 39, 1478].map(|n| t.charged(n)), [53, 53, 106, 1643]);
    }
}

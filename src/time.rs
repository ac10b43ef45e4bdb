//! Points in time, as the core sees them: nanoseconds on a clock that somebody else reads.
//!
//! Nothing here asks what time it is. A driver (the live worker, a trace, a simulation) reads its
//! clock once and passes the result in; see `run/clock.rs` for the only place that does so live.

use std::fmt;
use std::ops::{Add, Sub};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds in a microsecond.
pub const MICROSECOND: u64 = 1_000;

/// A moment on the driver's monotonic clock, in nanoseconds since an origin of the driver's choice.
///
/// 64 bits last 584 years, so sums do not wrap in any run; subtraction saturates at zero because a
/// stamp taken elsewhere (the XDP hook) may be a little later than the reader's `now`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Instant = Instant(0);
    /// A moment that never comes.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The moment `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Nanoseconds from `other` to `self`, negative if `other` is later.
    pub const fn signed_since(self, other: Instant) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// This moment moved by a signed number of nanoseconds, clamped to the clock's range.
    pub const fn offset(self, nanos: i64) -> Instant {
        Instant(self.0.saturating_add_signed(nanos))
    }
}

impl Add<u64> for Instant {
    type Output = Instant;
    fn add(self, nanos: u64) -> Instant {
        Instant(self.0.saturating_add(nanos))
    }
}

impl Sub<u64> for Instant {
    type Output = Instant;
    fn sub(self, nanos: u64) -> Instant {
        Instant(self.0.saturating_sub(nanos))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / SECOND, self.0 % SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_later_than_now_counts_as_no_wait_at_all() {
        let now = Instant::from_nanos(5);
        assert_eq!(now.since(Instant::from_nanos(9)), 0);
        assert_eq!(now.signed_since(Instant::from_nanos(9)), -4);
    }

    #[test]
    fn the_end_of_time_is_not_passed() {
        assert_eq!(Instant::NEVER + 1, Instant::NEVER);
        assert_eq!(Instant::ZERO - 1, Instant::ZERO);
    }
}

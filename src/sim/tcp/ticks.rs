//! Timers that run on ticks, as those of a kernel do: never early, up to a tick late, and the later the coarser.
//!
//! Where a few packets share a queue that a round of service takes 40 ms for, whether a delayed acknowledgement
//! comes after 40 or 44 ms and a hole is repaired after 7 or 11 ms decides how long the link stands idle.

use crate::time::{Instant, MILLISECOND};

/// A tick, ns: 250 of them in a second, as distributions build Linux.
pub const TICK: u64 = 4 * MILLISECOND;
/// Waits below so many ticks are kept to the tick; each eight times as long, to eight times as many.
const FINE: u64 = 63;

/// When a timer that is set at `now` for `wait` ns goes off.
pub fn due(now: Instant, wait: u64) -> Instant {
    let ticks = wait.div_ceil(TICK);
    let mut grain = 1;
    while ticks >= FINE * grain && grain < 1 << 24 {
        grain *= 8;
    }
    let end = now.as_nanos() / TICK + ticks;
    Instant::from_nanos((end / grain + 1) * grain * TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(now: u64, wait: u64) -> u64 {
        due(Instant::from_nanos(now * MILLISECOND), wait * MILLISECOND).as_nanos() / MILLISECOND
    }

    #[test]
    fn a_timer_is_never_early_and_at_most_a_tick_late() {
        assert_eq!([ms(0, 40), ms(1, 40), ms(3, 40), ms(4, 40)], [44, 44, 44, 48]);
        assert_eq!([ms(0, 7), ms(3, 7)], [12, 12], "seven milliseconds are two ticks");
    }

    #[test]
    fn longer_waits_are_coarser() {
        assert_eq!([ms(0, 248), ms(0, 256)], [252, 288]);
        assert_eq!([ms(0, 2000), ms(0, 2100)], [2016, 2304]);
    }
}

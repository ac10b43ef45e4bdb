//! The only place that reads the clock.

use rustix::time::{ClockId, clock_gettime};

use crate::time::{Instant, SECOND};

/// Now, on `CLOCK_MONOTONIC`: the clock of the gate's stamps and of its heartbeat.
pub fn now() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(t.tv_sec as u64 * SECOND + t.tv_nsec as u64)
}

//! The link below a pipeline and the one timer above it, in virtual time: which of them is next, and when the pipeline is
//! asked again.

use crate::time::{Instant, SECOND};

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The link has sent what it had.
    Sent,
    /// The pipeline's timer is due.
    Tick,
}

/// A link and a timer.
pub(super) struct Line {
    /// Bits per second; `None` if it is never busy.
    bps: Option<u64>,
    busy_until: Option<Instant>,
    watchdog: Option<Instant>,
    /// When the watchdog fired last.
    ticked: Option<Instant>,
}

impl Line {
    /// An idle link of `bps`, below a pipeline whose first event is at `watchdog`.
    pub(super) fn new(bps: Option<u64>, watchdog: Option<Instant>) -> Line {
        Line { bps, busy_until: None, watchdog, ticked: None }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.busy_until.is_none()
    }

    /// When the timer is due.
    pub(super) fn watchdog(&self) -> Option<Instant> {
        self.watchdog
    }

    /// The next event before `until`, which has happened then. At one instant the link comes before the timer.
    pub(super) fn next(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let busy = self.busy_until.unwrap_or(Instant::NEVER);
        let watchdog = self.watchdog.unwrap_or(Instant::NEVER);
        let next = busy.min(watchdog);
        if next >= until {
            return None;
        }
        if busy <= watchdog {
            self.busy_until = None;
            return Some((next, Event::Sent));
        }
        self.watchdog = None;
        self.ticked = Some(next);
        Some((next, Event::Tick))
    }

    /// Takes a frame of `len` bytes.
    pub(super) fn send(&mut self, now: Instant, len: u32) {
        if let Some(bps) = self.bps {
            let nanos = u128::from(len) * 8 * u128::from(SECOND) / u128::from(bps);
            self.busy_until = Some(now + nanos as u64);
        }
    }

    /// Winds the timer up for the pipeline's next event. What is due at this very instant gets its turn now, once: after
    /// that, an idle link has just asked and a busy one asks when it is done.
    pub(super) fn wait_for(&mut self, next: Option<Instant>, now: Instant) {
        let turn_taken = self.ticked == Some(now);
        self.watchdog = next.map(|t| t.max(now)).filter(|t| *t > now || !turn_taken);
    }
}

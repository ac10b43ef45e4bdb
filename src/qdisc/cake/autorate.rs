//! The kernel's `autorate-ingress`: the rate follows what arrives (`spec/cake.md` §18).

use super::ewma;
use crate::time::{MILLISECOND, SECOND};
use crate::units::Rate;

/// What the estimator remembers; times are ns on cake's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Autorate {
    last_packet: i64,
    window_begin: i64,
    last_reconfigured: i64,
    average_gap: u64,
    window_bytes: u64,
    /// The estimate, bytes per second.
    pub(super) peak: u64,
}

impl Autorate {
    pub(super) fn new(rate: Rate) -> Self {
        Autorate { peak: rate.bytes_per_second(), ..Autorate::default() }
    }

    /// A packet came while the estimator is off.
    #[inline]
    pub(super) fn idle(&mut self, now: i64) {
        self.window_bytes = 0;
        self.last_packet = now;
    }

    /// A packet came: `change` bytes more are in the window. Gives a new rate if it is time for one;
    /// `limited` keeps 250 ms between two, as newer kernels do.
    pub(super) fn arrival(&mut self, now: i64, change: i64, limited: bool) -> Option<Rate> {
        self.window_bytes = self.window_bytes.wrapping_add_signed(change);
        let gap = (now.wrapping_sub(self.last_packet) as u64).min(SECOND);
        self.average_gap = ewma(self.average_gap, gap, if gap > self.average_gap { 2 } else { 8 });
        self.last_packet = now;
        if gap <= self.average_gap {
            return None;
        }
        let window = (now.wrapping_sub(self.window_begin) as u64).max(1);
        let rate = self.window_bytes.wrapping_mul(SECOND) / window;
        self.peak = ewma(self.peak, rate, if rate > self.peak { 2 } else { 8 });
        self.window_bytes = 0;
        self.window_begin = now;
        if now <= self.last_reconfigured + 250 * MILLISECOND as i64 {
            return None;
        }
        if limited {
            self.last_reconfigured = now;
        }
        Some(Rate::from_bytes_per_second(self.peak.wrapping_mul(15) >> 4))
    }
}

//! Reno (RFC 5681), and no control at all.

use super::{Ack, Cause, Control, Window};
use crate::time::Instant;

/// Additive increase by one packet a round trip, decrease by half.
pub(super) struct Reno;

impl Control for Reno {
    fn grow(&mut self, window: &mut Window, ack: &Ack) {
        let mut delivered = ack.delivered;
        if window.in_slow_start() {
            delivered = window.slow_start(delivered);
        }
        if delivered > 0 {
            window.count(window.cwnd, delivered);
        }
    }

    fn reduce(&mut self, window: &Window, _: Instant, _: Cause) -> u32 {
        (window.cwnd / 2).max(2)
    }
}

/// Bytes of data in a segment of a small stack (the default of RFC 9293 §3.7.1).
pub(in crate::sim) const SMALL_MSS: u32 = 536;

/// A window that never changes: no congestion control at all, as in small stacks of before 1988 and some since.
pub(super) struct Fixed;

/// The window of a small stack, segments: what its memory holds.
const SMALL: u32 = 6;

impl Control for Fixed {
    fn on_ack(&mut self, window: &mut Window, _: &Ack) {
        window.cwnd = SMALL;
    }

    fn grow(&mut self, window: &mut Window, _: &Ack) {
        window.cwnd = SMALL;
    }

    fn reduce(&mut self, _: &Window, _: Instant, _: Cause) -> u32 {
        SMALL
    }
}

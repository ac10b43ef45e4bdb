//! DCTCP (RFC 8257).

use super::{Ack, Cause, Control, Window};
use crate::sim::tcp::receiver::Echo;
use crate::time::Instant;

/// Weight of a round's fraction of marks (§4.2).
const G: f64 = 1.0 / 16.0;
/// An alpha below this decays to nothing.
const LEAST: f64 = 16.0 / 1024.0;

pub(super) struct Dctcp {
    alpha: f64,
    end: u64,
    delivered: u64,
    marked: u64,
}

impl Dctcp {
    pub(super) fn new() -> Self {
        Dctcp { alpha: 1.0, end: 0, delivered: 0, marked: 0 }
    }
}

impl Control for Dctcp {
    fn echo(&self) -> Echo {
        Echo::Exact
    }

    fn on_ack(&mut self, _: &mut Window, ack: &Ack) {
        self.delivered += u64::from(ack.delivered);
        self.marked += u64::from(ack.marked);
        if ack.una >= self.end && self.delivered > 0 {
            let fraction = self.marked as f64 / self.delivered as f64;
            // Linux keeps alpha in units of 1/1024 and cannot take a sixteenth of less than 16 of them.
            let kept = if self.alpha < LEAST { 0.0 } else { self.alpha * (1.0 - G) };
            self.alpha = (kept + G * fraction).min(1.0);
            (self.delivered, self.marked, self.end) = (0, 0, ack.nxt);
        }
    }

    fn grow(&mut self, window: &mut Window, ack: &Ack) {
        super::reno::Reno.grow(window, ack);
    }

    fn reduce(&mut self, window: &Window, _: Instant, cause: Cause) -> u32 {
        let cut = if cause == Cause::Mark { self.alpha } else { 1.0 };
        let cwnd = f64::from(window.cwnd);
        ((cwnd - (cwnd * cut / 2.0).floor()) as u32).max(2)
    }

    fn inner(&self) -> f64 {
        self.alpha
    }
}

//! A scalable control in Prague's manner (RFC 9331 §4, draft-briscoe-iccrg-prague-congestion-control):
//! DCTCP's response on ECT(1) and accurate ECN, paced, with Reno's fall on losses. Additive increase
//! goes on while marks arrive, for the packets that were not marked.

use super::{Ack, Bounds, Cause, Control, State, Window};
use crate::sim::tcp::HEADERS;
use crate::sim::tcp::receiver::Echo;
use crate::time::{Instant, MILLISECOND};

/// Weight of a round's fraction of marks.
const G: f64 = 1.0 / 16.0;

pub(super) struct Prague {
    mss: f64,
    alpha: f64,
    end: u64,
    delivered: u64,
    marked: u64,
    /// Parts of a packet that the last reduction left, and that unmarked packets earned since: a
    /// window of four that cannot go down by a tenth never finds its share.
    parts: f64,
    /// Whether any mark came: then slow start is over for good.
    seen: bool,
}

impl Prague {
    pub(super) fn new(mss: u32) -> Self {
        Prague { mss: f64::from(mss + HEADERS), alpha: 1.0, end: 0, delivered: 0, marked: 0, parts: 0.0, seen: false }
    }
}

impl Control for Prague {
    fn echo(&self) -> Echo {
        Echo::Accurate
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        self.delivered += u64::from(ack.delivered);
        self.marked += u64::from(ack.marked);
        self.seen |= ack.marked > 0;
        if ack.una >= self.end && self.delivered > 0 {
            let fraction = (self.marked as f64 / self.delivered as f64).min(1.0);
            if self.seen {
                self.alpha += G * (fraction - self.alpha);
            }
            (self.delivered, self.marked, self.end) = (0, 0, ack.nxt);
        }
        if ack.state == State::Cwr {
            let unmarked = ack.delivered.saturating_sub(ack.marked);
            self.parts += f64::from(unmarked) / f64::from(window.cwnd.max(1));
        }
        if ack.srtt > 0 {
            let gain = if window.in_slow_start() { 2.0 } else { 1.0 };
            let rate = f64::from(window.cwnd.max(1)) * self.mss * 1e9 / ack.srtt as f64;
            window.pacing = Some(gain * rate * 1.02);
        }
    }

    fn grow(&mut self, window: &mut Window, ack: &Ack) {
        let mut delivered = ack.delivered.saturating_sub(ack.marked);
        if window.in_slow_start() {
            delivered = window.slow_start(delivered);
        }
        if delivered > 0 {
            window.add(1.0 / f64::from(window.cwnd), delivered);
        }
    }

    fn reduce(&mut self, window: &Window, _: Instant, cause: Cause) -> u32 {
        let cut = if cause == Cause::Mark { self.alpha } else { 1.0 };
        let left = ((f64::from(window.cwnd) + window.credit) * (1.0 - cut / 2.0)).max(2.0);
        self.parts = left.fract();
        left as u32
    }

    fn on_state(&mut self, window: &mut Window, from: State, _: State) {
        if from == State::Cwr {
            window.add(std::mem::take(&mut self.parts), 1);
        }
    }

    /// No more than a quarter of a millisecond at the pace at once (draft §2.4.5).
    fn train(&self, _: &Window) -> Bounds {
        Bounds { worth: MILLISECOND / 4, least: 1, longer_when_near: false }
    }

    fn inner(&self) -> f64 {
        self.alpha
    }
}

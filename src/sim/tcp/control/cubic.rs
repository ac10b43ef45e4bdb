//! CUBIC (RFC 9438).

use super::hystart::{HyStart, SlowStart};
use super::{Ack, Cause, Control, State, Window};
use crate::time::Instant;

/// Multiplicative decrease (§4.6).
const BETA: f64 = 0.7;
/// Packets per second cubed (§5).
const C: f64 = 0.4;
/// Additive increase of the Reno estimate: 3 (1 − β) / (1 + β) (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Without a known maximum the window grows at least this fast: a packet for so many.
const EXPLORE: f64 = 20.0;
/// And never faster than by a packet for so many (§4.4: half as much again in a round trip).
const LEAST: f64 = 2.0;

pub(super) struct Cubic {
    w_max: f64,
    before: f64,
    epoch: Option<Epoch>,
    hystart: HyStart,
}

struct Epoch {
    began: Instant,
    /// Seconds until the plateau.
    k: f64,
    origin: f64,
    /// What Reno would have, packets.
    w_est: f64,
}

impl Cubic {
    pub(super) fn new(slow_start: SlowStart) -> Self {
        Cubic { w_max: 0.0, before: 0.0, epoch: None, hystart: HyStart::new(slow_start) }
    }
}

impl Control for Cubic {
    fn grow(&mut self, window: &mut Window, ack: &Ack) {
        let mut delivered = ack.delivered;
        if window.in_slow_start() {
            let divisor = self.hystart.on_ack(window, ack);
            if divisor > 1.0 {
                window.add(1.0 / divisor, delivered);
                return;
            }
            if window.in_slow_start() {
                delivered = window.slow_start(delivered);
            }
            if delivered == 0 {
                return;
            }
        }
        let cwnd = f64::from(window.cwnd);
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| {
            let (k, origin) = if w_max > cwnd { (((w_max - cwnd) / C).cbrt(), w_max) } else { (0.0, cwnd) };
            Epoch { began: ack.now, k, origin, w_est: cwnd }
        });
        // §4.4, §4.5: where the curve will be in a round trip.
        let t = (ack.now.since(epoch.began) + ack.min_rtt.min(1 << 40)) as f64 / 1e9;
        // In whole packets, as implementations without fractions have it: it matters below ten of them.
        let away = (C * (t - epoch.k).abs().powi(3)).floor();
        let curve = if t < epoch.k { epoch.origin - away } else { epoch.origin + away };
        epoch.w_est += ALPHA * f64::from(delivered) / cwnd;
        let target = curve.max(epoch.w_est.floor());
        let mut wait = if target > cwnd { cwnd / (target - cwnd) } else { 100.0 * cwnd };
        if w_max == 0.0 {
            wait = wait.min(EXPLORE);
        }
        window.count(wait.max(LEAST) as u32, delivered);
    }

    fn reduce(&mut self, window: &Window, _: Instant, cause: Cause) -> u32 {
        let cwnd = f64::from(window.cwnd);
        self.before = self.w_max;
        // §4.7: fast convergence leaves room for newcomers.
        self.w_max = if cwnd < self.w_max { (cwnd * (1.0 + BETA) / 2.0).floor() } else { cwnd };
        self.epoch = None;
        if cause == Cause::Timeout {
            self.hystart.restart();
        }
        ((cwnd * BETA) as u32).max(2)
    }

    fn on_state(&mut self, window: &mut Window, _: State, to: State) {
        if to == State::Loss {
            self.w_max = 0.0;
            self.epoch = None;
            window.forget();
        }
    }

    fn undo(&mut self) {
        self.w_max = self.before;
        self.epoch = None;
    }

    fn inner(&self) -> f64 {
        self.w_max
    }
}

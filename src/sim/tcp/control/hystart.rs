//! Leaving slow start before losses say so.

use super::{Ack, Window};
use crate::time::{Instant, MILLISECOND};

/// How slow start may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlowStart {
    /// Only by a loss or a mark.
    Plain,
    /// HyStart as Ha and Rhee published it and Linux runs it: by delay, or by trains of
    /// acknowledgements half a round trip long.
    #[default]
    HyStart,
    /// HyStart++ (RFC 9406): by delay, with a cautious phase that can find it was mistaken.
    HyStartPlusPlus,
}

/// RFC 9406 §4.2 (and HyStart before it): the least and the greatest rise that counts, ns.
const RISE: (u64, u64) = (4 * MILLISECOND, 16 * MILLISECOND);
/// Samples a round must have.
const SAMPLES: u32 = 8;
/// Growth in the cautious phase is so many times slower (RFC 9406 §4.2).
const CSS_DIVISOR: f64 = 4.0;
/// Rounds of caution before slow start is over (RFC 9406 §4.2).
const CSS_ROUNDS: u32 = 5;
/// HyStart does nothing below this window, packets.
const LOW_WINDOW: u32 = 16;
/// Acknowledgements closer than this are one train, ns.
const TRAIN_GAP: u64 = 2 * MILLISECOND;

/// The state of either.
pub(super) struct HyStart {
    kind: SlowStart,
    end: u64,
    began: Instant,
    last_ack: Instant,
    this_round: u64,
    last_round: u64,
    samples: u32,
    /// Smallest round trip of data: the handshake's does not count, so that a queue that stood from the first packet on
    /// is no rise.
    least: u64,
    css: Option<Css>,
}

struct Css {
    baseline: u64,
    rounds: u32,
}

impl HyStart {
    pub(super) fn new(kind: SlowStart) -> Self {
        HyStart {
            kind,
            end: 0,
            began: Instant::ZERO,
            last_ack: Instant::ZERO,
            this_round: u64::MAX,
            last_round: u64::MAX,
            samples: 0,
            least: u64::MAX,
            css: None,
        }
    }

    /// Starts over, as after a timeout.
    pub(super) fn restart(&mut self) {
        *self = HyStart::new(self.kind);
    }

    fn round(&mut self, ack: &Ack) -> bool {
        if ack.una <= self.end && self.end != 0 {
            return false;
        }
        self.end = ack.nxt;
        (self.began, self.last_ack) = (ack.now, ack.now);
        self.last_round = self.this_round;
        self.this_round = u64::MAX;
        self.samples = 0;
        true
    }

    /// An acknowledgement in slow start. Gives by what the growth is to be divided; ends slow start
    /// by setting ssthresh.
    pub(super) fn on_ack(&mut self, window: &mut Window, ack: &Ack) -> f64 {
        let new_round = self.round(ack);
        if let Some(rtt) = ack.rtt {
            self.this_round = self.this_round.min(rtt);
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
        match self.kind {
            SlowStart::Plain => 1.0,
            SlowStart::HyStart => {
                self.classic(window, ack);
                1.0
            }
            SlowStart::HyStartPlusPlus => self.plus_plus(window, new_round),
        }
    }

    fn classic(&mut self, window: &mut Window, ack: &Ack) {
        if window.cwnd < LOW_WINDOW || self.least == u64::MAX {
            return;
        }
        let mut found = false;
        if ack.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = ack.now;
            found = ack.now.since(self.began) > self.least / 2;
        }
        let rise = (self.least / 8).clamp(RISE.0, RISE.1);
        found |= self.samples > SAMPLES && self.this_round > self.least + rise;
        if found {
            window.ssthresh = window.cwnd;
        }
    }

    fn plus_plus(&mut self, window: &mut Window, new_round: bool) -> f64 {
        if let Some(css) = &mut self.css {
            css.rounds += u32::from(new_round);
            if css.rounds >= CSS_ROUNDS {
                window.ssthresh = window.cwnd;
                self.css = None;
                return CSS_DIVISOR;
            }
            if self.samples >= SAMPLES && self.this_round < css.baseline {
                self.css = None;
                return 1.0;
            }
            return CSS_DIVISOR;
        }
        let known = self.last_round != u64::MAX && self.this_round != u64::MAX;
        if known && self.samples >= SAMPLES {
            let rise = (self.last_round / 8).clamp(RISE.0, RISE.1);
            if self.this_round >= self.last_round + rise {
                self.css = Some(Css { baseline: self.this_round, rounds: 0 });
                return CSS_DIVISOR;
            }
        }
        1.0
    }
}

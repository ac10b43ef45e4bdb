//! The rate of a path, from what its receiver reports (`spec/mb-ecn.md` §6.4).
//!
//! Two sets of parameters: [`Tuning::REFERENCE`] is the controller of the specification to the
//! letter; [`Tuning::SCALED`] differs from it where many paths on one link need it to.

use super::UPDATE;
use super::receiver::Window;
use crate::mark::mb_ecn::code;
use crate::time::{Instant, SECOND};

/// What a path is doing with its rate (§6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Regime {
    /// It looks for the capacity.
    #[default]
    SlowStart,
    /// The queue is short.
    AdditiveIncrease,
    /// The last report spoke of a queue.
    ProportionalDecrease,
    /// Its flows do not use the rate.
    SourceLimited,
    /// The queue is so deep that only decreases act.
    IncreaseHeld,
}

impl Regime {
    /// All of them.
    pub const ALL: [Regime; 5] = [
        Regime::SlowStart,
        Regime::AdditiveIncrease,
        Regime::ProportionalDecrease,
        Regime::SourceLimited,
        Regime::IncreaseHeld,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Regime::SlowStart => "slow start",
            Regime::AdditiveIncrease => "additive inc",
            Regime::ProportionalDecrease => "proportional dec",
            Regime::SourceLimited => "source limited",
            Regime::IncreaseHeld => "increase held",
        }
    }
}

/// How fast the rate grows, in bytes per second each second; R is the rate, C the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Increase {
    /// √(R·C)/8. With n equal paths the reports settle at 137·√n: code 24 at 31 paths, code 43 at 100.
    Root,
    /// R·(1/8 + log₂(C/R)/16). With n equal paths the reports settle at 137 + 69·log₂ n: code 15 at 31
    /// paths, code 19 at 100. One path alone gets the same of both.
    Logarithm,
}

/// The parameters of a controller and of the receiver that reports to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// What it is called in scenarios.
    pub name: &'static str,
    /// The rate it begins with, bytes per second.
    pub start: f64,
    /// How many times the first rate it may have before the first report.
    pub blind: f64,
    /// The least rate, bytes per second.
    pub floor: f64,
    /// From this report on nothing increases, in 1/32 code.
    pub hold: u16,
    /// How far above the capacity the rate may go; the code of a capacity is rounded down.
    pub overshoot: f64,
    /// The law of the increase.
    pub increase: Increase,
    /// How many times as much the cut that ends slow start counts, since the last doubling made the
    /// queue; the cut is never more than half.
    pub exit: f64,
    /// How many times as much a rise of the reports counts as their level, in a cut: a queue that grows
    /// is answered before it is deep, which keeps many paths from swinging together.
    pub rise: f64,
    /// Whether a cut counts as often as the time since the report before it has [`UPDATE`]s.
    pub cut_by_time: bool,
    /// A heartbeat is due when nothing was heard for so long, ns, and in slow start; when nothing was
    /// heard for twice as long, nothing grows. `None` for a heartbeat with every [`UPDATE`] and growth
    /// in good faith.
    pub patience: Option<u64>,
    /// What the receiver averages over.
    pub window: Window,
}

impl Tuning {
    /// §6.4 to the letter.
    pub const REFERENCE: Tuning = Tuning {
        name: "reference",
        start: 65_536.0,
        blind: 4.0,
        floor: 16_384.0,
        hold: 768,
        overshoot: 1.25,
        increase: Increase::Root,
        exit: 1.0,
        rise: 0.0,
        cut_by_time: false,
        patience: None,
        window: Window::Packets,
    };

    /// For one path and for a hundred.
    pub const SCALED: Tuning = Tuning {
        name: "scaled",
        blind: 1.0,
        floor: 1024.0,
        increase: Increase::Logarithm,
        exit: 16.0,
        rise: 2.0,
        start: 16_384.0,
        cut_by_time: true,
        patience: Some(2 * UPDATE),
        window: Window::PacketsOrUpdate,
        ..Tuning::REFERENCE
    };

    /// Those that have names.
    pub const ALL: [Tuning; 2] = [Tuning::SCALED, Tuning::REFERENCE];

    /// The one with a name.
    pub fn named(name: &str) -> Option<Tuning> {
        Tuning::ALL.into_iter().find(|t| t.name == name)
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning::SCALED
    }
}

/// Growth of a path that does not know its capacity, bytes per second each second.
const BLIND: f64 = 32_768.0;
/// A path that sends and hears nothing for so long slows down.
const SILENCE: u64 = 8 * UPDATE;
/// The rate is integrated in steps of at most this.
const STEP: u64 = UPDATE / 16;
/// Updates over which it is judged whether the flows use the rate.
const HISTORY: usize = 4;

/// Reports that rise to no more than this, four packets, say nothing of what comes.
const NOISE: u16 = 256;
/// Heartbeats whose time is remembered.
const BEATS: usize = 64;

/// What was sent of what might have been, in one [`UPDATE`].
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    allowed: f64,
    used: f64,
    idle: bool,
}

/// The controller of a path.
#[derive(Clone, Debug)]
pub struct Controller {
    tuning: Tuning,
    rate: f64,
    capacity: f64,
    ece: u16,
    regime: Regime,
    at: Instant,
    reported: Option<Instant>,
    heard: Instant,
    answered: Instant,
    waits: bool,
    current: Use,
    history: [Use; HISTORY],
    rotates: Instant,
    beats: u64,
    beaten: [Instant; BEATS],
    rtt: u64,
}

impl Controller {
    /// A path that begins at `now`.
    pub fn new(tuning: Tuning, now: Instant) -> Self {
        Controller {
            rate: tuning.start,
            tuning,
            capacity: 0.0,
            ece: 0,
            regime: Regime::SlowStart,
            at: now,
            reported: None,
            heard: now,
            answered: now,
            waits: false,
            current: Use::default(),
            history: [Use::default(); HISTORY],
            rotates: now + UPDATE,
            beats: 0,
            beaten: [now; BEATS],
            rtt: 0,
        }
    }

    /// The rate, bytes of frame per second, as of the last call.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The capacity that was reported, bytes per second; 0 if none was.
    pub fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// The last report, in 1/32 code.
    pub fn ece(&self) -> u16 {
        self.ece
    }

    /// What it is doing.
    pub fn regime(&self) -> Regime {
        self.regime
    }

    /// Lets time pass until `now`. `idle` says that no flow has had anything to send since the last call.
    pub fn advance(&mut self, now: Instant, idle: bool) {
        self.current.idle |= idle && now > self.at;
        while self.at < now {
            let dt = now.since(self.at).min(STEP).min(self.rotates.since(self.at).max(1));
            self.step(dt);
            self.at = self.at + dt;
            if self.at >= self.rotates {
                self.rotate();
            }
        }
    }

    fn step(&mut self, dt: u64) {
        let seconds = dt as f64 / SECOND as f64;
        self.current.allowed += self.rate * seconds;
        if self.is_silent() {
            self.rate = (self.rate * (-(dt as f64) / UPDATE as f64).exp2()).max(self.tuning.floor);
            return;
        }
        let mut doubling = UPDATE;
        if let Some(patience) = self.tuning.patience {
            let slow_start = self.regime == Regime::SlowStart;
            if self.at.since(self.answered) > if slow_start { patience } else { 2 * patience } {
                return;
            }
            doubling = doubling.max(self.rtt);
        }
        let known = self.capacity > 0.0;
        match self.regime {
            Regime::SlowStart => {
                self.rate *= (dt as f64 / doubling as f64).exp2();
                if self.reported.is_none() {
                    self.rate = self.rate.min(self.tuning.blind * self.tuning.start);
                }
                if known && self.rate >= self.capacity {
                    self.rate = self.capacity;
                    self.regime = Regime::AdditiveIncrease;
                }
            }
            Regime::AdditiveIncrease | Regime::ProportionalDecrease => {
                let growth = match self.tuning.increase {
                    _ if !known => BLIND,
                    Increase::Root => (self.rate * self.capacity).sqrt() / 8.0,
                    Increase::Logarithm => {
                        let octaves = (self.capacity / self.rate).log2().max(0.0);
                        self.rate * (1.0 / 8.0 + octaves / 16.0)
                    }
                };
                self.rate += growth * seconds;
                if known {
                    self.rate = self.rate.min(self.tuning.overshoot * self.capacity);
                }
            }
            // A report of an empty queue may be lost, and nobody would repeat it.
            Regime::IncreaseHeld if self.tuning.patience.is_some_and(|p| self.since_report() > 2 * p) => {
                self.regime = Regime::AdditiveIncrease;
            }
            Regime::SourceLimited | Regime::IncreaseHeld => {}
        }
    }

    fn since_report(&self) -> u64 {
        self.reported.map_or(0, |at| self.at.since(at))
    }

    fn is_silent(&self) -> bool {
        self.waits && self.at.since(self.heard) >= SILENCE
    }

    /// An update's time is over: do the flows use the rate?
    fn rotate(&mut self) {
        self.rotates = self.rotates + UPDATE;
        let last = std::mem::take(&mut self.current);
        self.history.rotate_left(1);
        self.history[HISTORY - 1] = last;
        let used: f64 = self.history.iter().map(|u| u.used).sum();
        let allowed: f64 = self.history.iter().map(|u| u.allowed).sum();
        let limited = last.idle && used < 0.75 * allowed && self.history[0].allowed > 0.0;
        if limited && (self.regime != Regime::SlowStart || self.reported.is_some()) {
            self.regime = Regime::SourceLimited;
            let rate = used * SECOND as f64 / (HISTORY as u64 * UPDATE) as f64;
            self.rate = self.rate.min((2.0 * rate).max(self.tuning.start));
        } else if self.regime == Regime::SourceLimited {
            self.regime = Regime::AdditiveIncrease;
        }
    }

    /// A frame of `bytes` was sent.
    pub fn sent(&mut self, bytes: u32) {
        self.current.used += f64::from(bytes);
        if !self.waits {
            // Silence begins with the first frame that nobody answers.
            (self.waits, self.heard) = (true, self.at);
        }
    }

    /// To be called once per [`UPDATE`]: the number of the heartbeat to send, if one is due.
    pub fn heartbeat(&mut self, now: Instant) -> Option<u64> {
        let unheard = self.tuning.patience.is_none_or(|p| now.since(self.answered) >= p);
        (unheard || self.regime == Regime::SlowStart).then(|| {
            self.beats += 1;
            self.beaten[self.beats as usize % BEATS] = now;
            self.beats
        })
    }

    /// The answer to a heartbeat came.
    pub fn alive(&mut self, now: Instant, number: u64) {
        if number <= self.beats && self.beats < number + BEATS as u64 {
            self.rtt = now.since(self.beaten[number as usize % BEATS]);
        }
        self.heard(now);
    }

    /// The round trip of the last heartbeat that was answered, ns; 0 if none was.
    pub fn rtt(&self) -> u64 {
        self.rtt
    }

    /// The other end lives.
    fn heard(&mut self, now: Instant) {
        self.advance(now, false);
        (self.heard, self.answered, self.waits) = (now, now, false);
    }

    /// A flow update came.
    pub fn report(&mut self, now: Instant, ece: u16, cap: u8) {
        self.heard(now);
        if cap != 0 {
            self.capacity = code::decode(cap) as f64;
        }
        // Reports are only due while there is congestion: a pause after a zero is none.
        let most = if self.ece == 0 { 1.0 } else { 4.0 };
        let rise = ece.saturating_sub(self.ece.max(NOISE));
        let elapsed = self.reported.map_or(UPDATE, |last| now.since(last));
        self.ece = ece;
        self.reported = Some(now);
        if ece == 0 {
            if !matches!(self.regime, Regime::SlowStart | Regime::SourceLimited) {
                self.regime = Regime::AdditiveIncrease;
            }
            return;
        }
        let mut times = 1.0;
        if self.regime == Regime::SlowStart {
            if self.capacity > 0.0 {
                self.rate = self.rate.min(self.capacity);
            }
            times = self.tuning.exit;
        }
        let updates = if self.tuning.cut_by_time { (elapsed as f64 / UPDATE as f64).min(most) } else { 1.0 };
        let level = f64::from(ece.min(8192)) * updates + self.tuning.rise * f64::from(rise);
        let share = (times * level / 16_384.0).min(0.5);
        self.rate = (self.rate * (1.0 - share)).max(self.tuning.floor);
        if ece >= self.tuning.hold {
            self.regime = Regime::IncreaseHeld;
        } else if self.regime != Regime::SourceLimited {
            self.regime = Regime::ProportionalDecrease;
        }
    }
}

#[cfg(test)]
mod tests;

//! BBR, first version (draft-cardwell-iccrg-bbr-congestion-control-00): a model of the path, its
//! bottleneck bandwidth and its round-trip propagation, probed in turn. Heeds neither marks nor losses
//! but for a round of conservation.

use super::filter::MaxFilter;
use super::{Ack, Bounds, Cause, Control, INITIAL_WINDOW, State, Window};
use crate::rng::Random;
use crate::sim::tcp::HEADERS;
use crate::time::{Instant, MILLISECOND, SECOND};

/// 2/ln 2: doubles the rate each round (§4.3.2.1).
pub(super) const HIGH_GAIN: f64 = 2.885;
/// Gains of a probing cycle (§4.3.4.2).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window in flight of the model's BDP.
const CWND_GAIN: f64 = 2.0;
/// Rounds that a bandwidth sample lives.
const BANDWIDTH_WINDOW: u64 = 10;
/// How long a round-trip minimum lives, ns.
const MIN_RTT_WINDOW: u64 = 10 * SECOND;
/// Time at the smallest window, to see the empty path, ns.
const PROBE_RTT_TIME: u64 = 200 * MILLISECOND;
/// The smallest window, packets.
pub(super) const SMALLEST: u32 = 4;
/// The pace stays this much below the model, so that queues drain.
pub(super) const MARGIN: f64 = 0.99;
/// Rounds without growth by [`GROWTH`] after which the pipe is full.
pub(super) const FULL_ROUNDS: u32 = 3;
/// See [`FULL_ROUNDS`].
pub(super) const GROWTH: f64 = 1.25;
/// Room beyond the BDP, so that the ends are busy: so many sendings (§4.2.3.2).
const QUANTA: u32 = 3;

/// Packets of a sending at most (Linux).
const LARGEST_QUANTUM: u32 = 127;
/// Packets more while probing, so that even a path of a few packets is probed (Linux).
const UP_ROOM: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

pub(super) struct Bbr {
    mss: f64,
    mode: Mode,
    bandwidth: MaxFilter,
    round: u64,
    round_end: u64,
    min_rtt: u64,
    min_rtt_at: Instant,
    full: f64,
    full_rounds: u32,
    full_pipe: bool,
    phase: usize,
    phase_at: Instant,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round: u64,
    prior_cwnd: u32,
    conserve_until: Option<u64>,
    /// Recovery has begun and no acknowledgement was counted in it (§4.2.3.4).
    entering: bool,
    random: Random,
}

impl Bbr {
    pub(super) fn new(mss: u32, seed: u64) -> Self {
        Bbr {
            mss: f64::from(mss + HEADERS),
            mode: Mode::Startup,
            bandwidth: MaxFilter::new(BANDWIDTH_WINDOW),
            round: 0,
            round_end: 0,
            min_rtt: u64::MAX,
            min_rtt_at: Instant::ZERO,
            full: 0.0,
            full_rounds: 0,
            full_pipe: false,
            phase: 0,
            phase_at: Instant::ZERO,
            probe_rtt_done: None,
            probe_rtt_round: 0,
            prior_cwnd: 0,
            conserve_until: None,
            entering: false,
            random: Random::seeded(seed),
        }
    }

    /// Packets that fill the path `gain` times.
    fn target(&self, window: &Window, gain: f64) -> u32 {
        if self.min_rtt == u64::MAX {
            return INITIAL_WINDOW;
        }
        let bdp = self.bandwidth.get() * self.min_rtt as f64 / 1e9;
        let room = if self.mode == Mode::ProbeBandwidth && self.phase == 0 { UP_ROOM } else { 0 };
        let packets = (gain * bdp).ceil() as u32 + QUANTA * self.quantum(window);
        (packets.next_multiple_of(2) + room).max(SMALLEST)
    }

    /// Packets of one sending (§4.2.2): what the pace carries in a millisecond, in Linux' binary one.
    fn quantum(&self, window: &Window) -> u32 {
        let worth = window.pacing.unwrap_or(0.0) / (1024.0 * self.mss);
        (worth as u32).clamp(trains(window).least, LARGEST_QUANTUM)
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        }
    }

    /// Bandwidth and rounds (§4.1.1).
    fn learn(&mut self, ack: &Ack) -> bool {
        let new_round = ack.sample.interval > 0 && ack.sample.before.delivered >= self.round_end;
        if new_round {
            self.round += 1;
            self.round_end = ack.total_delivered;
        }
        let known = self.bandwidth.get();
        if let Some(rate) = ack.sample.rate().filter(|rate| !ack.sample.before.app_limited || *rate >= known) {
            self.bandwidth.update(self.round, rate);
        }
        new_round
    }

    fn check_full_pipe(&mut self, ack: &Ack, new_round: bool) {
        if self.full_pipe || !new_round || ack.sample.before.app_limited {
            return;
        }
        if self.bandwidth.get() >= self.full * GROWTH {
            (self.full, self.full_rounds) = (self.bandwidth.get(), 0);
            return;
        }
        self.full_rounds += 1;
        self.full_pipe = self.full_rounds >= FULL_ROUNDS;
    }

    fn begin_cycle(&mut self, now: Instant) {
        self.mode = Mode::ProbeBandwidth;
        // Anywhere but in the phase that drains (§4.3.4.3).
        self.phase = (2 + self.random.u64() as usize % 7) % 8;
        self.phase_at = now;
    }

    fn advance_cycle(&mut self, window: &Window, ack: &Ack) {
        let passed = ack.now.since(self.phase_at) > self.min_rtt;
        let due = match CYCLE[self.phase] {
            g if g > 1.0 => passed && (ack.lost > 0 || ack.prior_in_flight >= self.target(window, g)),
            g if g < 1.0 => passed || ack.prior_in_flight <= self.target(window, 1.0),
            _ => passed,
        };
        if due {
            self.phase = (self.phase + 1) % CYCLE.len();
            self.phase_at = ack.now;
        }
    }

    fn probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let expired = self.min_rtt != u64::MAX && ack.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt.filter(|r| *r <= self.min_rtt || expired) {
            (self.min_rtt, self.min_rtt_at) = (rtt, ack.now);
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.prior_cwnd = window.cwnd;
            self.probe_rtt_done = None;
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_rtt_done {
            None if ack.in_flight <= SMALLEST => {
                self.probe_rtt_done = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round = self.round;
            }
            Some(done) if ack.now >= done && self.round > self.probe_rtt_round => {
                self.min_rtt_at = ack.now;
                window.cwnd = window.cwnd.max(self.prior_cwnd);
                if self.full_pipe {
                    self.begin_cycle(ack.now);
                } else {
                    self.mode = Mode::Startup;
                }
            }
            _ => {}
        }
    }

    fn set_window(&mut self, window: &mut Window, ack: &Ack, gain: f64) {
        if ack.lost > 0 {
            window.cwnd = window.cwnd.saturating_sub(ack.lost).max(1);
        }
        if let Some(until) = self.conserve_until {
            if std::mem::take(&mut self.entering) {
                window.cwnd = ack.in_flight + ack.delivered.max(1);
            }
            if self.round < until {
                window.cwnd = window.cwnd.max(ack.in_flight + ack.delivered);
                return;
            }
            self.conserve_until = None;
        }
        let target = self.target(window, gain);
        if self.full_pipe {
            window.cwnd = (window.cwnd + ack.delivered).min(target);
        } else if window.cwnd < target || ack.total_delivered < u64::from(INITIAL_WINDOW) {
            window.cwnd += ack.delivered;
        }
        window.cwnd = window.cwnd.max(SMALLEST);
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(SMALLEST);
        }
    }
}

/// Below this pace, bytes a second, segments leave one by one.
const ONE_BY_ONE: f64 = 1.2e6 / 8.0;

/// Trains of a paced model (Linux).
pub(super) fn trains(window: &Window) -> Bounds {
    let slow = window.pacing.is_some_and(|pace| pace < ONE_BY_ONE);
    Bounds { least: if slow { 1 } else { 2 }, ..Bounds::default() }
}

impl Control for Bbr {
    fn is_model(&self) -> bool {
        true
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let new_round = self.learn(ack);
        if self.mode == Mode::ProbeBandwidth {
            self.advance_cycle(window, ack);
        }
        self.check_full_pipe(ack, new_round);
        if self.mode == Mode::Startup && self.full_pipe {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.target(window, 1.0) {
            self.begin_cycle(ack.now);
        }
        self.probe_rtt(window, ack);
        let (pace, cwnd) = self.gains();
        let rate = match self.bandwidth.get() {
            0.0 => f64::from(INITIAL_WINDOW) * 1e9 / ack.srtt.max(MILLISECOND) as f64,
            bandwidth => bandwidth,
        };
        let pacing = pace * rate * self.mss * MARGIN;
        if self.full_pipe || window.pacing.is_none_or(|old| pacing > old) {
            window.pacing = Some(pacing);
        }
        self.set_window(window, ack, cwnd);
    }

    fn grow(&mut self, _: &mut Window, _: &Ack) {}

    fn reduce(&mut self, window: &Window, _: Instant, _: Cause) -> u32 {
        if self.mode != Mode::ProbeRtt {
            self.prior_cwnd = self.prior_cwnd.max(window.cwnd);
        }
        window.ssthresh
    }

    fn on_state(&mut self, window: &mut Window, from: State, to: State) {
        match to {
            State::Recovery => (self.conserve_until, self.entering) = (Some(self.round + 1), true),
            State::Loss => {
                self.full = 0.0;
                self.conserve_until = None;
            }
            State::Open if from != State::Cwr => {
                window.cwnd = window.cwnd.max(self.prior_cwnd);
                self.prior_cwnd = 0;
                self.conserve_until = None;
            }
            _ => {}
        }
    }

    fn train(&self, window: &Window) -> Bounds {
        trains(window)
    }

    fn inner(&self) -> f64 {
        self.gains().0
    }
}

//! BBR, second version: the model of the first within bounds that losses and marks set
//! (draft-cardwell-iccrg-bbr-congestion-control-02; the response to marks as presented with it at
//! IETF 104: DCTCP's average of the fraction marked, a third of it taken off the short-term bound).

use super::bbr::{FULL_ROUNDS, GROWTH, HIGH_GAIN, MARGIN, SMALLEST};
use super::{Ack, Bounds, Cause, Control, INITIAL_WINDOW, State, Window};
use crate::rng::Random;
use crate::sim::tcp::HEADERS;
use crate::sim::tcp::receiver::Echo;
use crate::time::{Instant, MILLISECOND, SECOND};

/// Share of losses in flight that shows that too much is in flight (§2.9).
const LOSS_THRESHOLD: f64 = 0.02;
/// Multiplicative decrease of the bounds on loss (§2.9).
const BETA: f64 = 0.7;
/// Left free below the long-term bound while cruising (§2.9).
const HEADROOM: f64 = 0.15;
/// Share of marks that shows that too much is in flight.
const MARK_THRESHOLD: f64 = 0.5;
/// How much of alpha is taken off.
const MARK_FACTOR: f64 = 1.0 / 3.0;
/// Weight of a round in alpha.
const MARK_GAIN: f64 = 1.0 / 16.0;
/// Rounds of many marks after which startup is over.
const MARK_ROUNDS: u32 = 2;
/// Marks mean nothing on longer paths, ns.
const MARK_MAX_RTT: u64 = 5 * MILLISECOND;
/// Least and greatest time between probes for bandwidth, ns.
const PROBE_WAIT: (u64, u64) = (2 * SECOND, 3 * SECOND);
/// … or so many rounds, if Reno would have found its share by then.
const PROBE_ROUNDS: u64 = 63;
/// Share of what was meant to be in flight that stays allowed where marks and not losses were too
/// many: queues that mark are short (RFC 8511).
const MARK_BETA: f64 = 0.85;
/// What is sent at once: so much time's worth, s.
const QUANTUM_TIME: f64 = 0.001;
/// … but no less and no more than so many packets: two, and 64 kB.
const QUANTUM: (f64, f64) = (2.0, 43.0);
/// Packets beyond the model while probing, so that small windows can probe at all (§4.6.4.2).
const UP_ROOM: f64 = 2.0;
/// How long a minimum is believed before it is looked for, ns.
const PROBE_RTT_AFTER: u64 = 5 * SECOND;
/// Time of looking, ns.
const PROBE_RTT_TIME: u64 = 200 * MILLISECOND;
/// How long a minimum lives at most, ns.
const MIN_RTT_WINDOW: u64 = 10 * SECOND;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// What was sent in the probe is heard of a round later (§4.3.3.6's `ack_phase`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Samples {
    /// Of no probe.
    Other,
    /// Of a probe under way.
    Probing,
    /// Of a probe that is over, still coming in.
    Probed,
}

pub(super) struct Bbr2 {
    mss: f64,
    mode: Mode,
    mode_at: Instant,
    /// Largest rates of this cycle and of the one before, packets/s.
    bandwidth: [f64; 2],
    bandwidth_low: f64,
    inflight_high: f64,
    inflight_low: f64,
    latest_bandwidth: f64,
    latest_inflight: f64,
    alpha: f64,
    round: u64,
    round_end: u64,
    rounds_cruised: u64,
    mode_round: u64,
    delivered: u64,
    marked: u64,
    lost: u64,
    full: f64,
    full_rounds: u32,
    mark_rounds: u32,
    full_pipe: bool,
    min_rtt: u64,
    min_rtt_at: Instant,
    seen_min: u64,
    seen_min_at: Instant,
    wait: u64,
    probed: Instant,
    up_step: f64,
    up_credit: f64,
    /// Whose acknowledgements these are.
    samples: Samples,
    probe_rtt_done: Option<Instant>,
    prior_cwnd: u32,
    random: Random,
}

impl Bbr2 {
    pub(super) fn new(mss: u32, seed: u64) -> Self {
        Bbr2 {
            mss: f64::from(mss + HEADERS),
            mode: Mode::Startup,
            mode_at: Instant::ZERO,
            bandwidth: [0.0; 2],
            bandwidth_low: f64::INFINITY,
            inflight_high: f64::INFINITY,
            inflight_low: f64::INFINITY,
            latest_bandwidth: 0.0,
            latest_inflight: 0.0,
            alpha: 1.0,
            round: 0,
            round_end: 0,
            rounds_cruised: 0,
            mode_round: 0,
            delivered: 0,
            marked: 0,
            lost: 0,
            full: 0.0,
            full_rounds: 0,
            mark_rounds: 0,
            full_pipe: false,
            min_rtt: u64::MAX,
            min_rtt_at: Instant::ZERO,
            seen_min: u64::MAX,
            seen_min_at: Instant::ZERO,
            wait: 0,
            probed: Instant::ZERO,
            up_step: 1.0,
            up_credit: 0.0,
            samples: Samples::Other,
            probe_rtt_done: None,
            prior_cwnd: 0,
            random: Random::seeded(seed),
        }
    }

    fn max_bandwidth(&self) -> f64 {
        self.bandwidth[0].max(self.bandwidth[1])
    }

    /// The rate that is used: the largest seen, or what congestion left of it.
    fn rate(&self) -> f64 {
        self.max_bandwidth().min(self.bandwidth_low)
    }

    fn bdp(&self, gain: f64) -> f64 {
        if self.min_rtt == u64::MAX {
            return f64::from(INITIAL_WINDOW);
        }
        gain * self.rate() * self.min_rtt as f64 / 1e9
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::Down => (0.75, 2.0),
            Mode::Cruise | Mode::Refill => (1.0, 2.0),
            Mode::Up => (1.25, 2.0),
            Mode::ProbeRtt => (1.0, 1.0),
        }
    }

    fn enter(&mut self, mode: Mode, now: Instant) {
        self.mode = mode;
        self.mode_at = now;
        self.mode_round = self.round;
    }

    fn heeds_marks(&self) -> bool {
        self.min_rtt <= MARK_MAX_RTT
    }

    fn lost_much(&self, ack: &Ack) -> bool {
        let s = &ack.sample;
        s.lost > 0 && s.lost as f64 > LOSS_THRESHOLD * f64::from(s.before.in_flight)
    }

    /// Whether the packet just acknowledged shows that too much was in flight when it was sent.
    fn too_much(&self, ack: &Ack) -> bool {
        let s = &ack.sample;
        let marked = self.heeds_marks()
            && s.delivered_ce > 0
            && s.delivered > 0
            && s.delivered_ce as f64 >= MARK_THRESHOLD * s.delivered as f64;
        marked || self.lost_much(ack)
    }

    fn learn(&mut self, window: &Window, ack: &Ack) -> bool {
        let new_round = ack.sample.interval > 0 && ack.sample.before.delivered >= self.round_end;
        self.delivered += u64::from(ack.delivered);
        self.marked += u64::from(ack.marked);
        self.lost += u64::from(ack.lost);
        if let Some(rate) = ack.sample.rate() {
            if !ack.sample.before.app_limited || rate >= self.max_bandwidth() {
                self.bandwidth[1] = self.bandwidth[1].max(rate);
            }
            self.latest_bandwidth = self.latest_bandwidth.max(rate);
            self.latest_inflight = self.latest_inflight.max(ack.sample.delivered as f64);
        }
        if new_round {
            self.round += 1;
            self.rounds_cruised += 1;
            self.round_end = ack.total_delivered;
            self.end_round(window, ack);
        }
        new_round
    }

    /// A round is over: alpha, the short-term bounds, and whether startup has filled the pipe.
    fn end_round(&mut self, window: &Window, ack: &Ack) {
        let fraction = if self.delivered > 0 { self.marked as f64 / self.delivered as f64 } else { 0.0 };
        if self.heeds_marks() {
            self.alpha += MARK_GAIN * (fraction.min(1.0) - self.alpha);
        }
        let marked = self.marked > 0 && self.heeds_marks();
        if !self.full_pipe {
            self.check_full_pipe(ack, fraction);
        } else if !matches!(self.mode, Mode::Refill | Mode::Up | Mode::Startup) {
            if marked {
                self.bound_below(window, 1.0 - self.alpha * MARK_FACTOR, 0.0);
            }
            if self.lost > 0 {
                if self.bandwidth_low.is_infinite() {
                    self.bandwidth_low = self.max_bandwidth();
                }
                self.bandwidth_low = self.latest_bandwidth.max(BETA * self.bandwidth_low);
                self.bound_below(window, BETA, self.latest_inflight);
            }
        }
        (self.delivered, self.marked, self.lost) = (0, 0, 0);
        (self.latest_bandwidth, self.latest_inflight) = (0.0, 0.0);
    }

    fn bound_below(&mut self, window: &Window, factor: f64, floor: f64) {
        if self.inflight_low.is_infinite() {
            self.inflight_low = f64::from(window.cwnd);
        }
        self.inflight_low = (self.inflight_low * factor).max(floor);
    }

    fn check_full_pipe(&mut self, ack: &Ack, fraction: f64) {
        self.mark_rounds = if self.heeds_marks() && fraction >= MARK_THRESHOLD { self.mark_rounds + 1 } else { 0 };
        if self.mark_rounds >= MARK_ROUNDS {
            self.full_pipe = true;
            self.inflight_high = self.inflight(1.0);
            return;
        }
        if ack.sample.before.app_limited {
            return;
        }
        if self.max_bandwidth() >= self.full * GROWTH {
            (self.full, self.full_rounds) = (self.max_bandwidth(), 0);
            return;
        }
        self.full_rounds += 1;
        self.full_pipe = self.full_rounds >= FULL_ROUNDS;
    }

    fn begin_down(&mut self, ack: &Ack) {
        let span = PROBE_WAIT.1 - PROBE_WAIT.0;
        self.wait = PROBE_WAIT.0 + self.random.u64() % span;
        self.probed = ack.now;
        self.rounds_cruised = self.random.u64() % 2;
        self.samples = if self.samples == Samples::Probing { Samples::Probed } else { self.samples };
        self.start_round(ack);
        self.enter(Mode::Down, ack.now);
    }

    /// What is sent from now on belongs to a round of its own.
    fn start_round(&mut self, ack: &Ack) {
        self.round_end = ack.total_delivered;
    }

    fn time_to_probe(&self, ack: &Ack, window: &Window) -> bool {
        let reno = (self.target(window) as u64).min(PROBE_ROUNDS);
        ack.now.since(self.probed) > self.wait || self.rounds_cruised >= reno
    }

    /// Packets that we mean to have in flight: those of the model, if the window allows them.
    fn target(&self, window: &Window) -> f64 {
        self.inflight(1.0).min(f64::from(window.cwnd))
    }

    /// Packets that fill the path `gain` times, but no fewer than keep the ends busy: three sendings
    /// of what goes out in a millisecond (§4.6.3, §4.6.4.2).
    fn inflight(&self, gain: f64) -> f64 {
        let quantum = (self.rate() * QUANTUM_TIME).floor().clamp(QUANTUM.0, QUANTUM.1);
        self.bdp(gain).max(3.0 * quantum).max(f64::from(SMALLEST))
    }

    fn cycle(&mut self, window: &Window, ack: &Ack, new_round: bool) {
        let in_flight = f64::from(ack.in_flight);
        match self.mode {
            Mode::Down | Mode::Cruise if self.time_to_probe(ack, window) => self.begin_refill(ack),
            Mode::Down if in_flight <= self.with_headroom() && in_flight <= self.inflight(1.0) => {
                if self.inflight_low.is_finite() {
                    self.inflight_low = self.inflight_low.min(self.inflight_high);
                }
                self.enter(Mode::Cruise, ack.now);
            }
            Mode::Refill if new_round => {
                (self.up_step, self.up_credit) = (1.0, 0.0);
                self.samples = Samples::Probing;
                self.start_round(ack);
                self.enter(Mode::Up, ack.now);
            }
            Mode::Up => {
                let queues = ack.now.since(self.mode_at) > self.min_rtt && in_flight > self.inflight(1.25);
                if queues {
                    self.begin_down(ack);
                }
            }
            _ => {}
        }
    }

    fn begin_refill(&mut self, ack: &Ack) {
        self.bandwidth_low = f64::INFINITY;
        self.inflight_low = f64::INFINITY;
        self.start_round(ack);
        self.enter(Mode::Refill, ack.now);
    }

    /// The long-term bound: what a probe showed to be too much, or not (§4.3.3.6).
    fn bound_above(&mut self, window: &Window, ack: &Ack, new_round: bool) {
        if self.samples == Samples::Probed && new_round {
            self.samples = Samples::Other;
            if !ack.sample.before.app_limited {
                self.next_bandwidth_cycle();
            }
        }
        if self.samples != Samples::Other && self.too_much(ack) {
            self.samples = Samples::Other;
            if !ack.sample.before.app_limited {
                let sent = f64::from(ack.sample.before.in_flight);
                let kept = if self.lost_much(ack) { BETA } else { MARK_BETA };
                self.inflight_high = sent.max(kept * self.target(window));
            }
            if self.mode == Mode::Up {
                self.begin_down(ack);
                self.next_bandwidth_cycle();
            }
            return;
        }
        if self.inflight_high.is_infinite() || self.too_much(ack) {
            return;
        }
        self.inflight_high = self.inflight_high.max(f64::from(ack.sample.before.in_flight));
        if self.mode == Mode::Up {
            self.raise_above(window, ack, new_round);
        }
    }

    /// A packet more in the first round of a probe, then two, four, …
    fn raise_above(&mut self, window: &Window, ack: &Ack, new_round: bool) {
        if ack.limited && f64::from(window.cwnd) >= self.inflight_high.floor() {
            self.up_credit += f64::from(ack.delivered) * self.up_step / f64::from(window.cwnd.max(1));
            let whole = self.up_credit.floor();
            self.up_credit -= whole;
            self.inflight_high += whole;
        }
        if new_round {
            self.up_step = (self.up_step * 2.0).min(f64::from(1u32 << 20));
        }
    }

    fn next_bandwidth_cycle(&mut self) {
        if self.bandwidth[1] > 0.0 {
            self.bandwidth = [self.bandwidth[1], 0.0];
        }
    }

    fn with_headroom(&self) -> f64 {
        (self.inflight_high * (1.0 - HEADROOM)).max(f64::from(SMALLEST))
    }

    fn probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            if rtt <= self.seen_min || ack.now.since(self.seen_min_at) > PROBE_RTT_AFTER && self.mode == Mode::ProbeRtt
            {
                (self.seen_min, self.seen_min_at) = (rtt, ack.now);
            }
            if rtt <= self.min_rtt || ack.now.since(self.min_rtt_at) > MIN_RTT_WINDOW {
                (self.min_rtt, self.min_rtt_at) = (rtt.min(self.seen_min), ack.now);
            }
        }
        let due = self.full_pipe && ack.now.since(self.seen_min_at) > PROBE_RTT_AFTER;
        if due && self.mode != Mode::ProbeRtt {
            self.prior_cwnd = window.cwnd;
            self.probe_rtt_done = None;
            self.seen_min = u64::MAX;
            self.enter(Mode::ProbeRtt, ack.now);
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_rtt_done {
            None if f64::from(ack.in_flight) <= self.bdp(0.5).max(f64::from(SMALLEST)) => {
                self.probe_rtt_done = Some(ack.now + PROBE_RTT_TIME);
            }
            Some(done) if ack.now >= done => {
                (self.min_rtt, self.min_rtt_at) = (self.seen_min.min(self.min_rtt), ack.now);
                self.seen_min_at = ack.now;
                window.cwnd = window.cwnd.max(self.prior_cwnd);
                self.begin_down(ack);
            }
            _ => {}
        }
    }

    fn set_window(&mut self, window: &mut Window, ack: &Ack, gain: f64) {
        let room = if self.mode == Mode::Up { UP_ROOM } else { 0.0 };
        let target = (self.inflight(gain) + room).ceil() as u32;
        if self.full_pipe {
            window.cwnd = (window.cwnd + ack.delivered).min(target);
        } else if window.cwnd < target || ack.total_delivered < u64::from(INITIAL_WINDOW) {
            window.cwnd += ack.delivered;
        }
        let mut cap = match self.mode {
            Mode::Cruise | Mode::ProbeRtt => self.with_headroom(),
            Mode::Startup | Mode::Drain => f64::INFINITY,
            _ => self.inflight_high,
        };
        if self.mode == Mode::ProbeRtt {
            cap = cap.min(self.bdp(0.5));
        }
        cap = cap.min(self.inflight_low).min(f64::from(u32::MAX));
        // Rounded up: at five packets a path, a packet is a fifth of a share.
        window.cwnd = window.cwnd.min(cap.ceil() as u32).max(SMALLEST);
    }
}

impl Control for Bbr2 {
    fn echo(&self) -> Echo {
        // The marks of its response are DCTCP's.
        Echo::Exact
    }

    fn is_model(&self) -> bool {
        true
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let new_round = self.learn(window, ack);
        if self.mode == Mode::Startup && self.full_pipe {
            self.enter(Mode::Drain, ack.now);
        }
        if self.mode == Mode::Drain && f64::from(ack.in_flight) <= self.inflight(1.0) {
            self.begin_down(ack);
        }
        if self.full_pipe {
            self.bound_above(window, ack, new_round);
            self.cycle(window, ack, new_round);
        }
        self.probe_rtt(window, ack);
        let (pace, cwnd) = self.gains();
        let rate = match self.rate() {
            0.0 => f64::from(INITIAL_WINDOW) * 1e9 / ack.srtt.max(MILLISECOND) as f64,
            rate => rate,
        };
        let pacing = pace * rate * self.mss * MARGIN;
        if self.full_pipe || window.pacing.is_none_or(|old| pacing > old) {
            window.pacing = Some(pacing);
        }
        self.set_window(window, ack, cwnd);
    }

    fn grow(&mut self, _: &mut Window, _: &Ack) {}

    fn reduce(&mut self, window: &Window, _: Instant, cause: Cause) -> u32 {
        if cause != Cause::Mark {
            self.prior_cwnd = self.prior_cwnd.max(window.cwnd);
        }
        window.ssthresh
    }

    fn on_state(&mut self, window: &mut Window, from: State, to: State) {
        if to == State::Open && from == State::Loss {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            self.prior_cwnd = 0;
        }
    }

    fn train(&self, window: &Window) -> Bounds {
        super::bbr::trains(window)
    }

    fn inner(&self) -> f64 {
        self.alpha
    }
}

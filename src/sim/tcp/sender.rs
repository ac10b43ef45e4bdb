//! The sending half: the window, repair of losses, and the timers.
//!
//! Losses are found by RACK (RFC 8985), repaired with SACK (RFC 6675's pipe in packets), the window
//! goes down by proportional rate reduction (RFC 9937); tail losses are probed for (RFC 8985 §7),
//! and at the end stands the retransmission timer (RFC 6298). Reductions that turn out to be for
//! nothing are undone, by timestamps (RFC 3522) or by what came twice (RFC 3708).

mod recovery;
mod timers;
mod train;

pub use train::Bounds;

use super::control::{Ack, Control, State, Totals, Window};
use super::rate::Sampler;
use super::rtt::Rtt;
use super::scoreboard::{Echoed, Scoreboard};
use crate::time::{Instant, MILLISECOND};

/// Packets selectively acknowledged that show a loss without waiting (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;
/// Added to the timers of probes and of reordering, ns (Linux).
const TIMER_SLACK: u64 = 2 * MILLISECOND;
/// Added to a probe's timer when one packet is in flight: its acknowledgement may be delayed, ns.
const PROBE_DELAYED_ACK: u64 = 200 * MILLISECOND;

/// What an endpoint wants of its sender.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of data in a full segment.
    pub mss: u32,
    /// SACK, RACK, probes and fast retransmission; without them only the timer repairs, and it goes
    /// back to the oldest.
    pub modern: bool,
    /// Starts over from a small window after idling for a timeout (RFC 9293 §3.8.6.2.1… RFC 2861).
    pub restart_after_idle: bool,
}

/// A segment to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte and byte behind the last.
    pub span: (u64, u64),
    /// Whether it was sent before.
    pub again: bool,
    /// Whether it should carry CWR.
    pub cwr: bool,
    /// Whether it should carry PSH.
    pub push: bool,
}

/// What the timer was set for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    Off,
    Retransmit,
    Probe,
}

/// What the peer said, as far as the sender is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// Cumulative edge, bytes.
    pub ack: u64,
    /// Byte behind the last that the peer has room for.
    pub room: u64,
    /// SACK blocks.
    pub blocks: &'a [(u64, u64)],
    /// ECE, where that has a meaning.
    pub ece: bool,
    /// Newly marked packets, where they are counted; else `None`.
    pub marked: Option<u32>,
    /// Echoed timestamp, ms.
    pub stamp: u32,
    /// Whether the segment brought data: then it is no duplicate acknowledgement.
    pub data: bool,
}

/// The sending half at work.
pub struct Sender {
    options: Options,
    /// Window and pace.
    pub window: Window,
    control: Box<dyn Control>,
    /// The scoreboard.
    pub board: Scoreboard,
    /// The estimate of the round trip.
    pub rtt: Rtt,
    sampler: Sampler,
    /// Cumulative edge.
    pub una: u64,
    /// Next byte to be sent.
    pub nxt: u64,
    /// Byte behind the last that the application wrote.
    pub written: u64,
    room: u64,
    state: State,
    /// Recovery ends here.
    high: u64,
    prior_cwnd: u32,
    prr_delivered: u32,
    prr_out: u32,
    undo: Option<Undo>,
    timer: Timer,
    deadline: Instant,
    probe_until: Option<(u64, bool)>,
    reordering: Instant,
    next_paced: Instant,
    train: train::Train,
    cwr_due: bool,
    limited: bool,
    limited_until: u64,
    most_out: u32,
    last_sent: Instant,
    now: Instant,
    /// Where the next round trip is timed, for stacks that time one at a time.
    timed_until: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Times the retransmission timer went off.
    pub timeouts: u64,
    /// Acknowledgements with ECE, in packets.
    pub echoed: u64,
}

/// What to go back to.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u32,
    ssthresh: u32,
    /// Retransmissions not yet known to have been needless.
    pending: u32,
    /// When the first of them was sent, ms.
    stamp: u32,
    any: bool,
}

/// The clock of timestamps, ms.
pub fn stamp(now: Instant) -> u32 {
    (now.as_nanos() / MILLISECOND) as u32
}

impl Sender {
    /// Before the first byte.
    pub fn new(options: Options, control: Box<dyn Control>, rtt: Rtt) -> Self {
        Sender {
            board: Scoreboard::new(options.mss),
            options,
            window: Window::new(),
            control,
            rtt,
            sampler: Sampler::default(),
            una: 0,
            nxt: 0,
            written: 0,
            room: 64 << 10,
            state: State::Open,
            high: 0,
            prior_cwnd: 0,
            prr_delivered: 0,
            prr_out: 0,
            undo: None,
            timer: Timer::Off,
            deadline: Instant::NEVER,
            probe_until: None,
            reordering: Instant::NEVER,
            next_paced: Instant::ZERO,
            train: train::Train::default(),
            cwr_due: false,
            limited: false,
            limited_until: 0,
            most_out: 0,
            last_sent: Instant::ZERO,
            now: Instant::ZERO,
            timed_until: 0,
            retransmissions: 0,
            timeouts: 0,
            echoed: 0,
        }
    }

    /// What the sender is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// Packets delivered so far.
    pub fn delivered(&self) -> u64 {
        self.sampler.delivered
    }

    /// What the control steers by.
    pub fn inner(&self) -> f64 {
        self.control.inner()
    }

    fn set_state(&mut self, to: State) {
        if self.state != to {
            self.control.on_state(&mut self.window, self.state, to);
            self.state = to;
        }
    }

    /// Takes in what the peer said. Gives a round trip, ns, if a segment sent only once was newly
    /// covered.
    pub fn on_ack(&mut self, now: Instant, heard: &Heard<'_>) -> Option<u64> {
        self.now = now;
        self.train.waits = false;
        self.room = self.room.max(heard.room);
        if heard.ack < self.una || heard.ack > self.nxt {
            return None;
        }
        self.control.on_arrival(&Totals {
            una: heard.ack,
            nxt: self.nxt,
            delivered: self.sampler.delivered,
            marked: self.sampler.delivered_ce,
        });
        let prior_in_flight = self.board.in_flight();
        let min_rtt = if self.rtt.min() == u64::MAX { 0 } else { self.rtt.min() };
        let echoed = Echoed { now, stamp: heard.stamp, min_rtt };
        let change = self.board.acknowledge(&echoed, heard.ack, heard.blocks, &mut self.sampler);
        self.una = heard.ack;
        let marked = heard.marked.unwrap_or(if heard.ece { change.delivered } else { 0 });
        self.sampler.delivered_ce += u64::from(marked);
        self.echoed += u64::from(marked);

        let mut sample = change.rtt_cumulative.or(change.rtt_selective);
        if sample.is_none() && change.advanced && heard.stamp != 0 {
            // RFC 7323 §4.1, on a clock of milliseconds.
            sample = Some(u64::from(stamp(now).wrapping_sub(heard.stamp)).max(1) * MILLISECOND);
        }
        if let Some(small) = self.rtt.without_karn(change.since_first, change.since_last) {
            // Small stacks time one segment a round trip.
            sample = small.filter(|_| self.una > self.timed_until);
            if sample.is_some() {
                self.timed_until = self.nxt;
            }
        }
        if let Some(rtt) = sample {
            self.rtt.sample(now.as_nanos(), rtt);
        }
        if change.advanced {
            self.rtt.progress();
        }

        let lost = self.find_losses(now);
        if self.state != State::Open && change.twice {
            if let Some(undo) = &mut self.undo {
                undo.pending = undo.pending.saturating_sub(1);
            }
        }
        self.probe_answered(heard, change.twice);
        self.advance_state(heard, change.advanced, marked > 0);

        let taken = self.sampler.take(min_rtt);
        let ack = Ack {
            now,
            delivered: change.delivered,
            marked,
            lost,
            rtt: change.rtt,
            min_rtt: self.rtt.min(),
            srtt: self.rtt.smoothed(),
            una: self.una,
            nxt: self.nxt,
            prior_in_flight,
            in_flight: self.board.in_flight(),
            total_delivered: self.sampler.delivered,
            sample: taken,
            state: self.state,
            limited: self.is_limited(),
        };
        self.control.on_ack(&mut self.window, &ack);
        if !self.control.is_model() {
            match self.state {
                State::Cwr | State::Recovery => self.shrink(change.delivered, lost, change.advanced),
                State::Open | State::Loss if change.advanced && change.delivered > 0 && ack.limited => {
                    self.control.grow(&mut self.window, &ack);
                }
                State::Open | State::Loss => {}
            }
        }
        if change.advanced || change.sacked {
            self.set_timer(now);
        }
        if self.board.packets_out() == 0 {
            self.stop_timers();
        }
        change.rtt
    }

    /// Whether the window, and not the application, is what limits (RFC 7661's idea, as in Linux).
    fn is_limited(&self) -> bool {
        self.limited || (self.window.in_slow_start() && self.window.cwnd < 2 * self.most_out)
    }

    /// The next segment that may be sent at `now`; none also while the pace forbids it.
    pub fn next_piece(&mut self, now: Instant) -> Option<Piece> {
        let pipe = self.board.in_flight();
        let repairing = self.board.has_lost();
        if pipe >= self.window.cwnd {
            if !repairing {
                self.note_usage(true);
            }
            return None;
        }
        let fresh = self.fresh();
        if !repairing && fresh.is_none() {
            if self.nxt >= self.written {
                self.sampler.app_limited(pipe);
            }
            self.note_usage(false);
            return None;
        }
        let aboard = self.is_aboard(now);
        if self.window.pacing.is_some() && now < self.next_paced && !aboard {
            return None;
        }
        let snapshot = self.sampler.snapshot(now, self.board.packets_out());
        let piece = match self.board.resend_lost(now, snapshot) {
            Some(span) => {
                self.note_retransmission(now);
                self.pace(now, span.1 - span.0, 1);
                Piece { span, again: true, cwr: false, push: false }
            }
            None => {
                let span = fresh?;
                self.idle_restart(now);
                if !aboard && !self.begin_train(now, pipe) {
                    return None;
                }
                self.board.sent(now, span.0, span.1, snapshot);
                self.nxt = span.1;
                let push = self.leave() || (self.options.modern && span.1 == self.written);
                Piece { span, again: false, cwr: std::mem::take(&mut self.cwr_due), push }
            }
        };
        if matches!(self.state, State::Cwr | State::Recovery) {
            self.prr_out += 1;
        }
        self.last_sent = now;
        if !piece.again || self.timer == Timer::Off {
            self.set_timer(now);
        }
        Some(piece)
    }

    fn fresh(&self) -> Option<(u64, u64)> {
        let end = (self.nxt + u64::from(self.options.mss)).min(self.written);
        (end > self.nxt && end <= self.room).then_some((self.nxt, end))
    }

    /// A round trip's largest use of the window decides whether it limits.
    fn note_usage(&mut self, limited: bool) {
        let out = self.board.packets_out();
        if self.una >= self.limited_until || limited || (!self.limited && out > self.most_out) {
            self.limited = limited;
            self.most_out = out;
            self.limited_until = self.nxt;
        }
    }

    /// After idling the old window says nothing (RFC 5681 §4.1).
    fn idle_restart(&mut self, now: Instant) {
        if !self.options.restart_after_idle || self.board.packets_out() > 0 || self.nxt == 0 {
            return;
        }
        let timeout = self.rtt.timeout().max(1);
        let mut idle = now.since(self.last_sent);
        let restart = super::control::INITIAL_WINDOW.min(self.window.cwnd);
        if idle > timeout && !self.control.is_model() {
            self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
            while idle > timeout && self.window.cwnd > restart {
                self.window.cwnd = (self.window.cwnd / 2).max(restart);
                idle -= timeout;
            }
        }
    }
}

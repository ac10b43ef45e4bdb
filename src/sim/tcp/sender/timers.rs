//! The timers: reordering (RFC 8985 §6), the tail-loss probe (§7), and at the end retransmission (RFC 6298).

use super::{Heard, PROBE_DELAYED_ACK, Piece, Sender, TIMER_SLACK, Timer};
use crate::sim::tcp::control::{Cause, State};
use crate::sim::tcp::ticks;
use crate::time::Instant;

impl Sender {
    pub(super) fn stop_timers(&mut self) {
        self.timer = Timer::Off;
        self.deadline = Instant::NEVER;
        self.reordering = Instant::NEVER;
    }

    /// Sets the timer after news or after sending: a probe where that is due first.
    pub(super) fn set_timer(&mut self, now: Instant) {
        if self.board.packets_out() == 0 {
            return;
        }
        let timeout = self.due(now, self.rtt.timeout());
        let srtt = self.rtt.smoothed();
        let may_probe = self.options.modern
            && matches!(self.state, State::Open | State::Cwr)
            && self.board.sacked_out == 0
            && self.board.lost_out == 0
            && self.probe_until.is_none()
            && srtt > 0;
        (self.timer, self.deadline) = (Timer::Retransmit, timeout);
        if may_probe {
            let slack = if self.board.packets_out() == 1 { PROBE_DELAYED_ACK } else { TIMER_SLACK };
            // The probe comes in the timeout's place where that would be first (RFC 8985 §7.2).
            (self.timer, self.deadline) = (Timer::Probe, timeout.min(self.due(now, 2 * srtt + slack)));
        }
    }

    /// A kernel's timers run on ticks; the small stack's on its clock of milliseconds.
    fn due(&self, now: Instant, wait: u64) -> Instant {
        if self.options.modern { ticks::due(now, wait) } else { now + wait }
    }

    /// When [`Sender::on_timer`] is to be called next.
    pub fn next_timer(&self) -> Instant {
        let paced = self.window.pacing.is_some()
            && !self.train.waits
            && self.board.in_flight() < self.window.cwnd
            && (self.board.has_lost() || self.fresh().is_some());
        let pace = if paced { self.next_paced } else { Instant::NEVER };
        self.deadline.min(self.reordering).min(pace)
    }

    /// Time has come for whatever is due. Gives a segment that goes out regardless of the window.
    pub fn on_timer(&mut self, now: Instant) -> Option<Piece> {
        self.now = now;
        if now >= self.reordering {
            self.reordering = Instant::NEVER;
            self.timer_found_losses(now);
        }
        if now < self.deadline || self.board.packets_out() == 0 {
            return None;
        }
        match self.timer {
            Timer::Off => None,
            Timer::Probe => self.probe(now),
            Timer::Retransmit => {
                self.time_out(now);
                None
            }
        }
    }

    pub(super) fn timer_found_losses(&mut self, now: Instant) {
        let lost = self.find_losses(now);
        if lost > 0 && matches!(self.state, State::Open | State::Cwr) {
            let heard = Heard { ack: self.una, room: 0, blocks: &[], ece: false, marked: None, stamp: 0, data: false };
            self.advance_state(&heard, false, false);
            if !self.control.is_model() {
                // The delivery that set the timer counts here.
                self.shrink(1, lost, false);
            }
        }
    }

    pub(super) fn probe(&mut self, now: Instant) -> Option<Piece> {
        let snapshot = self.sampler.snapshot(now, self.board.packets_out());
        let piece = match self.fresh() {
            Some(span) => {
                self.board.sent(now, span.0, span.1, snapshot);
                self.nxt = span.1;
                Piece { span, again: false, cwr: false, push: span.1 == self.written }
            }
            None => {
                let span = self.board.resend_last(now, snapshot)?;
                self.retransmissions += 1;
                Piece { span, again: true, cwr: false, push: span.1 == self.written }
            }
        };
        self.probe_until = Some((self.nxt, piece.again));
        self.last_sent = now;
        (self.timer, self.deadline) = (Timer::Retransmit, self.due(now, self.rtt.timeout()));
        Some(piece)
    }

    pub(super) fn time_out(&mut self, now: Instant) {
        self.timeouts += 1;
        let again = self.state == State::Loss && self.rtt.backoffs() > 0;
        let recent = if self.options.modern && self.board.rack.rtt > 0 { self.board.rack.rtt } else { 0 };
        let lost = self.board.timed_out(now, recent);
        self.sampler.lost += u64::from(lost);
        if !again {
            self.remember();
            self.begin_reduction(Cause::Timeout);
        }
        self.high = self.nxt;
        self.probe_until = None;
        self.set_state(State::Loss);
        // A stack without congestion control sends its whole window again.
        if self.options.modern {
            self.window.cwnd = self.board.in_flight() + 1;
        }
        self.window.forget();
        self.rtt.back_off();
        // What is sent because of the timer does not wait for the pace.
        self.next_paced = now;
        (self.timer, self.deadline) = (Timer::Retransmit, self.due(now, self.rtt.timeout()));
    }
}

//! Losses and marks: what is lost (RACK, RFC 8985 §6), how the window goes down (RFC 9937), and when
//! that was for nothing (RFC 3522, RFC 3708).

use super::{DUPLICATES, Heard, Sender, TIMER_SLACK, Undo, stamp};
use crate::sim::tcp::control::{Cause, State};
use crate::sim::tcp::ticks;
use crate::time::Instant;

impl Sender {
    pub(super) fn begin_reduction(&mut self, cause: Cause) {
        self.high = self.nxt;
        self.prior_cwnd = self.window.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.probe_until = None;
        let ssthresh = self.control.reduce(&self.window, self.now, cause);
        if !self.control.is_model() {
            self.window.ssthresh = ssthresh;
        }
        self.cwr_due = true;
    }

    pub(super) fn end_reduction(&mut self) {
        if !self.control.is_model() && self.window.ssthresh != u32::MAX {
            self.window.cwnd = self.window.ssthresh;
            self.window.forget();
        }
    }

    pub(super) fn remember(&mut self) {
        let (cwnd, ssthresh) = (self.window.cwnd, self.window.ssthresh);
        self.undo = Some(Undo { cwnd, ssthresh, pending: 0, stamp: 0, any: false });
    }

    /// Whether the reduction was for nothing: an acknowledgement that answers something sent before
    /// the first retransmission, or every retransmission came twice.
    pub(super) fn was_needless(&self, stamp: u32) -> bool {
        let Some(undo) = self.undo else { return false };
        undo.any && (undo.pending == 0 || (stamp != 0 && (stamp.wrapping_sub(undo.stamp) as i32) < 0))
    }

    pub(super) fn take_back(&mut self, unmark: bool) {
        let Some(undo) = self.undo.take() else { return };
        if unmark {
            self.board.unmark();
        }
        if !self.control.is_model() {
            self.window.cwnd = self.window.cwnd.max(undo.cwnd);
            self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
        }
        self.control.undo();
    }

    pub(super) fn advance_state(&mut self, heard: &Heard<'_>, advanced: bool, marked: bool) {
        let passed = self.una >= self.high;
        match self.state {
            State::Open => {}
            State::Cwr if self.una > self.high => {
                self.end_reduction();
                self.set_state(State::Open);
            }
            State::Cwr => {}
            State::Recovery => {
                if passed {
                    if self.was_needless(heard.stamp) {
                        self.take_back(false);
                    } else {
                        self.end_reduction();
                    }
                    self.undo = None;
                    self.set_state(State::Open);
                } else if advanced && self.was_needless(heard.stamp) {
                    self.take_back(true);
                    self.set_state(State::Open);
                }
            }
            State::Loss => {
                if passed {
                    if self.was_needless(heard.stamp) {
                        self.take_back(false);
                    }
                    self.undo = None;
                    self.set_state(State::Open);
                } else if advanced && self.was_needless(heard.stamp) {
                    self.take_back(true);
                    self.set_state(State::Open);
                }
            }
        }
        if !self.options.modern {
            return;
        }
        match self.state {
            State::Open | State::Cwr if self.board.lost_out > 0 => {
                if self.state == State::Open {
                    self.remember();
                    self.begin_reduction(Cause::Loss);
                } else {
                    self.high = self.nxt;
                }
                self.set_state(State::Recovery);
            }
            State::Open if marked => {
                self.begin_reduction(Cause::Mark);
                self.set_state(State::Cwr);
            }
            _ => {}
        }
    }

    /// Proportional rate reduction (RFC 9937 §6.2).
    pub(super) fn shrink(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 && (self.prr_out > 0 || lost == 0) {
            return;
        }
        let pipe = self.board.in_flight();
        let ssthresh = self.window.ssthresh;
        self.prr_delivered += delivered;
        let may_send = if pipe > ssthresh {
            let share = u64::from(ssthresh) * u64::from(self.prr_delivered);
            (share.div_ceil(u64::from(self.prior_cwnd.max(1))) as u32).saturating_sub(self.prr_out)
        } else {
            let mut n = self.prr_delivered.saturating_sub(self.prr_out).max(delivered);
            if advanced && lost == 0 {
                n += 1;
            }
            n.min(ssthresh - pipe)
        };
        // The first retransmission goes out whatever the sums say.
        self.window.cwnd = pipe + may_send.max(u32::from(self.prr_out == 0));
    }

    pub(super) fn reordering_window(&self) -> u64 {
        let rack = &self.board.rack;
        if !rack.reordered
            && (matches!(self.state, State::Recovery | State::Loss) || self.board.sacked_out >= DUPLICATES)
        {
            return 0;
        }
        (self.rtt.min() / 4).min(self.rtt.smoothed())
    }

    pub(super) fn find_losses(&mut self, now: Instant) -> u32 {
        if !self.options.modern {
            return 0;
        }
        let window = self.reordering_window();
        let (lost, wait) = self.board.detect(now, window);
        self.sampler.lost += u64::from(lost);
        self.reordering = wait.map_or(Instant::NEVER, |ns| ticks::due(now, ns + TIMER_SLACK));
        lost
    }

    pub(super) fn probe_answered(&mut self, heard: &Heard<'_>, twice: bool) {
        let Some((until, retransmission)) = self.probe_until else { return };
        if heard.ack < until {
            return;
        }
        if !retransmission || twice {
            self.probe_until = None;
        } else if heard.ack > until {
            // The probe repaired a loss that nobody noticed: it counts (RFC 8985 §7.4.2).
            self.probe_until = None;
            if self.state == State::Open {
                self.begin_reduction(Cause::Loss);
                self.set_state(State::Cwr);
                self.end_reduction();
                self.set_state(State::Open);
            }
        }
    }

    pub(super) fn note_retransmission(&mut self, now: Instant) {
        self.retransmissions += 1;
        if let Some(undo) = &mut self.undo {
            undo.pending += 1;
            if !undo.any {
                undo.any = true;
                undo.stamp = stamp(now);
            }
        }
    }
}

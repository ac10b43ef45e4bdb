//! What is in flight: every segment sent and not yet acknowledged, which of them were
//! selectively acknowledged (RFC 2018), and which are lost by the rule of RACK (RFC 8985).

use std::collections::VecDeque;

use super::rate::{Sampler, Snapshot};
use crate::time::Instant;

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
pub struct Seg {
    /// First byte.
    pub start: u64,
    /// Byte behind the last.
    pub end: u64,
    /// When it was sent last.
    pub sent: Instant,
    /// How often.
    pub times: u16,
    /// Selectively acknowledged.
    pub sacked: bool,
    /// Taken for lost, whether sent again or not.
    pub lost: bool,
    /// Sent again and not heard of since.
    pub again: bool,
    /// What the delivery rate's sampler knew when it was sent.
    pub snapshot: Snapshot,
}

/// An entry of the order of sending; stale once its segment was sent again.
#[derive(Clone, Copy, Debug)]
struct Sending {
    start: u64,
    times: u16,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// Packets delivered for the first time, by either kind of acknowledgement.
    pub delivered: u32,
    /// Whether the cumulative edge moved.
    pub advanced: bool,
    /// Whether something was selectively acknowledged.
    pub sacked: bool,
    /// Whether the receiver told of bytes that came twice.
    pub twice: bool,
    /// Round trip of the newest segment sent only once that this covers, ns.
    pub rtt: Option<u64>,
    /// Round trip of the oldest segment sent only once that the cumulative edge passed, ns: what the
    /// timer learns from.
    pub rtt_cumulative: Option<u64>,
    /// Round trip of the first segment sent only once that was selectively acknowledged, ns.
    pub rtt_selective: Option<u64>,
    /// Time since the first sending of the oldest segment that the edge passed, retransmitted or not.
    pub since_first: Option<u64>,
    /// The same since its last sending.
    pub since_last: Option<u64>,
}

/// What an acknowledgement tells of time.
#[derive(Clone, Copy, Debug)]
pub struct Echoed {
    /// When it came.
    pub now: Instant,
    /// The timestamp that it echoes, ms; zero if none.
    pub stamp: u32,
    /// Smallest round trip, ns.
    pub min_rtt: u64,
}

impl Echoed {
    /// Whether it answers something sent before `sent`.
    fn is_older_than(&self, sent: Instant) -> bool {
        self.stamp != 0 && (self.stamp.wrapping_sub(super::sender::stamp(sent)) as i32) < 0
    }
}

/// RACK's idea of the most recently sent segment that was delivered (RFC 8985 §6.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rack {
    sent: Instant,
    end: u64,
    /// Round trip of that segment, ns.
    pub rtt: u64,
    /// Whether reordering was ever seen.
    pub reordered: bool,
}

/// Everything in flight.
#[derive(Debug, Default)]
pub struct Scoreboard {
    segs: VecDeque<Seg>,
    order: VecDeque<Sending>,
    /// Selectively acknowledged packets.
    pub sacked_out: u32,
    /// Packets taken for lost.
    pub lost_out: u32,
    /// Retransmissions in flight.
    pub again_out: u32,
    /// Lowest segment that may have to be sent again.
    hint: u64,
    /// End of the highest byte that was delivered.
    foremost: u64,
    known: [(u64, u64); 4],
    /// See [`Rack`].
    pub rack: Rack,
    /// When the first sending of the oldest in flight was.
    firsts: VecDeque<Instant>,
    mss: u64,
}

impl Scoreboard {
    /// Nothing in flight; segments have up to `mss` bytes.
    pub fn new(mss: u32) -> Self {
        Scoreboard { mss: mss.into(), ..Scoreboard::default() }
    }

    /// Packets sent and not cumulatively acknowledged.
    pub fn packets_out(&self) -> u32 {
        self.segs.len() as u32
    }

    /// Packets in the network by our best knowledge (RFC 6675's pipe, in packets).
    pub fn in_flight(&self) -> u32 {
        self.packets_out() + self.again_out - self.sacked_out - self.lost_out
    }

    /// Whether something lost waits to be sent again.
    pub fn has_lost(&self) -> bool {
        self.lost_out > self.again_out
    }

    /// The oldest in flight.
    pub fn first(&self) -> Option<&Seg> {
        self.segs.front()
    }

    fn find(&self, start: u64) -> Option<usize> {
        let front = self.segs.front()?.start;
        if start < front {
            return None;
        }
        let guess = ((start - front) / self.mss) as usize;
        if self.segs.get(guess).is_some_and(|s| s.start == start) {
            return Some(guess);
        }
        self.segs.binary_search_by_key(&start, |s| s.start).ok()
    }

    /// The first segment that begins at or behind `at`.
    fn from(&self, at: u64) -> usize {
        self.segs.partition_point(|s| s.start < at)
    }

    /// Notes a new segment.
    pub fn sent(&mut self, now: Instant, start: u64, end: u64, snapshot: Snapshot) {
        self.segs.push_back(Seg {
            start,
            end,
            sent: now,
            times: 1,
            sacked: false,
            lost: false,
            again: false,
            snapshot,
        });
        self.firsts.push_back(now);
        self.order.push_back(Sending { start, times: 1 });
    }

    fn resent(&mut self, i: usize, now: Instant, snapshot: Snapshot) -> (u64, u64) {
        let seg = &mut self.segs[i];
        seg.sent = now;
        seg.times = seg.times.saturating_add(1);
        seg.snapshot = snapshot;
        if !seg.again {
            seg.again = true;
            self.again_out += 1;
        }
        let (start, times, span) = (seg.start, seg.times, (seg.start, seg.end));
        self.order.push_back(Sending { start, times });
        span
    }

    /// Sends the lowest lost segment again; gives its bytes.
    pub fn resend_lost(&mut self, now: Instant, snapshot: Snapshot) -> Option<(u64, u64)> {
        if !self.has_lost() {
            return None;
        }
        let from = self.from(self.hint);
        let i = (from..self.segs.len()).find(|i| {
            let s = &self.segs[*i];
            s.lost && !s.again
        })?;
        self.hint = self.segs[i].end;
        Some(self.resent(i, now, snapshot))
    }

    /// Sends the highest segment again, as a probe.
    pub fn resend_last(&mut self, now: Instant, snapshot: Snapshot) -> Option<(u64, u64)> {
        let i = self.segs.iter().rposition(|s| !s.sacked)?;
        Some(self.resent(i, now, snapshot))
    }

    fn mark_lost(&mut self, i: usize) {
        let seg = &mut self.segs[i];
        if seg.again {
            seg.again = false;
            self.again_out -= 1;
        }
        if !seg.lost {
            seg.lost = true;
            self.lost_out += 1;
        }
        self.hint = self.hint.min(seg.start);
    }

    /// The timer went off: all is lost but what was delivered and what was sent within `recent` ns
    /// (RFC 8985 §6.3). Gives how many packets.
    pub fn timed_out(&mut self, now: Instant, recent: u64) -> u32 {
        let before = self.lost_out;
        for i in 0..self.segs.len() {
            let seg = &self.segs[i];
            if !seg.sacked && (i == 0 || now.since(seg.sent) >= recent) {
                self.mark_lost(i);
            }
        }
        self.lost_out - before
    }

    /// It was no loss after all: takes every mark back that no retransmission answers.
    pub fn unmark(&mut self) {
        for seg in self.segs.iter_mut().filter(|s| s.lost && !s.again) {
            seg.lost = false;
            self.lost_out -= 1;
        }
        self.order.clear();
        self.order.extend(self.segs.iter().filter(|s| !s.sacked).map(|s| Sending { start: s.start, times: s.times }));
        let segs = &self.segs;
        self.order.make_contiguous().sort_by_key(|o| {
            let i = segs.partition_point(|s| s.start < o.start);
            (segs[i].sent, o.start)
        });
    }

    /// A segment was delivered: what it tells of time, rate and order.
    fn learn(seg: &Seg, heard: &Echoed, foremost: u64, rack: &mut Rack, change: &mut Change) {
        let rtt = heard.now.since(seg.sent);
        if seg.times == 1 {
            change.rtt = Some(change.rtt.map_or(rtt, |r| r.min(rtt)));
            if seg.end < foremost {
                rack.reordered = true;
            }
        } else if rtt < heard.min_rtt || heard.is_older_than(seg.sent) {
            // It was not the retransmission that was heard of (RFC 8985 §6.2 step 2).
            return;
        }
        if (seg.sent, seg.end) > (rack.sent, rack.end) {
            (rack.sent, rack.end, rack.rtt) = (seg.sent, seg.end, rtt);
        }
    }

    /// Takes in an acknowledgement up to `ack` with SACK `blocks`.
    pub fn acknowledge(&mut self, heard: &Echoed, ack: u64, blocks: &[(u64, u64)], sampler: &mut Sampler) -> Change {
        let now = heard.now;
        let mut change = Change::default();
        let foremost = self.foremost;
        let mut ambiguous = false;
        while let Some(seg) = self.segs.front().filter(|s| s.end <= ack).copied() {
            self.segs.pop_front();
            let first = self.firsts.pop_front();
            change.advanced = true;
            change.since_first = change.since_first.or(first.map(|f| now.since(f)));
            change.since_last = change.since_last.or(Some(now.since(seg.sent)));
            ambiguous |= seg.times > 1;
            if seg.lost {
                self.lost_out -= 1;
            }
            if seg.again {
                self.again_out -= 1;
            }
            if seg.sacked {
                self.sacked_out -= 1;
                continue;
            }
            if seg.times == 1 && change.rtt_cumulative.is_none() {
                change.rtt_cumulative = Some(now.since(seg.sent));
            }
            change.delivered += 1;
            sampler.delivered(now, &seg);
            Self::learn(&seg, heard, foremost, &mut self.rack, &mut change);
            self.foremost = self.foremost.max(seg.end);
        }
        if ambiguous {
            // What waited behind a hole for its retransmission says nothing of the path (Karn's rule).
            change.rtt_cumulative = None;
        }
        for &block in blocks {
            if block.1 <= ack || self.segs.front().is_some_and(|s| block.1 <= s.start) {
                change.twice = true;
                continue;
            }
            self.select(heard, block, foremost, sampler, &mut change);
        }
        self.known = [(0, 0); 4];
        self.known.iter_mut().zip(blocks).for_each(|(known, block)| *known = *block);
        change
    }

    /// Marks what a SACK block covers and no block of the acknowledgement before did.
    fn select(
        &mut self,
        heard: &Echoed,
        (from, to): (u64, u64),
        foremost: u64,
        sampler: &mut Sampler,
        change: &mut Change,
    ) {
        let now = heard.now;
        if self.known.iter().any(|(a, b)| *a <= from && to <= *b) {
            return;
        }
        let skip = self.known.iter().find(|(a, b)| *a == from && *b > from && *b < to).map_or(from, |k| k.1);
        for i in self.from(skip)..self.segs.len() {
            let seg = &mut self.segs[i];
            if seg.end > to {
                break;
            }
            if seg.sacked {
                continue;
            }
            let copy = *seg;
            seg.sacked = true;
            self.sacked_out += 1;
            if seg.lost {
                seg.lost = false;
                self.lost_out -= 1;
            }
            if seg.again {
                seg.again = false;
                self.again_out -= 1;
            }
            if copy.times == 1 && change.rtt_selective.is_none() {
                change.rtt_selective = Some(now.since(copy.sent));
            }
            change.sacked = true;
            change.delivered += 1;
            sampler.delivered(now, &copy);
            Self::learn(&copy, heard, foremost, &mut self.rack, change);
            self.foremost = self.foremost.max(copy.end);
        }
    }

    /// Marks what was sent so long before the last delivery that it must be lost: more than
    /// `window` ns beyond the round trip. Gives the packets lost, and how long to wait for the rest.
    pub fn detect(&mut self, now: Instant, window: u64) -> (u32, Option<u64>) {
        let mut lost = 0;
        while let Some(entry) = self.order.front() {
            let i = self.find(entry.start).filter(|i| {
                let s = &self.segs[*i];
                s.times == entry.times && !s.sacked && (!s.lost || s.again)
            });
            let Some(i) = i else {
                self.order.pop_front();
                continue;
            };
            let seg = &self.segs[i];
            if (seg.sent, seg.end) >= (self.rack.sent, self.rack.end) {
                break;
            }
            if now < seg.sent + self.rack.rtt + window {
                // One timer for all that are in doubt: the last of them was sent just before the
                // segment that was delivered.
                return (lost, Some((self.rack.sent + self.rack.rtt + window).since(now).max(1)));
            }
            self.mark_lost(i);
            self.order.pop_front();
            lost += 1;
        }
        (lost, None)
    }
}

#[cfg(test)]
mod tests;

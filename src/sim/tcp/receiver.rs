//! The receiving half: what has come, when to acknowledge, what to echo.

mod space;

use super::ticks;
use crate::mark::ecn;
use crate::time::{Instant, MILLISECOND};
use space::Space;

/// How congestion marks are told to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Not at all.
    Off,
    /// ECE from a mark until CWR (RFC 3168 §6.1.3).
    Classic,
    /// ECE exactly as marked, with an immediate ACK when that changes (RFC 8257 §3.2).
    Exact,
    /// A counter of marked packets, modulo eight (RFC 9768 §3.2.2).
    Accurate,
}

/// How long an acknowledgement waits for a second segment at least, ns (Linux).
const DELAY: u64 = 40 * MILLISECOND;
/// And at most, ns.
const LONGEST: u64 = 200 * MILLISECOND;
/// Acknowledgements sent at once when a connection starts, or after a long silence.
const QUICK: u32 = 16;

/// A span of bytes, end excluded.
pub type Span = (u64, u64);

/// What an arriving segment calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An acknowledgement now.
    Now,
    /// When the timer says so, or with the next data.
    Later,
}

/// What the sending half at the same end knows of time, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// Its retransmission timeout.
    pub timeout: u64,
    /// Its smoothed round trip; zero before the first.
    pub rtt: u64,
    /// Since the sending of what the segment answers; `None` if it answers nothing.
    pub answered: Option<u64>,
}

/// The receiving half at work.
#[derive(Debug)]
pub struct Receiver {
    /// Next byte expected.
    pub next: u64,
    /// Spans beyond it, the one that changed last first.
    spans: Vec<Span>,
    /// A span that came twice, to be told once (RFC 2883).
    duplicate: Option<Span>,
    /// Bytes acknowledged last.
    acked: u64,
    echo: Echo,
    ece: bool,
    marks: u64,
    quick: u32,
    /// How far apart segments come, smoothed: what is waited for, within bounds.
    gap: u64,
    last_data: Option<Instant>,
    /// When the delayed acknowledgement is due.
    pub due: Instant,
    space: Space,
    mss: u64,
    delayed: bool,
    /// Timestamp to echo.
    pub stamp: u32,
    /// Data segments that came.
    pub segments: u64,
}

impl Receiver {
    /// Nothing has come; segments carry up to `mss` bytes; the window opens to `most` bytes; `delayed` acknowledgements or
    /// one each.
    pub fn new(mss: u32, most: u64, echo: Echo, delayed: bool) -> Self {
        Receiver {
            next: 0,
            spans: Vec::new(),
            duplicate: None,
            acked: 0,
            echo,
            ece: false,
            marks: 0,
            quick: QUICK,
            gap: DELAY,
            last_data: None,
            due: Instant::NEVER,
            space: Space::new(mss.into(), most),
            mss: mss.into(),
            delayed,
            stamp: 0,
            segments: 0,
        }
    }

    /// How marks are told.
    pub fn echo(&self) -> Echo {
        self.echo
    }

    /// Sets it, as negotiated.
    pub fn set_echo(&mut self, echo: Echo) {
        self.echo = echo;
    }

    /// Bytes that may come.
    pub fn window(&self) -> u64 {
        self.space.window(self.waiting())
    }

    /// Bytes that wait for a gap to close.
    fn waiting(&self) -> u64 {
        self.spans.iter().map(|(a, b)| b - a).sum()
    }

    /// Whether what came so far must be acknowledged before a segment with this ECN field is taken
    /// in, so that the echo says exactly which bytes were marked (RFC 8257 §3.2).
    pub fn owes_before(&self, ecn_field: u8) -> bool {
        self.echo == Echo::Exact && (ecn_field == ecn::CE) != self.ece && self.due != Instant::NEVER
    }

    /// Data came: bytes `from..to` with ECN field `ecn_field`; `cwr` if the sender says that it slowed
    /// down; `own` is what the own sending half knows of time.
    pub fn data(&mut self, now: Instant, (from, to): Span, stamp: u32, ecn_field: u8, cwr: bool, own: Own) -> Reply {
        self.segments += 1;
        let marked = ecn_field == ecn::CE;
        match self.echo {
            Echo::Off => {}
            Echo::Classic => {
                if cwr {
                    self.ece = false;
                }
                if marked && !self.ece {
                    self.ece = true;
                    self.quick = self.quick.max(2);
                }
            }
            Echo::Exact => {
                if marked != self.ece {
                    self.ece = marked;
                    self.quick = self.quick.max(1);
                }
            }
            Echo::Accurate => {
                // Every second mark is told at once, so that the counter cannot wrap unseen.
                if marked {
                    self.marks += 1;
                    if self.marks & 1 == 1 {
                        self.quick = self.quick.max(1);
                    }
                }
            }
        }
        if from <= self.next && self.next < to {
            self.pace(now, own.timeout);
        }
        if self.space.came(to - from, own.answered, self.waiting()) {
            self.quick = self.quick.max(1);
        }
        let urgent = self.place(from, to, stamp);
        self.space.read(now, self.next);
        if urgent || !self.spans.is_empty() || self.quick > 0 || !self.delayed || self.next - self.acked > self.mss {
            return Reply::Now;
        }
        self.arm(now, own.rtt);
        Reply::Later
    }

    /// The second segment is waited for as long as two are usually apart, but no longer than a round trip.
    fn arm(&mut self, now: Instant, rtt: u64) {
        if self.due == Instant::NEVER {
            let most = if rtt == 0 { LONGEST } else { rtt.clamp(DELAY, LONGEST) };
            self.due = ticks::due(now, self.gap.min(most));
        }
    }

    /// After a hole in the arrivals that is longer than the own timeout the sender is helped along,
    /// as Linux does.
    fn pace(&mut self, now: Instant, rto: u64) {
        let last = self.last_data.replace(now);
        let Some(gap) = last.map(|last| now.since(last)) else { return };
        if gap <= DELAY / 2 {
            self.gap = self.gap / 2 + DELAY / 2;
        } else if gap < self.gap {
            self.gap = (self.gap / 2 + gap).min(rto);
        } else if gap > rto {
            self.quick = QUICK;
        }
    }

    /// An acknowledgement without data has come, at the edge of what has: its stamp is the newest there
    /// unless an acknowledgement is owed (RFC 7323 §4.3).
    pub fn bare(&mut self, at_edge: bool, stamp: u32) {
        if at_edge && self.acked == self.next {
            self.stamp = stamp;
        }
    }

    /// Notes the bytes; gives whether the sender must know at once: a gap, a gap closed, or bytes that
    /// came twice (RFC 5681 §4.2).
    fn place(&mut self, from: u64, to: u64, stamp: u32) -> bool {
        // RFC 7323 §4.3: the newest stamp of what begins at or before the edge last acknowledged, be
        // it new or not.
        if from <= self.acked {
            self.stamp = stamp;
        }
        if to <= self.next || self.spans.iter().any(|(a, b)| *a <= from && to <= *b) {
            self.duplicate = Some((from, to));
            return true;
        }
        if from <= self.next {
            self.next = to;
            let mut closed = false;
            while let Some(i) = self.spans.iter().position(|(a, _)| *a <= self.next) {
                self.next = self.next.max(self.spans.remove(i).1);
                closed = true;
            }
            return closed;
        }
        let mut span = (from, to);
        self.spans.retain(|(a, b)| {
            let apart = *b < span.0 || span.1 < *a;
            if !apart {
                span = (span.0.min(*a), span.1.max(*b));
            }
            apart
        });
        self.spans.insert(0, span);
        true
    }

    /// An acknowledgement is about to be sent: the ECN flags it carries, and its SACK blocks (at most
    /// `room`), a span that came twice first.
    pub fn acknowledge(&mut self, blocks: &mut [Span; 4], room: usize) -> usize {
        self.acked = self.next;
        self.due = Instant::NEVER;
        self.quick = self.quick.saturating_sub(1);
        let twice = self.duplicate.take();
        let mut n = 0;
        for span in twice.into_iter().chain(self.spans.iter().copied()).take(room) {
            blocks[n] = span;
            n += 1;
        }
        n
    }

    /// Whether ECE is set.
    pub fn ece(&self) -> bool {
        self.ece
    }

    /// Marked packets so far, for the accurate counter.
    pub fn marks(&self) -> u64 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(echo: Echo) -> Receiver {
        let mut r = Receiver::new(1000, 0, echo, true);
        r.quick = 0;
        r
    }

    fn take(r: &mut Receiver, n: u64, ecn: u8) -> Reply {
        let own = Own { timeout: 1000 * MILLISECOND, ..Own::default() };
        let reply = r.data(Instant::ZERO, (n * 1000, (n + 1) * 1000), n as u32, ecn, false, own);
        if reply == Reply::Now {
            r.acknowledge(&mut [(0, 0); 4], 3);
        }
        reply
    }

    #[test]
    fn every_second_full_segment_is_acknowledged_and_a_lone_one_by_the_timer() {
        let mut r = receiver(Echo::Off);
        assert_eq!(take(&mut r, 0, 0), Reply::Later);
        assert_eq!(r.due, ticks::due(Instant::ZERO, 40 * MILLISECOND));
        assert_eq!(take(&mut r, 1, 0), Reply::Now);
        assert_eq!(r.due, Instant::NEVER);
    }

    #[test]
    fn a_gap_is_told_at_once_newest_span_first() {
        let mut r = receiver(Echo::Off);
        take(&mut r, 0, 0);
        assert_eq!(take(&mut r, 2, 0), Reply::Now);
        assert_eq!(take(&mut r, 4, 0), Reply::Now);
        let mut blocks = [(0, 0); 4];
        assert_eq!(r.acknowledge(&mut blocks, 3), 2);
        assert_eq!(blocks[..2], [(4000, 5000), (2000, 3000)]);
        assert_eq!((take(&mut r, 1, 0), r.next), (Reply::Now, 3000));
    }

    #[test]
    fn bytes_that_come_twice_are_named_first_and_once() {
        let mut r = receiver(Echo::Off);
        take(&mut r, 0, 0);
        r.data(Instant::ZERO, (0, 1000), 0, 0, false, Own::default());
        let mut blocks = [(0, 0); 4];
        assert_eq!((r.acknowledge(&mut blocks, 3), blocks[0]), (1, (0, 1000)));
        assert_eq!(r.acknowledge(&mut blocks, 3), 0);
    }

    #[test]
    fn the_classic_echo_holds_until_the_sender_has_slowed_down() {
        let mut r = receiver(Echo::Classic);
        take(&mut r, 0, ecn::CE);
        take(&mut r, 1, ecn::ECT_0);
        assert!(r.ece());
        r.data(Instant::ZERO, (2000, 3000), 0, ecn::ECT_0, true, Own::default());
        assert!(!r.ece());
    }

    #[test]
    fn the_exact_echo_acknowledges_what_was_before_a_change_first() {
        let mut r = receiver(Echo::Exact);
        assert_eq!(take(&mut r, 0, ecn::ECT_0), Reply::Later);
        assert!(r.owes_before(ecn::CE) && !r.ece());
        r.acknowledge(&mut [(0, 0); 4], 3);
        assert_eq!(take(&mut r, 1, ecn::CE), Reply::Now);
        assert!(r.ece() && !r.owes_before(ecn::ECT_0));
    }

    #[test]
    fn the_stamp_echoed_is_that_of_the_first_segment_not_yet_acknowledged() {
        let mut r = receiver(Echo::Off);
        take(&mut r, 0, 0);
        take(&mut r, 1, 0);
        assert_eq!(r.stamp, 0);
        take(&mut r, 2, 0);
        take(&mut r, 3, 0);
        assert_eq!(r.stamp, 2);
    }
}

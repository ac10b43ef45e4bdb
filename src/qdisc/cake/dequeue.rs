//! A packet goes out (`spec/cake.md` §12).

use super::flows::State;
use super::tins::Tin;
use super::{Cake, CeThreshold};
use crate::mark::ecn;
use crate::packet::{Marks, Packet};
use crate::pool::Frame;
use crate::qdisc::{Cx, Reason};
use crate::time::{Instant, MICROSECOND};

impl Cake {
    pub(super) fn departure(&mut self, moment: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        let now = self.now(moment);
        let mut first = true;
        loop {
            if self.basic.qlen == 0 {
                return self.nothing(now);
            }
            if self.shaper.is_throttled(now) {
                self.basic.overlimits += 1;
                self.wake_at(self.shaper.wake());
                return None;
            }
            let tin = if self.shaper.is_unlimited() { self.next_in_turn() } else { self.most_due(now) };
            let Some(t) = tin else { return self.nothing(now) };
            if let Some(frame) = self.serve(t, now, moment, &mut first, cx) {
                return Some(frame);
            }
        }
    }

    /// There is nothing to send; a wake-up that has come need not come again.
    fn nothing(&mut self, now: i64) -> Option<Frame> {
        self.wake = self.wake.filter(|&at| at > now);
        None
    }

    /// Weighted round robin over the tins (`spec/cake.md` §12.2, unlimited).
    #[inline]
    fn next_in_turn(&mut self) -> Option<usize> {
        let (mut rounds, mut seen) = (0, false);
        loop {
            let t = self.turn;
            let tin = &mut self.tins[t];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(t);
            }
            if tin.deficit <= 0 {
                tin.deficit += i32::from(tin.quantum);
            }
            seen |= tin.is_active();
            self.turn += 1;
            if self.turn >= self.tin_count {
                self.turn = 0;
                rounds += 1;
                if rounds > 1 && !seen {
                    return None;
                }
                if rounds > 4 {
                    self.skip_rounds();
                }
            }
        }
    }

    /// Rounds in which no tin would come out of debt are taken at once: after a change from a shaper
    /// to none, the debt can be gigabytes.
    #[cold]
    fn skip_rounds(&mut self) {
        let tins = &mut self.tins[..self.tin_count];
        let needed = |tin: &Tin| tin.deficit.unsigned_abs().div_ceil(u32::from(tin.quantum)) as i32;
        let active = tins.iter().filter(|t| t.is_active());
        let Some(skipped) = active.map(|t| if t.deficit < 0 { needed(t) - 1 } else { 0 }).min() else { return };
        for tin in tins.iter_mut().filter(|t| t.deficit <= 0) {
            let quantum = i32::from(tin.quantum);
            let until_positive = tin.deficit.unsigned_abs() as i32 / quantum + 1;
            tin.deficit += quantum * skipped.min(until_positive);
        }
    }

    /// The highest tin within its threshold, else the one that will be first (`spec/cake.md` §12.2,
    /// shaped).
    #[inline]
    fn most_due(&self, now: i64) -> Option<usize> {
        let mut best = i64::MAX;
        let mut choice = None;
        for (t, tin) in self.tins.iter().enumerate().take(self.tin_count) {
            if tin.is_active() {
                let due = tin.time_next - now;
                if due <= 0 || due <= best {
                    best = due;
                    choice = Some(t);
                }
            }
        }
        choice
    }

    /// Chooses a flow of the tin and takes a packet of it (`spec/cake.md` §12.3, §12.4). `None` if
    /// the tins must be looked at again.
    #[inline]
    fn serve(&mut self, t: usize, now: i64, moment: Instant, first: &mut bool, cx: &mut Cx<'_>) -> Option<Frame> {
        loop {
            let tin = &mut self.tins[t];
            let f = tin.next_flow(*first)?;
            *first = false;
            if tin.flows[f].deficit <= 0 {
                tin.rotate(f, self.fair, cx.random);
                continue;
            }
            let Some(frame) = tin.flows[f].queue.pop(cx.pool) else {
                tin.retire(f, now);
                // As long as the tin has others, it is still its turn: nothing else has moved, but for
                // drops that were charged.
                if tin.is_active() && !self.params.ingress {
                    continue;
                }
                return None;
            };
            if let Some(frame) = self.take_out(t, f, frame, now, moment, cx) {
                return Some(frame);
            }
        }
    }

    /// Lets COBALT judge the packets of a flow, `frame` first, until one may leave or, in ingress
    /// mode, one was dropped.
    #[inline]
    fn take_out(
        &mut self,
        t: usize,
        f: u32,
        mut frame: Frame,
        now: i64,
        moment: Instant,
        cx: &mut Cx<'_>,
    ) -> Option<Frame> {
        loop {
            let tin = &mut self.tins[t];
            let flow = &mut tin.flows[f];
            let packet = &mut cx.pool[&frame];
            tin.backlog -= u64::from(packet.len);
            self.memory -= u64::from(packet.truesize);
            self.heap.dequeued(t, f, packet.len);

            let sojourn = moment.since(packet.enqueued);
            let bulk = if self.bulk_counts { tin.bulk } else { 0 };
            let over = tin.law.is_over(sojourn, self.rule, bulk);
            let verdict = flow.cobalt.judge(now, over, &tin.law, packet, cx.random, self.link.compat);
            let dropped = verdict.drop.filter(|_| !flow.queue.is_empty());
            let Some(reason) = dropped else {
                self.deliver(t, f, now, moment, verdict.marked, &frame, cx);
                return Some(frame);
            };
            self.lose(t, f, now, frame, reason, cx);
            if self.params.ingress {
                return None;
            }
            // The last packet of a queue is never dropped here, so there is one more.
            frame = self.tins[t].flows[f].queue.pop(cx.pool)?;
        }
    }

    /// COBALT drops a packet.
    #[inline(never)]
    fn lose(&mut self, t: usize, f: u32, now: i64, frame: Frame, reason: Reason, cx: &mut Cx<'_>) {
        let tin = &mut self.tins[t];
        let (len, charged) = (cx.pool[&frame].len, cx.pool[&frame].charged);
        tin.counters.drops += 1;
        match reason {
            Reason::Flood => tin.counters.dropped_flood += 1,
            _ => tin.counters.dropped_aqm += 1,
        }
        self.basic.dropped(len);
        if self.params.ingress {
            self.shaper.charge(&tin.pace, &mut tin.time_next, charged, now, true);
            tin.flows[f].deficit -= charged as i32;
            tin.deficit = tin.deficit.wrapping_sub(charged as i32);
        }
        cx.drops.push(cx.pool, frame, reason);
    }

    /// A packet leaves (`spec/cake.md` §12.4 from step 7 on).
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the state of one dequeue")]
    fn deliver(&mut self, t: usize, f: u32, now: i64, moment: Instant, marked: bool, frame: &Frame, cx: &mut Cx<'_>) {
        let tin = &mut self.tins[t];
        let packet = &mut cx.pool[frame];
        let (len, charged) = (packet.len, packet.charged);
        let sojourn = moment.since(packet.enqueued);
        packet.released = moment;
        if marked {
            packet.marks.add(Marks::ECN);
            tin.counters.marks += 1;
        }
        if let Some(threshold) = self.params.ce_threshold {
            if exceeds(packet, sojourn, threshold) && ecn::set_ce(packet) {
                packet.marks.add(Marks::CE_THRESHOLD);
                tin.counters.ce_threshold += 1;
            }
        }
        if !packet.marks.is_empty() && packet.ds_arrived & ecn::CE != ecn::CE {
            tin.counters.ce_made += 1;
        }
        if let Some(threshold) = self.params.sce_threshold {
            tin.counters.sce += u64::from(threshold.apply(sojourn, packet, cx.random));
        }
        self.basic.sent(len);
        tin.counters.delays.note(sojourn);
        self.shaper.charge(&tin.pace, &mut tin.time_next, charged, now, false);
        let flow = &mut tin.flows[f];
        flow.deficit -= charged as i32;
        tin.deficit = tin.deficit.wrapping_sub(charged as i32);
        if flow.state == State::Bulk {
            tin.counters.sent_bulk += 1;
            tin.counters.sent_bulk_bytes += u64::from(len);
        } else {
            tin.counters.sent_sparse += 1;
            tin.counters.sent_sparse_bytes += u64::from(len);
        }
        if self.basic.qlen == 0 {
            if let Some(tin) = self.tins[..self.tin_count].iter().find(|t| t.decaying > 0) {
                self.wake = Some(now + tin.law.target as i64);
            }
        } else if self.shaper.time_next > now {
            self.wake = Some(self.shaper.wake());
        }
        self.heap.delivered();
    }
}

/// Whether a packet is to be marked for its sojourn alone (`spec/codel.md` §1.6 step 5).
fn exceeds(packet: &Packet, sojourn: u64, threshold: CeThreshold) -> bool {
    sojourn > u64::from(threshold.us) * MICROSECOND
        && (threshold.mask == 0 || packet.has_ds() && packet.ds & threshold.mask == threshold.selector)
}

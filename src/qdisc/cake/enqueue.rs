//! A packet comes in (`spec/cake.md` §7, §8, §10, §14).

use super::flows::{DESTINATION, Found, SOURCE, State};
use super::params::{AckFilter, FlowMode, TinMode};
use super::{Cake, ack_filter, tins};
use crate::classify::{Hashing, Headers};
use crate::mark::ecn;
use crate::packet::Packet;
use crate::pool::Frame;
use crate::qdisc::{Compat, Cx, Reason};
use crate::time::Instant;

impl Cake {
    pub(super) fn arrival(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        let packet = &mut cx.pool[&frame];
        packet.enqueued = now;
        let came_marked = packet.has_ds() && packet.ecn() == ecn::CE;
        let t = self.sort(packet);
        if self.params.wash {
            ecn::wash(packet);
        }
        self.tins[t].counters.ce_in += u64::from(came_marked);
        let f = self.choose_queue(t, headers, cx.hashing);
        let now = self.now(now);
        self.admit(now, frame, t, f, cx);
    }

    /// Which tin a packet belongs to (`spec/cake.md` §7.1).
    pub(super) fn sort(&self, packet: &Packet) -> usize {
        let mode = self.params.tins;
        if mode == TinMode::BestEffort {
            return 0;
        }
        if let Some(tin) = self.named_tin(packet) {
            return tin;
        }
        let tin = mode.tin(tins::code_point(packet));
        if tin < self.tin_count { tin } else { 0 }
    }

    /// The tin that a mark or a priority names, by its place in the order shown.
    #[inline]
    fn named_tin(&self, packet: &Packet) -> Option<usize> {
        let named = |n: u32| self.params.tins.order().get(n.checked_sub(1)? as usize).map(|&t| t.into());
        let mask = self.params.fwmark;
        let by_mark = if mask == 0 { None } else { named((packet.fwmark & mask) >> mask.trailing_zeros()) };
        by_mark.or_else(|| named(self.handle.minor_of(packet.priority)?.into()))
    }

    /// Which of a tin's queues a flow belongs to (`spec/cake.md` §8). Hosts are hashed only when
    /// they are needed: a flow that is in use already keeps the ones it has.
    fn choose_queue(&mut self, t: usize, headers: &Headers, hashing: &mut Hashing) -> u32 {
        let mode = self.params.flows;
        if mode == FlowMode::Flowblind && !self.params.nat {
            return 0;
        }
        let keys = &headers.keys;
        let hash = if mode.by_flow() {
            hashing.flow(keys)
        } else {
            let source = if mode.by_source() { hashing.src_host(keys) } else { 0 };
            let destination = if mode.by_destination() { hashing.dst_host(keys) } else { 0 };
            source ^ destination
        };
        let tin = &mut self.tins[t];
        if let Some(f) = tin.flows.at_home(hash) {
            tin.counters.way_direct += 1;
            return f;
        }
        let (f, found) = tin.flows.search(hash);
        let (mut source, mut destination) = (0, 0);
        if found.needs_hosts() {
            source = if self.fair & SOURCE != 0 { hashing.src_host(keys) } else { 0 };
            destination = if self.fair & DESTINATION != 0 { hashing.dst_host(keys) } else { 0 };
        }
        self.settle(t, f, found, source, destination);
        f
    }

    /// Counts how a queue was found and gives it its hosts.
    pub(super) fn settle(&mut self, t: usize, f: u32, found: Found, source: u32, destination: u32) {
        let tin = &mut self.tins[t];
        match found {
            Found::Direct => tin.counters.way_direct += 1,
            Found::Tagged { indirect, .. } => tin.counters.way_indirect += u64::from(indirect),
            Found::Free => tin.counters.way_misses += 1,
            Found::Collision => {
                tin.counters.way_collisions += 1;
                tin.leave_hosts(f);
            }
        }
        if found.needs_hosts() {
            if self.fair & SOURCE != 0 {
                tin.flows[f].src_host = tin.sources.allocate(source);
            }
            if self.fair & DESTINATION != 0 {
                tin.flows[f].dst_host = tin.destinations.allocate(destination);
            }
            if tin.flows[f].state == State::Bulk {
                tin.enter_hosts(f, self.fair);
            }
        }
    }

    /// Puts a packet into its queue, and takes others out if memory is short (`spec/cake.md` §10,
    /// from step 2 on).
    #[inline(always)]
    pub(super) fn admit(&mut self, now: i64, frame: Frame, t: usize, f: u32, cx: &mut Cx<'_>) {
        let tin = &mut self.tins[t];
        if tin.backlog == 0 {
            tin.time_next = tin.time_next.max(now);
            if self.basic.qlen == 0 {
                if self.shaper.time_next < now {
                    self.shaper.resume(now);
                } else if self.shaper.is_throttled(now) {
                    self.basic.overlimits += 1;
                    self.wake = Some(self.shaper.wake());
                }
            }
        }

        let packet = &mut cx.pool[&frame];
        let adjusted = self.overhead.adjust(packet.len, packet.net_offset);
        self.lengths.note(packet.net_offset, &adjusted);
        packet.charged = adjusted.charged;
        packet.tin = t as u8;
        packet.queue = f;
        let (len, truesize) = (packet.len, packet.truesize);
        tin.counters.max_len = tin.counters.max_len.max(len);
        tin.counters.packets += 1;
        tin.counters.bytes += u64::from(len);
        let flow = &mut tin.flows[f];
        flow.queue.push(cx.pool, frame);
        let state = flow.state;

        self.memory += u64::from(truesize);
        self.basic.queued(len);
        let mut change = i64::from(len);
        if self.params.ack_filter != AckFilter::Off {
            change -= self.filter_acks(now, t, f, cx);
        }
        let tin = &mut self.tins[t];
        tin.backlog = tin.backlog.wrapping_add_signed(change);
        self.heap.enqueued(t, f, change as i32);

        if self.params.autorate {
            self.follow_arrivals(now, change);
        } else {
            self.autorate.idle(now);
        }

        if !matches!(state, State::Sparse | State::Bulk) {
            self.tins[t].wake_flow(f, self.fair, cx.random);
        }
        self.memory_peak = self.memory_peak.max(self.memory);
        while self.memory > self.memory_limit {
            // A heap whose root turns out empty is rebuilt for a second try.
            if !self.overflow(now, t, cx) && !self.overflow(now, t, cx) {
                break;
            }
        }
    }

    /// Drops the ACK that the newest packet of a queue makes redundant, if there is one; its length.
    #[inline(never)]
    fn filter_acks(&mut self, now: i64, t: usize, f: u32, cx: &mut Cx<'_>) -> i64 {
        let tin = &mut self.tins[t];
        let aggressive = self.params.ack_filter == AckFilter::Aggressive;
        let Some(ack) = ack_filter::redundant(&mut tin.flows[f].queue, aggressive, cx) else { return 0 };
        let old = &cx.pool[&ack];
        let len = old.len;
        tin.counters.ack_drops += 1;
        self.memory -= u64::from(old.truesize);
        if self.params.ingress {
            self.shaper.charge(&tin.pace, &mut tin.time_next, old.charged, now, true);
        }
        self.basic.dropped(len);
        cx.drops.push(cx.pool, ack, Reason::AckFilter);
        len.into()
    }

    /// Lets the rate follow what arrives, by `change` bytes more.
    #[inline(never)]
    fn follow_arrivals(&mut self, now: i64, change: i64) {
        let limited = self.link.compat != Compat::V6_12;
        if let Some(rate) = self.autorate.arrival(now, change, limited) {
            self.rate = rate;
            self.configure();
        }
    }

    /// Takes one packet out to make room (`spec/cake.md` §14.2); `offender` is the tin whose packet
    /// did not fit. False if there was none to take.
    #[cold]
    fn overflow(&mut self, now: i64, offender: usize, cx: &mut Cx<'_>) -> bool {
        let (t, f) = self.heap.fattest();
        let tin = &mut self.tins[t];
        let flow = &mut tin.flows[f];
        let Some(frame) = flow.queue.pop(cx.pool) else {
            self.heap.forget();
            return false;
        };
        let packet = &cx.pool[&frame];
        let (len, truesize, charged) = (packet.len, packet.truesize, packet.charged);
        tin.unresponsive += u32::from(flow.cobalt.queue_full(now, &tin.law));
        self.memory -= u64::from(truesize);
        tin.backlog -= u64::from(len);
        tin.counters.drops += 1;
        tin.counters.dropped_memory += 1;
        self.basic.dropped(len);
        if self.params.ingress {
            self.shaper.charge(&tin.pace, &mut tin.time_next, charged, now, true);
        }
        self.heap.lightened(t, f, len);
        self.tins[offender].counters.overflows += 1;
        cx.drops.push(cx.pool, frame, Reason::Memory);
        true
    }
}

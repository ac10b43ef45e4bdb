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
        let order = mode.order();
        let named = |n: u32| n.checked_sub(1).and_then(|n| order.get(n as usize)).map(|&t| t.into());
        let mask = self.params.fwmark;
        let mark = if mask == 0 { 0 } else { (packet.fwmark & mask) >> mask.trailing_zeros() };
        if let Some(tin) = named(mark) {
            return tin;
        }
        if let Some(tin) = self.handle.minor_of(packet.priority).and_then(|minor| named(minor.into())) {
            return tin;
        }
        let tin = mode.tin(tins::code_point(packet));
        if tin < self.tin_count { tin } else { 0 }
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
        let (f, found) = tin.flows.find(hash);
        if found == Found::Direct {
            tin.counters.way_direct += 1;
            return f;
        }
        let hosts =
            |hash: fn(&mut Hashing, &crate::classify::FlowKeys) -> u32, hashing: &mut Hashing| hash(hashing, keys);
        let source = if self.fair & SOURCE != 0 { hosts(Hashing::src_host, hashing) } else { 0 };
        let destination = if self.fair & DESTINATION != 0 { hosts(Hashing::dst_host, hashing) } else { 0 };
        self.settle(t, f, found, source, destination);
        f
    }

    /// Counts how a queue was found and gives it its hosts.
    pub(super) fn settle(&mut self, t: usize, f: u32, found: Found, source: u32, destination: u32) {
        let tin = &mut self.tins[t];
        let new_hosts = match found {
            Found::Direct => {
                tin.counters.way_direct += 1;
                false
            }
            Found::Tagged { indirect, idle } => {
                tin.counters.way_indirect += u64::from(indirect);
                idle
            }
            Found::Free => {
                tin.counters.way_misses += 1;
                true
            }
            Found::Collision => {
                tin.counters.way_collisions += 1;
                tin.leave_hosts(f);
                true
            }
        };
        if new_hosts {
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
        tin.flows[f].queue.push(cx.pool, frame);

        let redundant = match self.params.ack_filter {
            AckFilter::Off => None,
            mode => ack_filter::redundant(&mut tin.flows[f].queue, mode == AckFilter::Aggressive, cx),
        };
        let mut change = i64::from(len);
        self.memory += u64::from(truesize);
        self.basic.queued(len);
        if let Some(ack) = redundant {
            let old = &cx.pool[&ack];
            tin.counters.ack_drops += 1;
            self.memory -= u64::from(old.truesize);
            if self.params.ingress {
                self.shaper.charge(&tin.pace, &mut tin.time_next, old.charged, now, true);
            }
            change -= i64::from(old.len);
            self.basic.dropped(old.len);
            cx.drops.push(cx.pool, ack, Reason::AckFilter);
        }
        tin.backlog = tin.backlog.wrapping_add_signed(change);
        self.heap.enqueued(t, f, change as i32);

        if self.params.autorate {
            let limited = self.link.compat != Compat::V6_12;
            if let Some(rate) = self.autorate.arrival(now, change, limited) {
                self.rate = rate;
                self.configure();
            }
        } else {
            self.autorate.idle(now);
        }

        self.wake_flow(t, f, cx);
        self.memory_peak = self.memory_peak.max(self.memory);
        while self.memory > self.memory_limit {
            // A heap whose root turns out empty is rebuilt for a second try.
            if !self.overflow(now, t, cx) && !self.overflow(now, t, cx) {
                break;
            }
        }
    }

    /// What an arrival makes of its flow (`spec/cake.md` §10 step 7).
    fn wake_flow(&mut self, t: usize, f: u32, cx: &mut Cx<'_>) {
        let tin = &mut self.tins[t];
        match tin.flows[f].state {
            State::Sparse | State::Bulk => {}
            State::SparseWait => {
                tin.flows[f].state = State::Bulk;
                tin.sparse -= 1;
                tin.bulk += 1;
                tin.enter_hosts(f, self.fair);
            }
            idle @ (State::None | State::Decaying) => {
                if idle == State::Decaying {
                    tin.decayed.remove(&mut tin.flows, f);
                    tin.decaying -= 1;
                }
                tin.new.push(&mut tin.flows, f);
                tin.sparse += 1;
                let quantum = tin.flow_quantum(f, self.fair, cx.random.u16());
                let flow = &mut tin.flows[f];
                flow.state = State::Sparse;
                flow.deficit = quantum;
            }
        }
    }

    /// Takes one packet out to make room (`spec/cake.md` §14.2); `offender` is the tin whose packet
    /// did not fit. False if there was none to take.
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

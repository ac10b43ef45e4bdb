//! New parameters between two packets (`spec/cake.md` §19).
//!
//! Clocks, deficits, flows and COBALT are kept. Where the kernel frees the packets of tins that the
//! new mode does not have, weir sorts them anew: a change loses nothing.

use super::flows::{DESTINATION, List, SOURCE, State};
use super::params::FlowMode;
use super::{Cake, Params, TINS};
use crate::pipeline::Link;
use crate::qdisc::Cx;
use crate::time::Instant;

impl Cake {
    pub(super) fn apply(&mut self, params: &Params, link: Link, now: Instant, cx: &mut Cx<'_>) {
        let now = self.now(now);
        let (old, fair) = (self.params, self.fair);
        self.params = *params;
        self.link = link;
        // The estimate goes on if nobody named another rate.
        if !(params.autorate && old.autorate && params.rate == old.rate) {
            self.rate = params.rate;
        }
        let lengths = |p: &Params| (p.overhead, p.compensated, p.mpu, p.framing);
        if lengths(params) != lengths(&old) {
            self.lengths.reset();
        }
        self.heap.set_exact(params.exact_heap);
        self.configure();
        if self.fair != fair {
            self.tins.iter_mut().for_each(|tin| tin.reset_hosts());
        }
        for t in self.tin_count..TINS {
            self.abolish(t, now, cx);
        }
    }

    /// Empties a tin that the mode does not have; its packets go, in order, where the new mode
    /// wants them.
    fn abolish(&mut self, t: usize, now: i64, cx: &mut Cx<'_>) {
        for f in 0..self.tins[t].flows.len() {
            if self.tins[t].flows[f].state == State::None {
                continue;
            }
            let tin = &mut self.tins[t];
            tin.leave_hosts(f);
            tin.flows.forget(f);
            let flow = &tin.flows[f];
            let (src_host, dst_host) = (flow.src_host, flow.dst_host);
            let hash = tin.flows.tag(f);
            let source = if self.fair & SOURCE != 0 { tin.sources.tag(src_host) } else { 0 };
            let destination = if self.fair & DESTINATION != 0 { tin.destinations.tag(dst_host) } else { 0 };
            while let Some(frame) = self.tins[t].flows[f].queue.pop(cx.pool) {
                let packet = &cx.pool[&frame];
                let (len, truesize) = (packet.len, packet.truesize);
                self.memory -= u64::from(truesize);
                self.basic.removed(len);
                let tin = &mut self.tins[t];
                tin.backlog -= u64::from(len);
                tin.counters.moved += 1;
                self.heap.dequeued(t, f, len);
                let to = self.sort(packet);
                let queue = if self.params.flows == FlowMode::Flowblind && !self.params.nat {
                    0
                } else {
                    let (queue, found) = self.tins[to].flows.find(hash);
                    self.settle(to, queue, found, source, destination);
                    queue
                };
                self.admit(now, frame, to, queue, cx);
            }
        }
        let tin = &mut self.tins[t];
        (tin.sparse, tin.bulk, tin.decaying) = (0, 0, 0);
        (tin.new, tin.old, tin.decayed) = (List::default(), List::default(), List::default());
        self.heap.emptied(t);
    }
}

//! `fq_codel`: a queue per flow, new flows first, CoDel in each (RFC 8290; `spec/codel.md` §2).
//!
//! All memory is made at creation: the flows, their backlogs, and two lists that run through them.

mod backlogs;
mod lists;

use super::codel::{Law, Source, State, Tally, Ticks};
use super::{Cx, Handle, Observation, Qdisc, Reason};
use crate::classify::Headers;
use crate::mark::mb_ecn::Depth;
use crate::mark::sce;
use crate::packet::Packet;
use crate::pipeline::Link;
use crate::pool::{Frame, Queue};
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::Instant;
use backlogs::Backlogs;
use lists::{List, Place};

/// Parameters, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Packets held at most, over all flows.
    pub limit: u32,
    /// Queues, 1…65536.
    pub flows: u32,
    /// Bytes a flow may send per round; `None` for the MTU of the link. At least
    /// [`Params::LEAST_QUANTUM`], see there.
    pub quantum: Option<u32>,
    /// Acceptable standing sojourn, µs.
    pub target_us: u32,
    /// Window of observation, µs.
    pub interval_us: u32,
    /// Mark instead of drop.
    pub ecn: bool,
    /// Sojourn above which packets that can be marked are marked, µs.
    pub ce_threshold_us: Option<u32>,
    /// With a mask, `ce_threshold` is for packets whose DS byte under the mask equals the selector.
    pub ce_threshold_selector: u8,
    /// See `ce_threshold_selector`; zero for all packets.
    pub ce_threshold_mask: u8,
    /// Sojourn above which ECT(0) becomes ECT(1).
    pub sce_threshold: Option<sce::Threshold>,
    /// Memory held at most, bytes of truesize.
    pub memory_limit: u32,
    /// Packets dropped from the fattest flow at most, each time a limit is passed.
    pub drop_batch: u32,
}

impl Params {
    /// Smaller quanta are raised to this many bytes.
    pub const LEAST_QUANTUM: u32 = 256;
    /// Larger quanta are refused.
    pub const LARGEST_QUANTUM: u32 = 1 << 20;
    /// Larger memory limits are cut to this many bytes.
    pub const LARGEST_MEMORY: u32 = 1 << 31;

    fn quantum(&self, link: Link) -> u32 {
        self.quantum.unwrap_or(link.mtu).max(Params::LEAST_QUANTUM)
    }

    fn law(&self, link: Link) -> Law {
        Law {
            target: Ticks::from_us(self.target_us),
            interval: Ticks::from_us(self.interval_us),
            mtu: link.mtu,
            ecn: self.ecn,
            ce_threshold: self.ce_threshold_us.map_or(Ticks::DISABLED, Ticks::from_us),
            ce_threshold_selector: self.ce_threshold_selector,
            ce_threshold_mask: self.ce_threshold_mask,
            sce_threshold: self.sce_threshold,
            compat: link.compat,
        }
    }
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 10240,
            flows: 1024,
            quantum: None,
            target_us: 5000,
            interval_us: 100_000,
            ecn: true,
            ce_threshold_us: None,
            ce_threshold_selector: 0,
            ce_threshold_mask: 0,
            sce_threshold: None,
            memory_limit: 32 << 20,
            drop_batch: 64,
        }
    }
}

/// What `fq_codel` reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures.
    pub basic: Basic,
    /// Packets held at most.
    pub limit: u32,
    /// Queues.
    pub flows: u32,
    /// Bytes a flow may send per round.
    pub quantum: u32,
    /// Packets dropped at once at most.
    pub drop_batch: u32,
    /// Memory held at most, bytes.
    pub memory_limit: u32,
    /// The law in force.
    pub law: Law,
    /// Marks and the largest packet, over all flows.
    pub tally: Tally,
    /// Packets dropped because a limit was passed.
    pub drop_overlimit: u32,
    /// Those of them dropped while the memory limit was passed.
    pub drop_overmemory: u32,
    /// Times a flow became new.
    pub new_flow_count: u32,
    /// Memory held, bytes.
    pub memory_used: u32,
    /// Flows in the list of new ones.
    pub new_flows_len: u32,
    /// Flows in the list of old ones.
    pub old_flows_len: u32,
}

/// One queue. Its backlog stands apart, in [`Backlogs`].
#[derive(Debug, Default)]
struct Flow {
    queue: Queue,
    state: State,
    deficit: i32,
    place: Place,
}

const _: () = assert!(size_of::<Flow>() <= 64, "a flow is at most one cache line");

/// What all flows share and a packet changes as it goes.
#[derive(Debug)]
struct Held {
    basic: Basic,
    backlogs: Backlogs,
    memory: u32,
}

impl Held {
    fn queued(&mut self, flow: usize, packet: &Packet) {
        self.basic.queued(packet.len);
        self.backlogs.add(flow, packet.len);
        self.memory += packet.truesize;
    }

    fn removed(&mut self, flow: usize, packet: &Packet) {
        self.basic.removed(packet.len);
        self.backlogs.sub(flow, packet.len);
        self.memory -= packet.truesize;
    }
}

/// One flow's queue as CoDel sees it; the backlog it asks for is that of the whole discipline.
struct OneFlow<'a> {
    number: usize,
    queue: &'a mut Queue,
    held: &'a mut Held,
}

impl Source for OneFlow<'_> {
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = self.queue.pop(cx.pool)?;
        self.held.removed(self.number, &cx.pool[&frame]);
        Some(frame)
    }

    fn backlog(&self) -> u64 {
        self.held.basic.backlog
    }

    fn dropping(&mut self, _: &Packet) {
        self.held.basic.drops += 1;
    }
}

/// `fq_codel` at work.
#[derive(Debug)]
pub struct FqCodel {
    handle: Handle,
    limit: u32,
    quantum: u32,
    drop_batch: u32,
    memory_limit: u32,
    law: Law,
    flows: Box<[Flow]>,
    new: List,
    old: List,
    held: Held,
    tally: Tally,
    drop_overlimit: u32,
    drop_overmemory: u32,
    new_flow_count: u32,
}

impl FqCodel {
    /// Empty queues on a link; `handle` is the major number by which priorities name a flow.
    pub fn new(params: &Params, link: Link, handle: Handle) -> Self {
        let flows: Box<[Flow]> = (0..params.flows.max(1)).map(|_| Flow::default()).collect();
        FqCodel {
            handle,
            limit: params.limit,
            quantum: params.quantum(link),
            drop_batch: params.drop_batch.max(1),
            memory_limit: params.memory_limit.min(Params::LARGEST_MEMORY),
            law: params.law(link),
            held: Held { basic: Basic::default(), backlogs: Backlogs::new(flows.len()), memory: 0 },
            flows,
            new: List::default(),
            old: List::default(),
            tally: Tally::default(),
            drop_overlimit: 0,
            drop_overmemory: 0,
            new_flow_count: 0,
        }
    }

    /// The flow of a packet (`spec/codel.md` §2.3): the one its priority names, else by hash.
    fn classify(&self, priority: u32, headers: &Headers, cx: &mut Cx<'_>) -> usize {
        match self.handle.minor_of(priority) {
            Some(n @ 1..) if usize::from(n) <= self.flows.len() => usize::from(n) - 1,
            _ => ((u64::from(cx.hashing.flow(&headers.keys)) * self.flows.len() as u64) >> 32) as usize,
        }
    }

    /// Makes room at the cost of the fattest flow: half its bytes, at most a batch of packets, at
    /// least one (`spec/codel.md` §2.4). One pass; the limit may still be passed afterwards.
    fn drop_from_fattest(&mut self, over_memory: bool, cx: &mut Cx<'_>) {
        let victim = self.held.backlogs.fattest();
        let threshold = self.held.backlogs.of(victim) / 2;
        let reason = if over_memory { Reason::Memory } else { Reason::QueueFull };
        let flow = &mut self.flows[victim];
        let (mut packets, mut bytes) = (0, 0);
        while let Some(frame) = flow.queue.pop(cx.pool) {
            let packet = &cx.pool[&frame];
            self.held.removed(victim, packet);
            bytes += packet.len;
            packets += 1;
            cx.drops.push(cx.pool, frame, reason);
            if packets >= self.drop_batch || bytes >= threshold {
                break;
            }
        }
        flow.state.count = flow.state.count.wrapping_add(packets);
        self.held.basic.drops += u64::from(packets);
        self.drop_overlimit = self.drop_overlimit.wrapping_add(packets);
        if over_memory {
            self.drop_overmemory = self.drop_overmemory.wrapping_add(packets);
        }
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        let number = self.classify(cx.pool[&frame].priority, headers, cx);
        let packet = &mut cx.pool[&frame];
        packet.enqueued = now;
        packet.charged = packet.len;
        packet.queue = number as u32;
        self.held.queued(number, packet);
        let flow = &mut self.flows[number];
        flow.queue.push(cx.pool, frame);
        if !flow.place.is_listed() {
            flow.deficit = self.quantum as i32;
            self.new.push(&mut self.flows, number);
            self.new_flow_count = self.new_flow_count.wrapping_add(1);
        }
        let over_memory = self.held.memory > self.memory_limit;
        if self.held.basic.qlen > self.limit || over_memory {
            self.drop_from_fattest(over_memory, cx);
        }
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = list.front()?;
            let flow = &mut self.flows[number];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum as i32;
                list.pop(&mut self.flows);
                self.old.push(&mut self.flows, number);
                continue;
            }
            let mut source = OneFlow { number, queue: &mut flow.queue, held: &mut self.held };
            if let Some(frame) = flow.state.dequeue(now, &self.law, &mut self.tally, &mut source, cx) {
                let packet = &mut cx.pool[&frame];
                packet.released = now;
                flow.deficit -= packet.len as i32;
                self.held.basic.sent_packets += 1;
                self.held.basic.sent_bytes += u64::from(packet.len);
                return Some(frame);
            }
            list.pop(&mut self.flows);
            // A flow that ran empty among the new ones passes once behind the old ones, or it could
            // stay new for ever (RFC 8290 §4.2).
            if is_new && !self.old.is_empty() {
                self.old.push(&mut self.flows, number);
            }
        }
    }

    fn depth(&self, packet: &Packet) -> Depth {
        Depth {
            own: self.flows[packet.queue as usize].queue.len() as u32,
            active: self.new.len() + self.old.len(),
            total: self.held.basic.qlen,
            per_flow: true,
        }
    }

    counted_in!(held.basic);

    fn stats(&self, _: Instant) -> StageStats {
        StageStats::FqCodel(Box::new(Stats {
            basic: self.held.basic,
            limit: self.limit,
            flows: self.flows.len() as u32,
            quantum: self.quantum,
            drop_batch: self.drop_batch,
            memory_limit: self.memory_limit,
            law: self.law,
            tally: self.tally,
            drop_overlimit: self.drop_overlimit,
            drop_overmemory: self.drop_overmemory,
            new_flow_count: self.new_flow_count,
            memory_used: self.held.memory,
            new_flows_len: self.new.len(),
            old_flows_len: self.old.len(),
        }))
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::FqCodel(p) if p.flows as usize == self.flows.len() => Ok(()),
            Stage::FqCodel(p) => Err(format!(
                "fq_codel works with {} flows and {} are wanted: that is settled when it begins; end the instance and start it anew",
                self.flows.len(),
                p.flows
            )),
            other => Err(super::other_kind("fq_codel", other)),
        }
    }

    /// What is beyond smaller limits leaves from the head of the fattest flow.
    fn change(&mut self, stage: &Stage, link: Link, _: Instant, cx: &mut Cx<'_>) {
        let Stage::FqCodel(p) = stage else { return };
        self.limit = p.limit;
        self.quantum = p.quantum(link);
        self.drop_batch = p.drop_batch.max(1);
        self.memory_limit = p.memory_limit.min(Params::LARGEST_MEMORY);
        self.law = p.law(link);
        while self.held.basic.qlen > self.limit || self.held.memory > self.memory_limit {
            let number = self.held.backlogs.fattest();
            let mut source = OneFlow { number, queue: &mut self.flows[number].queue, held: &mut self.held };
            let Some(frame) = source.take(cx) else { break };
            self.held.basic.drops += 1;
            cx.drops.push(cx.pool, frame, Reason::Flushed);
        }
    }

    fn observe(&self, packet: &Packet) -> Observation {
        let state = &self.flows[packet.queue as usize].state;
        Observation {
            queue: Some(packet.queue.into()),
            count: Some(state.count),
            dropping: Some(state.dropping),
            ..Observation::default()
        }
    }
}

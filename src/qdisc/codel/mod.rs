//! `codel`: one queue under CoDel (`spec/codel.md` §1.7).

mod law;

use super::{Cx, Observation, Qdisc, Reason};
use crate::classify::Headers;
use crate::mark::sce;
use crate::packet::Packet;
use crate::pipeline::Link;
use crate::pool::{Frame, Queue};
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::Instant;
pub use law::{Law, Source, State, Tally, Ticks};

/// Parameters, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Packets held at most.
    pub limit: u32,
    /// Acceptable standing sojourn, µs.
    pub target_us: u32,
    /// Window of observation, µs.
    pub interval_us: u32,
    /// Mark instead of drop.
    pub ecn: bool,
    /// Sojourn above which every packet that can be marked is marked, µs.
    pub ce_threshold_us: Option<u32>,
    /// Sojourn above which ECT(0) becomes ECT(1).
    pub sce_threshold: Option<sce::Threshold>,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 1000,
            target_us: 5000,
            interval_us: 100_000,
            ecn: false,
            ce_threshold_us: None,
            sce_threshold: None,
        }
    }
}

impl Params {
    fn law(&self, link: Link) -> Law {
        Law {
            target: Ticks::from_us(self.target_us),
            interval: Ticks::from_us(self.interval_us),
            mtu: link.mtu,
            ecn: self.ecn,
            ce_threshold: self.ce_threshold_us.map_or(Ticks::DISABLED, Ticks::from_us),
            ce_threshold_selector: 0,
            ce_threshold_mask: 0,
            sce_threshold: self.sce_threshold,
            compat: link.compat,
        }
    }
}

/// What `codel` reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures.
    pub basic: Basic,
    /// Packets held at most.
    pub limit: u32,
    /// The law in force.
    pub law: Law,
    /// State of the queue.
    pub state: State,
    /// Marks and the largest packet.
    pub tally: Tally,
    /// Packets dropped because the limit was reached.
    pub drop_overlimit: u32,
    /// From now to the next signal, ticks; 0 unless dropping.
    pub drop_next: i32,
}

impl Stats {
    /// From now to the next signal, µs, cut towards zero as the kernel does; 0 unless dropping.
    pub fn drop_next_us(&self) -> i64 {
        let us = i64::from(Ticks(self.drop_next.unsigned_abs()).as_us());
        if self.drop_next < 0 { -us } else { us }
    }
}

/// `codel` at work.
#[derive(Debug)]
pub struct Codel {
    law: Law,
    limit: u32,
    fifo: Fifo,
    state: State,
    tally: Tally,
    drop_overlimit: u32,
}

#[derive(Debug, Default)]
struct Fifo {
    queue: Queue,
    basic: Basic,
}

impl Source for Fifo {
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = self.queue.pop(cx.pool)?;
        self.basic.removed(cx.pool[&frame].len);
        Some(frame)
    }

    fn backlog(&self) -> u64 {
        self.basic.backlog
    }

    fn dropping(&mut self, _: &Packet) {
        self.basic.drops += 1;
    }
}

impl Codel {
    /// An empty queue on a link.
    pub fn new(params: &Params, link: Link) -> Self {
        Codel {
            law: params.law(link),
            limit: params.limit,
            fifo: Fifo::default(),
            state: State::default(),
            tally: Tally::default(),
            drop_overlimit: 0,
        }
    }
}

impl Qdisc for Codel {
    fn enqueue(&mut self, now: Instant, frame: Frame, _: &Headers, cx: &mut Cx<'_>) {
        if self.fifo.basic.qlen >= self.limit {
            self.drop_overlimit += 1;
            self.fifo.basic.drops += 1;
            cx.drops.push(cx.pool, frame, Reason::QueueFull);
            return;
        }
        let packet = &mut cx.pool[&frame];
        packet.enqueued = now;
        self.fifo.basic.queued(packet.len);
        self.fifo.queue.push(cx.pool, frame);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = self.state.dequeue(now, &self.law, &mut self.tally, &mut self.fifo, cx)?;
        let packet = &mut cx.pool[&frame];
        packet.released = now;
        self.fifo.basic.sent_packets += 1;
        self.fifo.basic.sent_bytes += u64::from(packet.len);
        Some(frame)
    }

    counted_in!(fifo.basic);

    fn stats(&self, now: Instant) -> StageStats {
        let drop_next = if self.state.dropping { self.state.drop_next.minus(Ticks::at(now)).0 as i32 } else { 0 };
        StageStats::Codel(Box::new(Stats {
            basic: self.fifo.basic,
            limit: self.limit,
            law: self.law,
            state: self.state,
            tally: self.tally,
            drop_overlimit: self.drop_overlimit,
            drop_next,
        }))
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Codel(_) => Ok(()),
            other => Err(super::other_kind("codel", other)),
        }
    }

    /// What is beyond a smaller limit leaves from the head (`spec/codel.md` §1.7).
    fn change(&mut self, stage: &Stage, link: Link, _: Instant, cx: &mut Cx<'_>) {
        let Stage::Codel(p) = stage else { return };
        self.law = p.law(link);
        self.limit = p.limit;
        while self.fifo.basic.qlen > self.limit {
            let Some(frame) = self.fifo.take(cx) else { break };
            self.fifo.basic.drops += 1;
            cx.drops.push(cx.pool, frame, Reason::Flushed);
        }
    }

    fn observe(&self, _: &Packet) -> Observation {
        Observation {
            queue: Some(-1),
            count: Some(self.state.count),
            dropping: Some(self.state.dropping),
            ..Observation::default()
        }
    }
}

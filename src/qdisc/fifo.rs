//! First in, first out, with a limit: the yardstick (`spec/codel.md` §7).

use super::{Cx, Observation, Qdisc, Reason};
use crate::classify::Headers;
use crate::packet::Packet;
use crate::pipeline::Link;
use crate::pool::{Frame, Queue, Slot};
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::Instant;

/// What a FIFO counts against its limit, and what it does when that is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Packets; the arriving packet is dropped (`pfifo`).
    Packets,
    /// Bytes; the arriving packet is dropped (`bfifo`).
    Bytes,
    /// Packets; the oldest is dropped (`pfifo_head_drop`).
    HeadDrop,
}

impl Kind {
    /// The word for it in a specification.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Packets => "pfifo",
            Kind::Bytes => "bfifo",
            Kind::HeadDrop => "pfifo_head_drop",
        }
    }
}

/// Parameters of a FIFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Which of the three.
    pub kind: Kind,
    /// Packets or bytes; `None` for the kernel's default, the device's queue length (1000 packets,
    /// times the MTU for bytes).
    pub limit: Option<u32>,
}

impl Params {
    /// The limit in packets or bytes, for a link whose largest packet is `mtu` bytes.
    fn limit(&self, mtu: u32) -> u64 {
        let default = match self.kind {
            Kind::Bytes => u64::from(TX_QUEUE_LEN) * u64::from(mtu),
            Kind::Packets | Kind::HeadDrop => u64::from(TX_QUEUE_LEN),
        };
        self.limit.map_or(default, u64::from)
    }
}

/// The kernel's default length of a device's transmit queue, packets.
pub const TX_QUEUE_LEN: u32 = 1000;

/// A FIFO at work.
#[derive(Debug)]
pub struct Fifo {
    kind: Kind,
    limit: u64,
    queue: Queue,
    basic: Basic,
}

impl Fifo {
    /// A FIFO for a link whose largest packet is `mtu` bytes, link header included.
    pub fn new(params: Params, mtu: u32) -> Self {
        Fifo { kind: params.kind, limit: params.limit(mtu), queue: Queue::default(), basic: Basic::default() }
    }

    /// A byte FIFO as `tbf` makes for itself.
    pub fn bytes(limit: u32) -> Self {
        Fifo::new(Params { kind: Kind::Bytes, limit: Some(limit) }, 0)
    }

    fn is_full_for(&self, len: u32) -> bool {
        match self.kind {
            Kind::Packets | Kind::HeadDrop => u64::from(self.basic.qlen) >= self.limit,
            Kind::Bytes => self.basic.backlog + u64::from(len) > self.limit,
        }
    }
}

impl Qdisc for Fifo {
    fn enqueue(&mut self, now: Instant, frame: Frame, _: &Headers, cx: &mut Cx<'_>) {
        let len = cx.pool[&frame].len;
        if self.is_full_for(len) {
            let victim = match self.kind {
                Kind::HeadDrop if self.limit > 0 => self.queue.pop(cx.pool),
                _ => None,
            };
            let Some(oldest) = victim else {
                self.basic.drops += 1;
                cx.drops.push(cx.pool, frame, Reason::QueueFull);
                return;
            };
            self.basic.dropped(cx.pool[&oldest].len);
            cx.drops.push(cx.pool, oldest, Reason::QueueFull);
        }
        let packet = &mut cx.pool[&frame];
        packet.enqueued = now;
        packet.charged = len;
        self.basic.queued(len);
        self.queue.push(cx.pool, frame);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = self.queue.pop(cx.pool)?;
        let packet = &mut cx.pool[&frame];
        packet.released = now;
        self.basic.sent(packet.len);
        Some(frame)
    }

    fn front(&self) -> Option<Slot> {
        self.queue.front()
    }

    counted_in!(basic);

    fn stats(&self, _: Instant) -> StageStats {
        StageStats::Fifo { kind: self.kind, limit: self.limit, basic: self.basic }
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Fifo(p) if p.kind == self.kind => Ok(()),
            other => Err(super::other_kind(self.kind.word(), other)),
        }
    }

    /// A smaller limit takes nothing out; it only lets nothing more in.
    fn change(&mut self, stage: &Stage, link: Link, _: Instant, _: &mut Cx<'_>) {
        if let Stage::Fifo(p) = stage {
            self.limit = p.limit(link.mtu);
        }
    }

    fn observe(&self, _: &Packet) -> Observation {
        Observation { queue: Some(-1), ..Observation::default() }
    }
}

//! Multi-bit ECN around any queueing discipline (`spec/mb-ecn.md` §4).
//!
//! The discipline inside queues, drops and marks as ever. Around it every packet is looked at as it
//! comes, and gets the depth and the capacity as it leaves; what the AQM spares is agreed upon in the
//! record ([`crate::packet::Signal`]).

use super::{Cx, Levels, Observation, Qdisc};
use crate::classify::Headers;
use crate::mark::mb_ecn::{Marker, Params};
use crate::packet::Packet;
use crate::pipeline::Link;
use crate::pool::{Frame, Slot};
use crate::spec::Stage;
use crate::stats::StageStats;
use crate::time::Instant;
use crate::units::Rate;

/// A discipline with multi-bit ECN.
pub struct Marking {
    inner: Box<dyn Qdisc>,
    marker: Marker,
    /// The rate behind this stage.
    below: Option<Rate>,
    /// The rate the marker was told.
    told: Option<Rate>,
    seeded: bool,
}

impl Marking {
    /// Puts multi-bit ECN around `inner`.
    pub fn new(params: &Params, inner: Box<dyn Qdisc>) -> Self {
        Marking { inner, marker: Marker::new(params), below: None, told: None, seeded: false }
    }

    /// A rate may change at any time (`autorate`), so it is compared for each packet.
    fn follow_rate(&mut self) {
        let rate = Rate::lower(self.inner.rate(), self.below);
        if rate != self.told {
            self.marker.set_rate(rate);
            self.told = rate;
        }
    }
}

impl Qdisc for Marking {
    fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        if !self.seeded {
            self.marker.seed([cx.random.u64(), cx.random.u64()]);
            self.seeded = true;
        }
        self.follow_rate();
        let slot = frame.slot();
        self.marker.arrives(now, slot, cx.pool, cx.frames);
        self.inner.enqueue(now, frame, headers, cx);
        // The packet may be among the dropped already, which does no harm: its frame is not free yet.
        let depth = self.inner.depth(&cx.pool[slot]).without_one();
        self.marker.queued(slot, depth, cx.pool, cx.frames, cx.random);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = self.inner.dequeue(now, cx)?;
        self.follow_rate();
        let slot = frame.slot();
        let depth = self.inner.depth(&cx.pool[slot]);
        self.marker.leaves(now, slot, depth, cx.pool, cx.frames, cx.random);
        Some(frame)
    }

    fn front(&self) -> Option<Slot> {
        self.inner.front()
    }

    fn next_event(&self) -> Option<Instant> {
        self.inner.next_event()
    }

    fn ends_by_timer(&self) -> bool {
        self.inner.ends_by_timer()
    }

    fn tick(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.inner.tick(now, cx);
    }

    fn start(&mut self, now: Instant) {
        self.inner.start(now);
    }

    fn set_drain(&mut self, below: Option<Rate>) {
        self.below = below;
        self.inner.set_drain(below);
        self.follow_rate();
    }

    fn rate(&self) -> Option<Rate> {
        self.inner.rate()
    }

    fn packets(&self) -> u32 {
        self.inner.packets()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn hold(&mut self, len: u32) {
        self.inner.hold(len);
    }

    fn let_go(&mut self, len: u32) {
        self.inner.let_go(len);
    }

    fn stats(&self, now: Instant) -> StageStats {
        StageStats::Marked { inner: Box::new(self.inner.stats(now)), mb_ecn: Box::new(self.marker.stats(now)) }
    }

    fn observe(&self, packet: &Packet) -> Observation {
        self.inner.observe(packet)
    }

    fn levels(&self) -> Levels {
        self.inner.levels()
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Marked { inner, .. } => self.inner.can_change(inner),
            _ => Err("mb-ecn cannot be left away while it is at work; end the instance and start it anew".into()),
        }
    }

    fn change(&mut self, stage: &Stage, link: Link, now: Instant, cx: &mut Cx<'_>) {
        let Stage::Marked { inner, mb_ecn } = stage else { return };
        self.inner.change(inner, link, now, cx);
        self.marker.change(mb_ecn);
    }
}

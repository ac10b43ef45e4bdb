//! Stages in a row, in the order a packet meets them (decisions.md 1 and 2).
//!
//! A *pulling* stage (`tbf`) takes the queue before it as its child. A *pushing* stage hands what
//! is due to the stage behind it. The last is pulled by whoever has room to send.

use crate::classify::Headers;
use crate::pool::Frame;
use crate::qdisc::{Compat, Cx, Qdisc};
use crate::stats::StageStats;
use crate::time::Instant;

/// What a pipeline is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The largest packet, link header included, in bytes (the kernel's `psched_mtu`).
    pub mtu: u32,
    /// Which kernel's decisions are wanted.
    pub compat: Compat,
}

impl Default for Link {
    fn default() -> Self {
        Link { mtu: 1514, compat: Compat::Latest }
    }
}

/// A direction's stages at work.
pub struct Pipeline {
    stages: Vec<Box<dyn Qdisc>>,
}

impl Pipeline {
    /// Stages in the order a packet meets them; each but the last pushes into the next.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(stages: Vec<Box<dyn Qdisc>>) -> Self {
        assert!(!stages.is_empty(), "a pipeline has at least one stage");
        Pipeline { stages }
    }

    /// Takes a packet in.
    pub fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        self.stages[0].enqueue(now, frame, headers, cx);
    }

    /// Gives the next packet that may leave at `now`.
    pub fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        self.stages.last_mut()?.dequeue(now, cx)
    }

    /// When to ask again; see [`Qdisc::next_event`].
    pub fn next_event(&self) -> Option<Instant> {
        self.stages.iter().filter_map(|s| s.next_event()).min()
    }

    /// See [`Qdisc::tick`].
    pub fn tick(&mut self, now: Instant, cx: &mut Cx<'_>) {
        for stage in &mut self.stages {
            stage.tick(now, cx);
        }
    }

    /// Packets held in all stages.
    pub fn packets(&self) -> u32 {
        self.stages.iter().map(|s| s.packets()).sum()
    }

    /// Bytes held in all stages.
    pub fn bytes(&self) -> u64 {
        self.stages.iter().map(|s| s.bytes()).sum()
    }

    /// The stages, in the order a packet meets them; a pulling stage stands for itself and its
    /// [`Qdisc::child`].
    pub fn stages(&self) -> impl DoubleEndedIterator<Item = &dyn Qdisc> {
        self.stages.iter().map(|s| s.as_ref())
    }

    /// Figures of all stages, in the order a packet meets them; a child behind the stage that pulls
    /// it. Allocates: not for the data path.
    pub fn stats(&self, now: Instant) -> Vec<StageStats> {
        let with_children = |s| std::iter::successors(Some(s), |s: &&dyn Qdisc| s.child());
        self.stages().flat_map(with_children).map(|s| s.stats(now)).collect()
    }
}

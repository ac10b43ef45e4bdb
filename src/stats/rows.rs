//! A direction's stages as tc would number them (decisions.md 21).
//!
//! In the kernel a `tbf` has its queue as a child, and a `netem` hands what is due to its child: so
//! the stages of a pipeline, in the order a packet meets them and each child behind the stage that
//! pulls it, are a line of parents and children: `1:`, `10:` with parent `1:1`, `20:` with parent
//! `10:1`, and so on.

use crate::stats::StageStats;

/// One line of `tc qdisc show`, and what belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Major number of the handle.
    pub handle: u32,
    /// Major number of the parent's handle; `None` for the root.
    pub parent: Option<u32>,
    /// The port that the direction sends to.
    pub dev: &'a str,
    /// The figures.
    pub stats: &'a StageStats,
}

/// Numbers the stages of a direction.
pub fn rows<'a>(dev: &'a str, stages: &'a [StageStats]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::with_capacity(stages.len());
    for stats in stages {
        let parent = rows.last().map(|r| r.handle);
        // tc does not list the queue that a shaper makes for itself.
        if rows.last().is_some_and(|r| r.stats.has_own_queue()) {
            continue;
        }
        let handle = if rows.is_empty() { 1 } else { rows.len() as u32 * 0x10 };
        rows.push(Row { handle, parent, dev, stats });
    }
    rows
}

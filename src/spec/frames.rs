//! Frames that the delay stages of a pipeline keep under way, and whether there are enough of them.

use super::{Spec, Stage, units};
use crate::qdisc::netem::{Need, Params};
use crate::units::Rate;

impl Spec {
    /// What each delay stage keeps under way when the largest frames, `mtu` bytes with the link
    /// header, come as fast as the stages behind it and a port of rate `port` let them: its
    /// parameters and the figure, where there is a rate to count with.
    fn delays(&self, mtu: u32, port: Option<Rate>) -> Vec<(&Params, Option<Need>)> {
        let mut below = port;
        let mut out = Vec::new();
        for stage in self.stages.iter().rev() {
            if let Stage::Netem(p) = stage {
                out.push((p.as_ref(), p.need(below, mtu)));
            }
            below = Rate::lower(stage.rate(), below);
        }
        out.reverse();
        out
    }

    /// A line for each delay stage whose limit is less than what is under way in it, and so drops
    /// packets that no queue of the network would (`spec/netem.md` §10).
    pub fn short_limits(&self, mtu: u32, port: Option<Rate>) -> Vec<String> {
        let short = |(p, need): (&Params, Option<Need>)| {
            let need = need.filter(|n| n.packets > u64::from(p.limit))?;
            Some(format!(
                "netem: limit {} drops packets: {} take {} of {} bytes; write \"limit {}\", or more if packets are smaller",
                p.limit,
                under_way(&need),
                need.packets,
                need.len,
                need.packets
            ))
        };
        self.delays(mtu, port).into_iter().filter_map(short).collect()
    }

    /// Frames that the delay stages of this pipeline hold at most, and which a live port must have
    /// beside those of its rings and queues: the larger of limit and need of each.
    pub fn frames_needed(&self, mtu: u32, port: Option<Rate>) -> u64 {
        let held = |(p, need): &(&Params, Option<Need>)| need.map_or(0, |n| n.packets).max(u64::from(p.limit));
        self.delays(mtu, port).iter().map(held).sum()
    }

    /// Whether the delay stages can do with `available` frames of `frame_bytes` bytes of memory each.
    ///
    /// # Errors
    /// The arithmetic, and what to write or to provide, if not.
    pub fn fit(&self, available: u64, frame_bytes: u64, mtu: u32, port: Option<Rate>) -> Result<(), String> {
        let needed = self.frames_needed(mtu, port);
        if needed <= available {
            return Ok(());
        }
        let terms: Vec<_> = self
            .delays(mtu, port)
            .iter()
            .map(|(p, need)| match need {
                Some(n) if n.packets > u64::from(p.limit) => format!("{} frames for {}", n.packets, under_way(n)),
                _ => format!("{} frames for limit {}", p.limit, p.limit),
            })
            .collect();
        let mib = |frames: u64| (u128::from(frames) * u128::from(frame_bytes)).div_ceil(1 << 20);
        Err(format!(
            "netem needs {needed} frames ({}), {} MiB at {frame_bytes} bytes each, and there is room for {available} ({} MiB); shorten the delay, lower the rate behind it or the limit, or provide more memory",
            terms.join(" + "),
            mib(needed),
            mib(available)
        ))
    }
}

/// `125000000 B/s × 0.025 s`, with the unit people write.
fn under_way(need: &Need) -> String {
    format!("{} for {}", units::show_rate(need.rate), units::show_ns(need.nanos))
}

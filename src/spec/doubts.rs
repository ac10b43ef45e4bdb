//! What can be meant, and hardly ever is.

use super::{Spec, Stage};
use crate::qdisc;
use crate::units::Rate;

/// A rate at which a full frame takes longer than this, in seconds, was probably meant in another unit.
const SLOW: u64 = 10;

impl Spec {
    /// A sentence for each.
    /// A full frame has `full` bytes.
    pub(super) fn doubts(&self, full: u32) -> Vec<String> {
        self.stages.iter().flat_map(|stage| doubts(stage, full)).collect()
    }
}

fn doubts(stage: &Stage, full: u32) -> Vec<String> {
    let kind = stage.kind();
    let mut out = Vec::new();
    if let Some(rate) = stage.rate().map(Rate::bits_per_second) {
        let seconds = (u64::from(full) * 8).checked_div(rate).unwrap_or(u64::MAX);
        if seconds >= SLOW {
            out.push(format!(
                "{kind}: at {rate}bit a frame of {full} bytes takes {seconds} s; a rate without a unit is in bits per second"
            ));
        }
    }
    match stage {
        Stage::Fifo(qdisc::fifo::Params { limit: Some(0), .. }) => {
            out.push(format!("{kind}: \"limit 0\" drops every packet"));
        }
        Stage::FqCodel(p) if p.memory_limit == 0 => {
            out.push("fq_codel: \"memory_limit 0\" drops whatever would have to wait".into());
        }
        Stage::Tbf(p) => {
            if let Some(burst) = p.burst.filter(|b| *b < full) {
                out.push(format!(
                    "tbf: frames longer than the burst of {burst} bytes are dropped, and a full one has {full}"
                ));
            }
        }
        Stage::Marked { inner, .. } => return doubts(inner, full),
        _ => {}
    }
    out
}

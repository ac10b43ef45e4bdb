//! What can be meant, and hardly ever is.

use super::{Spec, Stage};
use crate::qdisc;

/// Bytes of a full Ethernet frame, without the check sequence.
const FULL: u64 = 1514;
/// A rate at which a full frame takes longer than this, in seconds, was probably meant in another unit.
const SLOW: u64 = 10;

impl Spec {
    /// A sentence for each.
    pub(super) fn doubts(&self) -> Vec<String> {
        self.stages.iter().flat_map(doubts).collect()
    }
}

fn doubts(stage: &Stage) -> Vec<String> {
    let kind = stage.kind();
    let mut out = Vec::new();
    let seconds = stage.rate().map(|r| (FULL * 8).checked_div(r.bits_per_second()).unwrap_or(u64::MAX));
    if let (Some(rate), Some(seconds)) = (stage.rate(), seconds.filter(|s| *s >= SLOW)) {
        let rate = rate.bits_per_second();
        out.push(format!(
            "{kind}: at {rate}bit a frame of {FULL} bytes takes {seconds} s; a rate without a unit is in bits per second"
        ));
    }
    match stage {
        Stage::Fifo(qdisc::fifo::Params { limit: Some(0), .. }) => {
            out.push(format!("{kind}: \"limit 0\" drops every packet"));
        }
        Stage::FqCodel(p) if p.memory_limit == 0 => {
            out.push("fq_codel: \"memory_limit 0\" drops whatever would have to wait".into());
        }
        Stage::Tbf(p) => {
            if let Some(burst) = p.burst.filter(|b| u64::from(*b) < FULL) {
                out.push(format!(
                    "tbf: frames longer than the burst of {burst} bytes are dropped, and a full one has {FULL}"
                ));
            }
        }
        Stage::Marked { inner, .. } => return doubts(inner),
        _ => {}
    }
    out
}

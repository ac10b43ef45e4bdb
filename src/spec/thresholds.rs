//! The times at which a pipeline's AQMs begin to act. A machine that wakes later than that measures itself.

use super::{Spec, Stage};

/// A time at which a stage begins to mark or drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold {
    /// The stage's kind.
    pub stage: &'static str,
    /// The word that sets it.
    pub word: &'static str,
    /// The time, µs.
    pub us: u32,
}

impl Spec {
    /// The smallest of each stage that has an AQM.
    pub fn thresholds(&self) -> Vec<Threshold> {
        self.stages().iter().filter_map(Stage::threshold).collect()
    }
}

impl Stage {
    fn threshold(&self) -> Option<Threshold> {
        let (target, step) = match self {
            Stage::Codel(p) => (p.target_us, p.ce_threshold_us),
            Stage::FqCodel(p) => (p.target_us, p.ce_threshold_us),
            Stage::Cake(p) => (p.target_us, p.ce_threshold.map(|t| t.us)),
            Stage::Dualpi2(p) => (p.target_us, None),
            Stage::Marked { inner, .. } => return inner.threshold(),
            _ => return None,
        };
        let (word, us) = match step {
            Some(step) if step < target => ("ce_threshold", step),
            _ => ("target", target),
        };
        Some(Threshold { stage: self.kind(), word, us })
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::parse;

    #[test]
    fn the_smaller_of_target_and_step_of_each_aqm() {
        let of = |words: &str| {
            let spec = parse(words).expect("a pipeline").spec;
            spec.thresholds().iter().map(|t| format!("{} {} {}", t.stage, t.word, t.us)).collect::<Vec<_>>()
        };
        assert_eq!(of("codel ce_threshold 242us | tbf rate 1gbit burst 3028"), ["codel ce_threshold 242"]);
        assert_eq!(of("netem delay 5ms | fq_codel target 3ms ce_threshold 4ms"), ["fq_codel target 3000"]);
        assert_eq!(of("cake bandwidth 10mbit rtt 20ms mb-ecn l4s"), ["cake target 1000"]);
        assert_eq!(of("pfifo limit 1000 | tbf rate 1mbit burst 2k"), [] as [&str; 0]);
    }
}

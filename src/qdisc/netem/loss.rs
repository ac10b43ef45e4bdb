//! Which packets are lost: at random, or by a chain of states (`spec/netem.md` §5).

use super::random::Sources;
use crate::units::Fraction;

/// A loss model, as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet by itself, or leaning on the one before.
    Random {
        /// Probability.
        p: Fraction,
        /// Correlation of the draws.
        rho: Fraction,
    },
    /// Four states: delivered in a gap, delivered in a burst, lost in a burst, lost alone.
    State {
        /// From gap to burst.
        p13: Fraction,
        /// From burst to gap.
        p31: Fraction,
        /// From lost to delivered within a burst.
        p32: Fraction,
        /// From delivered to lost within a burst.
        p23: Fraction,
        /// From gap to an isolated loss.
        p14: Fraction,
    },
    /// Gilbert and Elliott: a good and a bad state with a loss probability each.
    Gemodel {
        /// From good to bad.
        p: Fraction,
        /// From bad to good.
        r: Fraction,
        /// Loss in the bad state (`1-h`).
        bad: Fraction,
        /// Loss in the good state (`1-k`).
        good: Fraction,
    },
}

impl Loss {
    /// The share of packets that is lost in the long run, 0…1. Exact without correlation.
    pub fn long_run(&self) -> f64 {
        let f = Fraction::ratio;
        match *self {
            Loss::None => 0.0,
            Loss::Random { p, .. } => f(p),
            Loss::State { p13, p31, p32, p23, p14 } => {
                if p13.0 == 0 {
                    return f(p14) / (1.0 + f(p14));
                }
                let third = f(p13) / f(p31);
                let second = if p32.0 == 0 { 0.0 } else { third * f(p32) / f(p23) };
                (third + f(p14)) / (1.0 + second + third + f(p14))
            }
            Loss::Gemodel { p, r, bad, good } => {
                if p.0 == 0 {
                    f(good)
                } else {
                    (f(r) * f(good) + f(p) * f(bad)) / (f(p) + f(r))
                }
            }
        }
    }
}

/// A state of the four-state model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Gap,
    Burst,
    LostInBurst,
    LostAlone,
}

/// A loss model at work.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    model: Loss,
    phase: Phase,
    bad: bool,
}

impl Chain {
    /// A model in its first state.
    pub(super) fn new(model: Loss) -> Self {
        Chain { model, ..Chain::default() }
    }

    /// Whether the next packet is lost.
    pub(super) fn loses(&mut self, sources: &mut Sources) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Random { p: Fraction(0), .. } => false,
            Loss::Random { p, .. } => p.0 >= sources.loss.draw(&mut sources.main),
            Loss::State { .. } => {
                let r = sources.main.draw();
                self.four_state(r)
            }
            Loss::Gemodel { .. } => {
                let r = [sources.main.draw(), sources.main.draw()];
                self.gilbert_elliott(r)
            }
        }
    }

    /// The fate is that of the state entered.
    fn four_state(&mut self, r: u32) -> bool {
        let Loss::State { p13, p31, p32, p23, p14 } = self.model else { return false };
        let r = u64::from(r);
        let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(|p| u64::from(p.0));
        self.phase = match self.phase {
            Phase::Gap if r < p14 => Phase::LostAlone,
            Phase::Gap if r < p13 + p14 => Phase::LostInBurst,
            Phase::Gap => Phase::Gap,
            Phase::Burst if r < p23 => Phase::LostInBurst,
            Phase::Burst => Phase::Burst,
            Phase::LostInBurst if r < p32 => Phase::Burst,
            Phase::LostInBurst if r < p31 + p32 => Phase::Gap,
            Phase::LostInBurst => Phase::LostInBurst,
            Phase::LostAlone => Phase::Gap,
        };
        matches!(self.phase, Phase::LostInBurst | Phase::LostAlone)
    }

    /// The fate is that of the state left.
    fn gilbert_elliott(&mut self, [move_on, fate]: [u32; 2]) -> bool {
        let Loss::Gemodel { p, r, bad, good } = self.model else { return false };
        if self.bad {
            self.bad = move_on >= r.0;
            fate > u32::MAX - bad.0
        } else {
            self.bad = move_on < p.0;
            fate < good.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(x: f64) -> Fraction {
        Fraction::from_ratio(x)
    }

    #[test]
    fn a_good_or_bad_channel_loses_by_the_state_before_the_transition() {
        let mut chain = Chain::new(Loss::Gemodel { p: f(0.1), r: f(0.3), bad: f(0.8), good: f(0.05) });
        let steps = [
            (0.50, 0.04, true, false),
            (0.05, 0.90, false, true),
            (0.40, 0.10, false, true),
            (0.40, 0.30, true, true),
            (0.20, 0.90, true, false),
            (0.05, 0.04, true, true),
            (0.10, 0.21, true, false),
            (0.95, 0.05, false, false),
        ];
        for (i, (r1, r2, lost, bad)) in steps.into_iter().enumerate() {
            assert_eq!((chain.gilbert_elliott([f(r1).0, f(r2).0]), chain.bad), (lost, bad), "step {i}");
        }
    }

    #[test]
    fn four_states_lose_by_the_state_entered() {
        let model = Loss::State { p13: f(0.1), p31: f(0.3), p32: f(0.2), p23: f(0.4), p14: f(0.05) };
        let mut chain = Chain::new(model);
        let steps = [
            (0.50, false),
            (0.04, true),
            (0.01, false),
            (0.12, true),
            (0.19, false),
            (0.39, true),
            (0.70, true),
            (0.49, false),
            (0.14, true),
            (0.15, false),
            (0.06, true),
            (0.20, false),
            (0.45, false),
        ];
        for (i, (r, lost)) in steps.into_iter().enumerate() {
            assert_eq!(chain.four_state(f(r).0), lost, "step {i}");
        }
    }

    #[test]
    fn probabilities_that_sum_to_one_do_not_wrap() {
        let model = Loss::State { p13: f(1.0), p31: f(0.9), p32: f(0.1), p23: f(1.0), p14: f(0.0) };
        let mut chain = Chain::new(model);
        assert!(chain.four_state(0));
        assert!(!chain.four_state(u32::MAX - 1), "0.9 and 0.1 together always leave the lossy state");
        assert_eq!(chain.phase, Phase::Gap);
    }
}

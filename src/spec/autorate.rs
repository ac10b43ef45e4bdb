//! `autorate MIN MAX` of the shapers: between which rates the driver moves the one in force
//! (decisions.md 9).

use super::lex::Cursor;
use super::{Spec, SpecError, Stage, units};
use crate::units::{Rate, RateRange};

/// What follows the word.
pub(super) const ARGS: &str = "MIN MAX";
/// What it does.
pub(super) const HELP: &str =
    "weir: follow a link whose rate moves, by round trips seen in passing; the rate given is where it starts";

/// Reads both rates.
pub(super) fn read(args: &mut Cursor<'_>) -> Result<RateRange, SpecError> {
    let min = args.value("autorate", units::rate)?;
    let max = args.value("autorate", units::rate)?;
    if min > max {
        let (low, high) = (units::show_rate(max), units::show_rate(min));
        return Err(args.refuse(format!("MIN is above MAX; write \"autorate {low} {high}\"")));
    }
    Ok(RateRange { min, max })
}

/// An error about the word at `at`.
pub(super) fn refuse(at: usize, why: impl Into<String>) -> SpecError {
    SpecError::new(at, "autorate".len(), why)
}

/// Whether the rate to start from lies between the two.
pub(super) fn check(at: usize, word: &str, rate: Rate, range: RateRange) -> Result<(), SpecError> {
    let (min, max) = (units::show_rate(range.min), units::show_rate(range.max));
    if rate.is_zero() {
        return Err(refuse(
            at,
            format!("\"autorate\" needs a rate to start from: \"{word} RATE\" between {min} and {max}"),
        ));
    }
    if rate < range.min || rate > range.max {
        let rate = units::show_rate(rate);
        return Err(refuse(
            at,
            format!("\"{word} {rate}\" is not between {min} and {max}, and \"autorate\" starts from it"),
        ));
    }
    Ok(())
}

/// The words again.
pub(super) fn show(range: RateRange) -> String {
    format!("autorate {} {}", units::show_rate(range.min), units::show_rate(range.max))
}

impl Stage {
    /// The limits of `autorate`, if it has the word.
    pub fn range(&self) -> Option<RateRange> {
        match self {
            Stage::Cake(p) => p.range,
            Stage::Tbf(p) => p.range,
            Stage::Marked { inner, .. } => inner.range(),
            _ => None,
        }
    }

    fn set_rate(&mut self, rate: Rate) {
        match self {
            Stage::Cake(p) => p.rate = rate,
            Stage::Tbf(p) => p.rate = rate,
            Stage::Marked { inner, .. } => inner.set_rate(rate),
            _ => {}
        }
    }
}

impl Spec {
    /// The limits of the one stage with `autorate`, if there is one.
    pub fn range(&self) -> Option<RateRange> {
        self.stages.iter().find_map(Stage::range)
    }

    /// The same with another rate in force at the stage with `autorate`.
    pub fn at_rate(&self, rate: Rate) -> Spec {
        let mut spec = self.clone();
        if let Some(stage) = spec.stages.iter_mut().find(|s| s.range().is_some()) {
            stage.set_rate(rate);
        }
        spec
    }

    /// Which of the pipeline's stages has `autorate`.
    pub fn steered(&self) -> Option<usize> {
        self.groups().iter().position(|g| g.iter().any(|s| s.range().is_some()))
    }
}

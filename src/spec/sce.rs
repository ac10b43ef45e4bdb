//! `sce_threshold`, the same word on every stage that has it.

use super::lex::Cursor;
use super::{SpecError, Word, units};
use crate::mark::ecn::{ECT_0, ECT_1};
use crate::mark::sce::Threshold;

/// The word's row in the table of a stage.
pub(super) const WORD: Word = Word {
    name: "sce_threshold",
    args: "TIME | LOW HIGH",
    sample: "sce_threshold 1ms 5ms",
    help: "make ECT(0) ECT(1) above this sojourn, or with a probability that rises from LOW to HIGH; not beside L4S, where ECT(1) is no mark; default off",
};

/// Reads the argument, one time or two.
pub(super) fn read(args: &mut Cursor<'_>) -> Result<Threshold, SpecError> {
    let low = args.arg(units::time_us)?;
    let Some(high) = args.optional(units::time_us) else { return Ok(Threshold::step(low)) };
    Threshold::ramp(low, high).ok_or_else(|| {
        args.refuse(format!(
            "a ramp rises from LOW to HIGH, and {} is not above {}; for a step write one time",
            units::show_us(high),
            units::show_us(low)
        ))
    })
}

/// The word with its argument.
pub(super) fn show(t: Threshold) -> String {
    let low = units::show_us(t.low_us());
    match t.high_us() == t.low_us() {
        true => format!("sce_threshold {low}"),
        false => format!("sce_threshold {low} {}", units::show_us(t.high_us())),
    }
}

/// What ECT(1) means to a stage.
#[derive(Clone, Copy, Default)]
pub(super) struct Ect1 {
    /// A mark.
    pub(super) mark: bool,
    /// The sign of an L4S sender.
    pub(super) l4s: bool,
}

impl Ect1 {
    /// To a stage that has `sce_threshold` or not, and this selector and mask of `ce_threshold`.
    pub(super) fn of(mark: bool, selector: u8, mask: u8) -> Self {
        let picks = |ecn: u8| ecn & mask & 3 == selector & 3;
        Ect1 { mark, l4s: mask & 3 != 0 && picks(ECT_1) && !picks(ECT_0) }
    }

    /// To two stages on one path.
    pub(super) fn or(self, other: Self) -> Self {
        Ect1 { mark: self.mark || other.mark, l4s: self.l4s || other.l4s }
    }
}

/// Why a path cannot have both.
pub(super) const BOTH: &str = "to \"sce_threshold\" ECT(1) is a mark, to dualpi2, to \"mb-ecn l4s\" and to a \"ce_threshold_selector\" that picks it out it is the sign of L4S; they cannot be on one path";

//! Words of `codel` (`spec/codel.md` §1.7).

use super::lex::Cursor;
use super::{Grammar, SpecError, Word, sce, units};
use crate::qdisc::codel::{Params, Ticks};

impl Grammar for Params {
    const WORDS: &'static [Word] = &[
        Word { name: "limit", args: "N", sample: "limit 50", help: "packets held at most; default 1000" },
        Word { name: "target", args: "TIME", sample: "target 20ms", help: "acceptable standing sojourn; default 5ms" },
        Word { name: "interval", args: "TIME", sample: "interval 300ms", help: "window of observation; default 100ms" },
        Word { name: "ecn", args: "", sample: "ecn", help: "mark packets that can be marked instead of dropping them" },
        Word { name: "noecn", args: "", sample: "noecn", help: "always drop (default)" },
        Word {
            name: "ce_threshold",
            args: "TIME",
            sample: "ce_threshold 242us",
            help: "mark every packet that can be marked above this sojourn; default off",
        },
        sce::WORD,
    ];

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError> {
        match name {
            "limit" => self.limit = nonzero("codel", name, args.arg(units::count)?, self.limit, warnings),
            "target" => self.target_us = nonzero("codel", name, args.arg(clock_us)?, self.target_us, warnings),
            "interval" => self.interval_us = nonzero("codel", name, args.arg(clock_us)?, self.interval_us, warnings),
            "ce_threshold" => self.ce_threshold_us = Some(args.arg(clock_us)?),
            "sce_threshold" => self.sce_threshold = Some(sce::read(args)?),
            "ecn" | "noecn" => self.ecn = name == "ecn",
            _ => return Err(args.unknown("codel", &Self::allowed())),
        }
        Ok(())
    }

    fn words(&self) -> String {
        let default = Params::default();
        let mut out = Vec::new();
        if self.limit != default.limit {
            out.push(format!("limit {}", self.limit));
        }
        if self.target_us != default.target_us {
            out.push(format!("target {}", units::show_us(self.target_us)));
        }
        if let Some(us) = self.ce_threshold_us {
            out.push(format!("ce_threshold {}", units::show_us(us)));
        }
        out.extend(self.sce_threshold.map(sce::show));
        if self.interval_us != default.interval_us {
            out.push(format!("interval {}", units::show_us(self.interval_us)));
        }
        if self.ecn {
            out.push("ecn".into());
        }
        out.join(" ")
    }
}

/// tc does not send a zero, so the kernel keeps what it had.
pub(super) fn nonzero(stage: &str, name: &str, value: u32, kept: u32, warnings: &mut Vec<String>) -> u32 {
    if value == 0 {
        warnings.push(format!("{stage}: \"{name} 0\" changes nothing: tc does not send a zero"));
        return kept;
    }
    value
}

/// A time that CoDel's clock can tell from the past: 32 bits of 1024 ns are compared by signed
/// difference (`spec/codel.md` §1.1).
pub(super) fn clock_us(word: &str) -> Result<u32, String> {
    let us = units::time_us(word)?;
    match Ticks::from_us(us).after(Ticks(0)) || us < 2 {
        true => Ok(us),
        false => Err(format!("{word} is more than 2199s, where CoDel's clock takes the future for the past")),
    }
}

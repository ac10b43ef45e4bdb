//! Words of `fq_codel` (`spec/codel.md` §2.1).

use super::codel::{clock_us, nonzero};
use super::lex::Cursor;
use super::{Grammar, SpecError, Word, sce, units};
use crate::qdisc::fq_codel::Params;

impl Grammar for Params {
    const WORDS: &'static [Word] = &[
        Word {
            name: "limit",
            args: "N",
            sample: "limit 50",
            help: "packets held at most over all flows; default 10240",
        },
        Word { name: "flows", args: "N", sample: "flows 256", help: "queues, 1…65536; default 1024" },
        Word {
            name: "quantum",
            args: "N",
            sample: "quantum 300",
            help: "bytes a flow may send per round, 256…1048576; default the MTU",
        },
        Word { name: "target", args: "TIME", sample: "target 20ms", help: "acceptable standing sojourn; default 5ms" },
        Word { name: "interval", args: "TIME", sample: "interval 300ms", help: "window of observation; default 100ms" },
        Word {
            name: "ecn",
            args: "",
            sample: "ecn",
            help: "mark packets that can be marked instead of dropping them (default)",
        },
        Word { name: "noecn", args: "", sample: "noecn", help: "always drop" },
        Word {
            name: "ce_threshold",
            args: "TIME",
            sample: "ce_threshold 242us",
            help: "mark every packet that can be marked above this sojourn; default off",
        },
        Word {
            name: "ce_threshold_selector",
            args: "VALUE/MASK",
            sample: "ce_threshold_selector 0x01/0x03",
            help: "ce_threshold only for packets whose DS byte under MASK is VALUE; default all",
        },
        sce::WORD,
        Word {
            name: "memory_limit",
            args: "SIZE",
            sample: "memory_limit 4mb",
            help: "memory held at most, as the kernel would charge it; default 32mb, at most 2gb",
        },
        Word {
            name: "drop_batch",
            args: "N",
            sample: "drop_batch 8",
            help: "packets dropped at most from the fattest flow, each time a limit is passed; default 64",
        },
    ];

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError> {
        match name {
            "limit" => self.limit = nonzero("fq_codel", name, args.arg(units::count)?, self.limit, warnings),
            "flows" => {
                self.flows =
                    nonzero("fq_codel", name, args.arg(units::integer(0..=65536))? as u32, self.flows, warnings)
            }
            "quantum" => {
                let given = args.arg(units::integer(0..=i64::from(Params::LARGEST_QUANTUM)))? as u32;
                if nonzero("fq_codel", name, given, 0, warnings) != 0 {
                    if given < Params::LEAST_QUANTUM {
                        warnings.push(format!("fq_codel: quantum {given} is raised to {}", Params::LEAST_QUANTUM));
                    }
                    self.quantum = Some(given.max(Params::LEAST_QUANTUM));
                }
            }
            "target" => self.target_us = nonzero("fq_codel", name, args.arg(clock_us)?, self.target_us, warnings),
            "interval" => self.interval_us = nonzero("fq_codel", name, args.arg(clock_us)?, self.interval_us, warnings),
            "ecn" | "noecn" => self.ecn = name == "ecn",
            "ce_threshold" => self.ce_threshold_us = Some(args.arg(clock_us)?),
            "ce_threshold_selector" => {
                (self.ce_threshold_selector, self.ce_threshold_mask) = args.arg(selector)?;
            }
            "sce_threshold" => self.sce_threshold = Some(sce::read(args)?),
            "memory_limit" => {
                let given = args.arg(units::size)?;
                if given > Params::LARGEST_MEMORY {
                    warnings.push("fq_codel: memory_limit is cut to 2gb".into());
                }
                self.memory_limit = given.min(Params::LARGEST_MEMORY);
            }
            "drop_batch" => {
                self.drop_batch = nonzero("fq_codel", name, args.arg(units::count)?, self.drop_batch, warnings)
            }
            _ => return Err(args.unknown("fq_codel", &Self::allowed())),
        }
        Ok(())
    }

    fn words(&self) -> String {
        let default = Params::default();
        let mut out = Vec::new();
        if self.limit != default.limit {
            out.push(format!("limit {}", self.limit));
        }
        if self.flows != default.flows {
            out.push(format!("flows {}", self.flows));
        }
        if let Some(quantum) = self.quantum {
            out.push(format!("quantum {quantum}"));
        }
        if self.target_us != default.target_us {
            out.push(format!("target {}", units::show_us(self.target_us)));
        }
        if let Some(us) = self.ce_threshold_us {
            out.push(format!("ce_threshold {}", units::show_us(us)));
        }
        if (self.ce_threshold_selector, self.ce_threshold_mask) != (0, 0) {
            let (value, mask) = (self.ce_threshold_selector, self.ce_threshold_mask);
            out.push(format!("ce_threshold_selector {value:#04x}/{mask:#04x}"));
        }
        out.extend(self.sce_threshold.map(sce::show));
        if self.interval_us != default.interval_us {
            out.push(format!("interval {}", units::show_us(self.interval_us)));
        }
        if self.memory_limit != default.memory_limit {
            out.push(format!("memory_limit {}", units::show_size(self.memory_limit)));
        }
        if !self.ecn {
            out.push("noecn".into());
        }
        if self.drop_batch != default.drop_batch {
            out.push(format!("drop_batch {}", self.drop_batch));
        }
        out.join(" ")
    }
}

/// `VALUE/MASK`, each a byte in C's notation. A value with bits outside the mask selects nothing.
fn selector(word: &str) -> Result<(u8, u8), String> {
    let Some((value, mask)) = word.split_once('/') else {
        return Err("the mask is missing: VALUE/MASK, for example 0x01/0x03 for ECT(1)".into());
    };
    let byte = units::integer(0..=255);
    let (value, mask) = (byte(value)? as u8, byte(mask)? as u8);
    if value & !mask != 0 {
        return Err(format!("{value:#04x} has bits that the mask {mask:#04x} leaves out, so no packet would match"));
    }
    Ok((value, mask))
}

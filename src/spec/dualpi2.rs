//! Words of `dualpi2` (`spec/dualpi2.md` §2).

use super::lex::{Cursor, Token};
use super::{Grammar, SpecError, Word, units};
use crate::qdisc::dualpi2::{EcnMask, Params, Step};

/// What the words say, before `max_rtt` and `typical_rtt` are turned into gains.
#[derive(Default)]
pub(super) struct Words {
    params: Params,
    max_rtt: Option<u32>,
    typical_rtt: Option<u32>,
    /// The controller's words that were written, which the round-trip times would replace.
    written: Vec<&'static str>,
    step: Option<&'static str>,
}

/// Reads a `dualpi2` stage.
pub(super) fn read(stage: Token<'_>, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Params, SpecError> {
    let words = Words::default().read("dualpi2", args, warnings)?;
    if words.max_rtt.is_none() && words.typical_rtt.is_none() {
        return Ok(words.params);
    }
    if !words.written.is_empty() {
        warnings.push(format!("dualpi2: max_rtt and typical_rtt replace {}", words.written.join(", ")));
    }
    configured(words.params, words.max_rtt, words.typical_rtt)
        .map_err(|why| SpecError::new(stage.at, stage.text.len(), format!("dualpi2: {why}")))
}

/// The controller for a range of round-trip times, as the tool computes it.
fn configured(mut params: Params, max: Option<u32>, typical: Option<u32>) -> Result<Params, String> {
    let (max, typical) = match (max, typical) {
        (Some(max), Some(typical)) => (max, typical),
        (Some(max), None) => (max, (max / 6).max(1)),
        (None, typical) => {
            let typical = typical.unwrap_or(0);
            (typical.checked_mul(6).ok_or("typical_rtt is longer than 715s")?, typical)
        }
    };
    if max == 0 || typical == 0 {
        return Err("a round-trip time of 0 gives no controller".into());
    }
    if typical > max {
        return Err(format!("typical_rtt {} is longer than max_rtt {}", units::show_us(typical), units::show_us(max)));
    }
    params.target_us = typical;
    params.tupdate_us = typical.min(max / 3).max(1);
    let max = f64::from(max) / 1e6;
    let tupdate = f64::from(params.tupdate_us) / 1e6;
    params.alpha = in_256ths(0.1 * tupdate / (max * max)).map_err(|e| format!("alpha: {e}"))?;
    params.beta = in_256ths(0.3 / max).map_err(|e| format!("beta: {e}"))?;
    Ok(params)
}

/// A gain in Hz as the kernel takes it, 1/256 Hz, cut.
fn in_256ths(hz: f64) -> Result<u32, String> {
    let n = hz * 256.0;
    if (1.0..2_147_483_648.0).contains(&n) { Ok(n as u32) } else { Err(format!("{hz} Hz is outside 1/256…8388607")) }
}

fn gain(word: &str) -> Result<u32, String> {
    in_256ths(word.parse().map_err(|_| format!("\"{word}\" is not a number of Hz"))?)
}

fn show_gain(n: u32) -> String {
    (f64::from(n) / 256.0).to_string()
}

impl Grammar for Words {
    const WORDS: &'static [Word] = &[
        Word {
            name: "limit",
            args: "N",
            sample: "limit 400",
            help: "packets held at most, both queues together; default 10000",
        },
        Word {
            name: "memlimit",
            args: "N",
            sample: "memlimit 150000",
            help: "bytes of memory held at most, without unit; default two MTUs per packet of limit",
        },
        Word { name: "target", args: "TIME", sample: "target 5ms", help: "set point of the controller; default 15ms" },
        Word { name: "tupdate", args: "TIME", sample: "tupdate 1ms", help: "time between its runs; default 16ms" },
        Word { name: "alpha", args: "HZ", sample: "alpha 0.5", help: "integral gain; default 0.16" },
        Word { name: "beta", args: "HZ", sample: "beta 2.5", help: "proportional gain; default 3.2" },
        Word {
            name: "step_thresh",
            args: "TIME|Np",
            sample: "step_thresh 20p",
            help: "mark L4S packets above this sojourn, or with more than N packets behind them; default 1ms",
        },
        Word {
            name: "min_qlen_step",
            args: "N",
            sample: "min_qlen_step 8",
            help: "step only for packets that found at least N in their queue; default 0",
        },
        Word {
            name: "coupling_factor",
            args: "N",
            sample: "coupling_factor 1",
            help: "how much more often L4S packets are marked than the base probability, 1…255; default 2",
        },
        Word {
            name: "drop_on_overload",
            args: "",
            sample: "drop_on_overload",
            help: "drop from both queues once L4S packets would all be marked (default)",
        },
        Word { name: "overflow", args: "", sample: "overflow", help: "let the limit drop instead" },
        Word { name: "drop_dequeue", args: "", sample: "drop_dequeue", help: "judge packets as they leave (default)" },
        Word { name: "drop_enqueue", args: "", sample: "drop_enqueue", help: "judge packets as they come" },
        Word {
            name: "classic_protection",
            args: "P%",
            sample: "classic_protection 50%",
            help: "weight of the classic queue, 0…100 percent; default 10",
        },
        Word { name: "l4s_ect", args: "", sample: "l4s_ect", help: "ECT(1) and CE are L4S (default)" },
        Word { name: "any_ect", args: "", sample: "any_ect", help: "ECT(0) is L4S too" },
        Word {
            name: "split_gso",
            args: "",
            sample: "split_gso",
            help: "split super-packets (default; weir meets none)",
        },
        Word { name: "no_split_gso", args: "", sample: "no_split_gso", help: "leave super-packets whole" },
        Word {
            name: "max_rtt",
            args: "TIME",
            sample: "max_rtt 60ms",
            help: "target, tupdate, alpha and beta for round-trip times up to this; default typical_rtt × 6",
        },
        Word {
            name: "typical_rtt",
            args: "TIME",
            sample: "typical_rtt 20ms",
            help: "the usual round-trip time; default max_rtt / 6",
        },
    ];

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError> {
        let positive = units::integer(1..=i64::from(u32::MAX));
        let p = &mut self.params;
        match name {
            "limit" => p.limit = args.arg(positive)? as u32,
            "memlimit" => p.memlimit = Some(args.arg(positive)? as u32),
            "target" => {
                p.target_us = args.arg(units::time_us)?;
                self.written.push("target");
            }
            "tupdate" => {
                p.tupdate_us = args.arg(nonzero_time)?;
                self.written.push("tupdate");
            }
            "alpha" => {
                p.alpha = args.arg(gain)?;
                self.written.push("alpha");
            }
            "beta" => {
                p.beta = args.arg(gain)?;
                self.written.push("beta");
            }
            "step_thresh" => {
                p.step = args.arg(step)?;
                let form = match p.step {
                    Step::Time(_) => "a time",
                    Step::Packets(_) => "packets",
                };
                if self.step.replace(form).is_some_and(|before| before != form) {
                    return Err(args.refuse("step_thresh is given twice, as a time and in packets; keep one"));
                }
            }
            "min_qlen_step" => p.min_qlen_step = args.arg(units::count)?,
            "coupling_factor" => p.coupling_factor = args.arg(units::integer(1..=255))? as u8,
            "drop_on_overload" | "overflow" => p.drop_on_overload = name == "drop_on_overload",
            "drop_dequeue" | "drop_enqueue" => p.drop_enqueue = name == "drop_enqueue",
            "classic_protection" => p.classic_protection = args.arg(percent)?,
            "l4s_ect" => p.ecn_mask = EcnMask::L4s,
            "any_ect" => p.ecn_mask = EcnMask::Any,
            "split_gso" | "no_split_gso" => p.split_gso = name == "split_gso",
            "max_rtt" => self.max_rtt = Some(args.arg(units::time_us)?),
            "typical_rtt" => self.typical_rtt = Some(args.arg(units::time_us)?),
            _ => return Err(args.unknown("dualpi2", &Self::allowed())),
        }
        let _ = warnings;
        Ok(())
    }

    fn words(&self) -> String {
        words(&self.params)
    }
}

/// The words that give these parameters.
pub(super) fn words(p: &Params) -> String {
    let default = Params::default();
    let mut out = Vec::new();
    let mut put = |differs: bool, words: String| {
        if differs {
            out.push(words);
        }
    };
    put(p.limit != default.limit, format!("limit {}", p.limit));
    put(p.memlimit.is_some(), format!("memlimit {}", p.memlimit.unwrap_or(0)));
    put(p.target_us != default.target_us, format!("target {}", units::show_us(p.target_us)));
    put(p.tupdate_us != default.tupdate_us, format!("tupdate {}", units::show_us(p.tupdate_us)));
    put(p.alpha != default.alpha, format!("alpha {}", show_gain(p.alpha)));
    put(p.beta != default.beta, format!("beta {}", show_gain(p.beta)));
    let step = match p.step {
        Step::Time(us) => units::show_us(us),
        Step::Packets(n) => format!("{n}p"),
    };
    put(p.step != default.step, format!("step_thresh {step}"));
    put(p.min_qlen_step != default.min_qlen_step, format!("min_qlen_step {}", p.min_qlen_step));
    put(p.coupling_factor != default.coupling_factor, format!("coupling_factor {}", p.coupling_factor));
    put(!p.drop_on_overload, "overflow".into());
    put(p.drop_enqueue, "drop_enqueue".into());
    put(p.classic_protection != default.classic_protection, format!("classic_protection {}%", p.classic_protection));
    put(p.ecn_mask == EcnMask::Any, "any_ect".into());
    put(!p.split_gso, "no_split_gso".into());
    out.join(" ")
}

fn nonzero_time(word: &str) -> Result<u32, String> {
    match units::time_us(word)? {
        0 => Err("the controller needs at least 1us between its runs".into()),
        us => Ok(us),
    }
}

/// A time, or a number of packets with one of tc's suffixes. A number alone is microseconds.
fn step(word: &str) -> Result<Step, String> {
    let not_a_time = match units::time_us(word) {
        Ok(us) => return Ok(Step::Time(us)),
        Err(why) => why,
    };
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match &word[digits..] {
        "p" | "pkt" | "pkts" | "packet" | "packets" => units::count(&word[..digits]).map(Step::Packets),
        _ => Err(format!("{not_a_time}; or a number of packets, such as 20p")),
    }
}

/// Percent, with or without the sign.
fn percent(word: &str) -> Result<u8, String> {
    units::integer(0..=100)(word.strip_suffix('%').unwrap_or(word)).map(|n| n as u8)
}

//! Words of `tbf` (`spec/codel.md` §5, decisions.md 3).

use super::lex::{Cursor, Token};
use super::{Grammar, SpecError, Word, autorate, units};
use crate::qdisc::tbf::{Limit, Params};
use crate::units::{LinkLayer, Rate};

/// Reads a `tbf` stage.
pub(super) fn read(stage: Token<'_>, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Params, SpecError> {
    let at = args.find("autorate").unwrap_or(stage.at);
    let params = Params::new(Rate::default()).read("tbf", args, warnings)?;
    let refuse = |why: &str| Err(SpecError::new(stage.at, stage.text.len(), why));
    if params.rate.is_zero() {
        return refuse("tbf needs \"rate RATE\"");
    }
    match (params.peak_rate, params.peak_mtu) {
        (Some(_), None) => return refuse("\"peakrate\" needs \"mtu SIZE\", the burst at peak rate"),
        (None, Some(_)) => return refuse("\"mtu\" has a meaning only with \"peakrate RATE\""),
        (Some(peak), Some(_)) if peak <= params.rate => {
            return refuse("\"peakrate\" must be higher than \"rate\"");
        }
        _ => {}
    }
    if let Some(range) = params.range {
        autorate::check(at, "rate", params.rate, range)?;
        if params.peak_rate.is_some_and(|peak| range.max >= peak) {
            return Err(autorate::refuse(at, "MAX must be lower than \"peakrate\""));
        }
    }
    Ok(params)
}

impl Grammar for Params {
    const WORDS: &'static [Word] = &[
        Word { name: "rate", args: "RATE", sample: "rate 2mbit", help: "rate at which tokens come; required" },
        Word {
            name: "burst",
            args: "SIZE[/CELL]",
            sample: "burst 9k",
            help: "depth of the bucket; default the larger of two packets and one millisecond of the rate",
        },
        Word { name: "buffer", args: "SIZE[/CELL]", sample: "buffer 9k", help: "same as burst" },
        Word { name: "maxburst", args: "SIZE[/CELL]", sample: "maxburst 9k", help: "same as burst" },
        Word {
            name: "limit",
            args: "SIZE",
            sample: "limit 30k",
            help: "bytes held at most by the queue tbf makes when none stands before it",
        },
        Word {
            name: "latency",
            args: "TIME",
            sample: "latency 30ms",
            help: "the same as a time: limit = rate × latency + burst",
        },
        Word {
            name: "peakrate",
            args: "RATE",
            sample: "peakrate 3mbit mtu 2k",
            help: "second, faster rate that bursts are held to",
        },
        Word {
            name: "mtu",
            args: "SIZE[/CELL]",
            sample: "mtu 2k peakrate 3mbit",
            help: "depth of the peak rate's bucket",
        },
        Word { name: "minburst", args: "SIZE[/CELL]", sample: "minburst 2k peakrate 3mbit", help: "same as mtu" },
        Word { name: "overhead", args: "N", sample: "overhead 38", help: "bytes added to each packet, 0…65535" },
        Word { name: "mpu", args: "N", sample: "mpu 84", help: "smallest length charged, 0…65535" },
        Word {
            name: "linklayer",
            args: "ethernet|atm|adsl",
            sample: "linklayer atm",
            help: "cells of 53 bytes for each 48 begun with atm",
        },
        Word { name: "autorate", args: autorate::ARGS, sample: "autorate 1mbit 9mbit", help: autorate::HELP },
    ];

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError> {
        match name {
            "rate" => self.rate = args.arg(units::rate)?,
            "peakrate" => self.peak_rate = Some(args.arg(units::rate)?),
            "burst" | "buffer" | "maxburst" => self.burst = Some(args.arg(bucket)?),
            "mtu" | "minburst" => self.peak_mtu = Some(args.arg(bucket)?),
            "limit" | "latency" => {
                let limit = match name {
                    "limit" => Limit::Bytes(args.arg(units::size)?),
                    _ => Limit::Latency(args.arg(units::time_us)?),
                };
                if self.limit.replace(limit).is_some() {
                    warnings.push(format!("tbf: \"{name}\" replaces the limit given before it"));
                }
            }
            "overhead" => self.overhead = args.arg(units::integer(0..=65535))? as u16,
            "mpu" => self.mpu = args.arg(units::integer(0..=65535))? as u16,
            "linklayer" => {
                self.link_layer = args.arg(link_layer)?;
            }
            "autorate" => self.range = Some(autorate::read(args)?),
            _ => return Err(args.unknown("tbf", &Self::allowed())),
        }
        Ok(())
    }

    fn words(&self) -> String {
        let mut out = vec![format!("rate {}", units::show_rate(self.rate))];
        if let Some(burst) = self.burst {
            out.push(format!("burst {}", units::show_size(burst)));
        }
        if let Some(peak) = self.peak_rate {
            out.push(format!("peakrate {}", units::show_rate(peak)));
        }
        if let Some(mtu) = self.peak_mtu {
            out.push(format!("mtu {}", units::show_size(mtu)));
        }
        match self.limit {
            Some(Limit::Bytes(n)) => out.push(format!("limit {}", units::show_size(n))),
            Some(Limit::Latency(us)) => out.push(format!("latency {}", units::show_us(us))),
            None => {}
        }
        if self.overhead != 0 {
            out.push(format!("overhead {}", self.overhead));
        }
        if self.mpu != 0 {
            out.push(format!("mpu {}", self.mpu));
        }
        if self.link_layer == LinkLayer::Atm {
            out.push("linklayer atm".into());
        }
        out.extend(self.range.map(autorate::show));
        out.join(" ")
    }
}

/// The name of a link layer.
pub(super) fn link_layer(word: &str) -> Result<LinkLayer, String> {
    match word {
        "ethernet" => Ok(LinkLayer::Ethernet),
        "atm" | "adsl" => Ok(LinkLayer::Atm),
        _ => Err("allowed: ethernet, atm, adsl".into()),
    }
}

/// `SIZE[/CELL]`: a bucket that is not empty. The cell size once chose a table's grain; it has no
/// effect on any decision, so it is checked and forgotten.
pub(super) fn bucket(word: &str) -> Result<u32, String> {
    let (size, cell) = word.split_once('/').map_or((word, None), |(s, c)| (s, Some(c)));
    if let Some(cell) = cell {
        let cell = units::count(cell)?;
        if !cell.is_power_of_two() {
            return Err(format!("the cell size {cell} is not a power of two"));
        }
    }
    match units::size(size)? {
        0 => Err("a bucket of 0 bytes lets nothing pass".into()),
        bytes => Ok(bytes),
    }
}

//! Words of `htb`, one class (`spec/codel.md` §6).

use super::lex::{Cursor, Token};
use super::{Grammar, SpecError, Word, tbf, units};
use crate::qdisc::htb::Params;
use crate::units::{LinkLayer, Rate};

/// Reads an `htb` stage.
pub(super) fn read(stage: Token<'_>, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Params, SpecError> {
    let params = Params::new(Rate::default()).read("htb", args, warnings)?;
    let refuse = |why: &str| Err(SpecError::new(stage.at, stage.text.len(), why));
    if params.rate.is_zero() {
        return refuse("htb needs \"rate RATE\"");
    }
    if params.ceil.is_some_and(|ceil| ceil < params.rate) {
        return refuse("\"ceil\" must not be lower than \"rate\", which could then never be reached");
    }
    if params.ceil.is_none() && params.cburst.is_some_and(|c| Some(c) < params.burst) {
        warnings.push("htb: \"cburst\" smaller than \"burst\" decides alone while ceil and rate are equal".into());
    }
    Ok(params)
}

impl Grammar for Params {
    const WORDS: &'static [Word] = &[
        Word { name: "rate", args: "RATE", sample: "rate 2mbit", help: "rate held in the long run; required" },
        Word { name: "ceil", args: "RATE", sample: "ceil 5mbit", help: "rate of bursts; default the rate" },
        Word {
            name: "burst",
            args: "SIZE[/CELL]",
            sample: "burst 15k",
            help: "bytes that may leave at ceil after idling; default 1600",
        },
        Word { name: "buffer", args: "SIZE[/CELL]", sample: "buffer 15k", help: "same as burst" },
        Word { name: "maxburst", args: "SIZE[/CELL]", sample: "maxburst 15k", help: "same as burst" },
        Word {
            name: "cburst",
            args: "SIZE[/CELL]",
            sample: "cburst 3k",
            help: "bytes that may leave at line speed after idling; default 1600",
        },
        Word { name: "cbuffer", args: "SIZE[/CELL]", sample: "cbuffer 3k", help: "same as cburst" },
        Word { name: "cmaxburst", args: "SIZE[/CELL]", sample: "cmaxburst 3k", help: "same as cburst" },
        Word { name: "mtu", args: "SIZE", sample: "mtu 9k", help: "what the two bursts are by default; 1600" },
        Word { name: "overhead", args: "N", sample: "overhead 38", help: "bytes added to each packet, 0…65535" },
        Word { name: "mpu", args: "N", sample: "mpu 84", help: "smallest length charged, 0…65535" },
        Word {
            name: "linklayer",
            args: "ethernet|atm|adsl",
            sample: "linklayer atm",
            help: "cells of 53 bytes for each 48 begun with atm",
        },
        Word {
            name: "quantum",
            args: "BYTES",
            sample: "quantum 3000",
            help: "share among classes; weir has one class",
        },
        Word { name: "prio", args: "N", sample: "prio 1", help: "priority among classes, 0…7; weir has one class" },
    ];

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, _: &mut Vec<String>) -> Result<(), SpecError> {
        match name {
            "rate" => self.rate = args.arg(units::rate)?,
            "ceil" => self.ceil = Some(args.arg(units::rate)?),
            "burst" | "buffer" | "maxburst" => self.burst = Some(args.arg(tbf::bucket)?),
            "cburst" | "cbuffer" | "cmaxburst" => self.cburst = Some(args.arg(tbf::bucket)?),
            "mtu" => self.mtu = Some(args.arg(tbf::bucket)?),
            "overhead" => self.overhead = args.arg(units::integer(0..=65535))? as u16,
            "mpu" => self.mpu = args.arg(units::integer(0..=65535))? as u16,
            "linklayer" => self.link_layer = args.arg(tbf::link_layer)?,
            "quantum" => self.quantum = Some(args.arg(units::size)?),
            "prio" => self.prio = args.arg(units::integer(0..=7))? as u32,
            _ => return Err(args.unknown("htb", &Self::allowed())),
        }
        Ok(())
    }

    fn words(&self) -> String {
        let mut out = vec![format!("rate {}", units::show_rate(self.rate))];
        let sizes = [("burst", self.burst), ("cburst", self.cburst), ("mtu", self.mtu)];
        if let Some(ceil) = self.ceil {
            out.push(format!("ceil {}", units::show_rate(ceil)));
        }
        out.extend(sizes.iter().filter_map(|(n, v)| v.map(|v| format!("{n} {}", units::show_size(v)))));
        if self.overhead != 0 {
            out.push(format!("overhead {}", self.overhead));
        }
        if self.mpu != 0 {
            out.push(format!("mpu {}", self.mpu));
        }
        if self.link_layer == LinkLayer::Atm {
            out.push("linklayer atm".into());
        }
        if let Some(quantum) = self.quantum {
            out.push(format!("quantum {}", units::show_size(quantum)));
        }
        if self.prio != 0 {
            out.push(format!("prio {}", self.prio));
        }
        out.join(" ")
    }
}

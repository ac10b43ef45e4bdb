//! Words of `netem` (`spec/netem.md` §1).

use super::lex::{Cursor, Token};
use super::{Grammar, SpecError, Word, units};
use crate::qdisc::netem::{DEFAULT_LIMIT, Distribution, Loss, MAX_JITTER, Params, Shape, Slots, Spacing};
use crate::units::Fraction;

/// Reads a `netem` stage.
pub(super) fn read(stage: Token<'_>, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Params, SpecError> {
    let mut params = Params::default();
    let mut seen: Vec<&str> = Vec::new();
    while let Some(word) = args.next_word() {
        if !Params::WORDS.iter().any(|w| w.name == word.text) {
            let mut e = args.unknown("netem", &Params::allowed());
            // tc takes any beginning of a word; here the word must be written out.
            if let Some(full) = Params::WORDS.iter().find(|w| w.name.starts_with(word.text)) {
                e.nearest = Some(full.name.to_string());
            }
            return Err(e);
        }
        let what = match word.text {
            "latency" => "delay",
            "drop" => "loss",
            other => other,
        };
        if seen.contains(&what) {
            if what == "loss" {
                return Err(args.refuse("there can be only one loss model"));
            }
            warnings.push(format!("netem: \"{}\" is given twice; the last one counts", word.text));
        }
        seen.push(what);
        params.word(word.text, args, warnings)?;
    }
    check(&mut params, &seen, warnings).map_err(|why| SpecError::new(stage.at, stage.text.len(), why))?;
    Ok(params)
}

/// What words say only together.
fn check(p: &mut Params, seen: &[&str], warnings: &mut Vec<String>) -> Result<(), String> {
    if p.limit == 0 {
        return Err("\"limit 0\" drops everything; write \"loss 100%\" if that is meant".into());
    }
    if p.distribution.is_some() && (p.delay == 0 || p.jitter == 0) {
        return Err("\"distribution\" is the shape of a jitter: it needs \"delay TIME JITTER\"".into());
    }
    if p.ecn && matches!(p.loss, Loss::None | Loss::Random { p: Fraction(0), .. }) {
        return Err("\"ecn\" marks instead of losing: it needs a loss model".into());
    }
    if p.reorder.0 != 0 && p.delay == 0 {
        return Err("\"reorder\" lets packets jump a delay: it needs \"delay TIME\"".into());
    }
    if p.gap != 0 && p.reorder.0 == 0 {
        return Err(
            "\"gap\" says which packets may jump: it needs \"reorder PERCENT\", such as \"reorder 100%\"".into()
        );
    }
    if p.reorder.0 != 0 && p.gap == 0 {
        p.gap = 1;
    }
    if p.ordered && !seen.contains(&"delay") {
        return Err("\"ordered\" holds a jitter to the order of arrival: it needs \"delay TIME JITTER\"".into());
    }
    caution(p, warnings);
    Ok(())
}

/// What works, but not as one may think.
fn caution(p: &Params, warnings: &mut Vec<String>) {
    if p.jitter > p.delay {
        let share = if p.distribution.as_ref().is_some_and(|d| d.table().is_some()) {
            String::new()
        } else {
            format!(" ({:.1} % of them)", 50.0 * (1.0 - p.delay as f64 / p.jitter as f64))
        };
        let credit = if p.rate.is_some() { ", and an idle link sends ahead of its rate" } else { "" };
        warnings.push(format!(
            "netem: jitter {} is longer than delay {}: packets with a negative delay{share} leave at once{credit}",
            units::show_ns(p.jitter),
            units::show_ns(p.delay),
        ));
    }
    if p.jitter * 2 > 1 << 28 && p.distribution.as_ref().is_none_or(|d| d.table().is_none()) {
        warnings.push(format!(
            "netem: a uniform jitter of {} is not quite even (a 32-bit draw modulo its range); up to 134ms the error is below 1.5 %",
            units::show_ns(p.jitter)
        ));
    }
    let c = &p.correlations;
    if c.delay.0 != 0 {
        warnings.push(
            "netem: a correlation of the delay has no effect to speak of, since the draw is taken modulo the range (as in the kernel)".into(),
        );
    }
    let loss = if let Loss::Random { p, .. } = p.loss { p } else { Fraction(0) };
    for (what, share, rho) in [
        ("loss", loss, c.loss),
        ("duplicate", p.duplicate, c.duplicate),
        ("reorder", p.reorder, c.reorder),
        ("corrupt", p.corrupt, c.corrupt),
    ] {
        if share.0 != 0 && rho.0 != 0 && share != Fraction::ALL {
            warnings.push(format!(
                "netem: with a correlation of {}, \"{what} {}\" happens to about {:.2} % of packets (as in the kernel); \"loss gemodel\" makes bursts without that",
                units::show_percent(rho),
                units::show_percent(share),
                100.0 * effective(share, rho),
            ));
        }
    }
}

/// What a correlated probability comes to: the recursion run for a while from a fixed start.
fn effective(share: Fraction, rho: Fraction) -> f64 {
    use crate::qdisc::netem::{Correlator, Taus113};
    const RUNS: u32 = 1 << 18;
    let mut from = Taus113::new(0x5EED_5EED_5EED);
    let mut correlator = Correlator::new(rho, 1 << 31);
    (0..RUNS).filter(|_| share.0 >= correlator.draw(&mut from)).count() as f64 / f64::from(RUNS)
}

impl Grammar for Params {
    const WORDS: &'static [Word] = &[
        Word { name: "limit", args: "N", sample: "limit 50", help: "packets held at most; default 1000" },
        Word {
            name: "delay",
            args: "TIME [JITTER [CORRELATION]]",
            sample: "delay 20ms 5ms 25%",
            help: "holds each packet that long; jitter reorders (see ordered)",
        },
        Word { name: "latency", args: "TIME [JITTER [CORRELATION]]", sample: "latency 20ms", help: "same as delay" },
        Word {
            name: "distribution",
            args: "uniform|normal|pareto|paretonormal|PATH",
            sample: "delay 20ms 5ms distribution normal",
            help: "shape of the jitter: one of the four, or a file of numbers, 8192 for one jitter; default uniform",
        },
        Word {
            name: "ordered",
            args: "",
            sample: "delay 20ms 5ms ordered",
            help: "weir's own: jitter without reordering; a packet leaves no earlier than those before it",
        },
        Word {
            name: "loss",
            args: "[random] P [CORRELATION] | state P13 [P31 [P32 [P23 [P14]]]] | gemodel P [R [1-H [1-K]]]",
            sample: "loss gemodel 1% 10% 70% 0.1%",
            help: "loses packets at random, by four states, or by Gilbert and Elliott's good and bad state",
        },
        Word { name: "drop", args: "as loss", sample: "drop 1%", help: "same as loss" },
        Word {
            name: "ecn",
            args: "",
            sample: "loss 1% ecn",
            help: "marks instead of losing packets that can be marked",
        },
        Word { name: "corrupt", args: "P [CORRELATION]", sample: "corrupt 0.1%", help: "flips one bit of that share" },
        Word { name: "duplicate", args: "P [CORRELATION]", sample: "duplicate 1%", help: "sends that share twice" },
        Word {
            name: "reorder",
            args: "P [CORRELATION]",
            sample: "delay 10ms reorder 25% 50%",
            help: "lets that share jump the delay",
        },
        Word {
            name: "gap",
            args: "N",
            sample: "delay 10ms reorder 100% gap 5",
            help: "lets a packet try to jump only after N - 1 that did not",
        },
        Word {
            name: "rate",
            args: "RATE [OVERHEAD [CELL [CELL-OVERHEAD]]]",
            sample: "rate 8mbit 20 48 5",
            help: "a link of that rate behind the delay, with bytes added to packets and to cells",
        },
        Word {
            name: "slot",
            args: "MIN [MAX] | distribution NAME MEAN JITTER, [packets N] [bytes N]",
            sample: "slot 800us 10ms packets 42 bytes 64k",
            help: "lets packets leave in slots only",
        },
        Word {
            name: "seed",
            args: "N",
            sample: "seed 42",
            help: "seed of all draws, 64 bits; default that of the run",
        },
    ];

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError> {
        match name {
            "limit" => self.limit = args.arg(units::size)?,
            "delay" | "latency" => {
                self.delay = time(name, args, 1000, warnings)?;
                self.jitter = 0;
                self.correlations.delay = Fraction(0);
                if args.begins_with_digit() {
                    self.jitter = time(name, args, 1000, warnings)?;
                    self.correlations.delay = correlation(name, args)?;
                }
                if self.jitter > MAX_JITTER {
                    warnings
                        .push(format!("netem: jitter is cut to {}, the longest there is", units::show_ns(MAX_JITTER)));
                    self.jitter = MAX_JITTER;
                }
            }
            "distribution" => self.distribution = Some(args.arg(shape)?).filter(|d| d.name() != "uniform"),
            "ordered" => self.ordered = true,
            "loss" | "drop" => self.loss = self.read_loss(name, args)?,
            "ecn" => self.ecn = true,
            "corrupt" => (self.corrupt, self.correlations.corrupt) = chance(name, args)?,
            "duplicate" => (self.duplicate, self.correlations.duplicate) = chance(name, args)?,
            "reorder" => (self.reorder, self.correlations.reorder) = chance(name, args)?,
            "gap" => self.gap = args.arg(units::count)?,
            "rate" => self.rate = read_rate(args)?,
            "slot" => self.slots = read_slots(args, warnings)?,
            "seed" => {
                self.seed =
                    Some(args.arg(|w| w.parse().map_err(|_| format!("\"{w}\" is not a decimal number of 64 bits")))?)
            }
            _ => return Err(args.unknown("netem", &Self::allowed())),
        }
        Ok(())
    }

    fn words(&self) -> String {
        let percent = units::show_percent;
        let chance = |name: &str, share: Fraction, rho: Fraction| match (share.0, rho.0) {
            (0, _) => None,
            (_, 0) => Some(format!("{name} {}", percent(share))),
            _ => Some(format!("{name} {} {}", percent(share), percent(rho))),
        };
        let c = &self.correlations;
        let mut out: Vec<String> = Vec::new();
        if self.limit != DEFAULT_LIMIT {
            out.push(format!("limit {}", self.limit));
        }
        if self.delay != 0 || self.jitter != 0 || self.ordered {
            out.push(format!("delay {}", units::show_ns(self.delay)));
            if self.jitter != 0 || c.delay.0 != 0 {
                out.push(units::show_ns(self.jitter));
            }
            if c.delay.0 != 0 {
                out.push(percent(c.delay));
            }
        }
        if let Some(d) = &self.distribution {
            out.push(format!("distribution {}", d.name()));
        }
        if self.ordered {
            out.push("ordered".into());
        }
        out.extend(show_loss(&self.loss));
        out.extend(chance("duplicate", self.duplicate, c.duplicate));
        out.extend(chance("reorder", self.reorder, c.reorder));
        out.extend(chance("corrupt", self.corrupt, c.corrupt));
        out.extend(self.rate.as_ref().map(show_rate));
        out.extend(self.slots.as_ref().map(show_slots));
        out.extend(self.seed.map(|seed| format!("seed {seed}")));
        if self.ecn {
            out.push("ecn".into());
        }
        if self.gap > 1 {
            out.push(format!("gap {}", self.gap));
        }
        out.join(" ")
    }
}

impl Params {
    fn read_loss(&mut self, name: &str, args: &mut Cursor<'_>) -> Result<Loss, SpecError> {
        let optional = |args: &mut Cursor<'_>, default| {
            if args.begins_with_digit() { args.value(name, units::percent) } else { Ok(default) }
        };
        let model = args.peek().map_or("", |w| w.text);
        match model {
            "state" => {
                args.next_word();
                let p13 = args.value(name, units::percent)?;
                let p31 = optional(args, p13.rest())?;
                let p32 = optional(args, Fraction(0))?;
                let p23 = optional(args, Fraction::ALL)?;
                let p14 = optional(args, Fraction(0))?;
                for (a, b, which) in [(p13, p14, "p13 and p14"), (p31, p32, "p31 and p32")] {
                    if exceeds(a, b) {
                        return Err(args.refuse(format!("{which} sum to more than 100%")));
                    }
                }
                Ok(Loss::State { p13, p31, p32, p23, p14 })
            }
            "gemodel" => {
                args.next_word();
                let p = args.value(name, units::percent)?;
                let r = optional(args, p.rest())?;
                let bad = optional(args, Fraction::ALL)?;
                let good = optional(args, Fraction(0))?;
                Ok(Loss::Gemodel { p, r, bad, good })
            }
            _ => {
                if model == "random" {
                    args.next_word();
                }
                let p = args.value(name, units::percent)?;
                let rho = correlation(name, args)?;
                self.correlations.loss = rho;
                Ok(Loss::Random { p, rho })
            }
        }
    }
}

/// Whether two shares are more than all together, one unit of rounding each aside.
fn exceeds(a: Fraction, b: Fraction) -> bool {
    u64::from(a.0) + u64::from(b.0) > u64::from(u32::MAX) + 1
}

/// A time in ns; without a unit in `bare` ns, which is warned about.
fn time(name: &str, args: &mut Cursor<'_>, bare: u64, warnings: &mut Vec<String>) -> Result<u64, SpecError> {
    let word = args.peek().map_or("", |w| w.text);
    let value = args.value(name, |w| units::time_ns(w, bare))?;
    if units::has_no_unit(word) {
        let (unit, tools) = match bare {
            1 => ("ns", "as tc does in slots, and only there in versions before 6.9"),
            _ => ("us", "as tc does before 6.9; newer ones read ns"),
        };
        warnings.push(format!(
            "netem: \"{name} … {word}\" has no unit and is read as {word}{unit}, {tools}; write the unit"
        ));
    }
    Ok(value)
}

fn correlation(name: &str, args: &mut Cursor<'_>) -> Result<Fraction, SpecError> {
    if args.begins_with_digit() { args.value(name, units::percent) } else { Ok(Fraction(0)) }
}

/// `P [CORRELATION]`.
fn chance(name: &str, args: &mut Cursor<'_>) -> Result<(Fraction, Fraction), SpecError> {
    Ok((args.value(name, units::percent)?, correlation(name, args)?))
}

/// The shape of a jitter by name, or by a path that has a `/` in it.
fn shape(word: &str) -> Result<Distribution, String> {
    if word.contains('/') {
        let text = std::fs::read_to_string(word).map_err(|e| format!("{word}: {e}"))?;
        return Distribution::read(word, &text);
    }
    Distribution::named(word)
        .ok_or_else(|| format!("allowed: {}, or a file, as a path with a \"/\"", Distribution::NAMES.join(", ")))
}

fn read_rate(args: &mut Cursor<'_>) -> Result<Option<Shape>, SpecError> {
    const NAME: &str = "rate";
    let rate = match args.peek().map(|w| w.text) {
        Some("0") => {
            args.next_word();
            None
        }
        _ => Some(args.value(NAME, |w| match w.ends_with('%') {
            true => Err("a share of a device's speed is not known here; write the rate".into()),
            false => units::rate(w),
        })?),
    };
    let signed = |args: &Cursor<'_>| args.begins_with_digit() || args.peek().is_some_and(|w| w.text.starts_with('-'));
    let s32 = units::integer(i64::from(i32::MIN)..=i64::from(i32::MAX));
    let overhead = if signed(args) { args.value(NAME, &s32)? as i32 } else { 0 };
    let cell = if args.begins_with_digit() { args.value(NAME, units::count)? } else { 0 };
    let cell_overhead = if signed(args) { args.value(NAME, &s32)? as i32 } else { 0 };
    if cell == 0 && cell_overhead != 0 {
        return Err(args.refuse("a cell's overhead needs the cell's size before it"));
    }
    if cell != 0 && i64::from(cell) + i64::from(cell_overhead) <= 0 {
        return Err(args.refuse("a cell with its overhead must be longer than nothing"));
    }
    Ok(rate.map(|rate| Shape { rate, overhead, cell, cell_overhead }))
}

fn read_slots(args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Option<Slots>, SpecError> {
    const NAME: &str = "slot";
    let spacing = if args.peek().is_some_and(|w| w.text == "distribution") {
        args.next_word();
        let table = args.value(NAME, shape)?;
        let mean = time(NAME, args, 1, warnings)?;
        let jitter = time(NAME, args, 1, warnings)?;
        if jitter == 0 || jitter > MAX_JITTER {
            return Err(
                args.refuse(format!("the jitter of slots is above 0 and at most {}", units::show_ns(MAX_JITTER)))
            );
        }
        Spacing::Distributed(mean, jitter, table)
    } else {
        let min = time(NAME, args, 1, warnings)?;
        let max = if args.begins_with_digit() { time(NAME, args, 1, warnings)? } else { min };
        if max < min {
            return Err(args.refuse("the longest time between slots is shorter than the shortest"));
        }
        Spacing::Between(min, max)
    };
    let mut limit = |what: &str, read: &dyn Fn(&str) -> Result<u32, String>| {
        if args.peek().is_some_and(|w| w.text == what) {
            args.next_word();
            args.value(what, read)
        } else {
            Ok(0)
        }
    };
    let s32 = |w: &str| units::integer(0..=i64::from(i32::MAX))(w).map(|n| n as u32);
    let packets = limit("packets", &s32)?;
    let bytes = limit("bytes", &units::size)?;
    if bytes > i32::MAX as u32 {
        return Err(args.refuse("a slot has at most 2147483647 bytes"));
    }
    Ok((spacing != Spacing::Between(0, 0)).then_some(Slots { spacing, packets, bytes }))
}

fn show_loss(loss: &Loss) -> Option<String> {
    let list = |model: &str, shares: &[Fraction]| {
        let shares: Vec<_> = shares.iter().map(|p| units::show_percent(*p)).collect();
        Some(format!("loss {model}{}", shares.join(" ")))
    };
    match *loss {
        Loss::None => None,
        Loss::Random { p, rho: Fraction(0) } => list("", &[p]),
        Loss::Random { p, rho } => list("", &[p, rho]),
        Loss::State { p13, p31, p32, p23, p14 } => list("state ", &[p13, p31, p32, p23, p14]),
        Loss::Gemodel { p, r, bad, good } => list("gemodel ", &[p, r, bad, good]),
    }
}

fn show_rate(s: &Shape) -> String {
    let mut out = format!("rate {}", units::show_rate(s.rate));
    if s.overhead != 0 || s.cell != 0 {
        out += &format!(" {}", s.overhead);
    }
    if s.cell != 0 {
        out += &format!(" {} {}", s.cell, s.cell_overhead);
    }
    out
}

fn show_slots(s: &Slots) -> String {
    let ns = units::show_ns;
    let mut out = match &s.spacing {
        Spacing::Between(min, max) => format!("slot {} {}", ns(*min), ns(*max)),
        Spacing::Distributed(mean, jitter, table) => {
            format!("slot distribution {} {} {}", table.name(), ns(*mean), ns(*jitter))
        }
    };
    if s.packets != 0 {
        out += &format!(" packets {}", s.packets);
    }
    if s.bytes != 0 {
        out += &format!(" bytes {}", units::show_size(s.bytes));
    }
    out
}

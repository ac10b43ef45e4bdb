//! How tc prints `netem` (`spec/netem.md` §1 and §11) and `htb`, as text and as JSON, and weir's
//! `link` in the same style; the class of `htb`, which tc shows elsewhere, stands on a line of its own.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::format::{percent, rate, significant, size, time_us};
use crate::qdisc::Compat;
use crate::qdisc::netem::{Loss, Params, Spacing};
use crate::qdisc::{htb, link, netem};
use crate::units::Fraction;

fn time(ns: u64) -> String {
    time_us(ns / 1000)
}

fn share(p: Fraction) -> String {
    percent(p.ratio())
}

/// `NAME P`, with its correlation behind it if there is one.
fn chance(name: &str, p: Fraction, rho: Fraction) -> String {
    match (p.0, rho.0) {
        (0, _) => String::new(),
        (_, 0) => format!(" {name} {}", share(p)),
        _ => format!(" {name} {} {}", share(p), share(rho)),
    }
}

/// The parameters in force, in tc's order.
pub(super) fn netem_text(s: &netem::Stats) -> String {
    let p: &Params = &s.params;
    let c = &p.correlations;
    let mut out = format!("limit {}", p.limit);
    if p.delay != 0 || p.jitter != 0 {
        push(&mut out, format_args!(" delay {}", time(p.delay)));
        if p.jitter != 0 {
            // tc puts two blanks here.
            push(&mut out, format_args!("  {}", time(p.jitter)));
            if c.delay.0 != 0 {
                push(&mut out, format_args!(" {}", share(c.delay)));
            }
        }
    }
    if p.ordered {
        out.push_str(" ordered");
    }
    match p.loss {
        Loss::None => {}
        Loss::Random { p, rho } => out += &chance("loss", p, rho),
        Loss::State { p13, p31, p32, p23, p14 } => {
            let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(share);
            push(&mut out, format_args!(" loss state p13 {p13} p31 {p31} p32 {p32} p23 {p23} p14 {p14}"));
        }
        Loss::Gemodel { p, r, bad, good } => {
            let [p, r, bad, good] = [p, r, bad, good].map(share);
            push(&mut out, format_args!(" loss gemodel p {p} r {r} 1-h {bad} 1-k {good}"));
        }
    }
    out += &chance("duplicate", p.duplicate, c.duplicate);
    out += &chance("reorder", p.reorder, c.reorder);
    out += &chance("corrupt", p.corrupt, c.corrupt);
    if let Some(r) = p.rate {
        push(&mut out, format_args!(" rate {}", rate(r.rate)));
        if r.overhead != 0 {
            push(&mut out, format_args!(" packetoverhead {}", r.overhead));
        }
        if r.cell != 0 {
            push(&mut out, format_args!(" cellsize {}", r.cell));
        }
        if r.cell_overhead != 0 {
            push(&mut out, format_args!(" celloverhead {}", r.cell_overhead));
        }
    }
    if let Some(slots) = &p.slots {
        match &slots.spacing {
            Spacing::Between(min, max) => push(&mut out, format_args!(" slot {} {}", time(*min), time(*max))),
            Spacing::Distributed(mean, jitter, _) => {
                push(&mut out, format_args!(" slot distribution {} {}", time(*mean), time(*jitter)));
            }
        }
        if slots.packets != 0 {
            push(&mut out, format_args!(" packets {}", slots.packets));
        }
        if slots.bytes != 0 {
            push(&mut out, format_args!(" bytes {}", slots.bytes));
        }
    }
    if let Some(seed) = s.seed {
        push(&mut out, format_args!(" seed {seed}"));
    }
    if p.ecn {
        out.push_str(" ecn ");
    }
    if p.gap != 0 {
        push(&mut out, format_args!(" gap {}", p.gap));
    }
    out
}

/// What happened to packets.
pub(super) fn netem_xstats(s: &netem::Stats, out: &mut String) {
    if s.compat == Compat::V6_12 {
        return;
    }
    let t = &s.tally;
    push(
        out,
        format_args!(
            " delayed {} dropped {} corrupted {} duplicated {} reordered {} ecn_marked {}\n",
            t.delayed, t.lost, t.corrupted, t.duplicated, t.reordered, t.ecn_marked
        ),
    );
}

/// A number as tc writes it: six digits, whole where it is whole.
fn number(value: f64) -> Value {
    let text = significant(value, 6);
    let whole = text.parse::<u64>().map(Value::from);
    whole.unwrap_or_else(|_| text.parse::<f64>().map_or(Value::Null, Value::from))
}

fn ratio(p: Fraction) -> Value {
    number(p.ratio())
}

/// The parameters in force, under tc's keys.
pub(super) fn netem_options(s: &netem::Stats) -> Map<String, Value> {
    let p = &s.params;
    let c = &p.correlations;
    let seconds = |ns: u64| number(ns as f64 / 1e9);
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("limit", p.limit.into());
    if p.delay != 0 || p.jitter != 0 {
        let value = json!({ "delay": seconds(p.delay), "jitter": seconds(p.jitter), "correlation": ratio(c.delay) });
        put("delay", value);
    }
    if p.ordered {
        put("ordered", true.into());
    }
    match p.loss {
        Loss::None | Loss::Random { p: Fraction(0), .. } => {}
        Loss::Random { p, rho } => {
            put("loss-random", json!({ "loss": ratio(p), "correlation": ratio(rho) }));
        }
        Loss::State { p13, p31, p32, p23, p14 } => {
            let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(ratio);
            put("loss-state", json!({ "p13": p13, "p31": p31, "p32": p32, "p23": p23, "p14": p14 }));
        }
        Loss::Gemodel { p, r, bad, good } => {
            let [p, r, bad, good] = [p, r, bad, good].map(ratio);
            put("loss-gemodel", json!({ "p": p, "r": r, "1-h": bad, "1-k": good }));
        }
    }
    for (key, p, rho) in
        [("duplicate", p.duplicate, c.duplicate), ("reorder", p.reorder, c.reorder), ("corrupt", p.corrupt, c.corrupt)]
    {
        if p.0 != 0 {
            put(key, json!({ key: ratio(p), "correlation": ratio(rho) }));
        }
    }
    if let Some(r) = p.rate {
        let value = json!({
            "rate": r.rate.bytes_per_second(),
            "packetoverhead": r.overhead,
            "cellsize": r.cell,
            "celloverhead": r.cell_overhead,
        });
        put("rate", value);
    }
    if let Some(s) = &p.slots {
        let value = match s.spacing {
            Spacing::Between(min, max) => json!({
                "min-delay": seconds(min), "max-delay": seconds(max), "packets": s.packets, "bytes": s.bytes,
            }),
            Spacing::Distributed(mean, jitter, _) => json!({
                "distribution": seconds(mean), "jitter": seconds(jitter),
                "packets": s.packets, "bytes": s.bytes,
            }),
        };
        put("slot", value);
    }
    if let Some(seed) = s.seed {
        put("seed", seed.into());
    }
    put("ecn", p.ecn.into());
    put("gap", p.gap.into());
    out
}

/// What happened to packets.
pub(super) fn netem_figures(s: &netem::Stats, out: &mut Map<String, Value>) {
    if s.compat == Compat::V6_12 {
        return;
    }
    let t = &s.tally;
    for (key, value) in [
        ("delayed", t.delayed),
        ("dropped", t.lost),
        ("corrupted", t.corrupted),
        ("duplicated", t.duplicated),
        ("reordered", t.reordered),
        ("ecn_marked", t.ecn_marked),
    ] {
        out.insert(key.into(), value.into());
    }
}

/// The parameters of the qdisc.
pub(super) fn htb_text(s: &htb::Stats) -> String {
    format!("r2q 10 default 0x1 direct_packets_stat {} direct_qlen {}", s.direct_packets, s.direct_qlen)
}

/// The class: what it may do and what it has left.
pub(super) fn htb_xstats(s: &htb::Stats, out: &mut String) {
    let burst = |b: &htb::Bucket| size(bytes(b));
    push(
        out,
        format_args!(
            "  class 1:1 prio {} quantum {} rate {} ceil {} burst {} cburst {}\n  lended {} borrowed 0 tokens {} ctokens {}\n",
            s.prio,
            s.quantum,
            rate(s.rate.time.rate()),
            rate(s.ceil.time.rate()),
            burst(&s.rate),
            burst(&s.ceil),
            s.class_sent[0],
            s.rate.tokens / 64,
            s.ceil.tokens / 64,
        ),
    );
}

/// The parameters of the qdisc, under tc's keys.
pub(super) fn htb_options(s: &htb::Stats) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("r2q".into(), 10.into());
    out.insert("default".into(), "0x1".into());
    out.insert("direct_packets_stat".into(), s.direct_packets.into());
    out.insert("direct_qlen".into(), s.direct_qlen.into());
    out
}

/// The class, under the keys that tc gives a class.
pub(super) fn htb_figures(s: &htb::Stats, out: &mut Map<String, Value>) {
    let class = json!({
        "handle": "1:1",
        "prio": s.prio,
        "quantum": s.quantum,
        "rate": s.rate.time.rate().bytes_per_second(),
        "ceil": s.ceil.time.rate().bytes_per_second(),
        "burst": bytes(&s.rate),
        "cburst": bytes(&s.ceil),
        "lended": s.class_sent[0],
        "borrowed": 0,
        "tokens": s.rate.tokens / 64,
        "ctokens": s.ceil.tokens / 64,
    });
    out.insert("class".into(), class);
}

/// The parameters in force.
pub(super) fn link_text(s: &link::Stats) -> String {
    let p = &s.params;
    let mut out = format!("{} mean {}", p.file, rate(s.mean));
    if matches!(*p.record, link::Record::Opportunities(_)) {
        push(&mut out, format_args!(" bytes {}", p.bytes));
    }
    if p.overhead != 0 {
        push(&mut out, format_args!(" overhead {}", p.overhead));
    }
    for (word, set) in [("once", p.once), ("frame", p.frame), ("smooth", p.smooth)] {
        if set {
            push(&mut out, format_args!(" {word}"));
        }
    }
    out
}

/// What the link did.
pub(super) fn link_xstats(s: &link::Stats, out: &mut String) {
    let t = &s.tally;
    let over = if s.over { " over" } else { "" };
    push(out, format_args!(" opportunities {} used {} wasted {}{over}\n", t.opportunities, t.used, t.wasted));
}

/// The parameters in force.
pub(super) fn link_options(s: &link::Stats) -> Map<String, Value> {
    let p = &s.params;
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("file", p.file.clone().into());
    put("mean", s.mean.bytes_per_second().into());
    if matches!(*p.record, link::Record::Opportunities(_)) {
        put("bytes", p.bytes.into());
    }
    put("overhead", p.overhead.into());
    put("once", p.once.into());
    put("frame", p.frame.into());
    put("smooth", p.smooth.into());
    out
}

/// What the link did.
pub(super) fn link_figures(s: &link::Stats, out: &mut Map<String, Value>) {
    out.insert("opportunities".into(), s.tally.opportunities.into());
    out.insert("used".into(), s.tally.used.into());
    out.insert("wasted".into(), s.tally.wasted.into());
    out.insert("over".into(), s.over.into());
}

/// A depth in bytes, by way of whole microseconds, as tc shows it.
fn bytes(b: &htb::Bucket) -> u64 {
    let us = b.depth as u64 / 1000;
    (b.time.rate().bytes_per_second() as f64 * us as f64 / 1e6) as u64
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a String takes everything");
}

//! cake's part of `tc -s qdisc show`, as text and as JSON (`spec/cake.md` §20).

use std::fmt::Write;

use serde_json::{Value, json};

use super::format::{rate, size, time_us};
use crate::qdisc::cake::{AckFilter, Framing, Params, Stats, TinStats};
use crate::time::MICROSECOND;

fn choose(on: bool, yes: &'static str, no: &'static str) -> &'static str {
    if on { yes } else { no }
}

/// The parameters, in tc's order and with its spaces.
pub(super) fn options_text(s: &Stats) -> String {
    let p = &s.params;
    let mut words: Vec<String> = Vec::new();
    match s.rate.is_zero() {
        true => words.push("bandwidth unlimited".into()),
        false => words.push(format!("bandwidth {}", rate(s.rate))),
    }
    if p.autorate {
        words.push("autorate-ingress".into());
    }
    let nat = choose(p.nat, "nat", "nonat");
    let wash = choose(p.wash, "wash", "nowash");
    words.extend([p.tins.word(), p.flows.word(), nat, wash].map(str::to_string));
    if p.ingress {
        words.push("ingress".into());
    }
    words.push(
        match p.ack_filter {
            AckFilter::Off => "no-ack-filter",
            AckFilter::Filter => "ack-filter",
            AckFilter::Aggressive => "ack-filter-aggressive",
        }
        .into(),
    );
    words.push(choose(p.split_gso, "split-gso", "no-split-gso").into());
    words.push(format!("rtt {}", time_us(p.interval_us.into())));
    if !p.compensated {
        words.push("raw".into());
    }
    match framing(p) {
        Some("noatm") | None => words.extend(p.compensated.then(|| "noatm".to_string())),
        Some(cut) => words.push(cut.into()),
    }
    words.push(format!("overhead {}", p.overhead));
    if p.mpu != 0 {
        words.push(format!("mpu {}", p.mpu));
    }
    if p.memlimit != 0 {
        words.push(format!("memlimit {}", size(p.memlimit)));
    }
    if p.fwmark != 0 {
        words.push(format!("fwmark 0x{:x}", p.fwmark));
    }
    words.push(String::new());
    words.join(" ")
}

/// The framing as tc names it; none where it says nothing.
fn framing(p: &Params) -> Option<&'static str> {
    match p.framing {
        Framing::Atm => Some("atm"),
        Framing::Ptm => Some("ptm"),
        Framing::None => p.compensated.then_some("noatm"),
    }
}

/// The lines behind the common ones.
pub(super) fn xstats_text(s: &Stats, out: &mut String) {
    let l = &s.lengths;
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!(" memory used: {} of {}", size(s.memory_peak), size(s.memory_limit)));
    line(format!(" capacity estimate: {}", rate(s.capacity)));
    line(format!(" min/max network layer size: {:>12} /{:>8}", l.min_network, l.max_network));
    line(format!(" min/max overhead-adjusted size: {:>8} /{:>8}", l.min_adjusted, l.max_adjusted));
    line(format!(" average network hdr offset: {:>12}\n", l.average_offset()));
    let named = |(i, t): (usize, &TinStats)| t.name.map_or(format!("Tin {i}"), str::to_string);
    row(out, "", s.tins.iter().enumerate().map(named));
    let us = |ns: u64| time_us(ns / MICROSECOND);
    let mut rows = |label: &str, value: &dyn Fn(&TinStats) -> String| row(out, label, s.tins.iter().map(value));
    rows("thresh", &|t| rate(t.threshold));
    rows("target", &|t| us(t.law.target));
    rows("interval", &|t| time_us(u64::from((t.law.interval / MICROSECOND) as u32)));
    rows("pk_delay", &|t| us(t.counters.delays.peak));
    rows("av_delay", &|t| us(t.counters.delays.average));
    rows("sp_delay", &|t| us(t.counters.delays.base));
    rows("backlog", &|t| size(t.backlog));
    rows("pkts", &|t| t.counters.packets.to_string());
    rows("bytes", &|t| t.counters.bytes.to_string());
    rows("way_inds", &|t| t.counters.way_indirect.to_string());
    rows("way_miss", &|t| t.counters.way_misses.to_string());
    rows("way_cols", &|t| t.counters.way_collisions.to_string());
    rows("drops", &|t| t.counters.drops.to_string());
    rows("marks", &|t| t.counters.marks.to_string());
    rows("ack_drop", &|t| t.counters.ack_drops.to_string());
    rows("sp_flows", &|t| (t.sparse + t.decaying).to_string());
    rows("bk_flows", &|t| t.bulk.to_string());
    rows("un_flows", &|t| t.unresponsive.to_string());
    rows("max_len", &|t| t.counters.max_len.to_string());
    rows("quantum", &|t| t.flow_quantum.to_string());
    out.push('\n');
}

fn row(out: &mut String, label: &str, cells: impl Iterator<Item = String>) {
    let indent = if label.is_empty() { "" } else { "  " };
    out.write_fmt(format_args!("{:<10}", format!("{indent}{label}"))).expect("a String takes everything");
    for cell in cells {
        out.write_fmt(format_args!(" {cell:>12}")).expect("a String takes everything");
    }
    out.push('\n');
}

/// The parameters, under tc's keys.
pub(super) fn options_json(s: &Stats) -> Value {
    let p = &s.params;
    let mut v = json!({});
    v["bandwidth"] = match s.rate.is_zero() {
        true => "unlimited".into(),
        false => s.rate.bytes_per_second().into(),
    };
    if p.autorate {
        v["autorate"] = "autorate-ingress".into();
    }
    v["diffserv"] = p.tins.word().into();
    v["flowmode"] = p.flows.word().into();
    v["nat"] = p.nat.into();
    v["wash"] = p.wash.into();
    v["ingress"] = p.ingress.into();
    v["ack-filter"] = match p.ack_filter {
        AckFilter::Off => "disabled",
        AckFilter::Filter => "enabled",
        AckFilter::Aggressive => "aggressive",
    }
    .into();
    v["split_gso"] = p.split_gso.into();
    v["rtt"] = p.interval_us.into();
    v["raw"] = (!p.compensated).into();
    if let Some(cut) = framing(p) {
        v["atm"] = cut.into();
    }
    v["overhead"] = p.overhead.into();
    if p.mpu != 0 {
        v["mpu"] = p.mpu.into();
    }
    if p.memlimit != 0 {
        v["memlimit"] = p.memlimit.into();
    }
    v["fwmark"] = if p.fwmark == 0 { "0".into() } else { format!("0x{:x}", p.fwmark).into() };
    v
}

/// What stands behind the common figures, under tc's keys.
pub(super) fn xstats_json(s: &Stats) -> Value {
    let l = &s.lengths;
    json!({
        "memory_used": s.memory_peak,
        "memory_limit": s.memory_limit,
        "capacity_estimate": s.capacity.bytes_per_second(),
        "min_network_size": l.min_network,
        "max_network_size": l.max_network,
        "min_adj_size": l.min_adjusted,
        "max_adj_size": l.max_adjusted,
        "avg_hdr_offset": l.average_offset(),
        "tins": s.tins.iter().map(tin_json).collect::<Vec<_>>(),
    })
}

fn tin_json(t: &TinStats) -> Value {
    let c = &t.counters;
    json!({
        "threshold_rate": t.threshold.bytes_per_second(),
        "sent_bytes": c.bytes,
        "backlog_bytes": t.backlog,
        "target_us": t.law.target / MICROSECOND,
        "interval_us": (t.law.interval / MICROSECOND) as u32,
        "peak_delay_us": c.delays.peak / MICROSECOND,
        "avg_delay_us": c.delays.average / MICROSECOND,
        "base_delay_us": c.delays.base / MICROSECOND,
        "sent_packets": c.packets,
        "way_indirect_hits": c.way_indirect,
        "way_misses": c.way_misses,
        "way_collisions": c.way_collisions,
        "drops": c.drops,
        "ecn_mark": c.marks,
        "ack_drops": c.ack_drops,
        "sparse_flows": t.sparse + t.decaying,
        "bulk_flows": t.bulk,
        "unresponsive_flows": t.unresponsive,
        "max_pkt_len": c.max_len,
        "flow_quantum": t.flow_quantum,
    })
}

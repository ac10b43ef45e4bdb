//! `tc -s -j qdisc show`, key for key (`spec/cake.md` §20, `spec/codel.md` §1.7, §2.6 and §5).
//!
//! Times are whole microseconds, rates bytes per second, sizes bytes; counters have all 64 bits.

use serde_json::{Map, Value, json};

use super::StageStats;
use super::rows::Row;
use super::{tc_cake, tc_fq, tc_netem, tc_tbf};
use crate::qdisc::{codel, tbf};
use crate::units::LinkLayer;

/// One stage's object in tc's array.
pub fn stage(row: &Row<'_>) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("kind", row.stats.kind().into());
    put("handle", format!("{:x}:", row.handle).into());
    if !row.dev.is_empty() {
        put("dev", row.dev.into());
    }
    match row.parent {
        Some(parent) => {
            put("parent", format!("{parent:x}:1").into());
        }
        None => {
            put("root", true.into());
            put("refcnt", 2.into());
        }
    }
    put("options", Value::Object(options(row.stats)));
    basic(row.stats, &mut out);
    xstats(row.stats, &mut out);
    out
}

/// The parameters in force.
pub fn options(stats: &StageStats) -> Map<String, Value> {
    match stats {
        StageStats::Fifo { limit, .. } => object(json!({ "limit": limit })),
        StageStats::Tbf(s) => tbf_options(s),
        StageStats::Codel(s) => codel_options(s),
        StageStats::Htb(s) => tc_netem::htb_options(s),
        StageStats::Netem(s) => tc_netem::netem_options(s),
        StageStats::Link(s) => tc_netem::link_options(s),
        StageStats::Marked { inner, .. } => options(inner),
        StageStats::FqCodel(s) => tc_fq::fq_codel_json_options(s),
        StageStats::Dualpi2(s) => tc_fq::dualpi2_json_options(s),
        StageStats::Cake(s) => object(tc_cake::options_json(s)),
    }
}

fn basic(stats: &StageStats, out: &mut Map<String, Value>) {
    let b = stats.basic();
    let figures = json!({
        "bytes": b.sent_bytes,
        "packets": b.sent_packets,
        "drops": stats.drops(),
        "overlimits": b.overlimits,
        "requeues": stats.requeues(),
        "backlog": b.backlog,
        "qlen": b.qlen,
    });
    out.append(&mut object(figures));
}

fn xstats(stats: &StageStats, out: &mut Map<String, Value>) {
    match stats {
        StageStats::Fifo { .. } | StageStats::Tbf(_) => {}
        StageStats::Codel(s) => codel_xstats(s, out),
        StageStats::Htb(s) => tc_netem::htb_figures(s, out),
        StageStats::Netem(s) => tc_netem::netem_figures(s, out),
        StageStats::Link(s) => tc_netem::link_figures(s, out),
        StageStats::Marked { inner, mb_ecn } => {
            xstats(inner, out);
            out.insert("mb_ecn".into(), super::mb_ecn::figures(mb_ecn));
        }
        StageStats::FqCodel(s) => tc_fq::fq_codel_json_xstats(s, out),
        StageStats::Dualpi2(s) => tc_fq::dualpi2_json_xstats(s, out),
        StageStats::Cake(s) => out.append(&mut object(tc_cake::xstats_json(s))),
    }
}

fn tbf_options(s: &tbf::Stats) -> Map<String, Value> {
    let shown = tc_tbf::Shown::of(s);
    let mut out = object(json!({ "rate": s.time.rate().bytes_per_second(), "burst": shown.burst }));
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    if let Some((_, mtu)) = shown.peak {
        put("minburst", mtu.into());
    }
    match shown.limit {
        tc_tbf::Limit::Latency(us) => put("lat", us.into()),
        tc_tbf::Limit::Bytes(n) => put("limit", n.into()),
        tc_tbf::Limit::None => None,
    };
    if s.time.overhead != 0 {
        put("overhead", s.time.overhead.into());
    }
    if s.time.link_layer == LinkLayer::Atm {
        put("linklayer", "atm".into());
    }
    out
}

fn codel_options(s: &codel::Stats) -> Map<String, Value> {
    let mut out = object(json!({ "limit": s.limit, "target": s.law.target.as_us() }));
    if s.law.ce_threshold != codel::Ticks::DISABLED {
        out.insert("ce_threshold".into(), s.law.ce_threshold.as_us().into());
    }
    tc_fq::sce_json_options(s.law.sce_threshold, &mut out);
    out.insert("interval".into(), s.law.interval.as_us().into());
    if s.law.ecn {
        out.insert("ecn".into(), true.into());
    }
    out
}

fn codel_xstats(s: &codel::Stats, out: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("count", s.state.count.into());
    put("lastcount", s.state.lastcount.into());
    put("ldelay", s.state.ldelay.as_us().into());
    if s.state.dropping {
        put("dropping", true.into());
    }
    put("drop_next", s.drop_next_us().into());
    put("maxpacket", s.tally.maxpacket.into());
    put("ecn_mark", s.tally.ecn_mark.into());
    put("drop_overlimit", s.drop_overlimit.into());
    if s.tally.ce_mark != 0 {
        put("ce_mark", s.tally.ce_mark.into());
    }
    if s.law.sce_threshold.is_some() {
        put("sce_mark", s.tally.sce_mark.into());
    }
}

/// The members of an object written as one.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => unreachable!("{other} is no object"),
    }
}

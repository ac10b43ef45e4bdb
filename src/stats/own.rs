//! What weir says of a stage beyond what tc shows: parameters that tc keeps to itself, weir's own
//! parameters, and counters that the kernel does not have.

use serde_json::{Map, Value, json};

use super::StageStats;
use super::histogram::tag;
use crate::qdisc::{Reason, cake, codel};
use crate::units::{ByteTime, LinkLayer, RateRange};

/// Weir's figures of a stage, with its kind first; `None` if tc shows all there is.
pub fn figures(stats: &StageStats) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    out.insert("kind".into(), stats.kind().into());
    match stats {
        StageStats::Tbf(s) => {
            put(&mut out, "mpu", s.time.mpu.into());
            range(&mut out, s.range);
        }
        StageStats::Htb(s) => framing(&mut out, &s.rate.time),
        StageStats::FqCodel(s) if s.law.ce_threshold == codel::Ticks::DISABLED => {
            // tc shows these only where they have an effect.
            let (selector, mask) = (s.law.ce_threshold_selector, s.law.ce_threshold_mask);
            if mask != 0 {
                put(&mut out, "ce_threshold_selector", format!("{selector:#x}/{mask:#x}").into());
            }
        }
        StageStats::Netem(s) => {
            put(&mut out, "limit_dropped", s.tally.limit_dropped.into());
            put(&mut out, "allocation_errors", s.tally.allocation_errors.into());
        }
        StageStats::Cake(s) => cake(&mut out, s),
        _ => {}
    }
    (out.len() > 1).then_some(out)
}

/// The same as lines, each with its newline.
pub fn lines(stats: &StageStats) -> String {
    let Some(mut figures) = figures(stats) else { return String::new() };
    let tins = figures.shift_remove("tins");
    let mut out = String::new();
    if figures.len() > 1 {
        out += &format!("  stage{}\n", words(&figures));
    }
    for (name, tin) in tins.as_ref().and_then(Value::as_object).into_iter().flatten() {
        out += &format!("  tin {name}{}\n", words(tin.as_object().unwrap_or(&Map::new())));
    }
    out
}

fn words(figures: &Map<String, Value>) -> String {
    let word = |(name, value): (&String, &Value)| match (name.as_str(), value) {
        ("kind", Value::String(kind)) => format!(" {kind}:"),
        (name, Value::String(text)) => format!(" {name} {text}"),
        (name, Value::Bool(true)) => format!(" {name}"),
        (name, value) => format!(" {name} {value}"),
    };
    figures.iter().map(word).collect()
}

fn put(out: &mut Map<String, Value>, name: &str, value: Value) {
    if value != json!(0) && value != json!(false) {
        out.insert(name.into(), value);
    }
}

fn range(out: &mut Map<String, Value>, range: Option<RateRange>) {
    if let Some(range) = range {
        put(out, "autorate_min", range.min.bytes_per_second().into());
        put(out, "autorate_max", range.max.bytes_per_second().into());
    }
}

fn framing(out: &mut Map<String, Value>, time: &ByteTime) {
    put(out, "overhead", time.overhead.into());
    put(out, "mpu", time.mpu.into());
    if time.link_layer == LinkLayer::Atm {
        put(out, "linklayer", "atm".into());
    }
}

fn cake(out: &mut Map<String, Value>, s: &cake::Stats) {
    let (p, default) = (&s.params, cake::Params::default());
    range(out, p.range);
    if let Some(ce) = p.ce_threshold {
        out.insert("ce_threshold_us".into(), ce.us.into());
        if ce.mask != 0 {
            put(out, "ce_threshold_selector", format!("{:#x}/{:#x}", ce.selector, ce.mask).into());
        }
    }
    if let Some(t) = p.sce_threshold {
        out.insert("sce_threshold_us".into(), t.low_us().into());
        if t.high_us() != t.low_us() {
            out.insert("sce_threshold_high_us".into(), t.high_us().into());
        }
    }
    if p.min_occupancy != default.min_occupancy || p.min_occupancy_both {
        put(out, "min_occupancy", p.min_occupancy.word().into());
        put(out, "min_occupancy_both", p.min_occupancy_both.into());
    }
    if p.queues != default.queues {
        put(out, "tin_queues", p.queues.into());
    }
    put(out, "exact_heap", p.exact_heap.into());
    let names = StageStats::Cake(Box::new(s.clone())).tins();
    let tins = names.iter().zip(&s.tins).map(|((name, _), t)| (tag(name), tin(t)));
    out.insert("tins".into(), Value::Object(tins.collect()));
}

fn tin(t: &cake::TinStats) -> Value {
    let c = &t.counters;
    json!({
        "sparse_packets": c.sent_sparse,
        "sparse_bytes": c.sent_sparse_bytes,
        "bulk_packets": c.sent_bulk,
        "bulk_bytes": c.sent_bulk_bytes,
        "aqm": c.dropped(Reason::Aqm),
        "flood": c.dropped(Reason::Flood),
        "memory": c.dropped(Reason::Memory),
        "ack_filter": c.dropped(Reason::AckFilter),
        "ecn": c.ce_made,
        "ce_threshold": c.ce_threshold,
        "sce": c.sce,
        "ce_arrived": c.ce_in,
    })
}

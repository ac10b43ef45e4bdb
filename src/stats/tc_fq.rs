//! What tc prints for `fq_codel` (`spec/codel.md` §2.6) and `dualpi2` (`spec/dualpi2.md` §10), as text
//! and as JSON; and for `sce_threshold`, which tc does not have, in the same manner.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::format::{size, time_us};
use crate::mark::sce;
use crate::qdisc::codel::{Law, Tally, Ticks};
use crate::qdisc::dualpi2::{self, EcnMask, Step, reported_gain};
use crate::qdisc::fq_codel;

/// A line's text in pieces, each kept only if it has something to say.
fn joined(pieces: impl IntoIterator<Item = String>) -> String {
    pieces.into_iter().collect()
}

/// `sce_threshold` among the options, if there is one.
pub(super) fn sce_options(law: &Law) -> String {
    let Some(t) = law.sce_threshold else { return String::new() };
    let us = |n: u32| time_us(n.into());
    match t.high_us() == t.low_us() {
        true => format!("sce_threshold {} ", us(t.low_us())),
        false => format!("sce_threshold {} {} ", us(t.low_us()), us(t.high_us())),
    }
}

/// Its marks among the figures, if there is one.
pub(super) fn sce_xstats(law: &Law, tally: &Tally) -> String {
    law.sce_threshold.map_or(String::new(), |_| format!(" sce_mark {}", tally.sce_mark))
}

/// `sce_threshold` among the options, µs: one, or two for a ramp.
pub(super) fn sce_json_options(threshold: Option<sce::Threshold>, out: &mut Map<String, Value>) {
    if let Some(t) = threshold {
        out.insert("sce_threshold".into(), t.low_us().into());
        if t.high_us() != t.low_us() {
            out.insert("sce_threshold_high".into(), t.high_us().into());
        }
    }
}

pub(super) fn fq_codel_options(s: &fq_codel::Stats) -> String {
    let us = |t: Ticks| time_us(t.as_us().into());
    let law = &s.law;
    let threshold = match law.ce_threshold {
        Ticks::DISABLED => String::new(),
        t if law.ce_threshold_mask == 0 => format!("ce_threshold {} ", us(t)),
        t => format!(
            "ce_threshold {} ce_threshold_selector {:#x}/{:#x} ",
            us(t),
            law.ce_threshold_selector,
            law.ce_threshold_mask
        ),
    };
    joined([
        format!("limit {}p flows {} quantum {} target {} ", s.limit, s.flows, s.quantum, us(law.target)),
        threshold,
        sce_options(law),
        format!("interval {} memory_limit {} ", us(law.interval), size(s.memory_limit.into())),
        if law.ecn { "ecn ".into() } else { String::new() },
        format!("drop_batch {} ", s.drop_batch),
    ])
}

pub(super) fn fq_codel_xstats(s: &fq_codel::Stats) -> String {
    let if_any = |n: u32, text: String| if n == 0 { String::new() } else { text };
    joined([
        format!(
            "  maxpacket {} drop_overlimit {} new_flow_count {} ecn_mark {}",
            s.tally.maxpacket, s.drop_overlimit, s.new_flow_count, s.tally.ecn_mark
        ),
        if_any(s.tally.ce_mark, format!(" ce_mark {}", s.tally.ce_mark)),
        sce_xstats(&s.law, &s.tally),
        if_any(s.memory_used, format!(" memory_used {}", s.memory_used)),
        if_any(s.drop_overmemory, format!(" drop_overmemory {}", s.drop_overmemory)),
        format!("\n  new_flows_len {} old_flows_len {}\n", s.new_flows_len, s.old_flows_len),
    ])
}

pub(super) fn fq_codel_json_options(s: &fq_codel::Stats) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("limit", s.limit.into());
    put("flows", s.flows.into());
    put("quantum", s.quantum.into());
    put("target", s.law.target.as_us().into());
    if s.law.ce_threshold != Ticks::DISABLED {
        put("ce_threshold", s.law.ce_threshold.as_us().into());
        if s.law.ce_threshold_mask != 0 {
            put("ce_threshold_selector", s.law.ce_threshold_selector.into());
            put("ce_threshold_mask", s.law.ce_threshold_mask.into());
        }
    }
    sce_json_options(s.law.sce_threshold, &mut out);
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("interval", s.law.interval.as_us().into());
    put("memory_limit", s.memory_limit.into());
    if s.law.ecn {
        put("ecn", true.into());
    }
    put("drop_batch", s.drop_batch.into());
    out
}

pub(super) fn fq_codel_json_xstats(s: &fq_codel::Stats, out: &mut Map<String, Value>) {
    let mut put = |key: &str, value: u32| out.insert(key.into(), value.into());
    put("maxpacket", s.tally.maxpacket);
    put("drop_overlimit", s.drop_overlimit);
    put("new_flow_count", s.new_flow_count);
    put("ecn_mark", s.tally.ecn_mark);
    if s.tally.ce_mark != 0 {
        put("ce_mark", s.tally.ce_mark);
    }
    if s.law.sce_threshold.is_some() {
        put("sce_mark", s.tally.sce_mark);
    }
    if s.memory_used != 0 {
        put("memory_used", s.memory_used);
    }
    if s.drop_overmemory != 0 {
        put("drop_overmemory", s.drop_overmemory);
    }
    put("new_flows_len", s.new_flows_len);
    put("old_flows_len", s.old_flows_len);
}

/// A gain in force, Hz.
fn hz(gain: u32) -> f64 {
    f64::from(reported_gain(gain)) / 256.0
}

/// The base probability, 0…1.
fn share(prob: u32) -> f64 {
    f64::from(prob) / f64::from(u32::MAX)
}

fn overload(s: &dualpi2::Stats) -> &'static str {
    if s.params.drop_on_overload { "drop_on_overload" } else { "overflow" }
}

fn ect(mask: EcnMask) -> [&'static str; 2] {
    match mask {
        EcnMask::L4s => ["l4s_ect", "l4s-ect"],
        EcnMask::Any => ["any_ect", "any-ect"],
    }
}

pub(super) fn dualpi2_options(s: &dualpi2::Stats) -> String {
    let p = &s.params;
    let step = match p.step {
        Step::Time(us) => time_us(us.into()),
        Step::Packets(n) => format!("{n}p"),
    };
    let mut out = format!(
        "limit {}p memlimit {}B target {} tupdate {} ",
        p.limit,
        s.memory_limit,
        time_us(p.target_us.into()),
        time_us(s.tupdate_ns / 1000)
    );
    let rest = write!(
        out,
        "alpha {:.6} beta {:.6} step_thresh {step} min_qlen_step {}p coupling_factor {} {} {} classic_protection {}% {} {} ",
        hz(s.alpha),
        hz(s.beta),
        p.min_qlen_step,
        p.coupling_factor,
        overload(s),
        if p.drop_enqueue { "drop_enqueue" } else { "drop_dequeue" },
        p.classic_protection,
        ect(p.ecn_mask)[0],
        if p.split_gso { "split_gso" } else { "no_split_gso" },
    );
    rest.expect("a String takes everything");
    out
}

pub(super) fn dualpi2_xstats(s: &dualpi2::Stats) -> String {
    let turn = if s.credit > 0 { 'C' } else { 'L' };
    joined([
        format!("  prob {:.6} delay_c {}us delay_l {}us\n", share(s.prob), s.delay_c_ns / 1000, s.delay_l_ns / 1000),
        format!("  pkts_in_c {} pkts_in_l {} maxq {}\n", s.packets_in_c, s.packets_in_l, s.maxq),
        format!("  ecn_mark {} step_mark {}\n", s.ecn_mark, s.step_marks),
        format!("  credit {} ({turn}-queue)\n", s.credit),
        format!(
            "  memory_used {} (max {}) of memory limit {}\n",
            size(s.memory_used.into()),
            size(s.max_memory_used.into()),
            size(s.memory_limit.into())
        ),
    ])
}

pub(super) fn dualpi2_json_options(s: &dualpi2::Stats) -> Map<String, Value> {
    let p = &s.params;
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("limit", p.limit.into());
    put("memory-limit", s.memory_limit.into());
    put("target", p.target_us.into());
    put("tupdate", (s.tupdate_ns / 1000).into());
    put("alpha", hz(s.alpha).into());
    put("beta", hz(s.beta).into());
    match p.step {
        Step::Time(us) => put("step-thresh-us", us.into()),
        Step::Packets(n) => put("step-thresh-pkts", n.into()),
    };
    put("min-qlen-step", p.min_qlen_step.into());
    put("coupling", p.coupling_factor.into());
    put("drop-overload", if p.drop_on_overload { "drop" } else { "overflow" }.into());
    put("drop-early", if p.drop_enqueue { "drop-enqueue" } else { "drop-dequeue" }.into());
    put("c-protection", p.classic_protection.into());
    put("ecn-mask", ect(p.ecn_mask)[1].into());
    if p.split_gso {
        put("split-gso", Value::Null);
    }
    out
}

pub(super) fn dualpi2_json_xstats(s: &dualpi2::Stats, out: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("prob", share(s.prob).into());
    put("delay-c", (s.delay_c_ns / 1000).into());
    put("delay-l", (s.delay_l_ns / 1000).into());
    put("pkts-in-c", s.packets_in_c.into());
    put("pkts-in-l", s.packets_in_l.into());
    put("maxq", s.maxq.into());
    put("ecn-mark", s.ecn_mark.into());
    put("step-mark", s.step_marks.into());
    put("credit", s.credit.into());
    put("memory-used", s.memory_used.into());
    put("max-memory-used", s.max_memory_used.into());
    put("memory-limit", s.memory_limit.into());
}

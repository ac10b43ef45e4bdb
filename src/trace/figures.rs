//! Our figures under the names of the recorded statistics.

use serde_json::{Map, Value, json};

use crate::pipeline::Pipeline;
use crate::qdisc::netem::Spacing;
use crate::qdisc::{Qdisc, codel, dualpi2, fq_codel, htb, netem, tbf};
use crate::stats::StageStats;
use crate::time::Instant;
use crate::trace::cake_figures;
use crate::units::LinkLayer;

/// The options as the kernel would report them, for the stage that is the root.
pub fn options(pipeline: &Pipeline, now: Instant) -> Value {
    let Some(root) = pipeline.stages().next_back() else { return Value::Null };
    match root.stats(now) {
        StageStats::Fifo { limit, .. } => json!({ "limit": limit }),
        StageStats::Tbf(s) => json!({
            "rate": s.time.rate().bytes_per_second(),
            "overhead": s.time.overhead,
            "mpu": s.time.mpu,
            "linklayer": link_layer(s.time.link_layer),
            "peakrate": s.peak.map_or(0, |(t, ..)| t.rate().bytes_per_second()),
            "limit": s.limit,
            "buffer_ticks": s.depth / 64,
            "mtu_ticks": s.peak.map_or(0, |(_, depth, _)| depth / 64),
        }),
        StageStats::Netem(s) => netem_options(&s),
        StageStats::Link(_) | StageStats::Marked { .. } => Value::Null,
        StageStats::Htb(s) => json!({
            "rate2quantum": 10,
            "default": 1,
            "direct_qlen": s.direct_qlen,
            "class": {
                "rate": s.rate.time.rate().bytes_per_second(),
                "ceil": s.ceil.time.rate().bytes_per_second(),
                "buffer_ticks": s.rate.depth / 64,
                "cbuffer_ticks": s.ceil.depth / 64,
                "quantum": s.quantum,
                "prio": s.prio,
                "overhead": s.rate.time.overhead,
                "mpu": s.rate.time.mpu,
                "linklayer": link_layer(s.rate.time.link_layer),
            },
        }),
        StageStats::Codel(s) => {
            let mut v = json!({
                "target": s.law.target.as_us(),
                "limit": s.limit,
                "interval": s.law.interval.as_us(),
                "ecn": u8::from(s.law.ecn),
            });
            if s.law.ce_threshold != codel::Ticks::DISABLED {
                v["ce_threshold"] = json!(s.law.ce_threshold.as_us());
            }
            v
        }
        StageStats::FqCodel(s) => fq_codel_options(&s),
        StageStats::Dualpi2(s) => dualpi2_options(&s),
        StageStats::Cake(s) => cake_figures::options(&s.params),
    }
}

/// Counters and state of the root stage at `now`, with its child's below it.
pub fn snapshot(pipeline: &Pipeline, base: Instant, now: Instant) -> Value {
    pipeline.stages().next_back().map_or(Value::Null, |root| stage(root, base, now))
}

fn stage(stage: &dyn Qdisc, base: Instant, now: Instant) -> Value {
    let stats = stage.stats(now);
    let mut out = basic(&stats, base, now);
    match &stats {
        StageStats::Fifo { limit, .. } => {
            out.insert("internal".into(), json!({ "limit": limit }));
        }
        StageStats::Tbf(s) => {
            out.insert("internal".into(), tbf(s, base));
        }
        StageStats::Codel(s) => codel(s, &mut out),
        StageStats::Htb(s) => htb(s, base, &mut out),
        StageStats::Netem(s) => netem(s, base, &mut out),
        // No kernel has it, so nothing was recorded of it.
        StageStats::Link(_) | StageStats::Marked { .. } => {}
        StageStats::FqCodel(s) => fq_codel(s, &mut out),
        StageStats::Dualpi2(s) => dualpi2(s, &mut out),
        StageStats::Cake(s) => cake_figures::figures(s, base, &mut out),
    }
    if let Some(child) = stage.child() {
        out.insert("child".into(), self::stage(child, base, now));
    }
    Value::Object(out)
}

fn basic(stats: &StageStats, base: Instant, now: Instant) -> Map<String, Value> {
    let mut out = Map::new();
    let b = stats.basic();
    let mut put = |name: &str, v: u64| out.insert(name.into(), v.into());
    put("t_ns", now.since(base));
    put("sent_bytes", b.sent_bytes);
    put("sent_packets", b.sent_packets);
    put("drops", stats.drops());
    put("overlimits", b.overlimits);
    put("backlog_bytes", b.backlog);
    put("qlen", b.qlen.into());
    out
}

fn tbf(s: &tbf::Stats, base: Instant) -> Value {
    let peak = s.peak.map(|(t, depth, tokens)| (t.rate().bytes_per_second(), t.mult, t.shift, depth, tokens));
    let (peak_rate, peak_mult, peak_shift, peak_depth, ptokens) = peak.unwrap_or_default();
    json!({
        "rate_bytes_per_s": s.time.rate().bytes_per_second(),
        "mult": s.time.mult,
        "shift": s.time.shift,
        "depth_ns": s.depth,
        "max_size": s.max_size,
        "peakrate_bytes_per_s": peak_rate,
        "peak_mult": peak_mult,
        "peak_shift": peak_shift,
        "peak_depth_ns": peak_depth,
        "tokens_ns": s.tokens,
        "ptokens_ns": ptokens,
        "checkpoint_ns": s.checkpoint.since(base),
    })
}

fn netem_options(s: &netem::Stats) -> Value {
    let p = &s.params;
    let rate = p.rate.map_or(0, |r| r.rate.bytes_per_second());
    let (overhead, cell, cell_overhead) = p.rate.map_or((0, 0, 0), |r| (r.overhead, r.cell, r.cell_overhead));
    let unlimited = |n: u32| if n == 0 { i32::MAX as u32 } else { n };
    let (min, max) = match p.slots.as_ref().map(|s| &s.spacing) {
        Some(Spacing::Between(min, max)) => (*min, *max),
        _ => (0, 0),
    };
    json!({
        "limit": p.limit,
        "latency_ns": p.delay,
        "gap": p.gap,
        "reorder": p.reorder.0,
        "rate": rate,
        "packet_overhead": overhead,
        "cell_size": cell,
        "cell_overhead": cell_overhead,
        "slot": {
            "min_delay": min,
            "max_delay": max,
            "max_packets": p.slots.as_ref().map_or(0, |s| unlimited(s.packets)),
            "max_bytes": p.slots.as_ref().map_or(0, |s| unlimited(s.bytes)),
        },
    })
}

fn netem(s: &netem::Stats, base: Instant, out: &mut Map<String, Value>) {
    let internal = json!({
        "limit": s.params.limit,
        "latency_ns": s.params.delay,
        "slot_next_ns": s.slot_opens.map_or(0, |t| t.since(base)),
        "requeues": s.tally.reordered,
    });
    out.insert("internal".into(), internal);
}

fn htb(s: &htb::Stats, base: Instant, out: &mut Map<String, Value>) {
    out.insert("direct_packets".into(), s.direct_packets.into());
    let class = json!({
        "sent_packets": s.class_sent[0],
        "sent_bytes": s.class_sent[1],
        "drops": s.class_drops,
        "lends": s.class_sent[0],
        "borrows": 0,
    });
    out.insert("class".into(), class);
    let internal = json!({
        "rate_mult": s.rate.time.mult,
        "rate_shift": s.rate.time.shift,
        "ceil_mult": s.ceil.time.mult,
        "ceil_shift": s.ceil.time.shift,
        "buffer_ns": s.rate.depth,
        "cbuffer_ns": s.ceil.depth,
        "mbuffer_ns": htb::MBUFFER,
        "tokens_ns": s.rate.tokens,
        "ctokens_ns": s.ceil.tokens,
        "checkpoint_ns": s.checkpoint.since(base),
    });
    out.insert("internal".into(), internal);
}

fn codel(s: &codel::Stats, out: &mut Map<String, Value>) {
    let mut put = |name: &str, v: i64| out.insert(name.into(), v.into());
    put("maxpacket", s.tally.maxpacket.into());
    put("count", s.state.count.into());
    put("lastcount", s.state.lastcount.into());
    put("ldelay_us", s.state.ldelay.as_us().into());
    put("drop_next_us", s.drop_next_us());
    put("drop_overlimit", s.drop_overlimit.into());
    put("ecn_mark", s.tally.ecn_mark.into());
    put("dropping", s.state.dropping.into());
    put("ce_mark", s.tally.ce_mark.into());
    out.insert("internal".into(), codel_law(&s.law));
}

/// The law's parameters, as `codel` and `fq_codel` have them.
pub fn codel_law(law: &codel::Law) -> Value {
    json!({
        "target_ticks": law.target.0,
        "interval_ticks": law.interval.0,
        "ce_threshold_ticks": law.ce_threshold.0,
        "mtu": law.mtu,
        "tick_ns": 1024,
    })
}

fn fq_codel_options(s: &fq_codel::Stats) -> Value {
    let mut v = json!({
        "target": s.law.target.as_us(),
        "limit": s.limit,
        "interval": s.law.interval.as_us(),
        "ecn": u8::from(s.law.ecn),
        "quantum": s.quantum,
        "drop_batch": s.drop_batch,
        "memory_limit": s.memory_limit,
        "flows": s.flows,
    });
    if s.law.ce_threshold != codel::Ticks::DISABLED {
        v["ce_threshold"] = json!(s.law.ce_threshold.as_us());
        v["ce_threshold_selector"] = json!(s.law.ce_threshold_selector);
        v["ce_threshold_mask"] = json!(s.law.ce_threshold_mask);
    }
    v
}

fn fq_codel(s: &fq_codel::Stats, out: &mut Map<String, Value>) {
    let mut put = |name: &str, v: u32| out.insert(name.into(), v.into());
    put("maxpacket", s.tally.maxpacket);
    put("drop_overlimit", s.drop_overlimit);
    put("drop_overmemory", s.drop_overmemory);
    put("new_flow_count", s.new_flow_count);
    put("ecn_mark", s.tally.ecn_mark);
    put("ce_mark", s.tally.ce_mark);
    put("memory_used", s.memory_used);
    put("new_flows_len", s.new_flows_len);
    put("old_flows_len", s.old_flows_len);
    out.insert("internal".into(), codel_law(&s.law));
}

fn dualpi2_options(s: &dualpi2::Stats) -> Value {
    let p = &s.params;
    let mut v = json!({
        "limit": p.limit,
        "memlimit": s.memory_limit,
        "target": p.target_us,
        "tupdate": s.tupdate_ns / 1000,
        "alpha": dualpi2::reported_gain(s.alpha),
        "beta": dualpi2::reported_gain(s.beta),
        "min_qlen_step": p.min_qlen_step,
        "coupling_factor": p.coupling_factor,
        "drop_overload": u8::from(p.drop_on_overload),
        "drop_early": u8::from(p.drop_enqueue),
        "c_protection": p.classic_protection,
        "ecn_mask": p.ecn_mask.bits(),
        "split_gso": u8::from(p.split_gso),
    });
    match p.step {
        dualpi2::Step::Time(us) => v["step_thresh_us"] = json!(us),
        dualpi2::Step::Packets(n) => v["step_thresh_pkts"] = json!(n),
    }
    v
}

fn dualpi2(s: &dualpi2::Stats, out: &mut Map<String, Value>) {
    let mut put = |name: &str, v: Value| out.insert(name.into(), v);
    put("prob", s.prob.into());
    put("delay_c_us", (s.delay_c_ns / 1000).into());
    put("delay_l_us", (s.delay_l_ns / 1000).into());
    put("packets_in_c", s.packets_in_c.into());
    put("packets_in_l", s.packets_in_l.into());
    put("maxq", s.maxq.into());
    put("ecn_mark", s.ecn_mark.into());
    put("step_marks", s.step_marks.into());
    put("credit", s.credit.into());
    put("memory_used", s.memory_used.into());
    put("max_memory_used", s.max_memory_used.into());
    put("memory_limit", s.memory_limit.into());
    put(
        "l_queue",
        json!({
            "qlen": s.l.qlen,
            "backlog_bytes": s.l.backlog,
            "drops": s.l.drops,
            "overlimits": s.l.overlimits,
            "sent_packets": s.l.sent_packets,
        }),
    );
    let (step, in_packets) = match s.params.step {
        dualpi2::Step::Time(us) => (u64::from(us) * 1000, false),
        dualpi2::Step::Packets(n) => (n.into(), true),
    };
    put(
        "internal",
        json!({
            "target_ns": s.target_ns,
            "tupdate_ns": s.tupdate_ns,
            "alpha": s.alpha,
            "beta": s.beta,
            "step_thresh": step,
            "step_in_packets": in_packets,
            "credit_init": s.credit_init,
            "wc": s.params.classic_protection,
            "wl": 100 - s.params.classic_protection,
            "last_qdelay_ns": s.last_delay_ns,
        }),
    );
}

fn link_layer(layer: LinkLayer) -> u8 {
    match layer {
        LinkLayer::Ethernet => 1,
        LinkLayer::Atm => 2,
    }
}

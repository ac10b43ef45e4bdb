//! Our figures under the names of the recorded statistics.

use serde_json::{Map, Value, json};

use crate::pipeline::Pipeline;
use crate::qdisc::{Qdisc, codel, dualpi2, fq_codel, tbf};
use crate::stats::{Basic, StageStats};
use crate::time::Instant;
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
    }
}

/// Counters and state of the root stage at `now`, with its child's below it.
pub fn snapshot(pipeline: &Pipeline, base: Instant, now: Instant) -> Value {
    pipeline.stages().next_back().map_or(Value::Null, |root| stage(root, base, now))
}

fn stage(stage: &dyn Qdisc, base: Instant, now: Instant) -> Value {
    let stats = stage.stats(now);
    let mut out = basic(stats.basic(), base, now);
    match &stats {
        StageStats::Fifo { limit, .. } => {
            out.insert("internal".into(), json!({ "limit": limit }));
        }
        StageStats::Tbf(s) => {
            out.insert("internal".into(), tbf(s, base));
        }
        StageStats::Codel(s) => codel(s, &mut out),
        StageStats::FqCodel(s) => fq_codel(s, &mut out),
        StageStats::Dualpi2(s) => dualpi2(s, &mut out),
    }
    if let Some(child) = stage.child() {
        out.insert("child".into(), self::stage(child, base, now));
    }
    Value::Object(out)
}

fn basic(b: &Basic, base: Instant, now: Instant) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |name: &str, v: u64| out.insert(name.into(), v.into());
    put("t_ns", now.since(base));
    put("sent_bytes", b.sent_bytes);
    put("sent_packets", b.sent_packets);
    put("drops", b.drops);
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

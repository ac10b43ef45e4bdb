//! cake's figures under the names of the recorded statistics.

use serde_json::{Map, Value, json};

use crate::qdisc::cake;
use crate::time::Instant;

/// The options as the kernel would report them.
pub(super) fn options(p: &cake::Params) -> Value {
    let position = |found: Option<usize>| found.unwrap_or_default();
    let mut v = json!({
        "base_rate64": p.rate.bytes_per_second(),
        "flow_mode": p.flows as u8,
        "rtt": p.interval_us,
        "target": p.target_us,
        "memory": p.memlimit,
        "autorate": u8::from(p.autorate),
        "ingress": u8::from(p.ingress),
        "ack_filter": match p.ack_filter {
            cake::AckFilter::Off => 0,
            cake::AckFilter::Filter => 1,
            cake::AckFilter::Aggressive => 2,
        },
        "nat": u8::from(p.nat),
        "diffserv_mode": position(cake::TinMode::ALL.iter().position(|m| *m == p.tins)),
        "wash": u8::from(p.wash),
        "overhead": p.overhead,
        "atm": match p.framing {
            cake::Framing::None => 0,
            cake::Framing::Atm => 1,
            cake::Framing::Ptm => 2,
        },
        "mpu": p.mpu,
        "split_gso": u8::from(p.split_gso),
        "fwmark": p.fwmark,
    });
    if !p.compensated {
        v["raw"] = json!(0);
    }
    v
}

/// Counters and state.
pub(super) fn figures(s: &cake::Stats, base: Instant, out: &mut Map<String, Value>) {
    let (target_us, interval_us) = (s.params.target_us.max(1), s.params.interval_us.max(1));
    let figures = json!({
        "capacity_estimate": s.capacity.bytes_per_second(),
        "memory_limit": s.memory_limit,
        "memory_used": s.memory_peak,
        "avg_hdr_offset": s.lengths.average_offset(),
        "max_network_size": s.lengths.max_network,
        "max_adj_size": s.lengths.max_adjusted,
        "min_network_size": s.lengths.min_network,
        "min_adj_size": s.lengths.min_adjusted,
        "tins": s.tins.iter().map(|t| tin(t, base)).collect::<Vec<_>>(),
        "internal": {
            "rate_bytes_per_s": s.rate.bytes_per_second(),
            "rate_ns": s.pace.ns,
            "rate_shft": s.pace.shift,
            "buffer_limit": s.memory_limit,
            "buffer_used": s.memory,
            "interval_us": interval_us,
            "target_us": target_us,
        },
    });
    if let Value::Object(figures) = figures {
        out.extend(figures);
    }
}

fn tin(t: &cake::TinStats, base: Instant) -> Value {
    let c = &t.counters;
    json!({
        "threshold_rate": t.threshold.bytes_per_second(),
        "sent_bytes": c.bytes,
        "backlog_bytes": t.backlog,
        "target_us": t.law.target / 1000,
        "interval_us": (t.law.interval / 1000) as u32,
        "sent_packets": c.packets,
        "drops": c.drops,
        "ecn_mark": c.marks,
        "ack_drops": c.ack_drops,
        "peak_delay_us": c.delays.peak / 1000,
        "avg_delay_us": c.delays.average / 1000,
        "base_delay_us": c.delays.base / 1000,
        "way_indirect_hits": c.way_indirect,
        "way_misses": c.way_misses,
        "way_collisions": c.way_collisions,
        "sparse_flows": t.sparse + t.decaying,
        "bulk_flows": t.bulk,
        "unresponsive_flows": t.unresponsive,
        "max_pkt_len": c.max_len,
        "flow_quantum": t.flow_quantum,
        "internal": {
            "tin": t.number,
            "target_ns": t.law.target,
            "interval_ns": t.law.interval,
            "mtu_time_ns": t.law.mtu_time,
            "tin_rate_ns": t.pace.ns,
            "tin_rate_shft": t.pace.shift,
            "tin_quantum": t.quantum,
            "decaying_flows": t.decaying,
            "drop_overlimit": c.overflows,
            "way_directs": c.way_direct,
            "avg_delay_ns": c.delays.average,
            "peak_delay_ns": c.delays.peak,
            "base_delay_ns": c.delays.base,
            "time_next_packet_ns": t.time_next.signed_since(base),
            "tin_deficit": t.deficit,
        },
    })
}

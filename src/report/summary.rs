//! Figures of a run, as text and as JSON.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::dtp::Codes;
use crate::mark::mb_ecn::code;
use crate::scenario::result::{FlowResult, Outcome, PathResult, PortResult, jain};
use crate::stats::mb_ecn::capacity;

/// The percentiles that round trips are printed at: the seed's rows.
pub const PERCENTILES: [f64; 10] = [0.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// A percentile in ms, three digits behind the point.
pub fn percentile(h: &Histogram<u64>, p: f64) -> f64 {
    round(if p == 0.0 { h.min() } else { h.value_at_percentile(p) } as f64 / 1e6)
}

fn round(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// In the place of sojourns that nobody measured.
pub const UNTIMED: &str = "not measured by the kernel";

/// Paths that have a row of their own.
const SHOWN: usize = 12;

fn mbit(bps: f64) -> f64 {
    round(bps / 1e6)
}

fn percentiles(h: &Histogram<u64>) -> Value {
    let pairs = PERCENTILES.iter().map(|p| (format!("p{p}"), json!(percentile(h, *p))));
    if h.is_empty() { Value::Null } else { Value::Object(pairs.collect()) }
}

/// Percentiles of a plain list of ns, as ms.
fn times(list: &[u64]) -> Value {
    let mut h = crate::scenario::result::nanoseconds();
    list.iter().for_each(|t| h.saturating_record(*t));
    percentiles(&h)
}

/// What is printed of a group of flows.
pub struct GroupRow {
    /// Its name.
    pub name: String,
    /// What sends: a congestion control, `udp` or `ping`.
    pub kind: String,
    /// Flows in it.
    pub flows: usize,
    /// Bits of payload per second of all together.
    pub goodput: f64,
    /// The least and the most of one flow.
    pub spread: (f64, f64),
    /// Jain's index.
    pub jain: f64,
    /// Round trips, ns.
    pub rtt: Histogram<u64>,
    /// Retransmissions in the whole run.
    pub retransmissions: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Packets acknowledged with a mark.
    pub echoed: u64,
}

/// A row for each group.
pub fn groups(outcome: &Outcome) -> Vec<GroupRow> {
    let row = |name: &str| {
        let flows: Vec<&FlowResult> = outcome.group(name).collect();
        let shares: Vec<f64> = flows.iter().map(|f| f.goodput).collect();
        GroupRow {
            name: name.to_string(),
            kind: flows[0].kind.clone(),
            flows: flows.len(),
            goodput: shares.iter().sum(),
            spread: (shares.iter().copied().fold(f64::MAX, f64::min), shares.iter().copied().fold(0.0, f64::max)),
            jain: jain(&shares),
            rtt: outcome.rtt(name),
            retransmissions: flows.iter().map(|f| f.retransmissions[0]).sum(),
            timeouts: flows.iter().map(|f| f.timeouts).sum(),
            echoed: flows.iter().map(|f| f.echoed[0]).sum(),
        }
    };
    outcome.groups().into_iter().map(row).collect()
}

/// The table of a run.
pub fn text(outcome: &Outcome) -> String {
    let mut rows = vec![
        [
            "group", "sender", "flows", "Mbit/s", "min..max", "Jain", "RTT p50", "p95", "p99", "max ms", "retrans",
            "RTO", "marked",
        ]
        .map(String::from)
        .to_vec(),
    ];
    for g in groups(outcome) {
        let ms = |p| if g.rtt.is_empty() { "-".to_string() } else { format!("{:.2}", percentile(&g.rtt, p)) };
        let data = g.kind != "ping";
        let or_dash = |text: String| if data { text } else { "-".into() };
        rows.push(vec![
            g.name.clone(),
            g.kind.clone(),
            g.flows.to_string(),
            or_dash(format!("{:.2}", g.goodput / 1e6)),
            or_dash(format!("{:.2}..{:.2}", g.spread.0 / 1e6, g.spread.1 / 1e6)),
            or_dash(format!("{:.4}", g.jain)),
            ms(50.0),
            ms(95.0),
            ms(99.0),
            ms(100.0),
            or_dash(g.retransmissions.to_string()),
            or_dash(g.timeouts.to_string()),
            or_dash(g.echoed.to_string()),
        ]);
    }
    let mut out = table(&rows);
    let mut rows = vec![
        ["port", "packets", "drops", "marks", "sojourn p50", "p95", "p99", "max ms", "most held"]
            .map(String::from)
            .to_vec(),
    ];
    for p in &outcome.ports {
        let known = !p.total.is_empty();
        let ms = |q| if known { format!("{:.3}", percentile(&p.total, q)) } else { "-".into() };
        rows.push(vec![
            p.name.clone(),
            p.sent_packets.to_string(),
            p.drops[0].to_string(),
            p.marks[0].to_string(),
            ms(50.0),
            ms(95.0),
            ms(99.0),
            ms(100.0),
            p.peak.0.to_string(),
        ]);
    }
    if rows.len() > 1 {
        out.push('\n');
        out += &table(&rows);
    }
    if outcome.ports.iter().any(PortResult::is_untimed) {
        out += &format!("sojourn: {UNTIMED}\n");
    }
    out += &paths(outcome);
    out += &completions(outcome);
    out
}

/// What frames told of the way, and how fair paths and flows were to each other.
fn paths(outcome: &Outcome) -> String {
    if outcome.paths.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    let head = ["path", "flows", "Mbit/s", "mean depth", "depth codes", "capacity", "updates", "regime"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let shares = outcome.by_path();
    for (path, share) in outcome.paths.iter().zip(&shares).take(SHOWN) {
        let last = path.points.last();
        rows.push(vec![
            path.name.clone(),
            path.flows.len().to_string(),
            format!("{:.3}", share / 1e6),
            format!("{:.2}", path.codes.mean_depth()),
            Codes::range(&path.codes.depths, 0).map_or("-".into(), |(low, high)| format!("{low}..{high}")),
            capacity(last.map_or(0, |p| code::encode(p.capacity))),
            path.updates.to_string(),
            last.map_or("-", |p| p.regime.name()).into(),
        ]);
    }
    out += &table(&rows);
    if outcome.paths.len() > SHOWN {
        out += &format!("and {} more paths\n", outcome.paths.len() - SHOWN);
    }
    out + &format!("Jain per source {:.4}, per flow {:.4}\n", jain(&shares), jain(&of_paths(outcome)))
}

/// Payload rates of all flows that have a path.
fn of_paths(outcome: &Outcome) -> Vec<f64> {
    outcome.paths.iter().flat_map(|p| p.flows.iter().map(|f| outcome.flows[*f].goodput)).collect()
}

fn path(p: &PathResult, share: f64) -> Value {
    let codes = |counts| Codes::range(counts, 0).map(|(low, high)| json!([low, high]));
    let last = p.points.last();
    json!({
        "name": p.name,
        "goodput_mbit": mbit(share),
        "mean_depth_packets": round(p.codes.mean_depth()),
        "depth_codes": codes(&p.codes.depths),
        "capacity_codes": codes(&p.codes.capacities),
        "capacity_bytes_per_s": last.map(|p| p.capacity),
        "rate_bytes_per_s": last.map(|p| p.rate.round()),
        "ece": last.map(|p| p.ece),
        "regime": last.map(|p| p.regime.name()),
        "updates": p.updates,
    })
}

fn completions(outcome: &Outcome) -> String {
    let mut out = String::new();
    for f in &outcome.flows {
        match f.completed {
            Some(ns) => out += &format!("{}: complete after {:.3} s\n", f.name, ns as f64 / 1e9),
            None if f.aborted => out += &format!("{}: given up with {} bytes\n", f.name, f.bytes),
            None => {}
        }
        if !f.times.is_empty() {
            let mut sorted = f.times.clone();
            sorted.sort_unstable();
            let at = |q: f64| sorted[((sorted.len() - 1) as f64 * q) as usize] as f64 / 1e6;
            out += &format!(
                "{}: {} answers, p50 {:.2}, p95 {:.2}, max {:.2} ms\n",
                f.name,
                sorted.len(),
                at(0.5),
                at(0.95),
                at(1.0)
            );
        }
    }
    out
}

/// The seed's rows of percentiles: a column for each group, and the machine's own noise where it was listened to.
pub fn round_trips(outcome: &Outcome) -> String {
    let mut columns: Vec<(String, Histogram<u64>)> =
        outcome.groups().iter().map(|g| (g.to_string(), outcome.rtt(g))).collect();
    columns.extend(outcome.noise.iter().map(|h| ("noise floor".to_string(), h.clone())));
    let mut rows = vec![vec!["RTT, ms".to_string()]];
    rows[0].extend(columns.iter().map(|c| c.0.clone()));
    for p in PERCENTILES {
        let mut row = vec![format!("p{p}")];
        row.extend(
            columns.iter().map(|(_, h)| if h.is_empty() { "-".into() } else { format!("{:.3}", percentile(h, p)) }),
        );
        rows.push(row);
    }
    table(&rows)
}

/// Columns flush, the first left, the others right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|r| r.get(c)).map(|w| w.chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        for (c, word) in row.iter().enumerate() {
            let pad = " ".repeat(width[c] - word.chars().count());
            out += &if c == 0 { format!("{word}{pad}") } else { format!("  {pad}{word}") };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// The figures of a run.
pub fn json(outcome: &Outcome) -> Value {
    let flow = |f: &FlowResult| {
        let mut o = Map::new();
        o.insert("name".into(), json!(f.name));
        o.insert("sender".into(), json!(f.kind));
        o.insert("direction".into(), json!(if f.up { "up" } else { "down" }));
        o.insert("bytes".into(), json!(f.bytes));
        o.insert("goodput_mbit".into(), json!(mbit(f.goodput)));
        o.insert("rtt_ms".into(), percentiles(&f.rtt));
        o.insert("retransmissions".into(), json!(f.retransmissions[0]));
        o.insert("retransmissions_steady".into(), json!(f.retransmissions[1]));
        o.insert("timeouts".into(), json!(f.timeouts));
        o.insert("acked_packets".into(), json!(f.delivered));
        o.insert("acked_marked".into(), json!(f.echoed[0]));
        if f.sent > 0 {
            o.insert("sent".into(), json!(f.sent));
            o.insert("received".into(), json!(f.received));
        }
        if let Some(ns) = f.completed {
            o.insert("completed_s".into(), json!(round(ns as f64 / 1e9)));
        }
        if f.aborted {
            o.insert("aborted".into(), json!(true));
        }
        if !f.times.is_empty() {
            o.insert("answers".into(), json!(f.times.len()));
            o.insert("answer_ms".into(), times(&f.times));
        }
        Value::Object(o)
    };
    let group = |g: GroupRow| {
        json!({
            "name": g.name,
            "sender": g.kind,
            "flows": g.flows,
            "goodput_mbit": mbit(g.goodput),
            "min_mbit": mbit(g.spread.0),
            "max_mbit": mbit(g.spread.1),
            "jain": (g.jain * 10_000.0).round() / 10_000.0,
            "rtt_ms": percentiles(&g.rtt),
            "retransmissions": g.retransmissions,
            "timeouts": g.timeouts,
            "acked_marked": g.echoed,
        })
    };
    let ports = outcome.ports.iter().map(|p| {
        json!({
            "name": p.name,
            "sent_packets": p.sent_packets,
            "sent_bytes": p.sent_bytes,
            "drops": p.drops[0],
            "drops_steady": p.drops[1],
            "marks": p.marks[0],
            "marks_steady": p.marks[1],
            "sojourn_ms": percentiles(&p.total),
            "sojourn_decision_ms": percentiles(&p.decision),
            "peak_packets": p.peak.0,
            "peak_bytes": p.peak.1,
        })
    });
    json!({
        "scenario": outcome.scenario.name,
        "seed": outcome.seed,
        "elapsed_s": round(outcome.elapsed as f64 / 1e9),
        "groups": groups(outcome).into_iter().map(group).collect::<Vec<_>>(),
        "flows": outcome.flows.iter().map(flow).collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
        "paths": outcome.paths.iter().zip(outcome.by_path()).map(|(p, share)| path(p, share)).collect::<Vec<_>>(),
        "jain_sources": round(jain(&outcome.by_path())),
        "jain_path_flows": round(jain(&of_paths(outcome))),
        "noise_ms": outcome.noise.as_ref().map_or(Value::Null, percentiles),
    })
}

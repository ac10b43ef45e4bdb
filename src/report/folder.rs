//! The folder of a run: manifest, summary, series, distributions. Nothing in it depends on when or
//! where it was made.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::summary;
use crate::scenario::result::{FlowResult, Outcome, PathResult, PortResult};
use crate::stats::histogram::{IntervalLog, tag, write_hgrm};

/// What the figures depend on besides the code.
pub struct Manifest<'a> {
    /// The command: `weir sim`, `weir lab`.
    pub command: &'a str,
    /// The scenario as it was asked for: a file or a name.
    pub scenario: &'a str,
    /// Case within it, if it has several.
    pub case: Option<&'a str>,
    /// The scenario file's text.
    pub text: &'a str,
    /// Which kernel's decisions.
    pub compat: &'a str,
    /// Whether it was ended early, after so many seconds.
    pub stopped_at: Option<f64>,
    /// What else the engine says of itself.
    pub engine: Value,
}

impl Manifest<'_> {
    /// As JSON.
    pub fn json(&self, outcome: &Outcome) -> Value {
        let pipelines = outcome.scenario.nodes.iter().flat_map(|n| {
            let side = |way: &str, spec: &Option<crate::spec::Spec>| {
                spec.as_ref().map(|s| (format!("{}.{way}", n.name), json!(s.to_string())))
            };
            [side("down", &n.down), side("up", &n.up)].into_iter().flatten()
        });
        json!({
            "weir": env!("CARGO_PKG_VERSION"),
            "command": self.command,
            "scenario": self.scenario,
            "case": self.case,
            "seed": outcome.seed,
            "compat": self.compat,
            "pipelines": Value::Object(pipelines.collect()),
            "stopped_at_s": self.stopped_at,
            "engine": self.engine,
            "file": self.text,
        })
    }
}

/// Writes the folder, making it if need be.
///
/// # Errors
/// What the file system says.
pub fn write(folder: &Path, manifest: &Manifest<'_>, outcome: &Outcome) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let pretty = |name: &str, value: &Value| -> io::Result<()> {
        let mut out = create(&folder.join(name))?;
        serde_json::to_writer_pretty(&mut out, value)?;
        out.write_all(b"\n")?;
        out.flush()
    };
    let about = manifest.json(outcome);
    pretty("manifest.json", &about)?;
    fs::write(folder.join("report.html"), super::page::page(outcome, &about))?;
    pretty("summary.json", &summary::json(outcome))?;
    for flow in &outcome.flows {
        flow_csv(&folder.join(format!("flow-{}.csv", tag(&flow.name))), flow, outcome)?;
    }
    for path in &outcome.paths {
        path_csv(&folder.join(format!("path-{}.csv", tag(&path.name))), path)?;
    }
    for port in &outcome.ports {
        port_csv(&folder.join(format!("port-{}.csv", tag(&port.name))), port, outcome)?;
        if !port.verdicts.is_empty() {
            verdicts_csv(&folder.join(format!("trace-{}.csv", tag(&port.name))), port, outcome)?;
        }
    }
    let flent = format!("{}{}", tag(&outcome.scenario.name), super::flent::SUFFIX);
    super::flent::write(create(&folder.join(flent))?, outcome)?;
    distributions(folder, outcome)
}

fn create(path: &Path) -> io::Result<BufWriter<File>> {
    File::create(path).map(BufWriter::new)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn flow_csv(path: &Path, flow: &FlowResult, outcome: &Outcome) -> io::Result<()> {
    let mut out = create(path)?;
    writeln!(
        out,
        "t_s,bytes,mbit,rtt_samples,rtt_mean_ms,rtt_max_ms,cwnd_packets,in_flight_packets,srtt_ms,rto_ms,retransmissions,inner"
    )?;
    let step = outcome.scenario.interval;
    for (i, (bytes, rtt)) in flow.series.iter().zip(&flow.rtt_series).enumerate() {
        let at = (i as u64 + 1) * step;
        let point = flow.points.iter().find(|p| p.at == at).copied().unwrap_or_default();
        writeln!(
            out,
            "{:.3},{bytes},{:.6},{},{:.6},{:.6},{},{},{:.6},{:.3},{},{:.6}",
            seconds(at),
            *bytes as f64 * 8e3 / step as f64,
            rtt.0,
            rtt.1 as f64 / 1e6,
            rtt.2 as f64 / 1e6,
            point.cwnd,
            point.in_flight,
            point.srtt as f64 / 1e6,
            point.timeout as f64 / 1e6,
            point.retransmissions,
            point.inner
        )?;
    }
    out.flush()
}

fn path_csv(path: &Path, of: &PathResult) -> io::Result<()> {
    let mut out = create(path)?;
    writeln!(out, "t_s,rate_bytes_per_s,ece,capacity_bytes_per_s,regime")?;
    for p in &of.points {
        writeln!(out, "{:.3},{:.0},{},{},{}", seconds(p.at), p.rate, p.ece, p.capacity, p.regime.name())?;
    }
    out.flush()
}

fn port_csv(path: &Path, port: &PortResult, outcome: &Outcome) -> io::Result<()> {
    let mut out = create(path)?;
    writeln!(out, "t_s,packets,bytes,marks,drops,sent_bytes,sojourn_max_ms")?;
    for d in &port.depth {
        let at = d.at.since(outcome.origin);
        let worst = d.worst as f64 / 1e6;
        writeln!(
            out,
            "{:.3},{},{},{},{},{},{worst:.6}",
            seconds(at),
            d.packets,
            d.bytes,
            d.marks,
            d.drops,
            d.sent_bytes
        )?;
    }
    out.flush()
}

fn verdicts_csv(path: &Path, port: &PortResult, outcome: &Outcome) -> io::Result<()> {
    let mut out = create(path)?;
    writeln!(out, "t_ns,flow,len_bytes,verdict,reason,sojourn_ns,ds,tin")?;
    for v in &port.verdicts {
        let verdict = match (v.dropped, v.marked) {
            (Some(_), _) => "dropped",
            (None, true) => "marked",
            (None, false) => "sent",
        };
        let flow = outcome.conversations.get(v.flow as usize).map_or("", String::as_str);
        let reason = v.dropped.map_or("", |r| r.name());
        let at = v.at.since(outcome.origin);
        writeln!(out, "{at},{flow},{},{verdict},{reason},{},{},{}", v.len, v.sojourn, v.ds, v.tin)?;
    }
    out.flush()
}

fn distributions(folder: &Path, outcome: &Outcome) -> io::Result<()> {
    let mut all = Vec::new();
    for group in outcome.groups() {
        all.push((format!("rtt/{}", tag(group)), outcome.rtt(group)));
    }
    for port in &outcome.ports {
        all.push((format!("sojourn/{}", tag(&port.name)), port.total.clone()));
        all.push((format!("decision/{}", tag(&port.name)), port.decision.clone()));
    }
    all.extend(outcome.noise.iter().map(|h| ("noise".to_string(), h.clone())));
    all.retain(|(_, h)| !h.is_empty());
    for (name, h) in &all {
        let mut out = create(&folder.join(format!("{}.hgrm", name.replace('/', "-"))))?;
        write_hgrm(&mut out, h)?;
        out.flush()?;
    }
    let about = [format!("weir {} {}", env!("CARGO_PKG_VERSION"), outcome.scenario.name)];
    // The log's clock is the run's own.
    let mut log = IntervalLog::begin(create(&folder.join("run.hlog"))?, SystemTime::UNIX_EPOCH, &about)?;
    let from = Duration::from_nanos(outcome.scenario.steady_from.min(outcome.elapsed));
    let length = Duration::from_nanos(outcome.elapsed).saturating_sub(from);
    for (name, h) in &all {
        log.write(name, from, length, h)?;
    }
    log.flush()
}

//! A recorded scenario, run and compared packet by packet.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::pipeline::Link;
use crate::qdisc::{Compat, Reason};
use crate::rng::Random;
use crate::spec;
use crate::time::Instant;
use crate::trace::device::{self, Run, Setup, Update};
use crate::trace::{figures, format};

/// What the comparison of one scenario found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Every packet and every figure agrees.
    Agrees {
        /// Packets compared.
        packets: usize,
        /// Figures compared.
        figures: usize,
    },
    /// The first packet or figure that differs.
    Differs(String),
}

/// A scenario as recorded.
struct Scenario {
    spec: String,
    link: Link,
    setup: Setup,
}

/// Whether a folder holds a scenario.
pub fn is_scenario(folder: &Path) -> bool {
    folder.join("config.json").is_file()
}

/// Runs the scenario in `folder`.
///
/// # Errors
/// Files that cannot be read, or a configuration that we cannot run.
pub fn check(folder: &Path, compat: Compat) -> Result<Finding, String> {
    let config = json(&folder.join("config.json"))?;
    let stats = json(&folder.join("stats.json"))?;
    let Scenario { spec: line, link, setup } = scenario(&config, compat)?;
    let base = setup.clock_base;
    let spec = spec::parse(&line).map_err(|e| e.render(&line))?.spec;
    let input = folder.join("input.csv.gz");
    let arrivals = format::open(&input).map_err(|e| format!("{}: {e}", input.display()))?;
    let arrivals = format::read_arrivals(arrivals).map_err(|e| format!("{}: {e}", input.display()))?;

    let mut figures = Figures::default();
    let mut pipeline = spec.build(link);
    figures.expect("options_dump", &stats["options_dump"], &figures::options(&pipeline, base));
    figures.expect("initial", &stats["initial"], &figures::snapshot(&pipeline, base, base));
    let mut at_last = Value::Null;
    let run = device::run(&mut pipeline, setup, &arrivals, |p, now| at_last = figures::snapshot(p, base, now));

    let expected = folder.join("output.csv.gz");
    let rows = format::open(&expected).map_err(|e| format!("{}: {e}", expected.display()))?;
    if let Some(difference) = compare_rows(rows, &run, base)? {
        return Ok(Finding::Differs(difference));
    }
    let updates = folder.join("updates.csv.gz");
    if updates.is_file() {
        let rows = format::open(&updates).map_err(|e| format!("{}: {e}", updates.display()))?;
        compare_updates(rows, &run.updates, &mut figures)?;
    }
    figures.expect("at_last_arrival", &stats["at_last_arrival"], &at_last);
    figures.expect("final", &stats["final"], &figures::snapshot(&pipeline, base, run.end));
    figures.expect("totals", &stats["totals"], &totals(&run));
    // netem draws from generators of its own, of which the recording could not know.
    if config["qdisc"] != "netem" {
        let draws = serde_json::json!({"u16": run.draws[0], "u32": run.draws[1]});
        figures.expect("random_draws", &stats["random_draws"], &draws);
    }
    let mut peaks = serde_json::json!({"qlen": run.peak_packets, "backlog_bytes": run.peak_bytes});
    if run.peak_levels.memory != 0 {
        let tins = stats["peaks"]["tin_backlog_bytes"].as_array().map_or(0, Vec::len);
        peaks["memory"] = run.peak_levels.memory.into();
        peaks["tin_backlog_bytes"] = run.peak_levels.tins[..tins.min(8)].into();
    }
    figures.expect_some("peaks", &stats["peaks"], &peaks);
    Ok(match figures.difference {
        Some(difference) => Finding::Differs(difference),
        None => Finding::Agrees { packets: run.outcomes.len(), figures: figures.compared },
    })
}

fn json(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn scenario(config: &Value, compat: Compat) -> Result<Scenario, String> {
    let text = |v: &Value, what: &str| v.as_str().map(str::to_string).ok_or(format!("config.json: no \"{what}\""));
    let number = |v: &Value, what: &str| v.as_u64().ok_or(format!("config.json: no \"{what}\""));
    let qdisc = text(&config["qdisc"], "qdisc")?;
    // htb's words are those of its one class.
    let words = match config["class"]["tc"].as_str() {
        Some(class) => class.to_string(),
        None => text(&config["tc"], "tc")?,
    };
    let mut spec = format!("{qdisc} {words}");
    if let Some(child) = config["child"]["qdisc"].as_str() {
        spec = format!("{child} {} | {spec}", config["child"]["tc"].as_str().unwrap_or(""));
    }
    let device = &config["device"];
    let mtu = number(&device["mtu"], "device.mtu")? + number(&device["hard_header_len"], "device.hard_header_len")?;
    let random = &config["random"];
    let random = match random["mode"].as_str() {
        Some("constant") => {
            Random::constant(number(&random["u16"], "random.u16")? as u16, number(&random["u32"], "random.u32")? as u32)
        }
        Some("splitmix64") => {
            let feeds = random["feeds"].as_str().unwrap_or("u16+u32");
            let constant = |name: &str, default: u64| random[name].as_u64().unwrap_or(default);
            let mut r = Random::seeded(number(&random["seed"], "random.seed")?);
            if !feeds.contains("u16") {
                r = r.fix16(constant("u16", 32768) as u16);
            }
            if !feeds.contains("u32") {
                r = r.fix32(constant("u32", u64::from(u32::MAX)) as u32);
            }
            r
        }
        other => return Err(format!("config.json: random.mode {other:?} is not known")),
    };
    Ok(Scenario {
        spec,
        link: Link { mtu: mtu as u32, compat },
        setup: Setup {
            link_bps: device["link_rate_bps"].as_u64(),
            clock_base: Instant::from_nanos(config["clock_base_ns"].as_u64().unwrap_or(device::CLOCK_BASE.as_nanos())),
            random,
        },
    })
}

/// Compares outcomes in order; the first difference, in words.
fn compare_rows(expected: impl std::io::Read, run: &Run, base: Instant) -> Result<Option<String>, String> {
    let mut reader = csv::Reader::from_reader(expected);
    let columns = format::Columns::new(reader.headers().map_err(|e| e.to_string())?);
    // Queue numbers mean something only up to renaming, within a tin.
    let mut renamed: HashMap<(String, String), String> = HashMap::new();
    let mut count = 0;
    for (i, row) in reader.records().enumerate() {
        let row = row.map_err(|e| format!("output, line {}: {e}", i + 2))?;
        let Some(outcome) = run.outcomes.get(i) else {
            return Ok(Some(format!(
                "row {i}: expected packet {}, but there is no further decision",
                columns.get(&row, "id")
            )));
        };
        count += 1;
        let got = format::outcome_row(outcome, base);
        for (name, got) in format::OUTCOME_COLUMNS.iter().zip(&got) {
            let want = columns.get(&row, name);
            // Where the recording has nothing to say, there is nothing to compare.
            let agrees = if want.is_empty() {
                true
            } else if *name == "queue" && !want.starts_with('-') {
                let key = (columns.get(&row, "tin").to_string(), want.to_string());
                renamed.entry(key).or_insert_with(|| got.clone()) == got
            } else {
                want == got
            };
            if !agrees {
                return Ok(Some(format!(
                    "row {i}, packet {}: {name} is {}, expected {want} (t_ns {})",
                    columns.get(&row, "id"),
                    if got.is_empty() { "nothing" } else { got },
                    columns.get(&row, "t_ns"),
                )));
            }
        }
        if want_reason_differs(columns.get(&row, "reason"), &outcome.reason()) {
            return Ok(Some(format!("row {i}, packet {}: reason is {}", columns.get(&row, "id"), outcome.reason())));
        }
    }
    if count < run.outcomes.len() {
        return Ok(Some(format!("{} decisions, expected {count}", run.outcomes.len())));
    }
    Ok(None)
}

/// Compares every run of the controller.
fn compare_updates(expected: impl std::io::Read, got: &[Update], figures: &mut Figures) -> Result<(), String> {
    let mut reader = csv::Reader::from_reader(expected);
    let columns = format::Columns::new(reader.headers().map_err(|e| e.to_string())?);
    let mut rows = 0;
    for (i, row) in reader.records().enumerate() {
        let row = row.map_err(|e| format!("updates, line {}: {e}", i + 2))?;
        let number = |name: &str| columns.get(&row, name).parse::<u64>().unwrap_or(u64::MAX);
        let want = ["t_ns", "delay_c_ns", "delay_l_ns", "qlen_c", "qlen_l", "backlog_bytes", "prob"].map(number);
        let got = got.get(i).map(|u| {
            let [qlen_c, qlen_l] = u.qlens.map(u64::from);
            [u.t_ns, u.delays_ns[0], u.delays_ns[1], qlen_c, qlen_l, u.backlog, u.prob.into()]
        });
        figures.expect(&format!("updates, row {i}"), &want.to_vec().into(), &got.map(|g| g.to_vec()).into());
        rows += 1;
    }
    figures.expect("updates, rows", &rows.into(), &got.len().into());
    Ok(())
}

/// An empty reason is a statement too: the packet was neither marked nor dropped.
fn want_reason_differs(want: &str, got: &str) -> bool {
    want.is_empty() && !got.is_empty()
}

fn totals(run: &Run) -> Value {
    let sent: Vec<_> = run.outcomes.iter().filter(|o| o.dropped.is_none()).collect();
    let dropped = |of: &[Reason]| run.outcomes.iter().filter(|o| o.dropped.is_some_and(|r| of.contains(&r))).count();
    let bytes = |of: &mut dyn Iterator<Item = u32>| of.map(u64::from).sum::<u64>();
    serde_json::json!({
        "packets_in": run.outcomes.len(),
        "bytes_in": bytes(&mut run.outcomes.iter().map(|o| o.len)),
        "packets_sent": sent.len(),
        "bytes_sent": bytes(&mut sent.iter().map(|o| o.len)),
        "packets_marked": sent.iter().filter(|o| !o.marks.is_empty()).count(),
        "packets_dropped": run.outcomes.len() - sent.len(),
        "dropped_aqm": dropped(&[Reason::Aqm, Reason::Flood, Reason::Step]),
        "dropped_overflow": dropped(&[Reason::QueueFull, Reason::Memory]),
        "dropped_ack_filter": dropped(&[Reason::AckFilter]),
        "dropped_oversize": dropped(&[Reason::Oversize]),
        "dropped_step": dropped(&[Reason::Step]),
        "last_sent_ns": sent.last().map_or(0, |o| o.t_ns),
        "left_in_queue": 0,
    })
}

/// Compares trees of figures and keeps the first difference.
#[derive(Default)]
struct Figures {
    compared: usize,
    difference: Option<String>,
}

/// Depends on how often the device polls (see the format's description of it).
const INFORMATIVE: [&str; 1] = ["overlimits"];

impl Figures {
    /// Every figure that was recorded must be ours too.
    fn expect(&mut self, path: &str, want: &Value, got: &Value) {
        self.compare(path, want, got, true);
    }

    /// Only the figures that we have are compared.
    fn expect_some(&mut self, path: &str, want: &Value, got: &Value) {
        self.compare(path, want, got, false);
    }

    fn compare(&mut self, path: &str, want: &Value, got: &Value, all: bool) {
        match (want, got) {
            (Value::Object(want), Value::Object(got)) => {
                for (name, w) in want.iter().filter(|(n, _)| !INFORMATIVE.contains(&n.as_str())) {
                    match got.get(name) {
                        Some(g) => self.compare(&format!("{path}.{name}"), w, g, all),
                        None if all => self.note(format!("{path}.{name}: expected {w}, we have no such figure")),
                        None => {}
                    }
                }
            }
            (Value::Array(want), Value::Array(got)) if want.len() == got.len() => {
                for (i, (w, g)) in want.iter().zip(got).enumerate() {
                    self.compare(&format!("{path}[{i}]"), w, g, all);
                }
            }
            (Value::Null, _) => {}
            _ => {
                self.compared += 1;
                if !same(want, got) {
                    self.note(format!("{path} is {got}, expected {want}"));
                }
            }
        }
    }

    fn note(&mut self, difference: String) {
        self.difference.get_or_insert(difference);
    }
}

/// Equal values; a recorded 0 or 1 may be a truth value.
fn same(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::Number(n), Value::Bool(b)) => n.as_u64() == Some(u64::from(*b)),
        (Value::Number(w), Value::Number(g)) => w == g || w.as_f64() == g.as_f64(),
        _ => want == got,
    }
}

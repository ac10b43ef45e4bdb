//! Many runs in one table: medians over the repeats of each case.

use serde_json::Value;

use super::summary::{self, PERCENTILES, percentile, table};
use crate::scenario::result::Outcome;

/// More columns than these are no table any more.
pub const COLUMNS: usize = 12;

/// What is kept of a run for tables over runs.
pub struct Figures {
    pub(super) groups: Vec<Group>,
    /// Name, drops, marks.
    pub(super) ports: Vec<(String, u64, u64)>,
    completions: Vec<(String, Option<f64>)>,
    /// The machine's own, at all [`PERCENTILES`].
    noise: Option<Vec<f64>>,
}

pub(super) struct Group {
    pub(super) name: String,
    pub(super) data: bool,
    /// Mbit/s.
    pub(super) goodput: f64,
    spread: (f64, f64),
    jain: f64,
    /// The median, p95, p99 and the longest, ms.
    pub(super) rtt: [Option<f64>; 4],
    /// At all [`PERCENTILES`].
    percentiles: Vec<f64>,
    retransmissions: f64,
}

impl Figures {
    /// Of a run.
    pub fn of(outcome: &Outcome) -> Self {
        let groups = summary::groups(outcome).into_iter().map(|g| Group {
            data: g.kind != "ping",
            goodput: g.goodput / 1e6,
            spread: (g.spread.0 / 1e6, g.spread.1 / 1e6),
            jain: g.jain,
            rtt: [50.0, 95.0, 99.0, 100.0].map(|p| (!g.rtt.is_empty()).then(|| percentile(&g.rtt, p))),
            percentiles: PERCENTILES.iter().map(|p| percentile(&g.rtt, *p)).collect(),
            retransmissions: g.retransmissions as f64,
            name: g.name,
        });
        let noise = outcome.noise.as_ref().map(|h| PERCENTILES.iter().map(|p| percentile(h, *p)).collect());
        let sized =
            outcome.flows.iter().filter(|f| f.completed.is_some() || f.aborted || outcome.scenario.until_complete);
        Figures {
            noise,
            groups: groups.collect(),
            ports: outcome.ports.iter().map(|p| (p.name.clone(), p.drops[0], p.marks[0])).collect(),
            completions: sized
                .filter(|f| f.kind != "ping")
                .map(|f| (f.name.clone(), f.completed.map(|ns| ns as f64 / 1e9)))
                .collect(),
        }
    }
}

impl Figures {
    /// Of a run's `summary.json`.
    ///
    /// # Errors
    /// What is missing in it.
    pub fn read(summary: &Value) -> Result<Self, String> {
        let list = |key: &str| summary[key].as_array().ok_or_else(|| format!("it has no \"{key}\""));
        let number = |v: &Value| v.as_f64().unwrap_or(0.0);
        let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
        let group = |g: &Value| Group {
            data: g["sender"] != "ping",
            goodput: number(&g["goodput_mbit"]),
            spread: (number(&g["min_mbit"]), number(&g["max_mbit"])),
            jain: number(&g["jain"]),
            rtt: ["p50", "p95", "p99", "p100"].map(|p| g["rtt_ms"][p].as_f64()),
            percentiles: PERCENTILES.iter().map(|p| number(&g["rtt_ms"][format!("p{p}")])).collect(),
            retransmissions: number(&g["retransmissions"]),
            name: text(&g["name"]),
        };
        let port = |p: &Value| {
            let count = |key: &str| p[key].as_u64().unwrap_or(0);
            (text(&p["name"]), count("drops"), count("marks"))
        };
        let noise = &summary["noise_ms"];
        let floor = || PERCENTILES.iter().map(|p| number(&noise[format!("p{p}")])).collect();
        let ended = list("flows")?.iter().filter(|f| f["completed_s"].is_number() || f["aborted"] == true);
        Ok(Figures {
            noise: noise.is_object().then(floor),
            groups: list("groups")?.iter().map(group).collect(),
            ports: list("ports")?.iter().map(port).collect(),
            completions: ended.map(|f| (text(&f["name"]), f["completed_s"].as_f64())).collect(),
        })
    }
}

/// The value at share `q` of a sorted list, between neighbours if need be.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * part
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut out: Vec<f64> = values.collect();
    out.sort_by(f64::total_cmp);
    out
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let list = sorted(values);
    (!list.is_empty()).then(|| quantile(&list, 0.5))
}

/// The table of runs, named by their cases; runs of one case are repeats.
pub fn text(runs: &[(&str, &Figures)]) -> String {
    let mut cases: Vec<&str> = Vec::new();
    runs.iter().for_each(|(name, _)| {
        if !cases.contains(name) {
            cases.push(name);
        }
    });
    let repeats = |case: &str| runs.iter().filter(move |(n, _)| *n == case).map(|(_, f)| *f).collect::<Vec<_>>();
    let mut out = groups(&cases, &repeats);
    let ports = ports(&cases, &repeats);
    if !ports.is_empty() {
        out += &format!("\n{ports}");
    }
    let done = completions(&cases, &repeats);
    if !done.is_empty() {
        out += &format!("\n{done}");
    }
    out
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| w.to_string()).collect()
}

fn groups<'a>(cases: &[&str], repeats: &impl Fn(&str) -> Vec<&'a Figures>) -> String {
    let mut rows = vec![words(&[
        "case", "n", "group", "Mbit/s", "min..max", "Jain", "RTT p50", "p95", "p99", "max ms", "retrans",
    ])];
    for case in cases {
        let runs = repeats(case);
        for (i, g) in runs[0].groups.iter().enumerate() {
            let all = || runs.iter().filter_map(|f| f.groups.get(i));
            let rtt = |k: usize| match median(all().filter_map(|g| g.rtt[k])) {
                Some(ms) => format!("{ms:.2}"),
                None => "-".into(),
            };
            let figure = |pick: &dyn Fn(&Group) -> f64, digits: usize| match g.data {
                true => format!("{:.digits$}", median(all().map(pick)).unwrap_or(0.0)),
                false => "-".into(),
            };
            let least = figure(&|g| g.spread.0, 2);
            let most = figure(&|g| g.spread.1, 2);
            rows.push(vec![
                case.to_string(),
                runs.len().to_string(),
                g.name.clone(),
                figure(&|g| g.goodput, 2),
                if g.data { format!("{least}..{most}") } else { "-".into() },
                figure(&|g| g.jain, 4),
                rtt(0),
                rtt(1),
                rtt(2),
                rtt(3),
                figure(&|g| g.retransmissions, 0),
            ]);
        }
    }
    table(&rows)
}

fn ports<'a>(cases: &[&str], repeats: &impl Fn(&str) -> Vec<&'a Figures>) -> String {
    let mut rows = vec![words(&["case", "port", "drops", "marks"])];
    for case in cases {
        let runs = repeats(case);
        for (i, (name, ..)) in runs[0].ports.iter().enumerate() {
            let all = |pick: fn(&(String, u64, u64)) -> u64| {
                let figures = runs.iter().filter_map(|f| f.ports.get(i)).map(|p| pick(p) as f64);
                format!("{:.0}", median(figures).unwrap_or(0.0))
            };
            rows.push(vec![case.to_string(), name.clone(), all(|p| p.1), all(|p| p.2)]);
        }
    }
    if rows.len() > 1 { table(&rows) } else { String::new() }
}

fn completions<'a>(cases: &[&str], repeats: &impl Fn(&str) -> Vec<&'a Figures>) -> String {
    let mut rows = vec![words(&["case", "n", "done", "min s", "p25", "median", "p75", "p95", "max"])];
    for case in cases {
        let runs = repeats(case);
        let all: Vec<Option<f64>> = runs.iter().flat_map(|f| f.completions.iter().map(|c| c.1)).collect();
        if all.is_empty() {
            continue;
        }
        let done = sorted(all.iter().filter_map(|t| *t));
        let at = |q| if done.is_empty() { "-".into() } else { format!("{:.1}", quantile(&done, q)) };
        let mut row = vec![case.to_string(), all.len().to_string(), done.len().to_string()];
        row.extend([0.0, 0.25, 0.5, 0.75, 0.95, 1.0].map(at));
        rows.push(row);
    }
    if rows.len() > 1 { table(&rows) } else { String::new() }
}

/// The groups that all runs have, in the first one's order.
pub fn common_groups<'a>(runs: &[(&str, &'a Figures)]) -> Vec<&'a str> {
    let Some((_, first)) = runs.first() else { return Vec::new() };
    let common = |name: &&str| runs.iter().all(|(_, f)| f.groups.iter().any(|g| g.name == *name));
    first.groups.iter().map(|g| g.name.as_str()).filter(common).collect()
}

/// The rows of round-trip percentiles, a column for each run, and the highest noise floor of those whose machine was listened
/// to.
pub fn percentile_rows(runs: &[(&str, &Figures)], group: &str) -> String {
    let mut rows = vec![vec!["RTT, ms".to_string()]];
    let numbered = |(i, (name, _)): (usize, &(&str, &Figures))| {
        let of_name = |all: &[(&str, &Figures)]| all.iter().filter(|(other, _)| other == name).count();
        match of_name(runs) {
            1 => name.to_string(),
            _ => format!("{name} #{}", of_name(&runs[..=i])),
        }
    };
    rows[0].extend(runs.iter().enumerate().map(numbered));
    let floors: Vec<&Vec<f64>> = runs.iter().filter_map(|(_, f)| f.noise.as_ref()).collect();
    rows[0].extend((!floors.is_empty()).then(|| "noise floor".to_string()));
    for (k, p) in PERCENTILES.iter().enumerate() {
        let mut row = vec![format!("p{p}")];
        for (_, f) in runs {
            let found = f.groups.iter().find(|g| g.name == group);
            row.push(found.map_or("-".into(), |g| format!("{:.3}", g.percentiles[k])));
        }
        row.extend(floors.iter().map(|n| n[k]).reduce(f64::max).map(|n| format!("{n:.3}")));
        rows.push(row);
    }
    table(&rows)
}

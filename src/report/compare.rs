//! Runs side by side: one column a run, from what `weir bridge -j --hist` and `weir load send -j` have written into its
//! directory.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::hgrm::Distribution;
use super::svg::Curve;

/// The directions of a bridge, by the names they have in files.
const WAYS: [&str; 2] = ["down", "up"];

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Head of its column.
    pub label: String,
    bridge: Value,
    load: Value,
    distributions: [Option<Distribution>; 2],
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is, with its unit.
    pub name: String,
    /// One cell a run.
    pub cells: Vec<String>,
}

impl Run {
    /// Reads a run's directory: `bridge.json` and `load.json`, and the bridge's percentiles of both directions where they
    /// are.
    ///
    /// # Errors
    /// A file is not there or is not what it should be: its name and why.
    pub fn read(label: &str, directory: &Path) -> Result<Self, String> {
        let text = |file: &str| {
            let path = directory.join(file);
            fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))
        };
        let json = |file: &str| {
            serde_json::from_str(&text(file)?).map_err(|e| format!("{}: {e}", directory.join(file).display()))
        };
        let (bridge, load): (Value, Value) = (json("bridge.json")?, json("load.json")?);
        let instance = bridge["name"].as_str().unwrap_or_default();
        let mut distributions = [None, None];
        for (place, way) in WAYS.iter().enumerate() {
            let file = format!("{instance}-{way}.hgrm");
            if directory.join(&file).exists() {
                let read = Distribution::parse(&text(&file)?);
                distributions[place] = Some(read.map_err(|e| format!("{}: {e}", directory.join(&file).display()))?);
            }
        }
        Ok(Run { label: label.into(), bridge, load, distributions })
    }

    fn direction(&self, way: &str) -> &Value {
        let all = self.bridge["directions"].as_array();
        all.and_then(|d| d.iter().find(|d| d["direction"] == way)).unwrap_or(&Value::Null)
    }

    fn marks(&self, way: &str) -> String {
        let kinds = self.direction(way)["marked"].as_object();
        kinds.map_or("-".into(), |k| k.values().filter_map(Value::as_u64).sum::<u64>().to_string())
    }

    /// Its curves: down with a full line, up with a broken one.
    pub fn curves(&self, colour: usize) -> Vec<Curve> {
        let named = WAYS.iter().zip(&self.distributions);
        let drawn = named.filter_map(|(way, distribution)| {
            let distribution = distribution.clone()?;
            Some(Curve { label: format!("{}, {way}", self.label), colour, dashed: *way == "up", distribution })
        });
        drawn.collect()
    }
}

/// The table.
pub fn table(runs: &[Run]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: String, cell: &dyn Fn(&Run) -> String| {
        rows.push(Row { name, cells: runs.iter().map(cell).collect() });
    };
    for way in WAYS {
        row(format!("goodput {way}, Mbit/s"), &|r| scaled(&r.load[way]["goodput"], 1e-6));
        row(format!("fairness {way}, Jain"), &|r| scaled(&r.load[way]["jain"], 1.0));
    }
    for (name, key) in [("p50", "p50"), ("p99", "p99"), ("max", "max")] {
        row(format!("ping under load {name}, ms"), &|r| scaled(&r.load["ping"]["rtt_us"][key], 1e-3));
    }
    row("pings lost".into(), &|r| lost_of(&r.load["ping"]));
    for way in WAYS {
        for name in ["p50", "p99"] {
            row(format!("waited in queue {way} {name}, ms"), &|r| {
                scaled(&r.direction(way)["sojourn_ns"]["decision"][name], 1e-6)
            });
        }
    }
    for way in WAYS {
        row(format!("dropped {way}, packets"), &|r| count(&r.direction(way)["dropped"]["packets"]));
        row(format!("marked {way}, packets"), &|r| r.marks(way));
        row(format!("retransmitted {way}, segments"), &|r| count(&r.load[way]["retransmits"]));
    }
    rows
}

/// The table as text, numbers flush right under their heads.
pub fn as_text(runs: &[Run], rows: &[Row]) -> String {
    let first = rows.iter().map(|r| r.name.len()).max().unwrap_or(0);
    let width = |place: usize| {
        let cells = rows.iter().map(|r| r.cells[place].chars().count());
        cells.chain([runs[place].label.chars().count()]).max().unwrap_or(0)
    };
    let line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.enumerate().map(|(i, c)| format!("  {c:>w$}", w = width(i).max(8))).collect();
        format!("{name:<first$}{cells}\n")
    };
    let mut text = line("", &mut runs.iter().map(|r| r.label.as_str()));
    for row in rows {
        text += &line(&row.name, &mut row.cells.iter().map(String::as_str));
    }
    text
}

fn scaled(value: &Value, factor: f64) -> String {
    value.as_f64().map_or("-".into(), |v| {
        let v = v * factor;
        format!(
            "{v:.digits$}",
            digits = if v >= 100.0 {
                1
            } else if v >= 10.0 {
                2
            } else {
                3
            }
        )
    })
}

fn count(value: &Value) -> String {
    value.as_u64().map_or("-".into(), |n| n.to_string())
}

fn lost_of(ping: &Value) -> String {
    match (ping["lost"].as_u64(), ping["sent"].as_u64()) {
        (Some(lost), Some(sent)) => format!("{lost} of {sent}"),
        _ => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(label: &str) -> Run {
        let direction = |name: &str, drops: u64| {
            json!({"direction": name, "dropped": {"packets": drops}, "marked": {"ecn": 2, "ce_threshold": 3},
                   "sojourn_ns": {"decision": {"p50": 5_000_000, "p99": 123_456_789}}})
        };
        let way = json!({"goodput": 18_765_432.0, "jain": 0.987_654, "retransmits": 17});
        Run {
            label: label.into(),
            bridge: json!({"directions": [direction("down", 7), direction("up", 8)]}),
            load: json!({"up": way, "down": way, "ping": {"sent": 100, "lost": 1, "rtt_us": {"p50": 612_000.0}}}),
            distributions: [Some(Distribution { points: vec![(1.0, 1.0)], count: 1 }), None],
        }
    }

    fn cell(rows: &[Row], name: &str) -> String {
        rows.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no row {name}")).cells[0].clone()
    }

    #[test]
    fn figures_stand_in_the_units_people_read() {
        let rows = table(&[run("codel")]);
        assert_eq!(cell(&rows, "goodput down, Mbit/s"), "18.77");
        assert_eq!(cell(&rows, "ping under load p50, ms"), "612.0");
        assert_eq!(cell(&rows, "waited in queue up p99, ms"), "123.5");
        assert_eq!(cell(&rows, "dropped up, packets"), "8");
        assert_eq!(cell(&rows, "marked down, packets"), "5");
        assert_eq!(cell(&rows, "pings lost"), "1 of 100");
    }

    #[test]
    fn a_figure_that_was_not_measured_is_a_dash_and_not_a_zero() {
        let mut bare = run("codel");
        bare.bridge = json!({});
        bare.load["ping"] = Value::Null;
        let rows = table(&[bare]);
        for name in ["ping under load p99, ms", "pings lost", "dropped down, packets", "marked up, packets"] {
            assert_eq!(cell(&rows, name), "-", "{name}");
        }
    }

    #[test]
    fn columns_are_flush_under_their_heads() {
        let runs = [run("pfifo"), run("a much longer label")];
        let text = as_text(&runs, &table(&runs));
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert!(lengths.iter().all(|l| *l == lengths[0]), "{text}");
        assert!(text.lines().next().is_some_and(|l| l.ends_with("pfifo  a much longer label")), "{text}");
    }

    #[test]
    fn a_run_has_a_curve_for_each_direction_that_was_written() {
        let curves = run("codel").curves(1);
        assert_eq!(curves.iter().map(|c| (c.label.as_str(), c.dashed)).collect::<Vec<_>>(), [("codel, down", false)]);
    }
}

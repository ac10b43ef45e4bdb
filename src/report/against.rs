//! One router beside another under the same scenario: medians over the repeats, and whether they agree as well as the other
//! agrees with itself.

use serde::Serialize;

use super::repeats::{Figures, Group, median};

/// Share by which goodput may differ.
const GOODPUT: f64 = 0.01;
/// Share by which percentiles of the round trip may differ.
const ROUND_TRIP: f64 = 0.05;
/// Share by which drops and marks may differ,
const COUNT: f64 = 0.1;
/// or by so many packets, or by what the other's repeats differ among themselves.
const PACKETS: f64 = 3.0;

/// The runs of one router in one case.
pub struct Side<'a> {
    /// Its name.
    pub router: &'a str,
    /// The repeats.
    pub runs: Vec<&'a Figures>,
}

/// One figure of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Median over the repeats.
    pub here: f64,
    /// The other's median.
    pub there: f64,
    /// The least and the most of the other's repeats.
    pub range: (f64, f64),
    /// How much `here` may differ from `there`.
    pub allowed: f64,
    digits: usize,
}

/// What is compared, in the order of the columns.
const NAMES: [&str; 5] = ["Mbit/s", "RTT p50", "RTT p95", "dropped", "marked"];

/// A group of flows beside a queue: goodput, two round trips, drops and marks, as far as there are any.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    flows: Option<String>,
    queue: Option<String>,
    figures: [Option<Figure>; 5],
}

/// A case under both routers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    case: String,
    routers: [String; 2],
    repeats: [usize; 2],
    lines: Vec<Line>,
}

impl Figure {
    fn of(here: Vec<f64>, there: Vec<f64>, digits: usize, allowed: impl Fn(f64, f64) -> f64) -> Option<Figure> {
        let range = (there.iter().copied().reduce(f64::min)?, there.iter().copied().reduce(f64::max)?);
        let (here, there) = (median(here.into_iter())?, median(there.into_iter())?);
        Some(Figure { here, there, range, allowed: allowed(there, range.1 - range.0), digits })
    }

    /// Whether the difference is one that may be.
    pub fn within(&self) -> bool {
        (self.here - self.there).abs() <= self.allowed
    }

    /// The difference in words: a share, or a number where the other has none.
    fn difference(&self) -> String {
        match self.there == 0.0 {
            true => format!("{:+.0}", self.here),
            false => format!("{:+.1} %", (self.here / self.there - 1.0) * 100.0),
        }
    }

    fn both(&self) -> String {
        format!("{:.d$} / {:.d$}", self.here, self.there, d = self.digits)
    }

    fn alone(&self) -> String {
        format!("{:.d$}..{:.d$}", self.range.0, self.range.1, d = self.digits)
    }
}

impl Comparison {
    /// Of one case: `here` is judged by `there`.
    pub fn of(case: &str, here: &Side<'_>, there: &Side<'_>) -> Comparison {
        let names =
            |side: &Side<'_>, pick: &dyn Fn(&Figures) -> Vec<String>| side.runs.first().map_or(vec![], |f| pick(f));
        let common = |pick: &dyn Fn(&Figures) -> Vec<String>| -> Vec<String> {
            let others = names(there, pick);
            names(here, pick).into_iter().filter(|n| others.contains(n)).collect()
        };
        let flows = common(&|f| f.groups.iter().filter(|g| g.data).map(|g| g.name.clone()).collect());
        let queues = common(&|f| f.ports.iter().map(|p| p.0.clone()).collect());
        let line = |i: usize| {
            let (flows, queue) = (flows.get(i), queues.get(i));
            let group = |pick: &dyn Fn(&Group) -> Option<f64>, digits, allowed: &dyn Fn(f64, f64) -> f64| {
                let all = |side: &Side<'_>| {
                    let groups = side.runs.iter().flat_map(|f| f.groups.iter().filter(|g| Some(&g.name) == flows));
                    groups.filter_map(pick).collect()
                };
                Figure::of(all(here), all(there), digits, allowed)
            };
            let port = |pick: fn(&(String, u64, u64)) -> u64| {
                let all = |side: &Side<'_>| {
                    let ports = side.runs.iter().flat_map(|f| f.ports.iter().filter(|p| Some(&p.0) == queue));
                    ports.map(|p| pick(p) as f64).collect()
                };
                Figure::of(all(here), all(there), 0, |there, spread| (COUNT * there).max(PACKETS).max(spread))
            };
            Line {
                flows: flows.cloned(),
                queue: queue.cloned(),
                figures: [
                    group(&|g| Some(g.goodput), 2, &|there, _| GOODPUT * there),
                    group(&|g| g.rtt[0], 1, &|there, _| ROUND_TRIP * there),
                    group(&|g| g.rtt[1], 1, &|there, _| ROUND_TRIP * there),
                    port(|p| p.1),
                    port(|p| p.2),
                ],
            }
        };
        Comparison {
            case: case.into(),
            routers: [here, there].map(|s| s.router.to_string()),
            repeats: [here, there].map(|s| s.runs.len()),
            lines: (0..flows.len().max(queues.len())).map(line).collect(),
        }
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.lines.iter().flat_map(|l| l.figures.iter().flatten())
    }
}

impl Line {
    fn verdict(&self) -> String {
        let named = NAMES.iter().zip(&self.figures).filter_map(|(name, f)| Some((name, f.as_ref()?)));
        let outside: Vec<String> =
            named.filter(|(_, f)| !f.within()).map(|(name, f)| format!("{name} {}", f.difference())).collect();
        if outside.is_empty() { "within".into() } else { outside.join(", ") }
    }
}

/// The rows of the table: each line of a case, and what the other's own repeats span below it.
pub fn rows(all: &[Comparison]) -> Vec<Vec<String>> {
    let mut rows =
        vec![["case", "n", "flows", "queue"].into_iter().chain(NAMES).chain([""]).map(String::from).collect()];
    for c in all {
        let [here, there] = &c.routers;
        for (i, line) in c.lines.iter().enumerate() {
            let cells = |show: fn(&Figure) -> String| {
                line.figures.iter().map(move |f| f.as_ref().map_or("-".into(), show)).collect::<Vec<String>>()
            };
            let case = if i == 0 { format!("{}: {here} / {there}", c.case) } else { String::new() };
            let n = if i == 0 { c.repeats.iter().min().map_or(String::new(), usize::to_string) } else { String::new() };
            let named = |name: &Option<String>| name.clone().unwrap_or("-".into());
            let mut row = vec![case, n, named(&line.flows), named(&line.queue)];
            row.extend(cells(Figure::both));
            row.push(line.verdict());
            rows.push(row);
            let mut row = vec![format!("{there} alone"), String::new(), String::new(), String::new()];
            row.extend(cells(Figure::alone));
            row.push(String::new());
            rows.push(row);
        }
    }
    rows
}

/// What was compared with what, and how many figures agree.
pub fn bounds(all: &[Comparison]) -> String {
    let figures: Vec<&Figure> = all.iter().flat_map(Comparison::figures).collect();
    let within = figures.iter().filter(|f| f.within()).count();
    format!(
        "{within} of {} figures within their bounds: of medians over n repeats, goodput may differ by {:.0} %, round trips (ms) \
         by {:.0} %, drops and marks by the largest of {:.0} %, {PACKETS:.0} packets, and what the row below spans: the least \
         and the most of the repeats of that router alone.",
        figures.len(),
        GOODPUT * 100.0,
        ROUND_TRIP * 100.0,
        COUNT * 100.0
    )
}

/// Rows as a table of Markdown.
pub fn markdown(rows: &[Vec<String>]) -> String {
    let line = |cells: &mut dyn Iterator<Item = &str>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        out += &line(&mut row.iter().map(String::as_str));
        if i == 0 {
            out += &line(&mut row.iter().map(|_| "---"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A run with one flow group and one queue.
    fn run(mbit: f64, p50: f64, drops: u64) -> Figures {
        let read = Figures::read(&json!({
            "groups": [
                { "name": "down", "sender": "cubic", "goodput_mbit": mbit, "rtt_ms": { "p50": p50, "p95": 30.0 } },
                { "name": "ping", "sender": "ping", "rtt_ms": { "p50": 20.0, "p95": 21.0 } },
            ],
            "ports": [{ "name": "rt.down", "drops": drops, "marks": 0 }],
            "flows": [],
        }));
        read.expect("a summary")
    }

    fn compare(here: &[Figures], there: &[Figures]) -> Comparison {
        let here = Side { router: "weir", runs: here.iter().collect() };
        Comparison::of("cake", &here, &Side { router: "kernel", runs: there.iter().collect() })
    }

    fn verdict(c: &Comparison) -> String {
        c.lines[0].verdict()
    }

    #[test]
    fn medians_are_compared_and_the_other_s_own_range_stands_below() {
        let here = [run(19.0, 24.0, 10), run(19.1, 25.0, 12), run(30.0, 90.0, 900)];
        let there = [run(19.0, 24.9, 11), run(19.1, 25.1, 12), run(19.2, 25.3, 13)];
        let c = compare(&here, &there);
        let rows = rows(&[c]);
        assert_eq!(
            rows[1],
            [
                "cake: weir / kernel",
                "3",
                "down",
                "rt.down",
                "19.10 / 19.10",
                "25.0 / 25.1",
                "30.0 / 30.0",
                "12 / 12",
                "0 / 0",
                "within"
            ]
        );
        assert_eq!(rows[2][4..9], ["19.00..19.20", "24.9..25.3", "30.0..30.0", "11..13", "0..0"]);
    }

    #[test]
    fn a_percent_of_goodput_and_five_of_the_round_trip_are_the_last_that_pass() {
        let there = [run(100.0, 20.0, 0)];
        assert_eq!(verdict(&compare(&[run(101.0, 21.0, 0)], &there)), "within");
        assert_eq!(verdict(&compare(&[run(98.9, 20.0, 0)], &there)), "Mbit/s -1.1 %");
        assert_eq!(verdict(&compare(&[run(100.0, 21.1, 0)], &there)), "RTT p50 +5.5 %");
    }

    #[test]
    fn counts_may_differ_by_three_by_a_tenth_or_by_what_the_other_s_repeats_do() {
        let few = [run(19.0, 20.0, 0)];
        assert_eq!(verdict(&compare(&[run(19.0, 20.0, 3)], &few)), "within");
        assert_eq!(verdict(&compare(&[run(19.0, 20.0, 4)], &few)), "dropped +4");
        let many = [run(19.0, 20.0, 1000)];
        assert_eq!(verdict(&compare(&[run(19.0, 20.0, 1100)], &many)), "within");
        assert_eq!(verdict(&compare(&[run(19.0, 20.0, 1101)], &many)), "dropped +10.1 %");
        let wild = [run(19.0, 20.0, 10), run(19.0, 20.0, 20), run(19.0, 20.0, 30)];
        assert_eq!(verdict(&compare(&[run(19.0, 20.0, 40)], &wild)), "within");
        assert_eq!(verdict(&compare(&[run(19.0, 20.0, 41)], &wild)), "dropped +105.0 %");
    }

    #[test]
    fn the_summary_counts_all_figures_and_pings_are_none_of_them() {
        let text = bounds(&[compare(&[run(90.0, 20.0, 0)], &[run(100.0, 20.0, 0)])]);
        assert!(text.starts_with("4 of 5 figures within"), "{text}");
    }
}

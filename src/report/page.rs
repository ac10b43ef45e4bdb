//! One self-contained page for a run: figures and pictures, no script, nothing fetched.

use hdrhistogram::Histogram;
use serde_json::Value;

use super::charts::{Axes, Line, NAMED, bands, lines, percentiles};
use super::{escaped, summary};
use crate::dtp::Regime;
use crate::scenario::result::{FlowResult, Outcome, PathPoint, PortResult, jain};

const STYLE: &str = "
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#59636e;--grid:#d8dee4;--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#9a6700;--c6:#0e7c86;--c7:#57606a}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--grid:#30363d;--c0:#58a6ff;--c1:#f0883e;--c2:#56d364;--c3:#bc8cff;--c4:#ff7bbf;--c5:#e3b341;--c6:#39c5cf;--c7:#b1bac4}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:2rem 0 .4rem}.dim{color:var(--dim)}
pre{overflow-x:auto;padding:.8rem;border:1px solid var(--grid);border-radius:6px;font:13px/1.45 ui-monospace,monospace}
svg{width:100%;height:auto}.grid{stroke:var(--grid)}.tick,.axis{fill:var(--dim);font:12px system-ui,sans-serif}
polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.2rem 0;font-size:13px}
.legend i{display:inline-block;width:1.1em;height:3px;margin-right:.4em;vertical-align:middle}
polyline.c0{stroke:var(--c0)}polyline.c1{stroke:var(--c1)}polyline.c2{stroke:var(--c2)}polyline.c3{stroke:var(--c3)}polyline.c4{stroke:var(--c4)}polyline.c5{stroke:var(--c5)}polyline.c6{stroke:var(--c6)}polyline.c7{stroke:var(--c7)}
rect.c0{fill:var(--c0)}rect.c1{fill:var(--c1)}rect.c2{fill:var(--c2)}rect.c3{fill:var(--c3)}rect.c4{fill:var(--c4)}
polyline.many{stroke:var(--dim);stroke-width:1;opacity:.28}i.many{background:var(--dim);opacity:.5}
i.c0{background:var(--c0)}i.c1{background:var(--c1)}i.c2{background:var(--c2)}i.c3{background:var(--c3)}i.c4{background:var(--c4)}i.c5{background:var(--c5)}i.c6{background:var(--c6)}i.c7{background:var(--c7)}
";

/// The page.
pub fn page(outcome: &Outcome, manifest: &Value) -> String {
    let scenario = &outcome.scenario;
    let about = format!(
        "{}: seed {}, {:.1} s, weir {}",
        scenario.title,
        outcome.seed,
        outcome.elapsed as f64 / 1e9,
        env!("CARGO_PKG_VERSION")
    );
    let mut out = String::new();
    out += &format!("<pre>{}</pre>\n", escaped(&summary::text(outcome)));
    let tcp: Vec<&FlowResult> = outcome.flows.iter().filter(|f| f.kind != "ping").collect();
    let has_points = tcp.iter().any(|f| !f.points.is_empty());
    section(&mut out, "Throughput", &over_time(&tcp, outcome, "Mbit/s", false, throughput));
    let all: Vec<&FlowResult> = outcome.flows.iter().collect();
    section(&mut out, "Round trips over time", &over_time(&all, outcome, "mean round trip, ms", false, round_trips));
    let mut groups: Vec<(String, Histogram<u64>)> =
        outcome.groups().iter().map(|g| (g.to_string(), outcome.rtt(g))).collect();
    // A floor far below would take the picture's room from what stands above it; it is in the rows.
    let least = groups.iter().filter(|(_, h)| !h.is_empty()).map(|(_, h)| h.min()).min().unwrap_or(0);
    let near = outcome.noise.iter().filter(|h| h.value_at_quantile(0.5) >= least / 100);
    groups.extend(near.map(|h| ("noise floor".to_string(), h.clone())));
    section(&mut out, "Round trips", &(percentiles("round trip, ms", &groups) + &rows(outcome)));
    if has_points {
        section(&mut out, "Congestion window", &over_time(&tcp, outcome, "packets", false, windows));
        section(&mut out, "Retransmission timeout", &over_time(&tcp, outcome, "timeout, ms", true, timeouts));
    }
    if !outcome.paths.is_empty() {
        paths(&mut out, outcome);
    }
    if !outcome.ports.is_empty() {
        let known = outcome.ports.iter().filter(|p| !p.total.is_empty());
        let sojourns: Vec<(String, Histogram<u64>)> = known.map(|p| (p.name.clone(), p.total.clone())).collect();
        let untimed = outcome.ports.iter().all(PortResult::is_untimed);
        if untimed {
            section(&mut out, "Sojourn", &dim(summary::UNTIMED));
        } else if !sojourns.is_empty() {
            section(&mut out, "Sojourn", &percentiles("sojourn, ms", &sojourns));
        }
        section(&mut out, "Queue depth", &ports(outcome, "packets", |d, _| f64::from(d.packets)));
        if !untimed {
            section(&mut out, "Longest sojourn in each interval", &ports(outcome, "ms", |d, _| d.worst as f64 / 1e6));
        }
        let rate = 1e9 / scenario.interval as f64;
        section(&mut out, "Drops", &ports(outcome, "drops per second", |d, last| (d.drops - last.drops) as f64 * rate));
        section(&mut out, "Marks", &ports(outcome, "marks per second", |d, last| (d.marks - last.marks) as f64 * rate));
    }
    let text = serde_json::to_string_pretty(manifest).unwrap_or_default();
    out += &format!("<h2>Manifest</h2><pre>{}</pre>\n", escaped(&text.replace("\\n", "\n")));
    document(&scenario.name, &about, &out)
}

/// A page with the given body, in the look of all pages.
pub fn document(title: &str, about: &str, body: &str) -> String {
    let (title, about) = (escaped(title), escaped(about));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p class=\"dim\">{about}</p>\n{body}</body></html>\n"
    )
}

/// The panels of a layer's paths: regime, congestion level, paced rate, capacity, fairness.
fn paths(out: &mut String, outcome: &Outcome) {
    let seconds = |p: &PathPoint| p.at as f64 / 1e9;
    let rows: Vec<(String, Vec<(f64, usize)>)> = outcome
        .paths
        .iter()
        .map(|path| {
            let states = path.points.iter().map(|p| (seconds(p), p.regime as usize));
            (path.name.clone(), states.collect())
        })
        .collect();
    section(out, "Congestion regime", &bands("s", &Regime::ALL.map(Regime::name), &rows));
    let over_time = |y: &str, value: &dyn Fn(&PathPoint) -> f64| {
        let line = |path: &crate::scenario::result::PathResult| Line {
            name: path.name.clone(),
            points: path.points.iter().map(|p| (seconds(p), value(p))).collect(),
        };
        let all: Vec<Line> = outcome.paths.iter().map(line).collect();
        lines(&Axes { x: "time, s", y, log: false }, &all)
    };
    section(out, "Congestion level", &over_time("depth code reported", &|p| f64::from(p.ece) / 32.0));
    section(out, "Paced rate", &over_time("Mbit/s of frames", &|p| p.rate * 8.0 / 1e6));
    section(out, "Path capacity", &over_time("Mbit/s", &|p| p.capacity as f64 * 8.0 / 1e6));
    let flows: Vec<&FlowResult> =
        outcome.paths.iter().flat_map(|p| p.flows.iter().map(|f| &outcome.flows[*f])).collect();
    let sources = outcome.paths.iter().map(|p| p.flows.iter().map(|f| &outcome.flows[*f]).collect()).collect();
    let each = flows.iter().map(|f| vec![*f]).collect();
    let fairness = [fairness("per source", sources, outcome), fairness("per flow", each, outcome)];
    section(out, "Jain index", &lines(&Axes { x: "time, s", y: "1 is even", log: false }, &fairness));
}

/// Jain's index of those that send, second by second, while more than one does.
fn fairness(name: &str, shares: Vec<Vec<&FlowResult>>, outcome: &Outcome) -> Line {
    let width = (1_000_000_000 / outcome.scenario.interval).max(1) as usize;
    let steps = shares.iter().flatten().map(|f| f.series.len()).max().unwrap_or(0) / width;
    let sum = |flows: &Vec<&FlowResult>, step: usize| -> u64 {
        flows.iter().flat_map(|f| f.series.iter().skip(step * width).take(width)).sum()
    };
    let at = |step: usize| {
        let got: Vec<f64> = shares.iter().map(|s| sum(s, step) as f64).filter(|x| *x > 0.0).collect();
        (got.len() > 1).then(|| (seconds((step + 1) * width - 1, outcome), jain(&got)))
    };
    Line { name: name.into(), points: (0..steps).filter_map(at).collect() }
}

fn section(out: &mut String, title: &str, body: &str) {
    *out += &format!("<h2>{title}</h2>{body}\n");
}

type Series = fn(&FlowResult, &Outcome) -> Vec<(f64, f64)>;

fn over_time(flows: &[&FlowResult], outcome: &Outcome, y: &str, log: bool, series: Series) -> String {
    // Of each group one before any other has a second: where there are more than colours, none is without.
    let rank = |i: usize| flows[..i].iter().filter(|f| f.group == flows[i].group).count();
    let mut order: Vec<usize> = (0..flows.len()).collect();
    if flows.len() > NAMED {
        order.sort_by_key(|i| rank(*i));
    }
    let all = order.into_iter().map(|i| Line { name: flows[i].name.clone(), points: series(flows[i], outcome) });
    let shown: Vec<Line> = all.filter(|l| !l.points.is_empty()).collect();
    lines(&Axes { x: "time, s", y, log }, &shown)
}

fn seconds(i: usize, outcome: &Outcome) -> f64 {
    (i + 1) as f64 * outcome.scenario.interval as f64 / 1e9
}

fn throughput(f: &FlowResult, o: &Outcome) -> Vec<(f64, f64)> {
    let mbit = |bytes: u64| bytes as f64 * 8e3 / o.scenario.interval as f64;
    f.series.iter().enumerate().map(|(i, b)| (seconds(i, o), mbit(*b))).collect()
}

fn round_trips(f: &FlowResult, o: &Outcome) -> Vec<(f64, f64)> {
    let known = f.rtt_series.iter().enumerate().filter(|(_, s)| s.0 > 0);
    known.map(|(i, s)| (seconds(i, o), s.1 as f64 / 1e6)).collect()
}

fn windows(f: &FlowResult, _: &Outcome) -> Vec<(f64, f64)> {
    f.points.iter().map(|p| (p.at as f64 / 1e9, f64::from(p.cwnd))).collect()
}

fn timeouts(f: &FlowResult, _: &Outcome) -> Vec<(f64, f64)> {
    f.points.iter().map(|p| (p.at as f64 / 1e9, p.timeout as f64 / 1e6)).collect()
}

fn ports(
    outcome: &Outcome,
    y: &str,
    value: impl Fn(&crate::scenario::result::Depth, &crate::scenario::result::Depth) -> f64,
) -> String {
    let line = |p: &PortResult| {
        let pairs = p.depth.windows(2).map(|w| (w[1].at.since(outcome.origin) as f64 / 1e9, value(&w[1], &w[0])));
        Line { name: p.name.clone(), points: pairs.collect() }
    };
    let all: Vec<Line> = outcome.ports.iter().map(line).collect();
    if all.iter().flat_map(|l| &l.points).all(|p| p.1 == 0.0) {
        return dim("none");
    }
    lines(&Axes { x: "time, s", y, log: false }, &all)
}

fn dim(text: &str) -> String {
    format!("<p class=\"dim\">{text}</p>")
}

/// The seed's rows of percentiles.
fn rows(outcome: &Outcome) -> String {
    format!("<pre>{}</pre>", escaped(&summary::round_trips(outcome)))
}

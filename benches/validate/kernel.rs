//! The experiments that were also done with Linux 6.12 in virtual time (User Mode Linux): real TCP under real qdiscs.

use weir::report::charts::{Axes, Line, lines};
use weir::report::summary::{PERCENTILES, percentile, table};
use weir::scenario::result::Outcome;

use crate::{Report, cases};

pub(crate) fn all(report: &mut Report) {
    mtu_scaling(report);
    bbr2(report);
    dctcp(report);
    hosts(report);
    shaping(report);
    lossy(report);
    rto(report);
}

fn mbit(outcome: &Outcome, group: &str) -> f64 {
    outcome.goodput(group) / 1e6
}

fn median(outcome: &Outcome, group: &str) -> f64 {
    percentile(&outcome.rtt(group), 50.0)
}

/// Case, group, goodput in Mbit/s, median round trip in ms.
const MTU: &[(&str, &str, f64, f64)] = &[
    ("down32-kernel", "down", 8.24, 121.9),
    ("down32-1mtu", "down", 7.33, 92.4),
    ("down32-2mtu", "down", 7.35, 91.1),
    ("down32-4mtu", "down", 7.32, 91.1),
    ("down32-2mtu-flows", "down", 8.23, 125.5),
    ("down32-4mtu-flows", "down", 8.15, 224.0),
    ("up32-kernel", "up", 9.41, 73.9),
    ("up32-1mtu", "up", 9.41, 73.9),
    ("up32-2mtu-flows", "up", 9.41, 117.0),
    ("up32-4mtu-flows", "up", 9.41, 197.1),
    ("rrul-kernel", "down", 8.98, 61.4),
    ("rrul-kernel", "up", 8.87, 58.7),
    ("rrul-1mtu", "down", 8.94, 59.2),
    ("rrul-1mtu", "up", 8.84, 58.4),
    ("rrul-4mtu-flows", "down", 9.01, 70.8),
    ("rrul-4mtu-flows", "up", 9.08, 69.7),
];

fn mtu_scaling(report: &mut Report) {
    report.section(
        "CAKE's minimum occupancy, rule by rule",
        "weir sim mtu-scaling: goodput within 7 % of Linux, median round trips within 25 %, and the rules fall into the same classes.",
    );
    let runs = cases("mtu-scaling", &[], 1);
    let find = |case: &str| &runs.iter().find(|(name, _)| name == case).expect("a case of the scenario").1;
    for (case, group, goodput, rtt) in MTU {
        let outcome = find(case);
        report.near(&format!("{case}, {group}: Mbit/s"), mbit(outcome, group), *goodput, 0.07);
        report.near(&format!("{case}, {group}: round trip p50, ms"), median(outcome, group), *rtt, 0.25);
    }
    let goodput = |rule: &str| mbit(find(&format!("down32-{rule}")), "down");
    report.within(
        "down32: flows' rules over constant ones, goodput",
        goodput("2mtu-flows") / goodput("1mtu"),
        1.05,
        1.25,
    );
    let trip = |rule: &str| median(find(&format!("down32-{rule}")), "down");
    report.within("down32: 4mtu-flows over 2mtu-flows, round trip", trip("4mtu-flows") / trip("2mtu-flows"), 1.3, 2.5);
    let up = |rule: &str| median(find(&format!("up32-{rule}")), "up");
    report.within("up32: 2mtu-flows over 1mtu, round trip", up("2mtu-flows") / up("1mtu"), 1.3, 2.5);
    report.within("up32: 4mtu-flows over 2mtu-flows, round trip", up("4mtu-flows") / up("2mtu-flows"), 1.3, 2.5);
}

/// BBRv2 as shown at IETF 104, ms at [`PERCENTILES`].
const BBR2: [f64; 10] = [1.009, 1.334, 1.416, 1.493, 1.569, 1.655, 1.725, 1.902, 2.328, 6.414];
/// DCTCP in Linux, likewise.
const DCTCP: [f64; 10] = [1.0, 1.26, 1.308, 1.339, 1.374, 1.453, 2.386, 2.556, 2.64, 2.792];

fn percentiles(report: &mut Report, outcome: &Outcome, theirs: &[f64; 10], whose: &str) {
    let rtt = outcome.rtt("flow");
    let mut rows = vec![["RTT, ms", "ours", whose].map(String::from).to_vec()];
    for (p, ms) in PERCENTILES.iter().zip(theirs) {
        rows.push(vec![format!("p{p}"), format!("{:.3}", percentile(&rtt, *p)), format!("{ms:.3}")]);
    }
    report.text(&table(&rows));
}

fn spread(outcome: &Outcome) -> (f64, f64) {
    let flows = || outcome.group("flow").map(|f| f.goodput / 1e6);
    (flows().fold(f64::MAX, f64::min), flows().fold(0.0, f64::max))
}

fn retransmissions(outcome: &Outcome) -> f64 {
    outcome.group("flow").map(|f| f.retransmissions[0]).sum::<u64>() as f64
}

fn bbr2(report: &mut Report) {
    report.section(
        "Twenty BBRv2-like flows at a threshold of 242 µs",
        "weir sim bbr20, beside what BBRv2 in Linux did at IETF 104: no retransmits, flows at 46.77..51.48 Mbit/s.",
    );
    let (_, outcome) = cases("bbr20", &[], 1).remove(0);
    let (least, most) = spread(&outcome);
    report.within("retransmits", retransmissions(&outcome), 0.0, 0.0);
    report.within("slowest flow, Mbit/s", least, 46.0, 52.0);
    report.within("fastest flow, Mbit/s", most, 46.0, 52.0);
    report.near("round trip p50, ms", median(&outcome, "flow"), BBR2[1], 0.3);
    report.near("round trip p99, ms", percentile(&outcome.rtt("flow"), 99.0), BBR2[7], 0.3);
    percentiles(report, &outcome, &BBR2, "IETF 104");
    let shares = outcome.group("flow").map(|f| {
        let points = f.series.iter().enumerate().map(|(i, b)| ((i + 1) as f64 / 10.0, *b as f64 * 8.0 / 1e5));
        Line { name: f.name.clone(), points: points.take(100).collect() }
    });
    let all: Vec<Line> = shares.collect();
    report.picture("The first ten seconds", &lines(&Axes { x: "time, s", y: "Mbit/s", log: false }, &all));
}

fn dctcp(report: &mut Report) {
    report.section(
        "Twenty DCTCP flows at a threshold of 242 µs",
        "weir sim bbr20 --param sender=dctcp, within 20 % of Linux. A lone segment's acknowledgement waits for the next round: about one in twenty does, so that the p95 lies before or behind the gap of a millisecond from run to run, in Linux too (at a tenth of the rate and ten times the round trip, 14.8 and 23.8 ms). Their share is held instead.",
    );
    let (_, outcome) = cases("bbr20", &[("sender", "dctcp")], 1).remove(0);
    let (least, most) = spread(&outcome);
    report.within("retransmits", retransmissions(&outcome), 0.0, 0.0);
    report.near("goodput, Mbit/s", mbit(&outcome, "flow"), 945.4, 0.2);
    report.near("slowest flow, Mbit/s", least, 43.79, 0.2);
    report.near("fastest flow, Mbit/s", most, 51.58, 0.2);
    let rtt = outcome.rtt("flow");
    for (at, p) in [(1, 50.0), (5, 90.0), (7, 99.0), (8, 99.9)] {
        report.near(&format!("round trip p{p}, ms"), percentile(&rtt, p), DCTCP[at], 0.2);
    }
    let late = rtt.len() - rtt.count_between(0, 2_000_000);
    report.within("round trips beyond 2 ms, share", late as f64 / rtt.len() as f64, 0.02, 0.1);
    percentiles(report, &outcome, &DCTCP, "Linux");
}

/// Case, one flow of host 1, eight of host 2, Mbit/s.
const HOSTS: &[(&str, &str, f64, f64)] = &[
    ("down", "down-triple-one", 5.31, 42.5),
    ("down", "down-triple-own", 23.22, 24.6),
    ("down", "down-dual-one", 23.17, 24.64),
    ("down", "down-flows-one", 5.31, 42.5),
    ("down", "down-flows-own", 5.31, 42.5),
    ("up", "up-triple-one", 5.31, 42.51),
    ("up", "up-triple-own", 23.21, 24.61),
    ("up", "up-dual-one", 23.25, 24.56),
    ("up", "up-flows-one", 5.32, 42.51),
];

fn hosts(report: &mut Report) {
    report.section("One flow against eight, by isolation", "weir sim hosts, within 5 % of Linux.");
    let mut runs = cases("hosts", &[], 1);
    runs.extend(cases("hosts", &[("direction", "up")], 1));
    for (_, case, one, eight) in HOSTS {
        let outcome = &runs.iter().find(|(name, _)| name == case).expect("a case of the scenario").1;
        report.near(&format!("{case}: host 1, Mbit/s"), mbit(outcome, "host1"), *one, 0.05);
        report.near(&format!("{case}: host 2, Mbit/s"), mbit(outcome, "host2"), *eight, 0.05);
    }
}

const CAKE: &str = "cake bandwidth RATE";
const FQ: &str = "fq_codel | tbf rate RATE burst BURST";
const FIFO: &str = "pfifo limit 1000 | tbf rate RATE burst BURST";
/// Pipeline, rate, flows, seconds, goodput in Mbit/s.
const SHAPING: &[(&str, &str, &str, &str, f64)] = &[
    (CAKE, "10mbit", "1", "20", 9.44),
    (CAKE, "10mbit", "32", "20", 9.38),
    (CAKE, "50mbit", "1", "20", 46.96),
    (CAKE, "50mbit", "32", "20", 47.8),
    (CAKE, "100mbit", "1", "20", 94.45),
    (CAKE, "100mbit", "32", "20", 95.63),
    (CAKE, "500mbit", "1", "10", 478.2),
    (CAKE, "500mbit", "32", "10", 476.3),
    (CAKE, "1gbit", "1", "10", 956.4),
    (CAKE, "1gbit", "32", "10", 947.07),
    (FQ, "10mbit", "1", "20", 9.56),
    (FQ, "10mbit", "32", "20", 9.57),
    (FQ, "50mbit", "1", "20", 47.24),
    (FQ, "50mbit", "32", "20", 47.8),
    (FQ, "100mbit", "1", "20", 94.51),
    (FQ, "100mbit", "32", "20", 95.64),
    (FIFO, "10mbit", "1", "20", 9.56),
    (FIFO, "10mbit", "32", "20", 9.44),
    (FIFO, "50mbit", "1", "20", 47.81),
    (FIFO, "50mbit", "32", "20", 47.6),
    (FIFO, "100mbit", "1", "20", 95.63),
    (FIFO, "100mbit", "32", "20", 95.62),
];
/// Repeats of a run whose median counts.
const REPEATS: u64 = 3;
/// And where 32 flows fill a FIFO at 10 Mbit/s: a thousand packets are 1.2 s of queue, and what a hole holds back when the
/// clock stops differs much from run to run (Linux: 9.05 to 9.68 Mbit/s in eleven).
const REPEATS_CROWDED: u64 = 15;

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn shaping(report: &mut Report) {
    report.section(
        "How exactly a rate is kept",
        "weir sim shaping, median of three seeds, of fifteen where 32 flows fill a FIFO at 10 Mbit/s: goodput within 1 % of Linux.",
    );
    for (qdisc, rate, flows, seconds, theirs) in SHAPING {
        let params = [("qdisc", *qdisc), ("rate", *rate), ("flows", *flows), ("seconds", *seconds)];
        let crowded = (*qdisc, *rate, *flows) == (FIFO, "10mbit", "32");
        let repeats = if crowded { REPEATS_CROWDED } else { REPEATS };
        let ours = (1..=repeats).map(|seed| mbit(&cases("shaping", &params, seed)[0].1, "down")).collect();
        let stage = qdisc.split(' ').next().unwrap_or_default();
        report.near(&format!("{stage} at {rate}, flows {flows}: Mbit/s"), middle(ours), *theirs, 0.01);
    }
}

fn completions(outcomes: &[Outcome]) -> Vec<f64> {
    let mut done: Vec<f64> = outcomes.iter().filter_map(|o| o.flows[0].completed).map(|ns| ns as f64 / 1e9).collect();
    done.sort_by(f64::total_cmp);
    done
}

fn lossy(report: &mut Report) {
    report.section(
        "A download over a link that loses a tenth, each way",
        "weir sim lossy --repeat 100: all complete, and the median lies between Linux's quartiles.",
    );
    for (sender, low, high) in [("bbr", 10.0, 13.7), ("cubic", 29.9, 44.6), ("reno", 47.6, 62.5)] {
        let runs: Vec<Outcome> =
            (1..=100).map(|seed| cases("lossy", &[("sender", sender)], seed).remove(0).1).collect();
        let done = completions(&runs);
        report.within(&format!("{sender}: complete of 100"), done.len() as f64, 100.0, 100.0);
        report.within(&format!("{sender}: median, s"), done[done.len() / 2], low, high);
    }
}

fn rto(report: &mut Report) {
    report.section(
        "The two estimators of the timeout",
        "weir sim rto --repeat 300: a small stack with six segments and no congestion control. The application gives up after 24 s without progress: a timer that stands at 1.7 s and doubles reaches that after three repairs lost in a row, and a few downloads of 300 meet this with RFC 6298 too. At 100 s, the least that RFC 1122 §4.2.3.5 lets a stack give up after, RFC 6298 completes always, and RFC 793 takes four times as long.",
    );
    let mut pictures = Vec::new();
    for (timer, patience, low, high) in [
        ("rfc6298", "24s", 294.0, 300.0),
        ("rfc6298", "100s", 300.0, 300.0),
        ("jacobson", "24s", 290.0, 300.0),
        ("rfc793", "24s", 0.0, 60.0),
        ("rfc793", "100s", 290.0, 300.0),
    ] {
        let params = [("timer", timer), ("patience", patience)];
        let runs: Vec<Outcome> = (1..=300).map(|seed| cases("rto", &params, seed).remove(0).1).collect();
        let done = completions(&runs);
        report.within(&format!("{timer}, {patience}: complete of 300"), done.len() as f64, low, high);
        if patience == "100s" {
            let (least, most) = if timer == "rfc6298" { (120.0, 300.0) } else { (400.0, 1200.0) };
            report.within(&format!("{timer}, {patience}: median, s"), middle(done), least, most);
            continue;
        }
        let points = runs[0].flows[0].points.iter().map(|p| (p.at as f64 / 1e9, p.timeout as f64 / 1e9));
        pictures.push(Line { name: timer.into(), points: points.collect() });
    }
    report.picture(
        "The timeout over time, one run each: RFC 793's grows with each loss, comes down by a fifth a sample, and stays where a lost repair outlasts the application",
        &lines(&Axes { x: "time, s", y: "timeout, s", log: true }, &pictures),
    );
}

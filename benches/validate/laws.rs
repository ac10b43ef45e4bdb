//! Each sender alone, where its law is known.

use weir::report::charts::{Axes, Line, lines};
use weir::scenario::result::{Outcome, Point};

use crate::{Report, run};

/// Payload of a full segment, bytes.
const MSS: f64 = 1448.0;
/// Payload that 100 Mbit/s carry, bits per second.
const CEILING: f64 = 1e8 * MSS / 1514.0;

pub(crate) fn all(report: &mut Report) {
    reno(report);
    cubic(report);
    dctcp(report);
    bbr(report);
}

fn bottleneck(sender: &str, aqm: &str, rtt_ms: u32, interval: &str, more: &str) -> Outcome {
    run(
        &format!(
            "duration = \"60s\"\nsteady-from = \"20s\"\ninterval = \"{interval}\"\n\
             [[node]]\nname = \"rt\"\ndown = \"{aqm} | tbf rate 100mbit burst 3028\"\n\
             [[node]]\nname = \"dl\"\ndelay = \"{}us\"\n[[flow]]\nname = \"f\"\nsender = \"{sender}\"\n{more}",
            rtt_ms * 500
        ),
        1,
    )
}

fn steady(outcome: &Outcome) -> Vec<Point> {
    let from = outcome.scenario.steady_from;
    outcome.flows[0].points.iter().copied().filter(|p| p.at >= from).collect()
}

/// `seconds` of the steady part.
fn excerpt(name: &str, points: &[Point], seconds: f64, value: impl Fn(&Point) -> f64) -> Line {
    let begin = points.first().map_or(0.0, |p| p.at as f64 / 1e9);
    let all = points.iter().map(|p| (p.at as f64 / 1e9 - begin, value(p)));
    Line { name: name.into(), points: all.take_while(|(t, _)| *t <= seconds).collect() }
}

fn packets() -> Axes<'static> {
    Axes { x: "time, s", y: "packets", log: false }
}

fn reno(report: &mut Report) {
    report.section(
        "Reno: the square root of the loss",
        "Mathis and others 1997: sqrt(3/2) / sqrt(p) packets a round trip of 50 ms, each packet acknowledged, losses at random.",
    );
    for loss in [0.0005f64, 0.001, 0.002, 0.005, 0.01] {
        let text = format!(
            "duration = \"600s\"\nsteady-from = \"60s\"\n\
             [[node]]\nname = \"a\"\ndown = \"netem loss {}% limit 1000000\"\ndelay = \"25ms\"\n\
             [[flow]]\nname = \"f\"\nsender = \"reno\"\nslow-start = \"plain\"\ndelayed-acks = false\n",
            loss * 100.0
        );
        let rate = run(&text, 7).flows[0].goodput / 8.0 / MSS;
        report.near(&format!("p = {} %: packets/s", loss * 100.0), rate, (1.5 / loss).sqrt() / 0.05, 0.15);
    }
    let outcome = bottleneck("reno", "pfifo limit 200", 20, "20ms", "delayed-acks = false\n");
    report.near("goodput at 100 Mbit/s, Mbit/s", outcome.flows[0].goodput / 1e6, CEILING / 1e6, 0.01);
    let points = steady(&outcome);
    report.picture(
        "The sawtooth over a queue of 200 packets",
        &lines(&packets(), &[excerpt("window", &points, 40.0, |p| f64::from(p.cwnd))]),
    );
}

fn cubic(report: &mut Report) {
    report.section("CUBIC: the curve", "RFC 9438 §4.2: W(t) = 0.4 (t − K)³ + W_max with K = cbrt(0.3 W_max / 0.4).");
    let outcome = bottleneck("cubic", "pfifo limit 400", 200, "50ms", "delayed-acks = false\n");
    let points = steady(&outcome);
    let falls: Vec<usize> =
        (12..points.len()).filter(|i| f64::from(points[*i].cwnd) < 0.8 * f64::from(points[i - 12].cwnd)).collect();
    let Some(first) = falls.first().copied() else {
        report.within("falls of the window", 0.0, 1.0, 100.0);
        return;
    };
    let w_max = points[first - 12..first].iter().map(|p| f64::from(p.cwnd)).fold(0.0, f64::max);
    let begin = (first..points.len()).find(|i| f64::from(points[*i].cwnd) <= 0.72 * w_max).unwrap_or(first);
    let end = falls.iter().copied().find(|i| *i > begin + 40).unwrap_or(points.len()) - 12;
    let low = points[begin..end].iter().map(|p| f64::from(p.cwnd)).fold(w_max, f64::min);
    report.near("after a loss, share of the window left", low / w_max, 0.7, 0.05);
    let k = (w_max * 0.3 / 0.4f64).cbrt();
    let at = |p: &Point| (p.at - points[begin].at) as f64 / 1e9;
    let curve = |p: &Point| 0.4 * (at(p) - k).powi(3) + w_max;
    let off = points[begin + 10..end].iter().map(|p| (f64::from(p.cwnd) / curve(p) - 1.0).abs()).fold(0.0, f64::max);
    report.within("largest distance from the curve, share", off, 0.0, 0.1);
    let shown = &points[begin..end];
    let both = [
        excerpt("window", shown, 60.0, |p| f64::from(p.cwnd)),
        Line { name: "RFC 9438".into(), points: shown.iter().map(|p| (at(p), curve(p))).collect() },
    ];
    report.picture("From one loss to the next", &lines(&packets(), &both));
}

fn dctcp(report: &mut Report) {
    report.section(
        "DCTCP: the sawtooth",
        "Alizadeh and others 2010, §3.3: a lone flow marked above K packets has alpha = sqrt(2 / W), so its window swings by alpha W / 2. Linux 6.12 in the same experiment (20 s, 95.64 Mbit/s, round trip p50 22.12 ms) has 2.6 % of its packets marked where the law has 10 %: below the law too.",
    );
    let outcome = bottleneck("dctcp", "codel ce_threshold 2420us", 20, "10ms", "");
    let points = steady(&outcome);
    let mean = |f: fn(&Point) -> f64| points.iter().map(f).sum::<f64>() / points.len() as f64;
    let (alpha, window) = (mean(|p| p.inner), mean(|p| f64::from(p.cwnd)));
    report.near("alpha", alpha, (2.0 / window).sqrt(), 0.35);
    // The middle nine tenths of the time.
    let mut windows: Vec<u32> = points.iter().map(|p| p.cwnd).collect();
    windows.sort_unstable();
    let swing = f64::from(windows[windows.len() * 19 / 20] - windows[windows.len() / 20]);
    report.near("swing of the window, packets", swing, (2.0 / window).sqrt() * window / 2.0, 0.5);
    report.within("drops", outcome.ports[0].drops[0] as f64, 0.0, 0.0);
    report.within("goodput, Mbit/s", outcome.flows[0].goodput / 1e6, 0.97 * CEILING / 1e6, 1.001 * CEILING / 1e6);
    report.picture(
        "Window and alpha × 100",
        &lines(
            &packets(),
            &[
                excerpt("window", &points, 4.0, |p| f64::from(p.cwnd)),
                excerpt("alpha × 100", &points, 4.0, |p| p.inner * 100.0),
            ],
        ),
    );
}

fn bbr(report: &mut Report) {
    report.section(
        "BBR: the probing cycle",
        "Eight phases of a round trip: one at 5/4 of the bandwidth, one at 3/4, six at it; a probe may last until the pipe is as full as it means to make it.",
    );
    let outcome = bottleneck("bbr", "pfifo limit 1000", 20, "5ms", "");
    let points = steady(&outcome);
    let share = |gain: f64| points.iter().filter(|p| p.inner == gain).count() as f64 / points.len() as f64;
    report.within("share of the time at 5/4", share(1.25), 0.08, 0.25);
    report.within("share of the time at 3/4", share(0.75), 0.03, 0.2);
    report.within("median round trip, ms", outcome.flows[0].rtt.value_at_quantile(0.5) as f64 / 1e6, 20.0, 30.0);
    report.within("goodput, Mbit/s", outcome.flows[0].goodput / 1e6, 0.93 * CEILING / 1e6, 1.001 * CEILING / 1e6);
    report.picture(
        "In flight, and the gain × 100",
        &lines(
            &packets(),
            &[
                excerpt("in flight", &points, 2.0, |p| f64::from(p.in_flight)),
                excerpt("gain × 100", &points, 2.0, |p| p.inner * 100.0),
            ],
        ),
    );
}

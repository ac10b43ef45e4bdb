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

/// Linux 6.12 in the same experiment (8 s, from 4 s on): round trip in ms, window in packets, alpha, marked of all packets.
const DCTCP: [(u32, f64, f64, f64); 2] = [(2, 37.5, 0.0635, 0.0638), (10, 102.4, 0.0446, 0.0392)];
/// The same at 20 ms, where Linux has two ways: marked of all packets, from a quarter below the least of four runs to the
/// most.
const DCTCP_FAR: (f64, f64) = (0.019, 0.126);

fn dctcp(report: &mut Report) {
    report.section(
        "DCTCP: the sawtooth",
        "Alizadeh and others 2010, §3.3: a lone flow marked above K packets has alpha = sqrt(2 / W), if all that is sent in a round trip is marked alike. Linux sends trains, of which a step marks the last segments only, so its alpha is well below: 0.064 and 0.045 where the law has 0.23 and 0.14. And it counts alpha in whole parts of 1024, of which fewer than 16 are forgotten at once: at 20 ms a flow can stay so near zero that its window does not fall at all. Linux has 2.6 % of the packets marked in one run there, 11.3 to 12.1 % in three others.",
    );
    for (rtt, window, alpha, marked) in DCTCP {
        let outcome = bottleneck("dctcp", "codel ce_threshold 2420us", rtt, "10ms", "");
        let points = steady(&outcome);
        let mean = |f: fn(&Point) -> f64| points.iter().map(f).sum::<f64>() / points.len() as f64;
        report.near(&format!("window at {rtt} ms, packets"), mean(|p| f64::from(p.cwnd)), window, 0.03);
        report.near(&format!("alpha at {rtt} ms"), mean(|p| p.inner), alpha, 0.2);
        report.near(&format!("marked at {rtt} ms, share"), share_marked(&outcome), marked, 0.2);
        report.within(&format!("drops at {rtt} ms"), outcome.ports[0].drops[0] as f64, 0.0, 0.0);
        let goodput = outcome.flows[0].goodput / 1e6;
        report.within(&format!("goodput at {rtt} ms, Mbit/s"), goodput, 0.99 * CEILING / 1e6, 1.001 * CEILING / 1e6);
    }
    let outcome = bottleneck("dctcp", "codel ce_threshold 2420us", 20, "10ms", "");
    report.within("marked at 20 ms, share", share_marked(&outcome), DCTCP_FAR.0, DCTCP_FAR.1);
    let points = steady(&outcome);
    report.picture(
        "Window and alpha × 1000, 20 ms",
        &lines(
            &packets(),
            &[
                excerpt("window", &points, 4.0, |p| f64::from(p.cwnd)),
                excerpt("alpha × 1000", &points, 4.0, |p| p.inner * 1000.0),
            ],
        ),
    );
}

fn share_marked(outcome: &Outcome) -> f64 {
    let flow = &outcome.flows[0];
    let seconds = (outcome.scenario.duration - outcome.scenario.steady_from) as f64 / 1e9;
    outcome.ports[0].marks[1] as f64 / (flow.goodput / 8.0 / 1448.0 * seconds)
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

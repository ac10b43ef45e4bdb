//! Experiments that were done with Linux 6.12 and that no sender was looked at for while it was written.

use weir::report::summary::percentile;

use crate::{Report, cases};

pub(crate) fn all(report: &mut Report) {
    thresholds(report);
    shaping(report);
}

/// Discipline, sender, goodput in Mbit/s, and round trips in ms at percentiles.
type Row = (&'static str, &'static str, f64, &'static [(f64, f64)]);

const THRESHOLDS: &[Row] = &[
    ("fq_codel", "dctcp", 956.4, &[(50.0, 1.236), (95.0, 1.49), (99.0, 1.696)]),
    ("codel", "bbr", 955.3, &[(50.0, 13.061), (90.0, 13.094), (99.0, 13.807)]),
    ("codel", "cubic", 921.3, &[(50.0, 1.065)]),
    ("fq_codel", "cubic", 837.9, &[(50.0, 1.005)]),
];

fn thresholds(report: &mut Report) {
    report.section(
        "Not looked at before: twenty flows of other senders at a threshold of 242 µs",
        "weir sim bbr20 --param seconds=10, 1 Gbit/s and 1 ms: goodput within 5 % of Linux, round trips within 10 %.",
    );
    for (aqm, sender, goodput, percentiles) in THRESHOLDS {
        let (_, outcome) = cases("bbr20", &[("aqm", *aqm), ("sender", *sender), ("seconds", "10")], 1).remove(0);
        report.near(&format!("{aqm}, {sender}: Mbit/s"), outcome.goodput("flow") / 1e6, *goodput, 0.05);
        for (p, theirs) in *percentiles {
            let what = format!("{aqm}, {sender}: round trip p{p}, ms");
            report.near(&what, percentile(&outcome.rtt("flow"), *p), *theirs, 0.1);
        }
    }
}

const CODEL: &str = "codel | tbf rate RATE burst BURST";
const CODEL_STEP: &str = "codel ce_threshold 1ms | tbf rate RATE burst BURST";
const FQ: &str = "fq_codel | tbf rate RATE burst BURST";
const FQ_STEP: &str = "fq_codel ce_threshold 1ms | tbf rate RATE burst BURST";
/// Pipeline, flows, sender, and Linux' medians of five: Mbit/s, packets dropped, packets marked.
const SHAPING: &[(&str, &str, &str, f64, f64, f64)] = &[
    ("cake bandwidth RATE", "1", "cubic", 18.91, 15.0, 0.0),
    ("cake bandwidth RATE", "32", "cubic", 19.12, 5236.0, 0.0),
    (CODEL, "1", "cubic", 19.05, 14.0, 0.0),
    (CODEL, "32", "cubic", 19.11, 1697.0, 0.0),
    (CODEL_STEP, "8", "dctcp", 18.59, 0.0, 7196.0),
    (FQ, "1", "cubic", 19.05, 14.0, 0.0),
    (FQ, "32", "cubic", 19.12, 2116.0, 0.0),
    (FQ_STEP, "8", "dctcp", 18.92, 0.0, 6421.0),
];

fn shaping(report: &mut Report) {
    report.section(
        "Not looked at before: a shaper at 20 Mbit/s and 20 ms",
        "weir sim shaping --param rate=20mbit --param seconds=10, the first of the README's virtual tables with our senders in the kernel's place: goodput within 2 %, packets dropped and marked within 15 %.",
    );
    for (qdisc, flows, sender, goodput, drops, marks) in SHAPING {
        let params = [("qdisc", *qdisc), ("rate", "20mbit"), ("flows", *flows), ("sender", *sender), ("seconds", "10")];
        let (_, outcome) = cases("shaping", &params, 1).remove(0);
        let stage = qdisc.split(" |").next().unwrap_or_default().trim_end_matches(" bandwidth RATE");
        let what = format!("{stage}, {flows} {sender}");
        report.near(&format!("{what}: Mbit/s"), outcome.goodput("down") / 1e6, *goodput, 0.02);
        let port = &outcome.ports[0];
        for (name, ours, theirs) in [("dropped", port.drops, drops), ("marked", port.marks, marks)] {
            if *theirs > 0.0 {
                report.near(&format!("{what}: {name}"), ours[0] as f64, *theirs, 0.15);
            }
        }
    }
}

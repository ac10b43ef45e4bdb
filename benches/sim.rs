//! How fast virtual time runs: millions of frames through ports per second of wall time, on one core.
//!
//! ```text
//! cargo bench --bench sim --no-default-features
//! ```
//!
//! A figure is the best of five runs; other work on the machine only ever takes away.

use std::time::Instant as Wall;

use weir::pipeline::Link;
use weir::scenario::builtin;
use weir::scenario::file;
use weir::sim;

const ROUNDS: usize = 5;

/// Scenarios with what differs from their defaults.
const ROWS: &[(&str, &[(&str, &str)])] = &[
    ("bbr20", &[("sender", "dctcp"), ("seconds", "5")]),
    ("bbr20", &[("sender", "bbr2"), ("seconds", "5")]),
    ("rrul", &[("seconds", "60")]),
    ("shaping", &[("qdisc", "fq_codel | tbf rate RATE burst BURST")]),
    ("mtu-scaling", &[("load", "down32"), ("rule", "kernel"), ("seconds", "300")]),
];

fn main() {
    for (name, params) in ROWS {
        let given: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let built_in = builtin::named(name).expect("a built-in scenario");
        let case = builtin::cases(built_in, &given).expect("its parameters").remove(0);
        let (scenario, _) = file::read(&case.text, &sim::SENDERS).expect("a scenario");
        let once = || {
            let simulation = sim::build(&scenario, 1, Link::default()).expect("known senders");
            let begun = Wall::now();
            let outcome = simulation.run(None);
            (outcome.frames, outcome.elapsed as f64 / 1e9, begun.elapsed().as_secs_f64())
        };
        let runs: Vec<_> = (0..ROUNDS).map(|_| once()).collect();
        let best = runs.iter().min_by(|a, b| a.2.total_cmp(&b.2)).expect("there are rounds");
        let rate = best.0 as f64 / best.2 / 1e6;
        println!("{:28} {rate:6.2} M frames/s  {:9} frames, {:.0} s in {:.3} s", case.name, best.0, best.1, best.2);
    }
}

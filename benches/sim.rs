//! How fast virtual time runs: frames through ports per second of wall time, on one core.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weir::pipeline::Link;
use weir::scenario::builtin;
use weir::scenario::file;
use weir::sim;

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("sim");
    group.sample_size(10);
    for (name, params) in [
        ("bbr20", [("sender", "dctcp"), ("seconds", "2")]),
        ("rrul", [("sender", "cubic"), ("seconds", "5")]),
        ("mtu-scaling", [("load", "down32"), ("rule", "kernel")]),
    ] {
        let given: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let built_in = builtin::named(name).expect("a built-in scenario");
        let text = builtin::cases(built_in, &given).expect("its parameters").remove(0).text;
        let (scenario, _) = file::read(&text, &sim::SENDERS).expect("a scenario");
        let run = || sim::build(&scenario, 1, Link::default()).expect("known senders").run(None).frames;
        group.throughput(Throughput::Elements(run()));
        group.bench_function(name, |b| b.iter(run));
    }
    group.finish();
}

criterion_group!(benches, frames);
criterion_main!(benches);

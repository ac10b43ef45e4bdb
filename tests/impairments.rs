//! What impairments do to many packets, in virtual time.

use std::collections::HashMap;

use weir::classify::{Hashing, Headers};
use weir::packet::Packet;
use weir::pipeline::{Link, Pipeline};
use weir::pool::{Frame, NoFrames, Pool};
use weir::qdisc::netem::Tally;
use weir::qdisc::{Cx, Drops, Reason};
use weir::rng::Random;
use weir::spec;
use weir::stats::StageStats;
use weir::time::Instant;

const MS: u64 = 1_000_000;
const START: Instant = Instant::from_nanos(1 << 40);

/// A pipeline whose last stage is asked after each arrival and at each timer.
struct Bench {
    pipeline: Pipeline,
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    dropped: HashMap<Reason, u64>,
    arrivals: u64,
    now: Instant,
}

/// A packet that left: number, arrival and departure after the start in ns, length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    id: u32,
    came: u64,
    left: u64,
    len: u32,
}

impl Bench {
    fn new(line: &str) -> Self {
        Bench::of(spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec.build(Link::default()))
    }

    fn of(mut pipeline: Pipeline) -> Self {
        pipeline.start(START);
        Bench {
            pipeline,
            pool: Pool::new(1 << 17),
            drops: Drops::default(),
            random: Random::seeded(1),
            hashing: Hashing::Numbered(Default::default()),
            dropped: HashMap::new(),
            arrivals: 0,
            now: START,
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Pipeline, &mut Cx<'_>) -> T) -> T {
        let mut frames = NoFrames;
        let mut cx = Cx {
            pool: &mut self.pool,
            drops: &mut self.drops,
            random: &mut self.random,
            hashing: &mut self.hashing,
            frames: &mut frames,
        };
        work(&mut self.pipeline, &mut cx)
    }

    fn serve(&mut self, now: Instant, out: &mut impl FnMut(Left)) {
        self.now = now;
        while let Some(frame) = self.with(|p, cx| p.dequeue(now, cx)) {
            self.take(frame, now, out);
        }
        while let Some((frame, reason)) = self.drops.pop(&mut self.pool) {
            *self.dropped.entry(reason).or_default() += 1;
            self.pool.give(frame);
        }
    }

    fn take(&mut self, frame: Frame, now: Instant, out: &mut impl FnMut(Left)) {
        let packet = &self.pool[&frame];
        out(Left { id: packet.fwmark, came: packet.arrived.since(START), left: now.since(START), len: packet.len });
        self.pool.give(frame);
    }

    fn until(&mut self, end: Instant, out: &mut impl FnMut(Left)) {
        while let Some(t) = self.pipeline.next_event().filter(|t| *t < end) {
            let t = t.max(self.now);
            self.with(|p, cx| p.tick(t, cx));
            self.serve(t, out);
        }
    }

    fn arrive(&mut self, at: u64, len: u32, out: &mut impl FnMut(Left)) {
        let now = START + at;
        self.until(now, out);
        let frame = self.pool.take().expect("a record is free");
        let packet = &mut self.pool[&frame];
        *packet = Packet::default();
        (packet.arrived, packet.len, packet.fwmark) = (now, len, self.arrivals as u32);
        self.arrivals += 1;
        self.with(|p, cx| p.enqueue(now, frame, &Headers::default(), cx));
        self.serve(now, out);
    }

    /// `n` packets of `len` bytes, `gap` ns apart, and then until all have left.
    fn stream(&mut self, n: u64, len: u32, gap: u64, mut out: impl FnMut(Left)) {
        for i in 0..n {
            self.arrive(i * gap, len, &mut out);
        }
        self.until(Instant::NEVER, &mut out);
    }

    fn netem(&self) -> Tally {
        let stats = self.pipeline.stages().map(|s| s.stats(self.now));
        let netem = stats.filter_map(|s| if let StageStats::Netem(n) = s { Some(n.tally) } else { None }).next();
        netem.expect("there is a netem")
    }

    /// What each stage was handed and made is what it sent, dropped and holds.
    fn check_conservation(&self) {
        for (stage, received) in self.pipeline.stages().zip(self.pipeline.received()) {
            let stats = stage.stats(self.now);
            let made = if let StageStats::Netem(n) = &stats { n.tally.duplicated } else { 0 };
            let basic = stats.basic();
            assert_eq!(
                received + made,
                basic.sent_packets + basic.drops + u64::from(stage.packets()),
                "{} at {:?}",
                stats.kind(),
                self.now
            );
        }
    }
}

fn near(value: f64, expected: f64, by: f64) {
    assert!((value - expected).abs() <= by, "{value} is not within {by} of {expected}");
}

/// The share of a million packets that is lost.
fn loss(words: &str) -> f64 {
    let mut bench = Bench::new(&format!("netem {words} seed 11"));
    let mut left = 0u64;
    bench.stream(1_000_000, 1000, 1000, |_| left += 1);
    assert_eq!(bench.dropped.get(&Reason::Loss).copied().unwrap_or(0), 1_000_000 - left);
    1.0 - left as f64 / 1e6
}

#[test]
fn random_loss_loses_the_share_that_was_asked_for() {
    // Four standard deviations of a million draws.
    near(loss("loss 10%"), 0.10, 0.0012);
    near(loss("loss 0.1%"), 0.001, 0.00013);
}

#[test]
fn chains_lose_the_share_of_their_long_run() {
    for words in
        ["loss gemodel 1% 10%", "loss gemodel 1% 10% 70% 0.1%", "loss state 1% 10%", "loss state 2% 30% 20% 40% 0.5%"]
    {
        let line = format!("netem {words}");
        let spec::Stage::Netem(params) = spec::parse(&line).unwrap().spec.stages()[0].clone() else { panic!("{line}") };
        let expected = params.loss.long_run();
        // Bursts of ten make the share of a million packets uncertain by 1.3 %, one standard deviation.
        near(loss(words), expected, expected * 0.053);
    }
}

#[test]
fn gilbert_and_elliott_lose_in_bursts_of_the_length_that_was_asked_for() {
    let mut bench = Bench::new("netem loss gemodel 1% 10% seed 5");
    let (mut last, mut bursts, mut lost) = (None::<u32>, 0u64, 0u64);
    bench.stream(1_000_000, 1000, 1000, |p| {
        let missing = p.id - last.map_or(0, |l| l + 1);
        last = Some(p.id);
        lost += u64::from(missing);
        bursts += u64::from(missing > 0);
    });
    near(lost as f64 / bursts as f64, 10.0, 0.3);
}

#[test]
fn correlation_distorts_random_loss_as_it_does_in_the_kernel() {
    for (words, share) in [
        ("loss 10% 10%", 0.0556),
        ("loss 30% 10%", 0.278),
        ("loss 10% 25%", 0.0176),
        ("loss 30% 25%", 0.234),
        ("loss 30% 50%", 0.130),
        ("loss 30% 75%", 0.032),
    ] {
        near(loss(words), share, 0.003);
    }
}

#[test]
fn that_share_is_doubled_and_damaged() {
    let mut bench = Bench::new("netem duplicate 10% corrupt 5% seed 3");
    let mut left = 0u64;
    bench.stream(1_000_000, 1000, 1000, |_| left += 1);
    near(left as f64 / 1e6, 1.10, 0.0012);
    let t = bench.netem();
    near(t.duplicated as f64 / 1e6, 0.10, 0.0012);
    // Copies are damaged on their own account.
    near(t.corrupted as f64 / 1.1e6, 0.05, 0.001);
    assert!(bench.dropped.is_empty());
}

/// Delays in ns of packets 10 µs apart, and how many left after one that came later.
fn delays(words: &str, n: u64) -> (Vec<u64>, u64) {
    let mut bench = Bench::new(&format!("netem limit 100000 {words} seed 7"));
    let (mut out, mut overtaken, mut newest) = (Vec::new(), 0, 0);
    bench.stream(n, 1000, 10_000, |p| {
        out.push(p.left - p.came);
        overtaken += u64::from(p.id < newest);
        newest = newest.max(p.id);
    });
    assert!(bench.dropped.is_empty());
    (out, overtaken)
}

fn mean(values: &[u64]) -> f64 {
    values.iter().map(|v| *v as f64).sum::<f64>() / values.len() as f64
}

#[test]
fn a_uniform_jitter_stays_within_its_bounds() {
    for correlation in ["", "25%"] {
        let (delays, overtaken) = delays(&format!("delay 100ms 20ms {correlation}"), 1_000_000);
        assert!(delays.iter().all(|d| (80 * MS..120 * MS).contains(d)));
        near(mean(&delays), 100e6, 1e6);
        assert!(overtaken > 900_000, "jitter reorders by design: {overtaken}");
    }
    let (frozen, overtaken) = delays("delay 100ms 20ms 100%", 10_000);
    assert!(frozen.iter().all(|d| *d == frozen[0]), "full correlation never moves");
    assert_eq!(overtaken, 0);
}

#[test]
fn a_normal_jitter_has_the_standard_deviation_that_was_asked_for_and_is_clipped_at_four() {
    for correlation in ["", "25%"] {
        let (delays, _) = delays(&format!("delay 100ms 20ms {correlation} distribution normal"), 1_000_000);
        assert!(delays.iter().all(|d| (20 * MS..180 * MS).contains(d)));
        let mean = mean(&delays);
        near(mean, 100e6, 0.1e6);
        let variance = delays.iter().map(|d| (*d as f64 - mean).powi(2)).sum::<f64>() / delays.len() as f64;
        near(variance.sqrt(), 20e6, 0.1e6);
    }
}

#[test]
fn pareto_delays_have_a_long_tail_on_one_side() {
    let (delays, _) = delays("delay 100ms 20ms distribution pareto", 200_000);
    let (least, most) = (delays.iter().min().unwrap() / MS, delays.iter().max().unwrap() / MS);
    assert_eq!((least, most), (86, 179), "-5461/8192 and 32767/8192 of a jitter");
    near(mean(&delays), 100e6 - 0.03349 * 20e6, 0.2e6);
}

#[test]
fn ordered_jitter_does_not_reorder() {
    for shape in ["", "distribution normal"] {
        let (delays, overtaken) = delays(&format!("delay 100ms 20ms {shape} ordered"), 200_000);
        assert_eq!(overtaken, 0);
        assert!(mean(&delays) > 100e6, "waiting for the ones before costs time");
    }
}

#[test]
fn a_delay_line_of_its_default_size_drops_where_the_network_would_not() {
    // 1 Gbit/s of full frames and 200 ms: 16513 of them are under way.
    let run = |limit: &str| {
        let mut bench = Bench::new(&format!("netem {limit} delay 200ms | pfifo limit 50 | tbf rate 1gbit burst 10k"));
        let mut left = 0u64;
        bench.stream(40_000, 1514, 12_112, |p| {
            assert!(p.left - p.came >= 200 * MS);
            left += 1;
        });
        bench.check_conservation();
        (left, bench.netem().limit_dropped, bench.dropped.values().sum::<u64>())
    };
    assert_eq!(run("limit 16514"), (40_000, 0, 0));
    let (left, at_the_limit, dropped) = run("");
    assert_eq!(
        (left + dropped, at_the_limit),
        (40_000, dropped),
        "the drops are those of the limit, and counted as such"
    );
    assert!(dropped > 30_000);
}

#[test]
fn a_recorded_link_behind_a_delay_delivers_what_was_recorded_to_the_packet() {
    // 60 and 417 full packets each millisecond: 720 and 5004 Mbit/s.
    for per_ms in [60u64, 417] {
        let path = std::env::temp_dir().join(format!("weir-impairments-{}-{per_ms}", std::process::id()));
        std::fs::write(&path, "1\n".repeat(per_ms as usize)).unwrap();
        let line = format!("netem limit 100000 delay 20ms | codel limit 5000 | link {}", path.display());
        let mut bench = Bench::new(&line);
        std::fs::remove_file(&path).unwrap();
        // A tenth more than fits, for 100 ms.
        let n = per_ms * 110;
        let mut by_ms = vec![0u64; 200];
        bench.stream(n, 1514, 100 * MS / n, |p| by_ms[(p.left / MS) as usize] += 1);
        bench.check_conservation();
        assert_eq!(by_ms.iter().take(21).sum::<u64>(), 0);
        // From the second on there is always enough to send, until the last has come.
        assert!(by_ms[22..120].iter().all(|k| *k == per_ms), "{by_ms:?}");
        let sent: u64 = by_ms.iter().sum();
        assert_eq!(sent + bench.dropped.values().sum::<u64>(), n);
    }
}

#[test]
fn packets_leave_in_slots_only_and_no_more_than_fit() {
    let run = |seed: u64| {
        let line = format!("netem limit 20000 slot 800us 10ms packets 42 bytes 64k seed {seed}");
        let mut bench = Bench::new(&line);
        let mut out = Vec::new();
        // 200 Mbit/s of full frames.
        bench.stream(20_000, 1514, 60_560, |p| out.push(p));
        out
    };
    let left = run(1);
    assert_eq!(left, run(1));
    assert_ne!(left, run(2));
    let slots: Vec<&[Left]> = left.chunk_by(|a, b| a.left == b.left).collect();
    assert!(slots.len() > 400);
    for slot in &slots {
        let bytes: u32 = slot.iter().map(|p| p.len).sum();
        assert!(slot.len() <= 42 && bytes < 65_536 + 1514, "{} packets, {bytes} bytes", slot.len());
    }
    // While more waits than fits, the next slot opens within the bounds.
    let full: Vec<u64> = slots.windows(2).filter(|w| w[0].len() == 42).map(|w| w[1][0].left - w[0][0].left).collect();
    assert!(full.len() > 100);
    assert!(full.iter().all(|gap| (800_000..=10 * MS).contains(gap)));
    near(mean(&full), 5.4e6, 0.6e6);
}

#[test]
fn an_aqm_behind_a_delay_does_not_see_the_delay() {
    let mut bench = Bench::new("netem limit 2000 delay 200ms | codel | tbf rate 100mbit burst 10k");
    let mut late = 0;
    bench.stream(5_000, 1514, 130_000, |p| late = late.max(p.left - p.came));
    assert!(bench.dropped.is_empty());
    assert!(late < 201 * MS);
}

#[test]
fn every_stage_accounts_for_every_packet_after_every_call() {
    for line in [
        "netem delay 5ms 4ms loss 2% duplicate 5% corrupt 1% reorder 5% gap 3 seed 4 | fq_codel limit 60 | tbf rate 20mbit burst 5k",
        "netem limit 20 delay 5ms duplicate 50% seed 4 | codel | htb rate 20mbit | netem delay 3ms loss gemodel 5% 50%",
        "pfifo limit 30 | htb rate 20mbit ceil 40mbit burst 10k | tbf rate 25mbit burst 4k",
        "codel | tbf rate 30mbit burst 5k | netem rate 25mbit 20 48 5 slot 1ms 2ms packets 3 seed 1 | pfifo limit 20 | tbf rate 20mbit burst 5k",
    ] {
        let mut bench = Bench::new(line);
        let mut made = 0;
        let mut left = 0;
        for i in 0..4000u64 {
            // Bursts of 20, at 30 Mbit/s on average.
            bench.arrive(i / 20 * 20 * 400_000, 100 + (i * 37 % 1400) as u32, &mut |_| left += 1);
            bench.check_conservation();
        }
        bench.until(Instant::NEVER, &mut |_| left += 1);
        bench.check_conservation();
        if line.contains("netem") {
            made = bench.netem().duplicated;
        }
        assert_eq!(bench.pipeline.packets(), 0, "{line}");
        assert_eq!(left + bench.dropped.values().sum::<u64>(), 4000 + made, "{line}");
        assert_eq!(bench.pool.free(), bench.pool.capacity(), "{line}");
    }
}

#[test]
fn a_run_with_a_seed_is_the_same_run() {
    let run = |seed: u64| {
        let mut bench = Bench::new("netem delay 10ms 5ms distribution paretonormal loss 5% duplicate 5% reorder 5%");
        bench.random = Random::seeded(seed);
        let mut out = Vec::new();
        bench.stream(2_000, 1000, 100_000, |p| out.push(p));
        out
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2), "without a seed of its own the stage takes the run's");
}

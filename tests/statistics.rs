//! What the statistics say, against what was sent: whole engines in virtual time.

use weir::classify::Hashing;
use weir::engine::{Engine, Parts, Snapshot};
use weir::pipeline::Link;
use weir::port::memory::{Chunks, MemoryRx, MemoryTx};
use weir::qdisc::Reason;
use weir::rng::Random;
use weir::spec::{self, Spec};
use weir::stats::StageStats;
use weir::stats::histogram::Sojourns;
use weir::time::{Instant, MICROSECOND, MILLISECOND, SECOND};
use weir::wire::build::Build;

type Line = Engine<MemoryRx, MemoryTx>;

const START: Instant = Instant::from_nanos(1 << 40);

fn read(line: &str) -> Spec {
    spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec
}

fn engine(line: &str, room: usize) -> Line {
    let capacity = 4096;
    Engine::new(Parts {
        rx: MemoryRx::new(512),
        tx: MemoryTx::new(room, 1514),
        frames: Chunks::new(capacity, 2048),
        capacity,
        pipeline: read(line).build(Link::default()),
        random: Random::seeded(1),
        hashing: Hashing::Keyed([1, 2]),
    })
}

/// A UDP frame of `len` bytes with a DS byte, of flow `port`.
fn frame(len: u32, ds: u8, port: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (src, dst) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    Build { len, src, dst, protocol: 17, sport: port, dport: 9, ds, tcp: None }.write(&mut bytes);
    bytes.resize(len as usize, 0);
    bytes
}

/// Turns at each event until `until`; the time of each departure.
fn run(e: &mut Line, from: Instant, until: Instant, departures: &mut Vec<Instant>) {
    let mut now = from;
    while now < until {
        let sent = e.turn(now).sent;
        departures.extend(std::iter::repeat_n(now, sent));
        let next = e.next_event().unwrap_or(until).min(until);
        // What completed or is left over from a burst is due at once.
        now = if sent > 0 { now + 1 } else { next.max(now + 1) };
    }
}

fn sums_close(s: &Snapshot) {
    let c = &s.counters;
    assert_eq!(c.received_packets, c.sent_packets + s.drops.total() + u64::from(s.backlog_packets));
    assert_eq!(c.arrived.total(), c.received_packets);
    assert_eq!(c.left.total(), c.sent_packets);
    assert_eq!(s.census.missing(), 0);
}

#[test]
fn packets_and_bytes_equal_what_was_offered_at_an_unlimited_rate_and_at_the_offered_one() {
    // Frames of 60 to 1513 bytes, one each 10 µs: 629.2 Mbit/s.
    for line in
        ["pfifo limit 1000", "pfifo limit 1000 | tbf rate 630mbit burst 5k", "cake unlimited", "cake bandwidth 630mbit"]
    {
        let mut e = engine(line, 64);
        let (mut packets, mut bytes) = (0u64, 0u64);
        for i in 0..50_000u64 {
            let len = 60 + (i * 7919 % 1454) as u32;
            let now = START + i * 10 * MICROSECOND;
            e.rx_mut().arriving.push_back((now, frame(len, 2, 5)));
            run(&mut e, now, now + 10 * MICROSECOND, &mut Vec::new());
            (packets, bytes) = (packets + 1, bytes + u64::from(len));
            e.tx_mut().sent.clear();
        }
        let end = START + SECOND;
        run(&mut e, end, end + SECOND, &mut Vec::new());
        let s = e.snapshot(end + SECOND);
        sums_close(&s);
        let c = &s.counters;
        assert_eq!((c.received_packets, c.received_bytes), (packets, bytes), "{line}");
        assert_eq!((c.sent_packets + s.drops.total(), s.backlog_bytes), (packets, 0), "{line}");
        let stage = s.stages[0].basic();
        assert_eq!((stage.sent_packets, stage.sent_bytes), (c.sent_packets, c.sent_bytes), "{line}");
    }
}

#[test]
fn of_fifteen_packets_in_a_burst_ten_wait_and_five_are_dropped_with_their_reason() {
    let mut e = engine("pfifo limit 10", 64);
    e.tx_mut().up = false;
    e.rx_mut().arriving.extend((0..15).map(|n| (START, frame(100, 0, n))));
    e.turn(START);
    let s = e.snapshot(START);
    assert_eq!(s.drops.happened().collect::<Vec<_>>(), [(Reason::QueueFull, 5, 500)]);
    assert_eq!((s.counters.received_packets, s.backlog_packets, s.backlog_bytes), (15, 10, 1000));
    sums_close(&s);
    e.tx_mut().up = true;
    e.turn(START + MILLISECOND);
    let s = e.snapshot(START + MILLISECOND);
    assert_eq!((s.counters.sent_packets, s.backlog_packets, s.drops.total()), (10, 0, 5));
    sums_close(&s);
}

#[test]
fn sums_over_the_tins_are_those_of_the_direction_in_the_same_snapshot() {
    let mut e = engine("cake bandwidth 10mbit diffserv4", 4);
    let mut departures = Vec::new();
    for i in 0..2000u64 {
        let now = START + i * 500 * MICROSECOND;
        // CS1, best effort, AF41 and EF, the last two rarely.
        let ds = [8 << 2, 0, 0, 34 << 2, 0, 0, 46 << 2, 8 << 2][i as usize % 8] | 2;
        e.rx_mut().arriving.push_back((now, frame(1000, ds, i as u16 % 16)));
        run(&mut e, now, now + 500 * MICROSECOND, &mut departures);
    }
    let now = START + SECOND;
    let s = e.snapshot(now);
    sums_close(&s);
    let StageStats::Cake(cake) = &s.stages[0] else { panic!("cake was asked for") };
    let sum = |f: &dyn Fn(&weir::qdisc::cake::TinStats) -> u64| cake.tins.iter().map(f).sum::<u64>();
    assert!(s.backlog_bytes > 0 && s.counters.marked_ecn > 0, "10 Mbit/s cannot carry 16");
    assert_eq!(sum(&|t| t.backlog), s.backlog_bytes);
    assert_eq!(sum(&|t| t.counters.packets), s.counters.received_packets);
    assert_eq!(sum(&|t| t.counters.drops + t.counters.ack_drops), s.drops.total());
    assert_eq!(sum(&|t| t.counters.marks), s.counters.marked_ecn);

    let mut sojourns = Sojourns::new();
    e.swap_sojourns(&mut sojourns);
    let lens: Vec<u64> = sojourns.tins.iter().map(|h| h.len()).collect();
    assert_eq!(lens.iter().sum::<u64>(), s.counters.sent_packets);
    let names: Vec<_> = s.stages[0].tins();
    assert_eq!(names.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["Bulk", "Best Effort", "Video", "Voice"]);
    let of = |name: &str| &sojourns.tins[names.iter().find(|(n, _)| n == name).unwrap().1];
    assert!(of("Voice").len() > 100 && of("Voice").value_at_quantile(0.5) < of("Bulk").value_at_quantile(0.5));
}

#[test]
fn a_backlog_beyond_32_bits_is_counted_in_64() {
    use weir::classify::Headers;
    use weir::pool::{NoFrames, Pool};
    use weir::qdisc::{Cx, Drops};
    let mut pool = Pool::new(5000);
    let (mut drops, mut random) = (Drops::default(), Random::seeded(1));
    let mut hashing = Hashing::Keyed([1, 2]);
    let mut pipeline = read("pfifo limit 5000").build(Link::default());
    for _ in 0..5000 {
        let frame = pool.take().unwrap();
        pool[&frame].len = 1 << 20;
        pool[&frame].truesize = 1 << 20;
        let mut cx = Cx {
            pool: &mut pool,
            drops: &mut drops,
            random: &mut random,
            hashing: &mut hashing,
            frames: &mut NoFrames,
        };
        pipeline.enqueue(START, frame, &Headers::default(), &mut cx);
    }
    assert_eq!(pipeline.bytes(), 5000 << 20);
    assert_eq!(pipeline.stats(START)[0].basic().backlog, 5_242_880_000);
}

/// A full load of 100 Mbit/s, and a change each 50 ms; no packet is lost by a change, and no ten
/// packets leave faster than the higher of the two rates and `slack` bytes more.
fn changes_under_load(slack: u64, specs: &[(&str, u64)]) {
    let mut e = engine(specs[0].0, 64);
    let mut departures = Vec::new();
    let len = 1250u64;
    let mut now = START;
    for k in 0..40 {
        let (line, rate) = specs[k % specs.len()];
        let before = if k == 0 { rate } else { specs[(k - 1) % specs.len()].1 };
        if k > 0 {
            e.change(&read(line), Link::default(), now).unwrap();
        }
        let first = departures.len().saturating_sub(9);
        for _ in 0..500 {
            e.rx_mut().arriving.push_back((now, frame(len as u32, 0, 5)));
            run(&mut e, now, now + 100 * MICROSECOND, &mut departures);
            now = now + 100 * MICROSECOND;
        }
        for window in departures[first..].windows(10) {
            let higher = before.max(rate);
            let time = window[9].since(window[0]);
            // Nine packets leave after the first.
            let allowed = higher as f64 / 8e9 * time as f64 + slack as f64;
            assert!(9.0 * len as f64 <= allowed + 1.0, "{k}: {line}: nine packets in {time} ns");
        }
    }
    let s = e.snapshot(now);
    sums_close(&s);
    assert_eq!(s.drops.packets[Reason::Flushed as usize], 0);
    assert!(departures.len() > 1500, "{}", departures.len());
}

#[test]
fn a_shaper_that_changes_its_rate_each_50_ms_loses_nothing_and_gives_no_burst() {
    changes_under_load(
        1250,
        &[
            ("pfifo limit 1000 | tbf rate 10mbit burst 1500", 10_000_000),
            ("pfifo limit 1000 | tbf rate 20mbit burst 1500", 20_000_000),
            ("pfifo limit 1000 | tbf rate 5mbit burst 1500", 5_000_000),
        ],
    );
}

#[test]
fn htb_and_cake_change_likewise() {
    // htb sends as long as it is not in debt: its burst, and one packet.
    changes_under_load(
        1500 + 1250,
        &[
            ("pfifo limit 1000 | htb rate 10mbit burst 1500 cburst 1500", 10_000_000),
            ("pfifo limit 1000 | htb rate 20mbit burst 1500 cburst 1500", 20_000_000),
            ("pfifo limit 1000 | htb rate 5mbit burst 1500 cburst 1500", 5_000_000),
        ],
    );
    changes_under_load(
        1250,
        &[
            ("cake bandwidth 10mbit besteffort flowblind", 10_000_000),
            ("cake bandwidth 20mbit besteffort flowblind", 20_000_000),
            ("cake bandwidth 5mbit besteffort flowblind", 5_000_000),
        ],
    );
}

#[test]
fn an_impairment_that_changes_keeps_what_is_under_way() {
    let mut e = engine("netem delay 10ms", 64);
    e.rx_mut().arriving.extend((0..5).map(|n| (START, frame(100, 0, n))));
    e.turn(START);
    e.change(&read("netem delay 50ms"), Link::default(), START + MILLISECOND).unwrap();
    let mut departures = Vec::new();
    e.rx_mut().arriving.push_back((START + MILLISECOND, frame(100, 0, 9)));
    run(&mut e, START + MILLISECOND, START + SECOND, &mut departures);
    let after: Vec<u64> = departures.iter().map(|t| t.since(START) / MILLISECOND).collect();
    assert_eq!(after, [10, 10, 10, 10, 10, 51]);
}

#[test]
fn a_change_that_cannot_be_changes_no_stage_at_all() {
    let mut e = engine("codel | tbf rate 10mbit burst 5k", 64);
    let before = format!("{:?}", e.snapshot(START).stages);
    for (line, why) in [
        ("fq_codel | tbf rate 20mbit burst 5k", "codel is at work and fq_codel is wanted"),
        ("codel limit 5", "pulls from no other stage|is at work and codel is wanted"),
        ("netem delay 1ms | codel | tbf rate 20mbit burst 5k", "1 stages are at work and 2 are wanted"),
    ] {
        let error = e.change(&read(line), Link::default(), START).unwrap_err();
        assert!(why.split('|').any(|w| error.contains(w)), "{line}: {error}");
        assert_eq!(format!("{:?}", e.snapshot(START).stages), before, "{line}");
    }
}

#[test]
fn a_packet_longer_than_the_bucket_that_a_change_made_still_leaves() {
    let mut e = engine("pfifo limit 10 | tbf rate 1mbit burst 3000", 64);
    e.rx_mut().arriving.extend((0..3).map(|n| (START, frame(1500, 0, n))));
    e.turn(START);
    assert_eq!(e.counters().sent_packets, 2);
    e.change(&read("pfifo limit 10 | tbf rate 1mbit burst 1000"), Link::default(), START).unwrap();
    run(&mut e, START + 1, START + SECOND, &mut Vec::new());
    assert_eq!(e.counters().sent_packets, 3);
}

#[test]
fn a_smaller_limit_of_codel_takes_the_oldest_out_and_says_so() {
    let mut e = engine("codel limit 100 | tbf rate 1mbit burst 2k", 64);
    e.rx_mut().arriving.extend((0..50).map(|n| (START, frame(1000, 0, n))));
    e.turn(START);
    let waiting = e.snapshot(START).backlog_packets;
    e.change(&read("codel limit 10 | tbf rate 1mbit burst 2k"), Link::default(), START).unwrap();
    e.turn(START + 1);
    let s = e.snapshot(START + 1);
    assert_eq!(s.backlog_packets, 10);
    assert_eq!(s.drops.packets[Reason::Flushed as usize], u64::from(waiting) - 10);
    sums_close(&s);
}

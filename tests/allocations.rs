//! Nothing is allocated for a packet: not by the engine, not by a discipline.

use std::collections::VecDeque;

use weir::autorate::{Tap, tap::NOTES};
use weir::classify::Hashing;
use weir::engine::journal::Journal;
use weir::engine::{Engine, Parts};
use weir::pipeline::Link;
use weir::port::memory::{Chunks, MemoryRx, MemoryTx};
use weir::rng::Random;
use weir::time::{Instant, MICROSECOND, SECOND};
use weir::wire::build;

const FRAMES: usize = 4096;

/// A wire that keeps nothing.
fn wire() -> MemoryTx {
    let mut wire = MemoryTx::new(64, 1522);
    wire.keeps = false;
    wire
}

/// Frames of sixteen flows, UDP, some of them ECN-capable.
fn arrivals(count: u64) -> VecDeque<(Instant, Vec<u8>)> {
    let frame = |n: u64| {
        let mut bytes = Vec::new();
        let build = build::Build {
            len: if n % 3 == 0 { 1514 } else { 200 },
            src: [10, 0, 0, (n % 4) as u8].into(),
            dst: [10, 0, 1, (n % 2) as u8].into(),
            protocol: 17,
            sport: (n % 16) as u16 + 1000,
            dport: 53,
            ds: [0, 2, 0xb8, 0x22][(n % 4) as usize],
            tcp: None,
        };
        build.write(&mut bytes);
        bytes.resize(build.len as usize, 0);
        (at(n), bytes)
    };
    (0..count).map(frame).collect()
}

fn at(n: u64) -> Instant {
    Instant::from_nanos(SECOND + n * 100 * MICROSECOND)
}

/// Runs frames through a pipeline that is overloaded, and gives the allocations and the packets sent and dropped.
fn run(spec: &str, journal: Option<Journal>) -> (u64, u64, u64) {
    let pipeline = weir::spec::parse(spec).expect("a good specification").spec.build(Link::default());
    let mut engine = Engine::new(Parts {
        rx: MemoryRx::new(512),
        tx: wire(),
        frames: Chunks::new(FRAMES, 2048),
        capacity: FRAMES,
        pipeline,
        random: Random::seeded(7),
        hashing: Hashing::Keyed([1, 2]),
    });
    engine.keep_journal(journal);
    let mut frames = arrivals(6000);
    let mut run = |turns: std::ops::Range<u64>| {
        for n in turns {
            engine.rx_mut().arriving.extend(frames.pop_front());
            engine.turn(at(n));
        }
    };
    // What disciplines make once, they have made after this.
    run(0..2000);
    let counted = allocation_counter::measure(|| run(2000..6000));
    let snapshot = engine.snapshot(at(6000));
    assert_eq!(snapshot.counters.received_packets, 6000, "{spec}");
    (counted.count_total, snapshot.counters.sent_packets, snapshot.drops.total())
}

#[test]
fn no_discipline_allocates_for_a_packet() {
    for spec in [
        "pfifo limit 1000",
        "pfifo limit 100 | tbf rate 20mbit burst 5k",
        "codel | tbf rate 20mbit burst 5k",
        "fq_codel | tbf rate 20mbit burst 5k",
        "cake bandwidth 20mbit diffserv4",
        "dualpi2 | tbf rate 20mbit burst 5k",
        "netem delay 5ms | codel | tbf rate 20mbit burst 5k",
    ] {
        let (allocations, sent, dropped) = run(spec, None);
        assert_eq!(allocations, 0, "{spec}");
        assert!(sent > 1000 && (dropped > 0 || spec == "pfifo limit 1000"), "{spec}: {sent} {dropped}");
    }
}

#[test]
fn a_journal_allocates_nothing_for_a_packet_not_even_when_it_is_full() {
    for spec in ["codel | tbf rate 20mbit burst 5k", "cake bandwidth 20mbit diffserv4"] {
        let (allocations, sent, dropped) = run(spec, Some(Journal::new(FRAMES, 6000)));
        assert_eq!(allocations, 0, "{spec}");
        assert!(sent > 1000 && dropped > 0, "{spec}");
    }
}

#[test]
fn a_tap_allocates_nothing_for_a_segment_not_even_when_it_is_full() {
    let tcp = build::TcpFields { flags: 16, options: [&[1, 1, 8, 10][..], &[7; 8]].concat(), ..Default::default() };
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 1, 1].into());
    let frame = build::Build { len: 1514, src, dst, protocol: 6, sport: 1, dport: 2, ds: 0, tcp: Some(tcp) }.frame();
    let mut tap = Tap::new(1);
    let counted = allocation_counter::measure(|| (0..10_000).for_each(|n| tap.arrived(at(n), 1514, &frame[14..])));
    assert_eq!((counted.count_total, tap.missed), (0, 10_000 - NOTES as u64));
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocation_counter::measure(|| drop(vec![1u8; 100])).count_total, 1);
}

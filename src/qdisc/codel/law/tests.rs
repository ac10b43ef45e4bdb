use super::*;
use crate::classify::Hashing;
use crate::pool::Pool;
use crate::qdisc::{Drops, NoFrames};
use crate::rng::Random;

const MS: u64 = 1_000_000;

fn law() -> Law {
    Law {
        target: Ticks(4882),
        interval: Ticks(97_656),
        mtu: 1514,
        ecn: false,
        ce_threshold: Ticks::DISABLED,
        ce_threshold_selector: 0,
        ce_threshold_mask: 0,
        sce_threshold: None,
        compat: Compat::Latest,
    }
}

/// A queue that always has another packet with the same sojourn, and a large backlog.
struct Endless {
    enqueued: Instant,
    dropped: u32,
}

impl Source for Endless {
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = cx.pool.take()?;
        cx.pool[&frame] = Packet { enqueued: self.enqueued, len: 1514, ..Packet::default() };
        Some(frame)
    }
    fn backlog(&self) -> u64 {
        1 << 20
    }
    fn dropping(&mut self, _: &Packet) {
        self.dropped += 1;
    }
}

/// One call with every examined packet `sojourn` old; how many it dropped.
fn call(state: &mut State, law: &Law, now: Instant, sojourn: u64) -> u32 {
    call_on(&mut Pool::new(4096), state, law, now, sojourn)
}

fn call_on(pool: &mut Pool, state: &mut State, law: &Law, now: Instant, sojourn: u64) -> u32 {
    let mut drops = Drops::default();
    let mut source = Endless { enqueued: now - sojourn, dropped: 0 };
    let mut cx = Cx {
        pool,
        drops: &mut drops,
        random: &mut Random::seeded(0),
        hashing: &mut Hashing::Keyed([0, 0]),
        frames: &mut NoFrames,
    };
    let frame = state.dequeue(now, law, &mut Tally::default(), &mut source, &mut cx).expect("endless");
    cx.pool.give(frame);
    while let Some((frame, _)) = drops.pop(pool) {
        pool.give(frame);
    }
    source.dropped
}

#[test]
fn the_drops_of_the_test_vector_come_at_their_milliseconds() {
    let (law, mut state) = (law(), State::default());
    let start = Instant::from_nanos(10_000 * MS);
    let mut seen = Vec::new();
    for ms in 0..700 {
        if call(&mut state, &law, start + ms * MS, 20 * MS) == 1 {
            seen.push((ms, state.count, state.inv, state.drop_next.0));
        }
        if ms == 0 {
            assert_eq!(state.first_above.0, 9_863_281);
        }
    }
    let at: Vec<u64> = seen.iter().map(|s| s.0).collect();
    assert_eq!(at, [101, 201, 251, 308, 357, 401, 441, 479, 514, 547, 578, 608, 637, 665, 692]);
    assert_eq!(seen[0], (101, 1, 65535, 9_961_911));
    assert_eq!(seen[1], (201, 2, 32769, 10_010_740));
    assert_eq!(seen[10], (578, 11, 19699, 10_359_368));
    assert_eq!(seen[14], (692, 15, 16893, 10_465_728));

    assert_eq!(call(&mut state, &law, start + 700 * MS, MS), 0);
    assert!(!state.dropping);
    let again: Vec<u64> = (701..840).filter(|ms| call(&mut state, &law, start + ms * MS, 20 * MS) == 1).collect();
    assert_eq!(again, [802, 829]);
    assert_eq!((state.count, state.lastcount, state.inv), (15, 14, 16893));
}

#[test]
fn a_call_drops_at_most_256_packets_in_newer_kernels() {
    let mut law = law();
    let start = Instant::from_nanos(10_000 * MS);
    for (compat, most) in [(Compat::Latest, 256), (Compat::V6_12, 4000)] {
        law.compat = compat;
        let mut state = State { dropping: true, count: 1 << 30, first_above: Ticks(1), ..State::default() };
        state.drop_next = Ticks::at(start).minus(Ticks(2000));
        state.first_above = Ticks::at(start).minus(Ticks(1));
        state.inv = 2;
        let dropped = call(&mut state, &law, start, 20 * MS);
        assert!(dropped <= most && dropped >= 256, "{compat:?}: {dropped}");
        assert_eq!(compat == Compat::Latest, dropped == 256, "{compat:?}: {dropped}");
    }
}

/// Ten minutes above target: the spacing is interval / sqrt(count) and never zero, wherever the
/// clock started.
#[test]
fn the_law_holds_for_ten_minutes_and_for_every_origin_of_the_clock() {
    let law = law();
    let mut pool = Pool::new(64);
    let mut verdicts: Option<Vec<u32>> = None;
    for origin in
        [1u64 << 40, ((1u64 << 31) << 10) - 5 * 1024 * 1024, ((1u64 << 32) << 10) - 7 * 1024 * 1024, 1u64 << 62]
    {
        let start = Instant::from_nanos(origin & !1023);
        let mut state = State::default();
        let mut dropped = Vec::new();
        let mut last = state.drop_next;
        for ms in 0..600_000u64 {
            dropped.push(call_on(&mut pool, &mut state, &law, start + ms * MS, 20 * MS));
            if state.count > 16 && state.drop_next != last && state.count < 60_000 {
                let step = state.next_signal(Ticks(0), &law).0;
                let ideal = f64::from(law.interval.0) / f64::from(state.count).sqrt();
                assert!(
                    (f64::from(step) - ideal).abs() <= ideal * 0.01 + 1.5,
                    "count {}: {step} for {ideal}",
                    state.count
                );
                assert!(step > 0);
            }
            last = state.drop_next;
        }
        assert!(state.count > 65_535, "{}", state.count);
        match &verdicts {
            None => verdicts = Some(dropped),
            Some(first) => assert!(first == &dropped, "origin {origin}"),
        }
    }
}

/// 49 days above target with a call each minute: the clock wraps 962 times and the count many.
#[test]
fn seven_weeks_above_target_give_the_same_verdicts_for_every_origin_and_never_stop_signalling() {
    const DAYS: u64 = 49;
    let law = law();
    let mut pool = Pool::new(512);
    let verdicts = |pool: &mut Pool, origin: u64| -> Vec<u32> {
        let start = Instant::from_nanos(origin);
        let mut state = State::default();
        (0..DAYS * 24 * 60).map(|m| call_on(pool, &mut state, &law, start + m * 60_000 * MS, 20 * MS)).collect()
    };
    let first = verdicts(&mut pool, 1 << 40);
    // The second call finds the interval over and begins; from then on each call is far behind.
    assert!(first[..2] == [0, 1] && first[2..].iter().all(|n| *n > 0), "{:?}", &first[..8]);
    for origin in [((1u64 << 31) - 5) << 10, ((1u64 << 32) - 5) << 10, (1 << 63) - (5 << 10)] {
        assert!(verdicts(&mut pool, origin) == first, "origin {origin}");
    }
}

use super::*;
use crate::pipeline::Link;
use crate::pool::Frames;
use crate::port::fault::{Fault, Faults};
use crate::port::memory::{Chunks, MemoryRx, MemoryTx};
use crate::rng::SplitMix64;
use crate::time::{MICROSECOND, MILLISECOND};

const CHUNK: usize = 2048;

fn ms(n: u64) -> Instant {
    Instant::from_nanos(SECOND + n * MILLISECOND)
}

fn parts<R: Receive<Frames = Chunks>, T>(capacity: usize, rx: R, tx: T, spec: &str) -> Parts<R, T> {
    let pipeline = crate::spec::parse(spec).expect("a good specification").spec.build(Link::default());
    let frames = Chunks::new(capacity, CHUNK);
    let hashing = Hashing::Keyed([1, 2]);
    Parts { rx, tx, frames, capacity, pipeline, random: Random::seeded(1), hashing }
}

fn engine(capacity: usize, room: usize, spec: &str) -> Engine<MemoryRx, MemoryTx> {
    Engine::new(parts(capacity, MemoryRx::new(capacity / 4), MemoryTx::new(room, 1522), spec))
}

/// An IPv4 UDP frame with the given ECN field, told apart by `n`.
fn frame(len: usize, ecn: u8, n: u8) -> Vec<u8> {
    let mut f = vec![n; len];
    f[12..14].copy_from_slice(&[8, 0]);
    f[14] = 0x45;
    f[15] = ecn;
    f[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    f[20..22].fill(0);
    f[22..24].copy_from_slice(&[64, 17]);
    f[24..26].fill(0);
    let sum: u32 = f[14..34].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f
}

fn assert_all_are_somewhere<R: Receive, T: Transmit<Frames = R::Frames>>(e: &Engine<R, T>) {
    assert_eq!(e.census().missing(), 0, "{:?}", e.census());
}

#[test]
fn frames_of_every_shape_leave_byte_for_byte_as_they_came() {
    let mut shapes: Vec<Vec<u8>> = (1..=80).map(|n| (0..n).map(|b| b as u8 ^ 0x5a).collect()).collect();
    let mac = [1, 0x80, 0xc2, 0, 0, 0xe, 2, 2, 2, 2, 2, 2];
    let with = |rest: &[u8], len: usize| {
        let mut f = [&mac[..], rest].concat();
        f.resize(len.max(f.len()), 0xee);
        f
    };
    shapes.extend([
        with(&[0x88, 0xcc], 60),
        with(&[0x81, 0, 0xe0, 100, 8, 0, 0x45], 64),
        with(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x12, 0x34], 1522),
        with(&[8, 0, 0x44], 60),
        with(&[8, 0, 0x4f], 40),
        with(&[0x86, 0xdd, 0x60], 54),
        with(&[0xff, 0xff], 1514),
        with(&[0, 0], 1522),
    ]);
    let mut e = engine(1024, 64, "pfifo limit 1000");
    for (i, shape) in shapes.iter().enumerate() {
        e.rx_mut().arriving.push_back((ms(0), shape.clone()));
        if i % 50 == 49 {
            e.turn(ms(0));
        }
    }
    e.turn(ms(0));
    e.turn(ms(0));
    assert_eq!(e.tx().sent.len(), shapes.len());
    assert!(e.tx().sent.iter().eq(&shapes));
}

#[test]
fn a_frame_longer_than_the_other_side_takes_is_dropped_with_its_reason() {
    let mut e = engine(64, 8, "pfifo limit 10");
    e.rx_mut().arriving.extend([(ms(0), vec![0; 1523]), (ms(0), vec![0; 1522])]);
    e.turn(ms(0));
    let s = e.snapshot(ms(0));
    assert_eq!(s.drops.happened().collect::<Vec<_>>(), [(Reason::Oversize, 1, 1523)]);
    assert_eq!((s.counters.received_packets, s.counters.sent_packets), (2, 1));
}

#[test]
fn nothing_is_taken_out_of_the_queue_without_room_to_send_it() {
    let mut e = engine(256, 4, "pfifo limit 100");
    e.tx_mut().completes = false;
    e.rx_mut().arriving.extend((0..20).map(|n| (ms(0), frame(60, 0, n))));
    let turn = e.turn(ms(0));
    assert_eq!((turn.received, turn.sent, turn.blocked), (20, 4, true));
    assert_eq!(e.census().queued, 16);
    assert_eq!(e.turn(ms(1)).sent, 0);
    e.tx_mut().completes = true;
    assert_eq!(e.turn(ms(2)).sent, 4);
    assert_all_are_somewhere(&e);
}

#[test]
fn a_mark_is_written_into_the_frame_with_its_checksum() {
    let mut e = engine(64, 8, "codel ce_threshold 1ms");
    e.tx_mut().completes = false;
    e.rx_mut().arriving.extend((0..10).map(|n| (ms(0), frame(60, 2, n))));
    e.turn(ms(0));
    e.tx_mut().completes = true;
    e.turn(ms(50));
    assert_eq!(e.counters().marked_ce_threshold, 2);
    assert_eq!(e.tx().sent[7], frame(60, 2, 7));
    assert_eq!(e.tx().sent[9], frame(60, 3, 9));
}

#[test]
fn the_sojourn_counts_from_the_hook_and_the_aqm_from_the_queue() {
    let mut e = engine(64, 8, "codel ce_threshold 1ms");
    e.rx_mut().arriving.push_back((ms(0), frame(60, 2, 0)));
    e.turn(ms(5));
    let mut sojourns = Sojourns::new();
    e.swap_sojourns(&mut sojourns);
    assert_eq!(e.counters().marked_ce_threshold, 0, "we were late, and not the network");
    assert!(sojourns.decision.equivalent(sojourns.decision.max(), 5 * MILLISECOND));
    assert_eq!((sojourns.decision.len(), sojourns.total.len()), (1, 1));
    let mut again = Sojourns::new();
    e.swap_sojourns(&mut again);
    assert_eq!(again.total.len(), 0, "what was taken is not given twice");
}

#[test]
fn a_stamp_that_is_missing_or_later_than_now_counts_as_now() {
    let mut e = engine(64, 8, "pfifo limit 10");
    e.rx_mut().arriving.extend([(Instant::NEVER, frame(60, 0, 0)), (ms(9), frame(60, 0, 1))]);
    e.turn(ms(5));
    let mut sojourns = Sojourns::new();
    e.swap_sojourns(&mut sojourns);
    assert_eq!((sojourns.total.len(), sojourns.total.max()), (2, 0));
}

#[test]
fn with_the_memory_full_arriving_packets_are_dropped_and_counted_and_the_device_stays_stocked() {
    let mut e = engine(256, 4, "pfifo limit 1000000");
    e.tx_mut().completes = false;
    e.rx_mut().arriving.extend((0..1000).map(|n| (ms(0), frame(60, 0, n as u8))));
    for n in 0..100 {
        e.turn(ms(n));
        assert_all_are_somewhere(&e);
        assert_eq!(e.census().receiving, 64, "the device has all it can hold");
    }
    let s = e.snapshot(ms(100));
    assert_eq!(s.counters.received_packets, 1000);
    assert_eq!(s.drops.total() + s.counters.sent_packets + u64::from(s.backlog_packets), 1000);
    assert!(s.drops.happened().all(|(reason, ..)| reason == Reason::Memory));
}

#[test]
fn what_waits_is_dropped_when_the_link_has_been_down_for_a_second() {
    let mut e = engine(256, 8, "pfifo limit 100");
    e.tx_mut().up = false;
    e.rx_mut().arriving.extend((0..10).map(|n| (ms(0), frame(60, 0, n))));
    e.turn(ms(0));
    assert!(!e.turn(ms(999)).is_idle() || e.census().queued == 10);
    e.turn(ms(1000));
    let s = e.snapshot(ms(1000));
    assert_eq!((s.backlog_packets, s.counters.sent_packets), (0, 0));
    assert_eq!(s.drops.happened().collect::<Vec<_>>(), [(Reason::Stale, 10, 600)]);
    e.tx_mut().up = true;
    e.rx_mut().arriving.push_back((ms(1500), frame(60, 0, 99)));
    assert_eq!(e.turn(ms(1500)).sent, 1);
}

#[test]
fn a_short_interruption_of_the_link_costs_nothing() {
    let mut e = engine(256, 8, "pfifo limit 100");
    e.tx_mut().up = false;
    e.rx_mut().arriving.extend((0..5).map(|n| (ms(0), frame(60, 0, n))));
    e.turn(ms(0));
    e.tx_mut().up = true;
    assert_eq!(e.turn(ms(900)).sent, 5);
}

#[test]
fn behind_a_shaper_old_packets_are_still_dropped_after_the_link_came_back() {
    let mut e = engine(256, 8, "pfifo limit 100 | tbf rate 1mbit burst 1514");
    e.tx_mut().up = false;
    e.rx_mut().arriving.extend((0..20).map(|n| (ms(0), frame(1514, 0, n))));
    e.turn(ms(0));
    e.turn(ms(2000));
    e.tx_mut().up = true;
    for t in 2001..4000 {
        e.turn(ms(t));
    }
    let s = e.snapshot(ms(4000));
    assert_eq!((s.counters.sent_packets, s.backlog_packets), (0, 0));
    assert_eq!(s.drops.packets[Reason::Stale as usize], 20);
}

#[test]
fn a_late_worker_repays_and_the_longest_burst_that_it_cost_is_told() {
    for (mbit, late_us) in
        [(10, 0), (10, 50), (10, 500), (100, 0), (100, 50), (100, 500), (900, 0), (900, 50), (900, 500)]
    {
        let mut e = engine(1024, 64, &format!("pfifo limit 1000 | tbf rate {mbit}mbit burst 64k"));
        let mut now = ms(0);
        let feed = |e: &mut Engine<MemoryRx, MemoryTx>, now| {
            let waiting = e.census().queued;
            e.rx_mut().arriving.extend((waiting..200).map(|n| (now, frame(1514, 0, n as u8))));
            e.turn(now);
        };
        // Empty the bucket, then serve from a standing queue.
        while e.next_event().is_none_or(|due| due <= now) {
            feed(&mut e, now);
        }
        let (begun, before) = (now, e.counters().sent_bytes);
        while now.since(begun) < 200 * MILLISECOND {
            let due = e.next_event().expect("a queue stands, throttled").max(now);
            now = due + late_us * MICROSECOND;
            feed(&mut e, now);
        }
        let sent = e.counters().sent_bytes - before;
        let allowed = mbit * now.since(begun) / 8000;
        // tbf counts in ticks of 64 ns, as the kernel does.
        assert!(
            allowed.abs_diff(sent) <= 1514 + allowed / 10_000,
            "{mbit} Mbit/s, {late_us} us late: {sent} of {allowed}"
        );
        let CatchUp { bytes, late_ns } = e.counters().longest_catch_up;
        let repaid = mbit * late_us / 8;
        match late_us {
            0 => assert_eq!((bytes, late_ns), (0, 0)),
            _ => {
                assert_eq!(late_ns, late_us * MICROSECOND);
                assert!(
                    (repaid.max(1514)..=repaid + 1514).contains(&bytes),
                    "{mbit} Mbit/s, {late_us} us late: {bytes}"
                );
            }
        }
    }
}

#[test]
fn a_device_that_lies_stalls_and_loses_leaves_no_frame_nowhere() {
    let faults = Faults { lose: 3000, spoil: 3000, stall: 6000, hold: 20_000 };
    for seed in 0..20 {
        let rx = Fault::new(MemoryRx::new(64), faults, seed);
        let tx = Fault::new(MemoryTx::new(16, 1522), faults, seed + 1000);
        let mut e = Engine::new(parts(256, rx, tx, "codel limit 100 target 1ms interval 10ms noecn"));
        let mut dice = SplitMix64::new(seed);
        let mut now = ms(0);
        for _ in 0..5000 {
            for _ in 0..dice.next_u64() % 24 {
                let len = 1 + (dice.next_u64() % 1530) as usize;
                e.rx_mut().inner.arriving.push_back((now, vec![7; len]));
            }
            now = now + dice.next_u64() % (50 * MICROSECOND);
            e.turn(now);
            assert_all_are_somewhere(&e);
            let s = e.snapshot(now);
            let c = s.counters;
            let gone = c.sent_packets + c.refused + s.drops.total() + u64::from(s.backlog_packets);
            assert_eq!(c.received_packets, gone, "seed {seed}");
        }
        assert!(e.tx().spoilt > 0 && e.rx().lost > 0);
        assert!(e.counters().refused >= e.tx().inner.counters().tx_invalid);
        // All that is left drains, and nothing is with the sending device.
        e.rx_mut().inner.arriving.clear();
        for _ in 0..2000 {
            now = now + MILLISECOND;
            e.turn(now);
        }
        let census = e.census();
        assert_eq!((census.queued, census.free + census.receiving + census.sending), (0, 256));
    }
}

#[test]
fn the_bytes_of_a_frame_are_out_of_reach_when_its_record_lies() {
    let chunks = Chunks::new(2, CHUNK);
    let mut pool = Pool::new(2);
    let frame = pool.take().expect("one is free");
    pool[&frame].headroom = 2000;
    pool[&frame].len = 100;
    assert!(chunks.bytes(frame.slot(), &pool[&frame]).is_empty());
    pool.give(frame);
}

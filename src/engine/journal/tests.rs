use super::*;
use crate::classify::Hashing;
use crate::engine::{Engine, Parts};
use crate::pipeline::Link;
use crate::port::memory::{Chunks, MemoryRx, MemoryTx};
use crate::rng::Random;
use crate::time::{MILLISECOND, SECOND};
use crate::wire::build::Build;

fn ms(n: u64) -> Instant {
    Instant::from_nanos(SECOND + n * MILLISECOND)
}

fn engine(spec: &str) -> Engine<MemoryRx, MemoryTx> {
    Engine::new(Parts {
        rx: MemoryRx::new(64),
        tx: MemoryTx::new(64, 1522),
        frames: Chunks::new(256, 2048),
        capacity: 256,
        pipeline: crate::spec::parse(spec).expect("a pipeline").spec.build(Link::default()),
        random: Random::seeded(1),
        hashing: Hashing::Keyed([1, 2]),
    })
}

fn frame(ecn: u8) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    Build { len: 1000, src, dst, protocol: 17, sport: 5, dport: 6, ds: ecn, tcp: None }.frame()
}

fn arrive(e: &mut Engine<MemoryRx, MemoryTx>, at: Instant, n: usize) {
    for _ in 0..n {
        e.rx_mut().arriving.push_back((at, frame(2)));
    }
}

fn endings(notes: &Notes) -> Vec<(Option<u64>, Option<Reason>, u64)> {
    let ended = notes.notes.iter().filter_map(|n| match n {
        Note::Ended(e) => Some((e.number, e.dropped, e.sojourn / MILLISECOND)),
        Note::Arrived(_) => None,
    });
    ended.collect()
}

fn arrivals(notes: &Notes) -> Vec<u64> {
    let arrived = notes.notes.iter().filter_map(|n| match n {
        Note::Arrived(a) => Some(a.number),
        Note::Ended(_) => None,
    });
    arrived.collect()
}

#[test]
fn of_fifteen_that_arrive_at_a_queue_of_ten_all_are_noted_with_their_ends() {
    // 1000 bytes at 8 Mbit/s take a millisecond. The first of a burst goes at once, and the shaper holds none back.
    let mut e = engine("pfifo limit 10 | tbf rate 8mbit burst 1000");
    e.keep_journal(Some(Journal::new(256, 100)));
    arrive(&mut e, ms(0), 15);
    for n in 0..20 {
        e.turn(ms(n));
    }
    let notes = e.take_notes(Vec::new()).expect("a journal");
    assert_eq!((notes.lost, notes.inside), (0, 0));
    assert_eq!(arrivals(&notes), (1..=15).collect::<Vec<_>>());
    let sent = (1..=10).map(|n| (Some(n), None, n - 1));
    let dropped = (11..=15).map(|n| (Some(n), Some(Reason::QueueFull), 0));
    let mut all = endings(&notes);
    all.sort();
    assert_eq!(all, sent.chain(dropped).collect::<Vec<_>>());
}

#[test]
fn a_mark_is_noted_with_the_code_point_that_leaves_and_the_headers_that_came() {
    let mut e = engine("codel ce_threshold 500us | tbf rate 8mbit burst 1000");
    e.keep_journal(Some(Journal::new(256, 100)));
    arrive(&mut e, ms(0), 3);
    for n in 0..5 {
        e.turn(ms(n));
    }
    let notes = e.take_notes(Vec::new()).expect("a journal");
    let marked = notes.notes.iter().filter_map(|n| match n {
        Note::Ended(e) if !e.marks.is_empty() => Some((e.number, e.marks, e.ds)),
        _ => None,
    });
    // CoDel judges the third when the shaper takes it up, after a millisecond.
    assert_eq!(marked.collect::<Vec<_>>(), [(Some(3), Marks::CE_THRESHOLD, 3)]);
    let Note::Arrived(first) = &notes.notes[0] else { panic!("an arrival comes first") };
    assert_eq!((first.len, first.bytes[..usize::from(first.kept)] == frame(2)[..HEADERS]), (1000, true));
}

#[test]
fn what_came_before_the_journal_has_no_number_and_what_is_inside_is_told() {
    let mut e = engine("pfifo limit 10 | tbf rate 8mbit burst 1000");
    arrive(&mut e, ms(0), 3);
    e.turn(ms(0));
    e.keep_journal(Some(Journal::new(256, 100)));
    arrive(&mut e, ms(1), 2);
    e.turn(ms(1));
    e.turn(ms(2));
    let notes = e.take_notes(Vec::new()).expect("a journal");
    assert_eq!(endings(&notes), [(None, None, 1), (None, None, 2)]);
    assert_eq!((arrivals(&notes), notes.inside), (vec![1, 2], 2));
}

#[test]
fn a_copy_has_no_number() {
    let mut e = engine("netem duplicate 100%");
    e.keep_journal(Some(Journal::new(256, 100)));
    arrive(&mut e, ms(0), 2);
    e.turn(ms(0));
    let notes = e.take_notes(Vec::new()).expect("a journal");
    let mut numbers: Vec<_> = endings(&notes).into_iter().map(|e| e.0).collect();
    numbers.sort();
    assert_eq!((numbers, notes.inside), (vec![None, None, Some(1), Some(2)], 0));
}

#[test]
fn notes_without_room_are_counted_and_the_next_ones_have_room_again() {
    let mut e = engine("pfifo limit 100");
    e.keep_journal(Some(Journal::new(256, 5)));
    arrive(&mut e, ms(0), 4);
    e.turn(ms(0));
    let notes = e.take_notes(Vec::new()).expect("a journal");
    assert_eq!((notes.notes.len(), notes.lost, notes.inside), (5, 3, 0));
    arrive(&mut e, ms(1), 1);
    e.turn(ms(1));
    let notes = e.take_notes(Vec::new()).expect("a journal");
    assert_eq!((arrivals(&notes), notes.notes.len(), notes.lost), (vec![5], 2, 0));
}

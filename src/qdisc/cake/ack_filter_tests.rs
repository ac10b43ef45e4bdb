//! What may go and what may not: one table per mode.

use super::*;
use crate::classify::{Hashing, Headers};
use crate::pool::Pool;
use crate::qdisc::Drops;
use crate::rng::Random;
use crate::wire::build::{Build, TcpFields};

const ACK_ONLY: u8 = 0x10;
const ECE: u8 = 0x50;
const CWR: u8 = 0x90;

#[derive(Default)]
struct Bytes(Vec<Vec<u8>>);

impl Frames for Bytes {
    fn bytes(&self, slot: Slot, _: &Packet) -> &[u8] {
        &self.0[slot.index()]
    }
    fn bytes_mut(&mut self, slot: Slot, _: &Packet) -> &mut [u8] {
        &mut self.0[slot.index()]
    }
}

/// A segment of the one flow that the tables are about.
#[derive(Clone)]
struct Seg {
    ack: u32,
    flags: u8,
    options: Vec<u8>,
    payload: u32,
    port: u16,
    v6: bool,
}

fn ack(ack: u32) -> Seg {
    Seg { ack, flags: ACK_ONLY, options: Vec::new(), payload: 0, port: 443, v6: false }
}

impl Seg {
    fn flags(self, flags: u8) -> Seg {
        Seg { flags, ..self }
    }
    fn options(self, options: &[u8]) -> Seg {
        Seg { options: options.to_vec(), ..self }
    }
    fn sack(self, blocks: &[(u32, u32)]) -> Seg {
        let mut options = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
        blocks.iter().for_each(|(s, e)| options.extend([s.to_be_bytes(), e.to_be_bytes()].concat()));
        self.options(&options)
    }
    fn stamped(self, value: u32, echo: u32) -> Seg {
        let options = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat();
        self.options(&options)
    }

    fn frame(&self) -> Vec<u8> {
        let v4 = |last| std::net::IpAddr::from([10, 0, 0, last]);
        let v6 = |last| std::net::IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, last]);
        let ip = if self.v6 { 40 } else { 20 };
        let mut out = Vec::new();
        Build {
            len: 14 + ip + 20 + self.options.len() as u32 + self.payload,
            src: if self.v6 { v6(1) } else { v4(1) },
            dst: if self.v6 { v6(2) } else { v4(2) },
            protocol: 6,
            sport: self.port,
            dport: 50_000,
            ds: 0,
            tcp: Some(TcpFields { flags: self.flags, seq: 1, ack: self.ack, options: self.options.clone() }),
        }
        .write(&mut out);
        out
    }
}

/// Lets the frames come in one after another; the places of those that were filtered.
fn filtered(frames: &[Vec<u8>], aggressive: bool) -> Vec<usize> {
    let mut pool = Pool::new(frames.len());
    let mut bytes = Bytes(vec![Vec::new(); frames.len()]);
    let mut queue = Queue::default();
    let mut gone = Vec::new();
    let mut places = vec![0; frames.len()];
    for (i, frame) in frames.iter().enumerate() {
        let record = pool.take().unwrap();
        let headers = Headers::parse(frame);
        headers.apply(&mut pool[&record]);
        bytes.0[record.slot().index()] = frame.clone();
        places[record.slot().index()] = i;
        queue.push(&mut pool, record);
        let cx = &mut Cx {
            pool: &mut pool,
            drops: &mut Drops::default(),
            random: &mut Random::seeded(0),
            hashing: &mut Hashing::Keyed([0, 0]),
            frames: &mut bytes,
        };
        if let Some(frame) = redundant(&mut queue, aggressive, cx) {
            gone.push(places[frame.slot().index()]);
        }
    }
    gone
}

fn plain(segments: &[Seg]) -> Vec<usize> {
    filtered(&segments.iter().map(Seg::frame).collect::<Vec<_>>(), false)
}

fn aggressive(segments: &[Seg]) -> Vec<usize> {
    filtered(&segments.iter().map(Seg::frame).collect::<Vec<_>>(), true)
}

#[test]
fn the_plain_filter_keeps_one_ack_before_the_newest_and_the_aggressive_none() {
    let acks = [ack(1000), ack(2000), ack(3000), ack(4000)];
    assert_eq!(plain(&acks), [0, 1]);
    assert_eq!(aggressive(&acks), [0, 1, 2]);
    assert_eq!(plain(&acks[..2]), [] as [usize; 0]);
    let v6: Vec<Seg> = acks.iter().cloned().map(|a| Seg { v6: true, ..a }).collect();
    assert_eq!(plain(&v6), [0, 1]);
}

#[test]
fn numbers_are_compared_around_the_end_of_their_range() {
    let acks = [ack(u32::MAX - 100), ack(u32::MAX), ack(500)];
    assert_eq!(plain(&acks), [0]);
    assert_eq!(aggressive(&[ack(500), ack(u32::MAX)]), [] as [usize; 0], "an older one makes nothing redundant");
}

#[test]
fn only_an_ack_whose_news_are_all_in_the_newest_may_go() {
    let none: [usize; 0] = [];
    for (what, before, newest, goes) in [
        ("the same number again", ack(3000), ack(3000), false),
        ("blocks that the newest lacks", ack(3000).sack(&[(5000, 6000)]), ack(3000), false),
        (
            "blocks that the newest has too",
            ack(3000).sack(&[(5000, 6000)]),
            ack(3000).sack(&[(5000, 6000), (8000, 9000)]),
            true,
        ),
        ("a block that grew", ack(3000).sack(&[(5000, 6000)]), ack(3000).sack(&[(5000, 7000)]), true),
        ("the same blocks", ack(3000).sack(&[(5000, 6000)]), ack(3000).sack(&[(5000, 6000)]), false),
        ("none, and the newest has", ack(3000), ack(3000).sack(&[(5000, 6000)]), true),
        ("a duplicate block", ack(3000).sack(&[(1000, 2000)]), ack(4000).sack(&[(1000, 2000)]), false),
        ("an echo of congestion that stopped", ack(3000).flags(ECE), ack(4000), false),
        ("an echo of congestion that began", ack(3000), ack(4000).flags(ECE), false),
        ("an echo that goes on", ack(3000).flags(ECE), ack(4000).flags(ECE), true),
        ("a window reduced", ack(3000).flags(CWR), ack(4000), false),
        ("data", Seg { payload: 1, ..ack(3000) }, ack(4000), false),
        ("a push", ack(3000).flags(0x18), ack(4000), false),
        ("an urgent pointer", ack(3000).flags(0x30), ack(4000), false),
        ("an end", ack(3000).flags(0x11), ack(4000), false),
        ("a reset", ack(3000).flags(0x14), ack(4000), false),
        ("a beginning", ack(3000).flags(0x12), ack(4000), false),
        ("an older stamp", ack(3000).stamped(10, 20), ack(4000).stamped(11, 20), true),
        ("a newer stamp", ack(3000).stamped(12, 20), ack(4000).stamped(11, 20), false),
        ("a newer echo", ack(3000).stamped(10, 21), ack(4000).stamped(11, 20), false),
        ("a stamp that the newest lacks", ack(3000).stamped(10, 20), ack(4000), false),
        ("an option of multipath", ack(3000).options(&[30, 4, 0, 0]), ack(4000), false),
        ("an option of accurate ECN", ack(3000).options(&[172, 2, 1, 1]), ack(4000), false),
        ("a signature", ack(3000).options(&[&[1u8, 1, 19, 18][..], &[0; 16]].concat()), ack(4000), true),
        ("another flow", Seg { port: 80, ..ack(3000) }, ack(4000), false),
        ("the newest with data", ack(3000), Seg { payload: 100, ..ack(4000) }, true),
        ("the newest a beginning", ack(3000), ack(4000).flags(0x12), false),
        ("the newest without a number", ack(3000), ack(4000).flags(0x00), false),
    ] {
        let want = if goes { &[0][..] } else { &none[..] };
        assert_eq!(aggressive(&[before.clone(), newest.clone()]), want, "{what}");
        assert_eq!(plain(&[before, newest]), none, "{what}: the plain filter keeps one");
    }
}

#[test]
fn a_change_of_flags_in_between_starts_the_search_anew() {
    // The third breaks the pair of the first two; the fourth and fifth make a new one.
    let acks = [ack(1000).flags(ECE), ack(2000), ack(3000), ack(4000)];
    assert_eq!(plain(&acks), [1]);
    let data = [ack(1000), Seg { payload: 9, ..ack(1500).flags(ECE) }, ack(2000), ack(3000)];
    assert_eq!(plain(&data), [] as [usize; 0], "data with other flags counts, too");
}

#[test]
fn acks_of_another_flow_in_the_same_queue_are_left_alone() {
    let other = |n| Seg { port: 80, ..ack(n) };
    assert_eq!(plain(&[other(1), ack(1000), other(2), ack(2000), ack(3000)]), [1]);
}

/// The kernel takes an option list that makes no sense for an acceptable one.
#[test]
fn options_that_make_no_sense_end_the_walk_and_nothing_else() {
    for options in [[8, 0, 0, 0], [8, 1, 0, 0], [8, 255, 0, 0], [1, 1, 1, 8], [0, 9, 9, 9]] {
        let acks = [ack(3000).options(&options), ack(4000)];
        assert_eq!(aggressive(&acks), [0], "{options:?}");
    }
}

#[test]
fn a_header_that_is_cut_or_too_short_is_no_candidate() {
    let whole = ack(3000).frame();
    for cut in 0..whole.len() {
        assert_eq!(filtered(&[whole[..cut].to_vec(), ack(4000).frame()], true), [] as [usize; 0], "cut at {cut}");
    }
    for offset in 0..5u8 {
        let mut frame = whole.clone();
        frame[14 + 20 + 12] = offset << 4;
        assert_eq!(filtered(&[frame, ack(4000).frame()], true), [] as [usize; 0], "data offset {offset}");
    }
}

#[test]
fn acks_in_six_in_four_are_seen() {
    let tunnelled = |n: u32| {
        let inner = Seg { v6: true, ..ack(n) }.frame();
        let mut frame = ack(1).frame()[..34].to_vec();
        frame[14 + 2..14 + 4].copy_from_slice(&(20 + (inner.len() - 14) as u16).to_be_bytes());
        frame[14 + 9] = 41;
        frame.extend_from_slice(&inner[14..]);
        frame
    };
    assert_eq!(filtered(&[tunnelled(1000), tunnelled(2000), tunnelled(3000)], false), [0]);
}

//! The vectors of `spec/netem.md` §15 against the stage itself, and what it does to frames.

use super::*;
use crate::classify::Hashing;
use crate::pool::{Frames, NoFrames, Pool, Slot};
use crate::qdisc::Drops;
use crate::rng::Random;

const MS: u64 = 1_000_000;
/// Far from the clock's origin, so that times in the past exist.
const START: Instant = Instant::from_nanos(1 << 40);

struct Bench {
    netem: Netem,
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    frames: Box<dyn Frames>,
    /// Packet and departure after the start, ns.
    left: Vec<(u32, i64)>,
    came: u32,
}

impl Bench {
    fn new(params: Params) -> Self {
        let mut netem = Netem::new(&params, Link::default());
        netem.start(START);
        Bench {
            netem,
            pool: Pool::new(4096),
            drops: Drops::default(),
            random: Random::seeded(1),
            hashing: Hashing::Numbered(Default::default()),
            frames: Box::new(NoFrames),
            left: Vec::new(),
            came: 0,
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Netem, &mut Cx<'_>) -> T) -> T {
        let mut cx = Cx {
            pool: &mut self.pool,
            drops: &mut self.drops,
            random: &mut self.random,
            hashing: &mut self.hashing,
            frames: self.frames.as_mut(),
        };
        work(&mut self.netem, &mut cx)
    }

    /// Lets go what is due at each timer before `until`.
    fn run(&mut self, until: Instant) {
        while let Some(t) = self.netem.next_event().filter(|t| *t < until) {
            self.serve(t.max(START));
        }
    }

    fn serve(&mut self, now: Instant) {
        while let Some(frame) = self.with(|n, cx| n.dequeue(now, cx)) {
            self.left.push((self.pool[&frame].fwmark, now.signed_since(START)));
            self.pool.give(frame);
        }
        while let Some((frame, _)) = self.drops.pop(&mut self.pool) {
            self.pool.give(frame);
        }
        let t = self.netem.tally;
        let b = self.netem.basic;
        assert_eq!(
            u64::from(self.came) + t.duplicated,
            b.sent_packets + b.drops + u64::from(b.qlen),
            "what came and was made is sent, dropped or here"
        );
    }

    /// A packet of `len` bytes, `at` ns after the start; served at once, as the device does.
    fn arrive(&mut self, at: u64, len: u32) {
        let now = START + at;
        self.run(now);
        let frame = self.pool.take().expect("a record");
        self.pool[&frame] = Packet { len, fwmark: self.came, ..Packet::default() };
        self.came += 1;
        self.with(|n, cx| n.enqueue(now, frame, &Headers::default(), cx));
        self.serve(now);
    }

    fn rest(mut self) -> Vec<(u32, i64)> {
        self.run(Instant::NEVER);
        self.left
    }

    /// All arrivals at the start, `len` bytes each.
    fn burst(mut self, n: u32, len: u32) -> Bench {
        for _ in 0..n {
            self.arrive(0, len);
        }
        self.run(Instant::NEVER);
        self
    }
}

fn f(x: f64) -> Fraction {
    Fraction::from_ratio(x)
}

fn ids(left: &[(u32, i64)]) -> Vec<u32> {
    left.iter().map(|l| l.0).collect()
}

fn random_loss(p: f64) -> Loss {
    Loss::Random { p: f(p), rho: Fraction(0) }
}

fn rate(bytes: u64) -> Option<Shape> {
    Some(Shape { rate: Rate::from_bytes_per_second(bytes), overhead: 0, cell: 0, cell_overhead: 0 })
}

#[test]
fn random_loss_takes_the_packets_that_the_seed_says() {
    let params = Params { loss: random_loss(0.5), seed: Some(1), ..Params::default() };
    let left = ids(&Bench::new(params).burst(40, 100).left);
    let expected: Vec<u32> = [2, 4, 5, 6, 13, 14, 16, 17, 21, 25, 26].into_iter().chain(29..=35).collect();
    assert_eq!(left, expected);
}

#[test]
fn a_good_or_bad_channel_takes_the_packets_that_the_seed_says() {
    let loss = Loss::Gemodel { p: f(0.1), r: f(0.3), bad: f(0.8), good: f(0.05) };
    let left = ids(&Bench::new(Params { loss, seed: Some(3), ..Params::default() }).burst(60, 100).left);
    let lost: Vec<u32> = (0..60).filter(|i| !left.contains(i)).collect();
    assert_eq!(lost, [0, 1, 5, 6, 8, 13, 21, 22, 25, 26, 49, 53, 56]);
}

#[test]
fn four_states_take_the_packets_that_the_seed_says() {
    let loss = Loss::State { p13: f(0.1), p31: f(0.3), p32: f(0.2), p23: f(0.4), p14: f(0.05) };
    let left = ids(&Bench::new(Params { loss, seed: Some(3), ..Params::default() }).burst(60, 100).left);
    let expected: Vec<u32> = [0..=0, 2..=2, 4..=7, 10..=14, 16..=19, 21..=21, 24..=26, 28..=37, 40..=40]
        .into_iter()
        .chain([44..=47, 51..=51, 54..=59])
        .flatten()
        .collect();
    assert_eq!(left, expected);
}

#[test]
fn a_packet_both_lost_and_doubled_passes_once() {
    let params = Params { loss: random_loss(0.3), duplicate: f(0.5), seed: Some(7), ..Params::default() };
    let bench = Bench::new(params).burst(30, 100);
    let left = ids(&bench.left);
    let times = |i: u32| left.iter().filter(|l| **l == i).count();
    for i in 0..30 {
        let expected = match i {
            2 | 10 | 12 | 24 | 25 | 27 => 2,
            14 | 26 => 0,
            _ => 1,
        };
        assert_eq!(times(i), expected, "packet {i}");
    }
    assert_eq!(bench.netem.basic.drops, 3, "two packets and one copy");
}

#[test]
fn jitter_alone_reorders_and_with_a_rate_it_does_not() {
    let params = Params { delay: 20 * MS, jitter: 10 * MS, seed: Some(5), ..Params::default() };
    let left = Bench::new(params.clone()).burst(12, 1000).left;
    let expected = [
        (11, 10650197),
        (3, 13984522),
        (6, 14365458),
        (0, 15844791),
        (9, 17272300),
        (2, 18611284),
        (10, 19032227),
        (1, 24536320),
        (8, 24639788),
        (4, 24963405),
        (5, 25727749),
        (7, 25964138),
    ];
    assert_eq!(left, expected);
    let left = Bench::new(Params { rate: rate(1_250_000), ..params }).burst(12, 1000).left;
    let mut expected = vec![(0, 16644791)];
    expected.extend((0..11).map(|i| (i + 1, 25336320 + 800_000 * i64::from(i))));
    assert_eq!(left, expected);
}

#[test]
fn cells_and_overhead_make_a_burst_longer() {
    let shape = Shape { rate: Rate::from_bytes_per_second(125_000), overhead: 0, cell: 48, cell_overhead: 5 };
    let mut bench = Bench::new(Params { rate: Some(shape), ..Params::default() });
    for len in [64, 98, 100, 1514, 1514, 60] {
        bench.arrive(0, len);
    }
    let times: Vec<_> = bench.rest().iter().map(|l| l.1).collect();
    assert_eq!(times, [848000, 2120000, 3392000, 16960000, 30528000, 31376000]);
}

#[test]
fn the_link_stands_behind_the_delay_and_remembers_only_what_it_holds() {
    let slow = |delay| Params { delay, rate: rate(125_000), ..Params::default() };
    let times = |delay| {
        let mut bench = Bench::new(slow(delay));
        for (at, len) in [(0, 1000), (1, 1000), (20, 1000), (20, 500)] {
            bench.arrive(at * MS, len);
        }
        bench.rest().iter().map(|l| l.1 / MS as i64).collect::<Vec<_>>()
    };
    assert_eq!(times(0), [8, 16, 28, 32]);
    assert_eq!(times(5 * MS), [13, 21, 33, 37]);

    let mut bench = Bench::new(slow(0));
    for (at, len, delay) in [(0, 1000, 9), (1, 1000, 1), (2, 1000, 30), (3, 500, 0)] {
        bench.run(START + at * MS);
        bench.netem.reconfigure(&slow(delay * MS), START + at * MS);
        bench.arrive(at * MS, len);
    }
    let left: Vec<_> = bench.rest().iter().map(|l| l.1 / MS as i64).collect();
    assert_eq!(left, [17, 25, 40, 44]);
}

#[test]
fn a_negative_delay_on_an_idle_link_is_credit() {
    let down = |by: u64| Params {
        delay: MS,
        jitter: (by + 1) * MS,
        distribution: Some(Distribution::read("./one", "-8192").expect("a table")),
        rate: rate(125_000),
        ..Params::default()
    };
    let mut bench = Bench::new(down(3));
    for (at, by) in [(0, 3), (1, 9), (20, 20)] {
        bench.run(START + at * MS);
        bench.netem.reconfigure(&down(by), START + at * MS);
        bench.arrive(at * MS, 1000);
    }
    let left: Vec<_> = bench.rest().iter().map(|l| l.1 / MS as i64).collect();
    assert_eq!(left, [5, 13, 20]);
}

#[test]
fn every_fifth_packet_jumps_the_delay() {
    let params = Params { delay: 10 * MS, gap: 5, reorder: Fraction::ALL, ..Params::default() };
    let mut bench = Bench::new(params);
    for at in 0..12 {
        bench.arrive(at * MS, 100);
    }
    let left: Vec<_> = bench.rest().iter().map(|l| (l.0, l.1 / MS as i64)).collect();
    let expected =
        [(4, 4), (9, 9), (0, 10), (1, 11), (2, 12), (3, 13), (5, 15), (6, 16), (7, 17), (8, 18), (10, 20), (11, 21)];
    assert_eq!(left, expected);
}

#[test]
fn the_packets_that_may_jump_try_until_one_does() {
    let params = Params { delay: 10 * MS, gap: 3, reorder: f(0.5), seed: Some(2), ..Params::default() };
    let bench = Bench::new(params).burst(20, 100);
    let jumped: Vec<_> = bench.left.iter().filter(|l| l.1 == 0).map(|l| l.0).collect();
    assert_eq!(jumped, [2, 5, 8, 11, 15, 18]);
    assert_eq!(bench.netem.tally.reordered, 6);
}

#[test]
fn slots_open_as_recorded() {
    let slots = |packets, bytes| Some(Slots { spacing: Spacing::Between(5 * MS, 5 * MS), packets, bytes });
    let run = |params: Params, arrivals: &[u64]| {
        let mut bench = Bench::new(params);
        bench.netem.start(START - MS);
        for at in arrivals {
            bench.arrive(at * MS, 100);
        }
        bench.rest().iter().map(|l| (l.0, l.1 / MS as i64)).collect::<Vec<_>>()
    };
    let two = Params { slots: slots(2, 0), ..Params::default() };
    assert_eq!(run(two.clone(), &[0; 7]), [(0, 5), (1, 5), (2, 10), (3, 10), (4, 15), (5, 15), (6, 20)]);
    let bytes = Params { slots: slots(0, 250), ..Params::default() };
    let expected = [(0, 5), (1, 5), (2, 5), (3, 10), (4, 10), (5, 10), (6, 15), (7, 15)];
    assert_eq!(run(bytes, &[0; 8]), expected);
    assert_eq!(run(two.clone(), &[0, 7, 7, 30]), [(0, 5), (1, 12), (2, 12), (3, 35)]);
    let late = Params { delay: 12 * MS, ..two };
    assert_eq!(run(late.clone(), &[0; 5]), [(0, 17), (1, 17), (2, 22), (3, 22), (4, 27)]);
    let spread: Vec<u64> = (0..10).map(|i| 2 * i).collect();
    let expected = [(0, 13), (1, 18), (2, 18), (3, 23), (4, 23), (5, 28), (6, 28), (7, 33), (8, 33), (9, 38)];
    assert_eq!(run(late, &spread), expected);
}

#[test]
fn ordered_holds_a_packet_to_the_ones_before_it_across_a_change() {
    let run = |ordered| {
        let with = |delay| Params { delay: delay * MS, ordered, ..Params::default() };
        let mut bench = Bench::new(with(0));
        for (at, delay) in [(0, 20), (1, 5), (2, 12), (3, 0), (50, 30)] {
            bench.run(START + at * MS);
            bench.netem.reconfigure(&with(delay), START + at * MS);
            bench.arrive(at * MS, 100);
        }
        bench.rest().iter().map(|l| (l.0, l.1 / MS as i64)).collect::<Vec<_>>()
    };
    assert_eq!(run(false), [(3, 3), (1, 6), (2, 14), (0, 20), (4, 80)]);
    assert_eq!(run(true), [(0, 20), (1, 20), (2, 20), (3, 20), (4, 80)]);
}

#[test]
fn the_limit_drops_the_arriving_packet_and_forgets_its_copy() {
    let four = Params { limit: 4, delay: 10 * MS, ..Params::default() };
    let bench = Bench::new(four.clone()).burst(8, 100);
    assert_eq!(ids(&bench.left), [0, 1, 2, 3]);
    assert_eq!((bench.netem.basic.drops, bench.netem.tally.limit_dropped), (4, 4));
    let bench = Bench::new(Params { duplicate: Fraction::ALL, ..four.clone() }).burst(8, 100);
    assert_eq!(ids(&bench.left), [0, 0, 1, 1]);
    assert_eq!((bench.netem.basic.drops, bench.netem.tally.duplicated), (6, 2));
    let five = Params { limit: 3, duplicate: Fraction::ALL, ..four };
    assert_eq!(ids(&Bench::new(five).burst(8, 100).left), [0, 0, 1, 1], "one below the limit a pair still passes");
}

#[test]
fn a_copy_without_a_free_frame_is_counted_and_the_packet_passes_alone() {
    let mut bench = Bench::new(Params { duplicate: Fraction::ALL, delay: MS, ..Params::default() });
    bench.pool = Pool::new(3);
    bench.arrive(0, 100);
    bench.arrive(0, 100);
    assert_eq!((bench.netem.tally.duplicated, bench.netem.tally.allocation_errors), (1, 1));
    assert_eq!(ids(&bench.rest()), [0, 0, 1]);
}

/// Frames of 64 bytes each in ordinary memory.
struct Bytes(Vec<[u8; 64]>);

impl Frames for Bytes {
    fn bytes(&self, slot: Slot, packet: &Packet) -> &[u8] {
        &self.0[slot.index()][..packet.len as usize]
    }
    fn bytes_mut(&mut self, slot: Slot, packet: &Packet) -> &mut [u8] {
        &mut self.0[slot.index()][..packet.len as usize]
    }
}

fn udp(ds: u8) -> [u8; 64] {
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let build = crate::wire::build::Build {
        len: 64,
        src: address,
        dst: address,
        protocol: 17,
        sport: 1,
        dport: 2,
        ds,
        tcp: None,
    };
    build.frame().try_into().expect("64 bytes")
}

impl Bench {
    fn arrive_with_bytes(&mut self, store: fn(&mut Bench, Slot)) -> Vec<(Packet, Vec<u8>)> {
        let frame = self.pool.take().expect("a record");
        self.pool[&frame] = Packet { len: 64, ..Packet::default() };
        store(self, frame.slot());
        let packet = self.pool[&frame];
        let headers = Headers::parse(self.frames.bytes(frame.slot(), &packet));
        headers.apply(&mut self.pool[&frame]);
        self.with(|n, cx| n.enqueue(START, frame, &headers, cx));
        let mut out = Vec::new();
        while let Some(frame) = self.with(|n, cx| n.dequeue(START, cx)) {
            let packet = self.pool[&frame];
            out.push((packet, self.frames.bytes(frame.slot(), &packet).to_vec()));
            self.pool.give(frame);
        }
        while let Some((frame, _)) = self.drops.pop(&mut self.pool) {
            self.pool.give(frame);
        }
        out
    }
}

fn store(ds: u8, bench: &mut Bench, slot: Slot) {
    let packet = Packet { len: 64, ..Packet::default() };
    bench.frames.bytes_mut(slot, &packet).copy_from_slice(&udp(ds));
}

#[test]
fn a_copy_has_the_bytes_of_its_packet_from_before_the_damage() {
    let mut bench = Bench::new(Params { duplicate: Fraction::ALL, seed: Some(9), ..Params::default() });
    bench.frames = Box::new(Bytes(vec![[0; 64]; 4096]));
    let left = bench.arrive_with_bytes(|b, slot| store(2, b, slot));
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|(_, bytes)| bytes[..] == udp(2)));
    assert_eq!([left[0].0.copy, left[1].0.copy], [true, false]);
}

#[test]
fn damage_is_one_bit_and_the_record_follows_the_headers() {
    let mut bench = Bench::new(Params { corrupt: Fraction::ALL, seed: Some(1), ..Params::default() });
    bench.frames = Box::new(Bytes(vec![[0; 64]; 4096]));
    let mut hit = [false; 64 * 8];
    for _ in 0..4000 {
        let left = bench.arrive_with_bytes(|b, slot| store(2, b, slot));
        let (packet, bytes) = &left[0];
        let wrong: Vec<usize> = (0..64 * 8).filter(|i| (bytes[i / 8] ^ udp(2)[i / 8]) >> (i % 8) & 1 == 1).collect();
        assert_eq!(wrong.len(), 1);
        hit[wrong[0]] = true;
        let headers = Headers::parse(bytes);
        assert_eq!((packet.ds, packet.network), (headers.ds, headers.network));
    }
    assert_eq!(bench.netem.tally.corrupted, 4000);
    assert!(hit.iter().filter(|h| **h).count() > 500, "every place is hit sooner or later");
}

#[test]
fn a_mark_replaces_a_loss_only_where_it_can_be_carried() {
    let mut bench = Bench::new(Params { loss: random_loss(1.0), ecn: true, ..Params::default() });
    bench.frames = Box::new(Bytes(vec![[0; 64]; 4096]));
    let mut seen = Vec::new();
    seen.extend(bench.arrive_with_bytes(|b, slot| store(0, b, slot)));
    seen.extend(bench.arrive_with_bytes(|b, slot| store(1, b, slot)));
    seen.extend(bench.arrive_with_bytes(|b, slot| store(2, b, slot)));
    seen.extend(bench.arrive_with_bytes(|b, slot| store(3, b, slot)));
    assert_eq!(seen.iter().map(|(p, _)| p.ecn()).collect::<Vec<_>>(), [3, 3, 3]);
    assert_eq!((bench.netem.tally.ecn_marked, bench.netem.tally.lost), (3, 1));
    assert_eq!(bench.netem.stats(START).drops(), 1);
    let old = Link { compat: Compat::V6_12, ..Link::default() };
    bench.netem.compat = old.compat;
    assert_eq!(bench.netem.stats(START).drops(), 4, "Linux 6.12 counts a mark as a drop");
}

#[test]
fn the_need_of_a_delay_is_rate_times_time_in_full_frames() {
    let gigabit = Some(Rate::from_bits_per_second(1_000_000_000));
    let need = |p: &Params| p.need(gigabit, 1514).expect("a rate").packets;
    assert_eq!(need(&Params { delay: 25 * MS, ..Params::default() }), 2066);
    assert_eq!(need(&Params { delay: 200 * MS, ..Params::default() }), 16_514);
    let jitter = Params { delay: 20 * MS, jitter: 5 * MS, ..Params::default() };
    assert_eq!(need(&jitter), 2066);
    let tailed = Params { distribution: Distribution::named("pareto"), ..jitter };
    assert_eq!(need(&tailed), 3304);
    assert_eq!(Params::default().need(None, 1514), None);
    let own = Params { rate: rate(125_000), delay: 25 * MS, ..Params::default() };
    assert_eq!(own.need(gigabit, 1514).map(|n| n.packets), Some(4));
}

#[test]
fn the_kernel_of_the_traces_got_its_times_in_ticks() {
    let params = Params { delay: 500_999, jitter: 100_001, ..Params::default() };
    let old = Netem::new(&params, Link { compat: Compat::V6_12, ..Link::default() });
    assert_eq!((old.params.delay, old.params.jitter), (499_968, 99_968));
    let new = Netem::new(&params, Link::default());
    assert_eq!((new.params.delay, new.params.jitter), (500_999, 100_001));
}

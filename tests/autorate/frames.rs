//! Taps and pilot fed with frames made by hand.

use weir::autorate::controller::Controller;
use weir::autorate::tap::NOTES;
use weir::autorate::{INTERVAL, Interval, Line, Look, Pilot, Tap, Why};
use weir::rng::Random;
use weir::time::{Instant, MILLISECOND, SECOND};
use weir::units::{Rate, RateRange};
use weir::wire::build::{Build, TcpFields};

const START: Instant = Instant::from_nanos(1 << 40);
const ETHERNET: usize = 14;

fn mbit(n: u64) -> Rate {
    Rate::from_bits_per_second(n * 1_000_000)
}

fn range() -> RateRange {
    RateRange { min: mbit(2), max: mbit(50) }
}

/// A home with one host, 10.0.1.HOME, and servers 10.0.9.N.
#[derive(Clone, Copy)]
struct Segment {
    up: bool,
    port: u16,
    server: u8,
    flags: u8,
    seq: u32,
    ack: u32,
    stamps: Option<[u32; 2]>,
    data: u32,
}

const SYN: u8 = 2;
const ACK: u8 = 16;

impl Segment {
    fn bytes(&self) -> Vec<u8> {
        let (home, server) = ([10, 0, 1, 2].into(), [10, 0, 9, self.server].into());
        let options = self.stamps.map_or(Vec::new(), |[value, echo]| {
            [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
        });
        let len = 54 + options.len() as u32 + self.data;
        let tcp = Some(TcpFields { flags: self.flags, seq: self.seq, ack: self.ack, options });
        let (src, dst, sport, dport) =
            if self.up { (home, server, self.port, 443) } else { (server, home, 443, self.port) };
        Build { len, src, dst, protocol: 6, sport, dport, ds: 0, tcp }.frame()
    }
}

/// Both taps and the pilot.
struct Rig {
    taps: [Tap; 2],
    pilot: Pilot,
    lines: Vec<Line>,
    rates: [Rate; 2],
}

impl Rig {
    fn new() -> Rig {
        let (pilot, lines) = Pilot::new(START, [Some(range()); 2]);
        Rig { taps: [Tap::new(7), Tap::new(7)], pilot, lines, rates: [mbit(20); 2] }
    }

    /// A segment passes: what goes up leaves the shaper at `at`, what comes down arrives there.
    fn pass(&mut self, at: Instant, s: Segment) {
        let frame = s.bytes();
        let network = &frame[ETHERNET..];
        let tap = &mut self.taps[usize::from(s.up)];
        tap.arrived(at, frame.len() as u32, network);
        tap.left(at, frame.len() as u32, network);
    }

    fn tick(&mut self, now: Instant) -> Option<Interval> {
        let [down, up] = &mut self.taps;
        let looks =
            [Look::of(down, Vec::new(), 0, Some(self.rates[0])), Look::of(up, Vec::new(), 0, Some(self.rates[1]))];
        assert!(looks.iter().all(|l| l.notes.len() <= NOTES));
        let (lines, rates) = self.pilot.tick(now, &looks);
        for (rate, new) in self.rates.iter_mut().zip(rates) {
            *rate = new.unwrap_or(*rate);
            assert!((range().min..=range().max).contains(rate), "{rate:?}");
        }
        self.lines.extend(lines.iter().cloned());
        lines.iter().find_map(|l| if let Line::Interval(i) = l { Some(*i) } else { None })
    }
}

fn ms(n: u64) -> u64 {
    n * MILLISECOND
}

#[test]
fn a_handshake_is_a_sample_without_timestamps_unless_it_was_repeated() {
    let mut rig = Rig::new();
    let syn = |port| Segment { up: true, port, server: 1, flags: SYN, seq: 100, ack: 0, stamps: None, data: 0 };
    let answer = |port| Segment { up: false, flags: SYN | ACK, seq: 900, ack: 101, ..syn(port) };
    rig.pass(START, syn(1));
    rig.pass(START + ms(30), answer(1));
    rig.pass(START + ms(30), syn(2));
    rig.pass(START + ms(50), syn(2));
    rig.pass(START + ms(55), answer(2));
    // Data without timestamps shows nothing.
    rig.pass(START + ms(60), Segment { flags: ACK, seq: 101, ack: 901, data: 100, ..syn(1) });
    rig.pass(START + ms(90), Segment { flags: ACK, seq: 901, ack: 201, ..answer(1) });
    let i = rig.tick(START + INTERVAL).expect("something happened");
    assert_eq!((i.far.samples, i.far.base, i.far.rtt), (1, ms(30), ms(30)));
    // The client acknowledges what had come 30 ms before.
    assert_eq!((i.near.samples, i.near.rtt), (1, ms(30)));
}

#[test]
fn a_server_inside_is_measured_by_its_clients_handshake() {
    let mut rig = Rig::new();
    let syn = Segment { up: false, port: 1, server: 1, flags: SYN, seq: 100, ack: 0, stamps: None, data: 0 };
    rig.pass(START, syn);
    rig.pass(START + ms(1), Segment { up: true, flags: SYN | ACK, seq: 900, ack: 101, ..syn });
    rig.pass(START + ms(41), Segment { flags: ACK, seq: 101, ack: 901, ..syn });
    let i = rig.tick(START + INTERVAL).expect("something happened");
    assert_eq!((i.far.samples, i.far.rtt), (1, ms(40)));
    assert_eq!((i.near.samples, i.near.rtt), (1, ms(1)), "and the near side by its answer");
}

/// An upload of single segments: each answered `rtt` ns after it left.
fn upload(rig: &mut Rig, from: Instant, to: Instant, rtt: impl Fn(u64) -> u64) -> Vec<Interval> {
    let mut events: Vec<(Instant, Segment)> = Vec::new();
    let mut n = 0u32;
    let mut at = from;
    while at < to {
        let value = (at.as_nanos() / MILLISECOND) as u32;
        let seq = (at.as_nanos() / 1_000_000) as u32 * 1000;
        let data =
            Segment { up: true, port: 5, server: 1, flags: ACK, seq, ack: 1, stamps: Some([value, 1]), data: 100 };
        let back = at + rtt(at.since(START));
        let stamp = (back.as_nanos() / MILLISECOND) as u32;
        events.push((at, data));
        // Answers bear data of their own, so that no timer delays them.
        events.push((
            back,
            Segment { up: false, seq: n, ack: seq + 100, stamps: Some([stamp, value]), data: 100, ..data },
        ));
        n += 100;
        at = at + ms(4);
    }
    events.sort_by_key(|(at, _)| *at);
    let mut out = Vec::new();
    let mut end = from + INTERVAL;
    for (at, segment) in events {
        while at >= end {
            out.extend(rig.tick(end));
            end = end + INTERVAL;
        }
        rig.pass(at, segment);
    }
    out
}

#[test]
fn five_milliseconds_are_five_with_a_clock_of_milliseconds_disorder_and_a_segment_sent_again() {
    let mut rig = Rig::new();
    let mut random = Random::seeded(3);
    let mut events = Vec::new();
    for n in 0..2000u32 {
        let at = START + u64::from(n) * 700_000;
        // Neighbours change places now and then.
        let at = if random.u32() % 50 == 0 { at + 900_000 } else { at };
        let value = (at.as_nanos() / MILLISECOND) as u32;
        let seq = if n == 1000 { 5000 } else { n * 1000 };
        let data =
            Segment { up: true, port: 9, server: 2, flags: ACK, seq, ack: 1, stamps: Some([value, 7]), data: 1000 };
        events.push((at, data));
        let back = at + 5 * MILLISECOND;
        let stamps = Some([(back.as_nanos() / MILLISECOND) as u32, value]);
        events.push((back, Segment { up: false, seq: 1, ack: n * 1000 + 1000, stamps, data: 0, ..data }));
    }
    events.sort_by_key(|(at, _)| *at);
    let mut end = START + INTERVAL;
    let mut seen = 0;
    for (at, segment) in events {
        if at >= end {
            let i = rig.tick(end).expect("traffic");
            seen += i.far.samples;
            let range = 4_700_000..=5_300_000;
            assert!(range.contains(&i.far.base) && range.contains(&i.far.rtt), "{:?}", i.far);
            end = end + INTERVAL;
        }
        rig.pass(at, segment);
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_base_that_grows_without_load_is_forgotten_within_a_minute() {
    let mut rig = Rig::new();
    let shift = 10 * SECOND;
    let all = upload(&mut rig, START, START + 80 * SECOND, |t| if t < shift { ms(40) } else { ms(70) });
    let learned = all.iter().find(|i| i.at > shift && i.far.base == ms(70)).expect("it is learned");
    assert!(learned.at <= shift + 60 * SECOND, "{}", learned.at);
    assert_eq!(rig.rates[1], mbit(20), "a fiftieth of the rate is no load to cut for");
}

#[test]
fn spikes_on_a_link_without_load_cut_nothing() {
    let mut rig = Rig::new();
    let all = upload(&mut rig, START, START + 30 * SECOND, |t| if t / ms(500) % 4 == 3 { ms(140) } else { ms(40) });
    assert!(all.iter().any(|i| i.far.excess > ms(90)), "they are seen");
    assert_eq!(rig.rates, [mbit(20); 2]);
}

#[test]
fn the_way_back_is_told_from_the_way_there_by_the_far_clock() {
    for back in [false, true] {
        let mut rig = Rig::new();
        let mut shown = Vec::new();
        let mut end = START + INTERVAL;
        let mut events = Vec::new();
        for n in 0..1000u32 {
            let at = START + u64::from(n) * ms(5);
            let queue = if n > 600 { ms(60) } else { 0 };
            let value = (at.as_nanos() / MILLISECOND) as u32;
            let data = Segment {
                up: true,
                port: 5,
                server: 1,
                flags: ACK,
                seq: n * 100,
                ack: 1,
                stamps: Some([value, 1]),
                data: 100,
            };
            let turn = at + ms(20) + if back { 0 } else { queue };
            let home = at + ms(40) + queue;
            // Its clock began long ago, elsewhere.
            let stamp = (turn.as_nanos() / MILLISECOND) as u32 ^ 0x8000_0000;
            events.push((at, data));
            events.push((
                home,
                Segment { up: false, seq: n, ack: n * 100 + 100, stamps: Some([stamp, value]), data: 1, ..data },
            ));
        }
        events.sort_by_key(|(at, _)| *at);
        for (at, segment) in events {
            while at >= end {
                shown.extend(rig.tick(end));
                end = end + INTERVAL;
            }
            rig.pass(at, segment);
        }
        let late = shown.iter().rfind(|i| i.far.samples > 0).unwrap().far;
        assert_eq!(late.excess, ms(60));
        let (here, there) = (late.back.unwrap(), late.there.unwrap());
        let (most, least) = if back { (here, there) } else { (there, here) };
        assert!(most >= ms(58) && least <= ms(2), "{late:?}");
    }
}

#[test]
fn hostile_timestamps_drive_the_rate_nowhere_but_within_its_limits_and_find_no_memory() {
    for seed in 0..4 {
        let mut rig = Rig::new();
        let mut random = Random::seeded(seed);
        let mut now = START;
        for n in 0..60_000u32 {
            now = now + u64::from(random.u32() % 400_000);
            let r = random.u32();
            let segment = Segment {
                up: r & 1 == 0,
                // Thousands of flows, or a few.
                port: if seed % 2 == 0 { random.u32() as u16 } else { (random.u32() % 4) as u16 },
                server: (random.u32() % 250) as u8,
                flags: [ACK, SYN, SYN | ACK, ACK | 1][(r >> 1) as usize % 4],
                seq: random.u32(),
                ack: random.u32(),
                stamps: (r & 64 == 0).then(|| match seed {
                    // At random, or near each other, so that many match.
                    0 | 1 => [random.u32(), random.u32()],
                    _ => [n / 8 + random.u32() % 32, n / 8 + random.u32() % 32],
                }),
                data: random.u32() % 1400,
            };
            rig.pass(now, segment);
            if n % 200 == 0 {
                rig.tick(now);
            }
        }
        // tick() has looked at each rate and each buffer.
        let seen = rig.lines.iter().filter(|l| matches!(l, Line::Interval(_))).count();
        assert!(seen > 200, "{seen}");
    }
}

#[test]
fn a_flood_is_looked_at_twenty_thousand_times_a_second_and_counted_whole() {
    let mut tap = Tap::new(1);
    let frame =
        Segment { up: true, port: 1, server: 1, flags: ACK, seq: 1, ack: 1, stamps: Some([1, 1]), data: 0 }.bytes();
    for n in 0..1_000_000u64 {
        tap.arrived(START + n * 100, frame.len() as u32, &frame[ETHERNET..]);
    }
    let look = Look::of(&mut tap, Vec::new(), 0, None);
    assert_eq!(look.arrived, 1_000_000 * frame.len() as u64);
    assert!((2000..=2070).contains(&look.notes.len()), "{}", look.notes.len());
    assert_eq!(tap.missed, 0);
}

#[test]
fn the_controller_moves_within_its_limits_whatever_it_is_told() {
    let mut random = Random::seeded(11);
    let mut controller = Controller::new([Some(range()); 2]);
    let mut rates = [mbit(20).bytes_per_second(); 2];
    for n in 1..20_000u64 {
        let mut big = || u64::from(random.u32()) << (random.u32() % 24);
        let mut i = Interval { at: n * INTERVAL, length: INTERVAL, ..Interval::default() };
        (i.down.arrived, i.down.left, i.up.left) = (big(), big(), big());
        (i.far.excess, i.far.base) = (big(), big());
        i.far.rtt = i.far.base.saturating_add(i.far.excess);
        i.far.samples = (random.u32() % 3) * 5;
        i.far.back = (random.u32() % 2 == 0).then(|| u64::from(random.u32()));
        i.far.there = i.far.back.map(|b| i.far.excess.saturating_sub(b));
        i.stalled = random.u32() % 200 == 0;
        (i.down.rate, i.up.rate) = (rates[0], rates[1]);
        for d in controller.interval(&i).into_iter().flatten() {
            assert_eq!(d.from, rates[d.way]);
            assert!((range().min..=range().max).contains(&Rate::from_bytes_per_second(d.to)), "{d:?}");
            rates[d.way] = d.to;
        }
    }
    assert!(controller.why(0).is_some_and(|w| w != Why::Start));
}

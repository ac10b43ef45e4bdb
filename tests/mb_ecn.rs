//! `mb-ecn` on the stages that queue: what it writes, what it spares, and what it leaves alone.

use weir::classify::{Hashing, Headers};
use weir::mark::mb_ecn::{code, dtp};
use weir::packet::Marks;
use weir::pipeline::{Link, Pipeline};
use weir::pool::{Frames, Pool};
use weir::port::memory::Chunks;
use weir::qdisc::{Cx, Drops, Reason};
use weir::rng::Random;
use weir::spec;
use weir::stats::{StageStats, rows, tc_json, tc_text};
use weir::time::{Instant, SECOND};

const START: Instant = Instant::from_nanos(1 << 40);
const FRAMES: usize = 4096;

/// A data-transfer frame of 1435 bytes with no code in it yet.
fn dtp_frame(endpoint: u16) -> Vec<u8> {
    let mut bytes = vec![0x36, 0x76, 0x86, 0xE3, 0x9F, 0x06, 0xDE, 0x83, 0x23, 0x2E, 0xC8, 0x9B, 0xA0, 0x00];
    let mut poa = endpoint.to_be_bytes().to_vec();
    poa.extend(1416u16.to_be_bytes());
    poa.push(dtp::poa_hcs(&poa));
    bytes.extend(poa);
    bytes.extend([0x19, 0x7B, 0x24, 0xBC, 0, 60, 0, 0]);
    bytes.extend([0x42, 0, 0, 0, 0xFB, 0x5E, 0x91, 0xA2]);
    bytes.resize(1435, 0x5A);
    bytes
}

struct Left {
    bytes: Vec<u8>,
    marks: Marks,
    sojourn: u64,
}

struct Bench {
    pipeline: Pipeline,
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    frames: Chunks,
    dropped: Vec<Reason>,
}

impl Bench {
    fn new(line: &str) -> Self {
        let spec = spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec;
        let mut pipeline = spec.build(Link::default());
        pipeline.start(START);
        Bench {
            pipeline,
            pool: Pool::new(FRAMES),
            drops: Drops::default(),
            random: Random::seeded(1),
            hashing: Hashing::Keyed([1, 2]),
            frames: Chunks::new(FRAMES, 2048),
            dropped: Vec::new(),
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Pipeline, &mut Cx<'_>) -> T) -> T {
        let mut cx = Cx {
            pool: &mut self.pool,
            drops: &mut self.drops,
            random: &mut self.random,
            hashing: &mut self.hashing,
            frames: &mut self.frames,
        };
        work(&mut self.pipeline, &mut cx)
    }

    fn arrive(&mut self, now: Instant, bytes: &[u8]) {
        let frame = self.pool.take().expect("a record");
        let packet = &mut self.pool[&frame];
        (packet.len, packet.arrived, packet.truesize, packet.marks) = (bytes.len() as u32, now, 2304, Marks::NONE);
        packet.headroom = 0;
        let headers = Headers::parse(bytes);
        headers.apply(packet);
        let packet = *packet;
        self.frames.bytes_mut(frame.slot(), &packet).copy_from_slice(bytes);
        self.with(|p, cx| p.enqueue(now, frame, &headers, cx));
        self.clear();
    }

    fn clear(&mut self) {
        while let Some((frame, reason)) = self.drops.pop(&mut self.pool) {
            self.dropped.push(reason);
            self.pool.give(frame);
        }
    }

    fn serve(&mut self, now: Instant, out: &mut Vec<Left>) {
        while let Some(frame) = self.with(|p, cx| p.dequeue(now, cx)) {
            let packet = self.pool[&frame];
            let bytes = self.frames.bytes(frame.slot(), &packet).to_vec();
            out.push(Left { bytes, marks: packet.marks, sojourn: now.since(packet.arrived) });
            self.pool.give(frame);
        }
        self.clear();
    }

    /// A standing queue of `n` frames for `seconds` behind 10 Mbit/s: one comes for each that goes.
    fn stand(&mut self, n: usize, frame: impl Fn(usize) -> Vec<u8>, seconds: u64) -> Vec<Left> {
        let mut out = Vec::new();
        for i in 0..n {
            self.arrive(START, &frame(i));
        }
        self.serve(START, &mut out);
        let (mut sent, mut i) = (0, n);
        while let Some(t) = self.pipeline.next_event().filter(|t| t.since(START) < seconds * SECOND) {
            self.with(|p, cx| p.tick(t, cx));
            self.serve(t, &mut out);
            for _ in sent..out.len() {
                self.arrive(t, &frame(i));
                i += 1;
            }
            sent = out.len();
            self.serve(t, &mut out);
        }
        out
    }

    fn mb_ecn(&self) -> weir::mark::mb_ecn::Stats {
        let stats = self.pipeline.stats(START + 10 * SECOND);
        let found = stats.into_iter().find_map(|s| match s {
            StageStats::Marked { mb_ecn, .. } => Some(*mb_ecn),
            _ => None,
        });
        found.expect("a stage has mb-ecn")
    }
}

const STAGES: [&str; 4] = [
    "pfifo limit 1000 mb-ecn dtp trust-all | tbf rate 10mbit burst 3k",
    "codel limit 1000 mb-ecn dtp trust-all | tbf rate 10mbit burst 3k",
    "fq_codel limit 1000 mb-ecn dtp trust-all | tbf rate 10mbit burst 3k",
    "cake bandwidth 10mbit besteffort mb-ecn dtp trust-all",
];

#[test]
fn a_standing_queue_is_told_to_each_frame_and_nothing_is_dropped() {
    for line in STAGES {
        let mut bench = Bench::new(line);
        let left = bench.stand(60, |_| dtp_frame(66), 3);
        assert!(left.len() > 2000, "{line}");
        assert!(bench.dropped.is_empty(), "{line}: {:?}", bench.dropped);
        let original = dtp_frame(66);
        for l in &left[100..] {
            // 57 to 59 stand behind it: the same code.
            assert_eq!((l.bytes[25], l.bytes[26]), (code::encode(58), 81), "{line}");
            let rest = |b: &[u8]| [&b[..25], &b[27..]].concat();
            assert_eq!(rest(&l.bytes), rest(&original), "{line}: only the two bytes differ");
        }
        let s = bench.mb_ecn();
        assert_eq!(s.own_cap, 81);
        let held_back = left.iter().filter(|l| l.marks.has(Marks::HELD_BACK)).count() as u64;
        assert_eq!(s.tally.suppressed, held_back, "{line}");
        // 60 frames of 1.15 ms each are far above any target.
        assert_eq!(held_back > 10, !line.starts_with("pfifo"), "{line}: {held_back}");
        assert!(left[200].sojourn > 60_000_000);
    }
}

#[test]
fn a_flow_that_is_not_recognised_gets_the_ordinary_aqm_and_keeps_its_bytes() {
    let damaged = |_| {
        let mut bytes = dtp_frame(66);
        bytes[18] ^= 1;
        bytes
    };
    for line in &STAGES[1..] {
        let mut bench = Bench::new(line);
        let left = bench.stand(60, damaged, 3);
        assert!(bench.dropped.contains(&Reason::Aqm), "{line}");
        assert!(left.iter().all(|l| l.bytes == damaged(0)), "{line}");
        assert_eq!(bench.mb_ecn().tally.marked_ecn, 0);
    }
}

#[test]
fn a_flow_that_does_not_listen_is_dropped_at_last() {
    let mut bench = Bench::new("codel limit 4000 mb-ecn dtp trust-all max 24 | tbf rate 10mbit burst 3k");
    bench.stand(200, |_| dtp_frame(66), 5);
    assert!(bench.dropped.contains(&Reason::Aqm), "200 packets are more than code 24 allows");
}

#[test]
fn one_flow_among_others_is_told_of_all_queues_and_not_only_its_own() {
    let mut bench = Bench::new("fq_codel limit 1000 mb-ecn hbh mb-ecn l4s | tbf rate 10mbit burst 3k");
    let udp = |i: usize| {
        let build = weir::wire::build::Build {
            len: 1514,
            src: std::net::IpAddr::from([10, 0, 0, 1]),
            dst: std::net::IpAddr::from([10, 0, 0, 2]),
            protocol: 17,
            sport: 1000 + (i % 4) as u16,
            dport: 2,
            ds: 1,
            tcp: None,
        };
        build.frame()
    };
    let left = bench.stand(40, udp, 3);
    // Ten in each of four queues: 36 or more in all, beyond the saturation of 8 packets at 10 Mbit/s.
    // Some CoDel has marked already.
    assert!(left[200..].iter().all(|l| l.marks.has(Marks::MB_ECN) != l.marks.has(Marks::ECN)));
    assert!(left[200..].iter().filter(|l| l.marks.has(Marks::MB_ECN)).count() > 1000);
    let few = Bench::new("fq_codel mb-ecn l4s | tbf rate 10mbit burst 3k").stand(5, |_| udp(0), 3);
    let share = few[200..].iter().filter(|l| l.marks.has(Marks::MB_ECN)).count() as f64 / (few.len() - 200) as f64;
    assert!((0.2..0.5).contains(&share), "three or four behind: {share}");
}

#[test]
fn what_was_done_is_shown_behind_what_tc_shows() {
    let mut bench = Bench::new("codel mb-ecn dtp | tbf rate 10mbit burst 3k");
    bench.stand(20, |_| dtp_frame(66), 1);
    let stats = bench.pipeline.stats(START + SECOND);
    let rows = rows::rows("", &stats);
    let text: String = rows.iter().map(tc_text::stage).collect();
    for part in ["capacity 81 (9961Kbit)", "learned 1", "untouched: unlearned 4"] {
        assert!(text.contains(part), "{text}");
    }
    let json = tc_json::stage(rows.last().expect("a child"));
    assert_eq!(json["mb_ecn"]["own_cap"], 81);
    assert_eq!(json["mb_ecn"]["untouched"]["unlearned"], 4);
    let dtp = &json["mb_ecn"]["carriers"]["dtp"];
    assert_eq!(dtp["recognised"], json["mb_ecn"]["candidates"].as_u64().expect("a number") - 4);
    assert_eq!(json["mb_ecn"]["carriers"]["l4s"]["enabled"], false);
    assert!(text.contains(&format!("dtp: recognised {}", dtp["recognised"])), "{text}");
}

//! What one packet costs: parse, enqueue and dequeue, in ns.
//!
//! ```text
//! cargo bench --bench core --no-default-features [-- [--quick] [WORD…]]
//! ```
//!
//! 100 packets stand in the queue; each step advances the clock by 1000 ns, parses and enqueues one
//! packet and dequeues one, flows in rotation. A second set has up to 100 packets standing in every
//! flow (100000 in all), so that records are cold. A figure is the lowest of the blocks, with the
//! median behind it; other work on the machine only ever adds.
//!
//! `REFERENCE` has what the kernel's own code (6.12.117, compiled in user space, headers parsed and
//! three SipHash-2-4 over 36 bytes a packet) took for the same steps on another day. Machines differ
//! from day to day, so a yardstick runs beside the rows: our parser and three SipHash-2-4 over 36 bytes.
//! The reference took `REFERENCE_YARDSTICK` for that, the median of its rows with parsing and hashing less
//! those without. `ratio` is our figure over the reference's, scaled by the yardstick. Rows that name
//! words run only those whose name has all of them.

use std::hint::black_box;
use std::time::Instant as Wall;

use siphasher::sip::SipHasher24;
use weir::autorate::{Tap, tap::NOTES};
use weir::classify::{Hashing, Headers};
use weir::engine::journal::Journal;
use weir::engine::{Engine, Parts};
use weir::packet::{Packet, truesize};
use weir::pipeline::{Link, Pipeline};
use weir::pool::Pool;
use weir::port::memory::{Chunks, MemoryRx, MemoryTx};
use weir::qdisc::{Cx, Drops, NoFrames};
use weir::rng::Random;
use weir::spec;
use weir::time::Instant;
use weir::wire::build::{Build, TcpFields};

/// Discipline, flows, frame length, lowest ns of "parse + SipHash".
const REFERENCE: [(&str, usize, u32, f64); 27] = [
    (UNLIMITED, 1, 64, 141.0),
    (UNLIMITED, 1, 1500, 146.0),
    (UNLIMITED, 32, 64, 151.0),
    (UNLIMITED, 32, 1500, 167.0),
    (UNLIMITED, 1024, 64, 196.0),
    (UNLIMITED, 1024, 1500, 186.0),
    (SHAPED, 1, 64, 150.0),
    (SHAPED, 1, 1500, 148.0),
    (SHAPED, 32, 64, 229.0),
    (SHAPED, 32, 1500, 182.0),
    (SHAPED, 1024, 64, 208.0),
    (SHAPED, 1024, 1500, 194.0),
    (TINS, 1, 64, 148.0),
    (TINS, 1, 1500, 154.0),
    (TINS, 32, 64, 158.0),
    (TINS, 32, 1500, 172.0),
    (TINS, 1024, 64, 177.0),
    (TINS, 1024, 1500, 212.0),
    (SHAPED_TINS, 1, 64, 142.0),
    (SHAPED_TINS, 1, 1500, 147.0),
    (SHAPED_TINS, 32, 64, 171.0),
    (SHAPED_TINS, 32, 1500, 170.0),
    (SHAPED_TINS, 1024, 64, 182.0),
    (SHAPED_TINS, 1024, 1500, 184.0),
    (CODEL, 1, 64, 9.0),
    (CODEL, 32, 1500, 9.0),
    (CODEL, 1024, 1500, 10.0),
];

const UNLIMITED: &str = "cake besteffort";
const SHAPED: &str = "cake bandwidth 100gbit besteffort";
const TINS: &str = "cake diffserv4 triple-isolate";
const SHAPED_TINS: &str = "cake bandwidth 100gbit diffserv4 triple-isolate";
const CODEL: &str = "codel limit 200000";
const FIFO: &str = "pfifo limit 200000";
const BUCKET: &str = "pfifo limit 200000 | tbf rate 100gbit burst 1mb";

/// The reference's rows of cake with parsing and hashing, less those without.
const REFERENCE_YARDSTICK: f64 = 87.0;

const STEP: u64 = 1000;

struct Bench {
    frames: Vec<Vec<u8>>,
    len: u32,
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    pipeline: Pipeline,
    now: Instant,
    flow: usize,
}

fn headers_of(flow: usize, len: u32) -> Vec<u8> {
    let n = flow as u32;
    let mut bytes = Vec::new();
    Build {
        len,
        src: std::net::Ipv4Addr::from(0x0A00_0001 + n).into(),
        dst: std::net::Ipv4Addr::from(0xC612_0001 + n).into(),
        protocol: 17,
        sport: 40_000 + (n % 20_000) as u16,
        dport: 5001,
        ds: 2,
        tcp: None,
    }
    .write(&mut bytes);
    bytes.truncate(64);
    bytes
}

impl Bench {
    fn new(spec: &str, flows: usize, len: u32, standing: usize) -> Bench {
        let parsed = spec::parse(spec).unwrap_or_else(|e| panic!("{}", e.render(spec)));
        let mut bench = Bench {
            frames: (0..flows).map(|f| headers_of(f, len)).collect(),
            len,
            pool: Pool::new(standing + 64),
            drops: Drops::default(),
            random: Random::seeded(1),
            hashing: Hashing::Keyed([0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210]),
            pipeline: parsed.spec.build(Link::default()),
            now: Instant::from_nanos(1 << 40),
            flow: 0,
        };
        for _ in 0..standing {
            bench.arrive();
        }
        bench
    }

    #[inline]
    fn arrive(&mut self) {
        let bytes = &self.frames[self.flow];
        self.flow += 1;
        if self.flow == self.frames.len() {
            self.flow = 0;
        }
        let headers = Headers::parse(bytes);
        let Some(frame) = self.pool.take() else { return };
        let packet = &mut self.pool[&frame];
        *packet = Packet::default();
        packet.arrived = self.now;
        packet.len = self.len;
        packet.truesize = truesize(self.len);
        packet.charged = self.len;
        headers.apply(packet);
        let cx = &mut Cx {
            pool: &mut self.pool,
            drops: &mut self.drops,
            random: &mut self.random,
            hashing: &mut self.hashing,
            frames: &mut NoFrames,
        };
        self.pipeline.enqueue(self.now, frame, &headers, cx);
    }

    #[inline]
    fn step(&mut self) {
        self.now = self.now + STEP;
        self.arrive();
        let cx = &mut Cx {
            pool: &mut self.pool,
            drops: &mut self.drops,
            random: &mut self.random,
            hashing: &mut self.hashing,
            frames: &mut NoFrames,
        };
        if let Some(frame) = self.pipeline.dequeue(self.now, cx) {
            self.pool.give(frame);
        }
        while let Some((frame, _)) = self.drops.pop(&mut self.pool) {
            self.pool.give(frame);
        }
    }
}

/// Lowest and median ns a step of several blocks.
fn measure(blocks: usize, steps: usize, mut step: impl FnMut()) -> (f64, f64) {
    (0..steps).for_each(|_| step());
    let mut figures: Vec<f64> = (0..blocks)
        .map(|_| {
            let begin = Wall::now();
            (0..steps).for_each(|_| step());
            begin.elapsed().as_nanos() as f64 / steps as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    (figures[0], figures[blocks / 2])
}

/// What a tap of `autorate` costs: a TCP segment with timestamps that is looked at, and a frame that is not.
fn taps(blocks: usize, steps: usize) -> [(f64, f64); 2] {
    let options = [&[1, 1, 8, 10][..], &[7; 8]].concat();
    let tcp = Some(TcpFields { flags: 16, options, ..TcpFields::default() });
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 1, 1].into());
    let frame = Build { len: 1514, src, dst, protocol: 6, sport: 1, dport: 2, ds: 0, tcp }.headers();
    // One in 50 us is looked at for good, so nearly all of those that come each 10 ns are not.
    [100_000, 10].map(|step| {
        let (mut tap, mut spare) = (Tap::new(1), Vec::with_capacity(NOTES));
        let (mut now, mut n) = (Instant::from_nanos(1 << 40), 0);
        measure(blocks, steps, || {
            now = now + step;
            n += 1;
            if n % NOTES == 0 {
                tap.swap(&mut spare);
            }
            tap.arrived(now, 1514, black_box(&frame[14..]));
        })
    })
}

/// What a packet costs in a whole turn of the engine, between ports in memory: without a journal, and with one that is
/// emptied before it is full.
fn turns(blocks: usize, steps: usize) -> [(f64, f64); 2] {
    const FRAMES: usize = 4096;
    const ROOM: usize = 8192;
    let bytes = [headers_of(7, 1514), vec![0; 1514]].concat()[..1514].to_vec();
    [false, true].map(|keeps| {
        let mut tx = MemoryTx::new(64, 1522);
        tx.keeps = false;
        let mut engine = Engine::new(Parts {
            rx: MemoryRx::new(512),
            tx,
            frames: Chunks::new(FRAMES, 2048),
            capacity: FRAMES,
            pipeline: spec::parse("cake").expect("a good specification").spec.build(Link::default()),
            random: Random::seeded(7),
            hashing: Hashing::Keyed([1, 2]),
        });
        engine.keep_journal(keeps.then(|| Journal::new(FRAMES, ROOM)));
        let (mut now, mut n, mut spare) = (Instant::from_nanos(1 << 40), 0, Vec::with_capacity(ROOM));
        measure(blocks, steps, || {
            now = now + 1000;
            n += 1;
            engine.rx_mut().arriving.push_back((now, bytes.clone()));
            engine.turn(now);
            if n % (ROOM / 4) == 0 {
                if let Some(notes) = engine.take_notes(std::mem::take(&mut spare)) {
                    assert_eq!(notes.lost, 0);
                    spare = notes.notes;
                }
            }
        })
    })
}

fn yardstick(blocks: usize, steps: usize) -> (f64, f64) {
    let bytes = headers_of(7, 64);
    let hasher = SipHasher24::new_with_keys(1, 2);
    let mut key = [0u8; 36];
    measure(blocks, steps, || {
        let headers = black_box(Headers::parse(black_box(&bytes)));
        key[..16].copy_from_slice(&headers.keys.src);
        key[16..32].copy_from_slice(&headers.keys.dst);
        for i in 0..3 {
            key[32] = i;
            black_box(hasher.hash(black_box(&key)));
        }
    })
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let quick = words.iter().any(|w| w == "--quick");
    let words: Vec<&String> = words.iter().filter(|w| !w.starts_with("--")).collect();
    // Short blocks, so that some of them are not interrupted.
    let (blocks, steps) = if quick { (101, 4_000) } else { (401, 10_000) };
    let wanted = |name: &str| words.iter().all(|w| name.contains(w.as_str()));

    let (yard, yard_median) = yardstick(blocks, steps);
    let scale = yard / REFERENCE_YARDSTICK;
    println!("yardstick: {yard:.1} ns (median {yard_median:.1}), reference {REFERENCE_YARDSTICK}: scale {scale:.3}");
    println!("{:<52} {:>6} {:>5} {:>7} {:>7} {:>7} {:>6}", "", "flows", "bytes", "lowest", "median", "kernel", "ratio");

    if wanted("autorate tap") {
        for (name, (lowest, median)) in ["autorate tap, looks", "autorate tap, passes"].iter().zip(taps(blocks, steps))
        {
            println!("{name:<52} {:>6} {:>5} {lowest:>7.1} {median:>7.1} {:>7} {:>6}", 1, 1514, "-", "-");
        }
    }

    if wanted("engine turn, cake, journal") {
        let [without, with] = turns(blocks, steps);
        for (name, (lowest, median)) in [("engine turn, cake", without), ("engine turn, cake, journal", with)] {
            println!("{name:<52} {:>6} {:>5} {lowest:>7.1} {median:>7.1} {:>7} {:>6}", 1, 1514, "-", "-");
        }
    }

    let mut ratios: Vec<f64> = Vec::new();
    let mut growth: Vec<(f64, f64)> = Vec::new();
    let mut warm = |spec: &str, standing_per_flow: Option<usize>| {
        let mut at_32 = [0.0; 2];
        for flows in [1, 32, 1024, 60_000] {
            for (i, len) in [64, 1500].into_iter().enumerate() {
                let spec = if flows > 1024 && spec.starts_with("cake") {
                    format!("{spec} queues 65536")
                } else {
                    spec.to_string()
                };
                let (name, standing) = match standing_per_flow {
                    None => (spec.clone(), 100),
                    Some(n) => (format!("{spec}, {} standing", (n * flows).min(100_000)), (n * flows).min(100_000)),
                };
                if !wanted(&format!("{name} {flows}x{len}")) {
                    continue;
                }
                // Packets by the thousand need room, and the AQM must not thin them out.
                let spec = match standing_per_flow {
                    Some(_) if spec.starts_with("cake") => format!("{spec} memlimit 1gb rtt 1000s"),
                    _ => spec,
                };
                let mut bench = Bench::new(&spec, flows, len, standing);
                let (lowest, median) = measure(blocks, steps, || bench.step());
                let reference = REFERENCE.iter().find(|r| (r.0, r.1, r.2) == (name.as_str(), flows, len));
                let (kernel, ratio) = match reference {
                    Some((.., ns)) => {
                        let ratio = lowest / (ns * scale);
                        if name.starts_with("cake") {
                            ratios.push(ratio);
                        }
                        (format!("{ns:.0}"), format!("{ratio:.2}"))
                    }
                    None => ("-".into(), "-".into()),
                };
                println!("{name:<52} {flows:>6} {len:>5} {lowest:>7.1} {median:>7.1} {kernel:>7} {ratio:>6}");
                match flows {
                    32 => at_32[i] = lowest,
                    1024 if standing_per_flow.is_none() => growth.push((at_32[i], lowest)),
                    _ => {}
                }
            }
        }
    };
    for spec in [FIFO, BUCKET, CODEL, UNLIMITED, SHAPED, TINS, SHAPED_TINS] {
        warm(spec, None);
    }
    for spec in [FIFO, UNLIMITED, SHAPED, TINS, SHAPED_TINS] {
        warm(spec, Some(100));
    }
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        println!("cake against the kernel: geometric mean {mean:.2} (wanted 0.50), worst row {worst:.2} (wanted 0.70)");
    }
    let worst = growth.iter().filter(|g| g.0 > 0.0).map(|(a, b)| b / a).fold(0.0, f64::max);
    println!("from 32 to 1024 flows: at most {worst:.2} times (wanted 1.5)");
}

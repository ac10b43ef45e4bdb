//! `htb` with one class: two token buckets over a queue (`spec/codel.md` §6).
//!
//! Unlike `tbf` it asks its child only when a packet may go, and lets that packet run the buckets
//! into debt: it looks at the tokens before, not at the packet.

use super::fifo::{self, Fifo, TX_QUEUE_LEN};
use super::{Cx, Observation, Qdisc, Reason};
use crate::classify::Headers;
use crate::packet::Packet;
use crate::pipeline::Link;
use crate::pool::{Frame, Queue};
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::{Instant, SECOND};
use crate::units::{ByteTime, LinkLayer, Rate};

/// Bounds both debt and the time that counts as elapsed, ns.
pub const MBUFFER: i64 = 60 * SECOND as i64;

/// The priority that names the qdisc itself: such packets go past the class.
const DIRECT: u32 = 1 << 16;

/// Parameters of the class, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Rate that is held in the long run.
    pub rate: Rate,
    /// Rate of bursts; `None` for `rate`.
    pub ceil: Option<Rate>,
    /// Depth of the rate's bucket, bytes; `None` for the tool's default.
    pub burst: Option<u32>,
    /// Depth of the ceil's bucket, bytes; `None` for the tool's default.
    pub cburst: Option<u32>,
    /// What the default bursts are at least, bytes; `None` for 1600.
    pub mtu: Option<u32>,
    /// Bytes added to each packet.
    pub overhead: u16,
    /// Smallest length charged, bytes.
    pub mpu: u16,
    /// Cell framing.
    pub link_layer: LinkLayer,
    /// Priority among classes. With one class it decides nothing.
    pub prio: u32,
    /// Share among classes, bytes. With one class it decides nothing.
    pub quantum: Option<u32>,
}

impl Params {
    /// A class with nothing but a rate.
    pub fn new(rate: Rate) -> Self {
        Params {
            rate,
            ceil: None,
            burst: None,
            cburst: None,
            mtu: None,
            overhead: 0,
            mpu: 0,
            link_layer: LinkLayer::Ethernet,
            prio: 0,
            quantum: None,
        }
    }

    fn quantum(&self) -> u32 {
        let fair = (self.rate.bytes_per_second() / 10).clamp(1000, 200_000) as u32;
        self.quantum.unwrap_or(fair)
    }

    fn bucket(&self, rate: Rate, bytes: Option<u32>) -> Bucket {
        // The tool's resolution is 1 ns, so that a rate adds next to nothing to the default.
        let default = rate.bytes_per_second() / SECOND + u64::from(self.mtu.unwrap_or(1600));
        let bytes = bytes.map_or(default, u64::from);
        Bucket::full(ByteTime::new(rate, self.overhead, self.mpu, self.link_layer), bytes)
    }
}

/// One bucket.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Rate and length adjustment.
    pub time: ByteTime,
    /// Depth, ns.
    pub depth: i64,
    /// Tokens at the check point, ns.
    pub tokens: i64,
}

impl Bucket {
    /// The tool turns bytes into whole microseconds, then into ticks of 64 ns.
    fn full(time: ByteTime, bytes: u64) -> Self {
        let us = u128::from(bytes) * 1_000_000 / u128::from(time.rate().bytes_per_second());
        let ticks = u32::try_from(us * 1000 / 64).unwrap_or(u32::MAX);
        let depth = i64::from(ticks) * 64;
        Bucket { time, depth, tokens: depth }
    }

    /// The credit or debt of another bucket in bytes, at this one's rate.
    fn carry(&mut self, old: &Bucket, elapsed: i64) {
        let tokens = (old.tokens + elapsed).min(old.depth);
        let nanos = self.time.rate().time_of(tokens, old.time.rate());
        self.tokens = nanos.clamp(i128::from(1 - MBUFFER), i128::from(self.depth)) as i64;
    }

    fn charge(&mut self, elapsed: i64, len: u32) {
        let left = (self.tokens + elapsed).min(self.depth) - self.time.nanos(len) as i64;
        self.tokens = left.max(1 - MBUFFER);
    }
}

/// What `htb` reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures; drops of the child included.
    pub basic: Basic,
    /// The class's two buckets.
    pub rate: Bucket,
    /// See `rate`.
    pub ceil: Bucket,
    /// Time of the last charge.
    pub checkpoint: Instant,
    /// Packets and bytes that left through the class.
    pub class_sent: [u64; 2],
    /// Drops in the class's queue.
    pub class_drops: u64,
    /// Packets that went past the class.
    pub direct_packets: u64,
    /// Limit of the queue for those, packets.
    pub direct_qlen: u32,
    /// Whether the child is one that it made for itself.
    pub own_queue: bool,
    /// Share among classes, bytes.
    pub quantum: u32,
    /// Priority among classes.
    pub prio: u32,
}

/// `htb` at work.
pub struct Htb {
    rate: Bucket,
    ceil: Bucket,
    checkpoint: Instant,
    child: Box<dyn Qdisc>,
    direct: Queue,
    /// Of the packets that go past the class.
    direct_basic: Basic,
    class_sent: [u64; 2],
    overlimits: u64,
    wake: Option<Instant>,
    own_queue: bool,
    quantum: u32,
    prio: u32,
}

impl Htb {
    /// A class over `child`, or over a packet FIFO of its own.
    pub fn new(params: &Params, child: Option<Box<dyn Qdisc>>, mtu: u32) -> Self {
        let own = || Box::new(Fifo::new(fifo::Params { kind: fifo::Kind::Packets, limit: None }, mtu));
        Htb {
            rate: params.bucket(params.rate, params.burst),
            ceil: params.bucket(params.ceil.unwrap_or(params.rate), params.cburst),
            checkpoint: Instant::ZERO,
            own_queue: child.is_none(),
            child: child.unwrap_or_else(|| own()),
            direct: Queue::default(),
            direct_basic: Basic::default(),
            class_sent: [0; 2],
            overlimits: 0,
            wake: None,
            quantum: params.quantum(),
            prio: params.prio,
        }
    }

    fn elapsed(&self, now: Instant) -> i64 {
        now.since(self.checkpoint).min(MBUFFER as u64) as i64
    }

    /// When the class may send, if not at `now`.
    fn closed_until(&self, now: Instant) -> Option<Instant> {
        let missing = -self.rate.tokens.min(self.ceil.tokens) - self.elapsed(now);
        (missing > 0).then(|| now + missing as u64)
    }

    /// 0 cannot send, 1 may borrow (from a parent, which there is none of), 2 can send.
    fn mode(&self) -> u32 {
        match (self.ceil.tokens < 0, self.rate.tokens < 0) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    }
}

impl Qdisc for Htb {
    fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        let packet = &mut cx.pool[&frame];
        if packet.priority != DIRECT {
            self.child.enqueue(now, frame, headers, cx);
            return;
        }
        if self.direct_basic.qlen >= TX_QUEUE_LEN {
            self.direct_basic.drops += 1;
            cx.drops.push(cx.pool, frame, Reason::QueueFull);
            return;
        }
        packet.enqueued = now;
        self.direct_basic.queued(packet.len);
        self.direct.push(cx.pool, frame);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        self.wake = None;
        if let Some(frame) = self.direct.pop(cx.pool) {
            let packet = &mut cx.pool[&frame];
            packet.released = now;
            packet.charged = packet.len;
            self.direct_basic.sent(packet.len);
            return Some(frame);
        }
        if self.child.packets() == 0 {
            return None;
        }
        if let Some(until) = self.closed_until(now) {
            self.overlimits += 1;
            self.wake = Some(until);
            return None;
        }
        let frame = self.child.dequeue(now, cx)?;
        let len = cx.pool[&frame].len;
        let elapsed = self.elapsed(now);
        self.rate.charge(elapsed, len);
        self.ceil.charge(elapsed, len);
        self.checkpoint = now;
        self.class_sent[0] += 1;
        self.class_sent[1] += u64::from(len);
        cx.pool[&frame].charged = self.rate.time.charged(len);
        Some(frame)
    }

    fn next_event(&self) -> Option<Instant> {
        self.wake.or_else(|| self.child.next_event())
    }

    fn tick(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.child.tick(now, cx);
    }

    fn start(&mut self, now: Instant) {
        self.child.start(now);
    }

    fn set_drain(&mut self, below: Option<Rate>) {
        self.child.set_drain(Rate::lower(self.rate(), below));
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.rate.time.rate())
    }

    fn packets(&self) -> u32 {
        self.child.packets() + self.direct_basic.qlen
    }

    fn bytes(&self) -> u64 {
        self.child.bytes() + self.direct_basic.backlog
    }

    fn hold(&mut self, len: u32) {
        self.child.hold(len);
    }

    fn let_go(&mut self, len: u32) {
        self.child.let_go(len);
    }

    fn stats(&self, now: Instant) -> StageStats {
        let class_drops = self.child.stats(now).basic().drops;
        StageStats::Htb(Box::new(Stats {
            basic: Basic {
                sent_packets: self.class_sent[0] + self.direct_basic.sent_packets,
                sent_bytes: self.class_sent[1] + self.direct_basic.sent_bytes,
                drops: class_drops + self.direct_basic.drops,
                overlimits: self.overlimits,
                backlog: self.bytes(),
                qlen: self.packets(),
            },
            rate: self.rate,
            ceil: self.ceil,
            checkpoint: self.checkpoint,
            class_sent: self.class_sent,
            class_drops,
            direct_packets: self.direct_basic.sent_packets,
            direct_qlen: TX_QUEUE_LEN,
            own_queue: self.own_queue,
            quantum: self.quantum,
            prio: self.prio,
        }))
    }

    fn observe(&self, packet: &Packet) -> Observation {
        Observation {
            charged: Some(packet.charged),
            tokens: Some(self.rate.tokens),
            ctokens: Some(self.ceil.tokens),
            mode: Some(self.mode()),
            ..self.child.observe(packet)
        }
    }

    fn child(&self) -> Option<&dyn Qdisc> {
        Some(self.child.as_ref())
    }

    fn child_mut(&mut self) -> Option<&mut dyn Qdisc> {
        Some(self.child.as_mut())
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Htb(_) => Ok(()),
            other => Err(super::other_kind("htb", other)),
        }
    }

    /// The buckets keep their credit in bytes: a change gives nobody a burst.
    fn change(&mut self, stage: &Stage, _: Link, now: Instant, _: &mut Cx<'_>) {
        let Stage::Htb(p) = stage else { return };
        let elapsed = self.elapsed(now);
        let mut rate = p.bucket(p.rate, p.burst);
        let mut ceil = p.bucket(p.ceil.unwrap_or(p.rate), p.cburst);
        rate.carry(&self.rate, elapsed);
        ceil.carry(&self.ceil, elapsed);
        (self.rate, self.ceil, self.checkpoint) = (rate, ceil, now);
        self.quantum = p.quantum();
        self.prio = p.prio;
        self.wake = self.wake.map(|_| now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Hashing;
    use crate::pool::{NoFrames, Pool};
    use crate::qdisc::Drops;
    use crate::rng::Random;

    const START: Instant = Instant::from_nanos(1 << 40);

    struct Bench {
        htb: Htb,
        pool: Pool,
        drops: Drops,
        random: Random,
        hashing: Hashing,
    }

    impl Bench {
        fn new(params: Params) -> Self {
            Bench {
                htb: Htb::new(&params, None, 1514),
                pool: Pool::new(4096),
                drops: Drops::default(),
                random: Random::seeded(1),
                hashing: Hashing::Numbered(Default::default()),
            }
        }

        fn with<T>(&mut self, work: impl FnOnce(&mut Htb, &mut Cx<'_>) -> T) -> T {
            let mut frames = NoFrames;
            let mut cx = Cx {
                pool: &mut self.pool,
                drops: &mut self.drops,
                random: &mut self.random,
                hashing: &mut self.hashing,
                frames: &mut frames,
            };
            work(&mut self.htb, &mut cx)
        }

        fn arrive(&mut self, n: usize, len: u32, priority: u32) {
            for _ in 0..n {
                let frame = self.pool.take().expect("a record");
                self.pool[&frame] = Packet { len, priority, ..Packet::default() };
                self.with(|h, cx| h.enqueue(START, frame, &Headers::default(), cx));
            }
        }

        /// Departures after the start in ns, with each packet's priority.
        fn drain(&mut self, from: Instant) -> Vec<(u64, u32)> {
            let (mut now, mut out) = (from, Vec::new());
            loop {
                if let Some(frame) = self.with(|h, cx| h.dequeue(now, cx)) {
                    out.push((now.since(START), self.pool[&frame].priority));
                    self.pool.give(frame);
                } else if let Some(t) = self.htb.next_event() {
                    assert!(t > now);
                    now = t;
                } else {
                    return out;
                }
            }
        }
    }

    fn params() -> Params {
        let mbit = |n: u64| Rate::from_bits_per_second(n * 1_000_000);
        // 1250 bytes take 1 ms at the rate, 0.5 ms at the ceil.
        Params { ceil: Some(mbit(20)), burst: Some(12_500), cburst: Some(2500), ..Params::new(mbit(10)) }
    }

    #[test]
    fn after_idling_cburst_leaves_at_line_speed_then_burst_at_ceil_then_all_at_rate() {
        let mut bench = Bench::new(params());
        bench.arrive(40, 1250, 0);
        let times: Vec<_> = bench.drain(START).iter().map(|(t, _)| t / 1000).collect();
        // Two fill cburst, and a third runs it into debt.
        assert_eq!(times[..5], [0, 0, 0, 500, 1000]);
        let gaps: Vec<_> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let ceil = gaps.iter().skip(2).take_while(|g| **g == 500).count();
        // Ten fill burst; while they leave, at twice the rate, more tokens come.
        assert_eq!(ceil, 16);
        assert!(gaps[2 + ceil + 1..].iter().all(|g| *g == 1000), "{gaps:?}");
    }

    #[test]
    fn packets_for_the_qdisc_itself_pass_the_class_uncharged() {
        let mut bench = Bench::new(params());
        bench.arrive(5, 1250, 0);
        bench.arrive(3, 1250, DIRECT);
        let left = bench.drain(START);
        assert!(left[..3].iter().all(|l| *l == (0, DIRECT)));
        let StageStats::Htb(stats) = bench.htb.stats(START) else { panic!("an htb") };
        assert_eq!((stats.direct_packets, stats.class_sent), (3, [5, 6250]));
        bench.arrive(1003, 100, DIRECT);
        assert_eq!(bench.htb.packets(), 1000, "their queue is the device's");
        assert_eq!(bench.htb.stats(START).basic().drops, 3);
    }

    #[test]
    fn debt_and_idling_are_bounded_by_a_minute() {
        let slow = Rate::from_bytes_per_second(1);
        let mut bench = Bench::new(Params { burst: Some(1), cburst: Some(1), ..Params::new(slow) });
        bench.arrive(2, 1500, 0);
        let times: Vec<_> = bench.drain(START).iter().map(|(t, _)| *t).collect();
        assert_eq!(times, [0, MBUFFER as u64 - 1], "1500 s of debt are forgiven but for a minute");
    }

    #[test]
    fn an_empty_class_asks_for_no_wakeup() {
        let mut bench = Bench::new(params());
        bench.arrive(4, 1250, 0);
        bench.drain(START);
        assert_eq!((bench.htb.next_event(), bench.htb.packets()), (None, 0));
    }
}

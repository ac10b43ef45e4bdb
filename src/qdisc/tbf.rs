//! `tbf`: a token bucket over a queue of its own or a child (`spec/codel.md` §5).
//!
//! Tokens are nanoseconds of link time. They are settled only when a packet leaves; a failed
//! attempt changes nothing but the wake-up.

use super::fifo::Fifo;
use super::{Cx, Observation, Qdisc, Reason};
use crate::classify::Headers;
use crate::packet::Packet;
use crate::pipeline::Link;
use crate::pool::{Frame, Slot};
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::Instant;
use crate::units::{ByteTime, LinkLayer, Rate, RateRange};

/// How much the queue that `tbf` makes for itself may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many bytes.
    Bytes(u32),
    /// As much as leaves within so many microseconds, plus the burst.
    Latency(u32),
}

/// Parameters, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Rate at which tokens come.
    pub rate: Rate,
    /// Depth of the bucket, bytes; `None` for [`Params::default_burst`].
    pub burst: Option<u32>,
    /// Limit of the own queue; needed only when no queue stands before `tbf`.
    pub limit: Option<Limit>,
    /// A second rate, for bursts.
    pub peak_rate: Option<Rate>,
    /// Depth of its bucket, bytes.
    pub peak_mtu: Option<u32>,
    /// Bytes added to each packet.
    pub overhead: u16,
    /// Smallest length charged, bytes.
    pub mpu: u16,
    /// Cell framing.
    pub link_layer: LinkLayer,
    /// weir's own `autorate`: between which rates the driver moves `rate` while it works.
    pub range: Option<RateRange>,
}

impl Params {
    /// A shaper with nothing but a rate.
    pub fn new(rate: Rate) -> Self {
        Params {
            rate,
            burst: None,
            limit: None,
            peak_rate: None,
            peak_mtu: None,
            overhead: 0,
            mpu: 0,
            link_layer: LinkLayer::Ethernet,
            range: None,
        }
    }

    /// Two of the largest packets, or a millisecond of the rate if that is more (decisions.md 3).
    pub fn default_burst(&self, mtu: u32) -> u32 {
        u32::try_from(self.rate.bytes_per_second() / 1000).unwrap_or(u32::MAX).max(2 * mtu)
    }

    /// The limit of the own queue in bytes, as the tool computes it from `latency`.
    fn own_limit(&self, burst: u32) -> u32 {
        let after = |rate: Rate, us: u32, depth: u32| {
            let bytes = u128::from(rate.bytes_per_second()) * u128::from(us) / 1_000_000 + u128::from(depth);
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        match self.limit {
            Some(Limit::Bytes(n)) => n,
            Some(Limit::Latency(us)) => {
                let peak = self.peak_rate.map(|p| after(p, us, self.peak_mtu.unwrap_or(0)));
                after(self.rate, us, burst).min(peak.unwrap_or(u32::MAX))
            }
            None => u32::MAX,
        }
    }
}

/// One bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    time: ByteTime,
    depth: i64,
    tokens: i64,
}

impl Bucket {
    fn full(time: ByteTime, depth: u32) -> Self {
        let depth = time.nanos(depth) as i64;
        Bucket { time, depth, tokens: depth }
    }

    /// What would remain after `len` bytes, `elapsed` ns after the last settlement. The elapsed
    /// time counts up to one bucket; see [`Tbf::dequeue`]. A packet that a change of parameters
    /// left longer than the bucket waits until it could fill one.
    fn after(&self, elapsed: i64, len: u32) -> i64 {
        let need = self.time.nanos(len) as i64;
        (elapsed + self.tokens).min(self.depth.max(need)) - need
    }

    /// The same credit in bytes, at another rate; what has come since the last settlement counts.
    fn carry(&mut self, old: &Bucket, elapsed: i64) {
        let tokens = old.tokens.saturating_add(elapsed).min(old.depth);
        self.tokens = self.time.rate().time_of(tokens, old.time.rate()).min(i128::from(self.depth)) as i64;
    }
}

/// What parameters come to on a link: full buckets.
struct Shape {
    rate: Bucket,
    peak: Option<Bucket>,
    max_size: u32,
    limit: u32,
}

impl Params {
    fn shape(&self, mtu: u32) -> Shape {
        let burst = self.burst.unwrap_or_else(|| self.default_burst(mtu));
        let peak_mtu = self.peak_mtu.unwrap_or(u32::MAX);
        let time = |rate| ByteTime::new(rate, self.overhead, self.mpu, self.link_layer);
        let peak = self.peak_rate.map(|rate| Bucket::full(time(rate), peak_mtu));
        Shape {
            rate: Bucket::full(time(self.rate), burst),
            max_size: if peak.is_some() { burst.min(peak_mtu) } else { burst },
            peak,
            limit: self.own_limit(burst),
        }
    }
}

/// What `tbf` reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures; drops of the child included.
    pub basic: Basic,
    /// Rate, overhead, mpu and cells, with the fixed-point pair.
    pub time: ByteTime,
    /// Depth of the bucket, ns.
    pub depth: i64,
    /// Largest packet that passes, bytes.
    pub max_size: u32,
    /// Tokens at the last departure, ns.
    pub tokens: i64,
    /// Time of the last departure.
    pub checkpoint: Instant,
    /// Limit of the own queue, bytes; `u32::MAX` if none was given.
    pub limit: u32,
    /// Whether the queue is one that `tbf` made for itself.
    pub own_queue: bool,
    /// The peak rate's fixed-point pair, depth and tokens, ns.
    pub peak: Option<(ByteTime, i64, i64)>,
    /// Limits of `autorate`.
    pub range: Option<RateRange>,
}

/// `tbf` at work.
pub struct Tbf {
    rate: Bucket,
    peak: Option<Bucket>,
    max_size: u32,
    limit: u32,
    own_queue: bool,
    range: Option<RateRange>,
    checkpoint: Instant,
    child: Box<dyn Qdisc>,
    /// The packet taken from a child whose dequeue decides, waiting for tokens.
    peeked: Option<Frame>,
    /// When the waiting packet was first looked at; then that of the packet sent last.
    head: Option<Instant>,
    wake: Option<Instant>,
    sent_bytes: u64,
    sent_packets: u64,
    oversize: u64,
    overlimits: u64,
}

impl Tbf {
    /// A shaper over `child`, or over a byte FIFO of its own.
    pub fn new(params: &Params, child: Option<Box<dyn Qdisc>>, mtu: u32) -> Self {
        let Shape { rate, peak, max_size, limit } = params.shape(mtu);
        Tbf {
            rate,
            peak,
            max_size,
            limit,
            own_queue: child.is_none(),
            range: params.range,
            checkpoint: Instant::ZERO,
            child: child.unwrap_or_else(|| Box::new(Fifo::bytes(limit))),
            peeked: None,
            head: None,
            wake: None,
            sent_bytes: 0,
            sent_packets: 0,
            oversize: 0,
            overlimits: 0,
        }
    }

    fn elapsed(&self, now: Instant) -> i64 {
        now.since(self.checkpoint).min(i64::MAX as u64) as i64
    }

    /// The next packet, which an AQM child decides on the first time it is asked for.
    fn peek(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Slot> {
        if let Some(slot) = self.child.front() {
            return Some(slot);
        }
        if self.peeked.is_none() {
            let frame = self.child.dequeue(now, cx)?;
            self.child.hold(cx.pool[&frame].len);
            self.peeked = Some(frame);
            self.head = Some(now);
        }
        self.peeked.as_ref().map(Frame::slot)
    }

    fn take_peeked(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        let Some(frame) = self.peeked.take() else {
            self.head = None;
            return self.child.dequeue(now, cx);
        };
        self.child.let_go(cx.pool[&frame].len);
        Some(frame)
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        if cx.pool[&frame].len > self.max_size {
            self.oversize += 1;
            cx.drops.push(cx.pool, frame, Reason::Oversize);
            return;
        }
        self.child.enqueue(now, frame, headers, cx);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        self.wake = None;
        let slot = self.peek(now, cx)?;
        let len = cx.pool[slot].len;
        let longest = self.rate.depth.max(self.rate.time.nanos(len) as i64);
        let elapsed = self.elapsed(now).min(longest);
        let tokens = self.rate.after(elapsed, len);
        let ptokens = self.peak.map_or(0, |p| p.after(elapsed, len));
        if tokens < 0 || ptokens < 0 {
            self.overlimits += 1;
            self.wake = Some(now + (-tokens).max(-ptokens) as u64);
            return None;
        }
        let frame = self.take_peeked(now, cx)?;
        self.checkpoint = now;
        self.rate.tokens = tokens;
        if let Some(peak) = &mut self.peak {
            peak.tokens = ptokens;
        }
        self.sent_packets += 1;
        self.sent_bytes += u64::from(len);
        cx.pool[&frame].charged = self.rate.time.charged(len);
        Some(frame)
    }

    fn next_event(&self) -> Option<Instant> {
        [self.wake, self.child.next_event()].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant, cx: &mut Cx<'_>) {
        // Or a wake-up that nobody followed with a dequeue would hide the child's events.
        self.wake = self.wake.filter(|t| *t > now);
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
        self.child.packets()
    }

    fn bytes(&self) -> u64 {
        self.child.bytes()
    }

    fn hold(&mut self, len: u32) {
        self.child.hold(len);
    }

    fn let_go(&mut self, len: u32) {
        self.child.let_go(len);
    }

    fn stats(&self, now: Instant) -> StageStats {
        let child = self.child.stats(now);
        StageStats::Tbf(Box::new(Stats {
            basic: Basic {
                sent_bytes: self.sent_bytes,
                sent_packets: self.sent_packets,
                drops: self.oversize + child.basic().drops,
                overlimits: self.overlimits,
                backlog: self.child.bytes(),
                qlen: self.child.packets(),
            },
            time: self.rate.time,
            depth: self.rate.depth,
            max_size: self.max_size,
            tokens: self.rate.tokens,
            checkpoint: self.checkpoint,
            limit: self.limit,
            own_queue: self.own_queue,
            peak: self.peak.map(|p| (p.time, p.depth, p.tokens)),
            range: self.range,
        }))
    }

    fn observe(&self, packet: &Packet) -> Observation {
        Observation {
            charged: Some(packet.charged),
            tokens: Some(self.rate.tokens),
            ptokens: Some(self.peak.map_or(0, |p| p.tokens)),
            head: self.head,
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
            Stage::Tbf(p) if self.own_queue && p.limit.is_none() => {
                Err("tbf without a queue before it needs \"limit SIZE\" or \"latency TIME\"".into())
            }
            Stage::Tbf(_) => Ok(()),
            other => Err(super::other_kind("tbf", other)),
        }
    }

    /// The buckets keep their credit in bytes: a change gives nobody a burst.
    fn change(&mut self, stage: &Stage, link: Link, now: Instant, cx: &mut Cx<'_>) {
        let Stage::Tbf(p) = stage else { return };
        let elapsed = self.elapsed(now);
        let mut new = p.shape(link.mtu);
        new.rate.carry(&self.rate, elapsed);
        if let (Some(peak), Some(old)) = (&mut new.peak, &self.peak) {
            peak.carry(old, elapsed);
        }
        Shape { rate: self.rate, peak: self.peak, max_size: self.max_size, limit: self.limit } = new;
        self.range = p.range;
        self.checkpoint = now;
        self.wake = self.wake.map(|_| now);
        if self.own_queue {
            let own = super::fifo::Params { kind: super::fifo::Kind::Bytes, limit: Some(self.limit) };
            self.child.change(&Stage::Fifo(own), link, now, cx);
        }
    }
}

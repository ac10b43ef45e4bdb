//! `netem`: delay, loss, duplication, damage, reordering, a rate and slots (`spec/netem.md`).
//!
//! A packet gets the moment it may leave when it comes in; everything random is drawn then, in a
//! fixed order, from the stage's own generators. Packets wait in a line while each is due no earlier
//! than the one before, and in a heap if not; those that jump the queue stand on a stack.

mod delay;
mod distribution;
mod loss;
mod random;
mod rate;
mod slot;

use super::{Compat, Cx, Observation, Qdisc, Reason};
use crate::classify::Headers;
use crate::mark::ecn;
use crate::packet::{Marks, Packet};
use crate::pipeline::Link;
use crate::pool::{DueHeap, Frame, Queue, due, set_due};
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::{Instant, SECOND};
use crate::units::{Fraction, Rate};

pub use delay::MAX_JITTER;
pub use distribution::Distribution;
pub use loss::Loss;
pub use random::{Correlations, Correlator, Sources, Taus113};
pub use rate::Shape;
pub use slot::{Slots, Spacing};

/// Parameters, as written. Times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Packets held at most.
    pub limit: u32,
    /// Mean delay.
    pub delay: u64,
    /// Jitter: half the range of a uniform delay, the unit of a table.
    pub jitter: u64,
    /// Shape of the jitter; `None` for uniform.
    pub distribution: Option<Distribution>,
    /// Whether a packet leaves no earlier than the ones before it (weir's own).
    pub ordered: bool,
    /// What is lost.
    pub loss: Loss,
    /// Marks packets that can be marked instead of losing them.
    pub ecn: bool,
    /// Share of packets that pass twice.
    pub duplicate: Fraction,
    /// Share of packets with one bit flipped.
    pub corrupt: Fraction,
    /// Share of packets that jump the queue, of those that `gap` lets try.
    pub reorder: Fraction,
    /// Every so many packets one may jump; 0 for none.
    pub gap: u32,
    /// Correlations of the draws.
    pub correlations: Correlations,
    /// The link.
    pub rate: Option<Shape>,
    /// Slots.
    pub slots: Option<Slots>,
    /// Seed of all draws; the run's if `None`.
    pub seed: Option<u64>,
}

/// Packets that `netem` holds unless told otherwise.
pub const DEFAULT_LIMIT: u32 = 1000;

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: DEFAULT_LIMIT,
            delay: 0,
            jitter: 0,
            distribution: None,
            ordered: false,
            loss: Loss::None,
            ecn: false,
            duplicate: Fraction(0),
            corrupt: Fraction(0),
            reorder: Fraction(0),
            gap: 0,
            correlations: Correlations::default(),
            rate: None,
            slots: None,
            seed: None,
        }
    }
}

/// How many packets a delay keeps under way (`spec/netem.md` §10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// At what rate.
    pub rate: Rate,
    /// For how long at most, ns.
    pub nanos: u64,
    /// Of what length, bytes.
    pub len: u32,
    /// That many.
    pub packets: u64,
}

impl Params {
    /// The packets under way if the largest, of `len` bytes with the link header, come as fast as
    /// this stage's own rate or else `below` lets them; `None` if there is no rate to count with.
    pub fn need(&self, below: Option<Rate>, len: u32) -> Option<Need> {
        let rate = self.rate.map(|r| r.rate).or(below)?;
        let reach = self.distribution.as_ref().map_or(1, Distribution::reach);
        let slots = self.slots.as_ref().map_or(0, Slots::longest);
        let nanos = self.delay.saturating_add(self.jitter * reach).saturating_add(slots);
        let bytes = u128::from(rate.bytes_per_second()) * u128::from(nanos);
        let packets = bytes.div_ceil(u128::from(SECOND) * u128::from(len.max(1))) + 1;
        Some(Need { rate, nanos, len, packets: u64::try_from(packets).unwrap_or(u64::MAX) })
    }

    /// The parameters as the kernel of the traces was given them: by a tool that cuts delay and
    /// jitter to microseconds and then to 64 ns.
    fn seen_by(mut self, compat: Compat) -> Self {
        self.jitter = self.jitter.min(MAX_JITTER);
        if compat == Compat::V6_12 {
            self.delay = self.delay / 1000 * 1000 / 64 * 64;
            self.jitter = self.jitter / 1000 * 1000 / 64 * 64;
        }
        self
    }
}

/// What happened to packets here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Left later than they came.
    pub delayed: u64,
    /// Lost, or the twin of one that lives on.
    pub lost: u64,
    /// Had a bit flipped.
    pub corrupted: u64,
    /// Passed twice.
    pub duplicated: u64,
    /// Jumped the queue.
    pub reordered: u64,
    /// Marked instead of lost.
    pub ecn_marked: u64,
    /// Would have passed twice, but no frame was free for the copy.
    pub allocation_errors: u64,
    /// Dropped because the limit was reached.
    pub limit_dropped: u64,
}

/// What `netem` reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures. Marks are not drops here, whatever `compat` says.
    pub basic: Basic,
    /// What is in force.
    pub params: Params,
    /// What happened.
    pub tally: Tally,
    /// When the slot in force opens; `None` without slots.
    pub slot_opens: Option<Instant>,
    /// The seed in use; `None` before the first packet if none was given.
    pub seed: Option<u64>,
    /// Linux 6.12 counts marks as drops.
    pub compat: Compat,
}

/// `netem` at work.
#[derive(Debug)]
pub struct Netem {
    params: Params,
    compat: Compat,
    chain: loss::Chain,
    sources: Option<Sources>,
    slot: Option<slot::Opening>,
    started: Option<Instant>,
    /// Ascending due times.
    line: Queue,
    /// Due before the end of `line` when they came.
    early: DueHeap,
    /// Jumped the queue; the latest first.
    jumped: Queue,
    /// Packets since the last that jumped.
    counter: u32,
    /// The latest due time ever given.
    latest: i64,
    /// When to ask again.
    wake: Option<Instant>,
    basic: Basic,
    tally: Tally,
}

impl Netem {
    /// An empty delay line.
    pub fn new(params: &Params, link: Link) -> Self {
        let mut new = Netem {
            params: Params::default(),
            compat: link.compat,
            chain: loss::Chain::default(),
            sources: None,
            slot: None,
            started: None,
            line: Queue::default(),
            early: DueHeap::default(),
            jumped: Queue::default(),
            counter: 0,
            latest: i64::MIN,
            wake: None,
            basic: Basic::default(),
            tally: Tally::default(),
        };
        new.set(params);
        new
    }

    /// Replaces the parameters. Packets under way keep the moment they may leave; without a new
    /// seed the draws go on where they are.
    pub fn reconfigure(&mut self, params: &Params, now: Instant) {
        self.started = Some(now);
        self.set(params);
    }

    fn set(&mut self, params: &Params) {
        let before = self.sources.take();
        self.params = params.clone().seen_by(self.compat);
        let p = &self.params;
        self.chain = loss::Chain::new(p.loss);
        self.counter = 0;
        self.sources = match p.seed {
            Some(seed) => Some(Sources::new(seed, p.correlations)),
            None => before.map(|s| s.go_on(p.correlations)),
        };
        self.slot = self.started.and_then(|now| self.opening(now));
    }

    fn opening(&self, now: Instant) -> Option<slot::Opening> {
        self.params.slots.clone().map(|s| slot::Opening::new(s, now.as_nanos() as i64))
    }

    /// Takes a packet in, or a copy of one.
    fn admit(&mut self, now: Instant, frame: Frame, sources: &mut Sources, cx: &mut Cx<'_>) {
        let p = &self.params;
        let copy = cx.pool[&frame].copy;
        let mut copies = 1;
        if p.duplicate.0 != 0 && !copy && p.duplicate.0 >= sources.duplicate.draw(&mut sources.main) {
            copies = 2;
        }
        if self.chain.loses(sources) {
            if p.ecn && ecn::set_ce(&mut cx.pool[&frame]) {
                cx.pool[&frame].marks.add(Marks::ECN);
                self.tally.ecn_marked += 1;
            } else {
                copies -= 1;
                self.tally.lost += 1;
            }
        }
        if copies == 0 {
            self.basic.drops += 1;
            cx.drops.push(cx.pool, frame, Reason::Loss);
            return;
        }
        let full = self.basic.qlen >= p.limit;
        let twin = if copies == 2 && !full { self.twin(&frame, cx) } else { None };
        if self.params.corrupt.0 != 0 && self.params.corrupt.0 >= sources.corrupt.draw(&mut sources.main) {
            self.tally.corrupted += 1;
            flip_a_bit(&frame, sources, cx);
            cx.frames.corrupted(frame.slot());
        }
        if full {
            self.basic.drops += 1;
            self.tally.limit_dropped += 1;
            cx.drops.push(cx.pool, frame, Reason::QueueFull);
            return;
        }
        if let Some(twin) = twin {
            self.admit(now, twin, sources, cx);
        }
        self.schedule(now, frame, sources, cx);
    }

    /// A second frame that says the same.
    fn twin(&mut self, of: &Frame, cx: &mut Cx<'_>) -> Option<Frame> {
        let Some(twin) = cx.pool.take() else {
            self.tally.allocation_errors += 1;
            return None;
        };
        let packet = Packet { copy: true, ..cx.pool[of] };
        cx.pool[&twin] = packet;
        cx.frames.copy(of.slot(), twin.slot(), &packet);
        self.tally.duplicated += 1;
        Some(twin)
    }

    /// Gives a packet the moment it may leave and a place to wait.
    fn schedule(&mut self, now: Instant, frame: Frame, sources: &mut Sources, cx: &mut Cx<'_>) {
        let p = &self.params;
        let clock = now.as_nanos() as i64;
        let packet = &mut cx.pool[&frame];
        packet.enqueued = now;
        self.basic.queued(packet.len);
        if p.gap != 0 && self.counter >= p.gap - 1 && p.reorder.0 >= sources.reorder.draw(&mut sources.main) {
            set_due(packet, clock);
            self.counter = 0;
            self.tally.reordered += 1;
            self.jumped.insert_after(cx.pool, None, frame);
            return;
        }
        let (t, j) = (p.delay as i64, p.jitter as i64);
        let mut time = clock.saturating_add(match j {
            0 => t,
            _ => {
                let r = sources.delay.draw(&mut sources.main);
                delay::delay(t, j, p.distribution.as_ref().and_then(Distribution::table), r)
            }
        });
        let last = self.line.back().map(|s| due(&cx.pool[s]));
        if let Some(shape) = p.rate {
            // The oldest of those that jumped counts as on the link, too.
            let oldest = self.jumped.back().map(|s| due(&cx.pool[s]));
            let free = last.max(oldest).unwrap_or(i64::MIN);
            time = time.max(free).saturating_add_unsigned(shape.nanos(cx.pool[&frame].len));
        }
        if p.ordered {
            time = time.max(self.latest);
        }
        self.latest = self.latest.max(time);
        self.counter = self.counter.wrapping_add(1);
        self.tally.delayed += u64::from(time != clock);
        set_due(&mut cx.pool[&frame], time);
        if last.is_some_and(|last| time < last) {
            self.early.push(cx.pool, frame);
        } else {
            self.line.push(cx.pool, frame);
        }
    }

    /// The due time of the next packet in turn, and whether it stands in the heap.
    fn head(&self, cx: &Cx<'_>) -> Option<(i64, bool)> {
        let line = self.line.front().map(|s| (due(&cx.pool[s]), false));
        let early = self.early.front().map(|s| (due(&cx.pool[s]), true));
        line.into_iter().chain(early).min()
    }

    /// Takes the next packet that may leave.
    fn release(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        if let Some(frame) = self.jumped.pop(cx.pool) {
            return Some(frame);
        }
        let clock = now.as_nanos() as i64;
        let (time, in_heap) = self.head(cx)?;
        if self.slot.is_some() {
            self.with_slot(cx, |slot, sources| slot.attempt(clock, time, sources));
        }
        if time > clock || self.slot.as_ref().is_some_and(|s| s.opens() > clock) {
            return None;
        }
        let frame = if in_heap { self.early.pop(cx.pool) } else { self.line.pop(cx.pool) }?;
        if self.slot.is_some() {
            let len = cx.pool[&frame].len;
            self.with_slot(cx, |slot, sources| slot.sent(clock, len, sources));
        }
        Some(frame)
    }

    /// Notes when to ask again.
    fn settle(&mut self, cx: &Cx<'_>) {
        self.wake = if self.jumped.is_empty() {
            self.head(cx).map(|(time, _)| {
                let opens = self.slot.as_ref().map_or(i64::MIN, slot::Opening::opens);
                Instant::from_nanos(time.max(opens).max(0) as u64)
            })
        } else {
            Some(Instant::ZERO)
        };
    }

    fn with_slot(&mut self, cx: &mut Cx<'_>, work: impl FnOnce(&mut slot::Opening, &mut Sources)) {
        self.with_sources(cx, |netem, sources, _| {
            if let Some(slot) = &mut netem.slot {
                work(slot, sources);
            }
        });
    }

    fn with_sources<T>(&mut self, cx: &mut Cx<'_>, work: impl FnOnce(&mut Self, &mut Sources, &mut Cx<'_>) -> T) -> T {
        let correlations = self.params.correlations;
        let mut sources = self.sources.take().unwrap_or_else(|| Sources::new(cx.random.u64(), correlations));
        let out = work(self, &mut sources, cx);
        self.sources = Some(sources);
        out
    }
}

/// One bit of one byte of the frame. Checksums stay as they are, which is the point; a mark made
/// before goes into the bytes first, and what the headers then say into the record.
fn flip_a_bit(frame: &Frame, sources: &mut Sources, cx: &mut Cx<'_>) {
    let packet = cx.pool[frame];
    let byte = (u64::from(sources.unseeded()) * u64::from(packet.len)) >> 32;
    let bit = sources.unseeded() >> 29;
    let bytes = cx.frames.bytes_mut(frame.slot(), &packet);
    if bytes.len() as u64 <= byte {
        return;
    }
    ecn::write_ds(bytes, &packet);
    bytes[byte as usize] ^= 1 << bit;
    Headers::parse(bytes).apply(&mut cx.pool[frame]);
}

impl Qdisc for Netem {
    fn enqueue(&mut self, now: Instant, frame: Frame, _: &Headers, cx: &mut Cx<'_>) {
        if self.started.is_none() {
            self.start(now);
        }
        self.with_sources(cx, |netem, sources, cx| netem.admit(now, frame, sources, cx));
        self.settle(cx);
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        let frame = self.release(now, cx);
        if let Some(frame) = &frame {
            self.basic.sent(cx.pool[frame].len);
        }
        self.settle(cx);
        frame
    }

    fn next_event(&self) -> Option<Instant> {
        self.wake
    }

    fn start(&mut self, now: Instant) {
        self.started = Some(now);
        self.slot = self.opening(now);
    }

    fn rate(&self) -> Option<Rate> {
        self.params.rate.map(|r| r.rate)
    }

    counted_in!(basic);

    fn stats(&self, _: Instant) -> StageStats {
        StageStats::Netem(Box::new(Stats {
            basic: self.basic,
            params: self.params.clone(),
            tally: self.tally,
            slot_opens: self.slot.as_ref().map(|s| Instant::from_nanos(s.opens().max(0) as u64)),
            seed: self.sources.as_ref().map(|s| s.seed).or(self.params.seed),
            compat: self.compat,
        }))
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Netem(_) => Ok(()),
            other => Err(super::other_kind("netem", other)),
        }
    }

    fn change(&mut self, stage: &Stage, _: Link, now: Instant, _: &mut Cx<'_>) {
        if let Stage::Netem(params) = stage {
            self.reconfigure(params, now);
        }
    }

    fn observe(&self, packet: &Packet) -> Observation {
        Observation { queue: Some(-1), time_to_send: Some(packet.released), ..Observation::default() }
    }
}

#[cfg(test)]
mod tests;

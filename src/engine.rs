//! One direction's data plane: a frame comes in, waits in the pipeline, and goes out or is dropped.
//!
//! [`Engine::turn`] is all of it. There is no clock in here, no lock, no log line, and no
//! allocation after [`Engine::new`]. A burst is enqueued, then served (decisions.md 12).
//!
//! Every frame is in exactly one place: free, with the receiving device, in the pipeline, among
//! the drops, or with the sending device. [`Engine::census`] counts them; between turns the sum is
//! the capacity.

pub mod journal;

use crate::autorate::{Look, Note, Tap};
use crate::classify::{Hashing, Headers};
use crate::mark::ecn::write_ds;
use crate::packet::{Marks, Packet, Signal, truesize};
use crate::pipeline::{Link, Pipeline};
use crate::pool::{Frame, Pool, Queue, Slot};
use crate::port::{PortCounters, Receive, Transmit};
use crate::qdisc::{Cx, Drops, Reason};
use crate::rng::Random;
use crate::spec::Spec;
use crate::stats::StageStats;
use crate::stats::counters::{CatchUp, Census, Counters, DropCounts};
use crate::stats::histogram::Sojourns;
use crate::time::{Instant, SECOND};
use journal::{Journal, Notes};

/// The most frames that one turn takes in.
pub const BURST: usize = 64;
/// How long a link may be down before what waits for it is dropped, in nanoseconds.
const STALE: u64 = SECOND;

/// Everything that is known of a direction at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The moment.
    pub at: Instant,
    /// What was counted.
    pub counters: Counters,
    /// What was dropped.
    pub drops: DropCounts,
    /// What the ports counted.
    pub port: PortCounters,
    /// Where the frames are.
    pub census: Census,
    /// Packets that wait.
    pub backlog_packets: u32,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// What the stages say, in the order a packet meets them; a child after the stage that pulls it.
    pub stages: Vec<StageStats>,
}

/// What a turn did, for whoever decides when the next one is due.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Packets taken in.
    pub received: usize,
    /// Packets handed to the sending device.
    pub sent: usize,
    /// Frames that came back from it.
    pub reclaimed: usize,
    /// Whether packets wait only for the sending device.
    pub blocked: bool,
}

impl Turn {
    /// Whether anything happened.
    pub fn is_idle(&self) -> bool {
        self.received == 0 && self.sent == 0 && self.reclaimed == 0
    }
}

/// What a pipeline works with: everything but the devices.
struct Stock<F> {
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    frames: F,
}

impl<F: crate::qdisc::Frames> Stock<F> {
    fn cx(&mut self) -> Cx<'_> {
        Cx {
            pool: &mut self.pool,
            drops: &mut self.drops,
            random: &mut self.random,
            hashing: &mut self.hashing,
            frames: &mut self.frames,
        }
    }
}

/// One direction.
pub struct Engine<R: Receive, T> {
    rx: R,
    tx: T,
    pipeline: Pipeline,
    stock: Stock<R::Frames>,
    inbox: Queue,
    reserve: usize,
    counters: Counters,
    sojourns: Sojourns,
    /// Whether other stages keep packets too, so that a sojourn in the last begins when it gets them.
    delays_before: bool,
    /// The pipeline gave nothing, and will not before this time unless a packet comes.
    idle_until: Instant,
    /// The time until which a shaper keeps what waits.
    due: Option<Instant>,
    down_since: Option<Instant>,
    stale_before: Instant,
    tap: Option<Box<Tap>>,
    journal: Option<Box<Journal>>,
}

/// What an engine is made of.
pub struct Parts<R: Receive, T> {
    /// Where frames come from.
    pub rx: R,
    /// Where they go.
    pub tx: T,
    /// Their bytes.
    pub frames: R::Frames,
    /// How many frames there are.
    pub capacity: usize,
    /// What they wait in.
    pub pipeline: Pipeline,
    /// Randomness for the disciplines.
    pub random: Random,
    /// How flows become numbers.
    pub hashing: Hashing,
}

impl<R: Receive, T: Transmit<Frames = R::Frames>> Engine<R, T> {
    /// An engine at rest, its receiving device stocked with frames. An eighth of the frames, but
    /// no more than a burst, is kept from the queues: for those the memory is full before, and an
    /// arriving packet is dropped by us and not, uncounted, by the device.
    pub fn new(parts: Parts<R, T>) -> Self {
        let Parts { mut rx, tx, frames, capacity, pipeline, random, hashing } = parts;
        let mut pool = Pool::new(capacity);
        let sojourns = Sojourns::of(&pipeline.stats(Instant::ZERO));
        let delays_before = pipeline.stages().count() > 1;
        let reserve = BURST.min(capacity / 8);
        rx.refill(&mut pool);
        Engine {
            rx,
            tx,
            pipeline,
            stock: Stock { pool, drops: Drops::default(), random, hashing, frames },
            inbox: Queue::default(),
            reserve,
            counters: Counters::default(),
            sojourns,
            delays_before,
            idle_until: Instant::ZERO,
            due: None,
            down_since: None,
            stale_before: Instant::ZERO,
            tap: None,
            journal: None,
        }
    }

    /// Does what is due at `now`.
    pub fn turn(&mut self, now: Instant) -> Turn {
        let reclaimed = self.tx.reclaim(now, &mut self.stock.pool);
        let received = self.take_in(now);
        self.pipeline.tick(now, &mut self.stock.cx());
        self.watch_link(now);
        let sent = self.serve(now);
        while let Some((frame, reason)) = self.stock.drops.pop(&mut self.stock.pool) {
            if self.journal.is_some() {
                self.note_end(now, frame.slot(), self.stock.pool[&frame], Some(reason));
            }
            self.stock.pool.give(frame);
        }
        self.rx.refill(&mut self.stock.pool);
        self.tx.kick(now, &mut self.stock.pool);
        Turn { received, sent, reclaimed, blocked: self.tx.room() == 0 && self.pipeline.packets() > 0 }
    }

    fn take_in(&mut self, now: Instant) -> usize {
        let stock = &mut self.stock;
        let n = self.rx.receive(&mut stock.pool, &mut stock.frames, &mut self.inbox, BURST);
        while let Some(frame) = self.inbox.pop(&mut self.stock.pool) {
            self.admit(now, frame);
        }
        n
    }

    fn admit(&mut self, now: Instant, frame: Frame) {
        use crate::pool::Frames;
        let stock = &mut self.stock;
        let packet = &mut stock.pool[&frame];
        if packet.arrived == Instant::NEVER {
            packet.arrived = now;
        }
        packet.enqueued = now;
        packet.released = now;
        packet.truesize = truesize(packet.len);
        packet.marks = Marks::NONE;
        (packet.copy, packet.signal) = (false, Signal::NONE);
        let len = packet.len;
        let headers = Headers::parse(stock.frames.bytes(frame.slot(), &stock.pool[frame.slot()]));
        headers.apply(&mut stock.pool[&frame]);
        self.counters.receive(&stock.pool[&frame]);
        if let Some(tap) = &mut self.tap {
            let packet = &stock.pool[&frame];
            tap.arrived(packet.arrived.min(now), len, network(stock.frames.bytes(frame.slot(), packet), packet));
        }
        if let Some(journal) = &mut self.journal {
            let packet = &stock.pool[&frame];
            journal.arrived(now, frame.slot(), packet, stock.frames.bytes(frame.slot(), packet));
        }
        self.counters.unparsed += u64::from(headers.unparsed);
        if len > self.tx.longest() {
            stock.drops.push(&mut stock.pool, frame, Reason::Oversize);
        } else if stock.pool.free() < self.reserve {
            stock.drops.push(&mut stock.pool, frame, Reason::Memory);
        } else {
            self.idle_until = Instant::ZERO;
            self.pipeline.enqueue(now, frame, &headers, &mut stock.cx());
        }
    }

    fn serve(&mut self, now: Instant) -> usize {
        if now < self.idle_until {
            return 0;
        }
        self.idle_until = Instant::ZERO;
        let mut sent = 0;
        let sent_before = self.counters.sent_bytes;
        let mut late = None;
        let stale = self.down_since.is_some_and(|since| now.since(since) >= STALE);
        // While the link is down for long, what the pipeline lets go is dropped instead of sent.
        let room = if stale { BURST } else { self.tx.room() };
        for _ in 0..room {
            let Some(frame) = self.pipeline.dequeue(now, &mut self.stock.cx()) else {
                self.idle_until = self.pipeline.next_event().unwrap_or(Instant::NEVER);
                break;
            };
            late = late.or(self.due.take().map(|due| now.since(due)));
            if stale || self.stock.pool[&frame].arrived < self.stale_before {
                self.stock.drops.push(&mut self.stock.pool, frame, Reason::Stale);
            } else {
                sent += usize::from(self.send(now, frame));
            }
        }
        self.due = Some(self.idle_until).filter(|_| now < self.idle_until && self.pipeline.packets() > 0);
        let bytes = self.counters.sent_bytes - sent_before;
        if let Some(late_ns) = late.filter(|late| *late > 0 && bytes > self.counters.longest_catch_up.bytes) {
            self.counters.longest_catch_up = CatchUp { bytes, late_ns };
        }
        sent
    }

    fn send(&mut self, now: Instant, frame: Frame) -> bool {
        use crate::pool::Frames;
        let stock = &mut self.stock;
        let slot = frame.slot();
        let packet = stock.pool[slot];
        if packet.ds != packet.ds_arrived {
            write_ds(stock.frames.bytes_mut(slot, &packet), &packet);
        }
        // Looked at before it is the device's; a frame that is refused is a fault, and rare.
        if let Some(tap) = &mut self.tap {
            tap.left(now, packet.len, network(stock.frames.bytes(slot, &packet), &packet));
        }
        if !self.tx.send(&mut stock.pool, &mut stock.frames, frame) {
            self.counters.refused += 1;
            self.journal.iter_mut().for_each(|journal| journal.refused(slot));
            return false;
        }
        if self.journal.is_some() {
            self.note_end(now, slot, packet, None);
        }
        self.counters.send(&packet);
        let from = if self.delays_before { packet.enqueued } else { packet.arrived };
        self.sojourns.record(packet.released.since(from), now.since(packet.arrived), packet.tin);
        true
    }

    #[cold]
    fn note_end(&mut self, now: Instant, slot: Slot, packet: Packet, dropped: Option<Reason>) {
        let Some(journal) = &mut self.journal else { return };
        let seen = self.pipeline.stages().next_back().map(|stage| stage.observe(&packet)).unwrap_or_default();
        journal.ended(now, slot, &packet, dropped, seen);
    }

    /// Notes when the link goes and comes. What arrived more than a second before it came back is
    /// not sent any more.
    fn watch_link(&mut self, now: Instant) {
        match (self.tx.is_up(), self.down_since) {
            (false, None) => self.down_since = Some(now),
            (true, Some(since)) => {
                if now.since(since) >= STALE {
                    self.stale_before = now - STALE;
                }
                self.down_since = None;
            }
            _ => {}
        }
    }

    /// Whether the stages at work can take the parameters of `spec`; see [`Pipeline::can_change`].
    ///
    /// # Errors
    /// As there.
    pub fn can_change(&mut self, spec: &Spec) -> Result<(), String> {
        self.pipeline.can_change(spec)
    }

    /// Takes the parameters of `spec` between two packets; see [`Pipeline::change`].
    ///
    /// # Errors
    /// As there; nothing has changed then.
    pub fn change(&mut self, spec: &Spec, link: Link, now: Instant) -> Result<(), String> {
        self.idle_until = Instant::ZERO;
        self.pipeline.change(spec, link, now, &mut self.stock.cx())
    }

    /// Lets a tap note what passes, or none.
    pub fn watch(&mut self, tap: Option<Tap>) {
        self.tap = tap.map(Box::new);
    }

    /// Keeps a journal from now on, or none; it must be made for a pool of this engine's capacity.
    pub fn keep_journal(&mut self, journal: Option<Journal>) {
        self.journal = journal.map(Box::new);
    }

    /// What the journal noted since the last time, if one is kept; `spare` takes the place of its notes.
    pub fn take_notes(&mut self, spare: Vec<journal::Note>) -> Option<Notes> {
        Some(self.journal.as_mut()?.take(spare))
    }

    /// What the tap noted since the last time, if there is one; `spare` takes the place of its notes.
    pub fn look(&mut self, spec: &Spec, spare: Vec<Note>) -> Option<Look> {
        let (backlog, rate) = (self.pipeline.bytes(), self.pipeline.steered_rate(spec));
        Some(Look::of(self.tap.as_mut()?, spare, backlog, rate))
    }

    /// Gives the stage with `autorate` another rate; see [`Pipeline::steer`].
    pub fn steer(&mut self, spec: &Spec, link: Link, now: Instant) {
        self.idle_until = Instant::ZERO;
        self.pipeline.steer(spec, link, now, &mut self.stock.cx());
    }

    /// When to call [`Engine::turn`] again if nothing arrives and nothing completes.
    pub fn next_event(&self) -> Option<Instant> {
        self.pipeline.next_event()
    }

    /// Where the frames are.
    pub fn census(&self) -> Census {
        Census {
            capacity: self.stock.pool.capacity(),
            free: self.stock.pool.free(),
            queued: self.pipeline.packets() as usize + self.stock.drops.len() + self.inbox.len(),
            receiving: self.rx.lent(),
            sending: self.tx.lent(),
        }
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Everything that is known at `now`. Allocates: not for the data path.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        Snapshot {
            at: now,
            counters: self.counters,
            drops: DropCounts::of(&self.stock.drops),
            port: self.rx.counters().plus(self.tx.counters()),
            census: self.census(),
            backlog_packets: self.pipeline.packets(),
            backlog_bytes: self.pipeline.bytes(),
            stages: self.pipeline.stats(now),
        }
    }

    /// Exchanges the histograms for empty ones, so that whoever asks gets what was recorded since
    /// the last time and nothing is copied here.
    pub fn swap_sojourns(&mut self, spare: &mut Sojourns) {
        std::mem::swap(&mut self.sojourns, spare);
    }

    /// The receiving device.
    pub fn rx(&self) -> &R {
        &self.rx
    }

    /// The receiving device, for a test that makes frames arrive.
    pub fn rx_mut(&mut self) -> &mut R {
        &mut self.rx
    }

    /// The sending device.
    pub fn tx(&self) -> &T {
        &self.tx
    }

    /// The sending device, for a test that looks at what was sent.
    pub fn tx_mut(&mut self) -> &mut T {
        &mut self.tx
    }
}

/// A frame from its network header on.
fn network<'a>(bytes: &'a [u8], packet: &Packet) -> &'a [u8] {
    bytes.get(packet.net_offset.into()..).unwrap_or_default()
}

#[cfg(test)]
mod tests;

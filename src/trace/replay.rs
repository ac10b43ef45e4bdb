//! Recorded frames through a pipeline in virtual time.
//!
//! The frames arrive when they were recorded. The device below is never busy, or has a rate; it asks
//! as in `trace::device`. What leaves is handed out in order of time with what became of it, and so
//! is what is dropped.

use crate::classify::{Hashing, Headers};
use crate::mark::ecn;
use crate::packet::{Packet, truesize};
use crate::pipeline::Pipeline;
use crate::pool::{Frame, Pool, Slot};
use crate::qdisc::{Cx, Drops, Frames, Reason};
use crate::rng::Random;
use crate::time::Instant;
use crate::trace::capture::Fate;
use crate::trace::line::{Event, Line};

/// The bytes of the frames inside, by slot.
struct Bytes(Vec<Vec<u8>>);

impl Frames for Bytes {
    fn bytes(&self, slot: Slot, _: &Packet) -> &[u8] {
        self.0.get(slot.index()).map_or(&[], Vec::as_slice)
    }
    fn bytes_mut(&mut self, slot: Slot, _: &Packet) -> &mut [u8] {
        self.0.get_mut(slot.index()).map_or(&mut [], Vec::as_mut_slice)
    }
    fn copy(&mut self, from: Slot, to: Slot, _: &Packet) {
        let bytes = self.0[from.index()].clone();
        self.0[to.index()] = bytes;
    }
}

/// A pipeline that recorded frames are sent through.
pub struct Replay {
    pipeline: Pipeline,
    line: Line,
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    bytes: Bytes,
    now: Instant,
}

macro_rules! cx {
    ($r:expr) => {
        &mut Cx {
            pool: &mut $r.pool,
            drops: &mut $r.drops,
            random: &mut $r.random,
            hashing: &mut $r.hashing,
            frames: &mut $r.bytes,
        }
    };
}

impl Replay {
    /// An empty pipeline that starts at `start`, above a line of `link_bps`, or one that is never busy.
    pub fn new(mut pipeline: Pipeline, link_bps: Option<u64>, seed: u64, start: Instant) -> Self {
        pipeline.start(start);
        let mut random = Random::seeded(seed);
        let hashing = Hashing::Keyed([random.u64(), random.u64()]);
        Replay {
            line: Line::new(link_bps, pipeline.next_event()),
            pipeline,
            pool: Pool::new(1024),
            drops: Drops::default(),
            random,
            hashing,
            bytes: Bytes(vec![Vec::new(); 1024]),
            now: start,
        }
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A frame arrives at `at`, which must not be before the one before; it is `len` bytes long on the
    /// wire, of which `bytes` were kept. What happened until then goes to `out`.
    pub fn arrive(&mut self, at: Instant, len: u32, bytes: Vec<u8>, out: &mut impl FnMut(&Fate<'_>)) {
        self.advance(at, false, out);
        self.now = at;
        let headers = Headers::parse(&bytes);
        // A twin of it may be made on its way (`netem duplicate`).
        if self.pool.free() < 2 {
            self.pool.grow(self.pool.capacity());
            self.bytes.0.resize(self.pool.capacity(), Vec::new());
        }
        let frame = self.pool.take().expect("there are two");
        let slot = frame.slot().index();
        self.bytes.0[slot] = bytes;
        let packet = &mut self.pool[&frame];
        *packet = Packet { arrived: at, len, truesize: truesize(len), charged: len, ..Packet::default() };
        headers.apply(packet);
        self.pipeline.enqueue(at, frame, &headers, cx!(self));
        self.bury(at, out);
        self.serve(at, out);
    }

    /// Nothing more arrives: what is inside leaves.
    pub fn drain(&mut self, out: &mut impl FnMut(&Fate<'_>)) {
        self.advance(Instant::NEVER, true, out);
    }

    fn advance(&mut self, until: Instant, to_the_end: bool, out: &mut impl FnMut(&Fate<'_>)) {
        loop {
            if to_the_end && self.line.is_idle() && self.pipeline.packets() == 0 {
                return;
            }
            let Some((next, event)) = self.line.next(until) else { return };
            self.now = next;
            if event == Event::Tick {
                self.pipeline.tick(next, cx!(self));
                self.bury(next, out);
            }
            self.serve(next, out);
        }
    }

    fn serve(&mut self, now: Instant, out: &mut impl FnMut(&Fate<'_>)) {
        while self.line.is_idle() {
            let frame = self.pipeline.dequeue(now, cx!(self));
            self.bury(now, out);
            let Some(frame) = frame else { break };
            self.line.send(now, self.pool[&frame].len);
            self.hand_out(now, frame, None, out);
        }
        self.line.wait_for(self.pipeline.next_event(), now);
    }

    fn bury(&mut self, now: Instant, out: &mut impl FnMut(&Fate<'_>)) {
        while let Some((frame, reason)) = self.drops.pop(&mut self.pool) {
            self.hand_out(now, frame, Some(reason), out);
        }
    }

    fn hand_out(&mut self, now: Instant, frame: Frame, dropped: Option<Reason>, out: &mut impl FnMut(&Fate<'_>)) {
        let packet = self.pool[&frame];
        let mut bytes = std::mem::take(&mut self.bytes.0[frame.slot().index()]);
        self.pool.give(frame);
        if dropped.is_none() {
            ecn::write_ds(&mut bytes, &packet);
        }
        out(&Fate { at: now, packet: &packet, bytes: &bytes, dropped, sojourn: now.since(packet.arrived) });
    }
}

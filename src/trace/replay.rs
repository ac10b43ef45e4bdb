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
use crate::time::{Instant, SECOND};

/// The bytes of the frames inside, by slot.
#[derive(Default)]
struct Bytes(Vec<Vec<u8>>);

impl Frames for Bytes {
    fn bytes(&self, slot: Slot, _: &Packet) -> &[u8] {
        self.0.get(slot.index()).map_or(&[], Vec::as_slice)
    }
    fn bytes_mut(&mut self, slot: Slot, _: &Packet) -> &mut [u8] {
        self.0.get_mut(slot.index()).map_or(&mut [], Vec::as_mut_slice)
    }
}

/// What became of a frame.
#[derive(Debug)]
pub struct Fate {
    /// When it left or was dropped, on the replay's clock.
    pub at: Instant,
    /// Its record.
    pub packet: Packet,
    /// Its bytes, DS byte as it leaves.
    pub bytes: Vec<u8>,
    /// Why it was dropped, if it was.
    pub dropped: Option<Reason>,
    /// From arrival, ns.
    pub sojourn: u64,
}

impl Fate {
    /// For a comment beside the frame: verdict, sojourn, tin.
    pub fn comment(&self) -> String {
        let verdict = match self.dropped {
            Some(reason) => format!("dropped {}", reason.name()),
            None if self.packet.marks.is_empty() => "sent".into(),
            None => format!("marked {:?}", self.packet.marks),
        };
        format!("weir: {verdict}, sojourn {} ns, tin {}", self.sojourn, self.packet.tin)
    }
}

/// A pipeline that recorded frames are sent through.
pub struct Replay {
    pipeline: Pipeline,
    link_bps: Option<u64>,
    pool: Pool,
    drops: Drops,
    random: Random,
    hashing: Hashing,
    bytes: Bytes,
    busy_until: Option<Instant>,
    watchdog: Option<Instant>,
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
    /// An empty pipeline above a line of `link_bps`, or one that is never busy.
    pub fn new(pipeline: Pipeline, link_bps: Option<u64>, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let hashing = Hashing::Keyed([random.u64(), random.u64()]);
        Replay {
            pipeline,
            link_bps,
            pool: Pool::new(1024),
            drops: Drops::default(),
            random,
            hashing,
            bytes: Bytes::default(),
            busy_until: None,
            watchdog: None,
            now: Instant::ZERO,
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
    pub fn arrive(&mut self, at: Instant, len: u32, bytes: Vec<u8>, out: &mut impl FnMut(Fate)) {
        self.advance(at, false, out);
        self.now = at;
        let headers = Headers::parse(&bytes);
        let frame = match self.pool.take() {
            Some(frame) => frame,
            None => {
                self.pool.grow(self.pool.capacity());
                self.pool.take().expect("the pool has just grown")
            }
        };
        let slot = frame.slot().index();
        if self.bytes.0.len() <= slot {
            self.bytes.0.resize(self.pool.capacity(), Vec::new());
        }
        self.bytes.0[slot] = bytes;
        let packet = &mut self.pool[&frame];
        *packet = Packet { arrived: at, len, truesize: truesize(len), charged: len, ..Packet::default() };
        headers.apply(packet);
        self.pipeline.enqueue(at, frame, &headers, cx!(self));
        self.bury(at, out);
        self.serve(at, out);
    }

    /// Nothing more arrives: what is inside leaves.
    pub fn drain(&mut self, out: &mut impl FnMut(Fate)) {
        self.advance(Instant::NEVER, true, out);
    }

    fn advance(&mut self, until: Instant, to_the_end: bool, out: &mut impl FnMut(Fate)) {
        loop {
            if to_the_end && self.busy_until.is_none() && self.pipeline.packets() == 0 {
                return;
            }
            let busy = self.busy_until.unwrap_or(Instant::NEVER);
            let watchdog = self.watchdog.unwrap_or(Instant::NEVER);
            let next = busy.min(watchdog);
            if next >= until {
                return;
            }
            self.now = next;
            if busy <= watchdog {
                self.busy_until = None;
            } else {
                self.watchdog = None;
                self.pipeline.tick(next, cx!(self));
                self.bury(next, out);
            }
            self.serve(next, out);
        }
    }

    fn serve(&mut self, now: Instant, out: &mut impl FnMut(Fate)) {
        while self.busy_until.is_none() {
            let frame = self.pipeline.dequeue(now, cx!(self));
            self.bury(now, out);
            let Some(frame) = frame else { break };
            if let Some(bps) = self.link_bps {
                let nanos = u128::from(self.pool[&frame].len) * 8 * u128::from(SECOND) / u128::from(bps);
                self.busy_until = Some(now + nanos as u64);
            }
            self.hand_out(now, frame, None, out);
        }
        self.watchdog = self.pipeline.next_event().filter(|t| *t > now);
    }

    fn bury(&mut self, now: Instant, out: &mut impl FnMut(Fate)) {
        while let Some((frame, reason)) = self.drops.pop(&mut self.pool) {
            self.hand_out(now, frame, Some(reason), out);
        }
    }

    fn hand_out(&mut self, now: Instant, frame: Frame, dropped: Option<Reason>, out: &mut impl FnMut(Fate)) {
        let packet = self.pool[&frame];
        let mut bytes = std::mem::take(&mut self.bytes.0[frame.slot().index()]);
        self.pool.give(frame);
        if dropped.is_none() {
            ecn::write_ds(&mut bytes, &packet);
        }
        out(Fate { at: now, packet, bytes, dropped, sojourn: now.since(packet.arrived) });
    }
}

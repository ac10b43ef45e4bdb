//! Wraps a port and makes it misbehave, seeded: loses frames, stalls, spoils descriptors, refuses
//! to send. The engine does not know.

use super::{PortCounters, Receive, Transmit};
use crate::pool::{Frame, Pool, Queue};
use crate::rng::SplitMix64;
use crate::time::Instant;

/// How often each fault happens, in 1/65536 of the occasions.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// A received frame is lost.
    pub lose: u16,
    /// A frame to be sent gets a length or an offset that lies.
    pub spoil: u16,
    /// The device has no room this time, or nothing arrives.
    pub stall: u16,
    /// Completions are held back this time.
    pub hold: u16,
}

/// A port with faults.
#[derive(Debug)]
pub struct Fault<P> {
    /// The port underneath.
    pub inner: P,
    /// Frames lost on purpose so far.
    pub lost: u64,
    /// Frames spoilt on purpose so far.
    pub spoilt: u64,
    faults: Faults,
    dice: SplitMix64,
    stalled: bool,
}

impl<P> Fault<P> {
    /// `inner`, with faults drawn from `seed`.
    pub fn new(inner: P, faults: Faults, seed: u64) -> Self {
        Fault { inner, lost: 0, spoilt: 0, faults, dice: SplitMix64::new(seed), stalled: false }
    }

    fn happens(&mut self, often: u16) -> bool {
        (self.dice.next_u64() & 0xffff) < u64::from(often)
    }
}

impl<P: Receive> Receive for Fault<P> {
    type Frames = P::Frames;

    fn receive(&mut self, pool: &mut Pool, frames: &mut P::Frames, into: &mut Queue, max: usize) -> usize {
        if self.happens(self.faults.stall) {
            return 0;
        }
        let mut arrived = Queue::default();
        self.inner.receive(pool, frames, &mut arrived, max);
        let mut n = 0;
        while let Some(frame) = arrived.pop(pool) {
            if self.happens(self.faults.lose) {
                self.lost += 1;
                pool.give(frame);
            } else {
                into.push(pool, frame);
                n += 1;
            }
        }
        n
    }

    fn refill(&mut self, pool: &mut Pool) {
        self.inner.refill(pool);
    }

    fn lent(&self) -> usize {
        self.inner.lent()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
}

impl<P: Transmit> Transmit for Fault<P> {
    type Frames = P::Frames;

    fn room(&self) -> usize {
        if self.stalled { 0 } else { self.inner.room() }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut P::Frames, frame: Frame) -> bool {
        if self.happens(self.faults.spoil) {
            self.spoilt += 1;
            let packet = &mut pool[&frame];
            match self.dice.next_u64() % 3 {
                0 => packet.len = 0,
                1 => packet.len = u32::MAX,
                _ => packet.headroom = u16::MAX,
            }
        }
        self.inner.send(pool, frames, frame)
    }

    fn kick(&mut self, now: Instant, pool: &mut Pool) {
        self.inner.kick(now, pool);
    }

    fn reclaim(&mut self, now: Instant, pool: &mut Pool) -> usize {
        self.stalled = self.happens(self.faults.stall);
        if self.happens(self.faults.hold) { 0 } else { self.inner.reclaim(now, pool) }
    }

    fn lent(&self) -> usize {
        self.inner.lent()
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn longest(&self) -> u32 {
        self.inner.longest()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
}

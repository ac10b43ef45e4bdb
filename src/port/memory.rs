//! A port made of two `VecDeque`s, for tests and for simulation.

use std::collections::VecDeque;

use super::{PortCounters, Receive, Transmit};
use crate::packet::Packet;
use crate::pool::{Frame, Frames, Pool, Queue, Slot};
use crate::time::Instant;

/// Frame bytes in ordinary memory, one chunk a frame.
#[derive(Debug, Clone)]
pub struct Chunks {
    bytes: Box<[u8]>,
    chunk: usize,
}

impl Chunks {
    /// Room for `count` frames of up to `chunk` bytes.
    pub fn new(count: usize, chunk: usize) -> Self {
        Chunks { bytes: vec![0; count * chunk].into(), chunk }
    }

    fn range(&self, slot: Slot, packet: &Packet) -> std::ops::Range<usize> {
        let (headroom, len) = (usize::from(packet.headroom), packet.len as usize);
        if headroom + len > self.chunk {
            return 0..0;
        }
        let start = slot.index() * self.chunk + headroom;
        start..start + len
    }
}

impl Frames for Chunks {
    fn bytes(&self, slot: Slot, packet: &Packet) -> &[u8] {
        &self.bytes[self.range(slot, packet)]
    }

    fn bytes_mut(&mut self, slot: Slot, packet: &Packet) -> &mut [u8] {
        let range = self.range(slot, packet);
        &mut self.bytes[range]
    }
}

/// Frames that wait to be received, with the time each arrived.
#[derive(Debug, Default)]
pub struct MemoryRx {
    /// What will arrive next; push here.
    pub arriving: VecDeque<(Instant, Vec<u8>)>,
    fill: VecDeque<Slot>,
    depth: usize,
}

impl MemoryRx {
    /// A device that can hold `depth` empty frames.
    pub fn new(depth: usize) -> Self {
        MemoryRx { arriving: VecDeque::new(), fill: VecDeque::with_capacity(depth), depth }
    }
}

impl Receive for MemoryRx {
    type Frames = Chunks;

    fn receive(&mut self, pool: &mut Pool, frames: &mut Chunks, into: &mut Queue, max: usize) -> usize {
        let mut n = 0;
        while n < max && !self.arriving.is_empty() {
            let Some(slot) = self.fill.pop_front() else { break };
            let Some((arrived, bytes)) = self.arriving.pop_front() else { break };
            let frame = pool.reclaim(slot.index() as u64).expect("what is in the fill queue is lent");
            let packet = &mut pool[&frame];
            packet.arrived = arrived;
            packet.headroom = 0;
            packet.len = bytes.len() as u32;
            let packet = *packet;
            frames.bytes_mut(slot, &packet).copy_from_slice(&bytes);
            into.push(pool, frame);
            n += 1;
        }
        n
    }

    fn refill(&mut self, pool: &mut Pool) {
        while self.fill.len() < self.depth {
            let Some(frame) = pool.take() else { return };
            self.fill.push_back(pool.lend(frame));
        }
    }

    fn lent(&self) -> usize {
        self.fill.len()
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

/// A wire that takes `room` frames at a time and keeps what was sent.
#[derive(Debug)]
pub struct MemoryTx {
    /// What was sent, oldest first.
    pub sent: VecDeque<Vec<u8>>,
    /// Whether it is kept, which allocates.
    pub keeps: bool,
    /// Whether the link is up.
    pub up: bool,
    /// Whether frames complete; a device that is stuck keeps them.
    pub completes: bool,
    ring: VecDeque<Slot>,
    depth: usize,
    longest: u32,
    counters: PortCounters,
}

impl MemoryTx {
    /// A device with room for `depth` frames of up to `longest` bytes.
    pub fn new(depth: usize, longest: u32) -> Self {
        MemoryTx {
            sent: VecDeque::new(),
            keeps: true,
            up: true,
            completes: true,
            ring: VecDeque::with_capacity(depth),
            depth,
            longest,
            counters: PortCounters::default(),
        }
    }
}

impl Transmit for MemoryTx {
    type Frames = Chunks;

    fn room(&self) -> usize {
        if self.up { self.depth - self.ring.len() } else { 0 }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Chunks, frame: Frame) -> bool {
        let (slot, packet) = (frame.slot(), pool[&frame]);
        let bytes = frames.bytes(slot, &packet);
        if bytes.is_empty() || packet.len > self.longest {
            self.counters.tx_invalid += 1;
            pool.give(frame);
            return false;
        }
        if self.keeps {
            self.sent.push_back(bytes.to_vec());
        }
        self.ring.push_back(pool.lend(frame));
        true
    }

    fn kick(&mut self, _: Instant, _: &mut Pool) {
        self.counters.kicks += 1;
    }

    fn reclaim(&mut self, _: Instant, pool: &mut Pool) -> usize {
        if !self.completes {
            return 0;
        }
        let n = self.ring.len();
        for slot in self.ring.drain(..) {
            let frame = pool.reclaim(slot.index() as u64).expect("what is in the ring is lent");
            pool.give(frame);
        }
        n
    }

    fn lent(&self) -> usize {
        self.ring.len()
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn longest(&self) -> u32 {
        self.longest
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

//! The packet pool: as many records as there are frames, and queues that are lists through them.
//!
//! A [`Frame`] is the right to one frame and its record. It can be moved but neither copied nor
//! cloned, so a packet is in exactly one place: free, in a [`Queue`], or in somebody's hand. Only
//! this file makes frames, and only out of numbers that are free or linked.
//!
//! Nothing here allocates after [`Pool::new`], but for [`Pool::grow`].

mod heap;

use std::ops::{Index, IndexMut};

use crate::packet::Packet;
pub use heap::{DueHeap, due, set_due};

const NIL: u32 = u32::MAX;

/// The right to one frame. Whoever has it must pass it on: to a queue, to the drops, to a port, or
/// back to the pool.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is let go is lost from the census"]
pub struct Frame(u32);

impl Frame {
    /// The name of the frame.
    pub fn slot(&self) -> Slot {
        Slot(self.0)
    }
}

/// The name of a frame: where to look, without the right to move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    /// The number of the record, 0 … capacity − 1.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All packet records of one direction.
#[derive(Debug)]
pub struct Pool {
    records: Vec<Packet>,
    free: u32,
    free_count: u32,
    lent: u32,
}

impl Pool {
    /// A pool of `capacity` records, all free.
    ///
    /// # Panics
    /// If `capacity` is 2^32 − 2 or more.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity < LENT as usize, "a pool counts its records in 32 bits");
        let mut records = vec![Packet::default(); capacity];
        for (i, r) in records.iter_mut().enumerate() {
            r.next = if i + 1 < capacity { i as u32 + 1 } else { NIL };
        }
        let free = if capacity == 0 { NIL } else { 0 };
        Pool { records, free, free_count: capacity as u32, lent: 0 }
    }

    /// Adds `more` free records. The one call that allocates: for simulations, whose frames are not
    /// memory shared with a device.
    ///
    /// # Panics
    /// As [`Pool::new`].
    pub fn grow(&mut self, more: usize) {
        let old = self.records.len();
        assert!(old + more < LENT as usize, "a pool counts its records in 32 bits");
        self.records.resize(old + more, Packet::default());
        for n in (old..old + more).rev() {
            self.give(Frame(n as u32));
        }
    }

    /// How many records there are.
    pub fn capacity(&self) -> usize {
        self.records.len()
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.free_count as usize
    }

    /// How many are with a device (see [`Pool::lend`]).
    pub fn lent(&self) -> usize {
        self.lent as usize
    }

    /// Takes a free frame; its record holds whatever it held before.
    pub fn take(&mut self) -> Option<Frame> {
        let n = self.free;
        let record = self.records.get(n as usize)?;
        self.free = record.next;
        self.free_count -= 1;
        Some(Frame(n))
    }

    /// Gives a frame back.
    pub fn give(&mut self, frame: Frame) {
        self.records[frame.0 as usize].next = self.free;
        self.free = frame.0;
        self.free_count += 1;
    }

    /// Lends a frame to a device, which will name it by its number when it comes back. The record
    /// remembers that it is out.
    pub fn lend(&mut self, frame: Frame) -> Slot {
        self.records[frame.0 as usize].next = LENT;
        self.lent += 1;
        Slot(frame.0)
    }

    /// Takes back a lent frame by its number. `None` if the number is out of range or was not out:
    /// a device that names a frame twice, or one that it never had, gets nothing.
    pub fn reclaim(&mut self, number: u64) -> Option<Frame> {
        let record = self.records.get_mut(usize::try_from(number).ok()?)?;
        if record.next != LENT {
            return None;
        }
        record.next = NIL;
        self.lent -= 1;
        Some(Frame(number as u32))
    }
}

/// The link value of a frame that is with a device. Not a valid number: `Pool::new` refuses pools
/// that large.
const LENT: u32 = u32::MAX - 1;

impl Packet {
    /// Whether the frame is with a device, which may be writing to it (see [`Pool::lend`]).
    pub fn is_lent(&self) -> bool {
        self.next == LENT
    }
}

impl Index<&Frame> for Pool {
    type Output = Packet;
    fn index(&self, frame: &Frame) -> &Packet {
        &self.records[frame.0 as usize]
    }
}

impl IndexMut<&Frame> for Pool {
    fn index_mut(&mut self, frame: &Frame) -> &mut Packet {
        &mut self.records[frame.0 as usize]
    }
}

impl Index<Slot> for Pool {
    type Output = Packet;
    fn index(&self, slot: Slot) -> &Packet {
        &self.records[slot.index()]
    }
}

impl IndexMut<Slot> for Pool {
    fn index_mut(&mut self, slot: Slot) -> &mut Packet {
        &mut self.records[slot.index()]
    }
}

/// The bytes of frames, for the few rules that must look at queued packets again (ACK filter) or
/// write more than the DS byte (multi-bit ECN).
pub trait Frames {
    /// The frame from its first byte; may be cut behind the headers where only those are kept.
    fn bytes(&self, slot: Slot, packet: &Packet) -> &[u8];
    /// The same, to be written to.
    fn bytes_mut(&mut self, slot: Slot, packet: &Packet) -> &mut [u8];

    /// Told that a bit of the frame was flipped and its checksums left as they were (`netem corrupt`). For whoever keeps no
    /// payload and has to know it.
    fn corrupted(&mut self, _slot: Slot) {}

    /// Copies the bytes of one frame into another (`netem duplicate`). Both records are as they
    /// shall be: the copy's says where its bytes go.
    fn copy(&mut self, from: Slot, to: Slot, packet: &Packet) {
        let mut chunk = [0; 256];
        let mut at = 0;
        loop {
            let rest = self.bytes(from, packet).get(at..).unwrap_or(&[]);
            let n = rest.len().min(chunk.len());
            chunk[..n].copy_from_slice(&rest[..n]);
            let Some(room) = self.bytes_mut(to, packet).get_mut(at..at + n) else { return };
            room.copy_from_slice(&chunk[..n]);
            at += n;
            if n < chunk.len() {
                return;
            }
        }
    }
}

/// No frame bytes at all: for disciplines and tests that never look.
#[derive(Debug, Default)]
pub struct NoFrames;

impl Frames for NoFrames {
    fn bytes(&self, _: Slot, _: &Packet) -> &[u8] {
        &[]
    }
    fn bytes_mut(&mut self, _: Slot, _: &Packet) -> &mut [u8] {
        &mut []
    }
}

/// A first-in, first-out list of frames through the pool: twelve bytes, no memory of its own.
#[derive(Debug)]
pub struct Queue {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { head: NIL, tail: NIL, len: 0 }
    }
}

impl Queue {
    /// Number of packets.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Appends a frame.
    pub fn push(&mut self, pool: &mut Pool, frame: Frame) {
        pool.records[frame.0 as usize].next = NIL;
        if self.head == NIL {
            self.head = frame.0;
        } else {
            pool.records[self.tail as usize].next = frame.0;
        }
        self.tail = frame.0;
        self.len += 1;
    }

    /// Removes the oldest.
    pub fn pop(&mut self, pool: &mut Pool) -> Option<Frame> {
        if self.head == NIL {
            return None;
        }
        let n = self.head;
        self.head = pool.records[n as usize].next;
        self.len -= 1;
        Some(Frame(n))
    }

    /// The oldest, left in place.
    pub fn front(&self) -> Option<Slot> {
        (self.head != NIL).then_some(Slot(self.head))
    }

    /// The newest, left in place.
    pub fn back(&self) -> Option<Slot> {
        (self.head != NIL).then_some(Slot(self.tail))
    }

    /// The one behind `slot`, which must be in this queue.
    pub fn after(&self, pool: &Pool, slot: Slot) -> Option<Slot> {
        let next = pool[slot].next;
        (slot.0 != self.tail && next != NIL).then_some(Slot(next))
    }

    /// Removes the one behind `previous`, or the oldest if that is `None`.
    pub fn remove_after(&mut self, pool: &mut Pool, previous: Option<Slot>) -> Option<Frame> {
        let Some(previous) = previous else { return self.pop(pool) };
        let victim = self.after(pool, previous)?;
        pool[previous].next = pool[victim].next;
        if victim.0 == self.tail {
            self.tail = previous.0;
        }
        self.len -= 1;
        Some(Frame(victim.0))
    }

    /// Inserts a frame behind `previous`, or before the oldest if that is `None`.
    pub fn insert_after(&mut self, pool: &mut Pool, previous: Option<Slot>, frame: Frame) {
        match previous {
            Some(previous) if previous.0 != self.tail => {
                pool.records[frame.0 as usize].next = pool[previous].next;
                pool[previous].next = frame.0;
                self.len += 1;
            }
            Some(_) => self.push(pool, frame),
            None if self.is_empty() => self.push(pool, frame),
            None => {
                pool.records[frame.0 as usize].next = self.head;
                self.head = frame.0;
                self.len += 1;
            }
        }
    }

    /// From the oldest to the newest.
    pub fn iter<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = Slot> + 'a {
        std::iter::successors(self.front(), |s| self.after(pool, *s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pool: &mut Pool, n: usize) -> Queue {
        let mut q = Queue::default();
        for i in 0..n {
            let f = pool.take().unwrap();
            pool[&f].len = i as u32;
            q.push(pool, f);
        }
        q
    }

    fn lengths(q: &Queue, pool: &Pool) -> Vec<u32> {
        q.iter(pool).map(|s| pool[s].len).collect()
    }

    #[test]
    fn frames_leave_a_queue_in_the_order_they_came() {
        let mut pool = Pool::new(4);
        let mut q = fill(&mut pool, 4);
        assert!(pool.take().is_none());
        assert_eq!(lengths(&q, &pool), [0, 1, 2, 3]);
        while let Some(f) = q.pop(&mut pool) {
            pool.give(f);
        }
        assert_eq!((pool.free(), q.len()), (4, 0));
    }

    #[test]
    fn the_tail_is_right_after_the_last_was_removed_from_the_middle() {
        let mut pool = Pool::new(4);
        let mut q = fill(&mut pool, 3);
        let second = q.iter(&pool).nth(1);
        let last = q.remove_after(&mut pool, second).unwrap();
        assert_eq!(pool[&last].len, 2);
        q.push(&mut pool, last);
        assert_eq!(lengths(&q, &pool), [0, 1, 2]);
        let first = q.remove_after(&mut pool, None).unwrap();
        q.insert_after(&mut pool, None, first);
        assert_eq!(lengths(&q, &pool), [0, 1, 2]);
    }

    #[test]
    fn a_device_cannot_return_what_it_was_not_lent() {
        let mut pool = Pool::new(2);
        let f = pool.take().unwrap();
        let slot = pool.lend(f);
        assert!(pool.reclaim(7).is_none(), "out of range");
        assert!(pool.reclaim(1).is_none(), "never lent");
        let back = pool.reclaim(slot.index() as u64).unwrap();
        assert!(pool.reclaim(slot.index() as u64).is_none(), "twice");
        pool.give(back);
        assert_eq!((pool.free(), pool.lent()), (2, 0));
    }
}

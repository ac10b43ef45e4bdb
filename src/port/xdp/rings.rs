//! The four rings of a socket: single producer, single consumer, shared with the kernel.
//!
//! Both indices run freely in 32 bits and are masked when an entry is touched. The producer writes
//! entries and then releases its index; the consumer acquires that index and then reads. A ring
//! can be laid over the kernel's mapping or over plain memory, so all of this is tested without
//! privileges.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::umem::Mapping;

/// A descriptor of the RX and TX rings, as the kernel lays it out (`struct xdp_desc`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Desc {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) options: u32,
}

const _: () = assert!(size_of::<Desc>() == 16);

/// What a ring may hold: plain numbers, of which every bit pattern is one.
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for Desc {}

/// Where the parts of a ring are in its memory, in bytes (`struct xdp_ring_offset`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) producer: u64,
    pub(super) consumer: u64,
    pub(super) flags: Option<u64>,
    pub(super) entries: u64,
}

impl Layout {
    /// The bytes that a ring of `size` entries needs.
    pub(super) fn bytes<T: Entry>(&self, size: u32) -> usize {
        self.entries as usize + size as usize * size_of::<T>()
    }
}

#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    layout: Layout,
    size: u32,
    entries: NonNull<T>,
}

// SAFETY: a ring is addresses into a mapping that it owns; the mapping is bound to no thread.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn new(memory: Mapping, layout: Layout, size: u32) -> Ring<T> {
        assert!(size.is_power_of_two(), "a ring has a power of two of entries");
        assert!(layout.bytes::<T>(size) <= memory.len(), "a ring lies within its memory");
        for at in [layout.producer, layout.consumer, layout.flags.unwrap_or(0)] {
            assert!(at as usize + 4 <= memory.len() && at % 4 == 0, "an index lies within its memory");
        }
        // SAFETY: inside the mapping, as just asserted.
        let entries = unsafe { memory.start().add(layout.entries as usize) }.cast::<T>();
        assert!(entries.is_aligned(), "the entries are aligned");
        Ring { memory, layout, size, entries }
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: `new` has checked that the word is inside the mapping and aligned. Both sides
        // access it atomically, and the mapping lives as long as `self`.
        unsafe { self.memory.start().add(at as usize).cast::<AtomicU32>().as_ref() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.layout.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.layout.consumer)
    }

    fn needs_wakeup(&self) -> bool {
        self.layout.flags.is_some_and(|at| self.word(at).load(Ordering::Relaxed) & 1 != 0)
    }

    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: masked, so inside the `size` entries that `new` has checked.
        unsafe { self.entries.as_ptr().add((index & (self.size - 1)) as usize) }
    }
}

/// Our end of a ring that the kernel consumes: fill and TX.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    next: u32,
    consumed: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn new(memory: Mapping, layout: Layout, size: u32) -> Self {
        let ring = Ring::new(memory, layout, size);
        let next = ring.producer().load(Ordering::Relaxed);
        let consumed = ring.consumer().load(Ordering::Acquire);
        Producer { ring, next, consumed }
    }

    /// Entries that can be pushed now.
    pub(super) fn free(&mut self) -> u32 {
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        self.ring.size.saturating_sub(self.next.wrapping_sub(self.consumed))
    }

    /// Puts an entry in; the kernel sees it after [`Producer::publish`]. `false` if the ring is full.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.next.wrapping_sub(self.consumed) >= self.ring.size && self.free() == 0 {
            return false;
        }
        // SAFETY: the entry at `next` is not between the consumer's and the published producer's
        // index, so it is ours to write.
        unsafe { self.ring.entry(self.next).write_volatile(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Hands over what was pushed.
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Published entries that the kernel has not taken yet.
    pub(super) fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel wants to be called before it looks at the ring again.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// Our end of a ring that the kernel fills: RX and completion.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
    produced: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn new(memory: Mapping, layout: Layout, size: u32) -> Self {
        let ring = Ring::new(memory, layout, size);
        let next = ring.consumer().load(Ordering::Relaxed);
        Consumer { ring, next, produced: next }
    }

    /// Takes an entry out; the kernel may use its place again after [`Consumer::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.next == self.produced {
            self.produced = self.ring.producer().load(Ordering::Acquire);
            if self.next == self.produced {
                return None;
            }
        }
        // SAFETY: the producer has released the entry at `next`, and will not write it again
        // before our index passes it. Every bit pattern is an entry.
        let entry = unsafe { self.ring.entry(self.next).read_volatile() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives back the places of what was popped.
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: Some(128), entries: 192 };

    /// Two ends over the same memory, as we and the kernel have it; the indices start at `start`.
    fn ends(size: u32, start: u32) -> (Producer<Desc>, Consumer<Desc>) {
        use std::os::fd::AsFd;
        let file = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 8192).unwrap();
        let map = || Mapping::shared(file.as_fd(), 8192, 0).unwrap();
        let setup: Ring<Desc> = Ring::new(map(), LAYOUT, size);
        setup.producer().store(start, Ordering::Relaxed);
        setup.consumer().store(start, Ordering::Relaxed);
        (Producer::new(map(), LAYOUT, size), Consumer::new(map(), LAYOUT, size))
    }

    fn desc(n: u32) -> Desc {
        Desc { address: u64::from(n) << 11, len: n, options: 0 }
    }

    #[test]
    fn entries_come_out_in_order_across_the_wrap_of_the_index() {
        let (mut p, mut c) = ends(8, u32::MAX - 3);
        for round in 0..5 {
            for n in 0..8 {
                assert!(p.push(desc(round * 8 + n)));
            }
            assert!(!p.push(desc(99)), "full");
            assert_eq!(c.pop(), None, "not published yet");
            p.publish();
            for n in 0..8 {
                assert_eq!(c.pop(), Some(desc(round * 8 + n)));
            }
            assert_eq!(c.pop(), None);
            assert_eq!((p.pending(), p.free()), (8, 0), "not released yet");
            c.release();
            assert_eq!((p.pending(), p.free()), (0, 8));
        }
    }

    #[test]
    fn a_wakeup_is_due_only_when_the_kernel_asks_for_it() {
        let (p, _) = ends(8, 0);
        assert!(!p.needs_wakeup());
        p.ring.word(128).store(1, Ordering::Relaxed);
        assert!(p.needs_wakeup());
    }

    #[test]
    fn a_consumer_index_that_makes_no_sense_leaves_no_room() {
        let (mut p, _) = ends(8, 0);
        p.ring.consumer().store(5, Ordering::Relaxed);
        assert_eq!(p.free(), 0);
    }

    #[test]
    #[should_panic(expected = "a ring lies within its memory")]
    fn a_ring_larger_than_its_memory_is_refused() {
        let memory = Mapping::anonymous(4096).unwrap();
        let _: Producer<Desc> = Producer::new(memory, LAYOUT, 1024);
    }
}

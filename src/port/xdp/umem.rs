//! The memory in which all frames live, mapped once and registered with the kernel.
//!
//! Each direction owns one half of it ([`Half`]): its frames are received into that half and sent
//! from it, so the two workers never touch the same bytes.

use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::program::Stamp;
use crate::packet::Packet;
use crate::pool::{Frames, Slot};
use crate::time::Instant;

/// Some mapped memory.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range of the process, bound to no thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out only the address and the length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of our own, in place from the start.
    pub(super) fn anonymous(len: usize) -> rustix::io::Result<Mapping> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        Ok(Mapping { start: NonNull::new(start.cast()).expect("mmap gave an address"), len })
    }

    /// Memory shared with the kernel through a descriptor.
    pub(super) fn shared(fd: impl std::os::fd::AsFd, len: usize, offset: u64) -> rustix::io::Result<Mapping> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: as above; what the kernel writes there is read through atomics and volatile
        // accesses only.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset)? };
        Ok(Mapping { start: NonNull::new(start.cast()).expect("mmap gave an address"), len })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and whoever has pointers into it holds this mapping too.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// All frames of both directions.
#[derive(Debug)]
pub struct Umem {
    memory: Mapping,
    chunk_shift: u32,
    chunks: usize,
}

impl Umem {
    /// Memory for `per_half` frames in each direction, each in a chunk of `chunk` bytes (2048 or
    /// 4096).
    ///
    /// # Errors
    /// If there is not enough memory.
    ///
    /// # Panics
    /// If `chunk` is not a power of two.
    pub fn new(per_half: usize, chunk: u32) -> std::io::Result<Arc<Umem>> {
        assert!(chunk.is_power_of_two(), "chunks are aligned");
        let chunks = per_half * 2;
        let memory = Mapping::anonymous(chunks * chunk as usize)?;
        Ok(Arc::new(Umem { memory, chunk_shift: chunk.trailing_zeros(), chunks }))
    }

    /// The halves for the two directions. Called once, since each half is the only owner of its
    /// bytes.
    pub(super) fn halves(self: &Arc<Self>) -> [Half; 2] {
        let count = self.chunks / 2;
        [0, count].map(|first| Half { umem: Arc::clone(self), first, count })
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.start().as_ptr() as u64
    }

    pub(super) fn len(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Bytes in a chunk.
    pub fn chunk(&self) -> u32 {
        1 << self.chunk_shift
    }
}

/// Where in the memory a half is: enough to translate between frame numbers and addresses, not
/// enough to touch a byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) chunk_shift: u32,
    pub(super) first: u64,
    pub(super) count: u64,
}

impl Window {
    /// The frame number and the offset in its chunk that an address means; `None` outside.
    pub(super) fn number(self, address: u64) -> Option<(u64, u32)> {
        let number = (address >> self.chunk_shift).checked_sub(self.first)?;
        (number < self.count).then_some((number, (address & ((1 << self.chunk_shift) - 1)) as u32))
    }

    /// The address of a frame's chunk.
    pub(super) fn address(self, slot: Slot) -> u64 {
        (self.first + slot.index() as u64) << self.chunk_shift
    }

    /// The address of a packet, if it lies within its chunk and has 1 to `longest` bytes.
    pub(super) fn packet(self, slot: Slot, packet: &Packet, longest: u32) -> Option<u64> {
        let end = u64::from(packet.headroom) + u64::from(packet.len);
        let fits = (1..=longest).contains(&packet.len) && end <= 1 << self.chunk_shift;
        (fits && (slot.index() as u64) < self.count).then(|| self.address(slot) + u64::from(packet.headroom))
    }
}

/// One direction's frames.
#[derive(Debug)]
pub struct Half {
    umem: Arc<Umem>,
    first: usize,
    count: usize,
}

impl Half {
    /// How many frames it has.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(super) fn window(&self) -> Window {
        Window { chunk_shift: self.umem.chunk_shift, first: self.first as u64, count: self.count as u64 }
    }

    /// The arrival time that the gate wrote in front of a frame that starts `headroom` bytes into
    /// its chunk. Wiped, so that the next frame in this chunk cannot wear it.
    pub(super) fn take_stamp(&mut self, slot: Slot, headroom: u32) -> Option<Instant> {
        let size = size_of::<Stamp>() as u32;
        if headroom < size || headroom > self.umem.chunk() || slot.index() >= self.count {
            return None;
        }
        let at = ((self.first + slot.index()) << self.umem.chunk_shift) + (headroom - size) as usize;
        // SAFETY: `at` and the sixteen bytes behind it are inside this half's chunk, as just
        // checked. The frame has come back from the kernel, which no longer writes to it, and this
        // half is the only owner of the bytes. Unaligned, since a driver chooses the offset.
        unsafe {
            let p = self.umem.memory.start().as_ptr().add(at).cast::<Stamp>();
            let stamp = p.read_unaligned();
            if !stamp.is_valid() {
                return None;
            }
            p.write_unaligned(Stamp::default());
            Some(Instant::from_nanos(stamp.arrived_ns))
        }
    }

    /// Where a packet's bytes are, or none if the record does not make sense or the frame is with
    /// the kernel.
    fn range(&self, slot: Slot, packet: &Packet) -> Option<(NonNull<u8>, usize)> {
        if packet.is_lent() {
            return None;
        }
        let address = self.window().packet(slot, packet, self.umem.chunk())?;
        // SAFETY: `packet` vouches that the range lies inside the chunk, and so inside the mapping.
        let start = unsafe { self.umem.memory.start().add(address as usize) };
        Some((start, packet.len as usize))
    }
}

impl Frames for Half {
    fn bytes(&self, slot: Slot, packet: &Packet) -> &[u8] {
        match self.range(slot, packet) {
            // SAFETY: in range (above). The frame is not lent, so the kernel does not write to it;
            // this half is the only owner of its bytes, and it is borrowed for as long as the slice.
            Some((start, len)) => unsafe { std::slice::from_raw_parts(start.as_ptr(), len) },
            None => &[],
        }
    }

    fn bytes_mut(&mut self, slot: Slot, packet: &Packet) -> &mut [u8] {
        match self.range(slot, packet) {
            // SAFETY: as above, and borrowed exclusively.
            Some((start, len)) => unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) },
            None => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    fn slot_zero() -> Slot {
        Pool::new(1).take().expect("one is free").slot()
    }

    #[test]
    fn only_descriptors_inside_one_chunk_get_an_address() {
        let window = Window { chunk_shift: 11, first: 8, count: 4 };
        let packet = |headroom, len| Packet { headroom, len, ..Packet::default() };
        let slot = slot_zero();
        assert_eq!(window.packet(slot, &packet(256, 1514), 1522), Some(8 * 2048 + 256));
        assert_eq!(window.packet(slot, &packet(526, 1522), 1522), Some(8 * 2048 + 526));
        for (headroom, len) in [(256, 0), (256, 1523), (527, 1522), (2048, 1), (0, u32::MAX), (u16::MAX, 64)] {
            assert_eq!(window.packet(slot, &packet(headroom, len), 1522), None, "{headroom} {len}");
        }
    }

    #[test]
    fn addresses_outside_the_half_are_nobodys_frame() {
        let window = Window { chunk_shift: 11, first: 8, count: 4 };
        assert_eq!(window.number(8 * 2048 + 300), Some((0, 300)));
        assert_eq!(window.number(12 * 2048 - 1), Some((3, 2047)));
        for address in [0, 8 * 2048 - 1, 12 * 2048, u64::MAX] {
            assert_eq!(window.number(address), None, "{address}");
        }
    }

    #[test]
    fn a_stamp_is_worn_once() {
        let umem = Umem::new(2, 2048).unwrap();
        let [mut half, _] = umem.halves();
        let slot = slot_zero();
        let packet = Packet { headroom: 256 - 16, len: 16, ..Packet::default() };
        let stamp = Stamp::new(77);
        half.bytes_mut(slot, &packet)[..8].copy_from_slice(&stamp.arrived_ns.to_ne_bytes());
        half.bytes_mut(slot, &packet)[8..].copy_from_slice(&stamp.magic.to_ne_bytes());
        assert_eq!(half.take_stamp(slot, 256), Some(Instant::from_nanos(77)));
        assert_eq!(half.take_stamp(slot, 256), None);
        assert_eq!(half.take_stamp(slot, 8), None, "no room in front of the frame");
    }

    #[test]
    fn a_frame_that_is_with_the_kernel_shows_no_bytes() {
        let umem = Umem::new(1, 2048).unwrap();
        let [half, _] = umem.halves();
        let mut pool = Pool::new(1);
        let frame = pool.take().unwrap();
        pool[&frame].len = 60;
        let slot = frame.slot();
        assert_eq!(half.bytes(slot, &pool[slot]).len(), 60);
        let slot = pool.lend(frame);
        assert!(half.bytes(slot, &pool[slot]).is_empty());
    }
}

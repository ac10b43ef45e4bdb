//! Which queue gives up a packet when memory is short (`spec/cake.md` §14).
//!
//! The kernel's heap is not quite one: while an entry sinks, it is compared with the larger entry
//! that rose past it, so it stops after one level in most cases, and the root is often not the
//! fattest queue. Which packets are lost depends on that, so it is rebuilt here as it is; with
//! `heap exact` the comparison is the right one and nothing else changes.

/// Deliveries after which the heap is let go, and rebuilt when it is needed again.
const LIFETIME: u16 = u16::MAX;

/// Tins that the entries are numbered by.
pub(super) const TINS: u32 = 8;

/// Backlogs of all queues, and a heap over them. An entry is tin + 8 · queue.
#[derive(Debug)]
pub(super) struct Heap {
    backlogs: Box<[u32]>,
    entries: Box<[u32]>,
    positions: Box<[u32]>,
    /// Two to this many queues are in a tin.
    shift: u32,
    exact: bool,
    /// Deliveries until the heap is no longer kept in order; zero if it is not.
    timeout: u16,
}

impl Heap {
    pub(super) fn new(queues: u32, exact: bool) -> Self {
        let identity: Box<[u32]> = (0..queues * TINS).collect();
        Heap {
            backlogs: vec![0; identity.len()].into(),
            positions: identity.clone(),
            entries: identity,
            shift: queues.trailing_zeros(),
            exact,
            timeout: 0,
        }
    }

    /// Backlogs of one tin's queues stand together, so that few cache lines hold those in use.
    #[inline]
    fn place(&self, tin: usize, queue: u32) -> usize {
        (tin << self.shift) + queue as usize
    }

    fn key(&self, entry: u32) -> u32 {
        self.backlogs[self.place((entry % TINS) as usize, entry / TINS)]
    }

    /// Bytes in a queue.
    #[cfg(test)]
    pub(super) fn backlog(&self, tin: usize, queue: u32) -> u32 {
        self.backlogs[self.place(tin, queue)]
    }

    /// A queue grew by some bytes, or shrank by them if an ACK gave way to a shorter one.
    #[inline]
    pub(super) fn enqueued(&mut self, tin: usize, queue: u32, change: i32) {
        let place = self.place(tin, queue);
        self.backlogs[place] = self.backlogs[place].wrapping_add_signed(change);
        if self.timeout != 0 {
            self.grown(tin, queue);
        }
    }

    #[inline(never)]
    fn grown(&mut self, tin: usize, queue: u32) {
        let at = self.sift_up(self.positions[(queue * TINS) as usize + tin] as usize);
        if self.exact {
            self.sift_down(at);
        }
    }

    /// A packet left a queue.
    #[inline]
    pub(super) fn dequeued(&mut self, tin: usize, queue: u32, bytes: u32) {
        let place = self.place(tin, queue);
        self.backlogs[place] = self.backlogs[place].wrapping_sub(bytes);
        if self.timeout != 0 {
            self.shrunk(tin, queue);
        }
    }

    #[inline(never)]
    fn shrunk(&mut self, tin: usize, queue: u32) {
        self.sift_down(self.positions[(queue * TINS) as usize + tin] as usize);
    }

    /// A packet was delivered.
    #[inline]
    pub(super) fn delivered(&mut self) {
        self.timeout = self.timeout.saturating_sub(1);
    }

    /// The queue that shall lose a packet, as (tin, queue).
    pub(super) fn fattest(&mut self) -> (usize, u32) {
        if self.timeout == 0 {
            for at in (0..self.entries.len() / 2).rev() {
                self.sift_down(at);
            }
            self.timeout = LIFETIME;
        }
        ((self.entries[0] % TINS) as usize, self.entries[0] / TINS)
    }

    /// The fattest lost a packet.
    pub(super) fn lightened(&mut self, tin: usize, queue: u32, bytes: u32) {
        let place = self.place(tin, queue);
        self.backlogs[place] = self.backlogs[place].wrapping_sub(bytes);
        self.sift_down(0);
    }

    /// The order is not what it should be: rebuild before the next use.
    pub(super) fn forget(&mut self) {
        self.timeout = 0;
    }

    /// All queues of a tin were emptied.
    pub(super) fn emptied(&mut self, tin: usize) {
        let from = self.place(tin, 0);
        self.backlogs[from..from + (1 << self.shift)].fill(0);
        if self.exact {
            self.forget();
        }
    }

    /// See [`super::Params::exact_heap`].
    pub(super) fn set_exact(&mut self, exact: bool) {
        if self.exact != exact {
            self.exact = exact;
            self.forget();
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.positions[self.entries[a] as usize] = a as u32;
        self.positions[self.entries[b] as usize] = b as u32;
    }

    fn sift_up(&mut self, mut at: usize) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.key(self.entries[at]) <= self.key(self.entries[parent]) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        let own = self.key(self.entries[at]);
        let mut beaten = own;
        loop {
            let mut largest = at;
            for child in [2 * at + 1, 2 * at + 2] {
                let key = self.entries.get(child).map_or(0, |&e| self.key(e));
                if key > beaten {
                    (largest, beaten) = (child, key);
                }
            }
            if largest == at {
                break;
            }
            self.swap(at, largest);
            at = largest;
            if self.exact {
                beaten = own;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    fn trial(exact: bool) -> (usize, usize) {
        let mut heap = Heap::new(256, exact);
        let mut random = SplitMix64::new(1);
        let mut wrong = 0;
        for step in 0..4000 {
            let r = random.next_u64();
            let (tin, queue) = ((r % 4) as usize, (r >> 8) as u32 % 8);
            heap.enqueued(tin, queue, 60 + (r >> 20) as i32 % 1455);
            if step < 200 || r >> 63 == 0 {
                continue;
            }
            let max = (0..4).flat_map(|t| (0..8).map(move |q| (t, q))).map(|(t, q)| heap.backlog(t, q)).max();
            let (tin, queue) = heap.fattest();
            let found = heap.backlog(tin, queue);
            wrong += usize::from(Some(found) != max);
            heap.lightened(tin, queue, found.min(1514));
        }
        (wrong, heap.entries.len())
    }

    #[test]
    fn the_exact_heap_always_finds_the_fattest_and_the_kernels_often_does_not() {
        assert_eq!(trial(true).0, 0);
        assert!(trial(false).0 > 100);
    }

    #[test]
    fn a_fresh_rebuild_has_the_true_maximum_at_its_root() {
        let mut heap = Heap::new(1024, false);
        let mut random = SplitMix64::new(2);
        for queue in 0..1024 {
            heap.enqueued((queue % 8) as usize, queue, (random.next_u64() % 100_000) as i32);
        }
        let (tin, queue) = heap.fattest();
        assert_eq!(Some(&heap.backlog(tin, queue)), heap.backlogs.iter().max());
    }
}

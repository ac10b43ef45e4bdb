//! Packets by the time they are due, earliest first, and at one time in the order they came: a
//! leftist heap through the pool. It has no memory of its own and no bad moment: putting in and
//! taking out are O(log n) each, and not only on average.

use super::{Frame, NIL, Pool, Slot};
use crate::packet::Packet;
use crate::time::Instant;

/// A heap of frames ordered by their records' `released`, read as a signed number, so that a time
/// before the clock's origin is early and not late. While a frame is in it, the heap owns
/// `charged`, `queue` and `tin` of its record.
#[derive(Debug)]
pub struct DueHeap {
    root: u32,
    len: u32,
    sequence: u32,
}

/// Right spines are no longer than log2(n + 1), and two of them are merged.
const DEEPEST: usize = 64;

impl Default for DueHeap {
    fn default() -> Self {
        DueHeap { root: NIL, len: 0, sequence: 0 }
    }
}

/// The record's due time, which may lie before the clock's origin.
pub fn due(packet: &Packet) -> i64 {
    packet.released.as_nanos() as i64
}

/// Notes a due time in a record; see [`due`].
pub fn set_due(packet: &mut Packet, time: i64) {
    packet.released = Instant::from_nanos(time as u64);
}

impl DueHeap {
    /// Number of packets.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// The packet that is due first, left in place.
    pub fn front(&self) -> Option<Slot> {
        (self.root != NIL).then_some(Slot(self.root))
    }

    /// Puts a frame in, by its record's `released`.
    pub fn push(&mut self, pool: &mut Pool, frame: Frame) {
        let record = &mut pool.records[frame.0 as usize];
        record.next = NIL;
        record.queue = NIL;
        record.tin = 1;
        record.charged = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        self.len += 1;
        self.root = merge(&mut pool.records, self.root, frame.0);
    }

    /// Takes out the packet that is due first.
    pub fn pop(&mut self, pool: &mut Pool) -> Option<Frame> {
        let n = self.root;
        let record = pool.records.get(n as usize)?;
        let (left, right) = (record.next, record.queue);
        self.len -= 1;
        self.root = merge(&mut pool.records, left, right);
        Some(Frame(n))
    }
}

fn before(a: &Packet, b: &Packet) -> bool {
    let older = (a.charged.wrapping_sub(b.charged) as i32) < 0;
    due(a) < due(b) || due(a) == due(b) && older
}

/// One heap of two, given by their roots; `next` is the left branch, `queue` the right, `tin` the
/// length of the right spine.
fn merge(records: &mut [Packet], mut a: u32, mut b: u32) -> u32 {
    let mut path = [NIL; DEEPEST];
    let mut depth = 0;
    while a != NIL && b != NIL {
        if before(&records[b as usize], &records[a as usize]) {
            std::mem::swap(&mut a, &mut b);
        }
        path[depth] = a;
        depth += 1;
        a = records[a as usize].queue;
    }
    let mut merged = if a == NIL { b } else { a };
    let rank = |records: &[Packet], n: u32| records.get(n as usize).map_or(0, |r| r.tin);
    while depth > 0 {
        depth -= 1;
        let n = path[depth];
        let left = records[n as usize].next;
        let (long, short) = if rank(records, left) < rank(records, merged) { (merged, left) } else { (left, merged) };
        let spine = rank(records, short) + 1;
        let record = &mut records[n as usize];
        (record.next, record.queue, record.tin) = (long, short, spine);
        merged = n;
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    #[test]
    fn packets_come_out_by_time_and_at_one_time_in_the_order_they_came() {
        let mut pool = Pool::new(3000);
        let mut heap = DueHeap::default();
        let mut random = SplitMix64::new(5);
        let mut expected = Vec::new();
        for i in 0..3000u32 {
            let frame = pool.take().unwrap();
            let time = (random.next_u64() % 200) as i64 - 100;
            set_due(&mut pool[&frame], time);
            pool[&frame].len = i;
            heap.push(&mut pool, frame);
            expected.push((time, i));
            if i % 3 == 2 {
                // Taken out in between, too.
                expected.sort_unstable();
                let frame = heap.pop(&mut pool).unwrap();
                assert_eq!((due(&pool[&frame]), pool[&frame].len), expected.remove(0));
                pool.give(frame);
            }
        }
        expected.sort_unstable();
        assert_eq!(heap.len(), expected.len());
        for want in expected {
            let frame = heap.pop(&mut pool).unwrap();
            assert_eq!((due(&pool[&frame]), pool[&frame].len), want);
            pool.give(frame);
        }
        assert!(heap.is_empty() && heap.pop(&mut pool).is_none());
    }

    #[test]
    fn no_spine_grows_beyond_the_logarithm_whatever_the_order() {
        for order in [|i: u32| i as i64, |i: u32| -(i as i64), |_| 7] {
            let mut pool = Pool::new(1 << 14);
            let mut heap = DueHeap::default();
            for i in 0..1 << 14 {
                let frame = pool.take().unwrap();
                set_due(&mut pool[&frame], order(i));
                heap.push(&mut pool, frame);
            }
            assert!(pool[heap.front().unwrap()].tin <= 14);
            let mut last = i64::MIN;
            while let Some(frame) = heap.pop(&mut pool) {
                assert!(due(&pool[&frame]) >= last);
                last = due(&pool[&frame]);
                pool.give(frame);
            }
        }
    }
}

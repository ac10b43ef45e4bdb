//! Which flows of the layer below carry data-transfer headers, learned from frames that look like
//! them (`spec/mb-ecn.md` §5.4).
//!
//! A fixed table: keyed hash, chains through the entries, and a list by last use. When it is full the
//! flow that was quiet longest gives way, which only delays marking.

use super::dtp::Key;
use crate::classify::{FlowKeys, Hashing};
use crate::time::{Instant, SECOND};

/// Flows remembered.
pub const CAPACITY: usize = 1024;
/// Frames of a flow that must look right before one is written to.
pub const ENOUGH: u8 = 4;
/// How long a flow that looked wrong is not believed, ns.
pub const DISTRUST: u64 = 10 * SECOND;
/// How long a quiet flow is remembered, ns.
pub const IDLE: u64 = 60 * SECOND;

const NIL: u16 = u16::MAX;
const BUCKETS: usize = CAPACITY;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    good: u8,
    distrusted_until: Instant,
    seen: Instant,
    /// In the bucket.
    next: u16,
    /// By last use.
    newer: u16,
    older: u16,
}

/// The flows that are known.
#[derive(Debug)]
pub struct Learner {
    keys: [u64; 2],
    entries: Vec<Entry>,
    buckets: Box<[u16; BUCKETS]>,
    newest: u16,
    oldest: u16,
}

impl Learner {
    /// Knows nothing yet. `keys` keep others from choosing flows that share a bucket.
    pub fn new(keys: [u64; 2]) -> Self {
        Learner {
            keys,
            entries: Vec::with_capacity(CAPACITY),
            buckets: Box::new([NIL; BUCKETS]),
            newest: NIL,
            oldest: NIL,
        }
    }

    /// A frame of a flow that looks like a data-transfer frame; `is_flow` if it belongs to one. Gives
    /// whether it may be written to: not the frames that the flow is learned from.
    pub fn looks_right(&mut self, key: &Key, is_flow: bool, now: Instant) -> bool {
        let Some(i) = self.find(key) else {
            if is_flow {
                let i = self.insert(key, now);
                self.entries[i].good = 1;
            }
            return false;
        };
        self.touch(i);
        let entry = &mut self.entries[i];
        if now.since(entry.seen) >= IDLE {
            entry.good = 0;
        }
        entry.seen = now;
        if now < entry.distrusted_until {
            return false;
        }
        let learned = entry.good >= ENOUGH;
        if is_flow {
            entry.good = entry.good.saturating_add(1);
        }
        learned
    }

    /// A frame of a flow that does not look like one: if the flow is known, it is forgotten, and not
    /// believed for a while.
    pub fn looks_wrong(&mut self, key: &Key, now: Instant) {
        let Some(i) = self.find(key) else { return };
        self.touch(i);
        let entry = &mut self.entries[i];
        (entry.good, entry.seen, entry.distrusted_until) = (0, now, now + DISTRUST);
    }

    /// Flows whose frames may be written to at `now`. Counts them: not for the data path.
    pub fn learned(&self, now: Instant) -> usize {
        self.entries.iter().filter(|e| e.good >= ENOUGH && now.since(e.seen) < IDLE).count()
    }

    fn bucket(&self, key: &Key) -> usize {
        let wide = |mac: [u8; 6]| {
            let mut out = [0; 16];
            out[..6].copy_from_slice(&mac);
            out
        };
        let keys = FlowKeys {
            src: wide(key.src),
            dst: wide(key.dst),
            // So that all parts count.
            version: 6,
            vlan: u32::from(key.vlan[0]) << 16 | u32::from(key.vlan[1]),
            label: key.eid.into(),
            ..FlowKeys::default()
        };
        Hashing::Keyed(self.keys).flow(&keys) as usize % BUCKETS
    }

    fn find(&self, key: &Key) -> Option<usize> {
        let mut i = self.buckets[self.bucket(key)];
        while i != NIL && self.entries[usize::from(i)].key != *key {
            i = self.entries[usize::from(i)].next;
        }
        (i != NIL).then_some(usize::from(i))
    }

    fn insert(&mut self, key: &Key, now: Instant) -> usize {
        let bucket = self.bucket(key);
        let fresh = Entry {
            key: *key,
            good: 0,
            distrusted_until: Instant::ZERO,
            seen: now,
            next: self.buckets[bucket],
            newer: NIL,
            older: NIL,
        };
        let i = if self.entries.len() < CAPACITY {
            self.entries.push(fresh);
            self.entries.len() - 1
        } else {
            let i = usize::from(self.oldest);
            self.unchain(i);
            self.unlist(i);
            // The victim may have stood in the same bucket.
            self.entries[i] = Entry { next: self.buckets[bucket], ..fresh };
            i
        };
        self.buckets[bucket] = i as u16;
        self.list(i);
        i
    }

    /// Takes an entry out of its bucket.
    fn unchain(&mut self, i: usize) {
        let (bucket, next) = (self.bucket(&self.entries[i].key), self.entries[i].next);
        let mut at = self.buckets[bucket];
        if usize::from(at) == i {
            self.buckets[bucket] = next;
            return;
        }
        while usize::from(self.entries[usize::from(at)].next) != i {
            at = self.entries[usize::from(at)].next;
        }
        self.entries[usize::from(at)].next = next;
    }

    fn touch(&mut self, i: usize) {
        self.unlist(i);
        self.list(i);
    }

    fn unlist(&mut self, i: usize) {
        let Entry { newer, older, .. } = self.entries[i];
        match newer {
            NIL => self.newest = older,
            n => self.entries[usize::from(n)].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            o => self.entries[usize::from(o)].newer = newer,
        }
    }

    /// Puts an entry at the newest end.
    fn list(&mut self, i: usize) {
        (self.entries[i].newer, self.entries[i].older) = (NIL, self.newest);
        match self.newest {
            NIL => self.oldest = i as u16,
            n => self.entries[usize::from(n)].newer = i as u16,
        }
        self.newest = i as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        let [_, a, b, c] = n.to_be_bytes();
        Key { src: [2, 0, 0, a, b, c], dst: [2, 0, 0, 0, 0, 1], eid: 66, vlan: [0; 2] }
    }

    fn teach(l: &mut Learner, n: u32, frames: usize) {
        for _ in 0..frames {
            l.looks_right(&key(n), true, at(1));
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(SECOND * seconds)
    }

    #[test]
    fn the_fifth_frame_of_a_flow_is_the_first_that_may_be_written_to() {
        let mut l = Learner::new([1, 2]);
        let seen: Vec<_> = (0..6).map(|_| l.looks_right(&key(1), true, at(1))).collect();
        assert_eq!(seen, [false, false, false, false, true, true]);
        assert!(!l.looks_right(&key(2), true, at(1)), "another flow is another flow");
        assert_eq!(l.learned(at(1)), 1);
    }

    #[test]
    fn frames_of_components_neither_teach_nor_are_left_out() {
        let mut l = Learner::new([1, 2]);
        assert!((0..10).all(|_| !l.looks_right(&key(1), false, at(1))));
        assert!((0..4).all(|_| !l.looks_right(&key(1), true, at(1))));
        assert!(l.looks_right(&key(1), false, at(1)));
    }

    #[test]
    fn a_frame_that_looks_wrong_undoes_the_flow_for_ten_seconds() {
        let mut l = Learner::new([1, 2]);
        teach(&mut l, 1, 9);
        l.looks_wrong(&key(1), at(2));
        assert!((2..12).all(|s| !l.looks_right(&key(1), true, at(s))));
        assert_eq!(l.learned(at(11)), 0);
        assert!((0..4).all(|_| !l.looks_right(&key(1), true, at(12))));
        assert!(l.looks_right(&key(1), true, at(12)));
        l.looks_wrong(&key(7), at(12));
        assert!(l.find(&key(7)).is_none(), "who is not known is not noted");
    }

    #[test]
    fn a_flow_that_was_quiet_for_a_minute_starts_anew() {
        let mut l = Learner::new([1, 2]);
        teach(&mut l, 1, 5);
        assert!(l.looks_right(&key(1), true, at(60)));
        assert!(!l.looks_right(&key(1), true, at(120)));
    }

    #[test]
    fn a_full_table_gives_up_the_flow_that_was_quiet_longest() {
        let mut l = Learner::new([1, 2]);
        for n in 0..CAPACITY as u32 {
            teach(&mut l, n, 5);
        }
        assert_eq!(l.learned(at(1)), CAPACITY);
        assert!(l.looks_right(&key(0), true, at(2)), "the first is not the longest quiet any more");
        l.looks_right(&key(5000), true, at(3));
        assert!(l.find(&key(1)).is_none() && l.find(&key(0)).is_some() && l.find(&key(2)).is_some());
        for n in 0..20_000 {
            l.looks_right(&key(n * 7919), true, at(4));
        }
        let mut chained = 0;
        for bucket in *l.buckets {
            let mut i = bucket;
            while i != NIL {
                chained += 1;
                i = l.entries[usize::from(i)].next;
            }
        }
        assert_eq!((chained, l.entries.len()), (CAPACITY, CAPACITY), "every entry is in one bucket");
    }
}

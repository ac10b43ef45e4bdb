//! What happens next: a heap of moments. Events of one moment come in the order they were filed,
//! so a run depends on nothing but its input.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Instant;

struct Entry<E> {
    at: Instant,
    order: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The earliest is the greatest, as the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Events in order of time.
pub struct Events<E> {
    heap: BinaryHeap<Entry<E>>,
    filed: u64,
    taken: u64,
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Events { heap: BinaryHeap::new(), filed: 0, taken: 0 }
    }
}

impl<E> Events<E> {
    /// Files an event.
    pub fn at(&mut self, at: Instant, event: E) {
        self.heap.push(Entry { at, order: self.filed, event });
        self.filed += 1;
    }

    /// Takes the earliest event, if it comes before `end` or at it.
    pub fn next_until(&mut self, end: Instant) -> Option<(Instant, E)> {
        if self.heap.peek()?.at > end {
            return None;
        }
        self.taken += 1;
        self.heap.pop().map(|e| (e.at, e.event))
    }

    /// Events taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_moment_come_in_the_order_they_were_filed() {
        let mut events = Events::default();
        for (at, name) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            events.at(Instant::from_nanos(at), name);
        }
        let order: String = std::iter::from_fn(|| events.next_until(Instant::NEVER)).map(|(_, e)| e).collect();
        assert_eq!(order, "abcd");
    }

    #[test]
    fn an_event_behind_the_end_stays() {
        let mut events = Events::default();
        events.at(Instant::from_nanos(7), ());
        assert_eq!(events.next_until(Instant::from_nanos(6)), None);
        assert_eq!(events.next_until(Instant::from_nanos(7)), Some((Instant::from_nanos(7), ())));
    }
}

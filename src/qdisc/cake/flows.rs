//! The queues of a tin: who gets which, and the lists they wait in (`spec/cake.md` §8.3, §12.3).

use super::cobalt::Vars;
use crate::pool::Queue;

/// Ways of a set.
pub(super) const WAYS: usize = 8;

const NIL: u32 = u32::MAX;

/// Where a flow stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(super) enum State {
    /// In no list.
    #[default]
    None,
    /// New, within its first quantum.
    Sparse,
    /// Used up its quantum and was empty when visited; bulk if it comes back before the next visit.
    SparseWait,
    /// Has a standing queue.
    Bulk,
    /// Empty, while COBALT calms down.
    Decaying,
}

/// Flags of [`Flow::counted`].
pub(super) const SOURCE: u8 = 1;
/// See [`SOURCE`].
pub(super) const DESTINATION: u8 = 2;

/// A queue and what is remembered of it: one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Flow {
    pub(super) cobalt: Vars,
    pub(super) queue: Queue,
    pub(super) deficit: i32,
    next: u32,
    previous: u32,
    pub(super) src_host: u16,
    pub(super) dst_host: u16,
    pub(super) state: State,
    /// In which host counts this flow is.
    pub(super) counted: u8,
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow is one cache line");

/// A list of flows. Only the predecessor of a flow behind the head is kept up to date: the head is
/// taken without touching its successor. Of an empty list only the head says so.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NIL, tail: NIL }
    }
}

impl List {
    #[inline]
    pub(super) fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline]
    pub(super) fn push(&mut self, flows: &mut [Flow], f: u32) {
        let flow = &mut flows[f as usize];
        flow.next = NIL;
        flow.previous = self.tail;
        if self.head == NIL {
            self.head = f;
        } else {
            flows[self.tail as usize].next = f;
        }
        self.tail = f;
    }

    #[inline]
    pub(super) fn pop(&mut self, flows: &[Flow]) {
        self.head = flows[self.head as usize].next;
    }

    #[inline]
    pub(super) fn remove(&mut self, flows: &mut [Flow], f: u32) {
        let Flow { previous, next, .. } = flows[f as usize];
        if self.head == f {
            self.head = next;
            return;
        }
        flows[previous as usize].next = next;
        if self.tail == f {
            self.tail = previous;
        } else {
            flows[next as usize].previous = previous;
        }
    }
}

/// The ways of a set of which something holds, as bits: which one it is then costs no branch.
#[inline]
pub(super) fn ways(holds: impl Fn(usize) -> bool) -> u8 {
    (0..WAYS).fold(0, |set, way| set | u8::from(holds(way)) << way)
}

/// The first way in a set of some, from the home way on and around.
#[inline]
pub(super) fn first_way(set: u8, home: usize) -> usize {
    let own = home & (WAYS - 1);
    (own + set.rotate_right(own as u32).trailing_zeros() as usize) & (WAYS - 1)
}

/// How a queue was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// Where the hash points to, and in use.
    Direct,
    /// By its tag, in its home way or another.
    Tagged {
        /// Not in the home way.
        indirect: bool,
        /// It was in no list, so its hosts may be others by now.
        idle: bool,
    },
    /// None bears the tag; this one was free.
    Free,
    /// None is free; this one is shared.
    Collision,
}

impl Found {
    /// Whether the hosts that the queue remembers may be another flow's.
    pub(super) fn needs_hosts(self) -> bool {
        match self {
            Found::Direct => false,
            Found::Tagged { idle, .. } => idle,
            Found::Free | Found::Collision => true,
        }
    }
}

/// The queues of a tin.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Box<[Flow]>,
    tags: Box<[u32]>,
    /// Which ways of each set are in use, that is, in another state than [`State::None`]: a set can be
    /// full without eight flows being looked at.
    used: Box<[u8]>,
}

impl Flows {
    pub(super) fn new(queues: u32) -> Self {
        let n = queues as usize;
        Flows {
            flows: (0..n).map(|_| Flow::default()).collect(),
            tags: vec![0; n].into(),
            used: vec![0; n / WAYS].into(),
        }
    }

    /// Memory for each queue, bytes, rounded up.
    pub(super) const fn memory() -> usize {
        size_of::<Flow>() + size_of::<u32>() + 1
    }

    /// An unused queue comes into use; its state is set by the caller.
    #[inline]
    pub(super) fn occupy(&mut self, f: u32) {
        self.used[f as usize / WAYS] |= 1 << (f as usize % WAYS);
    }

    /// A queue falls out of use.
    #[inline]
    pub(super) fn forget(&mut self, f: u32) {
        self.flows[f as usize].state = State::None;
        self.used[f as usize / WAYS] &= !(1 << (f as usize % WAYS));
    }

    /// Whether a queue counts as used.
    #[cfg(test)]
    pub(super) fn is_used(&self, f: u32) -> bool {
        self.used[f as usize / WAYS] >> (f as usize % WAYS) & 1 == 1
    }

    /// How many queues there are.
    pub(super) fn len(&self) -> u32 {
        self.flows.len() as u32
    }

    /// All queues. Who works with several takes this once, so that nothing is looked up twice.
    #[inline]
    pub(super) fn all(&mut self) -> &mut [Flow] {
        &mut self.flows
    }

    /// The tag of a queue.
    pub(super) fn tag(&self, f: u32) -> u32 {
        self.tags[f as usize]
    }

    /// The queue for a flow hash, tagged with it from now on.
    pub(super) fn find(&mut self, hash: u32) -> (u32, Found) {
        match self.at_home(hash) {
            Some(f) => (f, Found::Direct),
            None => self.search(hash),
        }
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.flows.len() - 1)
    }

    /// The queue that a flow hash points to, if that is where the flow is and it is in use.
    #[inline]
    pub(super) fn at_home(&self, hash: u32) -> Option<u32> {
        let home = self.home(hash);
        (self.tags[home] == hash && self.flows[home].state != State::None).then_some(home as u32)
    }

    /// The queue for a flow that is not at home.
    #[inline(never)]
    pub(super) fn search(&mut self, hash: u32) -> (u32, Found) {
        let home = self.home(hash);
        let base = home & !(WAYS - 1);
        let first = |set: u8| base + first_way(set, home);

        let tagged = ways(|way| self.tags[base + way] == hash);
        if tagged != 0 {
            let f = first(tagged);
            return (f as u32, Found::Tagged { indirect: f != home, idle: self.flows[f].state == State::None });
        }
        let free = !self.used[base / WAYS];
        let f = if free == 0 { home } else { first(free) };
        self.tags[f] = hash;
        (f as u32, if free == 0 { Found::Collision } else { Found::Free })
    }
}

impl std::ops::Index<u32> for Flows {
    type Output = Flow;
    #[inline]
    fn index(&self, f: u32) -> &Flow {
        &self.flows[f as usize]
    }
}

impl std::ops::IndexMut<u32> for Flows {
    #[inline]
    fn index_mut(&mut self, f: u32) -> &mut Flow {
        &mut self.flows[f as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(list: &List, flows: &Flows) -> Vec<u32> {
        std::iter::successors(list.head(), |&f| (f != list.tail).then(|| flows[f].next)).collect()
    }

    #[test]
    fn a_flow_can_leave_its_list_from_any_place() {
        let mut flows = Flows::new(256);
        for leaves in [1, 2, 3, 4] {
            let mut list = List::default();
            (0..5).for_each(|f| list.push(flows.all(), f));
            list.pop(flows.all());
            list.remove(flows.all(), leaves);
            let left: Vec<u32> = (1..5).filter(|&f| f != leaves).collect();
            assert_eq!(order(&list, &flows), left);
            list.push(flows.all(), 9);
            assert_eq!(order(&list, &flows).last(), Some(&9));
        }
    }

    #[test]
    fn a_list_that_ran_empty_starts_again() {
        let mut flows = Flows::new(256);
        let mut list = List::default();
        list.push(flows.all(), 3);
        list.pop(flows.all());
        assert_eq!(list.head(), None);
        list.push(flows.all(), 5);
        assert_eq!(order(&list, &flows), [5]);
    }

    #[test]
    fn eight_flows_share_a_set_and_the_ninth_collides() {
        let mut flows = Flows::new(1024);
        let hash = |i: u32| 5 + i * 1024;
        for i in 0..8 {
            let (f, found) = flows.find(hash(i));
            assert_eq!((f, found), ((5 + i) % 8, Found::Free));
            flows[f].state = State::Bulk;
            flows.occupy(f);
        }
        assert_eq!(flows.find(hash(0)), (5, Found::Direct));
        assert_eq!(flows.find(hash(2)), (7, Found::Tagged { indirect: true, idle: false }));
        assert_eq!(flows.find(hash(8)), (5, Found::Collision));
        assert_eq!(flows.tag(5), hash(8));
        flows.forget(7);
        assert_eq!(flows.find(hash(2)), (7, Found::Tagged { indirect: true, idle: true }));
        assert_eq!(flows.find(hash(9)), (7, Found::Free), "a tag does not hold a queue that nobody uses");
    }
}

//! The lists of new and old flows: links through the flows, no memory of their own.

use super::Flow;

const END: u32 = u32::MAX;
const NOWHERE: u32 = u32::MAX - 1;

/// Where a flow stands: in no list, or before another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u32);

impl Default for Place {
    fn default() -> Self {
        Place(NOWHERE)
    }
}

impl Place {
    pub(super) fn is_listed(self) -> bool {
        self.0 != NOWHERE
    }
}

/// Flows in the order they will be served.
#[derive(Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: END, tail: END, len: 0 }
    }
}

impl List {
    pub(super) fn is_empty(&self) -> bool {
        self.head == END
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn front(&self) -> Option<usize> {
        (self.head != END).then_some(self.head as usize)
    }

    /// Appends a flow that is in no list.
    pub(super) fn push(&mut self, flows: &mut [Flow], flow: usize) {
        flows[flow].place = Place(END);
        if self.head == END {
            self.head = flow as u32;
        } else {
            flows[self.tail as usize].place = Place(flow as u32);
        }
        self.tail = flow as u32;
        self.len += 1;
    }

    /// Removes the first flow.
    pub(super) fn pop(&mut self, flows: &mut [Flow]) {
        if let Some(first) = self.front() {
            self.head = flows[first].place.0;
            flows[first].place = Place(NOWHERE);
            self.len -= 1;
        }
    }
}

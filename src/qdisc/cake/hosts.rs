//! How many bulk flows each host has (`spec/cake.md` §8.3, second half).
//!
//! Sources and destinations have a table each, eight-way set-associative like the queues. A flow
//! that is counted here carries a flag that says so ([`super::flows::Flow`]), so a count never goes
//! below zero and always equals a recount of the flags.

use super::flows::{WAYS, first_way, ways};

/// The hosts of one direction in one tin.
#[derive(Debug)]
pub(super) struct Hosts {
    tags: Box<[u32]>,
    bulk: Box<[u16]>,
}

impl Hosts {
    pub(super) fn new(slots: u32) -> Self {
        Hosts { tags: vec![0; slots as usize].into(), bulk: vec![0; slots as usize].into() }
    }

    /// The slot for a host hash: the one that bears it, else one without bulk flows, else the one
    /// it hashes to, which is then shared.
    pub(super) fn allocate(&mut self, hash: u32) -> u16 {
        let home = hash as usize & (self.tags.len() - 1);
        let base = home & !(WAYS - 1);
        let tagged = ways(|way| self.tags[base + way] == hash);
        if tagged != 0 {
            return (base + first_way(tagged, home)) as u16;
        }
        let free = ways(|way| self.bulk[base + way] == 0);
        let slot = if free == 0 { home } else { base + first_way(free, home) };
        self.tags[slot] = hash;
        slot as u16
    }

    /// Bulk flows of the host in a slot.
    #[inline]
    pub(super) fn bulk(&self, slot: u16) -> u16 {
        self.bulk[slot as usize]
    }

    /// The hash of the host in a slot.
    pub(super) fn tag(&self, slot: u16) -> u32 {
        self.tags[slot as usize]
    }

    /// One bulk flow more. False if the count is at its end already.
    pub(super) fn enter(&mut self, slot: u16) -> bool {
        let count = &mut self.bulk[slot as usize];
        let fits = usize::from(*count) < self.tags.len().min(u16::MAX.into());
        *count += u16::from(fits);
        fits
    }

    /// One bulk flow less.
    pub(super) fn leave(&mut self, slot: u16) {
        self.bulk[slot as usize] -= 1;
    }

    /// No host has bulk flows any more.
    pub(super) fn reset_counts(&mut self) {
        self.bulk.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_keeps_its_slot_and_a_ninth_shares_the_one_it_hashes_to() {
        let mut hosts = Hosts::new(1024);
        let hash = |i: u32| 1 + i * 1024;
        for i in 0..8 {
            let slot = hosts.allocate(hash(i));
            assert_eq!(u32::from(slot), (1 + i) % 8);
            assert!(hosts.enter(slot));
        }
        assert_eq!(hosts.allocate(hash(3)), 4);
        assert_eq!(hosts.allocate(hash(8)), 1, "all eight are busy");
        hosts.leave(4);
        assert_eq!(hosts.allocate(hash(9)), 4, "the first without bulk flows, from the home slot on");
    }
}

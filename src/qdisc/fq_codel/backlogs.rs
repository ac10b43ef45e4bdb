//! Bytes queued per flow, and the flow that has most of them.
//!
//! The rule is a scan from flow 0 for the first largest backlog (`spec/codel.md` §2.4). Here the
//! flows stand in blocks whose maxima are remembered, and a change only makes its block stale: a
//! packet costs one store, a search looks again at the blocks touched since the last one.

const BLOCK: usize = 64;

/// Byte backlogs of all flows.
#[derive(Debug)]
pub(super) struct Backlogs {
    bytes: Box<[u32]>,
    largest: Box<[u32]>,
    stale: Box<[bool]>,
}

impl Backlogs {
    pub(super) fn new(flows: usize) -> Self {
        let blocks = flows.div_ceil(BLOCK);
        Backlogs { bytes: vec![0; flows].into(), largest: vec![0; blocks].into(), stale: vec![false; blocks].into() }
    }

    pub(super) fn of(&self, flow: usize) -> u32 {
        self.bytes[flow]
    }

    pub(super) fn add(&mut self, flow: usize, len: u32) {
        self.bytes[flow] += len;
        self.stale[flow / BLOCK] = true;
    }

    pub(super) fn sub(&mut self, flow: usize, len: u32) {
        self.bytes[flow] -= len;
        self.stale[flow / BLOCK] = true;
    }

    /// The first flow among those with the largest backlog.
    pub(super) fn fattest(&mut self) -> usize {
        for ((block, largest), stale) in self.bytes.chunks(BLOCK).zip(&mut *self.largest).zip(&mut *self.stale) {
            if std::mem::take(stale) {
                *largest = largest_of(block);
            }
        }
        let most = largest_of(&self.largest);
        let block = self.largest.iter().position(|&n| n == most).unwrap_or(0);
        let first = block * BLOCK;
        let within = self.bytes[first..].iter().position(|&n| n == most).unwrap_or(0);
        first + within
    }
}

fn largest_of(numbers: &[u32]) -> u32 {
    numbers.iter().copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_search_by_blocks_finds_what_a_scan_finds(
            flows in 1usize..200,
            steps in prop::collection::vec((0usize..200, 0u32..4, any::<bool>()), 1..300),
        ) {
            let mut backlogs = Backlogs::new(flows);
            let mut plain = vec![0u32; flows];
            for (flow, len, look) in steps {
                let flow = flow % flows;
                if len == 0 {
                    backlogs.sub(flow, plain[flow]);
                    plain[flow] = 0;
                } else {
                    backlogs.add(flow, len);
                    plain[flow] += len;
                }
                if look {
                    let mut first = 0;
                    for i in 1..flows {
                        if plain[i] > plain[first] {
                            first = i;
                        }
                    }
                    prop_assert_eq!(backlogs.fattest(), first);
                    prop_assert_eq!(backlogs.of(first), plain[first]);
                }
            }
        }
    }
}

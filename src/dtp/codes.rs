//! What a destination counts of the codes in front of the data.

use crate::mark::mb_ecn::code;

/// Frames of data by what they told of the way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Codes {
    /// Frames with each depth code.
    pub depths: [u64; 256],
    /// … and with each capacity code.
    pub capacities: [u64; 256],
}

impl Default for Codes {
    fn default() -> Self {
        Codes { depths: [0; 256], capacities: [0; 256] }
    }
}

impl Codes {
    /// A frame came with this depth and this capacity.
    pub fn came(&mut self, ecn: u8, cap: u8) {
        self.depths[usize::from(ecn)] += 1;
        self.capacities[usize::from(cap)] += 1;
    }

    /// Mean depth that the frames told of, packets.
    pub fn mean_depth(&self) -> f64 {
        let frames: u64 = self.depths.iter().sum();
        let packets: f64 = (0u8..=255).zip(&self.depths).map(|(c, n)| code::value(c.into()) * *n as f64).sum();
        packets / frames.max(1) as f64
    }

    /// The least and the largest of the codes that came, of those from `from` on.
    pub fn range(counts: &[u64; 256], from: u8) -> Option<(u8, u8)> {
        let seen = |i: &u8| counts[usize::from(*i)] > 0;
        Some(((from..=255).find(seen)?, (from..=255).rev().find(seen)?))
    }
}

//! The link inside `netem`: a rate with overhead and cells (`spec/netem.md` §8).

use crate::time::SECOND;
use crate::units::Rate;

/// A rate and what a packet is charged as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes per second, not zero.
    pub rate: Rate,
    /// Bytes added to each packet; may take away.
    pub overhead: i32,
    /// Payload of a cell, bytes; 0 for no cells.
    pub cell: u32,
    /// Bytes added to each cell; may take away.
    pub cell_overhead: i32,
}

impl Shape {
    /// Time on the link of a packet of `len` bytes, ns.
    pub fn nanos(&self, len: u32) -> u64 {
        let mut bytes = (i64::from(len) + i64::from(self.overhead)).max(0) as u128;
        if self.cell != 0 {
            let on_the_wire = (i64::from(self.cell) + i64::from(self.cell_overhead)).max(0) as u128;
            bytes = bytes.div_ceil(u128::from(self.cell)) * on_the_wire;
        }
        let nanos = bytes * u128::from(SECOND) / u128::from(self.rate.bytes_per_second());
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_the_time_that_its_length_overhead_and_cells_say() {
        for (len, rate, overhead, cell, cell_overhead, nanos) in [
            (1514, 125000, 0, 0, 0, 12112000),
            (1514, 125000000, 24, 0, 0, 12304),
            (1500, 1000003, 0, 0, 0, 1499995),
            (64, 7, 0, 0, 0, 9142857142),
            (10, 125000, -14, 0, 0, 0),
            (50, 125000, 0, 48, 5, 848000),
            (96, 125000, 0, 48, 5, 848000),
            (97, 125000, 0, 48, 5, 1272000),
            (1514, 125000, -14, 48, 5, 13568000),
            (1500, 625, 20, 100, 5, 2688000000),
        ] {
            let shape = Shape { rate: Rate::from_bytes_per_second(rate), overhead, cell, cell_overhead };
            assert_eq!(shape.nanos(len), nanos, "{len} bytes on {shape:?}");
        }
    }
}

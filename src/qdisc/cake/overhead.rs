//! What a packet costs on the link below (`spec/cake.md` §6).

use super::params::{Framing, Params};

/// How lengths are adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overhead {
    compensated: bool,
    overhead: i32,
    mpu: i32,
    framing: Framing,
}

/// The lengths on the way from a frame to its charge, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjusted {
    /// What the network layer has, if compensation is active; else the frame.
    pub network: u32,
    /// With overhead, not below zero nor the mpu.
    pub padded: u32,
    /// With framing: what is charged.
    pub charged: u32,
}

impl Overhead {
    pub(super) fn new(params: &Params) -> Self {
        Overhead {
            compensated: params.compensated,
            overhead: params.overhead.into(),
            mpu: params.mpu.into(),
            framing: params.framing,
        }
    }

    /// Adjusts the length of a frame whose network header starts at `offset`.
    #[inline]
    pub(super) fn adjust(&self, len: u32, offset: u16) -> Adjusted {
        let network = if self.compensated { len.saturating_sub(offset.into()) } else { len };
        // Signed, so that an overhead more negative than the packet is long gives nothing.
        let padded = (network as i32).saturating_add(self.overhead).max(self.mpu) as u32;
        let charged = match self.framing {
            Framing::None => padded,
            Framing::Atm => padded.div_ceil(48) * 53,
            Framing::Ptm => padded + padded.div_ceil(64),
        };
        Adjusted { network, padded, charged }
    }
}

impl Params {
    /// What a frame of `len` bytes, link header included, is counted as, if its network header starts
    /// at `offset`.
    pub fn cost(&self, len: u32, offset: u16) -> Adjusted {
        Overhead::new(self).adjust(len, offset)
    }
}

/// The smallest and the largest lengths seen, and where network headers start (`spec/cake.md` §6,
/// §20.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Largest length before adjustment, bytes.
    pub max_network: u16,
    /// Smallest, likewise; 65535 before traffic.
    pub min_network: u16,
    /// Largest length charged, bytes.
    pub max_adjusted: u16,
    /// Smallest, likewise; 65535 before traffic.
    pub min_adjusted: u16,
    offset_average: u64,
}

impl Default for Lengths {
    fn default() -> Self {
        Lengths { max_network: 0, min_network: u16::MAX, max_adjusted: 0, min_adjusted: u16::MAX, offset_average: 0 }
    }
}

impl Lengths {
    #[inline]
    pub(super) fn note(&mut self, offset: u16, adjusted: &Adjusted) {
        self.offset_average = super::ewma(self.offset_average, u64::from(offset) << 16, 8);
        let (network, charged) = (adjusted.network as u16, adjusted.charged as u16);
        self.max_network = self.max_network.max(network);
        self.min_network = self.min_network.min(network);
        self.max_adjusted = self.max_adjusted.max(charged);
        self.min_adjusted = self.min_adjusted.min(charged);
    }

    /// Forgets the extremes, not the average.
    pub(super) fn reset(&mut self) {
        *self = Lengths { offset_average: self.offset_average, ..Lengths::default() };
    }

    /// Nothing seen but network headers at this offset.
    pub fn with_average_offset(bytes: u64) -> Self {
        Lengths { offset_average: bytes << 16, ..Lengths::default() }
    }

    /// Where the network header starts on average, bytes.
    pub fn average_offset(&self) -> u64 {
        (self.offset_average + 0x8000) >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_costs_what_the_specification_lists() {
        let frames = [54, 60, 66, 590, 1514];
        for (words, charged) in [
            ("", [54, 60, 66, 590, 1514]),
            ("ethernet", [84, 84, 90, 614, 1538]),
            ("docsis", [64, 64, 70, 594, 1518]),
            ("conservative", [106, 106, 159, 689, 1749]),
            ("pppoa-vcmux", [106, 106, 106, 689, 1696]),
            ("pppoe-llcsnap", [106, 106, 106, 689, 1749]),
            ("pppoe-ptm", [72, 78, 84, 616, 1554]),
            ("bridged-ptm", [63, 70, 76, 608, 1546]),
            ("raw overhead -14", [40, 46, 52, 576, 1500]),
            ("overhead -64", [0, 0, 0, 512, 1436]),
            ("mpu 64", [64, 64, 66, 590, 1514]),
            ("atm", [106, 106, 106, 689, 1696]),
            ("ptm", [55, 61, 68, 600, 1538]),
        ] {
            let spec = crate::spec::parse(&format!("cake {words}")).unwrap().spec;
            let crate::spec::Stage::Cake(params) = &spec.stages()[0] else { panic!("{words}") };
            let overhead = Overhead::new(params);
            assert_eq!(frames.map(|len| overhead.adjust(len, 14).charged), charged, "{words}");
        }
    }
}

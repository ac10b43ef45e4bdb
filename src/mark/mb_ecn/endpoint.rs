//! What the ends do with the codes: the receiver's average, its report, the sender's cut
//! (`spec/mb-ecn.md` §2.4, §6.1 and §6.4). The shaper itself never uses it.

use super::code;

/// A receiver's average of the depth codes it sees, over about 16 packets, in units of 1/32 code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ewma(Option<u16>);

impl Ewma {
    /// One more packet; gives the average.
    pub fn push(&mut self, ecn: u8) -> u16 {
        let target = 32 * u16::from(ecn);
        let level = self.0.map_or(target, |level| {
            let step = level.abs_diff(target).div_ceil(16);
            if target > level { level + step } else { level - step }
        });
        self.0 = Some(level);
        level
    }

    /// The average; 0 before the first packet.
    pub fn level(&self) -> u16 {
        self.0.unwrap_or(0)
    }
}

/// The depth in packets that an average stands for.
pub fn depth(ece: u16) -> f64 {
    code::value(f64::from(ece) / 32.0)
}

/// The rate after a report: less by `ece`/16384 of it, at most by half.
pub fn cut(rate: u64, ece: u16) -> u64 {
    rate - rate * u64::from(ece.min(8192)) / 16_384
}

/// Length of a flow allocator's message, bytes.
pub const MESSAGE_LEN: usize = 78;

/// The report of a receiver: a flow allocator's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowUpdate {
    /// The flow's EID at the sender of the data.
    pub eid: u64,
    /// Average of the depth codes, in 1/32 code.
    pub ece: u16,
    /// Capacity code of the path.
    pub cap: u8,
}

impl FlowUpdate {
    const CODE: u8 = 2;

    /// The message; what is not said is zero.
    pub fn write(&self) -> [u8; MESSAGE_LEN] {
        let mut out = [0; MESSAGE_LEN];
        out[8..16].copy_from_slice(&self.eid.to_be_bytes());
        out[56..58].copy_from_slice(&self.ece.to_be_bytes());
        out[58] = self.cap;
        out[59] = FlowUpdate::CODE;
        out
    }

    /// What a message says, if it is one of these.
    pub fn read(message: &[u8]) -> Option<Self> {
        let m = message.first_chunk::<MESSAGE_LEN>()?;
        let eid = u64::from_be_bytes(*m[8..].first_chunk()?);
        (m[59] == FlowUpdate::CODE).then_some(FlowUpdate { eid, ece: u16::from_be_bytes([m[56], m[57]]), cap: m[58] })
    }
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one has it all.
pub fn jain(x: &[f64]) -> f64 {
    let sum: f64 = x.iter().sum();
    let squares: f64 = x.iter().map(|v| v * v).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (x.len() as f64 * squares) }
}

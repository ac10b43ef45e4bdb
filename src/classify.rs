//! From the bytes of a frame to what the queues need: DS byte, offsets, flow keys.
//!
//! Nothing is hashed here: cake hashes three times, codel never. Which tin a DSCP means is the
//! discipline's choice, since two stages may differ.

use crate::packet::{Network, Packet};

/// What identifies a flow, in the order of `spec/cake.md` §8.1. Unused parts are zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
pub struct FlowKeys {
    /// Source address; IPv4 in the first four bytes.
    pub src: [u8; 16],
    /// Destination address, likewise.
    pub dst: [u8; 16],
    /// Source and destination port; zero for fragments and for protocols without ports.
    pub ports: [u16; 2],
    /// IP protocol of the innermost header.
    pub protocol: u8,
    /// 4, 6, or 0 for anything else.
    pub version: u8,
    /// Ethertype of what follows the tags, for frames that are not IP.
    pub ethertype: u16,
    /// The VLAN tags: outer TCI identifier in the high half, inner in the low.
    pub vlan: u32,
    /// IPv6 flow label, if not zero, in place of ports (`spec/cake.md` §8.1); GRE key likewise.
    pub label: u32,
}

/// What one look at a frame's headers found.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The network layer, as far as the DS byte is concerned.
    pub network: Network,
    /// Where the network header starts, in bytes from the start of the frame.
    pub net_offset: u16,
    /// The DS byte, zero where there is none.
    pub ds: u8,
    /// Whether a header was cut off or contradicted itself; such frames are best effort.
    pub unparsed: bool,
    /// The flow.
    pub keys: FlowKeys,
}

impl Headers {
    /// Notes in a record what the headers say.
    pub fn apply(&self, packet: &mut Packet) {
        packet.network = self.network;
        packet.net_offset = self.net_offset;
        packet.ds = self.ds;
        packet.ds_arrived = self.ds;
    }
}

/// How flow keys become numbers.
#[derive(Debug, Clone)]
pub enum Hashing {
    /// SipHash-1-3 under a 128-bit key that an outsider does not know.
    Keyed([u64; 2]),
    /// Numbers in order of first appearance: the recorded traces are free of collisions, and so is
    /// this.
    Numbered(std::collections::HashMap<FlowKeys, u32>),
}

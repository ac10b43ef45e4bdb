//! Congestion Experienced (RFC 3168), and the way of a DS byte from the record into the frame.
//!
//! Disciplines change the record only; the frame is written once, when it leaves.

use crate::packet::{Network, Packet};
use crate::wire::ipv4::Ipv4;
use crate::wire::ipv6::Ipv6;

/// The ECN field: not capable.
pub const NOT_ECT: u8 = 0;
/// The ECN field: capable, L4S or SCE's mark.
pub const ECT_1: u8 = 1;
/// The ECN field: capable.
pub const ECT_0: u8 = 2;
/// The ECN field: congestion experienced.
pub const CE: u8 = 3;

/// Sets CE in the record (`spec/cake.md` §13.7). Gives whether the packet can carry the mark: false
/// for Not-ECT and for whatever has no DS byte, true for ECT(0), ECT(1) and for CE that was there
/// before.
pub fn set_ce(packet: &mut Packet) -> bool {
    let capable = packet.has_ds() && packet.ecn() != NOT_ECT;
    if capable {
        packet.ds |= CE;
    }
    capable
}

/// Clears the code point in the record and keeps the ECN field (`spec/cake.md` §7.2). Nothing
/// happens to what has no DS byte.
pub fn wash(packet: &mut Packet) {
    if packet.has_ds() {
        packet.ds &= CE;
    }
}

/// Writes the record's DS byte into its frame if it is another than came, and fixes the IPv4 header
/// checksum (RFC 1624). Gives whether the frame was changed; a frame whose bytes are not what the
/// record says is left alone.
pub fn write_ds(frame: &mut [u8], packet: &Packet) -> bool {
    if packet.ds == packet.ds_arrived {
        return false;
    }
    let Some(network) = frame.get_mut(packet.net_offset.into()..) else { return false };
    match packet.network {
        Network::V4 => Ipv4::new_checked(network).map(|mut ip| ip.set_ds(packet.ds)).is_ok(),
        Network::V6 => Ipv6::new_checked(network).map(|mut ip| ip.set_ds(packet.ds)).is_ok(),
        Network::Other | Network::Arp => false,
    }
}

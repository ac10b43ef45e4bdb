//! The ECN field (RFC 3168).

use crate::packet::Packet;

/// Sets CE, if the packet can carry it. A packet that is CE already counts as marked
/// (`spec/cake.md` §13.7).
pub fn set_ce(packet: &mut Packet) -> bool {
    if !packet.has_ds() || packet.ecn() == 0 {
        return false;
    }
    packet.ds |= 3;
    true
}

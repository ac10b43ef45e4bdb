//! Ethernet II, 802.1Q and 802.1ad tags, PPPoE sessions, MPLS stacks and ARP.

use super::{Malformed, array_at, u16_at, u32_at};

/// Ethertypes weir looks at (IANA "IEEE 802 Numbers").
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86DD;
    /// MPLS, unicast.
    pub const MPLS: u16 = 0x8847;
    /// MPLS, upstream-assigned (once "multicast").
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// PPPoE session.
    pub const PPPOE: u16 = 0x8864;
    /// 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88A8;
    /// Values below this are the length of an 802.3 frame.
    pub const FIRST: u16 = 0x0600;
}

/// The lengths of the headers in this file, in bytes.
pub mod header_len {
    /// Ethernet II without tags.
    pub const ETHERNET: usize = 14;
    /// One tag.
    pub const VLAN: usize = 4;
    /// PPPoE with the PPP protocol field behind it.
    pub const PPPOE: usize = 8;
    /// One MPLS label stack entry.
    pub const MPLS: usize = 4;
}

mod field {
    use std::ops::Range;
    pub(super) const DESTINATION: usize = 0;
    pub(super) const SOURCE: usize = 6;
    pub(super) const ETHERTYPE: usize = 12;

    pub(super) const TAG_CONTROL: usize = 0;
    pub(super) const TAG_ETHERTYPE: usize = 2;

    pub(super) const PPPOE_VERSION_TYPE: usize = 0;
    pub(super) const PPPOE_CODE: usize = 1;
    pub(super) const PPPOE_SESSION: usize = 2;
    pub(super) const PPPOE_LENGTH: usize = 4;
    pub(super) const PPP_PROTOCOL: usize = 6;

    pub(super) const ARP_HARDWARE: usize = 0;
    pub(super) const ARP_PROTOCOL: usize = 2;
    pub(super) const ARP_LENGTHS: Range<usize> = 4..6;
    pub(super) const ARP_OPERATION: usize = 6;
    pub(super) const ARP_ADDRESSES: usize = 8;
}

/// An Ethernet II (or 802.3) header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<T>(T);

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// Lays the lens on a frame from its first byte.
    ///
    /// # Errors
    /// If there are fewer than 14 bytes.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < header_len::ETHERNET { Err(Malformed) } else { Ok(Ethernet(bytes)) }
    }

    /// The destination's MAC address.
    pub fn destination(&self) -> [u8; 6] {
        array_at(self.0.as_ref(), field::DESTINATION)
    }

    /// The source's MAC address.
    pub fn source(&self) -> [u8; 6] {
        array_at(self.0.as_ref(), field::SOURCE)
    }

    /// The ethertype, or the length if below [`ethertype::FIRST`].
    pub fn ethertype(&self) -> u16 {
        u16_at(self.0.as_ref(), field::ETHERTYPE)
    }
}

/// A tag of 802.1Q or 802.1ad: what follows the ethertype 0x8100 or 0x88A8.
#[derive(Clone, Copy, Debug)]
pub struct Tag<T>(T);

impl<T: AsRef<[u8]>> Tag<T> {
    /// Whether a tag follows this ethertype.
    pub fn follows(ethertype: u16) -> bool {
        matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN)
    }

    /// Lays the lens on the bytes behind the tag's ethertype.
    ///
    /// # Errors
    /// If there are fewer than 4 bytes.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < header_len::VLAN { Err(Malformed) } else { Ok(Tag(bytes)) }
    }

    /// The VLAN identifier, 0…4095; 0 means that the tag carries a priority only.
    pub fn vlan(&self) -> u16 {
        u16_at(self.0.as_ref(), field::TAG_CONTROL) & 0x0FFF
    }

    /// The priority code point, 0…7.
    pub fn priority(&self) -> u8 {
        self.0.as_ref()[field::TAG_CONTROL] >> 5
    }

    /// The ethertype of what follows the tag.
    pub fn ethertype(&self) -> u16 {
        u16_at(self.0.as_ref(), field::TAG_ETHERTYPE)
    }
}

/// A PPPoE session header with the PPP protocol field behind it (RFC 2516 §4, RFC 1661 §2).
#[derive(Clone, Copy, Debug)]
pub struct Pppoe<T>(T);

impl<T: AsRef<[u8]>> Pppoe<T> {
    /// PPP protocol number of IPv4.
    pub const IPV4: u16 = 0x0021;
    /// PPP protocol number of IPv6.
    pub const IPV6: u16 = 0x0057;

    /// Lays the lens on the bytes behind ethertype 0x8864.
    ///
    /// # Errors
    /// If there are fewer than 8 bytes, version or type is not 1, the code is not that of session
    /// data, or the payload is too short for a PPP protocol field.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < header_len::PPPOE || b[field::PPPOE_VERSION_TYPE] != 0x11 || b[field::PPPOE_CODE] != 0 {
            return Err(Malformed);
        }
        if u16_at(b, field::PPPOE_LENGTH) < 2 {
            return Err(Malformed);
        }
        Ok(Pppoe(bytes))
    }

    /// The session identifier.
    pub fn session(&self) -> u16 {
        u16_at(self.0.as_ref(), field::PPPOE_SESSION)
    }

    /// The length of the PPP packet, its protocol field included, in bytes.
    pub fn len(&self) -> u16 {
        u16_at(self.0.as_ref(), field::PPPOE_LENGTH)
    }

    /// Whether the PPP packet holds nothing but its protocol field.
    pub fn is_empty(&self) -> bool {
        self.len() <= 2
    }

    /// The PPP protocol.
    pub fn protocol(&self) -> u16 {
        u16_at(self.0.as_ref(), field::PPP_PROTOCOL)
    }
}

/// One entry of an MPLS label stack (RFC 3032 §2.1).
#[derive(Clone, Copy, Debug)]
pub struct Mpls<T>(T);

impl<T: AsRef<[u8]>> Mpls<T> {
    /// Whether a label stack follows this ethertype.
    pub fn follows(ethertype: u16) -> bool {
        matches!(ethertype, ethertype::MPLS | ethertype::MPLS_MULTICAST)
    }

    /// Lays the lens on an entry.
    ///
    /// # Errors
    /// If there are fewer than 4 bytes.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < header_len::MPLS { Err(Malformed) } else { Ok(Mpls(bytes)) }
    }

    /// The label, 20 bits.
    pub fn label(&self) -> u32 {
        u32_at(self.0.as_ref(), 0) >> 12
    }

    /// The traffic class, 0…7.
    pub fn traffic_class(&self) -> u8 {
        self.0.as_ref()[2] >> 1 & 7
    }

    /// Whether this is the last entry.
    pub fn is_bottom(&self) -> bool {
        self.0.as_ref()[2] & 1 == 1
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.0.as_ref()[3]
    }
}

/// An ARP packet of any hardware and protocol (RFC 826).
#[derive(Clone, Copy, Debug)]
pub struct Arp<T>(T);

impl<T: AsRef<[u8]>> Arp<T> {
    /// Lays the lens on the bytes behind ethertype 0x0806.
    ///
    /// # Errors
    /// If the packet ends before its four addresses do.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        let lengths = b.get(field::ARP_LENGTHS).ok_or(Malformed)?;
        let end = field::ARP_ADDRESSES + 2 * (usize::from(lengths[0]) + usize::from(lengths[1]));
        if b.len() < end { Err(Malformed) } else { Ok(Arp(bytes)) }
    }

    /// Hardware type; 1 is Ethernet.
    pub fn hardware(&self) -> u16 {
        u16_at(self.0.as_ref(), field::ARP_HARDWARE)
    }

    /// Protocol type, an ethertype.
    pub fn protocol(&self) -> u16 {
        u16_at(self.0.as_ref(), field::ARP_PROTOCOL)
    }

    /// Operation; 1 asks, 2 answers.
    pub fn operation(&self) -> u16 {
        u16_at(self.0.as_ref(), field::ARP_OPERATION)
    }

    /// The sender's protocol address.
    pub fn sender(&self) -> &[u8] {
        let b = self.0.as_ref();
        let (hardware, protocol) = self.lengths();
        &b[field::ARP_ADDRESSES + hardware..][..protocol]
    }

    /// The target's protocol address.
    pub fn target(&self) -> &[u8] {
        let b = self.0.as_ref();
        let (hardware, protocol) = self.lengths();
        &b[field::ARP_ADDRESSES + 2 * hardware + protocol..][..protocol]
    }

    fn lengths(&self) -> (usize, usize) {
        let b = &self.0.as_ref()[field::ARP_LENGTHS];
        (b[0].into(), b[1].into())
    }
}

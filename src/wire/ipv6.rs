//! IPv6 (RFC 8200) and its extension headers.

use super::{Malformed, array_at, protocol, u16_at, u32_at};

/// The fixed header, in bytes.
pub const HEADER_LEN: usize = 40;

mod field {
    pub(super) const VERSION_CLASS_LABEL: usize = 0;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
}

/// An IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<T>(T);

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// Lays the lens on a packet from its first byte.
    ///
    /// # Errors
    /// If there are fewer than 40 bytes or the version is not 6.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN || b[field::VERSION_CLASS_LABEL] >> 4 != 6 { Err(Malformed) } else { Ok(Ipv6(bytes)) }
    }

    /// The traffic class, which is the DS byte: DSCP in the upper six bits, ECN in the lower two.
    #[inline]
    pub fn ds(&self) -> u8 {
        (u16_at(self.0.as_ref(), field::VERSION_CLASS_LABEL) >> 4) as u8
    }

    /// The flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32_at(self.0.as_ref(), field::VERSION_CLASS_LABEL) & 0x000F_FFFF
    }

    /// The length of what follows the fixed header, in bytes.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        u16_at(self.0.as_ref(), field::PAYLOAD_LENGTH)
    }

    /// What follows the fixed header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.0.as_ref()[field::NEXT_HEADER]
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.0.as_ref()[field::HOP_LIMIT]
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> [u8; 16] {
        array_at(self.0.as_ref(), field::SOURCE)
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> [u8; 16] {
        array_at(self.0.as_ref(), field::DESTINATION)
    }

    /// As much of the payload as the slice has, padding excluded. A payload length of zero stands
    /// for all there is (RFC 2675 §3).
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let b = self.0.as_ref();
        let end = match self.payload_len() {
            0 if self.next_header() == protocol::HOP_BY_HOP => b.len(),
            n => b.len().min(HEADER_LEN + usize::from(n)),
        };
        &b[HEADER_LEN..end]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6<T> {
    /// Replaces the traffic class, which lies across the first two bytes.
    pub fn set_ds(&mut self, ds: u8) {
        let b = self.0.as_mut();
        b[0] = b[0] & 0xF0 | ds >> 4;
        b[1] = ds << 4 | b[1] & 0x0F;
    }
}

/// Where the extension headers end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upper<'a> {
    /// The protocol there, or the extension header that was cut off.
    pub protocol: u8,
    /// As much of it as the slice has.
    pub bytes: &'a [u8],
    /// Whether a fragment header was passed: `bytes` is then no header, even in a first fragment.
    pub fragment: bool,
}

/// The longest chain of extension headers that is followed. RFC 8200 §4.1 knows seven kinds, each
/// once, the destination options twice.
const MAX_EXTENSIONS: usize = 8;

/// Walks over hop-by-hop, routing, destination options and authentication headers, up to the first
/// fragment header or anything else. A header that is cut off, or one too many, ends the walk with
/// its own number and no bytes.
pub fn skip_extensions(first: u8, payload: &[u8]) -> Upper<'_> {
    let (mut next, mut rest) = (first, payload);
    for _ in 0..MAX_EXTENSIONS {
        let len = match (next, rest) {
            (protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION, [_, n, ..]) => (usize::from(*n) + 1) * 8,
            (protocol::AH, [_, n, ..]) => (usize::from(*n) + 2) * 4,
            (protocol::FRAGMENT, [inner, _, _, _, _, _, _, _, rest @ ..]) => {
                return Upper { protocol: *inner, bytes: rest, fragment: true };
            }
            _ => break,
        };
        let Some(behind) = rest.get(len..) else { break };
        (next, rest) = (rest[0], behind);
    }
    let extension = [protocol::HOP_BY_HOP, protocol::ROUTING, protocol::DESTINATION, protocol::AH, protocol::FRAGMENT]
        .contains(&next);
    Upper { protocol: next, bytes: if extension { &[] } else { rest }, fragment: false }
}

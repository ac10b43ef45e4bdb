//! IPv4 (RFC 791), DS byte (RFC 2474, RFC 3168), header checksum.

use super::{Malformed, array_at, checksum, u16_at};

/// The shortest IPv4 header, in bytes.
pub const MIN_HEADER_LEN: usize = 20;

mod field {
    pub(super) const VERSION_LENGTH: usize = 0;
    pub(super) const DS: usize = 1;
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
    pub(super) const SOURCE: usize = 12;
    pub(super) const DESTINATION: usize = 16;
}

/// An IPv4 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<T>(T);

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// Lays the lens on a packet from its first byte.
    ///
    /// # Errors
    /// If the version is not 4, the header is shorter than 20 bytes or ends outside the slice, or
    /// the total length is less than the header's.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < MIN_HEADER_LEN || b[field::VERSION_LENGTH] >> 4 != 4 {
            return Err(Malformed);
        }
        let lens = Ipv4(bytes);
        let header = lens.header_len();
        if header < MIN_HEADER_LEN || lens.0.as_ref().len() < header || usize::from(lens.total_len()) < header {
            return Err(Malformed);
        }
        Ok(lens)
    }

    /// The header's length with options, 20…60 bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[field::VERSION_LENGTH] & 15) * 4
    }

    /// The DS byte: DSCP in the upper six bits, ECN in the lower two.
    #[inline]
    pub fn ds(&self) -> u8 {
        self.0.as_ref()[field::DS]
    }

    /// The length of the packet, header included, in bytes.
    #[inline]
    pub fn total_len(&self) -> u16 {
        u16_at(self.0.as_ref(), field::TOTAL_LENGTH)
    }

    /// Whether this is a fragment, the first one included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        u16_at(self.0.as_ref(), field::FRAGMENT) & 0x3FFF != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.0.as_ref()[field::TTL]
    }

    /// The protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.0.as_ref()[field::PROTOCOL]
    }

    /// The header checksum as it stands there.
    pub fn checksum(&self) -> u16 {
        u16_at(self.0.as_ref(), field::CHECKSUM)
    }

    /// Whether the header checksum is right.
    pub fn checksum_is_right(&self) -> bool {
        checksum::of(&self.0.as_ref()[..self.header_len()]) == 0
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> [u8; 4] {
        array_at(self.0.as_ref(), field::SOURCE)
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> [u8; 4] {
        array_at(self.0.as_ref(), field::DESTINATION)
    }

    /// As much of the payload as the slice has, padding excluded.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let b = self.0.as_ref();
        &b[self.header_len()..b.len().min(self.total_len().into())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Replaces the DS byte and adjusts the header checksum (RFC 1624).
    pub fn set_ds(&mut self, ds: u8) {
        let sum = self.checksum();
        let b = self.0.as_mut();
        let old = u16_at(b, field::VERSION_LENGTH);
        b[field::DS] = ds;
        let new = u16_at(b, field::VERSION_LENGTH);
        b[field::CHECKSUM..field::CHECKSUM + 2].copy_from_slice(&checksum::update(sum, old, new).to_be_bytes());
    }
}

//! GRE (RFC 2784, RFC 2890). IPIP and 6in4 need no lens: the inner header follows at once.

use super::{Malformed, u16_at, u32_at};

mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const PROTOCOL: usize = 2;
    pub(super) const OPTIONAL: usize = 4;
}

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

/// A GRE header of version 0 without source routing.
#[derive(Clone, Copy, Debug)]
pub struct Gre<T>(T);

impl<T: AsRef<[u8]>> Gre<T> {
    /// Lays the lens on the payload of IP protocol 47.
    ///
    /// # Errors
    /// If the header ends outside the slice, the version is not 0, or it has a routing field.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < field::OPTIONAL {
            return Err(Malformed);
        }
        let lens = Gre(bytes);
        if lens.flags() & (VERSION | ROUTING) != 0 || lens.0.as_ref().len() < lens.header_len() {
            return Err(Malformed);
        }
        Ok(lens)
    }

    fn flags(&self) -> u16 {
        u16_at(self.0.as_ref(), field::FLAGS)
    }

    fn len_of(&self, flag: u16) -> usize {
        if self.flags() & flag == 0 { 0 } else { 4 }
    }

    /// The header's length, 4…16 bytes.
    pub fn header_len(&self) -> usize {
        field::OPTIONAL + self.len_of(CHECKSUM) + self.len_of(KEY) + self.len_of(SEQUENCE)
    }

    /// The ethertype of the payload.
    pub fn protocol(&self) -> u16 {
        u16_at(self.0.as_ref(), field::PROTOCOL)
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<u32> {
        let at = field::OPTIONAL + self.len_of(CHECKSUM);
        (self.flags() & KEY != 0).then(|| u32_at(self.0.as_ref(), at))
    }
}

//! TCP options (RFC 9293 §3.1), walked without ever leaving the header.

use super::u32_at;

/// Option kinds (IANA "TCP Option Kind Numbers") that the ACK filter looks at.
pub mod kind {
    /// End of the list.
    pub const END: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Selective acknowledgement (RFC 2018).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMP: u8 = 8;
    /// MD5 signature (RFC 2385).
    pub const MD5: u8 = 19;
}

/// One option that has a length byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpOption<'a> {
    /// What it is.
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

impl<'a> TcpOption<'a> {
    /// The option's length as it says itself, kind and length bytes included: 2…40.
    pub fn len(&self) -> usize {
        self.data.len() + 2
    }

    /// Whether there is nothing behind kind and length.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Value and echo reply of a timestamp option of the right length.
    pub fn timestamp(&self) -> Option<Timestamp> {
        (self.kind == kind::TIMESTAMP && self.data.len() == 8)
            .then(|| Timestamp { value: u32_at(self.data, 0), echo: u32_at(self.data, 4) })
    }

    /// The whole blocks of a SACK option; none for any other.
    pub fn sack_blocks(&self) -> impl Iterator<Item = SackBlock> + Clone + use<'a> {
        let data = if self.kind == kind::SACK { self.data } else { &[] };
        data.chunks_exact(8).map(|b| SackBlock { start: u32_at(b, 0), end: u32_at(b, 4) })
    }
}

/// The two fields of a timestamp option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamp {
    /// TSval.
    pub value: u32,
    /// TSecr.
    pub echo: u32,
}

/// One SACK block: the bytes from `start` up to, not including, `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SackBlock {
    /// Left edge.
    pub start: u32,
    /// Right edge.
    pub end: u32,
}

/// The options of a header in their order, without no-operations. It ends at the end-of-list option,
/// at the end of the bytes, or at an option whose length cannot be; every step takes at least one
/// byte.
#[derive(Clone, Copy, Debug)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
    malformed: bool,
}

impl<'a> TcpOptions<'a> {
    /// Options from the bytes behind the fixed TCP header.
    pub fn new(bytes: &'a [u8]) -> Self {
        TcpOptions { rest: bytes, malformed: false }
    }

    /// Whether the walk so far ended at an option whose length cannot be.
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// The first timestamp option, if it has the right length.
    pub fn timestamp(mut self) -> Option<Timestamp> {
        self.find(|o| o.kind == kind::TIMESTAMP)?.timestamp()
    }

    /// The first SACK option.
    pub fn sack(mut self) -> Option<TcpOption<'a>> {
        self.find(|o| o.kind == kind::SACK)
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        loop {
            match *std::mem::take(&mut self.rest) {
                [] | [kind::END, ..] => return None,
                [kind::NOP, ref rest @ ..] => self.rest = rest,
                [kind, len, ref rest @ ..] if len >= 2 && rest.len() >= usize::from(len) - 2 => {
                    let (data, rest) = rest.split_at(usize::from(len) - 2);
                    self.rest = rest;
                    return Some(TcpOption { kind, data });
                }
                _ => {
                    self.malformed = true;
                    return None;
                }
            }
        }
    }
}

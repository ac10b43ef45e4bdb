//! TCP and UDP headers, and the TCP segment inside an IP packet.

use super::ipv4::Ipv4;
use super::ipv6::{self, Ipv6};
use super::tcp_options::TcpOptions;
use super::{Malformed, protocol, u16_at, u32_at};

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;

    pub(super) const SEQUENCE: usize = 4;
    pub(super) const ACKNOWLEDGEMENT: usize = 8;
    pub(super) const OFFSET_FLAGS: usize = 12;
    pub(super) const WINDOW: usize = 14;
    pub(super) const TCP_FIXED: usize = 20;

    pub(super) const UDP_LENGTH: usize = 4;
    pub(super) const UDP_FIXED: usize = 8;
}

/// TCP flag bits as [`Tcp::flags`] gives them.
pub mod flag {
    /// No more data.
    pub const FIN: u16 = 0x001;
    /// Synchronise.
    pub const SYN: u16 = 0x002;
    /// Reset.
    pub const RST: u16 = 0x004;
    /// Push.
    pub const PSH: u16 = 0x008;
    /// The acknowledgement number counts.
    pub const ACK: u16 = 0x010;
    /// The urgent pointer counts.
    pub const URG: u16 = 0x020;
    /// ECN echo (RFC 3168).
    pub const ECE: u16 = 0x040;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u16 = 0x080;
    /// Accurate ECN (RFC 9768); once the nonce sum.
    pub const AE: u16 = 0x100;
}

/// The first four bytes of TCP, UDP, UDP-Lite, DCCP and SCTP: source and destination port. `None` for other
/// protocols and if the bytes are not there.
#[inline]
pub fn ports(protocol: u8, bytes: &[u8]) -> Option<[u16; 2]> {
    use protocol::*;
    match (protocol, bytes) {
        (TCP | UDP | UDP_LITE | DCCP | SCTP, [a, b, c, d, ..]) => {
            Some([u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])])
        }
        _ => None,
    }
}

/// A UDP header.
#[derive(Clone, Copy, Debug)]
pub struct Udp<T>(T);

impl<T: AsRef<[u8]>> Udp<T> {
    /// Lays the lens on the payload of IP protocol 17.
    ///
    /// # Errors
    /// If there are fewer than 8 bytes, or the length field says so.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < field::UDP_FIXED || usize::from(u16_at(b, field::UDP_LENGTH)) < field::UDP_FIXED {
            return Err(Malformed);
        }
        Ok(Udp(bytes))
    }

    /// Source port.
    pub fn source_port(&self) -> u16 {
        u16_at(self.0.as_ref(), field::SOURCE_PORT)
    }

    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.0.as_ref(), field::DESTINATION_PORT)
    }

    /// Length of header and data, in bytes.
    pub fn datagram_len(&self) -> u16 {
        u16_at(self.0.as_ref(), field::UDP_LENGTH)
    }
}

/// A TCP header with its options.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<T>(T);

impl<T: AsRef<[u8]>> Tcp<T> {
    /// Lays the lens on the payload of IP protocol 6.
    ///
    /// # Errors
    /// If the data offset is below 5, or the header with its options ends outside the slice.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < field::TCP_FIXED {
            return Err(Malformed);
        }
        let lens = Tcp(bytes);
        let header = lens.header_len();
        if header < field::TCP_FIXED || lens.0.as_ref().len() < header { Err(Malformed) } else { Ok(lens) }
    }

    /// Source port.
    pub fn source_port(&self) -> u16 {
        u16_at(self.0.as_ref(), field::SOURCE_PORT)
    }

    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.0.as_ref(), field::DESTINATION_PORT)
    }

    /// Sequence number.
    pub fn seq(&self) -> u32 {
        u32_at(self.0.as_ref(), field::SEQUENCE)
    }

    /// Acknowledgement number.
    pub fn ack(&self) -> u32 {
        u32_at(self.0.as_ref(), field::ACKNOWLEDGEMENT)
    }

    /// The header's length with options, 20…60 bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[field::OFFSET_FLAGS] >> 4) * 4
    }

    /// All twelve flag bits, the reserved ones included; see [`flag`].
    pub fn flags(&self) -> u16 {
        u16_at(self.0.as_ref(), field::OFFSET_FLAGS) & 0x0FFF
    }

    /// The window as it stands there, unscaled.
    pub fn window(&self) -> u16 {
        u16_at(self.0.as_ref(), field::WINDOW)
    }

    /// The options.
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions::new(self.option_bytes())
    }

    /// The bytes of the options.
    pub fn option_bytes(&self) -> &[u8] {
        &self.0.as_ref()[field::TCP_FIXED..self.header_len()]
    }
}

/// A TCP segment where the ACK filter looks for one (`spec/cake.md` §15): in IPv4, in IPv6 without
/// extension headers, or in such an IPv6 packet inside IPv4 (6in4). Fragments are not told apart.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// 4 or 6, of the header that carries the segment.
    pub version: u8,
    /// The addresses of that header; IPv4 in the first four bytes.
    pub addresses: [[u8; 16]; 2],
    /// The TCP header.
    pub tcp: Tcp<&'a [u8]>,
    /// The data's length in bytes, from the IP header's length; zero if that is too small.
    pub payload_len: u32,
}

impl<'a> Segment<'a> {
    /// Finds the segment in a packet from the first byte of its IP header.
    pub fn find(network: &'a [u8]) -> Option<Self> {
        match network.first()? >> 4 {
            4 => {
                let ip = Ipv4::new_checked(network).ok()?;
                let upper = &network[ip.header_len()..network.len().min(ip.total_len().into())];
                match ip.protocol() {
                    protocol::TCP => {
                        let [mut source, mut destination] = [[0; 16]; 2];
                        source[..4].copy_from_slice(&ip.source());
                        destination[..4].copy_from_slice(&ip.destination());
                        let len = usize::from(ip.total_len()) - ip.header_len();
                        Self::of(4, [source, destination], upper, len)
                    }
                    protocol::IPV6 => Self::in_ipv6(upper),
                    _ => None,
                }
            }
            6 => Self::in_ipv6(network),
            _ => None,
        }
    }

    fn in_ipv6(network: &'a [u8]) -> Option<Self> {
        let ip = Ipv6::new_checked(network).ok()?;
        let end = network.len().min(ipv6::HEADER_LEN + usize::from(ip.payload_len()));
        let upper = &network[ipv6::HEADER_LEN..end];
        (ip.next_header() == protocol::TCP)
            .then(|| Self::of(6, [ip.source(), ip.destination()], upper, ip.payload_len().into()))?
    }

    fn of(version: u8, addresses: [[u8; 16]; 2], upper: &'a [u8], len: usize) -> Option<Self> {
        let tcp = Tcp::new_checked(upper).ok()?;
        let payload_len = len.saturating_sub(tcp.header_len()) as u32;
        Some(Segment { version, addresses, tcp, payload_len })
    }

    /// Whether both go from the same address and port to the same address and port.
    pub fn same_connection(&self, other: &Segment<'_>) -> bool {
        self.version == other.version
            && self.addresses == other.addresses
            && self.tcp.source_port() == other.tcp.source_port()
            && self.tcp.destination_port() == other.tcp.destination_port()
    }
}

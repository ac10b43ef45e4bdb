//! Frames from fields: the headers of traces, of tests and of probes.

use std::net::{IpAddr, Ipv6Addr};

use super::ethernet::{ethertype, header_len};
use super::transport::flag;
use super::{checksum, ipv4, ipv6, protocol};

/// What a frame shall say. The link header is plain Ethernet, the IP header has neither options nor
/// extension headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The frame's length in bytes, link header included, FCS excluded. The headers may be longer,
    /// if the length is too small for them.
    pub len: u32,
    /// Source address.
    pub src: IpAddr,
    /// Destination address. If one of the two is IPv6, the other is mapped into it.
    pub dst: IpAddr,
    /// IP protocol. TCP and UDP get a header, ICMP and ICMPv6 that of an echo request; others none.
    pub protocol: u8,
    /// Source port; identifier of an echo request.
    pub sport: u16,
    /// Destination port; sequence number of an echo request.
    pub dport: u16,
    /// DS byte.
    pub ds: u8,
    /// The rest of a TCP header; a bare ACK if absent.
    pub tcp: Option<TcpFields>,
}

/// What a TCP header says beside its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpFields {
    /// The low eight flag bits.
    pub flags: u8,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Option bytes: at most 40 are written, padded with zeros to a multiple of four.
    pub options: Vec<u8>,
}

impl Default for TcpFields {
    fn default() -> Self {
        TcpFields { flags: flag::ACK as u8, seq: 0, ack: 0, options: Vec::new() }
    }
}

/// The MAC addresses of frames made here: locally administered, destination and source.
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];

const TTL: u8 = 64;

impl Build {
    /// Appends the headers, and no payload. The IPv4 header checksum is right; those of the
    /// transport are zero, since they cover a payload that nobody has.
    pub fn write(&self, out: &mut Vec<u8>) {
        let transport = self.transport();
        let below = self.len.saturating_sub(header_len::ETHERNET as u32) as usize;
        out.extend(MACS.as_flattened());
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                out.extend(ethertype::IPV4.to_be_bytes());
                let start = out.len();
                let total = below.max(ipv4::MIN_HEADER_LEN + transport.len()).min(usize::from(u16::MAX));
                out.extend([0x45, self.ds]);
                out.extend((total as u16).to_be_bytes());
                out.extend([0, 0, 0x40, 0, TTL, self.protocol, 0, 0]);
                out.extend(src.octets());
                out.extend(dst.octets());
                let sum = checksum::of(&out[start..]);
                out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
            }
            (src, dst) => {
                out.extend(ethertype::IPV6.to_be_bytes());
                let payload = below.saturating_sub(ipv6::HEADER_LEN).max(transport.len()).min(usize::from(u16::MAX));
                out.extend((6u32 << 28 | u32::from(self.ds) << 20).to_be_bytes());
                out.extend((payload as u16).to_be_bytes());
                out.extend([self.protocol, TTL]);
                out.extend(mapped(src).octets());
                out.extend(mapped(dst).octets());
            }
        }
        let at = out.len();
        out.extend(transport);
        if self.protocol == protocol::UDP {
            let ip_len = match self.src.is_ipv4() && self.dst.is_ipv4() {
                true => ipv4::MIN_HEADER_LEN,
                false => ipv6::HEADER_LEN,
            };
            let len = below.saturating_sub(ip_len).clamp(8, usize::from(u16::MAX)) as u16;
            out[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
        }
    }

    /// The headers alone.
    pub fn headers(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(header_len::ETHERNET + ipv6::HEADER_LEN + 60);
        self.write(&mut out);
        out
    }

    /// The whole frame: the headers, then zeros up to the length.
    pub fn frame(&self) -> Vec<u8> {
        let mut out = self.headers();
        out.resize(out.len().max(self.len as usize), 0);
        out
    }

    fn transport(&self) -> Vec<u8> {
        let mut out = match self.protocol {
            protocol::TCP | protocol::UDP => Vec::new(),
            protocol::ICMP => vec![8, 0, 0, 0],
            protocol::ICMPV6 => vec![128, 0, 0, 0],
            _ => return Vec::new(),
        };
        out.extend(self.sport.to_be_bytes());
        out.extend(self.dport.to_be_bytes());
        match self.protocol {
            protocol::TCP => {
                let default = TcpFields::default();
                let tcp = self.tcp.as_ref().unwrap_or(&default);
                let options = &tcp.options[..tcp.options.len().min(40)];
                let words = 5 + options.len().div_ceil(4);
                out.extend(tcp.seq.to_be_bytes());
                out.extend(tcp.ack.to_be_bytes());
                out.extend([(words << 4) as u8, tcp.flags, 0xFF, 0xFF, 0, 0, 0, 0]);
                out.extend(options);
                out.resize(words * 4, 0);
            }
            protocol::UDP => out.extend([0; 4]),
            _ => {}
        }
        out
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    }
}

//! From the bytes of a frame to what the queues need: DS byte, offsets, flow keys.
//!
//! Nothing is hashed here: cake hashes three times, codel never. Which tin a DSCP means is the
//! discipline's choice, since two stages may differ.
//!
//! Two questions are answered by two different headers. The *DS byte* is that of the outer IP
//! header, and only if nothing but VLAN tags stands before it (`spec/cake.md` §7.2, §13.7): behind
//! PPPoE and MPLS there is none for us, as in the kernel. The *flow* is that of the innermost
//! headers we can reach, through PPPoE, MPLS, IPIP, 6in4 and GRE (`spec/cake.md` §8.1).

mod hashing;

pub use hashing::{Hashing, Numbering};

use crate::packet::{Network, Packet};
use crate::wire::ethernet::{Ethernet, Mpls, Pppoe, Tag, ethertype, header_len};
use crate::wire::ipv4::Ipv4;
use crate::wire::ipv6::{Ipv6, Upper, skip_extensions};
use crate::wire::tunnel::Gre;
use crate::wire::{Malformed, ipv6, protocol, transport};

/// What identifies a flow, in the order of `spec/cake.md` §8.1. Unused parts are zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
pub struct FlowKeys {
    /// Source address; IPv4 in the first four bytes.
    pub src: [u8; 16],
    /// Destination address, likewise.
    pub dst: [u8; 16],
    /// Source and destination port; zero for fragments and for protocols without ports.
    pub ports: [u16; 2],
    /// IP protocol behind the innermost IP header and its extension headers.
    pub protocol: u8,
    /// 4, 6, or 0 for anything else.
    pub version: u8,
    /// Ethertype of what follows the tags, for frames that are not IP; zero for 802.3 frames.
    pub ethertype: u16,
    /// The identifiers of the VLAN tags, 24 bits: twelve each, the innermost lowest. Tags beyond the
    /// second are folded in.
    pub vlan: u32,
    /// IPv6 flow label, if not zero, in place of ports (`spec/cake.md` §8.1); the GRE key likewise,
    /// folded together if there are both; the last MPLS label if what follows it is not IP.
    pub label: u32,
}

/// What one look at a frame's headers found.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The network layer, as far as the DS byte is concerned.
    pub network: Network,
    /// Where the network header starts, in bytes from the start of the frame: the IP header, also
    /// behind tags, PPPoE and MPLS, so that an `overhead` counts from IP on each of them; what
    /// follows the tags if there is no IP. Never behind the end of the frame.
    pub net_offset: u16,
    /// Length of the network packet as its own header has it, IP header included, in bytes; zero if
    /// it is not IP. What a frame has beyond that is padding.
    pub net_len: u32,
    /// The DS byte, zero where there is none.
    pub ds: u8,
    /// Whether nothing is known because the link or the outer network header was cut off or
    /// contradicted itself; such frames are best effort. Damage further in only ends the search for
    /// the flow.
    pub unparsed: bool,
    /// The flow.
    pub keys: FlowKeys,
}

/// How a frame is looked at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ParseOptions {
    /// Leaves the VLAN tags out of the flow key: the same address on two VLANs is one host.
    pub ignore_vlan: bool,
}

/// How many IP headers inside each other are followed.
const MAX_DEPTH: usize = 8;

/// How many VLAN tags, or MPLS labels, are followed.
const MAX_STACK: usize = 8;

impl Headers {
    /// Looks at a frame from its first byte. The frame may be cut behind the headers.
    #[inline]
    pub fn parse(frame: &[u8]) -> Headers {
        Headers::parse_with(frame, ParseOptions::default())
    }

    /// The same with other options than the default.
    #[inline]
    pub fn parse_with(frame: &[u8], options: ParseOptions) -> Headers {
        plain_ipv4(frame).or_else(|| plain_ipv6(frame)).unwrap_or_else(|| general(frame, options))
    }

    /// Notes in a record what the headers say.
    pub fn apply(&self, packet: &mut Packet) {
        packet.network = self.network;
        packet.net_offset = self.net_offset;
        packet.ds = self.ds;
        packet.ds_arrived = self.ds;
    }

    fn unparsed(net_offset: usize, vlan: u32) -> Headers {
        let keys = FlowKeys { vlan, ..FlowKeys::default() };
        Headers { net_offset: net_offset as u16, unparsed: true, keys, ..Headers::default() }
    }
}

/// The common case in one go: no tags, no IPv4 options, no fragment, TCP or UDP. It must agree with
/// [`general`] wherever it answers; a property test holds both to that.
#[inline]
fn plain_ipv4(frame: &[u8]) -> Option<Headers> {
    const IP: usize = header_len::ETHERNET;
    let b = frame.first_chunk::<{ IP + 24 }>()?;
    let word = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    let total_len = word(IP + 2);
    let plain = word(IP - 2) == ethertype::IPV4
        && b[IP] == 0x45
        && word(IP + 6) & 0x3FFF == 0
        && matches!(b[IP + 9], protocol::TCP | protocol::UDP)
        && total_len >= 24;
    if !plain {
        return None;
    }
    let mut keys = FlowKeys { protocol: b[IP + 9], version: 4, ..FlowKeys::default() };
    keys.src[..4].copy_from_slice(&b[IP + 12..IP + 16]);
    keys.dst[..4].copy_from_slice(&b[IP + 16..IP + 20]);
    keys.ports = [word(IP + 20), word(IP + 22)];
    Some(Headers {
        network: Network::V4,
        net_offset: IP as u16,
        net_len: total_len.into(),
        ds: b[IP + 1],
        unparsed: false,
        keys,
    })
}

/// The same for IPv6 without extension headers, labelled or not.
#[inline]
fn plain_ipv6(frame: &[u8]) -> Option<Headers> {
    const IP: usize = header_len::ETHERNET;
    let b = frame.first_chunk::<{ IP + ipv6::HEADER_LEN + 4 }>()?;
    let word = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    let payload_len = word(IP + 4);
    let plain = word(IP - 2) == ethertype::IPV6
        && b[IP] >> 4 == 6
        && matches!(b[IP + 6], protocol::TCP | protocol::UDP)
        && payload_len >= 4;
    if !plain {
        return None;
    }
    let label = u32::from(b[IP + 1] & 15) << 16 | u32::from(word(IP + 2));
    let mut keys = FlowKeys { protocol: b[IP + 6], version: 6, label, ..FlowKeys::default() };
    keys.src.copy_from_slice(&b[IP + 8..IP + 24]);
    keys.dst.copy_from_slice(&b[IP + 24..IP + 40]);
    if label == 0 {
        keys.ports = [word(IP + 40), word(IP + 42)];
    }
    Some(Headers {
        network: Network::V6,
        net_offset: IP as u16,
        net_len: ipv6::HEADER_LEN as u32 + u32::from(payload_len),
        ds: (word(IP) >> 4) as u8,
        unparsed: false,
        keys,
    })
}

/// Any frame.
#[inline(never)]
fn general(frame: &[u8], options: ParseOptions) -> Headers {
    let Ok(ethernet) = Ethernet::new_checked(frame) else { return Headers::unparsed(frame.len(), 0) };
    let (mut at, mut kind, mut vlan) = (header_len::ETHERNET, ethernet.ethertype(), 0u32);
    for _ in 0..MAX_STACK {
        if !Tag::<&[u8]>::follows(kind) {
            break;
        }
        let Ok(tag) = Tag::new_checked(&frame[at..]) else { return Headers::unparsed(at, vlan) };
        if !options.ignore_vlan {
            vlan = (vlan << 12 | vlan >> 12) & 0xFF_FFFF ^ u32::from(tag.vlan());
        }
        (at, kind) = (at + header_len::VLAN, tag.ethertype());
    }

    let other = Headers {
        net_offset: at as u16,
        keys: FlowKeys { vlan, ethertype: if kind < ethertype::FIRST { 0 } else { kind }, ..FlowKeys::default() },
        ..Headers::default()
    };
    match kind {
        ethertype::IPV4 => outer_ip(frame, at, 4, vlan).unwrap_or(Headers::unparsed(at, vlan)),
        ethertype::IPV6 => outer_ip(frame, at, 6, vlan).unwrap_or(Headers::unparsed(at, vlan)),
        ethertype::ARP => Headers { network: Network::Arp, ..other },
        _ if Tag::<&[u8]>::follows(kind) => Headers::unparsed(at, vlan),
        _ => {
            let inside = match kind {
                ethertype::PPPOE => behind_pppoe(&frame[at..]),
                _ if Mpls::<&[u8]>::follows(kind) => behind_mpls(&frame[at..]),
                _ => return other,
            };
            let Ok(inside) = inside else { return Headers::unparsed(at, vlan) };
            let ip = match inside.version {
                Some(version) => outer_ip(frame, at + inside.offset, version, vlan),
                None => Err(Malformed),
            };
            match ip {
                Ok(ip) => Headers { network: Network::Other, ds: 0, ..ip },
                Err(Malformed) => Headers {
                    unparsed: kind == ethertype::PPPOE && inside.version.is_some(),
                    keys: FlowKeys { label: inside.label, ..other.keys },
                    ..other
                },
            }
        }
    }
}

/// What stands behind PPPoE or a label stack.
struct Inside {
    /// In bytes from the start of that header.
    offset: usize,
    /// 4 or 6 if it is IP.
    version: Option<u8>,
    /// The last label.
    label: u32,
}

fn behind_pppoe(bytes: &[u8]) -> Result<Inside, Malformed> {
    let version = match Pppoe::new_checked(bytes)?.protocol() {
        Pppoe::<&[u8]>::IPV4 => Some(4),
        Pppoe::<&[u8]>::IPV6 => Some(6),
        _ => None,
    };
    Ok(Inside { offset: header_len::PPPOE, version, label: 0 })
}

/// A label stack does not say what it carries; the first four bits do, as routers agree to guess.
fn behind_mpls(bytes: &[u8]) -> Result<Inside, Malformed> {
    for n in 0..MAX_STACK {
        let entry = Mpls::new_checked(&bytes[n * header_len::MPLS..])?;
        if entry.is_bottom() {
            let offset = (n + 1) * header_len::MPLS;
            let version = bytes.get(offset).map(|b| b >> 4).filter(|v| matches!(v, 4 | 6));
            return Ok(Inside { offset, version, label: entry.label() });
        }
    }
    Err(Malformed)
}

/// The outer IP header at `at`, and the flow from whatever it carries.
fn outer_ip(frame: &[u8], at: usize, version: u8, vlan: u32) -> Result<Headers, Malformed> {
    let bytes = &frame[at..];
    let (network, ds, net_len) = if version == 4 {
        let ip = Ipv4::new_checked(bytes)?;
        (Network::V4, ip.ds(), ip.total_len().into())
    } else {
        let ip = Ipv6::new_checked(bytes)?;
        (Network::V6, ip.ds(), ipv6::HEADER_LEN as u32 + u32::from(ip.payload_len()))
    };
    let mut keys = FlowKeys { vlan, ..FlowKeys::default() };
    flow(bytes, version, &mut keys);
    Ok(Headers { network, net_offset: at as u16, net_len, ds, unparsed: false, keys })
}

/// Follows IP headers inwards and leaves in `keys` what the last readable one says.
fn flow(mut bytes: &[u8], mut version: u8, keys: &mut FlowKeys) {
    for _ in 0..MAX_DEPTH {
        let Some((upper, ends)) = one_ip(bytes, version, keys) else { return };
        if ends {
            return;
        }
        (bytes, version) = match upper.protocol {
            protocol::IPIP => (upper.bytes, 4),
            protocol::IPV6 => (upper.bytes, 6),
            protocol::GRE => {
                let Ok(gre) = Gre::new_checked(upper.bytes) else { return };
                keys.label = keys.label.rotate_left(12) ^ gre.key().unwrap_or(0);
                let version = match gre.protocol() {
                    ethertype::IPV4 => 4,
                    ethertype::IPV6 => 6,
                    _ => return,
                };
                (&upper.bytes[gre.header_len()..], version)
            }
            other => {
                keys.ports = transport::ports(other, upper.bytes).unwrap_or_default();
                return;
            }
        };
    }
}

/// One IP header: addresses, protocol and flow label into `keys`; what follows it, and whether the
/// search ends here.
fn one_ip<'a>(bytes: &'a [u8], version: u8, keys: &mut FlowKeys) -> Option<(Upper<'a>, bool)> {
    let (upper, labelled) = if version == 4 {
        let ip = Ipv4::new_checked(bytes).ok()?;
        (keys.src, keys.dst) = (widened(ip.source()), widened(ip.destination()));
        let payload = &bytes[ip.header_len()..bytes.len().min(ip.total_len().into())];
        (Upper { protocol: ip.protocol(), bytes: payload, fragment: ip.is_fragment() }, false)
    } else {
        let ip = Ipv6::new_checked(bytes).ok()?;
        (keys.src, keys.dst) = (ip.source(), ip.destination());
        let label = ip.flow_label();
        if label != 0 {
            keys.label = keys.label.rotate_left(12) ^ label;
        }
        let payload = &bytes[ipv6::HEADER_LEN..ipv6::HEADER_LEN + ip.payload().len()];
        (skip_extensions(ip.next_header(), payload), label != 0)
    };
    keys.version = version;
    keys.protocol = upper.protocol;
    Some((upper, labelled || upper.fragment))
}

fn widened(v4: [u8; 4]) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&v4);
    out
}

#[cfg(test)]
mod tests;

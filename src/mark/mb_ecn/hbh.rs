//! The two bytes in an IPv6 hop-by-hop option that the sending host put there (`spec/mb-ecn.md`
//! §8.3), and the option in IPv4 for hosts in a lab (§8.4). Nothing is ever inserted here.

/// Option type: experimental, to be skipped by who does not know it, may change on the way.
const OPTION: u8 = 0x3E;
/// Tells our experiment from others.
const MARKER: [u8; 2] = [0x4D, 0x42];
/// Options looked at.
const MOST_OPTIONS: usize = 8;
/// Bytes of the header looked at.
const MOST_BYTES: usize = 256;
/// Length of an IPv6 header.
const IPV6: usize = 40;

/// Where in an IPv6 packet, from its first byte, the depth is; the capacity follows it.
pub fn find(packet: &[u8]) -> Option<usize> {
    let fixed = packet.first_chunk::<IPV6>()?;
    if fixed[0] >> 4 != 6 || fixed[6] != 0 {
        return None;
    }
    let [_, extra] = *packet.get(IPV6..)?.first_chunk::<2>()?;
    let len = (usize::from(extra) + 1) * 8;
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    if len > payload || len > MOST_BYTES {
        return None;
    }
    let header = packet.get(IPV6..IPV6 + len)?;
    let mut at = 2;
    for _ in 0..MOST_OPTIONS {
        match *header.get(at)? {
            0 => at += 1,
            kind => {
                let size = usize::from(*header.get(at + 1)?);
                let data = header.get(at + 2..at + 2 + size)?;
                if kind == OPTION && size == 4 && data[..2] == MARKER {
                    return Some(IPV6 + at + 4);
                }
                at += 2 + size;
            }
        }
    }
    None
}

/// The whole extension header as a sending host puts it behind its IPv6 header; it sends zero codes.
pub fn extension_header(next_header: u8, ecn: u8, cap: u8) -> [u8; 8] {
    [next_header, 0, OPTION, 4, MARKER[0], MARKER[1], ecn, cap]
}

/// The twin in IPv4: two aligned bytes in an option of eight, first in its header.
pub fn ipv4_option(ecn: u8, cap: u8) -> [u8; 8] {
    [0x5E, 6, MARKER[0], MARKER[1], ecn, cap, 1, 1]
}

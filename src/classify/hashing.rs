//! Flow keys to numbers (`spec/cake.md` §8.1).

use std::collections::HashMap;

use super::FlowKeys;
use crate::rng::SplitMix64;

/// How flow keys become numbers. All of them are direction-blind and never zero.
#[derive(Debug, Clone)]
pub enum Hashing {
    /// SipHash-1-3 under a 128-bit key that an outsider does not know.
    Keyed([u64; 2]),
    /// Numbers in order of first appearance: the recorded traces are free of collisions, and so is
    /// this. Remembers each flow and host for ever: not for live traffic.
    Numbered(Numbering),
}

impl Hashing {
    /// The hash of the whole key.
    #[inline]
    pub fn flow(&mut self, keys: &FlowKeys) -> u32 {
        match self {
            Hashing::Keyed(key) => keyed_flow(*key, keys),
            Hashing::Numbered(n) => n.flow(sorted(*keys)),
        }
    }

    /// The hash of the source host: address, IP version and VLAN. Zero if the frame is not IP, the
    /// same number whether an address is a source or a destination.
    #[inline]
    pub fn src_host(&mut self, keys: &FlowKeys) -> u32 {
        self.host(keys, &keys.src)
    }

    /// The hash of the destination host, likewise.
    #[inline]
    pub fn dst_host(&mut self, keys: &FlowKeys) -> u32 {
        self.host(keys, &keys.dst)
    }

    #[inline]
    fn host(&mut self, keys: &FlowKeys, address: &[u8; 16]) -> u32 {
        if keys.version == 0 {
            return 0;
        }
        match self {
            Hashing::Keyed(key) => keyed_host(*key, keys, address),
            Hashing::Numbered(n) => {
                n.host(FlowKeys { dst: *address, version: keys.version, vlan: keys.vlan, ..FlowKeys::default() })
            }
        }
    }
}

/// Flows and hosts in order of their first appearance, each numbered from 0.
#[derive(Debug, Clone, Default)]
pub struct Numbering {
    flows: HashMap<FlowKeys, u32>,
    hosts: HashMap<FlowKeys, u32>,
}

impl Numbering {
    /// Flow number n as a hash. Its low ten bits are n, so that it comes to queue n of cake's 1024;
    /// its high bits are n mirrored, so that fq_codel's multiplication spreads the first N flows
    /// over N queues if N is a power of two. Bit 10 keeps it from zero.
    fn flow(&mut self, keys: FlowKeys) -> u32 {
        let n = number(&mut self.flows, keys);
        n.reverse_bits() & !0x7FF | 0x400 | n & 0x3FF
    }

    /// Host number n as a hash. Its low ten bits are a permutation, so that 1024 hosts have a slot each;
    /// 601 is a multiplier by which the exclusive or of two hosts (mode `hosts`) gives each pair of the
    /// first 13 a queue of its own. The high bits are scattered, so that it also tells later pairs apart.
    fn host(&mut self, keys: FlowKeys) -> u32 {
        let n = number(&mut self.hosts, keys);
        SplitMix64::new(n.into()).next_u64() as u32 & !0x7FF | 0x400 | n.wrapping_mul(601) & 0x3FF
    }
}

fn number(seen: &mut HashMap<FlowKeys, u32>, keys: FlowKeys) -> u32 {
    let next = seen.len() as u32;
    *seen.entry(keys).or_insert(next)
}

/// The lower address and the lower port first, each pair for itself.
fn sorted(mut keys: FlowKeys) -> FlowKeys {
    (keys.src, keys.dst) = (keys.src.min(keys.dst), keys.src.max(keys.dst));
    keys.ports.sort_unstable();
    keys
}

// The messages of different kinds differ in length, which SipHash hashes too, so no two kinds can be
// the same message: a host is 7 (IPv4) or 19 bytes, a flow 15 or 39, eight more if it has a VLAN or a
// label, and 10 if it is not IP. Seven bytes of each fit into the last word beside the length.

/// Sorts as [`sorted`] does, but in registers: the key is read once, each part in the width in which the
/// parser wrote it a moment ago.
#[inline]
fn keyed_flow(key: [u64; 2], keys: &FlowKeys) -> u32 {
    if (keys.version, keys.vlan, keys.label) == (4, 0, 0) {
        return sip13(key, [v4_pair(keys)], ports_and_protocol(keys), 7);
    }
    keyed_rarer_flow(key, keys)
}

#[inline(never)]
fn keyed_rarer_flow(key: [u64; 2], keys: &FlowKeys) -> u32 {
    let tail = ports_and_protocol(keys);
    let marks = u64::from(keys.label) << 32 | u64::from(keys.vlan);
    let [a, b] = words(keys.src.min(keys.dst));
    let [c, d] = words(keys.src.max(keys.dst));
    match (keys.version, marks) {
        (4, _) => sip13(key, [v4_pair(keys), marks], tail, 7),
        (6, 0) => sip13(key, [a, b, c, d], tail, 7),
        (6, _) => sip13(key, [a, b, c, d, marks], tail, 7),
        _ => sip13(key, [marks], keys.ethertype.into(), 2),
    }
}

#[inline]
fn keyed_host(key: [u64; 2], keys: &FlowKeys, address: &[u8; 16]) -> u32 {
    let vlan = u64::from(keys.vlan) & 0xFF_FFFF;
    match keys.version {
        4 => sip13(key, [], u64::from(u32::from_le_bytes(v4(address))) | vlan << 32, 7),
        _ => sip13(key, words(*address), vlan, 3),
    }
}

/// The ports, the lower one lowest, and the protocol.
#[inline]
fn ports_and_protocol(keys: &FlowKeys) -> u64 {
    let [a, b] = keys.ports;
    u64::from(a.min(b)) | u64::from(a.max(b)) << 16 | u64::from(keys.protocol) << 32
}

/// Both IPv4 addresses, the lower one lowest.
#[inline]
fn v4_pair(keys: &FlowKeys) -> u64 {
    let (a, b) = (u32::from_be_bytes(v4(&keys.src)), u32::from_be_bytes(v4(&keys.dst)));
    u64::from(a.min(b).swap_bytes()) | u64::from(a.max(b).swap_bytes()) << 32
}

#[inline]
fn v4(address: &[u8; 16]) -> [u8; 4] {
    [address[0], address[1], address[2], address[3]]
}

#[inline]
fn words(address: [u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(address);
    [both as u64, (both >> 64) as u64]
}

/// SipHash-1-3 (Aumasson and Bernstein, 2012) of `words`, little-endian, and `tail_len` bytes of
/// `tail`, cut to 32 bits, zero replaced by one. Written here because a message that is already in
/// registers is hashed in a third of the time that a general byte-wise hasher takes.
#[inline]
fn sip13<const N: usize>([k0, k1]: [u64; 2], words: [u64; N], tail: u64, tail_len: usize) -> u32 {
    let mut v = [
        k0 ^ 0x736F_6D65_7073_6575,
        k1 ^ 0x646F_7261_6E64_6F6D,
        k0 ^ 0x6C79_6765_6E65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let last = ((N * 8 + tail_len) as u64) << 56 | tail;
    for word in words {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[3] ^= last;
    round(&mut v);
    v[0] ^= last;
    v[2] ^= 0xFF;
    round(&mut v);
    round(&mut v);
    round(&mut v);
    ((v[0] ^ v[1] ^ v[2] ^ v[3]) as u32).max(1)
}

#[inline]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests;

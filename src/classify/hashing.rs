//! Flow keys to numbers (`spec/cake.md` §8.1).

use std::collections::HashMap;

use siphasher::sip::SipHasher13;

use super::FlowKeys;

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
    pub fn flow(&mut self, keys: &FlowKeys) -> u32 {
        let keys = sorted(*keys);
        match self {
            Hashing::Keyed(key) => keyed_flow(*key, &keys),
            Hashing::Numbered(n) => n.flow(keys),
        }
    }

    /// The hash of the source host: address, IP version and VLAN. Zero if the frame is not IP, the
    /// same number whether an address is a source or a destination.
    pub fn src_host(&mut self, keys: &FlowKeys) -> u32 {
        self.host(keys, keys.src)
    }

    /// The hash of the destination host, likewise.
    pub fn dst_host(&mut self, keys: &FlowKeys) -> u32 {
        self.host(keys, keys.dst)
    }

    fn host(&mut self, keys: &FlowKeys, address: [u8; 16]) -> u32 {
        if keys.version == 0 {
            return 0;
        }
        match self {
            Hashing::Keyed(key) => keyed_host(*key, keys, address),
            Hashing::Numbered(n) => {
                n.host(FlowKeys { dst: address, version: keys.version, vlan: keys.vlan, ..FlowKeys::default() })
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

    /// Host number n as a hash: multiples of an odd number, so that the low ten bits of 1024 hosts
    /// differ, and the exclusive or of two hosts tells the pair.
    fn host(&mut self, keys: FlowKeys) -> u32 {
        number(&mut self.hosts, keys).wrapping_add(1).wrapping_mul(0x9E37_79B1)
    }
}

fn number(seen: &mut HashMap<FlowKeys, u32>, keys: FlowKeys) -> u32 {
    let next = seen.len() as u32;
    *seen.entry(keys).or_insert(next)
}

/// The lower address and the lower port first, each pair for itself.
#[inline]
fn sorted(mut keys: FlowKeys) -> FlowKeys {
    if u128::from_be_bytes(keys.src) > u128::from_be_bytes(keys.dst) {
        (keys.src, keys.dst) = (keys.dst, keys.src);
    }
    if keys.ports[0] > keys.ports[1] {
        keys.ports.swap(0, 1);
    }
    keys
}

// The message that is hashed differs in length by what it is (8 and 24 bytes for host and flow of IPv4, 20
// and 48 else), and SipHash hashes the length too, so no two kinds can be the same message.

#[inline]
fn keyed_flow(key: [u64; 2], keys: &FlowKeys) -> u32 {
    let rest = (u128::from(keys.ports[0]) << 112)
        | (u128::from(keys.ports[1]) << 96)
        | (u128::from(keys.protocol) << 88)
        | (u128::from(keys.version) << 80)
        | (u128::from(keys.ethertype) << 64)
        | (u128::from(keys.vlan) << 32)
        | u128::from(keys.label);
    let rest = rest.to_ne_bytes();
    if keys.version == 4 {
        let mut message = [0; 24];
        message[..4].copy_from_slice(&keys.src[..4]);
        message[4..8].copy_from_slice(&keys.dst[..4]);
        message[8..].copy_from_slice(&rest);
        sip(key, &message)
    } else {
        let mut message = [0; 48];
        message[..16].copy_from_slice(&keys.src);
        message[16..32].copy_from_slice(&keys.dst);
        message[32..].copy_from_slice(&rest);
        sip(key, &message)
    }
}

#[inline]
fn keyed_host(key: [u64; 2], keys: &FlowKeys, address: [u8; 16]) -> u32 {
    let vlan = keys.vlan.to_ne_bytes();
    if keys.version == 4 {
        let mut message = [0; 8];
        message[..4].copy_from_slice(&address[..4]);
        message[4..].copy_from_slice(&vlan);
        sip(key, &message)
    } else {
        let mut message = [0; 20];
        message[..16].copy_from_slice(&address);
        message[16..].copy_from_slice(&vlan);
        sip(key, &message)
    }
}

#[inline]
fn sip<const N: usize>([k0, k1]: [u64; 2], message: &[u8; N]) -> u32 {
    (SipHasher13::new_with_keys(k0, k1).hash(message) as u32).max(1)
}

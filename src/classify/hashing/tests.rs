use std::collections::HashSet;
use std::hash::Hasher;

use proptest::prelude::*;
use siphasher::sip::SipHasher13;

use super::*;

fn reference(key: [u64; 2], words: &[u64], tail: u64, tail_len: usize) -> u32 {
    let mut message: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    message.extend(&tail.to_le_bytes()[..tail_len]);
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
    hasher.write(&message);
    (hasher.finish() as u32).max(1)
}

fn keys() -> impl Strategy<Value = FlowKeys> {
    let address = prop_oneof![Just([0; 16]), any::<[u8; 16]>()];
    let version = prop_oneof![Just(4), Just(6), Just(0)];
    (address.clone(), address, any::<[u16; 2]>(), any::<u8>(), version, any::<u16>(), 0u32..1 << 24, any::<u32>())
        .prop_map(|(mut src, mut dst, ports, protocol, version, ethertype, vlan, label)| match version {
            0 => FlowKeys { ethertype, vlan, label, ..FlowKeys::default() },
            _ => {
                if version == 4 {
                    src[4..].fill(0);
                    dst[4..].fill(0);
                }
                FlowKeys { src, dst, ports, protocol, version, ethertype: 0, vlan, label: label & 0xF_FFFF }
            }
        })
}

fn turned(k: FlowKeys) -> FlowKeys {
    FlowKeys { src: k.dst, dst: k.src, ports: [k.ports[1], k.ports[0]], ..k }
}

fn kinds() -> [Hashing; 2] {
    [Hashing::Keyed([3, 5]), Hashing::Numbered(Numbering::default())]
}

/// Changes of one part of the key at a time.
fn neighbours(k: FlowKeys) -> Vec<FlowKeys> {
    let mut src = k.src;
    src[0] ^= 1;
    vec![
        FlowKeys { src, ..k },
        FlowKeys { ports: [k.ports[0] ^ 1, k.ports[1]], ..k },
        FlowKeys { protocol: k.protocol ^ 1, ..k },
        FlowKeys { vlan: k.vlan ^ 1, ..k },
        FlowKeys { label: k.label ^ 1, ..k },
        FlowKeys { version: k.version ^ 2, ..k },
    ]
}

proptest! {
    #[test]
    fn the_hash_is_siphash_1_3(key: [u64; 2], w: [u64; 5], tail: u64) {
        prop_assert_eq!(sip13(key, [], tail & 0xFF_FFFF_FFFF_FFFF, 7), reference(key, &[], tail, 7));
        prop_assert_eq!(sip13(key, [w[0]], tail & 0xFFFF, 2), reference(key, &w[..1], tail, 2));
        prop_assert_eq!(sip13(key, [w[0], w[1]], tail & 0xFF_FFFF, 3), reference(key, &w[..2], tail, 3));
        prop_assert_eq!(sip13(key, w, tail & 0xFF_FFFF_FFFF_FFFF, 7), reference(key, &w, tail, 7));
    }

    #[test]
    fn both_directions_are_one_flow_and_one_pair_of_hosts(k in keys()) {
        for mut h in kinds() {
            let there = (h.flow(&k), h.src_host(&k), h.dst_host(&k));
            let back = turned(k);
            prop_assert_eq!(there, (h.flow(&back), h.dst_host(&back), h.src_host(&back)));
            prop_assert_ne!(there.0, 0);
            prop_assert_eq!(there.1 == 0, k.version == 0);
        }
    }

    #[test]
    fn ports_are_sorted_for_themselves(k in keys()) {
        for mut h in kinds() {
            let swapped = FlowKeys { ports: [k.ports[1], k.ports[0]], ..k };
            prop_assert_eq!(h.flow(&k), h.flow(&swapped));
        }
    }

    #[test]
    fn every_part_of_the_key_counts_for_the_flow(k in keys().prop_filter("ip", |k| k.version != 0)) {
        for mut h in kinds() {
            let own = h.flow(&k);
            for other in neighbours(k) {
                if sorted(other) != sorted(k) {
                    prop_assert_ne!(own, h.flow(&other), "{:?} {:?}", k, other);
                }
            }
        }
    }

    #[test]
    fn ports_protocol_and_label_do_not_count_for_a_host(k in keys(), ports: [u16; 2], protocol: u8, label: u32) {
        for mut h in kinds() {
            let other = FlowKeys { ports, protocol, label, dst: [9; 16], ..k };
            prop_assert_eq!(h.src_host(&k), h.src_host(&other));
        }
    }
}

fn flow_number(n: u32) -> FlowKeys {
    FlowKeys { version: 4, protocol: 17, ports: [n as u16, 5000], ..FlowKeys::default() }
}

#[test]
fn an_outsider_without_the_key_cannot_tell_which_flows_meet() {
    let queues = |key| -> Vec<u32> {
        let mut h = Hashing::Keyed(key);
        (0..64).map(|n| h.flow(&flow_number(n)) % 1024).collect()
    };
    assert_ne!(queues([0, 0]), queues([0, 1]));
    assert_ne!(queues([0, 0]), queues([1, 0]));
}

#[test]
fn numbered_flows_fill_the_queues_in_the_order_they_came() {
    let mut h = Hashing::Numbered(Numbering::default());
    let hashes: Vec<u32> = (0..5000).map(|n| h.flow(&flow_number(n))).collect();
    assert!((0..1024).all(|n| hashes[n] % 1024 == n as u32), "cake's rule");
    for flows in [16, 1024] {
        let queues: HashSet<u64> = hashes[..flows].iter().map(|h| (u64::from(*h) * flows as u64) >> 32).collect();
        assert_eq!(queues.len(), flows, "fq_codel's rule");
    }
    assert_eq!(HashSet::<&u32>::from_iter(&hashes).len(), 5000);
    assert_eq!(h.flow(&flow_number(3)), hashes[3], "numbers stay");
}

#[test]
fn numbered_hosts_and_pairs_of_hosts_never_meet() {
    let mut h = Hashing::Numbered(Numbering::default());
    let host = |n: u32| {
        let mut k = FlowKeys { version: 4, ..FlowKeys::default() };
        k.src[..4].copy_from_slice(&n.to_be_bytes());
        k
    };
    let hosts: Vec<u32> = (0..1024).map(|n| h.src_host(&host(n))).collect();
    assert_eq!(HashSet::<u32>::from_iter(hosts.iter().map(|h| h % 1024)).len(), 1024);
    let pairs = |n: usize| -> Vec<u32> {
        (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).map(|(a, b)| hosts[a] ^ hosts[b]).collect()
    };
    assert!(!pairs(100).contains(&0));
    assert_eq!(HashSet::<u32>::from_iter(pairs(100)).len(), 4950);
    assert_eq!(HashSet::<u32>::from_iter(pairs(13).iter().map(|p| p % 1024)).len(), 78);
}

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::wire::build::Build;

fn built() -> impl Strategy<Value = Vec<u8>> {
    let address = any::<bool>().prop_flat_map(|v6| {
        if v6 {
            any::<[u8; 16]>().prop_map(IpAddr::from).boxed()
        } else {
            any::<[u8; 4]>().prop_map(IpAddr::from).boxed()
        }
    });
    let protocol = prop_oneof![Just(6u8), Just(17), Just(4), Just(41), Just(47), Just(44), any::<u8>()];
    (address.clone(), address, protocol, any::<[u16; 2]>(), any::<u8>(), 14u32..200).prop_map(
        |(src, dst, protocol, [sport, dport], ds, len)| {
            Build { len, src, dst, protocol, sport, dport, ds, tcp: None }.frame()
        },
    )
}

/// Frames as built, with a few bytes changed, and cut.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (built(), damage, prop::option::of(any::<prop::sample::Index>())).prop_map(|(mut frame, damage, cut)| {
        for (at, byte) in damage {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Some(cut) = cut {
            frame.truncate(cut.index(frame.len()));
        }
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_short_way_finds_what_the_long_way_finds(frame in damaged()) {
        let long = general(&frame, ParseOptions::default());
        if let Some(short) = plain_ipv4(&frame).or_else(|| plain_ipv6(&frame)) {
            prop_assert_eq!(short, long);
        }
        prop_assert!(usize::from(long.net_offset) <= frame.len());
    }
}

#[test]
fn the_common_frames_take_the_short_way() {
    let v4 = Build {
        len: 60,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        protocol: 6,
        sport: 1,
        dport: 2,
        ds: 0,
        tcp: None,
    };
    let v6 = Build { src: IpAddr::from([1; 16]), protocol: 17, ..v4.clone() };
    assert!(plain_ipv4(&v4.frame()).is_some());
    assert!(plain_ipv6(&v6.frame()).is_some());
}

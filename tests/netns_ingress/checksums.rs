//! What leaves by WAN has its checksums, whatever the interfaces behind weir leave to their hardware.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use socket2::Socket;
use weir::wire::{checksum, protocol};

use super::rig::{FAR, FAR_6, Rig};
use crate::live::{Transfer, possible, wait_until};

/// Frames by what they carry: how many had right checksums.
type Seen = BTreeMap<&'static str, u32>;

/// Looks at all checksums of a frame, and counts it.
fn look(frame: &[u8], seen: &mut Seen) {
    let ip = &frame[14..];
    let (kind, pseudo, body) = match (u16::from_be_bytes([frame[12], frame[13]]), ip[0] >> 4) {
        (0x0800, 4) => {
            let header = usize::from(ip[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            assert_eq!(checksum::of(&ip[..header]), 0, "IPv4 header: {frame:02x?}");
            if u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0 {
                *seen.entry("IPv4 fragment").or_default() += 1;
                return;
            }
            (ip[9], ip[12..20].to_vec(), &ip[header..total])
        }
        (0x86dd, 6) => (ip[6], ip[8..40].to_vec(), &ip[40..40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]))]),
        _ => return,
    };
    let six = pseudo.len() == 32;
    let name = match (kind, six) {
        (protocol::TCP, false) => "TCP over IPv4",
        (protocol::TCP, true) => "TCP over IPv6",
        (protocol::UDP, false) => "UDP over IPv4",
        (protocol::UDP, true) => "UDP over IPv6",
        (protocol::ICMPV6, true) => "ICMPv6",
        (protocol::ICMP, false) => {
            assert_eq!(checksum::of(body), 0, "ICMP: {frame:02x?}");
            *seen.entry("ICMP").or_default() += 1;
            return;
        }
        _ => return,
    };
    let mut covered = pseudo;
    covered.extend((body.len() as u32).to_be_bytes());
    covered.extend([0, 0, 0, kind]);
    covered.extend(body);
    assert_eq!(checksum::of(&covered), 0, "{name}: {} bytes, {:02x?}", frame.len(), &frame[..60.min(frame.len())]);
    *seen.entry(name).or_default() += 1;
}

/// Datagrams of odd and even lengths, up to what one packet takes and beyond.
fn datagrams(to: IpAddr) {
    let socket = UdpSocket::bind(if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }).expect("a socket");
    for len in [0, 1, 2, 17, 512, 1399, 1452, 3000] {
        socket.send_to(&vec![0xa5; len], (to, 9)).expect("sent");
    }
}

#[test]
fn what_leaves_by_wan_has_its_checksums_whoever_sent_it_and_whatever_is_left_to_hardware() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    // As the kernel makes them: checksums and segments are left to the interface.
    for (ns, nic) in [(&rig.lan, "eth0"), (&rig.host, "lan0")] {
        let features = ns.sh(&format!("ethtool -k {nic}"));
        assert!(features.contains("tx-checksum-ip-generic: on") && features.contains("tx-tcp-segmentation: on"));
    }
    let weir = rig.ingress("--move-addresses --up \"pfifo limit 1000 | tbf rate 50mbit burst 20k\"");
    let features = rig.host.sh("ethtool -k shaped");
    assert!(features.contains("tx-checksum-ip-generic: off"), "{features}");

    let index = rig.far.nic("far0").index;
    let far = Socket::from(rig.far.run(move || weir::sys::packet_socket(index, weir::sys::ANY).expect("root may")));
    far.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let own = rig.host.nic("wan").address;
    let mut seen = Seen::new();
    let mut frame = [0; 4096];
    let mut look_at_some = |seen: &mut Seen| {
        for _ in 0..1000 {
            let Ok(n) = (&far).read(&mut frame) else { break };
            let source = frame[6..12].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
            // The far end's own frames are seen here, too.
            if source == own {
                look(&frame[..n], seen);
            }
        }
    };
    for ns in [&rig.lan, &rig.host] {
        seen.clear();
        wait_until("one of each kind has come", || {
            ns.run(|| [FAR, FAR_6].into_iter().for_each(datagrams));
            let answered = ns.reaches(FAR) && ns.reaches(FAR_6);
            look_at_some(&mut seen);
            answered && seen.len() == 5
        });
    }
    let transfers = [
        Transfer::start(&rig.lan, &rig.far, FAR),
        Transfer::start(&rig.lan, &rig.far, FAR_6),
        Transfer::start(&rig.host, &rig.far, FAR),
        Transfer::start(&rig.host, &rig.far, FAR_6),
    ];
    wait_until("many segments have come", || {
        look_at_some(&mut seen);
        ["TCP over IPv4", "TCP over IPv6"].iter().all(|kind| seen.get(kind) >= Some(&1000))
    });
    transfers.into_iter().for_each(Transfer::end);
    weir.end();
}

#[test]
fn what_somebody_leaves_to_hardware_again_is_switched_off_again() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let weir = rig.ingress("--move-addresses");
    rig.host.sh("ethtool -K shaped tx on");
    wait_until("it is said", || weir.said().contains("somebody had switched on tx-checksum"));
    let features = rig.host.sh("ethtool -k shaped");
    assert!(
        features.contains("tx-checksum-ip-generic: off") && features.contains("tx-checksum-sctp: off"),
        "{features}"
    );
    weir.end();
}

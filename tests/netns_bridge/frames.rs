//! Frames of odd shapes, sizes and queues.

use std::io::{Read, Write};
use std::time::Duration;

use socket2::Socket;

use super::rig::Rig;
use crate::live::{Ns, possible, wait_until};

/// A socket for whole frames at an interface.
pub(crate) fn at(ns: &Ns, nic: &str) -> Socket {
    let index = ns.nic(nic).index;
    let socket = Socket::from(ns.run(move || weir::sys::packet_socket(index, weir::sys::ANY).expect("root may")));
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
    socket
}

/// Sends a frame at one end, as often as needed, until it comes out of the other as it is.
pub(crate) fn passes(from: &Socket, to: &Socket, frame: &[u8]) -> bool {
    passes_as(from, to, frame, frame)
}

/// The same for a frame that the receiving kernel shows otherwise.
pub(crate) fn passes_as(from: &Socket, to: &Socket, frame: &[u8], expected: &[u8]) -> bool {
    for _ in 0..20 {
        (&*from).write_all(frame).expect("the socket takes it");
        let mut seen = [0; 4096];
        // Others talk too: neighbours are asked for, addresses announced.
        let arrived = std::iter::from_fn(|| (&*to).read(&mut seen).ok().map(|n| seen[..n] == *expected));
        if arrived.take(100).any(|same| same) {
            return true;
        }
    }
    false
}

fn frame(destination: [u8; 6], rest: &[u8], len: usize) -> Vec<u8> {
    let mut frame = [&destination[..], &[2, 0, 0, 0, 0, 0x77], rest].concat();
    let start = frame.len();
    frame.resize(len, 0);
    (start..len).for_each(|i| frame[i] = i as u8);
    frame
}

#[test]
fn frames_of_odd_shapes_pass_unchanged_both_ways() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name odd");
    let (a, b) = (at(&rig.a, "a0"), at(&rig.b, "b0"));
    let somebody = [2, 0, 0, 0, 0, 0x99];
    let reserved = |last| [1, 0x80, 0xc2, 0, 0, last];
    let mut shapes: Vec<Vec<u8>> =
        (0..=0xf).chain(0x20..=0x2f).map(|n| frame(reserved(n), &[0x88, 0xb5], 60)).collect();
    shapes.extend([
        frame(reserved(0xe), &[0x88, 0xcc, 2, 7], 60),
        frame(reserved(0), &[0, 38, 0x42, 0x42, 3], 60),
        frame([0xff; 6], &[8, 6, 0, 1, 8, 0, 6, 4], 42),
        frame(somebody, &[8, 0, 0x44], 34),
        frame(somebody, &[8, 0, 0x4f], 60),
        frame(somebody, &[8, 0, 0x45, 0, 0, 40, 0, 1, 0x20, 0, 64, 17], 60),
        frame(somebody, &[8, 0, 0x45, 0, 0, 28, 0, 1, 0x00, 99, 64, 17], 60),
        frame(somebody, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 44, 64], 62),
        frame(somebody, &[0x88, 0x64, 0x11], 80),
        frame(somebody, &[0x88, 0x47, 0, 0, 0x11, 64], 80),
        frame(somebody, &[0x12, 0x34], 1514),
        frame(somebody, &[0xff, 0xff], 15),
        frame(somebody, &[0xff, 0xff], 14),
    ]);
    for shape in &shapes {
        assert!(passes(&a, &b, shape), "down: {} bytes, {:02x?}", shape.len(), &shape[..20.min(shape.len())]);
        assert!(passes(&b, &a, shape), "up: {} bytes, {:02x?}", shape.len(), &shape[..20.min(shape.len())]);
    }
    let report = bridge.end();
    for direction in report["directions"].as_array().expect("two") {
        assert_eq!((&direction["refused"], &direction["port"]["tx_invalid"]), (&0.into(), &0.into()));
        assert_eq!(direction["census_missing"], 0);
    }
}

#[test]
fn a_stack_of_vlan_tags_passes_unchanged() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name vlan");
    let (a, b) = (at(&rig.a, "a0"), at(&rig.b, "b0"));
    let somebody = [2, 0, 0, 0, 0, 0x99];
    for tags in [&[0x81, 0x00, 0xe0, 100][..], &[0x88, 0xa8, 0xe0, 100, 0x81, 0x00, 0x60, 7]] {
        let tagged = frame(somebody, &[tags, &[0x88, 0xb5]].concat(), 1514);
        // The kernel takes the outermost tag off before it shows a frame to a packet socket.
        let shown = [&tagged[..12], &tagged[16..]].concat();
        assert!(passes_as(&a, &b, &tagged, &shown), "{tags:x?}");
    }
    bridge.end();
}

#[test]
fn large_frames_pass_up_to_the_mtu_and_larger_mtus_are_refused_with_the_command_that_helps() {
    if !possible() {
        return;
    }
    let rig = Rig::with(1, 3000);
    let bridge = rig.bridge("--name jumbo");
    let (a, b) = (at(&rig.a, "a0"), at(&rig.b, "b0"));
    for len in [1514, 2048, 2500, 3014] {
        assert!(passes(&a, &b, &frame([0xff; 6], &[0x12, 0x34], len)), "{len}");
    }
    bridge.end();
    // With a program at the other end, the kernel would not allow it.
    rig.a.sh("ip link set a0 xdpdrv off");
    rig.r.sh("ip link set out mtu 3819");
    let bridge = rig.try_bridge("--name giant");
    assert_eq!(bridge.wait().0, 1);
    assert!(bridge.said().contains("ip link set out mtu 3818"), "{}", bridge.said());
}

#[test]
fn all_receive_queues_are_served() {
    if !possible() {
        return;
    }
    let rig = Rig::with(4, 1500);
    let bridge = rig.bridge("--name queues");
    assert!(bridge.said().contains("out (4 queues)"), "{}", bridge.said());
    wait_until("b answers", || rig.answers());
    // Flows to many ports: the sending veth chooses a queue by flow.
    let (a, b) = (at(&rig.a, "a0"), at(&rig.b, "b0"));
    for port in 0..200u8 {
        let mut udp =
            frame([0xff; 6], &[8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 255], 60);
        udp[34..38].copy_from_slice(&[100, port, 100, 1]);
        assert!(passes(&a, &b, &udp), "port {port}");
    }
    let statistics = rig.r.sh("ethtool -S out");
    for queue in 0..4 {
        let seen = statistics.lines().filter_map(|l| l.trim().split_once(": ")).find_map(|(name, count)| {
            (name == format!("rx_queue_{queue}_xdp_packets")).then(|| count.parse::<u64>().expect("a number"))
        });
        assert!(seen > Some(0), "queue {queue}: {statistics}");
    }
    let down = &bridge.end()["directions"][0];
    assert_eq!((&down["gate"]["no_socket"], &down["gate"]["bypassed"]), (&0.into(), &0.into()));
    assert_eq!(down["census_missing"], 0);
}

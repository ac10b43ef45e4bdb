//! Frames of every shape, from bytes to headers and back.

use std::net::IpAddr;

use weir::classify::{FlowKeys, Hashing, Headers, Numbering, ParseOptions};
use weir::mark::ecn;
use weir::packet::{Network, Packet};
use weir::wire::build::{Build, TcpFields};
use weir::wire::checksum;
use weir::wire::ethernet::Arp;
use weir::wire::ipv4::Ipv4;
use weir::wire::ipv6::Ipv6;
use weir::wire::transport::Segment;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn udp(src: &str, dst: &str, len: u32) -> Build {
    Build { len, src: ip(src), dst: ip(dst), protocol: 17, sport: 1111, dport: 53, ds: 0, tcp: None }
}

fn v4() -> Build {
    udp("10.0.0.1", "192.0.2.1", 114)
}

fn v6() -> Build {
    udp("2001:db8::1", "2001:db8::2", 134)
}

/// The frame with `shim` between its addresses and its ethertype: tags, ending before the ethertype.
fn tagged(frame: &[u8], shim: &[u8]) -> Vec<u8> {
    [&frame[..12], shim, &frame[12..]].concat()
}

/// The frame with its ethertype replaced by `shim`: PPPoE, MPLS, or another ethertype.
fn behind(frame: &[u8], shim: &[u8]) -> Vec<u8> {
    [&frame[..12], shim, &frame[14..]].concat()
}

fn vlan(id: u16) -> [u8; 4] {
    let [high, low] = id.to_be_bytes();
    [0x81, 0, 0x60 | high, low]
}

fn pppoe(frame: &[u8]) -> Vec<u8> {
    let len = (frame.len() - 14 + 2) as u16;
    let protocol = if frame[12..14] == [8, 0] { 0x21 } else { 0x57 };
    behind(frame, &[&[0x88, 0x64, 0x11, 0, 0, 7][..], &len.to_be_bytes(), &[0, protocol]].concat())
}

/// An IPv4 frame with `options` in its IP header, lengths and checksum right.
fn with_options(frame: &[u8], options: &[u8]) -> Vec<u8> {
    let mut out = [&frame[..34], options, &frame[34..]].concat();
    out[14] += (options.len() / 4) as u8;
    let total = (out.len() - 14) as u16;
    out[16..18].copy_from_slice(&total.to_be_bytes());
    out[24..26].fill(0);
    let sum = checksum::of(&out[14..34 + options.len()]);
    out[24..26].copy_from_slice(&sum.to_be_bytes());
    out
}

/// `inner`, an IP packet, behind an IP header of its own.
fn tunnel(version: u8, protocol: u8, inner: &[u8]) -> Vec<u8> {
    let (src, dst, header) = if version == 4 { ("10.9.9.1", "10.9.9.2", 34) } else { ("fd00::1", "fd00::2", 54) };
    let mut frame = Build { protocol, ..udp(src, dst, (header + inner.len()) as u32) }.headers();
    frame.extend(inner);
    frame
}

fn keys(frame: &[u8]) -> FlowKeys {
    Headers::parse(frame).keys
}

fn record(frame: &[u8]) -> Packet {
    let mut packet = Packet::default();
    Headers::parse(frame).apply(&mut packet);
    packet
}

#[test]
fn what_is_built_says_what_was_asked_for() {
    let tcp = TcpFields { flags: 0x50, seq: 7, ack: 9, options: vec![1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6] };
    for (base, version) in [(v4(), 4), (v6(), 6)] {
        let build = Build { protocol: 6, ds: 0xB9, len: 1514, tcp: Some(tcp.clone()), ..base };
        let frame = build.headers();
        let headers = Headers::parse(&frame);
        assert_eq!((headers.ds, headers.net_offset, headers.net_len), (0xB9, 14, 1500));
        assert_eq!((headers.keys.version, headers.keys.protocol, headers.keys.ports), (version, 6, [1111, 53]));
        let segment = Segment::find(&frame[14..]).unwrap();
        assert_eq!((segment.tcp.flags(), segment.tcp.seq(), segment.tcp.ack()), (0x50, 7, 9));
        assert_eq!(segment.tcp.option_bytes(), tcp.options);
        assert_eq!(segment.payload_len as usize, 1514 - frame.len());
    }
    assert!(Ipv4::new_checked(&v4().headers()[14..]).unwrap().checksum_is_right());
}

#[test]
fn accounting_counts_from_ip_behind_tags_and_pppoe() {
    let plain = udp("10.0.0.1", "192.0.2.1", 1014).frame();
    let shapes = [
        (plain.clone(), 14),
        (tagged(&plain, &vlan(7)), 18),
        (tagged(&plain, &[&[0x88, 0xA8, 0, 3], &vlan(7)[..]].concat()), 22),
        (pppoe(&plain), 22),
        (tagged(&pppoe(&plain), &vlan(7)), 26),
        (behind(&plain, &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]), 22),
    ];
    for (frame, offset) in shapes {
        let headers = Headers::parse(&frame);
        assert_eq!((headers.net_offset, headers.net_len, headers.unparsed), (offset, 1000, false), "{frame:x?}");
        assert_eq!(frame.len() - usize::from(offset), 1000, "and so does the frame's length without it");
        assert_eq!(headers.keys.ports, [1111, 53]);
    }
}

#[test]
fn padding_does_not_count_as_ip() {
    let mut frame = udp("10.0.0.1", "192.0.2.1", 43).frame();
    frame.resize(60, 0xAA);
    assert_eq!(Headers::parse(&frame).net_len, 29);
    let mut short = Build { protocol: 253, ..udp("10.0.0.1", "192.0.2.1", 34) }.frame();
    short[23] = 17;
    short.resize(60, 0xAA);
    assert_eq!((keys(&short).protocol, keys(&short).ports), (17, [0, 0]), "ports are not taken from padding");
}

#[test]
fn the_ds_byte_is_that_of_the_outer_header_behind_tags_and_of_nothing_else() {
    for base in [v4(), v6()] {
        let plain = Build { ds: 0xBA, ..base }.frame();
        let version = if plain[12] == 8 { Network::V4 } else { Network::V6 };
        let outer = tunnel(4, if version == Network::V4 { 4 } else { 41 }, &plain[14..]);
        for (frame, network, ds) in [
            (plain.clone(), version, 0xBA),
            (tagged(&plain, &vlan(7)), version, 0xBA),
            (tagged(&plain, &[vlan(6), vlan(7)].concat()), version, 0xBA),
            (pppoe(&plain), Network::Other, 0),
            (behind(&plain, &[0x88, 0x47, 0, 2, 1, 64]), Network::Other, 0),
            (outer, Network::V4, 0),
        ] {
            let headers = Headers::parse(&frame);
            assert_eq!((headers.network, headers.ds), (network, ds), "{frame:x?}");
        }
    }
}

#[test]
fn the_same_address_on_two_vlans_is_two_hosts_unless_tags_are_ignored() {
    let plain = v4().frame();
    let (ten, twenty) = (tagged(&plain, &vlan(10)), tagged(&plain, &vlan(20)));
    let double = tagged(&plain, &[vlan(10), vlan(20)].concat());
    for mut hashing in [Hashing::Keyed([1, 2]), Hashing::Numbered(Numbering::default())] {
        let mut seen = std::collections::HashSet::new();
        for frame in [&plain, &ten, &twenty, &double] {
            assert!(seen.insert(hashing.src_host(&keys(frame))));
            assert!(seen.insert(hashing.flow(&keys(frame))));
        }
        for frame in [&ten, &twenty, &double] {
            let ignoring = Headers::parse_with(frame, ParseOptions { ignore_vlan: true });
            assert_eq!(ignoring.keys, keys(&plain));
        }
    }
    let other_priority = tagged(&plain, &[0x81, 0, 0xE0, 10]);
    assert_eq!(keys(&other_priority), keys(&ten), "the priority bits are no part of the key");
}

#[test]
fn ipv4_options_do_not_move_the_ports() {
    let plain = v4().frame();
    let alert = with_options(&plain, &[0x94, 4, 0, 0]);
    let most = with_options(&plain, &[1; 40]);
    assert_eq!(keys(&alert), keys(&plain));
    assert_eq!(keys(&most), keys(&plain));
    assert!(!Headers::parse(&most).unparsed);
}

#[test]
fn an_ipv4_header_length_of_four_words_is_unparsed_and_best_effort() {
    let mut frame = Build { ds: 0xB8, ..v4() }.frame();
    frame[14] = 0x44;
    let headers = Headers::parse(&frame);
    assert!(headers.unparsed);
    assert_eq!((headers.network, headers.ds, headers.net_offset), (Network::Other, 0, 14));
    assert_eq!(headers.keys, FlowKeys::default());
}

fn fragment_v4(frame: &[u8], offset_words: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut out = [&frame[..34], payload].concat();
    let total = (20 + payload.len()) as u16;
    out[16..18].copy_from_slice(&total.to_be_bytes());
    out[20..22].copy_from_slice(&(offset_words | u16::from(more) << 13).to_be_bytes());
    out.resize(out.len().max(60), 0);
    out
}

fn fragment_v6(frame: &[u8], offset_words: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let position = offset_words << 3 | u16::from(more);
    let extension = [&[17, 0][..], &position.to_be_bytes(), &[0, 0, 0, 9]].concat();
    let mut out = [&frame[..54], &extension, payload].concat();
    out[18..20].copy_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
    out[20] = 44;
    out
}

#[test]
fn all_fragments_of_a_datagram_share_one_key_without_ports() {
    let (four, six) = (v4().frame(), v6().frame());
    let first = |f: &[u8], at| [&f[at..at + 8], &[0; 1472][..]].concat();
    let fragments = [
        [
            fragment_v4(&four, 0, true, &first(&four, 34)),
            fragment_v4(&four, 185, true, &[7; 1480]),
            fragment_v4(&four, 370, false, &[7; 8]),
        ],
        [
            fragment_v6(&six, 0, true, &first(&six, 54)),
            fragment_v6(&six, 185, true, &[7; 1480]),
            fragment_v6(&six, 370, false, &[7; 8]),
        ],
    ];
    for ([first, middle, last], whole) in fragments.iter().zip([four, six]) {
        assert_eq!((keys(first).ports, keys(first).protocol), ([0, 0], 17));
        assert_eq!(keys(first), keys(middle));
        assert_eq!(keys(first), keys(last));
        assert_ne!(keys(first), keys(&whole));
    }
    let last = Headers::parse(&fragments[0][2]);
    assert_eq!((fragments[0][2].len(), last.net_len, last.unparsed), (60, 28, false));
}

#[test]
fn a_flow_label_stands_in_for_the_ports() {
    let mut frame = v6().frame();
    frame[17] = 5;
    let labelled = keys(&frame);
    assert_eq!((labelled.label, labelled.ports, labelled.protocol), (5, [0, 0], 17));
    let plain = frame[14..].to_vec();
    let inside = keys(&tunnel(4, 41, &plain));
    assert_eq!(inside, labelled, "also inside IPv4");
}

#[test]
fn extension_headers_are_stepped_over() {
    let plain = v6().frame();
    let hop = [60, 0, 1, 4, 0, 0, 0, 0];
    let destination = [43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing = [51, 0, 0, 0, 0, 0, 0, 0];
    let authentication = [17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let chain = [&hop[..], &destination, &routing, &authentication].concat();
    let mut frame = [&plain[..54], &chain, &plain[54..]].concat();
    frame[20] = 0;
    let len = (frame.len() - 54) as u16;
    frame[18..20].copy_from_slice(&len.to_be_bytes());
    assert_eq!(keys(&frame), keys(&plain));
    for cut in 55..54 + chain.len() {
        let cut = keys(&frame[..cut]);
        assert_eq!((cut.src, cut.ports), (keys(&plain).src, [0, 0]));
    }
    frame[18..20].copy_from_slice(&8u16.to_be_bytes());
    assert_eq!((keys(&frame).protocol, keys(&frame).ports), (60, [0, 0]), "the payload length ends the chain");
}

#[test]
fn a_flow_in_a_tunnel_is_the_inner_flow() {
    let (four, six) = (v4().frame(), v6().frame());
    assert_eq!(keys(&tunnel(4, 4, &four[14..])), keys(&four));
    assert_eq!(keys(&tunnel(4, 41, &six[14..])), keys(&six));
    assert_eq!(keys(&tunnel(6, 4, &four[14..])), keys(&four));
    assert_eq!(keys(&tunnel(6, 41, &six[14..])), keys(&six));
    let twice = tunnel(4, 41, &tunnel(6, 4, &four[14..])[14..]);
    assert_eq!(keys(&twice), keys(&four));

    let gre = |flags: u8, options: &[u8]| [&[flags, 0, 8, 0], options, &four[14..]].concat();
    assert_eq!(keys(&tunnel(4, 47, &gre(0, &[]))), keys(&four));
    assert_eq!(keys(&tunnel(4, 47, &gre(0x90, &[0; 8]))), keys(&four));
    let keyed = keys(&tunnel(4, 47, &gre(0xB0, &[0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0])));
    assert_eq!(keyed, FlowKeys { label: 77, ..keys(&four) });
}

#[test]
fn a_tunnel_that_cannot_be_read_further_is_a_flow_of_its_ends() {
    let outer = |frame: &[u8]| {
        let k = keys(frame);
        assert!(!Headers::parse(frame).unparsed);
        (k.src[..4].to_vec(), k.protocol, k.ports)
    };
    let ends = |protocol: u8| (vec![10, 9, 9, 1], protocol, [0, 0]);
    let four = v4().frame();
    assert_eq!(outer(&tunnel(4, 4, &four[14..30])), ends(4), "inner header cut off");
    assert_eq!(outer(&tunnel(4, 41, &four[14..])), ends(41), "another version inside");
    assert_eq!(outer(&tunnel(4, 47, &[0x40, 0, 8, 0, 0, 0, 0, 0])), ends(47), "source routing");
    assert_eq!(outer(&tunnel(4, 47, &[0, 1, 8, 0, 0, 0, 0, 0])), ends(47), "version 1");
    assert_eq!(outer(&tunnel(4, 47, &[0, 0, 0x65, 0x58, 0, 0, 0, 0])), ends(47), "bridged Ethernet");
    assert_eq!(outer(&tunnel(4, 47, &[0])), ends(47), "cut off");
}

#[test]
fn tunnels_inside_each_other_end_somewhere() {
    let mut packet = v4().frame()[14..].to_vec();
    for _ in 0..40 {
        packet = tunnel(4, 4, &packet)[14..].to_vec();
    }
    let k = keys(&tunnel(4, 4, &packet));
    assert_eq!((k.protocol, k.ports), (4, [0, 0]));
}

#[test]
fn icmp_types_and_identifiers_are_no_part_of_the_key() {
    for (base, protocol) in [(v4(), 1), (v6(), 58)] {
        let one = Build { protocol, ..base.clone() }.frame();
        let other = Build { protocol, sport: 9, dport: 8, ..base }.frame();
        assert_ne!(one, other);
        assert_eq!(keys(&one), keys(&other));
        assert_eq!(keys(&one).protocol, protocol);
    }
}

#[test]
fn arp_is_arp_behind_tags_too() {
    let arp = [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
    assert_eq!(Headers::parse(&arp).network, Network::Arp);
    assert_eq!(Headers::parse(&tagged(&arp, &vlan(3))).network, Network::Arp);
    assert_eq!(Arp::new_checked(&arp[14..]).unwrap().operation(), 1);
    assert!(Arp::new_checked(&arp[14..41]).is_err());
    assert!(!ecn::set_ce(&mut record(&arp)));
}

#[test]
fn ce_is_set_where_it_can_be_and_reported_where_it_was() {
    for (before, after, marked) in [(0xB8, 0xB8, false), (0xB9, 0xBB, true), (0xBA, 0xBB, true), (0xBB, 0xBB, true)] {
        for base in [v4(), v6()] {
            let mut packet = record(&Build { ds: before, ..base }.frame());
            assert_eq!((ecn::set_ce(&mut packet), packet.ds, packet.ds_arrived), (marked, after, before));
        }
    }
    let mut other = record(&pppoe(&Build { ds: 2, ..v4() }.frame()));
    other.ds = 2;
    assert!(!ecn::set_ce(&mut other));
    ecn::wash(&mut other);
    assert_eq!(other.ds, 2, "what has no DS byte has none to change");
}

#[test]
fn a_washed_frame_in_a_vlan_loses_its_code_point_and_nothing_else() {
    for base in [v4(), v6()] {
        let frame = tagged(&Build { ds: 0xB9, ..base }.frame(), &vlan(100));
        let mut packet = record(&frame);
        assert_eq!(packet.dscp(), 46);
        ecn::wash(&mut packet);
        let mut written = frame.clone();
        assert!(ecn::write_ds(&mut written, &packet));
        assert_eq!(Headers::parse(&written).ds, 1);
        if packet.network == Network::V4 {
            assert!(Ipv4::new_checked(&written[18..]).unwrap().checksum_is_right());
        }
        packet.ds = 0xB9;
        packet.ds_arrived = 1;
        assert!(ecn::write_ds(&mut written, &packet));
        assert_eq!(written, frame, "all the rest stayed as it was");
    }
}

/// An IPv4 header with this DS byte whose right checksum is `want`: the identification makes it so.
fn header_with_checksum(ds: u8, want: u16) -> Vec<u8> {
    let mut header = v4().headers()[14..34].to_vec();
    header[1] = ds;
    header[10..12].fill(0);
    let id = !checksum::update(want, 0xFFFF, checksum::of(&header));
    header[4..6].copy_from_slice(&id.to_be_bytes());
    assert_eq!(checksum::of(&header), want);
    header[10..12].copy_from_slice(&want.to_be_bytes());
    header
}

#[test]
fn the_checksum_is_right_for_every_change_of_the_ds_byte() {
    // 0x0000 and 0xFFFE are the ends of what a right header checksum can be: 0xFFFF would need a header
    // of zeros.
    for want in [0x0000, 0x0001, 0x00FF, 0x4500, 0x8000, 0xFF00, 0xFFFE] {
        for old in 0..=255u8 {
            let header = header_with_checksum(old, want);
            for new in 0..=255u8 {
                let mut changed = header.clone();
                Ipv4::new_checked(&mut changed[..]).unwrap().set_ds(new);
                let mut fresh = changed.clone();
                fresh[10..12].fill(0);
                assert_eq!(changed[10..12], checksum::of(&fresh).to_be_bytes(), "{want:x}: {old:x} to {new:x}");
                Ipv4::new_checked(&mut changed[..]).unwrap().set_ds(old);
                assert_eq!(changed, header, "and back, bit for bit");
            }
        }
    }
}

#[test]
fn a_checksum_of_all_ones_is_taken_as_the_zero_it_stands_for() {
    let mut header = header_with_checksum(2, 0x0000);
    header[10..12].fill(0xFF);
    assert!(Ipv4::new_checked(&header[..]).unwrap().checksum_is_right());
    Ipv4::new_checked(&mut header[..]).unwrap().set_ds(3);
    let mut fresh = header.clone();
    fresh[10..12].fill(0);
    assert_eq!(header[10..12], checksum::of(&fresh).to_be_bytes());
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut header = v4().headers()[14..34].to_vec();
    header[11] ^= 4;
    Ipv4::new_checked(&mut header[..]).unwrap().set_ds(3);
    assert!(!Ipv4::new_checked(&header[..]).unwrap().checksum_is_right());
}

#[test]
fn the_ipv6_traffic_class_changes_without_version_and_label() {
    let mut header = v6().headers()[14..54].to_vec();
    header[1..4].copy_from_slice(&[0x0A, 0xBC, 0xDE]);
    for ds in 0..=255u8 {
        let mut changed = header.clone();
        Ipv6::new_checked(&mut changed[..]).unwrap().set_ds(ds);
        let lens = Ipv6::new_checked(&changed[..]).unwrap();
        assert_eq!((lens.ds(), lens.flow_label()), (ds, 0xABCDE));
        assert_eq!(changed[0] >> 4, 6);
        assert_eq!(changed[4..], header[4..]);
    }
}

/// Frames that are nobody's IP, or broken.
fn odd_shapes() -> Vec<(&'static str, Vec<u8>, bool)> {
    let plain = v4().frame();
    let mut long_tags = plain[..12].to_vec();
    (0..30).for_each(|n| long_tags.extend(vlan(n)));
    let mac = |a: [u8; 6]| [&a[..], &[2, 0, 0, 0, 0, 1]].concat();
    vec![
        ("nothing", vec![], true),
        ("one byte", vec![0xFF], true),
        ("thirteen bytes", plain[..13].to_vec(), true),
        ("no more than an Ethernet header", plain[..14].to_vec(), true),
        ("a tag cut off", [&plain[..12], &[0x81, 0, 0]].concat(), true),
        ("nothing but tags", long_tags, true),
        ("IPv4 header cut off", plain[..33].to_vec(), true),
        ("IPv4 total length below the header", behind(&plain, &[8, 0, 0x45, 0, 0, 19]), true),
        ("IPv6 under IPv4's ethertype", behind(&v6().frame(), &[8, 0]), true),
        ("IPv6 header cut off", v6().frame()[..53].to_vec(), true),
        ("PPPoE cut off", pppoe(&plain)[..20].to_vec(), true),
        ("PPPoE of another version", behind(&plain, &[0x88, 0x64, 0x21, 0, 0, 7, 0, 80, 0, 0x21]), true),
        ("MPLS without bottom", behind(&plain[..14], &[0x88, 0x47, 0, 2, 0, 64]), true),
        ("PPP LCP", behind(&plain, &[0x88, 0x64, 0x11, 0, 0, 7, 0, 10, 0xC0, 0x21]), false),
        ("MPLS with Ethernet inside", behind(&plain, &[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0]), false),
        ("LLDP", [mac([1, 0x80, 0xC2, 0, 0, 0x0E]), vec![0x88, 0xCC, 2, 7, 4]].concat(), false),
        ("STP", [mac([1, 0x80, 0xC2, 0, 0, 0]), vec![0, 38, 0x42, 0x42, 3], vec![0; 43]].concat(), false),
        ("an ethertype nobody knows", [mac([2; 6]), vec![0x12, 0x34], vec![9; 46]].concat(), false),
    ]
}

#[test]
fn frames_of_every_odd_shape_are_best_effort_and_leave_as_they_came() {
    for (name, frame, unparsed) in odd_shapes() {
        let headers = Headers::parse(&frame);
        assert_eq!((headers.unparsed, headers.network, headers.ds), (unparsed, Network::Other, 0), "{name}");
        assert!(usize::from(headers.net_offset) <= frame.len(), "{name}");
        let mut packet = record(&frame);
        assert!(!ecn::set_ce(&mut packet), "{name}");
        ecn::wash(&mut packet);
        let mut written = frame.clone();
        assert!(!ecn::write_ds(&mut written, &packet), "{name}");
        packet.ds = 0xFF;
        assert!(!ecn::write_ds(&mut written, &packet), "{name}");
        assert_eq!(written, frame, "{name}");
    }
}

#[test]
fn a_record_that_belongs_to_another_frame_writes_nothing() {
    let mut packet = record(&v4().frame());
    packet.ds = 3;
    for mut frame in [v6().frame(), v4().frame()[..30].to_vec(), vec![]] {
        let before = frame.clone();
        assert!(!ecn::write_ds(&mut frame, &packet));
        assert_eq!(frame, before);
    }
}

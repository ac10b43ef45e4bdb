//! The lenses against `etherparse`, on frames as built, damaged and cut, and on noise.

use etherparse::{
    ArpPacketSlice, Ethernet2HeaderSlice, Ipv4HeaderSlice, Ipv6HeaderSlice, LaxNetSlice, LaxSlicedPacket,
    PacketBuilder, SingleVlanHeaderSlice, TcpHeaderSlice, TcpOptionElement, TransportSlice, UdpHeaderSlice, VlanId,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use weir::classify::Headers;
use weir::mark::ecn;
use weir::packet::{Network, Packet};
use weir::wire::ethernet::{Arp, Ethernet, Tag};
use weir::wire::ipv4::Ipv4;
use weir::wire::ipv6::Ipv6;
use weir::wire::tcp_options::{SackBlock, TcpOptions, Timestamp, kind};
use weir::wire::transport::{Tcp, Udp, flag};

/// Frames that etherparse builds.
fn built() -> impl Strategy<Value = Vec<u8>> {
    let tags = vec(0u16..4096, 0..3);
    let payload = vec(any::<u8>(), 0..40);
    let options = vec(any::<u8>(), 0..=40);
    let shape = (any::<bool>(), 0u8..3, any::<u8>(), 0u8..3);
    (shape, tags, any::<[u8; 32]>(), any::<[u16; 2]>(), options, payload).prop_map(
        |((v6, transport, ds, fragments), tags, a, [sport, dport], mut options, payload)| {
            let link = PacketBuilder::ethernet2([1; 6], [2; 6]);
            let network: etherparse::IpHeaders = if v6 {
                let mut header = etherparse::Ipv6Header {
                    hop_limit: 3,
                    source: a[..16].try_into().unwrap(),
                    destination: a[16..].try_into().unwrap(),
                    ..Default::default()
                };
                header.set_dscp((ds >> 2).try_into().unwrap());
                header.set_ecn((ds & 3).try_into().unwrap());
                let mut extensions = etherparse::Ipv6Extensions::default();
                let extension = etherparse::Ipv6RawExtHeader::new_raw(59.into(), &[0; 14]).unwrap();
                if fragments == 1 {
                    extensions.hop_by_hop_options = Some(extension.clone());
                    extensions.destination_options = Some(extension);
                } else if fragments == 2 {
                    extensions.fragment =
                        Some(etherparse::Ipv6FragmentHeader::new(59.into(), etherparse::IpFragOffset::ZERO, true, 5));
                }
                etherparse::IpHeaders::Ipv6(header, extensions)
            } else {
                let mut header = etherparse::Ipv4Header {
                    source: a[..4].try_into().unwrap(),
                    destination: a[16..20].try_into().unwrap(),
                    more_fragments: fragments == 2,
                    dscp: (ds >> 2).try_into().unwrap(),
                    ecn: (ds & 3).try_into().unwrap(),
                    time_to_live: 9,
                    ..Default::default()
                };
                if fragments == 1 {
                    options.truncate(options.len() / 4 * 4);
                    header.options = options[..].try_into().unwrap();
                }
                etherparse::IpHeaders::Ipv4(header, Default::default())
            };
            let id = |n: usize| VlanId::try_new(tags[n]).unwrap();
            let step = match tags.len() {
                0 => link.ip(network),
                1 => link.single_vlan(id(0)).ip(network),
                _ => link.double_vlan(id(0), id(1)).ip(network),
            };
            let mut out = Vec::new();
            match transport {
                0 => step.udp(sport, dport).write(&mut out, &payload),
                1 => step.tcp(sport, dport, 5, 6).write(&mut out, &payload),
                _ => step.icmpv4_echo_request(sport, dport).write(&mut out, &payload),
            }
            .unwrap();
            out
        },
    )
}

/// The same with a few bytes changed, and cut.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (built(), vec((any::<Index>(), any::<u8>()), 0..3), prop::option::of(any::<Index>())).prop_map(
        |(mut frame, damage, cut)| {
            for (at, byte) in damage {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        },
    )
}

/// Bytes whose first is more often than not that of a header.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    (prop_oneof![Just(0x45u8), Just(0x60), Just(0x46), any::<u8>()], vec(any::<u8>(), 0..90)).prop_map(
        |(first, mut b)| {
            if let Some(b) = b.first_mut() {
                *b = first;
            }
            b
        },
    )
}

fn four(address: [u8; 16]) -> [u8; 4] {
    address[..4].try_into().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn headers_say_what_etherparse_says(frame in damaged()) {
        let ours = Headers::parse(&frame);
        let Ok(theirs) = LaxSlicedPacket::from_ethernet(&frame) else {
            prop_assert!(ours.unparsed);
            return Ok(());
        };
        if ours.unparsed || ours.network == Network::Other {
            return Ok(());
        }
        let vlan = theirs.vlan_ids().iter().fold(0, |v, id| v << 12 | u32::from(id.value()));
        prop_assert_eq!(ours.keys.vlan, vlan);
        match &theirs.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let header = ip.header();
                prop_assert_eq!(ours.network, Network::V4);
                prop_assert_eq!(ours.ds, header.dcp().value() << 2 | header.ecn().value());
                prop_assert_eq!(ours.net_len, u32::from(header.total_len()));
                prop_assert_eq!(&frame[ours.net_offset.into()..][..header.slice().len()], header.slice());
                if !matches!(header.protocol().0, 4 | 41 | 47) {
                    prop_assert_eq!(four(ours.keys.src), header.source());
                    prop_assert_eq!(four(ours.keys.dst), header.destination());
                    prop_assert_eq!(ours.keys.protocol, header.protocol().0);
                }
                prop_assert!(!ip.is_payload_fragmented() || ours.keys.ports == [0, 0]);
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                let header = ip.header();
                prop_assert_eq!(ours.network, Network::V6);
                prop_assert_eq!(ours.ds, header.traffic_class());
                prop_assert_eq!(ours.keys.label, header.flow_label().value());
                prop_assert_eq!(&frame[ours.net_offset.into()..][..40], header.slice());
                if header.flow_label().value() == 0 && !matches!(ip.payload().ip_number.0, 4 | 41 | 47) {
                    prop_assert_eq!(ours.keys.src, header.source());
                    prop_assert_eq!(ours.keys.dst, header.destination());
                    if theirs.stop_err.is_none() {
                        prop_assert_eq!(ours.keys.protocol, ip.payload().ip_number.0);
                    }
                }
            }
            Some(LaxNetSlice::Arp(_)) => prop_assert_eq!(ours.network, Network::Arp),
            None => prop_assert_eq!(ours.network, Network::Arp, "only a cut ARP packet is nothing to etherparse"),
        }
        let ports = match &theirs.transport {
            Some(TransportSlice::Tcp(t)) => [t.source_port(), t.destination_port()],
            Some(TransportSlice::Udp(u)) => [u.source_port(), u.destination_port()],
            _ => return Ok(()),
        };
        // Labelled packets, fragments of a fragment that is all there is, and cut headers have none here.
        if ours.keys.ports != [0, 0] {
            prop_assert_eq!(ours.keys.ports, ports);
        }
    }

    #[test]
    fn whole_frames_give_their_ports(frame in built()) {
        let ours = Headers::parse(&frame);
        prop_assert!(!ours.unparsed);
        let theirs = LaxSlicedPacket::from_ethernet(&frame).unwrap();
        let expected = match &theirs.transport {
            Some(TransportSlice::Tcp(t)) => [t.source_port(), t.destination_port()],
            Some(TransportSlice::Udp(u)) => [u.source_port(), u.destination_port()],
            _ => [0, 0],
        };
        prop_assert_eq!(ours.keys.ports, expected);
    }

    #[test]
    fn a_new_ds_byte_changes_nothing_else(frame in damaged(), ds: u8) {
        let headers = Headers::parse(&frame);
        let mut packet = Packet::default();
        headers.apply(&mut packet);
        packet.ds = ds;
        let mut written = frame.clone();
        let changed = ecn::write_ds(&mut written, &packet);
        prop_assert_eq!(changed, packet.has_ds() && ds != headers.ds);
        let differ: Vec<usize> =
            (0..frame.len()).filter(|i| frame[*i] != written[*i]).map(|i| i - usize::from(headers.net_offset)).collect();
        match headers.network {
            Network::V4 => prop_assert!(differ.iter().all(|i| [1, 10, 11].contains(i))),
            Network::V6 => prop_assert!(differ.iter().all(|i| *i < 2)),
            _ => prop_assert!(differ.is_empty()),
        }
        let again = Headers::parse(&written);
        prop_assert_eq!(again, Headers { ds: if changed { ds } else { headers.ds }, ..headers });
        if headers.network == Network::V4 {
            let at = usize::from(headers.net_offset);
            let right = |f: &[u8]| Ipv4::new_checked(&f[at..]).unwrap().checksum_is_right();
            prop_assert_eq!(right(&frame), right(&written));
        }
    }

    #[test]
    fn ipv4_headers_agree(b in noise()) {
        let theirs = Ipv4HeaderSlice::from_slice(&b);
        let ours = Ipv4::new_checked(&b[..]);
        let possible = theirs.as_ref().is_ok_and(|t| usize::from(t.total_len()) >= t.slice().len());
        prop_assert_eq!(ours.is_ok(), possible);
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.header_len(), theirs.slice().len());
            prop_assert_eq!(ours.total_len(), theirs.total_len());
            prop_assert_eq!(ours.is_fragment(), theirs.is_fragmenting_payload());
            prop_assert_eq!((ours.ttl(), ours.protocol()), (theirs.ttl(), theirs.protocol().0));
            prop_assert_eq!((ours.source(), ours.destination()), (theirs.source(), theirs.destination()));
            prop_assert_eq!(ours.checksum(), theirs.header_checksum());
            // etherparse counts the reserved flag as zero, and knows only one of the two zeros of RFC 1071.
            if b[6] & 0x80 == 0 {
                let (wanted, found) = (theirs.to_header().calc_header_checksum(), theirs.header_checksum());
                prop_assert_eq!(ours.checksum_is_right(), wanted == found || (wanted, found) == (0, 0xffff));
            }
            prop_assert!(ours.payload().len() <= b.len() - ours.header_len());
        }
    }

    #[test]
    fn ipv6_headers_agree(b in noise()) {
        let theirs = Ipv6HeaderSlice::from_slice(&b);
        let ours = Ipv6::new_checked(&b[..]);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!((ours.ds(), ours.flow_label()), (theirs.traffic_class(), theirs.flow_label().value()));
            prop_assert_eq!((ours.payload_len(), ours.next_header()), (theirs.payload_length(), theirs.next_header().0));
            prop_assert_eq!((ours.source(), ours.destination()), (theirs.source(), theirs.destination()));
            prop_assert_eq!(ours.hop_limit(), theirs.hop_limit());
        }
    }

    #[test]
    fn link_headers_agree(b in noise()) {
        let ours = Ethernet::new_checked(&b[..]);
        let theirs = Ethernet2HeaderSlice::from_slice(&b);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!((ours.source(), ours.destination()), (theirs.source(), theirs.destination()));
            prop_assert_eq!(ours.ethertype(), theirs.ether_type().0);
        }
        let ours = Tag::new_checked(&b[..]);
        let theirs = SingleVlanHeaderSlice::from_slice(&b);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!((ours.vlan(), ours.ethertype()), (theirs.vlan_identifier().value(), theirs.ether_type().0));
            prop_assert_eq!(ours.priority(), theirs.priority_code_point().value());
        }
        let ours = Arp::new_checked(&b[..]);
        let theirs = ArpPacketSlice::from_slice(&b);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!((ours.hardware(), ours.protocol()), (theirs.hw_addr_type().0, theirs.proto_addr_type().0));
            prop_assert_eq!(ours.operation(), theirs.operation().0);
            prop_assert_eq!((ours.sender(), ours.target()), (theirs.sender_protocol_addr(), theirs.target_protocol_addr()));
        }
    }

    #[test]
    fn transport_headers_agree(b in noise()) {
        let ours = Udp::new_checked(&b[..]);
        let theirs = UdpHeaderSlice::from_slice(&b);
        prop_assert_eq!(ours.is_ok(), theirs.as_ref().is_ok_and(|t| t.length() >= 8));
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!((ours.source_port(), ours.destination_port()), (theirs.source_port(), theirs.destination_port()));
            prop_assert_eq!(ours.datagram_len(), theirs.length());
        }
        let ours = Tcp::new_checked(&b[..]);
        let theirs = TcpHeaderSlice::from_slice(&b);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(t)) = (ours, theirs) {
            prop_assert_eq!((ours.source_port(), ours.destination_port()), (t.source_port(), t.destination_port()));
            prop_assert_eq!((ours.seq(), ours.ack()), (t.sequence_number(), t.acknowledgment_number()));
            prop_assert_eq!((ours.header_len(), ours.window()), (t.slice().len(), t.window_size()));
            prop_assert_eq!(ours.option_bytes(), t.options());
            let bits = [t.fin(), t.syn(), t.rst(), t.psh(), t.ack(), t.urg(), t.ece(), t.cwr(), t.ns()];
            let names =
                [flag::FIN, flag::SYN, flag::RST, flag::PSH, flag::ACK, flag::URG, flag::ECE, flag::CWR, flag::AE];
            for (bit, name) in bits.into_iter().zip(names) {
                prop_assert_eq!(ours.flags() & name != 0, bit);
            }
            prop_assert_eq!(ours.flags() >> 9, u16::from(b[12] >> 1 & 7), "the reserved bits");
        }
    }

    /// Options as people send them: both walkers see the same, up to the first that either refuses.
    #[test]
    fn options_agree(list in vec(0usize..7, 0..8), values: [u32; 8], junk in vec(any::<u8>(), 0..5)) {
        let word = |n: usize| values[n].to_be_bytes();
        let mut bytes = Vec::new();
        for choice in list {
            let option: Vec<u8> = match choice {
                0 => vec![1],
                1 => vec![2, 4, 5, 180],
                2 => vec![3, 3, 7],
                3 => vec![4, 2],
                4 => [&[5, 10], &word(0)[..], &word(1)].concat(),
                5 => [&[5, 18], &word(2)[..], &word(3), &word(4), &word(5)].concat(),
                _ => [&[8, 10], &word(6)[..], &word(7)].concat(),
            };
            bytes.extend(option);
        }
        bytes.extend(junk);
        let theirs: Vec<TcpOptionElement> = etherparse::TcpOptionsIterator::from_slice(&bytes)
            .map_while(Result::ok)
            .filter(|o| *o != TcpOptionElement::Noop)
            .collect();
        let ours = TcpOptions::new(&bytes);
        for (ours, theirs) in ours.zip(&theirs) {
            match *theirs {
                TcpOptionElement::Timestamp(value, echo) => {
                    prop_assert_eq!(ours.timestamp(), Some(Timestamp { value, echo }));
                }
                TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                    let blocks: Vec<SackBlock> = std::iter::once(first)
                        .chain(rest.into_iter().flatten())
                        .map(|(start, end)| SackBlock { start, end })
                        .collect();
                    prop_assert_eq!(ours.sack_blocks().collect::<Vec<_>>(), blocks);
                }
                TcpOptionElement::MaximumSegmentSize(_) => prop_assert_eq!((ours.kind, ours.len()), (2, 4)),
                TcpOptionElement::WindowScale(_) => prop_assert_eq!((ours.kind, ours.len()), (3, 3)),
                TcpOptionElement::SelectiveAcknowledgementPermitted => {
                    prop_assert_eq!((ours.kind, ours.is_empty()), (4, true));
                }
                TcpOptionElement::Noop => unreachable!("filtered above"),
            }
        }
        prop_assert!(ours.count() >= theirs.len());
    }

    #[test]
    fn an_option_walk_takes_at_least_two_bytes_a_step_and_stays_inside(bytes in vec(any::<u8>(), 0..=40)) {
        let mut walk = TcpOptions::new(&bytes);
        let taken: usize = walk.by_ref().map(|o| o.len()).sum();
        prop_assert!(taken <= bytes.len());
        prop_assert!(walk.next().is_none(), "an ended walk stays ended");
    }
}

/// An ACK with these option bytes, padded by what `fill` says.
fn ack_with(options: &[u8], data_offset: u8) -> Vec<u8> {
    let mut b = [&[0; 12][..], &[data_offset << 4, 0x10, 0, 0, 0, 0, 0, 0], options].concat();
    b.resize(b.len().max(20), 0);
    b
}

#[test]
fn a_data_offset_below_five_is_no_tcp_header() {
    for offset in 0..5 {
        assert!(Tcp::new_checked(&ack_with(&[], offset)[..]).is_err());
    }
    assert!(Tcp::new_checked(&ack_with(&[], 5)[..]).is_ok());
    assert!(Tcp::new_checked(&ack_with(&[], 6)[..]).is_err(), "options outside the slice");
}

#[test]
fn an_option_of_impossible_length_ends_the_walk_where_it_stands() {
    for len in [0, 1, 11, 255] {
        let options = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, len, 0, 0, 0, 3, 0, 0, 0, 4];
        let mut walk = TcpOptions::new(&options);
        assert_eq!(walk.next().map(|o| o.kind), Some(kind::SACK));
        assert!(!walk.is_malformed());
        assert_eq!(walk.next(), None);
        assert!(walk.is_malformed(), "length {len}");
        assert_eq!(TcpOptions::new(&options).timestamp(), None);
        assert_eq!(TcpOptions::new(&options).sack().map(|o| o.len()), Some(10));
    }
}

#[test]
fn options_may_end_on_the_last_byte() {
    let whole = [8, 10, 0, 0, 0, 3, 0, 0, 0, 4, 4, 2];
    let mut walk = TcpOptions::new(&whole);
    assert_eq!(walk.next().unwrap().timestamp(), Some(Timestamp { value: 3, echo: 4 }));
    assert_eq!(walk.next().map(|o| o.kind), Some(4));
    assert_eq!(walk.next(), None);
    assert!(!walk.is_malformed());
    let mut lone = TcpOptions::new(&[1, 1, 1, 8]);
    assert_eq!(lone.next(), None);
    assert!(lone.is_malformed(), "a kind without a length");
}

#[test]
fn nothing_is_read_behind_the_end_of_list() {
    let mut walk = TcpOptions::new(&[1, 0, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4]);
    assert_eq!(walk.next(), None);
    assert!(!walk.is_malformed());
}

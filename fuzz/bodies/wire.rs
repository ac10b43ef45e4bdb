//! What must hold for any bytes as a frame. Run by the fuzz target of the same name, and by
//! `tests/wire_corpus.rs` over the corpus.

use weir::classify::{Hashing, Headers, Numbering, ParseOptions};
use weir::mark::ecn;
use weir::packet::{Network, Packet};
use weir::wire::ethernet::{Arp, Ethernet, Mpls, Pppoe, Tag};
use weir::wire::ipv4::Ipv4;
use weir::wire::ipv6::{Ipv6, skip_extensions};
use weir::wire::tcp_options::TcpOptions;
use weir::wire::transport::{Segment, Tcp, Udp};
use weir::wire::tunnel::Gre;

/// Panics if anything does not hold.
pub(crate) fn run(frame: &[u8]) {
    let headers = Headers::parse(frame);
    keys_are_whole(frame, &headers);
    marking_touches_nothing_else(frame, &headers);
    for start in 0..frame.len().min(64) {
        lenses_stay_inside(&frame[start..]);
    }
}

fn keys_are_whole(frame: &[u8], headers: &Headers) {
    assert!(usize::from(headers.net_offset) <= frame.len());
    assert!(!headers.unparsed || headers.network == Network::Other);
    assert!(headers.network != Network::Other || headers.ds == 0);

    let ignoring = Headers::parse_with(frame, ParseOptions { ignore_vlan: true });
    let mut expected = *headers;
    expected.keys.vlan = 0;
    assert_eq!(ignoring, expected);

    let mut back = headers.keys;
    (back.src, back.dst) = (back.dst, back.src);
    back.ports.swap(0, 1);
    for mut hashing in [Hashing::Keyed([1, 2]), Hashing::Numbered(Numbering::default())] {
        assert_eq!(hashing.flow(&headers.keys), hashing.flow(&back));
        assert_eq!(hashing.src_host(&headers.keys), hashing.dst_host(&back));
    }
}

fn marking_touches_nothing_else(frame: &[u8], headers: &Headers) {
    let mut packet = Packet::default();
    headers.apply(&mut packet);
    let mut written = frame.to_vec();
    assert!(!ecn::write_ds(&mut written, &packet));
    assert_eq!(written, frame);

    ecn::wash(&mut packet);
    let marked = ecn::set_ce(&mut packet);
    assert_eq!(marked, packet.has_ds() && headers.ds & 3 != 0);
    let changed = ecn::write_ds(&mut written, &packet);
    assert_eq!(changed, packet.ds != headers.ds);
    assert_eq!(Headers::parse(&written), Headers { ds: packet.ds, ..*headers });
    let at = usize::from(headers.net_offset);
    match headers.network {
        Network::V4 => {
            written[at + 1] = frame[at + 1];
            written[at + 10..at + 12].copy_from_slice(&frame[at + 10..at + 12]);
        }
        Network::V6 => written[at..at + 2].copy_from_slice(&frame[at..at + 2]),
        Network::Other | Network::Arp => {}
    }
    assert_eq!(written, frame);
}

/// Lays every lens on the bytes and reads every field.
fn lenses_stay_inside(bytes: &[u8]) {
    let _ = Ethernet::new_checked(bytes).map(|l| (l.source(), l.destination(), l.ethertype()));
    let _ = Tag::new_checked(bytes).map(|l| (l.vlan(), l.priority(), l.ethertype()));
    let _ = Pppoe::new_checked(bytes).map(|l| (l.session(), l.len(), l.is_empty(), l.protocol()));
    let _ = Mpls::new_checked(bytes).map(|l| (l.label(), l.traffic_class(), l.is_bottom(), l.ttl()));
    let _ = Gre::new_checked(bytes).map(|l| (l.header_len() <= bytes.len(), l.protocol(), l.key()));
    let _ = Udp::new_checked(bytes).map(|l| (l.source_port(), l.destination_port(), l.datagram_len()));
    if let Ok(l) = Arp::new_checked(bytes) {
        let _ = (l.hardware(), l.protocol(), l.operation(), l.sender(), l.target());
    }
    if let Ok(l) = Ipv4::new_checked(bytes) {
        let _ = (l.source(), l.destination(), l.ttl(), l.is_fragment(), l.checksum_is_right());
        assert!(l.header_len() + l.payload().len() <= bytes.len().min(l.total_len().into()));
    }
    if let Ok(l) = Ipv6::new_checked(bytes) {
        let _ = (l.source(), l.destination(), l.hop_limit(), l.flow_label(), l.ds());
        let upper = skip_extensions(l.next_header(), l.payload());
        assert!(upper.bytes.len() <= l.payload().len());
    }
    if let Ok(l) = Tcp::new_checked(bytes) {
        let _ = (l.seq(), l.ack(), l.flags(), l.window());
        assert_eq!(l.header_len(), 20 + l.option_bytes().len());
        options_end(l.options(), l.option_bytes().len());
    }
    options_end(TcpOptions::new(bytes), bytes.len());
    if let Some(segment) = Segment::find(bytes) {
        assert!(segment.same_connection(&segment));
        assert!(segment.payload_len <= u16::MAX.into());
    }
}

fn options_end(mut walk: TcpOptions<'_>, len: usize) {
    let _ = (walk.timestamp(), walk.sack().map(|o| o.sack_blocks().count()));
    let taken: usize = walk.by_ref().map(|o| o.len()).sum();
    assert!(taken <= len);
    assert!(walk.next().is_none());
}

//! Frames of every shape, from bytes to headers.

use std::net::IpAddr;

use weir::classify::Headers;
use weir::wire::build::{Build, TcpFields};
use weir::wire::transport::Segment;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn udp(src: &str, dst: &str, len: u32) -> Build {
    Build { len, src: ip(src), dst: ip(dst), protocol: 17, sport: 1111, dport: 53, ds: 0, tcp: None }
}

#[test]
fn what_is_built_says_what_was_asked_for() {
    let tcp = TcpFields { flags: 0x50, seq: 7, ack: 9, options: vec![1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6] };
    for (src, dst, version) in [("10.0.0.1", "192.0.2.1", 4), ("2001:db8::1", "2001:db8::2", 6)] {
        let build = Build { protocol: 6, ds: 0xB9, len: 1514, tcp: Some(tcp.clone()), ..udp(src, dst, 0) };
        let frame = build.headers();
        let headers = Headers::parse(&frame);
        assert_eq!((headers.ds, headers.net_offset, headers.net_len), (0xB9, 14, 1500));
        assert_eq!((headers.keys.version, headers.keys.protocol, headers.keys.ports), (version, 6, [1111, 53]));
        let segment = Segment::find(&frame[14..]).unwrap();
        assert_eq!((segment.tcp.flags(), segment.tcp.seq(), segment.tcp.ack()), (0x50, 7, 9));
        assert_eq!(segment.tcp.option_bytes(), tcp.options);
        assert_eq!(segment.payload_len as usize, 1514 - frame.len());
    }
}

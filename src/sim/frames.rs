//! Frames in virtual time: real headers, no payload bytes (but for those of layers, which are whole).
//!
//! A connection's headers are built once by `wire::build`; a segment is a copy with the fields that
//! differ written in. Receivers read them back through the lenses of `wire`, so what a discipline
//! sees and changes is what travels.

use std::net::IpAddr;

use crate::packet::{Packet, truesize};
use crate::pool::{Frame, Pool, Slot};
use crate::qdisc::Frames;
use crate::time::Instant;
use crate::wire::build::{Build, TcpFields};
use crate::wire::checksum;
use crate::wire::ethernet::header_len;
use crate::wire::protocol;
use crate::wire::tcp_options::kind;
use crate::wire::transport::{Segment, flag};

/// Room for the longest headers: Ethernet, IPv6, TCP with forty bytes of options.
const ROOM: usize = 128;

/// The header bytes of every frame, by slot, and whose frame it is.
#[derive(Default)]
pub struct Heads {
    bytes: Vec<[u8; ROOM]>,
    /// Frames that are there with all their bytes, since a marker looks at their length.
    whole: Vec<Vec<u8>>,
    tags: Vec<Tag>,
}

/// What the simulation itself remembers of a frame.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tag {
    /// Index of the conversation.
    pub flow: u32,
    /// Bytes of header that are kept.
    pub head: u16,
    /// Which way it goes; `true` toward the servers.
    pub up: bool,
    /// When the host sent it; of an echo reply, when the request was sent.
    pub sent: Instant,
    /// Whether a bit of it was flipped on its way: its receiver's checksum fails, and it is lost there.
    pub corrupted: bool,
}

impl Heads {
    /// The tag of a frame.
    pub fn tag(&self, slot: Slot) -> Tag {
        self.tags[slot.index()]
    }

    /// Dates a frame back, for an echo reply.
    pub fn set_sent(&mut self, slot: Slot, sent: Instant) {
        self.tags[slot.index()].sent = sent;
    }

    fn of(&self, slot: Slot) -> &[u8] {
        let i = slot.index();
        let head = usize::from(self.tags[i].head);
        if head > ROOM { &self.whole[i] } else { &self.bytes[i][..head] }
    }
}

impl Frames for Heads {
    fn bytes(&self, slot: Slot, _: &Packet) -> &[u8] {
        self.of(slot)
    }
    fn bytes_mut(&mut self, slot: Slot, _: &Packet) -> &mut [u8] {
        let i = slot.index();
        let head = usize::from(self.tags[i].head);
        if head > ROOM { &mut self.whole[i] } else { &mut self.bytes[i][..head] }
    }
    fn copy(&mut self, from: Slot, to: Slot, _: &Packet) {
        let (from, to) = (from.index(), to.index());
        self.bytes[to] = self.bytes[from];
        self.whole[to] = self.whole[from].clone();
        self.tags[to] = self.tags[from];
    }
    fn corrupted(&mut self, slot: Slot) {
        self.tags[slot.index()].corrupted = true;
    }
}

/// All frames of a simulation.
pub struct Store {
    /// The records.
    pub pool: Pool,
    /// The header bytes.
    pub heads: Heads,
}

impl Store {
    /// Room for `capacity` frames in flight; it grows when that is not enough.
    pub fn new(capacity: usize) -> Self {
        let heads = Heads {
            bytes: vec![[0; ROOM]; capacity],
            whole: vec![Vec::new(); capacity],
            tags: vec![Tag::default(); capacity],
        };
        Store { pool: Pool::new(capacity), heads }
    }

    /// A frame of `len` bytes that begins with `head`, of conversation `flow`, sent at `now`.
    pub fn make(&mut self, now: Instant, head: &[u8], len: u32, flow: u32, up: bool) -> Frame {
        // A twin of it may be made on its way (`netem duplicate`).
        if self.pool.free() < 2 {
            self.grow();
        }
        let frame = self.pool.take().expect("there are two");
        let i = frame.slot().index();
        match self.heads.bytes[i].get_mut(..head.len()) {
            Some(room) => room.copy_from_slice(head),
            None => {
                self.heads.whole[i].clear();
                self.heads.whole[i].extend_from_slice(head);
            }
        }
        self.heads.tags[i] = Tag { flow, head: head.len() as u16, up, sent: now, corrupted: false };
        self.pool[&frame] = Packet { arrived: now, len, truesize: truesize(len), charged: len, ..Packet::default() };
        frame
    }

    fn grow(&mut self) {
        let more = self.pool.capacity().max(1024);
        self.pool.grow(more);
        self.heads.bytes.resize(self.pool.capacity(), [0; ROOM]);
        self.heads.whole.resize(self.pool.capacity(), Vec::new());
        self.heads.tags.resize(self.pool.capacity(), Tag::default());
    }

    /// The header bytes of a frame.
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        self.heads.of(frame.slot())
    }
}

/// A SACK block in sequence space.
pub type Block = (u32, u32);

/// What a TCP segment says, both ways.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    /// Flag bits, AE included.
    pub flags: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Window, unscaled.
    pub window: u16,
    /// Bytes of data.
    pub len: u32,
    /// DS byte.
    pub ds: u8,
    /// Timestamp value and echo, ms.
    pub stamp: (u32, u32),
    /// SACK blocks.
    pub sack: [Block; 4],
    /// How many of them count.
    pub blocks: u8,
}

const IP: usize = header_len::ETHERNET;

/// The headers of one direction of a connection, to be filled in.
#[derive(Clone)]
pub struct Template {
    head: Vec<u8>,
    transport: usize,
    ipv6: bool,
}

/// Both ends of a conversation, seen from the sender: addresses and ports.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port, or identifier.
    pub sport: u16,
    /// Destination port, or sequence number.
    pub dport: u16,
}

/// Bytes of options on a SYN: MSS, SACK permitted, timestamps, window scale.
const SYN_OPTIONS: usize = 20;
/// Bytes of the padded timestamp option.
const STAMP: usize = 12;

impl Template {
    /// The headers between `ends`.
    pub fn new(ends: Ends, protocol: u8) -> Self {
        let Ends { src, dst, sport, dport } = ends;
        let tcp = (protocol == protocol::TCP).then(TcpFields::default);
        let head = Build { len: 0, src, dst, protocol, sport, dport, ds: 0, tcp }.headers();
        let ipv6 = !(src.is_ipv4() && dst.is_ipv4());
        Template { head, transport: IP + if ipv6 { 40 } else { 20 }, ipv6 }
    }

    /// Writes length and DS byte into the IP header, and its checksum.
    fn network(&self, out: &mut [u8], len: usize, ds: u8) {
        if self.ipv6 {
            out[IP] = 0x60 | ds >> 4;
            out[IP + 1] = ds << 4;
            out[IP + 4..IP + 6].copy_from_slice(&((len - IP - 40) as u16).to_be_bytes());
        } else {
            out[IP + 1] = ds;
            out[IP + 2..IP + 4].copy_from_slice(&((len - IP) as u16).to_be_bytes());
            out[IP + 10..IP + 12].copy_from_slice(&[0, 0]);
            let sum = checksum::of(&out[IP..IP + 20]);
            out[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// A TCP segment: its headers into `out`; gives the headers' and the frame's length.
    pub fn segment(&self, said: &Said, out: &mut [u8; ROOM]) -> (usize, u32) {
        let t = self.transport;
        out[..self.head.len()].copy_from_slice(&self.head);
        let mut end = t + 20;
        let syn = said.flags & flag::SYN != 0;
        let stamp = |out: &mut [u8; ROOM], at: usize| {
            out[at..at + 2].copy_from_slice(&[kind::TIMESTAMP, 10]);
            out[at + 2..at + 6].copy_from_slice(&said.stamp.0.to_be_bytes());
            out[at + 6..at + 10].copy_from_slice(&said.stamp.1.to_be_bytes());
        };
        if syn {
            out[end..end + 6].copy_from_slice(&[2, 4, 5, 0xB4, 4, 2]);
            stamp(out, end + 6);
            out[end + 16..end + 20].copy_from_slice(&[kind::NOP, 3, 3, super::tcp::WINDOW_SCALE]);
            end += SYN_OPTIONS;
        } else {
            out[end..end + 2].fill(kind::NOP);
            stamp(out, end + 2);
            end += STAMP;
            if said.blocks > 0 {
                out[end..end + 4].copy_from_slice(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * said.blocks]);
                end += 4;
                for (a, b) in &said.sack[..said.blocks.into()] {
                    out[end..end + 4].copy_from_slice(&a.to_be_bytes());
                    out[end + 4..end + 8].copy_from_slice(&b.to_be_bytes());
                    end += 8;
                }
            }
        }
        out[t + 4..t + 8].copy_from_slice(&said.seq.to_be_bytes());
        out[t + 8..t + 12].copy_from_slice(&said.ack.to_be_bytes());
        out[t + 12..t + 14].copy_from_slice(&((((end - t) / 4) as u16) << 12 | said.flags).to_be_bytes());
        out[t + 14..t + 16].copy_from_slice(&said.window.to_be_bytes());
        let len = end + said.len as usize;
        self.network(out, len, said.ds);
        (end, len as u32)
    }

    /// A datagram, or an echo request or reply, of `data` bytes; `sequence` is the echo's.
    pub fn datagram(&self, data: u32, ds: u8, out: &mut [u8; ROOM]) -> (usize, u32) {
        out[..self.head.len()].copy_from_slice(&self.head);
        let t = self.transport;
        let len = t + 8 + data as usize;
        if out[if self.ipv6 { IP + 6 } else { IP + 9 }] == protocol::UDP {
            out[t + 4..t + 6].copy_from_slice(&((len - t) as u16).to_be_bytes());
        }
        self.network(out, len, ds);
        (t + 8, len as u32)
    }

    /// An echo request, or the reply to one, with its sequence number.
    pub fn echo(&self, reply: bool, sequence: u16, data: u32, ds: u8, out: &mut [u8; ROOM]) -> (usize, u32) {
        let lengths = self.datagram(data, ds, out);
        let t = self.transport;
        if reply {
            out[t] = if self.ipv6 { 129 } else { 0 };
        }
        out[t + 6..t + 8].copy_from_slice(&sequence.to_be_bytes());
        lengths
    }
}

/// A buffer for headers.
pub fn blank() -> [u8; ROOM] {
    [0; ROOM]
}

/// Reads a TCP segment back from a frame; `None` if it is none.
pub fn read_segment(frame: &[u8]) -> Option<Said> {
    let segment = Segment::find(frame.get(IP..)?)?;
    let ds = if segment.version == 4 { frame[IP + 1] } else { frame[IP] << 4 | frame[IP + 1] >> 4 };
    let tcp = segment.tcp;
    let mut said = Said {
        flags: tcp.flags(),
        seq: tcp.seq(),
        ack: tcp.ack(),
        window: tcp.window(),
        len: segment.payload_len,
        ds,
        ..Said::default()
    };
    for option in tcp.options() {
        if let Some(stamp) = option.timestamp() {
            said.stamp = (stamp.value, stamp.echo);
        }
        for block in option.sack_blocks().take(4) {
            said.sack[usize::from(said.blocks)] = (block.start, block.end);
            said.blocks += 1;
        }
    }
    Some(said)
}

/// Sequence number and whether it is a reply, of an echo frame.
pub fn read_echo(frame: &[u8]) -> Option<(u16, bool)> {
    let (t, reply) = match frame.get(IP)? >> 4 {
        4 => (IP + 20, *frame.get(IP + 20)? == 0),
        _ => (IP + 40, *frame.get(IP + 40)? == 129),
    };
    let sequence = frame.get(t + 6..t + 8)?;
    Some((u16::from_be_bytes([sequence[0], sequence[1]]), reply))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Headers;
    use crate::wire::ipv4::Ipv4;

    fn template(src: &str, dst: &str) -> Template {
        let ends = Ends { src: src.parse().unwrap(), dst: dst.parse().unwrap(), sport: 7, dport: 9 };
        Template::new(ends, protocol::TCP)
    }

    #[test]
    fn a_segment_comes_back_as_it_was_said_in_both_families() {
        for (src, dst) in [("10.0.1.2", "10.0.9.2"), ("fd00::1", "fd00::2")] {
            let said = Said {
                flags: flag::ACK | flag::ECE | flag::AE,
                seq: 0xFFFF_FFF0,
                ack: 17,
                window: 99,
                len: 1000,
                ds: 0xB9,
                stamp: (5, 6),
                sack: [(1, 2), (3, 4), (5, 6), (0, 0)],
                blocks: 3,
            };
            let mut out = blank();
            let (head, len) = template(src, dst).segment(&said, &mut out);
            let back = read_segment(&out[..head]).unwrap();
            assert_eq!(format!("{back:?}"), format!("{said:?}"));
            assert_eq!(len as usize, head + 1000);
            let headers = Headers::parse(&out[..head]);
            assert_eq!((headers.ds, headers.keys.ports, headers.net_len), (0xB9, [7, 9], len - 14));
        }
    }

    #[test]
    fn a_full_segment_is_1514_bytes_and_its_header_checksum_is_right() {
        let said = Said { flags: flag::ACK, len: 1448, ds: 2, ..Said::default() };
        let mut out = blank();
        let (head, len) = template("10.0.1.2", "10.0.9.2").segment(&said, &mut out);
        assert_eq!((head, len), (66, 1514));
        assert!(Ipv4::new_checked(&out[IP..head]).unwrap().checksum_is_right());
    }

    #[test]
    fn a_store_that_is_too_small_grows() {
        let mut store = Store::new(1);
        let frames: Vec<_> = (0..5).map(|i| store.make(Instant::ZERO, &[i; 60], 60, 0, true)).collect();
        assert_eq!(store.bytes(&frames[4])[0], 4);
        assert_eq!(store.pool.free(), store.pool.capacity() - 5);
        frames.into_iter().for_each(|f| store.pool.give(f));
    }
}

//! What a direction's data plane notes in passing: bytes, silences, and now and then a TCP header.
//!
//! Memory is fixed and nothing is allocated for a frame: the notes go into a buffer that the control
//! thread exchanges for an empty one. A header is looked at only while there is credit, which comes at
//! one frame in 50 µs: at 20 000 looks a second and side, the rest of a flood passes unseen. What a look
//! takes: `cargo bench --bench core -- autorate tap`.

use crate::rng::SplitMix64;
use crate::time::{Instant, MICROSECOND, MILLISECOND};
use crate::wire::transport::{Segment, flag};

/// Notes that fit between two visits of the control thread.
pub const NOTES: usize = 4096;
/// One header may be looked at in so many ns, on average.
const LOOK: u64 = 50 * MICROSECOND;
/// So many may be looked at in a row.
const CREDIT: u64 = 64;
/// The shortest pause between two arrivals that is noted as a silence, ns.
pub const SILENCE: u64 = 200 * MILLISECOND;

/// What a TCP header said when it passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Glimpse {
    /// When it passed.
    pub at: Instant,
    /// Which connection; the same number in both directions.
    pub flow: u64,
    /// Where it came from and where it goes: numbers for the two hosts.
    pub hosts: [u32; 2],
    /// Value and echo of the timestamp option (RFC 7323 §3), if there is one.
    pub stamps: Option<[u32; 2]>,
    /// Sequence number behind a SYN, else behind the data.
    pub next: u32,
    /// Acknowledgement number, if the flag says so.
    pub ack: Option<u32>,
    /// A SYN, with or without ACK.
    pub syn: bool,
    /// Something that the other end has to answer: data, SYN or FIN.
    pub demands: bool,
}

/// A note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// A segment arrived at the shaper.
    Arrived(Glimpse),
    /// A segment left it.
    Left(Glimpse),
    /// Nothing arrived between two moments, and then something did.
    Silence(Instant, Instant),
}

impl Note {
    /// When it was made.
    pub fn at(&self) -> Instant {
        match self {
            Note::Arrived(g) | Note::Left(g) => g.at,
            Note::Silence(_, to) => *to,
        }
    }
}

/// Lets one look through in so many ns on average.
#[derive(Clone, Copy, Debug)]
struct Throttle {
    /// The moment up to which credit is spent.
    spent: Instant,
}

impl Throttle {
    fn may(&mut self, now: Instant) -> bool {
        let spent = self.spent.max(now - CREDIT * LOOK);
        let may = spent + LOOK <= now;
        self.spent = if may { spent + LOOK } else { spent };
        may
    }
}

/// The notes of one direction.
#[derive(Debug)]
pub struct Tap {
    keys: [u64; 2],
    notes: Vec<Note>,
    throttles: [Throttle; 2],
    /// Bytes that arrived, link header included.
    pub arrived_bytes: u64,
    /// Bytes that left.
    pub left_bytes: u64,
    /// When something arrived last.
    pub last_arrival: Option<Instant>,
    /// Notes for which there was no room.
    pub missed: u64,
}

impl Tap {
    /// A tap that numbers flows by `seed`, which both directions must share and strangers must not know.
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        Tap {
            keys: [random.next_u64(), random.next_u64()],
            notes: Vec::with_capacity(NOTES),
            throttles: [Throttle { spent: Instant::ZERO }; 2],
            arrived_bytes: 0,
            left_bytes: 0,
            last_arrival: None,
            missed: 0,
        }
    }

    /// A frame of `len` bytes has arrived; `network` are its bytes from the network header on.
    #[inline]
    pub fn arrived(&mut self, now: Instant, len: u32, network: &[u8]) {
        self.arrived_bytes += u64::from(len);
        if let Some(before) = self.last_arrival.filter(|before| now.since(*before) >= SILENCE) {
            self.note(Note::Silence(before, now));
        }
        // Stamps of the XDP hook may be a little out of order.
        self.last_arrival = self.last_arrival.max(Some(now));
        if self.throttles[0].may(now) {
            if let Some(glimpse) = self.look(now, network) {
                self.note(Note::Arrived(glimpse));
            }
        }
    }

    /// A frame of `len` bytes leaves.
    #[inline]
    pub fn left(&mut self, now: Instant, len: u32, network: &[u8]) {
        self.left_bytes += u64::from(len);
        if self.throttles[1].may(now) {
            if let Some(glimpse) = self.look(now, network) {
                self.note(Note::Left(glimpse));
            }
        }
    }

    fn note(&mut self, note: Note) {
        if self.notes.len() < NOTES {
            self.notes.push(note);
        } else {
            self.missed += 1;
        }
    }

    fn look(&self, at: Instant, network: &[u8]) -> Option<Glimpse> {
        let segment = Segment::find(network)?;
        let tcp = &segment.tcp;
        let flags = tcp.flags();
        if flags & flag::RST != 0 {
            return None;
        }
        let ends = [
            self.number(&segment.addresses[0], tcp.source_port()),
            self.number(&segment.addresses[1], tcp.destination_port()),
        ];
        let hosts = segment.addresses.each_ref().map(|a| self.number(a, 0) as u32);
        let syn = flags & flag::SYN != 0;
        let demands = syn || segment.payload_len > 0 || flags & flag::FIN != 0;
        Some(Glimpse {
            at,
            // Neither end comes first, so that both directions agree.
            flow: ends[0].wrapping_add(ends[1]) ^ (ends[0] ^ ends[1]).rotate_left(17),
            hosts,
            stamps: tcp.options().timestamp().map(|t| [t.value, t.echo]),
            next: tcp.seq().wrapping_add(segment.payload_len).wrapping_add(u32::from(syn)),
            ack: (flags & flag::ACK != 0).then(|| tcp.ack()),
            syn,
            demands,
        })
    }

    /// An address and port under the secret keys.
    fn number(&self, address: &[u8; 16], port: u16) -> u64 {
        let half = |i: usize| u64::from_ne_bytes(std::array::from_fn(|k| address[i + k]));
        let mix = |a: u64, b: u64| {
            let wide = u128::from(a) * u128::from(b | 1);
            (wide >> 64) as u64 ^ wide as u64
        };
        mix(mix(half(0) ^ self.keys[0], self.keys[1]) ^ half(8) ^ u64::from(port).rotate_left(40), self.keys[0])
    }

    /// Exchanges the notes for an empty buffer of the same size.
    pub fn swap(&mut self, spare: &mut Vec<Note>) {
        spare.clear();
        if spare.capacity() < NOTES {
            spare.reserve_exact(NOTES);
        }
        std::mem::swap(&mut self.notes, spare);
    }
}

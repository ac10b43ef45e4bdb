//! Frames of the data-transfer protocol over Ethernet, and the messages of the flow allocator
//! (`spec/mb-ecn.md` §2), as the ends write and read them.

use crate::mark::mb_ecn::dtp::{self, Layout};
use crate::mark::mb_ecn::endpoint::{FlowUpdate, MESSAGE_LEN};

/// Bytes before the payload: Ethernet, PoA, and DTP headers.
pub const HEADER: usize = 35;
/// Bytes of a frame with a message of the flow allocator.
pub const MESSAGE_FRAME: usize = HEADER + MESSAGE_LEN;
/// The TTL of a sender.
const TTL: u8 = 60;

/// What the headers of a frame say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Ethernet destination.
    pub dst: [u8; 6],
    /// Ethernet source.
    pub src: [u8; 6],
    /// The destination's endpoint in the Ethernet layer.
    pub endpoint: u16,
    /// The destination's address.
    pub address: [u8; 4],
    /// QoS cube, 0…2.
    pub qos: u8,
    /// Depth code.
    pub ecn: u8,
    /// Capacity code.
    pub cap: u8,
    /// The flow at the destination, or 0 for its flow allocator.
    pub eid: u64,
}

impl Header {
    /// Writes the headers of a frame with `payload` bytes behind them.
    pub fn write(&self, payload: u16) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..6].copy_from_slice(&self.dst);
        out[6..12].copy_from_slice(&self.src);
        out[12..14].copy_from_slice(&Layout::default().ethertype.to_be_bytes());
        out[14..16].copy_from_slice(&self.endpoint.to_be_bytes());
        out[16..18].copy_from_slice(&(payload + 16).to_be_bytes());
        out[18] = dtp::poa_hcs(&out[14..18]);
        out[19..23].copy_from_slice(&self.address);
        (out[23], out[24], out[25], out[26]) = (self.qos, TTL, self.ecn, self.cap);
        out[27..35].copy_from_slice(&self.eid.to_le_bytes());
        out
    }

    /// Reads the headers of a frame, of which the first bytes suffice; gives the length of the payload,
    /// too. `len` is the frame's whole length. `None` if it is no such frame.
    pub fn read(bytes: &[u8]) -> Option<(Header, usize)> {
        let head = bytes.first_chunk::<HEADER>()?;
        let here = head[12..14] == Layout::default().ethertype.to_be_bytes() && dtp::poa_hcs(&head[14..18]) == head[18];
        let length = usize::from(u16::from_be_bytes([head[16], head[17]]));
        let payload = length.checked_sub(16).filter(|_| here)?;
        let header = Header {
            dst: *head[..6].first_chunk()?,
            src: *head[6..].first_chunk()?,
            endpoint: u16::from_be_bytes([head[14], head[15]]),
            address: *head[19..].first_chunk()?,
            qos: head[23],
            ecn: head[25],
            cap: head[26],
            eid: u64::from_le_bytes(*head[27..].first_chunk()?),
        };
        Some((header, payload))
    }

    /// The EID of the `n`th flow of a destination: what the allocator gives out, with a high half that
    /// nobody guesses.
    pub fn flow_eid(n: u32, random: u32) -> u64 {
        u64::from(64 + n) | u64::from(random.max(1)) << 32
    }
}

/// A message of the flow allocator. The codes and the layout of the heartbeat are ours; only the
/// update is known from captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// What the receiver of a flow saw.
    Update(FlowUpdate),
    /// Is the path alive? With a number.
    Heartbeat(u64),
    /// It is.
    Alive(u64),
}

const HEARTBEAT: u8 = 3;
const ALIVE: u8 = 4;

impl Message {
    /// The 78 bytes of a message.
    pub fn write(&self) -> [u8; MESSAGE_LEN] {
        let (number, code) = match self {
            Message::Update(update) => return update.write(),
            Message::Heartbeat(n) => (n, HEARTBEAT),
            Message::Alive(n) => (n, ALIVE),
        };
        let mut out = [0; MESSAGE_LEN];
        out[59] = code;
        out[60..68].copy_from_slice(&number.to_be_bytes());
        out
    }

    /// What a payload says, if it is a message.
    pub fn read(payload: &[u8]) -> Option<Message> {
        let m = payload.first_chunk::<MESSAGE_LEN>()?;
        let number = u64::from_be_bytes(*m[60..].first_chunk()?);
        match m[59] {
            HEARTBEAT => Some(Message::Heartbeat(number)),
            ALIVE => Some(Message::Alive(number)),
            _ => FlowUpdate::read(m).map(Message::Update),
        }
    }

    /// A whole frame to the flow allocator of a destination.
    pub fn frame(&self, header: &Header) -> [u8; MESSAGE_FRAME] {
        let mut out = [0; MESSAGE_FRAME];
        out[..HEADER].copy_from_slice(&Header { eid: 0, ..*header }.write(MESSAGE_LEN as u16));
        out[HEADER..].copy_from_slice(&self.write());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            dst: [0x36, 0x76, 0x86, 0xE3, 0x9F, 0x06],
            src: [0xDE, 0x83, 0x23, 0x2E, 0xC8, 0x9B],
            endpoint: 2,
            address: [0x19, 0x7B, 0x24, 0xBC],
            qos: 0,
            ecn: 10,
            cap: 81,
            eid: 0xA291_5EFB_0000_0042,
        }
    }

    #[test]
    fn a_data_frame_is_that_of_the_capture() {
        let captured = "367686e39f06de83232ec89ba00000020588861 97b24bc003c0a5142000000fb5e91a2".replace(' ', "");
        let written: String = header().write(1400).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(written, captured);
        assert_eq!(Header::read(&header().write(1400)), Some((header(), 1400)));
        let found = dtp::classify(&[&header().write(1400)[..], &[0; 1400]].concat(), &Layout::default());
        assert!(found.is_ok_and(|c| c.is_flow && c.ecn_at == 25));
    }

    #[test]
    fn messages_are_read_back_and_nothing_else_is() {
        let update = Message::Update(FlowUpdate { eid: 66 << 32, ece: 311, cap: 81 });
        for message in [update, Message::Heartbeat(7), Message::Alive(1 << 40)] {
            let frame = message.frame(&header());
            assert_eq!(frame.len(), 113);
            assert_eq!(Header::read(&frame).map(|(h, payload)| (h.eid, payload)), Some((0, 78)));
            assert_eq!(Message::read(&frame[HEADER..]), Some(message));
        }
        assert_eq!(Message::read(&[0; 78]), None);
        let mut damaged = header().write(1400);
        damaged[18] ^= 1;
        assert_eq!(Header::read(&damaged), None);
        assert_eq!(Header::read(&damaged[..30]), None);
        let eid = Header::flow_eid(3, 0);
        assert_eq!((eid as u32, eid >> 32), (67, 1));
    }
}

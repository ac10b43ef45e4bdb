//! Ouroboros data-transfer frames: which they are, and the two bytes in them (`spec/mb-ecn.md` §2 and
//! §5.2).
//!
//! When in doubt, a frame is left alone: nothing outside the two bytes is ever written, and no frame
//! that fails a test is written at all.

use super::code::{merge_cap, merge_ecn};

/// What a layer is configured to (§2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The ethertype of the layer.
    pub ethertype: u16,
    /// Bytes of an address, 1…8.
    pub addr_size: u8,
    /// The largest TTL that is believed.
    pub max_ttl: u8,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { ethertype: 0xA000, addr_size: 4, max_ttl: 60 }
    }
}

/// Why a frame is left alone, in the order of the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Untouched {
    /// Too short for its headers.
    Short,
    /// Another ethertype.
    Ethertype,
    /// The check byte of the PoA header is wrong.
    Hcs,
    /// The PoA length does not fit the frame.
    Length,
    /// A management frame of the layer below.
    Management,
    /// Too short for a data-transfer header.
    DtpShort,
    /// A field has a value that no data-transfer header has.
    Structure,
    /// Its flow is not known to carry data-transfer headers.
    Unlearned,
}

impl Untouched {
    /// All reasons, in the order of their counters.
    pub const ALL: [Untouched; 8] = [
        Untouched::Short,
        Untouched::Ethertype,
        Untouched::Hcs,
        Untouched::Length,
        Untouched::Management,
        Untouched::DtpShort,
        Untouched::Structure,
        Untouched::Unlearned,
    ];

    /// The name used in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Untouched::Short => "short",
            Untouched::Ethertype => "ethertype",
            Untouched::Hcs => "hcs",
            Untouched::Length => "length",
            Untouched::Management => "management",
            Untouched::DtpShort => "dtp_short",
            Untouched::Structure => "structure",
            Untouched::Unlearned => "unlearned",
        }
    }
}

/// What identifies a flow of the layer below (§5.4); the interface is the stage's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key {
    /// Tag control fields, the outer first; zero for none.
    pub vlan: [u16; 2],
    /// Ethernet source.
    pub src: [u8; 6],
    /// Ethernet destination.
    pub dst: [u8; 6],
    /// PoA EID.
    pub eid: u16,
}

/// A frame that looks like a data-transfer frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where the depth is; the capacity follows it.
    pub ecn_at: usize,
    /// Its flow of the layer below.
    pub key: Key,
    /// Whether it belongs to a flow and not to a component of the layer.
    pub is_flow: bool,
}

/// The check byte of a PoA header over its other four bytes (§2.5): CRC-8 with polynomial 0x2F.
pub fn poa_hcs(header: &[u8]) -> u8 {
    !header.iter().fold(0xFF, |crc, byte| CRC_TABLE[usize::from(crc ^ byte)])
}

const CRC_TABLE: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x80 != 0 { (crc << 1) ^ 0x2F } else { crc << 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// A frame of the key whose header does not look like one: its flow is not to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: Untouched,
    /// The flow, if the frame was looked at that far.
    pub key: Option<Key>,
}

impl From<Untouched> for Refused {
    fn from(why: Untouched) -> Self {
        Refused { why, key: None }
    }
}

/// Tests 2 to 9 of §5.2 on a frame from its first byte.
///
/// # Errors
/// The first test that fails.
pub fn classify(frame: &[u8], layout: &Layout) -> Result<Candidate, Refused> {
    let u16_at = |at: usize| frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]])).ok_or(Untouched::Short);
    let mut key = Key::default();
    let mut l2 = 14;
    let mut kind = u16_at(12)?;
    let mut tags = 0;
    while tags < 2 && matches!(kind, 0x8100 | 0x88A8) {
        key.vlan[tags] = u16_at(l2)?;
        kind = u16_at(l2 + 2)?;
        l2 += 4;
        tags += 1;
    }
    if kind != layout.ethertype {
        return Err(Untouched::Ethertype.into());
    }
    let rest = &frame[l2..];
    let Some(poa) = rest.first_chunk::<5>() else { return Err(Untouched::Short.into()) };
    if poa_hcs(&poa[..4]) != poa[4] {
        return Err(Untouched::Hcs.into());
    }
    let len = usize::from(u16::from_be_bytes([poa[2], poa[3]]));
    let padded = 5 + len < rest.len();
    if 5 + len > rest.len() || padded && frame.len() > 60 + 4 * tags {
        return Err(Untouched::Length.into());
    }
    key.eid = u16::from_be_bytes([poa[0], poa[1]]);
    if key.eid == 0 {
        return Err(Untouched::Management.into());
    }
    let a = usize::from(layout.addr_size);
    if len < a + 12 {
        return Err(Untouched::DtpShort.into());
    }
    key.dst.copy_from_slice(&frame[..6]);
    key.src.copy_from_slice(&frame[6..12]);
    let dtp = &rest[5..5 + a + 12];
    let word = |at: usize| u32::from_le_bytes([dtp[at], dtp[at + 1], dtp[at + 2], dtp[at + 3]]);
    let (low, high) = (word(a + 4), word(a + 8));
    let [qos, ttl, ecn, cap] = [dtp[a], dtp[a + 1], dtp[a + 2], dtp[a + 3]];
    let is_component = low < 64 && high == 0;
    let is_flow = (64..65_536).contains(&low) && high != 0;
    let plausible = dtp[..a].iter().any(|b| *b != 0)
        && qos <= 2
        && (1..=layout.max_ttl).contains(&ttl)
        && ecn <= 96
        && (cap == 0 || (28..=160).contains(&cap))
        && (is_component || is_flow);
    if !plausible {
        return Err(Refused { why: Untouched::Structure, key: Some(key) });
    }
    Ok(Candidate { ecn_at: l2 + 5 + a + 2, key, is_flow })
}

/// Which of the two bytes a hop changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The depth.
    pub ecn: bool,
    /// The capacity.
    pub cap: bool,
}

/// Merges a hop's own codes into the two bytes at `ecn_at`, writing only what changes. Nothing
/// happens to a frame that ends before them.
pub fn apply(frame: &mut [u8], ecn_at: usize, own_ecn: u8, own_cap: u8) -> Changed {
    let Some([ecn, cap]) = frame.get_mut(ecn_at..ecn_at + 2) else { return Changed::default() };
    let merged = [merge_ecn(*ecn, own_ecn), merge_cap(*cap, own_cap)];
    let changed = Changed { ecn: merged[0] != *ecn, cap: merged[1] != *cap };
    if changed.ecn {
        *ecn = merged[0];
    }
    if changed.cap {
        *cap = merged[1];
    }
    changed
}

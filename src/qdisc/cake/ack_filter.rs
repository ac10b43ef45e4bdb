//! Which ACK in a queue says nothing that the newest does not say too (`spec/cake.md` §15).
//!
//! Only headers are looked at, through bounded lenses: a frame that is cut, or whose options do not
//! add up, is no candidate for anything but being kept, except that a malformed option list counts
//! as acceptable, as in the kernel.

use crate::packet::Packet;
use crate::pool::{Frame, Queue, Slot};
use crate::qdisc::{Cx, Frames};
use crate::wire::protocol;

const ACK: u16 = 0x0010;
const SYN: u16 = 0x0002;
const ECE_CWR: u16 = 0x00C0;

/// The addresses and ports of a segment, its numbers, flags and options.
struct Segment<'a> {
    version: u8,
    addresses: &'a [u8],
    ports: &'a [u8],
    ack: u32,
    flags: u16,
    options: &'a [u8],
    payload: i32,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'a> Segment<'a> {
    /// TCP in IPv4, in IPv6, or in IPv6 in IPv4; no extension headers.
    fn of(frames: &'a dyn Frames, slot: Slot, packet: &Packet) -> Option<Self> {
        if !packet.has_ds() {
            return None;
        }
        let mut ip = frames.bytes(slot, packet).get(packet.net_offset.into()..)?;
        if ip.first()? >> 4 == 4 && *ip.get(9)? == protocol::IPV6 {
            ip = ip.get(usize::from(ip[0] & 15) * 4..)?;
            if ip.first()? >> 4 != 6 {
                return None;
            }
        }
        let version = ip.first()? >> 4;
        let (header, addresses, inside) = match version {
            4 if ip[0] & 15 >= 5 && *ip.get(9)? == protocol::TCP => {
                let header = usize::from(ip[0] & 15) * 4;
                (header, ip.get(12..20)?, i32::from(word(ip, 2)?) - header as i32)
            }
            6 if *ip.get(6)? == protocol::TCP => (40, ip.get(8..40)?, word(ip, 4)?.into()),
            _ => return None,
        };
        let tcp = ip.get(header..)?;
        let flags = word(tcp, 12)?;
        let length = usize::from(flags >> 12) * 4;
        if length < 20 {
            return None;
        }
        Some(Segment {
            version,
            addresses,
            ports: tcp.get(..4)?,
            ack: long(tcp, 8)?,
            flags: flags & 0x0FFF,
            options: tcp.get(20..length)?,
            payload: inside - length as i32,
        })
    }

    fn same_flow(&self, other: &Segment<'_>) -> bool {
        self.version == other.version && self.addresses == other.addresses && self.ports == other.ports
    }

    /// The options as (kind, what follows kind and length); ends where they end or make no sense.
    fn options(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            loop {
                match *rest {
                    [] | [0, ..] => return None,
                    [1, ref after @ ..] => rest = after,
                    [kind, length, ..] if length >= 2 => {
                        let body = rest.get(2..length.into())?;
                        rest = &rest[length.into()..];
                        return Some((kind, body));
                    }
                    _ => return None,
                }
            }
        })
    }

    /// Value and echo of the timestamp option; zeros if there is none.
    fn timestamps(&self) -> (u32, u32) {
        let body = self.options().find(|(kind, _)| *kind == 8).map(|(_, body)| body).filter(|b| b.len() == 8);
        body.and_then(|b| Some((long(b, 0)?, long(b, 4)?))).unwrap_or_default()
    }

    fn sack_blocks(&self) -> impl Iterator<Item = (u32, u32)> + Clone + use<'a> {
        let body = self.options().find(|(kind, _)| *kind == 5).map_or(&[][..], |(_, b)| b);
        body.chunks_exact(8).filter_map(|b| Some((long(b, 0)?, long(b, 4)?)))
    }

    /// Whether flags and options allow that it goes, if the newest has these timestamps.
    fn may_go(&self, (value, echo): (u32, u32)) -> bool {
        if self.flags & !ECE_CWR != ACK {
            return false;
        }
        self.options().all(|(kind, body)| match kind {
            19 => true,
            5 => body.len() % 8 == 0,
            8 => {
                body.len() == 8 && !after(long(body, 0).unwrap_or(0), value) && !after(long(body, 4).unwrap_or(0), echo)
            }
            _ => false,
        })
    }

    /// Whether the selective acknowledgements of the newest cover mine: −1 if not, +1 if they say
    /// more, 0 if the same.
    fn compare_sacks(&self, newest: &Segment<'_>) -> i32 {
        let length = |(start, end): (u32, u32)| end.wrapping_sub(start);
        let (mine, theirs) = (self.sack_blocks(), newest.sack_blocks());
        match (mine.clone().next().is_some(), theirs.clone().next().is_some()) {
            (false, false) => return 0,
            (true, false) => return -1,
            (false, true) => return 1,
            (true, true) => {}
        }
        let mut covered = 0u32;
        for (start, end) in mine {
            let duplicate = before(start, self.ack);
            if duplicate || !theirs.clone().any(|(s, e)| !after(s, start) && !before(e, end)) {
                return -1;
            }
            covered = covered.wrapping_add(length((start, end)));
        }
        let offered = theirs.map(length).fold(0u32, u32::wrapping_add);
        i32::from(offered > covered)
    }
}

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// Takes out of a queue the ACK that its newest packet makes redundant, if there is one.
pub(super) fn redundant(queue: &mut Queue, aggressive: bool, cx: &mut Cx<'_>) -> Option<Frame> {
    let behind = find(queue, aggressive, cx)?;
    queue.remove_after(cx.pool, behind)
}

/// The packet before the redundant one; `Some(None)` if that is the oldest.
fn find(queue: &Queue, aggressive: bool, cx: &Cx<'_>) -> Option<Option<Slot>> {
    let (oldest, tail) = (queue.front()?, queue.back()?);
    if oldest == tail {
        return None;
    }
    let newest = Segment::of(cx.frames, tail, &cx.pool[tail])?;
    if newest.flags & (ACK | SYN) != ACK {
        return None;
    }
    let timestamps = newest.timestamps();

    // The candidate, the packet before it, and its flags of congestion.
    let mut candidate: Option<(Slot, Option<Slot>, u16)> = None;
    let mut found = 0;
    let mut previous = None;
    for slot in queue.iter(cx.pool).take_while(|&s| s != tail) {
        let behind = previous.replace(slot);
        let Some(p) = Segment::of(cx.frames, slot, &cx.pool[slot]).filter(|p| p.same_flow(&newest)) else { continue };
        if candidate.is_some_and(|(.., flags)| flags != p.flags & ECE_CWR) {
            candidate = None;
            found -= 1;
        }
        if !p.may_go(timestamps) || p.payload != 0 || after(p.ack, newest.ack) {
            continue;
        }
        let sacks = p.compare_sacks(&newest);
        if sacks < 0 || p.ack == newest.ack && sacks == 0 {
            continue;
        }
        let (_, before_candidate, _) = *candidate.get_or_insert((slot, behind, p.flags & ECE_CWR));
        if found > 0 {
            return Some(before_candidate);
        }
        found += 1;
    }
    let (slot, behind, flags) = candidate?;
    let alone = queue.after(cx.pool, slot) == Some(tail) && flags == newest.flags & ECE_CWR;
    (aggressive && alone).then_some(behind)
}

#[cfg(test)]
#[path = "ack_filter_tests.rs"]
mod tests;

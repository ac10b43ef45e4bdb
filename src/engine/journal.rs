//! What a direction decides, packet by packet: each arrival, and what became of it.
//!
//! The engine notes, and nothing is allocated for a packet: the notes go into a buffer that the control
//! thread exchanges for an empty one ([`Journal::take`]). What finds it full is counted as lost, never waited
//! for.

use crate::packet::{Marks, Packet};
use crate::pool::Slot;
use crate::qdisc::{Observation, Reason};
use crate::time::Instant;

/// Notes that fit between two visits of the control thread.
pub const NOTES: usize = 32_768;
/// So many bytes of a frame are kept: two tags, IPv6, and TCP with all its options.
pub const HEADERS: usize = 128;

/// A packet that arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Its number in this journal, from 1.
    pub number: u64,
    /// When it was enqueued, by the worker's clock: what the AQM counts from.
    pub at: Instant,
    /// Length with the Ethernet header, without the check sequence, bytes.
    pub len: u32,
    /// The frame's first bytes.
    pub bytes: [u8; HEADERS],
    /// How many of them.
    pub kept: u8,
}

/// The end of a packet: sent or dropped.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The number it arrived with; `None` if that was before this journal, or if it is a copy that `netem` made.
    pub number: Option<u64>,
    /// When.
    pub at: Instant,
    /// Since it was enqueued, ns: what the AQM saw, and what it waited for a shaper after that.
    pub sojourn: u64,
    /// Why it was marked; empty if it was not.
    pub marks: Marks,
    /// Why it was dropped; `None` if it was sent.
    pub dropped: Option<Reason>,
    /// Length, bytes.
    pub len: u32,
    /// DSCP and ECN as it left or was dropped.
    pub ds: u8,
    /// The queue it came from, at that moment.
    pub seen: Observation,
}

/// One note.
#[derive(Clone, Debug)]
pub enum Note {
    /// A packet arrived.
    Arrived(Arrived),
    /// A packet left or was dropped.
    Ended(Ended),
}

/// What was noted since the last time.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// In the order in which it happened.
    pub notes: Vec<Note>,
    /// Notes that found no room after those.
    pub lost: u64,
    /// Packets that arrived since the journal began and are inside.
    pub inside: u64,
}

/// A journal at work.
#[derive(Debug)]
pub struct Journal {
    /// The number and the moment of enqueueing of what is inside, by slot.
    numbers: Vec<Option<(u64, Instant)>>,
    arrived: u64,
    inside: u64,
    notes: Vec<Note>,
    lost: u64,
}

impl Journal {
    /// An empty journal for a pool of `capacity` frames, with room for `room` notes.
    pub fn new(capacity: usize, room: usize) -> Journal {
        Journal { numbers: vec![None; capacity], arrived: 0, inside: 0, notes: Vec::with_capacity(room), lost: 0 }
    }

    fn note(&mut self, note: Note) {
        if self.notes.len() < self.notes.capacity() {
            self.notes.push(note);
        } else {
            self.lost += 1;
        }
    }

    /// A packet arrived, of which `frame` is there.
    pub(super) fn arrived(&mut self, now: Instant, slot: Slot, packet: &Packet, frame: &[u8]) {
        self.arrived += 1;
        self.inside += 1;
        self.numbers[slot.index()] = Some((self.arrived, now));
        let mut bytes = [0; HEADERS];
        let kept = frame.len().min(HEADERS);
        bytes[..kept].copy_from_slice(&frame[..kept]);
        self.note(Note::Arrived(Arrived { number: self.arrived, at: now, len: packet.len, bytes, kept: kept as u8 }));
    }

    /// Frees a slot; its number and moment, if its packet arrived in this journal.
    fn leave(&mut self, slot: Slot) -> Option<(u64, Instant)> {
        let left = self.numbers[slot.index()].take();
        self.inside -= u64::from(left.is_some());
        left
    }

    /// A packet left, or was dropped.
    pub(super) fn ended(
        &mut self,
        now: Instant,
        slot: Slot,
        packet: &Packet,
        dropped: Option<Reason>,
        seen: Observation,
    ) {
        let ours = self.leave(slot);
        self.note(Note::Ended(Ended {
            number: ours.map(|(number, _)| number),
            at: now,
            sojourn: now.since(ours.map_or(packet.arrived, |(_, since)| since)),
            marks: packet.marks,
            dropped,
            len: packet.len,
            ds: packet.ds,
            seen,
        }));
    }

    /// A packet was refused by the sending device: a fault, counted elsewhere, and no decision.
    pub(super) fn refused(&mut self, slot: Slot) {
        self.leave(slot);
        self.lost += 1;
    }

    /// What was noted since the last time; `spare` takes the place of the notes.
    pub fn take(&mut self, mut spare: Vec<Note>) -> Notes {
        spare.clear();
        if spare.capacity() < self.notes.capacity() {
            spare.reserve_exact(self.notes.capacity());
        }
        Notes {
            notes: std::mem::replace(&mut self.notes, spare),
            lost: std::mem::take(&mut self.lost),
            inside: self.inside,
        }
    }
}

#[cfg(test)]
mod tests;

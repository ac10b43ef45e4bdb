//! The one door through which a packet can be lost, and the reasons for going through it.

use crate::packet::Packet;
use crate::pool::{Frame, Pool, Queue};

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The AQM's congestion signal (CoDel, COBALT, PI2).
    Aqm,
    /// BLUE: an unresponsive flow in a queue that overflowed.
    Flood,
    /// A limit in packets or bytes was reached.
    QueueFull,
    /// A memory limit was reached.
    Memory,
    /// A newer ACK says the same.
    AckFilter,
    /// Longer than the bucket of the shaper.
    Oversize,
    /// dualpi2's step threshold, on a packet that cannot be marked.
    Step,
    /// Lost on purpose by an impairment.
    Loss,
    /// Older than a second when the link came back.
    Stale,
    /// Taken out by a change of configuration.
    Flushed,
}

impl Reason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Reason; 10] = [
        Reason::Aqm,
        Reason::Flood,
        Reason::QueueFull,
        Reason::Memory,
        Reason::AckFilter,
        Reason::Oversize,
        Reason::Step,
        Reason::Loss,
        Reason::Stale,
        Reason::Flushed,
    ];

    /// The name used in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Aqm => "aqm",
            Reason::Flood => "flood",
            Reason::QueueFull => "queue_full",
            Reason::Memory => "memory",
            Reason::AckFilter => "ack_filter",
            Reason::Oversize => "oversize",
            Reason::Step => "step",
            Reason::Loss => "loss",
            Reason::Stale => "stale",
            Reason::Flushed => "flushed",
        }
    }

    fn of(packet: &Packet) -> Reason {
        Reason::ALL[packet.reason as usize]
    }
}

/// Where dropped packets wait until the driver takes them home, with counters that only grow.
#[derive(Debug, Default)]
pub struct Drops {
    queue: Queue,
    packets: [u64; Reason::ALL.len()],
    bytes: [u64; Reason::ALL.len()],
}

impl Drops {
    /// Drops a packet.
    pub fn push(&mut self, pool: &mut Pool, frame: Frame, reason: Reason) {
        let packet = &mut pool[&frame];
        packet.reason = reason as u8;
        self.packets[reason as usize] += 1;
        self.bytes[reason as usize] += u64::from(packet.len);
        self.queue.push(pool, frame);
    }

    /// Takes out the packet that was dropped first.
    pub fn pop(&mut self, pool: &mut Pool) -> Option<(Frame, Reason)> {
        let frame = self.queue.pop(pool)?;
        let reason = Reason::of(&pool[&frame]);
        Some((frame, reason))
    }

    /// Packets waiting here.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits here.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Packets dropped so far for one reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.packets[reason as usize]
    }

    /// Bytes dropped so far for one reason.
    pub fn bytes(&self, reason: Reason) -> u64 {
        self.bytes[reason as usize]
    }

    /// Packets dropped so far.
    pub fn total(&self) -> u64 {
        self.packets.iter().sum()
    }
}

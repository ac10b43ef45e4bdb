//! What is counted, and what each counter means.
//!
//! All counters have 64 bits and only grow, except those called *now*. Names are those of the JSON;
//! the text uses the same words. A direction's sums: `received = sent + dropped + backlog` (copies that netem made, its
//! `duplicated`, come to the left side), and in
//! the census `capacity = free + queued + receiving + sending`.
//!
//! | Group | Counter | Meaning |
//! | --- | --- | --- |
//! | `received` | `packets` `bytes` | taken from the receiving NIC; link header counted, FCS not |
//! | `sent` | `packets` `bytes` | handed to the sending NIC |
//! | `backlog` | `packets` `bytes` | waiting in the stages *now*, a peeked packet included |
//! | `dropped` | `packets` | dropped by weir for any reason |
//! | `by_reason` | `aqm` | the AQM's congestion signal (CoDel, COBALT, PI2) |
//! | | `flood` | BLUE: an unresponsive flow in a queue that overflowed |
//! | | `queue_full` | a limit in packets or bytes was reached |
//! | | `memory` | a memory limit was reached, or all frames were in use |
//! | | `ack_filter` | a newer ACK says the same |
//! | | `oversize` | longer than the shaper's bucket or than the sending NIC takes |
//! | | `step` | dualpi2's step threshold, on a packet that cannot be marked |
//! | | `loss` | lost on purpose by an impairment |
//! | | `stale` | older than a second when the link came back |
//! | | `flushed` | taken out by a change of parameters |
//! | `marked` | `ecn` | CE since the AQM chose to mark instead of drop (CoDel, COBALT) |
//! | | `pi2` | CE since dualpi2's probability chose so |
//! | | `ce_threshold` | CE since the sojourn was above `ce_threshold` |
//! | | `step` | CE by dualpi2's step |
//! | | `sce` | ECT(0) made ECT(1) since the sojourn was above `sce_threshold` |
//! | `arrived` `left` | `not_ect` `ect1` `ect0` `ce` | packets by ECN code point, as they came and as they were sent: marks made elsewhere are in `arrived`, marks made here in `marked` |
//! | | `no_ds` | packets without a DS byte (ARP, LLDP, unparsed …) |
//! | – | `unparsed` | packets whose headers could not be read: best effort, unchanged |
//! | – | `refused` | packets that the sending NIC's ring refused: a fault of weir's |
//! | `longest_catch_up` | `bytes` `late_ns` | the most that one turn sent after a shaper had kept packets waiting until a time that the worker came too late for, and how late that was |
//! | `sojourn_ns` | `decision` | from the XDP hook until the queueing stage let the packet go |
//! | | `total` | from the XDP hook until the packet was handed to the sending NIC |
//! | | `tins` | as `decision`, by tin |
//! | `stages` | `kind` and parameters | what is in force in each stage and not shown by tc |
//! | | `limit_dropped` `allocation_errors` | netem: dropped at its limit, copies that found no frame |
//! | `autorate` | `rate` `min` `max` | the shaper's rate *now* and its limits, bytes per second |
//! | | `changes` | times it was changed |
//! | | `base_ns` `rtt_ns` `near_rtt_ns` | lowest round trip beyond OUTSIDE, the last one, and the last beyond INSIDE; 0 if none was seen |
//! | | `why` `last` | why the rate is as it is, and the last decision in words |
//! | `tins` | `sparse_packets` `sparse_bytes` `bulk_packets` `bulk_bytes` | cake: sent from sparse flows and from bulk flows |
//! | | `aqm` `flood` `memory` `ack_filter` | dropped, by reason |
//! | | `ecn` `ce_threshold` `ce_arrived` | CE made by COBALT, made for `ce_threshold` alone, and CE that arrived |
//! | `late_ns` | | from when the worker should have turned until it did |
//! | `census` | `capacity` `free` `queued` `receiving` `sending` | where the frames are *now* |
//! | `census_missing` | | frames that are nowhere *now*: not 0 is a fault of weir's |
//! | `gate` | `redirected` | at the XDP hook: handed to the socket of their queue |
//! | | `bypassed` `passed` `dropped` | sent straight to the other NIC, left to this machine's stack, dropped, as `--on-failure` says |
//! | | `no_socket` `stale` `redirect_failed` | why those were not handed over: no socket on the queue, the worker's heartbeat was old, the redirect was refused |
//! | | `unstamped` | of those redirected: no room for the arrival time |
//! | `kernel` | `rx_ring_full` `rx_fill_ring_empty` `rx_dropped` | frames the kernel dropped before weir: RX ring full, no frame to receive into, other reasons |
//! | | `rx_invalid_descs` `tx_invalid_descs` | bad descriptors: a fault of weir's |
//! | `queues` | the same, per receive queue | |
//! | `port` | `rx_invalid` `completion_invalid` `tx_invalid` | descriptors out of range or not ours: a fault of weir's or of a driver |
//! | | `rx_unstamped` | frames without an arrival time: their sojourn counts from when the worker saw them |
//! | | `kicks` `tx_busy` `tx_down` `tx_errors` | calls that asked the kernel to send, and those that did not succeed |
//! | | `tx_stalls` | times nothing completed for too long |

use serde::Serialize;

use crate::packet::{Marks, Packet};
use crate::qdisc::{Drops, Reason};

/// What an engine counted; all of these only grow.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets taken in.
    pub received_packets: u64,
    /// Bytes taken in, link header included, FCS excluded.
    pub received_bytes: u64,
    /// Packets handed to the sending device.
    pub sent_packets: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Packets whose headers could not be read; best effort.
    pub unparsed: u64,
    /// Of the packets sent: those marked CE since CoDel or COBALT chose to.
    pub marked_ecn: u64,
    /// Those marked CE since dualpi2's probability chose so.
    pub marked_pi2: u64,
    /// Those marked CE since they waited longer than `ce_threshold`.
    pub marked_ce_threshold: u64,
    /// Those marked CE by a step.
    pub marked_step: u64,
    /// Those marked SCE.
    pub marked_sce: u64,
    /// Packets that the sending device refused: a fault of ours, see `tx_invalid`.
    pub refused: u64,
    /// The longest burst that repaid a late wake-up.
    pub longest_catch_up: CatchUp,
    /// Packets taken in, by ECN code point.
    pub arrived: CodePoints,
    /// Packets sent, by ECN code point.
    pub left: CodePoints,
}

impl Counters {
    /// A packet came in; its headers have been read.
    pub fn receive(&mut self, packet: &Packet) {
        self.received_packets += 1;
        self.received_bytes += u64::from(packet.len);
        self.arrived.count(packet, packet.ds_arrived);
    }

    /// A packet was handed to the sending device.
    pub fn send(&mut self, packet: &Packet) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(packet.len);
        self.left.count(packet, packet.ds);
        // As in the kernel, a discipline counts CE that was there before as its mark; here it is none
        // (decisions.md 24).
        if packet.ecn() == packet.ds_arrived & 3 {
            return;
        }
        self.marked_ecn += u64::from(packet.marks.has(Marks::ECN));
        self.marked_pi2 += u64::from(packet.marks.has(Marks::PI2));
        self.marked_ce_threshold += u64::from(packet.marks.has(Marks::CE_THRESHOLD));
        self.marked_step += u64::from(packet.marks.has(Marks::STEP));
        self.marked_sce += u64::from(packet.marks.has(Marks::SCE));
    }
}

/// What one turn sent since it came later than the shaper's time for the first of it: the price of the rate being kept
/// although the worker was late.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct CatchUp {
    /// Bytes sent in that turn.
    pub bytes: u64,
    /// How late it was, nanoseconds.
    pub late_ns: u64,
}

/// Packets by ECN code point (RFC 3168 §5).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct CodePoints {
    /// 00: the sender does not do ECN.
    pub not_ect: u64,
    /// 01: ECT(1), for L4S senders; or SCE.
    pub ect1: u64,
    /// 10: ECT(0).
    pub ect0: u64,
    /// 11: congestion experienced.
    pub ce: u64,
    /// No DS byte at all.
    pub no_ds: u64,
}

impl CodePoints {
    fn count(&mut self, packet: &Packet, ds: u8) {
        let counter = match ds & 3 {
            _ if !packet.has_ds() => &mut self.no_ds,
            0 => &mut self.not_ect,
            1 => &mut self.ect1,
            2 => &mut self.ect0,
            _ => &mut self.ce,
        };
        *counter += 1;
    }

    /// Packets counted.
    pub fn total(&self) -> u64 {
        self.not_ect + self.ect1 + self.ect0 + self.ce + self.no_ds
    }
}

/// Where all frames are.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Census {
    /// All there are.
    pub capacity: usize,
    /// In the pool.
    pub free: usize,
    /// In the pipeline and among the drops.
    pub queued: usize,
    /// With the receiving device.
    pub receiving: usize,
    /// With the sending device.
    pub sending: usize,
}

impl Census {
    /// Frames that are nowhere: none, or something is wrong.
    pub fn missing(&self) -> i64 {
        self.capacity as i64 - (self.free + self.queued + self.receiving + self.sending) as i64
    }
}

/// Drops of one direction by reason.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct DropCounts {
    /// Packets, in the order of [`Reason::ALL`].
    pub packets: [u64; Reason::ALL.len()],
    /// Bytes, likewise.
    pub bytes: [u64; Reason::ALL.len()],
}

impl DropCounts {
    /// What has gone through the door so far.
    pub fn of(drops: &Drops) -> DropCounts {
        DropCounts { packets: Reason::ALL.map(|r| drops.count(r)), bytes: Reason::ALL.map(|r| drops.bytes(r)) }
    }

    /// Packets dropped for any reason.
    pub fn total(&self) -> u64 {
        self.packets.iter().sum()
    }

    /// Reasons with their packets and bytes, those that happened only.
    pub fn happened(&self) -> impl Iterator<Item = (Reason, u64, u64)> {
        let counted = Reason::ALL.into_iter().zip(self.packets).zip(self.bytes);
        counted.map(|((r, p), b)| (r, p, b)).filter(|(_, p, _)| *p > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Network;

    #[test]
    fn marks_made_here_and_marks_that_arrived_are_told_apart() {
        let mut c = Counters::default();
        let came_marked = Packet { network: Network::V4, ds: 3, ds_arrived: 3, len: 100, ..Packet::default() };
        let mut made = Packet { network: Network::V6, ds: 3, ds_arrived: 1, len: 50, ..Packet::default() };
        made.marks.add(Marks::ECN);
        made.marks.add(Marks::CE_THRESHOLD);
        let arp = Packet { network: Network::Arp, len: 42, ..Packet::default() };
        for packet in [came_marked, made, arp] {
            c.receive(&packet);
            c.send(&packet);
        }
        assert_eq!(c.arrived, CodePoints { ce: 1, ect1: 1, no_ds: 1, ..CodePoints::default() });
        assert_eq!(c.left, CodePoints { ce: 2, no_ds: 1, ..CodePoints::default() });
        assert_eq!((c.marked_ecn, c.marked_ce_threshold, c.marked_sce), (1, 1, 0));
        assert_eq!(c.arrived.total(), c.received_packets);
        assert_eq!((c.sent_packets, c.sent_bytes), (3, 192));
    }

    #[test]
    fn every_reason_for_a_drop_is_in_the_table() {
        let table = include_str!("counters.rs");
        for reason in Reason::ALL {
            assert!(table.contains(&format!("`{}`", reason.name())), "{}", reason.name());
        }
    }
}

//! The record that stands for a packet while weir has it: 64 bytes, one cache line.
//!
//! A record says what the queues need to know. The bytes of the frame stay where the NIC put
//! them; what a discipline decides about the DS byte is noted here and written into the frame
//! once, when it leaves (`engine.rs`).

use crate::time::Instant;

/// What follows the link layer, as far as marking and DSCP are concerned.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Network {
    /// Anything that has no DS byte we can read: unparsed, LLDP, MPLS, …
    #[default]
    Other,
    /// IPv4 with a DS byte.
    V4,
    /// IPv6 with a DS byte.
    V6,
    /// ARP: no DS byte, classified as CS7 by cake.
    Arp,
}

/// Why a packet was marked; several can apply to one packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// No mark.
    pub const NONE: Marks = Marks(0);
    /// The AQM chose to mark instead of dropping.
    pub const ECN: Marks = Marks(1);
    /// Sojourn above `ce_threshold`.
    pub const CE_THRESHOLD: Marks = Marks(2);
    /// dualpi2's step threshold.
    pub const STEP: Marks = Marks(4);
    /// Sojourn above `sce_threshold`: ECT(0) became ECT(1).
    pub const SCE: Marks = Marks(8);
    /// dualpi2 chose to mark instead of dropping, by its probability.
    pub const PI2: Marks = Marks(16);
    /// Coded marking of L4S: ECT(1) became CE with a probability that says how deep the queue is.
    pub const MB_ECN: Marks = Marks(32);
    /// The AQM chose to drop, and did not, since the frame itself says how deep the queue is.
    pub const HELD_BACK: Marks = Marks(64);

    /// Adds the reasons in `other`.
    pub fn add(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    /// Whether all of `other` apply.
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether none applies.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where a frame carries the codes of multi-bit ECN, and what follows from that.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Signal(u8);

impl Signal {
    /// Nowhere.
    pub const NONE: Signal = Signal(0);
    /// In an IPv6 hop-by-hop option.
    pub const OPTION: Signal = Signal(1);
    /// In the header of a data-transfer frame.
    pub const DTP: Signal = Signal(2);

    /// The same, held back instead of dropped by the AQM (`spec/mb-ecn.md` §5.6).
    #[must_use]
    pub fn protected(self) -> Self {
        Signal(self.0 | 4)
    }

    /// Where the codes are, whatever follows from that.
    pub fn carrier(self) -> Self {
        Signal(self.0 & 3)
    }

    /// Whether the AQM holds it back instead of dropping it.
    pub fn is_protected(self) -> bool {
        self.0 & 4 != 0
    }
}

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (Marks::ECN, "ecn"),
            (Marks::PI2, "ecn"),
            (Marks::CE_THRESHOLD, "ce_threshold"),
            (Marks::STEP, "step"),
            (Marks::SCE, "sce"),
            (Marks::MB_ECN, "mb-ecn"),
            (Marks::HELD_BACK, "held-back"),
        ];
        let mut named: Vec<_> = names.iter().filter(|(m, _)| self.has(*m)).map(|(_, n)| *n).collect();
        named.dedup();
        f.write_str(&named.join("+"))
    }
}

/// A packet. Fields in the second group belong to the stage that holds the packet at the moment;
/// each stage sets what it uses when the packet comes in and must not expect it to survive.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// When the frame met weir (live: the XDP hook); the total sojourn counts from here.
    pub arrived: Instant,
    /// Stage: when it was enqueued here, by the worker's clock (decisions.md 11).
    pub enqueued: Instant,
    /// Stage: when it may leave (`netem`); after a queueing stage let it go, the moment of that decision.
    pub released: Instant,
    /// Length as the discipline sees it: link header included, FCS excluded, in bytes.
    pub len: u32,
    /// Memory charged for it, in bytes (the kernel's truesize model, [`truesize`]).
    pub truesize: u32,
    /// Stage: length charged to the shaper and to deficits.
    pub charged: u32,
    /// Stage: the queue it is in.
    pub queue: u32,
    /// Firewall mark. A bridge sees none; traces may.
    pub fwmark: u32,
    /// Kernel priority (`skb->priority`). A bridge sees none; traces may.
    pub priority: u32,
    /// Link through the pool; owned by `pool.rs`.
    pub(crate) next: u32,
    /// Where the network header starts, from the start of the frame, in bytes.
    pub net_offset: u16,
    /// Where the frame starts in its buffer, in bytes; owned by the port.
    pub headroom: u16,
    /// DS byte (DSCP and ECN) as it shall leave.
    pub ds: u8,
    /// DS byte as it came.
    pub ds_arrived: u8,
    /// What the network layer is.
    pub network: Network,
    /// Marks made here.
    pub marks: Marks,
    /// Stage: the tin it was sorted into.
    pub tin: u8,
    /// Stage: what multi-bit ECN found in it.
    pub signal: Signal,
    /// Whether `netem` made it by duplicating another: no stage duplicates it again.
    pub copy: bool,
    /// Why it was dropped; owned by `qdisc/drops.rs`.
    pub(crate) reason: u8,
}

const _: () = assert!(size_of::<Packet>() == 64, "a record is one cache line");

impl Packet {
    /// The ECN field as it shall leave: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE (RFC 3168 §5).
    pub fn ecn(&self) -> u8 {
        self.ds & 3
    }

    /// The DS code point as it shall leave, 0…63.
    pub fn dscp(&self) -> u8 {
        self.ds >> 2
    }

    /// Whether there is a DS byte at all.
    pub fn has_ds(&self) -> bool {
        matches!(self.network, Network::V4 | Network::V6)
    }
}

/// The memory the kernel charges for a packet of `len` bytes: the model of the recorded traces
/// (decisions.md 14).
pub const fn truesize(len: u32) -> u32 {
    if len <= 256 {
        768
    } else if len <= 2048 {
        2304
    } else {
        256 + len.div_ceil(4096) * 4096
    }
}

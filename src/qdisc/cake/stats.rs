//! What cake reports (`spec/cake.md` §20), 64-bit throughout.

use super::cobalt::Law;
use super::ewma;
use super::overhead::Lengths;
use super::params::Params;
use super::shaper::Pace;
use crate::qdisc::Reason;
use crate::stats::Basic;
use crate::time::Instant;
use crate::units::Rate;

/// Delays of a tin's packets, averaged on each delivery, ns.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Rises and falls slowly.
    pub average: u64,
    /// Rises fast.
    pub peak: u64,
    /// Falls fast: what sparse flows see.
    pub base: u64,
}

impl Delays {
    #[inline]
    pub(super) fn note(&mut self, delay: u64) {
        self.average = ewma(self.average, delay, 8);
        self.peak = ewma(self.peak, delay, if delay > self.peak { 2 } else { 8 });
        self.base = ewma(self.base, delay, if delay < self.base { 2 } else { 8 });
    }
}

/// Counters of a tin; all but the last group are tc's.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Packets enqueued, later drops included.
    pub packets: u64,
    /// Bytes enqueued, likewise.
    pub bytes: u64,
    /// Packets dropped by the AQM or for want of memory.
    pub drops: u64,
    /// Packets delivered that were to be marked, if they came with CE or not.
    pub marks: u64,
    /// ACKs filtered.
    pub ack_drops: u64,
    /// Queues found where the hash points to.
    pub way_direct: u64,
    /// Queues found in another way.
    pub way_indirect: u64,
    /// Queues newly taken.
    pub way_misses: u64,
    /// Queues shared for want of a free one.
    pub way_collisions: u64,
    /// Largest packet, bytes.
    pub max_len: u32,
    /// Delays.
    pub delays: Delays,
    /// Packets dropped because of a packet of this tin that did not fit.
    pub overflows: u64,

    /// Packets that came with CE.
    pub ce_in: u64,
    /// Packets delivered on which CE was set here, for whatever reason.
    pub ce_made: u64,
    /// Packets delivered above `ce_threshold` that could be marked, if they bore CE already or not.
    pub ce_threshold: u64,
    /// Packets delivered that `sce_threshold` made ECT(1).
    pub sce: u64,
    /// Packets delivered from sparse flows.
    pub sent_sparse: u64,
    /// Bytes delivered from sparse flows.
    pub sent_sparse_bytes: u64,
    /// Packets delivered from bulk flows.
    pub sent_bulk: u64,
    /// Bytes delivered from bulk flows.
    pub sent_bulk_bytes: u64,
    /// Packets of this tin that CoDel dropped.
    pub dropped_aqm: u64,
    /// Packets of this tin that BLUE dropped.
    pub dropped_flood: u64,
    /// Packets of this tin that were dropped for want of memory.
    pub dropped_memory: u64,
    /// Packets that left this tin because it was abolished, into another.
    pub moved: u64,
}

impl Counters {
    /// Drops of this tin's packets for one reason.
    pub fn dropped(&self, reason: Reason) -> u64 {
        match reason {
            Reason::Aqm => self.dropped_aqm,
            Reason::Flood => self.dropped_flood,
            Reason::Memory => self.dropped_memory,
            Reason::AckFilter => self.ack_drops,
            _ => 0,
        }
    }
}

/// What cake reports of a tin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TinStats {
    /// Its number inside, by which packets name it.
    pub number: usize,
    /// Its name; none where tc numbers tins.
    pub name: Option<&'static str>,
    /// Rate up to which it is served before others.
    pub threshold: Rate,
    /// COBALT's parameters.
    pub law: Law,
    /// Time per byte at the threshold.
    pub pace: Pace,
    /// What a flow may send in its turn, bytes.
    pub flow_quantum: u16,
    /// Weight where there is no shaper.
    pub quantum: u16,
    /// Credit where there is no shaper.
    pub deficit: i32,
    /// Until when its threshold is used up.
    pub time_next: Instant,
    /// Bytes held.
    pub backlog: u64,
    /// Sparse flows, without decaying ones.
    pub sparse: u32,
    /// Bulk flows.
    pub bulk: u32,
    /// Flows that are empty while COBALT calms down.
    pub decaying: u32,
    /// Flows that BLUE drops from.
    pub unresponsive: u32,
    /// Counters.
    pub counters: Counters,
}

/// What cake reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures.
    pub basic: Basic,
    /// Parameters as asked for.
    pub params: Params,
    /// The rate in force, which `autorate-ingress` moves.
    pub rate: Rate,
    /// Time per byte at that rate.
    pub pace: Pace,
    /// Memory held, bytes.
    pub memory: u64,
    /// The most that was held.
    pub memory_peak: u64,
    /// The limit.
    pub memory_limit: u64,
    /// The estimate of `autorate-ingress`; the first rate if that is off.
    pub capacity: Rate,
    /// Smallest and largest lengths.
    pub lengths: Lengths,
    /// Tins in the order in which they are shown.
    pub tins: Vec<TinStats>,
}

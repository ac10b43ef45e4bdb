//! What `cake` can be told, in the kernel's own units (`spec/cake.md` §1).

use crate::mark::sce;
use crate::time::MICROSECOND;
use crate::units::{Rate, RateRange};

/// Queues per tin in the kernel.
pub const QUEUES: u32 = 1024;
/// The fewest and the most queues per tin that [`Params::queues`] allows; a power of two.
pub const QUEUES_ALLOWED: std::ops::RangeInclusive<u32> = 256..=65_536;

/// How packets are sorted into tins (`spec/cake.md` §5.2, §7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TinMode {
    /// Three tins: Bulk, Best Effort, Voice.
    #[default]
    Diffserv3,
    /// Four tins: Bulk, Best Effort, Video, Voice.
    Diffserv4,
    /// Eight tins.
    Diffserv8,
    /// One tin.
    BestEffort,
    /// Eight tins by IP precedence.
    Precedence,
}

impl TinMode {
    /// All modes, in the order of their numbers in the kernel's interface.
    pub const ALL: [TinMode; 5] =
        [TinMode::Diffserv3, TinMode::Diffserv4, TinMode::Diffserv8, TinMode::BestEffort, TinMode::Precedence];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            TinMode::Diffserv3 => "diffserv3",
            TinMode::Diffserv4 => "diffserv4",
            TinMode::Diffserv8 => "diffserv8",
            TinMode::BestEffort => "besteffort",
            TinMode::Precedence => "precedence",
        }
    }
}

/// What shares a queue, and what shares the link evenly (`spec/cake.md` §8.1). The number's bits
/// are 1 source, 2 destination, 4 flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum FlowMode {
    /// One queue per tin.
    Flowblind,
    /// A queue per source host.
    SrcHost,
    /// A queue per destination host.
    DstHost,
    /// A queue per pair of hosts.
    Hosts,
    /// A queue per flow.
    Flows,
    /// A queue per flow; source hosts share evenly.
    DualSrcHost,
    /// A queue per flow; destination hosts share evenly.
    DualDstHost,
    /// A queue per flow; the busier of its two hosts decides.
    #[default]
    TripleIsolate,
}

impl FlowMode {
    /// All modes, in the order of their numbers.
    pub const ALL: [FlowMode; 8] = [
        FlowMode::Flowblind,
        FlowMode::SrcHost,
        FlowMode::DstHost,
        FlowMode::Hosts,
        FlowMode::Flows,
        FlowMode::DualSrcHost,
        FlowMode::DualDstHost,
        FlowMode::TripleIsolate,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            FlowMode::Flowblind => "flowblind",
            FlowMode::SrcHost => "srchost",
            FlowMode::DstHost => "dsthost",
            FlowMode::Hosts => "hosts",
            FlowMode::Flows => "flows",
            FlowMode::DualSrcHost => "dual-srchost",
            FlowMode::DualDstHost => "dual-dsthost",
            FlowMode::TripleIsolate => "triple-isolate",
        }
    }

    /// Whether the 5-tuple chooses the queue.
    pub const fn by_flow(self) -> bool {
        self as u8 & 4 != 0
    }

    /// Whether the source address takes part.
    pub const fn by_source(self) -> bool {
        self as u8 & 1 != 0
    }

    /// Whether the destination address takes part.
    pub const fn by_destination(self) -> bool {
        self as u8 & 2 != 0
    }

    /// Whether a source host with many bulk flows gets no more than one with few.
    pub const fn fair_sources(self) -> bool {
        self.by_flow() && self.by_source()
    }

    /// The same for destination hosts.
    pub const fn fair_destinations(self) -> bool {
        self.by_flow() && self.by_destination()
    }
}

/// What happens to ACKs that a newer one makes redundant (`spec/cake.md` §15).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AckFilter {
    /// Nothing.
    #[default]
    Off,
    /// The oldest of two is dropped; one older than the newest stays.
    Filter,
    /// Only the newest need stay.
    Aggressive,
}

/// How the link below cuts packets (`spec/cake.md` §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// Not at all.
    #[default]
    None,
    /// 53 bytes for each 48 begun.
    Atm,
    /// One byte more for each 64 begun.
    Ptm,
}

/// weir's own: above what sojourn COBALT may act, besides the target
/// (`spec/cake.md` §13.2 and decisions of the CAKE list of 2018). M is the time of one MTU at the
/// tin's rate, B the number of bulk flows in the tin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MinOccupancy {
    /// More than 4 M, and more than 2 M B: the kernel's rule.
    #[default]
    Kernel,
    /// Above the target alone.
    None,
    /// More than M.
    OneMtu,
    /// More than 2 M.
    TwoMtu,
    /// More than 4 M.
    FourMtu,
    /// More than 2 M B.
    TwoMtuFlows,
    /// More than 4 M B.
    FourMtuFlows,
    /// More than 2 M B, or more than 4 M.
    Or,
}

impl MinOccupancy {
    /// All rules.
    pub const ALL: [MinOccupancy; 8] = [
        MinOccupancy::Kernel,
        MinOccupancy::None,
        MinOccupancy::OneMtu,
        MinOccupancy::TwoMtu,
        MinOccupancy::FourMtu,
        MinOccupancy::TwoMtuFlows,
        MinOccupancy::FourMtuFlows,
        MinOccupancy::Or,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            MinOccupancy::Kernel => "kernel",
            MinOccupancy::None => "none",
            MinOccupancy::OneMtu => "1mtu",
            MinOccupancy::TwoMtu => "2mtu",
            MinOccupancy::FourMtu => "4mtu",
            MinOccupancy::TwoMtuFlows => "2mtu-flows",
            MinOccupancy::FourMtuFlows => "4mtu-flows",
            MinOccupancy::Or => "or",
        }
    }
}

/// weir's own: marks every packet above a sojourn, if its DS byte under the mask is the selector
/// (as in `fq_codel`, `spec/codel.md` §1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CeThreshold {
    /// The sojourn, µs.
    pub us: u32,
    /// What the DS byte must be under the mask.
    pub selector: u8,
    /// Which bits are looked at; none by default.
    pub mask: u8,
}

/// Parameters, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Rate of the shaper; zero for none.
    pub rate: Rate,
    /// The kernel's `autorate-ingress` (`spec/cake.md` §18).
    pub autorate: bool,
    /// weir's own `autorate`: between which rates the driver moves `rate` while it works.
    pub range: Option<RateRange>,
    /// Width of the window of observation, µs.
    pub interval_us: u32,
    /// Acceptable standing sojourn, µs.
    pub target_us: u32,
    /// How packets are sorted into tins.
    pub tins: TinMode,
    /// What shares a queue.
    pub flows: FlowMode,
    /// Accepted and shown; a bridge knows of no translated addresses.
    pub nat: bool,
    /// Clears the DSCP after it was read.
    pub wash: bool,
    /// Accepted and shown; XDP sees no aggregates.
    pub split_gso: bool,
    /// What happens to redundant ACKs.
    pub ack_filter: AckFilter,
    /// Memory limit, bytes; zero for the automatic one (`spec/cake.md` §14.1).
    pub memlimit: u64,
    /// Which bits of a packet's mark choose a tin; zero for none.
    pub fwmark: u32,
    /// The shaper stands behind the bottleneck (`spec/cake.md` §16).
    pub ingress: bool,
    /// How the link below cuts packets.
    pub framing: Framing,
    /// Bytes added to each packet, −64…256.
    pub overhead: i16,
    /// Whether lengths count from the network header (the kernel's "overhead active"), else from
    /// the start of the frame.
    pub compensated: bool,
    /// Smallest length charged before framing, bytes.
    pub mpu: u16,
    /// weir's own.
    pub ce_threshold: Option<CeThreshold>,
    /// weir's own: sojourn above which ECT(0) becomes ECT(1).
    pub sce_threshold: Option<sce::Threshold>,
    /// weir's own.
    pub min_occupancy: MinOccupancy,
    /// The rule of `min_occupancy` holds in egress mode too.
    pub min_occupancy_both: bool,
    /// Queues in each tin: a power of two in [`QUEUES_ALLOWED`].
    pub queues: u32,
    /// The fattest queue loses a packet when memory is short, instead of the one that the kernel's
    /// heap takes for it (`spec/cake.md` §14.3).
    pub exact_heap: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            rate: Rate::default(),
            autorate: false,
            range: None,
            interval_us: 100_000,
            target_us: 5_000,
            tins: TinMode::default(),
            flows: FlowMode::default(),
            nat: false,
            wash: false,
            split_gso: true,
            ack_filter: AckFilter::default(),
            memlimit: 0,
            fwmark: 0,
            ingress: false,
            framing: Framing::default(),
            overhead: 0,
            compensated: false,
            mpu: 0,
            ce_threshold: None,
            sce_threshold: None,
            min_occupancy: MinOccupancy::default(),
            min_occupancy_both: false,
            queues: QUEUES,
            exact_heap: false,
        }
    }
}

impl Params {
    /// Memory that [`super::Cake`] takes for itself when it is built, in bytes.
    pub fn memory(&self) -> usize {
        let per_queue = super::flows::Flows::memory() + 2 * (4 + 2) + 12;
        super::TINS * (self.queues as usize * per_queue + size_of::<super::tins::Tin>())
    }

    /// From what sojourn on COBALT may act in a tin, in ns, with so many bulk flows there: above it,
    /// not at it (`spec/cake.md` §13.2).
    pub fn acts_above(&self, law: &super::Law, bulk: u32) -> u64 {
        let counts = self.ingress || self.min_occupancy_both;
        let flows = law.mtu_time.saturating_mul(if counts { bulk.into() } else { 0 });
        let mtus = |n: u64| law.mtu_time.saturating_mul(n);
        let floor = match self.min_occupancy {
            MinOccupancy::Kernel => mtus(4).max(flows.saturating_mul(2)),
            _ if !counts => 0,
            MinOccupancy::None => 0,
            MinOccupancy::OneMtu => mtus(1),
            MinOccupancy::TwoMtu => mtus(2),
            MinOccupancy::FourMtu => mtus(4),
            MinOccupancy::TwoMtuFlows => flows.saturating_mul(2),
            MinOccupancy::FourMtuFlows => flows.saturating_mul(4),
            MinOccupancy::Or => mtus(4).min(flows.saturating_mul(2)),
        };
        floor.max(law.target)
    }

    /// Target and interval in ns, each at least a microsecond (`spec/cake.md` §3.4).
    pub(super) fn times(&self) -> (u64, u64) {
        let ns = |us: u32| u64::from(us.max(1)) * MICROSECOND;
        (ns(self.target_us), ns(self.interval_us))
    }

    /// The memory limit at a rate (`spec/cake.md` §14.1), bytes.
    pub(super) fn memory_limit(&self, rate: Rate, mtu: u32) -> u64 {
        let base = if self.memlimit != 0 {
            self.memlimit
        } else if !rate.is_zero() {
            let window = rate.bytes_per_second().wrapping_mul(u64::from(self.interval_us.max(1))) / 250_000;
            // The kernel keeps the low 32 bits before it compares.
            u64::from(window as u32).max(4 << 20)
        } else {
            u32::MAX.into()
        };
        base.min((10_240 * u64::from(mtu)).max(self.memlimit))
    }
}

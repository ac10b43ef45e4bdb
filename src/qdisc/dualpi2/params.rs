//! What `dualpi2` is told, and what it reports.

use super::controller::Controller;
use crate::stats::Basic;
use crate::time::MICROSECOND;

/// When the packet at the head of L is marked for its own delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Sojourn above so many microseconds.
    Time(u32),
    /// More than so many packets behind it in L.
    Packets(u32),
}

/// Which ECN fields go to L.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMask {
    /// ECT(1) and CE (RFC 9331).
    L4s,
    /// ECT(0) too.
    Any,
}

impl EcnMask {
    /// The bits of which one must be set.
    pub const fn bits(self) -> u8 {
        match self {
            EcnMask::L4s => 1,
            EcnMask::Any => 3,
        }
    }
}

/// Parameters, as written (`spec/dualpi2.md` §2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Packets held at most, both queues together.
    pub limit: u32,
    /// Memory held at most, bytes of truesize; `None` for two MTUs per packet of `limit`.
    pub memlimit: Option<u32>,
    /// Set point of the controller, µs.
    pub target_us: u32,
    /// Time between its runs, µs, at least 1.
    pub tupdate_us: u32,
    /// Integral gain, 1/256 Hz.
    pub alpha: u32,
    /// Proportional gain, 1/256 Hz.
    pub beta: u32,
    /// The step threshold.
    pub step: Step,
    /// The step is for packets that found at least so many in L.
    pub min_qlen_step: u32,
    /// k, 1…255.
    pub coupling_factor: u8,
    /// When k·p′ passes 1: drop from both queues alike, or (`overflow`) stop there and let the limit
    /// drop.
    pub drop_on_overload: bool,
    /// Judge packets as they come instead of as they leave.
    pub drop_enqueue: bool,
    /// Weight of C, percent.
    pub classic_protection: u8,
    /// Which ECN fields go to L.
    pub ecn_mask: EcnMask,
    /// Split super-packets. weir meets none; kept so that a line from tc reads and prints.
    pub split_gso: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            limit: 10_000,
            memlimit: None,
            target_us: 15_000,
            tupdate_us: 16_000,
            alpha: 41,
            beta: 819,
            step: Step::Time(1000),
            min_qlen_step: 0,
            coupling_factor: 2,
            drop_on_overload: true,
            drop_enqueue: false,
            classic_protection: 10,
            ecn_mask: EcnMask::L4s,
            split_gso: true,
        }
    }
}

impl Params {
    /// The memory limit in force on a link with this MTU.
    pub fn memory_limit(&self, mtu: u32) -> u32 {
        let default = u64::from(self.limit) * 2 * u64::from(mtu);
        self.memlimit.unwrap_or(u32::try_from(default).unwrap_or(u32::MAX))
    }

    pub(super) fn controller(&self) -> Controller {
        let tupdate = (u64::from(self.tupdate_us) * MICROSECOND).min(u32::MAX.into());
        let ceiling = match self.drop_on_overload {
            true => u32::MAX,
            false => u32::MAX / u32::from(self.coupling_factor),
        };
        let target = u64::from(self.target_us) * MICROSECOND;
        Controller::new(target, tupdate, [self.alpha, self.beta], ceiling)
    }
}

/// What is known of the low-latency queue alone.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LowLatency {
    /// Packets held.
    pub qlen: u32,
    /// Bytes held.
    pub backlog: u64,
    /// Packets delivered.
    pub sent_packets: u64,
    /// Packets dropped by the step. As in the kernel, drops by the AQM and on arrival are not here.
    pub drops: u64,
    /// Packets dropped on arrival.
    pub overlimits: u64,
}

/// What `dualpi2` reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures.
    pub basic: Basic,
    /// What it was built with.
    pub params: Params,
    /// Set point in force, ns.
    pub target_ns: u64,
    /// Time between runs in force, ns.
    pub tupdate_ns: u64,
    /// Gains in force, per 64 ns in units of 2^−32; [`reported_gain`](super::reported_gain) gives 1/256 Hz.
    pub alpha: u32,
    /// See `alpha`.
    pub beta: u32,
    /// Base probability, units of 2^−32.
    pub prob: u32,
    /// Runs of the controller so far.
    pub runs: u64,
    /// Larger delay at the last run, ns.
    pub last_delay_ns: u64,
    /// Age of the head of C, ns; 0 if there is none.
    pub delay_c_ns: u64,
    /// Age of the head of L, ns; 0 if there is none.
    pub delay_l_ns: u64,
    /// Packets that came into C.
    pub packets_in_c: u32,
    /// Packets that came into L.
    pub packets_in_l: u32,
    /// Most packets ever found held by one that came.
    pub maxq: u32,
    /// CE set, by the coupling and by the step.
    pub ecn_mark: u32,
    /// CE set by the step.
    pub step_marks: u32,
    /// The scheduler's credit: C is next if it is positive.
    pub credit: i32,
    /// What the credit starts from.
    pub credit_init: i32,
    /// Memory held, bytes.
    pub memory_used: u32,
    /// The most that was ever held, bytes.
    pub max_memory_used: u32,
    /// Memory held at most, bytes.
    pub memory_limit: u32,
    /// The low-latency queue alone.
    pub l: LowLatency,
}

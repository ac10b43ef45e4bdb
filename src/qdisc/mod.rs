//! Queueing disciplines: what they share.
//!
//! A discipline is a struct with parameters, state and three verbs. It owns no packet memory, reads
//! no clock and draws no randomness of its own; all that comes in through [`Cx`]. The dead come out
//! too: whatever does not leave through `dequeue` leaves through [`Drops`], with a reason.

/// What a discipline holds, for one that counts all of it in one [`Basic`](crate::stats::Basic): the four methods of
/// [`Qdisc`] that ask for it and change it.
macro_rules! counted_in {
    ($($basic:ident).+) => {
        fn packets(&self) -> u32 {
            self.$($basic).+.qlen
        }

        fn bytes(&self) -> u64 {
            self.$($basic).+.backlog
        }

        fn hold(&mut self, len: u32) {
            self.$($basic).+.hold(len);
        }

        fn let_go(&mut self, len: u32) {
            self.$($basic).+.let_go(len);
        }
    };
}

pub mod cake;
pub mod codel;
pub mod drops;
pub mod dualpi2;
pub mod fifo;
pub mod fq_codel;
pub mod htb;
pub mod link;
pub mod marking;
pub mod netem;
pub mod tbf;

use crate::classify::{Hashing, Headers};
use crate::mark::mb_ecn::Depth;
use crate::pipeline::Link;
use crate::pool::{Frame, Pool, Slot};
pub use crate::pool::{Frames, NoFrames};
use crate::rng::Random;
use crate::spec::Stage;
use crate::stats::StageStats;
use crate::time::Instant;
use crate::units::Rate;
pub use drops::{Drops, Reason};

/// Which kernel's decisions are wanted, where kernels differ (decisions.md 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compat {
    /// As recorded from Linux 6.12.117.
    V6_12,
    /// The newest kernel the specifications describe, repairs included.
    #[default]
    Latest,
}

/// The major number of a discipline, as in tc's `1:` (root) and `10:` (child of a shaper): a packet's
/// priority `major:minor` names a class of the discipline with that handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(u16);

impl Handle {
    /// A discipline that no other pulls from.
    pub const ROOT: Handle = Handle(0x1);
    /// A discipline under a shaper.
    pub const CHILD: Handle = Handle(0x10);

    /// The minor number in a priority, if it is meant for this discipline.
    pub fn minor_of(self, priority: u32) -> Option<u16> {
        ((priority >> 16) as u16 == self.0).then_some(priority as u16)
    }
}

/// What a discipline works with besides itself.
pub struct Cx<'a> {
    /// The packet records.
    pub pool: &'a mut Pool,
    /// The way out for what is not sent.
    pub drops: &'a mut Drops,
    /// Random numbers.
    pub random: &'a mut Random,
    /// How flow keys become numbers.
    pub hashing: &'a mut Hashing,
    /// Frame bytes.
    pub frames: &'a mut dyn Frames,
}

/// One queueing discipline.
///
/// After every call `received = sent + dropped + backlog` holds; the pipeline's tests and its
/// debug assertions check it.
pub trait Qdisc: Send {
    /// Takes a packet in. It is now this discipline's, or in `cx.drops`.
    fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>);

    /// Gives the next packet that may leave at `now`, or none.
    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame>;

    /// The packet that `dequeue` would give, if looking at it decides nothing: FIFOs only. An AQM
    /// decides as it is asked, so its parent must use [`Qdisc::hold`].
    fn front(&self) -> Option<Slot> {
        None
    }

    /// When to ask again after `dequeue` gave none; `None` if only a new packet can change that.
    /// Always later than the `now` of that call.
    fn next_event(&self) -> Option<Instant> {
        None
    }

    /// Whether [`Qdisc::next_event`] is a timer that ends a recording even if nothing is held any
    /// more, and not a controller that runs for ever.
    fn ends_by_timer(&self) -> bool {
        false
    }

    /// Called when [`Qdisc::next_event`] has come, before `dequeue`: for controllers that run by the
    /// clock. Calling it early or often does no harm.
    fn tick(&mut self, _now: Instant, _cx: &mut Cx<'_>) {}

    /// The clock at the moment the stage is set to work: the origin of slots and of link traces. A
    /// stage that is never told takes its first packet for the start.
    fn start(&mut self, _now: Instant) {}

    /// The rate at which the stages behind this one take packets, if they have one: told when the
    /// pipeline is built and whenever it changes (decisions.md 27).
    fn set_drain(&mut self, _below: Option<Rate>) {}

    /// The rate at which this stage itself lets packets go, if it has one.
    fn rate(&self) -> Option<Rate> {
        None
    }

    /// What stands in the queue of a packet that is here or has just left, and around it: what
    /// multi-bit ECN writes into frames.
    fn depth(&self, _packet: &crate::packet::Packet) -> Depth {
        Depth::single(self.packets())
    }

    /// Packets held, a peeked one included.
    fn packets(&self) -> u32;

    /// Bytes held, a peeked packet included.
    fn bytes(&self) -> u64;

    /// The parent took a packet of `len` bytes out by `dequeue` only to look at it: it counts as
    /// held here until [`Qdisc::let_go`] (`spec/codel.md` §5, decisions.md 2).
    fn hold(&mut self, len: u32);

    /// The parent sent the packet that it held.
    fn let_go(&mut self, len: u32);

    /// Counters and state, for people and for comparison with the kernel.
    fn stats(&self, now: Instant) -> StageStats;

    /// Queue state right after the last packet was delivered or dropped, for traces.
    fn observe(&self, _packet: &crate::packet::Packet) -> Observation {
        Observation::default()
    }

    /// Memory and tins at this moment, for traces.
    fn levels(&self) -> Levels {
        Levels::default()
    }

    /// The discipline whose packets this one paces, if any.
    fn child(&self) -> Option<&dyn Qdisc> {
        None
    }

    /// The same, to be changed.
    fn child_mut(&mut self) -> Option<&mut dyn Qdisc> {
        None
    }

    /// Whether this discipline, at work, can take the parameters of `stage`.
    ///
    /// # Errors
    /// Why it cannot: another kind, or a parameter that is settled when it begins.
    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        Err(format!("{} cannot be changed while it works; end the instance and start it anew", stage.kind()))
    }

    /// Takes the parameters of `stage` between two packets: what waits goes on waiting, and what no
    /// longer fits leaves through the drops as [`Reason::Flushed`]. [`Qdisc::can_change`] has said yes.
    fn change(&mut self, _stage: &Stage, _link: Link, _now: Instant, _cx: &mut Cx<'_>) {}
}

/// Why a discipline cannot take the parameters of another.
pub(crate) fn other_kind(works: &str, wanted: &Stage) -> String {
    format!("{works} is at work and {} is wanted: only parameters can change, not kinds", wanted.kind())
}

/// How full a discipline is, beyond packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Memory charged for the packets held, bytes.
    pub memory: u64,
    /// Bytes held in each tin, by its number inside.
    pub tins: [u64; 8],
}

impl Levels {
    /// Raises each figure to that of `other` if that is higher.
    pub fn raise(&mut self, other: &Levels) {
        self.memory = self.memory.max(other.memory);
        self.tins.iter_mut().zip(other.tins).for_each(|(a, b)| *a = b.max(*a));
    }
}

/// What a trace line says about the queue a packet came from; `None` where it has no meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Tin number in the kernel's internal order.
    pub tin: Option<u32>,
    /// Queue number; comparable only up to renaming.
    pub queue: Option<i64>,
    /// Length charged; the packet's own length if `None`.
    pub charged: Option<u32>,
    /// AQM signal count of the queue.
    pub count: Option<u32>,
    /// Whether the queue is in the dropping state.
    pub dropping: Option<bool>,
    /// BLUE probability, units of 2^−32.
    pub p_drop: Option<u32>,
    /// Flow counters of the tin: bulk, sparse, decaying.
    pub flows: Option<[u32; 3]>,
    /// Token bucket after sending, ns.
    pub tokens: Option<i64>,
    /// Peak bucket after sending, ns.
    pub ptokens: Option<i64>,
    /// Ceil bucket after sending, ns (htb).
    pub ctokens: Option<i64>,
    /// Class mode (htb).
    pub mode: Option<u32>,
    /// When the shaper first looked at the packet, after the trace's origin in ns.
    pub head: Option<Instant>,
    /// Base probability (dualpi2), units of 2^−32.
    pub prob: Option<u32>,
    /// Scheduler credit (dualpi2).
    pub credit: Option<i32>,
    /// 32-bit draws so far (dualpi2).
    pub draws: Option<u64>,
    /// Release time computed on arrival (netem).
    pub time_to_send: Option<Instant>,
}

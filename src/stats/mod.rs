//! What disciplines count. `tc_text.rs` and `tc_json.rs` print it as `tc -s qdisc` would.

pub mod counters;
pub mod format;
pub mod histogram;
pub mod mb_ecn;
pub mod own;
pub mod report;
pub mod rows;
mod tc_cake;
mod tc_fq;
pub mod tc_json;
mod tc_netem;
mod tc_tbf;
pub mod tc_text;

use crate::qdisc::{Compat, cake, codel, dualpi2, fifo, fq_codel, htb, link, netem, tbf};

/// The figures every discipline has (`spec/cake.md` §20.1), all in 64 bits.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Basic {
    /// Bytes delivered.
    pub sent_bytes: u64,
    /// Packets delivered.
    pub sent_packets: u64,
    /// Packets dropped, for whatever reason.
    pub drops: u64,
    /// Times the discipline had packets and was not allowed to send.
    pub overlimits: u64,
    /// Bytes held.
    pub backlog: u64,
    /// Packets held.
    pub qlen: u32,
}

impl Basic {
    /// A packet came in and stays.
    pub fn queued(&mut self, len: u32) {
        self.qlen += 1;
        self.backlog += u64::from(len);
    }

    /// A queued packet is delivered.
    pub fn sent(&mut self, len: u32) {
        self.removed(len);
        self.sent_packets += 1;
        self.sent_bytes += u64::from(len);
    }

    /// A queued packet is dropped.
    pub fn dropped(&mut self, len: u32) {
        self.removed(len);
        self.drops += 1;
    }

    /// A queued packet is taken out, to be accounted for by the caller.
    pub fn removed(&mut self, len: u32) {
        self.qlen -= 1;
        self.backlog -= u64::from(len);
    }

    /// See [`crate::qdisc::Qdisc::hold`].
    pub fn hold(&mut self, len: u32) {
        self.queued(len);
    }

    /// See [`crate::qdisc::Qdisc::let_go`].
    pub fn let_go(&mut self, len: u32) {
        self.removed(len);
    }
}

/// A discipline's figures, by kind.
#[derive(Clone, Debug)]
pub enum StageStats {
    /// pfifo, bfifo, pfifo_head_drop.
    Fifo {
        /// Which of the three.
        kind: fifo::Kind,
        /// Packets or bytes.
        limit: u64,
        /// Common figures.
        basic: Basic,
    },
    /// tbf.
    Tbf(Box<tbf::Stats>),
    /// codel.
    Codel(Box<codel::Stats>),
    /// htb.
    Htb(Box<htb::Stats>),
    /// netem.
    Netem(Box<netem::Stats>),
    /// link.
    Link(Box<link::Stats>),
    /// A discipline with multi-bit ECN.
    Marked {
        /// The discipline.
        inner: Box<StageStats>,
        /// What multi-bit ECN did.
        mb_ecn: Box<crate::mark::mb_ecn::Stats>,
    },
    /// fq_codel.
    FqCodel(Box<fq_codel::Stats>),
    /// dualpi2.
    Dualpi2(Box<dualpi2::Stats>),
    /// cake.
    Cake(Box<cake::Stats>),
}

impl StageStats {
    /// The common figures.
    pub fn basic(&self) -> &Basic {
        match self {
            StageStats::Fifo { basic, .. } => basic,
            StageStats::Tbf(s) => &s.basic,
            StageStats::Codel(s) => &s.basic,
            StageStats::FqCodel(s) => &s.basic,
            StageStats::Dualpi2(s) => &s.basic,
            StageStats::Cake(s) => &s.basic,
            StageStats::Htb(s) => &s.basic,
            StageStats::Netem(s) => &s.basic,
            StageStats::Link(s) => &s.basic,
            StageStats::Marked { inner, .. } => inner.basic(),
        }
    }

    /// Drops as the kernel that is imitated counts them: Linux 6.12 counts `netem`'s marks, too.
    pub fn drops(&self) -> u64 {
        match self {
            StageStats::Netem(s) if s.compat == Compat::V6_12 => s.basic.drops + s.tally.ecn_marked,
            other => other.basic().drops,
        }
    }

    /// Packets taken back or let past others.
    pub fn requeues(&self) -> u64 {
        match self {
            StageStats::Netem(s) => s.tally.reordered,
            _ => 0,
        }
    }

    /// Whether the stage pulls from a queue that it made for itself, which tc does not list.
    pub fn has_own_queue(&self) -> bool {
        match self {
            StageStats::Tbf(s) => s.own_queue,
            StageStats::Htb(s) => s.own_queue,
            StageStats::Link(s) => s.own_queue,
            StageStats::Marked { inner, .. } => inner.has_own_queue(),
            _ => false,
        }
    }

    /// The kind's name, as in a specification.
    pub fn kind(&self) -> &'static str {
        match self {
            StageStats::Fifo { kind, .. } => kind.word(),
            StageStats::Tbf(_) => "tbf",
            StageStats::Codel(_) => "codel",
            StageStats::Htb(_) => "htb",
            StageStats::Netem(_) => "netem",
            StageStats::Link(_) => "link",
            StageStats::Marked { inner, .. } => inner.kind(),
            StageStats::FqCodel(_) => "fq_codel",
            StageStats::Dualpi2(_) => "dualpi2",
            StageStats::Cake(_) => "cake",
        }
    }

    /// Names of the tins in the order they are shown, each with its number in
    /// [`Packet::tin`](crate::packet::Packet::tin); none for a kind without tins.
    pub fn tins(&self) -> Vec<(String, usize)> {
        match self {
            StageStats::Fifo { .. }
            | StageStats::Tbf(_)
            | StageStats::Codel(_)
            | StageStats::FqCodel(_)
            | StageStats::Htb(_)
            | StageStats::Netem(_)
            | StageStats::Link(_) => Vec::new(),
            StageStats::Marked { inner, .. } => inner.tins(),
            StageStats::Cake(s) => {
                let name = |(i, t): (usize, &cake::TinStats)| t.name.map_or(format!("Tin {i}"), str::to_string);
                s.tins.iter().enumerate().map(|(i, t)| (name((i, t)), t.number)).collect()
            }
            StageStats::Dualpi2(_) => dualpi2::TINS.map(|(name, tin)| (name.into(), tin)).into(),
        }
    }
}

//! `link`: a link whose rate was recorded, pulling from the queue before it (`spec/netem.md` §13 and
//! §14).
//!
//! Two kinds of record: opportunities to send so many bytes at given moments, and a table of rates
//! over time. What leaves is decided at those moments, whether or not anybody asks just then; it
//! waits on a list of the done until it is taken.

mod opportunities;
mod table;

use std::sync::Arc;

use super::fifo::{self, Fifo};
use super::{Cx, Observation, Qdisc};
use crate::classify::Headers;
use crate::packet::Packet;
use crate::pool::{Frame, Queue};
use crate::spec::Stage;
use crate::stats::{Basic, StageStats};
use crate::time::Instant;
use crate::units::Rate;

pub use opportunities::Opportunities;
pub use table::{Ending, Table};

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Milliseconds at which so many bytes may leave; ascending, the last not zero.
    Opportunities(Box<[u64]>),
    /// Rates over time.
    Table(Table),
}

/// Parameters, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The file's name, as written.
    pub file: String,
    /// What is in it.
    pub record: Arc<Record>,
    /// Whether the record of opportunities is used up when it was passed once.
    pub once: bool,
    /// Bytes in an opportunity.
    pub bytes: u32,
    /// Bytes added to each packet.
    pub overhead: u16,
    /// Whether the link header is charged, too.
    pub frame: bool,
    /// Whether opportunities at one moment are spread over the millisecond.
    pub smooth: bool,
}

/// Bytes in an opportunity unless told otherwise.
pub const OPPORTUNITY: u32 = 1500;

impl Params {
    /// The record as it stands.
    pub fn new(file: &str, record: Record) -> Self {
        Params {
            file: file.into(),
            record: Arc::new(record),
            once: false,
            bytes: OPPORTUNITY,
            overhead: 0,
            frame: false,
            smooth: false,
        }
    }

    /// The rate in the long run.
    pub fn mean(&self) -> Rate {
        match &*self.record {
            Record::Opportunities(millis) => Opportunities::new(millis, self.once, false).mean(self.bytes),
            Record::Table(table) => table.mean(),
        }
    }

    fn charged(&self, len: u32) -> u32 {
        let link_header = if self.frame { 0 } else { 14 };
        len.saturating_sub(link_header).saturating_add(self.overhead.into())
    }
}

/// What the link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Opportunities that have passed.
    pub opportunities: u64,
    /// Bytes sent in them.
    pub used: u64,
    /// Bytes that could have been.
    pub wasted: u64,
}

/// What `link` reports.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Common figures; drops of the child included.
    pub basic: Basic,
    /// What is in force.
    pub params: Params,
    /// The rate in the long run.
    pub mean: Rate,
    /// What it did; of a table of rates only the bytes used.
    pub tally: Tally,
    /// Whether nothing will ever be sent again.
    pub over: bool,
    /// Whether the child is one that it made for itself.
    pub own_queue: bool,
}

/// The packet on the link.
struct Transit {
    frame: Frame,
    /// Opportunities: bytes not sent yet. Table: unused.
    left: u32,
    /// Table: when its last byte is through, ns after the start, if ever.
    due: Option<u64>,
}

enum Service {
    Opportunities {
        all: Opportunities,
        /// The next one.
        next: u64,
    },
    Table {
        /// What the link must have carried for the packet in transit, or the last one.
        target: u128,
        /// Since when nothing is in transit.
        idle_since: Option<u64>,
    },
}

/// `link` at work.
pub struct RecordedLink {
    params: Params,
    service: Service,
    start: Option<Instant>,
    /// The moment of the last call.
    seen: Instant,
    child: Box<dyn Qdisc>,
    own_queue: bool,
    transit: Option<Transit>,
    done: Queue,
    /// What has left the child and not this stage.
    held: Basic,
    tally: Tally,
}

impl RecordedLink {
    /// A link over `child`, or over a FIFO of its own without a limit.
    pub fn new(params: &Params, child: Option<Box<dyn Qdisc>>) -> Self {
        let unlimited = || Fifo::new(fifo::Params { kind: fifo::Kind::Packets, limit: Some(u32::MAX) }, 0);
        let service = match &*params.record {
            Record::Opportunities(millis) => {
                Service::Opportunities { all: Opportunities::new(millis, params.once, params.smooth), next: 0 }
            }
            Record::Table(_) => Service::Table { target: 0, idle_since: None },
        };
        RecordedLink {
            params: params.clone(),
            service,
            start: None,
            seen: Instant::ZERO,
            own_queue: child.is_none(),
            child: child.unwrap_or_else(|| Box::new(unlimited())),
            transit: None,
            done: Queue::default(),
            held: Basic::default(),
            tally: Tally::default(),
        }
    }

    /// Does what the link could do up to `now`.
    fn advance(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.seen = now;
        let clock = now.since(*self.start.get_or_insert(now));
        match &*self.params.record.clone() {
            Record::Opportunities(_) => self.opportunities(clock, now, cx),
            Record::Table(table) => self.table(table, clock, now, cx),
        }
    }

    fn opportunities(&mut self, clock: u64, now: Instant, cx: &mut Cx<'_>) {
        while let Some(budget) = self.opportunity(clock) {
            let mut budget = budget;
            while budget > 0 {
                let Some(mut transit) = self.transit.take().or_else(|| self.pull(now, cx)) else { break };
                let sent = budget.min(transit.left);
                budget -= sent;
                transit.left -= sent;
                self.tally.used += u64::from(sent);
                if transit.left > 0 {
                    self.transit = Some(transit);
                } else {
                    self.done.push(cx.pool, transit.frame);
                }
            }
            self.tally.wasted += u64::from(budget);
        }
    }

    /// Takes the next opportunity that has come, and all of them at once if nothing waits.
    fn opportunity(&mut self, clock: u64) -> Option<u32> {
        let Service::Opportunities { all, next } = &mut self.service else { return None };
        if all.time(*next)? > clock {
            return None;
        }
        if self.transit.is_some() || self.child.packets() > 0 {
            *next += 1;
            self.tally.opportunities += 1;
            return Some(self.params.bytes);
        }
        let passed = all.first_after(clock) - *next;
        *next += passed;
        self.tally.opportunities += passed;
        self.tally.wasted += passed * u64::from(self.params.bytes);
        None
    }

    fn table(&mut self, table: &Table, clock: u64, now: Instant, cx: &mut Cx<'_>) {
        loop {
            let (at, from) = match (&self.transit, &mut self.service) {
                (Some(transit), Service::Table { idle_since, target }) => {
                    let Some(due) = transit.due.filter(|due| *due <= clock) else { return };
                    *idle_since = Some(due);
                    (due, *target)
                }
                // A packet that was here when the link fell idle takes what is left of that moment.
                (None, Service::Table { idle_since, target }) if *idle_since == Some(clock) => (clock, *target),
                (None, _) => (clock, table.carried(clock)),
                (Some(_), Service::Opportunities { .. }) => return,
            };
            if let Some(Transit { frame, .. }) = self.transit.take() {
                self.tally.used += u64::from(cx.pool[&frame].charged);
                self.done.push(cx.pool, frame);
            }
            let Some(mut transit) = self.pull(now, cx) else { return };
            let target = from + table::need(transit.left);
            transit.due = table.reached(target).map(|t| t.max(at));
            self.transit = Some(transit);
            self.service = Service::Table { target, idle_since: None };
        }
    }

    /// Takes the next packet from the child.
    fn pull(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Transit> {
        if self.child.packets() == 0 {
            return None;
        }
        let frame = self.child.dequeue(now, cx)?;
        let packet = &mut cx.pool[&frame];
        packet.charged = self.params.charged(packet.len);
        self.held.queued(packet.len);
        let left = packet.charged;
        Some(Transit { frame, left, due: None })
    }

    fn over(&self) -> bool {
        match &self.service {
            Service::Opportunities { all, next } => all.time(*next).is_none(),
            Service::Table { .. } => self.transit.as_ref().is_some_and(|t| t.due.is_none()),
        }
    }
}

impl Qdisc for RecordedLink {
    fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        // An opportunity of this very moment is gone for a packet that comes now.
        self.advance(now, cx);
        self.child.enqueue(now, frame, headers, cx);
        if matches!(self.service, Service::Table { .. }) {
            self.advance(now, cx);
        }
    }

    fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        self.advance(now, cx);
        let frame = self.done.pop(cx.pool)?;
        self.held.sent(cx.pool[&frame].len);
        Some(frame)
    }

    fn next_event(&self) -> Option<Instant> {
        let start = self.start?;
        let own = match &self.service {
            _ if self.transit.is_none() && self.child.packets() == 0 => None,
            Service::Opportunities { all, next } => all.time(*next),
            Service::Table { .. } => self.transit.as_ref().and_then(|t| t.due),
        };
        let child = self.child.next_event().filter(|t| *t > self.seen);
        own.map(|t| start + t).into_iter().chain(child).min()
    }

    fn tick(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.child.tick(now, cx);
        self.advance(now, cx);
    }

    fn start(&mut self, now: Instant) {
        self.start = Some(now);
        self.child.start(now);
    }

    fn set_drain(&mut self, below: Option<Rate>) {
        self.child.set_drain(Rate::lower(self.rate(), below));
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.params.mean())
    }

    fn packets(&self) -> u32 {
        self.child.packets() + self.held.qlen
    }

    fn bytes(&self) -> u64 {
        self.child.bytes() + self.held.backlog
    }

    fn hold(&mut self, len: u32) {
        self.held.hold(len);
    }

    fn let_go(&mut self, len: u32) {
        self.held.let_go(len);
    }

    fn stats(&self, now: Instant) -> StageStats {
        StageStats::Link(Box::new(Stats {
            basic: Basic {
                drops: self.child.stats(now).basic().drops,
                backlog: self.bytes(),
                qlen: self.packets(),
                ..self.held
            },
            params: self.params.clone(),
            mean: self.params.mean(),
            tally: self.tally,
            over: self.over(),
            own_queue: self.own_queue,
        }))
    }

    fn observe(&self, packet: &Packet) -> Observation {
        Observation { charged: Some(packet.charged), ..self.child.observe(packet) }
    }

    fn child(&self) -> Option<&dyn Qdisc> {
        Some(self.child.as_ref())
    }

    fn child_mut(&mut self) -> Option<&mut dyn Qdisc> {
        Some(self.child.as_mut())
    }

    fn can_change(&self, stage: &Stage) -> Result<(), String> {
        match stage {
            Stage::Link(p) if *p == self.params => Ok(()),
            Stage::Link(_) => {
                Err("link: its record is settled when it begins; end the instance and start it anew".into())
            }
            other => Err(super::other_kind("link", other)),
        }
    }
}

#[cfg(test)]
mod tests;

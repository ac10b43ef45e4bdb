//! Departures in slots, as half-duplex links and polled modems have them (`spec/netem.md` §9).

use super::delay::delay;
use super::distribution::Distribution;
use super::random::Sources;

/// Slots, as written. Times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// How far apart.
    pub spacing: Spacing,
    /// Packets in a slot at most; 0 for no limit.
    pub packets: u32,
    /// Bytes in a slot at most, overrun by no more than one packet; 0 for no limit.
    pub bytes: u32,
}

/// The time from one slot to the next, ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Uniform between two bounds.
    Between(u64, u64),
    /// A mean and a jitter.
    Distributed(u64, u64, Distribution),
}

impl Slots {
    /// The longest time between two slots, ns.
    pub fn longest(&self) -> u64 {
        match &self.spacing {
            Spacing::Between(_, max) => *max,
            Spacing::Distributed(mean, jitter, table) => mean + table.reach() * jitter,
        }
    }

    fn next(&self, now: i64, sources: &mut Sources) -> i64 {
        match &self.spacing {
            Spacing::Between(min, max) => {
                let more = u128::from(max - min) * u128::from(sources.unseeded());
                now + *min as i64 + (more >> 32) as i64
            }
            Spacing::Distributed(mean, jitter, table) => {
                now + delay(*mean as i64, *jitter as i64, table.table(), sources.main.draw())
            }
        }
    }
}

const NO_LIMIT: i64 = i32::MAX as i64;

fn limit(n: u32) -> i64 {
    if n == 0 { NO_LIMIT } else { n.into() }
}

/// Slots at work.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    slots: Slots,
    next: i64,
    packets_left: i64,
    bytes_left: i64,
}

impl Opening {
    /// Slots set up at `now`.
    pub(super) fn new(slots: Slots, now: i64) -> Self {
        let (packets_left, bytes_left) = (limit(slots.packets), limit(slots.bytes));
        Opening { slots, next: now, packets_left, bytes_left }
    }

    /// When the slot in force opens.
    pub(super) fn opens(&self) -> i64 {
        self.next
    }

    /// A service attempt at `now`, with a packet at the head that is due at `due`: a slot that
    /// opened before that gives way to a new one.
    pub(super) fn attempt(&mut self, now: i64, due: i64, sources: &mut Sources) {
        if self.next < due {
            self.renew(now, sources);
        }
    }

    /// A packet of `len` bytes left.
    pub(super) fn sent(&mut self, now: i64, len: u32, sources: &mut Sources) {
        self.packets_left -= 1;
        self.bytes_left -= i64::from(len);
        if self.packets_left <= 0 || self.bytes_left <= 0 {
            self.renew(now, sources);
        }
    }

    fn renew(&mut self, now: i64, sources: &mut Sources) {
        self.next = self.slots.next(now, sources);
        (self.packets_left, self.bytes_left) = (limit(self.slots.packets), limit(self.slots.bytes));
    }
}

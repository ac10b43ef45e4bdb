//! From what an interval showed to a rate. A function of the intervals it was given and nothing else,
//! in whole numbers, so that a log of the intervals gives the same decisions again.
//!
//! | what is seen | what follows |
//! | --- | --- |
//! | two intervals in a row with excess above the threshold, or two seconds above half of it, and load on that way | **bloat**: below the capacity just measured, deep enough to drain the queue in a second and a half |
//! | that excess is not going down a round trip later | **still bloated**: deeper |
//! | the excess is gone | **drained**: 95 % of the capacity measured |
//! | the excess is gone, and the lower rate has held nothing back | **passed**: not ours; the rate from before |
//! | half the rate, time to drain it all and half as much again, and an excess stands | **base moved**: no queue of ours; the capacity measured before, and bases anew |
//! | load of 75 % or more, excess below half the threshold | **rising**: 5 % in 100 ms, 0.3 % near the last known capacity |
//! | nothing to go by: idle, no samples, a stall, the second after one, load below 75 % | no change |
//!
//! The threshold is 15 ms and two of the largest packets' time. An idle link keeps its rate: silence says
//! nothing about it, and the first bloat is answered within two intervals.

use super::interval::{Decision, Interval, Sampled, Way, Why};
use crate::time::{MILLISECOND, SECOND};
use crate::units::RateRange;

/// How long an interval is meant to be, ns.
pub const INTERVAL: u64 = 100 * MILLISECOND;
/// Excess that may stand, ns, beside two packets' time.
const THRESHOLD: u64 = 15 * MILLISECOND;
/// How long half of it may stand, ns.
const LINGER: u64 = 2 * SECOND;
/// In which time a cut should drain the queue, ns.
const DRAIN: u64 = 1500 * MILLISECOND;
/// How long nothing is decided after a stall, ns.
const HOLD: u64 = SECOND;
/// How old an interval may be to count beside the present one, ns.
const FRESH: u64 = SECOND;
/// How long samples may be missing before that is said, ns.
const PATIENCE: u64 = 2 * SECOND;
/// Rise in an interval, parts of a thousand: in the open, and near what was too much.
const RISE: [u64; 2] = [50, 3];
/// Intervals remembered, for what was sent a round trip ago.
const PAST: usize = 32;
/// The largest packet, bytes.
const PACKET: u64 = 1514;

/// A queue that is being dealt with.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Rate before.
    before: u64,
    /// Excess when it was seen.
    excess: u64,
    /// Capacity when it was seen, and as it is believed now.
    capacity: [u64; 2],
    /// Bytes that the link could have carried beyond what came since.
    spare: u64,
    /// When the next step may be taken.
    next: u64,
    /// Excess at the last step.
    last: u64,
    cuts: u32,
    /// Whether the lower rate has held anything back.
    held: bool,
}

/// An interval with samples.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: u64,
    length: u64,
    sampled: Sampled,
    way: Way,
}

/// One way's part.
#[derive(Clone, Debug)]
struct Wheel {
    range: RateRange,
    up: bool,
    seen: Option<Seen>,
    /// What was carried in the last intervals: end, length, bytes; the newest last.
    past: [(u64, u64, u64); PAST],
    episode: Option<Episode>,
    /// What was found to be too much last.
    ceiling: Option<u64>,
    /// Nothing rises before this.
    patient: u64,
    /// Since when an excess above half the threshold has stood.
    near: Option<u64>,
    why: Why,
}

/// Both ways.
#[derive(Clone, Debug)]
pub struct Controller {
    wheels: [Option<Wheel>; 2],
    /// Nothing is decided before this.
    hold: u64,
    /// When there was a sample last, or traffic began.
    sampled: u64,
}

fn per_second(bytes: u64, length: u64) -> u64 {
    (u128::from(bytes) * u128::from(SECOND) / u128::from(length.max(1))) as u64
}

/// `value` × `part` / `whole`.
fn share(value: u64, part: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(part) / u128::from(whole.max(1))) as u64
}

impl Wheel {
    fn threshold(&self, rate: u64) -> u64 {
        THRESHOLD + 2 * (PACKET * SECOND).checked_div(rate).unwrap_or(0)
    }

    /// What loads the link of this way: what arrives from it, or what is sent into it.
    fn carried(&self, way: &Way) -> u64 {
        if self.up { way.left } else { way.arrived }
    }

    /// The part of an excess that arose on this way, as far as that is known.
    fn own(&self, s: &Sampled) -> u64 {
        let part = if self.up { s.there } else { s.back };
        part.map_or(s.excess, |p| p.min(s.excess))
    }

    fn remember(&mut self, i: &Interval, way: &Way) {
        self.past.rotate_left(1);
        self.past[PAST - 1] = (i.at, i.length, self.carried(way));
    }

    /// What was carried between two moments, bytes per second.
    fn carried_between(&self, from: u64, to: u64) -> u64 {
        let part = |(at, length, bytes): &(u64, u64, u64)| {
            let (a, b) = (from.max(at.saturating_sub(*length)), to.min(*at));
            share(*bytes, b.saturating_sub(a), *length)
        };
        per_second(self.past.iter().map(part).sum(), to - from)
    }

    fn decide(&mut self, i: &Interval, now: Seen) -> (u64, Why) {
        let (rate, sampled) = (now.way.rate, now.sampled);
        let before = self.seen.replace(now).filter(|b| now.at.saturating_sub(b.at) <= FRESH);
        let threshold = self.threshold(rate);
        let excess = self.own(&sampled);
        let standing = before.map_or(0, |b| self.own(&b.sampled)).min(excess);
        let carried = per_second(self.carried(&now.way), now.length);
        let load = share(carried.max(per_second(now.way.left, now.length)), 100, rate);
        if let Some(episode) = self.episode.take() {
            return self.go_on(episode, before.map_or(excess, |_| standing), carried, i, now);
        }
        let Some(before) = before else {
            self.near = None;
            return (rate, Why::Near { excess });
        };
        self.near = (standing > threshold / 2).then(|| self.near.unwrap_or(now.at));
        if standing > threshold || self.near.is_some_and(|since| now.at.saturating_sub(since) >= LINGER) {
            // Without load on this way, the queue is not this way's; where the two ways cannot be told
            // apart, it takes more to be the one.
            let told = if self.up { sampled.there } else { sampled.back }.is_some();
            if load < if told { 3 } else { 25 } {
                return (rate, Why::Unloaded { load });
            }
            self.near = None;
            return self.begin(before, now, excess);
        }
        if excess > threshold / 2 {
            return (rate, Why::Near { excess });
        }
        if load < 75 {
            return (rate, Why::Unloaded { load });
        }
        if rate >= self.range.max.bytes_per_second() {
            return (rate, Why::AtMax);
        }
        if now.at < self.patient {
            return (rate, Why::Near { excess });
        }
        if self.ceiling.is_some_and(|c| rate > share(c, 108, 100)) {
            self.ceiling = None;
        }
        let near = self.ceiling.is_some_and(|c| rate >= share(c, 90, 100));
        // What a step does is seen a round trip later.
        let steps = share(now.length.min(2 * INTERVAL), 1000, INTERVAL.max(sampled.rtt / 2));
        let rise = share(share(rate, RISE[usize::from(near)], 1000), steps, 1000).max(1);
        (rate + rise, Why::Rising { load, excess })
    }

    /// A queue is seen: what can the link carry, and how far below must we go?
    fn begin(&mut self, before: Seen, now: Seen, excess: u64) -> (u64, Why) {
        let rate = now.way.rate;
        let rates = [before, now].map(|s| per_second(self.carried(&s.way), s.length));
        let capacity = if self.up {
            // While answers of a second came, the queue grew by so many ms: what was sent in fewer ms,
            // a round trip before, has taken the link that second.
            let grown = match now.sampled.there {
                Some(_) => excess.saturating_sub(self.own(&before.sampled)),
                None => 0,
            };
            let time = now
                .at
                .saturating_sub(now.sampled.ago)
                .saturating_sub(before.at.saturating_sub(before.sampled.ago))
                .max(INTERVAL / 2);
            let sent = time.saturating_sub(grown).max(time / 8);
            let to = now.at.saturating_sub(now.sampled.ago + now.sampled.rtt).max(time);
            share(self.carried_between(to - sent, to), sent, time)
        } else {
            rates[0].max(rates[1])
        };
        let capacity = capacity.min(rate);
        let below = share(1000, excess, DRAIN).clamp(100, 500);
        let to = share(capacity, 1000 - below, 1000).clamp(rate / 4, share(rate, 95, 100));
        self.episode = Some(Episode {
            before: rate,
            excess,
            capacity: [capacity; 2],
            spare: 0,
            next: now.at + INTERVAL + now.sampled.base + excess,
            last: excess,
            cuts: 1,
            held: false,
        });
        (to, Why::Bloat { excess, base: now.sampled.base, capacity })
    }

    fn go_on(&mut self, mut e: Episode, excess: u64, carried: u64, i: &Interval, now: Seen) -> (u64, Why) {
        let rate = now.way.rate;
        let threshold = self.threshold(rate);
        e.spare += share(e.capacity[0].saturating_sub(carried), i.length.min(2 * INTERVAL), SECOND);
        e.held |= carried >= share(rate, 75, 100) || now.way.backlog > 2 * PACKET;
        if excess <= threshold / 2 && !e.held {
            return (e.before, Why::Passed);
        }
        if excess <= threshold / 2 {
            self.ceiling = Some(e.capacity[1]);
            self.patient = now.at + INTERVAL + now.sampled.rtt;
            let to = share(e.capacity[1], 95, 100).max(rate);
            return (to, Why::Drained { capacity: e.capacity[1] });
        }
        let floor = self.range.min.bytes_per_second();
        let mut answer = (rate, if rate <= floor { Why::AtMin { excess } } else { Why::Draining { excess } });
        if now.at >= e.next {
            e.next = now.at + INTERVAL + now.sampled.base + excess;
            if excess <= share(e.last, 90, 100) {
                e.last = excess;
            } else if (rate <= share(e.capacity[0], 55, 100) || rate <= floor)
                && e.spare >= share(share(e.capacity[0], e.excess, SECOND), 3, 2)
                && excess <= share(e.last, 125, 100)
                && excess <= share(e.excess, 150, 100)
            {
                self.patient = now.at + INTERVAL + now.sampled.rtt;
                return (e.before.min(e.capacity[0]).max(rate), Why::BaseMoved { by: excess });
            } else if rate > floor {
                let backlog = now.way.backlog > 2 * PACKET;
                let less = match carried {
                    // What comes in spite of us is what the link carries.
                    c if !self.up && c > share(rate, 105, 100) => Some(c.min(e.capacity[1])),
                    // It carries less than we let through.
                    c if !self.up && !backlog && c < share(rate, 80, 100) => Some(c),
                    _ => None,
                };
                e.capacity[1] = less.unwrap_or(share(e.capacity[1], 85, 100));
                if let Some(c) = less.filter(|c| *c < share(e.capacity[0], 90, 100)) {
                    // Another link than when this began; what was left free of that one says nothing.
                    (e.capacity[0], e.excess, e.spare) = (c, excess, 0);
                }
                let below = (share(1000, excess, DRAIN).max(100) << e.cuts.min(3)).min(500);
                let to = share(e.capacity[1], 1000 - below, 1000).clamp(rate / 4, share(rate, 80, 100));
                (e.last, e.cuts) = (excess, e.cuts + 1);
                answer = (to, Why::StillBloated { excess, capacity: e.capacity[1] });
            }
        }
        self.episode = Some(e);
        answer
    }
}

impl Controller {
    /// A controller of the ways that have a range, down and up.
    pub fn new(ranges: [Option<RateRange>; 2]) -> Self {
        let mut controller = Controller { wheels: [None, None], hold: 0, sampled: 0 };
        for (way, range) in ranges.into_iter().enumerate() {
            controller.set(way, range);
        }
        controller
    }

    /// Other limits for a way, or none; what was learned about it is forgotten.
    pub fn set(&mut self, way: usize, range: Option<RateRange>) {
        self.wheels[way] = range.map(|range| Wheel {
            range,
            up: way == 1,
            seen: None,
            past: [(0, 0, 0); PAST],
            episode: None,
            ceiling: None,
            patient: 0,
            near: None,
            why: Why::Start,
        });
    }

    /// The limits of a way.
    pub fn range(&self, way: usize) -> Option<RateRange> {
        self.wheels[way].as_ref().map(|w| w.range)
    }

    /// Why the rate of a way is as it is.
    pub fn why(&self, way: usize) -> Option<Why> {
        self.wheels[way].as_ref().map(|w| w.why)
    }

    /// What follows from an interval: a decision for each way where the rate or the reason changes. Intervals come in order of time; empty ones may be left out.
    pub fn interval(&mut self, i: &Interval) -> [Option<Decision>; 2] {
        if i.stalled || i.far.stale > 0 {
            self.hold = i.at + HOLD;
        }
        if i.far.samples > 0 {
            self.sampled = i.at;
        }
        let quiet = |w: &Way| per_second(w.arrived.max(w.left), i.length) < 8000.max(w.rate / 100);
        let idle = quiet(&i.down) && quiet(&i.up);
        if idle && i.far.samples == 0 {
            // From here on counts how long traffic shows no round trip.
            self.sampled = i.at;
        }
        let mut out = [None, None];
        for (way, wheel) in self.wheels.iter_mut().enumerate() {
            let Some(wheel) = wheel else { continue };
            let seen = Seen { at: i.at, length: i.length, sampled: i.far, way: if way == 0 { i.down } else { i.up } };
            wheel.remember(i, &seen.way);
            let rate = seen.way.rate;
            let (to, why) = if i.stalled {
                (rate, Why::Stalled)
            } else if i.at < self.hold {
                (rate, Why::Recovering)
            } else if let Some(left) = wheel.abandoned(i.at, rate) {
                left
            } else if i.far.samples > 0 {
                wheel.decide(i, seen)
            } else if idle {
                (rate, Why::Idle)
            } else if i.at.saturating_sub(self.sampled) >= PATIENCE {
                (rate, Why::NoSamples)
            } else {
                (rate, wheel.why)
            };
            if matches!(why, Why::Stalled | Why::Recovering) {
                (wheel.seen, wheel.episode) = (None, None);
            }
            let [low, high] = [wheel.range.min, wheel.range.max].map(|r| r.bytes_per_second());
            let to = to.clamp(low, high);
            if to != rate || why.word() != wheel.why.word() {
                out[way] = Some(Decision { at: i.at, way, from: rate, to, why });
            }
            wheel.why = why;
        }
        out
    }
}

impl Wheel {
    /// The traffic that filled a queue has gone: the queue will have, too.
    fn abandoned(&mut self, at: u64, rate: u64) -> Option<(u64, Why)> {
        let e = self.episode?;
        let seen = self.seen?.at;
        if at.saturating_sub(seen) <= FRESH.max(2 * (e.next - seen.min(e.next))) {
            return None;
        }
        self.episode = None;
        self.ceiling = Some(e.capacity[1]);
        Some((share(e.capacity[1], 95, 100).max(rate), Why::Drained { capacity: e.capacity[1] }))
    }
}

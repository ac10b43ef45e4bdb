//! Round trips from what passes by: a segment that leaves with a timestamp, and the first one that
//! comes back with its echo (RFC 7323 §4.1), or SYN and its answer where there are no timestamps.
//!
//! One [`Matcher`] sees one side of the shaper: what left towards it, and what arrived from it. A
//! round trip counts from leaving to arriving, so the shaper's own queue is not in it.
//!
//! * **Base.** The lowest round trip with a host in the last 30 to 60 s. What is above it is *excess*.
//! * **Two ways.** The far end's own timestamps, if they are seen to count milliseconds, say how much
//!   of an excess arose on the way from there; the rest arose on the way to there.
//! * **Old samples.** A round trip that contains a silence of the link says how long the link stood
//!   still, not how long a queue is. It does not count.
//! * **Late answers.** Two segments are often acknowledged together, with the stamp of the first: the
//!   last one of them counts. One that is acknowledged alone may have waited for the receiver's timer
//!   (40 ms in Linux): such samples count only where there are no others, and 50 ms less.
//! * **Several flows.** Of each flow the lowest excess in an interval counts, since a standing queue
//!   is in all of its samples; of the flows the lower quartile, so that one that lies is not believed.
//!
//! Tables are of fixed size; who wants room takes the place of whoever was silent longest.

use super::interval::Sampled;
use super::tap::Glimpse;
use crate::time::{Instant, MILLISECOND, SECOND};

/// Connections remembered.
const FLOWS: usize = 256;
/// Hosts remembered.
const HOSTS: usize = 128;
/// Places where a key can be.
const WAYS: usize = 4;
/// Segments of a connection whose echo is waited for.
const PENDING: usize = 16;
/// Between two of them, ns.
const SPACING: u64 = 5 * MILLISECOND;
/// Half the longest time that a minimum is remembered, ns.
pub const WINDOW: u64 = 30 * SECOND;
/// The longest round trip believed, ns.
const LONGEST: u64 = 60 * SECOND;
/// A silence counts from here, ns, or from three times the base.
const SILENCE: u64 = 300 * MILLISECOND;
/// How long somebody may wait for an answer before the link counts as stalled, ns, beside three times
/// the base.
const PATIENCE: u64 = 500 * MILLISECOND;
/// Excess up to which a sample may teach what the way back takes without a queue, ns.
const QUIET: u64 = 10 * MILLISECOND;
const HOUR: u64 = 3600 * SECOND;
/// How late an acknowledgement of a single segment may be, ns.
const DELAYED_ACK: u64 = 50 * MILLISECOND;
/// Silences remembered.
const SILENCES: usize = 8;

/// A minimum over the last one to two windows.
#[derive(Clone, Copy, Debug)]
struct Lowest<T> {
    now: Option<T>,
    before: Option<T>,
    since: Instant,
}

impl<T> Default for Lowest<T> {
    fn default() -> Self {
        Lowest { now: None, before: None, since: Instant::ZERO }
    }
}

impl<T: Ord + Copy> Lowest<T> {
    fn note(&mut self, at: Instant, value: T) {
        if at.since(self.since) >= WINDOW {
            self.before = if at.since(self.since) < 2 * WINDOW { self.now } else { None };
            (self.now, self.since) = (None, at);
        }
        self.now = Some(self.now.map_or(value, |v| v.min(value)));
    }

    fn get(&self) -> Option<T> {
        match (self.now, self.before) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Host {
    key: u32,
    used: Option<Instant>,
    base: Lowest<u64>,
    /// Lowest of this interval and of the last one that had samples.
    recent: [Option<u64>; 2],
}

/// What one flow showed in an interval.
#[derive(Clone, Copy, Debug)]
struct Shown {
    excess: u64,
    /// Of which on the way here.
    back: Option<u64>,
    /// Of which on the way there.
    there: Option<u64>,
    /// Whether it may be the receiver's timer.
    late: bool,
}

/// A segment whose echo is waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    value: u32,
    at: Instant,
    /// Sequence number behind its data, if it has any.
    next: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    key: u64,
    used: Option<Instant>,
    pending: [Asked; PENDING],
    waiting: usize,
    /// A SYN left: what its answer acknowledges, when, and whether only once.
    syn: Option<(u32, Instant, bool)>,
    /// Value sent last.
    value: Option<u32>,
    /// Sequence number behind the newest data.
    highest: Option<u32>,
    /// The last round trip, ns.
    rtt: u64,
    /// Where the far end's clock was compared with ours last.
    clock: Option<(Instant, u32)>,
    /// Whether it counts milliseconds.
    milliseconds: bool,
    /// Time of the way here against its clock, without a queue, ns.
    back: Lowest<i64>,
    shown: Option<Shown>,
}

/// Whether `a` is behind `b` on a clock of 32 bits.
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// One side of the shaper.
#[derive(Debug)]
pub struct Matcher {
    flows: Box<[Flow]>,
    hosts: Box<[Host]>,
    silences: [(Instant, Instant); SILENCES],
    silent: usize,
    /// Since when somebody waits for an answer while nothing arrives, and how long that may take.
    asking: Option<(Instant, u64)>,
    taken: u32,
    stale: u32,
    /// Base, round trip and arrival of the sample with the least excess.
    lowest: Option<(u64, u64, Instant)>,
}

impl Default for Matcher {
    fn default() -> Self {
        Matcher {
            flows: vec![Flow::default(); FLOWS].into(),
            hosts: vec![Host::default(); HOSTS].into(),
            silences: [(Instant::ZERO, Instant::ZERO); SILENCES],
            silent: 0,
            asking: None,
            taken: 0,
            stale: 0,
            lowest: None,
        }
    }
}

/// The entry of a key: its own, or that of who was silent longest in the places where it can be.
macro_rules! entry {
    ($table:expr, $key:expr, $at:expr) => {{
        let sets = $table.len() / WAYS;
        let first = ($key as usize % sets) * WAYS;
        let set = &mut $table[first..first + WAYS];
        let i = match set.iter().position(|e| e.used.is_some() && e.key == $key) {
            Some(i) => i,
            None => {
                let i = (0..WAYS).min_by_key(|i| set[*i].used).unwrap_or(0);
                set[i] = Default::default();
                set[i].key = $key;
                i
            }
        };
        set[i].used = Some($at);
        &mut set[i]
    }};
}

impl Matcher {
    /// A segment left towards this side.
    pub fn left(&mut self, g: &Glimpse) {
        if g.demands && self.asking.is_none() {
            let base = self.base(g.hosts[1]).unwrap_or(0);
            self.asking = Some((g.at, PATIENCE + 3 * base));
        }
        let flow = entry!(self.flows, g.flow, g.at);
        if g.syn {
            let again = flow.syn.is_some_and(|(next, ..)| next == g.next);
            flow.syn = Some((g.next, g.at, !again));
        }
        let new = flow.highest.is_none_or(|h| after(g.next, h));
        if new {
            flow.highest = Some(g.next);
        }
        let Some([value, _]) = g.stamps else { return };
        // Of several segments in one tick only the first has a time; an older value is a straggler.
        if flow.value.is_some_and(|last| !after(value, last)) {
            if flow.value.is_some_and(|last| last.wrapping_sub(value) > 1 << 16) {
                // A clock that jumps is a new clock.
                (flow.value, flow.waiting) = (Some(value), 0);
            }
            return;
        }
        flow.value = Some(value);
        if flow.waiting > 0 && g.at.since(flow.pending[0].at) > LONGEST {
            flow.waiting = 0;
        }
        // Spread over a round trip.
        let spacing = SPACING.max(flow.rtt / PENDING as u64);
        let spaced = flow.waiting == 0 || g.at.since(flow.pending[flow.waiting - 1].at) >= spacing;
        if spaced && flow.waiting < PENDING && !g.syn {
            flow.pending[flow.waiting] = Asked {
                value,
                at: g.at,
                // Data sent again may be acknowledged for its first time: only its stamp tells.
                next: (g.demands && new).then_some(g.next),
            };
            flow.waiting += 1;
        }
    }

    /// Something arrived from this side.
    pub fn heard(&mut self, at: Instant) {
        if self.asking.is_some_and(|(since, _)| at >= since) {
            self.asking = None;
        }
    }

    /// Nothing arrived from this side for a while.
    pub fn silence(&mut self, from: Instant, to: Instant) {
        self.silences[self.silent % SILENCES] = (from, to);
        self.silent += 1;
    }

    /// A segment arrived from this side.
    pub fn arrived(&mut self, g: &Glimpse) {
        self.heard(g.at);
        let flow = entry!(self.flows, g.flow, g.at);
        let mut sent = None;
        if let (Some((next, at, once)), Some(ack)) = (flow.syn, g.ack) {
            if ack == next || after(ack, next) {
                flow.syn = None;
                sent = (once && ack == next).then_some(at);
            }
        }
        let here = g.stamps.map(|[value, _]| clock(flow, g.at, value));
        let mut late = false;
        if let (Some([_, echo]), Some(ack)) = (g.stamps, g.ack) {
            let pending = &flow.pending[..flow.waiting];
            if let Some(i) = pending.iter().position(|p| p.value == echo) {
                let covered = |p: &Asked| p.next.is_some_and(|next| !after(next, ack));
                let last = pending[i..].iter().take_while(|p| covered(p)).last().unwrap_or(&pending[i]);
                late = !g.demands && last.value == echo && last.next == Some(ack);
                sent = Some(last.at);
            }
            // What is older will not be echoed any more.
            let gone = pending.iter().take_while(|p| !after(p.value, echo)).count();
            flow.pending.copy_within(gone..flow.waiting, 0);
            flow.waiting -= gone;
        }
        let Some(sent) = sent else { return };
        let rtt = g.at.since(sent);
        if rtt > LONGEST {
            return;
        }
        flow.rtt = rtt;
        let host = entry!(self.hosts, g.hosts[0], g.at);
        let silence = self.silences.iter().map(|(from, to)| to.since((*from).max(sent))).max().unwrap_or(0);
        if host.base.get().is_some_and(|base| silence >= SILENCE.max(3 * base)) {
            self.stale += 1;
            return;
        }
        host.base.note(g.at, rtt);
        host.recent[0] = Some(host.recent[0].map_or(rtt, |r| r.min(rtt)));
        let base = host.base.get().unwrap_or(rtt);
        let excess = rtt - base;
        self.taken += 1;
        if self.lowest.is_none_or(|(b, r, _)| excess < r - b) {
            self.lowest = Some((base, rtt, g.at));
        }
        let mut back = None;
        if let Some(here) = here.filter(|_| flow.milliseconds) {
            if excess <= QUIET {
                flow.back.note(g.at, here);
            }
            back = flow.back.get().map(|least| (here.saturating_sub(least).max(0) as u64).min(excess));
        }
        let there = back.map(|b| excess - b);
        let least = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.min(b)).or(a).or(b);
        flow.shown = Some(match flow.shown {
            None => Shown { excess, back, there, late },
            Some(s) if s.late && !late => Shown { excess, back, there, late },
            Some(s) if late && !s.late => s,
            Some(s) => {
                Shown { excess: s.excess.min(excess), back: least(s.back, back), there: least(s.there, there), late }
            }
        });
    }

    fn base(&self, host: u32) -> Option<u64> {
        let first = (host as usize % (HOSTS / WAYS)) * WAYS;
        let set = &self.hosts[first..first + WAYS];
        set.iter().find(|h| h.used.is_some() && h.key == host)?.base.get()
    }

    /// Whether somebody has waited too long for any answer.
    pub fn stalled(&self, now: Instant) -> bool {
        self.asking.is_some_and(|(since, patience)| now.since(since) >= patience)
    }

    /// What the interval that ends here has shown; the next one begins.
    pub fn take(&mut self, now: Instant) -> Sampled {
        let mut shown = [Shown { excess: 0, back: None, there: None, late: false }; FLOWS];
        let mut n = 0;
        for flow in self.flows.iter_mut() {
            if let Some(s) = flow.shown.take() {
                shown[n] = s;
                n += 1;
            }
        }
        for host in self.hosts.iter_mut().filter(|h| h.recent[0].is_some()) {
            host.recent = [None, host.recent[0]];
        }
        let shown = &mut shown[..n];
        let late = shown.iter().all(|s| s.late);
        let shown = || {
            shown.iter().filter(|s| late || !s.late).map(|s| match s.late {
                true => Shown {
                    excess: s.excess.saturating_sub(DELAYED_ACK),
                    there: s.there.map(|t| t.saturating_sub(DELAYED_ACK)),
                    back: s.back,
                    late: true,
                },
                false => *s,
            })
        };
        let (base, rtt, at) = self.lowest.take().unwrap_or((0, 0, now));
        Sampled {
            samples: std::mem::take(&mut self.taken),
            stale: std::mem::take(&mut self.stale),
            flows: n as u32,
            base,
            rtt,
            ago: now.since(at),
            excess: quartile(shown().map(|s| s.excess)).unwrap_or(0),
            back: quartile(shown().filter_map(|s| s.back)),
            there: quartile(shown().filter_map(|s| s.there)),
        }
    }

    /// The bases are where the last samples were: the route has changed.
    pub fn rebase(&mut self, now: Instant) {
        let alive = |h: &&mut Host| h.used.is_some_and(|used| now.since(used) < 5 * SECOND);
        for host in self.hosts.iter_mut().filter(alive) {
            let recent = host.recent[0].or(host.recent[1]);
            host.base = Lowest::default();
            if let (Some(rtt), Some(at)) = (recent, host.used) {
                host.base.note(at, rtt);
            }
        }
        self.flows.iter_mut().for_each(|f| f.back = Lowest::default());
    }
}

/// Compares the far end's clock with ours, and gives the time of arrival less its value, ns.
fn clock(flow: &mut Flow, at: Instant, value: u32) -> i64 {
    let (since, first) = flow.clock.get_or_insert((at, value));
    if at.since(*since) > 2 * HOUR {
        // The same line, from a later point: differences of 32 bits last 24 days.
        (*since, *first) = (*since + HOUR, first.wrapping_add((HOUR / MILLISECOND) as u32));
    }
    let (since, first) = (*since, *first);
    let passed = at.since(since);
    let ticks = i64::from(value.wrapping_sub(first) as i32);
    if passed >= SECOND {
        let ms = (passed / MILLISECOND) as i64;
        // A queue in between makes ticks come late, by as much as it holds at most: five percent and
        // a little, or else the next second may show it.
        flow.milliseconds = (ticks - ms).abs() <= ms / 20 + 20 || (flow.milliseconds && (ticks - ms).abs() < ms);
        if !flow.milliseconds {
            (flow.clock, flow.back) = (Some((at, value)), Lowest::default());
            return 0;
        }
    }
    passed as i64 - ticks.saturating_mul(MILLISECOND as i64)
}

/// The lower quartile; the least of up to four.
fn quartile(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sorted = [0; FLOWS];
    let mut n = 0;
    for value in values.take(FLOWS) {
        sorted[n] = value;
        n += 1;
    }
    sorted[..n].sort_unstable();
    sorted[..n].get(n.checked_sub(1)? / 4).copied()
}

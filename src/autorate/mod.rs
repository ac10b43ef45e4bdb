//! `autorate MIN MAX`: a shaper's rate for a link whose rate moves, from what passes through.
//!
//! [`tap`] notes TCP headers on the data path, [`samples`] makes round trips of them, [`controller`]
//! decides, [`log`] writes down what it was given and what it said, and [`Pilot`] joins them. Nothing
//! is sent to anybody: no probes. Time is an argument, memory is fixed, and a driver (live, or the
//! simulator) calls [`Pilot::tick`] every 100 ms, away from the data path.

pub mod controller;
pub mod interval;
pub mod log;
pub mod samples;
pub mod tap;

pub use controller::{Controller, INTERVAL};
pub use interval::{Decision, Interval, Why};
pub use log::Line;
pub use tap::{Note, Tap};

use interval::{Sampled, Way};
use samples::Matcher;
use serde_json::{Value, json};

use crate::time::Instant;
use crate::units::{Rate, RateRange};

/// What a direction looks like at the end of an interval.
#[derive(Debug, Default)]
pub struct Look {
    /// Bytes that arrived so far.
    pub arrived: u64,
    /// Bytes that left so far.
    pub left: u64,
    /// Bytes that wait.
    pub backlog: u64,
    /// The rate in force, as the shaper says.
    pub rate: Option<Rate>,
    /// When something arrived last.
    pub last_arrival: Option<Instant>,
    /// What the tap noted.
    pub notes: Vec<Note>,
}

impl Look {
    /// Reads a tap; `spare` takes the place of its notes.
    pub fn of(tap: &mut Tap, mut spare: Vec<Note>, backlog: u64, rate: Option<Rate>) -> Look {
        tap.swap(&mut spare);
        Look {
            arrived: tap.arrived_bytes,
            left: tap.left_bytes,
            backlog,
            rate,
            last_arrival: tap.last_arrival,
            notes: spare,
        }
    }
}

/// Watches both directions of a shaper and steers those that have a range.
#[derive(Debug)]
pub struct Pilot {
    controller: Controller,
    far: Matcher,
    near: Matcher,
    start: Instant,
    before: Instant,
    bytes: [[u64; 2]; 2],
    /// The rates in force, bytes per second.
    rates: [u64; 2],
    /// What was seen last, far and near, where there were samples.
    seen: [Sampled; 2],
    decisions: [Option<Decision>; 2],
    changes: [u64; 2],
}

impl Pilot {
    /// A pilot of the directions that have a range, down and up; and the first lines of its log.
    pub fn new(now: Instant, ranges: [Option<RateRange>; 2]) -> (Pilot, Vec<Line>) {
        let pilot = Pilot {
            controller: Controller::new(ranges),
            far: Matcher::default(),
            near: Matcher::default(),
            start: now,
            before: now,
            bytes: [[0; 2]; 2],
            rates: [0; 2],
            seen: [Sampled::default(); 2],
            decisions: [None; 2],
            changes: [0; 2],
        };
        let sets = ranges.into_iter().enumerate().map(|(way, range)| Line::set(0, way, range));
        (pilot, std::iter::once(Line::Autorate(log::VERSION)).chain(sets).collect())
    }

    /// Other limits for a direction, or none; if they are the same, what was learned stays.
    pub fn set(&mut self, now: Instant, way: usize, range: Option<RateRange>) -> Option<Line> {
        if self.controller.range(way) == range {
            return None;
        }
        self.controller.set(way, range);
        self.decisions[way] = None;
        Some(Line::set(now.since(self.start), way, range))
    }

    /// The limits of a direction.
    pub fn range(&self, way: usize) -> Option<RateRange> {
        self.controller.range(way)
    }

    /// An interval ends: what was noted in it, down and up. Gives the lines of the log and, for each
    /// direction, its new rate if that changes.
    pub fn tick(&mut self, now: Instant, looks: &[Look; 2]) -> (Vec<Line>, [Option<Rate>; 2]) {
        let [down, up] = looks;
        self.match_up(down, up);
        if let Some(at) = down.last_arrival {
            self.far.heard(at);
        }
        let mut ways = [Way::default(); 2];
        for ((way, look), bytes) in ways.iter_mut().zip(looks).zip(&mut self.bytes) {
            *way = Way {
                arrived: look.arrived - bytes[0],
                left: look.left - bytes[1],
                backlog: look.backlog,
                rate: look.rate.map_or(0, Rate::bytes_per_second),
            };
            *bytes = [look.arrived, look.left];
        }
        let interval = Interval {
            at: now.since(self.start),
            length: now.since(self.before),
            down: ways[0],
            up: ways[1],
            far: self.far.take(now),
            near: self.near.take(now),
            stalled: self.far.stalled(now),
        };
        self.before = now;
        self.rates = ways.map(|w| w.rate);
        if interval.is_empty() {
            return (Vec::new(), [None, None]);
        }
        for (seen, sampled) in self.seen.iter_mut().zip([interval.far, interval.near]) {
            if sampled.samples > 0 {
                *seen = sampled;
            }
        }
        let decided = self.controller.interval(&interval);
        let mut lines = vec![Line::Interval(interval)];
        let mut rates = [None, None];
        for d in decided.into_iter().flatten() {
            lines.push(Line::Decision(d));
            self.decisions[d.way] = Some(d);
            if d.to != d.from {
                rates[d.way] = Some(Rate::from_bytes_per_second(d.to));
                self.rates[d.way] = d.to;
                self.changes[d.way] += 1;
            }
            if matches!(d.why, Why::BaseMoved { .. }) {
                self.far.rebase(now);
            }
        }
        (lines, rates)
    }

    /// Goes through the notes of both directions in order of time.
    fn match_up(&mut self, down: &Look, up: &Look) {
        let (mut a, mut b) = (down.notes.iter().peekable(), up.notes.iter().peekable());
        loop {
            // What left comes before what arrives at the same moment.
            let from_down = match (a.peek(), b.peek()) {
                (None, None) => return,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(d), Some(u)) => d.at() < u.at(),
            };
            match if from_down { a.next() } else { b.next() } {
                Some(Note::Arrived(g)) if from_down => self.far.arrived(g),
                Some(Note::Left(g)) if from_down => self.near.left(g),
                Some(Note::Silence(from, to)) if from_down => self.far.silence(*from, *to),
                Some(Note::Arrived(g)) => self.near.arrived(g),
                Some(Note::Left(g)) => self.far.left(g),
                Some(Note::Silence(from, to)) => self.near.silence(*from, *to),
                None => return,
            }
        }
    }

    /// What is known of a direction, for `weir stats`, as a line and as an object; none if it is left
    /// alone.
    pub fn stats(&self, way: usize) -> Option<(String, Value)> {
        let range = self.controller.range(way)?;
        let (rate, decision) = (self.rates[way], self.decisions[way]);
        let [far, near] = &self.seen;
        let mut out = json!({
            "rate": rate,
            "min": range.min.bytes_per_second(),
            "max": range.max.bytes_per_second(),
            "changes": self.changes[way],
            "base_ns": far.base,
            "rtt_ns": far.rtt,
            "near_rtt_ns": near.rtt,
            "why": self.controller.why(way).map(|w| w.word()),
        });
        let mbit = |rate: u64| format!("{:.2}", rate as f64 * 8.0 / 1e6);
        let ms = |ns: u64| format!("{:.1}ms", ns as f64 / 1e6);
        let [low, high] = [range.min, range.max].map(|r| mbit(r.bytes_per_second()));
        let mut line = format!(
            "{} Mbit/s in {low}..{high}, base {} rtt {} near {}, {} changes",
            mbit(rate),
            ms(far.base),
            ms(far.rtt),
            ms(near.rtt),
            self.changes[way]
        );
        if let Some(d) = decision {
            let sentence = log::sentence(&d);
            line += &format!("; {sentence}");
            out["last"] = sentence.into();
        }
        Some((line, out))
    }
}

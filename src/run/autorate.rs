//! What steers the shapers of a running bridge: taps in both engines, read ten times a second by the
//! main thread, which also sets the rates. The workers only note and obey.

use crate::autorate::{INTERVAL, Line, Look, Note, Pilot};
use crate::spec::Spec;
use crate::time::Instant;
use crate::units::RateRange;

/// The pilot of a bridge, and what it needs between two intervals.
#[derive(Debug)]
pub struct Steering {
    pilot: Pilot,
    /// Empty buffers for the taps.
    pub(super) spare: [Vec<Note>; 2],
    /// Lines of the log that nobody has taken yet.
    lines: Vec<Line>,
    due: Instant,
}

fn ranges(specs: &[Spec; 2]) -> [Option<RateRange>; 2] {
    specs.each_ref().map(Spec::range)
}

impl Steering {
    /// A pilot, if a direction wants one.
    pub(super) fn begin(now: Instant, specs: &[Spec; 2]) -> Option<Steering> {
        let ranges = ranges(specs);
        ranges.iter().any(Option::is_some).then(|| {
            let (pilot, lines) = Pilot::new(now, ranges);
            Steering { pilot, spare: Default::default(), lines, due: now + INTERVAL }
        })
    }

    /// The specifications are others from now on.
    pub(super) fn changed(&mut self, now: Instant, specs: &[Spec; 2]) {
        for (way, range) in ranges(specs).into_iter().enumerate() {
            self.lines.extend(self.pilot.set(now, way, range));
        }
    }

    /// When the interval ends.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The interval ends. Gives the specification of each direction whose rate changes.
    pub(super) fn tick(&mut self, now: Instant, looks: [Look; 2], specs: &[Spec; 2]) -> [Option<Spec>; 2] {
        // Whoever was late does not hurry afterwards.
        self.due = (self.due + INTERVAL).max(now + INTERVAL / 2);
        let (lines, rates) = self.pilot.tick(now, &looks);
        self.lines.extend(lines);
        self.spare = looks.map(|look| look.notes);
        let mut out = [None, None];
        for (way, rate) in rates.into_iter().enumerate() {
            out[way] = rate.map(|rate| specs[way].at_rate(rate));
        }
        out
    }

    /// The lines of the log since the last time.
    pub(super) fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// What `weir stats` says of a direction: a line and an object.
    pub(super) fn stats(&self, way: usize) -> Option<(String, serde_json::Value)> {
        self.pilot.stats(way)
    }
}

//! The log: a line of JSON for each thing that happened, enough to decide it all again.
//!
//! ```text
//! {"autorate":1,"down":[250000,6250000],"up":null}
//! {"set":{"at":0,"way":0,"range":[250000,6250000]}}
//! {"interval":{"at":100000000,"length":100000000,"down":{…},"up":{…},"far":{…},"near":{…},"stalled":false}}
//! {"decision":{"at":100000000,"way":0,"from":2500000,"to":2625000,"why":"rising","load":97,"excess":0}}
//! ```
//!
//! Times are ns since the start, rates bytes per second. A decision stands behind the interval that it
//! follows from; intervals in which nothing happened are left out.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::controller::Controller;
use super::interval::{Decision, Interval};
use crate::units::{Rate, RateRange};

/// A line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The first one: the version of what follows.
    Autorate(u32),
    /// Limits of a way, bytes per second, from the start or from a change on.
    Set {
        /// ns since the start.
        at: u64,
        /// Down (0) or up (1).
        way: usize,
        /// Lowest and highest; none if the way is left alone.
        range: Option<[u64; 2]>,
    },
    /// What was seen.
    Interval(Interval),
    /// What followed.
    Decision(Decision),
}

/// The version that this weir writes.
pub const VERSION: u32 = 1;

impl Line {
    /// The limits of a way.
    pub fn set(at: u64, way: usize, range: Option<RateRange>) -> Line {
        let range = range.map(|r| [r.min.bytes_per_second(), r.max.bytes_per_second()]);
        Line::Set { at, way, range }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// What came of deciding a log again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Intervals read.
    pub intervals: u64,
    /// Decisions, as they come out now.
    pub decisions: Vec<Decision>,
    /// Where they are others than in the log: the line, what stands there, what comes out.
    pub differences: Vec<(usize, Option<Decision>, Option<Decision>)>,
}

/// Decides a log again.
///
/// # Errors
/// The first line that cannot be read, with its number, or that there is no line at all.
pub fn replay<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Replayed, String> {
    let mut controller = Controller::new([None, None]);
    let mut out = Replayed::default();
    let mut due: [Option<Decision>; 2] = [None, None];
    let mut begun = false;
    for (i, text) in lines.enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let line: Line = serde_json::from_str(text).map_err(|e| format!("line {}: {e}", i + 1))?;
        if !begun && line != Line::Autorate(VERSION) {
            return Err(format!("line {}: a log begins with {}", i + 1, Line::Autorate(VERSION)));
        }
        if let Line::Decision(logged) = line {
            let now = due.get_mut(logged.way).and_then(Option::take);
            if now != Some(logged) {
                out.differences.push((i + 1, Some(logged), now));
            }
            continue;
        }
        out.differences.extend(due.iter_mut().filter_map(Option::take).map(|now| (i + 1, None, Some(now))));
        match line {
            Line::Autorate(_) if begun => return Err(format!("line {}: a second log begins", i + 1)),
            Line::Autorate(_) => begun = true,
            Line::Set { way, range, .. } if way < 2 => {
                let rate = Rate::from_bytes_per_second;
                controller.set(way, range.map(|[min, max]| RateRange { min: rate(min), max: rate(max) }));
            }
            Line::Set { way, .. } => return Err(format!("line {}: there is no way {way}", i + 1)),
            Line::Interval(interval) => {
                out.intervals += 1;
                due = controller.interval(&interval);
                out.decisions.extend(due.iter().flatten());
            }
            Line::Decision(_) => {}
        }
    }
    if !begun {
        return Err(format!("nothing is in it; a log begins with {}", Line::Autorate(VERSION)));
    }
    let end = due.into_iter().flatten().map(|now| (0, None, Some(now)));
    out.differences.extend(end);
    Ok(out)
}

/// A decision for people: time, way, rates, and the reason in words.
pub fn sentence(d: &Decision) -> String {
    use super::interval::Why::*;
    let ms = |ns: u64| format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10);
    let mbit = |rate: u64| format!("{:.2} Mbit/s", rate as f64 * 8.0 / 1e6);
    let why = match d.why {
        Rising { load, excess } => format!("load {load} %, {} over the base", ms(excess)),
        Bloat { excess, base, capacity } => {
            format!("a queue of {} over a base of {}; the link carries {}", ms(excess), ms(base), mbit(capacity))
        }
        StillBloated { excess, capacity } => {
            format!("{} over the base and not less; the link is taken for {}", ms(excess), mbit(capacity))
        }
        AtMin { excess } => format!("{} over the base, and nothing lower is allowed", ms(excess)),
        Draining { excess } => format!("{} over the base", ms(excess)),
        Drained { capacity } => format!("the queue is gone; the link carries {}", mbit(capacity)),
        BaseMoved { by } => format!("{} over the base that no queue explains: the way is longer", ms(by)),
        Unloaded { load } => format!("load {load} %"),
        Near { excess } => format!("{} over the base", ms(excess)),
        Passed => "the queue went, and nothing had been held back for it".into(),
        Start | AtMax | Idle | NoSamples | Stalled | Recovering => String::new(),
    };
    let rates = if d.from == d.to { mbit(d.to) } else { format!("{} -> {}", mbit(d.from), mbit(d.to)) };
    let way = ["down", "up"][d.way.min(1)];
    let word = d.why.word();
    format!("{:.1}s {way} {rates}: {word} {why}", d.at as f64 / 1e9).trim_end().to_string()
}

//! What an interval showed, and what was decided: the words of the log.

use serde::{Deserialize, Serialize};

/// What one way did in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Way {
    /// Bytes that arrived at the shaper.
    pub arrived: u64,
    /// Bytes that left it.
    pub left: u64,
    /// Bytes that wait in it at the end.
    pub backlog: u64,
    /// The rate in force, bytes per second, as the shaper says; 0 if it has none.
    pub rate: u64,
}

/// What the samples of an interval showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sampled {
    /// Round trips that count.
    pub samples: u32,
    /// Those that contain a silence, and do not count.
    pub stale: u32,
    /// Flows they came from.
    pub flows: u32,
    /// Of the sample with the least excess: base, ns.
    pub base: u64,
    /// … and round trip, ns.
    pub rtt: u64,
    /// … and how long before the end of the interval it came, ns.
    pub ago: u64,
    /// Excess over the base, ns.
    pub excess: u64,
    /// … of which on the way here, if that is known.
    pub back: Option<u64>,
    /// … of which on the way there.
    pub there: Option<u64>,
}

/// Everything of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Interval {
    /// Its end, ns since the start.
    pub at: u64,
    /// Its length, ns.
    pub length: u64,
    /// Toward INSIDE.
    pub down: Way,
    /// Toward OUTSIDE.
    pub up: Way,
    /// The side of OUTSIDE.
    pub far: Sampled,
    /// The side of INSIDE: shown, never acted on.
    pub near: Sampled,
    /// Somebody waits, and nothing comes.
    pub stalled: bool,
}

impl Interval {
    /// Whether nothing at all happened: such an interval is neither logged nor decided on.
    pub fn is_empty(&self) -> bool {
        let bytes = [self.down, self.up].iter().map(|w| w.arrived + w.left).sum::<u64>();
        bytes == 0 && !self.stalled && self.far.samples + self.far.stale + self.near.samples == 0
    }
}

/// Why a rate is as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Why {
    /// Nothing was seen yet.
    Start,
    /// Load is high and the base is near.
    Rising {
        /// Percent of the rate.
        load: u64,
        /// ns.
        excess: u64,
    },
    /// At the upper limit.
    AtMax,
    /// A queue stands on this way.
    Bloat {
        /// ns over the base.
        excess: u64,
        /// The base, ns.
        base: u64,
        /// What the link seems to carry, bytes per second.
        capacity: u64,
    },
    /// It does not go down.
    StillBloated {
        /// ns over the base.
        excess: u64,
        /// What the link seems to carry now, bytes per second.
        capacity: u64,
    },
    /// It does not go down, and the rate is at its lower limit.
    AtMin {
        /// ns over the base.
        excess: u64,
    },
    /// It goes down.
    Draining {
        /// ns over the base.
        excess: u64,
    },
    /// It is gone.
    Drained {
        /// What the link was seen to carry, bytes per second.
        capacity: u64,
    },
    /// It went without our doing.
    Passed,
    /// What was taken for a queue is a longer way.
    BaseMoved {
        /// ns.
        by: u64,
    },
    /// The load is not what would show more.
    Unloaded {
        /// Percent of the rate.
        load: u64,
    },
    /// Excess between half the threshold and all of it.
    Near {
        /// ns over the base.
        excess: u64,
    },
    /// Hardly any traffic.
    Idle,
    /// Traffic, and no round trip to be seen in it.
    NoSamples,
    /// Somebody waits, and nothing comes.
    Stalled,
    /// It has just come again.
    Recovering,
}

impl Why {
    /// Its word, as in the log.
    pub fn word(&self) -> &'static str {
        match self {
            Why::Start => "start",
            Why::Rising { .. } => "rising",
            Why::AtMax => "at-max",
            Why::Bloat { .. } => "bloat",
            Why::StillBloated { .. } => "still-bloated",
            Why::AtMin { .. } => "at-min",
            Why::Draining { .. } => "draining",
            Why::Drained { .. } => "drained",
            Why::Passed => "passed",
            Why::BaseMoved { .. } => "base-moved",
            Why::Unloaded { .. } => "unloaded",
            Why::Near { .. } => "near",
            Why::Idle => "idle",
            Why::NoSamples => "no-samples",
            Why::Stalled => "stalled",
            Why::Recovering => "recovering",
        }
    }
}

/// A rate and why; also said when only the reason is a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// ns since the start: the end of the interval.
    pub at: u64,
    /// Down (0) or up (1).
    pub way: usize,
    /// Bytes per second before.
    pub from: u64,
    /// Bytes per second from now on.
    pub to: u64,
    /// The reason.
    #[serde(flatten)]
    pub why: Why,
}

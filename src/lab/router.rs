//! A router of the lab that is weir, live: a thread in the router's namespace that starts the bridge, reads its instruments
//! once an interval, and takes it down.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::course::Course;
use super::plan::{Change, Leg, Router};
use super::space::Space;
use super::topology::{INSIDE, OUTSIDE};
use super::{Error, machine};
use crate::port::xdp::SocketStatistics;
use crate::port::xdp::program::OnFailure;
use crate::qdisc::Compat;
use crate::run::attach::WantedMode;
use crate::run::bridge::{Bridge, Reading, Settings, WAITING, Way};
use crate::run::worker::Poll;
use crate::scenario::result::{Depth, PortResult, nanoseconds};
use crate::spec::Spec;
use crate::stats::StageStats;
use crate::stats::histogram::Sojourns;
use crate::time::Instant;

/// What weir's own threads do.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// How they wait.
    pub poll: Poll,
    /// Which kernel's decisions.
    pub compat: Compat,
}

/// What a router brings home.
pub struct Routed {
    /// Directions with a pipeline.
    pub ports: Vec<PortResult>,
    /// What else it says of itself.
    pub about: Value,
    /// What makes the figures doubtful, for people.
    pub warnings: Vec<String>,
    /// Frames that went through.
    pub frames: u64,
}

/// A router that was started.
pub struct Started {
    go: Sender<Arc<Course>>,
    done: Receiver<Result<Routed, Error>>,
}

impl Started {
    /// A router's thread in its namespace: `body` starts it, says so by the first channel, waits for the second, and works
    /// until the run is over.
    pub(super) fn of(
        space: &Space,
        body: impl FnOnce(&Sender<Result<(), Error>>, &Receiver<Arc<Course>>) -> Result<Routed, Error> + Send + 'static,
    ) -> Result<Started, Error> {
        let ((ready, is_ready), (go, gone), (told, done)) = (channel(), channel(), channel());
        space.run(move || {
            thread::spawn(move || {
                machine::go_before(machine::ROUTERS);
                let routed = body(&ready, &gone);
                // Whoever waits for the start must hear, too.
                if let Err(e) = &routed {
                    let _ = ready.send(Err(Error(e.to_string())));
                }
                let _ = told.send(routed);
            });
        })?;
        is_ready.recv().map_err(|_| Error::panicked("a router"))??;
        Ok(Started { go, done })
    }

    /// The run begins.
    pub fn begin(&self, course: &Arc<Course>) {
        // A router that is gone says so at the end.
        let _ = self.go.send(Arc::clone(course));
    }

    /// The run will not begin, or has failed: waits until the router has taken itself down.
    pub fn abandon(self) {
        drop(self.go);
        // What went wrong is known already.
        let _ = self.done.recv();
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What went wrong with it.
    pub fn end(&self) -> Result<Routed, Error> {
        self.done.recv().unwrap_or_else(|_| Err(Error::panicked("a router")))
    }
}

/// Starts weir in a router's namespace.
///
/// # Errors
/// What is in the way of a bridge.
pub fn start(space: &Space, router: &Router, manner: Manner) -> Result<Started, Error> {
    let router = router.clone();
    Started::of(space, move |ready, go| {
        let name = |n: &str| n.parse().map_err(|e| Error::new(n, e));
        let settings = Settings {
            nics: [name(OUTSIDE)?, name(INSIDE)?],
            specs: router.legs.each_ref().map(Leg::spec),
            name: format!("lab-{}-{}", std::process::id(), crate::stats::histogram::tag(&router.name)),
            poll: Some(manner.poll),
            cores: None,
            // Nothing of it shall outlive this process.
            on_failure: OnFailure::Pass,
            mode: WantedMode::Auto,
            mtu: None,
            waiting: WAITING,
            compat: manner.compat,
        };
        let bridge = Bridge::start(&settings).map_err(|e| Error::new(format_args!("router {}", router.name), e))?;
        let _ = ready.send(Ok(()));
        let Ok(course) = go.recv() else { return Err(Error("the run did not begin".into())) };
        work(bridge, &router, &course)
    })
}

fn work(mut bridge: Bridge, router: &Router, course: &Course) -> Result<Routed, Error> {
    let ended = || Error::new(format_args!("router {}", router.name), "a worker has ended");
    let mut ports = router.legs.each_ref().map(|leg| Port::new(leg, course));
    let mut steps = router.steps.iter().peekable();
    let mut next = 0;
    loop {
        let change = steps.peek().map_or(u64::MAX, |c| c.at);
        let goes_on = course.sleep_until(next.min(change));
        if goes_on && change <= course.now() {
            if let Some(Change { specs, .. }) = steps.next() {
                bridge.change(specs.clone()).map_err(|e| Error::new(format_args!("router {}", router.name), e))?;
            }
            continue;
        }
        for way in Way::BOTH {
            let reading = bridge.read(way).ok_or_else(ended)?;
            let waits = bridge.take_interval(way);
            ports[way as usize].note(course.now(), reading, &waits);
        }
        if !goes_on {
            break;
        }
        next += course.interval * (1 + (course.now() - next) / course.interval);
    }
    let about = about(router, &bridge, &ports);
    let warnings = ports.iter().zip(Way::BOTH).filter_map(|(p, way)| p.warning(&router.name, way)).collect();
    let frames = ports.iter().filter_map(|p| p.last.as_ref()).map(|r| r.snapshot.counters.received_packets).sum();
    let shown = Way::BOTH.into_iter().zip(ports).filter(|(way, _)| router.legs[*way as usize].pipeline.is_some());
    let ports = shown.map(|(way, port)| port.result(format!("{}.{}", router.name, way.name()))).collect();
    Ok(Routed { ports, about, warnings, frames })
}

fn about(router: &Router, bridge: &Bridge, ports: &[Port; 2]) -> Value {
    let facts = bridge.facts();
    let late = |p: &Port| p.last.as_ref().map_or(Value::Null, |r| crate::stats::report::quantiles(&r.late));
    let lost = |p: &Port| p.last.as_ref().map_or(0, |r| p.lost(r));
    json!({
        "name": router.name,
        "router": "weir",
        "down": router.legs[0].spec().to_string(),
        "up": router.legs[1].spec().to_string(),
        "poll": format!("{:?}", facts.poll).to_lowercase(),
        "modes": facts.modes.map(|m| m.to_string()),
        "zero_copy": facts.zero_copy,
        "late_ns": ports.each_ref().map(late),
        "lost_before_weir": ports.each_ref().map(lost),
    })
}

/// One direction of a router over time.
pub(super) struct Looks {
    steady_from: u64,
    depth: Vec<Depth>,
    before_steady: (u64, u64),
    peak: (u32, u64),
}

impl Looks {
    pub(super) fn new(course: &Course) -> Looks {
        Looks { steady_from: course.steady_from, depth: Vec::new(), before_steady: (0, 0), peak: (0, 0) }
    }

    /// Notes what was seen `now`; says whether that belongs to the steady part.
    pub(super) fn note(&mut self, now: u64, seen: Depth) -> bool {
        self.peak = (self.peak.0.max(seen.packets), self.peak.1.max(seen.bytes));
        let steady = now > self.steady_from;
        if !steady {
            self.before_steady = (seen.marks, seen.drops);
        }
        self.depth.push(seen);
        steady
    }

    /// What follows from the looks alone.
    pub(super) fn result(self, name: String) -> PortResult {
        let (marks, drops) = self.depth.last().map_or((0, 0), |d| (d.marks, d.drops));
        PortResult {
            name,
            total: nanoseconds(),
            decision: nanoseconds(),
            marks: [marks, marks - self.before_steady.0],
            drops: [drops, drops - self.before_steady.1],
            sent_packets: 0,
            sent_bytes: self.depth.last().map_or(0, |d| d.sent_bytes),
            peak: self.peak,
            depth: self.depth,
            verdicts: Vec::new(),
            stages: Vec::new(),
        }
    }
}

/// The instruments of one direction.
struct Port {
    flight: u64,
    total: Histogram<u64>,
    decision: Histogram<u64>,
    looks: Looks,
    last: Option<Reading>,
}

impl Port {
    fn new(leg: &Leg, course: &Course) -> Port {
        Port {
            flight: leg.flight,
            total: nanoseconds(),
            decision: nanoseconds(),
            looks: Looks::new(course),
            last: None,
        }
    }

    fn note(&mut self, now: u64, reading: Reading, waits: &Sojourns) {
        let s = &reading.snapshot;
        let c = &s.counters;
        let marks = c.marked_ecn + c.marked_pi2 + c.marked_ce_threshold + c.marked_step + c.marked_sce;
        let marks = marks + s.stages.iter().map(coded_marks).sum::<u64>();
        let drops = s.drops.total();
        // What is in flight waits in no queue.
        let flying = if self.flight > 0 { s.stages.first().map(|f| *f.basic()) } else { None };
        let packets = s.backlog_packets.saturating_sub(flying.map_or(0, |f| f.qlen));
        let bytes = s.backlog_bytes.saturating_sub(flying.map_or(0, |f| f.backlog));
        let worst = waits.total.max().saturating_sub(self.flight);
        let at = Instant::from_nanos(now);
        let seen = Depth { at, packets, bytes, marks, drops, sent_bytes: c.sent_bytes, worst };
        if self.looks.note(now, seen) {
            for v in waits.total.iter_recorded() {
                let sojourn = v.value_iterated_to().saturating_sub(self.flight).max(1);
                self.total.saturating_record_n(sojourn, v.count_at_value());
            }
            for v in waits.decision.iter_recorded() {
                self.decision.saturating_record_n(v.value_iterated_to().max(1), v.count_at_value());
            }
        }
        self.last = Some(reading);
    }

    /// Frames that the kernel dropped before weir saw them.
    fn lost(&self, reading: &Reading) -> u64 {
        let sum = reading.queues.iter().copied().fold(SocketStatistics::default(), SocketStatistics::plus);
        sum.rx_dropped + sum.rx_ring_full + sum.rx_fill_ring_empty + reading.gate.no_socket + reading.gate.stale
    }

    fn warning(&self, router: &str, way: Way) -> Option<String> {
        let lost = self.lost(self.last.as_ref()?);
        (lost > 0).then(|| format!("router {router}: {lost} frames {} were lost before weir saw them", way.name()))
    }

    fn result(self, name: String) -> PortResult {
        let skipped = usize::from(self.flight > 0);
        let last = self.last.map(|r| r.snapshot);
        PortResult {
            total: self.total,
            decision: self.decision,
            sent_packets: last.as_ref().map_or(0, |s| s.counters.sent_packets),
            stages: last.map_or(Vec::new(), |s| s.stages.into_iter().skip(skipped).collect()),
            ..self.looks.result(name)
        }
    }
}

/// Marks of `mb-ecn l4s`, which the marker counts and the engine does not.
fn coded_marks(stage: &StageStats) -> u64 {
    if let StageStats::Marked { mb_ecn, .. } = stage { mb_ecn.tally.marked_ce } else { 0 }
}

/// The pipelines of both directions with `other` in the place of each one there is.
pub fn with(router: &Router, other: &Spec) -> Router {
    let mut out = router.clone();
    for leg in out.legs.iter_mut().filter(|l| l.pipeline.is_some()) {
        leg.pipeline = Some(other.clone());
    }
    out
}

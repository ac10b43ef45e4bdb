//! A run of the lab: the network is made, the routers start, the flows run, and everything is read off.

use std::sync::{Arc, Mutex};
use std::thread;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::congestion_control::{DCTCP, Dctcp};
use super::course::{Course, Meter};
use super::dtp::flow::Pathway;
use super::flows::{self, End, Pinging, Running};
use super::plan::{self, Router};
use super::router::{self, Manner, Routed, Started};
use super::topology::Topology;
use super::watch::{self, Seen};
use super::{Error, dtp, kernel_router, machine};
use crate::scenario::Scenario;
use crate::scenario::result::{FlowResult, Outcome};
use crate::spec::Spec;
use crate::time::{Instant, SECOND};

/// Who routes.
#[derive(Clone, Debug, PartialEq)]
pub enum RouterKind {
    /// weir, with the scenario's pipelines or with another in the place of the first router's.
    Weir(Option<Spec>),
    /// The kernel, likewise.
    Kernel(Option<Spec>),
}

/// The routers of a run, and which of them are the kernel.
pub type Row = Vec<(Router, bool)>;

/// What stands between clients and servers.
///
/// # Errors
/// A pipeline that the kernel cannot have.
pub fn row(scenario: &Scenario, kind: &RouterKind) -> Result<Row, Error> {
    let mut routers = plan::routers(scenario);
    let (RouterKind::Weir(other) | RouterKind::Kernel(other)) = kind;
    if let Some(spec) = other {
        routers[0] = router::with(&routers[0], spec);
    }
    if let RouterKind::Weir(_) = kind {
        return Ok(routers.into_iter().map(|r| (r, false)).collect());
    }
    let row = kernel_router::row(&routers, kernel_router::has_netem())?;
    for (router, _) in row.iter().filter(|r| r.1) {
        kernel_router::try_out(&kernel_router::commands(router)?)?;
    }
    Ok(row)
}

/// The commands that make a row's kernel routers, as one would type them.
///
/// # Errors
/// As [`row`].
pub fn commands(row: &Row) -> Result<Vec<String>, Error> {
    let mut out = Vec::new();
    for (router, _) in row.iter().filter(|r| r.1) {
        let all = kernel_router::commands(router)?;
        out.extend(all.iter().flatten().map(|c| format!("{}: tc {c}", router.name)));
    }
    Ok(out)
}

/// What a run needs besides its scenario.
pub struct Order<'a> {
    /// What is run.
    pub scenario: &'a Scenario,
    /// Start jitter and think times follow from it.
    pub seed: u64,
    /// Who routes: what [`row`] gave.
    pub row: &'a Row,
    /// How weir works.
    pub manner: Manner,
    /// The machine's noise, listened to before.
    pub noise: Option<Histogram<u64>>,
}

/// What a run brings home.
pub struct Brought {
    /// The figures.
    pub outcome: Outcome,
    /// What the engine says of itself, for the manifest.
    pub about: Value,
    /// What makes the figures doubtful, for people.
    pub warnings: Vec<String>,
}

/// A run that goes on.
pub struct Run {
    course: Arc<Course>,
    topology: Topology,
    routers: Vec<Started>,
    flows: Vec<Running>,
    paths: Vec<Pathway>,
    pings: Vec<Pinging>,
    looker: thread::JoinHandle<()>,
    seed: u64,
    noise: Option<Histogram<u64>>,
    scenario: Scenario,
    about: Value,
    _dctcp: Option<Dctcp>,
}

impl Run {
    /// Makes everything and lets it begin.
    ///
    /// # Errors
    /// What is in the way; nothing is left behind then.
    pub fn start(order: Order<'_>) -> Result<Run, Error> {
        let scenario = order.scenario;
        let mut tasks = flows::tasks(scenario, order.seed)?;
        let plans = dtp::flow::plans(&tasks, scenario)?;
        let wants_dctcp = |t: &flows::Task| t.is_tcp() && (t.tcp.sender == DCTCP || t.ect1);
        let dctcp = tasks.iter().any(wants_dctcp).then(Dctcp::get).transpose()?;
        for (task, dctcp) in tasks.iter_mut().filter(|t| wants_dctcp(t)).zip(dctcp.iter().cycle()) {
            task.control = dctcp.name().into();
        }
        let mut about = machine::facts();
        let topology = Topology::build(scenario, order.row.len())?;
        if tasks.iter().any(|t| t.ect1) {
            topology.let_hosts_say_ect1()?;
        }
        about["offloads"] = machine::offloads(&topology.hosts[0]);
        let routers = start_routers(&topology, scenario, order.row, order.manner)?;
        let sized = tasks.iter().filter(|t| matches!(t.app, crate::scenario::App::Bulk { size: Some(_), .. })).count();
        let course = Arc::new(Course::begin(scenario, sized));
        routers.iter().for_each(|r| r.begin(&course));
        let Begun { flows, paths, pings } = match start_flows(&tasks, plans, scenario, &topology, &course) {
            Ok(begun) => begun,
            Err(e) => {
                course.fail(&e);
                routers.into_iter().for_each(Started::abandon);
                return Err(e);
            }
        };
        let (watches, c) = (flows.iter().filter_map(|f| f.watch.clone()).collect::<Vec<_>>(), Arc::clone(&course));
        let looker = thread::spawn(move || watch::look_at(&watches, &c));
        Ok(Run {
            course,
            topology,
            routers,
            flows,
            paths,
            pings,
            looker,
            seed: order.seed,
            noise: order.noise,
            scenario: scenario.clone(),
            about,
            _dctcp: dctcp,
        })
    }

    /// Its clock, by which it can be followed and ended.
    pub fn course(&self) -> &Arc<Course> {
        &self.course
    }

    /// Waits for its end and reads everything off.
    ///
    /// # Errors
    /// It failed or was interrupted.
    pub fn finish(mut self) -> Result<Brought, Error> {
        let mut flows = Vec::new();
        let mut trouble = Ok(());
        for running in &self.flows {
            match running.ends() {
                Ok(ends) => flows.push(flow_result(running, ends, &self.course)),
                Err(e) => trouble = trouble.and(Err(e)),
            }
        }
        for pinging in &self.pings {
            match pinging.end() {
                Ok(end) => flows.push(ping_result(pinging, end)),
                Err(e) => trouble = trouble.and(Err(e)),
            }
        }
        let mut paths = Vec::new();
        for path in std::mem::take(&mut self.paths) {
            match path.end() {
                Ok(path) => paths.push(path),
                Err(e) => trouble = trouble.and(Err(e)),
            }
        }
        // Nothing else is under way; who sleeps until the end of the run is woken by it.
        let routed: Vec<Result<Routed, Error>> = self.routers.iter().map(Started::end).collect();
        self.looker.join().map_err(|_| Error::panicked("who looks at the senders"))?;
        let elapsed = self.course.result()?;
        trouble?;
        drop(self.topology);
        let (mut ports, mut about, mut warnings, mut frames) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for routed in routed {
            let routed = routed?;
            ports.extend(routed.ports);
            about.push(routed.about);
            warnings.extend(routed.warnings);
            frames += routed.frames;
        }
        let steps = elapsed.div_ceil(self.course.interval) as usize;
        for flow in &mut flows {
            flow.series.resize(steps, 0);
            flow.rtt_series.resize(steps, (0, 0, 0));
        }
        self.about["routers"] = json!(about);
        let outcome = Outcome {
            scenario: self.scenario,
            seed: self.seed,
            elapsed,
            events: 0,
            frames,
            flows,
            ports,
            origin: Instant::ZERO,
            conversations: Vec::new(),
            paths,
            autorate: Vec::new(),
            noise: self.noise,
        };
        Ok(Brought { outcome, about: self.about, warnings })
    }
}

/// All routers and the lines of hosts, or none.
fn start_routers(topology: &Topology, scenario: &Scenario, row: &Row, manner: Manner) -> Result<Vec<Started>, Error> {
    let routers = topology.routers.iter().zip(row).map(|(space, (router, kernel))| (space, router.clone(), *kernel));
    let lines = topology.lines.iter().map(|(host, space)| (space, plan::line(scenario, *host), false));
    let mut started = Vec::new();
    for (space, router, kernel) in routers.chain(lines) {
        let one = if kernel { kernel_router::start(space, &router) } else { router::start(space, &router, manner) };
        match one {
            Ok(one) => started.push(one),
            Err(e) => {
                started.into_iter().for_each(Started::abandon);
                return Err(e);
            }
        }
    }
    Ok(started)
}

/// All who send.
struct Begun {
    flows: Vec<Running>,
    paths: Vec<Pathway>,
    pings: Vec<Pinging>,
}

fn start_flows(
    tasks: &[flows::Task],
    plans: Vec<dtp::flow::Plan>,
    scenario: &Scenario,
    topology: &Topology,
    course: &Arc<Course>,
) -> Result<Begun, Error> {
    let hosts = &topology.hosts;
    let asks: Vec<Arc<Mutex<()>>> = hosts.iter().map(|_| Arc::default()).collect();
    let (paths, mut layer) = dtp::flow::start(plans, tasks, hosts, course)?;
    let mut start = |(i, task)| layer.remove(&i).map_or_else(|| flows::start(task, hosts, &asks, course), Ok);
    let flows = tasks.iter().enumerate().map(&mut start).collect::<Result<_, _>>()?;
    let pings = scenario.pings.iter().map(|p| Pinging::start(p, scenario, hosts, course));
    Ok(Begun { flows, paths, pings: pings.collect::<Result<_, _>>()? })
}

/// Sums by interval become means.
fn means(series: &[(u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
    series.iter().map(|(n, sum, worst)| (*n, sum.checked_div(*n).unwrap_or(0), *worst)).collect()
}

fn flow_result(running: &Running, [client, server]: [End; 2], course: &Course) -> FlowResult {
    let task = &running.task;
    let (receiver, sender) = if task.up() { (server, client) } else { (client, server) };
    let completed = receiver.completed.map(|at| at.saturating_sub(task.start));
    let end = receiver.completed.unwrap_or(task.stop).min(course.duration);
    // A flow counts from the beginning of the steady part, or from its own if that is later.
    let (from, bytes) = match course.steady_from > task.start && end > course.steady_from {
        true => (course.steady_from, receiver.meter.steady_bytes),
        false => (task.start, receiver.meter.bytes),
    };
    let seen: Option<Seen> = running.watch.as_ref().map(|w| w.take(course));
    let meter: &Meter = seen.as_ref().map_or(&receiver.meter, |s| &s.meter);
    let (last, before) = seen.as_ref().map(|s| (s.last, s.before_steady)).unwrap_or_default();
    let retransmissions = [last.retransmits, last.retransmits.saturating_sub(before.retransmits)].map(u64::from);
    FlowResult {
        name: task.name.clone(),
        group: task.group.clone(),
        kind: task.kind().into(),
        up: task.up(),
        bytes: receiver.meter.bytes,
        goodput: bytes as f64 * 8.0 * SECOND as f64 / end.saturating_sub(from).max(1) as f64,
        series: receiver.meter.series.clone(),
        rtt: meter.rtt.clone(),
        rtt_series: means(&meter.rtt_series),
        points: seen.map_or(Vec::new(), |s| s.points),
        times: receiver.times,
        sent: sender.sent,
        received: receiver.received,
        completed,
        aborted: sender.aborted || receiver.aborted,
        retransmissions: if task.is_tcp() { retransmissions } else { sender.retransmissions },
        timeouts: last.timeouts.into(),
        delivered: last.delivered.into(),
        echoed: [last.delivered_ce, last.delivered_ce.saturating_sub(before.delivered_ce)].map(u64::from),
    }
}

fn ping_result(pinging: &Pinging, end: End) -> FlowResult {
    FlowResult {
        name: pinging.ping.name.clone(),
        group: pinging.ping.name.clone(),
        kind: "ping".into(),
        up: true,
        bytes: 0,
        goodput: 0.0,
        series: Vec::new(),
        points: Vec::new(),
        rtt_series: means(&end.meter.rtt_series),
        rtt: end.meter.rtt,
        times: Vec::new(),
        sent: end.sent,
        received: end.received,
        completed: None,
        aborted: false,
        retransmissions: [0, 0],
        timeouts: 0,
        delivered: 0,
        echoed: [0, 0],
    }
}

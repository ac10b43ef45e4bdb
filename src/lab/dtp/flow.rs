//! The lab's flows of data-transfer frames: for each path a sender in its source's namespace, for each
//! destination a receiver of all paths to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::{Came, Inflow, Outflow, Port, Time, Way};
use crate::dtp::frame::Header;
use crate::dtp::{Codes, Tuning};
use crate::lab::Error;
use crate::lab::course::Course;
use crate::lab::flows::{End, Running, Task, Told, noted};
use crate::lab::space::Space;
use crate::lab::topology::{self, HOST};
use crate::rng::Random;
use crate::scenario::result::{PathPoint, PathResult};
use crate::scenario::{Scenario, gap};

impl Time for Course {
    fn now(&self) -> u64 {
        Course::now(self)
    }

    fn is_over(&self) -> bool {
        Course::is_over(self)
    }
}

/// A path: flows between two hosts, in one direction and of one QoS cube.
#[derive(Clone, Debug)]
pub struct Plan {
    name: String,
    /// Indices of the source and the destination among the hosts.
    ends: [usize; 2],
    qos: u8,
    tuning: Tuning,
    silent: Option<(u64, u64)>,
    /// Its flows, as indices into the tasks, and what sends them.
    flows: Vec<(usize, Outflow)>,
}

/// The paths of a scenario.
///
/// # Errors
/// Two flows of one path ask for different controllers.
pub fn plans(tasks: &[Task], scenario: &Scenario) -> Result<Vec<Plan>, Error> {
    let mut out: Vec<Plan> = Vec::new();
    for (i, task) in tasks.iter().enumerate() {
        let Some(dtp) = task.dtp() else { continue };
        let flow = format!("flow {}", task.name);
        let ends = if dtp.up { [task.client, task.server] } else { [task.server, task.client] };
        let qos = task.dscp.min(2);
        let tuning = Tuning::named(&dtp.controller).ok_or_else(|| Error::new(&flow, "no such controller"))?;
        let at = out.iter().position(|p| (p.ends, p.qos) == (ends, qos)).unwrap_or_else(|| {
            let name = ends.map(|h| scenario.hosts[h].name.as_str()).join("-");
            out.push(Plan { name, ends, qos, tuning, silent: None, flows: Vec::new() });
            out.len() - 1
        });
        let plan = &mut out[at];
        if plan.tuning != tuning {
            let why = format!("its path has another controller than \"{}\"; name one for all", tuning.name);
            return Err(Error::new(flow, why));
        }
        plan.silent = plan.silent.or(dtp.silent);
        let outflow = Outflow {
            eid: Header::flow_eid(plan.flows.len() as u32, Random::seeded(task.seed).u64() as u32),
            start: task.start,
            stop: task.stop,
            payload: dtp.packet as u16,
            gap: dtp.rate.map(|rate| gap(rate, dtp.packet)),
            reliable: dtp.reliable,
        };
        plan.flows.push((i, outflow));
    }
    Ok(out)
}

/// What a destination noted of a path: codes in the steady part.
#[derive(Default)]
struct Noted {
    codes: Codes,
    updates: u64,
}

/// A path under way.
pub struct Pathway {
    plan: Plan,
    points: Receiver<Result<Vec<PathPoint>, Error>>,
    counted: Receiver<Result<Noted, Error>>,
}

impl Pathway {
    /// Waits for both ends.
    ///
    /// # Errors
    /// What went wrong at one of them.
    pub fn end(self) -> Result<PathResult, Error> {
        let gone = || Error::panicked("an end of a path");
        let points = self.points.recv().map_err(|_| gone())??;
        let Noted { codes, updates } = self.counted.recv().map_err(|_| gone())??;
        let flows = self.plan.flows.iter().map(|(task, _)| *task).collect();
        Ok(PathResult { name: self.plan.name, flows, points, codes, updates })
    }
}

/// Starts all paths. The flows come with their indices among the tasks; destinations hear when this returns.
///
/// # Errors
/// A host has no socket for them.
pub fn start(
    plans: Vec<Plan>,
    tasks: &[Task],
    hosts: &[Space],
    course: &Arc<Course>,
) -> Result<(Vec<Pathway>, BTreeMap<usize, Running>), Error> {
    let mut running = BTreeMap::new();
    let (mut sources, mut destinations) = (BTreeMap::new(), BTreeMap::new());
    for (i, task) in tasks.iter().enumerate().filter(|(_, t)| t.dtp().is_some()) {
        let (flow, [client, server]) = Running::awaited(task);
        let [source, destination] = if task.up() { [client, server] } else { [server, client] };
        running.insert(i, flow);
        sources.insert(i, source);
        destinations.insert(i, destination);
    }
    let mut counts = Vec::new();
    let mut paths = Vec::new();
    for _ in &plans {
        let (told, counted) = channel();
        counts.push(told);
        paths.push(counted);
    }
    let ends: BTreeSet<usize> = plans.iter().map(|p| p.ends[1]).collect();
    for host in ends {
        let mut sink = Sink::new(course);
        for (p, plan) in plans.iter().enumerate().filter(|(_, p)| p.ends[1] == host) {
            let flows = plan.flows.iter().filter_map(|(i, out)| Some((destinations.remove(i)?, *out)));
            sink.add(plan, flows, counts[p].clone());
        }
        let c = Arc::clone(course);
        hosts[host].run(move || {
            let port = port(host)?;
            thread::spawn(move || sink.work(&port, &c));
            Ok::<(), Error>(())
        })??;
    }
    let mut out = Vec::new();
    for (plan, counted) in plans.into_iter().zip(paths) {
        let (told, points) = channel();
        let flows: Vec<(Outflow, Told)> =
            plan.flows.iter().filter_map(|(i, out)| Some((*out, sources.remove(i)?))).collect();
        let ([from, to], c) = (plan.ends, Arc::clone(course));
        let way = Way { to: topology::mac(to), qos: plan.qos, tuning: plan.tuning, look: course.interval };
        hosts[from].run(move || {
            let port = port(from)?;
            thread::spawn(move || {
                // Nobody waits any more if the run has failed elsewhere.
                let _ = told.send(noted(source(port, &way, flows, &c), &c));
            });
            Ok::<(), Error>(())
        })??;
        out.push(Pathway { plan, points, counted });
    }
    Ok((out, running))
}

fn port(host: usize) -> Result<Port, Error> {
    let interface = HOST.parse().map_err(|e| Error::new(HOST, e))?;
    Port::open(&interface, topology::mac(host))
}

/// A source's thread: its path over time, and the end of each flow to who waits for it.
fn source(port: Port, way: &Way, flows: Vec<(Outflow, Told)>, course: &Course) -> Result<Vec<PathPoint>, Error> {
    let plans: Vec<Outflow> = flows.iter().map(|(out, _)| *out).collect();
    let mut points = Vec::new();
    let mut before = vec![0; plans.len()];
    let sent = super::send(port, way, &plans, course, |at, c, flows| {
        let (rate, ece, capacity, regime) = (c.rate(), c.ece(), c.capacity(), c.regime());
        points.push(PathPoint { at, rate, ece, capacity, regime });
        if at <= course.steady_from {
            before = flows.iter().map(super::Flow::retransmissions).collect();
        }
    })?;
    for (i, (_, told)) in flows.into_iter().enumerate() {
        let all = sent.retransmissions[i];
        let retransmissions = [all, all - before[i]];
        let _ = told.send(Ok(End { sent: sent.frames[i], retransmissions, ..End::new(course) }));
    }
    Ok(points)
}

/// A path at its destination.
struct Inpath {
    noted: Noted,
    told: Sender<Result<Noted, Error>>,
}

/// A flow at its destination.
struct Arriving {
    path: usize,
    known: Inflow,
    end: End,
    told: Told,
}

/// All paths to one host.
struct Sink {
    paths: Vec<Inpath>,
    /// By source, QoS cube and EID.
    index: BTreeMap<([u8; 6], u8, u64), usize>,
    flows: Vec<Arriving>,
    course: Arc<Course>,
}

impl Sink {
    fn new(course: &Arc<Course>) -> Sink {
        Sink { paths: Vec::new(), index: BTreeMap::new(), flows: Vec::new(), course: Arc::clone(course) }
    }

    fn add(&mut self, plan: &Plan, flows: impl Iterator<Item = (Told, Outflow)>, told: Sender<Result<Noted, Error>>) {
        let from = topology::mac(plan.ends[0]);
        for (told, out) in flows {
            let known = Inflow {
                payload: out.payload,
                reliable: out.reliable,
                window: plan.tuning.window,
                silent: plan.silent,
            };
            self.index.insert((from, plan.qos, out.eid), self.flows.len());
            self.flows.push(Arriving { path: self.paths.len(), known, end: End::new(&self.course), told });
        }
        self.paths.push(Inpath { noted: Noted::default(), told });
    }

    fn came(&mut self, c: &Came) {
        let Some(i) = self.index.get(&(c.header.src, c.header.qos, c.header.eid)) else { return };
        let flow = &mut self.flows[*i];
        let path = &mut self.paths[flow.path].noted;
        path.updates += u64::from(c.reported);
        if c.at >= self.course.steady_from {
            path.codes.came(c.header.ecn, c.header.cap);
        }
        flow.end.received += 1;
        flow.end.meter.received(c.at, c.bytes);
        flow.end.meter.took(c.at, c.at.saturating_sub(c.sent));
    }

    /// A destination's thread.
    fn work(mut self, port: &Port, course: &Course) {
        // Who is expected does not change, so it can be looked up while what came is noted.
        let known: BTreeMap<_, Inflow> = self.index.iter().map(|(key, i)| (*key, self.flows[*i].known)).collect();
        let expect = |h: &Header, _: &[u8]| known.get(&(h.src, h.qos, h.eid)).copied();
        let result = super::receive(port, course, u64::MAX, expect, |came| self.came(came));
        if let Err(e) = result {
            // All who wait hear of it: their channels close, and the run says why.
            course.fail(&e);
            return;
        }
        for flow in self.flows {
            let _ = flow.told.send(Ok(flow.end));
        }
        for path in self.paths {
            let _ = path.told.send(Ok(path.noted));
        }
    }
}

//! A bridge at work: two NICs, two directions, and everything that must be undone at its end.

mod limits;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;

pub use self::limits::Error;
use self::limits::{choose_cores, frames, mtu, queues};

use super::attach::{self, Lock, Placed, WantedMode};
use super::autorate::Steering;
use super::clock;
use super::left;
use super::links::Links;
use super::nic::{self, IfName, NicFacts, NicGuard};
use super::worker::{Direction, Handle, Lateness, Poll};
use crate::autorate::{Line, Tap};
use crate::classify::Hashing;
use crate::engine::journal::{self, Journal, Notes};
use crate::engine::{Engine, Parts, Snapshot};
use crate::pipeline::Link;
use crate::port::xdp::program::{Gate, GateCounters, Mode, OnFailure};
use crate::port::xdp::{OpenError, Ports, Settings as PortSettings, SocketStatistics, XdpRx, XdpTx, open};
use crate::qdisc::Compat;
use crate::rng::Random;
use crate::run::DIRECTORY;
use crate::spec::Spec;
use crate::stats::StageStats;
use crate::stats::histogram::Sojourns;
use crate::stats::report::Report;
use crate::time::{Instant, MILLISECOND};

/// Frames that can wait in each direction, unless said otherwise.
pub const WAITING: usize = 14_336;
/// The fewest that may be asked for.
pub const LEAST_WAITING: usize = 64;
/// A heartbeat older than this means that we hang, in nanoseconds (decisions.md 16).
const HEARTBEAT_STALE: u64 = 100 * MILLISECOND;
/// How long to wait for the sockets of a predecessor to be gone from the queues.
const SOCKET_PATIENCE: (u32, Duration) = (20, Duration::from_millis(100));

/// A direction, by where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Received on OUTSIDE, sent on INSIDE.
    Down = 0,
    /// Received on INSIDE, sent on OUTSIDE.
    Up = 1,
}

impl Way {
    /// Both, in the order of their numbers.
    pub const BOTH: [Way; 2] = [Way::Down, Way::Up];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Down => "down",
            Way::Up => "up",
        }
    }
}

/// What is wanted of a bridge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The names of OUTSIDE and INSIDE.
    pub nics: [IfName; 2],
    /// What packets wait in, down and up.
    pub specs: [Spec; 2],
    /// How the instance is called.
    pub name: String,
    /// How the workers wait; by default [`Poll::Busy`] on cores of their own, else
    /// [`Poll::Adaptive`].
    pub poll: Option<Poll>,
    /// Cores for the workers alone: 1 for both directions, or 2.
    pub cores: Option<usize>,
    /// What becomes of frames when nobody shapes them.
    pub on_failure: OnFailure,
    /// How the gate may be run.
    pub mode: WantedMode,
    /// The largest packet for the disciplines, without the Ethernet header; by default the larger
    /// MTU of both NICs.
    pub mtu: Option<u32>,
    /// Frames that can wait in each direction.
    pub waiting: usize,
    /// Which kernel's decisions are wanted.
    pub compat: Compat,
}

/// The gates at both NICs; gone when dropped.
struct Gates {
    gates: [Gate; 2],
    placed: Vec<Placed>,
}

impl Drop for Gates {
    fn drop(&mut self) {
        self.gates.iter().for_each(Gate::close);
        attach::grace();
        for placed in self.placed.drain(..) {
            // What cannot be detached is bypassed, and the next instance finds its pin.
            let _ = placed.remove();
        }
    }
}

/// What is known of a direction at one moment, its own part and the kernel's.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The engine's.
    pub snapshot: Snapshot,
    /// How late its worker was, since the start, in nanoseconds.
    pub late: Histogram<u64>,
    /// The gate of the NIC that it receives on.
    pub gate: GateCounters,
    /// The sockets of the NIC that it receives on, by queue.
    pub queues: Vec<SocketStatistics>,
}

/// How long the packets of a direction waited.
struct Waits {
    /// The tins of its queueing stage, by name and number.
    tins: Vec<(String, usize)>,
    /// Empty, for the worker to record into next.
    spare: Sojourns,
    /// Since the start.
    total: Sojourns,
    /// Since it was last taken.
    interval: Sojourns,
}

impl Waits {
    fn of(stages: &[StageStats]) -> Waits {
        let empty = Sojourns::of(stages);
        Waits { tins: tins(stages), spare: empty.clone(), total: empty.clone(), interval: empty }
    }

    /// Takes in what was recorded up to a moment when the stages were like this. Where a change has
    /// brought other tins, these begin anew.
    fn add(&mut self, mut taken: Sojourns, stages: &[StageStats]) {
        let tins = tins(stages);
        if tins != self.tins {
            self.tins = tins;
            for sojourns in [&mut taken, &mut self.total, &mut self.interval] {
                sojourns.tins.iter_mut().for_each(|h| h.reset());
            }
        }
        self.total.add(&taken);
        self.interval.add(&taken);
        taken.reset();
        self.spare = taken;
    }
}

/// A bridge at work. Dropping it takes everything back.
pub struct Bridge {
    // In the order in which they must go: no frame may come before the workers end, and others may
    // have the NICs only after all that.
    gates: Gates,
    workers: Vec<Handle<XdpRx, XdpTx>>,
    sockets: [Vec<Arc<OwnedFd>>; 2],
    links: Links,
    waits: [Waits; 2],
    steering: Option<Steering>,
    link: Link,
    facts: Facts,
    _nics: [NicGuard; 2],
    _locks: [Lock; 3],
}

/// What was found out and decided at the start.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The instance.
    pub name: String,
    /// OUTSIDE and INSIDE.
    pub nics: [String; 2],
    /// How the gate is run at each.
    pub modes: [Mode; 2],
    /// Receive queues of each.
    pub queues: [u32; 2],
    /// Whether frames get into our memory without a copy.
    pub zero_copy: bool,
    /// Whether a gate of a dead predecessor was replaced.
    pub replaced: bool,
    /// How the workers wait.
    pub poll: Poll,
    /// Cores of their own.
    pub cores: Vec<usize>,
    /// The specifications.
    pub specs: [Spec; 2],
    /// When it started.
    pub started: Instant,
    /// What could not be set on the NICs, and what does not work as they are, for people, one line each.
    pub warnings: Vec<String>,
    /// What cannot be seen from here and may not work, with what helps.
    pub notes: Vec<String>,
}

impl Bridge {
    /// Starts a bridge; frames are shaped when this returns.
    ///
    /// # Errors
    /// If anything is in the way; nothing is left behind then.
    pub fn start(settings: &Settings) -> Result<Bridge, Error> {
        // Only to know who they are: the names may be alternative ones.
        let found = both(|i| NicFacts::inspect(&settings.nics[i]))?;
        if found[0].index == found[1].index {
            return Err(Error::SameNic(found[0].name.clone()));
        }
        let io = Error::Io;
        let own_cores = choose_cores(settings.cores)?;
        let poll = settings.poll.unwrap_or(if own_cores.is_empty() { Poll::Adaptive } else { Poll::Busy });
        let locks = [
            Lock::name(&settings.name)?,
            Lock::nic(found[0].index, &found[0].name)?,
            Lock::nic(found[1].index, &found[1].name)?,
        ];
        found.iter().try_for_each(nic::check)?;
        let ports = PortSettings {
            interfaces: found.each_ref().map(|nic| nic.index),
            queues: both(|i| queues(&found[i]))?,
            mtu: mtu(&found[0])?.max(mtu(&found[1])?),
            frames: 0,
        };
        let ports = PortSettings { frames: frames(settings, &ports)?, ..ports };
        left::sweep(Path::new(DIRECTORY));
        let nics = both(|i| NicGuard::prepare(&settings.nics[i], Path::new(DIRECTORY)))?;
        let facts = nics.each_ref().map(NicGuard::facts);
        let opened =
            open_patiently(&ports).map_err(|error| Error::Socket { nic: facts[error.nic].name.clone(), error })?;
        let Ports { directions, sockets, zero_copy, links } = opened;

        let gates = both(|i| {
            let gate = Gate::load(ports.interfaces[1 - i], settings.on_failure, HEARTBEAT_STALE);
            let gate = gate.map_err(|e| io("loading the gate", e))?;
            gate.heartbeat().beat(clock::now());
            for (queue, socket) in (0..).zip(&sockets[i]) {
                gate.serve(queue, socket).map_err(|e| io("giving the gate its sockets", e))?;
            }
            Ok::<_, Error>(gate)
        })?;

        let link = Link { mtu: settings.mtu.unwrap_or(ports.mtu) + 14, compat: settings.compat };
        let entropy = RandomState::new();
        let draw = |n: u64| {
            let mut hasher = entropy.build_hasher();
            hasher.write_u64(n);
            hasher.finish()
        };
        let directions = Way::BOTH.into_iter().zip(directions).map(|(way, (rx, tx, frames))| {
            let heartbeat = gates[way as usize].heartbeat();
            let seed = way as u64 * 3;
            Direction {
                wake: sockets[way as usize].clone(),
                heartbeat: Box::new(move |now| heartbeat.beat(now)),
                engine: Engine::new(Parts {
                    capacity: frames.count(),
                    rx,
                    tx,
                    frames,
                    pipeline: settings.specs[way as usize].build(link),
                    random: Random::seeded(draw(seed)),
                    hashing: Hashing::Keyed([draw(seed + 1), draw(seed + 2)]),
                }),
            }
        });
        let workers = start_workers(directions.collect(), poll, &own_cores).map_err(|e| io("starting a worker", e))?;
        let mut gates = Gates { gates, placed: Vec::new() };
        let pinned = settings.on_failure.outlives_owner();
        for (i, nic) in facts.into_iter().enumerate() {
            let placed = attach::place(&gates.gates[i], nic, settings.mode, pinned)?;
            gates.placed.push(placed);
        }
        let modes = [gates.placed[0].mode, gates.placed[1].mode];
        let (lost, notes) = ways_past(facts, modes, settings.on_failure);
        let links = Links::watch(ports.interfaces, links).map_err(|e| io("watching the links", e))?;
        let facts = Facts {
            name: settings.name.clone(),
            nics: facts.map(|nic| nic.name.clone()),
            modes,
            queues: ports.queues,
            zero_copy,
            replaced: gates.placed.iter().any(|p| p.replaced),
            poll,
            cores: own_cores,
            specs: settings.specs.clone(),
            started: clock::now(),
            warnings: nics.iter().flat_map(|nic| nic.warnings().to_vec()).chain(lost).collect(),
            notes,
        };
        let mut bridge = Bridge {
            gates,
            workers,
            sockets,
            links,
            waits: settings.specs.each_ref().map(|spec| Waits::of(&spec.build(link).stats(Instant::ZERO))),
            steering: None,
            link,
            facts,
            _nics: nics,
            _locks: locks,
        };
        bridge.take_pilot();
        Ok(bridge)
    }

    /// Puts a pilot at the shapers if one of them has the word `autorate` and there is none yet.
    fn take_pilot(&mut self) {
        if self.steering.is_some() {
            return;
        }
        self.steering = Steering::begin(clock::now(), &self.facts.specs);
        if self.steering.is_some() {
            let seed = RandomState::new().hash_one(0);
            for way in Way::BOTH {
                // A worker that has ended is found by whoever reads its figures.
                let _ = self.ask(way, move |engine, _, _| engine.watch(Some(Tap::new(seed))));
            }
        }
    }

    /// When [`Bridge::steer`] is due, if there is anything to steer.
    pub fn steering_due(&self) -> Option<Instant> {
        self.steering.as_ref().map(Steering::due)
    }

    /// Ends an interval of `autorate`: looks at both directions and sets their rates. Gives the lines
    /// for its log.
    pub fn steer(&mut self) -> Vec<Line> {
        let Some(mut steering) = self.steering.take() else { return Vec::new() };
        let looks = Way::BOTH.map(|way| {
            let spec = self.facts.specs[way as usize].clone();
            let spare = std::mem::take(&mut steering.spare[way as usize]);
            self.ask(way, move |engine, _, _| engine.look(&spec, spare)).flatten()
        });
        if let [Some(down), Some(up)] = looks {
            let specs = steering.tick(clock::now(), [down, up], &self.facts.specs);
            let link = self.link;
            for (way, spec) in Way::BOTH.into_iter().zip(specs).filter_map(|(w, s)| Some((w, s?))) {
                let _ = self.ask(way, move |engine, _, now| engine.steer(&spec, link, now));
            }
        }
        let lines = steering.take_lines();
        self.steering = Some(steering);
        lines
    }

    /// Lets both engines keep a journal from now on, or none. `None` if a worker has ended.
    pub fn keep_journals(&self, on: bool) -> Option<()> {
        for way in Way::BOTH {
            self.ask(way, move |engine, _, _| {
                let capacity = engine.census().capacity;
                engine.keep_journal(on.then(|| Journal::new(capacity, journal::NOTES)));
            })?;
        }
        Some(())
    }

    /// What the journal of a direction noted since the last time; `spare` takes the place of its notes. `None` if none is
    /// kept or the worker has ended.
    pub fn take_notes(&self, way: Way, spare: Vec<journal::Note>) -> Option<Notes> {
        self.ask(way, move |engine, _, _| engine.take_notes(spare)).flatten()
    }

    /// What was found out and decided at the start.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Calls a NIC by another name, OUTSIDE's for 0 and INSIDE's for 1, wherever people read it.
    pub fn show_as(&mut self, nic: usize, name: &str) {
        self.facts.nics[nic] = name.into();
    }

    /// The state of both links; call [`Links::update`] when its events are readable.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Looks at a direction. `None` if its worker has ended, which is a fault.
    pub fn read(&mut self, way: Way) -> Option<Reading> {
        let i = way as usize;
        let mut spare = std::mem::take(&mut self.waits[i].spare);
        let (snapshot, taken, late) = self.ask(way, move |engine, late, now| {
            engine.swap_sojourns(&mut spare);
            (engine.snapshot(now), spare, late.0.clone())
        })?;
        self.waits[i].add(taken, &snapshot.stages);
        let queues = self.sockets[i].iter().map(|s| SocketStatistics::of(s)).collect();
        Some(Reading { snapshot, late, gate: self.gates.gates[i].counters(), queues })
    }

    /// Calls `f` with the engine of a direction, between two turns. `None` if its worker has ended.
    fn ask<A: Send + 'static>(
        &self,
        way: Way,
        f: impl FnOnce(&mut Engine<XdpRx, XdpTx>, &Lateness, Instant) -> A + Send + 'static,
    ) -> Option<A> {
        let i = way as usize;
        let (worker, at) = if self.workers.len() == 1 { (&self.workers[0], i) } else { (&self.workers[i], 0) };
        worker.ask(move |directions, late, now| f(&mut directions[at].engine, late, now))
    }

    /// How long packets waited since this was last called, as far as [`Bridge::read`] has seen.
    pub fn take_interval(&mut self, way: Way) -> Sojourns {
        let interval = &mut self.waits[way as usize].interval;
        let taken = interval.clone();
        interval.reset();
        taken
    }

    /// Everything known of a direction at this moment. `None` if its worker has ended.
    pub fn report(&mut self, way: Way) -> Option<Report> {
        let Reading { snapshot, late, gate, queues } = self.read(way)?;
        let i = way as usize;
        let sum = queues.iter().copied().fold(SocketStatistics::default(), SocketStatistics::plus);
        Some(Report {
            direction: way.name(),
            from: self.facts.nics[i].clone(),
            to: self.facts.nics[1 - i].clone(),
            spec: self.facts.specs[i].to_string(),
            seconds: snapshot.at.since(self.facts.started) as f64 / 1e9,
            stages: snapshot.stages,
            counters: snapshot.counters,
            drops: snapshot.drops,
            backlog: (snapshot.backlog_packets, snapshot.backlog_bytes),
            census: snapshot.census,
            sojourns: self.waits[i].total.clone(),
            late,
            autorate: self.steering.as_ref().and_then(|s| s.stats(i)),
            devices: vec![
                ("gate", json!(gate)),
                ("kernel", json!(sum)),
                ("queues", json!(queues)),
                ("port", json!(snapshot.port)),
            ],
        })
    }

    /// Takes new parameters, down and up; both or none.
    ///
    /// # Errors
    /// Why they cannot be: other kinds of stages, a parameter that is settled at the start, or a
    /// worker that has ended.
    pub fn change(&mut self, specs: [Option<Spec>; 2]) -> Result<(), String> {
        let ended = || "a worker has ended".to_string();
        let wanted: Vec<(Way, Spec)> = Way::BOTH.into_iter().zip(specs).filter_map(|(w, s)| Some((w, s?))).collect();
        for (way, spec) in wanted.iter().cloned() {
            let answer = self.ask(way, move |engine, _, _| engine.can_change(&spec)).ok_or_else(ended)?;
            answer.map_err(|why| format!("{}: {why}", way.name()))?;
        }
        let link = self.link;
        for (way, spec) in wanted {
            let new = spec.clone();
            self.ask(way, move |engine, _, now| engine.change(&spec, link, now)).ok_or_else(ended)??;
            self.facts.specs[way as usize] = new;
        }
        match &mut self.steering {
            Some(steering) => steering.changed(clock::now(), &self.facts.specs),
            None => self.take_pilot(),
        }
        Ok(())
    }
}

/// Where frames would be lost that go past a dead weir, and where that cannot be told. What a gate in generic mode sends
/// round is sent as any other frame.
fn ways_past(nics: [&NicFacts; 2], modes: [Mode; 2], on_failure: OnFailure) -> (Vec<String>, Vec<String>) {
    let out_of = |i: usize| on_failure == OnFailure::Bypass && modes[1 - i] == Mode::Native;
    let lines =
        (0..2).filter(|i| out_of(*i)).filter_map(|i| Some((nics[i].peer.as_ref()?.napi, nic::bypass(nics[i])?)));
    let (lost, unknown): (Vec<_>, Vec<_>) =
        lines.filter(|(napi, _)| *napi != Some(true)).partition(|(napi, _)| napi.is_some());
    let text = |lines: Vec<(_, nic::Check)>| lines.into_iter().map(|(_, line)| line.to_string()).collect();
    (text(lost), text(unknown))
}

fn tins(stages: &[StageStats]) -> Vec<(String, usize)> {
    stages.iter().flat_map(StageStats::tins).collect()
}

fn both<A, E>(mut f: impl FnMut(usize) -> Result<A, E>) -> Result<[A; 2], E> {
    Ok([f(0)?, f(1)?])
}

/// The kernel lets go of the sockets of a process a moment after its end.
fn open_patiently(settings: &PortSettings) -> Result<Ports, OpenError> {
    let mut tries = SOCKET_PATIENCE.0;
    loop {
        match open(settings) {
            Err(e) if e.is_busy() && tries > 1 => tries -= 1,
            other => return other,
        }
        std::thread::sleep(SOCKET_PATIENCE.1);
    }
}

fn start_workers(
    mut directions: Vec<Direction<XdpRx, XdpTx>>,
    poll: Poll,
    cores: &[usize],
) -> std::io::Result<Vec<Handle<XdpRx, XdpTx>>> {
    if let [core] = cores {
        return Ok(vec![Handle::start("weir", directions, poll, Some(*core))?]);
    }
    let up = directions.split_off(1);
    let core = |i: usize| cores.get(i).copied();
    Ok(vec![Handle::start("weir-down", directions, poll, core(0))?, Handle::start("weir-up", up, poll, core(1))?])
}

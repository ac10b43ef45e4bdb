//! Ports and lines: where packets queue, and how long they fly.
//!
//! A *port* is one node's way out in one direction: a pipeline, the rate of the line behind it and
//! the time that the line takes. An idle port asks its pipeline after each arrival until it gets
//! nothing or the line is busy; at one moment, arrivals come before the end of a busy period, and
//! that before the watchdog (decisions.md 12).

use std::collections::VecDeque;

use super::Event;
use super::events::Events;
use super::frames::Store;
use super::gauge::Gauge;
use crate::autorate::{Look, Tap};
use crate::classify::{Hashing, Headers};
use crate::mark::ecn;
use crate::pipeline::{Link, Pipeline};
use crate::pool::Frame;
use crate::qdisc::{Cx, Drops, Reason};
use crate::rng::Random;
use crate::scenario::result::PortResult;
use crate::spec::Spec;
use crate::time::{Instant, SECOND};
use crate::trace::capture::Fate;
use crate::units::Rate;

/// Where a port's line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At another port.
    Port(usize),
    /// At the hosts, which pick what is theirs.
    Hosts,
}

/// What a port is made of.
pub struct PortSetup {
    /// For people: `rt.down`.
    pub name: String,
    /// The stages; none means that nothing ever waits but for the line.
    pub pipeline: Option<Pipeline>,
    /// Rate of the line, bits per second; `None` if it is never busy.
    pub line_bps: Option<u64>,
    /// Time of flight, ns.
    pub delay: u64,
    /// Where it ends.
    pub next: Next,
}

struct Port {
    pipeline: Pipeline,
    line_bps: Option<u64>,
    delay: u64,
    next: Next,
    busy: bool,
    watchdog: Instant,
    flying: VecDeque<(Instant, Frame)>,
    random: Random,
    hashing: Hashing,
    gauge: Gauge,
    tap: Option<Tap>,
}

/// What a pipeline works with, while it is borrowed itself.
macro_rules! cx {
    ($network:expr, $port:expr) => {
        &mut Cx {
            pool: &mut $network.store.pool,
            drops: &mut $network.drops,
            random: &mut $port.random,
            hashing: &mut $port.hashing,
            frames: &mut $network.store.heads,
        }
    };
}

/// Who is shown each frame that leaves a port with a pipeline or is dropped there, with the port's name.
pub type Witness = Box<dyn FnMut(&str, &Fate<'_>) + Send>;

/// All ports, and the frames in them.
pub struct Network {
    ports: Vec<Port>,
    drops: Drops,
    /// The frames.
    pub store: Store,
    /// Frames that reached a host at this moment, oldest first.
    pub arrived: VecDeque<Frame>,
    /// Frames taken in by ports so far.
    pub handled: u64,
    witness: Option<Witness>,
}

impl Network {
    /// The ports, in the order that [`Next::Port`] counts; randomness and hash keys from `seed`.
    pub fn new(setups: Vec<PortSetup>, seed: u64) -> Self {
        let ports = setups.into_iter().enumerate().map(|(i, setup)| {
            let mut random = Random::seeded(seed ^ (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let hashing = Hashing::Keyed([random.u64(), random.u64()]);
            let shown = setup.pipeline.is_some();
            let mut pipeline =
                setup.pipeline.unwrap_or_else(|| crate::spec::Spec::unlimited().build(Default::default()));
            if let Some(bps) = setup.line_bps {
                pipeline.set_drain(Some(Rate::from_bits_per_second(bps)));
            }
            Port {
                gauge: Gauge::new(setup.name, shown),
                pipeline,
                line_bps: setup.line_bps,
                delay: setup.delay,
                next: setup.next,
                busy: false,
                watchdog: Instant::NEVER,
                flying: VecDeque::new(),
                tap: None,
                random,
                hashing,
            }
        });
        Network {
            ports: ports.collect(),
            drops: Drops::default(),
            store: Store::new(4096),
            arrived: VecDeque::new(),
            handled: 0,
            witness: None,
        }
    }

    /// A frame reaches `next`.
    pub fn arrive(&mut self, now: Instant, next: Next, frame: Frame, events: &mut Events<Event>) {
        let Next::Port(p) = next else {
            self.arrived.push_back(frame);
            return;
        };
        self.handled += 1;
        let headers = Headers::parse(self.store.bytes(&frame));
        let packet = &mut self.store.pool[&frame];
        packet.arrived = now;
        packet.marks = Default::default();
        headers.apply(packet);
        let port = &mut self.ports[p];
        if let Some(tap) = &mut port.tap {
            let packet = &self.store.pool[&frame];
            tap.arrived(now, packet.len, &self.store.bytes(&frame)[packet.net_offset.into()..]);
        }
        port.pipeline.enqueue(now, frame, &headers, cx!(self, port));
        port.gauge.held(port.pipeline.packets(), port.pipeline.bytes());
        self.bury(now, p);
        self.serve(now, p, events);
    }

    /// The line of port `p` is free again.
    pub fn line_free(&mut self, now: Instant, p: usize, events: &mut Events<Event>) {
        self.ports[p].busy = false;
        self.serve(now, p, events);
    }

    /// The watchdog of port `p` may have come.
    pub fn watchdog(&mut self, now: Instant, p: usize, events: &mut Events<Event>) {
        let port = &mut self.ports[p];
        if port.watchdog != now {
            return;
        }
        port.watchdog = Instant::NEVER;
        port.pipeline.tick(now, cx!(self, port));
        self.bury(now, p);
        self.serve(now, p, events);
    }

    /// The first frame in flight behind port `p` lands.
    pub fn land(&mut self, now: Instant, p: usize, events: &mut Events<Event>) {
        let port = &mut self.ports[p];
        let next = port.next;
        let Some((_, frame)) = port.flying.pop_front() else { return };
        if let Some((at, _)) = port.flying.front() {
            events.at(*at, Event::Land(p as u32));
        }
        self.arrive(now, next, frame, events);
    }

    fn serve(&mut self, now: Instant, p: usize, events: &mut Events<Event>) {
        while !self.ports[p].busy {
            let port = &mut self.ports[p];
            let frame = port.pipeline.dequeue(now, cx!(self, port));
            if !self.drops.is_empty() {
                self.bury(now, p);
            }
            let Some(frame) = frame else { break };
            self.leave(now, p, frame, events);
        }
        let port = &mut self.ports[p];
        if port.busy {
            return;
        }
        if let Some(at) = port.pipeline.next_event().filter(|at| *at > now && *at != port.watchdog) {
            port.watchdog = at;
            events.at(at, Event::Watchdog(p as u32));
        }
    }

    fn leave(&mut self, now: Instant, p: usize, frame: Frame, events: &mut Events<Event>) {
        let slot = frame.slot();
        let packet = self.store.pool[&frame];
        let tag = self.store.heads.tag(slot);
        let port = &mut self.ports[p];
        port.gauge.left(now, &packet, tag.flow);
        if packet.ds != packet.ds_arrived {
            use crate::qdisc::Frames;
            ecn::write_ds(self.store.heads.bytes_mut(slot, &packet), &packet);
        }
        if let Some(tap) = &mut port.tap {
            tap.left(now, packet.len, &self.store.bytes(&frame)[packet.net_offset.into()..]);
        }
        self.show(now, p, &frame, None);
        let port = &mut self.ports[p];
        let mut lands = now + port.delay;
        if let Some(bps) = port.line_bps {
            let busy = (u128::from(packet.len) * 8 * u128::from(SECOND) / u128::from(bps)) as u64;
            port.busy = true;
            lands = lands + busy;
            events.at(now + busy, Event::LineFree(p as u32));
        }
        // Where the way became shorter, nothing overtakes what is on the longer one.
        lands = lands.max(port.flying.back().map_or(lands, |(at, _)| *at));
        if lands == now {
            let next = port.next;
            self.arrive(now, next, frame, events);
            return;
        }
        if port.flying.is_empty() {
            events.at(lands, Event::Land(p as u32));
        }
        port.flying.push_back((lands, frame));
    }

    /// Takes the dropped frames home.
    fn bury(&mut self, now: Instant, p: usize) {
        while let Some((frame, reason)) = self.drops.pop(&mut self.store.pool) {
            let packet = self.store.pool[&frame];
            let tag = self.store.heads.tag(frame.slot());
            self.ports[p].gauge.dropped(now, &packet, tag.flow, reason);
            self.show(now, p, &frame, Some(reason));
            self.store.pool.give(frame);
        }
    }

    fn show(&mut self, now: Instant, p: usize, frame: &Frame, dropped: Option<Reason>) {
        let Some(witness) = self.witness.as_mut().filter(|_| self.ports[p].gauge.shown()) else { return };
        let packet = &self.store.pool[frame];
        let bytes = self.store.bytes(frame);
        let fate = Fate { at: now, packet, bytes, dropped, sojourn: now.since(packet.arrived) };
        witness(self.ports[p].gauge.name(), &fate);
    }

    /// Shows each frame that leaves a port or is dropped there from now on.
    pub fn show_to(&mut self, witness: Witness) {
        self.witness = Some(witness);
    }

    /// The line of port `p` has another rate from now on; a frame under way keeps its time.
    pub fn set_line(&mut self, p: usize, bps: u64) {
        self.ports[p].line_bps = Some(bps);
        self.ports[p].pipeline.set_drain(Some(Rate::from_bits_per_second(bps)));
    }

    /// Lets taps note what passes through the ports `down` and `up`; they number flows by `seed`.
    pub fn watch(&mut self, ports: [usize; 2], seed: u64) {
        ports.into_iter().for_each(|p| self.ports[p].tap = Some(Tap::new(seed)));
    }

    /// What the tap of port `p` noted since the last time.
    pub fn look(&mut self, p: usize, spec: &Spec) -> Look {
        let port = &mut self.ports[p];
        let (backlog, rate) = (port.pipeline.bytes(), port.pipeline.steered_rate(spec));
        port.tap.as_mut().map_or_else(Look::default, |tap| Look::of(tap, Vec::new(), backlog, rate))
    }

    /// Gives the stage with `autorate` at port `p` another rate.
    pub fn steer(&mut self, now: Instant, p: usize, spec: &Spec, link: Link, events: &mut Events<Event>) {
        let port = &mut self.ports[p];
        port.pipeline.steer(spec, link, now, cx!(self, port));
        self.bury(now, p);
        self.serve(now, p, events);
    }

    /// Another time of flight behind port `p`; what flies keeps its time.
    pub fn set_delay(&mut self, p: usize, delay: u64) {
        self.ports[p].delay = delay;
    }

    /// Notes the depth of every queue.
    pub fn sample(&mut self, now: Instant) {
        for port in &mut self.ports {
            port.gauge.sample(now, &port.pipeline);
        }
    }

    /// Starts the histograms and sums afresh: the steady part begins.
    pub fn begin_steady(&mut self) {
        self.ports.iter_mut().for_each(|port| port.gauge.begin_steady());
    }

    /// Has every gauge remember each packet: verdict, sojourn and tin.
    pub fn trace(&mut self) {
        self.ports.iter_mut().for_each(|port| port.gauge.trace());
    }

    /// The state of all queues, for people.
    pub fn dump(&self) -> Vec<(String, &Pipeline, u32)> {
        self.ports
            .iter()
            .filter(|port| port.gauge.shown())
            .map(|port| (port.gauge.name().to_string(), &port.pipeline, port.flying.len() as u32))
            .collect()
    }

    /// What was measured at each port that has a pipeline.
    pub fn into_gauges(self, now: Instant) -> Vec<PortResult> {
        self.ports.into_iter().filter(|p| p.gauge.shown()).map(|p| p.gauge.finish(now, &p.pipeline)).collect()
    }
}

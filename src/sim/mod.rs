//! Whole experiments in virtual time: hosts with TCP and other senders around the disciplines.
//!
//! A run is a function of scenario and seed: the same to the byte on every machine. Time jumps from
//! event to event; what takes memory is flows and packets in flight. Frames have real headers
//! ([`frames`]), so that ECN, DSCP and the ACK filter are what they are live.
//!
//! `events` orders time, `network` moves frames from port to port, `tcp` and `applications` are the
//! hosts, `gauge` and `record` measure.

mod applications;
mod autorate;
mod build;
mod dtp;
pub mod events;
pub mod frames;
pub mod gauge;
pub mod network;
pub mod record;
pub mod tcp;

pub use build::{SENDERS, build};

use applications::App;
use events::Events;
use frames::{Ends, Template, blank};
pub use network::Witness;
use network::{Network, Next};
use record::Record;
use tcp::Endpoint;

use crate::pool::Frame;
use crate::rng::Random;
use crate::scenario::Scenario;
use crate::scenario::result::{Outcome, Point};
use crate::time::Instant;

/// What the clock shows when a run begins: far from zero, so that zeroed state counts as long past.
pub const ORIGIN: Instant = Instant::from_nanos(1 << 40);

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first frame in flight behind a port lands.
    Land(u32),
    /// A port's line is free.
    LineFree(u32),
    /// A port's watchdog.
    Watchdog(u32),
    /// A timer of an endpoint: conversation, and whether it is the server's end.
    Timer(u32, bool),
    /// An application's turn.
    App(u32, u32),
    /// The series get a point.
    Sample,
    /// The steady part begins.
    Steady,
    /// A node's lines change: port and new rate.
    Line(u32, u64),
    /// A path of a layer wakes up, and why.
    Route(u32, u32),
    /// A node's time of flight changes: port and ns.
    Delay(u32, u64),
    /// An interval of a node's `autorate` ends.
    Autorate(u32),
}

/// A TCP connection between two hosts.
struct Connection {
    /// The client's end and the server's.
    ends: [Endpoint; 2],
    templates: [Template; 2],
}

/// Whatever has addresses and an application.
struct Conversation {
    /// Index of the record it counts for.
    record: usize,
    app: App,
    tcp: Option<Box<Connection>>,
    /// Headers of datagrams and echoes, up and down.
    plain: Option<[Template; 2]>,
    random: Random,
    /// Where frames of the client and of the server enter the network.
    entry: [Next; 2],
}

/// A run.
pub struct Simulation {
    scenario: Scenario,
    seed: u64,
    now: Instant,
    end: Instant,
    events: Events<Event>,
    network: Network,
    conversations: Vec<Conversation>,
    records: Vec<Record>,
    webs: Vec<applications::Web>,
    routes: Vec<dtp::Route>,
    /// Flows with a size that are not complete.
    open: usize,
    sized: usize,
    pilots: Vec<autorate::Steering>,
}

impl Simulation {
    /// Runs until the end, or until `stop_at` ns after the beginning.
    pub fn run(mut self, stop_at: Option<u64>) -> Outcome {
        self.run_until(stop_at.unwrap_or(u64::MAX));
        self.finish()
    }

    /// Runs until `stop_at` ns after the beginning, that moment included, and no longer than the scenario lasts.
    pub fn run_until(&mut self, stop_at: u64) {
        let end = ORIGIN + stop_at.min(self.end.since(ORIGIN));
        while let Some((now, event)) = self.events.next_until(end) {
            self.now = now;
            self.handle(event);
            while let Some(frame) = self.network.arrived.pop_front() {
                self.receive(frame);
            }
            if self.scenario.until_complete && self.sized > 0 && self.open == 0 {
                self.end = now;
                return;
            }
        }
        self.now = end;
    }

    /// Remembers every packet's verdict from now on.
    pub fn trace(&mut self) {
        self.network.trace();
    }

    /// Shows each frame that leaves a pipeline or is dropped by one from now on, with the port's name. The clock shows
    /// [`ORIGIN`] at the beginning.
    pub fn show_to(&mut self, witness: Witness) {
        self.network.show_to(witness);
    }

    /// The state of all queues, for people.
    pub fn dump(&self) -> String {
        record::dump(&self.network.dump(), self.now)
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Land(p) => self.network.land(now, p as usize, &mut self.events),
            Event::LineFree(p) => self.network.line_free(now, p as usize, &mut self.events),
            Event::Watchdog(p) => self.network.watchdog(now, p as usize, &mut self.events),
            Event::Timer(c, server) => self.timer(c as usize, server),
            Event::App(c, what) => self.app_turn(c as usize, what),
            Event::Line(p, bps) => self.network.set_line(p as usize, bps),
            Event::Route(r, why) => self.route_wakes(r as usize, why),
            Event::Delay(p, delay) => self.network.set_delay(p as usize, delay),
            Event::Autorate(i) => self.steer(i as usize),
            Event::Steady => {
                self.network.begin_steady();
                self.routes.iter_mut().for_each(dtp::Route::begin_steady);
                for i in 0..self.conversations.len() {
                    self.mark_steady(i);
                }
            }
            Event::Sample => {
                self.network.sample(now);
                self.routes.iter_mut().for_each(|r| r.sample(now));
                for i in 0..self.conversations.len() {
                    self.sample(i);
                }
                self.records.iter_mut().for_each(|r| r.tick());
                self.events.at(now + self.scenario.interval, Event::Sample);
            }
        }
    }

    /// A frame has reached its host.
    fn receive(&mut self, frame: Frame) {
        let now = self.now;
        let tag = self.network.store.heads.tag(frame.slot());
        let c = tag.flow as usize;
        if tag.corrupted {
            self.network.store.pool.give(frame);
            return;
        }
        if let App::Dtp { route, flow, .. } = self.conversations[c].app {
            self.dtp_receive(route, flow, frame);
            return;
        }
        let len = self.network.store.pool[&frame].len;
        let bytes = self.network.store.bytes(&frame);
        if self.conversations[c].tcp.is_none() {
            let echo = frames::read_echo(bytes);
            self.network.store.pool.give(frame);
            self.datagram(c, tag, len, echo);
            return;
        }
        let said = frames::read_segment(bytes);
        self.network.store.pool.give(frame);
        let (Some(said), Some(connection)) = (said, &mut self.conversations[c].tcp) else { return };
        let server = tag.up;
        let end = &mut connection.ends[usize::from(server)];
        let (phase, before) = (end.phase, end.rx.next);
        let rtt = end.on_segment(now, &said);
        let (established, received) = (end.phase != phase, end.rx.next - before);
        if let Some(rtt) = rtt {
            let record = self.conversations[c].record;
            self.records[record].rtt(now, rtt);
        }
        if established || received > 0 || said.len == 0 {
            self.app_heard(c, server, established, received);
        }
        self.pump(c, server);
    }

    fn timer(&mut self, c: usize, server: bool) {
        let now = self.now;
        let Some(connection) = &mut self.conversations[c].tcp else { return };
        let end = &mut connection.ends[usize::from(server)];
        if end.filed != now {
            return;
        }
        end.filed = Instant::NEVER;
        if end.next_timer() <= now {
            end.on_timer(now);
        }
        self.pump(c, server);
    }

    /// Sends whatever an end may send, and files its next timer.
    fn pump(&mut self, c: usize, server: bool) {
        let now = self.now;
        let conversation = &mut self.conversations[c];
        let entry = conversation.entry[usize::from(server)];
        let Some(connection) = &mut conversation.tcp else { return };
        let end = &mut connection.ends[usize::from(server)];
        let template = &connection.templates[usize::from(server)];
        while let Some(said) = end.next_segment(now) {
            let mut out = blank();
            let (head, len) = template.segment(&said, &mut out);
            let frame = self.network.store.make(now, &out[..head], len, c as u32, !server);
            self.network.arrive(now, entry, frame, &mut self.events);
        }
        let due = end.next_timer().max(now + 1);
        if due < end.filed && due != Instant::NEVER {
            end.filed = due;
            self.events.at(due, Event::Timer(c as u32, server));
        }
        // After its timer, or after a call in vain too many.
        if end.phase == tcp::Phase::Aborted {
            self.given_up(c);
        }
    }

    /// Sends a datagram or an echo.
    fn send_plain(&mut self, c: usize, from_server: bool, data: u32, ds: u8, echo: Option<(u16, bool)>, sent: Instant) {
        let now = self.now;
        let conversation = &self.conversations[c];
        let Some(templates) = &conversation.plain else { return };
        let template = &templates[usize::from(from_server)];
        let mut out = blank();
        let (head, len) = match echo {
            Some((sequence, reply)) => template.echo(reply, sequence, data, ds, &mut out),
            None => template.datagram(data, ds, &mut out),
        };
        let entry = conversation.entry[usize::from(from_server)];
        let frame = self.network.store.make(now, &out[..head], len, c as u32, !from_server);
        self.network.store.heads.set_sent(frame.slot(), sent);
        self.network.arrive(now, entry, frame, &mut self.events);
    }

    fn sender_end(&mut self, c: usize) -> Option<&mut Endpoint> {
        let conversation = &mut self.conversations[c];
        let server = conversation.app.server_sends();
        conversation.tcp.as_mut().map(|t| &mut t.ends[usize::from(server)])
    }

    fn sample(&mut self, c: usize) {
        let record = self.conversations[c].record;
        let now = self.now;
        if let Some(end) = self.sender_end(c) {
            let point = Point {
                at: now.since(ORIGIN),
                cwnd: end.tx.window.cwnd,
                in_flight: end.tx.board.in_flight(),
                srtt: end.tx.rtt.smoothed(),
                timeout: end.tx.rtt.timeout(),
                retransmissions: end.tx.retransmissions,
                inner: end.tx.inner(),
            };
            self.records[record].point(point);
        }
    }

    fn mark_steady(&mut self, c: usize) {
        let record = self.conversations[c].record;
        let figures = self.sender_end(c).map(|e| (e.tx.retransmissions, e.tx.delivered(), e.tx.echoed));
        self.records[record].begin_steady(self.now, figures.unwrap_or_default());
    }

    fn finish(mut self) -> Outcome {
        for c in 0..self.conversations.len() {
            let record = self.conversations[c].record;
            let (phase, figures) = match self.sender_end(c) {
                Some(e) => (Some(e.phase), (e.tx.retransmissions, e.tx.timeouts, e.tx.delivered(), e.tx.echoed)),
                None => (None, (0, 0, 0, 0)),
            };
            self.records[record].finish(phase, figures);
        }
        let now = self.now;
        Outcome {
            seed: self.seed,
            elapsed: now.since(ORIGIN),
            events: self.events.taken(),
            frames: self.network.handled,
            origin: ORIGIN,
            conversations: self.conversations.iter().map(|c| self.records[c.record].name().to_string()).collect(),
            noise: None,
            flows: self.records.into_iter().map(|r| r.result(now)).collect(),
            ports: self.network.into_gauges(now),
            paths: self.routes.into_iter().map(dtp::Route::result).collect(),
            autorate: self.pilots.into_iter().map(autorate::Steering::into_log).collect(),
            scenario: self.scenario,
        }
    }
}

/// The same moment, as ns after the beginning.
pub fn elapsed(at: Instant) -> u64 {
    at.since(ORIGIN)
}

fn swapped(ends: Ends) -> Ends {
    Ends { src: ends.dst, dst: ends.src, sport: ends.dport, dport: ends.sport }
}

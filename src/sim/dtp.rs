//! Hosts of a layer that speaks multi-bit ECN: senders with one controller for each path, receivers
//! that report (`spec/mb-ecn.md` §6). What they do is in `crate::dtp`; here it gets time and frames.

use std::net::IpAddr;

use super::applications::{App, turn};
use super::{Event, ORIGIN, Simulation};
use crate::dtp::frame::{HEADER, Header, Message};
use crate::dtp::{Codes, Path, Receiver, Tuning, UPDATE, Writer, reliable};
use crate::mark::mb_ecn::endpoint::FlowUpdate;
use crate::pool::Frame;
use crate::scenario::result::{PathPoint, PathResult};
use crate::scenario::{self, Dtp, Scenario};
use crate::sim::network::Next;
use crate::time::Instant;

/// The shortest frame of Ethernet, without its check sequence.
const SHORTEST: u32 = 60;
/// The longest frame: all headers and the largest payload that a scenario may ask for.
const LONGEST: usize = HEADER + reliable::HEADER + 1472;

/// Why a route wakes up.
pub(super) mod wake {
    /// A frame may leave, or a reliable flow is out of patience.
    pub(in crate::sim) const SEND: u32 = 0;
    /// A heartbeat is due.
    pub(in crate::sim) const BEAT: u32 = 1;
}

/// A flow over a route.
struct Flow {
    conversation: usize,
    payload: u32,
    eid: u64,
    running: bool,
    /// Of a flow with a rate of its own: the time between two packets, and who writes them once it runs.
    paced: Option<(u64, Writer)>,
    reliable: Option<(reliable::Sender, reliable::Receiver)>,
}

impl Flow {
    fn frame_len(&self) -> u32 {
        let extra = if self.reliable.is_some() { reliable::HEADER } else { 0 };
        ((HEADER + extra) as u32 + self.payload).max(SHORTEST)
    }
}

/// A path and both its ends.
pub(super) struct Route {
    key: (IpAddr, IpAddr, u8),
    tuning: Tuning,
    path: Path,
    receiver: Receiver,
    flows: Vec<Flow>,
    /// Headers toward the destination, and back.
    headers: [Header; 2],
    /// Where frames of the source and of the destination enter the network.
    entry: [Next; 2],
    up: bool,
    /// The next time that it is filed to wake up and send.
    filed: Instant,
    /// When the destination does not answer, ns after the beginning.
    silent: Option<(u64, u64)>,
    measured: PathResult,
}

impl Route {
    /// Starts what counts from the steady part on.
    pub(super) fn begin_steady(&mut self) {
        self.measured.codes = Codes::default();
    }

    /// Notes the state of the controller.
    pub(super) fn sample(&mut self, now: Instant) {
        let c = &self.path.controller;
        let (rate, ece, capacity, regime) = (c.rate(), c.ece(), c.capacity(), c.regime());
        self.measured.points.push(PathPoint { at: now.since(ORIGIN), rate, ece, capacity, regime });
    }

    pub(super) fn result(self) -> PathResult {
        self.measured
    }

    fn answers(&self, now: Instant) -> bool {
        let at = now.since(ORIGIN);
        self.silent.is_none_or(|(from, until)| !(from..until).contains(&at))
    }
}

fn mac(address: IpAddr) -> [u8; 6] {
    let [a, b, c, d] = dtp_address(address);
    [2, 0, a, b, c, d]
}

fn dtp_address(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => v6.octets().last_chunk().copied().unwrap_or_default(),
    }
}

/// Adds a flow to the route it takes, which is made if it is the first; gives both numbers.
///
/// # Errors
/// If the route has another controller already.
pub(super) fn add(
    s: &mut Simulation,
    flow: &scenario::Flow,
    dtp: &Dtp,
    ends: [usize; 2],
    entries: [Next; 2],
    random: u32,
) -> Result<(usize, usize), String> {
    let scenario: &Scenario = &s.scenario;
    let [source, destination] = if dtp.up { ends } else { [ends[1], ends[0]] };
    let (from, to) = (&scenario.hosts[source], &scenario.hosts[destination]);
    let qos = flow.dscp.min(2);
    let key = (from.address, to.address, qos);
    let tuning =
        Tuning::named(&dtp.controller).ok_or_else(|| format!("there is no controller \"{}\"", dtp.controller))?;
    let r = match s.routes.iter().position(|r| r.key == key) {
        Some(r) if s.routes[r].tuning != tuning => {
            return Err(format!("flow \"{}\": its path has another controller than \"{}\"", flow.name, tuning.name));
        }
        Some(r) => r,
        None => {
            let header = |src, dst| Header {
                dst: mac(dst),
                src: mac(src),
                endpoint: 2,
                address: dtp_address(dst),
                qos,
                ecn: 0,
                cap: 0,
                eid: 0,
            };
            let measured = PathResult {
                name: format!("{}-{}", from.name, to.name),
                flows: Vec::new(),
                points: Vec::new(),
                codes: Codes::default(),
                updates: 0,
            };
            s.routes.push(Route {
                key,
                tuning,
                path: Path::new(tuning, ORIGIN),
                receiver: Receiver::new(tuning.window),
                flows: Vec::new(),
                headers: [header(from.address, to.address), header(to.address, from.address)],
                entry: if dtp.up { entries } else { [entries[1], entries[0]] },
                up: dtp.up,
                filed: Instant::NEVER,
                silent: None,
                measured,
            });
            s.routes.len() - 1
        }
    };
    let (conversation, record) = (s.conversations.len(), s.records.len() - 1);
    let route = &mut s.routes[r];
    route.silent = route.silent.or(dtp.silent);
    route.measured.flows.push(record);
    let number = route.path.add();
    route.flows.push(Flow {
        conversation,
        payload: dtp.packet,
        eid: Header::flow_eid(number as u32, random),
        running: false,
        paced: dtp.rate.map(|rate| scenario::gap(rate, dtp.packet)).map(|gap| (gap, Writer::new(gap, Instant::NEVER))),
        reliable: dtp.reliable.then(Default::default),
    });
    Ok((r, number))
}

impl Simulation {
    /// A flow's turn.
    pub(super) fn dtp_turn(&mut self, r: usize, f: usize, what: u32) {
        let now = self.now;
        let route = &mut self.routes[r];
        let first = !route.flows.iter().any(|f| f.running);
        let flow = &mut route.flows[f];
        let c = flow.conversation;
        match what {
            turn::START => {
                flow.running = true;
                if first {
                    self.events.at(now, Event::Route(r as u32, wake::BEAT));
                }
            }
            turn::STOP => {
                flow.running = false;
                let record = self.conversations[c].record;
                self.records[record].stopped(now);
            }
            _ => {}
        }
        if let (true, Some((gap, writer))) = (flow.running, &mut flow.paced) {
            if what == turn::START {
                *writer = Writer::new(*gap, now);
            }
            writer.advance(now);
            self.events.at(writer.next(), Event::App(c as u32, turn::NEXT));
        }
        self.offer(r, f);
        self.dtp_pump(r);
    }

    /// Tells the scheduler whether a flow has something to send.
    fn offer(&mut self, r: usize, f: usize) {
        let now = self.now;
        let route = &mut self.routes[r];
        let flow = &mut route.flows[f];
        let window = flow.reliable.as_mut().is_none_or(|(sender, _)| sender.may(now));
        let has = flow.running && window && flow.paced.is_none_or(|(_, writer)| writer.has());
        let head = has.then(|| flow.frame_len());
        route.path.offer(now, f, head);
    }

    /// A route wakes up.
    pub(super) fn route_wakes(&mut self, r: usize, why: u32) {
        let now = self.now;
        if why == wake::BEAT {
            self.beat(r);
            return;
        }
        let route = &mut self.routes[r];
        if route.filed != now {
            return;
        }
        route.filed = Instant::NEVER;
        for f in 0..self.routes[r].flows.len() {
            if self.routes[r].flows[f].reliable.is_some() {
                self.offer(r, f);
            }
        }
        self.dtp_pump(r);
    }

    fn beat(&mut self, r: usize) {
        let now = self.now;
        let route = &mut self.routes[r];
        if !route.flows.iter().any(|f| f.running) {
            return;
        }
        if let Some(n) = route.path.controller.heartbeat(now) {
            self.send_message(r, false, Message::Heartbeat(n));
        }
        self.events.at(now + UPDATE, Event::Route(r as u32, wake::BEAT));
    }

    /// Sends what the path lets go, and files when it wakes up again.
    fn dtp_pump(&mut self, r: usize) {
        let now = self.now;
        while let Some(f) = self.routes[r].path.send(now) {
            self.send_data(r, f);
            self.offer(r, f);
        }
        let route = &mut self.routes[r];
        let patience = route.flows.iter().filter(|f| f.running).filter_map(|f| Some(f.reliable.as_ref()?.0.timer()));
        let due = patience.chain(route.path.due()).min().unwrap_or(Instant::NEVER).max(now + 1);
        if due < route.filed {
            route.filed = due;
            self.events.at(due, Event::Route(r as u32, wake::SEND));
        }
    }

    fn send_data(&mut self, r: usize, f: usize) {
        let now = self.now;
        let route = &mut self.routes[r];
        let flow = &mut route.flows[f];
        let mut bytes = [0; LONGEST];
        if let Some((sender, _)) = &mut flow.reliable {
            let header = reliable::header(sender.send(now), 0, true);
            bytes[HEADER..HEADER + reliable::HEADER].copy_from_slice(&header);
        }
        let len = flow.frame_len();
        let header = Header { eid: flow.eid, ..route.headers[0] };
        bytes[..HEADER].copy_from_slice(&header.write((len as usize - HEADER) as u16));
        if let Some((_, writer)) = &mut flow.paced {
            writer.sent();
        }
        let (c, up, entry) = (flow.conversation, route.up, route.entry[0]);
        let record = self.conversations[c].record;
        self.records[record].sent();
        self.emit(&bytes[..len as usize], c, up, entry);
    }

    fn send_message(&mut self, r: usize, back: bool, message: Message) {
        let route = &self.routes[r];
        let bytes = message.frame(&route.headers[usize::from(back)]);
        let (c, up, entry) = (route.flows[0].conversation, route.up != back, route.entry[usize::from(back)]);
        self.emit(&bytes, c, up, entry);
    }

    fn emit(&mut self, bytes: &[u8], c: usize, up: bool, entry: Next) {
        let now = self.now;
        let frame = self.network.store.make(now, bytes, bytes.len() as u32, c as u32, up);
        self.network.arrive(now, entry, frame, &mut self.events);
    }

    /// A frame reached an end of a route.
    pub(super) fn dtp_receive(&mut self, r: usize, f: usize, frame: Frame) {
        let tag = self.network.store.heads.tag(frame.slot());
        let bytes = self.network.store.bytes(&frame);
        let read = Header::read(bytes).map(|(header, _)| (header, Message::read(&bytes[HEADER..])));
        let numbers = bytes.get(HEADER..).and_then(reliable::read);
        self.network.store.pool.give(frame);
        let Some((header, message)) = read else { return };
        match (tag.up == self.routes[r].up, header.eid == 0) {
            (true, true) => {
                if let Some(Message::Heartbeat(n)) = message.filter(|_| self.routes[r].answers(self.now)) {
                    self.send_message(r, true, Message::Alive(n));
                }
            }
            (true, false) => self.data_came(r, f, &header, tag.sent, numbers),
            (false, true) => self.message_came(r, message),
            (false, false) => {
                let (now, flow) = (self.now, &mut self.routes[r].flows[f]);
                if let (Some((sender, _)), Some((_, acknowledged, false))) = (&mut flow.reliable, numbers) {
                    sender.acknowledged(now, acknowledged);
                }
                self.offer(r, f);
                self.dtp_pump(r);
            }
        }
    }

    fn data_came(&mut self, r: usize, f: usize, header: &Header, sent: Instant, numbers: Option<(u32, u32, bool)>) {
        let now = self.now;
        let route = &mut self.routes[r];
        route.measured.codes.came(header.ecn, header.cap);
        let report = route.receiver.push(now, header.ecn, header.cap).filter(|_| route.answers(now));
        route.measured.updates += u64::from(report.is_some());
        let flow = &mut route.flows[f];
        let c = flow.conversation;
        let (mut fresh, mut acknowledge) = (1, None);
        if let (Some((_, receiver)), Some((sequence, _, true))) = (&mut flow.reliable, numbers) {
            (fresh, acknowledge) = receiver.push(sequence);
        }
        let payload = u64::from(flow.payload) * u64::from(fresh);
        let eid = flow.eid;
        let record = &mut self.records[self.conversations[c].record];
        record.came();
        record.received(payload);
        record.rtt(now, now.since(sent));
        if let Some(n) = acknowledge {
            let route = &self.routes[r];
            let mut bytes = [0; SHORTEST as usize];
            let header = Header { eid, ..route.headers[1] };
            bytes[..HEADER].copy_from_slice(&header.write(reliable::HEADER as u16));
            bytes[HEADER..HEADER + reliable::HEADER].copy_from_slice(&reliable::header(0, n, false));
            let (up, entry) = (!route.up, route.entry[1]);
            self.emit(&bytes, c, up, entry);
        }
        if let Some(report) = report {
            self.send_message(r, true, Message::Update(FlowUpdate { eid, ece: report.ece, cap: report.cap }));
        }
    }

    fn message_came(&mut self, r: usize, message: Option<Message>) {
        let now = self.now;
        let route = &mut self.routes[r];
        match message {
            Some(Message::Update(update)) => route.path.controller.report(now, update.ece, update.cap),
            Some(Message::Alive(n)) => route.path.controller.alive(now, n),
            _ => return,
        }
        self.dtp_pump(r);
    }
}

/// What a flow over a route is to the rest.
pub(super) fn app(route: usize, flow: usize, up: bool) -> App {
    App::Dtp { route, flow, up }
}

//! What the hosts do: bulk transfers, questions and answers, pages, datagrams, echoes.

use super::frames::Tag;
use super::{Event, Simulation};
use crate::scenario::pages;
use crate::time::Instant;

/// An application's turns, as numbered in [`Event::App`].
pub(super) mod turn {
    /// It begins.
    pub(in crate::sim) const START: u32 = 0;
    /// It ends.
    pub(in crate::sim) const STOP: u32 = 1;
    /// Whatever it waits for.
    pub(in crate::sim) const NEXT: u32 = 2;
}

/// A question under way: both ends count bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchange {
    /// Bytes that the client has written so far.
    asked: u64,
    /// Bytes that the server will have written when it has answered.
    answered: u64,
    /// Bytes of the answer that the server has not yet begun; zero if there is none.
    owed: u64,
    /// When the question was asked.
    since: Option<Instant>,
}

/// An application and its state.
#[derive(Clone, Debug)]
pub(super) enum App {
    /// Writes as much as it may.
    Bulk { up: bool, size: Option<u64>, exchange: Exchange },
    /// Asks, waits, thinks.
    Request { request: u64, response: u64, think: u64, exchange: Exchange },
    /// One connection of pages.
    Web { web: usize, exchange: Exchange },
    /// Datagrams, `gap` ns apart, in bursts if `phases` has mean times on and off.
    Datagrams { up: bool, packet: u32, gap: u64, ds: u8, phases: Option<(u64, u64)>, until: Instant, running: bool },
    /// A flow over a path of a layer.
    Dtp { route: usize, flow: usize, up: bool },
    /// Echo requests.
    Ping { interval: u64, size: u32, ds: u8, sequence: u16 },
}

/// Several connections that fetch pages together.
pub(super) struct Web {
    /// The conversations.
    pub(super) connections: Vec<usize>,
    /// Mean reading time, ns.
    pub(super) think: u64,
    waiting: Vec<u64>,
    outstanding: u32,
    began: Instant,
    running: bool,
}

/// The question for a file, bytes.
const FILE_REQUEST: u64 = 80;

impl App {
    /// Whether it is the server's end that sends the bulk of the bytes.
    pub(super) fn server_sends(&self) -> bool {
        match self {
            App::Bulk { up, .. } | App::Datagrams { up, .. } | App::Dtp { up, .. } => !up,
            App::Request { .. } | App::Web { .. } => true,
            App::Ping { .. } => false,
        }
    }

    fn exchange(&mut self) -> Option<&mut Exchange> {
        match self {
            App::Bulk { up: false, size: Some(_), exchange }
            | App::Request { exchange, .. }
            | App::Web { exchange, .. } => Some(exchange),
            _ => None,
        }
    }
}

impl Web {
    pub(super) fn new(think: u64) -> Self {
        Web {
            connections: Vec::new(),
            think,
            waiting: Vec::new(),
            outstanding: 0,
            began: Instant::ZERO,
            running: false,
        }
    }
}

impl Simulation {
    /// An application's turn.
    pub(super) fn app_turn(&mut self, c: usize, what: u32) {
        let now = self.now;
        match (&mut self.conversations[c].app, what) {
            (App::Datagrams { running, .. }, turn::STOP) => {
                *running = false;
                let record = self.conversations[c].record;
                self.records[record].stopped(now);
            }
            (App::Datagrams { running, .. }, turn::START) => {
                *running = true;
                self.datagrams(c);
            }
            (App::Datagrams { .. }, _) => self.datagrams(c),
            (App::Dtp { route, flow, .. }, _) => {
                let (route, flow) = (*route, *flow);
                self.dtp_turn(route, flow, what);
            }
            (App::Ping { interval, size, ds, sequence }, _) => {
                let (interval, size, ds, n) = (*interval, *size, *ds, *sequence);
                *sequence = n.wrapping_add(1);
                let record = self.conversations[c].record;
                self.records[record].sent();
                self.send_plain(c, false, size, ds, Some((n, false)), now);
                self.events.at(now + interval, Event::App(c as u32, turn::NEXT));
            }
            (_, turn::START) => {
                if let Some(connection) = &mut self.conversations[c].tcp {
                    connection.ends[0].connect(now);
                }
                self.pump(c, false);
            }
            (_, turn::STOP) => {
                let record = self.conversations[c].record;
                self.records[record].stopped(now);
                if let App::Web { web, .. } = self.conversations[c].app {
                    self.webs[web].running = false;
                }
                if let Some(connection) = &mut self.conversations[c].tcp {
                    connection.ends.iter_mut().for_each(super::Endpoint::stop);
                }
            }
            (App::Request { request, response, .. }, _) => {
                let (request, response) = (*request, *response);
                self.ask(c, request, response);
            }
            (App::Web { web, .. }, _) => {
                let web = *web;
                self.page(web);
            }
            (App::Bulk { .. }, _) => {}
        }
    }

    /// The client asks for `response` bytes.
    fn ask(&mut self, c: usize, request: u64, response: u64) {
        let now = self.now;
        if let Some(exchange) = self.conversations[c].app.exchange() {
            exchange.asked += request;
            exchange.owed = response;
            exchange.since = Some(now);
        }
        self.write(c, false, request);
    }

    fn write(&mut self, c: usize, server: bool, bytes: u64) {
        let now = self.now;
        if let Some(connection) = &mut self.conversations[c].tcp {
            connection.ends[usize::from(server)].write(now, bytes);
        }
        self.pump(c, server);
    }

    /// An end was established, or took in `received` bytes in order, or was acknowledged.
    pub(super) fn app_heard(&mut self, c: usize, server: bool, established: bool, received: u64) {
        let toward = self.conversations[c].app.server_sends() != server;
        if received > 0 && toward {
            let record = self.conversations[c].record;
            self.records[record].received(received);
        }
        if established {
            self.app_begins(c, server);
        }
        if received > 0 {
            self.app_received(c, server);
        }
    }

    fn app_begins(&mut self, c: usize, server: bool) {
        match self.conversations[c].app {
            App::Bulk { up, size: None, .. } if up != server => self.write(c, server, u64::MAX),
            App::Bulk { up: true, size: Some(size), .. } if !server => self.write(c, server, size),
            App::Bulk { up: false, size: Some(size), .. } if !server => self.ask(c, FILE_REQUEST, size),
            App::Request { request, response, .. } if !server => self.ask(c, request, response),
            App::Web { web, .. } if !server && self.webs[web].connections[0] == c => {
                self.webs[web].running = true;
                self.page(web);
            }
            _ => {}
        }
    }

    fn app_received(&mut self, c: usize, server: bool) {
        let now = self.now;
        let conversation = &mut self.conversations[c];
        let Some(connection) = &conversation.tcp else { return };
        let got = connection.ends[usize::from(server)].rx.next;
        if let App::Bulk { up: true, size: Some(size), .. } = conversation.app {
            if server && got >= size {
                self.completed(c);
            }
            return;
        }
        let Some(exchange) = conversation.app.exchange() else { return };
        if server {
            if got >= exchange.asked && exchange.owed > 0 {
                let owed = std::mem::take(&mut exchange.owed);
                exchange.answered += owed;
                self.write(c, true, owed);
            }
        } else if exchange.owed == 0 && got >= exchange.answered {
            if let Some(since) = exchange.since.take() {
                self.answered(c, now.since(since));
            }
        }
    }

    /// The client has its answer, `took` ns after it asked.
    fn answered(&mut self, c: usize, took: u64) {
        let now = self.now;
        let record = self.conversations[c].record;
        match self.conversations[c].app {
            App::Bulk { .. } => self.completed(c),
            App::Request { think, .. } => {
                self.records[record].time(took);
                let pause = self.conversations[c].random.exponential(think);
                self.events.at(now + pause.max(1), Event::App(c as u32, turn::NEXT));
            }
            App::Web { web, .. } => {
                self.webs[web].outstanding -= 1;
                if self.fetch(web, c) {
                    return;
                }
                if self.webs[web].outstanding == 0 {
                    self.records[record].time(now.since(self.webs[web].began));
                    let think = self.webs[web].think;
                    let first = self.webs[web].connections[0];
                    let pause = self.conversations[first].random.exponential(think);
                    self.events.at(now + pause.max(1), Event::App(first as u32, turn::NEXT));
                }
            }
            _ => {}
        }
    }

    fn completed(&mut self, c: usize) {
        let record = self.conversations[c].record;
        if self.records[record].complete(self.now) {
            self.open -= 1;
        }
    }

    /// An end of a connection gave up: what was to be transferred never will be.
    pub(super) fn given_up(&mut self, c: usize) {
        let record = self.conversations[c].record;
        let sized = matches!(self.conversations[c].app, App::Bulk { size: Some(_), .. });
        if self.records[record].give_up(self.now) && sized {
            self.open -= 1;
        }
    }

    /// A page begins: its objects wait, and every connection that is up takes one.
    fn page(&mut self, web: usize) {
        if !self.webs[web].running {
            return;
        }
        let first = self.webs[web].connections[0];
        let random = &mut self.conversations[first].random;
        self.webs[web].waiting = pages::objects(random);
        self.webs[web].began = self.now;
        let connections = self.webs[web].connections.clone();
        for c in connections {
            self.fetch(web, c);
        }
    }

    fn fetch(&mut self, web: usize, c: usize) -> bool {
        use super::tcp::Phase;
        let up = self.conversations[c].tcp.as_ref().is_some_and(|t| t.ends[0].phase == Phase::Established);
        let running = self.webs[web].running && up;
        let Some(size) = running.then(|| self.webs[web].waiting.pop()).flatten() else { return false };
        self.webs[web].outstanding += 1;
        self.ask(c, pages::QUESTION, size);
        true
    }

    /// Sends a datagram and plans the next.
    fn datagrams(&mut self, c: usize) {
        let now = self.now;
        let conversation = &mut self.conversations[c];
        let App::Datagrams { up, packet, gap, ds, phases, until, running } = &mut conversation.app else { return };
        if !*running {
            return;
        }
        let (up, packet, ds) = (*up, *packet, *ds);
        let mut next = now + *gap;
        if let Some((on, off)) = *phases {
            if *until == Instant::ZERO {
                *until = now + conversation.random.exponential(on);
            }
            if next > *until {
                next = *until + conversation.random.exponential(off).max(*gap);
                *until = next + conversation.random.exponential(on);
            }
        }
        let record = conversation.record;
        self.records[record].sent();
        self.send_plain(c, !up, packet, ds, None, now);
        self.events.at(next, Event::App(c as u32, turn::NEXT));
    }

    /// A datagram or an echo reached its host.
    pub(super) fn datagram(&mut self, c: usize, tag: Tag, len: u32, echo: Option<(u16, bool)>) {
        let now = self.now;
        let record = self.conversations[c].record;
        match (&self.conversations[c].app, echo) {
            (App::Ping { size, ds, .. }, Some((n, false))) => {
                let (size, ds) = (*size, *ds);
                self.send_plain(c, true, size, ds, Some((n, true)), tag.sent);
            }
            (App::Ping { .. }, _) => {
                self.records[record].came();
                self.records[record].rtt(now, now.since(tag.sent));
            }
            _ => {
                self.records[record].came();
                self.records[record].received(u64::from(len.saturating_sub(42)));
                self.records[record].rtt(now, now.since(tag.sent));
            }
        }
    }
}

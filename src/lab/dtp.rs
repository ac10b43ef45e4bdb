//! Both ends of paths that listen to multi-bit ECN, live: data-transfer frames over packet sockets
//! (`spec/mb-ecn.md` §6). What they do is in [`crate::dtp`], as in the simulator; here it gets the
//! machine's clock and a network interface. [`load`] is what `weir load` makes of them, `flow` what the
//! lab does.

#[cfg(feature = "xdp")]
pub mod flow;
pub mod load;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use socket2::Socket;

use super::Error;
use crate::dtp::frame::{HEADER, Header, Message};
use crate::dtp::receiver::Window;
use crate::dtp::{Controller, Path, Receiver, Tuning, UPDATE, Writer, reliable};
use crate::mark::mb_ecn::dtp::Layout;
use crate::mark::mb_ecn::endpoint::FlowUpdate;
use crate::run::nic::{IfName, NicFacts};
use crate::time::{Instant, MILLISECOND};

/// The endpoint in the Ethernet layer that all use.
const ENDPOINT: u16 = 2;
/// Room for the largest frame.
const ROOM: usize = 2048;
/// The shortest frame of Ethernet, without its check sequence.
const SHORTEST: usize = 60;
/// A socket that hears nothing looks this often whether it is over.
const LOOK: Duration = Duration::from_millis(100);
/// Where a data frame tells when it was sent, in ns of the run: behind the header of a reliable flow,
/// whether there is one or not.
const STAMP: usize = HEADER + reliable::HEADER;
/// The controllers' clock at the begin, far from zero.
const ORIGIN: Instant = Instant::from_nanos(1 << 40);
/// Bytes of payload that fit into a frame with all headers and an MTU of 1500.
pub const LONGEST: u32 = (1514 - HEADER - reliable::HEADER) as u32;

/// What an end goes by.
pub trait Time: Send + Sync {
    /// ns since the run began.
    fn now(&self) -> u64;
    /// Whether all shall end.
    fn is_over(&self) -> bool;
}

/// An interface, as one who has an address there sees it. The DTP address is the last four bytes of the
/// MAC address; so several can share an interface, and the far end knows whom to answer.
pub struct Port {
    socket: Socket,
    interface: IfName,
    mac: [u8; 6],
}

/// Reads a MAC address.
///
/// # Errors
/// If it is none.
pub fn mac(word: &str) -> Result<[u8; 6], String> {
    let bytes: Result<Vec<u8>, _> = word.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
    let bytes = bytes.ok().and_then(|b| b.try_into().ok());
    bytes.ok_or_else(|| format!("\"{word}\" is no MAC address such as 02:00:00:00:00:01"))
}

/// The MAC address of an interface.
///
/// # Errors
/// If there is no such interface, or it has none.
pub fn mac_of(interface: &IfName) -> Result<[u8; 6], Error> {
    let facts = NicFacts::inspect(interface).map_err(|e| Error::new(interface, e))?;
    mac(&facts.address).map_err(|why| Error::new(interface, why))
}

impl Port {
    /// Hears from now on what is sent to `mac` at the interface.
    ///
    /// # Errors
    /// What the kernel says of the interface or the socket.
    pub fn open(interface: &IfName, mac: [u8; 6]) -> Result<Port, Error> {
        let what = |doing: &str| format!("{interface}: {doing}");
        let facts = NicFacts::inspect(interface).map_err(|e| Error::new(what("looking at it"), e))?;
        let ethertype = Layout::default().ethertype;
        let socket = crate::sys::packet_socket(facts.index, ethertype);
        let socket = Socket::from(socket.map_err(|e| Error::new(what("a packet socket"), e))?);
        socket.set_read_timeout(Some(LOOK)).map_err(|e| Error::new(what("a packet socket"), e))?;
        Ok(Port { socket, interface: interface.clone(), mac })
    }

    /// The next frame for it, if one comes in time.
    fn hear(&self, room: &mut [u8; ROOM]) -> Option<(Header, usize)> {
        let n = (&self.socket).read(room).ok()?;
        let (header, _) = Header::read(&room[..n])?;
        (header.dst == self.mac).then_some((header, n))
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        match (&self.socket).write_all(bytes) {
            // A full queue on the way out is a loss like any other.
            Err(e) if e.raw_os_error() != Some(libc::ENOBUFS) && e.kind() != io::ErrorKind::WouldBlock => {
                Err(Error::new(format_args!("{}: sending", self.interface), e))
            }
            _ => Ok(()),
        }
    }

    fn header(&self, to: [u8; 6], qos: u8, eid: u64) -> Header {
        let address = [to[2], to[3], to[4], to[5]];
        Header { dst: to, src: self.mac, endpoint: ENDPOINT, address, qos, ecn: 0, cap: 0, eid }
    }
}

/// The way of a source to a destination: all flows on it share a controller.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// MAC address of the destination.
    pub to: [u8; 6],
    /// QoS cube, 0…2.
    pub qos: u8,
    /// The controller.
    pub tuning: Tuning,
    /// Time between two looks at it, ns.
    pub look: u64,
}

/// A flow of a source.
#[derive(Clone, Copy, Debug)]
pub struct Outflow {
    /// Its EID at the destination.
    pub eid: u64,
    /// When it starts, ns after the begin.
    pub start: u64,
    /// When it stops.
    pub stop: u64,
    /// Bytes of payload in a frame.
    pub payload: u16,
    /// Time between two packets of its application, ns; `None` for as much as the path allows.
    pub gap: Option<u64>,
    /// With acknowledgements and retransmission.
    pub reliable: bool,
}

/// What a source did.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Frames by flow.
    pub frames: Vec<u64>,
    /// Of those, what was sent again.
    pub retransmissions: Vec<u64>,
    /// Flow updates that came.
    pub updates: u64,
    /// Round trip of the last heartbeat, ns.
    pub rtt: u64,
}

/// A flow under way.
pub struct Flow {
    plan: Outflow,
    reliable: Option<reliable::Sender>,
    writer: Option<Writer>,
    frames: u64,
}

impl Flow {
    fn of(plan: &Outflow) -> Flow {
        Flow {
            plan: *plan,
            reliable: plan.reliable.then(Default::default),
            writer: plan.gap.map(|gap| Writer::new(gap, ORIGIN + plan.start)),
            frames: 0,
        }
    }

    /// Frames that were sent again.
    pub fn retransmissions(&self) -> u64 {
        self.reliable.as_ref().map_or(0, |r| r.retransmissions)
    }

    fn len(&self) -> usize {
        let extra = if self.reliable.is_some() { reliable::HEADER } else { 0 };
        (HEADER + extra + usize::from(self.plan.payload)).max(SHORTEST)
    }

    fn runs(&self, at: u64) -> bool {
        (self.plan.start..self.plan.stop).contains(&at)
    }

    /// The length of its next frame, if it may send.
    fn head(&mut self, at: u64) -> Option<u32> {
        let now = ORIGIN + at;
        let written = self.writer.as_mut().is_none_or(|w| {
            w.advance(now);
            w.has()
        });
        let may = self.runs(at) && written && self.reliable.as_mut().is_none_or(|r| r.may(now));
        may.then(|| self.len() as u32)
    }

    /// Writes its next frame and gives the length.
    fn frame(&mut self, header: &Header, at: u64, bytes: &mut [u8; ROOM]) -> usize {
        let len = self.len();
        bytes[..HEADER].copy_from_slice(&header.write((len - HEADER) as u16));
        if let Some(r) = &mut self.reliable {
            bytes[HEADER..STAMP].copy_from_slice(&reliable::header(r.send(ORIGIN + at), 0, true));
        }
        bytes[STAMP..STAMP + 8].copy_from_slice(&at.to_be_bytes());
        if let Some(w) = &mut self.writer {
            w.sent();
        }
        self.frames += 1;
        len
    }
}

/// Passes on what comes to a source from its destination, until it is over.
fn listen(port: &Port, way: &Way, eids: &[u64], over: &AtomicBool, told: &Sender<(u64, Vec<u8>)>) {
    let mut room = [0; ROOM];
    while !over.load(Ordering::Relaxed) {
        let Some((header, n)) = port.hear(&mut room) else { continue };
        if header.src == way.to && header.qos == way.qos && (header.eid == 0 || eids.contains(&header.eid)) {
            // Nobody hears any more what comes after the end.
            let _ = told.send((header.eid, room[HEADER..n].to_vec()));
        }
    }
}

/// Sends until all flows or the run are over. `look` is shown the controller and the flows from time to time.
///
/// # Errors
/// What the kernel says of the interface or the socket.
pub fn send(
    port: Port,
    way: &Way,
    flows: &[Outflow],
    time: &dyn Time,
    mut look: impl FnMut(u64, &Controller, &[Flow]),
) -> Result<Sent, Error> {
    let port = Arc::new(port);
    let over = Arc::new(AtomicBool::new(false));
    let (told, heard) = channel();
    let ear = {
        let (port, over, way) = (Arc::clone(&port), Arc::clone(&over), *way);
        let eids: Vec<u64> = flows.iter().filter(|f| f.reliable).map(|f| f.eid).collect();
        thread::spawn(move || listen(&port, &way, &eids, &over, &told))
    };
    let end = flows.iter().map(|f| f.stop).max().unwrap_or(0);
    let mut path = Path::new(way.tuning, ORIGIN + time.now());
    let mut flows: Vec<Flow> = flows.iter().map(Flow::of).collect();
    for _ in &flows {
        path.add();
    }
    let mut updates = 0;
    let (mut next_beat, mut next_look) = (time.now(), 0);
    while !time.is_over() {
        let at = time.now();
        let now = ORIGIN + at;
        if at >= end {
            break;
        }
        if at >= next_beat {
            next_beat += UPDATE;
            // With nobody who sends there is nothing to know of the path.
            if let Some(n) = flows.iter().any(|f| f.runs(at)).then(|| path.controller.heartbeat(now)).flatten() {
                port.send(&Message::Heartbeat(n).frame(&port.header(way.to, way.qos, 0)))?;
            }
        }
        if at >= next_look {
            next_look += way.look;
            look(at, &path.controller, &flows);
        }
        for (i, flow) in flows.iter_mut().enumerate() {
            path.offer(now, i, flow.head(at));
        }
        while let Some(i) = path.send(now) {
            let flow = &mut flows[i];
            let mut bytes = [0; ROOM];
            let len = flow.frame(&port.header(way.to, way.qos, flow.plan.eid), at, &mut bytes);
            port.send(&bytes[..len])?;
            path.offer(now, i, flow.head(at));
        }
        // Flows may start and stop meanwhile, and the reliable run out of patience.
        let written = flows.iter().filter_map(|f| Some(f.writer?.next()));
        let due = written.chain(path.due()).map(|due| due.since(ORIGIN)).min().unwrap_or(end);
        let next = due.min(next_beat).min(next_look).min(end).min(at + 10 * MILLISECOND);
        let mut wait = Duration::from_nanos(next.saturating_sub(time.now()));
        loop {
            match heard.recv_timeout(wait) {
                Ok((eid, payload)) => {
                    let now = ORIGIN + time.now();
                    match Message::read(&payload).filter(|_| eid == 0) {
                        Some(Message::Update(u)) => {
                            updates += 1;
                            path.controller.report(now, u.ece, u.cap);
                        }
                        Some(Message::Alive(n)) => path.controller.alive(now, n),
                        _ => {
                            let flow = flows.iter_mut().find(|f| f.plan.eid == eid);
                            if let (Some(r), Some((_, n, false))) =
                                (flow.and_then(|f| f.reliable.as_mut()), reliable::read(&payload))
                            {
                                r.acknowledged(now, n);
                            }
                        }
                    }
                    wait = Duration::ZERO;
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::panicked("the end that listens")),
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    ear.join().map_err(|_| Error::panicked("the end that listens"))?;
    Ok(Sent {
        frames: flows.iter().map(|f| f.frames).collect(),
        retransmissions: flows.iter().map(Flow::retransmissions).collect(),
        updates,
        rtt: path.controller.rtt(),
    })
}

/// What a destination knows of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Inflow {
    /// Bytes of payload in a frame.
    pub payload: u16,
    /// Whether frames carry the header of a reliable flow.
    pub reliable: bool,
    /// What its path's reports are the average of.
    pub window: Window,
    /// Between these times nothing of its path is answered, ns after the begin.
    pub silent: Option<(u64, u64)>,
}

/// A frame of data that came.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// When, ns after the begin.
    pub at: u64,
    /// Its headers.
    pub header: Header,
    /// Bytes of payload that are now in order.
    pub bytes: u64,
    /// When it was sent, by the clock of its source's run.
    pub sent: u64,
    /// Whether a flow update was due with it.
    pub reported: bool,
}

/// The paths and flows of a destination.
struct Inlet<'a> {
    port: &'a Port,
    paths: BTreeMap<([u8; 6], u8), Receiver>,
    flows: BTreeMap<([u8; 6], u64), reliable::Receiver>,
    silent: BTreeMap<([u8; 6], u8), (u64, u64)>,
}

impl Inlet<'_> {
    fn answers(&self, at: u64, header: &Header) -> bool {
        let silent = self.silent.get(&(header.src, header.qos));
        silent.is_none_or(|(from, until)| !(*from..*until).contains(&at))
    }

    fn message(&self, at: u64, header: &Header, rest: &[u8]) -> Result<(), Error> {
        match Message::read(rest) {
            Some(Message::Heartbeat(n)) if self.answers(at, header) => {
                self.port.send(&Message::Alive(n).frame(&self.port.header(header.src, header.qos, 0)))
            }
            _ => Ok(()),
        }
    }

    fn data(&mut self, at: u64, header: &Header, rest: &[u8], flow: &Inflow) -> Result<Came, Error> {
        let path = (header.src, header.qos);
        if let Some(silent) = flow.silent {
            self.silent.insert(path, silent);
        }
        let answers = self.answers(at, header);
        let receiver = self.paths.entry(path).or_insert_with(|| Receiver::new(flow.window));
        let report = receiver.push(ORIGIN + at, header.ecn, header.cap).filter(|_| answers);
        if let Some(report) = report {
            let update = FlowUpdate { eid: header.eid, ece: report.ece, cap: report.cap };
            self.port.send(&Message::Update(update).frame(&self.port.header(header.src, header.qos, 0)))?;
        }
        let mut fresh = 1;
        if let Some((sequence, _, true)) = reliable::read(rest).filter(|_| flow.reliable) {
            let (came, acknowledge) = self.flows.entry((header.src, header.eid)).or_default().push(sequence);
            fresh = came;
            if let Some(n) = acknowledge {
                let mut bytes = [0; SHORTEST];
                let back = self.port.header(header.src, header.qos, header.eid);
                bytes[..HEADER].copy_from_slice(&back.write(reliable::HEADER as u16));
                bytes[HEADER..STAMP].copy_from_slice(&reliable::header(0, n, false));
                self.port.send(&bytes)?;
            }
        }
        let stamp = rest.get(reliable::HEADER..).and_then(<[u8]>::first_chunk);
        Ok(Came {
            at,
            header: *header,
            bytes: u64::from(flow.payload) * u64::from(fresh),
            sent: stamp.map_or(at, |s| u64::from_be_bytes(*s)),
            reported: report.is_some(),
        })
    }
}

/// Receives and answers, until it is over, or nothing came for `idle` ns after something did. `expect` says
/// what is known of the flow of a frame, by its headers and what is behind them: `None` for a stranger's.
///
/// # Errors
/// What the kernel says of the socket.
pub fn receive(
    port: &Port,
    time: &dyn Time,
    idle: u64,
    mut expect: impl FnMut(&Header, &[u8]) -> Option<Inflow>,
    mut came: impl FnMut(&Came),
) -> Result<(), Error> {
    let mut inlet = Inlet { port, paths: BTreeMap::new(), flows: BTreeMap::new(), silent: BTreeMap::new() };
    let mut last = None;
    let mut room = [0; ROOM];
    while !time.is_over() && last.is_none_or(|last| time.now() - last <= idle) {
        let Some((header, n)) = port.hear(&mut room) else { continue };
        let (at, rest) = (time.now(), &room[HEADER..n]);
        if header.eid == 0 {
            inlet.message(at, &header, rest)?;
        } else if let Some(flow) = expect(&header, rest) {
            last = Some(at);
            came(&inlet.data(at, &header, rest, &flow)?);
        }
    }
    Ok(())
}

//! Both ends of paths that listen to multi-bit ECN, live: data-transfer frames over packet sockets
//! (`spec/mb-ecn.md` §6). What they do is in [`crate::dtp`], as in the simulator; here it gets the
//! machine's clock and a network interface.
//!
//! A source is a MAC address of ours; its DTP address is the last four bytes of it. So several sources can
//! share an interface, and the far end knows whom to answer.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use socket2::Socket;

use super::Error;
use crate::dtp::frame::{HEADER, Header, Message};
use crate::dtp::{Path, Receiver, Tuning, UPDATE, reliable};
use crate::mark::mb_ecn::code;
use crate::mark::mb_ecn::endpoint::{FlowUpdate, jain};
use crate::rng::Random;
use crate::run::nic::{IfName, NicFacts};
use crate::time::{Instant, MILLISECOND, SECOND};

/// The endpoint in the Ethernet layer that all use.
const ENDPOINT: u16 = 2;
/// Room for the largest frame.
const ROOM: usize = 2048;
/// The shortest frame of Ethernet, without its check sequence.
const SHORTEST: usize = 60;
/// A socket that hears nothing looks this often whether it is over.
const LOOK: Duration = Duration::from_millis(100);
/// Flows that a source may have: their EIDs end in 64 and on.
pub const FLOWS: u16 = 1000;

/// A source of flows to one destination.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where.
    pub interface: IfName,
    /// MAC address of the source.
    pub from: [u8; 6],
    /// MAC address of the destination.
    pub to: [u8; 6],
    /// Flows, of which the last ones are reliable.
    pub flows: u16,
    /// How many of them are reliable.
    pub reliable: u16,
    /// Bytes of payload in a frame.
    pub payload: u16,
    /// How long the first flow sends.
    pub duration: Duration,
    /// How much later each next flow starts, and how much earlier it ends.
    pub stagger: Duration,
    /// The controller.
    pub tuning: Tuning,
}

/// A look at the controller.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Look {
    /// Seconds from the start.
    pub seconds: f64,
    /// Paced rate, bytes of frame per second.
    pub rate: f64,
    /// The last report, in 1/32 code.
    pub ece: u16,
    /// The capacity that was reported, bytes per second.
    pub capacity: u64,
    /// What the controller does.
    pub regime: &'static str,
}

/// What a source did.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    /// Frames by flow.
    pub frames: Vec<u64>,
    /// Frames that reliable flows sent again.
    pub retransmissions: u64,
    /// Flow updates that came.
    pub updates: u64,
    /// Round trip of the last heartbeat, ms.
    pub rtt_ms: f64,
    /// The controller, ten times a second.
    pub looks: Vec<Look>,
}

/// The machine's clock, far from zero at the start.
struct Clock(std::time::Instant);

impl Clock {
    const ORIGIN: Instant = Instant::from_nanos(1 << 40);

    fn start() -> Clock {
        Clock(std::time::Instant::now())
    }

    fn now(&self) -> Instant {
        Clock::ORIGIN + self.0.elapsed().as_nanos() as u64
    }
}

fn open(interface: &IfName) -> Result<Socket, Error> {
    let what = |doing: &str| format!("{interface}: {doing}");
    let facts = NicFacts::inspect(interface).map_err(|e| Error::new(what("looking at it"), e))?;
    let socket = crate::sys::packet_socket(facts.index).map_err(|e| Error::new(what("a packet socket"), e))?;
    let socket = Socket::from(socket);
    socket.set_read_timeout(Some(LOOK)).map_err(|e| Error::new(what("a packet socket"), e))?;
    Ok(socket)
}

/// The MAC address of an interface.
///
/// # Errors
/// If there is no such interface, or it has none.
pub fn mac_of(interface: &IfName) -> Result<[u8; 6], Error> {
    let facts = NicFacts::inspect(interface).map_err(|e| Error::new(interface, e))?;
    mac(&facts.address).map_err(|why| Error::new(interface, why))
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

fn address(mac: [u8; 6]) -> [u8; 4] {
    [mac[2], mac[3], mac[4], mac[5]]
}

fn header(src: [u8; 6], dst: [u8; 6], eid: u64) -> Header {
    Header { dst, src, endpoint: ENDPOINT, address: address(dst), qos: 0, ecn: 0, cap: 0, eid }
}

/// The next frame for `mac`, if one comes in time.
fn hear(socket: &Socket, mac: Option<[u8; 6]>, room: &mut [u8; ROOM]) -> Option<(Header, usize)> {
    let n = (&*socket).read(room).ok()?;
    let (header, _) = Header::read(&room[..n])?;
    mac.is_none_or(|mac| header.dst == mac).then_some((header, n))
}

struct Flow {
    eid: u64,
    starts: Instant,
    stops: Instant,
    reliable: Option<reliable::Sender>,
    frames: u64,
}

impl Flow {
    fn len(&self, payload: u16) -> usize {
        let extra = if self.reliable.is_some() { reliable::HEADER } else { 0 };
        (HEADER + extra + usize::from(payload)).max(SHORTEST)
    }

    /// The length of its next frame, if it may send.
    fn head(&mut self, now: Instant, payload: u16) -> Option<u32> {
        let may = (self.starts..self.stops).contains(&now) && self.reliable.as_mut().is_none_or(|r| r.may(now));
        may.then(|| self.len(payload) as u32)
    }
}

/// Sends until all flows are over.
///
/// # Errors
/// What the kernel says of the interface or the socket.
pub fn send(source: &Source) -> Result<Sent, Error> {
    let socket = Arc::new(open(&source.interface)?);
    let over = Arc::new(AtomicBool::new(false));
    let (told, heard) = channel();
    let ear = {
        let (socket, over, mac) = (Arc::clone(&socket), Arc::clone(&over), source.from);
        thread::spawn(move || {
            let mut room = [0; ROOM];
            while !over.load(Ordering::Relaxed) {
                if let Some((header, n)) = hear(&socket, Some(mac), &mut room) {
                    let _ = told.send((header, room[HEADER..n].to_vec()));
                }
            }
        })
    };
    let clock = Clock::start();
    let begin = clock.now();
    let seed = source.from.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let mut random = Random::seeded(seed);
    let mut path = Path::new(source.tuning, begin);
    let end = begin + source.duration.as_nanos() as u64;
    let mut flows: Vec<Flow> = (0..source.flows)
        .map(|i| {
            path.add();
            let later = source.stagger.as_nanos() as u64 * u64::from(i);
            Flow {
                eid: Header::flow_eid(i.into(), random.u64() as u32),
                starts: begin + later,
                stops: end - later,
                reliable: (i >= source.flows - source.reliable).then(Default::default),
                frames: 0,
            }
        })
        .collect();
    let mut sent = Sent { frames: Vec::new(), retransmissions: 0, updates: 0, rtt_ms: 0.0, looks: Vec::new() };
    let (mut beat, mut look) = (begin, begin);
    let write = |bytes: &[u8]| {
        (&*socket).write_all(bytes).map_err(|e| Error::new(format_args!("{}: sending", source.interface), e))
    };
    loop {
        let now = clock.now();
        if now >= end {
            break;
        }
        if now >= beat {
            beat = beat + UPDATE;
            if let Some(n) = path.controller.heartbeat(now) {
                write(&Message::Heartbeat(n).frame(&header(source.from, source.to, 0)))?;
            }
        }
        if now >= look {
            look = look + SECOND / 10;
            let c = &path.controller;
            let seconds = now.since(begin) as f64 / 1e9;
            sent.looks.push(Look {
                seconds,
                rate: c.rate(),
                ece: c.ece(),
                capacity: c.capacity(),
                regime: c.regime().name(),
            });
        }
        for (i, flow) in flows.iter_mut().enumerate() {
            path.offer(now, i, flow.head(now, source.payload));
        }
        while let Some(i) = path.send(now) {
            let flow = &mut flows[i];
            let mut bytes = [0; ROOM];
            let len = flow.len(source.payload);
            bytes[..HEADER].copy_from_slice(&header(source.from, source.to, flow.eid).write((len - HEADER) as u16));
            if let Some(r) = &mut flow.reliable {
                bytes[HEADER..HEADER + reliable::HEADER].copy_from_slice(&reliable::header(r.send(now), 0, true));
            }
            flow.frames += 1;
            write(&bytes[..len])?;
            path.offer(now, i, flow.head(now, source.payload));
        }
        // Flows may start and stop meanwhile, and the reliable run out of patience.
        let next = path.due().unwrap_or(beat).min(beat).min(look).min(end).min(now + 10 * MILLISECOND);
        let mut wait = Duration::from_nanos(next.since(clock.now()));
        loop {
            match heard.recv_timeout(wait) {
                Ok((header, payload)) => {
                    let now = clock.now();
                    match Message::read(&payload).filter(|_| header.eid == 0) {
                        Some(Message::Update(u)) => {
                            sent.updates += 1;
                            path.controller.report(now, u.ece, u.cap);
                        }
                        Some(Message::Alive(n)) => path.controller.alive(now, n),
                        _ => {
                            let flow = flows.iter_mut().find(|f| f.eid == header.eid);
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
    sent.frames = flows.iter().map(|f| f.frames).collect();
    sent.retransmissions = flows.iter().filter_map(|f| Some(f.reliable.as_ref()?.retransmissions)).sum();
    sent.rtt_ms = path.controller.rtt() as f64 / 1e6;
    Ok(sent)
}

/// A flow as it arrived.
#[derive(Clone, Debug, Serialize)]
pub struct Arrived {
    /// MAC address of its source.
    pub source: String,
    /// Its number at the source.
    pub flow: u32,
    /// Bytes of payload, in order, in the part that counts.
    pub bytes: u64,
    /// Bits of payload per second, from its first frame that counts to its last.
    pub goodput: f64,
}

/// What a destination saw.
#[derive(Clone, Debug, Serialize)]
pub struct Received {
    /// The flows.
    pub flows: Vec<Arrived>,
    /// Bits of payload per second, by source.
    pub sources: Vec<f64>,
    /// Jain's index of the sources.
    pub jain_sources: f64,
    /// … and of the flows.
    pub jain_flows: f64,
    /// Mean depth that the frames told of, packets.
    pub mean_depth: f64,
    /// The least and the largest depth code.
    pub depth_codes: (u8, u8),
    /// The least and the largest capacity code, 0 left out.
    pub capacity_codes: (u8, u8),
    /// Flow updates sent.
    pub updates: u64,
}

#[derive(Default)]
struct Inflow {
    reliable: Option<reliable::Receiver>,
    bytes: u64,
    first: Option<Instant>,
    last: Instant,
    /// Bytes of the first frame that counts: its time is not in the measure.
    skip: u64,
}

/// A destination.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Where.
    pub interface: IfName,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Bytes of payload in a frame.
    pub payload: u16,
    /// When it ends at the latest.
    pub duration: Duration,
    /// What comes so soon after the first frame does not count.
    pub skip: Duration,
    /// It ends when nothing came for so long after something did.
    pub idle: Duration,
    /// What it averages over is in the controller's parameters.
    pub tuning: Tuning,
}

/// Receives, and answers.
///
/// # Errors
/// What the kernel says of the interface or the socket.
pub fn receive(sink: &Sink) -> Result<Received, Error> {
    let Sink { interface, mac, payload, duration, skip, idle, tuning } = sink;
    let (mac, payload) = (*mac, *payload);
    let socket = open(interface)?;
    let clock = Clock::start();
    let end = clock.now() + duration.as_nanos() as u64;
    let mut paths: BTreeMap<[u8; 6], Receiver> = BTreeMap::new();
    let mut flows: BTreeMap<([u8; 6], u64), Inflow> = BTreeMap::new();
    let (mut codes, mut capacities) = ([0u64; 256], [0u64; 256]);
    let mut updates = 0;
    let mut first: Option<Instant> = None;
    let mut last = Instant::NEVER;
    let mut room = [0; ROOM];
    let write =
        |bytes: &[u8]| (&socket).write_all(bytes).map_err(|e| Error::new(format_args!("{interface}: answering"), e));
    loop {
        let now = clock.now();
        if now >= end || last != Instant::NEVER && now.since(last) > idle.as_nanos() as u64 {
            break;
        }
        let Some((head, n)) = hear(&socket, Some(mac), &mut room) else { continue };
        let now = clock.now();
        let back = |eid| header(mac, head.src, eid);
        let rest = &room[HEADER..n];
        if head.eid == 0 {
            if let Some(Message::Heartbeat(n)) = Message::read(rest) {
                write(&Message::Alive(n).frame(&back(0)))?;
            }
            continue;
        }
        last = now;
        let counts = now.since(*first.get_or_insert(now)) >= skip.as_nanos() as u64;
        let path = paths.entry(head.src).or_insert_with(|| Receiver::new(tuning.window));
        if let Some(report) = path.push(now, head.ecn, head.cap) {
            updates += 1;
            write(&Message::Update(FlowUpdate { eid: head.eid, ece: report.ece, cap: report.cap }).frame(&back(0)))?;
        }
        let flow = flows.entry((head.src, head.eid)).or_default();
        let mut fresh = 1;
        if let Some((sequence, _, true)) = reliable::read(rest).filter(|_| rest.len() > usize::from(payload)) {
            let (came, acknowledge) = flow.reliable.get_or_insert_default().push(sequence);
            fresh = came;
            if let Some(n) = acknowledge {
                let mut bytes = [0; SHORTEST];
                bytes[..HEADER].copy_from_slice(&back(head.eid).write(reliable::HEADER as u16));
                bytes[HEADER..HEADER + reliable::HEADER].copy_from_slice(&reliable::header(0, n, false));
                write(&bytes)?;
            }
        }
        if counts {
            codes[usize::from(head.ecn)] += 1;
            capacities[usize::from(head.cap)] += 1;
            let bytes = u64::from(payload) * u64::from(fresh);
            if flow.first.is_none() {
                (flow.first, flow.skip) = (Some(now), bytes);
            }
            flow.bytes += bytes;
            flow.last = now;
        }
    }
    Ok(summary(&flows, &codes, &capacities, updates))
}

fn summary(
    flows: &BTreeMap<([u8; 6], u64), Inflow>,
    codes: &[u64; 256],
    capacities: &[u64; 256],
    updates: u64,
) -> Received {
    let mut sources: BTreeMap<[u8; 6], f64> = BTreeMap::new();
    let mut out = Vec::new();
    for ((mac, eid), flow) in flows {
        let Some(first) = flow.first else { continue };
        let goodput = (flow.bytes - flow.skip) as f64 * 8e9 / flow.last.since(first).max(1) as f64;
        *sources.entry(*mac).or_default() += goodput;
        let source = mac.map(|b| format!("{b:02x}")).join(":");
        out.push(Arrived { source, flow: (*eid as u32).saturating_sub(64), bytes: flow.bytes, goodput });
    }
    let sources: Vec<f64> = sources.into_values().collect();
    let shares: Vec<f64> = out.iter().map(|f| f.goodput).collect();
    let range = |counts: &[u64], from: usize| {
        let mut seen = (from..256).filter(|i| counts[*i] > 0).map(|i| i as u8);
        let low = seen.next().unwrap_or(0);
        (low, seen.next_back().unwrap_or(low))
    };
    let frames: u64 = codes.iter().sum();
    let packets: f64 = (0u8..=255).zip(codes).map(|(c, n)| code::value(c.into()) * *n as f64).sum();
    Received {
        jain_sources: jain(&sources),
        jain_flows: jain(&shares),
        flows: out,
        sources,
        mean_depth: packets / frames.max(1) as f64,
        depth_codes: range(codes, 0),
        capacity_codes: range(capacities, 1),
        updates,
    }
}

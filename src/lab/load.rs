//! Bulk TCP in both directions between two ends: a server that answers, and a client that says how many flows, each way,
//! for how long, and puts together what both ends saw.
//!
//! A connection begins with one request: two bytes of length, then JSON. A flow's request is followed by its bytes, which
//! the client sends (`up`) or receives (`down`); a report's request is answered with what the server's ends of that session
//! saw. Up is from the client to the server.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::SockRef;

use super::senders::{self, FlowEnd, FlowOptions};
use super::{Error, Percentiles, histogram_of_nanoseconds, jain};

/// The longest a flow may ask for: a forgotten client must not load a server for ever.
const LONGEST_FLOW: Duration = Duration::from_secs(3600);

/// Which way a flow's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Request {
    Flow { session: u64, index: usize, way: Way, options: FlowOptions },
    Report { session: u64 },
}

/// What a client wants.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the server listens. With more than one, flow `i` of a way goes to address `i mod n`.
    pub servers: Vec<SocketAddr>,
    /// The address of this host that flows come from; `None` leaves it to the kernel.
    pub from: Option<IpAddr>,
    /// Flows from here to the server.
    pub up: usize,
    /// Flows from the server to here.
    pub down: usize,
    /// Each flow starts so long after the one before it.
    pub stagger: Duration,
    /// Left out of every figure, counted from the start of the last flow.
    pub warm_up: Duration,
    /// Setup of each flow; its duration counts from the start of the last flow, at which all run together.
    pub options: FlowOptions,
}

/// One flow, from both its ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowResult {
    /// Which way its bytes went.
    pub way: Way,
    /// Number among the flows of its way.
    pub index: usize,
    /// Payload that arrived after the warm-up, bits per second.
    pub goodput: f64,
    /// Segments sent again, over all its life.
    pub retransmits: u32,
    /// Segments that arrived, over all its life.
    pub delivered: u32,
    /// Of these, those marked with congestion experienced.
    pub delivered_ce: u32,
    /// Both ends agreed on ECN.
    pub ecn: bool,
    /// Smallest round trip time, microseconds.
    pub min_rtt_us: u32,
    /// Smoothed round trip times, one for each look after the warm-up, microseconds.
    pub rtt_us: Percentiles,
    /// Mean congestion window over these looks, segments.
    pub cwnd: f64,
    /// What the sender's end saw.
    #[serde(skip)]
    pub sender: FlowEnd,
    /// What the receiver's end saw.
    #[serde(skip)]
    pub receiver: FlowEnd,
}

/// All flows of one way.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WayResult {
    /// Number of flows.
    pub flows: usize,
    /// Sum of their goodput, bits per second.
    pub goodput: f64,
    /// Jain's index over their goodput.
    pub jain: f64,
    /// Sum of their retransmitted segments.
    pub retransmits: u64,
    /// Sum of their delivered segments.
    pub delivered: u64,
    /// Sum of their segments delivered with a congestion mark.
    pub delivered_ce: u64,
}

/// What a run of the client brought.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadResult {
    /// Congestion control of all flows.
    pub congestion_control: String,
    /// Seconds that count: duration without the warm-up.
    pub seconds: f64,
    /// From the client.
    pub up: WayResult,
    /// To the client.
    pub down: WayResult,
    /// Each flow: up first, in order of their number.
    pub flows: Vec<FlowResult>,
}

type Ends = Arc<Mutex<HashMap<u64, Vec<(Way, usize, JoinHandle<Result<FlowEnd, Error>>)>>>>;

/// Answers clients until `stop_after` is over, then returns; flows that still run end with their own time.
///
/// # Errors
/// The address cannot be listened on. What goes wrong with one client is said on standard error and ends only that one.
pub fn serve(at: SocketAddr, stop_after: Duration) -> Result<(), Error> {
    let listener = TcpListener::bind(at).map_err(Error::when(format_args!("cannot listen on {at}")))?;
    serve_on(&listener, stop_after)
}

fn serve_on(listener: &TcpListener, stop_after: Duration) -> Result<(), Error> {
    let until = Instant::now() + stop_after;
    let ends = Ends::default();
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        SockRef::from(listener).set_read_timeout(Some(left)).map_err(Error::when("cannot set a timeout"))?;
        let Ok((socket, peer)) = listener.accept() else { continue };
        let ends = ends.clone();
        thread::spawn(move || {
            if let Err(e) = answer(socket, &ends) {
                eprintln!("weir load serve: client {peer}: {e}");
            }
        });
    }
    Ok(())
}

fn answer(mut socket: TcpStream, ends: &Ends) -> Result<(), Error> {
    socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(Error::when("cannot set a timeout"))?;
    match read_json(&mut socket)? {
        Request::Flow { session, index, way, mut options } => {
            options.duration = options.duration.min(LONGEST_FLOW);
            senders::set_up(SockRef::from(&socket), &options)?;
            let end = thread::spawn(move || match way {
                Way::Up => senders::receive(socket, &options),
                Way::Down => senders::send(socket, &options),
            });
            ends.lock().unwrap_or_else(PoisonError::into_inner).entry(session).or_default().push((way, index, end));
            Ok(())
        }
        Request::Report { session } => {
            let mine = ends.lock().unwrap_or_else(PoisonError::into_inner).remove(&session).unwrap_or_default();
            let mut report = Vec::new();
            for (way, index, end) in mine {
                report.push((way, index, join(end)?));
            }
            let bytes = serde_json::to_vec(&report).map_err(|e| Error::new("cannot write the report", e))?;
            socket.write_all(&bytes).map_err(Error::when("cannot send the report"))
        }
    }
}

/// Runs the flows of a plan and returns when all have ended.
///
/// # Errors
/// The server does not answer, a flow broke, or the congestion control is not to be had.
///
/// # Panics
/// The plan names no server.
pub fn run(plan: &Plan) -> Result<LoadResult, Error> {
    let session = RandomState::new().hash_one(std::process::id());
    let ways: Vec<(Way, usize)> =
        (0..plan.up).map(|i| (Way::Up, i)).chain((0..plan.down).map(|i| (Way::Down, i))).collect();
    let last_start = plan.stagger * (ways.len().saturating_sub(1)) as u32;
    let begun = Instant::now();
    let mut running = Vec::new();
    let end = last_start + plan.options.duration;
    for (place, &(way, index)) in ways.iter().enumerate() {
        let (server, from) = (plan.servers[index % plan.servers.len()], plan.from);
        let mut options = plan.options.clone();
        let planned = plan.stagger * place as u32;
        // Each in a thread of its own: behind a full queue a handshake takes seconds, and must not hold up the others.
        let flow = thread::spawn(move || -> Result<(Duration, FlowEnd), Error> {
            thread::sleep(planned.saturating_sub(begun.elapsed()));
            let mut socket = senders::connect(server, from, &options)?;
            let start = begun.elapsed();
            options.duration = end.saturating_sub(start);
            write_json(&mut socket, &Request::Flow { session, index, way, options: options.clone() })?;
            let mine = match way {
                Way::Up => senders::send(socket, &options),
                Way::Down => senders::receive(socket, &options),
            };
            Ok((start, mine?))
        });
        running.push((way, index, flow));
    }
    let mut here = Vec::new();
    for (way, index, flow) in running {
        let (start, mine) = join(flow)?;
        here.push((way, index, start, mine));
    }
    // One server at many addresses hands everything to whom asks first, and the others get what is left: nothing.
    let mut there = Vec::new();
    for server in &plan.servers {
        there.extend(fetch_report(*server, session)?);
    }

    let counted = plan.options.duration.saturating_sub(plan.warm_up);
    let mut flows = Vec::new();
    for (way, index, start, mine) in here {
        let theirs = there
            .iter()
            .find(|(w, i, _)| (*w, *i) == (way, index))
            .map(|(_, _, end)| end.clone())
            .ok_or_else(|| Error::new("the server's report", format_args!("flow {index} {way:?} is missing")))?;
        let (sender, receiver) = if way == Way::Up { (mine, theirs) } else { (theirs, mine) };
        let window = (last_start + plan.warm_up).saturating_sub(start);
        flows.push(flow_result(way, index, (window, end.saturating_sub(start)), counted, sender, receiver));
    }
    let of = |way| way_result(flows.iter().filter(|f| f.way == way));
    Ok(LoadResult {
        congestion_control: plan.options.congestion_control.clone(),
        seconds: counted.as_secs_f64(),
        up: of(Way::Up),
        down: of(Way::Down),
        flows,
    })
}

fn flow_result(
    way: Way,
    index: usize,
    window: (Duration, Duration),
    counted: Duration,
    sender: FlowEnd,
    receiver: FlowEnd,
) -> FlowResult {
    let micros = |d: Duration| d.as_micros() as u64;
    let (from, to) = (micros(window.0), micros(window.1));
    let bytes = receiver.bytes_at(to) - receiver.bytes_at(from);
    let mut rtts = histogram_of_nanoseconds();
    let (mut windows, mut looks) = (0.0, 0u32);
    for sample in sender.samples.iter().filter(|s| (from..=to).contains(&s.at_us) && s.tcp.rtt_us > 0) {
        rtts.saturating_record(u64::from(sample.tcp.rtt_us) * 1000);
        windows += f64::from(sample.tcp.cwnd);
        looks += 1;
    }
    let last = sender.samples.last().map(|s| s.tcp).unwrap_or_default();
    FlowResult {
        way,
        index,
        // Over the common time, also for a flow whose handshake took longer than the warm-up.
        goodput: bytes * 8.0 / counted.as_secs_f64().max(1e-9),
        retransmits: last.retransmits,
        delivered: last.delivered,
        delivered_ce: last.delivered_ce,
        ecn: last.ecn,
        min_rtt_us: last.min_rtt_us,
        rtt_us: Percentiles::of(&rtts),
        cwnd: windows / f64::from(looks.max(1)),
        sender,
        receiver,
    }
}

fn way_result<'a>(flows: impl Iterator<Item = &'a FlowResult>) -> WayResult {
    let mut sum = WayResult::default();
    let mut shares = Vec::new();
    for flow in flows {
        sum.flows += 1;
        sum.goodput += flow.goodput;
        sum.retransmits += u64::from(flow.retransmits);
        sum.delivered += u64::from(flow.delivered);
        sum.delivered_ce += u64::from(flow.delivered_ce);
        shares.push(flow.goodput);
    }
    sum.jain = jain(&shares);
    sum
}

fn fetch_report(server: SocketAddr, session: u64) -> Result<Vec<(Way, usize, FlowEnd)>, Error> {
    let mut socket = TcpStream::connect_timeout(&server, Duration::from_secs(5))
        .map_err(Error::when(format_args!("cannot connect to {server} for the report")))?;
    // The server's receivers may still be waiting for the last of a deep queue.
    socket.set_read_timeout(Some(Duration::from_secs(20))).map_err(Error::when("cannot set a timeout"))?;
    write_json(&mut socket, &Request::Report { session })?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).map_err(Error::when("the server's report did not come"))?;
    serde_json::from_slice(&bytes).map_err(|e| Error::new("the server's report cannot be read", e))
}

fn join<T>(end: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    end.join().unwrap_or_else(|_| Err(Error::panicked("a flow")))
}

fn write_json(socket: &mut TcpStream, request: &Request) -> Result<(), Error> {
    let json = serde_json::to_vec(request).map_err(|e| Error::new("cannot write a request", e))?;
    let len = u16::try_from(json.len()).map_err(|e| Error::new("a request is too long", e))?;
    let whole = [&len.to_be_bytes()[..], &json].concat();
    socket.write_all(&whole).map_err(Error::when("cannot send a request"))
}

fn read_json(socket: &mut TcpStream) -> Result<Request, Error> {
    let mut len = [0; 2];
    socket.read_exact(&mut len).map_err(Error::when("no request came"))?;
    let mut json = vec![0; usize::from(u16::from_be_bytes(len))];
    socket.read_exact(&mut json).map_err(Error::when("a request was cut short"))?;
    serde_json::from_slice(&json).map_err(|e| Error::new("not a request of weir's", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(servers: Vec<SocketAddr>) -> Plan {
        Plan {
            servers,
            from: Some(IpAddr::from([127, 0, 0, 1])),
            up: 1,
            down: 2,
            stagger: Duration::from_millis(5),
            warm_up: Duration::from_millis(20),
            options: FlowOptions {
                duration: Duration::from_millis(120),
                congestion_control: "cubic".into(),
                tos: 0,
                sample_every: Duration::from_millis(10),
            },
        }
    }

    #[test]
    fn a_run_over_loopback_brings_a_result_for_each_flow_from_both_ends() {
        let listener = TcpListener::bind("0.0.0.0:0").expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        thread::spawn(move || serve_on(&listener, Duration::from_secs(30)));
        let servers = [1, 2].map(|last| SocketAddr::from(([127, 0, 0, last], port)));
        let result = run(&plan(servers.to_vec())).expect("a run");
        assert_eq!((result.up.flows, result.down.flows), (1, 2));
        assert_eq!(
            result.flows.iter().map(|f| (f.way, f.index)).collect::<Vec<_>>(),
            [(Way::Up, 0), (Way::Down, 0), (Way::Down, 1)]
        );
        for flow in &result.flows {
            assert!(flow.goodput > 0.0 && flow.delivered > 0 && !flow.sender.samples.is_empty(), "{flow:?}");
        }
    }

    #[test]
    fn goodput_counts_what_arrived_between_warm_up_and_end() {
        let at = |at_us, bytes| senders::Sample { at_us, bytes, tcp: Default::default() };
        let receiver = FlowEnd { samples: vec![at(1_000_000, 5_000), at(3_000_000, 255_000), at(9_000_000, 999_000)] };
        let window = (Duration::from_secs(1), Duration::from_secs(3));
        let flow = flow_result(Way::Down, 0, window, Duration::from_secs(2), FlowEnd::default(), receiver);
        assert_eq!(flow.goodput, 1_000_000.0);
    }

    #[test]
    fn a_stranger_on_the_port_is_turned_away() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut stranger = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let (socket, _) = listener.accept().expect("connected");
        stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("room");
        stranger.shutdown(std::net::Shutdown::Write).expect("connected");
        let refused = answer(socket, &Ends::default()).expect_err("not a request");
        assert!(refused.to_string().starts_with("a request was cut short"), "{refused}");
    }
}

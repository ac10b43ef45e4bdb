//! One bulk flow, from either end: a sender that always has more to send, and a receiver that counts.
//!
//! Each end is one thread in blocking calls with a timeout, which looks at its connection at regular times. Congestion
//! control is set on the socket, never left to the system's default.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::{SockRef, Socket};

use super::Error;
use super::tcp_info::TcpInfo;

/// No call blocks for longer than this, so that an end is noticed and looks at the connection come in time.
const PATIENCE: Duration = Duration::from_millis(50);
/// A receiver waits this long for the end of a flow after its time is up: a deep queue has to drain.
const GRACE: Duration = Duration::from_secs(3);
const CHUNK: usize = 64 * 1024;

/// How a flow's socket is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowOptions {
    /// How long it sends.
    pub duration: Duration,
    /// Congestion control by the kernel's name.
    pub congestion_control: String,
    /// The DS byte (`tos`), ECN bits excepted: the kernel keeps those.
    pub tos: u8,
    /// Time between two looks at the connection.
    pub sample_every: Duration,
}

/// One look at a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Microseconds since the flow began at this end.
    pub at_us: u64,
    /// Payload so far: handed to the kernel at the sender's end, got from it at the receiver's. Bytes.
    pub bytes: u64,
    /// The kernel's view; from the receiver's end most of it says little.
    pub tcp: TcpInfo,
}

/// What one end saw of its flow: the last sample is from its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEnd {
    /// In order of time.
    pub samples: Vec<Sample>,
}

impl FlowEnd {
    /// Bytes so far at a time since the flow's begin, between two looks by a straight line.
    pub fn bytes_at(&self, at_us: u64) -> f64 {
        let mut before = (0, 0);
        for sample in &self.samples {
            if sample.at_us >= at_us {
                let (t0, b0) = before;
                let share = (at_us - t0) as f64 / (sample.at_us - t0).max(1) as f64;
                return b0 as f64 + (sample.bytes - b0) as f64 * share;
            }
            before = (sample.at_us, sample.bytes);
        }
        before.1 as f64
    }
}

/// Connects with the options already set, since congestion control begins with the handshake; `from` one of this host's
/// addresses, or whichever the kernel chooses.
///
/// # Errors
/// The congestion control is not there, `from` is not this host's, or nobody answers at the address.
pub fn connect(to: SocketAddr, from: Option<IpAddr>, options: &FlowOptions) -> Result<TcpStream, Error> {
    let socket = Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None)
        .map_err(Error::when("cannot make a TCP socket"))?;
    set_up(SockRef::from(&socket), options)?;
    if let Some(from) = from {
        let bound = socket.bind(&SocketAddr::new(from, 0).into());
        bound.map_err(Error::when(format_args!("{from} is no address of this host that flows can come from")))?;
    }
    socket
        .connect_timeout(&to.into(), Duration::from_secs(5))
        .map_err(Error::when(format_args!("cannot connect to {to}; is `weir load serve` running there?")))?;
    Ok(socket.into())
}

/// The congestion controls that can be had here now.
pub fn available() -> Vec<String> {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(String::from).collect()
}

/// Sets congestion control, DS byte and timeouts.
///
/// # Errors
/// The congestion control is not in this kernel, or is not allowed to this user.
pub fn set_up(socket: SockRef<'_>, options: &FlowOptions) -> Result<(), Error> {
    let name = &options.congestion_control;
    socket.set_tcp_congestion(name.as_bytes()).map_err(|why| {
        Error(format!(
            "congestion control '{name}': {why}; this kernel has: {}. A module may have to be loaded: modprobe tcp_{name}",
            available().join(" ")
        ))
    })?;
    let local_is_v4 = socket.domain().is_ok_and(|d| d == socket2::Domain::IPV4);
    let tos = u32::from(options.tos & 0xfc);
    let set = if local_is_v4 { socket.set_tos_v4(tos) } else { socket.set_tclass_v6(tos) };
    set.map_err(Error::when(format_args!("cannot set the DS byte to {tos}")))?;
    let timeouts = socket.set_write_timeout(Some(PATIENCE)).and_then(|()| socket.set_read_timeout(Some(PATIENCE)));
    timeouts.map_err(Error::when("cannot set a timeout"))
}

/// Sends until the time is up, then ends the connection at once: what is still queued here is thrown away.
///
/// # Errors
/// The connection broke.
pub fn send(mut socket: TcpStream, options: &FlowOptions) -> Result<FlowEnd, Error> {
    let chunk = vec![0; CHUNK];
    let mut looks = Looks::new(options);
    while !looks.time_is_up(Duration::ZERO) {
        match socket.write(&chunk) {
            Ok(n) => looks.bytes += n as u64,
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(Error::new("the flow broke while sending", e)),
        }
        looks.look(&socket);
    }
    looks.last(&socket);
    // Only a hint that spares the peer the drain of a deep queue: if it fails, the socket closes the slow way.
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).ok();
    Ok(looks.end)
}

/// Receives until the sender ends the flow, or for its duration and a few seconds.
///
/// # Errors
/// The connection broke in another way than by the sender ending it.
pub fn receive(mut socket: TcpStream, options: &FlowOptions) -> Result<FlowEnd, Error> {
    let mut chunk = vec![0; CHUNK];
    let mut looks = Looks::new(options);
    while !looks.time_is_up(GRACE) {
        match socket.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => looks.bytes += n as u64,
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(Error::new("the flow broke while receiving", e)),
        }
        looks.look(&socket);
    }
    looks.last(&socket);
    Ok(looks.end)
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Keeps the times at which an end looks at its connection.
struct Looks {
    begun: Instant,
    duration: Duration,
    every: Duration,
    due: Duration,
    now: Duration,
    bytes: u64,
    end: FlowEnd,
}

impl Looks {
    fn new(options: &FlowOptions) -> Self {
        let every = options.sample_every.max(Duration::from_millis(1));
        Looks {
            begun: Instant::now(),
            duration: options.duration,
            every,
            due: every,
            now: Duration::ZERO,
            bytes: 0,
            end: FlowEnd::default(),
        }
    }

    fn time_is_up(&self, grace: Duration) -> bool {
        self.now >= self.duration + grace
    }

    fn look(&mut self, socket: &TcpStream) {
        self.now = self.begun.elapsed();
        if self.now >= self.due {
            self.due = self.now + self.every;
            self.take(socket);
        }
    }

    fn last(&mut self, socket: &TcpStream) {
        self.now = self.begun.elapsed();
        self.take(socket);
    }

    fn take(&mut self, socket: &TcpStream) {
        let tcp = TcpInfo::of(socket.as_fd()).unwrap_or_default();
        self.end.samples.push(Sample { at_us: self.now.as_micros() as u64, bytes: self.bytes, tcp });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_between_two_looks_lie_on_a_line() {
        let sample = |at_us, bytes| Sample { at_us, bytes, tcp: TcpInfo::default() };
        let end = FlowEnd { samples: vec![sample(100, 1000), sample(300, 2000)] };
        assert_eq!([0, 50, 100, 200, 300, 999].map(|t| end.bytes_at(t)), [0.0, 500.0, 1000.0, 1500.0, 2000.0, 2000.0]);
    }

    #[test]
    fn a_congestion_control_that_is_not_there_is_named_with_those_that_are() {
        let options = FlowOptions {
            duration: Duration::ZERO,
            congestion_control: "nosuch".into(),
            tos: 0,
            sample_every: Duration::ZERO,
        };
        let refused =
            connect("127.0.0.1:9".parse().expect("an address"), None, &options).expect_err("no such algorithm");
        assert!(refused.to_string().contains("'nosuch'") && refused.to_string().contains("cubic"), "{refused}");
    }
}

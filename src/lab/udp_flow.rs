//! Both ends of a flow of datagrams, which carry number and time, so that each one's way can be timed.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use socket2::SockRef;

use super::Error;
use super::course::Course;
use super::flows::{End, Task};
use crate::rng::Random;
use crate::scenario::{self, App};

/// Bytes of number and time.
pub(super) const STAMP: usize = 16;
/// No call blocks for longer.
const PATIENCE: Duration = Duration::from_millis(50);
/// The first datagram of a client, by which its server knows where to send.
const HELLO: &[u8] = b"hello";

/// A server's end.
pub(super) struct Server(UdpSocket);

fn set_up(socket: &UdpSocket, task: &Task) -> Result<(), Error> {
    let tos = u32::from(task.dscp) << 2;
    let socket = SockRef::from(socket);
    let set = if task.at.is_ipv4() { socket.set_tos_v4(tos) } else { socket.set_tclass_v6(tos) };
    set.and_then(|()| socket.set_read_timeout(Some(PATIENCE))).map_err(Error::when("cannot set up a UDP socket"))
}

impl Server {
    /// Has its port.
    ///
    /// # Errors
    /// The address cannot be had.
    pub(super) fn new(task: &Task) -> Result<Server, Error> {
        let socket = UdpSocket::bind(task.at).map_err(Error::when(format_args!("cannot have {}", task.at)))?;
        set_up(&socket, task)?;
        Ok(Server(socket))
    }

    /// Receives, or sends to the client that has said hello.
    ///
    /// # Errors
    /// The socket is of no use.
    pub(super) fn run(self, task: &Task, course: &Course) -> Result<End, Error> {
        if task.up() {
            return receive(&self.0, course);
        }
        let mut hello = [0; 64];
        while !course.is_over() {
            if let Ok((_, client)) = self.0.recv_from(&mut hello) {
                self.0.connect(client).map_err(Error::when("cannot answer a client"))?;
                return send(&self.0, task, course);
            }
        }
        Ok(End::new(course))
    }
}

/// The client's end.
///
/// # Errors
/// No way to the server.
pub(super) fn client(task: &Task, course: &Course) -> Result<End, Error> {
    let any = if task.at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let when = || Error::when(format!("flow {}: no way to {}", task.name, task.at));
    let socket = UdpSocket::bind(any).map_err(when())?;
    set_up(&socket, task)?;
    socket.connect(task.at).map_err(when())?;
    if task.up() {
        return send(&socket, task, course);
    }
    socket.send(HELLO).map_err(when())?;
    receive(&socket, course)
}

fn send(socket: &UdpSocket, task: &Task, course: &Course) -> Result<End, Error> {
    let (rate, packet, phases) = match task.app {
        App::Constant { rate, packet, .. } => (rate, packet, None),
        App::OnOff { rate, packet, on, off, .. } => (rate, packet, Some((on, off))),
        _ => return Err(Error::new(format_args!("flow {}", task.name), "is no datagrams")),
    };
    let gap = scenario::gap(rate, packet).max(1);
    let mut random = Random::seeded(task.seed);
    let mut bytes = vec![0; packet as usize];
    let mut end = End::new(course);
    let mut due = course.now();
    let mut until = phases.map_or(u64::MAX, |(on, _)| due + random.exponential(on));
    while course.sleep_until(due) && due < task.stop {
        bytes[..8].copy_from_slice(&end.sent.to_be_bytes());
        bytes[8..STAMP].copy_from_slice(&course.now().to_be_bytes());
        end.sent += 1;
        // What the kernel does not take is lost like any other.
        let _ = socket.send(&bytes);
        due += gap;
        if let Some((on, off)) = phases.filter(|_| due >= until) {
            due = until + random.exponential(off);
            until = due + random.exponential(on);
        }
    }
    Ok(end)
}

fn receive(socket: &UdpSocket, course: &Course) -> Result<End, Error> {
    let mut end = End::new(course);
    let mut bytes = [0; 2048];
    while !course.is_over() {
        match socket.recv(&mut bytes) {
            Ok(n) if n >= STAMP => {
                let now = course.now();
                let sent = u64::from_be_bytes(bytes[8..STAMP].try_into().expect("eight bytes"));
                end.received += 1;
                end.meter.received(now, n as u64);
                end.meter.took(now, now.saturating_sub(sent));
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            // The other end is not there yet, or not any more.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(Error::new("cannot receive datagrams", e)),
        }
    }
    Ok(end)
}

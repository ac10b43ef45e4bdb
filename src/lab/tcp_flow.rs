//! Both ends of a TCP flow.
//!
//! The server listens; the client connects when the flow starts. Every call blocks for a short time at most, so that the end
//! of the run is noticed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, Socket};

use super::course::Course;
use super::flows::{End, Task};
use super::senders::{self, FlowOptions};
use super::watch::Watch;
use super::{Error, udp_flow, web_flow};
use crate::port::xdp::ect1;
use crate::rng::Random;
use crate::scenario::{App, Tcp};

const CHUNK: usize = 64 * 1024;
/// Connections that may wait to be accepted: all that a client of pages opens.
const BACKLOG: i32 = 64;
/// What a client says when it wants bytes: as long as a short HTTP request.
const QUESTION: usize = 80;
/// Rate that no flow is paced at, bytes per second; only that it is not the largest number means something.
const PACE: u32 = u32::MAX - 1;
/// The kernel's ECN switch: who connects asks for it (1) or only takes it when asked (2).
const ECN: &str = "/proc/sys/net/ipv4/tcp_ecn";

/// A server of one kind or the other.
pub(super) enum Either {
    /// For a TCP flow.
    Tcp(Server),
    /// For datagrams.
    Udp(udp_flow::Server),
}

/// A listening server.
pub(super) struct Server(TcpListener);

fn options(task: &Task) -> FlowOptions {
    FlowOptions {
        duration: Duration::ZERO,
        congestion_control: task.control.clone(),
        tos: task.dscp << 2,
        sample_every: Duration::ZERO,
    }
}

pub(super) fn set_up(socket: SockRef<'_>, task: &Task) -> Result<(), Error> {
    let window = task.tcp.window;
    if window != Tcp::default().window {
        // The kernel takes half of its buffers for its own records.
        let room = usize::try_from(window).unwrap_or(usize::MAX);
        socket.set_recv_buffer_size(room).map_err(Error::when("cannot set the receive buffer"))?;
    }
    if let Some(patience) = task.tcp.patience {
        let patience = Duration::from_nanos(patience);
        socket.set_tcp_user_timeout(Some(patience)).map_err(Error::when("cannot set the patience"))?;
    }
    if task.ect1 {
        socket.set_mark(ect1::MARK).map_err(Error::when("cannot mark a socket"))?;
        // A scalable sender paces: in bursts, it would be marked long before the link is full.
        crate::sys::pace(socket.as_fd(), PACE).map_err(Error::when("cannot pace a socket"))?;
    }
    senders::set_up(socket, &options(task))
}

impl Server {
    /// Listens. Congestion control is set before the first connection, which inherits it.
    ///
    /// # Errors
    /// The address cannot be had, or this kernel has no such congestion control.
    pub(super) fn new(task: &Task) -> Result<Server, Error> {
        let when = || Error::when(format!("cannot listen on {}", task.at));
        let socket = Socket::new(socket2::Domain::for_address(task.at), socket2::Type::STREAM, None).map_err(when())?;
        set_up(SockRef::from(&socket), task)?;
        socket.bind(&task.at.into()).and_then(|()| socket.listen(BACKLOG)).map_err(when())?;
        Ok(Server(socket.into()))
    }

    /// Serves the one client it has.
    ///
    /// # Errors
    /// The connection broke in another way than by the end of the flow.
    pub(super) fn run(self, task: &Task, course: &Course, watch: Option<&Watch>) -> Result<End, Error> {
        if let App::Web { connections, .. } = task.app {
            return web_flow::serve(&self.0, connections as usize, task, course, watch);
        }
        let socket = loop {
            match self.0.accept() {
                Ok((socket, _)) => break socket,
                Err(_) if course.is_over() => return Ok(End::new(course)),
                Err(e) if is_passing(&e) => {}
                Err(e) => return Err(Error::new(format_args!("flow {}: no client", task.name), e)),
            }
        };
        set_up(SockRef::from(&socket), task)?;
        let mut line = Line { socket, task, course, end: End::new(course) };
        match task.app {
            App::Bulk { up: true, size } => line.receive(size),
            App::Request { request, response, .. } => line.answer(request, response, watch),
            _ => {
                let asked = line.take(QUESTION as u64, false);
                asked.and_then(|all| if all { line.send(size_of(&task.app), watch) } else { Ok(()) })
            }
        }?;
        Ok(line.end)
    }
}

/// The client's end, from its start on.
///
/// # Errors
/// The connection broke in another way than by the end of the flow.
pub(super) fn client(task: &Task, course: &Course, asks: &Mutex<()>, watch: Option<&Watch>) -> Result<End, Error> {
    let mut end = End::new(course);
    let wanted = if let App::Web { connections, .. } = task.app { connections } else { 1 };
    let mut sockets = Vec::new();
    for _ in 0..wanted {
        match connect(task, course, asks) {
            Ok(Some(socket)) => sockets.push(socket),
            Ok(None) => return Ok(end),
            Err(e) if e.kind() == ErrorKind::TimedOut => {
                end.aborted = true;
                return Ok(end);
            }
            Err(e) => return Err(Error::new(format_args!("flow {}: cannot connect to {}", task.name, task.at), e)),
        }
    }
    if let App::Web { think, .. } = task.app {
        return web_flow::browse(sockets, think, task, course);
    }
    let Some(socket) = sockets.pop() else { return Ok(end) };
    let mut line = Line { socket, task, course, end };
    match task.app {
        App::Bulk { up: true, size } => line.send(size, watch),
        App::Request { request, response, think } => line.ask(request, response, think),
        _ => line.give(&[b'?'; QUESTION]).and_then(|()| line.receive(size_of(&task.app))),
    }?;
    Ok(line.end)
}

fn size_of(app: &App) -> Option<u64> {
    if let App::Bulk { size, .. } = app { *size } else { None }
}

/// Connects, for as long as the run lasts: through a link that loses, a handshake takes many tries.
fn connect(task: &Task, course: &Course, asks: &Mutex<()>) -> io::Result<Option<TcpStream>> {
    let socket = Socket::new(socket2::Domain::for_address(task.at), socket2::Type::STREAM, None)?;
    set_up(SockRef::from(&socket), task).map_err(io::Error::other)?;
    socket.set_nonblocking(true)?;
    let begun = {
        // The switch is the namespace's and is read when the first segment leaves, which it does in this call.
        let _alone = asks.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::write(ECN, if task.tcp.ecn { "1" } else { "2" })?;
        socket.connect(&task.at.into())
    };
    begun.or_else(|e| if e.raw_os_error() == Some(libc::EINPROGRESS) { Ok(()) } else { Err(e) })?;
    let a_moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    loop {
        let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
        // An interrupted wait is looked at like any other.
        let _ = poll(&mut fds, Some(&a_moment));
        if !fds[0].revents().is_empty() {
            break;
        }
        if course.is_over() {
            return Ok(None);
        }
    }
    if let Some(e) = socket.take_error()? {
        return Err(e);
    }
    socket.set_nonblocking(false)?;
    Ok(Some(socket.into()))
}

/// A connection at work.
struct Line<'a> {
    socket: TcpStream,
    task: &'a Task,
    course: &'a Course,
    end: End,
}

impl Line<'_> {
    fn is_over(&self) -> bool {
        self.course.is_over() || self.course.now() >= self.task.stop
    }

    fn judge(&mut self, e: &io::Error) -> Result<bool, Error> {
        judge(self.task, &mut self.end, e)
    }

    /// Writes all of something short.
    fn give(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut sent = 0;
        while sent < bytes.len() && !self.is_over() {
            match self.socket.write(&bytes[sent..]) {
                Ok(n) => sent += n,
                Err(e) if self.judge(&e)? => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Reads so many bytes, and says whether they came.
    fn take(&mut self, bytes: u64, counted: bool) -> Result<bool, Error> {
        let mut chunk = vec![0; CHUNK];
        let mut left = bytes;
        while left > 0 {
            if self.is_over() {
                return Ok(false);
            }
            let most = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
            match self.socket.read(&mut chunk[..most]) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    left -= n as u64;
                    if counted {
                        self.end.meter.received(self.course.now(), n as u64);
                    }
                }
                Err(e) => {
                    if !self.judge(&e)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn receive(&mut self, size: Option<u64>) -> Result<(), Error> {
        let all = self.take(size.unwrap_or(u64::MAX), true)?;
        if all {
            self.end.completed = Some(self.course.now());
            self.course.complete();
        }
        Ok(())
    }

    /// Sends until the flow stops, or its size; then what is still queued here is thrown away.
    fn send(&mut self, size: Option<u64>, watch: Option<&Watch>) -> Result<(), Error> {
        if let Some(watch) = watch {
            watch.begin(&self.socket);
        }
        let done = self.pour(size.unwrap_or(u64::MAX));
        if let Some(watch) = watch {
            watch.end();
        }
        // Only a hint that spares the peer the drain of a deep queue.
        SockRef::from(&self.socket).set_linger(Some(Duration::ZERO)).ok();
        done
    }

    fn pour(&mut self, size: u64) -> Result<(), Error> {
        let chunk = vec![0; CHUNK];
        let mut left = size;
        while left > 0 && !self.is_over() {
            let most = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
            match self.socket.write(&chunk[..most]) {
                Ok(n) => left -= n as u64,
                Err(e) => {
                    if !self.judge(&e)? {
                        return Ok(());
                    }
                }
            }
        }
        // The receiver closes when it has all.
        self.take(u64::MAX, false).map(drop)
    }

    /// A client that asks, waits for the answer, and thinks.
    fn ask(&mut self, request: u64, response: u64, think: u64) -> Result<(), Error> {
        let mut random = Random::seeded(self.task.seed);
        let question = vec![b'?'; usize::try_from(request).unwrap_or(CHUNK)];
        loop {
            let asked = self.course.now();
            self.give(&question)?;
            if !self.take(response, true)? {
                return Ok(());
            }
            let now = self.course.now();
            self.end.times.push(now - asked);
            if !self.course.sleep_until(now + random.exponential(think)) {
                return Ok(());
            }
        }
    }

    /// The server that answers it.
    fn answer(&mut self, request: u64, response: u64, watch: Option<&Watch>) -> Result<(), Error> {
        if let Some(watch) = watch {
            watch.begin(&self.socket);
        }
        let answer = vec![b'!'; usize::try_from(response).unwrap_or(CHUNK)];
        while self.take(request, false)? {
            self.give(&answer)?;
        }
        if let Some(watch) = watch {
            watch.end();
        }
        Ok(())
    }
}

/// What an error of a connection means: nothing (true), its end (false), or a failure of the run.
pub(super) fn judge(task: &Task, end: &mut End, e: &io::Error) -> Result<bool, Error> {
    match e.kind() {
        _ if is_passing(e) => Ok(true),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(false),
        _ if e.raw_os_error() == Some(libc::ETIMEDOUT) => {
            end.aborted = true;
            Ok(false)
        }
        _ => Err(Error::new(format_args!("flow {} broke", task.name), e)),
    }
}

fn is_passing(e: &io::Error) -> bool {
    e.raw_os_error() != Some(libc::ETIMEDOUT)
        && matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

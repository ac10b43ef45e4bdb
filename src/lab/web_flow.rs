//! Both ends of a flow of pages: several connections at once, each end in one thread that waits for all of them.
//!
//! A question is [`pages::QUESTION`] bytes long and begins with the size of the answer. Pages begin when all connections are
//! up; the round trips and retransmissions of the flow are those of its first connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::Error;
use super::course::Course;
use super::flows::{End, Task};
use super::tcp_flow::{judge, set_up};
use super::watch::Watch;
use crate::rng::Random;
use crate::scenario::pages;

const CHUNK: usize = 64 * 1024;
/// How long one look at all connections lasts at most, so that the end of the run is noticed.
const A_MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Waits until one of them is ready for what is wanted of it; says which are.
fn ready<'a>(wanted: impl Iterator<Item = (&'a TcpStream, PollFlags)>, listener: Option<&'a TcpListener>) -> Vec<bool> {
    let mut fds: Vec<PollFd<'_>> = wanted.map(|(socket, flags)| PollFd::new(socket, flags)).collect();
    fds.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
    // An interrupted wait is one in which nothing came.
    let _ = poll(&mut fds, Some(&A_MOMENT));
    fds.iter().map(|fd| !fd.revents().is_empty()).collect()
}

fn is_over(task: &Task, course: &Course) -> bool {
    course.is_over() || course.now() >= task.stop
}

/// What one read or write says: bytes; `None` if the connection has ended.
fn went(done: io::Result<usize>, task: &Task, end: &mut End) -> Result<Option<usize>, Error> {
    match done {
        Ok(0) => Ok(None),
        Ok(n) => Ok(Some(n)),
        Err(e) => Ok(judge(task, end, &e)?.then_some(0)),
    }
}

/// A connection at the client's end.
struct Fetcher {
    socket: TcpStream,
    /// Bytes of its answer that are still to come.
    left: u64,
}

/// The client's end: opens pages until the flow stops, over connections that are up.
///
/// # Errors
/// A connection broke in another way than by the end of the flow.
pub(super) fn browse(sockets: Vec<TcpStream>, think: u64, task: &Task, course: &Course) -> Result<End, Error> {
    let mut end = End::new(course);
    let mut random = Random::seeded(task.seed);
    let mut fetchers: Vec<Fetcher> = sockets.into_iter().map(|socket| Fetcher { socket, left: 0 }).collect();
    loop {
        let began = course.now();
        if !fetch(pages::objects(&mut random), &mut fetchers, &mut end, task, course)? {
            return Ok(end);
        }
        let now = course.now();
        end.times.push(now - began);
        if !course.sleep_until(now + random.exponential(think)) || is_over(task, course) {
            return Ok(end);
        }
    }
}

/// Fetches what a page is made of; says whether it is complete.
fn fetch(
    mut objects: Vec<u64>,
    fetchers: &mut [Fetcher],
    end: &mut End,
    task: &Task,
    course: &Course,
) -> Result<bool, Error> {
    let mut chunk = vec![0; CHUNK];
    loop {
        for fetcher in fetchers.iter_mut().filter(|fetcher| fetcher.left == 0) {
            let Some(size) = objects.pop() else { break };
            let mut question = [0; pages::QUESTION as usize];
            question[..8].copy_from_slice(&size.to_be_bytes());
            if let Err(e) = fetcher.socket.write_all(&question) {
                if !judge(task, end, &e)? {
                    return Ok(false);
                }
            }
            fetcher.left = size;
        }
        if fetchers.iter().all(|fetcher| fetcher.left == 0) {
            return Ok(true);
        }
        if is_over(task, course) {
            return Ok(false);
        }
        let busy = |fetcher: &Fetcher| if fetcher.left > 0 { PollFlags::IN } else { PollFlags::empty() };
        let ready = ready(fetchers.iter().map(|fetcher| (&fetcher.socket, busy(fetcher))), None);
        for (fetcher, _) in fetchers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if fetcher.left == 0 {
                // Nothing is wanted of it, so it is broken.
                return Ok(false);
            }
            let most = CHUNK.min(usize::try_from(fetcher.left).unwrap_or(CHUNK));
            let Some(n) = went(fetcher.socket.read(&mut chunk[..most]), task, end)? else { return Ok(false) };
            fetcher.left -= n as u64;
            end.meter.received(course.now(), n as u64);
        }
    }
}

/// A connection at the server's end.
struct Answerer {
    socket: TcpStream,
    /// The part of a question that has come.
    question: [u8; pages::QUESTION as usize],
    heard: usize,
    /// Bytes of the answer that are still to be sent.
    owed: u64,
}

/// The server's end: answers on as many connections as the client opens, until it closes one or the run is over.
///
/// # Errors
/// A connection broke in another way than by the end of the flow.
pub(super) fn serve(
    listener: &TcpListener,
    connections: usize,
    task: &Task,
    course: &Course,
    watch: Option<&Watch>,
) -> Result<End, Error> {
    let mut end = End::new(course);
    let mut answerers: Vec<Answerer> = Vec::new();
    let answer = vec![b'!'; CHUNK];
    'run: while !is_over(task, course) {
        let more = (answerers.len() < connections).then_some(listener);
        let wanted = |a: &Answerer| if a.owed > 0 { PollFlags::OUT } else { PollFlags::IN };
        let ready = ready(answerers.iter().map(|a| (&a.socket, wanted(a))), more);
        if more.is_some() && ready.last() == Some(&true) {
            if let Some(socket) = accept(listener, task)? {
                if let Some(watch) = watch.filter(|_| answerers.is_empty()) {
                    watch.begin(&socket);
                }
                answerers.push(Answerer { socket, question: [0; pages::QUESTION as usize], heard: 0, owed: 0 });
            }
        }
        for (answerer, _) in answerers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if answerer.owed > 0 {
                let most = CHUNK.min(usize::try_from(answerer.owed).unwrap_or(CHUNK));
                let Some(n) = went(answerer.socket.write(&answer[..most]), task, &mut end)? else { break 'run };
                answerer.owed -= n as u64;
                continue;
            }
            let heard = answerer.socket.read(&mut answerer.question[answerer.heard..]);
            let Some(n) = went(heard, task, &mut end)? else { break 'run };
            answerer.heard += n;
            if answerer.heard == answerer.question.len() {
                answerer.heard = 0;
                answerer.owed = answerer.question.first_chunk().map_or(0, |size| u64::from_be_bytes(*size));
            }
        }
    }
    if let Some(watch) = watch {
        watch.end();
    }
    for answerer in &answerers {
        // Only a hint that spares the peer the drain of a deep queue.
        SockRef::from(&answerer.socket).set_linger(Some(Duration::ZERO)).ok();
    }
    Ok(end)
}

fn accept(listener: &TcpListener, task: &Task) -> Result<Option<TcpStream>, Error> {
    let when = || Error::when(format!("flow {}: no client", task.name));
    let socket = match listener.accept() {
        Ok((socket, _)) => socket,
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
            return Ok(None);
        }
        Err(e) => return Err(when()(e)),
    };
    set_up(SockRef::from(&socket), task)?;
    // One that is not read must not hold up the others.
    socket.set_nonblocking(true).map_err(when())?;
    Ok(Some(socket))
}

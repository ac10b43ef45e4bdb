//! A thread that turns one direction or both: read the clock, turn, and wait as long as is right.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use hdrhistogram::Histogram;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::clock;
use crate::engine::Engine;
use crate::port::{Receive, Transmit};
use crate::time::{Instant, MICROSECOND, MILLISECOND, SECOND};

/// How a worker waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Poll {
    /// Never: it spins.
    Busy,
    /// Spins a little, then sleeps.
    Adaptive,
    /// Sleeps until a frame or the discipline's next event.
    Sleep,
}

/// How long an adaptive worker spins after the last thing happened, in nanoseconds.
const SPIN: u64 = 20 * MICROSECOND;
/// How long a worker sleeps at most, in nanoseconds: its heartbeat is looked at every 100 ms.
const NAP: u64 = 33 * MILLISECOND;
/// How long it sleeps while packets wait for room in the sending device, in nanoseconds. Less than
/// what the device has takes at 10 Gbit/s.
const BLOCKED_NAP: u64 = 50 * MICROSECOND;

/// One direction as a worker has it.
pub struct Direction<R: Receive, T> {
    /// Its data plane.
    pub engine: Engine<R, T>,
    /// Tells the gate that the worker lives.
    pub heartbeat: Box<dyn Fn(Instant) + Send>,
    /// Readable when frames have arrived.
    pub wake: Vec<Arc<OwnedFd>>,
}

/// What a worker is asked to do between two turns.
type Request<R, T> = Box<dyn FnOnce(&mut [Direction<R, T>], &Lateness, Instant) + Send>;

/// How late the worker was: from when it should have turned until it did, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Lateness(pub Histogram<u64>);

impl Lateness {
    fn new() -> Self {
        Lateness(Histogram::new_with_bounds(1, 100 * SECOND, 2).expect("bounds that a histogram can have"))
    }
}

struct Shared {
    stop: AtomicBool,
    asked: AtomicBool,
    wake: OwnedFd,
}

impl Shared {
    fn wake(&self) {
        // It can only fail by being readable already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A worker that runs.
pub struct Handle<R: Receive, T> {
    shared: Arc<Shared>,
    requests: Mutex<Sender<Request<R, T>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl<R, T> Handle<R, T>
where
    R: Receive + Send + 'static,
    R::Frames: Send,
    T: Transmit<Frames = R::Frames> + Send + 'static,
{
    /// Starts a thread for some directions, on `core` if one is given.
    ///
    /// # Errors
    /// If the kernel gives no thread, timer or event.
    pub fn start(
        name: &str,
        directions: Vec<Direction<R, T>>,
        poll: Poll,
        core: Option<usize>,
    ) -> std::io::Result<Handle<R, T>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), asked: AtomicBool::new(false), wake });
        let (requests, inbox) = channel();
        let worker = Worker {
            directions,
            poll,
            timer,
            shared: Arc::clone(&shared),
            inbox,
            late: Lateness::new(),
            armed: Instant::NEVER,
        };
        let thread = std::thread::Builder::new().name(name.to_string()).spawn(move || {
            settle(core);
            worker.run();
        })?;
        Ok(Handle { shared, requests: Mutex::new(requests), thread: Some(thread) })
    }

    /// Lets the worker call `f` between two turns, and gives what it says; `None` if the worker has
    /// ended.
    pub fn ask<A: Send + 'static>(
        &self,
        f: impl FnOnce(&mut [Direction<R, T>], &Lateness, Instant) -> A + Send + 'static,
    ) -> Option<A> {
        let (answer, answered) = channel();
        let request: Request<R, T> = Box::new(move |directions, late, now| {
            // Nobody waits any more: fine.
            let _ = answer.send(f(directions, late, now));
        });
        self.requests.lock().ok()?.send(request).ok()?;
        self.shared.asked.store(true, Ordering::Release);
        self.shared.wake();
        answered.recv().ok()
    }

    /// Whether the worker has ended, by itself or by a fault.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(|t| t.is_finished())
    }
}

impl<R: Receive, T> Drop for Handle<R, T> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

/// Binds the calling thread to a core, and asks for exact timers.
fn settle(core: Option<usize>) {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if let Some(core) = core {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        // A core that is gone since it was chosen: the worker runs elsewhere.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

/// The cores this process may use.
pub fn cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![] };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|n| set.is_set(*n)).collect()
}

struct Worker<R: Receive, T> {
    directions: Vec<Direction<R, T>>,
    poll: Poll,
    timer: OwnedFd,
    shared: Arc<Shared>,
    inbox: Receiver<Request<R, T>>,
    late: Lateness,
    armed: Instant,
}

impl<R: Receive, T: Transmit<Frames = R::Frames>> Worker<R, T> {
    fn run(mut self) {
        let sources: Vec<Arc<OwnedFd>> = self.directions.iter().flat_map(|d| d.wake.iter().map(Arc::clone)).collect();
        let shared = Arc::clone(&self.shared);
        let timer = self.timer.try_clone();
        let Ok(timer) = timer else { return };
        let mut fds: Vec<PollFd<'_>> = [timer.as_fd(), shared.wake.as_fd()]
            .into_iter()
            .chain(sources.iter().map(|fd| fd.as_fd()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let mut now = clock::now();
        let mut busy_until = now;
        while !shared.stop.load(Ordering::Acquire) {
            let (idle, blocked) = self.turn(now);
            if shared.asked.load(Ordering::Relaxed) && shared.asked.swap(false, Ordering::AcqRel) {
                while let Ok(request) = self.inbox.try_recv() {
                    request(&mut self.directions, &self.late, now);
                }
            }
            let before = now;
            now = clock::now();
            if !idle {
                busy_until = now + SPIN;
            }
            let spins = match self.poll {
                Poll::Busy => true,
                Poll::Adaptive => now < busy_until,
                Poll::Sleep => false,
            };
            // What a turn that did something left undone is due at once.
            if spins || !idle {
                std::hint::spin_loop();
                self.late.0.saturating_record(now.since(before));
            } else {
                now = self.sleep(&mut fds, now, blocked);
            }
        }
    }

    fn turn(&mut self, now: Instant) -> (bool, bool) {
        let (mut idle, mut blocked) = (true, false);
        for direction in &mut self.directions {
            (direction.heartbeat)(now);
            let turn = direction.engine.turn(now);
            idle &= turn.is_idle();
            blocked |= turn.blocked;
        }
        (idle, blocked)
    }

    /// Waits for a frame, a request, or the time of the next event.
    fn sleep(&mut self, fds: &mut [PollFd<'_>], now: Instant, blocked: bool) -> Instant {
        let event = self.directions.iter().filter_map(|d| d.engine.next_event()).min().unwrap_or(Instant::NEVER);
        let nap = now + if blocked { BLOCKED_NAP } else { NAP };
        let due = event.min(nap);
        if due <= now {
            return now;
        }
        // A timer that rings too early does no harm, and setting it costs a call.
        if self.armed <= now || self.armed > due {
            let at = due.as_nanos();
            let it_value = Timespec { tv_sec: (at / SECOND) as i64, tv_nsec: (at % SECOND) as _ };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).is_err() {
                return clock::now();
            }
            self.armed = due;
        }
        for fd in fds.iter_mut() {
            fd.clear_revents();
        }
        let woken = poll(fds, None);
        let now = clock::now();
        if woken.is_ok() {
            if !fds[0].revents().is_empty() {
                let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
                self.late.0.saturating_record(now.since(self.armed));
                self.armed = Instant::NEVER;
            }
            if !fds[1].revents().is_empty() {
                let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
            }
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::classify::Hashing;
    use crate::engine::Parts;
    use crate::pipeline::Link;
    use crate::port::memory::{Chunks, MemoryRx, MemoryTx};
    use crate::rng::Random;

    fn direction(spec: &str, beats: &Arc<AtomicU64>) -> Direction<MemoryRx, MemoryTx> {
        let pipeline = crate::spec::parse(spec).expect("a good specification").spec.build(Link::default());
        let beats = Arc::clone(beats);
        Direction {
            engine: Engine::new(Parts {
                rx: MemoryRx::new(32),
                tx: MemoryTx::new(8, 1522),
                frames: Chunks::new(128, 2048),
                capacity: 128,
                pipeline,
                random: Random::seeded(1),
                hashing: Hashing::Keyed([1, 2]),
            }),
            heartbeat: Box::new(move |_| {
                beats.fetch_add(1, Ordering::Relaxed);
            }),
            wake: vec![],
        }
    }

    #[test]
    fn every_way_of_waiting_sends_what_a_shaper_lets_go_in_its_time_and_answers_meanwhile() {
        for poll in [Poll::Busy, Poll::Adaptive, Poll::Sleep] {
            let beats = Arc::new(AtomicU64::new(0));
            let both = vec![
                direction("pfifo limit 100 | tbf rate 10mbit burst 2k", &beats),
                direction("pfifo limit 100", &beats),
            ];
            let worker = Handle::start("test", both, poll, None).expect("a thread");
            worker
                .ask(|directions, _, now| {
                    for d in directions {
                        d.engine.rx_mut().arriving.extend((0..20).map(|n| (now, vec![n; 500])));
                    }
                })
                .expect("it runs");
            let sent = || {
                worker
                    .ask(|directions, _, _| [0, 1].map(|i| directions[i].engine.counters().sent_packets))
                    .expect("it runs")
            };
            while sent() != [20, 20] {
                std::thread::yield_now();
            }
            let in_order = worker
                .ask(|directions, _, _| directions.iter().all(|d| d.engine.tx().sent.iter().map(|f| f[0]).eq(0..20)));
            assert_eq!(in_order, Some(true), "{poll:?}");
            assert!(beats.load(Ordering::Relaxed) > 0);
        }
    }

    #[test]
    fn a_worker_whose_request_panics_has_ended_and_says_so() {
        let beats = Arc::default();
        let worker = Handle::start("test", vec![direction("pfifo", &beats)], Poll::Sleep, None).expect("a thread");
        assert_eq!(worker.ask(|_, _, _| panic!("on purpose")), None::<()>);
        while !worker.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(worker.ask(|_, _, _| ()), None);
    }
}

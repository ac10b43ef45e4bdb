//! The sockets' two ends at work: frames received and their homes refilled, frames sent and taken back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{RecvFlags, SendFlags};

use super::kick::{Outcome, kick};
use super::rings::{Consumer, Desc, Producer};
use super::socket::{IN_FLIGHT, TX_RING};
use super::umem::{Half, Window};
use crate::pool::{Frame, Pool, Queue};
use crate::port::{PortCounters, Receive, Transmit};
use crate::time::{Instant, MILLISECOND};

/// With nothing completed for so long, a device is given more frames than [`IN_FLIGHT`]: some
/// complete only what a later frame pushes out. In nanoseconds.
const STALL: u64 = 10 * MILLISECOND;
/// How long to leave a link alone that refused, in nanoseconds.
const RETRY: u64 = 10 * MILLISECOND;

/// What one receive queue is worked with.
#[derive(Debug)]
pub(super) struct RxQueue {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) rx: Consumer<Desc>,
    pub(super) fill: Producer<u64>,
}

/// All receive queues of one NIC.
#[derive(Debug)]
pub struct XdpRx {
    queues: Vec<RxQueue>,
    turn: usize,
    window: Window,
    lent: usize,
    counters: PortCounters,
}

impl XdpRx {
    pub(super) fn new(queues: Vec<RxQueue>, window: Window) -> Self {
        XdpRx { queues, turn: 0, window, lent: 0, counters: PortCounters::default() }
    }

    /// The descriptors to wait on for frames.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(|q| q.fd.as_fd())
    }
}

impl Receive for XdpRx {
    type Frames = Half;

    fn receive(&mut self, pool: &mut Pool, frames: &mut Half, into: &mut Queue, max: usize) -> usize {
        let mut n = 0;
        for _ in 0..self.queues.len() {
            self.turn = (self.turn + 1) % self.queues.len();
            let queue = &mut self.queues[self.turn];
            while n < max {
                let Some(desc) = queue.rx.pop() else { break };
                let known = self.window.number(desc.address);
                let Some((frame, offset)) = known.and_then(|(n, at)| Some((pool.reclaim(n)?, at))) else {
                    self.counters.rx_invalid += 1;
                    continue;
                };
                self.lent -= 1;
                let arrived = frames.take_stamp(frame.slot(), offset);
                self.counters.rx_unstamped += u64::from(arrived.is_none());
                let packet = &mut pool[&frame];
                packet.arrived = arrived.unwrap_or(Instant::NEVER);
                packet.headroom = offset as u16;
                packet.len = desc.len;
                into.push(pool, frame);
                n += 1;
            }
            queue.rx.release();
        }
        n
    }

    fn refill(&mut self, pool: &mut Pool) {
        for queue in &mut self.queues {
            let mut pushed = false;
            for _ in 0..queue.fill.free() {
                let Some(frame) = pool.take() else { break };
                let slot = pool.lend(frame);
                let fits = queue.fill.push(self.window.address(slot));
                debug_assert!(fits, "there was room");
                self.lent += 1;
                pushed = true;
            }
            if pushed {
                queue.fill.publish();
            }
            if queue.fill.needs_wakeup() {
                // Only to wake the driver; there is nothing to receive this way.
                let _ = rustix::net::recv(&queue.fd, &mut [0u8; 0], RecvFlags::DONTWAIT);
            }
        }
    }

    fn lent(&self) -> usize {
        self.lent
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// The sending side of one NIC.
#[derive(Debug)]
pub struct XdpTx {
    fd: Arc<OwnedFd>,
    ring: Producer<Desc>,
    completion: Consumer<u64>,
    window: Window,
    longest: u32,
    link: Arc<AtomicBool>,
    lent: u32,
    allowed: u32,
    progress: Instant,
    refused: Option<Instant>,
    unpublished: bool,
    counters: PortCounters,
}

impl XdpTx {
    pub(super) fn new(
        fd: Arc<OwnedFd>,
        ring: Producer<Desc>,
        completion: Consumer<u64>,
        window: Window,
        longest: u32,
        link: Arc<AtomicBool>,
    ) -> Self {
        XdpTx {
            fd,
            ring,
            completion,
            window,
            longest,
            link,
            lent: 0,
            allowed: IN_FLIGHT,
            progress: Instant::ZERO,
            refused: None,
            unpublished: false,
            counters: PortCounters::default(),
        }
    }

    /// The descriptor to wait on for room.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Transmit for XdpTx {
    type Frames = Half;

    fn room(&self) -> usize {
        if self.is_up() { self.allowed.saturating_sub(self.lent) as usize } else { 0 }
    }

    fn send(&mut self, pool: &mut Pool, _: &mut Half, frame: Frame) -> bool {
        let slot = frame.slot();
        let len = pool[slot].len;
        let Some(address) = self.window.packet(slot, &pool[slot], self.longest) else {
            self.counters.tx_invalid += 1;
            pool.give(frame);
            return false;
        };
        let slot = pool.lend(frame);
        debug_assert_eq!(slot.index(), self.window.number(address).map_or(0, |(n, _)| n as usize));
        // The ring is larger than what may be in flight, so it has room.
        let fits = self.ring.push(Desc { address, len, options: 0 });
        debug_assert!(fits, "there was room");
        self.lent += 1;
        self.unpublished = true;
        true
    }

    fn kick(&mut self, now: Instant, _: &mut Pool) {
        if self.unpublished {
            self.ring.publish();
            self.unpublished = false;
        }
        if self.ring.pending() == 0 || !self.ring.needs_wakeup() || !self.is_up() {
            return;
        }
        let (ring, fd) = (&self.ring, &self.fd);
        let kicked = kick(
            || ring.pending(),
            || rustix::net::send(fd, &[], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(|_| ()),
        );
        self.counters.kicks += u64::from(kicked.calls);
        self.counters.tx_busy += u64::from(kicked.busy);
        match kicked.outcome {
            Outcome::Empty | Outcome::Busy => {}
            Outcome::Down => {
                self.counters.tx_down += 1;
                self.refused = Some(now);
            }
            Outcome::Failed(_) => {
                self.counters.tx_errors += 1;
                self.refused = Some(now);
            }
        }
    }

    fn reclaim(&mut self, now: Instant, pool: &mut Pool) -> usize {
        let mut n = 0;
        while let Some(address) = self.completion.pop() {
            match self.window.number(address).and_then(|(number, _)| pool.reclaim(number)) {
                Some(frame) => {
                    pool.give(frame);
                    n += 1;
                }
                None => self.counters.completion_invalid += 1,
            }
        }
        if n > 0 {
            self.completion.release();
            self.lent = self.lent.saturating_sub(n);
            self.allowed = IN_FLIGHT;
        }
        if n > 0 || self.lent == 0 {
            self.progress = now;
        } else if now.since(self.progress) > STALL {
            self.progress = now;
            self.counters.tx_stalls += 1;
            self.allowed = (self.allowed + IN_FLIGHT).min(TX_RING);
        }
        if self.refused.is_some_and(|at| now.since(at) > RETRY) {
            self.refused = None;
        }
        n as usize
    }

    fn lent(&self) -> usize {
        self.lent as usize
    }

    fn is_up(&self) -> bool {
        self.refused.is_none() && self.link.load(Ordering::Relaxed)
    }

    fn longest(&self) -> u32 {
        self.longest
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

//! Looks at the senders of all flows through `TCP_INFO`, from one thread.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::course::{Course, Meter};
use super::tcp_info::TcpInfo;
use crate::scenario::result::Point;
use crate::time::{MICROSECOND, MILLISECOND};

/// Time between two looks, ns.
const TICK: u64 = 10 * MILLISECOND;

/// What was seen of one sender.
pub struct Seen {
    socket: Option<TcpStream>,
    /// Smoothed round trips, one for each look.
    pub meter: Meter,
    /// Its state at the end of each interval.
    pub points: Vec<Point>,
    /// The last look before the steady part.
    pub before_steady: TcpInfo,
    /// The last look of all.
    pub last: TcpInfo,
}

impl Seen {
    fn nothing(course: &Course) -> Seen {
        Seen {
            socket: None,
            meter: Meter::new(course),
            points: Vec::new(),
            before_steady: TcpInfo::default(),
            last: TcpInfo::default(),
        }
    }
}

/// One sender that is looked at.
pub struct Watch(Mutex<Seen>);

impl Watch {
    /// Of a flow that has no connection yet.
    pub fn new(course: &Course) -> Arc<Watch> {
        Arc::new(Watch(Mutex::new(Seen::nothing(course))))
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its sender's end is connected.
    pub fn begin(&self, socket: &TcpStream) {
        // Without a second descriptor there is nothing to look at, and the flow runs all the same.
        self.lock().socket = socket.try_clone().ok();
    }

    /// Its sender is done: a last look, and no other after it.
    pub fn end(&self) {
        let mut seen = self.lock();
        if let Some(info) = seen.socket.take().and_then(|s| TcpInfo::of(s.as_fd()).ok()) {
            seen.last = info;
        }
    }

    fn look(&self, at: u64, steady_from: u64, point: Option<u64>) {
        let mut seen = self.lock();
        let Some(info) = seen.socket.as_ref().and_then(|s| TcpInfo::of(s.as_fd()).ok()) else { return };
        if info.rtt_us > 0 && info.bytes_acked > 1 {
            seen.meter.took(at, u64::from(info.rtt_us) * MICROSECOND);
        }
        if at <= steady_from {
            seen.before_steady = info;
        }
        if let Some(at) = point {
            seen.points.push(Point {
                at,
                cwnd: info.cwnd,
                in_flight: info.in_flight,
                srtt: u64::from(info.rtt_us) * MICROSECOND,
                timeout: u64::from(info.rto_us) * MICROSECOND,
                retransmissions: u64::from(info.retransmits),
                inner: megabits_paced(info),
            });
        }
        seen.last = info;
    }

    /// Takes what was seen.
    pub fn take(&self, course: &Course) -> Seen {
        std::mem::replace(&mut *self.lock(), Seen::nothing(course))
    }
}

/// What the control steers by here: the rate at which the kernel paces the flow, Mbit/s; 0 if it does not.
fn megabits_paced(info: TcpInfo) -> f64 {
    if info.pacing_rate == u64::MAX { 0.0 } else { info.pacing_rate as f64 * 8.0 / 1e6 }
}

/// Looks at all of them until the run is over.
pub fn look_at(watches: &[Arc<Watch>], course: &Course) {
    let tick = TICK.min(course.interval);
    let mut next = tick;
    let mut step = course.interval;
    while course.sleep_until(next) {
        let now = course.now();
        let point = (now >= step).then_some(step);
        watches.iter().for_each(|w| w.look(now, course.steady_from, point));
        if point.is_some() {
            step += course.interval * (1 + (now - step) / course.interval);
        }
        next = (next + tick).max(now + tick / 2);
    }
}

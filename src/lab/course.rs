//! The course of a run: one clock for all who take part, and one word to end it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Error;
use crate::scenario::Scenario;
use crate::scenario::result::nanoseconds;

/// A run's clock and end. All times are ns after the begin.
pub struct Course {
    begin: Instant,
    /// When it ends.
    pub duration: u64,
    /// When figures begin to count.
    pub steady_from: u64,
    /// Width of a step of a series.
    pub interval: u64,
    over: AtomicBool,
    /// Flows with a size that are not complete; with `until_complete`, the last one ends the run.
    open: AtomicUsize,
    until_complete: bool,
    stopped: Mutex<Option<Stop>>,
    changed: Condvar,
}

/// Why a run ended before its time.
#[derive(Clone, Debug)]
enum Stop {
    Complete(u64),
    Interrupted,
    Failed(String),
}

impl Course {
    /// One that begins now, with so many flows that have an end of their own.
    pub fn begin(scenario: &Scenario, sized: usize) -> Course {
        Course {
            begin: Instant::now(),
            duration: scenario.duration,
            steady_from: scenario.steady_from,
            interval: scenario.interval,
            over: AtomicBool::new(false),
            open: AtomicUsize::new(sized),
            until_complete: scenario.until_complete && sized > 0,
            stopped: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    /// Time since the begin.
    pub fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// The moment of a time of the same clock.
    pub fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.begin).as_nanos() as u64
    }

    /// Whether all shall end.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.now() >= self.duration
    }

    /// True as soon as somebody has ended it early.
    pub fn early_end(&self) -> &AtomicBool {
        &self.over
    }

    /// Sleeps until a time, and says whether that was reached before the end.
    pub fn sleep_until(&self, at: u64) -> bool {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = self.now();
            if stopped.is_some() || now >= self.duration {
                return false;
            }
            if now >= at {
                return true;
            }
            let left = Duration::from_nanos(at.min(self.duration) - now);
            stopped = self.changed.wait_timeout(stopped, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn stop(&self, why: Stop) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.over.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// A flow with a size is complete.
    pub fn complete(&self) {
        if self.open.fetch_sub(1, Ordering::Relaxed) == 1 && self.until_complete {
            self.stop(Stop::Complete(self.now()));
        }
    }

    /// Somebody at the terminal has seen enough.
    pub fn interrupt(&self) {
        self.stop(Stop::Interrupted);
    }

    /// Something went wrong; the run is worth nothing.
    pub fn fail(&self, why: &Error) {
        self.stop(Stop::Failed(why.to_string()));
    }

    /// How long it was.
    ///
    /// # Errors
    /// It failed, or was interrupted.
    pub fn result(&self) -> Result<u64, Error> {
        match self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            None => Ok(self.duration),
            Some(Stop::Complete(at)) => Ok(at.min(self.duration)),
            Some(Stop::Interrupted) => Err(Error("interrupted; all that was made is gone".into())),
            Some(Stop::Failed(why)) => Err(Error(why)),
        }
    }
}

/// What arrives at one end, over time.
pub struct Meter {
    steady_from: u64,
    interval: u64,
    duration: u64,
    /// All bytes.
    pub bytes: u64,
    /// Those of the steady part.
    pub steady_bytes: u64,
    /// Bytes by interval.
    pub series: Vec<u64>,
    /// Round trips or one-way delays of the steady part, ns.
    pub rtt: Histogram<u64>,
    /// By interval: samples, sum, largest, ns.
    pub rtt_series: Vec<(u64, u64, u64)>,
}

impl Meter {
    /// An empty one.
    pub fn new(course: &Course) -> Meter {
        Meter {
            steady_from: course.steady_from,
            interval: course.interval,
            duration: course.duration,
            bytes: 0,
            steady_bytes: 0,
            series: Vec::new(),
            rtt: nanoseconds(),
            rtt_series: Vec::new(),
        }
    }

    fn step(&self, at: u64) -> usize {
        (at / self.interval) as usize
    }

    /// Bytes reached the application.
    pub fn received(&mut self, at: u64, bytes: u64) {
        if at >= self.duration {
            return;
        }
        let step = self.step(at);
        if self.series.len() <= step {
            self.series.resize(step + 1, 0);
        }
        self.series[step] += bytes;
        self.bytes += bytes;
        if at >= self.steady_from {
            self.steady_bytes += bytes;
        }
    }

    /// A round trip or a one-way delay.
    pub fn took(&mut self, at: u64, ns: u64) {
        if at >= self.duration {
            return;
        }
        let step = self.step(at);
        if self.rtt_series.len() <= step {
            self.rtt_series.resize(step + 1, (0, 0, 0));
        }
        let (n, sum, worst) = &mut self.rtt_series[step];
        (*n, *sum, *worst) = (*n + 1, *sum + ns, (*worst).max(ns));
        if at >= self.steady_from {
            self.rtt.saturating_record(ns.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    fn course(sized: usize) -> Course {
        let mut scenario = Scenario::empty("test");
        scenario.until_complete = true;
        Course::begin(&scenario, sized)
    }

    #[test]
    fn the_last_flow_to_complete_ends_the_run_and_wakes_who_sleeps() {
        let course = course(2);
        course.complete();
        assert!(!course.is_over());
        course.complete();
        assert!(course.is_over() && !course.sleep_until(20 * SECOND));
        assert!(course.result().is_ok_and(|at| at < 20 * SECOND));
    }

    #[test]
    fn the_first_failure_is_what_is_told() {
        let course = course(1);
        course.fail(&Error("no such".into()));
        course.interrupt();
        assert_eq!(course.result().expect_err("failed").to_string(), "no such");
    }

    #[test]
    fn a_meter_puts_bytes_into_steps_and_counts_the_steady_part() {
        let mut meter = Meter::new(&course(0));
        meter.received(SECOND / 20, 10);
        meter.received(5 * SECOND, 7);
        meter.received(31 * SECOND, 9);
        assert_eq!((meter.bytes, meter.steady_bytes, meter.series.len()), (17, 7, 51));
        assert_eq!((meter.series[0], meter.series[50]), (10, 7));
    }
}

//! What is measured of a flow, and what a run gives.

use hdrhistogram::Histogram;

use super::tcp::Phase;
use super::{ORIGIN, elapsed};
use crate::pipeline::Pipeline;
use crate::scenario::result::{FlowResult, Point, nanoseconds};
use crate::time::{Instant, SECOND};

/// The instruments of one flow.
pub(super) struct Record {
    name: String,
    group: String,
    kind: String,
    steady: bool,
    up: bool,
    started: Instant,
    bytes: u64,
    steady_bytes: u64,
    steady_from: Instant,
    series: Vec<u64>,
    this_interval: u64,
    points: Vec<Point>,
    rtt: Histogram<u64>,
    rtt_series: Vec<(u64, u64, u64)>,
    interval_rtt: (u64, u64, u64),
    times: Vec<u64>,
    sent: u64,
    received: u64,
    completed: Option<u64>,
    stopped: Option<Instant>,
    aborted: bool,
    at_steady: (u64, u64, u64),
    retransmissions: [u64; 2],
    timeouts: u64,
    delivered: u64,
    echoed: [u64; 2],
}

impl Record {
    pub(super) fn new(name: String, group: String, kind: String, up: bool, started: Instant) -> Self {
        Record {
            name,
            group,
            kind,
            up,
            steady: false,
            started,
            bytes: 0,
            steady_bytes: 0,
            steady_from: ORIGIN,
            series: Vec::new(),
            this_interval: 0,
            points: Vec::new(),
            rtt: nanoseconds(),
            rtt_series: Vec::new(),
            interval_rtt: (0, 0, 0),
            times: Vec::new(),
            sent: 0,
            received: 0,
            completed: None,
            stopped: None,
            aborted: false,
            at_steady: (0, 0, 0),
            retransmissions: [0, 0],
            timeouts: 0,
            delivered: 0,
            echoed: [0, 0],
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Payload reached the application.
    pub(super) fn received(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.this_interval += bytes;
    }

    /// A round trip, or a one-way delay.
    pub(super) fn rtt(&mut self, _now: Instant, ns: u64) {
        self.rtt.saturating_record(ns);
        let (n, sum, worst) = &mut self.interval_rtt;
        (*n, *sum, *worst) = (*n + 1, *sum + ns, (*worst).max(ns));
    }

    /// A datagram or an echo request was sent.
    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    /// … and came.
    pub(super) fn came(&mut self) {
        self.received += 1;
    }

    /// A question was answered, or a page is complete.
    pub(super) fn time(&mut self, ns: u64) {
        self.times.push(ns);
    }

    pub(super) fn complete(&mut self, now: Instant) -> bool {
        let first = self.completed.is_none() && !self.aborted;
        if first {
            self.completed = Some(now.since(self.started));
        }
        first
    }

    /// Notes that it never will be complete; gives whether that is news.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        let first = self.completed.is_none() && !self.aborted;
        if first {
            self.aborted = true;
            self.stopped(now);
        }
        first
    }

    pub(super) fn stopped(&mut self, now: Instant) {
        self.stopped = self.stopped.or(Some(now));
    }

    pub(super) fn point(&mut self, point: Point) {
        self.points.push(point);
    }

    /// An interval is over.
    pub(super) fn tick(&mut self) {
        self.series.push(std::mem::take(&mut self.this_interval));
        let (n, sum, worst) = std::mem::take(&mut self.interval_rtt);
        self.rtt_series.push((n, sum.checked_div(n).unwrap_or(0), worst));
    }

    /// The steady part begins; `figures` are retransmissions, packets delivered, packets echoed so far.
    pub(super) fn begin_steady(&mut self, now: Instant, figures: (u64, u64, u64)) {
        if !self.steady {
            self.steady = true;
            self.steady_from = now;
            self.rtt.reset();
            self.steady_bytes = self.bytes;
        }
        let (a, b, c) = &mut self.at_steady;
        (*a, *b, *c) = (*a + figures.0, *b + figures.1, *c + figures.2);
    }

    pub(super) fn finish(&mut self, phase: Option<Phase>, figures: (u64, u64, u64, u64)) {
        self.retransmissions[0] += figures.0;
        self.timeouts += figures.1;
        self.delivered += figures.2;
        self.echoed[0] += figures.3;
        self.aborted |= phase == Some(Phase::Aborted);
    }

    pub(super) fn result(mut self, now: Instant) -> FlowResult {
        self.retransmissions[1] = self.retransmissions[0] - self.at_steady.0;
        self.echoed[1] = self.echoed[0] - self.at_steady.2;
        let end = self.completed.map_or(self.stopped.unwrap_or(now), |ns| self.started + ns);
        // A flow counts from the beginning of the steady part, or from its own if that is later.
        let (from, bytes) = match self.steady && self.steady_from > self.started && end > self.steady_from {
            true => (self.steady_from, self.bytes - self.steady_bytes),
            false => (self.started, self.bytes),
        };
        let time = end.since(from).max(1);
        FlowResult {
            name: self.name,
            group: self.group,
            kind: self.kind,
            up: self.up,
            bytes: self.bytes,
            goodput: bytes as f64 * 8.0 * SECOND as f64 / time as f64,
            series: self.series,
            points: self.points,
            rtt: self.rtt,
            rtt_series: self.rtt_series,
            times: self.times,
            sent: self.sent,
            received: self.received,
            completed: self.completed,
            aborted: self.aborted,
            retransmissions: self.retransmissions,
            timeouts: self.timeouts,
            delivered: self.delivered,
            echoed: self.echoed,
        }
    }
}

/// The state of queues, for people.
pub(super) fn dump(ports: &[(String, &Pipeline, u32)], now: Instant) -> String {
    use std::fmt::Write;
    let mut out = format!("at {:.6} s\n", elapsed(now) as f64 / 1e9);
    for (name, pipeline, flying) in ports {
        let (packets, bytes) = (pipeline.packets(), pipeline.bytes());
        let _ = writeln!(out, "{name}: {packets} packets, {bytes} bytes held; {flying} in flight behind it");
        for stage in pipeline.stats(now) {
            let _ = writeln!(out, "  {stage:?}");
        }
    }
    out
}

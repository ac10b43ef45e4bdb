//! The device that pulls packets in virtual time.
//!
//! An idle device asks after each single arrival, one call after another, until it gets nothing or
//! is busy with what it got. A watchdog is one timer, exact to the nanosecond. At one instant:
//! first the arrivals, then the end of the busy period, then the watchdog (a controller's too). (The live engine enqueues
//! a burst and then serves; decisions.md 12.)

use std::collections::HashMap;

use crate::classify::{Hashing, Headers};
use crate::packet::Packet;
use crate::pipeline::Pipeline;
use crate::pool::{Frame, Pool, Slot};
use crate::qdisc::{Cx, Drops, Frames, Levels};
use crate::rng::Random;
use crate::stats::StageStats;
use crate::time::Instant;
use crate::trace::format::{Arrival, Outcome};
use crate::trace::line::{Event, Line};
use crate::wire::build::{Build, TcpFields};

/// What a run is made with.
pub struct Setup {
    /// Rate of the link below, bits per second; `None` if it is never busy.
    pub link_bps: Option<u64>,
    /// What the clock shows at t = 0. Far from zero, so that zeroed state counts as long past.
    pub clock_base: Instant,
    /// Random numbers.
    pub random: Random,
}

/// The clock base of the recorded traces: 2^40 ns, a multiple of CoDel's tick.
pub const CLOCK_BASE: Instant = Instant::from_nanos(1 << 40);

/// What a run gave.
pub struct Run {
    /// One for each arrival, in the order the decisions were taken.
    pub outcomes: Vec<Outcome>,
    /// Largest number of packets, bytes held right after an arrival.
    pub peak_packets: u32,
    /// See `peak_packets`.
    pub peak_bytes: u64,
    /// Largest memory and tins, likewise.
    pub peak_levels: Levels,
    /// 16-bit and 32-bit draws.
    pub draws: [u64; 2],
    /// The moment of the last event.
    pub end: Instant,
    /// Runs of a controller, if there is one.
    pub updates: Vec<Update>,
}

/// One run of dualpi2's controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// When, ns after the clock base.
    pub t_ns: u64,
    /// Age of the head of each queue (classic, low latency), ns; 0 if it is empty.
    pub delays_ns: [u64; 2],
    /// Packets in each queue.
    pub qlens: [u32; 2],
    /// Bytes in both.
    pub backlog: u64,
    /// Base probability after the run, units of 2^−32.
    pub prob: u32,
}

/// What is known of the packets in the queue beside their records: number and headers, by slot.
#[derive(Default)]
struct Heads(HashMap<usize, (u64, Vec<u8>)>);

impl Frames for Heads {
    fn bytes(&self, slot: Slot, _: &Packet) -> &[u8] {
        self.0.get(&slot.index()).map_or(&[], |(_, bytes)| bytes)
    }
    fn bytes_mut(&mut self, slot: Slot, _: &Packet) -> &mut [u8] {
        self.0.get_mut(&slot.index()).map_or(&mut [], |(_, bytes)| bytes)
    }
    fn copy(&mut self, from: Slot, to: Slot, _: &Packet) {
        if let Some(head) = self.0.get(&from.index()).cloned() {
            self.0.insert(to.index(), head);
        }
    }
}

struct Device<'p> {
    pipeline: &'p mut Pipeline,
    setup: Setup,
    pool: Pool,
    drops: Drops,
    hashing: Hashing,
    heads: Heads,
    line: Line,
    run: Run,
}

macro_rules! cx {
    ($d:expr) => {
        &mut Cx {
            pool: &mut $d.pool,
            drops: &mut $d.drops,
            random: &mut $d.setup.random,
            hashing: &mut $d.hashing,
            frames: &mut $d.heads,
        }
    };
}

/// Runs `arrivals` through a pipeline; `after_last` sees it right after the last arrival was served.
pub fn run(
    pipeline: &mut Pipeline,
    setup: Setup,
    arrivals: &[Arrival],
    after_last: impl FnOnce(&Pipeline, Instant),
) -> Run {
    let base = setup.clock_base;
    pipeline.start(base);
    let line = Line::new(setup.link_bps, pipeline.next_event());
    let mut device = Device {
        pipeline,
        setup,
        // Room for a copy of each, which netem may make.
        pool: Pool::new(2 * arrivals.len()),
        drops: Drops::default(),
        hashing: Hashing::Numbered(Default::default()),
        heads: Heads::default(),
        line,
        run: Run {
            outcomes: Vec::with_capacity(arrivals.len()),
            peak_packets: 0,
            peak_bytes: 0,
            peak_levels: Levels::default(),
            draws: [0, 0],
            end: base,
            updates: Vec::new(),
        },
    };
    for arrival in arrivals {
        let now = base + arrival.t_ns;
        device.advance(now, false);
        device.arrive(now, arrival);
    }
    if let Some(last) = arrivals.last() {
        after_last(device.pipeline, base + last.t_ns);
    }
    device.advance(Instant::NEVER, true);
    device.run.draws = [device.setup.random.draws16, device.setup.random.draws32];
    device.run
}

impl Device<'_> {
    /// Handles the events before `until` (or up to the end of the queue).
    fn advance(&mut self, until: Instant, to_the_end: bool) {
        loop {
            let drained = to_the_end && self.line.is_idle() && self.pipeline.packets() == 0;
            let timer = self.line.watchdog().filter(|_| self.pipeline.stages().any(|s| s.ends_by_timer()));
            if drained && timer.is_none() {
                return;
            }
            let Some((next, event)) = self.line.next(until) else { return };
            self.run.end = next;
            if event == Event::Tick {
                self.pipeline.tick(next, cx!(self));
                self.collect_drops(next);
                self.note_update(next);
            }
            self.serve(next);
            if drained {
                return;
            }
        }
    }

    fn arrive(&mut self, now: Instant, a: &Arrival) {
        let mut bytes = Vec::new();
        let tcp = a.tcp.as_ref().map(|(flags, seq, ack, options)| TcpFields {
            flags: *flags,
            seq: *seq,
            ack: *ack,
            options: options.clone(),
        });
        Build {
            len: a.len,
            src: a.src,
            dst: a.dst,
            protocol: a.protocol,
            sport: a.sport,
            dport: a.dport,
            ds: a.ds,
            tcp,
        }
        .write(&mut bytes);
        let headers = Headers::parse(&bytes);
        let frame = self.pool.take().expect("the pool has a record for each arrival");
        let packet = &mut self.pool[&frame];
        *packet = Packet {
            arrived: now,
            len: a.len,
            truesize: a.truesize,
            charged: a.len,
            fwmark: a.fwmark,
            priority: a.priority,
            ..Packet::default()
        };
        headers.apply(packet);
        self.heads.0.insert(frame.slot().index(), (a.id, bytes));
        self.pipeline.enqueue(now, frame, &headers, cx!(self));
        self.run.end = now;
        self.run.peak_packets = self.run.peak_packets.max(self.pipeline.packets());
        self.run.peak_bytes = self.run.peak_bytes.max(self.pipeline.bytes());
        if let Some(root) = self.pipeline.stages().next_back() {
            self.run.peak_levels.raise(&root.levels());
        }
        self.collect_drops(now);
        self.serve(now);
    }

    /// Asks for packets until there is none or the device is busy.
    fn serve(&mut self, now: Instant) {
        while self.line.is_idle() {
            let frame = self.pipeline.dequeue(now, cx!(self));
            self.collect_drops(now);
            let Some(frame) = frame else { break };
            self.line.send(now, self.pool[&frame].len);
            self.record(now, frame, None);
        }
        self.line.wait_for(self.pipeline.next_event(), now);
    }

    /// Notes the controller's run, if this event was one.
    fn note_update(&mut self, now: Instant) {
        let Some(StageStats::Dualpi2(s)) = self.pipeline.stages().next_back().map(|s| s.stats(now)) else { return };
        if s.runs > self.run.updates.len() as u64 {
            self.run.updates.push(Update {
                t_ns: now.since(self.setup.clock_base),
                delays_ns: [s.delay_c_ns, s.delay_l_ns],
                qlens: [s.basic.qlen - s.l.qlen, s.l.qlen],
                backlog: s.basic.backlog,
                prob: s.prob,
            });
        }
    }

    fn collect_drops(&mut self, now: Instant) {
        while let Some((frame, reason)) = self.drops.pop(&mut self.pool) {
            self.record(now, frame, Some(reason));
        }
    }

    fn record(&mut self, now: Instant, frame: Frame, dropped: Option<crate::qdisc::Reason>) {
        let packet = self.pool[&frame];
        let slot = frame.slot().index();
        let (id, _) = self.heads.0.remove(&slot).expect("every packet has a number");
        let seen = self.pipeline.stages().next_back().map(|s| s.observe(&packet)).unwrap_or_default();
        self.run.outcomes.push(Outcome {
            id,
            t_ns: now.since(self.setup.clock_base),
            sojourn_ns: now.since(packet.arrived),
            marks: packet.marks,
            dropped,
            len: packet.len,
            ds: packet.ds,
            seen,
        });
        self.pool.give(frame);
    }
}

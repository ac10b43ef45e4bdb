//! What is measured at a port: sojourn, depth, marks and drops.

use hdrhistogram::Histogram;

use crate::packet::Packet;
use crate::pipeline::Pipeline;
use crate::qdisc::Reason;
use crate::scenario::result::{Depth, PortResult, Verdict, nanoseconds};
use crate::time::Instant;

/// The instruments of one port.
pub struct Gauge {
    name: String,
    shown: bool,
    total: Histogram<u64>,
    decision: Histogram<u64>,
    marks: u64,
    drops: u64,
    steady_marks: u64,
    steady_drops: u64,
    sent_packets: u64,
    sent_bytes: u64,
    peak_packets: u32,
    peak_bytes: u64,
    worst: u64,
    depth: Vec<Depth>,
    verdicts: Option<Vec<Verdict>>,
}

impl Gauge {
    /// Instruments of the port called `name`.
    pub fn new(name: String, shown: bool) -> Self {
        Gauge {
            name,
            shown,
            total: nanoseconds(),
            decision: nanoseconds(),
            marks: 0,
            drops: 0,
            steady_marks: 0,
            steady_drops: 0,
            sent_packets: 0,
            sent_bytes: 0,
            peak_packets: 0,
            peak_bytes: 0,
            worst: 0,
            depth: Vec::new(),
            verdicts: None,
        }
    }

    /// The port's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether there is a pipeline to speak of.
    pub fn shown(&self) -> bool {
        self.shown
    }

    /// The depth right after an arrival.
    pub fn held(&mut self, packets: u32, bytes: u64) {
        self.peak_packets = self.peak_packets.max(packets);
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    /// A packet leaves.
    pub fn left(&mut self, now: Instant, packet: &Packet, flow: u32) {
        if !self.shown {
            return;
        }
        let sojourn = now.since(packet.arrived);
        self.total.saturating_record(sojourn);
        self.decision.saturating_record(packet.released.since(packet.enqueued));
        self.worst = self.worst.max(sojourn);
        self.sent_packets += 1;
        self.sent_bytes += u64::from(packet.len);
        let marked = !packet.marks.is_empty();
        self.marks += u64::from(marked);
        if let Some(verdicts) = &mut self.verdicts {
            let (len, ds, tin) = (packet.len, packet.ds, packet.tin);
            verdicts.push(Verdict { at: now, flow, len, sojourn, dropped: None, marked, ds, tin });
        }
    }

    /// A packet is dropped.
    pub fn dropped(&mut self, now: Instant, packet: &Packet, flow: u32, reason: Reason) {
        self.drops += 1;
        if let Some(verdicts) = &mut self.verdicts {
            let (len, ds, tin, sojourn) = (packet.len, packet.ds, packet.tin, now.since(packet.arrived));
            verdicts.push(Verdict { at: now, flow, len, sojourn, dropped: Some(reason), marked: false, ds, tin });
        }
    }

    /// Notes the depth.
    pub fn sample(&mut self, at: Instant, pipeline: &Pipeline) {
        if self.shown {
            self.depth.push(Depth {
                at,
                packets: pipeline.packets(),
                bytes: pipeline.bytes(),
                marks: self.marks,
                drops: self.drops,
                sent_bytes: self.sent_bytes,
                worst: std::mem::take(&mut self.worst),
            });
        }
    }

    /// The steady part begins here.
    pub fn begin_steady(&mut self) {
        self.total.reset();
        self.decision.reset();
        (self.steady_marks, self.steady_drops) = (self.marks, self.drops);
    }

    /// Remembers each packet from now on.
    pub fn trace(&mut self) {
        if self.shown {
            self.verdicts = Some(Vec::new());
        }
    }

    /// Reads the instruments off.
    pub fn finish(self, now: Instant, pipeline: &Pipeline) -> PortResult {
        PortResult {
            name: self.name,
            total: self.total,
            decision: self.decision,
            marks: [self.marks, self.marks - self.steady_marks],
            drops: [self.drops, self.drops - self.steady_drops],
            sent_packets: self.sent_packets,
            sent_bytes: self.sent_bytes,
            peak: (self.peak_packets, self.peak_bytes),
            depth: self.depth,
            verdicts: self.verdicts.unwrap_or_default(),
            stages: pipeline.stats(now),
        }
    }
}

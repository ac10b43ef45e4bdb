//! Delivery rate (draft-cheng-iccrg-delivery-rate-estimation): how much arrived between the sending
//! of a packet and the news of its arrival, over the longer of the times that sending and
//! acknowledging took.

use super::scoreboard::Seg;
use crate::time::Instant;

/// What was known when a packet was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Packets delivered by then.
    pub delivered: u64,
    /// Marked packets among them.
    pub delivered_ce: u64,
    /// Packets taken for lost by then.
    pub lost: u64,
    /// When the last of them was.
    pub delivered_at: Instant,
    /// When the first packet of the flight under way was sent.
    pub first_sent: Instant,
    /// Packets in flight, this one included.
    pub in_flight: u32,
    /// Whether the sender had nothing to send.
    pub app_limited: bool,
}

/// A sample of the rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The snapshot of the newest packet delivered.
    pub before: Snapshot,
    /// Packets delivered since that was sent.
    pub delivered: u64,
    /// Marked among them.
    pub delivered_ce: u64,
    /// Packets taken for lost since.
    pub lost: u64,
    /// Over so many ns; zero if there is no sample.
    pub interval: u64,
}

impl Sample {
    /// Packets per second, if there is a sample.
    pub fn rate(&self) -> Option<f64> {
        (self.interval > 0).then(|| self.delivered as f64 * 1e9 / self.interval as f64)
    }
}

/// The sums of a connection.
#[derive(Debug, Default)]
pub struct Sampler {
    /// Packets delivered.
    pub delivered: u64,
    /// Marked among them, by the receiver's word.
    pub delivered_ce: u64,
    /// Packets taken for lost.
    pub lost: u64,
    delivered_at: Instant,
    first_sent: Instant,
    limited_until: u64,
    newest: Option<(Snapshot, u64)>,
}

impl Sampler {
    /// The snapshot for a packet that is sent now as number `in_flight`.
    pub fn snapshot(&mut self, now: Instant, in_flight: u32) -> Snapshot {
        if in_flight == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_ce: self.delivered_ce,
            lost: self.lost,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            in_flight: in_flight + 1,
            app_limited: self.limited_until > 0,
        }
    }

    /// The sender has nothing to send, with `in_flight` packets under way.
    pub fn app_limited(&mut self, in_flight: u32) {
        self.limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// A packet was delivered.
    pub fn delivered(&mut self, now: Instant, seg: &Seg) {
        self.delivered += 1;
        self.delivered_at = now;
        let newer = self.newest.is_none_or(|(s, _)| seg.snapshot.delivered >= s.delivered);
        if newer {
            let sending = seg.sent.since(seg.snapshot.first_sent);
            self.newest = Some((seg.snapshot, sending));
            self.first_sent = seg.sent;
        }
    }

    /// The sample of the acknowledgement that was just taken in. None if the interval is shorter than
    /// the smallest round trip.
    pub fn take(&mut self, min_rtt: u64) -> Sample {
        if self.limited_until > 0 && self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        let Some((before, sending)) = self.newest.take() else { return Sample::default() };
        let interval = sending.max(self.delivered_at.since(before.delivered_at));
        Sample {
            before,
            delivered: self.delivered - before.delivered,
            delivered_ce: self.delivered_ce - before.delivered_ce,
            lost: self.lost - before.lost,
            interval: if interval < min_rtt { 0 } else { interval },
        }
    }
}

//! Congestion control: what a window or a rate makes of acknowledgements, losses and marks.
//!
//! Two kinds. A *window* control says by how much to shrink and how to grow; the way down is the
//! sender's (proportional rate reduction, RFC 9937). A *model* control (BBR) sets window and pace
//! itself at every acknowledgement.

mod bbr;
mod bbr2;
mod cubic;
mod dctcp;
mod filter;
mod hystart;
mod prague;
mod reno;

pub use hystart::SlowStart;
pub(in crate::sim) use reno::SMALL_MSS;

use super::rate::Sample;
use crate::sim::tcp::receiver::Echo;
use crate::sim::tcp::sender::Bounds;
use crate::time::Instant;

/// What the sender is doing about congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// Nothing is wrong.
    #[default]
    Open,
    /// Shrinking because of a mark.
    Cwr,
    /// Repairing losses.
    Recovery,
    /// After a timeout.
    Loss,
}

/// Why the window shrinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A lost packet.
    Loss,
    /// A mark.
    Mark,
    /// The retransmission timer.
    Timeout,
}

/// The window in packets, and the pace.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Packets that may be in flight.
    pub cwnd: u32,
    /// Where slow start ends.
    pub ssthresh: u32,
    /// Bytes per second; `None` sends as the window allows.
    pub pacing: Option<f64>,
    credit: f64,
    counted: u32,
}

/// The initial window (RFC 6928), packets.
pub const INITIAL_WINDOW: u32 = 10;
/// The largest window, packets.
const LARGEST: u32 = 1 << 20;

impl Window {
    /// At the start of a connection.
    pub fn new() -> Self {
        Window { cwnd: INITIAL_WINDOW, ssthresh: u32::MAX, pacing: None, credit: 0.0, counted: 0 }
    }

    /// Whether the window is below where it was last too large.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start: a packet more for each delivered. Gives the deliveries left over beyond ssthresh.
    pub fn slow_start(&mut self, delivered: u32) -> u32 {
        let target = self.cwnd.saturating_add(delivered).min(self.ssthresh).min(LARGEST);
        let left = delivered - (target - self.cwnd).min(delivered);
        self.cwnd = target;
        left
    }

    /// Adds `per_packet` packets for each of `delivered`, saving up fractions.
    pub fn add(&mut self, per_packet: f64, delivered: u32) {
        self.credit += per_packet * f64::from(delivered);
        let whole = self.credit.floor().max(0.0);
        self.credit -= whole;
        self.cwnd = self.cwnd.saturating_add(whole as u32).min(LARGEST);
    }

    /// A packet for each `wait` delivered, counted whole as Linux does: what was counted while the wait was longer
    /// is good for one packet when it becomes short.
    pub fn count(&mut self, wait: u32, delivered: u32) {
        let wait = wait.max(1);
        if self.counted >= wait {
            self.counted = 0;
            self.cwnd += 1;
        }
        self.counted += delivered;
        self.cwnd = self.cwnd.saturating_add(self.counted / wait).min(LARGEST);
        self.counted %= wait;
    }

    /// Forgets saved fractions.
    pub fn forget(&mut self) {
        self.credit = 0.0;
        self.counted = 0;
    }
}

impl Default for Window {
    fn default() -> Self {
        Window::new()
    }
}

/// What an acknowledgement says, for controls.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Now.
    pub now: Instant,
    /// Packets newly delivered.
    pub delivered: u32,
    /// Marked among them, by the receiver's word.
    pub marked: u32,
    /// Packets newly taken for lost.
    pub lost: u32,
    /// Round trip of the newest packet sent once, ns.
    pub rtt: Option<u64>,
    /// Smallest round trip, ns.
    pub min_rtt: u64,
    /// Smoothed round trip, ns.
    pub srtt: u64,
    /// Cumulative edge, bytes.
    pub una: u64,
    /// Next byte to be sent.
    pub nxt: u64,
    /// Packets in flight before this acknowledgement.
    pub prior_in_flight: u32,
    /// Packets in flight now.
    pub in_flight: u32,
    /// Packets delivered since the start.
    pub total_delivered: u64,
    /// The delivery rate.
    pub sample: Sample,
    /// The sender's state after this acknowledgement.
    pub state: State,
    /// Whether the window was what limited the sender.
    pub limited: bool,
}

/// The sums of a connection before an acknowledgement's own packets.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// The cumulative edge that the acknowledgement brings, bytes.
    pub una: u64,
    /// Next byte to be sent.
    pub nxt: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Marked among them, by the receiver's word.
    pub marked: u64,
}

/// A congestion control.
pub trait Control: Send {
    /// How marks are to be told, if ECN is negotiated.
    fn echo(&self) -> Echo {
        Echo::Classic
    }

    /// Whether it sets window and pace itself.
    fn is_model(&self) -> bool {
        false
    }

    /// Every acknowledgement, before anything is made of it.
    fn on_arrival(&mut self, _so_far: &Totals) {}

    /// Every acknowledgement, before anything grows. A model control does all its work here.
    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    /// The window may grow.
    fn grow(&mut self, window: &mut Window, ack: &Ack);

    /// Congestion: gives the new ssthresh, at least two packets.
    fn reduce(&mut self, window: &Window, now: Instant, cause: Cause) -> u32;

    /// The sender's state changes.
    fn on_state(&mut self, _window: &mut Window, _from: State, _to: State) {}

    /// The reduction was for nothing.
    fn undo(&mut self) {}

    /// How long trains of segments may be.
    fn train(&self, _window: &Window) -> Bounds {
        Bounds::default()
    }

    /// What it steers by, for pictures: bottleneck bandwidth in bytes/s, alpha, W_max, …
    fn inner(&self) -> f64 {
        0.0
    }
}

/// The controls, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
    /// BBR, first version.
    Bbr,
    /// BBR, second version: heeds marks and losses.
    Bbr2,
    /// Scalable, ECT(1), accurate ECN.
    Prague,
    /// A fixed small window, go-back-N: the stack of the `rto` scenario.
    Fixed,
}

impl Kind {
    /// All with their names.
    pub const ALL: [(&'static str, Kind); 7] = [
        ("reno", Kind::Reno),
        ("cubic", Kind::Cubic),
        ("dctcp", Kind::Dctcp),
        ("bbr", Kind::Bbr),
        ("bbr2", Kind::Bbr2),
        ("prague", Kind::Prague),
        ("fixed", Kind::Fixed),
    ];

    /// By name.
    pub fn named(name: &str) -> Option<Kind> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, k)| *k)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, k)| *k == self).map_or("", |(n, _)| n)
    }

    /// A fresh one, for segments of `mss` bytes; `seed` where it draws lots.
    pub fn make(self, mss: u32, slow_start: SlowStart, seed: u64) -> Box<dyn Control> {
        match self {
            Kind::Reno => Box::new(reno::Reno),
            Kind::Cubic => Box::new(cubic::Cubic::new(slow_start)),
            Kind::Dctcp => Box::new(dctcp::Dctcp::new()),
            Kind::Bbr => Box::new(bbr::Bbr::new(mss, seed)),
            Kind::Bbr2 => Box::new(bbr2::Bbr2::new(mss, seed)),
            Kind::Prague => Box::new(prague::Prague::new(mss)),
            Kind::Fixed => Box::new(reno::Fixed),
        }
    }
}

//! How many segments leave at once. Linux hands TCP's data down in trains, which the device or the last step before it
//! cuts into segments: what the connection's pace carries in a millisecond, two segments at least, half the window at
//! most. A train waits to become that long while acknowledgements are near, and its last segment carries PSH. The rules
//! are those of Linux 6.12; at 100 Mbit/s and 20 ms they give trains of nine, of which a step threshold marks the last two.

use super::Sender;
use crate::sim::tcp::HEADERS;
use crate::sim::tcp::control::State;
use crate::time::{Instant, MICROSECOND, MILLISECOND, SECOND};

/// Bytes of data in a train at most: 64 KiB less room for headers.
const LONGEST: u64 = (64 << 10) - 321;
/// On short paths a train may be longer than the pace says: by [`LONGEST`], halved for each of these in the smallest
/// round trip, ns.
const HALVING: u64 = 512 * MICROSECOND;
/// A train waits only behind one that left so recently, ns.
const RECENT: u64 = MILLISECOND;
/// Room for this part of the window is never waited with.
const PART: u32 = 3;

/// What a control has to say of trains.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A train is what the pace carries in so long, ns.
    pub worth: u64,
    /// But so many segments at least.
    pub least: u32,
    /// Whether it may be longer on short paths.
    pub longer_when_near: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { worth: SECOND / 1024, least: 2, longer_when_near: true }
    }
}

/// The train that is being sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    /// Its segments still to come.
    left: u32,
    /// Whether it has more than one.
    several: bool,
    at: Instant,
    /// The next one waits to become longer: for news, not for a timer.
    pub(super) waits: bool,
}

impl Sender {
    /// Whether a train is under way at `now`.
    pub(super) fn is_aboard(&self, now: Instant) -> bool {
        self.train.left > 0 && self.train.at == now
    }

    /// Begins a train at `now`, with `pipe` packets in the network, unless it is to wait.
    pub(super) fn begin_train(&mut self, now: Instant, pipe: u32) -> bool {
        let mss = u64::from(self.options.mss);
        let unsent = self.written.min(self.room).saturating_sub(self.nxt);
        let segments = u32::try_from(unsent.div_ceil(mss)).unwrap_or(u32::MAX);
        let most = self.longest_train();
        let room = self.window.cwnd - pipe;
        if segments > 1 && self.waits_for_room(now, room, most) {
            self.train.waits = true;
            self.note_usage(u64::from(room) * mss <= unsent.min(LONGEST));
            return false;
        }
        let left = room.min(most).min(segments).min((self.window.cwnd / 2).max(1));
        self.train = Train { left, several: left > 1, at: now, waits: false };
        self.pace(now, unsent.min(u64::from(left) * mss), left);
        true
    }

    /// One more segment of it leaves; gives whether it is the last of several.
    pub(super) fn leave(&mut self) -> bool {
        self.train.left -= 1;
        self.train.left == 0 && self.train.several
    }

    fn waits_for_room(&self, now: Instant, room: u32, most: u32) -> bool {
        let Some(oldest) = self.board.first() else { return false };
        let wanted = most.min(self.window.cwnd.div_ceil(PART));
        room < wanted
            && matches!(self.state, State::Open | State::Cwr)
            && now.since(self.last_sent) <= RECENT
            && now.since(oldest.sent) >= self.rtt.smoothed() / 2
    }

    fn longest_train(&self) -> u32 {
        if !self.options.modern {
            return 1;
        }
        let bounds = self.control.train(&self.window);
        let rate = self.window.pacing.unwrap_or_else(|| {
            let gain = if self.window.cwnd < self.window.ssthresh / 2 { 2.0 } else { 1.2 };
            let packets = self.window.cwnd.max(self.board.packets_out());
            gain * f64::from(packets) * f64::from(self.options.mss) * 1e9 / self.rtt.smoothed() as f64
        });
        let by_pace = (rate * bounds.worth as f64 / 1e9) as u64;
        let halvings = self.rtt.min() / HALVING;
        let more = if bounds.longer_when_near && halvings < 32 { LONGEST >> halvings } else { 0 };
        let bytes = by_pace.saturating_add(more).min(LONGEST);
        ((bytes / u64::from(self.options.mss)) as u32).max(bounds.least)
    }

    /// Sets when the pace allows what comes after `bytes` in `segments`.
    pub(super) fn pace(&mut self, now: Instant, bytes: u64, segments: u32) {
        let Some(rate) = self.window.pacing else { return };
        let wire = bytes + u64::from(segments) * u64::from(HEADERS);
        let gap = (wire as f64 * 1e9 / rate.max(1.0)) as u64;
        // Who was late may be early by as much, up to half a gap.
        let late = now.since(self.next_paced);
        self.next_paced = self.next_paced.max(now) + (gap - late.min(gap / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Heard, Options, Piece};
    use super::*;
    use crate::sim::tcp::control::{Kind, SlowStart};
    use crate::sim::tcp::rtt::{Estimator, Rtt};

    const MSS: u64 = 1448;

    fn at(us: u64) -> Instant {
        Instant::ZERO + us * MICROSECOND
    }

    /// A window of a hundred packets and 20 ms: a pace of 8.7 MB/s, and trains of five.
    fn sender() -> Sender {
        let options = Options { mss: 1448, modern: true, restart_after_idle: false };
        let control = Kind::Reno.make(1448, SlowStart::Plain, 1);
        let mut sender = Sender::new(options, control, Rtt::new(Estimator::Rfc6298 { floor: SECOND / 5 }));
        sender.rtt.sample(0, 20 * MILLISECOND);
        (sender.window.cwnd, sender.window.ssthresh) = (100, 100);
        sender.room = 1 << 30;
        sender.written = 1 << 40;
        sender
    }

    fn sends(sender: &mut Sender, now: Instant) -> Vec<Piece> {
        std::iter::from_fn(|| sender.next_piece(now)).collect()
    }

    fn hears(sender: &mut Sender, now: Instant, packets: u64) {
        let heard =
            Heard { ack: packets * MSS, room: 1 << 30, blocks: &[], ece: false, marked: None, stamp: 0, data: false };
        sender.on_ack(now, &heard);
    }

    #[test]
    fn every_train_is_a_millisecond_long_and_its_last_segment_is_pushed() {
        let sent = sends(&mut sender(), at(0));
        assert_eq!(sent.len(), 100);
        assert!(sent.iter().enumerate().all(|(i, piece)| piece.push == (i % 5 == 4)));
    }

    #[test]
    fn a_train_waits_for_room_while_acknowledgements_are_near() {
        let mut sender = sender();
        sends(&mut sender, at(0));
        hears(&mut sender, at(20_000), 5);
        assert_eq!(sends(&mut sender, at(20_000)).len(), 5);
        hears(&mut sender, at(20_300), 7);
        assert_eq!(sends(&mut sender, at(20_300)).len(), 0, "two do not fill it");
        assert!(sender.train.waits);
        hears(&mut sender, at(20_600), 9);
        assert_eq!(sends(&mut sender, at(20_600)).len(), 0);
        hears(&mut sender, at(20_900), 10);
        assert_eq!(sends(&mut sender, at(20_900)).len(), 5);
    }

    #[test]
    fn a_train_does_not_wait_when_nothing_was_sent_for_a_millisecond() {
        let mut sender = sender();
        sends(&mut sender, at(0));
        hears(&mut sender, at(20_000), 2);
        assert_eq!(sends(&mut sender, at(20_000)).len(), 2);
    }

    #[test]
    fn a_lone_segment_is_not_pushed_unless_it_is_the_last_of_all() {
        let mut sender = sender();
        sender.written = MSS;
        assert!(sends(&mut sender, at(0))[0].push);
        let mut sender = self::sender();
        sender.window.cwnd = 1;
        assert!(!sends(&mut sender, at(0))[0].push);
    }

    #[test]
    fn a_pace_counts_whole_trains_and_forgives_half_of_a_delay() {
        let mut sender = sender();
        sender.window.pacing = Some(7_570_000.0);
        assert_eq!(sends(&mut sender, at(0)).len(), 5);
        assert_eq!(sender.next_paced, at(1000));
        assert_eq!(sends(&mut sender, at(1200)).len(), 5);
        assert_eq!(sender.next_paced, at(2000), "200 us late, and early by as much");
        assert_eq!(sends(&mut sender, at(9000)).len(), 5);
        assert_eq!(sender.next_paced, at(9500));
    }
}

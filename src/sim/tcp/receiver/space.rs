//! The receive window as Linux grows it: it opens by two segments with each that arrives, up to a bound that follows what
//! was read in a round trip (dynamic right-sizing, Fisk and Feng 2001). While it opens every segment is acknowledged.

use crate::time::Instant;

/// The window before anything has come, bytes.
const FIRST: u64 = 64 << 10;
/// What it may open to at first, bytes: the default buffer of 128 KiB, of which the bookkeeping of full segments takes
/// two fifths (measured).
const FIRST_BOUND: u64 = 77_000;
/// Segments shorter than this open nothing.
const LEAST: u64 = 128;
/// Read in a round trip before anything was, segments.
const INITIAL_SEGMENTS: u64 = 10;
/// Room for reordering and for what is not full-sized, segments.
const SPARE_SEGMENTS: u64 = 16;

#[derive(Debug)]
pub(super) struct Space {
    mss: u64,
    most: u64,
    bound: u64,
    open: u64,
    /// Smoothed round trip of the data that comes, ns; zero before the first.
    rtt: u64,
    /// Bytes read in the best round trip.
    read: u64,
    /// Where the round trip under way began: bytes read, and when.
    from: (u64, Instant),
}

impl Space {
    /// Before anything has come; segments carry up to `mss` bytes and the window opens up to `most`.
    pub(super) fn new(mss: u64, most: u64) -> Self {
        Space {
            mss,
            most,
            bound: FIRST_BOUND.min(most),
            open: FIRST.min(most),
            rtt: 0,
            read: INITIAL_SEGMENTS * mss,
            from: (0, Instant::ZERO),
        }
    }

    /// Bytes that may come, while `waiting` of them wait for a gap to close.
    pub(super) fn window(&self, waiting: u64) -> u64 {
        self.open.min(self.bound.saturating_sub(waiting))
    }

    /// A segment of `len` bytes came, `rtt` ns after what it answers was sent. Gives whether the window opened.
    pub(super) fn came(&mut self, len: u64, rtt: Option<u64>, waiting: u64) -> bool {
        if let Some(rtt) = rtt.filter(|_| len >= self.mss) {
            self.rtt = if self.rtt == 0 { rtt } else { (7 * self.rtt + rtt) / 8 };
        }
        let room = self.bound.saturating_sub(waiting).saturating_sub(self.open);
        if len < LEAST || room == 0 {
            return false;
        }
        self.open += room.min(2 * self.mss);
        true
    }

    /// All is read up to byte `next`. Once a round trip, what was read in it moves the bound: twice as much, since the
    /// acknowledgements that allow it are a round trip old, and twice the growth on top of that.
    pub(super) fn read(&mut self, now: Instant, next: u64) {
        if self.rtt == 0 || now.since(self.from.1) < self.rtt {
            return;
        }
        let read = next - self.from.0;
        if read > self.read {
            let wanted = 2 * read + SPARE_SEGMENTS * self.mss;
            let growth = u128::from(wanted) * u128::from(read - self.read) / u128::from(self.read);
            let wanted = u128::from(wanted) + 2 * growth;
            self.bound = self.bound.max(wanted.min(self.most.into()) as u64);
            self.read = read;
        }
        self.from = (next, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MILLISECOND;

    #[test]
    fn the_window_opens_by_two_segments_with_each_up_to_its_bound() {
        let mut space = Space::new(1000, 6 << 20);
        assert_eq!(space.window(0), 65_536);
        assert!(space.came(1000, None, 0));
        assert_eq!(space.window(0), 67_536);
        assert!(!space.came(100, None, 0), "a short segment opens nothing");
        (0..10).for_each(|_| _ = space.came(1000, None, 0));
        assert_eq!(space.window(0), 77_000);
        assert!(!space.came(1000, None, 0));
        assert_eq!(space.window(7000), 70_000, "what waits takes room");
    }

    #[test]
    fn the_bound_follows_what_was_read_in_a_round_trip_and_how_fast_that_grows() {
        let mut space = Space::new(1000, 6 << 20);
        let at = |ms: u64| Instant::ZERO + ms * MILLISECOND;
        space.came(1000, Some(20 * MILLISECOND), 0);
        space.read(at(20), 20_000);
        // Twice 20 000 and 16 segments, and twice that for growth by 100 %.
        assert_eq!(space.bound, 56_000 * 3);
        space.read(at(30), 100_000);
        assert_eq!(space.bound, 168_000, "not within the round trip");
        space.read(at(40), 40_000);
        assert_eq!(space.bound, 168_000, "no more than before");
        space.read(at(60), 10_000_000);
        assert_eq!(space.bound, 6 << 20, "never beyond the most");
    }

    #[test]
    fn a_small_buffer_stays_small() {
        let mut space = Space::new(1000, 8000);
        assert!(!space.came(1000, None, 0));
        assert_eq!(space.window(0), 8000);
    }
}

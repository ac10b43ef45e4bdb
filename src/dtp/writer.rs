//! An application that writes into a flow at a rate of its own, and blocks while too much waits.

use crate::time::Instant;

/// Packets that may wait.
const WAITING: u32 = 64;

/// The application of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    /// Time between two packets, ns.
    gap: u64,
    next: Instant,
    waiting: u32,
}

impl Writer {
    /// One that writes its first packet at `first`, and one each `gap` ns after it.
    pub fn new(gap: u64, first: Instant) -> Writer {
        Writer { gap: gap.max(1), next: first, waiting: 0 }
    }

    /// Lets time pass until `now`.
    pub fn advance(&mut self, now: Instant) {
        if now >= self.next {
            let written = now.since(self.next) / self.gap + 1;
            self.waiting = WAITING.min(self.waiting.saturating_add(u32::try_from(written).unwrap_or(WAITING)));
            self.next = self.next + written * self.gap;
        }
    }

    /// Whether a packet waits.
    pub fn has(&self) -> bool {
        self.waiting > 0
    }

    /// When the next one is written.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// A packet was sent.
    pub fn sent(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_goes_at_its_rate_and_blocks_at_64_packets() {
        let at = |ns: u64| Instant::from_nanos((1 << 40) + ns);
        let mut w = Writer::new(100, at(0));
        w.advance(at(250));
        assert_eq!((w.waiting, w.next()), (3, at(300)));
        (0..3).for_each(|_| w.sent());
        assert!(!w.has());
        w.advance(at(100_000));
        assert_eq!((w.waiting, w.next()), (64, at(100_100)));
    }
}

//! A reliable flow: sequence numbers, cumulative acknowledgements, retransmission. No more of it than
//! a flow needs that shares a path with raw ones; the rate is the path's.

use std::collections::BTreeSet;

use crate::time::{Instant, MILLISECOND};

/// Bytes of the header in front of the payload.
pub const HEADER: usize = 16;
/// Frames that may be unacknowledged.
const WINDOW: u32 = 1024;
/// Without progress for so long, what is unacknowledged is sent again, ns.
const PATIENCE: u64 = 500 * MILLISECOND;
/// Acknowledgements of the same number that mean a loss.
const DUPLICATES: u32 = 3;
/// Every so many frames in order are acknowledged; others at once.
const EACH: u32 = 2;

/// The header of data, or of an acknowledgement (without data).
pub fn header(sequence: u32, acknowledged: u32, data: bool) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[0] = if data { 1 } else { 2 };
    out[8..12].copy_from_slice(&sequence.to_be_bytes());
    out[12..].copy_from_slice(&acknowledged.to_be_bytes());
    out
}

/// Sequence number, acknowledgement, and whether it is data.
pub fn read(payload: &[u8]) -> Option<(u32, u32, bool)> {
    let h = payload.first_chunk::<HEADER>()?;
    let word = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    Some((word(8), word(12), h[0] == 1))
}

/// The end that sends.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    next: u32,
    acknowledged: u32,
    duplicates: u32,
    again: bool,
    progress: Instant,
    /// Frames sent more than once.
    pub retransmissions: u64,
    highest: u32,
}

impl Sender {
    /// Whether it may send now.
    pub fn may(&mut self, now: Instant) -> bool {
        if self.next != self.acknowledged && now.since(self.progress) > PATIENCE {
            (self.next, self.progress) = (self.acknowledged, now);
        }
        self.again || self.next - self.acknowledged < WINDOW
    }

    /// When it may send again if nothing comes.
    pub fn timer(&self) -> Instant {
        self.progress + PATIENCE + 1
    }

    /// The number of the frame that is sent now.
    pub fn send(&mut self, now: Instant) -> u32 {
        if std::mem::take(&mut self.again) {
            self.retransmissions += 1;
            return self.acknowledged;
        }
        if self.next == self.acknowledged {
            self.progress = now;
        }
        self.retransmissions += u64::from(self.next < self.highest);
        self.next += 1;
        self.highest = self.highest.max(self.next);
        self.next - 1
    }

    /// All before `n` have come.
    pub fn acknowledged(&mut self, now: Instant, n: u32) {
        if n > self.acknowledged {
            (self.acknowledged, self.progress, self.duplicates) = (n, now, 0);
            self.next = self.next.max(n);
        } else if n == self.acknowledged && self.next > n {
            self.duplicates += 1;
            self.again |= self.duplicates == DUPLICATES;
        }
    }
}

/// The end that receives.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    next: u32,
    early: BTreeSet<u32>,
    unsaid: u32,
}

impl Receiver {
    /// Frame `n` came. Gives the frames that are now in order, and the acknowledgement to send.
    pub fn push(&mut self, n: u32) -> (u32, Option<u32>) {
        let before = self.next;
        if n >= self.next {
            self.early.insert(n);
        }
        while self.early.remove(&self.next) {
            self.next += 1;
        }
        let fresh = self.next - before;
        self.unsaid += fresh;
        if fresh != 1 || self.unsaid >= EACH || !self.early.is_empty() {
            self.unsaid = 0;
            return (fresh, Some(self.next));
        }
        (fresh, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_sent_again_and_all_comes_in_order() {
        let (mut tx, mut rx) = (Sender::default(), Receiver::default());
        let (mut now, mut came, mut sent) = (Instant::from_nanos(1 << 40), 0, 0u32);
        while came < 500 {
            now = now + MILLISECOND;
            if !tx.may(now) {
                continue;
            }
            let n = tx.send(now);
            sent += 1;
            if sent % 7 == 0 {
                continue;
            }
            let (fresh, acknowledgement) = rx.push(n);
            came += fresh;
            // Every third acknowledgement is lost, too.
            if let Some(n) = acknowledgement.filter(|_| sent % 3 != 0) {
                tx.acknowledged(now, n);
            }
        }
        assert!(tx.retransmissions > 60);
        assert_eq!(rx.push(0), (0, Some(rx.next)), "what came before is acknowledged again");
    }

    #[test]
    fn a_window_is_sent_and_no_more_until_patience_ends() {
        let mut tx = Sender::default();
        let now = Instant::from_nanos(1 << 40);
        let sent = std::iter::from_fn(|| tx.may(now).then(|| tx.send(now))).count();
        assert_eq!(sent, 1024);
        assert!(!tx.may(tx.timer() - 2) && tx.may(tx.timer()));
        assert_eq!(tx.send(tx.timer()), 0);
    }

    #[test]
    fn a_header_is_read_back() {
        assert_eq!(read(&header(7, 0, true)), Some((7, 0, true)));
        assert_eq!(read(&header(0, 9, false)), Some((0, 9, false)));
        assert_eq!(read(&[0; 15]), None);
    }
}

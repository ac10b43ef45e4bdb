//! Where frames come from and go to: the two halves of a port that one direction needs.
//!
//! A direction takes frames from the NIC on one side ([`Receive`]: fill and RX rings) and sends
//! them out of the NIC on the other ([`Transmit`]: TX and completion rings). A frame that is with a
//! device is lent ([`Pool::lend`]), so it cannot be in a queue as well, and a device that names a
//! frame it does not have gets nothing.
//!
//! Ports know frames and time. They do not know disciplines.

pub mod fault;
pub mod memory;
#[cfg(feature = "xdp")]
pub mod xdp;

use crate::pool::{Frame, Frames, Pool, Queue};
use crate::time::Instant;

/// What a half of a port counted; all of these only grow.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PortCounters {
    /// Descriptors from the device that name no frame it had.
    pub rx_invalid: u64,
    /// Frames without an arrival time in front of them.
    pub rx_unstamped: u64,
    /// Frames that would have made a descriptor out of range: too short, too long, over a border.
    pub tx_invalid: u64,
    /// Calls that asked the kernel to send.
    pub kicks: u64,
    /// Of those: told to come back later (`EAGAIN`, `EBUSY`, `ENOBUFS`).
    pub tx_busy: u64,
    /// Of those: the link was down (`ENETDOWN`).
    pub tx_down: u64,
    /// Of those: any other error.
    pub tx_errors: u64,
    /// Completions for frames the device did not have.
    pub completion_invalid: u64,
    /// Times nothing completed for too long while frames were in flight.
    pub tx_stalls: u64,
}

impl PortCounters {
    /// The sums of two halves.
    #[must_use]
    pub fn plus(self, other: PortCounters) -> PortCounters {
        PortCounters {
            rx_invalid: self.rx_invalid + other.rx_invalid,
            rx_unstamped: self.rx_unstamped + other.rx_unstamped,
            tx_invalid: self.tx_invalid + other.tx_invalid,
            kicks: self.kicks + other.kicks,
            tx_busy: self.tx_busy + other.tx_busy,
            tx_down: self.tx_down + other.tx_down,
            tx_errors: self.tx_errors + other.tx_errors,
            completion_invalid: self.completion_invalid + other.completion_invalid,
            tx_stalls: self.tx_stalls + other.tx_stalls,
        }
    }
}

/// The half of a port that gives frames.
pub trait Receive {
    /// Where the bytes of frames are.
    type Frames: Frames;

    /// Appends up to `max` arrived frames to `into`, and says how many. Of each record it sets
    /// `len`, `headroom` and `arrived`, the last to [`Instant::NEVER`] where the device gave no
    /// time.
    fn receive(&mut self, pool: &mut Pool, frames: &mut Self::Frames, into: &mut Queue, max: usize) -> usize;

    /// Lends the device free frames to receive into, as many as it can hold.
    fn refill(&mut self, pool: &mut Pool);

    /// How many frames the device has.
    fn lent(&self) -> usize;

    /// What was counted.
    fn counters(&self) -> PortCounters;
}

/// The half of a port that takes frames.
pub trait Transmit {
    /// Where the bytes of frames are.
    type Frames: Frames;

    /// How many frames can be sent now. Kept small, so that packets wait in the discipline and not
    /// behind it.
    fn room(&self) -> usize;

    /// Sends a frame; there must be room. A frame that would make a bad descriptor is counted and
    /// goes back to the pool: then the answer is `false`.
    fn send(&mut self, pool: &mut Pool, frames: &mut Self::Frames, frame: Frame) -> bool;

    /// Makes sure that what was sent is on its way.
    fn kick(&mut self, now: Instant, pool: &mut Pool);

    /// Gives frames that are out of the house back to the pool, and says how many.
    fn reclaim(&mut self, now: Instant, pool: &mut Pool) -> usize;

    /// How many frames the device has.
    fn lent(&self) -> usize;

    /// Whether the link takes frames at all. While it does not, there is no room.
    fn is_up(&self) -> bool;

    /// The largest frame that can be sent, in bytes.
    fn longest(&self) -> u32;

    /// What was counted.
    fn counters(&self) -> PortCounters;
}

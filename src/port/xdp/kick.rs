//! When and how often to ask the kernel to send.
//!
//! In copy mode a call sends at most 32 descriptors, and fails with `EAGAIN` when it stopped for
//! that or for want of socket memory; so it is repeated while the ring gets shorter. What the
//! device says besides is judged in one place here, with a bound on the tries, so that a device
//! that is full or gone costs the receiving side nothing.

use rustix::io::Errno;

/// Calls in one kick that may end without progress.
const TRIES: u32 = 10;

/// How a kick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing is left in the ring.
    Empty,
    /// The device is full; later.
    Busy,
    /// The link is down.
    Down,
    /// Something else.
    Failed(Errno),
}

/// What a kick cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kicked {
    pub(super) calls: u32,
    pub(super) busy: u32,
    pub(super) outcome: Outcome,
}

/// Calls `send` until `pending` says zero, or until it is no use.
pub(super) fn kick(mut pending: impl FnMut() -> u32, mut send: impl FnMut() -> Result<(), Errno>) -> Kicked {
    let mut kicked = Kicked { calls: 0, busy: 0, outcome: Outcome::Empty };
    let mut left = pending();
    let mut idle = 0;
    while left > 0 {
        kicked.calls += 1;
        match send() {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => kicked.busy += 1,
            Err(Errno::INTR) => {}
            Err(Errno::NETDOWN) => return Kicked { outcome: Outcome::Down, ..kicked },
            Err(e) => return Kicked { outcome: Outcome::Failed(e), ..kicked },
        }
        let now = pending();
        idle = if now < left { 0 } else { idle + 1 };
        left = now;
        if idle == TRIES {
            return Kicked { outcome: Outcome::Busy, ..kicked };
        }
    }
    kicked
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_ring_of_sixty_four_is_emptied_although_a_call_sends_thirty_two() {
        let left = Cell::new(64u32);
        let kicked = kick(
            || left.get(),
            || {
                left.set(left.get().saturating_sub(32));
                if left.get() > 0 { Err(Errno::AGAIN) } else { Ok(()) }
            },
        );
        assert_eq!(kicked, Kicked { calls: 2, busy: 1, outcome: Outcome::Empty });
    }

    #[test]
    fn a_full_device_is_tried_a_bounded_number_of_times() {
        let mut errors = [Errno::BUSY; 3].into_iter().chain(std::iter::repeat_n(Errno::NOBUFS, 1000));
        let kicked = kick(|| 8, || Err(errors.next().unwrap()));
        assert_eq!(kicked, Kicked { calls: 10, busy: 10, outcome: Outcome::Busy });
    }

    #[test]
    fn a_slow_device_is_kicked_as_long_as_it_gets_on() {
        let left = Cell::new(100u32);
        let kicked = kick(
            || left.get(),
            || {
                left.set(left.get() - 1);
                Err(Errno::AGAIN)
            },
        );
        assert_eq!((kicked.calls, kicked.outcome), (100, Outcome::Empty));
    }

    #[test]
    fn a_link_that_is_down_is_not_asked_twice() {
        let kicked = kick(|| 8, || Err(Errno::NETDOWN));
        assert_eq!(kicked, Kicked { calls: 1, busy: 0, outcome: Outcome::Down });
    }

    #[test]
    fn an_unknown_error_ends_the_kick_and_is_named() {
        let kicked = kick(|| 8, || Err(Errno::IO));
        assert_eq!(kicked, Kicked { calls: 1, busy: 0, outcome: Outcome::Failed(Errno::IO) });
    }

    #[test]
    fn an_empty_ring_costs_no_call() {
        assert_eq!(kick(|| 0, || unreachable!()).calls, 0);
    }
}

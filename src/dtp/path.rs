//! The packet scheduler of a path: one rate, divided among the flows by fair-queueing tags
//! (`spec/mb-ecn.md` §6.4).

use super::controller::{Controller, Tuning};
use crate::time::{Instant, MILLISECOND, SECOND};

/// Frames that could have been sent earlier may follow each other within so long, ns.
const BURST: u64 = 2 * MILLISECOND;

/// A flow of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    /// Bytes served, by weight; what the flow is behind of `Path::served` it does not get back.
    tag: u64,
    /// Length of the frame that waits.
    head: Option<u32>,
}

/// All flows to one destination in one QoS cube.
#[derive(Clone, Debug)]
pub struct Path {
    /// Their rate.
    pub controller: Controller,
    flows: Vec<Tag>,
    /// The tag that was served last.
    served: u64,
    next: Instant,
    idle: bool,
}

impl Path {
    /// A path without flows.
    pub fn new(tuning: Tuning, now: Instant) -> Self {
        Path { controller: Controller::new(tuning, now), flows: Vec::new(), served: 0, next: now, idle: true }
    }

    /// One more flow, with nothing to send; gives its number.
    pub fn add(&mut self) -> usize {
        self.flows.push(Tag::default());
        self.flows.len() - 1
    }

    /// The frame of `flow` that waits is `head` bytes long; `None` if it has nothing to send.
    pub fn offer(&mut self, now: Instant, flow: usize, head: Option<u32>) {
        self.controller.advance(now, self.idle);
        let served = self.served;
        if let Some(f) = self.flows.get_mut(flow) {
            if f.head.is_none() && head.is_some() {
                f.tag = f.tag.max(served);
            }
            f.head = head;
        }
        self.idle = self.flows.iter().all(|f| f.head.is_none());
    }

    /// When the next frame may leave; `None` if none waits.
    pub fn due(&self) -> Option<Instant> {
        (!self.idle).then_some(self.next)
    }

    /// The flow whose frame leaves at `now`, if the rate allows it. The flow is taken to have
    /// another such frame until [`Path::offer`] says otherwise.
    pub fn send(&mut self, now: Instant) -> Option<usize> {
        if self.idle || now < self.next {
            return None;
        }
        self.controller.advance(now, false);
        let waiting = self.flows.iter().enumerate().filter_map(|(i, f)| Some((f.tag, i, f.head?)));
        let (tag, i, bytes) = waiting.min_by_key(|(tag, i, _)| (*tag, *i))?;
        self.served = tag;
        self.flows[i].tag = tag + u64::from(bytes);
        self.controller.sent(bytes);
        let time = f64::from(bytes) * SECOND as f64 / self.controller.rate();
        self.next = self.next.max(now - BURST) + time as u64;
        Some(i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1 << 40);

    fn serve(path: &mut Path, frames: usize) -> Vec<usize> {
        let next = |_| {
            let at = path.due().expect("somebody has something to send");
            path.send(at).expect("it is due")
        };
        (0..frames).map(next).collect()
    }

    #[test]
    fn flows_share_by_bytes_and_not_by_frames() {
        let mut path = Path::new(Tuning::REFERENCE, START);
        for (flow, len) in [(0, 1400), (1, 350)] {
            assert_eq!(path.add(), flow);
            path.offer(START, flow, Some(len));
        }
        let served = serve(&mut path, 50);
        assert_eq!(served.iter().filter(|f| **f == 0).count(), 10);
    }

    #[test]
    fn a_flow_that_comes_late_gets_its_share_and_no_arrears() {
        let mut path = Path::new(Tuning::REFERENCE, START);
        path.add();
        path.add();
        path.offer(START, 0, Some(1000));
        serve(&mut path, 100);
        let now = path.due().expect("flow 0 goes on");
        path.offer(now, 1, Some(1000));
        let served = serve(&mut path, 10);
        assert_eq!(served.iter().filter(|f| **f == 1).count(), 5, "{served:?}");
    }

    #[test]
    fn frames_leave_at_the_rate_and_what_was_missed_is_made_up_for_two_milliseconds_only() {
        let mut path = Path::new(Tuning::REFERENCE, START);
        path.add();
        path.offer(START, 0, Some(65_536 / 64));
        assert_eq!((path.send(START), path.send(START)), (Some(0), None));
        let gap = path.due().expect("more to send").since(START);
        assert!(gap.abs_diff(SECOND / 64) < SECOND / 1000, "{gap}");
        let late = START + SECOND;
        assert_eq!(path.send(late), Some(0));
        assert!(path.due().expect("more to send") > late, "one frame takes more than two milliseconds");
        path.offer(late, 0, None);
        assert_eq!((path.due(), path.send(late + SECOND)), (None, None));
    }
}

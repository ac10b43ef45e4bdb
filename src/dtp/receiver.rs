//! What the receiver of a path averages and reports (`spec/mb-ecn.md` §6.1).

use super::UPDATE;
use crate::mark::mb_ecn::endpoint::Ewma;
use crate::time::Instant;

/// What a report is the average of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// About 16 packets, however long they take: at 30 packets a second that is half a second, and
    /// the sender steers by what was.
    #[default]
    Packets,
    /// The same, but no more than what came since the last report.
    PacketsOrUpdate,
}

/// What is told to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Average of the depth codes, in 1/32 code.
    pub ece: u16,
    /// Capacity code of the path; 0 if no frame ever told.
    pub cap: u8,
}

/// Packets in the average.
const WINDOW: u32 = 16;

/// The receiver of one path.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    window: Window,
    average: Ewma,
    codes: u32,
    packets: u32,
    /// The least capacity since the last report, and that of the last.
    cap: [u8; 2],
    last: Option<(Instant, u16)>,
}

impl Receiver {
    /// One that has seen no frame yet.
    pub fn new(window: Window) -> Self {
        Receiver { window, ..Receiver::default() }
    }

    /// The average, in 1/32 code.
    pub fn level(&self) -> u16 {
        match self.window {
            Window::PacketsOrUpdate if (1..WINDOW).contains(&self.packets) => (32 * self.codes / self.packets) as u16,
            _ => self.average.level(),
        }
    }

    /// A frame came with these two bytes. Gives the report that is due: at the first frame, when
    /// congestion starts, and once per [`UPDATE`] while there is some or the last report spoke of some.
    pub fn push(&mut self, now: Instant, ecn: u8, cap: u8) -> Option<Report> {
        self.average.push(ecn);
        if self.packets < WINDOW {
            self.codes += u32::from(ecn);
            self.packets += 1;
        }
        if cap != 0 && (self.cap[0] == 0 || cap < self.cap[0]) {
            self.cap[0] = cap;
        }
        let level = self.level();
        let due = match self.last {
            None => true,
            Some((_, 0)) if level == 0 => false,
            Some((_, 0)) => true,
            Some((at, _)) => now.since(at) >= UPDATE,
        };
        due.then(|| {
            let cap = if self.cap[0] != 0 { self.cap[0] } else { self.cap[1] };
            self.cap = [0, cap];
            self.last = Some((now, level));
            (self.codes, self.packets) = (0, 0);
            Report { ece: level, cap }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos((1 << 40) + ns)
    }

    #[test]
    fn the_first_frame_is_reported_then_the_start_of_congestion_then_once_per_update() {
        let mut r = Receiver::new(Window::Packets);
        assert_eq!(r.push(at(0), 0, 0), Some(Report { ece: 0, cap: 0 }));
        assert_eq!(r.push(at(1), 0, 81), None);
        assert_eq!(r.push(at(2), 10, 81), Some(Report { ece: 20, cap: 81 }));
        assert_eq!(r.push(at(3), 10, 81), None);
        assert_eq!(r.push(at(2 + UPDATE), 10, 0), Some(Report { ece: 57, cap: 81 }));
    }

    #[test]
    fn the_end_of_congestion_is_reported_once() {
        let mut r = Receiver::new(Window::PacketsOrUpdate);
        r.push(at(0), 4, 81);
        assert_eq!(r.push(at(UPDATE), 0, 81), Some(Report { ece: 0, cap: 81 }));
        assert!((1..10).all(|i| r.push(at((1 + i) * UPDATE), 0, 81).is_none()));
    }

    #[test]
    fn the_least_capacity_since_the_last_report_counts() {
        let mut r = Receiver::new(Window::Packets);
        r.push(at(0), 8, 81);
        r.push(at(1), 8, 77);
        r.push(at(2), 8, 81);
        assert_eq!(r.push(at(UPDATE), 8, 81).expect("due").cap, 77);
        assert_eq!(r.push(at(2 * UPDATE), 8, 81).expect("due").cap, 81);
    }

    #[test]
    fn few_packets_are_averaged_over_an_update_and_not_over_half_a_second() {
        let level = |window| {
            let mut r = Receiver::new(window);
            r.push(at(0), 32, 81);
            let low = [(1, 4), (2, 8)];
            low.iter().for_each(|(t, ecn)| assert!(r.push(at(*t), *ecn, 81).is_none()));
            r.push(at(UPDATE), 12, 81).expect("due").ece
        };
        assert_eq!(level(Window::PacketsOrUpdate), 8 * 32);
        assert!(level(Window::Packets) > 25 * 32);
    }
}

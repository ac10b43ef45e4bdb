//! Delivery opportunities, as Mahimahi records them (`spec/netem.md` §13).

use crate::time::{MILLISECOND, SECOND};
use crate::units::Rate;

/// The moments at which so many bytes may leave, over and over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunities {
    /// Within one round, ns after its begin; ascending.
    stamps: Box<[u64]>,
    period: u64,
    once: bool,
}

impl Opportunities {
    /// From stamps in milliseconds, ascending, the last not zero. `smooth` spreads those of one
    /// millisecond over it; with `once` the link is dead after the last.
    ///
    /// # Panics
    /// If there is no stamp or the last is zero.
    pub fn new(millis: &[u64], once: bool, smooth: bool) -> Self {
        let last = *millis.last().expect("a trace has lines");
        assert!(last > 0, "a trace takes time");
        let stamps = millis
            .chunk_by(|a, b| a == b)
            .scan(0, |index, equal| {
                *index += equal.len();
                // The stamp behind the last is the first of the next round.
                let next = match millis.get(*index) {
                    Some(next) => *next,
                    None if once => u64::MAX,
                    None => last + millis[0],
                };
                let (stamp, k) = (equal[0], equal.len() as u64);
                let width = if smooth { MILLISECOND.min((next - stamp).saturating_mul(MILLISECOND)) } else { 0 };
                Some((0..k).map(move |j| stamp * MILLISECOND + j * width / k))
            })
            .flatten()
            .collect();
        Opportunities { stamps, period: last * MILLISECOND, once }
    }

    /// When opportunity `index` comes, ns after the start; `None` if it never does.
    pub fn time(&self, index: u64) -> Option<u64> {
        let n = self.stamps.len() as u64;
        if self.once && index >= n {
            return None;
        }
        let (round, i) = (index / n, (index % n) as usize);
        round.checked_mul(self.period)?.checked_add(self.stamps[i])
    }

    /// The first opportunity later than `time`, ns after the start.
    pub fn first_after(&self, time: u64) -> u64 {
        let n = self.stamps.len() as u64;
        let within = |round: u64| {
            let begin = round * self.period;
            self.stamps.partition_point(|s| begin + s <= time) as u64
        };
        if self.once {
            return within(0);
        }
        let round = time / self.period;
        // The last stamps of a round stand at its end or a little behind it.
        let before = round.saturating_sub(1);
        match within(before) {
            i if i < n => before * n + i,
            _ => round * n + within(round),
        }
    }

    /// The rate in the long run, if each carries `bytes`.
    pub fn mean(&self, bytes: u32) -> Rate {
        let all = self.stamps.len() as u128 * u128::from(bytes) * u128::from(SECOND);
        Rate::from_bytes_per_second((all / u128::from(self.period)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = MILLISECOND;

    #[test]
    fn rounds_follow_each_other_by_the_last_stamp() {
        let o = Opportunities::new(&[0, 1, 2], false, false);
        let times: Vec<_> = (0..8).map(|i| o.time(i).unwrap() / MS).collect();
        assert_eq!(times, [0, 1, 2, 2, 3, 4, 4, 5]);
        assert_eq!(Opportunities::new(&[2, 4], true, false).time(2), None);
    }

    #[test]
    fn the_first_after_a_moment_is_found_without_counting() {
        for (millis, smooth) in [(&[0, 1, 2][..], false), (&[3, 3, 7], false), (&[5], true), (&[1, 1, 1, 9, 9], true)] {
            let o = Opportunities::new(millis, false, smooth);
            let mut index = 0;
            for t in (0..60 * MS).step_by(MS as usize / 7) {
                while o.time(index).unwrap() <= t {
                    index += 1;
                }
                assert_eq!(o.first_after(t), index, "{millis:?} at {t}");
            }
            let far = 1_000_000_007 * MS;
            let i = o.first_after(far);
            assert!(o.time(i).unwrap() > far && o.time(i - 1).unwrap() <= far);
        }
    }

    #[test]
    fn smooth_spreads_equal_stamps_over_their_millisecond_or_what_there_is() {
        let o = Opportunities::new(&[1, 1, 1, 1, 2], false, true);
        let times: Vec<_> = (0..6).map(|i| o.time(i).unwrap()).collect();
        assert_eq!(times, [MS, MS + 250_000, MS + 500_000, MS + 750_000, 2 * MS, 3 * MS]);
        let end = Opportunities::new(&[0, 2, 2], false, true);
        assert_eq!([end.time(1), end.time(2)], [Some(2 * MS); 2], "the next round begins at once");
    }

    #[test]
    fn the_mean_is_bytes_over_time() {
        let o = Opportunities::new(&[1; 83], false, false);
        assert_eq!(o.mean(1500).bytes_per_second(), 124_500_000);
    }
}

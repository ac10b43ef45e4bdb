//! Rates over time, with exact integrals (`spec/netem.md` §14).

use crate::time::SECOND;
use crate::units::Rate;

/// What comes after the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The last rate, for ever.
    Holds,
    /// The first line again, so many ns after the begin of the round.
    Loops(u64),
    /// Nothing, from so many ns after the start.
    Ends(u64),
}

/// A rate for each stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Begin of each stretch, ns; the first is 0.
    starts: Box<[u64]>,
    /// Bytes per second in it.
    rates: Box<[u64]>,
    /// What was carried before it, byte·ns/s.
    carried: Box<[u128]>,
    period: Option<u64>,
}

impl Table {
    /// From `(begin in ns, rate)`, begins ascending from zero.
    ///
    /// # Errors
    /// What cannot be a link: no line, a first begin that is not zero, begins that do not ascend, a
    /// period or end before the last begin, a loop that carries nothing.
    pub fn new(lines: &[(u64, Rate)], ending: Ending) -> Result<Self, String> {
        let mut lines: Vec<(u64, u64)> = lines.iter().map(|(t, r)| (*t, r.bytes_per_second())).collect();
        if lines.first().is_none_or(|(t, _)| *t != 0) {
            return Err("the first time must be 0".into());
        }
        if let Ending::Ends(end) | Ending::Loops(end) = ending {
            lines.push((end, 0));
        }
        if lines.windows(2).any(|w| w[0].0 >= w[1].0) {
            return Err("times must ascend".into());
        }
        let mut carried = vec![0u128];
        for w in lines.windows(2) {
            let more = u128::from(w[1].0 - w[0].0) * u128::from(w[0].1);
            carried.push(carried[carried.len() - 1] + more);
        }
        let period = if let Ending::Loops(period) = ending { Some(period) } else { None };
        if period.is_some() && carried.last() == Some(&0) {
            return Err("a loop that carries nothing never ends".into());
        }
        let (starts, rates) = lines.into_iter().unzip::<u64, u64, Vec<_>, Vec<_>>();
        Ok(Table { starts: starts.into(), rates: rates.into(), carried: carried.into(), period })
    }

    /// What is carried in one round.
    fn round(&self) -> u128 {
        self.carried[self.carried.len() - 1]
    }

    /// What can be carried from the start to `time` ns after it, in byte·ns/s.
    pub fn carried(&self, time: u64) -> u128 {
        let (whole, time) = match self.period {
            Some(p) => (u128::from(time / p) * self.round(), time % p),
            None => (0, time),
        };
        let i = self.starts.partition_point(|s| *s <= time) - 1;
        whole + self.carried[i] + u128::from(time - self.starts[i]) * u128::from(self.rates[i])
    }

    /// The first moment by which `amount`, in byte·ns/s, can have been carried, ns after the start;
    /// `None` if there is none.
    pub fn reached(&self, amount: u128) -> Option<u64> {
        if amount == 0 {
            return Some(0);
        }
        let (begin, amount) = match self.period {
            Some(p) => {
                let rounds = (amount - 1) / self.round();
                (u64::try_from(rounds).ok()?.checked_mul(p)?, amount - rounds * self.round())
            }
            None => (0, amount),
        };
        // The stretch in which it is reached: the last that begins with less.
        let i = self.carried.partition_point(|c| *c < amount) - 1;
        if self.rates[i] == 0 {
            return None;
        }
        let within = (amount - self.carried[i]).div_ceil(u128::from(self.rates[i]));
        begin.checked_add(self.starts[i])?.checked_add(u64::try_from(within).ok()?)
    }

    /// The rate in the long run: of a loop its mean, of a table that ends its mean until then, else
    /// the last.
    pub fn mean(&self) -> Rate {
        let last = self.starts.len() - 1;
        let per_second = if self.rates[last] == 0 && self.starts[last] > 0 {
            (self.carried[last] / u128::from(self.starts[last])) as u64
        } else {
            self.rates[last]
        };
        Rate::from_bytes_per_second(per_second)
    }
}

/// What a packet of so many charged bytes needs, in byte·ns/s.
pub(super) fn need(bytes: u32) -> u128 {
    u128::from(bytes) * u128::from(SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn table(lines: &[(u64, u64)], ending: Ending) -> Table {
        let lines: Vec<_> = lines.iter().map(|(t, r)| (*t, Rate::from_bytes_per_second(*r))).collect();
        Table::new(&lines, ending).expect("a table")
    }

    #[test]
    fn what_is_carried_by_a_moment_and_the_moment_it_is_carried_by_are_inverse() {
        let looping = table(&[(0, 125_000), (10 * MS, 0), (15 * MS, 1_250_000)], Ending::Loops(20 * MS));
        for t in [0, 1, MS, 10 * MS, 12 * MS, 15 * MS, 19_999_999, 20 * MS, 20 * MS + 1, 95 * MS, 7_000_000_007 * MS] {
            let amount = looping.carried(t);
            let first = looping.reached(amount).unwrap();
            assert!(first <= t && looping.carried(first) == amount, "{t}: {first}");
            let next = looping.reached(amount + 1).unwrap();
            assert!(next > t && looping.carried(next) > amount && looping.carried(next - 1) <= amount);
        }
        assert_eq!(looping.mean().bytes_per_second(), 375_000);
    }

    #[test]
    fn after_the_end_nothing_more_is_carried() {
        let t = table(&[(0, 1000)], Ending::Ends(2 * SECOND));
        assert_eq!(t.reached(need(2000)), Some(2 * SECOND));
        assert_eq!(t.reached(need(2000) + 1), None);
        assert_eq!((t.carried(u64::MAX), t.mean().bytes_per_second()), (need(2000), 1000));
        let open = table(&[(0, 0), (MS, 7)], Ending::Holds);
        assert_eq!((open.reached(need(1)), open.mean().bytes_per_second()), (Some(MS + 142_857_143), 7));
    }

    #[test]
    fn what_is_no_link_is_refused() {
        let r = Rate::from_bytes_per_second(1);
        let zero = Rate::default();
        for (lines, ending) in [
            (&[][..], Ending::Holds),
            (&[(1, r)], Ending::Holds),
            (&[(0, r), (0, r)], Ending::Holds),
            (&[(0, r), (5, r)], Ending::Loops(5)),
            (&[(0, zero)], Ending::Loops(5)),
            (&[(0, r)], Ending::Ends(0)),
        ] {
            assert!(Table::new(lines, ending).is_err(), "{lines:?} {ending:?}");
        }
    }
}

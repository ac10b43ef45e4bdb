//! The largest value of the last so many rounds.

use std::collections::VecDeque;

/// Values that were once the largest and may be again, newest last, ever smaller.
#[derive(Debug)]
pub(super) struct MaxFilter {
    window: u64,
    kept: VecDeque<(u64, f64)>,
}

impl MaxFilter {
    /// Over `window` rounds.
    pub(super) fn new(window: u64) -> Self {
        MaxFilter { window, kept: VecDeque::new() }
    }

    /// A value of `round`.
    pub(super) fn update(&mut self, round: u64, value: f64) {
        while self.kept.back().is_some_and(|(_, v)| *v <= value) {
            self.kept.pop_back();
        }
        self.kept.push_back((round, value));
        self.expire(round);
    }

    fn expire(&mut self, round: u64) {
        while self.kept.len() > 1 && self.kept.front().is_some_and(|(r, _)| round.saturating_sub(*r) > self.window) {
            self.kept.pop_front();
        }
    }

    /// The largest; zero before the first.
    pub(super) fn get(&self) -> f64 {
        self.kept.front().map_or(0.0, |(_, v)| *v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_is_forgotten_after_its_window_and_the_next_largest_counts() {
        let mut f = MaxFilter::new(10);
        for (round, value) in [(0, 9.0), (3, 5.0), (5, 7.0), (8, 1.0)] {
            f.update(round, value);
        }
        assert_eq!(f.get(), 9.0);
        f.update(11, 1.0);
        assert_eq!(f.get(), 7.0);
        f.update(30, 2.0);
        assert_eq!(f.get(), 2.0);
    }
}

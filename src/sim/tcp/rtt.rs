//! Round-trip time and the retransmission timer: RFC 6298, and RFC 793 as small stacks still have it.

use crate::time::MILLISECOND;

/// Which estimator drives the retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// Jacobson and Karels, Karn's rule (RFC 6298); the variance term is at least `floor` ns, as in
    /// Linux (200 ms there).
    Rfc6298 {
        /// Least value of the variance term, ns.
        floor: u64,
    },
    /// The same sums without Karn's rule, each sample from the last sending, and without a floor but the clock's 1 ms:
    /// the seed's repair.
    Jacobson1988,
    /// The smoothed average of RFC 793 §3.7 with ALPHA 0.8 and BETA 2, fed by every acknowledgement
    /// from the first transmission on, clamped as the seed's stack does.
    Rfc793,
}

/// RFC 793 in the seed's stack: the least timeout, ns.
pub const RFC793_MIN: u64 = 200 * MILLISECOND;
/// RFC 793 in the seed's stack: the greatest timeout, ns.
pub const RFC793_MAX: u64 = 20_000 * MILLISECOND;
/// Before anything is measured (RFC 6298 §2.1; the seed's stack starts the same).
pub const INITIAL: u64 = 1000 * MILLISECOND;
/// RFC 6298 §2.5 allows a maximum of 60 s or more; Linux has 120 s.
pub const MAX: u64 = 120_000 * MILLISECOND;

/// The estimate.
#[derive(Clone, Debug)]
pub struct Rtt {
    estimator: Estimator,
    srtt: u64,
    var: u64,
    timeout: u64,
    backoff: u32,
    min: u64,
    min_at: u64,
}

/// How long the smallest round trip is believed, ns (Linux: 300 s).
const MIN_WINDOW: u64 = 300_000 * MILLISECOND;

impl Rtt {
    /// Nothing measured yet.
    pub fn new(estimator: Estimator) -> Self {
        Rtt { estimator, srtt: 0, var: 0, timeout: INITIAL, backoff: 0, min: u64::MAX, min_at: 0 }
    }

    /// What a stack without Karn's rule takes for the round trip of a segment sent `first` and `last` so many ns ago;
    /// `None` if it has the rule. The seed's stack with RFC 793 counts from the first sending; its repair starts its one
    /// clock again with each.
    pub fn without_karn(&self, first: Option<u64>, last: Option<u64>) -> Option<Option<u64>> {
        match self.estimator {
            Estimator::Rfc6298 { .. } => None,
            Estimator::Rfc793 => Some(first),
            Estimator::Jacobson1988 => Some(last),
        }
    }

    /// A round trip of `rtt` ns, measured at `now` ns.
    pub fn sample(&mut self, now: u64, rtt: u64) {
        let rtt = rtt.max(1);
        if rtt <= self.min || now - self.min_at > MIN_WINDOW {
            (self.min, self.min_at) = (rtt, now);
        }
        if self.srtt == 0 {
            self.srtt = rtt;
            self.var = rtt / 2;
        } else {
            // RFC 6298 §2.3: the variance first, by 1/4, then the mean, by 1/8.
            self.var = (3 * self.var + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = (7 * self.srtt + rtt) / 8;
        }
        self.timeout = match self.estimator {
            Estimator::Rfc6298 { floor } => self.srtt + (4 * self.var).max(floor),
            Estimator::Jacobson1988 => self.srtt + (4 * self.var).max(MILLISECOND),
            Estimator::Rfc793 => ((4 * rtt + 8 * self.timeout) / 10).clamp(RFC793_MIN, RFC793_MAX),
        };
    }

    /// The timer went off: twice as long next time (RFC 6298 §5.5). The seed's stack with RFC 793
    /// doubles the estimate itself, which then has to come down by its smoothing.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
        if self.estimator == Estimator::Rfc793 {
            self.timeout = (2 * self.timeout).min(RFC793_MAX);
        }
    }

    /// Something new was acknowledged.
    pub fn progress(&mut self) {
        self.backoff = 0;
    }

    /// How long the timer runs, ns.
    pub fn timeout(&self) -> u64 {
        match self.estimator {
            Estimator::Rfc793 => self.timeout,
            _ => self.timeout.saturating_mul(1 << self.backoff).min(MAX),
        }
    }

    /// Times in a row that the timer went off.
    pub fn backoffs(&self) -> u32 {
        self.backoff
    }

    /// Smoothed round trip, ns; zero before the first sample.
    pub fn smoothed(&self) -> u64 {
        self.srtt
    }

    /// Smallest round trip, ns; `u64::MAX` before the first sample.
    pub fn min(&self) -> u64 {
        self.min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = MILLISECOND;

    #[test]
    fn the_first_sample_sets_mean_and_variance_as_rfc_6298_says() {
        let mut rtt = Rtt::new(Estimator::Rfc6298 { floor: 0 });
        assert_eq!(rtt.timeout(), 1000 * MS);
        rtt.sample(0, 100 * MS);
        assert_eq!(rtt.timeout(), 300 * MS);
        rtt.sample(0, 100 * MS);
        assert_eq!(rtt.timeout(), 250 * MS);
    }

    #[test]
    fn the_timer_doubles_until_there_is_progress() {
        let mut rtt = Rtt::new(Estimator::Rfc6298 { floor: 200 * MS });
        rtt.sample(0, 50 * MS);
        assert_eq!(rtt.timeout(), 250 * MS);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), 1000 * MS);
        rtt.progress();
        assert_eq!(rtt.timeout(), 250 * MS);
    }

    #[test]
    fn rfc_793_moves_by_four_tenths_of_the_sample_and_keeps_eight_of_what_it_had() {
        let mut rtt = Rtt::new(Estimator::Rfc793);
        rtt.sample(0, 1000 * MS);
        assert_eq!(rtt.timeout(), 1200 * MS);
        for _ in 0..40 {
            rtt.sample(0, 1000 * MS);
        }
        assert_eq!(rtt.timeout() / MS, 1999, "it settles at twice the round trip");
        for _ in 0..40 {
            rtt.sample(0, 60_000 * MS);
        }
        assert_eq!(rtt.timeout(), RFC793_MAX);
    }

    #[test]
    fn with_rfc_793_a_timeout_is_forgotten_only_by_eight_tenths_a_sample() {
        let mut rtt = Rtt::new(Estimator::Rfc793);
        (0..5).for_each(|_| rtt.back_off());
        rtt.progress();
        assert_eq!(rtt.timeout(), RFC793_MAX);
        rtt.sample(0, 1000 * MS);
        assert_eq!(rtt.timeout(), 16_400 * MS);
    }

    #[test]
    fn without_karns_rule_the_seeds_stack_times_from_the_first_sending_and_its_repair_from_the_last() {
        let (first, last) = (Some(9000 * MS), Some(1000 * MS));
        assert_eq!(Rtt::new(Estimator::Rfc793).without_karn(first, last), Some(first));
        assert_eq!(Rtt::new(Estimator::Jacobson1988).without_karn(first, last), Some(last));
        assert_eq!(Rtt::new(Estimator::Rfc6298 { floor: 0 }).without_karn(first, last), None);
    }
}

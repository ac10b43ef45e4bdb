//! The PI controller on queue delay: one number, the base probability p′ (`spec/dualpi2.md` §5).

use crate::time::Instant;

/// Gains in the kernel's fixed point, from 1/256 Hz: per 64 ns of delay, in units of 2^−32.
pub(super) fn gain(param: u32) -> u32 {
    (((u64::from(param) * u64::from(u32::MAX)) >> 2) / 1_000_000_000) as u32
}

/// A gain as it is reported, 1/256 Hz; the rounding is part of it.
pub fn reported_gain(gain: u32) -> u32 {
    ((u64::from(gain) * 1_000_000_000) << 2).wrapping_div(u64::from(u32::MAX)) as u32
}

/// The controller, its gains and its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Controller {
    /// Set point, ns.
    pub(super) target: u64,
    /// Time from run to run, ns.
    pub(super) tupdate: u64,
    /// Integral gain.
    pub(super) alpha: u32,
    /// Proportional gain.
    pub(super) beta: u32,
    /// The most p′ may be.
    pub(super) ceiling: u32,
    /// p′, units of 2^−32.
    pub(super) prob: u32,
    /// Delay at the last run, ns.
    pub(super) last_delay: u64,
    /// Runs so far.
    pub(super) runs: u64,
    next: Option<Instant>,
}

impl Controller {
    pub(super) fn new(target: u64, tupdate: u64, [alpha, beta]: [u32; 2], ceiling: u32) -> Self {
        let (alpha, beta) = (gain(alpha), gain(beta));
        Controller { target, tupdate, alpha, beta, ceiling, prob: 0, last_delay: 0, runs: 0, next: None }
    }

    /// Takes over another's parameters and goes on from its own state.
    pub(super) fn change(&mut self, other: Controller) {
        let Controller { target, tupdate, alpha, beta, ceiling, .. } = other;
        *self = Controller { target, tupdate, alpha, beta, ceiling, prob: self.prob.min(ceiling), ..*self };
    }

    /// When it will run next; `None` as long as nobody told it the time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Whether it is to run now. The first call starts its clock; a run that comes late moves all
    /// later ones.
    pub(super) fn due(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|t| t <= now);
        if due || self.next.is_none() {
            self.next = Some(now + self.tupdate);
        }
        due
    }

    /// One run with the larger of the two queues' delays, ns.
    pub(super) fn run(&mut self, delay: u64) {
        let term = |error: u64, from: u64, gain: u32| (error.wrapping_sub(from) as i64).wrapping_mul(i64::from(gain));
        let integral = term(delay, self.target, self.alpha);
        let proportional = term(delay, self.last_delay, self.beta);
        self.last_delay = delay;
        let delta = integral.wrapping_add(proportional);
        let step = (delta.unsigned_abs() / 64) as u32;
        // The kernel's saturation: by the wrap of 32 bits.
        self.prob = if delta > 0 {
            let n = self.prob.wrapping_add(step);
            if n < self.prob { u32::MAX } else { n }
        } else {
            let n = self.prob.wrapping_sub(step);
            if n > self.prob { 0 } else { n }
        }
        .min(self.ceiling);
        self.runs += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MILLISECOND;

    fn with_defaults() -> Controller {
        Controller::new(15 * MILLISECOND, 16 * MILLISECOND, [41, 819], u32::MAX)
    }

    #[test]
    fn the_default_gains_are_44_and_879_and_are_reported_as_40_and_818() {
        assert_eq!([41, 819].map(gain), [44, 879]);
        assert_eq!([44, 879].map(reported_gain), [40, 818]);
    }

    #[test]
    fn the_probability_follows_the_specified_sequence() {
        let mut c = with_defaults();
        let seen = [0, 15, 20, 30, 30, 20, 10, 0, 0].map(|ms| {
            c.run(ms * MILLISECOND);
            c.prob
        });
        let expected =
            [0, 206_015_625, 278_125_000, 425_781_250, 436_093_750, 302_187_500, 161_406_250, 13_750_000, 3_437_500];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_first_look_at_the_clock_starts_it_and_a_late_run_moves_the_next() {
        let at = |ms: u64| Instant::from_nanos(ms * MILLISECOND);
        let mut c = with_defaults();
        assert_eq!((c.next(), c.due(at(100))), (None, false));
        assert_eq!((c.due(at(115)), c.next()), (false, Some(at(116))));
        assert_eq!((c.due(at(120)), c.next()), (true, Some(at(136))));
    }
}

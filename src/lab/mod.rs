//! Real senders, through the kernel's own TCP: what `weir load` is made of, and the demo and the lab with it.
//!
//! Everything blocks and sleeps; nothing spins. So it also runs in a guest whose clock stands still while code runs.

#[cfg(feature = "xdp")]
pub mod congestion_control;
#[cfg(feature = "xdp")]
pub mod course;
pub mod dtp;
#[cfg(feature = "xdp")]
pub mod flows;
pub mod guest;
#[cfg(feature = "xdp")]
pub mod kernel_router;
pub mod load;
#[cfg(feature = "xdp")]
pub mod machine;
#[cfg(feature = "xdp")]
pub mod noise;
pub mod ping;
pub mod plan;
#[cfg(feature = "xdp")]
pub mod router;
#[cfg(feature = "xdp")]
pub mod run;
pub mod senders;
pub mod space;
#[cfg(feature = "xdp")]
mod tcp_flow;
pub mod tcp_info;
#[cfg(feature = "xdp")]
pub mod topology;
#[cfg(feature = "xdp")]
mod udp_flow;
#[cfg(feature = "xdp")]
pub mod watch;
#[cfg(feature = "xdp")]
mod web_flow;

use std::fmt;
use std::io;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// What went wrong, in words for people.
#[derive(Debug)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(crate) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Error(format!("{what}: {why}"))
    }

    pub(crate) fn panicked(who: &str) -> Self {
        Error(format!("{who} panicked"))
    }

    /// For `map_err`: says what was being done when the kernel said no.
    pub(crate) fn when(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |why| Error::new(what, why)
    }
}

/// A distribution of durations, as printed and in JSON. Microseconds.
#[derive(Clone, Copy, Default, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Number of samples. All other figures are 0 when it is 0.
    pub count: u64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90 of 100 are no larger.
    pub p90: f64,
    /// 95 of 100 are no larger.
    pub p95: f64,
    /// 99 of 100 are no larger.
    pub p99: f64,
    /// 999 of 1000 are no larger.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

impl Percentiles {
    /// Reads them off a histogram of nanoseconds.
    pub fn of(nanos: &Histogram<u64>) -> Self {
        if nanos.is_empty() {
            return Percentiles::default();
        }
        let at = |q| nanos.value_at_quantile(q) as f64 / 1000.0;
        Percentiles {
            count: nanos.len(),
            min: nanos.min() as f64 / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: nanos.max() as f64 / 1000.0,
        }
    }
}

/// A histogram of nanoseconds up to a minute, to three digits; longer values count as a minute.
pub fn histogram_of_nanoseconds() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds and digits are in hdrhistogram's range")
}

/// Jain's index of fairness: 1 when all shares are equal, 1/n when one has all. 0 for no shares or only zeros.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_a_monopoly() {
        assert_eq!(jain(&[3.0, 3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[7.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 0.0);
    }

    #[test]
    fn percentiles_are_read_in_microseconds() {
        let mut nanos = histogram_of_nanoseconds();
        for micros in 1..=100 {
            nanos.record(micros * 1000).expect("in range");
        }
        let p = Percentiles::of(&nanos);
        assert_eq!(
            (p.count, p.min.round(), p.p50.round(), p.p90.round(), p.max.round()),
            (100, 1.0, 50.0, 90.0, 100.0)
        );
    }
}

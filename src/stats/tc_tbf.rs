//! What tc makes of a token bucket's parameters before it prints them (`spec/codel.md` §5).
//!
//! The kernel reports depths in ticks of 64 ns; the tool cuts those to whole microseconds and makes
//! bytes and latencies of them, so what is printed is not always what was asked for.

use crate::qdisc::tbf;
use crate::units::Rate;

/// How the limit of the bucket's own queue is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// As the wait of the last byte that fits, µs.
    Latency(u64),
    /// In bytes, where that wait would be negative.
    Bytes(u64),
    /// There is none: weir's addition, a `tbf` over a queue needs no limit of its own.
    None,
}

/// A bucket as tc shows it.
pub(super) struct Shown {
    /// Depth, bytes.
    pub(super) burst: u64,
    /// Peak rate and the depth of its bucket, bytes.
    pub(super) peak: Option<(Rate, u64)>,
    /// See [`Limit`].
    pub(super) limit: Limit,
}

impl Shown {
    pub(super) fn of(s: &tbf::Stats) -> Shown {
        let rate = s.time.rate();
        let peak = s.peak.map(|(time, depth, _)| (time.rate(), depth));
        let wait = |rate: Rate, depth| latency(s.limit, rate, whole_us(depth));
        let latency = wait(rate, s.depth).max(peak.map_or(f64::MIN, |(peak, depth)| wait(peak, depth)));
        let limit = match s.limit {
            u32::MAX => Limit::None,
            bytes if latency < 0.0 => Limit::Bytes(bytes.into()),
            _ => Limit::Latency(latency as u64),
        };
        Shown {
            burst: bytes(rate, whole_us(s.depth)),
            peak: peak.map(|(rate, depth)| (rate, bytes(rate, whole_us(depth)))),
            limit,
        }
    }
}

/// A depth in ns as the tool sees it: in ticks, then in whole microseconds.
fn whole_us(depth: i64) -> u64 {
    depth as u64 / 64 * 64 / 1000
}

fn bytes(rate: Rate, us: u64) -> u64 {
    (rate.bytes_per_second() as f64 * us as f64 / 1e6) as u64
}

fn latency(limit: u32, rate: Rate, burst_us: u64) -> f64 {
    1e6 * (f64::from(limit) / rate.bytes_per_second() as f64) - burst_us as f64
}

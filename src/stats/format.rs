//! How tc writes numbers (`spec/cake.md` §20.5): the one place for it.

use crate::units::Rate;

/// A rate in bits per second, cut to the largest unit that keeps it whole, or to at least four digits.
///
/// ```
/// use weir::{stats::format, units::Rate};
/// assert_eq!(format::rate(Rate::from_bits_per_second(1_234_560)), "1234Kbit");
/// ```
pub fn rate(rate: Rate) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut value = rate.bits_per_second();
    let mut unit = 0;
    while unit + 1 < UNITS.len() && value >= 1000 && (value % 1000 == 0 || value >= 1_000_000) {
        value /= 1000;
        unit += 1;
    }
    format!("{value}{}bit", UNITS[unit])
}

/// A size in bytes: whole MiB or KiB where it is (nearly) that, else bytes.
pub fn size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    let near = |unit: u64, slack: u64| {
        let whole = (bytes + unit / 2) / unit;
        (bytes >= unit && bytes.abs_diff(whole * unit) < slack).then_some(whole)
    };
    if let Some(n) = near(MIB, 1024) {
        format!("{}Mb", significant(n as f64, 6))
    } else if let Some(n) = near(KIB, 16) {
        format!("{}Kb", significant(n as f64, 6))
    } else {
        format!("{bytes}b")
    }
}

/// A time given in microseconds: three significant digits from a millisecond on.
pub fn time_us(us: u64) -> String {
    match us {
        1_000_000.. => format!("{}s", significant(us as f64 / 1e6, 3)),
        1_000.. => format!("{}ms", significant(us as f64 / 1e3, 3)),
        _ => format!("{us}us"),
    }
}

/// A time given in nanoseconds, for weir's own lines: as [`time_us`], with the nanoseconds kept
/// below a microsecond.
pub fn time_ns(ns: u64) -> String {
    match ns {
        1_000_000_000.. => format!("{}s", significant(ns as f64 / 1e9, 4)),
        1_000_000.. => format!("{}ms", significant(ns as f64 / 1e6, 4)),
        1_000.. => format!("{}us", significant(ns as f64 / 1e3, 4)),
        _ => format!("{ns}ns"),
    }
}

/// A share as a percentage: `0.25` is `25%`.
pub fn percent(share: f64) -> String {
    format!("{}%", significant(share * 100.0, 6))
}

/// C's `%.Ng`: so many significant digits, no zeros at the end, an exponent where the number does
/// not fit (999.999 in three digits is `1e+03`).
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust writes an exponent");
    let exponent: i32 = exponent.parse().expect("and it is a number");
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent) as usize;
    trim(&format!("{value:.places$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_four_digits_or_are_whole() {
        for (bits, text) in [
            (0, "0bit"),
            (992, "992bit"),
            (1496, "1496bit"),
            (312_496, "312496bit"),
            (1_234_560, "1234Kbit"),
            (1_500_000, "1500Kbit"),
            (2_500_000, "2500Kbit"),
            (100_000_000, "100Mbit"),
            (400_000_000_000, "400Gbit"),
        ] {
            assert_eq!(rate(Rate::from_bits_per_second(bits)), text);
        }
    }

    #[test]
    fn sizes_are_whole_units_if_nearly_so() {
        for (bytes, text) in [
            (0, "0b"),
            (123, "123b"),
            (1000, "1000b"),
            (1025, "1Kb"),
            (5119, "5Kb"),
            (5723, "5723b"),
            (15_503_360, "15140Kb"),
            (33_554_432, "32Mb"),
            (58_374, "57Kb"),
            (5_200_000, "5200000b"),
            (684_288, "684288b"),
            (276_480, "270Kb"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn times_have_three_digits() {
        for (us, text) in [
            (0, "0us"),
            (242, "242us"),
            (999, "999us"),
            (4999, "5ms"),
            (4321, "4.32ms"),
            (99_999, "100ms"),
            (999_999, "1e+03ms"),
            (2_000_000, "2s"),
            (69_677_420, "69.7s"),
        ] {
            assert_eq!(time_us(us), text);
        }
    }

    #[test]
    fn significant_digits_are_as_in_c() {
        for (value, digits, text) in [
            (0.5, 6, "0.5"),
            (100.0, 3, "100"),
            (1000.0, 3, "1e+03"),
            (0.00001, 3, "1e-05"),
            (0.0001234, 3, "0.000123"),
            (1234567.0, 6, "1.23457e+06"),
        ] {
            assert_eq!(significant(value, digits), text);
        }
    }
}

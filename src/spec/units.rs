//! tc's units: rates, times, sizes, integers (`spec/cake.md` §3.2), read exactly and refused where
//! tc would wrap or cut to nothing.

use crate::units::{Fraction, Rate};

/// Splits a word into the longest C floating-point literal at its start and the rest.
fn literal(word: &str) -> Result<(f64, &str), String> {
    let bad = || format!("\"{word}\" does not begin with a number");
    let body = word.strip_prefix(['+', '-']).unwrap_or(word);
    let sign = if word.starts_with('-') { -1.0 } else { 1.0 };
    if let Some(hex) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        // `0x10bit` would read the b as a digit, as strtod does.
        let value = u64::from_str_radix(&hex[..end], 16).map_err(|_| bad())?;
        return Ok((sign * value as f64, &hex[end..]));
    }
    let mut end = 0;
    let bytes = body.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    end += digits(0);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if digits(signed) > 0 {
            end = signed + digits(signed);
        }
    }
    let value: f64 = body[..end].parse().map_err(|_| bad())?;
    Ok((sign * value, &body[end..]))
}

fn scaled(word: &str, what: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let (value, suffix) = literal(word)?;
    let suffix = suffix.to_ascii_lowercase();
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == suffix) else {
        let names: Vec<_> = units.iter().map(|(n, _)| *n).filter(|n| !n.is_empty()).collect();
        return Err(format!("\"{suffix}\" is no unit of {what}; allowed: {}", names.join(", ")));
    };
    if value < 0.0 {
        return Err(format!("{what} cannot be negative"));
    }
    Ok(value * scale)
}

const RATE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("bit", 1.0),
    ("kbit", 1e3),
    ("mbit", 1e6),
    ("gbit", 1e9),
    ("tbit", 1e12),
    ("kibit", 1024.0),
    ("mibit", 1048576.0),
    ("gibit", 1073741824.0),
    ("tibit", 1099511627776.0),
    ("bps", 8.0),
    ("kbps", 8e3),
    ("mbps", 8e6),
    ("gbps", 8e9),
    ("tbps", 8e12),
    ("kibps", 8.0 * 1024.0),
    ("mibps", 8.0 * 1048576.0),
    ("gibps", 8.0 * 1073741824.0),
    ("tibps", 8.0 * 1099511627776.0),
];

/// A rate: 8 bit/s … 400 Gbit/s and beyond; without a unit, bits per second. Cut to whole bytes per second.
///
/// # Errors
/// Not a number, not a unit, negative, zero, or less than one byte per second.
pub fn rate(word: &str) -> Result<Rate, String> {
    let bits = scaled(word, "a rate", RATE_UNITS)?;
    if bits == 0.0 {
        return Err("a rate of 0 says neither \"unlimited\" (pass, with statistics) nor \"off\"; leave the shaper away for an unlimited rate".into());
    }
    if bits < 8.0 {
        return Err(format!("{word} is less than one byte per second; the lowest rate is 8bit"));
    }
    if bits >= 8e15 {
        return Err(format!("{word} is beyond the highest rate, 1000tbps"));
    }
    Ok(Rate::from_bytes_per_second((bits / 8.0) as u64))
}

/// A rate, or a zero that means an outage.
///
/// # Errors
/// As [`rate`], zero aside.
pub fn rate_or_zero(word: &str) -> Result<Rate, String> {
    match scaled(word, "a rate", RATE_UNITS)? {
        0.0 => Ok(Rate::default()),
        _ => rate(word),
    }
}

const TIME_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("us", 1.0),
    ("usec", 1.0),
    ("usecs", 1.0),
    ("ms", 1e3),
    ("msec", 1e3),
    ("msecs", 1e3),
    ("s", 1e6),
    ("sec", 1e6),
    ("secs", 1e6),
];

/// A time in whole microseconds, below 2^32; without a unit, microseconds.
///
/// # Errors
/// Not a number, not a unit, negative, or 2^32 µs (about 71 minutes) or more, where tc wraps.
pub fn time_us(word: &str) -> Result<u32, String> {
    let us = scaled(word, "a time", TIME_UNITS)?;
    if us >= 4294967296.0 {
        return Err(format!("{word} is more than 4294s, the longest time tc can say"));
    }
    Ok(us as u32)
}

const NANO_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("nsec", 1),
    ("nsecs", 1),
    ("us", 1_000),
    ("usec", 1_000),
    ("usecs", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("msecs", 1_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("secs", 1_000_000_000),
];

/// The longest time that [`time_ns`] reads: 1000 hours.
const LONGEST_NS: u64 = 3_600_000_000_000_000;

/// A time in ns, read as a decimal number without rounding on the way (a fraction of a nanosecond
/// is cut off). Without a unit it is counted in `bare` ns.
///
/// # Errors
/// Not a decimal number, not a unit, negative, or more than 1000 hours.
pub fn time_ns(word: &str, bare: u64) -> Result<u64, String> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, suffix) = word.split_at(end);
    if word.starts_with('-') {
        return Err("a time cannot be negative".into());
    }
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + part.len() == 0 || part.contains('.') {
        return Err(format!("\"{word}\" does not begin with a decimal number"));
    }
    let lower = suffix.to_ascii_lowercase();
    let scale = match NANO_UNITS.iter().find(|(name, _)| *name == lower) {
        Some((_, scale)) => *scale,
        None if suffix.is_empty() => bare,
        None => return Err(format!("\"{suffix}\" is no unit of a time; allowed: ns, us, ms, s")),
    };
    let too_long = || format!("{word} is more than 1000 hours");
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
    // More digits than a u64 holds are far below a nanosecond.
    let part = &part[..part.len().min(18)];
    let below = part.parse::<u128>().map_or(0, |p| p * u128::from(scale) / 10u128.pow(part.len() as u32));
    let nanos = u128::from(whole) * u128::from(scale) + below;
    u64::try_from(nanos).ok().filter(|n| *n <= LONGEST_NS).ok_or_else(too_long)
}

/// Whether a time is written without a unit and is not zero, so that tools disagree about it.
pub fn has_no_unit(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || b == b'.') && word.bytes().any(|b| (b'1'..=b'9').contains(&b))
}

/// A percentage, 0…100, with or without the sign.
///
/// # Errors
/// Not a number, not followed by `%` or nothing, or outside 0…100.
pub fn percent(word: &str) -> Result<Fraction, String> {
    let (value, suffix) = literal(word)?;
    if !suffix.is_empty() && suffix != "%" {
        return Err(format!("\"{word}\" is no percentage"));
    }
    if !(0.0..=100.0).contains(&value) {
        return Err(format!("{word} is outside 0%…100%"));
    }
    Ok(Fraction::from_ratio(value / 100.0))
}

const SIZE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("b", 1.0),
    ("k", 1024.0),
    ("kb", 1024.0),
    ("m", 1048576.0),
    ("mb", 1048576.0),
    ("g", 1073741824.0),
    ("gb", 1073741824.0),
    ("kbit", 128.0),
    ("mbit", 131072.0),
    ("gbit", 134217728.0),
];

/// A size in bytes, 1024-based; below 2^32.
///
/// # Errors
/// Not a number, not a unit, negative, or 4 GiB and more.
pub fn size(word: &str) -> Result<u32, String> {
    let bytes = scaled(word, "a size", SIZE_UNITS)?;
    if bytes >= 4294967296.0 {
        return Err(format!("{word} is more than 4294967295 bytes"));
    }
    Ok(bytes as u32)
}

/// An integer in C's notation (decimal, `0x…`, `0…`) within `range`.
///
/// # Errors
/// Not such a number, or out of range.
pub fn integer(range: std::ops::RangeInclusive<i64>) -> impl Fn(&str) -> Result<i64, String> {
    move |word| match crate::units::c_integer(word) {
        Some(v) if range.contains(&v) => Ok(v),
        Some(_) => Err(format!("{word} is outside {}…{}", range.start(), range.end())),
        None => Err(format!("\"{word}\" is not a whole number")),
    }
}

/// An unsigned 32-bit integer in C's notation.
///
/// # Errors
/// As [`integer`].
pub fn count(word: &str) -> Result<u32, String> {
    integer(0..=i64::from(u32::MAX))(word).map(|v| v as u32)
}

/// The shortest exact spelling of a rate.
pub fn show_rate(rate: Rate) -> String {
    scaled_exact(rate.bits_per_second(), 1000, &["bit", "kbit", "mbit", "gbit", "tbit"])
}

/// The shortest exact spelling of a time in microseconds.
pub fn show_us(us: u32) -> String {
    scaled_exact(u64::from(us), 1000, &["us", "ms", "s"])
}

/// The shortest exact spelling of a time in nanoseconds.
pub fn show_ns(ns: u64) -> String {
    if ns == 0 { "0us".into() } else { scaled_exact(ns, 1000, &["ns", "us", "ms", "s"]) }
}

/// The shortest percentage that reads as this share.
pub fn show_percent(share: Fraction) -> String {
    let value = share.ratio() * 100.0;
    let short = (0..12).map(|digits| format!("{value:.digits$}%")).find(|text| percent(text) == Ok(share));
    short.unwrap_or_else(|| format!("{value}%"))
}

/// The shortest exact spelling of a size.
pub fn show_size(bytes: u32) -> String {
    scaled_exact(u64::from(bytes), 1024, &["b", "kb", "mb", "gb"])
}

fn scaled_exact(mut value: u64, step: u64, units: &[&str]) -> String {
    let mut unit = 0;
    while value != 0 && value % step == 0 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{value}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_tc_reads_them() {
        for (word, bytes) in [
            ("100mbit", 12_500_000),
            ("1000", 125),
            ("1000bps", 1000),
            ("10kibit", 1280),
            ("1.5Mbit", 187_500),
            ("1e3kbit", 125_000),
            ("0x10", 2),
        ] {
            assert_eq!(rate(word).map(Rate::bytes_per_second), Ok(bytes), "{word}");
        }
        for word in ["7bit", "0", "10foo", "10%", "unlimited", "-1mbit", "", "mbit"] {
            assert!(rate(word).is_err(), "{word}");
        }
    }

    #[test]
    fn times_are_whole_microseconds_and_do_not_wrap() {
        assert_eq!(time_us("242us"), Ok(242));
        assert_eq!(time_us("1.5ms"), Ok(1500));
        assert_eq!(time_us("100"), Ok(100));
        assert_eq!(time_us("0.0000009s"), Ok(0));
        for word in ["5000s", "-5ms", "10ns", "5 ms"] {
            assert!(time_us(word).is_err(), "{word}");
        }
    }

    #[test]
    fn nanoseconds_are_read_without_rounding_and_say_their_unit() {
        for (word, bare, ns) in [
            ("25ms", 1, 25_000_000),
            ("0.1s", 1, 100_000_000),
            ("1.5", 1000, 1500),
            ("7", 1, 7),
            (".000000001s", 1, 1),
            ("0.9999999999s", 1, 999_999_999),
            ("0.7ns", 1, 0),
        ] {
            assert_eq!(time_ns(word, bare), Ok(ns), "{word}");
        }
        for word in ["-1ms", "1e3ms", "ms", ".", "1.2.3s", "4000000s", "99999999999999999999ms", "5 ms", "1h"] {
            assert!(time_ns(word, 1).is_err(), "{word}");
        }
        assert!(has_no_unit("100") && has_no_unit("0.5") && !has_no_unit("0") && !has_no_unit("1us"));
    }

    #[test]
    fn percentages_round_as_recorded_and_read_back() {
        for (text, raw) in [
            ("0.0000001", 4),
            ("0.1", 4294967),
            ("1%", 42949673),
            ("5", 214748365),
            ("10", 429496730),
            ("25%", 1073741824),
            ("50", 2147483648),
            ("90", 3865470566),
            ("99.9%", 4290672328),
            ("100%", u32::MAX),
        ] {
            assert_eq!(percent(text), Ok(Fraction(raw)), "{text}");
            let shown = show_percent(Fraction(raw));
            assert_eq!(percent(&shown), Ok(Fraction(raw)));
            assert!(shown.len() <= 10, "{shown}");
        }
        for raw in (0..=u32::MAX).step_by(4_294_967) {
            assert_eq!(percent(&show_percent(Fraction(raw))), Ok(Fraction(raw)));
        }
        for text in ["-1%", "100.1%", "1%%", "x", "5ms"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_1024_based() {
        assert_eq!(size("5k"), Ok(5120));
        assert_eq!(size("100kb"), Ok(102_400));
        assert_eq!(size("1mbit"), Ok(131_072));
        assert!(size("4g").is_err());
    }

    #[test]
    fn integers_are_in_c_notation() {
        assert_eq!(count("0x10"), Ok(16));
        assert_eq!(count("010"), Ok(8));
        assert!(count("1k").is_err());
        assert!(integer(-64..=256)("-65").unwrap_err().contains("-64…256"));
    }

    #[test]
    fn what_is_shown_reads_back_the_same() {
        for bytes in [1, 125, 1_250_000, 1_250_001, 125_000_000_000] {
            let r = Rate::from_bytes_per_second(bytes);
            assert_eq!(rate(&show_rate(r)), Ok(r));
        }
        for us in [0, 1, 242, 5000, 1_000_000, 4_294_967_295] {
            assert_eq!(time_us(&show_us(us)), Ok(us));
        }
        for b in [0, 1, 1024, 5120, 1 << 31] {
            assert_eq!(size(&show_size(b)), Ok(b));
        }
    }
}

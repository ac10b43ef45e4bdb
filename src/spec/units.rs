//! tc's units: rates, times, sizes, integers (`spec/cake.md` §3.2), read exactly and refused where
//! tc would wrap or cut to nothing.

use crate::units::Rate;

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
    move |word| {
        let (sign, body) = match word.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, word),
        };
        let value = if let Some(hex) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
            i64::from_str_radix(hex, 16)
        } else if body.len() > 1 && body.starts_with('0') {
            i64::from_str_radix(&body[1..], 8)
        } else {
            body.parse()
        };
        match value.map(|v| v * sign) {
            Ok(v) if range.contains(&v) => Ok(v),
            Ok(_) => Err(format!("{word} is outside {}…{}", range.start(), range.end())),
            Err(_) => Err(format!("\"{word}\" is not a whole number")),
        }
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

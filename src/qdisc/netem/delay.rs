//! How long a packet is held: a constant, a uniform range, or a table (`spec/netem.md` §4).

/// What a sample of one jitter is in a table.
const SCALE: i64 = 8192;

/// The longest jitter, ns: tc keeps it in 31 bits.
pub const MAX_JITTER: u64 = (1 << 31) - 1;

/// The delay in ns that the draw `r` means, for a mean of `t` and a jitter of `j` ns, `j` not zero.
/// May be negative.
pub(super) fn delay(t: i64, j: i64, table: Option<&[i16]>, r: u32) -> i64 {
    let Some(table) = table else { return t - j + i64::from(r) % (2 * j) };
    let sample = i64::from(table[r as usize % table.len()]);
    let part = (j % SCALE) * sample;
    let half = if part < 0 { -SCALE / 2 } else { SCALE / 2 };
    t + (j / SCALE) * sample + (part + half) / SCALE
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_uniform_delay_takes_the_draw_modulo_the_range() {
        let at = |j, r| delay(10 * MS, j, None, r);
        assert_eq!([at(2 * MS, 0), at(2 * MS, 123456789), at(2 * MS, u32::MAX)], [8000000, 11456789, 10967295]);
        assert_eq!(at(1, 5), 10000000);
        assert_eq!(at(2147483647, u32::MAX), -2137483646);
    }

    #[test]
    fn a_table_is_scaled_by_the_jitter_and_rounded_toward_zero() {
        let at = |t, j, sample| delay(t, j, Some(&[sample]), 77);
        let ten = |j, sample| at(10 * MS, j, sample);
        assert_eq!([-8192, -100, 3, -3].map(|s| ten(MS, s)), [9000000, 9987793, 10000366, 9999634]);
        assert_eq!([ten(4096, 3), ten(1366, 3), ten(1366, -3), ten(1365, 3)], [10000002, 10000001, 9999999, 10000000]);
        assert_eq!(at(0, 8193, -100), -100);
    }
}

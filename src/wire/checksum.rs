//! The Internet checksum (RFC 1071) and its change in place (RFC 1624).

/// Folds a sum of 16-bit words to 16 bits by end-around carry.
fn fold(mut sum: u32) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The checksum over `bytes`, an odd last byte padded with zero (RFC 1071 §1).
pub fn of(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for chunk in bytes.chunks(2) {
        let word = u16::from_be_bytes([chunk[0], chunk.get(1).copied().unwrap_or(0)]);
        sum = u32::from(fold(sum + u32::from(word)));
    }
    !(sum as u16)
}

/// The checksum after one covered 16-bit word went from `old` to `new` (RFC 1624 §3, equation 3).
/// A wrong checksum stays wrong by as much, so damage done elsewhere stays visible.
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u32::from(!checksum) + u32::from(!old) + u32::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1624_comes_out_as_zero_and_not_as_its_other_form() {
        // RFC 1624 §4: HC = 0xDD2F, m = 0x5555, m' = 0x3285.
        assert_eq!(update(0xDD2F, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn an_odd_last_byte_counts_as_the_high_half_of_a_word() {
        assert_eq!(of(&[0x12, 0x34, 0x56]), !(0x1234u16 + 0x5600));
        assert_eq!(of(&[]), 0xFFFF);
    }
}

//! The code: a quarter of a binary logarithm in a byte, for packets waiting and for bytes per second
//! (`spec/mb-ecn.md` §3).

/// 2^(k/4) in units of 1/256, rounded.
const QUARTERS: [u64; 4] = [256, 304, 362, 431];

/// The code of a number, rounded down: 0 for 0 and 1, 255 for the largest.
pub const fn encode(x: u64) -> u8 {
    if x <= 1 {
        return 0;
    }
    let e = x.ilog2();
    let mantissa = if e < 8 { x << (8 - e) } else { x >> (e - 8) };
    let mut f = 0;
    while f < 3 && mantissa >= QUARTERS[f + 1] {
        f += 1;
    }
    (4 * e) as u8 + f as u8
}

/// The number a code stands for, rounded down.
pub const fn decode(code: u8) -> u64 {
    let e = (code / 4) as u32;
    let quarter = QUARTERS[(code % 4) as usize];
    if e < 8 { quarter >> (8 - e) } else { quarter << (e - 8) }
}

/// The number a code stands for, 2^(code/4).
pub fn value(code: f64) -> f64 {
    (code / 4.0).exp2()
}

/// What a hop makes of the depth a frame carries: the largest on the way counts (§4.1).
pub const fn merge_ecn(carried: u8, own: u8) -> u8 {
    if own > carried { own } else { carried }
}

/// What a hop makes of the capacity a frame carries: the smallest on the way counts, and 0 is "not
/// known" (§4.1).
pub const fn merge_cap(carried: u8, own: u8) -> u8 {
    match (carried, own) {
        (_, 0) => carried,
        (0, _) => own,
        _ if own < carried => own,
        _ => carried,
    }
}

/// What Ouroboros 0.23 made of the byte instead: a linear code, and a bitwise OR, which is no maximum
/// (§4.1). Only for reading captures of that version.
pub const fn merge_ecn_of_0_23(carried: u8, depth: u64) -> u8 {
    carried | (depth >> 4) as u8
}

/// A policy rate in SCONE's signal, 20 steps a decade from 100 kbit/s, 0…126 (§8.4), for comparison
/// with the capacity code; `None` below its range.
pub fn scone_signal(bits_per_second: u64) -> Option<u8> {
    let steps = 20.0 * (bits_per_second as f64 / 100_000.0).log10();
    (steps >= 0.0).then(|| (steps + 1e-9).floor().min(126.0) as u8)
}

//! Tables of the jitter's shape, made from their definitions (`spec/netem.md` §4.1).

use std::sync::{Arc, OnceLock};

/// Entries of a table made here.
const N: usize = 4096;

/// The shape of a jitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    name: String,
    table: Option<Arc<[i16]>>,
}

impl Distribution {
    /// Names of the shapes that need no file.
    pub const NAMES: [&'static str; 4] = ["uniform", "normal", "pareto", "paretonormal"];

    /// The even spread from one jitter below to one above the mean, which needs no table.
    pub fn uniform() -> Self {
        Distribution { name: "uniform".into(), table: None }
    }

    /// One of [`Distribution::NAMES`].
    pub fn named(name: &str) -> Option<Self> {
        static TABLES: OnceLock<[Arc<[i16]>; 3]> = OnceLock::new();
        let table = |i: usize| Some(TABLES.get_or_init(tables)[i].clone());
        let table = match name {
            "uniform" => None,
            "normal" => table(0),
            "pareto" => table(1),
            "paretonormal" => table(2),
            _ => return None,
        };
        Some(Distribution { name: name.into(), table })
    }

    /// A table read from text: whole numbers in C's notation between blanks, 8192 for one jitter,
    /// with `#` lines as comments.
    ///
    /// # Errors
    /// A word that is no such number or outside 16 bits, with its line; no number at all; more than
    /// 16384.
    pub fn read(path: &str, text: &str) -> Result<Self, String> {
        let mut out = Vec::new();
        for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.starts_with('#')) {
            for word in line.split_whitespace() {
                let value = crate::units::c_integer(word).and_then(|v| i16::try_from(v).ok());
                let value = value.ok_or_else(|| {
                    format!("{path}, line {}: \"{word}\" is not a whole number of 16 bits, -32768…32767", i + 1)
                })?;
                out.push(value);
            }
        }
        match out.len() {
            0 => Err(format!("{path}: no number in it")),
            1..=16384 => Ok(Distribution { name: path.into(), table: Some(out.into()) }),
            n => Err(format!("{path}: {n} numbers; a table has at most 16384")),
        }
    }

    /// As it is written in a specification.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The samples; none for the uniform spread.
    pub fn table(&self) -> Option<&[i16]> {
        self.table.as_deref()
    }

    /// How many jitters beyond the mean a delay may lie.
    pub fn reach(&self) -> u64 {
        if self.table.is_some() { 4 } else { 1 }
    }
}

/// normal, pareto, paretonormal.
fn tables() -> [Arc<[i16]>; 3] {
    let clamp = |v: f64| v.clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16;
    let normal: Vec<f64> = (0..N).map(normal).collect();
    let pareto: Vec<f64> = (0..N).map(pareto).collect();
    let both = normal.iter().zip(&pareto).map(|(n, p)| clamp(((n + 3.0 * p) / 4.0).trunc()));
    [normal.iter().copied().map(clamp).collect(), pareto.iter().copied().map(clamp).collect(), both.collect()]
}

/// Entry `k`, not clamped: the quantile on a grid of 0.00005 that counts from −10.
fn normal(k: usize) -> f64 {
    const GRID: f64 = 0.00005;
    let z = quantile((4.0 * k as f64 + 0.5) / 16384.0);
    let on_grid = ((z + 10.0) / GRID).floor() * GRID - 10.0;
    (8192.0 * on_grid).round_ties_even()
}

/// Entry `k` of a Pareto distribution of shape 3, moved so that its mean is near zero.
fn pareto(k: usize) -> f64 {
    let tail = 65536.0 / (65536.0 - 16.0 * k as f64);
    let v = 8192.0 * (4.0 / 3.0) * (tail.powf(1.0 / 3.0) - 1.5);
    if v > 32767.0 { 32767.0 } else { v.round_ties_even() }
}

/// Where the standard normal distribution reaches `p`.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if cumulative(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The standard normal distribution, by the series x + x³/3 + x⁵/(3·5) + …
fn cumulative(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 3.0);
    while (sum + term) != sum {
        term *= x * x / odd;
        sum += term;
        odd += 2.0;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_sums_and_bounds_of_tcs_own() {
        for (name, sum, min, max, at_bounds) in [
            ("normal", -26163, -32768, 28858, 1),
            ("pareto", -1123786, -5461, 32767, 44),
            ("paretonormal", -848968, -12305, 31789, 0),
        ] {
            let d = Distribution::named(name).unwrap();
            let t = d.table().unwrap();
            assert_eq!(t.len(), N);
            assert_eq!(t.iter().map(|v| i64::from(*v)).sum::<i64>(), sum, "{name}");
            assert_eq!((t.iter().min(), t.iter().max()), (Some(&min), Some(&max)), "{name}");
            assert_eq!(t.iter().filter(|v| [i16::MIN, i16::MAX].contains(*v)).count(), at_bounds, "{name}");
        }
    }

    #[test]
    fn a_file_of_numbers_is_a_table_and_a_slip_is_refused_with_its_line() {
        let read = |text| Distribution::read("./t", text);
        let d = read("# shape\n-8192 0\n0x2000\n\n").unwrap();
        assert_eq!((d.table(), d.reach(), d.name()), (Some(&[-8192, 0, 8192][..]), 4, "./t"));
        assert!(read("1 2\n3 x\n").unwrap_err().contains("line 2: \"x\""));
        assert!(read("40000").unwrap_err().contains("16 bits"));
        assert!(read("# nothing\n").unwrap_err().contains("no number"));
    }
}

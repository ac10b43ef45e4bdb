//! What a web-like page is made of, in the simulator and in the lab.

use crate::rng::Random;

/// A question for an object, bytes.
pub const QUESTION: u64 = 350;
/// Objects of a page: at least so many, and fewer than that.
const OBJECTS: (u64, u64) = (5, 40);
/// The smallest object, bytes.
const SMALLEST: f64 = 2000.0;
/// The largest, bytes.
const LARGEST: f64 = 2e6;
/// How long the tail of their sizes is (Pareto's shape): many of a few kB, some of hundreds.
const SHAPE: f64 = 1.2;

/// The sizes of a page's objects, bytes; the last is asked for first.
pub fn objects(random: &mut Random) -> Vec<u64> {
    let n = OBJECTS.0 + random.u64() % (OBJECTS.1 - OBJECTS.0);
    (0..n).map(|_| (SMALLEST * random.unit().max(1e-4).powf(-1.0 / SHAPE)).min(LARGEST) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_five_to_thirty_nine_objects_of_two_kilobytes_to_two_megabytes_most_of_them_small() {
        let mut random = Random::seeded(1);
        let pages: Vec<Vec<u64>> = (0..1000).map(|_| objects(&mut random)).collect();
        let (least, most) = (pages.iter().map(Vec::len).min(), pages.iter().map(Vec::len).max());
        assert_eq!((least, most), (Some(5), Some(39)));
        let mut sizes = pages.concat();
        sizes.sort_unstable();
        assert!(sizes[0] >= 2000 && sizes[sizes.len() - 1] <= 2_000_000);
        // The median of the distribution is 2000 * 2^(1/1.2) = 3564.
        assert!((3400..3700).contains(&sizes[sizes.len() / 2]), "{}", sizes[sizes.len() / 2]);
    }
}

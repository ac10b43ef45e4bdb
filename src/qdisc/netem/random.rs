//! Where `netem` takes its random numbers from (`spec/netem.md` §3).
//!
//! The main stream is draw for draw the kernel's for the same seed. What the kernel takes from
//! elsewhere, so that no seed repeats it, comes from a second generator here.

use crate::rng::SplitMix64;
use crate::units::Fraction;

/// A combined Tausworthe generator of four words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taus113([u32; 4]);

impl Taus113 {
    /// The generator as a 64-bit seed sets it up, without warming up: small seeds begin with small
    /// numbers.
    pub fn new(seed: u64) -> Self {
        let i = ((seed >> 32) ^ (seed << 10) ^ seed) as u32;
        Taus113([2, 8, 16, 128].map(|least| if i < least { i + least } else { i }))
    }

    /// The next 32 bits.
    pub fn draw(&mut self) -> u32 {
        const SHIFTS: [(u32, u32, u32, u32); 4] = [(6, 13, 2, 18), (2, 27, 8, 2), (13, 21, 16, 7), (3, 12, 128, 13)];
        let mut out = 0;
        for (word, (a, b, dropped, d)) in self.0.iter_mut().zip(SHIFTS) {
            *word = ((*word & dropped.wrapping_neg()) << d) ^ (((*word << a) ^ *word) >> b);
            out ^= *word;
        }
        out
    }
}

/// Draws that lean on the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correlator {
    rho: u32,
    last: u32,
}

impl Correlator {
    /// Of correlation `rho`, starting from `last`.
    pub fn new(rho: Fraction, last: u32) -> Self {
        Correlator { rho: rho.0, last }
    }

    /// The next value. With correlation it is no longer uniform; see `spec/netem.md` §3.2.
    pub fn draw(&mut self, from: &mut Taus113) -> u32 {
        let draw = u64::from(from.draw());
        if self.rho == 0 {
            return draw as u32;
        }
        let weight = u64::from(self.rho) + 1;
        let sum = draw * ((1 << 32) - weight) + u64::from(self.last) * weight;
        self.last = (sum >> 32) as u32;
        self.last
    }
}

/// All generators of one `netem`.
#[derive(Clone, Debug)]
pub struct Sources {
    /// What they were seeded with.
    pub seed: u64,
    /// The kernel's stream.
    pub main: Taus113,
    second: SplitMix64,
    /// Of the jitter.
    pub delay: Correlator,
    /// Of random loss.
    pub loss: Correlator,
    /// Of duplication.
    pub duplicate: Correlator,
    /// Of reordering.
    pub reorder: Correlator,
    /// Of corruption.
    pub corrupt: Correlator,
}

/// Correlations, in the order in which the start values are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correlations {
    /// Of the jitter.
    pub delay: Fraction,
    /// Of random loss.
    pub loss: Fraction,
    /// Of duplication.
    pub duplicate: Fraction,
    /// Of reordering.
    pub reorder: Fraction,
    /// Of corruption.
    pub corrupt: Fraction,
}

impl Sources {
    /// Everything from one seed.
    pub fn new(seed: u64, rho: Correlations) -> Self {
        Sources::start(seed, Taus113::new(seed), SplitMix64::new(seed), rho)
    }

    /// The same streams, going on, with other correlations.
    pub fn go_on(self, rho: Correlations) -> Self {
        Sources::start(self.seed, self.main, self.second, rho)
    }

    fn start(seed: u64, main: Taus113, mut second: SplitMix64, rho: Correlations) -> Self {
        let mut start = |rho| Correlator::new(rho, (second.next_u64() >> 32) as u32);
        let [delay, loss, duplicate] = [rho.delay, rho.loss, rho.duplicate].map(&mut start);
        let [reorder, corrupt] = [rho.reorder, rho.corrupt].map(&mut start);
        Sources { seed, main, second, delay, loss, duplicate, reorder, corrupt }
    }

    /// A draw that the kernel would not take from its seeded stream.
    pub fn unseeded(&mut self) -> u32 {
        (self.second.next_u64() >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u32 = u32::MAX;

    #[test]
    fn seeds_give_the_kernels_numbers() {
        for (seed, first) in [
            (0, [1574944, 268744, 1109394980, 8552980, 826355289]),
            (1, [276959246, 18909696, 2298495022, 9442690, 3222971081]),
            (42, [3053367555, 794645456, 722109529, 489076602, 564259759]),
            (0x1234_5678_9ABC_DEF0, [1565990206, 3253438099, 3391650309, 307209238, 3498746814]),
            (u64::MAX, [260173829, 14711295, 2030026778, 7343233, 3220595128]),
        ] {
            let mut g = Taus113::new(seed);
            assert_eq!(std::array::from_fn(|_| g.draw()), first, "seed {seed}");
        }
        let mut g = Taus113::new(1);
        assert_eq!((0..1000).map(|_| g.draw()).last(), Some(407835537));
    }

    #[test]
    fn what_the_kernel_does_not_seed_comes_from_the_second_generator() {
        let mut s = Sources::new(1, Correlations::default());
        let starts = [&s.delay, &s.loss, &s.duplicate, &s.reorder, &s.corrupt].map(|c| c.last);
        assert_eq!(starts, [2433363436, 3203108257, 4170425070, 1908508304, 1908102360]);
        assert_eq!(s.unseeded(), 3276606463);
    }

    #[test]
    fn correlated_values_lean_on_the_one_before() {
        // The recursion alone, so the draws are given.
        let run = |rho: u32, last: u32, draws: &[u32]| -> Vec<u32> {
            let mut last = u64::from(last);
            let w = u64::from(rho) + 1;
            draws
                .iter()
                .map(|d| {
                    last = (u64::from(*d) * ((1 << 32) - w) + last * w) >> 32;
                    last as u32
                })
                .collect()
        };
        assert_eq!(
            run(1 << 30, 1 << 31, &[0, M, 1 << 31, 1_000_000_000]),
            [536870912, 3355443198, 2449473535, 1362368384]
        );
        let mut c = Correlator::new(Fraction(M), 12345);
        let mut g = Taus113::new(9);
        assert_eq!([c.draw(&mut g), c.draw(&mut g)], [12345; 2], "100 % never moves");
        let mut plain = Correlator::new(Fraction(0), 12345);
        let (mut a, mut b) = (Taus113::new(3), Taus113::new(3));
        assert_eq!(plain.draw(&mut a), b.draw());
        assert_eq!(plain.last, 12345, "without correlation nothing is remembered");
    }
}

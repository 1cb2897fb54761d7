//! A random order of the numbers below a bound, by computation instead of a table.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Enough that no round's weakness shows, for networks of a few bits too.
const ROUNDS: usize = 8;

/// A permutation of 0 to `size` - 1 that follows from a seed: an unbalanced Feistel network over the next power of two, applied again
/// until the result is in range. The domain is less than twice as large, so two steps do on average.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    size: u64,
    /// Bits of the lower and of the upper half.
    lower: u32,
    upper: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// `size` is 1 to 2^32.
    pub(super) fn new(size: u64, seed: u64) -> Permutation {
        debug_assert!((1..=1 << 32).contains(&size), "{size} is no size of a space of EVs");
        let mut rng = SplitMix64::seed_from_u64(seed);
        let bits = u64::BITS - (size - 1).leading_zeros();
        Permutation { size, lower: bits.div_ceil(2), upper: bits / 2, keys: std::array::from_fn(|_| rng.next_u64()) }
    }

    /// The number at place `index`, which is below `size`.
    pub(super) fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = (0..ROUNDS).fold(x, |x, round| self.round(x, round));
            if x < self.size {
                return x;
            }
        }
    }

    /// The place of a number, which is below `size`.
    pub(super) fn index_of(&self, number: u64) -> u64 {
        let mut x = number;
        loop {
            x = (0..ROUNDS).rev().fold(x, |x, round| self.round(x, round));
            if x < self.size {
                return x;
            }
        }
    }

    /// Changes one half by a function of the other, so that the same step undoes it.
    fn round(&self, x: u64, round: usize) -> u64 {
        let low = x & low_bits(self.lower);
        let high = x >> self.lower;
        if round.is_multiple_of(2) {
            x ^ mix(high ^ self.keys[round]) & low_bits(self.lower)
        } else {
            x ^ (mix(low ^ self.keys[round]) & low_bits(self.upper)) << self.lower
        }
    }
}

const fn low_bits(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The finalizer of SplitMix64.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn one_number_has_one_order() {
        assert_eq!(Permutation::new(1, 7).at(0), 0);
    }

    #[test]
    fn even_two_and_three_numbers_come_in_every_order_by_some_seed() {
        for (size, orders) in [(2, 2), (3, 6)] {
            let seen: BTreeSet<Vec<u64>> =
                (0..200).map(|seed| (0..size).map(|i| Permutation::new(size, seed).at(i)).collect()).collect();
            assert_eq!(seen.len(), orders);
        }
    }

    #[test]
    fn the_first_number_is_spread_over_the_whole_range() {
        let size = 1000;
        let mean = (0..2000).map(|seed| Permutation::new(size, seed).at(0)).sum::<u64>() / 2000;
        assert!((450..550).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn every_number_comes_exactly_once(size in 1u64..3000, seed: u64) {
            let order = Permutation::new(size, seed);
            let seen: BTreeSet<u64> = (0..size).map(|i| order.at(i)).collect();
            prop_assert_eq!(seen.len() as u64, size);
            prop_assert!(seen.iter().all(|&x| x < size));
        }

        #[test]
        fn the_place_of_a_number_is_found_in_large_spaces_too(size in 1u64..=1 << 32, seed: u64, at: u64) {
            let order = Permutation::new(size, seed);
            prop_assert_eq!(order.index_of(order.at(at % size)), at % size);
        }
    }
}

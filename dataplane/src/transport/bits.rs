//! A bit for each PSN of a window.

use super::Psn;

/// One bit for each PSN of a window, in a ring whose size is a power of two: words of 64, since each packet's path goes by single bits and by
/// whole words. It takes memory from the first bit on that is set.
#[derive(Clone)]
pub struct PsnBits {
    ring: Box<[u64]>,
    mask: usize,
}

impl PsnBits {
    /// A ring that holds `window` PSNs, all 0.
    #[must_use]
    pub fn new(window: u32) -> PsnBits {
        let bits = (window.max(1) as usize).next_power_of_two().max(64);
        PsnBits { ring: Box::default(), mask: bits - 1 }
    }

    #[cold]
    fn grow(&mut self) {
        self.ring = vec![0; self.mask.div_ceil(64)].into_boxed_slice();
    }

    #[inline]
    fn at(&self, word: usize) -> u64 {
        self.ring.get(word).copied().unwrap_or(0)
    }

    /// PSNs that the ring holds.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.mask as u32 + 1
    }

    /// Its word, and which bit of that.
    #[inline]
    const fn split(&self, psn: Psn) -> (usize, usize) {
        let bit = psn.get() as usize & self.mask;
        (bit / 64, bit % 64)
    }

    #[inline]
    const fn place(&self, psn: Psn) -> (usize, u64) {
        let (word, bit) = self.split(psn);
        (word, 1 << bit)
    }

    /// Is the bit of `psn` set?
    #[inline]
    #[must_use]
    pub fn get(&self, psn: Psn) -> bool {
        let (word, bit) = self.place(psn);
        self.at(word) & bit != 0
    }

    /// Sets the bit of `psn`.
    #[inline]
    pub fn set(&mut self, psn: Psn) {
        let (word, bit) = self.place(psn);
        if let Some(word) = self.ring.get_mut(word) {
            *word |= bit;
            return;
        }
        self.grow();
        self.ring[word] |= bit;
    }

    /// Clears the bit of `psn`.
    #[inline]
    pub fn clear(&mut self, psn: Psn) {
        let (word, bit) = self.place(psn);
        if let Some(word) = self.ring.get_mut(word) {
            *word &= !bit;
        }
    }

    /// The bits of the 64 PSNs from `psn` on, the first as bit 0.
    #[inline]
    #[must_use]
    pub fn word(&self, psn: Psn) -> u64 {
        let (at, shift) = self.split(psn);
        let low = self.at(at) >> shift;
        if shift == 0 {
            return low;
        }
        low | self.at((at + 1) & (self.mask / 64)) << (64 - shift)
    }

    /// Of the 64 PSNs from `psn` on sets the bits of those that are set in `mask`, where the first is bit 0.
    #[inline]
    pub fn set_word(&mut self, psn: Psn, mask: u64) {
        if mask == 0 {
            return;
        }
        if self.ring.is_empty() {
            self.grow();
        }
        let (at, shift) = self.split(psn);
        self.ring[at] |= mask << shift;
        if shift != 0 {
            let next = (at + 1) & (self.ring.len() - 1);
            self.ring[next] |= mask >> (64 - shift);
        }
    }

    /// Sets the bits of `count` PSNs from `psn` on.
    #[inline]
    pub fn set_run(&mut self, psn: Psn, count: u32) {
        for done in (0..count).step_by(64) {
            self.set_word(psn.plus(done as i32), low_bits(count - done));
        }
    }

    /// Clears the bits of `count` (at most 64) PSNs from `psn` on.
    #[inline]
    pub fn clear_run(&mut self, psn: Psn, count: u32) {
        self.clear_word(psn, low_bits(count));
    }

    /// Of the 64 PSNs from `psn` on clears the bits of those that are set in `mask`, where the first is bit 0.
    #[inline]
    pub fn clear_word(&mut self, psn: Psn, mask: u64) {
        let (at, shift) = self.split(psn);
        let words = &mut self.ring;
        if words.is_empty() {
            return;
        }
        words[at] &= !(mask << shift);
        if shift != 0 {
            let next = (at + 1) & (words.len() - 1);
            words[next] &= !(mask >> (64 - shift));
        }
    }

    /// The first PSN with its bit set among the `count` from `psn` on.
    #[inline]
    #[must_use]
    pub fn first_set(&self, psn: Psn, count: u32) -> Option<Psn> {
        let mut seen = 0;
        while seen < count {
            let ahead = self.word(psn.plus(seen as i32)).trailing_zeros();
            if ahead < 64 {
                let found = seen + ahead;
                return (found < count).then(|| psn.plus(found as i32));
            }
            seen += 64;
        }
        None
    }
}

/// A mask of the lowest `count` bits; all from 64 on.
#[inline]
#[must_use]
pub const fn low_bits(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_straddle_the_wrap_of_the_ring_and_of_the_psn_space() {
        let mut bits = PsnBits::new(128);
        let first = Psn::new(0xFF_FFF0);
        for n in [0, 15, 16, 63] {
            bits.set(first.plus(n));
        }
        assert_eq!(bits.word(first), 1 | 1 << 15 | 1 << 16 | 1 << 63);
        assert_eq!(bits.first_set(first.plus(17), 64), Some(first.plus(63)));
        bits.clear_run(first, 16);
        assert_eq!(bits.word(first), 1 << 16 | 1 << 63);
        assert_eq!(bits.first_set(first, 16), None);
    }

    proptest! {
        #[test]
        fn the_ring_agrees_with_a_set_of_psns(
            start in 0u32..1 << 24,
            sets in prop::collection::vec(0i32..1024, 0..80),
            set in (0i32..1024, 0u32..=200),
            clear in (0i32..1024, 0u32..=64),
            probe in 0i32..960,
        ) {
            let first = Psn::new(start);
            let mut bits = PsnBits::new(1024);
            let mut model = std::collections::BTreeSet::new();
            for n in sets {
                bits.set(first.plus(n));
                model.insert(n);
            }
            bits.set_run(first.plus(set.0), set.1.min(1024 - set.0 as u32));
            model.extend(set.0..(set.0 + set.1 as i32).min(1024));
            let run = clear.1.min(1024 - clear.0 as u32);
            bits.clear_run(first.plus(clear.0), run);
            model.retain(|n| !(clear.0..clear.0 + run as i32).contains(n));
            let word = (0..64).filter(|n| model.contains(&(probe + n))).fold(0u64, |w, n| w | 1 << n);
            prop_assert_eq!(bits.word(first.plus(probe)), word);
            prop_assert_eq!(
                bits.first_set(first.plus(probe), (1024 - probe) as u32),
                model.range(probe..).next().map(|&n| first.plus(n))
            );
        }
    }
}

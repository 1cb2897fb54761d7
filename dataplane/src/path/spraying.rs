//! Default packet spraying: a rotation over a random subset of UDP source ports (Scala MRC NIC documentation, Multipath).

use crate::Ns;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

/// Largest `EntropyMaskBits`.
pub const ENTROPY_MASK_BITS_MAX: u8 = 8;
/// The cap of an active set that is sized by the bandwidth-delay product.
const ACTIVE_SET_CAP: u64 = 100;
/// How many values behind a marked one are looked at for an unmarked one.
const LOOK_AHEAD: usize = 7;

/// How the entropy values of a destination are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SprayingParams {
    /// The range has 2^`entropy_mask_bits` values; 0 to 8.
    pub entropy_mask_bits: u8,
    /// First UDP source port of the range.
    pub starting_port_offset: u16,
    /// Size of the active set; 0 sizes it to one bandwidth-delay product, at most 100.
    pub active_ev_set_size: u32,
    /// How long a value stays out of the rotation after a timeout, in ns. It stands in for the reliability probes, which bring a value
    /// back as soon as its path answers.
    pub assumed_bad_ns: u64,
}

impl Default for SprayingParams {
    fn default() -> Self {
        SprayingParams {
            entropy_mask_bits: 7,
            starting_port_offset: 256,
            active_ev_set_size: 0,
            assumed_bad_ns: 3 * crate::time::MS,
        }
    }
}

/// Why spraying parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SprayingError {
    /// More than 8 bits.
    #[error("EntropyMaskBits is {0}, but may be 0 to 8")]
    TooManyBits(u8),
    /// The range leaves the port numbers.
    #[error("StartingPortOffset {offset} and 2^{bits} values end beyond port 65535: the largest offset is {largest}")]
    BeyondLastPort {
        /// The offset given.
        offset: u16,
        /// The bits given.
        bits: u8,
        /// The largest offset for these bits.
        largest: u32,
    },
}

impl SprayingParams {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`SprayingError`], which names the attribute as the documentation does.
    pub fn validate(&self) -> Result<(), SprayingError> {
        if self.entropy_mask_bits > ENTROPY_MASK_BITS_MAX {
            return Err(SprayingError::TooManyBits(self.entropy_mask_bits));
        }
        let largest = 65_536 - self.values();
        if u32::from(self.starting_port_offset) > largest {
            return Err(SprayingError::BeyondLastPort {
                offset: self.starting_port_offset,
                bits: self.entropy_mask_bits,
                largest,
            });
        }
        Ok(())
    }

    /// How many values the range has.
    const fn values(&self) -> u32 {
        1 << self.entropy_mask_bits
    }

    /// Size of the active set for a bandwidth-delay product of `bdp` bytes and full packets of `full` bytes.
    #[must_use]
    pub fn active_set_size(&self, bdp: u64, full: u32) -> u32 {
        let wanted = match self.active_ev_set_size {
            0 => (bdp / u64::from(full.max(1))).min(ACTIVE_SET_CAP) as u32,
            size => size,
        };
        wanted.clamp(1, self.values())
    }
}

#[derive(Clone, Copy, Debug)]
struct Value {
    ev: u32,
    /// Passed over once.
    skip: bool,
    /// Out of the rotation since a timeout, until then.
    bad_until: Option<Ns>,
    sent: u64,
}

/// The spraying state of a destination: one rotation for all QPs to it.
#[derive(Clone, Debug)]
pub struct Spraying {
    values: Box<[Value]>,
    /// Index in `values` of the port `first + i`, or `NONE`.
    index: Box<[u16]>,
    first: u32,
    cursor: usize,
    bad: usize,
    assumed_bad_ns: u64,
}

const NONE: u16 = u16::MAX;

impl Spraying {
    /// Draws an active set of `size` values in random order.
    #[must_use]
    pub fn new<R: Rng>(params: &SprayingParams, size: u32, rng: &mut R) -> Spraying {
        let first = u32::from(params.starting_port_offset);
        let mut range: Vec<u32> = (0..params.values()).collect();
        range.shuffle(rng);
        range.truncate(size.max(1) as usize);
        let mut index = vec![NONE; params.values() as usize].into_boxed_slice();
        for (at, &offset) in range.iter().enumerate() {
            index[offset as usize] = at as u16;
        }
        let cursor = rng.random_range(0..range.len());
        let values = range.iter().map(|&o| Value { ev: first + o, skip: false, bad_until: None, sent: 0 }).collect();
        Spraying { values, index, first, cursor, bad: 0, assumed_bad_ns: params.assumed_bad_ns }
    }

    /// The value for the next packet: the next usable one of the rotation.
    #[inline]
    pub fn pick(&mut self, now: Ns) -> u32 {
        if self.bad > 0 {
            self.recover(now);
        }
        let first = self.usable_from(self.cursor);
        let chosen = if self.values[first].skip { self.pass_over(first) } else { first };
        self.cursor = self.after(chosen);
        let value = &mut self.values[chosen];
        value.sent += 1;
        value.ev
    }

    /// Clears the mark at `marked` and looks for an unmarked value among the 7 usable ones behind it.
    fn pass_over(&mut self, marked: usize) -> usize {
        self.values[marked].skip = false;
        let mut at = marked;
        for _ in 0..LOOK_AHEAD {
            at = self.usable_from(self.after(at));
            if !self.values[at].skip {
                return at;
            }
        }
        marked
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.values.len() { 0 } else { at + 1 }
    }

    /// The first value from `at` on that is not assumed bad; `at` itself when all are, so that sending never stops.
    #[inline]
    fn usable_from(&self, mut at: usize) -> usize {
        if self.bad == 0 || self.bad == self.values.len() {
            return at;
        }
        while self.values[at].bad_until.is_some() {
            at = self.after(at);
        }
        at
    }

    #[cold]
    fn recover(&mut self, now: Ns) {
        for value in &mut self.values {
            if value.bad_until.is_some_and(|until| until <= now) {
                value.bad_until = None;
                self.bad -= 1;
            }
        }
    }

    fn find(&mut self, ev: u32) -> Option<&mut Value> {
        let at = *self.index.get(ev.checked_sub(self.first)? as usize)?;
        self.values.get_mut(usize::from(at))
    }

    /// A packet on `ev` was trimmed on the way, or marked: pass the value over once.
    pub fn mark(&mut self, ev: u32) {
        if let Some(value) = self.find(ev) {
            value.skip = true;
        }
    }

    /// A transmission on `ev` timed out: the value leaves the rotation for a while.
    pub fn assume_bad(&mut self, ev: u32, now: Ns) {
        let until = now + self.assumed_bad_ns;
        let Some(value) = self.find(ev) else { return };
        if value.bad_until.replace(until).is_none() {
            self.bad += 1;
        }
    }

    /// A probe on `ev` was answered: the value is usable again.
    pub fn recovered(&mut self, ev: u32) {
        let Some(value) = self.find(ev) else { return };
        if value.bad_until.take().is_some() {
            self.bad -= 1;
        }
    }

    /// Each value of the active set and how many packets took it, in the order of the rotation.
    pub fn use_counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.values.iter().map(|value| (value.ev, value.sent))
    }

    /// How many values are out of the rotation.
    #[must_use]
    pub const fn assumed_bad(&self) -> usize {
        self.bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::{BTreeMap, BTreeSet};

    fn spraying(size: u32, seed: u64) -> Spraying {
        Spraying::new(&SprayingParams::default(), size, &mut Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn picks(spraying: &mut Spraying, count: usize) -> Vec<u32> {
        (0..count).map(|_| spraying.pick(Ns::ZERO)).collect()
    }

    #[test]
    fn the_active_set_at_the_defaults_is_72_of_the_ports_256_to_383() {
        let params = SprayingParams::default();
        assert_eq!(params.active_set_size(300_000, 4156), 72);
        let mut spraying = spraying(72, 1);
        let used: BTreeSet<u32> = picks(&mut spraying, 72).into_iter().collect();
        assert_eq!(used.len(), 72);
        assert!(used.iter().all(|ev| (256..=383).contains(ev)));
    }

    #[test]
    fn a_mebibyte_steps_through_72_values_40_of_them_four_times_and_32_three_times() {
        let mut spraying = spraying(72, 5);
        let mut counts = BTreeMap::new();
        for ev in picks(&mut spraying, 256) {
            *counts.entry(ev).or_insert(0) += 1;
        }
        assert_eq!(counts.values().filter(|&&n| n == 4).count(), 40);
        assert_eq!(counts.values().filter(|&&n| n == 3).count(), 32);
    }

    #[test]
    fn the_size_of_the_active_set_has_the_bounds_of_the_documentation() {
        let size = |active_ev_set_size, bits, bdp| {
            let params = SprayingParams { active_ev_set_size, entropy_mask_bits: bits, ..SprayingParams::default() };
            params.active_set_size(bdp, 4156)
        };
        assert_eq!(size(0, 8, 10_000_000), 100);
        assert_eq!(size(0, 7, 4_155), 1);
        assert_eq!(size(0, 0, 300_000), 1);
        assert_eq!(size(1, 7, 300_000), 1);
        assert_eq!(size(120, 7, 300_000), 120);
        assert_eq!(size(1_000, 7, 300_000), 128);
    }

    #[test]
    fn the_range_ends_at_port_65535() {
        let params = |offset, bits| SprayingParams {
            starting_port_offset: offset,
            entropy_mask_bits: bits,
            ..SprayingParams::default()
        };
        assert!(params(65_408, 7).validate().is_ok());
        assert!(params(65_409, 7).validate().is_err());
        assert!(params(65_280, 8).validate().is_ok());
        assert!(params(65_281, 8).validate().is_err());
        assert!(params(65_535, 0).validate().is_ok());
        assert_eq!(params(0, 9).validate(), Err(SprayingError::TooManyBits(9)));
    }

    #[test]
    fn order_and_start_are_random_but_follow_from_the_seed() {
        assert_eq!(picks(&mut spraying(72, 9), 72), picks(&mut spraying(72, 9), 72));
        assert_ne!(picks(&mut spraying(72, 9), 72), picks(&mut spraying(72, 10), 72));
    }

    #[test]
    fn a_marked_value_is_passed_over_once() {
        let mut spraying = spraying(4, 2);
        let round = picks(&mut spraying, 4);
        spraying.mark(round[1]);
        assert_eq!(picks(&mut spraying, 8), [0, 2, 3, 0, 1, 2, 3, 0].map(|i: usize| round[i]));
    }

    #[test]
    fn only_the_first_mark_that_a_packet_meets_is_cleared() {
        let mut spraying = spraying(4, 2);
        let round = picks(&mut spraying, 4);
        spraying.mark(round[0]);
        spraying.mark(round[1]);
        // 0 is cleared, 1 stays marked and is passed over again in the next round.
        assert_eq!(picks(&mut spraying, 5), [2, 3, 0, 2, 3].map(|i: usize| round[i]));
        assert_eq!(picks(&mut spraying, 2), [0, 1].map(|i: usize| round[i]));
    }

    #[test]
    fn when_the_seven_behind_a_marked_value_are_marked_too_the_cleared_value_is_used() {
        let mut spraying = spraying(16, 3);
        let round = picks(&mut spraying, 16);
        for ev in &round[0..8] {
            spraying.mark(*ev);
        }
        assert_eq!(picks(&mut spraying, 1), [round[0]]);
        // Now 1 to 7 are marked, and 8 is the seventh behind 1.
        assert_eq!(picks(&mut spraying, 1), [round[8]]);
    }

    #[test]
    fn a_value_assumed_bad_leaves_the_rotation_and_comes_back_after_a_while() {
        let mut spraying = spraying(4, 2);
        let round = picks(&mut spraying, 4);
        spraying.assume_bad(round[2], Ns::ZERO);
        assert_eq!(picks(&mut spraying, 6), [0, 1, 3, 0, 1, 3].map(|i: usize| round[i]));
        let later = Ns::ZERO + SprayingParams::default().assumed_bad_ns;
        let back: Vec<u32> = (0..4).map(|_| spraying.pick(later)).collect();
        assert_eq!(back, round);
        assert_eq!(spraying.assumed_bad(), 0);
    }

    #[test]
    fn when_every_value_is_assumed_bad_all_are_used() {
        let mut spraying = spraying(4, 2);
        let round = picks(&mut spraying, 4);
        for ev in &round {
            spraying.assume_bad(*ev, Ns::ZERO);
        }
        assert_eq!(picks(&mut spraying, 4), round);
    }

    proptest! {
        #[test]
        fn whatever_the_feedback_a_value_of_the_set_is_picked_and_never_a_bad_one_while_others_are_left(
            size in 1u32..=20,
            steps in prop::collection::vec((0u8..4, 250u32..400, 0u64..2_000_000), 1..200),
        ) {
            let mut spraying = spraying(size, 4);
            let set: BTreeSet<u32> = spraying.use_counts().map(|(ev, _)| ev).collect();
            let mut bad: BTreeMap<u32, Ns> = BTreeMap::new();
            let mut now = Ns::ZERO;
            for (what, ev, step) in steps {
                match what {
                    0 => spraying.mark(ev),
                    1 => {
                        spraying.assume_bad(ev, now);
                        if set.contains(&ev) {
                            bad.insert(ev, now + SprayingParams::default().assumed_bad_ns);
                        }
                    }
                    _ => {
                        now += step;
                        bad.retain(|_, until| *until > now);
                        let ev = spraying.pick(now);
                        prop_assert!(set.contains(&ev));
                        prop_assert!(!bad.contains_key(&ev) || bad.len() == set.len());
                    }
                }
            }
        }
    }
}

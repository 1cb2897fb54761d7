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
    /// How long a value stays out of the rotation after a timeout, in ns, where nobody sends reliability probes; `None`: until a probe
    /// on it is answered.
    pub assumed_bad_ns: Option<u64>,
}

impl Default for SprayingParams {
    fn default() -> Self {
        SprayingParams {
            entropy_mask_bits: 7,
            starting_port_offset: 256,
            active_ev_set_size: 0,
            assumed_bad_ns: Some(3 * crate::time::MS),
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

/// What is known of an entropy value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvState {
    /// In use.
    Good,
    /// Passed over at its next turn, once.
    Skip,
    /// Out of the rotation since a timeout, until a probe on it is answered.
    AssumedBad,
    /// Taken out by the controller, until the controller lets it in again. Never used.
    Denied,
}

#[derive(Clone, Copy, Debug)]
struct Value {
    ev: u32,
    skip: bool,
    bad: bool,
    /// When a bad value comes back by itself.
    back_at: Ns,
    denied: bool,
    sent: u64,
}

impl Value {
    const fn new(ev: u32) -> Value {
        Value { ev, skip: false, bad: false, back_at: Ns(u64::MAX), denied: false, sent: 0 }
    }

    const fn state(&self) -> EvState {
        match (self.denied, self.bad, self.skip) {
            (true, _, _) => EvState::Denied,
            (false, true, _) => EvState::AssumedBad,
            (false, false, true) => EvState::Skip,
            (false, false, false) => EvState::Good,
        }
    }
}

/// The spraying state of a destination: one rotation for all QPs to it.
#[derive(Clone, Debug)]
pub struct Spraying {
    /// The active set, in the order of the rotation.
    values: Box<[Value]>,
    /// The other values of the range, in the order in which they replace denied ones. Denied values end up here too.
    backup: Vec<Value>,
    /// Index in `values` of the port `first + i`, or `NONE`.
    index: Box<[u16]>,
    first: u32,
    cursor: usize,
    /// Values of the active set that are denied, and those that are only assumed bad.
    denied: usize,
    bad: usize,
    assumed_bad_ns: Option<u64>,
}

const NONE: u16 = u16::MAX;

impl Spraying {
    /// Draws an active set of `size` values in random order.
    #[must_use]
    pub fn new<R: Rng>(params: &SprayingParams, size: u32, rng: &mut R) -> Spraying {
        let first = u32::from(params.starting_port_offset);
        let mut range: Vec<u32> = (0..params.values()).collect();
        range.shuffle(rng);
        let rest = range.split_off(range.len().min(size.max(1) as usize));
        let mut index = vec![NONE; params.values() as usize].into_boxed_slice();
        for (at, &offset) in range.iter().enumerate() {
            index[offset as usize] = at as u16;
        }
        let cursor = rng.random_range(0..range.len());
        let values = |offsets: &[u32]| offsets.iter().map(|&offset| Value::new(first + offset)).collect::<Vec<_>>();
        Spraying {
            values: values(&range).into_boxed_slice(),
            backup: values(&rest),
            index,
            first,
            cursor,
            denied: 0,
            bad: 0,
            assumed_bad_ns: params.assumed_bad_ns,
        }
    }

    /// The value for the next packet: the next usable one of the rotation. `None` when the controller has denied them all.
    #[inline]
    pub fn pick(&mut self, now: Ns) -> Option<u32> {
        if self.bad > 0 && self.assumed_bad_ns.is_some() {
            self.recover(now);
        }
        let first = self.usable_from(self.cursor)?;
        let chosen = if self.values[first].skip { self.pass_over(first) } else { first };
        self.cursor = self.after(chosen);
        let value = &mut self.values[chosen];
        value.sent += 1;
        Some(value.ev)
    }

    /// Clears the mark at `marked` and looks for an unmarked value among the 7 usable ones behind it.
    fn pass_over(&mut self, marked: usize) -> usize {
        self.values[marked].skip = false;
        let mut at = marked;
        for _ in 0..LOOK_AHEAD {
            at = self.usable_from(self.after(at)).unwrap_or(marked);
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

    /// The first value from `at` on that is in use. When all that are not denied are assumed bad, those are used, so that sending
    /// does not stop for want of an answer.
    #[inline]
    fn usable_from(&self, mut at: usize) -> Option<usize> {
        if self.bad + self.denied == 0 {
            return Some(at);
        }
        if self.denied == self.values.len() {
            return None;
        }
        let all_bad = self.bad + self.denied == self.values.len();
        while self.values[at].denied || (self.values[at].bad && !all_bad) {
            at = self.after(at);
        }
        Some(at)
    }

    #[cold]
    fn recover(&mut self, now: Ns) {
        for value in &mut self.values {
            if value.bad && !value.denied && value.back_at <= now {
                value.bad = false;
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

    /// A transmission on `ev` timed out: the value leaves the rotation. True when it was in it.
    pub fn assume_bad(&mut self, ev: u32, now: Ns) -> bool {
        let back_at = self.assumed_bad_ns.map_or(Ns(u64::MAX), |ns| now + ns);
        let Some(value) = self.find(ev) else { return false };
        value.back_at = back_at;
        let left = !core::mem::replace(&mut value.bad, true) && !value.denied;
        self.bad += usize::from(left);
        left
    }

    /// A probe on `ev` was answered: the value is usable again. True when it was not.
    pub fn recovered(&mut self, ev: u32) -> bool {
        let Some(value) = self.find(ev) else { return false };
        let back = core::mem::replace(&mut value.bad, false) && !value.denied;
        self.bad -= usize::from(back);
        back
    }

    /// The controller denies `ev`: it is used no more, and a value of the backup set takes its turn, while there is one. True when the range
    /// has the value and it was not denied.
    pub fn deny(&mut self, ev: u32) -> bool {
        let Some(offset) = ev.checked_sub(self.first).map(|offset| offset as usize) else { return false };
        match self.index.get(offset).copied() {
            Some(NONE) => {
                let spare = self.backup.iter_mut().find(|value| value.ev == ev);
                spare.is_some_and(|value| !core::mem::replace(&mut value.denied, true))
            }
            Some(at) => self.deny_active(usize::from(at)),
            None => false,
        }
    }

    fn deny_active(&mut self, at: usize) -> bool {
        if core::mem::replace(&mut self.values[at].denied, true) {
            return false;
        }
        self.bad -= usize::from(self.values[at].bad);
        self.denied += 1;
        if let Some(spare) = self.backup.iter().position(|value| !value.denied) {
            // In front: the next replacement is the next value that was drawn.
            let replacement = self.backup.remove(spare);
            let denied = core::mem::replace(&mut self.values[at], replacement);
            self.index[(denied.ev - self.first) as usize] = NONE;
            self.index[(replacement.ev - self.first) as usize] = at as u16;
            self.backup.push(denied);
            self.denied -= 1;
            self.bad += usize::from(replacement.bad);
        }
        true
    }

    /// The controller lifts the denial of `ev`. In the active set it is used again; a value that was replaced is a backup now. True when it
    /// was denied.
    pub fn allow(&mut self, ev: u32) -> bool {
        if let Some(value) = self.find(ev) {
            if !core::mem::replace(&mut value.denied, false) {
                return false;
            }
            let bad = value.bad;
            self.denied -= 1;
            self.bad += usize::from(bad);
            return true;
        }
        let spare = self.backup.iter_mut().find(|value| value.ev == ev);
        spare.is_some_and(|value| core::mem::replace(&mut value.denied, false))
    }

    /// Each value of the active set and how many packets took it, in the order of the rotation.
    pub fn use_counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.values.iter().map(|value| (value.ev, value.sent))
    }

    /// Each value of the active set and its state, in the order of the rotation.
    pub fn states(&self) -> impl Iterator<Item = (u32, EvState)> + '_ {
        self.values.iter().map(|value| (value.ev, value.state()))
    }

    /// All values in use or denied, with state and packets sent: the active set in the order of the rotation, then denied values that a
    /// backup has replaced.
    pub fn list(&self) -> impl Iterator<Item = (u32, EvState, u64)> + '_ {
        let replaced = self.backup.iter().filter(|value| value.denied);
        self.values.iter().chain(replaced).map(|value| (value.ev, value.state(), value.sent))
    }

    /// How many values of the active set are assumed bad.
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
        (0..count).map(|_| spraying.pick(Ns::ZERO).unwrap()).collect()
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
        let later = Ns::ZERO + SprayingParams::default().assumed_bad_ns.unwrap();
        let back: Vec<u32> = (0..4).map(|_| spraying.pick(later).unwrap()).collect();
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

    /// A state of whose probes somebody takes care.
    fn probed(size: u32) -> Spraying {
        let params = SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() };
        Spraying::new(&params, size, &mut Xoshiro256PlusPlus::seed_from_u64(2))
    }

    #[test]
    fn a_value_assumed_bad_stays_out_until_its_probe_is_answered() {
        let mut spraying = probed(4);
        let round = picks(&mut spraying, 4);
        assert!(spraying.assume_bad(round[1], Ns::ZERO));
        assert!(!spraying.assume_bad(round[1], Ns::ZERO), "it is out already");
        assert_eq!(spraying.pick(Ns(u64::MAX)), Some(round[0]));
        assert_eq!(picks(&mut spraying, 3), [2, 3, 0].map(|i: usize| round[i]));
        assert!(spraying.recovered(round[1]));
        assert_eq!(picks(&mut spraying, 3), [1, 2, 3].map(|i: usize| round[i]));
        assert!(!spraying.recovered(round[1]));
    }

    #[test]
    fn a_denied_value_is_never_used_and_a_backup_takes_its_turn() {
        let mut spraying = probed(4);
        let round = picks(&mut spraying, 4);
        assert!(spraying.deny(round[2]));
        assert!(!spraying.deny(round[2]), "it is denied already");
        let after = picks(&mut spraying, 8);
        assert!(!after.contains(&round[2]));
        let new = after[2];
        assert!(!round.contains(&new) && (256..=383).contains(&new));
        assert_eq!(after[4..], [round[0], round[1], new, round[3]]);
        assert!(spraying.allow(round[2]));
        assert!(!picks(&mut spraying, 8).contains(&round[2]), "it is a backup now");
        assert!(!spraying.deny(999) && !spraying.allow(999));
    }

    #[test]
    fn denied_values_stay_out_when_all_others_are_assumed_bad_and_when_all_are_denied_nothing_is_sent() {
        // The whole range is active, so that there is no backup.
        let params = SprayingParams { entropy_mask_bits: 2, assumed_bad_ns: None, ..SprayingParams::default() };
        let mut spraying = Spraying::new(&params, 4, &mut Xoshiro256PlusPlus::seed_from_u64(2));
        let round = picks(&mut spraying, 4);
        for ev in &round[1..] {
            spraying.assume_bad(*ev, Ns::ZERO);
        }
        spraying.deny(round[0]);
        assert_eq!(picks(&mut spraying, 6), [1, 2, 3, 1, 2, 3].map(|i: usize| round[i]));
        for ev in &round[1..] {
            spraying.deny(*ev);
        }
        assert_eq!(spraying.pick(Ns::ZERO), None);
        assert!(spraying.allow(round[3]));
        assert_eq!(picks(&mut spraying, 2), [round[3]; 2], "assumed bad, but the only one left");
        let states: BTreeMap<u32, EvState> = spraying.states().collect();
        assert_eq!((states[&round[0]], states[&round[3]]), (EvState::Denied, EvState::AssumedBad));
    }

    proptest! {
        #[test]
        fn counts_follow_states_whatever_the_order_of_events(
            size in 1u32..=8,
            steps in prop::collection::vec((0u8..6, 256u32..264), 1..200),
        ) {
            let params = SprayingParams { entropy_mask_bits: 3, assumed_bad_ns: None, ..SprayingParams::default() };
            let mut spraying = Spraying::new(&params, size, &mut Xoshiro256PlusPlus::seed_from_u64(4));
            let mut denied = BTreeSet::new();
            for (what, ev) in steps {
                match what {
                    0 => spraying.mark(ev),
                    1 => { spraying.assume_bad(ev, Ns::ZERO); }
                    2 => { spraying.recovered(ev); }
                    3 => prop_assert_eq!(spraying.deny(ev), denied.insert(ev)),
                    4 => prop_assert_eq!(spraying.allow(ev), denied.remove(&ev)),
                    _ => {}
                }
                let picked = spraying.pick(Ns::ZERO);
                let states: Vec<(u32, EvState)> = spraying.states().collect();
                let count = |of: EvState| states.iter().filter(|(_, state)| *state == of).count();
                prop_assert_eq!(states.len() as u32, size);
                prop_assert_eq!(spraying.bad, count(EvState::AssumedBad));
                prop_assert_eq!(spraying.denied, count(EvState::Denied));
                prop_assert_eq!(picked.is_none(), count(EvState::Denied) == states.len());
                prop_assert!(picked.is_none_or(|ev| !denied.contains(&ev)));
            }
        }

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
                            bad.insert(ev, now + SprayingParams::default().assumed_bad_ns.unwrap());
                        }
                    }
                    _ => {
                        now += step;
                        bad.retain(|_, until| *until > now);
                        let ev = spraying.pick(now).unwrap();
                        prop_assert!(set.contains(&ev));
                        prop_assert!(!bad.contains_key(&ev) || bad.len() == set.len());
                    }
                }
            }
        }
    }
}

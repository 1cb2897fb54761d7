use super::*;
use crate::path::profile::PortSet;
use crate::path::{SprayingError, SprayingParams};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeMap, BTreeSet};

fn drawn(params: SprayingParams, size: u32, ports: u8, seed: u64) -> Spraying {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let params = SprayingParams { active_ev_set_size: size, ..params };
    let set = EvSet::drawn(&params, 300_000, 4156, PortSet::first(ports), &mut rng);
    Spraying::new(&set, params.assumed_bad_ns, &mut rng)
}

fn spraying(size: u32, seed: u64) -> Spraying {
    drawn(SprayingParams::default(), size, 1, seed)
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
    drawn(params, size, 1, 2)
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
    let mut spraying = drawn(params, 4, 1, 2);
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
    assert_eq!(picks(&mut spraying, 2), [round[3]; 2], "the only one left");
    let states: BTreeMap<u32, EvState> = spraying.states().collect();
    assert_eq!(
        (states[&round[0]], states[&round[3]]),
        (EvState::Denied, EvState::Good),
        "what is allowed begins as good"
    );
}

/// A rotation over a list, from its beginning.
fn listed(evs: &[Ev], min_active: u32) -> Spraying {
    let set = EvSet { active: evs.to_vec(), backup: Vec::new(), min_active };
    let mut spraying = Spraying::new(&set, None, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    spraying.cursor = 0;
    spraying.reply_cursor = 0;
    spraying
}

fn ports(spraying: &mut Spraying, count: usize, full: PortMask) -> Vec<u8> {
    let mut next = || {
        let pick = spraying.choose(Ns::ZERO, full).unwrap();
        spraying.take(&pick);
        pick.port()
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_value_that_is_listed_twice_carries_twice_the_share_and_has_one_state() {
    let mut spraying = listed(&[Ev::new(7, 1), Ev::new(5, 1), Ev::new(7, 1), Ev::new(9, 1)], 0);
    assert_eq!(picks(&mut spraying, 6), [7, 5, 7, 9, 7, 5]);
    assert!(spraying.assume_bad(7, Ns::ZERO));
    assert_eq!(picks(&mut spraying, 4), [9, 5, 9, 5]);
    assert!(spraying.recovered(7));
    spraying.mark(7);
    assert_eq!(picks(&mut spraying, 4), [9, 7, 5, 7], "passed over in one turn, not in both");
    let sent: Vec<(u32, u64)> = spraying.use_counts().collect();
    assert_eq!(sent, [(7, 5), (5, 5), (9, 4)]);
}

#[test]
fn the_last_values_that_a_profile_keeps_are_passed_over_once_instead_of_leaving() {
    let mut spraying = listed(&[1, 2, 3, 4].map(|value| Ev::new(value, 1)), 2);
    assert!(spraying.assume_bad(1, Ns::ZERO) && spraying.assume_bad(2, Ns::ZERO));
    assert!(!spraying.assume_bad(3, Ns::ZERO));
    assert_eq!(picks(&mut spraying, 4), [4, 3, 4, 3]);
    assert!(spraying.recovered(1));
    assert!(spraying.assume_bad(3, Ns::ZERO), "there are three in use again");
}

#[test]
fn values_of_ports_that_are_out_do_not_count_among_those_that_a_profile_keeps_in_use() {
    let mut spraying = listed(&[Ev::new(1, 1), Ev::new(2, 1), Ev::new(3, 2), Ev::new(4, 2)], 2);
    spraying.set_ports_out(0b01);
    assert!(!spraying.assume_bad(3, Ns::ZERO), "the last two that can be used");
    spraying.set_ports_out(0);
    assert!(spraying.assume_bad(3, Ns::ZERO));
}

#[test]
fn values_of_a_port_that_is_out_are_not_used_until_it_is_back_and_keep_their_states() {
    let mut spraying = drawn(SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() }, 8, 4, 3);
    assert_eq!(ports(&mut spraying, 8, 0).iter().filter(|&&port| port == 3).count(), 2);
    let of_port = |spraying: &Spraying, port| spraying.list().find(|value| value.ev.port == port).unwrap().ev.value;
    let bad = of_port(&spraying, 2);
    assert!(spraying.assume_bad(bad, Ns::ZERO));
    assert!(spraying.set_ports_out(0b0100));
    assert!(!spraying.set_ports_out(0b0100));
    let used = ports(&mut spraying, 50, 0);
    assert!(!used.contains(&3));
    assert_eq!(used.iter().filter(|&&port| port == 2).count(), 10, "one of five values");
    assert_eq!(spraying.list().filter(|value| value.port_out).count(), 2);
    spraying.set_ports_out(0);
    assert_eq!(spraying.assumed_bad(), 1);
    assert!(ports(&mut spraying, 7, 0).contains(&3));
}

#[test]
fn what_is_left_is_used_in_the_order_good_then_bad_then_behind_ports_that_are_out_and_never_denied() {
    let mut spraying = listed(&[Ev::new(1, 1), Ev::new(2, 2), Ev::new(3, 3)], 0);
    spraying.assume_bad(1, Ns::ZERO);
    spraying.set_ports_out(0b010);
    assert_eq!(picks(&mut spraying, 2), [3, 3]);
    spraying.assume_bad(3, Ns::ZERO);
    assert_eq!(picks(&mut spraying, 2), [1, 3], "both bad");
    spraying.set_ports_out(0b111);
    assert_eq!(picks(&mut spraying, 3), [1, 2, 3]);
    for ev in [1, 2, 3] {
        spraying.deny(ev);
    }
    assert_eq!(spraying.choose(Ns::ZERO, 0), Err(NoPath::Denied));
}

#[test]
fn a_port_that_takes_no_more_is_passed_over_and_only_when_all_are_full_nothing_is_chosen() {
    let mut spraying = listed(&[1, 2, 3, 4].map(|port| Ev::new(u32::from(port), port)), 0);
    assert_eq!(ports(&mut spraying, 4, 0b0010), [1, 3, 4, 1]);
    assert_eq!(ports(&mut spraying, 1, 0), [2]);
    spraying.set_ports_out(0b0001);
    assert_eq!(spraying.choose(Ns::ZERO, 0b1110), Err(NoPath::PortsFull));
    let before = spraying.choose(Ns::ZERO, 0);
    assert_eq!(spraying.choose(Ns::ZERO, 0), before, "choosing alone changes nothing");
}

#[test]
fn replies_take_the_paths_in_turn_without_a_turn_of_the_data() {
    let mut spraying = listed(&[1, 2, 3].map(|port| Ev::new(u32::from(port), port)), 0);
    let replies = |spraying: &mut Spraying, count| -> Vec<u8> {
        (0..count).map(|_| spraying.reply_path(0).unwrap().port).collect()
    };
    assert_eq!(replies(&mut spraying, 4), [1, 2, 3, 1]);
    assert_eq!(picks(&mut spraying, 2), [1, 2]);
    spraying.assume_bad(2, Ns::ZERO);
    assert_eq!(replies(&mut spraying, 3), [3, 1, 3]);
    assert_eq!(spraying.use_counts().map(|(_, sent)| sent).sum::<u64>(), 2);
}

#[test]
fn a_replacement_comes_from_the_backups_of_the_same_port() {
    let evs = |values: &[u32], port| values.iter().map(|&value| Ev::new(value, port)).collect::<Vec<_>>();
    let set = EvSet {
        active: [evs(&[1], 1), evs(&[2], 2)].concat(),
        backup: [evs(&[11], 1), evs(&[12], 2)].concat(),
        min_active: 0,
    };
    let mut spraying = Spraying::new(&set, None, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    spraying.cursor = 0;
    assert!(spraying.deny(2));
    assert_eq!(picks(&mut spraying, 2), [1, 12]);
    assert!(spraying.deny(12));
    assert_eq!(picks(&mut spraying, 2), [1, 1], "port 2 has none left");
}

#[test]
fn a_value_is_replaced_in_one_turn_or_in_all_and_the_new_one_starts_as_good() {
    let mut spraying = listed(&[7, 5, 7].map(|value| Ev::new(value, 1)), 0);
    spraying.assume_bad(7, Ns::ZERO);
    assert_eq!(spraying.replace(7, Ev::new(3, 1), Copies::One), 1);
    assert_eq!(picks(&mut spraying, 4), [3, 5, 3, 5]);
    assert_eq!(spraying.replace(7, Ev::new(5, 1), Copies::All), 1);
    assert_eq!(picks(&mut spraying, 3), [5, 3, 5]);
    assert_eq!(spraying.replace(7, Ev::new(9, 1), Copies::All), 0, "it is gone");
    assert_eq!(spraying.find(7), None);
    assert_eq!(spraying.replace(5, Ev::new(6, 1), Copies::All), 2);
    assert_eq!(picks(&mut spraying, 3), [6, 3, 6]);
}

proptest! {
    #[test]
    fn counts_follow_states_whatever_the_order_of_events(
        size in 1u32..=8,
        steps in prop::collection::vec((0u8..6, 256u32..264), 1..200),
    ) {
        let params = SprayingParams { entropy_mask_bits: 3, assumed_bad_ns: None, ..SprayingParams::default() };
        let mut spraying = drawn(params, size, 1, 4);
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

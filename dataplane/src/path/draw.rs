//! Which entropy values a destination gets: those in the rotation, in their order, and those that wait to replace one.

use super::params::SprayingParams;
use super::profile::{Ev, EvPool, PLANES_MAX, PoolKind, PortSet};
use rand::Rng;
use rand::seq::SliceRandom;

/// Values of a GENERATED profile that wait as backups towards one destination, at most.
const BACKUPS_MAX: usize = 1024;

/// The entropy values of a new spraying state.
#[derive(Clone, Debug)]
pub struct EvSet {
    /// In the rotation, in its order. A value that stands here twice carries twice the share.
    pub(super) active: Vec<Ev>,
    /// Not in the rotation, in the order in which they replace denied ones.
    pub(super) backup: Vec<Ev>,
    /// Values that stay in use, however many time out.
    pub(super) min_active: u32,
}

impl EvSet {
    /// Draws UDP source ports: an active set for a bandwidth-delay product of `bdp` bytes and full packets of `full` bytes, at random and
    /// in random order, dealt to the NIC's `ports` in turn. With several ports its size is a multiple of their number, the next larger one
    /// where the range has as many values, so that each port carries the same load.
    #[must_use]
    pub fn drawn<R: Rng>(params: &SprayingParams, bdp: u64, full: u32, ports: PortSet, rng: &mut R) -> EvSet {
        let first = u32::from(params.starting_port_offset);
        let mut range: Vec<u32> = (first..first + params.values()).collect();
        range.shuffle(rng);
        let mut active: Vec<Ev> = (0..).zip(range).map(|(i, value)| Ev::new(value, ports.dealt(i))).collect();
        let size = equal_loads(params.active_set_size(bdp, full), ports.len(), params.values());
        let backup = active.split_off(size as usize);
        EvSet { active, backup, min_active: 0 }
    }

    /// The values of a profile. An EXPLICIT list is the rotation, as the controller wrote it; of GENERATED ones an active set is drawn as
    /// [`EvSet::drawn`] does it, and AUTO leaves them to the NIC.
    #[must_use]
    pub fn of_profile<R: Rng>(pool: &EvPool, params: &SprayingParams, bdp: u64, full: u32, rng: &mut R) -> EvSet {
        let set = match pool.kind {
            PoolKind::Auto => {
                let params = SprayingParams { active_ev_set_size: at_least(params, bdp, full, pool), ..*params };
                EvSet::drawn(&params, bdp, full, pool.ports, rng)
            }
            PoolKind::Explicit => EvSet { active: pool.evs.to_vec(), backup: Vec::new(), min_active: 0 },
            PoolKind::Generated => {
                let mut all = pool.evs.to_vec();
                all.shuffle(rng);
                let mut active = by_ports_in_turn(&all);
                let values = active.len() as u32;
                let params = SprayingParams { active_ev_set_size: at_least(params, bdp, full, pool), ..*params };
                let size = equal_loads(params.active_set_of(values, bdp, full), pool.ports.len(), values);
                let mut backup = active.split_off(size as usize);
                backup.truncate(BACKUPS_MAX);
                EvSet { active, backup, min_active: 0 }
            }
        };
        EvSet { min_active: pool.min_active, ..set }
    }
}

/// The size of an active set that holds one value more at least than the profile keeps in use: else none could ever leave.
fn at_least(params: &SprayingParams, bdp: u64, full: u32, pool: &EvPool) -> u32 {
    match pool.min_active {
        0 => params.active_ev_set_size,
        kept => params.active_set_of(u32::MAX, bdp, full).max(kept.saturating_add(1)),
    }
}

/// `size` as a multiple of `ports`: the next larger, or the largest that `most` allows. Where not even one for each port is to be had, all
/// of them.
fn equal_loads(size: u32, ports: u32, most: u32) -> u32 {
    let ports = ports.max(1);
    let larger = size.next_multiple_of(ports);
    match (larger <= most, most - most % ports) {
        (true, _) => larger,
        (false, 0) => most,
        (false, largest) => largest,
    }
}

/// The values ordered such that ports take turns while they have any left.
fn by_ports_in_turn(evs: &[Ev]) -> Vec<Ev> {
    let mut groups: Vec<_> =
        (1..=PLANES_MAX).map(|port| evs.iter().filter(move |ev| ev.port == port).copied()).collect();
    let mut ordered = Vec::with_capacity(evs.len());
    while ordered.len() < evs.len() {
        ordered.extend(groups.iter_mut().filter_map(Iterator::next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::{BTreeMap, BTreeSet};

    fn rng() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(3)
    }

    fn loads(evs: &[Ev]) -> BTreeMap<u8, usize> {
        let mut loads = BTreeMap::new();
        for ev in evs {
            *loads.entry(ev.port).or_insert(0) += 1;
        }
        loads
    }

    #[test]
    fn with_several_ports_each_has_as_many_values_and_neighbours_leave_by_different_ones() {
        for ports in 1..=8 {
            let set = EvSet::drawn(&SprayingParams::default(), 300_000, 4156, PortSet::first(ports), &mut rng());
            let loads = loads(&set.active);
            assert_eq!(loads.len(), usize::from(ports));
            assert_eq!(loads.values().collect::<BTreeSet<_>>().len(), 1, "{ports} ports");
            assert_eq!(set.active.len() as u32, 72_u32.next_multiple_of(ports.into()));
            assert_eq!(set.active.len() + set.backup.len(), 128);
            assert!(ports == 1 || set.active.windows(2).all(|pair| pair[0].port != pair[1].port));
        }
    }

    #[test]
    fn a_range_too_small_for_equal_loads_is_used_as_far_as_it_goes() {
        assert_eq!(equal_loads(128, 5, 128), 125);
        assert_eq!(equal_loads(1, 4, 2), 2);
        assert_eq!(equal_loads(3, 4, 128), 4);
        let params = SprayingParams { entropy_mask_bits: 0, ..SprayingParams::default() };
        let set = EvSet::drawn(&params, 300_000, 4156, PortSet::first(4), &mut rng());
        assert_eq!(set.active, [Ev::new(256, 1)]);
    }

    #[test]
    fn of_a_generated_profile_an_active_set_is_drawn_and_the_rest_are_backups() {
        let evs: Vec<Ev> = (0..200).map(|i| Ev::new(i << 16, 1 + (i % 4) as u8)).collect();
        let kind = PoolKind::Generated;
        let pool = EvPool { id: 1, kind, evs: evs.clone().into(), ports: PortSet::first(4), min_active: 5 };
        let draw = |seed| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            EvSet::of_profile(&pool, &SprayingParams::default(), 300_000, 4156, &mut rng)
        };
        let set = draw(1);
        assert_eq!((set.active.len(), set.backup.len(), set.min_active), (72, 128, 5));
        assert_eq!(loads(&set.active), BTreeMap::from([(1, 18), (2, 18), (3, 18), (4, 18)]));
        let mut all: Vec<u32> = set.active.iter().chain(&set.backup).map(|ev| ev.value).collect();
        all.sort_unstable();
        assert_eq!(all, evs.iter().map(|ev| ev.value).collect::<Vec<_>>());
        assert_ne!(set.active, draw(2).active, "each destination draws its own");
    }

    #[test]
    fn a_set_holds_one_value_more_than_the_profile_keeps_in_use() {
        let evs: Vec<Ev> = (0..300).map(|i| Ev::new(i, 1)).collect();
        for (kind, kept, expected) in [
            (PoolKind::Generated, 100, 101),
            (PoolKind::Generated, 5, 72),
            (PoolKind::Auto, 100, 101),
            (PoolKind::Auto, 300, 128),
        ] {
            let pool = EvPool { id: 1, kind, evs: evs.clone().into(), ports: PortSet::first(1), min_active: kept };
            let set = EvSet::of_profile(&pool, &SprayingParams::default(), 300_000, 4156, &mut rng());
            assert_eq!(set.active.len(), expected, "{kind:?} {kept}");
        }
    }

    #[test]
    fn an_explicit_profile_is_the_rotation_as_it_is_written() {
        let evs = [7, 7, 5, 9].map(|value| Ev::new(value, 1));
        let kind = PoolKind::Explicit;
        let pool = EvPool { id: 1, kind, evs: evs.into(), ports: PortSet::first(1), min_active: 1 };
        let set = EvSet::of_profile(&pool, &SprayingParams::default(), 300_000, 4156, &mut rng());
        assert_eq!(set.active, evs);
        assert!(set.backup.is_empty());
    }
}

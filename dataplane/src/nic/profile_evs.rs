//! Values of EV profiles, as a controller changes them: their states, and all of them at once.

use super::paths::is_denied;
use super::rotations::Rotation;
use super::{EvState, Nic, Whose};
use crate::Ns;
use crate::path::profile::EvPool;
use crate::path::{EvSet, Spraying};
use std::collections::BTreeMap;

/// The values of a profile that a controller took out of use.
pub(super) fn marks_of(
    marks: &BTreeMap<(u64, u32), EvState>,
    profile: u64,
) -> impl Iterator<Item = (u32, EvState)> + '_ {
    marks.range((profile, 0)..=(profile, u32::MAX)).map(|(&(_, ev), &state)| (ev, state))
}

impl Nic {
    /// Puts a value into a state, wherever QPs of a profile use it, and for QPs to come: denied, until it is put into another one; assumed bad,
    /// until a probe is answered; or good. What [`Nic::deny`] denies stays denied. Of the last values that the profile keeps in use, none
    /// is assumed bad.
    pub fn set_profile_ev(&mut self, now: Ns, profile: u64, ev: u32, state: EvState) {
        match state {
            EvState::Good | EvState::Skip => _ = self.marks.remove(&(profile, ev)),
            EvState::AssumedBad | EvState::Denied => _ = self.marks.insert((profile, ev), state),
        }
        for at in 0..self.rotations.len() {
            let rotation = &mut self.rotations[at];
            if rotation.qps == 0 || rotation.profile != Some(profile) {
                continue;
            }
            let (destination, spraying) = (rotation.destination, &mut rotation.spraying);
            let address = self.destinations[destination].address;
            let before = spraying.state(ev);
            match state {
                EvState::Denied => _ = spraying.deny(ev),
                _ if is_denied(&self.denied, address, ev) => {}
                EvState::Good | EvState::Skip => {
                    spraying.allow(ev);
                    spraying.recovered(ev);
                }
                EvState::AssumedBad => {
                    spraying.allow(ev);
                    spraying.assume_bad(ev, now);
                }
            }
            let after = spraying.state(ev);
            if let Some(state) = after.filter(|_| after != before) {
                self.events.push(now, address, Whose::Of(Some(profile)), ev, state);
                self.wake_groups(destination);
            }
        }
    }

    /// Forgets the states that a controller has put values of a profile into: it has other values from now on, and QPs of it are none.
    pub fn forget_profile(&mut self, profile: u64) {
        self.marks.retain(|&(id, _), _| id != profile);
    }

    /// A profile has other values from now on, for its open QPs too: each destination's rotation starts anew. Where the values don't fit IPv4,
    /// QPs with such addresses keep what they have. How many rotations that were.
    pub fn change_pool(&mut self, now: Ns, pool: &EvPool) -> usize {
        self.forget_profile(pool.id);
        let ports = self.ports.len();
        if pool.evs.iter().any(|ev| ev.port == 0 || usize::from(ev.port) > ports) {
            return 0;
        }
        let mut changed = 0;
        for at in 0..self.rotations.len() {
            let Rotation { destination, profile, qps, .. } = self.rotations[at];
            let address = self.destinations[destination].address;
            let fits = address.is_ipv6() || pool.beyond_ipv4().is_none();
            if qps == 0 || profile != Some(pool.id) || !fits {
                continue;
            }
            let (params, bdp, full) = (&self.params.spraying, self.params.bdp(), self.params.transport.full());
            let set = EvSet::of_profile(pool, params, bdp, full, &mut self.rng);
            let mut spraying = Spraying::new(&set, params.assumed_bad_ns, &mut self.rng);
            for &(whom, ev) in &self.denied {
                if whom.is_none_or(|whom| whom == address) {
                    spraying.deny(ev);
                }
            }
            spraying.set_ports_out(self.ports_out | self.destinations[destination].peer_ports_out);
            let old = core::mem::replace(&mut self.rotations[at].spraying, spraying);
            for (ev, _) in old.states().filter(|(_, state)| *state == EvState::AssumedBad) {
                // Nobody is to probe it any more.
                self.events.push(now, address, Whose::Of(profile), ev, EvState::Good);
            }
            changed += 1;
            self.wake_groups(destination);
        }
        changed
    }
}

//! Entropy values as the control thread and reports see them: states, denials, probes, and what each carried.

use super::qp::QpPath;
use super::rotations::Rotation;
use super::{EvEvent, EvReport, EvState, Nic, ProbeAnswer, Qp, QpState, Whose};
use crate::Ns;
use crate::path::profile::{Copies, Ev};
use core::net::IpAddr;
use std::collections::BTreeSet;

/// Is `ev` denied towards `remote`, or everybody?
pub(super) fn is_denied(denied: &BTreeSet<(Option<IpAddr>, u32)>, remote: IpAddr, ev: u32) -> bool {
    denied.contains(&(None, ev)) || denied.contains(&(Some(remote), ev))
}

impl Nic {
    /// Takes the oldest answer to a probe.
    pub fn poll_probe(&mut self) -> Option<ProbeAnswer> {
        self.probes.poll()
    }

    /// When the oldest probe that still waits for its answer was asked for.
    #[must_use]
    pub fn oldest_probe(&self) -> Option<Ns> {
        self.probes.oldest()
    }

    /// Probes `ev` towards `remote`, on an open QP that sends there, one that uses the value if there is one; its number, or `None` when there
    /// is no QP.
    pub fn probe_destination(&mut self, now: Ns, remote: IpAddr, ev: u32) -> Option<u16> {
        let ready = || self.qps_to(remote).filter(|qp| qp.state != QpState::Error);
        let spraying = |qp: &Qp| match qp.path {
            QpPath::Sprayed(at) => Some(&self.rotations[at].spraying),
            QpPath::Own(_) => None,
        };
        let wants = |qp: &&Qp| spraying(qp).is_some_and(|spraying| spraying.is_bad(ev));
        let knows = |qp: &&Qp| spraying(qp).is_some_and(|spraying| spraying.find(ev).is_some());
        let qp = ready().find(wants).or_else(|| ready().find(knows)).or_else(|| ready().next());
        let qpn = qp?.qpn;
        self.probe(now, qpn, ev)
    }

    /// Is a QP open with this address?
    #[must_use]
    pub fn is_open_with(&self, remote: IpAddr) -> bool {
        self.destination_of.contains_key(&remote)
    }

    /// The open QPs with an address.
    pub(super) fn qps_to(&self, remote: IpAddr) -> impl Iterator<Item = &Qp> + '_ {
        let destination = self.destination_of.get(&remote).map(|&at| &self.destinations[at]);
        let slots = destination.into_iter().flat_map(|destination| &destination.qps);
        slots.filter_map(|&slot| self.qps.get(slot as usize)?.as_deref())
    }

    /// A probe on a path towards `remote` was answered: its value returns to the rotations in which it stands for this path.
    pub(super) fn path_alive(&mut self, now: Ns, remote: IpAddr, probed: Ev) {
        let Some(&at) = self.destination_of.get(&remote) else { return };
        let (mut still_bad, ev) = (false, probed.value);
        for &rotation in &self.destinations[at].rotations {
            let Rotation { spraying, profile, .. } = &mut self.rotations[rotation];
            if spraying.find(ev) == Some(probed) {
                spraying.recovered(ev);
                if let Some(profile) = *profile
                    && self.marks.get(&(profile, ev)) == Some(&EvState::AssumedBad)
                {
                    self.marks.remove(&(profile, ev));
                }
            }
            still_bad |= spraying.is_bad(ev);
        }
        if !still_bad {
            // Told even where it was good already: whoever probed it may have missed that.
            self.events.push(now, remote, Whose::Everybody, ev, EvState::Good);
            return;
        }
        for &rotation in &self.destinations[at].rotations {
            let Rotation { spraying, profile, .. } = &self.rotations[rotation];
            if spraying.find(ev) == Some(probed) && !spraying.is_bad(ev) {
                self.events.push(now, remote, Whose::Of(*profile), ev, EvState::Good);
            }
        }
    }

    /// Replaces a value of a profile, wherever its QPs use it, in its first turn or in all of them; how many destinations that
    /// concerned. The new value starts as good.
    pub fn replace_ev(&mut self, now: Ns, profile: u64, current: u32, new: Ev, copies: Copies) -> usize {
        if new.port == 0 || usize::from(new.port) > self.ports.len() {
            return 0;
        }
        let mut replaced = 0;
        for at in 0..self.rotations.len() {
            let rotation = &mut self.rotations[at];
            let (destination, address) = (rotation.destination, self.destinations[rotation.destination].address);
            let fits = address.is_ipv6() || new.value <= u32::from(u16::MAX);
            if rotation.qps == 0 || rotation.profile != Some(profile) || !fits {
                continue;
            }
            if rotation.spraying.replace(current, new, copies) == 0 {
                continue;
            }
            replaced += 1;
            if is_denied(&self.denied, address, new.value)
                || self.marks.get(&(profile, new.value)) == Some(&EvState::Denied)
            {
                rotation.spraying.deny(new.value);
            }
            if rotation.spraying.find(current).is_none() {
                // Nobody is to probe it any more.
                self.events.push(now, address, Whose::Of(Some(profile)), current, EvState::Good);
            }
            self.wake_groups(destination);
        }
        replaced
    }

    /// Takes the oldest event of an entropy value.
    pub fn poll_event(&mut self) -> Option<EvEvent> {
        self.events.poll()
    }

    /// Tells again, as events, every value that is not good.
    pub fn report_states(&mut self, now: Ns) {
        for rotation in self.rotations.iter().filter(|rotation| rotation.qps > 0) {
            let address = self.destinations[rotation.destination].address;
            for (ev, state) in rotation.spraying.states().filter(|(_, state)| *state != EvState::Good) {
                self.events.push(now, address, Whose::Of(rotation.profile), ev, state);
            }
        }
    }

    /// Denies `ev` towards `remote`, or lifts the denial; without `remote` towards everybody. Either holds for connections to come, too. A
    /// value is used again when neither denies it. True when that changed something.
    pub fn deny(&mut self, now: Ns, remote: Option<IpAddr>, ev: u32, denied: bool) -> bool {
        let changed = if denied { self.denied.insert((remote, ev)) } else { self.denied.remove(&(remote, ev)) };
        for at in 0..self.destinations.len() {
            if remote.is_none_or(|remote| self.destinations[at].address == remote) {
                self.apply_denial(now, at, ev);
            }
        }
        changed
    }

    fn apply_denial(&mut self, now: Ns, at: usize, ev: u32) {
        let address = self.destinations[at].address;
        let denied = is_denied(&self.denied, address, ev);
        let state = if denied { EvState::Denied } else { EvState::Good };
        let (mut all, mut changed) = (true, Vec::new());
        for &rotation in &self.destinations[at].rotations {
            let Rotation { spraying, profile, .. } = &mut self.rotations[rotation];
            let marked = profile.is_some_and(|id| self.marks.get(&(id, ev)) == Some(&EvState::Denied));
            if if denied { spraying.deny(ev) } else { !marked && spraying.allow(ev) } {
                changed.push(*profile);
            }
            all &= (spraying.state(ev) == Some(EvState::Denied)) == denied;
        }
        if changed.is_empty() {
            return;
        }
        if all {
            self.events.push(now, address, Whose::Everybody, ev, state);
        } else {
            changed.into_iter().for_each(|profile| self.events.push(now, address, Whose::Of(profile), ev, state));
        }
        self.wake_groups(at);
    }

    /// The remote addresses with an open QP.
    pub fn destinations(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.destinations
            .iter()
            .filter(|destination| !destination.qps.is_empty())
            .map(|destination| destination.address)
    }

    /// The entropy values towards `remote`, denied ones included, each with the EV profile that it is of, if any.
    pub fn list_evs(&self, remote: IpAddr) -> impl Iterator<Item = (Option<u64>, EvReport)> + '_ {
        self.rotations_to(remote).flat_map(|rotation| rotation.spraying.list().map(|report| (rotation.profile, report)))
    }

    /// The entropy values of the active set towards `remote` and their states, in the order of the rotation.
    pub fn ev_states(&self, remote: IpAddr) -> impl Iterator<Item = (u32, EvState)> + '_ {
        self.rotations_to(remote).flat_map(|rotation| rotation.spraying.states())
    }

    /// The entropy values of the active set towards `remote`, and how many packets took each.
    pub fn ev_use(&self, remote: IpAddr) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.rotations_to(remote).flat_map(|rotation| rotation.spraying.use_counts())
    }

    /// Bytes of payload placed for the open QPs with `remote`.
    #[must_use]
    pub fn received_from(&self, remote: IpAddr) -> u64 {
        self.qps_to(remote).map(|qp| qp.stats.delivered_bytes).sum()
    }

    /// The last valid round-trip time to `remote` in ns.
    #[must_use]
    pub fn last_rtt(&self, remote: IpAddr) -> Option<u64> {
        self.destinations[*self.destination_of.get(&remote)?].last_rtt
    }
}

//! Entropy values as the control thread and reports see them: states, denials, probes, and what each carried.

use super::qp::QpPath;
use super::{EvEvent, EvReport, EvState, Nic, ProbeAnswer, Qp, QpState};
use crate::Ns;
use crate::path::profile::{Copies, Ev};
use core::net::IpAddr;

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
        let uses = |qp: &&Qp| match qp.path {
            QpPath::Sprayed(at) => self.rotations[at].spraying.find(ev).is_some(),
            QpPath::Own(_) => false,
        };
        let qpn = ready().find(uses).or_else(|| ready().next())?.qpn;
        self.probe(now, qpn, ev)
    }

    /// The open QPs with an address.
    pub(super) fn qps_to(&self, remote: IpAddr) -> impl Iterator<Item = &Qp> + '_ {
        let destination = self.destination_of.get(&remote).map(|&at| &self.destinations[at]);
        let slots = destination.into_iter().flat_map(|destination| &destination.qps);
        slots.filter_map(|&slot| self.qps.get(slot as usize)?.as_deref())
    }

    /// A path towards `remote` is alive: its value returns to every rotation.
    pub(super) fn path_alive(&mut self, now: Ns, remote: IpAddr, ev: u32) {
        let Some(&at) = self.destination_of.get(&remote) else { return };
        let mut back = false;
        for &rotation in &self.destinations[at].rotations {
            back |= self.rotations[rotation].spraying.recovered(ev);
        }
        if back {
            self.events.push(now, remote, ev, EvState::Good);
        }
    }

    /// Replaces a value of a profile, wherever its QPs use it, in its first turn or in all of them; how many destinations that
    /// concerned. The new value starts as good.
    pub fn replace_ev(&mut self, now: Ns, profile: u64, current: u32, new: Ev, copies: Copies) -> usize {
        if new.port == 0 || usize::from(new.port) > self.ports.len() {
            return 0;
        }
        let mut replaced = 0;
        let of_profile = |rotation: &&mut super::Rotation| rotation.profile == Some(profile) && rotation.qps > 0;
        for rotation in self.rotations.iter_mut().filter(of_profile) {
            if rotation.spraying.replace(current, new, copies) == 0 {
                continue;
            }
            replaced += 1;
            if rotation.spraying.find(current).is_none() {
                // Nobody is to probe it any more.
                self.events.push(now, self.destinations[rotation.destination].address, current, EvState::Good);
            }
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
                self.events.push(now, address, ev, state);
            }
        }
    }

    /// Denies `ev` towards `remote`, or lifts the denial; without `remote` towards everybody, those to come included. True when that changed
    /// something.
    pub fn deny(&mut self, now: Ns, remote: Option<IpAddr>, ev: u32, denied: bool) -> bool {
        let Some(remote) = remote else {
            let changed = if denied { self.denied.insert(ev) } else { self.denied.remove(&ev) };
            for at in 0..self.destinations.len() {
                self.deny_at(now, at, ev, denied);
            }
            return changed;
        };
        self.destination_of.get(&remote).copied().is_some_and(|at| self.deny_at(now, at, ev, denied))
    }

    fn deny_at(&mut self, now: Ns, at: usize, ev: u32, denied: bool) -> bool {
        let mut changed = false;
        for &rotation in &self.destinations[at].rotations {
            let spraying = &mut self.rotations[rotation].spraying;
            changed |= if denied { spraying.deny(ev) } else { spraying.allow(ev) };
        }
        if changed {
            let state = if denied { EvState::Denied } else { EvState::Good };
            self.events.push(now, self.destinations[at].address, ev, state);
            self.wake_groups(at);
        }
        changed
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

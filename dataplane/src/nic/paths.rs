//! Entropy values as the control thread and reports see them: states, denials, probes, and what each carried.

use super::{EvEvent, EvState, Nic, ProbeAnswer, Qp, QpState};
use crate::Ns;
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

    /// Probes `ev` towards `remote`, on any open QP that can send there; its number, or `None` when there is none.
    pub fn probe_destination(&mut self, now: Ns, remote: IpAddr, ev: u32) -> Option<u16> {
        let at = *self.destination_of.get(&remote)?;
        let ready = |qp: &&Qp| qp.destination == at && qp.state != QpState::Error;
        let qpn = self.qps.iter().flatten().map(|qp| &**qp).find(ready)?.qpn;
        self.probe(now, qpn, ev)
    }

    /// Takes the oldest event of an entropy value.
    pub fn poll_event(&mut self) -> Option<EvEvent> {
        self.events.poll()
    }

    /// Tells again, as events, every value that is not good.
    pub fn report_states(&mut self, now: Ns) {
        for destination in self.destinations.iter().filter(|destination| destination.qps > 0) {
            for (ev, state) in destination.spraying.states().filter(|(_, state)| *state != EvState::Good) {
                self.events.push(now, destination.address, ev, state);
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
        let destination = &mut self.destinations[at];
        let changed = if denied { destination.spraying.deny(ev) } else { destination.spraying.allow(ev) };
        if changed {
            let state = if denied { EvState::Denied } else { EvState::Good };
            self.events.push(now, destination.address, ev, state);
            self.join_round(at);
        }
        changed
    }

    /// The remote addresses with an open QP.
    pub fn destinations(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.destinations.iter().filter(|destination| destination.qps > 0).map(|destination| destination.address)
    }

    /// The entropy values towards `remote`, denied ones included, with state and packets sent.
    pub fn list_evs(&self, remote: IpAddr) -> impl Iterator<Item = (u32, EvState, u64)> + '_ {
        let at = self.destination_of.get(&remote);
        at.into_iter().flat_map(|&at| self.destinations[at].spraying.list())
    }

    /// The entropy values of the active set towards `remote` and their states, in the order of the rotation.
    pub fn ev_states(&self, remote: IpAddr) -> impl Iterator<Item = (u32, EvState)> + '_ {
        let at = self.destination_of.get(&remote);
        at.into_iter().flat_map(|&at| self.destinations[at].spraying.states())
    }

    /// The entropy values of the active set towards `remote`, and how many packets took each.
    pub fn ev_use(&self, remote: IpAddr) -> impl Iterator<Item = (u32, u64)> + '_ {
        let at = self.destination_of.get(&remote);
        at.into_iter().flat_map(|&at| self.destinations[at].spraying.use_counts())
    }

    /// Bytes in flight towards `remote`.
    #[must_use]
    pub fn inflight(&self, remote: IpAddr) -> u64 {
        self.destination_of.get(&remote).map_or(0, |&at| self.destinations[at].window.inflight())
    }

    /// The last valid round-trip time to `remote` in ns.
    #[must_use]
    pub fn last_rtt(&self, remote: IpAddr) -> Option<u64> {
        self.destinations[*self.destination_of.get(&remote)?].last_rtt
    }
}

//! Groups of QPs: one window and one turn for all of them (Scala MRC NIC documentation, `QPGroupsEnabled`).

use super::qp::CcProfileRef;
use super::{Nic, place};
use crate::Ns;
use crate::congestion::{Congestion as _, NsccSnapshot, Window};
use core::net::IpAddr;
use std::collections::VecDeque;

/// Which QPs are one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKey {
    /// Those to one destination that use one CC profile, or none.
    Shared(Option<u64>),
    /// The one in this slot.
    Single(u32),
}

/// Where a group is in the transmit scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GroupState {
    /// It has nothing to send.
    #[default]
    Idle,
    /// It waits for its turn.
    Ready,
    /// It has its turn.
    Active,
    /// It has something to send, and its window lets nothing through, or all its values are denied: an acknowledgement, a timer or the
    /// controller calls it.
    Pending,
}

/// QPs that share a window and a turn.
pub(super) struct Group {
    pub(super) destination: usize,
    pub(super) key: GroupKey,
    pub(super) window: Window,
    /// Slots of QPs with something to send again.
    pub(super) resend: VecDeque<u32>,
    /// Slots of QPs with something new to send.
    pub(super) fresh: VecDeque<u32>,
    /// Nominal bytes that the first of `fresh` has sent in its turn.
    pub(super) turn: u32,
    pub(super) state: GroupState,
    /// Open QPs; with none the group is forgotten.
    pub(super) qps: usize,
}

impl Group {
    /// Has one of its QPs something to send, as far as the window is not asked?
    pub(super) fn has_work(&self) -> bool {
        !self.resend.is_empty() || !self.fresh.is_empty()
    }

    pub(super) fn report(&self) -> GroupReport {
        let algorithm = self.window.algorithm();
        GroupReport {
            profile: if let GroupKey::Shared(profile) = self.key { profile } else { None },
            window: algorithm.window(),
            inflight: self.window.inflight(),
            state: self.state,
            qps: self.qps,
            nscc: algorithm.snapshot(),
        }
    }

    /// The first of its QPs sent `nominal` bytes of new data: the next one's turn begins after `full`. So many small packets of one QP
    /// follow each other as a full packet has bytes, and one acknowledgement answers them all.
    /// True when that ended it, and another's begins.
    #[inline]
    pub(super) fn pass_turn(&mut self, nominal: u32, full: u32) -> bool {
        self.turn += nominal;
        let ends = self.turn >= full;
        if ends {
            self.end_turn();
        }
        ends
    }

    /// How many packets of `nominal` bytes window and turn have room for; a full packet has `full`.
    #[inline]
    pub(super) fn room(&self, full: u32, nominal: u32) -> u64 {
        let turn = full.saturating_sub(self.turn).div_ceil(nominal);
        self.window.allowance().room(self.window.inflight(), full, nominal).min(turn.into())
    }

    /// It is the turn of the next of its QPs with something new to send.
    #[inline]
    pub(super) fn end_turn(&mut self) {
        self.turn = 0;
        if self.fresh.len() > 1 {
            self.fresh.rotate_left(1);
        }
    }

    /// It takes part in the round no more, until something changes.
    pub(super) fn rest(&mut self) {
        self.state = if self.has_work() { GroupState::Pending } else { GroupState::Idle };
    }
}

/// What can be seen of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Its CC profile, if its QPs have one.
    pub profile: Option<u64>,
    /// Bytes that may be in flight; [`u64::MAX`] without a limit.
    pub window: u64,
    /// Bytes in flight.
    pub inflight: u64,
    /// Where it is in the scheduler.
    pub state: GroupState,
    /// Its QPs.
    pub qps: usize,
    /// NSCC's state, where that is the algorithm.
    pub nscc: Option<NsccSnapshot>,
}

impl Nic {
    /// The group of a new QP; a new one when it has none to join.
    pub(super) fn group(&mut self, now: Ns, destination: usize, slot: u32, profile: Option<&CcProfileRef>) -> usize {
        let key = match self.params.qp_groups {
            true => GroupKey::Shared(profile.map(|profile| profile.id)),
            false => GroupKey::Single(slot),
        };
        if let Some(&at) = self.destinations[destination].groups.iter().find(|&&at| self.groups[at].key == key) {
            return at;
        }
        let config = profile.map_or(&self.params.congestion, |profile| &profile.config);
        let full = self.params.transport.full();
        let window = Window::new(config.algorithm(self.params.data_rate, full, self.params.trimming, now));
        let (resend, fresh, state) = (VecDeque::new(), VecDeque::new(), GroupState::Idle);
        let group = Group { destination, key, window, resend, fresh, turn: 0, state, qps: 0 };
        let at = place(&mut self.groups, &mut self.free_groups, group);
        self.destinations[destination].groups.push(at);
        at
    }

    /// The QP in `slot` leaves its group: with the last one it is forgotten.
    pub(super) fn leave_group(&mut self, at: usize, slot: usize) {
        let group = &mut self.groups[at];
        group.resend.retain(|&s| s as usize != slot);
        group.fresh.retain(|&s| s as usize != slot);
        group.turn = 0;
        group.qps -= 1;
        if group.qps > 0 {
            self.join_round(at);
            return;
        }
        self.destinations[group.destination].groups.retain(|&other| other != at);
        self.round.retain(|&other| other != at);
        self.free_groups.push(at);
    }

    /// A group with something to send waits for its turn, once.
    #[inline]
    pub(super) fn join_round(&mut self, at: usize) {
        let group = &mut self.groups[at];
        if matches!(group.state, GroupState::Idle | GroupState::Pending) && group.has_work() {
            group.state = GroupState::Ready;
            self.round.push_back(at);
        }
    }

    /// The paths of a destination are others now: all its groups may be able to send.
    pub(super) fn wake_groups(&mut self, destination: usize) {
        for i in 0..self.destinations[destination].groups.len() {
            self.join_round(self.destinations[destination].groups[i]);
        }
    }

    /// The groups towards `remote`: windows, bytes in flight, states.
    pub fn groups(&self, remote: IpAddr) -> impl Iterator<Item = GroupReport> + '_ {
        let destination = self.destination_of.get(&remote).map(|&at| &self.destinations[at]);
        destination.into_iter().flat_map(|destination| &destination.groups).map(|&at| self.groups[at].report())
    }

    /// The group of a QP.
    #[must_use]
    pub fn group_of(&self, qpn: super::Qpn) -> Option<GroupReport> {
        self.qp(qpn).map(|qp| self.groups[qp.group].report())
    }

    /// Bytes in flight towards `remote`.
    #[must_use]
    pub fn inflight(&self, remote: IpAddr) -> u64 {
        self.groups(remote).map(|group| group.inflight).sum()
    }
}

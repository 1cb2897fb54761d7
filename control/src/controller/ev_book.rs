//! Which values of EV profiles are not good, for all destinations together, and who hears when that changes.

use super::{Controller, EvName};
use dataplane::nic::{EvState, Whose};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// Which changes of a profile's values are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvEventMask {
    /// A value is assumed bad towards a destination, the first one.
    pub assumed_bad: bool,
    /// A value is good again towards all destinations.
    pub good: bool,
}

impl EvEventMask {
    const fn has(self, state: EvState) -> bool {
        match state {
            EvState::AssumedBad => self.assumed_bad,
            EvState::Good => self.good,
            EvState::Skip | EvState::Denied => false,
        }
    }
}

/// A value of an EV profile changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvChange {
    /// The profile.
    pub profile: u64,
    /// The EV.
    pub ev: EvName,
    /// Its state from then on.
    pub state: EvState,
}

/// Hears of EVs that change their states, as their profiles' masks say.
pub trait EvListener: Send + Sync {
    /// One changed. The control thread calls it, which must not wait.
    fn changed(&self, change: &EvChange);
}

/// A value of a profile.
type Value = (u64, u32);

#[derive(Debug, Default)]
pub(super) struct EvBook {
    /// What a controller denied or assumes bad.
    marks: BTreeMap<Value, EvState>,
    /// Towards whom values are assumed bad.
    bad: BTreeMap<Value, BTreeSet<IpAddr>>,
    /// Towards each destination, of which profiles a value is assumed bad.
    holders: BTreeMap<(IpAddr, u32), BTreeSet<Option<u64>>>,
    /// States that were shown last, where they are not good.
    shown: BTreeMap<Value, EvState>,
    listeners: Vec<Weak<dyn EvListener>>,
}

impl EvBook {
    /// Enters what an engine told; whether anybody holds the value to be bad towards the destination, and the profiles that this is about.
    fn enter(&mut self, destination: IpAddr, whose: Whose, ev: u32, state: EvState) -> (bool, Vec<u64>) {
        let place = (destination, ev);
        let concerned: Vec<Option<u64>> = match whose {
            Whose::Of(profile) => vec![profile],
            Whose::Everybody => self.holders.get(&place).into_iter().flatten().copied().collect(),
        };
        if state == EvState::AssumedBad {
            self.holders.entry(place).or_default().extend(&concerned);
            for profile in concerned.iter().flatten() {
                self.bad.entry((*profile, ev)).or_default().insert(destination);
            }
            return (true, concerned.into_iter().flatten().collect());
        }
        if let Some(holders) = self.holders.get_mut(&place) {
            holders.retain(|holder| !concerned.contains(holder));
            if holders.is_empty() {
                self.holders.remove(&place);
            }
        }
        for profile in concerned.iter().flatten() {
            self.recovered((*profile, ev), destination);
        }
        (self.holders.contains_key(&place), concerned.into_iter().flatten().collect())
    }

    /// A value that was bad towards a destination no longer is.
    fn recovered(&mut self, value: Value, destination: IpAddr) {
        let Some(towards) = self.bad.get_mut(&value) else { return };
        if towards.remove(&destination) && self.marks.get(&value) == Some(&EvState::AssumedBad) {
            self.marks.remove(&value);
        }
        if towards.is_empty() {
            self.bad.remove(&value);
        }
    }

    /// No QP is open with a destination any more. The values that this is about.
    fn forget_destination(&mut self, destination: IpAddr) -> Vec<Value> {
        self.holders.retain(|(to, _), _| *to != destination);
        let values: Vec<Value> =
            self.bad.iter().filter(|(_, towards)| towards.contains(&destination)).map(|(&value, _)| value).collect();
        values.iter().for_each(|&value| self.recovered(value, destination));
        values
    }

    /// What a controller wants of a value; the engines tell the rest.
    pub(super) fn mark(&mut self, value: Value, state: EvState) {
        match state {
            EvState::Good | EvState::Skip => {
                self.marks.remove(&value);
                self.bad.remove(&value);
            }
            EvState::AssumedBad | EvState::Denied => _ = self.marks.insert(value, state),
        }
    }

    /// Whether a controller has put a value into a state that is not good.
    pub(super) fn is_marked(&self, value: Value) -> bool {
        self.marks.contains_key(&value)
    }

    /// Values of a profile that a controller has put into a state that is not good.
    pub(super) fn marked(&self, profile: u64) -> impl Iterator<Item = u32> + '_ {
        self.marks.range((profile, 0)..=(profile, u32::MAX)).map(|(&(_, ev), _)| ev)
    }

    /// Whether a value is denied or assumed bad.
    pub(super) fn is_out(&self, value: Value) -> bool {
        self.is_marked(value) || self.bad.contains_key(&value)
    }

    /// Values of a profile that are denied or assumed bad.
    pub(super) fn out_of(&self, profile: u64) -> usize {
        let of = |&(id, ev): &Value| (id == profile).then_some(ev);
        self.marks.keys().chain(self.bad.keys()).filter_map(of).collect::<BTreeSet<u32>>().len()
    }

    pub(super) fn forget_profile(&mut self, profile: u64) {
        self.marks.retain(|value, _| value.0 != profile);
        self.bad.retain(|value, _| value.0 != profile);
        self.shown.retain(|value, _| value.0 != profile);
    }

    fn state(&self, value: Value) -> EvState {
        match self.marks.get(&value) {
            Some(&state) => state,
            None if self.bad.contains_key(&value) => EvState::AssumedBad,
            None => EvState::Good,
        }
    }

    /// Who hears from now on.
    pub(super) fn listen(&mut self, listener: &Arc<dyn EvListener>) {
        self.listeners.retain(|listener| listener.strong_count() > 0);
        self.listeners.push(Arc::downgrade(listener));
    }
}

impl Controller {
    /// Has somebody hear of changes, for as long as it is there.
    pub fn listen(&mut self, listener: &Arc<dyn EvListener>) {
        self.book.listen(listener);
    }

    /// The state of a value of an EV profile: denied, by the profile's controller or towards everybody; assumed bad, towards any destination; or
    /// good.
    #[must_use]
    pub fn ev_state(&self, profile: u64, ev: u32) -> EvState {
        if self.denied.contains(&(None, ev)) { EvState::Denied } else { self.book.state((profile, ev)) }
    }

    /// Enters what an engine told of a value; whether it is assumed bad towards the destination from now on, for anybody.
    pub(super) fn enter(&mut self, destination: IpAddr, whose: Whose, ev: u32, state: EvState) -> bool {
        let (bad, concerned) = self.book.enter(destination, whose, ev, state);
        concerned.into_iter().for_each(|profile| self.show(profile, ev));
        bad
    }

    pub(super) fn forget_destination(&mut self, destination: IpAddr) {
        for (profile, ev) in self.book.forget_destination(destination) {
            self.show(profile, ev);
        }
    }

    /// A value's state may have changed in each profile that has it.
    pub(super) fn show_everywhere(&mut self, ev: u32) {
        let with: Vec<u64> = self.profiles.with(ev).collect();
        with.into_iter().for_each(|profile| self.show(profile, ev));
    }

    /// Tells listeners of a value's state, where it is another one than was shown, and the profile's mask wants it.
    pub(super) fn show(&mut self, profile: u64, ev: u32) {
        let state = self.ev_state(profile, ev);
        let before = match state {
            EvState::Good => self.book.shown.remove(&(profile, ev)),
            state => self.book.shown.insert((profile, ev), state),
        };
        if before.unwrap_or(EvState::Good) == state || !self.profiles.event_mask(profile).has(state) {
            return;
        }
        let Some(name) = self.profiles.name_of(profile, ev) else { return };
        let change = EvChange { profile, ev: name, state };
        self.book.listeners.retain(|listener| {
            listener.upgrade().is_some_and(|listener| {
                listener.changed(&change);
                true
            })
        });
    }
}

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

#[cfg(test)]
mod tests {
    use super::super::{
        Command, EvEdits, EvProfileStep, EvReplacement, Event, FormatKind, FormatStep, Mode, PROBE_PERIOD,
    };
    use super::*;
    use dataplane::Ns;
    use dataplane::nic::EvEvent;
    use dataplane::path::profile::{Copies, ProfileState};
    use std::net::Ipv4Addr;
    use std::sync::Mutex;

    const PEERS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3))];

    #[derive(Default)]
    struct Heard(Mutex<Vec<(u64, u8, EvState)>>);

    impl EvListener for Heard {
        fn changed(&self, change: &EvChange) {
            let last = change.ev.bits[1];
            self.0.lock().unwrap().push((change.profile, last, change.state));
        }
    }

    fn name(value: u8) -> EvName {
        let mut bits = [0; 32];
        bits[1] = value;
        EvName { bits, port: 1 }
    }

    /// A controller with a profile of each of these numbers, ONLINE, of the EVs 1 and 2; and who hears of them.
    fn controller(ids: &[u64]) -> (Controller, Arc<Heard>, Arc<dyn EvListener>) {
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        let format = FormatStep { kind: Some(FormatKind::Udp), widths: Some(vec![16]), ..FormatStep::default() };
        let step = FormatStep { to: Some(ProfileState::Offline), ..format };
        controller.profiles_mut().modify_format(9, &step).unwrap();
        let online = FormatStep { to: Some(ProfileState::Online), ..FormatStep::default() };
        controller.profiles_mut().modify_format(9, &online).unwrap();
        for &id in ids {
            let evs = [1, 2].map(|value| EvReplacement {
                current: EvName::UNPOPULATED,
                new: name(value),
                state: EvState::Good,
                copies: Copies::One,
            });
            let step = EvProfileStep {
                to: Some(ProfileState::Offline),
                mode: Some(Mode::Explicit),
                format: Some(9),
                count: Some(2),
                min_active: Some(0),
                event_mask: Some(EvEventMask { assumed_bad: true, good: true }),
                evs: Some(EvEdits::Replace(evs.to_vec())),
                ..EvProfileStep::default()
            };
            controller.modify_profile(id, &step).unwrap();
            let online = EvProfileStep { to: Some(ProfileState::Online), ..EvProfileStep::default() };
            controller.modify_profile(id, &online).unwrap();
        }
        let heard: Arc<Heard> = Arc::default();
        let listener: Arc<dyn EvListener> = heard.clone();
        controller.listen(&listener);
        (controller, heard, listener)
    }

    fn told(controller: &mut Controller, to: usize, whose: Whose, state: EvState) {
        let event = EvEvent { at: Ns(1), destination: PEERS[to], whose, ev: 1, state, dropped: 0 };
        controller.on_event(Ns(1), 0, Event::Ev(event));
    }

    #[test]
    fn a_value_is_bad_from_the_first_peer_to_the_last_and_both_are_told_once() {
        let (mut controller, heard, _listener) = controller(&[7]);
        for to in [0, 1, 0] {
            told(&mut controller, to, Whose::Of(Some(7)), EvState::AssumedBad);
        }
        assert_eq!(controller.ev_state(7, 1), EvState::AssumedBad);
        told(&mut controller, 1, Whose::Everybody, EvState::Good);
        assert_eq!(controller.ev_state(7, 1), EvState::AssumedBad, "towards the other");
        assert_eq!(controller.suspects(PEERS[1]).count(), 0);
        controller.on_event(Ns(2), 0, Event::Gone(PEERS[0]));
        assert_eq!(controller.ev_state(7, 1), EvState::Good);
        assert_eq!(*heard.0.lock().unwrap(), [(7, 1, EvState::AssumedBad), (7, 1, EvState::Good)]);
    }

    #[test]
    fn a_value_that_is_good_for_one_profile_is_still_probed_for_another() {
        let (mut controller, heard, _listener) = controller(&[7, 8]);
        told(&mut controller, 0, Whose::Of(Some(7)), EvState::AssumedBad);
        told(&mut controller, 0, Whose::Of(Some(8)), EvState::AssumedBad);
        told(&mut controller, 0, Whose::Of(None), EvState::AssumedBad);
        told(&mut controller, 0, Whose::Of(Some(7)), EvState::Good);
        assert_eq!((controller.ev_state(7, 1), controller.ev_state(8, 1)), (EvState::Good, EvState::AssumedBad));
        assert_eq!(controller.suspects(PEERS[0]).collect::<Vec<_>>(), [1]);
        told(&mut controller, 0, Whose::Everybody, EvState::Good);
        assert_eq!(controller.suspects(PEERS[0]).count(), 0);
        assert_eq!(controller.ev_state(8, 1), EvState::Good);
        let heard = heard.0.lock().unwrap();
        let (bad, good) = (EvState::AssumedBad, EvState::Good);
        assert_eq!(*heard, [(7, 1, bad), (8, 1, bad), (7, 1, good), (8, 1, good)]);
    }

    #[test]
    fn a_denial_of_an_operators_and_one_of_the_profiles_are_both_to_be_lifted() {
        let (mut controller, heard, listener) = controller(&[7]);
        assert!(controller.deny(None, 1, true));
        let state =
            |state| EvProfileStep { evs: Some(EvEdits::SetState(vec![(name(1), state)])), ..EvProfileStep::default() };
        controller.modify_profile(7, &state(EvState::Denied)).unwrap();
        assert!(controller.deny(None, 1, false));
        assert_eq!(controller.ev_state(7, 1), EvState::Denied);
        controller.modify_profile(7, &state(EvState::Good)).unwrap();
        assert_eq!(controller.ev_state(7, 1), EvState::Good);
        assert_eq!(*heard.0.lock().unwrap(), [(7, 1, EvState::Good)]);
        let commands: Vec<Command> = std::iter::from_fn(|| controller.poll_command()).collect();
        assert!(commands.contains(&Command::SetEv { profile: 7, ev: 1, state: EvState::Denied }), "{commands:?}");
        drop(listener);
        drop(heard);
        told(&mut controller, 0, Whose::Of(Some(7)), EvState::AssumedBad);
        assert!(controller.book.listeners.is_empty(), "who has gone hears no more");
    }

    #[test]
    fn the_nics_own_formats_come_and_go_apart_from_those_of_controllers() {
        let (mut controller, ..) = controller(&[]);
        let spec =
            super::super::ProfileSpec::read("id = 3\nmode = \"explicit\"\nformat.kind = \"udp\"\nevs = [{ ev = 5 }]");
        controller.profiles_mut().create(&spec.unwrap()).unwrap();
        let format = controller.profiles().view(3).unwrap().format;
        assert_eq!(format, 1 << 32, "not the controller's, though it is the same");
        assert_eq!(controller.profile_evs(3), [Some((name(5), EvState::Good))]);
        controller.remove_profile(3).unwrap();
        assert_eq!(controller.profiles().format_state(format), ProfileState::Init);
        assert_eq!(controller.profiles().format_state(9), ProfileState::Online);
    }
}

//! EVs of a profile, as controllers name, replace and judge them.

use super::{Command, Controller, EvSpec, Named, ProfileError, Profiles, StepError};
use dataplane::nic::EvState;
use dataplane::path::profile::{Copies, EV_BYTES, Ev, EvBits, EvLayout, EvMode, Placed};

/// What a controller calls an EV: its bits, of which the profile's fields make what is in a packet, and its port. All zeros is a place without
/// an EV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvName {
    /// The bits, the first field's first.
    pub bits: EvBits,
    /// The port (plane), from 1.
    pub port: u8,
}

impl EvName {
    /// A place without an EV.
    pub const UNPOPULATED: EvName = EvName { bits: [0; EV_BYTES], port: 0 };
}

/// An EV in the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvReplacement {
    /// What goes; [`EvName::UNPOPULATED`] for the first place without an EV.
    pub current: EvName,
    /// What comes.
    pub new: EvName,
    /// Its state.
    pub state: EvState,
    /// In all places, and not in the first alone.
    pub copies: Copies,
}

/// Changes of EVs, each by itself and in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvEdits {
    /// Others in their places; of an EXPLICIT profile.
    Replace(Vec<EvReplacement>),
    /// Other states.
    SetState(Vec<(EvName, EvState)>),
}

impl Profiles {
    /// The EV that a name stands for in a layout, listed already or not: a path whose bits are more than a value has gets a value of its own.
    pub(super) fn placed(&mut self, id: u64, layout: &EvLayout, name: EvName) -> Result<Ev, StepError> {
        let Placed { value, segment } =
            layout.place(&name.bits).map_err(|error| StepError::Bits(Named::Ev(id), error))?;
        let value = match (value, segment) {
            (Some(value), _) => value,
            (None, segment) => match self.named(id, layout, name) {
                Some(value) => value,
                None => {
                    let value = self.free_value(id)?;
                    if let (Some(segment), Some(extra)) = (segment, self.extras.get_mut(&id)) {
                        extra.names.insert((segment, name.port), value);
                    }
                    value
                }
            },
        };
        Ok(Ev { value, port: name.port, segment })
    }

    fn free_value(&mut self, id: u64) -> Result<u32, StepError> {
        let profile = self.table.profile(id)?;
        let extra = self.extras.entry(id).or_default();
        loop {
            // There are 2^32 values, and at most 65,536 are taken.
            extra.last = extra.last.wrapping_add(1);
            if profile.find(extra.last).is_none() {
                return Ok(extra.last);
            }
        }
    }

    /// The value of an EV that a profile has, by its name.
    pub(super) fn named(&mut self, id: u64, layout: &EvLayout, name: EvName) -> Option<u32> {
        let Placed { value, segment } = layout.place(&name.bits).ok()?;
        let profile = self.table.profile(id).ok()?;
        let is_it = |ev: &Ev| ev.port == name.port && ev.segment == segment;
        let known = |value: &u32| profile.find(*value).is_some_and(|ev| is_it(&ev));
        if let Some(value) = value.filter(|value| known(value)) {
            return Some(value);
        }
        // The value of a path may be any.
        let segment = segment?;
        let extra = self.extras.entry(id).or_default();
        let by_name =
            |extra: &super::ev_profiles::Extra| extra.names.get(&(segment, name.port)).copied().filter(|v| known(v));
        if extra.names.is_empty() {
            extra.names = profile.evs().filter_map(|ev| Some(((ev.segment?, ev.port), ev.value))).collect();
        }
        by_name(extra)
    }
}

impl Controller {
    /// Puts an EV into the place of another, in the profile that lists it (or in the one that is named) and wherever QPs use it. It tells the
    /// profile, what came, and in how many places of the list. A new EV without a port or a path has those of the old one.
    ///
    /// # Errors
    /// [`ProfileError`]; nothing changes then.
    pub fn replace_ev(
        &mut self,
        profile: Option<u64>,
        current: u32,
        new: EvSpec,
        copies: Copies,
    ) -> Result<(u64, Ev, u32), ProfileError> {
        let (profile, new, places) = self.profiles.replace(profile, current, new, copies)?;
        self.replaced(profile, current, new, copies);
        Ok((profile, new, places))
    }

    /// A profile has another EV in the place of one, and so have its QPs.
    fn replaced(&mut self, profile: u64, current: u32, new: Ev, copies: Copies) {
        self.commands.push_back(Command::ReplaceEv { profile, current, new, copies });
        let gone = self.profiles.table().profile(profile).is_ok_and(|there| there.find(current).is_none());
        if gone && self.book.is_out((profile, current)) {
            self.put(profile, current, EvState::Good);
        }
    }

    /// The value that a name stands for in a profile.
    pub(super) fn find_ev(&mut self, id: u64, layout: &EvLayout, at: usize, name: EvName) -> Result<u32, StepError> {
        self.profiles.named(id, layout, name).ok_or(StepError::NoEv { name: Named::Ev(id), at })
    }

    /// The states of EVs of a profile, up to the first that it does not have, whose error comes with them.
    pub fn ev_states_of(&mut self, id: u64, names: &[EvName]) -> (Vec<EvState>, Result<(), StepError>) {
        let Some(layout) = self.profiles.layout(id) else {
            return (Vec::new(), Err(StepError::NoEv { name: Named::Ev(id), at: 0 }));
        };
        let mut states = Vec::new();
        for (at, &name) in names.iter().enumerate() {
            match self.find_ev(id, &layout, at, name) {
                Ok(value) => states.push(self.ev_state(id, value)),
                Err(error) => return (states, Err(error)),
            }
        }
        (states, Ok(()))
    }

    /// Changes EVs, each by itself, up to the first that is refused.
    pub(super) fn edit(&mut self, id: u64, edits: &EvEdits) -> Result<(), StepError> {
        let name = Named::Ev(id);
        let Some(layout) = self.profiles.layout(id) else {
            let why = "the EVs of an AUTO profile are the NIC's own: configure it as EXPLICIT or GENERATED".into();
            return Err(StepError::Wrong { name, why });
        };
        match edits {
            EvEdits::Replace(replacements) => {
                let mode = self.profiles.table().profile(id)?.config().map(|config| &config.mode);
                if !matches!(mode, Some(EvMode::Explicit { .. })) {
                    let why = "its EVs are drawn, and can't be replaced: configure it as EXPLICIT".into();
                    return Err(StepError::Wrong { name, why });
                }
                let mut each = replacements.iter().enumerate();
                each.try_for_each(|(at, replacement)| self.replace_one(id, &layout, at, replacement))
            }
            EvEdits::SetState(states) => states.iter().enumerate().try_for_each(|(at, &(of, state))| {
                let value = self.find_ev(id, &layout, at, of)?;
                self.set_ev_state(id, value, state)
            }),
        }
    }

    fn replace_one(
        &mut self,
        id: u64,
        layout: &EvLayout,
        at: usize,
        &EvReplacement { current, new, state, copies }: &EvReplacement,
    ) -> Result<(), StepError> {
        let fresh = current == EvName::UNPOPULATED;
        let old = if fresh { None } else { Some(self.find_ev(id, layout, at, current)?) };
        let new = self.profiles.placed(id, layout, new)?;
        match old {
            None => {
                if self.profiles.table().profile(id)?.unpopulated() == 0 {
                    return Err(StepError::NoEv { name: Named::Ev(id), at });
                }
                self.profiles.table.fill(id, new, copies)?;
            }
            Some(old) => {
                self.profiles.table.replace(id, old, new, copies)?;
                self.commands.push_back(Command::ReplaceEv { profile: id, current: old, new, copies });
                let gone = self.profiles.table.profile(id)?.find(old).is_none();
                if gone && self.book.is_out((id, old)) {
                    self.put(id, old, EvState::Good);
                }
            }
        }
        if state != self.ev_state(id, new.value) { self.set_ev_state(id, new.value, state) } else { Ok(()) }
    }

    /// Puts a value of a profile into a state, for all its QPs.
    fn set_ev_state(&mut self, id: u64, value: u32, state: EvState) -> Result<(), StepError> {
        let profile = self.profiles.table().profile(id)?;
        let (count, kept) = profile.config().map_or((0, 0), |config| (config.mode.count(), config.min_active));
        let newly = state == EvState::AssumedBad && !self.book.is_out((id, value));
        if newly && (count as usize).saturating_sub(self.book.out_of(id)) <= kept as usize {
            let why = format!("{kept} EVs stay in use, and no more are left: lower min_active, or let others in first");
            return Err(StepError::Wrong { name: Named::Ev(id), why });
        }
        self.put(id, value, state);
        Ok(())
    }

    pub(super) fn put(&mut self, profile: u64, ev: u32, state: EvState) {
        self.book.mark((profile, ev), state);
        self.commands.push_back(Command::SetEv { profile, ev, state });
        self.show(profile, ev);
    }
}

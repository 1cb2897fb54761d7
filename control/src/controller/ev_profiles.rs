//! EV profiles, as controllers change and query them.

use super::step::{check, refuse};
use super::{Command, Controller, EvEdits, EvEventMask, EvName, Mode, Named, Profiles, StepError};
use dataplane::nic::EvState;
use dataplane::path::profile::{
    EV_BYTES, Ev, EvField, EvFormat, EvLayout, EvMode, EvProfile, EvProfileConfig, PoolKind, ProfileState,
};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// A change of an EV profile. A profile that nobody has changed is in INIT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvProfileStep {
    /// The state that it is taken to be in.
    pub from: Option<ProfileState>,
    /// The state that it goes to.
    pub to: Option<ProfileState>,
    /// Where its EVs come from.
    pub mode: Option<Mode>,
    /// Its format profile.
    pub format: Option<u64>,
    /// How many EVs it has.
    pub count: Option<u32>,
    /// EVs that stay in use, however many are assumed bad.
    pub min_active: Option<u32>,
    /// Which changes of its EVs are told.
    pub event_mask: Option<EvEventMask>,
    /// How EVs are made of bits. Of a GENERATED profile, a field with a mask whose bounds are both 0 has none.
    pub fields: Option<Vec<EvField>>,
    /// Changes of its EVs.
    pub evs: Option<EvEdits>,
}

/// What there is to know of an EV profile that is not in INIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvProfileView {
    /// Its state.
    pub state: ProfileState,
    /// Where its EVs come from.
    pub mode: Mode,
    /// Its format profile; 0 for AUTO.
    pub format: u64,
    /// How many EVs it has; 0 for AUTO.
    pub count: u32,
    /// EVs that stay in use.
    pub min_active: u32,
    /// Which changes of its EVs are told.
    pub event_mask: EvEventMask,
    /// How EVs are made of bits, as it was given; none where they are as in the packet.
    pub fields: Vec<EvField>,
}

/// What is known of an EV profile beside its table's entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    /// As they were given.
    pub(super) fields: Vec<EvField>,
    event_mask: Option<EvEventMask>,
    min_active_given: bool,
    /// Values of SRv6 paths that have more bits than a value.
    pub(super) names: BTreeMap<(Ipv6Addr, u8), u32>,
    /// The value that was taken last for such a path.
    pub(super) last: u32,
}

/// Fields as a GENERATED profile draws them.
fn drawn(fields: &[EvField]) -> Vec<EvField> {
    let unbounded = |field: &EvField| field.min == 0 && field.max == 0 && field.mask != 0;
    let all = |field: &EvField| EvField { max: u32::MAX >> (32 - field.mask.count_ones()), ..*field };
    fields.iter().map(|field| if unbounded(field) { all(field) } else { *field }).collect()
}

impl Profiles {
    /// State of an EV profile.
    #[must_use]
    pub fn state(&self, id: u64) -> ProfileState {
        self.table.profile(id).map_or(ProfileState::Init, EvProfile::state)
    }

    /// Profiles that have a value.
    pub(super) fn with(&self, ev: u32) -> impl Iterator<Item = u64> + '_ {
        self.table.ids().filter(move |&id| self.table.profile(id).is_ok_and(|profile| profile.find(ev).is_some()))
    }

    pub(super) fn event_mask(&self, id: u64) -> EvEventMask {
        self.extras.get(&id).and_then(|extra| extra.event_mask).unwrap_or_default()
    }

    /// How a profile's EVs are made of bits; none without a format.
    pub(super) fn layout(&self, id: u64) -> Option<EvLayout> {
        let profile = self.table.profile(id).ok()?;
        let format = self.table.format_of(profile)?;
        let fields = match &profile.config()?.mode {
            EvMode::Generated { fields, .. } => fields,
            _ => self.extras.get(&id).map_or(&[][..], |extra| &extra.fields),
        };
        EvLayout::new(format, fields).ok()
    }

    /// What a controller calls a value of a profile.
    #[must_use]
    pub fn name_of(&self, id: u64, value: u32) -> Option<EvName> {
        let ev = self.table.profile(id).ok()?.find(value)?;
        Some(EvName { bits: self.layout(id)?.bits(&ev), port: ev.port })
    }

    /// What there is to know of an EV profile; `None` in INIT.
    #[must_use]
    pub fn view(&self, id: u64) -> Option<EvProfileView> {
        let profile = self.table.profile(id).ok()?;
        let config = profile.config()?;
        let extra = self.extras.get(&id);
        let fields = match (extra.map(|extra| &extra.fields), &config.mode) {
            (Some(given), _) => given.clone(),
            (None, EvMode::Generated { fields, .. }) => fields.clone(),
            (None, _) => Vec::new(),
        };
        Some(EvProfileView {
            state: profile.state(),
            mode: super::spec::mode_of(&config.mode),
            format: config.mode.format().unwrap_or(0),
            count: config.mode.count(),
            min_active: config.min_active,
            event_mask: self.event_mask(id),
            fields,
        })
    }

    fn the_format(&self, name: Named, id: u64) -> Result<&EvFormat, StepError> {
        let format = if self.bare_formats.contains(&id) { None } else { self.table.format(id).ok().flatten() };
        format.ok_or_else(|| {
            let why = format!("its format, EV format profile {id}, has no fields yet: give it MODE and MODIFY_FIELDS");
            StepError::Wrong { name, why }
        })
    }

    /// A profile as a step has it, over what it is already; and its fields as they were given.
    fn planned(&self, id: u64, step: &EvProfileStep) -> Result<(EvProfileConfig, Vec<EvField>), StepError> {
        let name = Named::Ev(id);
        let there = self.view(id);
        let missing = |what| StepError::Missing { name, what, to: ProfileState::Offline };
        let mode = step.mode.or(there.as_ref().map(|view| view.mode)).ok_or_else(|| missing("MODE"))?;
        let min_active = step.min_active.or(there.as_ref().map(|view| view.min_active)).unwrap_or(0);
        // What it was before means nothing in another mode.
        let there = there.filter(|view| view.mode == mode);
        let (mut fields, mut of_mode) = (Vec::new(), EvMode::Auto);
        if mode == Mode::Auto {
            let given = [
                ("FMT_ID", step.format.is_some()),
                ("COUNT", step.count.is_some()),
                ("MODIFY_FIELDS", step.fields.is_some()),
            ];
            refuse(name, self.state(id), &given)?;
        } else {
            let format = step.format.or(there.as_ref().map(|view| view.format)).ok_or_else(|| missing("FMT_ID"))?;
            let count = step.count.or(there.as_ref().map(|view| view.count)).ok_or_else(|| missing("COUNT"))?;
            let of_format = self.the_format(name, format)?;
            let given = step.fields.clone().or(there.map(|view| view.fields));
            fields = given.unwrap_or_default();
            if mode == Mode::Generated {
                if fields.is_empty() {
                    return Err(missing("MODIFY_FIELDS"));
                }
                of_mode = EvMode::Generated { format, count, fields: drawn(&fields), seed: self.seed_of(id) };
            } else {
                EvLayout::new(of_format, &fields).map_err(|error| StepError::Fields(name, error))?;
                of_mode = EvMode::Explicit { format, count };
            }
        }
        let (ports, every_port) = match self.table.profile(id).ok().and_then(EvProfile::config) {
            Some(config) => (config.ports, config.every_port),
            None => (self.ports, false),
        };
        Ok((EvProfileConfig { mode: of_mode, min_active, ports, every_port }, fields))
    }

    fn seed_of(&self, id: u64) -> u64 {
        match self.table.profile(id).ok().and_then(EvProfile::config).map(|config| &config.mode) {
            Some(EvMode::Generated { seed, .. }) => *seed,
            _ => 1,
        }
    }

    /// INIT to OFFLINE.
    fn begin(&mut self, id: u64, step: &EvProfileStep) -> Result<(), StepError> {
        let (config, fields) = self.planned(id, step)?;
        self.table.create(id)?;
        if let Err(error) = self.table.configure(id, config) {
            // What was there a moment ago can be taken back.
            let _ = self.table.remove(id);
            return Err(error.into());
        }
        self.extras.insert(id, Extra { fields, ..Extra::default() });
        Ok(())
    }

    /// Changes what an OFFLINE profile is. Its list stays unless its mode, its format or its length change.
    fn change(&mut self, id: u64, step: &EvProfileStep) -> Result<(), StepError> {
        let (config, fields) = self.planned(id, step)?;
        let there = self.view(id);
        let same = there.is_some_and(|view| {
            let EvProfileView { mode, format, count, .. } = view;
            step.mode.is_none_or(|new| new == mode)
                && step.format.is_none_or(|new| new == format)
                && step.count.is_none_or(|new| new == count)
        });
        if !same {
            self.table.configure(id, config)?;
            self.extras.insert(id, Extra { fields, ..self.extras.get(&id).cloned().unwrap_or_default() });
            self.clear_names(id);
            return Ok(());
        }
        if step.fields.is_some() {
            self.change_fields(id, fields)?;
        }
        Ok(self.table.set_min_active(id, config.min_active)?)
    }

    /// Gives a profile other fields. The EVs of an EXPLICIT one are the same bits, and other values in a packet.
    fn change_fields(&mut self, id: u64, fields: Vec<EvField>) -> Result<(), StepError> {
        let name = Named::Ev(id);
        let profile = self.table.profile(id)?;
        let Some(format) = self.table.format_of(profile) else {
            return Err(StepError::Wrong { name, why: "an AUTO profile has no fields".into() });
        };
        if let Some(EvMode::Generated { .. }) = profile.config().map(|config| &config.mode) {
            self.table.redraw(id, &drawn(&fields))?;
            self.extras.entry(id).or_default().fields = fields;
            return Ok(());
        }
        let layout = EvLayout::new(format, &fields).map_err(|error| StepError::Fields(name, error))?;
        let old = self.layout(id);
        let anew = |ev: Ev| {
            let bits = old.as_ref().map_or([0; EV_BYTES], |old| old.bits(&ev));
            let placed = layout.place(&bits).map_err(|error| StepError::Bits(name, error))?;
            // Where the bits are more than a value has, it is but a name of them, and stays.
            Ok(Ev { value: placed.value.unwrap_or(ev.value), port: ev.port, segment: placed.segment })
        };
        let evs = profile.evs().map(anew).collect::<Result<Vec<Ev>, StepError>>()?;
        self.table.rewrite(id, &evs)?;
        let extra = self.extras.entry(id).or_default();
        (extra.names, extra.fields) = (BTreeMap::new(), fields);
        Ok(())
    }

    fn clear_names(&mut self, id: u64) {
        if let Some(extra) = self.extras.get_mut(&id) {
            extra.names.clear();
        }
    }

    fn note(&mut self, id: u64, step: &EvProfileStep) {
        let extra = self.extras.entry(id).or_default();
        extra.event_mask = step.event_mask.or(extra.event_mask);
        extra.min_active_given |= step.min_active.is_some();
    }

    fn go_online(&mut self, id: u64, made_here: bool) -> Result<(), StepError> {
        let extra = self.extras.get(&id);
        let needs = [
            ("MIN_ACTIVE", extra.is_some_and(|extra| extra.min_active_given)),
            ("EVENT_MASK", extra.is_some_and(|extra| extra.event_mask.is_some())),
        ];
        // An operator's has both by itself.
        if let Some(&(what, _)) = needs.iter().find(|(_, given)| made_here && !given) {
            return Err(StepError::Missing { name: Named::Ev(id), what, to: ProfileState::Online });
        }
        Ok(self.table.online(id)?)
    }
}

impl Controller {
    /// Changes an EV profile, and takes it a step of its life. To OFFLINE it needs mode, and unless that is AUTO, format and count, and for
    /// GENERATED the fields; to go ONLINE, `min_active`, `event_mask`, and of an EXPLICIT one all EVs. ONLINE, `event_mask`, `fields` and `evs`
    /// may be changed: open QPs have the new EVs as soon as their workers hear of it.
    ///
    /// # Errors
    /// [`StepError`]; nothing changes then, but for the EVs of entries before the one that is refused.
    pub fn modify_profile(&mut self, id: u64, step: &EvProfileStep) -> Result<(), StepError> {
        let (name, state) = (Named::Ev(id), self.profiles.state(id));
        if id == 0 {
            return Err(StepError::Wrong { name, why: "this is what the NIC's file says: take another number".into() });
        }
        check(name, state, step.from, step.to)?;
        let seldom = [
            ("MODE", step.mode.is_some()),
            ("FMT_ID", step.format.is_some()),
            ("COUNT", step.count.is_some()),
            ("MIN_ACTIVE", step.min_active.is_some()),
        ];
        let often = [
            ("EVENT_MASK", step.event_mask.is_some()),
            ("MODIFY_FIELDS", step.fields.is_some()),
            ("EV_OP", step.evs.is_some()),
        ];
        match (state, step.to) {
            (ProfileState::Init, Some(_)) => {
                self.profiles.begin(id, step)?;
                self.profiles.note(id, step);
                if let Some(edits) = &step.evs {
                    self.edit(id, edits)?;
                }
                Ok(())
            }
            (ProfileState::Offline, None | Some(ProfileState::Online)) => {
                self.modify_offline(id, step, &seldom, &often)
            }
            (ProfileState::Online, None) => {
                refuse(name, state, &seldom)?;
                if let Some(fields) = &step.fields {
                    self.profiles.change_fields(id, fields.clone())?;
                    self.changed_pool(id)?;
                }
                if step.event_mask.is_some() {
                    self.profiles.note(id, step);
                }
                step.evs.as_ref().map_or(Ok(()), |edits| self.edit(id, edits))
            }
            (_, to) => {
                refuse(name, state, &[&seldom[..], &often].concat())?;
                match to {
                    Some(ProfileState::Offline) => Ok(self.profiles.offline(id)?),
                    Some(ProfileState::Init) => Ok(self.remove_profile(id)?),
                    _ => Ok(()),
                }
            }
        }
    }

    fn modify_offline(
        &mut self,
        id: u64,
        step: &EvProfileStep,
        seldom: &[(&'static str, bool)],
        often: &[(&'static str, bool)],
    ) -> Result<(), StepError> {
        let changes = seldom.iter().any(|(_, given)| *given) || step.fields.is_some();
        // What was there a moment ago is taken back where a later part is refused; EVs stay changed up to the one that is refused.
        let before = (step.evs.is_none() && changes).then(|| self.profiles.table().profile(id).cloned()).transpose()?;
        let made_here = self.profiles.extras.contains_key(&id);
        let extra = self.profiles.extras.get(&id).filter(|_| step.evs.is_none()).cloned();
        let done = (|| {
            if changes {
                self.profiles.change(id, step)?;
            }
            if step.event_mask.is_some() || step.min_active.is_some() {
                self.profiles.note(id, step);
            }
            if let Some(edits) = &step.evs {
                self.edit(id, edits)?;
            }
            match step.to {
                Some(_) => self.profiles.go_online(id, made_here),
                None => Ok(()),
            }
        })();
        if done.is_err() && step.evs.is_none() {
            if let Some(before) = before {
                // It is there, and nobody has used it meanwhile.
                let _ = self.profiles.table.take_back(id, before);
            }
            match extra {
                Some(extra) => _ = self.profiles.extras.insert(id, extra),
                None => _ = self.profiles.extras.remove(&id),
            }
        }
        if changes && done.is_ok() && often.iter().all(|(_, given)| !given) {
            // Values that are gone have no state.
            self.forget_gone(id);
        }
        done
    }

    /// Forgets states of values that a profile does not have any more.
    fn forget_gone(&mut self, id: u64) {
        let Ok(profile) = self.profiles.table.profile(id) else { return };
        let gone = self.book.marked(id).filter(|&ev| profile.find(ev).is_none()).collect::<Vec<u32>>();
        for ev in gone {
            self.put(id, ev, EvState::Good);
        }
    }

    /// An ONLINE profile has other values: its open QPs get them, and no value has a state.
    fn changed_pool(&mut self, id: u64) -> Result<(), StepError> {
        let pool = self.profiles.table.pool(id)?;
        if pool.kind != PoolKind::Auto {
            self.book.forget_profile(id);
            self.commands.push_back(Command::ChangePool(Arc::new(pool)));
        }
        Ok(())
    }

    /// Removes an EV profile that is not ONLINE, and what is known of its values.
    ///
    /// # Errors
    /// No such profile, or it is ONLINE.
    pub fn remove_profile(&mut self, id: u64) -> Result<(), dataplane::path::profile::EvProfileError> {
        self.profiles.remove(id)?;
        self.book.forget_profile(id);
        self.commands.push_back(Command::ForgetProfile(id));
        Ok(())
    }

    /// The EVs of a profile with their states, one for each place: `None` for places of an EXPLICIT one that have none yet. None for AUTO.
    #[must_use]
    pub fn profile_evs(&self, id: u64) -> Vec<Option<(EvName, EvState)>> {
        let (Ok(profile), Some(layout)) = (self.profiles.table.profile(id), self.profiles.layout(id)) else {
            return Vec::new();
        };
        let named = |ev: Ev| (EvName { bits: layout.bits(&ev), port: ev.port }, self.ev_state(id, ev.value));
        let mut evs: Vec<_> = profile.evs().map(|ev| Some(named(ev))).collect();
        evs.resize(profile.config().map_or(0, |config| config.mode.count() as usize), None);
        evs
    }
}

//! The table of format profiles and EV profiles.

use super::error::{ArgumentError, EvProfileError, ProfileName, Users};
use super::explicit::Copies;
use super::field::EvField;
use super::format::EvFormat;
use super::ports::PortSet;
use super::record::{Configured, Ev, EvMode, EvPool, EvProfile, EvProfileConfig, ProfileState, Source};
use std::collections::BTreeMap;

/// Format profiles at most.
pub const EV_FORMATS_MAX: usize = 64;
/// EV profiles at most.
pub const EV_PROFILES_MAX: usize = 1024;
/// EVs of one profile at most.
pub const EVS_PER_PROFILE_MAX: u32 = 65_536;
/// EVs of all profiles together at most.
pub const EVS_MAX: u32 = 262_144;

#[derive(Clone, Debug, Default)]
struct FormatProfile {
    format: Option<EvFormat>,
    online: bool,
}

impl FormatProfile {
    const fn state(&self) -> ProfileState {
        match (&self.format, self.online) {
            (None, _) => ProfileState::Init,
            (Some(_), false) => ProfileState::Offline,
            (Some(_), true) => ProfileState::Online,
        }
    }
}

/// All format profiles and EV profiles of a NIC, by the numbers that the controller chose. Whatever is refused changes nothing.
///
/// A profile is created in INIT. Configuring it makes it OFFLINE; there it can be configured anew. ONLINE it can be used, and of an
/// EXPLICIT one EVs can be replaced. It goes back the same way.
#[derive(Clone, Debug)]
pub struct EvProfiles {
    ports: PortSet,
    formats: BTreeMap<u64, FormatProfile>,
    profiles: BTreeMap<u64, EvProfile>,
}

const CONFIGURE: &str = "INIT or OFFLINE: take it OFFLINE first";
const OFFLINE: &str = "OFFLINE: configure it first";
const ONLINE: &str = "ONLINE";

impl EvProfiles {
    /// No profiles yet, for a NIC with the ports 1 to `ports`, of which there are 8 at most.
    #[must_use]
    pub const fn new(ports: u8) -> EvProfiles {
        EvProfiles { ports: PortSet::first(ports), formats: BTreeMap::new(), profiles: BTreeMap::new() }
    }

    /// Creates a format profile in INIT.
    ///
    /// # Errors
    /// The number is taken, or there are [`EV_FORMATS_MAX`].
    pub fn create_format(&mut self, id: u64) -> Result<(), EvProfileError> {
        create(&mut self.formats, id, ProfileName::Format(id), EV_FORMATS_MAX)
    }

    /// Removes a format profile that is in INIT.
    ///
    /// # Errors
    /// No such profile, or another state.
    pub fn remove_format(&mut self, id: u64) -> Result<(), EvProfileError> {
        let state = self.format_state(id)?;
        require(ProfileName::Format(id), state, &[ProfileState::Init], "removing it", "INIT: reset it first")?;
        self.formats.remove(&id);
        Ok(())
    }

    /// Sets a format, and takes the profile from INIT to OFFLINE; in OFFLINE, changes it.
    ///
    /// # Errors
    /// No such profile; it is ONLINE; or the EVs of an EV profile that names it don't fit the new format, which the error names.
    pub fn configure_format(&mut self, id: u64, format: EvFormat) -> Result<(), EvProfileError> {
        let allowed = [ProfileState::Init, ProfileState::Offline];
        require(ProfileName::Format(id), self.format_state(id)?, &allowed, "configuring it", CONFIGURE)?;
        let mut changed = Vec::new();
        for (&profile, configured) in self.bound_to(id) {
            let source = configured.under(&format).map_err(|error| argument(ProfileName::Ev(profile), error))?;
            changed.push((profile, source));
        }
        for (profile, source) in changed {
            if let Some(configured) = self.profiles.get_mut(&profile).and_then(|p| p.configured.as_mut()) {
                configured.source = source;
            }
        }
        self.formats.insert(id, FormatProfile { format: Some(format), online: false });
        Ok(())
    }

    /// Takes a format profile from OFFLINE to ONLINE.
    ///
    /// # Errors
    /// No such profile, or another state.
    pub fn format_online(&mut self, id: u64) -> Result<(), EvProfileError> {
        let name = ProfileName::Format(id);
        require(name, self.format_state(id)?, &[ProfileState::Offline], "going ONLINE", OFFLINE)?;
        self.format_mut(id)?.online = true;
        Ok(())
    }

    /// Takes a format profile from ONLINE to OFFLINE.
    ///
    /// # Errors
    /// No such profile, another state, or busy: EV profiles that name it are ONLINE.
    pub fn format_offline(&mut self, id: u64) -> Result<(), EvProfileError> {
        let name = ProfileName::Format(id);
        require(name, self.format_state(id)?, &[ProfileState::Online], "going OFFLINE", ONLINE)?;
        let online = self.bound_to(id).filter(|(_, configured)| configured.online).count() as u64;
        if online > 0 {
            return Err(EvProfileError::Busy { name, users: Users::Online(online) });
        }
        self.format_mut(id)?.online = false;
        Ok(())
    }

    /// Takes a format profile from OFFLINE to INIT, and forgets its format.
    ///
    /// # Errors
    /// No such profile, another state, or busy: EV profiles are configured for it.
    pub fn format_reset(&mut self, id: u64) -> Result<(), EvProfileError> {
        let name = ProfileName::Format(id);
        require(name, self.format_state(id)?, &[ProfileState::Offline], "going to INIT", "OFFLINE")?;
        let users = self.format_users(id);
        if users > 0 {
            return Err(EvProfileError::Busy { name, users: Users::Configured(users) });
        }
        self.formats.insert(id, FormatProfile::default());
        Ok(())
    }

    /// State of a format profile.
    ///
    /// # Errors
    /// No such profile.
    pub fn format_state(&self, id: u64) -> Result<ProfileState, EvProfileError> {
        self.formats.get(&id).map(FormatProfile::state).ok_or(EvProfileError::NoSuchProfile(ProfileName::Format(id)))
    }

    /// The format of a format profile; `None` in INIT.
    ///
    /// # Errors
    /// No such profile.
    pub fn format(&self, id: u64) -> Result<Option<&EvFormat>, EvProfileError> {
        let profile = self.formats.get(&id).ok_or(EvProfileError::NoSuchProfile(ProfileName::Format(id)))?;
        Ok(profile.format.as_ref())
    }

    /// How many EV profiles are configured for a format profile.
    #[must_use]
    pub fn format_users(&self, id: u64) -> u64 {
        self.bound_to(id).count() as u64
    }

    /// Numbers of the format profiles, in ascending order.
    pub fn format_ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.formats.keys().copied()
    }

    /// Creates an EV profile in INIT.
    ///
    /// # Errors
    /// The number is taken, or there are [`EV_PROFILES_MAX`].
    pub fn create(&mut self, id: u64) -> Result<(), EvProfileError> {
        create(&mut self.profiles, id, ProfileName::Ev(id), EV_PROFILES_MAX)
    }

    /// Removes an EV profile that is in INIT.
    ///
    /// # Errors
    /// No such profile, or another state.
    pub fn remove(&mut self, id: u64) -> Result<(), EvProfileError> {
        let state = self.profile(id)?.state();
        require(ProfileName::Ev(id), state, &[ProfileState::Init], "removing it", "INIT: reset it first")?;
        self.profiles.remove(&id);
        Ok(())
    }

    /// Configures an EV profile, and takes it from INIT to OFFLINE; in OFFLINE, configures it anew, and empties its list.
    ///
    /// # Errors
    /// No such profile; it is ONLINE; its format profile does not exist or is in INIT; [`EVS_MAX`]; or an argument, which is named.
    pub fn configure(&mut self, id: u64, config: EvProfileConfig) -> Result<(), EvProfileError> {
        let name = ProfileName::Ev(id);
        let profile = self.profile(id)?;
        let allowed = [ProfileState::Init, ProfileState::Offline];
        require(name, profile.state(), &allowed, "configuring it", CONFIGURE)?;
        let format = match config.mode.format() {
            None => None,
            Some(format) => Some(self.format(format)?.ok_or(EvProfileError::InvalidState {
                name: ProfileName::Format(format),
                state: ProfileState::Init,
                action: "an EV profile",
                needs: "OFFLINE or ONLINE: configure it first",
            })?),
        };
        let wanted = config.mode.count();
        let configured = Configured::new(config, format, self.ports).map_err(|error| argument(name, error))?;
        let free = self.free_evs() + profile.config().map_or(0, |config| config.mode.count());
        if wanted > free {
            return Err(EvProfileError::EvsFull { name, wanted, free, max: EVS_MAX });
        }
        self.profile_mut(id)?.configured = Some(configured);
        Ok(())
    }

    /// Lists the next EVs of an EXPLICIT profile: all of `evs`, or none where one is refused.
    ///
    /// # Errors
    /// No such profile; it is in INIT or of another mode; more EVs than slots; or an EV that does not fit.
    pub fn populate(&mut self, id: u64, evs: &[Ev]) -> Result<(), EvProfileError> {
        self.edit(id, "listing EVs", |list, format, ports| list.populate(evs, format, ports))
    }

    /// Puts `new` into the place of the EV with the value `current` in an EXPLICIT profile, OFFLINE or ONLINE. It tells in how many
    /// places.
    ///
    /// # Errors
    /// No such profile; it is in INIT or of another mode; `current` is not listed; `new` does not fit; or, ONLINE, a port of the profile
    /// would be left without an EV.
    pub fn replace(&mut self, id: u64, current: u32, new: Ev, copies: Copies) -> Result<u32, EvProfileError> {
        let profile = self.profile(id)?;
        let every_port = profile.config().is_some_and(|config| config.every_port);
        let online = every_port && profile.state() == ProfileState::Online;
        self.edit(id, "replacing an EV", |list, format, ports| {
            if online && list.would_idle(current, new, copies) {
                let port = list.find(current).map_or(0, |ev| ev.port);
                return Err(ArgumentError::IdlePort { port });
            }
            list.replace(current, new, copies, format, ports)
        })
    }

    /// Fills slots of an EXPLICIT profile that have no EV yet with `new`: the first, or all of them. It tells how many.
    ///
    /// # Errors
    /// No such profile; it is in INIT or of another mode; every slot has an EV; or `new` does not fit.
    pub fn fill(&mut self, id: u64, new: Ev, copies: Copies) -> Result<u32, EvProfileError> {
        self.edit(id, "listing EVs", |list, format, ports| {
            let count = if copies == Copies::One { 1 } else { list.unpopulated().max(1) };
            list.populate(&vec![new; count as usize], format, ports).map(|()| count)
        })
    }

    /// Lists the EVs of an EXPLICIT profile anew, OFFLINE or ONLINE: all of `evs` in place of those that it has, or none where one is refused.
    ///
    /// # Errors
    /// As [`EvProfiles::populate`].
    pub fn rewrite(&mut self, id: u64, evs: &[Ev]) -> Result<(), EvProfileError> {
        self.edit(id, "listing EVs", |list, format, ports| {
            let mut anew = list.emptied();
            anew.populate(evs, format, ports)?;
            *list = anew;
            Ok(())
        })
    }

    /// Draws the EVs of a GENERATED profile from other fields, OFFLINE or ONLINE.
    ///
    /// # Errors
    /// No such profile; it is in INIT or of another mode; or the fields are refused, or allow fewer EVs than the profile has.
    pub fn redraw(&mut self, id: u64, fields: &[EvField]) -> Result<(), EvProfileError> {
        let name = ProfileName::Ev(id);
        let profile = self.profile(id)?;
        let allowed = [ProfileState::Offline, ProfileState::Online];
        require(name, profile.state(), &allowed, "drawing EVs", OFFLINE)?;
        let (Some(Configured { config, .. }), Some(format)) = (&profile.configured, self.format_of(profile)) else {
            return Err(argument(name, ArgumentError::NotGenerated));
        };
        let mut config = config.clone();
        let EvMode::Generated { fields: of_mode, .. } = &mut config.mode else {
            return Err(argument(name, ArgumentError::NotGenerated));
        };
        *of_mode = fields.to_vec();
        let anew = Configured::new(config, Some(format), self.ports).map_err(|error| argument(name, error))?;
        let online = profile.state() == ProfileState::Online;
        self.profile_mut(id)?.configured = Some(Configured { online, ..anew });
        Ok(())
    }

    /// Sets how many EVs of a profile stay in use, OFFLINE.
    ///
    /// # Errors
    /// No such profile, another state, or more than there are.
    pub fn set_min_active(&mut self, id: u64, min_active: u32) -> Result<(), EvProfileError> {
        let name = ProfileName::Ev(id);
        let profile = self.profile_mut(id)?;
        require(name, profile.state(), &[ProfileState::Offline], "setting min_active", OFFLINE)?;
        if let Some(configured) = &mut profile.configured {
            configured.check_min_active(min_active).map_err(|error| argument(name, error))?;
            configured.config.min_active = min_active;
        }
        Ok(())
    }

    /// Takes back what was done to a profile since it was `before`, with as many QPs.
    ///
    /// # Errors
    /// No such profile.
    pub fn take_back(&mut self, id: u64, before: EvProfile) -> Result<(), EvProfileError> {
        let profile = self.profile_mut(id)?;
        profile.configured = before.configured;
        Ok(())
    }

    /// The format of an EV profile's; none in INIT and for AUTO.
    #[must_use]
    pub fn format_of(&self, profile: &EvProfile) -> Option<&EvFormat> {
        self.formats.get(&profile.config()?.mode.format()?)?.format.as_ref()
    }

    /// Takes an EV profile from OFFLINE to ONLINE.
    ///
    /// # Errors
    /// No such profile, another state, a format profile that is not ONLINE, a list that is not complete, or a port without an EV.
    pub fn online(&mut self, id: u64) -> Result<(), EvProfileError> {
        let name = ProfileName::Ev(id);
        let profile = self.profile(id)?;
        require(name, profile.state(), &[ProfileState::Offline], "going ONLINE", OFFLINE)?;
        if let Some(format) = profile.config().and_then(|config| config.mode.format()) {
            let state = self.format_state(format)?;
            let needs = "ONLINE: bring the format online first";
            require(ProfileName::Format(format), state, &[ProfileState::Online], "an EV profile going ONLINE", needs)?;
        }
        if let Some(configured) = &mut self.profile_mut(id)?.configured {
            configured.complete().map_err(|error| argument(name, error))?;
            configured.online = true;
        }
        Ok(())
    }

    /// Takes an EV profile from ONLINE to OFFLINE.
    ///
    /// # Errors
    /// No such profile, another state, or busy: QPs use it.
    pub fn offline(&mut self, id: u64) -> Result<(), EvProfileError> {
        let name = ProfileName::Ev(id);
        let profile = self.profile_mut(id)?;
        require(name, profile.state(), &[ProfileState::Online], "going OFFLINE", ONLINE)?;
        if profile.qps > 0 {
            return Err(EvProfileError::Busy { name, users: Users::Qps(profile.qps) });
        }
        if let Some(configured) = &mut profile.configured {
            configured.online = false;
        }
        Ok(())
    }

    /// Takes an EV profile from OFFLINE to INIT, and forgets its configuration.
    ///
    /// # Errors
    /// No such profile, or another state.
    pub fn reset(&mut self, id: u64) -> Result<(), EvProfileError> {
        let profile = self.profile_mut(id)?;
        require(ProfileName::Ev(id), profile.state(), &[ProfileState::Offline], "going to INIT", "OFFLINE")?;
        profile.configured = None;
        Ok(())
    }

    /// A QP begins to use an EV profile; any number may.
    ///
    /// # Errors
    /// No such profile, or it is not ONLINE.
    pub fn acquire(&mut self, id: u64) -> Result<(), EvProfileError> {
        let profile = self.profile_mut(id)?;
        usable(id, profile)?;
        profile.qps += 1;
        Ok(())
    }

    /// The EVs of a profile as they are now, for QPs to be bound to.
    ///
    /// # Errors
    /// No such profile, or it is not ONLINE.
    pub fn pool(&self, id: u64) -> Result<EvPool, EvProfileError> {
        let profile = self.profile(id)?;
        usable(id, profile)?;
        profile.pool(id).ok_or(EvProfileError::NoSuchProfile(ProfileName::Ev(id)))
    }

    /// A QP no longer uses an EV profile.
    ///
    /// # Errors
    /// No such profile, or no QP uses it.
    pub fn release(&mut self, id: u64) -> Result<(), EvProfileError> {
        let profile = self.profile_mut(id)?;
        profile.qps = profile.qps.checked_sub(1).ok_or(EvProfileError::NotAcquired { name: ProfileName::Ev(id) })?;
        Ok(())
    }

    /// An EV profile, for queries.
    ///
    /// # Errors
    /// No such profile.
    pub fn profile(&self, id: u64) -> Result<&EvProfile, EvProfileError> {
        self.profiles.get(&id).ok_or(EvProfileError::NoSuchProfile(ProfileName::Ev(id)))
    }

    /// Numbers of the EV profiles, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.profiles.keys().copied()
    }

    /// EVs that are left of [`EVS_MAX`].
    #[must_use]
    pub fn free_evs(&self) -> u32 {
        let used = self.profiles.values().filter_map(EvProfile::config).map(|config| config.mode.count()).sum::<u32>();
        EVS_MAX - used
    }

    fn profile_mut(&mut self, id: u64) -> Result<&mut EvProfile, EvProfileError> {
        self.profiles.get_mut(&id).ok_or(EvProfileError::NoSuchProfile(ProfileName::Ev(id)))
    }

    fn format_mut(&mut self, id: u64) -> Result<&mut FormatProfile, EvProfileError> {
        self.formats.get_mut(&id).ok_or(EvProfileError::NoSuchProfile(ProfileName::Format(id)))
    }

    /// EV profiles that are configured for a format profile.
    fn bound_to(&self, format: u64) -> impl Iterator<Item = (&u64, &Configured)> {
        self.profiles.iter().filter_map(move |(id, profile)| {
            let configured = profile.configured.as_ref()?;
            (configured.config.mode.format() == Some(format)).then_some((id, configured))
        })
    }

    fn edit<T>(
        &mut self,
        id: u64,
        action: &'static str,
        edit: impl FnOnce(&mut super::explicit::List, &EvFormat, PortSet) -> Result<T, ArgumentError>,
    ) -> Result<T, EvProfileError> {
        let name = ProfileName::Ev(id);
        let profile = self.profiles.get_mut(&id).ok_or(EvProfileError::NoSuchProfile(name))?;
        let allowed = [ProfileState::Offline, ProfileState::Online];
        require(name, profile.state(), &allowed, action, OFFLINE)?;
        let format = profile.config().and_then(|config| config.mode.format());
        let format = format.and_then(|format| self.formats.get(&format)?.format.as_ref());
        match (&mut profile.configured, format) {
            (Some(Configured { source: Source::List(list), config, .. }), Some(format)) => {
                edit(list, format, config.ports).map_err(|error| argument(name, error))
            }
            _ => Err(argument(name, ArgumentError::NotExplicit)),
        }
    }
}

const fn argument(name: ProfileName, error: ArgumentError) -> EvProfileError {
    EvProfileError::Argument { name, error }
}

fn create<T: Default>(
    table: &mut BTreeMap<u64, T>,
    id: u64,
    name: ProfileName,
    max: usize,
) -> Result<(), EvProfileError> {
    if table.contains_key(&id) {
        return Err(EvProfileError::Exists(name));
    }
    if table.len() == max {
        return Err(EvProfileError::TableFull { name, max });
    }
    table.insert(id, T::default());
    Ok(())
}

/// A QP needs a profile that is ONLINE.
fn usable(id: u64, profile: &EvProfile) -> Result<(), EvProfileError> {
    let needs = "ONLINE: bring it online first";
    require(ProfileName::Ev(id), profile.state(), &[ProfileState::Online], "a QP", needs)
}

fn require(
    name: ProfileName,
    state: ProfileState,
    allowed: &[ProfileState],
    action: &'static str,
    needs: &'static str,
) -> Result<(), EvProfileError> {
    if allowed.contains(&state) { Ok(()) } else { Err(EvProfileError::InvalidState { name, state, action, needs }) }
}

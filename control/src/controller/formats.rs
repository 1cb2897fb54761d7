//! EV format profiles, as controllers change and query them.

use super::step::{check, refuse};
use super::{FormatKind, Named, Profiles, StepError};
use dataplane::path::profile::{
    EvFormat, EvMode, EvProfileError, FormatError, LOCATOR_BITS, ProfileName, ProfileState, USID_BITS, USIDS_MAX, Users,
};

/// A change of an EV format profile. A profile that nobody has changed is in INIT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatStep {
    /// The state that it is taken to be in.
    pub from: Option<ProfileState>,
    /// The state that it goes to.
    pub to: Option<ProfileState>,
    /// Where EVs are in a packet.
    pub kind: Option<FormatKind>,
    /// Bits of each field.
    pub widths: Option<Vec<u8>>,
}

/// What there is to know of an EV format profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatView {
    /// Its state.
    pub state: ProfileState,
    /// Where EVs are in a packet; `None` in INIT.
    pub kind: Option<FormatKind>,
    /// Bits of each field; none before they were given.
    pub widths: Vec<u8>,
}

const fn kind_of(format: &EvFormat) -> FormatKind {
    match format {
        EvFormat::UdpPort(_) => FormatKind::Udp,
        EvFormat::Structured(_) => FormatKind::Stev,
        EvFormat::Usid(_) => FormatKind::Srv6,
    }
}

/// A format whose fields were not given yet: one for all.
fn bare(kind: FormatKind) -> Result<EvFormat, FormatError> {
    match kind {
        FormatKind::Udp => EvFormat::udp_port(&[16]),
        FormatKind::Stev => EvFormat::structured(&[32]),
        FormatKind::Srv6 => EvFormat::usid(USIDS_MAX),
    }
}

fn format(kind: FormatKind, widths: &[u8]) -> Result<EvFormat, FormatError> {
    match kind {
        FormatKind::Udp => EvFormat::udp_port(widths),
        FormatKind::Stev => EvFormat::structured(widths),
        FormatKind::Srv6 => {
            let Some((&locator, usids)) = widths.split_first() else { return Err(FormatError::NoFields) };
            if locator != LOCATOR_BITS {
                return Err(FormatError::NoUsid { at: 1, width: locator });
            }
            if let Some(at) = usids.iter().position(|&width| width != USID_BITS) {
                return Err(FormatError::NoUsid { at: at + 2, width: usids[at] });
            }
            EvFormat::usid(u8::try_from(usids.len()).unwrap_or(u8::MAX))
        }
    }
}

impl Profiles {
    /// State of an EV format profile.
    #[must_use]
    pub fn format_state(&self, id: u64) -> ProfileState {
        self.table.format_state(id).unwrap_or(ProfileState::Init)
    }

    /// Changes an EV format profile, and takes it a step of its life: to OFFLINE it needs `kind`, and to go ONLINE, `widths`.
    ///
    /// # Errors
    /// [`StepError`]; nothing changes then.
    pub fn modify_format(&mut self, id: u64, step: &FormatStep) -> Result<(), StepError> {
        let (name, state) = (Named::Format(id), self.format_state(id));
        check(name, state, step.from, step.to)?;
        let given = [("MODE", step.kind.is_some()), ("MODIFY_FIELDS", step.widths.is_some())];
        match (state, step.to) {
            (ProfileState::Init, Some(_)) => {
                let missing = || StepError::Missing { name, what: "MODE", to: ProfileState::Offline };
                let kind = step.kind.ok_or_else(missing)?;
                let made = self.make_format(id, kind, step.widths.as_deref())?;
                self.table.create_format(id)?;
                self.table.configure_format(id, made)?;
            }
            (ProfileState::Offline, None | Some(ProfileState::Online)) => {
                let before = self.table.format(id)?.cloned();
                let (was_bare, to) = (self.bare_formats.contains(&id), step.to);
                self.change_format(id, step)?;
                if to.is_some()
                    && let Err(error) = self.format_online(id)
                {
                    if let Some(before) = before {
                        // What was there a moment ago is taken again.
                        let _ = self.table.configure_format(id, before);
                    }
                    self.set_bare(id, was_bare);
                    return Err(error);
                }
            }
            (_, to) => {
                refuse(name, state, &given)?;
                match to {
                    Some(ProfileState::Offline) => self.table.format_offline(id)?,
                    Some(ProfileState::Init) => {
                        self.table.format_reset(id)?;
                        self.table.remove_format(id)?;
                        self.set_bare(id, false);
                        self.own_formats.remove(&id);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn make_format(&mut self, id: u64, kind: FormatKind, widths: Option<&[u8]>) -> Result<EvFormat, StepError> {
        let made = widths.map_or_else(|| bare(kind), |widths| format(kind, widths));
        let made = made.map_err(|error| StepError::Format(Named::Format(id), error))?;
        self.set_bare(id, widths.is_none());
        Ok(made)
    }

    fn change_format(&mut self, id: u64, step: &FormatStep) -> Result<(), StepError> {
        let Some(kind) = self.table.format(id)?.map(kind_of) else { return Ok(()) };
        if step.kind.is_none_or(|new| new == kind) && step.widths.is_none() {
            return Ok(());
        }
        // What was listed through fields would be others.
        let users = self.table.ids().filter(|ev| self.lists_through(*ev, id)).count() as u64;
        if users > 0 {
            let name = ProfileName::Format(id);
            return Err(EvProfileError::Busy { name, users: Users::Configured(users) }.into());
        }
        let was_bare = self.bare_formats.contains(&id);
        let made = self.make_format(id, step.kind.unwrap_or(kind), step.widths.as_deref())?;
        self.table.configure_format(id, made).inspect_err(|_| self.set_bare(id, was_bare))?;
        Ok(())
    }

    /// Whether an EXPLICIT profile of this format has EVs that its own fields made.
    fn lists_through(&self, profile: u64, format: u64) -> bool {
        let Ok(there) = self.table.profile(profile) else { return false };
        let explicit = matches!(there.config().map(|config| &config.mode), Some(EvMode::Explicit { format: of, .. }) if *of == format);
        let fields = self.extras.get(&profile).is_some_and(|extra| !extra.fields.is_empty());
        explicit && fields && there.evs().next().is_some()
    }

    fn format_online(&mut self, id: u64) -> Result<(), StepError> {
        if self.bare_formats.contains(&id) {
            let name = Named::Format(id);
            return Err(StepError::Missing { name, what: "MODIFY_FIELDS", to: ProfileState::Online });
        }
        Ok(self.table.format_online(id)?)
    }

    fn set_bare(&mut self, id: u64, bare: bool) {
        if bare {
            self.bare_formats.insert(id);
        } else {
            self.bare_formats.remove(&id);
        }
    }

    /// What there is to know of an EV format profile.
    #[must_use]
    pub fn format_view(&self, id: u64) -> FormatView {
        let format = self.table.format(id).ok().flatten();
        let is_bare = self.bare_formats.contains(&id);
        FormatView {
            state: self.format_state(id),
            kind: format.map(kind_of),
            widths: format.filter(|_| !is_bare).map(|format| format.widths().to_vec()).unwrap_or_default(),
        }
    }
}

//! The EV profiles of a NIC.

use super::cc_profiles::{CcBase, CcDesk};
use super::ev_profiles::Extra;
use super::spec::{EvSpec, FieldSpec, Mode, ProfileSpec, format_spec, mode_of};
use dataplane::nic::NicParams;
use dataplane::path::profile::{
    Copies, Ev, EvFormat, EvMode, EvPool, EvProfile, EvProfileConfig, EvProfileError, EvProfiles, FormatError, PortSet,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a profile is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The table refuses it.
    #[error(transparent)]
    Table(#[from] EvProfileError),
    /// Its format makes no sense.
    #[error("EV profile {id}: format: {error}")]
    Format {
        /// The profile.
        id: u64,
        /// Why.
        error: FormatError,
    },
    /// What was written does not go together.
    #[error("EV profile {id}: {why}")]
    Spec {
        /// The profile.
        id: u64,
        /// Why, and the way out.
        why: String,
    },
    /// The EV to be replaced is in no explicit profile, or in several.
    #[error("EV {ev:#x} {why}")]
    Replace {
        /// The EV.
        ev: u32,
        /// Why, and the way out.
        why: String,
    },
}

/// Format profiles that the NIC makes for operators' EV profiles have numbers from here on.
const OWN_FORMATS: u64 = 1 << 32;

/// The EV profiles of a NIC, with their formats, and its CC profiles: those of operators and of controllers alike. A profile of either is changed
/// by both.
///
/// Operators name no format profiles: the NIC makes one for those of their EV profiles that have the same format, and it goes with the last of
/// them. Controllers make and end format profiles themselves.
#[derive(Debug)]
pub struct Profiles {
    pub(super) ports: PortSet,
    pub(super) table: EvProfiles,
    /// Format profiles that the NIC has made itself.
    pub(super) own_formats: BTreeSet<u64>,
    /// Format profiles whose fields were not given yet.
    pub(super) bare_formats: BTreeSet<u64>,
    /// What controllers said of EV profiles, beside what is in the table.
    pub(super) extras: BTreeMap<u64, Extra>,
    pub(super) cc: CcDesk,
}

impl Profiles {
    pub(super) fn new(ports: u8) -> Profiles {
        Profiles {
            ports: PortSet::first(ports),
            table: EvProfiles::new(ports),
            own_formats: BTreeSet::new(),
            bare_formats: BTreeSet::new(),
            extras: BTreeMap::new(),
            cc: CcDesk::new(CcBase::of(&NicParams::default())),
        }
    }

    /// The table, for queries.
    #[must_use]
    pub const fn table(&self) -> &EvProfiles {
        &self.table
    }

    /// Creates and configures a profile, and lists its EVs: it is OFFLINE then. An error leaves nothing behind.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn create(&mut self, spec: &ProfileSpec) -> Result<(), ProfileError> {
        self.table.create(spec.id)?;
        let done = self.configure(spec);
        if done.is_err() {
            // What was there a moment ago can be taken back.
            let _ = self.remove(spec.id);
        }
        done
    }

    fn configure(&mut self, spec: &ProfileSpec) -> Result<(), ProfileError> {
        spec.check_keys()?;
        let ports = spec.port_set(self.ports)?;
        let evs = spec.listed(ports)?;
        let format = if spec.mode == Mode::Auto { 0 } else { self.format_like(&spec.format()?)? };
        let config =
            EvProfileConfig { mode: spec.ev_mode(format)?, min_active: spec.min_active, ports, every_port: true };
        self.table.configure(spec.id, config)?;
        if !evs.is_empty() {
            self.table.populate(spec.id, &evs)?;
        }
        Ok(())
    }

    /// The format profile of such a format, ONLINE; a new one where there is none.
    fn format_like(&mut self, format: &EvFormat) -> Result<u64, EvProfileError> {
        let alike = |&id: &u64| self.table.format(id).is_ok_and(|there| there == Some(format));
        if let Some(&id) = self.own_formats.iter().find(|id| alike(id)) {
            return Ok(id);
        }
        let taken: Vec<u64> = self.table.format_ids().collect();
        let id = (OWN_FORMATS..).find(|id| !taken.contains(id)).unwrap_or(u64::MAX);
        self.table.create_format(id)?;
        self.table.configure_format(id, format.clone())?;
        self.table.format_online(id)?;
        self.own_formats.insert(id);
        Ok(id)
    }

    /// Removes those of the NIC's own format profiles that no EV profile names any more.
    fn tidy_formats(&mut self) {
        let unused: Vec<u64> =
            self.own_formats.iter().copied().filter(|&id| self.table.format_users(id) == 0).collect();
        for id in unused {
            self.own_formats.remove(&id);
            // A controller may have taken it a step.
            let _ = self.table.format_offline(id);
            let _ = self.table.format_reset(id);
            let _ = self.table.remove_format(id);
        }
    }

    /// Takes a profile ONLINE.
    ///
    /// # Errors
    /// As [`EvProfiles::online`].
    pub fn online(&mut self, id: u64) -> Result<(), EvProfileError> {
        self.table.online(id)
    }

    /// Takes a profile OFFLINE.
    ///
    /// # Errors
    /// As [`EvProfiles::offline`]: busy while QPs use it.
    pub fn offline(&mut self, id: u64) -> Result<(), EvProfileError> {
        self.table.offline(id)
    }

    /// Removes a profile that is not ONLINE.
    ///
    /// # Errors
    /// No such profile, or it is ONLINE.
    pub fn remove(&mut self, id: u64) -> Result<(), EvProfileError> {
        if self.table.profile(id)?.config().is_some() {
            self.table.reset(id)?;
        }
        self.table.remove(id)?;
        self.extras.remove(&id);
        self.tidy_formats();
        Ok(())
    }

    /// `qps` QPs begin to use a profile, and are bound to what comes out.
    ///
    /// # Errors
    /// No such profile, or it is not ONLINE.
    pub fn acquire(&mut self, id: u64, qps: usize) -> Result<Arc<EvPool>, EvProfileError> {
        let pool = self.table.pool(id)?;
        for _ in 0..qps {
            self.table.acquire(id)?;
        }
        Ok(Arc::new(pool))
    }

    /// A QP uses a profile no more.
    ///
    /// # Errors
    /// No such profile, or no QP uses it.
    pub fn release(&mut self, id: u64) -> Result<(), EvProfileError> {
        self.table.release(id)
    }

    /// Replaces an EV of an explicit profile: of the one that lists `current`, unless `profile` says which. Without a port or a path
    /// the new EV has those of the old one. It tells the profile, and the new EV.
    pub(super) fn replace(
        &mut self,
        profile: Option<u64>,
        current: u32,
        new: EvSpec,
        copies: Copies,
    ) -> Result<(u64, Ev, u32), ProfileError> {
        let id = match profile {
            Some(id) => id,
            None => self.only_with(current)?,
        };
        let old = self.table.profile(id)?.find(current);
        let port = new.port.or(old.map(|ev| ev.port)).unwrap_or(1);
        let segment = new.segment.or(old.and_then(|ev| ev.segment));
        let new = Ev { value: new.ev, port, segment };
        let places = self.table.replace(id, current, new, copies)?;
        if let Some(extra) = self.extras.get_mut(&id) {
            extra.names.clear();
        }
        Ok((id, new, places))
    }

    /// The one explicit profile that lists an EV.
    fn only_with(&self, ev: u32) -> Result<u64, ProfileError> {
        let lists = |&id: &u64| {
            let profile = self.table.profile(id).ok();
            let explicit = profile.filter(|profile| matches!(profile.config(), Some(c) if is_explicit(&c.mode)));
            explicit.is_some_and(|profile| profile.find(ev).is_some())
        };
        let with: Vec<u64> = self.table.ids().filter(lists).collect();
        let wrong = |why: String| Err(ProfileError::Replace { ev, why });
        match with.as_slice() {
            [id] => Ok(*id),
            [] => wrong("is in no explicit profile, and only such EVs can be replaced: see profile show".into()),
            ids => {
                let ids = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                wrong(format!("is in the profiles {ids}: say which with --profile"))
            }
        }
    }

    /// A profile as a file has it; without a configuration, its number alone.
    ///
    /// # Errors
    /// No such profile.
    pub fn spec(&self, id: u64) -> Result<ProfileSpec, EvProfileError> {
        let profile = self.table.profile(id)?;
        let Some(config) = profile.config() else { return Ok(ProfileSpec { id, ..ProfileSpec::default() }) };
        let format = config.mode.format().and_then(|id| self.table.format(id).ok().flatten()).map(format_spec);
        let mut spec = ProfileSpec {
            id,
            mode: mode_of(&config.mode),
            ports: Some(config.ports.iter().collect()),
            min_active: config.min_active,
            format,
            ..ProfileSpec::default()
        };
        match &config.mode {
            EvMode::Auto => {}
            EvMode::Explicit { count, .. } => spec.count = Some(*count),
            EvMode::Generated { count, fields, seed, .. } => {
                spec.count = Some(*count);
                spec.seed = Some(*seed);
                spec.fields = fields.iter().copied().map(FieldSpec).collect();
            }
        }
        spec.evs = evs_of(profile);
        Ok(spec)
    }
}

const fn is_explicit(mode: &EvMode) -> bool {
    matches!(mode, EvMode::Explicit { .. })
}

fn evs_of(profile: &EvProfile) -> Vec<EvSpec> {
    profile.evs().map(|ev| EvSpec { ev: ev.value, port: Some(ev.port), segment: ev.segment }).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn read(text: &str) -> ProfileSpec {
        ProfileSpec::read(text).unwrap()
    }

    /// What creating a profile on a NIC of two ports says.
    fn refusal(text: &str) -> String {
        let mut profiles = Profiles::new(2);
        let error = profiles.create(&read(text)).unwrap_err().to_string();
        assert_eq!((profiles.table().ids().count(), profiles.table().format_ids().count()), (0, 0), "nothing is left");
        error
    }

    pub(in super::super) const EXPLICIT: &str = r#"
        id = 7
        mode = "explicit"
        ports = [1, 2]
        format = { kind = "structured", widths = [8, 8, 16] }
        evs = [{ ev = 0x01010001, port = 1 }, { ev = 0x02010001, port = 2 }]
    "#;
    pub(in super::super) const GENERATED: &str = r#"
        id = 8
        mode = "generated"
        min_active = 2
        count = 4
        format.kind = "srv6"
        fields = ["locator:32:fixed=0xfcbbbbbb", { name = "tor", width = 16, init = 0x100, mask = 0xff }]
    "#;

    #[test]
    fn a_created_profile_is_offline_and_its_format_is_that_of_its_fields() {
        let mut profiles = Profiles::new(2);
        profiles.create(&read(GENERATED)).unwrap();
        assert_eq!(profiles.spec(8).unwrap().format.unwrap().widths, [32, 16]);
        assert!(profiles.acquire(8, 1).unwrap_err().to_string().contains("OFFLINE"));
        profiles.online(8).unwrap();
        let pool = profiles.acquire(8, 2).unwrap();
        assert_eq!((pool.evs.len(), pool.min_active), (4, 2));
        assert_eq!(pool.evs.iter().map(|ev| ev.port).collect::<Vec<_>>(), [1, 2, 1, 2]);
        assert_eq!(profiles.table().profile(8).unwrap().qps(), 2);
    }

    #[test]
    fn profiles_of_one_format_share_a_format_profile_that_goes_with_the_last_of_them() {
        let mut profiles = Profiles::new(2);
        profiles.create(&read(EXPLICIT)).unwrap();
        profiles.create(&ProfileSpec { id: 9, ..read(EXPLICIT) }).unwrap();
        profiles.create(&read("id = 1")).unwrap();
        assert_eq!(profiles.table().format_ids().count(), 1);
        profiles.remove(7).unwrap();
        profiles.remove(1).unwrap();
        assert_eq!(profiles.table().format_ids().count(), 1);
        profiles.remove(9).unwrap();
        assert_eq!(profiles.table().format_ids().count(), 0);
    }

    #[test]
    fn a_profile_that_exists_is_left_as_it_is() {
        let mut profiles = Profiles::new(2);
        profiles.create(&read(EXPLICIT)).unwrap();
        let again = profiles.create(&ProfileSpec { evs: Vec::new(), ..read(EXPLICIT) }).unwrap_err();
        assert!(again.to_string().contains("exists already"));
        assert_eq!(profiles.table().profile(7).unwrap().evs().count(), 2);
    }

    #[test]
    fn the_new_ev_has_the_port_of_the_old_one_and_the_profile_is_that_which_lists_it() {
        let mut profiles = Profiles::new(2);
        profiles.create(&read(EXPLICIT)).unwrap();
        let new = EvSpec { ev: 0x0202_0001, port: None, segment: None };
        let replaced = profiles.replace(None, 0x0201_0001, new, Copies::One).unwrap();
        assert_eq!(replaced, (7, Ev::new(0x0202_0001, 2), 1));
        let gone = profiles.replace(None, 0x0201_0001, new, Copies::One).unwrap_err().to_string();
        assert!(gone.contains("0x2010001") && gone.contains("in no explicit profile"), "{gone}");
        profiles.create(&ProfileSpec { id: 9, ..read(EXPLICIT) }).unwrap();
        let both = profiles.replace(None, 0x0101_0001, new, Copies::One).unwrap_err().to_string();
        assert!(both.contains("profiles 7, 9") && both.contains("--profile"), "{both}");
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_the_way_out() {
        for (text, said) in [
            ("id = 1\nformat.kind = \"udp\"", "format does not go with mode auto"),
            ("id = 1\nmode = \"explicit\"", "needs a format"),
            ("id = 1\nmode = \"generated\"\nformat.kind = \"udp\"", "needs fields"),
            ("id = 1\nmode = \"generated\"\nformat.kind = \"udp\"\nfields = [\"h:4\"]", "needs count"),
            ("id = 1\nmode = \"explicit\"\nformat.kind = \"udp\"\nevs = [{ ev = 1 }]", "give each EV a port"),
            ("id = 1\nports = [3]", "port 3 is none of the NIC's: it has 1, 2"),
            ("id = 1\nmode = \"explicit\"\nformat = { kind = \"udp\", widths = [17] }", "17 bits, and there are 16"),
            ("id = 1\nmode = \"explicit\"\nformat = { kind = \"srv6\", widths = [16, 16] }", "32 for the locator"),
            ("id = 1\nmin_active = 100000", "65536 at most"),
        ] {
            let error = refusal(text);
            assert!(error.contains("EV profile 1") && error.contains(said), "{text}: {error}");
        }
    }
}

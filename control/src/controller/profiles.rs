//! The EV profiles of a NIC, and how files and operators write them.

use crate::field::{Field, Keys};
use dataplane::path::profile::{
    Copies, Ev, EvFormat, EvMode, EvPool, EvProfile, EvProfileConfig, EvProfileError, EvProfiles, FormatError, PortSet,
    USIDS_MAX,
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// An EV profile as it stands in a TOML file and on the socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// Its number.
    pub id: u64,
    /// Where its EVs come from.
    #[serde(default)]
    pub mode: Mode,
    /// Its ports, from 1; all of the NIC's without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u8>>,
    /// EVs that stay in use, however many are assumed bad.
    #[serde(default)]
    pub min_active: u32,
    /// Where its EVs are in a packet; needed unless the mode is `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FormatSpec>,
    /// How many EVs it has; of an explicit profile, as many as are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Seed of a generated profile; 1 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The fields of a generated profile, the first hop first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldSpec>,
    /// The EVs of an explicit profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evs: Vec<EvSpec>,
}

/// Where the EVs of a profile come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The NIC draws UDP source ports.
    #[default]
    Auto,
    /// They are listed.
    Explicit,
    /// They are drawn from what fields allow.
    Generated,
}

impl Mode {
    /// The name that files and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Explicit => "explicit",
            Mode::Generated => "generated",
        }
    }
}

/// Where EVs are in a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormatSpec {
    /// The header fields.
    pub kind: FormatKind,
    /// Bits of each field, the first hop first; those of `fields` without, or all in one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widths: Vec<u8>,
}

/// Header fields that hold EVs, with the names of `mrcnic ev expand` and those of OCP's controller API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormatKind {
    /// The UDP source port, 16 bits.
    #[serde(rename = "udp", alias = "udp_port")]
    Udp,
    /// Flow label and UDP source port, 32 bits.
    #[serde(rename = "stev", alias = "structured")]
    Stev,
    /// The destination of an outer IPv6 header.
    Srv6,
}

/// A field: `"NAME:BITS[:KEY=V,..]"`, or an object with `width` and the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FieldSpec(#[serde(with = "FieldForm")] pub dataplane::path::profile::EvField);

#[derive(Serialize)]
#[serde(remote = "dataplane::path::profile::EvField")]
struct FieldForm {
    width: u8,
    init: u32,
    min: u32,
    max: u32,
    mask: u32,
}

/// A field with what was said of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldTable {
    #[serde(default, rename = "name")]
    _name: Option<String>,
    width: u8,
    init: Option<u32>,
    min: Option<u32>,
    max: Option<u32>,
    mask: Option<u32>,
    fixed: Option<u32>,
}

impl<'de> Deserialize<'de> for FieldSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FieldSpec, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = FieldSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field, as NAME:BITS[:KEY=V,..] or with width, init, min, max, mask or fixed")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FieldSpec, E> {
                text.parse::<Field>()
                    .map(|field| FieldSpec(field.field))
                    .map_err(|e| E::custom(format!("{text:?}: {e}")))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FieldSpec, A::Error> {
                let table = FieldTable::deserialize(MapAccessDeserializer::new(map))?;
                let FieldTable { width, init, min, max, mask, fixed, .. } = table;
                let field = Keys { min, max, init, mask, fixed }.field(width).map_err(serde::de::Error::custom)?;
                Ok(FieldSpec(field))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// An EV of an explicit profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvSpec {
    /// UDP source port in bits 15:0, flow label in bits 31:16.
    pub ev: u32,
    /// The port that its packets leave by, from 1; the profile's only one without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// Destination of the outer IPv6 header, with SRv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Ipv6Addr>,
}

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

impl ProfileSpec {
    /// Reads a profile: TOML, or JSON when the text is one object.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(text: &str) -> Result<ProfileSpec, String> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|e| e.to_string());
        }
        toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())
    }

    /// Whether its EVs are such that only IPv6 carries them.
    #[must_use]
    pub fn needs_ipv6(&self) -> bool {
        self.format.as_ref().is_some_and(|format| format.kind != FormatKind::Udp)
    }

    /// Whether its packets have an outer IPv6 header.
    #[must_use]
    pub fn is_srv6(&self) -> bool {
        self.format.as_ref().is_some_and(|format| format.kind == FormatKind::Srv6)
    }

    fn wrong(&self, why: impl Into<String>) -> ProfileError {
        ProfileError::Spec { id: self.id, why: why.into() }
    }

    /// What is given goes with the mode.
    fn check_keys(&self) -> Result<(), ProfileError> {
        let given = [
            ("format", self.format.is_some(), &[Mode::Explicit, Mode::Generated][..]),
            ("count", self.count.is_some(), &[Mode::Explicit, Mode::Generated]),
            ("seed", self.seed.is_some(), &[Mode::Generated]),
            ("fields", !self.fields.is_empty(), &[Mode::Generated]),
            ("evs", !self.evs.is_empty(), &[Mode::Explicit]),
        ];
        for (key, is_given, modes) in given {
            if is_given && !modes.contains(&self.mode) {
                let modes = modes.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(" or ");
                let mode = self.mode.name();
                return Err(
                    self.wrong(format!("{key} does not go with mode {mode}: take it away, or use mode {modes}"))
                );
            }
        }
        Ok(())
    }

    fn port_set(&self, nic: PortSet) -> Result<PortSet, ProfileError> {
        let Some(ports) = &self.ports else { return Ok(nic) };
        let mut mask = 0;
        for &port in ports {
            if !nic.contains(port) {
                return Err(self.wrong(format!("port {port} is none of the NIC's: it has {nic}")));
            }
            mask |= 1 << (port - 1);
        }
        Ok(PortSet::from_mask(mask))
    }

    fn format(&self) -> Result<EvFormat, ProfileError> {
        let Some(FormatSpec { kind, widths }) = &self.format else {
            let why = format!("mode {} needs a format: give its kind, udp, stev or srv6", self.mode.name());
            return Err(self.wrong(why));
        };
        let of_fields = || self.fields.iter().map(|field| field.0.width).collect::<Vec<u8>>();
        let all = if widths.is_empty() { of_fields() } else { widths.clone() };
        let format = match (kind, all.as_slice()) {
            (FormatKind::Udp, []) => EvFormat::udp_port(&[16]),
            (FormatKind::Udp, widths) => EvFormat::udp_port(widths),
            (FormatKind::Stev, []) => EvFormat::structured(&[32]),
            (FormatKind::Stev, widths) => EvFormat::structured(widths),
            (FormatKind::Srv6, []) => EvFormat::usid(USIDS_MAX),
            (FormatKind::Srv6, widths) => EvFormat::usid(u8::try_from(widths.len() - 1).unwrap_or(u8::MAX)),
        };
        let format = format.map_err(|error| ProfileError::Format { id: self.id, error })?;
        if !widths.is_empty() && format.widths() != widths {
            return Err(
                self.wrong("format: the widths of srv6 are 32 for the locator, and 16 for each of one to six uSIDs")
            );
        }
        Ok(format)
    }

    fn listed(&self, ports: PortSet) -> Result<Vec<Ev>, ProfileError> {
        let only = (ports.len() == 1).then(|| ports.iter().next()).flatten();
        let ev = |&EvSpec { ev, port, segment }: &EvSpec| {
            let port = port.or(only).ok_or_else(|| {
                self.wrong(format!("EV {ev:#x} has no port, and the profile has {ports}: give each EV a port"))
            })?;
            Ok(Ev { value: ev, port, segment })
        };
        self.evs.iter().map(ev).collect()
    }

    fn ev_mode(&self, format: u64) -> Result<EvMode, ProfileError> {
        Ok(match self.mode {
            Mode::Auto => EvMode::Auto,
            Mode::Explicit => {
                let listed = u32::try_from(self.evs.len()).unwrap_or(u32::MAX);
                EvMode::Explicit { format, count: self.count.unwrap_or(listed) }
            }
            Mode::Generated => {
                if self.fields.is_empty() {
                    return Err(self.wrong("mode generated needs fields: give one for each hop"));
                }
                let count = self.count.ok_or_else(|| self.wrong("mode generated needs count: how many EVs to draw"))?;
                let fields = self.fields.iter().map(|field| field.0).collect();
                EvMode::Generated { format, count, fields, seed: self.seed.unwrap_or(1) }
            }
        })
    }
}

/// The EV profiles of a NIC. Formats that are alike share a format profile, which comes and goes with them.
#[derive(Debug)]
pub struct Profiles {
    ports: PortSet,
    table: EvProfiles,
}

impl Profiles {
    pub(super) const fn new(ports: u8) -> Profiles {
        Profiles { ports: PortSet::first(ports), table: EvProfiles::new(ports) }
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
        let config = EvProfileConfig { mode: spec.ev_mode(format)?, min_active: spec.min_active, ports };
        self.table.configure(spec.id, config)?;
        if !evs.is_empty() {
            self.table.populate(spec.id, &evs)?;
        }
        Ok(())
    }

    /// The format profile of such a format, ONLINE; a new one where there is none.
    fn format_like(&mut self, format: &EvFormat) -> Result<u64, EvProfileError> {
        let alike = |&id: &u64| self.table.format(id).is_ok_and(|there| there == Some(format));
        if let Some(id) = self.table.format_ids().find(alike) {
            return Ok(id);
        }
        let taken: Vec<u64> = self.table.format_ids().collect();
        let id = (1..).find(|id| !taken.contains(id)).unwrap_or(u64::MAX);
        self.table.create_format(id)?;
        self.table.configure_format(id, format.clone())?;
        self.table.format_online(id)?;
        Ok(id)
    }

    /// Removes the format profiles that no EV profile names any more.
    fn tidy_formats(&mut self) {
        let unused: Vec<u64> = self.table.format_ids().filter(|&id| self.table.format_users(id) == 0).collect();
        for id in unused {
            let steps = self.table.format_offline(id).and_then(|()| self.table.format_reset(id));
            let _ = steps.and_then(|()| self.table.remove_format(id));
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

/// Where a profile's EVs come from.
pub(super) const fn mode_of(mode: &EvMode) -> Mode {
    match mode {
        EvMode::Auto => Mode::Auto,
        EvMode::Explicit { .. } => Mode::Explicit,
        EvMode::Generated { .. } => Mode::Generated,
    }
}

const fn is_explicit(mode: &EvMode) -> bool {
    matches!(mode, EvMode::Explicit { .. })
}

fn format_spec(format: &EvFormat) -> FormatSpec {
    let kind = match format {
        EvFormat::UdpPort(_) => FormatKind::Udp,
        EvFormat::Structured(_) => FormatKind::Stev,
        EvFormat::Usid(_) => FormatKind::Srv6,
    };
    FormatSpec { kind, widths: format.widths().to_vec() }
}

fn evs_of(profile: &EvProfile) -> Vec<EvSpec> {
    profile.evs().map(|ev| EvSpec { ev: ev.value, port: Some(ev.port), segment: ev.segment }).collect()
}

#[cfg(test)]
mod tests {
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

    const EXPLICIT: &str = r#"
        id = 7
        mode = "explicit"
        ports = [1, 2]
        format = { kind = "structured", widths = [8, 8, 16] }
        evs = [{ ev = 0x01010001, port = 1 }, { ev = 0x02010001, port = 2 }]
    "#;
    const GENERATED: &str = r#"
        id = 8
        mode = "generated"
        min_active = 2
        count = 4
        format.kind = "srv6"
        fields = ["locator:32:fixed=0xfcbbbbbb", { name = "tor", width = 16, init = 0x100, mask = 0xff }]
    "#;

    #[test]
    fn a_profile_is_the_same_in_toml_and_json() {
        for text in [EXPLICIT, GENERATED, "id = 1"] {
            let spec = read(text);
            assert_eq!(read(&serde_json::to_string(&spec).unwrap()), spec);
        }
        let spec = read(GENERATED);
        assert_eq!(spec.fields[1].0.max, 0xFF, "what is not said has the default of the field");
        assert!(spec.is_srv6() && spec.needs_ipv6());
    }

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

    #[test]
    fn what_is_no_profile_is_refused_with_its_place() {
        for (text, said) in [
            ("mode = \"auto\"", "missing field `id`"),
            ("id = 1\nmor = 2", "unknown field `mor`"),
            ("id = 1\nfields = [\"hop1\"]", "the bits are missing"),
            ("id = 1\nfields = [{ width = 4, fixed = 1, max = 2 }]", "fixed goes with no other key"),
            ("id = 1\nfields = [4]", "NAME:BITS"),
            ("{\"id\":1,\"more\":2}", "unknown field `more`"),
        ] {
            let error = ProfileSpec::read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}

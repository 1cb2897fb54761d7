//! EV profiles as files and operators write them.

use super::profiles::ProfileError;
use crate::field::{Field, Keys};
use dataplane::path::profile::{Ev, EvFormat, EvMode, PortSet, USIDS_MAX};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::net::Ipv6Addr;

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
    pub(super) fn check_keys(&self) -> Result<(), ProfileError> {
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

    pub(super) fn port_set(&self, nic: PortSet) -> Result<PortSet, ProfileError> {
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

    pub(super) fn format(&self) -> Result<EvFormat, ProfileError> {
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

    pub(super) fn listed(&self, ports: PortSet) -> Result<Vec<Ev>, ProfileError> {
        let only = (ports.len() == 1).then(|| ports.iter().next()).flatten();
        let ev = |&EvSpec { ev, port, segment }: &EvSpec| {
            let port = port.or(only).ok_or_else(|| {
                self.wrong(format!("EV {ev:#x} has no port, and the profile has {ports}: give each EV a port"))
            })?;
            Ok(Ev { value: ev, port, segment })
        };
        self.evs.iter().map(ev).collect()
    }

    pub(super) fn ev_mode(&self, format: u64) -> Result<EvMode, ProfileError> {
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

/// Where a profile's EVs come from.
pub(super) const fn mode_of(mode: &EvMode) -> Mode {
    match mode {
        EvMode::Auto => Mode::Auto,
        EvMode::Explicit { .. } => Mode::Explicit,
        EvMode::Generated { .. } => Mode::Generated,
    }
}

/// A format as files have it.
pub(super) fn format_spec(format: &EvFormat) -> FormatSpec {
    let kind = match format {
        EvFormat::UdpPort(_) => FormatKind::Udp,
        EvFormat::Structured(_) => FormatKind::Stev,
        EvFormat::Usid(_) => FormatKind::Srv6,
    };
    FormatSpec { kind, widths: format.widths().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::super::profiles::tests::{EXPLICIT, GENERATED};
    use super::*;

    fn read(text: &str) -> ProfileSpec {
        ProfileSpec::read(text).unwrap()
    }

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

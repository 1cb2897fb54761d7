//! The table of attributes: what each is called, which values it takes, and what it acts on.

use super::rule::Rule;
use super::value::{Kind, Range, Refused, Value};
use super::{Config, host, model, monitor, network, nscc, qp_manager};
use std::fmt;

/// An attribute.
#[derive(Debug)]
pub struct Attribute {
    /// The components that it is in, as the documentation nests them; empty at the NIC's top level.
    pub path: &'static [&'static str],
    /// Its name in the documentation; empty for one of our own.
    pub name: &'static str,
    /// Its section in TOML.
    pub section: &'static str,
    /// Its key in the section.
    pub key: &'static str,
    /// Section and key.
    pub full: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its default, as the documentation writes it.
    pub default: &'static str,
    /// The values that it takes.
    pub range: Range,
    /// What it acts on.
    pub acts: Acts,
    /// What it is.
    pub about: &'static str,
    pub(super) get: fn(&Config) -> Value,
    pub(super) set: fn(&mut Config, &Value) -> Result<(), Refused>,
}

/// What an attribute acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acts {
    /// A field of `NicParams`, or how QPs are opened.
    Engine(&'static str),
    /// A field of `NicParams`, with `model.limits`.
    Limits(&'static str),
    /// The control thread.
    Control(&'static str),
    /// The fabric in virtual time.
    VirtualTime(&'static str),
    /// What the records have: checked, and kept for what writes them.
    Records(&'static str),
    /// It can be read, and not set.
    ReadOnly,
}

impl fmt::Display for Acts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Acts::Engine(field) => write!(f, "engine: `{field}`"),
            Acts::Limits(field) => write!(f, "engine, with `model.limits`: `{field}`"),
            Acts::Control(what) => write!(f, "control thread: {what}"),
            Acts::VirtualTime(what) => write!(f, "virtual time: {what}"),
            Acts::Records(what) => write!(f, "records: {what}"),
            Acts::ReadOnly => f.write_str("read-only"),
        }
    }
}

impl Attribute {
    /// Whether the documentation has it.
    #[must_use]
    pub const fn is_documented(&self) -> bool {
        !self.name.is_empty()
    }

    /// Its components and name, separated by points.
    #[must_use]
    pub fn document_name(&self) -> String {
        self.path.iter().chain([&self.name]).copied().collect::<Vec<_>>().join(".")
    }

    /// Its value in a configuration.
    #[must_use]
    pub fn get(&self, config: &Config) -> Value {
        (self.get)(config)
    }

    /// Sets it in a configuration.
    ///
    /// # Errors
    /// The rule that the value breaks, and why; nothing has changed then.
    pub fn set(&self, config: &mut Config, value: &Value) -> Result<(), (Rule, String)> {
        let Attribute { name, range, kind, .. } = *self;
        let name = if self.is_documented() { name } else { self.key };
        if self.acts == Acts::ReadOnly {
            return Err((Rule::ReadOnly, format!("{name} can be read, and not set: take it away")));
        }
        let previous = self.get(config);
        (self.set)(config, value).map_err(|(rule, why)| (rule, format!("{value} {why}")))?;
        if !range.has(kind, value) {
            (self.set)(config, &previous)?;
            return Err((Rule::OutOfRange, format!("{value} is out of range: {name} takes {range}")));
        }
        Ok(())
    }
}

/// All attributes, in the documentation's order.
pub fn attributes() -> impl Iterator<Item = &'static Attribute> {
    const TABLES: [&[Attribute]; 12] = [
        network::Nic::ATTRIBUTES,
        network::Uplink::ATTRIBUTES,
        network::Medium::ATTRIBUTES,
        network::IngressBuffer::ATTRIBUTES,
        network::EgressBuffer::ATTRIBUTES,
        host::NicSide::ATTRIBUTES,
        host::HostSide::ATTRIBUTES,
        qp_manager::QpManager::ATTRIBUTES,
        qp_manager::PacketSpraying::ATTRIBUTES,
        nscc::NsccComponent::ATTRIBUTES,
        monitor::Monitor::ATTRIBUTES,
        model::Model::ATTRIBUTES,
    ];
    TABLES.into_iter().flatten()
}

/// The attribute with this section and key.
#[must_use]
pub fn find(full: &str) -> Option<&'static Attribute> {
    attributes().find(|attribute| attribute.full == full)
}

/// The one of `names` that an unknown name is nearest to, if it is near.
pub(super) fn nearest<'a, S: AsRef<str>>(unknown: &str, names: impl IntoIterator<Item = S> + 'a) -> Option<S> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    // CamelCase and snake_case are equally good guesses.
    let plain = |name: &str| name.replace(['_', '.', '-'], "").to_lowercase();
    let (whole, key) = (plain(unknown), plain(&last(unknown)));
    let distance = |name: &str| {
        let of_key = strsim::damerau_levenshtein(&key, &plain(&last(name)));
        (of_key, strsim::damerau_levenshtein(&whole, &plain(name)))
    };
    let names = names.into_iter().map(|name| (distance(name.as_ref()), name));
    let (_, name) = names.min_by_key(|(distance, _)| *distance).filter(|(at, _)| at.0 <= 2.max(key.len() / 3))?;
    Some(name)
}

/// A component of the NIC: a struct, a field for each attribute, and their table. Each group of attributes has its components' path.
macro_rules! component {
    (
        $(#[$doc:meta])*
        $type:ident at $field:ident, $section:literal;
        $( $path:tt {
            $( $name:literal $key:ident: $value:ty = $default:literal $(in $ends:tt)?, $acts:expr, $about:literal; )*
        } )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $type {
            $( $( #[doc = $about] pub $key: $value, )* )*
        }

        impl Default for $type {
            fn default() -> Self {
                $type { $( $( $key: $crate::config::value::default_of($default), )* )* }
            }
        }

        impl $type {
            pub(super) const ATTRIBUTES: &'static [$crate::config::table::Attribute] = &[
                $( $( $crate::config::table::Attribute {
                    path: &$path,
                    name: $name,
                    section: $section,
                    key: stringify!($key),
                    full: concat!($section, ".", stringify!($key)),
                    kind: <$value as $crate::config::value::Field>::KIND,
                    default: $default,
                    range: $crate::config::table::range!($($ends)?),
                    acts: $acts,
                    about: $about,
                    get: |config| $crate::config::value::Field::value(&config.$field.$key),
                    set: |config, value| {
                        config.$field.$key = $crate::config::value::Field::read(value)?;
                        Ok(())
                    },
                }, )* )*
            ];
        }
    };
}
pub(super) use component;

/// The range with the given ends.
macro_rules! range {
    () => {
        $crate::config::value::Range::of(&[])
    };
    ($ends:tt) => {
        $crate::config::value::Range::of(&$ends)
    };
}
pub(super) use range;

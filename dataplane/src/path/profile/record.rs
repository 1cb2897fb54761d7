//! A profile: its state, its configuration, and its EVs.

use super::error::ArgumentError;
use super::expansion::Expansion;
use super::explicit::List;
use super::field::EvField;
use super::format::EvFormat;
use super::ports::PortSet;
use super::table::EVS_PER_PROFILE_MAX;
use std::fmt;
use std::net::Ipv6Addr;

/// State of a format profile or an EV profile (OCP's controller API).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileState {
    /// Created, not yet configured.
    Init,
    /// Configured; it can be changed, but not used.
    Offline,
    /// In use, or ready for it.
    Online,
}

impl fmt::Display for ProfileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProfileState::Init => "INIT",
            ProfileState::Offline => "OFFLINE",
            ProfileState::Online => "ONLINE",
        })
    }
}

/// An EV of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ev {
    /// UDP source port in bits 15:0, flow label in bits 31:16: what travels, and what feedback names.
    pub value: u32,
    /// The port (plane) that its packets leave by, 1 to 8.
    pub port: u8,
    /// Destination of the outer IPv6 header, with SRv6: locator and uSIDs.
    pub segment: Option<Ipv6Addr>,
}

impl Ev {
    /// An EV without SRv6.
    #[must_use]
    pub const fn new(value: u32, port: u8) -> Ev {
        Ev { value, port, segment: None }
    }
}

/// Where the EVs of a profile come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvMode {
    /// The NIC draws UDP source ports by itself; the profile lists none.
    Auto,
    /// The controller lists them.
    Explicit {
        /// The format profile.
        format: u64,
        /// EVs in the list, 1 to [`EVS_PER_PROFILE_MAX`]. All are populated before the profile goes ONLINE.
        count: u32,
    },
    /// The NIC draws them from what fields allow.
    Generated {
        /// The format profile.
        format: u64,
        /// How many it draws, 1 to [`EVS_PER_PROFILE_MAX`], and no more than the fields allow.
        count: u32,
        /// The fields, the first hop first.
        fields: Vec<EvField>,
        /// The same seed draws the same EVs in the same order.
        seed: u64,
    },
}

impl EvMode {
    /// The format profile; AUTO has none.
    #[must_use]
    pub const fn format(&self) -> Option<u64> {
        match self {
            EvMode::Auto => None,
            EvMode::Explicit { format, .. } | EvMode::Generated { format, .. } => Some(*format),
        }
    }

    /// EVs of the profile; 0 for AUTO.
    #[must_use]
    pub const fn count(&self) -> u32 {
        match self {
            EvMode::Auto => 0,
            EvMode::Explicit { count, .. } | EvMode::Generated { count, .. } => *count,
        }
    }
}

/// What a controller sets of an EV profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvProfileConfig {
    /// Where the EVs come from.
    pub mode: EvMode,
    /// EVs that stay in use, however many are assumed bad; no more than there are.
    pub min_active: u32,
    /// The ports (planes) of the EVs; generated ones are dealt to the ports in turn.
    pub ports: PortSet,
    /// Whether each of the ports has to have at least one EV.
    pub every_port: bool,
}

impl EvProfileConfig {
    /// The NIC's own EVs, on the ports 1 to `ports`.
    #[must_use]
    pub const fn auto(ports: u8) -> EvProfileConfig {
        EvProfileConfig { mode: EvMode::Auto, min_active: 0, ports: PortSet::first(ports), every_port: true }
    }
}

/// How the EVs of a pool are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The NIC draws UDP source ports by itself.
    Auto,
    /// All of them, in their order.
    Explicit,
    /// A subset at random, the rest as backups.
    Generated,
}

/// The EVs of a profile that is ONLINE, as QPs are bound to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvPool {
    /// The profile's number.
    pub id: u64,
    /// How they are used.
    pub kind: PoolKind,
    /// The EVs; none for AUTO.
    pub evs: Box<[Ev]>,
    /// The ports of the profile.
    pub ports: PortSet,
    /// EVs that stay in use, however many are assumed bad.
    pub min_active: u32,
}

impl EvPool {
    /// The first value that IPv4 does not carry, for it has more than 16 bits.
    #[must_use]
    pub fn beyond_ipv4(&self) -> Option<u32> {
        self.evs.iter().map(|ev| ev.value).find(|&value| value > u32::from(u16::MAX))
    }

    /// The SRv6 path of its first EV, where the EVs have paths.
    #[must_use]
    pub fn first_segment(&self) -> Option<Ipv6Addr> {
        self.evs.first().and_then(|ev| ev.segment)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Auto,
    List(List),
    Expansion(Expansion),
}

#[derive(Clone, Debug)]
pub(super) struct Configured {
    pub(super) config: EvProfileConfig,
    pub(super) source: Source,
    pub(super) online: bool,
}

impl Configured {
    /// Checks the configuration against the format profile that it names; AUTO needs none.
    pub(super) fn new(
        config: EvProfileConfig,
        format: Option<&EvFormat>,
        nic: PortSet,
    ) -> Result<Configured, ArgumentError> {
        let EvProfileConfig { mode, min_active, ports, every_port } = &config;
        let least = if *every_port { ports.len() } else { 1 };
        if let Some(port) = ports.first_outside(nic) {
            return Err(ArgumentError::NotOfNic { port, ports: nic });
        }
        if ports.is_empty() {
            return Err(ArgumentError::NoPort { ports: nic });
        }
        let count = mode.count();
        let source = match (mode, format) {
            (EvMode::Generated { fields, seed, .. }, Some(format)) => {
                check_count(count, least)?;
                Source::Expansion(expand(format, fields, *seed, count)?)
            }
            (EvMode::Explicit { .. }, Some(_)) => {
                check_count(count, least)?;
                Source::List(List::new(count))
            }
            _ => Source::Auto,
        };
        let min_active = *min_active;
        let configured = Configured { config, source, online: false };
        configured.check_min_active(min_active)?;
        Ok(configured)
    }

    pub(super) const fn check_min_active(&self, min_active: u32) -> Result<(), ArgumentError> {
        let most = self.min_active_most();
        if min_active > most { Err(ArgumentError::MinActive { min_active, most }) } else { Ok(()) }
    }

    /// The most EVs that may have to stay active.
    pub(super) const fn min_active_most(&self) -> u32 {
        if let Source::Auto = self.source { EVS_PER_PROFILE_MAX } else { self.config.mode.count() }
    }

    /// The EVs under another format; an error leaves all as it is.
    pub(super) fn under(&self, format: &EvFormat) -> Result<Source, ArgumentError> {
        match (&self.source, &self.config.mode) {
            (Source::List(list), _) => list.fits(format, self.config.ports)?,
            (Source::Expansion(_), EvMode::Generated { count, fields, seed, .. }) => {
                return Ok(Source::Expansion(expand(format, fields, *seed, *count)?));
            }
            _ => {}
        }
        Ok(self.source.clone())
    }

    /// Whether all is there that the profile needs to go ONLINE.
    pub(super) fn complete(&self) -> Result<(), ArgumentError> {
        let Source::List(list) = &self.source else { return Ok(()) };
        if list.unpopulated() > 0 {
            return Err(ArgumentError::Unpopulated { unpopulated: list.unpopulated(), count: list.len() });
        }
        match self.config.ports.first_outside(list.ports()).filter(|_| self.config.every_port) {
            Some(port) => Err(ArgumentError::IdlePort { port }),
            None => Ok(()),
        }
    }
}

fn expand(format: &EvFormat, fields: &[EvField], seed: u64, count: u32) -> Result<Expansion, ArgumentError> {
    let expansion = Expansion::new(format, fields, seed)?;
    if u64::from(count) > expansion.space() {
        return Err(ArgumentError::BeyondSpace { count, space: expansion.space() });
    }
    Ok(expansion)
}

fn check_count(count: u32, least: u32) -> Result<(), ArgumentError> {
    if count < least || count > EVS_PER_PROFILE_MAX {
        return Err(ArgumentError::Count { count, least, most: EVS_PER_PROFILE_MAX });
    }
    Ok(())
}

/// An EV profile, as [`super::EvProfiles`] keeps it.
#[derive(Clone, Debug, Default)]
pub struct EvProfile {
    pub(super) configured: Option<Configured>,
    pub(super) qps: u64,
}

impl EvProfile {
    /// Its state.
    #[must_use]
    pub fn state(&self) -> ProfileState {
        match &self.configured {
            None => ProfileState::Init,
            Some(configured) if configured.online => ProfileState::Online,
            Some(_) => ProfileState::Offline,
        }
    }

    /// Its configuration; `None` in INIT.
    #[must_use]
    pub fn config(&self) -> Option<&EvProfileConfig> {
        self.configured.as_ref().map(|configured| &configured.config)
    }

    /// How many QPs use it.
    #[must_use]
    pub const fn qps(&self) -> u64 {
        self.qps
    }

    /// How many slots of an EXPLICIT profile have no EV yet.
    #[must_use]
    pub fn unpopulated(&self) -> u32 {
        match self.configured.as_ref().map(|configured| &configured.source) {
            Some(Source::List(list)) => list.unpopulated(),
            _ => 0,
        }
    }

    /// The EVs that it has: those of the list in its order, or those drawn in the order of drawing. None for AUTO.
    pub fn evs(&self) -> impl Iterator<Item = Ev> + '_ {
        let (mut listed, mut drawn) = (None, None);
        if let Some(Configured { config, source, .. }) = &self.configured {
            match source {
                Source::Auto => {}
                Source::List(list) => listed = Some(list.evs().iter().copied()),
                Source::Expansion(expansion) => {
                    let evs = expansion.iter().zip(0..u64::from(config.mode.count()));
                    drawn = Some(evs.map(|(ev, index)| Ev {
                        value: ev.ev,
                        port: config.ports.dealt(index),
                        segment: ev.segment,
                    }));
                }
            }
        }
        listed.into_iter().flatten().chain(drawn.into_iter().flatten())
    }

    /// Its EVs, for QPs to be bound to; `None` in INIT.
    pub(super) fn pool(&self, id: u64) -> Option<EvPool> {
        let Configured { config, source, .. } = self.configured.as_ref()?;
        let kind = match source {
            Source::Auto => PoolKind::Auto,
            Source::List(_) => PoolKind::Explicit,
            Source::Expansion(_) => PoolKind::Generated,
        };
        Some(EvPool { id, kind, evs: self.evs().collect(), ports: config.ports, min_active: config.min_active })
    }

    /// The EV with this value, if the profile has it. It is found without going through the others.
    #[must_use]
    pub fn find(&self, value: u32) -> Option<Ev> {
        let Configured { config, source, .. } = self.configured.as_ref()?;
        match source {
            Source::Auto => None,
            Source::List(list) => list.find(value),
            Source::Expansion(expansion) => {
                let index = expansion.position(value).filter(|&index| index < u64::from(config.mode.count()))?;
                let segment = expansion.get(index)?.segment;
                Some(Ev { value, port: config.ports.dealt(index), segment })
            }
        }
    }
}

//! Why a profile is refused. Each message names the thing, the reason and the way out.

use super::expansion::ExpansionError;
use super::ports::PortSet;
use super::record::ProfileState;
use std::fmt;

/// Which profile an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileName {
    /// A format profile.
    Format(u64),
    /// An EV profile.
    Ev(u64),
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileName::Format(id) => write!(f, "EV format profile {id}"),
            ProfileName::Ev(id) => write!(f, "EV profile {id}"),
        }
    }
}

/// Who uses a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// QPs use an EV profile.
    Qps(u64),
    /// EV profiles that are ONLINE use a format profile.
    Online(u64),
    /// EV profiles that are configured name a format profile.
    Configured(u64),
}

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        match *self {
            Users::Qps(n) => write!(f, "{n} QP{}: close them, or give them another profile", plural(n)),
            Users::Online(n) => write!(f, "{n} EV profile{} in state ONLINE: take them OFFLINE first", plural(n)),
            Users::Configured(n) => write!(f, "{n} EV profile{}: put them back to INIT first", plural(n)),
        }
    }
}

/// The kinds of error, as OCP's controller API tells them apart by errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Somebody uses it (EBUSY).
    Busy,
    /// Not in this state (EINVAL).
    InvalidState,
    /// An argument is wrong (EINVAL).
    InvalidArgument,
    /// No such profile or EV (ENOENT).
    NotFound,
    /// A named maximum is reached (E2BIG).
    Full,
}

/// Why an operation on [`super::EvProfiles`] is refused; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvProfileError {
    /// No such profile.
    #[error("{0} does not exist: create it, or name one that exists")]
    NoSuchProfile(ProfileName),
    /// The number is taken.
    #[error("{0} exists already: configure it, or choose another number")]
    Exists(ProfileName),
    /// The table is full.
    #[error(
        "{name} can't be created, for there are {max} already, which is the maximum: remove one that is not needed"
    )]
    TableFull {
        /// The new profile.
        name: ProfileName,
        /// [`super::EV_FORMATS_MAX`] or [`super::EV_PROFILES_MAX`].
        max: usize,
    },
    /// All profiles together have too many EVs.
    #[error(
        "{name} asks for {wanted} EVs, and {free} of {max} are free: ask for fewer, or put another profile to INIT"
    )]
    EvsFull {
        /// The profile.
        name: ProfileName,
        /// EVs it asks for.
        wanted: u32,
        /// EVs that are free for it.
        free: u32,
        /// [`super::EVS_MAX`].
        max: u32,
    },
    /// The profile is in another state.
    #[error("{name} is {state}, and {action} needs {needs}")]
    InvalidState {
        /// The profile.
        name: ProfileName,
        /// The state it is in.
        state: ProfileState,
        /// What was asked for.
        action: &'static str,
        /// The state, and how to get there.
        needs: &'static str,
    },
    /// The profile is in use.
    #[error("{name} is used by {users}")]
    Busy {
        /// The profile.
        name: ProfileName,
        /// By whom.
        users: Users,
    },
    /// A QP gives back what none has.
    #[error("{name} is used by no QP: release it once for each time it was acquired")]
    NotAcquired {
        /// The profile.
        name: ProfileName,
    },
    /// An argument is wrong.
    #[error("{name}: {error}")]
    Argument {
        /// The profile.
        name: ProfileName,
        /// What is wrong.
        error: ArgumentError,
    },
}

impl EvProfileError {
    /// The kind, for those who hand errors on as numbers.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            EvProfileError::NoSuchProfile(_)
            | EvProfileError::Argument { error: ArgumentError::NotListed { .. }, .. } => ErrorKind::NotFound,
            EvProfileError::TableFull { .. } | EvProfileError::EvsFull { .. } => ErrorKind::Full,
            EvProfileError::InvalidState { .. } | EvProfileError::NotAcquired { .. } => ErrorKind::InvalidState,
            EvProfileError::Busy { .. } => ErrorKind::Busy,
            EvProfileError::Exists(_) | EvProfileError::Argument { .. } => ErrorKind::InvalidArgument,
        }
    }
}

/// What is wrong with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The fields make no EVs.
    #[error(transparent)]
    Fields(#[from] ExpansionError),
    /// More EVs than the fields allow.
    #[error("{count} EVs are asked for, and the fields allow {space}: ask for fewer, or give the fields more values")]
    BeyondSpace {
        /// EVs asked for.
        count: u32,
        /// EVs there are.
        space: u64,
    },
    /// Too few or too many EVs.
    #[error("{count} EVs are asked for: it may be {least} (one for each port) to {most}")]
    Count {
        /// EVs asked for.
        count: u32,
        /// At least.
        least: u32,
        /// At most.
        most: u32,
    },
    /// More EVs have to stay active than there are.
    #[error("min_active is {min_active}, and may be {most} at most: lower it, or have more EVs")]
    MinActive {
        /// As given.
        min_active: u32,
        /// At most.
        most: u32,
    },
    /// The set of ports is empty.
    #[error("no port is given: the NIC has {ports}")]
    NoPort {
        /// Ports of the NIC.
        ports: PortSet,
    },
    /// The NIC has no such port.
    #[error("port {port} is none of the NIC's: it has {ports}")]
    NotOfNic {
        /// As given.
        port: u8,
        /// Ports of the NIC.
        ports: PortSet,
    },
    /// The profile has no such port.
    #[error(
        "EV {ev:#010x} is for port {port}, and the profile has {ports}: use one of these, or add the port to the profile"
    )]
    NotAPort {
        /// The EV.
        ev: u32,
        /// As given.
        port: u8,
        /// Ports of the profile.
        ports: PortSet,
    },
    /// A port of the profile would carry nothing.
    #[error("port {port} has no EV: list one for it, or take the port out of the profile")]
    IdlePort {
        /// The port.
        port: u8,
    },
    /// The profile has no list.
    #[error("the profile is not EXPLICIT, and only such a profile has a list of EVs: configure it as EXPLICIT")]
    NotExplicit,
    /// The profile draws no EVs.
    #[error("the profile is not GENERATED, and only such a profile draws EVs from fields: configure it as GENERATED")]
    NotGenerated,
    /// The list is not complete.
    #[error("{unpopulated} of {count} EVs are not populated: list them before the profile goes ONLINE")]
    Unpopulated {
        /// Slots without an EV.
        unpopulated: u32,
        /// Slots.
        count: u32,
    },
    /// More EVs than slots.
    #[error(
        "{given} EVs are given for {free} slots that are not populated: replace EVs, or configure the profile for more"
    )]
    TooMany {
        /// EVs given.
        given: usize,
        /// Slots without an EV.
        free: u32,
    },
    /// The EV to be replaced is not there.
    #[error("EV {ev:#010x} is not in the list: query the profile for the EVs that it has")]
    NotListed {
        /// The EV.
        ev: u32,
    },
    /// The value is in the list with another port or path.
    #[error(
        "EV {ev:#010x} is in the list with another path, on port {port}: feedback names an EV by its value alone, so choose another value"
    )]
    Elsewhere {
        /// The EV.
        ev: u32,
        /// Where it is.
        port: u8,
    },
    /// The EV does not fit the format.
    #[error("EV {ev:#010x} does not fit the format: {reason}")]
    Unfit {
        /// The EV.
        ev: u32,
        /// Why.
        reason: UnfitEv,
    },
}

/// Why an EV does not fit a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitEv {
    /// More than a UDP port.
    #[error("it is no UDP port, for it is above 0xffff")]
    BeyondPort,
    /// Bits where no switch looks.
    #[error("its lowest {unused} bits belong to no field, and must be 0")]
    UnusedBits {
        /// How many.
        unused: u32,
    },
    /// An address without SRv6.
    #[error("it has an SRv6 address, which only the SRv6 format takes")]
    Segment,
    /// SRv6 without an address.
    #[error("it has no SRv6 address: give locator and uSIDs")]
    NoSegment,
    /// A uSID of 0 among others, or none at all.
    #[error("its first uSID is 0, or one before another uSID; 0 ends the list of uSIDs (RFC 9800)")]
    ZeroUsid,
    /// More uSIDs than the format has.
    #[error("it has {given} uSIDs, and the format {room}")]
    TooManyUsids {
        /// uSIDs of the address.
        given: usize,
        /// uSIDs of the format.
        room: usize,
    },
}

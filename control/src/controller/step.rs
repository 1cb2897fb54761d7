//! Steps of profiles, as controllers take them (OCP's controller API), and why one is refused.

use dataplane::congestion::NsccError;
use dataplane::congestion::profile::CcProfileError;
use dataplane::path::profile::{
    ArgumentError, ErrorKind, EvProfileError, ExpansionError, ExtraBits, FormatError, ProfileState,
};
use std::fmt;

/// Which profile an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// An EV format profile.
    Format(u64),
    /// An EV profile.
    Ev(u64),
    /// A CC profile.
    Cc(u64),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Format(id) => write!(f, "EV format profile {id}"),
            Named::Ev(id) => write!(f, "EV profile {id}"),
            Named::Cc(id) => write!(f, "CC profile {id}"),
        }
    }
}

/// Why a step is refused. Nothing has changed then, but for EVs before the one that was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepError {
    /// No step of the profile's life.
    #[error("{0} is {1}, and does not go from there to {2}: the steps are INIT, OFFLINE, ONLINE, OFFLINE, INIT")]
    NoStep(Named, ProfileState, ProfileState),
    /// The profile is in another state than it was said to be.
    #[error("{0} is {1}, and not {2}")]
    OtherState(Named, ProfileState, ProfileState),
    /// Something can't be changed, or asked, in this state or with this step.
    #[error("{name} is {state}: {what} does not go with that")]
    NotNow {
        /// The profile.
        name: Named,
        /// Its state.
        state: ProfileState,
        /// What was given.
        what: &'static str,
    },
    /// Something is needed first.
    #[error("{name} needs {what} to go {to}")]
    Missing {
        /// The profile.
        name: Named,
        /// What.
        what: &'static str,
        /// Where it was to go.
        to: ProfileState,
    },
    /// Something else is wrong with what was given.
    #[error("{name}: {why}")]
    Wrong {
        /// The profile.
        name: Named,
        /// Why, and the way out.
        why: String,
    },
    /// Entry `at` of a list of EVs, from 0, names one that the profile does not have.
    #[error("{name} has no such EV as that of entry {at}")]
    NoEv {
        /// The profile.
        name: Named,
        /// Which entry.
        at: usize,
    },
    /// Bits of an EV that no field takes.
    #[error("{0}: {1}")]
    Bits(Named, ExtraBits),
    /// A format makes no sense.
    #[error("{0}: {1}")]
    Format(Named, FormatError),
    /// Fields make no EVs.
    #[error("{0}: {1}")]
    Fields(Named, ExpansionError),
    /// NSCC's settings are out of range.
    #[error("{0}: {1}")]
    Nscc(Named, NsccError),
    /// The table of EV profiles refuses it.
    #[error(transparent)]
    Ev(#[from] EvProfileError),
    /// The table of CC profiles refuses it.
    #[error(transparent)]
    Cc(#[from] CcProfileError),
}

impl StepError {
    /// The kind, for those who hand errors on as numbers.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            StepError::NoStep(..) | StepError::OtherState(..) | StepError::NotNow { .. } => ErrorKind::InvalidState,
            StepError::Missing { .. } | StepError::Wrong { .. } | StepError::Bits(..) | StepError::Nscc(..) => {
                ErrorKind::InvalidArgument
            }
            StepError::NoEv { .. } => ErrorKind::NotFound,
            StepError::Format(_, error) => of_format(error),
            StepError::Fields(_, error) => of_fields(error),
            StepError::Ev(EvProfileError::NoSuchProfile(_)) | StepError::Cc(CcProfileError::NoSuchProfile(_)) => {
                ErrorKind::InvalidArgument
            }
            StepError::Ev(EvProfileError::Argument { error, .. }) => of_argument(error),
            StepError::Ev(error) => error.kind(),
            StepError::Cc(error) => error.kind(),
        }
    }
}

const fn of_format(error: &FormatError) -> ErrorKind {
    match error {
        FormatError::NoFields | FormatError::Width { width: 0, .. } | FormatError::NoUsid { width: 0, .. } => {
            ErrorKind::InvalidArgument
        }
        FormatError::Width { .. }
        | FormatError::TooWide { .. }
        | FormatError::NoUsid { .. }
        | FormatError::Usids(_) => ErrorKind::Full,
    }
}

const fn of_fields(error: &ExpansionError) -> ErrorKind {
    match error {
        ExpansionError::TooManyFields { .. } | ExpansionError::TooManyBits(_) => ErrorKind::Full,
        ExpansionError::NoFields | ExpansionError::Field { .. } => ErrorKind::InvalidArgument,
    }
}

const fn of_argument(error: &ArgumentError) -> ErrorKind {
    match error {
        ArgumentError::Fields(error) => of_fields(error),
        ArgumentError::Count { count, most, .. } if *count > *most => ErrorKind::Full,
        ArgumentError::TooMany { .. } | ArgumentError::NotListed { .. } => ErrorKind::NotFound,
        _ => ErrorKind::InvalidArgument,
    }
}

/// The state a profile has to be in for a step, and what it is.
pub(super) fn check(
    name: Named,
    is: ProfileState,
    said: Option<ProfileState>,
    to: Option<ProfileState>,
) -> Result<(), StepError> {
    use ProfileState::{Init, Offline, Online};
    if let Some(said) = said.filter(|&said| said != is) {
        return Err(StepError::OtherState(name, is, said));
    }
    match (is, to) {
        (_, None) | (Init | Online, Some(Offline)) | (Offline, Some(Online | Init)) => Ok(()),
        (is, Some(to)) => Err(StepError::NoStep(name, is, to)),
    }
}

/// Refuses what is given though it can't be.
pub(super) fn refuse(name: Named, state: ProfileState, given: &[(&'static str, bool)]) -> Result<(), StepError> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some(&(what, _)) => Err(StepError::NotNow { name, state, what }),
        None => Ok(()),
    }
}

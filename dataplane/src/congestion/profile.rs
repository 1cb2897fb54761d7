//! CC profiles: which congestion control QPs have, as a controller sets it (the MRC paper, II-D; OCP's controller API).
//!
//! A CC profile goes INIT -> OFFLINE -> ONLINE and back, as EV profiles do; QPs use profiles that are ONLINE. [`CcProfiles`] owns them.
//!
//! Nothing here is on the path of a packet.

#[cfg(test)]
mod tests;

use super::{Algorithm, FixedWindow, Nscc, NsccError, NsccParams, Unlimited};
use crate::Ns;
use crate::path::profile::{ErrorKind, ProfileState};
use std::collections::BTreeMap;

/// CC profiles at most.
pub const CC_PROFILES_MAX: usize = 64;

/// What a controller sets of a CC profile: the algorithm and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CcConfig {
    /// No congestion control.
    None,
    /// A constant window.
    Fixed {
        /// Bytes; one full packet at least is taken.
        bytes: u64,
    },
    /// NSCC.
    Nscc(NsccParams),
}

impl CcConfig {
    /// Checks the parameters, for a NIC with or without `TrimmingEnabled`.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn validate(&self, trimming: bool) -> Result<(), NsccError> {
        match self {
            CcConfig::None | CcConfig::Fixed { .. } => Ok(()),
            CcConfig::Nscc(params) => params.validate(trimming),
        }
    }

    /// A new window's algorithm, for a link of `rate_bps` bits a second and full packets of `full` bytes (MSS + 60).
    #[must_use]
    pub fn algorithm(&self, rate_bps: u64, full: u32, trimming: bool, now: Ns) -> Algorithm {
        match self {
            CcConfig::None => Algorithm::Unlimited(Unlimited),
            CcConfig::Fixed { bytes } => Algorithm::Fixed(FixedWindow::new(*bytes, full)),
            CcConfig::Nscc(params) => Algorithm::Nscc(Nscc::new(params, rate_bps, full, trimming, now)),
        }
    }
}

/// Why an operation on [`CcProfiles`] is refused; nothing has changed then. Each message names the profile, the reason and the way out.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CcProfileError {
    /// No such profile.
    #[error("CC profile {0} does not exist: create it, or name one that exists")]
    NoSuchProfile(u64),
    /// The number is taken.
    #[error("CC profile {0} exists already: configure it, or choose another number")]
    Exists(u64),
    /// There are [`CC_PROFILES_MAX`].
    #[error(
        "CC profile {0} can't be created, for there are {max} already, which is the maximum: remove one that is not needed",
        max = CC_PROFILES_MAX
    )]
    TableFull(u64),
    /// The profile is in another state.
    #[error("CC profile {id} is {state}, and {action} needs {needs}")]
    InvalidState {
        /// The profile.
        id: u64,
        /// The state it is in.
        state: ProfileState,
        /// What was asked for.
        action: &'static str,
        /// The state, and how to get there.
        needs: &'static str,
    },
    /// QPs use the profile.
    #[error("CC profile {id} is used by {qps} QP{}: close them, or give them another profile", if *qps == 1 { "" } else { "s" })]
    Busy {
        /// The profile.
        id: u64,
        /// How many.
        qps: u64,
    },
    /// A QP gives back what none has.
    #[error("CC profile {0} is used by no QP: release it once for each time it was acquired")]
    NotAcquired(u64),
    /// A parameter is outside its range.
    #[error("CC profile {id}: {error}")]
    Argument {
        /// The profile.
        id: u64,
        /// Which one.
        error: NsccError,
    },
}

impl CcProfileError {
    /// The kind, for those who hand errors on as numbers.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            CcProfileError::NoSuchProfile(_) => ErrorKind::NotFound,
            CcProfileError::TableFull(_) => ErrorKind::Full,
            CcProfileError::InvalidState { .. } | CcProfileError::NotAcquired(_) => ErrorKind::InvalidState,
            CcProfileError::Busy { .. } => ErrorKind::Busy,
            CcProfileError::Exists(_) | CcProfileError::Argument { .. } => ErrorKind::InvalidArgument,
        }
    }
}

/// A CC profile, as [`CcProfiles`] keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CcProfile {
    config: Option<CcConfig>,
    online: bool,
    qps: u64,
}

impl CcProfile {
    /// Its state.
    #[must_use]
    pub const fn state(&self) -> ProfileState {
        match (&self.config, self.online) {
            (None, _) => ProfileState::Init,
            (Some(_), false) => ProfileState::Offline,
            (Some(_), true) => ProfileState::Online,
        }
    }

    /// Its configuration; `None` in INIT.
    #[must_use]
    pub const fn config(&self) -> Option<&CcConfig> {
        self.config.as_ref()
    }

    /// How many QPs use it.
    #[must_use]
    pub const fn qps(&self) -> u64 {
        self.qps
    }
}

/// All CC profiles of a NIC, by the numbers that the controller chose. Whatever is refused changes nothing.
#[derive(Clone, Debug)]
pub struct CcProfiles {
    trimming: bool,
    profiles: BTreeMap<u64, CcProfile>,
}

impl CcProfiles {
    /// No profiles yet, for a NIC with or without `TrimmingEnabled`.
    #[must_use]
    pub const fn new(trimming: bool) -> CcProfiles {
        CcProfiles { trimming, profiles: BTreeMap::new() }
    }

    /// Creates a profile in INIT.
    ///
    /// # Errors
    /// The number is taken, or there are [`CC_PROFILES_MAX`].
    pub fn create(&mut self, id: u64) -> Result<(), CcProfileError> {
        if self.profiles.contains_key(&id) {
            return Err(CcProfileError::Exists(id));
        }
        if self.profiles.len() == CC_PROFILES_MAX {
            return Err(CcProfileError::TableFull(id));
        }
        self.profiles.insert(id, CcProfile::default());
        Ok(())
    }

    /// Removes a profile that is in INIT.
    ///
    /// # Errors
    /// No such profile, or another state.
    pub fn remove(&mut self, id: u64) -> Result<(), CcProfileError> {
        self.require(id, &[ProfileState::Init], "removing it", "INIT: reset it first")?;
        self.profiles.remove(&id);
        Ok(())
    }

    /// Configures a profile, and takes it from INIT to OFFLINE; in OFFLINE, configures it anew.
    ///
    /// # Errors
    /// No such profile; it is ONLINE; or a parameter is outside its range.
    pub fn configure(&mut self, id: u64, config: CcConfig) -> Result<(), CcProfileError> {
        let trimming = self.trimming;
        let allowed = [ProfileState::Init, ProfileState::Offline];
        let profile = self.require(id, &allowed, "configuring it", "INIT or OFFLINE: take it OFFLINE first")?;
        config.validate(trimming).map_err(|error| CcProfileError::Argument { id, error })?;
        profile.config = Some(config);
        Ok(())
    }

    /// Takes a profile from OFFLINE to ONLINE.
    ///
    /// # Errors
    /// No such profile, or another state.
    pub fn online(&mut self, id: u64) -> Result<(), CcProfileError> {
        let needs = "OFFLINE: configure it first";
        self.require(id, &[ProfileState::Offline], "going ONLINE", needs)?.online = true;
        Ok(())
    }

    /// Takes a profile from ONLINE to OFFLINE.
    ///
    /// # Errors
    /// No such profile, another state, or busy: QPs use it.
    pub fn offline(&mut self, id: u64) -> Result<(), CcProfileError> {
        let profile = self.require(id, &[ProfileState::Online], "going OFFLINE", "ONLINE")?;
        if profile.qps > 0 {
            return Err(CcProfileError::Busy { id, qps: profile.qps });
        }
        profile.online = false;
        Ok(())
    }

    /// Takes a profile from OFFLINE to INIT, and forgets its configuration.
    ///
    /// # Errors
    /// No such profile, or another state.
    pub fn reset(&mut self, id: u64) -> Result<(), CcProfileError> {
        self.require(id, &[ProfileState::Offline], "going to INIT", "OFFLINE")?.config = None;
        Ok(())
    }

    /// A QP begins to use a profile; any number may.
    ///
    /// # Errors
    /// No such profile, or it is not ONLINE.
    pub fn acquire(&mut self, id: u64) -> Result<(), CcProfileError> {
        self.require(id, &[ProfileState::Online], "a QP", "ONLINE: bring it online first")?.qps += 1;
        Ok(())
    }

    /// A QP no longer uses a profile.
    ///
    /// # Errors
    /// No such profile, or no QP uses it.
    pub fn release(&mut self, id: u64) -> Result<(), CcProfileError> {
        let profile = self.profiles.get_mut(&id).ok_or(CcProfileError::NoSuchProfile(id))?;
        profile.qps = profile.qps.checked_sub(1).ok_or(CcProfileError::NotAcquired(id))?;
        Ok(())
    }

    /// A profile, for queries.
    ///
    /// # Errors
    /// No such profile.
    pub fn profile(&self, id: u64) -> Result<&CcProfile, CcProfileError> {
        self.profiles.get(&id).ok_or(CcProfileError::NoSuchProfile(id))
    }

    /// Numbers of the profiles, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.profiles.keys().copied()
    }

    fn require(
        &mut self,
        id: u64,
        allowed: &[ProfileState],
        action: &'static str,
        needs: &'static str,
    ) -> Result<&mut CcProfile, CcProfileError> {
        let profile = self.profiles.get_mut(&id).ok_or(CcProfileError::NoSuchProfile(id))?;
        let state = profile.state();
        if allowed.contains(&state) {
            Ok(profile)
        } else {
            Err(CcProfileError::InvalidState { id, state, action, needs })
        }
    }
}

//! CC profiles, as controllers change and query them.

use super::step::{check, refuse};
use super::{Controller, Named, Profiles, StepError};
use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::{CcConfig, CcProfileError, CcProfiles};
use dataplane::nic::NicParams;
use dataplane::path::profile::ProfileState;
use std::collections::BTreeMap;

/// The algorithm of a CC profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CcAlgorithm {
    /// No congestion control.
    None,
    /// NSCC.
    Nscc,
}

/// NSCC's settings, as OCP's controller API has them. What it does not have is as the NIC's own parameters say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NsccSettings {
    /// Quick adapt never acts.
    pub disable_quick_adapt: bool,
    /// Bytes after whose receipt the window is updated before the period is over, 1 at least.
    pub adjust_bytes: u32,
    /// The period of updates in ns, 1 at least.
    pub adjust_period_ns: u32,
    /// Round-trip time of the longest path without load in ns, 1 at least.
    pub base_rtt_ns: u32,
    /// Full packets that the window of the reference network gains each period, 0 to 1.
    pub eta: f32,
    /// Scales fair increase, 1 to 100.
    pub fair_increase: f32,
    /// Scales fast increase, 0.01 to 100.
    pub fast_increase: f32,
    /// What a decrease takes of the excess, 0 to 1.
    pub gamma: f32,
    /// The largest part of the window that a decrease takes, 0 to 1.
    pub max_decrease: f32,
    /// The largest window in bytes; one full packet at least.
    pub max_window: u32,
    /// Quick adapt acts below the largest window divided by 2 to the power of this, 0 to 31.
    pub quick_adapt_gate: u8,
    /// Queueing delay in ns above which a SACK sets off quick adapt, where packets are not trimmed.
    pub quick_adapt_threshold_ns: u32,
    /// The target queue delay in ns, 1 at least.
    pub target_delay_ns: u32,
}

impl NsccSettings {
    /// The parameters of an engine, over those that it has anyway.
    #[must_use]
    pub fn over(&self, base: &NsccParams) -> NsccParams {
        NsccParams {
            pass_through: false,
            config_base_rtt_ns: self.base_rtt_ns.into(),
            eta_multiplier: self.eta.into(),
            fair_increase_multiplier: self.fair_increase.into(),
            fast_increase_multiplier: self.fast_increase.into(),
            quick_adapt_gate: self.quick_adapt_gate.into(),
            disable_quick_adapt: self.disable_quick_adapt,
            quick_adapt_threshold_ns: self.quick_adapt_threshold_ns.into(),
            override_target_queue_delay_ns: Some(self.target_delay_ns.into()),
            max_window_bytes: Some(self.max_window.into()),
            gamma: self.gamma.into(),
            max_decrease: self.max_decrease.into(),
            adjust_bytes: Some(self.adjust_bytes.into()),
            adjust_period_ns: Some(self.adjust_period_ns.into()),
            ..*base
        }
    }
}

/// A change of a CC profile. A profile that nobody has changed is in INIT.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CcStep {
    /// The state that it is taken to be in.
    pub from: Option<ProfileState>,
    /// The state that it goes to.
    pub to: Option<ProfileState>,
    /// The algorithm.
    pub algorithm: Option<CcAlgorithm>,
    /// Its settings, if it is NSCC.
    pub settings: Option<NsccSettings>,
}

/// What there is to know of a CC profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CcView {
    /// Its state.
    pub state: ProfileState,
    /// The algorithm; `None` in INIT.
    pub algorithm: Option<CcAlgorithm>,
    /// The settings, if they were given.
    pub settings: Option<NsccSettings>,
}

/// What settings of a NIC's CC profiles go by.
#[derive(Clone, Copy, Debug)]
pub struct CcBase {
    nscc: NsccParams,
    trimming: bool,
    full: u32,
}

impl CcBase {
    /// Of a NIC with these parameters.
    #[must_use]
    pub fn of(params: &NicParams) -> CcBase {
        let nscc = if let CcConfig::Nscc(nscc) = params.congestion { nscc } else { NsccParams::default() };
        CcBase { nscc, trimming: params.trimming, full: params.transport.full() }
    }
}

/// The CC profiles of a NIC, and the settings as they were given.
#[derive(Debug)]
pub(super) struct CcDesk {
    base: CcBase,
    table: CcProfiles,
    given: BTreeMap<u64, NsccSettings>,
}

impl CcDesk {
    pub(super) const fn new(base: CcBase) -> CcDesk {
        CcDesk { base, table: CcProfiles::new(base.trimming), given: BTreeMap::new() }
    }
}

impl Controller {
    /// The same, with CC profiles that go by `base`.
    #[must_use]
    pub fn with_congestion(mut self, base: CcBase) -> Controller {
        self.profiles.set_cc_base(base);
        self
    }
}

impl Profiles {
    /// The CC profiles, for queries.
    #[must_use]
    pub const fn cc_table(&self) -> &CcProfiles {
        &self.cc.table
    }

    /// What settings of CC profiles go by, from now on.
    pub(super) fn set_cc_base(&mut self, base: CcBase) {
        self.cc = CcDesk::new(base);
    }

    /// Changes a CC profile, and takes it a step of its life: to OFFLINE it needs the algorithm, and to go ONLINE, NSCC's settings.
    ///
    /// # Errors
    /// [`StepError`]; nothing changes then.
    pub fn modify_cc(&mut self, id: u64, step: &CcStep) -> Result<(), StepError> {
        let name = Named::Cc(id);
        if id == 0 {
            return Err(StepError::Wrong { name, why: "this is what the NIC's file says: take another number".into() });
        }
        let view = self.cc_view(id);
        check(name, view.state, step.from, step.to)?;
        match (view.state, step.to) {
            (ProfileState::Init, Some(_)) => {
                let missing = || StepError::Missing { name, what: "ALGORITHM", to: ProfileState::Offline };
                let config = self.cc_config(id, step.algorithm.ok_or_else(missing)?, step.settings)?;
                self.cc.table.create(id)?;
                if let Err(error) = self.cc.table.configure(id, config) {
                    // What was there a moment ago can be taken back.
                    let _ = self.cc.table.remove(id);
                    return Err(error.into());
                }
                self.cc.given.extend(step.settings.map(|settings| (id, settings)));
            }
            (ProfileState::Offline, None | Some(ProfileState::Online)) => self.change_cc(id, step, &view)?,
            (state, to) => {
                let given = [("ALGORITHM", step.algorithm.is_some()), ("CONFIG", step.settings.is_some())];
                refuse(name, state, &given)?;
                match to {
                    Some(ProfileState::Offline) => self.cc.table.offline(id)?,
                    Some(ProfileState::Init) => {
                        self.cc.table.reset(id)?;
                        self.cc.table.remove(id)?;
                        self.cc.given.remove(&id);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn change_cc(&mut self, id: u64, step: &CcStep, view: &CcView) -> Result<(), StepError> {
        let algorithm = step.algorithm.or(view.algorithm).unwrap_or(CcAlgorithm::None);
        // Another algorithm has other settings.
        let kept = view.settings.filter(|_| view.algorithm == Some(algorithm));
        let settings = step.settings.or(kept);
        let config = self.cc_config(id, algorithm, settings)?;
        if step.to.is_some() && algorithm == CcAlgorithm::Nscc && settings.is_none() {
            return Err(StepError::Missing { name: Named::Cc(id), what: "CONFIG", to: ProfileState::Online });
        }
        self.cc.table.configure(id, config)?;
        self.cc.given.remove(&id);
        self.cc.given.extend(settings.map(|settings| (id, settings)));
        if step.to.is_some() {
            self.cc.table.online(id)?;
        }
        Ok(())
    }

    fn cc_config(
        &self,
        id: u64,
        algorithm: CcAlgorithm,
        settings: Option<NsccSettings>,
    ) -> Result<CcConfig, StepError> {
        let name = Named::Cc(id);
        let CcBase { nscc, full, .. } = self.cc.base;
        match (algorithm, settings) {
            (CcAlgorithm::None, None) => Ok(CcConfig::None),
            (CcAlgorithm::None, Some(_)) => {
                Err(StepError::Wrong { name, why: "without an algorithm it has no settings: leave CONFIG out".into() })
            }
            (CcAlgorithm::Nscc, None) => Ok(CcConfig::Nscc(nscc)),
            (CcAlgorithm::Nscc, Some(settings)) if settings.max_window < full => {
                let why = format!("max_cwnd is {} bytes, and a full packet has {full}", settings.max_window);
                Err(StepError::Wrong { name, why })
            }
            (CcAlgorithm::Nscc, Some(settings)) => {
                let params = settings.over(&nscc);
                params.validate(self.cc.base.trimming).map_err(|error| StepError::Nscc(name, error))?;
                Ok(CcConfig::Nscc(params))
            }
        }
    }

    /// What there is to know of a CC profile.
    #[must_use]
    pub fn cc_view(&self, id: u64) -> CcView {
        let profile = self.cc.table.profile(id).ok();
        CcView {
            state: profile.map_or(ProfileState::Init, |profile| profile.state()),
            algorithm: profile.and_then(|profile| profile.config()).map(|config| match config {
                CcConfig::Nscc(_) => CcAlgorithm::Nscc,
                CcConfig::None | CcConfig::Fixed { .. } => CcAlgorithm::None,
            }),
            settings: self.cc.given.get(&id).copied(),
        }
    }

    /// A QP begins to use a CC profile: what it says.
    ///
    /// # Errors
    /// No such profile, or it is not ONLINE.
    pub fn acquire_cc(&mut self, id: u64) -> Result<CcConfig, CcProfileError> {
        self.cc.table.acquire(id)?;
        Ok(self.cc.table.profile(id)?.config().copied().unwrap_or(CcConfig::None))
    }

    /// A QP uses a CC profile no more.
    ///
    /// # Errors
    /// No such profile, or no QP uses it.
    pub fn release_cc(&mut self, id: u64) -> Result<(), CcProfileError> {
        self.cc.table.release(id)
    }
}

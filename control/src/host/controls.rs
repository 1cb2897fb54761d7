//! What a controller does with a device: formats of EVs, EV profiles and their events, CC profiles. Operators (`mrcnic ctl`) have the same ones.

use super::device::Device;
use super::ev_events::EvEvents;
use crate::controller::{
    CcStep, CcView, Controller, EvName, EvProfileStep, EvProfileView, FormatStep, FormatView, StepError,
};
use dataplane::nic::EvState;
use dataplane::path::profile::{EV_FORMATS_MAX, EV_PROFILES_MAX, EVS_MAX, EVS_PER_PROFILE_MAX};

/// Events of EVs that a queue holds at most.
pub const EV_EVENTS_MAX: usize = 1 << 20;

/// Why a call of a controller's did nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The control thread has died, or the device is closed.
    #[error("the NIC does not run any more: open a new device")]
    Gone,
    /// The step is refused.
    #[error(transparent)]
    Step(#[from] StepError),
    /// A queue of no entries, or of more than [`EV_EVENTS_MAX`].
    #[error("a queue of events holds 1 to 1048576 entries, not {0}")]
    Depth(usize),
}

/// How much there may be of what controllers make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLimits {
    /// EV format profiles.
    pub formats: usize,
    /// EV profiles.
    pub profiles: usize,
    /// EVs of all profiles together.
    pub evs: u32,
    /// How many of them are free.
    pub evs_free: u32,
    /// EVs of one profile.
    pub evs_per_profile: u32,
    /// CC profiles.
    pub cc_profiles: usize,
}

impl Device {
    fn control<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Controller) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        self.operator().and_then(|operator| operator.control(self.name(), work)).ok_or(ControlError::Gone)
    }

    /// Changes an EV format profile, and takes it a step of its life. A profile that nobody has changed is in INIT, whatever its number.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn modify_ev_format(&self, id: u64, step: FormatStep) -> Result<(), ControlError> {
        Ok(self.control(move |controller| controller.profiles_mut().modify_format(id, &step))??)
    }

    /// What there is to know of an EV format profile.
    ///
    /// # Errors
    /// [`ControlError::Gone`].
    pub fn ev_format(&self, id: u64) -> Result<FormatView, ControlError> {
        self.control(move |controller| controller.profiles().format_view(id))
    }

    /// Changes an EV profile, and takes it a step of its life; 0 is what the NIC's file says, and not changed.
    ///
    /// # Errors
    /// [`ControlError`]. EVs before the one that is refused have changed.
    pub fn modify_ev_profile(&self, id: u64, step: EvProfileStep) -> Result<(), ControlError> {
        Ok(self.control(move |controller| controller.modify_profile(id, &step))??)
    }

    /// What there is to know of an EV profile; `None` for one in INIT.
    ///
    /// # Errors
    /// [`ControlError::Gone`].
    pub fn ev_profile(&self, id: u64) -> Result<Option<EvProfileView>, ControlError> {
        self.control(move |controller| controller.profiles().view(id))
    }

    /// The EVs of a profile and their states, one for each place: `None` for a place without an EV.
    ///
    /// # Errors
    /// [`ControlError::Gone`].
    pub fn evs_of(&self, id: u64) -> Result<Vec<Option<(EvName, EvState)>>, ControlError> {
        self.control(move |controller| controller.profile_evs(id))
    }

    /// The states of EVs of a profile, up to the first that it does not have, and whether that was so.
    ///
    /// # Errors
    /// [`ControlError::Gone`].
    pub fn ev_states(
        &self,
        id: u64,
        names: Vec<EvName>,
    ) -> Result<(Vec<EvState>, Result<(), StepError>), ControlError> {
        self.control(move |controller| controller.ev_states_of(id, &names))
    }

    /// A queue of `capacity` places, 1 to [`EV_EVENTS_MAX`], for changes of the EVs of all profiles, as their masks say.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn ev_events(&self, capacity: usize) -> Result<EvEvents, ControlError> {
        if capacity == 0 || capacity > EV_EVENTS_MAX {
            return Err(ControlError::Depth(capacity));
        }
        let (events, listener) = EvEvents::new(capacity);
        self.control(move |controller| controller.listen(&listener))?;
        Ok(events)
    }

    /// Changes a CC profile, and takes it a step of its life; 0 is what the NIC's file says, and not changed.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn modify_cc_profile(&self, id: u64, step: CcStep) -> Result<(), ControlError> {
        Ok(self.control(move |controller| controller.profiles_mut().modify_cc(id, &step))??)
    }

    /// What there is to know of a CC profile.
    ///
    /// # Errors
    /// [`ControlError::Gone`].
    pub fn cc_profile(&self, id: u64) -> Result<CcView, ControlError> {
        self.control(move |controller| controller.profiles().cc_view(id))
    }

    /// How much there may be of what controllers make.
    ///
    /// # Errors
    /// [`ControlError::Gone`].
    pub fn control_limits(&self) -> Result<ControlLimits, ControlError> {
        self.control(|controller| ControlLimits {
            formats: EV_FORMATS_MAX,
            profiles: EV_PROFILES_MAX,
            evs: EVS_MAX,
            evs_free: controller.profiles().table().free_evs(),
            evs_per_profile: EVS_PER_PROFILE_MAX,
            cc_profiles: dataplane::congestion::profile::CC_PROFILES_MAX,
        })
    }
}

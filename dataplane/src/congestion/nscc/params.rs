//! What governs NSCC.

/// The rate of the reference network in bits a second (Scala MRC NIC documentation, `ReferenceNetworkRTT`).
pub(super) const REFERENCE_RATE: u64 = 400_000_000_000;

/// Parameters of NSCC; names, defaults and ranges follow the Scala MRC NIC documentation, ScalaMrcNscc. Times are in ns and have no
/// upper limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NsccParams {
    /// `PassThrough`: the window is computed, and limits nothing.
    pub pass_through: bool,
    /// `ConfigBaseRTT`: round-trip time of the longest path without load; 1 ns at least, and 2 ns where the target comes from it and
    /// packets are trimmed.
    pub config_base_rtt_ns: u64,
    /// `AlphaMultiplier`: scales proportional increase; 1 to 100.
    pub alpha_multiplier: f64,
    /// `FairIncreaseMultiplier`: scales fair increase; 1 to 100.
    pub fair_increase_multiplier: f64,
    /// `FastIncreaseMultiplier`: scales fast increase; 0.01 to 100.
    pub fast_increase_multiplier: f64,
    /// `EtaMultiplier`: scales what is added once a base RTT; 0 to 1.
    pub eta_multiplier: f64,
    /// `DelayAlpha`: weight of a new sample in the average queueing delay; 0 to 1.
    pub delay_alpha: f64,
    /// `QuickAdaptGate`: quick adapt acts below the maximum window divided by 2 to the power of this; 0 to 31.
    pub quick_adapt_gate: u32,
    /// `DisableQuickAdapt`.
    pub disable_quick_adapt: bool,
    /// `QuickAdaptThreshold`: queueing delay above which a SACK is a trigger, where packets are not trimmed.
    pub quick_adapt_threshold_ns: u64,
    /// `MaxCongestionWindow` in full packets, 1 to 4096; `None` (`OverrideSpecMaxCongestionWindow` false) for 1.5 bandwidth-delay
    /// products.
    pub override_max_window: Option<u32>,
    /// `TargetQueueDelay`, 1 ns at least; `None` (`OverrideSpecTargetQueueDelay` false) for one that follows from `ConfigBaseRTT`.
    pub override_target_queue_delay_ns: Option<u64>,
    /// `TargetQueueDelayMargin`: queueing delay below which SACKs count towards fast increase.
    pub target_queue_delay_margin_ns: u64,
    /// `ReferenceNetworkRTT`: with 400 Gbps the network that the multipliers are meant for; 1 ns at least.
    pub reference_network_rtt_ns: u64,
    /// The largest window in bytes, up to [`super::WINDOW_MAX`] (OCP's `max_cwnd`). It goes before `override_max_window`.
    pub max_window_bytes: Option<u64>,
    /// What a decrease takes of the window, times the average delay's excess over the target; 0 to 1 (OCP's `gamma`).
    pub gamma: f64,
    /// The largest part of the window that a decrease takes; 0 to 1 (OCP's `max_md_jump`).
    pub max_decrease: f64,
    /// Bytes after whose receipt the window is updated before the period is over, 1 at least (OCP's `adjust_bytes_threshold`); `None` for
    /// 8 full packets.
    pub adjust_bytes: Option<u64>,
    /// The period of updates, 1 ns at least (OCP's `adjust_period_threshold`); `None` for `ConfigBaseRTT`.
    pub adjust_period_ns: Option<u64>,
}

impl Default for NsccParams {
    fn default() -> Self {
        NsccParams {
            pass_through: false,
            config_base_rtt_ns: 6_000,
            alpha_multiplier: 4.0,
            fair_increase_multiplier: 5.0,
            fast_increase_multiplier: 1.0,
            eta_multiplier: 0.15,
            delay_alpha: 0.25,
            quick_adapt_gate: 3,
            disable_quick_adapt: false,
            quick_adapt_threshold_ns: 24_000,
            override_max_window: None,
            override_target_queue_delay_ns: None,
            target_queue_delay_margin_ns: 1_000,
            reference_network_rtt_ns: 6_000,
            max_window_bytes: None,
            gamma: 0.8,
            max_decrease: 0.5,
            adjust_bytes: None,
            adjust_period_ns: None,
        }
    }
}

/// A parameter of NSCC outside its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NsccError {
    /// A multiplier or weight.
    #[error("{attribute} is {value}, but may be {min} to {max}")]
    Factor {
        /// The attribute, as the documentation names it.
        attribute: &'static str,
        /// What was given.
        value: f64,
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// A whole number.
    #[error("{attribute} is {value}, but may be {min} to {max}")]
    Number {
        /// The attribute, as the documentation names it.
        attribute: &'static str,
        /// What was given.
        value: u32,
        /// Smallest value.
        min: u32,
        /// Largest value.
        max: u32,
    },
    /// A number of bytes.
    #[error("{attribute} is {value} bytes, but may be 1 to {max}")]
    Bytes {
        /// The attribute, as OCP's controller API names it.
        attribute: &'static str,
        /// What was given.
        value: u64,
        /// Largest value.
        max: u64,
    },
    /// A time.
    #[error("{attribute} is {value_ns} ns, but must be {min_ns} ns at least")]
    Time {
        /// The attribute, as the documentation names it.
        attribute: &'static str,
        /// What was given, in ns.
        value_ns: u64,
        /// Smallest value, in ns.
        min_ns: u64,
    },
}

impl NsccParams {
    /// Checks all ranges, for a NIC with or without `TrimmingEnabled`.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn validate(&self, trimming: bool) -> Result<(), NsccError> {
        // Three quarters of 1 ns are no target.
        let base_min = if trimming && self.override_target_queue_delay_ns.is_none() { 2 } else { 1 };
        let times = [
            ("ConfigBaseRTT", self.config_base_rtt_ns, base_min),
            ("TargetQueueDelay", self.override_target_queue_delay_ns.unwrap_or(1), 1),
            ("ReferenceNetworkRTT", self.reference_network_rtt_ns, 1),
            ("adjust_period_threshold", self.adjust_period_ns.unwrap_or(1), 1),
        ];
        for (attribute, value_ns, min_ns) in times {
            if value_ns < min_ns {
                return Err(NsccError::Time { attribute, value_ns, min_ns });
            }
        }
        let factors = [
            ("AlphaMultiplier", self.alpha_multiplier, 1.0, 100.0),
            ("FairIncreaseMultiplier", self.fair_increase_multiplier, 1.0, 100.0),
            ("FastIncreaseMultiplier", self.fast_increase_multiplier, 0.01, 100.0),
            ("EtaMultiplier", self.eta_multiplier, 0.0, 1.0),
            ("DelayAlpha", self.delay_alpha, 0.0, 1.0),
            ("gamma", self.gamma, 0.0, 1.0),
            ("max_md_jump", self.max_decrease, 0.0, 1.0),
        ];
        for (attribute, value, min, max) in factors {
            if !(min..=max).contains(&value) {
                return Err(NsccError::Factor { attribute, value, min, max });
            }
        }
        let numbers = [
            ("QuickAdaptGate", self.quick_adapt_gate, 0, 31),
            ("MaxCongestionWindow", self.override_max_window.unwrap_or(1), 1, 4096),
        ];
        for (attribute, value, min, max) in numbers {
            if !(min..=max).contains(&value) {
                return Err(NsccError::Number { attribute, value, min, max });
            }
        }
        let bytes = [
            ("max_cwnd", self.max_window_bytes.unwrap_or(1), super::WINDOW_MAX),
            ("adjust_bytes_threshold", self.adjust_bytes.unwrap_or(1), u64::MAX),
        ];
        for (attribute, value, max) in bytes {
            if value == 0 || value > max {
                return Err(NsccError::Bytes { attribute, value, max });
            }
        }
        Ok(())
    }

    /// Target queue delay in ns.
    pub(super) fn target_ns(&self, trimming: bool) -> u64 {
        self.override_target_queue_delay_ns.unwrap_or(if trimming {
            // Not `x 3 / 4`, which overflows.
            self.config_base_rtt_ns - self.config_base_rtt_ns.div_ceil(4)
        } else {
            self.config_base_rtt_ns
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let params = NsccParams::default();
        assert_eq!(params.validate(true), Ok(()));
        assert_eq!(params.validate(false), Ok(()));
        assert_eq!((params.target_ns(true), params.target_ns(false)), (4_500, 6_000));
    }

    #[test]
    fn what_is_outside_its_range_is_refused_by_name() {
        type Change = fn(&mut NsccParams);
        let refused: [(Change, &str); 18] = [
            (|p| p.config_base_rtt_ns = 1, "ConfigBaseRTT is 1 ns, but must be 2 ns at least"),
            (|p| p.override_target_queue_delay_ns = Some(0), "TargetQueueDelay is 0 ns, but must be 1 ns at least"),
            (|p| p.reference_network_rtt_ns = 0, "ReferenceNetworkRTT is 0 ns, but must be 1 ns at least"),
            (|p| p.alpha_multiplier = 0.5, "AlphaMultiplier is 0.5, but may be 1 to 100"),
            (|p| p.alpha_multiplier = f64::NAN, "AlphaMultiplier is NaN, but may be 1 to 100"),
            (|p| p.fair_increase_multiplier = 100.5, "FairIncreaseMultiplier is 100.5, but may be 1 to 100"),
            (|p| p.fast_increase_multiplier = 0.0, "FastIncreaseMultiplier is 0, but may be 0.01 to 100"),
            (|p| p.fast_increase_multiplier = f64::INFINITY, "FastIncreaseMultiplier is inf, but may be 0.01 to 100"),
            (|p| p.eta_multiplier = -0.1, "EtaMultiplier is -0.1, but may be 0 to 1"),
            (|p| p.delay_alpha = 1.1, "DelayAlpha is 1.1, but may be 0 to 1"),
            (|p| p.quick_adapt_gate = 32, "QuickAdaptGate is 32, but may be 0 to 31"),
            (|p| p.override_max_window = Some(0), "MaxCongestionWindow is 0, but may be 1 to 4096"),
            (|p| p.override_max_window = Some(4_097), "MaxCongestionWindow is 4097, but may be 1 to 4096"),
            (|p| p.gamma = 1.5, "gamma is 1.5, but may be 0 to 1"),
            (|p| p.max_decrease = -0.5, "max_md_jump is -0.5, but may be 0 to 1"),
            (|p| p.adjust_period_ns = Some(0), "adjust_period_threshold is 0 ns, but must be 1 ns at least"),
            (|p| p.adjust_bytes = Some(0), "adjust_bytes_threshold is 0 bytes, but may be 1 to 18446744073709551615"),
            (|p| p.max_window_bytes = Some(0), "max_cwnd is 0 bytes, but may be 1 to 1099511627776"),
        ];
        for (change, words) in refused {
            let mut params = NsccParams::default();
            change(&mut params);
            assert_eq!(params.validate(true).unwrap_err().to_string(), words);
        }
    }

    #[test]
    fn one_ns_of_base_rtt_will_do_where_the_target_does_not_vanish() {
        let one = NsccParams { config_base_rtt_ns: 1, ..NsccParams::default() };
        assert_eq!(one.validate(false), Ok(()));
        assert_eq!(NsccParams { override_target_queue_delay_ns: Some(1), ..one }.validate(true), Ok(()));
        let none = NsccParams { config_base_rtt_ns: 0, ..one };
        assert_eq!(none.validate(false).unwrap_err().to_string(), "ConfigBaseRTT is 0 ns, but must be 1 ns at least");
    }
}

//! Congestion control.

use super::table::{Acts, component};
use super::value::TimeVal;

component! {
    /// What governs every congestion window of the NIC.
    NsccComponent at nscc, "nscc";
    ["ScalaMrcNscc"] {
        "PassThrough" pass_through: bool = "false", Acts::Engine("congestion.pass_through"),
            "Whether windows are computed and shown, and hold nothing back.";
        "ConfigBaseRTT" config_base_rtt: TimeVal = "6000ns" in ["1ns"], Acts::Engine("base_rtt_ns, congestion.config_base_rtt_ns, transport.nack_wait_ns"),
            "Round-trip time of the longest path without load, from which windows start. With the rate it makes the bandwidth-delay product, 1.5 of which are the first and the largest window; it also makes the target queue delay, the pace of increases, and the size of the active set. A shorter round trip that is measured takes its place, except in the target.";
        "AlphaMultiplier" alpha_multiplier: f64 = "4.0" in ["1.0", "100.0"], Acts::Engine("congestion.alpha_multiplier"),
            "Scales proportional increase, the growth while the queueing delay is below the target.";
        "FairIncreaseMultiplier" fair_increase_multiplier: f64 = "5.0" in ["1.0", "100.0"], Acts::Engine("congestion.fair_increase_multiplier"),
            "Scales fair increase, the growth while the queueing delay is at the target or above.";
        "FastIncreaseMultiplier" fast_increase_multiplier: f64 = "1.0" in ["0.01", "100.0"], Acts::Engine("congestion.fast_increase_multiplier"),
            "Scales fast increase, the growth after more than a window was acknowledged with a delay below both the target and `TargetQueueDelayMargin`.";
        "EtaMultiplier" eta_multiplier: f64 = "0.15" in ["0.0", "1.0"], Acts::Engine("congestion.eta_multiplier"),
            "Scales eta, which the window gains once a `ConfigBaseRTT` at most. At 0 it gains nothing so.";
        "DelayAlpha" delay_alpha: f64 = "0.25" in ["0.0", "1.0"], Acts::Engine("congestion.delay_alpha"),
            "Weight of a new sample in the average queueing delay that `mrc-transport-stats` shows; the average keeps the rest.";
        "QuickAdaptGate" quick_adapt_gate: u64 = "3" in ["0", "31"], Acts::Engine("congestion.quick_adapt_gate"),
            "Quick Adapt, when it is set off, cuts the window to what its last period acknowledged, if that is less than the largest window divided by 2 to the power of this: 56,250 bytes at the defaults. A period is the base round-trip time and the target together.";
        "DisableQuickAdapt" disable_quick_adapt: bool = "false", Acts::Engine("congestion.disable_quick_adapt"),
            "Whether Quick Adapt never acts.";
        "QuickAdaptThreshold" quick_adapt_threshold: TimeVal = "24000ns", Acts::Engine("congestion.quick_adapt_threshold_ns"),
            "Without `TrimmingEnabled`: the queueing delay of a single SACK above which it sets off Quick Adapt.";
        "OverrideSpecMaxCongestionWindow" override_spec_max_congestion_window: bool = "false", Acts::Engine("congestion.override_max_window"),
            "Whether `MaxCongestionWindow` is the first and the largest window, whatever the bandwidth-delay product is or becomes.";
        "MaxCongestionWindow" max_congestion_window: u64 = "107" in ["1", "4096"], Acts::Engine("congestion.override_max_window"),
            "The largest window with `OverrideSpecMaxCongestionWindow`, in full packets of `MSS` + 60 bytes; 107 are 444,692 bytes, which is a little less than what follows from the defaults.";
        "OverrideSpecTargetQueueDelay" override_spec_target_queue_delay: bool = "false", Acts::Engine("congestion.override_target_queue_delay_ns"),
            "Whether `TargetQueueDelay` is the target, and not a time that follows from `ConfigBaseRTT`.";
        "TargetQueueDelay" target_queue_delay: TimeVal = "4500ns", Acts::Engine("congestion.override_target_queue_delay_ns"),
            "The target queue delay with `OverrideSpecTargetQueueDelay`, 1ns at least then. Proportional increase and the period of Quick Adapt follow the target, wherever it comes from.";
        "TargetQueueDelayMargin" target_queue_delay_margin: TimeVal = "1000ns", Acts::Engine("congestion.target_queue_delay_margin_ns"),
            "The queueing delay below which SACKs that are also below the target count towards fast increase. One between the margin and the target ends it.";
        "ReferenceNetworkRTT" reference_network_rtt: TimeVal = "6000ns", Acts::Engine("congestion.reference_network_rtt_ns"),
            "With 400 Gbps, the network that the multipliers are meant for: gains and eta scale with the NIC's bandwidth-delay product in relation to this one's. 1ns at least.";
    }
}

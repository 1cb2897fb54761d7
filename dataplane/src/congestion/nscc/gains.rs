//! What follows from NSCC's parameters, and never changes.

use super::params::{NsccParams, REFERENCE_RATE};
use super::{ADJUST_PACKETS, DELAY_BITS, TIME_MAX, WINDOW_MAX};

/// Bits behind the point of a gain.
const GAIN_BITS: u32 = 32;
/// Parts that 1 has, in decimal as such factors are given.
const PARTS: u64 = 1_000_000;

/// What the rules need of the parameters, in the form in which they need it.
#[derive(Clone, Debug)]
pub(super) struct Gains {
    pub(super) pass_through: bool,
    pub(super) rate: u64,
    pub(super) full: u64,
    pub(super) config_base_rtt: u64,
    pub(super) target: u64,
    pub(super) margin: u64,
    pub(super) max_is_given: bool,
    /// Bytes a ns of missing delay, with [`GAIN_BITS`].
    pub(super) proportional: u64,
    /// Bytes, with [`GAIN_BITS`].
    pub(super) fair: u64,
    /// Bytes a byte, with [`GAIN_BITS`].
    pub(super) fast: u64,
    /// Bytes.
    pub(super) eta: u64,
    /// Weight of a sample of delay, with [`DELAY_BITS`].
    pub(super) weight: u64,
    pub(super) quick_adapt: bool,
    pub(super) gate: u32,
    /// Delay in ns that triggers quick adapt; [`u64::MAX`] where trimmed packets tell.
    pub(super) delay_trigger: u64,
    /// Bytes, and ns, after which the window is updated.
    pub(super) adjust_bytes: u64,
    pub(super) period: u64,
    /// What a decrease takes for the whole excess, and at most, in parts of a million.
    pub(super) gamma: u64,
    pub(super) max_decrease: u64,
}

impl Gains {
    pub(super) fn new(params: &NsccParams, rate: u64, full: u64, trimming: bool) -> Gains {
        let reference_rtt = params.reference_network_rtt_ns as f64;
        // The bandwidth-delay product in units of the reference network's.
        let size = rate as f64 * params.config_base_rtt_ns as f64 / (REFERENCE_RATE as f64 * reference_rtt);
        let packet = full as f64 * size;
        Gains {
            pass_through: params.pass_through,
            rate,
            full,
            config_base_rtt: params.config_base_rtt_ns.min(TIME_MAX),
            target: params.target_ns(trimming).min(TIME_MAX),
            margin: params.target_queue_delay_margin_ns,
            max_is_given: params.override_max_window.is_some() || params.max_window_bytes.is_some(),
            // (target / reference RTT) / target: the target itself drops out.
            proportional: fraction(params.alpha_multiplier * packet / reference_rtt, GAIN_BITS),
            fair: fraction(params.fair_increase_multiplier * packet, GAIN_BITS),
            fast: fraction(params.fast_increase_multiplier * size, GAIN_BITS),
            eta: fraction(params.eta_multiplier * packet, 0).min(WINDOW_MAX),
            weight: fraction(params.delay_alpha, DELAY_BITS).min(1 << DELAY_BITS),
            quick_adapt: !params.disable_quick_adapt,
            gate: params.quick_adapt_gate.min(u64::BITS - 1),
            delay_trigger: if trimming { u64::MAX } else { params.quick_adapt_threshold_ns },
            adjust_bytes: params.adjust_bytes.unwrap_or(ADJUST_PACKETS * full),
            period: params.adjust_period_ns.unwrap_or(params.config_base_rtt_ns).min(TIME_MAX),
            gamma: parts(params.gamma),
            max_decrease: parts(params.max_decrease),
        }
    }

    /// 1.5 bandwidth-delay products in bytes, one full packet at least.
    pub(super) fn window(&self, base_rtt: u64) -> u64 {
        // Bits a second times ns, by 8 bits and 10^9 ns, and by 3 / 2.
        let bytes = u128::from(self.rate) * u128::from(base_rtt) * 3 / 16_000_000_000;
        u64::try_from(bytes).unwrap_or(WINDOW_MAX).clamp(self.full, WINDOW_MAX)
    }
}

/// The nearest binary fraction.
fn fraction(value: f64, bits: u32) -> u64 {
    (value * (1u64 << bits) as f64).round() as u64
}

/// Parts of a million.
fn parts(value: f64) -> u64 {
    (value.clamp(0.0, 1.0) * PARTS as f64).round() as u64
}

/// So many parts of a million of a number.
pub(super) fn part_of(parts: u64, number: u128) -> u64 {
    u64::try_from(number * u128::from(parts) / u128::from(PARTS)).unwrap_or(u64::MAX)
}

/// A gain times a number.
#[inline]
pub(super) fn gained(gain: u64, by: u64) -> u64 {
    u64::try_from((u128::from(gain) * u128::from(by)) >> GAIN_BITS).unwrap_or(u64::MAX)
}

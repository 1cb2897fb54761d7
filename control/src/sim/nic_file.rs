//! The NICs of a scenario file: `[nic]`. Keys are the documented attributes' names in snake case.

use super::file::{FileError, Source, name_or_table};
use super::units::{Rate, Size, Time};
use crate::config::{Setup, SprayingType};
use crate::controller::PROBE_PERIOD;
use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{Credits, FetchParams, HostBufferParams, NicParams, WhenFull};
use dataplane::path::SprayingParams;
use dataplane::time::SEC;
use dataplane::transport::{RttMode, TransportParams};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Probes that are this far apart, in ns, are none: the longest period of a controller.
const NO_PROBES: u64 = 8 * SEC;

/// `[nic]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NicTable {
    config: Option<PathBuf>,
    mss: Option<u32>,
    data_rate: Option<Rate>,
    base_rtt: Option<Time>,
    max_psn_range: Option<u32>,
    sack_loss_min_retx_pkts: Option<u32>,
    initial_ack_timeout: Option<Time>,
    fixed_rexmit_time_enable: Option<bool>,
    linear_retry_count: Option<u8>,
    exponential_retry_count: Option<u8>,
    rtt_timestamp_mode: Option<RttTimestampMode>,
    dynamic_mpr: Option<bool>,
    qp_groups_enabled: Option<bool>,
    trimming: Option<bool>,
    use_distinct_dscp_for_retransmit: Option<bool>,
    ecn_skip: Option<bool>,
    congestion: Option<CongestionTable>,
    spraying: SprayingName,
    entropy_mask_bits: Option<u8>,
    starting_port_offset: Option<u16>,
    active_ev_set_size: Option<u32>,
    assumed_bad_time: Option<Time>,
    probes: Option<bool>,
    reliability_probe_period: Option<Time>,
    egress_buffer: Option<Size>,
    host_interface: Option<HostInterfaceTable>,
    ingress_buffer: Option<IngressTable>,
}

/// `RTTTimestampMode`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RttTimestampMode {
    LocalDatabase,
    WireTimestamp,
}

impl From<SprayingType> for SprayingName {
    fn from(spraying: SprayingType) -> SprayingName {
        match spraying {
            SprayingType::Default => SprayingName::Default,
            SprayingType::None => SprayingName::None,
        }
    }
}

/// How packets are spread, where there is no EV profile.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SprayingName {
    /// Over the NIC's own entropy values.
    #[default]
    Default,
    /// Not at all: each QP has a UDP source port.
    None,
}

/// The host's side of the NIC.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostInterfaceTable {
    lane_count: u32,
    lane_rate: Rate,
    read_request_size: Option<u32>,
}

/// A buffer of received payload, and the host that drains it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct IngressTable {
    size: Option<Size>,
    drain_rate: Option<Rate>,
    low_percent: Option<u8>,
    high_percent: Option<u8>,
    max_penalty: Option<u8>,
    restore_cwnd: Option<bool>,
    when_full: Option<WhenFullName>,
    overhead: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum WhenFullName {
    Nack,
    Drop,
}

/// `congestion`: `"nscc"`, `"none"`, or a table.
#[derive(Clone, Debug)]
enum CongestionTable {
    None,
    Keys(Box<CongestionKeys>),
}

/// A fixed window, or the parameters of NSCC.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct CongestionKeys {
    fixed: Option<Size>,
    pass_through: Option<bool>,
    alpha_multiplier: Option<f64>,
    fair_increase_multiplier: Option<f64>,
    fast_increase_multiplier: Option<f64>,
    eta_multiplier: Option<f64>,
    delay_alpha: Option<f64>,
    quick_adapt_gate: Option<u32>,
    disable_quick_adapt: Option<bool>,
    quick_adapt_threshold: Option<Time>,
    max_congestion_window: Option<u32>,
    target_queue_delay: Option<Time>,
    target_queue_delay_margin: Option<Time>,
    reference_network_rtt: Option<Time>,
}

name_or_table!(
    CongestionTable,
    "\"nscc\" or \"none\", or a table with fixed or parameters of NSCC",
    |text: &str| match text {
        "none" => Ok(CongestionTable::None),
        "nscc" => Ok(CongestionTable::Keys(Box::default())),
        _ => Err(E::custom(format!("{text:?} is no such control: give \"nscc\", \"none\" or {{ fixed = \"450KB\" }}"))),
    },
    |keys| CongestionTable::Keys(Box::new(keys))
);

impl CongestionKeys {
    fn config(&self, base_rtt_ns: u64) -> CcConfig {
        if let Some(fixed) = self.fixed {
            return CcConfig::Fixed { bytes: fixed.0 };
        }
        let default = NsccParams::default();
        let ns = |time: Option<Time>, default: u64| time.map_or(default, |time| time.0);
        CcConfig::Nscc(NsccParams {
            pass_through: self.pass_through.unwrap_or(default.pass_through),
            config_base_rtt_ns: base_rtt_ns,
            alpha_multiplier: self.alpha_multiplier.unwrap_or(default.alpha_multiplier),
            fair_increase_multiplier: self.fair_increase_multiplier.unwrap_or(default.fair_increase_multiplier),
            fast_increase_multiplier: self.fast_increase_multiplier.unwrap_or(default.fast_increase_multiplier),
            eta_multiplier: self.eta_multiplier.unwrap_or(default.eta_multiplier),
            delay_alpha: self.delay_alpha.unwrap_or(default.delay_alpha),
            quick_adapt_gate: self.quick_adapt_gate.unwrap_or(default.quick_adapt_gate),
            disable_quick_adapt: self.disable_quick_adapt.unwrap_or(default.disable_quick_adapt),
            quick_adapt_threshold_ns: ns(self.quick_adapt_threshold, default.quick_adapt_threshold_ns),
            override_max_window: self.max_congestion_window,
            override_target_queue_delay_ns: self.target_queue_delay.map(|time| time.0),
            target_queue_delay_margin_ns: ns(self.target_queue_delay_margin, default.target_queue_delay_margin_ns),
            reference_network_rtt_ns: ns(self.reference_network_rtt, default.reference_network_rtt_ns),
            ..default
        })
    }
}

impl IngressTable {
    fn params(&self) -> HostBufferParams {
        let default = HostBufferParams::default();
        HostBufferParams {
            capacity: self.size.map_or(default.capacity, |size| size.0),
            drain_rate: self.drain_rate.map_or(default.drain_rate, |rate| rate.0),
            credits: default.credits,
            low_percent: self.low_percent.unwrap_or(default.low_percent),
            high_percent: self.high_percent.unwrap_or(default.high_percent),
            max_penalty: self.max_penalty.unwrap_or(default.max_penalty),
            restore_cwnd: self.restore_cwnd.unwrap_or(default.restore_cwnd),
            when_full: match self.when_full {
                Some(WhenFullName::Drop) => WhenFull::Drop { overhead: self.overhead.unwrap_or(0) },
                Some(WhenFullName::Nack) | None => WhenFull::Nack,
            },
        }
    }
}

/// What the fabric says where the file does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct FabricDefaults {
    /// Bits a second of a NIC's links together.
    pub(super) data_rate: u64,
}

impl NicTable {
    /// The file with the NICs' configuration, if there is one.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Payload of a full packet in bytes.
    pub(super) fn mss(&self) -> u32 {
        self.mss.unwrap_or(TransportParams::default().mss)
    }

    /// Whether packets are sprayed, where there is no EV profile.
    pub(super) const fn spraying(&self) -> SprayingName {
        self.spraying
    }

    /// `ConfigBaseRTT` in ns, where it is given.
    pub(super) fn base_rtt_ns(&self) -> Option<u64> {
        self.base_rtt.map(|time| time.0)
    }

    /// `ReliabilityProbePeriod` in ns; so long without probes that none is sent in any scenario.
    pub(super) fn probe_period_ns(&self) -> u64 {
        let period = self.reliability_probe_period.map_or(PROBE_PERIOD, |time| time.0);
        if self.probes.unwrap_or(true) { period } else { NO_PROBES }
    }

    /// The parameters of every NIC as its configuration has them; of the table's keys only those that no configuration has may be given.
    /// `setup` is the configuration's; each NIC has `ports`.
    pub(super) fn configured(&self, setup: &Setup, ports: u8, source: Source<'_>) -> Result<NicParams, FileError> {
        for (key, place) in CONFIGURED {
            if source.has(&["nic".into(), (*key).into()]) {
                let why = format!("does not go with a configuration: take it away, and set {place} there or by --set");
                return Err(source.wrong(&["nic".into(), (*key).into()], why));
            }
        }
        let mut params = setup.nic;
        // The rate of a port; windows are towards all ports of a NIC.
        params.data_rate = params.data_rate.saturating_mul(ports.into());
        params.transport.dynamic_mpr = self.dynamic_mpr.unwrap_or(params.transport.dynamic_mpr);
        params.ecn_skip = self.ecn_skip.unwrap_or(params.ecn_skip);
        // Links bring frames one by one.
        params.merge_sacks = false;
        params.spraying.assumed_bad_ns = self.assumed_bad_ns();
        Ok(params)
    }

    /// `ReliabilityProbePeriod` in ns, where a configuration has it.
    pub(super) fn configured_probe_period_ns(&self, setup: &Setup) -> u64 {
        if self.probes.unwrap_or(true) { setup.probe_period_ns } else { NO_PROBES }
    }

    /// For how long a value that timed out is not used, in ns; without end where probes bring it back.
    fn assumed_bad_ns(&self) -> Option<u64> {
        let probes = self.probes.unwrap_or(true);
        let for_a_time = self.assumed_bad_time.map(|time| time.0);
        for_a_time.or(if probes { None } else { SprayingParams::default().assumed_bad_ns })
    }

    fn transport(&self, base_rtt_ns: u64) -> TransportParams {
        let default = TransportParams::default();
        TransportParams {
            mss: self.mss(),
            max_psn_range: self.max_psn_range.unwrap_or(default.max_psn_range),
            sack_loss_min_retx_pkts: self.sack_loss_min_retx_pkts.unwrap_or(default.sack_loss_min_retx_pkts),
            initial_ack_timeout_ns: self.initial_ack_timeout.map_or(default.initial_ack_timeout_ns, |time| time.0),
            fixed_rexmit_time: self.fixed_rexmit_time_enable.unwrap_or(default.fixed_rexmit_time),
            linear_retry_count: self.linear_retry_count.unwrap_or(default.linear_retry_count),
            exponential_retry_count: self.exponential_retry_count.unwrap_or(default.exponential_retry_count),
            nack_wait_ns: base_rtt_ns,
            rtt_mode: match self.rtt_timestamp_mode {
                Some(RttTimestampMode::WireTimestamp) => RttMode::WireTimestamp,
                Some(RttTimestampMode::LocalDatabase) | None => RttMode::LocalDatabase,
            },
            dynamic_mpr: self.dynamic_mpr.unwrap_or(default.dynamic_mpr),
            ..default
        }
    }

    fn spraying_params(&self) -> SprayingParams {
        let default = SprayingParams::default();
        SprayingParams {
            entropy_mask_bits: self.entropy_mask_bits.unwrap_or(default.entropy_mask_bits),
            starting_port_offset: self.starting_port_offset.unwrap_or(default.starting_port_offset),
            active_ev_set_size: self.active_ev_set_size.unwrap_or(default.active_ev_set_size),
            assumed_bad_ns: self.assumed_bad_ns(),
        }
    }

    /// The parameters of every NIC, checked.
    pub(super) fn params(
        &self,
        fabric: FabricDefaults,
        base_rtt_ns: u64,
        source: Source<'_>,
    ) -> Result<NicParams, FileError> {
        let mut params = NicParams {
            transport: self.transport(base_rtt_ns),
            spraying: self.spraying_params(),
            data_rate: self.data_rate.map_or(fabric.data_rate, |rate| rate.0),
            base_rtt_ns,
            congestion: match &self.congestion {
                Some(CongestionTable::None) => CcConfig::None,
                Some(CongestionTable::Keys(keys)) => keys.config(base_rtt_ns),
                None => CongestionKeys::default().config(base_rtt_ns),
            },
            host_buffer: self.ingress_buffer.map(|table| table.params()),
            ..NicParams::default()
        };
        params.qp_groups = self.qp_groups_enabled.unwrap_or(params.qp_groups);
        params.trimming = self.trimming.unwrap_or(params.trimming);
        params.ecn_skip = self.ecn_skip.unwrap_or(params.ecn_skip);
        params.distinct_retransmit_dscp =
            self.use_distinct_dscp_for_retransmit.unwrap_or(params.distinct_retransmit_dscp);
        params.limits.egress_buffer = self.egress_buffer.map(|size| size.0);
        params.limits.fetch = self.host_interface.map(|host| FetchParams {
            rate: host.lane_rate.0.saturating_mul(host.lane_count.into()),
            read_request: host.read_request_size.unwrap_or(64),
            credits: Credits::default(),
        });
        self.check(&params, source)?;
        Ok(params)
    }

    fn check(&self, params: &NicParams, source: Source<'_>) -> Result<(), FileError> {
        let wrong = |keys: &[&str], why: String| {
            let path: Vec<_> = ["nic"].iter().chain(keys).map(|&key| key.into()).collect();
            Err(source.wrong(&path, why))
        };
        if let Some(CongestionTable::Keys(keys)) = &self.congestion {
            let fixed = keys.fixed.is_some();
            if fixed && **keys != (CongestionKeys { fixed: keys.fixed, ..CongestionKeys::default() }) {
                return wrong(&["congestion", "fixed"], "does not go with parameters of NSCC: take either away".into());
            }
        }
        let drops = |table: &IngressTable| table.when_full == Some(WhenFullName::Drop);
        if self.ingress_buffer.is_some_and(|table| table.overhead.is_some() && !drops(&table)) {
            return wrong(&["ingress_buffer", "overhead"], "goes with when_full = \"drop\" only".into());
        }
        if self.reliability_probe_period.is_some_and(|time| time.0 == 0 || time.0 > NO_PROBES) {
            return wrong(&["reliability_probe_period"], "is out of range: give 1ns to 8s".into());
        }
        let Err(error) = params.validate() else { return Ok(()) };
        let why = error.to_string();
        let key = ATTRIBUTES.iter().find(|(name, _)| why.starts_with(name)).map_or(&[][..], |(_, key)| key);
        wrong(key, why)
    }
}

/// Keys that a configuration has, too, and where.
const CONFIGURED: &[(&str, &str)] = &[
    ("mss", "qp_manager.mss"),
    ("data_rate", "network_interface.uplink.data_rate"),
    ("base_rtt", "nscc.config_base_rtt"),
    ("max_psn_range", "qp_manager.max_psn_range"),
    ("sack_loss_min_retx_pkts", "qp_manager.sack_loss_min_retx_pkts"),
    ("initial_ack_timeout", "qp_manager.initial_ack_timeout"),
    ("fixed_rexmit_time_enable", "qp_manager.fixed_rexmit_time_enable"),
    ("linear_retry_count", "qp_manager.linear_retry_count"),
    ("exponential_retry_count", "qp_manager.exponential_retry_count"),
    ("rtt_timestamp_mode", "qp_manager.rtt_timestamp_mode"),
    ("qp_groups_enabled", "qp_manager.qp_groups_enabled"),
    ("trimming", "qp_manager.trimming_enabled"),
    ("use_distinct_dscp_for_retransmit", "qp_manager.use_distinct_dscp_for_retransmit"),
    ("congestion", "keys of nscc"),
    ("spraying", "qp_manager.packet_spraying_type"),
    ("entropy_mask_bits", "packet_spraying.entropy_mask_bits"),
    ("starting_port_offset", "packet_spraying.starting_port_offset"),
    ("active_ev_set_size", "packet_spraying.active_ev_set_size"),
    ("reliability_probe_period", "qp_manager.reliability_probe_period"),
    ("egress_buffer", "network_interface.egress_buffer.total_buffer_size and model.limits"),
    ("host_interface", "keys of host_interface and model.limits"),
    ("ingress_buffer", "network_interface.ingress_buffer.total_buffer_size and model.limits"),
];

/// How reasons begin, and the keys that they are about.
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("MSS", &["mss"]),
    ("MaxPSNRange", &["max_psn_range"]),
    ("InitialAckTimeout", &["initial_ack_timeout"]),
    ("LinearRetryCount", &["linear_retry_count"]),
    ("ExponentialRetryCount", &["exponential_retry_count"]),
    ("EntropyMaskBits", &["entropy_mask_bits"]),
    ("StartingPortOffset", &["starting_port_offset"]),
    ("ConfigBaseRTT", &["base_rtt"]),
    ("AlphaMultiplier", &["congestion", "alpha_multiplier"]),
    ("FairIncreaseMultiplier", &["congestion", "fair_increase_multiplier"]),
    ("FastIncreaseMultiplier", &["congestion", "fast_increase_multiplier"]),
    ("EtaMultiplier", &["congestion", "eta_multiplier"]),
    ("DelayAlpha", &["congestion", "delay_alpha"]),
    ("QuickAdaptGate", &["congestion", "quick_adapt_gate"]),
    ("MaxCongestionWindow", &["congestion", "max_congestion_window"]),
    ("TargetQueueDelay", &["congestion", "target_queue_delay"]),
    ("ReferenceNetworkRTT", &["congestion", "reference_network_rtt"]),
    ("limits of the sending side: 90 %", &["egress_buffer"]),
    ("limits of the sending side: a rate", &["host_interface", "lane_rate"]),
    ("the host buffer", &["ingress_buffer"]),
];

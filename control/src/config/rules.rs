//! The rules about more than one value.

use super::rule::{Finding, Rule};
use super::table::{Acts, Attribute, attributes, find};
use super::value::{Kind, SprayingType, Value};
use super::{Config, Loaded};
use dataplane::fabric::DELAY_MAX;
use dataplane::nic::{RATE_MAX, TRANSFER_HEADER};
use dataplane::transport::MSS_MAX;

/// A nanosecond in picoseconds.
const NS: u64 = 1_000;
/// A microsecond.
const US: u64 = 1_000 * NS;
/// Ports are numbered up to this.
const LAST_PORT: u64 = 65_535;

/// What is known of the switches between NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// One balances load by flowlets.
    pub flowlet: bool,
    /// One does not trim.
    pub no_trimming: bool,
}

/// What breaks a rule: the rule, section and key of what is to blame, and why.
type Broken = (Rule, &'static str, String);

/// What stops a NIC with this configuration, besides values outside their ranges.
pub(super) fn stops(loaded: &Loaded) -> Vec<Finding> {
    let config = &loaded.config;
    let documented = [entropy_range(config), target(config), reference(config), base_rtt(config)];
    let mut broken: Vec<Broken> = documented.into_iter().flatten().chain(limits(config)).collect();
    if broken.is_empty() {
        // What only the engine knows of.
        let error = config.setup().nic.validate().err();
        broken.extend(error.map(|error| (Rule::EngineLimit, "model.limits", error.to_string())));
    }
    broken.into_iter().map(|broken| loaded.finding(broken)).collect()
}

fn entropy_range(config: &Config) -> Option<Broken> {
    let spraying = &config.packet_spraying;
    let largest = LAST_PORT + 1 - (1 << spraying.entropy_mask_bits);
    let sprays = config.qp_manager.packet_spraying_type == SprayingType::Default;
    (sprays && spraying.starting_port_offset > largest).then(|| {
        let (offset, bits) = (spraying.starting_port_offset, spraying.entropy_mask_bits);
        let why = format!(
            "{offset} and 2^{bits} ports end beyond port {LAST_PORT}: StartingPortOffset is {largest} at most with {bits} EntropyMaskBits"
        );
        (Rule::EntropyRange, "packet_spraying.starting_port_offset", why)
    })
}

fn target(config: &Config) -> Option<Broken> {
    let nscc = &config.nscc;
    (nscc.override_spec_target_queue_delay && nscc.target_queue_delay.0 < NS).then(|| {
        let why = "is below 1ns: give TargetQueueDelay 1ns or more, or do without OverrideSpecTargetQueueDelay";
        (Rule::TargetQueueDelay, "nscc.target_queue_delay", why.to_owned())
    })
}

fn reference(config: &Config) -> Option<Broken> {
    let why = "is below 1ns: give ReferenceNetworkRTT 1ns or more";
    let broken = (Rule::ReferenceRtt, "nscc.reference_network_rtt", why.to_owned());
    (config.nscc.reference_network_rtt.0 < NS).then_some(broken)
}

fn base_rtt(config: &Config) -> Option<Broken> {
    let nscc = &config.nscc;
    let derived = config.qp_manager.trimming_enabled && !nscc.override_spec_target_queue_delay;
    (derived && nscc.config_base_rtt.0 < 2 * NS).then(|| {
        let why = "is below 2ns, of which three quarters are no target queue delay: give ConfigBaseRTT 2ns or more, \
                   set OverrideSpecTargetQueueDelay, or do without TrimmingEnabled";
        (Rule::BaseRtt, "nscc.config_base_rtt", why.to_owned())
    })
}

/// Limits of this engine that the documentation does not have.
fn limits(config: &Config) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut limit = |is_broken: bool, key: &'static str, why: String| {
        if is_broken {
            broken.push((Rule::EngineLimit, key, why));
        }
    };
    let is_rate = |rate: u64| (1..=RATE_MAX).contains(&rate);
    let mss = config.qp_manager.mss;
    limit(mss > MSS_MAX.into(), "qp_manager.mss", format!("{mss} is more than this engine's MSS of {MSS_MAX}"));
    let data_rate = config.uplink.data_rate.0;
    limit(!is_rate(data_rate), "network_interface.uplink.data_rate", "is no rate of 1 bit/s to 8 Tbit/s".into());
    let is_long = config.medium.delay.0 > DELAY_MAX * NS;
    limit(is_long, "network_interface.medium.delay", "is longer than a minute: give 60s or less".into());
    let sides = [
        ("host_interface.nic_side.lane_bps", config.nic_side.lane_bps, config.nic_side.lane_count),
        ("host_interface.host_side.lane_bps", config.host_side.lane_bps, config.host_side.lane_count),
    ];
    for (key, lane, count) in sides {
        let together = lane.0.saturating_mul(count);
        let is_wrong = if config.model.limits { !is_rate(together) } else { lane.0 > RATE_MAX };
        limit(is_wrong, key, format!("makes with {count} lanes no rate of 1 bit/s to 8 Tbit/s"));
    }
    if !config.model.limits {
        return broken;
    }
    let ingress = config.ingress_buffer.total_buffer_size.0;
    let key = "network_interface.ingress_buffer.total_buffer_size";
    limit(ingress < 2, key, "has no room for data, which model.limits needs".into());
    let egress = u128::from(config.egress_buffer.total_buffer_size.0);
    // The engine's own rule, so that it has its key.
    let full = config.setup().nic.transport.full();
    let key = "network_interface.egress_buffer.total_buffer_size";
    limit(
        egress * 90 / 100 < full.into(),
        key,
        format!("has no room for a full packet: 90 % of it must be {full} bytes"),
    );
    if config.model.pcie_round_trip.0 > 0 {
        for (key, size, least) in transaction_buffers(config) {
            let what = if least == 1 { "byte of data" } else { "header of 16 bytes" };
            limit(size < least, key, format!("has no room for a {what}: give {least}B or more"));
        }
    }
    broken
}

/// The buffers of the transaction layer of the host's link: key, bytes, and how many are the least.
fn transaction_buffers(config: &Config) -> [(&'static str, u64, u64); 8] {
    let Config { nic_side: nic, host_side: host, .. } = config;
    [
        ("host_interface.nic_side.rx_header_buffer_size", nic.rx_header_buffer_size.0, TRANSFER_HEADER),
        ("host_interface.nic_side.tx_header_buffer_size", nic.tx_header_buffer_size.0, TRANSFER_HEADER),
        ("host_interface.nic_side.rx_data_buffer_size", nic.rx_data_buffer_size.0, 1),
        ("host_interface.nic_side.tx_data_buffer_size", nic.tx_data_buffer_size.0, 1),
        ("host_interface.host_side.rx_header_buffer_size", host.rx_header_buffer_size.0, TRANSFER_HEADER),
        ("host_interface.host_side.tx_header_buffer_size", host.tx_header_buffer_size.0, TRANSFER_HEADER),
        ("host_interface.host_side.rx_data_buffer_size", host.rx_data_buffer_size.0, 1),
        ("host_interface.host_side.tx_data_buffer_size", host.tx_data_buffer_size.0, 1),
    ]
}

impl Loaded {
    fn finding(&self, (rule, full, why): Broken) -> Finding {
        let attribute = find(full);
        let key = attribute.filter(|_| self.nested).map_or(full.to_owned(), Attribute::document_name);
        let (file, line) = self.place(full);
        Finding { rule, file: file.to_owned(), line, key, why }
    }

    /// What the configuration does that its writer may not have meant, with what is known of the switches.
    #[must_use]
    pub fn warnings(&self, switches: Switches) -> Vec<Finding> {
        let config = &self.config;
        let mut broken: Vec<Broken> = of_switches(config, switches).into_iter().flatten().collect();
        for attribute in attributes().filter(|attribute| self.set.contains_key(attribute.full)) {
            let changed = attribute.get(config) != attribute.get(&Config::default());
            broken.extend(idle(attribute, config).filter(|_| changed));
            broken.extend(fraction(attribute, config));
        }
        let (depth, window) = (config.qp_manager.sack_loss_min_retx_pkts, config.qp_manager.max_psn_range);
        if depth >= window - 1 {
            let why =
                format!("{depth} is MaxPSNRange - 1 or more: no gap counts as a loss, and timeouts alone find losses");
            broken.push((Rule::SackGapsUnused, "qp_manager.sack_loss_min_retx_pkts", why));
        }
        broken.into_iter().map(|broken| self.finding(broken)).collect()
    }
}

fn of_switches(config: &Config, switches: Switches) -> [Option<Broken>; 2] {
    let sprays = config.qp_manager.packet_spraying_type == SprayingType::Default;
    let flowlets = "sprays packets, and a switch moves flowlets: both choose paths; switch either off";
    let trims = "is set, and a switch does not trim: Quick Adapt waits for NACKs that never come; \
                 set it to false, or have every switch trim";
    [
        (sprays && switches.flowlet)
            .then(|| (Rule::SprayingOverFlowlets, "qp_manager.packet_spraying_type", flowlets.to_owned())),
        (config.qp_manager.trimming_enabled && switches.no_trimming)
            .then(|| (Rule::TrimmingWithoutSwitches, "qp_manager.trimming_enabled", trims.to_owned())),
    ]
}

/// Why an attribute that is set does nothing, if it does nothing.
fn idle(attribute: &'static Attribute, config: &Config) -> Option<Broken> {
    if matches!(attribute.acts, Acts::Limits(_)) && !config.model.limits {
        return Some((Rule::LimitsOff, attribute.full, "acts with model.limits = true only".to_owned()));
    }
    let off = switched_off(attribute, config)?;
    Some((Rule::NotInUse, attribute.full, format!("is not used: {off}")))
}

/// What switches an attribute off.
fn switched_off(attribute: &Attribute, config: &Config) -> Option<&'static str> {
    let Config { nic, qp_manager, nscc, monitor, model, .. } = config;
    let unsprayed = qp_manager.packet_spraying_type == SprayingType::None;
    let (off, why) = match (attribute.section, attribute.key) {
        ("nic", "transport_stats_report_interval") => (!nic.enable_transport_stats, "EnableTransportStats is false"),
        ("host_interface.nic_side" | "host_interface.host_side", key) if key.ends_with("_buffer_size") => {
            (model.pcie_round_trip.0 == 0, "model.pcie_round_trip is 0, so credits hold nothing back")
        }
        ("packet_spraying", _) | ("qp_manager", "reliability_probe_period") => {
            (unsprayed, "PacketSprayingType is None")
        }
        ("nscc", "max_congestion_window") => {
            (!nscc.override_spec_max_congestion_window, "OverrideSpecMaxCongestionWindow is false")
        }
        ("nscc", "target_queue_delay") => {
            (!nscc.override_spec_target_queue_delay, "OverrideSpecTargetQueueDelay is false")
        }
        ("nscc", "quick_adapt_threshold") if nscc.disable_quick_adapt => (true, "DisableQuickAdapt is true"),
        ("nscc", "quick_adapt_threshold") => (qp_manager.trimming_enabled, "TrimmingEnabled is true"),
        ("nscc", "quick_adapt_gate") => (nscc.disable_quick_adapt, "DisableQuickAdapt is true"),
        ("monitor", _) if !nic.enable_monitor => (true, "EnableMonitor is false"),
        ("monitor", "monitor_row_cap") => (!monitor.enable_monitor_row_cap, "EnableMonitorRowCap is false"),
        ("monitor", "monitor_trigger_qp_cap") => {
            (!monitor.enable_monitor_trigger_qp_cap, "EnableMonitorTriggerQpCap is false")
        }
        _ => return None,
    };
    off.then_some(why)
}

/// A time that is not counted as it is given.
fn fraction(attribute: &'static Attribute, config: &Config) -> Option<Broken> {
    let Value::Text(time) = attribute.get(config) else { return None };
    if attribute.kind != Kind::TimeVal {
        return None;
    }
    let is_timer = attribute.full == "qp_manager.initial_ack_timeout";
    let timer = config.qp_manager.initial_ack_timeout.0;
    let why = match (is_timer, time.ends_with("ps")) {
        (true, _) if !timer.is_multiple_of(US) => {
            format!("{time} acts as {}us: timers count whole microseconds", (timer / US).max(1))
        }
        (false, true) => format!("{time} has a fraction of a nanosecond, which is dropped"),
        _ => return None,
    };
    Some((Rule::FractionDropped, attribute.full, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_rules_name_are_in_the_table() {
        for key in [
            "packet_spraying.starting_port_offset",
            "nscc.target_queue_delay",
            "nscc.reference_network_rtt",
            "nscc.config_base_rtt",
            "qp_manager.mss",
            "network_interface.uplink.data_rate",
            "host_interface.nic_side.lane_bps",
            "host_interface.host_side.lane_bps",
            "network_interface.ingress_buffer.total_buffer_size",
            "network_interface.egress_buffer.total_buffer_size",
            "network_interface.medium.delay",
            "model.limits",
            "qp_manager.sack_loss_min_retx_pkts",
            "qp_manager.packet_spraying_type",
            "qp_manager.trimming_enabled",
            "qp_manager.initial_ack_timeout",
        ] {
            assert!(find(key).is_some(), "{key}");
        }
        for (key, size, _) in transaction_buffers(&Config::default()) {
            let default = find(key).map(|attribute| attribute.get(&Config::default()).to_string());
            assert_eq!(default, Some(format!("{}KB", size / 1_000)), "{key}");
        }
    }
}

//! Where each attribute acts: which place of the setup changes with it.

use super::read;
use control::config::{Acts, Monitor, Setup, attributes};
use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{Credits, HostBufferParams, Paths, WhenFull};
use std::fmt::Debug;

/// An attribute that is set, what else it needs, and what its place then has.
struct Case {
    full: &'static str,
    value: &'static str,
    with: &'static str,
    place: fn(&Setup) -> String,
    has: &'static str,
}

/// A place in words.
fn words(place: impl Debug) -> String {
    format!("{place:?}")
}

macro_rules! cases {
    ($( $full:literal = $value:literal $(with $with:literal)?: $place:expr => $has:literal; )*) => {
        &[$( Case { full: $full, value: $value, with: concat!($($with)?), place: |setup| words($place(setup)), has: $has } ),*]
    };
}

fn nscc(setup: &Setup) -> &NsccParams {
    let CcConfig::Nscc(params) = &setup.nic.congestion else { panic!("no NSCC") };
    params
}

fn host(setup: &Setup) -> HostBufferParams {
    setup.nic.host_buffer.unwrap()
}

fn fetch(setup: &Setup) -> Credits {
    setup.nic.limits.fetch.unwrap().credits
}

fn monitor(setup: &Setup) -> &Monitor {
    setup.records.monitor.as_ref().unwrap()
}

const LIMITED: &str = "model.limits = true";
const MONITORED: &str = "nic.enable_monitor = true";

#[rustfmt::skip]
const CASES: &[Case] = cases! {
    "nic.enable_transport_stats" = "false": |s: &Setup| s.records.transport_stats_ns => "None";
    "nic.transport_stats_report_interval" = "\"10us\"": |s: &Setup| s.records.transport_stats_ns => "Some(10000)";
    "nic.enable_event_logging" = "true": |s: &Setup| s.records.events => "true";
    "nic.enable_monitor" = "true": |s: &Setup| s.records.monitor.is_some() => "true";
    "network_interface.uplink.data_rate" = "\"100Gbps\"": |s: &Setup| (s.nic.data_rate, s.nic.bdp()) => "(100000000000, 75000)";
    "network_interface.medium.delay" = "\"2us\"": |s: &Setup| s.link_delay_ns => "2000";
    "network_interface.ingress_buffer.total_buffer_size" = "\"1MB\"" with "model.limits = true": |s: &Setup| host(s).capacity => "900000";
    "network_interface.egress_buffer.total_buffer_size" = "\"512KB\"" with "model.limits = true": |s: &Setup| s.nic.limits.egress_buffer => "Some(512000)";
    "host_interface.nic_side.rx_header_buffer_size" = "\"8KB\"" with "model.limits = true": |s: &Setup| (fetch(s).header_ps, host(s).credits.header_ps) => "(1000, 500)";
    "host_interface.nic_side.tx_header_buffer_size" = "\"8KB\"" with "model.limits = true": |s: &Setup| (fetch(s).header_ps, host(s).credits.header_ps) => "(1000, 1000)";
    "host_interface.nic_side.rx_data_buffer_size" = "\"16KB\"" with "model.limits = true": |s: &Setup| (fetch(s).rate, host(s).credits.rate) => "(256000000000, 4096000000000)";
    "host_interface.nic_side.tx_data_buffer_size" = "\"16KB\"" with "model.limits = true": |s: &Setup| (fetch(s).rate, host(s).credits.rate) => "(4096000000000, 256000000000)";
    "host_interface.host_side.rx_header_buffer_size" = "\"8KB\"" with "model.limits = true": |s: &Setup| (fetch(s).header_ps, host(s).credits.header_ps) => "(1000, 1000)";
    "host_interface.host_side.tx_header_buffer_size" = "\"8KB\"" with "model.limits = true": |s: &Setup| (fetch(s).header_ps, host(s).credits.header_ps) => "(1000, 500)";
    "host_interface.host_side.rx_data_buffer_size" = "\"16KB\"" with "model.limits = true": |s: &Setup| (fetch(s).rate, host(s).credits.rate) => "(4096000000000, 256000000000)";
    "host_interface.host_side.tx_data_buffer_size" = "\"16KB\"" with "model.limits = true": |s: &Setup| (fetch(s).rate, host(s).credits.rate) => "(256000000000, 4096000000000)";
    "host_interface.nic_side.lane_bps" = "\"16Gbps\"" with "model.limits = true": |s: &Setup| host(s).drain_rate => "256000000000";
    "host_interface.nic_side.lane_count" = "13" with "model.limits = true": |s: &Setup| host(s).drain_rate => "409760000000";
    "host_interface.nic_side.read_request_size" = "\"32B\"" with "model.limits = true": |s: &Setup| s.nic.limits.fetch.unwrap().read_request => "32";
    "host_interface.host_side.lane_bps" = "\"16Gbps\"" with "model.limits = true": |s: &Setup| s.nic.limits.fetch.unwrap().rate => "256000000000";
    "host_interface.host_side.lane_count" = "8" with "model.limits = true": |s: &Setup| s.nic.limits.fetch.unwrap().rate => "252160000000";
    "qp_manager.trimming_enabled" = "false": |s: &Setup| s.nic.trimming => "false";
    "qp_manager.use_distinct_dscp_for_retransmit" = "false": |s: &Setup| s.nic.distinct_retransmit_dscp => "false";
    "qp_manager.mss" = "1024": |s: &Setup| s.nic.transport.mss => "1024";
    "qp_manager.max_psn_range" = "2048": |s: &Setup| s.nic.transport.max_psn_range => "2048";
    "qp_manager.qp_groups_enabled" = "false": |s: &Setup| s.nic.qp_groups => "false";
    "qp_manager.packet_spraying_type" = "\"None\"": |s: &Setup| matches!(s.paths(7), Paths::Own { udp_port: 7 }) => "true";
    "qp_manager.sack_loss_min_retx_pkts" = "64": |s: &Setup| s.nic.transport.sack_loss_min_retx_pkts => "64";
    "qp_manager.initial_ack_timeout" = "\"200us\"": |s: &Setup| s.nic.transport.initial_ack_timeout_ns => "200000";
    "qp_manager.reliability_probe_period" = "\"1ms\"": |s: &Setup| s.probe_period_ns => "1000000";
    "qp_manager.fixed_rexmit_time_enable" = "true": |s: &Setup| s.nic.transport.fixed_rexmit_time => "true";
    "qp_manager.linear_retry_count" = "0": |s: &Setup| s.nic.transport.linear_retry_count => "0";
    "qp_manager.exponential_retry_count" = "0": |s: &Setup| s.nic.transport.exponential_retry_count => "0";
    "qp_manager.rtt_timestamp_mode" = "\"WireTimestamp\"": |s: &Setup| s.nic.transport.rtt_mode => "WireTimestamp";
    "packet_spraying.entropy_mask_bits" = "8": |s: &Setup| s.nic.spraying.entropy_mask_bits => "8";
    "packet_spraying.starting_port_offset" = "65408": |s: &Setup| s.nic.spraying.starting_port_offset => "65408";
    "packet_spraying.active_ev_set_size" = "16": |s: &Setup| s.nic.spraying.active_ev_set_size => "16";
    "nscc.pass_through" = "true": |s: &Setup| nscc(s).pass_through => "true";
    "nscc.config_base_rtt" = "\"8us\"": |s: &Setup| (s.nic.base_rtt_ns, nscc(s).config_base_rtt_ns, s.nic.transport.nack_wait_ns) => "(8000, 8000, 8000)";
    "nscc.alpha_multiplier" = "2": |s: &Setup| nscc(s).alpha_multiplier => "2.0";
    "nscc.fair_increase_multiplier" = "2.5": |s: &Setup| nscc(s).fair_increase_multiplier => "2.5";
    "nscc.fast_increase_multiplier" = "0.01": |s: &Setup| nscc(s).fast_increase_multiplier => "0.01";
    "nscc.eta_multiplier" = "0.0": |s: &Setup| nscc(s).eta_multiplier => "0.0";
    "nscc.delay_alpha" = "1.0": |s: &Setup| nscc(s).delay_alpha => "1.0";
    "nscc.quick_adapt_gate" = "5": |s: &Setup| nscc(s).quick_adapt_gate => "5";
    "nscc.disable_quick_adapt" = "true": |s: &Setup| nscc(s).disable_quick_adapt => "true";
    "nscc.quick_adapt_threshold" = "\"12us\"": |s: &Setup| nscc(s).quick_adapt_threshold_ns => "12000";
    "nscc.override_spec_max_congestion_window" = "true": |s: &Setup| nscc(s).override_max_window => "Some(107)";
    "nscc.max_congestion_window" = "54" with "nscc.override_spec_max_congestion_window = true": |s: &Setup| nscc(s).override_max_window => "Some(54)";
    "nscc.override_spec_target_queue_delay" = "true": |s: &Setup| nscc(s).override_target_queue_delay_ns => "Some(4500)";
    "nscc.target_queue_delay" = "\"9us\"" with "nscc.override_spec_target_queue_delay = true": |s: &Setup| nscc(s).override_target_queue_delay_ns => "Some(9000)";
    "nscc.target_queue_delay_margin" = "\"500ns\"": |s: &Setup| nscc(s).target_queue_delay_margin_ns => "500";
    "nscc.reference_network_rtt" = "\"12us\"": |s: &Setup| nscc(s).reference_network_rtt_ns => "12000";
    "monitor.enable_monitor_row_cap" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).row_cap() => "None";
    "monitor.monitor_row_cap" = "0" with "nic.enable_monitor = true": |s: &Setup| monitor(s).row_cap() => "Some(0)";
    "monitor.monitor_triggers" = "\"trim,nack\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).monitor_triggers => "Triggers { trim: true, nack: true, qp_error: false, rto: false }";
    "monitor.enable_monitor_trigger_qp_cap" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).trigger_qp_cap() => "None";
    "monitor.monitor_trigger_qp_cap" = "1" with "nic.enable_monitor = true": |s: &Setup| monitor(s).trigger_qp_cap() => "Some(1)";
    "monitor.filter_local_endpoint" = "\"10.0.0.1:17\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).filter_local_endpoint.clone() => "Any([QpEnd { address: 10.0.0.1, qp: 17 }])";
    "monitor.filter_remote_endpoint" = "\"10.0.0.2:0\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).filter_remote_endpoint.clone() => "Any([QpEnd { address: 10.0.0.2, qp: 0 }])";
    "monitor.filter_either_endpoint" = "\"10.0.0.3:1\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).filter_either_endpoint.clone() => "Any([QpEnd { address: 10.0.0.3, qp: 1 }])";
    "monitor.filter_local_addr" = "\"10.0.0.1, 10.0.0.2\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).filter_local_addr.clone() => "Any([10.0.0.1, 10.0.0.2])";
    "monitor.filter_remote_addr" = "\"10.0.0.2\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).filter_remote_addr.clone() => "Any([10.0.0.2])";
    "monitor.filter_either_addr" = "\"10.0.0.3\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).filter_either_addr.clone() => "Any([10.0.0.3])";
    "monitor.filter_node_id" = "\"3,4\"" with "nic.enable_monitor = true": |s: &Setup| monitor(s).filter_node_id.clone() => "Any([NodeId(3), NodeId(4)])";
    "monitor.log_write" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_write => "false";
    "monitor.log_ack" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_ack => "false";
    "monitor.log_sack" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_sack => "false";
    "monitor.log_nack" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_nack => "false";
    "monitor.log_probe" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_probe => "false";
    "monitor.log_tx" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_tx => "false";
    "monitor.log_rx" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_rx => "false";
    "monitor.log_rtx" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_rtx => "false";
    "monitor.log_nack_trimmed" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_nack_trimmed => "false";
    "monitor.log_nack_trimmed_last_hop" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_nack_trimmed_last_hop => "false";
    "monitor.log_nack_psn_oor" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_nack_psn_oor => "false";
    "monitor.log_nack_unexp" = "false" with "nic.enable_monitor = true": |s: &Setup| monitor(s).log_nack_unexp => "false";
    "model.pcie_round_trip" = "\"1us\"" with "model.limits = true": |s: &Setup| (fetch(s), host(s).credits) => "(Credits { rate: 2048000000000, header_ps: 1000 }, Credits { rate: 2048000000000, header_ps: 1000 })";
    "model.limits" = "true": |s: &Setup| (s.nic.limits.pacing.is_some(), s.nic.host_buffer.is_some()) => "(true, true)";
    "model.own_sacks" = "true": |s: &Setup| s.nic.merge_sacks => "false";
    "model.burst" = "\"10us\"" with "model.limits = true": |s: &Setup| s.nic.limits.pacing.unwrap().burst_ns => "10000";
};

#[test]
fn each_attribute_changes_the_place_where_it_acts() {
    for Case { full, value, with, place, has } in CASES {
        let before = read(with).config.setup();
        let after = read(&format!("{with}\n{full} = {value}")).config.setup();
        assert_eq!(place(&after), *has, "{full}");
        // A place that is there only with the attribute has no value before.
        if !full.ends_with("enable_monitor") {
            assert_ne!(place(&before), *has, "{full}");
        }
        assert_ne!(before, after, "{full}");
        after.nic.validate().unwrap();
    }
}

#[test]
fn every_attribute_that_can_be_set_acts_in_a_case() {
    for attribute in attributes() {
        let acts = CASES.iter().any(|case| case.full == attribute.full);
        assert_eq!(acts, attribute.acts != Acts::ReadOnly, "{}", attribute.full);
    }
}

#[test]
fn the_default_is_the_engines_own_with_probes() {
    let setup = read("").config.setup();
    let mut expected = dataplane::nic::NicParams::default();
    expected.spraying.assumed_bad_ns = None;
    // As a NIC on living ports has it.
    expected.merge_sacks = true;
    assert_eq!(setup.nic, expected);
    assert!(matches!(setup.paths(1), Paths::Sprayed));
    assert_eq!((setup.probe_period_ns, setup.link_delay_ns), (150_000, 100));
    assert_eq!((setup.records.transport_stats_ns, setup.records.events), (Some(1_000_000), false));
    assert_eq!(setup.records.monitor, None);
    assert_eq!(read(MONITORED).config.setup().records.monitor, Some(Monitor::default()));
}

#[test]
fn the_documented_limits_are_those_of_the_defaults() {
    let nic = read(LIMITED).config.setup().nic;
    let host = nic.host_buffer.unwrap();
    assert_eq!((host.capacity, host.drain_rate), (3_600_000, 504_320_000_000));
    assert_eq!(host.when_full, WhenFull::Drop { overhead: 194 });
    assert_eq!(nic.limits.egress_buffer, Some(256_000));
    let (fetch, pacing) = (nic.limits.fetch.unwrap(), nic.limits.pacing.unwrap());
    assert_eq!((fetch.rate, fetch.read_request), (504_320_000_000, 64));
    assert_eq!((pacing.rate, pacing.burst_ns), (400_000_000_000, 0));
    // 256 KB in 500 ns, and 1,000 headers of 16 bytes.
    let credits = Credits { rate: 4_096_000_000_000, header_ps: 500 };
    assert_eq!((fetch.credits, host.credits), (credits, credits));
    let endless = read("model.limits = true\nmodel.pcie_round_trip = \"0ns\"").config.setup().nic;
    assert_eq!(endless.limits.fetch.unwrap().credits, Credits::default());
    assert_eq!(endless.host_buffer.unwrap().credits, Credits::default());
}

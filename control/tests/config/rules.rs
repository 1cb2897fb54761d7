//! The rules, each by its name.

use super::{read, rules_of, wrong};
use control::config::{Loaded, Rule, Severity, Switches};

/// What breaks a rule, the line to blame, and words of the message.
type Broken = (Rule, &'static str, usize, &'static str);

#[rustfmt::skip]
const STOPS: &[Broken] = &[
    (Rule::Syntax, "[qp_manager]\nmss =", 2, "nic.toml:2:"),
    (Rule::Syntax, "[nscc]\n[nscc]\n", 2, "duplicate"),
    (Rule::UnknownAttribute, "[qp_manager]\ninitial_ack_timout = \"1us\"", 2, "did you mean qp_manager.initial_ack_timeout?"),
    (Rule::UnknownAttribute, "[qp_manager]\nInitialAckTimeout = \"1us\"", 2, "did you mean qp_manager.initial_ack_timeout?"),
    (Rule::UnknownAttribute, "[nscc]\nmss = 1", 2, "did you mean qp_manager.mss?"),
    (Rule::UnknownAttribute, "[ncss]\npass_through = true", 1, "did you mean nscc?"),
    (Rule::UnknownAttribute, "colour = 3", 1, "mrcnic config show lists all"),
    (Rule::ReadOnly, "nic.num_down_links = 1", 1, "NumDownLinks can be read, and not set"),
    (Rule::WrongType, "nscc.pass_through = 1", 1, "neither true nor false"),
    (Rule::NotAWholeNumber, "qp_manager.mss = -1", 1, "whole number"),
    (Rule::NotAWholeNumber, "qp_manager.mss = 1.5", 1, "1.5 is no whole number"),
    (Rule::WrongQuantity, "qp_manager.initial_ack_timeout = \"1min\"", 1, "give one of ps, ns, us, ms, s"),
    (Rule::WrongQuantity, "qp_manager.initial_ack_timeout = 150", 1, "has no unit"),
    (Rule::WrongQuantity, "network_interface.uplink.data_rate = \"1GB\"", 1, "give one of Mbps, Gbps"),
    (Rule::NoSuchChoice, "qp_manager.packet_spraying_type = \"none\"", 1, "\"None\", \"Default Packet Spraying\""),
    (Rule::NoSuchChoice, "qp_manager.rtt_timestamp_mode = \"Wire\"", 1, "\"LocalDatabase\", \"WireTimestamp\""),
    (Rule::WrongList, "monitor.filter_node_id = \"1,two\"", 1, "has the entry \"two\""),
    (Rule::WrongList, "monitor.monitor_triggers = \"TRIM\"", 1, "trim, nack, qp_error, rto"),
    (Rule::ShellCharacter, "monitor.filter_local_addr = \"10.0.0.1;\"", 1, "a shell would act on"),
    (Rule::OutOfRange, "\nnic.transport_stats_report_interval = \"9us\"", 2, "TransportStatsReportInterval takes 10us or more"),
    (Rule::OutOfRange, "host_interface.nic_side.lane_count = 17", 1, "LaneCount takes 1 to 16"),
    (Rule::WrongNesting, "qp_manager = 3", 1, "put [qp_manager]"),
    (Rule::WrongNesting, "\"qp_manager.mss\" = 1024", 1, "has a point in its name"),
    (Rule::WrongNesting, "[qp_manager.mss]\n", 1, "is a key and no section"),
    (Rule::EntropyRange, "\npacket_spraying.starting_port_offset = 65409", 2, "65408 at most with 7 EntropyMaskBits"),
    (Rule::EntropyRange, "packet_spraying.entropy_mask_bits = 8\npacket_spraying.starting_port_offset = 65281", 2, "65280 at most with 8"),
    (Rule::TargetQueueDelay, "nscc.override_spec_target_queue_delay = true\nnscc.target_queue_delay = \"0ns\"", 2, "TargetQueueDelay 1ns or more"),
    (Rule::TargetQueueDelay, "nscc.override_spec_target_queue_delay = true\nnscc.target_queue_delay = \"999ps\"", 2, "TargetQueueDelay 1ns or more"),
    (Rule::ReferenceRtt, "nscc.reference_network_rtt = \"0s\"", 1, "ReferenceNetworkRTT 1ns or more"),
    (Rule::BaseRtt, "nscc.config_base_rtt = \"1999ps\"", 1, "ConfigBaseRTT 2ns or more"),
    (Rule::EngineLimit, "qp_manager.mss = 16385", 1, "16384"),
    (Rule::EngineLimit, "network_interface.uplink.data_rate = \"0Gbps\"", 1, "8 Tbit/s"),
    (Rule::EngineLimit, "host_interface.host_side.lane_bps = \"8001Gbps\"", 1, "8 Tbit/s"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.nic_side.lane_bps = \"0Gbps\"", 2, "16 lanes"),
    (Rule::EngineLimit, "model.limits = true\nnetwork_interface.ingress_buffer.total_buffer_size = \"1B\"", 2, "no room"),
    (Rule::EngineLimit, "model.limits = true\nnetwork_interface.egress_buffer.total_buffer_size = \"4KB\"", 2, "no room for a full packet"),
    (Rule::EngineLimit, "network_interface.medium.delay = \"60001ms\"", 1, "give 60s or less"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.nic_side.rx_header_buffer_size = \"15B\"", 2, "a header of 16 bytes: give 16B or more"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.nic_side.tx_header_buffer_size = \"15B\"", 2, "a header of 16 bytes"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.nic_side.rx_data_buffer_size = \"0B\"", 2, "a byte of data: give 1B or more"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.nic_side.tx_data_buffer_size = \"0B\"", 2, "a byte of data"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.host_side.rx_header_buffer_size = \"15B\"", 2, "a header of 16 bytes"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.host_side.tx_header_buffer_size = \"15B\"", 2, "a header of 16 bytes"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.host_side.rx_data_buffer_size = \"0B\"", 2, "a byte of data"),
    (Rule::EngineLimit, "model.limits = true\nhost_interface.host_side.tx_data_buffer_size = \"0B\"", 2, "a byte of data"),
    (Rule::OutOfRange, "model.pcie_round_trip = \"1001us\"", 1, "pcie_round_trip takes 0ns to 1ms"),
];

#[rustfmt::skip]
const WARNS: &[Broken] = &[
    (Rule::LimitsOff, "host_interface.host_side.rx_data_buffer_size = \"1MB\"", 1, "model.limits"),
    (Rule::NotInUse, "model.limits = true\nmodel.pcie_round_trip = \"0ns\"\nhost_interface.nic_side.tx_header_buffer_size = \"1MB\"", 3, "model.pcie_round_trip is 0"),
    (Rule::LimitsOff, "network_interface.egress_buffer.total_buffer_size = \"512KB\"", 1, "model.limits"),
    (Rule::NotInUse, "nscc.max_congestion_window = 54", 1, "OverrideSpecMaxCongestionWindow is false"),
    (Rule::NotInUse, "nscc.target_queue_delay = \"9us\"", 1, "OverrideSpecTargetQueueDelay is false"),
    (Rule::NotInUse, "nscc.quick_adapt_threshold = \"9us\"", 1, "TrimmingEnabled is true"),
    (Rule::NotInUse, "qp_manager.packet_spraying_type = \"None\"\npacket_spraying.entropy_mask_bits = 8", 2, "PacketSprayingType is None"),
    (Rule::NotInUse, "qp_manager.packet_spraying_type = \"None\"\nqp_manager.reliability_probe_period = \"1ms\"", 2, "PacketSprayingType is None"),
    (Rule::NotInUse, "nscc.disable_quick_adapt = true\nnscc.quick_adapt_gate = 5", 2, "DisableQuickAdapt is true"),
    (Rule::NotInUse, "monitor.log_tx = false", 1, "EnableMonitor is false"),
    (Rule::NotInUse, "nic.enable_transport_stats = false\nnic.transport_stats_report_interval = \"1s\"", 2, "EnableTransportStats is false"),
    (Rule::FractionDropped, "qp_manager.initial_ack_timeout = \"1ns\"", 1, "acts as 1us"),
    (Rule::FractionDropped, "qp_manager.initial_ack_timeout = \"2999ns\"", 1, "acts as 2us"),
    (Rule::FractionDropped, "nscc.target_queue_delay_margin = \"1500ps\"", 1, "is dropped"),
    (Rule::SackGapsUnused, "qp_manager.sack_loss_min_retx_pkts = 1023", 1, "MaxPSNRange - 1"),
];

#[test]
fn what_stops_is_refused_with_file_line_rule_and_reason() {
    for (rule, text, line, words) in STOPS {
        let found = wrong(text);
        assert_eq!(rules_of(&found), [*rule], "{text}: {found:?}");
        assert_eq!(found[0].line, Some(*line), "{text}");
        let message = found[0].to_string();
        assert!(message.contains(words) && message.ends_with(&format!(" [{rule}]")), "{text}: {message}");
        assert_eq!(rule.severity(), Severity::Stops);
    }
}

#[test]
fn what_warns_is_taken_and_said() {
    for (rule, text, line, words) in WARNS {
        let found = read(text).warnings(Switches::default());
        assert_eq!(rules_of(&found), [*rule], "{text}: {found:?}");
        assert_eq!(found[0].line, Some(*line), "{text}");
        assert!(found[0].to_string().contains(words), "{text}: {}", found[0]);
        assert_eq!(rule.severity(), Severity::Warns);
    }
}

#[test]
fn switches_draw_the_documented_warnings() {
    let both = Switches { flowlet: true, no_trimming: true };
    let warns = |text: &str| rules_of(&read(text).warnings(both));
    assert_eq!(warns(""), [Rule::SprayingOverFlowlets, Rule::TrimmingWithoutSwitches]);
    assert_eq!(warns("qp_manager.packet_spraying_type = \"None\""), [Rule::TrimmingWithoutSwitches]);
    assert_eq!(warns("qp_manager.trimming_enabled = false"), [Rule::SprayingOverFlowlets]);
    assert_eq!(read("").warnings(Switches::default()), []);
}

#[test]
fn what_is_not_in_use_stops_nothing() {
    for text in [
        "qp_manager.packet_spraying_type = \"None\"\npacket_spraying.starting_port_offset = 65535",
        "nscc.target_queue_delay = \"0ns\"",
        "nscc.config_base_rtt = \"1ns\"\nqp_manager.trimming_enabled = false",
        "nscc.config_base_rtt = \"1ns\"\nnscc.override_spec_target_queue_delay = true",
        "network_interface.egress_buffer.total_buffer_size = \"0B\"",
        "host_interface.nic_side.tx_data_buffer_size = \"0B\"",
        "model.limits = true\nmodel.pcie_round_trip = \"0ns\"\nhost_interface.nic_side.rx_header_buffer_size = \"0B\"",
        "model.limits = true\nhost_interface.host_side.rx_header_buffer_size = \"16B\"\nmodel.pcie_round_trip = \"1ms\"",
        "model.limits = true\nhost_interface.host_side.tx_data_buffer_size = \"1B\"\nmodel.pcie_round_trip = \"1ms\"",
        "packet_spraying.starting_port_offset = 65408",
    ] {
        read(text).config.setup().nic.validate().unwrap();
    }
}

#[test]
fn an_option_is_named_where_it_is_to_blame_and_the_file_where_it_is() {
    let with = |text: &str, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        Loaded::read_with(text, "nic.toml", &sets)
    };
    let found =
        with("nscc.quick_adapt_gate = 32\n", &["qp_manager.mss=0", "mss=1024", "qp_manager=3", "nscc.eta_multiplier"]);
    let lines: Vec<String> = found.unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "nic.toml:1: nscc.quick_adapt_gate: 32 is out of range: QuickAdaptGate takes 0 to 31 [out-of-range]",
            "--set: qp_manager.mss: 0 is out of range: MSS takes 1 or more [out-of-range]",
            "--set: mss: there is no such key; did you mean qp_manager.mss? [unknown-attribute]",
            "--set: qp_manager: is a section and no key: name one of its keys, as in qp_manager.KEY=VALUE [wrong-nesting]",
            "--set: nscc.eta_multiplier: has no value: give KEY=VALUE, as in qp_manager.mss=1024 [syntax]",
        ]
    );
    // The rules about several values see what comes out, and blame what set it.
    let offset = "packet_spraying.starting_port_offset = 65500\n";
    assert_eq!(with(offset, &[]).unwrap_err()[0].line, Some(1));
    assert_eq!(with(offset, &["packet_spraying.entropy_mask_bits=5"]).map(|_| ()), Ok(()));
    let found = with("qp_manager.mss = 1024", &["packet_spraying.starting_port_offset=65500"]).unwrap_err();
    assert!(found[0].to_string().starts_with("--set: packet_spraying.starting_port_offset: 65500 and"), "{}", found[0]);
    let warned = with("", &["nscc.max_congestion_window=54"]).unwrap().warnings(Switches::default());
    assert!(warned[0].to_string().starts_with("--set: nscc.max_congestion_window: is not used"), "{}", warned[0]);
}

#[test]
fn an_option_takes_the_place_of_the_file_and_the_last_of_several_counts() {
    let sets = ["qp_manager.mss=2048".to_owned(), "qp_manager.mss = 1024".to_owned()];
    let loaded = Loaded::read_with("qp_manager.mss = 512\nnscc.delay_alpha = 0.5", "nic.toml", &sets).unwrap();
    assert_eq!((loaded.config.qp_manager.mss, loaded.config.nscc.delay_alpha), (1024, 0.5));
    assert_eq!(loaded.toml(), "[qp_manager]\nmss = 1024\n\n[nscc]\ndelay_alpha = 0.5\n");
    assert_eq!(Loaded::set_alone(&sets).unwrap().config.qp_manager.mss, 1024);
}

#[test]
fn everything_that_is_wrong_is_said_in_the_order_of_lines() {
    let found = wrong("[nscc]\nquick_adapt_gate = 32\nfoo = 1\n[qp_manager]\nmss = 0\n");
    assert_eq!(rules_of(&found), [Rule::OutOfRange, Rule::UnknownAttribute, Rule::OutOfRange]);
    assert_eq!(found.iter().filter_map(|finding| finding.line).collect::<Vec<_>>(), [2, 3, 5]);
}

#[test]
fn every_rule_has_a_test_and_a_name_of_its_own() {
    let elsewhere = [Rule::OtherType, Rule::EmptyPatch, Rule::SprayingOverFlowlets, Rule::TrimmingWithoutSwitches];
    for (at, rule) in Rule::ALL.iter().enumerate() {
        let here = STOPS.iter().chain(WARNS).any(|(other, ..)| other == rule);
        assert!(here != elsewhere.contains(rule), "{rule}");
        assert!(Rule::ALL[..at].iter().all(|other| other.name() != rule.name()), "{rule}");
        assert!(rule.name().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{rule}");
    }
}

#[test]
fn a_rule_of_a_patch_names_the_documents_attribute() {
    let patch = r#"{"PacketSpraying":{"DefaultPacketSpraying":{"StartingPortOffset":{"value":65535,"type":"uint"}}}}"#;
    let found = Loaded::import(patch, "p.json").unwrap_err();
    assert_eq!(rules_of(&found), [Rule::EntropyRange]);
    assert!(found[0].to_string().starts_with("p.json: PacketSpraying.DefaultPacketSpraying.StartingPortOffset: "));
}

//! What each attribute of the engine changes that can be seen from outside: short runs in virtual time, at its default and at another value.

use super::documented::DOCUMENTED;
use super::observed::{
    Late, average_delay, before_the_first_answer, dropped_at_ingress, ends_after, ingress_of_the_second,
    last_first_sent, losses, lowest_port, marks, payloads_in_a_full_egress_buffer, ports, probes, resent_at, retries,
    rule, sacks, sizes, window, window_after_trims,
};
use control::config::{Acts, attributes, find};
use std::cmp::Ordering::{self, Equal, Greater, Less};

/// An attribute that is set.
struct Case {
    /// Section and key.
    full: &'static str,
    /// What it is set to, as in TOML.
    value: &'static str,
    /// What is set beside it, before and after.
    with: &'static str,
    /// Where it shows.
    place: &'static str,
    /// Looks there, in a run with this configuration.
    look: fn(&str) -> String,
    /// What is seen at the default.
    before: &'static str,
    /// What is seen then.
    after: &'static str,
}

/// An attribute that moves a number.
struct Move {
    full: &'static str,
    value: &'static str,
    with: &'static str,
    place: &'static str,
    look: fn(&str) -> u64,
    /// How what is seen then compares with what is seen at the default.
    then: Ordering,
}

/// Attributes of the records and of the monitor: `acts.rs` has the place of the setup that changes with each.
const OF_RECORDS: &[&str] = &["nic.", "monitor."];

const LIMITED: &str = "model.limits = true";
/// A receive buffer that fills soon.
const SMALL: &str = "model.limits = true\nnetwork_interface.ingress_buffer.total_buffer_size = \"40KB\"";
/// The largest window stays when a round trip turns out to be shorter: 107 full packets, 444,692 bytes.
const GIVEN: &str = "nscc.override_spec_max_congestion_window = true\nqp_manager.sack_loss_min_retx_pkts = 16";
const WINDOW: &str = "the packets that are sent before the first answer";
const LAST: &str = "when the last of 256 packets is first sent, in us";
const DROPS: &str = "packets that the ingress buffer has no room for";
const RESENT: &str = "when a packet that is always lost is sent again, in us";
const PORTS: &str = "how many UDP source ports data has";
const GROWN: &str = "the window after 60 lost packets and some time";

macro_rules! cases {
    ($kind:ident: $( $full:literal = $value:literal, $with:expr, $place:expr, $look:expr, $($rest:expr),+; )*) => {
        &[$( cases!(@$kind $full, $value, $with, $place, $look, $($rest),+) ),*]
    };
    (@Case $full:expr, $value:expr, $with:expr, $place:expr, $look:expr, $before:expr, $after:expr) => {
        Case { full: $full, value: $value, with: $with, place: $place, look: $look, before: $before, after: $after }
    };
    (@Move $full:expr, $value:expr, $with:expr, $place:expr, $look:expr, $then:expr) => {
        Move { full: $full, value: $value, with: $with, place: $place, look: $look, then: $then }
    };
}

#[rustfmt::skip]
const CASES: &[Case] = cases! { Case:
    // 1.5 x 400 Gbps x 6 us are 450,000 bytes, and a full packet counts 4,156.
    "network_interface.uplink.data_rate" = "\"100Gbps\"", "", WINDOW, |text| before_the_first_answer(text, 1), "108", "27";
    // Two such links there and two back; two frames of 4,174 bytes take 167 ns, and the answer the rest.
    "network_interface.medium.delay" = "\"2us\"", "", "when a message of one packet is done in a fabric, in ns", ends_after, "572", "8172";
    // 90 % of each, in frames of 4,174 bytes.
    "network_interface.egress_buffer.total_buffer_size" = "\"128KB\"", LIMITED, "data packets in the egress buffer of a port that stands", payloads_in_a_full_egress_buffer, "55", "27";
    "network_interface.ingress_buffer.total_buffer_size" = "\"40KB\"", "model.limits = true\nhost_interface.nic_side.lane_count = 4", DROPS, dropped_at_ingress, "none", "some";
    // 255 x 83.48 ns at 400 Gbps. Fetches of 4,096 bytes take 100 ns for a header, 256 ns at 128 Gbps.
    "host_interface.nic_side.rx_header_buffer_size" = "\"80B\"", LIMITED, LAST, last_first_sent, "21", "25";
    "host_interface.nic_side.tx_header_buffer_size" = "\"80B\"", LIMITED, LAST, last_first_sent, "21", "25";
    "host_interface.nic_side.rx_data_buffer_size" = "\"8KB\"", LIMITED, LAST, last_first_sent, "21", "65";
    "host_interface.nic_side.tx_data_buffer_size" = "\"16KB\"", SMALL, DROPS, dropped_at_ingress, "none", "some";
    // A packet each 500 ns is placed, where one comes each 83.5.
    "host_interface.host_side.rx_header_buffer_size" = "\"16B\"", SMALL, "packets that the ingress buffer has no room for, where the receiver alone has it", ingress_of_the_second, "none", "some";
    "host_interface.host_side.tx_header_buffer_size" = "\"80B\"", LIMITED, LAST, last_first_sent, "21", "25";
    "host_interface.host_side.rx_data_buffer_size" = "\"16KB\"", SMALL, DROPS, dropped_at_ingress, "none", "some";
    "host_interface.host_side.tx_data_buffer_size" = "\"8KB\"", LIMITED, LAST, last_first_sent, "21", "65";
    "host_interface.nic_side.lane_bps" = "\"8Gbps\"", SMALL, DROPS, dropped_at_ingress, "none", "some";
    "host_interface.nic_side.lane_count" = "4", SMALL, DROPS, dropped_at_ingress, "none", "some";
    // Both ways at once: 418.6 Gbps for what comes, and 192 for requests.
    "host_interface.nic_side.read_request_size" = "\"2KB\"", SMALL, DROPS, dropped_at_ingress, "none", "some";
    // Fetches of 4,096 bytes take 256 ns of 128 Gbps, and 259.9 of four lanes.
    "host_interface.host_side.lane_bps" = "\"8Gbps\"", LIMITED, LAST, last_first_sent, "21", "65";
    "host_interface.host_side.lane_count" = "4", LIMITED, LAST, last_first_sent, "21", "66";
    "qp_manager.trimming_enabled" = "false", "", "the DSCP of data, and of retransmissions", marks, "4 8", "0 8";
    "qp_manager.use_distinct_dscp_for_retransmit" = "false", "", "the DSCP of data, and of retransmissions", marks, "4 8", "4 4";
    "qp_manager.mss" = "1024", "", "lengths of data frames of a message of 4,096 bytes", sizes, "4174", "1102 1102 1102 1102";
    "qp_manager.max_psn_range" = "64", "nscc.pass_through = true", WINDOW, |text| before_the_first_answer(text, 1), "1024", "64";
    "qp_manager.qp_groups_enabled" = "false", "", "the packets that two queue pairs send before the first answer", |text| before_the_first_answer(text, 2), "108", "216";
    "qp_manager.packet_spraying_type" = "\"None\"", "", PORTS, ports, "72", "1";
    "qp_manager.sack_loss_min_retx_pkts" = "64", "", "losses found by a gap, and by a timer, where one packet of 256 is lost", losses, "0 1", "1 0";
    "qp_manager.initial_ack_timeout" = "\"200us\"", "", RESENT, resent_at, "150 300 450", "200 400 600";
    "qp_manager.reliability_probe_period" = "\"1ms\"", "", "probes of a NIC one of whose eight paths swallows everything, in 3 ms", probes, "18", "2";
    "qp_manager.fixed_rexmit_time_enable" = "true", "qp_manager.linear_retry_count = 0", RESENT, resent_at, "300 900 2100", "150 300 450";
    "qp_manager.linear_retry_count" = "1", "", RESENT, resent_at, "150 300 450", "150 450 1050";
    // Of 7 linear retries alone the last has waited after 8 x 150 us.
    "qp_manager.exponential_retry_count" = "0", "", "how often a packet is sent in 2 ms, and queue pairs that failed", retries, "10 0", "8 1";
    "qp_manager.rtt_timestamp_mode" = "\"WireTimestamp\"", "", "lengths of data frames of a message of 4,096 bytes", sizes, "4174", "4178";
    "packet_spraying.entropy_mask_bits" = "2", "", PORTS, ports, "72", "4";
    "packet_spraying.starting_port_offset" = "1000", "packet_spraying.entropy_mask_bits = 3", "the lowest UDP source port of data", lowest_port, "256", "1000";
    "packet_spraying.active_ev_set_size" = "16", "", PORTS, ports, "72", "16";
    "nscc.pass_through" = "true", "", WINDOW, |text| before_the_first_answer(text, 1), "108", "1024";
    "nscc.config_base_rtt" = "\"12us\"", "", WINDOW, |text| before_the_first_answer(text, 1), "108", "216";
    // A quarter of the first sample, a delay of 2 us, or all of it.
    "nscc.delay_alpha" = "1.0", "", "the average delay after one sample of 2,000 ns", |text| average_delay(text, Late(1_000)), "500", "2000";
    // What arrived before the first of eight trimmed packets is nothing: one full packet; or each takes itself off 107.
    "nscc.quick_adapt_gate" = "31", GIVEN, "the window after eight trimmed packets", window_after_trims, "4156", "411444";
    "nscc.disable_quick_adapt" = "true", GIVEN, "the window after eight trimmed packets", window_after_trims, "4156", "411444";
    "nscc.quick_adapt_threshold" = "\"100us\"", "qp_manager.trimming_enabled = false", "what NSCC does on a SACK that is 38 us late", |text| rule(text, Late(19_000)), "QuickAdapt", "FairIncrease";
    "nscc.override_spec_max_congestion_window" = "true", "", WINDOW, |text| before_the_first_answer(text, 1), "108", "107";
    "nscc.max_congestion_window" = "54", GIVEN, WINDOW, |text| before_the_first_answer(text, 1), "107", "54";
    "nscc.override_spec_target_queue_delay" = "true", "nscc.target_queue_delay = \"9us\"", "what NSCC does on a SACK that is 6 us late", |text| rule(text, Late(3_000)), "FairIncrease", "ProportionalIncrease";
    "nscc.target_queue_delay" = "\"9us\"", "nscc.override_spec_target_queue_delay = true", "what NSCC does on a SACK that is 6 us late", |text| rule(text, Late(3_000)), "FairIncrease", "ProportionalIncrease";
    // Without limits all goes that the window lets through: 108 packets at once, and 36 in each 2 us once that is the round trip.
    "model.limits" = "true", "", LAST, last_first_sent, "10", "21";
    // A burst of the pair is what a window lets through.
    "model.own_sacks" = "true", "", "SACKs for 256 packets that come in bursts", sacks, "6", "256";
    // Fetches alone space packets then, 65 ns each.
    "model.burst" = "\"10us\"", LIMITED, LAST, last_first_sent, "21", "16";
    // 256 KB in 20 us are 102.4 Gbps, so a fetch takes 320 ns.
    "model.pcie_round_trip" = "\"20us\"", LIMITED, LAST, last_first_sent, "21", "81";
};

#[rustfmt::skip]
const MOVES: &[Move] = cases! { Move:
    // Packets 2 us late: between margin and target.
    "nscc.alpha_multiplier" = "2", GIVEN, GROWN, |text| window(text, Late(1_000), 40), Less;
    "nscc.eta_multiplier" = "0.0", GIVEN, GROWN, |text| window(text, Late(1_000), 40), Less;
    "nscc.reference_network_rtt" = "\"12us\"", GIVEN, GROWN, |text| window(text, Late(1_000), 40), Less;
    // 8 us late: above the target.
    "nscc.fair_increase_multiplier" = "2.5", GIVEN, GROWN, |text| window(text, Late(4_000), 80), Less;
    // In time, and 700 ns late: below the margin.
    "nscc.fast_increase_multiplier" = "0.01", GIVEN, GROWN, |text| window(text, Late(0), 20), Less;
    "nscc.target_queue_delay_margin" = "\"500ns\"", GIVEN, GROWN, |text| window(text, Late(350), 20), Less;
};

/// A configuration with an attribute set, or without.
fn text(with: &str, full: &str, value: &str) -> [String; 2] {
    [with.to_owned(), format!("{with}\n{full} = {value}")]
}

#[test]
fn each_attribute_of_the_engine_changes_what_is_seen_where_its_case_says() {
    let mut wrong = Vec::new();
    for Case { full, value, with, place, look, before, after } in CASES {
        let seen = text(with, full, value).map(|text| look(&text));
        if seen != [*before, *after] || before == after {
            wrong.push(format!("{full} = {value}: {place}: {before:?} and {after:?} are due, {seen:?} seen"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_attribute_of_congestion_control_moves_the_window_as_its_case_says() {
    for Move { full, value, with, place, look, then } in MOVES {
        let [before, after] = text(with, full, value).map(|text| look(&text));
        assert_eq!(after.cmp(&before), *then, "{full} = {value}: {place} is {before} before, {after} after");
        assert_ne!(*then, Equal, "{full}");
    }
    // Which way it went is not for want of another: twice as much of each does more.
    let larger = [text(GIVEN, "nscc.alpha_multiplier", "8"), text(GIVEN, "nscc.eta_multiplier", "0.6")];
    for [before, after] in larger.map(|pair| pair.map(|text| window(&text, Late(1_000), 40))) {
        assert_eq!(after.cmp(&before), Greater);
    }
}

#[test]
fn every_documented_attribute_has_a_case_but_those_of_records_and_what_can_only_be_read() {
    let has_case =
        |full: &str| CASES.iter().any(|case| case.full == full) || MOVES.iter().any(|case| case.full == full);
    let documented = |name: &str| attributes().find(|attribute| attribute.document_name() == name).unwrap();
    let mut without = 0;
    for attribute in DOCUMENTED.iter().map(|expected| documented(expected.name)) {
        let is_left = OF_RECORDS.iter().any(|section| attribute.full.starts_with(section));
        without += usize::from(is_left);
        assert_ne!(has_case(attribute.full), is_left, "{}", attribute.full);
        assert!(!is_left || matches!(attribute.acts, Acts::Records(_) | Acts::ReadOnly), "{}", attribute.full);
    }
    // Four of the NIC and what can only be read, and 24 of the monitor.
    assert_eq!(without, 29);
    assert!(
        ["model.limits", "model.own_sacks", "model.burst", "model.pcie_round_trip"].iter().all(|full| has_case(full))
    );
    assert!(
        CASES.iter().map(|case| case.full).chain(MOVES.iter().map(|case| case.full)).all(|full| find(full).is_some())
    );
}

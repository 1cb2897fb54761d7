//! Each rule, with numbers worked out by hand. Unless a test says otherwise: 400 Gbps, a base RTT of 6 us, full packets of 4,156 B,
//! trimming on, so a maximum window of 450,000 B and a target of 4.5 us; and no eta, so that rules show by themselves.

use super::*;
use proptest::prelude::*;

const RATE: u64 = 400_000_000_000;
const FULL: u32 = 4_156;
/// What is in flight after each SACK and NACK.
const INFLIGHT: u64 = 100_000;
/// The start, so that no time is special for being 0.
const START: u64 = 1_000_000;

fn params() -> NsccParams {
    NsccParams { eta_multiplier: 0.0, ..NsccParams::default() }
}

fn with(params: &NsccParams) -> Nscc {
    Nscc::new(params, RATE, FULL, true, Ns(START))
}

/// A window of `bytes` with the parameters of this file, and others.
fn with_window(params: &NsccParams, bytes: u64) -> Nscc {
    let mut nscc = with(params);
    nscc.on_loss(Ns(START), u32::try_from(nscc.cwnd - bytes).unwrap());
    assert_eq!(nscc.cwnd, bytes);
    nscc
}

/// A SACK so many ns after the start, for so many bytes, with an RTT of base RTT and delay.
fn sack(nscc: &mut Nscc, after: u64, new_bytes: u64, ecn: bool, delay: u64) -> Rule {
    let signal = SackSignal { new_bytes, ecn, rtt: Some(nscc.base_rtt + delay), ..SackSignal::default() };
    nscc.on_sack(Ns(START + after), &signal, INFLIGHT + new_bytes, INFLIGHT);
    nscc.rule
}

/// A SACK that counts bytes and moves nothing else.
fn quiet(nscc: &mut Nscc, after: u64, new_bytes: u64) -> Rule {
    sack(nscc, after, new_bytes, true, 0)
}

/// A SACK with pressure on the host, without RTT.
fn pressed(nscc: &mut Nscc, new_bytes: u64, penalty: u8, before: u64) {
    let signal = SackSignal { new_bytes, penalty, ..SackSignal::default() };
    nscc.on_sack(Ns(START), &signal, before, before - new_bytes);
}

fn trimmed(nscc: &mut Nscc, after: u64) -> Rule {
    nscc.on_nack(Ns(START + after), FULL, true, INFLIGHT);
    nscc.rule
}

#[test]
fn a_window_starts_at_one_and_a_half_bandwidth_delay_products() {
    // 400 Gbps x 6 us = 300,000 B.
    let nscc = Nscc::new(&NsccParams::default(), RATE, FULL, true, Ns(START));
    let expected =
        NsccSnapshot { cwnd: 450_000, max_window: 450_000, base_rtt_ns: 6_000, average_delay_ns: 0, rule: Rule::None };
    assert_eq!(nscc.snapshot(), expected);
    assert_eq!(nscc.window(), 450_000);
}

#[test]
fn the_target_is_three_quarters_of_the_base_rtt_and_all_of_it_without_trimming() {
    for (trimming, target) in [(true, 4_500), (false, 6_000)] {
        let mut nscc = Nscc::new(&params(), RATE, FULL, trimming, Ns(START));
        assert_eq!(sack(&mut nscc, 0, 100, false, target - 1), Rule::ProportionalIncrease);
        assert_eq!(sack(&mut nscc, 0, 100, false, target), Rule::FairIncrease);
    }
}

#[test]
fn unmarked_and_below_the_target_it_grows_by_what_is_missing() {
    let mut nscc = with_window(&params(), 300_000);
    // 4 x 4,156 x 1 x 0.75 / 4,500 B a ns x 3,000 ns = 8,312 B; x 34,000 / 300,000 = 942.
    assert_eq!(sack(&mut nscc, 100, 34_000, false, 1_500), Rule::ProportionalIncrease);
    assert_eq!(nscc.cwnd, 300_942);
}

#[test]
fn unmarked_and_at_the_target_it_grows_the_same_whatever_the_delay() {
    // 5 x 4,156 = 20,780 B; x 34,000 / 300,000 = 2,355.
    for delay in [4_500, 50_000] {
        let mut nscc = with_window(&params(), 300_000);
        assert_eq!(sack(&mut nscc, 100, 34_000, false, delay), Rule::FairIncrease);
        assert_eq!(nscc.cwnd, 302_355);
    }
}

#[test]
fn marked_and_at_the_target_it_shrinks_by_the_excess_of_the_average() {
    let mut nscc = with(&params());
    // Averages 2,250, 3,937.5, 5,203.125: only the last exceeds 4,500, by 0.1351 of itself. 450,000 x (1 - 0.8 x 0.1351) = 401,351.
    assert_eq!(sack(&mut nscc, 7_000, 1_000, true, 9_000), Rule::None);
    assert_eq!(sack(&mut nscc, 7_000, 1_000, true, 9_000), Rule::None);
    assert_eq!(nscc.cwnd, 450_000);
    assert_eq!(sack(&mut nscc, 7_000, 1_000, true, 9_000), Rule::MultiplicativeDecrease);
    // The excess is a fraction of 16 bits: 450,000 x 0.8 / 65,536 = 5.5 B.
    assert!(nscc.cwnd.abs_diff(401_351) <= 6, "{}", nscc.cwnd);
}

#[test]
fn it_shrinks_once_in_a_base_rtt() {
    let mut nscc = with(&NsccParams { delay_alpha: 1.0, ..params() });
    // The average is 9,000, half of it excess: 1 - 0.8 x 0.5 = 0.6. The start counts as a decrease.
    assert_eq!(sack(&mut nscc, 6_000, 100, true, 9_000), Rule::None);
    assert_eq!(sack(&mut nscc, 6_001, 100, true, 9_000), Rule::MultiplicativeDecrease);
    assert_eq!(nscc.cwnd, 270_000);
    assert_eq!(sack(&mut nscc, 12_001, 100, true, 9_000), Rule::None);
    assert_eq!(sack(&mut nscc, 12_002, 100, true, 9_000), Rule::MultiplicativeDecrease);
    assert_eq!(nscc.cwnd, 162_000);
}

#[test]
fn it_never_shrinks_by_more_than_half_at_once() {
    let mut nscc = with(&NsccParams { delay_alpha: 1.0, ..params() });
    // 1 - 0.8 x (450,000 - 4,500) / 450,000 = 0.208.
    assert_eq!(sack(&mut nscc, 7_000, 100, true, 450_000), Rule::MultiplicativeDecrease);
    assert_eq!(nscc.cwnd, 225_000);
}

#[test]
fn marked_and_below_the_target_nothing_happens() {
    let mut nscc = with_window(&params(), 300_000);
    assert_eq!(sack(&mut nscc, 7_000, 40_000, true, 4_499), Rule::None);
    assert_eq!(nscc.cwnd, 300_000);
}

#[test]
fn fast_increase_starts_after_more_than_a_window_and_stops_at_the_margin() {
    let mut nscc = with_window(&params(), 8_312);
    assert_eq!(sack(&mut nscc, 0, 4_156, false, 999), Rule::ProportionalIncrease);
    // 8,312 B are a window, but not more than one.
    assert_eq!(sack(&mut nscc, 0, 4_156, false, 999), Rule::ProportionalIncrease);
    assert_eq!(sack(&mut nscc, 0, 1_000, false, 999), Rule::FastIncrease);
    assert_eq!(nscc.cwnd, 9_312);
    assert_eq!(sack(&mut nscc, 0, 2_000, false, 0), Rule::FastIncrease);
    assert_eq!(nscc.cwnd, 11_312);
    assert_eq!(sack(&mut nscc, 0, 1_000, false, 1_000), Rule::ProportionalIncrease);
    assert_eq!(sack(&mut nscc, 0, 1_000, false, 999), Rule::ProportionalIncrease);
    assert_eq!(nscc.cwnd, 11_312);
}

#[test]
fn delay_at_the_target_ends_fast_increase_only_when_it_is_marked() {
    let mut nscc = with_window(&params(), 8_312);
    assert_eq!(sack(&mut nscc, 0, 9_000, false, 0), Rule::FastIncrease);
    assert_eq!(sack(&mut nscc, 0, 100, false, 4_500), Rule::FairIncrease);
    assert_eq!(sack(&mut nscc, 0, 100, false, 0), Rule::FastIncrease);
    assert_eq!(sack(&mut nscc, 0, 100, true, 4_500), Rule::None);
    assert_eq!(sack(&mut nscc, 0, 100, false, 0), Rule::ProportionalIncrease);
}

#[test]
fn fast_increase_ends_at_the_maximum() {
    let mut nscc = with_window(&params(), 440_000);
    assert_eq!(sack(&mut nscc, 0, 440_001, false, 0), Rule::FastIncrease);
    assert_eq!(nscc.cwnd, 450_000);
}

#[test]
fn the_multiplier_scales_fast_increase() {
    let mut nscc = with_window(&NsccParams { fast_increase_multiplier: 0.5, ..params() }, 8_312);
    assert_eq!(sack(&mut nscc, 0, 10_000, false, 0), Rule::FastIncrease);
    assert_eq!(nscc.cwnd, 13_312);
}

#[test]
fn growth_reaches_the_window_after_more_than_eight_packets_or_a_period() {
    // 8 x 4,156 = 33,248.
    let mut nscc = with_window(&params(), 300_000);
    sack(&mut nscc, 100, 33_248, false, 4_500);
    assert_eq!(nscc.cwnd, 300_000);
    sack(&mut nscc, 100, 1, false, 4_500);
    // 20,780 x 33,249 / 300,000 = 2,303.
    assert_eq!(nscc.cwnd, 302_303);

    let mut nscc = with_window(&params(), 300_000);
    sack(&mut nscc, 5_999, 10_000, false, 4_500);
    assert_eq!(nscc.cwnd, 300_000);
    sack(&mut nscc, 6_000, 10_000, false, 4_500);
    // 20,780 x 20,000 / 300,000 = 1,385.
    assert_eq!(nscc.cwnd, 301_385);
}

#[test]
fn eta_is_added_once_a_period_and_not_with_every_update() {
    let mut nscc = with_window(&NsccParams::default(), 300_000);
    // 0.15 x 4,156 = 623.
    quiet(&mut nscc, 5_999, 40_000);
    assert_eq!(nscc.cwnd, 300_000);
    quiet(&mut nscc, 6_000, 100);
    assert_eq!(nscc.cwnd, 300_623);
    quiet(&mut nscc, 11_999, 40_000);
    assert_eq!(nscc.cwnd, 300_623);
    quiet(&mut nscc, 12_000, 100);
    assert_eq!(nscc.cwnd, 301_246);
}

#[test]
fn a_sack_without_an_rtt_counts_bytes_alone() {
    let mut nscc = with_window(&NsccParams::default(), 300_000);
    let signal = SackSignal { new_bytes: 50_000, ecn: true, ..SackSignal::default() };
    nscc.on_sack(Ns(START + 50_000), &signal, INFLIGHT, INFLIGHT);
    assert_eq!((nscc.cwnd, nscc.rule), (300_000, Rule::None));
    assert_eq!((nscc.received, nscc.quick.achieved, nscc.quick.ignored), (50_000, 50_000, 200_000));
}

#[test]
fn quick_adapt_after_a_trimmed_packet_takes_what_was_achieved_in_10_5_us() {
    let mut nscc = with(&params());
    quiet(&mut nscc, 0, 30_000);
    assert_eq!(trimmed(&mut nscc, 5_000), Rule::Trimmed);
    assert_eq!(nscc.cwnd, 450_000 - 4_156);
    quiet(&mut nscc, 10_499, 20_000);
    assert_eq!(nscc.cwnd, 450_000 - 4_156);
    // What came before the observation window began does not count.
    assert_eq!(quiet(&mut nscc, 10_500, 20_000), Rule::QuickAdapt);
    assert_eq!(nscc.cwnd, 40_000);
}

#[test]
fn quick_adapt_acts_at_once_when_a_packet_is_trimmed_after_the_observation_window() {
    let mut nscc = with(&params());
    quiet(&mut nscc, 0, 0);
    quiet(&mut nscc, 9_000, 30_000);
    assert_eq!(trimmed(&mut nscc, 10_500), Rule::QuickAdapt);
    assert_eq!(nscc.cwnd, 30_000);
}

#[test]
fn quick_adapt_needs_less_than_an_eighth_of_the_maximum() {
    // 450,000 / 2^3 = 56,250.
    for (achieved, rule, cwnd) in [(56_250, Rule::Trimmed, 450_000 - 4_156), (56_249, Rule::QuickAdapt, 56_249)] {
        let mut nscc = with(&params());
        quiet(&mut nscc, 0, 0);
        quiet(&mut nscc, 9_000, achieved);
        assert_eq!((trimmed(&mut nscc, 10_500), nscc.cwnd), (rule, cwnd));
    }
    let mut nscc = with(&NsccParams { quick_adapt_gate: 0, ..params() });
    quiet(&mut nscc, 0, 0);
    quiet(&mut nscc, 9_000, 449_999);
    assert_eq!((trimmed(&mut nscc, 10_500), nscc.cwnd), (Rule::QuickAdapt, 449_999));
}

#[test]
fn quick_adapt_needs_a_trigger() {
    let mut nscc = with(&params());
    quiet(&mut nscc, 0, 0);
    assert_eq!(quiet(&mut nscc, 10_500, 100), Rule::None);
    // A refusal for another reason is none.
    nscc.on_nack(Ns(START + 21_000), FULL, false, INFLIGHT);
    assert_eq!((nscc.cwnd, nscc.rule, nscc.snapshot().average_delay_ns), (450_000, Rule::None, 0));
    assert_eq!(quiet(&mut nscc, 21_000, 100), Rule::None);
}

#[test]
fn quick_adapt_leaves_one_packet() {
    let mut nscc = with(&params());
    quiet(&mut nscc, 0, 0);
    quiet(&mut nscc, 9_000, 100);
    assert_eq!((trimmed(&mut nscc, 10_500), nscc.cwnd), (Rule::QuickAdapt, 4_156));
}

#[test]
fn quick_adapt_takes_what_was_achieved_even_when_the_window_is_smaller() {
    let mut nscc = with_window(&params(), 10_000);
    quiet(&mut nscc, 0, 0);
    quiet(&mut nscc, 9_000, 30_000);
    assert_eq!((trimmed(&mut nscc, 10_500), nscc.cwnd), (Rule::QuickAdapt, 30_000));
}

#[test]
fn without_trimming_a_delay_above_the_threshold_triggers_quick_adapt() {
    // The observation window is 6 us + 6 us.
    for (trimming, delay, rule) in
        [(false, 24_001, Rule::QuickAdapt), (false, 24_000, Rule::FairIncrease), (true, 1_000_000, Rule::FairIncrease)]
    {
        let mut nscc = Nscc::new(&params(), RATE, FULL, trimming, Ns(START));
        quiet(&mut nscc, 0, 0);
        assert_eq!(sack(&mut nscc, 12_000, 10_000, false, delay), rule);
        assert_eq!(nscc.cwnd, if rule == Rule::QuickAdapt { 10_000 } else { 450_000 });
    }
}

#[test]
fn a_trimmed_packet_is_forgotten_with_its_observation_window() {
    let mut nscc = with(&params());
    quiet(&mut nscc, 0, 0);
    trimmed(&mut nscc, 5_000);
    assert_eq!(quiet(&mut nscc, 10_500, 60_000), Rule::None);
    // Little is achieved in the next one, but nothing is trimmed.
    assert_eq!(quiet(&mut nscc, 21_000, 100), Rule::None);
    assert_eq!(nscc.cwnd, 450_000 - 4_156);
}

#[test]
fn quick_adapt_can_be_turned_off() {
    let mut nscc = with(&NsccParams { disable_quick_adapt: true, ..params() });
    quiet(&mut nscc, 0, 0);
    for n in 1..=100 {
        assert_eq!(trimmed(&mut nscc, n * 10_500), Rule::Trimmed);
        assert_eq!(nscc.cwnd, 450_000 - n * 4_156);
    }
}

#[test]
fn after_quick_adapt_marked_sacks_are_ignored_until_what_was_in_flight_is_back() {
    let mut nscc = with(&NsccParams { delay_alpha: 1.0, ..params() });
    quiet(&mut nscc, 0, 0);
    quiet(&mut nscc, 9_000, 50_000);
    assert_eq!(trimmed(&mut nscc, 10_500), Rule::QuickAdapt);
    // 100,000 B are in flight. Received, lost and trimmed bytes count.
    assert_eq!(sack(&mut nscc, 20_000, 50_000, true, 9_000), Rule::Ignoring);
    assert_eq!(trimmed(&mut nscc, 20_000), Rule::Ignoring);
    assert_eq!(nscc.cwnd, 50_000, "a trimmed packet takes nothing off the window now");
    nscc.on_loss(Ns(START + 20_000), FULL);
    assert_eq!((nscc.cwnd, nscc.rule), (50_000 - 4_156, Rule::Lost));
    assert_eq!(sack(&mut nscc, 20_000, 41_687, true, 9_000), Rule::Ignoring);
    assert_eq!((nscc.inc, nscc.received), (0, 0));
    // 50,000 + 2 x 4,156 + 41,687 + 1 = 100,000. Then 0.6 x 45,844.
    assert_eq!(sack(&mut nscc, 20_000, 1, true, 9_000), Rule::MultiplicativeDecrease);
    assert_eq!(nscc.cwnd, 27_507);
}

#[test]
fn after_quick_adapt_unmarked_sacks_are_heard() {
    let mut nscc = with(&params());
    quiet(&mut nscc, 0, 0);
    quiet(&mut nscc, 9_000, 50_000);
    trimmed(&mut nscc, 10_500);
    assert_eq!(sack(&mut nscc, 12_000, 1_000, false, 2_000), Rule::ProportionalIncrease);
    assert_eq!(sack(&mut nscc, 12_000, 1_000, true, 2_000), Rule::Ignoring);
}

#[test]
fn pressure_of_64_in_each_sack_of_an_rtt_halves_the_window() {
    let mut nscc = with(&params());
    // 4,500 x 64 / 128 = 2,250.
    for n in 0..100 {
        pressed(&mut nscc, 4_500, 64, 450_000 - n * 2_250);
        assert_eq!(nscc.rule, Rule::Penalty);
    }
    assert_eq!(nscc.cwnd, 225_000);
}

#[test]
fn pressure_of_127_in_each_sack_of_an_rtt_leaves_one_packet() {
    let mut nscc = with(&params());
    // 450,000 / 128 = 3,516 would be left.
    for _ in 0..100 {
        pressed(&mut nscc, 4_500, 127, 450_000);
    }
    assert_eq!(nscc.cwnd, 4_156);
}

#[test]
fn pressure_begins_with_what_was_in_flight() {
    let mut nscc = with(&params());
    pressed(&mut nscc, 4_096, 64, 200_000);
    assert_eq!(nscc.cwnd, 200_000 - 2_048);
    // Later SACKs only take their part.
    pressed(&mut nscc, 4_096, 64, 100_000);
    assert_eq!(nscc.cwnd, 200_000 - 2 * 2_048);
}

#[test]
fn when_pressure_ends_the_window_returns_if_the_responder_says_so() {
    for (restore, cwnd, rule) in [(true, 450_000, Rule::Restore), (false, 197_952, Rule::None)] {
        let mut nscc = with(&params());
        pressed(&mut nscc, 4_096, 64, 200_000);
        let signal = SackSignal { restore, ..SackSignal::default() };
        nscc.on_sack(Ns(START), &signal, INFLIGHT, INFLIGHT);
        assert_eq!((nscc.cwnd, nscc.rule), (cwnd, rule));
        // And only once.
        nscc.on_loss(Ns(START), FULL);
        nscc.on_sack(Ns(START), &SackSignal { restore: true, ..signal }, INFLIGHT, INFLIGHT);
        assert_eq!(nscc.cwnd, cwnd - 4_156);
    }
}

#[test]
fn a_window_that_returns_keeps_to_a_maximum_that_fell_meanwhile() {
    let mut nscc = with(&params());
    pressed(&mut nscc, 4_096, 64, 200_000);
    // 75 B x 5,000 ns = 375,000 B.
    let signal = SackSignal { penalty: 1, rtt: Some(5_000), ..SackSignal::default() };
    nscc.on_sack(Ns(START), &signal, INFLIGHT, INFLIGHT);
    let signal = SackSignal { restore: true, ..SackSignal::default() };
    nscc.on_sack(Ns(START), &signal, INFLIGHT, INFLIGHT);
    assert_eq!(nscc.cwnd, 375_000);
}

#[test]
fn under_pressure_nothing_is_earned_but_marks_still_count() {
    let mut nscc = with(&NsccParams { delay_alpha: 1.0, ..params() });
    let signal = |ecn, delay: u64| SackSignal { ecn, rtt: Some(6_000 + delay), penalty: 1, ..SackSignal::default() };
    for delay in [0, 2_000, 4_500] {
        nscc.on_sack(Ns(START + 7_000), &signal(false, delay), 450_000, 450_000);
        assert_eq!((nscc.inc, nscc.fast_count, nscc.rule), (0, 0, Rule::Penalty));
    }
    nscc.on_sack(Ns(START + 7_000), &signal(true, 9_000), 450_000, 450_000);
    assert_eq!((nscc.cwnd, nscc.rule), (270_000, Rule::MultiplicativeDecrease));
}

#[test]
fn a_lower_rtt_lowers_the_maximum_by_75_bytes_a_ns_and_the_window_at_once() {
    let mut nscc = with(&params());
    let rtt = |rtt| SackSignal { rtt: Some(rtt), ..SackSignal::default() };
    nscc.on_sack(Ns(START), &rtt(5_999), INFLIGHT, INFLIGHT);
    assert_eq!((nscc.max_wnd, nscc.cwnd), (449_925, 449_925));
    nscc.on_sack(Ns(START), &rtt(5_000), INFLIGHT, INFLIGHT);
    assert_eq!((nscc.max_wnd, nscc.cwnd), (375_000, 375_000));
    nscc.on_sack(Ns(START), &rtt(9_499), INFLIGHT, INFLIGHT);
    assert_eq!((nscc.base_rtt, nscc.max_wnd), (5_000, 375_000), "a higher one changes nothing");
    // The target stays at 4,500 beyond the new base RTT.
    assert_eq!(nscc.rule, Rule::ProportionalIncrease);
    nscc.on_sack(Ns(START), &rtt(9_500), INFLIGHT, INFLIGHT);
    assert_eq!(nscc.rule, Rule::FairIncrease);
}

#[test]
fn a_maximum_that_is_given_does_not_follow_the_base_rtt() {
    let mut nscc = with(&NsccParams { override_max_window: Some(107), ..params() });
    assert_eq!((nscc.cwnd, nscc.max_wnd), (444_692, 444_692));
    let signal = SackSignal { rtt: Some(1_000), ..SackSignal::default() };
    nscc.on_sack(Ns(START), &signal, INFLIGHT, INFLIGHT);
    assert_eq!((nscc.cwnd, nscc.max_wnd, nscc.base_rtt), (444_692, 444_692, 1_000));
}

#[test]
fn a_target_that_is_given_scales_proportional_increase_and_the_observation_window() {
    let given = NsccParams { override_target_queue_delay_ns: Some(9_000), ..params() };
    let mut nscc = with_window(&given, 300_000);
    // 4 x 4,156 x (9,000 / 6,000) / 9,000 = 2.771 B a ns as before; x (9,000 - 1,500) = 20,780; x 34,000 / 300,000 = 2,355.
    sack(&mut nscc, 0, 34_000, false, 1_500);
    assert_eq!(nscc.cwnd, 302_355);
    assert_eq!(sack(&mut nscc, 0, 100, false, 9_000), Rule::FairIncrease);
    trimmed(&mut nscc, 14_999);
    assert_eq!(nscc.rule, Rule::Trimmed);
    trimmed(&mut nscc, 15_000);
    assert_eq!(nscc.rule, Rule::QuickAdapt);
}

#[test]
fn a_longer_reference_rtt_makes_gains_smaller() {
    // Half the size of the reference network: 10,390 B fair, 312 B eta, half fast, and a quarter of 2.771 B a ns.
    let reference = NsccParams { reference_network_rtt_ns: 12_000, ..NsccParams::default() };
    let mut nscc = with_window(&reference, 300_000);
    sack(&mut nscc, 100, 34_000, false, 4_500);
    assert_eq!(nscc.cwnd, 300_000 + 1_177);
    let mut nscc = with_window(&reference, 300_000);
    sack(&mut nscc, 100, 34_000, false, 1_500);
    assert_eq!(nscc.cwnd, 300_000 + 235);
    quiet(&mut nscc, 6_000, 0);
    assert_eq!(nscc.cwnd, 300_235 + 312);
    let mut nscc = with_window(&reference, 8_312);
    sack(&mut nscc, 0, 10_000, false, 0);
    assert_eq!(nscc.cwnd, 13_312);
    assert_eq!(nscc.max_wnd, 450_000);
}

#[test]
fn the_average_delay_takes_a_quarter_of_each_sample_and_a_trimmed_packet_for_a_base_rtt() {
    let mut nscc = with(&params());
    let average = |nscc: &Nscc| nscc.snapshot().average_delay_ns;
    sack(&mut nscc, 0, 0, false, 4_000);
    assert_eq!(average(&nscc), 1_000);
    sack(&mut nscc, 0, 0, false, 4_000);
    assert_eq!(average(&nscc), 1_750);
    trimmed(&mut nscc, 0);
    // 1,500 + 0.75 x 1,750 = 2,812.5.
    assert_eq!(average(&nscc), 2_812);
    for (weight, expected) in [(0.0, 0), (1.0, 4_000)] {
        let mut nscc = with(&NsccParams { delay_alpha: weight, ..params() });
        sack(&mut nscc, 0, 0, false, 9_000);
        sack(&mut nscc, 0, 0, false, 4_000);
        assert_eq!(average(&nscc), expected);
    }
}

#[test]
fn a_lost_packet_is_taken_off_the_window() {
    let mut nscc = with(&params());
    nscc.on_loss(Ns(START), FULL);
    assert_eq!((nscc.cwnd, nscc.rule), (445_844, Rule::Lost));
}

#[test]
fn passing_through_the_window_moves_and_limits_nothing() {
    let mut nscc = with(&NsccParams { pass_through: true, ..params() });
    nscc.on_loss(Ns(START), FULL);
    assert_eq!((nscc.window(), nscc.snapshot().cwnd), (u64::MAX, 445_844));
}

#[test]
fn a_constant_rtt_keeps_the_window_at_its_maximum() {
    let mut nscc = Nscc::new(&NsccParams::default(), RATE, FULL, true, Ns(START));
    for n in 0..10_000 {
        sack(&mut nscc, n * 83, 4_096, n % 7 == 0, 0);
        assert_eq!(nscc.cwnd, 450_000);
    }
}

#[test]
fn at_1_gbps_the_window_is_one_packet_and_stays_that() {
    // 1.5 x 750 B are less than a packet.
    let mut nscc = Nscc::new(&NsccParams::default(), 1_000_000_000, FULL, true, Ns(START));
    assert_eq!((nscc.cwnd, nscc.max_wnd), (4_156, 4_156));
    trimmed(&mut nscc, 0);
    nscc.on_loss(Ns(START), FULL);
    pressed(&mut nscc, 4_096, 127, 4_156);
    sack(&mut nscc, 20_000, 4_096, true, 1_000_000);
    sack(&mut nscc, 40_000, 4_096, false, 0);
    assert_eq!((nscc.cwnd, nscc.max_wnd), (4_156, 4_156));
}

#[derive(Clone, Debug)]
enum Event {
    Sack(SackSignal, u64, u64),
    Nack(u32, bool, u64),
    Loss(u32),
}

/// Mostly what a network shows, sometimes anything.
fn amount(usual: std::ops::Range<u64>) -> impl Strategy<Value = u64> {
    prop_oneof![8 => usual, 1 => Just(0), 1 => any::<u64>()]
}

fn event() -> impl Strategy<Value = Event> {
    let rtt = prop_oneof![1 => Just(None), 4 => amount(1_000..40_000).prop_map(Some)];
    let signal = (amount(0..40_000), any::<bool>(), rtt, prop_oneof![3 => Just(0), 1 => any::<u8>()], any::<bool>())
        .prop_map(|(new_bytes, ecn, rtt, penalty, restore)| SackSignal { new_bytes, ecn, rtt, penalty, restore });
    prop_oneof![
        8 => (signal, amount(0..450_000), amount(0..450_000)).prop_map(|(s, before, left)| Event::Sack(s, before, left)),
        1 => (any::<u32>(), any::<bool>(), amount(0..450_000)).prop_map(|(n, t, left)| Event::Nack(n, t, left)),
        1 => (0u32..20_000).prop_map(Event::Loss),
    ]
}

#[test]
fn a_decrease_takes_what_gamma_and_the_largest_jump_allow() {
    // One sample with the whole weight: the average is twice the target, so half of it is excess.
    let shrunk = |gamma, max_decrease| {
        let params = NsccParams { delay_alpha: 1.0, disable_quick_adapt: true, gamma, max_decrease, ..params() };
        let mut nscc = with_window(&params, 400_000);
        let rule = sack(&mut nscc, 20_000, 0, true, 9_000);
        (rule, 400_000 - nscc.cwnd)
    };
    assert_eq!(shrunk(0.8, 0.5), (Rule::MultiplicativeDecrease, 160_000));
    assert_eq!(shrunk(0.5, 0.5), (Rule::MultiplicativeDecrease, 100_000));
    assert_eq!(shrunk(0.8, 0.25), (Rule::MultiplicativeDecrease, 100_000));
    assert_eq!(shrunk(0.0, 1.0), (Rule::MultiplicativeDecrease, 0));
}

#[test]
fn the_window_takes_in_what_was_earned_after_the_bytes_and_the_period_that_are_set() {
    let grown = |adjust_bytes, adjust_period_ns, after, new_bytes| {
        let params = NsccParams { adjust_bytes, adjust_period_ns, ..params() };
        let mut nscc = with_window(&params, 100_000);
        sack(&mut nscc, after, new_bytes, false, 4_500);
        nscc.cwnd > 100_000
    };
    assert!(!grown(None, None, 100, 8_192), "8 full packets, and 6 us, by themselves");
    assert!(grown(Some(8_191), None, 100, 8_192));
    assert!(!grown(Some(8_192), None, 100, 8_192));
    assert!(grown(None, Some(100), 100, 8_192));
    assert!(!grown(None, Some(101), 100, 8_192));
}

#[test]
fn the_largest_window_may_be_given_in_bytes() {
    let params = NsccParams { max_window_bytes: Some(123_456), override_max_window: Some(7), ..params() };
    assert_eq!(with(&params).snapshot().max_window, 123_456);
    let small = NsccParams { max_window_bytes: Some(1), ..params };
    assert_eq!(with(&small).snapshot().max_window, u64::from(FULL), "one packet at least");
}

fn any_params() -> impl Strategy<Value = NsccParams> {
    let factors = (1.0..=100.0f64, 1.0..=100.0f64, 0.01..=100.0f64, 0.0..=1.0f64, 0.0..=1.0f64);
    let times = (amount(2..100_000), amount(0..100_000), amount(0..10_000), amount(1..100_000));
    let overrides = (prop::option::of(1u32..=4096), prop::option::of(amount(1..100_000)));
    let rest = (0u32..=31, any::<bool>());
    let updates = (prop::option::of(1u64..1 << 41), prop::option::of(1u64..1 << 41), prop::option::of(1u64..100_000));
    let shrinking = (0.0..=1.0f64, 0.0..=1.0f64);
    (factors, times, overrides, rest, updates, shrinking).prop_map(
        |(factors, times, overrides, rest, updates, shrinking)| NsccParams {
            pass_through: false,
            config_base_rtt_ns: times.0.max(2),
            alpha_multiplier: factors.0,
            fair_increase_multiplier: factors.1,
            fast_increase_multiplier: factors.2,
            eta_multiplier: factors.3,
            delay_alpha: factors.4,
            quick_adapt_gate: rest.0,
            disable_quick_adapt: rest.1,
            quick_adapt_threshold_ns: times.1,
            override_max_window: overrides.0,
            override_target_queue_delay_ns: overrides.1.map(|target| target.max(1)),
            target_queue_delay_margin_ns: times.2,
            reference_network_rtt_ns: times.3.max(1),
            max_window_bytes: updates.0.map(|bytes| bytes.min(WINDOW_MAX)),
            gamma: shrinking.0,
            max_decrease: shrinking.1,
            adjust_bytes: updates.1,
            adjust_period_ns: updates.2,
        },
    )
}

proptest! {
    #[test]
    fn whatever_is_heard_the_window_is_one_packet_at_least_and_the_maximum_at_most(
        params in prop_oneof![1 => Just(NsccParams::default()), 2 => any_params()],
        rate in prop_oneof![Just(1_000_000_000), Just(RATE), amount(1..RATE)],
        full in prop_oneof![3 => Just(FULL), 1 => 61u32..20_000],
        trimming in any::<bool>(),
        events in prop::collection::vec((0u64..10_000, event()), 1..200),
    ) {
        prop_assert_eq!(params.validate(trimming), Ok(()));
        let mut nscc = Nscc::new(&params, rate, full, trimming, Ns(START));
        let mut now = START;
        for (pause, event) in events {
            now += pause;
            let before = nscc.snapshot();
            match event {
                Event::Sack(signal, before, left) => nscc.on_sack(Ns(now), &signal, before, left),
                Event::Nack(nominal, trimmed, left) => nscc.on_nack(Ns(now), nominal, trimmed, left),
                Event::Loss(nominal) => nscc.on_loss(Ns(now), nominal),
            }
            let after = nscc.snapshot();
            prop_assert!(u64::from(full) <= after.cwnd && after.cwnd <= after.max_window, "{:?}: {:?}", event, after);
            prop_assert!(after.max_window <= before.max_window && after.max_window <= WINDOW_MAX);
            prop_assert!(after.base_rtt_ns <= before.base_rtt_ns);
        }
    }
}

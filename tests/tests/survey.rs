//! What an operator is shown of an engine.

use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{
    EvTally, NicParams, PortId, QpState, QpTally, SURVEY_DESTINATIONS_MAX, SURVEY_QPS_MAX, Survey, SurveyOf,
};
use dataplane::time::{MS, US};
use mrcnic_tests::{Channel, Pair, QpPair};
use std::net::{IpAddr, Ipv4Addr};

const ALL: SurveyOf = SurveyOf { qps: true, evs: true };

fn pair(planes: u8, params: NicParams) -> Pair {
    Pair::in_planes(planes, true, params, 1 << 20, Channel::default(), 1)
}

/// Writes `len` bytes on a QP, and lets them arrive.
fn write(pair: &mut Pair, qp: &QpPair, len: usize) {
    let request = pair.write(1, 0, 1, len);
    pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    pair.run_for(10 * MS);
}

#[test]
fn a_survey_says_of_a_qp_who_its_peer_is_and_what_it_did() {
    let mut pair = pair(1, NicParams::default());
    let qp = pair.connect(100);
    write(&mut pair, &qp, 40_960);
    let survey = pair.nics[0].survey(ALL);
    let [seen] = survey.qps[..] else { panic!("one QP: {survey:?}") };
    assert_eq!((seen.qpn, seen.peer_qpn), (qp.qpn[0].get(), qp.qpn[1].get()));
    assert_eq!((seen.local, seen.remote), (pair.address(0), pair.address(1)));
    assert_eq!((seen.state, seen.pending, seen.psns_in_flight), (QpState::Rts, 0, 0));
    assert_eq!(seen.psn_window, pair.nics[0].send_window(qp.qpn[0]).unwrap());
    assert_eq!((seen.stats.sent, Some(seen.stats)), (10, pair.nics[0].qp_stats(qp.qpn[0])));
    let other = &pair.nics[1].survey(ALL).qps[0];
    assert_eq!((other.stats.delivered, other.stats.delivered_bytes), (10, 40_960));
}

#[test]
fn what_is_in_flight_is_seen_at_the_qp_and_at_its_destination() {
    let mut pair = pair(1, NicParams::default());
    let qp = pair.connect(0);
    let request = pair.write(1, 0, 1, 40_960);
    pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    // Nothing is answered yet.
    pair.run_for(100);
    let survey = pair.nics[0].survey(ALL);
    assert_eq!((survey.qps[0].psns_in_flight, survey.qps[0].pending, survey.pending), (10, 1, 1));
    let [to] = &survey.destinations[..] else { panic!("one destination") };
    assert_eq!((to.address, to.qps, to.sent), (pair.address(1), 1, 10));
    assert_eq!(to.inflight, pair.nics[0].inflight(pair.address(1)));
    assert!(to.inflight >= 40_960 && to.inflight <= to.window, "{to:?}");
}

#[test]
fn a_destination_has_its_round_trip_time_and_nscc_its_base_and_delay() {
    let congestion = CcConfig::Nscc(NsccParams { config_base_rtt_ns: 60 * US, ..NsccParams::default() });
    let mut pair = pair(1, NicParams { congestion, ..NicParams::default() });
    let qp = pair.connect(0);
    write(&mut pair, &qp, 400_000);
    let survey = pair.nics[0].survey(SurveyOf::default());
    let to = &survey.destinations[0];
    assert_eq!(to.last_rtt_ns, pair.nics[0].last_rtt(pair.address(1)));
    assert!(to.last_rtt_ns.is_some());
    let [group] = &to.groups[..] else { panic!("one group") };
    assert_eq!(Some(*group), pair.nics[0].group_of(qp.qpn[0]));
    assert!(group.nscc.is_some_and(|nscc| nscc.base_rtt_ns <= 60 * US));
    assert_eq!(to.window, group.window);
    assert!(survey.qps.is_empty() && to.evs.is_empty() && to.evs_left_out == 0, "they were not asked for");
    assert_eq!(survey.qp_tally, QpTally { rts: 1, ..QpTally::default() }, "and are counted all the same");
}

#[test]
fn entropy_values_are_counted_by_state_and_listed_with_what_each_carried() {
    let mut pair = pair(4, NicParams::default());
    let qp = pair.connect(0);
    write(&mut pair, &qp, 400_000);
    let (now, to) = (pair.now, pair.address(1));
    let values: Vec<u32> = pair.nics[0].ev_states(to).map(|(ev, _)| ev).collect();
    pair.nics[0].deny(now, Some(to), values[0], true);
    pair.nics[0].set_port(now, PortId(2), false);
    pair.run_for(MS);
    let survey = pair.nics[0].survey(ALL);
    let seen = &survey.destinations[0];
    let EvTally { good, skip, assumed_bad, denied, port_out } = seen.tally;
    assert_eq!(denied, 1);
    assert_eq!(good + skip + assumed_bad + denied, seen.evs.len());
    assert_eq!(port_out, seen.evs.iter().filter(|(_, ev)| ev.ev.port == 3).count());
    assert!(port_out > 0);
    let carried: u64 = seen.evs.iter().map(|(_, ev)| ev.sent).sum();
    assert_eq!(carried, survey.qps[0].stats.sent);
    let other = pair.nics[1].survey(ALL);
    assert_eq!(other.destinations[0].peer_ports_out, 0b100, "the peer was told");
}

#[test]
fn a_qp_in_error_is_counted_as_such() {
    let mut pair = pair(1, NicParams::default());
    let qp = pair.connect(0);
    pair.connect(0);
    // A local range that nobody registered.
    let mut request = pair.write(1, 0, 1, 100);
    request.local_va = 1 << 40;
    pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.nics[0].survey(ALL).qp_tally, QpTally { rtr: 0, rts: 1, error: 1 });
}

/// A NIC with `count` QPs, each with an address of its own, of which the last one sent something.
fn many(count: u16) -> (Survey, u32, IpAddr) {
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel::default(), 1);
    let peer = |n: u16| IpAddr::from(Ipv4Addr::new(10, 1, (n >> 8) as u8, n as u8));
    let qps: Vec<QpPair> = (0..count)
        .map(|n| {
            pair.connect_with(0, |of, spec| if of == 0 { spec.remote.ip = peer(n) } else { spec.local.ip = peer(n) })
        })
        .collect();
    let last = qps.last().unwrap();
    write(&mut pair, last, 8192);
    (pair.nics[0].survey(ALL), last.qpn[0].get(), peer(count - 1))
}

#[test]
fn of_too_many_qps_and_destinations_those_with_most_traffic_are_listed_and_the_rest_is_counted() {
    let (survey, busiest, towards) = many(300);
    assert_eq!((survey.qps.len(), survey.qps_left_out), (SURVEY_QPS_MAX, 300 - SURVEY_QPS_MAX));
    assert_eq!(survey.qps[0].qpn, busiest);
    assert!(survey.qps[1..].is_sorted_by_key(|qp| qp.qpn & 0xFFFF), "of equals, the lower slot");
    let listed = (survey.destinations.len(), survey.destinations_left_out);
    assert_eq!(listed, (SURVEY_DESTINATIONS_MAX, 300 - SURVEY_DESTINATIONS_MAX));
    assert_eq!(survey.destinations[0].address, towards);
    assert_eq!(survey.qp_tally.rts, 300);
    let listed: usize = survey.destinations.iter().map(|to| to.evs.len()).sum();
    let left_out: usize = survey.destinations.iter().map(|to| to.evs_left_out).sum();
    assert_eq!(listed, dataplane::nic::SURVEY_EVS_TOTAL_MAX);
    assert_eq!(listed + left_out, survey.destinations.iter().map(|to| to.tally.good).sum::<usize>());
}

#[test]
fn an_engine_without_qps_has_nothing_to_show() {
    let pair = pair(1, NicParams::default());
    assert_eq!(pair.nics[0].survey(ALL), Survey::default());
}

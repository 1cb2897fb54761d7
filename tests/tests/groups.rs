//! QP groups, the transmit scheduler, and what holds sending back: windows, rates and buffers (Scala MRC NIC documentation).

use dataplane::Ns;
use dataplane::congestion::profile::CcConfig;
use dataplane::congestion::{NsccParams, Rule};
use dataplane::nic::{
    CcProfileRef, Credits, DropReason, FetchParams, GroupState, HostBufferParams, NicParams, PacingParams, SendLimits,
    WhenFull,
};
use dataplane::time::{MS, US};
use dataplane::wire::{Opcode, Packet};
use mrcnic_tests::{Channel, Fate, Pair, QpPair};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

type Log = Rc<RefCell<Vec<(Ns, Packet)>>>;

/// Writes down the data that NIC 0 sends.
fn watch(pair: &mut Pair) -> Log {
    let log = Log::default();
    let writer = log.clone();
    pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 0 && packet.bth.opcode.is_data() {
            writer.borrow_mut().push((now, *packet));
        }
        Fate::Pass
    }));
    log
}

fn fixed(packets: u64) -> CcConfig {
    CcConfig::Fixed { bytes: packets * 4156 }
}

fn peer(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 1, n).into()
}

/// A QP between NIC 0 and an address of its own at NIC 1.
fn connect_to(pair: &mut Pair, n: u8) -> QpPair {
    pair.connect_with(0, |end, spec| match end {
        0 => spec.remote.ip = peer(n),
        _ => spec.local.ip = peer(n),
    })
}

fn post(pair: &mut Pair, qp: &QpPair, packets: usize) {
    let write = pair.write(0, 0, 0, packets * 4096);
    pair.nics[0].post_write(qp.qpn[0], &write).unwrap();
}

#[test]
fn the_qps_of_a_group_take_turns_of_as_many_bytes_as_a_full_packet_has() {
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair);
    let qps: Vec<QpPair> = (0..2).map(|_| pair.connect(0)).collect();
    for _ in 0..100 {
        for qp in &qps {
            let write = pair.write(0, 0, 0, 64);
            pair.nics[0].post_write(qp.qpn[0], &write).unwrap();
        }
    }
    pair.run_for(MS);
    let log = log.borrow();
    let turns: Vec<usize> = log.chunk_by(|a, b| a.1.bth.dqp == b.1.bth.dqp).map(<[_]>::len).collect();
    // 34 x 124 bytes are the first to be more than 4,156.
    assert_eq!(turns, [34, 34, 34, 34, 32, 32]);
}

#[test]
fn qps_to_one_destination_share_a_window_with_groups_and_have_one_each_without() {
    for (qp_groups, in_flight) in [(true, 10), (false, 30)] {
        let params = NicParams { qp_groups, congestion: fixed(10), ..NicParams::default() };
        let mut pair = Pair::new(params, 1 << 20, Channel { loss: 1.0, ..Channel::default() }, 1);
        let qps: Vec<QpPair> = (0..3).map(|_| pair.connect(0)).collect();
        for qp in &qps {
            post(&mut pair, qp, 100);
        }
        pair.run_until(Ns(US));
        let groups: Vec<_> = pair.nics[0].groups(pair.address(1)).collect();
        assert_eq!(groups.len(), if qp_groups { 1 } else { 3 });
        assert_eq!(groups.iter().map(|group| group.inflight).sum::<u64>(), in_flight * 4156);
        assert!(groups.iter().all(|group| group.inflight == 10 * 4156 && group.window == 10 * 4156));
        assert_eq!(groups.iter().map(|group| group.qps).sum::<usize>(), 3);
        // Spraying goes by destination, whatever the groups.
        assert_eq!(pair.nics[0].ev_states(pair.address(1)).count(), 72);
    }
}

#[test]
fn cc_profiles_give_the_qps_to_one_destination_a_group_for_each_profile() {
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel { loss: 1.0, ..Channel::default() }, 1);
    let profile = |id, config| Some(CcProfileRef { id, config });
    let profiles = [None, profile(1, fixed(3)), profile(1, fixed(3)), profile(2, CcConfig::None)];
    let qps = profiles.map(|profile| pair.connect_with(0, |_, spec| spec.congestion = profile));
    for qp in &qps {
        post(&mut pair, qp, 200);
    }
    pair.run_until(Ns(US));
    let mut groups: Vec<_> =
        pair.nics[0].groups(pair.address(1)).map(|g| (g.profile, g.inflight / 4156, g.qps)).collect();
    groups.sort_unstable();
    assert_eq!(groups, [(None, 108, 1), (Some(1), 3, 2), (Some(2), 200, 1)]);
    let nscc = pair.nics[0].groups(pair.address(1)).find_map(|group| group.nscc).unwrap();
    assert_eq!((nscc.cwnd, nscc.max_window, nscc.base_rtt_ns), (450_000, 450_000, 6_000));
    // With its last QP a group goes.
    let now = pair.now;
    pair.nics[0].close(now, qps[1].qpn[0]);
    assert_eq!(pair.nics[0].groups(pair.address(1)).count(), 3);
    pair.nics[0].close(now, qps[2].qpn[0]);
    assert_eq!(pair.nics[0].groups(pair.address(1)).count(), 2);
}

#[test]
fn the_scheduler_serves_groups_one_packet_a_turn_however_many_qps_each_has() {
    let mut pair =
        Pair::new(NicParams { congestion: fixed(50), ..NicParams::default() }, 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair);
    // One QP to the first, two to the second, five to the third.
    for (n, count) in [(1, 1), (2, 2), (3, 5)] {
        for _ in 0..count {
            let qp = connect_to(&mut pair, n);
            post(&mut pair, &qp, 100);
        }
    }
    pair.run_until(Ns(US));
    let log = log.borrow();
    assert_eq!(log.len(), 150);
    for first in log.chunks(3) {
        let mut turn: Vec<IpAddr> = first.iter().map(|(_, packet)| packet.ip.destination).collect();
        turn.sort_unstable();
        assert_eq!(turn, [peer(1), peer(2), peer(3)], "each group once in each three packets");
    }
    // Within a group its QPs take turns.
    let third: Vec<u32> = log.iter().filter(|e| e.1.ip.destination == peer(3)).map(|e| e.1.bth.dqp).collect();
    assert!(third.windows(5).all(|turn| turn.iter().collect::<std::collections::BTreeSet<_>>().len() == 5));
}

#[test]
fn a_group_is_idle_without_work_ready_with_it_and_pending_while_its_window_is_full() {
    let mut pair =
        Pair::new(NicParams { congestion: fixed(2), ..NicParams::default() }, 1 << 20, Channel::default(), 1);
    let qp = pair.connect(0);
    let state = |pair: &Pair| pair.nics[0].groups(pair.address(1)).next().unwrap().state;
    assert_eq!(state(&pair), GroupState::Idle);
    post(&mut pair, &qp, 3);
    assert_eq!(state(&pair), GroupState::Ready);
    pair.run_until(Ns(US));
    assert_eq!(state(&pair), GroupState::Pending);
    pair.run_until(Ns(MS));
    assert_eq!(state(&pair), GroupState::Idle);
    assert_eq!(pair.completions[0].len(), 1);
}

#[test]
fn retransmissions_of_a_group_go_before_its_new_data() {
    let mut pair =
        Pair::new(NicParams { congestion: fixed(4), ..NicParams::default() }, 1 << 20, Channel::default(), 1);
    let qp = pair.connect(0);
    let other = pair.connect(0);
    let seen = Log::default();
    let writer = seen.clone();
    pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 0 && packet.bth.opcode.is_data() {
            writer.borrow_mut().push((now, *packet));
        }
        if from == 0 && now < Ns(US) { Fate::Drop } else { Fate::Pass }
    }));
    post(&mut pair, &qp, 4);
    pair.run_until(Ns(US));
    post(&mut pair, &other, 4);
    pair.run_until(Ns(MS));
    assert_eq!(pair.completions[0].len(), 2);
    let later: Vec<bool> = seen.borrow().iter().skip(4).map(|(_, packet)| packet.bth.rtx).collect();
    assert_eq!(later, [true, true, true, true, false, false, false, false]);
}

#[test]
fn a_paced_port_spaces_frames_by_their_length_and_control_goes_first() {
    let pacing = PacingParams { rate: 100_000_000_000, burst_ns: 0 };
    let limits = SendLimits { pacing: Some(pacing), ..SendLimits::default() };
    let params = NicParams { limits, ..NicParams::default() };
    let mut pair = Pair::new(params, 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair);
    let qp = pair.connect(0);
    post(&mut pair, &qp, 100);
    pair.run_until(Ns(MS));
    assert_eq!(pair.completions[0].len(), 1);
    let log = log.borrow();
    // 333.92 ns each: the hundredth begins after 99 of them, rounded up.
    assert_eq!(log.last().map(|(at, _)| *at), Some(Ns(33_059)));
    assert!(log.windows(2).all(|pair| (333..=334).contains(&pair[1].0.since(pair[0].0))));
}

#[test]
fn payload_is_fetched_no_faster_than_the_hosts_link_carries_it() {
    let fetch = FetchParams { rate: 31_520_000_000, read_request: 64, credits: Credits::default() };
    let limits = SendLimits { fetch: Some(fetch), ..SendLimits::default() };
    let mut pair = Pair::new(NicParams { limits, ..NicParams::default() }, 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair);
    let qp = pair.connect(0);
    post(&mut pair, &qp, 100);
    pair.run_until(Ns(MS));
    assert_eq!(pair.completions[0].len(), 1);
    // One lane: 1,039.6 ns for 4,096 bytes.
    let last = log.borrow().last().map(|(at, _)| at.0).unwrap();
    assert_eq!(last, 102_920);
}

#[test]
fn a_full_receive_buffer_of_the_port_drops_and_counts_and_the_transfer_ends_well() {
    let buffer = HostBufferParams {
        capacity: 40_000,
        drain_rate: 100_000_000_000,
        when_full: WhenFull::Drop { overhead: 194 },
        ..HostBufferParams::default()
    };
    let params = NicParams { congestion: fixed(32), ..NicParams::default() };
    let mut pair = Pair::new(params, 1 << 20, Channel::default(), 1);
    pair.replace_nic(1, NicParams { host_buffer: Some(buffer), ..params });
    let qp = pair.connect(0);
    pair.fill(5);
    post(&mut pair, &qp, 256);
    pair.run_until(Ns(100 * MS));
    assert_eq!(pair.completions[0].len(), 1);
    assert!(pair.bytes(1, 0, 1 << 20) == pair.bytes(0, 0, 1 << 20));
    let stats = pair.nics[1].stats();
    assert!(stats.drops_by(DropReason::IngressFull) > 0);
    assert_eq!(stats.tx_nacks.get(), 0, "nobody looked at what was dropped");
}

#[test]
fn a_responder_under_pressure_shrinks_the_window_and_gives_it_back() {
    let buffer = HostBufferParams { capacity: 100_000, drain_rate: 20_000_000_000, ..HostBufferParams::default() };
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel { delay_ns: 3 * US, ..Channel::default() }, 1);
    pair.replace_nic(1, NicParams { host_buffer: Some(buffer), ..NicParams::default() });
    let qp = pair.connect(0);
    let nscc = |pair: &Pair| pair.nics[0].groups(pair.address(1)).next().unwrap().nscc.unwrap();
    post(&mut pair, &qp, 256);
    let mut rules = Vec::new();
    let mut least = u64::MAX;
    while pair.completions[0].is_empty() {
        assert!(pair.now < Ns(100 * MS));
        pair.run_for(US);
        rules.push(nscc(&pair).rule);
        least = least.min(nscc(&pair).cwnd);
    }
    assert!(rules.contains(&Rule::Penalty));
    assert!((4156..225_000).contains(&least), "the window fell to {least}");
    // What the host has drained by now, the next message finds out.
    pair.run_for(MS);
    post(&mut pair, &qp, 1);
    pair.run_for(MS);
    assert_eq!(nscc(&pair).rule, Rule::Restore);
    assert!(nscc(&pair).cwnd > least);
}

#[test]
fn pass_through_limits_nothing_and_nearly_every_packet_asks_for_an_ack() {
    let nscc = NsccParams { pass_through: true, ..NsccParams::default() };
    let params = NicParams { congestion: CcConfig::Nscc(nscc), ..NicParams::default() };
    let mut pair = Pair::new(params, 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair);
    let qp = pair.connect(0);
    post(&mut pair, &qp, 256);
    pair.run_until(Ns(500));
    let log = log.borrow();
    assert_eq!(log.len(), 256, "all at once");
    let asking = log.iter().filter(|(_, packet)| packet.bth.ack_request).count();
    // 108 fit into the window that is computed; from the last of them on each packet finds it full.
    assert_eq!(asking, 256 - 107);
    assert!(log.iter().all(|(_, packet)| packet.bth.opcode != Opcode::Probe));
}

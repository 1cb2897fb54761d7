//! Table I of the MRC paper, rows "Multipath & Multi-plane": tests named after each.

use crate::port_log::{Log, assert_written, counts, data, probed, watch, write};
use dataplane::Ns;
use dataplane::nic::{EvEvent, EvState, NicParams, OpenError, Paths, Whose};
use dataplane::path::SprayingParams;
use dataplane::path::profile::{Copies, Ev, EvField, EvFormat, EvMode, EvPool, EvProfileConfig, EvProfiles, PortSet};
use dataplane::time::{MS, US};
use dataplane::transport::TransportParams;
use dataplane::wire::{Encapsulation, Ext, Opcode, Packet, UsidPath, at_switch};
use mrcnic_tests::{Channel, Fate, Pair, QpPair, marked};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::sync::Arc;

fn answers(log: &Log, opcode: Opcode) -> Vec<(u8, Packet)> {
    let of = |&(_, from, port, packet): &(Ns, usize, u8, Packet)| {
        (from == 1 && packet.bth.opcode == opcode).then_some((port, packet))
    };
    log.borrow().iter().filter_map(of).collect()
}

/// A profile that is ONLINE, with its EVs.
fn pool(ports: u8, format: EvFormat, mode: impl FnOnce(u64) -> EvMode, list: &[Ev]) -> Arc<EvPool> {
    let mut table = EvProfiles::new(ports);
    table.create_format(1).unwrap();
    table.configure_format(1, format).unwrap();
    table.format_online(1).unwrap();
    table.create(7).unwrap();
    table
        .configure(7, EvProfileConfig { mode: mode(1), min_active: 0, ports: PortSet::first(ports), every_port: true })
        .unwrap();
    if !list.is_empty() {
        table.populate(7, list).unwrap();
    }
    table.online(7).unwrap();
    Arc::new(table.pool(7).unwrap())
}

fn explicit(format: EvFormat, ports: u8, evs: &[Ev]) -> Arc<EvPool> {
    pool(ports, format, |format| EvMode::Explicit { format, count: evs.len() as u32 }, evs)
}

fn connect(pair: &mut Pair, paths: [Paths; 2]) -> QpPair {
    pair.connect_with(0, |n, spec| spec.path.paths = paths[n].clone())
}

#[test]
fn per_connection_packet_spraying_takes_the_next_of_72_values_for_each_packet() {
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair, |_, _, _, _| true);
    let qp = pair.connect(0);
    write(&mut pair, &qp, 1 << 20);
    pair.run_for(10 * MS);
    assert_written(&pair, 1 << 20);
    let evs: Vec<u32> = data(&log).iter().map(|(_, packet)| packet.ev()).collect();
    assert_eq!(evs.len(), 256);
    assert!(evs.windows(72).all(|round| round.iter().collect::<BTreeSet<_>>().len() == 72));
    assert!((72..256).all(|i| evs[i] == evs[i - 72]), "the same order in each round");
    let used = counts(evs);
    assert_eq!(counts(used.values().copied()), BTreeMap::from([(3, 32), (4, 40)]));
    // Cumulative ACKs draw from their sender's own rotation.
    assert!(answers(&log, Opcode::Ack).iter().all(|(_, packet)| (256..384).contains(&packet.ev())));
}

#[test]
fn per_connection_packet_spraying_of_type_none_keeps_each_qp_on_its_own_port_whatever_the_feedback() {
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel { mark: 0.5, ..Channel::default() }, 1);
    let mut left_to_lose = 20;
    let log = watch(&mut pair, move |_, from, _, packet| {
        let lost = from == 0 && packet.bth.opcode.is_data() && left_to_lose > 0;
        left_to_lose -= i32::from(lost);
        !lost
    });
    let own = |udp_port| Paths::Own { udp_port };
    let qp = connect(&mut pair, [own(50_000), own(50_001)]);
    let other = connect(&mut pair, [own(50_002), own(50_003)]);
    write(&mut pair, &qp, 1 << 20);
    pair.nics[0].post_write(other.qpn[0], &pair.write(1, 0, 0, 64)).unwrap();
    pair.run_for(10 * MS);
    assert_eq!(pair.completions[0].len(), 2);
    assert!(data(&log).iter().filter(|(_, packet)| packet.bth.rtx).count() >= 20);
    let of = |qp: &QpPair, n: usize| {
        let dqp = qp.qpn[n].get();
        let log = log.borrow();
        let sent = log.iter().filter(|entry| entry.1 == 1 - n && entry.3.bth.dqp == dqp);
        let evs = sent.filter(|entry| entry.3.bth.opcode != Opcode::Sack);
        evs.map(|entry| entry.3.ev()).collect::<BTreeSet<u32>>()
    };
    assert_eq!((of(&qp, 1), of(&qp, 0)), ([50_000].into(), [50_001].into()));
    assert_eq!((of(&other, 1), of(&other, 0)), ([50_002].into(), [50_003].into()));
    let sacks = answers(&log, Opcode::Sack);
    assert!(sacks.iter().all(|(_, packet)| matches!(packet.ev(), 50_000 | 50_002)), "carried back");
    assert!(pair.nics[0].poll_event().is_none(), "no state, so nothing leaves and nothing is probed");
    assert_eq!(pair.nics[0].ev_states(pair.address(1)).count(), 0);
}

#[test]
fn source_routing_by_structured_evs_carries_32_bits_there_and_back_over_ipv6_alone() {
    let generated = |format| EvMode::Generated {
        format,
        count: 64,
        fields: vec![EvField::generated(12), EvField::generated(12)],
        seed: 9,
    };
    let pool = pool(1, EvFormat::structured(&[12, 12]).unwrap(), generated, &[]);
    let mut pair = Pair::over(true, NicParams::default(), 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair, |_, _, _, _| true);
    let paths = || Paths::Profile(Arc::clone(&pool));
    let qp = connect(&mut pair, [paths(), paths()]);
    write(&mut pair, &qp, 1 << 20);
    pair.run_for(10 * MS);
    assert_written(&pair, 1 << 20);
    let known: BTreeSet<u32> = pool.evs.iter().map(|ev| ev.value).collect();
    let used: BTreeSet<u32> = data(&log).iter().map(|(_, packet)| packet.ev()).collect();
    assert_eq!(used, known, "64 values are fewer than the active set would have");
    for (_, packet) in data(&log) {
        let ev = packet.ev();
        assert_eq!((packet.ip.flow_label, packet.udp_source), (ev >> 16, ev as u16));
    }
    for (_, packet) in answers(&log, Opcode::Sack) {
        let Ext::Sack(sack) = packet.ext else { panic!("{packet:?}") };
        assert!(known.contains(&sack.entropy) && packet.ev() == sack.entropy);
    }
    // IPv4 carries 16 bits.
    let mut v4 = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let kept = RefCell::new(None);
    let qp = v4.connect_with(0, |_, spec| *kept.borrow_mut() = Some(spec.clone()));
    assert!(v4.nics[1].close(Ns::ZERO, qp.qpn[1]));
    let mut spec = kept.take().unwrap();
    spec.path.paths = Paths::Profile(pool);
    let error = v4.nics[1].open(Ns::ZERO, spec).unwrap_err();
    assert!(matches!(error, OpenError::WideEv { profile: 7, .. }), "{error}");
}

/// Sender, kind and value of packets, and the path in their outer header.
type Segments = Rc<RefCell<Vec<(usize, Opcode, u32, Ipv6Addr)>>>;

/// The locator block of the fabric of the next tests.
const LOCATOR: u32 = 0xFCBB_BB00;

#[test]
fn source_routing_by_srv6_usids_leads_each_packet_over_the_switches_of_its_path_and_answers_over_others() {
    let evs = |first: u16| -> Vec<Ev> {
        let path = |i: u16| UsidPath::new(LOCATOR, &[first + i, 0x100 + i, 0x200]).unwrap();
        (0..8).map(|i| Ev { segment: Some(path(i).destination()), ..Ev::new(0x1000 + u32::from(i), 1) }).collect()
    };
    let format = || EvFormat::usid(3).unwrap();
    let (there, back) = (evs(0x10), evs(0x40));
    let pools = [explicit(format(), 1, &there), explicit(format(), 1, &back)];
    let mut pair = Pair::over(true, NicParams::default(), 1 << 20, Channel::default(), 1);
    let seen: Segments = Rc::default();
    let log = seen.clone();
    pair.filter = Some(Box::new(move |_, from, packet, frame| {
        let outer = packet.outer(frame).expect("every frame is encapsulated");
        let std::net::IpAddr::V6(mut at) = outer.ip.destination else { panic!("{outer:?}") };
        log.borrow_mut().push((from, packet.bth.opcode, packet.ev(), at));
        // Three switches on the way, each of which uses up its own uSID.
        for _ in 0..3 {
            let usid = at.segments()[2];
            at = at_switch(at, LOCATOR, usid).expect("the next switch of the path");
        }
        assert_eq!(at, Ipv6Addr::from((u128::from(LOCATOR)) << 96), "nothing is left");
        let mut frame = frame.to_vec();
        let to = packet.outer_at().unwrap() + 24;
        frame[to..to + 16].copy_from_slice(&at.octets());
        Fate::Replace(frame)
    }));
    let paths = pools.map(Paths::Profile);
    let qp = connect(&mut pair, paths);
    write(&mut pair, &qp, 1 << 20);
    pair.run_for(10 * MS);
    assert_written(&pair, 1 << 20);
    let path_of = |evs: &[Ev], ev| evs.iter().find(|known| known.value == ev).and_then(|known| known.segment);
    let mut ways_back = BTreeSet::new();
    for &(from, opcode, ev, segment) in seen.borrow().iter() {
        match (from, opcode) {
            (0, _) => assert_eq!(path_of(&there, ev), Some(segment), "the path that the value names"),
            // The value is that of the data; the path is one of its own.
            (_, Opcode::Sack) => {
                assert!(path_of(&there, ev).is_some());
                ways_back.insert(segment);
            }
            _ => assert_eq!(path_of(&back, ev), Some(segment)),
        }
    }
    assert_eq!(ways_back, back.iter().filter_map(|ev| ev.segment).collect(), "answers use all of their paths");
    // A path of one QP, for values without one.
    let outer =
        Encapsulation { source: Ipv6Addr::LOCALHOST, path: UsidPath::new(LOCATOR, &[1, 2, 3]).unwrap(), srh: true };
    let sprayed = pair.connect_with(0, |_, spec| spec.path.encapsulation = Some(outer));
    seen.borrow_mut().clear();
    pair.nics[0].post_write(sprayed.qpn[0], &pair.write(1, 0, 0, 64)).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 2);
    assert!(seen.borrow().iter().all(|entry| entry.3 == outer.path.destination()));
}

#[test]
fn ev_profiles_are_shared_by_qps_and_each_profile_towards_a_destination_has_a_state_of_its_own() {
    let list = |first: u32| (first..first + 4).map(|value| Ev::new(value, 1)).collect::<Vec<_>>();
    let format = || EvFormat::udp_port(&[16]).unwrap();
    let first = explicit(format(), 1, &list(1000));
    let second = Arc::new(EvPool { id: 8, ..(*explicit(format(), 1, &list(2000))).clone() });
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair, |_, _, _, _| true);
    let with = |pool: &Arc<EvPool>| [Paths::Profile(Arc::clone(pool)), Paths::Sprayed];
    let qps = [&first, &first, &second].map(|pool| connect(&mut pair, with(pool)));
    for (id, qp) in qps.iter().enumerate() {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(id as u64, 0, 0, 6 * 4096)).unwrap();
    }
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 3);
    let peer = pair.address(1);
    let sent: BTreeMap<u32, u64> = pair.nics[0].ev_use(peer).collect();
    assert_eq!(sent.len(), 8);
    let of = |values: std::ops::Range<u32>| values.map(|value| sent[&value]).collect::<Vec<_>>();
    assert_eq!(of(1000..1004), [3; 4], "two QPs of six packets in one rotation");
    assert_eq!(of(2000..2004).iter().sum::<u64>(), 6);
    let profile = |ev| pair.nics[0].list_evs(peer).find(|(_, report)| report.ev.value == ev).unwrap().0;
    assert_eq!((profile(1000), profile(2003)), (Some(7), Some(8)));
    // One QP after the other goes; with the last one of a profile its state goes.
    let now = pair.now;
    assert!(pair.nics[0].close(now, qps[0].qpn[0]));
    assert_eq!(pair.nics[0].ev_states(peer).count(), 8);
    assert!(pair.nics[0].close(now, qps[1].qpn[0]));
    assert_eq!(pair.nics[0].ev_states(peer).count(), 4);
    assert!(!data(&log).is_empty());
}

#[test]
fn ev_profiles_have_states_of_values_that_a_controller_sets_for_all_qps_and_for_those_to_come() {
    let evs: Vec<Ev> = (1000..1004).map(|value| Ev::new(value, 1)).collect();
    let pool = explicit(EvFormat::udp_port(&[16]).unwrap(), 1, &evs);
    let spraying = SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() };
    let mut pair = Pair::new(NicParams { spraying, ..NicParams::default() }, 1 << 20, Channel::default(), 1);
    let peer = pair.address(1);
    let with = || [Paths::Profile(Arc::clone(&pool)), Paths::Sprayed];
    pair.nics[0].set_profile_ev(Ns(1), 7, 1000, EvState::Denied);
    pair.nics[0].set_profile_ev(Ns(1), 7, 1001, EvState::AssumedBad);
    pair.nics[0].set_profile_ev(Ns(1), 8, 1002, EvState::Denied);
    let qp = connect(&mut pair, with());
    let states = |pair: &Pair| pair.nics[0].ev_states(peer).map(|(_, state)| state).collect::<Vec<_>>();
    let (good, bad, denied) = (EvState::Good, EvState::AssumedBad, EvState::Denied);
    assert_eq!(states(&pair), [denied, bad, good, good], "another profile's denials are none of this one's");
    let heard = |pair: &mut Pair| {
        let event = |event: EvEvent| (event.whose, event.ev, event.state);
        std::iter::from_fn(|| pair.nics[0].poll_event()).map(event).collect::<Vec<_>>()
    };
    let of = Whose::Of(Some(7));
    assert_eq!(heard(&mut pair), [(of, 1001, bad)], "for whoever probes");
    // A denial towards everybody, and that of the profile: both have to be lifted.
    let now = pair.now;
    assert!(pair.nics[0].deny(now, None, 1000, true));
    pair.nics[0].set_profile_ev(now, 7, 1000, good);
    assert_eq!(states(&pair)[0], denied);
    pair.nics[0].set_profile_ev(now, 7, 1000, denied);
    assert!(pair.nics[0].deny(now, None, 1000, false));
    assert_eq!(states(&pair)[0], denied);
    pair.nics[0].set_profile_ev(now, 7, 1000, good);
    assert_eq!((states(&pair)[0], heard(&mut pair)), (good, vec![(of, 1000, good)]));
    // The answer to a probe ends the other one, for QPs to come too.
    pair.nics[0].probe_destination(now, peer, 1001).unwrap();
    pair.run_for(MS);
    assert_eq!(heard(&mut pair), [(Whose::Everybody, 1001, good)]);
    let now = pair.now;
    assert!(pair.nics[0].close(now, qp.qpn[0]));
    connect(&mut pair, with());
    assert_eq!(states(&pair), [good; 4]);
}

#[test]
fn ev_profiles_give_open_qps_other_values_at_once() {
    let list = |first: u32| (first..first + 4).map(|value| Ev::new(value, 1)).collect::<Vec<_>>();
    let format = || EvFormat::udp_port(&[16]).unwrap();
    let (old, new) = (explicit(format(), 1, &list(1000)), explicit(format(), 1, &list(2000)));
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair, |_, _, _, _| true);
    let qp = connect(&mut pair, [Paths::Profile(old), Paths::Sprayed]);
    pair.nics[0].set_profile_ev(Ns(1), 7, 1001, EvState::AssumedBad);
    assert!(pair.nics[0].deny(Ns(1), None, 2003, true));
    write(&mut pair, &qp, 64 * 4096);
    assert_eq!(pair.nics[0].change_pool(Ns(2), &new), 1);
    assert_eq!(pair.nics[0].change_pool(Ns(2), &EvPool { id: 8, ..(*new).clone() }), 0, "nobody uses it");
    pair.run_for(10 * MS);
    assert_written(&pair, 64 * 4096);
    let used = counts(data(&log).iter().map(|(_, packet)| packet.ev()));
    assert_eq!(used.into_keys().collect::<Vec<_>>(), [2000, 2001, 2002]);
    let last = std::iter::from_fn(|| pair.nics[0].poll_event()).last().unwrap();
    assert_eq!((last.ev, last.state), (1001, EvState::Good), "nobody is to probe it any more");
}

#[test]
fn ev_profiles_that_are_explicit_have_values_replaced_while_they_are_in_use() {
    let evs: Vec<Ev> = (1000..1004).map(|value| Ev::new(value, 1)).collect();
    let pool = explicit(EvFormat::udp_port(&[16]).unwrap(), 1, &evs);
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair, |_, _, _, _| true);
    let qp = connect(&mut pair, [Paths::Profile(pool), Paths::Sprayed]);
    write(&mut pair, &qp, 1 << 20);
    pair.run_for(US);
    let now = pair.now;
    assert_eq!(pair.nics[0].replace_ev(now, 7, 1001, Ev::new(3000, 1), Copies::All), 1);
    assert_eq!(pair.nics[0].replace_ev(now, 7, 1001, Ev::new(3000, 1), Copies::All), 0, "gone already");
    assert_eq!(pair.nics[0].replace_ev(now, 7, 1002, Ev::new(3001, 2), Copies::All), 0, "no such port");
    log.borrow_mut().clear();
    pair.run_for(10 * MS);
    assert_written(&pair, 1 << 20);
    let used: BTreeSet<u32> = data(&log).iter().map(|(_, packet)| packet.ev()).collect();
    assert_eq!(used, [1000, 1002, 1003, 3000].into());
}

#[test]
fn ev_states_and_denylisting_take_a_value_out_for_a_turn_until_an_answer_or_for_good() {
    let spraying = SprayingParams { entropy_mask_bits: 2, ..probed().spraying };
    let transport = TransportParams { sack_loss_min_retx_pkts: 1023, ..TransportParams::default() };
    let mut pair = Pair::new(NicParams { spraying, transport, ..probed() }, 1 << 20, Channel::default(), 1);
    let qp = pair.connect(0);
    let peer = pair.address(1);
    let state = |pair: &Pair, ev| pair.nics[0].ev_states(peer).find(|(value, _)| *value == ev).unwrap().1;
    // A mark on the way: SKIP, for one turn.
    pair.filter =
        Some(Box::new(
            |_, from, packet, frame| {
                if from == 0 && packet.ev() == 257 { Fate::Replace(marked(frame)) } else { Fate::Pass }
            },
        ));
    write(&mut pair, &qp, 4 * 4096);
    pair.run_for(100 * US);
    assert_eq!(state(&pair, 257), EvState::Skip);
    pair.filter = None;
    write(&mut pair, &qp, 4 * 4096);
    pair.run_for(100 * US);
    assert_eq!(state(&pair, 257), EvState::Good);
    // A timeout: ASSUMED_BAD, until the answer to a probe.
    pair.filter =
        Some(Box::new(|_, from, packet, _| if from == 0 && packet.ev() == 258 { Fate::Drop } else { Fate::Pass }));
    write(&mut pair, &qp, 8 * 4096);
    pair.run_for(MS);
    assert_eq!(state(&pair, 258), EvState::AssumedBad);
    let now = pair.now;
    pair.nics[0].probe_destination(now, peer, 258).unwrap();
    pair.run_for(MS);
    assert_eq!(state(&pair, 258), EvState::AssumedBad, "the probe was lost");
    pair.filter = None;
    let now = pair.now;
    pair.nics[0].probe_destination(now, peer, 258).unwrap();
    pair.run_for(MS);
    assert_eq!(state(&pair, 258), EvState::Good);
    // The controller's word: DENIED, whatever is answered, until it is taken back.
    let now = pair.now;
    assert!(pair.nics[0].deny(now, Some(peer), 259, true));
    pair.nics[0].probe_destination(now, peer, 259).unwrap();
    pair.run_for(MS);
    assert_eq!(state(&pair, 259), EvState::Denied);
    let sent = |pair: &Pair| pair.nics[0].ev_use(peer).find(|(ev, _)| *ev == 259).unwrap().1;
    let before = sent(&pair);
    write(&mut pair, &qp, 1 << 20);
    pair.run_for(10 * MS);
    assert_eq!(sent(&pair), before);
    let now = pair.now;
    assert!(pair.nics[0].deny(now, Some(peer), 259, false));
    write(&mut pair, &qp, 4 * 4096);
    pair.run_for(MS);
    assert_eq!(sent(&pair), before + 1);
}

#[test]
fn ev_states_and_denylisting_holds_for_profiles_to_come_and_for_each_peer_by_itself() {
    let list = |first: u32| (first..first + 4).map(|value| Ev::new(value, 1)).collect::<Vec<_>>();
    let format = || EvFormat::udp_port(&[16]).unwrap();
    let pool = explicit(format(), 1, &list(1000));
    let mut pair = Pair::new(probed(), 1 << 20, Channel::default(), 1);
    let (now, peer) = (pair.now, pair.address(1));
    // Before there is any QP: for that peer, and for everybody.
    assert!(pair.nics[0].deny(now, Some(peer), 1001, true));
    assert!(pair.nics[0].deny(now, None, 1002, true));
    let qp = connect(&mut pair, [Paths::Profile(pool), Paths::Sprayed]);
    let denied = |pair: &Pair| -> Vec<u32> {
        let states = pair.nics[0].ev_states(peer).filter(|(_, state)| *state == EvState::Denied);
        states.map(|(ev, _)| ev).collect()
    };
    assert_eq!(denied(&pair), [1001, 1002]);
    // One denial is lifted, the other still stands.
    assert!(pair.nics[0].deny(now, Some(peer), 1002, true));
    assert!(pair.nics[0].deny(now, None, 1002, false));
    assert_eq!(denied(&pair), [1001, 1002]);
    assert!(pair.nics[0].deny(now, Some(peer), 1002, false));
    assert_eq!(denied(&pair), [1001]);
    // A replacement that is denied is not used either.
    assert!(pair.nics[0].deny(now, None, 3000, true));
    pair.nics[0].replace_ev(now, 7, 1003, Ev::new(3000, 1), Copies::All);
    assert_eq!(denied(&pair), [1001, 3000]);
    // With the last value denied nothing goes; a good one that replaces it lets it go again.
    for ev in [1000, 1002] {
        pair.nics[0].deny(now, None, ev, true);
    }
    write(&mut pair, &qp, 4 * 4096);
    pair.run_for(MS);
    assert_eq!(pair.nics[0].stats().tx_data.get(), 0);
    let now = pair.now;
    pair.nics[0].replace_ev(now, 7, 1000, Ev::new(4000, 1), Copies::All);
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 1);
}

#[test]
fn ev_states_and_denylisting_of_one_profile_stop_no_qp_of_another_in_the_same_group() {
    let list = |first: u32| (first..first + 2).map(|value| Ev::new(value, 1)).collect::<Vec<_>>();
    let format = || EvFormat::udp_port(&[16]).unwrap();
    let first = explicit(format(), 1, &list(1000));
    let second = Arc::new(EvPool { id: 8, ..(*explicit(format(), 1, &list(2000))).clone() });
    let mut pair = Pair::new(probed(), 1 << 20, Channel::default(), 1);
    let [stopped, free] = [first, second].map(|pool| connect(&mut pair, [Paths::Profile(pool), Paths::Sprayed]));
    for ev in [1000, 1001] {
        pair.nics[0].deny(Ns::ZERO, None, ev, true);
    }
    for (id, qp) in [&stopped, &free].into_iter().enumerate() {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(id as u64, 0, 0, 8 * 4096)).unwrap();
    }
    pair.run_for(MS);
    assert_eq!(pair.completions[0].iter().map(|entry| entry.qpn).collect::<Vec<_>>(), [free.qpn[0]]);
    let now = pair.now;
    pair.nics[0].deny(now, None, 1000, false);
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 2);
}

#[test]
fn ev_states_and_denylisting_forget_what_a_denied_value_was_assumed_to_be() {
    let mut pair = Pair::new(probed(), 1 << 20, Channel::default(), 1);
    let qp = pair.connect(0);
    let peer = pair.address(1);
    pair.filter = Some(Box::new(|_, from, _, _| if from == 0 { Fate::Drop } else { Fate::Pass }));
    write(&mut pair, &qp, 4096);
    pair.run_for(160 * US);
    let bad = pair.nics[0].ev_states(peer).find(|(_, state)| *state == EvState::AssumedBad).unwrap().0;
    let now = pair.now;
    pair.nics[0].deny(now, None, bad, true);
    pair.nics[0].deny(now, None, bad, false);
    let state = pair.nics[0].list_evs(peer).find(|(_, report)| report.ev.value == bad);
    assert!(state.is_none_or(|(_, report)| report.state == EvState::Good), "in use and good, or a spare one");
}

#[test]
fn multi_plane_operation_loads_every_port_alike_and_answers_leave_by_a_port_of_their_own() {
    for planes in 1..=8 {
        let mut pair = Pair::in_planes(planes, false, NicParams::default(), 1 << 20, Channel::default(), 1);
        let log = watch(&mut pair, |_, _, _, _| true);
        let qp = pair.connect(0);
        write(&mut pair, &qp, 1 << 20);
        pair.run_for(10 * MS);
        assert_written(&pair, 1 << 20);
        let data = data(&log);
        let loads = counts(data.iter().map(|(port, _)| *port));
        assert_eq!(loads.len(), usize::from(planes));
        let (least, most) = (loads.values().min().unwrap(), loads.values().max().unwrap());
        assert!(most - least <= 1, "{planes} planes: {loads:?}");
        // A value has one port, and the frame the addresses of that port.
        let ports: BTreeSet<(u32, u8)> = data.iter().map(|(port, packet)| (packet.ev(), *port)).collect();
        assert_eq!(ports.len(), ports.iter().map(|(ev, _)| ev).collect::<BTreeSet<_>>().len());
        assert!(
            data.iter().all(|(port, packet)| packet.link.source.0[1] == *port && packet.link.destination.0[1] == *port)
        );
        let sacks = answers(&log, Opcode::Sack);
        let loads = counts(sacks.iter().map(|(port, _)| *port));
        let (least, most) = (loads.values().min().unwrap(), loads.values().max().unwrap());
        assert!(loads.len() == usize::from(planes) && most - least <= 1, "answers in {planes} planes: {loads:?}");
    }
}

#[test]
fn multi_plane_operation_goes_on_while_a_port_takes_no_more() {
    let mut pair = Pair::in_planes(4, false, NicParams::default(), 1 << 20, Channel::default(), 1);
    let log = watch(&mut pair, |_, _, _, _| true);
    let qp = pair.connect(0);
    pair.full_ports = [0b0010, 0b1000];
    write(&mut pair, &qp, 1 << 20);
    pair.run_for(10 * MS);
    assert_written(&pair, 1 << 20);
    assert_eq!(counts(data(&log).iter().map(|(port, _)| *port)).keys().copied().collect::<Vec<_>>(), [0, 2, 3]);
    assert!(answers(&log, Opcode::Sack).iter().all(|(port, _)| *port != 3));
    pair.full_ports = [0b1111, 0];
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 64)).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 1, "no port, no packet");
    pair.full_ports = [0; 2];
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 2);
}

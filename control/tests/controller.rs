//! The controller over two NICs in virtual time: values that time out, probes, and values that come back.

use crate::controlled::Controlled;
use control::controller::{Command, EvSpec, Happening, ProfileSpec};
use dataplane::Ns;
use dataplane::nic::{NicParams, Paths, PortId};
use dataplane::path::SprayingParams;
use dataplane::path::profile::Copies;
use dataplane::time::{MS, US};
use dataplane::transport::TransportParams;
use dataplane::wire::Opcode;
use mrcnic_tests::{Channel, Fate};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Loses NIC 0's port status updates before `until`, and notes when each was sent, in microseconds.
fn lose_updates(run: &mut Controlled, until: Ns) -> Rc<RefCell<Vec<u64>>> {
    let sent: Rc<RefCell<Vec<u64>>> = Rc::default();
    let seen = sent.clone();
    run.pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 1 || packet.bth.opcode != Opcode::EndpointRequest {
            return Fate::Pass;
        }
        seen.borrow_mut().push(now.micros());
        if now < until { Fate::Drop } else { Fate::Pass }
    }));
    sent
}

#[test]
fn ev_probes_go_to_each_of_three_bad_values_every_450_us_and_a_lost_one_leaves_its_value_out() {
    let mut run = Controlled::new(1, NicParams::default(), 1 << 20, Channel::default());
    let qp = run.pair.connect(0);
    // Three values are black holes until 5 ms.
    let holes: Rc<RefCell<Vec<u32>>> = Rc::default();
    let probes: Rc<RefCell<Vec<(Ns, u32)>>> = Rc::default();
    let (chosen, seen) = (holes.clone(), probes.clone());
    run.pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 1 {
            return Fate::Pass;
        }
        let mut holes = chosen.borrow_mut();
        if packet.bth.opcode == Opcode::Probe {
            seen.borrow_mut().push((now, packet.ev()));
        } else if holes.len() < 3 && !holes.contains(&packet.ev()) {
            holes.push(packet.ev());
        }
        if now < Ns(5 * MS) && holes.contains(&packet.ev()) { Fate::Drop } else { Fate::Pass }
    }));
    run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(0, 0, 0, 64 * 1024)).unwrap();
    run.run_until(Ns(4 * MS));
    assert_eq!(run.bad().len(), 3);
    let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for &(at, ev) in probes.borrow().iter() {
        times.entry(ev).or_default().push(at.micros());
    }
    assert_eq!(times.len(), 3);
    for times in times.values() {
        assert!(times.len() >= 8);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 450), "{times:?}");
    }
    // The paths heal: within 3 x 150 us and a round trip all values are back, and probing stops.
    run.run_until(Ns(5 * MS + 455 * US));
    assert!(run.bad().is_empty());
    assert_eq!(run.controller.next_wake(), None);
    let sent = run.controller.probes();
    run.run_until(Ns(8 * MS));
    assert_eq!(run.controller.probes(), sent);
    assert_eq!(run.pair.completions[0].len(), 1);
}

#[test]
fn ev_states_keep_a_black_hole_out_of_the_rotation_and_the_others_carry_equal_shares() {
    // Eight values, each a path; one is black-holed from 200 us on.
    let spraying = SprayingParams { entropy_mask_bits: 3, ..SprayingParams::default() };
    // SACK gaps say nothing of a path, and would repair every loss before its timer runs out: here the timers find them.
    let transport = TransportParams { sack_loss_min_retx_pkts: 1023, ..TransportParams::default() };
    let params = NicParams { spraying, transport, ..NicParams::default() };
    let mut run = Controlled::new(1, params, 1 << 20, Channel::default());
    let qp = run.pair.connect(0);
    let counts: Rc<RefCell<BTreeMap<u32, u32>>> = Rc::default();
    let (counted, counting) = (counts.clone(), Rc::new(Cell::new(false)));
    let on = counting.clone();
    run.pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 0 && packet.bth.opcode.is_data() && on.get() {
            *counted.borrow_mut().entry(packet.ev()).or_default() += 1;
        }
        if from == 0 && packet.ev() == 259 && now > Ns(200 * US) { Fate::Drop } else { Fate::Pass }
    }));
    for id in 0..400 {
        run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(id, 0, 0, 256 * 1024)).unwrap();
    }
    run.run_until(Ns(200 * US));
    assert!(run.bad().is_empty());
    // The first timeout of the value comes 150 us after its first loss.
    run.run_until(Ns(360 * US));
    assert_eq!(run.bad(), [259]);
    counting.set(true);
    run.run_until(Ns(600 * US));
    let counts = counts.borrow();
    assert!(!counts.contains_key(&259));
    assert_eq!(counts.len(), 7);
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(most - least <= 1, "equal to within one packet a rotation: {counts:?}");
    assert_eq!(run.pair.nics[0].stats().qp_errors.get(), 0);
}

#[test]
fn a_value_that_the_controller_denies_is_unused_from_then_on() {
    let mut run = Controlled::new(1, NicParams::default(), 1 << 20, Channel::default());
    let qp = run.pair.connect(0);
    let peer = run.pair.address(1);
    let (denied, _) = run.pair.nics[0].ev_states(peer).next().unwrap();
    assert!(run.controller.deny(Some(peer), denied, true));
    run.run_until(Ns(2 * US));
    let used: Rc<RefCell<Vec<u32>>> = Rc::default();
    let seen = used.clone();
    run.pair.filter = Some(Box::new(move |_, from, packet, _| {
        if from == 0 {
            seen.borrow_mut().push(packet.ev());
        }
        Fate::Pass
    }));
    run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(0, 0, 0, 1 << 20)).unwrap();
    run.run_until(Ns(MS));
    assert_eq!(used.borrow().len(), 256);
    assert!(!used.borrow().contains(&denied));
    assert_eq!(run.controller.poll_command(), None::<Command>);
}

#[test]
fn probing_forgets_a_destination_without_an_open_qp() {
    let transport = TransportParams { exponential_retry_count: 0, linear_retry_count: 1, ..TransportParams::default() };
    let mut run = Controlled::new(1, NicParams { transport, ..NicParams::default() }, 4096, Channel::default());
    let qp = run.pair.connect(0);
    run.pair.filter = Some(Box::new(|_, _, _, _| Fate::Drop));
    run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(0, 0, 0, 64)).unwrap();
    run.run_until(Ns(MS));
    assert_eq!(run.pair.completions[0].len(), 1);
    let now = run.pair.now;
    assert!(run.pair.nics[0].close(now, qp.qpn[0]));
    run.run_until(Ns(2 * MS));
    assert_eq!(run.controller.suspects(run.pair.address(1)).count(), 0);
    assert_eq!(run.controller.next_wake(), None);
}

#[test]
fn a_port_status_update_that_gets_lost_is_repeated_after_twice_the_wait_each_time_until_the_peer_confirms() {
    let mut run = Controlled::new(2, NicParams::default(), 4096, Channel::default());
    run.pair.connect(0);
    let sent = lose_updates(&mut run, Ns(2 * MS));
    assert!(run.controller.set_admin(run.pair.now, PortId(1), false));
    run.run_until(Ns(2 * MS));
    assert_eq!(run.controller.untold_peers(), 1);
    assert_eq!(run.pair.nics[1].peer_ports_out(run.pair.address(0)), 0, "the peer has not heard of it");
    run.run_until(Ns(20 * MS));
    let sent = sent.borrow();
    assert_eq!(sent[1..], [150, 450, 1050, 2250], "none after it was confirmed");
    assert_eq!(run.pair.nics[1].peer_ports_out(run.pair.address(0)), 0b10);
    assert_eq!(run.controller.untold_peers(), 0);
    let next = run.controller.next_wake().unwrap();
    assert!(next > Ns(900 * MS), "a peer that comes later is looked for now and then: {next:?}");
}

#[test]
fn with_all_ports_back_and_confirmed_the_controller_sleeps_again() {
    let mut run = Controlled::new(2, NicParams::default(), 4096, Channel::default());
    run.pair.connect(0);
    let sent = lose_updates(&mut run, Ns::ZERO);
    run.controller.set_link(run.pair.now, PortId(0), false);
    run.run_until(Ns(MS));
    assert_eq!(run.pair.nics[1].peer_ports_out(run.pair.address(0)), 0b01);
    run.controller.set_link(run.pair.now, PortId(0), true);
    run.run_until(Ns(2 * MS));
    assert_eq!(run.pair.nics[1].peer_ports_out(run.pair.address(0)), 0);
    assert_eq!((run.controller.next_wake(), sent.borrow().len()), (None, 2));
}

#[test]
fn what_a_peer_says_of_its_ports_is_known_to_the_controller_and_a_notice() {
    let mut run = Controlled::new(4, NicParams::default(), 4096, Channel::default());
    run.pair.connect(0);
    let peer = run.pair.address(1);
    let now = run.pair.now;
    run.pair.nics[1].set_port(now, PortId(3), false);
    run.run_until(Ns(MS));
    assert_eq!(run.controller.peers_out().collect::<Vec<_>>(), [(peer, 0b1000)]);
    let notices: Vec<_> = std::iter::from_fn(|| run.controller.poll_notice()).map(|notice| notice.what).collect();
    assert_eq!(notices, [Happening::PeerPorts { destination: peer, out: 0b1000 }]);
    assert_eq!(run.controller.next_wake(), None, "it is the peer that repeats");
}

#[test]
fn an_ev_that_the_controller_replaces_is_unused_from_then_on_and_the_new_one_takes_its_turns() {
    let mut run = Controlled::new(2, NicParams::default(), 1 << 20, Channel::default());
    let text = r#"
        id = 7
        mode = "explicit"
        format.kind = "stev"
        evs = [{ ev = 0x10001, port = 1 }, { ev = 0x20001, port = 2 }, { ev = 0x10001, port = 1 }, { ev = 0x30001, port = 2 }]
    "#;
    let profiles = run.controller.profiles_mut();
    profiles.create(&ProfileSpec::read(text).unwrap()).unwrap();
    profiles.online(7).unwrap();
    let pool = profiles.acquire(7, 1).unwrap();
    let qp = run.pair.connect_with(0, |n, spec| {
        if n == 0 {
            spec.path.paths = Paths::Profile(pool.clone());
        }
    });
    let new = EvSpec { ev: 0x4_0001, port: None, segment: None };
    let (profile, new, places) = run.controller.replace_ev(None, 0x1_0001, new, Copies::All).unwrap();
    assert_eq!((profile, new.port, places), (7, 1, 2));
    run.run_until(Ns(2 * US));
    let used: Rc<RefCell<BTreeMap<u32, u32>>> = Rc::default();
    let seen = used.clone();
    run.pair.filter = Some(Box::new(move |_, from, packet, _| {
        if from == 0 {
            *seen.borrow_mut().entry(packet.ev()).or_default() += 1;
        }
        Fate::Pass
    }));
    run.pair.nics[0].post_write(qp.qpn[0], &run.pair.write(0, 0, 0, 1 << 20)).unwrap();
    run.run_until(Ns(MS));
    assert_eq!(*used.borrow(), BTreeMap::from([(0x2_0001, 64), (0x3_0001, 64), (0x4_0001, 128)]));
    assert!(run.controller.profiles_mut().offline(7).unwrap_err().to_string().contains("used by 1 QP"));
}

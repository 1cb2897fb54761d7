//! Table I of the MRC paper, rows "Resilience & Fast Fail-over": tests named after each.

use crate::port_log::{assert_written, counts, data, probed, watch, write};
use dataplane::Ns;
use dataplane::nic::{DropReason, PortId, QpState};
use dataplane::path::profile::Ev;
use dataplane::time::{MS, US};
use dataplane::wire::{Ext, Opcode};
use mrcnic_tests::{Channel, Fate, Pair, QpPair};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

#[test]
fn ev_probes_leave_by_the_port_of_their_value_and_tell_a_live_path_from_a_dead_one() {
    let mut pair = Pair::in_planes(4, false, probed(), 4096, Channel::default(), 1);
    let log = watch(&mut pair, |_, from, port, _| !(from == 0 && port == 2));
    pair.connect(0);
    let peer = pair.address(1);
    let evs: Vec<Ev> = pair.nics[0].list_evs(peer).map(|(_, report)| report.ev).take(8).collect();
    for ev in &evs {
        pair.nics[0].ev_probe(peer, ev.value).unwrap();
    }
    pair.run_for(MS);
    let asked: Vec<(u32, u8)> = log.borrow().iter().filter(|e| e.1 == 0).map(|e| (e.3.ev(), e.2 + 1)).collect();
    assert_eq!(asked, evs.iter().map(|ev| (ev.value, ev.port)).collect::<Vec<_>>());
    let alive: Vec<u32> = std::iter::from_fn(|| pair.nics[0].poll_ev_probe()).map(|answer| answer.ev).collect();
    let expected: Vec<u32> = evs.iter().filter(|ev| ev.port != 3).map(|ev| ev.value).collect();
    assert_eq!(alive, expected);
}

#[test]
fn port_status_update_moves_the_share_of_a_port_to_the_others_within_one_round_trip_and_no_qp_fails() {
    let channel = Channel { delay_ns: 3 * US, ..Channel::default() };
    let mut pair = Pair::in_planes(4, false, probed(), 1 << 20, channel, 1);
    // From 100 us on the second NIC's port 1 is dark.
    let dark = Rc::new(Cell::new(false));
    let is_dark = dark.clone();
    let log = watch(&mut pair, move |_, _, port, _| !(is_dark.get() && port == 1));
    let qps: Vec<QpPair> = (0..4).map(|_| pair.connect(0)).collect();
    pair.fill(3);
    for round in 0..100 {
        for qp in &qps {
            pair.nics[0].post_write(qp.qpn[0], &pair.write(round, 0, 0, 256 * 1024)).unwrap();
        }
    }
    pair.run_until(Ns(100 * US));
    dark.set(true);
    let now = pair.now;
    assert!(pair.nics[1].set_port(now, PortId(1), false));
    pair.run_until(Ns(3_000 * US));
    let log = log.borrow();
    let update = log.iter().find(|entry| entry.1 == 1 && entry.3.bth.opcode == Opcode::EndpointRequest).unwrap();
    let Ext::EndpointRequest(request) = update.3.ext else { panic!("{update:?}") };
    assert_eq!(request.port_status_mask & 0xF, 0b1101);
    assert_ne!(update.2, 1, "it does not leave by the port that is down");
    let round_trip = update.0 + 6 * US;
    let later = |from: usize| log.iter().filter(move |entry| entry.0 >= round_trip && entry.1 == from);
    assert!(later(0).all(|entry| entry.2 != 1) && later(1).all(|entry| entry.2 != 1));
    let fresh = later(0).filter(|entry| entry.3.bth.opcode.is_data()).map(|entry| entry.2);
    let loads = counts(fresh);
    let (least, most) = (*loads.values().min().unwrap(), *loads.values().max().unwrap());
    assert!(loads.len() == 3 && most - least <= 1 + most / 50, "{loads:?}");
    let (peer, me) = (pair.address(1), pair.address(0));
    assert_eq!((pair.nics[0].peer_ports_out(peer), pair.nics[1].peer_ports_out(me)), (0b0010, 0));
    let event = pair.nics[0].poll_port_event().unwrap();
    assert_eq!((event.peer, event.out), (Some(peer), 0b0010));
    assert_eq!(pair.nics[1].tell_ports(), 0, "the answer confirmed it");
    for qp in &qps {
        assert_eq!(pair.nics[0].state(qp.qpn[0]), Some(QpState::Rts));
    }
    assert_eq!(pair.nics[0].stats().qp_errors.get() + pair.nics[1].stats().qp_errors.get(), 0);
}

#[test]
fn port_status_update_brings_a_port_back_as_it_took_it_out() {
    let mut pair = Pair::in_planes(2, true, probed(), 1 << 20, Channel::default(), 1);
    let qp = pair.connect(0);
    let log = watch(&mut pair, |_, _, _, _| true);
    for in_use in [false, true] {
        let now = pair.now;
        assert!(pair.nics[1].set_port(now, PortId(0), in_use));
        assert!(!pair.nics[1].set_port(now, PortId(0), in_use));
        assert!(!pair.nics[1].set_port(now, PortId(7), in_use), "no such port");
        pair.run_for(20 * US);
        log.borrow_mut().clear();
        write(&mut pair, &qp, 64 * 4096);
        pair.run_for(MS);
        let used: BTreeSet<u8> = data(&log).iter().map(|(port, _)| *port).collect();
        assert_eq!(used, if in_use { [0, 1].into() } else { [1].into() });
    }
}

#[test]
fn port_status_update_is_sent_again_until_it_is_confirmed_and_a_new_peer_learns_it_at_once() {
    let mut pair = Pair::in_planes(2, false, probed(), 4096, Channel::default(), 1);
    let lost = Rc::new(Cell::new(2));
    let to_lose = lost.clone();
    let log = watch(&mut pair, move |_, from, _, packet| {
        let drop = from == 1 && packet.bth.opcode == Opcode::EndpointRequest && to_lose.get() > 0;
        to_lose.set(to_lose.get() - i32::from(drop));
        !drop
    });
    let qp = pair.connect(0);
    let (now, peer) = (pair.now, pair.address(1));
    pair.nics[1].set_port(now, PortId(1), false);
    pair.run_for(20 * US);
    assert_eq!(pair.nics[1].tell_ports(), 1);
    pair.run_for(20 * US);
    assert_eq!((pair.nics[1].tell_ports(), pair.nics[0].peer_ports_out(peer)), (1, 0));
    pair.run_for(20 * US);
    assert_eq!((pair.nics[1].tell_ports(), pair.nics[0].peer_ports_out(peer)), (0, 0b10));
    // The QP is made again: both ends forgot each other, and the port is still down.
    log.borrow_mut().clear();
    pair.reconnect(&qp, 0);
    assert_eq!(pair.nics[0].peer_ports_out(peer), 0);
    pair.run_for(20 * US);
    assert_eq!(pair.nics[0].peer_ports_out(peer), 0b10);
}

#[test]
fn port_status_update_that_comes_before_its_qp_is_not_taken_for_known() {
    let mut pair = Pair::in_planes(2, false, probed(), 4096, Channel::default(), 1);
    pair.nics[1].set_port(Ns::ZERO, PortId(1), false);
    // The second NIC opens its end first, and tells at once; the first one has no QP yet.
    let kept = RefCell::new(None);
    let qp = pair.connect_with(0, |n, spec| {
        if n == 0 {
            *kept.borrow_mut() = Some(spec.clone());
        }
    });
    assert!(pair.nics[0].close(Ns::ZERO, qp.qpn[0]));
    pair.run_for(20 * US);
    assert_eq!(pair.nics[0].stats().drops_by(DropReason::EndpointStranger), 1);
    let now = pair.now;
    pair.nics[0].open(now, kept.take().unwrap()).unwrap();
    assert_eq!(pair.nics[1].tell_ports(), 1, "told again, since nobody confirmed it");
    pair.run_for(20 * US);
    assert_eq!((pair.nics[1].tell_ports(), pair.nics[0].peer_ports_out(pair.address(1))), (0, 0b10));
}

#[test]
fn port_status_update_of_a_peer_is_heard_whatever_strangers_ask() {
    let mut pair = Pair::in_planes(2, false, probed(), 4096, Channel::default(), 1);
    pair.connect(0);
    let (now, peer) = (pair.now, pair.address(1));
    for _ in 0..200 {
        pair.nics[1].ev_probe(pair.address(0), 300).unwrap();
    }
    pair.nics[1].set_port(now, PortId(1), false);
    pair.run_for(MS);
    assert!(pair.nics[0].stats().drops_by(DropReason::EndpointRate) > 0);
    assert_eq!(pair.nics[0].peer_ports_out(peer), 0b10);
    assert_eq!(pair.nics[1].tell_ports(), 0);
}

#[test]
fn port_status_update_sends_anew_what_a_dead_port_was_given_and_never_took() {
    let mut pair = Pair::in_planes(2, false, probed(), 1 << 20, Channel::default(), 1);
    let qp = pair.connect(0);
    // Port 0's driver keeps what it is given.
    pair.stuck_ports = [0b01, 0];
    write(&mut pair, &qp, 8 * 4096);
    pair.run_for(10 * MS);
    assert!(pair.completions[0].is_empty(), "half of it waits at the port");
    let now = pair.now;
    pair.nics[0].set_port(now, PortId(0), false);
    pair.run_for(10 * MS);
    assert_written(&pair, 8 * 4096);
}

#[test]
fn port_status_update_that_was_overtaken_by_a_later_one_changes_nothing() {
    let mut pair = Pair::in_planes(2, false, probed(), 4096, Channel::default(), 1);
    let kept: Rc<RefCell<Option<Vec<u8>>>> = Rc::default();
    let keep = kept.clone();
    pair.filter = Some(Box::new(move |_, from, packet, frame| {
        let first = from == 1 && packet.bth.opcode == Opcode::EndpointRequest && keep.borrow().is_none();
        if first {
            *keep.borrow_mut() = Some(frame.to_vec());
        }
        if first { Fate::Drop } else { Fate::Pass }
    }));
    pair.connect(0);
    let (now, peer) = (pair.now, pair.address(1));
    pair.nics[1].set_port(now, PortId(1), false);
    pair.run_for(10 * US);
    let now = pair.now;
    pair.nics[1].set_port(now, PortId(1), true);
    pair.run_for(10 * US);
    let old = kept.borrow_mut().take().unwrap();
    pair.inject(0, old);
    pair.run_for(10 * US);
    assert_eq!(pair.nics[0].peer_ports_out(peer), 0);
    assert_eq!(pair.nics[0].stats().drops_by(DropReason::EndpointOvertaken), 1);
    assert_eq!(pair.nics[1].tell_ports(), 0, "what the peer knows is what is so");
    assert!(pair.nics[0].poll_port_event().is_none());
}

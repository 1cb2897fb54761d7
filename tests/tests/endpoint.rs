//! Endpoint operations between two NICs in virtual time.

use dataplane::Ns;
use dataplane::nic::{
    DropReason, ENDPOINT_QUEUE_MAX, EndpointAnswer, EndpointAsk, EndpointOrder, EvState, NicParams, PortId,
};
use dataplane::path::SprayingParams;
use dataplane::time::{MS, US};
use dataplane::wire::{Addressing, MacAddr, Opcode, Packet, Template};
use mrcnic_tests::{Channel, Fate, Pair};
use std::cell::RefCell;
use std::rc::Rc;

type Seen = Rc<RefCell<Vec<(usize, Packet, Vec<u8>)>>>;

fn watch(pair: &mut Pair) -> Seen {
    let seen = Seen::default();
    let log = seen.clone();
    pair.filter = Some(Box::new(move |_, from, packet, frame| {
        log.borrow_mut().push((from, *packet, frame.to_vec()));
        Fate::Pass
    }));
    seen
}

#[test]
fn ev_probes_of_endpoints_are_answered_without_a_connection_on_the_probed_path() {
    for v6 in [false, true] {
        let channel = Channel { delay_ns: 10 * US, ..Channel::default() };
        let mut pair = Pair::over(v6, NicParams::default(), 4096, channel, 1);
        let seen = watch(&mut pair);
        pair.connect(5);
        let peer = pair.address(1);
        let id = pair.nics[0].ev_probe(peer, 0x0012_0150).unwrap();
        pair.run_for(MS);
        let answer = pair.nics[0].poll_ev_probe().unwrap();
        assert_eq!((answer.remote, answer.ev, answer.rtt), (peer, 0x0012_0150, Some(156 * 128)));
        let seen = seen.borrow();
        let [(0, asked, request), (1, answered, response)] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!((asked.bth.opcode, asked.bth.dqp, asked.bth.psn), (Opcode::EndpointRequest, 2, id.into()));
        assert_eq!((answered.bth.opcode, answered.bth.dqp, answered.bth.psn), (Opcode::EndpointResponse, 2, id.into()));
        assert_eq!(answered.ev(), asked.ev());
        assert_eq!((asked.ip.dscp, answered.ip.dscp), (46, 46));
        // Layers 2 and 3 are swapped.
        assert_eq!((&response[..6], &response[6..12]), (&request[6..12], &request[..6]));
        assert_eq!((answered.ip.source, answered.ip.destination), (asked.ip.destination, asked.ip.source));
    }
}

#[test]
fn a_host_asks_an_address_that_no_qp_is_open_with_and_hears_of_the_port_and_the_time() {
    let channel = Channel { delay_ns: 10 * US, ..Channel::default() };
    let mut pair = Pair::new(NicParams::default(), 4096, channel, 1);
    let seen = watch(&mut pair);
    let addressing = Addressing {
        source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        source: pair.address(0),
        destination: pair.address(1),
        hop_limit: 64,
        udp_port: pair.nics[0].params().udp_port,
    };
    let order = EndpointOrder {
        template: Template::new(&addressing).unwrap(),
        remote: pair.address(1),
        port: PortId(0),
        ev: 0x0012_0150,
        segment: None,
        dscp: 10,
        ask: EndpointAsk::EvProbe,
    };
    let id = pair.nics[0].ask_endpoint(&order).unwrap();
    // Nobody there has a QP with us, so nobody takes note of our ports.
    let told = pair.nics[0].ask_endpoint(&EndpointOrder { ask: EndpointAsk::PortStatus { up: 1 }, ..order }).unwrap();
    assert_eq!(pair.nics[0].ask_endpoint(&EndpointOrder { port: PortId(1), ..order }), None, "no such port");
    pair.run_for(MS);
    let answer = pair.nics[0].poll_endpoint_answer().unwrap();
    assert_eq!(answer, EndpointAnswer { id, port: PortId(0), rtt_ns: 156 * 128, adjusted: true });
    assert_eq!((pair.nics[0].poll_endpoint_answer(), pair.nics[0].poll_ev_probe()), (None, None));
    assert_eq!(seen.borrow().iter().map(|(_, packet, _)| packet.ip.dscp).collect::<Vec<_>>(), [10, 10, 46]);
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::EndpointStranger), 1);
    pair.nics[0].give_up_endpoint(told);
    // With a QP it does.
    pair.connect(5);
    let told = pair.nics[0].ask_endpoint(&EndpointOrder { ask: EndpointAsk::PortStatus { up: 0 }, ..order }).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.nics[0].poll_endpoint_answer().unwrap().id, told);
    assert_eq!(pair.nics[1].peer_ports_out(pair.address(0)), 1);
}

#[test]
fn as_many_questions_of_a_host_wait_as_may_and_those_given_up_make_room() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    pair.filter = Some(Box::new(|_, _, _, _| Fate::Drop));
    let addressing = Addressing {
        source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        source: pair.address(0),
        destination: pair.address(1),
        hop_limit: 64,
        udp_port: pair.nics[0].params().udp_port,
    };
    let (template, remote) = (Template::new(&addressing).unwrap(), pair.address(1));
    let ask = EndpointAsk::EvProbe;
    let order = EndpointOrder { template, remote, port: PortId(0), ev: 300, segment: None, dscp: 0, ask };
    let ids: Vec<u16> = (0..ENDPOINT_QUEUE_MAX).map(|_| pair.nics[0].ask_endpoint(&order).unwrap()).collect();
    assert_eq!(pair.nics[0].ask_endpoint(&order), None);
    pair.run_for(MS);
    assert_eq!(pair.nics[0].ask_endpoint(&order), None, "all are sent, and none is answered");
    pair.nics[0].give_up_endpoint(ids[7]);
    assert!(pair.nics[0].ask_endpoint(&order).is_some());
}

#[test]
fn an_answered_ev_probe_brings_a_value_back_into_the_rotation() {
    let spraying = SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() };
    let mut pair = Pair::new(NicParams { spraying, ..NicParams::default() }, 4096, Channel::default(), 1);
    pair.filter = Some(Box::new(|now, from, _, _| if from == 0 && now < Ns(US) { Fate::Drop } else { Fate::Pass }));
    let qp = pair.connect(5);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64)).unwrap();
    pair.run_until(Ns(MS));
    let bad = pair.nics[0].poll_event().unwrap();
    assert_eq!(bad.state, EvState::AssumedBad);
    pair.nics[0].ev_probe(pair.address(1), bad.ev).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.nics[0].poll_event().map(|event| (event.ev, event.state)), Some((bad.ev, EvState::Good)));
}

#[test]
fn endpoint_requests_beyond_the_rate_and_answers_that_nobody_asked_for_are_dropped_by_reason() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let seen = watch(&mut pair);
    pair.connect(5);
    let peer = pair.address(1);
    pair.nics[0].ev_probe(peer, 300).unwrap();
    pair.run_for(MS);
    let [(_, _, request), (_, _, response)] = seen.borrow().as_slice().to_vec().try_into().unwrap();
    let now = pair.now;
    let outcomes: Vec<bool> =
        (0..100).map(|_| pair.nics[1].receive(now, PortId(0), &request.as_slice()).is_ok()).collect();
    assert_eq!(outcomes.iter().filter(|&&ok| ok).count(), 64);
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::EndpointRate), 36);
    assert_eq!(pair.nics[0].receive(now, PortId(0), &response.as_slice()), Err(DropReason::UnknownProbe));
    assert_eq!(pair.nics[0].ev_probe(pair.address(0), 300), None, "nobody there");
}

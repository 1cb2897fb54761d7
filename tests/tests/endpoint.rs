//! Endpoint operations between two NICs in virtual time.

use dataplane::Ns;
use dataplane::nic::{DropReason, EvState, NicParams, PortId};
use dataplane::path::SprayingParams;
use dataplane::time::{MS, US};
use dataplane::wire::{Opcode, Packet};
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

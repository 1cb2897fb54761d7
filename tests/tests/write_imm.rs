//! Writes with Immediate: order, limits, and receives.

use dataplane::Ns;
use dataplane::nic::{CompletionEntry, DropReason, NicParams, Operation, PostError, QpState, Status, WriteRequest};
use dataplane::time::{MS, SEC, US};
use dataplane::transport::TransportParams;
use mrcnic_tests::{Channel, Fate, Pair, QpPair};
use std::cell::RefCell;
use std::rc::Rc;

fn immediate(pair: &Pair, id: u64, at: usize, len: usize) -> WriteRequest {
    WriteRequest { immediate: Some(1000 + id as u32), ..pair.write(id, at, at, len) }
}

fn post_receives(pair: &mut Pair, qp: &QpPair, ids: std::ops::Range<u64>) {
    for id in ids {
        pair.nics[1].post_receive(qp.qpn[1], id).unwrap();
    }
}

/// Receives that completed: number, immediate and length.
fn received(completions: &[CompletionEntry]) -> Vec<(u64, u32, u32)> {
    let receive = |entry: &CompletionEntry| match (entry.completion.operation, entry.completion.status) {
        (Operation::Receive { immediate }, Status::Success) => {
            Some((entry.completion.wr_id, immediate, entry.completion.len))
        }
        _ => None,
    };
    completions.iter().filter_map(receive).collect()
}

fn statuses(completions: &[CompletionEntry]) -> Vec<(u64, Status)> {
    completions.iter().map(|c| (c.completion.wr_id, c.completion.status)).collect()
}

#[test]
fn immediates_complete_receives_in_the_order_of_sending_after_every_earlier_message_is_whole() {
    let mut pair = Pair::new(NicParams::default(), 128 * 1024, Channel::default(), 1);
    pair.fill(1);
    // The plain Write before them loses its first packet: the immediates arrive early and are kept.
    let mut left = 1;
    pair.filter = Some(Box::new(move |_, from, packet, _| {
        if from == 0 && packet.bth.psn == 500 && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Pass
    }));
    let qp = pair.connect(500);
    post_receives(&mut pair, &qp, 70..80);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 10_000)).unwrap();
    for (id, len) in [(1, 0), (2, 5000), (3, 1)] {
        pair.nics[0].post_write(qp.qpn[0], &immediate(&pair, id, 20_000 * id as usize, len)).unwrap();
    }
    pair.run_until(Ns(100 * US));
    assert_eq!(received(&pair.completions[1]), []);
    pair.run_until(Ns(200 * US));
    assert_eq!(received(&pair.completions[1]), [(70, 1001, 0), (71, 1002, 5000), (72, 1003, 1)]);
    let sent: Vec<Operation> = pair.completions[0].iter().map(|c| c.completion.operation).collect();
    assert_eq!(sent, [Operation::Write, Operation::WriteImm, Operation::WriteImm, Operation::WriteImm]);
    assert_eq!(pair.bytes(1, 40_000, 5000), pair.bytes(0, 40_000, 5000));
}

#[test]
fn zero_length_writes_between_ordinary_ones_are_one_psn_and_one_completion_and_touch_no_memory() {
    for lost in [None, Some(1), Some(3)] {
        let mut pair = Pair::new(NicParams::default(), 8192, Channel::default(), 1);
        let mut left = 1;
        pair.filter = Some(Box::new(move |_, from, packet, _| {
            if from == 0 && Some(packet.bth.psn) == lost && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Pass
        }));
        let qp = pair.connect(0);
        post_receives(&mut pair, &qp, 0..4);
        let bytes = [1u8; 64];
        pair.memory[0].write(0, &bytes).unwrap();
        // A zero-length Write names no memory: its key and address are not looked at.
        let mut empty = pair.write(1, 0, 0, 0);
        (empty.remote_key.0, empty.remote_va, empty.local_key.0) = (0xDEAD, u64::MAX, 0xDEAD);
        let empty_immediate = WriteRequest { wr_id: 3, immediate: Some(7), ..empty };
        for request in [pair.write(0, 0, 0, 64), empty, pair.write(2, 0, 128, 64), empty_immediate] {
            pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
        }
        pair.run_for(MS);
        assert_eq!(statuses(&pair.completions[0]), [0, 1, 2, 3].map(|id| (id, Status::Success)), "lost {lost:?}");
        assert_eq!(received(&pair.completions[1]), [(0, 7, 0)]);
        let mut expected = vec![0; 8192];
        expected[..64].fill(1);
        expected[128..192].fill(1);
        assert_eq!(pair.bytes(1, 0, 8192), expected);
        assert_eq!(pair.nics[1].stats().placed.get(), 4);
    }
}

#[test]
fn maximum_writeimm_inflight_is_the_least_of_device_qp_and_what_the_peer_advertised() {
    for (device, own, peer, expected) in [(2, 64, 64, 2), (64, 3, 64, 3), (64, 64, 4, 4), (64, 64, 64, 20)] {
        let transport = TransportParams { write_imm_limit: device, ..TransportParams::default() };
        let mut pair = Pair::new(NicParams { transport, ..NicParams::default() }, 8192, Channel::default(), 1);
        let begun = Rc::new(RefCell::new(0));
        let seen = begun.clone();
        pair.filter = Some(Box::new(move |now, from, packet, _| {
            if from == 0 && now < Ns(US) && packet.bth.opcode.begins_message() {
                *seen.borrow_mut() += 1;
            }
            Fate::Pass
        }));
        let qp = pair.connect_with(0, |n, spec| {
            spec.write_imm_limit = if n == 0 { own } else { 64 };
            spec.peer.immediates = peer;
        });
        post_receives(&mut pair, &qp, 0..20);
        for id in 0..20 {
            pair.nics[0].post_write(qp.qpn[0], &immediate(&pair, id, 0, 8)).unwrap();
        }
        pair.run_until(Ns(US));
        assert_eq!(*begun.borrow(), expected, "device {device}, QP {own}, peer {peer}");
        pair.run_for(MS);
        assert_eq!(pair.completions[0].len(), 20);
        let order: Vec<u32> = received(&pair.completions[1]).iter().map(|r| r.1).collect();
        assert_eq!(order, (1000..1020).collect::<Vec<_>>());
    }
}

#[test]
fn a_sender_that_passes_the_advertised_limit_is_answered_by_a_nak_of_its_own_kind() {
    // The responder takes 4; the requester was told 64. The first is held back by a lost Write before it.
    let mut pair = Pair::new(NicParams::default(), 8192, Channel::default(), 1);
    pair.filter =
        Some(Box::new(|_, from, packet, _| if from == 0 && packet.bth.psn == 0 { Fate::Drop } else { Fate::Pass }));
    let syndromes = Rc::new(RefCell::new(Vec::new()));
    let qp = pair.connect_with(0, |n, spec| {
        if n == 1 {
            spec.write_imm_limit = 4;
        }
    });
    post_receives(&mut pair, &qp, 0..20);
    let seen = syndromes.clone();
    let mut drop_first = pair.filter.take().unwrap();
    pair.filter = Some(Box::new(move |now, from, packet, frame| {
        if let dataplane::wire::Ext::Ack(aeth) = packet.ext {
            seen.borrow_mut().push(aeth.syndrome);
        }
        drop_first(now, from, packet, frame)
    }));
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 8)).unwrap();
    for id in 1..8 {
        pair.nics[0].post_write(qp.qpn[0], &immediate(&pair, id, 0, 8)).unwrap();
    }
    pair.run_for(MS);
    assert_eq!(*syndromes.borrow(), [0x65]);
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::Immediate), 1);
    assert_eq!(pair.nics[1].state(qp.qpn[1]), Some(QpState::Error));
    assert_eq!(received(&pair.completions[1]), []);
    // Every request and every receive ends, once.
    assert_eq!(pair.completions[0].len(), 8);
    assert_eq!(pair.completions[1].len(), 20);
}

#[test]
fn without_a_posted_receive_the_qp_ends_and_what_completed_before_stays_completed() {
    let mut pair = Pair::new(NicParams::default(), 8192, Channel::default(), 1);
    let qp = pair.connect(0);
    post_receives(&mut pair, &qp, 0..2);
    for id in 0..4 {
        pair.nics[0].post_write(qp.qpn[0], &immediate(&pair, id, 0, 8)).unwrap();
    }
    pair.run_for(MS);
    assert_eq!(received(&pair.completions[1]), [(0, 1000, 8), (1, 1001, 8)]);
    let ends = statuses(&pair.completions[0]);
    assert_eq!(ends.len(), 4);
    assert_eq!(ends[3].1, Status::Flushed);
    assert!(ends.contains(&(2, Status::RemoteOperation)), "{ends:?}");
    assert_eq!(pair.nics[1].state(qp.qpn[1]), Some(QpState::Error));
}

#[test]
fn a_receive_posted_on_a_qp_that_ended_completes_as_flushed() {
    let mut pair = Pair::new(NicParams::default(), 8192, Channel::default(), 1);
    let qp = pair.connect_with(0, |_, spec| spec.receive_depth = 2);
    post_receives(&mut pair, &qp, 0..2);
    assert_eq!(pair.nics[1].post_receive(qp.qpn[1], 2), Err(PostError::QueueFull(2)));
    let mut bad = pair.write(0, 0, 0, 8);
    bad.remote_key.0 ^= 1;
    pair.nics[0].post_write(qp.qpn[0], &bad).unwrap();
    pair.run_for(MS);
    pair.nics[1].post_receive(qp.qpn[1], 9).unwrap();
    pair.run_for(MS);
    assert_eq!(statuses(&pair.completions[1]), [0, 1, 9].map(|id| (id, Status::Flushed)));
}

#[test]
fn unsignaled_writes_complete_silently_and_failures_always_speak() {
    let mut pair = Pair::new(NicParams::default(), 8192, Channel::default(), 1);
    let qp = pair.connect(0);
    for id in 0..10 {
        let request = WriteRequest { signaled: id % 5 == 4, ..pair.write(id, 0, 0, 8) };
        pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    }
    pair.run_for(MS);
    assert_eq!(statuses(&pair.completions[0]), [(4, Status::Success), (9, Status::Success)]);
    assert_eq!(pair.nics[0].stats().completed.get(), 10);
    assert_eq!(pair.nics[0].pending(qp.qpn[0]), 0);
    let now = pair.now;
    let mut bad = WriteRequest { signaled: false, ..pair.write(11, 0, 0, 8) };
    bad.remote_key.0 ^= 1;
    pair.nics[0].post_write(qp.qpn[0], &bad).unwrap();
    pair.run_until(now + MS);
    assert_eq!(pair.completions[0].last().map(|c| c.completion.status), Some(Status::RemoteAccess));
}

#[test]
fn message_and_immediate_numbers_wrap_at_16_bits() {
    let mut pair = Pair::new(NicParams::default(), 8192, Channel::default(), 1);
    let qp = pair.connect(0xFF_FFF0);
    let mut posted = 0;
    while posted < 66_000u64 {
        for _ in 0..500 {
            pair.nics[1].post_receive(qp.qpn[1], posted).unwrap();
            pair.nics[0].post_write(qp.qpn[0], &immediate(&pair, posted, 0, 8)).unwrap();
            posted += 1;
        }
        pair.run_for(SEC);
    }
    assert_eq!(pair.completions[0].len() as u64, posted);
    let order = received(&pair.completions[1]);
    assert!(order.iter().enumerate().all(|(i, r)| (r.0, r.1) == (i as u64, 1000 + i as u32)));
    assert_eq!(pair.nics[0].stats().retransmits.get(), 0);
}

//! RDMA Writes between two NICs in virtual time.

use dataplane::Ns;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{DropReason, NicParams, PortId, Status};
use dataplane::time::{MS, SEC, US};
use dataplane::transport::TransportParams;
use dataplane::wire::{Ext, Opcode};
use mrcnic_tests::{Channel, Fate, Pair, QpPair};
use std::cell::RefCell;
use std::rc::Rc;

const SIZES: [usize; 14] = [0, 1, 2, 3, 4, 63, 64, 4095, 4096, 4097, 8192, 12_289, 65_536, 1 << 20];

/// Writes each size once, and checks each byte and each completion.
fn write_every_size(pair: &mut Pair) {
    pair.fill(1);
    let qp = pair.connect(0xFF_FF00);
    let mut at = 8;
    let mut expected = vec![0; pair.memory[1].len()];
    for (id, len) in SIZES.into_iter().enumerate() {
        let request = pair.write(id as u64, at, at, len);
        pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
        expected[at..at + len].copy_from_slice(&pair.bytes(0, at, len));
        at += len + 8;
    }
    pair.run_for(10 * SEC);
    let done: Vec<u64> = pair.completions[0].iter().map(|c| c.completion.wr_id).collect();
    assert_eq!(done, (0..SIZES.len() as u64).collect::<Vec<_>>());
    assert!(pair.completions[0].iter().all(|c| c.completion.status == Status::Success));
    assert!(pair.bytes(1, 0, expected.len()) == expected, "every byte in its place and no other written");
    assert_eq!(pair.nics[0].inflight(pair.address(1)), 0);
    assert_eq!(pair.nics[0].next_wake(), None, "no timer is left armed");
    assert_eq!(pair.nics[1].next_wake(), None, "no timer is left armed");
}

#[test]
fn writes_of_every_size_land_byte_for_byte_over_ipv4_and_ipv6() {
    for v6 in [false, true] {
        let mut pair = Pair::over(v6, NicParams::default(), 2 << 20, Channel::default(), 1);
        write_every_size(&mut pair);
        assert_eq!(pair.nics[0].stats().retransmits.get(), 0);
        assert_eq!(pair.nics[1].stats().drop_reasons().count(), 0);
    }
}

#[test]
fn writes_land_over_a_channel_that_loses_repeats_reorders_and_corrupts() {
    for seed in 0..20 {
        let channel = Channel {
            delay_ns: 5 * US,
            jitter_ns: 40 * US,
            loss: 0.05,
            duplicate: 0.05,
            corrupt: 0.02,
            mark: 0.1,
            trim: 0.05,
        };
        let mut pair = Pair::new(NicParams::default(), 2 << 20, channel, seed);
        write_every_size(&mut pair);
    }
}

#[test]
fn writes_land_with_every_mss_and_the_smallest_windows() {
    for (mss, range) in [(1, 1), (3, 64), (256, 2), (1366, 32_640), (9000, 1024)] {
        let transport = TransportParams { mss, max_psn_range: range, ..TransportParams::default() };
        let params = NicParams { transport, ..NicParams::default() };
        let channel = Channel { loss: 0.02, jitter_ns: 3 * US, ..Channel::default() };
        let mut pair = Pair::new(params, 70_000, channel, 3);
        pair.fill(2);
        let qp = pair.connect(5);
        for (id, len) in [1000, 0, 1, 2500].into_iter().enumerate() {
            pair.nics[0].post_write(qp.qpn[0], &pair.write(id as u64, 4000 * id, 4000 * id, len)).unwrap();
        }
        pair.run_for(10 * SEC);
        assert_eq!(pair.completions[0].len(), 4, "MSS {mss}, window {range}");
        assert_eq!(pair.bytes(1, 0, 1000), pair.bytes(0, 0, 1000));
        assert_eq!(pair.bytes(1, 12_000, 2500), pair.bytes(0, 12_000, 2500));
    }
}

#[test]
fn a_gibibyte_is_the_longest_message_and_a_full_queue_refuses() {
    use dataplane::nic::PostError;
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let qp = pair.connect(0);
    let long = pair.write(0, 0, 0, (1 << 30) + 1);
    assert_eq!(pair.nics[0].post_write(qp.qpn[0], &long), Err(PostError::TooLong((1 << 30) + 1)));
    for id in 0..1024 {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(id, 0, 0, 8)).unwrap();
    }
    assert_eq!(pair.nics[0].post_write(qp.qpn[0], &pair.write(9, 0, 0, 8)), Err(PostError::QueueFull(1024)));
}

#[test]
fn a_mebibyte_is_256_packets_over_72_values_40_of_them_used_four_times_and_32_three_times() {
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel::default(), 7);
    let used = Rc::new(RefCell::new(std::collections::BTreeMap::new()));
    let count = used.clone();
    pair.filter = Some(Box::new(move |_, from, packet, frame| {
        if from == 0 {
            *count.borrow_mut().entry(packet.ev()).or_insert(0) += 1;
            assert_eq!(frame.len(), 4174);
        }
        Fate::Pass
    }));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 1 << 20)).unwrap();
    pair.run_for(MS);
    let used = used.borrow();
    assert!(used.keys().all(|ev| (256..=383).contains(ev)));
    assert_eq!(used.values().sum::<u32>(), 256);
    assert_eq!(used.values().filter(|&&n| n == 4).count(), 40);
    assert_eq!(used.values().filter(|&&n| n == 3).count(), 32);
    assert_eq!(pair.nics[1].stats().tx_sacks.get(), 256, "one SACK a packet at MSS 4096");
}

#[test]
fn retry_exhaustion_at_the_eighth_timeout_is_1350_us_after_the_first_send() {
    let transport = TransportParams { exponential_retry_count: 0, ..TransportParams::default() };
    let params = NicParams { transport, ..NicParams::default() };
    let mut pair = Pair::new(params, 4096, Channel { loss: 1.0, ..Channel::default() }, 1);
    let qp = pair.connect(0);
    for id in 0..3 {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(id, 0, 0, 64)).unwrap();
    }
    pair.run_until(Ns(1_349_999));
    assert_eq!(pair.completions[0], []);
    assert_eq!(pair.nics[0].stats().retransmits.get(), 3 * 7);
    pair.run_until(Ns(1_350_000));
    let statuses: Vec<Status> = pair.completions[0].iter().map(|c| c.completion.status).collect();
    assert_eq!(statuses, [Status::RetryExceeded, Status::Flushed, Status::Flushed]);
    assert_eq!(pair.nics[0].inflight(pair.address(1)), 0);
    assert_eq!(pair.nics[0].next_wake(), None);
}

#[test]
fn a_packet_lost_the_first_one_two_or_five_times_arrives_after_as_many_timeouts() {
    for times in [1, 2, 5] {
        let mut pair = Pair::new(NicParams::default(), 64 * 1024, Channel::default(), 1);
        pair.fill(3);
        let mut left = times;
        pair.filter = Some(Box::new(move |_, _, packet, _| {
            if packet.bth.opcode == Opcode::WriteMiddle && packet.bth.psn == 4 && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Pass
        }));
        let qp = pair.connect(0);
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
        pair.run_until(Ns(times * 150 * US + 1_999));
        assert_eq!(pair.completions[0].len(), 0);
        pair.run_until(Ns(times * 150 * US + 2_000));
        assert_eq!(pair.completions[0].len(), 1);
        assert_eq!(pair.nics[0].stats().retransmits.get(), times);
        assert_eq!(pair.bytes(1, 0, 64 * 1024), pair.bytes(0, 0, 64 * 1024));
    }
}

#[test]
fn a_lost_tail_and_a_burst_lost_whole_are_recovered_by_the_timer() {
    for lost in [1, 16] {
        let mut pair = Pair::new(NicParams::default(), 64 * 1024, Channel::default(), 1);
        pair.filter = Some(Box::new(move |now, from, packet, _| {
            let first_try = from == 0 && now < Ns(100 * US);
            if first_try && packet.bth.psn >= 16 - lost { Fate::Drop } else { Fate::Pass }
        }));
        let qp = pair.connect(0);
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
        pair.run_until(Ns(152 * US));
        assert_eq!(pair.completions[0].len(), 1);
        assert_eq!(pair.nics[0].stats().retransmits.get(), u64::from(lost));
    }
}

#[test]
fn a_lost_transport_ack_is_asked_for_again_after_two_timeouts() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let mut dropped = 0;
    pair.filter = Some(Box::new(move |_, _, packet, _| {
        if packet.bth.opcode == Opcode::Ack && dropped < 2 {
            dropped += 1;
            return Fate::Drop;
        }
        Fate::Pass
    }));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64)).unwrap();
    // The SACK comes at 2 us; the ACK is asked for 300 us and 600 us later.
    pair.run_until(Ns(603 * US));
    assert_eq!(pair.completions[0], []);
    pair.run_until(Ns(604 * US));
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.nics[0].stats().completion_requests.get(), 2);
    assert_eq!(pair.nics[0].stats().retransmits.get(), 0);
    assert_eq!(pair.nics[1].stats().duplicates.get(), 2);
    // The timer comes by once more, and asks for nothing.
    pair.run_until(Ns(904 * US));
    assert_eq!(pair.nics[0].stats().completion_requests.get(), 2);
    assert_eq!(pair.nics[0].next_wake(), None);
}

#[test]
fn three_hundred_lost_packets_are_sent_again_exactly_once_although_the_bitmap_is_shorter_than_the_gap() {
    let window = 600 * 4156;
    let params = NicParams { congestion: CcConfig::Fixed { bytes: window }, ..NicParams::default() };
    let mut pair = Pair::new(params, 600 * 4096, Channel::default(), 1);
    pair.fill(4);
    let mut sacks = 0;
    pair.filter = Some(Box::new(move |now, from, packet, _| {
        if from == 0 && packet.bth.psn < 300 && now < Ns(US) {
            return Fate::Drop;
        }
        if matches!(packet.ext, Ext::Sack(_)) {
            sacks += 1;
            if sacks % 5 == 0 && sacks < 200 {
                return Fate::Drop;
            }
        }
        Fate::Pass
    }));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 600 * 4096)).unwrap();
    pair.run_for(SEC);
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.nics[0].stats().retransmits.get(), 300);
    assert_eq!(pair.bytes(1, 0, 600 * 4096), pair.bytes(0, 0, 600 * 4096));
}

#[test]
fn a_burst_that_lost_a_packet_draws_one_sack_which_shows_all_the_others() {
    let params = NicParams { merge_sacks: true, ..NicParams::default() };
    let mut pair = Pair::new(params, 60 * 4096, Channel::default(), 1);
    pair.fill(4);
    // The first, the tenth and the last are lost, and nobody knows before the timer.
    pair.filter = Some(Box::new(move |now, from, packet, _| {
        let lost = from == 0 && [0, 9, 59].contains(&packet.bth.psn) && now < Ns(100 * US);
        if lost { Fate::Drop } else { Fate::Pass }
    }));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 60 * 4096)).unwrap();
    pair.run_for(100 * US);
    let sacks = |pair: &Pair| (pair.nics[1].stats().tx_sacks.get(), pair.nics[1].stats().sacks_merged.get());
    assert_eq!(sacks(&pair), (1, 56));
    pair.run_for(SEC);
    assert_eq!(pair.completions[0].len(), 1);
    let stats = pair.nics[0].stats();
    assert_eq!((stats.retransmits.get(), stats.spurious_retransmits.get()), (3, 0));
    assert_eq!(sacks(&pair), (4, 56), "each of those that are sent again draws its own");
    assert_eq!(pair.bytes(1, 0, 60 * 4096), pair.bytes(0, 0, 60 * 4096));
}

#[test]
fn far_beyond_a_gap_a_burst_draws_two_sacks_and_each_packet_is_told_of() {
    let params = NicParams { merge_sacks: true, ..NicParams::default() };
    let mut pair = Pair::new(params, 600 * 4096, Channel::default(), 1);
    pair.fill(4);
    pair.filter = Some(Box::new(move |now, from, packet, _| {
        let lost = from == 0 && packet.bth.psn == 0 && now < Ns(100 * US);
        if lost { Fate::Drop } else { Fate::Pass }
    }));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 600 * 4096)).unwrap();
    pair.run_for(100 * US);
    let stats = pair.nics[1].stats();
    // 599 packets arrive; one for each would be as many SACKs.
    assert_eq!((stats.tx_sacks.get(), stats.sacks_merged.get()), (32, 567));
    assert_eq!(pair.nics[0].inflight(pair.address(1)), 4156, "that of the packet that is missing");
    pair.run_for(SEC);
    assert_eq!(pair.completions[0].len(), 1);
    let stats = pair.nics[0].stats();
    // By the gap, which was in vain too, and by the timer.
    assert_eq!((stats.retransmits.get(), stats.spurious_retransmits.get()), (2, 0));
    assert_eq!(pair.bytes(1, 0, 600 * 4096), pair.bytes(0, 0, 600 * 4096));
}

#[test]
fn a_gap_deeper_than_the_reorder_depth_is_a_loss_long_before_the_timeout() {
    let transport = TransportParams { sack_loss_min_retx_pkts: 8, ..TransportParams::default() };
    let params = NicParams { transport, ..NicParams::default() };
    let mut pair = Pair::new(params, 256 * 1024, Channel::default(), 1);
    let mut left = 1;
    pair.filter = Some(Box::new(move |_, from, packet, _| {
        if from == 0 && packet.bth.psn == 10 && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Pass
    }));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 256 * 1024)).unwrap();
    pair.run_until(Ns(20 * US));
    assert_eq!(pair.completions[0].len(), 1);
    let stats = pair.nics[0].stats();
    assert_eq!((stats.lost_by_gap.get(), stats.lost_by_timeout.get(), stats.retransmits.get()), (1, 0, 1));
}

#[test]
fn reordering_below_the_depth_is_no_loss() {
    let channel = Channel { jitter_ns: 20 * US, ..Channel::default() };
    let mut pair = Pair::new(NicParams::default(), 1 << 20, channel, 11);
    pair.fill(6);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 1 << 20)).unwrap();
    pair.run_for(10 * MS);
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.nics[0].stats().retransmits.get(), 0);
    assert!(pair.nics[1].stats().out_of_order.get() > 50);
    assert_eq!(pair.bytes(1, 0, 1 << 20), pair.bytes(0, 0, 1 << 20));
}

#[test]
fn a_wrong_key_or_range_ends_the_qp_with_a_remote_access_error_and_writes_nothing() {
    let wrong: [fn(&mut dataplane::nic::WriteRequest); 4] =
        [|r| r.remote_key.0 ^= 1, |r| r.remote_va += 4097 - 64, |r| r.remote_va = u64::MAX - 10, |r| r.remote_va -= 1];
    for spoil in wrong {
        let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
        pair.fill(5);
        let qp = pair.connect(0);
        let mut bad = pair.write(0, 0, 0, 64);
        spoil(&mut bad);
        pair.nics[0].post_write(qp.qpn[0], &bad).unwrap();
        pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 64)).unwrap();
        pair.run_for(MS);
        let ends: Vec<(u64, Status)> =
            pair.completions[0].iter().map(|c| (c.completion.wr_id, c.completion.status)).collect();
        assert_eq!(ends, [(0, Status::RemoteAccess), (1, Status::Flushed)]);
        assert_eq!(pair.bytes(1, 0, 4096), vec![0; 4096]);
        assert_eq!(pair.nics[1].stats().drops_by(DropReason::RemoteAccess), 1);
        assert_eq!(pair.nics[0].inflight(pair.address(1)), 0);
    }
}

#[test]
fn a_message_that_leaves_its_region_in_a_middle_packet_is_refused_there_and_writes_nothing_beyond() {
    let mut pair = Pair::new(NicParams::default(), 16 * 1024, Channel::default(), 1);
    pair.fill(5);
    let qp = pair.connect(0);
    // Five packets; the region ends 100 bytes before the second one's end.
    let mut request = pair.write(0, 0, 0, 16 * 1024);
    request.remote_va += 16 * 1024 - 2 * 4096 + 100;
    pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.completions[0][0].completion.status, Status::RemoteAccess);
    let mut expected = vec![0; 16 * 1024];
    expected[8292..12_388].copy_from_slice(&pair.bytes(0, 0, 4096));
    assert_eq!(pair.bytes(1, 0, 16 * 1024), expected, "the first packet alone");
    assert_eq!(pair.nics[1].stats().placed.get(), 1);
}

#[test]
fn a_local_range_that_is_not_registered_ends_the_qp_and_others_to_the_same_address_go_on() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let bad_qp = pair.connect(0);
    let good_qp = pair.connect(0);
    let mut bad = pair.write(7, 0, 0, 64);
    bad.local_va -= 1;
    pair.nics[0].post_write(bad_qp.qpn[0], &bad).unwrap();
    pair.nics[0].post_write(good_qp.qpn[0], &pair.write(8, 0, 0, 64)).unwrap();
    pair.run_for(MS);
    let ends: Vec<(u64, Status)> =
        pair.completions[0].iter().map(|c| (c.completion.wr_id, c.completion.status)).collect();
    assert_eq!(ends, [(7, Status::LocalProtection), (8, Status::Success)]);
}

#[test]
fn packets_for_a_closed_qp_and_for_its_slots_next_one_are_dropped_by_reason() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let old = pair.connect(0);
    pair.nics[0].post_write(old.qpn[0], &pair.write(0, 0, 0, 64)).unwrap();
    // The frame is on its way when its target goes.
    pair.run_until(Ns(500));
    let now = pair.now;
    assert!(pair.nics[1].close(now, old.qpn[1]));
    pair.run_until(Ns(10 * US));
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::UnknownQp), 1);
    assert!(pair.nics[0].close(now, old.qpn[0]));
    pair.run_until(Ns(11 * US));
    assert_eq!(pair.completions[0][0].completion.status, Status::Flushed);
    assert_eq!(pair.bytes(1, 0, 4096), vec![0; 4096]);
}

#[test]
fn two_qps_to_one_address_share_its_turns_packet_by_packet() {
    let mut pair = Pair::new(NicParams::default(), 256 * 1024, Channel::default(), 1);
    let first = pair.connect(0);
    let second = pair.connect(0);
    let order = Rc::new(RefCell::new(Vec::new()));
    let seen = order.clone();
    pair.filter = Some(Box::new(move |_, from, packet, _| {
        if from == 0 {
            seen.borrow_mut().push(packet.bth.dqp);
        }
        Fate::Pass
    }));
    for qp in [first, second] {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 128 * 1024)).unwrap();
    }
    pair.run_for(MS);
    let order = order.borrow();
    assert_eq!(order.len(), 64);
    assert!(order.windows(2).all(|two| two[0] != two[1]), "the QPs alternate");
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed| {
        let channel = Channel { loss: 0.1, jitter_ns: 10 * US, ..Channel::default() };
        let mut pair = Pair::new(NicParams::default(), 1 << 20, channel, seed);
        let frames = Rc::new(RefCell::new(Vec::new()));
        let log = frames.clone();
        pair.filter = Some(Box::new(move |now, from, packet, _| {
            log.borrow_mut().push((now, from, packet.bth.psn, packet.ev()));
            Fate::Pass
        }));
        let qp = pair.connect(0);
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 1 << 20)).unwrap();
        pair.run_for(SEC);
        assert_eq!(pair.completions[0].len(), 1);
        frames.take()
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}

/// Two NICs whose QPs give up 1,350 us after a first send, and a QP.
fn impatient() -> (Pair, QpPair) {
    let transport = TransportParams { exponential_retry_count: 0, ..TransportParams::default() };
    let mut pair = Pair::new(NicParams { transport, ..NicParams::default() }, 4096, Channel::default(), 1);
    let qp = pair.connect(0);
    (pair, qp)
}

/// Posts a Write of 64 bytes now.
fn post(pair: &mut Pair, qp: &QpPair, id: u64) {
    pair.nics[0].on_time(pair.now);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(id, 0, 0, 64)).unwrap();
}

fn statuses(pair: &Pair) -> Vec<Status> {
    pair.completions[0].iter().map(|entry| entry.completion.status).collect()
}

#[test]
fn a_qp_whose_port_takes_nothing_ends_when_its_retry_budget_would_be_spent() {
    // A port that has no room, and one that keeps what its driver was given.
    for (full, stuck) in [(1, 0), (0, 1)] {
        let (mut pair, qp) = impatient();
        (pair.full_ports, pair.stuck_ports) = ([full, 0], [stuck, 0]);
        for id in 0..2 {
            pair.nics[0].post_receive(qp.qpn[0], 10 + id).unwrap();
        }
        pair.run_until(Ns(5 * MS));
        for id in 0..3 {
            post(&mut pair, &qp, id);
        }
        pair.run_until(Ns(5 * MS + 1_349_999));
        assert_eq!(statuses(&pair), []);
        pair.run_until(Ns(5 * MS + 1_350_000));
        assert_eq!(statuses(&pair)[0], Status::RetryExceeded);
        assert_eq!(statuses(&pair)[1..], [Status::Flushed; 4], "two Writes, and two receives");
        assert_eq!(pair.nics[0].stats().retransmits.get(), 0);
        assert_eq!(pair.nics[0].inflight(pair.address(1)), 0);
        assert_eq!(pair.nics[0].next_wake(), None);
    }
}

#[test]
fn a_peer_that_vanishes_with_its_link_ends_a_qp_when_the_budget_from_then_on_is_spent() {
    let (mut pair, qp) = impatient();
    pair.port_filter = Some(Box::new(|now, _, _, _| now < Ns(10 * US)));
    post(&mut pair, &qp, 0);
    pair.run_until(Ns(10 * US));
    assert_eq!(statuses(&pair), [Status::Success]);
    for id in 1..3 {
        post(&mut pair, &qp, id);
    }
    // It takes these; then its link goes, and it takes no more.
    pair.run_until(Ns(20 * US));
    pair.full_ports = [1, 0];
    let now = pair.now;
    pair.nics[0].set_port(now, PortId(0), false);
    pair.run_until(Ns(1_369_999));
    assert_eq!(statuses(&pair).len(), 1);
    assert_eq!(pair.nics[0].stats().lost_by_timeout.get(), 2, "no retransmission could leave");
    pair.run_until(Ns(1_370_000));
    assert_eq!(statuses(&pair)[1..], [Status::RetryExceeded, Status::Flushed]);
    assert_eq!(pair.nics[0].inflight(pair.address(1)), 0);
}

#[test]
fn a_port_that_comes_back_before_the_budget_is_spent_costs_nothing_and_the_next_time_is_counted_anew() {
    let (mut pair, qp) = impatient();
    for round in 0..3 {
        let begun = pair.now;
        pair.full_ports = [1, 0];
        post(&mut pair, &qp, round);
        pair.run_until(begun + 1_349 * US);
        pair.full_ports = [0, 0];
        pair.run_until(begun + 1_360 * US);
        assert_eq!(statuses(&pair), vec![Status::Success; round as usize + 1]);
    }
    assert_eq!(pair.nics[0].stats().retransmits.get(), 0);
}

#[test]
fn a_qp_with_no_end_to_its_retries_waits_for_its_port_as_long_as_it_takes() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let qp = pair.connect(0);
    pair.full_ports = [1, 0];
    post(&mut pair, &qp, 0);
    pair.run_until(Ns(100 * SEC));
    assert_eq!(statuses(&pair), []);
    pair.full_ports = [0, 0];
    pair.run_for(MS);
    assert_eq!(statuses(&pair), [Status::Success]);
}

#[test]
fn one_port_that_takes_frames_is_enough_and_a_qp_whose_values_are_all_denied_waits_for_its_controller() {
    let transport = TransportParams { exponential_retry_count: 0, ..TransportParams::default() };
    let params = NicParams { transport, ..NicParams::default() };
    let mut pair = Pair::in_planes(2, false, params, 1 << 20, Channel::default(), 1);
    let qp = pair.connect(0);
    pair.full_ports = [0b01, 0];
    for id in 0..20 {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(id, 0, 0, 1 << 20)).unwrap();
        pair.run_for(500 * US);
    }
    assert_eq!(statuses(&pair), [Status::Success; 20]);
    let (peer, now) = (pair.address(1), pair.now);
    for ev in 256..384 {
        pair.nics[0].deny(now, Some(peer), ev, true);
    }
    post(&mut pair, &qp, 20);
    pair.run_for(SEC);
    assert_eq!(statuses(&pair).len(), 20, "it waits");
    let now = pair.now;
    for ev in 256..384 {
        pair.nics[0].deny(now, Some(peer), ev, false);
    }
    pair.run_for(MS);
    assert_eq!(statuses(&pair), [Status::Success; 21]);
}

#[test]
fn a_message_that_lacks_nothing_but_its_ack_asks_for_it_as_often_as_its_budget_allows() {
    let (mut pair, qp) = impatient();
    pair.filter = Some(Box::new(
        |_, from, packet, _| {
            if from == 1 && packet.bth.opcode == Opcode::Ack { Fate::Drop } else { Fate::Pass }
        },
    ));
    post(&mut pair, &qp, 0);
    // The SACK is there after 2 us; from then on it asks every 300 us, seven times.
    pair.run_until(Ns(2_401_999));
    assert_eq!(statuses(&pair), []);
    assert_eq!(pair.nics[0].stats().completion_requests.get(), 7);
    pair.run_until(Ns(2_402_000));
    assert_eq!(statuses(&pair), [Status::RetryExceeded]);
}

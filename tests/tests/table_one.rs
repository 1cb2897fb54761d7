//! Table I of the MRC paper, rows "In-Flight Bounds" and "Reliability & Recovery": a test named after each.
//! (Maximum WriteIMM inflight is in `write_imm.rs`.)

use dataplane::Ns;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{Advertised, DropReason, HostBufferParams, NicParams, QpState, Status, WhenFull, WriteRequest};
use dataplane::time::{MS, SEC, US};
use dataplane::transport::{Psn, RttMode, TransportParams};
use dataplane::wire::{Ext, NackReason, Opcode, Packet, Sack, SackFor};
use mrcnic_tests::{Channel, Fate, Pair, trimmed};
use std::cell::RefCell;
use std::rc::Rc;

/// What the network saw: time, sender, packet, length of the frame.
type Log = Rc<RefCell<Vec<(Ns, usize, Packet, usize)>>>;

/// Writes down every frame, then asks `fate`.
fn watch(pair: &mut Pair, mut fate: impl FnMut(Ns, usize, &Packet, &[u8]) -> Fate + 'static) -> Log {
    let log = Log::default();
    let writer = log.clone();
    pair.filter = Some(Box::new(move |now, from, packet, frame| {
        writer.borrow_mut().push((now, from, *packet, frame.len()));
        fate(now, from, packet, frame)
    }));
    log
}

fn pass(_: Ns, _: usize, _: &Packet, _: &[u8]) -> Fate {
    Fate::Pass
}

fn sacks(log: &Log) -> Vec<Sack> {
    let sack = |entry: &(Ns, usize, Packet, usize)| match entry.2.ext {
        Ext::Sack(sack) => Some(sack),
        _ => None,
    };
    log.borrow().iter().filter_map(sack).collect()
}

fn nacks(log: &Log) -> Vec<NackReason> {
    let nack = |entry: &(Ns, usize, Packet, usize)| match entry.2.ext {
        Ext::Nack(nack) => NackReason::from_u8(nack.reason),
        _ => None,
    };
    log.borrow().iter().filter_map(nack).collect()
}

fn transport(change: impl FnOnce(&mut TransportParams)) -> NicParams {
    let mut transport = TransportParams::default();
    change(&mut transport);
    NicParams { transport, ..NicParams::default() }
}

fn data(log: &Log) -> Vec<(Ns, u32, bool)> {
    let data = |entry: &(Ns, usize, Packet, usize)| {
        entry.2.bth.opcode.is_data().then_some((entry.0, entry.2.bth.psn, entry.2.bth.rtx))
    };
    log.borrow().iter().filter_map(data).collect()
}

#[test]
fn maximum_psn_range_bounds_new_data_beyond_the_cumulative_ack_and_not_retransmissions() {
    for (own, peer, expected) in [(1, 1024, 1), (64, 32_640, 64), (1024, 7, 7), (32_640, 32_640, 300)] {
        let params =
            NicParams { congestion: CcConfig::Fixed { bytes: u64::MAX / 2 }, ..transport(|t| t.max_psn_range = own) };
        let mut pair = Pair::new(params, 300 * 4096, Channel { loss: 1.0, ..Channel::default() }, 1);
        let log = watch(&mut pair, pass);
        let qp = pair.connect_with(0xFF_FFF0, |_, spec| spec.peer.window = peer);
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 300 * 4096)).unwrap();
        pair.run_until(Ns(US));
        assert_eq!(data(&log).len(), expected, "own {own}, peer {peer}");
        // The last one that the window lets through asks for an ACK.
        assert!(log.borrow().last().is_some_and(|entry| entry.2.bth.ack_request));
        pair.run_until(Ns(151 * US));
        assert_eq!(data(&log).iter().filter(|d| d.2).count(), expected, "each is sent again by its timer");
    }
}

#[test]
fn maximum_psn_range_of_the_responder_draws_a_nack_for_what_lies_beyond_and_the_packet_comes_again_in_time() {
    // The requester was told of a window four times as wide as the responder's.
    let params = NicParams { congestion: CcConfig::Fixed { bytes: u64::MAX / 2 }, ..NicParams::default() };
    let mut pair = Pair::new(params, 64 * 4096, Channel::default(), 1);
    let narrow = transport(|t| t.max_psn_range = 16);
    pair.replace_nic(1, narrow);
    pair.fill(1);
    let log = watch(&mut pair, |now, from, packet, _| {
        // PSN 0 is lost once, so that the window stands still.
        if from == 0 && packet.bth.psn == 0 && now < Ns(US) { Fate::Drop } else { Fate::Pass }
    });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 4096)).unwrap();
    pair.run_for(SEC);
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.completions[0][0].completion.status, Status::Success);
    assert!(nacks(&log).iter().filter(|&&reason| reason == NackReason::PsnOutOfWindow).count() >= 48);
    assert_eq!(pair.bytes(1, 0, 64 * 4096), pair.bytes(0, 0, 64 * 4096));
}

#[test]
fn dynamic_mpr_lets_the_responder_widen_and_narrow_the_window_and_the_requester_never_passes_it() {
    let params =
        NicParams { congestion: CcConfig::Fixed { bytes: u64::MAX / 2 }, ..transport(|t| t.dynamic_mpr = true) };
    let mut pair = Pair::new(params, 2 << 20, Channel::default(), 1);
    pair.fill(1);
    let log = watch(&mut pair, pass);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 4096)).unwrap();
    pair.run_for(50 * US);
    assert_eq!(pair.nics[0].send_window(qp.qpn[0]), Some(1024));
    for (asked, advertised) in [(300, 256), (1, 128), (0, 128), (700, 640), (100_000, 1024)] {
        assert!(pair.nics[1].set_window(qp.qpn[1], asked));
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 4096)).unwrap();
        pair.run_for(50 * US);
        assert_eq!(pair.nics[0].send_window(qp.qpn[0]), Some(advertised), "asked for {asked}");
        assert_eq!(u32::from(sacks(&log).last().unwrap().mpr) * 128, advertised);
        log.borrow_mut().clear();
        let began = pair.now;
        pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 2 << 20)).unwrap();
        pair.run_until(began + 500);
        assert_eq!(data(&log).len(), advertised.min(512) as usize);
        pair.run_for(10 * MS);
        log.borrow_mut().clear();
    }
    assert!(pair.completions[0].iter().all(|c| c.completion.status == Status::Success));
}

#[test]
fn dynamic_mpr_that_shrinks_stops_new_data_and_what_is_in_flight_is_still_taken() {
    let params =
        NicParams { congestion: CcConfig::Fixed { bytes: u64::MAX / 2 }, ..transport(|t| t.dynamic_mpr = true) };
    let mut pair = Pair::new(params, 4 << 20, Channel { delay_ns: 10 * US, ..Channel::default() }, 1);
    pair.fill(1);
    let edge = Rc::new(RefCell::new(1024i32));
    let seen = edge.clone();
    let log = watch(&mut pair, move |now, from, packet, _| {
        // The requester hears of a window 10 us after it was sent, and sends nothing new beyond it from then on.
        if from == 0 && now > Ns(25 * US) {
            let cack = 1024 - *seen.borrow();
            assert!(i32::try_from(packet.bth.psn).unwrap() <= 1024, "cack {cack}");
        }
        Fate::Pass
    });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 4 << 20)).unwrap();
    pair.run_until(Ns(5 * US));
    pair.nics[1].set_window(qp.qpn[1], 128);
    pair.run_for(SEC);
    assert_eq!(nacks(&log), [], "nothing that was promised is refused");
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.bytes(1, 0, 4 << 20), pair.bytes(0, 0, 4 << 20));
}

#[test]
fn dynamic_mpr_that_shrinks_holds_no_retransmission_back() {
    let params =
        NicParams { congestion: CcConfig::Fixed { bytes: u64::MAX / 2 }, ..transport(|t| t.dynamic_mpr = true) };
    let mut pair = Pair::new(params, 2 << 20, Channel::default(), 1);
    let log = watch(&mut pair, |now, from, packet, _| {
        // PSN 0 is lost until 1 ms, PSN 400 once; the window shrinks to 128 meanwhile.
        let lost = match packet.bth.psn {
            0 => now < Ns(MS),
            400 => !packet.bth.rtx,
            _ => false,
        };
        if from == 0 && lost { Fate::Drop } else { Fate::Pass }
    });
    let qp = pair.connect(0);
    pair.nics[1].set_window(qp.qpn[1], 512);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 2 << 20)).unwrap();
    pair.run_until(Ns(10 * US));
    pair.nics[1].set_window(qp.qpn[1], 128);
    pair.run_until(Ns(900 * US));
    assert_eq!(pair.nics[0].send_window(qp.qpn[0]), Some(128));
    assert!(
        data(&log).iter().any(|d| d.1 == 400 && d.2),
        "PSN 400 was sent again although it is beyond the window now"
    );
    pair.run_for(SEC);
    assert_eq!(pair.completions[0].len(), 1);
}

#[test]
fn reliability_control_packets_show_the_oldest_hole_first_and_walk_over_a_wide_window() {
    let params = NicParams { congestion: CcConfig::Fixed { bytes: u64::MAX / 2 }, ..NicParams::default() };
    let mut pair = Pair::new(params, 300 * 4096, Channel::default(), 1);
    let log = watch(
        &mut pair,
        |now, from, packet, _| {
            if from == 0 && packet.bth.psn == 0 && now < Ns(US) { Fate::Drop } else { Fate::Pass }
        },
    );
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 300 * 4096)).unwrap();
    pair.run_until(Ns(100 * US));
    let offsets: Vec<i16> = sacks(&log).iter().skip(290).map(|sack| sack.sack_offset).collect();
    assert_eq!(&offsets[..6], [1, 65, 129, 193, 257, 1].as_slice().get(..6).unwrap_or(&[]), "{offsets:?}");
    let drew = |sack: &Sack| match sack.answers {
        SackFor::Packet { offset } => offset,
        SackFor::Probe { .. } => panic!("no probe was sent"),
    };
    assert_eq!(sacks(&log).iter().map(drew).collect::<Vec<_>>(), (2..=300).collect::<Vec<_>>());
    assert!(sacks(&log).iter().all(|sack| sack.cack_psn == 0xFF_FFFF));
}

#[test]
fn reliability_control_packets_carry_back_the_entropy_of_what_drew_them_as_their_own() {
    for v6 in [false, true] {
        let mut pair = Pair::over(v6, NicParams::default(), 64 * 1024, Channel::default(), 1);
        let log = watch(&mut pair, pass);
        let qp = pair.connect(0);
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
        pair.run_for(MS);
        let evs = |opcode: Option<Opcode>| {
            let log = log.borrow();
            let of = |entry: &&(Ns, usize, Packet, usize)| match opcode {
                Some(opcode) => entry.2.bth.opcode == opcode,
                None => entry.2.bth.opcode.is_data(),
            };
            log.iter().filter(of).map(|entry| entry.2.ev()).collect::<Vec<_>>()
        };
        assert_eq!(evs(None), evs(Some(Opcode::Sack)));
        assert_eq!(sacks(&log).iter().map(|sack| sack.entropy).collect::<Vec<_>>(), evs(None));
    }
}

#[test]
fn a_nack_for_want_of_a_bitmap_waits_one_base_rtt_and_spares_the_next_expected_packet() {
    let params = NicParams { out_of_order_limit: 2, ..NicParams::default() };
    let mut pair = Pair::new(params, 64 * 1024, Channel::default(), 1);
    pair.fill(1);
    let log = watch(
        &mut pair,
        |now, from, packet, _| {
            if from == 0 && packet.bth.psn == 0 && now < Ns(US) { Fate::Drop } else { Fate::Pass }
        },
    );
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 5 * 4096)).unwrap();
    pair.run_until(Ns(MS));
    assert_eq!(nacks(&log)[..2], [NackReason::NoBitmap; 2]);
    // PSN 3 is refused at 1 us, the NACK is there at 2 us, and 6 us later it is sent again.
    assert_eq!(data(&log).iter().find(|d| d.1 == 3 && d.2).map(|d| d.0), Some(Ns(8 * US)));
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.bytes(1, 0, 5 * 4096), pair.bytes(0, 0, 5 * 4096));
}

#[test]
fn a_nack_for_want_of_a_packet_buffer_comes_when_the_host_is_slower_than_the_network() {
    let host = HostBufferParams {
        when_full: WhenFull::Nack,
        capacity: 3 * 4096,
        drain_rate: 4_000_000_000,
        ..HostBufferParams::default()
    };
    let params = NicParams { host_buffer: Some(host), ..NicParams::default() };
    let mut pair = Pair::new(params, 64 * 1024, Channel::default(), 1);
    pair.fill(1);
    let log = watch(&mut pair, pass);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
    pair.run_for(SEC);
    assert_eq!(nacks(&log)[0], NackReason::NoPacketBuffer);
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.nics[0].stats().lost_by_timeout.get(), 0);
    assert_eq!(pair.bytes(1, 0, 64 * 1024), pair.bytes(0, 0, 64 * 1024));
}

#[test]
fn a_nack_for_want_of_a_resource_comes_when_no_more_early_immediates_can_be_kept() {
    let params = NicParams { held_immediates_limit: 1, ..NicParams::default() };
    let mut pair = Pair::new(params, 4096, Channel::default(), 1);
    let log = watch(
        &mut pair,
        |now, from, packet, _| {
            if from == 0 && packet.bth.psn == 0 && now < Ns(US) { Fate::Drop } else { Fate::Pass }
        },
    );
    let qp = pair.connect(0);
    for id in 0..4 {
        pair.nics[1].post_receive(qp.qpn[1], id).unwrap();
        let request = WriteRequest { immediate: Some(id as u32), ..pair.write(id, 0, 0, 8) };
        pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    }
    pair.run_for(SEC);
    assert_eq!(nacks(&log)[..2], [NackReason::NoResource; 2]);
    assert_eq!(pair.completions[0].len(), 4);
    assert_eq!(pair.completions[1].len(), 4);
}

#[test]
fn a_nack_for_an_unexpected_event_ends_the_qp_at_once() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    let qp = pair.connect(0);
    let log = watch(&mut pair, |_, from, packet, _| {
        // The NAK that tells of the error is lost.
        if from == 1 && packet.bth.opcode == Opcode::Ack { Fate::Drop } else { Fate::Pass }
    });
    let mut bad = pair.write(0, 0, 0, 8);
    bad.remote_key.0 ^= 1;
    pair.nics[0].post_write(qp.qpn[0], &bad).unwrap();
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 8)).unwrap();
    pair.run_until(Ns(2 * US));
    assert_eq!(nacks(&log), [NackReason::UnexpectedEvent]);
    let ends: Vec<Status> = pair.completions[0].iter().map(|c| c.completion.status).collect();
    assert_eq!(ends, [Status::RemoteOperation, Status::Flushed]);
    assert_eq!(pair.nics[0].state(qp.qpn[0]), Some(QpState::Error));
}

#[test]
fn refusals_have_a_retry_budget_of_their_own() {
    let params = transport(|t| (t.linear_retry_count, t.exponential_retry_count) = (2, 1));
    let mut pair = Pair::new(params, 4096, Channel::default(), 1);
    watch(&mut pair, |_, from, _, frame| if from == 0 { Fate::Replace(trimmed(frame, 12)) } else { Fate::Pass });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 8)).unwrap();
    pair.run_for(MS);
    // Three are retried, the fourth ends it: 4 x 2 us.
    assert_eq!(pair.nics[0].stats().retransmits.get(), 3);
    assert_eq!(pair.completions[0][0].completion.status, Status::RetryExceeded);
    let budget_spent = pair.nics[0].stats().lost_by_timeout.get();
    assert_eq!(budget_spent, 0);
}

#[test]
fn trimmed_packet_support_answers_a_cut_packet_with_a_nack_and_the_sender_repeats_it_at_once() {
    for (dscp, reason) in [(12, NackReason::Trimmed), (16, NackReason::TrimmedLastHop)] {
        for v6 in [false, true] {
            let mut pair = Pair::over(v6, NicParams::default(), 64 * 1024, Channel::default(), 1);
            pair.fill(1);
            let log = watch(&mut pair, move |_, from, packet, frame| {
                if from == 0 && packet.bth.psn == 3 && !packet.bth.rtx {
                    return Fate::Replace(trimmed(frame, dscp));
                }
                Fate::Pass
            });
            let qp = pair.connect(0);
            pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
            pair.run_until(Ns(10 * US));
            assert_eq!(nacks(&log), [reason]);
            assert_eq!(data(&log).iter().find(|d| d.2), Some(&(Ns(2 * US), 3, true)));
            assert_eq!(pair.completions[0].len(), 1);
            assert_eq!(pair.bytes(1, 0, 64 * 1024), pair.bytes(0, 0, 64 * 1024));
        }
    }
}

#[test]
fn trimmed_packet_support_switched_off_leaves_a_gap_to_the_timer() {
    let mut pair = Pair::new(NicParams { trimming: false, ..NicParams::default() }, 64 * 1024, Channel::default(), 1);
    let log = watch(&mut pair, |_, from, packet, frame| {
        if from == 0 && packet.bth.psn == 3 && !packet.bth.rtx {
            assert_eq!(packet.ip.dscp, 0, "no-trim");
            return Fate::Replace(trimmed(frame, 12));
        }
        Fate::Pass
    });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
    pair.run_until(Ns(MS));
    assert_eq!(nacks(&log), []);
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::Trimmed), 1);
    assert_eq!(data(&log).iter().find(|d| d.2).map(|d| d.0), Some(Ns(150 * US)));
    assert_eq!(pair.completions[0].len(), 1);
}

#[test]
fn reliability_probes_use_no_psn_and_are_answered_by_a_sack_on_the_probed_path() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel { delay_ns: 10 * US, ..Channel::default() }, 1);
    let log = watch(&mut pair, pass);
    let qp = pair.connect(700);
    pair.run_until(Ns(US));
    let id = pair.nics[0].probe(pair.now, qp.qpn[0], 333).unwrap();
    assert_eq!(pair.nics[0].oldest_probe(), Some(Ns(US)));
    pair.run_for(MS);
    let answer = pair.nics[0].poll_probe().unwrap();
    assert_eq!((answer.id, answer.ev, answer.qpn), (id, 333, qp.qpn[0]));
    // Sent at 1 us, in ticks of 128 ns: 7. Back at 21 us: 164. 157 ticks.
    assert_eq!(answer.rtt, Some(157 * 128));
    assert_eq!(pair.nics[0].oldest_probe(), None);
    let log = log.borrow();
    let [(_, 0, probe, 74), (_, 1, sack, 94)] = log.as_slice() else { panic!("a probe and its answer: {log:?}") };
    assert_eq!((probe.bth.opcode, probe.ev(), probe.ip.dscp, probe.ip.ecn), (Opcode::Probe, 333, 4, 2));
    assert_eq!((sack.ev(), sack.ip.dscp), (333, 46));
    let Ext::Sack(sack) = sack.ext else { panic!("a SACK") };
    assert_eq!((sack.answers, sack.cack_psn, sack.cc.rcvd_bytes), (SackFor::Probe { id }, 699, 0));
}

#[test]
fn reliability_probes_tell_of_packets_whose_sacks_were_lost_and_change_nothing_at_the_responder() {
    let mut pair = Pair::new(NicParams::default(), 64 * 1024, Channel::default(), 1);
    watch(&mut pair, |now, from, _, _| if from == 1 && now < Ns(50 * US) { Fate::Drop } else { Fate::Pass });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
    pair.run_until(Ns(60 * US));
    assert!(pair.nics[0].inflight(pair.address(1)) > 0);
    pair.nics[0].probe(pair.now, qp.qpn[0], 300).unwrap();
    pair.run_until(Ns(63 * US));
    assert_eq!(pair.nics[0].inflight(pair.address(1)), 0);
    assert_eq!(pair.nics[0].stats().retransmits.get(), 0);
    assert_eq!(pair.nics[1].stats().placed.get(), 16);
    // An answer that nobody waits for is dropped by its reason.
    assert_eq!(pair.nics[0].stats().drops_by(DropReason::UnknownProbe), 0);
}

#[test]
fn a_per_packet_timer_runs_for_each_packet_from_when_the_port_took_it() {
    // Packets leave one by one as a window of two packets opens; all are lost, so each comes again 150 us after itself.
    let params = NicParams { congestion: CcConfig::Fixed { bytes: 2 * 4156 }, ..NicParams::default() };
    let mut pair = Pair::new(params, 64 * 1024, Channel::default(), 1);
    let log = watch(&mut pair, |_, from, packet, _| {
        if from == 0 && [2, 5].contains(&packet.bth.psn) && !packet.bth.rtx { Fate::Drop } else { Fate::Pass }
    });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 8 * 4096)).unwrap();
    pair.run_for(MS);
    let log = data(&log);
    for psn in [2, 5] {
        let first = log.iter().find(|d| d.1 == psn && !d.2).unwrap().0;
        let again = log.iter().find(|d| d.1 == psn && d.2).unwrap().0;
        assert_eq!(again.since(first), 150 * US, "PSN {psn}");
    }
    assert_eq!(log.iter().filter(|d| d.2).count(), 2);
}

#[test]
fn linear_and_exponential_ack_timeout_doubles_after_the_linear_ones() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel { loss: 1.0, ..Channel::default() }, 1);
    let log = watch(&mut pair, pass);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 8)).unwrap();
    pair.run_until(Ns(60 * SEC));
    let times: Vec<Ns> = data(&log).iter().map(|d| d.0).collect();
    let gaps: Vec<u64> = times.windows(2).map(|t| t[1].since(t[0]) / US).collect();
    assert_eq!(gaps[..10], [150, 150, 150, 150, 150, 150, 150, 300, 600, 1200]);
    // 150 us x 2^17 is beyond the cap of 2^24 x 1.024 us, on the timer's next microsecond.
    assert_eq!(gaps[22..], [9_830_400, 17_179_870, 17_179_870]);
    assert_eq!(pair.nics[0].state(qp.qpn[0]), Some(QpState::Rts), "ExponentialRetryCount 25 never gives up");
}

#[test]
fn linear_and_exponential_ack_timeout_starts_again_after_a_nack() {
    let params = transport(|t| (t.linear_retry_count, t.exponential_retry_count) = (2, 0));
    let mut pair = Pair::new(params, 4096, Channel::default(), 1);
    let mut sends = 0;
    let log = watch(&mut pair, move |_, from, _, frame| {
        if from == 1 {
            return Fate::Pass;
        }
        sends += 1;
        // The third transmission is trimmed, all others are lost.
        if sends == 3 { Fate::Replace(trimmed(frame, 12)) } else { Fate::Drop }
    });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 8)).unwrap();
    pair.run_for(10 * MS);
    let times: Vec<u64> = data(&log).iter().map(|d| d.0.micros()).collect();
    // Timeouts at 150 and 300, a NACK at 302; then two more retries, and the third timeout of 300 us ends it.
    assert_eq!(times, [0, 150, 300, 302, 452, 602]);
    assert_eq!(pair.completions[0][0].completion.status, Status::RetryExceeded);
}

#[test]
fn fast_loss_detection_hook_at_zero_takes_any_gap_for_a_loss_and_at_the_window_none() {
    for (depth, losses) in [(0, 1), (1023, 0), (u32::MAX, 0)] {
        let params = transport(|t| t.sack_loss_min_retx_pkts = depth);
        let mut pair = Pair::new(params, 64 * 1024, Channel::default(), 1);
        let log =
            watch(
                &mut pair,
                |_, from, packet, _| {
                    if from == 0 && packet.bth.psn == 3 && !packet.bth.rtx { Fate::Drop } else { Fate::Pass }
                },
            );
        let qp = pair.connect(0);
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
        pair.run_for(MS);
        assert_eq!(pair.nics[0].stats().lost_by_gap.get(), losses, "depth {depth}");
        assert_eq!(pair.nics[0].stats().lost_by_timeout.get(), 1 - losses);
        assert_eq!(data(&log).iter().filter(|d| d.2).count(), 1, "sent again once, not with every later SACK");
        assert_eq!(pair.completions[0].len(), 1);
    }
}

#[test]
fn fast_loss_detection_hook_finds_a_lost_retransmission_by_what_was_sent_after_it() {
    let params = NicParams {
        congestion: CcConfig::Fixed { bytes: u64::MAX / 2 },
        ..transport(|t| t.sack_loss_min_retx_pkts = 8)
    };
    let channel = Channel { delay_ns: 5 * US, ..Channel::default() };
    let mut pair = Pair::new(params, 4 << 20, channel, 1);
    let mut left = 2;
    let log = watch(&mut pair, move |_, from, packet, _| {
        if from == 0 && packet.bth.psn == 3 && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Pass
    });
    let qp = pair.connect(0);
    // Two messages, so that new data follows the retransmission.
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 4096)).unwrap();
    pair.run_until(Ns(10 * US + 1));
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 64 * 4096)).unwrap();
    pair.run_until(Ns(100 * US));
    assert_eq!(pair.completions[0].len(), 2);
    assert_eq!(pair.nics[0].stats().lost_by_timeout.get(), 0);
    let again: Vec<(Ns, u32)> = data(&log).iter().filter(|d| d.2).map(|d| (d.0, d.1)).collect();
    assert_eq!(again, [(Ns(10 * US), 3), (Ns(20 * US + 1), 3)]);
}

#[test]
fn differentiated_dscp_traffic_classes_tell_data_retransmissions_and_control_apart() {
    let mut pair = Pair::new(NicParams::default(), 64 * 1024, Channel::default(), 1);
    let log =
        watch(
            &mut pair,
            |_, from, packet, _| {
                if from == 0 && packet.bth.psn == 3 && !packet.bth.rtx { Fate::Drop } else { Fate::Pass }
            },
        );
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 1024)).unwrap();
    pair.run_for(MS);
    for (_, _, packet, _) in log.borrow().iter() {
        let expected = match (packet.bth.opcode.is_data(), packet.bth.rtx) {
            (true, false) => (4, 2),
            (true, true) => (8, 2),
            (false, _) => (46, 0),
        };
        assert_eq!((packet.ip.dscp, packet.ip.ecn), expected, "{:?}", packet.bth);
    }
}

#[test]
fn timestamp_header_and_service_time_give_the_round_trip_in_both_modes() {
    // The path takes 20 us, and the responder needs 2.56 us: 20 ticks of 128 ns. The clock of the wire has whole ticks: 156 of 20 us.
    for (mode, service_time, expected) in [
        (RttMode::LocalDatabase, true, 20_000),
        (RttMode::LocalDatabase, false, 22_560),
        (RttMode::WireTimestamp, true, 156 * 128),
        (RttMode::WireTimestamp, false, 176 * 128),
    ] {
        let params = transport(|t| (t.rtt_mode, t.service_time) = (mode, service_time));
        let mut pair = Pair::new(params, 4096, Channel { delay_ns: 10 * US, ..Channel::default() }, 1);
        let log = watch(&mut pair, pass);
        let qp = pair.connect(0);
        // Past the wrap of 16 bits of 128 ns (8.39 ms).
        pair.run_until(Ns(8_388_608 - 64));
        pair.held_until[1] = pair.now + 10 * US + 2_560;
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64)).unwrap();
        pair.run_for(MS);
        let frame = log.borrow()[0];
        assert_eq!(frame.2.bth.tsh, mode == RttMode::WireTimestamp);
        assert_eq!(frame.3, 78 + 64 + if mode == RttMode::WireTimestamp { 4 } else { 0 });
        assert_eq!(pair.nics[0].last_rtt(pair.address(1)), Some(expected), "{mode:?}");
    }
}

#[test]
fn a_round_trip_counts_only_where_it_is_clear_which_transmission_drew_the_sack() {
    // The first transmission is late and arrives after the second was sent: its SACK says rtx 0, and gives no sample.
    let mut pair = Pair::new(NicParams::default(), 4096, Channel { delay_ns: 100 * US, ..Channel::default() }, 1);
    let log = watch(&mut pair, pass);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64)).unwrap();
    pair.run_for(MS);
    assert_eq!(data(&log).len(), 2);
    assert_eq!(pair.nics[0].last_rtt(pair.address(1)), None);
    assert_eq!(pair.nics[0].stats().spurious_retransmits.get(), 1);
    // Lost once, and the retransmission's SACK says rtx 1: a sample.
    let mut pair = Pair::new(NicParams::default(), 4096, Channel { delay_ns: 10 * US, ..Channel::default() }, 1);
    watch(&mut pair, |_, from, packet, _| if from == 0 && !packet.bth.rtx { Fate::Drop } else { Fate::Pass });
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64)).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.nics[0].last_rtt(pair.address(1)), Some(20_000));
}

#[test]
fn responder_host_backpressure_shows_the_fill_of_the_receive_buffer_in_every_sack() {
    let host = HostBufferParams {
        when_full: WhenFull::Nack,
        capacity: 16 * 4096,
        drain_rate: 1_000_000_000,
        low_percent: 25,
        high_percent: 75,
        max_penalty: 127,
        ..HostBufferParams::default()
    };
    let params = NicParams { host_buffer: Some(host), ..NicParams::default() };
    let mut pair = Pair::new(params, 64 * 1024, Channel::default(), 1);
    let log = watch(&mut pair, pass);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 12 * 4096)).unwrap();
    pair.run_until(Ns(10 * US));
    let penalties: Vec<u8> = sacks(&log).iter().map(|sack| sack.cc.rcv_cwnd_pen).collect();
    // All 12 packets arrive at once, and the SACKs leave when they have: 75 % full.
    assert!(penalties.iter().all(|&p| p == 127), "{penalties:?}");
    assert!(sacks(&log).iter().all(|sack| sack.cc.restore_cwnd));
    pair.run_for(10 * MS);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 4096)).unwrap();
    pair.run_for(MS);
    assert_eq!(sacks(&log).last().map(|sack| sack.cc.rcv_cwnd_pen), Some(0));
}

#[test]
fn a_qp_in_rtr_receives_and_sends_once_it_is_ready() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel::default(), 1);
    pair.fill(1);
    let qp = pair.connect_with(0, |n, spec| {
        if n == 1 {
            spec.state = QpState::Rtr;
        }
    });
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64)).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 1);
    let back = WriteRequest { local_key: pair.keys[1], remote_key: pair.keys[0], ..pair.write(1, 0, 128, 64) };
    assert!(pair.nics[1].post_write(qp.qpn[1], &back).is_err());
    let peer = Advertised { window: 1024, immediates: 64 };
    assert!(pair.nics[1].ready_to_send(qp.qpn[1], Psn::new(0), peer));
    assert!(!pair.nics[1].ready_to_send(qp.qpn[1], Psn::new(0), peer), "it is already");
    pair.nics[1].post_write(qp.qpn[1], &back).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.completions[1].len(), 1);
    assert_eq!(pair.bytes(0, 128, 64), pair.bytes(0, 0, 64));
}

#[test]
fn deregistering_a_region_while_packets_fly_writes_nothing_more_through_its_key() {
    let mut pair = Pair::new(NicParams::default(), 1 << 20, Channel { delay_ns: 5 * US, ..Channel::default() }, 1);
    pair.fill(1);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 1 << 20)).unwrap();
    pair.run_until(Ns(16 * US));
    let key = pair.keys[1];
    assert!(pair.nics[1].deregister(key));
    let then = pair.bytes(1, 0, 1 << 20);
    assert_ne!(then, vec![0; 1 << 20], "some of it had arrived");
    pair.run_for(SEC);
    assert_eq!(pair.bytes(1, 0, 1 << 20), then);
    assert_eq!(pair.completions[0][0].completion.status, Status::RemoteAccess);
    assert!(!pair.nics[1].deregister(key));
}

#[test]
fn a_qp_made_again_takes_no_packet_of_the_old_one() {
    let mut pair = Pair::new(NicParams::default(), 4096, Channel { delay_ns: 5 * US, ..Channel::default() }, 1);
    pair.fill(1);
    let old = pair.connect(0);
    pair.nics[0].post_write(old.qpn[0], &pair.write(0, 0, 0, 4096)).unwrap();
    pair.run_until(Ns(US));
    let new = pair.reconnect(&old, 1000);
    assert_eq!((old.qpn[1].get() & 0xFFFF, old.qpn[1] != new.qpn[1]), (new.qpn[1].get() & 0xFFFF, true));
    pair.run_until(Ns(20 * US));
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::OldQpGeneration), 1);
    assert_eq!(pair.bytes(1, 0, 4096), vec![0; 4096]);
    pair.nics[0].post_write(new.qpn[0], &pair.write(1, 0, 0, 64)).unwrap();
    pair.run_for(MS);
    let ends: Vec<(u64, Status)> =
        pair.completions[0].iter().map(|c| (c.completion.wr_id, c.completion.status)).collect();
    assert_eq!(ends, [(0, Status::Flushed), (1, Status::Success)]);
}

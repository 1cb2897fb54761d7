//! What comes late, is owed, or was overtaken: SACKs, windows, probe answers, and QPs that ended.

use dataplane::Ns;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{DropReason, NicParams, Operation, PortId, QpState, Status, WriteRequest};
use dataplane::time::{MS, SEC, US};
use dataplane::transport::{RttMode, TransportParams};
use dataplane::wire::{Bth, CcState, Ext, Meth, Opcode, Reth, Sack, SackFor, Skip, WriteHeaders};
use mrcnic_tests::{Channel, Fate, IOVA, Pair, QpPair};

fn transport(change: impl FnOnce(&mut TransportParams)) -> NicParams {
    let mut params = NicParams::default();
    change(&mut params.transport);
    params
}

fn sack(cack: u32, mpr: u8, answers: SackFor) -> Sack {
    Sack {
        skip: Skip::None,
        answers,
        entropy: 300,
        spdcid: 0,
        dpdcid: 0,
        cack_psn: cack,
        cc_type: 0,
        cc_flags: 0,
        mpr,
        sack_offset: 1,
        sack_bitmap: 0,
        cc: CcState::default(),
    }
}

/// A SACK of NIC 1 reaches NIC 0.
fn receive_sack(pair: &mut Pair, qp: &QpPair, sack: Sack) -> Result<(), DropReason> {
    let bth = Bth::new(Opcode::Sack, qp.qpn[0].get(), sack.cack_psn);
    let bytes = pair.frame(1, 46, bth, &Ext::Sack(sack), &[]);
    let now = pair.now;
    pair.nics[0].receive(now, PortId(0), &bytes.as_slice())
}

/// Loses the data packet with this PSN until `until`.
fn lose_until(pair: &mut Pair, psn: u32, until: Ns) {
    pair.filter = Some(Box::new(move |now, from, packet, _| {
        let hit = from == 0 && packet.bth.opcode.is_data() && packet.bth.psn == psn && now < until;
        if hit { Fate::Drop } else { Fate::Pass }
    }));
}

#[test]
fn a_sack_that_was_owed_reflects_the_timestamp_of_its_packet_too() {
    let params = transport(|t| (t.rtt_mode, t.mss) = (RttMode::WireTimestamp, 1000));
    let mut pair = Pair::new(params, 8192, Channel::default(), 1);
    pair.run_until(Ns(MS));
    // The first packet alone arrives: too little for a SACK at once.
    lose_until(&mut pair, 1, Ns(SEC));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 2000)).unwrap();
    pair.run_for(10 * US);
    assert_eq!(pair.nics[1].stats().tx_sacks.get(), 1);
    let rtt = pair.nics[0].last_rtt(pair.address(1)).unwrap();
    assert!((1_800..=2_200).contains(&rtt), "{rtt} ns over a path of 1 us each way");
}

#[test]
fn an_answer_to_a_probe_that_nobody_waits_for_changes_nothing() {
    // A window that the answer's own round-trip time, which is made up, does not change.
    let params = NicParams { congestion: CcConfig::Fixed { bytes: 450_000 }, ..NicParams::default() };
    let mut pair = Pair::new(params, 1 << 20, Channel { loss: 1.0, ..Channel::default() }, 1);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 1 << 20)).unwrap();
    pair.run_until(Ns(US));
    let inflight = pair.nics[0].inflight(pair.address(1));
    let outcome = receive_sack(&mut pair, &qp, sack(50, 0, SackFor::Probe { id: 9 }));
    assert_eq!(outcome, Err(DropReason::UnknownProbe));
    assert_eq!(pair.nics[0].inflight(pair.address(1)), inflight);
    // One that is waited for counts as any SACK does, and once: not when it is beyond what was sent, and not the second time.
    let now = pair.now;
    let id = pair.nics[0].probe(now, qp.qpn[0], 300).unwrap();
    let beyond = receive_sack(&mut pair, &qp, sack(5_000, 0, SackFor::Probe { id }));
    assert_eq!(beyond, Err(DropReason::AcknowledgesUnsent));
    let sent = pair.nics[0].stats().tx_data.get();
    assert_eq!(receive_sack(&mut pair, &qp, sack(50, 0, SackFor::Probe { id })), Ok(()));
    assert_eq!(pair.nics[0].inflight(pair.address(1)), inflight - 51 * 4156);
    pair.run_for(US);
    assert_eq!(pair.nics[0].stats().tx_data.get(), sent + 51, "the window has opened");
    let again = receive_sack(&mut pair, &qp, sack(60, 0, SackFor::Probe { id }));
    assert_eq!(again, Err(DropReason::UnknownProbe));
}

#[test]
fn dynamic_mpr_of_a_sack_that_was_overtaken_does_not_widen_the_window_again() {
    let params = NicParams { congestion: CcConfig::Fixed { bytes: 1 << 40 }, ..transport(|t| t.dynamic_mpr = true) };
    let mut pair = Pair::new(params, 1 << 20, Channel { loss: 1.0, ..Channel::default() }, 1);
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 1 << 20)).unwrap();
    pair.run_until(Ns(US));
    // The responder narrowed its window to 128 once it had 201 packets; what it said before comes after.
    receive_sack(&mut pair, &qp, sack(200, 1, SackFor::Packet { offset: 0 })).unwrap();
    assert_eq!(pair.nics[0].send_window(qp.qpn[0]), Some(128));
    receive_sack(&mut pair, &qp, sack(50, 8, SackFor::Packet { offset: 0 })).unwrap();
    assert_eq!(pair.nics[0].send_window(qp.qpn[0]), Some(128));
    // At one and the same cumulative ACK both are promises.
    receive_sack(&mut pair, &qp, sack(200, 2, SackFor::Packet { offset: 0 })).unwrap();
    assert_eq!(pair.nics[0].send_window(qp.qpn[0]), Some(256));
}

#[test]
fn dynamic_mpr_of_a_responder_made_for_few_psns_holds_all_that_it_advertises() {
    let params = NicParams { congestion: CcConfig::Fixed { bytes: 1 << 40 }, ..transport(|t| t.dynamic_mpr = true) };
    let mut pair = Pair::new(params, 200 * 4096, Channel::default(), 1);
    pair.replace_nic(
        1,
        transport(|t| {
            t.dynamic_mpr = true;
            t.max_psn_range = 16;
        }),
    );
    pair.fill(1);
    lose_until(&mut pair, 0, Ns(US));
    let qp = pair.connect(0);
    pair.nics[1].set_window(qp.qpn[1], 128);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 200 * 4096)).unwrap();
    pair.run_for(SEC);
    assert_eq!(pair.completions[0].len(), 1);
    assert!(pair.bytes(1, 0, 200 * 4096) == pair.bytes(0, 0, 200 * 4096), "every byte arrived");
}

#[test]
fn a_packet_beyond_the_responders_window_waits_until_the_window_moves_instead_of_knocking() {
    let params = NicParams { congestion: CcConfig::Fixed { bytes: 1 << 40 }, ..NicParams::default() };
    let mut pair = Pair::new(params, 64 * 4096, Channel::default(), 1);
    pair.replace_nic(1, transport(|t| t.max_psn_range = 16));
    pair.fill(1);
    // PSN 0 is lost, so the window of 16 stands still until its timer.
    lose_until(&mut pair, 0, Ns(US));
    let qp = pair.connect(0);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 64 * 4096)).unwrap();
    pair.run_until(Ns(150 * US));
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::PsnOutOfWindow), 48, "each knocks once");
    pair.run_for(MS);
    assert_eq!(pair.completions[0].len(), 1);
    assert!(pair.bytes(1, 0, 64 * 4096) == pair.bytes(0, 0, 64 * 4096));
}

#[test]
fn an_immediate_without_a_receive_does_not_take_along_one_before_it_that_found_its_own() {
    let mut pair = Pair::new(NicParams::default(), 8192, Channel::default(), 1);
    // The second arrives first.
    lose_until(&mut pair, 1, Ns(US));
    let qp = pair.connect(0);
    pair.nics[1].post_receive(qp.qpn[1], 70).unwrap();
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 8)).unwrap();
    for id in 1..4 {
        let request = WriteRequest { immediate: Some(id as u32), ..pair.write(id, 0, 0, 8) };
        pair.nics[0].post_write(qp.qpn[0], &request).unwrap();
    }
    pair.run_for(MS);
    let received: Vec<_> = pair.completions[1].iter().map(|c| (c.completion.wr_id, c.completion.operation)).collect();
    assert_eq!(received, [(70, Operation::Receive { immediate: 1 })]);
    let ends: Vec<_> = pair.completions[0].iter().map(|c| (c.completion.wr_id, c.completion.status)).collect();
    let expected = [(0, Status::Success), (1, Status::Success), (2, Status::RemoteOperation), (3, Status::Flushed)];
    assert_eq!(ends, expected);
}

#[test]
fn a_qp_that_ended_gives_its_bitmap_back() {
    let params = NicParams { out_of_order_limit: 20, ..NicParams::default() };
    let mut pair = Pair::new(params, 128 * 1024, Channel::default(), 1);
    let (ended, live) = (pair.connect(0), pair.connect(1_000));
    lose_until(&mut pair, 0, Ns(SEC));
    pair.nics[0].post_write(ended.qpn[0], &pair.write(0, 0, 0, 21 * 4096)).unwrap();
    pair.run_for(10 * US);
    // It holds 20 packets out of order, all that there is room for, and ends over one that makes no message.
    let reth = Reth { va: IOVA, rkey: pair.keys[1].0, dmalen: 5 };
    let ext = Ext::Write(WriteHeaders { meth: Meth::default(), timestamp: None, reth, immediate: None });
    let bytes = pair.frame(0, 4, Bth::new(Opcode::WriteOnly, ended.qpn[1].get(), 0), &ext, &[0; 4]);
    let now = pair.now;
    assert_eq!(pair.nics[1].receive(now, PortId(0), &bytes.as_slice()), Err(DropReason::MalformedMessage));
    assert_eq!(pair.nics[1].state(ended.qpn[1]), Some(QpState::Error));
    lose_until(&mut pair, 1_000, now + US);
    pair.nics[0].post_write(live.qpn[0], &pair.write(1, 0, 0, 21 * 4096)).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.nics[1].stats().drops_by(DropReason::NoBitmap), 0);
    // Closing it gives nothing back a second time.
    let now = pair.now;
    assert!(pair.nics[1].close(now, ended.qpn[1]) && pair.nics[1].close(now, live.qpn[1]));
}

/// Base round-trip time of NIC 0's window towards NIC 1, in ns.
fn base_rtt(pair: &Pair) -> u64 {
    let groups: Vec<_> = pair.nics[0].groups(pair.address(1)).collect();
    groups[0].nscc.unwrap().base_rtt_ns
}

#[test]
fn an_answer_that_comes_after_the_clock_of_its_timestamp_has_gone_round_is_no_quick_one() {
    for mode in [RttMode::LocalDatabase, RttMode::WireTimestamp] {
        let params = transport(|t| (t.rtt_mode, t.initial_ack_timeout_ns) = (mode, 100 * MS));
        // 128 ns go round after 8,388.608 us: an answer after 8,389.632 us looks like one after 1,024 ns.
        let mut pair = Pair::new(params, 4096, Channel { delay_ns: 4_194_816, ..Channel::default() }, 1);
        let qp = pair.connect(0);
        let peer = pair.address(1);
        pair.nics[0].post_write(qp.qpn[0], &pair.write(1, 0, 0, 64)).unwrap();
        let now = pair.now;
        pair.nics[0].probe(now, qp.qpn[0], 300).unwrap();
        pair.nics[0].ev_probe(peer, 300).unwrap();
        pair.run_for(20 * MS);
        assert_eq!(pair.completions[0].len(), 1);
        assert_eq!(pair.nics[0].poll_probe().map(|answer| answer.rtt), Some(None), "{mode:?}");
        assert_eq!(pair.nics[0].poll_ev_probe().map(|answer| answer.rtt), Some(None), "{mode:?}");
        assert_eq!(base_rtt(&pair), 6_000, "{mode:?}");
    }
}

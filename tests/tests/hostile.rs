//! What a hostile or broken network may send: the NIC refuses it with a reason, and writes nothing that it should not.

use dataplane::Ns;
use dataplane::nic::{DropReason, NicParams, PortId, QpState, Status};
use dataplane::time::{MS, US};
use dataplane::wire::{Aeth, Bth, CcState, Ext, Meth, Nack, Opcode, Refusal, Reth, Sack, SackFor, Skip, WriteHeaders};
use mrcnic_tests::{Channel, Fate, IOVA, Pair, QpPair};
use proptest::prelude::*;

const MEMORY: usize = 64 * 1024;

fn pair() -> (Pair, QpPair) {
    let mut pair = Pair::new(NicParams::default(), MEMORY, Channel::default(), 1);
    let qp = pair.connect(100);
    (pair, qp)
}

/// A frame that NIC `from` might have sent to the other.
fn frame(pair: &Pair, from: usize, dscp: u8, bth: Bth, ext: &Ext, payload: &[u8]) -> Vec<u8> {
    pair.frame(from, dscp, bth, ext, payload)
}

fn write_ext(pair: &Pair, va: u64, dmalen: u32, imm: bool) -> Ext {
    let reth = Reth { va, rkey: pair.keys[1].0, dmalen };
    Ext::Write(WriteHeaders { meth: Meth::default(), timestamp: None, reth, immediate: imm.then_some(7) })
}

/// Puts a data packet in front of NIC 1, and says what became of it.
fn receive(pair: &mut Pair, frame: &[u8]) -> Result<(), DropReason> {
    let now = pair.now;
    pair.nics[1].receive(now, PortId(0), &frame)
}

#[test]
fn packets_that_make_no_message_end_the_qp_and_write_nothing() {
    use Opcode::{WriteFirst, WriteLast, WriteMiddle, WriteOnly, WriteOnlyImm};
    for (opcode, psn, payload, dmalen, reason) in [
        (WriteOnly, 100, 64, 63, DropReason::MalformedMessage),
        (WriteOnly, 100, 64, u32::MAX, DropReason::MalformedMessage),
        (WriteOnly, 100, 8192, 8192, DropReason::MalformedMessage),
        (WriteFirst, 100, 4096, 4096, DropReason::MalformedMessage),
        (WriteFirst, 100, 64, 8192, DropReason::MalformedMessage),
        (WriteMiddle, 100, 4096, 65_536, DropReason::MalformedMessage),
        (WriteLast, 100, 64, 4096 + 64, DropReason::MalformedMessage),
        (WriteLast, 105, 0, 8192, DropReason::MalformedMessage),
        (WriteLast, 105, 64, 4096 + 65, DropReason::MalformedMessage),
        (WriteOnlyImm, 100, 64, 64, DropReason::Immediate),
    ] {
        let (mut pair, qp) = pair();
        let ext = write_ext(&pair, IOVA, dmalen, opcode.has_immediate());
        let bth = Bth::new(opcode, qp.qpn[1].get(), psn);
        let bytes = frame(&pair, 0, 4, bth, &ext, &vec![0xAA; payload]);
        assert_eq!(receive(&mut pair, &bytes), Err(reason), "{opcode:?} {payload} of {dmalen}");
        assert_eq!(pair.nics[1].state(qp.qpn[1]), Some(QpState::Error));
        assert_eq!(pair.bytes(1, 0, MEMORY), vec![0; MEMORY]);
        // The peer is told by a NAK, and what comes after it by a NACK for an unexpected event.
        pair.run_for(10 * US);
        assert_eq!(pair.nics[1].stats().tx_acks.get(), 1);
        let bytes =
            frame(&pair, 0, 4, Bth::new(WriteOnly, qp.qpn[1].get(), 101), &write_ext(&pair, IOVA, 4, false), &[1; 4]);
        assert_eq!(receive(&mut pair, &bytes), Err(DropReason::QpState));
        pair.run_for(10 * US);
        assert_eq!(pair.nics[1].stats().tx_nacks.get(), 1);
    }
}

#[test]
fn a_packet_beyond_the_window_draws_a_nack_and_one_far_behind_draws_nothing() {
    let (mut pair, qp) = pair();
    let ext = write_ext(&pair, IOVA, 4, false);
    for (psn, outcome, nacks) in [
        (100 + 1023, Ok(()), 0),
        (100 + 1024, Err(DropReason::PsnOutOfWindow), 1),
        (99, Ok(()), 1),
        (100u32.wrapping_sub(40_000), Err(DropReason::PsnStale), 1),
    ] {
        let bytes = frame(&pair, 0, 4, Bth::new(Opcode::WriteOnly, qp.qpn[1].get(), psn), &ext, &[9; 4]);
        assert_eq!(receive(&mut pair, &bytes), outcome, "PSN {psn}");
        pair.run_for(10 * US);
        assert_eq!(pair.nics[1].stats().tx_nacks.get(), nacks, "PSN {psn}");
    }
    assert_eq!(pair.nics[1].stats().duplicates.get(), 1);
}

#[test]
fn a_packet_of_another_peer_number_or_address_reaches_no_qp() {
    let (mut pair, qp) = pair();
    let other = pair.connect(100);
    let ext = write_ext(&pair, IOVA, 4, false);
    let send = |pair: &mut Pair, dqp: u32| {
        let bytes = frame(pair, 0, 4, Bth::new(Opcode::WriteOnly, dqp, 100), &ext, &[9; 4]);
        receive(pair, &bytes)
    };
    assert_eq!(send(&mut pair, 0x0F_FFFF), Err(DropReason::UnknownQp));
    assert_eq!(send(&mut pair, qp.qpn[1].get() ^ 0x01_0000), Err(DropReason::OldQpGeneration));
    assert_eq!(send(&mut pair, 2), Err(DropReason::EndpointOperation), "a Write to the number of endpoint operations");
    // From NIC 1's own address: it is not the peer.
    let bytes = frame(&pair, 1, 4, Bth::new(Opcode::WriteOnly, other.qpn[1].get(), 100), &ext, &[9; 4]);
    assert_eq!(receive(&mut pair, &bytes), Err(DropReason::WrongSource));
    assert_eq!(pair.bytes(1, 0, MEMORY), vec![0; MEMORY]);
}

#[test]
fn a_trimmed_packet_draws_a_nack_and_is_sent_again_at_once_on_another_path() {
    let mut pair = Pair::new(NicParams::default(), MEMORY, Channel::default(), 1);
    pair.fill(1);
    let mut first_ev = None;
    pair.filter = Some(Box::new(move |_, from, packet, bytes| {
        if from == 1 || packet.bth.psn != 103 {
            return Fate::Pass;
        }
        match first_ev {
            None => {
                first_ev = Some(packet.ev());
                let mut cut = bytes[..74].to_vec();
                // TRIMMED, as a switch would write it; it leaves the lengths alone.
                cut[15] = 12 << 2;
                Fate::Replace(cut)
            }
            Some(ev) => {
                assert!(packet.bth.rtx && packet.ip.dscp == 8);
                assert_ne!(packet.ev(), ev);
                Fate::Pass
            }
        }
    }));
    let qp = pair.connect(100);
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, MEMORY)).unwrap();
    pair.run_until(Ns(20 * US));
    assert_eq!(pair.completions[0].len(), 1);
    assert_eq!(pair.nics[0].stats().refused.get(), 1);
    assert_eq!(pair.nics[0].stats().lost_by_timeout.get(), 0);
    assert_eq!(pair.bytes(1, 0, MEMORY), pair.bytes(0, 0, MEMORY));
}

#[test]
fn acknowledgements_of_what_was_never_sent_change_nothing() {
    let (mut pair, qp) = pair();
    pair.filter = Some(Box::new(|_, _, _, _| Fate::Drop));
    pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 3 * 4096)).unwrap();
    pair.run_until(Ns(US));
    let inflight = pair.nics[0].inflight(pair.address(1));
    let sack = Sack {
        skip: Skip::None,
        answers: SackFor::Packet { offset: 0 },
        entropy: 0,
        spdcid: 0,
        dpdcid: 0,
        cack_psn: 103,
        cc_type: 0,
        cc_flags: 0,
        mpr: 0,
        sack_offset: 1,
        sack_bitmap: u64::MAX,
        cc: CcState::default(),
    };
    let dqp = qp.qpn[0].get();
    let beyond = frame(&pair, 1, 46, Bth::new(Opcode::Sack, dqp, 103), &Ext::Sack(sack), &[]);
    let ack = Ext::Ack(Aeth { syndrome: 0x1F, msn: 0 });
    let ack = frame(&pair, 1, 46, Bth::new(Opcode::Ack, dqp, 103), &ack, &[]);
    let now = pair.now;
    for bytes in [beyond, ack] {
        let outcome = pair.nics[0].receive(now, PortId(0), &bytes.as_slice());
        assert_eq!(outcome, Err(DropReason::AcknowledgesUnsent));
    }
    // The bitmap and the drawing PSN reach beyond what was sent; what they say of sent packets counts.
    let partly = Sack { cack_psn: 99, answers: SackFor::Packet { offset: 32_000 }, sack_bitmap: u64::MAX << 1, ..sack };
    let bytes = frame(&pair, 1, 46, Bth::new(Opcode::Sack, dqp, 99), &Ext::Sack(partly), &[]);
    assert_eq!(pair.nics[0].receive(now, PortId(0), &bytes.as_slice()), Ok(()));
    assert_eq!(pair.nics[0].inflight(pair.address(1)), inflight - 2 * 4156);
    // A completion that nobody can have sent.
    let early = Ext::Ack(Aeth { syndrome: 0x1F, msn: 5 });
    let bytes = frame(&pair, 1, 46, Bth::new(Opcode::Ack, dqp, 99), &early, &[]);
    assert_eq!(pair.nics[0].receive(now, PortId(0), &bytes.as_slice()), Ok(()));
    assert_eq!(pair.nics[0].poll(), None);
}

#[test]
fn loss_and_acknowledgement_of_one_packet_in_every_order_leave_nothing_in_flight() {
    // What happens to PSN 100 while 101 is never acknowledged: a NACK, a SACK, a timeout, each at its time.
    let events = ["nack", "sack", "timeout"];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (mut pair, qp) = pair();
        pair.filter = Some(Box::new(|_, _, _, _| Fate::Drop));
        pair.nics[0].post_write(qp.qpn[0], &pair.write(0, 0, 0, 2 * 4096)).unwrap();
        pair.run_until(Ns(US));
        for event in order.map(|i: usize| events[i]) {
            let dqp = qp.qpn[0].get();
            let bytes = match event {
                "timeout" => {
                    pair.run_for(150 * US);
                    continue;
                }
                "nack" => {
                    let nack = Nack {
                        reason: 1,
                        vendor_info: 0,
                        entropy: 300,
                        spdcid: 0,
                        dpdcid: 0,
                        nack_psn: 100,
                        cc_type: 2,
                        cc_flags: 0,
                        tx_timestamp: 0,
                    };
                    frame(&pair, 1, 46, Bth::new(Opcode::Nack, dqp, 100), &Ext::Nack(nack), &[])
                }
                _ => {
                    let sack = Sack {
                        skip: Skip::None,
                        answers: SackFor::Packet { offset: 0 },
                        entropy: 0,
                        spdcid: 0,
                        dpdcid: 0,
                        cack_psn: 100,
                        cc_type: 0,
                        cc_flags: 0,
                        mpr: 0,
                        sack_offset: 1,
                        sack_bitmap: 0,
                        cc: CcState::default(),
                    };
                    frame(&pair, 1, 46, Bth::new(Opcode::Sack, dqp, 100), &Ext::Sack(sack), &[])
                }
            };
            let now = pair.now;
            assert_eq!(pair.nics[0].receive(now, PortId(0), &bytes.as_slice()), Ok(()), "{order:?}");
            pair.run_for(US);
        }
        assert_eq!(pair.nics[0].inflight(pair.address(1)), 4156, "{order:?}: the second packet alone");
        let now = pair.now;
        assert!(pair.nics[0].close(now, qp.qpn[0]));
        pair.run_for(US);
        assert_eq!(pair.completions[0].iter().map(|c| c.completion.status).collect::<Vec<_>>(), [Status::Flushed]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_are_refused_by_reason(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (mut pair, _) = pair();
        let outcome = receive(&mut pair, &bytes);
        prop_assert!(outcome.is_err());
        let dropped: u64 = pair.nics[1].stats().drop_reasons().map(|(_, count)| count).sum();
        prop_assert_eq!(dropped, 1);
    }

    #[test]
    fn a_frame_with_any_bit_flipped_writes_nothing_unless_the_bit_is_one_that_the_network_may_change(
        bit in 0usize..(78 + 64) * 8,
    ) {
        let (mut pair, qp) = pair();
        let ext = write_ext(&pair, IOVA, 64, false);
        let bth = Bth::new(Opcode::WriteOnly, qp.qpn[1].get(), 100);
        let mut bytes = frame(&pair, 0, 4, bth, &ext, &[0xAA; 64]);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let outcome = receive(&mut pair, &bytes);
        let written = pair.bytes(1, 0, MEMORY) != vec![0; MEMORY];
        prop_assert_eq!(outcome.is_ok(), written);
        let may_change = [0..12, 15..16, 22..23, 24..26, 40..42, 46..47].iter().any(|range| range.contains(&(bit / 8)));
        prop_assert!(!written || may_change, "byte {}", bit / 8);
    }

    #[test]
    fn any_sequence_of_well_formed_control_packets_leaves_the_requester_sound(
        packets in prop::collection::vec((0u8..3, 0u32..40, any::<i16>(), any::<u64>(), any::<u8>()), 1..60),
    ) {
        let (mut pair, qp) = pair();
        pair.filter = Some(Box::new(|_, _, _, _| Fate::Drop));
        let mut posted = 0;
        for (what, psn, offset, bitmap, code) in packets {
            if pair.nics[0].post_write(qp.qpn[0], &pair.write(posted, 0, 0, 5000)).is_ok() {
                posted += 1;
            }
            pair.run_for(30 * US);
            let psn = 95 + psn;
            let (opcode, ext) = match what {
                0 => (Opcode::Sack, Ext::Sack(Sack {
                    skip: Skip::Once,
                    answers: SackFor::Packet { offset: offset % 64 },
                    entropy: u32::from(code) + 256,
                    spdcid: 0,
                    dpdcid: 0,
                    cack_psn: psn,
                    cc_type: 0,
                    cc_flags: 0,
                    mpr: 0,
                    sack_offset: offset,
                    sack_bitmap: bitmap,
                    cc: CcState { rcvd_bytes: psn, ..CcState::default() },
                })),
                1 => (Opcode::Ack, Ext::Ack(Aeth { syndrome: if code < 250 { 0x1F } else { code }, msn: code.into() })),
                _ => (Opcode::Nack, Ext::Nack(Nack {
                    reason: code % 12,
                    vendor_info: 0,
                    entropy: 300,
                    spdcid: 0,
                    dpdcid: 0,
                    nack_psn: psn,
                    cc_type: 2,
                    cc_flags: 0,
                    tx_timestamp: 0,
                })),
            };
            let bytes = frame(&pair, 1, 46, Bth::new(opcode, qp.qpn[0].get(), psn), &ext, &[]);
            let now = pair.now;
            let _ = pair.nics[0].receive(now, PortId(0), &bytes.as_slice());
        }
        pair.run_for(MS);
        prop_assert!(pair.nics[0].inflight(pair.address(1)) <= 450_000);
        let now = pair.now;
        prop_assert!(pair.nics[0].close(now, qp.qpn[0]));
        pair.run_for(US);
        let mut ids: Vec<u64> = pair.completions[0].iter().map(|c| c.completion.wr_id).collect();
        prop_assert_eq!(ids.len() as u64, posted, "every request ends");
        ids.dedup();
        prop_assert_eq!(ids.len() as u64, posted, "and ends once, in order");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_sequence_of_data_packets_and_probes_leaves_the_responder_sound(
        range in prop::sample::select(vec![1u32, 20, 64, 130, 1024]),
        receives in 0u64..20,
        packets in prop::collection::vec(
            (0u8..8, -70i32..200, 0usize..40, 0u64..200, 0u16..8, any::<[bool; 4]>(), 0u8..20), 1..150),
    ) {
        let mut params = NicParams { held_immediates_limit: 3, ..NicParams::default() };
        (params.transport.mss, params.transport.max_psn_range, params.transport.dynamic_mpr) = (16, range, true);
        let mut pair = Pair::new(params, 100, Channel::default(), 1);
        let qps = [0, 1].map(|_| pair.connect(10));
        for id in 0..receives {
            pair.nics[1].post_receive(qps[0].qpn[1], id).unwrap();
        }
        // What NIC 1 says has arrived, is what it took.
        let told = std::rc::Rc::new(std::cell::RefCell::new(std::collections::BTreeSet::new()));
        let seen = told.clone();
        pair.filter = Some(Box::new(move |_, _, packet, _| {
            if let Ext::Sack(sack) = packet.ext {
                let bits = (0..64).filter(|bit| sack.sack_bitmap >> bit & 1 == 1);
                seen.borrow_mut().extend(bits.map(|bit| (sack.cack_psn as i32 + i32::from(sack.sack_offset) + bit) & 0xFF_FFFF));
                if let SackFor::Packet { offset } = sack.answers {
                    seen.borrow_mut().insert((sack.cack_psn as i32 + i32::from(offset)) & 0xFF_FFFF);
                }
            }
            Fate::Drop
        }));
        let mut taken: std::collections::BTreeSet<i32> = (10 - 300..10).map(|psn: i32| psn & 0xFF_FFFF).collect();
        for (kind, psn, len, va, rqmsn, [ack_request, rtx, mark, long], pause) in packets {
            // The first packets of all are the most interesting.
            let psn = (10 + if long { psn } else { psn % 6 }) & 0xFF_FFFF;
            use Opcode::{Probe, WriteFirst, WriteLast, WriteLastImm, WriteMiddle, WriteOnly, WriteOnlyImm};
            let opcode = [WriteFirst, WriteMiddle, WriteLast, WriteLastImm, WriteOnly, WriteOnlyImm, WriteOnly, Probe][usize::from(kind)];
            let (len, dmalen) = match opcode {
                WriteFirst | WriteMiddle => (16, 64),
                WriteLast | WriteLastImm => (len % 16 + 1, 16 + (len % 16) + 1),
                _ => (len % 18, len % 18),
            };
            let reth = Reth { va: IOVA + va % 100, rkey: pair.keys[1].0, dmalen: dmalen as u32 };
            let immediate = opcode.has_immediate().then_some(7);
            let ext = match opcode {
                Probe => Ext::Probe(dataplane::wire::Probe {
                    vendor_info: 0,
                    id: rqmsn,
                    spdcid: 0,
                    dpdcid: 0,
                    timestamp: dataplane::wire::Timestamp::default(),
                }),
                _ => Ext::Write(WriteHeaders { meth: Meth { rqmsn, msn: 0 }, timestamp: None, reth, immediate }),
            };
            let bth = Bth { ack_request, rtx, ..Bth::new(opcode, qps[0].qpn[1].get(), psn as u32) };
            let payload = vec![0xAA; if opcode == Probe { 0 } else { len }];
            let mut bytes = frame(&pair, 0, 4, bth, &ext, &payload);
            if mark {
                bytes = mrcnic_tests::marked(&bytes);
            }
            let was_new = pair.nics[1].stats().placed.get();
            let _ = receive(&mut pair, &bytes);
            if pair.nics[1].stats().placed.get() > was_new {
                taken.insert(psn);
            }
            match pause {
                0 => _ = pair.nics[1].set_window(qps[0].qpn[1], u32::from(rqmsn) * 60),
                1..4 => pair.run_for(u64::from(pause) * 20 * US),
                _ => {}
            }
        }
        pair.run_for(MS);
        let told = told.borrow();
        prop_assert!(told.is_subset(&taken), "said to have arrived: {:?}", told.difference(&taken).collect::<Vec<_>>());
        // Its neighbour is as it was.
        pair.filter = None;
        pair.nics[0].post_write(qps[1].qpn[0], &pair.write(5, 0, 0, 100)).unwrap();
        pair.run_for(MS);
        prop_assert_eq!(pair.completions[0].last().map(|c| c.completion.status), Some(Status::Success));
        let now = pair.now;
        for qp in qps {
            prop_assert!(pair.nics[1].close(now, qp.qpn[1]));
        }
        pair.run_for(US);
        let mut ids: Vec<u64> = pair.completions[1].iter().map(|c| c.completion.wr_id).collect();
        prop_assert_eq!(ids.len() as u64, receives, "every receive ends");
        ids.dedup();
        prop_assert_eq!(ids.len() as u64, receives, "and ends once, in order");
    }
}

#[test]
fn a_frame_that_fails_its_icrc_is_dropped_and_never_answered() {
    let (mut pair, qp) = pair();
    let ext = write_ext(&pair, u64::MAX, 4, false);
    let mut bytes = frame(&pair, 0, 4, Bth::new(Opcode::WriteOnly, qp.qpn[1].get(), 100), &ext, &[9; 4]);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert_eq!(receive(&mut pair, &bytes), Err(DropReason::Wire(Refusal::BadIcrc)));
    pair.run_for(MS);
    assert_eq!(pair.nics[1].stats().tx_frames.get(), 0);
    assert_eq!(pair.nics[1].state(qp.qpn[1]), Some(QpState::Rts));
}

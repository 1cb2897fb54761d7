//! QPs that are learned from a capture.

use super::{A, B, C, Replayed, frame, pcap, replay_bytes, vectors};
use dataplane::wire::{Bth, CcState, Ext, Meth, Opcode, Probe, Reth, Sack, SackFor, Skip, Timestamp, WriteHeaders};
use serde_json::Value;
use std::net::IpAddr;

/// A Write of `payload` bytes to an address that is nobody's.
fn write(source: IpAddr, destination: IpAddr, dqp: u32, psn: u32, payload: usize) -> Vec<u8> {
    let reth = Reth { va: u64::MAX - 100, rkey: 7, dmalen: payload as u32 };
    let ext = Ext::Write(WriteHeaders { meth: Meth::default(), timestamp: None, reth, immediate: None });
    let bth = Bth { ack_request: true, ..Bth::new(Opcode::WriteOnly, dqp, psn) };
    frame(source, destination, &bth, &ext, payload, None)
}

fn sack(source: IpAddr, destination: IpAddr, dqp: u32, spdcid: u16) -> Vec<u8> {
    let sack = Sack {
        skip: Skip::None,
        answers: SackFor::Packet { offset: 0 },
        entropy: 0,
        spdcid,
        dpdcid: dqp as u16,
        cack_psn: 9,
        cc_type: 0,
        cc_flags: 0,
        mpr: 0,
        sack_offset: 1,
        sack_bitmap: 0,
        cc: CcState::default(),
    };
    frame(source, destination, &Bth::new(Opcode::Sack, dqp, 9), &Ext::Sack(sack), 0, None)
}

fn probe(source: IpAddr, destination: IpAddr, dqp: u32, id: u16) -> Vec<u8> {
    let probe = Probe { vendor_info: 0, id, spdcid: 0, dpdcid: dqp as u16, timestamp: Timestamp::default() };
    frame(source, destination, &Bth::new(Opcode::Probe, dqp, 0), &Ext::Probe(probe), 0, None)
}

fn answers_of<'a>(run: &'a Replayed, source: &str, op: &str) -> Vec<&'a Value> {
    run.answers.iter().filter(|answer| answer["src"] == source && answer["op"] == op).collect()
}

#[test]
fn an_answer_goes_back_to_the_qp_that_the_way_back_names() {
    let (first, second) = (0x01_0005, 0x01_0006);
    let frames = [
        write(A, B, first, 100, 64),
        write(A, B, second, 200, 64),
        sack(B, A, 0x02_0008, first as u16),
        sack(B, A, 0x03_0001, second as u16),
    ];
    let run = replay_bytes(&pcap(&frames), &[]);
    let peers: Vec<_> = run.report["qps"].as_array().unwrap().iter().map(|qp| qp["peer_qpn"].as_u64()).collect();
    assert_eq!(peers, [Some(0x02_0008), Some(0x03_0001)]);
    for op in ["SACK", "ACK"] {
        let to: Vec<_> = answers_of(&run, "10.0.0.2", op).iter().map(|answer| answer["bth"]["dqp"].as_u64()).collect();
        assert_eq!(to, peers, "{op}");
    }
    let sacks = answers_of(&run, "10.0.0.2", "SACK");
    assert_eq!((&sacks[0]["ext"]["spdcid"], &sacks[0]["ext"]["dpdcid"]), (&Value::from(5), &Value::from(8)));
    assert_eq!(run.report["drops"], serde_json::json!({ "unknown_qp": 2 }));
    assert_eq!(run.report["for_other_end"], 2);
}

#[test]
fn without_a_way_back_an_answer_goes_to_the_number_of_the_request() {
    let run = replay_bytes(&pcap(&[write(A, B, 0x01_0005, 100, 64)]), &[]);
    assert_eq!((&run.qp()["peer_qpn"], &run.qp()["peer_learned"]), (&Value::from(0x01_0005), &Value::Bool(false)));
    assert!(run.answers.iter().all(|answer| answer["bth"]["dqp"] == 0x01_0005 && answer["dst"] == "10.0.0.1"));
}

#[test]
fn two_nics_that_gave_out_the_same_number_are_two_qps() {
    let frames = [write(A, B, 0x01_0000, 5, 8), write(A, C, 0x01_0000, 9, 8), write(C, B, 0x01_0000, 7, 8)];
    let run = replay_bytes(&pcap(&frames), &[]);
    let qps: Vec<_> = run.report["qps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|qp| (&qp["source"], &qp["destination"], &qp["first_psn"]))
        .collect();
    let expected = [("10.0.0.1", "10.0.0.2", 5), ("10.0.0.1", "10.0.0.3", 9), ("10.0.0.3", "10.0.0.2", 7)]
        .map(|(source, destination, psn)| (Value::from(source), Value::from(destination), Value::from(psn)));
    assert_eq!(qps, expected.iter().map(|(s, d, p)| (s, d, p)).collect::<Vec<_>>());
    assert_eq!(run.report["drops"], serde_json::json!({}));
}

#[test]
fn data_both_ways_is_answered_both_ways_and_acknowledgements_are_counted_apart() {
    let frames = [
        write(A, B, 0x01_0005, 100, 64),
        sack(B, A, 0x02_0008, 5),
        write(B, A, 0x02_0008, 300, 64),
        sack(A, B, 0x01_0005, 8),
    ];
    let run = replay_bytes(&pcap(&frames), &[]);
    assert_eq!(run.report["qps"].as_array().unwrap().len(), 2);
    for (source, dqp) in [("10.0.0.2", 0x02_0008), ("10.0.0.1", 0x01_0005)] {
        let sacks = answers_of(&run, source, "SACK");
        assert_eq!(sacks.len(), 1);
        assert_eq!(sacks[0]["bth"]["dqp"], dqp);
    }
    assert_eq!(run.report["for_other_end"], 2);
}

#[test]
fn a_qp_that_only_probes_tell_of_answers_them_and_has_nothing_delivered() {
    let run = replay_bytes(&pcap(&[probe(A, B, 0x01_0005, 77), probe(A, B, 0x01_0005, 78)]), &[]);
    assert_eq!(run.numbers(&["first_psn", "delivered", "gaps", "duplicates"]), [0, 0, 0, 0]);
    let ids: Vec<_> = run.answers.iter().map(|answer| answer["ext"]["probe_id"].as_u64()).collect();
    assert_eq!(ids, [Some(77), Some(78)]);
}

#[test]
fn order_gaps_duplicates_and_the_window_are_judged_across_the_wrap() {
    let psns = [0xFF_FFFF, 1, 0xFF_FFFE, 1, 3, 0xFF_FFFE, 67, 68];
    let frames = psns.map(|psn| write(A, B, 9, psn, 100));
    let run = replay_bytes(&pcap(&frames), &["--window", "68"]);
    // 0 and 2 never come; the window reaches from the last in order, 0xFF_FFFF, to 67.
    assert_eq!(run.numbers(&["first_psn", "delivered", "delivered_bytes"]), [0xFF_FFFE, 5, 500]);
    assert_eq!(run.numbers(&["duplicates", "gaps", "out_of_window"]), [2, 68 - 4 + 1, 1]);
    assert_eq!(run.report["drops"], serde_json::json!({ "psn_out_of_window": 1 }));
    let nacks = answers_of(&run, "10.0.0.2", "NACK");
    assert_eq!((nacks.len(), &nacks[0]["ext"]["nack_psn"]), (1, &Value::from(68)));
    assert!(run.said.contains("1 packets lay beyond the window of 68 PSNs"), "{}", run.said);
}

#[test]
fn a_vlan_tag_is_seen_and_answered_with() {
    let reth = Reth { va: 1, rkey: 7, dmalen: 4 };
    let ext = Ext::Write(WriteHeaders { reth, ..WriteHeaders::default() });
    let tagged = frame(A, B, &Bth::new(Opcode::WriteOnly, 9, 4), &ext, 4, Some(0x602A));
    let run = replay_bytes(&pcap(&[tagged]), &[]);
    assert_eq!(run.numbers(&["delivered", "delivered_bytes"]), [1, 4]);
    assert_eq!(run.answers[0]["vlan"], 42);
    assert_eq!(
        (&run.answers[0]["dmac"], &run.answers[0]["smac"]),
        (&"02:00:00:00:00:01".into(), &"02:00:00:00:00:02".into())
    );
}

#[test]
fn a_wrong_icrc_teaches_nothing_and_is_dropped_by_that_reason() {
    let mut wrong = write(A, B, 9, 3, 100);
    let last = wrong.len() - 1;
    wrong[last] ^= 0x10;
    let run = replay_bytes(&pcap(&[write(A, B, 9, 50, 100), wrong]), &[]);
    assert_eq!(run.numbers(&["first_psn", "delivered", "out_of_window", "gaps"]), [50, 1, 0, 0]);
    assert_eq!(run.report["drops"], serde_json::json!({ "bad_icrc": 1 }));
    assert_eq!(run.report["decoded"], 2);
}

#[test]
fn a_trimmed_packet_is_a_gap_and_refused_by_a_nack() {
    let mut trimmed = write(A, B, 9, 50, 100);
    trimmed[15] = 12 << 2;
    trimmed.truncate(74);
    let run = replay_bytes(&pcap(&[trimmed, write(A, B, 9, 51, 100)]), &[]);
    assert_eq!(run.numbers(&["first_psn", "delivered", "gaps"]), [50, 1, 1]);
    assert_eq!(run.report["drops"], serde_json::json!({ "trimmed": 1 }));
    assert_eq!(answers_of(&run, "10.0.0.2", "NACK").len(), 1);
}

#[test]
fn other_udp_ports_are_taken_on_request_and_answered_there() {
    let mut other = write(A, B, 9, 50, 100);
    other[36..38].copy_from_slice(&5000_u16.to_be_bytes());
    let bytes = pcap(&[&other]);
    let run = replay_bytes(&bytes, &[]);
    assert_eq!((&run.report["decoded"], &run.report["qps"]), (&Value::from(0), &Value::Array(vec![])));
    assert!(run.said.contains("1 packets are UDP to other ports (--port takes 2 more)"), "{}", run.said);
    // The UDP port is part of what the iCRC covers, so that the packet is still not right.
    let run = replay_bytes(&bytes, &["--port", "5000"]);
    assert_eq!((&run.report["decoded"], &run.report["drops"]["bad_icrc"]), (&Value::from(1), &Value::from(1)));
}

#[test]
fn every_golden_request_is_answered_at_the_address_that_it_came_from() {
    let bytes = std::fs::read(vectors("frames.pcap")).unwrap();
    let run = replay_bytes(&bytes, &[]);
    for golden in super::golden() {
        let op = golden["op"].as_str().unwrap();
        let answer =
            |kind: &str| run.answers.iter().find(|answer| answer["src"] == golden["dst"] && answer["op"] == kind);
        let sack = answer("SACK");
        assert_eq!(sack.is_some(), op.starts_with("WRITE") || op == "PROBE", "{}", golden["name"]);
        let Some(sack) = sack else { continue };
        assert_eq!((&sack["dst"], &sack["smac"], &sack["dmac"]), (&golden["src"], &golden["dmac"], &golden["smac"]));
        assert_eq!((&sack["bth"]["dqp"], &sack["ext"]["entropy"]), (&golden["bth"]["dqp"], &golden["ev"]));
        if op.starts_with("WRITE") {
            assert_eq!(sack["ext"]["cack_psn"], golden["bth"]["psn"]);
            assert_eq!(answer("ACK").is_some(), golden["bth"]["a"] == 1, "{}", golden["name"]);
        } else {
            assert_eq!(sack["ext"]["probe_id"], golden["ext"]["probe_id"]);
        }
    }
}

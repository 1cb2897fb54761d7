//! Captures of two NICs in virtual time: a replay comes to what the receiver came to.

use super::{Replayed, pcap, replay_bytes};
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::NicParams;
use dataplane::time::SEC;
use dataplane::transport::Psn;
use dataplane::wire::{Opcode, Packet, Rules, parse};
use mrcnic_tests::{Channel, Fate, Pair};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// PSNs that a run begins with: it crosses the wrap.
const FIRST: u32 = 0xFF_FFF0;
const MESSAGE: usize = 300_000;

fn read(frame: &[u8]) -> Packet {
    parse(frame, frame.len(), &Rules::default()).unwrap()
}

/// A run of five Writes of which first transmissions and acknowledgements get lost, captured at the receiver: its frames,
/// and what the receiver counted as delivered, in bytes, and as duplicates.
fn captured(v6: bool) -> (Vec<Vec<u8>>, [u64; 3]) {
    // A window that stays open, though the first acknowledgements do not come.
    let params = NicParams { congestion: CcConfig::Fixed { bytes: 450_000 }, ..NicParams::default() };
    let mut pair = Pair::over(v6, params, 5 * MESSAGE, Channel::default(), 11);
    let frames = Rc::new(RefCell::new(Vec::new()));
    let record = frames.clone();
    let (mut data, mut acknowledgements) = (0, 0);
    pair.filter = Some(Box::new(move |_, from, packet, frame| {
        let lost = if from == 0 {
            data += 1;
            !packet.bth.rtx && data % 23 == 5
        } else {
            acknowledgements += 1;
            // More than a window's: the sender's timers run out, and it repeats what has arrived.
            acknowledgements <= 150
        };
        if lost {
            return Fate::Drop;
        }
        record.borrow_mut().push(frame.to_vec());
        Fate::Pass
    }));
    let qp = pair.connect(FIRST);
    pair.fill(3);
    for id in 0..5 {
        let at = id * MESSAGE;
        pair.nics[0].post_write(qp.qpn[0], &pair.write(id as u64, at, at, MESSAGE)).unwrap();
    }
    pair.run_for(10 * SEC);
    assert_eq!(pair.completions[0].len(), 5);
    pair.filter = None;
    let stats = pair.nics[1].qp_stats(qp.qpn[1]).unwrap();
    let retransmits = pair.nics[0].stats().retransmits.get();
    assert!(retransmits > stats.duplicates && stats.duplicates > 0, "{retransmits} retransmissions, {stats:?}");
    (frames.take(), [stats.delivered, stats.delivered_bytes, stats.duplicates])
}

/// Delivered, duplicates, gaps and packets beyond the window, by the plainest reading of the rules.
fn expected(frames: &[Vec<u8>], window: i32) -> [u64; 4] {
    let first = Psn::new(FIRST);
    let (mut here, mut cack, mut duplicates, mut beyond) = (BTreeSet::new(), -1, 0, 0);
    for packet in frames.iter().map(|frame| read(frame)).filter(|packet| packet.bth.opcode.is_data()) {
        let at = Psn::new(packet.bth.psn).distance(first);
        if at > cack + window {
            beyond += 1;
        } else if !here.insert(at) {
            duplicates += 1;
        }
        while here.contains(&(cack + 1)) {
            cack += 1;
        }
    }
    let highest = here.last().copied().unwrap_or(-1);
    [here.len() as u64, duplicates, (highest + 1) as u64 - here.len() as u64, beyond]
}

fn judged(run: &Replayed) -> [u64; 4] {
    run.numbers(&["delivered", "duplicates", "gaps", "out_of_window"]).try_into().unwrap()
}

#[test]
fn a_replay_of_losses_and_retransmissions_comes_to_what_the_receiver_came_to() {
    for v6 in [false, true] {
        let (frames, [delivered, bytes, duplicates]) = captured(v6);
        let run = replay_bytes(&pcap(&frames), &[]);
        assert_eq!(judged(&run), [delivered, duplicates, 0, 0]);
        assert_eq!(expected(&frames, 1024), [delivered, duplicates, 0, 0]);
        assert_eq!(run.numbers(&["first_psn", "delivered_bytes"]), [u64::from(FIRST), bytes]);
        assert_eq!(bytes, 5 * MESSAGE as u64);
        assert_eq!(run.qp()["peer_learned"], true);
        assert_eq!(run.said, "");

        let (mut evs, mut by_op, mut others) = (BTreeMap::new(), BTreeMap::new(), 0);
        for packet in frames.iter().map(|frame| read(frame)) {
            *evs.entry(packet.ev().to_string()).or_insert(0) += 1;
            *by_op.entry(packet.bth.opcode.name()).or_insert(0) += 1;
            others += u64::from(!packet.bth.opcode.is_data());
        }
        assert_eq!(run.report["evs"], json!(evs));
        assert_eq!(run.report["by_op"], json!(by_op));
        assert_eq!((&run.report["packets"], &run.report["decoded"]), (&json!(frames.len()), &json!(frames.len())));
        assert_eq!(run.report["for_other_end"], others);
        assert_eq!(run.report["drops"], json!({ "unknown_qp": others }));
    }
}

#[test]
fn the_last_answers_acknowledge_all_that_arrived() {
    let (frames, [delivered, ..]) = captured(false);
    let run = replay_bytes(&pcap(&frames), &[]);
    let last = Psn::new(FIRST).plus(delivered as i32 - 1).get();
    let sacks: Vec<&Value> = run.answers.iter().filter(|answer| answer["op"] == "SACK").collect();
    let sack = &sacks[sacks.len() - 1]["ext"];
    assert_eq!((&sack["cack_psn"], &sack["ooo_count"]), (&json!(last), &json!(0)));
    let acks: Vec<&Value> = run.answers.iter().filter(|answer| answer["op"] == "ACK").collect();
    assert_eq!(acks[acks.len() - 1]["ext"]["msn"], 4, "five messages, by a number from 0");
}

#[test]
fn what_the_capture_itself_lost_is_a_gap_and_holds_the_window_up() {
    let (frames, _) = captured(false);
    // The capture misses three packets, retransmissions and all.
    let missing = [100, 101, 205].map(|at| Psn::new(FIRST).plus(at).get());
    let kept: Vec<Vec<u8>> = frames
        .into_iter()
        .filter(|frame| !missing.contains(&read(frame).bth.psn) || read(frame).bth.opcode == Opcode::Sack)
        .collect();
    for window in [64, 150, 1024] {
        let run = replay_bytes(&pcap(&kept), &["--window", &window.to_string()]);
        let expected = expected(&kept, window);
        assert_eq!(judged(&run), expected, "window {window}");
        assert_eq!(expected[3] > 0, window < 1024, "{expected:?}");
        assert_eq!(run.report["drops"].get("psn_out_of_window").and_then(Value::as_u64).unwrap_or(0), expected[3]);
    }
}

#[test]
fn frames_that_come_twice_and_out_of_order_are_told_from_new_ones() {
    let (frames, _) = captured(false);
    let mut shuffled: Vec<Vec<u8>> = Vec::new();
    for (i, group) in frames.chunks(7).enumerate() {
        shuffled.extend(group.iter().rev().cloned());
        shuffled.extend(group.iter().take(i % 3).cloned());
    }
    let run = replay_bytes(&pcap(&shuffled), &[]);
    assert_eq!(judged(&run), expected(&shuffled, 1024));
}

#[test]
fn later_rounds_are_duplicates_to_the_packet() {
    let (frames, [delivered, bytes, duplicates]) = captured(false);
    let data = delivered + duplicates;
    let run = replay_bytes(&pcap(&frames), &["--loop", "4"]);
    assert_eq!(judged(&run), [delivered, duplicates + 3 * data, 0, 0]);
    assert_eq!(run.numbers(&["delivered_bytes"]), [bytes]);
    assert_eq!((&run.report["packets"], &run.report["rounds"]), (&json!(4 * frames.len()), &json!(4)));
    assert_eq!(run.report["file"]["packets"], frames.len());
    assert_eq!(run.said, "");
}

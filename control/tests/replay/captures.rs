//! Kinds of capture, what is wrong with them, and what is told of it.

use super::{Scratch, mrcnic, named, pcap, pcap_with, replay_bytes, replay_file, vectors};
use pcap_file::pcap::PcapHeader;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::{DataLink, Endianness, TsResolution};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::Duration;

/// A pcapng file with an interface for each link type and snaplen, and frames by interface.
fn pcapng(endianness: Endianness, interfaces: &[(DataLink, u32)], frames: &[(u32, &[u8])]) -> Vec<u8> {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
    for &(linktype, snaplen) in interfaces {
        writer.write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen, options: vec![] }).unwrap();
    }
    for &(interface_id, frame) in frames {
        let (timestamp, data) = (Duration::from_nanos(1), Cow::Borrowed(frame));
        let block =
            EnhancedPacketBlock { interface_id, timestamp, original_len: frame.len() as u32, data, options: vec![] };
        writer.write_pcapng_block(block).unwrap();
    }
    writer.into_inner()
}

/// The report without what differs from run to run, and from file to file.
fn comparable(mut report: Value) -> Value {
    for key in ["seconds", "packets_per_s", "out", "file"] {
        report.as_object_mut().unwrap().remove(key).unwrap();
    }
    report
}

#[test]
fn the_golden_frames_are_all_taken_and_answered_with_right_icrcs() {
    let run = replay_file(&vectors("frames.pcap"), &[]);
    let report = &run.report;
    assert_eq!((&report["schema"], &report["packets"], &report["decoded"]), (&json!(1), &json!(72), &json!(72)));
    assert_eq!(report["by_op"].as_object().unwrap().len(), 12);
    assert!(report["by_op"].as_object().unwrap().values().all(|count| count == 6));
    assert_eq!(report["drops"], json!({ "unknown_qp": 18, "endpoint_operation": 12 }));
    assert_eq!(report["for_other_end"], 18);
    let qps = report["qps"].as_array().unwrap();
    assert_eq!(qps.len(), 42, "36 of data, 6 of probes");
    assert_eq!(qps.iter().map(|qp| qp["delivered"].as_u64().unwrap()).sum::<u64>(), 36);
    assert_eq!(report["evs"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 72);
    assert_eq!(report["responses"], 64, "42 SACKs, and 22 ACKs that were asked for");
    assert_eq!(run.said, "");
}

#[test]
fn the_json_form_begins_with_the_keys_of_its_schema_in_their_order() {
    let run = mrcnic(&["replay", "--json"]).arg(vectors("frames.pcap")).assert().success().stderr(is_empty());
    let text = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    let keys = ["schema", "packets", "decoded", "by_op", "drops", "qps", "evs", "responses"];
    let places: Vec<_> = keys.iter().map(|key| text.find(&format!("\"{key}\":")).expect(key)).collect();
    assert!(places.is_sorted() && places[0] == 1, "{places:?}");
    assert_eq!(text.lines().count(), 1);
    let report: Value = serde_json::from_str(&text).unwrap();
    for key in [
        "source",
        "destination",
        "dqp",
        "peer_qpn",
        "first_psn",
        "delivered",
        "delivered_bytes",
        "duplicates",
        "gaps",
        "out_of_window",
    ] {
        assert!(!report["qps"][0][key].is_null(), "{key}");
    }
    assert_eq!(report["responses"], 64, "they count without a file, too");
}

#[test]
fn the_text_form_has_a_table_of_each_kind_and_says_whose_the_acknowledgements_are() {
    mrcnic(&["replay"])
        .arg(vectors("frames.pcap"))
        .assert()
        .success()
        .stdout(contains("72 packets, 72 of them MRC").and(contains("64 answers (--out FILE keeps them)")))
        .stdout(contains("WRITE_LAST_IMM").and(contains("peer's QP")).and(contains("and 56 more (--json has all)")))
        .stdout(contains("acknowledgements for the capture's other end: its requester is not here"))
        .stderr(is_empty());
}

#[test]
fn formats_byte_orders_and_resolutions_make_no_difference() {
    let frames = ["write_only-ipv4-24", "write_last-ipv6-17", "probe-ipv6-71", "sack-ipv4-54"].map(named);
    let plain = comparable(replay_bytes(&pcap(&frames), &[]).report);
    assert_eq!(plain["decoded"], 4);
    let sized: Vec<(&[u8], usize)> = frames.iter().map(|frame| (frame.as_slice(), frame.len())).collect();
    let numbered: Vec<(u32, &[u8])> = frames.iter().map(|frame| (0, frame.as_slice())).collect();
    for endianness in [Endianness::Little, Endianness::Big] {
        let header = PcapHeader { endianness, ts_resolution: TsResolution::NanoSecond, ..Default::default() };
        assert_eq!(comparable(replay_bytes(&pcap_with(header, &sized), &[]).report), plain);
        let bytes = pcapng(endianness, &[(DataLink::ETHERNET, 0)], &numbered);
        assert_eq!(comparable(replay_bytes(&bytes, &[]).report), plain);
    }
}

#[test]
fn packets_cut_by_the_snaplen_go_through_short_and_are_told() {
    let frame = named("write_only-ipv4-24");
    let short: &[u8] = &frame[..80];
    let bytes = pcap_with(PcapHeader::default(), &[(short, frame.len()), (short, frame.len()), (&frame, frame.len())]);
    let run = replay_bytes(&bytes, &[]);
    assert_eq!((&run.report["packets"], &run.report["decoded"]), (&json!(3), &json!(1)));
    assert_eq!(run.report["drops"], json!({ "bad_ip_length": 2 }));
    assert_eq!(run.report["file"]["cut_by_snaplen"], 2);
    assert_eq!(run.numbers(&["delivered"]), [1]);
    let said = "2 of 3 packets were cut by the capture's snaplen (up to 80 bytes are kept)";
    assert!(run.said.contains(said) && run.report["warnings"][0].as_str().unwrap().contains(said), "{}", run.said);
}

#[test]
fn a_cut_last_record_is_told_and_the_rest_replayed() {
    let bytes = std::fs::read(vectors("frames.pcap")).unwrap();
    let run = replay_bytes(&bytes[..bytes.len() - 9], &[]);
    assert_eq!((&run.report["packets"], &run.report["file"]["cut_tail"]), (&json!(71), &json!(true)));
    assert!(run.said.contains("the last record is cut off: 9 bytes missing"), "{}", run.said);
    assert!(run.said.contains("it was not replayed"), "{}", run.said);
}

#[test]
fn a_capture_without_packets_is_no_error_and_told() {
    let run = replay_bytes(&pcap::<&[u8]>(&[]), &["--loop", "3"]);
    assert_eq!((&run.report["packets"], &run.report["qps"]), (&json!(0), &json!([])));
    assert!(run.said.contains("in.pcap: holds no packets"), "{}", run.said);
}

#[test]
fn a_capture_without_mrc_is_no_error_and_told() {
    let mut arp = [0xFF; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let run = replay_bytes(&pcap(&[&arp[..], &[0; 5]]), &[]);
    assert_eq!((&run.report["packets"], &run.report["decoded"]), (&json!(2), &json!(0)));
    assert_eq!(run.report["drops"], json!({ "not_ip": 1, "truncated_ethernet": 1 }));
    assert!(run.said.contains("no QP was learned"), "{}", run.said);
}

#[test]
fn what_is_no_capture_of_ethernet_is_a_usage_error_that_says_so() {
    let scratch = Scratch::new();
    let frame = named("ack-ipv4-36");
    let cooked = PcapHeader { datalink: DataLink::LINUX_SLL, ..Default::default() };
    let both = [(DataLink::ETHERNET, 0), (DataLink::LINUX_SLL, 0)];
    let cases = [
        (scratch.path("missing.pcap"), "missing.pcap: can't be opened: no such file or directory"),
        (scratch.path(""), "is a directory"),
        (scratch.file("empty.pcap", b""), "empty.pcap: is empty (0 bytes)"),
        (scratch.file("words.pcap", b"hello, world, this is no capture"), "words.pcap: is not a capture"),
        (scratch.file("cooked.pcap", &pcap_with(cooked, &[(&[0; 60], 60)])), "Linux cooked SLL (link type 113)"),
        (
            scratch.file("mixed.pcapng", &pcapng(Endianness::Little, &both, &[(0, &frame), (1, &frame)])),
            "mixed.pcapng: holds Linux cooked SLL (link type 113) packets beside Ethernet",
        ),
        ("-".into(), "standard input: is no regular file, and replay reads it twice"),
        ("/dev/null".into(), "/dev/null: is no regular file"),
    ];
    for (path, message) in cases {
        mrcnic(&["replay"]).arg(path).assert().code(2).stdout(is_empty()).stderr(contains(message));
    }
}

#[test]
fn a_damaged_capture_is_a_failure_that_says_where() {
    let scratch = Scratch::new();
    let mut bytes = pcap(&[named("ack-ipv4-36")]);
    let at = bytes.len();
    bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    bytes.resize(at + 200, 0);
    let said = format!("bad.pcap: is damaged at byte {at}");
    mrcnic(&["replay"])
        .arg(scratch.file("bad.pcap", &bytes))
        .assert()
        .code(1)
        .stdout(is_empty())
        .stderr(contains(said));
}

#[test]
fn packets_that_net_pcap_does_not_hand_on_are_told() {
    let frame = named("write_only-ipv4-24");
    let interfaces = [(DataLink::ETHERNET, 0), (DataLink::ETHERNET, 2_000)];
    let bytes = pcapng(Endianness::Little, &interfaces, &[(0, &frame), (0, &frame), (1, &frame)]);
    let run = replay_bytes(&bytes, &[]);
    let handed_on = run.report["packets"].as_u64().unwrap();
    // libpcap reads one snaplen a file. Where a version of it reads more, there is nothing to tell.
    assert_eq!(run.said.contains(&format!("holds 3 packets, but net_pcap handed on {handed_on}")), handed_on != 3);
    assert_eq!(run.report["file"]["packets"], 3);
}

#[test]
fn frames_of_many_lengths_up_to_jumbo_are_delivered_whole() {
    use dataplane::wire::{Bth, Ext, Opcode, Reth, WriteHeaders};
    let lens = [0, 1, 63, 1024, 4096, 4300, 8192, 16_000];
    let frames: Vec<Vec<u8>> = (0_u32..)
        .zip(lens)
        .map(|(psn, len)| {
            // The last lies across the end of any region that is a power of two.
            let reth = Reth { va: u64::MAX - 7, rkey: 1, dmalen: len as u32 };
            let ext = Ext::Write(WriteHeaders { reth, ..WriteHeaders::default() });
            super::frame(super::A, super::B, &Bth::new(Opcode::WriteOnly, 9, psn), &ext, len, None)
        })
        .collect();
    let run = replay_bytes(&pcap(&frames), &[]);
    assert_eq!(run.numbers(&["delivered", "delivered_bytes"]), [8, lens.iter().sum::<usize>() as u64]);
    assert_eq!(run.report["drops"], json!({}));
}

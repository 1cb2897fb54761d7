//! `mrcnic decode`, by the binary.

use assert_cmd::Command;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::{DataLink, Endianness, TsResolution};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

fn vectors(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(file)
}

fn mrcnic() -> Command {
    Command::cargo_bin("mrcnic").unwrap()
}

fn golden() -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(vectors("frames.json")).unwrap()).unwrap()
}

fn frame_of(golden: &Value) -> Vec<u8> {
    let text = golden["frame"].as_str().unwrap();
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// The golden frame of this name.
fn named(name: &str) -> Vec<u8> {
    frame_of(golden().iter().find(|frame| frame["name"] == name).unwrap())
}

/// A file in a directory that lives as long as the value.
struct Scratch {
    dir: TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch { dir: TempDir::new().unwrap() }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn pcap_with(header: PcapHeader, frames: &[(&[u8], usize)]) -> Vec<u8> {
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (i, &(bytes, original)) in frames.iter().enumerate() {
        let time = Duration::new(1_700_000_000, i as u32 * 1_001);
        writer.write_packet(&PcapPacket::new(time, original as u32, bytes)).unwrap();
    }
    writer.into_writer()
}

fn pcap(frames: &[&[u8]]) -> Vec<u8> {
    let frames: Vec<_> = frames.iter().map(|&frame| (frame, frame.len())).collect();
    pcap_with(PcapHeader::default(), &frames)
}

/// Decodes a file's bytes to JSON.
fn decode(bytes: &[u8]) -> Vec<Value> {
    decode_with(bytes, &[])
}

fn decode_with(bytes: &[u8], args: &[&str]) -> Vec<Value> {
    let scratch = Scratch::new();
    let run = mrcnic().arg("decode").arg(scratch.file("a.pcap", bytes)).arg("--json").args(args).assert().success();
    lines(&run.get_output().stdout)
}

fn lines(stdout: &[u8]) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

fn assert_refused(packet: &Value, reason: &str) {
    assert_eq!(packet["ok"], false, "{packet}");
    let said = packet["reason"].as_str().unwrap();
    assert!(said.contains(reason), "{said:?} does not say {reason:?}");
}

/// The golden fields of a frame that `decode` prints under the same names.
fn assert_decodes_to(packet: &Value, golden: &Value) {
    let name = &golden["name"];
    for (field, value) in golden.as_object().unwrap() {
        if !["frame", "payload", "name"].contains(&field.as_str()) {
            assert_eq!(&packet[field], value, "{name}: {field}");
        }
    }
    assert_eq!(packet["payload_len"], golden["payload"].as_str().unwrap().len() / 2, "{name}");
    assert_eq!(packet["ok"], true, "{name}");
    assert_eq!(packet["icrc_ok"], true, "{name}");
}

#[test]
fn every_golden_frame_decodes_to_its_fields() {
    let run = mrcnic().arg("decode").arg(vectors("frames.pcap")).arg("--json").assert().success().stderr(is_empty());
    let packets = lines(&run.get_output().stdout);
    assert_eq!(packets.len(), 72);
    for (i, (packet, golden)) in packets.iter().zip(&golden()).enumerate() {
        assert_eq!(packet["index"], i);
        assert_decodes_to(packet, golden);
    }
}

#[test]
fn the_text_form_has_a_line_for_each_packet_with_what_matters_in_it() {
    let run = mrcnic().arg("decode").arg(vectors("frames.pcap")).assert().success().stderr(is_empty());
    let text = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 72);
    for (line, golden) in text.lines().zip(golden()) {
        let (bth, op) = (&golden["bth"], golden["op"].as_str().unwrap());
        let addresses = format!("{} > {}", golden["src"].as_str().unwrap(), golden["dst"].as_str().unwrap());
        let ev = format!("ev 0x{:08x}", golden["ev"].as_u64().unwrap());
        for part in [&addresses, op, &ev, &format!("qp {}", bth["dqp"]), &format!("psn {}", bth["psn"]), "icrc ok"] {
            assert!(line.contains(part), "{line} lacks {part}");
        }
    }
}

#[test]
fn standard_input_is_read_where_the_file_is_a_dash() {
    let bytes = std::fs::read(vectors("frames.pcap")).unwrap();
    let run = mrcnic().args(["decode", "-", "--json"]).write_stdin(bytes).assert().success();
    assert_eq!(lines(&run.get_output().stdout).len(), 72);
}

#[test]
fn byte_order_and_time_resolution_make_no_difference_to_packets() {
    let frame = named("sack-ipv6-57");
    for endianness in [Endianness::Little, Endianness::Big] {
        for (ts_resolution, ns) in [(TsResolution::MicroSecond, 1_000), (TsResolution::NanoSecond, 1_001)] {
            let header = PcapHeader { endianness, ts_resolution, ..Default::default() };
            let packets = decode(&pcap_with(header, &[(&frame, frame.len()), (&frame, frame.len())]));
            assert_eq!(packets[1]["op"], "SACK");
            assert_eq!(packets[1]["time_ns"], 1_700_000_000_000_000_000_u64 + ns);
        }
    }
}

#[test]
fn pcapng_in_either_byte_order_decodes_like_pcap() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        for linktype in [DataLink::LINUX_SLL, DataLink::ETHERNET] {
            writer.write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen: 0, options: vec![] }).unwrap();
        }
        for golden in golden() {
            let data = frame_of(&golden);
            let original_len = data.len() as u32;
            let (timestamp, data) = (Duration::from_nanos(1), Cow::Owned(data));
            let block = EnhancedPacketBlock { interface_id: 1, timestamp, original_len, data, options: vec![] };
            writer.write_pcapng_block(block.clone()).unwrap();
            if golden["name"] == "probe-ipv6-71" {
                writer.write_pcapng_block(EnhancedPacketBlock { interface_id: 0, ..block }).unwrap();
            }
        }
        let packets = decode(&writer.into_inner());
        for (packet, golden) in packets.iter().zip(&golden()) {
            assert_decodes_to(packet, golden);
        }
        assert_refused(&packets[72], "not MRC: Linux cooked SLL (link type 113) instead of Ethernet");
    }
}

#[test]
fn vlan_tags_are_skipped_and_told() {
    let plain = named("write_only-ipv4-24");
    let mut one = plain.clone();
    one.splice(12..12, [0x81, 0x00, 0x60, 0x2A]);
    let mut two = one.clone();
    two.splice(12..12, [0x88, 0xA8, 0x00, 0x07]);
    let packets = decode(&pcap(&[&plain, &one, &two]));
    assert_eq!(packets[0].get("vlan"), None);
    assert_eq!(packets[1]["vlan"], 42);
    assert_eq!(packets[2]["vlan"], 7);
    for packet in &packets {
        assert_eq!((&packet["icrc_ok"], &packet["bth"]), (&Value::Bool(true), &packets[0]["bth"]));
    }
}

/// The golden frame, which is IPv6, in an outer header with these addresses' last bytes, and an SRH where wanted.
fn encapsulated(name: &str, srh: bool) -> Vec<u8> {
    let mut frame = named(name);
    let inner = (frame.len() - 14) as u16;
    let (next, added) = if srh { (43, 24) } else { (41, 0) };
    let mut outer = vec![0x61, 0x23, 0x45, 0x67];
    outer.extend((inner + added).to_be_bytes());
    outer.extend([next, 63]);
    outer.extend("fcbb::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
    outer.extend("fcbb:bb00:2:3::".parse::<std::net::Ipv6Addr>().unwrap().octets());
    if srh {
        outer.extend([41, 2, 4, 0, 0, 0, 0, 0]);
        outer.extend("fcbb:bb00:1:2:3::".parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    frame.splice(14..14, outer);
    frame
}

#[test]
fn srv6_encapsulation_is_told_and_the_inner_packet_decoded() {
    let name = "sack-ipv6-57";
    let golden = golden().into_iter().find(|frame| frame["name"] == name).unwrap();
    let bytes = pcap(&[&named(name), &encapsulated(name, false), &encapsulated(name, true)]);
    let packets = decode(&bytes);
    assert_eq!(packets[0].get("srv6"), None);
    for (packet, srh) in packets[1..].iter().zip([0, 1]) {
        assert_decodes_to(packet, &golden);
        let expected = serde_json::json!({
            "outer_src": "fcbb::9", "outer_dst": "fcbb:bb00:2:3::", "dscp": 4, "ecn": 2, "ttl": 63,
            "flow_label": 0x3_4567, "srh": srh,
        });
        assert_eq!(packet["srv6"], expected);
    }
    let scratch = Scratch::new();
    let run = mrcnic().arg("decode").arg(scratch.file("srv6.pcap", &bytes)).assert().success();
    let text = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(!lines[0].contains("srv6"));
    assert!(lines[1].contains(", srv6 fcbb::9 > fcbb:bb00:2:3::, dscp "));
    assert!(lines[2].contains(", srv6 fcbb::9 > fcbb:bb00:2:3:: srh, dscp "));
}

#[test]
fn a_wrong_icrc_is_told_and_the_packet_decoded() {
    let mut frame = named("write_only-ipv4-24");
    let last = frame.len() - 1;
    frame[last] ^= 1;
    let bytes = pcap(&[&frame]);
    let packets = decode(&bytes);
    assert_eq!((&packets[0]["ok"], &packets[0]["icrc_ok"]), (&Value::Bool(true), &Value::Bool(false)));
    let scratch = Scratch::new();
    mrcnic()
        .arg("decode")
        .arg(scratch.file("a.pcap", &bytes))
        .assert()
        .success()
        .stdout(contains("icrc WRONG"))
        .stderr(contains("1 packet: 1 decoded, 0 refused, 1 with a wrong iCRC"));
}

#[test]
fn a_trimmed_packet_has_no_icrc_to_be_right_or_wrong() {
    let mut frame = named("write_only-ipv4-24");
    for (dscp, trim) in [(12, "trimmed"), (16, "trimmed_last_hop")] {
        frame[15] = dscp << 2;
        let packets = decode(&pcap(&[&frame[..74], &frame[..54], &frame[..53]]));
        assert_eq!((&packets[0]["ok"], &packets[0]["icrc_ok"]), (&Value::Bool(true), &Value::Null));
        assert_eq!((&packets[0]["trim"], &packets[0]["payload_len"]), (&Value::from(trim), &Value::from(0)));
        assert!(packets[0]["ext"]["va"].is_u64());
        assert_eq!(packets[1]["ext"], serde_json::json!({}), "cut right after the BTH");
        assert_refused(&packets[2], "inside the BTH");
    }
}

#[test]
fn a_packet_cut_by_the_snaplen_is_refused_with_the_headers_that_are_there() {
    let frame = named("write_only-ipv4-24");
    let whole = frame.len();
    let packets = decode(&pcap_with(
        PcapHeader::default(),
        &[
            (&frame[..80], whole),
            (&frame[..60], whole),
            (&frame[..whole - 1], whole),
            (&frame[..20], whole),
            (&frame, whole + 4),
        ],
    ));
    assert_refused(&packets[0], &format!("cut by the capture's snaplen: 80 of {whole} bytes captured"));
    assert_eq!(packets[0]["bth"]["psn"], 14_337_284);
    assert_refused(&packets[1], "cut by the capture's snaplen: 60 of");
    assert_refused(&packets[1], "ends inside the RETH");
    assert_eq!(packets[1].get("bth"), None);
    assert_refused(&packets[2], "cut by the capture's snaplen");
    assert_refused(&packets[3], "cut by the capture's snaplen");
    assert_eq!(packets[4]["icrc_ok"], true, "only bytes after the iCRC are missing");
}

#[test]
fn what_is_not_mrc_is_refused_as_such() {
    let mut arp = vec![0xFF; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let mut tcp = named("ack-ipv4-36");
    tcp[23] = 6;
    let mut port = named("ack-ipv4-36");
    port[36..38].copy_from_slice(&53_u16.to_be_bytes());
    let mut fragment = named("ack-ipv4-36");
    fragment[20..22].copy_from_slice(&[0x20, 0x00]);
    let bytes = pcap(&[&arp, &tcp, &port, &fragment]);
    for packet in decode(&bytes) {
        assert_refused(&packet, "not MRC: ");
        assert!(packet["reason"].as_str().unwrap().starts_with("not MRC: "));
    }
    assert_refused(&decode(&bytes)[2], "MRC is expected at 4791, 4971; see --port");
    let scratch = Scratch::new();
    mrcnic()
        .arg("decode")
        .arg(scratch.file("a.pcap", &bytes))
        .assert()
        .success()
        .stderr(contains("4 packets: 0 decoded, 4 refused").and(contains("1  not MRC: neither IPv4 nor IPv6")));
}

#[test]
fn broken_packets_are_refused_with_what_is_broken() {
    let change = |at: usize, value: u8| {
        let mut frame = named("ack-ipv4-36");
        frame[at] = value;
        frame
    };
    let frames = [change(42, 0x00), change(43, 0x01), change(17, 0xFF), change(39, 0x01), change(14, 0x65)];
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let packets = decode(&pcap(&frames));
    let reasons = ["opcode", "transport version", "IP length", "UDP length", "IP version"];
    for (packet, reason) in packets.iter().zip(reasons) {
        assert_refused(packet, reason);
    }
}

#[test]
fn the_port_of_either_printing_is_taken_and_others_on_request() {
    let at_port = |port: u16| {
        let mut frame = named("ack-ipv4-36");
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    };
    let frames = [at_port(4791), at_port(4971), at_port(5000)];
    let bytes = pcap(&[&frames[0], &frames[1], &frames[2]]);
    let taken = |args: &[&str]| -> Vec<bool> {
        decode_with(&bytes, args).iter().map(|packet| packet["ok"].as_bool().unwrap()).collect()
    };
    assert_eq!(taken(&[]), [true, true, false]);
    assert_eq!(taken(&["--port", "5000"]), [false, false, true]);
    assert_eq!(taken(&["--port", "4791", "--port", "5000"]), [true, false, true]);
    assert_eq!(taken(&["--port", "4971,5000"]), [false, true, true]);
}

#[test]
fn a_cut_last_record_is_an_error_after_what_is_whole() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(vectors("frames.pcap")).unwrap();
    let path = scratch.file("cut.pcap", &bytes[..bytes.len() - 9]);
    for form in [&[][..], &["--json"]] {
        let run = mrcnic()
            .arg("decode")
            .arg(&path)
            .args(form)
            .assert()
            .code(1)
            .stderr(contains("cut.pcap: the last record is cut off: 9 bytes missing"));
        assert_eq!(run.get_output().stdout.lines().count(), 71);
    }
}

#[test]
fn the_wrong_file_is_a_usage_error_that_says_what_is_wrong() {
    let scratch = Scratch::new();
    let sll = pcap_with(PcapHeader { datalink: DataLink::LINUX_SLL, ..Default::default() }, &[(&[0; 60], 60)]);
    let raw = pcap_with(PcapHeader { datalink: DataLink::RAW, ..Default::default() }, &[(&[0; 60], 60)]);
    let cases = [
        (scratch.dir.path().join("missing.pcap"), "missing.pcap: can't be opened: no such file or directory"),
        (scratch.dir.path().to_owned(), "is a directory"),
        (scratch.file("empty.pcap", b""), "empty.pcap: is empty (0 bytes)"),
        (scratch.file("words.pcap", b"hello, world, this is no capture"), "words.pcap: is not a capture"),
        (scratch.file("sll.pcap", &sll), "Linux cooked SLL (link type 113)"),
        (scratch.file("raw.pcap", &raw), "raw IP (link type 101)"),
    ];
    for (path, message) in cases {
        mrcnic().arg("decode").arg(path).assert().code(2).stdout(is_empty()).stderr(contains(message));
    }
}

#[test]
fn a_capture_without_packets_is_no_error() {
    let scratch = Scratch::new();
    mrcnic().arg("decode").arg(scratch.file("a.pcap", &pcap(&[]))).assert().success().stdout(is_empty());
}

#[test]
fn wrong_arguments_are_a_usage_error() {
    let wrong: [&[&str]; 6] = [
        &[],
        &["decode"],
        &["decode", "f", "--port", "0"],
        &["decode", "f", "--port", "65536"],
        &["decode", "f", "--port", "1,2,3,4,5"],
        &["decode", "f", "--log", "loud"],
    ];
    for args in wrong {
        mrcnic().args(args).assert().code(2).stdout(is_empty()).stderr(contains("\n"));
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let scratch = Scratch::new();
    let frame = named("write_only-ipv4-24");
    // More than a pipe holds, so that a write is sure to fail.
    let path = scratch.file("long.pcap", &pcap(&vec![frame.as_slice(); 20_000]));
    for form in [&[][..], &["--json"]] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_mrcnic"))
            .arg("decode")
            .arg(&path)
            .args(form)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("WRITE_ONLY"));
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        assert_eq!(complaint, "");
        assert!(child.wait().unwrap().success());
    }
}

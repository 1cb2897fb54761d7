//! The Wireshark dissector, run by tshark over the golden frames and over what can happen to them.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const DSCP_TRIMMED: u8 = 12;
const DSCP_TRIMMED_LAST_HOP: u8 = 16;
const PSNS: i128 = 1 << 24;

/// A frame as captured, and its length on the wire.
type Captured = (Vec<u8>, usize);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn golden() -> Vec<Value> {
    let text = fs::read_to_string(repository().join("tests/vectors/frames.json")).unwrap();
    let frames: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(frames.len(), 72);
    frames
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn golden_bytes() -> Vec<Vec<u8>> {
    golden().iter().map(|frame| unhex(frame["frame"].as_str().unwrap())).collect()
}

fn is_ipv6(frame: &[u8]) -> bool {
    frame[12..14] == [0x86, 0xDD]
}

fn udp_at(frame: &[u8]) -> usize {
    if is_ipv6(frame) { 54 } else { 34 }
}

fn bth_at(frame: &[u8]) -> usize {
    udp_at(frame) + 8
}

fn whole(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Captured> {
    frames.into_iter().map(|bytes| (bytes.clone(), bytes.len())).collect()
}

/// A pcap file of Ethernet frames.
fn pcap(frames: &[Captured]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 65_535, 1] {
        out.extend_from_slice(&u32::to_le_bytes(word));
    }
    for (number, (bytes, wire)) in frames.iter().enumerate() {
        for word in [number, 0, bytes.len(), *wire] {
            out.extend_from_slice(&(word as u32).to_le_bytes());
        }
        out.extend_from_slice(bytes);
    }
    out
}

/// What tshark prints for a file, with the dissector or without.
fn tshark(file: &Path, with_dissector: bool, arguments: &[&str]) -> String {
    // Neither the user's preferences nor a copy of the dissector among the user's plugins may take part.
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("tshark");
    command.env("HOME", home.path()).env("WIRESHARK_CONFIG_DIR", home.path());
    if with_dissector {
        let script = repository().join("scripts/wireshark/mrc.lua");
        command.arg("-X").arg(format!("lua_script:{}", script.display()));
    }
    let output = match command.arg("-r").arg(file).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("tshark is not installed, and the dissector can't be tested without: scripts/setup --test")
        }
        Err(error) => panic!("tshark: {error}"),
    };
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    for text in [&*out, &*err] {
        let error = text.lines().find(|line| line.to_lowercase().contains("lua:") || line.contains("Lua Error"));
        assert_eq!(error, None, "the dissector failed");
    }
    out
}

/// One map a frame, of the fields that are present in it.
fn fields_of_file(file: &Path, with_dissector: bool, names: &[&str]) -> Vec<BTreeMap<String, String>> {
    // Errors of the script stand in the tree.
    let mut arguments = vec!["-T", "fields", "-E", "separator=/t", "-E", "occurrence=l", "-e", "_ws.lua.error"];
    for name in names {
        arguments.extend(["-e", name]);
    }
    let out = tshark(file, with_dissector, &arguments);
    out.lines()
        .map(|line| {
            let mut values = line.split('\t');
            assert_eq!(values.next(), Some(""), "the dissector failed: {line}");
            let named = names.iter().map(ToString::to_string).zip(values.map(str::to_owned));
            named.filter(|(_, value)| !value.is_empty()).collect()
        })
        .collect()
}

fn fields(frames: &[Captured], names: &[&str]) -> Vec<BTreeMap<String, String>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), pcap(frames)).unwrap();
    let shown = fields_of_file(file.path(), true, names);
    assert_eq!(shown.len(), frames.len());
    shown
}

/// Decimal, hexadecimal, or a flag, which versions of tshark write as a number or as a word.
fn number(text: &str) -> i128 {
    match text {
        "True" => 1,
        "False" => 0,
        _ => match text.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).unwrap(),
            None => text.parse().unwrap_or_else(|_| panic!("{text} is a number")),
        },
    }
}

fn json_number(value: &Value) -> i128 {
    value.as_u64().map(i128::from).or(value.as_i64().map(i128::from)).unwrap_or_else(|| panic!("{value} is a number"))
}

/// The header that holds a field of `ext`.
fn header_of(op: &str, name: &str) -> &'static str {
    match (op, name) {
        ("ACK", _) => "aeth",
        ("NACK", _) => "neth",
        ("PROBE", _) => "peth",
        ("ENDPOINT_REQUEST", _) => "erth",
        ("ENDPOINT_RESPONSE", _) => "eeth",
        ("SACK", "cc_tx_timestamp" | "ooo_count" | "restore_cwnd" | "rcv_cwnd_pen" | "rcvd_bytes") => "cc",
        ("SACK", _) => "seth",
        (_, "rqmsn" | "msn") => "meth",
        (_, "tx_timestamp" | "tsr" | "ftype") => "tseth",
        (_, "imm") => "immdt",
        _ => "reth",
    }
}

/// The PSNs that a bitmap names, written as ranges.
fn ranges(ext: &Value) -> String {
    let (first, bitmap) =
        (json_number(&ext["cack_psn"]) + json_number(&ext["sack_offset"]), ext["sack_bitmap"].as_u64().unwrap());
    let set: Vec<i128> = (0..64).filter(|i| bitmap >> i & 1 == 1).collect();
    let psn = |i: i128| (first + i).rem_euclid(PSNS);
    let runs = set.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => psn(*one).to_string(),
        _ => format!("{}-{}", psn(run[0]), psn(run[run.len() - 1])),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Every field that the dissector should show of a golden frame, numbers and texts apart.
fn expected(frame: &Value) -> (BTreeMap<String, i128>, BTreeMap<String, String>) {
    let (op, ext) = (frame["op"].as_str().unwrap(), frame["ext"].as_object().unwrap());
    let mut numbers = BTreeMap::new();
    for name in ["ev", "dscp", "ecn"] {
        numbers.insert(format!("mrc.{name}"), json_number(&frame[name]));
    }
    for (name, value) in frame["bth"].as_object().unwrap() {
        numbers.insert(format!("mrc.bth.{name}"), json_number(value));
    }
    for (name, value) in ext {
        numbers.insert(format!("mrc.{}.{name}", header_of(op, name)), json_number(value));
    }
    let payload = frame["payload"].as_str().unwrap();
    let payload_len = payload.len() as i128 / 2;
    numbers.insert("mrc.payload_len".into(), payload_len);
    numbers.insert("mrc.trimmed".into(), 0);
    numbers.insert("mrc.icrc.ok".into(), 1);
    if op.starts_with("WRITE") {
        let tsh = json_number(&frame["bth"]["tsh"]);
        numbers.insert("mrc.nominal_size".into(), payload_len + 60 + 4 * tsh);
    }
    let mut texts = BTreeMap::from([("mrc.op".to_owned(), op.to_owned()), ("_ws.col.Protocol".into(), "MRC".into())]);
    if !payload.is_empty() {
        texts.insert("mrc.payload".into(), payload.to_owned());
    }
    if op == "SACK" {
        texts.insert("mrc.seth.sacked".into(), ranges(&frame["ext"]));
        numbers.insert("mrc.cc.rcvd_total".into(), 256 * json_number(&ext["rcvd_bytes"]));
        if let Some(offset) = ext.get("ack_psn_offset") {
            let drew = (json_number(&ext["cack_psn"]) + json_number(offset)).rem_euclid(PSNS);
            numbers.insert("mrc.seth.ack_psn".into(), drew);
        }
    }
    (numbers, texts)
}

#[test]
fn every_golden_frame_shows_the_fields_that_it_contains_and_no_others() {
    let expected: Vec<_> = golden().iter().map(expected).collect();
    let mut names = BTreeSet::new();
    for (numbers, texts) in &expected {
        names.extend(numbers.keys().chain(texts.keys()).map(String::as_str));
    }
    let names: Vec<&str> = names.into_iter().collect();
    let shown = fields_of_file(&repository().join("tests/vectors/frames.pcap"), true, &names);
    assert_eq!(shown.len(), expected.len());
    for ((mut shown, (numbers, texts)), frame) in shown.into_iter().zip(expected).zip(golden()) {
        let name = &frame["name"];
        for (field, value) in numbers {
            let text = shown.remove(&field).unwrap_or_else(|| panic!("{name} has no {field}"));
            assert_eq!(number(&text), value, "{name}: {field} is {text}");
        }
        for (field, value) in texts {
            // Bytes have colons between them in some versions.
            let text = shown.remove(&field).map(|text| text.replace(':', ""));
            assert_eq!(text, Some(value), "{name}: {field}");
        }
        assert!(shown.is_empty(), "{name}: {shown:?}");
    }
}

#[test]
fn the_psns_of_a_bitmap_wrap_and_reach_its_last_bit() {
    let sack = golden_bytes().into_iter().nth(55).unwrap();
    let with = |cack: u32, drew: i16, offset: i16, bitmap: u64| {
        let mut frame = sack.clone();
        let seth = bth_at(&frame) + 12;
        frame[seth + 2..seth + 4].copy_from_slice(&drew.to_be_bytes());
        frame[seth + 12..seth + 16].copy_from_slice(&cack.to_be_bytes());
        frame[seth + 18..seth + 20].copy_from_slice(&offset.to_be_bytes());
        frame[seth + 20..seth + 28].copy_from_slice(&bitmap.to_be_bytes());
        frame
    };
    let cases = [
        (with(5, -3, -3, u64::MAX), "2-65", "64", "2"),
        (with(0x00FF_FFFE, 2, 1, 1 << 63 | 3), "16777215-0,62", "3", "0"),
        (with(1, -2, -4, 0b1101), "16777213,16777215-0", "3", "16777215"),
        (with(9, 0, 0, 0), "none", "0", "9"),
    ];
    let names = ["mrc.seth.sacked", "mrc.seth.sacked_count", "mrc.seth.ack_psn"];
    let frames = cases.iter().map(|(frame, ..)| frame.clone());
    for (shown, (_, ranges, count, drew)) in fields(&whole(frames), &names).iter().zip(&cases) {
        assert_eq!(names.map(|name| shown[name].as_str()), [*ranges, *count, *drew]);
    }
}

#[test]
fn the_info_column_reads_as_a_line_of_decode() {
    let file = repository().join("tests/vectors/frames.pcap");
    let shown = fields_of_file(&file, true, &["_ws.col.Info"]);
    assert_eq!(
        shown[37]["_ws.col.Info"],
        "ACK ev 0x00006f42 qp 6265915 psn 16399264 NAK remote access error msn 9139433, dscp 46 CE, len 0, icrc ok"
    );
    assert_eq!(
        shown[6]["_ws.col.Info"],
        "WRITE_MIDDLE ev 0x00008d8e qp 1080690 psn 7494298 a rtx se msn 36726 va 0xe82d2fef9c7d498a rkey 0xba6cac4a of \
         1970759885, dscp 8 CE, len 255, icrc ok"
    );
}

#[test]
fn a_flipped_bit_makes_the_icrc_wrong_unless_the_network_may_flip_it() {
    let mut frames = Vec::new();
    let mut ok = Vec::new();
    for frame in golden_bytes() {
        let (ip, udp, bth) = (14, udp_at(&frame), bth_at(&frame));
        let hops = if is_ipv6(&frame) { ip + 7 } else { ip + 8 };
        let protected = [udp, bth + 5, bth + 9, bth + 12, frame.len() - 5, frame.len() - 1];
        let mutable = [hops, udp + 6, bth + 4];
        for (at, right) in protected.map(|at| (at, 0)).into_iter().chain(mutable.map(|at| (at, 1))) {
            let mut bad = frame.clone();
            bad[at] ^= 1;
            frames.push(bad);
            ok.push(right);
        }
    }
    let shown = fields(&whole(frames), &["mrc.icrc.ok", "mrc.note.icrc"]);
    for (i, (shown, right)) in shown.iter().zip(ok).enumerate() {
        assert_eq!(number(&shown["mrc.icrc.ok"]), right, "frame {} case {}", i / 9, i % 9);
        assert_eq!(shown.contains_key("mrc.note.icrc"), right == 0);
    }
}

/// UDP over IPv4 with these ports and bytes.
fn udp(destination: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = golden_bytes()[0][..34].to_vec();
    let len = 8 + body.len() as u16;
    frame[16..18].copy_from_slice(&(20 + len).to_be_bytes());
    for word in [50_000, destination, len, 0] {
        frame.extend_from_slice(&u16::to_be_bytes(word));
    }
    frame.extend_from_slice(body);
    frame
}

#[test]
fn frames_that_are_not_mrc_look_as_they_do_without_the_dissector() {
    let roce = |opcode: u8, flags: u8, more: usize| {
        let mut body = vec![opcode, flags, 0xFF, 0xFF, 0, 0, 0, 17, 0x80, 0, 0, 5];
        body.extend(std::iter::repeat_n(0xAB, more + 4));
        udp(4791, &body)
    };
    // RC Send Only, RC Acknowledge, RC Write Only, a manufacturer's opcode that is not MRC's, another transport version.
    let mut frames = vec![roce(0x04, 0, 32), roce(0x11, 0, 4), roce(0x0A, 0, 48), roce(0xC5, 0, 16), roce(0xCA, 1, 32)];
    let rc = frames.len();
    frames.extend([udp(53, &[0; 12]), udp(4971, &[0; 40]), udp(9, b"discard"), udp(4791, &[]), udp(4791, &[0xC6])]);
    // A RoCE frame that ends in its header: the other dissector's error is not ours.
    frames.push(udp(4791, &[0x04, 0, 0xFF]));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), pcap(&whole(frames))).unwrap();

    let columns = ["_ws.col.Protocol", "_ws.col.Info", "infiniband.bth.opcode", "_ws.malformed", "data.len"];
    let with = fields_of_file(file.path(), true, &columns);
    assert_eq!(with, fields_of_file(file.path(), false, &columns));
    assert!(with[..rc].iter().all(|frame| frame.contains_key("infiniband.bth.opcode")));

    let layers = fields_of_file(file.path(), true, &["frame.protocols", "mrc.op", "mrc.ev"]);
    for layers in layers {
        assert!(!layers["frame.protocols"].split(':').any(|layer| layer == "mrc"), "{layers:?}");
        assert_eq!(layers.len(), 1, "{layers:?}");
    }
}

#[test]
fn the_ports_are_a_preference() {
    let mut frame = golden_bytes()[0].clone();
    frame[36..38].copy_from_slice(&5_000_u16.to_be_bytes());
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), pcap(&whole([frame, golden_bytes()[0].clone()]))).unwrap();
    let operations = ["-T", "fields", "-e", "mrc.op"];
    assert_eq!(tshark(file.path(), true, &operations), "\nWRITE_FIRST\n");
    let elsewhere = [&["-o", "mrc.udp_ports:5000-5001"][..], &operations].concat();
    assert_eq!(tshark(file.path(), true, &elsewhere), "WRITE_FIRST\n\n");
}

fn set_dscp(frame: &mut [u8], dscp: u8) {
    if is_ipv6(frame) {
        frame[14] = 0x60 | dscp >> 2;
        frame[15] = frame[15] & 0x3F | dscp << 6;
    } else {
        frame[15] = dscp << 2 | frame[15] & 3;
    }
}

#[test]
fn a_frame_that_is_cut_anywhere_says_so_and_shows_what_is_left() {
    // One frame of each opcode and IP version, without the longest ones.
    let frames: Vec<Vec<u8>> = golden_bytes().into_iter().step_by(3).collect();
    let mut captured = Vec::new();
    let mut cuts = Vec::new();
    for frame in &frames {
        for len in 14..frame.len().min(130) {
            for by_snaplen in [true, false] {
                captured.push((frame[..len].to_vec(), if by_snaplen { frame.len() } else { len }));
                cuts.push((len, bth_at(frame), by_snaplen));
            }
        }
    }
    let names = ["mrc.op", "mrc.bth.psn", "mrc.note.snaplen", "mrc.note.short", "mrc.note.lengths", "mrc.icrc.ok"];
    for (shown, (len, bth, by_snaplen)) in fields(&captured, &names).iter().zip(cuts) {
        let case = format!("{len} bytes, snaplen {by_snaplen}: {shown:?}");
        let has = |name| shown.contains_key(name);
        assert_eq!(has("mrc.op"), len >= bth + 2, "{case}");
        assert_eq!(has("mrc.bth.psn"), len >= bth + 12, "{case}");
        if has("mrc.op") && by_snaplen {
            assert!(has("mrc.note.snaplen") && !has("mrc.note.short") && !has("mrc.icrc.ok"), "{case}");
        } else if has("mrc.op") {
            assert!(has("mrc.note.lengths") && !has("mrc.note.snaplen") && !has("mrc.icrc.ok"), "{case}");
        }
    }
}

#[test]
fn a_trimmed_packet_is_known_by_its_dscp_and_keeps_what_the_switch_left() {
    let mut captured = Vec::new();
    let mut cases = Vec::new();
    for frame in golden_bytes().into_iter().take(36).step_by(3) {
        for (dscp, trim) in [(DSCP_TRIMMED, "trimmed"), (DSCP_TRIMMED_LAST_HOP, "trimmed_last_hop")] {
            for len in bth_at(&frame) + 12..frame.len().min(bth_at(&frame) + 60) {
                for rewritten in [false, true] {
                    let mut cut = frame[..len].to_vec();
                    set_dscp(&mut cut, dscp);
                    if rewritten {
                        let (at, from) = if is_ipv6(&cut) { (18, 54) } else { (16, 14) };
                        cut[at..at + 2].copy_from_slice(&((len - from) as u16).to_be_bytes());
                        let udp = udp_at(&cut);
                        cut[udp + 4..udp + 6].copy_from_slice(&((len - udp) as u16).to_be_bytes());
                    }
                    captured.push((cut, len));
                    cases.push(trim);
                }
            }
        }
    }
    let names = ["mrc.trimmed", "mrc.trim", "mrc.bth.psn", "mrc.icrc.ok", "mrc.note.trimmed", "mrc.note.short"];
    for (shown, trim) in fields(&captured, &names).iter().zip(cases) {
        assert_eq!(number(&shown["mrc.trimmed"]), 1);
        assert_eq!(shown["mrc.trim"], trim);
        assert!(shown.contains_key("mrc.bth.psn") && shown.contains_key("mrc.note.trimmed"), "{shown:?}");
        assert!(!shown.contains_key("mrc.icrc.ok") && !shown.contains_key("mrc.note.short"), "{shown:?}");
    }
}

/// The frame in an outer IPv6 header, with or without an SRH.
fn encapsulated(frame: &[u8], with_srh: bool, dscp: u8, ecn: u8) -> Vec<u8> {
    let path = [0xFC, 0xBB, 0xBB, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    let source = [0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xAB];
    let mut srh = Vec::new();
    if with_srh {
        srh.extend_from_slice(&[41, 2, 4, 0, 0, 0, 0, 0]);
        srh.extend_from_slice(&path);
    }
    let mut out = frame[..14].to_vec();
    out.extend_from_slice(&(6 << 28 | u32::from(dscp << 2 | ecn) << 20 | 0x54321).to_be_bytes());
    out.extend_from_slice(&((srh.len() + frame.len() - 14) as u16).to_be_bytes());
    out.extend_from_slice(&[if with_srh { 43 } else { 41 }, 61]);
    out.extend_from_slice(&source);
    out.extend_from_slice(&path);
    out.extend_from_slice(&srh);
    out.extend_from_slice(&frame[14..]);
    out
}

fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    [&frame[..12], tags, &frame[12..]].concat()
}

#[test]
fn packets_under_vlan_tags_and_srv6_show_what_the_receiver_makes_of_them() {
    let (mut frames, mut bare) = (Vec::new(), Vec::new());
    for (frame, json) in golden_bytes().iter().zip(golden()) {
        for tags in [&[0x81, 0, 0, 5][..], &[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6]] {
            frames.push(tagged(frame, tags));
            bare.push((json.clone(), None));
        }
        for srh in [false, true].into_iter().filter(|_| is_ipv6(frame)) {
            // Marked on the way, which is an error where the packet is not ECN-capable.
            frames.push(encapsulated(frame, srh, 4, 3));
            bare.push((json.clone(), Some((srh, 4))));
            frames.push(tagged(&encapsulated(frame, srh, DSCP_TRIMMED, 0), &[0x81, 0, 0, 5]));
            bare.push((json.clone(), Some((srh, DSCP_TRIMMED))));
        }
    }
    let names = [
        "mrc.op",
        "mrc.ev",
        "mrc.bth.psn",
        "mrc.dscp",
        "mrc.ecn",
        "mrc.trimmed",
        "mrc.icrc.ok",
        "mrc.note.marked_not_ect",
        "mrc.srv6.outer_src",
        "mrc.srv6.outer_dst",
        "mrc.srv6.dscp",
        "mrc.srv6.ecn",
        "mrc.srv6.ttl",
        "mrc.srv6.flow_label",
        "mrc.srv6.srh",
    ];
    for (shown, (json, outer)) in fields(&whole(frames), &names).iter().zip(bare) {
        let case = format!("{} {outer:?}: {shown:?}", json["name"]);
        let is = |field: &str, value: i128| {
            assert_eq!(shown.get(field).map(|text| number(text)), Some(value), "{field} {case}")
        };
        assert_eq!(shown["mrc.op"], json["op"].as_str().unwrap(), "{case}");
        is("mrc.ev", json_number(&json["ev"]));
        is("mrc.bth.psn", json_number(&json["bth"]["psn"]));
        let (dscp, ecn) = (json_number(&json["dscp"]), json_number(&json["ecn"]));
        let Some((srh, outer_dscp)) = outer else {
            is("mrc.dscp", dscp);
            is("mrc.ecn", ecn);
            is("mrc.icrc.ok", 1);
            assert!(!shown.contains_key("mrc.srv6.outer_src"), "{case}");
            continue;
        };
        assert_eq!(shown["mrc.srv6.outer_src"], "fd00::ab", "{case}");
        assert_eq!(shown["mrc.srv6.outer_dst"], "fcbb:bb00:1:2::", "{case}");
        is("mrc.srv6.dscp", i128::from(outer_dscp));
        is("mrc.srv6.ttl", 61);
        is("mrc.srv6.flow_label", 0x54321);
        is("mrc.srv6.srh", srh.into());
        let trimmed = outer_dscp == DSCP_TRIMMED;
        is("mrc.trimmed", trimmed.into());
        assert_eq!(shown.contains_key("mrc.icrc.ok"), !trimmed, "{case}");
        assert_eq!(shown.contains_key("mrc.note.marked_not_ect"), !trimmed && ecn == 0, "{case}");
        if trimmed {
            is("mrc.dscp", i128::from(DSCP_TRIMMED));
            is("mrc.ecn", ecn);
        } else {
            is("mrc.icrc.ok", 1);
            is("mrc.dscp", dscp);
            is("mrc.ecn", if ecn == 0 { 0 } else { 3 });
        }
    }
}

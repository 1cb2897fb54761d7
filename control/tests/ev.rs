//! `mrcnic ev`, by the binary.

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// `mrcnic ev expand` with arguments that are separated by blanks.
fn expand(args: &str) -> Command {
    let mut command = Command::cargo_bin("mrcnic").unwrap();
    command.args(["ev", "expand"]).args(args.split_whitespace());
    command
}

fn json_of(args: &str) -> Value {
    let run = expand(args).arg("--json").assert().success();
    serde_json::from_slice(&run.get_output().stdout).unwrap()
}

fn text_of(args: &str) -> String {
    let run = expand(args).assert().success();
    String::from_utf8(run.get_output().stdout.clone()).unwrap()
}

fn evs(args: &str) -> Vec<u64> {
    json_of(args)["evs"].as_array().unwrap().iter().map(|ev| ev["ev"].as_u64().unwrap()).collect()
}

/// A wrong definition: exit code 2, nothing on standard output, and these words.
fn refused(args: &str, words: &[&str]) {
    let mut assert = expand(args).assert().code(2).stdout(is_empty());
    for word in words {
        assert = assert.stderr(contains(*word));
    }
}

const THREE_HOPS: &str = "--field hop1:4:min=0,max=3 --field hop2:4 --field hop3:8:init=0x10,mask=0x0f";

#[test]
fn the_table_shows_each_hops_bits_and_where_a_switch_finds_them() {
    let text = text_of(&format!("{THREE_HOPS} --count 16 --seed 1"));
    for line in [
        "structured EV, lowest 16 bits 0: 1024 EVs, 16 of them shown, in the order of seed 1",
        " hop1    31:28   flow label 15:12   ****       0 to 3           4",
        " hop3    23:16   flow label 7:0     0001****   0 to 15         16",
        " EV           UDP source port   flow label   hop1   hop2   hop3",
        " 0x28110000                 0   0x2811       0010   1000   00010001",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with(" 0x")).count(), 16);
}

#[test]
fn the_json_has_every_number_of_the_table() {
    let report = json_of(&format!("{THREE_HOPS} --count 2"));
    let head = json!([1, "stev", 1, 1024]);
    assert_eq!(json!([report["schema"], report["format"], report["seed"], report["space"]]), head);
    let hop3 = json!({
        "name": "hop3", "width": 8, "init": 16, "min": 0, "max": 15, "mask": 15,
        "values": 16, "high": 23, "low": 16, "pattern": "0001****",
    });
    assert_eq!(report["fields"][2], hop3);
    let first = json!({ "ev": 0x2811_0000, "udp_source_port": 0, "flow_label": 0x2811, "hops": [2, 8, 0x11] });
    assert_eq!(report["evs"][0], first);
    assert_eq!(report["evs"].as_array().unwrap().len(), 2);
}

#[test]
fn every_ev_that_the_fields_allow_is_shown_once_and_no_other() {
    let shown = evs(&format!("{THREE_HOPS} --count 1024"));
    let expected: BTreeSet<u64> = (0..4u64)
        .flat_map(|a| (0..16).flat_map(move |b| (0..16).map(move |c| a << 28 | b << 24 | (0x10 | c) << 16)))
        .collect();
    assert_eq!(shown.len(), 1024);
    assert_eq!(shown.into_iter().collect::<BTreeSet<u64>>(), expected);
}

#[test]
fn the_same_seed_gives_the_same_order_and_another_seed_another() {
    let order = |seed: &str| evs(&format!("{THREE_HOPS} --count 64 --seed {seed}"));
    assert_eq!(order("7"), order("7"));
    assert_ne!(order("7"), order("8"));
    assert_eq!(order("1"), evs(&format!("{THREE_HOPS} --count 64")));
    assert_eq!(order("7")[..8], evs(&format!("{THREE_HOPS} --count 8 --seed 7")), "a longer list starts the same");
}

#[test]
fn a_definition_of_2_to_the_32_evs_is_expanded_at_once() {
    let report = json_of("--field all:32 --count 1000");
    assert_eq!(report["space"], json!(1u64 << 32));
    assert_eq!(report["notes"], json!([]));
    let distinct: BTreeSet<String> = report["evs"].as_array().unwrap().iter().map(|ev| ev["ev"].to_string()).collect();
    assert_eq!(distinct.len(), 1000);
}

#[test]
fn a_field_across_flow_label_and_udp_port_shows_both_parts() {
    let text = text_of("--field a:12 --field b:8 --field c:12");
    assert!(text.contains("flow label 3:0, UDP source port 15:12"), "{text}");
    assert!(text.contains(" c        11:0   UDP source port 11:0"), "{text}");
}

#[test]
fn udp_evs_stay_in_the_source_port_and_are_split_over_ports() {
    let report = json_of("--format udp --field prefix:4:fixed=0b1100 --field hash:12 --ports 4 --count 8");
    let evs = report["evs"].as_array().unwrap();
    assert!(evs.iter().all(|ev| ev["ev"] == ev["udp_source_port"] && ev["flow_label"] == 0));
    assert!(evs.iter().all(|ev| ev["udp_source_port"].as_u64().unwrap() >> 12 == 0b1100));
    let ports: Vec<u64> = evs.iter().map(|ev| ev["port"].as_u64().unwrap()).collect();
    assert_eq!(ports, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn srv6_fields_are_locator_and_usids_of_an_ipv6_address() {
    let fields =
        "--field locator:32:fixed=0xfcbbbbbb --field tor:16:init=0x100,mask=0xff --field spine:16:init=0x200,mask=3";
    let report = json_of(&format!("--format srv6 {fields} --count 1024"));
    assert_eq!(report["space"], 1024);
    for ev in report["evs"].as_array().unwrap() {
        let segment: Ipv6Addr = ev["segment"].as_str().unwrap().parse().unwrap();
        let [locator, more, tor, spine, rest @ ..] = segment.segments();
        assert_eq!((locator, more, tor >> 8, spine >> 2, rest), (0xFCBB, 0xBBBB, 1, 0x80, [0; 4]));
        // The EV is the generated bits in a row.
        assert_eq!(ev["ev"], json!(u32::from(tor & 0xFF) << 2 | u32::from(spine & 3)));
    }
    let text = text_of(&format!("--format srv6 {fields} --count 1"));
    assert!(text.contains("IPv6 destination 95:80"), "{text}");
    assert!(text.contains("fcbb:bbbb:1a0:201::"), "{text}");
}

#[test]
fn what_is_allowed_but_odd_draws_a_note_and_no_error() {
    expand("--field a:8:init=3 --field b:24 --count 1")
        .assert()
        .success()
        .stderr(contains("note: field a: init 0x3 has bits under mask 0xff"));
    expand("--field a:2 --format udp")
        .assert()
        .success()
        .stderr("note: 16 EVs were asked for, and the fields allow 4\n");
    let report = json_of(THREE_HOPS);
    assert!(report["notes"][0].as_str().unwrap().starts_with("the UDP source port is the same in every EV"));
}

#[test]
fn a_wrong_field_is_named_with_the_reason_and_the_way_out() {
    refused(
        "--field hop1:4 --field hop2:4:max=16",
        &["--field hop2: max 16 does not fit into the 4 bits", "lower max to 15"],
    );
    refused("--field hop1:4:min=5,max=3", &["--field hop1: min 5 is above max 3", "lower min, or raise max"]);
    refused("--field hop1:4:init=0x10,mask=1", &["--field hop1: init 0x10 does not fit into 4 bits", "0xf"]);
    refused("--field hop1:4:mask=0x1f", &["--field hop1: mask 0x1f does not fit into 4 bits"]);
    refused("--field hop1:4:mask=0,max=3", &["--field hop1: the field is fixed", "or give a mask"]);
    refused(
        "--field a:20 --field b:12 --field c:1",
        &["--field c: with it the fields have 33 bits", "stev has 32", "narrower"],
    );
    refused("--field a:8 --field b:9 --format udp", &["--field b: with it the fields have 17 bits", "udp has 16"]);
    refused("--field a:8 --field a:8", &["--field a: the name is given twice"]);
}

#[test]
fn a_wrong_srv6_definition_is_named_too() {
    let locator = "--format srv6 --field loc:32:fixed=1";
    refused(locator, &["0 uSIDs", "1 to 6", "the first field is the locator"]);
    refused(&format!("{locator} --field s1:16"), &["--field s1: the uSID may come out as 0", "set min to 1"]);
    refused(&format!("{locator} --field s1:17:min=1"), &["--field s1: the field has 17 bits, and the format has 16"]);
    let many = (1..=7).map(|n| format!(" --field s{n}:16:min=1")).collect::<String>();
    refused(&format!("{locator}{many}"), &["7 uSIDs"]);
    refused(
        &format!("{locator} --field a:16:min=1 --field b:16:min=1 --field c:1:min=1"),
        &["--field c: the masks have 33 bits in all", "fix some"],
    );
}

#[test]
fn a_field_that_can_not_be_read_is_shown_with_the_form_it_should_have() {
    refused("--field hop1", &["'hop1'", "the bits are missing", "hop1:4:min=0,max=3"]);
    refused("--field hop1:4:mx=3", &["hop1:4:mx=3", "there is no key \"mx\""]);
    refused("--field hop1:99", &["give 1 to 32"]);
    refused("", &["--field"]);
    refused("--field a:4 --count 0", &["--count"]);
    refused("--field a:4 --count 65537", &["65536"]);
    refused("--field a:4 --ports 9", &["--ports"]);
}

#[test]
fn a_reader_that_closes_early_is_no_failure() {
    let help = Command::cargo_bin("mrcnic").unwrap().args(["ev", "--help"]).assert().success();
    help.stdout(contains("expand").and(contains("entropy values")));
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("mrcnic"))
        .args(["ev", "expand", "--field", "all:32", "--count", "65536", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
}

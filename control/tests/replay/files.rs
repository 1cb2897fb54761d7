//! The command line, and the file of answers.

use super::{Scratch, mrcnic, named, pcap, replay_file, vectors};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn any_file_name_will_do() {
    let scratch = Scratch::new();
    let bytes = pcap(&[named("write_only-ipv4-24")]);
    for name in ["a, comma=1.pcap", "spaces and 'quotes' [x].pcap", "-dash.pcap", "名前.pcap"] {
        let (file, out) = (scratch.file(name, &bytes), scratch.path(&format!("out of {name}")));
        mrcnic(&["replay"]).arg("--out").arg(&out).arg("--").arg(&file).assert().success().stderr(is_empty());
        mrcnic(&["decode"]).arg("--").arg(&out).assert().success().stdout(contains("icrc ok"));
    }
}

#[test]
fn a_file_of_answers_that_was_there_is_replaced() {
    let scratch = Scratch::new();
    let out = scratch.file("out.pcap", &[0xAA; 100_000]);
    for _ in 0..2 {
        mrcnic(&["replay"]).arg(vectors("frames.pcap")).arg("--out").arg(&out).assert().success();
        let run = mrcnic(&["decode", "--json"]).arg(&out).assert().success();
        assert_eq!(run.get_output().stdout.iter().filter(|&&byte| byte == b'\n').count(), 64);
    }
}

#[test]
fn answers_do_not_go_onto_the_capture_whatever_it_is_called() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(vectors("frames.pcap")).unwrap();
    let file = scratch.file("in.pcap", &bytes);
    std::fs::hard_link(&file, scratch.path("hard.pcap")).unwrap();
    std::os::unix::fs::symlink(&file, scratch.path("soft.pcap")).unwrap();
    for name in ["in.pcap", "hard.pcap", "soft.pcap", "./in.pcap"] {
        let said = "can't be written: it is the capture that is replayed";
        let out = scratch.path(name);
        mrcnic(&["replay"]).arg(&file).arg("--out").arg(out).assert().code(2).stdout(is_empty()).stderr(contains(said));
    }
    assert!(std::fs::read(&file).unwrap() == bytes, "the capture is as it was");
}

#[test]
fn answers_that_cannot_be_written_are_a_usage_error() {
    let scratch = Scratch::new();
    scratch.file("file", b"");
    let folder = scratch.path("");
    let cases = [
        (scratch.path("no/such/folder.pcap"), "no such file or directory"),
        (scratch.path("file/out.pcap"), "not a directory"),
        (folder, "it is a directory"),
        ("-".into(), "not to standard output"),
    ];
    for (out, message) in cases {
        let run = mrcnic(&["replay"]).arg(vectors("frames.pcap")).arg("--out").arg(&out).assert().code(2);
        run.stdout(is_empty()).stderr(contains(message)).stderr(contains("can't be written"));
    }
}

#[test]
fn a_capture_that_cannot_be_replayed_leaves_the_file_of_answers_alone() {
    let scratch = Scratch::new();
    let out = scratch.file("out.pcap", b"precious");
    mrcnic(&["replay"]).arg(scratch.file("bad.pcap", b"no capture")).arg("--out").arg(&out).assert().code(2);
    assert_eq!(std::fs::read(&out).unwrap(), b"precious");
}

#[test]
fn a_full_disk_is_a_failure_that_says_so() {
    let scratch = Scratch::new();
    // A limit of the shell stands in for the disk's.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$@\"";
    assert_cmd::Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_mrcnic"), "replay", "--loop", "50"])
        .arg(vectors("frames.pcap"))
        .arg("--out")
        .arg(scratch.path("out.pcap"))
        .assert()
        .code(1)
        .stdout(is_empty())
        .stderr(contains("out.pcap: holds ").and(contains("bytes of answers; is the disk full?")));
}

#[test]
fn rounds_are_exact_and_all_their_answers_are_kept() {
    let run = replay_file(&vectors("frames.pcap"), &["--loop", "50"]);
    assert_eq!((&run.report["packets"], &run.report["rounds"]), (&json!(50 * 72), &json!(50)));
    let qps = run.report["qps"].as_array().unwrap();
    for qp in qps.iter().filter(|qp| qp["delivered"] == 1) {
        assert_eq!((&qp["duplicates"], &qp["gaps"]), (&json!(49), &json!(0)));
    }
    assert_eq!(run.report["by_op"]["PROBE"], 300);
    assert_eq!(run.answers.len(), 50 * 64);
}

#[test]
fn a_rate_changes_when_packets_go_and_not_what_they_come_to() {
    for rate in ["2k", "100kpps", "1M"] {
        let run = replay_file(&vectors("frames.pcap"), &["--rate", rate, "--loop", "2"]);
        assert_eq!((&run.report["packets"], &run.report["responses"]), (&json!(144), &json!(128)), "{rate}");
        assert!(run.report["packets_per_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn wrong_arguments_are_a_usage_error_that_names_them() {
    let wrong: [(&[&str], &str); 10] = [
        (&[], "<FILE>"),
        (&["f", "--loop", "0"], "--loop"),
        (&["f", "--loop", "x"], "--loop"),
        (&["f", "--rate", "0"], "the least is 0.001"),
        (&["f", "--rate", "fast"], "is not a rate"),
        (&["f", "--window", "0"], "--window"),
        (&["f", "--window", "32641"], "--window"),
        (&["f", "--port", "0"], "--port"),
        (&["f", "--port", "1,2,3"], "--port is given 3 times, and 2 ports"),
        (&["f", "--what"], "--what"),
    ];
    for (args, message) in wrong {
        mrcnic(&["replay"]).args(args).assert().code(2).stdout(is_empty()).stderr(contains(message));
    }
}

#[test]
fn a_reader_that_went_away_is_no_reason_to_complain() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_mrcnic"))
        .args(["replay", "--json"])
        .arg(vectors("frames.pcap"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(complaint, "");
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_interrupted_replay_reports_what_was_done_and_keeps_its_answers() {
    let scratch = Scratch::new();
    let out = scratch.path("out.pcap");
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_mrcnic"))
        .args(["replay", "--json", "--loop", "1000000000", "--rate", "50k"])
        .arg(vectors("frames.pcap"))
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once it writes answers, it is in the middle of its work.
    while !out.metadata().is_ok_and(|meta| meta.len() > 24) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("interrupted after ") && said.contains(" of 72,000,000,000 packets"), "{said}");
    let run = mrcnic(&["decode", "--json"]).arg(&out).assert().success();
    let answers = run.get_output().stdout.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(report["responses"], answers);
}

#[test]
fn what_is_left_of_the_run_is_the_report_alone() {
    let scratch = Scratch::new();
    let home = scratch.path("run");
    std::fs::create_dir(&home).unwrap();
    let run = mrcnic(&["replay", "--json"]).arg(vectors("frames.pcap")).current_dir(&home).assert().success();
    let report: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(report["out"], Value::Null);
    assert_eq!(std::fs::read_dir(Path::new(&home)).unwrap().count(), 0);
}

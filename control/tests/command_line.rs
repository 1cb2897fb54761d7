//! Manual pages, completions and the log, by the binary.

use crate::running::{Running, mrcnic, until};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

const SCENARIO: &str = "duration = \"20us\"\n[fabric]\ntopology = \"paths\"\nnics = 2\npaths = 2\n\
                        [[traffic]]\npattern = \"point-to-point\"\nsrc = 0\ndst = 1\nsize = \"64KiB\"\n";

/// A short scenario with records, logged as `args` say. What standard error has.
fn logged(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("short.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let run = mrcnic().args(args).arg("sim").arg(&file).arg("--records").arg(dir.path().join("out")).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stderr).unwrap()
}

/// Whether a tool is there, which scripts/setup --test sees to.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("there is no {tool}: not checked with it");
    }
    found
}

fn complaints(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn every_manual_page_is_one_that_groff_takes_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let run = mrcnic().args(["man", "--out"]).arg(dir.path()).output().unwrap();
    assert_eq!(complaints(&run), "");
    let listed = String::from_utf8(run.stdout).unwrap();
    let pages: Vec<&str> = listed.lines().collect();
    assert!(pages.len() > 30, "{listed}");
    for page in &pages {
        assert!(std::path::Path::new(page).is_file(), "{page}");
        if has("groff") {
            let groff = Command::new("groff").args(["-man", "-ww", "-Tutf8", "-rLL=100n"]).arg(page).output().unwrap();
            assert_eq!(complaints(&groff), "", "{page}");
        }
    }
    let main = mrcnic().arg("man").output().unwrap();
    assert_eq!(main.stdout, std::fs::read(dir.path().join("mrcnic.1")).unwrap(), "without --out it is the main page");
}

#[test]
fn a_page_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let run = mrcnic().args(["man", "--out"]).arg(&file).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert!(stderr.contains(&format!("can't write {}", file.display())), "{stderr}");
}

#[test]
fn completions_are_there_for_five_shells_and_bash_and_zsh_parse_theirs() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = mrcnic().args(["completions", shell]).output().unwrap();
        assert_eq!(complaints(&run), "");
        let script = String::from_utf8(run.stdout).unwrap();
        assert!(script.contains("--ev-profile") || script.contains("ev-profile"), "{shell} completes options");
        let file = dir.path().join(shell);
        std::fs::write(&file, script).unwrap();
        if ["bash", "zsh"].contains(&shell) && has(shell) {
            let parsed = Command::new(shell).arg("-n").arg(&file).output().unwrap();
            assert_eq!(complaints(&parsed), "", "{shell}");
        }
    }
    let unknown = mrcnic().args(["completions", "csh"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn a_level_and_a_filter_decide_what_is_logged() {
    assert_eq!(logged(&[]), "", "by default a run that goes well says nothing");
    assert_eq!(logged(&["--log", "off"]), "");
    let info = logged(&["--log", "info"]);
    assert!(info.contains("INFO") && info.contains("records are written"), "{info}");
    assert!(!info.contains("DEBUG"), "{info}");
    let debug = logged(&["--log", "debug"]);
    assert!(debug.contains("DEBUG") && debug.contains("a scenario is read"), "{debug}");
    assert!(!debug.contains('\u{1b}'), "no colours where standard error is no terminal");
    let filtered = logged(&["--log", "control::cli=debug,warn"]);
    assert!(filtered.contains("a scenario is read"), "{filtered}");
    let other = logged(&["--log", "control::controller=trace,off"]);
    assert_eq!(other, "", "the target logs nothing in this run");
}

#[test]
fn a_faulty_directive_is_named_with_what_would_do() {
    for (filter, named) in [("control=debug,warm", "'warm'"), ("control=loud", "'control=loud'"), ("", "''")] {
        let run = mrcnic().args(["--log", filter, "completions", "bash"]).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{filter}");
        let stderr = String::from_utf8(run.stderr).unwrap();
        assert!(stderr.contains(&format!("the directive {named}")) && stderr.contains("TARGET=LEVEL"), "{stderr}");
    }
}

#[test]
fn the_log_of_a_running_nic_is_one_json_object_a_line_if_asked_for() {
    let running = Running::start_logged(&["--workers", "1", "--log", "control=debug,off", "--log-format", "json"]);
    assert!(running.ask(&["port", "down", "1"]).is_ok());
    until("port 1 is out of use", || {
        running.ask(&["status"]).unwrap()["nics"][0]["ports"][0]["in_use"] == Value::Bool(false)
    });
    let log = running.end_with_log();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let told = |message: &str| {
        events.iter().find(|event| event["message"] == message).unwrap_or_else(|| {
            panic!("nothing says '{message}': {log}");
        })
    };
    for (message, level) in [
        ("DPDK is up", "DEBUG"),
        ("a port is open", "INFO"),
        ("the control thread runs", "INFO"),
        ("listening for operators", "INFO"),
        ("workers poll", "INFO"),
        ("an operator asks", "DEBUG"),
        ("a signal asks to end: what was measured until now is reported", "INFO"),
    ] {
        assert_eq!(told(message)["level"], level, "{message}");
    }
    assert_eq!(told("a port is open")["payload"], "sent from where it lies");
    let port = told("a port changed");
    assert_eq!((&port["nic"], &port["port"], &port["admin"]), (&"a".into(), &1.into(), &false.into()), "{port}");
    assert!(events.iter().all(|event| event["target"].as_str().unwrap().starts_with("control")), "{log}");
}

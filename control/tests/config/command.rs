//! `mrcnic config`, by the binary.

use super::nested::{PATCH, PATCH_FILE};
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::{Value, json};
use std::path::PathBuf;

fn config(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("mrcnic").unwrap();
    command.arg("config").args(args);
    command
}

fn stdout(args: &[&str]) -> String {
    let run = config(args).assert().success();
    String::from_utf8(run.get_output().stdout.clone()).unwrap()
}

/// A directory with a file in it, and the file's name.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

#[test]
fn the_documented_page_is_what_the_table_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == control::config::document(),
        "docs/configuration.md is not what the table says: write it anew with `mrcnic config docs > docs/configuration.md`"
    );
    assert_eq!(stdout(&["docs"]), page);
}

#[test]
fn the_documented_patch_is_imported_shown_and_exported() {
    let (_params, params) = file("params.json", PATCH);
    config(&["import", &params]).assert().success().stdout(PATCH_FILE).stderr(contains("[limits-off]"));
    let (_nic, nic) = file("nic.toml", PATCH_FILE);
    let shown = stdout(&["show", "--file", &nic]);
    for (key, value, source) in [
        ("packet_spraying_type", "None", format!("{nic}:5")),
        ("initial_ack_timeout", "200us", format!("{nic}:6")),
        ("reliability_probe_period", "150us", "default".to_owned()),
    ] {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(shown.lines().any(|line| words(line) == [key, value, &source]), "{key} is not in\n{shown}");
    }
    let exported: Value = serde_json::from_str(&stdout(&["export", &nic])).unwrap();
    let size = &exported["NetworkInterface"]["EgressBufferManager"]["TotalBufferSize"];
    assert_eq!(*size, json!({ "value": 512, "unit": "KB", "type": "bytes" }));
}

#[test]
fn what_the_documentation_does_not_have_is_left_out_of_the_nested_form_and_said() {
    let (_dir, nic) = file("nic.toml", "model.limits = true");
    let export = config(&["export", &nic]).assert().success();
    export.stdout(contains("model").not()).stderr(contains("note: model.limits is no attribute of the documentation"));
}

#[test]
fn the_json_has_every_attribute_with_its_source() {
    let (_dir, nic) = file("nic.toml", "qp_manager.mss = 1024");
    let shown: Value = serde_json::from_str(&stdout(&["show", "--file", &nic, "--json"])).unwrap();
    let rows = shown["attributes"].as_array().unwrap();
    assert_eq!((shown["schema"].as_u64(), rows.len()), (Some(1), control::config::attributes().count()));
    let row = rows.iter().find(|row| row["key"] == "mss").unwrap();
    let expected = json!({
        "section": "qp_manager", "key": "mss", "attribute": "ScalaMrcQpManager.MSS", "type": "uint",
        "value": "1024", "default": "4096", "source": format!("{nic}:1"), "acts": "engine: `transport.mss`",
    });
    assert_eq!(*row, expected);
    assert_eq!(stdout(&["show", "--defaults"]), stdout(&["show"]));
}

#[test]
fn options_set_attributes_with_a_file_and_without_and_are_named_as_their_source() {
    let (_dir, nic) = file("nic.toml", "[qp_manager]\nmss = 1024\ninitial_ack_timeout = \"100us\"\n");
    let set = ["--set", "qp_manager.initial_ack_timeout=200us", "--set", "nic.enable_monitor=true"];
    let row = |args: &[&str], key: &str| {
        let shown = stdout(&[&["show"][..], args, &set].concat());
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        shown.lines().map(words).find(|words| words.first().is_some_and(|word| word == key)).unwrap()
    };
    for (key, value) in [("initial_ack_timeout", "200us"), ("enable_monitor", "true")] {
        assert_eq!(row(&["--file", &nic], key), [key, value, "--set"]);
        assert_eq!(row(&[], key), [key, value, "--set"]);
    }
    assert_eq!(row(&["--file", &nic], "mss"), ["mss", "1024", &format!("{nic}:2")]);
    assert_eq!(row(&[], "mss"), ["mss", "4096", "default"]);
    let check = config(&[&["check", &nic][..], &set].concat()).assert().success();
    check.stdout(contains("nic.toml: valid, 0 warnings"));
    let check = config(&["check", "--set", "nscc.delay_alpha=2.0"]).assert().code(2).stdout(is_empty());
    check.stderr("error: --set: nscc.delay_alpha: 2.0 is out of range: DelayAlpha takes 0.0 to 1.0 [out-of-range]\n");
    let check =
        config(&["check", "--set", "network_interface.egress_buffer.total_buffer_size=512KB"]).assert().success();
    check
        .stdout("the defaults with --set: valid, 1 warning\n")
        .stderr(contains("warning: --set: network_interface.egress"));
    config(&["check"]).assert().code(2);
}

#[test]
fn a_check_says_what_warns_and_fails_on_what_stops() {
    let (_dir, nic) = file("nic.toml", "[nscc]\npass_through = true\n");
    config(&["check", &nic]).assert().success().stdout(contains("valid, 0 warnings")).stderr(is_empty());
    let check = config(&["check", &nic, "--switches", "flowlet,no-trimming"]).assert().success();
    check.stderr(contains("[spraying-over-flowlets]").and(contains("[trimming-without-switches]")));
    let (_dir, nic) = file("nic.toml", "[nscc]\nquick_adapt_gate = 32\ndelay_alpha = 2.0\n");
    let check = config(&["check", &nic]).assert().code(2).stdout(is_empty());
    let first = format!(
        "error: {nic}:2: nscc.quick_adapt_gate: 32 is out of range: QuickAdaptGate takes 0 to 31 [out-of-range]\n"
    );
    check.stderr(contains(first).and(contains(format!("error: {nic}:3: nscc.delay_alpha"))));
    config(&["check", "no-such.toml"]).assert().code(2).stderr(contains("can't read no-such.toml"));
}

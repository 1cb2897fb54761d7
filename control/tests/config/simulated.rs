//! Scenarios whose NICs have a configuration: what becomes of it, and how `mrcnic sim` takes it.

use assert_cmd::Command;
use control::config::{Config, Filter, NodeId};
use control::sim::{Beside, Run, Scenario};
use dataplane::Ns;
use dataplane::nic::Paths;
use dataplane::time::MS;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use std::fs;
use std::path::{Path, PathBuf};

/// Two NICs below one switch each, and one message of a packet.
const SCENARIO: &str = r#"
[fabric]
topology = "leaf-spine"
leaves = 2
nics_per_leaf = 1
spines = 2

[[traffic]]
pattern = "point-to-point"
src = 0
dst = 1
size = 4096
count = 1
"#;

const NIC: &str = r#"
nic.enable_event_logging = true
nic.enable_monitor = true
monitor.filter_node_id = "1"
network_interface.uplink.data_rate = "100Gbps"
network_interface.medium.delay = "2us"

[qp_manager]
mss = 2048
reliability_probe_period = "1ms"
"#;

/// A directory with a NIC's configuration, and a scenario in it that has `more` before everything else.
fn files(more: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("nics")).unwrap();
    fs::write(dir.path().join("nics/nic.toml"), NIC).unwrap();
    let path = dir.path().join("s.toml");
    fs::write(&path, format!("{more}{SCENARIO}")).unwrap();
    (dir, path)
}

fn read(path: &Path, config: Option<&Path>, set: &[&str]) -> Result<Scenario, String> {
    let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
    let beside = Beside { seed: None, config, set: &set };
    let text = fs::read_to_string(path).unwrap();
    Scenario::read_beside(&text, &path.display().to_string(), &beside).map_err(|error| error.to_string())
}

/// When the only message of a scenario is done.
fn ends_at(scenario: Scenario) -> Ns {
    let mut run = Run::new(scenario).unwrap();
    run.until(Ns(MS)).unwrap();
    assert_eq!(run.report(0.0).corrupt_bytes, 0);
    run.traffic().flow(run.world(), 0).unwrap().1.ended.unwrap()
}

#[test]
fn nics_links_probes_and_records_are_as_the_configuration_that_the_scenario_names_says() {
    let (_dir, path) = files("nic = { config = \"nics/nic.toml\", ecn_skip = false }\n");
    let scenario = read(&path, None, &[]).unwrap();
    assert_eq!((scenario.nic.transport.mss, scenario.nic.ecn_skip), (2048, false));
    assert_eq!((scenario.nic.data_rate, scenario.nic.base_rtt_ns), (100_000_000_000, 6_000));
    // The switch would take 400 Gbps, and the way to it is as long as the attribute says.
    assert_eq!((scenario.plan.host.rate, scenario.plan.host.delay_ns), (100_000_000_000, 2_000));
    assert_eq!((scenario.plan.fabric.rate, scenario.plan.fabric.delay_ns), (400_000_000_000, 500));
    assert_eq!(scenario.probe_period_ns, 1_000_000);
    assert_eq!((scenario.records.transport_stats_ns, scenario.records.events), (Some(1_000_000), true));
    assert_eq!(scenario.records.monitor.unwrap().filter_node_id, Filter::Any(vec![NodeId(1)]));
    assert!(matches!(scenario.flows[0].path.paths, Paths::Sprayed));
}

#[test]
fn without_a_configuration_records_have_their_defaults_and_the_rest_is_the_scenarios() {
    let (_dir, path) = files("");
    let scenario = read(&path, None, &[]).unwrap();
    assert_eq!(scenario.records, Config::default().setup().records);
    assert_eq!((scenario.plan.host.rate, scenario.plan.host.delay_ns), (400_000_000_000, 500));
    assert_ne!(scenario.nic.base_rtt_ns, 6_000, "it is the fabric's own");
}

#[test]
fn the_delay_of_the_nics_link_acts_in_virtual_time() {
    let (_dir, path) = files("");
    let after = |delay: &str| {
        let set = format!("network_interface.medium.delay={delay}");
        ends_at(read(&path, None, &[&set]).unwrap()).0
    };
    // Two such links there and two back.
    assert_eq!(after("2us") - after("100ns"), 4 * 1_900);
    assert_eq!(after("100ns") - after("0ns"), 4 * 100);
}

#[test]
fn a_link_runs_at_the_lower_rate_of_its_two_ends() {
    let (_dir, path) = files("");
    let host = "host = { rate = \"200Gbps\", delay = \"300ns\" }\n";
    fs::write(&path, SCENARIO.replace("spines = 2\n", &format!("spines = 2\n{host}"))).unwrap();
    let host = |set: &str| read(&path, None, &[set]).unwrap().plan.host;
    assert_eq!(host("network_interface.uplink.data_rate=100Gbps").rate, 100_000_000_000);
    assert_eq!(host("network_interface.uplink.data_rate=400Gbps").rate, 200_000_000_000);
    // What the scenario says of the delay stands, unless the configuration sets it.
    assert_eq!(host("network_interface.uplink.data_rate=400Gbps").delay_ns, 300);
    assert_eq!(host("network_interface.medium.delay=100ns").delay_ns, 100);
}

#[test]
fn windows_are_for_all_ports_of_a_nic_and_the_rate_is_each_ports() {
    let (_dir, path) = files("");
    fs::write(&path, SCENARIO.replace("spines = 2\n", "spines = 2\nplanes = 4\n")).unwrap();
    let scenario = read(&path, None, &["network_interface.uplink.data_rate=100Gbps", "model.limits=true"]).unwrap();
    assert_eq!((scenario.plan.host.rate, scenario.nic.data_rate), (100_000_000_000, 400_000_000_000));
    assert_eq!(scenario.nic.limits.pacing.unwrap().rate, 100_000_000_000);
}

#[test]
fn a_configuration_beside_the_scenario_takes_the_place_of_the_one_in_it_and_options_that_of_both() {
    let (dir, path) = files("nic.config = \"nics/nic.toml\"\n");
    let other = dir.path().join("other.toml");
    fs::write(&other, "qp_manager.mss = 1024\n").unwrap();
    let scenario = read(&path, Some(&other), &["qp_manager.packet_spraying_type=None"]).unwrap();
    assert_eq!((scenario.nic.transport.mss, scenario.nic.data_rate), (1024, 400_000_000_000));
    assert!(matches!(scenario.flows[0].path.paths, Paths::Own { .. }));
    let scenario = read(&path, None, &["qp_manager.mss=512"]).unwrap();
    assert_eq!((scenario.nic.transport.mss, scenario.nic.data_rate), (512, 100_000_000_000));
}

#[test]
fn keys_that_a_configuration_has_too_are_refused_beside_one_and_those_of_the_engine_alone_are_not() {
    let (_dir, path) = files("nic.config = \"nics/nic.toml\"\nnic.initial_ack_timeout = \"1ms\"\n");
    let error = read(&path, None, &[]).unwrap_err();
    let words = "s.toml:2: nic.initial_ack_timeout: does not go with a configuration: take it away, and set \
                 qp_manager.initial_ack_timeout there or by --set";
    assert!(error.ends_with(words), "{error}");
    let (_dir, path) = files("nic.congestion = \"none\"\n");
    assert!(read(&path, None, &["qp_manager.mss=1024"]).unwrap_err().contains("s.toml:1: nic.congestion: does not go"));
    let (_dir, path) = files("nic = { probes = false, dynamic_mpr = true, assumed_bad_time = \"7ms\" }\n");
    let scenario = read(&path, None, &["qp_manager.mss=1024"]).unwrap();
    assert!(scenario.nic.transport.dynamic_mpr && scenario.probe_period_ns > 1_000_000_000);
    assert_eq!(scenario.nic.spraying.assumed_bad_ns, Some(7_000_000));
    let (_dir, path) = files("ev_profile = { id = 1, mode = \"auto\" }\n");
    let error = read(&path, None, &["qp_manager.packet_spraying_type=None"]).unwrap_err();
    assert!(error.contains("s.toml:1: ev_profile: does not go with a configuration whose"), "{error}");
}

#[test]
fn what_is_wrong_with_a_configuration_is_said_with_its_own_lines() {
    let (dir, path) = files("nic.config = \"none.toml\"\n");
    let error = read(&path, None, &[]).unwrap_err();
    assert!(error.contains("s.toml:1: nic.config: can't read") && error.contains("none.toml"), "{error}");
    let other = dir.path().join("other.toml");
    let error = read(&path, Some(&other), &[]).unwrap_err();
    assert!(error.starts_with("--config: can't read"), "{error}");
    fs::write(&other, "qp_manager.mss = 0\nnscc.delay_alpha = 2.0\n").unwrap();
    let error = read(&path, Some(&other), &["nscc.eta=1"]).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].ends_with("other.toml:1: qp_manager.mss: 0 is out of range: MSS takes 1 or more [out-of-range]"));
    assert!(lines[1].starts_with("error: ") && lines[1].contains("other.toml:2: nscc.delay_alpha"), "{error}");
    assert!(lines[2].starts_with("error: --set: nscc.eta: there is no such key"), "{error}");
}

#[test]
fn the_command_takes_a_configuration_and_options_and_warns_as_a_check_does() {
    let (dir, path) = files("");
    let sim = |args: &[&str]| {
        let mut command = Command::cargo_bin("mrcnic").unwrap();
        command.arg("sim").arg(&path).arg("--json").args(args).assert()
    };
    let us = |args: &[&str]| -> f64 {
        let run = sim(args).success().stderr(is_empty());
        let report: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        report["flows"][0]["fct_us"].as_f64().unwrap()
    };
    let nic = dir.path().join("nics/nic.toml").display().to_string();
    let (without, with) = (us(&["--set", "network_interface.medium.delay=100ns"]), us(&["--config", &nic]));
    assert!(with > without + 7.6, "{with} and {without} us");
    assert!(us(&["--config", &nic, "--set", "network_interface.medium.delay=100ns"]) < with - 7.5);
    let limited = sim(&["--set", "network_interface.egress_buffer.total_buffer_size=512KB"]).success();
    limited
        .stderr(contains("warning: --set: network_interface.egress_buffer.total_buffer_size: acts with model.limits"));
    sim(&["--set", "qp_manager.mss=0"])
        .code(2)
        .stdout("")
        .stderr(contains("error: --set: qp_manager.mss: 0 is out of range").and(contains("[out-of-range]")));
    sim(&["--config", "none.toml"]).code(2).stderr(contains("error: --config: can't read none.toml"));
}

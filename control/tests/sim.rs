//! `mrcnic sim`: the scenarios of the documentation keep what they say, one seed gives one history, and the command keeps its manners.

use assert_cmd::Command;
use control::records::Format;
use control::sim::{Records, Run, Scenario};
use dataplane::Ns;
use dataplane::time::{MS, US};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::{Path, PathBuf};

/// Payload that a line of 400 Gbps carries, in Gbit/s: 4,096 of each 4,174 bytes and 24 beside them.
const LINE: f64 = 400.0 * 4096.0 / (4174.0 + 24.0);

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/scenarios")
}

fn text(name: &str) -> String {
    fs::read_to_string(scenarios().join(format!("{name}.toml"))).unwrap()
}

fn run(name: &str) -> Run {
    Run::new(Scenario::read(&text(name), name, None).unwrap()).unwrap()
}

/// Bytes placed for the flow so far.
fn delivered(run: &Run, flow: usize) -> u64 {
    run.traffic().flow(run.world(), flow).unwrap().1.delivered
}

/// Goodput of a flow from now to `end`, in Gbit/s.
fn goodput(run: &mut Run, flow: usize, end: u64) -> f64 {
    let (from, before) = (run.world().now(), delivered(run, flow));
    run.until(Ns(end)).unwrap();
    (delivered(run, flow) - before) as f64 * 8.0 / Ns(end).since(from) as f64
}

/// No QP broke, and no byte is wrong.
fn is_sound(run: &Run) {
    let report = run.report(0.0);
    assert_eq!((report.qp_errors, report.corrupt_bytes), (0, 0));
}

#[test]
fn every_documented_scenario_is_one_and_says_what_came_out() {
    let files: Vec<PathBuf> = fs::read_dir(scenarios()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 15);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.display().to_string();
        let scenario = Scenario::read(&text, &name, None).unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.flows.is_empty(), "{name}");
        assert!(text.starts_with("# ") && text.contains("\n# Figures"), "{name}");
        // The bench reads the same fabric.
        assert_eq!(control::sim::plan_file::read(&text, &name).unwrap().plan, scenario.plan, "{name}");
    }
}

#[test]
fn a_path_that_swallows_everything_is_left_alone_after_half_a_millisecond() {
    for name in ["failover", "failover-ecmp"] {
        let mut run = run(name);
        run.until(Ns(1_500 * US)).unwrap();
        let after = goodput(&mut run, 0, 3 * MS);
        assert!(after >= 0.99 * LINE, "{name}: {after} Gbit/s");
        is_sound(&run);
    }
}

#[test]
fn where_paths_are_the_bottleneck_the_seven_that_are_left_are_full() {
    let mut run = run("failover-bottleneck");
    run.until(Ns(1_500 * US)).unwrap();
    let after = goodput(&mut run, 0, 3 * MS);
    assert!((0.99 * 7.0 / 8.0 * LINE..=7.0 / 8.0 * LINE * 1.001).contains(&after), "{after} Gbit/s");
    is_sound(&run);
}

#[test]
fn without_spraying_the_flow_stands_until_its_path_is_mended() {
    let mut run = run("failover-single-path");
    run.until(Ns(1_500 * US)).unwrap();
    assert!(goodput(&mut run, 0, 3 * MS) < 1.0);
    run.until(Ns(4_500 * US)).unwrap();
    assert!(goodput(&mut run, 0, 5 * MS) >= 0.99 * LINE);
    is_sound(&run);
}

#[test]
fn one_packet_of_five_hundred_lost_costs_less_than_two_percent() {
    let mut run = run("loss-0.1");
    let all = goodput(&mut run, 0, 20 * MS);
    assert!(all >= 0.98 * LINE, "{all} Gbit/s");
    assert!(run.report(0.0).retransmits > 300);
    is_sound(&run);
}

#[test]
fn at_one_percent_a_smaller_gap_and_a_larger_window_keep_the_line_busy() {
    let all = goodput(&mut run("loss-1-tuned"), 0, 5 * MS);
    assert!(all >= 0.96 * LINE, "{all} Gbit/s");
    let mut default = run("loss-1");
    let all = goodput(&mut default, 0, 5 * MS);
    assert!((0.5 * LINE..0.8 * LINE).contains(&all), "{all} Gbit/s");
    is_sound(&default);
}

#[test]
fn an_incast_leaves_its_neighbour_alone_and_with_trimming_sees_no_timeout() {
    let alone = goodput(&mut run("victim-alone"), 0, 3 * MS);
    for name in ["incast", "incast-no-trimming"] {
        let mut run = run(name);
        let beside = goodput(&mut run, 0, 3 * MS);
        assert!(beside >= 0.98 * alone, "{name}: {beside} of {alone} Gbit/s");
        let report = run.report(0.0);
        assert_eq!(report.timeouts == 0, name == "incast", "{name}: {} timeouts", report.timeouts);
        assert_eq!(report.fabric_drops.contains_key("data_full"), name != "incast");
        is_sound(&run);
    }
}

#[test]
fn a_plane_that_goes_costs_its_share_and_comes_back() {
    for (name, share) in [("plane-loss-4", 0.75), ("plane-loss-8", 0.875)] {
        let mut run = run(name);
        run.until(Ns(2 * MS)).unwrap();
        let without = goodput(&mut run, 0, 4 * MS);
        assert!((without / LINE - share).abs() < 0.01, "{name}: {without} Gbit/s");
        run.until(Ns(4_500 * US)).unwrap();
        let again = goodput(&mut run, 0, 5_500 * US);
        assert!(again >= 0.99 * LINE, "{name}: {again} Gbit/s");
        is_sound(&run);
    }
}

#[test]
fn marks_steer_packets_away_from_a_slow_path() {
    let after = |name| {
        let mut run = run(name);
        run.until(Ns(1_500 * US)).unwrap();
        goodput(&mut run, 0, 3 * MS)
    };
    let (skip, none) = (after("ecn-skip"), after("ecn-skip-off"));
    assert!(skip >= 0.99 * LINE && none < 0.8 * LINE, "{skip} and {none} Gbit/s");
}

#[test]
fn each_step_of_a_ring_waits_for_what_it_sends_on() {
    let file = "[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nnics_per_leaf = 2\nspines = 2\n\
                [[traffic]]\npattern = \"ring-all-reduce\"\nsize = \"256KiB\"\n";
    let mut run = Run::new(Scenario::read(file, "ring", None).unwrap()).unwrap();
    run.until(Ns(10 * MS)).unwrap();
    let flows = run.traffic().reports(run.world());
    assert_eq!(flows.len(), 6 * 4);
    for (n, (flow, report)) in flows.iter().enumerate().skip(4) {
        let first = &flows[flow.after[0]];
        assert_eq!(first.0.dst, flow.src, "step {n}");
        assert!(report.began >= first.1.ended && report.ended.is_some(), "step {n}");
    }
}

const SMALL: &str = r#"
seed = 5
duration = "300us"

[fabric]
topology = "leaf-spine"
leaves = 2
nics_per_leaf = 3
spines = 3
links = { loss = 0.002, reorder = 0.1, late = "200ns" }

[[traffic]]
pattern = "permutation"
size = "64KiB"
outstanding = 2

[[fault]]
at = "100us"
what = "down"
where = "p0.t0.0-p0.t1.1"
"#;

/// The report of a run, and what its records hold.
fn history(seed: Option<u64>) -> (String, Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run::new(Scenario::read(SMALL, "small", seed).unwrap()).unwrap();
    let mut records = Records::create(dir.path(), Format::Csv).unwrap();
    while !run.is_over() {
        let next = run.world().now() + run.scenario().interval_ns;
        run.until(next).unwrap();
        records.write(&run.sample()).unwrap();
    }
    records.finish().unwrap();
    let mut json = Vec::new();
    run.report(0.0).write_json(&mut json).unwrap();
    let files = ["flows.csv", "links.csv", "evs.csv"].map(|name| fs::read(dir.path().join(name)).unwrap());
    assert!(files.iter().all(|file| file.len() > 1_000));
    (String::from_utf8(json).unwrap(), files.into())
}

#[test]
fn one_seed_is_one_history_byte_for_byte_and_another_seed_another() {
    let first = history(None);
    assert_eq!(first, history(None));
    assert_eq!(first, history(Some(5)));
    let other = history(Some(6));
    assert_ne!(first.0, other.0);
    assert_ne!(first.1, other.1);
}

fn sim() -> Command {
    let mut command = Command::cargo_bin("mrcnic").unwrap();
    command.arg("sim");
    command
}

fn small(dir: &Path) -> PathBuf {
    let file = dir.join("small.toml");
    fs::write(&file, SMALL).unwrap();
    file
}

#[test]
fn json_has_the_documented_keys_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let output = sim().arg(small(dir.path())).args(["--json", "--seed", "9"]).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let keys = [
        "{\"schema\":1,\"seed\":9,\"virtual_us\":300,\"wall_s\":",
        ",\"packets\":",
        ",\"flows\":[{\"src\":0,\"dst\":",
        ",\"bytes\":",
        ",\"start_us\":",
        ",\"fct_us\":",
        ",\"retransmits\":",
        ",\"timeouts\":",
        ",\"goodput_gbps\":",
        "],\"fct_us\":{\"p50\":",
        ",\"p99\":",
        ",\"max\":",
        "},\"links\":[{\"name\":\"nic0.0>p0.t0.0\",\"bytes\":",
        ",\"marked\":",
        ",\"trimmed\":",
        ",\"dropped\":",
        ",\"max_queue_bytes\":",
        "],\"qp_errors\":0,\"corrupt_bytes\":0",
    ];
    let mut rest = text.as_str();
    for key in keys {
        let at = rest.find(key).unwrap_or_else(|| panic!("{key} is not where it belongs"));
        rest = &rest[at + key.len()..];
    }
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["flows"][0]["fct_us"].is_null(), "flows without an end have no completion time");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn the_table_records_and_the_picture_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (records, plot) = (dir.path().join("out"), dir.path().join("p.svg"));
    sim()
        .arg(small(dir.path()))
        .arg("--records")
        .arg(&records)
        .arg("--plot")
        .arg(&plot)
        .assert()
        .success()
        .stdout(contains("permutation").and(contains("events/s (seed 5)")).and(contains("0 corrupt bytes")))
        .stderr("");
    let picture = fs::read_to_string(plot).unwrap();
    for label in ["Goodput, Gbit/s", "Congestion window, KB", "virtual time, us", "all flows", "permutation 0 to"] {
        assert!(picture.contains(label), "no {label}");
    }
    let flows = fs::read_to_string(records.join("flows.csv")).unwrap();
    assert!(
        flows.starts_with(
            "time_us,flow,src,dst,goodput_gbps,cwnd_bytes,inflight_bytes,base_rtt_ns,average_delay_ns,rule,"
        )
    );
    let links = fs::read_to_string(records.join("links.csv")).unwrap();
    assert!(links.starts_with("time_us,link,queue_bytes,control_queue_bytes,used,bytes,marked,trimmed,dropped\n"));
}

#[test]
fn a_wrong_file_is_a_usage_error_that_says_where() {
    let dir = tempfile::tempdir().unwrap();
    sim().arg(dir.path().join("none.toml")).assert().code(2).stderr(contains("can't read").and(contains("none.toml")));
    sim().assert().code(2);
    let file = dir.path().join("s.toml");
    fs::write(&file, SMALL.replace("spines", "spins")).unwrap();
    let words = "s.toml:9: fabric.spins: no such key: \"spins\"; did you mean \"spines\"?";
    sim().arg(&file).assert().code(2).stdout("").stderr(contains(words));
    fs::write(&file, SMALL.replace("300us", "300")).unwrap();
    sim()
        .arg(&file)
        .assert()
        .code(2)
        .stderr(contains("s.toml:3: duration: \"300\" has no unit: give one of ns, us, ms, s"));
}

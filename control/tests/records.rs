//! Records of runs: in virtual time to the row, and of living workers without a row in vain.

use assert_cmd::Command;
use control::config::Loaded;
use control::records::{Format, RecordSpec};
use control::sim::{Run, Scenario};
use dataplane::Ns;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One message of 1 MiB between two NICs with all at its default.
const ONE_MESSAGE: &str = r#"
seed = 1
duration = "5ms"

[fabric]
topology = "leaf-spine"
leaves = 2
nics_per_leaf = 1
spines = 8
forwarding = "ecmp"

[nic]
base_rtt = "6us"

[[traffic]]
pattern = "point-to-point"
src = 0
dst = 1
size = "1MiB"
count = 1
"#;

const EVERYTHING: &str = "[nic]\nenable_monitor = true\nenable_event_logging = true\n";

/// Rows of a CSV file, by column.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

fn record(dir: &Path, format: Format) {
    let settings = Loaded::read(EVERYTHING, "nic.toml").unwrap().config.setup().records;
    let spec = RecordSpec { dir: Some(dir.into()), format, settings, capture: None };
    let mut run = Run::new(Scenario::read(ONE_MESSAGE, "one", None).unwrap()).unwrap();
    run.record(&spec).unwrap();
    run.until(Ns(u64::MAX)).unwrap();
    run.finish_records().unwrap().unwrap();
}

#[test]
fn the_monitor_shows_the_rotation_of_a_message_of_1_mib_at_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Format::Csv);
    let rows = rows(&dir.path().join("mrc-monitor.csv"));
    let sent: Vec<_> =
        rows.iter().filter(|row| row["direction"] == "tx" && row["type"] == "write" && row["node_id"] == "0").collect();
    let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
    for row in &sent {
        *uses.entry(row["ev"].parse().unwrap()).or_default() += 1;
    }
    let used = |times: usize| uses.values().filter(|&&count| count == times).count();
    assert_eq!((sent.len(), uses.len(), used(4), used(3)), (256, 72, 40, 32));
    assert!(uses.keys().all(|ev| (256..384).contains(ev)));
    assert!(rows.iter().all(|row| row["direction"] != "rtx"));
    let count = |node: &str, direction: &str, kind: &str| {
        let is = |row: &&BTreeMap<String, String>| {
            row["node_id"] == node && row["direction"] == direction && row["type"] == kind
        };
        rows.iter().filter(is).count()
    };
    assert_eq!((count("1", "rx", "write"), count("1", "tx", "sack"), count("0", "rx", "sack")), (256, 256, 256));
    assert_eq!(count("1", "tx", "ack"), count("0", "rx", "ack"));
}

#[test]
fn events_tell_the_life_of_the_message_and_both_forms_say_the_same() {
    let (csv, jsonl) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    record(csv.path(), Format::Csv);
    record(jsonl.path(), Format::Jsonl);
    let events = rows(&csv.path().join("mrc-events.csv"));
    let named: Vec<&str> = events.iter().map(|row| row["event"].as_str()).collect();
    assert_eq!(named, ["qp_created", "qp_created", "wr_created", "wr_completed", "qp_closed", "qp_closed"]);
    assert_eq!((events[3]["bytes"].as_str(), events[3]["status"].as_str()), ("1048576", "success"));
    for name in ["mrc-events", "mrc-monitor", "mrc-transport-stats"] {
        let rows = rows(&csv.path().join(format!("{name}.csv")));
        let text = fs::read_to_string(jsonl.path().join(format!("{name}.jsonl"))).unwrap();
        let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), objects.len(), "{name}");
        for (row, object) in rows.iter().zip(&objects) {
            for (column, text) in row {
                let value = match &object[column] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    number => number.to_string(),
                };
                assert_eq!(&value, text, "{name}: {column}");
            }
            assert_eq!(row.len(), object.as_object().unwrap().len());
        }
    }
}

#[test]
fn statistics_add_up_to_what_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Loaded::read("[nic]\ntransport_stats_report_interval = \"10us\"\n", "nic.toml").unwrap();
    let settings = settings.config.setup().records;
    let spec = RecordSpec { dir: Some(dir.path().into()), format: Format::Csv, settings, capture: None };
    let mut run = Run::new(Scenario::read(ONE_MESSAGE, "one", None).unwrap()).unwrap();
    run.record(&spec).unwrap();
    run.until(Ns(u64::MAX)).unwrap();
    let counts = run.finish_records().unwrap().unwrap();
    let rows = rows(&dir.path().join("mrc-transport-stats.csv"));
    assert_eq!(rows.len() as u64, counts.stats_rows);
    assert_eq!((rows[0]["time_us"].as_str(), rows[0]["nic"].as_str()), ("10.0", "nic0"));
    let of = |node: &str| rows.iter().filter(|row| row["node_id"] == node).cloned().collect::<Vec<_>>();
    let (sender, receiver) = (of("0"), of("1"));
    for row in [&sender, &receiver] {
        let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
        let (last, whole) = row.split_last().unwrap();
        assert!(whole.iter().all(|row| row["interval_us"] == "10.0"));
        assert!(last["interval_us"].parse::<f64>().unwrap() < 10.0, "what is left of the last interval");
        for row in row.iter() {
            for (column, value) in row.iter().filter(|(column, _)| column.starts_with("total_")) {
                let value: u64 = value.parse().unwrap();
                assert!(value >= totals.insert(column, value).unwrap_or(0), "{column} goes back");
            }
        }
    }
    let last = |rows: &[BTreeMap<String, String>], column: &str| rows[rows.len() - 1][column].parse::<u64>().unwrap();
    assert_eq!((last(&sender, "total_data_pkts_tx"), last(&sender, "total_wr_completed")), (256, 1));
    assert_eq!((last(&receiver, "total_data_pkts_rx"), last(&receiver, "total_data_bytes_rx")), (256, 1 << 20));
    assert_eq!(last(&receiver, "total_sack_pkts_tx"), last(&sender, "total_sack_pkts_rx"));
    let rtts: Vec<f64> = sender.iter().filter_map(|row| row["calc_mean_rtt_ns"].parse().ok()).collect();
    assert!(!rtts.is_empty() && rtts.iter().all(|&rtt| (2_000.0..50_000.0).contains(&rtt)), "{rtts:?}");
}

#[test]
fn a_scenario_records_what_its_configuration_says_and_its_capture_is_in_virtual_time() {
    let dir = tempfile::tempdir().unwrap();
    let (scenario, records) = (dir.path().join("one.toml"), dir.path().join("out"));
    let capture = dir.path().join("one.pcapng");
    fs::write(&scenario, ONE_MESSAGE.replace("base_rtt = \"6us\"", "config = \"nic.toml\"")).unwrap();
    fs::write(dir.path().join("nic.toml"), EVERYTHING).unwrap();
    Command::cargo_bin("mrcnic")
        .unwrap()
        .arg("sim")
        .arg(&scenario)
        .args(["--record-format", "jsonl", "--set", "monitor.log_rx=false", "--records"])
        .arg(&records)
        .arg("--capture")
        .arg(&capture)
        .assert()
        .success();
    for name in ["mrc-transport-stats", "mrc-events", "flows", "links", "evs"] {
        let text = fs::read_to_string(records.join(format!("{name}.jsonl"))).unwrap();
        assert!(text.lines().next().is_some_and(|line| line.starts_with("{\"time_us\":")), "{name}");
    }
    let monitor = fs::read_to_string(records.join("mrc-monitor.jsonl")).unwrap();
    let rows: Vec<Value> = monitor.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let data: Vec<&Value> = rows.iter().filter(|row| row["type"] == "write").collect();
    assert!(rows.iter().all(|row| row["direction"] == "tx"));
    let values: std::collections::BTreeSet<u64> = data.iter().map(|row| row["ev"].as_u64().unwrap()).collect();
    assert_eq!((data.len(), values.len()), (256, 72));
    let mut reader = pcap_file::pcapng::PcapNgReader::new(fs::File::open(&capture).unwrap()).unwrap();
    let mut last = std::time::Duration::ZERO;
    let mut packets = 0;
    while let Some(block) = reader.next_block() {
        if let pcap_file::pcapng::Block::EnhancedPacket(packet) = block.unwrap() {
            assert!(packet.timestamp >= last);
            (last, packets) = (packet.timestamp, packets + 1);
        }
    }
    assert_eq!(packets, rows.len());
    assert!(last < std::time::Duration::from_micros(100));
}

fn bench() -> Command {
    let mut command = Command::cargo_bin("mrcnic").unwrap();
    command.args(["bench", "--seconds", "0.05", "--sizes", "65536", "--workers", "1", "--json"]);
    command
}

#[test]
fn a_living_bench_records_every_packet_or_counts_it_as_lost_and_its_capture_decodes() {
    let dir = tempfile::tempdir().unwrap();
    let (config, records, capture) =
        (dir.path().join("nic.toml"), dir.path().join("out"), dir.path().join("bench.pcapng"));
    // The sum of what both NICs send and receive in this time may be more than the default cap.
    fs::write(&config, format!("{EVERYTHING}[monitor]\nmonitor_row_cap = 4000\n")).unwrap();
    let output =
        bench().arg("--config").arg(&config).arg("--records").arg(&records).arg("--capture").arg(&capture).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = &report["records"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    let shown = rows(&records.join("mrc-monitor.csv"));
    assert_eq!(shown.len() as u64, count("monitor_rows"));
    let lost = count("lost_packets");
    assert!(count("monitor_rows") + lost >= 4000 && count("monitor_rows") <= 4000, "{counts}");
    // A row without its bytes, or neither: each packet is lost once.
    assert!(count("captured") + lost >= 4000, "{counts}");
    assert!(shown.iter().all(|row| row["verdict"] == "sent" || row["verdict"] == "taken"));
    let decoded = Command::cargo_bin("mrcnic").unwrap().args(["decode", "--json"]).arg(&capture).output().unwrap();
    assert!(decoded.status.success());
    let frames: Vec<Value> =
        String::from_utf8(decoded.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(frames.len() as u64, count("captured"));
    assert!(frames.iter().all(|frame| frame["icrc_ok"] == true));
    let events = rows(&records.join("mrc-events.csv"));
    assert_eq!(events.len() as u64, count("event_rows"));
    if count("lost_events") == 0 {
        let of = |event: &str| events.iter().filter(|row| row["event"] == event).count();
        assert_eq!((of("qp_created"), of("wr_created")), (2, of("wr_completed")));
        assert!(of("wr_created") as u64 >= report["results"][0]["messages"].as_u64().unwrap());
    }
    assert!(count("stats_rows") > 10);
}

#[test]
fn a_capture_keeps_as_much_of_a_packet_as_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let capture = dir.path().join("bench.pcapng");
    bench().arg("--capture").arg(&capture).args(["--snaplen", "96"]).assert().success();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(fs::File::open(&capture).unwrap()).unwrap();
    let (mut packets, mut comments) = (0, 0);
    while let Some(block) = reader.next_block() {
        let pcap_file::pcapng::Block::EnhancedPacket(packet) = block.unwrap() else { continue };
        assert!(packet.data.len() <= 96 && packet.original_len as usize >= packet.data.len());
        packets += 1;
        comments += usize::from(packet.options.iter().any(|option| {
            let pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption::Comment(text) = option else {
                return false;
            };
            text.starts_with("tx; ") || text.starts_with("rx: taken; ") || text.starts_with("rtx after ")
        }));
    }
    assert!(packets > 100);
    assert_eq!(packets, comments);
}

#[test]
fn records_that_cannot_be_written_are_a_usage_error_before_and_a_failure_after() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    bench().arg("--records").arg(file.join("x")).assert().code(2).stderr(contains("can't write records into"));
    bench().arg("--capture").arg(dir.path()).assert().code(2).stderr(contains("can't write a capture into"));
    bench()
        .args(["--capture", "/dev/full"])
        .assert()
        .code(1)
        .stderr(contains("the records are not complete").and(contains("No space left on device")));
    bench().args(["--capture", "x", "--snaplen", "0"]).assert().code(2).stderr(contains("1..=65535"));
}

#[test]
fn the_documentation_names_every_column_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), Format::Csv);
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/records.md")).unwrap();
    for name in ["mrc-transport-stats", "mrc-events", "mrc-monitor"] {
        let (_, section) = page.split_once(&format!("\n## `{name}`\n")).unwrap();
        let table = section.split("\n## ").next().unwrap();
        let first_cells =
            table.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        let named: Vec<&str> = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let mut columns = csv::Reader::from_path(dir.path().join(format!("{name}.csv"))).unwrap();
        assert_eq!(named, columns.headers().unwrap().iter().collect::<Vec<_>>(), "{name}");
    }
}

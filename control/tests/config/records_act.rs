//! Where the attributes of records act: a run that has packets and events of every kind, seen by recorders that are set up in each way.

use super::read;
use control::config::attributes;
use control::records::{Format, Node, RecordSpec, RecordTap, Recorder};
use dataplane::Ns;
use dataplane::nic::{Nic, NicParams, NicSample};
use dataplane::time::{MS, US};
use dataplane::transport::TransportParams;
use dataplane::wire::{Bth, Ext, Nack, NackReason, Opcode};
use mrcnic_tests::{Channel, Pair};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the records of a run have.
struct Run {
    stats: Vec<Value>,
    events: Vec<Value>,
    monitor: Vec<Value>,
}

fn lines(path: &std::path::Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap_or_default().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn nack(pair: &Pair, to: u32, psn: u32, reason: NackReason) -> Vec<u8> {
    let nack = Nack {
        reason: reason as u8,
        vendor_info: 0,
        entropy: 300,
        spdcid: 0,
        dpdcid: 0,
        nack_psn: psn,
        cc_type: 2,
        cc_flags: 0,
        tx_timestamp: 0,
    };
    pair.frame(1, 46, Bth::new(Opcode::Nack, to, psn), &Ext::Nack(nack), &[])
}

/// Two NICs over a bad channel with two QPs between them, the second of which breaks; `settings` say what is recorded.
fn run(settings: &str) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let records = read(settings).config.setup().records;
    let spec = RecordSpec { dir: Some(dir.path().into()), format: Format::Jsonl, settings: records, capture: None };
    let nodes = ["a", "b"].iter().zip(0..).map(|(name, id)| (Node { id, name: (*name).into() }, 1)).collect();
    let recorder = Arc::new(Mutex::new(Recorder::create(&spec, nodes, Duration::ZERO).unwrap()));
    let totals = Arc::default();
    let params = NicParams {
        transport: TransportParams { sack_loss_min_retx_pkts: 16, ..TransportParams::default() },
        ..NicParams::default()
    };
    let mut pair = Pair::new(params, 1 << 20, Channel { loss: 0.02, trim: 0.05, ..Channel::default() }, 3);
    for (n, nic) in pair.nics.iter_mut().enumerate() {
        nic.set_tap(RecordTap::direct(&spec, n, n as u32, &totals, &recorder));
    }
    let qps = [pair.connect(0), pair.connect(5_000)];
    for (n, qp) in qps.iter().enumerate() {
        pair.nics[0].post_write(qp.qpn[0], &pair.write(n as u64, 0, 0, 300_000)).unwrap();
    }
    let every = spec.settings.transport_stats_ns;
    let mut next = every.unwrap_or(u64::MAX);
    for step in 1..=300 {
        pair.run_until(Ns(step * 10 * US));
        if step == 1 {
            for reason in [NackReason::TrimmedLastHop, NackReason::PsnOutOfWindow, NackReason::NoBitmap] {
                pair.inject(0, nack(&pair, qps[0].qpn[0].get(), 3, reason));
            }
        }
        if step == 20 {
            // A path is probed on behalf of the control thread, and the second QP breaks.
            let (now, peer) = (pair.now, pair.address(1));
            pair.nics[0].probe_destination(now, peer, 300);
            pair.inject(0, nack(&pair, qps[1].qpn[0].get(), 5_003, NackReason::UnexpectedEvent));
        }
        if step * 10 * US >= next {
            next += every.unwrap_or(u64::MAX);
            let sample = |nic: &mut Nic| -> NicSample { nic.sample(Ns(step * 10 * US)) };
            let [a, b] = &mut pair.nics;
            let mut recorder = recorder.lock().unwrap();
            recorder.sample(0, 0, sample(a));
            recorder.sample(1, 0, sample(b));
        }
    }
    assert!(pair.now < Ns(4 * MS));
    recorder.lock().unwrap().finish().unwrap();
    let file = |name: &str| lines(&dir.path().join(format!("{name}.jsonl")));
    Run { stats: file("mrc-transport-stats"), events: file("mrc-events"), monitor: file("mrc-monitor") }
}

fn monitored(settings: &str) -> Vec<Value> {
    run(&format!("nic.enable_monitor = true\n{settings}")).monitor
}

/// What a row of the monitor is, as far as a switch may ask.
fn is(row: &Value, column: &str, value: &str) -> bool {
    row[column] == value
}

/// Rows of `all` that `keep` lets through.
fn rest(all: &[Value], keep: impl Fn(&Value) -> bool) -> Vec<Value> {
    all.iter().filter(|row| keep(row)).cloned().collect()
}

#[test]
fn statistics_come_at_their_interval_and_only_where_they_are_switched_on() {
    let default = run("");
    assert!(default.events.is_empty() && default.monitor.is_empty());
    let times = |run: &Run| run.stats.iter().map(|row| row["time_us"].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(times(&default), [1000.0, 1000.0, 2000.0, 2000.0, 3000.0, 3000.0]);
    let often = run("nic.transport_stats_report_interval = \"10us\"");
    assert_eq!((often.stats.len(), times(&often)[0]), (600, 10.0));
    assert!(run("nic.enable_transport_stats = false").stats.is_empty());
}

#[test]
fn events_are_written_where_they_are_switched_on() {
    let events = run("nic.enable_event_logging = true").events;
    let count = |event: &str| events.iter().filter(|row| is(row, "event", event)).count();
    assert_eq!((count("qp_created"), count("wr_created"), count("wr_completed"), count("qp_error")), (4, 2, 2, 1));
}

#[test]
fn each_switch_of_the_monitor_takes_away_its_packets_and_no_others() {
    let all = monitored("");
    type Takes = fn(&Value) -> bool;
    let cases: [(&str, Takes); 12] = [
        ("log_write", |row| is(row, "type", "write")),
        ("log_ack", |row| is(row, "type", "ack")),
        ("log_sack", |row| is(row, "type", "sack")),
        ("log_nack", |row| is(row, "type", "nack")),
        ("log_probe", |row| is(row, "type", "probe")),
        ("log_tx", |row| is(row, "direction", "tx")),
        ("log_rx", |row| is(row, "direction", "rx")),
        ("log_rtx", |row| is(row, "direction", "rtx")),
        ("log_nack_trimmed", |row| is(row, "direction", "rx") && is(row, "nack_code", "trimmed")),
        ("log_nack_trimmed_last_hop", |row| is(row, "direction", "rx") && is(row, "nack_code", "trimmed_last_hop")),
        ("log_nack_psn_oor", |row| is(row, "direction", "rx") && is(row, "nack_code", "psn_oor")),
        ("log_nack_unexp", |row| is(row, "direction", "rx") && is(row, "nack_code", "unexpected_event")),
    ];
    for (switch, takes) in cases {
        let taken = all.iter().filter(|row| takes(row)).count();
        assert!(taken > 0, "{switch}: nothing to take away");
        assert_eq!(monitored(&format!("monitor.{switch} = false")), rest(&all, |row| !takes(row)), "{switch}");
    }
}

#[test]
fn each_filter_of_the_monitor_lets_its_queue_pairs_through() {
    let all = monitored("");
    let ends = |row: &Value, side: &str| {
        format!("{}:{}", row[format!("{side}_addr")].as_str().unwrap(), row[format!("{side}_qp")])
    };
    let address = |row: &Value, side: &str| row[format!("{side}_addr")].as_str().unwrap().to_owned();
    let (local, remote) = (ends(&all[0], "local"), ends(&all[0], "remote"));
    let (here, there) = (address(&all[0], "local"), address(&all[0], "remote"));
    type Keeps<'a> = Box<dyn Fn(&Value) -> bool + 'a>;
    let cases: [(&str, &str, Keeps<'_>); 7] = [
        ("filter_local_endpoint", &local, Box::new(|row| ends(row, "local") == local)),
        ("filter_remote_endpoint", &remote, Box::new(|row| ends(row, "remote") == remote)),
        (
            "filter_either_endpoint",
            &remote,
            Box::new(|row| ends(row, "remote") == remote || ends(row, "local") == remote),
        ),
        ("filter_local_addr", &here, Box::new(|row| address(row, "local") == here)),
        ("filter_remote_addr", &there, Box::new(|row| address(row, "remote") == there)),
        ("filter_either_addr", "10.9.9.9", Box::new(|_| false)),
        ("filter_node_id", "1", Box::new(|row| row["node_id"] == 1)),
    ];
    for (filter, value, keeps) in cases {
        let shown = monitored(&format!("monitor.{filter} = {value:?}"));
        assert_eq!(shown, rest(&all, keeps), "{filter}");
        assert!(shown.len() < all.len(), "{filter}");
    }
    assert_eq!(monitored(&format!("monitor.filter_either_addr = {here:?}")), all);
}

#[test]
fn triggers_and_caps_of_the_monitor_act_on_a_whole_run() {
    let all = monitored("");
    let closed = "monitor.filter_node_id = \"9\"\n";
    assert!(monitored(closed).is_empty());
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for trigger in ["trim", "nack", "qp_error", "rto"] {
        let rows = monitored(&format!("{closed}monitor.monitor_triggers = {trigger:?}"));
        assert!(!rows.is_empty() && rows.len() < all.len(), "{trigger}: {}", rows.len());
        // From a moment on all packets of a queue pair are there.
        let (first, end) = (&rows[0], (&rows[0]["node_id"], &rows[0]["local_qp"]));
        let of_end = |row: &Value| (&row["node_id"], &row["local_qp"]) == end;
        let from = all.iter().position(|row| row == first).unwrap();
        assert_eq!(rest(&rows, of_end), rest(&all[from..], of_end), "{trigger}");
        shown.insert(trigger, rows.len());
    }
    let both = format!("{closed}monitor.monitor_triggers = \"trim,nack\"\n");
    let queue_pairs = |rows: &[Value]| {
        let mut ends: Vec<String> = rows.iter().map(|row| format!("{}{}", row["node_id"], row["local_qp"])).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.len()
    };
    assert_eq!(queue_pairs(&monitored(&both)), 4);
    assert_eq!(queue_pairs(&monitored(&format!("{both}monitor.monitor_trigger_qp_cap = 1"))), 1);
    let uncapped = "monitor.monitor_trigger_qp_cap = 1\nmonitor.enable_monitor_trigger_qp_cap = false";
    assert_eq!(queue_pairs(&monitored(&format!("{both}{uncapped}"))), 4);
    assert_eq!(monitored("monitor.monitor_row_cap = 17"), all[..17]);
    assert_eq!(monitored("monitor.monitor_row_cap = 17\nmonitor.enable_monitor_row_cap = false"), all);
}

#[test]
fn every_attribute_of_records_is_seen_to_act_here() {
    let source = include_str!("records_act.rs");
    let of_records = attributes().filter(|attribute| matches!(attribute.acts, control::config::Acts::Records(_)));
    let missing: Vec<&str> = of_records.map(|attribute| attribute.key).filter(|key| !source.contains(key)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

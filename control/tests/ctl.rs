//! `mrcnic ctl` against a running bench, by the binary.

use crate::running::{Running, mrcnic, until};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_value_that_is_denied_while_the_bench_goes_on_is_unused_from_then_on() {
    let running = Running::start(&["--workers", "2"]);
    let list = running.ask(&["ev", "list"]).unwrap();
    let evs = list["destinations"][0]["evs"].as_array().unwrap().clone();
    assert_eq!(evs.len(), 72);
    let ev = evs[0]["ev"].as_u64().unwrap();
    assert_eq!(running.ask(&["ev", "deny", &ev.to_string()]).unwrap()["changed"], true);
    std::thread::sleep(Duration::from_millis(100));
    let (sent, state) = running.ev(ev);
    assert_eq!(state, "denied");
    let others = |running: &Running| {
        let list = running.ask(&["ev", "list"]).unwrap();
        let evs = list["destinations"][0]["evs"].as_array().unwrap().clone();
        evs.iter().filter(|entry| entry["ev"] != ev).map(|entry| entry["sent"].as_u64().unwrap()).sum::<u64>()
    };
    let before = others(&running);
    std::thread::sleep(Duration::from_millis(300));
    assert!(others(&running) > before, "the bench goes on");
    assert_eq!(running.ev(ev), (sent, "denied".to_owned()));
    assert_eq!(running.ask(&["ev", "deny", &ev.to_string()]).unwrap()["changed"], false);
    assert_eq!(running.ask(&["status"]).unwrap()["nics"][0]["denied"][0]["ev"], ev);
    assert_eq!(running.ask(&["ev", "allow", &format!("{ev:#x}")]).unwrap()["changed"], true);
    let report = running.end();
    assert_eq!(report["results"][0]["verified"], true);
}

#[test]
fn a_probe_by_command_is_sent_and_answered() {
    let running = Running::start(&["--workers", "1"]);
    let list = running.ask(&["ev", "list"]).unwrap();
    let peer = list["destinations"][0]["destination"].as_str().unwrap().to_owned();
    let answer = running.ask(&["probe", &peer, "--ev", "300"]).unwrap();
    assert_eq!((answer["ev"].as_u64(), answer["destination"].as_str()), (Some(300), Some(peer.as_str())));
    let any = running.ask(&["probe", &peer]).unwrap();
    assert!((256..384).contains(&any["ev"].as_u64().unwrap()), "one of the NIC's own: {any}");
    let nobody = running.ask(&["probe", "10.9.9.9"]).unwrap_err();
    assert!(nobody.contains("no QP is open with that address"), "{nobody}");
    assert!(running.ask(&["--nic", "b", "status"]).is_ok());
    let error = running.ask(&["--nic", "c", "ev", "list"]).unwrap_err();
    assert!(error.contains("there are: a, b"), "{error}");
    running.end();
}

#[test]
fn the_socket_is_for_its_user_alone_and_what_is_no_request_is_refused() {
    use std::io::{BufRead, BufReader, Write};
    let running = Running::start(&["--workers", "1"]);
    let mode = std::fs::metadata(running.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = std::os::unix::net::UnixStream::connect(running.socket()).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for line in ["not json", "{}", r#"{"cmd":"ev_deny","nic":"a"}"#, r#"{"cmd":"status","more":1}"#] {
        writeln!(stream, "{line}").unwrap();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["ok"], false, "{line}");
        assert!(answer["error"].as_str().unwrap().contains("no request"), "{answer}");
    }
    writeln!(stream, r#"{{"cmd":"status"}}"#).unwrap();
    let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(answer["ok"], true);
    drop((stream, lines));
    running.end();
}

/// Packets that NIC a sent by each of its ports, from the first.
fn sent_by_port(running: &Running, ports: usize) -> Vec<u64> {
    let list = running.ask(&["ev", "list"]).unwrap();
    let mut sent = vec![0; ports];
    for entry in list["destinations"][0]["evs"].as_array().unwrap() {
        sent[entry["port"].as_u64().unwrap() as usize - 1] += entry["sent"].as_u64().unwrap();
    }
    sent
}

#[test]
fn a_port_that_is_taken_down_carries_nothing_from_either_side_until_it_is_up_again() {
    let running = Running::start(&["--workers", "2", "--planes", "4"]);
    assert_eq!(running.ask(&["port", "down", "2"]).unwrap()["changed"], true);
    assert_eq!(running.ask(&["port", "down", "2"]).unwrap()["changed"], false);
    let peers_of_b = || running.ask(&["status"]).unwrap()["nics"][1]["peers"].clone();
    until("NIC b hears of it", || peers_of_b()[0]["ports_out"] == serde_json::json!([2]));
    until("and NIC a that it did", || running.ask(&["status"]).unwrap()["nics"][0]["peers_untold"] == 0);
    let status = running.ask(&["status"]).unwrap();
    let expected = serde_json::json!({ "port": 2, "link": true, "admin": false, "in_use": false });
    assert_eq!(status["nics"][0]["ports"][1], expected);
    let before = sent_by_port(&running, 4);
    until("the others carry on", || {
        let now = sent_by_port(&running, 4);
        [0, 2, 3].iter().all(|&port| now[port] > before[port] + 100)
    });
    let stood_still = sent_by_port(&running, 4)[1];
    assert_eq!(stood_still, before[1]);
    // The other way: NIC b's own port 3 is used no more by NIC a.
    running.ask(&["--nic", "b", "port", "down", "3"]).unwrap();
    let peers_of_a = || running.ask(&["status"]).unwrap()["nics"][0]["peers"].clone();
    until("NIC a hears of it", || peers_of_a()[0]["ports_out"] == serde_json::json!([3]));
    let before = sent_by_port(&running, 4);
    until("the others carry on", || sent_by_port(&running, 4)[0] > before[0] + 100);
    assert_eq!(sent_by_port(&running, 4)[1..3], before[1..3]);
    running.ask(&["port", "up", "2"]).unwrap();
    running.ask(&["--nic", "b", "port", "up", "3"]).unwrap();
    until("both carry again", || {
        let now = sent_by_port(&running, 4);
        now[1] > stood_still && now[2] > before[2]
    });
    let error = running.ask(&["port", "down", "5"]).unwrap_err();
    assert!(error.contains("the NIC has ports 1 to 4"), "{error}");
    let report = running.end();
    assert_eq!((&report["results"][0]["verified"], &report["results"][0]["errors"]), (&true.into(), &0.into()));
}

/// A profile of four structured EVs over two ports.
const EXPLICIT: &str = r#"
# Two hops of 8 bits, and 16 for the last tier to hash.
id = 7
mode = "explicit"
ports = [1, 2]
format = { kind = "stev", widths = [8, 8, 16] }
evs = [
  { ev = 0x01010001, port = 1 },
  { ev = 0x01020001, port = 1 },
  { ev = 0x02010001, port = 2 },
  { ev = 0x02020001, port = 2 },
]
"#;

#[test]
fn an_ev_is_replaced_while_the_bench_goes_on_and_its_profile_stays_online_as_long_as_qps_use_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile.toml");
    std::fs::write(&file, EXPLICIT).unwrap();
    let running = Running::start(&["--workers", "2", "--planes", "2", "--ev-profile", file.to_str().unwrap()]);
    let list = running.ask(&["ev", "list"]).unwrap();
    assert!(list["destinations"][0]["destination"].as_str().unwrap().contains(':'), "IPv6 carries structured EVs");
    let replaced = running.ask(&["ev", "replace", "0x02010001", "0x02030001"]).unwrap();
    assert_eq!(
        (&replaced["profile"], &replaced["places"], &replaced["new"]["port"]),
        (&7.into(), &1.into(), &2.into())
    );
    until("the new one is used", || {
        let list = running.ask(&["ev", "list"]).unwrap();
        let evs = list["destinations"][0]["evs"].as_array().unwrap();
        assert!(evs.iter().all(|entry| entry["profile"] == 7));
        let listed: Vec<u64> = evs.iter().map(|entry| entry["ev"].as_u64().unwrap()).collect();
        assert_eq!(evs.len(), 4);
        !listed.contains(&0x0201_0001) && evs.iter().any(|e| e["ev"] == 0x0203_0001 && e["sent"].as_u64().unwrap() > 0)
    });
    let shown = running.ask(&["profile", "show", "7"]).unwrap()["profile"].clone();
    assert_eq!(
        (&shown["state"], &shown["qps"], &shown["evs"][2]["ev"]),
        (&"online".into(), &1.into(), &0x0203_0001.into())
    );
    for (args, said) in [
        (&["profile", "offline", "7"][..], "used by 1 QP"),
        (&["profile", "remove", "7"], "ONLINE"),
        (&["ev", "replace", "0x02010001", "0x02040001"], "in no explicit profile"),
        (&["ev", "replace", "0x02020001", "0x02010001", "--port", "3"], "is for port 3"),
        (&["profile", "create", "--file", file.to_str().unwrap()], "exists already"),
    ] {
        let error = running.ask(args).unwrap_err();
        assert!(error.contains(said), "{args:?}: {error}");
    }
    let report = running.end();
    assert_eq!((&report["results"][0]["verified"], &report["results"][0]["errors"]), (&true.into(), &0.into()));
}

#[test]
fn a_profile_is_created_taken_online_and_offline_and_removed() {
    let running = Running::start(&["--workers", "1", "--planes", "2"]);
    let state = || running.ask(&["status"]).unwrap()["nics"][0]["profiles"].clone();
    running.ask(&["profile", "create", "3"]).unwrap();
    assert_eq!(state()[0]["state"], "offline");
    running.ask(&["profile", "online", "3"]).unwrap();
    assert_eq!((&state()[0]["state"], &state()[0]["mode"]), (&"online".into(), &"auto".into()));
    assert_eq!(running.ask(&["profile", "show"]).unwrap()["profiles"], state());
    running.ask(&["profile", "offline", "3"]).unwrap();
    running.ask(&["profile", "remove", "3"]).unwrap();
    assert_eq!(state(), serde_json::json!([]));
    assert!(running.ask(&["profile", "show", "3"]).unwrap_err().contains("does not exist"));
    for (args, said) in
        [(&["profile", "create"][..], "ID"), (&["profile", "create", "--file", "/nonexistent/x"], "/nonexistent/x")]
    {
        let output = running.ctl(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(said));
    }
    running.end();
}

#[test]
fn a_follower_sees_denials_and_ports_and_blocks_nobody() {
    use std::io::{BufRead, BufReader};
    let running = Running::start(&["--workers", "1", "--planes", "2"]);
    let mut follower = mrcnic()
        .args(["ctl", "--socket"])
        .arg(running.socket())
        .args(["events", "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut wait_for = |what: Value| {
        let so = |event: &Value| what.as_object().unwrap().iter().all(|(key, value)| event[key] == *value);
        loop {
            let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert!(event["time_us"].is_u64() && event["dropped"].is_u64(), "{event}");
            if so(&event) {
                return;
            }
        }
    };
    let ev = running.ask(&["ev", "list"]).unwrap()["destinations"][0]["evs"][0]["ev"].clone();
    running.ask(&["ev", "deny", &ev.to_string()]).unwrap();
    wait_for(serde_json::json!({ "event": "ev", "nic": "a", "ev": ev, "state": "denied" }));
    running.ask(&["port", "down", "2"]).unwrap();
    wait_for(serde_json::json!({ "event": "port", "nic": "a", "port": 2, "in_use": false }));
    wait_for(serde_json::json!({ "event": "peer_ports", "nic": "b", "ports_out": [2] }));
    let output = running.ctl(&["--nic", "b", "events"]);
    let events: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["nic"] == "b"), "{events:?}");
    assert!(events.iter().any(|event| event["event"] == "peer_ports"), "{events:?}");
    running.end();
    // It ends with the NIC.
    assert!(follower.wait().unwrap().success());
}

#[test]
fn without_a_nic_at_the_socket_the_error_says_how_to_get_one() {
    let output = mrcnic().args(["ctl", "--socket", "/nonexistent/ctl", "status"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/nonexistent/ctl") && said.contains("--ctl"), "{said}");
    let output = mrcnic().args(["ctl", "--socket", "x", "ev", "deny", "0xgg"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("precious");
    std::fs::write(&path, "kept").unwrap();
    let output = mrcnic().args(["bench", "--seconds", "0.1", "--sizes", "64", "--ctl"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no socket"));
    assert_eq!(std::fs::read_to_string(Path::new(&path)).unwrap(), "kept");
}

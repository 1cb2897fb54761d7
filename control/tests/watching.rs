//! A running bench as operators watch it: surveys, metrics and `mrcnic top`, by the binary.

use crate::exposition::Exposition;
use crate::running::{Running, mrcnic, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn qps_are_listed_with_their_peers_and_what_they_did() {
    let running = Running::start(&["--workers", "2", "--qps", "4"]);
    until("all send", || {
        let answer = running.ask(&["qps"]).unwrap();
        let qps = answer["qps"].as_array().unwrap();
        qps.len() == 4 && qps.iter().all(|qp| qp["sent"].as_u64() > Some(100))
    });
    let answer = running.ask(&["qps"]).unwrap();
    assert_eq!((&answer["left_out"], &answer["states"]["rts"]), (&0.into(), &4.into()));
    let peers = running.ask(&["--nic", "b", "qps"]).unwrap();
    for qp in answer["qps"].as_array().unwrap() {
        assert_eq!(
            (&qp["state"], &qp["local"], &qp["remote"]),
            (&"rts".into(), &"10.77.0.1".into(), &"10.78.0.1".into())
        );
        let is_it = |peer: &&Value| peer["qpn"] == qp["peer_qpn"] && peer["peer_qpn"] == qp["qpn"];
        let peer = peers["qps"].as_array().unwrap().iter().find(is_it).expect("its other end");
        assert!(peer["delivered_bytes"].as_u64() > Some(50 * 4096), "what the window does not hold has arrived");
    }
    let error = running.ask(&["--nic", "c", "qps"]).unwrap_err();
    assert!(error.contains("there are: a, b"), "{error}");
    running.end();
}

#[test]
fn a_survey_has_all_that_top_shows_in_one_answer_summed_over_workers() {
    let running = Running::start(&["--workers", "4", "--cores", "0,0,1,1", "--planes", "2", "--qps", "2"]);
    running.ask(&["port", "down", "2"]).unwrap();
    until("both workers of the peer know", || {
        let peers = running.ask(&["status"]).unwrap()["nics"][1]["peers"].clone();
        peers.as_array().unwrap().iter().filter(|peer| peer["ports_out"] == serde_json::json!([2])).count() == 2
    });
    let survey = running.ask(&["survey"]).unwrap();
    let [a, b] = &survey["nics"].as_array().unwrap()[..] else { panic!("two NICs: {survey}") };
    assert_eq!((&a["name"], &b["name"], &a["workers"]), (&"a".into(), &"b".into(), &2.into()));
    assert_eq!(a["silent_workers"], serde_json::json!([]));
    assert_eq!(a["ports"][1], serde_json::json!({ "port": 2, "link": true, "admin": false, "in_use": false }));
    assert_eq!((&a["qp_states"]["rts"], a["qps"].as_array().unwrap().len()), (&4.into(), 4));
    let destinations = a["destinations"].as_array().unwrap();
    assert_eq!(destinations.len(), 2, "one of each worker");
    for to in destinations {
        assert_eq!((&to["window"], &to["qps"], to["evs"].as_array().unwrap().len()), (&131_072.into(), &2.into(), 72));
        assert_eq!(to["ev_states"]["port_out"], 36);
    }
    assert_eq!(b["destinations"][0]["peer_ports_out"], serde_json::json!([2]));
    let sent: u64 = a["qps"].as_array().unwrap().iter().map(|qp| qp["sent"].as_u64().unwrap()).sum();
    assert!(a["counters"]["tx_data"].as_u64().unwrap() >= sent, "counters are read after the QPs");
    let one = running.ask(&["--nic", "b", "survey"]).unwrap();
    assert_eq!((one["nics"].as_array().unwrap().len(), &one["nics"][0]["name"]), (1, &"b".into()));
    running.end();
}

/// A port that nobody listened at a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Sends a request, and reads all that comes: the head, and the body.
fn exchange<S: Read + Write>(mut stream: S, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: nic\r\n\r\n";

#[test]
fn metrics_are_well_formed_and_the_same_over_the_socket_over_http_and_over_a_unix_socket() {
    let port = free_port();
    let running = Running::start(&[
        "--workers",
        "2",
        "--planes",
        "2",
        "--depth",
        "16",
        "--loss",
        "0.01",
        "--metrics",
        &format!("127.0.0.1:{port}"),
    ]);
    let list = running.ask(&["ev", "list"]).unwrap();
    let ev = list["destinations"][0]["evs"][0]["ev"].as_u64().unwrap();
    running.ask(&["ev", "deny", &ev.to_string()]).unwrap();
    until("it is denied", || running.ev(ev).1 == "denied");
    running.ask(&["port", "down", "2"]).unwrap();
    until("packets are sent", || {
        let counters = running.ask(&["survey"]).unwrap()["nics"][0]["counters"].clone();
        counters["completed"].as_u64() > Some(1000) && counters["lost_by_timeout"].as_u64() > Some(0)
    });
    let by_ctl = running.ctl(&["metrics"]);
    assert!(by_ctl.status.success());
    let first = Exposition::parse(std::str::from_utf8(&by_ctl.stdout).unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let (head, body) = exchange(TcpStream::connect(("127.0.0.1", port)).unwrap(), GET);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    let second = Exposition::parse(&body).unwrap();
    assert_eq!(first.names(), second.names(), "both ways tell the same");
    for (series, value) in first.counters() {
        assert!(second.value(series) >= Some(value), "{series} went back");
    }
    let (a, b) = (r#"{nic="a"}"#, r#"{nic="b"}"#);
    assert!(second.value(&format!("mrcnic_tx_data_total{a}")) > Some(1000.0));
    assert!(second.value(&format!("mrcnic_placed_bytes_total{b}")) > Some(4e6));
    assert_eq!(second.value(r#"mrcnic_port_in_use{nic="a",port="2"}"#), Some(0.0));
    assert_eq!(second.value(r#"mrcnic_port_in_use{nic="b",port="2"}"#), Some(1.0));
    assert_eq!(second.value(r#"mrcnic_window_bytes{nic="a",destination="10.78.0.1"}"#), Some(131_072.0));
    assert_eq!(second.value(r#"mrcnic_qps{nic="a",state="rts"}"#), Some(1.0));
    assert_eq!(second.value(&format!("mrcnic_ev_denials{a}")), Some(1.0));
    assert!(second.value(r#"mrcnic_rtt_seconds{nic="a",destination="10.78.0.1"}"#).is_some_and(|s| s > 0.0 && s < 1.0));
    let values = ["good", "skip", "assumed_bad", "denied"].map(|state| {
        second.value(&format!(r#"mrcnic_evs{{nic="a",destination="10.78.0.1",state="{state}"}}"#)).unwrap()
    });
    assert_eq!((values.iter().sum::<f64>(), values[3]), (73.0, 1.0), "another one has its turn");
    running.end();
    // Over a UNIX socket, which is for its user alone and goes with the NIC.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("metrics");
    let running = Running::start(&["--workers", "1", "--metrics", &format!("unix:{}", socket.display())]);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    until("there is all that there was over TCP", || {
        let (_, body) = exchange(UnixStream::connect(&socket).unwrap(), GET);
        Exposition::parse(&body).unwrap().names() == second.names()
    });
    running.end();
    assert!(!socket.exists());
}

#[test]
fn clients_that_are_slow_or_hostile_hold_up_nobody() {
    let port = free_port();
    let running = Running::start(&["--workers", "1", "--metrics", &format!("127.0.0.1:{port}")]);
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Seven who say nothing, or never come to an end.
    let mut idle: Vec<TcpStream> = (0..7).map(|_| connect()).collect();
    idle[0].write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
    let began = Instant::now();
    let (head, body) = exchange(connect(), GET);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(Exposition::parse(&body).is_ok());
    assert!(began.elapsed() < Duration::from_secs(2), "it did not wait for the others");
    assert!(running.ask(&["status"]).is_ok(), "nor do operators");
    // Three more than there is room for, whatever became of the others by now.
    let silent: Vec<TcpStream> = (0..11).map(|_| connect()).collect();
    let told = silent.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut answer = String::new();
        let _ = (&mut &**stream).read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 503")
    });
    assert!(told.count() >= 3, "too many are told so");
    // They are closed after three seconds, and there is room again.
    until("there is room again", || {
        exchange_or_none(connect(), GET).is_some_and(|head| head.starts_with("HTTP/1.1 200"))
    });
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
        ("\u{1}\u{2}\r\n\r\n", "400"),
        (&format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000)), "431"),
    ] {
        let (head, _) = exchange(connect(), request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    }
    let (head, body) = exchange(connect(), "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{head}");
    drop(idle);
    running.end();
}

fn exchange_or_none(mut stream: TcpStream, request: &str) -> Option<String> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn an_address_that_others_reach_is_refused_unless_it_was_said() {
    let output = mrcnic().args(["bench", "--seconds", "0.1", "--metrics", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("public:0.0.0.0:0"), "{error}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = mrcnic().args(["bench", "--seconds", "0.1", "--metrics", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&address) && error.contains("can't serve metrics here"), "{error}");
}

#[test]
fn top_prints_one_frame_of_plain_text_with_rates() {
    let running =
        Running::start(&["--workers", "2", "--planes", "4", "--qps", "16", "--depth", "4", "--ack-timeout", "20000"]);
    running.ask(&["port", "down", "2"]).unwrap();
    let top = |args: &[&str]| {
        let output = mrcnic()
            .args(["top", "--interval", "500ms", "--socket"])
            .arg(running.socket())
            .args(args)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text, error) = top(&["--once"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let parts = [
        "NIC a (1 of 2)",
        "2 ● taken down",
        "packets out",
        "bit/s",
        "EVs to 10.78.0.1",
        "p4 ",
        "QPs",
        "128 KiB",
        "constant",
    ];
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    assert_eq!(text.matches("0x0100").count(), 32, "16 QPs, each with its peer's number:\n{text}");
    assert!(!text.contains('\u{1b}'), "it is plain text");
    let (code, text, _) = top(&["--once", "--nic", "b"]);
    assert!(code == Some(0) && text.contains("NIC b (2 of 2)"), "{text}");
    let (code, _, error) = top(&["--once", "--nic", "c"]);
    assert!(code == Some(2) && error.contains("there are: a, b"), "{error}");
    let (code, _, error) = top(&[]);
    assert!(code == Some(2) && error.contains("--once"), "{error}");
    running.end();
    let output = mrcnic().args(["top", "--once", "--socket", "/nonexistent/ctl"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no NIC listens here"));
}

/// What `mrcnic top` wrote to a terminal of its own, and its exit code, after `end` had its way with the process and the bench.
fn on_a_terminal(
    running: Running,
    interval: &str,
    end: impl FnOnce(Running, &mut std::process::Child, u32),
) -> (String, Option<i32>) {
    let socket = running.socket();
    let command = format!(
        "stty cols 100 rows 30; exec {} top --interval {interval} --socket {}",
        mrcnic_path(),
        socket.display()
    );
    let mut child = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut written = Vec::new();
    // Once the first rates are there, it is at work.
    let began = Instant::now();
    while !String::from_utf8_lossy(&written).contains("lines: last") {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", String::from_utf8_lossy(&written));
        let mut piece = [0; 4096];
        let read = out.read(&mut piece).unwrap();
        assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&written));
        written.extend_from_slice(&piece[..read]);
    }
    let top = child_of(child.id());
    end(running, &mut child, top);
    out.read_to_end(&mut written).unwrap();
    let code = child.wait().unwrap().code();
    (String::from_utf8_lossy(&written).into_owned(), code)
}

fn mrcnic_path() -> String {
    mrcnic().get_program().to_str().unwrap().to_owned()
}

fn child_of(parent: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    children.split_whitespace().next().expect("a child").parse().unwrap()
}

/// The screen was taken over, and was given back in the end.
fn is_restored(written: &str) -> bool {
    let at = |sequence: &str| written.rfind(sequence);
    at("\u{1b}[?1049h").is_some() && at("\u{1b}[?1049l") > at("\u{1b}[?1049h") && at("\u{1b}[?25h") > at("\u{1b}[?25l")
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn top_gives_the_terminal_back_when_it_is_quit_or_killed_and_when_the_nic_ends() {
    let start = || Running::start(&["--workers", "1"]);
    let (written, code) = on_a_terminal(start(), "200ms", |running, child, _| {
        child.stdin.as_mut().unwrap().write_all(b"q").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        running.end();
    });
    assert!(is_restored(&written) && code == Some(0), "{code:?}: {written}");
    let (written, code) = on_a_terminal(start(), "200ms", |running, _, top| {
        signal("-TERM", top);
        std::thread::sleep(Duration::from_millis(500));
        running.end();
    });
    assert!(is_restored(&written) && code == Some(0), "{code:?}: {written}");
    let (written, code) = on_a_terminal(start(), "200ms", |running, _, _| drop(running.end()));
    assert!(is_restored(&written) && code == Some(0), "{code:?}: {written}");
    assert!(written.contains("the NIC has ended"), "{written}");
}

#[test]
fn top_ends_with_its_terminal() {
    on_a_terminal(Running::start(&["--workers", "1"]), "200ms", |running, child, top| {
        signal("-KILL", child.id());
        let began = Instant::now();
        let runs = || std::fs::read_to_string(format!("/proc/{top}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        while runs() {
            assert!(began.elapsed() < Duration::from_secs(20), "it runs without a terminal");
            std::thread::sleep(Duration::from_millis(50));
        }
        running.end();
    });
}

//! `mrcnic ctl` against a running bench, by the binary.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A bench that runs until it is interrupted.
struct Running {
    child: Option<Child>,
    dir: tempfile::TempDir,
}

fn mrcnic() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("mrcnic"))
}

impl Running {
    fn start(args: &[&str]) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("ctl");
        let child = mrcnic()
            .args(["bench", "--seconds", "600", "--sizes", "4096", "--json", "--ctl"])
            .arg(&socket)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let running = Running { child: Some(child), dir };
        let began = Instant::now();
        while !socket.exists() || running.ask(&["status"]).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "the bench did not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }

    fn socket(&self) -> std::path::PathBuf {
        self.dir.path().join("ctl")
    }

    fn ctl(&self, args: &[&str]) -> Output {
        mrcnic().args(["ctl", "--socket"]).arg(self.socket()).args(args).output().unwrap()
    }

    fn ask(&self, args: &[&str]) -> Result<Value, String> {
        let output = self.ctl(args);
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    }

    /// Packets that took `ev`, and its state.
    fn ev(&self, ev: u64) -> (u64, String) {
        let list = self.ask(&["ev", "list"]).unwrap();
        let evs = list["destinations"][0]["evs"].as_array().unwrap().clone();
        let found = evs.iter().find(|entry| entry["ev"] == ev).unwrap_or_else(|| panic!("{ev} is listed"));
        (found["sent"].as_u64().unwrap(), found["state"].as_str().unwrap().to_owned())
    }

    fn end(mut self) -> Value {
        let child = self.child.take().unwrap();
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(!self.socket().exists(), "the socket goes with the NIC");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

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
    running.ask(&["probe", &peer, "--ev", "300"]).unwrap();
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

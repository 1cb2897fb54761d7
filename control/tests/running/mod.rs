//! A bench that runs while it is asked things, by the binary.

use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A bench that runs until it is interrupted.
pub(crate) struct Running {
    child: Option<Child>,
    dir: tempfile::TempDir,
}

pub(crate) fn mrcnic() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("mrcnic"))
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Running {
        Running::start_with(args, Stdio::inherit())
    }

    /// With its standard error kept for [`Running::end_with_log`].
    pub(crate) fn start_logged(args: &[&str]) -> Running {
        Running::start_with(args, Stdio::piped())
    }

    fn start_with(args: &[&str], stderr: Stdio) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("ctl");
        let child = mrcnic()
            .args(["bench", "--seconds", "600", "--sizes", "4096", "--json", "--ctl"])
            .arg(&socket)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(stderr)
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

    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.dir.path().join("ctl")
    }

    pub(crate) fn ctl(&self, args: &[&str]) -> Output {
        mrcnic().args(["ctl", "--socket"]).arg(self.socket()).args(args).output().unwrap()
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Result<Value, String> {
        let output = self.ctl(args);
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    }

    /// Packets that took `ev`, and its state.
    pub(crate) fn ev(&self, ev: u64) -> (u64, String) {
        let list = self.ask(&["ev", "list"]).unwrap();
        let evs = list["destinations"][0]["evs"].as_array().unwrap().clone();
        let found = evs.iter().find(|entry| entry["ev"] == ev).unwrap_or_else(|| panic!("{ev} is listed"));
        (found["sent"].as_u64().unwrap(), found["state"].as_str().unwrap().to_owned())
    }

    pub(crate) fn end(self) -> Value {
        serde_json::from_slice(&self.interrupt().stdout).unwrap()
    }

    /// What it logged until its end.
    pub(crate) fn end_with_log(self) -> String {
        String::from_utf8(self.interrupt().stderr).unwrap()
    }

    fn interrupt(mut self) -> Output {
        let child = self.child.take().unwrap();
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!self.socket().exists(), "the socket goes with the NIC");
        output
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

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

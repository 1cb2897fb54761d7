//! The example `write`, in two processes.

#[allow(dead_code, reason = "the example's main is cargo's to call")]
#[path = "../../examples/write.rs"]
mod write;

use clap::Parser;
use std::process::{Command, Output, Stdio};

/// With it in the environment this program is one of the two processes.
const ROLE: &str = "MRCNIC_TEST_EXAMPLE";

fn output(child: std::process::Child) -> (bool, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn the_example_writes_from_one_process_into_the_other() {
    if let Ok(args) = std::env::var(ROLE) {
        let args = write::Args::parse_from(std::iter::once("write").chain(args.split(' ')));
        return write::run(args).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().display();
    let start = |role: &str, n: u8, way: &str| {
        let args = format!("--port net_memif0,role={role},socket={dir}/m --ip 10.0.0.{n} {way} {dir}/exchange");
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::example::the_example_writes_from_one_process_into_the_other", "--nocapture"])
            .env(ROLE, args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let (target, writer) = (start("server", 1, "--listen"), start("client", 2, "--connect"));
    let [(wrote, writer), (arrived, target)] = [output(writer), output(target)];
    assert!(wrote && arrived, "{writer}{target}");
    assert!(writer.contains("request 1 completed\nrequest 2 completed\n"), "{writer}");
    assert!(target.contains("1048576 bytes arrived, and the immediate 42\n"), "{target}");
}

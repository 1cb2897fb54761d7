//! The example `write`: two processes, by the binary that cargo builds of it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Examples are built beside the tests.
fn example() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/write")
}

fn start(args: &[String]) -> Child {
    Command::new(example()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn the_example_writes_from_one_process_into_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().display();
    let args = |role: &str, n: u8, way: &str| {
        let port = format!("net_memif0,role={role},socket={dir}/m");
        ["--port", &port, "--ip", &format!("10.0.0.{n}"), way, &format!("{dir}/exchange")].map(str::to_owned)
    };
    let target = start(&args("server", 1, "--listen"));
    let writer = start(&args("client", 2, "--connect"));
    let [writer, target] = [writer, target].map(|child| child.wait_with_output().unwrap());
    assert!(writer.status.success() && target.status.success(), "{writer:?} {target:?}");
    assert_eq!(String::from_utf8_lossy(&writer.stdout), "request 1 completed\nrequest 2 completed\n");
    assert_eq!(String::from_utf8_lossy(&target.stdout), "1048576 bytes arrived, and the immediate 42\n");
}

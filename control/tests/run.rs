//! `mrcnic run`: two processes over shared memory, by the binary.

mod veth;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SIZE: usize = 1 << 20;

fn mrcnic() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("mrcnic"))
}

/// What the file of NIC a or b has beside its peers. The timeouts are beyond the pauses of a worker on a shared core.
fn head(dir: &Path, name: &str, attributes: &str) -> String {
    let (role, n) = if name == "a" { ("server", 1) } else { ("client", 2) };
    let dir = dir.display();
    format!(
        r#"
[qp_manager]
initial_ack_timeout = "20ms"
{attributes}

[run]
name = "{name}"
ctl = "{dir}/{name}.sock"
listen = "{dir}/{name}.exchange"
drain = "3s"

[[run.port]]
device = "net_memif{n},role={role},socket={dir}/m,id=0,mac=02:00:00:00:00:0{n}"

[run.address]
ip = "10.0.0.{n}"
mac = "02:00:00:00:00:0{n}"

[[run.region]]
name = "main"
size = "1MiB"
file = "{dir}/{name}.mem"
"#
    )
}

fn peer(name: &str, more: &str) -> String {
    format!("\n[[run.peer]]\nname = \"{name}\"\nregion = \"main\"\n{more}\n")
}

/// A NIC that runs.
struct Nic {
    child: Child,
    stderr: BufReader<ChildStderr>,
    dir: PathBuf,
    name: &'static str,
}

impl Nic {
    fn start(dir: &Path, name: &'static str, file: &str) -> Nic {
        Nic::start_by(mrcnic(), dir, name, file)
    }

    /// Starts it by a command that becomes the binary, or is it.
    fn start_by(mut command: Command, dir: &Path, name: &'static str, file: &str) -> Nic {
        let path = dir.join(format!("{name}.toml"));
        std::fs::write(&path, file).unwrap();
        let mut child = command
            .args(["run", "--config"])
            .arg(&path)
            .env("NOTIFY_SOCKET", dir.join("notify"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // The first line comes once it is up.
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let mut nic = Nic { child, stderr, dir: dir.to_owned(), name };
        if !line.contains("up") {
            let mut rest = String::new();
            nic.stderr.read_to_string(&mut rest).unwrap();
            panic!("{name} did not come up: {line}{rest}");
        }
        nic
    }

    fn write_file(&self, file: &str) {
        std::fs::write(self.dir.join(format!("{}.toml", self.name)), file).unwrap();
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Has it read its file again, and what it says to that, up to the line with `last`.
    fn reload(&mut self, file: &str, last: &str) -> String {
        self.write_file(file);
        self.signal("-HUP");
        let mut said = String::new();
        while !said.lines().last().is_some_and(|line| line.contains(last)) {
            assert!(self.stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        said
    }

    fn ctl(&self, args: &[&str]) -> Command {
        let mut command = mrcnic();
        command.args(["ctl", "--socket"]).arg(self.dir.join(format!("{}.sock", self.name))).args(args);
        command
    }

    fn ask(&self, args: &[&str]) -> Result<Value, String> {
        answer(self.ctl(args).output().unwrap())
    }

    fn peer(&self, name: &str) -> Value {
        let answer = self.ask(&["peers"]).unwrap();
        let peers = answer["peers"].as_array().unwrap();
        peers.iter().find(|peer| peer["name"] == name).cloned().unwrap_or(Value::Null)
    }

    fn memory(&self) -> PathBuf {
        self.dir.join(format!("{}.mem", self.name))
    }

    /// Waits until it has ended: its exit code, and the rest of what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(output: Output) -> Result<Value, String> {
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => {
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8 ^ seed).collect()
}

#[test]
fn a_write_lands_in_the_peers_file_byte_for_byte_and_peers_come_with_a_signal_and_all_ends_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let connect = format!("connect = \"{}/a.exchange\"", dir.display());
    let manager = UnixDatagram::bind(dir.join("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let told = || {
        let mut text = [0; 64];
        let len = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    let profile =
        "\n[[run.profile]]\nid = 7\nmode = \"explicit\"\nformat.kind = \"udp\"\nports = [1]\nevs = [{ ev = 50000 }]\n";
    let (head_a, head_b) = (head(dir, "a", "") + profile, head(dir, "b", ""));
    let mut a = Nic::start(dir, "a", &(head_a.clone() + &peer("b", "profile = 7")));
    assert_eq!(told(), "READY=1");
    std::fs::write(a.memory(), pattern(0)).unwrap();
    let none = a.ask(&["write", "--peer", "b", "--size", "1MiB"]).unwrap_err();
    assert!(none.contains("no QPs with peer \"b\": it has not connected"), "{none}");
    let b = Nic::start(dir, "b", &(head_b.clone() + &peer("a", &connect)));
    until("they join", || a.peer("b")["state"] == "joined" && b.peer("a")["state"] == "joined");
    let written = a.ask(&["write", "--peer", "b", "--size", "1MiB", "--count", "20"]).unwrap();
    assert_eq!((written["messages"].as_u64(), written["bytes"].as_u64()), (Some(20), Some(20 << 20)));
    assert!(std::fs::read(b.memory()).unwrap() == pattern(0));
    let evs = a.ask(&["ev", "list"]).unwrap()["destinations"][0]["evs"].clone();
    assert_eq!(
        (evs.as_array().unwrap().len(), evs[0]["ev"].as_u64()),
        (1, Some(50_000)),
        "those of its profile: {evs}"
    );
    assert!(evs[0]["sent"].as_u64().unwrap() >= 20 * 256);
    // The other way, a part of it, with immediates.
    std::fs::write(b.memory(), pattern(7)).unwrap();
    let args = ["write", "--peer", "a", "--size", "4096", "--local", "4096", "--remote", "8192", "--imm", "0x2a"];
    assert_eq!(b.ask(&[&args[..], &["--count", "1000"]].concat()).unwrap()["messages"], 1000);
    let memory = std::fs::read(a.memory()).unwrap();
    assert!(memory[8192..12288] == pattern(7)[4096..8192] && memory[..8192] == pattern(0)[..8192]);
    until("each immediate is heard of", || a.peer("b")["immediates"] == 1000);
    assert_eq!(a.peer("b")["last_immediate"], 42);
    for (args, said) in [
        (vec!["--peer", "b", "--size", "1MiB", "--remote", "1"], "1048576 bytes at 1 leave the remote region"),
        (vec!["--peer", "b", "--size", "4096", "--local", "1MiB"], "leave the local region"),
        (vec!["--peer", "c", "--size", "1"], "there is no peer \"c\"; there are: b"),
    ] {
        let error = a.ask(&[&["write"], &args[..]].concat()).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    // A wrong file changes nothing, what can't change is named, and peers come, change and go.
    let wrong = a.reload(&(head_a.clone() + "\n[[run.peer]]\nnam = \"c\"\n"), "nothing was changed");
    assert!(wrong.contains("did you mean \"name\"?"), "{wrong}");
    let more = head_a.replace("drain = \"3s\"", "drain = \"2s\"\nworkers = 2") + &peer("b", "qps = 4") + &peer("c", "");
    let more = more.replace("drain = \"2s\"", "drain = \"2s\"\nlog = \"info\"");
    let said = a.reload(&more, "run.log: changed");
    assert!(said.contains("run.drain: changed") && !said.contains("INFO"), "{said}");
    for line in ["warning: run.workers can't change", "peer b: changed: joined anew", "peer c: new"] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(a.peer("c")["state"], "waiting");
    until("the peer is told why", || {
        b.peer("a")["trouble"].as_str().is_some_and(|why| why.contains("one end has 4 QPs and the other 1"))
    });
    b.write_file(&(head_b + &peer("a", &format!("{connect}\nqps = 4"))));
    b.signal("-HUP");
    until("they join anew", || a.peer("b")["qps"].as_array().is_some_and(|qps| qps.len() == 4));
    until("both", || b.peer("a")["state"] == "joined");
    assert_eq!(a.ask(&["write", "--peer", "b", "--size", "64KiB", "--count", "64"]).unwrap()["messages"], 64);
    let qps = b.peer("a")["qps"].as_array().unwrap().clone();
    assert!(qps.iter().all(|qp| qp["delivered_bytes"].as_u64().unwrap() > 0), "all of them carry: {qps:?}");
    let told: Vec<String> = std::iter::repeat_with(told).take_while(|what| !what.starts_with("STATUS=r")).collect();
    assert_eq!(told, ["READY=1"], "the other one; then files were read again");
    a.signal("-TERM");
    b.signal("-INT");
    for nic in [a, b] {
        let (name, socket) = (nic.name, dir.join(format!("{}.sock", nic.name)));
        let (code, said) = nic.end();
        assert_eq!(code, Some(0), "{name}: {said}");
        assert!(said.contains("down: nothing is in flight"), "{said}");
        assert_eq!(said.contains("joined peer=\"b\""), name == "a", "the one that logs since its file says so: {said}");
        assert!(!socket.exists());
    }
    let mut last = [0; 64];
    let told = std::iter::from_fn(|| manager.recv(&mut last).ok().map(|len| last[..len].to_vec()));
    assert!(told.take(20).any(|what| what == b"STOPPING=1"));
}

#[test]
fn a_peer_that_is_killed_in_the_middle_of_a_write_leaves_the_other_well_and_is_joined_anew_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let attributes = "linear_retry_count = 2\nexponential_retry_count = 2";
    let connect = format!("connect = \"{}/a.exchange\"", dir.display());
    let file_b = head(dir, "b", attributes) + &peer("a", &connect);
    let a = Nic::start(dir, "a", &(head(dir, "a", attributes) + &peer("b", "qps = 2")));
    let file_b = file_b.replace("region = \"main\"\nconnect", "region = \"main\"\nqps = 2\nconnect");
    let mut b = Nic::start(dir, "b", &file_b);
    until("they join", || a.peer("b")["state"] == "joined");
    let mut write = a.ctl(&["write", "--peer", "b", "--size", "64KiB", "--count", "100000000", "--timeout", "8"]);
    let write = write.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the write is under way", || b.peer("a")["qps"][0]["delivered_bytes"].as_u64() > Some(1 << 20));
    b.child.kill().unwrap();
    drop(b);
    let error = answer(write.wait_with_output().unwrap()).unwrap_err();
    assert!(error.contains("of 100000000 messages were written"), "{error}");
    until("it is known that the peer has gone", || a.peer("b")["state"] != "joined");
    let gone = a.ask(&["write", "--peer", "b", "--size", "1"]).unwrap_err();
    assert!(gone.contains("no QPs with peer"), "{gone}");
    assert_eq!(a.ask(&["status"]).unwrap()["nics"][0]["name"], "a");
    let b = Nic::start(dir, "b", &file_b);
    until("they join anew", || a.peer("b")["state"] == "joined");
    std::fs::write(a.memory(), pattern(3)).unwrap();
    a.ask(&["write", "--peer", "b", "--size", "1MiB"]).unwrap();
    assert!(std::fs::read(b.memory()).unwrap() == pattern(3));
    // A write under way when the NIC is told to go: what is in flight comes to its end, and no more is sent.
    let mut write = a.ctl(&["write", "--peer", "b", "--size", "64KiB", "--count", "100000000"]);
    let write = write.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the write is under way", || b.peer("a")["qps"][0]["delivered_bytes"].as_u64() > Some(2 << 20));
    a.signal("-TERM");
    let error = answer(write.wait_with_output().unwrap()).unwrap_err();
    assert!(error.contains("the NIC is going down") && !error.contains("in flight"), "{error}");
    let (code, said) = a.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 under way") && said.contains("down: nothing is in flight"), "{said}");
}

#[test]
fn a_second_signal_ends_a_nic_at_once_that_waits_for_what_is_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let connect = format!("connect = \"{}/a.exchange\"", dir.display());
    let file_a = head(dir, "a", "").replace("drain = \"3s\"", "drain = \"60s\"") + &peer("b", "");
    let a = Nic::start(dir, "a", &file_a);
    let mut b = Nic::start(dir, "b", &(head(dir, "b", "") + &peer("a", &connect)));
    until("they join", || a.peer("b")["state"] == "joined");
    let mut write = a.ctl(&["write", "--peer", "b", "--size", "64KiB", "--count", "100000000"]);
    let mut write = write.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the write is under way", || b.peer("a")["qps"][0]["delivered_bytes"].as_u64() > Some(1 << 20));
    b.child.kill().unwrap();
    drop(b);
    // Its retries have no end.
    let mut a = a;
    a.signal("-TERM");
    let mut said = String::new();
    a.stderr.read_line(&mut said).unwrap();
    assert!(said.contains("going down: no new writes; 1 under way"), "{said}");
    std::thread::sleep(Duration::from_millis(200));
    assert!(a.child.try_wait().unwrap().is_none(), "it waits");
    let began = Instant::now();
    a.signal("-TERM");
    let (code, said) = a.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ended at once, with 1 writes under way"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(5));
    write.wait().unwrap();
}

/// What `--show` says belongs into the file of `name`'s peer, and into its own.
fn show(dir: &Path, name: &str, file: &str) -> [String; 2] {
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, file).unwrap();
    let output = mrcnic().args(["run", "--show", "--config"]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (other, own) = text.split_once("# and under").unwrap();
    [other.to_owned(), own.split_once('\n').unwrap().1.to_owned()]
}

#[test]
fn two_files_with_the_numbers_that_show_prints_are_a_pair_and_a_number_that_is_another_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let fixed = "exchange = false\nqps = 2";
    let (file_a, file_b) = (head(dir, "a", "") + &peer("b", fixed), head(dir, "b", "") + &peer("a", fixed));
    let [for_b, own_a] = show(dir, "a", &file_a);
    let [for_a, own_b] = show(dir, "b", &file_b);
    let refused = mrcnic().args(["run", "--config"]).arg(dir.join("a.toml")).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("[run.peer.other] is not there"), "{refused:?}");
    let a = Nic::start(dir, "a", &(file_a.clone() + &for_a + &own_a));
    let b = Nic::start(dir, "b", &(file_b + &for_b + &own_b));
    std::fs::write(a.memory(), pattern(1)).unwrap();
    a.ask(&["write", "--peer", "b", "--size", "1MiB"]).unwrap();
    assert!(std::fs::read(b.memory()).unwrap() == pattern(1));
    assert_eq!(a.peer("b")["state"], "fixed");
    drop(a);
    let before = "\n[[run.region]]\nname = \"first\"\nsize = 10\n\n[[run.region]]";
    let moved = file_a.replacen("\n[[run.region]]", before, 1) + &for_a + &own_a;
    std::fs::write(dir.join("a.toml"), moved).unwrap();
    let refused = mrcnic().args(["run", "--config"]).arg(dir.join("a.toml")).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("peer \"b\": [run.peer.own] says region is") && said.contains("and it is"), "{said}");
}

#[test]
fn a_file_that_is_wrong_starts_nothing_and_config_check_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.toml");
    std::fs::write(&path, head(dir.path(), "a", "") + &peer("b", "qpz = 2")).unwrap();
    let run = mrcnic().args(["run", "--config"]).arg(&path).output().unwrap();
    let check = mrcnic().args(["config", "check"]).arg(&path).output().unwrap();
    for output in [run, check] {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("a.toml:27: run.peer.1.qpz: no such key: \"qpz\"; did you mean \"qps\"?"), "{said}");
    }
    std::fs::write(&path, "[qp_manager]\nmss = 1024\n").unwrap();
    let run = mrcnic().args(["run", "--config"]).arg(&path).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8(run.stderr).unwrap().contains("has no table [run]"));
}

/// A page over HTTP from a UNIX socket.
fn get(socket: &Path) -> String {
    use std::io::Write;
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn a_living_nic_records_the_rotation_of_a_message_of_1_mib_and_serves_its_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let connect = format!("connect = \"{}/a.exchange\"", dir.display());
    let recorded = format!(
        "metrics = \"unix:{0}/metrics\"\nnode_id = 7\n\n[run.records]\ndir = \"{0}/out\"\ncapture = \"{0}/a.pcapng\"\n\n[[run.port]]",
        dir.display()
    );
    let attributes = "\n[nic]\nenable_monitor = true\nenable_event_logging = true\n";
    let file_a = head(dir, "a", attributes).replace("[[run.port]]", &recorded) + &peer("b", "");
    let mut a = Nic::start(dir, "a", &file_a);
    let b = Nic::start(dir, "b", &(head(dir, "b", "") + &peer("a", &connect)));
    until("they join", || a.peer("b")["state"] == "joined" && b.peer("a")["state"] == "joined");
    a.ask(&["write", "--peer", "b", "--size", "1MiB"]).unwrap();
    let page = get(&dir.join("metrics"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("mrcnic_completed_total{nic=\"a\"} 1"), "{page}");
    let said = a.reload(&file_a.replace("node_id = 7", "node_id = 8"), "left as it was");
    assert!(said.contains("run.node_id can't change"), "{said}");
    a.signal("-TERM");
    let (code, said) = a.end();
    assert_eq!(code, Some(0), "{said}");
    let rows = |name: &str| -> Vec<std::collections::BTreeMap<String, String>> {
        let mut reader = csv::Reader::from_path(dir.join("out").join(name)).unwrap();
        reader.deserialize().map(Result::unwrap).collect()
    };
    let monitor = rows("mrc-monitor.csv");
    let mut uses = std::collections::BTreeMap::new();
    let sent: Vec<_> = monitor.iter().filter(|row| row["direction"] == "tx" && row["type"] == "write").collect();
    sent.iter().for_each(|row| *uses.entry(row["ev"].as_str()).or_insert(0) += 1);
    let used = |times: i32| uses.values().filter(|&&count| count == times).count();
    assert_eq!((sent.len(), uses.len(), used(4), used(3)), (256, 72, 40, 32));
    assert!(monitor.iter().all(|row| row["node_id"] == "7"));
    let events = rows("mrc-events.csv");
    let completed = events.iter().find(|row| row["event"] == "wr_completed").unwrap();
    assert_eq!((completed["bytes"].as_str(), completed["status"].as_str()), ("1048576", "success"));
    assert!(rows("mrc-transport-stats.csv").len() > 10);
    assert!(std::fs::metadata(dir.join("a.pcapng")).unwrap().len() > 1 << 20);
}

//! `mrcnic perf`, client and server.

use mrcnic_tests::veth::Veth;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Two ends that meet in a directory of their own.
struct Ends {
    dir: TempDir,
}

/// An end that runs. One that a failed test leaves behind is killed.
struct End(Option<Child>);

impl std::ops::Deref for End {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl std::ops::DerefMut for End {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl End {
    /// Waits for its end.
    fn came(mut self) -> Came {
        Came::of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

/// What an end came to: its exit code, what it printed, and what it said to standard error.
struct Came {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Came {
    fn of(output: Output) -> Came {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Came { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The one report that it printed.
    fn report(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        serde_json::from_str(&self.out).unwrap()
    }
}

impl Ends {
    fn new() -> Ends {
        Ends { dir: tempfile::tempdir().unwrap() }
    }

    fn meet(&self) -> PathBuf {
        self.dir.path().join("x")
    }

    fn start(args: &[&str]) -> End {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("mrcnic"));
        End(Some(command.arg("perf").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn server(&self, args: &[&str]) -> End {
        let meet = self.meet();
        let server = Ends::start(&[&["--listen", meet.to_str().unwrap()], args].concat());
        let end = Instant::now() + Duration::from_secs(60);
        // Its device is up once the shared memory's socket is there.
        while !(meet.exists() && self.dir.path().join("x.memif").exists() || args.contains(&"--config")) {
            assert!(Instant::now() < end, "the server does not come up");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn client(&self, args: &[&str]) -> End {
        Ends::start(&[&[self.meet().to_str().unwrap()], args].concat())
    }

    /// Runs both: what the client and the server came to.
    fn run(&self, server: &[&str], client: &[&str]) -> [Came; 2] {
        let server = self.server(server);
        let client = self.client(client).came();
        [client, server.came()]
    }
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until an end has said a line with these words; what it says after that is nobody's business here.
fn heard(child: &mut End, words: &str) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(words)), "it ended without {words:?}");
    // Kept open: an end that has nobody to talk to would be another test.
    std::thread::spawn(move || lines.map_while(Result::ok).count());
}

fn came(mut child: End) -> (Option<i32>, String) {
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (child.wait().unwrap().code(), err)
}

#[test]
fn every_byte_of_every_size_arrives_and_both_ends_print_the_same() {
    let ends = Ends::new();
    let args = ["-s", "0,1,64,4097,1MiB", "-n", "200", "-q", "2", "--verify", "--json"];
    let [client, server] = ends.run(&["--json"], &args).map(|came| came.report());
    assert_eq!((&client["role"], &server["role"]), (&"client".into(), &"server".into()));
    assert_eq!(client["results"], server["results"]);
    assert_eq!((&client["schema"], &client["mode"], &client["mss"]), (&1.into(), &"bandwidth".into(), &4096.into()));
    let results = client["results"].as_array().unwrap();
    let sizes: Vec<u64> = results.iter().map(|result| result["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [0, 1, 64, 4097, 1 << 20]);
    for result in results {
        let there = &result["to_server"];
        assert_eq!((&there["messages"], &there["verified"]), (&400.into(), &true.into()), "{result}");
        assert_eq!((&result["to_client"], &result["latency_us"]), (&Value::Null, &Value::Null));
        assert!(result["msg_per_s"].as_f64().unwrap() > 0.0);
    }
    assert!(!ends.meet().exists() && !ends.dir.path().join("x.memif").exists(), "nothing is left behind");
}

#[test]
fn both_directions_with_immediates_and_for_a_time() {
    let ends = Ends::new();
    let args = ["-s", "64,10000", "-D", "0.2", "-q", "3", "-t", "40", "-b", "--imm", "--verify", "--json"];
    let [client, server] = ends.run(&["--json", "--imm", "-q", "3"], &args).map(|came| came.report());
    assert_eq!(client["results"], server["results"]);
    for result in client["results"].as_array().unwrap() {
        for direction in ["to_server", "to_client"] {
            let direction = &result[direction];
            assert_eq!(direction["verified"], true, "{result}");
            assert!(direction["messages"].as_u64().unwrap() > 0, "{result}");
        }
    }
}

#[test]
fn latency_is_measured_in_memory_and_by_immediates_and_its_quantiles_are_in_order() {
    let ends = Ends::new();
    for args in [&["-s", "1,64,20000"][..], &["--imm", "-s", "0,64"]] {
        let args = [&["--lat", "-n", "100", "--verify", "--json"], args].concat();
        let [client, server] = ends.run(&["--json"], &args).map(|came| came.report());
        assert_eq!(client["results"], server["results"]);
        for result in client["results"].as_array().unwrap() {
            assert_eq!(
                (&result["to_server"]["messages"], &result["to_client"]["messages"]),
                (&100.into(), &100.into())
            );
            assert_eq!(
                (&result["to_server"]["verified"], &result["to_client"]["verified"]),
                (&true.into(), &true.into())
            );
            let of = |key: &str| result["latency_us"][key].as_f64().unwrap();
            let order = ["min", "p50", "p99", "p999", "max"].map(of);
            assert!(order[0] > 0.0 && order.is_sorted() && (order[0]..=order[4]).contains(&of("avg")), "{result}");
        }
    }
}

#[test]
fn people_get_a_table_and_hear_what_both_ends_do() {
    let ends = Ends::new();
    let [client, server] = ends.run(&[], &["-s", "4096", "-n", "50", "--verify"]);
    assert_eq!((client.code, server.code), (Some(0), Some(0)), "{}{}", client.err, server.err);
    for said in ["waiting for a client at", "net_memif0,role=server", "serving 10.18.51.2: Writes, 1 QP"] {
        assert!(server.out.contains(said), "{}", server.out);
    }
    for said in ["joined 10.18.51.1", "4 KiB", "Gbit/s", "yes"] {
        assert!(client.out.contains(said), "{}", client.out);
    }
}

#[test]
fn ends_that_do_not_agree_say_what_each_of_them_wants() {
    let ends = Ends::new();
    let [client, server] = ends.run(&["-q", "3"], &["-q", "2", "-n", "10"]);
    assert_eq!((client.code, server.code), (Some(1), Some(2)), "{}{}", client.err, server.err);
    for end in [client, server] {
        assert!(end.err.contains("--qp is 2 at the client and 3 at the server: give both the same"), "{}", end.err);
    }
    let [client, server] = ends.run(&["--set", "qp_manager.mss=1024"], &["-n", "10"]);
    assert_eq!((client.code, server.code), (Some(1), Some(1)));
    assert!(client.err.contains("MSS is 4096 at one end and 1024 at the other"), "{}", client.err);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    for (args, said) in [
        (&["host", "--lat", "-q", "2"][..], "--lat has one QP"),
        (&["host", "--lat", "-s", "0"], "add --imm"),
        (&["host", "-n", "0"], "--iters 0"),
        (&["host", "-D", "0"], "--duration 0"),
        (&["host", "-s", "2GiB"], "1 GiB at most"),
        (&["host", "-t", "40000"], "--tx-depth 40000"),
        (&["host", "--set", "qp_manager.msss=1"], "msss"),
        (&["host", "--forever"], "cannot be used with"),
        (&["--config", "/no/such.toml"], "/no/such.toml"),
    ] {
        let came = Ends::start(args).came();
        assert_eq!(came.code, Some(2), "{args:?}: {}", came.err);
        assert!(came.err.contains(said), "{args:?}: {}", came.err);
    }
    let ends = Ends::new();
    let came = ends.client(&[]).came();
    assert_eq!(came.code, Some(1));
    assert!(came.err.contains("can't connect to") && came.err.contains("mrcnic perf without a HOST"), "{}", came.err);
}

#[test]
fn a_client_that_is_interrupted_prints_what_it_has_and_its_server_ends_well() {
    let ends = Ends::new();
    let server = ends.server(&["--json"]);
    let mut client = ends.client(&["-s", "4096,64", "-D", "600", "--verify", "--json"]);
    let mut err = BufReader::new(client.stderr.take().unwrap()).lines();
    assert!(err.any(|line| line.unwrap().contains("joined")));
    signal(&client, "-INT");
    let [client, server] = [client, server].map(End::came);
    let report = client.report();
    assert_eq!((&report["interrupted"], report["results"].as_array().unwrap().len()), (&true.into(), 1));
    assert_eq!(report["results"][0]["to_server"]["verified"], true);
    assert_eq!(server.report()["results"], report["results"]);
}

/// A client that measures for ever and its server, one of which a signal has hit: that one, and the other.
fn struck(ends: &Ends, victim: &str, how: &str, mode: &[&str]) -> [End; 2] {
    let mut server = ends.server(&[]);
    let mut client = ends.client(&[&["-D", "600"], mode].concat());
    heard(&mut server, "serving");
    heard(&mut client, "joined");
    let [victim, survivor] = if victim == "server" { [server, client] } else { [client, server] };
    signal(&victim, how);
    [victim, survivor]
}

#[test]
fn an_end_whose_other_end_is_killed_or_hangs_fails_and_says_so() {
    // One that hears nothing is patient for seconds, so it waits while the others are struck.
    let mut waiting = Vec::new();
    for (victim, how) in [("server", "-STOP"), ("server", "-KILL"), ("client", "-KILL")] {
        for mode in [&["--lat"][..], &["-b", "-s", "64KiB"]] {
            let ends = Ends::new();
            let struck = struck(&ends, victim, how, mode);
            waiting.push((how, mode, struck, ends));
        }
    }
    for (how, mode, [mut victim, survivor], _ends) in waiting {
        let (code, err) = came(survivor);
        assert_eq!(code, Some(1), "{how} {mode:?}: {err}");
        let said = ["lost the", "no acknowledgement came", "nothing was acknowledged"];
        assert!(said.iter().any(|said| err.contains(said)), "{how} {mode:?}: {err}");
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
}

#[test]
fn a_server_for_ever_serves_one_client_after_the_other_and_ends_when_it_is_told_to() {
    let ends = Ends::new();
    let mut server = ends.server(&["--forever"]);
    let out = BufReader::new(server.stdout.take().unwrap());
    for _ in 0..2 {
        let client = ends.client(&["-s", "64", "-n", "100", "--verify"]).came();
        assert_eq!(client.code, Some(0), "{}", client.err);
    }
    // One that is killed is no reason to end.
    let mut victim = ends.client(&["-D", "600"]);
    heard(&mut victim, "joined");
    victim.kill().unwrap();
    victim.wait().unwrap();
    let client = ends.client(&["-s", "64", "-n", "100", "--verify"]).came();
    assert_eq!(client.code, Some(0), "{}", client.err);
    let mut lines = out.lines().map(Result::unwrap);
    let waits = |line: &String| line.starts_with("waiting for the next client");
    for _ in 0..4 {
        assert!(lines.any(|line| waits(&line)));
    }
    signal(&server, "-INT");
    let (code, err) = came(server);
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn two_namespaces_that_are_joined_by_a_veth_measure_without_a_neighbour_in_their_files() {
    let veth = Veth::new(4_500);
    let dir = tempfile::tempdir().unwrap();
    let meet = dir.path().join("meet");
    let files = [("a", 1), ("b", 2)].map(|(name, n)| {
        let file = dir.path().join(format!("{name}.toml"));
        let text =
            format!("[device]\nip = \"10.0.0.{n}/24\"\n\n[[device.port]]\ndevice = \"net_af_packet0,iface=v{name}\"\n");
        std::fs::write(&file, text).unwrap();
        file
    });
    let end = |n: usize| {
        let mut command = veth.within(n, &assert_cmd::cargo::cargo_bin("mrcnic"));
        command.arg("perf").arg("--config").arg(&files[n]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut server = End(Some(end(0).arg("--listen").arg(&meet).spawn().unwrap()));
    heard(&mut server, "waiting");
    let measured = ["-s", "64KiB", "-n", "50", "--verify", "--json"];
    let client = End(Some(end(1).arg(&meet).args(measured).spawn().unwrap())).came();
    assert_eq!(client.code, Some(0), "{}", client.err);
    let report: Value = serde_json::from_str(&client.out).unwrap();
    let there = &report["results"][0]["to_server"];
    assert_eq!((&there["messages"], &there["verified"]), (&50.into(), &true.into()), "{report}");
    assert_eq!(server.came().code, Some(0));
}

/// A file for a NIC over shared memory: number 1 or 2.
fn file(dir: &Path, role: &str, own: u8) -> String {
    let (file, other) = (dir.join(format!("{role}.toml")), 3 - own);
    let text = format!(
        "[qp_manager]\nmss = 1024\n\n[device]\nip = \"10.0.0.{own}\"\nmac = \"02:00:00:00:00:0{own}\"\n\n[[device.port]]\n\
         device = \"net_memif0,role={role},socket={},socket-abstract=no\"\n\n[[device.neighbour]]\nip = \"10.0.0.{other}\"\n\
         mac = [\"02:00:00:00:00:0{other}\"]\n",
        dir.join("memif").display()
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_nics_of_files_are_used_where_there_are_files_and_both_ends_need_one() {
    let ends = Ends::new();
    let [one, other] = [("server", 1), ("client", 2)].map(|(role, n)| file(ends.dir.path(), role, n));
    let server = ends.server(&["--config", &one, "--json"]);
    while !ends.dir.path().join("memif").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let args = ["--config", &other, "-s", "4096", "-n", "100", "--verify", "--json"];
    let client = ends.client(&args).came().report();
    assert_eq!((&client["mss"], &client["server"]), (&1024.into(), &"10.0.0.1".into()));
    assert_eq!(client["results"][0]["to_server"]["verified"], true);
    server.came().report();
    let server = ends.server(&["--config", &one]);
    while !ends.meet().exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let client = ends.client(&["-n", "10"]).came();
    assert_eq!(client.code, Some(2), "{}", client.err);
    assert!(client.err.contains("has the ports of a file: give this end a file, too"), "{}", client.err);
    assert_eq!(server.came().code, Some(1));
}

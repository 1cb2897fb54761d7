//! Programs in C against the library, linked as an application is: `lib_mrc.so` before libibverbs.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The library as cargo has built it for these tests.
fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let places = [deps.join("libmrc.so"), deps.parent().unwrap().join("libmrc.so")];
    places.into_iter().find(|path| path.exists()).expect("cargo builds the library before its tests")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A directory with `lib_mrc.so`, and a program built against it. Each test is a process of its own, and has one program.
fn built(program: &str) -> PathBuf {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(library(), dir.path().join("lib_mrc.so")).unwrap();
        dir
    });
    let (root, path) = (Path::new(env!("CARGO_MANIFEST_DIR")), dir.path().join(program));
    if !path.exists() {
        let output = run(Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-I"])
            .arg(root.join("include"))
            .arg("-o")
            .arg(&path)
            .arg(root.join(format!("tests/c/{program}.c")))
            .arg(dir.path().join("lib_mrc.so"))
            .arg(format!("-Wl,-rpath,{}", dir.path().display()))
            .arg("-libverbs"));
        assert!(output.status.success(), "{}", said(&output));
    }
    path
}

/// Runs a program of a controller's, which wants CAP_NET_ADMIN: as it is where this process has it, and else in a user namespace of its own.
fn privileged(program: &str) -> Command {
    let path = built(program);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    if u64::from_str_radix(effective, 16).unwrap() >> 12 & 1 == 1 {
        return Command::new(path);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(path);
    command
}

/// Runs a part of a program, over the device that there is without a file.
fn part_of(program: &str, name: &str) {
    let output = run(privileged(program).arg(name).env_remove("MRCNIC_CONFIG"));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{name}: as it should be\n"));
}

fn part(name: &str) {
    part_of("program", name);
}

#[test]
fn a_program_finds_opens_and_queries_the_device_and_may_do_so_again() {
    part("discovery");
}

#[test]
fn memory_is_registered_where_it_is_and_only_if_it_is_there() {
    part("memory");
}

#[test]
fn contexts_channels_and_completion_queues_come_and_go_in_their_order() {
    part("contexts");
}

#[test]
fn hints_are_kept_and_told_back() {
    part("hints");
}

#[test]
fn a_qp_takes_the_documented_steps_with_what_they_need_and_no_others() {
    part("states");
}

#[test]
fn writes_immediates_and_inline_data_arrive_and_wrong_requests_are_refused() {
    part("transfer");
}

#[test]
fn a_completion_queue_that_was_armed_tells_its_channel_once() {
    part("notify");
}

#[test]
fn a_controller_takes_a_port_down_and_up() {
    part_of("control", "control");
}

#[test]
fn what_controllers_do_wants_the_capability_of_a_network_administrator() {
    part_of("controller", "permission");
}

#[test]
fn formats_of_evs_take_the_documented_steps_and_give_the_documented_errors() {
    part_of("controller", "formats");
}

#[test]
fn an_explicit_profile_takes_the_documented_steps_and_its_evs_one_by_one() {
    part_of("controller", "explicit");
}

#[test]
fn an_ev_is_the_bits_of_the_masks_whatever_the_fields_make_of_it() {
    part_of("controller", "fields");
}

#[test]
fn a_generated_profile_has_each_ev_once_and_states_for_thousands_at_a_time() {
    part_of("controller", "generated");
}

#[test]
fn probes_go_out_of_the_port_and_come_back_and_wrong_ones_are_refused() {
    part_of("controller", "probes");
}

#[test]
fn events_of_evs_are_told_as_masks_say_and_what_found_no_room_is_counted() {
    part_of("evs", "events");
}

/// A program that stops at each step, and an operator of its NIC.
struct Driven {
    program: Child,
    input: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
    operator: UnixStream,
    answers: Lines<BufReader<UnixStream>>,
    _dir: TempDir,
}

impl Driven {
    /// Starts a part of a program over a NIC with this address, up to its first step.
    fn start(program: &str, part: &str, ip: &str, first: &str) -> Driven {
        let dir = tempfile::tempdir().unwrap();
        let (file, ctl) = (dir.path().join("nic.toml"), dir.path().join("ctl"));
        let text = format!(
            "[device]\nip = \"{ip}\"\nctl = \"{}\"\n\n[[device.port]]\ndevice = \"net_ring0\"\n",
            ctl.display()
        );
        std::fs::write(&file, text).unwrap();
        let mut command = privileged(program);
        command.arg(part).env("MRCNIC_CONFIG", &file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let mut said = BufReader::new(program.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), first);
        let operator = UnixStream::connect(&ctl).unwrap();
        let answers = BufReader::new(operator.try_clone().unwrap()).lines();
        let input = program.stdin.take().unwrap();
        Driven { program, input, said, operator, answers, _dir: dir }
    }

    /// Lets the program go on to its next step.
    fn on_to(&mut self, step: &str) {
        writeln!(self.input, "go").unwrap();
        assert_eq!(self.said.next().unwrap().unwrap(), step);
    }

    fn ask(&mut self, request: &str) -> serde_json::Value {
        writeln!(self.operator, "{request}").unwrap();
        serde_json::from_str(&self.answers.next().unwrap().unwrap()).unwrap()
    }

    fn ok(&mut self, request: &str) -> serde_json::Value {
        let answer = self.ask(request);
        assert_eq!(answer["ok"], true, "{request}: {answer}");
        answer
    }

    /// The EVs that QPs use, in ascending order: whether each is denied, and whether packets took it. (On a machine that is busy some time out.)
    fn evs(&mut self) -> Vec<(u64, bool, bool)> {
        let answer = self.ok(r#"{"cmd":"ev_list","nic":"mrcnic0"}"#);
        let evs = answer["destinations"][0]["evs"].as_array().unwrap().iter().map(|ev| {
            let sent = ev["sent"].as_u64().unwrap() > 0;
            (ev["ev"].as_u64().unwrap(), ev["state"] == "denied", sent)
        });
        let mut evs: Vec<_> = evs.collect();
        evs.sort();
        evs
    }

    fn end(mut self, part: &str) {
        self.on_to(&format!("{part}: as it should be"));
        assert!(self.program.wait().unwrap().success());
    }
}

#[test]
fn qps_spray_over_exactly_the_evs_of_their_profile_as_a_controller_changes_them() {
    let mut driven = Driven::start("evs", "bound", "fd00::1", "100:1 to 100:4");
    let good = |ev: u64| (ev, false, true);
    assert_eq!(driven.evs(), [0x0064_0001, 0x0064_0002, 0x0064_0003, 0x0064_0004].map(good));
    driven.on_to("2 denied, 9 for 3");
    let denied: Vec<_> = driven.evs().into_iter().map(|(ev, denied, _)| (ev, denied)).collect();
    assert_eq!(denied, [(1, false), (2, true), (4, false), (9, false)].map(|(ev, denied)| (0x0064_0000 + ev, denied)));
    driven.on_to("c001 to c004");
    // Whoever asks hears of what was changed before.
    assert!(driven.evs().iter().all(|(_, _, sent)| !sent), "all of them are new");
    driven.on_to("written");
    assert_eq!(driven.evs(), [0x0064_C001, 0x0064_C002, 0x0064_C003, 0x0064_C004].map(good));
    driven.end("bound");
}

#[test]
fn operators_and_controllers_see_and_change_each_others_profiles() {
    let mut driven = Driven::start("evs", "shared", "127.0.0.1", "up");
    let shown = driven.ok(r#"{"cmd":"profile_show","nic":"mrcnic0","id":1}"#);
    assert_eq!(
        (&shown["profile"]["state"], &shown["profile"]["evs"][0]["ev"]),
        (&"online".into(), &0x1234.into()),
        "{shown}"
    );
    driven.ok(
        r#"{"cmd":"profile_create","nic":"mrcnic0","profile":{"id":7,"mode":"explicit","format":{"kind":"udp"},"evs":[{"ev":4660},{"ev":4661}]}}"#,
    );
    driven.ok(r#"{"cmd":"ev_deny","nic":"mrcnic0","ev":4661,"denied":true}"#);
    driven.on_to("online");
    let shown = driven.ok(r#"{"cmd":"profile_show","nic":"mrcnic0","id":7}"#);
    assert_eq!(shown["profile"]["state"], "online");
    driven.ok(r#"{"cmd":"profile_offline","nic":"mrcnic0","id":1}"#);
    driven.ok(r#"{"cmd":"profile_remove","nic":"mrcnic0","id":1}"#);
    driven.end("shared");
}

#[test]
fn qps_have_the_congestion_control_of_their_profile_and_keep_it_online() {
    let mut driven = Driven::start("controller", "congestion", "127.0.0.1", "written");
    let answer = driven.ok(r#"{"cmd":"survey","nic":"mrcnic0"}"#);
    let groups = answer["nics"][0]["destinations"][0]["groups"].as_array().unwrap();
    let of = |profile: u64| groups.iter().find(|group| group["profile"] == profile).unwrap();
    assert_eq!(of(5)["nscc"]["max_window"], 123_456, "{answer}");
    assert_eq!(of(6)["window"], serde_json::Value::Null, "no limit: {answer}");
    driven.end("congestion");
}

#[test]
fn failures_are_told_by_completions_and_events() {
    part("events");
}

/// A file for a NIC over shared memory, of the process in this role: number 1 or 2.
fn file(dir: &Path, role: &str, own: u8) -> PathBuf {
    let (file, other) = (dir.join(format!("{role}.toml")), 3 - own);
    let text = format!(
        "[device]\nip = \"10.0.0.{own}\"\nmac = \"02:00:00:00:00:0{own}\"\n\n[[device.port]]\n\
         device = \"net_memif0,role={role},socket={}\"\n\n[[device.neighbour]]\nip = \"10.0.0.{other}\"\n\
         mac = [\"02:00:00:00:00:0{other}\"]\n",
        dir.join("memif").display()
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn two_processes_with_a_file_each_write_to_each_other_over_memif() {
    let dir = tempfile::tempdir().unwrap();
    let meet = dir.path().join("meet");
    let ends = [("server", 1), ("client", 2)].map(|(role, own)| {
        let mut command = Command::new(built("pair"));
        command.arg(role).arg(&meet).env("MRCNIC_CONFIG", file(dir.path(), role, own));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for end in ends {
        let output = end.wait_with_output().unwrap();
        assert_eq!(said(&output), "11 sizes\n");
    }
}

/// Kills two peers of a program in the middle of a transfer, and has a third live; the program has the port in this role.
fn outlived(roles: [&str; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let meet = dir.path().join("meet");
    let [survivor, peer] = [0, 1].map(|n| file(dir.path(), roles[n], n as u8 + 1));
    let start = |part: &str, at: PathBuf, file: &Path| {
        let mut command = Command::new(built("killed"));
        command.arg(part).arg(at).env("MRCNIC_CONFIG", file).stdout(Stdio::piped()).spawn().unwrap()
    };
    let at = |n: u8| dir.path().join(format!("meet{n}"));
    let mut survivor = start("survivor", meet, &survivor);
    let mut told = BufReader::new(survivor.stdout.take().unwrap()).lines();
    for (n, (part, outlived)) in [("taken", "a responder"), ("writes", "a requester")].into_iter().enumerate() {
        let mut victim = start(part, at(n as u8 + 1), &peer);
        assert_eq!(told.next().unwrap().unwrap(), "kill");
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert_eq!(told.next().unwrap().unwrap(), outlived);
    }
    let mut lives = start("lives", at(3), &peer);
    assert_eq!(told.next().unwrap().unwrap(), "one that lives");
    assert!(lives.wait().unwrap().success() && survivor.wait().unwrap().success());
}

#[test]
fn a_program_outlives_peers_that_are_killed_while_it_has_the_server_of_a_memif() {
    outlived(["server", "client"]);
}

#[test]
fn a_program_outlives_peers_that_are_killed_while_it_has_the_client_of_a_memif() {
    outlived(["client", "server"]);
}

#[test]
fn two_processes_on_an_ethernet_find_each_other_without_a_neighbour_in_their_files() {
    let veth = mrcnic_tests::veth::Veth::new(4_500);
    let dir = tempfile::tempdir().unwrap();
    let meet = dir.path().join("meet");
    let ends = [("server", 0, "va"), ("client", 1, "vb")].map(|(role, end, iface)| {
        let file = dir.path().join(format!("{role}.toml"));
        let ip = format!("10.0.0.{}/24", end + 1);
        let text = format!(
            "[device]\nip = \"{ip}\"\n\n[[device.port]]\ndevice = \"net_af_packet0,iface={iface}\"\n\n\
             [qp_manager]\ninitial_ack_timeout = \"20ms\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = veth.within(end, &built("pair"));
        command.arg(role).arg(&meet).env("MRCNIC_CONFIG", file).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    for end in ends {
        let output = end.wait_with_output().unwrap();
        assert_eq!(said(&output), "11 sizes\n");
    }
}

#[test]
fn a_qp_takes_the_values_of_a_profile_that_an_operator_has_made_and_keeps_it_online() {
    let dir = tempfile::tempdir().unwrap();
    let (file, ctl) = (dir.path().join("nic.toml"), dir.path().join("ctl"));
    let text = format!(
        "[device]\nip = \"127.0.0.1\"\nctl = \"{}\"\n\n[[device.port]]\ndevice = \"net_ring0\"\n",
        ctl.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(built("control"));
    command.arg("profile").env("MRCNIC_CONFIG", &file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut said = BufReader::new(program.stdout.take().unwrap()).lines();
    let mut next = || said.next().unwrap().unwrap();
    assert_eq!(next(), "up");
    let mut operator = UnixStream::connect(&ctl).unwrap();
    let mut answers = BufReader::new(operator.try_clone().unwrap()).lines();
    let mut ask = |request: &str| {
        writeln!(operator, "{request}").unwrap();
        answers.next().unwrap().unwrap()
    };
    let create = r#"{"cmd":"profile_create","nic":"mrcnic0","profile":{"id":7,"mode":"explicit","format":{"kind":"udp_port"},"evs":[{"ev":4660},{"ev":4661}]}}"#;
    let answer = ask(create);
    assert!(answer.contains("\"ok\":true"), "{answer}");
    let answer = ask(r#"{"cmd":"profile_online","nic":"mrcnic0","id":7}"#);
    assert!(answer.contains("\"ok\":true"), "{answer}");
    let mut input = program.stdin.take().unwrap();
    writeln!(input, "go").unwrap();
    assert_eq!(next(), "written");
    let answer = ask(r#"{"cmd":"profile_offline","nic":"mrcnic0","id":7}"#);
    assert!(answer.contains("\"ok\":false"), "a QP uses it: {answer}");
    let answer = ask(r#"{"cmd":"ev_list","nic":"mrcnic0"}"#);
    assert!(answer.contains("4660") && answer.contains("4661"), "{answer}");
    writeln!(input, "end").unwrap();
    assert_eq!(next(), "profile: as it should be");
    assert!(program.wait().unwrap().success());
}

#[test]
fn a_file_that_is_wrong_gives_no_device_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nic.toml");
    std::fs::write(&file, "[device]\nip = \"10.0.0.1\"\nport = 1\n").unwrap();
    let output = run(Command::new(built("program")).arg("discovery").env("MRCNIC_CONFIG", &file));
    assert!(!output.status.success());
    assert!(said(&output).contains("nic.toml:3: device.port: "), "{}", said(&output));
    let output = run(Command::new(built("program")).arg("discovery").env("MRCNIC_CONFIG", "/no/such.toml"));
    assert!(said(&output).contains("can't read /no/such.toml"), "{}", said(&output));
}

#[test]
fn the_library_has_the_name_and_the_symbols_that_programs_look_for() {
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let symbols = said(&output);
    let exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let ours = |name: &&&str| name.starts_with("ibv_") || name.starts_with("_ibv_") || name.starts_with("mrc_");
    assert_eq!(exported.iter().filter(ours).count(), 20 + 27 + 14, "{exported:?}");
    assert!(exported.iter().all(|name| ours(&name)), "nothing else is exported: {exported:?}");
    let output = run(Command::new("objdump").arg("-p").arg(library()));
    let soname = said(&output).lines().any(|line| line.split_whitespace().eq(["SONAME", "lib_mrc.so"]));
    assert!(soname, "{}", said(&output));
}

//! `mrcnic bench` by its binary, over real DPDK ports.

use assert_cmd::Command;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("mrcnic").unwrap();
    command.arg("bench").args(args).timeout(Duration::from_secs(60));
    command
}

fn json(args: &[&str]) -> Value {
    let output = bench(args).arg("--json").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn results(report: &Value) -> &Vec<Value> {
    report["results"].as_array().unwrap()
}

fn sum(report: &Value, key: &str) -> u64 {
    results(report).iter().map(|r| r[key].as_u64().unwrap()).sum()
}

/// Exit code and what was said on standard error.
fn refused(args: &[&str]) -> (i32, String) {
    let output = bench(args).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A command of the system, or a word on why the test is left out.
fn system(command: &str) -> bool {
    let mut words = command.split(' ');
    let program = words.next().unwrap();
    let status = std::process::Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn every_size_is_verified_and_the_ports_counters_equal_the_engines() {
    let report = json(&["--seconds", "0.2"]);
    assert_eq!(report["schema"], 1);
    assert_eq!(report["vdev"], "net_ring");
    assert!(report["dpdk_version"].as_str().unwrap().starts_with("DPDK "));
    assert!(report["memcpy_gbps"].as_f64().unwrap() > 0.0);
    let sizes: Vec<u64> = results(&report).iter().map(|r| r["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 512, 4096, 65_536, 1_048_576]);
    for result in results(&report) {
        assert_eq!(result["op"], "write");
        assert_eq!(result["verified"], true, "{result}");
        assert_eq!(result["errors"], 0);
        assert_eq!(result["evs_used"], 72);
        assert!(result["messages"].as_u64().unwrap() > 0);
        assert!(result["lat_us"]["p50"].as_f64().unwrap() <= result["lat_us"]["p99"].as_f64().unwrap());
        assert!(result["sacks"].as_u64().unwrap() <= result["rx_packets"].as_u64().unwrap());
    }
    let [a, b] = report["ports"].as_array().unwrap().as_slice() else { panic!("two ports") };
    assert_eq!(a["opackets"].as_u64(), Some(sum(&report, "tx_packets")));
    assert_eq!(a["ipackets"].as_u64(), Some(sum(&report, "rx_packets")));
    assert_eq!(a["opackets"], b["ipackets"]);
    assert_eq!(a["ipackets"], b["opackets"]);
}

#[test]
fn each_kind_of_congestion_control_delivers_every_byte_and_a_port_keeps_to_its_link_rate() {
    for congestion in ["fixed", "nscc", "none"] {
        let report =
            json(&["--seconds", "0.2", "--sizes", "4096", "--congestion", congestion, "--link-rate", "200Mbps"]);
        let result = &results(&report)[0];
        assert_eq!((&result["verified"], &result["errors"]), (&true.into(), &0.into()), "{congestion}: {result}");
        // 4,096 of 4,174 bytes are payload. A burst may run 20 us ahead, and no machine is too slow for so little.
        let goodput = result["goodput_gbps"].as_f64().unwrap();
        assert!(goodput <= 0.2, "{congestion}: {goodput}");
    }
    let output = bench(&["--link-rate", "10"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("10Gbps"));
}

#[test]
fn a_configuration_file_acts_on_both_nics_and_options_go_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nic.toml");
    let text = "[qp_manager]\nmss = 1024\npacket_spraying_type = \"None\"\nlinear_retry_count = 3\n";
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let report = json(&["--seconds", "0.2", "--sizes", "4096", "--qps", "3", "--config", path]);
    assert_eq!((&report["mss"], &report["spraying"]), (&1024.into(), &"none".into()));
    let result = &results(&report)[0];
    assert_eq!((&result["verified"], &result["evs_used"]), (&true.into(), &3.into()), "{result}");
    assert!(result["tx_packets"].as_u64().unwrap() >= 4 * result["messages"].as_u64().unwrap());
    let report =
        json(&["--seconds", "0.2", "--sizes", "64", "--config", path, "--mss", "2048", "--spraying", "default"]);
    assert_eq!(
        (&report["mss"], &results(&report)[0]["evs_used"]),
        (&2048.into(), &100.into()),
        "a hundred values for packets of 2,108 bytes"
    );
    let set = ["--set", "qp_manager.mss=512", "--set", "qp_manager.packet_spraying_type=Default Packet Spraying"];
    for config in [&["--config", path][..], &[]] {
        let report = json(&[&["--seconds", "0.1", "--sizes", "4096"][..], config, &set].concat());
        assert_eq!((&report["mss"], &report["spraying"]), (&512.into(), &"default".into()), "{config:?}");
        assert_eq!(results(&report)[0]["verified"], true);
    }
    let output = bench(&["--set", "qp_manager.max_psn_range=40000"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--set: qp_manager.max_psn_range: 40000 is out of range"));
    std::fs::write(&file, "[qp_manager]\nmax_psn_range = 40000\n").unwrap();
    let output = bench(&["--config", path]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nic.toml:2") && said.contains("max_psn_range") && said.contains("32640"), "{said}");
}

#[test]
fn frames_lost_on_purpose_are_sent_again_and_every_byte_still_arrives() {
    let report = json(&["--seconds", "0.2", "--loss", "0.05", "--sizes", "64,65536"]);
    assert!(results(&report).iter().all(|r| r["verified"] == true));
    assert!(report["injected_losses"].as_u64().unwrap() > 0);
    assert!(sum(&report, "retransmits") > 0);
}

/// The counters of frames that were impaired on purpose.
const INJECTED: [(&str, &str); 4] = [
    ("--loss", "injected_losses"),
    ("--duplicate", "injected_duplicates"),
    ("--reorder", "injected_reorders"),
    ("--trim", "injected_trims"),
];

fn injected(report: &Value) -> [u64; 4] {
    INJECTED.map(|(_, counter)| report[counter].as_u64().unwrap())
}

/// All impairments at once, beside `args`.
fn all_impaired(args: &[&'static str]) -> Value {
    let mut args = args.to_vec();
    args.extend(INJECTED.into_iter().flat_map(|(option, _)| [option, "0.02"]));
    let report = json(&args);
    assert!(results(&report).iter().all(|r| r["verified"] == true && r["errors"] == 0), "{report}");
    assert!(injected(&report).iter().all(|&count| count > 0), "{report}");
    // An engine refuses trimmed packets, and the second copy of an answer to a probe.
    let drops = report["drops"].as_object().unwrap();
    assert!(drops.keys().all(|reason| ["trimmed", "unknown_probe"].contains(&reason.as_str())), "{drops:?}");
    assert_eq!(report["drops"]["trimmed"], report["injected_trims"]);
    report
}

/// One impairment, with Writes with Immediate.
fn one_impaired(at: usize) {
    let option = INJECTED[at].0;
    let report = json(&["--op", "write_imm", "--seconds", "0.1", "--sizes", "64,20000", option, "0.05"]);
    assert!(results(&report).iter().all(|r| r["verified"] == true && r["errors"] == 0), "{report}");
    for (i, count) in injected(&report).into_iter().enumerate() {
        assert_eq!(count > 0, i == at, "{report}");
    }
}

#[test]
fn writes_with_immediate_complete_receives_in_order_and_every_byte_arrives() {
    let report = json(&["--op", "write_imm", "--seconds", "0.1", "--sizes", "0,64,4097,65536"]);
    for result in results(&report) {
        assert_eq!(result["op"], "write_imm");
        assert_eq!((&result["verified"], &result["errors"]), (&true.into(), &0.into()), "{result}");
        assert!(result["messages"].as_u64().unwrap() > 0);
    }
    assert_eq!(injected(&report), [0; 4]);
    assert_eq!(report["drops"].as_object().unwrap().len(), 0);
}

#[test]
fn writes_with_immediate_survive_losses() {
    one_impaired(0);
}

#[test]
fn writes_with_immediate_survive_duplicates() {
    one_impaired(1);
}

#[test]
fn writes_with_immediate_survive_reordering() {
    one_impaired(2);
}

#[test]
fn writes_with_immediate_survive_trimming() {
    one_impaired(3);
}

#[test]
fn several_qps_write_through_all_impairments_at_once_with_two_workers() {
    let report = all_impaired(&["--qps", "5", "--workers", "2", "--seconds", "0.1", "--sizes", "64,20000"]);
    assert!(sum(&report, "retransmits") > 0);
}

#[test]
fn several_qps_write_with_immediate_through_all_impairments_at_once_with_two_workers() {
    let args = ["--op", "write_imm", "--qps", "5", "--workers", "2", "--seconds", "0.1", "--sizes", "64,20000"];
    assert!(sum(&all_impaired(&args), "retransmits") > 0);
}

#[test]
fn several_qps_write_with_immediate_through_all_impairments_at_once_with_one_worker() {
    let args = ["--op", "write_imm", "--qps", "5", "--workers", "1", "--seconds", "0.1", "--sizes", "64,20000"];
    assert!(sum(&all_impaired(&args), "retransmits") > 0);
}

#[test]
fn frames_that_another_worker_handed_over_are_impaired_too() {
    let workers = ["--workers", "4", "--cores", "0,0,0,0"];
    all_impaired(&[&workers[..], &["--op", "write_imm", "--qps", "3", "--seconds", "0.1", "--sizes", "1000"]].concat());
}

#[test]
fn one_worker_drives_both_nics() {
    let report = json(&["--seconds", "0.1", "--workers", "1", "--sizes", "0,1,4097"]);
    assert_eq!(report["workers"], 1);
    assert!(results(&report).iter().all(|r| r["verified"] == true));
}

#[test]
fn several_workers_of_a_nic_may_share_cores() {
    let report = json(&["--seconds", "0.1", "--workers", "4", "--cores", "0,0,0,0", "--qps", "3", "--sizes", "1000"]);
    assert_eq!(report["workers"], 4);
    assert!(results(&report).iter().all(|r| r["verified"] == true));
}

#[test]
fn many_qps_and_a_small_mss_are_verified_too() {
    let report = json(&["--seconds", "0.1", "--qps", "50", "--depth", "4", "--mss", "500", "--sizes", "3000"]);
    assert!(results(&report).iter().all(|r| r["verified"] == true));
    assert_eq!(report["mss"], 500);
}

/// Frames that NIC a sent by each of its ports.
fn sent_by_port(report: &Value) -> Vec<u64> {
    let ports = report["ports"].as_array().unwrap().iter().filter(|port| port["nic"] == "a");
    ports.map(|port| port["opackets"].as_u64().unwrap()).collect()
}

#[test]
fn four_planes_carry_equal_loads() {
    let report = json(&["--planes", "4", "--seconds", "0.2", "--sizes", "4096,65536"]);
    assert!(results(&report).iter().all(|r| r["verified"] == true && r["errors"] == 0), "{report}");
    let sent = sent_by_port(&report);
    assert_eq!((sent.len(), sent.iter().sum::<u64>()), (4, sum(&report, "tx_packets")));
    // Equal but for values that were assumed bad for a while, on a machine that keeps workers from their cores.
    let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    assert!(3 * least > 2 * most, "{sent:?}");
}

#[test]
fn several_workers_of_a_nic_share_its_planes() {
    let report =
        json(&["--planes", "2", "--workers", "4", "--cores", "0,0,1,1", "--seconds", "0.1", "--sizes", "65536"]);
    assert!(results(&report).iter().all(|r| r["verified"] == true), "{report}");
    assert!(sent_by_port(&report).iter().all(|&sent| sent > 0));
}

#[test]
fn without_spraying_each_qp_has_one_entropy_value_and_one_port() {
    let args = ["--spraying", "none", "--planes", "2", "--qps", "4", "--seconds", "0.1", "--sizes", "4096"];
    let report = json(&args);
    assert_eq!(report["spraying"], "none");
    assert_eq!((&results(&report)[0]["verified"], &results(&report)[0]["evs_used"]), (&true.into(), &4.into()));
    assert_eq!(report["probes"]["sent"], 0, "nothing is probed");
    assert!(sent_by_port(&report).iter().all(|&sent| sent > 0));
}

/// A bench whose QPs use the profile of this text.
fn with_profile(text: &str, args: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile.toml");
    std::fs::write(&file, text).unwrap();
    let report = json(&[args, &["--seconds", "0.1", "--ev-profile", file.to_str().unwrap()]].concat());
    assert!(results(&report).iter().all(|r| r["verified"] == true && r["errors"] == 0), "{report}");
    assert_eq!(report["spraying"], "profile");
    report
}

#[test]
fn the_structured_evs_of_a_profile_are_sprayed_over_ipv6() {
    let text = r#"
        id = 1
        mode = "generated"
        count = 24
        format.kind = "stev"
        fields = ["hop1:8:max=7", "hop2:8:max=7", "hash:16"]
    "#;
    let report = with_profile(text, &["--planes", "2", "--qps", "2", "--sizes", "64,65536"]);
    assert_eq!((&report["ipv6"], &results(&report)[1]["evs_used"]), (&true.into(), &24.into()));
    let sent = sent_by_port(&report);
    assert!(sent.len() == 2 && sent.iter().all(|&sent| sent > 0));
}

#[test]
fn the_paths_of_an_srv6_profile_are_sprayed_in_an_outer_header() {
    let text = r#"
        id = 2
        mode = "generated"
        count = 8
        format.kind = "srv6"
        fields = ["locator:32:fixed=0xfcbbbbbb", "tor:16:init=0x100,mask=0xff", "spine:16:init=0x200,mask=3"]
    "#;
    let report = with_profile(text, &["--op", "write_imm", "--sizes", "64,65536"]);
    assert_eq!((&report["ipv6"], &results(&report)[1]["evs_used"]), (&true.into(), &8.into()));
}

#[test]
fn a_profile_of_udp_ports_goes_over_ipv4_and_a_repeated_value_gets_more() {
    let text = r#"
        id = 3
        mode = "explicit"
        ports = [1]
        format.kind = "udp"
        evs = [{ ev = 50000 }, { ev = 50001 }, { ev = 50000 }]
    "#;
    let report = with_profile(text, &["--sizes", "4096"]);
    assert_eq!((&report["ipv6"], &results(&report)[0]["evs_used"]), (&false.into(), &2.into()));
}

#[test]
fn what_does_not_go_with_planes_and_profiles_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile.toml");
    std::fs::write(&file, "id = 1\nports = [2]\n").unwrap();
    let file = file.to_str().unwrap();
    for (args, said) in [
        (&["--planes", "9"][..], "--planes"),
        (&["--planes", "0"], "--planes"),
        (&["--planes", "2", "--port", "net_null0", "--port", "net_null1"], "--planes 2: several go with net_ring only"),
        (&["--vdev", "net_null", "--ipv6"], "--ipv6 do not go with it"),
        (&["--ev-profile", "/nonexistent/p.toml"], "/nonexistent/p.toml"),
        (&["--ev-profile", file], "port 2 is none of the NIC's: it has 1"),
        (&["--ev-profile", file, "--spraying", "none"], "cannot be used with"),
    ] {
        let (code, error) = refused(args);
        assert_eq!(code, 2, "{args:?}");
        assert!(error.contains(said), "{args:?}: {error}");
    }
}

#[test]
fn net_null_benches_one_nic_and_says_that_nothing_is_verified() {
    let report = json(&["--vdev", "net_null", "--seconds", "0.1", "--sizes", "64"]);
    assert!(report["notes"][0].as_str().unwrap().contains("nothing is verified"));
    let result = &results(&report)[0];
    assert_eq!(result["verified"], false);
    assert!(result["messages"].as_u64().unwrap() > 0);
    // The port makes up frames of 64 zeros.
    assert!(report["drops"]["not_ip"].as_u64().unwrap() > 0);
}

#[test]
fn two_memif_ports_that_reach_each_other_carry_the_bench_without_root() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("memif.sock");
    let port = |number: u8, role: &str| format!("net_memif{number},role={role},socket={}", socket.display());
    let (server, client) = (port(0, "server"), port(1, "client"));
    let report = json(&["--port", &server, "--port", &client, "--seconds", "0.1", "--sizes", "64,65536"]);
    assert!(results(&report).iter().all(|r| r["verified"] == true));
    assert_eq!(report["mss"], 4096);
}

#[test]
fn two_af_packet_ports_on_the_ends_of_a_veth_carry_full_packets() {
    let (a, b) = (format!("mrcv{}a", std::process::id()), format!("mrcv{}b", std::process::id()));
    if !system(&format!("ip link add {a} mtu 9000 type veth peer name {b} mtu 9000")) {
        eprintln!("left out: making a veth needs CAP_NET_ADMIN");
        return;
    }
    let up = system(&format!("ip link set {a} up")) && system(&format!("ip link set {b} up"));
    let port = |number: u8, interface: &str| format!("net_af_packet{number},iface={interface}");
    let outcome = std::panic::catch_unwind(|| {
        json(&["--port", &port(0, &a), "--port", &port(1, &b), "--seconds", "0.1", "--sizes", "64,65536"])
    });
    system(&format!("ip link del {a}"));
    assert!(up);
    let report = outcome.unwrap();
    assert!(results(&report).iter().all(|r| r["verified"] == true));
    assert_eq!(report["mss"], 4096);
}

#[test]
fn two_bridged_tap_ports_carry_packets_of_1024_bytes_and_the_user_is_told() {
    let id = std::process::id();
    let bridge = format!("mrcb{id}");
    if !system(&format!("ip link add {bridge} type bridge")) || !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("left out: a bridge and taps need CAP_NET_ADMIN and /dev/net/tun");
        return;
    }
    let taps = [format!("mrct{id}a"), format!("mrct{id}b")];
    let ports: Vec<String> = taps.iter().enumerate().map(|(i, tap)| format!("net_tap{i},iface={tap}")).collect();
    system(&format!("ip link set {bridge} up"));
    let joined = {
        let (bridge, taps) = (bridge.clone(), taps.clone());
        // The taps exist once the bench has opened its ports.
        std::thread::spawn(move || {
            taps.iter().all(|tap| {
                (0..200).any(|_| {
                    std::thread::sleep(Duration::from_millis(20));
                    system(&format!("ip link set {tap} master {bridge}")) && system(&format!("ip link set {tap} up"))
                })
            })
        })
    };
    let outcome = std::panic::catch_unwind(|| {
        json(&["--port", &ports[0], "--port", &ports[1], "--seconds", "0.1", "--sizes", "64,16384"])
    });
    assert!(joined.join().unwrap(), "the taps were joined");
    system(&format!("ip link del {bridge}"));
    let report = outcome.unwrap();
    assert!(results(&report).iter().all(|r| r["verified"] == true));
    assert_eq!(report["mss"], 1024);
    assert!(report["notes"].to_string().contains("MSS is 1024 instead of 4096"));
}

#[test]
fn an_explicit_mss_that_does_not_fit_the_port_is_an_error() {
    let (code, said) = refused(&["--mss", "9000"]);
    assert_eq!(code, 2);
    assert!(said.contains("--mss 9000") && said.contains("at most"), "{said}");
}

#[test]
fn a_peer_that_is_not_there_ends_the_bench_with_an_error_and_not_never() {
    let dir = tempfile::tempdir().unwrap();
    let port =
        |number: u8| format!("net_memif{number},role=server,socket={}", dir.path().join(format!("{number}")).display());
    let output =
        bench(&["--port", &port(0), "--port", &port(1), "--seconds", "0.1", "--sizes", "64"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no message completed for 5 s"));
}

#[test]
fn wrong_arguments_are_named_with_the_way_out() {
    for (args, word) in [
        (&["--workers", "3"][..], "even number"),
        (&["--workers", "600"], "--cores"),
        (&["--cores", "0,9999"], "9999"),
        (&["--cores", "0", "--workers", "2"], "--cores names 1"),
        (&["--sizes", "12x"], "12x"),
        (&["--sizes", "2GiB"], "1 GiB"),
        (&["--seconds", "0"], "--seconds"),
        (&["--loss", "1"], "--loss"),
        (&["--depth", "0"], "--depth"),
        (&["--qps", "0"], "--qps"),
        (&["--post-list", "0"], "--post-list"),
        (&["--loss-depth", "0"], "--loss-depth"),
        (&["--vdev", "net_tap0"], "--port A --port B"),
        (&["--port", "net_null0"], "twice"),
        (&["--port", "net_nosuch0", "--port", "net_nosuch1"], "net_nosuch0"),
        (&["--port", "net_af_packet0,iface=nosuch7", "--port", "net_null0"], "nosuch7"),
        (&["--port", "0000:ff:1f.7", "--port", "net_null0"], "0000:ff:1f.7"),
        (&["--vdev", "net_null", "--qps", "2"], "net_null"),
    ] {
        let (code, said) = refused(args);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn wrong_shares_and_operations_are_named() {
    for (args, word) in [
        (&["--loss", "-0.1"][..], "--loss"),
        (&["--duplicate", "1.5"], "--duplicate"),
        (&["--reorder", "nan"], "--reorder"),
        (&["--trim", "x"], "--trim"),
        (&["--trim", "inf"], "--trim"),
        (&["--loss", "0.5", "--trim", "0.6"], "together"),
        (&["--op", "send"], "--op"),
        (&["--vdev", "net_null", "--op", "write_imm"], "--op"),
        (&["--vdev", "net_null", "--reorder", "0.1"], "--reorder"),
    ] {
        let (code, said) = refused(args);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn an_interrupt_ends_the_bench_with_what_was_measured() {
    let binary = assert_cmd::cargo::cargo_bin("mrcnic");
    let child = std::process::Command::new(binary)
        .args(["bench", "--seconds", "600", "--sizes", "64,512", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(system(&format!("kill -INT {}", child.id())));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results(&report).len(), 1);
    assert_eq!(results(&report)[0]["verified"], true);
    assert!(report["notes"].to_string().contains("interrupted"));
}

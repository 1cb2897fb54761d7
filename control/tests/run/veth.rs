//! NICs on an Ethernet: two network namespaces joined by a veth, in which the kernel and scapy are hosts beside them.

use super::{Nic, until};
use mrcnic_tests::veth::Veth;
use serde_json::Value;
use std::path::Path;

fn nic(veth: &Veth, end: usize, dir: &Path, file: &str) -> Nic {
    let binary = assert_cmd::cargo::cargo_bin("mrcnic");
    Nic::start_by(veth.within(end, &binary), dir, ["a", "b"][end], file)
}

/// What the file of a NIC has beside its peers. `attributes` are those of its QP manager.
fn head(dir: &Path, name: &str, address: &str, attributes: &str) -> String {
    let dir = dir.display();
    format!(
        r#"
[qp_manager]
{attributes}

[run]
name = "{name}"
ctl = "{dir}/{name}.sock"
listen = "{dir}/{name}.exchange"
drain = "3s"

[[run.port]]
device = "net_af_packet0,iface=v{name}"

[run.address]
ip = "{address}"

[[run.region]]
name = "main"
size = "64KiB"
file = "{dir}/{name}.mem"
"#
    )
}

/// Beyond the pauses of a worker on a shared core.
const SHARED_CORES: &str = "initial_ack_timeout = \"20ms\"";

fn peer(name: &str, more: &str) -> String {
    format!("\n[[run.peer]]\nname = \"{name}\"\nregion = \"main\"\n{more}\n")
}

fn neighbours(nic: &Nic) -> Value {
    nic.ask(&["status"]).unwrap()["nics"][0]["neighbours"].clone()
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8)) as u8 ^ seed).collect()
}

/// Two NICs that know each other's IP addresses alone find each other, and the kernel beside one of them pings the other.
fn two_nics_find_each_other(own: &str, other: &str, kernel: &str) {
    let veth = Veth::new(4_500);
    veth.kernel_at(kernel);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let a = nic(&veth, 0, dir, &(head(dir, "a", own, SHARED_CORES) + &peer("b", "")));
    let connect = format!("connect = \"{}/a.exchange\"", dir.display());
    let b = nic(&veth, 1, dir, &(head(dir, "b", other, SHARED_CORES) + &peer("a", &connect)));
    until("they join", || a.peer("b")["state"] == "joined" && b.peer("a")["state"] == "joined");
    let without_prefix = |address: &str| address.split('/').next().unwrap().to_owned();
    for (nic, there, here) in [(&a, &b, other), (&b, &a, own)] {
        let mac = there.peer(if nic.name == "a" { "a" } else { "b" })["own"]["macs"][0].clone();
        let known = neighbours(nic)["table"][0].clone();
        assert_eq!((&known["ip"], &known["port"], &known["mac"]), (&without_prefix(here).into(), &1.into(), &mac));
        assert_eq!(neighbours(nic)["counters"]["found"], 1);
    }
    std::fs::write(a.memory(), bytes(65_536, 0)).unwrap();
    let written = a.ask(&["write", "--peer", "b", "--size", "64KiB", "--count", "500"]).unwrap();
    assert_eq!(written["messages"], 500);
    assert!(std::fs::read(b.memory()).unwrap() == bytes(65_536, 0));
    println!("over a veth: {} Gbit/s", written["gbps"]);
    std::fs::write(b.memory(), bytes(65_536, 7)).unwrap();
    b.ask(&["write", "--peer", "a", "--size", "4000", "--local", "100", "--remote", "300"]).unwrap();
    assert!(std::fs::read(a.memory()).unwrap()[300..4300] == bytes(65_536, 7)[100..4100]);
    let target = without_prefix(own);
    let said = veth.ping(&target);
    assert!(said.contains("3 received"), "{said}");
    // The kernel has no part in the NIC's address: it was the NIC that answered, once for each ping.
    assert_eq!(neighbours(&a)["counters"]["pings"], 3);
    // Who asked for the addresses were a kernel and a NIC.
    assert!(neighbours(&a)["counters"]["answered"].as_u64() >= Some(2), "{}", neighbours(&a));
    let text = a.ctl(&["metrics"]).output().unwrap().stdout;
    assert!(String::from_utf8(text).unwrap().contains("mrcnic_neighbours_pings_total{nic=\"a\"} 3\n"));
    let survey = a.ask(&["survey"]).unwrap()["nics"][0].clone();
    assert_eq!(survey["drops"].get("not_ip"), None, "ARP is no drop: {}", survey["drops"]);
    assert!(survey["counters"]["rx_slow"].as_u64() > Some(4));
}

#[test]
fn two_nics_on_an_ethernet_find_each_other_by_arp_and_the_kernel_pings_one() {
    two_nics_find_each_other("10.0.0.1/24", "10.0.0.2/24", "10.0.0.9/24");
}

#[test]
fn two_nics_on_an_ethernet_find_each_other_by_neighbour_discovery_and_the_kernel_pings_one() {
    two_nics_find_each_other("fd00::1/64", "fd00::2/64", "fd00::9/64");
}

#[test]
fn a_peer_of_scapy_and_the_nic_agree_on_every_byte() {
    let veth = Veth::new(1_500);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // No Ethernet address: it is asked for.
    let numbers = r#"ip = "10.0.0.2"
macs = []
mss = 1024
window = 1024
immediates = 16
qps = [{ qpn = 0x020003, psn = 0x1000 }]
region = { key = 0x77, address = 0x10000, size = 65536 }"#;
    let other = format!("exchange = false\n\n[run.peer.other]\n{numbers}");
    // What is lost is sent again, and a value probed, at the pace of an interpreter.
    let nic = nic(
        &veth,
        0,
        dir,
        &(head(dir, "a", "10.0.0.1/24", "initial_ack_timeout = \"1s\"\nreliability_probe_period = \"10ms\"")
            + &peer("b", &other)),
    );
    let mut memory = vec![0; 32_768];
    memory.extend(bytes(32_768, 9));
    std::fs::write(nic.memory(), memory).unwrap();
    let told: toml::Table = toml::from_str(numbers).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = veth
        .within(1, &root.join("tests/scapy/peer.py"))
        .args(["--iface", "vb", "--mrcnic"])
        .arg(assert_cmd::cargo::cargo_bin("mrcnic"))
        .arg("--socket")
        .arg(dir.join("a.sock"))
        .arg("--memory")
        .arg(nic.memory())
        .arg("--vectors")
        .arg(root.join("tests/vectors/frames.json"))
        .args(["--other", &serde_json::to_string(&told).unwrap()])
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    println!("{said}");
    let seen = neighbours(&nic);
    assert_eq!(
        (&seen["counters"]["found"], &seen["counters"]["changed"], &seen["counters"]["pings"]),
        (&1.into(), &1.into(), &1.into())
    );
    assert_eq!(seen["refused"]["group_source"], 1, "{seen}");
    assert_eq!(seen["table"][0]["mac"], "02:00:00:00:00:33");
}

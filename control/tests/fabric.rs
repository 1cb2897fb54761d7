//! `mrcnic bench --fabric` and `mrcnic ctl fabric`, by the binary.

use crate::running::{Running, mrcnic, until};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Two NICs with eight paths between them, as a laptop carries them.
const EIGHT: &str = r#"
[fabric]
topology = "paths"
nics = 2
paths = 8
host = { rate = "10Gbps", delay = "20us" }
links = { rate = "10Gbps", delay = "20us" }
forwarding = "structured-ev"
"#;

/// The EV of path 3: three bits of T0, and the plane in the lowest.
const EV_OF_PATH_3: u64 = 3 << 13 | 1;

struct File {
    dir: tempfile::TempDir,
}

impl File {
    fn new(text: &str) -> File {
        let file = File { dir: tempfile::tempdir().unwrap() };
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("fabric.toml")
    }
}

/// A whole run.
fn bench(text: &str, args: &[&str]) -> Value {
    let file = File::new(text);
    let output = mrcnic().args(["bench", "--json", "--fabric"]).arg(file.path()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for result in report["results"].as_array().unwrap() {
        assert_eq!((&result["verified"], &result["errors"]), (&true.into(), &0.into()), "{result}");
        assert!(result["messages"].as_u64().unwrap() > 0);
    }
    report
}

fn running(text: &str, args: &[&str]) -> (Running, File) {
    let file = File::new(text);
    let path = file.path();
    let mut all = vec!["--fabric", path.to_str().unwrap()];
    all.extend(args);
    (Running::start(&all), file)
}

fn link<'a>(fabric: &'a Value, name: &str) -> &'a Value {
    let links = fabric["links"].as_array().unwrap();
    links.iter().find(|link| link["name"] == name).unwrap_or_else(|| panic!("{name}: {fabric}"))
}

fn sum(of: &Value, key: &str) -> u64 {
    of.as_array().unwrap().iter().map(|one| one[key].as_u64().unwrap()).sum()
}

/// Frames that NIC A sent over each of eight spines.
fn shares(report: &Value) -> Vec<u64> {
    (0..8).map(|n| link(&report["fabric"], &format!("p0.t0.0>p0.t1.{n}"))["frames"].as_u64().unwrap()).collect()
}

#[test]
fn all_paths_of_a_fabric_are_used_evenly_and_every_byte_and_frame_is_accounted_for() {
    for (forwarding, args) in [
        ("\"structured-ev\"", &["--workers", "1"][..]),
        ("\"ecmp\"", &["--workers", "2"]),
        // The third core, which may be one of the two, is the fabric's own.
        ("\"srv6\"", &["--cores", "0,0,0"]),
        ("{ kind = \"structured-ev\", bits = \"label-and-port\" }", &["--workers", "1"]),
    ] {
        let text = EIGHT.replace("\"structured-ev\"", forwarding);
        // A worker that is kept from its core is no path that failed.
        let mut all = vec!["--seconds", "0.2", "--sizes", "64,65536", "--ack-timeout", "2000000"];
        all.extend(args);
        let report = bench(&text, &all);
        let (ports, fabric) = (&report["ports"], &report["fabric"]);
        assert_eq!(fabric["injected"], sum(ports, "opackets"), "{forwarding}");
        assert_eq!(fabric["delivered"], sum(ports, "ipackets"));
        assert_eq!(fabric["injected"], fabric["delivered"]);
        assert_eq!((&fabric["dropped"], &fabric["ring_full"]), (&json!({}), &0.into()));
        let shares = shares(&report);
        let most = shares.iter().max().unwrap();
        assert!(shares.iter().all(|share| *share > 0 && share * 2 > *most), "{forwarding}: {shares:?}");
        assert_eq!(fabric["paths"].as_array().unwrap().len(), 16);
        assert_eq!(fabric["paths"][3]["via"], json!(["p0.t0.0", "p0.t1.3", "p0.t0.1"]));
    }
}

#[test]
fn a_black_hole_on_schedule_loses_frames_and_no_message() {
    let fault = "[[fault]]\nat = \"50ms\"\nwhat = \"black-hole\"\nwhere = \"p0.t0.0-p0.t1.3\"\n";
    let report = bench(&format!("{EIGHT}{fault}"), &["--seconds", "0.5", "--sizes", "4096"]);
    let fabric = &report["fabric"];
    let lost = fabric["dropped"]["black_hole"].as_u64().unwrap();
    assert!(lost > 0 && report["probes"]["sent"].as_u64().unwrap() > 0);
    assert_eq!(fabric["dropped"], json!({ "black_hole": lost }));
    for name in ["p0.t0.0>p0.t1.3", "p0.t1.3>p0.t0.0"] {
        assert_eq!(link(fabric, name)["state"], "black_hole");
    }
    assert_eq!(link(fabric, "p0.t1.3>p0.t0.1")["state"], "up");
}

#[test]
fn frames_that_a_path_loses_are_sent_again_and_every_byte_arrives() {
    let fault = "[[fault]]\nat = \"0ns\"\nwhat = \"loss\"\nwhere = \"p0.t0.0-p0.t1.5\"\nshare = 0.01\n";
    let report = bench(&format!("{EIGHT}{fault}"), &["--seconds", "1", "--sizes", "65536"]);
    let fabric = &report["fabric"];
    assert!(fabric["dropped"]["loss"].as_u64().unwrap() > 0);
    assert!(sum(&report["results"], "retransmits") > 0);
    let lossy = |link: &&Value| !link["dropped"].as_object().unwrap().is_empty();
    let names: Vec<&Value> =
        fabric["links"].as_array().unwrap().iter().filter(lossy).map(|link| &link["name"]).collect();
    assert!(names.iter().all(|name| ["p0.t0.0>p0.t1.5", "p0.t1.5>p0.t0.0"].map(Value::from).contains(name)));
    assert_eq!(link(fabric, "p0.t0.0>p0.t1.5")["loss"], 0.01);
}

#[test]
fn slow_links_trim_what_finds_no_room_and_the_headers_draw_nacks() {
    let text = EIGHT.replace("links = { rate = \"10Gbps\"", "queue = { data = \"8KiB\" }\nlinks = { rate = \"50Mbps\"");
    let report = bench(&text, &["--seconds", "0.5", "--sizes", "65536", "--ack-timeout", "100000"]);
    let fabric = &report["fabric"];
    let trimmed = sum(&fabric["links"], "trimmed");
    assert!(trimmed > 0, "{fabric}");
    assert_eq!(fabric["dropped"], json!({}));
    // Each that was trimmed reached NIC B, which refuses it as such.
    assert_eq!(report["drops"]["trimmed"], trimmed);
    assert!(sum(&report["results"], "retransmits") > 0);
}

#[test]
fn a_path_that_an_operator_breaks_is_left_and_comes_back_when_it_is_mended() {
    // Were all paths assumed bad, since a worker was kept from its core, all would be used.
    let (running, _file) = running(EIGHT, &["--workers", "2", "--ack-timeout", "200000"]);
    let done = json!({ "ok": true });
    assert_eq!(running.ask(&["fabric", "link", "p0.t0.0-p0.t1.3", "black-hole"]), Ok(done.clone()));
    // What was acknowledged just before may still bring it back.
    until("the EV of the path is assumed bad for good", || {
        let before = running.ev(EV_OF_PATH_3);
        std::thread::sleep(std::time::Duration::from_millis(50));
        before.1 == "assumed_bad" && running.ev(EV_OF_PATH_3) == before
    });
    let links = running.ask(&["fabric", "links"]).unwrap();
    assert_eq!(link(&links, "p0.t0.0>p0.t1.3")["state"], "black_hole");
    assert!(link(&links, "p0.t0.0>p0.t1.3")["dropped"]["black_hole"].as_u64().unwrap() > 0);
    let (sent, other) = (running.ev(EV_OF_PATH_3).0, running.ev(EV_OF_PATH_3 + (1 << 13)).0);
    until("the others carry on", || running.ev(EV_OF_PATH_3 + (1 << 13)).0 > other + 100);
    assert_eq!(running.ev(EV_OF_PATH_3), (sent, "assumed_bad".to_owned()));
    running.ask(&["fabric", "link", "p0.t1.3-p0.t0.0", "heal"]).unwrap();
    until("the EV is used again", || running.ev(EV_OF_PATH_3).0 > sent + 100);
    for (args, value) in
        [(["loss", "0.25"], json!([0.25, 10_000_000_000_u64])), (["rate", "1Gbps"], json!([0.25, 1_000_000_000]))]
    {
        running.ask(&[&["fabric", "link", "p0.t0.0>p0.t1.4"][..], &args].concat()).unwrap();
        let links = running.ask(&["fabric", "links"]).unwrap();
        let one_way = link(&links, "p0.t0.0>p0.t1.4");
        assert_eq!(json!([one_way["loss"], one_way["rate_bps"]]), value);
        assert_eq!(link(&links, "p0.t1.4>p0.t0.0")["loss"], 0.0);
    }
    for (args, said) in [
        (&["p0.t0.0-p0.t1.8", "down"][..], "most like it are p0.t0.0-p0.t1."),
        (&["p0.t0.0-p0.t1.1", "loss", "1.5"], "not within 0 to 1"),
        (&["p0.t0.0-p0.t1.1", "rate", "10"], "has no unit"),
    ] {
        let error = running.ask(&[&["fabric", "link"][..], args].concat()).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let report = running.end();
    assert_eq!((&report["results"][0]["verified"], &report["results"][0]["errors"]), (&true.into(), &0.into()));
}

#[test]
fn a_port_whose_link_the_fabric_takes_down_is_out_of_use_at_both_nics() {
    let text = r#"
        [fabric]
        topology = "leaf-spine"
        planes = 2
        leaves = 2
        nics_per_leaf = 1
        spines = 2
        host = { rate = "10Gbps", delay = "10us" }
        links = { rate = "10Gbps", delay = "10us" }
    "#;
    let (running, _file) = running(text, &["--workers", "1"]);
    let nic = |n: usize| running.ask(&["status"]).unwrap()["nics"][n].clone();
    let port = |link: bool| json!({ "port": 2, "link": link, "admin": true, "in_use": link });
    assert_eq!(nic(0)["ports"][1], port(true));
    running.ask(&["fabric", "link", "p1.t0.0>nic0.1", "down"]).unwrap();
    until("the controller hears of it", || nic(0)["ports"][1] == port(false));
    until("and the peer", || nic(1)["peers"][0]["ports_out"] == json!([2]));
    assert_eq!(nic(1)["ports"][1], port(true));
    running.ask(&["fabric", "link", "p1.t0.0-nic0.1", "up"]).unwrap();
    until("it is up again", || nic(0)["ports"][1] == port(true) && nic(1)["peers"] == json!([]));
    let report = running.end();
    assert_eq!((&report["planes"], &report["results"][0]["verified"]), (&2.into(), &true.into()));
}

#[test]
fn what_does_not_go_with_a_fabric_is_refused_by_name() {
    let two = File::new(EIGHT);
    let three = File::new(&EIGHT.replace("nics = 2", "nics = 3"));
    let wrong = File::new(&EIGHT.replace("rate = \"10Gbps\"", "rate = \"10Gb\""));
    for (file, args, said) in [
        (two.path(), &["--planes", "2"][..], "--planes"),
        (two.path(), &["--vdev", "net_null0"], "net_ring"),
        (two.path(), &["--workers", "4"], "each NIC has one worker"),
        (three.path(), &[], "it joins 3 NICs, and a bench has two"),
        (wrong.path(), &[], "fabric.toml:6: fabric.host.rate"),
        ("/nonexistent/x".into(), &[], "/nonexistent/x"),
    ] {
        let output = mrcnic().args(["bench", "--fabric"]).arg(file).args(args).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
    }
    let plain = Running::start(&["--workers", "1"]);
    let error = plain.ask(&["fabric", "links"]).unwrap_err();
    assert!(error.contains("no fabric between them"), "{error}");
    plain.end();
}

//! Fabrics in files, and what is said of wrong ones.

use super::plan_file::read;
use dataplane::Ns;
use dataplane::fabric::{
    EcnParams, EvBits, Fault, Forwarding, Hash, LinkParams, NicId, Node, Place, Plan, QueueParams, SwitchId, Topology,
};
use dataplane::time::{MS, US};

fn refused(text: &str) -> String {
    read(text, "f.toml").unwrap_err().to_string()
}

#[test]
fn a_topology_alone_is_a_fabric_with_the_defaults() {
    let file = read("[fabric]\ntopology = \"paths\"\nnics = 2\npaths = 8\n", "f.toml").unwrap();
    assert_eq!(file.plan, Plan::new(Topology::Paths { nics: 2, paths: 8 }));
}

#[test]
fn every_key_arrives() {
    let text = r#"
seed = 3
traffic = [{ pattern = "ring" }]

[fabric]
topology = "three-tier"
planes = 2
pods = 2
leaves = 2
nics_per_leaf = 4
spines = 4
cores = 3
nic_queue = "1MB"
host = { rate = "200Gbps", delay = "1.5us", loss = 0.001, corrupt = 1e-6, reorder = 0.5, late = "50ns", overhead = 0 }

[fabric.links]
rate = "0.1Tbps"

[fabric.queue]
data = "1MiB"
control = "64KiB"
ecn = { min = "100KB", max = "300KB", last_hop = true }
trimming = false

[fabric.forwarding]
kind = "structured-ev"
bits = "label-and-port"

[[fault]]
at = "1ms"
what = "black-hole"
where = "p0.t0.0-p0.t1.3"

[[fault]]
at = "20us"
what = "flap"
where = "nic1.0>p0.t0.0"
down = "1us"
up = "2us"
times = 4

[[fault]]
at = "2ms"
what = "reboot"
where = "p1.t1.0"
lasts = "300us"

[[fault]]
at = "3ms"
what = "down"
where = "p1"
"#;
    let plan = read(text, "f.toml").unwrap().plan;
    let switch = |plane, tier, index| SwitchId { plane, tier, index };
    let expected = Plan {
        host: LinkParams {
            rate: 200_000_000_000,
            delay_ns: 1_500,
            loss: 0.001,
            corrupt: 1e-6,
            reorder: 0.5,
            late_ns: 50,
            overhead: 0,
        },
        fabric: LinkParams { rate: 100_000_000_000, ..LinkParams::default() },
        nic_queue: 1_000_000,
        queue: QueueParams {
            data: 1 << 20,
            control: 64 << 10,
            ecn: Some(EcnParams { min: 100_000, max: 300_000, last_hop: true }),
            trimming: false,
        },
        // As narrow as four and three links allow.
        forwarding: Forwarding::StructuredEv { bits: EvBits::LabelAndPort, widths: vec![2, 2] },
        schedule: vec![
            (Ns(MS), Fault::BlackHole(Place::Link(Node::Switch(switch(0, 0, 0)), Node::Switch(switch(0, 1, 3))))),
            (
                Ns(20 * US),
                Fault::Flap {
                    place: Place::OneWay(Node::Nic(NicId(1), 0), Node::Switch(switch(0, 0, 0))),
                    down_ns: US,
                    up_ns: 2 * US,
                    times: 4,
                },
            ),
            (Ns(2 * MS), Fault::Reboot(switch(1, 1, 0), 300 * US)),
            (Ns(3 * MS), Fault::Down(Place::Plane(1))),
        ],
        ..Plan::new(Topology::ThreeTier { planes: 2, pods: 2, leaves: 2, nics_per_leaf: 4, spines: 4, cores: 3 })
    };
    assert_eq!(plan, expected);
}

#[test]
fn forwarding_is_a_name_or_a_table() {
    let of = |forwarding: &str| {
        let text = format!("[fabric]\ntopology = \"paths\"\nnics = 2\npaths = 8\nforwarding = {forwarding}\n");
        read(&text, "f.toml").unwrap().plan.forwarding
    };
    assert_eq!(of("\"ecmp\""), Forwarding::Ecmp(Hash::default()));
    let hash = Hash { salt: 7, flow_label: true, repair: true };
    assert_eq!(of("{ kind = \"ecmp\", salt = 7, flow_label = true, repair = true }"), Forwarding::Ecmp(hash));
    assert_eq!(of("\"structured-ev\""), Forwarding::StructuredEv { bits: EvBits::Port, widths: vec![3] });
    let srv6 = Forwarding::Srv6 { locator: 0x1234_0000, others: Hash::default() };
    assert_eq!(of("{ kind = \"srv6\", locator = 0x12340000 }"), srv6);
}

#[test]
fn an_error_names_file_line_key_reason_and_the_nearest_key() {
    const PATHS: &str = "[fabric]\ntopology = \"paths\"\nnics = 2\npaths = 8\n";
    let with = |more: &str| refused(&format!("{PATHS}{more}"));
    for (error, parts) in [
        (with("foo = 1\n"), &["f.toml:5: fabric.foo: no such key: \"foo\"; there are topology, nics"][..]),
        (with("host = { rat = \"1Gbps\" }\n"), &["f.toml:5: fabric.host.rat: ", "did you mean \"rate\"?"]),
        (
            with("host = { rate = \"1GB\" }\n"),
            &["f.toml:5: fabric.host.rate: \"1GB\" has the unit \"GB\": give one of bps"],
        ),
        (
            with("\n[fabric.links]\nrate = 400\n"),
            &["f.toml:7: fabric.links.rate: ", "1bps to 10Tbps, as in \"400Gbps\""],
        ),
        (with("host = { rate = \"11Tbps\" }\n"), &["fabric.host.rate: \"11Tbps\" is out of range"]),
        (with("host = { loss = 1.5 }\n"), &["fabric.host.loss: 1.5 is out of range: a share is 0 to 1"]),
        (with("spines = 3\n"), &["f.toml:5: fabric.spines: does not go with this topology, which has nics, paths"]),
        (
            with("forwarding = \"ecpm\"\n"),
            &["f.toml:5: fabric.forwarding: no such value: \"ecpm\"; did you mean \"ecmp\"?"],
        ),
        (
            with("forwarding = { kind = \"ecmp\", widths = [3] }\n"),
            &["f.toml:5: fabric.forwarding.widths: does not go"],
        ),
        (
            with("forwarding = { kind = \"structured-ev\", widths = [2] }\n"),
            &["fabric.forwarding.widths: tier 0 has 8"],
        ),
        (with("queue = { data = 0 }\n"), &["f.toml:5: fabric.queue.data: a queue of 0 bytes"]),
        (with("queue = { ecn = { min = 9, max = 8 } }\n"), &["f.toml:5: fabric.queue.ecn.max: ECN marks every"]),
        (with("queue = { ecn = \"of\" }\n"), &["fabric.queue.ecn: \"of\" is not \"off\""]),
        (
            with("[[fault]]\nat = \"1ms\"\nwhat = \"down\"\nwhere = \"p1\"\n"),
            &["f.toml:8: fault.1.where: there is no plane 1"],
        ),
        (
            with("[[fault]]\nat = \"1ms\"\nwhat = \"down\"\nwhere = \"spine 3\"\n"),
            &["f.toml:8: fault.1.where: \"spine 3\" is no place"],
        ),
        (
            with("[[fault]]\nat = \"1ms\"\nwhat = \"flap\"\nwhere = \"p0\"\nup = \"1ms\"\n"),
            &["fault.1.down: is missing"],
        ),
        (
            with("[[fault]]\nat = \"1ms\"\nwhat = \"heal\"\nwhere = \"p0\"\nrate = \"1Gbps\"\n"),
            &["f.toml:9: fault.1.rate: does not go"],
        ),
        (with("[faults]\n"), &["f.toml:5: faults: no such key: \"faults\"; did you mean \"fault\"?"]),
        (refused("[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\n"), &["f.toml:1: fabric.nics_per_leaf: is missing"]),
        (refused("[fabric]\nnics = 2\n"), &["f.toml:1: fabric: missing field `topology`"]),
        (refused("[fabric\n"), &["f.toml:1: "]),
        (refused("seed = 1\n"), &["f.toml", "fabric is missing"]),
    ] {
        for part in parts {
            assert!(error.contains(part), "{error}\nhas no\n{part}");
        }
        assert!(!error.trim().contains('\n'), "{error}");
    }
}

//! Scenarios in files: what they become, and what is said of wrong ones.

use super::{Scenario, World};
use dataplane::congestion::profile::CcConfig;
use dataplane::fabric::NicId;
use dataplane::nic::{Paths, WhenFull};
use dataplane::time::MS;

const FABRIC: &str = "[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nnics_per_leaf = 4\nspines = 4\n";

fn read(more: &str) -> Scenario {
    Scenario::read(&format!("{FABRIC}{more}"), "s.toml", None).unwrap()
}

fn refused(more: &str) -> String {
    Scenario::read(&format!("{FABRIC}{more}"), "s.toml", None).unwrap_err().to_string()
}

const ONE: &str = "[[traffic]]\npattern = \"point-to-point\"\nsrc = 0\ndst = 7\nsize = 4096\ncount = 1\n";

#[test]
fn the_base_rtt_that_is_computed_is_the_one_that_is_measured() {
    for (fabric, v6) in [
        ("topology = \"leaf-spine\"\nplanes = 2\nleaves = 2\nnics_per_leaf = 4\nspines = 4\n", false),
        (
            "topology = \"three-tier\"\npods = 2\nleaves = 2\nnics_per_leaf = 2\nspines = 2\ncores = 2\nlinks = { rate = \"100Gbps\", delay = \"900ns\" }\n",
            true,
        ),
        ("topology = \"leaf-spine\"\nleaves = 1\nnics_per_leaf = 8\nspines = 1\nhost = { overhead = 0 }\n", false),
    ] {
        // Without an end, so that its QP stays.
        let traffic = ONE.replace("count = 1\n", "");
        let text = format!("ipv6 = {v6}\n[fabric]\n{fabric}{traffic}");
        let scenario = Scenario::read(&text, "s.toml", None).unwrap();
        let computed = scenario.nic.base_rtt_ns;
        let mut run = super::Run::new(scenario).unwrap();
        while run.world().nic(NicId(0)).last_rtt(run.world().address(NicId(7))).is_none() && !run.is_over() {
            let next = run.world().now() + 100;
            run.until(next).unwrap();
        }
        let world: &World = run.world();
        let measured = world.nic(NicId(0)).last_rtt(world.address(NicId(7))).unwrap();
        assert!(measured.abs_diff(computed) <= 5, "{fabric}: measured {measured} ns, computed {computed} ns");
    }
}

#[test]
fn a_scenario_too_large_for_any_machine_is_refused_before_it_is_made() {
    let many = "[fabric]\ntopology = \"leaf-spine\"\nleaves = 1024\nnics_per_leaf = 64\nspines = 1\n";
    let traffic = "[[traffic]]\npattern = \"all-to-all\"\nsize = 4096\n";
    let error = Scenario::read(&format!("{many}{traffic}"), "s.toml", None).unwrap_err().to_string();
    assert!(error.contains("4294901760 flows") && error.contains("traffic.1.pattern"), "{error}");
    let dense = "[fabric]\ntopology = \"leaf-spine\"\nleaves = 4096\nnics_per_leaf = 1\nspines = 4096\nplanes = 8\n";
    let error = Scenario::read(&format!("{dense}{ONE}"), "s.toml", None).unwrap_err().to_string();
    assert!(error.contains("268500992 links"), "{error}");
}

#[test]
fn what_is_missing_is_named_and_nothing_else_is_blamed() {
    let error = Scenario::read(&format!("seed = 3\n{FABRIC}"), "s.toml", None).unwrap_err().to_string();
    assert_eq!(error, "s.toml: traffic is missing: give it as a key, or as a table [traffic] or [[traffic]]");
}

#[test]
fn nics_are_as_the_file_says() {
    let nic = "[nic]\nmss = 2048\nbase_rtt = \"7us\"\nmax_psn_range = 4096\nsack_loss_min_retx_pkts = 64\ntrimming = false\n\
               ecn_skip = false\nprobes = false\nactive_ev_set_size = 12\negress_buffer = \"256KB\"\n\
               congestion = { fixed = \"300KB\" }\nhost_interface = { lane_count = 16, lane_rate = \"31.52Gbps\" }\n\
               ingress_buffer = { size = \"1MB\", when_full = \"drop\", overhead = 194 }\n";
    let scenario = read(&format!("{nic}{ONE}"));
    let params = scenario.nic;
    assert_eq!((params.transport.mss, params.base_rtt_ns, params.transport.nack_wait_ns), (2048, 7_000, 7_000));
    assert_eq!((params.transport.max_psn_range, params.transport.sack_loss_min_retx_pkts), (4096, 64));
    assert_eq!((params.trimming, params.ecn_skip, params.spraying.active_ev_set_size), (false, false, 12));
    assert_eq!(params.spraying.assumed_bad_ns, Some(3 * MS), "without probes a value comes back by itself");
    assert_eq!(params.limits.egress_buffer, Some(256_000));
    assert_eq!(params.limits.fetch.unwrap().rate, 504_320_000_000);
    assert_eq!(params.congestion, CcConfig::Fixed { bytes: 300_000 });
    assert_eq!(params.host_buffer.unwrap().when_full, WhenFull::Drop { overhead: 194 });
    assert_eq!(params.data_rate, 400_000_000_000);
}

#[test]
fn patterns_become_flows() {
    let flows = |traffic: &str| -> Vec<(u32, u32)> {
        read(traffic).flows.iter().map(|flow| (flow.src.0, flow.dst.0)).collect()
    };
    let mut permutation = flows("[[traffic]]\npattern = \"permutation\"\nsize = 1\n");
    assert_eq!(permutation.len(), 8);
    assert!(permutation.iter().all(|(src, dst)| src != dst));
    permutation.sort_unstable_by_key(|pair| pair.1);
    assert_eq!(permutation.iter().map(|pair| pair.1).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    let incast = flows("[[traffic]]\npattern = \"incast\"\nsize = 1\nn = 3\ndst = 1\nfrom = 7\n");
    assert_eq!(incast, [(7, 1), (0, 1), (2, 1)]);
    assert_eq!(flows("[[traffic]]\npattern = \"all-to-all\"\nsize = 1\ncount = 1\n").len(), 56);
    let ring = read("[[traffic]]\npattern = \"ring-all-reduce\"\nsize = \"8KiB\"\n").flows;
    assert_eq!((ring.len(), ring[0].message), (14 * 8, 1024));
    assert_eq!((&ring[0].after, &ring[8].after, &ring[9].after), (&vec![], &vec![7], &vec![0]));
    let behind = read(&format!("{ONE}[[traffic]]\npattern = \"ring-all-reduce\"\nsize = 8\n"));
    assert_eq!((&behind.flows[9].after, &behind.flows[10].after), (&vec![8], &vec![1]));
    assert_eq!(behind.patterns, [("point-to-point".to_owned(), 1), ("ring-all-reduce".to_owned(), 113)]);
}

#[test]
fn each_path_of_the_fabric_has_an_ev() {
    let text = "forwarding = \"structured-ev\"\nplanes = 2\n[ev_profile]\npaths = true\n";
    let scenario = read(&format!("{text}{ONE}"));
    let Paths::Profile(pool) = &scenario.flows[0].path.paths else { panic!("no profile") };
    let mut values: Vec<u32> = pool.evs.iter().map(|ev| ev.value).collect();
    assert_eq!((pool.evs[0].port, pool.evs[1].port, values.len()), (1, 2, 8));
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), 8, "a value names one plane and one path");
}

#[test]
fn an_error_names_the_key() {
    for (error, part) in [
        (refused(&format!("[nic]\nmss = 0\n{ONE}")), "s.toml:7: nic.mss: MSS is 0"),
        (
            refused(&format!("[nic]\ncongestion = {{ eta_multiplier = 2.0 }}\n{ONE}")),
            "s.toml:7: nic.congestion.eta_multiplier: ",
        ),
        (refused(&format!("[nic]\ncongestion = \"ncss\"\n{ONE}")), "nic.congestion: \"ncss\" is no such control"),
        (refused(&format!("[nic]\necn_skp = true\n{ONE}")), "did you mean \"ecn_skip\"?"),
        (
            refused(&format!("[ev_profile]\npaths = true\n{ONE}")),
            "s.toml:6: ev_profile: paths = true needs a fabric whose",
        ),
        (
            refused(&format!("forwarding = \"srv6\"\n[ev_profile]\npaths = true\n{ONE}")),
            "ev_profile: SRv6 need ipv6 = true",
        ),
        (
            refused(&format!("[ev_profile]\nid = 1\nmode = \"explicit\"\n{ONE}")),
            "ev_profile: EV profile 1: mode explicit needs a format",
        ),
        (refused(&format!("[ev_profile]\nid = 1\nmod = \"auto\"\n{ONE}")), "did you mean \"mode\"?"),
        (refused("[[traffic]]\npattern = \"incast\"\nsize = 1\ndst = 0\n"), "s.toml:6: traffic.1.n: is missing"),
        (
            refused("[[traffic]]\npattern = \"incast\"\nsize = 1\ndst = 9\nn = 3\n"),
            "s.toml:9: traffic.1.dst: there is no NIC 9",
        ),
        (
            refused("[[traffic]]\npattern = \"permutation\"\nsize = 1\nsrc = 0\n"),
            "s.toml:9: traffic.1.src: does not go with this",
        ),
        (refused("[[traffic]]\npattern = \"permutaton\"\nsize = 1\n"), "did you mean \"permutation\"?"),
        (
            refused("[records]\ninterval = \"0ns\"\n[[traffic]]\npattern = \"permutation\"\nsize = 1\n"),
            "s.toml:7: records.interval: is out of range",
        ),
        (refused(""), "traffic is missing"),
    ] {
        assert!(error.contains(part), "{error}\nhas no\n{part}");
    }
}

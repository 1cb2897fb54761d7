//! Forwarding: ECMP, Structured EV, SRv6.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn leaf_spine() -> Topology {
    Topology::LeafSpine { planes: 2, leaves: 4, nics_per_leaf: 3, spines: 8 }
}

fn three_tier() -> Topology {
    Topology::ThreeTier { planes: 2, pods: 3, leaves: 2, nics_per_leaf: 2, spines: 4, cores: 4 }
}

fn with(topology: Topology, forwarding: Forwarding) -> Fabric<Vec<u8>> {
    build(&Plan { forwarding, ..Plan::new(topology) })
}

fn ecmp(salt: u64, flow_label: bool) -> Forwarding {
    Forwarding::Ecmp(Hash { salt, flow_label, repair: false })
}

/// How many of these packets take each way.
fn spread(fabric: &Fabric<Vec<u8>>, packets: impl Iterator<Item = Data>) -> BTreeMap<Vec<Node>, u32> {
    let mut counts = BTreeMap::new();
    for data in packets {
        *counts.entry(fabric.trace(NicId(data.from), 0, &data.frame()).unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn one_5_tuple_takes_one_path_and_the_one_that_was_foretold() {
    let mut fabric = build(&two(8));
    let way = fabric.trace(NicId(0), 0, &DATA.frame()).unwrap();
    for n in 0..50 {
        let payload = n as usize * 8;
        send(&mut fabric, n * 10_000, Data { payload, dscp: [4, 8, 46][n as usize % 3], ..DATA });
    }
    assert_eq!(drain(&mut fabric).len(), 50);
    for (from, to, stats) in fabric.links() {
        let taken = way.windows(2).any(|pair| pair == [from, to]);
        assert_eq!(stats.frames, if taken { 50 } else { 0 }, "{from} to {to}");
    }
}

#[test]
fn source_ports_spread_over_all_paths_about_evenly() {
    for (v6, salt) in [(false, 0), (false, 7), (true, 0), (true, 7)] {
        let fabric = with(Topology::Paths { nics: 2, paths: 8 }, ecmp(salt, false));
        let counts = spread(&fabric, (256..384).map(|ev| Data { ev, v6, ..DATA }));
        assert_eq!(counts.len(), 8);
        // 16 each; less than 4 or more than 32 would be 3 and 4 standard deviations off.
        assert!(counts.values().all(|count| (4..=32).contains(count)), "{counts:?}");
    }
}

#[test]
fn a_salt_makes_another_choice() {
    let ways = |salt| {
        let fabric = with(Topology::Paths { nics: 2, paths: 8 }, ecmp(salt, false));
        let of = |ev| fabric.trace(NicId(0), 0, &Data { ev, ..DATA }.frame()).unwrap();
        (0..64).map(of).collect::<Vec<_>>()
    };
    let same = ways(1).iter().zip(&ways(2)).filter(|(a, b)| a == b).count();
    assert!((1..24).contains(&same), "{same} of 64 are the same, and 8 were expected");
    assert_eq!(ways(3), ways(3));
}

#[test]
fn the_flow_label_counts_only_when_told() {
    let labels = || (0..64u32).map(|label| Data { v6: true, ev: label << 16 | 300, ..DATA });
    for (flow_label, ways) in [(false, 1), (true, 8)] {
        let fabric = with(Topology::Paths { nics: 2, paths: 8 }, ecmp(0, flow_label));
        assert_eq!(spread(&fabric, labels()).len(), ways);
    }
}

#[test]
fn fragments_keep_together() {
    let fabric = build(&two(8));
    let fragment = |ev| {
        let mut frame = Data { ev, ..DATA }.frame();
        frame[20] |= 0x20;
        frame
    };
    let ways: BTreeSet<_> = (0..64).map(|ev| fabric.trace(NicId(0), 0, &fragment(ev)).unwrap()).collect();
    assert_eq!(ways.len(), 1);
}

#[test]
fn tiers_do_not_choose_alike() {
    let fabric = with(three_tier(), ecmp(0, false));
    let counts = spread(&fabric, (0..1_000).map(|ev| Data { ev, to: 11, ..DATA }));
    assert_eq!(counts.len() as u32, fabric.paths(NicId(0), NicId(11)));
    assert!(counts.values().all(|count| (30..=100).contains(count)), "{counts:?}");
}

#[test]
fn each_destination_is_reached_on_each_plane_the_short_way() {
    for topology in [leaf_spine(), three_tier()] {
        let mut fabric = with(topology, ecmp(0, false));
        let nics = fabric.nics();
        for (from, to, port) in (0..nics).flat_map(|from| (0..nics).flat_map(move |to| [(from, to, 0), (from, to, 1)]))
        {
            let data = Data { from, to, v6: to % 2 == 1, ..DATA };
            let way = fabric.trace(NicId(from), port, &data.frame()).unwrap();
            let ways = (0..fabric.paths(NicId(from), NicId(to))).map(|n| fabric.way(NicId(from), NicId(to), port, n));
            assert!(ways.flatten().any(|named| named == way), "{way:?}");
            fabric.inject(Ns(u64::from(from) * 1_000_000), NicId(from), port, data.frame());
        }
        let came = drain(&mut fabric);
        assert_eq!(came.len() as u32, nics * nics * 2);
        for Delivery { nic, port, frame, .. } in came {
            let data = Data { from: u32::from(frame[11]) - 1, to: nic.0, v6: nic.0 % 2 == 1, ..DATA };
            assert!(frame == data.frame() && port < 2);
        }
    }
}

#[test]
fn a_structured_ev_names_one_path_and_each_path_has_one() {
    for (topology, bits, widths) in [
        (leaf_spine(), EvBits::Port, vec![3]),
        (three_tier(), EvBits::Port, vec![2, 2]),
        (leaf_spine(), EvBits::LabelAndPort, vec![3]),
        (three_tier(), EvBits::LabelAndPort, vec![2, 2]),
    ] {
        let structured: u32 = widths.iter().map(|&width| u32::from(width)).sum();
        let fabric = with(topology, Forwarding::StructuredEv { bits, widths });
        let v6 = bits == EvBits::LabelAndPort;
        let (from, to) = (NicId(0), NicId(fabric.nics() - 1));
        let named: BTreeSet<_> = (0..fabric.paths(from, to)).map(|n| fabric.ev(from, to, n).unwrap()).collect();
        let shift = if v6 { 32 } else { 16 } - structured;
        assert_eq!(named, (0..1 << structured).map(|field| field << shift).collect());
        for n in 0..fabric.paths(from, to) {
            // What no switch looks at changes nothing.
            for rest in [0, (1 << shift) - 1] {
                let ev = fabric.ev(from, to, n).unwrap() | rest;
                let frame = Data { to: to.0, ev, v6, ..DATA }.frame();
                assert_eq!(fabric.trace(from, 1, &frame), Ok(fabric.way(from, to, 1, n).unwrap()));
            }
        }
    }
}

#[test]
fn a_field_that_is_wider_than_the_choice_is_taken_modulo() {
    let widths = vec![4];
    let fabric = with(Topology::Paths { nics: 2, paths: 6 }, Forwarding::StructuredEv { bits: EvBits::Port, widths });
    for field in 0..16u32 {
        let frame = Data { ev: field << 12, ..DATA }.frame();
        let way = fabric.way(NicId(0), NicId(1), 0, field % 6).unwrap();
        assert_eq!(fabric.trace(NicId(0), 0, &frame), Ok(way));
    }
    assert_eq!(fabric.ev(NicId(0), NicId(1), 6), None);
    assert_eq!(fabric.usid_path(NicId(0), NicId(1), 0), None);
}

const LOCATOR: u32 = 0xFCBB_BB00;

fn srv6(topology: Topology) -> Fabric<Vec<u8>> {
    with(topology, Forwarding::Srv6 { locator: LOCATOR, others: Hash::default() })
}

#[test]
fn usids_name_the_path_and_are_used_up_on_it() {
    for topology in [leaf_spine(), three_tier(), Topology::Paths { nics: 2, paths: 4 }] {
        let mut fabric = srv6(topology);
        let from = NicId(0);
        for (to, srh) in (1..fabric.nics()).map(NicId).flat_map(|to| [(to, false), (to, true)]) {
            for n in 0..fabric.paths(from, to) {
                let path = fabric.usid_path(from, to, n).unwrap();
                let data = Data { to: to.0, v6: true, path: Some(path), srh, ..DATA };
                let way = fabric.way(from, to, 0, n).unwrap();
                assert_eq!(path.usids().count() + 2, way.len());
                assert_eq!(fabric.trace(from, 0, &data.frame()), Ok(way.clone()));
                let before: Vec<_> = way.windows(2).map(|hop| fabric.link(hop[0], hop[1]).unwrap().frames).collect();
                let now = fabric.next_wake().unwrap_or(Ns(fabric.totals().injected * 10_000));
                fabric.inject(now, from, 0, data.frame());
                let came = drain(&mut fabric).pop().unwrap();
                let after: Vec<_> = way.windows(2).map(|hop| fabric.link(hop[0], hop[1]).unwrap().frames).collect();
                assert!(before.iter().zip(&after).all(|(before, after)| before + 1 == *after));
                // The locator is left, and nothing else has changed.
                let mut expected = data.frame();
                expected[14 + 28..14 + 40].fill(0);
                assert_eq!((came.nic, came.frame), (to, expected));
            }
        }
    }
}

#[test]
fn the_way_down_needs_no_usids() {
    let fabric = srv6(three_tier());
    let (from, to) = (NicId(0), NicId(11));
    for n in 0..fabric.paths(from, to) {
        let whole: Vec<u16> = fabric.usid_path(from, to, n).unwrap().usids().collect();
        let path = UsidPath::new(LOCATOR, &whole[..3]).unwrap();
        let frame = Data { to: 11, v6: true, path: Some(path), ..DATA }.frame();
        assert_eq!(fabric.trace(from, 0, &frame), Ok(fabric.way(from, to, 0, n).unwrap()));
    }
}

#[test]
fn usids_that_lead_nowhere_are_dropped_by_name() {
    let fabric = srv6(leaf_spine());
    let fate = |to, usids: &[u16]| {
        let path = UsidPath::new(LOCATOR, usids).unwrap();
        fabric.trace(NicId(0), 0, &Data { to, v6: true, path: Some(path), ..DATA }.frame())
    };
    assert!(fate(11, &[0x1000, 0x2007, 0x1003]).is_ok());
    // Not a neighbour, no such switch, no such tier, its own once more, the end of the path before the destination, another leaf.
    for usids in
        [&[0x1001][..], &[0x1000, 0x2008], &[0x1000, 0x3000], &[1], &[0x1000; 2], &[0x1000], &[0x1000, 0x2000, 0x1002]]
    {
        assert_eq!(fate(11, usids), Err(FabricDrop::NoWay), "{usids:x?}");
    }
    assert_eq!(fate(12, &[0x1000]), Err(FabricDrop::UnknownDestination));
}

#[test]
fn frames_in_no_encapsulation_are_hashed_on_an_srv6_fabric() {
    let fabric = srv6(Topology::Paths { nics: 2, paths: 8 });
    assert_eq!(spread(&fabric, (0..128).map(|ev| Data { ev, ..DATA })).len(), 8);
}

#[test]
fn marks_go_to_the_outer_header() {
    let mut plan = Plan::new(Topology::Paths { nics: 2, paths: 1 });
    plan.forwarding = Forwarding::Srv6 { locator: LOCATOR, others: Hash::default() };
    plan.queue.ecn = Some(EcnParams { min: 0, max: 0, last_hop: false });
    let mut fabric = build(&plan);
    let path = fabric.usid_path(NicId(0), NicId(1), 0);
    send(&mut fabric, 0, Data { v6: true, path, ..DATA });
    let frame = drain(&mut fabric).pop().unwrap().frame;
    assert_eq!((frame[15] >> 4 & 3, frame[55] >> 4 & 3), (3, 2));
}

#[test]
fn a_way_that_is_not_there_has_no_name() {
    let fabric = srv6(leaf_spine());
    assert_eq!(fabric.paths(NicId(0), NicId(12)), 0);
    assert_eq!(fabric.paths(NicId(0), NicId(1)), 1);
    assert_eq!(fabric.way(NicId(0), NicId(3), 2, 0), None);
    assert_eq!(fabric.way(NicId(0), NicId(3), 0, 8), None);
    assert_eq!(fabric.ev(NicId(0), NicId(3), 0), None);
}

//! What holds for every fabric.

use super::*;
use proptest::prelude::*;

fn any_topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (2..5u32, 1..6u32).prop_map(|(nics, paths)| Topology::Paths { nics, paths }),
        (1..3u8, 1..4u32, 1..4u32, 1..4u32).prop_map(|(planes, leaves, nics_per_leaf, spines)| Topology::LeafSpine {
            planes,
            leaves,
            nics_per_leaf,
            spines
        }),
        (1..3u8, [1..3u32, 1..3, 1..3, 1..3, 1..3]).prop_map(
            |(planes, [pods, leaves, nics_per_leaf, spines, cores])| {
                Topology::ThreeTier { planes, pods, leaves, nics_per_leaf, spines, cores }
            }
        ),
    ]
}

fn any_link() -> impl Strategy<Value = LinkParams> {
    let share = || prop_oneof![3 => Just(0.0), 1 => 0.0..0.5];
    (1..200u64, 0..3_000u64, share(), share(), share(), 0..20_000u64).prop_map(
        |(gbps, delay_ns, loss, corrupt, reorder, late_ns)| LinkParams {
            rate: gbps * 1_000_000_007,
            delay_ns,
            loss,
            corrupt,
            reorder,
            late_ns,
            overhead: 24,
        },
    )
}

fn any_forwarding() -> impl Strategy<Value = Forwarding> {
    let hash = || {
        (any::<u64>(), any::<bool>(), any::<bool>()).prop_map(|(salt, flow_label, repair)| Hash {
            salt,
            flow_label,
            repair,
        })
    };
    prop_oneof![
        hash().prop_map(Forwarding::Ecmp),
        any::<bool>().prop_map(|port| Forwarding::StructuredEv {
            bits: if port { EvBits::Port } else { EvBits::LabelAndPort },
            widths: vec![3, 3],
        }),
        hash().prop_map(|others| Forwarding::Srv6 { locator: 0xFCBB_BB00, others }),
    ]
}

/// Places by number, so that they are there whatever the topology.
fn place(plan: &Plan, kind: u8, n: usize) -> Place {
    let ends: Vec<_> = plan.shape().unwrap().ends().collect();
    let switches: Vec<_> = plan.shape().unwrap().switches().collect();
    let (from, to) = ends[n % ends.len()];
    match kind {
        0 => Place::Link(from, to),
        1 => Place::OneWay(from, to),
        2 => Place::Switch(switches[n % switches.len()]),
        _ => Place::Plane(0),
    }
}

fn fault(plan: &Plan, kind: u8, place_kind: u8, n: usize) -> Fault {
    let place = place(plan, place_kind, n);
    let switches: Vec<_> = plan.shape().unwrap().switches().collect();
    match kind {
        0 => Fault::Down(place),
        1 => Fault::Up(place),
        2 => Fault::Flap { place, down_ns: 1_000 + n as u64, up_ns: 2_000, times: n as u32 % 8 },
        3 => Fault::BlackHole(place),
        4 => Fault::Loss(place, 0.5),
        5 => Fault::Rate(place, 1 + n as u64 * 1_000_000),
        6 => Fault::Heal(place),
        _ => Fault::Reboot(switches[n % switches.len()], n as u64),
    }
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let faults = prop::collection::vec((0..30_000u64, 0..8u8, 0..4u8, 0..10_000usize), 0..6);
    let queue =
        (500..20_000u32, 100..4_000u32, any::<bool>(), prop::option::of((0..9_000u32, 0..9_000u32, any::<bool>())));
    (any_topology(), any_link(), any_link(), any_forwarding(), queue, 500..50_000u32, faults).prop_map(
        |(topology, host, fabric, forwarding, (data, control, trimming, ecn), nic_queue, faults)| {
            let ecn = ecn.map(|(min, more, last_hop)| EcnParams { min, max: min + more, last_hop });
            let queue = QueueParams { data, control, ecn, trimming };
            let mut plan = Plan { host, fabric, forwarding, queue, nic_queue, ..Plan::new(topology) };
            plan.schedule = faults
                .into_iter()
                .map(|(at, kind, place_kind, n)| (Ns(at), fault(&plan, kind, place_kind, n)))
                .collect();
            plan
        },
    )
}

/// A frame that a NIC might send, or noise.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let data =
        (0..12u32, 0..14u32, any::<[bool; 4]>(), any::<u32>(), 0..6usize, 0..4u8, 0..2_000usize, any::<[u8; 3]>());
    let data = data.prop_map(|(from, to, [v6, vlan, timestamp, srh], ev, class, ecn, payload, usids)| {
        let usids =
            [0x1000 | u16::from(usids[0] % 4), 0x2000 | u16::from(usids[1] % 4), 0x1000 | u16::from(usids[2] % 4)];
        let path = UsidPath::new(0xFCBB_BB00, &usids).ok().filter(|_| v6 && ev % 2 == 0);
        let dscp = [0, 4, 8, 12, 16, 46][class];
        Data { from, to, v6, vlan, timestamp, ev, dscp, ecn, payload, path, srh }.frame()
    });
    let broken = (data.clone(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    let broken = broken.prop_map(|(mut frame, at, byte, cut)| {
        let at = at.index(frame.len());
        frame[at] = byte;
        if cut {
            frame.truncate(at);
        }
        frame
    });
    prop_oneof![4 => data, 2 => broken, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

type Sends = Vec<(u64, u32, u8, Vec<u8>)>;

fn any_sends() -> impl Strategy<Value = Sends> {
    prop::collection::vec((0..2_000u64, 0..12u32, 0..2u8, any_frame()), 1..120)
}

/// Runs it all, and checks on the way that no frame is lost without a reason.
fn run(plan: &Plan, seed: u64, sends: &Sends) -> (Vec<Delivery<Vec<u8>>>, Vec<LinkStats>, Totals) {
    let mut fabric = Fabric::new(plan, seed).unwrap();
    let (mut now, mut came) = (Ns(0), Vec::new());
    for (wait, nic, port, frame) in sends {
        now += *wait;
        let nic = NicId(nic % fabric.nics());
        fabric.inject(now, nic, port % fabric.ports(), frame.clone());
        came.extend(std::iter::from_fn(|| fabric.poll()));
        let totals = fabric.totals();
        let known = came.len() as u64 + totals.dropped.total() + fabric.inside() as u64;
        assert_eq!(totals.injected, known);
    }
    came.extend(drain(&mut fabric));
    let stats: Vec<LinkStats> = fabric.links().map(|(_, _, stats)| stats).collect();
    let by_link: u64 = stats.iter().map(|stats| stats.dropped.total()).sum();
    assert_eq!(by_link, fabric.totals().dropped.total());
    assert_eq!(fabric.inside(), 0);
    (came, stats, *fabric.totals())
}

proptest! {
    #[test]
    fn every_frame_is_delivered_dropped_for_a_reason_or_inside(plan in any_plan(), seed: u64, sends in any_sends()) {
        let (came, stats, totals) = run(&plan, seed, &sends);
        prop_assert_eq!(came.len() as u64, totals.delivered);
        prop_assert!(came.windows(2).all(|pair| pair[0].at <= pair[1].at));
        let queue = |stats: &LinkStats| (stats.max_data_bytes, stats.max_control_bytes);
        for (data, control) in stats.iter().map(queue) {
            prop_assert!(data <= plan.queue.data.max(plan.nic_queue) && control <= plan.queue.control.max(plan.nic_queue));
        }
    }

    #[test]
    fn one_seed_gives_one_history_byte_for_byte(plan in any_plan(), seed: u64, sends in any_sends()) {
        prop_assert_eq!(run(&plan, seed, &sends), run(&plan, seed, &sends));
    }

    #[test]
    fn how_often_a_driver_looks_changes_nothing(plan in any_plan(), sends in any_sends(), step in 1..5_000u64) {
        let mut often = Fabric::new(&plan, 3).unwrap();
        let mut now = Ns(0);
        for (wait, nic, port, frame) in &sends {
            let next = now + *wait;
            while now < next {
                now = (now + step).min(next);
                often.on_time(now);
            }
            let (nic, port) = (NicId(nic % often.nics()), port % often.ports());
            often.inject(now, nic, port, frame.clone());
        }
        prop_assert_eq!(drain(&mut often), run(&plan, 3, &sends).0);
    }

    #[test]
    fn no_frame_makes_a_trace_panic(frame in any_frame(), plan in any_plan()) {
        let fabric: Fabric<Vec<u8>> = Fabric::new(&plan, 1).unwrap();
        let _ = fabric.trace(NicId(0), 0, &frame);
    }
}

/// Sends a burst from each NIC to the one half the fabric further.
fn burst(nics_per_leaf: u32, leaves: u32, spines: u32) -> Totals {
    let mut plan = Plan::new(Topology::LeafSpine { planes: 1, leaves, nics_per_leaf, spines });
    plan.nic_queue = 1 << 20;
    let mut fabric = build(&plan);
    let nics = fabric.nics();
    for from in 0..nics {
        for ev in 0..20 {
            send(&mut fabric, 0, Data { from, to: (from + nics / 2) % nics, ev, ..DATA });
        }
    }
    drain(&mut fabric);
    *fabric.totals()
}

#[test]
fn a_packet_costs_as_many_events_among_1024_nics_as_between_two() {
    for totals in [burst(1, 2, 1), burst(32, 32, 16)] {
        assert_eq!(totals.dropped.total(), 0);
        assert_eq!(totals.hops, 4 * totals.delivered);
        // An arrival for each hop, and a service where a frame had to wait.
        assert!((totals.hops..=2 * totals.hops).contains(&totals.events), "{totals:?}");
    }
}

#[test]
fn hostile_frames_are_dropped_by_name() {
    let mut fabric = build(&two(2));
    let v4 = DATA.frame();
    let v6 = Data { v6: true, ..DATA }.frame();
    let changed = |frame: &[u8], at: usize, byte: u8| {
        let mut frame = frame.to_vec();
        frame[at] = byte;
        frame
    };
    for (frame, reason) in [
        (vec![], FabricDrop::Malformed),
        (v4[..13].to_vec(), FabricDrop::Malformed),
        (v4[..33].to_vec(), FabricDrop::Malformed),
        (v6[..53].to_vec(), FabricDrop::Malformed),
        (changed(&v4, 14, 0x44), FabricDrop::Malformed),
        (changed(&v6, 14, 0x40), FabricDrop::Malformed),
        (changed(&v4, 12, 9), FabricDrop::NotIp),
        (changed(&v4, 30, 11), FabricDrop::UnknownDestination),
        (changed(&v6, 38, 1), FabricDrop::UnknownDestination),
        (vec![0; FRAME_MAX + 1], FabricDrop::TooLong),
    ] {
        let before = fabric.totals().dropped.of(reason);
        fabric.inject(Ns(0), NicId(0), 0, frame);
        assert_eq!(drain(&mut fabric), []);
        assert_eq!(fabric.totals().dropped.of(reason), before + 1, "{}", reason.name());
    }
    assert_eq!(fabric.link(nic(0), switch(0, 0)).unwrap().dropped.total(), 10);
}

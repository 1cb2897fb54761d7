//! What breaks.

use super::*;

fn scheduled(paths: u32, schedule: &[(u64, Fault)]) -> Fabric<Vec<u8>> {
    let mut plan = two(paths);
    plan.schedule = schedule.iter().map(|&(at, fault)| (Ns(at), fault)).collect();
    build(&plan)
}

/// Sends a packet each microsecond, and says which arrived, by the time at which they left.
fn arrivals(fabric: &mut Fabric<Vec<u8>>, packets: u32) -> Vec<u32> {
    for n in 0..packets {
        send(fabric, u64::from(n) * 1_000, Data { ev: n, dscp: 0, ..DATA });
    }
    drain(fabric)
        .iter()
        .map(|delivery| u32::from(u16::from_be_bytes([delivery.frame[34], delivery.frame[35]])))
        .collect()
}

const MIDDLE: Place = Place::Link(
    Node::Switch(SwitchId { plane: 0, tier: 0, index: 0 }),
    Node::Switch(SwitchId { plane: 0, tier: 1, index: 0 }),
);

#[test]
fn a_link_that_goes_down_loses_what_waits_and_what_travels_and_says_so() {
    let mut fabric = scheduled(1, &[(10_500, Fault::Down(MIDDLE)), (20_500, Fault::Up(MIDDLE))]);
    let came = arrivals(&mut fabric, 30);
    // The packet of 8 us was on the link from about 9 to 10 us; that of 9 us had just got onto it.
    assert_eq!(came, (0..=8).chain(20..30).collect::<Vec<_>>());
    assert_eq!(dropped(&fabric), [(FabricDrop::LinkDown, 11)]);
    assert_eq!(fabric.link(switch(0, 0), switch(1, 0)).unwrap().dropped.of(FabricDrop::LinkDown), 11);
    // NICs see nothing of it.
    assert_eq!(fabric.poll_port(), None);
}

#[test]
fn a_queue_is_lost_at_once() {
    let mut fabric = build(&two(1));
    for _ in 0..100 {
        send(&mut fabric, 0, DATA.of_len(1_226));
    }
    fabric.apply(Ns(50), &Fault::Down(Place::Link(nic(0), switch(0, 0)))).unwrap();
    assert_eq!(fabric.totals().dropped.of(FabricDrop::LinkDown), 99);
    assert_eq!((fabric.inside(), fabric.next_free(NicId(0), 0)), (1, None));
    assert_eq!(fabric.poll_port(), Some(PortState { nic: NicId(0), port: 0, up: false }));
    send(&mut fabric, 60, DATA);
    assert_eq!(drain(&mut fabric), []);
    fabric.apply(Ns(9_000), &Fault::Up(Place::Link(nic(0), switch(0, 0)))).unwrap();
    assert_eq!(fabric.poll_port(), Some(PortState { nic: NicId(0), port: 0, up: true }));
    assert_eq!(fabric.poll_port(), None);
    send(&mut fabric, 9_000, DATA);
    assert_eq!(drain(&mut fabric).len(), 1);
}

#[test]
fn a_link_that_is_down_for_less_than_its_delay_still_loses_what_travelled() {
    let mut fabric = build(&two(1));
    send(&mut fabric, 0, DATA);
    let link = Place::Link(nic(0), switch(0, 0));
    fabric.apply(Ns(500), &Fault::Down(link)).unwrap();
    fabric.apply(Ns(501), &Fault::Up(link)).unwrap();
    send(&mut fabric, 502, Data { ev: 9, ..DATA });
    let came = drain(&mut fabric);
    assert_eq!((came.len(), came[0].frame[35]), (1, 9));
    assert_eq!(dropped(&fabric), [(FabricDrop::LinkDown, 1)]);
}

#[test]
fn a_link_that_comes_back_forgets_what_it_was_to_send_next() {
    let mut fabric = build(&two(1));
    let link = Place::Link(nic(0), switch(0, 0));
    for _ in 0..3 {
        send(&mut fabric, 0, DATA.of_len(1_226));
    }
    fabric.apply(Ns(50), &Fault::Down(link)).unwrap();
    fabric.apply(Ns(60), &Fault::Up(link)).unwrap();
    for _ in 0..3 {
        send(&mut fabric, 60, DATA.of_len(1_226));
    }
    fabric.on_time(Ns(110));
    assert_eq!(fabric.next_free(NicId(0), 0), Some(Ns(360)));
    let at: Vec<u64> = drain(&mut fabric).iter().map(|delivery| delivery.at.0).collect();
    assert_eq!(at, [4_460, 4_560, 4_660]);
}

#[test]
fn a_flap_goes_down_and_up_as_often_as_told() {
    let flap = Fault::Flap { place: MIDDLE, down_ns: 3_000, up_ns: 7_000, times: 3 };
    let mut fabric = scheduled(1, &[(10_500, flap)]);
    let came = arrivals(&mut fabric, 60);
    let lost: Vec<u32> = (0..60).filter(|n| !came.contains(n)).collect();
    assert_eq!(lost, [9, 10, 11, 12, 19, 20, 21, 22, 29, 30, 31, 32]);
}

#[test]
fn a_black_hole_swallows_and_looks_up() {
    let hole = Place::OneWay(nic(0), switch(0, 0));
    let mut fabric = scheduled(1, &[(4_500, Fault::BlackHole(hole)), (9_500, Fault::Heal(hole))]);
    assert_eq!(arrivals(&mut fabric, 15), (0..=4).chain(10..15).collect::<Vec<_>>());
    assert_eq!(dropped(&fabric), [(FabricDrop::BlackHole, 5)]);
    assert!(fabric.port_up(NicId(0), 0) && fabric.poll_port().is_none());
}

#[test]
fn repair_moves_flows_off_a_link_that_is_down_but_not_off_a_black_hole() {
    let mut plan = two(8);
    plan.forwarding = Forwarding::Ecmp(Hash { repair: true, ..Hash::default() });
    let mut fabric = build(&plan);
    let before: Vec<_> = (0..64).map(|ev| fabric.trace(NicId(0), 0, &Data { ev, ..DATA }.frame()).unwrap()).collect();
    fabric.apply(Ns(0), &Fault::Down(MIDDLE)).unwrap();
    for (ev, way) in before.iter().enumerate() {
        let now = fabric.trace(NicId(0), 0, &Data { ev: ev as u32, ..DATA }.frame()).unwrap();
        assert!(!now.contains(&switch(1, 0)));
        assert!(way == &now || way.contains(&switch(1, 0)), "a flow moved without need");
    }
    for index in 1..8 {
        fabric.apply(Ns(0), &Fault::Down(Place::Link(switch(0, 0), switch(1, index)))).unwrap();
    }
    assert_eq!(fabric.trace(NicId(0), 0, &DATA.frame()), Err(FabricDrop::LinkDown));
    fabric.apply(Ns(0), &Fault::Heal(Place::Plane(0))).unwrap();
    fabric.apply(Ns(0), &Fault::BlackHole(MIDDLE)).unwrap();
    let fates: Vec<_> = (0..64).map(|ev| fabric.trace(NicId(0), 0, &Data { ev, ..DATA }.frame())).collect();
    assert!(fates.contains(&Err(FabricDrop::BlackHole)));
}

#[test]
fn loss_is_one_way_and_takes_its_share() {
    let mut fabric = scheduled(1, &[(0, Fault::Loss(Place::OneWay(switch(0, 0), switch(1, 0)), 0.3))]);
    for n in 0..5_000 {
        send(&mut fabric, n * 1_000, DATA);
        send(&mut fabric, n * 1_000, Data { from: 1, to: 0, ..DATA });
    }
    let came = drain(&mut fabric);
    let there = came.iter().filter(|delivery| delivery.nic == NicId(1)).count();
    assert_eq!(came.len() - there, 5_000);
    assert!((3_350..=3_650).contains(&there), "{there} of 5,000 with a loss of 0.3");
}

#[test]
fn a_slow_link_is_slow_until_it_is_healed() {
    let mut fabric = scheduled(1, &[(0, Fault::Rate(MIDDLE, 1_000_000_000)), (50_000, Fault::Heal(MIDDLE))]);
    send(&mut fabric, 0, DATA.of_len(1_226));
    send(&mut fabric, 60_000, DATA.of_len(1_226));
    let at: Vec<u64> = drain(&mut fabric).iter().map(|delivery| delivery.at.0).collect();
    assert_eq!(at, [4_300 + 10_000, 64_400]);
}

#[test]
fn a_switch_that_reboots_loses_its_queues_and_comes_back() {
    let mut plan = two(1);
    plan.fabric.rate = 10_000_000_000;
    plan.schedule = vec![(Ns(5_000), Fault::Reboot(SwitchId { plane: 0, tier: 0, index: 0 }, 10_000))];
    let mut fabric = build(&plan);
    for _ in 0..40 {
        send(&mut fabric, 0, DATA.of_len(1_226));
    }
    fabric.on_time(Ns(5_000));
    assert!(fabric.totals().dropped.of(FabricDrop::Reboot) > 30);
    assert!(!fabric.port_up(NicId(0), 0) && fabric.port_up(NicId(1), 0));
    let told: Vec<_> = std::iter::from_fn(|| fabric.poll_port()).collect();
    assert_eq!(told, [PortState { nic: NicId(0), port: 0, up: false }]);
    send(&mut fabric, 14_999, DATA);
    send(&mut fabric, 15_000, Data { ev: 9, ..DATA });
    let came = drain(&mut fabric);
    assert_eq!(came.last().map(|delivery| delivery.frame[35]), Some(9));
    assert!(fabric.port_up(NicId(0), 0));
}

#[test]
fn a_link_between_two_switches_that_reboot_waits_for_both() {
    let [leaf, spine] = [0, 1].map(|tier| SwitchId { plane: 0, tier, index: 0 });
    let schedule = [
        (1_000, Fault::Reboot(leaf, 5_000)),
        (1_000, Fault::Reboot(spine, 1_000)),
        (2_000, Fault::Reboot(spine, 8_000)),
    ];
    let mut fabric = scheduled(1, &schedule);
    for (now, reached) in [(1_500, 0), (2_500, 0), (6_500, 1), (9_999, 1), (10_000, 4)] {
        fabric.on_time(Ns(now));
        let up = |from, to| fabric.links[fabric.router.shape.link(from, to).unwrap() as usize].is_up();
        let way = [nic(0), switch(0, 0), switch(1, 0), switch(0, 1), nic(1)];
        assert_eq!(way.windows(2).take_while(|hop| up(hop[0], hop[1])).count(), reached, "at {now}");
    }
}

#[test]
fn a_plane_is_lost_for_all_and_the_other_is_as_before() {
    let mut plan = Plan::new(Topology::LeafSpine { planes: 2, leaves: 2, nics_per_leaf: 2, spines: 2 });
    plan.schedule = vec![(Ns(100), Fault::Down(Place::Plane(1)))];
    let mut fabric = build(&plan);
    for nic in 0..4 {
        for port in 0..2 {
            fabric.inject(Ns(1_000), NicId(nic), port, Data { from: nic, to: (nic + 2) % 4, ..DATA }.frame());
        }
    }
    let came = drain(&mut fabric);
    assert!(came.len() == 4 && came.iter().all(|delivery| delivery.port == 0));
    assert_eq!(dropped(&fabric), [(FabricDrop::LinkDown, 4)]);
    let told: Vec<_> = std::iter::from_fn(|| fabric.poll_port()).collect();
    assert_eq!(told, [0, 1, 2, 3].map(|nic| PortState { nic: NicId(nic), port: 1, up: false }));
}

#[test]
fn a_fault_that_names_what_is_not_there_is_refused() {
    let mut fabric = build(&two(2));
    let switch_id = SwitchId { plane: 0, tier: 1, index: 2 };
    let mut refused = |fault| fabric.apply(Ns(0), &fault).unwrap_err();
    assert_eq!(refused(Fault::Down(Place::Plane(1))), PlanError::NoPlane(1));
    assert_eq!(refused(Fault::Reboot(switch_id, 5)), PlanError::NoSwitch(switch_id));
    assert_eq!(refused(Fault::Up(Place::OneWay(nic(0), nic(1)))), PlanError::NoLink(nic(0), nic(1)));
    assert_eq!(refused(Fault::Loss(MIDDLE, 2.0)), PlanError::Share(2.0));
    assert_eq!(refused(Fault::Rate(MIDDLE, 0)), PlanError::Rate(0));
    assert_eq!(refused(Fault::Flap { place: MIDDLE, down_ns: 0, up_ns: 0, times: 1 }), PlanError::Flap);
}

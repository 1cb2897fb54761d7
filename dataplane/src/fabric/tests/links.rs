//! Time on links.

use super::*;

#[test]
fn a_frame_takes_serialisation_and_delay_on_every_link() {
    let mut fabric = build(&two(1));
    send(&mut fabric, 5_000, DATA.of_len(1_226));
    // 1,250 bytes at 100 Gbps are 100 ns, on four links.
    let came = drain(&mut fabric);
    assert_eq!(came.len(), 1);
    assert_eq!((came[0].at, came[0].nic, came[0].port), (Ns(5_000 + 4 * 1_100), NicId(1), 0));
    assert_eq!(came[0].frame, DATA.of_len(1_226).frame());
    let first = fabric.link(nic(0), switch(0, 0)).unwrap();
    assert_eq!((first.frames, first.bytes, first.busy_ps), (1, 1_226, 100_000));
    assert_eq!(fabric.totals().hops, 4);
}

#[test]
fn a_short_frame_is_padded_on_the_wire() {
    let mut fabric = build(&two(1));
    fabric.inject(Ns(0), NicId(0), 0, DATA.frame()[..40].to_vec());
    // 84 bytes at 100 Gbps are 6.72 ns.
    assert_eq!(drain(&mut fabric)[0].at, Ns((4 * 1_006_720u64).div_ceil(1_000)));
}

#[test]
fn frames_follow_each_other_without_a_gap_and_in_order() {
    let mut fabric = build(&two(1));
    for ev in 0..100 {
        send(&mut fabric, 0, Data { ev, ..DATA }.of_len(1_226));
    }
    for (n, delivery) in drain(&mut fabric).into_iter().enumerate() {
        assert_eq!(delivery.at, Ns(4_400 + n as u64 * 100));
        assert_eq!(delivery.frame, Data { ev: n as u32, ..DATA }.of_len(1_226).frame());
    }
}

#[test]
fn a_rate_is_right_in_the_long_run_to_a_millionth_and_better() {
    for rate in [399_999_999_977, 400_000_000_000, 7_777_777_777, 1_000_000_007] {
        let mut plan = two(1);
        plan.host.rate = rate;
        plan.nic_queue = QUEUE_MAX;
        let mut fabric = build(&plan);
        let frames = 20_000;
        for _ in 0..frames {
            fabric.inject(Ns(0), NicId(0), 0, vec![0; 61]);
        }
        drain(&mut fabric);
        let busy = fabric.link(nic(0), switch(0, 0)).unwrap().busy_ps;
        let exact = u128::from(frames * 85 * 8u64) * 1_000_000_000_000 / u128::from(rate);
        assert_eq!(u128::from(busy), exact, "at {rate} bits per second");
    }
}

#[test]
fn a_port_says_when_it_is_free_and_whether_it_has_room() {
    let mut plan = two(1);
    plan.nic_queue = 2_500;
    let mut fabric = build(&plan);
    assert_eq!(fabric.next_free(NicId(0), 0), None);
    assert!(fabric.room(NicId(0), 0, 1_226));
    send(&mut fabric, 10, DATA.of_len(1_226));
    assert_eq!(fabric.next_free(NicId(0), 0), Some(Ns(110)));
    send(&mut fabric, 10, DATA.of_len(1_226));
    assert_eq!(fabric.next_free(NicId(0), 0), Some(Ns(210)));
    assert!(fabric.room(NicId(0), 0, 1_226));
    send(&mut fabric, 10, DATA.of_len(1_226));
    assert!(!fabric.room(NicId(0), 0, 1_226));
    send(&mut fabric, 10, DATA.of_len(1_226));
    assert_eq!(dropped(&fabric), [(FabricDrop::DataFull, 1)]);
    assert_eq!(fabric.link(nic(0), switch(0, 0)).unwrap().max_data_bytes, 2_452);
    fabric.on_time(Ns(110));
    assert!(fabric.room(NicId(0), 0, 1_226));
    assert_eq!(fabric.next_free(NicId(0), 0), Some(Ns(310)));
    assert!(!fabric.inject(Ns(110), NicId(2), 0, vec![]) && !fabric.inject(Ns(110), NicId(0), 1, vec![]));
    assert!(!fabric.room(NicId(0), 1, 60) && fabric.next_free(NicId(2), 0).is_none());
}

#[test]
fn a_driver_that_sends_whenever_the_port_is_free_fills_the_link() {
    let mut plan = two(1);
    plan.host.rate = 333_333_333_333;
    let mut fabric = build(&plan);
    let (mut now, mut sent) = (Ns(0), 0);
    while now < Ns(100_000) {
        send(&mut fabric, now.0, DATA.of_len(1_002));
        sent += 1;
        now = fabric.next_free(NicId(0), 0).unwrap();
    }
    let exact = 100_000.0 * 333.333_333_333 / 8.0 / 1_026.0;
    assert!((f64::from(sent) - exact).abs() <= 1.0, "{sent} frames, and {exact} fit");
}

#[test]
fn a_faulty_link_loses_flips_and_delays_its_shares() {
    let mut plan = two(1);
    plan.fabric = LinkParams { loss: 0.1, corrupt: 0.1, reorder: 0.1, late_ns: 50_000, ..plan.fabric };
    let mut fabric = build(&plan);
    let frames = 10_000;
    for n in 0..frames {
        send(&mut fabric, n * 1_000, Data { ev: 0, ..DATA }.of_len(502));
    }
    let came = drain(&mut fabric);
    let share = |count: u64| count as f64 / frames as f64;
    // Two faulty links on the way.
    assert!((share(fabric.totals().dropped.of(FabricDrop::Loss)) - 0.19).abs() < 0.02);
    let whole = Data { ev: 0, ..DATA }.of_len(502).frame();
    let flipped = came.iter().filter(|delivery| delivery.frame != whole);
    let bits = |frame: &[u8]| frame.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    assert!(flipped.clone().all(|delivery| (1..=2).contains(&bits(&delivery.frame))));
    assert!((flipped.count() as f64 / came.len() as f64 - 0.19).abs() < 0.03);
    let overtaken = came.iter().filter(|delivery| delivery.at.0 % 1_000 != came[0].at.0 % 1_000).count();
    assert!((overtaken as f64 / came.len() as f64 - 0.19).abs() < 0.03);
}

#[test]
fn a_flipped_destination_is_dropped_by_name_or_goes_astray() {
    let mut plan = two(4);
    plan.host.corrupt = 1.0;
    let mut fabric = build(&plan);
    for n in 0..5_000 {
        send(&mut fabric, n * 1_000, DATA);
    }
    drain(&mut fabric);
    let drops = fabric.totals().dropped;
    for reason in [FabricDrop::Malformed, FabricDrop::NotIp, FabricDrop::UnknownDestination] {
        assert!(drops.of(reason) > 0, "{}", reason.name());
    }
}

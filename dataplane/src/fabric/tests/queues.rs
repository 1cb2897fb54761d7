//! Queues of switches: priority, marks, trimming, tail drop.

use super::*;
use crate::wire::{Rules, Trim, parse};

/// Two NICs whose path, or whose last link, is ten times slower than what they send, without marks and trimming.
fn narrow(last: bool) -> Plan {
    let mut plan = two(1);
    plan.queue.trimming = false;
    plan.queue.data = 100_200;
    if last {
        plan.schedule = vec![(Ns(0), Fault::Rate(Place::OneWay(switch(0, 1), nic(1)), 10_000_000_000))];
    } else {
        plan.fabric.rate = 10_000_000_000;
    }
    plan
}

fn codepoint(frame: &[u8]) -> (u8, u8) {
    (frame[15] >> 2, frame[15] & 3)
}

#[test]
fn control_passes_all_data_that_waits() {
    let mut fabric = build(&narrow(false));
    for _ in 0..20 {
        send(&mut fabric, 0, DATA.of_len(1_226));
    }
    send(&mut fabric, 0, Data { dscp: 46, ..DATA });
    let came = drain(&mut fabric);
    let place = came.iter().position(|delivery| codepoint(&delivery.frame).0 == 46);
    // One frame is on each of the links that it meets when it comes.
    assert!(place.is_some_and(|place| place <= 2), "it came as number {place:?}");
}

#[test]
fn data_that_waits_too_long_a_queue_is_dropped_at_its_tail() {
    let mut fabric = build(&narrow(false));
    for ev in 0..200 {
        send(&mut fabric, 0, Data { ev, ..DATA }.of_len(1_002));
    }
    let came = drain(&mut fabric);
    let link = fabric.link(switch(0, 0), switch(1, 0)).unwrap();
    assert_eq!(link.dropped.of(FabricDrop::DataFull) as usize, 200 - came.len());
    assert_eq!(dropped(&fabric), [(FabricDrop::DataFull, link.dropped.total())]);
    assert_eq!((link.max_data_bytes, link.trimmed, link.marked), (100_200, 0, 0));
    // 199 frames of the burst come while 20 leave; 100 wait.
    assert!((118..=122).contains(&came.len()), "{}", came.len());
    assert!(came.iter().take(100).zip(0..).all(|(delivery, ev)| delivery.frame[35] == ev));
}

#[test]
fn the_control_class_is_bounded_too() {
    let mut plan = narrow(false);
    plan.queue.control = 10_200;
    let mut fabric = build(&plan);
    for _ in 0..200 {
        send(&mut fabric, 0, Data { dscp: 46, ..DATA }.of_len(102));
    }
    drain(&mut fabric);
    let link = fabric.link(switch(0, 0), switch(1, 0)).unwrap();
    assert_eq!((link.max_control_bytes, link.max_data_bytes), (10_200, 0));
    assert_eq!(dropped(&fabric), [(FabricDrop::ControlFull, link.dropped.total())]);
    assert!(link.dropped.total() > 50);
}

#[test]
fn marks_begin_at_the_lower_threshold_and_leave_no_frame_out_above_the_upper() {
    let mut plan = narrow(false);
    plan.queue.ecn = Some(EcnParams { min: 20_000, max: 60_000, last_hop: false });
    let mut fabric = build(&plan);
    for ev in 0..120 {
        send(&mut fabric, 0, Data { ev, ..DATA }.of_len(1_002));
    }
    let came = drain(&mut fabric);
    let marked: Vec<bool> = came.iter().map(|delivery| codepoint(&delivery.frame).1 == 3).collect();
    // Of ten frames that come, nine stay: the 23rd finds 20,000 bytes, the 67th 60,000.
    assert!(marked[..20].iter().all(|marked| !marked));
    assert!(marked[75..].iter().all(|&marked| marked));
    let between = marked[23..67].iter().filter(|&&marked| marked).count();
    assert!((10..=34).contains(&between), "{between} of 44");
    assert!(came.iter().all(|delivery| checksum_ok(&delivery.frame)));
    let link = fabric.link(switch(0, 0), switch(1, 0)).unwrap();
    assert_eq!(link.marked as usize, marked.iter().filter(|&&marked| marked).count());
}

#[test]
fn a_step_marks_from_its_threshold_on() {
    let mut plan = narrow(false);
    plan.queue.ecn = Some(EcnParams { min: 20_000, max: 20_000, last_hop: false });
    let mut fabric = build(&plan);
    for _ in 0..60 {
        send(&mut fabric, 0, DATA.of_len(1_002));
    }
    let came = drain(&mut fabric);
    let first = came.iter().position(|delivery| codepoint(&delivery.frame).1 == 3).unwrap();
    assert!(came[first..].iter().all(|delivery| codepoint(&delivery.frame).1 == 3));
    assert!((21..=25).contains(&first), "{first}");
}

#[test]
fn frames_that_are_not_ecn_capable_are_not_marked() {
    let mut plan = narrow(false);
    plan.queue.ecn = Some(EcnParams { min: 0, max: 0, last_hop: false });
    let mut fabric = build(&plan);
    let classes = [(0, 4), (1, 4), (2, 4), (3, 4), (2, 46)];
    for (ecn, dscp) in classes {
        send(&mut fabric, 0, Data { ecn, dscp, ..DATA });
    }
    let mut came: Vec<_> = drain(&mut fabric).iter().map(|delivery| codepoint(&delivery.frame)).collect();
    came.sort_unstable();
    assert_eq!(came, [(4, 0), (4, 3), (4, 3), (4, 3), (46, 2)]);
}

#[test]
fn the_last_hop_marks_only_when_told() {
    for (last_hop, any) in [(false, false), (true, true)] {
        let mut plan = narrow(true);
        plan.queue.ecn = Some(EcnParams { min: 10_000, max: 20_000, last_hop });
        let mut fabric = build(&plan);
        for _ in 0..90 {
            send(&mut fabric, 0, DATA.of_len(1_002));
        }
        let came = drain(&mut fabric);
        assert_eq!(came.len(), 90);
        assert_eq!(came.iter().any(|delivery| codepoint(&delivery.frame).1 == 3), any);
        assert!(fabric.link(switch(0, 1), nic(1)).unwrap().max_data_bytes > 60_000);
    }
}

#[test]
fn a_full_queue_trims_to_the_headers_with_the_codepoint_of_the_hop() {
    let path = UsidPath::new(0xFCBB_BB00, &[0x1000, 0x2000, 0x1001]).unwrap();
    let v6 = Data { v6: true, ..DATA };
    let cases = [
        (DATA, 74),
        (v6, 94),
        (Data { timestamp: true, ..DATA }, 78),
        (Data { vlan: true, ..v6 }, 98),
        (Data { timestamp: true, vlan: true, dscp: 8, ..DATA }, 82),
        (Data { path: Some(path), ..v6 }, 134),
        (Data { path: Some(path), srh: true, timestamp: true, ..v6 }, 162),
    ];
    for ((data, len), last) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let mut plan = narrow(last);
        plan.queue.trimming = true;
        plan.queue.data = 10_000;
        plan.forwarding = Forwarding::Srv6 { locator: 0xFCBB_BB00, others: Hash::default() };
        let mut fabric = build(&plan);
        for _ in 0..50 {
            send(&mut fabric, 0, data.of_len(1_002));
        }
        let came = drain(&mut fabric);
        assert_eq!(came.len(), 50, "nothing is lost");
        let trim = if last { Trim::LastHop } else { Trim::Trimmed };
        let (mut trimmed, whole) = (0, data.of_len(1_002).frame().len());
        for Delivery { frame, .. } in came {
            let packet = parse(&frame, frame.len(), &Rules::default()).unwrap();
            assert!(data.v6 || data.vlan || checksum_ok(&frame));
            if packet.trim == Trim::Whole {
                assert_eq!(frame.len(), whole);
                continue;
            }
            trimmed += 1;
            assert_eq!((packet.trim, frame.len(), packet.payload_at), (trim, len, len), "{data:?}");
            assert_eq!(packet.ip.ecn, 2);
        }
        let link = if last { fabric.link(switch(0, 1), nic(1)) } else { fabric.link(switch(0, 0), switch(1, 0)) };
        let link = link.unwrap();
        assert_eq!(link.trimmed, trimmed);
        assert!(trimmed > 20 && link.max_control_bytes >= len as u32 && link.max_data_bytes <= 10_000);
    }
}

#[test]
fn what_may_not_be_trimmed_is_dropped_and_counted() {
    let not_udp = |mut frame: Vec<u8>| {
        frame[23] = 6;
        frame
    };
    let no_trim = Data { dscp: 0, ..DATA }.of_len(1_002).frame();
    for frame in [no_trim, not_udp(DATA.of_len(1_002).frame())] {
        let mut plan = narrow(false);
        plan.queue.trimming = true;
        plan.queue.data = 10_000;
        let mut fabric = build(&plan);
        for _ in 0..50 {
            fabric.inject(Ns(0), NicId(0), 0, frame.clone());
        }
        let came = drain(&mut fabric);
        assert!(came.iter().all(|delivery| delivery.frame == frame));
        assert_eq!(dropped(&fabric), [(FabricDrop::DataFull, 50 - came.len() as u64)]);
    }
}

#[test]
fn trimmed_packets_fill_the_control_class_and_no_more() {
    let mut plan = narrow(false);
    plan.fabric.rate = 1_000_000_000;
    plan.queue = QueueParams { data: 2_004, control: 740, ecn: None, trimming: true };
    let mut fabric = build(&plan);
    for _ in 0..100 {
        send(&mut fabric, 0, DATA.of_len(1_002));
    }
    drain(&mut fabric);
    let link = fabric.link(switch(0, 0), switch(1, 0)).unwrap();
    assert_eq!((link.max_data_bytes, link.max_control_bytes), (2_004, 740));
    assert!(link.dropped.of(FabricDrop::ControlFull) > 0 && link.dropped.of(FabricDrop::DataFull) == 0);
}

#[test]
fn codepoints_are_as_configured() {
    let mut plan = narrow(false);
    plan.queue = QueueParams { data: 2_004, control: 100_000, ecn: None, trimming: true };
    plan.dscp = DscpMap { trimmable: 10, trimmed: 20, ..DscpMap::default() };
    let mut fabric = build(&plan);
    for _ in 0..20 {
        send(&mut fabric, 0, Data { dscp: 10, ..DATA }.of_len(1_002));
    }
    let came = drain(&mut fabric);
    assert!(came.iter().any(|delivery| codepoint(&delivery.frame) == (20, 2) && delivery.frame.len() == 74));
}

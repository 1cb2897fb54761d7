//! What a responder takes, advertises and reports.

use super::*;

fn packet(psn: u32, payload: u32) -> Arrival {
    Arrival {
        psn: Psn::new(psn),
        opcode: Opcode::WriteMiddle,
        payload,
        nominal: payload + 60,
        ack_request: false,
        rtx: false,
        marked: false,
        immediate: None,
    }
}

fn responder(first: u32, window: u32) -> Responder {
    let params = TransportParams { max_psn_range: window, ..TransportParams::default() };
    Responder::new(Psn::new(first), &params, 8)
}

fn take(responder: &mut Responder, packet: &Arrival) -> Due {
    responder.accept(packet, |_| ()).unwrap()
}

fn only(psn: u32) -> Arrival {
    Arrival { opcode: Opcode::WriteOnly, ack_request: true, ..packet(psn, 64) }
}

fn sack(responder: &mut Responder, psn: u32) -> (u32, i16, u64) {
    let sack = responder.sack(SackOrigin::Packet(Psn::new(psn)), Skip::None);
    (sack.cack_psn, sack.sack_offset, sack.sack_bitmap)
}

#[test]
fn one_sack_covers_one_to_four_packets_as_the_mss_falls() {
    for (mss, packets) in
        [(4096, 1), (9000, 1), (4095, 2), (2048, 2), (2047, 3), (1366, 3), (1365, 4), (1024, 4), (1, 4)]
    {
        let mut responder = responder(0, 1024);
        let drawn: Vec<bool> = (0..packets).map(|psn| take(&mut responder, &packet(psn, mss)).sack).collect();
        let mut expected = vec![false; packets as usize];
        expected[packets as usize - 1] = true;
        assert_eq!(drawn, expected, "MSS {mss}");
    }
}

#[test]
fn marked_retransmitted_and_asking_packets_draw_a_sack_at_once() {
    for change in
        [|p: &mut Arrival| p.marked = true, |p: &mut Arrival| p.rtx = true, |p: &mut Arrival| p.ack_request = true]
    {
        let mut responder = responder(0, 1024);
        let mut arrival = packet(0, 64);
        change(&mut arrival);
        assert!(take(&mut responder, &arrival).sack);
    }
}

#[test]
fn a_packet_that_asks_before_the_gap_below_it_closes_is_acknowledged_when_it_closes() {
    let mut responder = responder(100, 1024);
    let last = Arrival { opcode: Opcode::WriteLast, ack_request: true, ..packet(101, 64) };
    assert_eq!(take(&mut responder, &last), Due { sack: true, ack: false });
    assert_eq!(responder.msn(), 0x00FF_FFFF);
    let first = Arrival { opcode: Opcode::WriteFirst, ..packet(100, 64) };
    assert_eq!(take(&mut responder, &first), Due { sack: true, ack: true });
    assert_eq!(responder.msn(), 0);
    assert_eq!(responder.cack(), Psn::new(101));
}

#[test]
fn the_window_ends_max_psn_range_beyond_the_cumulative_ack() {
    let mut responder = responder(0xFF_FFFF, 1);
    assert_eq!(responder.standing(Psn::new(0xFF_FFFF)), Standing::New);
    assert_eq!(responder.standing(Psn::new(0)), Standing::Beyond);
    take(&mut responder, &only(0xFF_FFFF));
    assert_eq!(responder.standing(Psn::new(0)), Standing::New);
    assert_eq!(responder.standing(Psn::new(0xFF_FFFF)), Standing::Duplicate);
    assert_eq!(responder.standing(Psn::new(0xFF_FFFF).plus(-32_768)), Standing::Duplicate);
    assert_eq!(responder.standing(Psn::new(0xFF_FFFF).plus(-32_769)), Standing::Stale);
}

#[test]
fn sacks_walk_over_a_window_wider_than_the_bitmap_the_oldest_hole_first() {
    let mut responder = responder(0, 1024);
    for psn in [1, 64, 65, 150] {
        take(&mut responder, &packet(psn, 64));
    }
    assert_eq!(sack(&mut responder, 150), (0xFF_FFFF, 1, 1 << 1));
    assert_eq!(sack(&mut responder, 150), (0xFF_FFFF, 65, 0b11));
    assert_eq!(sack(&mut responder, 150), (0xFF_FFFF, 129, 1 << 22));
    assert_eq!(sack(&mut responder, 150), (0xFF_FFFF, 1, 1 << 1));
    assert_eq!(responder.out_of_order(), 4);
    assert_eq!(responder.missing(), 147);
}

#[test]
fn a_sack_around_a_psn_shows_what_is_near_it_and_the_walk_goes_on_where_it_was() {
    let mut responder = responder(0, 1024);
    for psn in [1, 80, 100, 183, 184, 300] {
        take(&mut responder, &packet(psn, 64));
    }
    let mut around = |psn| {
        let sack = responder.sack_around(SackOrigin::Packet(Psn::new(300)), Skip::None, Psn::new(psn));
        (sack.cack_psn, sack.sack_offset, sack.sack_bitmap)
    };
    // 84 to 147, of which 100 is bit 16; 284 on, and nothing beyond what was received.
    assert_eq!(around(100), (0xFF_FFFF, 85, 1 << 16));
    assert_eq!(around(300), (0xFF_FFFF, 285, 1 << 16));
    assert_eq!(around(5), (0xFF_FFFF, 1, 1 << 1), "it begins with what is missing");
    assert_eq!(around(400), (0xFF_FFFF, 1, 0), "nothing is there");
    assert_eq!(sack(&mut responder, 300), (0xFF_FFFF, 1, 1 << 1));
    assert_eq!(sack(&mut responder, 300), (0xFF_FFFF, 65, 1 << 16 | 1 << 36));
}

#[test]
fn the_walk_starts_again_at_the_oldest_hole_when_the_cumulative_ack_moves() {
    let mut responder = responder(0, 1024);
    for psn in [1, 100, 200] {
        take(&mut responder, &packet(psn, 64));
    }
    sack(&mut responder, 200);
    take(&mut responder, &packet(0, 64));
    assert_eq!(sack(&mut responder, 0), (1, 1, 0));
    assert_eq!(sack(&mut responder, 0), (1, 65, 1 << 34));
}

#[test]
fn messages_begin_where_the_one_before_ended() {
    use Opcode::{WriteFirst as First, WriteLast as Last, WriteMiddle as Middle, WriteOnly as Only};
    let mut responder = responder(10, 64);
    assert!(responder.in_its_place(Psn::new(10), First) && responder.in_its_place(Psn::new(10), Only));
    assert!(!responder.in_its_place(Psn::new(10), Middle) && !responder.in_its_place(Psn::new(10), Last));
    take(&mut responder, &Arrival { opcode: Middle, ..packet(12, 64) });
    assert!(responder.in_its_place(Psn::new(11), First) && responder.in_its_place(Psn::new(11), Middle));
    assert!(!responder.in_its_place(Psn::new(11), Only) && !responder.in_its_place(Psn::new(11), Last));
    assert!(!responder.in_its_place(Psn::new(13), Only) && responder.in_its_place(Psn::new(13), Last));
    assert!(responder.in_its_place(Psn::new(20), Last) && responder.in_its_place(Psn::new(20), Only));
}

#[test]
fn received_bytes_count_each_packet_once_in_units_of_256_rounded_up() {
    let mut responder = responder(0, 64);
    take(&mut responder, &packet(0, 64));
    assert_eq!(responder.sack(SackOrigin::Packet(Psn::new(0)), Skip::None).cc.rcvd_bytes, 1);
    take(&mut responder, &packet(1, 4096));
    // 124 + 4,156 = 4,280 bytes = 16.7 units.
    assert_eq!(responder.sack(SackOrigin::Probe(9), Skip::None).cc.rcvd_bytes, 17);
}

#[test]
fn a_sack_that_waited_until_its_packet_is_too_far_behind_to_name_names_one_that_is_as_good() {
    let mut responder = responder(100, 64);
    let offset = |responder: &mut Responder| match responder.sack(SackOrigin::Packet(Psn::new(0)), Skip::None).answers {
        SackFor::Packet { offset } => offset,
        SackFor::Probe { .. } => unreachable!(),
    };
    assert_eq!(offset(&mut responder), -99);
    responder.cack = Psn::new(32_768);
    assert_eq!(offset(&mut responder), -32_768);
    responder.cack = Psn::new(32_768 + 200);
    assert_eq!(offset(&mut responder), -32_768, "never one ahead");
}

#[test]
fn no_window_is_wider_than_a_sack_can_say() {
    let mut responder = responder(0, 32_640);
    responder.set_window(1 << 20);
    assert_eq!(responder.window(), 32_640);
}

#[test]
fn the_completed_message_number_wraps_at_24_bits() {
    let mut responder = responder(0, 64);
    responder.messages = 1 << 24;
    assert_eq!(responder.msn(), 0x00FF_FFFF);
    take(&mut responder, &only(0));
    assert_eq!(responder.msn(), 0);
}

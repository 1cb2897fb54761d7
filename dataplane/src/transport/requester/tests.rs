//! What takes too many packets for a test over the wire.

use super::*;
use crate::memory::Key;
use crate::wire::{Aeth, CcState, Opcode, Sack, SackFor, Skip, Syndrome};
use proptest::prelude::*;

struct Nobody;

impl Observer for Nobody {
    fn settled(&mut self, _: u64) {}
    fn lost(&mut self, _: u32, _: Loss) {}
    fn refused(&mut self, _: u32, _: bool) {}
    fn timed_out(&mut self, _: u32) {}
    fn spurious(&mut self, _: u64) {}
    fn is_returned(&mut self, _: LoanId) -> bool {
        true
    }
    fn abandoned(&mut self, _: LoanId) {}
    fn completed(&mut self, _: Completion, _: bool) {}
}

/// A Write to address 7 of the peer.
fn write(len: u32) -> WriteRequest {
    let (local_key, remote_key) = (Key(1), Key(2));
    WriteRequest { wr_id: 1, local_key, local_va: 0, remote_key, remote_va: 7, len, immediate: None, signaled: true }
}

/// A SACK that the packet `offset` behind `cack` drew, with a bitmap for those behind `cack`.
fn sack(cack: Psn, offset: i16, sack_bitmap: u64) -> Sack {
    Sack {
        skip: Skip::None,
        answers: SackFor::Packet { offset },
        entropy: 300,
        spdcid: 0,
        dpdcid: 0,
        cack_psn: cack.get(),
        cc_type: 0,
        cc_flags: 0,
        mpr: 0,
        sack_offset: 1,
        sack_bitmap,
        cc: CcState::default(),
    }
}

/// Packets of one byte that are written, and that no port has taken yet; the PSN wraps among them.
fn in_flight(count: u32) -> (TransportParams, Requester, Vec<Psn>) {
    let params = TransportParams { mss: 1, ..TransportParams::default() };
    let mut requester = Requester::new(params, Psn::new(0xFF_FFFE), Advertised { window: 1024, immediates: 1 }, 16);
    requester.post(&write(count), &mut Rooms::default()).unwrap();
    let sent = core::iter::from_fn(|| {
        let packet = requester.fresh()?;
        requester.committed(&packet, 300, 61);
        Some(packet.psn)
    });
    let sent: Vec<Psn> = sent.collect();
    assert_eq!(sent.len(), count as usize);
    (params, requester, sent)
}

/// Writes all again that is to be sent again.
fn send_again(requester: &mut Requester) -> Vec<Psn> {
    let again = core::iter::from_fn(|| {
        let packet = requester.resend(true)?;
        requester.committed(&packet, 300, 61);
        Some(packet.psn)
    });
    again.collect()
}

#[test]
fn a_window_grows_with_what_is_queued_and_timers_and_losses_stay_in_their_order() {
    let params = TransportParams { mss: 1, sack_loss_min_retx_pkts: 4096, ..TransportParams::default() };
    let mut requester = Requester::new(params, Psn::new(0xFF_FFE0), Advertised { window: 1024, immediates: 1 }, 16);
    let mut rooms = Rooms::default();
    requester.post(&write(60), &mut rooms).unwrap();
    assert_eq!(requester.slots.len(), FEW_SLOTS);
    let send = |requester: &mut Requester, at: u64| {
        let packet = requester.resend(true).or_else(|| requester.fresh()).unwrap();
        requester.committed(&packet, 300, 61);
        requester.accepted(Ns(at), packet.psn, 1);
        packet.psn
    };
    let sent: Vec<Psn> = (0..60).map(|n| send(&mut requester, n)).collect();
    // The first three time out, and two of them are in flight again.
    requester.on_time(Ns(params.ack_timeout() + 2), &mut Nobody).unwrap();
    assert_eq!([send(&mut requester, 200_000), send(&mut requester, 200_001)], sent[..2]);
    requester.post(&write(1 << 20), &mut rooms).unwrap();
    assert_eq!(requester.slots.len(), 1024, "no more than the window");
    assert_eq!(requester.next_deadline(), Some(Ns(params.ack_timeout() + 3)));
    assert_eq!(send(&mut requester, 200_002), sent[2], "it was lost before");
    let mut timed_out = Vec::new();
    for n in 3..60 {
        requester.on_time(Ns(params.ack_timeout() + n), &mut Nobody).unwrap();
        timed_out.push(send(&mut requester, 300_000 + n));
    }
    assert_eq!(timed_out, sent[3..]);
    let fresh: Vec<Psn> = (0..964).map(|n| send(&mut requester, 400_000 + n)).collect();
    assert_eq!((fresh[0], fresh[963]), (sent[59].next(), sent[0].plus(1023)));
    assert_eq!(requester.fresh(), None);
}

#[test]
fn a_message_longer_than_half_the_psn_space_goes_on_byte_by_byte() {
    let params = TransportParams { mss: 1, ..TransportParams::default() };
    let mut requester = Requester::new(params, Psn::new(0xFF_FFF0), Advertised { window: 1024, immediates: 1 }, 4);
    let len = MESSAGE_MAX;
    requester.post(&write(len), &mut Rooms::default()).unwrap();
    for begun in [0, (1 << 23) - 1, 1 << 23, (1 << 24) - 1, 1 << 24, len - 2] {
        // As if all before had been sent and acknowledged.
        let message = requester.messages.get_mut(0).unwrap();
        (message.sent, message.acknowledged) = (begun, begun);
        let next = message.first.plus(begun as i32);
        (requester.next, requester.una, requester.judged) = (next, next, next);
        (requester.cack, requester.reported) = (next.plus(-1), next.plus(-1));
        requester.in_order = InOrder::new(next, 1024);
        for index in [begun, begun + 1] {
            let packet = requester.fresh().unwrap();
            let headers = packet.headers;
            assert_eq!((packet.local_va, headers.reth.va), (index.into(), u64::from(index) + 7));
            assert_eq!((packet.len, packet.ack_request), (1, index + 1 == len));
            requester.committed(&packet, 300, 61);
            requester.accepted(Ns(0), packet.psn, 1);
        }
        requester.on_time(Ns(params.ack_timeout()), &mut Nobody).unwrap();
        for index in [begun, begun + 1] {
            let packet = requester.resend(true).unwrap();
            assert_eq!((packet.local_va, packet.len), (index.into(), 1), "sent again");
            requester.committed(&packet, 300, 61);
        }
        let aeth = Aeth { syndrome: Syndrome::Ack as u8, msn: 0x00FF_FFFF };
        requester.on_ack(Ns(1), requester.next.plus(-1), &aeth, &mut Nobody).unwrap();
    }
}

#[test]
fn timers_that_start_in_another_order_than_the_packets_were_sent_run_out_in_theirs() {
    let (params, mut requester, sent) = in_flight(5);
    // Two ports: the one of the first two packets was full for a while.
    for (at, first, count) in [(10, 2, 2), (20, 0, 2), (30, 4, 1)] {
        let deadline = requester.accepted(Ns(at), sent[first], count);
        assert_eq!(deadline, Some(Ns(at + params.ack_timeout())));
    }
    let aeth = Aeth { syndrome: Syndrome::Ack as u8, msn: 0x00FF_FFFF };
    requester.on_ack(Ns(40), sent[0], &aeth, &mut Nobody).unwrap();
    let mut timed_out = Vec::new();
    while let Some(deadline) = requester.next_deadline() {
        timed_out.push(deadline.0 - params.ack_timeout());
        requester.on_time(deadline, &mut Nobody).unwrap();
    }
    assert_eq!(timed_out, [10, 20, 30]);
    assert_eq!(send_again(&mut requester), sent[1..]);
}

#[test]
fn of_a_run_that_a_port_takes_late_those_that_were_acknowledged_meanwhile_get_no_timer() {
    let (params, mut requester, sent) = in_flight(5);
    let first = sent[0];
    // Of the copies that another port took at once, say.
    let sack = sack(first.plus(-1), 3, 0b0_0110);
    requester.on_sack(Ns(5), &sack, false, &mut Nobody);
    let deadline = Ns(10 + params.ack_timeout());
    assert_eq!(requester.accepted(Ns(10), first, 5), Some(deadline));
    assert_eq!(requester.accepted(Ns(11), first, 5), None, "they run");
    requester.on_time(deadline, &mut Nobody).unwrap();
    assert_eq!(send_again(&mut requester), [first, first.plus(3), first.plus(4)]);
    assert_eq!(requester.next_deadline(), None);
}

#[test]
fn timers_that_ports_start_at_the_same_time_are_in_order_whichever_port_is_first() {
    let (params, mut requester, sent) = in_flight(8);
    let first = sent[0];
    // Three ports take every third at once. One takes its last two later: the first of them is acknowledged before, as if a copy had come by another.
    for n in [0, 3, 6, 1, 2] {
        assert_eq!(requester.accepted(Ns(10), first.plus(n), 1), Some(Ns(10 + params.ack_timeout())));
    }
    assert_eq!(requester.accepted(Ns(20), first.plus(7), 1), Some(Ns(20 + params.ack_timeout())));
    assert_eq!(requester.timers.fronts().count(), 0, "none is in a list");
    for (n, rtt) in [(6, Some(90)), (7, Some(80)), (5, None)] {
        assert_eq!(requester.rtt_sample(Ns(100), first.plus(n), false, 0), rtt);
    }
    requester.on_sack(Ns(100), &sack(first, 4, 0), false, &mut Nobody);
    assert_eq!(requester.accepted(Ns(110), first.plus(4), 1), None);
    assert_eq!(requester.accepted(Ns(110), first.plus(5), 1), Some(Ns(110 + params.ack_timeout())));
    let mut timed_out = Vec::new();
    while let Some(deadline) = requester.next_deadline() {
        requester.on_time(deadline, &mut Nobody).unwrap();
        let lost = send_again(&mut requester);
        timed_out.extend(lost.iter().map(|psn| (deadline.0 - params.ack_timeout(), psn.distance(first))));
    }
    assert_eq!(timed_out, [(10, 1), (10, 2), (10, 3), (10, 6), (20, 7), (110, 5)]);
}

proptest! {
    /// A row sends what packets one by one would, however its driver stops it, and afterwards nothing is different.
    #[test]
    fn a_row_sends_what_its_packets_would_one_by_one(
        lens in prop::collection::vec((prop_oneof![5 => Just(64u32), 1 => Just(60), 1 => Just(0), 1 => Just(150)], prop::bool::weighted(0.1)), 1..40),
        turns in prop::collection::vec((0u32..12, 0u32..12), 1..40),
        window in 1u32..40,
    ) {
        let params = TransportParams { mss: 100, ..TransportParams::default() };
        let peer = Advertised { window, immediates: 2 };
        let [mut rows, mut singles] = [0, 1].map(|_| Requester::new(params, Psn::new(0xFF_FFF0), peer, 64));
        for requester in [&mut rows, &mut singles] {
            let mut rooms = Rooms::default();
            for (&(len, immediate), va) in lens.iter().zip(1_000..) {
                let request = WriteRequest { local_va: va, immediate: immediate.then_some(7), ..write(len) };
                requester.post(&request, &mut rooms).unwrap();
            }
        }
        let mut now = 0;
        for (most, stop_at) in turns {
            now += 1;
            let first = rows.next;
            let mut written = Vec::new();
            let row = rows.row();
            let sent = row.map_or(0, |row| rows.send_row(&row, most, 100, |packet| {
                let ev = 300 + packet.psn.get() % 7;
                (written.len() < stop_at as usize).then(|| written.push((*packet, row)))?;
                Some(ev)
            }));
            prop_assert_eq!(written.len(), sent as usize);
            for (packet, row) in written {
                let single = singles.fresh().unwrap();
                let (meth, reth) = (single.headers.meth, single.headers.reth);
                prop_assert_eq!((packet.psn, packet.msn, packet.remote_va), (single.psn, meth.msn, reth.va));
                prop_assert_eq!((packet.local_va, row.local_key, row.len), (single.local_va, single.local_key, single.len));
                prop_assert_eq!((row.remote_key.0, row.len, row.rqmsn), (reth.rkey, reth.dmalen, meth.rqmsn));
                prop_assert!(single.ack_request && single.opcode == Opcode::WriteOnly);
                singles.committed(&single, 300 + packet.psn.get() % 7, 100);
            }
            // What is next is no row, or the driver stopped it.
            prop_assert_eq!(rows.fresh(), singles.fresh());
            if let Some(packet) = rows.fresh() {
                rows.committed(&packet, 300, 100);
                singles.committed(&packet, 300, 100);
            }
            let count = rows.next.distance(first) as u32;
            if count > 0 {
                prop_assert_eq!(rows.accepted(Ns(now), first, count), singles.accepted(Ns(now), first, count));
            }
            prop_assert_eq!(rows.unacked.word(rows.una), singles.unacked.word(singles.una));
        }
        // All that is in flight is lost, and sent again alike.
        while let Some(deadline) = rows.next_deadline() {
            prop_assert_eq!(singles.next_deadline(), Some(deadline));
            for requester in [&mut rows, &mut singles] {
                requester.on_time(deadline, &mut Nobody).unwrap();
            }
            while let Some(packet) = rows.resend(true) {
                prop_assert_eq!(singles.resend(true), Some(packet));
                rows.committed(&packet, 300, 100);
                singles.committed(&packet, 300, 100);
            }
        }
        let aeth = Aeth { syndrome: Syndrome::Ack as u8, msn: lens.len() as u32 };
        let acknowledged = rows.next.plus(-1);
        for requester in [&mut rows, &mut singles] {
            requester.on_ack(Ns(now), acknowledged, &aeth, &mut Nobody).unwrap();
        }
        prop_assert_eq!((rows.pending(), rows.fresh()), (singles.pending(), singles.fresh()));
    }
}

//! Ports joined by rings.

use dataplane::dpdk::{Port, PortConfig};
use dataplane::nic::{Pieces, TxBurst};

use crate::{Lender, bytes, drain, eal, live, pattern, put, receive, small};

live! {
    fn a_ring_pair_carries_frames_of_every_size_both_ways_and_counts_them() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &small()).expect("a pair");
        assert!(a.max_frame() >= 4_230 && a.mtu() == 4_500 && a.mac() != b.mac());
        let mut qa = a.take_queue(0).expect("first queue");
        let mut qb = b.take_queue(0).expect("first queue");
        assert!(a.take_queue(0).is_none(), "a queue is handed out once");
        let lens = [14, 60, 74, 255, 256, 257, 1_514, 4_174, 4_230, a.max_frame()];
        for round in 0..200_u32 {
            let frames: Vec<_> = lens.iter().map(|len| pattern(round as u8, *len)).collect();
            for frame in &frames {
                assert!(put(&mut qa, frame) && put(&mut qb, frame));
            }
            assert_eq!((drain(&mut qa), drain(&mut qb)), (lens.len(), lens.len()));
            assert_eq!(receive(&mut qb, lens.len(), |_| true), frames);
            assert_eq!(receive(&mut qa, lens.len(), |_| true), frames);
        }
        let sent = 200 * lens.len() as u64;
        for port in [&a, &b] {
            assert_eq!((port.stats().ipackets, port.stats().opackets), (sent, sent));
        }
        assert!(put(&mut qa, &pattern(1, 100)));
        assert_eq!(qa.tx.slot(a.max_frame() + 1).map(|slot| slot.len()), None);
        assert_eq!(qa.tx.too_long(), 1);
    }

    fn a_frame_around_a_piece_of_memory_is_one_frame_and_the_piece_is_back_when_that_is_freed() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
        let mut qa = a.take_queue(0).expect("first queue");
        let mut qb = b.take_queue(0).expect("first queue");
        assert_eq!(qa.tx.takes_pieces(), Pieces::All);
        let frame = pattern(3, 4_000);
        let mut lender = Lender::new(&frame[266..]);
        // More than there are mbufs for, over time.
        for _ in 0..200 {
            for len in [1, 1_000, 3_730] {
                assert!(lender.put(&mut qa, &frame[..266], len, &frame[266 + len..][..4]));
            }
            assert!(put(&mut qa, &pattern(4, 100)));
            assert_eq!(drain(&mut qa), 4);
            assert!(lender.is_out());
            let wanted = [frame[..271].to_vec(), frame[..1_270].to_vec(), frame.clone(), pattern(4, 100)];
            assert_eq!(receive(&mut qb, 4, |_| true), wanted);
            assert!(qb.rx.burst().is_empty() && !lender.is_out());
        }
        assert!(!lender.put(&mut qa, &[0; 321], 100, &[0; 4]), "no room before it");
        assert!(!lender.put(&mut qa, &[0; 320], 3_734, &[0; 320 + 4]) && !lender.is_out());
        assert!(lender.put(&mut qa, &frame[..266], 100, &frame[..4]) && lender.is_out());
        drop(qa);
        assert!(!lender.is_out(), "what was never sent is freed with its queue");
    }

    fn queues_of_a_pair_are_joined_one_by_one() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 64, &PortConfig { queues: 3, ..small() }).expect("a pair");
        let mut qa: Vec<_> = (0..3).map(|i| a.take_queue(i).expect("a queue")).collect();
        let mut qb: Vec<_> = (0..3).map(|i| b.take_queue(i).expect("a queue")).collect();
        assert!(a.take_queue(3).is_none());
        for i in [2, 0, 1] {
            assert!(put(&mut qa[i], &pattern(i as u8, 100)));
            assert_eq!(drain(&mut qa[i]), 1);
        }
        for (i, queue) in qb.iter_mut().enumerate() {
            assert_eq!(receive(queue, 1, |_| true), [pattern(i as u8, 100)]);
            assert!(queue.rx.burst().is_empty());
        }
    }

    fn a_full_ring_keeps_what_it_did_not_take_in_order() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 16, &small()).expect("a pair");
        let mut qa = a.take_queue(0).expect("first queue");
        let mut qb = b.take_queue(0).expect("first queue");
        let mut offered = 0;
        while put(&mut qa, &pattern(offered, 64)) {
            offered += 1;
        }
        assert_eq!(offered, 32, "a burst waits at most");
        assert_eq!((qa.tx.flush(), qa.tx.flush(), qa.tx.waiting()), (15, 0, 17));
        assert_eq!(qa.tx.stalls(), 1);
        let mut seen = Vec::new();
        while seen.len() < 32 {
            seen.extend(receive(&mut qb, 1, |_| true));
            qa.tx.flush();
        }
        assert_eq!(seen, (0..32).map(|i| pattern(i, 64)).collect::<Vec<_>>());
    }

    fn an_empty_pool_lends_nothing_until_frames_come_back() {
        let eal = eal();
        let config = PortConfig { large: 127, ..small() };
        let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &config).expect("a pair");
        let mut qa = a.take_queue(0).expect("first queue");
        let mut qb = b.take_queue(0).expect("first queue");
        let mut sent = 0;
        while put(&mut qa, &pattern(0, 4_000)) {
            sent += drain(&mut qa);
        }
        assert!((64..128).contains(&sent) && qa.tx.alloc_failures() > 0, "{sent}");
        assert_eq!(receive(&mut qb, sent, |_| true).len(), sent);
        qb.rx.burst();
        assert!(put(&mut qa, &pattern(0, 4_000)));
    }

    fn queues_keep_their_port_alive_and_frames_their_pool() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
        let mut qa = a.take_queue(0).expect("first queue");
        let mut qb = b.take_queue(0).expect("first queue");
        drop(eal);
        drop((a, b));
        assert!(put(&mut qa, &pattern(9, 4_174)) && put(&mut qa, &pattern(8, 74)));
        assert_eq!(drain(&mut qa), 2);
        drop(qa);
        let batch = qb.rx.burst();
        assert_eq!(batch.len(), 2);
        let kept = batch.take(0).expect("the first");
        assert!(batch.frame(0).is_none());
        assert_eq!(bytes(&batch.frame(1).expect("the second")), pattern(8, 74));
        let mut other = dataplane::dpdk::Batch::new();
        let mut kept = Some(kept);
        assert_eq!(other.refill(|| kept.take()), 1);
        assert_eq!(other.frame(0).map(|frame| bytes(&frame)), Some(pattern(9, 4_174)));
    }

    fn a_burst_over_two_ports_reports_each_by_its_own_number() {
        let eal = eal();
        let (mut a, _b) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
        let (mut c, _d) = Port::ring_pair(&eal, 4, &small()).expect("another");
        let queues = [&mut a, &mut c].map(|port| port.take_queue(0).expect("a queue").tx);
        let mut burst = dataplane::dpdk::TxPorts::new(queues.into());
        for port in [0, 1, 1, 0, 1, 1, 1] {
            let port = dataplane::nic::PortId(port);
            burst.slot(port, 60).expect("room").copy_from_slice(&pattern(port.0, 60));
            burst.slot(port, 80).expect("room, lent again").copy_from_slice(&pattern(port.0, 80));
            burst.commit();
        }
        assert!(burst.slot(dataplane::nic::PortId(2), 60).is_none(), "there is no third port");
        burst.commit();
        let mut sent = Vec::new();
        burst.flush(|port, n| sent.push((port.0, n)));
        assert_eq!(sent, [(0, 2), (1, 3)]);
    }
}

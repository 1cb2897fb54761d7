//! The poll-mode loop, with an engine that sends what it is told and keeps what it gets.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::Ns;
use dataplane::dpdk::{
    App, Clock, Eal, Engine, Error, Impairments, Lane, Poll, Port, PortConfig, Steering, TxPorts, Worker,
    WorkerOptions, Workers,
};
use dataplane::nic::{PortId, RxFrame, TxBurst};
use dataplane::time::MS;
use dataplane::wire::{
    Addressing, Bth, DscpMap, Ext, MacAddr, Marks, Opcode, Rules, Template, Trim, UDP_PORT, WriteHeaders, parse,
};

use crate::{bytes, eal, live, pattern, small};

#[derive(Default)]
pub(crate) struct Peer {
    echo: bool,
    to_send: VecDeque<(PortId, Vec<u8>)>,
    pub(crate) received: Vec<(PortId, Vec<u8>)>,
    committed: usize,
    accepted: [usize; 2],
    idle: u64,
    times: u64,
    last: Ns,
}

impl Peer {
    pub(crate) fn sending(frames: Vec<Vec<u8>>) -> Peer {
        Peer { to_send: frames.into_iter().map(|frame| (PortId(0), frame)).collect(), ..Peer::default() }
    }
}

impl Engine for Peer {
    fn receive<F: RxFrame>(&mut self, _now: Ns, port: PortId, frame: &F) {
        if self.echo {
            self.to_send.push_back((port, bytes(frame)));
        }
        self.received.push((port, bytes(frame)));
    }

    fn on_idle(&mut self, _now: Ns) {
        self.idle += 1;
    }

    fn on_time(&mut self, now: Ns) {
        assert!(now >= self.last, "time goes forward");
        self.last = now;
        self.times += 1;
    }

    fn transmit(&mut self, _now: Ns, out: &mut TxPorts) -> usize {
        let mut committed = 0;
        while let Some((port, frame)) = self.to_send.front() {
            let Some(slot) = out.slot(*port, frame.len()) else { break };
            slot.copy_from_slice(frame);
            out.commit();
            self.to_send.pop_front();
            committed += 1;
        }
        self.committed += committed;
        committed
    }

    fn sent(&mut self, _now: Ns, port: PortId, frames: usize) {
        self.accepted[usize::from(port.0)] += frames;
    }

    fn owner(head: &[u8], workers: usize) -> Option<usize> {
        Some(usize::from(*head.get(14)?) % workers)
    }
}

/// Done when so many frames came, and all that was to be sent is.
struct Await(usize);

impl App<Peer> for Await {
    fn poll(&mut self, _now: Ns, peer: &mut Peer) -> Poll {
        let sent = peer.to_send.is_empty() && peer.accepted.iter().sum::<usize>() == peer.committed;
        if sent && peer.received.len() >= self.0 { Poll::Done } else { Poll::Idle }
    }
}

/// Done when all that was to be sent is, and nothing came for a while.
#[derive(Default)]
struct Settle {
    received: usize,
    since: Ns,
}

impl App<Peer> for Settle {
    fn poll(&mut self, now: Ns, peer: &mut Peer) -> Poll {
        if self.received != peer.received.len() || self.since == Ns::ZERO {
            *self = Settle { received: peer.received.len(), since: now };
        }
        let sent = peer.to_send.is_empty() && peer.accepted.iter().sum::<usize>() == peer.committed;
        if sent && now.since(self.since) > MS { Poll::Done } else { Poll::Idle }
    }
}

/// A data packet with this PSN, of 100 bytes of payload.
fn data(psn: u32) -> Vec<u8> {
    packet(psn, 7, 100)
}

/// A data packet from 10.0.0.1 to 10.0.0.2 with this PSN, entropy value and length of payload.
pub(crate) fn packet(psn: u32, ev: u32, payload: usize) -> Vec<u8> {
    let template = Template::new(&Addressing {
        source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        hop_limit: 64,
        udp_port: UDP_PORT,
    })
    .expect("one address family");
    let ext = Ext::Write(WriteHeaders::default());
    let mut frame = vec![0; template.frame_len(ext.len(), payload)];
    let marks = Marks { ev, dscp: DscpMap::default().trimmable, ecn: 2 };
    let bth = Bth::new(Opcode::WriteOnly, 0x01_0000, psn);
    let at = template.write_headers(&mut frame, marks, &bth, &ext, payload).expect("room");
    assert!(template.seal(&mut frame, at, payload));
    frame
}

/// Frames of which byte 14 is `key`.
fn keyed(key: u8, count: u8) -> Vec<Vec<u8>> {
    let keyed = |i| {
        let mut frame = pattern(i, if i % 3 == 0 { 4_174 } else { 74 });
        frame[14] = key;
        frame
    };
    (0..count).map(keyed).collect()
}

pub(crate) fn lane<A: App<Peer>>(peer: Peer, app: A, ports: &mut [&mut Port], queue: u16) -> Lane<Peer, A> {
    Lane::new(peer, app, ports.iter_mut().map(|port| port.take_queue(queue).expect("a free queue")).collect())
}

pub(crate) fn spawn<A: App<Peer> + 'static>(
    eal: &Eal,
    workers: Vec<Worker<Peer, A>>,
) -> (Workers<Peer, A>, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let workers = Workers::spawn(eal, Clock::new(eal), workers, WorkerOptions { idle_polls: 1 }, Arc::clone(&stop));
    (workers.expect("workers start"), stop)
}

live! {
    fn two_workers_exchange_frames_over_two_ports_and_end_when_their_applications_are_done() {
        let eal = eal();
        let (mut a0, mut b0) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
        let (mut a1, mut b1) = Port::ring_pair(&eal, 64, &small()).expect("another");
        let frames: VecDeque<_> =
            (0..200).map(|i| (PortId(i % 2), pattern(i, 60 + 21 * usize::from(i)))).collect();
        let sender = Peer { to_send: frames.clone(), ..Peer::default() };
        let echo = Peer { echo: true, ..Peer::default() };
        let core = eal.cores().first().copied();
        let last = eal.cores().last().copied();
        let a = Worker::new(core, vec![lane(sender, Await(200), &mut [&mut a0, &mut a1], 0)]);
        let b = Worker::new(last, vec![lane(echo, Await(200), &mut [&mut b0, &mut b1], 0)]);
        let stats = a.lanes[0].stats();
        let (workers, stop) = spawn(&eal, vec![a, b]);
        let lanes = workers.join().expect("nobody dies");
        let [sender, echo] = [&lanes[0][0].engine, &lanes[1][0].engine];
        assert_eq!((sender.received.len(), echo.received.len()), (200, 200));
        for port in [PortId(0), PortId(1)] {
            let of = |frames: &[(PortId, Vec<u8>)]| -> Vec<Vec<u8>> {
                frames.iter().filter(|(p, _)| *p == port).map(|(_, frame)| frame.clone()).collect()
            };
            let sent = of(&Vec::from(frames.clone()));
            assert!(of(&sender.received) == sent && of(&echo.received) == sent);
        }
        assert_eq!((sender.accepted, echo.accepted), ([100, 100], [100, 100]));
        assert_eq!((stats.rx_frames.get(), stats.tx_frames.get()), (200, 200));
        // Full bursts put timers off.
        assert!((1..=stats.turns.get()).contains(&sender.times) && sender.idle > 0);
        assert!(!stop.load(Ordering::Relaxed));
    }

    fn one_worker_may_drive_both_ends_and_is_stopped_by_the_flag() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
        let frames: VecDeque<_> = (0..50).map(|i| (PortId(0), pattern(i, 100))).collect();
        let sender = lane(Peer { to_send: frames, ..Peer::default() }, (), &mut [&mut a], 0);
        let echo = lane(Peer { echo: true, ..Peer::default() }, (), &mut [&mut b], 0);
        let stats = sender.stats();
        let (workers, _) = spawn(&eal, vec![Worker::new(None, vec![sender, echo])]);
        while stats.rx_frames.get() < 50 {
            std::thread::yield_now();
        }
        assert!(!workers.is_finished());
        workers.stop();
        let lanes = workers.join().expect("nobody dies");
        assert_eq!(lanes[0][0].engine.received.len(), 50);
    }

    fn a_frame_reaches_the_worker_that_owns_its_source_whatever_queue_it_came_by() {
        let eal = eal();
        let config = PortConfig { queues: 2, ..small() };
        let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &config).expect("a pair");
        let steering = Steering::new([&b], 2, 1_024);
        let (mut workers, mut stats) = (Vec::new(), Vec::new());
        for queue in 0..2 {
            // Each queue carries frames of both owners.
            let frames = keyed(0, 100).into_iter().zip(keyed(1, 100)).flat_map(|(x, y)| [(PortId(0), x), (PortId(0), y)]);
            let peer = Peer { to_send: frames.collect(), ..Peer::default() };
            let owner = lane(Peer::default(), (), &mut [&mut b], queue)
                .with_steering(Arc::clone(&steering), usize::from(queue));
            stats.push(owner.stats());
            workers.push(Worker::new(None, vec![owner, lane(peer, (), &mut [&mut a], queue)]));
        }
        let (workers, _) = spawn(&eal, workers);
        while stats.iter().any(|stats| stats.rx_frames.get() < 200 || stats.handed_in.get() < 100) {
            std::thread::yield_now();
        }
        workers.stop();
        let lanes = workers.join().expect("nobody dies");
        for (key, of_worker) in lanes.iter().enumerate() {
            let received = &of_worker[0].engine.received;
            assert_eq!(received.len(), 200);
            assert!(received.iter().all(|(port, frame)| usize::from(frame[14]) == key && *port == PortId(0)));
            let mut sorted: Vec<_> = received.iter().map(|(_, frame)| frame.clone()).collect();
            let mut wanted = [keyed(key as u8, 100), keyed(key as u8, 100)].concat();
            sorted.sort();
            wanted.sort();
            assert!(sorted == wanted);
        }
        for i in [0, 1] {
            assert_eq!((stats[i].handed_over.get(), stats[i].handed_in.get(), stats[i].handover_full.get()), (100, 100, 0));
        }
    }

    fn a_full_ring_between_workers_is_counted_and_gives_the_frames_back() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &small()).expect("a pair");
        let steering = Steering::new([&b], 2, 10);
        let frames: VecDeque<_> = keyed(1, 100).into_iter().map(|frame| (PortId(0), frame)).collect();
        let sender = lane(Peer { to_send: frames, ..Peer::default() }, (), &mut [&mut a], 0);
        // Nobody empties the ring of worker 1.
        let receiver = lane(Peer::default(), (), &mut [&mut b], 0).with_steering(Arc::clone(&steering), 0);
        let stats = receiver.stats();
        let (workers, _) = spawn(&eal, vec![Worker::new(None, vec![sender, receiver])]);
        while stats.rx_frames.get() < 100 {
            std::thread::yield_now();
        }
        workers.stop();
        let lanes = workers.join().expect("nobody dies");
        assert_eq!((stats.handed_over.get(), stats.handover_full.get()), (10, 90));
        assert!(lanes[0][1].engine.received.is_empty());
        drop((lanes, a, b));
        drop(steering);
    }

    fn the_same_seed_loses_the_same_frames() {
        let eal = eal();
        let mut seen = Vec::new();
        for seed in [1, 1, 2] {
            let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &PortConfig { small: 2_047, ..small() }).expect("a pair");
            let frames: VecDeque<_> = (0..200).map(|i| (PortId(0), pattern(i, 100))).collect();
            let sender = lane(Peer { to_send: frames, ..Peer::default() }, (), &mut [&mut a], 0);
            let impairments = Impairments { loss: 0.25, seed, ..Impairments::default() };
            let receiver = lane(Peer::default(), (), &mut [&mut b], 0);
            let receiver = receiver.with_impairments(&impairments).expect("a share");
            let stats = receiver.stats();
            let (workers, _) = spawn(&eal, vec![Worker::new(None, vec![sender, receiver])]);
            while stats.rx_frames.get() < 200 {
                std::thread::yield_now();
            }
            workers.stop();
            let lanes = workers.join().expect("nobody dies");
            let received = lanes[0][1].engine.received.len();
            assert_eq!(received as u64 + stats.injected_losses.get(), 200);
            assert!((100..200).contains(&received), "{received}");
            seen.push(lanes[0][1].engine.received.clone());
        }
        assert!(seen[0] == seen[1] && seen[0] != seen[2]);
    }

    fn impaired_frames_are_lost_doubled_trimmed_or_late_and_all_are_accounted_for() {
        let eal = eal();
        let mut seen = Vec::new();
        for seed in [5, 5, 6] {
            let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &PortConfig { small: 4_095, ..small() }).expect("a pair");
            let frames: VecDeque<_> = (0..1_000).map(|psn| (PortId(0), data(psn))).collect();
            let sender = lane(Peer { to_send: frames, ..Peer::default() }, Settle::default(), &mut [&mut a], 0);
            let share = 0.15;
            let impairments =
                Impairments { loss: share, duplicate: share, reorder: share, trim: share, seed, ..Impairments::default() };
            let receiver = lane(Peer::default(), Settle::default(), &mut [&mut b], 0);
            let receiver = receiver.with_impairments(&impairments).expect("shares");
            let stats = receiver.stats();
            let (workers, _) = spawn(&eal, vec![Worker::new(None, vec![sender, receiver])]);
            let lanes = workers.join().expect("nobody dies");
            let received = &lanes[0][1].engine.received;
            let counted = [&stats.injected_losses, &stats.injected_duplicates, &stats.injected_reorders, &stats.injected_trims]
                .map(dataplane::dpdk::Counter::get);
            assert!(counted.iter().all(|count| (50..300).contains(count)), "{counted:?}");
            let mut came = vec![Vec::new(); 1_000];
            let mut late = 0;
            let mut highest = 0;
            for (_, frame) in received {
                let packet = parse(&frame[..frame.len().min(256)], frame.len(), &Rules::default()).expect("MRC");
                assert!(packet.trim == Trim::Trimmed && frame.len() == 74 || packet.icrc_ok(frame));
                late += u64::from(packet.bth.psn < highest);
                highest = highest.max(packet.bth.psn);
                came[packet.bth.psn as usize].push(packet.trim);
            }
            let times = |wanted: &[Trim]| came.iter().filter(|trims| *trims == wanted).count() as u64;
            let [lost, doubled, reordered, trimmed] = counted;
            assert_eq!((times(&[]), times(&[Trim::Whole; 2]), times(&[Trim::Trimmed])), (lost, doubled, trimmed));
            assert_eq!(times(&[Trim::Whole]), 1_000 - lost - doubled - trimmed);
            // Those that nothing followed are not late.
            assert!((1..=reordered + doubled).contains(&late), "{late}");
            assert_eq!(stats.rx_frames.get(), 1_000);
            seen.push(came);
        }
        assert!(seen[0] == seen[1] && seen[0] != seen[2]);
    }

    fn frames_that_are_held_back_when_a_worker_ends_go_back_to_their_pool() {
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &small()).expect("a pair");
        let impairments = Impairments { reorder: 0.999, seed: 1, ..Impairments::default() };
        let frames: VecDeque<_> = (0..20).map(|psn| (PortId(0), data(psn))).collect();
        let sender = lane(Peer { to_send: frames, ..Peer::default() }, Await(0), &mut [&mut a], 0);
        // Done with the first turn.
        let receiver = lane(Peer::default(), Await(0), &mut [&mut b], 0).with_impairments(&impairments).expect("a share");
        let stats = receiver.stats();
        let (workers, _) = spawn(&eal, vec![Worker::new(None, vec![sender, receiver])]);
        let lanes = workers.join().expect("nobody dies");
        drop((a, b));
        assert!(lanes[0][1].engine.received.len() as u64 <= stats.rx_frames.get());
        drop(lanes);
    }

    fn a_worker_that_panics_is_an_error_and_stops_the_others() {
        struct Bug;
        impl App<Peer> for Bug {
            fn poll(&mut self, _now: Ns, peer: &mut Peer) -> Poll {
                assert!(!peer.echo, "of the test's own making");
                Poll::Idle
            }
        }
        let eal = eal();
        let (mut a, mut b) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
        let fine = lane(Peer::default(), Bug, &mut [&mut a], 0);
        let bad = lane(Peer { echo: true, ..Peer::default() }, Bug, &mut [&mut b], 0);
        let (workers, _) =
            spawn(&eal, vec![Worker::new(None, vec![fine]), Worker::new(None, vec![bad])]);
        match workers.join().err() {
            Some(Error::Panicked { worker, message }) => {
                assert_eq!((worker.as_str(), message.as_str()), ("mrcnic-w1", "of the test's own making"));
            }
            other => panic!("{other:?}"),
        }
    }

    fn a_core_that_is_not_there_starts_no_worker() {
        let eal = eal();
        let workers: Vec<Worker<Peer, ()>> = vec![Worker::new(Some(9_999), Vec::new())];
        let stop = Arc::new(AtomicBool::new(false));
        let e = Workers::spawn(&eal, Clock::new(&eal), workers, WorkerOptions::default(), stop).err();
        assert!(matches!(e, Some(Error::NoCore { core: 9_999, .. })), "{e:?}");
    }

    fn more_workers_than_cores_share_them() {
        let eal = eal();
        let core = eal.cores().first().copied();
        let mut pairs = Vec::new();
        let mut workers = Vec::new();
        for _ in 0..2 {
            let (mut a, mut b) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
            let frames: VecDeque<_> = (0..100).map(|i| (PortId(0), pattern(i, 100))).collect();
            let sender = Peer { to_send: frames, ..Peer::default() };
            workers.push(Worker::new(core, vec![lane(sender, Await(100), &mut [&mut a], 0)]));
            let echo = Peer { echo: true, ..Peer::default() };
            workers.push(Worker::new(core, vec![lane(echo, Await(100), &mut [&mut b], 0)]));
            pairs.push((a, b));
        }
        let (workers, _) = spawn(&eal, workers);
        for lanes in workers.join().expect("nobody dies") {
            assert_eq!(lanes[0].engine.received.len(), 100);
        }
    }
}

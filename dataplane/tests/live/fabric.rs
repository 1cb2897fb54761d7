//! A fabric between living ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use dataplane::Ns;
use dataplane::dpdk::{Eal, FabricLane, FabricLaneStats, LiveFabric, Overseer, Port, PortConfig, Worker};
use dataplane::fabric::{
    Fabric, FabricDrop, Fault, LinkStats, NicId, Node, Place, Plan, PortState, SwitchId, Topology, Totals,
};
use dataplane::wire::{Rules, Trim, parse};

use crate::workers::{Peer, lane, packet, spawn};
use crate::{eal, live, small};

const PATHS: u32 = 4;

/// What a fabric looked like when its worker stopped.
struct End {
    links: Vec<(Node, Node, LinkStats)>,
    totals: Totals,
    inside: usize,
    ports: Vec<PortState>,
}

impl End {
    fn link(&self, from: Node, to: Node) -> LinkStats {
        self.links.iter().find(|link| (link.0, link.1) == (from, to)).expect("a link").2
    }
}

/// Breaks something with the first turn.
struct Breaker {
    faults: Vec<Fault>,
    ports: Vec<PortState>,
    dropped: Arc<AtomicU64>,
    end: Sender<End>,
}

impl Overseer for Breaker {
    fn poll(&mut self, now: Ns, fabric: &mut LiveFabric) -> bool {
        for fault in self.faults.drain(..) {
            fabric.apply(now, &fault).expect("it is there");
        }
        self.ports.extend(std::iter::from_fn(|| fabric.poll_port()));
        self.dropped.store(fabric.totals().dropped.total(), Ordering::Relaxed);
        false
    }

    fn end(&mut self, fabric: &LiveFabric) {
        let ports = std::mem::take(&mut self.ports);
        let (links, totals, inside) = (fabric.links().collect(), *fabric.totals(), fabric.inside());
        self.end.send(End { links, totals, inside, ports }).expect("the test waits");
    }
}

fn plan() -> Plan {
    Plan::new(Topology::Paths { nics: 2, paths: PATHS })
}

fn spine(index: u32) -> Node {
    Node::Switch(SwitchId { plane: 0, tier: 1, index })
}

fn leaf(index: u32) -> Node {
    Node::Switch(SwitchId { plane: 0, tier: 0, index })
}

/// The two NICs' ports, and a fabric behind them.
struct Net {
    near: Vec<Port>,
    lane: FabricLane,
    stats: Arc<FabricLaneStats>,
    dropped: Arc<AtomicU64>,
    end: Receiver<End>,
}

fn net(eal: &Eal, plan: &Plan, ring: u32, faults: Vec<Fault>) -> Net {
    let config = PortConfig { small: 4_095, ..small() };
    let far = PortConfig { small: 63, large: 63, ..small() };
    let pairs = Port::ring_pairs(eal, ring, 2, [&config, &far]).expect("two pairs");
    let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let queues = far.into_iter().map(|mut port| vec![port.take_queue(0).expect("a queue")]).collect();
    let (sender, end) = channel();
    let dropped = Arc::<AtomicU64>::default();
    let breaker = Breaker { faults, ports: Vec::new(), dropped: Arc::clone(&dropped), end: sender };
    let fabric = Fabric::new(plan, 1).expect("a sound plan");
    let lane = FabricLane::new(fabric, queues, 8_192, Box::new(breaker)).expect("two NICs with a port each");
    let stats = lane.stats();
    Net { near, lane, stats, dropped, end }
}

/// NIC 0 sends `frames` to NIC 1, until each has arrived or was dropped. What NIC 1 received, and the end of the fabric.
fn send(eal: &Eal, net: Net, frames: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, End) {
    let Net { mut near, lane: fabric, stats, dropped, end } = net;
    let sent = frames.len() as u64;
    let [a, b] = near.as_mut_slice() else { panic!("two ports") };
    let sender = lane(Peer::sending(frames), (), &mut [a], 0);
    let receiver = lane(Peer::default(), (), &mut [b], 0);
    let received = receiver.stats();
    // Three lanes on one thread: no core is needed for the fabric.
    let worker = Worker { fabric: Some(fabric), ..Worker::new(None, vec![sender, receiver]) };
    let (workers, _) = spawn(eal, vec![worker]);
    while received.rx_frames.get() + dropped.load(Ordering::Relaxed) < sent {
        std::thread::yield_now();
    }
    workers.stop();
    let lanes = workers.join().expect("nobody dies");
    assert_eq!(stats.rx_frames.get(), sent);
    let received = lanes[0][1].engine.received.iter().map(|(_, frame)| frame.clone()).collect();
    (received, end.recv().expect("it said so"))
}

/// Packets with an entropy value of their own each.
fn packets(count: u32, payload: usize) -> Vec<Vec<u8>> {
    (0..count).map(|psn| packet(psn, 49_152 + psn, payload)).collect()
}

live! {
    fn frames_go_over_every_path_of_a_fabric_and_arrive_as_they_were() {
        let eal = eal();
        let mut sent = packets(400, 1_000);
        let (mut received, end) = send(&eal, net(&eal, &plan(), 1_024, Vec::new()), sent.clone());
        sent.sort();
        received.sort();
        assert!(sent == received);
        let over = |n| end.link(leaf(0), spine(n)).frames;
        assert_eq!((0..PATHS).map(over).sum::<u64>(), 400);
        assert!((0..PATHS).all(|n| over(n) > 40 && over(n) == end.link(spine(n), leaf(1)).frames));
        assert_eq!((end.totals.injected, end.totals.delivered, end.inside), (400, 400, 0));
    }

    fn a_black_hole_and_a_link_that_is_down_lose_frames_by_name_and_nics_hear_of_their_own_links() {
        let eal = eal();
        let down = Place::OneWay(leaf(1), Node::Nic(NicId(1), 0));
        let faults = vec![Fault::BlackHole(Place::OneWay(leaf(0), spine(2))), Fault::Down(down), Fault::Up(down)];
        let net = net(&eal, &plan(), 1_024, faults);
        let (received, end) = send(&eal, net, packets(400, 100));
        let swallowed = end.totals.dropped.of(FabricDrop::BlackHole);
        assert!(swallowed > 40);
        assert_eq!(end.link(leaf(0), spine(2)).dropped.total(), swallowed);
        assert_eq!((received.len() as u64 + swallowed, end.inside), (400, 0));
        // It went down and up before anybody asked.
        assert_eq!(end.ports, [PortState { nic: NicId(1), port: 0, up: true }]);
    }

    fn a_switch_trims_in_the_senders_mbuf_what_finds_its_queue_full() {
        let eal = eal();
        let mut plan = plan();
        plan.queue.data = 4_000;
        // The sender's link is faster than all that is behind it.
        plan.fabric.rate = 1_000_000_000;
        let (received, end) = send(&eal, net(&eal, &plan, 1_024, Vec::new()), packets(400, 3_000));
        let trimmed: u64 = end.links.iter().map(|link| link.2.trimmed).sum();
        let seen = received.iter().filter(|frame| {
            let packet = parse(&frame[..frame.len().min(256)], frame.len(), &Rules::default()).expect("MRC");
            assert!(packet.trim == Trim::Trimmed && frame.len() == 74 || packet.icrc_ok(frame));
            packet.trim == Trim::Trimmed
        });
        assert_eq!(seen.count() as u64, trimmed);
        assert!(trimmed > 100, "{trimmed}");
    }

    fn what_a_slow_port_has_no_room_for_waits_with_its_sender() {
        let eal = eal();
        let mut plan = plan();
        plan.host.rate = 500_000_000;
        plan.nic_queue = 5_000;
        let (received, end) = send(&eal, net(&eal, &plan, 64, Vec::new()), packets(300, 2_000));
        assert_eq!((received.len(), end.totals.dropped.total()), (300, 0));
        assert!(end.link(Node::Nic(NicId(0), 0), leaf(0)).max_data_bytes <= 5_000);
    }

    fn frames_that_a_nic_does_not_take_are_lost_by_name_once_its_ring_is_full() {
        let eal = eal();
        let Net { mut near, lane: fabric, stats, end, .. } = net(&eal, &plan(), 64, Vec::new());
        let sender = lane(Peer::sending(packets(300, 100)), (), &mut [&mut near[0]], 0);
        let worker = Worker { fabric: Some(fabric), ..Worker::new(None, vec![sender]) };
        let (workers, _) = spawn(&eal, vec![worker]);
        while stats.ring_full.get() < 300 - 63 - 32 {
            std::thread::yield_now();
        }
        workers.stop();
        workers.join().expect("nobody dies");
        assert_eq!((stats.rx_frames.get(), stats.tx_frames.get(), stats.ring_full.get()), (300, 63, 205));
        assert_eq!(end.recv().expect("it said so").totals.delivered, 300);
    }

    fn a_lane_has_the_nics_and_ports_of_its_fabric() {
        let eal = eal();
        let pairs = Port::ring_pairs(&eal, 64, 1, [&small(), &small()]).expect("a pair");
        let queues = pairs.into_iter().map(|(_, mut far)| vec![far.take_queue(0).expect("a queue")]).collect();
        let fabric = Fabric::new(&plan(), 1).expect("a sound plan");
        assert!(FabricLane::new(fabric, queues, 0, Box::new(())).is_none());
    }
}

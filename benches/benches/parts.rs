//! Cost of the parts that a packet goes through, each alone: paths, requester, responder, and the rings to a worker.

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::memory::{Key, LoanId};
use dataplane::nic::WriteRequest;
use dataplane::path::profile::PortSet;
use dataplane::path::{EvSet, Spraying, SprayingParams};
use dataplane::transport::{
    Advertised, Arrival, Completion, Due, Loss, Observer, Psn, Requester, Responder, Rooms, SackOrigin, TransportParams,
};
use dataplane::wire::{Aeth, Opcode, Sack, Skip, Syndrome};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::hint::black_box;

/// Packets of a burst.
const BURST: u32 = 32;
const FULL: u32 = 4156;

/// Who is told, and does nothing.
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
    fn completed(&mut self, completion: Completion, _: bool) {
        black_box(completion);
    }
}

fn one_at_a_time<'a>(c: &'a mut Criterion, name: &str, each: u64) -> BenchmarkGroup<'a, WallTime> {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(each));
    group
}

fn paths(c: &mut Criterion) {
    let (params, mut rng) = (SprayingParams::default(), Xoshiro256PlusPlus::seed_from_u64(1));
    // 400 Gbps and 6 us: 72 values.
    let set = EvSet::drawn(&params, 300_000, FULL, PortSet::first(1), &mut rng);
    let mut good = Spraying::new(&set, None, &mut rng);
    let mut worse = good.clone();
    let values: Vec<u32> = good.states().map(|(ev, _)| ev).collect();
    for &ev in values.iter().step_by(8) {
        worse.assume_bad(ev, Ns(0));
    }
    let mut group = one_at_a_time(c, "path", 1);
    group.bench_function("pick an EV of 72", |b| b.iter(|| good.pick(black_box(Ns(0)))));
    group.bench_function("pick an EV, one in eight assumed bad", |b| b.iter(|| worse.pick(black_box(Ns(0)))));
    let mut at = 0;
    group.bench_function("pick an EV, each marked before", |b| {
        b.iter(|| {
            at = (at + 1) % values.len();
            good.mark(values[at]);
            good.pick(black_box(Ns(0)))
        });
    });
    group.finish();
}

/// A QP's two ends, without wire and engine.
struct Ends {
    requester: Requester,
    responder: Responder,
    rooms: Rooms,
    now: Ns,
}

impl Ends {
    fn new() -> Ends {
        let params = TransportParams::default();
        let peer = Advertised { window: params.max_psn_range, immediates: 64 };
        Ends {
            requester: Requester::new(params, Psn::new(0), peer, 1024),
            responder: Responder::new(Psn::new(0), &params, 0),
            rooms: Rooms::default(),
            now: Ns(0),
        }
    }

    /// Posts and sends a burst of messages of one packet each. Gives the packets as they arrive.
    fn send(&mut self) -> Vec<Arrival> {
        self.now += 10_000;
        let (local_key, remote_key) = (Key(1), Key(2));
        let request = WriteRequest {
            wr_id: 0,
            local_key,
            local_va: 0,
            remote_key,
            remote_va: 0,
            len: 64,
            immediate: None,
            signaled: true,
        };
        let mut sent = Vec::with_capacity(BURST as usize);
        for _ in 0..BURST {
            self.requester.post(&request, &mut self.rooms).expect("room on the send queue");
            let packet = self.requester.fresh().expect("the window is open");
            self.requester.committed(&packet, 300, 124);
            self.requester.accepted(self.now, packet.psn, 1);
            sent.push(Arrival {
                psn: packet.psn,
                opcode: Opcode::WriteOnly,
                payload: 64,
                nominal: 124,
                ack_request: true,
                rtx: false,
                marked: false,
                immediate: None,
            });
        }
        sent
    }

    fn receive(&mut self, arrivals: &[Arrival]) -> Due {
        let mut due = Due::default();
        for arrival in arrivals {
            due = self.responder.accept(arrival, |_| {}).expect("in the window");
        }
        due
    }

    fn sack(&mut self, psn: Psn) -> Sack {
        self.responder.sack(SackOrigin::Packet(psn), Skip::None)
    }

    fn acknowledge(&mut self, sack: &Sack) {
        self.requester.on_sack(self.now, sack, false, &mut Nobody);
        let aeth = Aeth { syndrome: Syndrome::Ack as u8, msn: self.responder.msn() };
        let acknowledged = self.requester.on_ack(self.now, self.responder.cack(), &aeth, &mut Nobody);
        acknowledged.expect("no NAK");
    }
}

fn requester(c: &mut Criterion) {
    let mut group = one_at_a_time(c, "requester", BURST.into());
    let mut ends = Ends::new();
    group.bench_function("admit, cut and send 32 messages, SACK, ACK and completions", |b| {
        b.iter(|| {
            let sent = ends.send();
            ends.receive(&sent);
            let sack = ends.sack(sent[0].psn);
            ends.acknowledge(&sack);
        });
    });
    let mut ends = Ends::new();
    // Of each burst the first comes last: SACKs have a bitmap.
    group.bench_function("the same, and a SACK with a hole before", |b| {
        b.iter(|| {
            let sent = ends.send();
            ends.receive(&sent[1..]);
            let sack = ends.sack(sent[31].psn);
            ends.requester.on_sack(ends.now, &sack, false, &mut Nobody);
            ends.receive(&sent[..1]);
            let sack = ends.sack(sent[0].psn);
            ends.acknowledge(&sack);
        });
    });
    group.finish();
    let mut group = one_at_a_time(c, "requester", 1);
    for (name, holes) in [("a SACK for 32 packets", false), ("a SACK whose bitmap is for 31", true)] {
        // A QP for each: what a SACK says is news once.
        let made = || {
            let mut ends = Ends::new();
            let sent = ends.send();
            ends.receive(if holes { &sent[1..] } else { &sent });
            let sack = ends.sack(sent[31].psn);
            (ends, sack)
        };
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                made,
                |(ends, sack)| ends.requester.on_sack(ends.now, sack, false, &mut Nobody),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn responder(c: &mut Criterion) {
    let mut group = one_at_a_time(c, "responder", 1);
    let mut arrival = Ends::new().send()[0];
    let mut ends = Ends::new();
    group.bench_function("a packet in order, and its SACK", |b| {
        b.iter(|| {
            ends.receive(&[arrival]);
            arrival.psn = arrival.psn.next();
            ends.sack(arrival.psn)
        });
    });
    let mut ends = Ends::new();
    let mut first = Psn::new(0);
    group.throughput(Throughput::Elements(64));
    group.bench_function("64 packets in reverse order, a SACK each", |b| {
        b.iter(|| {
            for back in (0..64).rev() {
                let psn = first.plus(back);
                ends.receive(&[Arrival { psn, ..arrival }]);
                black_box(ends.sack(psn));
            }
            first = first.plus(64);
        });
    });
    group.finish();
}

fn rings(c: &mut Criterion) {
    let mut group = one_at_a_time(c, "ring", 1);
    let ring = ArrayQueue::new(1024);
    group.bench_function("push and pop a request", |b| {
        b.iter(|| {
            let _ = ring.push(black_box([0u64; 8]));
            ring.pop()
        });
    });
    // There and back over another core, as a control thread asks a worker.
    let (there, back) = (ArrayQueue::new(64), ArrayQueue::new(64));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                match there.pop() {
                    Some(request) => drop(back.push(request)),
                    None => std::hint::spin_loop(),
                }
            }
        });
        group.bench_function("a request to another core, and its answer", |b| {
            b.iter(|| {
                let _ = there.push([0u64; 8]);
                loop {
                    if let Some(answer) = back.pop() {
                        break answer;
                    }
                    std::hint::spin_loop();
                }
            });
        });
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    group.finish();
}

criterion_group!(benches, paths, requester, responder, rings);
criterion_main!(benches);

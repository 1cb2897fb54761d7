//! What a packet costs each side of the engine, stage by stage: admit and transmit, place and acknowledge, and what comes back. Frames are
//! handed over in memory, so this is the engine without a driver.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dataplane::Ns;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{Nic, NicParams, PortId};
use mrcnic_benches::Burst;
use mrcnic_tests::{Channel, Pair, QpPair};
use std::time::{Duration, Instant};

/// Writes in flight at once: two bursts.
const BATCH: usize = 64;

/// A pair of NICs, and the frames between them.
struct Stages {
    pair: Pair,
    qp: QpPair,
    len: usize,
    data: Burst,
    replies: Burst,
}

/// How long each stage of a batch took.
struct Took {
    send: Duration,
    receive: Duration,
    complete: Duration,
}

/// A stage by name, and its part of a batch.
type Stage = (&'static str, fn(&Took) -> Duration);

fn transmit(nic: &mut Nic, now: Ns, burst: &mut Burst) {
    loop {
        let frames = nic.transmit(now, burst);
        if frames == 0 {
            break;
        }
        nic.sent(now, PortId(0), frames);
    }
}

impl Stages {
    fn new(len: usize) -> Stages {
        let params =
            NicParams { congestion: CcConfig::Fixed { bytes: 4 << 20 }, merge_sacks: true, ..NicParams::default() };
        let mut pair = Pair::new(params, 1 << 20, Channel::default(), 1);
        let qp = pair.connect(0);
        Stages { pair, qp, len, data: Burst::new(BATCH), replies: Burst::new(4 * BATCH) }
    }

    fn batch(&mut self) -> Took {
        self.pair.now += 10_000;
        let now = self.pair.now;
        let requests: Vec<_> = (0..BATCH as u64).map(|id| self.pair.write(id, 0, 0, self.len)).collect();
        let [a, b] = &mut self.pair.nics;
        self.data.clear();
        self.replies.clear();
        let began = Instant::now();
        for request in &requests {
            a.post_write(self.qp.qpn[0], request).expect("room on the send queue");
        }
        transmit(a, now, &mut self.data);
        let send = began.elapsed();
        let began = Instant::now();
        for burst in self.data.frames().collect::<Vec<_>>().chunks(32) {
            for frame in burst {
                b.receive(now, PortId(0), frame).expect("a good frame");
            }
            transmit(b, now, &mut self.replies);
        }
        b.on_idle(now);
        transmit(b, now, &mut self.replies);
        let receive = began.elapsed();
        let began = Instant::now();
        for frame in self.replies.frames() {
            a.receive(now, PortId(0), &frame).expect("a good frame");
        }
        let mut completed = 0;
        while a.poll().is_some() {
            completed += 1;
        }
        let complete = began.elapsed();
        assert_eq!(completed, BATCH);
        Took { send, receive, complete }
    }
}

fn sides(c: &mut Criterion) {
    for len in [64, 4096] {
        let mut group = c.benchmark_group(format!("sides/{len}B"));
        group.throughput(Throughput::Elements(BATCH as u64));
        let stages: [Stage; 3] = [
            ("requester: post and transmit", |took| took.send),
            ("responder: check, place, acknowledge", |took| took.receive),
            ("requester: acknowledgements and completions", |took| took.complete),
        ];
        for (name, stage) in stages {
            let mut stages = Stages::new(len);
            group.bench_function(name, |b| b.iter_custom(|rounds| (0..rounds).map(|_| stage(&stages.batch())).sum()));
        }
        group.finish();
    }
}

criterion_group!(benches, sides);
criterion_main!(benches);

//! Cost of a scheduler's turn: ten QPs send, the others are idle, and each is a group of its own.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{NicParams, PortId};
use mrcnic_benches::Burst;
use mrcnic_tests::{Channel, Pair, QpPair};
use std::time::{Duration, Instant};

/// QPs that send.
const ACTIVE: usize = 10;
/// Messages of each in a round.
const MESSAGES: u64 = 32;

/// Sends a round and times that; then lets it be acknowledged.
fn round(pair: &mut Pair, active: &[QpPair], burst: &mut Burst) -> Duration {
    for qp in active {
        for id in 0..MESSAGES {
            let request = pair.write(id, 0, 0, 64);
            pair.nics[0].post_write(qp.qpn[0], &request).expect("room on the send queue");
        }
    }
    burst.clear();
    let began = Instant::now();
    loop {
        let frames = pair.nics[0].transmit(pair.now, burst);
        if frames == 0 {
            break;
        }
        pair.nics[0].sent(pair.now, PortId(0), frames);
    }
    let took = began.elapsed();
    let sent: Vec<Vec<u8>> = burst.frames().map(<[u8]>::to_vec).collect();
    assert_eq!(sent.len(), ACTIVE * MESSAGES as usize);
    let frames = sent.len();
    for frame in sent {
        pair.inject(1, frame);
    }
    pair.run_for(1_000_000);
    assert_eq!(pair.completions[0].drain(..).count(), frames);
    took
}

fn turns(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler");
    group.throughput(Throughput::Elements(1));
    for qps in [10, 1_000, 10_000] {
        let params = NicParams { qp_groups: false, congestion: CcConfig::None, ..NicParams::default() };
        let mut pair = Pair::new(params, 4096, Channel::default(), 1);
        let all: Vec<QpPair> = (0..qps).map(|_| pair.connect(0)).collect();
        let active: Vec<QpPair> = all.iter().step_by(qps / ACTIVE).copied().collect();
        let mut burst = Burst::new(ACTIVE * MESSAGES as usize);
        group.bench_function(format!("turn with a 64 B packet, {ACTIVE} of {qps} QPs active"), |b| {
            b.iter_custom(|iterations| {
                let in_a_round = ACTIVE as u64 * MESSAGES;
                let rounds = iterations.div_ceil(in_a_round);
                let took: Duration = (0..rounds).map(|_| round(&mut pair, &active, &mut burst)).sum();
                took.mul_f64(iterations as f64 / (rounds * in_a_round) as f64)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, turns);
criterion_main!(benches);

//! Cost of congestion control for each SACK.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dataplane::Ns;
use dataplane::congestion::{Algorithm, Congestion, Nscc, NsccParams, SackSignal, WINDOW_MAX};
use std::hint::black_box;

const RATE: u64 = 400_000_000_000;
const FULL: u32 = 4156;
/// Time between two full packets at 400 Gbps, in ns.
const GAP: u64 = 83;
/// SACKs of a round; a power of two.
const SACKS: usize = 4096;

fn nscc() -> Algorithm {
    Algorithm::Nscc(Nscc::new(&NsccParams::default(), RATE, FULL, true, Ns(0)))
}

/// Bytes in flight that go with a window.
fn inflight(algorithm: &Algorithm) -> u64 {
    algorithm.window().min(WINDOW_MAX)
}

/// A queue that fills and drains, with marks above 3 us.
fn signals() -> Vec<SackSignal> {
    (0..SACKS as u64)
        .map(|n| {
            let delay = (n * 13 % 9_000).abs_diff(4_500) * 2 % 8_000;
            SackSignal { new_bytes: 4096, ecn: delay > 3_000, rtt: Some(6_000 + delay), ..SackSignal::default() }
        })
        .collect()
}

fn congestion(c: &mut Criterion) {
    let mut group = c.benchmark_group("nscc");
    group.throughput(Throughput::Elements(1));
    let quiet = SackSignal { new_bytes: 4096, rtt: Some(6_000), ..SackSignal::default() };
    for (name, signals) in [("a SACK, no queue", vec![quiet; SACKS]), ("a SACK, delay and marks", signals())] {
        let (mut algorithm, mut at, mut now) = (nscc(), 0, Ns(0));
        group.bench_function(name, |b| {
            b.iter(|| {
                at = (at + 1) % SACKS;
                now += GAP;
                let inflight = inflight(&algorithm);
                algorithm.on_sack(now, black_box(&signals[at]), inflight, inflight);
                black_box(algorithm.window())
            });
        });
    }
    let (mut algorithm, mut now) = (nscc(), Ns(0));
    group.bench_function("a NACK of a trimmed packet", |b| {
        b.iter(|| {
            now += GAP;
            let inflight = inflight(&algorithm);
            algorithm.on_nack(now, black_box(FULL), true, inflight);
            black_box(algorithm.window())
        });
    });
    group.finish();
}

criterion_group!(benches, congestion);
criterion_main!(benches);

//! Cost of the engine: two NICs whose frames are handed over in memory, without driver and without waiting.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dataplane::Ns;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::NicParams;
use dataplane::transport::Wheel;
use mrcnic_tests::{Channel, Pair};

/// Writes in flight at once.
const BATCH: u64 = 64;

fn writes(c: &mut Criterion) {
    for len in [64usize, 4096, 65_536] {
        let channel = Channel { delay_ns: 1, ..Channel::default() };
        // The channel's round trip of 2 ns would leave NSCC a window of one packet.
        let congestion = CcConfig::Fixed { bytes: 450_000 };
        let params = NicParams { congestion, ..NicParams::default() };
        let mut pair = Pair::new(params, 1 << 20, channel, 1);
        let qp = pair.connect(0);
        let mut group = c.benchmark_group(format!("engine/{len}B"));
        group.throughput(Throughput::Elements(BATCH));
        group.bench_function("64 writes, both NICs, all replies", |b| {
            b.iter(|| {
                for id in 0..BATCH {
                    let request = pair.write(id, 0, 0, len);
                    pair.nics[0].post_write(qp.qpn[0], &request).expect("room on the send queue");
                }
                pair.run_for(1_000_000);
                assert_eq!(pair.completions[0].drain(..).count() as u64, BATCH);
            });
        });
        group.finish();
    }
}

fn wheel(c: &mut Criterion) {
    let mut wheel = Wheel::new();
    wheel.reserve(10_000);
    for id in 0..10_000 {
        wheel.arm(id, Ns(u64::from(id) * 997));
    }
    let mut at = 0;
    c.bench_function("wheel/arm and disarm among 10,000", |b| {
        b.iter(|| {
            at = (at + 7919) % 10_000;
            wheel.disarm(at);
            wheel.arm(at, Ns(150_000 + u64::from(at)));
        });
    });
}

criterion_group!(benches, writes, wheel);
criterion_main!(benches);

//! Cost of reading and writing frames.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dataplane::wire::{Rules, parse};
use mrcnic_benches::{template, write_frame, write_headers};
use std::hint::black_box;

fn wire(c: &mut Criterion) {
    let (template, rules) = (template(), Rules::default());
    for payload in [64usize, 4096] {
        let ext = write_headers(payload as u32);
        let mut frame = vec![0; template.frame_len(ext.len(), payload)];
        let mut group = c.benchmark_group(format!("wire/{payload}B"));
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function("write headers and seal", |b| {
            b.iter(|| write_frame(black_box(&template), black_box(&mut frame), &ext, payload));
        });
        group.bench_function("parse", |b| b.iter(|| parse(black_box(&frame), frame.len(), &rules)));
        let packet = parse(&frame, frame.len(), &rules).expect("a frame that was just written");
        group.bench_function("check the iCRC", |b| b.iter(|| black_box(&packet).icrc_ok(black_box(&frame))));
        group.finish();
    }
}

criterion_group!(benches, wire);
criterion_main!(benches);

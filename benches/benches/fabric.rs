//! Cost of the fabric: what one packet costs on one link, among few NICs and among many.

use criterion::{Criterion, criterion_group, criterion_main};
use dataplane::Ns;
use dataplane::fabric::{Delivery, Fabric, NicId, Plan, Topology, mac};
use dataplane::wire::{Addressing, Template, UDP_PORT};
use mrcnic_benches::{write_frame, write_headers};
use std::time::Instant;

/// Frames that each NIC keeps in flight.
const WINDOW: u16 = 8;
const PAYLOAD: usize = 4096;
/// Place of the UDP source port over IPv4.
const PORT_AT: usize = 34;

/// NICs that send to the one half the fabric further: all traffic crosses four links.
struct Load {
    fabric: Fabric<Vec<u8>>,
    nics: u32,
}

impl Load {
    fn new(leaves: u32, nics_per_leaf: u32, spines: u32) -> Load {
        let mut plan = Plan::new(Topology::LeafSpine { planes: 1, leaves, nics_per_leaf, spines });
        // Nothing is trimmed or dropped: each frame comes back to be sent again.
        plan.queue.data = 1 << 30;
        let fabric = Fabric::new(&plan, 1).expect("a valid plan");
        let mut load = Load { nics: fabric.nics(), fabric };
        for (nic, nth) in (0..load.nics).flat_map(|nic| (0..WINDOW).map(move |nth| (nic, nth))) {
            let frame = load.frame(&plan, NicId(nic));
            load.send(Ns(0), NicId(nic), nth, frame);
        }
        load
    }

    fn partner(&self, nic: NicId) -> NicId {
        NicId((nic.0 + self.nics / 2) % self.nics)
    }

    fn frame(&self, plan: &Plan, nic: NicId) -> Vec<u8> {
        let to = self.partner(nic);
        let template = Template::new(&Addressing {
            source_mac: mac(nic, 0),
            destination_mac: mac(to, 0),
            vlan: None,
            source: plan.addresses.v4(nic).into(),
            destination: plan.addresses.v4(to).into(),
            hop_limit: 64,
            udp_port: UDP_PORT,
        })
        .expect("addresses of one family");
        let ext = write_headers(PAYLOAD as u32);
        let mut frame = vec![0; template.frame_len(ext.len(), PAYLOAD)];
        assert!(write_frame(&template, &mut frame, &ext, PAYLOAD));
        frame
    }

    fn send(&mut self, now: Ns, nic: NicId, port: u16, mut frame: Vec<u8>) {
        frame[PORT_AT..PORT_AT + 2].copy_from_slice(&port.to_be_bytes());
        assert!(self.fabric.inject(now, nic, 0, frame));
    }

    /// Runs until packets have crossed so many links more.
    fn run(&mut self, hops: u64) {
        let end = self.fabric.totals().hops + hops;
        while self.fabric.totals().hops < end {
            let next = self.fabric.next_wake().expect("frames are in flight");
            self.fabric.on_time(next);
            while let Some(Delivery { at, nic, frame, .. }) = self.fabric.poll() {
                let port = u16::from_be_bytes([frame[PORT_AT], frame[PORT_AT + 1]]).wrapping_add(WINDOW);
                let from = self.partner(nic);
                self.send(at, from, port, frame);
            }
        }
        assert_eq!(self.fabric.totals().dropped.total(), 0);
    }
}

fn hops(c: &mut Criterion) {
    let mut group = c.benchmark_group("fabric/one packet over one link");
    for (leaves, nics_per_leaf, spines) in [(2, 1, 8), (8, 8, 8), (32, 32, 32)] {
        let mut load = Load::new(leaves, nics_per_leaf, spines);
        load.run(100_000);
        group.bench_function(format!("{} NICs", load.nics), |b| {
            b.iter_custom(|hops| {
                let start = Instant::now();
                load.run(hops);
                start.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hops);
criterion_main!(benches);

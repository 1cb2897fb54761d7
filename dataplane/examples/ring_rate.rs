//! What the driver alone costs: two workers over a pair of rings, one that sends frames and one that counts them.
//!
//! `cargo run --release -p dataplane --features dpdk --example ring_rate`

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dataplane::Ns;
use dataplane::dpdk::{
    App, Clock, Eal, EalOptions, Engine, Lane, Poll, Port, PortConfig, TxPorts, Worker, WorkerOptions, Workers,
};
use dataplane::nic::{PortId, RxFrame, TxBurst};

/// Sends `left` frames of `len` bytes, or counts what comes.
struct End {
    left: usize,
    len: usize,
    copy: bool,
    payload: Vec<u8>,
    sink: Vec<u8>,
    received: usize,
    first: Option<Ns>,
    last: Ns,
    check: u64,
}

impl End {
    fn new(left: usize, len: usize, copy: bool) -> End {
        let (payload, sink) = (vec![7; len], vec![0; len]);
        End { left, len, copy, payload, sink, received: 0, first: None, last: Ns::ZERO, check: 0 }
    }
}

impl Engine for End {
    fn receive<F: RxFrame>(&mut self, now: Ns, _port: PortId, frame: &F) {
        self.first.get_or_insert(now);
        self.last = now;
        self.received += 1;
        self.check = self.check.wrapping_add(u64::from(frame.head()[12]));
        if self.copy {
            let mut at = 0;
            frame.body(0, frame.len(), |extent| {
                // SAFETY: the sink is as long as a frame, and nobody writes to a received frame.
                #[allow(unsafe_code)]
                unsafe {
                    std::ptr::copy_nonoverlapping(extent.as_ptr(), self.sink.as_mut_ptr().add(at), extent.len());
                }
                at += extent.len();
            });
        }
    }

    fn on_idle(&mut self, _now: Ns) {}

    fn on_time(&mut self, _now: Ns) {}

    fn transmit(&mut self, _now: Ns, out: &mut TxPorts) -> usize {
        let mut committed = 0;
        while self.left > 0
            && let Some(slot) = out.slot(PortId(0), self.len)
        {
            if self.copy {
                slot.copy_from_slice(&self.payload);
            } else {
                slot[..64].copy_from_slice(&self.payload[..64]);
            }
            out.commit();
            self.left -= 1;
            committed += 1;
        }
        committed
    }

    fn sent(&mut self, _now: Ns, _port: PortId, _frames: usize) {}

    fn owner(_head: &[u8], _workers: usize) -> Option<usize> {
        None
    }
}

/// Done when all was sent, or all came.
struct Until(usize);

impl App<End> for Until {
    fn poll(&mut self, _now: Ns, end: &mut End) -> Poll {
        // The sender stays for its last flush.
        if end.received >= self.0 && self.0 > 0 { Poll::Done } else { Poll::Idle }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let eal = Eal::init(&EalOptions::default())?;
    let (first, last) = (eal.cores().first().copied(), eal.cores().last().copied());
    println!("{} on cores {first:?} and {last:?}", Eal::version());
    for (len, copy, frames) in [(74, true, 20_000_000), (4_174, false, 5_000_000), (4_174, true, 3_000_000)] {
        for (small, large) in [(1_023, 511), (4_095, 1_023), (16_383, 2_047), (16_383, 4_095), (65_535, 8_191)] {
            let config = PortConfig { small, large, ..PortConfig::default() };
            let (mut a, mut b) = Port::ring_pair(&eal, 1_024, &config)?;
            let queue = |port: &mut Port| port.take_queue(0).into_iter().collect::<Vec<_>>();
            let sender = Lane::new(End::new(frames, len, copy), Until(0), queue(&mut a));
            let receiver = Lane::new(End::new(0, len, copy), Until(frames), queue(&mut b));
            let sent = sender.stats();
            let stop = Arc::new(AtomicBool::new(false));
            let workers = [(first, sender), (last, receiver)].map(|(core, lane)| Worker::new(core, vec![lane]));
            let workers =
                Workers::spawn(&eal, Clock::new(&eal), workers.into(), WorkerOptions::default(), Arc::clone(&stop))?;
            while sent.tx_frames.get() < frames as u64 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            workers.stop();
            let lanes = workers.join()?;
            let end = &lanes[1][0].engine;
            let ns = end.last.since(end.first.unwrap_or(Ns::ZERO)) as f64 / end.received as f64;
            println!(
                "{len:5} B, {}, pools {small:6} {large:5}: {ns:6.1} ns a frame, {:5.1} Mpps, {:6.1} Gbit/s ({} frames, \
                 {} slots refused)",
                if copy { "written and copied out" } else { "64 B written          " },
                1e3 / ns,
                len as f64 * 8.0 / ns,
                end.received,
                sent.tx_pool_empty.get(),
            );
        }
    }
    Ok(())
}

//! A fabric between living NICs: a worker polls it as it polls a NIC.
//!
//! Each port of each NIC is joined by rings to a port of the fabric's own. What a NIC sends is taken from there, travels through the fabric
//! in real time, and goes to the ring of the NIC that it is for. Beyond what a link's queue has room for, frames stay in the rings of
//! their senders: a port is slow, and loses nothing.

use std::sync::Arc;

use dpdk_sys as sys;

use super::BURST;
use super::fabric_frame::{MbufFrame, Taken};
use super::lane::Poll;
use super::port::Queue;
use super::rx::RxQueue;
use super::stats::Counter;
use super::tx::TxQueue;
use crate::Ns;
use crate::fabric::{Fabric, NicId};

/// A fabric of frames that are mbufs.
pub type LiveFabric = Fabric<MbufFrame>;

/// Who tells a fabric what breaks and hears which ports are down, on the fabric's own worker. It must not wait.
pub trait Overseer: Send {
    /// Does what there is to do; true when there was anything. `now` is the fabric's time.
    fn poll(&mut self, now: Ns, fabric: &mut LiveFabric) -> bool;

    /// The worker stops: a last look.
    fn end(&mut self, fabric: &LiveFabric);
}

/// Nobody: the fabric keeps to its schedule.
impl Overseer for () {
    fn poll(&mut self, _now: Ns, _fabric: &mut LiveFabric) -> bool {
        false
    }

    fn end(&mut self, _fabric: &LiveFabric) {}
}

/// What a fabric's lane counts, beside what the fabric itself does. Written by its worker, read by anyone.
#[derive(Debug, Default)]
pub struct FabricLaneStats {
    /// Frames that came from NICs.
    pub rx_frames: Counter,
    /// Frames that went to NICs.
    pub tx_frames: Counter,
    /// Frames that others referred to, or whose headers were in pieces, and that were copied.
    pub copied: Counter,
    /// Frames lost because there was no mbuf for a copy.
    pub no_mbuf: Counter,
    /// Frames lost because the ring to a NIC was full.
    pub ring_full: Counter,
}

/// Where a NIC's frames come in: those of the last burst from `at` on are still to go.
#[derive(Debug)]
struct Inlet {
    rx: RxQueue,
    nic: NicId,
    port: u8,
    at: usize,
    /// Bit i: frame i of the burst may be changed in place.
    own: u32,
}

/// Where a NIC's frames go out.
#[derive(Debug)]
struct Outlet {
    tx: TxQueue,
    waiting: [*mut sys::rte_mbuf; BURST],
    len: usize,
}

// SAFETY: what waits belongs to the outlet alone, and pools may be used from any thread.
unsafe impl Send for Outlet {}

impl Outlet {
    /// Offers what waits to the ring; how many frames it took.
    fn flush(&mut self) -> usize {
        if self.len == 0 {
            return 0;
        }
        let (port, queue) = self.tx.address();
        // SAFETY: the first `len` places hold whole frames that are ours; the port runs and this is the one user of the queue. Those
        // it takes are not looked at again.
        let taken = unsafe { sys::mrc_tx_burst_raw(port, queue, self.waiting.as_mut_ptr(), self.len as u16) };
        let taken = usize::from(taken);
        self.waiting.copy_within(taken..self.len, 0);
        self.len -= taken;
        taken
    }

    /// Puts a frame behind those that wait; false when there is no room, and it was lost.
    fn push(&mut self, frame: MbufFrame) -> bool {
        let Some(place) = self.waiting.get_mut(self.len) else { return false };
        *place = frame.into_raw();
        self.len += 1;
        true
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: what waits was not accepted by the port, so it is ours; its pools are kept by the port.
            unsafe { sys::rte_pktmbuf_free_bulk(self.waiting.as_mut_ptr(), self.len as u32) };
        }
    }
}

/// A fabric with the queues that join it to NICs.
///
/// Its time begins with the first frame that comes: the faults of its schedule are counted from there.
pub struct FabricLane {
    // Frames that it holds must not outlive their pools: dropped before the queues, which keep those.
    fabric: LiveFabric,
    outlets: Vec<Outlet>,
    inlets: Vec<Inlet>,
    ports: usize,
    overseer: Box<dyn Overseer>,
    began: Option<Ns>,
    stats: Arc<FabricLaneStats>,
}

impl core::fmt::Debug for FabricLane {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FabricLane").field("inlets", &self.inlets).field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl FabricLane {
    /// A lane that joins NICs: `queues[n]` are the far ends of NIC n's ports, in their order. `None` unless there are as many NICs and
    /// ports as the fabric has. `frames` is how many may be inside without a need for memory: best as many as there are mbufs.
    #[must_use]
    pub fn new(
        mut fabric: LiveFabric,
        queues: Vec<Vec<Queue>>,
        frames: usize,
        overseer: Box<dyn Overseer>,
    ) -> Option<FabricLane> {
        let ports = usize::from(fabric.ports());
        if queues.len() != fabric.nics() as usize || queues.iter().any(|of_nic| of_nic.len() != ports) {
            return None;
        }
        fabric.reserve(frames);
        let (mut inlets, mut outlets) = (Vec::new(), Vec::new());
        for (nic, of_nic) in (0..).map(NicId).zip(queues) {
            for (port, Queue { rx, tx }) in (0..).zip(of_nic) {
                inlets.push(Inlet { rx, nic, port, at: 0, own: 0 });
                outlets.push(Outlet { tx, waiting: [core::ptr::null_mut(); BURST], len: 0 });
            }
        }
        Some(FabricLane { fabric, outlets, inlets, ports, overseer, began: None, stats: Arc::default() })
    }

    /// What the lane counts, for any thread to read.
    #[must_use]
    pub fn stats(&self) -> Arc<FabricLaneStats> {
        Arc::clone(&self.stats)
    }

    /// One turn: what an operator wants, time, frames in, frames out.
    #[inline]
    pub(super) fn turn(&mut self, now: Ns) -> Poll {
        let time = |began: Option<Ns>| Ns(began.map_or(0, |began| now.since(began)));
        let mut moved = usize::from(self.overseer.poll(time(self.began), &mut self.fabric));
        for at in 0..self.inlets.len() {
            if self.inlets[at].refill() {
                self.began.get_or_insert(now);
                moved += self.take_in(at, time(self.began));
            }
        }
        self.fabric.on_time(time(self.began));
        moved += self.hand_out();
        if moved > 0 { Poll::Busy } else { Poll::Idle }
    }

    /// The worker stops.
    pub(super) fn end(&mut self) {
        self.overseer.end(&self.fabric);
    }

    /// Brings the frames of an inlet into the fabric, as far as the port has room.
    #[inline]
    fn take_in(&mut self, at: usize, now: Ns) -> usize {
        let inlet = &mut self.inlets[at];
        let spare = &self.outlets[at].tx.pools().large;
        // What is due leaves first, and makes room.
        self.fabric.on_time(now);
        let (mut taken, mut copied, mut lost) = (0, 0, 0);
        while let Some(len) = inlet.next_len() {
            let room = self.fabric.room(inlet.nic, inlet.port, len);
            // One that has no room in an empty queue never will.
            if !room && self.fabric.next_free(inlet.nic, inlet.port).is_some() {
                break;
            }
            let own = inlet.own >> inlet.at & 1 == 1;
            let frame = MbufFrame::take(inlet.rx.batch(), inlet.at, own, spare);
            inlet.at += 1;
            taken += 1;
            let frame = match frame {
                Taken::AsItWas(frame) => frame,
                Taken::Copied(frame) => {
                    copied += 1;
                    frame
                }
                Taken::NoMbuf => {
                    lost += 1;
                    continue;
                }
                Taken::Nothing => continue,
            };
            // The port is there: a lane has as many as the fabric.
            self.fabric.inject(now, inlet.nic, inlet.port, frame);
        }
        self.stats.rx_frames.add(taken);
        self.stats.copied.add(copied);
        self.stats.no_mbuf.add(lost);
        taken as usize
    }

    /// Sends on what has reached a NIC.
    #[inline]
    fn hand_out(&mut self) -> usize {
        let (mut sent, mut lost) = (0, 0);
        while let Some(delivery) = self.fabric.poll() {
            let at = delivery.nic.0 as usize * self.ports + usize::from(delivery.port);
            let Some(outlet) = self.outlets.get_mut(at) else { continue };
            if outlet.len == BURST {
                sent += outlet.flush();
            }
            lost += u64::from(!outlet.push(delivery.frame));
        }
        sent += self.outlets.iter_mut().map(Outlet::flush).sum::<usize>();
        self.stats.tx_frames.add(sent as u64);
        self.stats.ring_full.add(lost);
        sent + lost as usize
    }
}

impl Inlet {
    /// Polls the ring once all of the last burst is in the fabric; false when there is nothing to go.
    #[inline]
    fn refill(&mut self) -> bool {
        if self.at < self.rx.batch().len() {
            return true;
        }
        self.at = 0;
        let batch = self.rx.burst();
        self.own = if batch.is_empty() { 0 } else { batch.own() };
        !batch.is_empty()
    }

    /// Length of the frame that is next.
    #[inline]
    fn next_len(&mut self) -> Option<usize> {
        self.rx.batch().seg(self.at).map(|seg| seg.pkt_len as usize)
    }
}

//! The slow path of a NIC: rings with frames that are not MRC between its workers and the control thread, and who looks after neighbours there.
//!
//! A worker neither waits nor allocates: a ring has all its places from the start, and what finds it full is dropped and counted.

use super::{Command, Controller, Waker};
use crate::neighbour::{NeighbourError, Neighbours, Resolved};
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::nic::{PortId, SlowFrame, SlowPath};
use dataplane::time::SEC;
use std::net::IpAddr;
use std::sync::{Arc, mpsc};

/// Frames that wait on their way, each way, of each worker.
const SLOW_RING: usize = 64;
/// Frames of each worker that one turn of the control thread takes at most.
const A_TURN: usize = 2 * SLOW_RING;
/// Who uses the NIC's address is told of so often at most, in ns.
const CONFLICT_NS: u64 = 10 * SEC;

#[derive(Debug)]
struct Shared {
    received: ArrayQueue<SlowFrame>,
    to_send: ArrayQueue<SlowFrame>,
}

/// The worker's end of a slow path.
#[derive(Debug)]
pub struct SlowWorkerEnd {
    shared: Arc<Shared>,
    control: Option<Waker>,
}

/// The control thread's end.
#[derive(Debug)]
pub struct SlowControlEnd {
    shared: Arc<Shared>,
}

/// A slow path between a worker and the control thread. `control` is woken when there is something to hear and it sleeps.
#[must_use]
pub fn slow_link(control: Option<Waker>) -> (SlowWorkerEnd, SlowControlEnd) {
    let shared = Arc::new(Shared { received: ArrayQueue::new(SLOW_RING), to_send: ArrayQueue::new(SLOW_RING) });
    (SlowWorkerEnd { shared: Arc::clone(&shared), control }, SlowControlEnd { shared })
}

impl SlowPath for SlowWorkerEnd {
    fn take(&mut self, frame: SlowFrame) -> bool {
        let taken = self.shared.received.push(frame).is_ok();
        if let Some(control) = self.control.as_ref().filter(|_| taken) {
            control.wake();
        }
        taken
    }

    #[inline]
    fn next(&mut self) -> Option<SlowFrame> {
        // An empty ring is told by two loads.
        if self.shared.to_send.is_empty() { None } else { self.shared.to_send.pop() }
    }
}

/// Who waits for an address.
#[derive(Debug)]
struct Asker {
    token: u32,
    ip: IpAddr,
    answer: mpsc::Sender<Resolved>,
}

/// The neighbours of a NIC, and the ways to its ports.
#[derive(Debug)]
pub struct Vicinity {
    neighbours: Neighbours,
    rings: Vec<SlowControlEnd>,
    askers: Vec<Asker>,
    warned: Option<Ns>,
}

impl Vicinity {
    /// The neighbours of a NIC whose worker i is at ring i.
    #[must_use]
    pub const fn new(neighbours: Neighbours, rings: Vec<SlowControlEnd>) -> Vicinity {
        Vicinity { neighbours, rings, askers: Vec::new(), warned: None }
    }

    /// The neighbours.
    #[must_use]
    pub const fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Asks for an address: `answer` gets it, and whoever has it releases it.
    pub(super) fn resolve(
        &mut self,
        now: Ns,
        ip: IpAddr,
        known: Vec<dataplane::wire::MacAddr>,
        answer: mpsc::Sender<Resolved>,
    ) {
        let token = self.neighbours.resolve(now, ip, known);
        self.askers.push(Asker { token, ip, answer });
    }

    /// One that was answered needs the address no more.
    pub(super) fn release(&mut self, ip: IpAddr) {
        self.neighbours.release(ip);
    }

    /// QPs with this address were opened.
    pub(super) fn repeat(&mut self, ip: IpAddr) {
        self.neighbours.repeat(ip);
    }

    /// When it has something to do by itself.
    pub(super) const fn next_wake(&self) -> Option<Ns> {
        self.neighbours.next_wake()
    }

    /// Hears what came, lets time pass, and passes on what is to be sent, and who was found.
    pub(super) fn turn(&mut self, now: Ns, name: &str, controller: &mut Controller) {
        for (port, status) in (0..).map(PortId).zip(controller.ports()) {
            self.neighbours.set_port(now, port, status.in_use());
        }
        for at in 0..self.rings.len() {
            for _ in 0..A_TURN {
                let Some(frame) = self.rings[at].shared.received.pop() else { break };
                // It is counted, whatever becomes of it.
                let _ = self.neighbours.on_frame(now, frame.port, frame.bytes());
                // What it draws leaves by the worker that it came to.
                self.send(at);
            }
        }
        self.neighbours.on_time(now);
        self.send(0);
        while let Some(hop) = self.neighbours.poll_next_hop() {
            controller.pass_on(Command::NextHop(hop));
        }
        while let Some((token, resolved)) = self.neighbours.poll_resolved() {
            self.answer(token, resolved);
        }
        if let Some(mac) = self.neighbours.poll_conflict()
            && self.warned.is_none_or(|at| now.since(at) >= CONFLICT_NS)
        {
            self.warned = Some(now);
            tracing::warn!(nic = name, %mac, "somebody else uses the NIC's IP address: give one of the two another");
        }
    }

    fn send(&mut self, at: usize) {
        while let Some((port, bytes)) = self.neighbours.poll_frame() {
            let sent = SlowFrame::new(port, &bytes).zip(self.rings.get(at));
            if sent.is_none_or(|(frame, ring)| ring.shared.to_send.push(frame).is_err()) {
                self.neighbours.count_unsent();
            }
        }
    }

    fn answer(&mut self, token: u32, resolved: Resolved) {
        let Some(at) = self.askers.iter().position(|asker| asker.token == token) else { return };
        let Asker { ip, answer, .. } = self.askers.swap_remove(at);
        let found = resolved.is_ok();
        // Who has gone meanwhile needs it no more.
        if answer.send(resolved).is_err() && found {
            self.neighbours.release(ip);
        }
    }
}

/// What a NIC without neighbours says.
pub(super) fn no_neighbours(ip: IpAddr) -> Resolved {
    Err(NeighbourError::NoAddress { ip })
}

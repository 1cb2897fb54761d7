//! The slow path of a NIC: rings with frames that are not MRC, between a worker and the control thread.
//!
//! A worker neither waits nor allocates: a ring has all its places from the start, and what finds it full is dropped and counted.

use super::Waker;
use crossbeam::queue::ArrayQueue;
use dataplane::nic::{SlowFrame, SlowPath};
use std::sync::Arc;

/// Frames that wait on their way, each way, of each worker.
pub(super) const SLOW_RING: usize = 64;

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

impl SlowControlEnd {
    /// Takes the oldest frame that came.
    pub(super) fn poll(&self) -> Option<SlowFrame> {
        self.shared.received.pop()
    }

    /// Has the worker send a frame. `false` when there is no room.
    pub(super) fn send(&self, frame: SlowFrame) -> bool {
        self.shared.to_send.push(frame).is_ok()
    }
}

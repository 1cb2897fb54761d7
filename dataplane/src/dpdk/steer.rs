//! Frames on their way to the worker that owns their source.

use std::sync::Arc;

use crossbeam::queue::ArrayQueue;

use super::port::{Inner, Port};
use super::rx::Mbuf;
use crate::nic::PortId;

/// Rings between the workers of one NIC, one for each worker to receive from.
///
/// A port spreads frames over its queues as it can; a source belongs to one worker, so the worker that received a frame
/// of another's hands it on.
#[derive(Debug)]
pub struct Steering {
    rings: Vec<ArrayQueue<(PortId, Mbuf)>>,
    /// Frames in the rings must not outlive their pools: dropped after them.
    _ports: Vec<Arc<Inner>>,
}

impl Steering {
    /// Rings of `capacity` frames for `workers` workers that share `ports`.
    #[must_use]
    pub fn new<'a>(ports: impl IntoIterator<Item = &'a Port>, workers: usize, capacity: usize) -> Arc<Steering> {
        let rings = (0..workers).map(|_| ArrayQueue::new(capacity.max(1))).collect();
        Arc::new(Steering { rings, _ports: ports.into_iter().map(Port::keep).collect() })
    }

    /// How many workers share the ports.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.rings.len()
    }

    /// Hands a frame on; false when it was lost for want of room.
    #[inline]
    pub(super) fn push(&self, worker: usize, port: PortId, mbuf: Mbuf) -> bool {
        self.rings.get(worker).is_some_and(|ring| ring.push((port, mbuf)).is_ok())
    }

    #[inline]
    pub(super) fn pop(&self, worker: usize) -> Option<(PortId, Mbuf)> {
        self.rings.get(worker)?.pop()
    }
}

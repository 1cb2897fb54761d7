//! What happens to a device without being asked for.

use super::notify::{Ear, Notify};
use crossbeam::queue::SegQueue;
use dataplane::nic::{Qpn, Status};
use std::sync::Arc;

/// Something happened that no completion tells in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// A QP went into the error state. What was posted on it has completed, or completes as flushed; it can only be closed.
    QpError {
        /// Which.
        qpn: Qpn,
        /// How the request ended that it failed with; `None` where none of its own did, as when the peer was refused.
        cause: Option<Status>,
    },
}

/// The events of a device that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: SegQueue<AsyncEvent>,
    ear: Ear,
}

impl Events {
    pub(super) fn push(&self, event: AsyncEvent) {
        self.queue.push(event);
        self.ear.tell();
    }

    pub(super) fn pop(&self) -> Option<AsyncEvent> {
        self.queue.pop()
    }

    pub(super) fn hear(&self, notify: Arc<dyn Notify>) -> bool {
        self.ear.take(notify)
    }
}

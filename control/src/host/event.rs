//! What happens to a device without being asked for.

use dataplane::nic::{Qpn, Status};

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

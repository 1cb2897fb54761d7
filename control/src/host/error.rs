//! Why the host API refuses.

use dataplane::nic::{LifeError, OpenError};
use dataplane::path::profile::{EvProfileError, ProfileState};

/// Why a call of the host API did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A worker died, or the device is closed. No call will succeed any more.
    #[error("the NIC does not run any more: open a new device")]
    Gone,
    /// The ring to the worker is full.
    #[error("the ring to the worker is full, it takes {0} requests: try again")]
    RingFull(usize),
    /// As many requests as the send queue holds have not ended.
    #[error("the send queue is full, it holds {0} requests: try again when one has ended")]
    SendQueueFull(usize),
    /// As many receives as the receive queue holds have not ended.
    #[error("the receive queue is full, it holds {0} receives: try again when one has ended")]
    ReceiveQueueFull(usize),
    /// The completion queue has room for the completions that are to come already, and no more.
    #[error("the completion queue is full, it holds {0}: try again when completions were taken from it")]
    CompletionQueueFull(usize),
    /// The QP can't do that in its state.
    #[error("{what} needs a QP in {needs}, but it is in {is}")]
    NotReady {
        /// What was to be done.
        what: &'static str,
        /// The state that it needs.
        needs: &'static str,
        /// The state of the QP.
        is: &'static str,
    },
    /// Longer than a message may be.
    #[error("a message of {0} bytes is longer than 1 GiB")]
    TooLong(u32),
    /// A queue of no entries, or of more than its limit.
    #[error("a {what} holds 1 to {most} entries, not {asked}")]
    Depth {
        /// Which queue.
        what: &'static str,
        /// How many were asked for.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// A NIC has 65,536 QPs at most.
    #[error("65536 QPs are open, which is the maximum: close one")]
    TooManyQps,
    /// A NIC has 65,536 regions at most.
    #[error("65536 regions are registered, which is the maximum: drop one")]
    TooManyRegions,
    /// A part of one device was used with another.
    #[error("the {0} belongs to another device")]
    OtherDevice(&'static str),
    /// An EV profile that a QP can't be bound to.
    #[error(transparent)]
    Profile(EvProfileError),
    /// A CC profile that a QP can't be bound to.
    #[error("CC profile {id} is {state}, and a QP needs one that is ONLINE")]
    Congestion {
        /// The profile.
        id: u64,
        /// Its state.
        state: ProfileState,
    },
    /// A step of a QP that does not follow.
    #[error(transparent)]
    Life(#[from] LifeError),
    /// The engine does not open the QP.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl HostError {
    /// Whether the same call may succeed later, once something has ended or was taken. Nothing was lost.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(
            self,
            HostError::RingFull(_)
                | HostError::SendQueueFull(_)
                | HostError::ReceiveQueueFull(_)
                | HostError::CompletionQueueFull(_)
        )
    }
}

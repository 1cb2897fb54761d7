//! Messages on a send queue.

use crate::memory::{Key, LoanId};
use crate::transport::Psn;
use crate::wire::Opcode;

/// An RDMA Write to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// The application's own number, returned with the completion.
    pub wr_id: u64,
    /// Key of the local region.
    pub local_key: Key,
    /// First byte to send, as the local region names it.
    pub local_va: u64,
    /// Key of the remote region.
    pub remote_key: Key,
    /// First byte to write, as the remote region names it.
    pub remote_va: u64,
    /// Length in bytes, 0 to [`crate::transport::MESSAGE_MAX`].
    pub len: u32,
    /// Immediate data: with it the request is a Write with Immediate, which completes a posted receive at the peer.
    pub immediate: Option<u32>,
    /// A completion is wanted on success too. A failure always gives one.
    pub signaled: bool,
}

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The send queue is full; poll completions first.
    #[error("the send queue is full: it holds {0} requests")]
    QueueFull(usize),
    /// Longer than a message may be.
    #[error("a message of {0} bytes is longer than 1 GiB")]
    TooLong(u32),
    /// No such QP on this NIC.
    #[error("there is no such QP")]
    UnknownQp,
    /// The QP is not in RTS.
    #[error("the QP is not ready to send")]
    NotReady,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Acknowledged.
    Success,
    /// The QP went into the error state before.
    Flushed,
    /// The local range is not registered.
    LocalProtection,
    /// The responder found the request malformed.
    RemoteInvalidRequest,
    /// The responder refused key, range or access.
    RemoteAccess,
    /// The responder could not carry it out.
    RemoteOperation,
    /// The retry budget is spent.
    RetryExceeded,
}

impl Status {
    /// Its name in records and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Flushed => "flushed",
            Status::LocalProtection => "local_protection",
            Status::RemoteInvalidRequest => "remote_invalid_request",
            Status::RemoteAccess => "remote_access",
            Status::RemoteOperation => "remote_operation",
            Status::RetryExceeded => "retry_exceeded",
        }
    }
}

/// What ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A Write.
    Write,
    /// A Write with Immediate, at its sender.
    WriteImm,
    /// A posted receive, by a Write with Immediate of the peer.
    Receive {
        /// The immediate data; 0 where the receive did not succeed.
        immediate: u32,
    },
}

/// The end of a posted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's own number.
    pub wr_id: u64,
    /// What ended.
    pub operation: Operation,
    /// How it ended.
    pub status: Status,
    /// Bytes of the message.
    pub len: u32,
}

impl WriteRequest {
    /// What it is.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        if self.immediate.is_some() { Operation::WriteImm } else { Operation::Write }
    }

    /// The completion of this request.
    #[must_use]
    pub const fn completion(&self, status: Status) -> Completion {
        Completion { wr_id: self.wr_id, operation: self.operation(), status, len: self.len }
    }
}

/// A message that waits or is in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) request: WriteRequest,
    pub(super) first: Psn,
    pub(super) packets: u32,
    /// The number of the Write with Immediate that it is; in a plain Write the last number given.
    pub(super) rqmsn: u16,
    /// Packets sent at least once.
    pub(super) sent: u32,
    /// Packets acknowledged.
    pub(super) acknowledged: u32,
    /// What its payload is lent under, once some is.
    pub(super) loan: Option<LoanId>,
}

impl Message {
    /// All packets are acknowledged; the message may still lack its transport ACK.
    pub(super) const fn is_whole(&self) -> bool {
        self.acknowledged == self.packets
    }

    /// Which of its packets has `psn`, of those that were sent.
    #[inline]
    pub(super) const fn index(&self, psn: Psn) -> u32 {
        // Counted back from where the message is being sent: its packets may be more than PSNs can tell apart.
        let frontier = self.first.plus(self.sent as i32);
        self.sent.wrapping_sub(frontier.distance(psn) as u32)
    }

    pub(super) const fn last_psn(&self) -> Psn {
        self.first.plus(self.packets as i32 - 1)
    }

    /// Opcode of the packet at `index`.
    pub(super) const fn opcode(&self, index: u32) -> Opcode {
        match (index == 0, index + 1 == self.packets, self.request.immediate.is_some()) {
            (true, true, false) => Opcode::WriteOnly,
            (true, true, true) => Opcode::WriteOnlyImm,
            (true, false, _) => Opcode::WriteFirst,
            (false, false, _) => Opcode::WriteMiddle,
            (false, true, false) => Opcode::WriteLast,
            (false, true, true) => Opcode::WriteLastImm,
        }
    }
}

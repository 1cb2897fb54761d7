//! A packet that is to be sent.

use crate::memory::Key;
use crate::transport::Psn;
use crate::wire::{Opcode, WriteHeaders};

/// Why a packet goes out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// A gap in SACKs.
    Gap,
    /// A timeout.
    Timeout,
    /// A NACK.
    Refused,
    /// It was not lost: it asks once more for the ACK that completes its message.
    Ask,
}

/// Why a packet goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// For the first time.
    Fresh,
    /// It was lost, for this reason.
    Again(Again),
    /// To ask once more for the ACK that completes a message; it is not in flight.
    Ask,
}

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its PSN.
    pub psn: Psn,
    /// Kind of Write.
    pub opcode: Opcode,
    /// Ask for a transport ACK.
    pub ack_request: bool,
    /// Its headers, without a timestamp.
    pub headers: WriteHeaders,
    /// Key of the local region.
    pub local_key: Key,
    /// First byte of the payload, as the local region names it.
    pub local_va: u64,
    /// Bytes of payload.
    pub len: u32,
    /// Number of its message.
    pub(super) message: u32,
    pub(super) turn: Turn,
}

impl Outgoing {
    /// True for everything but a first transmission.
    #[must_use]
    pub const fn is_retransmission(&self) -> bool {
        !matches!(self.turn, Turn::Fresh)
    }

    /// Why it goes out again; `None` for a first transmission.
    #[must_use]
    pub const fn again(&self) -> Option<Again> {
        match self.turn {
            Turn::Fresh => None,
            Turn::Again(cause) => Some(cause),
            Turn::Ask => Some(Again::Ask),
        }
    }

    /// True when the packet counts in flight and its timer starts when the port accepts it.
    #[must_use]
    pub const fn is_tracked(&self) -> bool {
        !matches!(self.turn, Turn::Ask)
    }
}

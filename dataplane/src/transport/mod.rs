//! Reliable delivery: PSN arithmetic, windows, timers, requester and responder.
//!
//! Both sides are sans-IO and know no frame: the engine tells them what arrived and asks what to send.

mod bits;
mod lists;
mod numbered;
mod params;
mod psn;
mod requester;
mod responder;
mod wheel;

pub use bits::{PsnBits, low_bits};
pub use numbered::{Numbered, Ring};
pub use params::{
    MESSAGE_MAX, MPR_MAX, MSS_MAX, OutOfRange, RETRY_FOREVER, RttMode, SEND_QUEUE_MAX, TIMEOUT_CAP, TransportParams,
    WRITE_IMM_MAX,
};
pub use psn::{PSN_SPACE, Psn};
pub use requester::{
    Advertised, Again, Completion, Fault, InRow, Loss, Observer, Operation, Outgoing, PostError, Requester, Rooms, Row,
    SackReport, Status, WriteRequest, reflected_rtt,
};
pub use responder::{AROUND, Arrival, Due, Immediate, MPR_UNIT, Responder, SackOrigin, Standing};
pub use wheel::Wheel;

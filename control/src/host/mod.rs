//! The NIC in the process: a [`Device`] with its ports, workers and control thread, and the verbs that applications use it by.
//!
//! ```no_run
//! use control::host::{Device, DeviceSpec, ToInit};
//! use dataplane::memory::{Access, Buffer};
//! use dataplane::nic::PortId;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ports = vec!["net_memif0,role=server,socket=/tmp/m.sock".parse()?];
//! let device = Device::open(DeviceSpec { ports, ..DeviceSpec::default() })?;
//! let domain = device.domain();
//! let region = domain.register(&Buffer::new(1 << 20), Access { remote_write: true }, None)?;
//! let cq = device.completion_queue(256)?;
//! let qp = domain.create_qp(&cq, &cq)?;
//! qp.init(ToInit { port: PortId(0), send_depth: 128, receive_depth: 0, write_imm_limit: 64 })?;
//! // Numbers, keys and addresses go to the peer by another way; then rtr, rts, post_write, and cq.poll.
//! # let _ = region;
//! # Ok(())
//! # }
//! ```
//!
//! Threads of applications and workers share rings alone: a post is one push into the ring of the worker that owns the peer's address, and a
//! completion one push into the completion queue. What happens seldom (registering, opening, closing) waits for the worker's answer. A ring
//! or queue that is full is an error that can be tried again ([`HostError::is_full`]); nothing waits, and nothing is lost.
//!
//! Handles keep their device alive, and may be dropped in any order; workers end when the last one is gone.

mod books;
pub(crate) mod bring_up;
mod completion_queue;
mod controls;
mod device;
mod device_file;
mod error;
mod ev_events;
mod event;
mod exchange;
mod hook;
mod memory;
mod notify;
mod offer;
mod qp;
mod question;
mod reach;
mod ring;
mod seat;
mod spec;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub use completion_queue::{COMPLETIONS_MAX, CompletionQueue};
pub use controls::{ControlError, ControlLimits, EV_EVENTS_MAX};
pub use dataplane::nic::{CompletionEntry, LifeState, Patience, ToInit, ToRtr, ToRts, WriteRequest};
pub use device::Device;
pub use device_file::DeviceFile;
pub use error::HostError;
pub use ev_events::{EvEventEntry, EvEvents};
pub use event::AsyncEvent;
pub use exchange::{Exchange, ExchangeAddress, ExchangeListener, OFFER_QPS_MAX, STEP};
pub use hook::{Hook, HookMaker};
pub use memory::{MemoryRegion, ProtectionDomain};
pub use notify::Notify;
pub use offer::{Offer, QpOffer, RegionOffer};
pub use qp::QueuePair;
pub use question::{Question, QuestionError};
pub use reach::Reach;
pub use spec::{DeviceSpec, RING_MAX, WORKERS_MAX, any_seed};
pub use table::PortTable;

//! The live driver: DPDK ports, their memory, and the poll-mode loop that moves frames between them and the engine.
//!
//! DPDK starts once a process ([`Eal::init`]). Ports come next ([`Port::open`], [`Port::ring_pair`]), each hands out its queues
//! ([`Port::take_queue`]), and a worker polls them ([`Workers::spawn`]). Everything keeps what it stands on alive, so the order
//! in which these are dropped does not matter.
//!
//! This is the one room of the crate that calls C.
#![allow(unsafe_code)]

mod clock;
mod dma;
mod driver;
mod eal;
mod engine;
mod error;
mod fabric_frame;
mod fabric_lane;
mod impair;
mod lane;
mod lending;
mod log;
mod memif;
mod pool;
mod port;
mod rings;
mod rx;
mod spec;
mod stats;
mod steer;
mod tx;
mod worker;

pub use clock::Clock;
pub use dma::{Dma, DmaMap};
pub use eal::{Eal, EalOptions, Memory};
pub use error::{Error, Said};
pub use fabric_frame::MbufFrame;
pub use fabric_lane::{FabricLane, FabricLaneStats, LiveFabric, Overseer};
pub use impair::{ImpairmentError, Impairments};
pub use lane::{App, Engine, Lane, Poll};
pub use lending::Lending;
pub use port::{LinkWatch, Port, PortConfig, PortStats, Queue};
pub use rx::{Batch, Frame, Mbuf, RxQueue};
pub use spec::PortSpec;
pub use stats::{Counter, LaneStats};
pub use steer::Steering;
pub use tx::{TxPorts, TxQueue};
pub use worker::{Worker, WorkerOptions, Workers};

/// Frames in a burst: what one call to DPDK receives or sends at most.
pub const BURST: usize = 32;

//! The data path of `mrcnic`, a software NIC that speaks MRC (Multipath Reliable Connection, OCP MRC 1.0).
//!
//! The protocol core is sans-IO: it has no socket, no clock, no thread and no DPDK type inside. A driver hands it frames and the
//! time, asks what to send next, and when to come back. The same code moves bytes on DPDK ports (feature `dpdk`) and runs in virtual
//! time.

pub mod congestion;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod fabric;
pub mod memory;
pub mod nic;
pub mod path;
pub mod time;
pub mod transport;
pub mod wire;

pub use time::Ns;

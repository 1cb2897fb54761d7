//! The engine: QP table, destinations, scheduler.

mod frame;

pub use frame::{HEAD_MAX, PortId, RxFrame, TxBurst};

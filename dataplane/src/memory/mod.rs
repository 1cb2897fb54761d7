//! Memory that a remote may write: protection domains, regions, keys and placement.
//!
//! This is the one room of the protocol core with `unsafe` code, and the one place that writes a remote's bytes.
#![allow(unsafe_code)]

mod buffer;
mod extent;
mod frame;
mod loan;
mod map;
mod prefetch;
mod table;

pub use buffer::{Buffer, OutOfRange};
pub use extent::Extent;
pub use frame::RxFrame;
pub use loan::{DEVICE_KEEPS, Lent, LoanCount, LoanId, Loans};
pub use prefetch::{prefetch, prefetch_bytes};
pub use table::{
    Access, AccessError, Domain, Key, Keys, Mapped, REGIONS_MAX, Region, Scratch, Table, Target, checksum,
    checksum_extent, copy_bytes, read_bytes,
};

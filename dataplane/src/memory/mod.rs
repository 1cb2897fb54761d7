//! Memory that a remote may write: protection domains, regions, keys and placement.
//!
//! This is the one room of the protocol core with `unsafe` code, and the one place that writes a remote's bytes.
#![allow(unsafe_code)]

mod extent;

pub use extent::Extent;

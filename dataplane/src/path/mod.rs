//! Which path each packet takes: entropy values, the active set, and the rotation over it.

pub mod profile;
mod spraying;

pub use spraying::{ENTROPY_MASK_BITS_MAX, EvState, Spraying, SprayingError, SprayingParams};

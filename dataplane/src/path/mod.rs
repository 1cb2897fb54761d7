//! Which path each packet takes: entropy values, the active set, and the rotation over it.

mod draw;
mod params;
pub mod profile;
mod spraying;

pub use draw::EvSet;
pub use params::{ENTROPY_MASK_BITS_MAX, SprayingError, SprayingParams};
pub use spraying::{EvCensus, EvReport, EvState, NoPath, Pick, PortMask, Spraying};

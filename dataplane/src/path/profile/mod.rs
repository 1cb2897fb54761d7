//! Which entropy values fields allow, and how each is laid out in a packet (the MRC paper, II-A; OCP's controller API).
//!
//! Nothing here is on the path of a packet.

mod expansion;
mod field;
mod format;
mod permutation;

pub use expansion::{Expanded, Expansion, ExpansionError, Span};
pub use field::{EvField, FIELD_BITS_MAX, FieldError};
pub use format::{EvFormat, FormatError, LOCATOR_BITS, USID_BITS, USIDS_MAX};

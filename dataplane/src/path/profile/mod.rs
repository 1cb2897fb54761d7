//! EV format profiles and EV profiles: which entropy values the NIC may use, on which port, and how each is laid out in a packet
//! (the MRC paper, II-A; OCP's controller API).
//!
//! A format profile says where the bits of an EV are. An EV profile says which EVs there are: the NIC's own (AUTO), a list
//! (EXPLICIT), or all that fields allow, in random but repeatable order (GENERATED). Both go INIT -> OFFLINE -> ONLINE and back; QPs use
//! profiles that are ONLINE. [`EvProfiles`] owns both.
//!
//! Nothing here is on the path of a packet.

mod error;
mod expansion;
mod explicit;
mod field;
mod format;
mod layout;
mod permutation;
mod ports;
mod record;
mod table;
#[cfg(test)]
mod tests;

pub use error::{ArgumentError, ErrorKind, EvProfileError, ProfileName, UnfitEv, Users};
pub use expansion::{Expanded, Expansion, ExpansionError, Span};
pub use explicit::Copies;
pub use field::{EvField, FIELD_BITS_MAX, FieldError};
pub use format::{EvFormat, FormatError, LOCATOR_BITS, USID_BITS, USIDS_MAX};
pub use layout::{EV_BYTES, EvBits, EvLayout, ExtraBits, Placed};
pub use ports::{PLANES_MAX, PortSet};
pub use record::{Ev, EvMode, EvPool, EvProfile, EvProfileConfig, PoolKind, ProfileState};
pub use table::{EV_FORMATS_MAX, EV_PROFILES_MAX, EVS_MAX, EVS_PER_PROFILE_MAX, EvProfiles};

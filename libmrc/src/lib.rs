//! The MRC API for C (`mrc.h` of the Open Compute Project) over the software MRC NIC, with those verbs of libibverbs that a program needs to find
//! the NIC and to register memory. `docs/libmrc.md` says what there is.
//!
//! Handles are boxes that C holds by their addresses: what a create function hands out lives until its destroy function is called, and, as with
//! libibverbs, no other thread may use a handle while it is destroyed. Arguments that a NIC can tell to be wrong are refused with an error
//! code; no panic leaves a function.
#![allow(unsafe_code)]
#![allow(non_camel_case_types)]

pub mod abi;
mod call;
mod caps;
pub mod channel;
pub mod context;
pub mod cq;
pub mod ctl;
pub mod ctl_abi;
pub mod ctl_cc;
pub mod ctl_endpoint;
pub mod ctl_ev;
pub mod ctl_event;
pub mod ctl_format;
pub mod device;
pub mod event;
mod fd;
pub mod hint;
pub mod memory;
mod node;
pub mod port;
pub mod post;
pub mod qp;
mod qp_state;
pub mod text;
#[allow(
    missing_docs,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod verbs {
    //! Types of libibverbs, as its header has them.
    include!(concat!(env!("OUT_DIR"), "/verbs.rs"));
}

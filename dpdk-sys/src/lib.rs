//! Bindings to DPDK: the functions that `dataplane::dpdk` calls, and a C shim for the inline ones.
//!
//! Nothing here decides anything. Every function is as safe as C: see DPDK's own documentation.
#![allow(unsafe_code)]
#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, unreachable_pub)]
#![allow(unsafe_op_in_unsafe_fn)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

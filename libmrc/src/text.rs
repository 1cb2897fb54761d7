//! Names of verbs' values.

use crate::verbs::{ibv_node_type, ibv_port_state, ibv_wc_status};
use std::ffi::{CStr, c_char};

/// In the order of `enum ibv_wc_status`.
const STATUSES: [&CStr; 24] = [
    c"success",
    c"local length is wrong",
    c"local QP failed",
    c"local EE context failed",
    c"local memory is not registered for it",
    c"flushed: the QP is in error",
    c"memory window can't be bound",
    c"unexpected response",
    c"local access refused",
    c"remote found the request invalid",
    c"remote refused access",
    c"remote could not carry it out",
    c"retries exceeded",
    c"retries for a receiver that is not ready exceeded",
    c"local RD domain is wrong",
    c"remote found the RD request invalid",
    c"remote aborted it",
    c"EE context number is invalid",
    c"EE context is in a wrong state",
    c"fatal error",
    c"response came too late",
    c"general error",
    c"tag matching failed",
    c"tag matching left the rendezvous to software",
];
/// In the order of `enum ibv_node_type`, from 0.
const NODES: [&CStr; 8] =
    [c"unknown", c"channel adapter", c"switch", c"router", c"RDMA NIC", c"usNIC", c"usNIC over UDP", c"unspecified"];
/// In the order of `enum ibv_port_state`.
const STATES: [&CStr; 6] =
    [c"no change", c"down", c"initialising", c"armed", c"active", c"active, with errors for now"];

fn name(names: &[&'static CStr], at: Option<usize>, unknown: &'static CStr) -> *const c_char {
    at.and_then(|at| names.get(at).copied()).unwrap_or(unknown).as_ptr()
}

/// What a completion's status means.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: ibv_wc_status) -> *const c_char {
    name(&STATUSES, usize::try_from(status).ok(), c"unknown")
}

/// What a node type is called.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node_type: ibv_node_type) -> *const c_char {
    name(&NODES, usize::try_from(node_type).ok(), c"unknown")
}

/// What a port's state is called.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(port_state: ibv_port_state) -> *const c_char {
    name(&STATES, usize::try_from(port_state).ok(), c"invalid state")
}

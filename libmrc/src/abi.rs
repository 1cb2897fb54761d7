//! The types and numbers of `mrc.h`, version 1.0.1, as C has them.

use crate::cq::mrc_cq;
use crate::hint::mrc_qp_hint;
use crate::qp::mrc_qp;
use crate::verbs::{ibv_event_type, ibv_pd, ibv_qp_cap};
use std::ffi::{c_int, c_void};

/// A version, as `MRC_API_VER` makes it.
#[must_use]
pub const fn version(major: u32, minor: u32, subminor: u32) -> u32 {
    major << 24 | minor << 16 | subminor
}

/// The API that is implemented.
pub const API_VERSION: u32 = version(1, 0, 1);
/// The oldest that programs may use.
pub const API_OLDEST: u32 = version(0, 0, 0);
/// What programs say that do not care.
pub const API_LATEST: u32 = version(0xFF, 0xFF, 0xFFFF);
/// The vendor's API: there is none beyond the common one.
pub const VENDOR_VERSION: u32 = version(1, 0, 0);
/// `MRC_PROTOCOL_VERSION_1`.
pub const PROTOCOL_VERSION_1: u32 = 1;
/// Bytes of a vendor's own settings.
pub const VENDOR_CFG_SIZE: usize = 128;

/// `MRC_DEVICE_CAP_TRIM_NACK`: trimmed packets draw NACKs.
pub const DEVICE_CAP_TRIM_NACK: u32 = 1 << 0;
/// `MRC_DEVICE_CAP_DYNAMIC_MPR`: SACKs carry the responder's window.
pub const DEVICE_CAP_DYNAMIC_MPR: u32 = 1 << 1;
/// `MRC_DEVICE_CAP_SVC_TIME`: SACKs carry the responder's service time.
pub const DEVICE_CAP_SVC_TIME: u32 = 1 << 2;

/// `MRC_QP_HINT_NUM_QPS_PER_PEER`.
pub const HINT_NUM_QPS_PER_PEER: c_int = 1 << 0;
/// `MRC_QP_HINT_NUM_SEND_PEERS`.
pub const HINT_NUM_SEND_PEERS: c_int = 1 << 1;
/// `MRC_QP_HINT_NUM_REMOTE_RECV_PEERS`.
pub const HINT_NUM_REMOTE_RECV_PEERS: c_int = 1 << 2;
/// `MRC_QP_HINT_VENDOR_CFG`.
pub const HINT_VENDOR_CFG: c_int = 1 << 31;

/// `MRC_QP_MAX_WIMM`.
pub const QP_MAX_WIMM: c_int = 1 << 0;
/// `MRC_QP_MAX_WIMM_DEST`.
pub const QP_MAX_WIMM_DEST: c_int = 1 << 1;
/// `MRC_QP_MPR`.
pub const QP_MPR: c_int = 1 << 2;
/// `MRC_QP_MPR_DEST`.
pub const QP_MPR_DEST: c_int = 1 << 3;
/// `MRC_QP_TIMEOUT`.
pub const QP_TIMEOUT: c_int = 1 << 4;
/// `MRC_QP_EV_PROFILE_ID`.
pub const QP_EV_PROFILE_ID: c_int = 1 << 5;
/// `MRC_QP_CC_PROFILE_ID`.
pub const QP_CC_PROFILE_ID: c_int = 1 << 6;
/// `MRC_QP_HINT`.
pub const QP_HINT: c_int = 1 << 7;
/// `MRC_QP_RETRY_CNT`.
pub const QP_RETRY_CNT: c_int = 1 << 8;
/// `MRC_QP_CAP`.
pub const QP_CAP: c_int = 1 << 9;
/// `MRC_QP_VENDOR_CFG`.
pub const QP_VENDOR_CFG: c_int = 1 << 31;

/// `MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED`.
pub const QP_CAP_TRIM_NACK_DEST_UNSUPPORTED: u32 = 1 << 0;
/// `MRC_QP_CAP_DYNAMIC_MPR`.
pub const QP_CAP_DYNAMIC_MPR: u32 = 1 << 1;
/// `MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED`.
pub const QP_CAP_SVC_TIME_DEST_UNSUPPORTED: u32 = 1 << 2;

/// What the NIC can do with Writes with Immediate.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_wimm_attr {
    /// Most in flight as requester.
    pub max_wimm: u16,
    /// Most in flight as responder.
    pub max_wimm_dest: u16,
}

/// Windows, in units of 128 PSNs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_mpr_attr {
    /// The largest.
    pub max_mpr: u8,
    /// Steps.
    pub mpr_resolution: u8,
}

/// QPs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_hint_limits {
    /// Hints at a time.
    pub max_qp_hint: u32,
}

/// What the NIC can do.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_device_attr {
    /// Versions of the protocol, a bit each.
    pub mrc_protocol_version: u32,
    /// Writes with Immediate.
    pub wimm_attr: mrc_wimm_attr,
    /// Windows.
    pub mpr_attr: mrc_mpr_attr,
    /// QPs.
    pub qp_attr: mrc_hint_limits,
    /// `DEVICE_CAP_..`.
    pub cap: u32,
}

/// What a program was built with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_context_attr {
    /// Version of the API; 0 for any.
    pub mrc_api_version_used: u32,
    /// Version of the vendor's API; 0 for any.
    pub mrc_vendor_api_version_used: u32,
}

/// What a program expects of its QPs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_qp_hint_attr {
    /// QPs that send to a peer at a time.
    pub num_qps_per_peer: c_int,
    /// Peers that are sent to at a time.
    pub num_send_peers: c_int,
    /// QPs of others that send to the same peer.
    pub num_remote_recv_peers: c_int,
    /// A vendor's own.
    pub vendor_cfg: [u8; VENDOR_CFG_SIZE],
}

impl Default for mrc_qp_hint_attr {
    fn default() -> Self {
        mrc_qp_hint_attr {
            num_qps_per_peer: 0,
            num_send_peers: 0,
            num_remote_recv_peers: 0,
            vendor_cfg: [0; VENDOR_CFG_SIZE],
        }
    }
}

/// What a hint is created with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_qp_hint_init_attr {
    /// The hint.
    pub attr: mrc_qp_hint_attr,
}

/// What a QP is created with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_qp_init_attr {
    /// The program's own.
    pub qp_context: *mut c_void,
    /// Where its requests complete.
    pub send_cq: *mut mrc_cq,
    /// Where its receives complete.
    pub recv_cq: *mut mrc_cq,
    /// Its queues.
    pub cap: ibv_qp_cap,
    /// Whether all its requests complete with a completion.
    pub sq_sig_all: c_int,
    /// Its protection domain.
    pub pd: *mut ibv_pd,
    /// What it is to send.
    pub send_ops_flags: u64,
    /// Version of the protocol; 0 for any.
    pub protocol_version: u32,
}

/// Windows, in units of 128 PSNs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_qp_mpr {
    /// The peer's, that it sends into.
    pub mpr: u8,
    /// Its own, that the peer sends into.
    pub mpr_dest: u8,
}

/// Writes with Immediate in flight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_qp_wimm {
    /// That it sends.
    pub max_wimm: u16,
    /// That it takes.
    pub max_wimm_dest: u16,
}

/// Profiles.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_qp_profile {
    /// Of its entropy values.
    pub ev_profile_id: u64,
    /// Of its congestion control.
    pub cc_profile_id: u64,
}

/// How often it tries.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_qp_retry {
    /// After waits of one length, up to 7.
    pub linear_cnt: u8,
    /// After waits that double, up to 25, which is for ever.
    pub exp_cnt: u8,
}

/// What a QP may be told, and asked.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_qp_attr {
    /// Windows.
    pub mpr: mrc_qp_mpr,
    /// Writes with Immediate.
    pub wimm: mrc_qp_wimm,
    /// It waits 1.024 us times two to the power of this for an acknowledgement, up to 24.
    pub timeout: u8,
    /// Profiles.
    pub profile: mrc_qp_profile,
    /// How often it tries.
    pub retry: mrc_qp_retry,
    /// Its hint, or NULL.
    pub qp_hint: *mut mrc_qp_hint,
    /// `QP_CAP_..`.
    pub cap: u32,
    /// A vendor's own.
    pub vendor_cfg: [u8; VENDOR_CFG_SIZE],
}

impl Default for mrc_qp_attr {
    fn default() -> Self {
        mrc_qp_attr {
            mpr: mrc_qp_mpr::default(),
            wimm: mrc_qp_wimm::default(),
            timeout: 0,
            profile: mrc_qp_profile::default(),
            retry: mrc_qp_retry::default(),
            qp_hint: std::ptr::null_mut(),
            cap: 0,
            vendor_cfg: [0; VENDOR_CFG_SIZE],
        }
    }
}

/// What an event is about.
#[repr(C)]
#[derive(Clone, Copy)]
pub union mrc_async_element {
    /// A completion queue.
    pub cq: *mut mrc_cq,
    /// A QP.
    pub qp: *mut mrc_qp,
    /// A port.
    pub port_num: c_int,
}

/// An event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mrc_async_event {
    /// What it is about.
    pub element: mrc_async_element,
    /// What happened.
    pub event_type: ibv_event_type,
}

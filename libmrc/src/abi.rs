//! The types and numbers of `mrc.h`, version 1.0.1, as C has them.

use crate::cq::mrc_cq;
use crate::hint::mrc_qp_hint;
use crate::qp::mrc_qp;
use crate::verbs::{ibv_event_type, ibv_pd, ibv_qp_cap};
use std::ffi::{c_char, c_int, c_void};

/// The API that is implemented.
pub const MRC_API_CURRENT_VERSION: u32 = 0x0100_0001;
/// The oldest that programs may use.
pub const MRC_API_LAST_SUPPORTED_VERSION: u32 = 0;
/// What programs say that do not care.
pub const MRC_API_VER_LATEST: u32 = 0xFFFF_FFFF;
/// The vendor's API: there is none beyond the common one.
pub const MRC_VENDOR_API_CURRENT_VERSION: u32 = 0x0100_0000;
/// The API for controllers that is implemented.
pub const MRC_CTL_API_CURRENT_VERSION: u32 = 0x0100_0001;
/// `port_admin_state` counts.
pub const MRC_CTL_PORT_ADMIN_STATE: c_int = 1 << 0;
/// The version of the protocol.
pub const MRC_PROTOCOL_VERSION_1: u32 = 1;
/// Bytes of a vendor's own settings.
pub const MRC_MAX_VENDOR_CFG_SIZE: usize = 128;

/// Trimmed packets draw NACKs.
pub const MRC_DEVICE_CAP_TRIM_NACK: u32 = 1 << 0;
/// SACKs carry the responder's window.
pub const MRC_DEVICE_CAP_DYNAMIC_MPR: u32 = 1 << 1;
/// SACKs carry the responder's service time.
pub const MRC_DEVICE_CAP_SVC_TIME: u32 = 1 << 2;

/// `num_qps_per_peer` counts.
pub const MRC_QP_HINT_NUM_QPS_PER_PEER: c_int = 1 << 0;
/// `num_send_peers` counts.
pub const MRC_QP_HINT_NUM_SEND_PEERS: c_int = 1 << 1;
/// `num_remote_recv_peers` counts.
pub const MRC_QP_HINT_NUM_REMOTE_RECV_PEERS: c_int = 1 << 2;
/// `vendor_cfg` of a hint counts.
pub const MRC_QP_HINT_VENDOR_CFG: c_int = 1 << 31;

/// `wimm.max_wimm` counts.
pub const MRC_QP_MAX_WIMM: c_int = 1 << 0;
/// `wimm.max_wimm_dest` counts.
pub const MRC_QP_MAX_WIMM_DEST: c_int = 1 << 1;
/// `mpr.mpr` counts.
pub const MRC_QP_MPR: c_int = 1 << 2;
/// `mpr.mpr_dest` counts.
pub const MRC_QP_MPR_DEST: c_int = 1 << 3;
/// `timeout` counts.
pub const MRC_QP_TIMEOUT: c_int = 1 << 4;
/// `profile.ev_profile_id` counts.
pub const MRC_QP_EV_PROFILE_ID: c_int = 1 << 5;
/// `profile.cc_profile_id` counts.
pub const MRC_QP_CC_PROFILE_ID: c_int = 1 << 6;
/// `qp_hint` counts.
pub const MRC_QP_HINT: c_int = 1 << 7;
/// `retry` counts.
pub const MRC_QP_RETRY_CNT: c_int = 1 << 8;
/// `cap` counts.
pub const MRC_QP_CAP: c_int = 1 << 9;
/// `vendor_cfg` of a QP counts.
pub const MRC_QP_VENDOR_CFG: c_int = 1 << 31;

/// The peer answers trimmed packets with no NACK.
pub const MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED: u32 = 1 << 0;
/// Dynamic MPR, in both directions.
pub const MRC_QP_CAP_DYNAMIC_MPR: u32 = 1 << 1;
/// The peer reports no service time.
pub const MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED: u32 = 1 << 2;

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
    pub vendor_cfg: [u8; MRC_MAX_VENDOR_CFG_SIZE],
}

impl Default for mrc_qp_hint_attr {
    fn default() -> Self {
        mrc_qp_hint_attr {
            num_qps_per_peer: 0,
            num_send_peers: 0,
            num_remote_recv_peers: 0,
            vendor_cfg: [0; MRC_MAX_VENDOR_CFG_SIZE],
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
    pub vendor_cfg: [u8; MRC_MAX_VENDOR_CFG_SIZE],
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
            vendor_cfg: [0; MRC_MAX_VENDOR_CFG_SIZE],
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

/// What a controller can do with entropy values.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_ctl_ev_limits {
    /// Format profiles at most.
    pub ev_max_fmt_profiles: u32,
    /// Profiles at most.
    pub ev_max_profiles: u32,
    /// Values of all profiles at most.
    pub ev_max_count: u32,
    /// How many of them are free.
    pub ev_free_count: u32,
    /// Values of a profile at most.
    pub ev_max_count_profile: u32,
    /// Lists of values have a multiple of this.
    pub ev_count_align: u32,
    /// Bits of a value at most.
    pub ev_max_width: u32,
    /// Modes of formats, a bit each.
    pub ev_fmt_mode_mask: u32,
    /// Modes of profiles, a bit each.
    pub ev_mode_mask: u32,
    /// Entries of a batch at most; 0 for any number.
    pub ev_op_max_entries: u32,
}

/// What a controller can do with congestion control.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_cc_limits {
    /// Profiles at most.
    pub cc_max_profiles: u32,
    /// Names of algorithms, and a NULL; they are not to be freed.
    pub algorithms: *mut *const c_char,
}

/// What a controller can do with the NIC.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_device_attr {
    /// Versions of the API, a bit each.
    pub mrc_ctl_protocol_version: u32,
    /// Entropy values.
    pub ev: mrc_ctl_ev_limits,
    /// Congestion control.
    pub cc: mrc_ctl_cc_limits,
    /// Ports: bit N for port N, from 1.
    pub phy_port_mask: u32,
    /// What else there is, a bit each.
    pub opt_attr: u32,
}

/// A port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_ctl_port_attr {
    /// 1 for up, 0 for down.
    pub port_admin_state: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// What a compiler says of the Open Compute Project's own headers, on x86-64.
    #[test]
    fn layouts_are_those_of_the_published_headers() {
        let measured = [
            (size_of::<mrc_device_attr>(), 20),
            (offset_of!(mrc_device_attr, wimm_attr), 4),
            (offset_of!(mrc_device_attr, mpr_attr), 8),
            (offset_of!(mrc_device_attr, qp_attr), 12),
            (offset_of!(mrc_device_attr, cap), 16),
            (size_of::<mrc_context_attr>(), 8),
            (size_of::<mrc_qp_hint_attr>(), 140),
            (offset_of!(mrc_qp_hint_attr, vendor_cfg), 12),
            (size_of::<mrc_qp_hint_init_attr>(), 140),
            (size_of::<mrc_qp_init_attr>(), 72),
            (offset_of!(mrc_qp_init_attr, cap), 24),
            (offset_of!(mrc_qp_init_attr, sq_sig_all), 44),
            (offset_of!(mrc_qp_init_attr, pd), 48),
            (offset_of!(mrc_qp_init_attr, send_ops_flags), 56),
            (offset_of!(mrc_qp_init_attr, protocol_version), 64),
            (size_of::<mrc_qp_attr>(), 176),
            (offset_of!(mrc_qp_attr, wimm), 2),
            (offset_of!(mrc_qp_attr, timeout), 6),
            (offset_of!(mrc_qp_attr, profile), 8),
            (offset_of!(mrc_qp_attr, retry), 24),
            (offset_of!(mrc_qp_attr, qp_hint), 32),
            (offset_of!(mrc_qp_attr, cap), 40),
            (offset_of!(mrc_qp_attr, vendor_cfg), 44),
            (size_of::<mrc_async_event>(), 16),
            (offset_of!(mrc_async_event, event_type), 8),
            (size_of::<mrc_ctl_device_attr>(), 72),
            (offset_of!(mrc_ctl_device_attr, ev), 4),
            (offset_of!(mrc_ctl_device_attr, cc), 48),
            (offset_of!(mrc_ctl_device_attr, phy_port_mask), 64),
            (offset_of!(mrc_ctl_device_attr, opt_attr), 68),
            (size_of::<mrc_ctl_port_attr>(), 4),
        ];
        for (n, (here, there)) in measured.into_iter().enumerate() {
            assert_eq!(here, there, "number {n} of the list");
        }
    }
}

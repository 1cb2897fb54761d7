//! The types and numbers of `mrc_ctl.h`, version 1.0.1, beside those of the device and of ports, as C has them.

use crate::verbs::ibv_gid;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// A profile's states: initialized,
pub const MRC_CTL_PROFILE_INIT: u32 = 0;
/// configured,
pub const MRC_CTL_PROFILE_OFFLINE: u32 = 1;
/// and usable.
pub const MRC_CTL_PROFILE_ONLINE: u32 = 2;

/// EV profiles may be changed ONLINE.
pub const MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE: u32 = 1 << 0;
/// CC profiles may be changed ONLINE.
pub const MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE: u32 = 1 << 1;
/// There are EV events.
pub const MRC_CTL_OPT_CAP_EV_EVENT: u32 = 1 << 2;
/// Explicit EVs are a range.
pub const MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE: u32 = 1 << 3;
/// Drop counts are counts.
pub const MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT: u32 = 1 << 4;
/// There are EV probes.
pub const MRC_CTL_OPT_CAP_EP_OP_EV_PROBE: u32 = 1 << 5;

/// EVs in flow label and UDP source port.
pub const MRC_CTL_EV_FMT_MODE_STEV: u32 = 1 << 0;
/// EVs in an outer IPv6 header.
pub const MRC_CTL_EV_FMT_MODE_SRV6: u32 = 1 << 1;
/// EVs in the UDP source port.
pub const MRC_CTL_EV_FMT_MODE_UDP: u32 = 1 << 2;

/// Gives a format its fields.
pub const MRC_CTL_EV_FMT_OP_MODIFY_FIELDS: u32 = 0;
/// Asks for a format's fields.
pub const MRC_CTL_EV_FMT_OP_QUERY_FIELDS: u32 = 1;

/// `profile_state` of a format counts.
pub const MRC_CTL_EV_FMT_PROFILE_STATE: c_int = 1 << 0;
/// `cur_profile_state` of a format counts.
pub const MRC_CTL_EV_FMT_PROFILE_CUR_STATE: c_int = 1 << 1;
/// `ev_fmt_mode` counts.
pub const MRC_CTL_EV_FMT_PROFILE_MODE: c_int = 1 << 2;
/// `ev_fmt_op` counts.
pub const MRC_CTL_EV_FMT_PROFILE_OP: c_int = 1 << 3;
/// `vendor_cfg` of a format counts.
pub const MRC_CTL_EV_FMT_VENDOR_CFG: c_int = 1 << 31;

/// Bytes of a vendor's own settings.
pub const MRC_CTL_MAX_VENDOR_CFG_SIZE: usize = 128;
/// Bytes of an EV.
pub const MRC_CTL_EV_MAX_BYTES: usize = 32;

/// In use.
pub const MRC_CTL_EV_GOOD: u32 = 1 << 0;
/// Out of use until a probe is answered.
pub const MRC_CTL_EV_ASSUMED_BAD: u32 = 1 << 1;
/// Out of use until a controller lets it in.
pub const MRC_CTL_EV_DENIED: u32 = 1 << 2;
/// None of these: a place without an EV.
pub const MRC_CTL_EV_UNKNOWN: u32 = 0x8000_0000;

/// The NIC draws EVs.
pub const MRC_CTL_EV_MODE_AUTO: u32 = 1 << 0;
/// A list of EVs.
pub const MRC_CTL_EV_MODE_EXP: u32 = 1 << 1;
/// EVs drawn from fields.
pub const MRC_CTL_EV_MODE_GEN: u32 = 1 << 2;

/// Puts EVs into the places of others.
pub const MRC_CTL_EV_OP_REPLACE_EV: u32 = 0;
/// Changes states of EVs.
pub const MRC_CTL_EV_OP_MODIFY_EV_STATE: u32 = 1;
/// Asks for states of EVs.
pub const MRC_CTL_EV_OP_QUERY_EV_STATE: u32 = 2;
/// Asks for all EVs.
pub const MRC_CTL_EV_OP_QUERY_EV_ARRAY: u32 = 3;
/// Every place that has the EV.
pub const MRC_CTL_EV_OP_F_ALL_COPIES: u32 = 1 << 0;

/// Gives an EV profile its fields.
pub const MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS: u32 = 0;
/// Asks for an EV profile's fields.
pub const MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS: u32 = 1;

/// `profile_state` of an EV profile counts.
pub const MRC_CTL_EV_PROFILE_STATE: c_int = 1 << 0;
/// `cur_profile_state` of an EV profile counts.
pub const MRC_CTL_EV_PROFILE_CUR_STATE: c_int = 1 << 1;
/// `ev_mode` counts.
pub const MRC_CTL_EV_PROFILE_MODE: c_int = 1 << 2;
/// `ev_fmt_profile_id` counts.
pub const MRC_CTL_EV_PROFILE_FMT_ID: c_int = 1 << 3;
/// `ev_count` counts.
pub const MRC_CTL_EV_PROFILE_COUNT: c_int = 1 << 4;
/// `ev_min_active` counts.
pub const MRC_CTL_EV_PROFILE_MIN_ACTIVE: c_int = 1 << 5;
/// `ev_event_mask` counts.
pub const MRC_CTL_EV_PROFILE_EVENT_MASK: c_int = 1 << 6;
/// `ev_op` counts.
pub const MRC_CTL_EV_PROFILE_EV_OP: c_int = 1 << 7;
/// `ev_fields_op` counts.
pub const MRC_CTL_EV_PROFILE_EV_FIELDS_OP: c_int = 1 << 8;
/// `vendor_cfg` of an EV profile counts.
pub const MRC_CTL_EV_PROFILE_VENDOR_CFG: c_int = 1 << 31;

/// `profile_state` of a CC profile counts.
pub const MRC_CTL_CC_PROFILE_STATE: c_int = 1 << 0;
/// `cur_profile_state` of a CC profile counts.
pub const MRC_CTL_CC_PROFILE_CUR_STATE: c_int = 1 << 1;
/// `algorithm` counts.
pub const MRC_CTL_CC_PROFILE_ALGORITHM: c_int = 1 << 2;
/// `cc_config` counts.
pub const MRC_CTL_CC_PROFILE_CONFIG: c_int = 1 << 3;
/// `vendor_cfg` of a CC profile counts.
pub const MRC_CTL_CC_PROFILE_VENDOR_CFG: c_int = 1 << 31;

/// Asks whether a path is alive.
pub const MRC_CTL_EP_OP_EV_PROBE: u32 = 0;
/// Tells which ports are up.
pub const MRC_CTL_EP_OP_PORT_STATUS_UPDATE: u32 = 1;

/// A field of a format.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_ctl_ev_fmt_field {
    /// Its bits.
    pub width: u8,
}

/// What is done with a format's fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_ev_fmt_op {
    /// `MRC_CTL_EV_FMT_OP_..`.
    pub op: u32,
    /// The fields.
    pub fmt_fields: *mut mrc_ctl_ev_fmt_field,
    /// How many there are, or there is room for; how many there should be.
    pub fmt_field_count: c_int,
}

/// An EV format profile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_ev_fmt_profile_attr {
    /// The state that it is to go to; of a query, that it is in.
    pub profile_state: u32,
    /// The state that it is in.
    pub cur_profile_state: u32,
    /// `MRC_CTL_EV_FMT_MODE_..`.
    pub ev_fmt_mode: u32,
    /// Its fields.
    pub ev_fmt_op: mrc_ctl_ev_fmt_op,
    /// A vendor's own.
    pub vendor_cfg: [u8; MRC_CTL_MAX_VENDOR_CFG_SIZE],
}

/// An EV, and its port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct mrc_ctl_ev {
    /// The bits that fields take, the most significant one of the first byte first.
    pub val: [u8; MRC_CTL_EV_MAX_BYTES],
    /// The port, from 1.
    pub port: u8,
}

/// A field of an EV profile.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_ctl_ev_field {
    /// Its bits.
    pub width: u32,
    /// Its value where no bit of the EV goes.
    pub init_val: u32,
    /// The smallest number that is generated.
    pub min_val: u32,
    /// The largest.
    pub max_val: u32,
    /// Where bits of the EV go.
    pub mask: u32,
}

/// An EV of an operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_ev_op_entry {
    /// The EV.
    pub ev: mrc_ctl_ev,
    /// What comes into its place.
    pub ev_new: mrc_ctl_ev,
    /// `MRC_CTL_EV_GOOD` and so on.
    pub state: u32,
    /// `MRC_CTL_EV_OP_F_..`.
    pub flags: u32,
}

/// What is done with EVs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_ev_entries_op {
    /// `MRC_CTL_EV_OP_..`.
    pub op: u32,
    /// The EVs.
    pub entries: *mut mrc_ctl_ev_op_entry,
    /// How many there are, or there is room for; how many there should be.
    pub entry_count: c_int,
}

/// What is done with fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_ev_fields_op {
    /// `MRC_CTL_EV_FIELDS_OP_..`.
    pub op: u32,
    /// The fields.
    pub fields: *mut mrc_ctl_ev_field,
    /// How many there are, or there is room for; how many there should be.
    pub field_count: c_int,
}

/// An EV profile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_ev_profile_attr {
    /// The state that it is to go to; of a query, that it is in.
    pub profile_state: u32,
    /// The state that it is in.
    pub cur_profile_state: u32,
    /// `MRC_CTL_EV_MODE_..`.
    pub ev_mode: u32,
    /// Its format.
    pub ev_fmt_profile_id: u64,
    /// How many EVs it has.
    pub ev_count: u32,
    /// EVs that stay in use.
    pub ev_min_active: u32,
    /// States whose beginning is an event.
    pub ev_event_mask: c_int,
    /// Its EVs.
    pub ev_op: mrc_ctl_ev_entries_op,
    /// Its fields.
    pub ev_fields_op: mrc_ctl_ev_fields_op,
    /// A vendor's own.
    pub vendor_cfg: [u8; MRC_CTL_MAX_VENDOR_CFG_SIZE],
}

/// A CC profile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_cc_profile_attr {
    /// The state that it is to go to; of a query, that it is in.
    pub profile_state: u32,
    /// The state that it is in.
    pub cur_profile_state: u32,
    /// The name of its algorithm, or NULL for none.
    pub algorithm: *const c_char,
    /// The algorithm's settings.
    pub cc_config: *const c_void,
    /// A vendor's own.
    pub vendor_cfg: [u8; MRC_CTL_MAX_VENDOR_CFG_SIZE],
}

/// NSCC's settings.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct mrc_ctl_cc_nscc_cfg {
    /// Quick adapt never acts.
    pub disable_qa: u8,
    /// Bytes.
    pub adjust_bytes_threshold: u32,
    /// Nanoseconds.
    pub adjust_period_threshold: u32,
    /// Nanoseconds.
    pub base_rtt: u32,
    /// Full packets each period.
    pub eta: f32,
    /// Scales fair increase.
    pub fi: f32,
    /// Scales fast increase.
    pub fi_scale: f32,
    /// What a decrease takes of the excess.
    pub gamma: f32,
    /// What a decrease takes of the window at most.
    pub max_md_jump: f32,
    /// Bytes.
    pub max_cwnd: u32,
    /// A power of two.
    pub qa_gate: u8,
    /// Nanoseconds.
    pub qa_threshold: u32,
    /// Nanoseconds.
    pub target_delay: u32,
}

/// An EV changed its state.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_ev_event {
    /// Its profile.
    pub profile_id: u64,
    /// The EV.
    pub ev: mrc_ctl_ev,
    /// Events that were dropped before this one.
    pub drop_count: u32,
    /// The state; since 1.0.1.
    pub state: u32,
}

/// A port status update.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_ctl_port_status {
    /// Ports that are up: bit N for port N, from 1.
    pub port_status: u32,
}

/// What an endpoint operation needs more.
#[repr(C)]
#[derive(Clone, Copy)]
pub union mrc_ctl_ep_op {
    /// Of a port status update.
    pub port_status_update: mrc_ctl_port_status,
}

/// An endpoint operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mrc_ctl_ep_req {
    /// Its number, which the answer has too.
    pub req_id: u16,
    /// The NIC's address.
    pub sgid: ibv_gid,
    /// Whom it goes to.
    pub dgid: ibv_gid,
    /// Where its EV is.
    pub ev_fmt_mode: u32,
    /// Its EV, as it is in the packet, and its port.
    pub req_ev: mrc_ctl_ev,
    /// What it needs more.
    pub op: mrc_ctl_ep_op,
}

/// An answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_ctl_ep_rsp {
    /// The number of what it answers.
    pub req_id: u16,
    /// The port that it came in by, from 1.
    pub port: u8,
    /// Round-trip time in ns.
    pub rtt: c_uint,
    /// Whether the responder's service time is taken off.
    pub adj_svc_time: u8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// What a compiler says of the Open Compute Project's own header, on x86-64.
    #[test]
    fn layouts_are_those_of_the_published_header() {
        let measured = [
            (size_of::<mrc_ctl_ev_fmt_field>(), 1),
            (size_of::<mrc_ctl_ev_fmt_profile_attr>(), 168),
            (offset_of!(mrc_ctl_ev_fmt_profile_attr, ev_fmt_op), 16),
            (offset_of!(mrc_ctl_ev_fmt_op, fmt_fields), 8),
            (offset_of!(mrc_ctl_ev_fmt_op, fmt_field_count), 16),
            (offset_of!(mrc_ctl_ev_fmt_profile_attr, vendor_cfg), 40),
            (size_of::<mrc_ctl_ev>(), 33),
            (size_of::<mrc_ctl_ev_field>(), 20),
            (size_of::<mrc_ctl_ev_op_entry>(), 76),
            (offset_of!(mrc_ctl_ev_op_entry, ev_new), 33),
            (offset_of!(mrc_ctl_ev_op_entry, state), 68),
            (offset_of!(mrc_ctl_ev_op_entry, flags), 72),
            (size_of::<mrc_ctl_ev_profile_attr>(), 216),
            (offset_of!(mrc_ctl_ev_profile_attr, ev_fmt_profile_id), 16),
            (offset_of!(mrc_ctl_ev_profile_attr, ev_count), 24),
            (offset_of!(mrc_ctl_ev_profile_attr, ev_event_mask), 32),
            (offset_of!(mrc_ctl_ev_profile_attr, ev_op), 40),
            (offset_of!(mrc_ctl_ev_profile_attr, ev_fields_op), 64),
            (offset_of!(mrc_ctl_ev_profile_attr, vendor_cfg), 88),
            (size_of::<mrc_ctl_cc_profile_attr>(), 152),
            (offset_of!(mrc_ctl_cc_profile_attr, cc_config), 16),
            (offset_of!(mrc_ctl_cc_profile_attr, vendor_cfg), 24),
            (size_of::<mrc_ctl_cc_nscc_cfg>(), 52),
            (offset_of!(mrc_ctl_cc_nscc_cfg, adjust_bytes_threshold), 4),
            (offset_of!(mrc_ctl_cc_nscc_cfg, max_cwnd), 36),
            (offset_of!(mrc_ctl_cc_nscc_cfg, qa_gate), 40),
            (offset_of!(mrc_ctl_cc_nscc_cfg, target_delay), 48),
            (size_of::<mrc_ctl_ev_event>(), 56),
            (offset_of!(mrc_ctl_ev_event, drop_count), 44),
            (offset_of!(mrc_ctl_ev_event, state), 48),
            (size_of::<mrc_ctl_ep_req>(), 88),
            (offset_of!(mrc_ctl_ep_req, dgid), 24),
            (offset_of!(mrc_ctl_ep_req, ev_fmt_mode), 40),
            (offset_of!(mrc_ctl_ep_req, req_ev), 44),
            (offset_of!(mrc_ctl_ep_req, op), 80),
            (size_of::<mrc_ctl_ep_rsp>(), 12),
            (offset_of!(mrc_ctl_ep_rsp, rtt), 4),
            (offset_of!(mrc_ctl_ep_rsp, adj_svc_time), 8),
        ];
        for (n, (here, there)) in measured.into_iter().enumerate() {
            assert_eq!(here, there, "number {n} of the list");
        }
    }
}

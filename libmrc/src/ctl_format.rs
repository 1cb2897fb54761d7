//! Of the API for controllers: EV format profiles.

use crate::call::{Errno, borrow, zero_or_minus};
use crate::caps::net_admin;
use crate::context::mrc_context;
use crate::ctl::{begin_query, control_errno, from_state, given, no_vendor_cfg, room, state_of, steps};
use crate::ctl_abi::{
    MRC_CTL_EV_FMT_MODE_SRV6, MRC_CTL_EV_FMT_MODE_STEV, MRC_CTL_EV_FMT_MODE_UDP, MRC_CTL_EV_FMT_OP_MODIFY_FIELDS,
    MRC_CTL_EV_FMT_OP_QUERY_FIELDS, MRC_CTL_EV_FMT_PROFILE_CUR_STATE, MRC_CTL_EV_FMT_PROFILE_MODE,
    MRC_CTL_EV_FMT_PROFILE_OP, MRC_CTL_EV_FMT_PROFILE_STATE, MRC_CTL_EV_FMT_VENDOR_CFG, MRC_CTL_MAX_VENDOR_CFG_SIZE,
    mrc_ctl_ev_fmt_field, mrc_ctl_ev_fmt_op, mrc_ctl_ev_fmt_profile_attr,
};
use control::controller::{FormatKind, FormatStep, FormatView};
use control::host::Device;
use std::ffi::c_int;

const ALL: c_int = MRC_CTL_EV_FMT_PROFILE_STATE
    | MRC_CTL_EV_FMT_PROFILE_CUR_STATE
    | MRC_CTL_EV_FMT_PROFILE_MODE
    | MRC_CTL_EV_FMT_PROFILE_OP
    | MRC_CTL_EV_FMT_VENDOR_CFG;
/// Fields of a format at most: of one bit each.
const FIELDS_MAX: usize = 128;

/// The format that a mode is.
pub(crate) const fn kind_of(mode: u32) -> Result<FormatKind, Errno> {
    match mode {
        MRC_CTL_EV_FMT_MODE_STEV => Ok(FormatKind::Stev),
        MRC_CTL_EV_FMT_MODE_SRV6 => Ok(FormatKind::Srv6),
        MRC_CTL_EV_FMT_MODE_UDP => Ok(FormatKind::Udp),
        _ => Err(libc::EINVAL),
    }
}

const fn mode_of(kind: FormatKind) -> u32 {
    match kind {
        FormatKind::Stev => MRC_CTL_EV_FMT_MODE_STEV,
        FormatKind::Srv6 => MRC_CTL_EV_FMT_MODE_SRV6,
        FormatKind::Udp => MRC_CTL_EV_FMT_MODE_UDP,
    }
}

/// The fields of an operation, which the caller says are there.
fn widths(op: &mrc_ctl_ev_fmt_op) -> Result<Vec<u8>, Errno> {
    let count = given(op.fmt_fields, op.fmt_field_count, FIELDS_MAX)?;
    // SAFETY: so many fields are there, as the caller of the exported function says.
    let fields: &[mrc_ctl_ev_fmt_field] = unsafe { std::slice::from_raw_parts(op.fmt_fields, count) };
    Ok(fields.iter().map(|field| field.width).collect())
}

fn fill(op: &mut mrc_ctl_ev_fmt_op, view: &FormatView) -> Result<(), Errno> {
    let to = room(op.fmt_fields, &mut op.fmt_field_count, view.widths.len())?;
    for (at, &width) in view.widths.iter().enumerate() {
        // SAFETY: there is room for so many, as the caller of the exported function says.
        unsafe { to.add(at).write(mrc_ctl_ev_fmt_field { width }) };
    }
    Ok(())
}

fn view(device: &Device, id: u64) -> Result<FormatView, Errno> {
    device.ev_format(id).map_err(|e| control_errno(&e))
}

/// Takes a format profile a step of its life, or changes it. Numbers are the controller's own: who has not been changed is in INIT. -1 with errno:
/// EINVAL for arguments that are wrong, or not in this state; EBUSY while EV profiles need it; E2BIG for fields that no packet has room for, or
/// one profile too many; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `attr` NULL or attributes, whose fields are there where the mask and the operation name them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_modify_ev_fmt_profile(
    mrc_ctx: *mut mrc_context,
    ev_fmt_profile_id: u64,
    attr: *mut mrc_ctl_ev_fmt_profile_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        let has = |bit: c_int| attr_mask & bit != 0;
        if attr_mask & !ALL != 0 {
            return Err(libc::EINVAL);
        }
        no_vendor_cfg(has(MRC_CTL_EV_FMT_VENDOR_CFG), &attr.vendor_cfg)?;
        let op = has(MRC_CTL_EV_FMT_PROFILE_OP).then_some(attr.ev_fmt_op.op);
        let (from, to) = steps(
            has(MRC_CTL_EV_FMT_PROFILE_CUR_STATE).then_some(attr.cur_profile_state),
            has(MRC_CTL_EV_FMT_PROFILE_STATE).then_some(attr.profile_state),
        )?;
        let kind = has(MRC_CTL_EV_FMT_PROFILE_MODE).then(|| kind_of(attr.ev_fmt_mode)).transpose()?;
        let widths = match op {
            Some(MRC_CTL_EV_FMT_OP_MODIFY_FIELDS) => Some(widths(&attr.ev_fmt_op)?),
            None | Some(MRC_CTL_EV_FMT_OP_QUERY_FIELDS) => None,
            Some(_) => return Err(libc::EINVAL),
        };
        let device = &context.open()?.node.device;
        let step = FormatStep { from, to, kind, widths };
        device.modify_ev_format(ev_fmt_profile_id, step).map_err(|e| control_errno(&e))?;
        if op == Some(MRC_CTL_EV_FMT_OP_QUERY_FIELDS) {
            fill(&mut attr.ev_fmt_op, &view(device, ev_fmt_profile_id)?)?;
        }
        Ok(())
    })
}

/// Tells of a format profile what the mask names; of its fields, the number too. -1 with errno: EINVAL for arguments that are wrong, or anything but
/// the state in INIT; E2BIG for fewer places than fields, whose number is told; EIO; EPERM.
///
/// # Safety
/// As [`mrc_ctl_modify_ev_fmt_profile`]; fields are room for as many as their number says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_ev_fmt_profile(
    mrc_ctx: *mut mrc_context,
    ev_fmt_profile_id: u64,
    attr: *mut mrc_ctl_ev_fmt_profile_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        let view = view(&context.open()?.node.device, ev_fmt_profile_id)?;
        let (states, has) =
            begin_query(attr_mask, ALL, MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE, view.state)?;
        if has(MRC_CTL_EV_FMT_PROFILE_OP) && attr.ev_fmt_op.op != MRC_CTL_EV_FMT_OP_QUERY_FIELDS {
            return Err(libc::EINVAL);
        }
        if states {
            let state = state_of(view.state);
            (attr.profile_state, attr.cur_profile_state) = from_state(
                has(MRC_CTL_EV_FMT_PROFILE_STATE),
                has(MRC_CTL_EV_FMT_PROFILE_CUR_STATE),
                state,
                (attr.profile_state, attr.cur_profile_state),
            );
        }
        if let Some(kind) = view.kind.filter(|_| has(MRC_CTL_EV_FMT_PROFILE_MODE)) {
            attr.ev_fmt_mode = mode_of(kind);
        }
        if has(MRC_CTL_EV_FMT_VENDOR_CFG) {
            attr.vendor_cfg = [0; MRC_CTL_MAX_VENDOR_CFG_SIZE];
        }
        if has(MRC_CTL_EV_FMT_PROFILE_OP) { fill(&mut attr.ev_fmt_op, &view) } else { Ok(()) }
    })
}

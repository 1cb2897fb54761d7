//! Of the API for controllers: EV profiles.

use crate::call::{Errno, borrow, zero_or_minus};
use crate::caps::net_admin;
use crate::context::mrc_context;
use crate::ctl::{begin_query, control_errno, from_state, given, no_vendor_cfg, room, state_of, step_errno, steps};
use crate::ctl_abi::{
    MRC_CTL_EV_ASSUMED_BAD, MRC_CTL_EV_DENIED, MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS,
    MRC_CTL_EV_GOOD, MRC_CTL_EV_MODE_AUTO, MRC_CTL_EV_MODE_EXP, MRC_CTL_EV_MODE_GEN, MRC_CTL_EV_OP_F_ALL_COPIES,
    MRC_CTL_EV_OP_MODIFY_EV_STATE, MRC_CTL_EV_OP_QUERY_EV_ARRAY, MRC_CTL_EV_OP_QUERY_EV_STATE,
    MRC_CTL_EV_OP_REPLACE_EV, MRC_CTL_EV_PROFILE_COUNT, MRC_CTL_EV_PROFILE_CUR_STATE, MRC_CTL_EV_PROFILE_EV_FIELDS_OP,
    MRC_CTL_EV_PROFILE_EV_OP, MRC_CTL_EV_PROFILE_EVENT_MASK, MRC_CTL_EV_PROFILE_FMT_ID, MRC_CTL_EV_PROFILE_MIN_ACTIVE,
    MRC_CTL_EV_PROFILE_MODE, MRC_CTL_EV_PROFILE_STATE, MRC_CTL_EV_PROFILE_VENDOR_CFG, MRC_CTL_EV_UNKNOWN,
    MRC_CTL_MAX_VENDOR_CFG_SIZE, mrc_ctl_ev, mrc_ctl_ev_entries_op, mrc_ctl_ev_field, mrc_ctl_ev_fields_op,
    mrc_ctl_ev_op_entry, mrc_ctl_ev_profile_attr,
};
use control::controller::{EvEdits, EvEventMask, EvName, EvProfileStep, EvProfileView, EvReplacement, Mode};
use control::host::Device;
use dataplane::nic::EvState;
use dataplane::path::profile::{Copies, EVS_PER_PROFILE_MAX, EvField, ProfileState};
use std::ffi::c_int;

const STATES: c_int = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE;
const OPS: c_int = MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
const ALL: c_int = STATES
    | OPS
    | MRC_CTL_EV_PROFILE_MODE
    | MRC_CTL_EV_PROFILE_FMT_ID
    | MRC_CTL_EV_PROFILE_COUNT
    | MRC_CTL_EV_PROFILE_MIN_ACTIVE
    | MRC_CTL_EV_PROFILE_EVENT_MASK
    | MRC_CTL_EV_PROFILE_VENDOR_CFG;
/// Fields of a profile at most: of one bit each.
const FIELDS_MAX: usize = 128;

const fn name(ev: &mrc_ctl_ev) -> EvName {
    EvName { bits: ev.val, port: ev.port }
}

/// An EV as C has it.
pub(crate) const fn ev_of(name: EvName) -> mrc_ctl_ev {
    mrc_ctl_ev { val: name.bits, port: name.port }
}

/// The number of a state; one that is to be passed over once is in use.
pub(crate) const fn number(state: EvState) -> u32 {
    match state {
        EvState::Good | EvState::Skip => MRC_CTL_EV_GOOD,
        EvState::AssumedBad => MRC_CTL_EV_ASSUMED_BAD,
        EvState::Denied => MRC_CTL_EV_DENIED,
    }
}

const fn ev_state(number: u32) -> Result<EvState, Errno> {
    match number {
        MRC_CTL_EV_GOOD => Ok(EvState::Good),
        MRC_CTL_EV_ASSUMED_BAD => Ok(EvState::AssumedBad),
        MRC_CTL_EV_DENIED => Ok(EvState::Denied),
        _ => Err(libc::EINVAL),
    }
}

const fn mode(number: u32) -> Result<Mode, Errno> {
    match number {
        MRC_CTL_EV_MODE_AUTO => Ok(Mode::Auto),
        MRC_CTL_EV_MODE_EXP => Ok(Mode::Explicit),
        MRC_CTL_EV_MODE_GEN => Ok(Mode::Generated),
        _ => Err(libc::EINVAL),
    }
}

const fn mode_number(mode: Mode) -> u32 {
    match mode {
        Mode::Auto => MRC_CTL_EV_MODE_AUTO,
        Mode::Explicit => MRC_CTL_EV_MODE_EXP,
        Mode::Generated => MRC_CTL_EV_MODE_GEN,
    }
}

fn event_mask(mask: c_int) -> Result<EvEventMask, Errno> {
    let mask = mask as u32;
    if mask & !(MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD) != 0 {
        return Err(libc::EINVAL);
    }
    Ok(EvEventMask { assumed_bad: mask & MRC_CTL_EV_ASSUMED_BAD != 0, good: mask & MRC_CTL_EV_GOOD != 0 })
}

fn event_mask_number(mask: EvEventMask) -> c_int {
    let bit = |has: bool, bit: u32| if has { bit as c_int } else { 0 };
    bit(mask.assumed_bad, MRC_CTL_EV_ASSUMED_BAD) | bit(mask.good, MRC_CTL_EV_GOOD)
}

fn fields(op: &mrc_ctl_ev_fields_op) -> Result<Vec<EvField>, Errno> {
    let count = given(op.fields, op.field_count, FIELDS_MAX)?;
    // SAFETY: so many fields are there, as the caller of the exported function says.
    let fields: &[mrc_ctl_ev_field] = unsafe { std::slice::from_raw_parts(op.fields, count) };
    let field = |field: &mrc_ctl_ev_field| {
        let &mrc_ctl_ev_field { width, init_val: init, min_val: min, max_val: max, mask } = field;
        let width = u8::try_from(width).map_err(|_| libc::EINVAL)?;
        Ok(EvField { width, init, min, max, mask })
    };
    fields.iter().map(field).collect()
}

fn fill_fields(op: &mut mrc_ctl_ev_fields_op, view: &EvProfileView) -> Result<(), Errno> {
    let to = room(op.fields, &mut op.field_count, view.fields.len())?;
    for (at, field) in view.fields.iter().enumerate() {
        let &EvField { width, init: init_val, min: min_val, max: max_val, mask } = field;
        let field = mrc_ctl_ev_field { width: width.into(), init_val, min_val, max_val, mask };
        // SAFETY: there is room for so many, as the caller of the exported function says.
        unsafe { to.add(at).write(field) };
    }
    Ok(())
}

/// How many entries an operation has.
fn entry_count(op: &mrc_ctl_ev_entries_op) -> Result<usize, Errno> {
    given(op.entries, op.entry_count, EVS_PER_PROFILE_MAX as usize)
}

/// The entries of an operation, which the caller says are there.
fn entries(op: &mrc_ctl_ev_entries_op) -> Result<&[mrc_ctl_ev_op_entry], Errno> {
    let count = entry_count(op)?;
    // SAFETY: so many entries are there, as the caller of the exported function says.
    Ok(unsafe { std::slice::from_raw_parts(op.entries, count) })
}

fn replacement(entry: &mrc_ctl_ev_op_entry) -> Result<EvReplacement, Errno> {
    if entry.flags & !MRC_CTL_EV_OP_F_ALL_COPIES != 0 {
        return Err(libc::EINVAL);
    }
    // Programs that leave the state out want an EV that is used.
    let state = if entry.state == 0 { EvState::Good } else { ev_state(entry.state)? };
    let copies = if entry.flags & MRC_CTL_EV_OP_F_ALL_COPIES != 0 { Copies::All } else { Copies::One };
    Ok(EvReplacement { current: name(&entry.ev), new: name(&entry.ev_new), state, copies })
}

fn judgement(entry: &mrc_ctl_ev_op_entry) -> Result<(EvName, EvState), Errno> {
    if entry.flags & !MRC_CTL_EV_OP_F_ALL_COPIES != 0 {
        return Err(libc::EINVAL);
    }
    Ok((name(&entry.ev), ev_state(entry.state)?))
}

/// What there is before the first that is wrong, and what is wrong with that.
fn prefix<T>(
    entries: &[mrc_ctl_ev_op_entry],
    read: impl Fn(&mrc_ctl_ev_op_entry) -> Result<T, Errno>,
) -> (Vec<T>, Result<(), Errno>) {
    let mut good = Vec::with_capacity(entries.len());
    for entry in entries {
        match read(entry) {
            Ok(entry) => good.push(entry),
            Err(errno) => return (good, Err(errno)),
        }
    }
    (good, Ok(()))
}

fn fill_states(device: &Device, id: u64, op: &mut mrc_ctl_ev_entries_op) -> Result<(), Errno> {
    let count = entry_count(op)?;
    // SAFETY: so many entries are there, and nobody else's meanwhile, as the caller of the exported function says.
    let entries: &mut [mrc_ctl_ev_op_entry] = unsafe { std::slice::from_raw_parts_mut(op.entries, count) };
    let names = entries.iter().map(|entry| name(&entry.ev)).collect();
    let (states, whole) = device.ev_states(id, names).map_err(|e| control_errno(&e))?;
    for (entry, state) in entries.iter_mut().zip(states) {
        entry.state = number(state);
    }
    whole.map_err(|e| step_errno(&e))
}

fn fill_array(device: &Device, id: u64, op: &mut mrc_ctl_ev_entries_op) -> Result<(), Errno> {
    let evs = device.evs_of(id).map_err(|e| control_errno(&e))?;
    let to = room(op.entries, &mut op.entry_count, evs.len())?;
    for (at, ev) in evs.into_iter().enumerate() {
        let (ev, state) =
            ev.map_or((mrc_ctl_ev::default(), MRC_CTL_EV_UNKNOWN), |(name, state)| (ev_of(name), number(state)));
        // SAFETY: there is room for so many, as the caller of the exported function says.
        let entry = unsafe { to.add(at) };
        // SAFETY: as above; what is not told is left as it is.
        unsafe { (&raw mut (*entry).ev).write(ev) };
        // SAFETY: as above.
        unsafe { (&raw mut (*entry).state).write(state) };
    }
    Ok(())
}

fn view(device: &Device, id: u64) -> Result<Option<EvProfileView>, Errno> {
    device.ev_profile(id).map_err(|e| control_errno(&e))
}

/// The operations that only ask.
fn answer(device: &Device, id: u64, attr: &mut mrc_ctl_ev_profile_attr, mask: c_int) -> Result<(), Errno> {
    if mask & MRC_CTL_EV_PROFILE_EV_OP != 0 {
        match attr.ev_op.op {
            MRC_CTL_EV_OP_QUERY_EV_STATE => fill_states(device, id, &mut attr.ev_op)?,
            MRC_CTL_EV_OP_QUERY_EV_ARRAY => fill_array(device, id, &mut attr.ev_op)?,
            _ => {}
        }
    }
    if mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP != 0 && attr.ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS {
        let view = view(device, id)?.ok_or(libc::EINVAL)?;
        fill_fields(&mut attr.ev_fields_op, &view)?;
    }
    Ok(())
}

/// What a call asks for, and what is wrong with the entry behind those that are in it.
fn step(attr: &mrc_ctl_ev_profile_attr, mask: c_int) -> Result<(EvProfileStep, Result<(), Errno>), Errno> {
    let has = |bit: c_int| mask & bit != 0;
    if mask & !ALL != 0 || mask & OPS == OPS {
        return Err(libc::EINVAL);
    }
    no_vendor_cfg(has(MRC_CTL_EV_PROFILE_VENDOR_CFG), &attr.vendor_cfg)?;
    let (from, to) = steps(
        has(MRC_CTL_EV_PROFILE_CUR_STATE).then_some(attr.cur_profile_state),
        has(MRC_CTL_EV_PROFILE_STATE).then_some(attr.profile_state),
    )?;
    let mut step = EvProfileStep {
        from,
        to,
        mode: has(MRC_CTL_EV_PROFILE_MODE).then(|| mode(attr.ev_mode)).transpose()?,
        format: has(MRC_CTL_EV_PROFILE_FMT_ID).then_some(attr.ev_fmt_profile_id),
        count: has(MRC_CTL_EV_PROFILE_COUNT).then_some(attr.ev_count),
        min_active: has(MRC_CTL_EV_PROFILE_MIN_ACTIVE).then_some(attr.ev_min_active),
        event_mask: has(MRC_CTL_EV_PROFILE_EVENT_MASK).then(|| event_mask(attr.ev_event_mask)).transpose()?,
        ..EvProfileStep::default()
    };
    if has(MRC_CTL_EV_PROFILE_EV_FIELDS_OP) {
        match attr.ev_fields_op.op {
            MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS => step.fields = Some(fields(&attr.ev_fields_op)?),
            MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS => {}
            _ => return Err(libc::EINVAL),
        }
    }
    let mut wrong = Ok(());
    if has(MRC_CTL_EV_PROFILE_EV_OP) {
        match attr.ev_op.op {
            MRC_CTL_EV_OP_REPLACE_EV => {
                let (replacements, end) = prefix(entries(&attr.ev_op)?, replacement);
                (step.evs, wrong) = (Some(EvEdits::Replace(replacements)), end);
            }
            MRC_CTL_EV_OP_MODIFY_EV_STATE => {
                let (states, end) = prefix(entries(&attr.ev_op)?, judgement);
                (step.evs, wrong) = (Some(EvEdits::SetState(states)), end);
            }
            MRC_CTL_EV_OP_QUERY_EV_STATE | MRC_CTL_EV_OP_QUERY_EV_ARRAY => {}
            _ => return Err(libc::EINVAL),
        }
    }
    if wrong.is_err() {
        // Entries are changed each by itself; a step with a wrong one is not taken.
        step.to = None;
    }
    Ok((step, wrong))
}

/// Takes an EV profile a step of its life, or changes it. Numbers are the controller's own, from 1: who has not been changed is in INIT. Entries
/// of an operation are changed each by itself, up to the first that is refused. -1 with errno: EINVAL for arguments that are wrong, or not in
/// this state; ENOENT for an EV that the profile does not have; EBUSY while QPs use it; E2BIG for more EVs, fields or profiles than there may
/// be, or fewer places than there are answers, whose number is told; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `attr` NULL or attributes, whose entries and fields are there where the mask and the operation name
/// them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_modify_ev_profile(
    mrc_ctx: *mut mrc_context,
    ev_profile_id: u64,
    attr: *mut mrc_ctl_ev_profile_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        let (step, wrong) = step(attr, attr_mask)?;
        let device = &context.open()?.node.device;
        device.modify_ev_profile(ev_profile_id, step).map_err(|e| control_errno(&e))?;
        wrong?;
        answer(device, ev_profile_id, attr, attr_mask)
    })
}

/// Tells of an EV profile what the mask names. -1 with errno: EINVAL for arguments that are wrong, or anything but the state in INIT; ENOENT for an
/// EV that the profile does not have, and those behind it are not told; E2BIG for fewer places than there are EVs or fields, whose number is
/// told; EIO; EPERM.
///
/// # Safety
/// As [`mrc_ctl_modify_ev_profile`]; entries and fields are room for as many as their number says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_ev_profile(
    mrc_ctx: *mut mrc_context,
    ev_profile_id: u64,
    attr: *mut mrc_ctl_ev_profile_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        let device = &context.open()?.node.device;
        let view = view(device, ev_profile_id)?;
        let state = view.as_ref().map_or(ProfileState::Init, |view| view.state);
        let (states, has) = begin_query(attr_mask, ALL, STATES, state)?;
        let asks = matches!(attr.ev_op.op, MRC_CTL_EV_OP_QUERY_EV_STATE | MRC_CTL_EV_OP_QUERY_EV_ARRAY);
        let fields = attr.ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS;
        if has(MRC_CTL_EV_PROFILE_EV_OP) && !asks
            || has(MRC_CTL_EV_PROFILE_EV_FIELDS_OP) && !fields
            || attr_mask & OPS == OPS
        {
            return Err(libc::EINVAL);
        }
        if states {
            (attr.profile_state, attr.cur_profile_state) = from_state(
                has(MRC_CTL_EV_PROFILE_STATE),
                has(MRC_CTL_EV_PROFILE_CUR_STATE),
                state_of(state),
                (attr.profile_state, attr.cur_profile_state),
            );
        }
        if has(MRC_CTL_EV_PROFILE_VENDOR_CFG) {
            attr.vendor_cfg = [0; MRC_CTL_MAX_VENDOR_CFG_SIZE];
        }
        let Some(view) = view else { return Ok(()) };
        if has(MRC_CTL_EV_PROFILE_MODE) {
            attr.ev_mode = mode_number(view.mode);
        }
        if has(MRC_CTL_EV_PROFILE_FMT_ID) {
            attr.ev_fmt_profile_id = view.format;
        }
        if has(MRC_CTL_EV_PROFILE_COUNT) {
            attr.ev_count = view.count;
        }
        if has(MRC_CTL_EV_PROFILE_MIN_ACTIVE) {
            attr.ev_min_active = view.min_active;
        }
        if has(MRC_CTL_EV_PROFILE_EVENT_MASK) {
            attr.ev_event_mask = event_mask_number(view.event_mask);
        }
        answer(device, ev_profile_id, attr, attr_mask)
    })
}

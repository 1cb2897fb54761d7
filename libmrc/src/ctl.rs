//! Of the API for controllers (`mrc_ctl.h`): versions, the device, and ports; and what its other parts share.

use crate::abi::{
    MRC_API_LAST_SUPPORTED_VERSION, MRC_CTL_API_CURRENT_VERSION, MRC_CTL_PORT_ADMIN_STATE, MRC_PROTOCOL_VERSION_1,
    MRC_VENDOR_API_CURRENT_VERSION, mrc_ctl_cc_limits, mrc_ctl_device_attr, mrc_ctl_ev_limits, mrc_ctl_port_attr,
};
use crate::call::{Errno, borrow, put, zero_or_minus};
use crate::caps::net_admin;
use crate::context::mrc_context;
use crate::ctl_abi::{
    MRC_CTL_EV_FMT_MODE_SRV6, MRC_CTL_EV_FMT_MODE_STEV, MRC_CTL_EV_FMT_MODE_UDP, MRC_CTL_EV_MODE_AUTO,
    MRC_CTL_EV_MODE_EXP, MRC_CTL_EV_MODE_GEN, MRC_CTL_OPT_CAP_EP_OP_EV_PROBE, MRC_CTL_OPT_CAP_EV_EVENT,
    MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT, MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE, MRC_CTL_PROFILE_INIT,
    MRC_CTL_PROFILE_OFFLINE, MRC_CTL_PROFILE_ONLINE,
};
use crate::device::{Open, open, quietly};
use crate::port::{has_port, report};
use crate::verbs::ibv_context;
use control::controller::{Request, StepError};
use control::host::ControlError;
use dataplane::path::profile::{ErrorKind, ProfileState};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::Ordering;

/// The names of algorithms, and a NULL.
struct Algorithms([*const c_char; 2]);

// SAFETY: the names are never written, and live as long as the process does.
unsafe impl Sync for Algorithms {}

pub(crate) const NSCC: &CStr = c"uet-1.0-nscc";
static ALGORITHMS: Algorithms = Algorithms([NSCC.as_ptr(), std::ptr::null()]);

/// The versions of the API for controllers. Where there is no room for one, it is not told.
///
/// # Safety
/// Each is NULL or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_version(
    current_version: *mut u32,
    last_supported_version: *mut u32,
    vendor_version: *mut u32,
    last_supported_vendor_version: *mut u32,
) {
    let answers = [
        (current_version, MRC_CTL_API_CURRENT_VERSION),
        (last_supported_version, MRC_API_LAST_SUPPORTED_VERSION),
        (vendor_version, MRC_VENDOR_API_CURRENT_VERSION),
        (last_supported_vendor_version, MRC_API_LAST_SUPPORTED_VERSION),
    ];
    for (to, version) in answers {
        // SAFETY: as the caller says.
        quietly(|| unsafe { put(to, version) });
    }
}

/// Bits of an EV at most: those of an SRv6 address.
const EV_WIDTH_MAX: u32 = 128;

/// The number of what a controller is refused with.
pub(crate) const fn step_errno(error: &StepError) -> Errno {
    match error.kind() {
        ErrorKind::Busy => libc::EBUSY,
        ErrorKind::InvalidState | ErrorKind::InvalidArgument => libc::EINVAL,
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Full => libc::E2BIG,
    }
}

/// As above, or EIO.
pub(crate) const fn control_errno(error: &ControlError) -> Errno {
    match error {
        ControlError::Step(error) => step_errno(error),
        ControlError::Depth(_) => libc::EINVAL,
        _ => libc::EIO,
    }
}

/// A profile's state as C has it.
pub(crate) const fn state_of(state: ProfileState) -> u32 {
    match state {
        ProfileState::Init => MRC_CTL_PROFILE_INIT,
        ProfileState::Offline => MRC_CTL_PROFILE_OFFLINE,
        ProfileState::Online => MRC_CTL_PROFILE_ONLINE,
    }
}

fn state(number: u32) -> Result<ProfileState, Errno> {
    match number {
        MRC_CTL_PROFILE_INIT => Ok(ProfileState::Init),
        MRC_CTL_PROFILE_OFFLINE => Ok(ProfileState::Offline),
        MRC_CTL_PROFILE_ONLINE => Ok(ProfileState::Online),
        _ => Err(libc::EINVAL),
    }
}

/// The state that a profile is said to be in, and the one that it is to go to.
pub(crate) fn steps(from: Option<u32>, to: Option<u32>) -> Result<(Option<ProfileState>, Option<ProfileState>), Errno> {
    Ok((from.map(state).transpose()?, to.map(state).transpose()?))
}

/// The NIC has no settings of a vendor's own: nothing but zeros is right.
pub(crate) fn no_vendor_cfg(given: bool, cfg: &[u8]) -> Result<(), Errno> {
    if given && cfg.iter().any(|&byte| byte != 0) { Err(libc::EINVAL) } else { Ok(()) }
}

/// What a query of a profile may ask for: whether its states are among it, and whether a bit is. In INIT there is nothing but the state.
pub(crate) fn begin_query(
    mask: c_int,
    all: c_int,
    states: c_int,
    state: ProfileState,
) -> Result<(bool, impl Fn(c_int) -> bool), Errno> {
    if mask & !all != 0 || state == ProfileState::Init && mask & !states != 0 {
        return Err(libc::EINVAL);
    }
    Ok((mask & states != 0, move |bit| mask & bit != 0))
}

/// Both places of a state, where each is asked for.
pub(crate) const fn from_state(first: bool, second: bool, state: u32, before: (u32, u32)) -> (u32, u32) {
    (if first { state } else { before.0 }, if second { state } else { before.1 })
}

/// How many entries a caller gives: EINVAL for none, or where they are not there; E2BIG for more than `most`.
pub(crate) fn given<T>(from: *const T, count: c_int, most: usize) -> Result<usize, Errno> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(libc::EINVAL)?;
    if from.is_null() {
        return Err(libc::EINVAL);
    }
    if count > most { Err(libc::E2BIG) } else { Ok(count) }
}

/// Room for `needed` answers, of which `count` says how many there is room for, and afterwards how many there are. E2BIG where that is less, EINVAL
/// where there is none.
pub(crate) fn room<T>(to: *mut T, count: &mut c_int, needed: usize) -> Result<*mut T, Errno> {
    let there = usize::try_from(*count).map_err(|_| libc::EINVAL)?;
    *count = needed as c_int;
    if there < needed {
        return Err(libc::E2BIG);
    }
    if to.is_null() && needed > 0 { Err(libc::EINVAL) } else { Ok(to) }
}

/// What a controller may do.
fn attributes(open: &Open) -> Result<mrc_ctl_device_attr, Errno> {
    let device = &open.node.device;
    let limits = device.control_limits().map_err(|e| control_errno(&e))?;
    let probes = if device.params().endpoint_operations { MRC_CTL_OPT_CAP_EP_OP_EV_PROBE } else { 0 };
    // Port N has bit N, and ports count from 1.
    let ports = (1..=open.node.device.ports().len()).fold(0, |mask, port| mask | 1_u32 << port);
    Ok(mrc_ctl_device_attr {
        mrc_ctl_protocol_version: MRC_PROTOCOL_VERSION_1,
        ev: mrc_ctl_ev_limits {
            ev_max_fmt_profiles: limits.formats as u32,
            ev_max_profiles: limits.profiles as u32,
            ev_max_count: limits.evs,
            ev_free_count: limits.evs_free,
            ev_max_count_profile: limits.evs_per_profile,
            ev_count_align: 1,
            ev_max_width: EV_WIDTH_MAX,
            ev_fmt_mode_mask: MRC_CTL_EV_FMT_MODE_STEV | MRC_CTL_EV_FMT_MODE_SRV6 | MRC_CTL_EV_FMT_MODE_UDP,
            ev_mode_mask: MRC_CTL_EV_MODE_AUTO | MRC_CTL_EV_MODE_EXP | MRC_CTL_EV_MODE_GEN,
            ev_op_max_entries: limits.evs_per_profile,
        },
        cc: mrc_ctl_cc_limits {
            cc_max_profiles: limits.cc_profiles as u32,
            algorithms: ALGORITHMS.0.as_ptr().cast_mut(),
        },
        phy_port_mask: ports,
        opt_attr: MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE
            | MRC_CTL_OPT_CAP_EV_EVENT
            | MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT
            | probes,
    })
}

/// What a controller may do with the NIC. -1 with errno: EINVAL for no device, or no room for the answer; EIO when the NIC is gone.
///
/// # Safety
/// `context` is NULL or an open device, and `ctl_attr` NULL or room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_device(context: *mut ibv_context, ctl_attr: *mut mrc_ctl_device_attr) -> c_int {
    // SAFETY: as the caller says.
    zero_or_minus(|| unsafe { put(ctl_attr, attributes(open(context)?)?) })
}

/// As [`mrc_ctl_query_device`], for a context of that device. -1 with errno EINVAL, too, where the two do not belong together.
///
/// # Safety
/// As [`mrc_ctl_query_device`]; `mcontext` is NULL or an MRC context, and `supported` NULL or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_device_ex(
    context: *mut ibv_context,
    mcontext: *mut mrc_context,
    ctl_attr: *mut mrc_ctl_device_attr,
    supported: *mut c_int,
) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let mrc = unsafe { borrow(mcontext) }?;
        let of_context = mrc.open()?;
        // SAFETY: as the caller says.
        let open = unsafe { open(context) }?;
        if !std::ptr::eq(open, of_context) || ctl_attr.is_null() || supported.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: as the caller says.
        unsafe { put(ctl_attr, attributes(open)?) }?;
        // Nobody who was built with an older version has this function.
        mrc.ctl_current.store(true, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { put(supported, 1) }
    })
}

/// The open device of a context, once the port and the mask are seen to be some.
fn of_port(context: &mrc_context, port: u8, mask: c_int) -> Result<&Open, Errno> {
    let open = context.open()?;
    if mask & !MRC_CTL_PORT_ADMIN_STATE != 0 || !has_port(open, port.into()) { Err(libc::EINVAL) } else { Ok(open) }
}

/// Whether a port is wanted up (1) or down (0). -1 with errno: EINVAL for no context, port or room, or a bit that means nothing; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.
///
/// # Safety
/// `context` is NULL or an MRC context, and `attr` NULL or attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_port(
    context: *mut mrc_context,
    port_num: u8,
    attr: *mut mrc_ctl_port_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let open = of_port(unsafe { borrow(context) }?, port_num, attr_mask)?;
        if attr.is_null() {
            return Err(libc::EINVAL);
        }
        if attr_mask & MRC_CTL_PORT_ADMIN_STATE == 0 {
            return Ok(());
        }
        let port = report(open, port_num).ok_or(libc::EIO)?;
        // SAFETY: as the caller says.
        unsafe { put(attr, mrc_ctl_port_attr { port_admin_state: port.admin.into() }) }
    })
}

/// Wants a port up (1) or down (0): `ibv_query_port` says so, and peers are told that they can't reach the NIC by it. -1 with errno: EINVAL for no context,
/// port or attributes, another state, or a bit that means nothing; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.
///
/// # Safety
/// As [`mrc_ctl_query_port`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_modify_port(
    context: *mut mrc_context,
    port_num: u8,
    attr: *mut mrc_ctl_port_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let open = of_port(unsafe { borrow(context) }?, port_num, attr_mask)?;
        // SAFETY: as the caller says.
        let attr = unsafe { borrow(attr) }?;
        if attr_mask & MRC_CTL_PORT_ADMIN_STATE == 0 {
            return Ok(());
        }
        let up = match attr.port_admin_state {
            0 => false,
            1 => true,
            _ => return Err(libc::EINVAL),
        };
        let device = &open.node.device;
        let operator = device.operator().ok_or(libc::EIO)?;
        let answer = operator.ask(Request::Port { nic: device.name().to_owned(), port: port_num, up });
        if answer["ok"].as_bool() == Some(true) { Ok(()) } else { Err(libc::EIO) }
    })
}

//! Of the API for controllers (`mrc_ctl.h`): versions, the device, and ports.

use crate::abi::{
    MRC_API_LAST_SUPPORTED_VERSION, MRC_CTL_API_CURRENT_VERSION, MRC_CTL_PORT_ADMIN_STATE, MRC_PROTOCOL_VERSION_1,
    MRC_VENDOR_API_CURRENT_VERSION, mrc_ctl_cc_limits, mrc_ctl_device_attr, mrc_ctl_ev_limits, mrc_ctl_port_attr,
};
use crate::call::{Errno, borrow, put, zero_or_minus};
use crate::context::mrc_context;
use crate::device::{Open, open, quietly};
use crate::port::{has_port, report};
use crate::verbs::ibv_context;
use control::controller::Request;
use std::ffi::{CStr, c_char, c_int};

/// The names of algorithms, and a NULL.
struct Algorithms([*const c_char; 2]);

// SAFETY: the names are never written, and live as long as the process does.
unsafe impl Sync for Algorithms {}

const NSCC: &CStr = c"uet-1.0-nscc";
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

/// What a controller may do: its ports. Profiles are not made by this API yet, so there are none that it could make.
fn attributes(open: &Open) -> mrc_ctl_device_attr {
    // Port N has bit N, and ports count from 1.
    let ports = (1..=open.node.device.ports().len()).fold(0, |mask, port| mask | 1_u32 << port);
    mrc_ctl_device_attr {
        mrc_ctl_protocol_version: MRC_PROTOCOL_VERSION_1,
        ev: mrc_ctl_ev_limits::default(),
        cc: mrc_ctl_cc_limits { cc_max_profiles: 0, algorithms: ALGORITHMS.0.as_ptr().cast_mut() },
        phy_port_mask: ports,
        opt_attr: 0,
    }
}

/// What a controller may do with the NIC. -1 with errno EINVAL for no device, or no room for the answer.
///
/// # Safety
/// `context` is NULL or an open device, and `ctl_attr` NULL or room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_device(context: *mut ibv_context, ctl_attr: *mut mrc_ctl_device_attr) -> c_int {
    // SAFETY: as the caller says.
    zero_or_minus(|| unsafe { put(ctl_attr, attributes(open(context)?)) })
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
        let of_context = unsafe { borrow(mcontext) }?.open()?;
        // SAFETY: as the caller says.
        let open = unsafe { open(context) }?;
        if !std::ptr::eq(open, of_context) || ctl_attr.is_null() || supported.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: as the caller says.
        unsafe { put(ctl_attr, attributes(open)) }?;
        // SAFETY: as the caller says.
        unsafe { put(supported, 1) }
    })
}

/// The open device of a context, once the port and the mask are seen to be some.
fn of_port(context: &mrc_context, port: u8, mask: c_int) -> Result<&Open, Errno> {
    let open = context.open()?;
    if mask & !MRC_CTL_PORT_ADMIN_STATE != 0 || !has_port(open, port.into()) { Err(libc::EINVAL) } else { Ok(open) }
}

/// Whether a port is wanted up (1) or down (0). -1 with errno: EINVAL for no context, port or room, or a bit that means nothing; EIO when the NIC is gone.
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
/// port or attributes, another state, or a bit that means nothing; EIO when the NIC is gone.
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

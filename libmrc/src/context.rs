//! MRC contexts, and what the library and the NIC can do.

use crate::abi::{
    MRC_API_CURRENT_VERSION, MRC_API_LAST_SUPPORTED_VERSION, MRC_API_VER_LATEST, MRC_DEVICE_CAP_DYNAMIC_MPR,
    MRC_DEVICE_CAP_SVC_TIME, MRC_DEVICE_CAP_TRIM_NACK, MRC_PROTOCOL_VERSION_1, MRC_VENDOR_API_CURRENT_VERSION,
    mrc_context_attr, mrc_device_attr, mrc_hint_limits, mrc_mpr_attr, mrc_wimm_attr,
};
use crate::call::{Errno, Verbs, borrow, or_null, put, zero_or_minus};
use crate::ctl_abi::mrc_ctl_cc_nscc_cfg;
use crate::device::{Open, Use, open, quietly};
use crate::hint::HINTS_MAX;
use crate::verbs::ibv_context;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// PSNs of a unit of windows.
pub(crate) const MPR_UNIT: u32 = 128;

/// An instance of the library, on an open device.
#[derive(Debug)]
pub struct mrc_context {
    verbs: Verbs,
    /// Told apart from others by this.
    pub(crate) number: u64,
    /// Channels, completion queues, hints and QPs that it has.
    pub(crate) uses: AtomicUsize,
    pub(crate) hints: AtomicUsize,
    /// The program has told that its controller's part is of version 1.0.1 at least.
    pub(crate) ctl_current: AtomicBool,
    /// NSCC's settings, as a query told them last. In a box: the program has its address.
    pub(crate) nscc_told: Mutex<Box<mrc_ctl_cc_nscc_cfg>>,
}

impl mrc_context {
    /// The open device: it stays open as long as it has contexts.
    pub(crate) fn open(&self) -> Result<&Open, Errno> {
        // SAFETY: a context counts among the users of its device, which is not closed before.
        unsafe { open(self.verbs) }
    }
}

fn attributes(open: &Open) -> mrc_device_attr {
    let params = open.node.device.params();
    let transport = &params.transport;
    let bit = |has: bool, bit: u32| if has { bit } else { 0 };
    let immediates = u16::try_from(transport.write_imm_limit).unwrap_or(u16::MAX);
    mrc_device_attr {
        mrc_protocol_version: MRC_PROTOCOL_VERSION_1,
        wimm_attr: mrc_wimm_attr { max_wimm: immediates, max_wimm_dest: immediates },
        mpr_attr: mrc_mpr_attr { max_mpr: mpr_of(transport.max_psn_range), mpr_resolution: 1 },
        qp_attr: mrc_hint_limits { max_qp_hint: HINTS_MAX as u32 },
        cap: bit(params.trimming, MRC_DEVICE_CAP_TRIM_NACK)
            | bit(transport.dynamic_mpr, MRC_DEVICE_CAP_DYNAMIC_MPR)
            | bit(transport.service_time, MRC_DEVICE_CAP_SVC_TIME),
    }
}

/// A window in units of 128 PSNs, of which a NIC has one at least.
pub(crate) fn mpr_of(psns: u32) -> u8 {
    u8::try_from((psns / MPR_UNIT).max(1)).unwrap_or(u8::MAX)
}

fn query(open: &Open, attr: *mut mrc_device_attr, supported: *mut c_int) -> Result<(), Errno> {
    if attr.is_null() || supported.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: there is room for both, as the caller of the exported function says.
    unsafe { put(attr, attributes(open)) }?;
    // SAFETY: as above.
    unsafe { put(supported, 1) }
}

/// What the NIC can do. -1 with errno EINVAL for no device, or no room for the answer.
///
/// # Safety
/// `context` is NULL or an open device; the others are NULL or room for the answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_query_device(
    context: *mut ibv_context,
    attr: *mut mrc_device_attr,
    supported: *mut c_int,
) -> c_int {
    // SAFETY: as the caller says.
    zero_or_minus(|| query(unsafe { open(context) }?, attr, supported))
}

/// As [`mrc_query_device`], for a context of that device. -1 with errno EINVAL, too, where the two do not belong together.
///
/// # Safety
/// As [`mrc_query_device`]; `mcontext` is NULL or an MRC context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_query_device_ex(
    context: *mut ibv_context,
    mcontext: *mut mrc_context,
    attr: *mut mrc_device_attr,
    supported: *mut c_int,
) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let mrc = unsafe { borrow(mcontext) }?;
        if mrc.verbs != context {
            return Err(libc::EINVAL);
        }
        query(mrc.open()?, attr, supported)
    })
}

/// The versions that the library has. Where there is no room for one, it is not told.
///
/// # Safety
/// Each is NULL or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_query_version(
    current_version: *mut u32,
    last_supported_version: *mut u32,
    vendor_version: *mut u32,
    last_supported_vendor_version: *mut u32,
) {
    let answers = [
        (current_version, MRC_API_CURRENT_VERSION),
        (last_supported_version, MRC_API_LAST_SUPPORTED_VERSION),
        (vendor_version, MRC_VENDOR_API_CURRENT_VERSION),
        (last_supported_vendor_version, MRC_API_LAST_SUPPORTED_VERSION),
    ];
    for (to, version) in answers {
        // SAFETY: as the caller says.
        quietly(|| unsafe { put(to, version) });
    }
}

/// Whether a program may have been built with a version, of which this is the newest that there is.
const fn is_known(used: u32, newest: u32) -> bool {
    used <= newest || used == MRC_API_VER_LATEST
}

/// Makes an instance of the library. NULL with errno EINVAL for no device, or versions that are newer than the library's.
///
/// # Safety
/// `vcontext` is NULL or an open device, and `context_attr` NULL or attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_create_context(
    vcontext: *mut ibv_context,
    context_attr: *mut mrc_context_attr,
) -> *mut mrc_context {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    or_null(|| {
        // SAFETY: as the caller says.
        let open = unsafe { open(vcontext) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { context_attr.as_ref() }.copied().unwrap_or_default();
        if !is_known(attr.mrc_api_version_used, MRC_API_CURRENT_VERSION)
            || !is_known(attr.mrc_vendor_api_version_used, MRC_VENDOR_API_CURRENT_VERSION)
        {
            return Err(libc::EINVAL);
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Use::of(&open.uses).keep();
        let (uses, hints) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (ctl_current, nscc_told) = (AtomicBool::new(false), Mutex::default());
        Ok(Box::into_raw(Box::new(mrc_context { verbs: vcontext, number, uses, hints, ctl_current, nscc_told })))
    })
}

/// Ends an instance of the library. -1 with errno: EINVAL for none, EBUSY while it has channels, completion queues, hints or QPs.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_destroy_context(mrc_ctx: *mut mrc_context) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        if context.uses.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        context.open()?.uses.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: it was made by `mrc_create_context`, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(mrc_ctx) });
        Ok(())
    })
}

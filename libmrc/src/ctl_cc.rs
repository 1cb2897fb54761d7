//! Of the API for controllers: CC profiles.

use crate::call::{Errno, borrow, lock, zero_or_minus};
use crate::caps::net_admin;
use crate::context::mrc_context;
use crate::ctl::{NSCC, begin_query, control_errno, from_state, no_vendor_cfg, state_of, steps};
use crate::ctl_abi::{
    MRC_CTL_CC_PROFILE_ALGORITHM, MRC_CTL_CC_PROFILE_CONFIG, MRC_CTL_CC_PROFILE_CUR_STATE, MRC_CTL_CC_PROFILE_STATE,
    MRC_CTL_CC_PROFILE_VENDOR_CFG, MRC_CTL_MAX_VENDOR_CFG_SIZE, mrc_ctl_cc_nscc_cfg, mrc_ctl_cc_profile_attr,
};
use control::controller::{CcAlgorithm, CcStep, NsccSettings};
use std::ffi::{CStr, c_char, c_int};

const STATES: c_int = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE;
const ALL: c_int = STATES | MRC_CTL_CC_PROFILE_ALGORITHM | MRC_CTL_CC_PROFILE_CONFIG | MRC_CTL_CC_PROFILE_VENDOR_CFG;

/// The algorithm of a name, which the caller says is one that ends.
fn algorithm(name: *const c_char) -> Result<CcAlgorithm, Errno> {
    if name.is_null() {
        return Ok(CcAlgorithm::None);
    }
    // SAFETY: as the caller of the exported function says.
    if unsafe { CStr::from_ptr(name) } == NSCC { Ok(CcAlgorithm::Nscc) } else { Err(libc::EINVAL) }
}

const fn settings(of: &mrc_ctl_cc_nscc_cfg) -> NsccSettings {
    NsccSettings {
        disable_quick_adapt: of.disable_qa != 0,
        adjust_bytes: of.adjust_bytes_threshold,
        adjust_period_ns: of.adjust_period_threshold,
        base_rtt_ns: of.base_rtt,
        eta: of.eta,
        fair_increase: of.fi,
        fast_increase: of.fi_scale,
        gamma: of.gamma,
        max_decrease: of.max_md_jump,
        max_window: of.max_cwnd,
        quick_adapt_gate: of.qa_gate,
        quick_adapt_threshold_ns: of.qa_threshold,
        target_delay_ns: of.target_delay,
    }
}

const fn cfg(of: &NsccSettings) -> mrc_ctl_cc_nscc_cfg {
    mrc_ctl_cc_nscc_cfg {
        disable_qa: of.disable_quick_adapt as u8,
        adjust_bytes_threshold: of.adjust_bytes,
        adjust_period_threshold: of.adjust_period_ns,
        base_rtt: of.base_rtt_ns,
        eta: of.eta,
        fi: of.fair_increase,
        fi_scale: of.fast_increase,
        gamma: of.gamma,
        max_md_jump: of.max_decrease,
        max_cwnd: of.max_window,
        qa_gate: of.quick_adapt_gate,
        qa_threshold: of.quick_adapt_threshold_ns,
        target_delay: of.target_delay_ns,
    }
}

/// Takes a CC profile a step of its life, or changes it while it is OFFLINE. Numbers are the controller's own, from 1: who has not been changed
/// is in INIT. -1 with errno: EINVAL for arguments that are wrong or out of range, or not in this state; EBUSY while QPs use it; E2BIG for one
/// profile too many; EIO when the NIC is gone; EPERM without CAP_NET_ADMIN.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `attr` NULL or attributes, whose name and settings are there where the mask names them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_modify_cc_profile(
    mrc_ctx: *mut mrc_context,
    cc_profile_id: u64,
    attr: *mut mrc_ctl_cc_profile_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { borrow(attr) }?;
        let has = |bit: c_int| attr_mask & bit != 0;
        if attr_mask & !ALL != 0 {
            return Err(libc::EINVAL);
        }
        no_vendor_cfg(has(MRC_CTL_CC_PROFILE_VENDOR_CFG), &attr.vendor_cfg)?;
        let (from, to) = steps(
            has(MRC_CTL_CC_PROFILE_CUR_STATE).then_some(attr.cur_profile_state),
            has(MRC_CTL_CC_PROFILE_STATE).then_some(attr.profile_state),
        )?;
        let algorithm = has(MRC_CTL_CC_PROFILE_ALGORITHM).then(|| algorithm(attr.algorithm)).transpose()?;
        let settings = match has(MRC_CTL_CC_PROFILE_CONFIG) {
            // SAFETY: it is NULL or NSCC's settings, as the caller says: there is no other algorithm that has some.
            true => Some(settings(unsafe { borrow(attr.cc_config.cast()) }?)),
            false => None,
        };
        let step = CcStep { from, to, algorithm, settings };
        let device = &context.open()?.node.device;
        device.modify_cc_profile(cc_profile_id, step).map_err(|e| control_errno(&e))
    })
}

/// Tells of a CC profile what the mask names. Settings are written where `cc_config` points; where it is NULL, it points to a copy of the context's
/// afterwards, which stays until the next such query. -1 with errno: EINVAL for arguments that are wrong, settings that were not given, or
/// anything but the state in INIT; EIO; EPERM.
///
/// # Safety
/// As [`mrc_ctl_modify_cc_profile`]; `cc_config` is NULL or room for the settings, where the mask names them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_query_cc_profile(
    mrc_ctx: *mut mrc_context,
    cc_profile_id: u64,
    attr: *mut mrc_ctl_cc_profile_attr,
    attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        net_admin()?;
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { attr.as_mut() }.ok_or(libc::EINVAL)?;
        let view = context.open()?.node.device.cc_profile(cc_profile_id).map_err(|e| control_errno(&e))?;
        let (states, has) = begin_query(attr_mask, ALL, STATES, view.state)?;
        let config = has(MRC_CTL_CC_PROFILE_CONFIG).then(|| view.settings.ok_or(libc::EINVAL)).transpose()?;
        if states {
            (attr.profile_state, attr.cur_profile_state) = from_state(
                has(MRC_CTL_CC_PROFILE_STATE),
                has(MRC_CTL_CC_PROFILE_CUR_STATE),
                state_of(view.state),
                (attr.profile_state, attr.cur_profile_state),
            );
        }
        if has(MRC_CTL_CC_PROFILE_ALGORITHM) {
            let nscc = view.algorithm == Some(CcAlgorithm::Nscc);
            attr.algorithm = if nscc { NSCC.as_ptr() } else { std::ptr::null() };
        }
        if has(MRC_CTL_CC_PROFILE_VENDOR_CFG) {
            attr.vendor_cfg = [0; MRC_CTL_MAX_VENDOR_CFG_SIZE];
        }
        if let Some(settings) = config {
            let mut kept = lock(&context.nscc_told);
            if attr.cc_config.is_null() {
                **kept = cfg(&settings);
                attr.cc_config = (&raw const **kept).cast();
            } else {
                // SAFETY: there is room, as the caller says.
                unsafe { attr.cc_config.cast::<mrc_ctl_cc_nscc_cfg>().cast_mut().write(cfg(&settings)) };
            }
        }
        Ok(())
    })
}

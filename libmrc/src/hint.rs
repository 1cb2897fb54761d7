//! Hints: what a program expects of its QPs. They are kept and told back; the NIC does without them.

use crate::abi::{
    MRC_QP_HINT_NUM_QPS_PER_PEER, MRC_QP_HINT_NUM_REMOTE_RECV_PEERS, MRC_QP_HINT_NUM_SEND_PEERS,
    MRC_QP_HINT_VENDOR_CFG, mrc_qp_hint_attr, mrc_qp_hint_init_attr,
};
use crate::call::{Address, Errno, borrow, lock, or_null, zero_or_minus};
use crate::context::mrc_context;
use crate::device::Use;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Hints of a context at most.
pub(crate) const HINTS_MAX: usize = 4096;

/// A hint.
#[derive(Debug)]
pub struct mrc_qp_hint {
    pub(crate) owner: Address<mrc_context>,
    attr: Mutex<mrc_qp_hint_attr>,
    /// QPs that have it.
    pub(crate) uses: AtomicUsize,
}

fn check(attr: &mrc_qp_hint_attr) -> Result<(), Errno> {
    let counts = [attr.num_qps_per_peer, attr.num_send_peers, attr.num_remote_recv_peers];
    if counts.iter().any(|&count| count < 0) { Err(libc::EINVAL) } else { Ok(()) }
}

/// Copies what the mask names.
fn copy(from: &mrc_qp_hint_attr, to: &mut mrc_qp_hint_attr, mask: c_int) -> Result<(), Errno> {
    let known = MRC_QP_HINT_NUM_QPS_PER_PEER
        | MRC_QP_HINT_NUM_SEND_PEERS
        | MRC_QP_HINT_NUM_REMOTE_RECV_PEERS
        | MRC_QP_HINT_VENDOR_CFG;
    if mask & !known != 0 {
        return Err(libc::EINVAL);
    }
    if mask & MRC_QP_HINT_NUM_QPS_PER_PEER != 0 {
        to.num_qps_per_peer = from.num_qps_per_peer;
    }
    if mask & MRC_QP_HINT_NUM_SEND_PEERS != 0 {
        to.num_send_peers = from.num_send_peers;
    }
    if mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS != 0 {
        to.num_remote_recv_peers = from.num_remote_recv_peers;
    }
    if mask & MRC_QP_HINT_VENDOR_CFG != 0 {
        to.vendor_cfg = from.vendor_cfg;
    }
    Ok(())
}

/// Makes a hint. NULL with errno: EINVAL for no context, no attributes, or a count below 0; ENOMEM when the context has 4,096.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `init_attr` NULL or attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_create_qp_hint(
    mrc_ctx: *mut mrc_context,
    init_attr: *mut mrc_qp_hint_init_attr,
) -> *mut mrc_qp_hint {
    or_null(|| {
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says.
        let attr = unsafe { borrow(init_attr) }?.attr;
        check(&attr)?;
        let one = Use::of(&context.hints);
        if context.hints.load(Ordering::Acquire) > HINTS_MAX {
            return Err(libc::ENOMEM);
        }
        one.keep();
        Use::of(&context.uses).keep();
        let hint = mrc_qp_hint { owner: Address(mrc_ctx), attr: Mutex::new(attr), uses: AtomicUsize::new(0) };
        Ok(Box::into_raw(Box::new(hint)))
    })
}

/// Frees a hint. -1 with errno: EINVAL for none, EBUSY while a QP has it.
///
/// # Safety
/// `qp_hint` is NULL or a hint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_destroy_qp_hint(qp_hint: *mut mrc_qp_hint) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let hint = unsafe { borrow(qp_hint) }?;
        if hint.uses.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        // SAFETY: a hint counts among the users of its context.
        let context = unsafe { borrow(hint.owner.0) }?;
        context.hints.fetch_sub(1, Ordering::AcqRel);
        context.uses.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: it was made by `mrc_create_qp_hint`, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(qp_hint) });
        Ok(())
    })
}

/// Tells what the mask names of a hint. -1 with errno EINVAL for no hint, no room, or a bit that means nothing.
///
/// # Safety
/// `qp_hint` is NULL or a hint, and `qp_hint_attr` NULL or attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_query_qp_hint(
    qp_hint: *mut mrc_qp_hint,
    qp_hint_attr: *mut mrc_qp_hint_attr,
    qp_hint_attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let hint = unsafe { borrow(qp_hint) }?;
        // SAFETY: as the caller says: a room for attributes, all of whose bit patterns are some, that nobody else uses meanwhile.
        let to = unsafe { qp_hint_attr.as_mut() }.ok_or(libc::EINVAL)?;
        copy(&lock(&hint.attr), to, qp_hint_attr_mask)
    })
}

/// Changes what the mask names of a hint. -1 with errno EINVAL for no hint, no attributes, a bit that means nothing, or a count below 0.
///
/// # Safety
/// As [`mrc_query_qp_hint`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_modify_qp_hint(
    qp_hint: *mut mrc_qp_hint,
    qp_hint_attr: *mut mrc_qp_hint_attr,
    qp_hint_attr_mask: c_int,
) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let hint = unsafe { borrow(qp_hint) }?;
        // SAFETY: as the caller says.
        let from = unsafe { borrow(qp_hint_attr) }?;
        let mut attr = lock(&hint.attr);
        let mut changed = *attr;
        copy(from, &mut changed, qp_hint_attr_mask)?;
        check(&changed)?;
        *attr = changed;
        Ok(())
    })
}

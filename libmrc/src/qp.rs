//! Queue pairs.

use crate::abi::{MRC_PROTOCOL_VERSION_1, mrc_qp_attr, mrc_qp_init_attr};
use crate::call::{Address, Errno, borrow, code, errno, lock, or_null, put, zero_or_minus};
use crate::context::mrc_context;
use crate::cq::mrc_cq;
use crate::device::{Open, Use};
use crate::fd::Unacked;
use crate::memory::{Pd, own_region, pd};
use crate::node::Hearer;
use crate::post::Sends;
use crate::qp_state::{Asked, Known, modify, query};
use crate::verbs::{IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, ibv_pd, ibv_qp_attr, ibv_qp_cap};
use control::host::QueuePair;
use dataplane::transport::SEND_QUEUE_MAX;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Bytes of inline data of a request at most.
pub(crate) const INLINE_MAX: u32 = 256;

/// A queue pair.
#[derive(Debug)]
pub struct mrc_qp {
    pub(crate) owner: Address<mrc_context>,
    pub(crate) pd: Address<ibv_pd>,
    pub(crate) init: Init,
    pub(crate) qp: QueuePair,
    pub(crate) known: Mutex<Known>,
    pub(crate) sends: Mutex<Sends>,
    pub(crate) unacked: Unacked,
}

/// What it was created with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Init {
    pub(crate) context: Address<std::ffi::c_void>,
    pub(crate) send_cq: Address<mrc_cq>,
    pub(crate) recv_cq: Address<mrc_cq>,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) all_signaled: bool,
    pub(crate) send_ops_flags: u64,
}

impl mrc_qp {
    pub(crate) fn owner(&self) -> Result<&mrc_context, Errno> {
        // SAFETY: a QP counts among the users of its context.
        unsafe { borrow(self.owner.0) }
    }

    pub(crate) fn open(&self) -> Result<&Open, Errno> {
        self.owner()?.open()
    }
}

/// The queues that a QP gets: what was asked for, or a little more.
fn capacity(asked: &ibv_qp_cap) -> Result<ibv_qp_cap, Errno> {
    let depth = |asked: u32| asked as usize <= SEND_QUEUE_MAX;
    let fits = depth(asked.max_send_wr) && depth(asked.max_recv_wr) && asked.max_inline_data <= INLINE_MAX;
    if !fits || asked.max_send_sge > 1 || asked.max_recv_sge > 1 {
        return Err(libc::EINVAL);
    }
    Ok(ibv_qp_cap { max_send_wr: asked.max_send_wr.max(1), max_send_sge: 1, max_recv_sge: 1, ..*asked })
}

/// What a QP is created of.
struct Parts<'a> {
    open: &'a Open,
    domain: &'a Pd,
    send: &'a mrc_cq,
    receive: &'a mrc_cq,
}

fn parts<'a>(context: &'a mrc_context, owner: *mut mrc_context, attr: &mrc_qp_init_attr) -> Result<Parts<'a>, Errno> {
    let open = context.open()?;
    // SAFETY: the caller of the exported function says that these are NULL or what they are called.
    let (send, receive, domain) = unsafe { (borrow(attr.send_cq)?, borrow(attr.recv_cq)?, pd(attr.pd)?) };
    let of_device = std::ptr::eq(domain.context().cast::<Open>(), open);
    if send.owner.0 != owner || receive.owner.0 != owner || !of_device {
        return Err(libc::EINVAL);
    }
    if !matches!(attr.protocol_version, 0 | MRC_PROTOCOL_VERSION_1) {
        return Err(libc::EINVAL);
    }
    if attr.send_ops_flags & !u64::from(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(Parts { open, domain, send, receive })
}

/// Creates a QP in RESET, and tells its queues in `cap`. NULL with errno: EINVAL for what is not there or does not belong together, queues that are too
/// long, or another version of the protocol; EOPNOTSUPP for operations but Writes; ENOMEM when there are 65,536 QPs.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, `mrc_qp_attr` NULL or attributes that name what is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_create_qp(mrc_ctx: *mut mrc_context, mrc_qp_attr: *mut mrc_qp_init_attr) -> *mut mrc_qp {
    or_null(|| {
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        // SAFETY: as the caller says: nobody else uses the attributes meanwhile.
        let attr = unsafe { mrc_qp_attr.as_mut() }.ok_or(libc::EINVAL)?;
        let Parts { open, domain, send, receive } = parts(context, mrc_ctx, attr)?;
        let cap = capacity(&attr.cap)?;
        let inline = match cap.max_inline_data {
            0 => None,
            each => Some(own_region(domain, each as usize * cap.max_send_wr as usize)?),
        };
        let qp = domain.domain.create_qp(send.completions()?, receive.completions()?).map_err(|e| errno(&e))?;
        let qpn = qp.qpn().get();
        let uses = [&send.uses, &receive.uses, &domain.uses, &context.uses];
        uses.into_iter().for_each(|uses| Use::of(uses).keep());
        let made = Box::into_raw(Box::new(mrc_qp {
            owner: Address(mrc_ctx),
            pd: Address(attr.pd),
            init: Init {
                context: Address(attr.qp_context),
                send_cq: Address(attr.send_cq),
                recv_cq: Address(attr.recv_cq),
                cap,
                all_signaled: attr.sq_sig_all != 0,
                send_ops_flags: attr.send_ops_flags,
            },
            qp,
            known: Mutex::new(Known::of(open.node.device.params())),
            sends: Mutex::new(Sends::new(inline)),
            unacked: Unacked::default(),
        }));
        attr.cap = cap;
        let events = Arc::clone(&open.events);
        open.node.registry.add(qpn, Hearer { context: context.number, qp: Address(made), events });
        Ok(made)
    })
}

/// Closes a QP, once all its events are acknowledged: what has not ended completes as flushed. EINVAL for none.
///
/// # Safety
/// `qp` is NULL or a QP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_destroy_qp(qp: *mut mrc_qp) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let there = unsafe { borrow(qp) }?;
        let open = there.open()?;
        open.node.registry.remove(there.qp.qpn().get());
        open.events.purge(|event| event.qp.0 == qp);
        there.unacked.wait();
        let hint = lock(&there.known).attr.qp_hint;
        // SAFETY: a hint stays as long as it has QPs.
        if let Some(hint) = unsafe { hint.as_ref() } {
            hint.uses.fetch_sub(1, Ordering::AcqRel);
        }
        let owner = there.owner;
        let (init, domain) = (there.init, there.pd);
        // SAFETY: it was made by `mrc_create_qp`, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(qp) });
        // SAFETY: each stays as long as it has users, of which this QP is one up to here.
        let uses = unsafe {
            [&borrow(init.send_cq.0)?.uses, &borrow(init.recv_cq.0)?.uses, &pd(domain.0)?.uses, &borrow(owner.0)?.uses]
        };
        uses.into_iter().for_each(|uses| {
            uses.fetch_sub(1, Ordering::AcqRel);
        });
        Ok(())
    })
}

/// The QP's number. -1 with errno EINVAL for no QP, or no room for the number.
///
/// # Safety
/// `qp` is NULL or a QP, and `qpn` NULL or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_get_qpn(qp: *mut mrc_qp, qpn: *mut u32) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let qp = unsafe { borrow(qp) }?;
        // SAFETY: as the caller says.
        unsafe { put(qpn, qp.qp.qpn().get()) }
    })
}

/// Changes a QP: its state, and what goes with the step. EINVAL for no QP, a step that does not follow, what is missing for it, comes too late, or is out of
/// range; EHOSTUNREACH for an address that is no neighbour of the file and does not answer, which takes three seconds; EOPNOTSUPP for the step to RESET; EIO when the NIC is gone. A QP that refuses stays as it is.
///
/// # Safety
/// `qp` is NULL or a QP; `vattr` and `mrc_attr` are NULL or attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_modify_qp(
    qp: *mut mrc_qp,
    vattr: *mut ibv_qp_attr,
    vattr_mask: c_int,
    mrc_attr: *mut mrc_qp_attr,
    mrc_attr_mask: c_int,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let qp = unsafe { borrow(qp) }?;
        // SAFETY: as the caller says.
        let (vattr, mrc_attr) = unsafe { (vattr.as_ref(), mrc_attr.as_ref()) };
        let verbs = Asked::new(vattr, vattr_mask)?;
        let mrc = Asked::new(mrc_attr, mrc_attr_mask)?;
        modify(qp, &verbs, &mrc)
    })
}

/// Tells about a QP what the masks name, and what it was created with. EINVAL for no QP, or no room for what a mask names. With a mask of 0 the
/// attributes may be NULL; so may `init_attr`.
///
/// # Safety
/// `qp` is NULL or a QP; the others are NULL or attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_query_qp(
    qp: *mut mrc_qp,
    vattr: *mut ibv_qp_attr,
    vattr_mask: c_int,
    mrc_attr: *mut mrc_qp_attr,
    mrc_attr_mask: c_int,
    init_attr: *mut mrc_qp_init_attr,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let there = unsafe { borrow(qp) }?;
        if vattr.is_null() && vattr_mask != 0 || mrc_attr.is_null() && mrc_attr_mask != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: as the caller says: rooms for attributes that nobody else uses meanwhile.
        let (verbs, mrc) = unsafe { (vattr.as_mut(), mrc_attr.as_mut()) };
        query(there, verbs, mrc, mrc_attr_mask);
        let Init { context, send_cq, recv_cq, cap, all_signaled, send_ops_flags } = there.init;
        if init_attr.is_null() {
            return Ok(());
        }
        let told = mrc_qp_init_attr {
            qp_context: context.0,
            send_cq: send_cq.0,
            recv_cq: recv_cq.0,
            cap,
            sq_sig_all: c_int::from(all_signaled),
            pd: there.pd.0,
            send_ops_flags,
            protocol_version: MRC_PROTOCOL_VERSION_1,
        };
        // SAFETY: as the caller says.
        unsafe { put(init_attr, told) }
    })
}

//! Completion queues.

use crate::call::{Address, Errno, borrow, code, errno, or_minus, or_null, put};
use crate::channel::mrc_comp_channel;
use crate::context::mrc_context;
use crate::device::Use;
use crate::fd::{FdQueue, Unacked};
use crate::verbs::{
    IBV_WC_LOC_PROT_ERR, IBV_WC_RDMA_WRITE, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,
    IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, IBV_WC_WITH_IMM, IBV_WC_WR_FLUSH_ERR, ibv_wc,
    ibv_wc__bindgen_ty_1, ibv_wc_status,
};
use control::host::{COMPLETIONS_MAX, CompletionEntry, CompletionQueue, Device, EvEvents, Notify};
use dataplane::nic::{Operation, Status};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Places that a queue has at least. A request without a completion needs one, too, until it has ended.
const PLACES_MIN: usize = 8192;
/// After so many looks that found nothing, who looks lets others have the core.
const EMPTY_LOOKS: u32 = 64;

/// A completion queue.
#[derive(Debug)]
pub struct mrc_cq {
    pub(crate) owner: Address<mrc_context>,
    pub(crate) kind: Kind,
    /// The program's own.
    pub(crate) context: Address<c_void>,
    channel: Option<Channel>,
    pub(crate) unacked: Unacked,
    /// QPs that complete here.
    pub(crate) uses: AtomicUsize,
    empty: AtomicU32,
}

/// What is in it.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Completions.
    Completions(CompletionQueue),
    /// Events of EVs.
    EvEvents(EvEvents),
}

impl mrc_cq {
    /// Its completions; EINVAL where it has none.
    pub(crate) fn completions(&self) -> Result<&CompletionQueue, Errno> {
        match &self.kind {
            Kind::Completions(queue) => Ok(queue),
            Kind::EvEvents(_) => Err(libc::EINVAL),
        }
    }
}

#[derive(Debug)]
struct Channel {
    of: Address<mrc_comp_channel>,
    events: Arc<FdQueue<Address<mrc_cq>>>,
}

/// Puts a completion queue into its channel.
struct Announce {
    cq: Address<mrc_cq>,
    events: Arc<FdQueue<Address<mrc_cq>>>,
}

impl Notify for Announce {
    fn notify(&self) {
        self.events.put(self.cq);
    }
}

/// Makes a completion queue of `cqe` completions at least. NULL with errno EINVAL for no context, a channel of another context, a number outside of
/// 1 to 1,048,576, or a vector but 0.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `channel` NULL or a channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_create_cq(
    mrc_ctx: *mut mrc_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut mrc_comp_channel,
    comp_vector: c_int,
) -> *mut mrc_cq {
    or_null(|| {
        let asked = usize::try_from(cqe).ok().filter(|n| (1..=COMPLETIONS_MAX).contains(n)).ok_or(libc::EINVAL)?;
        // SAFETY: as the caller says.
        unsafe {
            create(mrc_ctx, cq_context, channel, comp_vector, |device| {
                Ok(Kind::Completions(device.completion_queue(asked.max(PLACES_MIN)).map_err(|e| errno(&e))?))
            })
        }
    })
}

/// Makes a completion queue for what `make` makes.
///
/// # Safety
/// As [`mrc_create_cq`].
pub(crate) unsafe fn create(
    mrc_ctx: *mut mrc_context,
    cq_context: *mut c_void,
    channel: *mut mrc_comp_channel,
    comp_vector: c_int,
    make: impl FnOnce(&Device) -> Result<Kind, Errno>,
) -> Result<*mut mrc_cq, Errno> {
    // SAFETY: as the caller says.
    let context = unsafe { borrow(mrc_ctx) }?;
    // SAFETY: as the caller says.
    let of = unsafe { channel.as_ref() };
    if comp_vector != 0 || of.is_some_and(|of| of.context.0 != mrc_ctx) {
        return Err(libc::EINVAL);
    }
    let kind = make(&context.open()?.node.device)?;
    let channel = of.map(|of| {
        Use::of(&of.uses).keep();
        Channel { of: Address(channel), events: Arc::clone(&of.events) }
    });
    Use::of(&context.uses).keep();
    let cq = Box::into_raw(Box::new(mrc_cq {
        owner: Address(mrc_ctx),
        kind,
        context: Address(cq_context),
        channel,
        unacked: Unacked::default(),
        uses: AtomicUsize::new(0),
        empty: AtomicU32::new(0),
    }));
    if let Some(of) = of {
        let announce = Arc::new(Announce { cq: Address(cq), events: Arc::clone(&of.events) });
        // SAFETY: it was made just now.
        match unsafe { &(*cq).kind } {
            Kind::Completions(queue) => queue.hear(announce),
            Kind::EvEvents(events) => events.hear(announce),
        };
    }
    Ok(cq)
}

/// Frees a completion queue, once all its events are acknowledged. EINVAL for none, EBUSY while QPs complete there.
///
/// # Safety
/// `cq` is NULL or a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_destroy_cq(cq: *mut mrc_cq) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let queue = unsafe { borrow(cq) }?;
        if queue.uses.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        if let Kind::EvEvents(events) = &queue.kind {
            // The control thread puts it into its channel no more.
            events.close();
        }
        if let Some(channel) = &queue.channel {
            channel.events.purge(|of| of.0 == cq);
            queue.unacked.wait();
            // SAFETY: a channel stays as long as it has completion queues.
            unsafe { borrow(channel.of.0) }?.uses.fetch_sub(1, Ordering::AcqRel);
        }
        // SAFETY: a completion queue counts among the users of its context.
        unsafe { borrow(queue.owner.0) }?.uses.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: it was made by `mrc_create_cq`, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(cq) });
        Ok(())
    })
}

const fn status(status: Status) -> ibv_wc_status {
    match status {
        Status::Success => IBV_WC_SUCCESS,
        Status::Flushed => IBV_WC_WR_FLUSH_ERR,
        Status::LocalProtection => IBV_WC_LOC_PROT_ERR,
        Status::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        Status::RemoteAccess => IBV_WC_REM_ACCESS_ERR,
        Status::RemoteOperation => IBV_WC_REM_OP_ERR,
        Status::RetryExceeded => IBV_WC_RETRY_EXC_ERR,
    }
}

fn completion(entry: &CompletionEntry) -> ibv_wc {
    let CompletionEntry { qpn, completion } = entry;
    let mut wc = ibv_wc {
        wr_id: completion.wr_id,
        status: status(completion.status),
        opcode: IBV_WC_RDMA_WRITE,
        byte_len: completion.len,
        qp_num: qpn.get(),
        ..ibv_wc::default()
    };
    if let Operation::Receive { immediate } = completion.operation {
        wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.__bindgen_anon_1 = ibv_wc__bindgen_ty_1 { imm_data: immediate.to_be() };
    }
    wc
}

/// Takes completions, `num_entries` at most: how many. -1 with errno EINVAL for no queue, one of events of EVs, or no room.
///
/// # Safety
/// `cq` is NULL or a completion queue, and `wc` NULL or room for so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_poll_cq(cq: *mut mrc_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    or_minus(|| {
        // SAFETY: as the caller says.
        let cq = unsafe { borrow(cq) }?;
        let queue = cq.completions()?;
        let most = usize::try_from(num_entries).map_err(|_| libc::EINVAL)?;
        if wc.is_null() && most > 0 {
            return Err(libc::EINVAL);
        }
        let mut taken = 0;
        while taken < most
            && let Some(entry) = queue.poll()
        {
            // SAFETY: there is room for `most`, as the caller says.
            unsafe { put(wc.add(taken), completion(&entry)) }?;
            taken += 1;
        }
        if taken > 0 {
            cq.empty.store(0, Ordering::Relaxed);
        } else if cq.empty.fetch_add(1, Ordering::Relaxed) >= EMPTY_LOOKS {
            // The worker that is waited for may need this core.
            cq.empty.store(0, Ordering::Relaxed);
            std::thread::yield_now();
        }
        Ok(taken as c_int)
    })
}

/// Has the queue put itself into its channel at the next completion; with `solicited_only` at the next that is a receive, or no success. EINVAL for
/// none, or one without a channel.
///
/// # Safety
/// `cq` is NULL or a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_req_notify_cq(cq: *mut mrc_cq, solicited_only: c_int) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let cq = unsafe { borrow(cq) }?;
        if cq.channel.is_none() {
            return Err(libc::EINVAL);
        }
        match &cq.kind {
            Kind::Completions(queue) => queue.arm(solicited_only != 0),
            Kind::EvEvents(events) => events.arm(),
        }
        Ok(())
    })
}

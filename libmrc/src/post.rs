//! Posting of requests and receives.

use crate::call::{Errno, borrow, caught, code, errno, lock, set_errno};
use crate::qp::mrc_qp;
use crate::verbs::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM, ibv_recv_wr, ibv_send_wr, ibv_sge,
};
use control::host::{HostError, MemoryRegion, WriteRequest};
use dataplane::memory::Key;
use std::ffi::c_int;

/// So often a full ring to the worker is tried, with others on the core in between: a NIC of hardware has no such ring.
const RING_TRIES: usize = 4096;

/// What posting needs to remember.
#[derive(Debug)]
pub(crate) struct Sends {
    /// Places for inline data, one for each request that the send queue holds.
    inline: Option<MemoryRegion>,
    /// Requests posted so far.
    posted: u64,
}

impl Sends {
    pub(crate) const fn new(inline: Option<MemoryRegion>) -> Sends {
        Sends { inline, posted: 0 }
    }
}

/// Tries again while the ring to the worker is full.
fn patiently(mut post: impl FnMut() -> Result<(), HostError>) -> Result<(), Errno> {
    for _ in 0..RING_TRIES {
        match post() {
            Err(HostError::RingFull(_)) => std::thread::yield_now(),
            other => return other.map_err(|e| errno(&e)),
        }
    }
    Err(libc::ENOMEM)
}

/// The one piece of memory of a request; `None` for a request of no bytes.
///
/// # Safety
/// `list` is NULL or an array of `count`.
unsafe fn piece(list: *const ibv_sge, count: c_int) -> Result<Option<ibv_sge>, Errno> {
    match count {
        0 => Ok(None),
        // SAFETY: as the caller says.
        1 => unsafe { borrow(list) }.map(|sge| Some(*sge)),
        _ => Err(libc::EINVAL),
    }
}

/// Takes the bytes of a request now, into the place of its own.
fn take_inline(qp: &mrc_qp, sends: &Sends, sge: &mut ibv_sge) -> Result<(), Errno> {
    let cap = &qp.init.cap;
    let region = sends.inline.as_ref().ok_or(libc::EINVAL)?;
    if sge.length > cap.max_inline_data {
        return Err(libc::EINVAL);
    }
    // Requests end in their order: as long as the queue is not full, the place of the one that was posted a queue's length ago is free.
    if qp.qp.pending().0 >= cap.max_send_wr as usize {
        return Err(libc::ENOMEM);
    }
    let at = (sends.posted % u64::from(cap.max_send_wr)) * u64::from(cap.max_inline_data);
    let source = std::ptr::with_exposed_provenance::<u8>(sge.addr as usize);
    if source.is_null() && sge.length > 0 {
        return Err(libc::EINVAL);
    }
    if sge.length > 0 {
        // SAFETY: the program has so many bytes there, as posting demands, and leaves them alone during the call.
        let bytes = unsafe { std::slice::from_raw_parts(source, sge.length as usize) };
        region.buffer().write(at as usize, bytes).map_err(|_| libc::EINVAL)?;
    }
    sge.addr = region.address() + at;
    sge.lkey = region.key().0;
    Ok(())
}

/// Posts one request.
///
/// # Safety
/// Its list is NULL or an array of as many pieces as it says.
unsafe fn send(qp: &mrc_qp, sends: &mut Sends, wr: &ibv_send_wr) -> Result<(), Errno> {
    let known = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE | IBV_SEND_INLINE;
    let with_immediate = match wr.opcode {
        IBV_WR_RDMA_WRITE => false,
        IBV_WR_RDMA_WRITE_WITH_IMM => true,
        _ => return Err(libc::EINVAL),
    };
    if wr.send_flags & !known != 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    let piece = unsafe { piece(wr.sg_list, wr.num_sge) }?;
    let mut sge = piece.unwrap_or_default();
    if wr.send_flags & IBV_SEND_INLINE != 0 && piece.is_some() {
        take_inline(qp, sends, &mut sge)?;
    }
    // SAFETY: a Write's part of the union; all its bit patterns are numbers.
    let remote = unsafe { wr.wr.rdma };
    let request = WriteRequest {
        wr_id: wr.wr_id,
        local_key: Key(sge.lkey),
        local_va: sge.addr,
        remote_key: Key(remote.rkey),
        remote_va: remote.remote_addr,
        len: sge.length,
        immediate: None,
        signaled: qp.init.all_signaled || wr.send_flags & IBV_SEND_SIGNALED != 0,
    };
    if with_immediate {
        // SAFETY: the immediate's part of the union; all its bit patterns are numbers.
        let immediate = u32::from_be(unsafe { wr.__bindgen_anon_1.imm_data });
        patiently(|| qp.qp.post_write_imm(&request, immediate))?;
    } else {
        patiently(|| qp.qp.post_write(&request))?;
    }
    sends.posted += 1;
    Ok(())
}

/// Posts Writes, in the order of their list. EINVAL for no QP or list, a QP that is not in RTS or ERR, an operation but a Write, more than one piece of
/// memory, a flag that means nothing here, or too many bytes; ENOMEM when the send queue or the completion queue is full; EIO when the NIC is gone.
/// `bad_wr` is the request that was refused: those before it are posted.
///
/// # Safety
/// `qp` is NULL or a QP, `wr` NULL or a list, and `bad_wr` NULL or room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_post_send(qp: *mut mrc_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int {
    let mut at = wr;
    let posted = code(|| {
        // SAFETY: as the caller says.
        let qp = unsafe { borrow(qp) }?;
        let mut sends = lock(&qp.sends);
        // SAFETY: as the caller says; each leads to the next.
        unsafe { borrow(at) }?;
        // SAFETY: as above.
        while let Some(request) = unsafe { at.as_ref() } {
            // SAFETY: as the caller says.
            unsafe { send(qp, &mut sends, request) }?;
            at = request.next;
        }
        Ok(())
    });
    if posted != 0 && !bad_wr.is_null() {
        // SAFETY: as the caller says.
        unsafe { bad_wr.write(at) };
    }
    posted
}

/// Posts receives, for Writes with Immediate of the peer, in the order of their list. -1 with errno: EINVAL for no QP or list, a QP in RESET, or more than
/// one piece of memory, which is not used in any case; ENOMEM when the receive queue or the completion queue is full; EIO when the NIC is gone. `bad_wr` is
/// the receive that was refused: those before it are posted.
///
/// # Safety
/// `qp` is NULL or a QP, `wr` NULL or a list, and `bad_wr` NULL or room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_post_recv(qp: *mut mrc_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int {
    let mut at = wr;
    let posted = caught(|| {
        // SAFETY: as the caller says.
        let qp = unsafe { borrow(qp) }?;
        // SAFETY: as the caller says; each leads to the next.
        unsafe { borrow(at) }?;
        // SAFETY: as above.
        while let Some(receive) = unsafe { at.as_ref() } {
            if !(0..=1).contains(&receive.num_sge) {
                return Err(libc::EINVAL);
            }
            patiently(|| qp.qp.post_recv(receive.wr_id))?;
            at = receive.next;
        }
        Ok(())
    });
    let Err(refused) = posted else { return 0 };
    if !bad_wr.is_null() {
        // SAFETY: as the caller says.
        unsafe { bad_wr.write(at) };
    }
    set_errno(refused);
    -1
}

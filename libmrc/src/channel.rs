//! Completion channels.

use crate::call::{Address, borrow, code, put, zero_or_minus};
use crate::context::mrc_context;
use crate::cq::mrc_cq;
use crate::device::{Use, quietly};
use crate::fd::FdQueue;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A channel: completion queues put themselves in when they have a completion and were armed.
#[derive(Debug)]
pub struct mrc_comp_channel {
    pub(crate) context: Address<mrc_context>,
    pub(crate) events: Arc<FdQueue<Address<mrc_cq>>>,
    /// Completion queues that it is the channel of.
    pub(crate) uses: AtomicUsize,
}

/// Makes a channel. EINVAL for no context or no room for the channel.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `channel` NULL or room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_create_comp_channel(
    mrc_ctx: *mut mrc_context,
    channel: *mut *mut mrc_comp_channel,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        if channel.is_null() {
            return Err(libc::EINVAL);
        }
        let events = Arc::new(FdQueue::new()?);
        let made = mrc_comp_channel { context: Address(mrc_ctx), events, uses: AtomicUsize::new(0) };
        Use::of(&context.uses).keep();
        // SAFETY: as the caller says.
        unsafe { put(channel, Box::into_raw(Box::new(made))) }
    })
}

/// The channel's descriptor, which is readable while there is an event. -1 with errno EINVAL for no channel, or no room for the number.
///
/// # Safety
/// `channel` is NULL or a channel, and `fd` NULL or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_get_comp_channel_fd(channel: *mut mrc_comp_channel, fd: *mut c_int) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let channel = unsafe { borrow(channel) }?;
        // SAFETY: as the caller says.
        unsafe { put(fd, channel.events.fd()) }
    })
}

/// Frees a channel. EINVAL for none, EBUSY while it has completion queues.
///
/// # Safety
/// `channel` is NULL or a channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_destroy_comp_channel(channel: *mut mrc_comp_channel) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let there = unsafe { borrow(channel) }?;
        if there.uses.load(Ordering::Acquire) > 0 {
            return Err(libc::EBUSY);
        }
        // SAFETY: a channel counts among the users of its context.
        unsafe { borrow(there.context.0) }?.uses.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: it was made by `mrc_create_comp_channel`, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(channel) });
        Ok(())
    })
}

/// Takes the next event, and waits for one unless the descriptor does not block. -1 with errno: EINVAL for no channel or no room, EAGAIN where
/// there is none.
///
/// # Safety
/// `channel` is NULL or a channel; `cq` is NULL or room for an address, and so is `cq_context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_get_cq_event(
    channel: *mut mrc_comp_channel,
    cq: *mut *mut mrc_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    zero_or_minus(|| {
        // SAFETY: as the caller says.
        let channel = unsafe { borrow(channel) }?;
        if cq.is_null() || cq_context.is_null() {
            return Err(libc::EINVAL);
        }
        let Address(of) = channel.events.take(|_| true)?;
        // SAFETY: events of a completion queue are taken out before it goes.
        let queue = unsafe { borrow(of) }?;
        queue.unacked.add();
        // SAFETY: as the caller says.
        unsafe { put(cq, of) }?;
        // SAFETY: as the caller says.
        unsafe { put(cq_context, queue.context.0) }
    })
}

/// Acknowledges events.
///
/// # Safety
/// `cq` is NULL or a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ack_cq_events(cq: *mut mrc_cq, nevents: c_uint) {
    quietly(|| {
        // SAFETY: as the caller says.
        unsafe { borrow(cq) }?.unacked.ack(nevents.into());
        Ok(())
    });
}

//! Asynchronous events.

use crate::abi::{mrc_async_element, mrc_async_event};
use crate::call::{borrow, code, put};
use crate::context::mrc_context;
use crate::device::quietly;
use std::ffi::c_int;

/// Takes the next event of the context's QPs, and waits for one unless the device's `async_fd` does not block. EINVAL for no context or no room, EAGAIN
/// where there is none.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `event` NULL or room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_get_async_event(mrc_ctx: *mut mrc_context, event: *mut mrc_async_event) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let context = unsafe { borrow(mrc_ctx) }?;
        if event.is_null() {
            return Err(libc::EINVAL);
        }
        let happened = context.open()?.events.take(|event| event.context == context.number)?;
        // SAFETY: events of a QP are taken out before it goes.
        unsafe { borrow(happened.qp.0) }?.unacked.add();
        let element = mrc_async_element { qp: happened.qp.0 };
        // SAFETY: as the caller says.
        unsafe { put(event, mrc_async_event { element, event_type: happened.kind }) }
    })
}

/// Acknowledges an event.
///
/// # Safety
/// `event` is NULL, or an event that [`mrc_get_async_event`] gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ack_async_event(event: *mut mrc_async_event) {
    quietly(|| {
        // SAFETY: as the caller says.
        let event = unsafe { borrow(event) }?;
        // SAFETY: all events are of QPs, which stay until theirs are acknowledged.
        let qp = unsafe { borrow(event.element.qp) }?;
        qp.unacked.ack(1);
        Ok(())
    });
}

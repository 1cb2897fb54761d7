//! Of the API for controllers: events of EVs.

use crate::call::{Errno, borrow, caught, or_null};
use crate::caps::net_admin;
use crate::channel::mrc_comp_channel;
use crate::context::mrc_context;
use crate::cq::{Kind, create, mrc_cq};
use crate::ctl::control_errno;
use crate::ctl_abi::mrc_ctl_ev_event;
use crate::ctl_ev::{ev_of, number};
use control::host::{EV_EVENTS_MAX, EvEventEntry};
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::Ordering;

/// Bytes of an event without its state, as programs have it that were built with 1.0.0.
const OLD: usize = offset_of!(mrc_ctl_ev_event, state);

/// Makes a completion queue for `cqe` events of EVs. What comes while it is full is counted, and the next event says how much that was. NULL with
/// errno: EINVAL for no context, a channel of another context, a number outside of 1 to 1,048,576, or a vector but 0; EIO when the NIC is gone;
/// EPERM without CAP_NET_ADMIN.
///
/// # Safety
/// `mrc_ctx` is NULL or an MRC context, and `channel` NULL or a channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_create_ev_event_cq(
    mrc_ctx: *mut mrc_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut mrc_comp_channel,
    comp_vector: c_int,
) -> *mut mrc_cq {
    or_null(|| {
        net_admin()?;
        let places = usize::try_from(cqe).ok().filter(|n| (1..=EV_EVENTS_MAX).contains(n)).ok_or(libc::EINVAL)?;
        // SAFETY: as the caller says.
        unsafe {
            create(mrc_ctx, cq_context, channel, comp_vector, |device| {
                Ok(Kind::EvEvents(device.ev_events(places).map_err(|e| control_errno(&e))?))
            })
        }
    })
}

fn event(EvEventEntry { change, dropped }: &EvEventEntry) -> mrc_ctl_ev_event {
    mrc_ctl_ev_event {
        profile_id: change.profile,
        ev: ev_of(change.ev),
        drop_count: *dropped,
        state: number(change.state),
    }
}

/// Takes events, `num_entries` at most: how many. A program that has told its version by `mrc_ctl_query_device_ex` gets their states, too; any
/// other may have been built with 1.0.0, where an event is shorter, and gets one event at a time. The negative number of the error: EINVAL for no
/// queue, one of completions, or no room.
///
/// # Safety
/// `ev_cq` is NULL or a completion queue, and `ev_event` NULL or room for so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_ctl_poll_ev_event(
    ev_cq: *mut mrc_cq,
    num_entries: c_int,
    ev_event: *mut mrc_ctl_ev_event,
) -> c_int {
    let poll = || -> Result<c_int, Errno> {
        // SAFETY: as the caller says.
        let cq = unsafe { borrow(ev_cq) }?;
        let Kind::EvEvents(events) = &cq.kind else { return Err(libc::EINVAL) };
        // SAFETY: a completion queue counts among the users of its context.
        let current = unsafe { borrow(cq.owner.0) }?.ctl_current.load(Ordering::Relaxed);
        let most = usize::try_from(num_entries).map_err(|_| libc::EINVAL)?;
        if ev_event.is_null() && most > 0 {
            return Err(libc::EINVAL);
        }
        let mut taken = 0;
        while taken < if current { most } else { most.min(1) }
            && let Some(entry) = events.poll()
        {
            let event = event(&entry);
            if current {
                // SAFETY: there is room for `most`, as the caller says.
                unsafe { ev_event.add(taken).write(event) };
            } else {
                // SAFETY: there is room for one, as the caller says, which is so long at least.
                unsafe { std::ptr::copy_nonoverlapping((&raw const event).cast::<u8>(), ev_event.cast::<u8>(), OLD) };
            }
            taken += 1;
        }
        Ok(taken as c_int)
    };
    caught(poll).unwrap_or_else(|errno| -errno)
}

//! How a call of C's ends: with a value, or with an error code, and never with a panic.

use crate::verbs::ibv_context;
use control::host::HostError;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A number of errno.
pub(crate) type Errno = c_int;

/// Sets errno of the calling thread.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the C library gives the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// What `work` says; where it panicked, which would be a fault of this library's, EIO.
pub(crate) fn caught<R>(work: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(libc::EIO))
}

/// 0, or the number of the error, which errno has too.
pub(crate) fn code(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match caught(work) {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            errno
        }
    }
}

/// What comes out, or -1 with errno.
pub(crate) fn or_minus(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    caught(work).unwrap_or_else(|errno| {
        set_errno(errno);
        -1
    })
}

/// 0, or -1 with errno.
pub(crate) fn zero_or_minus(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    or_minus(|| work().map(|()| 0))
}

/// What comes out, or NULL with errno.
pub(crate) fn or_null<T>(work: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    caught(work).unwrap_or_else(|errno| {
        set_errno(errno);
        ptr::null_mut()
    })
}

/// Borrows what C holds by its address.
///
/// # Safety
/// The address is NULL, or that of a `T` that stays as long as the caller uses what comes out.
pub(crate) unsafe fn borrow<'a, T>(address: *const T) -> Result<&'a T, Errno> {
    // SAFETY: as the caller promises.
    unsafe { address.as_ref() }.ok_or(libc::EINVAL)
}

/// A place to write to, which the caller says is of this type.
///
/// # Safety
/// The address is NULL, or that of room for a `T`.
pub(crate) unsafe fn put<T>(address: *mut T, value: T) -> Result<(), Errno> {
    if address.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: there is room, as the caller promises; what was there needs no drop, since it is C's.
    unsafe { address.write(value) };
    Ok(())
}

/// What the NIC refuses, as a number.
pub(crate) const fn errno(error: &HostError) -> Errno {
    match error {
        HostError::Gone => libc::EIO,
        error if error.is_full() => libc::ENOMEM,
        HostError::TooManyQps | HostError::TooManyRegions => libc::ENOMEM,
        _ => libc::EINVAL,
    }
}

/// Locks, whoever panicked before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address of C's that the library keeps, and gives back as it is.
#[derive(Debug)]
pub(crate) struct Address<T>(pub(crate) *mut T);

impl<T> Clone for Address<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Address<T> {}

// SAFETY: the address alone is passed on; who follows it has its own reason to.
unsafe impl<T> Send for Address<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Address<T> {}

/// The context of verbs that a pointer of the program's names, which this library made.
pub(crate) type Verbs = *mut ibv_context;

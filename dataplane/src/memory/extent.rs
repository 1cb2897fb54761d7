//! A run of bytes that somebody else may be writing to.

use core::marker::PhantomData;
use core::ptr::NonNull;

/// A contiguous run of readable bytes. It is not a slice: over `net_ring` a received payload may alias memory of a
/// live application, so the bytes may change while they are read.
#[derive(Clone, Copy)]
pub struct Extent<'a> {
    ptr: NonNull<u8>,
    len: usize,
    life: PhantomData<&'a u8>,
}

impl<'a> Extent<'a> {
    /// The extent of a slice.
    #[must_use]
    pub fn from_slice(bytes: &'a [u8]) -> Extent<'a> {
        Extent { ptr: NonNull::from(bytes).cast(), len: bytes.len(), life: PhantomData }
    }

    /// The extent of `len` bytes at `ptr`.
    ///
    /// # Safety
    /// `ptr .. ptr + len` must be readable for all of `'a`.
    #[must_use]
    pub const unsafe fn from_raw(ptr: NonNull<u8>, len: usize) -> Extent<'a> {
        Extent { ptr, len, life: PhantomData }
    }

    /// First byte.
    #[must_use]
    pub const fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// Copies the bytes into `out`, as many as both have.
    pub fn copy_to(&self, out: &mut [u8]) {
        let count = self.len.min(out.len());
        // SAFETY: so many bytes are readable, and `out` is exclusively borrowed.
        unsafe { core::ptr::copy_nonoverlapping(self.ptr.as_ptr(), out.as_mut_ptr(), count) };
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when there is no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

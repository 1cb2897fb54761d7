//! Asking the caches for lines before they are needed.

/// Bytes of a cache line, at least.
const LINE: usize = 64;

/// Asks for the lines of a value, to read and write them soon. It is a hint: nothing is read or written.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_bytes(core::ptr::from_ref(value).cast(), size_of_val(value));
}

/// Asks for the lines of `len` bytes from `at` on. No address is wrong.
#[inline]
pub fn prefetch_bytes(at: *const u8, len: usize) {
    for offset in (0..len).step_by(LINE) {
        line(at.wrapping_add(offset));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn line(at: *const u8) {
    // SAFETY: a prefetch changes no memory and no register, and faults nowhere; where the processor does not know it, it does nothing.
    unsafe { core::arch::asm!("prefetchw [{}]", in(reg) at, options(readonly, nostack, preserves_flags)) };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
fn line(at: *const u8) {
    // SAFETY: a prefetch changes no memory and no register, and faults nowhere.
    unsafe { core::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(readonly, nostack, preserves_flags)) };
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
const fn line(_at: *const u8) {}

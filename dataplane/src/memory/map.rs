//! A file as memory that the NIC and other programs share.

use core::ptr::NonNull;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The first bytes of a file, mapped shared, to be read and written.
pub(super) struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes. The file is made as long where it is shorter, and its room is reserved: a write never finds the disk full.
    pub(super) fn new(file: &File, len: usize) -> io::Result<Mapping> {
        let length = libc::off_t::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a mapping has one byte at least"));
        }
        // SAFETY: the descriptor is open as long as the file is borrowed; the call touches no memory of ours.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        // SAFETY: a new mapping at an address that the system chooses; it takes the place of nothing. The descriptor is open.
        let ptr = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ptr = NonNull::new(ptr.cast()).ok_or_else(|| io::Error::other("the mapping begins at address 0"))?;
        Ok(Mapping { ptr, len })
    }

    pub(super) const fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing refers into it any more: its buffer goes with it.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

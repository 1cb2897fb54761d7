//! Memory that the NIC reads and writes while its owner does the same.

use super::Extent;
use super::map::Mapping;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::io;
use std::sync::Arc;

const ALIGN: usize = 4096;

/// From this size on memory is in huge pages, where the system gives them on demand: copies all over it look up fewer pages.
const HUGE: usize = 2 << 20;

/// A run of page-aligned memory that can be registered: zeroed memory of its own, or a file that other programs may map too. It is reached by copies alone, never by reference: a remote may write it
/// at any time, as with any RDMA NIC. What a read returns while a remote writes the same bytes is not defined byte for byte; a
/// completion says when they have settled.
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
    home: Home,
}

/// Whose the memory of a buffer is.
enum Home {
    /// It was allocated for the buffer.
    Own,
    /// It is a part of a file.
    Mapped {
        /// Unmaps it when it goes.
        _mapping: Mapping,
    },
    /// It is somebody else's, who has promised to leave it where it is.
    Foreign,
}

// SAFETY: the buffer owns its allocation or mapping, or was promised that the memory stays, and all access goes through raw copies that hold no reference into it.
unsafe impl Send for Buffer {}
// SAFETY: as above; that concurrent copies of the same bytes are ordered is the contract between application and NIC
// (a range given to a posted Write, or exposed to a remote, is left alone until its completion).
unsafe impl Sync for Buffer {}

/// A range that does not lie inside a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {at} to {at} + {len} lie outside a buffer of {size} bytes")]
pub struct OutOfRange {
    /// First byte asked for.
    pub at: usize,
    /// How many.
    pub len: usize,
    /// Size of the buffer.
    pub size: usize,
}

impl Buffer {
    /// Allocates `len` zeroed bytes.
    #[must_use]
    pub fn new(len: usize) -> Arc<Buffer> {
        Self::try_new(len).unwrap_or_else(|| match Self::layout(len) {
            Some(layout) => handle_alloc_error(layout),
            None => panic!("a buffer is smaller than the address space"),
        })
    }

    /// Allocates `len` zeroed bytes; `None` where there are not so many.
    #[must_use]
    pub fn try_new(len: usize) -> Option<Arc<Buffer>> {
        let layout = Self::layout(len)?;
        let ptr = if len < HUGE {
            // SAFETY: the layout has a size of at least one byte.
            NonNull::new(unsafe { alloc_zeroed(layout) })?
        } else {
            // SAFETY: as above.
            let ptr = NonNull::new(unsafe { alloc(layout) })?;
            want_huge_pages(ptr, len);
            // SAFETY: so many bytes were allocated. The first to write them, so that their pages are what was asked for.
            unsafe { ptr.write_bytes(0, len) };
            ptr
        };
        Some(Arc::new(Buffer { ptr, len, home: Home::Own }))
    }

    /// The first `len` bytes of `file`, 1 at least, shared with whoever maps it too. The file was opened to be read and written; a shorter one
    /// is made as long, and what it holds stays. Nobody may make it shorter while it is mapped: the process would get SIGBUS.
    ///
    /// # Errors
    /// What the system says: no room, no permission, or a file that can't be mapped.
    pub fn map(file: &File, len: usize) -> io::Result<Arc<Buffer>> {
        let mapping = Mapping::new(file, len)?;
        Ok(Arc::new(Buffer { ptr: mapping.ptr(), len, home: Home::Mapped { _mapping: mapping } }))
    }

    /// `len` bytes at `ptr` that are somebody else's: they are not copied, and are left as they are when the buffer goes.
    ///
    /// # Safety
    /// The bytes are readable, and writable if the buffer is registered with remote access or written here, until the last reference to the
    /// buffer is gone. Nobody holds a Rust reference to any of them for longer than nothing else touches them.
    #[must_use]
    pub unsafe fn foreign(ptr: NonNull<u8>, len: usize) -> Arc<Buffer> {
        Arc::new(Buffer { ptr, len, home: Home::Foreign })
    }

    /// Whole pages, so that what is mapped for devices is nobody else's.
    fn layout(len: usize) -> Option<Layout> {
        let size = len.max(1).checked_next_multiple_of(ALIGN)?;
        Layout::from_size_align(size, if len < HUGE { ALIGN } else { HUGE }).ok()
    }

    /// The whole pages of `page` bytes, a power of two, that are the buffer's alone, as address and length; `None` where there is none. Memory of its
    /// own it has to the end of the last page. Of memory of others, whose first and last page may hold what is not the buffer's, these are left out.
    #[must_use]
    pub fn pages(&self, page: usize) -> Option<(usize, usize)> {
        let room = match &self.home {
            Home::Own => Self::layout(self.len)?.size(),
            // The system maps files by whole pages.
            Home::Mapped { .. } => self.len.checked_next_multiple_of(page)?,
            Home::Foreign => self.len,
        };
        let start = self.ptr.as_ptr().expose_provenance();
        let from = start.checked_next_multiple_of(page)?;
        let end = start.checked_add(room)?;
        let len = end.checked_sub(end % page)?.checked_sub(from)?;
        (len > 0).then_some((from, len))
    }

    /// Size in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True for a buffer of no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.ptr.as_ptr().expose_provenance() as u64
    }

    /// A pointer to `len` bytes at `at`, when they lie inside.
    pub(super) fn at(&self, at: usize, len: usize) -> Result<NonNull<u8>, OutOfRange> {
        let out = OutOfRange { at, len, size: self.len };
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(out);
        }
        // SAFETY: `at` is at most the length of the allocation.
        Ok(unsafe { self.ptr.add(at) })
    }

    /// Copies `bytes` into the buffer at `at`.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is written then.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        let to = self.at(at, bytes.len())?;
        // SAFETY: `to` has room for the bytes, and no reference into the buffer exists, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes at `at` out of the buffer, as many as `out` holds.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing is read then.
    pub fn read(&self, at: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.at(at, out.len())?;
        // SAFETY: `from` has so many readable bytes, and no reference into the buffer exists.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies `len` bytes of `from`, from `from_at` on, to `at`.
    ///
    /// # Errors
    /// [`OutOfRange`], of either; nothing is written then.
    pub fn copy(&self, at: usize, from: &Buffer, from_at: usize, len: usize) -> Result<(), OutOfRange> {
        let (to, from) = (self.at(at, len)?, from.at(from_at, len)?);
        // SAFETY: both have so many bytes, which may be the same ones.
        unsafe { core::ptr::copy(from.as_ptr(), to.as_ptr(), len) };
        Ok(())
    }

    /// The bytes at `at` as an extent.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn extent(&self, at: usize, len: usize) -> Result<Extent<'_>, OutOfRange> {
        let ptr = self.at(at, len)?;
        // SAFETY: the bytes are readable for as long as the buffer is borrowed.
        Ok(unsafe { Extent::from_raw(ptr, len) })
    }
}

/// Asks for huge pages in memory that was not written yet. A system that has none goes on with what it has.
fn want_huge_pages(ptr: NonNull<u8>, len: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: advice about pages of ours, aligned to them; it changes no byte.
    unsafe {
        libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (ptr, len);
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if matches!(self.home, Home::Own)
            && let Some(layout) = Self::layout(self.len)
        {
            // SAFETY: allocated in `try_new` with this layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_refuses_ranges_that_leave_it_or_wrap() {
        let buffer = Buffer::new(100);
        assert!(buffer.write(96, &[1; 4]).is_ok());
        assert!(buffer.write(97, &[1; 4]).is_err());
        assert!(buffer.write(usize::MAX, &[1; 4]).is_err());
        assert!(buffer.read(100, &mut []).is_ok());
        assert!(buffer.extent(0, 101).is_err());
        let mut out = [0; 5];
        buffer.read(95, &mut out).unwrap();
        assert_eq!(out, [0, 1, 1, 1, 1]);
        buffer.copy(94, &buffer, 95, 3).unwrap();
        assert!(buffer.copy(98, &buffer, 0, 3).is_err() && buffer.copy(0, &buffer, 98, 3).is_err());
        buffer.read(93, &mut out).unwrap();
        assert_eq!(out, [0, 0, 1, 1, 1]);
    }

    #[test]
    fn pages_of_a_buffer_hold_nothing_of_anybody_else() {
        for (len, whole) in [(1, 4096), (4096, 4096), (4097, 8192), (HUGE + 1, HUGE + 4096)] {
            let buffer = Buffer::new(len);
            assert_eq!(buffer.pages(4096), Some((buffer.address() as usize, whole)), "{len}");
        }
        let own = Buffer::new(5 * 4096);
        let start = own.address() as usize;
        let foreign = |at: usize, len: usize| {
            // SAFETY: within a buffer that outlives this one, and nothing is written.
            unsafe { Buffer::foreign(own.at(at, len).unwrap(), len) }.pages(4096)
        };
        assert_eq!(foreign(0, 8192), Some((start, 8192)));
        assert_eq!(foreign(1, 8191), Some((start + 4096, 4096)));
        assert_eq!(foreign(4095, 8194), Some((start + 4096, 8192)));
        assert_eq!(foreign(4096, 8191), Some((start + 4096, 4096)));
        assert_eq!((foreign(1, 8190), foreign(0, 4095), foreign(4096, 0)), (None, None, None));
    }

    #[test]
    fn a_buffer_over_a_file_is_the_file_and_leaves_what_it_holds() {
        let path = std::env::temp_dir().join(format!("mrcnic-map-{}", std::process::id()));
        std::fs::write(&path, [7; 10]).unwrap();
        let open = |write| File::options().read(true).write(write).open(&path).unwrap();
        let buffer = Buffer::map(&open(true), 5000).unwrap();
        let other = Buffer::map(&open(true), 100).unwrap();
        assert_eq!((std::fs::metadata(&path).unwrap().len(), buffer.len(), buffer.address() % 4096), (5000, 5000, 0));
        let mut out = [0; 11];
        buffer.read(0, &mut out).unwrap();
        assert_eq!(out, [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
        buffer.write(98, &[1, 2, 3]).unwrap();
        let mut seen = [0; 2];
        other.read(98, &mut seen).unwrap();
        assert_eq!(seen, [1, 2]);
        assert!(other.read(98, &mut [0; 3]).is_err());
        drop((buffer, other));
        let file = std::fs::read(&path).unwrap();
        assert_eq!((file.len(), &file[98..101]), (5000, &[1, 2, 3][..]), "a mapping does not make a file shorter");
        assert!(Buffer::map(&open(true), 0).is_err());
        assert!(Buffer::map(&open(false), 100).is_err(), "not opened to be written");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_buffer_over_memory_of_others_is_that_memory_and_leaves_it_there() {
        let mut bytes = vec![7_u8; 100];
        let ptr = NonNull::new(bytes.as_mut_ptr()).unwrap();
        // SAFETY: the vector outlives the buffer, and is not looked at while there is one.
        let buffer = unsafe { Buffer::foreign(ptr, 100) };
        assert_eq!((buffer.len(), buffer.address()), (100, ptr.as_ptr().addr() as u64));
        buffer.write(98, &[1, 2]).unwrap();
        assert!(buffer.write(99, &[1, 2]).is_err());
        drop(buffer);
        assert_eq!((bytes[97], bytes[98], bytes[99]), (7, 1, 2));
    }

    #[test]
    fn a_buffer_that_no_machine_has_room_for_is_none() {
        assert!(Buffer::try_new(1 << 62).is_none() && Buffer::try_new(usize::MAX).is_none());
        assert_eq!(Buffer::try_new(10).map(|buffer| buffer.len()), Some(10));
    }

    #[test]
    fn a_buffer_starts_zeroed_and_page_aligned() {
        let buffer = Buffer::new(5000);
        assert_eq!(buffer.address() % 4096, 0);
        let mut out = vec![1; 5000];
        buffer.read(0, &mut out).unwrap();
        assert!(out.iter().all(|&b| b == 0));
    }
}

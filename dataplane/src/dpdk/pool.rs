//! Mempools: where mbufs live.

use core::ptr::{NonNull, null, null_mut};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk_sys as sys;

use super::error::{Error, rte_errno, strerror};
use super::log::capture;

/// Bytes before the data of an mbuf (DPDK's RTE_PKTMBUF_HEADROOM).
pub(super) const HEADROOM: usize = sys::RTE_PKTMBUF_HEADROOM as usize;

/// Bytes of DPDK's `struct rte_mbuf`, of which the second half is for chains and for references to memory of others.
pub(super) const MBUF: usize = 128;
const _: () = assert!(size_of::<sys::rte_mbuf>() == MBUF);

/// Objects that each thread keeps at hand; DPDK allows 512.
const CACHE: u32 = 512;

/// The kind of mempool that lends first what came back last (in librte_mempool_stack): so few mbufs are in use, and their lines and pages stay in the
/// caches. In DPDK's usual ring each is used once before the first is used again.
const LAST_FIRST: &CStr = c"stack";

/// DPDK's SOCKET_ID_ANY.
const ANY_SOCKET: i32 = -1;

/// The page that `--no-huge` memory is made of.
const PAGE: usize = 4_096;

/// The most that a data room may measure: DPDK counts it in 16 bits, headroom included.
pub(super) const MAX_FRAME: usize = u16::MAX as usize - HEADROOM;

/// A mempool of mbufs. Freed on drop, once all mbufs are back.
#[derive(Debug)]
pub(super) struct Pool {
    raw: NonNull<sys::rte_mempool>,
    count: u32,
}

// SAFETY: a mempool may be used by many threads at once (it is created multi-producer, multi-consumer).
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of `count` mbufs with room for `frame` bytes each: a stack of them, unless the platform has a kind of its own, or the driver for stacks
    /// is not installed. The best counts are one less than a power of two, for rings.
    pub(super) fn new(what: &str, count: u32, frame: usize) -> Result<Pool, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = CString::new(format!("mrc_pool_{}", NUMBER.fetch_add(1, Ordering::Relaxed))).unwrap_or_default();
        let room = u16::try_from(frame + HEADROOM).unwrap_or(u16::MAX);
        // DPDK wants the caches' threshold within the pool; a small pool must not vanish in them.
        let cache = CACHE.min(count / 8);
        // SAFETY: EAL is up (a port holds its token).
        let has_own = !unsafe { sys::rte_mbuf_platform_mempool_ops() }.is_null();
        // Without a name DPDK chooses.
        let kinds = [if has_own { null() } else { LAST_FIRST.as_ptr() }, null()];
        let (raw, said) = capture(|| {
            // SAFETY: as above; the names outlive the calls.
            let create = |kind| unsafe {
                sys::rte_pktmbuf_pool_create_by_ops(name.as_ptr(), count, cache, 0, room, ANY_SOCKET, kind)
            };
            kinds.into_iter().map(create).find(|raw| !raw.is_null()).unwrap_or(null_mut())
        });
        match NonNull::new(raw) {
            Some(raw) => Ok(Pool { raw, count }),
            None if rte_errno() == libc::ENOMEM => {
                Err(Error::NoMemory { what: what.to_owned(), mib: Pool::bytes(count, frame) >> 20, said })
            }
            None => {
                Err(Error::Port { spec: what.to_owned(), step: "making a mempool", why: strerror(rte_errno()), said })
            }
        }
    }

    /// About what a pool takes of DPDK's memory.
    pub(super) fn bytes(count: u32, frame: usize) -> usize {
        // Header of the mempool, struct rte_mbuf, headroom and data. Without hugepages, no object lies across pages.
        let object = (64 + MBUF + HEADROOM + frame).next_multiple_of(64);
        let objects = if object > PAGE {
            count as usize * object.next_multiple_of(PAGE)
        } else {
            (count as usize).div_ceil(PAGE / object) * PAGE
        };
        // The ring of free objects, and a cache for each of 128 lcores.
        objects + (count as usize).next_power_of_two() * 8 + (2 << 20)
    }

    pub(super) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.raw.as_ptr()
    }
}

/// Where the frame of a reserved mbuf begins: its pool has no room of the application's own between mbuf and headroom. It is not read for that.
#[inline(always)]
pub(super) const fn frame_of(mbuf: *mut sys::rte_mbuf) -> *mut u8 {
    mbuf.cast::<u8>().wrapping_add(MBUF + HEADROOM)
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is live. It is freed only when every mbuf is back, so none can be reached any more.
        unsafe {
            let back = sys::rte_mempool_avail_count(self.raw.as_ptr());
            if back == self.count {
                sys::rte_mempool_free(self.raw.as_ptr());
            } else {
                // A driver kept some: memory that is lost is better than memory that is used after its end.
                tracing::debug!(missing = self.count - back.min(self.count), "a mempool is left to DPDK");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_frame_takes_two_pages_and_a_small_one_a_part() {
        assert!((16 << 20..20 << 20).contains(&Pool::bytes(2_047, 4_300)));
        assert!((10 << 20..14 << 20).contains(&Pool::bytes(16_383, 256)));
    }
}

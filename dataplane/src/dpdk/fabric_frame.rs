//! An mbuf as a frame of a fabric.

use core::ptr::NonNull;

use dpdk_sys as sys;

use super::pool::Pool;
use super::rx::{Batch, Mbuf};
use crate::fabric::Frame;
use crate::wire::HEAD_MAX;

/// A frame that is inside a fabric. It may be changed: nobody else refers to its bytes, and its headers are in the first segment.
///
/// Over `net_ring` this is the very mbuf that a NIC filled, and that another NIC will read. Between the two it is the fabric's, as it is
/// a switch's on a wire.
#[derive(Debug)]
pub struct MbufFrame {
    mbuf: Mbuf,
    first: NonNull<u8>,
    first_len: u16,
    len: u32,
}

/// How a frame came out of a batch.
#[derive(Debug)]
pub(super) enum Taken {
    AsItWas(MbufFrame),
    Copied(MbufFrame),
    /// There was no mbuf for a copy: it is gone.
    NoMbuf,
    /// There is no such frame.
    Nothing,
}

// SAFETY: the pointer is into the mbuf, of which this is the one owner.
unsafe impl Send for MbufFrame {}

impl MbufFrame {
    /// Takes frame `at` of a batch, which may be changed as it is when `own` says so; else it is copied into mbufs of `spare`.
    #[inline]
    pub(super) fn take(batch: &mut Batch, at: usize, own: bool, spare: &Pool) -> Taken {
        let (Some(seg), Some(mbuf)) = (batch.seg(at), batch.take(at)) else { return Taken::Nothing };
        let headers = usize::from(seg.data_len) >= HEAD_MAX.min(seg.pkt_len as usize);
        if own && headers {
            return MbufFrame::of(mbuf, seg).map_or(Taken::Nothing, Taken::AsItWas);
        }
        MbufFrame::copied(&mbuf, spare).map_or(Taken::NoMbuf, Taken::Copied)
    }

    fn of(mbuf: Mbuf, seg: sys::mrc_seg) -> Option<MbufFrame> {
        let first = NonNull::new(seg.data.cast::<u8>())?;
        Some(MbufFrame { mbuf, first, first_len: seg.data_len, len: seg.pkt_len })
    }

    /// A frame that others refer to, or whose headers are in pieces, is left to them.
    #[cold]
    fn copied(mbuf: &Mbuf, spare: &Pool) -> Option<MbufFrame> {
        // SAFETY: the mbuf and the pool are live. A copy is a chain of its own, in mbufs that each hold more than HEAD_MAX bytes.
        let copy = unsafe { sys::rte_pktmbuf_copy(mbuf.as_ptr(), spare.as_ptr(), 0, u32::MAX) };
        // SAFETY: the copy is ours alone.
        let copy = unsafe { Mbuf::from_raw(NonNull::new(copy)?) };
        let (raw, mut seg) = (copy.as_ptr(), sys::mrc_seg::default());
        // SAFETY: one live mbuf, and room for what is said of it.
        unsafe { sys::mrc_describe(&raw const raw, &raw mut seg, 1) };
        MbufFrame::of(copy, seg)
    }

    /// Hands the mbuf over: whoever gets the pointer owns it.
    pub(super) fn into_raw(self) -> *mut sys::rte_mbuf {
        self.mbuf.into_raw()
    }
}

impl Frame for MbufFrame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the first segment holds so many bytes, which stay while this owns the mbuf; nobody else writes to them.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), usize::from(self.first_len)) }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else reads them.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), usize::from(self.first_len)) }
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.len as usize {
            return;
        }
        self.len = len as u32;
        self.first_len = self.first_len.min(u16::try_from(len).unwrap_or(u16::MAX));
        // SAFETY: the mbuf is ours alone, so segments behind the cut are referred to by nobody else.
        unsafe { sys::mrc_truncate(self.mbuf.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::frame_of;
    use super::super::{Eal, EalOptions, Memory};
    use super::*;
    use crate::nic::RxFrame;

    const MBUFS: u32 = 63;

    struct Bench {
        small: Pool,
        spare: Pool,
        _eal: Eal,
    }

    impl Bench {
        /// An mbuf that holds `bytes`.
        fn mbuf(&self, bytes: &[u8]) -> *mut sys::rte_mbuf {
            let mut mbuf = core::ptr::null_mut();
            // SAFETY: the pool is live and has mbufs left, with room for the bytes.
            unsafe {
                assert_eq!(sys::mrc_tx_reserve(self.small.as_ptr(), &raw mut mbuf, 1), 0);
                sys::mrc_tx_begin(mbuf, 0);
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), frame_of(mbuf), bytes.len());
            }
            mbuf
        }

        /// A chain of pieces of `frame` that are this long.
        fn chain(&self, frame: &[u8], pieces: &[usize]) -> *mut sys::rte_mbuf {
            let (mut at, mut head) = (0, core::ptr::null_mut::<sys::rte_mbuf>());
            for &len in pieces {
                let mbuf = self.mbuf(&frame[at..at + len]);
                // SAFETY: both are live and ours; the lengths are those of their bytes.
                unsafe {
                    if head.is_null() {
                        head = mbuf;
                        // A tail that goes again gives the head its length.
                        assert_eq!(sys::mrc_chain(head, len as u16, self.mbuf(&[0]), 1), 0);
                        sys::mrc_truncate(head, len as u32);
                    } else {
                        let first = self.first_len(head);
                        assert_eq!(sys::mrc_chain(head, first, mbuf, len as u16), 0);
                    }
                }
                at += len;
            }
            head
        }

        fn first_len(&self, mbuf: *mut sys::rte_mbuf) -> u16 {
            let mut seg = sys::mrc_seg::default();
            // SAFETY: a live mbuf.
            unsafe { sys::mrc_describe(&raw const mbuf, &raw mut seg, 1) };
            seg.data_len
        }

        /// The frame, and whether it is the mbuf's own.
        fn take(&self, mbuf: *mut sys::rte_mbuf) -> (MbufFrame, bool) {
            let mut batch = Batch::new();
            // SAFETY: the mbuf is live and ours.
            let mut mbuf = NonNull::new(mbuf).map(|mbuf| unsafe { Mbuf::from_raw(mbuf) });
            batch.refill(|| mbuf.take());
            let own = batch.own() & 1 == 1;
            match MbufFrame::take(&mut batch, 0, own, &self.spare) {
                Taken::AsItWas(frame) => (frame, true),
                Taken::Copied(frame) => (frame, false),
                other => panic!("{other:?}"),
            }
        }

        /// Mbufs that are away from either pool.
        fn away(&self) -> (u32, u32) {
            // SAFETY: live pools.
            let left = |pool: &Pool| MBUFS - unsafe { sys::rte_mempool_avail_count(pool.as_ptr()) };
            (left(&self.small), left(&self.spare))
        }
    }

    /// All bytes of a frame, as a receiver sees them.
    fn bytes(frame: MbufFrame) -> Vec<u8> {
        let mut batch = Batch::new();
        let mut mbuf = Some(frame.mbuf);
        batch.refill(|| mbuf.take());
        let frame = batch.frame(0).expect("a frame");
        let mut all = Vec::new();
        frame.body(0, frame.len(), |piece| {
            // SAFETY: nobody writes to it.
            all.extend_from_slice(unsafe { core::slice::from_raw_parts(piece.as_ptr(), piece.len()) });
        });
        assert_eq!(all.len(), frame.len());
        all
    }

    fn one_segment(bench: &Bench, frame: &[u8]) {
        let (mut taken, own) = bench.take(bench.chain(frame, &[1_000]));
        assert!(own && taken.len() == 1_000 && taken.bytes() == frame);
        taken.bytes_mut()[15] ^= 3;
        taken.truncate(2_000);
        assert_eq!(taken.len(), 1_000);
        taken.truncate(74);
        assert_eq!((taken.len(), taken.bytes().len(), bench.away()), (74, 74, (1, 0)));
        let seen = bytes(taken);
        assert!(seen[15] == frame[15] ^ 3 && seen[16..] == frame[16..74]);
    }

    fn chains(bench: &Bench, frame: &[u8]) {
        for (len, mbufs) in [(1_000, 3), (700, 3), (600, 2), (599, 2), (300, 1), (74, 1), (0, 1)] {
            let (mut taken, own) = bench.take(bench.chain(frame, &[300, 300, 400]));
            assert!(own && taken.bytes() == &frame[..300]);
            taken.truncate(len);
            assert_eq!((taken.len(), taken.bytes().len(), bench.away()), (len, len.min(300), (mbufs, 0)));
            assert_eq!(bytes(taken), frame[..len]);
        }
    }

    fn headers_in_pieces_are_copied_into_one(bench: &Bench, frame: &[u8]) {
        let (taken, own) = bench.take(bench.chain(frame, &[100, 200, 700]));
        assert!(!own && taken.bytes() == frame);
        assert_eq!(bench.away(), (0, 1));
        assert_eq!(bytes(taken), frame);
    }

    fn what_others_refer_to_is_copied_and_left_as_it_is(bench: &Bench, frame: &[u8]) {
        let original = bench.chain(frame, &[600, 400]);
        // SAFETY: a live mbuf, of a pool that has more.
        let clone = unsafe { sys::rte_pktmbuf_clone(original, bench.small.as_ptr()) };
        assert!(!clone.is_null() && bench.away() == (4, 0));
        for shared in [original, clone] {
            let (mut taken, own) = bench.take(shared);
            assert!(!own && taken.bytes() == frame);
            taken.bytes_mut().fill(0);
            taken.truncate(74);
            assert_eq!(bytes(taken), [0; 74]);
        }
        assert_eq!(bench.away(), (0, 0));
    }

    fn a_copy_that_finds_no_mbuf_gives_the_frame_back_to_its_pool(bench: &Bench, frame: &[u8]) {
        let none = Pool::new("none", 1, 2_000).expect("a pool");
        let _held = MbufFrame::copied(&bench.take(bench.chain(frame, &[1_000])).0.mbuf, &none).expect("the only one");
        let mut batch = Batch::new();
        // SAFETY: the mbuf is live and ours.
        let mut mbuf = NonNull::new(bench.chain(frame, &[1_000])).map(|mbuf| unsafe { Mbuf::from_raw(mbuf) });
        batch.refill(|| mbuf.take());
        assert!(matches!(MbufFrame::take(&mut batch, 0, false, &none), Taken::NoMbuf));
        assert!(matches!(MbufFrame::take(&mut batch, 0, false, &none), Taken::Nothing));
        assert_eq!(bench.away(), (0, 0));
    }

    /// Of the pool itself, since a frame that is copied wants lines that the caches have.
    fn the_mbufs_that_came_back_last_are_lent_first(bench: &Bench, _: &[u8]) {
        // More than the thread's cache holds, which is not asked to keep an order.
        let lend = || {
            let mut mbufs = [core::ptr::null_mut(); 32];
            // SAFETY: the pool is live and has as many; they go back as they came.
            unsafe {
                assert_eq!(sys::mrc_tx_reserve(bench.small.as_ptr(), mbufs.as_mut_ptr(), 32), 0);
                sys::mrc_tx_unreserve(bench.small.as_ptr(), mbufs.as_mut_ptr(), 32);
            }
            mbufs
        };
        let first = lend();
        let again = lend().iter().filter(|mbuf| first.contains(mbuf)).count();
        assert!(again >= 24, "{again} of 32");
    }

    /// One test, since DPDK starts once a process.
    #[test]
    fn frames_are_changed_in_place_or_copied_and_all_mbufs_come_back() {
        let options = EalOptions { memory: Memory::NoHuge { mib: 128 }, ..EalOptions::default() };
        let eal = Eal::init(&options).expect("DPDK starts");
        let pool = |room| Pool::new("test", MBUFS, room).expect("a pool");
        let bench = Bench { small: pool(1_024), spare: pool(2_000), _eal: eal };
        let frame: Vec<u8> = (0..1_000).map(|i| (i % 251) as u8).collect();
        for test in [
            one_segment,
            chains,
            headers_in_pieces_are_copied_into_one,
            what_others_refer_to_is_copied_and_left_as_it_is,
            a_copy_that_finds_no_mbuf_gives_the_frame_back_to_its_pool,
            the_mbufs_that_came_back_last_are_lent_first,
        ] {
            test(&bench, &frame);
            assert_eq!(bench.away(), (0, 0));
        }
    }
}

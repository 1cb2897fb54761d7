//! Frames in.

use core::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys as sys;

use super::BURST;
use super::port::Inner;
use crate::memory::Extent;
use crate::nic::{HEAD_MAX, RxFrame};

/// A received frame that went from one worker to another. Freed on drop.
#[derive(Debug)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: whoever has the handle is the one owner of the mbuf; pools may be used from any thread.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// # Safety
    /// The mbuf is live, and the caller's alone.
    pub(super) unsafe fn from_raw(raw: NonNull<sys::rte_mbuf>) -> Mbuf {
        Mbuf(raw)
    }

    pub(super) fn as_ptr(&self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }

    pub(super) fn into_raw(self) -> *mut sys::rte_mbuf {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        let mut raw = self.0.as_ptr();
        // SAFETY: the mbuf is ours, and its pool outlives every port that could have received it.
        unsafe { sys::rte_pktmbuf_free_bulk(&raw mut raw, 1) };
    }
}

/// Up to [`BURST`] received frames.
#[derive(Debug)]
pub struct Batch {
    mbufs: [*mut sys::rte_mbuf; BURST],
    segs: [sys::mrc_seg; BURST],
    len: usize,
    /// Some were taken: their places are null.
    holes: bool,
    /// The head of a frame whose first segment is too short.
    scratch: [u8; HEAD_MAX],
}

// SAFETY: the mbufs in a batch belong to it alone.
unsafe impl Send for Batch {}

impl Batch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Batch {
        Batch {
            mbufs: [core::ptr::null_mut(); BURST],
            segs: [sys::mrc_seg::default(); BURST],
            len: 0,
            holes: false,
            scratch: [0; HEAD_MAX],
        }
    }

    /// How many frames were received.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Frame `index`; `None` when there is none, or it was taken.
    #[inline]
    pub fn frame(&mut self, index: usize) -> Option<Frame<'_>> {
        if index >= self.len {
            return None;
        }
        let mbuf = NonNull::new(*self.mbufs.get(index)?)?;
        let seg = self.segs.get(index)?;
        let first = seg.data.cast::<u8>().cast_const();
        let (first_len, len) = (usize::from(seg.data_len), seg.pkt_len as usize);
        let wanted = len.min(HEAD_MAX);
        let head = if first_len >= wanted {
            // SAFETY: the first segment holds so many bytes, which stay while the batch has the mbuf.
            unsafe { core::slice::from_raw_parts(first, wanted) }
        } else {
            gather(mbuf, first, first_len, self.scratch.get_mut(..wanted)?)
        };
        Some(Frame { head, len, first, first_len, seg, mbuf })
    }

    /// The first piece of frame `index`; `None` when there is none, or it was taken.
    #[inline]
    pub(super) fn first_piece(&self, index: usize) -> Option<&[u8]> {
        if index >= self.len || self.mbufs.get(index)?.is_null() {
            return None;
        }
        let seg = self.segs.get(index)?;
        // SAFETY: the first segment holds so many bytes, which stay while the batch has the mbuf.
        Some(unsafe { core::slice::from_raw_parts(seg.data.cast::<u8>(), usize::from(seg.data_len)) })
    }

    /// What is known of frame `index`, taken or not.
    pub(super) fn seg(&self, index: usize) -> Option<sys::mrc_seg> {
        self.segs.get(index).filter(|_| index < self.len).copied()
    }

    /// Bit i is set when frame i may be changed in place. None was taken yet.
    pub(super) fn own(&self) -> u32 {
        // SAFETY: the first `len` places hold live mbufs that are ours, and they are a burst at most.
        unsafe { sys::mrc_own(self.mbufs.as_ptr(), self.len as u16) }
    }

    /// Takes frame `index` out, to give it to another worker.
    pub fn take(&mut self, index: usize) -> Option<Mbuf> {
        if index >= self.len {
            return None;
        }
        let mbuf = self.mbufs.get_mut(index)?;
        let taken = core::mem::replace(mbuf, core::ptr::null_mut());
        self.holes |= !taken.is_null();
        NonNull::new(taken).map(Mbuf)
    }

    /// Fills an empty batch with frames from other workers, as far as they go.
    pub fn refill(&mut self, mut from: impl FnMut() -> Option<Mbuf>) -> usize {
        self.free();
        for place in &mut self.mbufs {
            let Some(mbuf) = from() else { break };
            *place = mbuf.into_raw();
            self.len += 1;
        }
        if self.len == 0 {
            return 0;
        }
        // SAFETY: the first `len` places hold live mbufs that are ours; both arrays are that long.
        unsafe { sys::mrc_describe(self.mbufs.as_ptr(), self.segs.as_mut_ptr(), self.len as u16) };
        self.len
    }

    /// Gives the frames back to their pools.
    pub fn free(&mut self) {
        if self.holes {
            let mut kept = 0;
            for i in 0..self.len {
                if !self.mbufs[i].is_null() {
                    self.mbufs[kept] = self.mbufs[i];
                    kept += 1;
                }
            }
            self.len = kept;
            self.holes = false;
        }
        if self.len > 0 {
            // SAFETY: the first `len` places hold live mbufs that are ours, and are forgotten next.
            unsafe { sys::mrc_free(self.mbufs.as_mut_ptr(), self.len as u16) };
            self.len = 0;
        }
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.free();
    }
}

#[cold]
fn gather(mbuf: NonNull<sys::rte_mbuf>, first: *const u8, first_len: usize, head: &mut [u8]) -> &[u8] {
    let mut filled = 0;
    walk(mbuf, first, first_len, |data, len| {
        let n = len.min(head.len() - filled);
        // SAFETY: the segment holds `len` bytes, and `n` fit behind those filled; scratch is no part of an mbuf.
        unsafe { core::ptr::copy_nonoverlapping(data, head.as_mut_ptr().add(filled), n) };
        filled += n;
        filled < head.len()
    });
    // A chain shorter than it says: the bytes that aren't there must not be those of another frame.
    head[filled..].fill(0);
    head
}

/// Visits the segments of a chain until `visit` says no.
fn walk(
    mbuf: NonNull<sys::rte_mbuf>,
    first: *const u8,
    first_len: usize,
    mut visit: impl FnMut(*const u8, usize) -> bool,
) {
    let (mut at, mut data, mut len) = (mbuf.as_ptr(), first, first_len);
    while visit(data, len) {
        let (mut next_data, mut next_len) = (core::ptr::null_mut(), 0);
        // SAFETY: `at` is a live mbuf of a chain that the caller has.
        at = unsafe { sys::mrc_next_seg(at, &raw mut next_data, &raw mut next_len) };
        if at.is_null() {
            return;
        }
        (data, len) = (next_data.cast::<u8>().cast_const(), usize::from(next_len));
    }
}

/// A received frame, where the port put it.
#[derive(Debug)]
pub struct Frame<'a> {
    head: &'a [u8],
    len: usize,
    first: *const u8,
    first_len: usize,
    seg: &'a sys::mrc_seg,
    mbuf: NonNull<sys::rte_mbuf>,
}

impl RxFrame for Frame<'_> {
    #[inline]
    fn head(&self) -> &[u8] {
        self.head
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn body<V: FnMut(Extent<'_>)>(&self, at: usize, len: usize, mut visit: V) {
        // Most lie in one segment.
        if self.first_len.min(self.len).checked_sub(at).is_none_or(|behind| behind < len) {
            return self.body_of_segments(at, len, visit);
        }
        // SAFETY: `at .. at + len` lies within the segment, whose bytes stay while the batch has the mbuf.
        visit(unsafe { Extent::from_raw(NonNull::new_unchecked(self.first.add(at).cast_mut()), len) });
    }
}

impl Frame<'_> {
    /// What [`RxFrame::body`] does where not all lies in the first segment.
    #[inline(never)]
    fn body_of_segments<V: FnMut(Extent<'_>)>(&self, at: usize, len: usize, mut visit: V) {
        let end = at.saturating_add(len).min(self.len);
        // Where the current segment starts within the frame.
        let mut start = 0;
        let mut piece = |data: *const u8, seg_len: usize| {
            let (from, to) = (at.max(start), end.min(start + seg_len));
            if from < to {
                // SAFETY: `from .. to` lies within the segment, whose bytes stay while the batch has the mbuf.
                let extent = unsafe {
                    let data = data.add(from - start).cast_mut();
                    Extent::from_raw(NonNull::new_unchecked(data), to - from)
                };
                visit(extent);
            }
            start += seg_len;
            start < end
        };
        if usize::from(self.seg.nb_segs) > 1 + self.seg.more.len() {
            walk(self.mbuf, self.first, self.first_len, piece);
            return;
        }
        let mut goes_on = piece(self.first, self.first_len);
        let behind = usize::from(self.seg.nb_segs).saturating_sub(1);
        for (&data, &len) in self.seg.more.iter().zip(&self.seg.more_len).take(behind) {
            goes_on = goes_on && piece(data.cast::<u8>().cast_const(), len.into());
        }
    }
}

/// The receiving side of a queue.
#[derive(Debug)]
pub struct RxQueue {
    batch: Batch,
    queue: u16,
    port: Arc<Inner>,
}

impl RxQueue {
    pub(super) fn new(port: Arc<Inner>, queue: u16) -> RxQueue {
        RxQueue { batch: Batch::new(), queue, port }
    }

    /// True when it is a queue of this port.
    pub(super) fn is_of(&self, port: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.port, port)
    }

    /// Receives up to [`BURST`] frames; those of the burst before are given back first.
    #[inline]
    pub fn burst(&mut self) -> &mut Batch {
        self.batch.free();
        let _within = match &self.port.gate {
            None => None,
            Some(gate) => match gate.enter(self.queue, false) {
                None => return &mut self.batch,
                within => within,
            },
        };
        let (mbufs, segs) = (self.batch.mbufs.as_mut_ptr(), self.batch.segs.as_mut_ptr());
        // SAFETY: the port runs and this is its one user of the queue; both arrays have room for a burst.
        let n = unsafe { sys::mrc_rx_burst(self.port.id, self.queue, mbufs, segs, BURST as u16) };
        self.batch.len = usize::from(n);
        &mut self.batch
    }

    /// The last burst.
    pub(super) fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }
}

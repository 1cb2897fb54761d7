//! Received frames, without the core knowing who carries them.

use super::Extent;

/// A received frame, without FCS.
pub trait RxFrame {
    /// The first bytes in one piece: at least [`HEAD_MAX`](crate::wire::HEAD_MAX) of them, or the whole frame.
    fn head(&self) -> &[u8];

    /// Length of the whole frame in bytes.
    fn len(&self) -> usize;

    /// True when the frame has no byte at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` for each contiguous piece of the bytes `at .. at + len`, in order. What lies beyond the end of the frame is
    /// left out. The bytes may alias live application memory, so only [`crate::memory`] looks inside.
    fn body<V: FnMut(Extent<'_>)>(&self, at: usize, len: usize, visit: V);
}

/// A frame in one piece of ordinary memory: tests, captures and virtual time.
impl RxFrame for &[u8] {
    fn head(&self) -> &[u8] {
        self
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn body<V: FnMut(Extent<'_>)>(&self, at: usize, len: usize, mut visit: V) {
        let end = at.saturating_add(len).min(<[u8]>::len(self));
        if at < end {
            visit(Extent::from_slice(&self[at..end]));
        }
    }
}

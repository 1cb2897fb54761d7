//! Frames in and out, without the core knowing who carries them.
//!
//! A driver (DPDK, virtual time, a test) implements two traits. Both are static dispatch: the engine is compiled
//! once for each driver.

use crate::memory::Extent;

/// Longest header stack that the engine reads: Ethernet, two VLAN tags, IPv6 in IPv6 with a one-segment SRH, UDP,
/// BTH and the longest run of extension headers. A driver makes so many bytes contiguous, or the whole frame.
pub const HEAD_MAX: usize = 256;

/// A port of a NIC, counted from 0 in the order in which the NIC got them. It is not DPDK's port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortId(pub u8);

/// A received frame, without FCS.
pub trait RxFrame {
    /// The first bytes in one piece: at least `min(len(), HEAD_MAX)` of them.
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

/// Frames on their way out. The engine asks for a slot, fills all of it, and commits it.
pub trait TxBurst {
    /// Lends room for a frame of exactly `len` bytes on `port`; `None` when the port's queue or pool is full
    /// (the engine asks again at its next turn). A slot that is not committed is lent again.
    fn slot(&mut self, port: PortId, len: usize) -> Option<&mut [u8]>;

    /// The slot lent last is complete. The driver reports its acceptance by the port, in order, through
    /// [`crate::nic::Nic::sent`].
    fn commit(&mut self);
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

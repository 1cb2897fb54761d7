//! Frames on their way out, without the core knowing who carries them.

/// A port of a NIC, counted from 0 in the order in which the NIC got them. It is not DPDK's port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortId(pub u8);

/// Frames on their way out. The engine asks for a slot, fills all of it, and commits it.
pub trait TxBurst {
    /// Lends room for a frame of exactly `len` bytes on `port`; `None` when the port's queue or pool is full
    /// (the engine asks again at its next turn). A slot that is not committed is lent again.
    fn slot(&mut self, port: PortId, len: usize) -> Option<&mut [u8]>;

    /// The slot lent last is complete. The driver reports its acceptance by the port, in order, through
    /// [`crate::nic::Nic::sent`].
    fn commit(&mut self);
}

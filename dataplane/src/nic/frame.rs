//! Frames on their way out, without the core knowing who carries them.

use crate::memory::Lent;

/// A port of a NIC, counted from 0 in the order in which the NIC got them. It is not DPDK's port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortId(pub u8);

/// Which payload a port carries as a segment that refers to registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// None: it is copied.
    None,
    /// All: who sends the frames reads them as this process does.
    All,
    /// What was mapped for its device, which reads it by itself: [`crate::nic::Nic::set_mapped`].
    Mapped,
}

/// Frames on their way out. The engine asks for a slot, fills all of it, and commits it.
pub trait TxBurst {
    /// Lends room for a frame of exactly `len` bytes on `port`; `None` when the port's queue or pool is full
    /// (the engine asks again at its next turn). A slot that is not committed is lent again.
    fn slot(&mut self, port: PortId, len: usize) -> Option<&mut [u8]>;

    /// Which payload may frames on `port` carry as a segment that refers to registered memory?
    fn takes_pieces(&self, _port: PortId) -> Pieces {
        Pieces::None
    }

    /// Lends room for a frame of which `piece` is the middle: `head` bytes before and `tail` bytes behind it. It is committed as any slot. The
    /// piece comes back once nobody reads the frame any more, or at once where there is no slot.
    fn slot_around(
        &mut self,
        _port: PortId,
        _head: usize,
        _piece: Lent,
        _tail: usize,
    ) -> Option<(&mut [u8], &mut [u8])> {
        None
    }

    /// The owner of pieces waits for them. Frames that no port has taken yet get copies, and ports that keep what they have sent give it back.
    fn copy_pieces(&mut self) {}

    /// The slot lent last is complete. The driver reports its acceptance by the port, in order, through
    /// [`crate::nic::Nic::sent`].
    fn commit(&mut self);
}

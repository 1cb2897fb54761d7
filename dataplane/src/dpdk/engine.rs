//! The protocol engine, as the worker loop drives it.

use super::lane::Engine;
use super::tx::TxPorts;
use crate::Ns;
use crate::nic::{Nic, PortId, RxFrame, owner};
use crate::wire::source_address;

impl Engine for Nic {
    #[inline]
    fn receive<F: RxFrame>(&mut self, now: Ns, port: PortId, frame: &F) {
        // The engine has counted why, if the frame had no effect.
        let _ = Nic::receive(self, now, port, frame);
    }

    #[inline]
    fn expect(&mut self, head: &[u8]) {
        Nic::expect(self, head);
    }

    #[inline]
    fn on_idle(&mut self, now: Ns) {
        Nic::on_idle(self, now);
    }

    #[inline]
    fn on_time(&mut self, now: Ns) {
        Nic::on_time(self, now);
    }

    #[inline]
    fn transmit(&mut self, now: Ns, out: &mut TxPorts) -> usize {
        Nic::transmit(self, now, out)
    }

    #[inline]
    fn replies_wait(&self) -> bool {
        Nic::replies_wait(self)
    }

    #[inline]
    fn sent(&mut self, now: Ns, port: PortId, frames: usize) {
        Nic::sent(self, now, port, frames);
    }

    #[inline]
    fn owner(head: &[u8], workers: usize) -> Option<usize> {
        source_address(head).map(|source| owner(source, workers))
    }
}

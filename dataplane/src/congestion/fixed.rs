//! A constant window.

use super::{Congestion, SackSignal};
use crate::Ns;

/// A window that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    bytes: u64,
}

impl FixedWindow {
    /// A window of `bytes`, but of one full packet (`full` bytes) at least, so that sending never stops.
    #[must_use]
    pub fn new(bytes: u64, full: u32) -> FixedWindow {
        FixedWindow { bytes: bytes.max(u64::from(full)) }
    }
}

impl Congestion for FixedWindow {
    #[inline]
    fn window(&self) -> u64 {
        self.bytes
    }

    #[inline]
    fn on_sack(&mut self, _now: Ns, _signal: &SackSignal, _before: u64, _inflight: u64) {}

    #[inline]
    fn on_nack(&mut self, _now: Ns, _nominal: u32, _trimmed: bool, _inflight: u64) {}

    #[inline]
    fn on_loss(&mut self, _now: Ns, _nominal: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_smaller_than_a_full_packet_holds_one() {
        assert_eq!(FixedWindow::new(100, 4156).window(), 4156);
        assert_eq!(FixedWindow::new(450_000, 4156).window(), 450_000);
    }
}

//! How much may be in flight to a destination.
//!
//! An algorithm decides the window from what SACKs, NACKs and losses tell; [`Window`] holds it together with the exact
//! number of bytes in flight.

mod fixed;

pub use fixed::FixedWindow;

use crate::Ns;

/// The window of a new destination in bytes: 1.5 bandwidth-delay products at 400 Gbps and 6 us (Scala MRC NIC documentation,
/// ScalaMrcNscc, `ConfigBaseRTT`).
pub const DEFAULT_WINDOW: u64 = 450_000;

/// What a SACK tells an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackSignal {
    /// Bytes that the responder newly counts as received.
    pub new_bytes: u64,
    /// The packet that drew the SACK was ECN-marked.
    pub ecn: bool,
    /// Round-trip time in ns, where the SACK gives a valid sample.
    pub rtt: Option<u64>,
    /// Host back-pressure, 0 to 127.
    pub penalty: u8,
    /// The window may return to what it was before the penalty.
    pub restore: bool,
}

/// A congestion control algorithm: one window in bytes. (UEC NSCC has this shape; see `docs/protocol.md`.)
pub trait Congestion {
    /// The window in bytes; never less than one full packet.
    fn window(&self) -> u64;

    /// A SACK came; `inflight` is what was in flight before it.
    fn on_sack(&mut self, now: Ns, signal: &SackSignal, inflight: u64);

    /// A NACK came for an outstanding packet of `nominal` bytes.
    fn on_nack(&mut self, now: Ns, nominal: u32, trimmed: bool);

    /// A packet of `nominal` bytes was presumed lost, by a SACK gap or a timeout.
    fn on_loss(&mut self, now: Ns, nominal: u32);
}

/// The algorithm of a window. An enum, so that the calls are direct.
#[derive(Clone, Debug)]
pub enum Algorithm {
    /// A constant window.
    Fixed(FixedWindow),
}

impl Congestion for Algorithm {
    #[inline]
    fn window(&self) -> u64 {
        match self {
            Algorithm::Fixed(fixed) => fixed.window(),
        }
    }

    #[inline]
    fn on_sack(&mut self, now: Ns, signal: &SackSignal, inflight: u64) {
        match self {
            Algorithm::Fixed(fixed) => fixed.on_sack(now, signal, inflight),
        }
    }

    #[inline]
    fn on_nack(&mut self, now: Ns, nominal: u32, trimmed: bool) {
        match self {
            Algorithm::Fixed(fixed) => fixed.on_nack(now, nominal, trimmed),
        }
    }

    #[inline]
    fn on_loss(&mut self, now: Ns, nominal: u32) {
        match self {
            Algorithm::Fixed(fixed) => fixed.on_loss(now, nominal),
        }
    }
}

/// An algorithm and the bytes in flight that it governs: the sum of the nominal sizes of all transmissions in flight, each
/// removed once.
#[derive(Clone, Debug)]
pub struct Window {
    algorithm: Algorithm,
    inflight: u64,
}

impl Window {
    /// A window with nothing in flight.
    #[must_use]
    pub const fn new(algorithm: Algorithm) -> Window {
        Window { algorithm, inflight: 0 }
    }

    /// May another packet of `full` bytes be sent?
    #[inline]
    #[must_use]
    pub fn can_send(&self, full: u32) -> bool {
        self.inflight + u64::from(full) <= self.algorithm.window()
    }

    /// Bytes in flight.
    #[inline]
    #[must_use]
    pub const fn inflight(&self) -> u64 {
        self.inflight
    }

    /// A packet was sent.
    #[inline]
    pub fn sent(&mut self, nominal: u32) {
        self.inflight += u64::from(nominal);
    }

    /// A packet that was in flight no longer is.
    #[inline]
    pub fn settled(&mut self, nominal: u32) {
        debug_assert!(self.inflight >= u64::from(nominal), "bytes in flight went below zero");
        self.inflight = self.inflight.saturating_sub(u64::from(nominal));
    }

    /// The algorithm, to be told of an event.
    #[inline]
    pub fn algorithm(&mut self) -> &mut Algorithm {
        &mut self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_sent_only_when_a_full_one_fits_into_the_window() {
        let mut window = Window::new(Algorithm::Fixed(FixedWindow::new(10_000, 4156)));
        window.sent(4156);
        assert!(window.can_send(4156));
        window.sent(4156);
        assert!(!window.can_send(4156));
        window.settled(4156);
        assert!(window.can_send(4156));
        assert_eq!(window.inflight(), 4156);
    }
}

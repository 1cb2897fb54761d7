//! How much may be in flight to a destination.
//!
//! An algorithm decides the window from what SACKs, NACKs and losses tell; [`Window`] holds it together with the exact
//! number of bytes in flight. Which algorithm, [`profile`]s say.

mod fixed;
mod nscc;
pub mod profile;
mod unlimited;

pub use fixed::FixedWindow;
pub use nscc::{Nscc, NsccError, NsccParams, NsccSnapshot, Rule, WINDOW_MAX};
pub use unlimited::Unlimited;

use crate::Ns;

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
///
/// Where bytes in flight are asked for, they are exact, and what the event settled is no longer among them.
pub trait Congestion {
    /// Bytes that may be in flight: never less than one full packet; [`u64::MAX`] where nothing limits them.
    fn window(&self) -> u64;

    /// The window as it is computed, whether it limits or not: a packet that finds it full asks for an ACK.
    fn computed(&self) -> u64 {
        self.window()
    }

    /// A SACK came. `before` it so many bytes were in flight, and `inflight` are left.
    fn on_sack(&mut self, now: Ns, signal: &SackSignal, before: u64, inflight: u64);

    /// A NACK came for a packet of `nominal` bytes that was in flight.
    fn on_nack(&mut self, now: Ns, nominal: u32, trimmed: bool, inflight: u64);

    /// A packet of `nominal` bytes was presumed lost, by a SACK gap or a timeout.
    fn on_loss(&mut self, now: Ns, nominal: u32);
}

/// The algorithm of a window. An enum, so that the calls are direct.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each destination; a box would cost each SACK a cache line more")]
pub enum Algorithm {
    /// No limit.
    Unlimited(Unlimited),
    /// A constant window.
    Fixed(FixedWindow),
    /// NSCC.
    Nscc(Nscc),
}

impl Algorithm {
    /// What can be seen of NSCC; `None` for an algorithm without a state.
    #[must_use]
    pub const fn snapshot(&self) -> Option<NsccSnapshot> {
        match self {
            Algorithm::Nscc(nscc) => Some(nscc.snapshot()),
            Algorithm::Unlimited(_) | Algorithm::Fixed(_) => None,
        }
    }
}

/// Calls the algorithm, whichever it is.
macro_rules! each {
    ($algorithm:expr, $inner:ident => $call:expr) => {
        match $algorithm {
            Algorithm::Unlimited($inner) => $call,
            Algorithm::Fixed($inner) => $call,
            Algorithm::Nscc($inner) => $call,
        }
    };
}

impl Congestion for Algorithm {
    #[inline]
    fn window(&self) -> u64 {
        each!(self, algorithm => algorithm.window())
    }

    #[inline]
    fn computed(&self) -> u64 {
        each!(self, algorithm => algorithm.computed())
    }

    #[inline]
    fn on_sack(&mut self, now: Ns, signal: &SackSignal, before: u64, inflight: u64) {
        each!(self, algorithm => algorithm.on_sack(now, signal, before, inflight));
    }

    #[inline]
    fn on_nack(&mut self, now: Ns, nominal: u32, trimmed: bool, inflight: u64) {
        each!(self, algorithm => algorithm.on_nack(now, nominal, trimmed, inflight));
    }

    #[inline]
    fn on_loss(&mut self, now: Ns, nominal: u32) {
        each!(self, algorithm => algorithm.on_loss(now, nominal));
    }
}

/// How many bytes may be in flight.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    window: u64,
    computed: u64,
}

impl Allowance {
    /// May another packet of `full` bytes be sent, where `inflight` bytes are in flight?
    #[inline]
    #[must_use]
    pub const fn can_send(&self, inflight: u64, full: u32) -> bool {
        inflight + full as u64 <= self.window
    }

    /// How many packets may be sent of which each counts as `nominal` bytes, where there must be room for `full` each time?
    #[inline]
    #[must_use]
    pub const fn room(&self, inflight: u64, full: u32, nominal: u32) -> u64 {
        match self.window.checked_sub(inflight + full as u64) {
            Some(left) => left / nominal as u64 + 1,
            None => 0,
        }
    }

    /// Does the computed window leave no room for `bytes` more?
    #[inline]
    #[must_use]
    pub const fn is_full_after(&self, inflight: u64, bytes: u32) -> bool {
        inflight + bytes as u64 > self.computed
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
        self.allowance().can_send(self.inflight, full)
    }

    /// What may be in flight, until something is heard or lost.
    #[inline]
    #[must_use]
    pub fn allowance(&self) -> Allowance {
        Allowance { window: self.algorithm.window(), computed: self.algorithm.computed() }
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

    /// Packets that were in flight no longer are.
    #[inline]
    pub fn settled(&mut self, nominal: u64) {
        debug_assert!(self.inflight >= nominal, "bytes in flight went below zero");
        self.inflight = self.inflight.saturating_sub(nominal);
    }

    /// A SACK came, and what it acknowledges is settled; `before` it so many bytes were in flight.
    #[inline]
    pub fn on_sack(&mut self, now: Ns, signal: &SackSignal, before: u64) {
        self.algorithm.on_sack(now, signal, before, self.inflight);
    }

    /// A NACK came for a packet of `nominal` bytes, which is settled.
    #[inline]
    pub fn on_nack(&mut self, now: Ns, nominal: u32, trimmed: bool) {
        self.algorithm.on_nack(now, nominal, trimmed, self.inflight);
    }

    /// A packet of `nominal` bytes was presumed lost, and is settled.
    #[inline]
    pub fn on_loss(&mut self, now: Ns, nominal: u32) {
        self.algorithm.on_loss(now, nominal);
    }

    /// The algorithm, to look at.
    #[must_use]
    pub const fn algorithm(&self) -> &Algorithm {
        &self.algorithm
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

    #[test]
    fn without_an_algorithm_a_packet_is_sent_whatever_is_in_flight() {
        let mut window = Window::new(Algorithm::Unlimited(Unlimited));
        for _ in 0..10 {
            window.sent(u32::MAX);
        }
        assert!(window.can_send(4156));
    }
}

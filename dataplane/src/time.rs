//! Time as the protocol core sees it.
//!
//! The core has no clock: each entry takes `now`, and the driver stamps it once a burst. On a live
//! port it comes from the TSC, in virtual time from the simulation.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time, in nanoseconds since the driver's own start. Monotonic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ns(pub u64);

/// One microsecond in nanoseconds: the tick of the retransmission timers.
pub const US: u64 = 1_000;
/// One millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
/// One second in nanoseconds.
pub const SEC: u64 = 1_000_000_000;
/// The unit of timestamps on the wire, in nanoseconds (OCP MRC 1.0, TSETH with `tsr` 0).
pub const WIRE_TICK: u64 = 128;

impl Ns {
    /// The start of time.
    pub const ZERO: Ns = Ns(0);

    /// Nanoseconds from `earlier` to `self`; 0 when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Ns) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The number of whole microseconds.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0 / US
    }
}

impl Add<u64> for Ns {
    type Output = Ns;
    fn add(self, ns: u64) -> Ns {
        Ns(self.0.saturating_add(ns))
    }
}

impl AddAssign<u64> for Ns {
    fn add_assign(&mut self, ns: u64) {
        *self = *self + ns;
    }
}

impl Sub<u64> for Ns {
    type Output = Ns;
    fn sub(self, ns: u64) -> Ns {
        Ns(self.0.saturating_sub(ns))
    }
}

impl fmt::Debug for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} us", self.0 / US, self.0 % US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_differences_never_wrap() {
        assert_eq!(Ns(5).since(Ns(9)), 0);
        assert_eq!(Ns(9).since(Ns(5)), 4);
        assert_eq!(Ns(u64::MAX) + 1, Ns(u64::MAX));
        assert_eq!(Ns(1) - 2, Ns::ZERO);
    }
}

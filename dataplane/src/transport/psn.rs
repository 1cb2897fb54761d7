//! Packet sequence numbers: 24 bits, compared by signed distance.

use core::fmt;

/// How many PSNs there are.
pub const PSN_SPACE: u32 = 1 << 24;
const MASK: u32 = PSN_SPACE - 1;

/// A packet sequence number, modulo 2^24. There is no total order: two PSNs have a distance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The PSN of the low 24 bits.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Psn {
        Psn(value & MASK)
    }

    /// The 24 bits.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `n` after this one, or before it where `n` is negative.
    #[inline]
    #[must_use]
    pub const fn plus(self, n: i32) -> Psn {
        Psn(self.0.wrapping_add(n as u32) & MASK)
    }

    /// The next PSN.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Psn {
        self.plus(1)
    }

    /// Signed distance from `other` to this PSN: -2^23 to 2^23 - 1.
    #[inline]
    #[must_use]
    pub const fn distance(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }

    /// True when this PSN comes after `other`.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Psn) -> bool {
        self.distance(other) > 0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psns_wrap_at_24_bits() {
        assert_eq!(Psn::new(0xFF_FFFF).next(), Psn::new(0));
        assert_eq!(Psn::new(0x0100_0005), Psn::new(5));
        assert_eq!(Psn::new(2).plus(-3), Psn::new(0xFF_FFFF));
        assert_eq!(Psn::new(1).distance(Psn::new(0xFF_FFFE)), 3);
        assert_eq!(Psn::new(0xFF_FFFE).distance(Psn::new(1)), -3);
    }

    #[test]
    fn a_psn_half_the_space_away_counts_as_behind() {
        assert_eq!(Psn::new(0x80_0000).distance(Psn::new(0)), -(1 << 23));
        assert_eq!(Psn::new(0x7F_FFFF).distance(Psn::new(0)), (1 << 23) - 1);
    }
}

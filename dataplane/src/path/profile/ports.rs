//! Ports of a NIC, each to a plane of the fabric.

use std::fmt;

/// Ports of a NIC.
pub const PLANES_MAX: u8 = 8;

/// A set of ports, numbered 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSet(u8);

impl PortSet {
    /// Bit N stands for port N + 1.
    #[must_use]
    pub const fn from_mask(mask: u8) -> PortSet {
        PortSet(mask)
    }

    /// The ports 1 to `count`, of which there are 8 at most.
    #[must_use]
    pub const fn first(count: u8) -> PortSet {
        PortSet(if count >= PLANES_MAX { u8::MAX } else { (1 << count) - 1 })
    }

    /// How many ports there are.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `port`, from 1, is one of them.
    #[must_use]
    pub const fn contains(self, port: u8) -> bool {
        1 <= port && port <= PLANES_MAX && self.0 >> (port - 1) & 1 == 1
    }

    /// The ports in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (1..=PLANES_MAX).filter(move |&port| self.contains(port))
    }

    /// The first port that is not in `others`.
    pub(super) fn first_outside(self, others: PortSet) -> Option<u8> {
        self.iter().find(|&port| !others.contains(port))
    }

    /// The port of the EV with this index, from 0, where EVs are dealt to the ports in turn, as GENERATED profiles do it. Of an empty set,
    /// port 1.
    #[must_use]
    pub fn dealt(self, index: u64) -> u8 {
        if self.is_empty() {
            return 1;
        }
        let mut rest = self.0;
        for _ in 0..index % u64::from(self.len()) {
            rest &= rest - 1;
        }
        rest.trailing_zeros() as u8 + 1
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, port) in self.iter().enumerate() {
            write!(f, "{}{port}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evs_are_dealt_to_the_ports_of_the_set_in_turn() {
        let ports = PortSet::from_mask(0b1000_0101);
        assert_eq!((0..7).map(|i| ports.dealt(i)).collect::<Vec<_>>(), [1, 3, 8, 1, 3, 8, 1]);
        assert_eq!(ports.to_string(), "1, 3, 8");
        assert_eq!(PortSet::from_mask(0).dealt(5), 1);
    }

    #[test]
    fn ports_are_numbered_1_to_8() {
        let all = PortSet::first(8);
        assert_eq!(all.iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(!all.contains(0) && !all.contains(9));
        assert_eq!(PortSet::first(2), PortSet::from_mask(0b11));
        assert!(PortSet::first(0).is_empty());
        assert_eq!(PortSet::first(4).first_outside(PortSet::first(2)), Some(3));
    }
}

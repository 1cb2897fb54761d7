//! What captured packets begin with.

use std::fmt;

/// Link type of an interface: a number of the registry that tcpdump.org keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet, the only one that a NIC's frames come in.
    pub const ETHERNET: LinkType = LinkType(1);

    /// True for Ethernet.
    #[must_use]
    pub const fn is_ethernet(self) -> bool {
        self.0 == LinkType::ETHERNET.0
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "BSD loopback",
            1 => "Ethernet",
            9 => "PPP",
            12 | 14 | 101 => "raw IP",
            105 => "802.11",
            108 => "OpenBSD loopback",
            113 => "Linux cooked SLL",
            127 => "802.11 with radiotap",
            228 => "raw IPv4",
            229 => "raw IPv6",
            247 => "InfiniBand",
            249 => "USB",
            253 => "netlink",
            276 => "Linux cooked SLL2",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} (link type {})", self.0),
            None => write!(f, "link type {}", self.0),
        }
    }
}

//! Why somebody is not reached.

use super::InterfaceAddress;
use std::fmt;
use std::net::IpAddr;

/// A port on which nobody answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Its number, from 1.
    pub port: u8,
    /// What users call it.
    pub name: String,
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} ({})", self.port, self.name)
    }
}

/// Why an address is not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeighbourError {
    /// Nobody answered.
    #[error(
        "{ip} is not reached: {} did not answer on {}, asked three times in three seconds: see that it is up and that the cable leads to its \
         network, take the port down (mrcnic ctl port), or give its Ethernet address (a neighbour in the file of the device, next_hop of a peer)",
        via(.ip, .hop), list(.silent)
    )]
    NoAnswer {
        /// The address.
        ip: IpAddr,
        /// Who was asked: the address, or a router.
        hop: IpAddr,
        /// Where nobody answered.
        silent: Vec<Silent>,
    },
    /// Beyond the network, and no gateway.
    #[error(
        "{ip} is not reached: it is not on the network {own}, and there is no gateway: give one, or a shorter prefix"
    )]
    OffLink {
        /// The address.
        ip: IpAddr,
        /// The NIC's own.
        own: InterfaceAddress,
    },
    /// Another family than the NIC's.
    #[error("{ip} is not reached from {own}: the two are not of one address family")]
    OtherFamily {
        /// The address.
        ip: IpAddr,
        /// The NIC's own.
        own: IpAddr,
    },
    /// No address of one host.
    #[error("{ip} is no address of a single host: give the peer's own")]
    Group {
        /// The address.
        ip: IpAddr,
    },
    /// A port that is joined to another NIC's.
    #[error(
        "{ip} is not reached: port {port} ({name}) leads to another NIC alone, and nobody is asked there: give the Ethernet address (a neighbour \
         in the file of the device)"
    )]
    NotOnEthernet {
        /// The address.
        ip: IpAddr,
        /// The port, from 1.
        port: usize,
        /// What users call it.
        name: String,
    },
    /// No port is in use.
    #[error("{ip} is not reached: no port of the NIC is in use: see to their links")]
    NoPort {
        /// The address.
        ip: IpAddr,
    },
    /// The table is full.
    #[error(
        "{ip} is not asked for: {} addresses are in use, which is the maximum: close the QPs with others",
        super::NEIGHBOURS_MAX
    )]
    TooMany {
        /// The address.
        ip: IpAddr,
    },
    /// The NIC does not look after neighbours.
    #[error(
        "{ip} is not asked for: the NIC has no port on an Ethernet, or no address there: give it one, or the peer's Ethernet address"
    )]
    NoAddress {
        /// The address.
        ip: IpAddr,
    },
    /// The control thread is gone, or stuck.
    #[error("{ip} is not asked for: the NIC does not answer: open it anew")]
    Gone {
        /// The address.
        ip: IpAddr,
    },
}

fn via(ip: &IpAddr, hop: &IpAddr) -> String {
    if ip == hop { "it".into() } else { format!("its gateway {hop}") }
}

fn list(silent: &[Silent]) -> String {
    silent.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

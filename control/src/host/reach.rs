//! Peers that were found by asking.

use crate::controller::Operator;
use dataplane::wire::MacAddr;
use std::net::IpAddr;
use std::sync::Arc;

/// The way to a peer: the Ethernet addresses, one for each port, by which it is reached. As long as a clone of it is there, the NIC looks after
/// them, and QPs that were opened with it follow when they change.
#[derive(Clone, Debug)]
pub struct Reach {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    operator: Operator,
    nic: String,
    ip: IpAddr,
    macs: Vec<MacAddr>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.operator.forget(&self.nic, self.ip);
    }
}

impl Reach {
    pub(super) fn new(operator: Operator, nic: String, ip: IpAddr, macs: Vec<MacAddr>) -> Reach {
        Reach { held: Arc::new(Held { operator, nic, ip, macs }) }
    }

    /// Whom it leads to.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.held.ip
    }

    /// The Ethernet addresses when it was found, one for each port.
    #[must_use]
    pub fn macs(&self) -> &[MacAddr] {
        &self.held.macs
    }

    /// QPs were opened with it.
    pub(super) fn opened(&self) {
        self.held.operator.repeat_hops(&self.held.nic, self.held.ip);
    }
}

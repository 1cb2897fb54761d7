//! A remote address: the paths to it, and the groups of QPs that share a window.

use crate::Ns;
use crate::path::PortMask;
use core::net::IpAddr;

/// What all QPs to one remote address share.
pub(super) struct Destination {
    pub(super) address: IpAddr,
    /// Its spraying states: one for each EV profile that its QPs use.
    pub(super) rotations: Vec<usize>,
    /// Ports of the peer that it said are down: what leaves by the port of the same plane would end there.
    pub(super) peer_ports_out: PortMask,
    /// When the peer told so last, and that message's timestamp.
    pub(super) peer_ports_told: Option<(Ns, u16)>,
    /// The last port status update that was queued for the peer.
    pub(super) ports_update: Option<u16>,
    /// The ports of ours that are out, as the peer knows it; `None` since a change that it has not confirmed.
    pub(super) told_ports_out: Option<PortMask>,
    /// The groups of its QPs.
    pub(super) groups: Vec<usize>,
    /// The last valid round-trip time in ns.
    pub(super) last_rtt: Option<u64>,
    /// Slots of the open QPs.
    pub(super) qps: Vec<u32>,
}

impl Destination {
    pub(super) fn new(address: IpAddr) -> Destination {
        Destination {
            address,
            rotations: Vec::new(),
            peer_ports_out: 0,
            peer_ports_told: None,
            ports_update: None,
            told_ports_out: Some(0),
            groups: Vec::new(),
            last_rtt: None,
            qps: Vec::new(),
        }
    }
}

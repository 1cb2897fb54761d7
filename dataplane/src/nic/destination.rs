//! A remote address: the paths to it, the window, and whose turn it is.

use crate::Ns;
use crate::congestion::Window;
use crate::path::PortMask;
use core::net::IpAddr;
use std::collections::VecDeque;

/// What all QPs to one remote address share.
pub(super) struct Destination {
    pub(super) address: IpAddr,
    /// Its spraying states: one for each EV profile that its QPs use.
    pub(super) rotations: Vec<usize>,
    /// Ports of the peer that it said are down: what leaves by the port of the same plane would end there.
    pub(super) peer_ports_out: PortMask,
    /// When the peer told so last, and that message's timestamp.
    pub(super) peer_ports_told: Option<(Ns, u16)>,
    /// The ports of ours that are out, as the peer knows it; `None` since a change that it has not confirmed.
    pub(super) told_ports_out: Option<PortMask>,
    pub(super) window: Window,
    /// The last valid round-trip time in ns.
    pub(super) last_rtt: Option<u64>,
    /// Slots of QPs with something to send again.
    pub(super) resend: VecDeque<u32>,
    /// Slots of QPs with something new to send.
    pub(super) fresh: VecDeque<u32>,
    /// In the engine's round.
    pub(super) in_round: bool,
    /// Slots of the open QPs.
    pub(super) qps: Vec<u32>,
}

impl Destination {
    pub(super) fn new(address: IpAddr, window: Window) -> Destination {
        Destination {
            address,
            rotations: Vec::new(),
            peer_ports_out: 0,
            peer_ports_told: None,
            told_ports_out: Some(0),
            window,
            last_rtt: None,
            resend: VecDeque::new(),
            fresh: VecDeque::new(),
            in_round: false,
            qps: Vec::new(),
        }
    }

    pub(super) fn has_turn(&self) -> bool {
        !self.resend.is_empty() || !self.fresh.is_empty()
    }
}

//! A remote address: the paths to it, the window, and whose turn it is.

use crate::congestion::Window;
use crate::path::Spraying;
use core::net::IpAddr;
use std::collections::VecDeque;

/// What all QPs to one remote address share.
pub(super) struct Destination {
    pub(super) address: IpAddr,
    pub(super) spraying: Spraying,
    pub(super) window: Window,
    /// The last valid round-trip time in ns.
    pub(super) last_rtt: Option<u64>,
    /// Slots of QPs with something to send again.
    pub(super) resend: VecDeque<u32>,
    /// Slots of QPs with something new to send.
    pub(super) fresh: VecDeque<u32>,
    /// In the engine's round.
    pub(super) in_round: bool,
    /// Open QPs.
    pub(super) qps: usize,
}

impl Destination {
    pub(super) fn new(address: IpAddr, spraying: Spraying, window: Window) -> Destination {
        Destination {
            address,
            spraying,
            window,
            last_rtt: None,
            resend: VecDeque::new(),
            fresh: VecDeque::new(),
            in_round: false,
            qps: 0,
        }
    }

    pub(super) fn has_turn(&self) -> bool {
        !self.resend.is_empty() || !self.fresh.is_empty()
    }
}

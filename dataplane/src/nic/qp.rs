//! Queue pairs and their numbers.

use super::{PortId, QPS_MAX};
use crate::Ns;
use crate::congestion::profile::CcConfig;
use crate::memory::{Domain, Scratch};
use crate::path::profile::EvPool;
use crate::transport::{Advertised, Psn, Requester, Responder};
use crate::wire::{AddressingError, Encapsulation, LinkAddresses, MacAddr, Template, Timestamp};
use core::net::IpAddr;
use core::num::NonZeroU32;
use std::sync::Arc;

/// The number of a QP on the wire, 24 bits: 16 of slot, 8 of generation. It does not name a worker, since it exists before the peer's
/// address does. 0 to 2 never occur: generations start at 1. With 0 as "none" it goes with a PSN through one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qpn(NonZeroU32);

impl Qpn {
    /// The 24 bits.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Its slot, 0 to 65,535. Of the live QPs of a NIC no two have one.
    #[must_use]
    pub const fn slot(self) -> usize {
        (self.0.get() & 0xFFFF) as usize
    }
}

/// Gives out QP numbers. One for each NIC.
#[derive(Debug, Default)]
pub struct QpNumbers {
    generations: Vec<u8>,
    free: std::collections::VecDeque<u16>,
}

impl QpNumbers {
    /// A number that no live QP has, or `None` when [`QPS_MAX`] are in use. The slot that rested longest is taken first.
    pub fn allocate(&mut self) -> Option<Qpn> {
        let slot = match self.free.pop_front() {
            Some(slot) => usize::from(slot),
            None if self.generations.len() < QPS_MAX => {
                self.generations.push(0);
                self.generations.len() - 1
            }
            None => return None,
        };
        let generation = &mut self.generations[slot];
        *generation = generation.checked_add(1).unwrap_or(1);
        NonZeroU32::new(u32::from(*generation) << 16 | slot as u32).map(Qpn)
    }

    /// Takes a number back. The slot's next QP has another one, so that packets still in flight do not reach it.
    pub fn release(&mut self, qpn: Qpn) {
        if self.generations.get(qpn.slot()).is_some_and(|&g| u32::from(g) == qpn.get() >> 16) {
            self.free.push_back(qpn.slot() as u16);
        }
    }
}

/// What a QP is ready for. RESET and INIT are the host's: the engine knows a QP from RTR on, when its peer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    /// Ready to receive.
    Rtr,
    /// Ready to send, too.
    Rts,
    /// Ended by an error; takes nothing and sends nothing.
    Error,
}

/// One end of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Ethernet address; of the peer, its own or the next hop's.
    pub mac: MacAddr,
    /// IP address.
    pub ip: IpAddr,
}

/// Where received payload goes.
#[derive(Clone, Debug)]
pub enum Placement {
    /// Where its r_key and address say, once they are checked.
    Keyed,
    /// A QP learned from a capture: any address, modulo a scratch buffer, and no check of a message's shape.
    Learned {
        /// The number that the capture's packets are sent to.
        dqp: u32,
        /// The buffer.
        scratch: Scratch,
    },
}

/// Where the entropy values of a QP's packets come from.
#[derive(Clone, Debug, Default)]
pub enum Paths {
    /// `Default Packet Spraying`: the NIC draws UDP source ports, over all its ports.
    #[default]
    Sprayed,
    /// `None`: the QP's own UDP source port in every packet, on the QP's own port. Feedback is ignored, and nothing is probed.
    Own {
        /// The UDP source port.
        udp_port: u16,
    },
    /// An EV profile that is ONLINE.
    Profile(Arc<EvPool>),
}

/// How a QP's packets find their way.
#[derive(Clone, Debug, Default)]
pub struct PathSpec {
    /// Their entropy values.
    pub paths: Paths,
    /// Ethernet address of the next hop on each port of the NIC, where it has several; where none is given, that of the other end.
    pub next_hops: Vec<MacAddr>,
    /// An outer IPv6 header. Its path is that of packets whose entropy value has none of its own. A profile with SRv6 paths needs none: the
    /// outer source is then the QP's own address, and there is no SRH.
    pub encapsulation: Option<Encapsulation>,
    /// The next hops are what neighbours said, and change when these do ([`crate::nic::Nic::set_next_hop`]); else they stay.
    pub follows: bool,
}

/// The CC profile of a QP, as it was when the QP was bound to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CcProfileRef {
    /// Its number.
    pub id: u64,
    /// What it says.
    pub config: CcConfig,
}

/// What a QP needs to know to be ready.
#[derive(Clone, Debug)]
pub struct QpSpec {
    /// Its number.
    pub qpn: Qpn,
    /// State that it starts in.
    pub state: QpState,
    /// The port that it sends on, where its packets are not sprayed over several.
    pub port: PortId,
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// VLAN tag control information of its frames.
    pub vlan: Option<u16>,
    /// The peer's number.
    pub peer_qpn: u32,
    /// First PSN to send.
    pub send_psn: Psn,
    /// First PSN to expect.
    pub receive_psn: Psn,
    /// What the peer takes: the smaller of both ends' `MaxPSNRange` is used, and no more Writes with Immediate are in flight.
    pub peer: Advertised,
    /// Protection domain.
    pub domain: Domain,
    /// Requests that the send queue holds, 1 to [`crate::transport::SEND_QUEUE_MAX`].
    pub send_depth: usize,
    /// Receives that the receive queue holds, at most [`crate::transport::SEND_QUEUE_MAX`].
    pub receive_depth: usize,
    /// Writes with Immediate that the QP itself takes and sends in flight; the NIC's own limit holds too.
    pub write_imm_limit: u32,
    /// Where received payload goes.
    pub placement: Placement,
    /// How its packets find their way.
    pub path: PathSpec,
    /// Its CC profile; without one the NIC's parameters say how its window is found.
    pub congestion: Option<CcProfileRef>,
}

/// Why a QP cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The number is in use.
    #[error("QP {0:#x} is open already")]
    InUse(u32),
    /// No such port.
    #[error("this NIC has no port {0}")]
    NoSuchPort(u8),
    /// A full packet does not fit the port.
    #[error(
        "a packet of MSS {mss} makes a frame of {frame} bytes, but the port carries {max}: use an MSS of {fits} at most"
    )]
    FrameTooLong {
        /// The MSS.
        mss: u32,
        /// The frame's length.
        frame: usize,
        /// The longest frame of the port.
        max: usize,
        /// The largest MSS that fits.
        fits: usize,
    },
    /// Addresses of two families.
    #[error(transparent)]
    Addressing(#[from] AddressingError),
    /// An EV profile with wide values, and IPv4 addresses.
    #[error(
        "EV {ev:#x} of profile {profile} has more than 16 bits, and IPv4 carries no more: give the QP IPv6 addresses"
    )]
    WideEv {
        /// The profile.
        profile: u64,
        /// The first such value.
        ev: u32,
    },
    /// An EV profile for ports that this NIC does not have.
    #[error("an EV of profile {profile} leaves by port {port}, and this NIC has ports 1 to {ports}")]
    ProfilePort {
        /// The profile.
        profile: u64,
        /// The port, from 1.
        port: u8,
        /// Ports of the NIC.
        ports: usize,
    },
    /// A next hop for some ports, but not for all.
    #[error("{given} next hops for a NIC of {ports} ports: give one for each port, or none")]
    NextHops {
        /// Next hops given.
        given: usize,
        /// Ports of the NIC.
        ports: usize,
    },
    /// The depth of a queue is outside its range.
    #[error("a queue holds 1 to 32768 requests, not {0}")]
    Depth(usize),
}

/// What one QP did, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QpStats {
    /// Data packets placed.
    pub delivered: u64,
    /// Bytes of payload placed.
    pub delivered_bytes: u64,
    /// Data packets that had arrived before.
    pub duplicates: u64,
    /// Data packets beyond the window.
    pub out_of_window: u64,
    /// Receives completed by Writes with Immediate.
    pub received_immediates: u64,
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Data packets sent again because they were lost.
    pub retransmits: u64,
    /// Packets presumed lost because their timer ran out.
    pub timeouts: u64,
    /// PSNs below the highest received that have not arrived.
    pub missing: u64,
}

/// The packet that arrived last without drawing a SACK at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastArrival {
    pub(super) psn: Psn,
    pub(super) ev: u32,
    pub(super) at: Ns,
    /// Its timestamp.
    pub(super) timestamp: Option<Timestamp>,
}

/// Where a QP's packets take their entropy values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QpPath {
    /// Its own UDP source port.
    Own(u16),
    /// A rotation of the NIC.
    Sprayed(usize),
}

/// A QP as its worker has it.
pub(super) struct Qp {
    pub(super) qpn: Qpn,
    /// The number that it has on the wire; another than `qpn` when it was learned from a capture.
    pub(super) wire_qpn: u32,
    pub(super) peer_qpn: u32,
    pub(super) state: QpState,
    pub(super) port: PortId,
    pub(super) local_ip: IpAddr,
    pub(super) remote_ip: IpAddr,
    pub(super) template: Template,
    pub(super) path: QpPath,
    /// Ethernet addresses on each port, where the NIC has several.
    pub(super) links: Option<Box<[LinkAddresses]>>,
    /// Its next hops change with what neighbours say.
    pub(super) follows: bool,
    /// It has an outer IPv6 header.
    pub(super) encapsulated: bool,
    pub(super) domain: Domain,
    pub(super) placement: Placement,
    pub(super) destination: usize,
    pub(super) group: usize,
    pub(super) send_depth: usize,
    pub(super) write_imm_limit: u32,
    pub(super) requester: Requester,
    pub(super) responder: Responder,
    pub(super) stats: QpStats,
    /// The peer's `rcvd_bytes` when last seen, 24 bits.
    pub(super) rcvd_bytes_seen: u32,
    /// A transport ACK waits in the control queue.
    pub(super) ack_queued: bool,
    /// A SACK that is neither for a marked packet nor for a retransmission waits in the control queue: it will report what arrives until it is
    /// written.
    pub(super) sack_queued: bool,
    /// It stands for packets beyond the cumulative ACK, so its bitmap begins there.
    pub(super) sack_first: bool,
    /// One more waits, for what lies beyond the bitmap of the first: it will show the PSNs around this one.
    pub(super) sack_around: Option<Psn>,
    /// In the group's list of QPs with something to send again.
    pub(super) in_resend: bool,
    /// In the group's list of QPs with something new to send.
    pub(super) in_fresh: bool,
    /// In the engine's list of QPs that rest.
    pub(super) rests: bool,
    /// When its last request ended.
    pub(super) idle_since: Ns,
    /// In the engine's list of QPs that owe a SACK.
    pub(super) in_owing: bool,
    /// The packet that the owed SACK is for.
    pub(super) last_arrival: LastArrival,
    /// When the wheel calls for the QP's packet timers.
    pub(super) timer_at: Option<Ns>,
    /// When it got something to send, having had nothing.
    pub(super) busy_since: Ns,
    /// The wheel calls for the end of its patience with ports that take nothing.
    pub(super) watched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qp_numbers_are_never_reserved_ones_and_a_reused_slot_gets_a_new_number() {
        let mut numbers = QpNumbers::default();
        let first = numbers.allocate().unwrap();
        assert!(first.get() > 2);
        numbers.release(first);
        let second = numbers.allocate().unwrap();
        assert_eq!(first.slot(), second.slot());
        assert_ne!(first, second);
        numbers.release(first);
        assert_ne!(numbers.allocate().unwrap().slot(), second.slot(), "a stale release frees nothing");
    }

    #[test]
    fn generations_wrap_past_zero() {
        let mut numbers = QpNumbers::default();
        for _ in 0..600 {
            let qpn = numbers.allocate().unwrap();
            assert!(qpn.get() >> 16 != 0 && qpn.get() < 1 << 24);
            numbers.release(qpn);
        }
    }

    #[test]
    fn numbers_run_out_at_65536() {
        let mut numbers = QpNumbers::default();
        assert!((0..QPS_MAX).all(|_| numbers.allocate().is_some()));
        assert_eq!(numbers.allocate(), None);
    }
}

//! Ports that come and go, and telling peers of it (MRC paper, section II-E: port status update).
//!
//! Port i of one NIC and port i of its peer are in the same plane of the fabric. So what leaves by port i ends at the peer's port i, and
//! when either is down, the values of port i are not used.

use super::endpoint::{Content, ENDPOINT_QUEUE_MAX};
use super::rotations::all_ports;
use super::{DropReason, Nic, PortId};
use crate::Ns;
use crate::path::PortMask;
use crate::time::MS;
use crate::wire::{EndpointRequest, Packet};
use core::net::IpAddr;
use std::collections::VecDeque;

/// Port events that wait to be looked at; what comes beyond is counted and left out.
pub const PORT_EVENTS_MAX: usize = 256;
/// Within this time of the last update, in ns, an older one is told by its 16-bit timestamp, which wraps after twice as long.
const REORDER_NS: u64 = 4 * MS;

/// Ports went out of use, or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEvent {
    /// When.
    pub at: Ns,
    /// Whose: a peer's, as it told; or without one, this NIC's own.
    pub peer: Option<IpAddr>,
    /// Bit i: port i is out of use.
    pub out: PortMask,
    /// Events that were left out before this one, since the engine was made.
    pub dropped: u64,
}

#[derive(Debug, Default)]
pub(super) struct PortEvents {
    waiting: VecDeque<PortEvent>,
    dropped: u64,
}

impl PortEvents {
    fn push(&mut self, at: Ns, peer: Option<IpAddr>, out: PortMask) {
        if self.waiting.len() == PORT_EVENTS_MAX {
            self.dropped += 1;
            return;
        }
        self.waiting.push_back(PortEvent { at, peer, out, dropped: self.dropped });
    }
}

impl Nic {
    /// Takes a port out of use, or into it again: its link changed, or an operator wants it so. Every peer is told at once. True when that
    /// changed something.
    pub fn set_port(&mut self, now: Ns, port: PortId, in_use: bool) -> bool {
        if usize::from(port.0) >= self.ports.len() {
            return false;
        }
        let bit = 1 << port.0;
        let out = if in_use { self.ports_out & !bit } else { self.ports_out | bit };
        if core::mem::replace(&mut self.ports_out, out) == out {
            return false;
        }
        for at in 0..self.destinations.len() {
            self.destinations[at].told_ports_out = None;
            self.apply_ports(at);
        }
        self.port_events.push(now, None, out);
        if !in_use {
            self.stalled[usize::from(port.0)].get_or_insert(now);
            self.give_up_waiting(now, port);
        }
        self.tell_ports();
        true
    }

    /// Frames that a port has not accepted when it goes out may stay with its driver for ever: their packets' timers start now, and they take
    /// no more room.
    fn give_up_waiting(&mut self, now: Ns, port: PortId) {
        for at in 0..self.accepting[usize::from(port.0)].len() {
            let frames = &mut self.accepting[usize::from(port.0)][at];
            let waiting = *frames;
            (frames.len, frames.packet) = (0, None);
            self.release(now, &waiting);
        }
    }

    /// Own ports that are out of use, as bits.
    #[must_use]
    pub const fn ports_out(&self) -> PortMask {
        self.ports_out
    }

    /// Ports that `remote` said are down, as bits.
    #[must_use]
    pub fn peer_ports_out(&self, remote: IpAddr) -> PortMask {
        self.destination_of.get(&remote).map_or(0, |&at| self.destinations[at].peer_ports_out)
    }

    /// Takes the oldest port event.
    pub fn poll_port_event(&mut self) -> Option<PortEvent> {
        self.port_events.waiting.pop_front()
    }

    /// Tells every peer that has not confirmed it yet which ports are in use; how many such peers there are. To be called again, for frames
    /// get lost.
    pub fn tell_ports(&mut self) -> usize {
        let untold: Vec<usize> = (0..self.destinations.len()).filter(|&at| self.is_untold(at)).collect();
        // From another one each time: where there are more than the queue holds, all have their turn.
        let first = untold.partition_point(|&at| at <= self.told_last);
        for &at in untold[first..].iter().chain(&untold[..first]).take(ENDPOINT_QUEUE_MAX) {
            self.tell_ports_to(at);
            self.told_last = at;
        }
        untold.len()
    }

    /// A destination that is new knows nothing: ports that are out are told at once.
    pub(super) fn tell_new_destination(&mut self, at: usize) {
        if self.destinations[at].qps.len() == 1 && self.is_untold(at) {
            self.tell_ports_to(at);
        }
    }

    fn is_untold(&self, at: usize) -> bool {
        let destination = &self.destinations[at];
        !destination.qps.is_empty() && destination.told_ports_out != Some(self.ports_out)
    }

    fn tell_ports_to(&mut self, at: usize) {
        let (remote, out) = (self.destinations[at].address, self.ports_out);
        let id = self.endpoint_request(remote, None, |_| Content::Ports { out });
        self.destinations[at].ports_update = id.or(self.destinations[at].ports_update);
    }

    /// The peer confirmed that these ports of ours are out; of several updates the last one counts.
    pub(super) fn ports_confirmed(&mut self, remote: IpAddr, id: u16, out: PortMask) {
        if let Some(&at) = self.destination_of.get(&remote)
            && self.destinations[at].ports_update == Some(id)
        {
            self.destinations[at].told_ports_out = Some(out);
        }
    }

    /// A peer told which of its ports are up. Only what has its effect is answered: else the peer would not tell again.
    pub(super) fn take_port_status(
        &mut self,
        now: Ns,
        port: PortId,
        packet: &Packet,
        request: &EndpointRequest,
    ) -> Result<(), DropReason> {
        let remote = packet.ip.source;
        let ours = self.qps_to(remote).any(|qp| qp.local_ip == packet.ip.destination);
        let Some(&at) = self.destination_of.get(&remote).filter(|_| ours) else {
            return Err(DropReason::EndpointStranger);
        };
        let out = !(request.port_status_mask as PortMask) & all_ports(self.ports.len());
        let ticks = request.timestamp.ticks;
        let destination = &mut self.destinations[at];
        let overtaken = destination
            .peer_ports_told
            .is_some_and(|(told_at, told)| now.since(told_at) < REORDER_NS && (ticks.wrapping_sub(told) as i16) < 0);
        if !overtaken {
            destination.peer_ports_told = Some((now, ticks));
            if core::mem::replace(&mut destination.peer_ports_out, out) != out {
                self.apply_ports(at);
                self.port_events.push(now, Some(remote), out);
            }
        } else if destination.peer_ports_out != out {
            return Err(DropReason::EndpointOvertaken);
        }
        self.answer_endpoint(now, port, packet, request)
    }

    /// What is out at either end is not used towards a destination.
    fn apply_ports(&mut self, at: usize) {
        let out = self.ports_out | self.destinations[at].peer_ports_out;
        for &rotation in &self.destinations[at].rotations {
            self.rotations[rotation].spraying.set_ports_out(out);
        }
        self.wake_groups(at);
    }
}

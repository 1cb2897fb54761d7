//! Endpoint operations: questions between two addresses, without a QP.
//!
//! An EV probe asks whether an entropy value's path is alive. Whoever is asked answers without looking at any connection, by swapping
//! the addresses of layers 2 and 3 (MRC paper, section II-E). What asks for nothing but an answer is limited in rate.

use super::{DropReason, EvState, Nic, PortId, TxBurst};
use crate::Ns;
use crate::time::{SEC, WIRE_TICK};
use crate::transport::reflected_rtt;
use crate::wire::{
    Addressing, Bth, ENDPOINT_QPN, EndpointOp, EndpointRequest, EndpointResponse, Ext, Marks, Opcode, Packet, Template,
    Timestamp,
};
use core::net::IpAddr;
use std::collections::VecDeque;

/// Endpoint frames that wait for the port, and questions that wait for their answer, at most.
pub const ENDPOINT_QUEUE_MAX: usize = 256;
/// Requests answered in a second, and at once.
const ANSWERS_A_SECOND: u64 = 20_000;
const ANSWERS_AT_ONCE: u64 = 64;

/// An EV probe that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvProbeAnswer {
    /// Who answered.
    pub remote: IpAddr,
    /// The value that was probed.
    pub ev: u32,
    /// Round-trip time in ns, less the peer's service time; `None` where the clock's 16 bits do not tell.
    pub rtt: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    Probe,
    Answer { arrived: Ns, asked: Timestamp },
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    template: Template,
    port: PortId,
    id: u16,
    ev: u32,
    content: Content,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    id: u16,
    remote: IpAddr,
    ev: u32,
}

/// Endpoint operations of one engine.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    frames: VecDeque<Frame>,
    asked: VecDeque<Asked>,
    answers: VecDeque<EvProbeAnswer>,
    next: u16,
    /// Answers that may go out at once, and since when the count holds.
    budget: u64,
    counted_at: Option<Ns>,
}

impl Endpoints {
    /// May another request be answered? A bucket that fills with time.
    fn may_answer(&mut self, now: Ns) -> bool {
        let Some(counted_at) = self.counted_at else {
            (self.counted_at, self.budget) = (Some(now), ANSWERS_AT_ONCE - 1);
            return true;
        };
        let each = SEC / ANSWERS_A_SECOND;
        let earned = now.since(counted_at) / each;
        self.budget = (self.budget + earned).min(ANSWERS_AT_ONCE);
        self.counted_at = Some(counted_at + earned * each);
        let may = self.budget > 0;
        self.budget = self.budget.saturating_sub(1);
        may
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl Nic {
    /// Probes `ev` towards `remote` by an endpoint operation: without a connection, though one must be open for the addresses to be
    /// known. Its answer is there in [`Nic::poll_ev_probe`]. `None` when there is no QP with that address, or the queue is full.
    pub fn ev_probe(&mut self, remote: IpAddr, ev: u32) -> Option<u16> {
        let at = *self.destination_of.get(&remote)?;
        let qp = self.qps.iter().flatten().find(|qp| qp.destination == at)?;
        let (template, port) = (qp.template, qp.port);
        let endpoints = &mut self.endpoints;
        if endpoints.frames.len() >= ENDPOINT_QUEUE_MAX {
            return None;
        }
        if endpoints.asked.len() >= ENDPOINT_QUEUE_MAX {
            endpoints.asked.pop_front();
        }
        endpoints.next = endpoints.next.wrapping_add(1);
        let id = endpoints.next;
        endpoints.asked.push_back(Asked { id, remote, ev });
        endpoints.frames.push_back(Frame { template, port, id, ev, content: Content::Probe });
        Some(id)
    }

    /// Takes the oldest answer to an EV probe.
    pub fn poll_ev_probe(&mut self) -> Option<EvProbeAnswer> {
        self.endpoints.answers.pop_front()
    }

    /// A packet to the reserved QP number.
    #[cold]
    pub(super) fn take_endpoint(&mut self, now: Ns, port: PortId, packet: &Packet) -> Result<(), DropReason> {
        match &packet.ext {
            _ if !self.params.endpoint_operations => Err(DropReason::EndpointOperation),
            Ext::EndpointRequest(request) if request.op == EndpointOp::EvProbe => {
                self.answer_ev_probe(now, port, packet, request)
            }
            Ext::EndpointResponse(response) if response.op == EndpointOp::EvProbe => {
                self.take_ev_probe_answer(now, packet, response)
            }
            _ => Err(DropReason::EndpointOperation),
        }
    }

    fn answer_ev_probe(
        &mut self,
        now: Ns,
        port: PortId,
        packet: &Packet,
        request: &EndpointRequest,
    ) -> Result<(), DropReason> {
        if self.endpoints.frames.len() >= ENDPOINT_QUEUE_MAX || !self.endpoints.may_answer(now) {
            return Err(DropReason::EndpointRate);
        }
        let addressing = Addressing {
            source_mac: packet.link.destination,
            destination_mac: packet.link.source,
            vlan: packet.link.vlan,
            source: packet.ip.destination,
            destination: packet.ip.source,
            hop_limit: self.params.hop_limit,
            udp_port: packet.udp_destination,
        };
        let Ok(template) = Template::new(&addressing) else { return Err(DropReason::EndpointOperation) };
        let content = Content::Answer { arrived: now, asked: request.timestamp };
        let id = packet.bth.psn as u16;
        self.endpoints.frames.push_back(Frame { template, port, id, ev: packet.ev(), content });
        Ok(())
    }

    fn take_ev_probe_answer(
        &mut self,
        now: Ns,
        packet: &Packet,
        response: &EndpointResponse,
    ) -> Result<(), DropReason> {
        let (id, remote) = (packet.bth.psn as u16, packet.ip.source);
        let asked = self.endpoints.asked.iter().position(|asked| asked.id == id && asked.remote == remote);
        let asked = asked.and_then(|at| self.endpoints.asked.remove(at)).ok_or(DropReason::UnknownProbe)?;
        let rtt = reflected_rtt(now, response.tx_timestamp);
        if self.endpoints.answers.len() >= ENDPOINT_QUEUE_MAX {
            self.endpoints.answers.pop_front();
        }
        self.endpoints.answers.push_back(EvProbeAnswer { remote, ev: asked.ev, rtt });
        let Some(&at) = self.destination_of.get(&remote) else { return Ok(()) };
        if self.destinations[at].spraying.recovered(asked.ev) {
            self.events.push(now, remote, asked.ev, EvState::Good);
        }
        Ok(())
    }

    /// Writes the oldest endpoint frame; false when the port takes no more.
    pub(super) fn write_endpoint<T: TxBurst>(&mut self, now: Ns, out: &mut T) -> bool {
        let Some(frame) = self.endpoints.frames.front().copied() else { return true };
        let (opcode, ext) = match frame.content {
            Content::Probe => {
                let request = EndpointRequest {
                    op: EndpointOp::EvProbe,
                    vendor_info: 0,
                    port_status_mask: 0,
                    timestamp: Timestamp::of(now),
                };
                (Opcode::EndpointRequest, Ext::EndpointRequest(request))
            }
            Content::Answer { arrived, asked } => {
                let unit = if asked.tsr { 8 * WIRE_TICK } else { WIRE_TICK };
                let tx_timestamp = asked.ticks.wrapping_add((now.since(arrived) / unit) as u16);
                let response = EndpointResponse { op: EndpointOp::EvProbe, tx_timestamp };
                (Opcode::EndpointResponse, Ext::EndpointResponse(response))
            }
        };
        let len = frame.template.frame_len(ext.len(), 0);
        let Some(room) = out.slot(frame.port, len) else { return false };
        self.endpoints.frames.pop_front();
        let bth = Bth::new(opcode, ENDPOINT_QPN, frame.id.into());
        let marks = Marks { ev: frame.ev, dscp: self.params.dscp.control, ecn: 0 };
        let written = frame.template.write_headers(room, marks, &bth, &ext, 0);
        if written.is_some_and(|at| frame.template.seal(room, at, 0)) {
            out.commit();
            self.stats.tx_endpoint.add(1);
            self.count_frame(len, frame.port, super::transmit::Accepting::Reply);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_limited_in_rate_and_the_budget_fills_with_time() {
        let mut endpoints = Endpoints::default();
        let answered = |endpoints: &mut Endpoints, now| (0..200).filter(|_| endpoints.may_answer(now)).count();
        assert_eq!(answered(&mut endpoints, Ns(7)), 64);
        assert_eq!(answered(&mut endpoints, Ns(7 + 49_999)), 0);
        assert_eq!(answered(&mut endpoints, Ns(7 + 50_000)), 1);
        assert_eq!(answered(&mut endpoints, Ns(7 + 60_000)), 0);
        assert_eq!(answered(&mut endpoints, Ns(7 + 100_000)), 1, "what was not whole is not lost");
        assert_eq!(answered(&mut endpoints, Ns(10 * SEC)), 64);
    }
}

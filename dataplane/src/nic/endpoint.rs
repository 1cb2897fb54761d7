//! Endpoint operations: questions between two addresses, without a QP.
//!
//! An EV probe asks whether an entropy value's path is alive. Whoever is asked answers without looking at any connection, by swapping
//! the addresses of layers 2 and 3 (MRC paper, section II-E). What asks for nothing but an answer is limited in rate.

use super::direct::Direct;
use super::reply::Wrote;
use super::rotations::{FullPorts, ReplyFrom};
use super::tap::show_endpoint;
use super::transmit::Accepting;
use super::{DropReason, Nic, PortId, TxBurst};
use crate::Ns;
use crate::path::PortMask;
use crate::path::profile::Ev;
use crate::time::{SEC, WIRE_TICK};
use crate::transport::reflected_rtt;
use crate::wire::{
    Addressing, Bth, ENDPOINT_QPN, EndpointOp, EndpointRequest, EndpointResponse, Ext, Marks, Opcode, OuterMarks,
    Packet, Template, Timestamp, link_addresses,
};
use core::net::{IpAddr, Ipv6Addr};
use std::collections::VecDeque;

/// Endpoint frames that wait for the port, and questions that wait for their answer, at most.
pub const ENDPOINT_QUEUE_MAX: usize = 256;
/// Requests answered in a second, and at once.
const ANSWERS_A_SECOND: u64 = 20_000;
const ANSWERS_AT_ONCE: u64 = 64;

/// An EV probe that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvProbeAnswer {
    /// The probe's number.
    pub id: u16,
    /// Who answered.
    pub remote: IpAddr,
    /// The value that was probed.
    pub ev: u32,
    /// Round-trip time in ns, less the peer's service time; `None` where the clock's 16 bits do not tell.
    pub rtt: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// Is this value's path alive?
    Probe(Ev),
    /// Bit i: port i is out of use. As it is when the frame is written.
    Ports {
        out: PortMask,
    },
    /// Bit i: port i is up, as a controller says.
    Told {
        up: u32,
    },
    Answer {
        op: EndpointOp,
        arrived: Ns,
        asked: Timestamp,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) template: Template,
    pub(super) port: PortId,
    pub(super) id: u16,
    pub(super) ev: u32,
    /// Its path in the outer header, where it has one.
    pub(super) segment: Option<Ipv6Addr>,
    pub(super) dscp: u8,
    pub(super) content: Content,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) id: u16,
    pub(super) remote: IpAddr,
    /// When it was written last.
    pub(super) sent: Ns,
    pub(super) content: Content,
}

/// Endpoint operations of one engine.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    pub(super) frames: VecDeque<Frame>,
    asked: VecDeque<Asked>,
    answers: VecDeque<EvProbeAnswer>,
    pub(super) next: u16,
    /// Questions that the host asked itself, and their answers.
    pub(super) direct: Direct,
    /// Answers to anybody.
    strangers: Bucket,
    /// Answers to port status updates of peers: nobody else can use these up.
    peers: Bucket,
}

/// Answers that may go out, in a bucket that fills with time.
#[derive(Debug, Default)]
struct Bucket {
    budget: u64,
    /// Since when the budget holds; never used before, it is full.
    counted_at: Option<Ns>,
}

impl Bucket {
    /// May another request be answered?
    fn take(&mut self, now: Ns) -> bool {
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
}

impl Endpoints {
    /// Frames that wait for the port.
    pub(super) fn waiting(&self) -> usize {
        self.frames.len()
    }

    /// A port status update says this, whatever it was to say when it was queued.
    fn now_told(&mut self, id: u16, out: PortMask) {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.id == id) {
            asked.content = Content::Ports { out };
        }
    }
}

impl Nic {
    /// Probes `ev` towards `remote` by an endpoint operation: without a connection, though one must be open for the addresses to be
    /// known. Its answer is there in [`Nic::poll_ev_probe`]. `None` when there is no QP with that address, or the queue is full.
    pub fn ev_probe(&mut self, remote: IpAddr, ev: u32) -> Option<u16> {
        self.endpoint_request(remote, Some(ev), Content::Probe)
    }

    /// The same on whichever value comes next for answers.
    pub fn ev_probe_any(&mut self, remote: IpAddr) -> Option<u16> {
        self.endpoint_request(remote, None, Content::Probe)
    }

    /// Queues a request on the path of `ev`, or without one on the path of the next reply; `content` is told which value and path that is.
    pub(super) fn endpoint_request(
        &mut self,
        remote: IpAddr,
        ev: Option<u32>,
        content: impl FnOnce(Ev) -> Content,
    ) -> Option<u16> {
        let from = ReplyFrom::qp(self.qps_to(remote).next()?);
        if self.endpoints.frames.len() >= ENDPOINT_QUEUE_MAX {
            return None;
        }
        let none_full = FullPorts::none_of(self.ports.len());
        let way = match ev {
            Some(ev) => self.probe_way(&from, ev, none_full),
            None => self.any_way(&from, none_full),
        };
        let way = way.ok()?;
        let qp = self.qps_to(remote).next()?;
        let mut template = qp.template;
        let (ev, port) = (way.route.ev(), way.route.port());
        if let Some(link) = qp.link(port) {
            template.set_link(*link);
        }
        let content = content(Ev { segment: way.segment, ..Ev::new(ev, port.0 + 1) });
        let endpoints = &mut self.endpoints;
        if endpoints.asked.len() >= ENDPOINT_QUEUE_MAX {
            endpoints.asked.pop_front();
        }
        endpoints.next = endpoints.next.wrapping_add(1);
        let id = endpoints.next;
        endpoints.asked.push_back(Asked { id, remote, sent: Ns::ZERO, content });
        let dscp = self.params.dscp.control;
        endpoints.frames.push_back(Frame { template, port, id, ev, segment: way.segment, dscp, content });
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
            Ext::EndpointRequest(request) => match request.op {
                EndpointOp::EvProbe => self.answer_endpoint(now, port, packet, request),
                EndpointOp::PortStatusUpdate => self.take_port_status(now, port, packet, request),
                EndpointOp::Reserved2 | EndpointOp::Reserved3 => Err(DropReason::EndpointOperation),
            },
            Ext::EndpointResponse(response) => self.take_endpoint_answer(now, port, packet, response),
            _ => Err(DropReason::EndpointOperation),
        }
    }

    /// Answers a request, as often as that is allowed, without a look at any connection but for an SRv6 path back.
    pub(super) fn answer_endpoint(
        &mut self,
        now: Ns,
        port: PortId,
        packet: &Packet,
        request: &EndpointRequest,
    ) -> Result<(), DropReason> {
        let endpoints = &mut self.endpoints;
        let bucket = match request.op {
            EndpointOp::PortStatusUpdate => &mut endpoints.peers,
            _ => &mut endpoints.strangers,
        };
        if endpoints.frames.len() >= ENDPOINT_QUEUE_MAX || !bucket.take(now) {
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
        let plain = Template::new(&addressing).map_err(|_| DropReason::EndpointOperation)?;
        let content = Content::Answer { op: request.op, arrived: now, asked: request.timestamp };
        let (id, ev) = (packet.bth.psn as u16, packet.ev());
        let dscp = self.params.dscp.control;
        let mut frame = Frame { template: plain, port, id, ev, segment: None, dscp, content };
        let way_back = || {
            let qp = self.qps_to(packet.ip.source).find(|qp| qp.encapsulated)?;
            Some((qp.template, ReplyFrom::qp(qp)))
        };
        if let Some((template, from)) = packet.outer_at().and_then(|_| way_back()) {
            // Switches that route by segments need them on the way back too.
            let way = self.reply_way(&from, ev, FullPorts::none_of(self.ports.len()));
            frame = Frame { template, segment: way.ok().and_then(|way| way.segment), ..frame };
            frame.template.set_link(link_addresses(packet.link.destination, packet.link.source));
        }
        self.endpoints.frames.push_back(frame);
        Ok(())
    }

    fn take_endpoint_answer(
        &mut self,
        now: Ns,
        port: PortId,
        packet: &Packet,
        response: &EndpointResponse,
    ) -> Result<(), DropReason> {
        let (id, remote) = (packet.bth.psn as u16, packet.ip.source);
        let is_it = |asked: &Asked| asked.id == id && asked.remote == remote && asked.content.op() == response.op;
        if let Some(asked) = self.endpoints.direct.take(is_it) {
            self.endpoints.direct.answered(now, port, &asked, response.tx_timestamp);
            return Ok(());
        }
        let asked = self.endpoints.asked.iter().position(is_it);
        let asked = asked.and_then(|at| self.endpoints.asked.remove(at)).ok_or(DropReason::UnknownProbe)?;
        match asked.content {
            Content::Probe(probed) => {
                let rtt = reflected_rtt(now, asked.sent, response.tx_timestamp);
                if self.endpoints.answers.len() >= ENDPOINT_QUEUE_MAX {
                    self.endpoints.answers.pop_front();
                }
                self.endpoints.answers.push_back(EvProbeAnswer { id, remote, ev: probed.value, rtt });
                self.path_alive(now, remote, probed);
            }
            Content::Ports { out } => self.ports_confirmed(remote, id, out),
            Content::Told { .. } | Content::Answer { .. } => {}
        }
        Ok(())
    }

    /// Writes the oldest endpoint frame.
    pub(super) fn write_endpoint<T: TxBurst>(&mut self, now: Ns, out: &mut T, full: &mut FullPorts) -> Wrote {
        let Some(mut frame) = self.endpoints.frames.front().copied() else { return Wrote::Done };
        if let Content::Ports { out } = &mut frame.content {
            // What is told is what is so now: the timestamp says now, too.
            *out = self.ports_out;
            self.endpoints.now_told(frame.id, *out);
        }
        let (opcode, ext) = frame.content.compose(now);
        let len = frame.template.frame_len(ext.len(), 0);
        if !self.limits.has_control_room(len as u64) {
            return Wrote::NoRoom;
        }
        let room = if full.has(frame.port) { None } else { out.slot(frame.port, len) };
        let Some(room) = room else {
            if !full.has(frame.port) {
                self.refused(now, frame.port, full);
            }
            self.endpoints.frames.rotate_left(1);
            return Wrote::PortFull;
        };
        self.endpoints.frames.pop_front();
        // An answer's number is the peer's.
        let is_question = !matches!(frame.content, Content::Answer { .. });
        if let Some(asked) = self.endpoints.asked.iter_mut().find(|asked| is_question && asked.id == frame.id) {
            asked.sent = now;
        } else if is_question {
            self.endpoints.direct.sent(now, frame.id);
        }
        let bth = Bth::new(opcode, ENDPOINT_QPN, frame.id.into());
        let marks = Marks { ev: frame.ev, dscp: frame.dscp, ecn: 0 };
        let written = frame.template.write_headers(room, marks, &bth, &ext, 0);
        if let Some(segment) = frame.segment {
            // Only encapsulated templates have a segment.
            let _ = frame.template.write_outer(room, &OuterMarks::to(segment, marks));
        }
        if written.is_some_and(|at| frame.template.seal(room, at, 0)) {
            if let Some(tap) = &mut self.tap {
                show_endpoint(&mut **tap, now, frame.port, frame.id.into(), frame.ev, room);
            }
            out.commit();
            self.stats.tx_endpoint.add(1);
            let accepting = Accepting::one(len, false, None);
            self.committed(now, frame.port, accepting, full);
        }
        Wrote::Done
    }
}

impl Content {
    pub(super) const fn op(&self) -> EndpointOp {
        match self {
            Content::Probe(_) => EndpointOp::EvProbe,
            Content::Ports { .. } | Content::Told { .. } => EndpointOp::PortStatusUpdate,
            Content::Answer { op, .. } => *op,
        }
    }

    fn compose(&self, now: Ns) -> (Opcode, Ext) {
        let request = |op, port_status_mask| {
            let request = EndpointRequest { op, vendor_info: 0, port_status_mask, timestamp: Timestamp::of(now) };
            (Opcode::EndpointRequest, Ext::EndpointRequest(request))
        };
        match *self {
            Content::Probe(_) => request(EndpointOp::EvProbe, 0),
            Content::Ports { out } => request(EndpointOp::PortStatusUpdate, u32::from(!out)),
            Content::Told { up } => request(EndpointOp::PortStatusUpdate, up),
            Content::Answer { op, arrived, asked } => {
                let unit = if asked.tsr { 8 * WIRE_TICK } else { WIRE_TICK };
                let tx_timestamp = asked.ticks.wrapping_add((now.since(arrived) / unit) as u16);
                (Opcode::EndpointResponse, Ext::EndpointResponse(EndpointResponse { op, tx_timestamp }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_limited_in_rate_and_the_budget_fills_with_time() {
        let mut bucket = Bucket::default();
        let answered = |bucket: &mut Bucket, now| (0..200).filter(|_| bucket.take(now)).count();
        assert_eq!(answered(&mut bucket, Ns(7)), 64);
        assert_eq!(answered(&mut bucket, Ns(7 + 49_999)), 0);
        assert_eq!(answered(&mut bucket, Ns(7 + 50_000)), 1);
        assert_eq!(answered(&mut bucket, Ns(7 + 60_000)), 0);
        assert_eq!(answered(&mut bucket, Ns(7 + 100_000)), 1, "what was not whole is not lost");
        assert_eq!(answered(&mut bucket, Ns(10 * SEC)), 64);
    }
}

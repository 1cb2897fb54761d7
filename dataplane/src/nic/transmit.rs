//! Frames out: replies first, then each destination in turn, what is sent again before what is new.

use super::rotations::{FullPorts, ReplyFrom, Way};
use super::{CONTROL_QUEUE_MAX, Nic, PortId, Qp, QpState, Qpn, Stats, TX_BURST, TX_BURST_BYTES, TxBurst};
use crate::Ns;
use crate::path::NoPath;
use crate::time::WIRE_TICK;
use crate::transport::{Fault, Outgoing, Psn, RttMode, SackOrigin};
use crate::wire::{
    Aeth, Bth, Ext, Marks, Nack, NackReason, Opcode, Packet, Probe, Sack, Skip, Syndrome, Timestamp, WriteHeaders,
};

/// ECN field of data packets, so that switches can mark them.
const ECT0: u8 = 2;
/// Congestion control type of a NACK.
const NACK_CC_TYPE: u8 = 2;

/// What answers a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Sack {
        origin: SackOrigin,
        skip: Skip,
    },
    Nack {
        psn: Psn,
        reason: NackReason,
    },
    Ack,
    Nak(Syndrome),
    /// No answer but a question: a probe waits with the replies, since it uses no window.
    Probe {
        id: u16,
    },
}

impl Answer {
    /// Length of its extension headers in bytes.
    const fn ext_len(&self) -> usize {
        match self {
            Answer::Sack { .. } => Sack::LEN,
            Answer::Nack { .. } => Nack::LEN,
            Answer::Probe { .. } => Probe::LEN,
            Answer::Ack | Answer::Nak(_) => Aeth::LEN,
        }
    }
}

/// The timestamp of a data packet, to be reflected.
#[inline]
pub(super) fn timestamp(packet: &Packet) -> Option<Timestamp> {
    match &packet.ext {
        Ext::Write(headers) => headers.timestamp,
        _ => None,
    }
}

/// An answer that waits for the port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) qpn: Qpn,
    /// EV of the packet that drew it.
    pub(super) ev: u32,
    /// When that packet came.
    pub(super) arrived: Ns,
    /// Its timestamp.
    pub(super) reflected: Option<Timestamp>,
    /// It was a retransmission.
    pub(super) rtx: bool,
    pub(super) answer: Answer,
}

impl Reply {
    #[inline]
    pub(super) fn to(qp: &Qp, packet: &Packet, now: Ns, answer: Answer) -> Reply {
        let reflected = timestamp(packet);
        Reply { qpn: qp.qpn, ev: packet.ev(), arrived: now, reflected, rtx: packet.bth.rtx, answer }
    }

    /// The timestamp to send back: the reflected one plus the service time, or the service time alone in units of 128 ns. Where service
    /// time is not reported it counts as none.
    #[inline]
    fn timestamp(&self, now: Ns, service_time: bool) -> u16 {
        let service = if service_time { now.since(self.arrived) } else { 0 };
        match self.reflected {
            Some(Timestamp { ticks, tsr: true, .. }) => ticks.wrapping_add((service / (8 * WIRE_TICK)) as u16),
            Some(Timestamp { ticks, tsr: false, .. }) => ticks.wrapping_add((service / WIRE_TICK) as u16),
            None => (service / WIRE_TICK).min(u64::from(u16::MAX)) as u16,
        }
    }
}

/// A frame that is written and not yet accepted by its port.
#[derive(Clone, Copy, Debug)]
pub(super) enum Accepting {
    /// Nobody waits for it.
    Reply,
    /// The timer of this packet starts when the port takes it.
    Data { qpn: Qpn, psn: Psn },
}

/// How a destination's turn went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A frame was written.
    Sent,
    /// Nothing to send, or the window is full: out of the round until something changes.
    Over,
    /// A QP ended instead of sending: the turn is not used.
    Unused,
    /// Its ports take no more for now.
    PortFull,
}

impl Nic {
    /// Writes frames into `out`, [`TX_BURST`] at most, and returns how many.
    #[inline]
    pub fn transmit<T: TxBurst>(&mut self, now: Ns, out: &mut T) -> usize {
        let mut full = FullPorts::none_of(self.ports.len());
        let (mut written, mut blocked) = (0, 0);
        while written < TX_BURST
            && blocked < self.control.len()
            && let Some(reply) = self.control.front().copied()
        {
            if self.write_reply(now, &reply, out, &mut full) {
                self.control.pop_front();
                written += 1;
            } else if full.is_everything() {
                return written;
            } else {
                // Its port is full, others may not be.
                self.control.rotate_left(1);
                blocked += 1;
            }
        }
        let mut blocked = 0;
        while written < TX_BURST && blocked < self.endpoints.waiting() {
            if self.write_endpoint(now, out, &mut full) {
                written += 1;
            } else if full.is_everything() {
                return written;
            } else {
                blocked += 1;
            }
        }
        // A burst of data ends after so many bytes too: what it takes to copy them, acknowledgements wait.
        let first = self.stats.tx_bytes.get();
        let mut blocked = 0;
        while written < TX_BURST
            && self.stats.tx_bytes.get() - first < TX_BURST_BYTES
            && let Some(&at) = self.round.front()
        {
            let before = full;
            match self.serve(now, at, out, &mut full) {
                Turn::Sent => {
                    self.round.rotate_left(1);
                    written += 1;
                    blocked = 0;
                }
                Turn::Over => {
                    self.destinations[at].in_round = false;
                    self.round.pop_front();
                }
                Turn::Unused => {}
                Turn::PortFull if full.is_everything() => break,
                // One more port is full: the destination's next value may be of another.
                Turn::PortFull if full != before => {}
                Turn::PortFull => {
                    blocked += 1;
                    if blocked >= self.round.len() {
                        break;
                    }
                    self.round.rotate_left(1);
                }
            }
        }
        written
    }

    /// Are there replies that wait for the port?
    #[inline]
    #[must_use]
    pub fn replies_wait(&self) -> bool {
        !self.control.is_empty()
    }

    /// Sends a reliability probe of `ev` on a QP: it uses no PSN, and its answer ([`Nic::poll_probe`]) tells that the path is alive, and its
    /// round-trip time. Returns the probe's number, or `None` when the QP has ended or the control queue is full.
    pub fn probe(&mut self, now: Ns, qpn: Qpn, ev: u32) -> Option<u16> {
        self.qp(qpn).filter(|qp| qp.state != QpState::Error)?;
        if self.control.len() >= CONTROL_QUEUE_MAX {
            return None;
        }
        let id = self.probes.ask(now, qpn, ev);
        let answer = Answer::Probe { id };
        self.control.push_back(Reply { qpn, ev, arrived: now, reflected: None, rtx: false, answer });
        Some(id)
    }

    /// The port accepted the next `frames` frames, in the order of their commit.
    #[inline]
    pub fn sent(&mut self, now: Ns, port: PortId, frames: usize) {
        for _ in 0..frames {
            let accepted = self.accepting.get_mut(usize::from(port.0)).and_then(|queue| queue.pop_front());
            let Some(Accepting::Data { qpn, psn }) = accepted else { continue };
            let slot = qpn.slot();
            let qp = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()).filter(|qp| qp.qpn == qpn);
            let Some(qp) = qp else { continue };
            let deadline = qp.requester.accepted(now, psn);
            if deadline.is_some_and(|deadline| qp.timer_at.is_none_or(|at| deadline < at)) {
                self.arm(slot);
            }
        }
    }

    /// Writes a reply; false when the port takes no more. A reply of a QP that is gone counts as written.
    #[inline]
    fn write_reply<T: TxBurst>(&mut self, now: Ns, reply: &Reply, out: &mut T, full: &mut FullPorts) -> bool {
        let slot = reply.qpn.slot();
        let entry = self.qps.get(slot).and_then(|entry| entry.as_deref());
        let Some(qp) = entry.filter(|qp| qp.qpn == reply.qpn) else { return true };
        let (from, len) = (ReplyFrom::qp(qp), qp.template.frame_len(reply.answer.ext_len(), 0));
        let Ok(way) = self.way_of_reply(now, &from, reply, *full) else { return false };
        // The slot comes first: a SACK that finds no room must not count as sent.
        let Some(frame) = out.slot(way.port, len) else {
            full.add(way.port);
            return false;
        };
        self.take_way(from.path, &way);
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return true };
        let ev = way.ev;
        let (opcode, psn, mut ext) = compose(qp, reply, now, self.params.transport.service_time, &self.stats);
        if let (Ext::Sack(sack), Some(host)) = (&mut ext, &self.host) {
            (sack.cc.rcv_cwnd_pen, sack.cc.restore_cwnd) = host.penalty(now);
        }
        let bth = Bth { rtx: reply.rtx, ..Bth::new(opcode, qp.peer_qpn, psn.get()) };
        // A probe tests the path of data, so it travels in its class.
        let marks = match reply.answer {
            Answer::Probe { .. } => Marks { ev, dscp: self.params.data_dscp(false), ecn: ECT0 },
            _ => Marks { ev, dscp: self.params.dscp.control, ecn: 0 },
        };
        let written = qp.template.write_headers(frame, marks, &bth, &ext, 0);
        qp.address(frame, &way, marks);
        if !written.is_some_and(|at| qp.template.seal(frame, at, 0)) {
            return true;
        }
        out.commit();
        self.count_frame(len, way.port, Accepting::Reply);
        true
    }

    /// A cumulative ACK takes a path of this NIC's own choice, while the controller leaves it one; a SACK or NACK carries back the value
    /// that it answers; a probe goes where the data goes that it stands for.
    #[inline]
    fn way_of_reply(&mut self, now: Ns, from: &ReplyFrom, reply: &Reply, full: FullPorts) -> Result<Way, NoPath> {
        match reply.answer {
            Answer::Ack | Answer::Nak(_) => match self.way(now, from.path, from.port, from.destination, full) {
                Err(NoPath::Denied) => self.reply_way(from, reply.ev, full),
                way => way,
            },
            Answer::Probe { .. } => self.probe_way(from, reply.ev, full),
            Answer::Sack { .. } | Answer::Nack { .. } => self.reply_way(from, reply.ev, full),
        }
    }

    #[inline]
    pub(super) fn count_frame(&mut self, len: usize, port: PortId, accepting: Accepting) {
        self.stats.tx_frames.add(1);
        self.stats.tx_bytes.add(len as u64);
        if let Some(queue) = self.accepting.get_mut(usize::from(port.0)) {
            queue.push_back(accepting);
        }
    }

    /// Gives a destination its turn: one packet.
    #[inline]
    fn serve<T: TxBurst>(&mut self, now: Ns, at: usize, out: &mut T, full_ports: &mut FullPorts) -> Turn {
        let full = self.params.transport.full();
        while let Some(&slot) = self.destinations[at].resend.front() {
            let room = self.destinations[at].window.can_send(full);
            let Some(qp) = self.qps[slot as usize].as_deref_mut() else {
                self.destinations[at].resend.pop_front();
                continue;
            };
            match qp.requester.resend(room) {
                Some(packet) => return self.send(now, slot as usize, &packet, out, full_ports),
                None if qp.requester.wants_resend() => return Turn::Over,
                None => {
                    qp.in_resend = false;
                    self.destinations[at].resend.pop_front();
                }
            }
        }
        while let Some(&slot) = self.destinations[at].fresh.front() {
            if !self.destinations[at].window.can_send(full) {
                return Turn::Over;
            }
            let Some(qp) = self.qps[slot as usize].as_deref_mut() else {
                self.destinations[at].fresh.pop_front();
                continue;
            };
            match qp.requester.fresh() {
                Some(mut packet) => {
                    // The last packet that the window lets through asks, or the sender might wait for a SACK in vain.
                    packet.ack_request |=
                        !self.destinations[at].window.can_send(self.params.transport.nominal(packet.len) + full);
                    return self.send(now, slot as usize, &packet, out, full_ports);
                }
                None => {
                    qp.in_fresh = false;
                    self.destinations[at].fresh.pop_front();
                }
            }
        }
        Turn::Over
    }

    /// Writes a data packet, and moves its QP to the end of its list.
    #[inline]
    fn send<T: TxBurst>(&mut self, now: Ns, slot: usize, packet: &Outgoing, out: &mut T, full: &mut FullPorts) -> Turn {
        let Some(qp) = self.qps[slot].as_deref() else { return Turn::Over };
        let (path, own_port, at) = (qp.path, qp.port, qp.destination);
        let timestamp = (self.params.transport.rtt_mode == RttMode::WireTimestamp).then(|| Timestamp::of(now));
        let ext =
            Ext::Write(WriteHeaders { meth: packet.meth, timestamp, reth: packet.reth, immediate: packet.immediate });
        let payload = packet.len as usize;
        let len = qp.template.frame_len(ext.len(), payload);
        let way = match self.way(now, path, own_port, at, *full) {
            Ok(way) => way,
            // Every value is denied: nothing is sent until the controller allows one.
            Err(NoPath::Denied) => return Turn::Over,
            Err(NoPath::PortsFull) => return Turn::PortFull,
        };
        let Some(frame) = out.slot(way.port, len) else {
            full.add(way.port);
            return Turn::PortFull;
        };
        let Some(qp) = self.qps[slot].as_deref_mut() else { return Turn::Over };
        let destination = &mut self.destinations[at];
        let source = match payload {
            0 => None,
            _ => match self.memory.local(qp.domain, packet.local_key, packet.local_va, payload) {
                Ok(source) => Some(source),
                Err(_) => {
                    self.fail(now, slot, Some(Fault::LocalProtection));
                    return Turn::Unused;
                }
            },
        };
        let again = packet.is_retransmission();
        let marks = Marks { ev: way.ev, dscp: self.params.data_dscp(again), ecn: ECT0 };
        let bth = Bth {
            ack_request: packet.ack_request,
            rtx: again,
            tsh: timestamp.is_some(),
            ..Bth::new(packet.opcode, qp.peer_qpn, packet.psn.get())
        };
        let Some(body) = qp.template.write_headers(frame, marks, &bth, &ext, payload) else { return Turn::PortFull };
        qp.address(frame, &way, marks);
        if let (Some(source), Some(room)) = (source, frame.get_mut(body..body + payload)) {
            source.copy_out(room);
        }
        if !qp.template.seal(frame, body, payload) {
            return Turn::PortFull;
        }
        out.commit();
        let nominal = self.params.transport.nominal(packet.len);
        qp.requester.committed(packet, way.ev, nominal);
        self.stats.tx_data.add(1);
        let accepting = if packet.is_tracked() {
            destination.window.sent(nominal);
            if again {
                self.stats.retransmits.add(1);
            }
            Accepting::Data { qpn: qp.qpn, psn: packet.psn }
        } else {
            self.stats.completion_requests.add(1);
            Accepting::Reply
        };
        let list = if again { &mut destination.resend } else { &mut destination.fresh };
        if list.len() > 1 {
            list.rotate_left(1);
        }
        self.take_way(path, &way);
        self.count_frame(len, way.port, accepting);
        Turn::Sent
    }
}

/// Makes the packet that a reply is: opcode, PSN and extension headers.
#[inline]
fn compose(qp: &mut Qp, reply: &Reply, now: Ns, service_time: bool, stats: &Stats) -> (Opcode, Psn, Ext) {
    let (spdcid, dpdcid) = (qp.wire_qpn as u16, qp.peer_qpn as u16);
    let cack = qp.responder.cack();
    match reply.answer {
        Answer::Sack { origin, skip } => {
            stats.tx_sacks.add(1);
            let mut sack = qp.responder.sack(origin, skip);
            (sack.entropy, sack.spdcid, sack.dpdcid) = (reply.ev, spdcid, dpdcid);
            sack.cc.tx_timestamp = reply.timestamp(now, service_time);
            (Opcode::Sack, cack, Ext::Sack(sack))
        }
        Answer::Nack { psn, reason } => {
            stats.tx_nacks.add(1);
            let nack = Nack {
                reason: reason as u8,
                vendor_info: 0,
                entropy: reply.ev,
                spdcid,
                dpdcid,
                nack_psn: psn.get(),
                cc_type: NACK_CC_TYPE,
                cc_flags: 0,
                tx_timestamp: reply.timestamp(now, service_time),
            };
            (Opcode::Nack, psn, Ext::Nack(nack))
        }
        Answer::Ack => {
            stats.tx_acks.add(1);
            qp.ack_queued = false;
            (Opcode::Ack, cack, Ext::Ack(Aeth { syndrome: Syndrome::Ack as u8, msn: qp.responder.msn() }))
        }
        Answer::Probe { id } => {
            stats.tx_probes.add(1);
            let probe = Probe { vendor_info: 0, id, spdcid, dpdcid, timestamp: Timestamp::of(now) };
            (Opcode::Probe, Psn::default(), Ext::Probe(probe))
        }
        Answer::Nak(syndrome) => {
            stats.tx_acks.add(1);
            (Opcode::Ack, cack, Ext::Ack(Aeth { syndrome: syndrome as u8, msn: qp.responder.msn() }))
        }
    }
}

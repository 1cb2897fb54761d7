//! What answers a packet, or asks: SACKs, NACKs, cumulative ACKs and probes, which wait in one queue and use no window.

use super::host::HostBuffer;
use super::rotations::{FullPorts, ReplyFrom, Way};
use super::tap::{Direction, Leaving, PacketKind, show};
use super::transmit::{Accepting, ECT0};
use super::{CONTROL_QUEUE_MAX, Nic, Qp, QpState, Qpn, Stats, TxBurst};
use crate::Ns;
use crate::path::NoPath;
use crate::time::WIRE_TICK;
use crate::transport::{Psn, SackOrigin};
use crate::wire::{
    Aeth, Bth, Ext, ExtHeaders, Marks, Nack, NackReason, Opcode, Packet, Probe, Sack, Skip, Syndrome, Timestamp,
};

/// Congestion control type of a NACK.
const NACK_CC_TYPE: u8 = 2;

/// What answers a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Sack {
        origin: SackOrigin,
        skip: Skip,
        /// It shows the PSNs around this one, not what is next in the walk over the window.
        around: Option<Psn>,
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
    /// What its packet is, and the reason of a NACK.
    const fn kind(&self) -> (PacketKind, Option<u8>) {
        match self {
            Answer::Sack { .. } => (PacketKind::Sack, None),
            Answer::Nack { reason, .. } => (PacketKind::Nack, Some(*reason as u8)),
            Answer::Ack | Answer::Nak(_) => (PacketKind::Ack, None),
            Answer::Probe { .. } => (PacketKind::Probe, None),
        }
    }

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

/// What became of a frame that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// It is written, or needs not be.
    Done,
    /// Its port takes no more for now.
    PortFull,
    /// The egress buffer has no room for its class.
    NoRoom,
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

impl Nic {
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

    /// Writes a reply. One of a QP that is gone is done with, too.
    #[inline]
    pub(super) fn write_reply<T: TxBurst>(
        &mut self,
        now: Ns,
        reply: &Reply,
        out: &mut T,
        full: &mut FullPorts,
    ) -> Wrote {
        let slot = reply.qpn.slot();
        let entry = self.qps.get(slot).and_then(|entry| entry.as_deref());
        let Some(qp) = entry.filter(|qp| qp.qpn == reply.qpn) else { return Wrote::Done };
        let (from, len) = (ReplyFrom::qp(qp), qp.template.frame_len(reply.answer.ext_len(), 0));
        let is_data = matches!(reply.answer, Answer::Probe { .. });
        if is_data && !self.limits.has_data_room(len as u64) {
            self.stats.probes_unsent.add(1);
            return Wrote::Done;
        }
        if !is_data && !self.limits.has_control_room(len as u64) {
            return Wrote::NoRoom;
        }
        let Ok(way) = self.way_of_reply(now, &from, reply, *full) else { return Wrote::PortFull };
        let (ev, port) = (way.route.ev(), way.route.port());
        // The slot comes first: a SACK that finds no room must not count as sent.
        let Some(frame) = out.slot(port, len) else {
            self.refused(now, port, full);
            return Wrote::PortFull;
        };
        self.take_way(from.path, &way);
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return Wrote::Done };
        // A probe tests the path of data, so it travels in its class.
        let marks = match reply.answer {
            Answer::Probe { .. } => Marks { ev, dscp: self.params.data_dscp(false), ecn: ECT0 },
            _ => Marks { ev, dscp: self.params.dscp.control, ecn: 0 },
        };
        let service_time = self.params.transport.service_time;
        let writing = Writing { qp, reply, now, service_time, way: &way, marks, stats: &self.stats };
        let Some(psn) = writing.write(frame, self.host.as_ref()) else { return Wrote::Done };
        if let Some(tap) = &mut self.tap {
            let (kind, nack) = reply.answer.kind();
            let (direction, psn, ecn, way) = (Direction::Tx, psn.get(), marks.ecn, &way);
            show(
                &mut **tap,
                &self.rotations,
                qp,
                &Leaving { at: now, way, direction, kind, psn, payload: 0, ecn, nack, frame },
            );
        }
        out.commit();
        self.committed(now, port, Accepting::one(len, is_data, None), full);
        Wrote::Done
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
}

/// A reply that becomes a packet.
struct Writing<'a> {
    qp: &'a mut Qp,
    reply: &'a Reply,
    now: Ns,
    service_time: bool,
    way: &'a Way,
    marks: Marks,
    stats: &'a Stats,
}

impl Writing<'_> {
    /// Writes it into `frame`. Gives its PSN; `None` where the frame is not as long as that takes: a driver's fault.
    #[inline]
    fn write(mut self, frame: &mut [u8], host: Option<&HostBuffer>) -> Option<Psn> {
        let (spdcid, dpdcid) = (self.qp.wire_qpn as u16, self.qp.peer_qpn as u16);
        let (reply, stats) = (self.reply, self.stats);
        match reply.answer {
            Answer::Sack { origin, skip, around } => {
                stats.tx_sacks.add(1);
                let mut sack = self.sack(origin, skip, around);
                (sack.entropy, sack.spdcid, sack.dpdcid) = (reply.ev, spdcid, dpdcid);
                sack.cc.tx_timestamp = reply.timestamp(self.now, self.service_time);
                if let Some(host) = host {
                    (sack.cc.rcv_cwnd_pen, sack.cc.restore_cwnd) = host.penalty(self.now);
                }
                self.put(frame, Opcode::Sack, self.qp.responder.cack(), &sack)
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
                    tx_timestamp: reply.timestamp(self.now, self.service_time),
                };
                self.put(frame, Opcode::Nack, psn, &nack)
            }
            Answer::Ack => {
                self.qp.ack_queued = false;
                self.acknowledge(frame, Syndrome::Ack)
            }
            Answer::Nak(syndrome) => self.acknowledge(frame, syndrome),
            Answer::Probe { id } => {
                stats.tx_probes.add(1);
                let probe = Probe { vendor_info: 0, id, spdcid, dpdcid, timestamp: Timestamp::of(self.now) };
                self.put(frame, Opcode::Probe, Psn::default(), &probe)
            }
        }
    }

    /// The state of the window that a SACK shows.
    #[inline]
    fn sack(&mut self, origin: SackOrigin, skip: Skip, around: Option<Psn>) -> Sack {
        let qp = &mut *self.qp;
        if let Some(psn) = around {
            qp.sack_around = None;
            return qp.responder.sack_around(origin, skip, psn);
        }
        if !self.reply.rtx && skip == Skip::None {
            qp.sack_queued = false;
            if core::mem::take(&mut qp.sack_first) {
                qp.responder.show_first();
            }
        }
        qp.responder.sack(origin, skip)
    }

    #[inline]
    fn acknowledge(&self, frame: &mut [u8], syndrome: Syndrome) -> Option<Psn> {
        self.stats.tx_acks.add(1);
        let aeth = Aeth { syndrome: syndrome as u8, msn: self.qp.responder.msn() };
        self.put(frame, Opcode::Ack, self.qp.responder.cack(), &aeth)
    }

    // Once for each kind of header: where it is known, it is written piece by piece.
    #[inline(never)]
    fn put(&self, frame: &mut [u8], opcode: Opcode, psn: Psn, ext: &impl ExtHeaders) -> Option<Psn> {
        let template = &self.qp.template;
        let bth = Bth { rtx: self.reply.rtx, ..Bth::new(opcode, self.qp.peer_qpn, psn.get()) };
        let at = template.write_headers(frame, self.marks, &bth, ext, 0)?;
        self.qp.address(frame, self.way, self.marks);
        template.seal(frame, at, 0).then_some(psn)
    }
}

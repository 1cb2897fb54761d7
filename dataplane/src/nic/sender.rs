//! A QP that sends: what its packets take of the engine, looked up once for all packets of its turn.

mod row;

use super::alike::{Alike, Kind};
use super::group::Group;
use super::host::HostBuffer;
use super::lending::lead;
use super::limits::Limits;
use super::rotations::{FullPorts, Rotation, Route, Routes};
use super::tap::PacketKind::Write;
use super::tap::{Direction, Leaving, TapSlot, show};
use super::transmit::{Accepting, ECT0, Outbox, Quota, Run, Turn};
use super::{Nic, NicParams, Pieces, PortId, Qp, Stats, TxBurst};
use crate::Ns;
use crate::memory::{Lent, Loans, Table, Target, checksum_extent};
use crate::path::NoPath;
use crate::transport::{Again, Outgoing, Psn, RttMode};
use crate::wire::{Bth, Differing, ICRC_LEN, Icrc, Marks, Template, Timestamp, padding};

/// A QP, its group, and what else its packets need.
pub(super) struct Sender<'a> {
    qp: &'a mut Qp,
    group: &'a mut Group,
    stats: &'a Stats,
    params: &'a NicParams,
    memory: &'a Table,
    rotations: &'a mut [Rotation],
    /// The port of a QP that is not sprayed.
    own_port: PortId,
    loans: &'a mut Loans,
    host: &'a mut Option<HostBuffer>,
    limits: &'a mut Limits,
    outbox: Outbox<'a>,
    tap: &'a mut TapSlot,
    now: Ns,
    /// What all packets of the turn bear.
    timestamp: Option<Timestamp>,
    full: &'a mut FullPorts,
    /// Data packets written, and bytes of their frames; the counters get them at the end of the turn.
    packets: u64,
    bytes: u64,
    alike: &'a mut Alike,
}

/// A data packet that is to be written, and where it goes.
#[derive(Clone, Copy)]
struct LeavingData {
    /// With its timestamp.
    packet: Outgoing,
    route: Route,
    marks: Marks,
    /// Of the whole frame, in bytes.
    len: usize,
    /// By which an image serves for its headers.
    kind: Kind,
}

impl LeavingData {
    /// What an image leaves open.
    #[inline(always)]
    fn differing(&self) -> Differing {
        let Outgoing { psn, ack_request, headers, .. } = self.packet;
        Differing { ev: self.marks.ev, ack_request, psn: psn.get(), msn: headers.meth.msn, va: headers.reth.va }
    }

    #[inline(always)]
    fn bth(&self, peer_qpn: u32) -> Bth {
        Bth {
            ack_request: self.packet.ack_request,
            rtx: self.packet.is_retransmission(),
            tsh: self.packet.headers.timestamp.is_some(),
            ..Bth::new(self.packet.opcode, peer_qpn, self.packet.psn.get())
        }
    }
}

/// What became of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// Its slot is committed.
    Yes,
    /// The port takes no more for now.
    NoSlot,
    /// The slot is not as long as the frame: a driver's fault.
    Misfit,
}

impl Nic {
    /// The QP in `slot` as one that sends.
    #[inline(always)]
    pub(super) fn sender<'a>(&'a mut self, now: Ns, slot: u32, full: &'a mut FullPorts) -> Option<Sender<'a>> {
        let qp = self.qps.get(slot as usize)?.as_deref()?;
        let own_port = self.port_of(qp.path, qp.port, qp.destination);
        let is_stamped = self.params.transport.rtt_mode == RttMode::WireTimestamp;
        let timestamp = is_stamped.then(|| Timestamp::of(now));
        let qp = self.qps.get_mut(slot as usize)?.as_deref_mut()?;
        self.alike.turn_of(qp.qpn);
        Some(Sender {
            group: self.groups.get_mut(qp.group)?,
            qp,
            stats: &self.stats,
            params: &self.params,
            memory: &self.memory,
            rotations: &mut self.rotations,
            own_port,
            loans: &mut self.loans,
            host: &mut self.host,
            limits: &mut self.limits,
            outbox: Outbox::new(&mut self.accepting, &mut self.stalled, now),
            tap: &mut self.tap,
            now,
            timestamp,
            full,
            packets: 0,
            bytes: 0,
            alike: &mut self.alike,
        })
    }
}

impl Sender<'_> {
    /// Sends new packets, until the turn or the quota ends. Counts them in `sent`.
    #[inline]
    pub(super) fn send_fresh<T: TxBurst>(mut self, out: &mut T, quota: &Quota, sent: &mut usize) -> Run {
        let run = self.send_run(out, quota, sent);
        self.finish();
        run
    }

    /// Sends what a QP has to send again first, where `room` says that the congestion window takes a packet; `None` when there is nothing any
    /// more.
    #[inline]
    pub(super) fn send_again<T: TxBurst>(mut self, out: &mut T, room: bool) -> Option<Turn> {
        let Some(packet) = self.qp.requester.resend(room) else {
            self.qp.in_resend = self.qp.requester.wants_resend();
            return self.qp.in_resend.then_some(Turn::Over);
        };
        let turn = self.send(packet, out);
        self.finish();
        Some(turn)
    }

    #[inline(always)]
    fn send_run<T: TxBurst>(&mut self, out: &mut T, quota: &Quota, sent: &mut usize) -> Run {
        let transport = &self.params.transport;
        let full = transport.full();
        // Nothing changes them while packets are sent.
        let allowance = self.group.window.allowance();
        loop {
            if !allowance.can_send(self.group.window.inflight(), full) {
                return Run::Ended(Turn::Over);
            }
            let mut nominal = self.send_row(out, quota, sent);
            if nominal == 0 {
                let Some(mut packet) = self.qp.requester.fresh() else {
                    self.qp.in_fresh = false;
                    self.group.fresh.pop_front();
                    self.group.turn = 0;
                    return Run::Empty;
                };
                nominal = transport.nominal(packet.len);
                // The last packet that the window lets through asks, or the sender might wait for a SACK in vain.
                packet.ack_request |= allowance.is_full_after(self.group.window.inflight(), nominal + full);
                let turn = self.send(packet, out);
                if turn != Turn::Sent {
                    return Run::Ended(turn);
                }
                *sent += 1;
            }
            if self.group.pass_turn(nominal, full) {
                return Run::TurnOver;
            }
            if quota.is_spent(*sent, self.tx_bytes()) {
                return Run::Ended(Turn::Sent);
            }
        }
    }

    /// What the counter comes to with this turn's frames.
    #[inline(always)]
    fn tx_bytes(&self) -> u64 {
        self.stats.tx_bytes.get() + self.bytes
    }

    /// Writes a packet. Its frame waits for [`Outbox::hand_over`].
    // Always: what a packet is made of need not be in memory for that.
    #[inline(always)]
    fn send<T: TxBurst>(&mut self, mut packet: Outgoing, out: &mut T) -> Turn {
        packet.headers.timestamp = self.timestamp;
        let payload = packet.len as usize;
        let len = self.qp.template.frame_len(packet.headers.len(), payload);
        if !self.limits.may_fetch(self.now, len as u64) {
            return Turn::NoFetch;
        }
        let route = match Routes::of(self.rotations, self.qp.path, self.own_port).next(self.now, *self.full) {
            Ok(route) => route,
            Err(why) => return Turn::NoWay(why),
        };
        let source = match payload {
            0 => None,
            _ => match self.memory.local(self.qp.domain, packet.local_key, packet.local_va, payload) {
                Ok(source) => Some(source),
                Err(_) => return Turn::Unused,
            },
        };
        let marks = Marks { ev: route.ev(), dscp: self.params.data_dscp(packet.is_retransmission()), ecn: ECT0 };
        let head = len - payload - padding(payload) - ICRC_LEN;
        let kind = Kind::of(&packet);
        let written = match lead(head, payload) {
            Some(lead) if self.lends(route.port(), out) => {
                let leaving = LeavingData { packet, route, marks, len, kind };
                self.write_around(&leaving, head, lead, source, out)
            }
            // Another one: what is given to a function by reference is in memory.
            _ => self.write_whole(&LeavingData { packet, route, marks, len, kind }, source, out),
        };
        match written {
            Written::Yes => {}
            Written::NoSlot => {
                self.outbox.refuse(route.port(), self.full);
                return Turn::NoWay(NoPath::PortsFull);
            }
            Written::Misfit => return Turn::NoFetch,
        }
        Routes::of(self.rotations, self.qp.path, self.own_port).take(route);
        self.account(&packet, route, len);
        Turn::Sent
    }

    /// Writes the headers into `frame`, or its first bytes, by an image or as new. Gives where the payload goes.
    #[inline(always)]
    fn write_headers(&self, frame: &mut [u8], leaving: &LeavingData) -> Option<usize> {
        if let Some(image) = self.alike.image(leaving.kind) {
            return image.write(frame, &leaving.differing());
        }
        let LeavingData { packet, marks, len, .. } = *leaving;
        let (template, bth) = (&self.qp.template, leaving.bth(self.qp.peer_qpn));
        template.write_headers_of(frame, len, marks, &bth, &packet.headers, packet.len as usize)
    }

    /// Begins the iCRC over `head`, all headers and what follows them so far, and completes the headers: with the addresses of the frame's way,
    /// where they are not the template's. The iCRC does not cover those.
    #[inline(always)]
    fn complete(&mut self, head: &mut [u8], leaving: &LeavingData) -> Option<Icrc> {
        let icrc = match self.alike.image(leaving.kind) {
            Some(image) => image.icrc_over(head, &leaving.differing())?,
            None => {
                let icrc = self.qp.template.icrc_over(head)?;
                self.alike.wrote(leaving.kind, &self.qp.template, head);
                icrc
            }
        };
        if self.qp.is_addressed() {
            self.address_to(head, leaving.route, leaving.marks);
        }
        Some(icrc)
    }

    #[inline(never)]
    fn address_to(&self, frame: &mut [u8], route: Route, marks: Marks) {
        self.qp.address(frame, &route.way(self.rotations, self.qp.path), marks);
    }

    /// Do port, and whoever looks on, let payload be lent?
    #[inline]
    fn lends<T: TxBurst>(&self, port: PortId, out: &T) -> bool {
        self.loans.is_allowed() && self.tap.is_none() && out.takes_pieces(port) != Pieces::None
    }

    /// Writes a frame into one slot, with a copy of its payload.
    #[inline(always)]
    fn write_whole<T: TxBurst>(&mut self, leaving: &LeavingData, source: Option<Target<'_>>, out: &mut T) -> Written {
        let LeavingData { packet, route, len, .. } = *leaving;
        let Some(frame) = out.slot(route.port(), len) else { return Written::NoSlot };
        let payload = packet.len as usize;
        let Some(body) = self.write_headers(frame, leaving) else { return Written::Misfit };
        if let Some(source) = source
            && let Some(room) = frame.get_mut(body..body + payload)
        {
            source.copy_out(room);
        }
        let Some((head, tail)) = frame.split_at_mut_checked(body + payload) else { return Written::Misfit };
        let Some(icrc) = self.complete(head, leaving) else { return Written::Misfit };
        if !Template::end(tail, icrc, padding(payload)) {
            return Written::Misfit;
        }
        let qp = &*self.qp;
        let way = self.tap.is_some().then(|| route.way(self.rotations, qp.path));
        if let (Some(tap), Some(way)) = (&mut *self.tap, &way) {
            let direction = packet.again().map_or(Direction::Tx, Direction::Rtx);
            let (at, psn) = (self.now, packet.psn.get());
            let leaving = Leaving { at, way, direction, kind: Write, psn, payload, ecn: ECT0, nack: None, frame };
            show(&mut **tap, self.rotations, qp, &leaving);
        }
        out.commit();
        Written::Yes
    }

    /// Writes a frame whose payload is lent, but for its first `lead` bytes, or one with a copy of it where it can't be lent. Its headers take
    /// `head` bytes.
    #[inline(never)]
    fn write_around<T: TxBurst>(
        &mut self,
        leaving: &LeavingData,
        head: usize,
        lead: usize,
        source: Option<Target<'_>>,
        out: &mut T,
    ) -> Written {
        let LeavingData { packet, route, .. } = *leaving;
        let pad = padding(packet.len as usize);
        let Some(source) = source else { return Written::Misfit };
        let Some(lent) = self.lend(&packet, &source.skip(lead), route.port(), out) else {
            return self.write_whole(leaving, Some(source), out);
        };
        let slot = out.slot_around(route.port(), head + lead, lent, pad + ICRC_LEN);
        let Some((head, tail)) = slot else { return Written::NoSlot };
        let written = self.write_headers(head, leaving);
        let Some(room) = written.and_then(|body| head.get_mut(body..)) else { return Written::Misfit };
        source.copy_out(room);
        let rest = source.skip(room.len());
        let Some(mut icrc) = self.complete(head, leaving) else { return Written::Misfit };
        checksum_extent(&rest.extent(), &mut icrc);
        if !Template::end(tail, icrc, pad) {
            return Written::Misfit;
        }
        out.commit();
        Written::Yes
    }

    /// The `rest` of a packet's payload, lent to `port`; `None` where it is to be copied after all.
    #[inline]
    fn lend<T: TxBurst>(&mut self, packet: &Outgoing, rest: &Target<'_>, port: PortId, out: &T) -> Option<Lent> {
        let by_device = out.takes_pieces(port) == Pieces::Mapped;
        if by_device && !self.memory.is_mapped(packet.local_key, port.0, rest) {
            return None;
        }
        let loan = match self.qp.requester.loan(packet) {
            Some(loan) => loan,
            None => {
                let memory = self.memory.memory(self.qp.domain, packet.local_key)?;
                let loan = self.loans.take(packet.local_key, memory)?;
                self.qp.requester.set_loan(packet, loan);
                loan
            }
        };
        if by_device {
            return self.loans.lend_to_device(loan, rest, self.now);
        }
        self.loans.lend(loan, rest)
    }

    /// Counts a packet that is written, whose frame of `len` bytes goes to the port of its route.
    #[inline(always)]
    fn account(&mut self, packet: &Outgoing, route: Route, len: usize) {
        let nominal = self.params.transport.nominal(packet.len);
        self.qp.requester.committed(packet, route.ev(), nominal);
        (self.packets, self.bytes) = (self.packets + 1, self.bytes + len as u64);
        let (port, payload) = (route.port(), u64::from(packet.len));
        self.limits.take(self.now, port, len as u64, payload, true, self.full);
        if let (Some(host), Some(fetch)) = (&mut *self.host, self.params.limits.fetch.filter(|_| payload > 0)) {
            host.transfer(self.now, fetch.read_request.into(), 0);
        }
        if packet.is_tracked() {
            self.group.window.sent(nominal);
        }
        match packet.again() {
            None => self.outbox.append(port, len, self.qp.qpn, packet.psn),
            Some(cause) => self.account_again(cause, packet.is_tracked().then_some(packet.psn), port, len),
        }
    }

    /// A frame that is not the next of a run: of a packet sent again, or without a timer's PSN one that asks for a completion.
    // No packet by reference: it would be in memory for that.
    #[inline(never)]
    fn account_again(&mut self, cause: Again, psn: Option<Psn>, port: PortId, len: usize) {
        if psn.is_some() {
            self.stats.retransmits.add(1);
            self.stats.resent(cause);
            self.qp.stats.retransmits += 1;
        } else {
            self.stats.completion_requests.add(1);
        }
        self.outbox.put(port, Accepting::one(len, true, psn.map(|psn| (self.qp.qpn, psn))));
    }

    /// The turn is over.
    #[inline]
    fn finish(&mut self) {
        self.outbox.hand_over();
        self.stats.tx_data.add(self.packets);
        self.stats.tx_frames.add(self.packets);
        self.stats.tx_bytes.add(self.bytes);
        self.qp.stats.sent += self.packets;
    }
}

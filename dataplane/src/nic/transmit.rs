//! Frames out: replies first, then each group in turn, what is sent again before what is new.

use super::group::GroupState;
use super::reply::Wrote;
use super::rotations::{FullPorts, Way};
use super::tap::PacketKind::Write;
use super::tap::{Direction, Leaving, show};
use super::{Nic, PortId, Qpn, TX_BURST, TX_BURST_BYTES, TxBurst};
use crate::Ns;
use crate::memory::{Lent, checksum_extent, prefetch};
use crate::path::NoPath;
use crate::transport::{Fault, Outgoing, Psn, RttMode};
use crate::wire::{Bth, Ext, ICRC_LEN, Marks, Template, Timestamp, WriteHeaders, padding};

/// ECN field of data packets, so that switches can mark them.
pub(super) const ECT0: u8 = 2;

/// A frame that is written and not yet accepted by its port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepting {
    pub(super) len: u32,
    /// It is of the data class.
    pub(super) is_data: bool,
    /// The timer of this packet starts when the port takes it.
    pub(super) packet: Option<(Qpn, Psn)>,
}

/// How a group's turn went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A frame was written.
    Sent,
    /// Nothing to send, or the window is full: out of the round until something changes.
    Over,
    /// A QP ended instead of sending: the turn is not used.
    Unused,
    /// Its ports take no more for now, or all its values are denied.
    NoWay(NoPath),
    /// The egress buffer is full, or the host's link is busy.
    NoFetch,
}

/// A data packet that is to be written, and where it goes.
#[derive(Clone, Copy)]
struct LeavingData<'a> {
    packet: &'a Outgoing,
    way: &'a Way,
    marks: Marks,
    ext: &'a Ext,
    /// Of the whole frame, in bytes.
    len: usize,
    now: Ns,
}

impl LeavingData<'_> {
    #[inline]
    fn bth(&self, peer_qpn: u32) -> Bth {
        Bth {
            ack_request: self.packet.ack_request,
            rtx: self.packet.is_retransmission(),
            tsh: matches!(self.ext, Ext::Write(WriteHeaders { timestamp: Some(_), .. })),
            ..Bth::new(self.packet.opcode, peer_qpn, self.packet.psn.get())
        }
    }
}

/// What became of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// It is in its slot.
    Yes,
    /// The port takes no more for now.
    NoSlot,
    /// The slot is not as long as the frame: a driver's fault.
    Misfit,
}

/// How a group's QPs with something to send again fared.
enum Served {
    /// The turn is decided.
    Turn(Turn),
    /// Nothing was sent; those that had something had no way out, for this reason.
    Stuck(Option<NoPath>),
}

/// What a group's QPs without a way out wait for: of a port that is full rather than of the controller.
const fn worse(stuck: Option<NoPath>, why: NoPath) -> Option<NoPath> {
    match (stuck, why) {
        (Some(NoPath::PortsFull), _) | (_, NoPath::PortsFull) => Some(NoPath::PortsFull),
        (_, NoPath::Denied) => Some(NoPath::Denied),
    }
}

impl Nic {
    /// Writes frames into `out`, [`TX_BURST`] at most. Returns how many it is done with: after 0 there is nothing more for now.
    #[inline]
    pub fn transmit<T: TxBurst>(&mut self, now: Ns, out: &mut T) -> usize {
        let mut full = FullPorts::none_of(self.ports.len());
        self.turned_at = now;
        if self.recall || !self.holding.is_empty() {
            self.call_in(now, out);
        }
        self.limits.busy(now, &mut full);
        if full.is_everything() {
            return 0;
        }
        let mut written = self.transmit_slow(now, out, &mut full);
        written += self.transmit_replies(now, out, &mut full, TX_BURST - written);
        if written < TX_BURST && !full.is_everything() {
            written += self.transmit_data(now, out, &mut full, TX_BURST - written);
        }
        written
    }

    /// What uses no window: answers and probes of QPs, then endpoint operations.
    #[inline]
    fn transmit_replies<T: TxBurst>(&mut self, now: Ns, out: &mut T, full: &mut FullPorts, most: usize) -> usize {
        let (mut written, mut blocked) = (0, 0);
        while written < most
            && blocked < self.control.len()
            && !full.is_everything()
            && let Some(reply) = self.control.front().copied()
        {
            match self.write_reply(now, &reply, out, full) {
                Wrote::Done => {
                    self.control.pop_front();
                    written += 1;
                }
                Wrote::NoRoom => return written,
                Wrote::PortFull => {
                    // Others may not be.
                    self.control.rotate_left(1);
                    blocked += 1;
                }
            }
        }
        let mut blocked = 0;
        while written < most && blocked < self.endpoints.waiting() && !full.is_everything() {
            match self.write_endpoint(now, out, full) {
                Wrote::Done => written += 1,
                Wrote::NoRoom => break,
                Wrote::PortFull => blocked += 1,
            }
        }
        written
    }

    /// Data, `most` packets at most: each group in turn.
    #[inline]
    fn transmit_data<T: TxBurst>(&mut self, now: Ns, out: &mut T, full: &mut FullPorts, most: usize) -> usize {
        // A burst ends after so many bytes too: what it takes to copy them, acknowledgements wait.
        let first = self.stats.tx_bytes.get();
        let (mut written, mut blocked) = (0, 0);
        while written < most
            && self.stats.tx_bytes.get() - first < TX_BURST_BYTES
            && let Some(&at) = self.round.front()
        {
            let before = *full;
            self.groups[at].state = GroupState::Active;
            let turn = self.serve(now, at, out, full);
            self.groups[at].state = GroupState::Ready;
            match turn {
                Turn::Sent => {
                    self.round.rotate_left(1);
                    written += 1;
                    blocked = 0;
                }
                // Until the controller allows a value, or something else changes.
                Turn::Over | Turn::NoWay(NoPath::Denied) => {
                    self.groups[at].rest();
                    self.round.pop_front();
                }
                Turn::Unused => {}
                Turn::NoFetch => break,
                Turn::NoWay(NoPath::PortsFull) if full.is_everything() => break,
                // One more port is full: the group's next value may be of another.
                Turn::NoWay(NoPath::PortsFull) if *full != before => {}
                Turn::NoWay(NoPath::PortsFull) => {
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

    /// The port accepted the next `frames` frames, in the order of their commit.
    #[inline]
    pub fn sent(&mut self, now: Ns, port: PortId, frames: usize) {
        for _ in 0..frames {
            let accepted = self.accepting.get_mut(usize::from(port.0)).and_then(|queue| queue.pop_front());
            let Some(Accepting { len, is_data, packet }) = accepted else { continue };
            self.limits.release(len.into(), is_data);
            self.start_timer(now, packet);
        }
        if frames > 0 {
            self.moved(now, port);
        }
    }

    /// The timer of a packet starts, unless its QP is gone.
    #[inline]
    pub(super) fn start_timer(&mut self, now: Ns, packet: Option<(Qpn, Psn)>) {
        let Some((qpn, psn)) = packet else { return };
        let slot = qpn.slot();
        let qp = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()).filter(|qp| qp.qpn == qpn);
        let Some(qp) = qp else { return };
        let deadline = qp.requester.accepted(now, psn);
        if deadline.is_some_and(|deadline| qp.timer_at.is_none_or(|at| deadline < at)) {
            self.arm(slot);
        }
    }

    /// A frame is written, with `payload` bytes of it fetched from the host.
    #[inline(always)]
    pub(super) fn committed(
        &mut self,
        now: Ns,
        port: PortId,
        accepting: Accepting,
        payload: usize,
        full: &mut FullPorts,
    ) {
        let len = u64::from(accepting.len);
        self.stats.tx_frames.add(1);
        self.stats.tx_bytes.add(len);
        self.limits.take(now, port, len, payload as u64, accepting.is_data, full);
        if let (Some(host), Some(fetch)) = (&mut self.host, self.params.limits.fetch.filter(|_| payload > 0)) {
            host.transfer(now, fetch.read_request.into(), 0);
        }
        let at = usize::from(port.0);
        if let (Some(queue), Some(stalled)) = (self.accepting.get_mut(at), self.stalled.get_mut(at)) {
            queue.push_back(accepting);
            // Until the port has taken it.
            stalled.get_or_insert(now);
        }
    }

    /// Gives a group its turn: one packet, what is sent again before what is new, of the first of its QPs that has a way out for it.
    #[inline]
    fn serve<T: TxBurst>(&mut self, now: Ns, at: usize, out: &mut T, ports: &mut FullPorts) -> Turn {
        match self.serve_resend(now, at, out, ports) {
            Served::Turn(turn) => turn,
            Served::Stuck(stuck) => self.serve_fresh(now, at, out, ports, stuck),
        }
    }

    #[inline]
    fn serve_resend<T: TxBurst>(&mut self, now: Ns, at: usize, out: &mut T, ports: &mut FullPorts) -> Served {
        let full = self.params.transport.full();
        let mut stuck = None;
        // Each QP once: one whose values are all denied, or whose ports are full, lets the others pass.
        for _ in 0..self.groups[at].resend.len() {
            let Some(&slot) = self.groups[at].resend.front() else { break };
            let room = self.groups[at].window.can_send(full);
            let Some(qp) = self.qps[slot as usize].as_deref_mut() else {
                self.groups[at].resend.pop_front();
                continue;
            };
            match qp.requester.resend(room) {
                Some(packet) => match self.send(now, slot as usize, &packet, out, ports) {
                    Turn::NoWay(why) => {
                        stuck = worse(stuck, why);
                        self.groups[at].resend.rotate_left(1);
                    }
                    turn => return Served::Turn(turn),
                },
                None if qp.requester.wants_resend() => return Served::Turn(Turn::Over),
                None => {
                    qp.in_resend = false;
                    self.groups[at].resend.pop_front();
                }
            }
        }
        Served::Stuck(stuck)
    }

    #[inline]
    fn serve_fresh<T: TxBurst>(
        &mut self,
        now: Ns,
        at: usize,
        out: &mut T,
        ports: &mut FullPorts,
        mut stuck: Option<NoPath>,
    ) -> Turn {
        let full = self.params.transport.full();
        for _ in 0..self.groups[at].fresh.len() {
            let Some(&slot) = self.groups[at].fresh.front() else { break };
            if !self.groups[at].window.can_send(full) {
                break;
            }
            let Some(qp) = self.qps[slot as usize].as_deref_mut() else {
                self.groups[at].fresh.pop_front();
                continue;
            };
            let Some(mut packet) = qp.requester.fresh() else {
                qp.in_fresh = false;
                self.groups[at].fresh.pop_front();
                self.groups[at].turn = 0;
                self.expect_turns(at);
                continue;
            };
            // The last packet that the window lets through asks, or the sender might wait for a SACK in vain.
            let nominal = self.params.transport.nominal(packet.len);
            packet.ack_request |= self.groups[at].window.is_full_after(nominal + full);
            match self.send(now, slot as usize, &packet, out, ports) {
                Turn::NoWay(why) => {
                    stuck = worse(stuck, why);
                    self.groups[at].end_turn();
                }
                turn => return turn,
            }
        }
        stuck.map_or(Turn::Over, Turn::NoWay)
    }

    /// Writes a data packet, and moves its QP to the end of its list when it has had its turn.
    #[inline]
    fn send<T: TxBurst>(&mut self, now: Ns, slot: usize, packet: &Outgoing, out: &mut T, full: &mut FullPorts) -> Turn {
        let Some(qp) = self.qps[slot].as_deref() else { return Turn::Over };
        let (path, own_port, at) = (qp.path, qp.port, qp.destination);
        let stamped;
        let ext = match packet.headers {
            Ext::Write(headers) if self.params.transport.rtt_mode == RttMode::WireTimestamp => {
                stamped = Ext::Write(WriteHeaders { timestamp: Some(Timestamp::of(now)), ..headers });
                &stamped
            }
            _ => &packet.headers,
        };
        let payload = packet.len as usize;
        let len = qp.template.frame_len(ext.len(), payload);
        let (domain, headers) = (qp.domain, qp.template.frame_len(ext.len(), 0) - ICRC_LEN);
        if !self.limits.may_fetch(now, len as u64) {
            return Turn::NoFetch;
        }
        // Looked at where it is: a copy of what was just written, piece by piece, would wait for all of it.
        let way = self.way(now, path, own_port, at, *full);
        let way = match &way {
            Ok(way) => way,
            Err(why) => return Turn::NoWay(*why),
        };
        if payload > 0 && self.memory.local(domain, packet.local_key, packet.local_va, payload).is_err() {
            self.fail(now, slot, Some(Fault::LocalProtection));
            return Turn::Unused;
        }
        let again = packet.is_retransmission();
        let marks = Marks { ev: way.ev, dscp: self.params.data_dscp(again), ecn: ECT0 };
        let leaving = LeavingData { packet, way, marks, ext, len, now };
        let lead = self.lead(way.port, headers, payload, out);
        let lent = lead.and_then(|lead| Some((lead, self.lend(slot, packet, lead, way.port, out)?)));
        let written = match lent {
            Some((lead, lent)) => self.write_around(slot, &leaving, headers + lead, lent, out),
            None => self.write_whole(slot, &leaving, out),
        };
        match written {
            Written::Yes => {}
            Written::NoSlot => {
                self.refused(now, way.port, full);
                return Turn::NoWay(NoPath::PortsFull);
            }
            Written::Misfit => return Turn::NoFetch,
        }
        out.commit();
        let packet = self.account(slot, packet, way.ev, again);
        self.take_way(path, way);
        self.committed(now, way.port, Accepting { len: len as u32, is_data: true, packet }, payload, full);
        Turn::Sent
    }

    /// Writes a frame into one slot, with a copy of its payload.
    #[inline]
    fn write_whole<T: TxBurst>(&mut self, slot: usize, leaving: &LeavingData<'_>, out: &mut T) -> Written {
        let LeavingData { packet, way, marks, ext, len, now } = *leaving;
        let Some(frame) = out.slot(way.port, len) else { return Written::NoSlot };
        let Some(qp) = self.qps[slot].as_deref_mut() else { return Written::Misfit };
        let payload = packet.len as usize;
        let bth = leaving.bth(qp.peer_qpn);
        let Some(body) = qp.template.write_headers(frame, marks, &bth, ext, payload) else { return Written::Misfit };
        qp.address(frame, way, marks);
        if payload > 0
            && let Ok(source) = self.memory.local(qp.domain, packet.local_key, packet.local_va, payload)
            && let Some(room) = frame.get_mut(body..body + payload)
        {
            source.copy_out(room);
        }
        if !qp.template.seal(frame, body, payload) {
            return Written::Misfit;
        }
        if let Some(tap) = &mut self.tap {
            let direction = packet.again().map_or(Direction::Tx, Direction::Rtx);
            let psn = packet.psn.get();
            let leaving = Leaving { at: now, way, direction, kind: Write, psn, payload, ecn: ECT0, nack: None, frame };
            show(&mut **tap, &self.rotations, qp, &leaving);
        }
        Written::Yes
    }

    /// Writes a frame whose payload is lent, but for what stands in its first `head` bytes.
    #[inline]
    fn write_around<T: TxBurst>(
        &mut self,
        slot: usize,
        leaving: &LeavingData<'_>,
        head: usize,
        lent: Lent,
        out: &mut T,
    ) -> Written {
        let LeavingData { packet, way, marks, ext, len, .. } = *leaving;
        let payload = packet.len as usize;
        let pad = padding(payload);
        let Some(qp) = self.qps[slot].as_deref_mut() else { return Written::Misfit };
        let Ok(source) = self.memory.local(qp.domain, packet.local_key, packet.local_va, payload) else {
            return Written::Misfit;
        };
        let Some((head, tail)) = out.slot_around(way.port, head, lent, pad + ICRC_LEN) else { return Written::NoSlot };
        let bth = leaving.bth(qp.peer_qpn);
        let written = qp.template.write_headers_of(head, len, marks, &bth, ext, payload);
        let Some(room) = written.and_then(|body| head.get_mut(body..)) else { return Written::Misfit };
        source.copy_out(room);
        let rest = source.skip(room.len());
        qp.address(head, way, marks);
        let Some(mut icrc) = qp.template.icrc_over(head) else { return Written::Misfit };
        checksum_extent(&rest.extent(), &mut icrc);
        if Template::end(tail, icrc, pad) { Written::Yes } else { Written::Misfit }
    }

    /// Counts a data packet that is written. Gives what its timer is for, if it has one.
    #[inline]
    fn account(&mut self, slot: usize, packet: &Outgoing, ev: u32, again: bool) -> Option<(Qpn, Psn)> {
        let qp = self.qps[slot].as_deref_mut()?;
        let nominal = self.params.transport.nominal(packet.len);
        qp.requester.committed(packet, ev, nominal);
        self.stats.tx_data.add(1);
        qp.stats.sent += 1;
        let group = &mut self.groups[qp.group];
        let tracked = if packet.is_tracked() {
            group.window.sent(nominal);
            if let Some(cause) = packet.again() {
                self.stats.retransmits.add(1);
                self.stats.resent(cause);
                qp.stats.retransmits += 1;
            }
            Some((qp.qpn, packet.psn))
        } else {
            self.stats.completion_requests.add(1);
            None
        };
        if again {
            if group.resend.len() > 1 {
                group.resend.rotate_left(1);
            }
        } else if group.pass_turn(nominal, self.params.transport.full()) {
            let at = qp.group;
            self.expect_turns(at);
        }
        tracked
    }

    /// Of many QPs each has long left the caches when its turn comes: they are asked for those whose turns are next, so that they come while
    /// others send.
    #[inline]
    fn expect_turns(&self, at: usize) {
        let fresh = &self.groups[at].fresh;
        let qp = |turns: usize| self.qps.get(*fresh.get(turns)? as usize)?.as_deref();
        if let Some(later) = qp(2) {
            prefetch(later);
            // It has been asked for before.
            if let Some(next) = qp(1) {
                next.requester.expect_turn();
            }
        }
    }
}

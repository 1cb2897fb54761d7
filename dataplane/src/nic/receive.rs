//! Frames in.

use super::qp::{LastArrival, Qp, QpPath};
use super::reply::{Answer, Reply, timestamp};
use super::rotations::Rotation;
use super::tap::Witness;
use super::{
    CONTROL_QUEUE_MAX, CompletionEntry, DropReason, Happening, Nic, Placement, PortId, QpState, Qpn, RxFrame,
    TIMER_SACK, TIMERS_PER_QP, Whose,
};
use crate::Ns;
use crate::congestion::SackSignal;
use crate::memory::{Key, checksum, prefetch, read_bytes};
use crate::path::EvState;
use crate::transport::{AROUND, Arrival, Due, Immediate, MPR_UNIT, Psn, SackOrigin, Standing, reflected_rtt};
use crate::wire::{
    Aeth, ENDPOINT_QPN, Ext, ICRC_LEN, Nack, NackReason, Opcode, Packet, Probe, Refusal, Sack, SackFor, Skip, Syndrome,
    Trim, WriteHeaders, parse, probable_qp,
};
use core::net::IpAddr;

/// From so many QPs on the caches are asked for them: fewer stay there.
const MANY_QPS: usize = 256;

/// PSNs that the bitmap of a SACK shows.
const BITMAP_BITS: i32 = 64;

/// ECN field of a packet that a switch marked.
const CONGESTION_EXPERIENCED: u8 = 3;

impl Nic {
    /// Takes a received frame. `port` is where it came in.
    ///
    /// # Errors
    /// Why the frame had no effect; it is counted already.
    #[inline]
    pub fn receive<F: RxFrame>(&mut self, now: Ns, port: PortId, frame: &F) -> Result<(), DropReason> {
        debug_assert!(usize::from(port.0) < self.ports.len());
        self.stats.rx_frames.add(1);
        self.stats.rx_bytes.add(frame.len() as u64);
        let taken = self.take(now, port, frame);
        if let Err(reason) = taken {
            self.stats.dropped(reason);
        }
        if self.tap.is_some() {
            self.show_received(now, port, frame, taken);
        }
        taken
    }

    /// A frame that begins with `head` is received soon. Of many QPs each has long left the caches when something comes for it: they are asked
    /// for it, and for what the one before refers to, which has come meanwhile. It is a hint.
    #[inline]
    pub fn expect(&mut self, head: &[u8]) {
        if self.qps.len() < MANY_QPS {
            return;
        }
        let Some(slot) = probable_qp(head).map(|dqp| dqp & 0xFFFF).filter(|&slot| slot != self.expected.0) else {
            return;
        };
        if let Some(next) = self.expect_qp(slot, self.expected.0) {
            next.requester.expect_acknowledgement();
        }
        self.expected.0 = slot;
    }

    /// Requests are posted soon on a QP of many, after those on the one that this was told of last. It is a hint.
    #[inline]
    pub fn expect_post(&mut self, qpn: Qpn) {
        if self.qps.len() < MANY_QPS {
            return;
        }
        let slot = qpn.slot() as u32;
        if let Some(next) = self.expect_qp(slot, self.expected.1) {
            next.requester.expect_post();
        }
        self.expected.1 = slot;
    }

    /// Asks caches for the QP in the slot `later`. Gives the one in `next`.
    #[inline]
    fn expect_qp(&self, later: u32, next: u32) -> Option<&Qp> {
        let qp = |slot: u32| self.qps.get(slot as usize).and_then(|entry| entry.as_deref());
        if let Some(later) = qp(later) {
            prefetch(later);
        }
        qp(next)
    }

    #[inline]
    fn take<F: RxFrame>(&mut self, now: Ns, port: PortId, frame: &F) -> Result<(), DropReason> {
        // Looked at where it is: it is too long to be moved.
        let parsed = parse(frame.head(), frame.len(), &self.rules);
        let packet = match &parsed {
            Ok(packet) => packet,
            Err(refusal) => return self.take_slow(port, frame, *refusal),
        };
        if packet.trim != Trim::Whole {
            return self.take_trimmed(now, packet);
        }
        if packet.bth.opcode.is_data()
            && let Some(host) = &mut self.host
            && !host.take_frame(now, frame.len() as u64)
        {
            return Err(DropReason::IngressFull);
        }
        if let Ext::Write(headers) = &packet.ext {
            self.memory.expect_write(Key(headers.reth.rkey), headers.reth.va, packet.payload_len);
        }
        if !icrc_holds(frame, packet) {
            return Err(DropReason::Wire(Refusal::BadIcrc));
        }
        if packet.bth.dqp == ENDPOINT_QPN {
            return self.take_endpoint(now, port, packet);
        }
        let slot = self.find(packet)?;
        match &packet.ext {
            Ext::Write(headers) => self.take_data(now, slot, packet, headers, frame),
            Ext::Sack(sack) => self.take_sack(now, slot, packet, sack),
            Ext::Ack(aeth) => self.take_ack(now, slot, packet, aeth),
            Ext::Nack(nack) => self.take_nack(now, slot, nack),
            Ext::Probe(probe) => self.take_probe(now, slot, packet, probe),
            Ext::EndpointRequest(_) | Ext::EndpointResponse(_) | Ext::Cut => Err(DropReason::EndpointOperation),
        }
    }

    /// The QP that a packet is for.
    #[inline]
    pub(super) fn find(&self, packet: &Packet) -> Result<usize, DropReason> {
        let dqp = packet.bth.dqp;
        let slot = if self.aliases.is_empty() { (dqp & 0xFFFF) as usize } else { self.find_learned(packet)? };
        let qp = self.qps.get(slot).and_then(|entry| entry.as_deref()).ok_or(DropReason::UnknownQp)?;
        if qp.wire_qpn != dqp {
            return Err(DropReason::OldQpGeneration);
        }
        if packet.ip.source != qp.remote_ip {
            return Err(DropReason::WrongSource);
        }
        if packet.ip.destination != qp.local_ip {
            return Err(DropReason::WrongDestination);
        }
        Ok(slot)
    }

    #[cold]
    fn find_learned(&self, packet: &Packet) -> Result<usize, DropReason> {
        let key = (packet.ip.source, packet.ip.destination, packet.bth.dqp);
        let at = self.aliases.binary_search_by(|alias| (alias.source, alias.destination, alias.dqp).cmp(&key));
        at.map(|at| self.aliases[at].slot).map_err(|_| DropReason::UnknownQp)
    }

    #[inline]
    fn take_data<F: RxFrame>(
        &mut self,
        now: Ns,
        slot: usize,
        packet: &Packet,
        headers: &WriteHeaders,
        frame: &F,
    ) -> Result<(), DropReason> {
        let Some(qp) = self.qps[slot].as_deref_mut() else { return Err(DropReason::UnknownQp) };
        let arrival = Arrival {
            psn: Psn::new(packet.bth.psn),
            opcode: packet.bth.opcode,
            payload: packet.payload_len as u32,
            nominal: packet.nominal_size(),
            ack_request: packet.bth.ack_request,
            rtx: packet.bth.rtx,
            marked: packet.ip.ecn == CONGESTION_EXPERIENCED,
            immediate: match qp.placement {
                Placement::Keyed => headers.immediate.map(|value| Immediate {
                    value,
                    rqmsn: headers.meth.rqmsn,
                    len: headers.reth.dmalen,
                }),
                // A capture has no receives to complete.
                Placement::Learned { .. } => None,
            },
        };
        if qp.state == QpState::Error {
            self.refuse(now, slot, packet, NackReason::UnexpectedEvent);
            return Err(DropReason::QpState);
        }
        match qp.responder.standing(arrival.psn) {
            Standing::New => {}
            Standing::Duplicate => {
                qp.stats.duplicates += 1;
                self.stats.duplicates.add(1);
                let due = qp.responder.repeat(&arrival);
                self.reply(now, slot, packet, due);
                return Ok(());
            }
            Standing::Beyond => {
                qp.stats.out_of_window += 1;
                self.refuse(now, slot, packet, NackReason::PsnOutOfWindow);
                return Err(DropReason::PsnOutOfWindow);
            }
            Standing::Stale => return Err(DropReason::PsnStale),
        }
        let mss = self.params.transport.mss;
        let len = packet.payload_len;
        let in_order = arrival.psn == qp.responder.cack().next();
        if !in_order && self.out_of_order >= self.params.out_of_order_limit {
            self.refuse(now, slot, packet, NackReason::NoBitmap);
            return Err(DropReason::NoBitmap);
        }
        match &qp.placement {
            Placement::Learned { scratch, .. } => scratch.place(headers.reth.va, frame, packet.payload_at, len),
            Placement::Keyed => {
                if !well_formed(&arrival, headers, mss) || !qp.responder.in_its_place(arrival.psn, arrival.opcode) {
                    self.refuse_message(now, slot, packet, Syndrome::InvalidRequest);
                    return Err(DropReason::MalformedMessage);
                }
                if let Err(syndrome) = qp.responder.judge_immediate(&arrival) {
                    self.refuse_message(now, slot, packet, syndrome);
                    return Err(DropReason::Immediate);
                }
                let keep = arrival.immediate.is_some() && !in_order;
                if keep && self.held_immediates >= self.params.held_immediates_limit {
                    self.refuse(now, slot, packet, NackReason::NoResource);
                    return Err(DropReason::NoResource);
                }
                if len > 0 {
                    let key = Key(headers.reth.rkey);
                    let Ok(target) = self.memory.remote_write(qp.domain, key, headers.reth.va, len) else {
                        self.refuse_message(now, slot, packet, Syndrome::RemoteAccess);
                        return Err(DropReason::RemoteAccess);
                    };
                    if !self.host.as_mut().is_none_or(|host| host.take_payload(now, len as u64)) {
                        self.refuse(now, slot, packet, NackReason::NoPacketBuffer);
                        return Err(DropReason::NoPacketBuffer);
                    }
                    target.place(frame, packet.payload_at);
                }
            }
        }
        self.stats.placed.add(1);
        self.stats.placed_bytes.add(len as u64);
        self.stats.out_of_order.add(u64::from(!in_order));
        match self.accept(now, slot, &arrival) {
            Ok(due) => {
                self.reply(now, slot, packet, due);
                Ok(())
            }
            Err(syndrome) => {
                self.refuse_message(now, slot, packet, syndrome);
                Err(DropReason::Immediate)
            }
        }
    }

    /// Enters a placed packet into the window, and completes receives.
    #[inline(always)]
    fn accept(&mut self, now: Ns, slot: usize, arrival: &Arrival) -> Result<Due, Syndrome> {
        let Some(qp) = self.qps[slot].as_deref_mut() else { return Ok(Due::default()) };
        qp.stats.delivered += 1;
        qp.stats.delivered_bytes += u64::from(arrival.payload);
        match qp.responder.accept_in_order(arrival) {
            Some(due) => Ok(due),
            None => self.accept_other(now, slot, arrival),
        }
    }

    #[inline(never)]
    fn accept_other(&mut self, now: Ns, slot: usize, arrival: &Arrival) -> Result<Due, Syndrome> {
        let Some(qp) = self.qps[slot].as_deref_mut() else { return Ok(Due::default()) };
        let mut witness = Witness::of(&mut self.tap, qp);
        let (qpn, completions, stats) = (qp.qpn, &mut self.completions, &self.stats);
        let (late, held) = (qp.responder.out_of_order(), qp.responder.held_immediates());
        let received = &mut qp.stats.received_immediates;
        let due = qp.responder.accept(arrival, |completion| {
            *received += 1;
            stats.received_immediates.add(1);
            witness.tell(now, Happening::Completed(completion));
            completions.push(CompletionEntry { qpn, completion });
        });
        if arrival.psn.is_after(qp.responder.cack()) {
            self.interval.reorder.add(qp.responder.out_of_order().into());
        }
        self.out_of_order = self.out_of_order + qp.responder.out_of_order() - late;
        self.held_immediates = self.held_immediates + qp.responder.held_immediates() - held;
        due
    }

    /// Queues what a data packet draws. A packet that draws nothing yet leaves a SACK owed.
    #[inline(always)]
    fn reply(&mut self, now: Ns, slot: usize, packet: &Packet, due: Due) {
        let Some(qp) = self.qps[slot].as_deref_mut() else { return };
        let psn = Psn::new(packet.bth.psn);
        if due.sack {
            let marked = packet.ip.ecn == CONGESTION_EXPERIENCED;
            // Marks and retransmissions are told of one by one.
            let is_plain = !marked && !packet.bth.rtx;
            let other_waits = self.params.merge_sacks && is_plain && qp.sack_queued;
            if other_waits && will_show(qp, psn) {
                self.stats.sacks_merged.add(1);
            } else {
                let skip = if marked { Skip::Once } else { Skip::None };
                let around = other_waits.then_some(psn);
                let answer = Answer::Sack { origin: SackOrigin::Packet(psn), skip, around };
                let queued = enqueue(&mut self.control, &self.stats, Reply::to(qp, packet, now, answer));
                if queued && other_waits {
                    qp.sack_around = around;
                }
                qp.sack_queued |= queued && is_plain;
            }
        } else {
            let timestamp = timestamp(packet);
            qp.last_arrival = LastArrival { psn, ev: packet.ev(), at: now, timestamp };
            if !core::mem::replace(&mut qp.in_owing, true) {
                self.owing.push_back(slot as u32);
            }
            let timer = slot as u32 * TIMERS_PER_QP + TIMER_SACK;
            if self.wheel.deadline(timer).is_none() {
                self.wheel.arm(timer, now + self.params.transport.ack_timeout() / 4);
            }
        }
        if due.ack && !qp.ack_queued {
            qp.ack_queued = enqueue(&mut self.control, &self.stats, Reply::to(qp, packet, now, Answer::Ack));
        }
    }

    /// Sends the SACK that a QP owes, if it still does.
    pub(super) fn pay_sack(&mut self, slot: usize) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        if qp.responder.owes_sack() {
            let LastArrival { psn, ev, at: arrived, timestamp: reflected } = qp.last_arrival;
            let answer = Answer::Sack { origin: SackOrigin::Packet(psn), skip: Skip::None, around: None };
            let reply = Reply { qpn: qp.qpn, ev, arrived, reflected, rtx: false, answer };
            enqueue(&mut self.control, &self.stats, reply);
        }
    }

    /// Answers a packet by a NACK.
    #[cold]
    fn refuse(&mut self, now: Ns, slot: usize, packet: &Packet, reason: NackReason) {
        let Some(qp) = self.qps[slot].as_deref() else { return };
        let answer = Answer::Nack { psn: Psn::new(packet.bth.psn), reason };
        enqueue(&mut self.control, &self.stats, Reply::to(qp, packet, now, answer));
    }

    /// Answers a message by a NAK, and ends the QP.
    #[cold]
    fn refuse_message(&mut self, now: Ns, slot: usize, packet: &Packet, syndrome: Syndrome) {
        if let Some(qp) = self.qps[slot].as_deref() {
            enqueue(&mut self.control, &self.stats, Reply::to(qp, packet, now, Answer::Nak(syndrome)));
        }
        self.fail(now, slot, None);
    }

    /// A trimmed packet: its headers say what a switch could not carry.
    #[cold]
    fn take_trimmed(&mut self, now: Ns, packet: &Packet) -> Result<(), DropReason> {
        if !packet.bth.opcode.is_data() {
            return Err(DropReason::TrimmedControl);
        }
        let slot = self.find(packet)?;
        if self.params.trimming {
            let reason = if packet.trim == Trim::LastHop { NackReason::TrimmedLastHop } else { NackReason::Trimmed };
            self.refuse(now, slot, packet, reason);
        }
        Err(DropReason::Trimmed)
    }

    #[inline]
    fn take_sack(&mut self, now: Ns, slot: usize, packet: &Packet, sack: &Sack) -> Result<(), DropReason> {
        self.stats.rx_sacks.add(1);
        let probe = match sack.answers {
            SackFor::Probe { id } => Some(id),
            SackFor::Packet { .. } => None,
        };
        let Some(qp) = self.qps[slot].as_deref_mut() else { return Err(DropReason::UnknownQp) };
        if probe.is_some_and(|id| !self.probes.waits(qp.qpn, id)) {
            return Err(DropReason::UnknownProbe);
        }
        match (qp.state, probe) {
            (QpState::Rts, _) => {}
            // Ready to receive alone: nothing is outstanding, and the answer says all.
            (QpState::Rtr, Some(id)) => {
                self.take_probe_answer(now, slot, sack, id);
                return Ok(());
            }
            (QpState::Rtr | QpState::Error, _) => return Err(DropReason::QpState),
        }
        let dynamic_mpr = self.params.transport.dynamic_mpr;
        let Some((qp, mut outcome)) = self.with_outcome(now, slot) else { return Err(DropReason::UnknownQp) };
        let inflight = outcome.window.inflight();
        let report = qp.requester.on_sack(now, sack, packet.bth.rtx, &mut outcome);
        if report.beyond_sent {
            return Err(DropReason::AcknowledgesUnsent);
        }
        if report.idle && probe.is_none() {
            outcome.stats.idle_acknowledgements.add(1);
        }
        // What an overtaken SACK allowed may have been taken back since.
        if dynamic_mpr && sack.mpr > 0 && !report.overtaken {
            qp.requester.set_window(u32::from(sack.mpr) * MPR_UNIT);
        }
        let new_bytes = newly_received(&mut qp.rcvd_bytes_seen, sack.cc.rcvd_bytes);
        let (at, group, remote, path) = (qp.destination, qp.group, qp.remote_ip, qp.path);
        let rtt = report.rtt.or(probe.and_then(|id| self.take_probe_answer(now, slot, sack, id)));
        let signal = SackSignal {
            new_bytes,
            ecn: sack.skip == Skip::Once,
            rtt,
            penalty: sack.cc.rcv_cwnd_pen,
            restore: sack.cc.restore_cwnd,
        };
        if let Some(rtt) = rtt {
            self.destinations[at].last_rtt = Some(rtt);
            self.interval.rtt.add(rtt);
        }
        self.groups[group].window.on_sack(now, &signal, inflight);
        if let QpPath::Sprayed(rotation) = path {
            self.take_skip(now, remote, rotation, sack);
        }
        self.refresh(slot);
        Ok(())
    }

    /// What a SACK says of the path of the packet that drew it.
    #[inline]
    fn take_skip(&mut self, now: Ns, remote: IpAddr, rotation: usize, sack: &Sack) {
        let Rotation { spraying, profile, .. } = &mut self.rotations[rotation];
        match sack.skip {
            Skip::Once if self.params.ecn_skip => spraying.mark(sack.entropy),
            Skip::Always if spraying.assume_bad(sack.entropy, now) => {
                self.events.push(now, remote, Whose::Of(*profile), sack.entropy, EvState::AssumedBad);
            }
            _ => {}
        }
    }

    /// The answer to a probe: its path is alive, so the value returns to the rotation. Gives the round-trip time, where the clock tells.
    #[cold]
    fn take_probe_answer(&mut self, now: Ns, slot: usize, sack: &Sack, id: u16) -> Option<u64> {
        self.stats.rx_probe_answers.add(1);
        let qp = self.qps[slot].as_deref()?;
        let asked = self.probes.asked_at(qp.qpn, id)?;
        let rtt = reflected_rtt(now, asked, sack.cc.tx_timestamp);
        let (remote, path) = (qp.remote_ip, qp.path);
        let ev = self.probes.answered(qp.qpn, id, rtt)?;
        let at = qp.destination;
        self.destinations[at].last_rtt = rtt.or(self.destinations[at].last_rtt);
        if sack.skip != Skip::Always {
            self.path_alive(now, remote, self.probed(path, ev));
        }
        rtt
    }

    #[inline]
    fn take_ack(&mut self, now: Ns, slot: usize, packet: &Packet, aeth: &Aeth) -> Result<(), DropReason> {
        self.stats.rx_acks.add(1);
        let Some((qp, mut outcome)) = self.with_outcome(now, slot) else { return Err(DropReason::UnknownQp) };
        if qp.state != QpState::Rts {
            return Err(DropReason::QpState);
        }
        match qp.requester.on_ack(now, Psn::new(packet.bth.psn), aeth, &mut outcome) {
            Ok(report) if report.beyond_sent => return Err(DropReason::AcknowledgesUnsent),
            Ok(report) => {
                let is_held = qp.requester.is_held();
                if report.idle {
                    self.stats.idle_acknowledgements.add(1);
                }
                if is_held {
                    self.hold(slot);
                }
                self.refresh(slot);
            }
            Err(fault) => self.fail(now, slot, Some(fault)),
        }
        Ok(())
    }

    fn take_nack(&mut self, now: Ns, slot: usize, nack: &Nack) -> Result<(), DropReason> {
        self.stats.rx_nacks.add(1);
        let Some((qp, mut outcome)) = self.with_outcome(now, slot) else { return Err(DropReason::UnknownQp) };
        if qp.state != QpState::Rts {
            return Err(DropReason::QpState);
        }
        // Even when the packet has been acknowledged already: the path is what was full.
        if nack.reason == NackReason::Trimmed as u8
            && let Some(rotation) = &mut outcome.rotation
        {
            rotation.spraying.mark(nack.entropy);
        }
        match qp.requester.on_nack(now, Psn::new(nack.nack_psn), nack.reason, &mut outcome) {
            Ok(true) => {
                self.refresh(slot);
            }
            Ok(false) => self.stats.idle_acknowledgements.add(1),
            Err(fault) => self.fail(now, slot, Some(fault)),
        }
        Ok(())
    }

    /// A probe: answered by a SACK that shows the window as it is. It changes nothing.
    fn take_probe(&mut self, now: Ns, slot: usize, packet: &Packet, probe: &Probe) -> Result<(), DropReason> {
        self.stats.rx_probes.add(1);
        let Some(qp) = self.qps[slot].as_deref() else { return Err(DropReason::UnknownQp) };
        if qp.state == QpState::Error {
            return Err(DropReason::QpState);
        }
        let skip = if packet.ip.ecn == CONGESTION_EXPERIENCED { Skip::Once } else { Skip::None };
        let answer = Answer::Sack { origin: SackOrigin::Probe(probe.id), skip, around: None };
        let reply = Reply { reflected: Some(probe.timestamp), ..Reply::to(qp, packet, now, answer) };
        enqueue(&mut self.control, &self.stats, reply);
        Ok(())
    }
}

/// Will a SACK that waits show that `psn` arrived?
#[inline]
fn will_show(qp: &mut Qp, psn: Psn) -> bool {
    let ahead = psn.distance(qp.responder.cack());
    if ahead <= BITMAP_BITS {
        qp.sack_first |= ahead > 0;
        return true;
    }
    qp.sack_around.is_some_and(|shown| AROUND.contains(&psn.distance(shown)))
}

/// Puts a reply into the control queue; false when it is full.
#[inline]
pub(super) fn enqueue(control: &mut std::collections::VecDeque<Reply>, stats: &super::Stats, reply: Reply) -> bool {
    if control.len() >= CONTROL_QUEUE_MAX {
        stats.replies_dropped.add(1);
        return false;
    }
    control.push_back(reply);
    true
}

/// Is the iCRC right? It is checked on the source, before anything is written.
#[inline]
fn icrc_holds<F: RxFrame>(frame: &F, packet: &Packet) -> bool {
    let head = frame.head();
    let end = packet.icrc_at();
    if let (Some(icrc), Some(told)) = (packet.icrc_at_once(head), head.get(end..end + ICRC_LEN)) {
        return icrc.finish() == told;
    }
    let Some(mut icrc) = packet.icrc_over_headers(head) else { return false };
    checksum(frame, packet.payload_at, end - packet.payload_at, &mut icrc);
    icrc.finish() == read_bytes::<ICRC_LEN, F>(frame, end)
}

/// Do payload and message length go with the opcode? All packets but the last are full, and the last carries what is left.
#[inline]
fn well_formed(arrival: &Arrival, headers: &WriteHeaders, mss: u32) -> bool {
    let (payload, message) = (arrival.payload, headers.reth.dmalen);
    match arrival.opcode {
        Opcode::WriteOnly | Opcode::WriteOnlyImm => payload == message && payload <= mss,
        Opcode::WriteFirst => payload == mss && message > mss,
        Opcode::WriteMiddle => payload == mss && u64::from(message) > 2 * u64::from(mss),
        Opcode::WriteLast | Opcode::WriteLastImm => {
            payload > 0 && payload <= mss && message > mss && (message - payload).is_multiple_of(mss)
        }
        _ => false,
    }
}

/// Bytes that the responder newly counts, from its wrapping 24-bit count of 256-byte units, and the count last `seen`.
#[inline]
fn newly_received(seen: &mut u32, rcvd_bytes: u32) -> u64 {
    // Compared as PSNs are: by signed distance in 24 bits. A SACK that was overtaken counts nothing.
    let ahead = Psn::new(rcvd_bytes).distance(Psn::new(*seen));
    if ahead <= 0 {
        return 0;
    }
    *seen = rcvd_bytes;
    ahead as u64 * 256
}

#[cfg(test)]
mod tests {
    use super::newly_received;

    #[test]
    fn received_bytes_count_on_over_the_wrap_of_24_bits_and_never_backwards() {
        let mut seen = 0xFF_FFFE;
        assert_eq!(newly_received(&mut seen, 0xFF_FFFE), 0);
        assert_eq!(newly_received(&mut seen, 1), 3 * 256);
        assert_eq!(newly_received(&mut seen, 0xFF_FFFF), 0, "overtaken");
        assert_eq!(newly_received(&mut seen, 2), 256);
    }
}

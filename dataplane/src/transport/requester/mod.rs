//! The sending side of a QP: messages cut into packets, what is in flight, what is lost, what is done.
//!
//! The engine calls, in this order: [`Requester::post`] for each request; [`Requester::resend`] or [`Requester::fresh`] for what could be
//! sent, then [`Requester::committed`] once the frame is written, or [`Requester::send_row`] for several that are alike;
//! [`Requester::accepted`] once the port took them; `on_sack`, `on_ack` and `on_nack` for what the responder says; `on_time` when
//! [`Requester::next_deadline`] or [`Requester::rerequest_deadline`] is due.

mod acknowledge;
mod in_order;
mod loss;
mod message;
mod outgoing;
mod room;
mod row;
#[cfg(test)]
mod tests;
mod timers;

pub use acknowledge::{SackReport, reflected_rtt};
pub use message::{Completion, Operation, PostError, Status, WriteRequest};
pub use outgoing::{Again, Outgoing};
pub use room::Rooms;
pub use row::{InRow, Row};

use super::lists::Lists;
use super::{MESSAGE_MAX, Numbered, Psn, PsnBits, TransportParams};
use crate::Ns;
use crate::memory::LoanId;
use crate::wire::{Meth, Reth, WriteHeaders};
use in_order::InOrder;
use message::Message;
pub(crate) use outgoing::Turn;
use room::FEW_SLOTS;
use timers::{IN_ORDER, NO_LIST, TIMER_LISTS};

/// Why a packet is presumed lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A SACK reported PSNs far above it.
    Gap,
    /// Its timer ran out.
    Timeout,
}

/// What ends a QP from the requester's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The retry budget of a packet is spent.
    RetryExceeded,
    /// NAK: invalid request.
    RemoteInvalidRequest,
    /// NAK: remote access error.
    RemoteAccess,
    /// NAK: remote operational error, or a NACK for an unexpected event.
    RemoteOperation,
    /// A local range is not registered (any more).
    LocalProtection,
}

impl Fault {
    const fn status(self) -> Status {
        match self {
            Fault::RetryExceeded => Status::RetryExceeded,
            Fault::RemoteInvalidRequest => Status::RemoteInvalidRequest,
            Fault::RemoteAccess => Status::RemoteAccess,
            Fault::RemoteOperation => Status::RemoteOperation,
            Fault::LocalProtection => Status::LocalProtection,
        }
    }
}

/// Who is told what became of packets and messages: the engine, for window, paths, counters and completion queue.
pub trait Observer {
    /// So many nominal bytes of packets left the flight, acknowledged or given up.
    fn settled(&mut self, nominal: u64);
    /// A packet is presumed lost; its bytes were settled before.
    fn lost(&mut self, nominal: u32, cause: Loss);
    /// An outstanding packet was refused; its bytes were settled before.
    fn refused(&mut self, nominal: u32, trimmed: bool);
    /// The transmission on `ev` timed out.
    fn timed_out(&mut self, ev: u32);
    /// A packet was sent again `times` times although its first transmission arrived.
    fn spurious(&mut self, times: u64);
    /// A message has all its acknowledgements; is all of its payload back that drivers were lent? Its loan ends with a yes.
    fn is_returned(&mut self, loan: LoanId) -> bool;
    /// A message ended otherwise.
    fn abandoned(&mut self, loan: LoanId);
    /// A request ended; `wanted` says whether its poster is to be told (a failure always is).
    fn completed(&mut self, completion: Completion, wanted: bool);
}

/// What is known of a packet from its first transmission until it is acknowledged.
#[derive(Clone, Copy)]
struct Slot {
    sent_at: Ns,
    deadline: Ns,
    ev: u32,
    nominal: u32,
    message: u32,
    /// The highest PSN sent when the packet was last retransmitted.
    highest_then: Psn,
    resends: u16,
    timeouts: u16,
    refusals: u16,
    /// The timer list that holds it, [`timers::IN_ORDER`], or `NO_LIST` without a running timer.
    timer: u8,
    /// Why it was presumed lost last.
    cause: Again,
    in_flight: bool,
    in_resent: bool,
}

const EMPTY: Slot = Slot {
    sent_at: Ns::ZERO,
    deadline: Ns::ZERO,
    ev: 0,
    nominal: 0,
    message: 0,
    highest_then: Psn::new(0),
    resends: 0,
    timeouts: 0,
    refusals: 0,
    timer: NO_LIST,
    cause: Again::Gap,
    in_flight: false,
    in_resent: false,
};

impl Slot {
    /// It is of a packet from now on that is sent for the first time. What is of packets that are lost waits for that.
    #[inline(always)]
    fn fill(&mut self, ev: u32, nominal: u32, message: u32) {
        (self.ev, self.nominal, self.message) = (ev, nominal, message);
        (self.resends, self.timeouts, self.refusals) = (0, 0, 0);
        (self.timer, self.in_flight, self.in_resent) = (IN_ORDER, true, false);
    }
}

/// The requester of one QP.
pub struct Requester {
    params: TransportParams,
    /// PSNs that may be in use beyond `cack`.
    window: u32,
    /// The peer's cumulative ACK.
    cack: Psn,
    /// The oldest PSN not acknowledged.
    una: Psn,
    /// The next PSN to use.
    next: Psn,
    /// The highest PSN that any SACK reported.
    reported: Psn,
    /// First transmissions below are judged for gaps already.
    judged: Psn,
    /// One for each PSN that may be in use, so a power of two; none while it has no room.
    slots: Box<[Slot]>,
    /// How many there may be: one for each PSN of the window.
    most_slots: usize,
    /// 1: sent and not acknowledged.
    unacked: PsnBits,
    /// 1: to be sent again.
    lost: PsnBits,
    lost_count: u32,
    /// No lost PSN is before.
    lost_from: Psn,
    /// The lowest PSN that the responder refused as beyond its window since `cack` moved last: it and what follows waits.
    barrier: Option<Psn>,
    timers: Lists<TIMER_LISTS>,
    /// Timers of those that are in no list.
    in_order: InOrder,
    /// Retransmitted packets in flight, in the order of their retransmission.
    resent: Lists<1>,
    /// Each has the number (msn) that its packets bear the low bits of.
    messages: Numbered<Message>,
    /// Number of the message that is being cut into packets.
    cutting: u32,
    /// First PSN of the next message.
    next_message_psn: Psn,
    depth: usize,
    /// The number that the last Write with Immediate was given.
    last_rqmsn: u16,
    /// Writes with Immediate of which a packet was sent and that have not completed.
    immediates: u32,
    /// How many of them the responder takes.
    immediate_limit: u32,
    rerequest_at: Option<Ns>,
    rerequest_due: bool,
    /// The number up to which messages may complete that wait for payload to come back.
    held: Option<u32>,
    /// How often the completion of the oldest message was asked for.
    asks: u32,
    /// `TransportParams::patience`.
    patience: Option<u64>,
    /// `TransportParams::timeout` of a packet that had none yet.
    first_timeout: (usize, u64),
}

/// What a requester needs to know of its responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Its `MaxPSNRange`.
    pub window: u32,
    /// Writes with Immediate that it takes in flight.
    pub immediates: u32,
}

impl Requester {
    /// A requester whose first packet has PSN `first`, over the smaller of both ends' `MaxPSNRange`, with a send queue of
    /// `depth` requests.
    #[must_use]
    pub fn new(params: TransportParams, first: Psn, peer: Advertised, depth: usize) -> Requester {
        let window = params.max_psn_range.min(peer.window).clamp(1, super::MPR_MAX);
        // Room for all that a Dynamic MPR may come to allow.
        let most_slots = (params.max_psn_range as usize).next_power_of_two().max(FEW_SLOTS);
        Requester {
            params,
            window,
            cack: first.plus(-1),
            una: first,
            next: first,
            reported: first.plus(-1),
            judged: first,
            slots: Box::default(),
            most_slots,
            unacked: PsnBits::new(params.max_psn_range),
            lost: PsnBits::new(params.max_psn_range),
            lost_count: 0,
            lost_from: first,
            barrier: None,
            timers: Lists::new(),
            in_order: InOrder::new(first, params.max_psn_range),
            resent: Lists::new(),
            messages: Numbered::default(),
            cutting: 0,
            next_message_psn: first,
            depth,
            last_rqmsn: 0,
            immediates: 0,
            immediate_limit: peer.immediates.max(1),
            rerequest_at: None,
            rerequest_due: false,
            held: None,
            asks: 0,
            patience: params.patience(),
            first_timeout: params.timeout(1),
        }
    }

    /// How long it takes until the retry budget of a packet is spent, in ns; `None` for ever.
    #[must_use]
    pub const fn patience(&self) -> Option<u64> {
        self.patience
    }

    /// The responder's window is now `psns` (Dynamic MPR). New data goes no further than that beyond the cumulative ACK, or than its own
    /// `MaxPSNRange`; what is in flight stays so.
    pub fn set_window(&mut self, psns: u32) {
        self.window = psns.clamp(1, self.params.max_psn_range);
    }

    /// The window that holds now, in PSNs.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// PSNs from the oldest that is not acknowledged to the next to be used.
    #[must_use]
    pub const fn psns_in_flight(&self) -> u32 {
        self.outstanding_span()
    }

    #[inline]
    fn index(&self, psn: Psn) -> usize {
        psn.get() as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    fn slot(&mut self, psn: Psn) -> &mut Slot {
        let at = self.index(psn);
        &mut self.slots[at]
    }

    /// Is `psn` sent and not acknowledged?
    #[inline]
    fn is_outstanding(&self, psn: Psn) -> bool {
        psn.distance(self.una) >= 0 && psn.distance(self.next) < 0 && self.unacked.get(psn)
    }

    #[inline]
    const fn outstanding_span(&self) -> u32 {
        self.next.distance(self.una) as u32
    }

    /// The loan of the message that a packet is of.
    #[inline]
    #[must_use]
    pub fn loan(&self, packet: &Outgoing) -> Option<LoanId> {
        self.messages.get(packet.message)?.loan
    }

    /// Gives the message that a packet is of a loan.
    #[inline]
    pub fn set_loan(&mut self, packet: &Outgoing, loan: LoanId) {
        if let Some(message) = self.messages.get_mut(packet.message) {
            message.loan = Some(loan);
        }
    }

    /// Do messages that have all their acknowledgements wait for payload that drivers were lent?
    #[inline]
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.messages.len()
    }

    /// Puts a Write on the send queue, in one of `rooms` where it has none.
    ///
    /// # Errors
    /// [`PostError::QueueFull`], [`PostError::TooLong`].
    #[inline(always)]
    pub fn post(&mut self, request: &WriteRequest, rooms: &mut Rooms) -> Result<(), PostError> {
        if self.messages.len() >= self.depth {
            return Err(PostError::QueueFull(self.depth));
        }
        if request.len > MESSAGE_MAX {
            return Err(PostError::TooLong(request.len));
        }
        self.enter(rooms);
        let packets = self.params.packets(request.len);
        if request.immediate.is_some() {
            self.last_rqmsn = self.last_rqmsn.wrapping_add(1);
        }
        self.messages.push(Message {
            request: *request,
            first: self.next_message_psn,
            packets,
            rqmsn: self.last_rqmsn,
            sent: 0,
            acknowledged: 0,
            loan: None,
        });
        self.next_message_psn = self.next_message_psn.plus(packets as i32);
        self.make_room(packets);
        Ok(())
    }

    /// Is there a packet for [`Requester::resend`]?
    #[inline]
    #[must_use]
    pub fn wants_resend(&self) -> bool {
        self.rerequest_due || self.next_lost().is_some()
    }

    /// Is there a packet for [`Requester::fresh`]?
    #[inline]
    #[must_use]
    pub fn wants_fresh(&self) -> bool {
        self.next.distance(self.cack) <= self.window as i32 && !self.is_barred(self.next) && self.to_cut().is_some()
    }

    /// The message to cut packets from: the first that is not sent in full, unless it is a Write with Immediate too many.
    #[inline]
    fn to_cut(&self) -> Option<&Message> {
        let message = self.messages.get(self.cutting)?;
        let waits = message.request.immediate.is_some() && message.sent == 0 && self.immediates >= self.immediate_limit;
        (!waits).then_some(message)
    }

    /// Has the responder refused `psn`, or one before it, as beyond its window, which has not moved since? The oldest packet is always
    /// inside.
    #[inline]
    fn is_barred(&self, psn: Psn) -> bool {
        self.barrier.is_some_and(|barrier| !barrier.is_after(psn)) && psn != self.una
    }

    /// The earliest lost PSN, unless the responder has to move first. No window holds a retransmission back: what was sent was
    /// inside the window that held then.
    #[inline]
    fn next_lost(&self) -> Option<Psn> {
        if self.lost_count == 0 {
            return None;
        }
        let from = if self.lost_from.is_after(self.una) { self.lost_from } else { self.una };
        let psn = self.lost.first_set(from, self.next.distance(from).max(0) as u32)?;
        (!self.is_barred(psn)).then_some(psn)
    }

    /// The packet to send before any new one: a request for a missing completion, which no window holds back, or
    /// the earliest lost packet where `room` says that the congestion window takes one.
    #[inline]
    #[must_use]
    pub fn resend(&self, room: bool) -> Option<Outgoing> {
        if self.rerequest_due
            && let Some(ask) = self.ask()
        {
            return Some(ask);
        }
        let psn = if room { self.next_lost()? } else { return None };
        let slot = &self.slots[self.index(psn)];
        let (number, turn) = (slot.message, Turn::Again(slot.cause));
        let message = self.messages.get(number)?;
        Some(self.packet(message, number, psn, message.index(psn), turn))
    }

    /// The next new packet. It asks for an ACK when it ends its message or fills the PSN window.
    #[inline]
    #[must_use]
    pub fn fresh(&self) -> Option<Outgoing> {
        let ahead = self.next.distance(self.cack);
        if ahead > self.window as i32 || self.is_barred(self.next) {
            return None;
        }
        let message = self.to_cut()?;
        let mut packet = self.packet(message, self.cutting, self.next, message.sent, Turn::Fresh);
        packet.ack_request |= ahead == self.window as i32;
        Some(packet)
    }

    /// The last packet of the newest message that, with all before it, lacks nothing but its transport ACK.
    fn ask(&self) -> Option<Outgoing> {
        let whole = self.messages.iter().take_while(|m| m.is_whole()).count();
        let number = self.messages.front_number().wrapping_add((whole as u32).checked_sub(1)?);
        let message = self.messages.get(number)?;
        let psn = message.last_psn();
        Some(self.packet(message, number, psn, message.index(psn), Turn::Ask))
    }

    #[inline]
    fn packet(&self, message: &Message, number: u32, psn: Psn, index: u32, turn: Turn) -> Outgoing {
        let request = &message.request;
        let at = index * self.params.mss;
        let last = index + 1 == message.packets;
        Outgoing {
            psn,
            opcode: message.opcode(index),
            ack_request: last,
            headers: WriteHeaders {
                meth: Meth { rqmsn: message.rqmsn, msn: number as u16 },
                timestamp: None,
                reth: Reth {
                    va: request.remote_va.wrapping_add(u64::from(at)),
                    rkey: request.remote_key.0,
                    dmalen: request.len,
                },
                immediate: request.immediate.filter(|_| last),
            },
            local_key: request.local_key,
            local_va: request.local_va.wrapping_add(u64::from(at)),
            len: (request.len - at).min(self.params.mss),
            message: number,
            turn,
        }
    }

    /// The frame of `packet` is written and will be offered to the port; it counts in flight with `nominal` bytes from now on.
    #[inline(always)]
    pub fn committed(&mut self, packet: &Outgoing, ev: u32, nominal: u32) {
        let psn = packet.psn;
        match packet.turn {
            Turn::Ask => self.rerequest_due = false,
            Turn::Fresh => {
                self.slot(psn).fill(ev, nominal, packet.message);
                self.unacked.set(psn);
                self.next = psn.next();
                if let Some(message) = self.messages.get_mut(packet.message) {
                    message.sent += 1;
                    let (begun, cut) = (message.sent == 1, message.sent == message.packets);
                    self.immediates += u32::from(begun && message.request.immediate.is_some());
                    self.cutting = self.cutting.wrapping_add(cut.into());
                }
            }
            Turn::Again(_) => {
                self.lost.clear(psn);
                self.lost_count -= 1;
                self.lost_from = psn;
                let highest_then = self.next.plus(-1);
                let at = self.index(psn);
                let slot = &mut self.slots[at];
                slot.ev = ev;
                slot.nominal = nominal;
                slot.resends = slot.resends.saturating_add(1);
                slot.highest_then = highest_then;
                slot.in_flight = true;
                slot.in_resent = true;
                self.resent.push_back(0, at);
            }
        }
    }

    /// A packet is acknowledged. Gives the bytes that are to be settled.
    #[inline(always)]
    #[must_use]
    fn arrived(&mut self, at: usize) -> u32 {
        // That it is not outstanding any more says all of one that was sent once.
        if self.slots[at].timer == IN_ORDER { self.slots[at].nominal } else { self.land(at) }
    }

    /// Takes a packet out of flight and out of the lists of those that are. Gives the bytes that are to be settled.
    #[inline(always)]
    #[must_use]
    fn land(&mut self, at: usize) -> u32 {
        self.stop_timer(at);
        let slot = &mut self.slots[at];
        let settled = if core::mem::replace(&mut slot.in_flight, false) { slot.nominal } else { 0 };
        if core::mem::replace(&mut slot.in_resent, false) {
            self.resent.remove(0, at);
        }
        settled
    }

    /// Ends all: the oldest request completes with the fault's status, the others as flushed. Nothing is sent any more.
    pub fn fail<O: Observer>(&mut self, fault: Fault, observer: &mut O) {
        let mut status = fault.status();
        self.abandon(observer);
        while let Some(message) = self.messages.pop() {
            message.loan.into_iter().for_each(|loan| observer.abandoned(loan));
            observer.completed(message.request.completion(status), true);
            status = Status::Flushed;
        }
    }

    /// Ends all without a cause of its own: every request completes as flushed.
    pub fn flush<O: Observer>(&mut self, observer: &mut O) {
        self.abandon(observer);
        while let Some(message) = self.messages.pop() {
            message.loan.into_iter().for_each(|loan| observer.abandoned(loan));
            observer.completed(message.request.completion(Status::Flushed), true);
        }
    }

    fn abandon<O: Observer>(&mut self, observer: &mut O) {
        let mut from = self.una;
        while let Some(psn) = self.unacked.first_set(from, self.next.distance(from) as u32) {
            from = psn.next();
            self.unacked.clear(psn);
            self.lost.clear(psn);
            self.in_order.forget(psn, 1);
            observer.settled(self.land(self.index(psn)).into());
        }
        self.una = self.next;
        self.in_order.pass(self.next);
        self.next_message_psn = self.next;
        self.lost_count = 0;
        self.cutting = self.messages.next_number();
        self.immediates = 0;
        self.rerequest_at = None;
        self.rerequest_due = false;
        self.held = None;
        self.asks = 0;
    }
}

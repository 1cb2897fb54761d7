//! What the responder acknowledges.

use super::{Fault, Observer, Requester, Status};
use crate::Ns;
use crate::time::WIRE_TICK;
use crate::transport::{Psn, RttMode, low_bits};
use crate::wire::{Aeth, Sack, SackFor, Syndrome};

/// Bits of a syndrome that make it a NAK, whatever its code.
const NAK_CLASS: u8 = 0x60;

/// What a SACK or an ACK brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackReport {
    /// Round-trip time of the packet that drew it, in ns, where it is a valid sample.
    pub rtt: Option<u64>,
    /// It speaks of PSNs that were never sent, or acknowledges nothing that was outstanding.
    pub idle: bool,
    /// It speaks of PSNs beyond the highest sent, and was ignored as a whole.
    pub beyond_sent: bool,
    /// Its cumulative ACK is older than one that came before it.
    pub overtaken: bool,
}

impl Requester {
    /// A SACK came; `rtx` is its BTH's echo.
    pub fn on_sack<O: Observer>(&mut self, now: Ns, sack: &Sack, rtx: bool, observer: &mut O) -> SackReport {
        let cack = Psn::new(sack.cack_psn);
        let highest_sent = self.next.plus(-1);
        if cack.is_after(highest_sent) {
            return SackReport { beyond_sent: true, idle: true, ..SackReport::default() };
        }
        let drew = match sack.answers {
            SackFor::Packet { offset } => Some(cack.plus(i32::from(offset))),
            SackFor::Probe { .. } => None,
        };
        let rtt = drew.and_then(|psn| self.rtt_sample(now, psn, rtx, sack.cc.tx_timestamp));
        if let Some(psn) = drew.filter(|_| !rtx) {
            self.count_spurious(psn, observer);
        }
        let overtaken = self.cack.is_after(cack);
        let mut acknowledged = self.acknowledge_up_to(cack, observer);
        let mut reported = cack;
        if let Some(psn) = drew.filter(|psn| !psn.is_after(highest_sent)) {
            acknowledged |= self.acknowledge(psn, observer);
            reported = later(reported, psn);
        }
        let (any, top) = self.acknowledge_bitmap(cack.plus(i32::from(sack.sack_offset)), sack.sack_bitmap, observer);
        acknowledged |= any;
        reported = top.map_or(reported, |top| later(reported, top));
        self.slide();
        if reported.is_after(self.reported) {
            self.reported = reported;
        }
        self.find_gaps(observer);
        self.watch_completion(now);
        SackReport { rtt, idle: !acknowledged, beyond_sent: false, overtaken }
    }

    /// A transport ACK or NAK came with `psn` as its cumulative ACK.
    ///
    /// # Errors
    /// The [`Fault`] that a NAK names; the caller ends the QP with it.
    pub fn on_ack<O: Observer>(
        &mut self,
        now: Ns,
        psn: Psn,
        aeth: &Aeth,
        observer: &mut O,
    ) -> Result<SackReport, Fault> {
        if psn.is_after(self.next.plus(-1)) {
            return Ok(SackReport { beyond_sent: true, idle: true, ..SackReport::default() });
        }
        let acknowledged = self.acknowledge_up_to(psn, observer);
        self.slide();
        let completed = self.complete_up_to(aeth.msn, observer);
        self.watch_completion(now);
        match Syndrome::from_u8(aeth.syndrome) {
            Some(Syndrome::InvalidRequest) => Err(Fault::RemoteInvalidRequest),
            Some(Syndrome::RemoteAccess) => Err(Fault::RemoteAccess),
            Some(Syndrome::RemoteOperation | Syndrome::WriteImmLimit) => Err(Fault::RemoteOperation),
            None if aeth.syndrome & NAK_CLASS == NAK_CLASS => Err(Fault::RemoteOperation),
            Some(Syndrome::Ack) | None => Ok(SackReport { idle: !acknowledged && !completed, ..SackReport::default() }),
        }
    }

    /// The first transmission of `psn` arrived: what was sent again was so in vain. Other SACKs may have acknowledged it before.
    fn count_spurious<O: Observer>(&mut self, psn: Psn, observer: &mut O) {
        // A slot remembers its packet until another takes its place.
        let behind = self.next.distance(psn);
        if behind > 0 && behind as usize <= self.slots.len() {
            let resends = core::mem::take(&mut self.slot(psn).resends);
            if resends > 0 {
                observer.spurious(resends.into());
            }
        }
    }

    /// A round-trip time, where it is clear which transmission drew the SACK: from the stored send time less the service time that the
    /// responder reports, or from the reflected timestamp, to which the responder has added its service time.
    pub(super) fn rtt_sample(&self, now: Ns, psn: Psn, rtx: bool, ticks: u16) -> Option<u64> {
        if !self.is_outstanding(psn) {
            return None;
        }
        let at = self.index(psn);
        let slot = &self.slots[at];
        if u16::from(rtx) != slot.resends || !slot.in_flight {
            return None;
        }
        let sent_at = self.sent_at(psn, at)?;
        match self.params.rtt_mode {
            RttMode::LocalDatabase => {
                now.since(sent_at).checked_sub(u64::from(ticks) * WIRE_TICK).filter(|&rtt| rtt > 0)
            }
            RttMode::WireTimestamp => reflected_rtt(now, sent_at, ticks),
        }
    }

    /// Acknowledges everything up to `cack`.
    fn acknowledge_up_to<O: Observer>(&mut self, cack: Psn, observer: &mut O) -> bool {
        if !cack.is_after(self.cack) {
            return false;
        }
        self.cack = cack;
        self.barrier = None;
        let mut any = false;
        let (mut from, mut left) = (self.una, cack.distance(self.una) + 1);
        while left > 0 {
            any |= self.acknowledge_word(from, low_bits(left as u32), observer);
            from = from.plus(64);
            left -= 64;
        }
        any
    }

    /// Acknowledges the PSNs of a bitmap that begins at `base`. Returns whether any was outstanding, and the highest one reported.
    fn acknowledge_bitmap<O: Observer>(&mut self, base: Psn, bitmap: u64, observer: &mut O) -> (bool, Option<Psn>) {
        if bitmap == 0 {
            return (false, None);
        }
        // Bits below the oldest outstanding PSN or beyond the highest sent say nothing.
        let below = self.una.distance(base).clamp(0, 64) as u32;
        let sent = self.next.distance(base).clamp(0, 64) as u32;
        let told = bitmap & low_bits(sent);
        let any = self.acknowledge_word(base, told & !low_bits(below), observer);
        (any, told.checked_ilog2().map(|top| base.plus(top as i32)))
    }

    /// Acknowledges one packet; false when it is not outstanding.
    #[inline]
    fn acknowledge<O: Observer>(&mut self, psn: Psn, observer: &mut O) -> bool {
        self.is_outstanding(psn) && self.acknowledge_word(psn, 1, observer)
    }

    /// Acknowledges those of the 64 PSNs from `base` on that are set in `told` and not acknowledged before; false when there is none. All that are
    /// set lie between the oldest outstanding one and the highest sent.
    #[inline]
    fn acknowledge_word<O: Observer>(&mut self, base: Psn, told: u64, observer: &mut O) -> bool {
        let new = if told == 0 { 0 } else { told & self.unacked.word(base) };
        if new == 0 {
            return false;
        }
        self.unacked.clear_word(base, new);
        self.in_order.forget(base, new);
        if self.lost_count > 0 {
            let found = self.lost.word(base) & new;
            self.lost.clear_word(base, found);
            self.lost_count -= found.count_ones();
        }
        let (mut left, mut settled) = (new, 0);
        while left != 0 {
            let at = self.index(base.plus(left.trailing_zeros() as i32));
            left &= left - 1;
            settled += u64::from(self.arrived(at));
            let number = self.slots[at].message;
            if let Some(message) = self.messages.get_mut(number) {
                message.acknowledged += 1;
            }
        }
        observer.settled(settled);
        true
    }

    /// Moves `una` to the oldest packet not acknowledged.
    #[inline]
    fn slide(&mut self) {
        let oldest = self.unacked.first_set(self.una, self.outstanding_span()).unwrap_or(self.next);
        if oldest == self.una {
            return;
        }
        self.una = oldest;
        self.judged = later(self.judged, self.una);
        self.in_order.pass(self.una);
    }

    /// Completes messages up to the number `msn`, compared on its low 16 bits, as far as all their packets are acknowledged.
    fn complete_up_to<O: Observer>(&mut self, msn: u32, observer: &mut O) -> bool {
        // An ACK that was overtaken takes nothing back.
        let msn = self.held.take().filter(|&held| number_after(held, msn) > 0).unwrap_or(msn);
        let front = self.messages.front_number();
        let most = (i32::from(number_after(msn, front)) + 1).max(0) as usize;
        let mut ended = 0;
        for message in self.messages.from_mut(front, most) {
            if !message.is_whole() {
                break;
            }
            if message.loan.is_some_and(|loan| !observer.is_returned(loan)) {
                self.held = Some(msn);
                break;
            }
            self.immediates -= u32::from(message.request.immediate.is_some());
            observer.completed(message.request.completion(Status::Success), message.request.signaled);
            ended += 1;
        }
        self.messages.drop_front(ended);
        let any = ended > 0;
        if any {
            self.rerequest_at = None;
            self.rerequest_due = false;
            self.asks = 0;
        }
        any
    }

    /// Completes messages that waited for their payload to come back, as far as it has.
    pub fn complete_held<O: Observer>(&mut self, observer: &mut O) {
        if let Some(msn) = self.held {
            self.complete_up_to(msn, observer);
        }
    }

    /// Starts the wait for a transport ACK when the oldest message lacks nothing else.
    #[inline]
    fn watch_completion(&mut self, now: Ns) {
        if self.rerequest_at.is_none()
            && self.held.is_none()
            && self.messages.front().is_some_and(super::Message::is_whole)
        {
            self.rerequest_at = Some(now + self.params.rerequest_period());
        }
    }
}

/// How far back a reflected timestamp can tell, in ns: its clock has 16 bits of 128 ns, half of whose span is told from a time that lies
/// ahead.
const REFLECTED_MAX: u64 = (1 << 15) * WIRE_TICK;

/// Round-trip time, in ns, by a timestamp of ours that came back for what was sent at `sent`. Samples that are not positive count for
/// nothing, nor do those of what was under way for longer than the clock can tell: it may have gone round since, and a late answer would
/// look like a quick one.
#[must_use]
pub fn reflected_rtt(now: Ns, sent: Ns, ticks: u16) -> Option<u64> {
    if now.since(sent) >= REFLECTED_MAX {
        return None;
    }
    let ahead = ((now.0 / WIRE_TICK) as u16).wrapping_sub(ticks) as i16;
    u64::try_from(ahead).ok().filter(|&ticks| ticks > 0).map(|ticks| ticks * WIRE_TICK)
}

/// How far the number of a message is after another, on their low 16 bits.
#[inline]
const fn number_after(a: u32, b: u32) -> i16 {
    (a as u16).wrapping_sub(b as u16) as i16
}

#[inline]
pub(super) fn later(a: Psn, b: Psn) -> Psn {
    if b.is_after(a) { b } else { a }
}

//! What is presumed lost: SACK gaps, timeouts and NACKs.

use super::timers::{NO_LIST, WAIT_LIST};
use super::{Again, Fault, Loss, Observer, Requester};
use crate::Ns;
use crate::transport::Psn;
use crate::wire::NackReason;

impl Requester {
    /// Presumes lost what lies more than `SACKLossMinRetxPkts` below the highest PSN reported: first transmissions by their PSN,
    /// retransmissions by the highest PSN sent when they left.
    #[inline]
    pub(super) fn find_gaps<O: Observer>(&mut self, observer: &mut O) {
        let depth = self.params.sack_loss_min_retx_pkts.min(1 << 22) as i32;
        let limit = self.reported.plus(-depth);
        while limit.is_after(self.judged) {
            let span = limit.distance(self.judged) as u32;
            let Some(psn) = self.unacked.first_set(self.judged, span) else {
                self.judged = limit;
                break;
            };
            self.judged = psn.next();
            let at = self.index(psn);
            if self.slots[at].resends == 0 && self.slots[at].in_flight {
                self.lose(psn, Loss::Gap, observer);
            }
        }
        while let Some(at) = self.resent.front(0) {
            if !limit.is_after(self.slots[at].highest_then) {
                break;
            }
            let psn = self.psn_at(at);
            self.lose(psn, Loss::Gap, observer);
        }
    }

    /// The outstanding PSN that lives in a slot.
    #[inline]
    fn psn_at(&self, at: usize) -> Psn {
        let ahead = at.wrapping_sub(self.index(self.una)) & (self.slots.len() - 1);
        self.una.plus(ahead as i32)
    }

    /// Queues an outstanding packet to be sent again.
    #[inline]
    fn queue_again(&mut self, psn: Psn) {
        if !self.lost.get(psn) {
            if self.lost_count == 0 || self.lost_from.is_after(psn) {
                self.lost_from = psn;
            }
            self.lost.set(psn);
            self.lost_count += 1;
        }
    }

    fn lose<O: Observer>(&mut self, psn: Psn, cause: Loss, observer: &mut O) {
        let at = self.index(psn);
        observer.settled(self.land(at).into());
        let slot = &mut self.slots[at];
        if cause == Loss::Gap {
            slot.timeouts = 0;
        }
        slot.cause = match cause {
            Loss::Gap => Again::Gap,
            Loss::Timeout => Again::Timeout,
        };
        observer.lost(slot.nominal, cause);
        self.queue_again(psn);
    }

    /// A packet whose timer ran out by `now`: its slot.
    #[inline]
    fn due(&mut self, now: Ns) -> Option<usize> {
        self.first_deadlines().find(|&(_, deadline)| deadline <= now).map(|(at, _)| at)
    }

    /// Handles every timer that ran out by `now`.
    ///
    /// # Errors
    /// [`Fault::RetryExceeded`] when a packet has spent its budget, or a message that lacks nothing but its ACK has asked for it as often.
    pub fn on_time<O: Observer>(&mut self, now: Ns, observer: &mut O) -> Result<(), Fault> {
        while let Some(at) = self.due(now) {
            let psn = self.psn_at(at);
            if usize::from(self.slots[at].timer) == WAIT_LIST {
                self.stop_timer(at);
                self.queue_again(psn);
                continue;
            }
            let slot = &mut self.slots[at];
            if self.params.retry_budget().is_some_and(|budget| u32::from(slot.timeouts) >= budget) {
                return Err(Fault::RetryExceeded);
            }
            slot.timeouts = slot.timeouts.saturating_add(1);
            observer.timed_out(slot.ev);
            self.lose(psn, Loss::Timeout, observer);
        }
        if self.rerequest_at.is_some_and(|at| at <= now) {
            if self.params.retry_budget().is_some_and(|budget| self.asks >= budget) {
                return Err(Fault::RetryExceeded);
            }
            self.asks = self.asks.saturating_add(1);
            self.rerequest_due = true;
            self.rerequest_at = Some(now + self.params.rerequest_period());
        }
        Ok(())
    }

    /// A NACK came for `psn`. Returns false when it was not outstanding, and nothing changed.
    ///
    /// # Errors
    /// [`Fault::RetryExceeded`] when the packet's budget of refusals is spent, [`Fault::RemoteOperation`] for an unexpected event.
    pub fn on_nack<O: Observer>(&mut self, now: Ns, psn: Psn, reason: u8, observer: &mut O) -> Result<bool, Fault> {
        let reason = NackReason::from_u8(reason);
        if reason == Some(NackReason::UnexpectedEvent) {
            return Err(Fault::RemoteOperation);
        }
        if !self.is_outstanding(psn) {
            return Ok(false);
        }
        let at = self.index(psn);
        if !self.slots[at].in_flight {
            return Ok(true);
        }
        let slot = &mut self.slots[at];
        if self.params.retry_budget().is_some_and(|budget| u32::from(slot.refusals) >= budget) {
            return Err(Fault::RetryExceeded);
        }
        slot.refusals = slot.refusals.saturating_add(1);
        slot.timeouts = 0;
        slot.cause = Again::Refused;
        let nominal = slot.nominal;
        observer.settled(self.land(at).into());
        let trimmed = matches!(reason, Some(NackReason::Trimmed | NackReason::TrimmedLastHop));
        observer.refused(nominal, trimmed);
        if reason == Some(NackReason::PsnOutOfWindow) && self.barrier.is_none_or(|barrier| barrier.is_after(psn)) {
            self.barrier = Some(psn);
        }
        if trimmed || reason == Some(NackReason::PsnOutOfWindow) {
            self.queue_again(psn);
        } else {
            debug_assert_eq!(self.slots[at].timer, NO_LIST);
            self.slots[at].deadline = now + self.params.nack_wait_ns;
            self.slots[at].timer = WAIT_LIST as u8;
            self.timers.push_back(WAIT_LIST, at);
        }
        Ok(true)
    }
}

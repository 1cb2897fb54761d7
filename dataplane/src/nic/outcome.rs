//! What a requester tells of its packets and messages, and whom that concerns.

use super::events::{Events, Whose};
use super::rotations::Rotation;
use super::tap::{Happening, Witness};
use super::{Completion, CompletionEntry, EvState, Qpn, Stats, Status};
use crate::Ns;
use crate::congestion::Window;
use crate::memory::{LoanId, Loans};
use crate::transport::{Loss, Numbered, Observer};
use core::net::IpAddr;

/// Passes what a requester tells on to window, paths, counters and completion queue.
pub(super) struct Outcome<'a> {
    pub(super) now: Ns,
    pub(super) qpn: Qpn,
    pub(super) address: IpAddr,
    pub(super) window: &'a mut Window,
    pub(super) rotation: Option<&'a mut Rotation>,
    pub(super) completions: &'a mut Numbered<CompletionEntry>,
    pub(super) events: &'a mut Events,
    pub(super) stats: &'a Stats,
    pub(super) loans: &'a mut Loans,
    pub(super) recall: &'a mut bool,
    /// Packets of the QP whose timers ran out, by this.
    pub(super) timeouts: u64,
    pub(super) tap: Witness<'a>,
}

impl Observer for Outcome<'_> {
    #[inline]
    fn settled(&mut self, nominal: u64) {
        self.window.settled(nominal);
    }

    fn lost(&mut self, nominal: u32, cause: Loss) {
        match cause {
            Loss::Gap => self.stats.lost_by_gap.add(1),
            Loss::Timeout => {
                self.timeouts += 1;
                self.stats.lost_by_timeout.add(1);
            }
        }
        self.window.on_loss(self.now, nominal);
    }

    fn refused(&mut self, nominal: u32, trimmed: bool) {
        self.stats.refused.add(1);
        self.window.on_nack(self.now, nominal, trimmed);
    }

    fn timed_out(&mut self, ev: u32) {
        self.tap.tell(self.now, Happening::TimedOut { ev });
        if let Some(rotation) = &mut self.rotation
            && rotation.spraying.assume_bad(ev, self.now)
        {
            self.events.push(self.now, self.address, Whose::Of(rotation.profile), ev, EvState::AssumedBad);
        }
    }

    fn spurious(&mut self, times: u64) {
        self.stats.spurious_retransmits.add(times);
    }

    #[inline]
    fn is_returned(&mut self, loan: LoanId) -> bool {
        self.loans.end_by(loan, self.now)
    }

    fn abandoned(&mut self, loan: LoanId) {
        *self.recall |= !self.loans.abandon(loan);
    }

    #[inline]
    fn completed(&mut self, completion: Completion, wanted: bool) {
        let counter = if completion.status == Status::Success { &self.stats.completed } else { &self.stats.failed };
        counter.add(1);
        self.tap.tell(self.now, Happening::Completed(completion));
        if wanted {
            self.completions.push(CompletionEntry { qpn: self.qpn, completion });
        }
    }
}

//! Timers of packets in flight: when they start, which runs out first.

use super::Requester;
use crate::Ns;
use crate::transport::Psn;

/// Timer lists: one for each doubling of the timeout, and one for packets that wait after a NACK. Within a list all
/// waits are equally long, so it is in order of deadline.
pub(super) const TIMER_LISTS: usize = 32;
pub(super) const WAIT_LIST: usize = TIMER_LISTS - 1;
pub(super) const NO_LIST: u8 = u8::MAX;
/// No list either: packets whose timers started in the order of their PSNs, as most do, need none to be in order of deadline.
const BY_PSN: u8 = NO_LIST - 1;

impl Requester {
    /// The port accepted the transmissions of `count` PSNs from `first` on: their timers start. Returns the first deadline.
    #[inline]
    pub fn accepted(&mut self, now: Ns, first: Psn, count: u32) -> Option<Ns> {
        let by_psn = now + self.first_timeout.1;
        let (mut earliest, mut done): (Option<Ns>, u32) = (None, 0);
        while done < count {
            let psn = first.plus(done as i32);
            let fresh = self.start_fresh(now, by_psn, psn, count - done);
            let deadline = if fresh > 0 { Some(by_psn) } else { self.start_listed(now, psn) };
            earliest = earliest.into_iter().chain(deadline).min();
            done += fresh.max(1);
        }
        earliest
    }

    /// Starts the timers of as many PSNs as were sent for the first time, and are behind all whose timers run: how many.
    #[inline]
    fn start_fresh(&mut self, now: Ns, deadline: Ns, first: Psn, count: u32) -> u32 {
        let sent = self.next.distance(first);
        if sent <= 0 || first.distance(self.timed.1) < 0 || first.distance(self.una) < 0 {
            return 0;
        }
        let (count, mut fresh) = (count.min(sent as u32), 0);
        while fresh < count {
            let psn = first.plus(fresh as i32);
            let is_unacked = self.unacked.get(psn);
            let slot = self.slot(psn);
            if !is_unacked || !slot.in_flight || slot.timer != NO_LIST || slot.timeouts > 0 {
                break;
            }
            (slot.sent_at, slot.deadline, slot.timer) = (now, deadline, BY_PSN);
            fresh += 1;
        }
        if fresh > 0 {
            self.timed.1 = first.plus(fresh as i32);
        }
        fresh
    }

    /// Starts the timer of any other: it goes to the end of a list.
    #[inline]
    fn start_listed(&mut self, now: Ns, psn: Psn) -> Option<Ns> {
        if !self.is_outstanding(psn) {
            return None;
        }
        let at = self.index(psn);
        let slot = &mut self.slots[at];
        if !slot.in_flight || slot.timer != NO_LIST {
            return None;
        }
        let (list, length) = match slot.timeouts {
            0 => self.first_timeout,
            timeouts => self.params.timeout(u32::from(timeouts) + 1),
        };
        let deadline = now + length;
        (slot.sent_at, slot.deadline, slot.timer) = (now, deadline, list as u8);
        self.timers.push_back(list, at);
        Some(deadline)
    }

    /// The first packet whose timer is [`BY_PSN`]: its slot. Those before it are not looked at again.
    #[inline]
    fn first_timed(&mut self) -> Option<usize> {
        while self.timed.0 != self.timed.1 {
            let at = self.index(self.timed.0);
            if self.slots[at].timer == BY_PSN {
                return Some(at);
            }
            self.timed.0 = self.timed.0.next();
        }
        None
    }

    /// The packets whose timers run out first: one by PSN, and one of each list. Their slots and deadlines.
    #[inline]
    pub(super) fn first_deadlines(&mut self) -> impl Iterator<Item = (usize, Ns)> + '_ {
        let by_psn = self.first_timed();
        by_psn.into_iter().chain(self.timers.fronts()).map(|at| (at, self.slots[at].deadline))
    }

    /// When the earliest timer of a packet runs out.
    #[inline]
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<Ns> {
        self.first_deadlines().map(|(_, deadline)| deadline).min()
    }

    /// When the completion of the oldest message is to be asked for again.
    #[inline]
    #[must_use]
    pub const fn rerequest_deadline(&self) -> Option<Ns> {
        self.rerequest_at
    }

    #[inline]
    pub(super) fn stop_timer(&mut self, at: usize) {
        let list = core::mem::replace(&mut self.slots[at].timer, NO_LIST);
        if list < BY_PSN {
            self.timers.remove(usize::from(list), at);
        }
    }
}

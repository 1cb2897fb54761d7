//! Timers of packets in flight: when they start, which runs out first.

use super::Requester;
use super::acknowledge::later;
use crate::Ns;
use crate::transport::Psn;

/// Timer lists: one for each doubling of the timeout, and one for packets that wait after a NACK. Within a list all
/// waits are equally long, so it is in order of deadline.
pub(super) const TIMER_LISTS: usize = 32;
pub(super) const WAIT_LIST: usize = TIMER_LISTS - 1;
pub(super) const NO_LIST: u8 = u8::MAX;
/// No list either: its timer is among those [`super::in_order`], or will be when its port takes it. It was sent once, and is in flight until it is
/// acknowledged.
pub(super) const IN_ORDER: u8 = NO_LIST - 1;

impl Requester {
    /// The port accepted the transmissions of `count` PSNs from `first` on: their timers start. Returns the first deadline.
    #[inline]
    pub fn accepted(&mut self, now: Ns, first: Psn, count: u32) -> Option<Ns> {
        let (mut psn, end) = (later(first, self.una), first.plus(count as i32));
        let (begin, mut earliest) = (self.in_order.end(), None);
        // Those before it are behind others whose timers run.
        while end.is_after(psn) && begin.is_after(psn) {
            let deadline = self.start_behind(now, psn);
            earliest = earliest.into_iter().chain(deadline).min();
            psn = psn.next();
        }
        if !end.is_after(psn) || end.is_after(self.next) {
            return earliest;
        }
        // One that was sent again is always alone.
        if count == 1 && self.slot(psn).timer != IN_ORDER {
            return self.start_listed(now, psn);
        }
        self.in_order.start(now, psn, end, &self.unacked);
        earliest.into_iter().chain([now + self.first_timeout.1]).min()
    }

    /// Starts the timer of a packet behind which others' timers run.
    #[inline]
    fn start_behind(&mut self, now: Ns, psn: Psn) -> Option<Ns> {
        if !self.is_outstanding(psn) {
            return None;
        }
        let is_late = self.in_order.is_late(psn);
        let keeps_order = is_late && self.in_order.catch_up(now, psn);
        let slot = self.slot(psn);
        if slot.timer == IN_ORDER {
            if !is_late {
                return None;
            }
            if keeps_order {
                return Some(now + self.first_timeout.1);
            }
            slot.timer = NO_LIST;
        }
        self.start_listed(now, psn)
    }

    /// Starts the timer of a packet that is in no order: it goes to the end of a list.
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

    /// When the outstanding packet `psn`, whose slot is `at`, was taken by its port.
    #[inline]
    pub(super) fn sent_at(&self, psn: Psn, at: usize) -> Option<Ns> {
        let slot = &self.slots[at];
        if slot.timer == IN_ORDER { self.in_order.started(psn) } else { Some(slot.sent_at) }
    }

    /// The packets whose timers run out first: one of those in order, and one of each list. Their slots and deadlines.
    #[inline]
    pub(super) fn first_deadlines(&mut self) -> impl Iterator<Item = (usize, Ns)> + '_ {
        let mask = self.slots.len().wrapping_sub(1);
        let slot_of = |psn: Psn| psn.get() as usize & mask;
        let first = self.in_order.first(&self.unacked, |psn| self.slots[slot_of(psn)].timer == IN_ORDER);
        let in_order = first.map(|(psn, at)| (slot_of(psn), at + self.first_timeout.1));
        in_order.into_iter().chain(self.timers.fronts().map(|at| (at, self.slots[at].deadline)))
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
        if list < IN_ORDER {
            self.timers.remove(usize::from(list), at);
        }
    }
}

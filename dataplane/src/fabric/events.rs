//! Events in order of time: a calendar, so that the cost of one does not grow with how many wait.
//!
//! Time is cut into days of equal length. The events of the present day are in a small heap, those of the next [`DAYS`] days in lists,
//! unordered, and what is later stays in a heap of its own. Events at the same time come in the order in which they were put in.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Days that have lists.
const DAYS: u64 = 4096;
const WORDS: usize = DAYS as usize / 64;
const NIL: u32 = u32::MAX;
/// Shortest day: 2^10 ps, about a nanosecond.
const SHORTEST: u32 = 10;
/// Longest day: 2^40 ps, about a second.
const LONGEST: u32 = 40;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A frame has reached the end of its link.
    Arrive(u32),
    /// A link has sent what it had, and more waits.
    Serve(u32),
    /// A fault of the schedule.
    Fault(u32),
    /// A flapping place changes.
    Flap(u32),
    /// A switch is up again.
    Booted(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    order: u64,
    what: What,
}

struct Entry {
    event: Event,
    next: u32,
}

pub(super) struct Calendar {
    /// A day is 2^shift ps.
    shift: u32,
    /// No event is earlier.
    today: u64,
    /// All listed events are of this day or later, and within `DAYS` of it; while any is, `near` has one.
    next_day: u64,
    near: BinaryHeap<Reverse<Event>>,
    heads: Box<[u32]>,
    occupied: [u64; WORDS],
    entries: Vec<Entry>,
    free: u32,
    far: BinaryHeap<Reverse<Event>>,
    order: u64,
}

impl Calendar {
    /// A calendar that is fast for events that lie up to `ahead` ps in the future.
    pub(super) fn new(ahead: u64) -> Calendar {
        let shift = (64 - (ahead / DAYS).leading_zeros()).clamp(SHORTEST, LONGEST);
        Calendar {
            shift,
            today: 0,
            next_day: 0,
            near: BinaryHeap::new(),
            heads: vec![NIL; DAYS as usize].into(),
            occupied: [0; WORDS],
            entries: Vec::new(),
            free: NIL,
            far: BinaryHeap::new(),
            order: 0,
        }
    }

    /// Makes room for so many events in all.
    pub(super) fn reserve(&mut self, events: usize) {
        self.entries.reserve(events.saturating_sub(self.entries.len()));
        for heap in [&mut self.near, &mut self.far] {
            heap.reserve(events.saturating_sub(heap.len()));
        }
    }

    /// Time of the earliest event, in ps.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        let at = |heap: &BinaryHeap<Reverse<Event>>| heap.peek().map(|Reverse(event)| event.at);
        at(&self.near).into_iter().chain(at(&self.far)).min()
    }

    /// Puts in an event, not before the time of the last one that was taken.
    #[inline]
    pub(super) fn push(&mut self, at: u64, what: What) {
        self.order += 1;
        let event = Event { at, order: self.order, what };
        let day = at >> self.shift;
        if self.near.is_empty() {
            // Nothing is listed either.
            self.next_day = self.today;
        }
        if day < self.next_day {
            self.near.push(Reverse(event));
        } else if day - self.next_day < DAYS {
            self.list(day, event);
            if self.near.is_empty() {
                self.turn();
            }
        } else {
            self.far.push(Reverse(event));
        }
    }

    /// Takes the earliest event, if it is not later than `until`.
    #[inline]
    pub(super) fn pop(&mut self, until: u64) -> Option<(u64, What)> {
        let far = self.far.peek();
        let from_far = far.is_some() && self.near.peek().is_none_or(|near| far > Some(near));
        let heap = if from_far { &mut self.far } else { &mut self.near };
        let due = heap.peek().is_some_and(|Reverse(event)| event.at <= until);
        let Some(Reverse(Event { at, what, .. })) = due.then(|| heap.pop()).flatten() else {
            self.today = self.today.max(until >> self.shift);
            return None;
        };
        self.today = self.today.max(at >> self.shift);
        if self.near.is_empty() {
            self.turn();
        }
        Some((at, what))
    }

    fn list(&mut self, day: u64, event: Event) {
        let slot = (day % DAYS) as usize;
        let entry = Entry { event, next: self.heads[slot] };
        self.heads[slot] = match self.free {
            NIL => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
            free => {
                self.free = core::mem::replace(&mut self.entries[free as usize], entry).next;
                free
            }
        };
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Goes to the next day that is listed.
    fn turn(&mut self) {
        let Some(day) = self.next_listed() else { return };
        self.next_day = day + 1;
        let slot = (day % DAYS) as usize;
        let mut at = core::mem::replace(&mut self.heads[slot], NIL);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        while at != NIL {
            let entry = &mut self.entries[at as usize];
            self.near.push(Reverse(entry.event));
            let next = core::mem::replace(&mut entry.next, self.free);
            self.free = core::mem::replace(&mut at, next);
        }
    }

    /// The first day from `next_day` on that has a list.
    fn next_listed(&self) -> Option<u64> {
        let from = (self.next_day % DAYS) as usize;
        let mut bits = self.occupied[from / 64] & (u64::MAX << (from % 64));
        for step in 0..=WORDS {
            let word = (from / 64 + step) % WORDS;
            if step > 0 {
                bits = self.occupied[word];
            }
            if bits != 0 {
                let slot = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return Some(self.next_day + (slot + DAYS - from as u64) % DAYS);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_of_one_time_come_in_the_order_in_which_they_were_put_in() {
        let mut calendar = Calendar::new(1_000_000);
        let numbers = (0..1000).map(|n| What::Serve(n * 7919 % 1000));
        for what in numbers.clone() {
            calendar.push(5_000_000, what);
        }
        let order: Vec<_> = std::iter::from_fn(|| calendar.pop(u64::MAX)).collect();
        assert_eq!(order, numbers.map(|what| (5_000_000, what)).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn events_come_in_order_whatever_they_are_apart(
            ahead in prop_oneof![Just(0u64), 0..10_000_000u64, any::<u64>()],
            steps in prop::collection::vec((0..46u32, any::<u64>(), any::<bool>()), 1..400),
        ) {
            let mut calendar = Calendar::new(ahead);
            let mut model = std::collections::BTreeMap::new();
            let mut now = 0;
            for (n, (bits, random, pop)) in steps.into_iter().enumerate() {
                if pop {
                    let popped = calendar.pop(u64::MAX);
                    let first = model.pop_first().map(|((at, _), what)| (at, what));
                    prop_assert_eq!(popped, first);
                    now = popped.map_or(now, |(at, _)| at);
                } else {
                    let at = now + (random & ((1 << bits) - 1));
                    calendar.push(at, What::Serve(n as u32));
                    model.insert((at, n), What::Serve(n as u32));
                }
                prop_assert_eq!(calendar.first(), model.first_key_value().map(|((at, _), _)| *at));
            }
            while let Some(((at, _), what)) = model.pop_first() {
                prop_assert_eq!(calendar.pop(at), Some((at, what)));
            }
            prop_assert_eq!(calendar.pop(u64::MAX), None);
        }
    }
}

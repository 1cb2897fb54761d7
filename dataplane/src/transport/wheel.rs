//! The timer wheel of a worker: ticks of 1 us, O(1) to arm and to disarm.

use crate::Ns;
use crate::time::US;

const LEVELS: usize = 4;
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
/// What the wheel spans at once, in ticks; a later deadline is placed again when its time comes nearer.
const SPAN: u64 = 1 << (SLOT_BITS * LEVELS as u32);
const NIL: u32 = u32::MAX;
const UNARMED: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Timer {
    tick: u64,
    next: u32,
    prev: u32,
    /// Level and slot, or `UNARMED`.
    place: u16,
}

struct Level {
    heads: [u32; SLOTS],
    occupied: [u64; SLOTS / 64],
}

impl Level {
    /// The first occupied slot from `from` on.
    fn first(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = *self.occupied.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// A hierarchical timer wheel over timers with small numbers. A deadline between two ticks fires at the later one.
pub struct Wheel {
    levels: Box<[Level; LEVELS]>,
    timers: Vec<Timer>,
    /// No armed timer has an earlier tick.
    now: u64,
    /// Before this tick none is due, and none is to be placed again.
    quiet_until: u64,
    armed: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel::new()
    }
}

impl Wheel {
    /// An empty wheel at time 0.
    #[must_use]
    pub fn new() -> Wheel {
        let level = || Level { heads: [NIL; SLOTS], occupied: [0; SLOTS / 64] };
        Wheel {
            levels: Box::new(core::array::from_fn(|_| level())),
            timers: Vec::new(),
            now: 0,
            quiet_until: 0,
            armed: 0,
        }
    }

    /// Makes room for the timers below `count`. Not for the hot path.
    pub fn reserve(&mut self, count: usize) {
        if self.timers.len() < count {
            self.timers.resize(count, Timer { tick: 0, next: NIL, prev: NIL, place: UNARMED });
        }
    }

    /// Arms a timer, or moves it to another deadline.
    #[inline]
    pub fn arm(&mut self, id: u32, deadline: Ns) {
        self.disarm(id);
        if (id as usize) < self.timers.len() {
            self.timers[id as usize].tick = deadline.0.div_ceil(US);
            self.place(id);
            self.armed += 1;
        }
    }

    /// Disarms a timer; nothing happens when it is not armed.
    #[inline]
    pub fn disarm(&mut self, id: u32) {
        if self.timers.get(id as usize).is_some_and(|t| t.place != UNARMED) {
            self.unlink(id);
            self.armed -= 1;
        }
    }

    /// The deadline of an armed timer, at its tick.
    #[must_use]
    pub fn deadline(&self, id: u32) -> Option<Ns> {
        self.timers.get(id as usize).filter(|t| t.place != UNARMED).map(|t| Ns(t.tick * US))
    }

    /// Takes out one timer that is due at `now`; `None` when there is none (left).
    #[inline]
    pub fn pop(&mut self, now: Ns) -> Option<u32> {
        let now = now.micros();
        if self.armed == 0 || now < self.quiet_until {
            self.now = self.now.max(now);
            return None;
        }
        loop {
            if let Some(slot) = self.levels[0].first((self.now % SLOTS as u64) as usize) {
                let tick = (self.now & !(SLOTS as u64 - 1)) | slot as u64;
                if tick > now {
                    self.quiet_until = tick;
                    self.now = self.now.max(now);
                    return None;
                }
                self.now = tick;
                let id = self.levels[0].heads[slot];
                self.unlink(id);
                self.armed -= 1;
                return Some(id);
            }
            match self.next_cascade() {
                Some((level, slot, tick)) if tick <= now => {
                    self.now = tick;
                    self.cascade(level, slot);
                }
                next => {
                    self.quiet_until = next.map_or(0, |(_, _, tick)| tick);
                    self.now = self.now.max(now);
                    return None;
                }
            }
        }
    }

    /// When to call [`Wheel::pop`] next. Exact within 256 us, else a time before which nothing is due.
    #[must_use]
    pub fn next(&self) -> Option<Ns> {
        if self.armed == 0 {
            return None;
        }
        if let Some(slot) = self.levels[0].first((self.now % SLOTS as u64) as usize) {
            return Some(Ns(((self.now & !(SLOTS as u64 - 1)) | slot as u64) * US));
        }
        self.next_cascade().map(|(_, _, tick)| Ns(tick * US))
    }

    /// The nearest occupied slot above level 0: level, slot and its first tick.
    fn next_cascade(&self) -> Option<(usize, usize, u64)> {
        (1..LEVELS)
            .find_map(|level| {
                let shift = SLOT_BITS * level as u32;
                let here = ((self.now >> shift) % SLOTS as u64) as usize;
                let slot = self.levels[level].first(here + 1)?;
                let base = self.now >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
                Some((level, slot, base | (slot as u64) << shift))
            })
            .or_else(|| {
                // Only timers beyond the span are left, parked in the last slot of the top level or before.
                let shift = SLOT_BITS * (LEVELS as u32 - 1);
                let slot = self.levels[LEVELS - 1].first(0)?;
                let base = (self.now / SPAN + 1) * SPAN;
                Some((LEVELS - 1, slot, base | (slot as u64) << shift))
            })
    }

    fn cascade(&mut self, level: usize, slot: usize) {
        let mut id = self.levels[level].heads[slot];
        self.levels[level].heads[slot] = NIL;
        self.levels[level].occupied[slot / 64] &= !(1 << (slot % 64));
        while id != NIL {
            let next = self.timers[id as usize].next;
            self.place(id);
            id = next;
        }
    }

    /// Links a timer where its tick belongs, seen from now.
    #[inline]
    fn place(&mut self, id: u32) {
        let tick = self.timers[id as usize].tick.max(self.now);
        let differs = tick ^ self.now;
        let level = if differs == 0 { 0 } else { ((63 - differs.leading_zeros()) / SLOT_BITS) as usize };
        let level = level.min(LEVELS - 1);
        let shift = SLOT_BITS * level as u32;
        let slot = ((tick >> shift) % SLOTS as u64) as usize;
        // The top level holds what lies beyond the span, too.
        let first = if level + 1 < LEVELS { tick >> shift << shift } else { 0 };
        self.quiet_until = self.quiet_until.min(first);
        let head = core::mem::replace(&mut self.levels[level].heads[slot], id);
        self.levels[level].occupied[slot / 64] |= 1 << (slot % 64);
        if head != NIL {
            self.timers[head as usize].prev = id;
        }
        let timer = &mut self.timers[id as usize];
        timer.next = head;
        timer.prev = NIL;
        timer.place = (level * SLOTS + slot) as u16;
    }

    #[inline]
    fn unlink(&mut self, id: u32) {
        let Timer { next, prev, place, .. } = self.timers[id as usize];
        let (level, slot) = (usize::from(place) / SLOTS, usize::from(place) % SLOTS);
        if next != NIL {
            self.timers[next as usize].prev = prev;
        }
        if prev != NIL {
            self.timers[prev as usize].next = next;
        } else {
            self.levels[level].heads[slot] = next;
            if next == NIL {
                self.levels[level].occupied[slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.timers[id as usize].place = UNARMED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn due(wheel: &mut Wheel, now: u64) -> Vec<u32> {
        let mut ids: Vec<u32> = core::iter::from_fn(|| wheel.pop(Ns(now))).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn a_deadline_between_two_ticks_fires_at_the_later_one() {
        let mut wheel = Wheel::new();
        wheel.reserve(1);
        wheel.arm(0, Ns(150_001));
        assert_eq!(due(&mut wheel, 150_999), Vec::<u32>::new());
        assert_eq!(due(&mut wheel, 151_000), [0]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn a_timer_that_is_armed_again_fires_once_at_its_new_time() {
        let mut wheel = Wheel::new();
        wheel.reserve(2);
        wheel.arm(0, Ns(5 * US));
        wheel.arm(1, Ns(5 * US));
        wheel.arm(0, Ns(70_000 * US));
        assert_eq!(due(&mut wheel, 6 * US), [1]);
        assert_eq!(due(&mut wheel, 69_999 * US), Vec::<u32>::new());
        assert_eq!(due(&mut wheel, 70_000 * US), [0]);
    }

    #[test]
    fn deadlines_of_seventeen_seconds_and_of_hours_fire_on_their_tick() {
        for seconds in [17, 7_200, 86_400] {
            let mut wheel = Wheel::new();
            wheel.reserve(1);
            let deadline = Ns(seconds * 1_000_000_000);
            wheel.arm(0, deadline);
            while let Some(next) = wheel.next().filter(|&n| n < deadline) {
                assert_eq!(wheel.pop(next), None);
            }
            assert_eq!(wheel.pop(deadline - 1), None);
            assert_eq!(wheel.pop(deadline), Some(0));
        }
    }

    proptest! {
        #[test]
        fn the_wheel_agrees_with_a_sorted_list(
            steps in prop::collection::vec((0u32..16, 0u64..3_000_000, any::<bool>(), 0u64..400_000), 1..120)
        ) {
            let mut wheel = Wheel::new();
            wheel.reserve(16);
            let mut model = [None::<u64>; 16];
            let mut now = 0;
            for (id, ahead, disarm, step) in steps {
                if disarm {
                    wheel.disarm(id);
                    model[id as usize] = None;
                } else {
                    wheel.arm(id, Ns((now + ahead) * US));
                    model[id as usize] = Some(now + ahead);
                }
                let first = model.iter().flatten().min();
                prop_assert_eq!(wheel.next().is_some(), first.is_some());
                if let (Some(next), Some(&first)) = (wheel.next(), first) {
                    prop_assert!(next.micros() <= first);
                }
                now += step;
                let expected: Vec<u32> =
                    (0..16).filter(|&i| model[i as usize].is_some_and(|t| t <= now)).collect();
                for &i in &expected {
                    model[i as usize] = None;
                }
                prop_assert_eq!(due(&mut wheel, now * US), expected);
            }
        }
    }
}

//! A queue whose entries have numbers, one after another, and are found by them.

/// A queue in a ring whose size is a power of two, so that an entry's place follows from its number. Numbers wrap at 2^32.
#[derive(Debug)]
pub struct Numbered<T> {
    ring: Box<[T]>,
    /// The number that is at the ring's first place.
    base: u32,
    /// Numbers of the oldest entry, and of the next one to come.
    front: u32,
    back: u32,
}

/// Memory of an empty queue.
pub type Ring<T> = Box<[T]>;

/// Entries that a queue has room for from the first on.
const FEW: usize = 4;

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { ring: Box::default(), base: 0, front: 0, back: 0 }
    }
}

impl<T: Copy> Numbered<T> {
    /// Entries in it.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.back.wrapping_sub(self.front) as usize
    }

    /// Is there none?
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.back == self.front
    }

    /// The number of the oldest entry.
    #[inline]
    #[must_use]
    pub const fn front_number(&self) -> u32 {
        self.front
    }

    /// The number that the next entry gets.
    #[inline]
    #[must_use]
    pub const fn next_number(&self) -> u32 {
        self.back
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        number.wrapping_sub(self.base) as usize & self.ring.len().wrapping_sub(1)
    }

    #[inline]
    fn has(&self, number: u32) -> bool {
        number.wrapping_sub(self.front) < self.back.wrapping_sub(self.front)
    }

    /// The entry with a number.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&T> {
        if self.has(number) { self.ring.get(self.place(number)) } else { None }
    }

    /// The entry with a number.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        if self.has(number) { self.ring.get_mut(self.place(number)) } else { None }
    }

    /// The entries from a number on, `most` at most.
    #[inline]
    pub fn from_mut(&mut self, number: u32, most: usize) -> impl Iterator<Item = &mut T> {
        let ahead = number.wrapping_sub(self.front);
        let count = (self.len() as u32).checked_sub(ahead).map_or(0, |left| most.min(left as usize));
        let place = self.place(number);
        // The ring's end may be among them.
        let (begin, end) = self.ring.split_at_mut(place.min(self.ring.len()));
        end.iter_mut().chain(begin).take(count)
    }

    /// The oldest entry.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.get(self.front)
    }

    /// All entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len() as u32).filter_map(|ahead| self.get(self.front.wrapping_add(ahead)))
    }

    /// Adds an entry.
    #[inline(always)]
    pub fn push(&mut self, entry: T) {
        self.reserve(1, entry);
        let place = self.place(self.back);
        if let Some(room) = self.ring.get_mut(place) {
            *room = entry;
            self.back = self.back.wrapping_add(1);
        }
    }

    /// Makes room for `more` entries, filled with any.
    #[inline]
    pub fn reserve(&mut self, more: usize, filler: T) {
        if self.len() + more > self.ring.len() {
            self.grow(filler, self.len() + more);
        }
    }

    /// Takes the oldest entry out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let entry = *self.front()?;
        self.front = self.front.wrapping_add(1);
        Some(entry)
    }

    /// Takes the oldest entries out, `count` at most.
    #[inline]
    pub fn drop_front(&mut self, count: usize) {
        self.front = self.front.wrapping_add(count.min(self.len()) as u32);
    }

    /// Memory for `entries` at least.
    #[cold]
    fn grow(&mut self, filler: T, entries: usize) {
        let mut ring = vec![filler; entries.next_power_of_two().max(FEW)].into_boxed_slice();
        for (room, entry) in ring.iter_mut().zip(self.iter()) {
            *room = *entry;
        }
        (self.ring, self.base) = (ring, self.front);
    }

    /// Where the next entry goes: what the caches may be asked for.
    #[inline]
    #[must_use]
    pub fn next_place(&self) -> *const T {
        self.ring.as_ptr().wrapping_add(self.place(self.back))
    }

    /// Takes the memory of an empty queue away.
    pub fn take_ring(&mut self) -> Ring<T> {
        debug_assert!(self.is_empty());
        core::mem::take(&mut self.ring)
    }

    /// Gives an empty queue memory. The next entry is at its first place.
    pub fn set_ring(&mut self, ring: Ring<T>) {
        debug_assert!(self.is_empty() && (ring.is_empty() || ring.len().is_power_of_two()));
        (self.ring, self.base) = (ring, self.back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn numbers_go_on_over_the_wrap_and_with_other_memory() {
        let mut queue = Numbered { front: u32::MAX - 1, back: u32::MAX - 1, ..Numbered::default() };
        (0..6).for_each(|n| queue.push(n));
        assert_eq!((queue.front_number(), queue.next_number(), queue.len()), (u32::MAX - 1, 4, 6));
        assert_eq!(
            (queue.get(u32::MAX), queue.get(3), queue.get(4), queue.get(u32::MAX - 2)),
            (Some(&1), Some(&5), None, None)
        );
        while queue.pop().is_some() {}
        let ring = queue.take_ring();
        assert_eq!((ring.len(), queue.get(3)), (8, None));
        queue.set_ring(ring);
        assert_eq!(queue.next_place(), queue.ring.as_ptr());
        queue.push(7);
        assert_eq!((queue.get(4), queue.ring[0]), (Some(&7), 7));
    }

    proptest! {
        #[test]
        fn it_is_a_queue(begin in any::<u32>(), steps in prop::collection::vec(any::<(bool, u16)>(), 0..200)) {
            let mut queue = Numbered { front: begin, back: begin, base: begin / 2, ..Numbered::default() };
            let mut model = VecDeque::new();
            for (pushes, entry) in steps {
                if pushes {
                    queue.push(entry);
                    model.push_back(entry);
                } else {
                    prop_assert_eq!(queue.pop(), model.pop_front());
                }
                if model.len() > 5 {
                    queue.drop_front(2);
                    model.drain(..2);
                }
                prop_assert!(queue.iter().eq(&model) && queue.front() == model.front());
                prop_assert_eq!(queue.get_mut(queue.next_number().wrapping_sub(1)).copied(), model.back().copied());
                let back = queue.next_number();
                let last = model.iter().skip(model.len().saturating_sub(3)).take(2).copied();
                prop_assert!(queue.from_mut(back.wrapping_sub(model.len().min(3) as u32), 2).map(|entry| *entry).eq(last));
                prop_assert_eq!(queue.from_mut(back, 2).count(), 0);
                prop_assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}

//! Lists threaded through the slots of a window, so that a packet enters and leaves one in O(1) without allocation.

const NIL: u16 = u16::MAX;

/// The neighbours of a slot in its list.
#[derive(Clone, Copy)]
pub(super) struct Link {
    prev: u16,
    next: u16,
}

impl Link {
    /// Of `slots` (at most 32,768) slots that are in no list.
    pub(super) fn none(slots: usize) -> Box<[Link]> {
        assert!(slots <= 1 << 15, "slot numbers take 15 bits");
        vec![Link { prev: NIL, next: NIL }; slots].into_boxed_slice()
    }
}

/// `N` lists over the slots of one window. A slot is in one of them at most; which one is the caller's to know.
pub(super) struct Lists<const N: usize> {
    links: Box<[Link]>,
    heads: [u16; N],
    tails: [u16; N],
    /// Bit i: list i has a slot.
    occupied: u32,
}

impl<const N: usize> Lists<N> {
    /// Empty lists over no slot, until they get links.
    pub(super) fn new() -> Lists<N> {
        const { assert!(N <= 32) };
        Lists { links: Box::default(), heads: [NIL; N], tails: [NIL; N], occupied: 0 }
    }

    /// Gives empty lists links for their slots.
    pub(super) fn set_links(&mut self, links: Box<[Link]>) {
        debug_assert_eq!(self.occupied, 0);
        self.links = links;
    }

    /// Moves the lists over to other links, where `place` has the new number of each slot.
    pub(super) fn move_to(&mut self, links: Box<[Link]>, place: &[usize]) {
        let old = core::mem::replace(self, Lists { links, ..Lists::new() });
        for list in 0..N {
            let mut at = old.heads[list];
            while at != NIL {
                self.push_back(list, place[usize::from(at)]);
                at = old.links[usize::from(at)].next;
            }
        }
    }

    /// Takes the links of empty lists away.
    pub(super) fn take_links(&mut self) -> Box<[Link]> {
        debug_assert_eq!(self.occupied, 0);
        core::mem::take(&mut self.links)
    }

    #[inline]
    pub(super) fn push_back(&mut self, list: usize, slot: usize) {
        let tail = core::mem::replace(&mut self.tails[list], slot as u16);
        self.links[slot] = Link { prev: tail, next: NIL };
        if tail == NIL {
            self.heads[list] = slot as u16;
            self.occupied |= 1 << list;
        } else {
            self.links[usize::from(tail)].next = slot as u16;
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, list: usize, slot: usize) {
        let Link { prev, next } = self.links[slot];
        if prev == NIL {
            self.heads[list] = next;
        } else {
            self.links[usize::from(prev)].next = next;
        }
        if next == NIL {
            self.tails[list] = prev;
        } else {
            self.links[usize::from(next)].prev = prev;
        }
        if self.heads[list] == NIL {
            self.occupied &= !(1 << list);
        }
    }

    #[inline]
    pub(super) fn front(&self, list: usize) -> Option<usize> {
        let head = self.heads[list];
        (head != NIL).then_some(usize::from(head))
    }

    /// The first slot of each list that has one.
    #[inline]
    pub(super) fn fronts(&self) -> impl Iterator<Item = usize> + '_ {
        let mut left = self.occupied;
        core::iter::from_fn(move || {
            let list = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (list < 32).then(|| usize::from(self.heads[list]))
        })
    }
}

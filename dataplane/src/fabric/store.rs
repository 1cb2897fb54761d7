//! Frames inside the fabric, and the lists that they wait in.

use super::label::Label;

const NIL: u32 = u32::MAX;

/// A frame inside the fabric.
pub(super) struct Cell<F> {
    pub(super) frame: F,
    pub(super) label: Label,
    /// The link that it travels on.
    pub(super) link: u32,
    /// How often that had gone down when it was sent.
    pub(super) cuts: u32,
}

enum Slot<F> {
    Used { cell: Cell<F>, next: u32 },
    Free { next: u32 },
}

/// All frames inside the fabric, by small numbers.
pub(super) struct Store<F> {
    slots: Vec<Slot<F>>,
    free: u32,
    used: usize,
}

/// Frames that wait in order.
#[derive(Clone, Copy)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
    /// Bytes that wait.
    pub(super) bytes: u32,
    /// Frames that wait.
    pub(super) frames: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Fifo { head: NIL, tail: NIL, bytes: 0, frames: 0 }
    }
}

impl Fifo {
    pub(super) const fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

impl<F> Store<F> {
    pub(super) const fn new() -> Store<F> {
        Store { slots: Vec::new(), free: NIL, used: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.used
    }

    /// Makes room for so many frames in all.
    pub(super) fn reserve(&mut self, frames: usize) {
        self.slots.reserve(frames.saturating_sub(self.slots.len()));
    }

    pub(super) fn insert(&mut self, cell: Cell<F>) -> u32 {
        self.used += 1;
        let used = Slot::Used { cell, next: NIL };
        match self.slots.get_mut(self.free as usize) {
            Some(slot) => {
                let number = self.free;
                if let Slot::Free { next } = core::mem::replace(slot, used) {
                    self.free = next;
                }
                number
            }
            None => {
                self.slots.push(used);
                self.slots.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Cell<F>> {
        match self.slots.get_mut(number as usize) {
            Some(Slot::Used { cell, .. }) => Some(cell),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Cell<F>> {
        let slot = self.slots.get_mut(number as usize).filter(|slot| matches!(slot, Slot::Used { .. }))?;
        let Slot::Used { cell, .. } = core::mem::replace(slot, Slot::Free { next: self.free }) else { return None };
        self.free = number;
        self.used -= 1;
        Some(cell)
    }

    /// Puts a frame of no list at a list's end.
    pub(super) fn append(&mut self, fifo: &mut Fifo, number: u32, bytes: u32) {
        if let Some(Slot::Used { next, .. }) = self.slots.get_mut(fifo.tail as usize) {
            *next = number;
        } else {
            fifo.head = number;
        }
        if let Some(Slot::Used { next, .. }) = self.slots.get_mut(number as usize) {
            *next = NIL;
        }
        fifo.tail = number;
        fifo.bytes += bytes;
        fifo.frames += 1;
    }

    /// Takes a list's first frame.
    pub(super) fn take(&self, fifo: &mut Fifo) -> Option<u32> {
        let number = fifo.head;
        let Some(Slot::Used { cell, next }) = self.slots.get(number as usize) else { return None };
        fifo.head = *next;
        if fifo.head == NIL {
            fifo.tail = NIL;
        }
        fifo.bytes -= cell.label.size();
        fifo.frames -= 1;
        Some(number)
    }
}

// One line of the cache, where a frame is a vector: the first look at it is what a hop waits for most.
const _: () = assert!(size_of::<Slot<Vec<u8>>>() <= 64);

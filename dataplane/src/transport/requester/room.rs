//! Memory for what a QP has on its send queue and in flight. It has some as long as there is anything, and gives it back after a rest: of many
//! QPs few are busy at a time, and an idle one is to cost little.

use super::super::lists::Link;
use super::in_order::Run;
use super::{EMPTY, Message, Requester, Slot};
use crate::memory::{prefetch, prefetch_bytes};
use crate::transport::{PSN_SPACE, Ring};
use std::collections::VecDeque;

/// Rooms that nobody uses are kept as long as they have no more slots than this in all: making one takes long, since all of it is written.
const KEPT_SLOTS_MAX: usize = 1 << 20;

/// Slots of a room at first. It grows with what is queued: of ten thousand QPs with a few packets each, all are to stay in the caches.
pub(super) const FEW_SLOTS: usize = 64;

/// Messages and packets of a turn that are asked for before it begins: those behind follow in order, as caches expect it.
const EXPECTED: usize = 8;

/// Room for the packets of a window and the messages of a send queue.
struct Room {
    slots: Box<[Slot]>,
    timers: Box<[Link]>,
    resent: Box<[Link]>,
    started: VecDeque<Run>,
    messages: Ring<Message>,
}

/// Rooms of one engine that nobody uses.
#[derive(Default)]
pub struct Rooms {
    rooms: Vec<Room>,
    /// Slots of all of them.
    slots: usize,
}

impl Rooms {
    /// One of them, or a new one.
    fn take(&mut self) -> Room {
        let Some(room) = self.rooms.pop() else {
            return Room {
                slots: vec![EMPTY; FEW_SLOTS].into_boxed_slice(),
                timers: Link::none(FEW_SLOTS),
                resent: Link::none(FEW_SLOTS),
                started: VecDeque::new(),
                messages: Ring::default(),
            };
        };
        self.slots -= room.slots.len();
        if let Some(next) = self.rooms.last() {
            expect_messages(next.messages.as_ptr());
        }
        room
    }

    fn keep(&mut self, room: Room) {
        if self.slots + room.slots.len() <= KEPT_SLOTS_MAX {
            self.slots += room.slots.len();
            self.rooms.push(room);
        }
    }
}

/// Asks the caches for where the next messages will be queued.
#[inline]
fn expect_messages(place: *const Message) {
    prefetch_bytes(place.cast(), EXPECTED * size_of::<Message>());
}

impl Requester {
    /// Gets room, where it has none.
    #[inline]
    pub(super) fn enter(&mut self, rooms: &mut Rooms) {
        if self.slots.is_empty() {
            self.move_in(rooms.take());
        }
    }

    fn move_in(&mut self, room: Room) {
        self.slots = room.slots;
        self.timers.set_links(room.timers);
        self.resent.set_links(room.resent);
        self.in_order.set_room(room.started);
        self.messages.set_ring(room.messages);
    }

    /// Sees to it that each PSN that may come to be in use has a slot, now that a message of `packets` more is queued.
    #[inline]
    pub(super) fn make_room(&mut self, packets: u32) {
        let queued = self.next_message_psn.get().wrapping_sub(self.una.get()) & (PSN_SPACE - 1);
        // What is queued may be more than PSNs can tell.
        let wanted = (queued.max(packets) as usize).min(self.most_slots);
        if wanted > self.slots.len() {
            self.grow(wanted.next_power_of_two());
        }
    }

    #[cold]
    fn grow(&mut self, slots: usize) {
        let mut room = vec![EMPTY; slots].into_boxed_slice();
        let mut place = vec![0; self.slots.len()];
        for back in 1..=self.slots.len() as i32 {
            let psn = self.next.plus(-back);
            let (from, to) = (self.index(psn), psn.get() as usize & (slots - 1));
            room[to] = self.slots[from];
            place[from] = to;
        }
        self.timers.move_to(Link::none(slots), &place);
        self.resent.move_to(Link::none(slots), &place);
        self.slots = room;
    }

    /// Is nothing in flight and nothing on the send queue?
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.una == self.next && self.messages.is_empty()
    }

    /// Has it room?
    #[inline]
    #[must_use]
    pub const fn has_room(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Gives its room back, where it is idle. What its slots remembered of packets that are acknowledged is forgotten.
    pub fn leave(&mut self, rooms: &mut Rooms) {
        if !self.is_idle() || self.slots.is_empty() {
            return;
        }
        rooms.keep(Room {
            slots: core::mem::take(&mut self.slots),
            timers: self.timers.take_links(),
            resent: self.resent.take_links(),
            started: self.in_order.take_room(),
            messages: self.messages.take_ring(),
        });
    }

    /// Asks the caches for what the next packets will be cut from and written down in.
    #[inline]
    pub fn expect_turn(&self) {
        self.expect(self.cutting, self.index(self.next));
    }

    /// Asks the caches for where the next requests will be queued.
    #[inline]
    pub fn expect_post(&self) {
        expect_messages(self.messages.next_place());
    }

    /// Asks the caches for what the next acknowledgement will change.
    #[inline]
    pub fn expect_acknowledgement(&self) {
        self.expect(self.messages.front_number(), self.index(self.una));
    }

    #[inline]
    fn expect(&self, message: u32, slot: usize) {
        for ahead in 0..EXPECTED {
            if let Some(message) = self.messages.get(message.wrapping_add(ahead as u32)) {
                prefetch(message);
            }
            if let Some(slot) = self.slots.get(slot + ahead) {
                prefetch(slot);
            }
        }
    }
}

//! Memory for what a QP has on its send queue and in flight. It has some as long as there is anything, and gives it back after a rest: of many
//! QPs few are busy at a time, and an idle one is to cost little.

use super::super::lists::Link;
use super::{EMPTY, Message, Requester, Slot};
use std::collections::VecDeque;

/// Rooms that nobody uses are kept up to this number: making one takes long, since all of it is written.
const KEPT_MAX: usize = 1024;

/// Room for the packets of a window and the messages of a send queue.
struct Room {
    slots: Box<[Slot]>,
    timers: Box<[Link]>,
    resent: Box<[Link]>,
    messages: VecDeque<Message>,
}

/// Rooms of one engine that nobody uses.
#[derive(Default)]
pub struct Rooms(Vec<Room>);

impl Rooms {
    /// One with `slots` slots, a new one where there is none.
    fn take(&mut self, slots: usize) -> Room {
        match self.0.pop() {
            Some(room) if room.slots.len() == slots => room,
            _ => Room {
                slots: vec![EMPTY; slots].into_boxed_slice(),
                timers: Link::none(slots),
                resent: Link::none(slots),
                messages: VecDeque::new(),
            },
        }
    }
}

impl Requester {
    /// Gets room, where it has none.
    #[inline]
    pub(super) fn enter(&mut self, rooms: &mut Rooms) {
        if self.slots.is_empty() {
            self.move_in(rooms.take(self.mask + 1));
        }
    }

    fn move_in(&mut self, room: Room) {
        self.slots = room.slots;
        self.timers.set_links(room.timers);
        self.resent.set_links(room.resent);
        self.messages = room.messages;
        self.messages.reserve(self.depth);
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
        let room = Room {
            slots: core::mem::take(&mut self.slots),
            timers: self.timers.take_links(),
            resent: self.resent.take_links(),
            messages: core::mem::take(&mut self.messages),
        };
        if rooms.0.len() < KEPT_MAX {
            rooms.0.push(room);
        }
    }
}

//! QPs that have nothing to send any more give the memory for it back, once they have rested.

use super::Nic;
use crate::Ns;
use crate::time::US;

/// A QP that posts again within this time, in ns, finds its room where it left it. Of many QPs the rooms of those that rested longer are still in the
/// caches when others get them, so it is short.
const REST_NS: u64 = 125 * US;
/// QPs that are looked at in a turn.
const LOOKS: usize = 32;

impl Nic {
    /// A QP that has become idle begins to rest.
    #[inline]
    pub(super) fn rest(&mut self, slot: usize) {
        let now = self.clock;
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        if !qp.requester.has_room() {
            return;
        }
        // Timers come by while it rests.
        if !core::mem::replace(&mut qp.rests, true) {
            self.resting.push_back((slot as u32, now));
            qp.idle_since = now;
        } else if qp.idle_since < qp.busy_since {
            qp.idle_since = now;
        }
    }

    /// Takes the rooms of QPs that have rested.
    #[inline]
    pub(super) fn clear_rooms(&mut self, now: Ns) {
        for _ in 0..LOOKS {
            match self.resting.front() {
                Some(&(slot, since)) if now.since(since) >= REST_NS => {
                    self.resting.pop_front();
                    self.clear_room(now, slot);
                }
                _ => return,
            }
        }
    }

    /// Takes the room of a QP that began to rest long ago, unless it has been busy in between.
    #[inline]
    fn clear_room(&mut self, now: Ns, slot: u32) {
        let entry = self.qps.get_mut(slot as usize).and_then(|entry| entry.as_deref_mut());
        let Some(qp) = entry.filter(|qp| qp.rests) else { return };
        let is_idle = qp.requester.is_idle();
        if is_idle && now.since(qp.idle_since) < REST_NS {
            self.resting.push_back((slot, qp.idle_since));
            return;
        }
        if is_idle {
            qp.requester.leave(&mut self.rooms);
        }
        qp.rests = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{empty_request, nic, send_empty};
    use super::super::{NicParams, PostError};
    use super::*;

    #[test]
    fn an_idle_qp_has_no_room_and_a_busy_one_keeps_its_own() {
        let (mut nic, qpns) = nic(NicParams::default(), 3);
        let has_room = |nic: &Nic, n: usize| nic.qp(qpns[n]).unwrap().requester.has_room();
        assert!((0..3).all(|n| !has_room(&nic, n)), "none before its first request");
        nic.on_time(Ns(0));
        send_empty(&mut nic, Ns(0), qpns[0], 0);
        send_empty(&mut nic, Ns(0), qpns[1], 0);
        assert!(has_room(&nic, 0) && has_room(&nic, 1) && !has_room(&nic, 2));
        nic.on_time(Ns(REST_NS / 2));
        send_empty(&mut nic, Ns(REST_NS / 2), qpns[1], 1);
        nic.on_time(Ns(REST_NS));
        assert!(!has_room(&nic, 0) && has_room(&nic, 1), "a rest after its last");
        // A request that waits needs its room, however long that takes.
        let request = empty_request(1);
        nic.post_write(qpns[2], &request).unwrap();
        nic.on_time(Ns(5 * REST_NS));
        assert!(!has_room(&nic, 1) && has_room(&nic, 2));
        assert_eq!(nic.post_write(qpns[0], &request), Ok(()));
        assert!(nic.resting.is_empty() && nic.post_write(qpns[0], &request) != Err(PostError::NotReady));
    }
}

//! Writes with Immediate at their receiver: immediates that came early, and the receives that they complete.

use crate::transport::{Completion, Operation, Psn, Status};
use crate::wire::Syndrome;
use std::collections::VecDeque;

/// The immediate of a packet, with what its headers say of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Immediate {
    /// The immediate data.
    pub value: u32,
    /// Number of the Write with Immediate; the first is 1.
    pub rqmsn: u16,
    /// Length of the message in bytes.
    pub len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Early {
    psn: Psn,
    value: u32,
    len: u32,
}

/// Immediates of one QP. They complete in the order in which they were sent, each when its message and all before it are
/// whole, so one that came before is kept.
#[derive(Clone)]
pub(super) struct Immediates {
    /// By number; as many places as the responder advertises, or more. None before the first comes.
    early: Box<[Option<Early>]>,
    /// One less than the places.
    mask: usize,
    held: u32,
    limit: u16,
    /// Number of the last that completed.
    completed: u16,
    receives: VecDeque<u64>,
    depth: usize,
}

impl Immediates {
    /// Room for `limit` Writes with Immediate in flight, and `depth` posted receives.
    pub(super) fn new(limit: u32, depth: usize) -> Immediates {
        let limit = limit.clamp(1, crate::transport::WRITE_IMM_MAX);
        let places = limit.next_power_of_two() as usize;
        Immediates {
            early: Box::default(),
            mask: places - 1,
            held: 0,
            limit: limit as u16,
            completed: 0,
            receives: VecDeque::new(),
            depth,
        }
    }

    /// Posts a receive; false when the queue is full.
    pub(super) fn post(&mut self, wr_id: u64) -> bool {
        let room = self.receives.len() < self.depth;
        if room {
            self.receives.push_back(wr_id);
        }
        room
    }

    pub(super) const fn depth(&self) -> usize {
        self.depth
    }

    /// Immediates that wait for what was sent before them.
    pub(super) const fn held(&self) -> u32 {
        self.held
    }

    fn place(&mut self, rqmsn: u16) -> &mut Option<Early> {
        if self.early.is_empty() {
            self.early = vec![None; self.mask + 1].into_boxed_slice();
        }
        &mut self.early[usize::from(rqmsn) & self.mask]
    }

    /// May a Write with Immediate of this number arrive now?
    ///
    /// # Errors
    /// The syndrome of the NAK: beyond the limit that was advertised, or a number that was used before.
    pub(super) fn judge(&self, rqmsn: u16) -> Result<(), Syndrome> {
        let ahead = rqmsn.wrapping_sub(self.completed) as i16;
        if ahead > self.limit as i16 {
            return Err(Syndrome::WriteImmLimit);
        }
        let used = self.early.get(usize::from(rqmsn) & self.mask).is_some_and(Option::is_some);
        if ahead <= 0 || used { Err(Syndrome::InvalidRequest) } else { Ok(()) }
    }

    /// Keeps an immediate until its turn comes.
    pub(super) fn keep(&mut self, psn: Psn, immediate: &Immediate) {
        *self.place(immediate.rqmsn) = Some(Early { psn, value: immediate.value, len: immediate.len });
        self.held += 1;
    }

    /// The Write with Immediate whose last packet is `psn` is whole, and so is all before it: it completes the oldest receive.
    ///
    /// # Errors
    /// The syndrome of the NAK: no receive is posted, or the numbers do not follow the order of sending.
    pub(super) fn complete(&mut self, psn: Psn) -> Result<Completion, Syndrome> {
        let rqmsn = self.completed.wrapping_add(1);
        let early = self.place(rqmsn).take().ok_or(Syndrome::InvalidRequest)?;
        if early.psn != psn {
            return Err(Syndrome::InvalidRequest);
        }
        let wr_id = self.receives.pop_front().ok_or(Syndrome::RemoteOperation)?;
        self.held -= 1;
        self.completed = rqmsn;
        let operation = Operation::Receive { immediate: early.value };
        Ok(Completion { wr_id, operation, status: Status::Success, len: early.len })
    }

    /// Ends every posted receive as flushed.
    pub(super) fn flush(&mut self, mut ended: impl FnMut(Completion)) {
        while let Some(wr_id) = self.receives.pop_front() {
            let operation = Operation::Receive { immediate: 0 };
            ended(Completion { wr_id, operation, status: Status::Flushed, len: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn immediate(rqmsn: u16) -> Immediate {
        Immediate { value: u32::from(rqmsn) * 10, rqmsn, len: 8 }
    }

    #[test]
    fn numbers_beyond_the_limit_or_used_before_are_refused() {
        let mut immediates = Immediates::new(2, 4);
        assert_eq!(immediates.judge(1), Ok(()));
        assert_eq!(immediates.judge(2), Ok(()));
        assert_eq!(immediates.judge(3), Err(Syndrome::WriteImmLimit));
        assert_eq!(immediates.judge(0), Err(Syndrome::InvalidRequest));
        immediates.keep(Psn::new(5), &immediate(2));
        assert_eq!(immediates.judge(2), Err(Syndrome::InvalidRequest));
    }

    #[test]
    fn numbers_wrap_at_16_bits() {
        let mut immediates = Immediates::new(2, 4);
        immediates.completed = 0xFFFF;
        immediates.post(7);
        assert_eq!(immediates.judge(0), Ok(()));
        immediates.keep(Psn::new(9), &immediate(0));
        assert_eq!(immediates.complete(Psn::new(9)).map(|c| c.wr_id), Ok(7));
        assert_eq!(immediates.judge(1), Ok(()));
    }

    #[test]
    fn numbers_that_do_not_follow_the_order_of_sending_are_refused() {
        let mut immediates = Immediates::new(4, 4);
        immediates.post(1);
        immediates.keep(Psn::new(1), &immediate(2));
        assert_eq!(immediates.complete(Psn::new(1)), Err(Syndrome::InvalidRequest));
        let mut swapped = Immediates::new(4, 4);
        swapped.post(1);
        swapped.keep(Psn::new(1), &immediate(2));
        swapped.keep(Psn::new(2), &immediate(1));
        assert_eq!(swapped.complete(Psn::new(1)), Err(Syndrome::InvalidRequest));
    }
}

//! First transmissions whose timers started in the order of their PSNs, as most do.
//!
//! All wait equally long, so PSNs in their order are in order of deadline, too. A port takes many packets at a time: what is kept is one time
//! for each such run, and nothing for a packet.

use crate::Ns;
use crate::transport::{Psn, PsnBits, low_bits};
use std::collections::VecDeque;

/// PSNs up to `end`, from the end of the run before on: their timers started `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    end: Psn,
    at: Ns,
}

/// When the timers of first transmissions started.
pub(super) struct InOrder {
    /// None before runs any more.
    from: Psn,
    /// All but the last: where few packets are in flight it is the only one.
    runs: VecDeque<Run>,
    last: Option<Run>,
    /// 1: within a run, but its port has not taken it yet.
    late: PsnBits,
}

impl InOrder {
    /// Of none so far, with room for `window` PSNs from `first` on.
    pub(super) fn new(first: Psn, window: u32) -> InOrder {
        InOrder { from: first, runs: VecDeque::new(), last: None, late: PsnBits::new(window) }
    }

    /// The PSN behind all runs.
    #[inline]
    pub(super) fn end(&self) -> Psn {
        self.last.map_or(self.from, |run| run.end)
    }

    /// Starts the timers of those from `first`, which no run has, to before `end`. Those before `first` that no run has, and of which `unacked` says
    /// that they are not acknowledged, are late.
    #[inline]
    pub(super) fn start(&mut self, at: Ns, first: Psn, end: Psn, unacked: &PsnBits) {
        let (mut from, mut left) = (self.end(), first.distance(self.end()));
        while left > 0 {
            self.late.set_word(from, unacked.word(from) & low_bits(left as u32));
            from = from.plus(64);
            left -= 64;
        }
        if let Some(before) = self.last.replace(Run { end, at }).filter(|last| last.at != at) {
            self.runs.push_back(before);
        }
    }

    /// Is `psn` within a run, but not taken by its port?
    #[inline]
    pub(super) fn is_late(&self, psn: Psn) -> bool {
        self.late.get(psn)
    }

    /// The port of a late one has taken it now. True when it belongs to the last run, so that all is well.
    #[inline]
    pub(super) fn catch_up(&mut self, at: Ns, psn: Psn) -> bool {
        self.late.clear(psn);
        let begin = self.runs.back().map_or(self.from, |run| run.end);
        let is_last = psn.distance(begin) >= 0 && psn.distance(self.from) >= 0;
        is_last && self.last.is_some_and(|run| run.at == at)
    }

    /// Those of the 64 from `base` on that are set in `gone` are acknowledged.
    #[inline]
    pub(super) fn forget(&mut self, base: Psn, gone: u64) {
        self.late.clear_word(base, gone);
    }

    /// When the timer of `psn` started, if it is of a run.
    #[inline]
    pub(super) fn started(&self, psn: Psn) -> Option<Ns> {
        if psn.distance(self.from) < 0 || self.late.get(psn) {
            return None;
        }
        let run = self.runs.partition_point(|run| !run.end.is_after(psn));
        Some(self.runs.get(run).or(self.last.as_ref())?.at)
    }

    /// The first packet that is not acknowledged and has no other timer, as `is_in_order` says, and when its timer started. What is before it is not
    /// looked at again.
    #[inline]
    pub(super) fn first(&mut self, unacked: &PsnBits, is_in_order: impl Fn(Psn) -> bool) -> Option<(Psn, Ns)> {
        while let Some(run) = self.front() {
            match unacked.first_set(self.from, run.end.distance(self.from) as u32) {
                Some(psn) if is_in_order(psn) && !self.late.get(psn) => {
                    self.from = psn;
                    return Some((psn, run.at));
                }
                Some(psn) => self.from = psn.next(),
                None => {
                    self.from = run.end;
                    self.drop_front();
                }
            }
        }
        None
    }

    #[inline]
    fn front(&self) -> Option<Run> {
        self.runs.front().copied().or(self.last)
    }

    #[inline]
    fn drop_front(&mut self) {
        if self.runs.pop_front().is_none() {
            self.last = None;
        }
    }

    /// None before `oldest` is outstanding any more.
    #[inline]
    pub(super) fn pass(&mut self, oldest: Psn) {
        if !oldest.is_after(self.from) {
            return;
        }
        self.from = oldest;
        while self.front().is_some_and(|run| !run.end.is_after(oldest)) {
            self.drop_front();
        }
    }

    /// Takes the memory of runs away, when there is none.
    pub(super) fn take_room(&mut self) -> VecDeque<Run> {
        debug_assert!(self.runs.is_empty());
        core::mem::take(&mut self.runs)
    }

    /// Gives memory for runs, when there is none.
    pub(super) fn set_room(&mut self, room: VecDeque<Run>) {
        debug_assert!(self.runs.is_empty() && room.is_empty());
        self.runs = room;
    }
}

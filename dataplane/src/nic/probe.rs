//! Reliability probes: a question that uses no PSN, answered by a SACK on the probed path.

use super::Qpn;
use crate::Ns;
use std::collections::VecDeque;

/// Probes that wait for their answer at most; the oldest is given up for a new one.
pub const PROBES_MAX: usize = 1024;

/// A probe that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The QP that it was sent on.
    pub qpn: Qpn,
    /// Its number.
    pub id: u16,
    /// The entropy value that it tested.
    pub ev: u32,
    /// Round-trip time in ns, less the responder's service time; `None` where the clock's 16 bits do not tell.
    pub rtt: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    qpn: Qpn,
    id: u16,
    ev: u32,
    asked_at: Ns,
}

/// Probes in flight, and the answers that nobody has looked at yet.
#[derive(Debug, Default)]
pub(super) struct Probes {
    next: u16,
    waiting: VecDeque<Probe>,
    answers: VecDeque<ProbeAnswer>,
}

impl Probes {
    /// A number for a probe of `ev`.
    pub(super) fn ask(&mut self, now: Ns, qpn: Qpn, ev: u32) -> u16 {
        self.next = self.next.wrapping_add(1);
        if self.waiting.len() == PROBES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Probe { qpn, id: self.next, ev, asked_at: now });
        self.next
    }

    fn find(&self, qpn: Qpn, id: u16) -> Option<usize> {
        self.waiting.iter().position(|probe| probe.id == id && probe.qpn == qpn)
    }

    /// When probe `id` of a QP was asked for, if it waits for its answer.
    pub(super) fn asked_at(&self, qpn: Qpn, id: u16) -> Option<Ns> {
        self.find(qpn, id).map(|at| self.waiting[at].asked_at)
    }

    /// Does probe `id` of a QP wait for its answer?
    pub(super) fn waits(&self, qpn: Qpn, id: u16) -> bool {
        self.find(qpn, id).is_some()
    }

    /// The answer to probe `id` of a QP came: the value that was probed, unless nobody waits for it.
    pub(super) fn answered(&mut self, qpn: Qpn, id: u16, rtt: Option<u64>) -> Option<u32> {
        let at = self.find(qpn, id)?;
        let probe = self.waiting.remove(at)?;
        if self.answers.len() == PROBES_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back(ProbeAnswer { qpn, id, ev: probe.ev, rtt });
        Some(probe.ev)
    }

    pub(super) fn poll(&mut self) -> Option<ProbeAnswer> {
        self.answers.pop_front()
    }

    /// When the oldest probe that still waits was asked for.
    pub(super) fn oldest(&self) -> Option<Ns> {
        self.waiting.front().map(|probe| probe.asked_at)
    }

    pub(super) fn forget(&mut self, qpn: Qpn) {
        self.waiting.retain(|probe| probe.qpn != qpn);
    }
}

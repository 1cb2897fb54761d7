//! What a worker of a device runs beside its engine.

use super::books::Books;
use super::hook::Hooks;
use super::ring::Job;
use crate::controller::WorkerEnd;
use crate::records::WorkerRecords;
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::dpdk::{App, Poll};
use dataplane::nic::Nic;
use std::sync::Arc;

/// Jobs that one turn takes at most, so that receiving is never kept waiting.
const JOBS_A_TURN: usize = 64;

/// The worker's place: the link to the control thread, the ring of the applications, and hooks.
pub(super) struct Seat {
    pub(super) link: WorkerEnd,
    pub(super) jobs: Arc<ArrayQueue<Job>>,
    pub(super) books: Books,
    pub(super) records: Option<WorkerRecords>,
    /// What else there is to do in each turn.
    pub(super) hooks: Hooks,
}

impl App<Nic> for Seat {
    #[inline]
    fn poll(&mut self, now: Ns, nic: &mut Nic) -> Poll {
        let told = self.link.exchange(now, nic);
        if let Some(records) = &mut self.records {
            records.turn(now, nic);
        }
        let reaped = self.books.reap(nic);
        let worked = self.work(now, nic, JOBS_A_TURN);
        let hooked = self.hooks.turn(now, nic);
        if told || reaped || worked || hooked { Poll::Busy } else { Poll::Idle }
    }

    /// All that is in the ring: a receive that was posted before a peer sent is there when its frame is looked at.
    #[inline]
    fn before_frames(&mut self, now: Ns, nic: &mut Nic) {
        let waiting = self.jobs.len();
        if waiting > 0 {
            self.work(now, nic, waiting);
        }
    }
}

impl Seat {
    #[inline]
    fn work(&mut self, now: Ns, nic: &mut Nic, most: usize) -> bool {
        for done in 0..most {
            // A ring that is empty is seen so without the fence of a pop.
            if self.jobs.is_empty() {
                return done > 0;
            }
            match self.jobs.pop() {
                Some(Job::Write(qpn, request)) => self.books.write(nic, qpn, &request),
                Some(Job::Receive(qpn, wr_id)) => self.books.receive(nic, qpn, wr_id),
                Some(Job::Errand(errand)) => errand(now, nic, &mut self.books),
                None => return done > 0,
            }
        }
        true
    }
}

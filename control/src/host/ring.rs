//! The ring from the applications to a worker, and how they hear what came of it.

use super::books::Books;
use super::error::HostError;
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::nic::{Nic, Qpn, WriteRequest};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Who waits for an answer looks this often whether the worker is still there.
const LOOK: Duration = Duration::from_millis(5);
/// How long who finds the ring full, and may not give up, waits before the next try.
const RETRY: Duration = Duration::from_micros(50);

/// Work for a worker, to be done between two turns.
pub(super) type Errand = Box<dyn FnOnce(Ns, &mut Nic, &mut Books) + Send>;

/// What an application asks of a worker.
pub(super) enum Job {
    /// A Write. Its places in the send queue and in the completion queue are promised.
    Write(Qpn, WriteRequest),
    /// A receive with this number; as above.
    Receive(Qpn, u64),
    /// Anything that happens seldom.
    Errand(Errand),
}

/// A worker, as applications know it.
#[derive(Clone)]
pub(super) struct WorkerRing {
    jobs: Arc<ArrayQueue<Job>>,
    /// Set when a worker died, or all are to end.
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for WorkerRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerRing({} of {})", self.jobs.len(), self.jobs.capacity())
    }
}

/// A place for one answer, and who waits for it.
struct Reply<R> {
    answer: ArrayQueue<R>,
    waits: Thread,
}

impl WorkerRing {
    pub(super) fn new(capacity: usize, stop: Arc<AtomicBool>) -> WorkerRing {
        WorkerRing { jobs: Arc::new(ArrayQueue::new(capacity)), stop }
    }

    /// The worker's end.
    pub(super) fn jobs(&self) -> Arc<ArrayQueue<Job>> {
        Arc::clone(&self.jobs)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks, and does not wait.
    #[inline]
    pub(super) fn post(&self, job: Job) -> Result<(), HostError> {
        if self.is_gone() {
            return Err(HostError::Gone);
        }
        self.jobs.push(job).map_err(|_| HostError::RingFull(self.jobs.capacity()))
    }

    /// Has the worker do `work` between two turns, after what was posted before, and waits for what comes of it.
    pub(super) fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(Ns, &mut Nic, &mut Books) -> R + Send + 'static,
    ) -> Result<R, HostError> {
        let reply = Arc::new(Reply { answer: ArrayQueue::new(1), waits: std::thread::current() });
        let to = Arc::clone(&reply);
        let errand = move |now: Ns, nic: &mut Nic, books: &mut Books| {
            // One answer for one place.
            let _ = to.answer.push(work(now, nic, books));
            to.waits.unpark();
        };
        let mut job = Job::Errand(Box::new(errand));
        loop {
            if self.is_gone() {
                return Err(HostError::Gone);
            }
            match self.jobs.push(job) {
                Ok(()) => break,
                Err(back) => job = back,
            }
            std::thread::sleep(RETRY);
        }
        loop {
            if let Some(answer) = reply.answer.pop() {
                return Ok(answer);
            }
            if self.is_gone() {
                return Err(HostError::Gone);
            }
            std::thread::park_timeout(LOOK);
        }
    }
}

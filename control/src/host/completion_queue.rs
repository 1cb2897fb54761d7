//! Completion queues. Whoever posts has a place promised first, so that no completion ever finds the queue full.

use super::error::HostError;
use super::notify::{Ear, Notify};
use crossbeam::queue::ArrayQueue;
use dataplane::nic::{CompletionEntry, Operation, Status};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Completions that a queue holds at most.
pub const COMPLETIONS_MAX: usize = 1 << 20;
/// Who waits looks this often even if nobody wakes it.
const LOOK: Duration = Duration::from_millis(10);

/// A queue of completions, for any number of QPs of a device. Any thread may poll it; clones are the same queue.
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    pub(super) shared: Arc<Shared>,
}

/// The queue, as workers and QPs know it.
#[derive(Debug)]
pub(super) struct Shared {
    /// The device that it is of, by its number.
    pub(super) device: u64,
    ring: ArrayQueue<CompletionEntry>,
    /// Completions in the ring, and those that may come.
    promised: AtomicUsize,
    /// Somebody waits.
    awaited: AtomicBool,
    waiting: Mutex<Vec<Thread>>,
    ear: Ear,
    /// Which completion the ear is to hear of.
    armed: AtomicU8,
}

/// The ear hears of none,
const NONE: u8 = 0;
/// of the next that is a receive or no success,
const NOTABLE: u8 = 1;
/// or of the next.
const ANY: u8 = 2;

impl CompletionQueue {
    pub(super) fn new(device: u64, capacity: usize) -> Result<CompletionQueue, HostError> {
        if capacity == 0 || capacity > COMPLETIONS_MAX {
            return Err(HostError::Depth { what: "completion queue", asked: capacity, most: COMPLETIONS_MAX });
        }
        Ok(CompletionQueue {
            shared: Arc::new(Shared {
                device,
                ring: ArrayQueue::new(capacity),
                promised: AtomicUsize::new(0),
                awaited: AtomicBool::new(false),
                waiting: Mutex::default(),
                ear: Ear::default(),
                armed: AtomicU8::new(NONE),
            }),
        })
    }

    /// Takes the oldest completion.
    #[must_use]
    pub fn poll(&self) -> Option<CompletionEntry> {
        let entry = self.shared.ring.pop()?;
        self.shared.release();
        Some(entry)
    }

    /// Completions that the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.ring.capacity()
    }

    /// Completions that are there to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.ring.len()
    }

    /// True when there is none to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.ring.is_empty()
    }

    /// Has `notify` hear of completions, each time that [`CompletionQueue::arm`] was called before; `false` when another one does already.
    pub fn hear(&self, notify: Arc<dyn Notify>) -> bool {
        self.shared.ear.take(notify)
    }

    /// Has whoever hears be told of the next completion that comes, once; with `notable` of the next one that is a receive, or no success. Those
    /// that are there already count not: look after this.
    pub fn arm(&self, notable: bool) {
        // Who asked for any stays with that.
        self.shared.armed.fetch_max(if notable { NOTABLE } else { ANY }, Ordering::SeqCst);
    }

    /// Sleeps until there is a completion, or until `timeout` has passed: then it is false. Another thread may take the completion first.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        while self.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.shared.register(&std::thread::current());
            // What came before this was registered woke nobody.
            if self.is_empty() {
                std::thread::park_timeout(left.min(LOOK));
            }
        }
        true
    }
}

impl Shared {
    /// Promises a place for a completion to come.
    #[inline]
    pub(super) fn promise(&self) -> Result<(), HostError> {
        let capacity = self.ring.capacity();
        let one_more = |promised| (promised < capacity).then_some(promised + 1);
        match self.promised.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(_) => Err(HostError::CompletionQueueFull(capacity)),
        }
    }

    /// A place that was promised is free again.
    #[inline]
    pub(super) fn release(&self) {
        self.promised.fetch_sub(1, Ordering::AcqRel);
    }

    /// A completion comes to its promised place.
    #[inline]
    pub(super) fn push(&self, entry: CompletionEntry) {
        // As many places as the ring has were promised, so there is one.
        let pushed = self.ring.push(entry).is_ok();
        debug_assert!(pushed, "a completion without a promise");
        if self.armed.load(Ordering::SeqCst) != NONE {
            self.tell(&entry);
        }
        if self.awaited.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn tell(&self, entry: &CompletionEntry) {
        let completion = &entry.completion;
        let notable = matches!(completion.operation, Operation::Receive { .. }) || completion.status != Status::Success;
        let heard = self.armed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |armed| {
            (armed == ANY || armed == NOTABLE && notable).then_some(NONE)
        });
        if heard.is_ok() {
            self.ear.tell();
        }
    }

    fn register(&self, thread: &Thread) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.iter().all(|other| other.id() != thread.id()) {
            waiting.push(thread.clone());
        }
        self.awaited.store(true, Ordering::SeqCst);
    }

    /// Wakes those who wait. A worker waits for nobody: where the list is being written it leaves it, and they look by themselves.
    fn wake(&self) {
        let Ok(mut waiting) = self.waiting.try_lock() else { return };
        self.awaited.store(false, Ordering::SeqCst);
        waiting.drain(..).for_each(|thread| thread.unpark());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use dataplane::nic::{Completion, Operation, QpNumbers, Status};

    pub(in super::super) fn entry(wr_id: u64) -> CompletionEntry {
        let qpn = QpNumbers::default().allocate().unwrap();
        let completion = Completion { wr_id, operation: Operation::Write, status: Status::Success, len: 1 };
        CompletionEntry { qpn, completion }
    }

    #[test]
    fn a_place_is_promised_before_a_completion_and_free_again_once_it_is_taken() {
        let cq = CompletionQueue::new(1, 2).unwrap();
        assert_eq!((cq.shared.promise(), cq.shared.promise()), (Ok(()), Ok(())));
        assert_eq!(cq.shared.promise(), Err(HostError::CompletionQueueFull(2)));
        cq.shared.push(entry(7));
        assert_eq!(cq.shared.promise(), Err(HostError::CompletionQueueFull(2)), "it is there and was not taken");
        assert_eq!(cq.poll().map(|entry| entry.completion.wr_id), Some(7));
        assert_eq!(cq.shared.promise(), Ok(()));
        cq.shared.release();
        assert_eq!((cq.shared.promise(), cq.len()), (Ok(()), 0));
    }

    #[test]
    fn who_waits_is_woken_by_a_completion_and_told_when_there_is_none() {
        let cq = CompletionQueue::new(1, 4).unwrap();
        assert!(!cq.wait(Duration::from_millis(1)));
        let waiter = cq.clone();
        let thread = std::thread::spawn(move || waiter.wait(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(20));
        cq.shared.promise().unwrap();
        cq.shared.push(entry(1));
        assert!(thread.join().unwrap());
        assert!(cq.wait(Duration::ZERO), "it is still there");
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Notify for Count {
        fn notify(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_hears_is_told_of_the_next_completion_once_for_each_time_that_the_queue_was_armed() {
        let cq = CompletionQueue::new(1, 8).unwrap();
        let count = Arc::new(Count::default());
        assert!(cq.hear(count.clone()) && !cq.hear(count.clone()));
        let come = |status, told| {
            let mut entry = entry(1);
            entry.completion.status = status;
            cq.shared.promise().unwrap();
            cq.shared.push(entry);
            assert_eq!(count.0.load(Ordering::SeqCst), told);
        };
        come(Status::Success, 0);
        cq.arm(false);
        cq.arm(true);
        come(Status::Success, 1);
        come(Status::Success, 1);
        cq.arm(true);
        come(Status::Success, 1);
        come(Status::Flushed, 2);
        come(Status::Flushed, 2);
    }

    #[test]
    fn a_queue_of_nothing_is_refused() {
        assert!(matches!(CompletionQueue::new(1, 0), Err(HostError::Depth { asked: 0, .. })));
        assert!(CompletionQueue::new(1, COMPLETIONS_MAX + 1).is_err());
    }
}

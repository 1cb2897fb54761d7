//! Changes of EVs, for those who take them one by one.

use super::notify::{Ear, Notify};
use crate::controller::{EvChange, EvListener};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An EV changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvEventEntry {
    /// What changed.
    pub change: EvChange,
    /// Events that found no room since the one before this.
    pub dropped: u32,
}

/// A queue of changes of EVs, as the masks of their profiles say. What comes while it is full is counted and dropped. It hears of nothing any
/// more once it is dropped.
#[derive(Debug)]
pub struct EvEvents {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    ear: Ear,
}

#[derive(Debug)]
struct Inner {
    waiting: VecDeque<EvEventEntry>,
    capacity: usize,
    dropped: u32,
    armed: bool,
    closed: bool,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EvListener for Shared {
    fn changed(&self, change: &EvChange) {
        let mut inner = self.inner();
        if inner.closed {
            return;
        }
        if inner.waiting.len() == inner.capacity {
            inner.dropped = inner.dropped.saturating_add(1);
            return;
        }
        let dropped = std::mem::take(&mut inner.dropped);
        inner.waiting.push_back(EvEventEntry { change: *change, dropped });
        // Under the lock: whoever closes the queue is sure that nobody is told afterwards.
        if std::mem::take(&mut inner.armed) {
            self.ear.tell();
        }
    }
}

impl EvEvents {
    pub(super) fn new(capacity: usize) -> (EvEvents, Arc<dyn EvListener>) {
        let inner = Inner { waiting: VecDeque::new(), capacity, dropped: 0, armed: false, closed: false };
        let shared = Arc::new(Shared { inner: Mutex::new(inner), ear: Ear::default() });
        (EvEvents { shared: Arc::clone(&shared) }, shared)
    }

    /// Takes the oldest event.
    #[must_use]
    pub fn poll(&self) -> Option<EvEventEntry> {
        self.shared.inner().waiting.pop_front()
    }

    /// Has `notify` hear of the next event each time that [`EvEvents::arm`] was called before; `false` when another one does already. The control
    /// thread calls it.
    pub fn hear(&self, notify: Arc<dyn Notify>) -> bool {
        self.shared.ear.take(notify)
    }

    /// Has whoever hears be told of the next event, once.
    pub fn arm(&self) {
        self.shared.inner().armed = true;
    }

    /// Takes no more events: nobody is told of one once this returns.
    pub fn close(&self) {
        self.shared.inner().closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::EvName;
    use dataplane::nic::EvState;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Told(AtomicUsize);

    impl Notify for Told {
        fn notify(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn change(port: u8) -> EvChange {
        EvChange { profile: 3, ev: EvName { bits: [0; 32], port }, state: EvState::AssumedBad }
    }

    #[test]
    fn events_beyond_the_room_are_counted_and_the_next_one_says_how_many() {
        let (events, listener) = EvEvents::new(2);
        (1..=5).for_each(|port| listener.changed(&change(port)));
        assert_eq!(events.poll(), Some(EvEventEntry { change: change(1), dropped: 0 }));
        listener.changed(&change(6));
        assert_eq!(events.poll(), Some(EvEventEntry { change: change(2), dropped: 0 }));
        assert_eq!(events.poll(), Some(EvEventEntry { change: change(6), dropped: 3 }));
        assert_eq!(events.poll(), None);
    }

    #[test]
    fn who_armed_the_queue_is_told_once_and_not_after_it_is_closed() {
        let (events, listener) = EvEvents::new(8);
        let told = Arc::new(Told::default());
        assert!(events.hear(told.clone()) && !events.hear(told.clone()));
        listener.changed(&change(1));
        assert_eq!(told.0.load(Ordering::Relaxed), 0);
        events.arm();
        (2..4).for_each(|port| listener.changed(&change(port)));
        assert_eq!(told.0.load(Ordering::Relaxed), 1);
        events.arm();
        events.close();
        listener.changed(&change(4));
        assert_eq!(told.0.load(Ordering::Relaxed), 1);
    }
}

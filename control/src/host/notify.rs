//! Who wants to hear of completions and events without waiting for them.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// Hears that something happened. A worker calls it, in the middle of a turn: it must not wait, and does as little as it can.
pub trait Notify: Send + Sync {
    /// It happened.
    fn notify(&self);
}

/// A place for one who wants to hear.
#[derive(Default)]
pub(super) struct Ear(OnceLock<Arc<dyn Notify>>);

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "Ear(taken)" } else { "Ear(free)" })
    }
}

impl Ear {
    /// Takes the place; `false` when it is taken.
    pub(super) fn take(&self, notify: Arc<dyn Notify>) -> bool {
        self.0.set(notify).is_ok()
    }

    pub(super) fn tell(&self) {
        if let Some(notify) = self.0.get() {
            notify.notify();
        }
    }
}

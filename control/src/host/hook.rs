//! What else runs on a worker.

use dataplane::Ns;
use dataplane::nic::Nic;
use std::fmt;
use std::sync::Arc;

/// Something that a worker does once a turn, after what applications asked for: to look at its engine, for instance. It must not wait, and
/// where it may do nothing for long it should see so from `now` alone.
pub trait Hook: Send {
    /// Does it. True when there was anything to do: a worker that has nothing yields its core now and then.
    fn turn(&mut self, now: Ns, nic: &mut Nic) -> bool;
}

/// Makes the hooks of each worker, which is given by its number from 0.
#[derive(Clone)]
pub struct HookMaker(Arc<dyn Fn(usize) -> Vec<Box<dyn Hook>> + Send + Sync>);

impl HookMaker {
    /// Calls `make` once for each worker, when the device is opened.
    #[must_use]
    pub fn new(make: impl Fn(usize) -> Vec<Box<dyn Hook>> + Send + Sync + 'static) -> HookMaker {
        HookMaker(Arc::new(make))
    }

    pub(super) fn hooks(&self, worker: usize) -> Hooks {
        Hooks((self.0)(worker))
    }
}

impl fmt::Debug for HookMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookMaker")
    }
}

/// The hooks of one worker, in the order of their turns.
#[derive(Default)]
pub(super) struct Hooks(Vec<Box<dyn Hook>>);

impl Hooks {
    #[inline]
    pub(super) fn turn(&mut self, now: Ns, nic: &mut Nic) -> bool {
        let mut did = false;
        for hook in &mut self.0 {
            did |= hook.turn(now, nic);
        }
        did
    }
}

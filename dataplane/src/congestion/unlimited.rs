//! No congestion control.

use super::{Congestion, SackSignal};
use crate::Ns;

/// No window: nothing is ever held back on its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Unlimited;

impl Congestion for Unlimited {
    #[inline]
    fn window(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn on_sack(&mut self, _now: Ns, _signal: &SackSignal, _before: u64, _inflight: u64) {}

    #[inline]
    fn on_nack(&mut self, _now: Ns, _nominal: u32, _trimmed: bool, _inflight: u64) {}

    #[inline]
    fn on_loss(&mut self, _now: Ns, _nominal: u32) {}
}

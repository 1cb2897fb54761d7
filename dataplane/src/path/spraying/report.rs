//! Entropy values as they can be seen from outside.

use super::EvState;
use crate::path::profile::Ev;

/// An entropy value as reports have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvReport {
    /// The value and its port.
    pub ev: Ev,
    /// Its state.
    pub state: EvState,
    /// Whether its port is out of use, at this end or the other.
    pub port_out: bool,
    /// Packets that took it.
    pub sent: u64,
}

/// How many entropy values are in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EvCensus {
    /// In use.
    pub good: usize,
    /// Passed over at their next turn.
    pub skipped: usize,
    /// Assumed bad.
    pub assumed_bad: usize,
    /// Denied, those that were replaced too.
    pub denied: usize,
}

impl EvCensus {
    /// Takes the values of another destination.
    pub const fn merge(&mut self, other: &EvCensus) {
        self.good += other.good;
        self.skipped += other.skipped;
        self.assumed_bad += other.assumed_bad;
        self.denied += other.denied;
    }
}

//! A look at an engine at a moment: counters, windows, round-trip times, entropy values. Records are made of them.

use super::stats::Counts;
use super::{GroupReport, Nic};
use crate::Ns;
use crate::path::EvCensus;

/// Count, sum and ends of some values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The smallest; without meaning where there is none.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl Spread {
    /// Takes one more.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Takes all that another has.
    pub fn merge(&mut self, other: &Spread) {
        if other.count > 0 {
            self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.count += other.count;
            self.sum = self.sum.saturating_add(other.sum);
        }
    }

    /// Their mean; `None` where there is none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// What happened since the sample before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    pub(super) rtt: Spread,
    pub(super) reorder: Spread,
}

/// A look at an engine.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NicSample {
    /// When.
    pub at: Ns,
    /// Counters since the engine was made.
    pub counts: Counts,
    /// Valid round-trip times in ns since the sample before.
    pub rtt: Spread,
    /// PSNs that a responder held out of order, whenever a packet came out of order since the sample before.
    pub reorder: Spread,
    /// Windows in bytes, those that limit.
    pub windows: Spread,
    /// Base round-trip times in ns, of groups with NSCC.
    pub base_rtt: Spread,
    /// Average queueing delays in ns, of groups with NSCC.
    pub delay: Spread,
    /// Bytes in flight.
    pub inflight: u64,
    /// Open QPs.
    pub qps: usize,
    /// Groups of QPs that share a window.
    pub groups: usize,
    /// Remote addresses with open QPs.
    pub destinations: usize,
    /// Entropy values of all destinations, by state.
    pub evs: EvCensus,
}

impl NicSample {
    /// Takes what another engine of the same NIC says.
    pub fn merge(&mut self, other: &NicSample) {
        self.at = self.at.max(other.at);
        self.counts.merge(&other.counts);
        for (own, others) in [
            (&mut self.rtt, &other.rtt),
            (&mut self.reorder, &other.reorder),
            (&mut self.windows, &other.windows),
            (&mut self.base_rtt, &other.base_rtt),
            (&mut self.delay, &other.delay),
        ] {
            own.merge(others);
        }
        self.inflight += other.inflight;
        self.qps += other.qps;
        self.groups += other.groups;
        self.destinations += other.destinations;
        self.evs.merge(&other.evs);
    }

    fn take_group(&mut self, group: &GroupReport) {
        self.groups += 1;
        self.qps += group.qps;
        self.inflight += group.inflight;
        if group.window < u64::MAX {
            self.windows.add(group.window);
        }
        if let Some(nscc) = &group.nscc {
            self.base_rtt.add(nscc.base_rtt_ns);
            self.delay.add(nscc.average_delay_ns);
        }
    }
}

impl Nic {
    /// Takes a sample, in time proportional to the groups and destinations: what is counted for an interval begins anew.
    pub fn sample(&mut self, now: Ns) -> NicSample {
        let Interval { rtt, reorder } = core::mem::take(&mut self.interval);
        let (counts, destinations) = (self.stats.counts(), self.destination_of.len());
        let mut sample = NicSample { at: now, counts, rtt, reorder, destinations, ..NicSample::default() };
        for group in self.groups.iter().filter(|group| group.qps > 0) {
            sample.take_group(&group.report());
        }
        for rotation in self.rotations.iter().filter(|rotation| rotation.qps > 0) {
            sample.evs.merge(&rotation.spraying.census());
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_knows_its_ends_and_its_mean_and_none_of_nothing() {
        let mut spread = Spread::default();
        assert_eq!(spread.mean(), None);
        for value in [7, 3, 11] {
            spread.add(value);
        }
        assert_eq!((spread.min, spread.max, spread.mean()), (3, 11, Some(7.0)));
        let mut other = Spread::default();
        other.merge(&spread);
        other.merge(&Spread::default());
        assert_eq!(other, spread);
        other.add(1);
        assert_eq!((other.min, other.max, other.count), (1, 11, 4));
    }
}

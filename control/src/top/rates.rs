//! What changed between two surveys, a second.

use crate::controller::NicReport;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Rates of one NIC; all are a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) tx_frames: f64,
    pub(super) tx_bits: f64,
    pub(super) rx_frames: f64,
    pub(super) rx_bits: f64,
    /// Payload placed in memory, in bits.
    pub(super) placed_bits: f64,
    /// Requests that ended well, and receives that were completed.
    pub(super) messages: f64,
    /// Requests that ended otherwise.
    pub(super) failed: f64,
    /// Data packets, retransmissions included.
    pub(super) data: f64,
    pub(super) resent: f64,
    pub(super) by_gap: f64,
    pub(super) by_timer: f64,
    pub(super) by_nack: f64,
    pub(super) in_vain: f64,
    pub(super) drops: f64,
}

impl Rates {
    /// Retransmissions as a share of data packets, 0 to 1.
    pub(super) fn resent_share(&self) -> f64 {
        if self.data > 0.0 { self.resent / self.data } else { 0.0 }
    }
}

/// Rates of one QP.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QpRates {
    pub(super) sent: f64,
    pub(super) resent: f64,
    pub(super) placed_bits: f64,
}

/// An entropy value towards somebody, of a profile or none.
pub(super) type EvKey = (IpAddr, Option<u64>, u32);

/// All that changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    pub(super) rates: Rates,
    pub(super) qps: HashMap<u32, QpRates>,
    /// Packets a second of each value.
    pub(super) evs: HashMap<EvKey, f64>,
    /// Frames dropped a second, by reason.
    pub(super) drops: BTreeMap<String, f64>,
}

/// What changed from `before` to `after`, `seconds` later. `None` when no time passed, or counters went back: then it is another NIC.
pub(super) fn between(before: &NicReport, after: &NicReport, seconds: f64) -> Option<Change> {
    let grew = |name: &str| {
        let of = |nic: &NicReport| nic.counters.get(name).copied().unwrap_or(0);
        of(after).checked_sub(of(before))
    };
    if seconds <= 0.0 || after.counters.keys().any(|name| grew(name).is_none()) {
        return None;
    }
    let rate = |name: &str| grew(name).unwrap_or(0) as f64 / seconds;
    let per_second = |before: Option<u64>, after: u64| after.saturating_sub(before.unwrap_or(0)) as f64 / seconds;
    let drops: BTreeMap<String, f64> = after
        .drops
        .iter()
        .map(|(reason, &count)| (reason.clone(), per_second(before.drops.get(reason).copied(), count)))
        .collect();
    let rates = Rates {
        tx_frames: rate("tx_frames"),
        tx_bits: 8.0 * rate("tx_bytes"),
        rx_frames: rate("rx_frames"),
        rx_bits: 8.0 * rate("rx_bytes"),
        placed_bits: 8.0 * rate("placed_bytes"),
        messages: rate("completed") + rate("received_immediates"),
        failed: rate("failed"),
        data: rate("tx_data"),
        resent: rate("retransmits"),
        by_gap: rate("lost_by_gap"),
        by_timer: rate("lost_by_timeout"),
        by_nack: rate("refused"),
        in_vain: rate("spurious_retransmits"),
        drops: drops.values().sum(),
    };
    // What was not listed before began somewhere, and nobody knows where: it has no rate yet.
    let known: HashMap<u32, _> = before.qps.iter().map(|qp| (qp.qpn, qp)).collect();
    let qps = after.qps.iter().filter_map(|qp| {
        let before = known.get(&qp.qpn)?;
        let rates = QpRates {
            sent: per_second(Some(before.sent), qp.sent),
            resent: per_second(Some(before.retransmits), qp.retransmits),
            placed_bits: 8.0 * per_second(Some(before.delivered_bytes), qp.delivered_bytes),
        };
        Some((qp.qpn, rates))
    });
    let before_evs: HashMap<EvKey, u64> = ev_counts(before).collect();
    let evs = ev_counts(after).filter_map(|(key, sent)| Some((key, per_second(Some(*before_evs.get(&key)?), sent))));
    Some(Change { rates, qps: qps.collect(), evs: evs.collect(), drops })
}

fn ev_counts(nic: &NicReport) -> impl Iterator<Item = (EvKey, u64)> + '_ {
    nic.destinations.iter().flat_map(|to| to.evs.iter().map(move |ev| ((to.destination, ev.profile, ev.ev), ev.sent)))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn rates_are_what_two_surveys_differ_by_over_the_time_between_them() {
        let before = fixture::nic("a", 0);
        let after = fixture::nic("a", 2);
        let change = between(&before, &after, 2.0).unwrap();
        let rates = change.rates;
        assert_eq!((rates.tx_frames, rates.tx_bits), (30_000.0, 8.0 * 120e6));
        assert_eq!((rates.data, rates.resent, rates.resent_share()), (25_000.0, 250.0, 0.01));
        assert_eq!((rates.by_gap, rates.by_timer, rates.by_nack, rates.in_vain), (100.0, 140.0, 10.0, 50.0));
        assert_eq!((rates.messages, rates.failed), (500.0, 0.0));
        assert_eq!(change.drops["unknown_probe"], 4.0);
        assert_eq!(rates.drops, 4.0);
        let qp = &after.qps[3];
        assert_eq!(change.qps[&qp.qpn].sent, 2_000.0 + 30.0);
        let to = after.destinations[0].destination;
        assert_eq!(change.evs[&(to, None, 300)], 100.0);
    }

    #[test]
    fn a_nic_whose_counters_went_back_is_another_one_and_no_time_makes_no_rate() {
        let (early, late) = (fixture::nic("a", 0), fixture::nic("a", 2));
        assert_eq!(between(&late, &early, 1.0), None);
        assert_eq!(between(&early, &late, 0.0), None);
        assert!(between(&early, &early, 1.0).is_some_and(|change| change.rates == Rates::default()));
    }

    #[test]
    fn a_qp_that_was_not_listed_before_has_no_rate_yet() {
        let (mut before, after) = (fixture::nic("a", 0), fixture::nic("a", 1));
        let gone = before.qps.remove(0).qpn;
        let change = between(&before, &after, 1.0).unwrap();
        assert!(!change.qps.contains_key(&gone));
        assert_eq!(change.qps.len(), before.qps.len());
    }
}

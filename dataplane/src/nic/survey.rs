//! What an operator wants to see of an engine, as plain data: its QPs, its destinations, and their entropy values.
//!
//! A survey is made on the worker, since nobody else may look at an engine; it is asked for a few times a second at most, and never by
//! the path of a packet. It lists so many of each thing and counts the rest.

use super::{EvReport, EvState, GroupReport, Nic, Qp, QpState, QpStats};
use crate::path::PortMask;
use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::BinaryHeap;

/// QPs that a survey lists: those with the most packets.
pub const SURVEY_QPS_MAX: usize = 256;
/// Destinations that a survey lists: those with the most packets.
pub const SURVEY_DESTINATIONS_MAX: usize = 256;
/// Groups that a survey lists of a destination: those with the most bytes in flight.
pub const SURVEY_GROUPS_MAX: usize = 16;
/// Entropy values that a survey lists of a destination.
pub const SURVEY_EVS_MAX: usize = 1024;
/// Entropy values that a survey lists in all.
pub const SURVEY_EVS_TOTAL_MAX: usize = 8192;

/// One QP, as [`Nic::survey`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSurvey {
    /// Its number.
    pub qpn: u32,
    /// The peer's number for it.
    pub peer_qpn: u32,
    /// This end.
    pub local: IpAddr,
    /// The other end.
    pub remote: IpAddr,
    /// What it is ready for.
    pub state: QpState,
    /// Requests that have not ended.
    pub pending: usize,
    /// PSNs from the oldest that is not acknowledged to the next to be used.
    pub psns_in_flight: u32,
    /// PSNs that may be.
    pub psn_window: u32,
    /// What it did.
    pub stats: QpStats,
}

/// How many QPs are in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QpTally {
    /// Ready to receive.
    pub rtr: usize,
    /// Ready to send, too.
    pub rts: usize,
    /// Ended by an error.
    pub error: usize,
}

/// How many entropy values are in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EvTally {
    /// In use.
    pub good: usize,
    /// Passed over at their next turn.
    pub skip: usize,
    /// Out of the rotation since a timeout.
    pub assumed_bad: usize,
    /// Taken out by the controller.
    pub denied: usize,
    /// Of all these, values whose port is out of use at either end.
    pub port_out: usize,
}

impl EvTally {
    /// Counts a value.
    pub const fn add(&mut self, report: &EvReport) {
        match report.state {
            EvState::Good => self.good += 1,
            EvState::Skip => self.skip += 1,
            EvState::AssumedBad => self.assumed_bad += 1,
            EvState::Denied => self.denied += 1,
        }
        self.port_out += report.port_out as usize;
    }
}

/// One remote address, as [`Nic::survey`] sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationSurvey {
    /// The address.
    pub address: IpAddr,
    /// Open QPs with it.
    pub qps: usize,
    /// Data packets that these sent, retransmissions included.
    pub sent: u64,
    /// Data packets that were placed for these.
    pub delivered: u64,
    /// Bytes of payload that were placed for these.
    pub delivered_bytes: u64,
    /// The last valid round-trip time in ns.
    pub last_rtt_ns: Option<u64>,
    /// Bytes that may be in flight, over all groups; [`u64::MAX`] without a limit.
    pub window: u64,
    /// Bytes in flight, over all groups.
    pub inflight: u64,
    /// Its groups, those with the most bytes in flight first.
    pub groups: Vec<GroupReport>,
    /// Groups that are not among them.
    pub groups_left_out: usize,
    /// Its entropy values by state.
    pub tally: EvTally,
    /// Its entropy values and the EV profile that each is of, if they were asked for.
    pub evs: Vec<(Option<u64>, EvReport)>,
    /// Entropy values that would be among them, if there were not so many.
    pub evs_left_out: usize,
    /// Bit i: the peer said that its port i is out of use.
    pub peer_ports_out: PortMask,
}

/// An engine at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Survey {
    /// QPs, those with the most packets first; none unless they were asked for.
    pub qps: Vec<QpSurvey>,
    /// QPs that are not among them.
    pub qps_left_out: usize,
    /// All QPs by state.
    pub qp_tally: QpTally,
    /// Requests that have not ended, on all QPs.
    pub pending: usize,
    /// Destinations, those with the most packets first.
    pub destinations: Vec<DestinationSurvey>,
    /// Destinations that are not among them.
    pub destinations_left_out: usize,
}

/// What a survey lists; it counts everything all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SurveyOf {
    /// QPs.
    pub qps: bool,
    /// Entropy values.
    pub evs: bool,
}

/// The first `most` of `items` in descending order of `by`, in that order, and how many were left out.
fn top<T, K: Ord>(mut items: Vec<T>, most: usize, by: impl Fn(&T) -> K) -> (Vec<T>, usize) {
    let left_out = items.len().saturating_sub(most);
    if left_out > 0 {
        items.select_nth_unstable_by_key(most, |item| Reverse(by(item)));
        items.truncate(most);
    }
    items.sort_by_key(|item| Reverse(by(item)));
    (items, left_out)
}

const fn traffic(stats: &QpStats) -> u64 {
    stats.sent.saturating_add(stats.delivered)
}

impl QpSurvey {
    fn of(qp: &Qp) -> QpSurvey {
        QpSurvey {
            qpn: qp.qpn.get(),
            peer_qpn: qp.peer_qpn,
            local: qp.local_ip,
            remote: qp.remote_ip,
            state: qp.state,
            pending: qp.requester.pending(),
            psns_in_flight: qp.requester.psns_in_flight(),
            psn_window: qp.requester.window(),
            stats: QpStats { missing: u64::from(qp.responder.missing()), ..qp.stats },
        }
    }
}

/// The packets of a destination's QPs: sent, placed, and bytes placed.
#[derive(Clone, Copy, Default)]
struct Traffic {
    sent: u64,
    delivered: u64,
    delivered_bytes: u64,
}

impl Nic {
    /// What there is to see of the engine now. It lists [`SURVEY_QPS_MAX`] QPs, [`SURVEY_DESTINATIONS_MAX`] destinations with
    /// [`SURVEY_GROUPS_MAX`] groups each, [`SURVEY_EVS_MAX`] entropy values of each and [`SURVEY_EVS_TOTAL_MAX`] in all; what is beyond is
    /// counted. It looks at every QP and at every value of the destinations that it lists, which takes 4 us with 16 QPs to one destination and
    /// half a millisecond with 16,384: not for the path of a packet.
    #[must_use]
    pub fn survey(&self, of: SurveyOf) -> Survey {
        let mut survey = Survey::default();
        // The lowest of those that are listed is the first to go.
        let mut listed = BinaryHeap::with_capacity(if of.qps { SURVEY_QPS_MAX + 1 } else { 0 });
        let mut traffic_to = vec![Traffic::default(); self.destinations.len()];
        for (slot, qp) in self.qps.iter().enumerate().filter_map(|(slot, qp)| Some((slot, qp.as_deref()?))) {
            match qp.state {
                QpState::Rtr => survey.qp_tally.rtr += 1,
                QpState::Rts => survey.qp_tally.rts += 1,
                QpState::Error => survey.qp_tally.error += 1,
            }
            survey.pending += qp.requester.pending();
            let towards = &mut traffic_to[qp.destination];
            towards.sent = towards.sent.saturating_add(qp.stats.sent);
            towards.delivered = towards.delivered.saturating_add(qp.stats.delivered);
            towards.delivered_bytes = towards.delivered_bytes.saturating_add(qp.stats.delivered_bytes);
            if of.qps {
                // Of equals, the lower number is listed.
                listed.push(Reverse((traffic(&qp.stats), Reverse(slot))));
                if listed.len() > SURVEY_QPS_MAX {
                    listed.pop();
                    survey.qps_left_out += 1;
                }
            }
        }
        let listed = listed.into_sorted_vec();
        let listed = listed.iter().filter_map(|&Reverse((_, Reverse(slot)))| self.qps[slot].as_deref());
        survey.qps = listed.map(QpSurvey::of).collect();
        let open = (0..self.destinations.len()).filter(|&at| !self.destinations[at].qps.is_empty());
        let rank = |&at: &usize| (traffic_to[at].sent.saturating_add(traffic_to[at].delivered), Reverse(at));
        let (first, left_out) = top(open.collect(), SURVEY_DESTINATIONS_MAX, rank);
        survey.destinations_left_out = left_out;
        let mut evs_left = SURVEY_EVS_TOTAL_MAX;
        for at in first {
            let most = of.evs.then(|| evs_left.min(SURVEY_EVS_MAX));
            let destination = self.survey_destination(at, traffic_to[at], most);
            evs_left -= destination.evs.len();
            survey.destinations.push(destination);
        }
        survey
    }

    fn survey_destination(&self, at: usize, traffic: Traffic, evs_max: Option<usize>) -> DestinationSurvey {
        let destination = &self.destinations[at];
        let mut tally = EvTally::default();
        let mut evs = Vec::new();
        let mut evs_left_out = 0;
        for (profile, report) in self.list_evs(destination.address) {
            tally.add(&report);
            match evs_max {
                Some(most) if evs.len() < most => evs.push((profile, report)),
                Some(_) => evs_left_out += 1,
                None => {}
            }
        }
        let groups: Vec<GroupReport> = self.groups(destination.address).collect();
        let window = groups.iter().fold(0, |sum: u64, group| sum.saturating_add(group.window));
        let inflight = groups.iter().map(|group| group.inflight).sum();
        let (groups, groups_left_out) = top(groups, SURVEY_GROUPS_MAX, |group| group.inflight);
        DestinationSurvey {
            address: destination.address,
            qps: destination.qps.len(),
            sent: traffic.sent,
            delivered: traffic.delivered,
            delivered_bytes: traffic.delivered_bytes,
            last_rtt_ns: destination.last_rtt,
            window,
            inflight,
            groups,
            groups_left_out,
            tally,
            evs,
            evs_left_out,
            peer_ports_out: destination.peer_ports_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_come_in_descending_order_and_the_rest_is_counted() {
        assert_eq!(top(vec![3, 9, 1, 7, 5], 3, |&n| n), (vec![9, 7, 5], 2));
        assert_eq!(top(vec![3, 9], 3, |&n| n), (vec![9, 3], 0));
        assert_eq!(top(Vec::<u32>::new(), 3, |&n| n), (vec![], 0));
        assert_eq!(top(vec![3, 9], 0, |&n| n), (vec![], 2));
    }
}

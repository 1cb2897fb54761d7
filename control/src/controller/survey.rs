//! What an operator sees of all NICs at one moment: surveys of their engines, put together, and what the controllers know.
//!
//! This is the object on the socket; [`super::metrics`] and `mrcnic top` are made of it.

use super::journal::port_numbers;
use super::{ControlledNic, LinkStats};
use crate::neighbour::{Neighbour, Neighbours, Refused};
use dataplane::nic::{
    DestinationSurvey, EvReport, EvTally, GroupReport, GroupState, QpState, QpSurvey, QpTally, SURVEY_DESTINATIONS_MAX,
    SURVEY_QPS_MAX, Survey,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

/// All NICs of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SurveyReport {
    /// Version of mrcnic.
    pub version: String,
    /// Microseconds from the start of the process's clock.
    pub time_us: f64,
    /// Microseconds since the control thread took charge of the NICs.
    pub uptime_us: f64,
    /// Each NIC, or the one that was asked for.
    pub nics: Vec<NicReport>,
}

/// One NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NicReport {
    /// What operators call it.
    pub name: String,
    /// Its workers.
    pub workers: usize,
    /// Workers that did not answer in time, from 0. What only they know is missing; counters are not.
    pub silent_workers: Vec<usize>,
    /// Its ports.
    pub ports: Vec<PortReport>,
    /// Counters of its engines by name, summed over workers.
    pub counters: BTreeMap<String, u64>,
    /// Frames that were dropped by reason, where there were any, summed over workers.
    pub drops: BTreeMap<String, u64>,
    /// Counters of the control thread.
    pub control: ControlCounters,
    /// All QPs by state.
    pub qp_states: QpStates,
    /// Requests that have not ended, on all QPs.
    pub pending: u64,
    /// QPs with the most packets, most first; none unless they were asked for.
    pub qps: Vec<QpReport>,
    /// QPs that are not among them.
    pub qps_left_out: usize,
    /// Destinations with the most packets, most first.
    pub destinations: Vec<DestinationReport>,
    /// Destinations that are not among them.
    pub destinations_left_out: usize,
    /// Denials of entropy values, towards one destination or everybody.
    pub denials: usize,
    /// Its neighbours, where it asks for them.
    #[serde(default)]
    pub neighbours: NeighbourReport,
}

/// What is known of a NIC's neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourReport {
    /// What was done, by name.
    pub counters: BTreeMap<String, u64>,
    /// Frames from the network that were refused by reason, where there were any.
    pub refused: BTreeMap<String, u64>,
    /// Neighbours by address and port, [`NEIGHBOURS_SHOWN`] at most.
    pub table: Vec<NeighbourView>,
    /// Neighbours that are not among them.
    pub left_out: usize,
}

/// What is known of a neighbour on a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourView {
    /// Its address; a router's where others are behind it.
    pub ip: IpAddr,
    /// The port, from 1.
    pub port: u8,
    /// Its Ethernet address, once it is known.
    pub mac: Option<String>,
    /// `asking`, `reachable`, `stale`, `probing` or `lost`.
    pub state: String,
}

/// Neighbours that a report has at most.
pub const NEIGHBOURS_SHOWN: usize = 256;

impl NeighbourReport {
    /// What a NIC's control thread knows.
    pub(super) fn of(neighbours: &Neighbours) -> NeighbourReport {
        let counters = neighbours.counters();
        let refused = Refused::ALL.iter().map(|&reason| (reason.name().to_owned(), counters.refused(reason)));
        let view = |known: Neighbour| NeighbourView {
            ip: known.ip,
            port: known.port.0 + 1,
            mac: known.mac.map(|mac| mac.to_string()),
            state: known.state.name().into(),
        };
        NeighbourReport {
            counters: counters.iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            refused: refused.filter(|(_, count)| *count > 0).collect(),
            table: neighbours.table().take(NEIGHBOURS_SHOWN).map(view).collect(),
            left_out: neighbours.table().count().saturating_sub(NEIGHBOURS_SHOWN),
        }
    }
}

/// A port of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    /// Its number, from 1.
    pub port: u8,
    /// The driver says that the link is up.
    pub link: bool,
    /// An operator wants it up.
    pub admin: bool,
    /// Both.
    pub in_use: bool,
}

/// Counters of the control thread for one NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlCounters {
    /// Probes of values assumed bad that were asked for.
    pub probes: u64,
    /// Probes of these that were left out, since the worker was behind.
    pub probes_left_out: u64,
    /// Commands that found the ring to a worker full, and went later.
    pub commands_waited: u64,
    /// Times that events found the ring from a worker full, and went later.
    pub events_waited: u64,
}

/// How many QPs are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QpStates {
    /// Ready to receive.
    pub rtr: usize,
    /// Ready to send, too.
    pub rts: usize,
    /// Ended by an error.
    pub error: usize,
}

/// One QP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QpReport {
    /// Its number.
    pub qpn: u32,
    /// The peer's number for it.
    pub peer_qpn: u32,
    /// This end.
    pub local: IpAddr,
    /// The other end.
    pub remote: IpAddr,
    /// `rtr`, `rts` or `error`.
    pub state: String,
    /// Requests that have not ended.
    pub pending: usize,
    /// PSNs from the oldest that is not acknowledged to the next to be used.
    pub psns_in_flight: u32,
    /// PSNs that may be.
    pub psn_window: u32,
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Data packets sent again because they were lost.
    pub retransmits: u64,
    /// Packets presumed lost because their timer ran out.
    pub timeouts: u64,
    /// Data packets placed.
    pub delivered: u64,
    /// Bytes of payload placed.
    pub delivered_bytes: u64,
    /// Data packets that had arrived before.
    pub duplicates: u64,
    /// Data packets beyond the window.
    pub out_of_window: u64,
    /// PSNs below the highest received that have not arrived.
    pub missing: u64,
    /// Receives completed by Writes with Immediate.
    pub received_immediates: u64,
}

/// One remote address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DestinationReport {
    /// The address.
    pub destination: IpAddr,
    /// Open QPs with it.
    pub qps: usize,
    /// Data packets that these sent.
    pub sent: u64,
    /// Data packets placed for these.
    pub delivered: u64,
    /// Bytes of payload placed for these.
    pub delivered_bytes: u64,
    /// Bytes that may be in flight, over all groups; `null` without a limit.
    pub window: Option<u64>,
    /// Bytes in flight, over all groups.
    pub inflight: u64,
    /// The last valid round-trip time in microseconds.
    pub rtt_us: Option<f64>,
    /// Its groups, those with the most bytes in flight first.
    pub groups: Vec<GroupView>,
    /// Groups that are not among them.
    pub groups_left_out: usize,
    /// Its entropy values by state.
    pub ev_states: EvStates,
    /// Each entropy value, if they were asked for.
    pub evs: Vec<EvView>,
    /// Entropy values that would be among them, if there were not so many.
    pub evs_left_out: usize,
    /// Ports of its own that it said are out, from 1.
    pub peer_ports_out: Vec<u8>,
}

/// How many entropy values are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvStates {
    /// In use.
    pub good: usize,
    /// Passed over at their next turn.
    pub skip: usize,
    /// Out of the rotation since a timeout.
    pub assumed_bad: usize,
    /// Denied.
    pub denied: usize,
    /// Of all these, values whose port is out of use at either end.
    pub port_out: usize,
}

/// A window and the QPs that share it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// Its CC profile, if its QPs have one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<u64>,
    /// `idle`, `ready`, `active` or `pending`.
    pub state: String,
    /// Its QPs.
    pub qps: usize,
    /// Bytes that may be in flight; `null` without a limit.
    pub window: Option<u64>,
    /// Bytes in flight.
    pub inflight: u64,
    /// NSCC's state, where that is the algorithm.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nscc: Option<NsccView>,
}

/// NSCC's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NsccView {
    /// Base RTT in microseconds.
    pub base_rtt_us: f64,
    /// Average queueing delay in microseconds.
    pub average_delay_us: f64,
    /// Largest window in bytes.
    pub max_window: u64,
    /// What the last event did to the window.
    pub rule: String,
}

/// An entropy value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvView {
    /// The value.
    pub ev: u32,
    /// Its port, from 1.
    pub port: u8,
    /// `good`, `skip`, `assumed_bad` or `denied`.
    pub state: String,
    /// Whether its port is out of use, at either end.
    pub port_out: bool,
    /// Packets that took it.
    pub sent: u64,
    /// The EV profile that it is of, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<u64>,
    /// Its SRv6 path, if it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub segment: Option<Ipv6Addr>,
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// A window, where there is a limit.
fn limited(window: u64) -> Option<u64> {
    (window != u64::MAX).then_some(window)
}

const fn qp_state(state: QpState) -> &'static str {
    match state {
        QpState::Rtr => "rtr",
        QpState::Rts => "rts",
        QpState::Error => "error",
    }
}

const fn group_state(state: GroupState) -> &'static str {
    match state {
        GroupState::Idle => "idle",
        GroupState::Ready => "ready",
        GroupState::Active => "active",
        GroupState::Pending => "pending",
    }
}

impl From<&QpSurvey> for QpReport {
    fn from(qp: &QpSurvey) -> QpReport {
        QpReport {
            qpn: qp.qpn,
            peer_qpn: qp.peer_qpn,
            local: qp.local,
            remote: qp.remote,
            state: qp_state(qp.state).into(),
            pending: qp.pending,
            psns_in_flight: qp.psns_in_flight,
            psn_window: qp.psn_window,
            sent: qp.stats.sent,
            retransmits: qp.stats.retransmits,
            timeouts: qp.stats.timeouts,
            delivered: qp.stats.delivered,
            delivered_bytes: qp.stats.delivered_bytes,
            duplicates: qp.stats.duplicates,
            out_of_window: qp.stats.out_of_window,
            missing: qp.stats.missing,
            received_immediates: qp.stats.received_immediates,
        }
    }
}

impl From<&GroupReport> for GroupView {
    fn from(group: &GroupReport) -> GroupView {
        GroupView {
            profile: group.profile,
            state: group_state(group.state).into(),
            qps: group.qps,
            window: limited(group.window),
            inflight: group.inflight,
            nscc: group.nscc.map(|nscc| NsccView {
                base_rtt_us: micros(nscc.base_rtt_ns),
                average_delay_us: micros(nscc.average_delay_ns),
                max_window: nscc.max_window,
                rule: nscc.rule.name().into(),
            }),
        }
    }
}

impl From<EvTally> for EvStates {
    fn from(tally: EvTally) -> EvStates {
        let EvTally { good, skip, assumed_bad, denied, port_out } = tally;
        EvStates { good, skip, assumed_bad, denied, port_out }
    }
}

impl From<&(Option<u64>, EvReport)> for EvView {
    fn from((profile, report): &(Option<u64>, EvReport)) -> EvView {
        EvView {
            ev: report.ev.value,
            port: report.ev.port,
            state: report.state.name().into(),
            port_out: report.port_out,
            sent: report.sent,
            profile: *profile,
            segment: report.ev.segment,
        }
    }
}

impl From<&DestinationSurvey> for DestinationReport {
    fn from(seen: &DestinationSurvey) -> DestinationReport {
        DestinationReport {
            destination: seen.address,
            qps: seen.qps,
            sent: seen.sent,
            delivered: seen.delivered,
            delivered_bytes: seen.delivered_bytes,
            window: limited(seen.window),
            inflight: seen.inflight,
            rtt_us: seen.last_rtt_ns.map(micros),
            groups: seen.groups.iter().map(GroupView::from).collect(),
            groups_left_out: seen.groups_left_out,
            ev_states: seen.tally.into(),
            evs: seen.evs.iter().map(EvView::from).collect(),
            evs_left_out: seen.evs_left_out,
            peer_ports_out: port_numbers(seen.peer_ports_out),
        }
    }
}

/// The first `most` in descending order of `by`; those beyond are counted.
fn first<T>(items: &mut Vec<T>, most: usize, left_out: &mut usize, by: impl Fn(&T) -> u64) {
    items.sort_by_key(|item| Reverse(by(item)));
    *left_out += items.len().saturating_sub(most);
    items.truncate(most);
}

impl NicReport {
    /// What controller and counters tell, before any worker was heard.
    pub(super) fn of(nic: &ControlledNic) -> NicReport {
        let controller = &nic.controller;
        let (mut counters, mut drops) = (BTreeMap::new(), BTreeMap::new());
        for stats in &nic.engines {
            for (name, count) in stats.iter() {
                *counters.entry(name.to_owned()).or_insert(0) += count;
            }
            for (reason, count) in stats.drop_reasons() {
                *drops.entry(reason.name().to_owned()).or_insert(0) += count;
            }
        }
        let waited = |of: fn(&LinkStats) -> &AtomicU64| {
            nic.workers.iter().map(|worker| of(worker.stats()).load(Ordering::Relaxed)).sum()
        };
        let port = |(port, status): (u8, &super::PortStatus)| PortReport {
            port,
            link: status.link,
            admin: status.admin,
            in_use: status.in_use(),
        };
        NicReport {
            name: nic.name.clone(),
            workers: nic.workers.len(),
            ports: (1..).zip(controller.ports()).map(port).collect(),
            counters,
            drops,
            control: ControlCounters {
                probes: controller.probes(),
                probes_left_out: waited(|stats| &stats.probes_left_out),
                commands_waited: waited(|stats| &stats.commands_waited),
                events_waited: waited(|stats| &stats.events_waited),
            },
            denials: controller.denied().count(),
            neighbours: nic.vicinity.as_ref().map(|near| NeighbourReport::of(near.neighbours())).unwrap_or_default(),
            ..NicReport::default()
        }
    }

    /// Takes what only workers tell from an earlier report.
    pub fn keep_lists(&mut self, before: &NicReport) {
        self.qp_states = before.qp_states;
        self.pending = before.pending;
        self.qps.clone_from(&before.qps);
        self.qps_left_out = before.qps_left_out;
        self.destinations.clone_from(&before.destinations);
        self.destinations_left_out = before.destinations_left_out;
    }

    /// Adds what a worker told.
    pub(super) fn add(&mut self, survey: &Survey) {
        let QpTally { rtr, rts, error } = survey.qp_tally;
        self.qp_states.rtr += rtr;
        self.qp_states.rts += rts;
        self.qp_states.error += error;
        self.pending += survey.pending as u64;
        self.qps.extend(survey.qps.iter().map(QpReport::from));
        self.qps_left_out += survey.qps_left_out;
        self.destinations.extend(survey.destinations.iter().map(DestinationReport::from));
        self.destinations_left_out += survey.destinations_left_out;
    }

    /// All workers were heard: the lists are those of the NIC, and have one worker's length.
    pub(super) fn finish(&mut self) {
        first(&mut self.qps, SURVEY_QPS_MAX, &mut self.qps_left_out, |qp| qp.sent + qp.delivered);
        let by = |to: &DestinationReport| to.sent + to.delivered;
        first(&mut self.destinations, SURVEY_DESTINATIONS_MAX, &mut self.destinations_left_out, by);
    }
}

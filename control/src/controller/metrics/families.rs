//! Every metric: its name, unit and labels, what it says, and where it is read.

use crate::controller::{DestinationReport, NicReport, NsccView, PortReport, SurveyReport};
use crate::neighbour::{Counters, Refused};
use dataplane::nic::{DropReason, Stats};
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What Prometheus is told of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the NIC ends.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// A value; counts are exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Count(u64),
    Level(f64),
}

/// A line: labels and a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: Number,
}

type Labels = Vec<(&'static str, String)>;

/// Where the samples of one NIC come from.
enum Source {
    /// Of the process.
    Process(fn(&SurveyReport) -> Vec<Sample>),
    /// A counter of the engines.
    Counter(&'static str),
    /// A counter of what is done for neighbours.
    Neighbours(&'static str),
    /// One value a NIC.
    Nic(fn(&NicReport) -> Number),
    /// Values with labels of their own.
    Many(fn(&NicReport) -> Vec<(Labels, Number)>),
    /// One value a destination, where it has any; values of one destination are put together by the second function.
    Destination(fn(&DestinationReport) -> Option<f64>, fn(f64, f64) -> f64),
}

/// A metric.
pub struct Family {
    /// Its name without prefix, unit and `_total`.
    name: String,
    /// Its kind.
    pub kind: Kind,
    unit: Option<Unit>,
    /// What it says.
    pub help: String,
    /// Its labels.
    pub labels: &'static [&'static str],
    source: Source,
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("name", &self.full_name()).finish_non_exhaustive()
    }
}

impl Family {
    /// The name as it stands before a value: `mrcnic_rx_bytes_total`.
    #[must_use]
    pub fn full_name(&self) -> String {
        let unit = self.unit.as_ref().map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}_{}{unit}{total}", super::PREFIX, self.name)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn unit(&self) -> Option<&Unit> {
        self.unit.as_ref()
    }

    /// All its samples, each with labels that no other has.
    pub(super) fn samples(&self, report: &SurveyReport) -> Vec<Sample> {
        if let Source::Process(read) = self.source {
            return read(report);
        }
        report.nics.iter().flat_map(|nic| self.of(nic)).collect()
    }

    fn of(&self, nic: &NicReport) -> Vec<Sample> {
        let sample = |(more, value): (Labels, Number)| {
            let labels = std::iter::once(("nic", nic.name.clone())).chain(more).collect();
            Sample { labels, value }
        };
        match &self.source {
            Source::Process(_) => Vec::new(),
            Source::Counter(name) => {
                let count = nic.counters.get(*name).copied().unwrap_or(0);
                vec![sample((Vec::new(), Number::Count(count)))]
            }
            Source::Neighbours(name) => {
                let count = nic.neighbours.counters.get(*name).copied().unwrap_or(0);
                vec![sample((Vec::new(), Number::Count(count)))]
            }
            Source::Nic(read) => vec![sample((Vec::new(), read(nic)))],
            Source::Many(read) => read(nic).into_iter().map(sample).collect(),
            Source::Destination(read, both) => {
                let mut values: BTreeMap<IpAddr, f64> = BTreeMap::new();
                for (to, value) in nic.destinations.iter().filter_map(|to| Some((to.destination, read(to)?))) {
                    values.entry(to).and_modify(|other| *other = both(*other, value)).or_insert(value);
                }
                let one =
                    |(to, value): (IpAddr, f64)| sample((vec![("destination", to.to_string())], Number::Level(value)));
                values.into_iter().map(one).collect()
            }
        }
    }
}

const NIC: &[&str] = &["nic"];
const TO: &[&str] = &["nic", "destination"];

fn family(
    name: &str,
    kind: Kind,
    unit: Option<Unit>,
    labels: &'static [&'static str],
    help: &str,
    source: Source,
) -> Family {
    Family { name: name.into(), kind, unit, help: help.into(), labels, source }
}

fn gauge(name: &str, unit: Option<Unit>, labels: &'static [&'static str], help: &str, source: Source) -> Family {
    family(name, Kind::Gauge, unit, labels, help, source)
}

/// A counter of the engines, whose unit is at the end of its name.
fn engine_counter((name, text): &(&'static str, &str)) -> Family {
    let (base, unit) = name.strip_suffix("_bytes").map_or((*name, None), |base| (base, Some(Unit::Bytes)));
    family(base, Kind::Counter, unit, NIC, text.trim(), Source::Counter(name))
}

fn drops(nic: &NicReport) -> Vec<(Labels, Number)> {
    let count = |reason: DropReason| {
        let count = nic.drops.get(reason.name()).copied().unwrap_or(0);
        (vec![("reason", reason.name().to_owned())], Number::Count(count))
    };
    DropReason::all().map(count).collect()
}

fn ports(nic: &NicReport, read: fn(&PortReport) -> bool) -> Vec<(Labels, Number)> {
    let one = |port: &PortReport| (vec![("port", port.port.to_string())], Number::Count(read(port).into()));
    nic.ports.iter().map(one).collect()
}

fn states<const N: usize>(counts: [(&str, usize); N]) -> Vec<(Labels, Number)> {
    counts.map(|(state, count)| (vec![("state", state.to_owned())], Number::Count(count as u64))).into()
}

fn evs(nic: &NicReport) -> Vec<(Labels, Number)> {
    let mut counts: BTreeMap<(IpAddr, &str), u64> = BTreeMap::new();
    for to in &nic.destinations {
        let seen = to.ev_states;
        let by_state =
            [("good", seen.good), ("skip", seen.skip), ("assumed_bad", seen.assumed_bad), ("denied", seen.denied)];
        for (state, count) in by_state {
            *counts.entry((to.destination, state)).or_default() += count as u64;
        }
    }
    let one = |((to, state), count): ((IpAddr, &str), u64)| {
        (vec![("destination", to.to_string()), ("state", state.to_owned())], Number::Count(count))
    };
    counts.into_iter().map(one).collect()
}

/// A figure of NSCC over the groups of a destination: the largest.
fn nscc(to: &DestinationReport, read: fn(&NsccView) -> f64) -> Option<f64> {
    to.groups.iter().filter_map(|group| group.nscc.as_ref()).map(read).reduce(f64::max)
}

fn process(value: Number) -> Vec<Sample> {
    vec![Sample { labels: Vec::new(), value }]
}

const fn count(count: usize) -> Number {
    Number::Count(count as u64)
}

fn sum(a: f64, b: f64) -> f64 {
    a + b
}

const MICRO: f64 = 1e-6;

/// Every metric, in the order of the output.
#[must_use]
pub fn families() -> Vec<Family> {
    let version = |report: &SurveyReport| {
        vec![Sample { labels: vec![("version", report.version.clone())], value: Number::Count(1) }]
    };
    let mut all = vec![
        gauge(
            "build_info",
            None,
            &["version"],
            "Always 1; the label says which mrcnic this is.",
            Source::Process(version),
        ),
        gauge(
            "uptime",
            Some(Unit::Seconds),
            &[],
            "Time since the NICs are under control.",
            Source::Process(|report| process(Number::Level(report.uptime_us * MICRO))),
        ),
        gauge("workers", None, NIC, "Workers of the NIC.", Source::Nic(|nic| count(nic.workers))),
        gauge(
            "silent_workers",
            None,
            NIC,
            "Workers that did not answer in time: gauges lack what only they know.",
            Source::Nic(|nic| count(nic.silent_workers.len())),
        ),
    ];
    all.extend(Stats::TEXTS.iter().map(engine_counter));
    all.push(family(
        "drops",
        Kind::Counter,
        None,
        &["nic", "reason"],
        "Received frames that went no further, by reason.",
        Source::Many(drops),
    ));
    all.extend(control());
    all.extend(neighbours());
    all.extend(gauges());
    all
}

fn control() -> Vec<Family> {
    let counter = |name, help, read| family(name, Kind::Counter, None, NIC, help, Source::Nic(read));
    vec![
        counter("control_probes", "Probes of entropy values assumed bad that the control thread asked for.", |nic| {
            Number::Count(nic.control.probes)
        }),
        counter("control_probes_left_out", "Probes of these that were left out, since the worker was behind.", |nic| {
            Number::Count(nic.control.probes_left_out)
        }),
        counter("control_commands_waited", "Commands that found the ring to a worker full, and went later.", |nic| {
            Number::Count(nic.control.commands_waited)
        }),
        counter(
            "control_events_waited",
            "Times that events found the ring from a worker full, and went later.",
            |nic| Number::Count(nic.control.events_waited),
        ),
    ]
}

fn refused(nic: &NicReport) -> Vec<(Labels, Number)> {
    let count = |&reason: &Refused| {
        let count = nic.neighbours.refused.get(reason.name()).copied().unwrap_or(0);
        (vec![("reason", reason.name().to_owned())], Number::Count(count))
    };
    Refused::ALL.iter().map(count).collect()
}

fn neighbours() -> Vec<Family> {
    let counter = |(name, text): &(&'static str, &str)| {
        family(&format!("neighbours_{name}"), Kind::Counter, None, NIC, text.trim(), Source::Neighbours(name))
    };
    let mut all: Vec<Family> = Counters::TEXTS.iter().map(counter).collect();
    all.push(family(
        "neighbours_refused",
        Kind::Counter,
        None,
        &["nic", "reason"],
        "Frames of ARP, neighbour discovery and ping that changed nothing and were not answered, by reason.",
        Source::Many(refused),
    ));
    all.push(gauge(
        "neighbours",
        None,
        NIC,
        "Neighbours that are known or asked for, on each port.",
        Source::Nic(|nic| count(nic.neighbours.table.len() + nic.neighbours.left_out)),
    ));
    all
}

fn gauges() -> Vec<Family> {
    const PORT: &[&str] = &["nic", "port"];
    vec![
        gauge(
            "port_in_use",
            None,
            PORT,
            "1 while the port is in use: its link is up, and nobody took it down.",
            Source::Many(|nic| ports(nic, |port| port.in_use)),
        ),
        gauge("port_link_up", None, PORT, "1 while the link is up.", Source::Many(|nic| ports(nic, |port| port.link))),
        gauge(
            "port_admin_up",
            None,
            PORT,
            "1 while an operator wants the port up.",
            Source::Many(|nic| ports(nic, |port| port.admin)),
        ),
        gauge(
            "qps",
            None,
            &["nic", "state"],
            "Open QPs by state: rtr (ready to receive), rts (ready to send, too), error.",
            Source::Many(|nic| {
                let seen = nic.qp_states;
                states([("rtr", seen.rtr), ("rts", seen.rts), ("error", seen.error)])
            }),
        ),
        gauge(
            "pending_requests",
            None,
            NIC,
            "Requests on send queues that have not ended.",
            Source::Nic(|nic| Number::Count(nic.pending)),
        ),
        gauge("ev_denials", None, NIC, "Denials of entropy values.", Source::Nic(|nic| count(nic.denials))),
        gauge(
            "destinations",
            None,
            NIC,
            "Remote addresses with an open QP.",
            Source::Nic(|nic| count(nic.destinations.len() + nic.destinations_left_out)),
        ),
        gauge(
            "destinations_left_out",
            None,
            NIC,
            "Remote addresses beyond the 256 with the most packets: metrics with the label destination lack them.",
            Source::Nic(|nic| count(nic.destinations_left_out)),
        ),
        gauge(
            "window",
            Some(Unit::Bytes),
            TO,
            "What may be in flight, over all groups of QPs; not there without a limit.",
            Source::Destination(|to| Some(to.window? as f64), sum),
        ),
        gauge(
            "inflight",
            Some(Unit::Bytes),
            TO,
            "What is in flight, over all groups of QPs.",
            Source::Destination(|to| Some(to.inflight as f64), sum),
        ),
        gauge(
            "rtt",
            Some(Unit::Seconds),
            TO,
            "The last valid round-trip time.",
            Source::Destination(|to| Some(to.rtt_us? * MICRO), f64::max),
        ),
        gauge(
            "base_rtt",
            Some(Unit::Seconds),
            TO,
            "Base round-trip time of NSCC; the largest of the groups listed, and only where NSCC is the algorithm.",
            Source::Destination(|to| Some(nscc(to, |nscc| nscc.base_rtt_us)? * MICRO), f64::max),
        ),
        gauge(
            "queueing_delay",
            Some(Unit::Seconds),
            TO,
            "Average queueing delay of NSCC; the largest of the groups listed, and only where NSCC is the algorithm.",
            Source::Destination(|to| Some(nscc(to, |nscc| nscc.average_delay_us)? * MICRO), f64::max),
        ),
        gauge(
            "evs",
            None,
            &["nic", "destination", "state"],
            "Entropy values by state: good, skip (passed over once), assumed_bad, denied.",
            Source::Many(evs),
        ),
        gauge(
            "evs_port_out",
            None,
            TO,
            "Entropy values whose port is out of use at either end.",
            Source::Destination(|to| Some(to.ev_states.port_out as f64), sum),
        ),
        gauge(
            "peer_ports_out",
            None,
            TO,
            "Ports that the peer said are out of use.",
            Source::Destination(|to| Some(to.peer_ports_out.len() as f64), f64::max),
        ),
    ]
}

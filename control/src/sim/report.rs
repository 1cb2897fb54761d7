//! What became of a scenario: one JSON object, or tables.

use super::flows::FlowReport;
use super::run::Run;
use super::sample::us;
use crate::text::grouped;
use comfy_table::{CellAlignment, Table, presets};
use dataplane::Ns;
use dataplane::fabric::FabricDrop;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What became of a scenario. The order of the fields is that of the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// 1.
    pub schema: u32,
    /// What decided all that is random.
    pub seed: u64,
    /// Whole us of virtual time.
    pub virtual_us: u64,
    /// Time on the clock in seconds.
    pub wall_s: f64,
    /// Frames that NICs sent.
    pub packets: u64,
    /// Every flow.
    pub flows: Vec<FlowRow>,
    /// Completion times of the flows that ended.
    pub fct_us: Times,
    /// Every direction of every link that carried or lost something.
    pub links: Vec<LinkRow>,
    /// QPs that went into the error state.
    pub qp_errors: u64,
    /// Bytes that did not arrive as they were sent.
    pub corrupt_bytes: u64,
    /// Flows that ended.
    pub ended: usize,
    /// Payload of all flows in Gbit/s, from the first one's start to the end.
    pub goodput_gbps: f64,
    /// Messages that are done.
    pub messages: u64,
    /// Completion times of the messages.
    pub message_us: Times,
    /// Packets sent again.
    pub retransmits: u64,
    /// Packets whose timers ran out.
    pub timeouts: u64,
    /// Frames dropped in the fabric, by reason.
    pub fabric_drops: BTreeMap<&'static str, u64>,
    /// Frames dropped by NICs, by reason.
    pub nic_drops: BTreeMap<&'static str, u64>,
    /// Events of the fabric.
    pub events: u64,
    /// Virtual time in ns.
    pub virtual_ns: u64,
    /// The patterns, for the table.
    #[serde(skip)]
    patterns: Vec<PatternRow>,
}

/// A flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowRow {
    /// The NIC that sends.
    pub src: u32,
    /// The NIC that receives.
    pub dst: u32,
    /// Payload placed at the receiver.
    pub bytes: u64,
    /// When it began in us, or is to begin.
    pub start_us: f64,
    /// How long it took in us; null when it did not end.
    pub fct_us: Option<f64>,
    /// Packets sent again.
    pub retransmits: u64,
    /// Packets whose timers ran out.
    pub timeouts: u64,
    /// Payload over its time, in Gbit/s.
    pub goodput_gbps: f64,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkRow {
    /// `FROM>TO`.
    pub name: String,
    /// Bytes sent.
    pub bytes: u64,
    /// Frames marked.
    pub marked: u64,
    /// Frames trimmed.
    pub trimmed: u64,
    /// Frames lost.
    pub dropped: u64,
    /// Most bytes that waited in the data class.
    pub max_queue_bytes: u32,
}

/// Percentiles in us, by nearest rank; null of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Half are no longer.
    pub p50: Option<f64>,
    /// 99 of 100 are no longer.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Times {
    fn of(mut ns: Vec<u64>) -> Times {
        ns.sort_unstable();
        let at = |percent: usize| {
            let rank = (ns.len() * percent).div_ceil(100).max(1);
            ns.get(rank - 1).map(|&ns| us(Ns(ns)))
        };
        Times { p50: at(50), p99: at(99), max: at(100) }
    }

    fn cells(self) -> [String; 3] {
        [self.p50, self.p99, self.max].map(|time| time.map_or_else(|| "-".into(), |us| format!("{us:.1}")))
    }
}

/// The flows of a pattern.
#[derive(Clone, Debug)]
struct PatternRow {
    name: String,
    flows: usize,
    ended: usize,
    goodput_gbps: f64,
    fct: Times,
    message: Times,
    retransmits: u64,
    timeouts: u64,
    errors: u64,
}

/// Payload in Gbit/s.
fn gbps(bytes: u64, ns: u64) -> f64 {
    bytes as f64 * 8.0 / ns.max(1) as f64
}

/// How long a flow took, if it ended.
fn fct(report: &FlowReport) -> Option<u64> {
    Some(report.ended?.since(report.began?))
}

/// From the first flow's beginning to the last one's end, in ns.
fn span(reports: &[FlowReport], now: Ns) -> u64 {
    let began = reports.iter().filter_map(|report| report.began).min().unwrap_or(now);
    let ended = reports.iter().map(|report| report.ended.unwrap_or(now)).max().unwrap_or(now);
    ended.since(began)
}

impl Report {
    pub(super) fn new(run: &Run, wall_s: f64) -> Report {
        let world = run.world();
        let now = world.now();
        let all: Vec<FlowReport> = run.traffic().reports(world).into_iter().map(|(_, report)| report).collect();
        let of_flows = run.traffic().reports(world).into_iter().map(|(flow, report)| FlowRow {
            src: flow.src.0,
            dst: flow.dst.0,
            bytes: report.delivered,
            start_us: us(report.began.unwrap_or(flow.start)),
            fct_us: fct(&report).map(|ns| us(Ns(ns))),
            retransmits: report.retransmits,
            timeouts: report.timeouts,
            goodput_gbps: report
                .began
                .map_or(0.0, |began| gbps(report.delivered, report.ended.unwrap_or(now).since(began))),
        });
        let links = world.fabric().links().filter(|(_, _, stats)| stats.frames > 0 || stats.dropped.total() > 0);
        let totals = world.fabric().totals();
        let sum = |of: fn(&FlowReport) -> u64| all.iter().map(of).sum::<u64>();
        Report {
            schema: 1,
            seed: run.scenario().seed,
            virtual_us: now.0 / 1_000,
            wall_s,
            packets: world.frames(),
            flows: of_flows.collect(),
            fct_us: Times::of(all.iter().filter_map(fct).collect()),
            links: links
                .map(|(from, to, stats)| LinkRow {
                    name: format!("{from}>{to}"),
                    bytes: stats.bytes,
                    marked: stats.marked,
                    trimmed: stats.trimmed,
                    dropped: stats.dropped.total(),
                    max_queue_bytes: stats.max_data_bytes,
                })
                .collect(),
            qp_errors: nics(run).map(|stats| stats.qp_errors.get()).sum(),
            corrupt_bytes: sum(|report| report.corrupt),
            ended: all.iter().filter(|report| report.ended.is_some()).count(),
            goodput_gbps: gbps(sum(|report| report.delivered), span(&all, now)),
            messages: run.messages().len() as u64,
            message_us: Times::of(run.messages().iter().map(|done| done.at.since(done.posted)).collect()),
            retransmits: sum(|report| report.retransmits),
            timeouts: sum(|report| report.timeouts),
            fabric_drops: FabricDrop::ALL
                .iter()
                .map(|&reason| (reason.name(), totals.dropped.of(reason)))
                .filter(|&(_, count)| count > 0)
                .collect(),
            nic_drops: nic_drops(run),
            events: totals.events,
            virtual_ns: now.0,
            patterns: patterns(run, &all),
        }
    }

    /// Writes one JSON object.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes a table of the patterns, and lines about the rest.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.table())?;
        let list = |drops: &BTreeMap<&str, u64>| {
            let each = drops.iter().map(|(reason, count)| format!("{} {reason}", grouped(*count)));
            if drops.is_empty() { "none".into() } else { each.collect::<Vec<_>>().join(", ") }
        };
        let marked: u64 = self.links.iter().map(|link| link.marked).sum();
        let trimmed: u64 = self.links.iter().map(|link| link.trimmed).sum();
        let deepest = self.links.iter().filter(|link| link.max_queue_bytes > 0).max_by_key(|link| link.max_queue_bytes);
        let deepest = deepest.map_or_else(String::new, |link| {
            format!("; deepest queue {} B, at {}", grouped(link.max_queue_bytes.into()), link.name)
        });
        writeln!(
            out,
            "fabric: {} marked, {} trimmed, dropped: {}{deepest}",
            grouped(marked),
            grouped(trimmed),
            list(&self.fabric_drops)
        )?;
        writeln!(
            out,
            "NICs: dropped: {}; {} QP errors, {} corrupt bytes",
            list(&self.nic_drops),
            self.qp_errors,
            self.corrupt_bytes
        )?;
        writeln!(
            out,
            "{:.1} us of virtual time in {:.2} s: {} packets, {} events, {} events/s (seed {})",
            us(Ns(self.virtual_ns)),
            self.wall_s,
            grouped(self.packets),
            grouped(self.events),
            grouped((self.events as f64 / self.wall_s.max(1e-9)) as u64),
            self.seed
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
            "traffic",
            "flows",
            "ended",
            "Gbit/s",
            "FCT p50 us",
            "p99",
            "max",
            "message p50 us",
            "p99",
            "max",
            "resent",
            "timeouts",
            "errors",
        ]);
        for row in &self.patterns {
            let mut cells = vec![
                row.name.clone(),
                grouped(row.flows as u64),
                grouped(row.ended as u64),
                format!("{:.2}", row.goodput_gbps),
            ];
            cells.extend(row.fct.cells());
            cells.extend(row.message.cells());
            cells.extend([row.retransmits, row.timeouts, row.errors].map(grouped));
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// Counters of every NIC.
fn nics(run: &Run) -> impl Iterator<Item = &dataplane::nic::Stats> {
    let world = run.world();
    (0..world.nics() as u32).map(move |n| &**world.nic(dataplane::fabric::NicId(n)).stats())
}

fn nic_drops(run: &Run) -> BTreeMap<&'static str, u64> {
    let mut drops = BTreeMap::new();
    for (reason, count) in nics(run).flat_map(dataplane::nic::Stats::drop_reasons) {
        *drops.entry(reason.name()).or_default() += count;
    }
    drops
}

fn patterns(run: &Run, all: &[FlowReport]) -> Vec<PatternRow> {
    let mut messages: Vec<Vec<u64>> = vec![Vec::new(); run.scenario().patterns.len()];
    for done in run.messages() {
        let at = run.scenario().patterns.partition_point(|(_, end)| *end <= done.flow);
        if let Some(times) = messages.get_mut(at) {
            times.push(done.at.since(done.posted));
        }
    }
    let mut from = 0;
    let named = run.scenario().patterns.iter().zip(messages);
    named
        .map(|((name, end), times)| {
            let flows = &all[from..*end];
            from = *end;
            let sum = |of: fn(&FlowReport) -> u64| flows.iter().map(of).sum::<u64>();
            PatternRow {
                name: name.clone(),
                flows: flows.len(),
                ended: flows.iter().filter(|report| report.ended.is_some()).count(),
                goodput_gbps: gbps(sum(|report| report.delivered), span(flows, run.world().now())),
                fct: Times::of(flows.iter().filter_map(fct).collect()),
                message: Times::of(times),
                retransmits: sum(|report| report.retransmits),
                timeouts: sum(|report| report.timeouts),
                errors: sum(|report| report.errors),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank_and_of_nothing_there_are_none() {
        let of = |count: u64| Times::of((1..=count).rev().map(|us| us * 1_000).collect());
        assert_eq!(of(0), Times::default());
        assert_eq!(of(1), Times { p50: Some(1.0), p99: Some(1.0), max: Some(1.0) });
        assert_eq!(of(200), Times { p50: Some(100.0), p99: Some(198.0), max: Some(200.0) });
    }
}

//! `mrc-transport-stats`: a row a NIC and interval, whose totals count from the NIC's start.

use super::panel::{LINES_MAX, Line, Panel, Section, Unit};
use super::source::{Column, Rows};
use super::summary::{Span, duration};
use super::timeline::{Gaps, Timeline};
use crate::error::Error;
use crate::text::grouped;
use std::collections::HashMap;
use std::path::Path;

/// NICs that are told apart at most.
const NICS_MAX: usize = 65_536;

/// Rows from which the usual interval is taken.
const INTERVALS_MAX: usize = 10_000;

/// Totals whose increments are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    DataBytesRx,
    BytesTx,
    BytesRx,
    DataPacketsTx,
    Retransmits,
    BySack,
    ByTimer,
    ByNack,
    Spurious,
    Drops,
    QpErrors,
    Completed,
    Failed,
}

const TOTALS: [(Total, &str); 13] = [
    (Total::DataBytesRx, "total_data_bytes_rx"),
    (Total::BytesTx, "total_bytes_tx"),
    (Total::BytesRx, "total_bytes_rx"),
    (Total::DataPacketsTx, "total_data_pkts_tx"),
    (Total::Retransmits, "total_rtx_pkts"),
    (Total::BySack, "total_rtx_sack"),
    (Total::ByTimer, "total_rtx_rto"),
    (Total::ByNack, "total_rtx_nack"),
    (Total::Spurious, "total_spurious_rtx"),
    (Total::Drops, "total_drops"),
    (Total::QpErrors, "total_qp_errors"),
    (Total::Completed, "total_wr_completed"),
    (Total::Failed, "total_wr_failed"),
];

/// How the values of NICs become those of a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Increments of a total, over all NICs.
    Count(Total),
    Mean,
    Min,
    Max,
    /// The last values of all NICs together.
    Sum,
}

struct LineSpec {
    name: &'static str,
    column: &'static str,
    how: How,
}

struct PanelSpec {
    title: &'static str,
    unit: Unit,
    lines: &'static [LineSpec],
}

const fn line(name: &'static str, column: &'static str, how: How) -> LineSpec {
    LineSpec { name, column, how }
}

const PANELS: [PanelSpec; 7] = [
    PanelSpec {
        title: "Congestion windows and bytes in flight, over all NICs",
        unit: Unit::Bytes,
        lines: &[
            line("mean window", "calc_mean_cwnd_bytes", How::Mean),
            line("bytes in flight (mean of NICs)", "calc_inflight_bytes", How::Mean),
            line("smallest window", "calc_min_cwnd_bytes", How::Min),
            line("largest window", "calc_max_cwnd_bytes", How::Max),
        ],
    },
    PanelSpec {
        title: "Round-trip times, over all NICs",
        unit: Unit::Nanoseconds,
        lines: &[
            line("mean", "calc_mean_rtt_ns", How::Mean),
            line("base RTT", "calc_base_rtt_ns", How::Min),
            line("queueing delay (mean)", "calc_mean_queue_delay_ns", How::Mean),
            line("shortest", "calc_min_rtt_ns", How::Min),
        ],
    },
    PanelSpec {
        // Far above the others: in one plot with them it would be all that is seen.
        title: "Longest round-trip times, over all NICs",
        unit: Unit::Nanoseconds,
        lines: &[line("longest", "calc_max_rtt_ns", How::Max), line("mean", "calc_mean_rtt_ns", How::Mean)],
    },
    PanelSpec {
        title: "Packets sent again, by cause",
        unit: Unit::Of("packets"),
        lines: &[
            line("gap in a SACK", "total_rtx_sack", How::Count(Total::BySack)),
            line("timer", "total_rtx_rto", How::Count(Total::ByTimer)),
            line("NACK", "total_rtx_nack", How::Count(Total::ByNack)),
            line("needless (spurious)", "total_spurious_rtx", How::Count(Total::Spurious)),
        ],
    },
    PanelSpec {
        title: "Reorder depth, over all NICs",
        unit: Unit::Of("packets"),
        lines: &[
            line("mean", "calc_mean_reorder_depth", How::Mean),
            line("largest", "calc_max_reorder_depth", How::Max),
        ],
    },
    PanelSpec {
        title: "Entropy values by state, all NICs together",
        unit: Unit::Of("entropy values"),
        lines: &[
            line("good", "num_evs_good", How::Sum),
            line("assumed bad", "num_evs_assumed_bad", How::Sum),
            line("skipped", "num_evs_skipped", How::Sum),
            line("denied", "num_evs_denied", How::Sum),
        ],
    },
    PanelSpec {
        title: "Queue pairs, groups and destinations, all NICs together",
        unit: Unit::Of("in use"),
        lines: &[
            line("queue pairs", "num_qps", How::Sum),
            line("groups", "num_groups", How::Sum),
            line("destinations", "num_destinations", How::Sum),
        ],
    },
];

/// Rates, each a line a NIC.
const RATES: [(Total, &str); 3] = [
    (Total::DataBytesRx, "Goodput: payload received"),
    (Total::BytesTx, "Wire rate: all frames sent"),
    (Total::BytesRx, "Wire rate: all frames received"),
];

/// Cells of a rate: one for each of the first NICs, and one for all.
const RATE_CELLS: usize = LINES_MAX + 1;
/// Where the cells of the panels begin.
const PANEL_CELLS: usize = RATES.len() * RATE_CELLS;

/// What is known of a NIC.
#[derive(Clone, Debug)]
struct Known {
    node: String,
    name: String,
    totals: [u64; TOTALS.len()],
    /// Its part of each line that is a sum.
    parts: Vec<f64>,
}

/// What the file says.
#[derive(Debug)]
pub(super) struct Stats {
    nics: Vec<Known>,
    numbers: HashMap<String, HashMap<String, usize>>,
    totals: [u64; TOTALS.len()],
    has: [bool; TOTALS.len()],
    timeline: Timeline,
    sums: Vec<f64>,
    pub(super) span: Span,
    missing: Vec<&'static str>,
}

/// The columns of the file.
struct Columns {
    time: Column,
    interval: Column,
    node: Column,
    nic: Column,
    totals: Vec<Column>,
    lines: Vec<(How, Column)>,
}

impl Columns {
    fn of(rows: &mut Rows) -> Result<Columns, Error> {
        let time = rows.need("time_us")?;
        let lines = || PANELS.iter().flat_map(|panel| panel.lines);
        let any = lines().map(|line| line.column).chain(RATES.map(|(total, _)| name_of(total)));
        if !any.clone().any(|column| rows.has(column)) {
            return Err(rows.lacks(name_of(Total::DataBytesRx)));
        }
        Ok(Columns {
            time,
            interval: rows.column("interval_us"),
            node: rows.column("node_id"),
            nic: rows.column("nic"),
            totals: TOTALS.iter().map(|(_, name)| rows.column(name)).collect(),
            lines: lines().map(|line| (line.how, rows.column(line.column))).collect(),
        })
    }
}

fn name_of(total: Total) -> &'static str {
    TOTALS[total as usize].1
}

/// The interval of most rows, of the first ones: the very first and the last are often of another length.
fn usual_interval(rows: &mut Rows) -> Result<f64, Error> {
    let interval = rows.column("interval_us");
    let mut intervals = Vec::new();
    while let Some(row) = rows.next()? {
        intervals.extend(row.number(interval)?.filter(|&us| us > 0.0));
        if intervals.len() == INTERVALS_MAX {
            break;
        }
    }
    intervals.sort_unstable_by(f64::total_cmp);
    Ok(intervals.get(intervals.len() / 2).copied().unwrap_or(1.0))
}

impl Stats {
    /// Reads the file: first its intervals, which decide how wide bins are.
    pub(super) fn read(path: &Path, rows: &mut Rows) -> Result<Stats, Error> {
        let interval_us = usual_interval(&mut Rows::open(path)?)?;
        let columns = Columns::of(rows)?;
        let lines = columns.lines.len();
        let wanted = PANELS.iter().flat_map(|panel| panel.lines).map(|line| line.column);
        let wanted = wanted.chain(TOTALS.iter().map(|(_, name)| *name)).chain(["interval_us", "node_id", "nic"]);
        let mut missing: Vec<&'static str> = wanted.filter(|column| !rows.has(column)).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut stats = Stats {
            nics: Vec::new(),
            numbers: HashMap::new(),
            totals: [0; TOTALS.len()],
            has: TOTALS.map(|(_, name)| rows.has(name)),
            timeline: Timeline::new(interval_us),
            sums: vec![0.0; lines],
            span: Span::default(),
            missing,
        };
        while let Some(row) = rows.next()? {
            let time = row.time(columns.time)?;
            let interval = row.number(columns.interval)?.filter(|&us| us > 0.0);
            stats.span.add((time - interval.unwrap_or(0.0)).max(0.0));
            stats.span.add(time);
            let n = stats.number(row.text(columns.node), row.text(columns.nic))?;
            let mut new = [0; TOTALS.len()];
            for (at, column) in columns.totals.iter().enumerate() {
                let Some(total) = row.count(*column)? else { continue };
                let before = core::mem::replace(&mut stats.nics[n].totals[at], total);
                // A total that fell is of a NIC that began anew.
                new[at] = if total >= before { total - before } else { total };
                stats.totals[at] += new[at];
            }
            if let Some(us) = interval {
                stats.rates(time, us, n, &new);
            }
            for (at, (how, column)) in columns.lines.iter().enumerate() {
                let Some(value) = row.number(*column)? else { continue };
                let cell = stats.timeline.cell(time, PANEL_CELLS + at);
                match how {
                    How::Count(total) => cell.add(new[*total as usize] as f64, 1.0, value),
                    How::Mean | How::Min | How::Max => cell.add(value, 1.0, value),
                    How::Sum => {
                        let part = &mut stats.nics[n].parts;
                        part.resize(lines, 0.0);
                        stats.sums[at] += value - core::mem::replace(&mut part[at], value);
                        cell.add(value, 1.0, stats.sums[at]);
                    }
                }
            }
        }
        Ok(stats)
    }

    fn rates(&mut self, time: f64, interval_us: f64, n: usize, new: &[u64]) {
        for (at, (total, _)) in RATES.iter().enumerate() {
            if !self.has[*total as usize] {
                continue;
            }
            let bits = new[*total as usize] as f64 * 8.0;
            let gbps = bits / interval_us / 1e3;
            if n < LINES_MAX {
                self.timeline.cell(time, at * RATE_CELLS + n).add(bits, interval_us, gbps);
            }
            self.timeline.cell(time, at * RATE_CELLS + LINES_MAX).add(bits, interval_us, gbps);
        }
    }

    /// The number of a NIC, in the order of coming.
    fn number(&mut self, node: &str, name: &str) -> Result<usize, Error> {
        if let Some(&n) = self.numbers.get(node).and_then(|names| names.get(name)) {
            return Ok(n);
        }
        let n = self.nics.len();
        if n == NICS_MAX {
            return Err(Error::Failure(format!("mrc-transport-stats: there are more than {NICS_MAX} NICs")));
        }
        self.numbers.entry(node.to_owned()).or_default().insert(name.to_owned(), n);
        let known =
            Known { node: node.to_owned(), name: name.to_owned(), totals: [0; TOTALS.len()], parts: Vec::new() };
        self.nics.push(known);
        Ok(n)
    }

    /// NICs that there are.
    pub(super) const fn nics(&self) -> usize {
        self.nics.len()
    }

    /// A total of all NICs; `None` where the file has no such column.
    pub(super) fn total(&self, total: Total) -> Option<u64> {
        self.has[total as usize].then(|| self.totals[total as usize])
    }

    fn nic_name(&self, n: usize) -> String {
        let Known { node, name, .. } = &self.nics[n];
        let alone = self.nics.iter().filter(|other| other.name == *name).count() == 1;
        match (node.is_empty(), name.is_empty(), alone) {
            (_, false, true) if name.to_lowercase().starts_with("nic") => name.clone(),
            (_, false, true) => format!("NIC {name}"),
            (false, true, _) => format!("node {node}"),
            (false, false, false) => format!("node {node}, NIC {name}"),
            (true, ..) => "NIC".into(),
        }
    }

    /// The panels of the file.
    pub(super) fn section(&self) -> Section {
        let mut panels: Vec<Panel> = (0..RATES.len()).map(|at| self.rate_panel(at)).collect();
        let mut cell = PANEL_CELLS;
        for spec in &PANELS {
            panels.push(self.panel(spec, cell));
            cell += spec.lines.len();
        }
        Section { title: "NICs over time", panels }
    }

    fn rate_panel(&self, at: usize) -> Panel {
        let (total, title) = RATES[at];
        let nics = self.nics.len();
        let rate = |cell: &super::timeline::Cell, _: &[_]| cell.sum / cell.weight / 1e3;
        let line = |name: String, pieces| Line { name, pieces };
        let first = at * RATE_CELLS;
        let all = first + LINES_MAX;
        let (title, lines) = if nics <= LINES_MAX {
            let lines = (0..nics).map(|n| line(self.nic_name(n), self.timeline.pieces(first + n, Gaps::Rows, rate)));
            (title.to_owned(), lines.collect())
        } else {
            let lines = vec![
                line("mean of all NICs".into(), self.timeline.pieces(all, Gaps::Rows, rate)),
                line("highest".into(), self.timeline.pieces(all, Gaps::Rows, |cell, _| cell.max)),
                line("lowest".into(), self.timeline.pieces(all, Gaps::Rows, |cell, _| cell.min)),
            ];
            (format!("{title}, {} NICs", grouped(nics as u64)), lines)
        };
        Panel::lines(title, Unit::GbitPerSecond, lines, self.nothing(&[name_of(total), "interval_us"]))
    }

    fn panel(&self, spec: &PanelSpec, first: usize) -> Panel {
        let lines = spec.lines.iter().enumerate().map(|(at, line)| {
            let pieces = match line.how {
                How::Count(_) => self.timeline.pieces(first + at, Gaps::Rows, |cell, _| cell.sum),
                How::Mean => self.timeline.pieces(first + at, Gaps::Rows, |cell, _| cell.sum / cell.weight),
                How::Min => self.timeline.pieces(first + at, Gaps::Rows, |cell, _| cell.min),
                How::Max => self.timeline.pieces(first + at, Gaps::Rows, |cell, _| cell.max),
                How::Sum => self.timeline.pieces(first + at, Gaps::Rows, |cell, _| cell.last),
            };
            Line { name: line.name.to_owned(), pieces }
        });
        let columns: Vec<&str> = spec.lines.iter().map(|line| line.column).collect();
        let panel = Panel::lines(spec.title, spec.unit, lines.collect(), self.nothing(&columns));
        let counts = spec.lines.iter().any(|line| matches!(line.how, How::Count(_)));
        if counts && !panel.is_empty() {
            return panel
                .note(format!("Each point counts what happened in {}.", duration(self.timeline.width_us(), 3)));
        }
        panel
    }

    /// Why a panel has no line.
    fn nothing(&self, columns: &[&str]) -> String {
        let missing: Vec<&str> = columns.iter().filter(|column| self.missing.contains(column)).copied().collect();
        if missing.is_empty() {
            return "mrc-transport-stats has no values for it.".into();
        }
        format!("mrc-transport-stats has no column {}.", missing.join(", "))
    }
}

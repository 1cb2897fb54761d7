//! `mrc-events`: queue pairs and work requests, a row for each that is created, completes, fails or is closed.

use super::panel::{Body, LINES_MAX, Line, Panel, Plot, Section, number};
use super::source::Rows;
use super::summary::Span;
use crate::error::Error;
use crate::text::grouped;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;

/// Work requests that wait for their end at most; further ones have no latency.
const OPEN_MAX: usize = 1_000_000;
/// Names of events and of operations that are told apart.
const NAMES_MAX: usize = 32;
/// Longest latency that is told apart: an hour, in ns.
const LATENCY_MAX: u64 = 3_600_000_000_000;
/// The operation that waits for a message of the other end: how long says nothing of the NICs.
const RECEIVE: &str = "receive";
/// Values of a status that say that all went well.
const WELL: [&str; 4] = ["", "ok", "success", "0"];
/// Percentiles of the table.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// What the file says.
#[derive(Debug)]
pub(super) struct Events {
    counts: BTreeMap<String, u64>,
    latencies: BTreeMap<String, Histogram<u64>>,
    /// Work requests, without receives, that have no end, or no beginning, or are beyond what is kept.
    unmatched: u64,
    has_requests: bool,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) bytes: u64,
    pub(super) qp_errors: u64,
    pub(super) span: Span,
}

impl Events {
    /// Reads the file.
    pub(super) fn read(rows: &mut Rows) -> Result<Events, Error> {
        let (time, event) = (rows.need("time_us")?, rows.need("event")?);
        let has_requests = rows.has("wr_id");
        let identity = ["node_id", "local_addr", "local_qp", "wr_id"].map(|name| rows.column(name));
        let [operation, status, bytes] = ["operation", "status", "bytes"].map(|name| rows.column(name));
        let mut events = Events {
            counts: BTreeMap::new(),
            latencies: BTreeMap::new(),
            unmatched: 0,
            has_requests,
            completed: 0,
            failed: 0,
            bytes: 0,
            qp_errors: 0,
            span: Span::default(),
        };
        // A number may be used again while it is in use: requests of a queue pair end in the order of their creation.
        let mut open: HashMap<String, VecDeque<(f64, String)>> = HashMap::new();
        let mut waiting = 0;
        let mut key = String::new();
        while let Some(row) = rows.next()? {
            let at = row.time(time)?;
            events.span.add(at);
            let name = row.text(event);
            events.count(name);
            key.clear();
            for column in identity {
                let _ = write!(key, "{}\u{1f}", row.text(column));
            }
            match name {
                "qp_error" => events.qp_errors += 1,
                "wr_created" if row.text(operation) == RECEIVE => {}
                "wr_created" if waiting < OPEN_MAX => {
                    open.entry(key.clone()).or_default().push_back((at, row.text(operation).to_owned()));
                    waiting += 1;
                }
                "wr_created" => events.unmatched += 1,
                "wr_completed" | "wr_failed" => {
                    let began = open.get_mut(&key).and_then(VecDeque::pop_front);
                    if began.is_some() {
                        waiting -= 1;
                        if open[&key].is_empty() {
                            open.remove(&key);
                        }
                    }
                    let status = row.text(status);
                    let well = name == "wr_completed" && WELL.iter().any(|word| status.eq_ignore_ascii_case(word));
                    if !well {
                        events.failed += 1;
                        continue;
                    }
                    events.completed += 1;
                    if row.text(operation) == RECEIVE {
                        continue;
                    }
                    events.bytes += row.count(bytes)?.unwrap_or(0);
                    match began {
                        Some((began, operation)) => events.took(operation, at - began),
                        None => events.unmatched += 1,
                    }
                }
                _ => {}
            }
        }
        events.unmatched += waiting as u64;
        Ok(events)
    }

    fn count(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return;
        }
        let name = if self.counts.len() < NAMES_MAX { name } else { "others" };
        *self.counts.entry(name.to_owned()).or_default() += 1;
    }

    fn took(&mut self, operation: String, us: f64) {
        let operation = if operation.is_empty() { "work request".into() } else { operation };
        let known = self.latencies.len() < LINES_MAX || self.latencies.contains_key(&operation);
        let operation = if known { operation } else { "others".into() };
        let histogram = self
            .latencies
            .entry(operation)
            .or_insert_with(|| Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("constant bounds"));
        histogram.saturating_record((us.max(0.0) * 1e3).round() as u64);
    }

    /// The panels of the file.
    pub(super) fn section(&self) -> Section {
        let title = "Latency of work requests, from their creation to their completion";
        let mut panels = Vec::new();
        if self.latencies.is_empty() {
            let why = if self.has_requests {
                "mrc-events has no work request that was created and completed, beside receives."
            } else {
                "mrc-events has no column wr_id."
            };
            panels.push(Panel::new(title, Body::Nothing(why.into())));
        } else {
            let lines = self.latencies.iter().map(|(name, latencies)| Line {
                name: format!("{name} ({})", grouped(latencies.len())),
                pieces: vec![percentiles(latencies)],
            });
            let plot = Plot::Percentiles { y: "latency", lines: lines.collect() };
            let mut panel = Panel::new(title, Body::Plot(plot));
            if self.unmatched > 0 {
                panel = panel.note(format!(
                    "{} work requests have no beginning or no end in the records, and are left out.",
                    grouped(self.unmatched)
                ));
            }
            panels.push(panel);
            let header = vec!["operation", "count", "p50 us", "p90 us", "p99 us", "p99.9 us", "longest us"];
            panels.push(Panel::new("Latency by operation", Body::Table { header, rows: self.rows() }));
        }
        let rows = self.counts.iter().map(|(name, count)| vec![name.clone(), grouped(*count)]).collect::<Vec<_>>();
        let body = match rows.is_empty() {
            true => Body::Nothing("mrc-events has no rows.".into()),
            false => Body::Table { header: vec!["event", "count"], rows },
        };
        panels.push(Panel::new("Events", body));
        Section { title: "Work requests and queue pairs", panels }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |(name, latencies): (&String, &Histogram<u64>)| {
            let mut cells = vec![name.clone(), grouped(latencies.len())];
            cells.extend(PERCENTILES.map(|p| number(latencies.value_at_percentile(p) as f64 / 1e3, 1)));
            cells.push(number(latencies.max() as f64 / 1e3, 1));
            cells
        };
        self.latencies.iter().map(row).collect()
    }
}

/// Shares and latencies in us, up to the share that one request of all is.
fn percentiles(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    let count = latencies.len() as f64;
    let nines = count.log10().max(1.0);
    let steps = (nines * 20.0).ceil() as u32;
    let shares = (0..=steps).map(|step| 1.0 - 10f64.powf(-f64::from(step) / 20.0));
    let last = 1.0 - 1.0 / count.max(10.0);
    let point = |share: f64| (share, latencies.value_at_quantile(share) as f64 / 1e3);
    shares.filter(|share| *share < last).chain([last]).map(point).collect()
}

//! What a page begins with: figures of all records together.

use super::Digest;
use super::panel::number;
use super::stats::{Stats, Total};
use crate::text::grouped;

/// From the first row to the last, in us.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span(Option<(f64, f64)>);

impl Span {
    /// Makes it as long as to hold a time.
    pub(super) fn add(&mut self, time_us: f64) {
        let (from, to) = self.0.unwrap_or((time_us, time_us));
        self.0 = Some((from.min(time_us), to.max(time_us)));
    }

    /// Makes it as long as to hold another one.
    pub(super) fn join(&mut self, other: Span) {
        if let Some((from, to)) = other.0 {
            self.add(from);
            self.add(to);
        }
    }

    /// Its beginning and its end, if there was a time.
    pub(super) const fn ends(self) -> Option<(f64, f64)> {
        self.0
    }

    /// Its length in us.
    pub(super) fn length(self) -> f64 {
        self.0.map_or(0.0, |(from, to)| to - from)
    }
}

/// A figure: its name, and its value in words.
pub(super) type Figure = (&'static str, String);

/// The figures that the records allow.
pub(super) fn figures(digest: &Digest) -> Vec<Figure> {
    let Digest { stats, events, flows, links, .. } = digest;
    let of_stats = |total| stats.as_ref().and_then(|stats| stats.total(total));
    let us = digest.span().length();
    let mut figures: Vec<Figure> = vec![("Duration", duration(us, 6))];
    let nics = stats.as_ref().map(Stats::nics).filter(|&nics| nics > 0);
    let nics = nics.or_else(|| flows.as_ref().map(|flows| flows.nics.len()));
    if let Some(nics) = nics {
        figures.push(("NICs", grouped(nics as u64)));
    }
    if let Some(flows) = flows {
        figures.push(("Flows", grouped(flows.flows as u64)));
    }
    if let Some(requests) = of_stats(Total::Completed).or_else(|| events.as_ref().map(|events| events.completed)) {
        figures.push(("Work requests", format!("{} completed", grouped(requests))));
    }
    let bytes = of_stats(Total::DataBytesRx);
    let bytes = bytes.or_else(|| flows.as_ref().map(|flows| flows.bytes().round() as u64));
    let bytes = bytes.or_else(|| events.as_ref().map(|events| events.bytes));
    if let Some(bytes) = bytes {
        figures.push(("Payload received", format!("{} bytes", grouped(bytes))));
        if us > 0.0 {
            figures
                .push(("Mean goodput", format!("{} Gbit/s, all together", number(bytes as f64 * 8.0 / us / 1e3, 3))));
        }
    }
    if let Some(again) = again(digest) {
        figures.push(("Sent again", again));
    }
    let dropped = [
        of_stats(Total::Drops).map(|drops| format!("{} by NICs", grouped(drops))),
        links.as_ref().map(|links| format!("{} on links", grouped(links.dropped))),
    ];
    let dropped: Vec<String> = dropped.into_iter().flatten().collect();
    if !dropped.is_empty() {
        figures.push(("Frames dropped", dropped.join(", ")));
    }
    if let Some(links) = links {
        figures
            .push(("On links", format!("{} frames marked, {} trimmed", grouped(links.marked), grouped(links.trimmed))));
    }
    let qp_errors = of_stats(Total::QpErrors).or_else(|| events.as_ref().map(|events| events.qp_errors));
    let failed = of_stats(Total::Failed).or_else(|| events.as_ref().map(|events| events.failed));
    let errors = [
        qp_errors.map(|count| format!("{} of queue pairs", grouped(count))),
        failed.map(|count| format!("{} of work requests", grouped(count))),
    ];
    let errors: Vec<String> = errors.into_iter().flatten().collect();
    if !errors.is_empty() {
        figures.push(("Errors", errors.join(", ")));
    }
    figures
}

/// What was sent again, and why.
fn again(digest: &Digest) -> Option<String> {
    let of = |total| digest.stats.as_ref().and_then(|stats| stats.total(total));
    let Some(again) = of(Total::Retransmits) else {
        let flows = digest.flows.as_ref()?;
        let (again, timeouts) = flows.again();
        return Some(format!("{} packets; {} timers ran out", grouped(again), grouped(timeouts)));
    };
    let mut text = format!("{} packets", grouped(again));
    if let Some(sent) = of(Total::DataPacketsTx).filter(|&sent| sent > 0) {
        text =
            format!("{text} of {} data packets ({} %)", grouped(sent), number(again as f64 * 100.0 / sent as f64, 3));
    }
    let causes = [
        (Total::BySack, "after a gap in a SACK"),
        (Total::ByTimer, "by timer"),
        (Total::ByNack, "after a NACK"),
        (Total::Spurious, "needlessly"),
    ];
    let causes = causes.into_iter().filter_map(|(total, name)| Some(format!("{} {name}", grouped(of(total)?))));
    let causes: Vec<String> = causes.collect();
    Some(if causes.is_empty() { text } else { format!("{text}: {}", causes.join(", ")) })
}

/// A time in the unit that suits it, with at most `digits` digits after the point.
pub(super) fn duration(us: f64, digits: usize) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", number(us / 1e6, digits)),
        us if us >= 1e3 => format!("{} ms", number(us / 1e3, digits)),
        us => format!("{} us", number(us, 3)),
    }
}

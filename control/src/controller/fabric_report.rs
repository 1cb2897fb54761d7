//! What a live fabric has done, as JSON and for tables.

use dataplane::dpdk::LiveFabric;
use dataplane::fabric::{Drops, FabricDrop, LinkState};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a fabric has done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FabricReport {
    /// Frames that NICs sent.
    pub injected: u64,
    /// Frames that reached a NIC.
    pub delivered: u64,
    /// Frames that did not, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Each direction of each link.
    pub links: Vec<LinkReport>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// Its ends, `A>B`.
    pub name: String,
    /// `up`, `down` or `black_hole`.
    pub state: &'static str,
    /// Bits per second.
    pub rate_bps: u64,
    /// Share of frames that it loses.
    pub loss: f64,
    /// Frames that it began to send.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames that were marked in its queue.
    pub marked: u64,
    /// Frames that were trimmed before its queue.
    pub trimmed: u64,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// Reasons for which there were any.
fn by_reason(drops: &Drops) -> BTreeMap<&'static str, u64> {
    let counts = FabricDrop::ALL.iter().map(|&reason| (reason.name(), drops.of(reason)));
    counts.filter(|(_, count)| *count > 0).collect()
}

impl FabricReport {
    pub(super) fn of(fabric: &LiveFabric) -> FabricReport {
        let links = fabric.links().filter_map(|(from, to, stats)| {
            let LinkState { up, black_hole, loss, rate } = fabric.link_state(from, to)?;
            Some(LinkReport {
                name: format!("{from}>{to}"),
                state: match (up, black_hole) {
                    (false, _) => "down",
                    (true, true) => "black_hole",
                    (true, false) => "up",
                },
                rate_bps: rate,
                loss,
                frames: stats.frames,
                bytes: stats.bytes,
                marked: stats.marked,
                trimmed: stats.trimmed,
                dropped: by_reason(&stats.dropped),
            })
        });
        let totals = fabric.totals();
        FabricReport {
            injected: totals.injected,
            delivered: totals.delivered,
            dropped: by_reason(&totals.dropped),
            links: links.collect(),
        }
    }
}

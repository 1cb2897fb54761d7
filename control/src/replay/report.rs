//! What a replay tells: one JSON object, or tables.

use super::drive::Outcome;
use super::rate::{measured, words as rate_words};
use super::scan::{Flow, Scan};
use super::{MORE_PORTS, Options};
use crate::text::grouped;
use comfy_table::{CellAlignment, Table, TableComponent, presets};
use dataplane::nic::{DropReason, QpStats};
use dataplane::wire::Refusal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::IpAddr;
use std::ops::Range;

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// Rows of a table; what is beyond is in the JSON alone.
const ROWS: usize = 64;
/// Entropy values that the text form shows, the most frequent first.
const EVS: usize = 16;

/// What a replay came to. Serialised, it is the JSON form.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    packets: u64,
    decoded: u64,
    by_op: BTreeMap<&'static str, u64>,
    drops: BTreeMap<&'static str, u64>,
    qps: Vec<Qp>,
    evs: BTreeMap<u32, u64>,
    responses: u64,
    /// Of the drops, the acknowledgements for a requester that only the capture had.
    for_other_end: u64,
    rounds: u64,
    window: u32,
    seconds: f64,
    packets_per_s: f64,
    file: File,
    /// The file of answers.
    out: Option<String>,
    warnings: Vec<String>,
    #[serde(skip)]
    reasons: Vec<(DropReason, u64)>,
}

/// What the file holds.
#[derive(Debug, Serialize)]
struct File {
    name: String,
    packets: u64,
    cut_by_snaplen: u64,
    /// The last record is cut off, and was not replayed.
    cut_tail: bool,
}

#[derive(Debug, Serialize)]
struct Qp {
    source: IpAddr,
    destination: IpAddr,
    dqp: u32,
    /// What answers are sent to.
    peer_qpn: u32,
    first_psn: u32,
    delivered: u64,
    delivered_bytes: u64,
    duplicates: u64,
    gaps: u64,
    out_of_window: u64,
    /// False where the capture does not tell the peer's number: answers then go to the QP's own.
    peer_learned: bool,
    /// How many entropy values its packets carried.
    evs: usize,
}

impl Qp {
    fn new(flow: &Flow, stats: &QpStats) -> Qp {
        Qp {
            source: flow.source,
            destination: flow.destination,
            dqp: flow.dqp,
            peer_qpn: flow.peer.unwrap_or(flow.dqp),
            first_psn: flow.first_psn.get(),
            delivered: stats.delivered,
            delivered_bytes: stats.delivered_bytes,
            duplicates: stats.duplicates,
            gaps: stats.missing,
            out_of_window: stats.out_of_window,
            peer_learned: flow.peer.is_some(),
            evs: flow.evs,
        }
    }
}

impl Report {
    pub(super) fn new(options: &Options, scan: &Scan, outcome: Outcome) -> Report {
        let warnings = warnings(options, scan, &outcome);
        Report {
            schema: SCHEMA,
            packets: outcome.packets,
            decoded: outcome.decoded,
            by_op: outcome.by_op,
            drops: outcome.drops.iter().map(|&(reason, count)| (reason.name(), count)).collect(),
            qps: scan.flows.iter().zip(&outcome.qps).map(|(flow, stats)| Qp::new(flow, stats)).collect(),
            evs: outcome.evs,
            responses: outcome.responses,
            for_other_end: outcome.for_other_end,
            rounds: options.rounds,
            window: options.window,
            seconds: outcome.seconds,
            packets_per_s: measured(outcome.packets, outcome.seconds),
            file: File {
                name: scan.name.clone(),
                packets: scan.packets,
                cut_by_snaplen: scan.cut_by_snaplen,
                cut_tail: scan.cut_tail.is_some(),
            },
            out: options.out.as_ref().map(|out| out.display().to_string()),
            warnings,
            reasons: outcome.drops,
        }
    }

    /// What the user should know about the capture, or about the replay.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes the JSON object, on a line of its own.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self).map_err(io::Error::from)?;
        writeln!(out)
    }

    /// Writes the tables.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.headline())?;
        section(out, "packets", &self.opcodes(), None)?;
        section(out, "QPs", &self.qps(), left_out(self.qps.len(), ROWS))?;
        section(out, "entropy values", &self.entropy_values(), left_out(self.evs.len(), EVS))?;
        section(out, "dropped", &self.dropped(), None)
    }

    fn headline(&self) -> String {
        let mut line = format!("{}: {} packets", self.file.name, grouped(self.packets));
        if self.rounds > 1 {
            let _ = write!(line, " in {} rounds", grouped(self.rounds));
        }
        let _ = write!(
            line,
            ", {} of them MRC, in {:.6} s ({}); {} answers",
            grouped(self.decoded),
            self.seconds,
            rate_words(self.packets_per_s),
            grouped(self.responses),
        );
        match &self.out {
            Some(out) => line + " in " + out,
            None => line + " (--out FILE keeps them)",
        }
    }

    fn opcodes(&self) -> Table {
        let mut table = table(&["opcode", "packets"], 1..2);
        for (op, &count) in &self.by_op {
            table.add_row([(*op).to_owned(), grouped(count)]);
        }
        table
    }

    fn qps(&self) -> Table {
        let head = [
            "from",
            "to",
            "QP",
            "peer's QP",
            "first PSN",
            "delivered",
            "bytes",
            "duplicates",
            "gaps",
            "out of window",
            "EVs",
        ];
        let mut table = table(&head, 2..head.len());
        for qp in self.qps.iter().take(ROWS) {
            table.add_row([
                qp.source.to_string(),
                qp.destination.to_string(),
                qp.dqp.to_string(),
                if qp.peer_learned { qp.peer_qpn.to_string() } else { "not told".into() },
                qp.first_psn.to_string(),
                grouped(qp.delivered),
                grouped(qp.delivered_bytes),
                grouped(qp.duplicates),
                grouped(qp.gaps),
                grouped(qp.out_of_window),
                qp.evs.to_string(),
            ]);
        }
        table
    }

    fn entropy_values(&self) -> Table {
        let mut table = table(&["EV", "packets"], 1..2);
        let mut evs: Vec<_> = self.evs.iter().collect();
        // Stable: equals stay in the order of their value.
        evs.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
        for (ev, &count) in evs.into_iter().take(EVS) {
            table.add_row([format!("{ev:#010x}"), grouped(count)]);
        }
        table
    }

    fn dropped(&self) -> Table {
        let mut table = table(&["reason", "packets", "meaning"], 1..2);
        // Which of the reasons these came under, QP unknown or not ready, makes no difference to the reader.
        let mut others = self.for_other_end;
        for &(reason, count) in &self.reasons {
            let apart = match reason {
                DropReason::UnknownQp | DropReason::QpState => others.min(count),
                _ => 0,
            };
            others -= apart;
            for (count, meaning) in [(apart, FOR_OTHER_END), (count - apart, reason.text())] {
                if count > 0 {
                    table.add_row([reason.name(), &grouped(count), meaning]);
                }
            }
        }
        table
    }
}

const FOR_OTHER_END: &str = "acknowledgements for the capture's other end: its requester is not here";

fn warnings(options: &Options, scan: &Scan, outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |text: String| warnings.push(format!("{}: {text}", scan.name));
    if scan.packets == 0 && scan.cut_tail.is_none() {
        warn("holds no packets".into());
    }
    if scan.cut_by_snaplen > 0 {
        warn(format!(
            "{} of {} packets were cut by the capture's snaplen (up to {} bytes are kept): the NIC gets them short, and \
             drops them; capture whole packets (tcpdump -s 0)",
            grouped(scan.cut_by_snaplen),
            grouped(scan.packets),
            scan.kept
        ));
    }
    if let Some(tail) = scan.cut_tail {
        warn(format!("{tail} (record at byte {}); it was not replayed", tail.at));
    }
    if scan.obsolete > 0 {
        warn(format!(
            "{} packets are in blocks of pcapng's obsolete packet type, and no QP was learned from them; convert the file \
             (editcap -F pcap)",
            grouped(scan.obsolete)
        ));
    }
    let expected = scan.packets.saturating_mul(options.rounds);
    if outcome.interrupted {
        warn(format!("interrupted after {} of {} packets", grouped(outcome.packets), grouped(expected)));
    } else if outcome.packets != expected {
        warn(format!(
            "holds {} packets, but net_pcap handed on {}; the numbers are of those (interfaces that differ in snaplen or \
             sections that differ in byte order end its reading: convert the file with editcap -F pcap)",
            grouped(expected),
            grouped(outcome.packets)
        ));
    }
    if scan.left_out > 0 {
        warn(format!(
            "{} QPs were learned, as many as a NIC has; {} more were left out, and their packets dropped as unknown_qp",
            grouped(scan.flows.len() as u64),
            grouped(scan.left_out as u64)
        ));
    }
    if scan.flows.is_empty() && scan.packets > 0 {
        let mut text = "no QP was learned, for no data packet or probe is whole and has a right iCRC".to_owned();
        let elsewhere = outcome.drops.iter().find(|(reason, _)| *reason == DropReason::Wire(Refusal::OtherUdpPort));
        if let Some((_, count)) = elsewhere {
            let _ =
                write!(text, "; {} packets are UDP to other ports (--port takes {MORE_PORTS} more)", grouped(*count));
        }
        warn(text);
    }
    let beyond: u64 = outcome.qps.iter().map(|qp| qp.out_of_window).sum();
    if beyond > 0 {
        warn(format!(
            "{} packets lay beyond the window of {} PSNs: packets before them are missing from the capture; --window takes \
             up to 32640",
            grouped(beyond),
            options.window
        ));
    }
    if outcome.unsent > 0 {
        warn(format!("{} answers could not be sent", grouped(outcome.unsent)));
    }
    warnings
}

/// An empty table. Columns in `numbers` are aligned as such.
fn table(head: &[&str], numbers: Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head);
    for part in [TableComponent::HeaderLines, TableComponent::MiddleHeaderIntersections] {
        table.set_style(part, '─');
    }
    for column in table.column_iter_mut().skip(numbers.start).take(numbers.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A table under its title, unless it is empty.
fn section(out: &mut dyn Write, title: &str, table: &Table, more: Option<String>) -> io::Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}\n{}", table.trim_fmt())?;
    more.map_or(Ok(()), |more| writeln!(out, "{more}"))
}

fn left_out(all: usize, shown: usize) -> Option<String> {
    (all > shown).then(|| format!("and {} more (--json has all)", grouped((all - shown) as u64)))
}

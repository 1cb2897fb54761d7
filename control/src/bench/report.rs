//! What a bench found: JSON and a table.

use super::Op;
use super::anchor::Anchors;
use super::app::Measured;
use super::fabric::FabricPart;
use crate::controller::ControlReport;
use crate::records::RecordCounts;
use crate::text::{bytes, grouped};
use comfy_table::{CellAlignment, Table, presets};
use dataplane::dpdk::Port;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Links that the table for people shows.
const LINKS_SHOWN: usize = 64;

/// The result of a bench. Its JSON is read by other programs: fields are only ever added.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// DPDK's own words.
    pub dpdk_version: String,
    /// The ports that were joined.
    pub vdev: String,
    /// Worker threads in all.
    pub workers: usize,
    /// Copying 4 KiB pieces through 16 MiB on one core of this machine, in Gbit/s.
    pub memcpy_gbps: f64,
    /// One entry a size.
    pub results: Vec<SizeResult>,
    /// Counters of the ports, from `rte_eth_stats_get`.
    pub ports: Vec<PortCounters>,
    /// Ports of each NIC.
    pub planes: u8,
    /// How packets are spread over paths: `default`, `none` or `profile`.
    pub spraying: &'static str,
    /// Whether the QPs have IPv6 addresses.
    pub ipv6: bool,
    /// Payload of a packet in bytes.
    pub mss: u32,
    /// QPs of each requester.
    pub qps: usize,
    /// Frames that an engine refused, by reason: NIC A's and NIC B's together.
    pub drops: BTreeMap<&'static str, u64>,
    /// Received frames that `--loss` took away.
    pub injected_losses: u64,
    /// Received frames that `--duplicate` made two of.
    pub injected_duplicates: u64,
    /// Received frames that `--reorder` held back.
    pub injected_reorders: u64,
    /// Received frames that `--trim` cut down to their headers.
    pub injected_trims: u64,
    /// Reliability probes of both NICs.
    pub probes: Probes,
    /// The fabric between the NICs, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricPart>,
    /// What was recorded, where anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordCounts>,
    /// What driver and machine allow, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchors: Option<Anchors>,
    /// What a reader should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was measured at one size.
#[derive(Debug, Serialize)]
pub struct SizeResult {
    /// What each message was, as [`Op::name`] has it.
    pub op: &'static str,
    /// Bytes of a message.
    pub size: usize,
    /// Time spent sending.
    pub seconds: f64,
    /// Messages completed.
    pub messages: u64,
    /// Messages a second.
    pub msg_per_s: f64,
    /// Payload in Gbit/s.
    pub goodput_gbps: f64,
    /// MRC frames that NIC A sent.
    pub tx_packets: u64,
    /// MRC frames that NIC A received.
    pub rx_packets: u64,
    /// Data packets sent again.
    pub retransmits: u64,
    /// SACKs that NIC A received.
    pub sacks: u64,
    /// Entropy values used.
    pub evs_used: usize,
    /// Post to completion.
    pub lat_us: Latency,
    /// Every byte of the target was what the source held.
    pub verified: bool,
    /// Messages that did not complete.
    pub errors: u64,
    /// Why the measurement ended before its time, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Of the data packets sent again, those whose first transmission had arrived.
    pub spurious_retransmits: u64,
}

/// Probes that the control thread asked for.
#[derive(Debug, Serialize)]
pub struct Probes {
    /// How many.
    pub sent: u64,
    /// How late after its time half of them were asked for, in microseconds.
    pub late_us_p50: f64,
    /// How late 99 in 100 were at most.
    pub late_us_p99: f64,
}

impl Probes {
    pub(super) fn of(control: &ControlReport) -> Probes {
        let late = |q: f64| control.lateness.value_at_quantile(q) as f64 / 1e3;
        Probes { sent: control.probes, late_us_p50: late(0.5), late_us_p99: late(0.99) }
    }
}

/// Latency in microseconds.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// Half are faster.
    pub p50: f64,
    /// 99 in 100 are faster.
    pub p99: f64,
}

impl Latency {
    /// Of times in ns.
    pub(super) fn of(times: &Histogram<u64>) -> Latency {
        let us = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
        Latency { p50: us(0.5), p99: us(0.99) }
    }
}

/// A port's packet counters.
#[derive(Clone, Debug, Serialize)]
pub struct PortCounters {
    /// DPDK's name of the port.
    pub name: String,
    /// The NIC, `a` or `b`.
    pub nic: &'static str,
    /// Its number at the NIC, from 1.
    pub port: u8,
    /// Packets received.
    pub ipackets: u64,
    /// Packets sent.
    pub opackets: u64,
}

impl PortCounters {
    pub(super) fn of(nic: &'static str, number: u8, port: &Port) -> PortCounters {
        let counted = port.stats();
        let name = port.name().to_owned();
        PortCounters { name, nic, port: number, ipackets: counted.ipackets, opackets: counted.opackets }
    }
}

impl SizeResult {
    /// Adds up what the requesters measured at one size; they worked at the same time.
    pub(super) fn of(op: Op, size: usize, measured: &[Measured]) -> SizeResult {
        let gained = |name: &str| measured.iter().filter_map(|m| m.gained.get(name)).sum();
        let sum = |of: fn(&Measured) -> u64| measured.iter().map(of).sum::<u64>();
        let seconds = measured.iter().map(|m| m.sending_ns).max().unwrap_or(0) as f64 / 1e9;
        // Each requester has its own clock: rates add up, times do not.
        let rates = measured.iter().filter(|m| m.sending_ns > 0).map(|m| m.messages as f64 * 1e9 / m.sending_ns as f64);
        let msg_per_s = rates.fold(0.0, |sum, rate| sum + rate);
        let mut latency = measured.first().map(|m| m.latency.clone());
        if let Some(all) = &mut latency {
            for other in measured.iter().skip(1) {
                // Same bounds, so they add.
                let _ = all.add(&other.latency);
            }
        }
        let lat_us = latency.as_ref().map_or(Latency { p50: 0.0, p99: 0.0 }, Latency::of);
        SizeResult {
            op: op.name(),
            size,
            seconds,
            messages: sum(|m| m.messages),
            msg_per_s,
            goodput_gbps: msg_per_s * size as f64 * 8.0 / 1e9,
            tx_packets: gained("tx_frames"),
            rx_packets: gained("rx_frames"),
            retransmits: gained("retransmits"),
            sacks: gained("rx_sacks"),
            evs_used: measured.iter().map(|m| m.evs_used).max().unwrap_or(0),
            lat_us,
            verified: measured.iter().all(|m| m.verified),
            errors: sum(|m| m.errors),
            fault: measured.iter().find_map(|m| m.fault.clone()),
            spurious_retransmits: gained("spurious_retransmits"),
        }
    }
}

impl Report {
    /// Writes the table for people.
    ///
    /// # Errors
    /// What `out` says.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_header([
            "size",
            "messages",
            "Mmsg/s",
            "Gbit/s",
            "p50 us",
            "p99 us",
            "tx packets",
            "rx packets",
            "resent",
            "SACKs",
            "EVs",
            "verified",
        ]);
        for r in &self.results {
            table.add_row([
                bytes(r.size),
                grouped(r.messages),
                format!("{:.3}", r.msg_per_s / 1e6),
                format!("{:.2}", r.goodput_gbps),
                format!("{:.1}", r.lat_us.p50),
                format!("{:.1}", r.lat_us.p99),
                grouped(r.tx_packets),
                grouped(r.rx_packets),
                grouped(r.retransmits),
                grouped(r.sacks),
                r.evs_used.to_string(),
                if r.verified { "yes" } else { "no" }.to_owned(),
            ]);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{table}")?;
        for port in &self.ports {
            let (received, sent) = (grouped(port.ipackets), grouped(port.opackets));
            writeln!(out, "port {}: {sent} packets sent, {received} received", port.name)?;
        }
        for (what, count) in [
            ("lost", self.injected_losses),
            ("duplicated", self.injected_duplicates),
            ("held back", self.injected_reorders),
            ("trimmed", self.injected_trims),
        ] {
            if count > 0 {
                writeln!(out, "{what} on purpose: {} received frames", grouped(count))?;
            }
        }
        for (reason, count) in &self.drops {
            writeln!(out, "dropped: {} {reason}", grouped(*count))?;
        }
        if let Some(fabric) = &self.fabric {
            print_fabric(fabric, out)?;
        }
        if self.probes.sent > 0 {
            let Probes { sent, late_us_p50, late_us_p99 } = self.probes;
            let sent = grouped(sent);
            writeln!(
                out,
                "probes of paths assumed bad: {sent}, late by {late_us_p50:.0} us (p50), {late_us_p99:.0} us (p99)"
            )?;
        }
        writeln!(out, "memcpy of 4 KiB pieces on one core: {:.1} Gbit/s; {}", self.memcpy_gbps, self.dpdk_version)?;
        if let Some(anchors) = &self.anchors {
            print_anchors(anchors, out)?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }
}

/// What driver and machine allow, and how the NICs compare.
fn print_anchors(anchors: &Anchors, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["size", "bare frame", "M/s", "Gbit/s", "NICs to bare", "NICs to memcpy"]);
    for bare in &anchors.bare {
        table.add_row([
            bytes(bare.size),
            bytes(bare.payload),
            format!("{:.3}", bare.frames_per_s / 1e6),
            format!("{:.2}", bare.goodput_gbps),
            format!("{:.2}", bare.ratio),
            format!("{:.2}", bare.memcpy_ratio),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "the same frames over the same rings, without MRC:\n{table}")?;
    let Anchors { round_trip_us: there, write_us: write, round_trip_ratio: ratio, .. } = anchors;
    writeln!(
        out,
        "round trip of a frame: {:.2} us (p50), {:.2} us (p99); of a Write of 64 B alone: {:.2} us, {:.2} us: {:.1} and {:.1} times as long",
        there.p50, there.p99, write.p50, write.p99, ratio.p50, ratio.p99
    )
}

/// What each link of a fabric did, those that did nothing left out.
fn print_fabric(fabric: &FabricPart, out: &mut dyn Write) -> io::Result<()> {
    let FabricPart { report, ring_full, no_mbuf, .. } = fabric;
    let reasons = |dropped: &BTreeMap<&str, u64>| {
        let counts = dropped.iter().map(|(reason, count)| format!("{} {reason}", grouped(*count)));
        counts.collect::<Vec<_>>().join(", ")
    };
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["link", "state", "frames", "bytes", "marked", "trimmed", "dropped"]);
    let busy = report.links.iter().filter(|link| link.frames > 0 || !link.dropped.is_empty() || link.state != "up");
    let (shown, more) = (busy.clone().take(LINKS_SHOWN), busy.count().saturating_sub(LINKS_SHOWN));
    for link in shown {
        let [frames, bytes, marked, trimmed] = [link.frames, link.bytes, link.marked, link.trimmed].map(grouped);
        table.add_row([&link.name, link.state, &frames, &bytes, &marked, &trimmed, &reasons(&link.dropped)]);
    }
    for column in table.column_iter_mut().skip(2).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")?;
    if more > 0 {
        writeln!(out, "and {more} links more: --json has all")?;
    }
    let (injected, delivered) = (grouped(report.injected), grouped(report.delivered));
    let dropped = if report.dropped.is_empty() { "none".into() } else { reasons(&report.dropped) };
    writeln!(out, "fabric: {injected} frames in, {delivered} out, dropped: {dropped}")?;
    for (count, why) in
        [(ring_full, "a NIC did not take them from its ring"), (no_mbuf, "there was no mbuf for a copy")]
    {
        if *count > 0 {
            writeln!(out, "fabric: {} frames lost because {why}", grouped(*count))?;
        }
    }
    Ok(())
}

//! `mrc-monitor`: a row for each packet that was sent or received.

use super::panel::{Body, Line, Panel, Plot, Section};
use super::source::{Column, Row, Rows};
use super::summary::Span;
use super::timeline::Thinned;
use crate::error::Error;
use crate::text::grouped;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::path::Path;

/// A packet in a plot: its kind, and where it is.
type Dot = (usize, (f64, f64));

/// Entropy values that are told apart.
const EVS_MAX: usize = 65_536;
/// Bars of the plot of entropy values.
const BARS_MAX: usize = 256;
/// Counts of uses that are listed.
const USES_MAX: usize = 6;
/// Queue pairs whose packets are kept until it is known which one has the most.
const QPS_MAX: usize = 16;
/// Points of one kind in the plot of PSNs.
const POINTS_MAX: usize = 1_200;
/// Packets around the first one that was trimmed or sent again that are looked at closely.
const CLOSE: usize = 600;
/// The ECN field of a packet that a switch marked.
const CONGESTION: &str = "3";
/// Half of all PSNs: they have 24 bits.
const PSN_HALF: i64 = 1 << 23;

/// What becomes of a packet, as the plot of PSNs tells it apart.
const KINDS: [&str; 4] = ["sent", "received", "sent again", "received trimmed"];
const SENT: usize = 0;
const RECEIVED: usize = 1;
const AGAIN: usize = 2;
const TRIMMED: usize = 3;

/// Packets of a sending queue pair.
#[derive(Debug)]
struct Psns {
    /// The last PSN, continued beyond its 24 bits.
    last: i64,
    rows: u64,
    kinds: [Thinned; KINDS.len()],
    /// The first packet that was trimmed or sent again: when, and its PSN.
    trouble: Option<(f64, i64)>,
}

/// The columns of the file.
struct Columns {
    time: Column,
    direction: Column,
    kind: Column,
    psn: Column,
    trimmed: Column,
    local: [Column; 2],
    remote: [Column; 2],
    has_type: bool,
}

/// A data packet.
struct Packet<'a> {
    /// Address and queue pair of its sender.
    sender: [&'a str; 2],
    kind: usize,
    at: f64,
    psn: Option<i64>,
}

impl Columns {
    fn of(rows: &mut Rows) -> Result<Columns, Error> {
        Ok(Columns {
            time: rows.need("time_us")?,
            direction: rows.need("direction")?,
            kind: rows.column("type"),
            psn: rows.column("psn"),
            trimmed: rows.column("trimmed"),
            local: ["local_addr", "local_qp"].map(|name| rows.column(name)),
            remote: ["remote_addr", "remote_qp"].map(|name| rows.column(name)),
            has_type: rows.has("type"),
        })
    }

    fn is_trimmed(&self, row: &Row<'_>) -> bool {
        !matches!(row.text(self.trimmed), "" | "no" | "false" | "0")
    }

    /// The packet of a row, if it is data.
    fn packet<'a>(&self, row: &'a Row<'_>) -> Result<Option<Packet<'a>>, Error> {
        if self.has_type && row.text(self.kind) != "write" {
            return Ok(None);
        }
        let (sender, kind) = match row.text(self.direction) {
            "tx" => (self.local, SENT),
            "rtx" => (self.local, AGAIN),
            "rx" if self.is_trimmed(row) => (self.remote, TRIMMED),
            "rx" => (self.remote, RECEIVED),
            _ => return Ok(None),
        };
        let psn = row.count(self.psn)?.map(|psn| (psn & 0xff_ffff) as i64);
        Ok(Some(Packet { sender: sender.map(|column| row.text(column)), kind, at: row.time(self.time)?, psn }))
    }
}

/// The number of these 24 bits that is nearest to another.
const fn near(psn: i64, other: i64) -> i64 {
    other + (psn - other + PSN_HALF).rem_euclid(2 * PSN_HALF) - PSN_HALF
}

/// What the file says.
#[derive(Debug)]
pub(super) struct Monitor {
    evs: HashMap<String, u64>,
    beyond: u64,
    /// By the sender's address and queue pair.
    psns: BTreeMap<(String, String), Psns>,
    others: u64,
    directions: BTreeMap<(String, String), u64>,
    has_ev: bool,
    has_psn: bool,
    pub(super) span: Span,
    trimmed: u64,
    marked: u64,
    /// Packets around the first one in trouble: kind, time and PSN.
    close: Vec<Dot>,
}

impl Monitor {
    /// Reads the file; a second time for the packets around the first one in trouble, since rows of several NICs are not in order of time.
    pub(super) fn read(path: &Path, rows: &mut Rows) -> Result<Monitor, Error> {
        let columns = Columns::of(rows)?;
        let [ev, ecn] = ["ev", "ecn"].map(|name| rows.column(name));
        let mut monitor = Monitor {
            evs: HashMap::new(),
            beyond: 0,
            psns: BTreeMap::new(),
            others: 0,
            directions: BTreeMap::new(),
            has_ev: rows.has("ev"),
            has_psn: rows.has("psn"),
            span: Span::default(),
            trimmed: 0,
            marked: 0,
            close: Vec::new(),
        };
        while let Some(row) = rows.next()? {
            monitor.span.add(row.time(columns.time)?);
            let way = row.text(columns.direction);
            monitor.count_direction(way, row.text(columns.kind));
            if way == "rx" {
                monitor.trimmed += u64::from(columns.is_trimmed(&row));
                monitor.marked += u64::from(row.text(ecn) == CONGESTION);
            }
            let Some(packet) = columns.packet(&row)? else { continue };
            if packet.kind == SENT && !row.text(ev).is_empty() {
                monitor.count_ev(row.text(ev));
            }
            monitor.add(&packet);
        }
        if let Some(((address, qp), (at, psn))) =
            monitor.most().and_then(|(key, psns)| Some((key.clone(), psns.trouble?)))
        {
            monitor.close = close_up(&mut Rows::open(path)?, [&address, &qp], at, psn)?;
        }
        Ok(monitor)
    }

    fn count_direction(&mut self, way: &str, what: &str) {
        /// Pairs that are told apart.
        const PAIRS_MAX: usize = 32;
        let key = (way.to_owned(), what.to_owned());
        let room = self.directions.len() < PAIRS_MAX || self.directions.contains_key(&key);
        let key = if room { key } else { ("others".into(), String::new()) };
        *self.directions.entry(key).or_default() += 1;
    }

    fn count_ev(&mut self, ev: &str) {
        if let Some(count) = self.evs.get_mut(ev) {
            *count += 1;
        } else if self.evs.len() < EVS_MAX {
            self.evs.insert(ev.to_owned(), 1);
        } else {
            self.beyond += 1;
        }
    }

    fn add(&mut self, packet: &Packet<'_>) {
        let Some(psn) = packet.psn else { return };
        let key = (packet.sender[0].to_owned(), packet.sender[1].to_owned());
        if !self.psns.contains_key(&key) && self.psns.len() == QPS_MAX {
            self.others += 1;
            return;
        }
        let kinds = || [(); KINDS.len()].map(|()| Thinned::new(POINTS_MAX));
        let new = || Psns { last: psn, rows: 0, kinds: kinds(), trouble: None };
        let psns = self.psns.entry(key).or_insert_with(new);
        let long = near(psn, psns.last);
        if packet.kind == SENT {
            psns.last = long;
        }
        psns.rows += 1;
        psns.kinds[packet.kind].push((packet.at, long as f64));
        let in_trouble = packet.kind == AGAIN || packet.kind == TRIMMED;
        if in_trouble && psns.trouble.is_none_or(|(at, _)| packet.at < at) {
            psns.trouble = Some((packet.at, long));
        }
    }

    /// The panels of the file.
    pub(super) fn section(&self) -> Section {
        let rows = self
            .directions
            .iter()
            .map(|((way, what), count)| vec![format!("{way} {what}").trim().to_owned(), grouped(*count)]);
        let rows: Vec<Vec<String>> = rows.collect();
        let packets = match rows.is_empty() {
            true => Body::Nothing("mrc-monitor has no rows.".into()),
            false => Body::Table { header: vec!["packets", "count"], rows },
        };
        let mut panels = vec![self.ev_panel(), self.psn_panel()];
        panels.extend(self.close_panel());
        let marks = format!(
            "Of the packets received, {} were trimmed and {} marked by switches.",
            grouped(self.trimmed),
            grouped(self.marked)
        );
        panels.push(Panel::new("Packets that the monitor saw", packets).note(marks));
        Section { title: "Packets", panels }
    }

    fn ev_panel(&self) -> Panel {
        let title = "Data packets sent by entropy value: how evenly the rotation takes them";
        if self.evs.is_empty() {
            let why = if self.has_ev {
                "mrc-monitor has no data packet that was sent."
            } else {
                "mrc-monitor has no column ev."
            };
            return Panel::new(title, Body::Nothing(why.into()));
        }
        let mut evs: Vec<(&str, u64)> = self.evs.iter().map(|(ev, count)| (ev.as_str(), *count)).collect();
        evs.sort_by(|(a, _), (b, _)| value_of(a).cmp(&value_of(b)).then_with(|| a.cmp(b)));
        let group = evs.len().div_ceil(BARS_MAX);
        let bars = evs.chunks(group).map(|evs| {
            let sum: u64 = evs.iter().map(|(_, count)| count).sum();
            let name = match evs {
                [(ev, _)] => (*ev).to_owned(),
                [(first, _), .., (last, _)] => format!("{first} to {last}"),
                [] => String::new(),
            };
            (name, sum as f64 / evs.len() as f64)
        });
        let y = if group == 1 { "packets".to_owned() } else { format!("packets (mean of {group} values)") };
        let plot = Plot::Bars { x: "entropy value".into(), y, bars: bars.collect() };
        let panel = Panel::new(title, Body::Plot(plot)).note(self.uses());
        if self.beyond == 0 {
            return panel;
        }
        panel.note(format!("{} packets of values beyond {EVS_MAX} distinct ones are left out.", grouped(self.beyond)))
    }

    /// How many values there are, and how many of them were used how often.
    fn uses(&self) -> String {
        let mut uses: BTreeMap<u64, u64> = BTreeMap::new();
        for &count in self.evs.values() {
            *uses.entry(count).or_default() += 1;
        }
        let distinct = self.evs.len();
        let values = if distinct == 1 { "value" } else { "values" };
        let kinds = uses.len();
        let mut most: Vec<(u64, u64)> = uses.into_iter().collect();
        most.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut listed: Vec<(u64, u64)> = most.into_iter().take(USES_MAX).collect();
        listed.sort_unstable();
        let listed = listed.iter().map(|(uses, values)| format!("{} used {} times", grouped(*values), grouped(*uses)));
        let more = if kinds > USES_MAX {
            format!(", and others with {} more counts", grouped((kinds - USES_MAX) as u64))
        } else {
            String::new()
        };
        let listed: Vec<String> = listed.collect();
        format!("{} distinct {values}: {}{more}.", grouped(distinct as u64), listed.join(", "))
    }

    /// The sending queue pair with the most rows.
    fn most(&self) -> Option<(&(String, String), &Psns)> {
        self.psns.iter().max_by_key(|(_, psns)| psns.rows)
    }

    /// A closer look, if something was trimmed or sent again.
    fn close_panel(&self) -> Option<Panel> {
        if self.close.is_empty() {
            return None;
        }
        let lines = KINDS.iter().enumerate().map(|(kind, name)| {
            let packets = self.close.iter().filter(|(of, _)| *of == kind);
            Line { name: (*name).to_owned(), pieces: vec![packets.map(|(_, point)| *point).collect()] }
        });
        let title = "PSNs around the first packet that was trimmed or sent again";
        Some(Panel::new(title, Body::Plot(Plot::Points { y: "PSN", lines: lines.collect() })))
    }

    fn psn_panel(&self) -> Panel {
        let title = "PSNs of data packets over time";
        let Some(((address, qp), psns)) = self.most() else {
            let why = if self.has_psn { "mrc-monitor has no data packet." } else { "mrc-monitor has no column psn." };
            return Panel::new(title, Body::Nothing(why.into()));
        };
        // One of each kind, so that a kind has the same mark in every plot.
        let lines = KINDS.iter().zip(&psns.kinds).map(|(name, kind)| Line {
            name: format!("{name} ({})", grouped(kind.seen())),
            pieces: vec![kind.points().to_vec()],
        });
        let plot = Plot::Points { y: "PSN", lines: lines.collect() };
        let whose = match (address.is_empty(), qp.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!(" from {address}"),
            (true, false) => format!(" of queue pair {qp}"),
            (false, false) => format!(" of queue pair {qp} at {address}"),
        };
        let mut panel = Panel::new(format!("{title}{whose}"), Body::Plot(plot));
        let others: u64 = self.psns.values().map(|psns| psns.rows).sum::<u64>() - psns.rows + self.others;
        if others > 0 {
            panel = panel.note(format!(
                "It is the queue pair with the most rows; {} rows of other ones are left out.",
                grouped(others)
            ));
        }
        let seen: u64 = psns.kinds.iter().map(Thinned::seen).sum();
        let shown: u64 = psns.kinds.iter().map(|kind| kind.points().len() as u64).sum();
        if shown < seen {
            panel = panel.note(format!("Thinned: {} of {} packets are drawn, evenly.", grouped(shown), grouped(seen)));
        }
        panel
    }
}

/// The packets of a sender that are nearest to a time. PSNs are continued from that of the packet there.
fn close_up(rows: &mut Rows, sender: [&str; 2], at: f64, psn: i64) -> Result<Vec<Dot>, Error> {
    /// Steps of time that are told apart, a us.
    const FINE: f64 = 1e3;
    let columns = Columns::of(rows)?;
    // The farthest one is on top, and goes first.
    let mut nearest: BinaryHeap<(u64, usize, u64, i64)> = BinaryHeap::new();
    while let Some(row) = rows.next()? {
        let Some(packet) = columns.packet(&row)?.filter(|packet| packet.sender == sender) else { continue };
        let Some(of) = packet.psn else { continue };
        let away = ((packet.at - at).abs() * FINE) as u64;
        nearest.push((away, packet.kind, (packet.at * FINE) as u64, near(of, psn)));
        if nearest.len() > CLOSE {
            nearest.pop();
        }
    }
    Ok(nearest.into_iter().map(|(_, kind, at, psn)| (kind, (at as f64 / FINE, psn as f64))).collect())
}

/// The number that an entropy value is, if it is one.
fn value_of(ev: &str) -> u64 {
    let hexadecimal = ev.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    hexadecimal.unwrap_or_else(|| ev.parse()).unwrap_or(u64::MAX)
}

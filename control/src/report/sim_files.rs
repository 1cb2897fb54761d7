//! What `mrcnic sim --records` writes of flows, links and their entropy values.

use super::panel::{Body, LINES_MAX, Line, Panel, Plot, Section, Unit};
use super::source::Rows;
use super::summary::Span;
use super::timeline::{Cell, Gaps, Timeline};
use crate::error::Error;
use crate::text::grouped;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Flows, links and NICs that are told apart at most.
const KEYS_MAX: usize = 1_048_576;
/// Links of the table of drops.
const DROPS_MAX: usize = 10;

/// Moments of a file: rows of one time are of one look at everything. The first one comes an interval after the start, at 0.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    now: Option<f64>,
}

impl Moments {
    /// Whether a row begins a new moment; then how long it is since the one before.
    fn next(&mut self, time: f64) -> Option<f64> {
        if self.now == Some(time) {
            return None;
        }
        let step = time - self.now.unwrap_or(0.0);
        self.now = Some(time);
        Some(step.max(0.0))
    }
}

/// Cells that a moment is counted in, and values of moments.
const MOMENTS: usize = 0;

/// What `flows` says.
#[derive(Debug)]
pub(super) struct Flows {
    pub(super) flows: usize,
    pub(super) nics: BTreeSet<u64>,
    pub(super) span: Span,
    /// Gbit/s times us, of all rows.
    volume: f64,
    counts: HashMap<u64, [u64; 2]>,
    shown: Vec<(u64, String)>,
    timeline: Timeline,
    missing: Vec<&'static str>,
}

/// Lines of `flows` over all flows, in their cells: name, column, and whether it is the lowest, the mean or the highest.
const OVER_FLOWS: [(&str, &str, Pick); 6] = [
    ("mean window", "cwnd_bytes", Pick::Mean),
    ("bytes in flight (mean)", "inflight_bytes", Pick::Mean),
    ("smallest window", "cwnd_bytes", Pick::Min),
    ("largest window", "cwnd_bytes", Pick::Max),
    ("base RTT (mean)", "base_rtt_ns", Pick::Mean),
    ("average queueing delay (mean)", "average_delay_ns", Pick::Mean),
];
/// How many of them are of windows; the others are of times.
const OF_WINDOWS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Pick {
    Mean,
    Min,
    Max,
}

impl Pick {
    fn of(self, cell: &Cell) -> f64 {
        match self {
            Pick::Mean => cell.sum / cell.weight,
            Pick::Min => cell.min,
            Pick::Max => cell.max,
        }
    }
}

const ALL_FLOWS: usize = 1;
const FLOW_CELLS: usize = 2;
const OVER_CELLS: usize = FLOW_CELLS + LINES_MAX;

impl Flows {
    /// Reads the file.
    pub(super) fn read(rows: &mut Rows) -> Result<Flows, Error> {
        let time = rows.need("time_us")?;
        let goodput = rows.need("goodput_gbps")?;
        let [flow, src, dst] = ["flow", "src", "dst"].map(|name| rows.column(name));
        let counts = ["retransmits", "timeouts"].map(|name| rows.column(name));
        let over = OVER_FLOWS.map(|(_, column, _)| rows.column(column));
        let missing = OVER_FLOWS.iter().map(|(_, column, _)| *column).filter(|column| !rows.has(column)).collect();
        let mut flows = Flows {
            flows: 0,
            nics: BTreeSet::new(),
            span: Span::default(),
            volume: 0.0,
            counts: HashMap::new(),
            shown: Vec::new(),
            timeline: Timeline::new(1.0),
            missing,
        };
        let mut moments = Moments::default();
        let mut step = 0.0;
        while let Some(row) = rows.next()? {
            let at = row.time(time)?;
            flows.span.add(at);
            let is_first = moments.now.is_none();
            if let Some(since) = moments.next(at) {
                if is_first {
                    flows.timeline = Timeline::new(since);
                    flows.span.add(0.0);
                }
                step = since;
                flows.timeline.cell(at, MOMENTS).add(1.0, 1.0, 1.0);
            }
            let number = row.count(flow)?.unwrap_or(0);
            let gbps = row.number(goodput)?.unwrap_or(0.0);
            flows.volume += gbps * step;
            let ends = [row.count(src)?, row.count(dst)?];
            flows.nics.extend(ends.into_iter().flatten());
            flows.timeline.cell(at, ALL_FLOWS).add(gbps, 1.0, gbps);
            let [again, timeouts] = [row.count(counts[0])?, row.count(counts[1])?].map(Option::unwrap_or_default);
            if flows.counts.len() < KEYS_MAX || flows.counts.contains_key(&number) {
                flows.counts.insert(number, [again, timeouts]);
            }
            if flows.shown.len() < LINES_MAX && !flows.shown.iter().any(|(shown, _)| *shown == number) {
                let name = match ends {
                    [Some(src), Some(dst)] => format!("flow {number}: NIC {src} to {dst}"),
                    _ => format!("flow {number}"),
                };
                flows.shown.push((number, name));
            }
            if let Some(place) = flows.shown.iter().position(|(shown, _)| *shown == number) {
                flows.timeline.cell(at, FLOW_CELLS + place).add(gbps, 1.0, gbps);
            }
            for (place, column) in over.iter().enumerate() {
                if let Some(value) = row.number(*column)? {
                    flows.timeline.cell(at, OVER_CELLS + place).add(value, 1.0, value);
                }
            }
        }
        flows.flows = flows.counts.len();
        Ok(flows)
    }

    /// Payload in bytes, as the rates say.
    pub(super) fn bytes(&self) -> f64 {
        // Gbit/s are 1,000 bits a us.
        self.volume * 1e3 / 8.0
    }

    /// Packets sent again, and timers that ran out.
    pub(super) fn again(&self) -> (u64, u64) {
        self.counts.values().fold((0, 0), |(again, timeouts), count| (again + count[0], timeouts + count[1]))
    }

    /// The panels of the file.
    pub(super) fn section(&self) -> Section {
        let shown = self.shown.iter().enumerate().map(|(place, (_, name))| Line {
            name: name.clone(),
            pieces: self.timeline.pieces(FLOW_CELLS + place, Gaps::Zero, over_moments),
        });
        let title = match self.flows - self.shown.len() {
            0 => "Goodput of flows".to_owned(),
            _ => format!("Goodput of the first {LINES_MAX} of {} flows", grouped(self.flows as u64)),
        };
        let nothing = "flows has no rows.";
        let mut panels = vec![Panel::lines(title, Unit::GbitPerSecond, shown.collect(), nothing)];
        if self.flows > 1 {
            let all =
                Line { name: "all flows".into(), pieces: self.timeline.pieces(ALL_FLOWS, Gaps::Zero, over_moments) };
            panels.push(Panel::lines("Goodput of all flows together", Unit::GbitPerSecond, vec![all], nothing));
        }
        let over = |from: usize, to: usize| {
            let lines = OVER_FLOWS[from..to].iter().enumerate().map(|(place, (name, _, pick))| Line {
                name: (*name).to_owned(),
                pieces: self.timeline.pieces(OVER_CELLS + from + place, Gaps::Looks, |cell, _| pick.of(cell)),
            });
            lines.collect::<Vec<_>>()
        };
        // Of one flow they are all the same.
        let of_windows = if self.flows > 1 { OF_WINDOWS } else { OF_WINDOWS - 2 };
        let (windows, times) = (over(0, of_windows), over(OF_WINDOWS, OVER_FLOWS.len()));
        panels.push(Panel::lines(
            "Congestion windows of flows, and bytes in flight",
            Unit::Bytes,
            windows,
            self.nothing(&["cwnd_bytes", "inflight_bytes"]),
        ));
        panels.push(Panel::lines(
            "Round-trip time without load, and queueing delay, as flows know them",
            Unit::Nanoseconds,
            times,
            self.nothing(&["base_rtt_ns", "average_delay_ns"]),
        ));
        Section { title: "Flows", panels }
    }

    fn nothing(&self, columns: &[&str]) -> String {
        let missing: Vec<&str> = columns.iter().filter(|column| self.missing.contains(column)).copied().collect();
        if missing.is_empty() {
            "flows has no values for it.".into()
        } else {
            format!("flows has no column {}.", missing.join(", "))
        }
    }
}

/// The mean over the moments of a bin: in a moment without a row there is nothing.
fn over_moments(cell: &Cell, cells: &[Cell]) -> f64 {
    let moments = cells.get(MOMENTS).map_or(0.0, |moments| moments.sum);
    cell.sum / moments.max(1.0)
}

/// What `links` says of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    deepest: f64,
    bytes: u64,
    marked: u64,
    trimmed: u64,
    dropped: u64,
}

/// What `links` says.
#[derive(Debug)]
pub(super) struct Links {
    links: HashMap<String, Link>,
    pub(super) marked: u64,
    pub(super) trimmed: u64,
    pub(super) dropped: u64,
    pub(super) span: Span,
    queues: Vec<String>,
    used: Vec<String>,
    timeline: Timeline,
    has_queue: bool,
    has_used: bool,
    has_dropped: bool,
}

const QUEUE_CELLS: usize = 1;
const USED_CELLS: usize = QUEUE_CELLS + LINES_MAX;

impl Links {
    /// Reads the file twice: which links have a line is known at its end.
    pub(super) fn read(path: &Path, rows: &mut Rows) -> Result<Links, Error> {
        let columns = ["queue_bytes", "used", "dropped"];
        if !columns.iter().any(|column| rows.has(column)) {
            return Err(rows.lacks("queue_bytes"));
        }
        let [has_queue, has_used, has_dropped] = columns.map(|column| rows.has(column));
        let mut links = Links {
            links: HashMap::new(),
            marked: 0,
            trimmed: 0,
            dropped: 0,
            span: Span::default(),
            queues: Vec::new(),
            used: Vec::new(),
            timeline: Timeline::new(1.0),
            has_queue,
            has_used,
            has_dropped,
        };
        links.add_up(rows)?;
        let deepest = |link: &Link| link.deepest;
        let busiest = |link: &Link| link.bytes as f64;
        (links.queues, links.used) = (links.highest(deepest), links.highest(busiest));
        links.follow(&mut Rows::open(path)?)?;
        Ok(links)
    }

    fn add_up(&mut self, rows: &mut Rows) -> Result<(), Error> {
        let (time, link) = (rows.need("time_us")?, rows.need("link")?);
        let queue = rows.column("queue_bytes");
        let counts = ["bytes", "marked", "trimmed", "dropped"].map(|name| rows.column(name));
        while let Some(row) = rows.next()? {
            self.span.add(row.time(time)?);
            let queue = row.number(queue)?.unwrap_or(0.0);
            let mut new = [0; 4];
            for (new, column) in new.iter_mut().zip(counts) {
                *new = row.count(column)?.unwrap_or(0);
            }
            let [bytes, marked, trimmed, dropped] = new;
            self.marked += marked;
            self.trimmed += trimmed;
            self.dropped += dropped;
            let name = row.text(link);
            if !self.links.contains_key(name) {
                if self.links.len() == KEYS_MAX {
                    continue;
                }
                self.links.insert(name.to_owned(), Link::default());
            }
            let Some(link) = self.links.get_mut(name) else { continue };
            link.deepest = link.deepest.max(queue);
            link.bytes += bytes;
            link.marked += marked;
            link.trimmed += trimmed;
            link.dropped += dropped;
        }
        if self.span.ends().is_some() {
            self.span.add(0.0);
        }
        Ok(())
    }

    /// The links with the most of something, in the order of their names.
    fn highest(&self, of: impl Fn(&Link) -> f64) -> Vec<String> {
        let mut all: Vec<(&String, f64)> =
            self.links.iter().map(|(name, link)| (name, of(link))).filter(|(_, value)| *value > 0.0).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let mut names: Vec<String> = all.into_iter().take(LINES_MAX).map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    fn follow(&mut self, rows: &mut Rows) -> Result<(), Error> {
        let (time, link) = (rows.need("time_us")?, rows.need("link")?);
        let [queue, used] = ["queue_bytes", "used"].map(|name| rows.column(name));
        let mut moments = Moments::default();
        while let Some(row) = rows.next()? {
            let at = row.time(time)?;
            let is_first = moments.now.is_none();
            if let Some(since) = moments.next(at) {
                if is_first {
                    self.timeline = Timeline::new(since);
                }
                self.timeline.cell(at, MOMENTS).add(1.0, 1.0, 1.0);
            }
            let name = row.text(link);
            if let (Some(place), Some(bytes)) = (place(&self.queues, name), row.number(queue)?) {
                self.timeline.cell(at, QUEUE_CELLS + place).add(bytes, 1.0, bytes);
            }
            if let (Some(place), Some(share)) = (place(&self.used, name), row.number(used)?) {
                self.timeline.cell(at, USED_CELLS + place).add(share, 1.0, share);
            }
        }
        Ok(())
    }

    /// The panels of the file.
    pub(super) fn section(&self) -> Section {
        let lines = |names: &[String], first: usize, value: fn(&Cell, &[Cell]) -> f64| {
            let lines = names.iter().enumerate().map(|(place, name)| Line {
                name: name.clone(),
                pieces: self.timeline.pieces(first + place, Gaps::Zero, value),
            });
            lines.collect::<Vec<_>>()
        };
        let of = match self.links.len() > LINES_MAX {
            true => format!(", of {}", grouped(self.links.len() as u64)),
            false => String::new(),
        };
        let no_queue = if self.has_queue { "No frame waited on any link." } else { "links has no column queue_bytes." };
        let no_use = if self.has_used { "No link carried anything." } else { "links has no column used." };
        let queues = lines(&self.queues, QUEUE_CELLS, |cell, _| cell.max);
        let used = lines(&self.used, USED_CELLS, over_moments);
        let panels = vec![
            Panel::lines(format!("Queues of links (the deepest{of})"), Unit::Bytes, queues, no_queue),
            Panel::lines(format!("Use of links (the busiest{of})"), Unit::Share, used, no_use),
            self.drops(),
        ];
        Section { title: "Links", panels }
    }

    fn drops(&self) -> Panel {
        let title = "Links with the most frames dropped";
        if self.dropped == 0 {
            let why = if self.has_dropped { "No link dropped a frame." } else { "links has no column dropped." };
            return Panel::new(title, Body::Nothing(why.into()));
        }
        let mut losing: Vec<(&String, &Link)> = self.links.iter().filter(|(_, link)| link.dropped > 0).collect();
        losing.sort_by(|a, b| b.1.dropped.cmp(&a.1.dropped).then_with(|| a.0.cmp(b.0)));
        let of = losing.len();
        let rows = losing.into_iter().take(DROPS_MAX).map(|(name, link)| {
            let mut cells = vec![name.clone()];
            cells.extend([link.dropped, link.trimmed, link.marked, link.bytes, link.deepest as u64].map(grouped));
            cells
        });
        let header = vec!["link", "dropped", "trimmed", "marked", "bytes sent", "deepest queue, B"];
        let panel = Panel::new(title, Body::Table { header, rows: rows.collect() });
        if of > DROPS_MAX { panel.note(format!("{} links dropped frames.", grouped(of as u64))) } else { panel }
    }
}

fn place(names: &[String], name: &str) -> Option<usize> {
    names.iter().position(|other| other == name)
}

/// What `evs` says.
#[derive(Debug)]
pub(super) struct Evs {
    timeline: Timeline,
    sent: BTreeMap<u64, HashMap<u64, u64>>,
    missing: Vec<&'static str>,
}

const EV_LINES: [(&str, &str); 2] = [("in active sets", "evs"), ("good", "good")];

impl Evs {
    /// Reads the file.
    pub(super) fn read(rows: &mut Rows) -> Result<Evs, Error> {
        let time = rows.need("time_us")?;
        let missing: Vec<&str> =
            EV_LINES.iter().map(|(_, column)| *column).filter(|column| !rows.has(column)).collect();
        if missing.len() == EV_LINES.len() && !rows.has("sent") {
            return Err(rows.lacks("evs"));
        }
        let values = EV_LINES.map(|(_, column)| rows.column(column));
        let [flow, port, sent] = ["flow", "port", "sent"].map(|name| rows.column(name));
        let mut evs = Evs { timeline: Timeline::new(1.0), sent: BTreeMap::new(), missing };
        let mut moments = Moments::default();
        while let Some(row) = rows.next()? {
            let at = row.time(time)?;
            let is_first = moments.now.is_none();
            if let Some(since) = moments.next(at) {
                if is_first {
                    evs.timeline = Timeline::new(since);
                }
                evs.timeline.cell(at, MOMENTS).add(1.0, 1.0, 1.0);
            }
            for (place, column) in values.iter().enumerate() {
                if let Some(value) = row.number(*column)? {
                    evs.timeline.cell(at, 1 + place).add(value, 1.0, value);
                }
            }
            if let (Some(flow), Some(port), Some(sent)) = (row.count(flow)?, row.count(port)?, row.count(sent)?) {
                let of_port = evs.sent.entry(port.min(255)).or_default();
                if of_port.len() < KEYS_MAX || of_port.contains_key(&flow) {
                    of_port.insert(flow, sent);
                }
            }
        }
        Ok(evs)
    }

    /// The panels of the file.
    pub(super) fn section(&self) -> Section {
        let lines = EV_LINES.iter().enumerate().map(|(place, (name, _))| Line {
            name: (*name).to_owned(),
            pieces: self.timeline.pieces(1 + place, Gaps::Zero, over_moments),
        });
        let nothing = match self.missing.is_empty() {
            true => "evs has no rows.".to_owned(),
            false => format!("evs has no column {}.", self.missing.join(", ")),
        };
        let title = "Entropy values of flows under way, all together";
        let mut panels = vec![Panel::lines(title, Unit::Of("entropy values"), lines.collect(), nothing)];
        if self.sent.len() > 1 {
            let bar = |(port, flows): (&u64, &HashMap<u64, u64>)| {
                (format!("port {port}"), flows.values().sum::<u64>() as f64)
            };
            let bars = self.sent.iter().map(bar).collect();
            let plot = Plot::Bars { x: "port (plane)".into(), y: "packets".into(), bars };
            panels.push(Panel::new("Packets by port", Body::Plot(plot)));
        }
        Section { title: "Entropy values of flows", panels }
    }
}

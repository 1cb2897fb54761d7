//! Writes records: rows of `mrc-transport-stats`, `mrc-events` and `mrc-monitor`, and captures.

use super::pcapng::PacketCapture;
use super::rows::{EventRow, Node, PacketRow, StatsRow};
use super::sink::{Format, Sink};
use crate::config::{Config, RecordSettings};
use crate::error::Error;
use dataplane::Ns;
use dataplane::nic::{LifeEvent, NicSample, Seen};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a packet that a capture keeps where nothing is said: all of any frame.
pub const SNAPLEN_MAX: u32 = 65_535;

/// What is recorded, and where.
#[derive(Clone, Debug)]
pub struct RecordSpec {
    /// The directory of the records, if they are written.
    pub dir: Option<PathBuf>,
    /// How rows are written.
    pub format: Format,
    /// Which records there are.
    pub settings: RecordSettings,
    /// A capture of what the monitor shows, if there is one.
    pub capture: Option<CaptureSpec>,
}

/// A capture to be written.
#[derive(Clone, Debug)]
pub struct CaptureSpec {
    /// The file.
    pub path: PathBuf,
    /// Bytes of each packet that are kept at most, 1 to [`SNAPLEN_MAX`].
    pub snaplen: u32,
}

impl RecordSpec {
    /// Whether packets are looked at.
    pub(super) const fn wants_packets(&self) -> bool {
        self.capture.is_some() || (self.dir.is_some() && self.settings.monitor.is_some())
    }

    /// Whether events are written.
    pub(super) const fn wants_events(&self) -> bool {
        self.dir.is_some() && self.settings.events
    }

    /// Whether anything is recorded at all.
    #[must_use]
    pub const fn wants_anything(&self) -> bool {
        self.wants_packets() || self.wants_events() || self.stats_ns().is_some()
    }

    /// Time between rows of `mrc-transport-stats` in ns, if there are any.
    pub(crate) const fn stats_ns(&self) -> Option<u64> {
        if self.dir.is_some() { self.settings.transport_stats_ns } else { None }
    }
}

impl Default for RecordSpec {
    /// Nothing is recorded; what the attributes say at their defaults would be.
    fn default() -> RecordSpec {
        let settings = Config::default().setup().records;
        RecordSpec { dir: None, format: Format::default(), settings, capture: None }
    }
}

/// What was recorded, and what was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct RecordCounts {
    /// Rows of `mrc-transport-stats`.
    pub stats_rows: u64,
    /// Rows of `mrc-events`.
    pub event_rows: u64,
    /// Rows of `mrc-monitor`.
    pub monitor_rows: u64,
    /// Packets of the capture.
    pub captured: u64,
    /// Packets that were to be recorded, and found no room on their way from the worker.
    pub lost_packets: u64,
    /// Events that found none.
    pub lost_events: u64,
    /// Samples that found none: rows of `mrc-transport-stats` that are missing.
    pub lost_samples: u64,
}

impl RecordCounts {
    /// What found no room.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost_packets + self.lost_events + self.lost_samples
    }

    /// What was lost, in words, if anything was.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let RecordCounts { lost_packets, lost_events, lost_samples, .. } = self;
        let text = || {
            format!(
                "the records lack {lost_packets} packets, {lost_events} events and {lost_samples} samples, which came faster than they could be written"
            )
        };
        (self.lost() > 0).then(text)
    }
}

/// A NIC whose samples become rows.
struct Member {
    node: Node,
    /// What each worker said since the last row.
    said: Vec<Option<NicSample>>,
    last_row: Ns,
}

/// Writes what it is told. The first failure to write is kept, and told at the end; nothing is written after it.
pub struct Recorder {
    members: Vec<Member>,
    stats: Option<Sink>,
    events: Option<Sink>,
    monitor: Option<Sink>,
    capture: Option<PacketCapture>,
    counts: RecordCounts,
    failure: Option<io::Error>,
}

/// Why the records of a directory cannot be written.
fn refused(path: &Path, what: &str, e: &io::Error) -> Error {
    Error::Usage(format!("can't write {what} into {}: {e}", path.display()))
}

impl Recorder {
    /// Makes the files of a specification, for NICs with so many workers each. `epoch` is the time of day when their clock stood at 0.
    ///
    /// # Errors
    /// [`Error::Usage`] names what cannot be written.
    pub fn create(spec: &RecordSpec, nodes: Vec<(Node, usize)>, epoch: Duration) -> Result<Recorder, Error> {
        let member = |(node, workers)| Member { node, said: vec![None; workers], last_row: Ns::ZERO };
        let mut recorder = Recorder {
            members: nodes.into_iter().map(member).collect(),
            stats: None,
            events: None,
            monitor: None,
            capture: None,
            counts: RecordCounts::default(),
            failure: None,
        };
        if let Some(dir) = &spec.dir {
            std::fs::create_dir_all(dir).map_err(|e| refused(dir, "records", &e))?;
            let sink = |wanted: bool, name| {
                wanted.then(|| Sink::create(dir, name, spec.format)).transpose().map_err(|e| refused(dir, name, &e))
            };
            recorder.stats = sink(spec.settings.transport_stats_ns.is_some(), "mrc-transport-stats")?;
            recorder.events = sink(spec.settings.events, "mrc-events")?;
            recorder.monitor = sink(spec.settings.monitor.is_some(), "mrc-monitor")?;
        }
        if let Some(CaptureSpec { path, snaplen }) = &spec.capture {
            let made = PacketCapture::create(path, *snaplen, epoch);
            recorder.capture = Some(made.map_err(|e| refused(path, "a capture", &e))?);
        }
        Ok(recorder)
    }

    fn keep(&mut self, written: io::Result<()>, count: fn(&mut RecordCounts) -> &mut u64) {
        match written {
            Ok(()) => *count(&mut self.counts) += 1,
            Err(e) => {
                self.failure.get_or_insert(e);
                (self.stats, self.events, self.monitor, self.capture) = (None, None, None, None);
            }
        }
    }

    /// A worker of NIC number `n` took a sample: with those of all its workers there is a row.
    pub fn sample(&mut self, n: usize, worker: usize, sample: NicSample) {
        let (Some(sink), Some(member)) = (&mut self.stats, self.members.get_mut(n)) else { return };
        let Some(place) = member.said.get_mut(worker) else { return };
        match place {
            // The others are late: one row says it all.
            Some(said) => {
                let (rtt, reorder) = (said.rtt, said.reorder);
                *said = sample;
                said.rtt.merge(&rtt);
                said.reorder.merge(&reorder);
            }
            None => *place = Some(sample),
        }
        if member.said.iter().any(Option::is_none) {
            return;
        }
        let mut whole = NicSample::default();
        member.said.iter_mut().filter_map(Option::take).for_each(|said| whole.merge(&said));
        let interval_ns = whole.at.since(core::mem::replace(&mut member.last_row, whole.at));
        let written = sink.write(&StatsRow::new(&member.node, interval_ns, &whole));
        self.keep(written, |counts| &mut counts.stats_rows);
    }

    /// Something happened at NIC number `n`.
    pub fn event(&mut self, n: usize, event: &LifeEvent) {
        let (Some(sink), Some(member)) = (&mut self.events, self.members.get(n)) else { return };
        if let Some(row) = EventRow::new(member.node.id, event) {
            let written = sink.write(&row);
            self.keep(written, |counts| &mut counts.event_rows);
        }
    }

    /// NIC number `n` sent or received a packet: a row, where it gets one, and a packet of the capture, where its bytes were kept.
    pub fn packet(&mut self, n: usize, seen: &Seen, row: bool, bytes: Option<&[u8]>) {
        let Some(member) = self.members.get(n) else { return };
        if let (true, Some(sink), Some(row)) = (row, &mut self.monitor, PacketRow::new(member.node.id, seen)) {
            let written = sink.write(&row);
            self.keep(written, |counts| &mut counts.monitor_rows);
        }
        if let (Some(bytes), Some(capture), Some(member)) = (bytes, &mut self.capture, self.members.get(n)) {
            let written = capture.write(&member.node, seen, bytes);
            self.keep(written, |counts| &mut counts.captured);
        }
    }

    /// So many packets, events and samples found no room on their way here.
    pub(super) const fn lost(&mut self, packets: u64, events: u64, samples: u64) {
        self.counts.lost_packets = packets;
        self.counts.lost_events = events;
        self.counts.lost_samples = samples;
    }

    /// Writes what is held back.
    pub fn flush(&mut self) {
        let flushed = [&mut self.stats, &mut self.events, &mut self.monitor]
            .into_iter()
            .flatten()
            .try_for_each(Sink::flush)
            .and_then(|()| self.capture.as_mut().map_or(Ok(()), PacketCapture::flush));
        if let Err(e) = flushed {
            self.failure.get_or_insert(e);
        }
    }

    /// Ends the records.
    ///
    /// # Errors
    /// [`Error::Failure`], when something could not be written.
    pub fn finish(&mut self) -> Result<RecordCounts, Error> {
        self.flush();
        match self.failure.take() {
            None => Ok(self.counts),
            Some(e) => Err(Error::Failure(format!("the records are not complete: {e}"))),
        }
    }
}

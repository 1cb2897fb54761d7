//! A page of plots from the records of a run: one HTML file that needs nothing else.
//!
//! Records are read as streams, so the memory that it takes does not grow with them: values over time go into bins that get wider, and
//! points are thinned.

mod chart;
mod events;
mod monitor;
mod page;
mod panel;
mod sim_files;
mod source;
mod stats;
mod summary;
mod timeline;

use crate::error::Error;
use crate::text::grouped;
use events::Events;
use monitor::Monitor;
use page::{FileRow, Page};
use panel::Section;
use sim_files::{Evs, Flows, Links};
use source::Rows;
use stats::Stats;
use std::path::{Path, PathBuf};
use summary::Span;

/// Files that are looked for, `.csv` or `.jsonl`, and what they hold.
const FILES: [(&str, &str); 6] = [
    ("mrc-transport-stats", "counters, windows and round-trip times of each NIC"),
    ("mrc-events", "queue pairs and work requests"),
    ("mrc-monitor", "packets"),
    ("flows", "goodput and windows of each flow (mrcnic sim)"),
    ("links", "queues and use of each link (mrcnic sim)"),
    ("evs", "entropy values of each flow (mrcnic sim)"),
];

/// What the records say.
#[derive(Debug, Default)]
struct Digest {
    stats: Option<Stats>,
    events: Option<Events>,
    monitor: Option<Monitor>,
    flows: Option<Flows>,
    links: Option<Links>,
    evs: Option<Evs>,
}

impl Digest {
    /// From the first row of all files to the last.
    fn span(&self) -> Span {
        let mut span = Span::default();
        let of = [
            self.stats.as_ref().map(|stats| stats.span),
            self.events.as_ref().map(|events| events.span),
            self.monitor.as_ref().map(|monitor| monitor.span),
            self.flows.as_ref().map(|flows| flows.span),
            self.links.as_ref().map(|links| links.span),
        ];
        of.into_iter().flatten().for_each(|part| span.join(part));
        span
    }

    fn read(&mut self, name: &str, path: &Path, rows: &mut Rows) -> Result<(), Error> {
        match name {
            "mrc-transport-stats" => self.stats = Some(Stats::read(path, rows)?),
            "mrc-events" => self.events = Some(Events::read(rows)?),
            "mrc-monitor" => self.monitor = Some(Monitor::read(path, rows)?),
            "flows" => self.flows = Some(Flows::read(rows)?),
            "links" => self.links = Some(Links::read(path, rows)?),
            _ => self.evs = Some(Evs::read(rows)?),
        }
        Ok(())
    }

    fn sections(&self) -> Vec<Section> {
        let sections = [
            self.stats.as_ref().map(Stats::section),
            self.events.as_ref().map(Events::section),
            self.monitor.as_ref().map(Monitor::section),
            self.flows.as_ref().map(Flows::section),
            self.links.as_ref().map(Links::section),
            self.evs.as_ref().map(Evs::section),
        ];
        sections.into_iter().flatten().collect()
    }
}

/// A page that is made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The page.
    pub html: String,
    /// Plots and tables on it.
    pub drawn: usize,
    /// Plots and tables for which there was nothing.
    pub not_drawn: usize,
    /// Files that were read, each with its number of rows.
    pub read: Vec<(String, u64)>,
    /// Names of files that are not there, without their endings.
    pub missing: Vec<&'static str>,
}

/// Makes a page of the records in a directory: of `mrc-transport-stats`, `mrc-events`, `mrc-monitor`, and of `flows`, `links` and `evs` as
/// `mrcnic sim` writes them, each `.csv` or `.jsonl`, whichever are there. A last row that is cut short, as where somebody still writes, is
/// left out.
///
/// # Errors
/// [`Error::Usage`] when the directory can't be read or has none of the files, or when a file lacks the columns without which nothing can be
/// drawn from it; [`Error::Failure`] for a row that is broken, with file and line.
pub fn make(dir: &Path, title: &str) -> Result<Made, Error> {
    let name = dir.display().to_string();
    match dir.metadata() {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(Error::Usage(format!("{name}: it is no directory: name the one that the records are in"))),
        Err(e) => return Err(Error::Usage(format!("can't read {name}: {e}"))),
    }
    let mut digest = Digest::default();
    let mut made = Made { html: String::new(), drawn: 0, not_drawn: 0, read: Vec::new(), missing: Vec::new() };
    let mut files: Vec<FileRow> = Vec::new();
    for (file, what) in FILES {
        let Some(path) = source::find(dir, file) else {
            made.missing.push(file);
            files.push((file.to_owned(), what, "not there".into()));
            continue;
        };
        let mut rows = Rows::open(&path)?;
        if !rows.is_empty() {
            digest.read(file, &path, &mut rows)?;
        }
        let state = state(&rows, dir, file, &path);
        files.push((rows.name().to_owned(), what, state));
        made.read.push((rows.name().to_owned(), rows.count()));
        tracing::info!(file = %path.display(), rows = rows.count(), "records are read");
    }
    if made.read.is_empty() {
        let names = FILES.map(|(file, _)| file).join(", ");
        return Err(Error::Usage(format!(
            "{name}: there are no records: none of {names} (.csv or .jsonl); mrcnic sim SCENARIO --records {name} makes some"
        )));
    }
    let sections = digest.sections();
    let panels = || sections.iter().flat_map(|section| &section.panels);
    made.not_drawn = panels().filter(|panel| panel.is_empty()).count();
    made.drawn = panels().count() - made.not_drawn;
    let figures = summary::figures(&digest);
    let page = Page { title, from: &name, figures: &figures, sections: &sections, files: &files, span: digest.span() };
    made.html = page.html()?;
    Ok(made)
}

/// What became of a file.
fn state(rows: &Rows, dir: &Path, file: &str, path: &PathBuf) -> String {
    let mut state = format!("{} rows", grouped(rows.count()));
    if rows.is_cut() {
        state.push_str("; the last row is cut short, and left out");
    }
    let other = dir.join(format!("{file}.jsonl"));
    if *path != other && other.is_file() {
        state.push_str("; there is a .jsonl too, which is left out");
    }
    state
}

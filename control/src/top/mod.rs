//! `mrcnic top`: a live view of running NICs, in a terminal.
//!
//! Surveys come over the operators' socket, on a thread of their own, so that a NIC that takes its time keeps no key waiting. What is known
//! (`model`) and how it is drawn (`view`) know nothing of each other's business, of the terminal or of the socket.

#[cfg(test)]
mod fixture;
mod keys;
mod model;
mod numbers;
mod rates;
mod source;
mod view;

use crate::controller::SurveyReport;
use crate::error::Error;
use model::Model;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event;
use source::{Came, Source};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often keys and signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What to show.
#[derive(Clone, Debug)]
pub struct Options {
    /// The NICs' socket.
    pub socket: PathBuf,
    /// Time between surveys, 100 ms to an hour.
    pub interval: Duration,
    /// The NIC to begin with; the first without.
    pub nic: Option<String>,
}

/// How a view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user wanted it.
    Quit,
    /// The NIC ended, as it should.
    NicEnded,
}

/// The first survey, which says whether there is anything to show.
fn begin(options: &Options) -> Result<Model, Error> {
    let report = source::survey(&options.socket)?;
    if let Some(name) = &options.nic {
        check_name(&report, name)?;
    }
    Ok(Model::new(report, options.nic.clone(), options.interval.as_secs_f64()))
}

fn check_name(report: &SurveyReport, name: &str) -> Result<(), Error> {
    if report.nics.iter().any(|nic| nic.name == *name) {
        return Ok(());
    }
    let names: Vec<&str> = report.nics.iter().map(|nic| nic.name.as_str()).collect();
    Err(Error::Usage(format!("--nic {name}: there is no such NIC; there are: {}", names.join(", "))))
}

/// Writes one frame as plain text, after two surveys: rates need both. It has `width` columns, and as many lines as it takes.
///
/// # Errors
/// [`Error::Usage`] when nobody listens at the socket or there is no such NIC, and what goes wrong on the way.
pub fn once(options: &Options, width: u16, out: &mut dyn Write) -> Result<(), Error> {
    let mut model = begin(options)?;
    std::thread::sleep(options.interval);
    model.take(source::survey(&options.socket)?);
    let width = width.max(view::SMALLEST.0);
    let backend = TestBackend::new(width, view::full_height(&model, width));
    let fault = |e: &dyn std::fmt::Display| Error::Failure(format!("the screen can't be drawn: {e}"));
    let mut terminal = Terminal::new(backend).map_err(|e| fault(&e))?;
    terminal.draw(|frame| view::draw(frame, &model)).map_err(|e| fault(&e))?;
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(width));
    // The last line names keys, which nobody can press here.
    for row in rows.take(usize::from(buffer.area.height) - 1) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The terminal, as it was when this goes. A panic restores it, too.
struct Screen(ratatui::DefaultTerminal);

impl Screen {
    fn new() -> Result<Screen, Error> {
        let terminal = ratatui::try_init().map_err(|e| {
            let _ = ratatui::try_restore();
            Error::Failure(format!("the terminal can't be taken over: {e}; --once needs none"))
        })?;
        Ok(Screen(terminal))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = ratatui::try_restore();
    }
}

/// Shows the NICs until the user or the NIC ends it, or `interrupted` is set.
///
/// # Errors
/// As [`once`]; and [`Error::Failure`] when the NIC dies, or the terminal breaks.
pub fn run(options: &Options, interrupted: &AtomicBool) -> Result<End, Error> {
    let mut model = begin(options)?;
    let source = Source::start(&options.socket)?;
    let mut screen = Screen::new()?;
    watch(options, &mut model, &source, &mut screen.0, interrupted)
}

fn watch(
    options: &Options,
    model: &mut Model,
    source: &Source,
    terminal: &mut ratatui::DefaultTerminal,
    interrupted: &AtomicBool,
) -> Result<End, Error> {
    let broken = |e: std::io::Error| Error::Failure(format!("the terminal is gone: {e}"));
    let mut asked: Option<Instant> = None;
    let mut due = Instant::now() + options.interval;
    let mut stale = true;
    while !interrupted.load(Ordering::Relaxed) {
        if asked.is_none() && !model.paused && Instant::now() >= due {
            source.ask();
            asked = Some(Instant::now());
        }
        match source.poll() {
            Some(Came::Survey(report)) => {
                due = asked.take().unwrap_or_else(Instant::now) + options.interval;
                model.take(*report);
                stale = true;
            }
            Some(Came::Trouble(why)) => {
                (asked, due) = (None, Instant::now() + options.interval);
                model.trouble = Some(why);
                stale = true;
            }
            Some(Came::Ended) => return Ok(End::NicEnded),
            Some(Came::Died) => return Err(died(&options.socket)),
            None => {}
        }
        if std::mem::take(&mut stale) {
            terminal.draw(|frame| view::draw(frame, model)).map_err(broken)?;
        }
        while event::poll(if stale { Duration::ZERO } else { LOOK }).map_err(broken)? {
            let event = event::read().map_err(broken)?;
            // A new size, too.
            stale = true;
            if let Some(action) = keys::action(&event)
                && model.act(action)
            {
                return Ok(End::Quit);
            }
        }
    }
    Ok(End::Quit)
}

fn died(socket: &Path) -> Error {
    Error::Failure(format!("{}: the NIC died: its socket is there, and nobody listens", socket.display()))
}

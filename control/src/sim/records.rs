//! Records of a run over virtual time that only a scenario has: its flows, links and entropy values.

use super::sample::Sample;
use crate::records::{Format, Sink};
use serde::Serialize;
use std::io;
use std::path::Path;

/// The files of a run: `flows`, `links` and `evs`.
pub struct Records {
    flows: Sink,
    links: Sink,
    evs: Sink,
}

impl Records {
    /// Makes the directory, if it is not there, and the files in it, anew.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(dir: &Path, format: Format) -> io::Result<Records> {
        std::fs::create_dir_all(dir)?;
        let file = |name| Sink::create(dir, name, format);
        Ok(Records { flows: file("flows")?, links: file("links")?, evs: file("evs")? })
    }

    /// Adds a row for each flow, link and port of a sample.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, sample: &Sample) -> io::Result<()> {
        rows(&mut self.flows, &sample.flows)?;
        rows(&mut self.links, &sample.links)?;
        rows(&mut self.evs, &sample.evs)
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(mut self) -> io::Result<()> {
        self.flows.flush()?;
        self.links.flush()?;
        self.evs.flush()
    }
}

fn rows<T: Serialize>(file: &mut Sink, rows: &[T]) -> io::Result<()> {
    rows.iter().try_for_each(|row| file.write(row))
}

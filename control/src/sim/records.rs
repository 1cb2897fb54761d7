//! Records of a run over virtual time, as CSV files.

use super::sample::Sample;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::path::Path;

/// The files of a run: `flows.csv`, `links.csv`, `evs.csv`.
pub struct Records {
    flows: csv::Writer<File>,
    links: csv::Writer<File>,
    evs: csv::Writer<File>,
}

impl Records {
    /// Makes the directory, if it is not there, and the files in it, anew.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(dir: &Path) -> io::Result<Records> {
        std::fs::create_dir_all(dir)?;
        let file = |name: &str| csv::Writer::from_path(dir.join(name)).map_err(io::Error::from);
        Ok(Records { flows: file("flows.csv")?, links: file("links.csv")?, evs: file("evs.csv")? })
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

fn rows<T: Serialize>(file: &mut csv::Writer<File>, rows: &[T]) -> io::Result<()> {
    rows.iter().try_for_each(|row| file.serialize(row)).map_err(io::Error::from)
}

//! Files that rows go into.

use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Comma-separated values, with a line of names
    #[default]
    Csv,
    /// A JSON object a line
    Jsonl,
}

impl Format {
    /// The ending of a file's name.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
        }
    }
}

/// A file of rows.
pub struct Sink(Kind);

enum Kind {
    Csv(Box<csv::Writer<File>>),
    Jsonl(BufWriter<File>),
}

impl Sink {
    /// Makes the file `name` in `dir`, with the ending of its format, anew.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(dir: &Path, name: &str, format: Format) -> io::Result<Sink> {
        let file = File::create(dir.join(format!("{name}.{}", format.ending())))?;
        Ok(Sink(match format {
            Format::Csv => Kind::Csv(Box::new(csv::Writer::from_writer(file))),
            Format::Jsonl => Kind::Jsonl(BufWriter::new(file)),
        }))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, row: &impl Serialize) -> io::Result<()> {
        match &mut self.0 {
            Kind::Csv(writer) => Ok(writer.serialize(row)?),
            Kind::Jsonl(writer) => {
                serde_json::to_writer(&mut *writer, row)?;
                writer.write_all(b"\n")
            }
        }
    }

    /// Writes what is held back.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Csv(writer) => writer.flush(),
            Kind::Jsonl(writer) => writer.flush(),
        }
    }
}

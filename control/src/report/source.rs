//! Records as a stream of rows: CSV or JSON lines, one row in memory at a time.

use crate::error::Error;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Longest line of a JSON file; a longer one is no record.
const LINE_MAX: u64 = 1 << 20;
/// Characters of a wrong value that an error quotes.
const QUOTED: usize = 40;
/// Largest number of us that is a time.
const TIME_MAX: f64 = 1e18;

/// A column, for [`Row`]; it may be one that the file has not, which is empty in every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column(usize);

/// A file of records, read row by row.
pub(super) struct Rows {
    name: String,
    format: Format,
    /// Columns of the file, and where each wanted one is kept.
    present: Vec<String>,
    wanted: Vec<&'static str>,
    /// Place in `values` for each field of a CSV row.
    places: Vec<Option<usize>>,
    values: Vec<Option<String>>,
    line: u64,
    rows: u64,
    /// Whether the last row was cut short, as where somebody still writes.
    cut: bool,
    ends_in_newline: bool,
}

enum Format {
    /// With a record that is used again and again.
    Csv(Box<csv::Reader<File>>, csv::StringRecord),
    /// With the line that is read next, and its places by name.
    Json { reader: BufReader<File>, line: String, places: HashMap<String, usize> },
}

/// A row of a file.
pub(super) struct Row<'a> {
    file: &'a str,
    line: u64,
    wanted: &'a [&'static str],
    values: &'a [Option<String>],
}

/// Where records of a name are: as CSV, or else as JSON lines.
pub(super) fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    ["csv", "jsonl"].into_iter().map(|ending| dir.join(format!("{name}.{ending}"))).find(|path| path.is_file())
}

impl Rows {
    /// Opens a file, and reads which columns it has; a file without a row has none.
    pub(super) fn open(path: &Path) -> Result<Rows, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let fault = |e: &dyn std::fmt::Display| Error::Usage(format!("can't read {}: {e}", path.display()));
        let mut file = File::open(path).map_err(|e| fault(&e))?;
        let ends_in_newline = ends_in_newline(&mut file).map_err(|e| fault(&e))?;
        let mut rows = Rows {
            name,
            format: Format::Json { reader: BufReader::new(file), line: String::new(), places: HashMap::new() },
            present: Vec::new(),
            wanted: Vec::new(),
            places: Vec::new(),
            values: Vec::new(),
            line: 1,
            rows: 0,
            cut: false,
            ends_in_newline,
        };
        if path.extension().is_some_and(|ending| ending == "csv") {
            let Format::Json { reader, .. } = rows.format else { unreachable!("made above") };
            let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(reader.into_inner());
            rows.present = match reader.headers() {
                Ok(header) => header.iter().map(|column| column.trim().to_owned()).collect(),
                Err(e) => return Err(Error::Failure(format!("{}:1: {}", rows.name, csv_words(&e)))),
            };
            rows.format = Format::Csv(Box::new(reader), csv::StringRecord::new());
        } else {
            rows.peek()?;
        }
        rows.places = vec![None; rows.present.len()];
        Ok(rows)
    }

    /// The columns of JSON lines are the keys of the first one.
    fn peek(&mut self) -> Result<(), Error> {
        self.line = 0;
        if self.read_line()? {
            let Format::Json { line, .. } = &self.format else { return Ok(()) };
            let first: Result<serde_json::Map<String, Value>, _> = serde_json::from_str(line);
            self.present = match first {
                Ok(row) => row.into_iter().map(|(key, _)| key).collect(),
                Err(_) if !self.ends_in_newline => Vec::new(),
                Err(e) => return Err(self.broken(&format_args!("this is no JSON object: {}", json_words(&e)))),
            };
        }
        Ok(())
    }

    /// Name of the file, without its directory.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Rows that were read.
    pub(super) const fn count(&self) -> u64 {
        self.rows
    }

    /// Whether the last row was cut short, and left out.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// True when the file has no column, so no row.
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.present.iter().any(|present| present == column)
    }

    /// A column to be read; empty in every row if the file has it not.
    pub(super) fn column(&mut self, name: &'static str) -> Column {
        if let Some(at) = self.wanted.iter().position(|wanted| *wanted == name) {
            return Column(at);
        }
        let at = self.wanted.len();
        self.wanted.push(name);
        self.values.push(None);
        if let Some(place) = self.present.iter().position(|present| present == name) {
            self.places[place] = Some(at);
            if let Format::Json { places, .. } = &mut self.format {
                places.insert(name.to_owned(), at);
            }
        }
        Column(at)
    }

    /// A column without which nothing can be made of the file.
    pub(super) fn need(&mut self, name: &'static str) -> Result<Column, Error> {
        if self.has(name) { Ok(self.column(name)) } else { Err(self.lacks(name)) }
    }

    /// Says that a column is not there.
    pub(super) fn lacks(&self, column: &str) -> Error {
        let name = &self.name;
        Error::Usage(format!(
            "{name}: there is no column {column}, and without it nothing can be drawn from the file: write the records anew, or take {name} away"
        ))
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        let there = match &self.format {
            Format::Csv(..) => self.next_csv()?,
            Format::Json { .. } => self.next_json()?,
        };
        if !there {
            return Ok(None);
        }
        self.rows += 1;
        Ok(Some(Row { file: &self.name, line: self.line, wanted: &self.wanted, values: &self.values }))
    }

    fn next_csv(&mut self) -> Result<bool, Error> {
        let Format::Csv(reader, record) = &mut self.format else { return Ok(false) };
        let read = reader.read_record(record);
        let last = reader.is_done();
        self.line = record.position().map_or(self.line, csv::Position::line);
        let wrong = match read {
            Ok(false) => return Ok(false),
            Ok(true) if record.len() == self.places.len() => None,
            Ok(true) => Some(format!("the row has {} fields, and the header {}", record.len(), self.places.len())),
            Err(e) => {
                self.line = e.position().map_or(self.line, csv::Position::line);
                Some(csv_words(&e))
            }
        };
        if let Some(why) = wrong {
            // A reader knows that it is done only after the last record.
            let at_end = last || reader.read_record(&mut csv::StringRecord::new()).is_ok_and(|more| !more);
            if at_end && !self.ends_in_newline {
                self.cut = true;
                return Ok(false);
            }
            return Err(self.broken(&why));
        }
        for (field, place) in record.iter().zip(&self.places) {
            if let Some(value) = place.and_then(|at| self.values.get_mut(at)) {
                put(value, field);
            }
        }
        Ok(true)
    }

    fn next_json(&mut self) -> Result<bool, Error> {
        // The first line is there since the file was opened.
        if self.rows > 0 && !self.read_line()? {
            return Ok(false);
        }
        let Format::Json { line, places, .. } = &mut self.format else { return Ok(false) };
        if line.is_empty() {
            return Ok(false);
        }
        for value in &mut self.values {
            put(value, "");
        }
        let mut json = serde_json::Deserializer::from_str(line);
        let read = Into { places, values: &mut self.values }.deserialize(&mut json).and_then(|()| json.end());
        match read {
            Ok(()) => Ok(true),
            Err(_) if !line.ends_with('\n') => {
                self.cut = true;
                Ok(false)
            }
            Err(e) => Err(self.broken(&format_args!("this is no JSON object: {}", json_words(&e)))),
        }
    }

    /// Reads a line that is not blank; false at the end.
    fn read_line(&mut self) -> Result<bool, Error> {
        let Format::Json { reader, line, .. } = &mut self.format else { return Ok(false) };
        loop {
            line.clear();
            self.line += 1;
            let read = Read::take(&mut *reader, LINE_MAX).read_line(line);
            return match read {
                Ok(0) => Ok(false),
                Ok(read) if read as u64 == LINE_MAX && !line.ends_with('\n') => {
                    Err(self.broken(&format_args!("a line has {LINE_MAX} bytes at most")))
                }
                Ok(_) if line.trim().is_empty() => continue,
                Ok(_) => Ok(true),
                Err(e) if e.kind() == ErrorKind::InvalidData => Err(self.broken(&"the line is no UTF-8")),
                Err(e) => Err(self.broken(&e)),
            };
        }
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> Error {
        Error::Failure(format!("{}:{}: {why}", self.name, self.line))
    }
}

/// Puts a text into a value, in the memory that it has; an empty one is none.
fn put(value: &mut Option<String>, text: &str) {
    let text = text.trim();
    if text.is_empty() {
        *value = None;
    } else {
        let kept = value.get_or_insert_default();
        kept.clear();
        if text.chars().any(is_odd) {
            kept.extend(text.chars().map(|c| if is_odd(c) { char::REPLACEMENT_CHARACTER } else { c }));
        } else {
            kept.push_str(text);
        }
    }
}

/// Whether a character can't stand in a page.
pub(super) fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')
}

fn ends_in_newline(file: &mut File) -> std::io::Result<bool> {
    let len = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if len > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(last == [b'\n'])
}

/// The reason alone, without the place, which we name ourselves.
fn csv_words(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "the row is no UTF-8".into(),
        csv::ErrorKind::Io(e) => e.to_string(),
        _ => error.to_string(),
    }
}

fn json_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// Reads a JSON object into the wanted values.
struct Into<'a> {
    places: &'a HashMap<String, usize>,
    values: &'a mut [Option<String>],
}

impl<'de> DeserializeSeed<'de> for Into<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Into<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match self.places.get(&*key).and_then(|&at| self.values.get_mut(at)) {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(value) => match map.next_value::<Value>()? {
                    Value::Null => *value = None,
                    Value::String(text) => put(value, &text),
                    other => put(value, &other.to_string()),
                },
            }
        }
        Ok(())
    }
}

impl Row<'_> {
    /// A value as text; empty where there is none.
    pub(super) fn text(&self, column: Column) -> &str {
        self.values[column.0].as_deref().unwrap_or_default()
    }

    /// A count; `None` where there is none.
    pub(super) fn count(&self, column: Column) -> Result<Option<u64>, Error> {
        self.parse(column, "is no whole number of 0 or more", |text| text.parse().ok())
    }

    /// A number; `None` where there is none.
    pub(super) fn number(&self, column: Column) -> Result<Option<f64>, Error> {
        self.parse(column, "is no number", |text| text.parse().ok().filter(|number: &f64| number.is_finite()))
    }

    /// A time in us, which every row has.
    pub(super) fn time(&self, column: Column) -> Result<f64, Error> {
        let time = self.parse(column, "is no time in us", |text| {
            text.parse().ok().filter(|time: &f64| (0.0..=TIME_MAX).contains(time))
        })?;
        time.ok_or_else(|| self.broken(column, &"is empty"))
    }

    fn parse<T>(&self, column: Column, why: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Error> {
        let Some(text) = &self.values[column.0] else { return Ok(None) };
        let quoted = || text.chars().take(QUOTED).collect::<String>();
        read(text).map(Some).ok_or_else(|| self.broken(column, &format_args!("{:?} {why}", quoted())))
    }

    fn broken(&self, column: Column, why: &dyn std::fmt::Display) -> Error {
        Error::Failure(format!("{}:{}: {}: {why}", self.file, self.line, self.wanted[column.0]))
    }
}

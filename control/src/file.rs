//! Reading a TOML file so that an error names the file, the line, the key, and the way out.

use crate::config::Finding;
use serde::de::DeserializeOwned;
use std::fmt;
use toml::de::{DeTable, DeValue};

/// Lets a type stand in a file as a name or as a table.
macro_rules! name_or_table {
    ($type:ty, $expecting:literal, $name:expr, $table:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Either;
                impl<'de> serde::de::Visitor<'de> for Either {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        $name(text)
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map($table)
                    }
                }
                deserializer.deserialize_any(Either)
            }
        }
    };
}
pub(crate) use name_or_table;

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1, where one is to blame.
    pub line: Option<usize>,
    /// The key with its tables, `fabric.host.rate`, where one is to blame; entries of an array count from 1.
    pub key: Option<String>,
    /// Why, and the way out.
    pub why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl From<Vec<Finding>> for FileError {
    /// What is wrong with a configuration, all of it.
    fn from(findings: Vec<Finding>) -> FileError {
        let mut findings = findings.into_iter();
        let Some(Finding { rule, file, line, key, why }) = findings.next() else {
            return FileError { file: String::new(), line: None, key: None, why: "nothing is wrong".into() };
        };
        let more: String = findings.map(|finding| format!("\nerror: {finding}")).collect();
        let key = Some(key).filter(|key| !key.is_empty());
        FileError { file, line, key, why: format!("{why} [{rule}]{more}") }
    }
}

/// A step on the way to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// A key of a table.
    Key(&'a str),
    /// An entry of an array, from 0.
    At(usize),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Step<'a> {
        Step::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(at: usize) -> Self {
        Step::At(at)
    }
}

/// "missing field `traffic`", and what to do about it.
fn missing(message: &str) -> String {
    let name = message.split('`').nth(1).unwrap_or_default();
    format!("{name} is missing: give it as a key, or as a table [{name}] or [[{name}]]")
}

/// A file: its text and its name.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) name: &'a str,
}

impl Source<'_> {
    /// Reads the whole file as `T`.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            let key = at.and_then(|at| {
                let table = DeTable::parse(self.text).ok()?;
                let mut path = Vec::new();
                covers(table.get_ref(), at, &mut path).then(|| path.join("."))
            });
            let whole = error.span().is_none_or(|span| span.is_empty());
            if whole && error.message().starts_with("missing field") {
                // Nothing that is there is to blame.
                return self.error(None, None, missing(error.message()));
            }
            let line = at.map(|at| self.line(at));
            self.error(line, key.filter(|key| !key.is_empty()), with_nearest(error.message()))
        })
    }

    /// Whether there is something at `path`.
    pub(crate) fn has(&self, path: &[Step<'_>]) -> bool {
        let Ok(table) = DeTable::parse(self.text) else { return false };
        let Some((Step::Key(first), rest)) = path.split_first() else { return false };
        let mut value = table.get_ref().get(*first).map(|value| value.get_ref());
        for step in rest {
            value = value
                .and_then(|value| match step {
                    Step::Key(key) => value.get(*key),
                    Step::At(at) => value.get(*at),
                })
                .map(|value| value.get_ref());
        }
        value.is_some()
    }

    /// What is wrong with the value at `path`, or where that is not given, with the nearest table around it.
    pub(crate) fn wrong(&self, path: &[Step<'_>], why: impl Into<String>) -> FileError {
        let names = path.iter().map(|step| match step {
            Step::Key(key) => (*key).to_owned(),
            Step::At(at) => (at + 1).to_string(),
        });
        let key = names.collect::<Vec<_>>().join(".");
        let line = DeTable::parse(self.text).ok().and_then(|table| place(table.get_ref(), path));
        self.error(line.map(|at| self.line(at)), Some(key).filter(|key| !key.is_empty()), why.into())
    }

    fn error(&self, line: Option<usize>, key: Option<String>, why: String) -> FileError {
        FileError { file: self.name.to_owned(), line, key, why }
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
    }
}

/// The path to the value, or else the key or table, that has the byte `at`.
fn covers(table: &DeTable<'_>, at: usize, path: &mut Vec<String>) -> bool {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        if key.span().contains(&at) || value_covers(value.get_ref(), at, path) || value.span().contains(&at) {
            return true;
        }
        path.pop();
    }
    false
}

fn value_covers(value: &DeValue<'_>, at: usize, path: &mut Vec<String>) -> bool {
    match value {
        DeValue::Table(table) => covers(table, at, path),
        DeValue::Array(array) => array.iter().enumerate().any(|(n, entry)| {
            path.push((n + 1).to_string());
            let found = value_covers(entry.get_ref(), at, path) || entry.span().contains(&at);
            if !found {
                path.pop();
            }
            found
        }),
        _ => false,
    }
}

/// Where the last step of a path that is there begins.
fn place(table: &DeTable<'_>, path: &[Step<'_>]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let Step::Key(name) = first else { return None };
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    Some(place_in(value.get_ref(), rest).unwrap_or(key.span().start))
}

fn place_in(value: &DeValue<'_>, path: &[Step<'_>]) -> Option<usize> {
    match (value, path.first()?) {
        (DeValue::Table(table), Step::Key(_)) => place(table, path),
        (DeValue::Array(array), Step::At(at)) => {
            let entry = array.get(*at)?;
            Some(place_in(entry.get_ref(), &path[1..]).unwrap_or(entry.span().start))
        }
        _ => None,
    }
}

/// The words of an error; where it names an unknown key or value and the known ones, the nearest of those comes first.
fn with_nearest(message: &str) -> String {
    let message = message.trim_end();
    let Some((start, known)) = message.split_once(", expected ") else { return message.to_owned() };
    let Some(rest) = start.strip_prefix("unknown field `").or_else(|| start.strip_prefix("unknown variant `")) else {
        return message.to_owned();
    };
    let what = if start.starts_with("unknown field") { "no such key" } else { "no such value" };
    let unknown = rest.trim_end_matches('`');
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let nearest = names.iter().map(|name| (strsim::damerau_levenshtein(unknown, name), *name)).min();
    let all = names.join(", ");
    match nearest {
        Some((distance, name)) if distance <= 2.max(unknown.len() / 3) => {
            format!("{what}: {unknown:?}; did you mean {name:?}? There are {all}")
        }
        _ => format!("{what}: {unknown:?}; there are {all}"),
    }
}

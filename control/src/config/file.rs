//! A configuration as a TOML file.

use super::rule::{Finding, Rule};
use super::set::OPTION;
use super::table::{attributes, find, nearest};
use super::value::Value;
use super::{Loaded, Place};
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The tables of what a NIC that runs, or a device of a program's, has beside its attributes.
const BESIDE: [&str; 2] = ["run", "device"];

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// Nothing sets it.
    Default,
    /// An option of the command line does, `--set`.
    Option,
    /// A file does.
    File {
        /// Its name.
        file: &'a str,
        /// The line, from 1, where there are such.
        line: Option<usize>,
    },
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Option => f.write_str(OPTION),
            Origin::File { file, line: Some(line) } => write!(f, "{file}:{line}"),
            Origin::File { file, line: None } => f.write_str(file),
        }
    }
}

/// A file while it is read.
struct Reader<'a> {
    text: &'a str,
    loaded: Loaded,
    wrong: Vec<Finding>,
}

impl Loaded {
    /// Reads a TOML file; `name` is what messages call it.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of lines where one is to blame.
    pub fn read(text: &str, name: &str) -> Result<Loaded, Vec<Finding>> {
        Loaded::read_with(text, name, &[])
    }

    /// The same, and attributes that take the place of the file's: `KEY=VALUE` each, as `--set` has them. The last one of a key counts, and
    /// the rules about several values are about what comes out.
    ///
    /// # Errors
    /// Everything that is wrong with the file, in the order of lines, then with the options.
    pub fn read_with(text: &str, name: &str, sets: &[String]) -> Result<Loaded, Vec<Finding>> {
        let loaded = Loaded { file: name.to_owned(), ..Loaded::default() };
        let mut reader = Reader { text, loaded, wrong: Vec::new() };
        match DeTable::parse(text) {
            Ok(table) => reader.table("", table.get_ref()),
            Err(error) => {
                let line = error.span().map(|span| reader.line(span.start));
                reader.wrong(Rule::Syntax, line, "", error.message().trim_end().to_owned());
            }
        }
        let Reader { mut loaded, mut wrong, .. } = reader;
        wrong.sort_by_key(|finding| finding.line);
        wrong.extend(sets.iter().filter_map(|set| loaded.set_option(set).err()));
        if wrong.is_empty() { loaded.checked() } else { Err(wrong) }
    }
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
    }

    fn wrong(&mut self, rule: Rule, line: Option<usize>, key: &str, why: String) {
        self.wrong.push(Finding { rule, file: self.loaded.file.clone(), line, key: key.to_owned(), why });
    }

    /// Reads the table at `prefix`, which is empty or ends with a point.
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            if prefix.is_empty() && BESIDE.contains(&key.get_ref().as_ref()) {
                // What `mrcnic run` starts, or a device is, is no attribute, and is read there.
                continue;
            }
            let full = format!("{prefix}{}", key.get_ref());
            let line = self.line(key.span().start);
            if key.get_ref().contains('.') {
                let why = "has a point in its name: put the section in brackets, in a line of its own";
                self.wrong(Rule::WrongNesting, Some(line), &full, why.into());
                continue;
            }
            match value.get_ref() {
                DeValue::Table(inner) if is_section(&full) => self.table(&format!("{full}."), inner),
                DeValue::Table(_) if find(&full).is_some() => {
                    self.wrong(
                        Rule::WrongNesting,
                        Some(line),
                        &full,
                        "is a key and no section: give it a value".into(),
                    );
                }
                DeValue::Table(_) => {
                    self.wrong(Rule::UnknownAttribute, Some(line), &full, unknown(&full, "section", sections()));
                }
                _ if is_section(&full) => {
                    let why = format!("is a section and no key: put [{full}] in a line of its own");
                    self.wrong(Rule::WrongNesting, Some(line), &full, why);
                }
                _ => self.key(line, &full, value),
            }
        }
    }

    fn key(&mut self, line: usize, full: &str, value: &Spanned<DeValue<'_>>) {
        let Some(attribute) = find(full) else {
            return self.wrong(Rule::UnknownAttribute, Some(line), full, no_such_key(full));
        };
        let Some(value) = plain(value.get_ref()) else {
            let why = format!("is no value of the type {}", attribute.kind.name());
            return self.wrong(Rule::WrongType, Some(line), full, why);
        };
        match attribute.set(&mut self.loaded.config, &value) {
            Ok(()) => {
                self.loaded.set.insert(attribute.full, Place::Line(line));
            }
            Err((rule, why)) => self.wrong(rule, Some(line), full, why),
        }
    }
}

/// What is said of a name that is none, and the nearest of those that are.
fn unknown(full: &str, what: &str, known: Vec<&'static str>) -> String {
    let hint = match nearest(full, known) {
        Some(name) => format!("did you mean {name}?"),
        None => "mrcnic config show lists all of them".to_owned(),
    };
    format!("there is no such {what}; {hint}")
}

/// What is said of a key that is none.
pub(super) fn no_such_key(full: &str) -> String {
    unknown(full, "key", attributes().map(|attribute| attribute.full).collect())
}

/// The sections, each once.
fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = attributes().map(|attribute| attribute.section).collect();
    sections.dedup();
    sections
}

/// Whether a name is that of a section, or of several.
pub(super) fn is_section(name: &str) -> bool {
    let within =
        |section: &str| section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    sections().into_iter().any(within)
}

/// The value as attributes take it.
pub(super) fn plain(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Boolean(bool) => Value::Bool(*bool),
        DeValue::Integer(number) => Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok()?),
        DeValue::Float(number) => Value::Decimal(number.as_str().parse().ok()?),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
    })
}

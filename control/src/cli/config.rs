//! `mrcnic config`.

use super::output::standard_output;
use crate::config::{Attribute, Finding, Loaded, Origin, Switches, attributes, document, export};
use crate::error::{Error, say};
use crate::run::RunFile;
use clap::{Subcommand, ValueEnum};
use comfy_table::{Table, TableComponent, presets};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `mrcnic config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic config show --file nic.toml
  mrcnic config check nic.toml --switches flowlet
  mrcnic config check nic.toml --set qp_manager.initial_ack_timeout=200us
  mrcnic config import params.json > nic.toml
  mrcnic config export nic.toml | jq .ScalaMrcNscc")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every attribute: its value, and whether that is the default or from which line it comes
    Show(Show),
    /// Check a file by all rules, and its table [run] if it has one; the exit code is 2 where it is stopped
    Check(Check),
    /// Turn the nested form of the Scala MRC NIC documentation into TOML
    Import {
        /// The nested form, in JSON: complete, or a patch
        #[arg(value_name = "PARAMS.json")]
        params: PathBuf,
    },
    /// Turn a file into the nested form, with all attributes
    Export {
        /// The configuration, in TOML
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
    },
    /// Print docs/configuration.md
    Docs,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The configuration, in TOML; the defaults without it
    #[arg(long, value_name = "FILE.toml")]
    file: Option<PathBuf>,
    /// Show the defaults
    #[arg(long, conflicts_with_all = ["file", "set"])]
    defaults: bool,
    /// An attribute in place of the file's, as in nic.enable_monitor=true; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Check {
    /// The configuration, in TOML; with --set the defaults will do
    #[arg(value_name = "FILE.toml", required_unless_present = "set")]
    file: Option<PathBuf>,
    /// An attribute in place of the file's, as in nic.enable_monitor=true; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What is known of the switches between NICs
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    switches: Vec<Switch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// One balances load by flowlets
    Flowlet,
    /// One does not trim
    NoTrimming,
}

/// Version of the JSON form.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    attributes: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    section: &'a str,
    key: &'a str,
    /// Components and name in the documentation; `null` for one of our own.
    attribute: Option<String>,
    #[serde(rename = "type")]
    kind: &'a str,
    value: String,
    default: &'a str,
    source: String,
    acts: String,
}

/// Runs a command on configurations.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let mut out = standard_output(false);
    match &args.command {
        Command::Show(args) => show(args, &mut *out)?,
        Command::Check(args) => check(args, &mut *out)?,
        Command::Import { params } => {
            let loaded = load(params, Loaded::import)?;
            warn(&loaded.warnings(Switches::default()));
            out.write_all(loaded.toml().as_bytes())?;
        }
        Command::Export { file } => write_nested(file, &mut *out)?,
        Command::Docs => out.write_all(document().as_bytes())?,
    }
    Ok(out.flush()?)
}

fn write_nested(file: &Path, out: &mut dyn Write) -> Result<(), Error> {
    let loaded = load(file, Loaded::read)?;
    let is_left_out =
        |attribute: &&Attribute| !attribute.is_documented() && loaded.origin(attribute) != Origin::Default;
    for attribute in attributes().filter(is_left_out) {
        say(&format!("note: {} is no attribute of the documentation, and is left out", attribute.full));
    }
    serde_json::to_writer_pretty(&mut *out, &export(&loaded.config)).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Reads a configuration, or says all that is wrong with it.
pub(super) fn load<T>(path: &Path, read: impl Fn(&str, &str) -> Result<T, Vec<Finding>>) -> Result<T, Error> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Error::Usage(format!("can't read {name}: {e}")))?;
    tracing::debug!(file = name, bytes = text.len(), "a configuration is read");
    read(&text, &name).map_err(|findings| Finding::refusal(&findings))
}

/// Reads the file, if there is one, and sets attributes, `KEY=VALUE` each; or says all that is wrong.
pub(super) fn load_with(file: Option<&Path>, sets: &[String]) -> Result<Loaded, Error> {
    match file {
        Some(file) => load(file, |text, name| Loaded::read_with(text, name, sets)),
        None => Loaded::set_alone(sets).map_err(|findings| Finding::refusal(&findings)),
    }
}

/// Says what a configuration does that its writer may not have meant.
pub(super) fn warn(findings: &[Finding]) {
    for finding in findings {
        say(&format!("warning: {finding}"));
    }
}

fn check(args: &Check, out: &mut dyn Write) -> Result<(), Error> {
    let loaded = load_with(args.file.as_deref(), &args.set)?;
    if let Some(file) = &args.file {
        load(file, |text, name| Ok(RunFile::read(text, name)))?.map_err(|e| Error::Usage(e.to_string()))?;
    }
    let knows = |switch| args.switches.contains(&switch);
    let switches = Switches { flowlet: knows(Switch::Flowlet), no_trimming: knows(Switch::NoTrimming) };
    let warnings = loaded.warnings(switches);
    warn(&warnings);
    let count = warnings.len();
    let name =
        args.file.as_ref().map_or_else(|| "the defaults with --set".to_owned(), |file| file.display().to_string());
    writeln!(out, "{name}: valid, {count} warning{}", if count == 1 { "" } else { "s" })?;
    Ok(())
}

fn show(args: &Show, out: &mut dyn Write) -> Result<(), Error> {
    let loaded = load_with(args.file.as_deref(), &args.set)?;
    let rows: Vec<Row<'_>> = attributes()
        .map(|attribute| Row {
            section: attribute.section,
            key: attribute.key,
            attribute: attribute.is_documented().then(|| attribute.document_name()),
            kind: attribute.kind.name(),
            value: attribute.get(&loaded.config).to_string(),
            default: attribute.default,
            source: loaded.origin(attribute).to_string(),
            acts: attribute.acts.to_string(),
        })
        .collect();
    if args.json {
        serde_json::to_writer(&mut *out, &Report { schema: SCHEMA, attributes: rows }).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write_text(&rows, out)?;
    }
    Ok(())
}

fn write_text(rows: &[Row<'_>], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["key", "value", "source"]);
    for part in [TableComponent::HeaderLines, TableComponent::MiddleHeaderIntersections] {
        table.set_style(part, '─');
    }
    let mut section = "";
    for row in rows {
        if row.section != section {
            section = row.section;
            table.add_row([&format!("[{section}]"), "", ""]);
        }
        table.add_row([row.key, &row.value, &row.source]);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

//! `mrcnic man`: manual pages, made from the command line's own description.

use super::output::standard_output;
use crate::error::Error;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `mrcnic man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic man | man -l -
  mrcnic man --out ~/.local/share/man/man1")]
pub(super) struct Args {
    /// Write the pages of all subcommands into this directory: mrcnic.1, mrcnic-bench.1 and so on
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What a page says of exit codes.
const EXIT_CODES: [(&str, &str); 3] = [
    ("0", "All went well. That somebody closed standard output early, as head(1) does, is no failure."),
    ("1", "A failure on the way: something could not be read or written, or a byte did not arrive as it was sent."),
    ("2", "The command line is wrong, or a file that it names is not there, of another kind, or has wrong content."),
];

/// What a page says of the environment.
const ENVIRONMENT: [(&str, &str); 3] = [
    (
        "NO_COLOR",
        "If set and not empty, events on standard error have no colours; nor have they where that is no terminal.",
    ),
    (
        "XDG_RUNTIME_DIR",
        "Where DPDK keeps its run-time files for a user who is not root; they go when the process ends.",
    ),
    ("RUST_LOG", "Not read: --log takes the same directives."),
];

/// What a page says of files.
const FILES: [(&str, &str); 3] = [
    ("/var/run/dpdk/", "DPDK's run-time files where root runs it, under a prefix of the process's own."),
    (
        "/dev/hugepages",
        "Taken by DPDK if it has enough free pages that the user may write; otherwise ordinary memory is.",
    ),
    ("PATH of --ctl", "The UNIX socket of a running NIC (mode 0600), which mrcnic ctl asks; it goes with the NIC."),
];

/// Writes the main page to standard output, or all pages into a directory.
pub(super) fn run(args: &Args, command: Command) -> Result<(), Error> {
    let pages = pages(command)?;
    let mut out = standard_output(false);
    let Some(dir) = &args.out else {
        for (_, page) in pages.iter().take(1) {
            out.write_all(page)?;
        }
        return Ok(out.flush()?);
    };
    let fault = |path: &std::path::Path, e: &io::Error| Error::Usage(format!("can't write {}: {e}", path.display()));
    std::fs::create_dir_all(dir).map_err(|e| fault(dir, &e))?;
    for (name, page) in pages {
        let path = dir.join(name);
        std::fs::write(&path, page).map_err(|e| fault(&path, &e))?;
        tracing::info!(file = %path.display(), "a manual page is written");
        writeln!(out, "{}", path.display())?;
    }
    Ok(out.flush()?)
}

/// File names and content of all pages, the main one first.
pub(super) fn pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // `help` is explained by `--help` already.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let man = Man::new(command.clone()).source(concat!("mrcnic ", env!("CARGO_PKG_VERSION"))).manual("mrcnic manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name());
    page.extend_from_slice(more(command, name).to_roff().as_bytes());
    pages.push((man.get_filename(), page));
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| collect(sub, pages))
}

/// The sections that the description of the command line does not have.
fn more(command: &Command, name: &str) -> Roff {
    let mut roff = Roff::new();
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let help = help.to_string();
        let (notes, examples) = help.split_once("Examples:\n").unwrap_or((&help, ""));
        for (title, text) in [("NOTES", notes), ("EXAMPLES", examples)] {
            if !text.trim().is_empty() {
                roff.control("SH", [title]).control("nf", []);
                for line in text.trim_end().lines() {
                    roff.text([roman(line)]);
                }
                roff.control("fi", []);
            }
        }
    }
    list(&mut roff, "EXIT STATUS", &EXIT_CODES);
    list(&mut roff, "ENVIRONMENT", &ENVIRONMENT);
    list(&mut roff, "FILES", &FILES);
    if let Some((parent, _)) = name.rsplit_once('-') {
        roff.control("SH", ["SEE ALSO"]).text([bold(parent), roman("(1)")]);
    }
    roff
}

fn list(roff: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (term, text) in entries {
        roff.control("TP", []).text([bold(*term)]).text([roman(*text)]);
    }
}

//! `mrcnic report`.

use super::output::standard_output;
use crate::error::Error;
use crate::report::{Made, make};
use crate::text::grouped;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Draw the records of a run: one HTML page that needs nothing else
///
/// It takes whatever records are in the directory, as CSV or JSON lines: mrc-transport-stats, mrc-events and mrc-monitor, and flows, links and
/// evs of `mrcnic sim --records`. The page has no script and loads nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic sim docs/scenarios/failover.toml --records out && mrcnic report out
  mrcnic report out --title \"Failover\" --out failover.html")]
pub(super) struct Args {
    /// Where the records are
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The page to write; `-` is standard output
    #[arg(long, value_name = "FILE.html", default_value = "report.html")]
    out: PathBuf,
    /// What the page is called [default: the directory's name]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// Writes a page.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    let title = args.title.clone().unwrap_or_else(|| {
        let whole = args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone());
        let name =
            whole.file_name().map_or_else(|| whole.display().to_string(), |name| name.to_string_lossy().into_owned());
        format!("MRC records: {name}")
    });
    let made = make(&args.dir, &title)?;
    let mut out = standard_output(false);
    if args.out == Path::new("-") {
        out.write_all(made.html.as_bytes())?;
        return Ok(out.flush()?);
    }
    let name = args.out.display();
    std::fs::write(&args.out, &made.html).map_err(|e| Error::Usage(format!("can't write {name}: {e}")))?;
    tracing::info!(file = %name, bytes = made.html.len(), "a page is written");
    tell(&args.out, &made, &mut *out)?;
    Ok(out.flush()?)
}

fn tell(path: &Path, made: &Made, out: &mut dyn Write) -> std::io::Result<()> {
    let read: Vec<String> = made.read.iter().map(|(name, rows)| format!("{name} ({} rows)", grouped(*rows))).collect();
    writeln!(out, "{}: {} plots and tables, from {}", path.display(), made.drawn, read.join(", "))?;
    if made.not_drawn > 0 {
        writeln!(out, "not drawn: {}; the page says why", made.not_drawn)?;
    }
    if !made.missing.is_empty() {
        writeln!(out, "not there: {}", made.missing.join(", "))?;
    }
    Ok(())
}

//! `mrcnic run`.

use super::output::standard_output;
use crate::error::{Error, say};
use crate::run::{LogLevel, NicFile, run as run_nic};
use std::io::Write;
use std::path::PathBuf;

/// Run a NIC until it is told to go
///
/// The file has the NIC's attributes, as `mrcnic config` reads them, and a table [run] with its ports, addresses, regions and peers
/// (docs/run.md). SIGTERM and SIGINT end it once nothing is in flight, SIGHUP has it read the file again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mrcnic run --config a.toml
  mrcnic run --config a.toml --show
  mrcnic ctl --socket /run/mrcnic/a.sock peers
  mrcnic ctl --socket /run/mrcnic/a.sock write --peer b --size 1MiB --count 100")]
pub(super) struct Args {
    /// The NIC's file
    #[arg(long, value_name = "FILE.toml")]
    config: PathBuf,
    /// Start nothing: print what the files of peers need whose numbers are not exchanged
    #[arg(long)]
    show: bool,
}

/// Runs the command; `log` sets how much is logged from then on.
pub(super) fn run(args: &Args, log: &dyn Fn(LogLevel)) -> Result<(), Error> {
    let file = NicFile::load(&args.config)?;
    for warning in file.warnings() {
        say(&format!("warning: {warning}"));
    }
    let mut out = standard_output(false);
    if args.show {
        let pairing = file.pairing();
        if pairing.is_empty() {
            say("every peer exchanges its numbers with this NIC: its file needs no more than names and addresses");
        }
        out.write_all(pairing.as_bytes())?;
        out.flush()?;
        return Ok(());
    }
    run_nic(file, &mut *out, log)
}

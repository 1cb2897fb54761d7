//! How a command fails.

use crate::records::capture::CaptureError;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Exit code of a failure.
pub(crate) const FAILURE: u8 = 1;
/// Exit code of a wrong command line, as clap's.
pub(crate) const USAGE: u8 = 2;

/// Why a command did not succeed. It decides the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is wrong, or names a file that is not there or of the wrong kind: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Something went wrong on the way: exit code 1.
    #[error("{0}")]
    Failure(String),
    /// A capture can't be read: exit code 2 where the wrong file was named, else 1.
    #[error("{0}")]
    Capture(#[from] CaptureError),
    /// DPDK, a port or a worker: exit code 2 where what the user named is not there, else 1.
    #[error("{0}")]
    Dpdk(#[from] dataplane::dpdk::Error),
    /// Standard output can't be written. Who closed it, as `head` does, wants no more: that ends the command quietly.
    #[error("can't write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// Prints the error, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self {
            Error::Output(e) if e.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Error::Usage(_) => USAGE,
            Error::Capture(e) if e.is_wrong_file() => USAGE,
            Error::Dpdk(e) if e.is_usage() => USAGE,
            Error::Failure(_) | Error::Dpdk(_) | Error::Capture(_) | Error::Output(_) => FAILURE,
        };
        say(&format!("error: {self}"));
        ExitCode::from(code)
    }
}

/// Writes a line to standard error. A closed one is no reason to panic, as `eprintln!` would.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

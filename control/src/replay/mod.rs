//! Replaying captures: a file goes through a `net_pcap` port into a NIC that answers as the responder.
//!
//! The file is read twice. The first pass (`scan`) is by our own reader: it learns the QPs, and notices what `net_pcap` passes
//! over in silence. The second (`drive`) is by DPDK, on the calling thread; what it handed on is held against the first.

mod drive;
mod peers;
mod rate;
mod report;
mod scan;
#[cfg(test)]
mod tests;

pub use rate::Rate;
pub use report::Report;

use crate::records::capture::{CaptureError, LinkType};
use dataplane::wire::{DscpMap, Rules, UDP_PORT, UDP_PORT_ALTERNATE, UDP_PORTS_MAX};
use std::fs::{Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// UDP ports that can be named besides the two that MRC is known to use.
pub const MORE_PORTS: usize = UDP_PORTS_MAX - 2;

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The capture.
    pub file: PathBuf,
    /// Where the NIC's answers go; dropped without one.
    pub out: Option<PathBuf>,
    /// How often the capture goes through the NIC.
    pub rounds: u64,
    /// How fast; as fast as possible without one.
    pub rate: Option<Rate>,
    /// `MaxPSNRange` of the NIC.
    pub window: u32,
    /// UDP destination ports that carry MRC, besides 4791 and 4971; [`MORE_PORTS`] at most.
    pub ports: Vec<u16>,
}

impl Options {
    fn rules(&self) -> Rules {
        let mut udp_ports = [UDP_PORT, UDP_PORT_ALTERNATE, 0, 0];
        for (room, &port) in udp_ports[2..].iter_mut().zip(&self.ports) {
            *room = port;
        }
        Rules { udp_ports, dscp: DscpMap::default() }
    }
}

/// Why a capture can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The capture can't be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// DPDK did not start, or a port did not open.
    #[error(transparent)]
    Dpdk(#[from] dataplane::dpdk::Error),
    /// The capture can be read once only.
    #[error("{name}: is no regular file, and replay reads it twice: save it to a file first")]
    NotAFile {
        /// The file.
        name: String,
    },
    /// Interfaces of several link types.
    #[error(
        "{name}: holds {other} packets beside Ethernet, and libpcap, which DPDK reads captures with, takes one link type a \
         file: keep one interface (tshark -r {name} -Y 'frame.interface_id == 0' -F pcap -w ethernet.pcap)"
    )]
    MixedLinkTypes {
        /// The file.
        name: String,
        /// What is not Ethernet.
        other: LinkType,
    },
    /// The answers can't be written.
    #[error("{name}: can't be written: {why}")]
    Out {
        /// The file.
        name: String,
        /// The reason, and a way out.
        why: String,
    },
    /// The answers are not all there.
    #[error("{name}: holds {len} of {expected} bytes of answers; is the disk full?")]
    OutCutShort {
        /// The file.
        name: String,
        /// Its size.
        len: u64,
        /// The size that all answers take.
        expected: u64,
    },
    /// Stopped before it began.
    #[error("interrupted while the capture was scanned; nothing was replayed")]
    Interrupted,
    /// The engine refused something: not for a reason that a capture could give.
    #[error("the NIC could not be set up: {0}")]
    Nic(String),
}

impl Error {
    /// True when another command line would have worked.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Capture(e) => e.is_wrong_file(),
            Error::Dpdk(e) => e.is_usage(),
            Error::NotAFile { .. } | Error::MixedLinkTypes { .. } | Error::Out { .. } => true,
            Error::OutCutShort { .. } | Error::Interrupted | Error::Nic(_) => false,
        }
    }
}

/// Replays a capture. It starts DPDK, so a process can do it once. Once `stop` is set, it ends early, with a report of what was
/// done until then.
///
/// # Errors
/// [`Error`]. What is odd about the capture and no hindrance is among the report's warnings.
pub fn replay(options: &Options, stop: &AtomicBool) -> Result<Report, Error> {
    check_in(&options.file)?;
    if let Some(out) = &options.out {
        check_out(out, &options.file)?;
    }
    let rules = options.rules();
    let scan = scan::scan(&options.file, &rules, stop)?;
    let outcome = drive::drive(options, &rules, &scan, stop)?;
    if let Some(out) = &options.out {
        check_size(out, &outcome)?;
        tracing::info!(file = %out.display(), frames = outcome.responses, "the answers are written");
    }
    Ok(Report::new(options, &scan, outcome))
}

/// The capture is read twice. What is not there at all is left to who opens it.
fn check_in(file: &Path) -> Result<(), Error> {
    let name = || if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let twice = file != Path::new("-") && file.metadata().map_or(true, |meta| meta.is_file() || meta.is_dir());
    if twice { Ok(()) } else { Err(Error::NotAFile { name: name() }) }
}

/// The file of answers can be opened, and is not the capture. Nothing is changed yet.
fn check_out(out: &Path, file: &Path) -> Result<(), Error> {
    let fail = |why: String| Error::Out { name: out.display().to_string(), why };
    if out == Path::new("-") {
        return Err(fail("answers go to a file, not to standard output: name one".into()));
    }
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (out.metadata(), file.metadata()) {
        (Ok(out), Ok(file)) if same(&out, &file) => {
            Err(fail("it is the capture that is replayed: name another file".into()))
        }
        (Ok(meta), _) if meta.is_dir() => Err(fail("it is a directory: name a file in it".into())),
        // Opening a pipe would wait for its reader.
        (Ok(meta), _) if !meta.is_file() => Ok(()),
        (Ok(_), _) => OpenOptions::new().append(true).open(out).map(|_| ()).map_err(|e| fail(words(&e))),
        (Err(e), _) if e.kind() == ErrorKind::NotFound => {
            let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match folder.metadata() {
                Ok(meta) if meta.is_dir() => Ok(()),
                Ok(_) => Err(fail(format!("{} is no directory", folder.display()))),
                Err(e) => Err(fail(format!("{}: {}", folder.display(), words(&e)))),
            }
        }
        (Err(e), _) => Err(fail(words(&e))),
    }
}

/// `net_pcap` does not tell when the disk is full.
fn check_size(out: &Path, outcome: &drive::Outcome) -> Result<(), Error> {
    /// Header of a pcap file, and of each record.
    const FILE: u64 = 24;
    const RECORD: u64 = 16;
    let expected = FILE + outcome.responses * RECORD + outcome.response_bytes;
    match out.metadata() {
        Ok(meta) if meta.is_file() && meta.len() < expected => {
            Err(Error::OutCutShort { name: out.display().to_string(), len: meta.len(), expected })
        }
        _ => Ok(()),
    }
}

/// The system's words without its "(os error 2)".
fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

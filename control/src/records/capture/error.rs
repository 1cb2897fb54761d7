//! Why a capture can't be read.

use super::LinkType;
use std::io;

/// A capture that can't be read, or not to its end.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct CaptureError {
    /// The file.
    pub name: String,
    /// What is wrong with it.
    pub reason: Reason,
}

impl CaptureError {
    /// True when the wrong file was named, false when a right one turned out bad on the way.
    #[must_use]
    pub const fn is_wrong_file(&self) -> bool {
        !matches!(self.reason, Reason::Read(_) | Reason::Damaged { .. })
    }
}

/// What is wrong with a capture.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// It can't be opened.
    #[error("can't be opened: {}", plain(.0))]
    Open(#[source] io::Error),
    /// It is a directory.
    #[error("is a directory: name a capture file in it")]
    Directory,
    /// It has no byte.
    #[error("is empty (0 bytes): was the capture stopped before it was written?")]
    Empty,
    /// The first bytes are those of another kind of file.
    #[error("is not a capture: {0}")]
    NotACapture(String),
    /// No interface gives Ethernet frames.
    #[error(
        "holds {0} packets, and only Ethernet (link type 1) can be read: capture on one Ethernet interface \
         (tcpdump -i eth0, not -i any)"
    )]
    NotEthernet(LinkType),
    /// Reading failed.
    #[error("can't be read: {}", plain(.0))]
    Read(#[source] io::Error),
    /// A record makes no sense.
    #[error("is damaged at byte {at}: {what}; what comes before was read")]
    Damaged {
        /// Byte of the file at which the record begins.
        at: u64,
        /// What is wrong with the record.
        what: String,
    },
}

/// The system's words without its "(os error 2)".
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

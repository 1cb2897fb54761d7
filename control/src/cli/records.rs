//! Options of commands that keep records.

use crate::config::RecordSettings;
use crate::records::{CaptureSpec, Format, RecordSpec, SNAPLEN_MAX};
use std::path::PathBuf;

/// What is recorded.
#[derive(Debug, clap::Args)]
pub(super) struct RecordArgs {
    /// Write records into this directory, those that the configuration switches on: mrc-transport-stats, mrc-events, mrc-monitor
    #[arg(long, value_name = "DIR")]
    pub(super) records: Option<PathBuf>,
    /// How records are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Csv)]
    pub(super) record_format: Format,
    /// Write the packets that the monitor selects into a pcapng file, with a comment on each
    #[arg(long, value_name = "FILE.pcapng")]
    pub(super) capture: Option<PathBuf>,
    /// Bytes of each packet that the capture keeps
    #[arg(long, value_name = "BYTES", default_value_t = SNAPLEN_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(SNAPLEN_MAX)))]
    pub(super) snaplen: u32,
}

impl RecordArgs {
    /// What is to be recorded, of which records there are by `settings`; those of the defaults where nothing is configured.
    pub(super) fn spec(&self, settings: Option<RecordSettings>) -> RecordSpec {
        let default = RecordSpec::default();
        RecordSpec {
            dir: self.records.clone(),
            format: self.record_format,
            settings: settings.unwrap_or(default.settings),
            capture: self.capture.clone().map(|path| CaptureSpec { path, snaplen: self.snaplen }),
        }
    }
}

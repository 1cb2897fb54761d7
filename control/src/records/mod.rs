//! What is read from and written to files: captures, and the records of NICs.

pub mod capture;
mod live;
mod pcapng;
mod recorder;
mod rows;
mod selector;
mod sink;
mod tap;

pub use live::{Recording, WorkerRecords};
pub use pcapng::PacketCapture;
pub use recorder::{CaptureSpec, RecordCounts, RecordSpec, Recorder, SNAPLEN_MAX};
pub use rows::{EventRow, Node, PacketRow, StatsRow};
pub use selector::{MonitorTotals, Selector};
pub use sink::{Format, Sink};
pub use tap::RecordTap;

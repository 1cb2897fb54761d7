//! Memory that peers write, and that is written to them.

use super::file::RegionTable;
use crate::host::{Device, MemoryRegion, ProtectionDomain};
use dataplane::memory::{Access, Buffer};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// A region in a domain of its own: a peer's QPs reach it, and no other one.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) table: RegionTable,
    pub(super) domain: ProtectionDomain,
    pub(super) region: MemoryRegion,
}

/// The memory of a region.
pub(super) fn memory(table: &RegionTable) -> Result<Arc<Buffer>, String> {
    let wrong = |why: String| format!("region {:?}: {why}", table.name);
    let size =
        usize::try_from(table.size.0).map_err(|_| wrong("it is larger than this machine's address space".into()))?;
    let Some(path) = &table.file else {
        return Buffer::try_new(size).ok_or_else(|| wrong(format!("there is no memory of {size} bytes")));
    };
    map(path, size).map_err(|e| wrong(format!("{}: {e}", path.display())))
}

fn map(path: &Path, size: usize) -> std::io::Result<Arc<Buffer>> {
    // For this user alone, where it is new.
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    Buffer::map(&file, size)
}

impl Room {
    /// Registers a region.
    pub(super) fn new(device: &Device, table: RegionTable, memory: &Arc<Buffer>) -> Result<Arc<Room>, String> {
        let domain = device.domain();
        let region = domain.register(memory, Access { remote_write: true }, Some(0)).map_err(|e| e.to_string())?;
        Ok(Arc::new(Room { table, domain, region }))
    }
}

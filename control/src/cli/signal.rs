//! Ctrl-C, and the other signals that ask a command to end.

use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set once the process gets SIGINT, SIGTERM or SIGHUP; a process can have one.
///
/// # Errors
/// [`Error::Failure`] when signals can't be watched.
pub(super) fn interrupted() -> Result<Arc<AtomicBool>, Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    // The handler has a thread of its own, so it may log.
    ctrlc::set_handler(move || {
        tracing::info!("a signal asks to end: what was measured until now is reported");
        flag.store(true, Ordering::Relaxed);
    })
    .map_err(|e| Error::Failure(format!("can't watch for Ctrl-C: {e}")))?;
    Ok(interrupted)
}

//! DPDK tells some failures to its log alone. The log is kept in memory, so that an error can quote it and a success
//! stays quiet.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::error::Said;

/// Bytes kept: what comes later is lost, so that a driver that logs each frame can't fill the memory.
const ROOM: u64 = 256 << 10;

/// Lines quoted in an error.
const QUOTED: usize = 3;

/// Each step that may fail holds this, which also keeps DPDK's control calls from running at once.
static STEP: Mutex<()> = Mutex::new(());
static LOG: OnceLock<Option<File>> = OnceLock::new();

fn log() -> Option<&'static File> {
    LOG.get_or_init(|| {
        // SAFETY: the name is a C string; the descriptor returned is new and owned by nobody else.
        let fd =
            unsafe { libc::memfd_create(c"mrcnic-dpdk-log".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return None;
        }
        // SAFETY: as above.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(ROOM).ok()?;
        // SAFETY: plain calls on descriptors that are open; the duplicate is given away to the stream. It shares its
        // place in the file with ours, which `capture` turns back.
        unsafe {
            libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_GROW);
            let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
            if copy < 0 || dpdk_sys::mrc_log_to_fd(copy) != 0 {
                return None;
            }
        }
        Some(file)
    })
    .as_ref()
}

fn lock() -> MutexGuard<'static, ()> {
    STEP.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rewind() {
    if let Some(mut file) = log() {
        let _ = file.seek(SeekFrom::Start(0));
    }
}

fn read() -> Said {
    let Some(mut file) = log() else { return Said::default() };
    let end = file.stream_position().unwrap_or(0).min(ROOM);
    let mut bytes = vec![0; usize::try_from(end).unwrap_or(0)];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Said::default();
    }
    let mut lines: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&bytes).lines().map(str::trim) {
        // Drivers complain that there are no secondary processes, which is how it is meant.
        if line.is_empty() || line.contains("mp action callback") {
            continue;
        }
        if lines.last().is_none_or(|last| last != line) {
            lines.push(line.to_owned());
        }
    }
    Said(lines.split_off(lines.len().saturating_sub(QUOTED)))
}

/// Runs a control call of DPDK's, and returns what it logged meanwhile.
pub(super) fn capture<R>(step: impl FnOnce() -> R) -> (R, Said) {
    let _one = lock();
    rewind();
    let result = step();
    (result, read())
}

/// As [`capture`], with what the step prints on standard output and error as well: EAL does so when it fails.
pub(super) fn capture_all<R>(step: impl FnOnce() -> R) -> (R, Said) {
    let _one = lock();
    rewind();
    let saved = log().map(|file| {
        [1, 2].map(|fd| {
            // SAFETY: plain calls on open descriptors.
            unsafe {
                let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
                if copy >= 0 {
                    libc::dup2(file.as_raw_fd(), fd);
                }
                (fd, copy)
            }
        })
    });
    let result = step();
    // SAFETY: C's own buffer of standard output must go where it was written for; then plain calls on open descriptors.
    unsafe {
        libc::fflush(core::ptr::null_mut());
        for (fd, copy) in saved.into_iter().flatten() {
            if copy >= 0 {
                libc::dup2(copy, fd);
                libc::close(copy);
            }
        }
    }
    (result, read())
}

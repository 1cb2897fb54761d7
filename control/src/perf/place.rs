//! Where the shared memory of two processes meets: a socket in a directory of the user's own.

use crate::error::Error;
use crate::host::ExchangeAddress;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Longest path of a UNIX socket that the driver takes.
const PATH_MAX: usize = 107;

/// A socket's place. The socket goes with it.
#[derive(Debug)]
pub(super) struct Place(PathBuf);

/// This process's user, as the system's own files say.
fn user() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|own| own.uid())
}

/// The directory of the user's own: that of the session, or one under /tmp that is nobody else's.
fn directory() -> Result<PathBuf, Error> {
    let trouble = |path: &Path, why: String| {
        Error::Failure(format!(
            "{} can't hold the socket of the shared memory: {why}. Set XDG_RUNTIME_DIR to a directory of your own",
            path.display()
        ))
    };
    let session =
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir());
    let path = match (session, user()) {
        (Some(session), _) => session.join("mrcnic"),
        (None, Some(user)) => std::env::temp_dir().join(format!("mrcnic-{user}")),
        (None, None) => return Err(trouble(Path::new("/tmp"), "it is not known who runs this".into())),
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => return Ok(path),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(trouble(&path, e.to_string())),
    }
    let there = fs::symlink_metadata(&path).map_err(|e| trouble(&path, e.to_string()))?;
    if !there.is_dir() || user() != Some(there.uid()) || there.mode() & 0o022 != 0 {
        return Err(trouble(&path, "it is no directory that you alone write".into()));
    }
    Ok(path)
}

impl Place {
    /// The place of the server that listens at `address`, over TCP at `port`. What an earlier one of this address has left makes way.
    pub(super) fn of(address: &ExchangeAddress, port: Option<u16>) -> Result<Place, Error> {
        let path = match address {
            ExchangeAddress::Tcp(_) => directory()?.join(format!("perf-{}.memif", port.unwrap_or_default())),
            ExchangeAddress::Unix(path) => {
                let mut path = std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string();
                path.push(".memif");
                path.into()
            }
        };
        Place::at(path)
    }

    fn at(path: PathBuf) -> Result<Place, Error> {
        let text = path.display().to_string();
        if text.len() > PATH_MAX || text.contains(',') {
            return Err(Error::Usage(format!(
                "the socket {text} has a comma in its path or more than {PATH_MAX} bytes: set XDG_RUNTIME_DIR to another directory"
            )));
        }
        if fs::symlink_metadata(&path).is_ok_and(|there| there.file_type().is_socket()) {
            fs::remove_file(&path).map_err(|e| Error::Failure(format!("can't remove {text}: {e}")))?;
        }
        Ok(Place(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_beside_a_unix_socket_is_named_after_it_and_goes_when_it_is_no_longer_needed() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::of(&ExchangeAddress::Unix(dir.path().join("x")), None).unwrap();
        assert_eq!(place.path(), dir.path().join("x.memif"));
        drop(std::os::unix::net::UnixListener::bind(place.path()).unwrap());
        let again = Place::at(place.path().to_owned()).unwrap();
        assert!(!again.path().exists(), "what was left there makes way");
        std::fs::write(place.path(), "").unwrap();
        drop(place);
        assert!(!again.path().exists());
        let wrong = Place::at(dir.path().join("a,b")).unwrap_err();
        assert!(wrong.to_string().contains("comma"), "{wrong}");
    }
}

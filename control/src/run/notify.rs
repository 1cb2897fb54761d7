//! Telling the service manager how it goes, as systemd has it: a datagram to `$NOTIFY_SOCKET`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Who wants to know.
#[derive(Debug, Default)]
pub(super) struct Notify {
    to: Option<SocketAddr>,
}

impl Notify {
    /// The one that the environment names; nobody without.
    pub(super) fn from_env() -> Notify {
        let named = std::env::var_os("NOTIFY_SOCKET").and_then(|name| Self::address(name.as_encoded_bytes()));
        Notify { to: named }
    }

    /// A path, or behind an `@` an abstract name.
    fn address(name: &[u8]) -> Option<SocketAddr> {
        match name {
            [] => None,
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            _ => SocketAddr::from_pathname(std::str::from_utf8(name).ok()?).ok(),
        }
    }

    /// Tells, such as `READY=1`. A manager that does not listen is no trouble of ours.
    pub(super) fn tell(&self, what: &str) {
        if let (Some(to), Ok(socket)) = (&self.to, UnixDatagram::unbound()) {
            let _ = socket.send_to_addr(what.as_bytes(), to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_at_a_path_and_at_an_abstract_name_and_nobody_is_no_trouble() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let plain = UnixDatagram::bind(&path).unwrap();
        let name = format!("mrcnic-notify-{}", std::process::id());
        let hidden = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, name) in [(plain, path.to_str().unwrap().to_owned()), (hidden, format!("@{name}"))] {
            let notify = Notify { to: Notify::address(name.as_bytes()) };
            notify.tell("READY=1");
            let mut buf = [0; 32];
            let len = socket.recv(&mut buf).unwrap();
            assert_eq!(&buf[..len], b"READY=1");
        }
        assert!(Notify::address(b"").is_none());
        Notify::default().tell("READY=1");
    }
}

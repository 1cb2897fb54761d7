//! What an operator asks of a running NIC, over a UNIX socket: one JSON object a line, one answer a line.

use super::Waker;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Longest line that is read.
const LINE_MAX: u64 = 64 * 1024;
/// How long the control thread has for an answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often the server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// A request, as it stands on the socket: `{"cmd":"ev_deny","nic":"a","ev":300}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// NICs, denials and probes.
    Status {},
    /// All entropy values of a NIC, their states, and the packets that took them.
    EvList {
        /// Name of the NIC.
        nic: String,
    },
    /// Deny a value, or lift its denial.
    EvDeny {
        /// Name of the NIC.
        nic: String,
        /// Towards whom; everybody without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        destination: Option<IpAddr>,
        /// The value.
        ev: u32,
        /// `false` lifts the denial.
        denied: bool,
    },
    /// Probe a value.
    Probe {
        /// Name of the NIC.
        nic: String,
        /// To whom.
        destination: IpAddr,
        /// On which value.
        ev: u32,
    },
}

/// A request and where its answer goes.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) request: Request,
    pub(super) answer: mpsc::Sender<Value>,
}

/// Passes requests to the control thread.
#[derive(Clone, Debug)]
pub struct Operator {
    asks: mpsc::Sender<Ask>,
    waker: Waker,
}

pub(super) fn refusal(why: impl Into<String>) -> Value {
    json!({ "ok": false, "error": why.into() })
}

impl Operator {
    pub(super) const fn new(asks: mpsc::Sender<Ask>, waker: Waker) -> Operator {
        Operator { asks, waker }
    }

    /// Asks, and waits for the answer.
    #[must_use]
    pub fn ask(&self, request: Request) -> Value {
        let (answer, wait) = mpsc::channel();
        if self.asks.send(Ask { request, answer }).is_err() {
            return refusal("the NIC is going down");
        }
        self.waker.wake_anyway();
        wait.recv_timeout(ANSWER).unwrap_or_else(|_| refusal("the NIC did not answer in time"))
    }
}

/// The socket of a running NIC. It goes when this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `path`, for this user alone (mode 0600).
    ///
    /// # Errors
    /// [`Error::Usage`] when something is at `path` that is no socket, or a NIC listens there already, or it can't be made.
    pub fn listen(path: &Path, operator: Operator) -> Result<Server, Error> {
        let fault = |why: String| Error::Usage(format!("{}: {why}", path.display()));
        if let Ok(there) = std::fs::symlink_metadata(path) {
            if !there.file_type().is_socket() {
                return Err(fault("there is a file, and it is no socket; name another path".into()));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(fault("a NIC listens here already; name another path".into()));
            }
            std::fs::remove_file(path).map_err(|e| fault(format!("the old socket can't be removed: {e}")))?;
        }
        let listener = UnixListener::bind(path).map_err(|e| fault(format!("can't listen here: {e}")))?;
        let set_up = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| listener.set_nonblocking(true));
        set_up.map_err(|e| fault(format!("can't set the socket up: {e}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = Builder::new()
            .name("mrcnic-socket".into())
            .spawn(move || serve(&listener, &operator, &ended))
            .map_err(|e| Error::Failure(format!("the socket's thread can't be started: {e}")))?;
        Ok(Server { path: path.to_owned(), stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// One connection after the other: operators are few, and their requests short.
fn serve(listener: &UnixListener, operator: &Operator, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A connection that breaks is its own operator's matter.
            Ok((stream, _)) => drop(answer_all(&stream, operator, stop)),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

fn answer_all(stream: &UnixStream, operator: &Operator, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    let mut reader = BufReader::new(stream);
    while !stop.load(Ordering::Relaxed) {
        let mut line = String::new();
        let read = std::io::Read::take(&mut reader, LINE_MAX).read_line(&mut line)?;
        if read == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => operator.ask(request),
            Err(e) => refusal(format!("this is no request: {e}")),
        };
        let mut out = stream;
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

/// Asks the NIC that listens at `path`.
///
/// # Errors
/// [`Error::Usage`] when nobody listens there, [`Error::Failure`] when the NIC refuses or falls silent.
pub fn ask(path: &Path, request: &Request) -> Result<Value, Error> {
    let nobody = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::Usage(format!(
            "{}: no NIC listens here; start one with --ctl, or name its socket with --socket",
            path.display()
        )),
        _ => Error::Usage(format!("{}: {e}", path.display())),
    };
    let mut stream = UnixStream::connect(path).map_err(nobody)?;
    let broken = |e: &dyn std::fmt::Display| Error::Failure(format!("{}: the NIC fell silent: {e}", path.display()));
    stream.set_read_timeout(Some(2 * ANSWER)).map_err(|e| broken(&e))?;
    let line = serde_json::to_string(request).map_err(|e| broken(&e))?;
    writeln!(stream, "{line}").map_err(|e| broken(&e))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(|e| broken(&e))?;
    let answer: Value = serde_json::from_str(&answer).map_err(|e| broken(&e))?;
    if answer["ok"] == true {
        return Ok(answer);
    }
    Err(Error::Failure(answer["error"].as_str().unwrap_or("the NIC refused, and did not say why").to_owned()))
}

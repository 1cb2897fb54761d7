//! The UNIX socket of a running NIC: requests and answers, one JSON object a line, on several connections at once.

use super::operator::{ANSWER, Operator, Request, refusal};
use crate::error::Error;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Connections at a time; one more is told so, and closed.
pub const CONNECTIONS_MAX: usize = 16;
/// Longest line that is read: a profile of 65,536 EVs with their paths fits.
const LINE_MAX: u64 = 8 << 20;
/// How often the server looks for connections, and whether it is to end; and a follower for events.
const LOOK: Duration = Duration::from_millis(20);

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
        let listener = listen_unix(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = Builder::new()
            .name("mrcnic-socket".into())
            .spawn(move || serve(&listener, &operator, &ended))
            .map_err(|e| Error::Failure(format!("the socket's thread can't be started: {e}")))?;
        tracing::info!(path = %path.display(), "listening for operators");
        Ok(Server { path: path.to_owned(), stop, thread: Some(thread) })
    }
}

/// Listens at `path`, for this user alone (mode 0600), without ever waiting for a connection. What a process left there that died is
/// replaced.
///
/// # Errors
/// As [`Server::listen`].
pub(super) fn listen_unix(path: &Path) -> Result<UnixListener, Error> {
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
    Ok(listener)
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

/// A connection's thread, and what ends it.
struct Connection {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

/// A thread a connection: a follower keeps nobody waiting.
fn serve(listener: &UnixListener, operator: &Operator, stop: &Arc<AtomicBool>) {
    let mut connections: Vec<Connection> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                connections.retain(|connection| !connection.thread.is_finished());
                tracing::debug!(others = connections.len(), "an operator connects");
                // A connection that breaks is its own operator's matter.
                if connections.len() == CONNECTIONS_MAX {
                    tracing::warn!(most = CONNECTIONS_MAX, "an operator is turned away: too many are connected");
                    let _ = turn_away(&stream);
                } else if let Ok(connection) = begin(stream, operator, stop) {
                    connections.push(connection);
                }
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
    for Connection { stream, thread } in connections {
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let _ = thread.join();
    }
}

fn turn_away(stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(LOOK))?;
    say(
        stream,
        &refusal(format!(
            "{CONNECTIONS_MAX} operators are connected, which is the maximum: try again when one has gone"
        )),
    )
}

fn begin(stream: UnixStream, operator: &Operator, stop: &Arc<AtomicBool>) -> io::Result<Connection> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(ANSWER))?;
    let (own, operator, stop) = (stream.try_clone()?, operator.clone(), Arc::clone(stop));
    let thread = Builder::new().name("mrcnic-operator".into()).spawn(move || {
        let _ = answer_all(&own, &operator, &stop);
        // The server keeps a copy of the stream, so it does not close by itself.
        let _ = own.shutdown(std::net::Shutdown::Both);
    })?;
    Ok(Connection { stream, thread })
}

fn say(mut stream: &UnixStream, answer: &Value) -> io::Result<()> {
    // One call, so that nobody reads half a line.
    stream.write_all(format!("{answer}\n").as_bytes())
}

fn answer_all(stream: &UnixStream, operator: &Operator, stop: &AtomicBool) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while !stop.load(Ordering::Relaxed) {
        let mut line = String::new();
        let read = Read::take(&mut reader, LINE_MAX).read_line(&mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 == LINE_MAX && !line.ends_with('\n') {
            return say(stream, &refusal(format!("a request has {LINE_MAX} bytes at most")));
        }
        let request = match serde_json::from_str::<Request>(&line) {
            Ok(request) => request,
            Err(e) => {
                tracing::debug!(why = %e, "an operator sent what is no request");
                say(stream, &refusal(format!("this is no request: {e}")))?;
                continue;
            }
        };
        let answer = operator.ask(request.clone());
        say(stream, &answer)?;
        if let Request::Events { nic, follow: true } = request
            && answer["ok"] == true
        {
            return tell(stream, operator, nic.as_deref(), stop);
        }
    }
    Ok(())
}

/// Tells a follower what is in the journal and what comes to it, until either end goes.
fn tell(stream: &UnixStream, operator: &Operator, nic: Option<&str>, stop: &AtomicBool) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    stream.set_read_timeout(Some(LOOK))?;
    let (mut next, mut missed) = (None, 0);
    while !stop.load(Ordering::Relaxed) {
        let reading = operator.journal.read(next, nic, missed);
        (next, missed) = (Some(reading.next), reading.missed);
        for event in reading.events {
            write_slowly(stream, format!("{event}\n").as_bytes(), stop)?;
        }
        // A follower says nothing; when it goes, there is an end to read.
        match Read::read(&mut &*stream, &mut [0; 64]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Writes to a follower that may take its time; what it misses meanwhile is counted.
fn write_slowly(mut stream: &UnixStream, mut bytes: &[u8], stop: &AtomicBool) -> io::Result<()> {
    while !bytes.is_empty() && !stop.load(Ordering::Relaxed) {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn connect(path: &Path) -> Result<UnixStream, Error> {
    UnixStream::connect(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::Usage(format!(
            "{}: no NIC listens here; start one with --ctl, or name its socket with --socket",
            path.display()
        )),
        _ => Error::Usage(format!("{}: {e}", path.display())),
    })
}

fn silent(path: &Path, e: &dyn std::fmt::Display) -> Error {
    Error::Failure(format!("{}: the NIC fell silent: {e}", path.display()))
}

/// Sends a request and reads its answer; what follows it can be read from there.
fn exchange(path: &Path, request: &Request) -> Result<(Value, BufReader<UnixStream>), Error> {
    tracing::debug!(path = %path.display(), ?request, "asking a NIC");
    let mut stream = connect(path)?;
    let broken = |e: &dyn std::fmt::Display| silent(path, e);
    stream.set_read_timeout(Some(request.patience())).map_err(|e| broken(&e))?;
    let line = serde_json::to_string(request).map_err(|e| broken(&e))?;
    // A server that turns this away may close before it has read the request, and its answer says why.
    let sent = writeln!(stream, "{line}");
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    let read = reader.read_line(&mut answer).map_err(|e| broken(&e))?;
    if read == 0 {
        sent.map_err(|e| broken(&e))?;
    }
    let answer: Value = serde_json::from_str(&answer).map_err(|e| broken(&e))?;
    if answer["ok"] == true {
        return Ok((answer, reader));
    }
    Err(Error::Failure(answer["error"].as_str().unwrap_or("the NIC refused, and did not say why").to_owned()))
}

/// Asks the NIC that listens at `path`.
///
/// # Errors
/// [`Error::Usage`] when nobody listens there, [`Error::Failure`] when the NIC refuses or falls silent.
pub fn ask(path: &Path, request: &Request) -> Result<Value, Error> {
    exchange(path, request).map(|(answer, _)| answer)
}

/// Follows the events of the NICs that listen at `path`, or of one of them: `each` gets a line of JSON for each, until the NIC goes.
///
/// # Errors
/// As [`ask`], and what `each` says.
pub fn follow(path: &Path, nic: Option<String>, mut each: impl FnMut(&str) -> io::Result<()>) -> Result<(), Error> {
    let (_, reader) = exchange(path, &Request::Events { nic, follow: true })?;
    reader.get_ref().set_read_timeout(None).map_err(|e| silent(path, &e))?;
    for line in reader.lines() {
        // A NIC that goes down may cut the connection.
        let Ok(line) = line else { break };
        each(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{ControlThread, Happening, Notice, PortStatus};
    use super::*;
    use dataplane::Ns;
    use dataplane::nic::PortId;

    /// A server whose process has no NICs.
    struct Idle {
        _control: ControlThread,
        server: Option<Server>,
        operator: Operator,
        dir: tempfile::TempDir,
    }

    impl Idle {
        fn new() -> Idle {
            let mut control = ControlThread::start(|| Ns::ZERO).unwrap();
            control.control(Vec::new());
            let (operator, dir) = (control.operator().unwrap(), tempfile::tempdir().unwrap());
            let server = Some(Server::listen(&dir.path().join("ctl"), operator.clone()).unwrap());
            Idle { _control: control, server, operator, dir }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("ctl")
        }

        fn happens(&self, micros: u64) {
            let what = Happening::Port { port: PortId(0), status: PortStatus { link: true, admin: true } };
            self.operator.journal.push(&"a".into(), Notice { at: Ns(micros * 1000), what, dropped: 0 });
        }
    }

    #[test]
    fn a_follower_keeps_nobody_waiting_and_one_connection_too_many_is_told_so() {
        let mut idle = Idle::new();
        let follow = Request::Events { nic: None, follow: true };
        let mut followers: Vec<_> =
            (0..CONNECTIONS_MAX - 1).map(|_| exchange(&idle.path(), &follow).unwrap().1).collect();
        let (answer, last) = exchange(&idle.path(), &Request::Status {}).unwrap();
        assert_eq!(answer["nics"], serde_json::json!([]));
        let refused = ask(&idle.path(), &Request::Status {}).unwrap_err().to_string();
        assert!(refused.contains("16 operators are connected"), "{refused}");
        drop(last);
        while ask(&idle.path(), &Request::Status {}).is_err() {
            std::thread::sleep(LOOK);
        }
        idle.happens(7);
        let mut line = String::new();
        followers[0].read_line(&mut line).unwrap();
        assert!(line.contains("\"time_us\":7"), "{line}");
        idle.server = None;
        assert!(
            followers.iter_mut().all(|follower| follower.read_line(&mut line).is_ok()),
            "their end is an end of file"
        );
    }

    #[test]
    fn a_follower_who_is_too_slow_gets_the_newest_events_and_the_count_of_those_that_it_lost() {
        const EVENTS: u64 = 50_000;
        let idle = Idle::new();
        let (_, mut follower) = exchange(&idle.path(), &Request::Events { nic: None, follow: true }).unwrap();
        // It has begun, so all that comes is for it.
        idle.happens(1);
        let mut line = String::new();
        follower.read_line(&mut line).unwrap();
        (2..=EVENTS).for_each(|micros| idle.happens(micros));
        let mut received = 1;
        loop {
            let mut line = String::new();
            assert!(follower.read_line(&mut line).unwrap() > 0);
            received += 1;
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["time_us"] == EVENTS {
                let dropped = event["dropped"].as_u64().unwrap();
                assert!(dropped > 0);
                assert_eq!(received + dropped, EVENTS);
                break;
            }
        }
    }
}

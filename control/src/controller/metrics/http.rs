//! `GET /metrics` over HTTP/1, on a TCP port or a UNIX socket. Everything is bounded: connections, bytes of a request, and time. One that
//! is slow or hostile keeps its own thread for so long, and nobody else.

use super::CONTENT_TYPE;
use crate::controller::Operator;
use crate::controller::socket::listen_unix;
use crate::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Connections at a time; one more is told so, and closed.
pub const METRICS_CONNECTIONS_MAX: usize = 8;
/// Longest head of a request in bytes.
const HEAD_MAX: usize = 8192;
/// Header lines of a request.
const HEADERS_MAX: usize = 64;
/// How long a request, and the taking of its answer, may take each.
const PATIENCE: Duration = Duration::from_secs(3);
/// An answer is given again for so long: however many ask, workers are asked so often only.
const FRESH: Duration = Duration::from_millis(100);
/// How often the server looks for connections, and whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAddress {
    /// A TCP address and port; port 0 is any that is free.
    Tcp(SocketAddr),
    /// A UNIX socket.
    Unix(PathBuf),
}

/// `ADDR:PORT`, which has to be an address of this machine alone, `public:ADDR:PORT`, which need not, or `unix:PATH`.
impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("unix: names no path: give unix:PATH".into());
            }
            return Ok(MetricsAddress::Unix(path.into()));
        }
        let (public, address) = text.strip_prefix("public:").map_or((false, text), |address| (true, address));
        let address: SocketAddr = address.parse().map_err(|_| {
            "it is neither an address with a port, as 127.0.0.1:9464 or [::1]:9464, nor unix:PATH".to_owned()
        })?;
        if !public && !address.ip().is_loopback() {
            return Err(format!(
                "others than this machine reach {}, and nothing asks them who they are: if that is wanted, say public:{address}",
                address.ip()
            ));
        }
        Ok(MetricsAddress::Tcp(address))
    }
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection of either kind.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Does the same with either kind.
macro_rules! either {
    ($of:ident, $value:expr, $inner:ident => $call:expr) => {
        match $value {
            $of::Tcp($inner) => $call,
            $of::Unix($inner) => $call,
        }
    };
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
        })
    }
}

impl Stream {
    fn set_up(&self, patience: Duration) -> io::Result<()> {
        either!(Stream, self, stream => {
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(patience))
        })
    }

    fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    fn read_before(&mut self, deadline: Instant, buffer: &mut [u8]) -> io::Result<usize> {
        let left = left(deadline)?;
        either!(Stream, self, stream => {
            stream.set_read_timeout(Some(left))?;
            stream.read(buffer)
        })
    }

    fn write_before(&mut self, deadline: Instant, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let left = left(deadline)?;
            let written = either!(Stream, self, stream => {
                stream.set_write_timeout(Some(left))?;
                stream.write(bytes)
            });
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn shutdown(&self, how: Shutdown) {
        let _ = either!(Stream, self, stream => stream.shutdown(how));
    }
}

/// What is left until a deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Serves metrics until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: MetricsAddress,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`, a UNIX socket for this user alone (mode 0600), and answers with the metrics that `operator` gives.
    ///
    /// # Errors
    /// [`Error::Usage`] when it can't listen there, [`Error::Failure`] when there can be no more threads.
    pub fn listen(address: &MetricsAddress, operator: Operator) -> Result<MetricsServer, Error> {
        let (listener, address) = match address {
            MetricsAddress::Unix(path) => (Listener::Unix(listen_unix(path)?), address.clone()),
            MetricsAddress::Tcp(asked) => {
                let fault = |e: io::Error| Error::Usage(format!("{asked}: can't serve metrics here: {e}"));
                let listener = TcpListener::bind(asked).map_err(fault)?;
                listener.set_nonblocking(true).map_err(fault)?;
                let address = listener.local_addr().map_err(fault)?;
                (Listener::Tcp(listener), MetricsAddress::Tcp(address))
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = Builder::new()
            .name("mrcnic-metrics".into())
            .spawn(move || serve(&listener, operator, &ended))
            .map_err(|e| Error::Failure(format!("the thread of the metrics can't be started: {e}")))?;
        Ok(MetricsServer { address, stop, thread: Some(thread) })
    }

    /// Where it listens, with the port that it was given.
    #[must_use]
    pub const fn address(&self) -> &MetricsAddress {
        &self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let MetricsAddress::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Where the text comes from.
struct Metrics {
    operator: Operator,
    /// The last one, and when it was made.
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Metrics {
    fn text(&self) -> Result<Arc<str>, String> {
        // Those who ask at the same time wait for the same text.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, text)) = &*last
            && made.elapsed() < FRESH
        {
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = self.operator.metrics()?.into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Ok(text)
    }
}

fn serve(listener: &Listener, operator: Operator, stop: &AtomicBool) {
    let metrics = Arc::new(Metrics { operator, last: Mutex::new(None) });
    let mut connections: Vec<(Stream, JoinHandle<()>)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok(stream) => {
                connections.retain(|(_, thread)| !thread.is_finished());
                if connections.len() == METRICS_CONNECTIONS_MAX {
                    turn_away(stream);
                } else if let Ok(connection) = begin(stream, &metrics) {
                    connections.push(connection);
                }
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
    for (stream, thread) in connections {
        stream.shutdown(Shutdown::Both);
        let _ = thread.join();
    }
}

/// Says that there are too many, to who is ready to hear it.
fn turn_away(mut stream: Stream) {
    let answer = Answer::refusal("503 Service Unavailable", "too many connections: try again");
    let _ = stream.set_up(LOOK).and_then(|()| stream.write_before(Instant::now() + LOOK, &answer.bytes(false)));
    stream.shutdown(Shutdown::Both);
}

fn begin(stream: Stream, metrics: &Arc<Metrics>) -> io::Result<(Stream, JoinHandle<()>)> {
    stream.set_up(PATIENCE)?;
    let (mut own, metrics) = (stream.try_clone()?, Arc::clone(metrics));
    let thread = Builder::new().name("mrcnic-scrape".into()).spawn(move || {
        let _ = converse(&mut own, &metrics);
        own.shutdown(Shutdown::Both);
    })?;
    Ok((stream, thread))
}

/// An answer to a request.
struct Answer {
    status: &'static str,
    kind: &'static str,
    more: &'static str,
    body: Arc<str>,
}

impl Answer {
    fn refusal(status: &'static str, why: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", more: "", body: format!("{why}\n").into() }
    }

    fn bytes(&self, head_only: bool) -> Vec<u8> {
        let Answer { status, kind, more, body } = self;
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n{more}\r\n",
            body.len()
        )
        .into_bytes();
        if !head_only {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

/// What a request asks for.
enum Asked {
    Metrics { head_only: bool },
    Refused(Answer),
}

/// One request and its answer.
fn converse(stream: &mut Stream, metrics: &Metrics) -> io::Result<()> {
    let asked = read_request(stream)?;
    let (answer, head_only) = match asked {
        Asked::Refused(answer) => (answer, false),
        Asked::Metrics { head_only } => match metrics.text() {
            Ok(body) => (Answer { status: "200 OK", kind: CONTENT_TYPE, more: "", body }, head_only),
            Err(why) => (Answer::refusal("503 Service Unavailable", &why), head_only),
        },
    };
    stream.write_before(Instant::now() + PATIENCE, &answer.bytes(head_only))?;
    stream.shutdown(Shutdown::Write);
    // Closing with something unread would take the answer back from who has not read it yet.
    let deadline = Instant::now() + PATIENCE;
    let mut rest = [0; 1024];
    let mut read = 0;
    while read < HEAD_MAX {
        match stream.read_before(deadline, &mut rest)? {
            0 => break,
            n => read += n,
        }
    }
    Ok(())
}

/// Reads the head of a request, and judges it. A body is none of ours.
fn read_request(stream: &mut Stream) -> io::Result<Asked> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    loop {
        let mut piece = [0; 1024];
        let read = stream.read_before(deadline, &mut piece)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&piece[..read]);
        if let Some(asked) = judge(&head) {
            return Ok(asked);
        }
    }
}

/// What the head of a request asks for; `None` while it is not complete.
fn judge(head: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let refused = |status, why: &str| Some(Asked::Refused(Answer::refusal(status, why)));
    match request.parse(head) {
        Ok(httparse::Status::Partial) if head.len() < HEAD_MAX => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return refused(
                "431 Request Header Fields Too Large",
                "the head of a request has 8192 bytes and 64 lines at most",
            );
        }
        Err(_) => return refused("400 Bad Request", "this is no HTTP request"),
        Ok(httparse::Status::Complete(_)) => {}
    }
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match (request.method, path) {
        (Some("GET"), "/metrics") => Some(Asked::Metrics { head_only: false }),
        (Some("HEAD"), "/metrics") => Some(Asked::Metrics { head_only: true }),
        (_, "/metrics") => {
            let mut answer = Answer::refusal("405 Method Not Allowed", "ask with GET");
            answer.more = "Allow: GET, HEAD\r\n";
            Some(Asked::Refused(answer))
        }
        _ => refused("404 Not Found", "metrics are at /metrics, and there is nothing else"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &[u8]) -> Option<&'static str> {
        match judge(head)? {
            Asked::Metrics { head_only: false } => Some("metrics"),
            Asked::Metrics { head_only: true } => Some("head"),
            Asked::Refused(answer) => Some(&answer.status[..3]),
        }
    }

    #[test]
    fn an_address_that_others_reach_is_refused_unless_it_was_said() {
        let tcp = |text: &str| Ok(MetricsAddress::Tcp(text.parse().unwrap()));
        assert_eq!("127.0.0.1:9464".parse::<MetricsAddress>(), tcp("127.0.0.1:9464"));
        assert_eq!("[::1]:0".parse::<MetricsAddress>(), tcp("[::1]:0"));
        assert_eq!("public:0.0.0.0:9464".parse::<MetricsAddress>(), tcp("0.0.0.0:9464"));
        assert_eq!("unix:/tmp/m".parse(), Ok(MetricsAddress::Unix("/tmp/m".into())));
        let why = "0.0.0.0:9464".parse::<MetricsAddress>().unwrap_err();
        assert!(why.contains("say public:0.0.0.0:9464"), "{why}");
        for wrong in ["", "9464", "localhost", "unix:", "public:unix:/tmp/m", "127.0.0.1"] {
            assert!(wrong.parse::<MetricsAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_is_judged_when_its_head_is_complete_and_only_metrics_are_there() {
        assert_eq!(status(b"GET /metrics HTTP/1.1\r\nHost: a\r\n"), None);
        assert_eq!(status(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Some("metrics"));
        assert_eq!(status(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"), Some("metrics"));
        assert_eq!(status(b"HEAD /metrics HTTP/1.1\r\n\r\n"), Some("head"));
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), Some("405"));
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), Some("404"));
        assert_eq!(status(b"\x16\x03\x01\x02\x00 hello\r\n\r\n"), Some("400"));
        let many: String = (0..65).map(|n| format!("h{n}: v\r\n")).collect();
        assert_eq!(status(format!("GET /metrics HTTP/1.1\r\n{many}\r\n").as_bytes()), Some("431"));
        let long = format!("GET /metrics HTTP/1.1\r\nh: {}", "v".repeat(HEAD_MAX));
        assert_eq!(status(long.as_bytes()), Some("431"));
    }
}

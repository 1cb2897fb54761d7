//! Connection exchange: two ends tell each other the numbers of their QPs, over TCP or a UNIX socket, a JSON object a line.
//!
//! ```text
//! who connects                     who was connected to
//! {"mrc":"offer", ..}     ->
//!                         <-       {"mrc":"offer", ..} or {"mrc":"refuse","why":".."}
//! {"mrc":"ready"}         ->       each once its QPs are in RTS
//!                         <-       {"mrc":"ready"}
//! ```
//!
//! Afterwards an end that looks whether the other is there ([`Exchange::is_open`]) says `{"mrc":"alive"}` once a second; whoever goes, closes.
//! Programs of one kind may tell each other things of their own at any time: `{"mrc":"note","note":..}` ([`Exchange::note`],
//! [`Exchange::listen`]).

use super::offer::Offer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long the other end has for each step.
pub const STEP: Duration = Duration::from_secs(5);
/// How often an end says that it is there.
const BEAT: Duration = Duration::from_secs(1);
/// An end that says nothing for so long has gone without a word.
const SILENCE: Duration = Duration::from_secs(10);
/// QPs of one offer at most.
pub const OFFER_QPS_MAX: usize = 1024;
/// Longest line that is read.
const LINE_MAX: u64 = 1 << 20;

/// Where to listen, or to connect to: `HOST:PORT` over TCP, or a path (with a `/` in it) of a UNIX socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeAddress {
    /// Over TCP.
    Tcp(String),
    /// Over a UNIX socket.
    Unix(PathBuf),
}

impl FromStr for ExchangeAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ExchangeAddress, String> {
        if text.contains('/') {
            return Ok(ExchangeAddress::Unix(text.into()));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(ExchangeAddress::Tcp(text.to_owned()))
            }
            _ => Err(format!("{text:?} is no address: give HOST:PORT, or the path of a UNIX socket, with a / in it")),
        }
    }
}

impl fmt::Display for ExchangeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeAddress::Tcp(text) => f.write_str(text),
            ExchangeAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "mrc", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Offer { name: String, offer: Offer },
    Refuse { why: String },
    Ready {},
    Alive {},
    Note { note: Value },
}

/// Either kind of stream.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn timeout(&self, read: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(tcp) => {
                tcp.set_nonblocking(false)?;
                tcp.set_nodelay(true)?;
                tcp.set_write_timeout(Some(STEP))?;
                tcp.set_read_timeout(Some(read))
            }
            Stream::Unix(unix) => {
                unix.set_nonblocking(false)?;
                unix.set_write_timeout(Some(STEP))?;
                unix.set_read_timeout(Some(read))
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(tcp) => tcp.read(buf),
            Stream::Unix(unix) => unix.read(buf),
        }
    }
}

/// A way to the other end. It closes when it is dropped.
#[derive(Debug)]
pub struct Exchange {
    reader: BufReader<Stream>,
    /// A line that has not come to its end.
    begun: String,
    heard: Instant,
    said: Instant,
}

impl Exchange {
    /// Connects, in five seconds at most.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(address: &ExchangeAddress) -> io::Result<Exchange> {
        let stream = match address {
            ExchangeAddress::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            ExchangeAddress::Tcp(text) => {
                let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
                let mut found = None;
                for address in text.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, STEP) {
                        Ok(stream) => {
                            found = Some(stream);
                            break;
                        }
                        Err(e) => last = e,
                    }
                }
                Stream::Tcp(found.ok_or(last)?)
            }
        };
        Exchange::over(stream)
    }

    fn over(stream: Stream) -> io::Result<Exchange> {
        stream.timeout(STEP)?;
        let now = Instant::now();
        Ok(Exchange { reader: BufReader::new(stream), begun: String::new(), heard: now, said: now })
    }

    fn say(&mut self, line: &Line) -> io::Result<()> {
        // One call, so that nobody reads half a line.
        let text = format!("{}\n", serde_json::to_string(line)?);
        match self.reader.get_mut() {
            Stream::Tcp(tcp) => tcp.write_all(text.as_bytes()),
            Stream::Unix(unix) => unix.write_all(text.as_bytes()),
        }
    }

    fn hear(&mut self) -> io::Result<Line> {
        let mut line = String::new();
        Read::take(&mut self.reader, LINE_MAX).read_line(&mut line)?;
        if line.is_empty() {
            return Err(Exchange::gone());
        }
        Exchange::read(&line)
    }

    /// What a line says; a refusal is an error.
    fn read(line: &str) -> io::Result<Line> {
        let line = serde_json::from_str(line).map_err(|e| {
            io::Error::new(ErrorKind::InvalidData, format!("the other end says what is no exchange: {e}"))
        })?;
        match line {
            Line::Refuse { why } => Err(io::Error::other(format!("the other end refuses: {why}"))),
            line => Ok(line),
        }
    }

    fn gone() -> io::Error {
        io::Error::new(ErrorKind::UnexpectedEof, "the other end has gone")
    }

    fn out_of_turn() -> io::Error {
        io::Error::new(ErrorKind::InvalidData, "the other end says something out of turn")
    }

    /// Tells who this end is and what it offers.
    ///
    /// # Errors
    /// The other end has gone, or is stuck.
    pub fn offer(&mut self, name: &str, offer: &Offer) -> io::Result<()> {
        self.say(&Line::Offer { name: name.to_owned(), offer: offer.clone() })
    }

    /// Waits for the other end's name and offer.
    ///
    /// # Errors
    /// It refuses, says something else, has gone, or is silent for five seconds.
    pub fn take_offer(&mut self) -> io::Result<(String, Offer)> {
        match self.hear()? {
            Line::Offer { offer, .. } if offer.qps.is_empty() || offer.qps.len() > OFFER_QPS_MAX => {
                let count = offer.qps.len();
                Err(io::Error::new(
                    ErrorKind::InvalidData,
                    format!("an offer of {count} QPs: it has 1 to {OFFER_QPS_MAX}"),
                ))
            }
            Line::Offer { offer, .. } if offer.macs.is_empty() => {
                Err(io::Error::new(ErrorKind::InvalidData, "an offer without an Ethernet address"))
            }
            Line::Offer { name, offer } => Ok((name, offer)),
            _ => Err(Exchange::out_of_turn()),
        }
    }

    /// Tells the other end why nothing comes of it.
    pub fn refuse(mut self, why: &str) {
        let _ = self.say(&Line::Refuse { why: why.to_owned() });
    }

    /// Tells that this end's QPs are in RTS, and waits until the other's are.
    ///
    /// # Errors
    /// As [`Exchange::take_offer`].
    pub fn ready(&mut self) -> io::Result<()> {
        self.say(&Line::Ready {})?;
        match self.hear()? {
            Line::Ready {} => {
                self.heard = Instant::now();
                Ok(())
            }
            _ => Err(Exchange::out_of_turn()),
        }
    }

    /// Tells the other end something of the program's own.
    ///
    /// # Errors
    /// The other end has gone, or is stuck.
    pub fn note(&mut self, note: Value) -> io::Result<()> {
        self.say(&Line::Note { note })
    }

    /// Waits for `patience` for a note of the other end's; `None` when none came. It says that this end is there, as [`Exchange::is_open`]
    /// does, so each of two ends that are not in the middle of an exchange calls one of them again and again.
    ///
    /// # Errors
    /// The other end has gone, refuses, was silent for ten seconds, or says what is no note.
    pub fn listen(&mut self, patience: Duration) -> io::Result<Option<Value>> {
        if self.said.elapsed() >= BEAT {
            self.said = Instant::now();
            self.say(&Line::Alive {})?;
        }
        self.reader.get_ref().timeout(patience.max(Duration::from_millis(1)))?;
        match Read::take(&mut self.reader, LINE_MAX).read_line(&mut self.begun) {
            Ok(_) if self.begun.ends_with('\n') => {
                self.heard = Instant::now();
                match Exchange::read(&std::mem::take(&mut self.begun))? {
                    Line::Alive {} => Ok(None),
                    Line::Note { note } => Ok(Some(note)),
                    _ => Err(Exchange::out_of_turn()),
                }
            }
            Ok(_) => Err(Exchange::gone()),
            Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                Err(e)
            }
            Err(_) if self.heard.elapsed() < SILENCE => Ok(None),
            Err(_) => {
                let why = format!("the other end has said nothing for {} s", SILENCE.as_secs());
                Err(io::Error::new(ErrorKind::TimedOut, why))
            }
        }
    }

    /// Looks for `patience` whether the other end is still there: it closed, or said nothing for ten seconds, where not. Both ends call it
    /// again and again once they are ready, and so tell each other.
    #[must_use]
    pub fn is_open(&mut self, patience: Duration) -> bool {
        matches!(self.listen(patience), Ok(None))
    }

    /// Whether the other end is a process of this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self.reader.get_ref() {
            Stream::Tcp(tcp) => {
                let loops =
                    |address: io::Result<SocketAddr>| address.is_ok_and(|a| a.ip().to_canonical().is_loopback());
                loops(tcp.peer_addr()) || tcp.peer_addr().map(|a| a.ip()).ok() == tcp.local_addr().map(|a| a.ip()).ok()
            }
            Stream::Unix(_) => true,
        }
    }
}

/// Where other ends connect to.
#[derive(Debug)]
pub enum ExchangeListener {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over a UNIX socket, which goes when this is dropped.
    Unix(UnixListener, PathBuf),
}

impl ExchangeListener {
    /// Listens. The socket of a process that has gone makes way.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(address: &ExchangeAddress) -> io::Result<ExchangeListener> {
        match address {
            ExchangeAddress::Tcp(text) => {
                let listener = TcpListener::bind(text)?;
                listener.set_nonblocking(true)?;
                Ok(ExchangeListener::Tcp(listener))
            }
            ExchangeAddress::Unix(path) => {
                let is_socket = std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
                if is_socket && UnixStream::connect(path).is_err() {
                    std::fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(ExchangeListener::Unix(listener, path.clone()))
            }
        }
    }

    /// The address over TCP: with it a port that was left to the system is known.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            ExchangeListener::Tcp(listener) => listener.local_addr().ok(),
            ExchangeListener::Unix(..) => None,
        }
    }

    /// Takes the next connection, if there is one: it does not wait.
    ///
    /// # Errors
    /// What the system says.
    pub fn accept(&self) -> io::Result<Option<Exchange>> {
        let stream = match self {
            ExchangeListener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            ExchangeListener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        };
        match stream {
            Ok(stream) => Exchange::over(stream).map(Some),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Drop for ExchangeListener {
    fn drop(&mut self) {
        if let ExchangeListener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::offer::tests::offer;
    use super::*;

    fn both_ways(address: &str) {
        let listener = ExchangeListener::bind(&address.parse().unwrap()).unwrap();
        let to = listener.local_addr().map_or_else(|| address.to_owned(), |bound| bound.to_string());
        let other = std::thread::spawn(move || {
            let mut exchange = Exchange::connect(&to.parse().unwrap()).unwrap();
            exchange.offer("a", &offer(1)).unwrap();
            let theirs = exchange.take_offer().unwrap();
            exchange.ready().unwrap();
            (theirs, exchange.is_open(Duration::from_millis(1)))
        });
        let mut exchange = loop {
            if let Some(exchange) = listener.accept().unwrap() {
                break exchange;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(exchange.take_offer().unwrap(), ("a".to_owned(), offer(1)));
        exchange.offer("b", &offer(2)).unwrap();
        exchange.ready().unwrap();
        assert_eq!(other.join().unwrap(), (("b".to_owned(), offer(2)), true));
        assert!(!exchange.is_open(Duration::from_secs(5)), "the other end has closed");
    }

    #[test]
    fn two_ends_learn_of_each_other_over_tcp_and_over_a_unix_socket_which_goes_with_its_listener() {
        both_ways("127.0.0.1:0");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exchange");
        both_ways(path.to_str().unwrap());
        assert!(!path.exists());
        // One whose process was killed is in nobody's way.
        drop(UnixListener::bind(&path).unwrap());
        both_ways(path.to_str().unwrap());
    }

    /// Both ends of an exchange that has come to its end.
    fn ready() -> [Exchange; 2] {
        let listener = ExchangeListener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let mut here = Exchange::connect(&to.parse().unwrap()).unwrap();
        let mut there = loop {
            if let Some(exchange) = listener.accept().unwrap() {
                break exchange;
            }
        };
        let other = std::thread::spawn(move || {
            there.ready().unwrap();
            there
        });
        here.ready().unwrap();
        [here, other.join().unwrap()]
    }

    #[test]
    fn ends_that_are_there_say_so_and_one_that_is_silent_or_says_something_else_is_gone() {
        let look = Duration::from_millis(1);
        let [mut here, mut there] = ready();
        let long_ago = |exchange: &mut Exchange| exchange.heard -= SILENCE;
        // A second later each speaks, and hears the other.
        for exchange in [&mut here, &mut there] {
            exchange.said -= BEAT;
            assert!(exchange.is_open(look));
        }
        long_ago(&mut here);
        assert!(here.is_open(Duration::from_secs(1)), "it has heard of the other");
        long_ago(&mut here);
        assert!(!here.is_open(look), "nothing more came");
        let [mut here, mut there] = ready();
        there.say(&Line::Ready {}).unwrap();
        assert!(!here.is_open(Duration::from_secs(1)));
    }

    #[test]
    fn notes_come_in_their_order_between_words_that_say_that_an_end_is_there() {
        let look = Duration::from_secs(5);
        let [mut here, mut there] = ready();
        assert!(here.is_local() && there.is_local());
        here.note(Value::from(1)).unwrap();
        here.say(&Line::Alive {}).unwrap();
        here.note(Value::from("two")).unwrap();
        assert_eq!(there.listen(look).unwrap(), Some(Value::from(1)));
        assert_eq!(there.listen(look).unwrap(), None);
        assert_eq!(there.listen(look).unwrap(), Some(Value::from("two")));
        assert_eq!(there.listen(Duration::from_millis(1)).unwrap(), None);
        there.refuse("enough");
        assert_eq!(here.listen(look).unwrap_err().to_string(), "the other end refuses: enough");
        let [mut here, there] = ready();
        drop(there);
        assert_eq!(here.listen(look).unwrap_err().to_string(), "the other end has gone");
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words_and_what_is_no_exchange_is_an_error() {
        let listener = ExchangeListener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let to: ExchangeAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
        let accept = || loop {
            if let Some(exchange) = listener.accept().unwrap() {
                return exchange;
            }
        };
        let mut here = Exchange::connect(&to).unwrap();
        accept().refuse("nobody knows you");
        let error = here.take_offer().unwrap_err().to_string();
        assert_eq!(error, "the other end refuses: nobody knows you");
        let mut there = {
            let mut plain = TcpStream::connect(to.to_string()).unwrap();
            plain.write_all(b"GET / HTTP/1.1\n").unwrap();
            accept()
        };
        assert!(there.take_offer().unwrap_err().to_string().contains("no exchange"));
        let mut here = Exchange::connect(&to).unwrap();
        let mut there = accept();
        there.offer("b", &Offer { qps: Vec::new(), ..offer(2) }).unwrap();
        assert!(here.take_offer().unwrap_err().to_string().contains("an offer of 0 QPs"));
        drop(there);
        assert!(here.take_offer().unwrap_err().to_string().contains("gone"));
    }

    #[test]
    fn an_address_is_a_host_and_a_port_or_a_path() {
        assert_eq!("[::1]:7".parse(), Ok(ExchangeAddress::Tcp("[::1]:7".into())));
        assert_eq!("./x".parse(), Ok(ExchangeAddress::Unix("./x".into())));
        for wrong in ["", "host", ":7", "host:", "host:70000"] {
            assert!(wrong.parse::<ExchangeAddress>().is_err(), "{wrong}");
        }
    }
}

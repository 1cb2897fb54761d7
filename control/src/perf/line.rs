//! The exchange between the two ends, kept alive by a thread of its own, so that an end hears at once when the other has gone.

use super::report::SizeResult;
use super::settings::Settings;
use crate::error::Error;
use crate::host::{Exchange, Offer};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Version of what the two ends say.
pub(super) const VERSION: u32 = 1;
/// How long the thread listens before it looks whether there is something to say.
const TURN: Duration = Duration::from_millis(5);
/// How often who waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What one end sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sent {
    /// Messages of each QP that completed.
    pub(super) messages: Vec<u64>,
    /// From the first post to the last completion.
    pub(super) seconds: f64,
    /// Data packets sent again.
    pub(super) retransmits: u64,
    /// Messages that the application received, where they have immediates.
    pub(super) received: u64,
    /// Whether every byte that the other end wrote is here, once it was looked at.
    pub(super) verified: Option<bool>,
}

/// What ends tell each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "perf", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    /// The client: what is to be measured.
    Hello { version: u32, settings: Settings },
    /// The server agrees. With `memif` its port listens at a path of this machine.
    Welcome { memif: Option<PathBuf> },
    /// Either end: its QPs and memory.
    Offer { offer: Offer },
    /// Its QPs are in RTS, or it is ready for a size.
    Ready {},
    /// The client: a size begins.
    Begin { size: u32, round: u64 },
    /// What an end sent at this size: all of it has completed.
    Done { sent: Sent },
    /// The client: what came of the size.
    Result { result: Box<SizeResult> },
    /// The client: there is no more.
    End {},
    /// It ends before its time.
    Stop { why: String },
}

/// What both sides of the thread see.
#[derive(Debug, Default)]
struct Shared {
    /// Messages that wait.
    waiting: AtomicUsize,
    gone: AtomicBool,
    why: Mutex<String>,
}

/// The other end.
#[derive(Debug)]
pub(super) struct Line {
    to: Option<Sender<Message>>,
    from: Receiver<Message>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    interrupted: Arc<AtomicBool>,
    /// How the other end is called in messages.
    other: &'static str,
}

fn serve(mut exchange: Exchange, said: &Receiver<Message>, heard: &Sender<Message>, shared: &Shared) {
    let gone = |why: String| {
        *shared.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
        shared.gone.store(true, Ordering::Release);
    };
    loop {
        loop {
            match said.try_recv() {
                Ok(message) => {
                    let told = serde_json::to_value(&message).map_err(std::io::Error::from);
                    if let Err(e) = told.and_then(|note| exchange.note(note)) {
                        return gone(e.to_string());
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        match exchange.listen(TURN) {
            Ok(None) => {}
            Ok(Some(note)) => match serde_json::from_value(note) {
                Ok(message) => {
                    shared.waiting.fetch_add(1, Ordering::AcqRel);
                    if heard.send(message).is_err() {
                        return;
                    }
                }
                Err(e) => return gone(format!("it is no mrcnic perf of this version: {e}")),
            },
            Err(e) => return gone(e.to_string()),
        }
    }
}

impl Line {
    /// Over a connection to `other`.
    ///
    /// # Errors
    /// [`Error::Failure`]: there is no thread to be had.
    pub(super) fn new(exchange: Exchange, other: &'static str, interrupted: &Arc<AtomicBool>) -> Result<Line, Error> {
        let (to, said) = channel();
        let (heard, from) = channel();
        let shared: Arc<Shared> = Arc::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("mrcnic-exchange".into())
            .spawn(move || serve(exchange, &said, &heard, &theirs))
            .map_err(|e| Error::Failure(format!("can't start a thread: {e}")))?;
        let interrupted = Arc::clone(interrupted);
        Ok(Line { to: Some(to), from, shared, thread: Some(thread), interrupted, other })
    }

    /// Tells the other end. Whether it heard shows when it is waited for.
    pub(super) fn say(&self, message: Message) {
        if let Some(to) = &self.to {
            let _ = to.send(message);
        }
    }

    /// Whether somebody asks this end to stop.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Whether a message waits.
    #[inline]
    pub(super) fn has_message(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire) > 0
    }

    /// Why the other end is there no more, where it is not.
    ///
    /// # Errors
    /// [`Error::Failure`].
    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.shared.gone.load(Ordering::Acquire) { Err(self.lost()) } else { Ok(()) }
    }

    #[cold]
    fn lost(&self) -> Error {
        // It may have said why.
        if let Some(Message::Stop { why }) = self.from.try_iter().find(|said| matches!(said, Message::Stop { .. })) {
            return self.stopped(&why);
        }
        let why = self.shared.why.lock().unwrap_or_else(PoisonError::into_inner);
        Error::Failure(format!("lost the {}: {why}", self.other))
    }

    fn stopped(&self, why: &str) -> Error {
        Error::Failure(format!("the {} stopped: {why}", self.other))
    }

    /// Waits for a message for `patience`; `None` when there is none by then.
    ///
    /// # Errors
    /// [`Error::Failure`]: the other end has gone, or says why it stops.
    pub(super) fn listen(&self, patience: Duration) -> Result<Option<Message>, Error> {
        match self.from.recv_timeout(patience) {
            Ok(Message::Stop { why }) => Err(self.stopped(&why)),
            Ok(message) => {
                self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
                Ok(Some(message))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            // All that it said was heard.
            Err(RecvTimeoutError::Disconnected) => Err(self.lost()),
        }
    }

    /// Waits for a message as long as it takes, and looks at `also` meanwhile.
    ///
    /// # Errors
    /// As [`Line::listen`], what `also` says, and when this end is asked to stop.
    pub(super) fn wait(&self, also: &dyn Fn() -> Result<(), Error>) -> Result<Message, Error> {
        self.wait_out(&|| {
            also()?;
            match self.is_interrupted() {
                true => Err(Error::Failure(format!("interrupted while waiting for the {}", self.other))),
                false => Ok(()),
            }
        })
    }

    /// As [`Line::wait`], whoever asks this end to stop: what was measured until then is told to its end.
    ///
    /// # Errors
    /// As [`Line::listen`], and what `also` says.
    pub(super) fn wait_out(&self, also: &dyn Fn() -> Result<(), Error>) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.listen(LOOK)? {
                return Ok(message);
            }
            also()?;
        }
    }

    /// As [`Line::wait`], and `patience` at most.
    ///
    /// # Errors
    /// As [`Line::wait`], and when nothing comes in time.
    pub(super) fn expect(&self, patience: Duration) -> Result<Message, Error> {
        let end = Instant::now() + patience;
        self.wait(&|| match Instant::now() < end {
            true => Ok(()),
            false => Err(Error::Failure(format!("the {} does not answer within {} s", self.other, patience.as_secs()))),
        })
    }

    /// An end that says something else than it should.
    pub(super) fn odd(&self, message: &Message) -> Error {
        Error::Failure(format!("the {} said something out of turn: {message:?}", self.other))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // What was said goes out first.
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

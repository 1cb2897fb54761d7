//! Surveys, from a thread that waits for them.

use crate::controller::{Request, SurveyReport, ask};
use crate::error::Error;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// A NIC that ends closes its socket first, and takes its name away then.
const ENDING: Duration = Duration::from_millis(500);

/// What came of asking.
#[derive(Debug)]
pub(super) enum Came {
    /// A survey.
    Survey(Box<SurveyReport>),
    /// None, this time.
    Trouble(String),
    /// The NIC ended, and took its socket with it.
    Ended,
    /// The socket is still there, and nobody listens.
    Died,
}

/// One survey of all NICs that listen at `socket`.
pub(super) fn survey(socket: &Path) -> Result<SurveyReport, Error> {
    let answer = ask(socket, &Request::Survey { nic: None, qps: true, evs: true })?;
    serde_json::from_value(answer)
        .map_err(|e| Error::Failure(format!("{}: the NIC speaks another language: {e}", socket.display())))
}

/// Asks when it is told to, on a thread of its own.
#[derive(Debug)]
pub(super) struct Source {
    demands: Sender<()>,
    came: Receiver<Came>,
}

impl Source {
    pub(super) fn start(socket: &Path) -> Result<Source, Error> {
        let (demands, demanded) = mpsc::channel();
        let (answers, came) = mpsc::channel();
        let socket = socket.to_owned();
        std::thread::Builder::new()
            .name("mrcnic-top".into())
            .spawn(move || serve(&socket, &demanded, &answers))
            .map_err(|e| Error::Failure(format!("the thread that asks the NIC can't be started: {e}")))?;
        Ok(Source { demands, came })
    }

    /// Asks for a survey.
    pub(super) fn ask(&self) {
        // The thread ends with this.
        let _ = self.demands.send(());
    }

    /// What came, if anything.
    pub(super) fn poll(&self) -> Option<Came> {
        self.came.try_recv().ok()
    }
}

fn serve(socket: &Path, demanded: &Receiver<()>, answers: &Sender<Came>) {
    while demanded.recv().is_ok() {
        if answers.send(ask_once(socket)).is_err() {
            return;
        }
    }
}

fn ask_once(socket: &Path) -> Came {
    match survey(socket) {
        Ok(report) => Came::Survey(Box::new(report)),
        // Nobody listens: it has gone, or is about to.
        Err(Error::Usage(_)) => {
            if socket.exists() {
                std::thread::sleep(ENDING);
            }
            match (socket.exists(), survey(socket)) {
                (false, _) => Came::Ended,
                (true, Ok(report)) => Came::Survey(Box::new(report)),
                (true, Err(Error::Usage(_))) => Came::Died,
                (true, Err(e)) => Came::Trouble(e.to_string()),
            }
        }
        Err(e) => Came::Trouble(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_nic_that_took_its_socket_with_it_ended_and_one_that_left_it_died() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("ctl");
        assert!(matches!(ask_once(&socket), Came::Ended));
        drop(UnixListener::bind(&socket).unwrap());
        assert!(matches!(ask_once(&socket), Came::Died));
    }
}

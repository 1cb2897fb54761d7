//! What an operator asks of a running NIC: one JSON object a line, one answer a line.

use super::journal::Journal;
use super::vicinity::no_neighbours;
use super::{Controller, LinkFault, ProfileSpec, Profiles, SurveyReport, Vicinity, Waker};
use crate::neighbour::{ANSWER_NS, NeighbourError, QUESTIONS, Resolved};
use dataplane::Ns;
use dataplane::wire::MacAddr;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long the control thread has for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(2);
/// How long it has to find a neighbour: as long as a port may take to come into use, the questions, and an answer.
const REACH: Duration = Duration::from_nanos(2 * QUESTIONS as u64 * ANSWER_NS + 2_000_000_000);

/// A request, as it stands on the socket: `{"cmd":"ev_deny","nic":"a","ev":300}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// NICs with their ports, peers, profiles, denials and probes.
    Status {},
    /// All entropy values of a NIC, their states, and the packets that took them.
    EvList {
        /// Name of the NIC.
        nic: String,
    },
    /// What there is to see of all NICs, or of one.
    Survey {
        /// Name of the NIC; all without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nic: Option<String>,
        /// With a list of QPs.
        #[serde(default)]
        qps: bool,
        /// With lists of entropy values.
        #[serde(default)]
        evs: bool,
    },
    /// The QPs of a NIC.
    Qps {
        /// Name of the NIC.
        nic: String,
    },
    /// Counters and gauges of all NICs, as text for Prometheus.
    Metrics {},
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
    /// Put an EV into the place of another of an explicit profile.
    EvReplace {
        /// Name of the NIC.
        nic: String,
        /// The value that goes.
        current: u32,
        /// The value that comes.
        new: u32,
        /// The profile; the one that lists the value without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<u64>,
        /// Port of the new one, from 1; that of the old one without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u8>,
        /// SRv6 path of the new one; that of the old one without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        segment: Option<Ipv6Addr>,
        /// In every place of the list, and not in the first alone.
        #[serde(default)]
        all: bool,
    },
    /// Probe a path, and wait for the answer.
    Probe {
        /// Name of the NIC.
        nic: String,
        /// To whom.
        destination: IpAddr,
        /// On which value; whichever comes next without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ev: Option<u32>,
    },
    /// Create and configure an EV profile: it is offline then.
    ProfileCreate {
        /// Name of the NIC.
        nic: String,
        /// The profile.
        profile: ProfileSpec,
    },
    /// One EV profile with its EVs, or all in short.
    ProfileShow {
        /// Name of the NIC.
        nic: String,
        /// Which.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Let QPs use an EV profile.
    ProfileOnline {
        /// Name of the NIC.
        nic: String,
        /// Which.
        id: u64,
    },
    /// Let no QP use an EV profile.
    ProfileOffline {
        /// Name of the NIC.
        nic: String,
        /// Which.
        id: u64,
    },
    /// Remove an EV profile that is offline.
    ProfileRemove {
        /// Name of the NIC.
        nic: String,
        /// Which.
        id: u64,
    },
    /// Want a port up or down.
    Port {
        /// Name of the NIC.
        nic: String,
        /// The port, from 1.
        port: u8,
        /// Which.
        up: bool,
    },
    /// Peers that the NIC has QPs with, what became of them, and what it offers to them.
    Peers {
        /// Name of the NIC.
        nic: String,
    },
    /// Write to a peer, and wait until all has completed.
    Write(WriteOrder),
    /// The links of the fabric between the NICs.
    FabricLinks {},
    /// Something is done to a link of the fabric.
    FabricLink {
        /// `A-B` is a link, `A>B` one direction of it.
        link: String,
        /// What.
        fault: LinkFault,
    },
    /// What happened.
    Events {
        /// Name of the NIC; all without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nic: Option<String>,
        /// What happens from now on, too: a line each. The connection takes no other request then.
        #[serde(default)]
        follow: bool,
    },
}

/// Messages to write: from one place of the local region to one place of the peer's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteOrder {
    /// Name of the NIC.
    pub nic: String,
    /// Name of the peer.
    pub peer: String,
    /// Length of a message in bytes, 1 GiB at most.
    pub size: u32,
    /// How many.
    #[serde(default = "one")]
    pub count: u64,
    /// First byte of the local region to send.
    #[serde(default)]
    pub local: u64,
    /// First byte of the peer's region to write.
    #[serde(default)]
    pub remote: u64,
    /// With it each message is a Write with Immediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immediate: Option<u32>,
    /// Seconds that all of it may take, up to a day.
    #[serde(default = "minute")]
    pub timeout: f64,
}

const fn one() -> u64 {
    1
}

const fn minute() -> f64 {
    60.0
}

impl WriteOrder {
    /// The time that it may take.
    #[must_use]
    pub fn patience(&self) -> Duration {
        const DAY: f64 = 86_400.0;
        Duration::from_secs_f64(if self.timeout.is_finite() { self.timeout.clamp(0.0, DAY) } else { DAY })
    }
}

impl Request {
    /// How long who asks waits for the answer.
    pub(super) fn patience(&self) -> Duration {
        let work = if let Request::Write(order) = self { order.patience() } else { Duration::ZERO };
        work + 2 * ANSWER
    }
}

/// What uses a NIC, and answers for it: requests about peers and writes are its own. Each comes on the thread of its operator, which may
/// wait.
pub trait Host: Send + Sync + fmt::Debug {
    /// The peers of NIC `nic`.
    ///
    /// # Errors
    /// In words.
    fn peers(&self, nic: &str) -> Result<Value, String>;

    /// Writes to a peer, and says what came of it.
    ///
    /// # Errors
    /// In words, where nothing was written.
    fn write(&self, order: &WriteOrder) -> Result<Value, String>;
}

/// Work with the controller of a NIC; `None` where there is no such NIC.
type ControlWork = Box<dyn FnOnce(Option<&mut Controller>) + Send>;

/// Work with the neighbours of a NIC; `None` where there is no such NIC, or it has none.
type NeighbourWork = Box<dyn FnOnce(Ns, Option<&mut Vicinity>) + Send>;

/// What the control thread is asked.
pub(super) enum Ask {
    /// A request, and where its answer goes.
    Request { request: Request, answer: mpsc::Sender<Value> },
    /// Something to do with the neighbours of the NIC of this name.
    Neighbours { nic: String, work: NeighbourWork },
    /// Something to do with the controller of the NIC of this name.
    Control { nic: String, work: ControlWork },
}

/// Passes requests to the control thread.
#[derive(Clone, Debug)]
pub struct Operator {
    asks: mpsc::Sender<Ask>,
    waker: Waker,
    pub(super) journal: Arc<Journal>,
    host: Option<Arc<dyn Host>>,
}

pub(super) fn refusal(why: impl Into<String>) -> Value {
    json!({ "ok": false, "error": why.into() })
}

impl Operator {
    pub(super) const fn new(asks: mpsc::Sender<Ask>, waker: Waker, journal: Arc<Journal>) -> Operator {
        Operator { asks, waker, journal, host: None }
    }

    /// The same, with a host that answers for the NIC.
    #[must_use]
    pub fn with_host(self, host: Arc<dyn Host>) -> Operator {
        Operator { host: Some(host), ..self }
    }

    /// Asks, and waits for the answer.
    #[must_use]
    pub fn ask(&self, request: Request) -> Value {
        let said = |answer: Result<Value, String>| answer.unwrap_or_else(refusal);
        match (&request, &self.host) {
            (Request::Peers { nic }, Some(host)) => return said(host.peers(nic)),
            (Request::Write(order), Some(host)) => return said(host.write(order)),
            _ => {}
        }
        match request {
            Request::Qps { nic } => self.qps(nic).unwrap_or_else(refusal),
            Request::Metrics {} => self.metrics().map_or_else(refusal, |text| json!({ "ok": true, "text": text })),
            request => self.pass_on(request),
        }
    }

    /// What there is to see of all NICs, or of one, with lists of QPs and of entropy values where they are wanted.
    ///
    /// # Errors
    /// What the control thread refuses with: there is no such NIC, or it is going down.
    pub fn survey(&self, nic: Option<String>, qps: bool, evs: bool) -> Result<SurveyReport, String> {
        let answer = self.pass_on(Request::Survey { nic, qps, evs });
        if answer["ok"] != true {
            return Err(answer["error"].as_str().unwrap_or("the NIC refused, and did not say why").to_owned());
        }
        serde_json::from_value(answer).map_err(|e| format!("the NIC's survey makes no sense: {e}"))
    }

    /// Counters and gauges of all NICs, as text for Prometheus: see [`super::metrics`].
    ///
    /// # Errors
    /// As [`Operator::survey`].
    pub fn metrics(&self) -> Result<String, String> {
        self.survey(None, false, false).map(|report| super::metrics::text(&report))
    }

    fn qps(&self, nic: String) -> Result<Value, String> {
        let report = self.survey(Some(nic), true, false)?;
        let nic = report.nics.into_iter().next().ok_or("there is no such NIC")?;
        Ok(json!({
            "ok": true,
            "states": nic.qp_states,
            "qps": nic.qps,
            "left_out": nic.qps_left_out,
            "silent_workers": nic.silent_workers,
        }))
    }

    /// Passes a request on to the control thread, and waits for its answer.
    fn pass_on(&self, request: Request) -> Value {
        let (answer, wait) = mpsc::channel();
        if self.asks.send(Ask::Request { request, answer }).is_err() {
            return refusal("the NIC is going down");
        }
        self.waker.wake_anyway();
        wait.recv_timeout(ANSWER).unwrap_or_else(|_| refusal("the NIC did not answer in time"))
    }

    /// Has the control thread do something with the EV profiles of a NIC, and waits for what comes of it; `None` when there is no such NIC,
    /// or the control thread ends.
    pub fn profiles<R: Send + 'static>(
        &self,
        nic: &str,
        work: impl FnOnce(&mut Profiles) -> R + Send + 'static,
    ) -> Option<R> {
        self.control(nic, |controller| work(controller.profiles_mut()))
    }

    /// As [`Operator::profiles`], with the whole controller.
    pub fn control<R: Send + 'static>(
        &self,
        nic: &str,
        work: impl FnOnce(&mut Controller) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, wait) = mpsc::channel();
        self.control_later(nic, move |controller| drop(answer.send(work(controller))));
        wait.recv().ok()
    }

    /// The Ethernet addresses, one for each port, by which `ip` is reached from a NIC: asks for them where they are not known, which takes three
    /// seconds at most, and three more while no port is in use. They are looked after until [`Operator::forget`]. `known` are addresses for ports on which nobody is asked.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn reach(&self, nic: &str, ip: IpAddr, known: Vec<MacAddr>) -> Resolved {
        let (answer, wait) = mpsc::channel();
        self.neighbours_later(nic, move |now, vicinity| match vicinity {
            Some(vicinity) => vicinity.resolve(now, ip, known, answer),
            // Who has gone needs no answer.
            None => drop(answer.send(no_neighbours(ip))),
        });
        wait.recv_timeout(REACH).unwrap_or(Err(NeighbourError::Gone { ip }))
    }

    /// An address that was reached is needed no more, by one of those who asked.
    pub fn forget(&self, nic: &str, ip: IpAddr) {
        self.neighbours_later(nic, move |_, vicinity| {
            if let Some(vicinity) = vicinity {
                vicinity.release(ip);
            }
        });
    }

    /// QPs with an address that was reached have been opened: they hear of it again, in case it changed meanwhile.
    pub fn repeat_hops(&self, nic: &str, ip: IpAddr) {
        self.neighbours_later(nic, move |_, vicinity| {
            if let Some(vicinity) = vicinity {
                vicinity.repeat(ip);
            }
        });
    }

    fn neighbours_later(&self, nic: &str, work: impl FnOnce(Ns, Option<&mut Vicinity>) + Send + 'static) {
        let work: NeighbourWork = Box::new(work);
        if self.asks.send(Ask::Neighbours { nic: nic.to_owned(), work }).is_ok() {
            self.waker.wake_anyway();
        }
    }

    /// As [`Operator::profiles`], and does not wait.
    pub fn profiles_later(&self, nic: &str, work: impl FnOnce(&mut Profiles) + Send + 'static) {
        self.control_later(nic, move |controller| work(controller.profiles_mut()));
    }

    fn control_later(&self, nic: &str, work: impl FnOnce(&mut Controller) + Send + 'static) {
        let work: ControlWork = Box::new(move |controller| controller.map_or((), work));
        // A control thread that has gone has forgotten its profiles.
        if self.asks.send(Ask::Control { nic: nic.to_owned(), work }).is_ok() {
            self.waker.wake_anyway();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_needs_a_peer_and_a_size_and_its_keys_are_checked() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        let order = match read(r#"{"cmd":"write","nic":"","peer":"b","size":8}"#).unwrap() {
            Request::Write(order) => order,
            other => panic!("{other:?}"),
        };
        assert_eq!((order.count, order.local, order.remote, order.immediate, order.timeout), (1, 0, 0, None, 60.0));
        let back = serde_json::to_string(&Request::Write(order.clone())).unwrap();
        assert_eq!(read(&back).unwrap(), Request::Write(order));
        for wrong in [
            r#"{"cmd":"write","nic":"","peer":"b"}"#,
            r#"{"cmd":"write","nic":"","size":8}"#,
            r#"{"cmd":"write","nic":"","peer":"b","size":8,"cuont":2}"#,
            r#"{"cmd":"write","nic":"","peer":"b","size":4294967296}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_asks_for_a_write_waits_as_long_as_it_may_take_and_never_longer_than_a_day() {
        let patience = |timeout| {
            let nic = String::new();
            let order =
                WriteOrder { nic, peer: "b".into(), size: 1, count: 1, local: 0, remote: 0, immediate: None, timeout };
            Request::Write(order).patience()
        };
        assert_eq!(patience(5.0), Duration::from_secs(5) + 2 * ANSWER);
        assert_eq!(patience(-1.0), 2 * ANSWER);
        for endless in [f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(patience(endless), Duration::from_secs(86_400) + 2 * ANSWER);
        }
        assert_eq!(Request::Status {}.patience(), 2 * ANSWER);
    }
}

//! A peer: who it is, and the bond with it, if there is one.

use super::bond::{Bond, Prepared, Ways};
use super::file::PeerTable;
use super::region::Room;
use crate::host::{Exchange, ExchangeAddress, LifeState, Offer, Reach};
use dataplane::wire::MacAddr;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long who connects waits before it tries again.
const RETRY: Duration = Duration::from_millis(500);
/// How often who waits looks whether it is to end.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A peer of the file.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) table: PeerTable,
    connect: Option<ExchangeAddress>,
    hops: Vec<MacAddr>,
    room: Arc<Room>,
    /// It is in the file no more.
    gone: AtomicBool,
    state: Mutex<State>,
    /// One exchange at a time.
    turn: Mutex<()>,
    /// Exchanges begun: an older one makes way.
    epoch: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) failed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    bond: Option<Arc<Bond>>,
    /// What this NIC has for a peer whose numbers are in the file.
    own: Option<Offer>,
    /// The other end of the exchange is there.
    connected: bool,
    /// Why there is no bond, or none any more.
    trouble: Option<String>,
}

/// The NIC that a peer is one of.
pub(super) trait Owner: Sync {
    /// Whether everything is to end.
    fn is_over(&self) -> bool;

    /// The first PSN of the next QP.
    fn psn(&self) -> u32;

    /// Hears of each bond, before its QPs send.
    fn begun(&self, bond: &Arc<Bond>);
}

/// What an exchange needs.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) ways: &'a Ways,
    pub(super) name: &'a str,
    pub(super) owner: &'a dyn Owner,
}

impl Peer {
    pub(super) fn new(
        table: PeerTable,
        connect: Option<ExchangeAddress>,
        hops: Vec<MacAddr>,
        room: Arc<Room>,
    ) -> Arc<Peer> {
        Arc::new(Peer {
            table,
            connect,
            hops,
            room,
            gone: AtomicBool::new(false),
            state: Mutex::default(),
            turn: Mutex::default(),
            epoch: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who connects: this end, or the peer.
    pub(super) const fn connects(&self) -> bool {
        self.connect.is_some()
    }

    /// Its numbers are in the file, and nothing is exchanged.
    pub(super) const fn is_fixed(&self) -> bool {
        !self.table.exchange
    }

    /// The bond with it, as long as it is there.
    pub(super) fn bond(&self) -> Result<Arc<Bond>, String> {
        let state = self.state();
        match &state.bond {
            Some(bond) if state.connected || self.is_fixed() => Ok(Arc::clone(bond)),
            _ => {
                let why = state.trouble.as_deref().unwrap_or(match (self.is_fixed(), self.connects()) {
                    (true, _) => "it is being asked for",
                    (false, true) => "it is being connected to",
                    (false, false) => "it has not connected",
                });
                Err(format!("there are no QPs with peer {:?}: {why}", self.table.name))
            }
        }
    }

    /// Takes the bond away: its QPs are closed once nobody uses them any more.
    fn part(&self, trouble: Option<String>) {
        let mut state = self.state();
        let bond = state.bond.take();
        state.connected = false;
        state.trouble = trouble.or(state.trouble.take());
        // Closing waits for workers: not while others want to look.
        drop(state);
        if let Some(bond) = bond {
            // Whoever writes still ends now: nothing comes of it any more.
            bond.parted.store(true, Ordering::SeqCst);
        }
    }

    /// It is in the file no more.
    pub(super) fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.part(Some("it is in the file no more".into()));
    }

    fn is_over(&self, context: &Context<'_>) -> bool {
        self.gone.load(Ordering::Relaxed) || context.owner.is_over()
    }

    /// Makes QPs with the numbers of the file; `own` is what this NIC has for it. A peer whose Ethernet addresses are in the file, too, is joined at
    /// once; what comes back is for [`Peer::keep_asking`].
    pub(super) fn fix(&self, context: &Context<'_>) -> Result<Option<(Prepared, Offer)>, String> {
        if !self.is_fixed() {
            return Ok(None);
        }
        let missing = "exchange is false, and [run.peer.other] is not there: the peer's mrcnic run --show prints it";
        let other = self.table.other.clone().ok_or(missing)?;
        let prepared = Prepared::new(context.ways, &self.room, &self.table, || 0)?;
        if let Some(expected) = self.table.own.as_ref().filter(|expected| **expected != prepared.own) {
            return Err(differs(expected, &prepared.own));
        }
        self.state().own = Some(prepared.own.clone());
        if other.macs.is_empty() && self.hops.is_empty() && context.ways.device.has_neighbours() {
            return Ok(Some((prepared, other)));
        }
        self.join_fixed(context, prepared, other, None)?;
        Ok(None)
    }

    fn join_fixed(
        &self,
        context: &Context<'_>,
        prepared: Prepared,
        other: Offer,
        reach: Option<&Reach>,
    ) -> Result<(), String> {
        let bond = Arc::new(prepared.join(context.ways, other, &self.hops, reach)?);
        context.owner.begun(&bond);
        let mut state = self.state();
        (state.bond, state.trouble) = (Some(bond), None);
        Ok(())
    }

    /// Asks for a peer whose numbers are in the file until it answers, and joins its QPs then.
    pub(super) fn keep_asking(&self, context: &Context<'_>, prepared: Prepared, other: Offer) {
        while !self.is_over(context) {
            let joined = match context.ways.find(&other, &self.hops, true) {
                Ok(reach) => self.join_fixed(context, prepared, other, reach.as_ref()),
                Err(trouble) => {
                    self.tell(trouble);
                    self.rest(context);
                    continue;
                }
            };
            if let Err(trouble) = joined {
                self.tell(trouble);
            }
            return;
        }
    }

    /// What this NIC has for it, once that is known.
    pub(super) fn own(&self) -> Option<Offer> {
        self.state().own.clone()
    }

    /// Waits before the next try.
    fn rest(&self, context: &Context<'_>) {
        let mut left = RETRY;
        while !left.is_zero() && !self.is_over(context) {
            std::thread::sleep(LOOK.min(left));
            left = left.saturating_sub(LOOK);
        }
    }

    /// Connects to it again and again, until it is to end.
    pub(super) fn keep_connected(&self, context: &Context<'_>) {
        let Some(address) = &self.connect else { return };
        while !self.is_over(context) {
            let tried = Exchange::connect(address)
                .map_err(|e| format!("can't connect to {address}: {e}"))
                .and_then(|exchange| self.exchange(context, exchange, None));
            if let Err(trouble) = tried {
                self.tell(trouble);
            }
            self.rest(context);
        }
    }

    /// It has connected, and made its offer.
    pub(super) fn accept(&self, context: &Context<'_>, exchange: Exchange, offer: Offer) {
        if self.is_fixed() || self.connects() {
            return exchange.refuse(if self.is_fixed() {
                "its numbers are in the file: nothing is exchanged"
            } else {
                "both ends have connect: leave it out at one of them"
            });
        }
        if let Err(trouble) = self.exchange(context, exchange, Some(offer)) {
            self.tell(trouble);
        }
    }

    fn tell(&self, trouble: String) {
        let mut state = self.state();
        if state.trouble.as_deref() != Some(trouble.as_str()) {
            tracing::info!(peer = self.table.name, "{trouble}");
        }
        state.trouble = Some(trouble);
    }

    /// Exchanges numbers, and watches the other end until it goes. `offer` is that of a peer which has connected.
    fn exchange(&self, context: &Context<'_>, mut exchange: Exchange, offer: Option<Offer>) -> Result<(), String> {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        let is_latest = || self.epoch.load(Ordering::SeqCst) == epoch && !self.is_over(context);
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let began = self.begin(context, &mut exchange, offer);
        let bond = match began {
            Ok(bond) => bond,
            Err(Refused::Here(why)) => {
                exchange.refuse(&why);
                return Err(why);
            }
            Err(Refused::There(why)) => return Err(why),
        };
        if self.is_over(context) {
            self.part(None);
            return Ok(());
        }
        tracing::info!(peer = self.table.name, qps = bond.qps.len(), "joined");
        drop(turn);
        while is_latest() && exchange.is_open(LOOK) && !bond.broken.load(Ordering::Relaxed) {}
        if is_latest() {
            let mut state = self.state();
            state.connected = false;
            state.trouble = Some(match bond.broken.load(Ordering::Relaxed) {
                true => "a QP failed: they are joined anew".into(),
                false => "the peer has gone".into(),
            });
            tracing::info!(peer = self.table.name, "parted");
        }
        Ok(())
    }

    fn begin(
        &self,
        context: &Context<'_>,
        exchange: &mut Exchange,
        offer: Option<Offer>,
    ) -> Result<Arc<Bond>, Refused> {
        let there = |e: std::io::Error| Refused::There(e.to_string());
        let prepared =
            Prepared::new(context.ways, &self.room, &self.table, || context.owner.psn()).map_err(Refused::Here)?;
        let accepted = offer.is_some();
        let other = match offer {
            Some(offer) => offer,
            None => {
                exchange.offer(context.name, &prepared.own).map_err(there)?;
                exchange.take_offer().map_err(there)?.1
            }
        };
        if let Some(ip) = self.table.ip.filter(|ip| *ip != other.ip) {
            return Err(Refused::Here(format!("its address is {}, and the file says {ip}", other.ip)));
        }
        prepared.own.check(&other).map_err(Refused::Here)?;
        // The QPs of before are of no use to either end.
        self.part(None);
        let own = prepared.own.clone();
        let reach = context.ways.find(&other, &self.hops, false).map_err(Refused::Here)?;
        let bond = Arc::new(prepared.join(context.ways, other, &self.hops, reach.as_ref()).map_err(Refused::Here)?);
        context.owner.begun(&bond);
        if accepted {
            exchange.offer(context.name, &own).map_err(there)?;
        }
        exchange.ready().map_err(there)?;
        let mut state = self.state();
        *state = State { bond: Some(Arc::clone(&bond)), own: None, connected: true, trouble: None };
        drop(state);
        Ok(bond)
    }

    /// What an operator sees of it.
    pub(super) fn report(&self) -> Value {
        let state = self.state();
        let (bond, connected, trouble) = (state.bond.clone(), state.connected, state.trouble.clone());
        drop(state);
        let standing = match (&bond, connected) {
            (Some(bond), _) if bond.broken.load(Ordering::Relaxed) => "broken",
            (Some(_), true) => "joined",
            (Some(_), false) if self.is_fixed() => "fixed",
            (Some(_), false) => "parted",
            (None, _) => "waiting",
        };
        let mut report = json!({
            "name": self.table.name,
            "state": standing,
            "region": self.room.table.name,
            "messages": self.messages.load(Ordering::Relaxed),
            "bytes": self.bytes.load(Ordering::Relaxed),
            "failed": self.failed.load(Ordering::Relaxed),
        });
        if let Some(trouble) = trouble.filter(|_| standing != "joined") {
            report["trouble"] = json!(trouble);
        }
        if let Some(bond) = bond {
            report["qps"] = bond.qps.iter().enumerate().map(|(n, qp)| qp_report(&bond, n, qp)).collect();
            report["immediates"] = json!(bond.immediates.load(Ordering::Relaxed));
            report["last_immediate"] = json!(bond.last_immediate.load(Ordering::Relaxed));
            report["own"] = serde_json::to_value(&bond.own).unwrap_or_default();
            report["other"] = serde_json::to_value(&bond.other).unwrap_or_default();
        }
        report
    }
}

/// Who ends an exchange.
enum Refused {
    /// This end: the other is told.
    Here(String),
    /// The other end.
    There(String),
}

fn qp_report(bond: &Bond, n: usize, qp: &crate::host::QueuePair) -> Value {
    let state = match qp.state() {
        LifeState::Reset => "reset",
        LifeState::Init => "init",
        LifeState::Rtr => "rtr",
        LifeState::Rts => "rts",
        LifeState::Error => "error",
    };
    let peer = bond.other.qps.get(n).map(|qp| qp.qpn);
    let mut report = json!({ "qpn": qp.qpn().get(), "peer_qpn": peer, "state": state, "pending": qp.pending().0 });
    if let Ok(Some(stats)) = qp.stats() {
        report["sent"] = json!(stats.sent);
        report["retransmits"] = json!(stats.retransmits);
        report["timeouts"] = json!(stats.timeouts);
        report["delivered"] = json!(stats.delivered);
        report["delivered_bytes"] = json!(stats.delivered_bytes);
    }
    report
}

/// What of `own` is another than the file expects.
fn differs(expected: &Offer, own: &Offer) -> String {
    let fields: [(&str, String, String); 7] = [
        ("ip", expected.ip.to_string(), own.ip.to_string()),
        ("macs", format!("{:?}", expected.macs), format!("{:?}", own.macs)),
        ("mss", expected.mss.to_string(), own.mss.to_string()),
        ("window", expected.window.to_string(), own.window.to_string()),
        ("immediates", expected.immediates.to_string(), own.immediates.to_string()),
        ("qps", format!("{:x?}", expected.qps), format!("{:x?}", own.qps)),
        ("region", format!("{:x?}", expected.region), format!("{:x?}", own.region)),
    ];
    let changed = fields.into_iter().filter(|(_, expected, own)| expected != own);
    let lines: Vec<String> = changed
        .map(|(key, expected, own)| format!("[run.peer.own] says {key} is {expected}, and it is {own}"))
        .collect();
    format!("{}: put what --show prints into both files", lines.join("; "))
}

//! Neighbours on an Ethernet: who has which Ethernet address, asked by ARP (RFC 826) or neighbour discovery (RFC 4861), what is answered to those
//! who ask, and ping (RFC 792, RFC 4443). Sans-IO: it takes frames and the time, and gives frames, answers, and when to come back.
//!
//! Port i of the NIC reaches port i of the other, so each address is asked for on each port. Nothing is learned of whom nobody here wants to
//! reach: frames from the network cannot fill the table. An address that is known is confirmed every 30 s as long as QPs use it; one that
//! changes is told to the QPs.

mod address;
mod error;
mod heard;
mod packet;
mod refused;
mod table;
#[cfg(test)]
mod tests;

pub use address::InterfaceAddress;
pub use error::{NeighbourError, Silent};
pub use refused::{Counters, Refused};
pub use table::{ANSWER_NS, FORGET_NS, LOST_NS, NeighbourState, QUESTIONS, REACHABLE_NS, SETTLE_NS};

use dataplane::Ns;
use dataplane::nic::{PORTS_MAX, PortId};
use dataplane::time::SEC;
use dataplane::wire::MacAddr;
use packet::Origin;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use table::{Entry, Step};

/// Addresses that are resolved at most, with those that somebody waits for.
pub const NEIGHBOURS_MAX: usize = 4_096;
/// Who waits for an address at most.
pub const WAITING_MAX: usize = 4_096;
/// Frames that wait for the way to the ports at most.
const FRAMES_MAX: usize = 256;
/// Questions, and pings, that are answered in a second, and at once.
const ANSWERS_A_SECOND: u64 = 1_000;
const ANSWERS_AT_ONCE: u64 = 64;

/// A port, as neighbours know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourPort {
    /// What users call it.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Whether hosts of all kinds are at its other end, which can be asked and ask.
    pub on_ethernet: bool,
}

/// What a NIC is among its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourSpec {
    /// Its address.
    pub address: InterfaceAddress,
    /// The router for addresses that are not on its network.
    pub gateway: Option<IpAddr>,
    /// Its Ethernet address, where it is not the port's own.
    pub mac: Option<MacAddr>,
    /// VLAN tag control information of its frames.
    pub vlan: Option<u16>,
    /// Neighbours that are never asked for: an Ethernet address for each port.
    pub fixed: HashMap<IpAddr, Vec<MacAddr>>,
}

impl NeighbourSpec {
    /// A NIC with this address, and all others on its network.
    #[must_use]
    pub fn new(address: impl Into<InterfaceAddress>) -> NeighbourSpec {
        let address = address.into();
        NeighbourSpec { address, gateway: None, mac: None, vlan: None, fixed: HashMap::new() }
    }
}

impl From<InterfaceAddress> for NeighbourSpec {
    fn from(address: InterfaceAddress) -> NeighbourSpec {
        NeighbourSpec::new(address)
    }
}

/// An Ethernet address that QPs are to send to from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// What leaves for this address..
    pub destination: IpAddr,
    /// ..by this port..
    pub port: PortId,
    /// ..goes there.
    pub mac: MacAddr,
}

/// What is known of a neighbour on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address; a router's where others are behind it.
    pub ip: IpAddr,
    /// The port.
    pub port: PortId,
    /// Its Ethernet address, once it is known.
    pub mac: Option<MacAddr>,
    /// How it stands.
    pub state: NeighbourState,
}

/// What came of asking.
pub type Resolved = Result<Vec<MacAddr>, NeighbourError>;

/// An address that is used, or waited for.
#[derive(Debug)]
struct Wanted {
    /// Who is asked: the address itself, or a router.
    hop: IpAddr,
    holders: usize,
}

/// Who waits for an address.
#[derive(Debug)]
struct Waiting {
    token: u32,
    ip: IpAddr,
    hop: IpAddr,
    known: Vec<MacAddr>,
}

/// Who waits for a port to come into use: a link may take its time.
#[derive(Debug)]
struct Pending {
    token: u32,
    ip: IpAddr,
    known: Vec<MacAddr>,
    until: Ns,
}

/// How asking for an address begins.
enum Begun {
    /// It needs no asking.
    Known(Vec<MacAddr>),
    /// This one is asked.
    Asked(IpAddr),
    /// No port is in use.
    NoPort,
}

/// Answers that may go out, in a bucket that fills with time.
#[derive(Debug)]
struct Bucket {
    left: u64,
    counted_at: Ns,
}

impl Bucket {
    const fn full() -> Bucket {
        Bucket { left: ANSWERS_AT_ONCE, counted_at: Ns::ZERO }
    }

    fn take(&mut self, now: Ns) -> Result<(), Refused> {
        let each = SEC / ANSWERS_A_SECOND;
        let earned = now.since(self.counted_at) / each;
        if earned > 0 {
            self.left = (self.left + earned).min(ANSWERS_AT_ONCE);
            self.counted_at += earned * each;
        }
        self.left = self.left.checked_sub(1).ok_or(Refused::Rate)?;
        Ok(())
    }
}

/// The neighbours of one NIC.
#[derive(Debug)]
pub struct Neighbours {
    spec: NeighbourSpec,
    ports: Vec<NeighbourPort>,
    /// Which are in use.
    up: Vec<bool>,
    entries: BTreeMap<(IpAddr, u8), Entry>,
    /// No entry is due before.
    wake: Option<Ns>,
    wanted: BTreeMap<IpAddr, Wanted>,
    waiting: Vec<Waiting>,
    pending: Vec<Pending>,
    resolved: VecDeque<(u32, Resolved)>,
    frames: VecDeque<(PortId, Vec<u8>)>,
    hops: VecDeque<NextHop>,
    conflict: Option<MacAddr>,
    questions: Bucket,
    pings: Bucket,
    tokens: u32,
    counters: Counters,
}

impl Neighbours {
    /// The neighbours of a NIC with these ports, 1 to 8, none of which is in use yet.
    #[must_use]
    pub fn new(spec: NeighbourSpec, mut ports: Vec<NeighbourPort>) -> Neighbours {
        ports.truncate(PORTS_MAX);
        if let (Some(mac), Some(port)) = (spec.mac, ports.first_mut()) {
            port.mac = mac;
        }
        let up = vec![false; ports.len()];
        Neighbours {
            spec,
            ports,
            up,
            entries: BTreeMap::new(),
            wake: None,
            wanted: BTreeMap::new(),
            waiting: Vec::new(),
            pending: Vec::new(),
            resolved: VecDeque::new(),
            frames: VecDeque::new(),
            hops: VecDeque::new(),
            conflict: None,
            questions: Bucket::full(),
            pings: Bucket::full(),
            tokens: 0,
            counters: Counters::default(),
        }
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All that is known, by address and port.
    pub fn table(&self) -> impl Iterator<Item = Neighbour> + '_ {
        let one = |(&(ip, port), entry): (&(IpAddr, u8), &Entry)| Neighbour {
            ip,
            port: PortId(port),
            mac: entry.mac,
            state: entry.state,
        };
        self.entries.iter().map(one)
    }

    /// A port came into use, or went out of it. On one that came everybody is told of the NIC's address, and those that QPs use are asked for.
    pub fn set_port(&mut self, now: Ns, port: PortId, up: bool) {
        let at = usize::from(port.0);
        let Some(was) = self.up.get_mut(at) else { return };
        if std::mem::replace(was, up) == up || !self.ports[at].on_ethernet {
            return;
        }
        if !up {
            // Nobody waits for an answer that can't come.
            return self.settle(None);
        }
        self.counters.announced += 1;
        let announcement = self.origin(port).announce(self.spec.address.ip);
        self.send(port, announcement);
        let hops: BTreeSet<IpAddr> = self.wanted.values().map(|wanted| wanted.hop).collect();
        for hop in hops {
            // Somebody else may be at the other end now.
            self.entries.entry((hop, port.0)).or_insert(Entry::new(now)).doubt(now);
            self.wake_at(now);
        }
        for pending in std::mem::take(&mut self.pending) {
            self.start(now, pending);
        }
    }

    fn wake_at(&mut self, at: Ns) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    fn origin(&self, port: PortId) -> Origin {
        let mac = self.ports.get(usize::from(port.0)).map_or(MacAddr([0; 6]), |port| port.mac);
        Origin { mac, vlan: self.spec.vlan }
    }

    fn send(&mut self, port: PortId, frame: Vec<u8>) {
        if frame.is_empty() || self.frames.len() == FRAMES_MAX {
            self.counters.unsent += 1;
            return;
        }
        self.frames.push_back((port, frame));
    }

    /// Counts a frame that found the way to the port full.
    pub const fn count_unsent(&mut self) {
        self.counters.unsent += 1;
    }

    /// Takes the oldest frame to send.
    pub fn poll_frame(&mut self) -> Option<(PortId, Vec<u8>)> {
        self.frames.pop_front()
    }

    /// Takes the oldest change of an address.
    pub fn poll_next_hop(&mut self) -> Option<NextHop> {
        self.hops.pop_front()
    }

    /// Takes the oldest answer to [`Neighbours::resolve`].
    pub fn poll_resolved(&mut self) -> Option<(u32, Resolved)> {
        self.resolved.pop_front()
    }

    /// Takes the Ethernet address of somebody else who uses the NIC's IP address, since this was asked last.
    pub const fn poll_conflict(&mut self) -> Option<MacAddr> {
        self.conflict.take()
    }

    /// Wants to know by which Ethernet addresses `ip` is reached, one for each port. [`Neighbours::poll_resolved`] has the answer, with the
    /// number that this returns: at once, or within 3 s, and as long before that while no port is in use. Once it is good, the address is looked after until [`Neighbours::release`]. `known` are
    /// addresses for ports that nobody is asked on, and for ports that are not in use; there may be none.
    pub fn resolve(&mut self, now: Ns, ip: IpAddr, known: Vec<MacAddr>) -> u32 {
        self.tokens = self.tokens.wrapping_add(1);
        let token = self.tokens;
        let until = now + u64::from(QUESTIONS) * ANSWER_NS;
        self.start(now, Pending { token, ip, known, until });
        token
    }

    fn start(&mut self, now: Ns, pending: Pending) {
        let Pending { token, ip, ref known, until } = pending;
        match self.begin(now, ip, known) {
            Ok(Begun::Known(macs)) => self.resolved.push_back((token, Ok(macs))),
            Ok(Begun::NoPort) if until > now => {
                self.pending.push(pending);
                self.wake_at(until);
            }
            Ok(Begun::NoPort) => self.resolved.push_back((token, Err(NeighbourError::NoPort { ip }))),
            Ok(Begun::Asked(hop)) => {
                self.waiting.push(Waiting { token, ip, hop, known: pending.known });
                self.settle(Some(hop));
            }
            Err(error) => self.resolved.push_back((token, Err(error))),
        }
    }

    /// Finds what needs no asking, or sees that there is an entry for each port that is asked.
    fn begin(&mut self, now: Ns, ip: IpAddr, known: &[MacAddr]) -> Result<Begun, NeighbourError> {
        if let Some(macs) = self.spec.fixed.get(&ip) {
            return Ok(Begun::Known(macs.clone()));
        }
        if ip == self.spec.address.ip {
            return Ok(Begun::Known(self.ports.iter().map(|port| port.mac).collect()));
        }
        let hop = self.hop(ip)?;
        if let Some(port) = (0..self.ports.len()).find(|&n| !self.ports[n].on_ethernet && known.get(n).is_none()) {
            return Err(NeighbourError::NotOnEthernet { ip, port: port + 1, name: self.ports[port].name.clone() });
        }
        let full = self.waiting.len() + self.pending.len() >= WAITING_MAX;
        if full || (self.wanted.len() >= NEIGHBOURS_MAX && !self.wanted.contains_key(&ip)) {
            return Err(NeighbourError::TooMany { ip });
        }
        if !self.up.contains(&true) {
            return Ok(Begun::NoPort);
        }
        self.wanted.entry(ip).or_insert(Wanted { hop, holders: 0 });
        for port in self.asked_ports() {
            let entry = self.entries.entry((hop, port)).or_insert(Entry::new(now));
            entry.retry(now);
            if entry.due <= now {
                self.step(now, (hop, port), true);
            }
        }
        Ok(Begun::Asked(hop))
    }

    /// Who is asked for the way to `ip`.
    fn hop(&self, ip: IpAddr) -> Result<IpAddr, NeighbourError> {
        let own = self.spec.address;
        if ip.is_multicast() || ip.is_unspecified() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(NeighbourError::Group { ip });
        }
        if ip.is_ipv4() != own.ip.is_ipv4() {
            return Err(NeighbourError::OtherFamily { ip, own: own.ip });
        }
        match self.spec.gateway {
            _ if own.is_on_link(ip) => Ok(ip),
            Some(gateway) => Ok(gateway),
            None => Err(NeighbourError::OffLink { ip, own }),
        }
    }

    /// Ports in use on which neighbours are asked for.
    fn asked_ports(&self) -> Vec<u8> {
        let asked = |&n: &u8| self.up[usize::from(n)] && self.ports[usize::from(n)].on_ethernet;
        (0..self.ports.len() as u8).filter(asked).collect()
    }

    /// Answers those for whom all is known, of those who wait for `hop`, or of all.
    fn settle(&mut self, hop: Option<IpAddr>) {
        let mut n = 0;
        while n < self.waiting.len() {
            let concerned = hop.is_none_or(|hop| hop == self.waiting[n].hop);
            let Some(answer) = concerned.then(|| self.answer(&self.waiting[n])).flatten() else {
                n += 1;
                continue;
            };
            let Waiting { token, ip, .. } = self.waiting.swap_remove(n);
            if let Some(wanted) = self.wanted.get_mut(&ip).filter(|_| answer.is_ok()) {
                wanted.holders += 1;
            }
            self.forget_unwanted(ip);
            self.resolved.push_back((token, answer));
        }
    }

    /// What there is to say to who waits; `None` while something is still asked.
    fn answer(&self, waiting: &Waiting) -> Option<Resolved> {
        let &Waiting { ref ip, hop, ref known, .. } = waiting;
        let asked = self.asked_ports();
        let entry = |port: u8| self.entries.get(&(hop, port));
        if asked.iter().any(|&port| entry(port).is_some_and(|entry| !entry.is_settled())) {
            return None;
        }
        let found =
            |port: u8| entry(port).filter(|entry| entry.state != NeighbourState::Lost).and_then(|entry| entry.mac);
        let silent: Vec<Silent> = asked
            .iter()
            .filter(|&&port| found(port).is_none())
            .map(|&port| Silent { port: port + 1, name: self.ports[usize::from(port)].name.clone() })
            .collect();
        if !silent.is_empty() {
            return Some(Err(NeighbourError::NoAnswer { ip: *ip, hop, silent }));
        }
        // A port that is not in use gets an address when it comes back; until then any will do.
        let any = asked.iter().find_map(|&port| found(port)).or_else(|| known.first().copied());
        let of = |port: u8| found(port).or_else(|| known.get(usize::from(port)).copied()).or(any);
        let macs: Option<Vec<MacAddr>> = (0..self.ports.len() as u8).map(of).collect();
        Some(macs.ok_or(NeighbourError::NoPort { ip: *ip }))
    }

    /// One who was answered needs the address no more.
    pub fn release(&mut self, ip: IpAddr) {
        if let Some(wanted) = self.wanted.get_mut(&ip) {
            wanted.holders = wanted.holders.saturating_sub(1);
            self.forget_unwanted(ip);
        }
    }

    fn forget_unwanted(&mut self, ip: IpAddr) {
        let waited = self.waiting.iter().any(|waiting| waiting.ip == ip);
        if !waited && self.wanted.get(&ip).is_some_and(|wanted| wanted.holders == 0) {
            self.wanted.remove(&ip);
        }
    }

    /// Tells again all addresses towards `ip`: QPs that were just opened may have missed a change.
    pub fn repeat(&mut self, ip: IpAddr) {
        let Some(hop) = self.wanted.get(&ip).map(|wanted| wanted.hop) else { return };
        let known =
            self.entries.range((hop, 0)..=(hop, u8::MAX)).filter_map(|(&(_, port), entry)| Some((port, entry.mac?)));
        self.hops.extend(known.map(|(port, mac)| NextHop { destination: ip, port: PortId(port), mac }));
    }

    /// When [`Neighbours::on_time`] is to be called next.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Ns> {
        self.wake
    }

    /// Time came: what is due is asked.
    pub fn on_time(&mut self, now: Ns) {
        if self.wake.is_none_or(|due| due > now) {
            return;
        }
        let used: BTreeSet<IpAddr> = self.wanted.values().map(|wanted| wanted.hop).collect();
        let due: Vec<(IpAddr, u8)> =
            self.entries.iter().filter(|(_, entry)| entry.due <= now).map(|(&key, _)| key).collect();
        for key @ (ip, port) in due {
            let reachable = self.up.get(usize::from(port)).is_some_and(|&up| up);
            self.step(now, key, used.contains(&ip) && reachable);
        }
        let (over, pending): (Vec<Pending>, Vec<Pending>) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.until <= now);
        self.pending = pending;
        self.resolved
            .extend(over.into_iter().map(|Pending { token, ip, .. }| (token, Err(NeighbourError::NoPort { ip }))));
        let until = self.pending.iter().map(|pending| pending.until);
        self.wake = self.entries.values().map(|entry| entry.due).chain(until).min();
        self.settle(None);
    }

    /// Does what an entry that is due wants done.
    fn step(&mut self, now: Ns, key: (IpAddr, u8), used: bool) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let (step, (ip, port)) = (entry.on_time(now, used), key);
        let due = entry.due;
        self.wake_at(due);
        match step {
            Step::Ask(of) => {
                self.counters.asked += 1;
                if let Some(question) = self.origin(PortId(port)).ask(self.spec.address.ip, ip, of) {
                    self.send(PortId(port), question);
                }
            }
            Step::Lost => self.counters.unanswered += 1,
            Step::Forget => {
                self.entries.remove(&key);
            }
            Step::Nothing => {}
        }
    }
}

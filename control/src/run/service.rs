//! The NIC that runs: its regions, its peers, and what operators ask of them.

use super::bond::{Bond, Halt, Ways};
use super::file::{PeerTable, RunFile};
use super::peer::{Context, LOOK, Owner, Peer};
use super::region::{Room, memory};
use crate::config::Setup;
use crate::controller::{Host, ProfileSpec, WriteOrder};
use crate::error::Error;
use crate::host::{AsyncEvent, Device, ExchangeListener, Offer};
use dataplane::memory::Buffer;
use dataplane::nic::{Operation, Paths, Qpn, Status};
use dataplane::transport::PSN_SPACE;
use dataplane::wire::MacAddr;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Receives that complete and were not heard of yet, of all QPs.
const RECEIVES: usize = 1 << 16;
/// Exchanges at a time, of peers that connect; one more is refused.
const EXCHANGES_MAX: usize = 256;

/// The NIC that runs.
pub(super) struct Service {
    ways: Ways,
    name: String,
    regions: Mutex<BTreeMap<String, Arc<Room>>>,
    peers: Mutex<BTreeMap<String, Arc<Peer>>>,
    /// Bonds by the numbers of their QPs.
    bonds: Mutex<HashMap<u32, Weak<Bond>>>,
    rng: Mutex<Xoshiro256PlusPlus>,
    draining: AtomicBool,
    over: AtomicBool,
    /// Orders that are being carried out.
    orders: AtomicUsize,
    messages: AtomicU64,
    failed: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service({:?})", self.name)
    }
}

impl Owner for Service {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn psn(&self) -> u32 {
        lock(&self.rng).random::<u32>() % PSN_SPACE
    }

    fn begun(&self, bond: &Arc<Bond>) {
        let mut bonds = lock(&self.bonds);
        bonds.retain(|_, bond| bond.strong_count() > 0);
        bonds.extend(bond.qps.iter().map(|qp| (qp.qpn().get(), Arc::downgrade(bond))));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts an order for as long as it is carried out.
struct Order<'a>(&'a AtomicUsize);

impl Drop for Order<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service {
    /// Registers the regions of the file, and opens the QPs of peers whose numbers it has.
    pub(super) fn new(device: Device, file: &RunFile, setup: &Setup, seed: u64) -> Result<Arc<Service>, Error> {
        let own = |mac: MacAddr| vec![mac];
        let macs = file.mac.map_or_else(|| device.ports().iter().map(|port| port.mac).collect(), own);
        let table = &file.table;
        let receive = device.completion_queue(RECEIVES).map_err(|e| Error::Failure(e.to_string()))?;
        let paths: fn(u16) -> Paths = match setup.spraying {
            crate::config::SprayingType::None => |udp_port| Paths::Own { udp_port },
            crate::config::SprayingType::Default => |_| Paths::Sprayed,
        };
        let service = Arc::new(Service {
            ways: Ways { device, receive, ip: table.address.ip.ip, macs, vlan: table.address.vlan, paths },
            name: table.name.clone(),
            regions: Mutex::default(),
            peers: Mutex::default(),
            bonds: Mutex::default(),
            rng: Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed)),
            draining: AtomicBool::new(false),
            over: AtomicBool::new(false),
            orders: AtomicUsize::new(0),
            messages: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            threads: Mutex::default(),
        });
        for profile in &table.profile {
            service.add_profile(profile).map_err(Error::Usage)?;
        }
        for region in &table.region {
            let memory = memory(region).map_err(Error::Usage)?;
            service.add_region(region.clone(), &memory).map_err(Error::Failure)?;
        }
        Ok(service)
    }

    pub(super) const fn device(&self) -> &Device {
        &self.ways.device
    }

    /// Makes an EV profile, for QPs to be bound to.
    fn add_profile(&self, spec: &ProfileSpec) -> Result<(), String> {
        let operator = self.device().operator().ok_or("the control thread died")?;
        let (id, spec) = (spec.id, spec.clone());
        let made = operator.profiles(self.device().name(), move |profiles| {
            profiles.create(&spec).map_err(|e| e.to_string())?;
            profiles.online(id).map_err(|e| e.to_string())
        });
        made.unwrap_or_else(|| Err("the control thread died".into()))
    }

    /// Registers a region.
    pub(super) fn add_region(&self, table: super::file::RegionTable, memory: &Arc<Buffer>) -> Result<(), String> {
        let name = table.name.clone();
        let room = Room::new(self.device(), table, memory)?;
        lock(&self.regions).insert(name, room);
        Ok(())
    }

    /// Takes a region out; who still uses it keeps it.
    pub(super) fn remove_region(&self, name: &str) {
        let room = lock(&self.regions).remove(name);
        drop(room);
    }

    fn context(&self) -> Context<'_> {
        Context { ways: &self.ways, name: &self.name, owner: self }
    }

    /// Takes a peer in: QPs with fixed numbers are opened at once, and where this end connects it begins to.
    pub(super) fn add_peer(self: &Arc<Service>, file: &RunFile, n: usize) -> Result<(), String> {
        let table: PeerTable = file.table.peer[n].clone();
        let name = table.name.clone();
        let wrong = |why: String| format!("peer {name:?}: {why}");
        let room = lock(&self.regions).get(&table.region).cloned();
        let room = room.ok_or_else(|| wrong(format!("there is no region {:?}", table.region)))?;
        let peer = Peer::new(table, file.connect[n].clone(), file.next_hops[n].clone(), room);
        let asked = peer.fix(&self.context()).map_err(wrong)?;
        lock(&self.peers).insert(name.clone(), Arc::clone(&peer));
        let service = Arc::clone(self);
        if let Some((prepared, other)) = asked {
            self.spawn(move || peer.keep_asking(&service.context(), prepared, other))?;
        } else if peer.connects() {
            self.spawn(move || peer.keep_connected(&service.context()))?;
        }
        Ok(())
    }

    /// Lets a peer go. What is on its way to it ends as flushed.
    pub(super) fn remove_peer(&self, name: &str) {
        let peer = lock(&self.peers).remove(name);
        if let Some(peer) = peer {
            peer.leave();
        }
    }

    fn spawn(&self, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let thread = Builder::new().name("mrcnic-peer".into()).spawn(work);
        let thread = thread.map_err(|e| format!("a thread can't be started: {e}"))?;
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Lets peers connect, and hears of immediates and failures, until the end.
    pub(super) fn serve(self: &Arc<Service>, listener: Option<ExchangeListener>) -> Result<(), String> {
        let service = Arc::clone(self);
        self.spawn(move || service.hear())?;
        let (Some(listener), service) = (listener, Arc::clone(self)) else { return Ok(()) };
        self.spawn(move || service.listen(&listener))
    }

    fn listen(self: &Arc<Service>, listener: &ExchangeListener) {
        let open = Arc::new(AtomicUsize::new(0));
        while !self.is_over() {
            let Ok(Some(mut exchange)) = listener.accept() else {
                std::thread::sleep(LOOK);
                continue;
            };
            if open.load(Ordering::Relaxed) >= EXCHANGES_MAX {
                exchange.refuse("too many exchanges at a time: try again");
                continue;
            }
            open.fetch_add(1, Ordering::Relaxed);
            let (service, mine) = (Arc::clone(self), Arc::clone(&open));
            let spawned = self.spawn(move || {
                // Who says nothing of use is no peer.
                if let Ok((name, offer)) = exchange.take_offer() {
                    let peer = lock(&service.peers).get(&name).cloned();
                    match peer {
                        Some(peer) => peer.accept(&service.context(), exchange, offer),
                        None => {
                            let own = &service.name;
                            exchange.refuse(&format!("the file of {own:?} has no [[run.peer]] with the name {name:?}"));
                        }
                    }
                }
                mine.fetch_sub(1, Ordering::Relaxed);
            });
            if spawned.is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The bond of a QP.
    fn bond(&self, qpn: Qpn) -> Option<Arc<Bond>> {
        lock(&self.bonds).get(&qpn.get()).and_then(Weak::upgrade)
    }

    /// Hears of immediates, and looks after QPs that failed.
    fn hear(&self) {
        while !self.is_over() {
            let _ = self.ways.receive.wait(LOOK);
            while let Some(entry) = self.ways.receive.poll() {
                if entry.completion.status != Status::Success {
                    continue;
                }
                let bond = self.bond(entry.qpn);
                if let (Some(bond), Operation::Receive { immediate }) = (bond, entry.completion.operation) {
                    bond.received(immediate);
                }
            }
            while let Some(AsyncEvent::QpError { qpn, cause }) = self.device().poll_event() {
                tracing::warn!(qpn = qpn.get(), ?cause, "a QP failed");
                if let Some(bond) = self.bond(qpn) {
                    bond.broken.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Takes no more orders.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Orders that are being carried out.
    pub(super) fn orders(&self) -> usize {
        self.orders.load(Ordering::SeqCst)
    }

    /// Ends everything: peers are parted from, and threads end, for which it waits a second.
    pub(super) fn end(&self) {
        self.drain();
        self.over.store(true, Ordering::SeqCst);
        let threads = std::mem::take(&mut *lock(&self.threads));
        let began = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) && began.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let peers = std::mem::take(&mut *lock(&self.peers));
        peers.values().for_each(|peer| peer.leave());
    }

    fn halt(&self) -> Option<Halt> {
        match (self.over.load(Ordering::SeqCst), self.draining.load(Ordering::SeqCst)) {
            (true, _) => Some(Halt::End),
            (false, true) => Some(Halt::Drain),
            (false, false) => None,
        }
    }

    fn check_name(&self, nic: &str) -> Result<(), String> {
        match nic.is_empty() || nic == self.name {
            true => Ok(()),
            false => Err(format!("there is no NIC {nic:?}; there is {:?}", self.name)),
        }
    }

    fn peer(&self, name: &str) -> Result<Arc<Peer>, String> {
        let peers = lock(&self.peers);
        peers.get(name).cloned().ok_or_else(|| {
            let names = peers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("there is no peer {name:?}; there are: {names}")
        })
    }

    fn all_peers(&self) -> Vec<Arc<Peer>> {
        lock(&self.peers).values().cloned().collect()
    }

    /// Messages that were written since the start.
    pub(super) fn messages_written(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Messages that failed, or of which nothing was heard.
    pub(super) fn messages_failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The key of a region.
    pub(super) fn region_key(&self, name: &str) -> Option<u32> {
        lock(&self.regions).get(name).map(|room| room.region.key().0)
    }

    /// What this NIC has for each peer whose numbers are in the file.
    pub(super) fn fixed_offers(&self) -> Vec<(String, Offer)> {
        let fixed = self.all_peers().into_iter().filter(|peer| peer.is_fixed());
        fixed.filter_map(|peer| Some((peer.table.name.clone(), peer.own()?))).collect()
    }
}

impl Host for Service {
    fn peers(&self, nic: &str) -> Result<Value, String> {
        self.check_name(nic)?;
        let regions: Vec<Value> = lock(&self.regions)
            .values()
            .map(|room| {
                let (key, file) = (room.region.key().0, &room.table.file);
                json!({ "name": room.table.name, "key": key, "size": room.region.len(), "file": file })
            })
            .collect();
        let peers: Vec<Value> = self.all_peers().iter().map(|peer| peer.report()).collect();
        Ok(json!({ "ok": true, "nic": self.name, "regions": regions, "peers": peers }))
    }

    fn write(&self, order: &WriteOrder) -> Result<Value, String> {
        self.check_name(&order.nic)?;
        self.orders.fetch_add(1, Ordering::SeqCst);
        let _order = Order(&self.orders);
        if self.halt().is_some() {
            return Err("the NIC is going down, and takes no new writes".into());
        }
        if order.count == 0 {
            return Err("nothing is to be written: give --count 1 or more".into());
        }
        let peer = self.peer(&order.peer)?;
        let bond = peer.bond()?;
        bond.check(order)?;
        let written = bond.write(order, || self.halt());
        let failed: u64 = written.failed.values().sum();
        let bytes = written.messages * u64::from(order.size);
        for (total, more) in [(&peer.messages, written.messages), (&peer.bytes, bytes), (&peer.failed, failed)] {
            total.fetch_add(more, Ordering::Relaxed);
        }
        self.messages.fetch_add(written.messages, Ordering::Relaxed);
        self.failed.fetch_add(failed + written.unheard, Ordering::Relaxed);
        let seconds = written.took.as_secs_f64();
        let mut answer = json!({
            "ok": written.messages == order.count,
            "peer": order.peer,
            "messages": written.messages,
            "bytes": bytes,
            "seconds": seconds,
            "gbps": if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e9 } else { 0.0 },
            "failed": written.failed,
            "unheard": written.unheard,
        });
        if written.messages < order.count {
            let how: Vec<String> = written.failed.iter().map(|(how, count)| format!("{count} {how}")).collect();
            let how = if how.is_empty() { String::new() } else { format!("; failed: {}", how.join(", ")) };
            let unheard = written.unheard;
            let unheard = if unheard > 0 { format!("; {unheard} in flight still") } else { String::new() };
            let cut = written.cut.unwrap_or_default();
            let (done, count) = (written.messages, order.count);
            answer["error"] = json!(format!("{done} of {count} messages were written: {cut}{how}{unheard}"));
        }
        Ok(answer)
    }
}

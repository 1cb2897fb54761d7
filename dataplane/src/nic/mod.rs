//! The engine: QP table, destinations, scheduler. It puts wire, transport, path, congestion and memory together.
//!
//! A driver owns a [`Nic`] and calls, once a turn of its loop and with one reading of the clock:
//!
//! 1. [`Nic::receive`] for each frame that came, or [`Nic::on_idle`] when none did;
//! 2. [`Nic::on_time`], at [`Nic::next_wake`] at the latest;
//! 3. [`Nic::transmit`] until it returns 0 or the burst is full, and [`Nic::sent`] once the port has accepted frames.
//!
//! Applications call [`Nic::post_write`] and [`Nic::poll`] on the same thread, or through rings that the driver drains.

mod destination;
mod drop;
mod endpoint;
mod events;
mod frame;
mod host;
mod life;
mod params;
mod probe;
mod qp;
mod receive;
mod stats;
#[cfg(test)]
mod tests;
mod transmit;

pub use crate::memory::RxFrame;
pub use crate::path::EvState;
pub use crate::transport::{Advertised, Completion, Operation, PostError, Status, WriteRequest};
pub use crate::wire::HEAD_MAX;
pub use drop::DropReason;
pub use endpoint::{ENDPOINT_QUEUE_MAX, EvProbeAnswer};
pub use events::{EVENTS_MAX, EvEvent};
pub use frame::{PortId, TxBurst};
pub use host::HostBufferParams;
pub use life::{LifeError, LifeState, QpLife, ToInit, ToRtr, ToRts, checked_psn};
pub use params::{CONTROL_QUEUE_MAX, NicParams, PORTS_MAX, ParamError, PortInfo, QPS_MAX, TX_BURST, TX_BURST_BYTES};
pub use probe::{PROBES_MAX, ProbeAnswer};
pub use qp::{Endpoint, OpenError, Placement, QpNumbers, QpSpec, QpState, QpStats, Qpn};
pub use stats::{Counter, Stats};

use crate::Ns;
use crate::congestion::{Algorithm, Congestion as _, FixedWindow, Window};
use crate::memory::{Key, Region, Table};
use crate::path::Spraying;
use crate::transport::{
    Fault, Loss, Observer, Psn, Requester, Responder, RttMode, SEND_QUEUE_MAX, TransportParams, Wheel,
};
use crate::wire::{Addressing, Rules, Template, Timestamp, WriteHeaders};
use core::net::IpAddr;
use destination::Destination;
use endpoint::Endpoints;
use events::Events;
use host::HostBuffer;
use probe::Probes;
use qp::{LastArrival, Qp};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use transmit::{Accepting, Reply};

/// Timers of a QP in the wheel: its packets', the request for a missing completion, and the SACK that it owes.
const TIMERS_PER_QP: u32 = 4;
const TIMER_PACKETS: u32 = 0;
const TIMER_COMPLETION: u32 = 1;
const TIMER_SACK: u32 = 2;

/// The worker, of `workers`, that owns the QPs with the remote address `remote`.
#[must_use]
pub fn owner(remote: IpAddr, workers: usize) -> usize {
    // The low bits tell the addresses of one subnet apart, so neighbours land on different workers.
    let low = match remote {
        IpAddr::V4(v4) => u64::from(u32::from(v4)),
        IpAddr::V6(v6) => {
            let bits = u128::from(v6);
            (bits as u64) ^ (bits >> 64) as u64
        }
    };
    (low % workers.max(1) as u64) as usize
}

/// A completion and the QP that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionEntry {
    /// The QP.
    pub qpn: Qpn,
    /// What ended.
    pub completion: Completion,
}

/// What a captured peer's packets are sent to, and the slot of the QP that was learned from them. The number alone is not enough: the
/// NICs of a capture may well have given out the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alias {
    source: IpAddr,
    destination: IpAddr,
    dqp: u32,
    slot: usize,
}

/// The engine of one worker of a NIC.
pub struct Nic {
    params: NicParams,
    rules: Rules,
    ports: Vec<PortInfo>,
    qps: Vec<Option<Box<Qp>>>,
    aliases: Vec<Alias>,
    destinations: Vec<Destination>,
    destination_of: HashMap<IpAddr, usize>,
    free_destinations: Vec<usize>,
    /// Destinations with a QP that could send, in the order of their turns.
    round: VecDeque<usize>,
    memory: Table,
    wheel: Wheel,
    /// Replies that wait for the port.
    control: VecDeque<Reply>,
    /// Slots of QPs that owe a SACK for packets below the byte count.
    owing: VecDeque<u32>,
    /// Frames of each port that are written but not yet accepted.
    accepting: Vec<VecDeque<Accepting>>,
    completions: VecDeque<CompletionEntry>,
    probes: Probes,
    events: Events,
    /// Values that are denied towards everybody.
    denied: BTreeSet<u32>,
    endpoints: Endpoints,
    host: Option<HostBuffer>,
    /// Packets that responders hold out of order, in all.
    out_of_order: u32,
    /// Immediates that responders keep for messages before theirs, in all.
    held_immediates: u32,
    rng: Xoshiro256PlusPlus,
    stats: Arc<Stats>,
}

/// Passes what a requester tells on to window, paths, counters and completion queue.
struct Outcome<'a> {
    now: Ns,
    qpn: Qpn,
    destination: &'a mut Destination,
    completions: &'a mut VecDeque<CompletionEntry>,
    events: &'a mut Events,
    stats: &'a Stats,
}

impl Observer for Outcome<'_> {
    #[inline]
    fn settled(&mut self, nominal: u32) {
        self.destination.window.settled(nominal);
    }

    fn lost(&mut self, nominal: u32, cause: Loss) {
        match cause {
            Loss::Gap => self.stats.lost_by_gap.add(1),
            Loss::Timeout => self.stats.lost_by_timeout.add(1),
        }
        self.destination.window.algorithm().on_loss(self.now, nominal);
    }

    fn refused(&mut self, nominal: u32, trimmed: bool) {
        self.stats.refused.add(1);
        self.destination.window.algorithm().on_nack(self.now, nominal, trimmed);
    }

    fn timed_out(&mut self, ev: u32) {
        if self.destination.spraying.assume_bad(ev, self.now) {
            self.events.push(self.now, self.destination.address, ev, EvState::AssumedBad);
        }
    }

    fn spurious(&mut self, times: u64) {
        self.stats.spurious_retransmits.add(times);
    }

    #[inline]
    fn completed(&mut self, completion: Completion, wanted: bool) {
        let counter = if completion.status == Status::Success { &self.stats.completed } else { &self.stats.failed };
        counter.add(1);
        if wanted {
            self.completions.push_back(CompletionEntry { qpn: self.qpn, completion });
        }
    }
}

/// A requester that keeps to both ends' limits of Writes with Immediate.
fn requester(params: &TransportParams, psn: Psn, peer: Advertised, depth: usize) -> Requester {
    let immediates = peer.immediates.min(params.write_imm_limit);
    Requester::new(*params, psn, Advertised { immediates, ..peer }, depth)
}

/// Ends the posted receives of a QP.
fn flush_receives(qp: &mut Qp, completions: &mut VecDeque<CompletionEntry>, stats: &Stats) {
    let qpn = qp.qpn;
    qp.responder.flush_receives(|completion| {
        stats.failed.add(1);
        completions.push_back(CompletionEntry { qpn, completion });
    });
}

impl Nic {
    /// An engine with `ports`.
    ///
    /// # Errors
    /// [`ParamError`] names the parameter that is outside its range.
    pub fn new(params: NicParams, ports: &[PortInfo]) -> Result<Nic, ParamError> {
        params.validate()?;
        if ports.is_empty() || ports.len() > PORTS_MAX {
            return Err(ParamError::Ports(ports.len()));
        }
        let mut rules = Rules { dscp: params.dscp, ..Rules::default() };
        rules.udp_ports = [params.udp_port, 0, 0, 0];
        Ok(Nic {
            rules,
            ports: ports.to_vec(),
            qps: Vec::new(),
            aliases: Vec::new(),
            destinations: Vec::new(),
            destination_of: HashMap::new(),
            free_destinations: Vec::new(),
            round: VecDeque::new(),
            memory: Table::default(),
            wheel: Wheel::new(),
            control: VecDeque::with_capacity(CONTROL_QUEUE_MAX),
            owing: VecDeque::new(),
            accepting: ports.iter().map(|_| VecDeque::with_capacity(2 * TX_BURST)).collect(),
            completions: VecDeque::new(),
            probes: Probes::default(),
            events: Events::default(),
            denied: BTreeSet::new(),
            endpoints: Endpoints::default(),
            host: params.host_buffer.map(HostBuffer::new),
            out_of_order: 0,
            held_immediates: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(params.seed),
            stats: Arc::new(Stats::default()),
            params,
        })
    }

    /// The UDP destination ports that are taken for MRC, for a NIC that replays captures.
    pub fn set_udp_ports(&mut self, ports: [u16; crate::wire::UDP_PORTS_MAX]) {
        self.rules.udp_ports = ports;
    }

    /// The parameters.
    #[must_use]
    pub const fn params(&self) -> &NicParams {
        &self.params
    }

    /// The counters, to be read by any thread.
    #[must_use]
    pub const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Makes a region reachable under its key.
    pub fn register(&mut self, key: Key, region: Region) {
        self.memory.insert(key, region);
    }

    /// Forgets a region: nothing is written through its key from now on. `false` when the key was not known.
    pub fn deregister(&mut self, key: Key) -> bool {
        self.memory.remove(key)
    }

    /// Opens a QP.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, spec: QpSpec) -> Result<(), OpenError> {
        let slot = spec.qpn.slot();
        if self.qps.get(slot).is_some_and(Option::is_some) {
            return Err(OpenError::InUse(spec.qpn.get()));
        }
        for depth in [spec.send_depth, spec.receive_depth.max(1)] {
            if depth == 0 || depth > SEND_QUEUE_MAX {
                return Err(OpenError::Depth(depth));
            }
        }
        let port = self.ports.get(usize::from(spec.port.0)).ok_or(OpenError::NoSuchPort(spec.port.0))?;
        let template = Template::new(&Addressing {
            source_mac: spec.local.mac,
            destination_mac: spec.remote.mac,
            vlan: spec.vlan,
            source: spec.local.ip,
            destination: spec.remote.ip,
            hop_limit: self.params.hop_limit,
            udp_port: self.params.udp_port,
        })?;
        self.check_frame(&template, port.max_frame)?;
        let wire_qpn = match &spec.placement {
            Placement::Keyed => spec.qpn.get(),
            Placement::Learned { dqp, .. } => {
                let (source, destination) = (spec.remote.ip, spec.local.ip);
                let alias = Alias { source, destination, dqp: *dqp, slot };
                let at = self.aliases.partition_point(|a| a < &alias);
                self.aliases.insert(at, alias);
                *dqp
            }
        };
        let destination = self.destination(spec.remote.ip);
        self.destinations[destination].qps += 1;
        let limit = self.params.transport.write_imm_limit.min(spec.write_imm_limit).max(1);
        let transport = TransportParams { write_imm_limit: limit, ..self.params.transport };
        let qp = Qp {
            qpn: spec.qpn,
            wire_qpn,
            peer_qpn: spec.peer_qpn,
            state: spec.state,
            port: spec.port,
            local_ip: spec.local.ip,
            remote_ip: spec.remote.ip,
            template,
            domain: spec.domain,
            placement: spec.placement,
            destination,
            send_depth: spec.send_depth,
            write_imm_limit: limit,
            requester: requester(&transport, spec.send_psn, spec.peer, spec.send_depth),
            responder: Responder::new(spec.receive_psn, &transport, spec.receive_depth),
            stats: QpStats::default(),
            rcvd_bytes_seen: 0,
            ack_queued: false,
            in_resend: false,
            in_fresh: false,
            in_owing: false,
            last_arrival: LastArrival { psn: spec.receive_psn, ev: 0, at: Ns::ZERO, timestamp: None },
            timer_at: None,
        };
        if self.qps.len() <= slot {
            self.qps.resize_with(slot + 1, || None);
        }
        self.wheel.reserve(self.qps.len() * TIMERS_PER_QP as usize);
        self.completions.reserve(spec.send_depth + spec.receive_depth);
        self.qps[slot] = Some(Box::new(qp));
        Ok(())
    }

    /// Takes a QP from RTR to RTS: its first packet will have `psn`, and the peer takes what `peer` says. `false` when there is no
    /// such QP in RTR.
    pub fn ready_to_send(&mut self, qpn: Qpn, psn: Psn, peer: Advertised) -> bool {
        let params = self.params.transport;
        let Some(qp) = self.qp_mut(qpn).filter(|qp| qp.state == QpState::Rtr) else { return false };
        qp.requester =
            requester(&TransportParams { write_imm_limit: qp.write_imm_limit, ..params }, psn, peer, qp.send_depth);
        qp.state = QpState::Rts;
        true
    }

    /// Posts a receive: a Write with Immediate of the peer will complete it.
    ///
    /// # Errors
    /// [`PostError::UnknownQp`], [`PostError::QueueFull`]. On a QP in the error state it completes as flushed.
    pub fn post_receive(&mut self, qpn: Qpn, wr_id: u64) -> Result<(), PostError> {
        let qp = self.qp_mut(qpn).ok_or(PostError::UnknownQp)?;
        if qp.state != QpState::Error {
            return qp.responder.post_receive(wr_id);
        }
        let operation = Operation::Receive { immediate: 0 };
        let completion = Completion { wr_id, operation, status: Status::Flushed, len: 0 };
        self.stats.failed.add(1);
        self.completions.push_back(CompletionEntry { qpn, completion });
        Ok(())
    }

    /// Sets the window that the responder of a QP advertises, in PSNs (Dynamic MPR). `false` when there is no such QP.
    pub fn set_window(&mut self, qpn: Qpn, psns: u32) -> bool {
        self.qp_mut(qpn).map(|qp| qp.responder.set_window(psns)).is_some()
    }

    /// The window that the requester of a QP keeps to, in PSNs.
    #[must_use]
    pub fn send_window(&self, qpn: Qpn) -> Option<u32> {
        self.qp(qpn).map(|qp| qp.requester.window())
    }

    /// Takes the oldest answer to a probe.
    pub fn poll_probe(&mut self) -> Option<ProbeAnswer> {
        self.probes.poll()
    }

    /// Takes the oldest event of an entropy value.
    pub fn poll_event(&mut self) -> Option<EvEvent> {
        self.events.poll()
    }

    /// Probes `ev` towards `remote`, on any open QP that can send there; its number, or `None` when there is none.
    pub fn probe_destination(&mut self, now: Ns, remote: IpAddr, ev: u32) -> Option<u16> {
        let at = *self.destination_of.get(&remote)?;
        let ready = |qp: &&Qp| qp.destination == at && qp.state != QpState::Error;
        let qpn = self.qps.iter().flatten().map(|qp| &**qp).find(ready)?.qpn;
        self.probe(now, qpn, ev)
    }

    /// Denies `ev` towards `remote`, or lifts the denial; without `remote` towards everybody, those to come included. True when that changed
    /// something.
    pub fn deny(&mut self, now: Ns, remote: Option<IpAddr>, ev: u32, denied: bool) -> bool {
        let Some(remote) = remote else {
            let changed = if denied { self.denied.insert(ev) } else { self.denied.remove(&ev) };
            for at in 0..self.destinations.len() {
                self.deny_at(now, at, ev, denied);
            }
            return changed;
        };
        self.destination_of.get(&remote).copied().is_some_and(|at| self.deny_at(now, at, ev, denied))
    }

    fn deny_at(&mut self, now: Ns, at: usize, ev: u32, denied: bool) -> bool {
        let destination = &mut self.destinations[at];
        let changed = if denied { destination.spraying.deny(ev) } else { destination.spraying.allow(ev) };
        if changed {
            let state = if denied { EvState::Denied } else { EvState::Good };
            self.events.push(now, destination.address, ev, state);
            if !destination.in_round && destination.has_turn() {
                destination.in_round = true;
                self.round.push_back(at);
            }
        }
        changed
    }

    /// The remote addresses with an open QP.
    pub fn destinations(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.destinations.iter().filter(|destination| destination.qps > 0).map(|destination| destination.address)
    }

    /// The entropy values towards `remote`, denied ones included, with state and packets sent.
    pub fn list_evs(&self, remote: IpAddr) -> impl Iterator<Item = (u32, EvState, u64)> + '_ {
        let at = self.destination_of.get(&remote);
        at.into_iter().flat_map(|&at| self.destinations[at].spraying.list())
    }

    /// Tells again, as events, every value that is not good.
    pub fn report_states(&mut self, now: Ns) {
        for destination in self.destinations.iter().filter(|destination| destination.qps > 0) {
            for (ev, state) in destination.spraying.states().filter(|(_, state)| *state != EvState::Good) {
                self.events.push(now, destination.address, ev, state);
            }
        }
    }

    /// The entropy values of the active set towards `remote` and their states, in the order of the rotation.
    pub fn ev_states(&self, remote: IpAddr) -> impl Iterator<Item = (u32, EvState)> + '_ {
        let at = self.destination_of.get(&remote);
        at.into_iter().flat_map(|&at| self.destinations[at].spraying.states())
    }

    /// When the oldest probe that still waits for its answer was asked for.
    #[must_use]
    pub fn oldest_probe(&self) -> Option<Ns> {
        self.probes.oldest()
    }

    /// A full packet must fit the port.
    fn check_frame(&self, template: &Template, max: usize) -> Result<(), OpenError> {
        let mss = self.params.transport.mss;
        let timestamp = (self.params.transport.rtt_mode == RttMode::WireTimestamp).then(Timestamp::default);
        let headers = WriteHeaders { immediate: Some(0), timestamp, ..WriteHeaders::default() }.len();
        let frame = template.frame_len(headers, mss as usize);
        if frame <= max {
            return Ok(());
        }
        let fits = max.saturating_sub(template.frame_len(headers, 0)) & !3;
        Err(OpenError::FrameTooLong { mss, frame, max, fits })
    }

    /// The destination for an address; a new one when no QP is open with it.
    fn destination(&mut self, address: IpAddr) -> usize {
        if let Some(&at) = self.destination_of.get(&address) {
            return at;
        }
        let full = self.params.transport.full();
        let size = self.params.spraying.active_set_size(self.params.bdp(), full);
        let mut spraying = Spraying::new(&self.params.spraying, size, &mut self.rng);
        for &ev in &self.denied {
            spraying.deny(ev);
        }
        let window = Window::new(Algorithm::Fixed(FixedWindow::new(self.params.window_bytes, full)));
        let destination = Destination::new(address, spraying, window);
        let at = match self.free_destinations.pop() {
            Some(at) => {
                self.destinations[at] = destination;
                at
            }
            None => {
                self.destinations.push(destination);
                self.destinations.len() - 1
            }
        };
        self.destination_of.insert(address, at);
        at
    }

    /// Closes a QP: what is outstanding completes as flushed, and packets for it are dropped from now on. `false` when there is none.
    pub fn close(&mut self, now: Ns, qpn: Qpn) -> bool {
        let slot = qpn.slot();
        let Some(mut qp) = self.qps.get_mut(slot).and_then(|entry| entry.take_if(|qp| qp.qpn == qpn)) else {
            return false;
        };
        let destination = &mut self.destinations[qp.destination];
        qp.requester.flush(&mut Outcome {
            now,
            qpn,
            destination,
            completions: &mut self.completions,
            events: &mut self.events,
            stats: &self.stats,
        });
        flush_receives(&mut qp, &mut self.completions, &self.stats);
        if qp.state != QpState::Error {
            self.out_of_order -= qp.responder.out_of_order();
            self.held_immediates -= qp.responder.held_immediates();
        }
        self.probes.forget(qpn);
        for timer in 0..TIMERS_PER_QP {
            self.wheel.disarm(slot as u32 * TIMERS_PER_QP + timer);
        }
        destination.resend.retain(|&s| s as usize != slot);
        destination.fresh.retain(|&s| s as usize != slot);
        self.owing.retain(|&s| s as usize != slot);
        self.aliases.retain(|alias| alias.slot != slot);
        destination.qps -= 1;
        if destination.qps == 0 {
            self.destination_of.remove(&destination.address);
            self.round.retain(|&at| at != qp.destination);
            self.free_destinations.push(qp.destination);
        } else if !destination.in_round && destination.has_turn() {
            destination.in_round = true;
            self.round.push_back(qp.destination);
        }
        true
    }

    /// The state of a QP.
    #[must_use]
    pub fn state(&self, qpn: Qpn) -> Option<QpState> {
        self.qp(qpn).map(|qp| qp.state)
    }

    /// What a QP did.
    #[must_use]
    pub fn qp_stats(&self, qpn: Qpn) -> Option<QpStats> {
        self.qp(qpn).map(|qp| QpStats { missing: u64::from(qp.responder.missing()), ..qp.stats })
    }

    /// Requests of a QP that have not ended.
    #[must_use]
    pub fn pending(&self, qpn: Qpn) -> usize {
        self.qp(qpn).map_or(0, |qp| qp.requester.pending())
    }

    /// The entropy values of the active set towards `remote`, and how many packets took each.
    pub fn ev_use(&self, remote: IpAddr) -> impl Iterator<Item = (u32, u64)> + '_ {
        let at = self.destination_of.get(&remote);
        at.into_iter().flat_map(|&at| self.destinations[at].spraying.use_counts())
    }

    /// Bytes in flight towards `remote`.
    #[must_use]
    pub fn inflight(&self, remote: IpAddr) -> u64 {
        self.destination_of.get(&remote).map_or(0, |&at| self.destinations[at].window.inflight())
    }

    /// The last valid round-trip time to `remote` in ns.
    #[must_use]
    pub fn last_rtt(&self, remote: IpAddr) -> Option<u64> {
        self.destinations[*self.destination_of.get(&remote)?].last_rtt
    }

    #[inline]
    fn qp_mut(&mut self, qpn: Qpn) -> Option<&mut Qp> {
        self.qps.get_mut(qpn.slot())?.as_deref_mut().filter(|qp| qp.qpn == qpn)
    }

    #[inline]
    fn qp(&self, qpn: Qpn) -> Option<&Qp> {
        self.qps.get(qpn.slot())?.as_deref().filter(|qp| qp.qpn == qpn)
    }

    /// Posts an RDMA Write. Its local range is read until it completes.
    ///
    /// # Errors
    /// [`PostError`]; nothing is posted then. A local range that is not registered ends the QP once it is read, as with any RDMA NIC.
    #[inline]
    pub fn post_write(&mut self, qpn: Qpn, request: &WriteRequest) -> Result<(), PostError> {
        let slot = qpn.slot();
        let qp = self.qp_mut(qpn).ok_or(PostError::UnknownQp)?;
        match qp.state {
            QpState::Rts => {}
            QpState::Rtr => return Err(PostError::NotReady),
            QpState::Error => {
                let completion = request.completion(Status::Flushed);
                self.stats.failed.add(1);
                self.completions.push_back(CompletionEntry { qpn, completion });
                return Ok(());
            }
        }
        qp.requester.post(request)?;
        self.wake(slot);
        Ok(())
    }

    /// Takes the oldest completion.
    #[inline]
    pub fn poll(&mut self) -> Option<CompletionEntry> {
        self.completions.pop_front()
    }

    /// Queues a QP that can send, and its destination.
    #[inline]
    fn wake(&mut self, slot: usize) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        let destination = &mut self.destinations[qp.destination];
        if !qp.in_resend && qp.requester.wants_resend() {
            qp.in_resend = true;
            destination.resend.push_back(slot as u32);
        }
        if !qp.in_fresh && qp.requester.wants_fresh() {
            qp.in_fresh = true;
            destination.fresh.push_back(slot as u32);
        }
        if !destination.in_round && destination.has_turn() {
            destination.in_round = true;
            self.round.push_back(qp.destination);
        }
    }

    /// Calls the wheel for the QP's timers, where they are due before it would call anyway.
    #[inline]
    fn arm(&mut self, slot: usize) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        if let Some(deadline) = qp.requester.next_deadline()
            && qp.timer_at.is_none_or(|at| deadline < at)
        {
            qp.timer_at = Some(deadline);
            self.wheel.arm(slot as u32 * TIMERS_PER_QP + TIMER_PACKETS, deadline);
        }
        let timer = slot as u32 * TIMERS_PER_QP + TIMER_COMPLETION;
        match qp.requester.rerequest_deadline() {
            Some(at) => {
                if self.wheel.deadline(timer).is_none_or(|armed| at < armed) {
                    self.wheel.arm(timer, at);
                }
            }
            None => self.wheel.disarm(timer),
        }
    }

    /// Puts a QP into the error state: its requests end with `fault`, or as flushed without one.
    fn fail(&mut self, now: Ns, slot: usize, fault: Option<Fault>) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        if qp.state == QpState::Error {
            return;
        }
        qp.state = QpState::Error;
        self.stats.qp_errors.add(1);
        let destination = &mut self.destinations[qp.destination];
        let mut outcome = Outcome {
            now,
            qpn: qp.qpn,
            destination,
            completions: &mut self.completions,
            events: &mut self.events,
            stats: &self.stats,
        };
        match fault {
            Some(fault) => qp.requester.fail(fault, &mut outcome),
            None => qp.requester.flush(&mut outcome),
        }
        flush_receives(qp, &mut self.completions, &self.stats);
        // What it holds out of order takes no more room from others.
        self.out_of_order -= qp.responder.out_of_order();
        self.held_immediates -= qp.responder.held_immediates();
        for timer in [TIMER_PACKETS, TIMER_COMPLETION] {
            self.wheel.disarm(slot as u32 * TIMERS_PER_QP + timer);
        }
        self.reopen(slot);
    }

    /// The window may have opened: the destination takes part in the round again.
    #[inline]
    fn reopen(&mut self, slot: usize) {
        let Some(qp) = self.qps.get(slot).and_then(|entry| entry.as_deref()) else { return };
        let destination = &mut self.destinations[qp.destination];
        if !destination.in_round && destination.has_turn() {
            destination.in_round = true;
            self.round.push_back(qp.destination);
        }
    }

    /// Handles every timer that is due.
    #[inline]
    pub fn on_time(&mut self, now: Ns) {
        while let Some(timer) = self.wheel.pop(now) {
            let slot = (timer / TIMERS_PER_QP) as usize;
            match timer % TIMERS_PER_QP {
                // It stays in the list of those that owe until the queues run empty.
                TIMER_SACK => self.pay_sack(slot),
                _ => self.on_requester_time(now, slot),
            }
        }
    }

    fn on_requester_time(&mut self, now: Ns, slot: usize) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        qp.timer_at = None;
        let destination = &mut self.destinations[qp.destination];
        let mut outcome = Outcome {
            now,
            qpn: qp.qpn,
            destination,
            completions: &mut self.completions,
            events: &mut self.events,
            stats: &self.stats,
        };
        if let Err(fault) = qp.requester.on_time(now, &mut outcome) {
            self.fail(now, slot, Some(fault));
            return;
        }
        self.arm(slot);
        self.wake(slot);
    }

    /// The receive queues ran empty: packets below the byte count of a SACK are acknowledged now rather than later.
    #[inline]
    pub fn on_idle(&mut self, _now: Ns) {
        while let Some(slot) = self.owing.pop_front() {
            if let Some(qp) = self.qps.get_mut(slot as usize).and_then(|entry| entry.as_deref_mut()) {
                qp.in_owing = false;
            }
            self.wheel.disarm(slot * TIMERS_PER_QP + TIMER_SACK);
            self.pay_sack(slot as usize);
        }
    }

    /// When [`Nic::on_time`] is to be called next, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Ns> {
        self.wheel.next()
    }
}

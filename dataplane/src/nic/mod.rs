//! The engine: QP table, destinations, scheduler. It puts wire, transport, path, congestion and memory together.
//!
//! A driver owns a [`Nic`] and calls, once a turn of its loop and with one reading of the clock:
//!
//! 1. [`Nic::receive`] for each frame that came, or [`Nic::on_idle`] when none did;
//! 2. [`Nic::on_time`], at [`Nic::next_wake`] at the latest;
//! 3. [`Nic::transmit`] until it returns 0 or the burst is full, and [`Nic::sent`] once the port has accepted frames.
//!
//! Applications call [`Nic::post_write`] and [`Nic::poll`] on the same thread, or through rings that the driver drains.

mod alike;
mod destination;
mod direct;
mod drop;
mod endpoint;
mod events;
mod frame;
mod group;
mod host;
mod lending;
mod life;
mod limits;
mod next_hop;
mod open;
mod outcome;
mod params;
mod paths;
mod port_status;
mod probe;
mod profile_evs;
mod qp;
mod receive;
mod reply;
mod rest;
mod rotations;
mod sample;
mod sender;
mod slow;
mod stall;
mod stats;
mod survey;
mod tap;
#[cfg(test)]
mod tests;
mod transmit;

pub use crate::memory::RxFrame;
pub use crate::path::{EvCensus, EvReport, EvState};
pub use crate::transport::{Advertised, Again, Completion, Operation, PostError, Status, WriteRequest};
pub use crate::wire::HEAD_MAX;
pub use direct::{EndpointAnswer, EndpointAsk, EndpointOrder};
pub use drop::DropReason;
pub use endpoint::{ENDPOINT_QUEUE_MAX, EvProbeAnswer};
pub use events::{EVENTS_MAX, EvEvent, Whose};
pub use frame::{Pieces, PortId, TxBurst};
pub use group::{GroupReport, GroupState};
pub use host::{HostBufferParams, WhenFull};
pub use lending::lead;
pub use life::{LifeError, LifeState, Patience, QpLife, ToInit, ToRtr, ToRts, checked_psn};
pub use limits::{Credits, FetchParams, NoCredits, PacingParams, RATE_MAX, SendLimits, TRANSFER_HEADER};
pub use params::{CONTROL_QUEUE_MAX, NicParams, PORTS_MAX, ParamError, PortInfo, QPS_MAX, TX_BURST, TX_BURST_BYTES};
pub use port_status::{PORT_EVENTS_MAX, PortEvent};
pub use probe::{PROBES_MAX, ProbeAnswer};
pub use qp::{CcProfileRef, Endpoint, OpenError, PathSpec, Paths, Placement, QpNumbers, QpSpec, QpState, QpStats, Qpn};
pub use sample::{NicSample, Spread};
pub use slow::{SLOW_FRAME_MAX, SlowFrame, SlowPath};
pub use stats::{Counter, Counts, Stats};
pub use survey::{
    DestinationSurvey, EvTally, QpSurvey, QpTally, SURVEY_DESTINATIONS_MAX, SURVEY_EVS_MAX, SURVEY_EVS_TOTAL_MAX,
    SURVEY_GROUPS_MAX, SURVEY_QPS_MAX, Survey, SurveyOf,
};
pub use tap::{Direction, FrameBytes, Happening, LifeEvent, PacketKind, QpEnds, Seen, Tap};

use crate::Ns;
use crate::memory::{Key, Loans, Region, Table};
use crate::path::PortMask;
use crate::transport::{Fault, Numbered, Observer as _, Rooms, Wheel};
use crate::wire::Rules;
use alike::Alike;
use core::net::IpAddr;
use destination::Destination;
use endpoint::Endpoints;
use events::Events;
use group::Group;
use host::HostBuffer;
use limits::Limits;
use open::flush_receives;
use outcome::Outcome;
use port_status::PortEvents;
use probe::Probes;
use qp::{Qp, QpPath};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use reply::Reply;
use rotations::Rotation;
use sample::Interval;
use slow::Slow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use tap::{TapSlot, Witness, posted};
use transmit::Accepting;

/// Timers of a QP in the wheel: its packets', the request for a missing completion, the SACK that it owes, and the end of its patience with
/// ports that take nothing.
const TIMERS_PER_QP: u32 = 4;
const TIMER_PACKETS: u32 = 0;
const TIMER_COMPLETION: u32 = 1;
const TIMER_SACK: u32 = 2;
const TIMER_STALL: u32 = 3;

/// Puts an item where one has gone, or at the end; where.
fn place<T>(items: &mut Vec<T>, free: &mut Vec<usize>, item: T) -> usize {
    if let Some(at) = free.pop() {
        items[at] = item;
        return at;
    }
    items.push(item);
    items.len() - 1
}

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
    rotations: Vec<Rotation>,
    free_rotations: Vec<usize>,
    groups: Vec<Group>,
    free_groups: Vec<usize>,
    /// Groups with a QP that could send, in the order of their turns.
    round: VecDeque<usize>,
    memory: Table,
    loans: Loans,
    /// Slots of QPs with messages that wait for payload to come back.
    holding: Vec<u32>,
    /// Payload is wanted back that frames before a port may hold.
    recall: bool,
    /// Memory for busy QPs.
    rooms: Rooms,
    /// Slots of QPs that had something to send and have nothing any more, and since when, in this order.
    resting: VecDeque<(u32, Ns)>,
    wheel: Wheel,
    /// Slots of the QPs that caches were asked for last: for frames, and for requests.
    expected: (u32, u32),
    /// Replies that wait for the port.
    control: VecDeque<Reply>,
    /// Slots of QPs that owe a SACK for packets below the byte count.
    owing: VecDeque<u32>,
    /// Frames of each port that are written but not yet accepted.
    accepting: Vec<VecDeque<Accepting>>,
    /// Since when each port takes nothing, though there is something for it or it is out of use.
    stalled: Vec<Option<Ns>>,
    completions: Numbered<CompletionEntry>,
    alike: Alike,
    probes: Probes,
    events: Events,
    port_events: PortEvents,
    /// Own ports that are out of use.
    ports_out: PortMask,
    /// The destination that was told of them last.
    told_last: usize,
    /// Values that are denied, each towards an address or towards everybody.
    denied: BTreeSet<(Option<IpAddr>, u32)>,
    /// Values of EV profiles that the controller took out of use: denied, or assumed bad.
    marks: BTreeMap<(u64, u32), EvState>,
    endpoints: Endpoints,
    host: Option<HostBuffer>,
    limits: Limits,
    /// Packets that responders hold out of order, in all.
    out_of_order: u32,
    /// Immediates that responders keep for messages before theirs, in all.
    held_immediates: u32,
    rng: Xoshiro256PlusPlus,
    /// The last turn of transmit.
    turned_at: Ns,
    /// What time it is for requests that are posted.
    clock: Ns,
    interval: Interval,
    tap: TapSlot,
    slow: Option<Box<Slow>>,
    stats: Arc<Stats>,
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
            rotations: Vec::new(),
            free_rotations: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            round: VecDeque::new(),
            memory: Table::default(),
            loans: Loans::default(),
            holding: Vec::new(),
            recall: false,
            rooms: Rooms::default(),
            resting: VecDeque::new(),
            wheel: Wheel::new(),
            expected: (u32::MAX, u32::MAX),
            control: VecDeque::with_capacity(CONTROL_QUEUE_MAX),
            owing: VecDeque::new(),
            accepting: ports.iter().map(|_| VecDeque::with_capacity(2 * TX_BURST)).collect(),
            stalled: vec![None; ports.len()],
            completions: Numbered::default(),
            alike: Alike::new(),
            probes: Probes::default(),
            events: Events::default(),
            port_events: PortEvents::default(),
            ports_out: 0,
            told_last: usize::MAX,
            denied: BTreeSet::new(),
            marks: BTreeMap::new(),
            endpoints: Endpoints::default(),
            host: params.host_buffer.map(HostBuffer::new),
            limits: Limits::new(&params.limits, ports.len()),
            out_of_order: 0,
            held_immediates: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(params.seed),
            turned_at: Ns::ZERO,
            clock: Ns::ZERO,
            interval: Interval::default(),
            tap: None,
            slow: None,
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

    /// Forgets a region: nothing is written through its key from now on. `false` when the key was not known. Frames may refer to it for a while
    /// where payload is lent: [`Nic::lends`].
    pub fn deregister(&mut self, key: Key) -> bool {
        self.memory.remove(key)
    }

    /// Posts a receive: a Write with Immediate of the peer will complete it.
    ///
    /// # Errors
    /// [`PostError::UnknownQp`], [`PostError::QueueFull`]. On a QP in the error state it completes as flushed.
    pub fn post_receive(&mut self, qpn: Qpn, wr_id: u64) -> Result<(), PostError> {
        let now = self.clock;
        let Some((qp, mut outcome)) = self.with_outcome(now, qpn.slot()).filter(|(qp, _)| qp.qpn == qpn) else {
            return Err(PostError::UnknownQp);
        };
        let operation = Operation::Receive { immediate: 0 };
        if qp.state != QpState::Error {
            qp.responder.post_receive(wr_id)?;
            outcome.tap.tell(now, Happening::Posted { wr_id, operation, len: 0 });
            return Ok(());
        }
        outcome.tap.tell(now, Happening::Posted { wr_id, operation, len: 0 });
        outcome.completed(Completion { wr_id, operation, status: Status::Flushed, len: 0 }, true);
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

    /// The QP in `slot`, and who is told what becomes of its packets.
    #[inline]
    fn with_outcome(&mut self, now: Ns, slot: usize) -> Option<(&mut Qp, Outcome<'_>)> {
        let qp = self.qps.get_mut(slot)?.as_deref_mut()?;
        let outcome = Outcome {
            now,
            qpn: qp.qpn,
            address: qp.remote_ip,
            window: &mut self.groups[qp.group].window,
            rotation: match qp.path {
                QpPath::Sprayed(at) => Some(&mut self.rotations[at]),
                QpPath::Own(_) => None,
            },
            completions: &mut self.completions,
            events: &mut self.events,
            stats: &self.stats,
            loans: &mut self.loans,
            recall: &mut self.recall,
            timeouts: 0,
            tap: Witness::of(&mut self.tap, qp),
        };
        Some((qp, outcome))
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
    #[inline(always)]
    pub fn post_write(&mut self, qpn: Qpn, request: &WriteRequest) -> Result<(), PostError> {
        self.post_writes(qpn, [*request]).1
    }

    /// Posts RDMA Writes on a QP, one after the other, each as [`Nic::post_write`] does. Gives how many were posted, and why the next one was not.
    // Always: a request that was just written, piece by piece, is not read from memory again.
    #[inline(always)]
    pub fn post_writes(
        &mut self,
        qpn: Qpn,
        requests: impl IntoIterator<Item = WriteRequest>,
    ) -> (usize, Result<(), PostError>) {
        let (now, slot) = (self.clock, qpn.slot());
        let entry = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut());
        let Some(qp) = entry.filter(|qp| qp.qpn == qpn) else { return (0, Err(PostError::UnknownQp)) };
        match qp.state {
            QpState::Rts => {}
            QpState::Rtr => return (0, Err(PostError::NotReady)),
            QpState::Error => return (self.flush_posted(slot, requests), Ok(())),
        }
        let (first, waits) = (qp.requester.pending() == 0, qp.in_fresh);
        let (mut count, mut all) = (0, Ok(()));
        for request in requests {
            all = qp.requester.post(&request, &mut self.rooms);
            if all.is_err() {
                break;
            }
            Witness::of(&mut self.tap, qp).tell(now, posted(&request));
            count += 1;
        }
        if count > 0 && first {
            self.watch(now, slot);
        }
        // One that waits for its turn is known already.
        if count > 0 && !waits {
            self.wake(slot);
        }
        (count, all)
    }

    /// Requests on a QP that ended: how many.
    #[cold]
    fn flush_posted(&mut self, slot: usize, requests: impl IntoIterator<Item = WriteRequest>) -> usize {
        let now = self.clock;
        let Some((_, mut outcome)) = self.with_outcome(now, slot) else { return 0 };
        let mut count = 0;
        for request in requests {
            outcome.tap.tell(now, posted(&request));
            outcome.completed(request.completion(Status::Flushed), true);
            count += 1;
        }
        count
    }

    /// Takes the oldest completion.
    #[inline]
    pub fn poll(&mut self) -> Option<CompletionEntry> {
        self.completions.pop()
    }

    /// Queues a QP that can send, and its group.
    #[inline]
    fn wake(&mut self, slot: usize) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        let group = &mut self.groups[qp.group];
        if !qp.in_resend && qp.requester.wants_resend() {
            qp.in_resend = true;
            group.resend.push_back(slot as u32);
        }
        if !qp.in_fresh && qp.requester.wants_fresh() {
            qp.in_fresh = true;
            group.fresh.push_back(slot as u32);
        }
        let at = qp.group;
        self.join_round(at);
    }

    /// An acknowledgement came or a timer ran out: timers, and what there is to send, may be others now. The window may have opened, too.
    #[inline]
    fn refresh(&mut self, slot: usize) {
        let Some(qp) = self.qps.get(slot).and_then(|entry| entry.as_deref()) else { return };
        if qp.requester.is_idle() {
            let group = qp.group;
            self.join_round(group);
            self.rest(slot);
            return;
        }
        self.arm(slot);
        self.wake(slot);
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
        // One that is armed stays so when the completion is there: most come at once, and each would arm it again.
        let timer = slot as u32 * TIMERS_PER_QP + TIMER_COMPLETION;
        if let Some(at) = qp.requester.rerequest_deadline()
            && self.wheel.deadline(timer).is_none_or(|armed| at < armed)
        {
            self.wheel.arm(timer, at);
        }
    }

    /// Puts a QP into the error state because its host wants that: what is outstanding completes as flushed. `false` when there is none.
    pub fn end(&mut self, now: Ns, qpn: Qpn) -> bool {
        let known = self.qp(qpn).is_some();
        if known {
            self.fail(now, qpn.slot(), None);
        }
        known
    }

    /// Puts a QP into the error state: its requests end with `fault`, or as flushed without one.
    fn fail(&mut self, now: Ns, slot: usize, fault: Option<Fault>) {
        let Some((qp, mut outcome)) = self.with_outcome(now, slot) else { return };
        if qp.state == QpState::Error {
            return;
        }
        qp.state = QpState::Error;
        outcome.stats.qp_errors.add(1);
        match fault {
            Some(fault) => qp.requester.fail(fault, &mut outcome),
            None => qp.requester.flush(&mut outcome),
        }
        flush_receives(qp, &mut outcome);
        outcome.tap.tell(now, Happening::Failed(fault));
        // What it holds out of order takes no more room from others.
        let (late, held) = (qp.responder.out_of_order(), qp.responder.held_immediates());
        let at = qp.group;
        self.out_of_order -= late;
        self.held_immediates -= held;
        for timer in [TIMER_PACKETS, TIMER_COMPLETION, TIMER_STALL] {
            self.wheel.disarm(slot as u32 * TIMERS_PER_QP + timer);
        }
        // What it had in flight makes room for the others.
        self.join_round(at);
    }

    /// Handles every timer that is due.
    #[inline]
    pub fn on_time(&mut self, now: Ns) {
        self.clock = now;
        while let Some(timer) = self.wheel.pop(now) {
            let slot = (timer / TIMERS_PER_QP) as usize;
            match timer % TIMERS_PER_QP {
                // It stays in the list of those that owe until the queues run empty.
                TIMER_SACK => self.pay_sack(slot),
                TIMER_STALL => self.on_stall(now, slot),
                _ => self.on_requester_time(now, slot),
            }
        }
        self.clear_rooms(now);
    }

    fn on_requester_time(&mut self, now: Ns, slot: usize) {
        let Some(qp) = self.qps.get_mut(slot).and_then(|entry| entry.as_deref_mut()) else { return };
        qp.timer_at = None;
        // All has come since the timer was armed: so it is with most of many QPs.
        if qp.requester.is_idle() {
            return;
        }
        let Some((qp, mut outcome)) = self.with_outcome(now, slot) else { return };
        let ended = qp.requester.on_time(now, &mut outcome);
        qp.stats.timeouts += outcome.timeouts;
        if let Err(fault) = ended {
            self.fail(now, slot, Some(fault));
            return;
        }
        self.refresh(slot);
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
        let limited = if self.has_to_send() { self.limits.next(self.turned_at) } else { None };
        [self.wheel.next(), limited].into_iter().flatten().min()
    }

    /// Bytes of the data class that wait in the egress buffer, or are on their way into it.
    #[must_use]
    pub const fn egress_held(&self) -> u64 {
        self.limits.data_held()
    }

    /// Is there anything for the port?
    fn has_to_send(&self) -> bool {
        !self.control.is_empty() || self.endpoints.waiting() > 0 || !self.round.is_empty()
    }
}

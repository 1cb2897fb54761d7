//! NICs, their controllers and the fabric between them, moved from event to event.
//!
//! A NIC's port takes one frame at a time: the engine chooses what goes next when the port is free, as hardware does at the wire, and hears
//! of a frame as sent when its last bit has left. So timers, windows and the egress buffer see the times that they are meant for.

use crate::controller::{Controller, PROBE_PERIOD, join};
use crate::error::Error;
use crate::records::{Node, RecordCounts, RecordSpec, RecordTap, Recorder};
use dataplane::Ns;
use dataplane::fabric::{Fabric, NicId, Plan, PlanError, mac};
use dataplane::memory::{Access, Buffer, Domain, Key, Keys, Region};
use dataplane::nic::{
    Advertised, CompletionEntry, Endpoint, Nic, NicParams, OpenError, ParamError, PathSpec, Placement, PortId,
    PortInfo, QpNumbers, QpSpec, QpState, Qpn, TxBurst,
};
use dataplane::transport::Psn;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const DOMAIN: Domain = Domain(1);
/// Requests that a QP's queues hold.
const QUEUE_DEPTH: usize = 1024;

/// Why a world cannot be made, or a QP not be opened.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WorldError {
    /// The fabric.
    #[error("the fabric: {0}")]
    Fabric(#[from] PlanError),
    /// The NICs.
    #[error("the NICs: {0}")]
    Nic(#[from] ParamError),
    /// A QP.
    #[error("a QP: {0}")]
    Open(#[from] OpenError),
    /// A NIC has no QP number left.
    #[error("NIC {0} has 65536 QPs, and that is the most")]
    NoQpn(u32),
}

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// When.
    pub at: Ns,
    /// At which NIC.
    pub nic: NicId,
    /// What.
    pub entry: CompletionEntry,
}

/// A QP between two NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The end that sends.
    pub from: (NicId, Qpn),
    /// The end that is written to.
    pub to: (NicId, Qpn),
}

/// A NIC and what drives it.
struct Member {
    nic: Nic,
    controller: Controller,
    numbers: QpNumbers,
    keys: Keys,
    /// Ports that a frame is leaving by, as bits.
    busy: u8,
    /// When each of them is free again.
    free_at: [Ns; 8],
    /// When it is to be looked at next.
    wake_at: Ns,
    /// It is in the list of those to look at now.
    touched: bool,
    received: bool,
}

/// Everything.
pub struct World {
    now: Ns,
    fabric: Fabric<Vec<u8>>,
    members: Vec<Member>,
    /// When members want to be looked at; entries that a member no longer stands by are passed over.
    wakes: BinaryHeap<Reverse<(Ns, u32)>>,
    touched: Vec<u32>,
    completed: VecDeque<Completed>,
    /// Frames to be used again.
    spare: Vec<Vec<u8>>,
    /// What one NIC writes at once; empty in between.
    written: Vec<(u8, Vec<u8>)>,
    v6: bool,
    frames: u64,
    records: Option<Records>,
}

/// Who is told what happens, and when samples are taken.
struct Records {
    recorder: Arc<Mutex<Recorder>>,
    every: Option<u64>,
    next: Ns,
}

/// What a NIC writes at once: a frame a port.
struct Burst<'a> {
    frames: &'a mut Vec<(u8, Vec<u8>)>,
    spare: &'a mut Vec<Vec<u8>>,
    open: Option<(u8, Vec<u8>)>,
    busy: u8,
}

impl TxBurst for Burst<'_> {
    fn slot(&mut self, port: PortId, len: usize) -> Option<&mut [u8]> {
        if self.busy >> port.0 & 1 == 1 {
            return None;
        }
        let used = self.open.take().map(|(_, frame)| frame);
        let mut frame = used.or_else(|| self.spare.pop()).unwrap_or_default();
        frame.resize(len, 0);
        self.open = Some((port.0, frame));
        self.open.as_mut().map(|(_, frame)| frame.as_mut_slice())
    }

    fn commit(&mut self) {
        if let Some((port, frame)) = self.open.take() {
            self.busy |= 1 << port;
            self.frames.push((port, frame));
        }
    }
}

impl World {
    /// NICs with the same parameters, each with a port on each plane of the fabric, over IPv6 or IPv4. `seed` decides all that is random.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn new(plan: &Plan, params: NicParams, v6: bool, seed: u64) -> Result<World, WorldError> {
        World::probing(plan, params, v6, seed, PROBE_PERIOD)
    }

    /// The same with another `ReliabilityProbePeriod`, 1 ns to 8 s.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn probing(
        plan: &Plan,
        params: NicParams,
        v6: bool,
        seed: u64,
        probe_period_ns: u64,
    ) -> Result<World, WorldError> {
        let fabric = Fabric::new(plan, seed)?;
        let ports = fabric.ports();
        let member = |n: u32| -> Result<Member, ParamError> {
            let id = NicId(n);
            let info = |port| PortInfo { mac: mac(id, port), max_frame: dataplane::fabric::FRAME_MAX };
            let ports: Vec<PortInfo> = (0..ports).map(info).collect();
            let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n.into());
            Ok(Member {
                nic: Nic::new(NicParams { seed, ..params }, &ports)?,
                controller: Controller::new(probe_period_ns, 1, ports.len() as u8),
                numbers: QpNumbers::default(),
                keys: Keys::default(),
                busy: 0,
                free_at: [Ns::ZERO; 8],
                wake_at: Ns(u64::MAX),
                touched: false,
                received: false,
            })
        };
        let members = (0..fabric.nics()).map(member).collect::<Result<Vec<_>, _>>()?;
        Ok(World {
            now: Ns::ZERO,
            fabric,
            members,
            wakes: BinaryHeap::new(),
            touched: Vec::new(),
            completed: VecDeque::new(),
            spare: Vec::new(),
            written: Vec::new(),
            v6,
            frames: 0,
            records: None,
        })
    }

    /// Records what happens from now on, before the first QP is opened.
    ///
    /// # Errors
    /// [`Error::Usage`] names what cannot be written.
    pub fn record(&mut self, spec: &RecordSpec) -> Result<(), Error> {
        if !spec.wants_anything() {
            return Ok(());
        }
        let node = |id: u32| Node { id, name: format!("nic{id}").into() };
        let nodes = (0..self.members.len() as u32).map(|id| (node(id), 1)).collect();
        let recorder = Arc::new(Mutex::new(Recorder::create(spec, nodes, Duration::ZERO)?));
        let totals = Arc::default();
        for (n, member) in self.members.iter_mut().enumerate() {
            member.nic.set_tap(RecordTap::direct(spec, n, n as u32, &totals, &recorder));
        }
        let every = spec.stats_ns();
        self.records = Some(Records { recorder, every, next: Ns(every.unwrap_or(u64::MAX)) });
        Ok(())
    }

    /// Ends the records; what was recorded, if anything was to be.
    ///
    /// # Errors
    /// [`Error::Failure`], when something could not be written.
    pub fn finish_records(&mut self) -> Result<Option<RecordCounts>, Error> {
        let Some(Records { recorder, every, next }) = self.records.take() else { return Ok(None) };
        self.members.iter_mut().for_each(|member| member.nic.set_tap(None));
        // What is left of the last interval has a row, too.
        if every.is_some_and(|every| self.now + every > next) {
            self.sample_into(&recorder);
        }
        recorder.lock().unwrap_or_else(PoisonError::into_inner).finish().map(Some)
    }

    /// Virtual time.
    #[must_use]
    pub const fn now(&self) -> Ns {
        self.now
    }

    /// The fabric.
    #[must_use]
    pub const fn fabric(&self) -> &Fabric<Vec<u8>> {
        &self.fabric
    }

    /// How many NICs there are.
    #[must_use]
    pub const fn nics(&self) -> usize {
        self.members.len()
    }

    /// Frames that NICs have sent.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// A NIC, to look at.
    ///
    /// # Panics
    /// Panics when there is none of this number.
    #[must_use]
    pub fn nic(&self, id: NicId) -> &Nic {
        &self.members[id.0 as usize].nic
    }

    /// The controller of a NIC, to look at.
    ///
    /// # Panics
    /// Panics when there is no NIC of this number.
    #[must_use]
    pub fn controller(&self, id: NicId) -> &Controller {
        &self.members[id.0 as usize].controller
    }

    /// A NIC, to be used; it is looked at before time goes on.
    ///
    /// # Panics
    /// Panics when there is none of this number.
    pub fn nic_mut(&mut self, id: NicId) -> &mut Nic {
        self.touch(id.0);
        let nic = &mut self.members[id.0 as usize].nic;
        nic.tell_time(self.now);
        nic
    }

    /// The address of a NIC.
    #[must_use]
    pub fn address(&self, id: NicId) -> IpAddr {
        let addresses = &self.fabric.plan().addresses;
        if self.v6 { addresses.v6(id).into() } else { addresses.v4(id).into() }
    }

    /// Registers memory at a NIC, from address 0 on.
    pub fn register(&mut self, id: NicId, memory: &Arc<Buffer>) -> Option<Key> {
        let member = self.members.get_mut(id.0 as usize)?;
        let key = member.keys.allocate()?;
        let access = Access { remote_write: true };
        member.nic.register(key, Region { domain: DOMAIN, access, iova: 0, memory: Arc::clone(memory) });
        Some(key)
    }

    /// Opens a QP between two NICs, ready to send at both ends, after `change` had its way with what each end is told (the sending end
    /// first).
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn connect(
        &mut self,
        from: NicId,
        to: NicId,
        mut change: impl FnMut(usize, &mut QpSpec),
    ) -> Result<Link, WorldError> {
        let ends = [from, to];
        let mut qpns = Vec::with_capacity(2);
        for id in ends {
            qpns.push(self.members[id.0 as usize].numbers.allocate().ok_or(WorldError::NoQpn(id.0))?);
        }
        for n in [0, 1] {
            let (own, other) = (ends[n], ends[1 - n]);
            let ports = self.fabric.ports();
            let endpoint = |id| Endpoint { mac: mac(id, 0), ip: self.address(id) };
            let mut spec = QpSpec {
                qpn: qpns[n],
                state: QpState::Rts,
                port: PortId(0),
                local: endpoint(own),
                remote: endpoint(other),
                vlan: None,
                peer_qpn: qpns[1 - n].get(),
                send_psn: Psn::new(0),
                receive_psn: Psn::new(0),
                peer: Advertised { window: u32::MAX, immediates: u32::MAX },
                domain: DOMAIN,
                send_depth: QUEUE_DEPTH,
                receive_depth: QUEUE_DEPTH,
                write_imm_limit: u32::MAX,
                placement: Placement::Keyed,
                path: PathSpec { next_hops: (0..ports).map(|port| mac(other, port)).collect(), ..PathSpec::default() },
                congestion: None,
            };
            change(n, &mut spec);
            let now = self.now;
            self.nic_mut(own).open(now, spec)?;
        }
        Ok(Link { from: (from, qpns[0]), to: (to, qpns[1]) })
    }

    /// Closes a QP at both ends. Its numbers are used again.
    pub fn disconnect(&mut self, link: &Link) {
        let now = self.now;
        for (id, qpn) in [link.from, link.to] {
            self.nic_mut(id).close(now, qpn);
            self.members[id.0 as usize].numbers.release(qpn);
        }
    }

    /// Something breaks, or is mended, now.
    ///
    /// # Errors
    /// [`WorldError::Fabric`] names what is not there.
    pub fn apply(&mut self, fault: &dataplane::fabric::Fault) -> Result<(), WorldError> {
        Ok(self.fabric.apply(self.now, fault)?)
    }

    /// Takes the oldest request that ended.
    pub fn poll(&mut self) -> Option<Completed> {
        self.completed.pop_front()
    }

    /// Goes on to the next event, but no further than `end`, and lets everybody concerned act.
    pub fn advance(&mut self, end: Ns) {
        self.settle();
        let wake = loop {
            match self.wakes.peek() {
                Some(&Reverse((at, n))) if self.members[n as usize].wake_at == at => break Some(at),
                Some(_) => drop(self.wakes.pop()),
                None => break None,
            }
        };
        let sample = self.records.as_ref().and_then(|records| records.every.map(|_| records.next));
        let next = [wake, self.fabric.next_wake(), sample].into_iter().flatten().min().unwrap_or(end);
        self.now = next.min(end).max(self.now);
        self.deliver();
        while let Some(&Reverse((at, n))) = self.wakes.peek()
            && at <= self.now
        {
            self.wakes.pop();
            if self.members[n as usize].wake_at == at {
                self.touch(n);
            }
        }
        self.settle();
        self.sample();
    }

    /// Takes a sample of every NIC, when its time has come.
    fn sample(&mut self) {
        let Some(Records { recorder, every: Some(every), next }) = &mut self.records else { return };
        if *next > self.now {
            return;
        }
        *next = self.now + *every;
        let recorder = Arc::clone(recorder);
        self.sample_into(&recorder);
    }

    fn sample_into(&mut self, recorder: &Mutex<Recorder>) {
        let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
        for (n, member) in self.members.iter_mut().enumerate() {
            recorder.sample(n, 0, member.nic.sample(self.now));
        }
    }

    /// Lets time pass until `end`.
    pub fn run_until(&mut self, end: Ns) {
        while self.now < end {
            self.advance(end);
        }
    }

    fn touch(&mut self, n: u32) {
        let member = &mut self.members[n as usize];
        if !core::mem::replace(&mut member.touched, true) {
            self.touched.push(n);
        }
    }

    /// Frames that have arrived, and links that have changed.
    fn deliver(&mut self) {
        self.fabric.on_time(self.now);
        while let Some(delivery) = self.fabric.poll() {
            let n = delivery.nic.0;
            self.touch(n);
            let member = &mut self.members[n as usize];
            member.received = true;
            // What a NIC refuses is in its counters.
            let _ = member.nic.receive(self.now, PortId(delivery.port), &delivery.frame.as_slice());
            self.spare.push(delivery.frame);
        }
        while let Some(state) = self.fabric.poll_port() {
            self.touch(state.nic.0);
            self.members[state.nic.0 as usize].controller.set_link(self.now, PortId(state.port), state.up);
        }
    }

    /// Everybody who was touched acts, until there is nothing left to do at this time.
    fn settle(&mut self) {
        let mut at = 0;
        while let Some(&n) = self.touched.get(at) {
            at += 1;
            self.members[n as usize].touched = false;
            self.act(n);
        }
        self.touched.clear();
    }

    fn act(&mut self, n: u32) {
        let now = self.now;
        let member = &mut self.members[n as usize];
        let mut busy = member.busy;
        while busy != 0 {
            let port = busy.trailing_zeros() as u8;
            busy &= busy - 1;
            if member.free_at[usize::from(port)] <= now {
                member.busy &= !(1 << port);
                member.nic.sent(now, PortId(port), 1);
            }
        }
        if core::mem::take(&mut member.received) {
            member.nic.on_idle(now);
        }
        member.nic.on_time(now);
        member.controller.on_time(now);
        join(now, &mut member.controller, &mut member.nic);
        let mut frames = core::mem::take(&mut self.written);
        let mut burst = Burst { frames: &mut frames, spare: &mut self.spare, open: None, busy: member.busy };
        while member.nic.transmit(now, &mut burst) > 0 {}
        let (busy, unused) = (burst.busy, burst.open.take());
        self.spare.extend(unused.map(|(_, frame)| frame));
        member.busy = busy;
        let nic = NicId(n);
        self.completed.extend(core::iter::from_fn(|| member.nic.poll()).map(|entry| Completed { at: now, nic, entry }));
        for (port, frame) in frames.drain(..) {
            self.frames += 1;
            self.fabric.inject(now, nic, port, frame);
            let free_at = self.fabric.next_free(nic, port).unwrap_or(now);
            // A port whose link is down takes what it is given and loses it; it does so at a pace.
            self.members[n as usize].free_at[usize::from(port)] = free_at.max(now + 1);
        }
        self.written = frames;
        self.call(n);
    }

    /// Notes when a NIC is to be looked at next.
    fn call(&mut self, n: u32) {
        let member = &mut self.members[n as usize];
        let ports = (0..8).filter(|port| member.busy >> port & 1 == 1).map(|port| member.free_at[port]);
        let next = ports.chain(member.nic.next_wake()).chain(member.controller.next_wake()).min();
        let next = next.unwrap_or(Ns(u64::MAX)).max(self.now);
        // What waits for a port that is busy is looked at when the port is free.
        let next = if next == self.now { self.now + 1 } else { next };
        if member.wake_at != next {
            member.wake_at = next;
            self.wakes.push(Reverse((next, n)));
        }
    }
}

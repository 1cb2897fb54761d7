//! Queue pairs.

use super::books::Account;
use super::completion_queue::{CompletionQueue, Shared as Completions};
use super::device::Inner;
use super::error::HostError;
use super::reach::Reach;
use super::ring::{Job, WorkerRing};
use crate::controller::Operator;
use dataplane::memory::Domain;
use dataplane::nic::{
    CcProfileRef, Completion, CompletionEntry, LifeState, Operation, Paths, Patience, QpLife, QpStats, Qpn, Status,
    ToInit, ToRtr, ToRts, WriteRequest, owner,
};
use dataplane::path::profile::EvPool;
use dataplane::transport::{MESSAGE_MAX, SEND_QUEUE_MAX};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The states, in the order of their numbers.
const STATES: [LifeState; 5] = [LifeState::Reset, LifeState::Init, LifeState::Rtr, LifeState::Rts, LifeState::Error];

const fn number(state: LifeState) -> u8 {
    match state {
        LifeState::Reset => 0,
        LifeState::Init => 1,
        LifeState::Rtr => 2,
        LifeState::Rts => 3,
        LifeState::Error => 4,
    }
}

const fn name(state: LifeState) -> &'static str {
    match state {
        LifeState::Reset => "RESET",
        LifeState::Init => "INIT",
        LifeState::Rtr => "RTR",
        LifeState::Rts => "RTS",
        LifeState::Error => "ERROR",
    }
}

/// Requests of a queue that have not ended.
#[derive(Debug, Default)]
pub(super) struct Depth {
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl Depth {
    pub(super) fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Takes a place; the depth of the queue when there is none.
    #[inline]
    pub(super) fn take(&self) -> Result<(), usize> {
        let most = self.most.load(Ordering::Relaxed);
        let one_more = |taken| (taken < most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).map(|_| ()).map_err(|_| most)
    }

    #[inline]
    pub(super) fn release(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a QP's handle and its worker share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: AtomicU8,
    renews: AtomicBool,
    pub(super) sends: Depth,
    pub(super) receives: Depth,
}

impl Shared {
    pub(super) fn set_state(&self, state: LifeState) {
        self.state.store(number(state), Ordering::Release);
    }

    /// Whether receives that have completed are posted again.
    pub(super) fn renews(&self) -> bool {
        self.renews.load(Ordering::Relaxed)
    }

    /// A step of its life, unless it has failed meanwhile.
    fn step(&self, from: LifeState, to: LifeState) {
        let _ = self.state.compare_exchange(number(from), number(to), Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> LifeState {
        STATES[usize::from(self.state.load(Ordering::Acquire)) % STATES.len()]
    }
}

/// A queue pair. It may be used from any thread, by several at a time; requests of one thread go in their order. When it is dropped it is
/// closed: what has not ended completes as flushed.
#[derive(Debug)]
pub struct QueuePair {
    device: Arc<Inner>,
    qpn: Qpn,
    shared: Arc<Shared>,
    send: Arc<Completions>,
    receive: Arc<Completions>,
    life: Mutex<Life>,
    /// The worker that owns it, from RTR on.
    worker: OnceLock<WorkerRing>,
}

/// What changes seldom.
#[derive(Debug)]
struct Life {
    life: QpLife,
    /// Receives that were posted in INIT.
    early: Vec<u64>,
    /// The EV profile that it is bound to.
    profile: Option<Bound>,
    /// The way to its peer, where that was found.
    reach: Option<Reach>,
    /// The CC profile that it is bound to.
    congestion: Option<BoundCc>,
}

/// An EV profile that counts a QP as long as this is there.
#[derive(Debug)]
struct Bound {
    operator: Operator,
    nic: String,
    id: u64,
    pool: Arc<EvPool>,
}

impl Bound {
    /// Takes the EVs that the profile has now.
    fn renew(&mut self) -> Result<(), HostError> {
        let id = self.id;
        let pool = self.operator.profiles(&self.nic, move |profiles| profiles.table().pool(id));
        self.pool = Arc::new(pool.ok_or(HostError::Gone)?.map_err(HostError::Profile)?);
        Ok(())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let id = self.id;
        // It is there: a profile that a QP uses can't be removed.
        self.operator.profiles_later(&self.nic, move |profiles| {
            let _ = profiles.release(id);
        });
    }
}

/// A CC profile that counts a QP as long as this is there.
#[derive(Debug)]
struct BoundCc {
    operator: Operator,
    nic: String,
    profile: CcProfileRef,
}

impl Drop for BoundCc {
    fn drop(&mut self) {
        let id = self.profile.id;
        // As an EV profile.
        self.operator.profiles_later(&self.nic, move |profiles| {
            let _ = profiles.release_cc(id);
        });
    }
}

impl QueuePair {
    pub(super) fn new(
        device: &Arc<Inner>,
        domain: Domain,
        send: &CompletionQueue,
        receive: &CompletionQueue,
    ) -> Result<QueuePair, HostError> {
        if send.shared.device != device.number || receive.shared.device != device.number {
            return Err(HostError::OtherDevice("completion queue"));
        }
        let mut numbers = device.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let qpn = numbers.allocate().ok_or(HostError::TooManyQps)?;
        drop(numbers);
        Ok(QueuePair {
            device: Arc::clone(device),
            qpn,
            shared: Arc::default(),
            send: Arc::clone(&send.shared),
            receive: Arc::clone(&receive.shared),
            life: Mutex::new(Life {
                life: QpLife::new(qpn, domain),
                early: Vec::new(),
                profile: None,
                reach: None,
                congestion: None,
            }),
            worker: OnceLock::new(),
        })
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number, by which peers address it.
    #[must_use]
    pub const fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// Its state. A worker puts it into [`LifeState::Error`] by itself, and tells so by an [`super::AsyncEvent`].
    #[must_use]
    pub fn state(&self) -> LifeState {
        self.shared.state()
    }

    /// RESET to INIT: its port, and the depths of its queues, of which that of the receive queue may be 0.
    ///
    /// # Errors
    /// [`HostError::Depth`], [`HostError::Life`].
    pub fn init(&self, with: ToInit) -> Result<(), HostError> {
        for (what, asked, least) in [("send queue", with.send_depth, 1), ("receive queue", with.receive_depth, 0)] {
            if asked < least || asked > SEND_QUEUE_MAX {
                return Err(HostError::Depth { what, asked, most: SEND_QUEUE_MAX });
            }
        }
        self.life().life.init(with)?;
        self.shared.sends.limit(with.send_depth);
        self.shared.receives.limit(with.receive_depth);
        self.shared.step(LifeState::Reset, LifeState::Init);
        Ok(())
    }

    /// Binds it to an EV profile of the device's that is ONLINE, before RTR: its packets take the profile's values, whatever the path given then
    /// says. The profile is in use until the QP is closed, or bound to another.
    ///
    /// # Errors
    /// [`HostError::Profile`], [`HostError::NotReady`], [`HostError::Gone`].
    pub fn bind_profile(&self, id: u64) -> Result<(), HostError> {
        let mut life = self.life();
        if !matches!(life.life.state(), LifeState::Reset | LifeState::Init) {
            return Err(self.not_ready("an EV profile", LifeState::Init));
        }
        let (operator, nic) = self.device.operator().ok_or(HostError::Gone)?;
        let acquired = operator.profiles(&nic, move |profiles| profiles.acquire(id, 1)).ok_or(HostError::Gone)?;
        let pool = acquired.map_err(HostError::Profile)?;
        life.profile = Some(Bound { operator, nic, id, pool });
        Ok(())
    }

    /// Binds it to a CC profile of the device's that is ONLINE, before RTR: it shares a window with other QPs of that profile to its peer. The
    /// profile is in use until the QP is closed, or bound to another.
    ///
    /// # Errors
    /// [`HostError::Congestion`], [`HostError::NotReady`], [`HostError::Gone`].
    pub fn bind_congestion(&self, id: u64) -> Result<(), HostError> {
        let mut life = self.life();
        if !matches!(life.life.state(), LifeState::Reset | LifeState::Init) {
            return Err(self.not_ready("a CC profile", LifeState::Init));
        }
        let (operator, nic) = self.device.operator().ok_or(HostError::Gone)?;
        let acquired =
            operator.profiles(&nic, move |profiles| profiles.acquire_cc(id).map_err(|_| profiles.cc_view(id).state));
        let config = acquired.ok_or(HostError::Gone)?.map_err(|state| HostError::Congestion { id, state })?;
        life.congestion = Some(BoundCc { operator, nic, profile: CcProfileRef { id, config } });
        Ok(())
    }

    /// INIT to RTR: the worker that owns the peer's address opens it. Receives that were posted before are posted there.
    ///
    /// # Errors
    /// [`HostError::Life`], [`HostError::Open`], [`HostError::Gone`]; it stays in INIT then.
    pub fn rtr(&self, with: &ToRtr) -> Result<(), HostError> {
        let mut life = self.life();
        let before = life.life.clone();
        if let Some(bound) = &mut life.profile {
            // EVs may have been replaced since it was bound.
            bound.renew()?;
        }
        let mut spec = life.life.rtr(with)?;
        if let Some(bound) = &life.profile {
            spec.path.paths = Paths::Profile(Arc::clone(&bound.pool));
        }
        spec.congestion = life.congestion.as_ref().map(|bound| bound.profile).or(spec.congestion);
        let worker = self.device.workers[owner(spec.remote.ip, self.device.workers.len())].clone();
        let ends = [Arc::clone(&self.send), Arc::clone(&self.receive)];
        let account = Account::new(self.qpn, Arc::clone(&self.shared), ends, spec.send_depth);
        let (qpn, early) = (self.qpn, life.early.clone());
        let opened = worker.call(move |now, nic, books| {
            books.open(now, nic, spec, account)?;
            early.into_iter().for_each(|wr_id| books.receive(nic, qpn, wr_id));
            Ok(())
        });
        if let Err(error) = opened.and_then(|opened| opened.map_err(HostError::Open)) {
            life.life = before;
            return Err(error);
        }
        life.early = Vec::new();
        // Set once: a QP goes to RTR once.
        let _ = self.worker.set(worker);
        self.shared.step(LifeState::Init, LifeState::Rtr);
        Ok(())
    }

    /// As [`QueuePair::rtr`], to a peer that was found: its Ethernet addresses are those of `reach`, whatever `with` says of them, and the QP
    /// follows when they change.
    ///
    /// # Errors
    /// As [`QueuePair::rtr`].
    pub fn rtr_by(&self, with: &ToRtr, reach: &Reach) -> Result<(), HostError> {
        let mut with = with.clone();
        with.remote.mac = reach.macs().first().copied().unwrap_or(with.remote.mac);
        with.path.next_hops = if reach.macs().len() > 1 { reach.macs().to_vec() } else { Vec::new() };
        with.path.follows = true;
        self.rtr(&with)?;
        self.life().reach = Some(reach.clone());
        reach.opened();
        Ok(())
    }

    /// RTR to RTS.
    ///
    /// # Errors
    /// [`HostError::Life`], [`HostError::Gone`], or [`HostError::NotReady`] when it has failed meanwhile.
    pub fn rts(&self, with: ToRts) -> Result<(), HostError> {
        self.rts_with(with, Patience::of(&self.device.params.transport))
    }

    /// As [`QueuePair::rts`], with a patience of its own.
    ///
    /// # Errors
    /// As [`QueuePair::rts`].
    pub fn rts_with(&self, with: ToRts, patience: Patience) -> Result<(), HostError> {
        let mut life = self.life();
        let ToRts { send_psn, peer } = life.life.rts(with)?;
        let (worker, qpn) = (self.worker.get().ok_or(HostError::Gone)?, self.qpn);
        if !worker.call(move |_, nic, _| nic.ready_to_send_with(qpn, send_psn, peer, patience))? {
            return Err(self.not_ready("the step to RTS", LifeState::Rtr));
        }
        self.shared.step(LifeState::Rtr, LifeState::Rts);
        Ok(())
    }

    /// To ERROR, from anywhere: what has not ended completes as flushed. No event tells of it.
    ///
    /// # Errors
    /// [`HostError::Gone`].
    pub fn end(&self) -> Result<(), HostError> {
        let mut life = self.life();
        life.life.error();
        let qpn = self.qpn;
        if let Some(worker) = self.worker.get() {
            return worker.call(move |now, nic, books| books.end(now, nic, qpn));
        }
        self.shared.set_state(LifeState::Error);
        // Nobody has seen these, so nobody else ends them.
        for wr_id in life.early.drain(..) {
            let operation = Operation::Receive { immediate: 0 };
            let completion = Completion { wr_id, operation, status: Status::Flushed, len: 0 };
            self.shared.receives.release();
            self.receive.push(CompletionEntry { qpn, completion });
        }
        Ok(())
    }

    fn not_ready(&self, what: &'static str, needs: LifeState) -> HostError {
        HostError::NotReady { what, needs: name(needs), is: name(self.state()) }
    }

    /// Posts an RDMA Write. Its local range is read until it has completed. On a QP in error it completes as flushed.
    ///
    /// # Errors
    /// [`HostError`]; nothing is posted then, and where [`HostError::is_full`] says so the same call may succeed later.
    pub fn post_write(&self, request: &WriteRequest) -> Result<(), HostError> {
        self.post(WriteRequest { immediate: None, ..*request })
    }

    /// Posts an RDMA Write with Immediate: it completes a receive of the peer's.
    ///
    /// # Errors
    /// As [`QueuePair::post_write`].
    pub fn post_write_imm(&self, request: &WriteRequest, immediate: u32) -> Result<(), HostError> {
        self.post(WriteRequest { immediate: Some(immediate), ..*request })
    }

    fn post(&self, request: WriteRequest) -> Result<(), HostError> {
        if !matches!(self.state(), LifeState::Rts | LifeState::Error) {
            return Err(self.not_ready("a Write", LifeState::Rts));
        }
        if request.len > MESSAGE_MAX {
            return Err(HostError::TooLong(request.len));
        }
        let worker = self.worker.get().ok_or_else(|| self.not_ready("a Write", LifeState::Rts))?;
        self.shared.sends.take().map_err(HostError::SendQueueFull)?;
        let posted = self
            .send
            .promise()
            .and_then(|()| worker.post(Job::Write(self.qpn, request)).inspect_err(|_| self.send.release()));
        posted.inspect_err(|_| self.shared.sends.release())
    }

    /// Posts a receive: a Write with Immediate of the peer's will complete it, with the immediate. It may be posted from INIT on.
    ///
    /// # Errors
    /// As [`QueuePair::post_write`].
    pub fn post_recv(&self, wr_id: u64) -> Result<(), HostError> {
        if let Some(worker) = self.worker.get() {
            return self.receive(|| worker.post(Job::Receive(self.qpn, wr_id)));
        }
        let mut life = self.life();
        // It may have gone to RTR while this waited.
        match self.worker.get() {
            Some(worker) => self.receive(|| worker.post(Job::Receive(self.qpn, wr_id))),
            None if life.life.state() == LifeState::Init => self.receive(|| {
                life.early.push(wr_id);
                Ok(())
            }),
            None => Err(self.not_ready("a receive", LifeState::Init)),
        }
    }

    /// Has the worker post a receive again, with the same number, as soon as it has completed with success; `false` ends that.
    ///
    /// A peer may send the next Write with Immediate once the last was acknowledged, and finds its receive only if it was posted by then:
    /// with as many receives as immediates were advertised ([`ToRts::peer`] of the peer) none is ever missing. While the completion queue
    /// has no room for one more completion, the receive waits.
    pub fn renew_receives(&self, renew: bool) {
        self.shared.renews.store(renew, Ordering::Relaxed);
    }

    fn receive(&self, post: impl FnOnce() -> Result<(), HostError>) -> Result<(), HostError> {
        self.shared.receives.take().map_err(HostError::ReceiveQueueFull)?;
        let posted = self.receive.promise().and_then(|()| post().inspect_err(|_| self.receive.release()));
        posted.inspect_err(|_| self.shared.receives.release())
    }

    /// Requests and receives that have not ended.
    #[must_use]
    pub fn pending(&self) -> (usize, usize) {
        (self.shared.sends.taken(), self.shared.receives.taken())
    }

    /// What it did; `None` before RTR.
    ///
    /// # Errors
    /// [`HostError::Gone`].
    pub fn stats(&self) -> Result<Option<QpStats>, HostError> {
        let qpn = self.qpn;
        self.worker.get().map_or(Ok(None), |worker| worker.call(move |_, nic, _| nic.qp_stats(qpn)))
    }

    /// Closes it, as its drop does: what has not ended has completed as flushed when this returns, and its number may be another's.
    pub fn close(self) {}
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        let qpn = self.qpn;
        let closed = match self.worker.get() {
            Some(worker) => worker.call(move |now, nic, books| books.close(now, nic, qpn)).is_ok(),
            None => true,
        };
        // Receives that no worker has seen.
        for _ in self.life().early.drain(..) {
            self.receive.release();
        }
        if closed {
            self.device.numbers.lock().unwrap_or_else(PoisonError::into_inner).release(qpn);
        }
    }
}

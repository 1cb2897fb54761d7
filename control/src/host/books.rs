//! What a worker knows of the applications' QPs.

use super::completion_queue::Shared as Completions;
use super::event::{AsyncEvent, Events};
use super::qp::Shared as SharedQp;
use super::question::Awaited;
use dataplane::Ns;
use dataplane::nic::{
    Completion, CompletionEntry, LifeState, Nic, OpenError, Operation, QpSpec, QpState, Qpn, Status, WriteRequest,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// The QPs of a worker, by slot.
pub(super) struct Books {
    qps: Vec<Option<Box<Account>>>,
    events: Arc<Events>,
    /// Receives to be renewed whose completion queue had no room for one more completion.
    owed: VecDeque<(Qpn, u64)>,
    /// QPs that were in error when it was last looked.
    errors: u64,
    /// Endpoint operations that somebody waits for.
    pub(super) awaited: Awaited,
}

/// A QP, and where its completions go.
pub(super) struct Account {
    pub(super) qpn: Qpn,
    pub(super) shared: Arc<SharedQp>,
    pub(super) send: Arc<Completions>,
    pub(super) receive: Arc<Completions>,
    /// Whether the requests that have not ended want a completion on success, in the order of posting, which is that of their ends.
    signaled: VecDeque<bool>,
    /// How the first request ended that failed by itself.
    cause: Option<Status>,
    failed: bool,
    told: bool,
}

impl Account {
    pub(super) fn new(
        qpn: Qpn,
        shared: Arc<SharedQp>,
        [send, receive]: [Arc<Completions>; 2],
        send_depth: usize,
    ) -> Account {
        let signaled = VecDeque::with_capacity(send_depth);
        Account { qpn, shared, send, receive, signaled, cause: None, failed: false, told: false }
    }

    /// Ends a request; true for a receive that is to be posted again.
    fn complete(&mut self, entry: CompletionEntry) -> bool {
        let Completion { operation, status, .. } = entry.completion;
        if !matches!(status, Status::Success | Status::Flushed) {
            self.cause.get_or_insert(status);
        }
        // First the queue has room again, then the application hears of it.
        if let Operation::Receive { .. } = operation {
            let renewed = status == Status::Success && self.shared.renews();
            if !renewed {
                self.shared.receives.release();
            }
            self.receive.push(entry);
            return renewed;
        }
        let signaled = self.signaled.pop_front().unwrap_or(true);
        self.shared.sends.release();
        if signaled || status != Status::Success {
            self.send.push(entry);
        } else {
            self.send.release();
        }
        false
    }
}

impl Books {
    pub(super) fn new(events: Arc<Events>) -> Books {
        Books { qps: Vec::new(), events, owed: VecDeque::new(), errors: 0, awaited: Awaited::default() }
    }

    fn account(&mut self, qpn: Qpn) -> Option<&mut Account> {
        self.qps.get_mut(qpn.slot())?.as_deref_mut().filter(|account| account.qpn == qpn)
    }

    /// Opens a QP at the engine.
    pub(super) fn open(&mut self, now: Ns, nic: &mut Nic, spec: QpSpec, account: Account) -> Result<(), OpenError> {
        let slot = account.qpn.slot();
        nic.open(now, spec)?;
        if self.qps.len() <= slot {
            self.qps.resize_with(slot + 1, || None);
        }
        self.qps[slot] = Some(Box::new(account));
        Ok(())
    }

    /// Closes a QP: what has not ended completes as flushed before this returns.
    pub(super) fn close(&mut self, now: Ns, nic: &mut Nic, qpn: Qpn) {
        nic.close(now, qpn);
        self.reap(nic);
        if self.account(qpn).is_some() {
            self.qps[qpn.slot()] = None;
        }
    }

    /// Puts a QP into the error state, as its owner wants: no event tells of it.
    pub(super) fn end(&mut self, now: Ns, nic: &mut Nic, qpn: Qpn) {
        if let Some(account) = self.account(qpn) {
            account.told = true;
        }
        nic.end(now, qpn);
        self.reap(nic);
    }

    /// Posts a Write.
    #[inline]
    pub(super) fn write(&mut self, nic: &mut Nic, qpn: Qpn, request: &WriteRequest) {
        let Some(account) = self.account(qpn) else { return };
        account.signaled.push_back(request.signaled);
        // All ends are of interest here, if only for the room that they make.
        if nic.post_write(qpn, &WriteRequest { signaled: true, ..*request }).is_err() {
            // Whoever posted it had it checked. It must end all the same.
            account.complete(CompletionEntry { qpn, completion: request.completion(Status::Flushed) });
        }
    }

    /// Posts a receive.
    #[inline]
    pub(super) fn receive(&mut self, nic: &mut Nic, qpn: Qpn, wr_id: u64) {
        if nic.post_receive(qpn, wr_id).is_err()
            && let Some(account) = self.account(qpn)
        {
            let operation = Operation::Receive { immediate: 0 };
            let completion = Completion { wr_id, operation, status: Status::Flushed, len: 0 };
            account.complete(CompletionEntry { qpn, completion });
        }
    }

    /// Posts a receive again that has completed, once its completion queue has a place for its next completion.
    fn renew(&mut self, nic: &mut Nic, qpn: Qpn, wr_id: u64) {
        match self.account(qpn).map(|account| account.receive.promise()) {
            Some(Ok(())) => self.receive(nic, qpn, wr_id),
            Some(Err(_)) => self.owed.push_back((qpn, wr_id)),
            None => {}
        }
    }

    /// Hands the engine's completions on, and tells of QPs that failed. True when there was anything.
    #[inline]
    pub(super) fn reap(&mut self, nic: &mut Nic) -> bool {
        let errors = nic.stats().qp_errors.get();
        let failed = errors != self.errors;
        if failed {
            self.errors = errors;
            // Before the completions that say so: who polls them finds the QP in its state.
            self.find_failed(nic);
        }
        let mut reaped = failed;
        for _ in 0..self.owed.len() {
            if let Some((qpn, wr_id)) = self.owed.pop_front() {
                self.renew(nic, qpn, wr_id);
            }
        }
        while let Some(entry) = nic.poll() {
            reaped = true;
            if let Some(account) = self.account(entry.qpn)
                && account.complete(entry)
            {
                self.renew(nic, entry.qpn, entry.completion.wr_id);
            }
        }
        if failed {
            self.tell_failed();
        }
        while let Some(answer) = nic.poll_endpoint_answer() {
            reaped = true;
            self.awaited.answered(answer);
        }
        reaped
    }

    #[cold]
    fn find_failed(&mut self, nic: &Nic) {
        for account in self.qps.iter_mut().flatten() {
            if !account.failed && nic.state(account.qpn) == Some(QpState::Error) {
                account.failed = true;
                account.shared.set_state(LifeState::Error);
            }
        }
    }

    #[cold]
    fn tell_failed(&mut self) {
        for account in self.qps.iter_mut().flatten().filter(|account| account.failed && !account.told) {
            account.told = true;
            self.events.push(AsyncEvent::QpError { qpn: account.qpn, cause: account.cause });
        }
    }
}

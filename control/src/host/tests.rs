//! Rings, books and QPs against an engine, without DPDK: the test is the worker.

use super::books::{Account, Books};
use super::completion_queue::CompletionQueue;
use super::error::HostError;
use super::event::{AsyncEvent, Events};
use super::hook::{Hook, HookMaker};
use super::qp::Shared;
use super::ring::{Job, WorkerRing};
use super::seat::Seat;
use crate::controller::link;
use dataplane::Ns;
use dataplane::dpdk::{App, Poll};
use dataplane::memory::{Domain, Key};
use dataplane::nic::{
    Advertised, Endpoint, LifeState, Nic, NicParams, PathSpec, Placement, PortId, PortInfo, QpNumbers, QpSpec, QpState,
    Qpn, Status, WriteRequest,
};
use dataplane::transport::{Psn, TransportParams};
use dataplane::wire::MacAddr;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A worker that the test turns by hand, with one QP whose peer is nowhere.
struct Worker {
    nic: Nic,
    seat: Seat,
    ring: WorkerRing,
    stop: Arc<AtomicBool>,
    events: Arc<Events>,
    qpn: Qpn,
    shared: Arc<Shared>,
    cq: CompletionQueue,
}

const DEPTH: usize = 4;

fn request(wr_id: u64, signaled: bool) -> WriteRequest {
    let key = Key(0x101);
    WriteRequest {
        wr_id,
        local_key: key,
        local_va: 0,
        remote_key: key,
        remote_va: 0,
        len: 0,
        immediate: None,
        signaled,
    }
}

impl Worker {
    fn new(hooks: Option<HookMaker>) -> Worker {
        let port = PortInfo { mac: MacAddr([2, 0, 0, 0, 0, 1]), max_frame: 9000 };
        // One retransmission, and it is over.
        let transport =
            TransportParams { linear_retry_count: 1, exponential_retry_count: 0, ..TransportParams::default() };
        let mut nic = Nic::new(NicParams { transport, ..NicParams::default() }, &[port]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ring = WorkerRing::new(2, Arc::clone(&stop));
        let events: Arc<Events> = Arc::default();
        let hooks = hooks.map(|maker| maker.hooks(0)).unwrap_or_default();
        let mut books = Books::new(Arc::clone(&events));
        let cq = CompletionQueue::new(1, 8).unwrap();
        let (qpn, shared) = (QpNumbers::default().allocate().unwrap(), Arc::new(Shared::default()));
        let end = |n| Endpoint { mac: MacAddr([2, 0, 0, 0, 0, n]), ip: Ipv4Addr::new(10, 0, 0, n).into() };
        let spec = QpSpec {
            qpn,
            state: QpState::Rts,
            port: PortId(0),
            local: end(1),
            remote: end(2),
            vlan: None,
            peer_qpn: 0x01_0000,
            send_psn: Psn::new(0),
            receive_psn: Psn::new(0),
            peer: Advertised { window: 1024, immediates: 64 },
            domain: Domain(1),
            send_depth: DEPTH,
            receive_depth: DEPTH,
            write_imm_limit: 64,
            placement: Placement::Keyed,
            path: PathSpec::default(),
            congestion: None,
        };
        shared.sends.limit(DEPTH);
        let ends = [0, 1].map(|_| Arc::clone(&cq.shared));
        let account = Account::new(qpn, Arc::clone(&shared), ends, DEPTH);
        books.open(Ns::ZERO, &mut nic, spec, account).unwrap();
        shared.set_state(LifeState::Rts);
        let seat = Seat { link: link(None).0, jobs: ring.jobs(), books, hooks, records: None };
        Worker { nic, seat, ring, stop, events, qpn, shared, cq }
    }

    fn turn(&mut self) -> Poll {
        self.seat.poll(Ns::ZERO, &mut self.nic)
    }

    /// Posts as a QP does that has taken a place in the send queue.
    fn post(&self, wr_id: u64, signaled: bool) -> Result<(), HostError> {
        self.shared.sends.take().map_err(HostError::SendQueueFull)?;
        self.cq.shared.promise()?;
        self.ring.post(Job::Write(self.qpn, request(wr_id, signaled))).inspect_err(|_| {
            self.shared.sends.release();
            self.cq.shared.release();
        })
    }

    fn close(&mut self) {
        self.seat.books.close(Ns::ZERO, &mut self.nic, self.qpn);
    }

    fn completions(&self) -> Vec<(u64, Status)> {
        std::iter::from_fn(|| self.cq.poll()).map(|e| (e.completion.wr_id, e.completion.status)).collect()
    }
}

#[test]
fn a_full_ring_is_an_error_that_can_be_tried_again_and_a_stopped_worker_one_that_cannot() {
    let mut worker = Worker::new(None);
    worker.post(1, true).unwrap();
    worker.post(2, true).unwrap();
    let full = worker.post(3, true).unwrap_err();
    assert_eq!((full, full.is_full()), (HostError::RingFull(2), true));
    assert_eq!(worker.turn(), Poll::Busy);
    worker.post(3, true).unwrap();
    worker.stop.store(true, Ordering::Relaxed);
    let gone = worker.post(4, true).unwrap_err();
    assert_eq!((gone, gone.is_full()), (HostError::Gone, false));
    assert_eq!(worker.ring.call(|_, _, _| ()), Err(HostError::Gone));
}

#[test]
fn what_was_asked_for_before_frames_came_is_done_before_they_are_looked_at() {
    let mut worker = Worker::new(None);
    worker.post(1, true).unwrap();
    worker.post(2, true).unwrap();
    worker.seat.before_frames(Ns::ZERO, &mut worker.nic);
    assert!(worker.seat.jobs.is_empty());
    assert_eq!(worker.nic.pending(worker.qpn), 2);
}

#[test]
fn requests_that_are_closed_with_their_qp_complete_as_flushed_in_their_order_whether_signaled_or_not() {
    let mut worker = Worker::new(None);
    worker.post(1, true).unwrap();
    worker.post(2, false).unwrap();
    worker.turn();
    assert_eq!(worker.turn(), Poll::Idle, "nothing comes back yet");
    assert_eq!(worker.completions(), []);
    worker.close();
    assert_eq!(worker.completions(), [(1, Status::Flushed), (2, Status::Flushed)]);
    assert_eq!(worker.shared.sends.taken(), 0);
}

#[test]
fn a_qp_whose_retries_are_spent_is_told_once_with_its_cause_and_what_is_posted_then_is_flushed() {
    let mut worker = Worker::new(None);
    worker.post(1, false).unwrap();
    worker.turn();
    // The engine in virtual time: sent, lost, sent again, and given up.
    let mut frames = Lost::default();
    let mut now = Ns::ZERO;
    while worker.nic.state(worker.qpn) == Some(QpState::Rts) {
        worker.nic.transmit(now, &mut frames);
        worker.nic.sent(now, PortId(0), std::mem::take(&mut frames.written));
        now = worker.nic.next_wake().unwrap_or(now + 1_000);
        worker.nic.on_time(now);
    }
    assert_eq!(worker.events.pop(), None);
    assert_eq!(worker.turn(), Poll::Busy);
    let event = AsyncEvent::QpError { qpn: worker.qpn, cause: Some(Status::RetryExceeded) };
    assert_eq!((worker.events.pop(), worker.events.pop()), (Some(event), None));
    assert_eq!(worker.shared.state(), LifeState::Error);
    assert_eq!(worker.completions(), [(1, Status::RetryExceeded)], "a failure completes, signaled or not");
    worker.post(2, false).unwrap();
    worker.turn();
    worker.turn();
    assert_eq!((worker.completions(), worker.events.pop()), (vec![(2, Status::Flushed)], None));
}

#[test]
fn a_hook_has_its_turn_after_what_applications_asked_for_and_keeps_the_worker_busy_as_it_says() {
    struct Counts(Arc<AtomicUsize>);
    impl Hook for Counts {
        fn turn(&mut self, _now: Ns, nic: &mut Nic) -> bool {
            let turns = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            turns == 1 || nic.params().seed == 0
        }
    }
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let mut worker = Worker::new(Some(HookMaker::new(move |k| {
        assert_eq!(k, 0);
        vec![Box::new(Counts(Arc::clone(&counted)))]
    })));
    assert_eq!((worker.turn(), worker.turn()), (Poll::Busy, Poll::Idle));
    assert_eq!(turns.load(Ordering::Relaxed), 2);
}

/// Takes frames, and loses them.
#[derive(Default)]
struct Lost {
    frame: Vec<u8>,
    written: usize,
}

impl dataplane::nic::TxBurst for Lost {
    fn slot(&mut self, _port: PortId, len: usize) -> Option<&mut [u8]> {
        self.frame.resize(len, 0);
        Some(&mut self.frame)
    }

    fn commit(&mut self) {
        self.written += 1;
    }
}

//! The applications that run on the workers: one that writes and measures, one that is written to.

use super::receiver::{Ledger, Receiver};
use crate::controller::WorkerEnd;
use crate::pattern;
use crate::records::WorkerRecords;
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::dpdk::{App, LaneStats, Poll};
use dataplane::memory::{Buffer, Key};
use dataplane::nic::{EvState, Nic, Qpn, Stats, Status, TX_BURST, WriteRequest};
use dataplane::time::{MS, SEC};
use hdrhistogram::Histogram;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Requests that one turn posts at most: as many as the NIC sends in one. More would lie in the send queues of many QPs for long.
const POSTS_A_TURN: usize = TX_BURST;
/// After so long without a frame in either direction nothing more is to come.
const QUIET_NS: u64 = 2 * MS;
/// What has not arrived after so long without a frame is lost, where ports lose frames.
const LOST_NS: u64 = 200 * MS;
/// A path that never answers is probed for ever: the wait for quiet ends all the same.
const DRAIN_NS: u64 = 2 * SEC;
/// Without a completion for so long the peer is not reached.
const STALL_NS: u64 = 5 * SEC;
/// Longest latency that is told apart.
const LATENCY_MAX_NS: u64 = 60 * SEC;

/// What the control thread asks of a requester.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// Measure messages of `size` bytes for `ns` of sending, `depth` in flight on each QP at most.
    Measure { size: usize, depth: usize, ns: u64 },
    /// End.
    Quit,
}

/// What a requester measured at one size.
pub(super) struct Measured {
    pub(super) messages: u64,
    /// Time spent sending, in ns: from the first post of a round to its last completion, summed.
    pub(super) sending_ns: u64,
    /// Post to completion, in ns.
    pub(super) latency: Histogram<u64>,
    pub(super) errors: u64,
    pub(super) verified: bool,
    pub(super) evs_used: usize,
    /// What the engine's counters gained.
    pub(super) gained: HashMap<&'static str, u64>,
    /// Why the measurement ended before its time.
    pub(super) fault: Option<String>,
}

impl Measured {
    /// So many messages took `latency` ns.
    fn took(&mut self, latency: u64, messages: u64) {
        if messages > 0 {
            self.latency.saturating_record_n(latency, messages);
        }
    }
}

/// The two queues between the control thread and a requester, and what it shows while it works.
pub(super) struct Mailbox {
    pub(super) commands: ArrayQueue<Command>,
    pub(super) results: ArrayQueue<Box<Measured>>,
    /// Sending time of the current size so far, in ns.
    pub(super) progress_ns: AtomicU64,
    /// Set once: stop posting, wait for what is in flight, report.
    pub(super) interrupted: AtomicBool,
}

impl Mailbox {
    pub(super) fn new() -> Arc<Mailbox> {
        Arc::new(Mailbox {
            commands: ArrayQueue::new(4),
            results: ArrayQueue::new(4),
            progress_ns: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
        })
    }
}

/// Whom a requester writes to, and from where.
pub(super) struct Peer {
    pub(super) address: IpAddr,
    pub(super) qps: Vec<Qpn>,
    /// How many of them have a UDP source port of their own, and are not sprayed.
    pub(super) own_paths: usize,
    /// Requests in flight on each QP at most.
    pub(super) depth: usize,
    /// Requests that a QP gets before it is the next one's turn.
    pub(super) post_list: usize,
    pub(super) source: Arc<Buffer>,
    pub(super) source_key: Key,
    pub(super) target: Arc<Buffer>,
    pub(super) target_key: Key,
    /// What the peer's application knows of Writes with Immediate; plain Writes without.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// The peer's counters: with them it is known that nothing is in flight.
    pub(super) stats: Option<Arc<Stats>>,
}

/// One size being measured.
struct Run {
    size: usize,
    limit_ns: u64,
    /// Messages of a round: each has a place of its own in the memory.
    a_round: usize,
    round: u64,
    posted: usize,
    completed: usize,
    round_began: Ns,
    last_completion: Ns,
    time_is_up: bool,
    outcome: Measured,
    drain_began: Option<Ns>,
    evs_before: HashMap<u32, u64>,
    /// Messages that the peer's application had received when the round began, and what had gone wrong when the run did.
    received_before: u64,
    peer_errors_before: u64,
}

enum Phase {
    Waiting,
    /// The memory is filled; the round begins at the next turn, with a fresh reading of the clock.
    Filled(Box<Run>),
    Sending(Box<Run>),
    /// Waiting until nothing moves: frames seen last, and since when.
    Draining(Box<Run>, u64, Ns),
    Over,
}

/// Writes, waits, checks.
pub(super) struct Requester {
    mailbox: Arc<Mailbox>,
    peer: Peer,
    /// Which of the QPs has a slot.
    qp_of_slot: Vec<u32>,
    /// Requests in flight on each QP.
    in_flight: Vec<usize>,
    /// Messages of the round that were posted on each QP: the immediate of the next.
    sequence: Vec<u32>,
    /// QPs that have fewer requests in flight than they may, in the order of their turns.
    ready: VecDeque<u32>,
    /// Requests that the first of them got in its turn.
    listed: usize,
    rounds: u64,
    /// The engine's counters when the last size was done.
    counted: HashMap<&'static str, u64>,
    /// What is on its way between the NICs.
    wires: Option<Arc<Wires>>,
    /// Requests that ended so far.
    completed: u64,
    phase: Phase,
    acknowledger: Option<super::null::Acknowledger>,
}

/// What a lane of the bench runs.
pub(super) enum Bench {
    /// The side that writes.
    Requester(Box<Requester>),
    /// The side that is written to: its engine does all.
    Responder,
    /// The side that is written to with immediate data.
    Receiver(Receiver),
}

/// A role, and the link to the control thread.
pub(super) struct Seat {
    pub(super) role: Bench,
    pub(super) link: WorkerEnd,
    pub(super) records: Option<WorkerRecords>,
}

impl App<Nic> for Seat {
    #[inline]
    fn poll(&mut self, now: Ns, nic: &mut Nic) -> Poll {
        let told = self.link.exchange(now, nic);
        if let Some(records) = &mut self.records {
            records.turn(now, nic);
        }
        let poll = match &mut self.role {
            Bench::Requester(requester) => requester.poll(now, nic),
            Bench::Responder => Poll::Idle,
            Bench::Receiver(receiver) => receiver.poll(nic),
        };
        if told && poll == Poll::Idle { Poll::Busy } else { poll }
    }
}

const fn operation_name(immediate: bool) -> &'static str {
    if immediate { "Write with Immediate" } else { "Write" }
}

/// What all engines have sent and all lanes received, in each direction.
pub(super) struct Wires {
    pub(super) engines: [Vec<Arc<Stats>>; 2],
    pub(super) lanes: [Vec<Arc<LaneStats>>; 2],
}

impl Wires {
    /// Has all arrived that was sent?
    fn are_empty(&self) -> bool {
        let sent = |n: usize| self.engines[n].iter().map(|stats| stats.tx_frames.get()).sum::<u64>();
        let received = |n: usize| self.lanes[n].iter().map(|stats| stats.rx_frames.get()).sum::<u64>();
        sent(0) == received(1) && sent(1) == received(0)
    }
}

impl Seat {
    /// Lets a requester look at what is on its way.
    pub(super) fn watch(&mut self, wires: &Arc<Wires>) {
        if let Bench::Requester(requester) = &mut self.role {
            requester.wires = Some(Arc::clone(wires));
        }
    }
}

impl Requester {
    pub(super) fn new(mailbox: Arc<Mailbox>, peer: Peer, acknowledger: Option<super::null::Acknowledger>) -> Requester {
        let qps = peer.qps.len();
        let slots = peer.qps.iter().map(|qpn| qpn.slot() + 1).max().unwrap_or(0);
        let mut qp_of_slot = vec![u32::MAX; slots];
        for (at, qpn) in (0..).zip(&peer.qps) {
            qp_of_slot[qpn.slot()] = at;
        }
        Requester {
            mailbox,
            peer,
            qp_of_slot,
            in_flight: vec![0; qps],
            sequence: vec![0; qps],
            ready: (0..qps as u32).collect(),
            listed: 0,
            rounds: 0,
            counted: HashMap::new(),
            wires: None,
            completed: 0,
            phase: Phase::Waiting,
            acknowledger,
        }
    }

    fn poll(&mut self, now: Ns, nic: &mut Nic) -> Poll {
        match core::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Waiting => self.wait(nic),
            Phase::Filled(mut run) => {
                run.round_began = now;
                run.last_completion = now;
                self.send(now, nic, run)
            }
            Phase::Sending(run) => self.send(now, nic, run),
            Phase::Draining(run, frames, since) => self.drain(now, nic, run, frames, since),
            Phase::Over => Poll::Idle,
        }
    }

    fn wait(&mut self, nic: &Nic) -> Poll {
        self.phase = match self.mailbox.commands.pop() {
            None => Phase::Waiting,
            Some(Command::Quit) => Phase::Over,
            Some(Command::Measure { size, depth, ns }) => {
                // Nothing is in flight.
                self.peer.depth = depth;
                self.ready = (0..self.peer.qps.len() as u32).collect();
                self.listed = 0;
                self.begin(nic, size, ns)
            }
        };
        if matches!(self.phase, Phase::Waiting | Phase::Over) { Poll::Idle } else { Poll::Busy }
    }

    fn begin(&mut self, nic: &Nic, size: usize, limit_ns: u64) -> Phase {
        let memory = self.peer.source.len();
        self.mailbox.progress_ns.store(0, Ordering::Relaxed);
        let mut run = Box::new(Run {
            size,
            limit_ns,
            a_round: (memory / size.max(1)).max(1),
            round: 0,
            posted: 0,
            completed: 0,
            round_began: Ns::ZERO,
            last_completion: Ns::ZERO,
            time_is_up: false,
            outcome: Measured {
                messages: 0,
                sending_ns: 0,
                latency: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("constant bounds"),
                errors: 0,
                verified: true,
                evs_used: 0,
                gained: HashMap::new(),
                fault: None,
            },
            drain_began: None,
            evs_before: nic.ev_use(self.peer.address).collect(),
            received_before: 0,
            peer_errors_before: self.peer.ledger.as_ref().map_or(0, |ledger| ledger.errors()),
        });
        self.fill(&mut run);
        Phase::Filled(run)
    }

    fn fill(&mut self, run: &mut Run) {
        self.rounds += 1;
        run.round = self.rounds;
        run.posted = 0;
        run.completed = 0;
        pattern::fill(&self.peer.source, 0, run.a_round * run.size, run.round);
        if let Some(ledger) = &self.peer.ledger {
            self.sequence.fill(0);
            run.received_before = ledger.received();
            ledger.begin(run.round, run.size);
        }
    }

    fn send(&mut self, now: Ns, nic: &mut Nic, mut run: Box<Run>) -> Poll {
        if let Some(acknowledger) = &mut self.acknowledger {
            acknowledger.acknowledge(now, nic, self.completed);
        }
        let completed = self.reap(now, nic, &mut run);
        run.time_is_up |= run.outcome.sending_ns + now.since(run.round_began) >= run.limit_ns
            || run.outcome.fault.is_some()
            || self.mailbox.interrupted.load(Ordering::Relaxed);
        let posted = if run.time_is_up { 0 } else { self.post(now, nic, &mut run) };
        let all_back = run.completed == run.posted;
        if all_back && (run.time_is_up || run.posted == run.a_round) {
            self.phase = self.end_round(now, run);
            return Poll::Busy;
        }
        if now.since(run.last_completion) > STALL_NS {
            run.outcome.fault = Some(format!("no message completed for {} s", STALL_NS / SEC));
            run.outcome.verified = false;
            self.phase = Phase::Draining(run, 0, now);
            return Poll::Busy;
        }
        self.phase = Phase::Sending(run);
        if completed + posted > 0 { Poll::Busy } else { Poll::Idle }
    }

    fn reap(&mut self, now: Ns, nic: &mut Nic, run: &mut Run) -> usize {
        let before = run.completed;
        // Requests of one turn share the time of their post: so many in a row took as long.
        let (mut latency, mut count) = (0, 0);
        while let Some(entry) = nic.poll() {
            run.completed += 1;
            if let Some(&at) = self.qp_of_slot.get(entry.qpn.slot())
                && let Some(in_flight) = self.in_flight.get_mut(at as usize)
            {
                if *in_flight == self.peer.depth {
                    self.ready.push_back(at);
                }
                *in_flight -= 1;
            }
            match entry.completion.status {
                Status::Success => {
                    run.outcome.messages += 1;
                    // The request's number is the time of its post.
                    let took = now.0 - entry.completion.wr_id;
                    if took != latency {
                        run.outcome.took(latency, count);
                        (latency, count) = (took, 0);
                    }
                    count += 1;
                }
                status => {
                    run.outcome.errors += 1;
                    run.outcome.fault.get_or_insert_with(|| {
                        format!("a {} ended with {status:?}", operation_name(self.peer.ledger.is_some()))
                    });
                }
            }
        }
        run.outcome.took(latency, count);
        self.completed += (run.completed - before) as u64;
        if run.completed > before {
            run.last_completion = now;
        }
        run.completed - before
    }

    fn post(&mut self, now: Ns, nic: &mut Nic, run: &mut Run) -> usize {
        let mut posted = 0;
        while posted < POSTS_A_TURN
            && run.posted < run.a_round
            && let Some(&at) = self.ready.front()
        {
            let at = at as usize;
            let count = (POSTS_A_TURN - posted)
                .min(run.a_round - run.posted)
                .min(self.peer.depth - self.in_flight[at])
                .min(self.peer.post_list - self.listed);
            let first = self.sequence[at];
            let requests = (0..count).map(|n| {
                let offset = ((run.posted + n) * run.size) as u64;
                WriteRequest {
                    wr_id: now.0,
                    local_key: self.peer.source_key,
                    local_va: offset,
                    remote_key: self.peer.target_key,
                    remote_va: offset,
                    len: run.size as u32,
                    immediate: self.peer.ledger.is_some().then_some(first.wrapping_add(n as u32)),
                    signaled: true,
                }
            });
            let (count, all) = nic.post_writes(self.peer.qps[at], requests);
            self.sequence[at] = first.wrapping_add(count as u32);
            self.in_flight[at] += count;
            self.listed += count;
            run.posted += count;
            posted += count;
            if let Err(refusal) = all {
                run.outcome.errors += 1;
                run.outcome.fault.get_or_insert_with(|| refusal.to_string());
                break;
            }
            if self.in_flight[at] == self.peer.depth {
                self.ready.pop_front();
                self.listed = 0;
            } else if self.listed >= self.peer.post_list {
                self.ready.rotate_left(1);
                self.listed = 0;
                if let Some(&later) = self.ready.get(2) {
                    nic.expect_post(self.peer.qps[later as usize]);
                }
            }
        }
        posted
    }

    /// All of the round is back: the clock stands still while the target is checked.
    fn end_round(&mut self, now: Ns, mut run: Box<Run>) -> Phase {
        run.outcome.sending_ns += run.last_completion.since(run.round_began);
        self.mailbox.progress_ns.store(run.outcome.sending_ns, Ordering::Relaxed);
        run.outcome.verified &= pattern::holds(&self.peer.target, 0, run.posted * run.size, run.round);
        self.compare(&mut run);
        if run.time_is_up || run.outcome.fault.is_some() || run.outcome.sending_ns >= run.limit_ns {
            return Phase::Draining(run, 0, now);
        }
        self.fill(&mut run);
        Phase::Filled(run)
    }

    /// The peer's application must have received what was acknowledged: all of it, and as it was sent.
    fn compare(&self, run: &mut Run) {
        let Some(ledger) = &self.peer.ledger else { return };
        let received = ledger.received() - run.received_before;
        let sent = run.completed as u64;
        if ledger.errors() > run.peer_errors_before {
            // Said in its own words once all is quiet.
            run.time_is_up = true;
        } else if received != sent && run.outcome.errors == 0 {
            run.outcome.errors += sent.abs_diff(received);
            run.outcome.fault = Some(format!("{sent} messages were acknowledged, but {received} received"));
        }
    }

    /// Waits until all that was sent has arrived, and nothing has moved for a while, so that counters of engine and port say the same.
    fn drain(&mut self, now: Ns, nic: &mut Nic, mut run: Box<Run>, frames: u64, since: Ns) -> Poll {
        let count = |stats: &Stats| stats.rx_frames.get() + stats.tx_frames.get();
        let began = *run.drain_began.get_or_insert(now);
        let moving = self.acknowledger.is_none() && now.since(began) < DRAIN_NS;
        let seen = count(nic.stats()) + self.peer.stats.as_deref().map_or(0, count);
        if moving && seen != frames {
            self.phase = Phase::Draining(run, seen, now);
            return Poll::Busy;
        }
        // A worker that was kept from its core still has frames to receive, and a value assumed bad still has probes to come.
        let probing = nic.ev_states(self.peer.address).any(|(_, state)| state == EvState::AssumedBad);
        let arrived = self.wires.as_ref().is_none_or(|wires| wires.are_empty());
        let patience = if arrived && !probing { QUIET_NS } else { LOST_NS };
        if moving && now.since(since) < patience {
            self.phase = Phase::Draining(run, frames, since);
            return Poll::Idle;
        }
        let measured = self.finish(nic, *run);
        // The control thread asks for one size at a time, so there is room.
        let _ = self.mailbox.results.push(Box::new(measured));
        self.phase = Phase::Waiting;
        Poll::Busy
    }

    fn finish(&mut self, nic: &Nic, run: Run) -> Measured {
        let mut outcome = run.outcome;
        if let Some(ledger) = &self.peer.ledger {
            let errors = ledger.errors() - run.peer_errors_before;
            outcome.errors += errors;
            if errors > 0 {
                outcome.fault = ledger.fault().or(outcome.fault);
            }
        }
        outcome.verified &= outcome.errors == 0 && self.acknowledger.is_none();
        outcome.gained = nic
            .stats()
            .iter()
            .map(|(name, count)| (name, count - self.counted.get(name).copied().unwrap_or(0)))
            .collect();
        // What comes between two sizes counts with the second, so that nothing is left out.
        self.counted = nic.stats().iter().collect();
        let used = |&(ev, count): &(u32, u64)| count > run.evs_before.get(&ev).copied().unwrap_or(0);
        outcome.evs_used = nic.ev_use(self.peer.address).filter(used).count() + self.peer.own_paths;
        outcome
    }
}

//! A lane: one engine, its queues, and the application that uses it.

use std::sync::Arc;

use super::impair::{Impairer, ImpairmentError, Impairments};
use super::port::Queue;
use super::rx::{Batch, RxQueue};
use super::stats::LaneStats;
use super::steer::Steering;
use super::tx::TxPorts;
use crate::Ns;
use crate::nic::{PortId, RxFrame};

/// Bursts that a turn sends at most: a burst of requests draws more replies than it has frames, and a turn must end.
const BURSTS_A_TURN: usize = 4;

/// So many frames before one the engine hears that it comes.
const AHEAD: usize = 3;

/// Timers wait for so many turns at most while full bursts come in.
const TURNS_BEHIND: usize = 32;

/// What a worker drives: the protocol engine, as far as the loop knows it.
pub trait Engine: Send {
    /// A frame came in on `port`. The engine counts what it refuses.
    fn receive<F: RxFrame>(&mut self, now: Ns, port: PortId, frame: &F);

    /// A frame that begins with `head` comes soon: caches may be asked for what it is for.
    fn expect(&mut self, _head: &[u8]) {}

    /// Nothing came in: what waited for more is to go out.
    fn on_idle(&mut self, now: Ns);

    /// Timers that are due.
    fn on_time(&mut self, now: Ns);

    /// Commits frames, a burst at most, until there is none or a port is full; how many.
    fn transmit(&mut self, now: Ns, out: &mut TxPorts) -> usize;

    /// Are there replies that the last burst had no room for?
    fn replies_wait(&self) -> bool {
        false
    }

    /// The port accepted `frames` more of what was committed, in order.
    fn sent(&mut self, now: Ns, port: PortId, frames: usize);

    /// Which of `workers` owns the source of the frame that starts with `head`; `None` when any will do.
    fn owner(head: &[u8], workers: usize) -> Option<usize>;
}

/// How an application fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It did something.
    Busy,
    /// It had nothing to do.
    Idle,
    /// It needs the worker no more. A worker ends when the applications of all its lanes say so in one turn; until then
    /// each is polled on, so that its peers are still answered.
    Done,
}

/// An application that runs on the worker itself, once a turn. It must not wait.
pub trait App<E>: Send {
    /// Does what there is to do.
    fn poll(&mut self, now: Ns, engine: &mut E) -> Poll;

    /// Frames have come in that the engine sees next. What the application had been asked for by then has to be done first where peers may count
    /// on it: they may have been told of a receive before they sent.
    #[inline]
    fn before_frames(&mut self, _now: Ns, _engine: &mut E) {}
}

/// No application: the engine answers its peers until the worker is told to stop.
impl<E> App<E> for () {
    fn poll(&mut self, _now: Ns, _engine: &mut E) -> Poll {
        Poll::Idle
    }
}

/// An engine with queue i of each of its ports, for worker i of the NIC.
#[derive(Debug)]
pub struct Lane<E, A> {
    /// The engine.
    pub engine: E,
    /// The application.
    pub app: A,
    // Frames that it holds must not outlive their pools: dropped before the queues, which keep those.
    impairer: Option<Box<Impairer>>,
    rx: Vec<RxQueue>,
    tx: TxPorts,
    stats: Arc<LaneStats>,
    shared: Option<Shared>,
    /// Turns in a row that left frames in the queues.
    behind: usize,
}

#[derive(Debug)]
struct Shared {
    steering: Arc<Steering>,
    worker: usize,
    inbox: Batch,
}

impl<E: Engine, A: App<E>> Lane<E, A> {
    /// A lane over one queue of each of the NIC's ports, in the order of the ports.
    #[must_use]
    pub fn new(engine: E, app: A, queues: Vec<Queue>) -> Lane<E, A> {
        let (rx, tx) = queues.into_iter().map(|queue| (queue.rx, queue.tx)).unzip();
        let (tx, stats) = (TxPorts::new(tx), Arc::default());
        Lane { engine, app, impairer: None, rx, tx, stats, shared: None, behind: 0 }
    }

    /// The lane is worker `worker` of several that share the NIC's ports.
    #[must_use]
    pub fn with_steering(mut self, steering: Arc<Steering>, worker: usize) -> Lane<E, A> {
        self.shared = (steering.workers() > 1).then(|| Shared { steering, worker, inbox: Batch::new() });
        self
    }

    /// Impairs the frames that its engine receives.
    ///
    /// # Errors
    /// [`ImpairmentError`] names the share that is out of range.
    pub fn with_impairments(mut self, impairments: &Impairments) -> Result<Lane<E, A>, ImpairmentError> {
        impairments.validate()?;
        let impairer = || Box::new(Impairer::new(impairments, Arc::clone(&self.stats)));
        self.impairer = (!impairments.is_none()).then(impairer);
        Ok(self)
    }

    /// What the lane counts, for any thread to read.
    #[must_use]
    pub fn stats(&self) -> Arc<LaneStats> {
        Arc::clone(&self.stats)
    }

    /// One turn: receive, time, application, transmit.
    #[inline]
    pub(super) fn turn(&mut self, now: Ns) -> Poll {
        let (received, more) = self.receive(now);
        let received = received + self.receive_handed(now) + self.receive_held(now);
        if received == 0 {
            self.engine.on_idle(now);
        }
        // What waits in the queues may be the very acknowledgements that timers wait for: after the worker was kept from its
        // core, they come first.
        self.behind = if more { self.behind + 1 } else { 0 };
        if self.behind.is_multiple_of(TURNS_BEHIND) {
            self.engine.on_time(now);
        }
        let poll = self.app.poll(now, &mut self.engine);
        let sent = self.transmit(now);
        self.stats.turns.add(1);
        match poll {
            Poll::Idle if received + sent > 0 => Poll::Busy,
            Poll::Idle => {
                self.stats.idle_turns.add(1);
                Poll::Idle
            }
            other => other,
        }
    }

    #[inline]
    fn receive(&mut self, now: Ns) -> (usize, bool) {
        let mut more = false;
        let (mut received, mut handed, mut lost) = (0, 0, 0);
        for (i, queue) in self.rx.iter_mut().enumerate() {
            let port = PortId(i as u8);
            let batch = queue.burst();
            received += batch.len();
            more |= batch.len() == super::BURST;
            if !batch.is_empty() {
                self.app.before_frames(now, &mut self.engine);
            }
            for at in 0..batch.len() {
                if let Some(later) = batch.first_piece(at + AHEAD) {
                    self.engine.expect(later);
                }
                let Some(frame) = batch.frame(at) else { continue };
                if let Some(Shared { steering, worker, .. }) = &self.shared
                    && let Some(owner) = E::owner(frame.head(), steering.workers())
                    && owner != *worker
                {
                    let pushed = batch.take(at).is_some_and(|mbuf| steering.push(owner, port, mbuf));
                    handed += usize::from(pushed);
                    lost += usize::from(!pushed);
                    continue;
                }
                match &mut self.impairer {
                    None => self.engine.receive(now, port, &frame),
                    Some(impairer) => impairer.admit(&mut self.engine, now, port, batch, at),
                }
            }
            batch.free();
        }
        self.stats.rx_frames.add(received as u64);
        self.stats.handed_over.add(handed as u64);
        self.stats.handover_full.add(lost as u64);
        (received, more)
    }

    #[inline]
    fn receive_handed(&mut self, now: Ns) -> usize {
        let Some(Shared { steering, worker, inbox }) = &mut self.shared else { return 0 };
        let mut ports = [PortId(0); super::BURST];
        let mut from = ports.iter_mut();
        let received = inbox.refill(|| {
            let place = from.next()?;
            let (port, mbuf) = steering.pop(*worker)?;
            *place = port;
            Some(mbuf)
        });
        if received > 0 {
            self.app.before_frames(now, &mut self.engine);
        }
        for (at, port) in ports.iter().enumerate().take(received) {
            match &mut self.impairer {
                None => {
                    if let Some(frame) = inbox.frame(at) {
                        self.engine.receive(now, *port, &frame);
                    }
                }
                Some(impairer) => impairer.admit(&mut self.engine, now, *port, inbox, at),
            }
        }
        inbox.free();
        self.stats.handed_in.add(received as u64);
        received
    }

    /// Frames that were held back on purpose, for long enough.
    #[inline]
    fn receive_held(&mut self, now: Ns) -> usize {
        self.impairer.as_mut().map_or(0, |impairer| impairer.on_time(&mut self.engine, now))
    }

    #[inline]
    fn transmit(&mut self, now: Ns) -> usize {
        let (engine, tx) = (&mut self.engine, &mut self.tx);
        let mut sent = 0;
        for _ in 0..BURSTS_A_TURN {
            let written = engine.transmit(now, tx);
            tx.flush(|port, frames| {
                engine.sent(now, port, frames);
                sent += frames;
            });
            // Data waits for the next turn: a burst of it takes long enough for acknowledgements to come in.
            if written < super::BURST || !engine.replies_wait() {
                break;
            }
        }
        self.stats.tx_frames.add(sent as u64);
        if tx.take_news() {
            let sum = |of: fn(&super::TxQueue) -> u64| tx.queues().iter().map(of).sum();
            self.stats.tx_pool_empty.set(sum(super::TxQueue::alloc_failures));
            self.stats.tx_stalls.set(sum(super::TxQueue::stalls));
            self.stats.tx_too_long.set(sum(super::TxQueue::too_long));
        }
        sent
    }
}

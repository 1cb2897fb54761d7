//! Many messages in flight.

use super::end::End;
use super::line::{Line, Message, Sent};
use super::settings::Until;
use crate::error::Error;
use std::time::{Duration, Instant};

/// How often an end that only receives looks around.
const LOOK: Duration = Duration::from_millis(5);
/// Turns between two looks at the other end.
const TURNS: u32 = 64;
/// Bits of a request's number that count messages; the QP is above.
const COUNT_BITS: u32 = 32;

/// A QP's messages.
#[derive(Clone, Copy, Default)]
struct Flow {
    posted: u64,
    completed: u64,
    /// Posted since the last that is signaled.
    unsignaled: u32,
}

/// One size being measured.
pub(super) struct Bandwidth<'a> {
    end: &'a End,
    line: &'a Line,
    size: u32,
    flows: Vec<Flow>,
    next: usize,
    received: u64,
}

impl<'a> Bandwidth<'a> {
    pub(super) fn new(end: &'a End, line: &'a Line, size: u32) -> Bandwidth<'a> {
        Bandwidth { end, line, size, flows: vec![Flow::default(); end.settings().qps], next: 0, received: 0 }
    }

    /// Sends until it is enough, and waits for all of it.
    pub(super) fn send(&mut self, until: Until) -> Result<Sent, Error> {
        let before = self.end.retransmits();
        let most = until.messages().unwrap_or(u64::MAX);
        self.end.moved();
        let began = Instant::now();
        let mut turns = 0u32;
        let mut enough = false;
        loop {
            let posted = self.post(most, enough)?;
            let reaped = self.reap()? + self.receive()?;
            enough |= until.time().is_some_and(|time| began.elapsed() >= time) || self.line.is_interrupted();
            let back = self.flows.iter().all(|flow| flow.posted == flow.completed);
            if back && (enough || self.flows.iter().all(|flow| flow.posted == most)) {
                break;
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS) {
                self.end.check(self.line)?;
            }
            if posted + reaped == 0 {
                // The workers want the core, too.
                std::thread::yield_now();
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Sent {
            messages: self.flows.iter().map(|flow| flow.completed).collect(),
            seconds,
            retransmits: self.end.retransmits() - before,
            received: 0,
            verified: None,
        })
    }

    /// Receives until the other end says something, or with `heeds` until somebody asks this end to stop.
    pub(super) fn attend(&mut self, heeds: bool) -> Result<Message, Error> {
        loop {
            self.receive()?;
            let patience = if self.end.settings().immediate { Duration::ZERO } else { LOOK };
            if let Some(message) = self.line.listen(patience)? {
                // All that was acknowledged has been received.
                self.receive()?;
                return Ok(message);
            }
            self.end.check_idle(self.line)?;
            if heeds && self.line.is_interrupted() {
                return Err(Error::Failure("interrupted".into()));
            }
            if self.end.settings().immediate {
                self.end.doze(LOOK);
            }
        }
    }

    /// Messages with immediates received so far.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Posts one message on each QP in turn, as long as there is room. Once it is `enough`, no more than one, by which those before it are
    /// known to have completed.
    #[inline]
    fn post(&mut self, most: u64, enough: bool) -> Result<usize, Error> {
        let (settings, places) = (self.end.settings(), self.end.settings().places(self.size) as u64);
        let (depth, every) = (settings.depth as u64, self.end.signal_every() as u32);
        let (mut posted, mut full) = (0, 0);
        while full < self.flows.len() {
            let n = self.next;
            self.next = (n + 1) % self.flows.len();
            let flow = self.flows[n];
            let in_flight = flow.posted - flow.completed;
            if in_flight >= depth || flow.posted == most || (enough && flow.unsignaled == 0) {
                full += 1;
                continue;
            }
            // One of a full queue is signaled in any case, and the last.
            let last = flow.posted + 1 == most || in_flight + 1 == depth || enough;
            let signaled = flow.unsignaled + 1 >= every || last;
            let wr_id = (n as u64) << COUNT_BITS | u64::from(flow.unsignaled + 1);
            let place = (flow.posted % places) as usize;
            if !self.end.post(n, place, self.size, wr_id, flow.posted as u32, signaled)? {
                full += 1;
                continue;
            }
            full = 0;
            posted += 1;
            let flow = &mut self.flows[n];
            flow.posted += 1;
            flow.unsignaled = if signaled { 0 } else { flow.unsignaled + 1 };
        }
        Ok(posted)
    }

    #[inline]
    fn reap(&mut self) -> Result<usize, Error> {
        let mut reaped = 0;
        while let Some(wr_id) = self.end.completed()? {
            reaped += 1;
            if let Some(flow) = self.flows.get_mut((wr_id >> COUNT_BITS) as usize) {
                flow.completed += wr_id & ((1 << COUNT_BITS) - 1);
            }
        }
        Ok(reaped)
    }

    #[inline]
    fn receive(&mut self) -> Result<usize, Error> {
        let mut received = 0;
        while self.end.received()?.is_some() {
            received += 1;
        }
        self.received += received as u64;
        Ok(received)
    }
}

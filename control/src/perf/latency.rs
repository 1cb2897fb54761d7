//! One message at a time, back and forth.
//!
//! Each end looks into its memory until the other's message is there, or for its immediate, and then sends its own. Packets of a message may
//! arrive in any order, so the last byte of each packet is looked at.

use super::end::End;
use super::line::{Line, Sent};
use super::settings::Until;
use crate::error::Error;
use crate::pattern;
use dataplane::memory::Buffer;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Longest round trip that is told apart, in ns.
const LONGEST_NS: u64 = 60_000_000_000;
/// Looks between two at everything else.
const LOOKS: u32 = 256;
/// Looks of a thread with cores to spare before it offers its own.
const LOOKS_A_YIELD: u32 = 64;

/// One size being measured.
pub(super) struct PingPong<'a> {
    end: &'a End,
    line: &'a Line,
    size: u32,
    /// The last byte of each packet.
    marks: Vec<usize>,
    /// Looks until the core is offered to others.
    looks: u32,
    sent: u64,
    acknowledged: u64,
}

/// What marks message number `n`, from 0: neighbours differ, and none is 0.
const fn mark(n: u64) -> u8 {
    (n % 255 + 1) as u8
}

fn stamp(buffer: &Buffer, marks: &[usize], mark: u8) {
    for &at in marks {
        // Inside: they are made from the size.
        let _ = buffer.write(at, &[mark]);
    }
}

fn is_stamped(buffer: &Buffer, marks: &[usize], mark: u8) -> bool {
    let mut byte = [0];
    // The last packet is most often the last to come.
    marks.iter().rev().all(|&at| buffer.read(at, &mut byte).is_ok() && byte[0] == mark)
}

impl<'a> PingPong<'a> {
    /// Clears the marks of the memory that the other end writes.
    pub(super) fn new(end: &'a End, line: &'a Line, size: u32) -> PingPong<'a> {
        let mss = end.mss();
        let ends = (1..=size.div_ceil(mss)).map(|n| (u64::from(n) * u64::from(mss)).min(size.into()) as usize - 1);
        let marks: Vec<usize> = ends.collect();
        stamp(end.target(), &marks, 0);
        // Two workers and two applications want four cores.
        let spare = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 4);
        let looks = if spare { LOOKS_A_YIELD } else { 1 };
        PingPong { end, line, size, marks, looks, sent: 0, acknowledged: 0 }
    }

    /// The side that begins. Also the times of all round trips.
    pub(super) fn ping(&mut self, until: Until) -> Result<(Sent, Histogram<u64>), Error> {
        let before = self.end.retransmits();
        let most = until.messages().unwrap_or(u64::MAX);
        let mut trips = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .map_err(|e| Error::Failure(format!("no room for a histogram: {e}")))?;
        let began = Instant::now();
        self.end.moved();
        while self.sent < most && until.time().is_none_or(|time| began.elapsed() < time) && !self.line.is_interrupted()
        {
            let n = self.sent;
            self.prepare(n);
            let posted = Instant::now();
            self.post(n)?;
            self.arrived(n, false)?;
            trips.saturating_record(posted.elapsed().as_nanos() as u64);
        }
        self.settle()?;
        Ok((self.outcome(began.elapsed(), before), trips))
    }

    /// The side that answers, until it has answered all or the other end says that it was enough.
    pub(super) fn pong(&mut self, until: Until) -> Result<Sent, Error> {
        let before = self.end.retransmits();
        let most = until.messages().unwrap_or(u64::MAX);
        let began = Instant::now();
        self.end.moved();
        while self.sent < most {
            let n = self.sent;
            if !self.arrived(n, true)? {
                break;
            }
            self.prepare(n);
            self.post(n)?;
        }
        self.settle()?;
        Ok(self.outcome(began.elapsed(), before))
    }

    fn outcome(&self, took: Duration, retransmits_before: u64) -> Sent {
        Sent {
            messages: vec![self.acknowledged],
            seconds: took.as_secs_f64(),
            retransmits: self.end.retransmits() - retransmits_before,
            received: 0,
            verified: None,
        }
    }

    /// Marks what is sent next. An answer came to what was sent before, or the next message did, so that has arrived, and nobody needs its
    /// marks any more.
    #[inline]
    fn prepare(&self, n: u64) {
        stamp(self.end.source(), &self.marks, mark(n));
    }

    fn post(&mut self, n: u64) -> Result<(), Error> {
        let mut looks = 0;
        while !self.end.post(0, 0, self.size, n, n as u32, true)? {
            self.reap()?;
            self.look(&mut looks)?;
        }
        self.sent += 1;
        Ok(())
    }

    fn reap(&mut self) -> Result<(), Error> {
        while self.end.completed()?.is_some() {
            self.acknowledged += 1;
        }
        Ok(())
    }

    /// Waits for message number `n`; false when there will be none: the side that answers (`passive`) is told so.
    fn arrived(&mut self, n: u64, passive: bool) -> Result<bool, Error> {
        let mut looks = 0;
        loop {
            let there = if self.end.settings().immediate {
                match self.end.received()? {
                    Some(immediate) if immediate != n as u32 => {
                        return Err(Error::Failure(format!(
                            "immediate {immediate} came where {} was to come",
                            n as u32
                        )));
                    }
                    immediate => immediate.is_some(),
                }
            } else {
                is_stamped(self.end.target(), &self.marks, mark(n))
            };
            if there {
                self.end.moved();
                return Ok(true);
            }
            self.reap()?;
            if passive && self.line.has_message() {
                return Ok(false);
            }
            self.look(&mut looks)?;
            // Who began sees to the answer first.
            if passive && looks.is_multiple_of(LOOKS) && self.line.is_interrupted() {
                return Err(Error::Failure("interrupted".into()));
            }
        }
    }

    /// Lets others have the core now and then, and sees that nothing is wrong.
    #[inline]
    fn look(&self, looks: &mut u32) -> Result<(), Error> {
        *looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) {
            self.end.check(self.line)?;
        }
        if looks.is_multiple_of(self.looks) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Waits until all that was sent is acknowledged.
    fn settle(&mut self) -> Result<(), Error> {
        let mut looks = 0;
        loop {
            self.reap()?;
            if self.acknowledged == self.sent {
                return Ok(());
            }
            self.look(&mut looks)?;
        }
    }

    /// Whether the target holds the last of so many messages: the pattern of `round`, and its marks.
    pub(super) fn holds(&self, round: u64, messages: u64) -> bool {
        let Some(last) = messages.checked_sub(1) else { return true };
        if !self.marks.is_empty() && !is_stamped(self.end.target(), &self.marks, mark(last)) {
            return false;
        }
        // Between the marks stands the pattern: a buffer that was made from it has the same marks.
        let wanted = Buffer::new((self.size as usize).max(1));
        pattern::fill(&wanted, 0, self.size as usize, round);
        stamp(&wanted, &self.marks, mark(last));
        same(self.end.target(), &wanted, self.size as usize)
    }
}

fn same(a: &Buffer, b: &Buffer, len: usize) -> bool {
    let (mut one, mut other) = ([0; 4096], [0; 4096]);
    (0..len).step_by(one.len()).all(|at| {
        let run = one.len().min(len - at);
        let read = a.read(at, &mut one[..run]).and_then(|()| b.read(at, &mut other[..run]));
        read.is_ok() && one[..run] == other[..run]
    })
}

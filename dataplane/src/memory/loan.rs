//! Payload that goes out from where it lies: what a driver was lent, and what is back.
//!
//! A frame may carry payload as a segment of its own that refers to registered memory. Such a frame can wait anywhere: in the port's queue,
//! in a ring, at a receiver on another core. The message that it belongs to does not complete, and its region is not given up, until
//! whoever frees the last of its frames has counted it back.

use super::{Buffer, Key, Target};
use crate::Ns;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// Loans of one engine at a time; messages beyond are copied.
const LOANS_MAX: usize = 4096;
/// Pieces of one loan that are out at a time; what comes beyond is copied.
const PIECES_MAX: u16 = 1 << 15;
/// How long a message waits for what devices alone were lent, in ns from when that was, once all of it is acknowledged. A device sends what it has
/// in far less; one that keeps frames for longer has no link, and the peer has the payload by another way. Should it still send them, they are
/// repeats for the peer, and if the payload has changed their iCRC is wrong. The region is waited for as ever.
pub const DEVICE_KEEPS: u64 = 100_000_000;
/// The count when all is back. It never comes near 0 or 1, which drivers take for the last reference.
const ALL_BACK: u16 = 0xC000;

/// Counts what comes back of a loan. Its layout is that of the reference count that DPDK has for external buffers: two words that are the driver's,
/// and a count that falls by one for each piece.
#[repr(C)]
#[derive(Debug)]
pub struct LoanCount {
    driver: [AtomicUsize; 2],
    count: AtomicU16,
}

/// Which loan of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoanId(u32);

/// What the engine knows of a loan.
#[derive(Debug)]
struct Own {
    /// Pieces that were lent since all were back, modulo 2^16.
    lent: u16,
    /// Whether a message has it, or pieces of one that ended are still out.
    in_use: bool,
    /// Pieces went to who reads them by the CPU.
    to_software: bool,
    /// When the last piece went to a device.
    to_device_at: Ns,
    key: Key,
    /// What keeps the memory; it stays from one loan of a region to the next.
    memory: Option<Arc<Buffer>>,
}

/// The loans of one engine.
#[derive(Debug, Default)]
pub struct Loans {
    counts: Box<[LoanCount]>,
    own: Vec<Own>,
    /// The one that rested longest is taken first: its count is in nobody's way.
    free: VecDeque<LoanId>,
    /// Of messages that ended before all was back.
    away: Vec<LoanId>,
}

/// A piece of registered memory, lent to a driver. It comes back when this is dropped, or when whoever the driver gave it to counts it back.
#[derive(Debug)]
pub struct Lent {
    ptr: NonNull<u8>,
    len: usize,
    count: NonNull<LoanCount>,
}

// SAFETY: the memory stays until the piece is counted back, is only read, and the count is atomic.
unsafe impl Send for Lent {}

impl Lent {
    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Never: nothing is not lent.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, as an extent.
    #[must_use]
    pub const fn extent(&self) -> super::Extent<'_> {
        // SAFETY: readable until the piece is back.
        unsafe { super::Extent::from_raw(self.ptr, self.len) }
    }

    /// Hands the piece to a driver's own kind of reference: where it lies, its length, and the count to take one from once nobody reads it any
    /// more.
    #[must_use]
    pub const fn into_raw(self) -> (NonNull<u8>, usize, NonNull<LoanCount>) {
        let parts = (self.ptr, self.len, self.count);
        core::mem::forget(self);
        parts
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: counts outlive all pieces of their loan: an engine that goes before leaves them.
        unsafe { self.count.as_ref() }.count.fetch_sub(1, Ordering::Release);
    }
}

impl Loans {
    /// Room for loans. An engine without lends nothing.
    #[must_use]
    pub fn new() -> Loans {
        let count = || LoanCount { driver: [const { AtomicUsize::new(0) }; 2], count: AtomicU16::new(ALL_BACK) };
        let own =
            || Own { lent: 0, in_use: false, to_software: false, to_device_at: Ns::ZERO, key: Key(0), memory: None };
        Loans {
            counts: (0..LOANS_MAX).map(|_| count()).collect(),
            own: (0..LOANS_MAX).map(|_| own()).collect(),
            free: (0..LOANS_MAX as u32).map(LoanId).collect(),
            away: Vec::with_capacity(LOANS_MAX),
        }
    }

    /// Is there room for loans at all?
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        !self.counts.is_empty()
    }

    /// A loan of the region `key`, whose memory is `memory`; `None` when all are in use.
    #[inline]
    pub fn take(&mut self, key: Key, memory: &Arc<Buffer>) -> Option<LoanId> {
        if self.free.is_empty() {
            self.sweep();
        }
        let id = self.free.pop_front()?;
        let own = &mut self.own[id.0 as usize];
        own.in_use = true;
        (own.to_software, own.to_device_at) = (false, Ns::ZERO);
        own.key = key;
        if own.memory.as_ref().is_none_or(|kept| !Arc::ptr_eq(kept, memory)) {
            own.memory = Some(Arc::clone(memory));
        }
        Some(id)
    }

    /// Lends a range of the region of a loan to who reads it by the CPU; `None` when too much of it is out.
    #[inline]
    pub fn lend(&mut self, id: LoanId, range: &Target<'_>) -> Option<Lent> {
        self.own[id.0 as usize].to_software = true;
        self.lend_piece(id, range)
    }

    /// As [`Loans::lend`], to a device that reads it by itself. It stays mapped for that until all is back.
    #[inline]
    pub fn lend_to_device(&mut self, id: LoanId, range: &Target<'_>, now: Ns) -> Option<Lent> {
        self.own[id.0 as usize].to_device_at = now;
        self.lend_piece(id, range)
    }

    #[inline]
    fn lend_piece(&mut self, id: LoanId, range: &Target<'_>) -> Option<Lent> {
        if range.is_empty() {
            return None;
        }
        let count = &self.counts[id.0 as usize];
        let own = &mut self.own[id.0 as usize];
        if own.lent >= PIECES_MAX {
            if ALL_BACK.wrapping_sub(count.count.load(Ordering::Acquire)) != own.lent {
                return None;
            }
            own.lent = 0;
            count.count.store(ALL_BACK, Ordering::Relaxed);
        }
        own.lent += 1;
        Some(Lent { ptr: range.ptr(), len: range.len(), count: NonNull::from(count) })
    }

    #[inline]
    fn is_back(&self, id: LoanId) -> bool {
        let at = id.0 as usize;
        ALL_BACK.wrapping_sub(self.counts[at].count.load(Ordering::Acquire)) == self.own[at].lent
    }

    /// Ends a loan whose pieces are all back; `false`, and it goes on, while one is out.
    #[inline]
    pub fn end(&mut self, id: LoanId) -> bool {
        if !self.is_back(id) {
            return false;
        }
        let own = &mut self.own[id.0 as usize];
        own.in_use = false;
        // Seldom: the count is in the cache of whoever frees frames.
        if own.lent >= PIECES_MAX / 2 {
            own.lent = 0;
            self.counts[id.0 as usize].count.store(ALL_BACK, Ordering::Relaxed);
        }
        self.free.push_back(id);
        true
    }

    /// As [`Loans::end`], for a message that is acknowledged: it waits no longer than [`DEVICE_KEEPS`] for what devices alone were lent, and then the
    /// loan ends when all is back.
    #[inline]
    pub fn end_by(&mut self, id: LoanId, now: Ns) -> bool {
        self.end(id) || self.give_up(id, now)
    }

    #[cold]
    fn give_up(&mut self, id: LoanId, now: Ns) -> bool {
        let own = &self.own[id.0 as usize];
        let gives_up = !own.to_software && now.since(own.to_device_at) >= DEVICE_KEEPS;
        if gives_up {
            self.away.push(id);
        }
        gives_up
    }

    /// The message is no more; its loan ends when all is back. True when that is now.
    pub fn abandon(&mut self, id: LoanId) -> bool {
        let ended = self.end(id);
        if !ended {
            self.away.push(id);
        }
        ended
    }

    #[cold]
    fn sweep(&mut self) {
        let mut away = core::mem::take(&mut self.away);
        away.retain(|&id| !self.end(id));
        self.away = away;
    }

    /// Is anything of the region out, or lent to a message that has not ended?
    pub fn uses(&mut self, key: Key) -> bool {
        self.sweep();
        let used = self.own.iter().zip(0..).any(|(own, at)| own.in_use && own.key == key && !self.is_back(LoanId(at)));
        if !used {
            for own in self.own.iter_mut().filter(|own| own.key == key && !own.in_use) {
                own.memory = None;
            }
        }
        used
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        self.sweep();
        let is_out = |at: &usize| self.own[*at].in_use && !self.is_back(LoanId(*at as u32));
        if (0..self.own.len()).any(|at| is_out(&at)) {
            // Frames are out somewhere: what they refer to stays, rather than be used after its end.
            core::mem::forget(core::mem::take(&mut self.counts));
            core::mem::forget(core::mem::take(&mut self.own));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Domain, Keys, Region, Table};
    use super::*;

    struct Bench {
        table: Table,
        loans: Loans,
        key: Key,
        memory: Arc<Buffer>,
    }

    impl Bench {
        fn new() -> Bench {
            let (mut table, key, memory) = (Table::default(), Keys::default().allocate().unwrap(), Buffer::new(100));
            let region = Region { domain: Domain(0), access: Access::default(), iova: 0, memory: Arc::clone(&memory) };
            table.insert(key, region);
            Bench { table, loans: Loans::new(), key, memory }
        }

        fn take(&mut self) -> Option<LoanId> {
            self.loans.take(self.key, &self.memory)
        }

        fn lend(&mut self, id: LoanId, at: u64, len: usize) -> Option<Lent> {
            self.loans.lend(id, &self.table.local(Domain(0), self.key, at, len).unwrap())
        }
    }

    #[test]
    fn a_loan_ends_when_its_last_piece_is_back() {
        let mut bench = Bench::new();
        let id = bench.take().unwrap();
        let pieces = [bench.lend(id, 0, 10).unwrap(), bench.lend(id, 90, 10).unwrap()];
        assert!(bench.lend(id, 5, 0).is_none(), "nothing is not lent");
        assert!(!bench.loans.end(id) && bench.loans.uses(bench.key));
        let [first, second] = pieces;
        drop(first);
        assert!(!bench.loans.end(id));
        drop(second);
        assert!(bench.loans.end(id) && !bench.loans.uses(bench.key));
    }

    #[test]
    fn what_is_abandoned_keeps_its_memory_until_it_is_back() {
        let mut bench = Bench::new();
        let id = bench.take().unwrap();
        let piece = bench.lend(id, 0, 10).unwrap();
        assert!(!bench.loans.abandon(id) && bench.loans.uses(bench.key));
        bench.table.remove(bench.key);
        assert_eq!(Arc::strong_count(&bench.memory), 2);
        drop(piece);
        assert!(!bench.loans.uses(bench.key));
        assert_eq!(Arc::strong_count(&bench.memory), 1);
    }

    #[test]
    fn what_a_device_keeps_is_waited_for_so_long_and_its_region_for_as_long_as_it_is_out() {
        let mut bench = Bench::new();
        let lend = |bench: &mut Bench, id, now| {
            let range = bench.table.local(Domain(0), bench.key, 0, 10).unwrap();
            bench.loans.lend_to_device(id, &range, Ns(now)).unwrap()
        };
        let id = bench.take().unwrap();
        let first = lend(&mut bench, id, 0);
        let second = lend(&mut bench, id, 50);
        drop(first);
        assert!(!bench.loans.end_by(id, Ns(49 + DEVICE_KEEPS)));
        assert!(bench.loans.end_by(id, Ns(50 + DEVICE_KEEPS)) && bench.loans.uses(bench.key));
        let both = bench.take().unwrap();
        let (third, fourth) = (lend(&mut bench, both, 0), bench.lend(both, 0, 10).unwrap());
        assert!(!bench.loans.end_by(both, Ns(10 * DEVICE_KEEPS)), "whoever reads by the CPU is waited for");
        drop((second, third, fourth));
        assert!(bench.loans.end_by(both, Ns(0)) && !bench.loans.uses(bench.key));
    }

    #[test]
    fn an_engine_that_goes_while_pieces_are_out_leaves_what_they_refer_to() {
        let mut bench = Bench::new();
        let id = bench.take().unwrap();
        bench.memory.write(3, &[7]).unwrap();
        let piece = bench.lend(id, 0, 10).unwrap();
        let memory = Arc::downgrade(&bench.memory);
        drop(bench);
        assert_eq!(memory.strong_count(), 1);
        let mut out = [0; 10];
        piece.extent().copy_to(&mut out);
        assert_eq!(out, [0, 0, 0, 7, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn more_pieces_than_the_count_tells_apart_are_not_out_at_once_and_all_loans_come_back() {
        let mut bench = Bench::new();
        let id = bench.take().unwrap();
        let mut out: Vec<Lent> = (0..PIECES_MAX).map(|_| bench.lend(id, 0, 1).unwrap()).collect();
        assert!(bench.lend(id, 0, 1).is_none());
        let last = out.pop();
        drop(out);
        assert!(bench.lend(id, 0, 1).is_none());
        drop(last);
        let again = bench.lend(id, 0, 1).unwrap();
        let others: Vec<LoanId> = core::iter::from_fn(|| bench.take()).collect();
        assert_eq!(others.len(), LOANS_MAX - 1);
        assert!(!bench.loans.abandon(id) && bench.take().is_none());
        drop(again);
        assert_eq!(bench.take(), Some(id));
    }

    #[test]
    fn the_count_lies_where_dpdk_has_its_own() {
        assert_eq!((core::mem::offset_of!(LoanCount, count), size_of::<LoanCount>()), (16, 24));
    }
}

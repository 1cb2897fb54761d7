//! Frames out.

use core::ptr::null_mut;
use std::sync::Arc;

use dpdk_sys as sys;

use super::BURST;
use super::pool::{MBUF, Pool, frame_of};
use super::port::{Inner, Pools, SMALL_FRAME};
use crate::memory::{Lent, prefetch_bytes};
use crate::nic::{Pieces, PortId, TxBurst};

/// Bytes of a frame that are asked for beforehand: those of a small Write.
const EXPECTED: usize = 192;

/// Reserved mbufs of one size, and a burst more on its way into the cache.
#[derive(Debug)]
struct Stock {
    ready: [*mut sys::rte_mbuf; BURST],
    /// Those before it were used: `BURST` when there are no more.
    at: usize,
    ahead: [*mut sys::rte_mbuf; BURST],
    has_ahead: bool,
    /// They are to refer to memory of others.
    refers: bool,
}

impl Stock {
    const fn new(refers: bool) -> Stock {
        Stock { ready: [null_mut(); BURST], at: BURST, ahead: [null_mut(); BURST], has_ahead: false, refers }
    }

    fn reserve(&mut self, pool: &Pool) -> bool {
        if !self.has_ahead {
            // SAFETY: the pool is live, the array holds a burst.
            self.has_ahead = unsafe { sys::mrc_tx_reserve(pool.as_ptr(), self.ahead.as_mut_ptr(), BURST as u16) } == 0;
        }
        self.has_ahead
    }

    /// Makes sure of at least one mbuf; false when the pool has none.
    #[inline(always)]
    fn fill(&mut self, pool: &Pool) -> bool {
        self.at < BURST || self.refill(pool)
    }

    #[inline(never)]
    fn refill(&mut self, pool: &Pool) -> bool {
        if !self.reserve(pool) {
            return false;
        }
        self.ready = self.ahead;
        self.has_ahead = false;
        self.at = 0;
        self.reserve(pool);
        true
    }

    /// Where the frame of the mbuf for the next slot begins.
    #[inline(always)]
    fn frame(&self) -> Option<*mut u8> {
        self.ready.get(self.at).map(|&mbuf| frame_of(mbuf))
    }

    /// The mbuf for the next slot. Where it stands in the burst, one of the burst ahead is asked for: another core had it last,
    /// and all at once would be more than a core waits for at a time.
    #[inline]
    fn take(&mut self) -> *mut sys::rte_mbuf {
        let taken = self.ready[self.at];
        if self.has_ahead {
            let mbuf = self.ahead[self.at];
            if self.refers {
                prefetch_bytes(mbuf.cast(), MBUF);
            } else {
                prefetch_bytes(mbuf.cast(), MBUF / 2);
                prefetch_bytes(frame_of(mbuf), EXPECTED);
            }
        }
        self.at += 1;
        taken
    }

    fn empty(&mut self, pool: &Pool) {
        let n = (BURST - self.at) as u16;
        // SAFETY: those from `at` on were reserved and not used, and so were those ahead.
        unsafe {
            sys::mrc_tx_unreserve(pool.as_ptr(), self.ready.as_mut_ptr().add(self.at), n);
            if self.has_ahead {
                sys::mrc_tx_unreserve(pool.as_ptr(), self.ahead.as_mut_ptr(), BURST as u16);
            }
        }
        (self.at, self.has_ahead) = (BURST, false);
    }
}

/// The slot that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    None,
    Small,
    Large,
    /// Around a piece of registered memory.
    Around,
}

/// What a frame that is in order already has for its length.
const MEASURED: u16 = 0;

/// What a queue could not do.
#[derive(Debug, Default)]
struct Refusals {
    /// Slots refused because the pool was empty.
    empty_pool: u64,
    /// Flushes of which the port took nothing.
    stalls: u64,
    /// Slots refused because the port can't carry such a frame.
    too_long: u64,
    /// One of these has grown since the queue was asked.
    are_news: bool,
}

impl Refusals {
    #[cold]
    fn count(&mut self, counter: fn(&mut Refusals) -> &mut u64) {
        *counter(self) += 1;
        self.are_news = true;
    }
}

/// The transmitting side of a queue: up to [`BURST`] frames wait for the port.
#[derive(Debug)]
pub struct TxQueue {
    pending: [*mut sys::rte_mbuf; BURST],
    lens: [u16; BURST],
    len: usize,
    lent: Slot,
    lent_len: u16,
    /// Of a slot around a piece: the piece, and what follows it.
    piece: Option<Lent>,
    tail_len: u16,
    /// The port took nothing of the last flush.
    is_stalled: bool,
    small: Stock,
    large: Stock,
    /// For references to registered memory, and for what follows those.
    pieces: Stock,
    tails: Stock,
    refusals: Refusals,
    /// The port's, at hand.
    takes: Pieces,
    queue: u16,
    port: Arc<Inner>,
}

// SAFETY: the mbufs held belong to the queue alone, and pools may be used from any thread.
unsafe impl Send for TxQueue {}

impl TxQueue {
    pub(super) fn new(port: Arc<Inner>, queue: u16) -> TxQueue {
        TxQueue {
            pending: [null_mut(); BURST],
            lens: [0; BURST],
            len: 0,
            lent: Slot::None,
            lent_len: 0,
            piece: None,
            tail_len: 0,
            is_stalled: false,
            small: Stock::new(false),
            large: Stock::new(false),
            pieces: Stock::new(true),
            tails: Stock::new(false),
            refusals: Refusals::default(),
            takes: port.lending.pieces(),
            queue,
            port,
        }
    }

    /// True when it is a queue of this port.
    pub(super) fn is_of(&self, port: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.port, port)
    }

    /// DPDK's numbers of port and queue, for frames that come from elsewhere. Nothing was lent then.
    pub(super) fn address(&self) -> (u16, u16) {
        (self.port.id, self.queue)
    }

    pub(super) fn pools(&self) -> &Pools {
        &self.port.pools
    }

    /// Lends room for a frame of `len` bytes; `None` while a whole burst waits for the port, when the pool is empty, and
    /// for a frame that the port can't carry.
    #[inline(always)]
    pub fn slot(&mut self, len: usize) -> Option<&mut [u8]> {
        self.lent = Slot::None;
        if self.len == BURST {
            return None;
        }
        if len > self.port.max_frame {
            self.refusals.count(|refusals| &mut refusals.too_long);
            return None;
        }
        let (stock, pool, lent) = if len <= SMALL_FRAME {
            (&mut self.small, &self.port.pools.small, Slot::Small)
        } else {
            (&mut self.large, &self.port.pools.large, Slot::Large)
        };
        if !stock.fill(pool) {
            self.refusals.count(|refusals| &mut refusals.empty_pool);
            return None;
        }
        self.lent = lent;
        self.lent_len = len as u16;
        // SAFETY: the mbuf is ours, empty, in one segment, and of a pool with room for `len` bytes (pools are sized by
        // SMALL_FRAME and by max_frame). Its bytes were written before, or are memory that DPDK mapped as zeros.
        Some(unsafe { core::slice::from_raw_parts_mut(stock.frame()?, len) })
    }

    /// The slot lent last is complete: it waits for the next flush.
    #[inline]
    pub fn commit(&mut self) {
        let stock = match self.lent {
            Slot::None => return,
            Slot::Small => &mut self.small,
            Slot::Large => &mut self.large,
            Slot::Around => return self.commit_around(),
        };
        self.lent = Slot::None;
        if let (Some(mbuf), Some(len)) = (self.pending.get_mut(self.len), self.lens.get_mut(self.len)) {
            (*mbuf, *len) = (stock.take(), self.lent_len);
            self.len += 1;
        }
    }

    /// Which pieces of registered memory may frames have?
    #[inline]
    #[must_use]
    pub fn takes_pieces(&self) -> Pieces {
        self.takes
    }

    /// Lends room before and behind a piece of registered memory; `None`, and the piece is back, as for [`TxQueue::slot`].
    #[inline]
    pub fn slot_around(&mut self, head: usize, piece: Lent, tail: usize) -> Option<(&mut [u8], &mut [u8])> {
        self.lent = Slot::None;
        if self.len == BURST {
            return None;
        }
        let port = &self.port;
        let pool = port.pools.pieces.as_ref().filter(|_| self.takes != Pieces::None)?;
        if head + piece.len() + tail > port.max_frame || head.max(tail) > SMALL_FRAME {
            self.refusals.count(|refusals| &mut refusals.too_long);
            return None;
        }
        let small = &port.pools.small;
        if !(self.small.fill(small) && self.tails.fill(small) && self.pieces.fill(pool)) {
            self.refusals.count(|refusals| &mut refusals.empty_pool);
            return None;
        }
        self.lent = Slot::Around;
        (self.lent_len, self.tail_len) = (head as u16, tail as u16);
        self.piece = Some(piece);
        let (before, behind) = (self.small.frame()?, self.tails.frame()?);
        // SAFETY: both mbufs are ours, empty, in one segment, and of a pool with room for as many bytes. They are two, so the slices do not overlap.
        Some(unsafe { (core::slice::from_raw_parts_mut(before, head), core::slice::from_raw_parts_mut(behind, tail)) })
    }

    fn commit_around(&mut self) {
        self.lent = Slot::None;
        let (Some(piece), Some(place), Some(measured)) =
            (self.piece.take(), self.pending.get_mut(self.len), self.lens.get_mut(self.len))
        else {
            return;
        };
        let (data, len, count) = piece.into_raw();
        let (head, middle, tail) = (self.small.take(), self.pieces.take(), self.tails.take());
        // SAFETY: the mbufs were reserved, are ours, and are three. The memory stays until its count says that the frame is freed, which
        // freeing the mbuf that refers to it does; the count lies as DPDK has it.
        unsafe {
            let (data, count) = (data.as_ptr().cast(), count.as_ptr().cast());
            sys::mrc_tx_around(head, self.lent_len, middle, data, len as u16, count, tail, self.tail_len);
        }
        (*place, *measured) = (head, MEASURED);
        self.len += 1;
    }

    /// Frames that wait for the port get copies of their pieces, and a card gives back what it has sent. Of one that takes frames those that wait
    /// go soon, and are left as they are: all that it sends is waited for, for a while.
    pub fn copy_pieces(&mut self) {
        self.piece = None;
        self.lent = Slot::None;
        if self.takes == Pieces::Mapped {
            // SAFETY: the port runs, the queue is set up, and this is its one user.
            unsafe { sys::rte_eth_tx_done_cleanup(self.port.id, self.queue, 0) };
            if !self.is_stalled {
                return;
            }
        }
        let pool = self.port.pools.large.as_ptr();
        for (mbuf, &len) in self.pending.iter_mut().zip(&self.lens).take(self.len) {
            if len != MEASURED {
                continue;
            }
            // SAFETY: what waits is ours; the copy has its own bytes, in segments of the pool.
            unsafe {
                let copy = sys::rte_pktmbuf_copy(*mbuf, pool, 0, u32::MAX);
                if !copy.is_null() {
                    sys::rte_pktmbuf_free_bulk(mbuf, 1);
                    *mbuf = copy;
                }
            }
        }
    }

    /// Offers what waits to the port, and returns how many frames it took. The others stay, in order.
    #[inline]
    pub fn flush(&mut self) -> usize {
        if self.len == 0 {
            return 0;
        }
        self.lent = Slot::None;
        let _within = match &self.port.gate {
            None => None,
            Some(gate) => match gate.enter(self.queue, true) {
                None => {
                    self.refusals.count(|refusals| &mut refusals.stalls);
                    return 0;
                }
                within => within,
            },
        };
        // SAFETY: the first `len` places hold mbufs of one segment that are ours; the port runs and this is its one user
        // of the queue. Those it takes are not looked at again.
        let taken = usize::from(unsafe {
            sys::mrc_tx_burst(self.port.id, self.queue, self.pending.as_mut_ptr(), self.lens.as_ptr(), self.len as u16)
        });
        self.is_stalled = taken == 0;
        if taken < self.len {
            self.pending.copy_within(taken..self.len, 0);
            self.lens.copy_within(taken..self.len, 0);
            if taken == 0 {
                self.refusals.count(|refusals| &mut refusals.stalls);
            }
        }
        self.len -= taken;
        taken
    }

    /// Has a port refused anything since this was asked last?
    #[inline]
    pub(super) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.refusals.are_news)
    }

    /// Frames that wait for the port.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.len
    }

    /// Slots refused because the pool was empty.
    #[must_use]
    pub fn alloc_failures(&self) -> u64 {
        self.refusals.empty_pool
    }

    /// Flushes of which the port took nothing.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.refusals.stalls
    }

    /// Slots refused because the port can't carry a frame of that length.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.refusals.too_long
    }

    /// The largest frame that a slot may be asked for.
    #[must_use]
    pub fn max_frame(&self) -> usize {
        self.port.max_frame
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: what waits was not accepted by the port, so it is ours.
            unsafe { sys::rte_pktmbuf_free_bulk(self.pending.as_mut_ptr(), self.len as u32) };
        }
        self.small.empty(&self.port.pools.small);
        self.tails.empty(&self.port.pools.small);
        self.large.empty(&self.port.pools.large);
        if let Some(pool) = &self.port.pools.pieces {
            self.pieces.empty(pool);
        }
    }
}

/// The transmitting sides of one NIC's ports, for one worker.
#[derive(Debug)]
pub struct TxPorts {
    queues: Vec<TxQueue>,
    lent: usize,
}

impl TxPorts {
    /// `queues[i]` belongs to port i of the NIC.
    #[must_use]
    pub fn new(queues: Vec<TxQueue>) -> TxPorts {
        TxPorts { queues, lent: usize::MAX }
    }

    /// The queues, by port.
    #[must_use]
    pub fn queues(&self) -> &[TxQueue] {
        &self.queues
    }

    /// Has a port refused anything since this was asked last?
    #[inline]
    pub(super) fn take_news(&mut self) -> bool {
        self.queues.iter_mut().fold(false, |news, queue| news | queue.take_news())
    }

    /// Offers what waits to each port, and tells how many frames each took, where it is more than none.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(PortId, usize)) {
        for (i, queue) in self.queues.iter_mut().enumerate() {
            let taken = queue.flush();
            if taken > 0 {
                sent(PortId(i as u8), taken);
            }
        }
    }
}

impl TxBurst for TxPorts {
    // Always: each packet has one.
    #[inline(always)]
    fn slot(&mut self, port: PortId, len: usize) -> Option<&mut [u8]> {
        self.lent = usize::from(port.0);
        self.queues.get_mut(self.lent)?.slot(len)
    }

    #[inline]
    fn takes_pieces(&self, port: PortId) -> Pieces {
        self.queues.get(usize::from(port.0)).map_or(Pieces::None, TxQueue::takes_pieces)
    }

    #[inline]
    fn slot_around(&mut self, port: PortId, head: usize, piece: Lent, tail: usize) -> Option<(&mut [u8], &mut [u8])> {
        self.lent = usize::from(port.0);
        self.queues.get_mut(self.lent)?.slot_around(head, piece, tail)
    }

    fn copy_pieces(&mut self) {
        self.queues.iter_mut().for_each(TxQueue::copy_pieces);
    }

    #[inline]
    fn commit(&mut self) {
        if let Some(queue) = self.queues.get_mut(self.lent) {
            queue.commit();
        }
    }
}

//! Frames out.

use core::ptr::null_mut;
use std::sync::Arc;

use dpdk_sys as sys;

use super::BURST;
use super::pool::Pool;
use super::port::{Inner, Pools, SMALL_FRAME};
use crate::nic::{PortId, TxBurst};

/// Mbufs of one size, ready to be lent, and a burst more on its way into the cache.
#[derive(Debug)]
struct Stock {
    ready: [*mut sys::rte_mbuf; BURST],
    data: [*mut core::ffi::c_void; BURST],
    /// Those before it were used.
    at: usize,
    /// `BURST` once there is one, 0 before.
    len: usize,
    ahead: [*mut sys::rte_mbuf; BURST],
    has_ahead: bool,
}

impl Stock {
    const fn new() -> Stock {
        Stock {
            ready: [null_mut(); BURST],
            data: [null_mut(); BURST],
            at: 0,
            len: 0,
            ahead: [null_mut(); BURST],
            has_ahead: false,
        }
    }

    fn reserve(&mut self, pool: &Pool) -> bool {
        if !self.has_ahead {
            // SAFETY: the pool is live, the array holds a burst.
            self.has_ahead = unsafe { sys::mrc_tx_reserve(pool.as_ptr(), self.ahead.as_mut_ptr(), BURST as u16) } == 0;
        }
        self.has_ahead
    }

    /// Makes at least one mbuf ready; false when the pool has none.
    #[inline]
    fn fill(&mut self, pool: &Pool) -> bool {
        if self.at < self.len {
            return true;
        }
        if !self.reserve(pool) {
            return false;
        }
        self.ready = self.ahead;
        self.has_ahead = false;
        // SAFETY: the burst was reserved, and belongs to this alone.
        unsafe { sys::mrc_tx_prepare(self.ready.as_mut_ptr(), self.data.as_mut_ptr(), BURST as u16) };
        (self.at, self.len) = (0, BURST);
        self.reserve(pool);
        true
    }

    fn empty(&mut self, pool: &Pool) {
        let n = (self.len - self.at) as u32;
        // SAFETY: those from `at` on were prepared and not used; those ahead were reserved and not prepared.
        unsafe {
            if n > 0 {
                sys::rte_pktmbuf_free_bulk(self.ready.as_mut_ptr().add(self.at), n);
            }
            if self.has_ahead {
                sys::mrc_tx_unreserve(pool.as_ptr(), self.ahead.as_mut_ptr(), BURST as u16);
            }
        }
        (self.at, self.len, self.has_ahead) = (0, 0, false);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    None,
    Small,
    Large,
}

/// The transmitting side of a queue: up to [`BURST`] frames wait for the port.
#[derive(Debug)]
pub struct TxQueue {
    pending: [*mut sys::rte_mbuf; BURST],
    lens: [u16; BURST],
    len: usize,
    lent: Lent,
    lent_len: u16,
    small: Stock,
    large: Stock,
    /// Slots refused because the pool was empty.
    alloc_failures: u64,
    /// Flushes of which the port took nothing.
    stalls: u64,
    /// Slots refused because the port can't carry such a frame.
    too_long: u64,
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
            lent: Lent::None,
            lent_len: 0,
            small: Stock::new(),
            large: Stock::new(),
            alloc_failures: 0,
            stalls: 0,
            too_long: 0,
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
    #[inline]
    pub fn slot(&mut self, len: usize) -> Option<&mut [u8]> {
        self.lent = Lent::None;
        if self.len == BURST {
            return None;
        }
        if len > self.port.max_frame {
            self.too_long += 1;
            return None;
        }
        let (stock, pool, lent) = if len <= SMALL_FRAME {
            (&mut self.small, &self.port.pools.small, Lent::Small)
        } else {
            (&mut self.large, &self.port.pools.large, Lent::Large)
        };
        if !stock.fill(pool) {
            self.alloc_failures += 1;
            return None;
        }
        self.lent = lent;
        self.lent_len = len as u16;
        // SAFETY: the mbuf is ours, empty, in one segment, and of a pool with room for `len` bytes (pools are sized by
        // SMALL_FRAME and by max_frame). Its bytes were written before, or are memory that DPDK mapped as zeros.
        Some(unsafe { core::slice::from_raw_parts_mut(stock.data.get(stock.at)?.cast::<u8>(), len) })
    }

    /// The slot lent last is complete: it waits for the next flush.
    #[inline]
    pub fn commit(&mut self) {
        let stock = match self.lent {
            Lent::None => return,
            Lent::Small => &mut self.small,
            Lent::Large => &mut self.large,
        };
        self.lent = Lent::None;
        if let (Some(mbuf), Some(len), Some(ready)) =
            (self.pending.get_mut(self.len), self.lens.get_mut(self.len), stock.ready.get(stock.at))
        {
            (*mbuf, *len) = (*ready, self.lent_len);
            stock.at += 1;
            self.len += 1;
        }
    }

    /// Offers what waits to the port, and returns how many frames it took. The others stay, in order.
    #[inline]
    pub fn flush(&mut self) -> usize {
        if self.len == 0 {
            return 0;
        }
        self.lent = Lent::None;
        let _within = match &self.port.gate {
            None => None,
            Some(gate) => match gate.enter(self.queue, true) {
                None => {
                    self.stalls += 1;
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
        if taken < self.len {
            self.pending.copy_within(taken..self.len, 0);
            self.lens.copy_within(taken..self.len, 0);
            self.stalls += u64::from(taken == 0);
        }
        self.len -= taken;
        taken
    }

    /// Frames that wait for the port.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.len
    }

    /// Slots refused because the pool was empty.
    #[must_use]
    pub fn alloc_failures(&self) -> u64 {
        self.alloc_failures
    }

    /// Flushes of which the port took nothing.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Slots refused because the port can't carry a frame of that length.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.too_long
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
        self.large.empty(&self.port.pools.large);
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
    #[inline]
    fn slot(&mut self, port: PortId, len: usize) -> Option<&mut [u8]> {
        self.lent = usize::from(port.0);
        self.queues.get_mut(self.lent)?.slot(len)
    }

    #[inline]
    fn commit(&mut self) {
        if let Some(queue) = self.queues.get_mut(self.lent) {
            queue.commit();
        }
    }
}

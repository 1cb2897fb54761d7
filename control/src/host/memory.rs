//! Protection domains and memory regions.

use super::completion_queue::CompletionQueue;
use super::device::Inner;
use super::error::HostError;
use super::qp::QueuePair;
use dataplane::dpdk::DmaMap;
use dataplane::memory::{Access, Buffer, Domain, Key, Region};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long a region that is dropped waits for frames that refer to it, and how often it looks.
const LENT_MAX: Duration = Duration::from_secs(2);
const LENT_LOOK: Duration = Duration::from_micros(50);

/// A protection domain: its QPs reach its regions, and no others. Clones are the same domain.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    device: Arc<Inner>,
    domain: Domain,
}

/// A registered region. When it is dropped it is deregistered: every worker has forgotten its key when the drop returns, and no frame refers to its
/// memory any more.
#[derive(Debug)]
pub struct MemoryRegion {
    device: Arc<Inner>,
    key: Key,
    address: u64,
    /// For ports whose devices read by themselves. It goes when no frame refers to the memory any more.
    dma: Option<DmaMap>,
    buffer: Arc<Buffer>,
}

impl ProtectionDomain {
    pub(super) const fn new(device: Arc<Inner>, domain: Domain) -> ProtectionDomain {
        ProtectionDomain { device, domain }
    }

    /// Registers a buffer with all workers. Requests name its first byte by `address`; without one by its address in this process. For ports whose
    /// devices read by themselves it is mapped too; where that fails, its payload is copied, and the log says why.
    ///
    /// # Errors
    /// [`HostError::TooManyRegions`], [`HostError::Gone`].
    pub fn register(
        &self,
        buffer: &Arc<Buffer>,
        access: Access,
        address: Option<u64>,
    ) -> Result<MemoryRegion, HostError> {
        self.register_as(buffer, access, address, true)
    }

    /// As [`ProtectionDomain::register`], for a buffer of short messages, which are always copied: it takes none of the few places for memory that
    /// is mapped for devices.
    ///
    /// # Errors
    /// As [`ProtectionDomain::register`].
    pub fn register_short(
        &self,
        buffer: &Arc<Buffer>,
        access: Access,
        address: Option<u64>,
    ) -> Result<MemoryRegion, HostError> {
        self.register_as(buffer, access, address, false)
    }

    fn register_as(
        &self,
        buffer: &Arc<Buffer>,
        access: Access,
        address: Option<u64>,
        maps: bool,
    ) -> Result<MemoryRegion, HostError> {
        let mut keys = self.device.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let key = keys.allocate().ok_or(HostError::TooManyRegions)?;
        drop(keys);
        let address = address.unwrap_or_else(|| buffer.address());
        // From here on it is deregistered where it was registered, whatever happens.
        let dma = maps.then(|| self.device.dma.map(buffer));
        let mapped = dma.as_ref().and_then(DmaMap::mapped);
        let region = MemoryRegion { device: Arc::clone(&self.device), key, address, dma, buffer: Arc::clone(buffer) };
        for worker in &self.device.workers {
            let (domain, memory) = (self.domain, Arc::clone(buffer));
            worker.call(move |_, nic, _| {
                nic.register(key, Region { domain, access, iova: address, memory });
                nic.set_mapped(key, mapped);
            })?;
        }
        Ok(region)
    }

    /// Creates a QP in RESET, whose requests complete in `send` and whose receives in `receive`, which may be one queue.
    ///
    /// # Errors
    /// [`HostError::TooManyQps`], [`HostError::OtherDevice`].
    pub fn create_qp(&self, send: &CompletionQueue, receive: &CompletionQueue) -> Result<QueuePair, HostError> {
        QueuePair::new(&self.device, self.domain, send, receive)
    }
}

impl MemoryRegion {
    /// Its key, for requests of this NIC and of its peers.
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }

    /// The address by which requests name its first byte.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// True for a region of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The memory.
    #[must_use]
    pub const fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }
}

impl MemoryRegion {
    /// Waits until no frame refers to the region; `false` when some do after [`LENT_MAX`], as where a port neither sends its frames nor gives them back.
    fn is_back(&self) -> bool {
        let key = self.key;
        let lends =
            || self.device.workers.iter().any(|worker| worker.call(move |_, nic, _| nic.lends(key)) == Ok(true));
        let began = Instant::now();
        while lends() {
            if began.elapsed() > LENT_MAX {
                tracing::warn!(
                    key = key.0,
                    "frames that a port holds refer to a region that is gone: its key is not used again"
                );
                return false;
            }
            std::thread::sleep(LENT_LOOK);
        }
        true
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        let key = self.key;
        let forgotten =
            self.device.workers.iter().all(|worker| worker.call(move |_, nic, _| nic.deregister(key)).is_ok());
        if forgotten && self.is_back() {
            self.device.keys.lock().unwrap_or_else(PoisonError::into_inner).release(key);
        } else if let Some(dma) = self.dma.take() {
            dma.abandon();
        }
    }
}

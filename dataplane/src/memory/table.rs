//! Registered regions and their keys.

use super::{Buffer, Extent, RxFrame, prefetch_bytes};
use crate::wire::Icrc;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most regions that one NIC registers at a time.
pub const REGIONS_MAX: usize = 1 << 16;

/// A protection domain. QPs and regions of different domains do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Domain(pub u32);

/// What may be done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// A remote may write it.
    pub remote_write: bool,
}

/// The key of a region, l_key and r_key in one: 24 bits of index, 8 of generation. A key dies with its registration; the next region
/// at its index has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub u32);

impl Key {
    const fn new(index: usize, generation: u8) -> Key {
        Key((index as u32) << 8 | generation as u32)
    }

    const fn index(self) -> usize {
        (self.0 >> 8) as usize
    }

    const fn generation(self) -> u8 {
        self.0 as u8
    }
}

/// Gives out keys. One for each NIC: its workers hold the same regions under the same keys.
#[derive(Debug, Default)]
pub struct Keys {
    generations: Vec<u8>,
    /// Indices that rest, the longest first.
    free: VecDeque<u32>,
}

/// So many indices rest before one is used again: a key comes back after 256 times as many registrations.
const KEYS_AT_REST: usize = 256;

impl Keys {
    /// A new key, or `None` when [`REGIONS_MAX`] are in use.
    pub fn allocate(&mut self) -> Option<Key> {
        let fresh = self.free.len() < KEYS_AT_REST && self.generations.len() < REGIONS_MAX;
        if !fresh && let Some(index) = self.free.pop_front() {
            let generation = self.generations[index as usize].wrapping_add(1);
            self.generations[index as usize] = generation;
            return Some(Key::new(index as usize, generation));
        }
        let index = self.generations.len();
        (index < REGIONS_MAX).then(|| {
            self.generations.push(1);
            Key::new(index, 1)
        })
    }

    /// Takes a key back once no worker knows it any more.
    pub fn release(&mut self, key: Key) {
        if self.generations.get(key.index()) == Some(&key.generation()) {
            self.free.push_back(key.index() as u32);
        }
    }
}

/// A registered region.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its protection domain.
    pub domain: Domain,
    /// What remotes may do.
    pub access: Access,
    /// The address by which local and remote requests name its first byte.
    pub iova: u64,
    /// The memory, all of it.
    pub memory: Arc<Buffer>,
}

/// What devices may read of a region by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The ports whose devices may: bit i is port i of the NIC.
    pub ports: u8,
    /// Address in this process of the first byte.
    pub start: usize,
    /// How many bytes.
    pub len: usize,
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No live region has the key.
    #[error("no region is registered under this key")]
    UnknownKey,
    /// The region belongs to another protection domain.
    #[error("the region belongs to another protection domain")]
    WrongDomain,
    /// The region's access flags do not allow it.
    #[error("the region does not allow remote writes")]
    NotAllowed,
    /// The range leaves the region.
    #[error("the range leaves the region")]
    OutOfRange,
}

/// Bytes of a range that are asked for before they are written, at most: caches find what follows by themselves, and more would keep what is read of
/// the frame waiting.
const EXPECTED: usize = 1_024;

/// A checked range of a region. It borrows the table, so the region outlives it.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    ptr: NonNull<u8>,
    len: usize,
    life: PhantomData<&'a Buffer>,
}

impl Target<'_> {
    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when there is no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The range as an extent.
    #[must_use]
    pub const fn extent(&self) -> Extent<'_> {
        // SAFETY: readable for as long as the table is borrowed.
        unsafe { Extent::from_raw(self.ptr, self.len) }
    }

    /// The range without its first `count` bytes; empty where it has no more.
    #[must_use]
    pub fn skip(&self, count: usize) -> Self {
        let count = count.min(self.len);
        // SAFETY: `count` is at most the length of the range.
        Target { ptr: unsafe { self.ptr.add(count) }, len: self.len - count, life: PhantomData }
    }

    /// Copies the frame's bytes from `at` on into the range, as many as it holds. The caller has verified the
    /// frame's iCRC.
    #[inline]
    pub fn place<F: RxFrame>(&self, frame: &F, at: usize) {
        let mut placed = 0;
        frame.body(at, self.len, |extent| {
            let count = extent.len().min(self.len - placed);
            // SAFETY: the extent has so many readable bytes, and so much of the checked range is left. `copy` since over a
            // ring between two NICs of one process source and target may be the same memory.
            unsafe { core::ptr::copy(extent.as_ptr(), self.ptr.as_ptr().add(placed), count) };
            placed += count;
        });
    }

    /// Copies the range into `out`, as far as both go.
    #[inline]
    pub fn copy_out(&self, out: &mut [u8]) {
        let count = self.len.min(out.len());
        // SAFETY: the range has so many readable bytes; `out` is exclusively borrowed and cannot be registered memory.
        unsafe { core::ptr::copy_nonoverlapping(self.ptr.as_ptr(), out.as_mut_ptr(), count) };
    }
}

/// A region that may be read locally. It borrows the table.
#[derive(Clone, Copy)]
pub struct Readable<'a>(&'a Region);

impl<'a> Readable<'a> {
    /// The range of `len` bytes at `va`.
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`].
    #[inline]
    pub fn range(&self, va: u64, len: usize) -> Result<Target<'a>, AccessError> {
        range(self.0, va, len)
    }
}

/// The regions that a worker knows. Each worker has a table of its own, so that no lock is on the path of a packet.
#[derive(Debug, Default)]
pub struct Table {
    slots: Vec<Option<(u8, Region)>>,
    /// By index, as far as there are such: apart, since most NICs have none.
    mapped: Vec<Option<Mapped>>,
}

impl Table {
    /// Makes a region reachable under its key.
    pub fn insert(&mut self, key: Key, region: Region) {
        if self.slots.len() <= key.index() {
            self.slots.resize_with(key.index() + 1, || None);
        }
        self.slots[key.index()] = Some((key.generation(), region));
        self.set_mapped(key, None);
    }

    /// What devices may read of a region by themselves from now on; nothing of one that was just inserted. A key that is not known is passed over.
    pub fn set_mapped(&mut self, key: Key, mapped: Option<Mapped>) {
        if mapped.is_some() && self.live(key).is_none() {
            return;
        }
        if mapped.is_some() && self.mapped.len() <= key.index() {
            self.mapped.resize(key.index() + 1, None);
        }
        if let Some(place) = self.mapped.get_mut(key.index()) {
            *place = mapped;
        }
    }

    /// Whether the device of port `port` may read a range of a region by itself. `range` is one of the region `key`.
    #[inline]
    #[must_use]
    pub fn is_mapped(&self, key: Key, port: u8, range: &Target<'_>) -> bool {
        let Some(Some(mapped)) = self.mapped.get(key.index()) else { return false };
        let at = range.ptr.as_ptr().addr().wrapping_sub(mapped.start);
        mapped.ports.checked_shr(u32::from(port)).is_some_and(|ports| ports & 1 == 1)
            && at.checked_add(range.len).is_some_and(|end| end <= mapped.len)
    }

    /// Forgets a key: from now on nothing is read or written through it. `false` when it was not known.
    pub fn remove(&mut self, key: Key) -> bool {
        let is_known = self.live(key).is_some();
        if is_known {
            self.slots[key.index()] = None;
            self.set_mapped(key, None);
        }
        is_known
    }

    #[inline]
    fn region(&self, domain: Domain, key: Key) -> Result<&Region, AccessError> {
        let region = self.live(key).ok_or(AccessError::UnknownKey)?;
        if region.domain == domain { Ok(region) } else { Err(AccessError::WrongDomain) }
    }

    /// The region that has the key now, whatever its domain.
    #[inline]
    fn live(&self, key: Key) -> Option<&Region> {
        let (generation, region) = self.slots.get(key.index())?.as_ref()?;
        (*generation == key.generation()).then_some(region)
    }

    /// The range of `len` bytes at `va`, for a local read.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn local(&self, domain: Domain, key: Key, va: u64, len: usize) -> Result<Target<'_>, AccessError> {
        self.readable(domain, key)?.range(va, len)
    }

    /// What is local to a domain under a key, for several reads.
    ///
    /// # Errors
    /// [`AccessError`], but for a range.
    #[inline]
    pub fn readable(&self, domain: Domain, key: Key) -> Result<Readable<'_>, AccessError> {
        self.region(domain, key).map(Readable)
    }

    /// Asks the caches for what a remote is about to write, if there is such a range: while its frame is checked the lines may come. It may be
    /// called before all checks, since it neither reads nor writes.
    #[inline]
    pub fn expect_write(&self, key: Key, va: u64, len: usize) {
        if let Some(region) = self.live(key)
            && let Ok(target) = range(region, va, len)
        {
            prefetch_bytes(target.ptr.as_ptr(), len.min(EXPECTED));
        }
    }

    /// The memory of a region.
    #[must_use]
    pub fn memory(&self, domain: Domain, key: Key) -> Option<&Arc<Buffer>> {
        self.region(domain, key).ok().map(|region| &region.memory)
    }

    /// The range of `len` bytes at `va`, for a write by a remote.
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn remote_write(&self, domain: Domain, key: Key, va: u64, len: usize) -> Result<Target<'_>, AccessError> {
        let region = self.region(domain, key)?;
        if !region.access.remote_write {
            return Err(AccessError::NotAllowed);
        }
        range(region, va, len)
    }
}

#[inline]
fn range(region: &Region, va: u64, len: usize) -> Result<Target<'_>, AccessError> {
    let at = va.checked_sub(region.iova).and_then(|at| usize::try_from(at).ok()).ok_or(AccessError::OutOfRange)?;
    let ptr = region.memory.at(at, len).map_err(|_| AccessError::OutOfRange)?;
    Ok(Target { ptr, len, life: PhantomData })
}

/// Where a replayed capture's payload goes: any address, modulo the buffer's size.
#[derive(Clone, Debug)]
pub struct Scratch(pub Arc<Buffer>);

impl Scratch {
    /// Copies `len` bytes of the frame at `at` to `va` modulo the size, wrapping at the end.
    pub fn place<F: RxFrame>(&self, va: u64, frame: &F, at: usize, len: usize) {
        let size = self.0.len();
        if size == 0 {
            return;
        }
        let mut done = 0;
        while done < len {
            let to = (va.wrapping_add(done as u64) % size as u64) as usize;
            let run = (len - done).min(size - to);
            if let Ok(ptr) = self.0.at(to, run) {
                Target { ptr, len: run, life: PhantomData }.place(frame, at + done);
            }
            done += run;
        }
    }
}

/// Carries `icrc` on over `len` bytes of the frame at `at`.
#[inline]
pub fn checksum<F: RxFrame>(frame: &F, at: usize, len: usize, icrc: &mut Icrc) {
    frame.body(at, len, |extent| icrc.update(as_slice(&extent)));
}

/// Carries `icrc` on over an extent.
#[inline]
pub fn checksum_extent(extent: &Extent<'_>, icrc: &mut Icrc) {
    icrc.update(as_slice(extent));
}

/// The `N` bytes of the frame at `at`; zeros where it ends before.
#[inline]
pub fn read_bytes<const N: usize, F: RxFrame>(frame: &F, at: usize) -> [u8; N] {
    let mut out = [0; N];
    copy_bytes(frame, at, &mut out);
    out
}

/// Copies the frame's bytes from `at` on into `out`, as many as both have; how many.
pub fn copy_bytes<F: RxFrame>(frame: &F, at: usize, out: &mut [u8]) -> usize {
    let mut got = 0;
    frame.body(at, out.len(), |extent| {
        let piece = as_slice(&extent);
        let count = piece.len().min(out.len() - got);
        out[got..got + count].copy_from_slice(&piece[..count]);
        got += count;
    });
    got
}

#[inline]
fn as_slice<'a>(extent: &'a Extent<'_>) -> &'a [u8] {
    // SAFETY: the bytes are readable for the extent's life. Transmitters copy payload into frames that they then give up, or lend it from where it
    // lies; that its owner leaves alone until the request completes, which it does not before all frames that refer to it are gone.
    unsafe { core::slice::from_raw_parts(extent.as_ptr(), extent.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Domain = Domain(7);

    fn table(remote_write: bool) -> (Table, Key, Arc<Buffer>) {
        let memory = Buffer::new(4096);
        let key = Keys::default().allocate().unwrap();
        let mut table = Table::default();
        let region = Region { domain: HOME, access: Access { remote_write }, iova: 0x10_0000, memory: memory.clone() };
        table.insert(key, region);
        (table, key, memory)
    }

    fn refusal(table: &Table, domain: Domain, key: Key, va: u64, len: usize) -> Option<AccessError> {
        table.remote_write(domain, key, va, len).err()
    }

    #[test]
    fn a_range_is_inside_its_region_to_the_byte_and_never_wraps() {
        let (table, key, _) = table(true);
        assert_eq!(refusal(&table, HOME, key, 0x10_0000, 4096), None);
        assert_eq!(refusal(&table, HOME, key, 0x10_1000, 0), None);
        for (va, len) in [
            (0x0F_FFFF, 1),
            (0x0F_FFFF, 2),
            (0x10_0000, 4097),
            (0x10_1000, 1),
            (0x10_0FFF, 2),
            (u64::MAX, 1),
            (u64::MAX - 3, 8),
            (0x10_0001, u32::MAX as usize),
            (0, usize::MAX),
        ] {
            assert_eq!(refusal(&table, HOME, key, va, len), Some(AccessError::OutOfRange), "{va:#x} {len}");
        }
    }

    #[test]
    fn a_key_opens_its_own_domain_only_and_only_what_its_flags_allow() {
        let (open, key, _) = table(true);
        assert_eq!(refusal(&open, Domain(8), key, 0x10_0000, 1), Some(AccessError::WrongDomain));
        assert_eq!(refusal(&open, HOME, Key(key.0 ^ 1), 0x10_0000, 1), Some(AccessError::UnknownKey));
        assert_eq!(refusal(&open, HOME, Key(u32::MAX), 0x10_0000, 1), Some(AccessError::UnknownKey));
        let (closed, key, _) = table(false);
        assert_eq!(refusal(&closed, HOME, key, 0x10_0000, 1), Some(AccessError::NotAllowed));
        assert!(closed.local(HOME, key, 0x10_0000, 1).is_ok());
    }

    #[test]
    fn a_dead_key_stays_dead_when_its_index_is_used_again() {
        let mut keys = Keys::default();
        let old = keys.allocate().unwrap();
        keys.release(old);
        let mut others = Vec::new();
        let new = loop {
            let key = keys.allocate().unwrap();
            if key.index() == old.index() {
                break key;
            }
            keys.release(key);
            others.push(key);
        };
        assert_ne!(old, new);
        assert_eq!(others.len(), KEYS_AT_REST - 1, "it rested for as long as there were others");
        keys.release(old);
        assert_ne!(keys.allocate().unwrap(), new, "a second release of a dead key frees nothing");
        let (mut table, _, memory) = table(true);
        let region = Region { domain: HOME, access: Access { remote_write: true }, iova: 0, memory };
        table.insert(new, region);
        assert_eq!(refusal(&table, HOME, old, 0, 1), Some(AccessError::UnknownKey));
        assert!(!table.remove(old));
        assert!(table.remove(new));
        assert_eq!(refusal(&table, HOME, new, 0, 1), Some(AccessError::UnknownKey));
    }

    #[test]
    fn devices_read_what_was_mapped_for_their_port_to_the_byte_and_nothing_once_the_region_is_gone() {
        let (mut table, key, memory) = table(false);
        let is_mapped = |table: &Table, port, at: u64, len| {
            table.is_mapped(key, port, &table.local(HOME, key, 0x10_0000 + at, len).unwrap())
        };
        assert!(!is_mapped(&table, 0, 1000, 10));
        let start = memory.address() as usize + 1000;
        table.set_mapped(key, Some(Mapped { ports: 0b1000_0010, start, len: 2000 }));
        for (port, at, len, mapped) in [
            (1, 1000, 2000, true),
            (7, 1001, 1999, true),
            (1, 2999, 1, true),
            (1, 3000, 0, true),
            (1, 999, 1, false),
            (1, 999, 2002, false),
            (1, 0, 10, false),
            (1, 2999, 2, false),
            (1, 3000, 1, false),
            (0, 1000, 1, false),
            (2, 1000, 1, false),
            (8, 1000, 1, false),
        ] {
            assert_eq!(is_mapped(&table, port, at, len), mapped, "{port} {at} {len}");
        }
        assert!(table.remove(key));
        table.set_mapped(key, Some(Mapped { ports: 2, start, len: 2000 }));
        let region = Region { domain: HOME, access: Access::default(), iova: 0x10_0000, memory };
        table.insert(key, region);
        assert!(!is_mapped(&table, 1, 1000, 10));
    }

    #[test]
    fn payload_is_placed_where_it_belongs_and_nowhere_else() {
        let (table, key, memory) = table(true);
        let frame: &[u8] = &[9, 9, 1, 2, 3, 4, 9];
        table.remote_write(HOME, key, 0x10_0010, 4).unwrap().place(&frame, 2);
        let mut out = [0xFF; 8];
        memory.read(14, &mut out).unwrap();
        assert_eq!(out, [0, 0, 1, 2, 3, 4, 0, 0]);
        let mut back = [0; 4];
        table.local(HOME, key, 0x10_0010, 4).unwrap().copy_out(&mut back);
        assert_eq!(back, [1, 2, 3, 4]);
    }

    #[test]
    fn scratch_placement_wraps_at_the_end_of_the_buffer() {
        let scratch = Scratch(Buffer::new(8));
        let frame: &[u8] = &[1, 2, 3, 4];
        scratch.place(0x1_0000_0006, &frame, 0, 4);
        let mut out = [0; 8];
        scratch.0.read(0, &mut out).unwrap();
        assert_eq!(out, [3, 4, 0, 0, 0, 0, 1, 2]);
    }
}

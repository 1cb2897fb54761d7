//! Memory of applications that network cards read by themselves.
//!
//! A card reaches what was mapped for it, by DPDK, at the addresses that the process has. What is mapped is counted by pages, for the whole process:
//! two regions of exactly the same pages share one mapping, and ends of others that overlap would leave pages mapped whose memory is somebody
//! else's by then. DPDK does not refuse such overlaps, so they are refused here, and the payload is copied.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use dpdk_sys as sys;

use super::eal::Eal;
use super::error::{rte_errno, strerror};
use super::lending::Lending;
use super::log::capture;
use super::port::{Inner, Port};
use crate::memory::{Buffer, Mapped};

/// Whole pages: address and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pages {
    start: usize,
    len: usize,
}

impl Pages {
    const fn overlap(self, other: Pages) -> bool {
        self.start < other.start + other.len && other.start < self.start + self.len
    }
}

/// What memory is mapped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All devices that the kernel's `vfio-pci` holds: DPDK has one address space for them.
    Vfio,
    /// The device at this address, whose driver maps memory itself.
    Own(usize),
}

/// A device for which memory is mapped.
#[derive(Clone, Debug)]
struct Target {
    reach: Reach,
    /// DPDK's. That of a bus stays for as long as the process does, since nothing here removes it.
    device: NonNull<sys::rte_device>,
    /// A virtual device goes with its port.
    _port: Option<Arc<Inner>>,
}

// SAFETY: DPDK takes its devices from any thread; calls that map are made one at a time.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// Whoever maps memory.
trait Mapper {
    fn register(&mut self, pages: Pages) -> Result<(), String>;
    fn unregister(&mut self, pages: Pages) -> Result<(), String>;
    fn map(&mut self, target: &Target, pages: Pages) -> Result<(), String>;
    fn unmap(&mut self, target: &Target, pages: Pages) -> Result<(), String>;
}

/// DPDK's part of it.
#[derive(Debug)]
struct Dpdk;

/// The code of a call of DPDK's as a result.
fn outcome(call: impl FnOnce() -> i32) -> Result<(), String> {
    let ((code, errno), said) = capture(|| (call(), rte_errno()));
    // Not below 0: some buses answer so for a device without a driver.
    if code == 0 { Ok(()) } else { Err(format!("{}{said}", strerror(errno))) }
}

impl Mapper for Dpdk {
    fn register(&mut self, pages: Pages) -> Result<(), String> {
        let at = core::ptr::with_exposed_provenance_mut::<c_void>(pages.start);
        // SAFETY: EAL is up (a `Dma` holds its token). The pages are memory of this process; DPDK notes where they are, and does not touch them.
        outcome(|| unsafe { sys::rte_extmem_register(at, pages.len, core::ptr::null_mut(), 0, page_size()) })
    }

    fn unregister(&mut self, pages: Pages) -> Result<(), String> {
        let at = core::ptr::with_exposed_provenance_mut::<c_void>(pages.start);
        // SAFETY: as above; no device has them mapped any more.
        outcome(|| unsafe { sys::rte_extmem_unregister(at, pages.len) })
    }

    fn map(&mut self, target: &Target, pages: Pages) -> Result<(), String> {
        let at = core::ptr::with_exposed_provenance_mut::<c_void>(pages.start);
        // SAFETY: the device is there, and the pages were registered; whoever maps them keeps them until they are unmapped.
        outcome(|| unsafe { sys::rte_dev_dma_map(target.device.as_ptr(), at, pages.start as u64, pages.len) })
    }

    fn unmap(&mut self, target: &Target, pages: Pages) -> Result<(), String> {
        let at = core::ptr::with_exposed_provenance_mut::<c_void>(pages.start);
        // SAFETY: as above.
        outcome(|| unsafe { sys::rte_dev_dma_unmap(target.device.as_ptr(), at, pages.start as u64, pages.len) })
    }
}

/// Pages that are registered.
#[derive(Debug)]
struct Entry {
    pages: Pages,
    /// Regions that have them.
    users: usize,
    /// Where they are mapped, and for how many regions.
    targets: Vec<(Target, usize)>,
    /// They could not be unmapped, or a device may still read them: nobody gets them again.
    stuck: bool,
}

/// All that is mapped in this process.
#[derive(Debug)]
struct Book<M> {
    mapper: M,
    entries: Vec<Entry>,
}

static BOOK: Mutex<Book<Dpdk>> = Mutex::new(Book { mapper: Dpdk, entries: Vec::new() });

impl<M: Mapper> Book<M> {
    /// Maps pages for each of the targets, as far as that can be done; says for each. Where none has them, they are not registered either.
    fn map(&mut self, pages: Pages, targets: &[Target]) -> Vec<Result<(), String>> {
        let at = match self.enter(pages) {
            Ok(at) => at,
            Err(why) => return targets.iter().map(|_| Err(why.clone())).collect(),
        };
        let entry = &mut self.entries[at];
        entry.users += 1;
        let mut results = Vec::new();
        for target in targets {
            results.push(match entry.targets.iter_mut().find(|(known, _)| known.reach == target.reach) {
                Some((_, users)) => {
                    *users += 1;
                    Ok(())
                }
                None => self.mapper.map(target, pages).map(|()| entry.targets.push((target.clone(), 1))),
            });
        }
        if results.iter().all(Result::is_err) {
            self.unmap(pages, &[]);
        }
        results
    }

    /// Where pages stand: registered now, or before.
    fn enter(&mut self, pages: Pages) -> Result<usize, String> {
        if let Some(at) = self.entries.iter().position(|entry| entry.pages.overlap(pages)) {
            let entry = &self.entries[at];
            return match entry.pages == pages && !entry.stuck {
                true => Ok(at),
                false if entry.stuck => Err("pages of it may still be read for a region that is gone".into()),
                false => Err("it overlaps another region".into()),
            };
        }
        self.mapper.register(pages)?;
        self.entries.push(Entry { pages, users: 0, targets: Vec::new(), stuck: false });
        Ok(self.entries.len() - 1)
    }

    /// One region less: first no device has the pages, then DPDK does not.
    fn unmap(&mut self, pages: Pages, targets: &[Target]) {
        let Some(at) = self.entries.iter().position(|entry| entry.pages == pages) else { return };
        let entry = &mut self.entries[at];
        for target in targets {
            let Some(place) = entry.targets.iter().position(|(known, _)| known.reach == target.reach) else { continue };
            entry.targets[place].1 -= 1;
            if entry.targets[place].1 == 0 {
                let (target, _) = entry.targets.swap_remove(place);
                if let Err(why) = self.mapper.unmap(&target, pages) {
                    tracing::debug!(start = pages.start, len = pages.len, why, "pages stay mapped for a device");
                    entry.stuck = true;
                }
            }
        }
        entry.users -= 1;
        if entry.users > 0 || entry.stuck {
            return;
        }
        match self.mapper.unregister(pages) {
            Ok(()) => drop(self.entries.swap_remove(at)),
            Err(why) => {
                tracing::debug!(start = pages.start, len = pages.len, why, "pages stay registered with DPDK");
                entry.stuck = true;
            }
        }
    }

    /// A region has gone while a device may still read it.
    fn leave(&mut self, pages: Pages) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.pages == pages) {
            entry.stuck = true;
        }
    }
}

/// Ports of a NIC that one mapping serves.
#[derive(Debug)]
struct Way {
    target: Target,
    /// Bit i is port i.
    ports: u8,
    /// The first of them.
    name: String,
}

/// The devices of a NIC that read what they send by themselves.
///
/// Who registers memory with the NIC maps it here too ([`Dma::map`]), and tells the engines ([`crate::nic::Nic::set_mapped`]). What can't be mapped
/// is no fault: its payload is copied. These calls lock and call the system, so they are not a worker's.
#[derive(Debug)]
pub struct Dma {
    ways: Vec<Way>,
    /// Port and reason: each is told once.
    told: Mutex<Vec<(String, String)>>,
    _eal: Option<Eal>,
}

/// A region that was mapped for the devices of a NIC, or could not be. When this is dropped it is unmapped: nothing that refers to it is out by then.
#[derive(Debug)]
pub struct DmaMap {
    pages: Pages,
    targets: Vec<Target>,
    ports: u8,
    memory: Option<Arc<Buffer>>,
}

impl Dma {
    /// The devices of a NIC's ports, in the order of the ports. Those that lend without it, or never, have none.
    #[must_use]
    pub fn new(ports: &[Port]) -> Dma {
        Dma::of(ports, |port| port.lending() == Lending::Mapped)
    }

    /// As [`Dma::new`], as if all ports were cards. There are machines without any: tests see there what DPDK does.
    #[doc(hidden)]
    #[must_use]
    pub fn as_cards(ports: &[Port]) -> Dma {
        Dma::of(ports, |_| true)
    }

    fn of(ports: &[Port], wants: impl Fn(&Port) -> bool) -> Dma {
        let mut ways: Vec<Way> = Vec::new();
        let mut eal = None;
        for (at, port) in ports.iter().enumerate().filter(|(_, port)| wants(port)) {
            let inner = port.keep();
            let (Some(device), Some(bit)) = (device(inner.id), 1_u8.checked_shl(at as u32)) else { continue };
            let is_vfio = inner.pci.as_deref().is_some_and(|address| kernel_driver(address) == "vfio-pci");
            let reach = if is_vfio { Reach::Vfio } else { Reach::Own(device.as_ptr().addr()) };
            eal = Some(inner._eal.clone());
            match ways.iter_mut().find(|way| way.target.reach == reach) {
                Some(way) => way.ports |= bit,
                None => {
                    let name = inner.name.clone();
                    let target = Target { reach, device, _port: inner.vdev.is_some().then_some(inner) };
                    ways.push(Way { target, ports: bit, name });
                }
            }
        }
        Dma { ways, told: Mutex::default(), _eal: eal }
    }

    /// Maps a buffer for the devices. What stands in the way is told once, as a line of the log with the first port that it is about.
    #[must_use]
    pub fn map(&self, memory: &Arc<Buffer>) -> DmaMap {
        let mut map = DmaMap { pages: Pages { start: 0, len: 0 }, targets: Vec::new(), ports: 0, memory: None };
        if self.ways.is_empty() {
            return map;
        }
        // Without a whole page there is next to nothing to lend.
        let Some((start, len)) = memory.pages(page_size()) else { return map };
        let pages = Pages { start, len };
        let targets: Vec<Target> = self.ways.iter().map(|way| way.target.clone()).collect();
        let results = BOOK.lock().unwrap_or_else(PoisonError::into_inner).map(pages, &targets);
        (map.pages, map.memory) = (pages, Some(Arc::clone(memory)));
        for (way, result) in self.ways.iter().zip(results) {
            match result {
                Ok(()) => {
                    map.targets.push(way.target.clone());
                    map.ports |= way.ports;
                }
                Err(why) => self.tell(&way.name, why, len),
            }
        }
        map
    }

    fn tell(&self, port: &str, why: String, bytes: usize) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() == TOLD_MAX || told.iter().any(|(of, what)| of == port && *what == why) {
            tracing::debug!(port, bytes, why, "a region could not be mapped for the port's device");
            return;
        }
        tracing::info!(port, bytes, why, "a region could not be mapped for the port's device: its payload is copied");
        told.push((port.to_owned(), why));
    }
}

/// Reasons that are told.
const TOLD_MAX: usize = 64;

impl DmaMap {
    /// What devices may read, for the engines; `None` when it is nothing.
    #[must_use]
    pub fn mapped(&self) -> Option<Mapped> {
        (self.ports != 0).then_some(Mapped { ports: self.ports, start: self.pages.start, len: self.pages.len })
    }

    /// Gives it up while a device may still read the region: the pages stay mapped, and are not mapped for others again.
    pub fn abandon(mut self) {
        if self.ports != 0 {
            BOOK.lock().unwrap_or_else(PoisonError::into_inner).leave(self.pages);
        }
        (self.ports, self.memory) = (0, None);
    }
}

impl Drop for DmaMap {
    fn drop(&mut self) {
        if self.ports != 0 {
            BOOK.lock().unwrap_or_else(PoisonError::into_inner).unmap(self.pages, &self.targets);
        }
    }
}

fn page_size() -> usize {
    // SAFETY: no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096)
}

/// The device of a port.
fn device(port: u16) -> Option<NonNull<sys::rte_device>> {
    let mut info = sys::rte_eth_dev_info::default();
    // SAFETY: the port is open, and the structure is DPDK's own.
    let (code, _) = capture(|| unsafe { sys::rte_eth_dev_info_get(port, &raw mut info) });
    NonNull::new(info.device).filter(|_| code == 0)
}

/// The kernel's driver that holds a PCI device; empty for none.
fn kernel_driver(address: &str) -> String {
    let link = std::fs::read_link(format!("/sys/bus/pci/devices/{address}/driver"));
    let name = link.ok().and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what it is asked for, and refuses what it is told to.
    #[derive(Default)]
    struct Notes {
        calls: Vec<(&'static str, usize)>,
        refuses: Vec<(&'static str, usize)>,
    }

    impl Notes {
        fn call(&mut self, name: &'static str, what: usize) -> Result<(), String> {
            self.calls.push((name, what));
            if self.refuses.contains(&(name, what)) { Err(format!("{name} {what}")) } else { Ok(()) }
        }

        fn of(target: &Target) -> usize {
            match target.reach {
                Reach::Vfio => 0,
                Reach::Own(at) => at,
            }
        }
    }

    impl Mapper for Notes {
        fn register(&mut self, pages: Pages) -> Result<(), String> {
            self.call("register", pages.start)
        }

        fn unregister(&mut self, pages: Pages) -> Result<(), String> {
            self.call("unregister", pages.start)
        }

        fn map(&mut self, target: &Target, _: Pages) -> Result<(), String> {
            self.call("map", Notes::of(target))
        }

        fn unmap(&mut self, target: &Target, _: Pages) -> Result<(), String> {
            self.call("unmap", Notes::of(target))
        }
    }

    const A: Pages = Pages { start: 0x1000, len: 0x3000 };

    fn book(refuses: &[(&'static str, usize)]) -> Book<Notes> {
        Book { mapper: Notes { refuses: refuses.to_vec(), ..Notes::default() }, entries: Vec::new() }
    }

    fn own(at: usize) -> Target {
        Target { reach: Reach::Own(at), device: NonNull::dangling(), _port: None }
    }

    const fn vfio() -> Target {
        Target { reach: Reach::Vfio, device: NonNull::dangling(), _port: None }
    }

    fn calls(book: &mut Book<Notes>) -> Vec<(&'static str, usize)> {
        core::mem::take(&mut book.mapper.calls)
    }

    #[test]
    fn memory_is_registered_then_mapped_and_the_other_way_round_when_it_goes() {
        let mut book = book(&[]);
        assert_eq!(book.map(A, &[vfio(), own(7)]), [Ok(()), Ok(())]);
        assert_eq!(calls(&mut book), [("register", 0x1000), ("map", 0), ("map", 7)]);
        book.unmap(A, &[vfio(), own(7)]);
        assert_eq!(calls(&mut book), [("unmap", 0), ("unmap", 7), ("unregister", 0x1000)]);
        assert!(book.entries.is_empty());
    }

    #[test]
    fn two_regions_of_the_same_pages_share_what_both_have() {
        let mut book = book(&[]);
        book.map(A, &[vfio()]);
        book.map(A, &[vfio(), own(7)]);
        assert_eq!(calls(&mut book), [("register", 0x1000), ("map", 0), ("map", 7)]);
        book.unmap(A, &[vfio(), own(7)]);
        assert_eq!(calls(&mut book), [("unmap", 7)]);
        book.unmap(A, &[vfio()]);
        assert_eq!(calls(&mut book), [("unmap", 0), ("unregister", 0x1000)]);
    }

    #[test]
    fn a_region_that_overlaps_another_is_refused_until_that_is_gone() {
        let mut book = book(&[]);
        book.map(A, &[vfio()]);
        calls(&mut book);
        for (start, len) in [(0, 0x1001), (0x3000, 0x1000), (0x3000, 0x9000), (0, 0x9000), (0x1000, 0x2000)] {
            let why = book.map(Pages { start, len }, &[vfio()]);
            assert_eq!(why, [Err("it overlaps another region".to_owned())], "{start:#x} {len:#x}");
        }
        assert!(calls(&mut book).is_empty());
        for (start, len) in [(0, 0x1000), (0x4000, 0x1000)] {
            assert_eq!(book.map(Pages { start, len }, &[vfio()]), [Ok(())], "beside it");
        }
        book.unmap(A, &[vfio()]);
        assert_eq!(book.map(Pages { start: 0x3000, len: 0x1000 }, &[vfio()]), [Ok(())]);
    }

    #[test]
    fn what_one_device_refuses_the_others_have_and_what_all_refuse_is_not_registered() {
        let mut book = book(&[("map", 7), ("register", 0x9000)]);
        assert_eq!(book.map(A, &[own(7), own(8)]), [Err("map 7".to_owned()), Ok(())]);
        book.unmap(A, &[own(8)]);
        calls(&mut book);
        assert_eq!(book.map(A, &[own(7)]), [Err("map 7".to_owned())]);
        assert_eq!(calls(&mut book), [("register", 0x1000), ("map", 7), ("unregister", 0x1000)]);
        let refused = Err("register 36864".to_owned());
        assert_eq!(book.map(Pages { start: 0x9000, len: 0x1000 }, &[own(7), own(8)]), [refused.clone(), refused]);
        assert!(book.entries.is_empty());
    }

    #[test]
    fn pages_that_a_device_may_still_read_are_not_mapped_again() {
        let mut book = book(&[("unmap", 7), ("unregister", 0x9000)]);
        let stuck = |book: &mut Book<Notes>, pages| book.map(pages, &[own(8)])[0].is_err();
        book.map(A, &[own(7)]);
        book.unmap(A, &[own(7)]);
        assert_eq!(calls(&mut book), [("register", 0x1000), ("map", 7), ("unmap", 7)]);
        assert!(stuck(&mut book, A), "it could not be unmapped");
        let b = Pages { start: 0x9000, len: 0x1000 };
        book.map(b, &[own(8)]);
        book.unmap(b, &[own(8)]);
        assert!(stuck(&mut book, b), "it could not be unregistered");
        let c = Pages { start: 0xA000, len: 0x1000 };
        book.map(c, &[own(8)]);
        book.leave(c);
        assert!(stuck(&mut book, c), "it was given up");
    }
}

//! Memory that is registered with DPDK. There is no card here: a virtual device stands for one, which says that memory was mapped, and does nothing.

use std::ptr::{NonNull, with_exposed_provenance};
use std::sync::Arc;

use dataplane::dpdk::{Dma, Lending, Port};
use dataplane::memory::Buffer;
use dataplane::nic::Pieces;

use crate::{eal, live, open, small};

/// Whether DPDK knows the memory at an address.
#[allow(unsafe_code)]
fn is_known(address: usize) -> bool {
    // SAFETY: DPDK is up, and compares the address alone.
    !unsafe { dpdk_sys::rte_mem_virt2memseg_list(with_exposed_provenance(address)) }.is_null()
}

/// `len` bytes of a buffer, as if they were somebody else's.
#[allow(unsafe_code)]
fn part(of: &Arc<Buffer>, at: usize, len: usize) -> Arc<Buffer> {
    let ptr = std::ptr::with_exposed_provenance_mut(of.address() as usize + at);
    // SAFETY: within a buffer that outlives this one; nothing is written.
    unsafe { Buffer::foreign(NonNull::new(ptr).expect("no buffer is at 0"), len) }
}

live! {
    fn memory_is_registered_with_dpdk_while_it_is_mapped_and_again_after_that() {
        let eal = eal();
        let ports = [open(&eal, "net_null0", &small()), open(&eal, "net_null1", &small())];
        let dma = Dma::as_cards(&ports);
        let memory = Buffer::new(1_000_000);
        let start = memory.address() as usize;
        for _ in 0..2 {
            assert!(!is_known(start));
            let map = dma.map(&memory);
            let mapped = map.mapped().expect("virtual devices agree to everything");
            // To the end of the last page, which is the buffer's too.
            assert_eq!((mapped.ports, mapped.start, mapped.len), (0b11, start, 1_003_520));
            assert!(is_known(start) && is_known(start + 1_003_519));
            assert_eq!(Arc::strong_count(&memory), 2, "it stays until it is unmapped");
            drop(map);
            assert_eq!(Arc::strong_count(&memory), 1);
        }
        assert!(!is_known(start));
    }

    fn regions_share_pages_or_are_copied_and_so_is_what_dpdk_has_no_room_for() {
        let eal = eal();
        let dma = Dma::as_cards(&[open(&eal, "net_null0", &small())]);
        let memory = Buffer::new(64 * 4096);
        let start = memory.address() as usize;
        let first = part(&memory, 1, 4 * 4096 + 10);
        let map = dma.map(&first);
        let mapped = map.mapped().expect("whole pages are inside");
        assert_eq!((mapped.start, mapped.len), (start + 4096, 3 * 4096), "ends are left to whoever has the rest of their pages");
        assert!(!is_known(start) && is_known(start + 4096) && !is_known(start + 4 * 4096));
        let same = dma.map(&part(&memory, 4000, 12_500));
        assert_eq!(same.mapped(), map.mapped());
        assert_eq!(dma.map(&memory).mapped(), None, "it overlaps");
        assert_eq!(dma.map(&part(&memory, 4096, 4096)).mapped(), None, "so does a part");
        assert_eq!(dma.map(&part(&memory, 5 * 4096 + 1, 8000)).mapped(), None, "no whole page");
        drop(map);
        assert!(is_known(start + 4096), "the other has it");
        drop(same);
        assert!(!is_known(start + 4096));
        let others: Vec<Arc<Buffer>> = (0..200).map(|_| Buffer::new(4096)).collect();
        let maps: Vec<_> = others.iter().map(|other| dma.map(other)).collect();
        let fit = maps.iter().take_while(|map| map.mapped().is_some()).count();
        assert!((50..200).contains(&fit), "{fit}");
        assert!(maps[fit..].iter().all(|map| map.mapped().is_none()));
        drop(maps);
        assert!(others.iter().all(|other| !is_known(other.address() as usize)));
        let whole = dma.map(&memory);
        assert!(whole.mapped().is_some());
        whole.abandon();
        assert!(is_known(start), "a device may still read it");
        assert_eq!(dma.map(&memory).mapped(), None);
    }

    fn ports_of_software_lend_without_that_and_other_virtual_devices_do_not_lend() {
        let eal = eal();
        let (a, b) = Port::ring_pair(&eal, 64, &small()).expect("a pair");
        let null = open(&eal, "net_null0", &small());
        let memory = Buffer::new(4096);
        // Whether `net_null` sends several segments depends on DPDK's version.
        assert!(a.lending() == Lending::Always && null.lending() != Lending::Mapped);
        assert_eq!(Dma::new(&[a, b, null]).map(&memory).mapped(), None);
        assert!(!is_known(memory.address() as usize));
        let directory = crate::scratch("vhost");
        std::fs::create_dir_all(&directory).expect("a scratch directory");
        let spec = format!("net_vhost0,iface={}", directory.join("v").display());
        let mut vhost = open(&eal, &spec, &small());
        assert!(matches!(vhost.lending(), Lending::Never(why) if why.contains("not known")), "{}", vhost.lending());
        assert_eq!(vhost.take_queue(0).expect("a queue").tx.takes_pieces(), Pieces::None);
        drop(vhost);
        std::fs::remove_dir_all(directory).expect("it is ours");
    }
}

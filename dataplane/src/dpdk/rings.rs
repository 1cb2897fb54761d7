//! Ports that are joined by rings.

use core::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk_sys as sys;

use super::driver::{Driver, OVERHEAD, Plan};
use super::eal::Eal;
use super::error::Error;
use super::lending::Lending;
use super::log::capture;
use super::port::{DEFAULT_MTU, Inner, Pools, Port, PortConfig, c_string, step};
use crate::nic::Pieces;

/// The rings that join two ports, and the pools that their frames may be from: mbufs of one end up at the other.
#[derive(Debug)]
pub(super) struct Pair {
    rings: Vec<NonNull<sys::rte_ring>>,
    _pools: Vec<Arc<Pools>>,
}

// SAFETY: rings are touched here only to free them, when no port uses them any more.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

/// Two ports that are to be joined by rings.
struct PairConfig<'a> {
    names: [String; 2],
    configs: [&'a PortConfig; 2],
}

impl PairConfig<'_> {
    fn plan(&self) -> Plan {
        let mtu = self.configs[0].mtu.unwrap_or(DEFAULT_MTU);
        let max_frame = usize::from(mtu) + OVERHEAD;
        Plan { mtu, max_frame, rx_room: max_frame, pieces: Pieces::All }
    }

    fn pools(&self) -> Result<[Arc<Pools>; 2], Error> {
        let pools = |n: usize| Pools::new(&self.names[n], self.configs[n], &self.plan(), false).map(Arc::new);
        Ok([pools(0)?, pools(1)?])
    }
}

/// Names of two ports, never used before.
fn pair_names() -> [String; 2] {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    [format!("mrc{number}a"), format!("mrc{number}b")]
}

impl Port {
    /// Opens two ports that are joined by rings of `ring_size` frames (rounded up to a power of two, one less of them
    /// usable): what queue i of one sends, queue i of the other receives.
    ///
    /// A frame arrives in the very mbuf that it was sent in.
    ///
    /// # Errors
    /// Want of memory, or a refusal of the driver.
    pub fn ring_pair(eal: &Eal, ring_size: u32, config: &PortConfig) -> Result<(Port, Port), Error> {
        let config = PairConfig { names: pair_names(), configs: [config, config] };
        let pools = config.pools()?;
        Port::pair(eal, ring_size, &config, pools.clone(), pools.into())
    }

    /// As [`Port::ring_pair`], `count` times, where a frame that came from one pair may be sent on by another: each port keeps the
    /// pools of all. The first ports of the pairs, and the second ones, are set up as the two configurations say; they have one MTU, and
    /// as many queues.
    ///
    /// # Errors
    /// As [`Port::ring_pair`].
    pub fn ring_pairs(
        eal: &Eal,
        ring_size: u32,
        count: usize,
        configs: [&PortConfig; 2],
    ) -> Result<Vec<(Port, Port)>, Error> {
        let plans: Vec<PairConfig<'_>> = (0..count).map(|_| PairConfig { names: pair_names(), configs }).collect();
        let pools = plans.iter().map(PairConfig::pools).collect::<Result<Vec<_>, _>>()?;
        let kept = || pools.iter().flatten().cloned().collect();
        plans.iter().zip(&pools).map(|(plan, own)| Port::pair(eal, ring_size, plan, own.clone(), kept())).collect()
    }

    /// Opens a pair over pools that are there. `kept` are those that frames in its rings may be from.
    fn pair(
        eal: &Eal,
        ring_size: u32,
        of: &PairConfig<'_>,
        pools: [Arc<Pools>; 2],
        kept: Vec<Arc<Pools>>,
    ) -> Result<(Port, Port), Error> {
        let (plan, [first, second]) = (of.plan(), of.configs);
        let queues = usize::from(first.queues);
        let mut pair = Pair { rings: Vec::new(), _pools: kept };
        let size = ring_size.max(2).next_power_of_two();
        for i in 0..2 * queues {
            let name = c_string(&of.names[0], &format!("{}_ring{i}", of.names[0]))?;
            let flags = sys::RING_F_SP_ENQ | sys::RING_F_SC_DEQ;
            // SAFETY: EAL is up; the name outlives the call.
            let (ring, said) = capture(|| unsafe { sys::rte_ring_create(name.as_ptr(), size, -1, flags) });
            let Some(ring) = NonNull::new(ring) else {
                return Err(Error::NoMemory {
                    what: format!("a ring of {size} frames"),
                    mib: size as usize >> 17,
                    said,
                });
            };
            pair.rings.push(ring);
        }
        let pair = Arc::new(pair);
        let pointers: Vec<*mut sys::rte_ring> = pair.rings.iter().map(|ring| ring.as_ptr()).collect();
        let (there, back) = pointers.split_at(queues);
        let [a, b] = pools;
        let a = Port::from_rings(eal, &of.names[0], &pair, (back, there), a, &plan, first)?;
        let b = Port::from_rings(eal, &of.names[1], &pair, (there, back), b, &plan, second)?;
        Ok((a, b))
    }

    fn from_rings(
        eal: &Eal,
        name: &str,
        pair: &Arc<Pair>,
        (rx, tx): (&[*mut sys::rte_ring], &[*mut sys::rte_ring]),
        pools: Arc<Pools>,
        plan: &Plan,
        config: &PortConfig,
    ) -> Result<Port, Error> {
        let c_name = c_string(name, name)?;
        let queues = rx.len() as u32;
        // SAFETY: EAL is up; both arrays hold `queues` live rings, and DPDK copies them.
        let (id, said) = capture(|| unsafe {
            sys::rte_eth_from_rings(c_name.as_ptr(), rx.as_ptr(), queues, tx.as_ptr(), queues, 0)
        });
        let Ok(id) = u16::try_from(id) else {
            return Err(step(name, "joining two ports by rings", super::error::rte_errno(), said));
        };
        let inner = Inner {
            id,
            name: name.to_owned(),
            driver: Driver::Ring,
            gate: None,
            vdev: Some(c_string(name, &format!("net_ring_{name}"))?),
            max_frame: plan.max_frame,
            pci: None,
            lending: Lending::of_driver(plan.pieces),
            on_ethernet: false,
            pools,
            _pair: Some(Arc::clone(pair)),
            _files: Vec::new(),
            _eal: eal.clone(),
        };
        Port::start(inner, config, plan.mtu)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let mut mbufs = [core::ptr::null_mut(); super::BURST];
        for ring in &self.rings {
            // SAFETY: both ports are closed, for each holds a reference to this; what the rings still hold belongs to
            // nobody else, and the pools it goes back to are freed after this.
            unsafe {
                loop {
                    let n = sys::mrc_ring_drain(ring.as_ptr(), mbufs.as_mut_ptr(), mbufs.len() as u32);
                    if n == 0 {
                        break;
                    }
                    sys::rte_pktmbuf_free_bulk(mbufs.as_mut_ptr(), n);
                }
                sys::rte_ring_free(ring.as_ptr());
            }
        }
    }
}

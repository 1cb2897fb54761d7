//! Ports: opened after DPDK started, so that a failure is a code and not a line in a log.

use core::ffi::{CStr, c_char};
use std::ffi::CString;
use std::fs::File;
use std::sync::Arc;

use dpdk_sys as sys;

use super::driver::{Driver, OVERHEAD, Plan, RX_UNIT};
use super::eal::Eal;
use super::error::{Error, Said, strerror};
use super::lending::{Abilities, Lending};
use super::log::capture;
use super::memif::{Gate, on_interrupt_thread};
use super::pool::{MAX_FRAME, Pool};
use super::rings::Pair;
use super::rx::RxQueue;
use super::spec::{Kind, PortSpec};
use super::tx::TxQueue;
use crate::nic::Pieces;

/// The default MTU: an MSS of 4,096 with any header stack.
pub(super) const DEFAULT_MTU: u16 = 4_500;

/// Frames up to this many bytes are sent from the pool of small mbufs, and so are headers before payload that stays where it is.
pub(super) const SMALL_FRAME: usize = 320;

/// How a port is to be set up.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Queues each way, one for each worker.
    pub queues: u16,
    /// IP MTU in bytes. `None`: 4,500, or as much of it as the port can carry. A value that it can't carry is an error.
    pub mtu: Option<u16>,
    /// Receive descriptors of a queue; drivers adjust it.
    pub rx_desc: u16,
    /// Transmit descriptors of a queue; drivers adjust it.
    pub tx_desc: u16,
    /// Mbufs for frames of up to 320 bytes, and as many that refer to registered memory. Best is one less than a power of two, and many: a line that is used again soon
    /// is still in the peer core's cache.
    pub small: u32,
    /// Mbufs for larger frames. Fewer are better: 4 KiB each have to stay in the cache.
    pub large: u32,
    /// Mbufs to receive into; `None`: enough for the queues. Raised to what the descriptors alone take.
    pub rx: Option<u32>,
}

impl Default for PortConfig {
    fn default() -> PortConfig {
        PortConfig { queues: 1, mtu: None, rx_desc: 1_024, tx_desc: 1_024, small: 16_383, large: 2_047, rx: None }
    }
}

impl PortConfig {
    /// About what a port takes of DPDK's memory, in bytes: for [`super::EalOptions::need`].
    #[must_use]
    pub fn memory(&self) -> usize {
        let frame = usize::from(self.mtu.unwrap_or(DEFAULT_MTU)) + OVERHEAD;
        // Rings and descriptors are small beside the mbufs.
        let rings = usize::from(self.queues) * (usize::from(self.rx_desc) + usize::from(self.tx_desc)) * 64;
        Pool::bytes(self.small, SMALL_FRAME)
            + Pool::bytes(self.small, 0)
            + Pool::bytes(self.large, frame)
            + Pool::bytes(self.rx_count(), frame.next_multiple_of(RX_UNIT))
            + rings
    }

    fn rx_count(&self) -> u32 {
        // A queue's descriptors, what a worker and those it hands frames to hold, and the thread's cache.
        let held = |each: u32| u32::from(self.queues) * (u32::from(self.rx_desc) + each);
        // Some drivers fill all descriptors at once, and receive nothing if that empties the pool.
        self.rx.map_or_else(|| held(1_024).next_power_of_two().max(2_048) - 1, |asked| asked.max(held(128)))
    }
}

/// What a port counted since it was opened. Software ports don't count everything (`net_ring` counts no bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub ipackets: u64,
    /// Frames sent.
    pub opackets: u64,
    /// Bytes received.
    pub ibytes: u64,
    /// Bytes sent.
    pub obytes: u64,
    /// Frames lost for want of a free receive descriptor.
    pub imissed: u64,
    /// Frames received with an error.
    pub ierrors: u64,
    /// Frames that the port accepted and did not send.
    pub oerrors: u64,
    /// Receive buffers that could not be allocated.
    pub rx_nombuf: u64,
}

/// One queue of a port, each way.
#[derive(Debug)]
pub struct Queue {
    /// Frames in.
    pub rx: RxQueue,
    /// Frames out.
    pub tx: TxQueue,
}

/// A running port. It is stopped and closed when it and all its queues are gone.
#[derive(Debug)]
pub struct Port {
    inner: Arc<Inner>,
    taken: Vec<bool>,
    mac: [u8; 6],
    mtu: u16,
}

/// What queues keep alive. Fields go in this order, after the port is closed.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) id: u16,
    pub(super) name: String,
    pub(super) driver: Driver,
    /// The device to remove, unless it is on a bus.
    pub(super) vdev: Option<CString>,
    pub(super) max_frame: usize,
    /// Its address, where it is a PCI device.
    pub(super) pci: Option<String>,
    /// Frames may have pieces of registered memory.
    pub(super) lending: Lending,
    /// Hosts of all kinds may be at its other end.
    pub(super) on_ethernet: bool,
    /// Of a port that is started when its peer is there.
    pub(super) gate: Option<Gate>,
    pub(super) pools: Arc<Pools>,
    pub(super) _pair: Option<Arc<Pair>>,
    pub(super) _files: Vec<Arc<File>>,
    pub(super) _eal: Eal,
}

#[derive(Debug)]
pub(super) struct Pools {
    pub(super) small: Pool,
    pub(super) large: Pool,
    /// Without bytes of their own: they refer to registered memory. `None` where the port takes none such.
    pub(super) pieces: Option<Pool>,
    /// To receive into; `None` where frames arrive in the sender's own mbufs.
    rx: Option<Pool>,
}

impl Port {
    /// Opens and starts a port.
    ///
    /// # Errors
    /// Everything that [`Error`] has to say about ports.
    pub fn open(eal: &Eal, spec: &PortSpec, config: &PortConfig) -> Result<Port, Error> {
        let mut spec = spec.clone();
        let driver = Driver::of(spec.device());
        let text = spec.to_string();
        let name = c_string(&text, spec.device())?;
        if port_id(&name).is_some() && spec.pci().is_none() {
            return Err(Error::Duplicate { name: spec.device().to_owned(), spec: text });
        }
        // SAFETY: EAL is up; the name outlives the call.
        if spec.pci().is_none() && capture(|| unsafe { sys::mrc_device_known(name.as_ptr()) }).0 == 0 {
            return Err(Error::NoDriver { name: spec.device().to_owned(), spec: text });
        }
        let plan = driver.plan(&mut spec, config.mtu, DEFAULT_MTU, config.queues)?;
        let pools = Pools::new(&text, config, &plan, true)?;
        let vdev = match &spec.kind {
            Kind::Vdev { .. } => {
                let args = c_string(&text, &spec.arguments())?;
                // SAFETY: EAL is up; both strings outlive the call.
                let (code, said) = capture(|| unsafe { sys::rte_vdev_init(name.as_ptr(), args.as_ptr()) });
                if code != 0 {
                    return Err(driver.refusal(&spec, code, said));
                }
                Some(name.clone())
            }
            Kind::Pci(address) => {
                if port_id(&name).is_none() {
                    // SAFETY: EAL is up; the string outlives the call.
                    let (code, said) = capture(|| unsafe { sys::rte_dev_probe(name.as_ptr()) });
                    if code != 0 {
                        return Err(Error::NoPci { address: address.clone(), said });
                    }
                }
                None
            }
        };
        let Some(id) = port_id(&name) else {
            if let Some(vdev) = &vdev {
                remove(vdev);
            }
            return Err(match spec.pci() {
                Some(address) => Error::NoPci { address: address.to_owned(), said: Said::default() },
                None => step(&text, "finding the port of the device", -libc::ENODEV, Said::default()),
            });
        };
        let gate = (driver == Driver::Memif && Driver::is_memif_client(&spec)).then(|| Gate::new(config.queues));
        let inner = Inner {
            id,
            name: text,
            driver,
            gate,
            vdev,
            max_frame: plan.max_frame,
            pci: spec.pci().map(str::to_owned),
            lending: Lending::of_driver(plan.pieces),
            on_ethernet: driver.is_on_ethernet(&spec),
            pools: Arc::new(pools),
            _pair: None,
            _files: spec.files,
            _eal: eal.clone(),
        };
        Port::start(inner, config, plan.mtu)
    }

    pub(super) fn start(mut inner: Inner, config: &PortConfig, mtu: u16) -> Result<Port, Error> {
        let (id, name, queues) = (inner.id, inner.name.clone(), config.queues);
        let name = name.as_str();
        let check = |what: &'static str, (code, said): (i32, Said)| {
            if code < 0 { Err(step(name, what, code, said)) } else { Ok(()) }
        };
        let mut info = sys::rte_eth_dev_info::default();
        // SAFETY: the port exists, and the structure is DPDK's own.
        check("asking what the port can do", capture(|| unsafe { sys::rte_eth_dev_info_get(id, &raw mut info) }))?;
        let max = info.max_rx_queues.min(info.max_tx_queues);
        if queues == 0 || queues > max {
            return Err(Error::Queues { spec: name.to_owned(), asked: queues, max });
        }
        let mut conf = sys::rte_eth_conf::default();
        conf.rxmode.mtu = u32::from(accepted_mtu(&inner, &info, mtu, config.mtu)?);
        // SAFETY: a constant.
        let rss = info.flow_type_rss_offloads & unsafe { sys::mrc_rss_addresses };
        if queues > 1 && rss != 0 && inner.driver == Driver::Other {
            // On the addresses alone: MRC sprays over source ports, and a peer belongs to one worker.
            conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf = rss;
        }
        inner.lending = inner.lending.with(abilities(&info));
        if inner.lending.pieces() != Pieces::None {
            // SAFETY: a constant.
            conf.txmode.offloads |= unsafe { sys::mrc_multi_segs };
        }
        // SAFETY: as above.
        let set = capture(|| unsafe { sys::rte_eth_dev_configure(id, queues, queues, &raw const conf) });
        check("configuring the port", set)?;
        let (mut rx_desc, mut tx_desc) = (config.rx_desc, config.tx_desc);
        check(
            "choosing descriptors",
            // SAFETY: as above.
            capture(|| unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &raw mut rx_desc, &raw mut tx_desc) }),
        )?;
        let pool = inner.pools.rx.as_ref().unwrap_or(&inner.pools.large).as_ptr();
        // SAFETY: as above; a port that isn't there gives a negative number, which means any.
        let socket = unsafe { sys::rte_eth_dev_socket_id(id) } as u32;
        for queue in 0..queues {
            // SAFETY: the port is configured for the queue; the pool lives as long as the port. Null means defaults.
            let set =
                capture(|| unsafe { sys::rte_eth_rx_queue_setup(id, queue, rx_desc, socket, core::ptr::null(), pool) });
            check("setting up a receive queue", set)?;
            let set = inner.set_up_tx(queue, tx_desc, socket, &info);
            check("setting up a transmit queue", set)?;
        }
        match &inner.gate {
            Some(gate) => gate.start(id),
            // SAFETY: as above.
            None => check("starting the port", capture(|| unsafe { sys::rte_eth_dev_start(id) }))?,
        }
        // SAFETY: the queue is set up, nobody uses it yet, and nothing was sent.
        if inner.lending == Lending::Mapped && unsafe { sys::rte_eth_tx_done_cleanup(id, 0, 0) } < 0 {
            inner.lending = Lending::Never("its driver gives sent frames back only when it needs their room");
        }
        // Some ports have no such modes, and receive everything. Neighbour discovery asks multicast addresses (RFC 4861, 7.2.1).
        // SAFETY: as above.
        let _ = capture(|| unsafe {
            sys::rte_eth_promiscuous_enable(id);
            sys::rte_eth_allmulticast_enable(id)
        });
        let mut mac = mac_of(id);
        if inner.driver == Driver::Tap {
            // The driver gives both ends of the tap one address, and a bridge would keep frames for it to itself.
            mac[5] ^= 1;
        }
        Ok(Port { inner: Arc::new(inner), taken: vec![false; usize::from(queues)], mac, mtu })
    }

    /// The port as the user named it, with the arguments given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The port's MAC address; for a port without one, a locally administered one.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The largest IP packet that the port carries, in bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The largest frame that the port carries both ways, in bytes without FCS.
    #[must_use]
    pub fn max_frame(&self) -> usize {
        self.inner.max_frame
    }

    /// Whether it is on an Ethernet with hosts of all kinds: those are asked for their addresses, and ask for the NIC's. A port joined to another
    /// NIC's (`net_memif`, `net_ring`), or to a file, is not.
    #[must_use]
    pub fn is_on_ethernet(&self) -> bool {
        self.inner.on_ethernet
    }

    /// Whether payload leaves it from where it lies, else why not.
    #[must_use]
    pub fn lending(&self) -> Lending {
        self.inner.lending
    }

    /// How many queues it has each way.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.taken.len()
    }

    /// Queue `index`; `None` when there is none, or it was taken before. Each goes to one thread.
    pub fn take_queue(&mut self, index: u16) -> Option<Queue> {
        let taken = self.taken.get_mut(usize::from(index))?;
        if core::mem::replace(taken, true) {
            return None;
        }
        let (rx, tx) = (Arc::clone(&self.inner), Arc::clone(&self.inner));
        Some(Queue { rx: RxQueue::new(rx, index), tx: TxQueue::new(tx, index) })
    }

    /// Stops the port and starts it again. A `net_pcap` port then begins with the first packet of its file again, and empties
    /// the one that it writes. `queue` is the port's only one.
    ///
    /// # Errors
    /// The port has more queues, `queue` is not its own, or it comes and goes with its peer (`net_memif`); or the driver
    /// refused. The port is stopped then: it receives and takes nothing.
    pub fn restart(&mut self, queue: &mut Queue) -> Result<(), Error> {
        let (id, name) = (self.inner.id, self.inner.name.as_str());
        // Both halves are borrowed, and there are no others: nobody polls the port meanwhile.
        let lent = self.taken.len() == 1 && queue.rx.is_of(&self.inner) && queue.tx.is_of(&self.inner);
        if !lent || self.inner.gate.is_some() {
            return Err(step(name, "restarting the port", -libc::EINVAL, Said::default()));
        }
        // SAFETY: the port is open.
        let (code, said) = capture(|| unsafe {
            match sys::rte_eth_dev_stop(id) {
                0 => sys::rte_eth_dev_start(id),
                code => code,
            }
        });
        if code < 0 { Err(step(name, "restarting the port", code, said)) } else { Ok(()) }
    }

    /// The link's speed in Mbit/s as the driver reports it; `None` while the link is down.
    ///
    /// To be asked now and then: a `net_memif` client without link tries to reach its server from here, ten times a second
    /// at most.
    pub fn link(&self) -> Option<u32> {
        self.inner.link()
    }

    /// What looks at the port's link from another thread. It keeps the port open.
    #[must_use]
    pub fn link_watch(&self) -> LinkWatch {
        LinkWatch(self.keep())
    }

    /// The port's counters.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        let mut raw = sys::rte_eth_stats::default();
        // SAFETY: the port is open, and the structure is DPDK's own. On failure it stays zero.
        unsafe { sys::rte_eth_stats_get(self.inner.id, &raw mut raw) };
        PortStats {
            ipackets: raw.ipackets,
            opackets: raw.opackets,
            ibytes: raw.ibytes,
            obytes: raw.obytes,
            imissed: raw.imissed,
            ierrors: raw.ierrors,
            oerrors: raw.oerrors,
            rx_nombuf: raw.rx_nombuf,
        }
    }

    pub(super) fn keep(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }
}

/// A port's link, for a thread that has neither the port nor a queue of it.
#[derive(Clone, Debug)]
pub struct LinkWatch(Arc<Inner>);

impl LinkWatch {
    /// As [`Port::link`].
    pub fn link(&self) -> Option<u32> {
        self.0.link()
    }
}

impl Inner {
    /// Sets up a transmit queue, with the driver's defaults; but of a card that is lent memory each frame is to be known as sent, and not only every
    /// so many: the last ones before a pause would not come back.
    fn set_up_tx(&mut self, queue: u16, desc: u16, socket: u32, info: &sys::rte_eth_dev_info) -> (i32, Said) {
        let id = self.id;
        let set_up = |conf: *const sys::rte_eth_txconf| {
            // SAFETY: the port is configured for the queue; the configuration is null, which means defaults, or outlives the call.
            capture(|| unsafe { sys::rte_eth_tx_queue_setup(id, queue, desc, socket, conf) })
        };
        if self.lending == Lending::Mapped && info.default_txconf.tx_rs_thresh > 1 {
            let conf = sys::rte_eth_txconf { tx_rs_thresh: 1, ..info.default_txconf };
            let set = set_up(&raw const conf);
            if set.0 >= 0 {
                return set;
            }
            self.lending = Lending::Never("its driver does not tell of each frame that it is sent");
        }
        set_up(core::ptr::null())
    }

    fn link(&self) -> Option<u32> {
        let mut mbps = 0;
        // SAFETY: the port is open as long as this is there, and drivers let any thread read a port's link.
        let up = unsafe { sys::mrc_link(self.id, &raw mut mbps) } == 1;
        if let Some(gate) = &self.gate
            && !up
        {
            gate.restart(self.id);
        }
        up.then_some(mbps)
    }
}

/// What a port says of itself, as far as it matters for lending.
fn abilities(info: &sys::rte_eth_dev_info) -> Abilities {
    Abilities {
        // SAFETY: a constant.
        segments: info.tx_offload_capa & unsafe { sys::mrc_multi_segs } != 0,
        most_segments: info.tx_desc_lim.nb_mtu_seg_max,
        // SAFETY: EAL is up.
        virtual_addresses: unsafe { sys::rte_eal_iova_mode() } == sys::RTE_IOVA_VA,
    }
}

/// The MTU to configure: what the driver takes, where it reports a limit that it does not have.
fn accepted_mtu(inner: &Inner, info: &sys::rte_eth_dev_info, mtu: u16, asked: Option<u16>) -> Result<u16, Error> {
    let overhead = if info.max_mtu != u16::MAX && info.max_rx_pktlen > u32::from(info.max_mtu) {
        info.max_rx_pktlen - u32::from(info.max_mtu)
    } else {
        18
    };
    let by_frame = u16::try_from(info.max_rx_pktlen.saturating_sub(overhead)).unwrap_or(u16::MAX);
    let max = if info.max_mtu == 0 { by_frame } else { info.max_mtu.min(by_frame) };
    if mtu <= max || inner.driver.ignores_mtu() {
        return Ok(mtu.min(max));
    }
    match asked {
        Some(asked) => {
            let why = format!("its driver takes {max} at most");
            Err(Error::Mtu { spec: inner.name.clone(), asked, why })
        }
        None => Ok(max),
    }
}

impl Pools {
    pub(super) fn new(what: &str, config: &PortConfig, plan: &Plan, receives: bool) -> Result<Pools, Error> {
        if plan.rx_room > MAX_FRAME {
            let why = format!("a buffer holds {MAX_FRAME} bytes at most");
            return Err(Error::Mtu { spec: what.to_owned(), asked: plan.mtu, why });
        }
        Ok(Pools {
            small: Pool::new(&format!("small frames of {what}"), config.small, SMALL_FRAME)?,
            large: Pool::new(&format!("large frames of {what}"), config.large, plan.max_frame)?,
            pieces: (plan.pieces != Pieces::None)
                .then(|| Pool::new(&format!("references of {what}"), config.small, 0))
                .transpose()?,
            rx: receives
                .then(|| Pool::new(&format!("received frames of {what}"), config.rx_count(), plan.rx_room))
                .transpose()?,
        })
    }
}

pub(super) fn step(spec: &str, step: &'static str, code: i32, said: Said) -> Error {
    Error::Port { spec: spec.to_owned(), step, why: strerror(code), said }
}

pub(super) fn c_string(spec: &str, text: &str) -> Result<CString, Error> {
    CString::new(text)
        .map_err(|_| Error::BadSpec { spec: spec.to_owned(), why: "there is a zero byte in it".to_owned() })
}

fn port_id(name: &CStr) -> Option<u16> {
    let mut id = 0;
    let name: *const c_char = name.as_ptr();
    // SAFETY: EAL is up (the callers hold its token); the name is a C string.
    (unsafe { sys::rte_eth_dev_get_port_by_name(name, &raw mut id) } == 0).then_some(id)
}

fn mac_of(id: u16) -> [u8; 6] {
    let mut address = sys::rte_ether_addr::default();
    // SAFETY: the port is open, and the structure is DPDK's own.
    let code = unsafe { sys::rte_eth_macaddr_get(id, &raw mut address) };
    if code != 0 || address.addr_bytes == [0; 6] {
        let [high, low] = id.to_be_bytes();
        return [0x02, 0, 0, 0, high, low];
    }
    address.addr_bytes
}

fn remove(vdev: &CStr) {
    // SAFETY: EAL is up; the name is a C string. A device that is gone already is no harm.
    let _ = capture(|| unsafe { sys::rte_vdev_uninit(vdev.as_ptr()) });
}

impl Drop for Inner {
    fn drop(&mut self) {
        let id = self.id;
        // SAFETY: the port is open; no queue is left that could poll it, for each holds a reference to this.
        let close = move || unsafe {
            sys::rte_eth_dev_stop(id);
            sys::rte_eth_dev_close(id)
        };
        // A peer of memif's that leaves at the same time is handled by DPDK's own thread, and the two do not go together.
        let _ = capture(|| if self.driver == Driver::Memif { on_interrupt_thread(close) } else { close() });
        if let Some(vdev) = &self.vdev {
            remove(vdev);
        }
    }
}

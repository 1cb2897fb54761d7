//! The NIC behind the verbs: one for the process, while anybody has it open.

use crate::call::{Address, Errno, lock};
use crate::fd::FdQueue;
use crate::qp::mrc_qp;
use crate::verbs::{IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, ibv_event_type};
use control::host::{AsyncEvent, Device, DeviceFile, Notify, Reach, any_seed};
use control::neighbour::NeighbourError;
use dataplane::dpdk::Eal;
use dataplane::wire::MacAddr;
use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// The environment variable that names the device's file.
pub(crate) const CONFIG: &str = "MRCNIC_CONFIG";
/// The thread that passes events on looks this often even if nobody wakes it.
const LOOK: Duration = Duration::from_millis(200);

/// An event of a QP's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpEvent {
    /// The MRC context that the QP is of, by its number.
    pub(crate) context: u64,
    pub(crate) qp: Address<mrc_qp>,
    pub(crate) kind: ibv_event_type,
}

/// Who hears of a QP.
#[derive(Clone, Debug)]
pub(crate) struct Hearer {
    pub(crate) context: u64,
    pub(crate) qp: Address<mrc_qp>,
    pub(crate) events: Arc<FdQueue<QpEvent>>,
}

/// QPs by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<HashMap<u32, Hearer>>);

impl Registry {
    pub(crate) fn add(&self, qpn: u32, hearer: Hearer) {
        lock(&self.0).insert(qpn, hearer);
    }

    /// Takes a QP out: no event of its is put anywhere once this returns.
    pub(crate) fn remove(&self, qpn: u32) {
        lock(&self.0).remove(&qpn);
    }

    fn pass(&self, event: AsyncEvent) {
        let AsyncEvent::QpError { qpn, cause } = event else { return };
        let kind = if cause.is_some() { IBV_EVENT_QP_FATAL } else { IBV_EVENT_QP_ACCESS_ERR };
        let hearers = lock(&self.0);
        if let Some(Hearer { context, qp, events }) = hearers.get(&qpn.get()) {
            events.put(QpEvent { context: *context, qp: *qp, kind });
        }
    }
}

/// Wakes the thread that passes events on.
struct Wake(Thread);

impl Notify for Wake {
    fn notify(&self) {
        self.0.unpark();
    }
}

/// The way to an address.
#[derive(Debug)]
pub(crate) enum Way {
    /// Ethernet addresses, one for each port, that stay.
    Known(Vec<MacAddr>),
    /// It was found by asking.
    Found(Reach),
}

impl Way {
    pub(crate) fn macs(&self) -> &[MacAddr] {
        match self {
            Way::Known(macs) => macs,
            Way::Found(reach) => reach.macs(),
        }
    }
}

/// The NIC, running.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) device: Device,
    pub(crate) file: Arc<DeviceFile>,
    pub(crate) registry: Arc<Registry>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Says why, on standard error: an error number alone helps nobody with a file.
pub(crate) fn say(why: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "libmrc: {why}");
}

/// What the environment says that the device is.
pub(crate) fn configured() -> Result<DeviceFile, Errno> {
    let file = match std::env::var_os(CONFIG) {
        Some(path) => DeviceFile::load(Path::new(&path)),
        None => DeviceFile::loopback(),
    };
    file.map_err(|e| {
        say(&e);
        libc::EINVAL
    })
}

/// The NIC, while anybody has it open.
static NODE: Mutex<Weak<Node>> = Mutex::new(Weak::new());

/// The program's signals are for the program's own threads: those that are started meanwhile take none, but for their own faults.
struct Unsignaled(libc::sigset_t);

impl Unsignaled {
    fn here() -> Unsignaled {
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];
        // SAFETY: a set of signals is plain numbers, for which zeros will do; it is filled in before it is used.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
        // SAFETY: both sets are ours, and the numbers are those of signals.
        unsafe {
            libc::sigfillset(&raw mut all);
            for signal in faults {
                libc::sigdelset(&raw mut all, signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        }
        Unsignaled(before)
    }
}

impl Drop for Unsignaled {
    fn drop(&mut self) {
        // SAFETY: the set is the one that this thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

impl Node {
    /// The NIC that runs already, or one that is brought up now.
    pub(crate) fn open(file: &Arc<DeviceFile>) -> Result<Arc<Node>, Errno> {
        static DPDK: OnceLock<Eal> = OnceLock::new();
        let mut node = lock(&NODE);
        if let Some(node) = node.upgrade() {
            return Ok(node);
        }
        let _signals = Unsignaled::here();
        let failed = |e: control::error::Error| {
            say(&e);
            libc::ENODEV
        };
        let mut spec = file.spec.clone();
        if !file.seeded {
            spec.params.seed = any_seed();
        }
        let eal = match DPDK.get() {
            Some(eal) => eal,
            None => {
                let eal = Device::start(&spec).map_err(failed)?;
                DPDK.get_or_init(|| eal)
            }
        };
        let device = Device::open_in(eal, spec).map_err(failed)?;
        let registry: Arc<Registry> = Arc::default();
        let over: Arc<AtomicBool> = Arc::default();
        let (heard, passes, ends) = (device.clone(), Arc::clone(&registry), Arc::clone(&over));
        let pass_on = move || {
            while !ends.load(Ordering::Relaxed) {
                while let Some(event) = heard.poll_event() {
                    passes.pass(event);
                }
                std::thread::park_timeout(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("mrcnic-events".into()).spawn(pass_on);
        let thread = thread.map_err(|_| libc::EAGAIN)?;
        device.hear_events(Arc::new(Wake(thread.thread().clone())));
        let up = Arc::new(Node { device, file: Arc::clone(file), registry, over, thread: Some(thread) });
        *node = Arc::downgrade(&up);
        Ok(up)
    }

    /// Gives the NIC up. Whoever opens it meanwhile waits until it is down, if this was the last.
    pub(crate) fn close(node: Arc<Node>) {
        let _turn = lock(&NODE);
        drop(node);
    }

    /// The Ethernet address of its first port.
    pub(crate) fn mac(&self) -> MacAddr {
        self.file.mac.or_else(|| self.device.ports().first().map(|port| port.mac)).unwrap_or(MacAddr([0; 6]))
    }

    /// The way to an address: a neighbour of the file, the NIC itself, or who answers when it is asked for.
    pub(crate) fn reach(&self, ip: IpAddr) -> Result<Way, Errno> {
        if let Some(macs) = self.file.neighbours.get(&ip) {
            return Ok(Way::Known(macs.clone()));
        }
        if ip == self.file.ip {
            return Ok(Way::Known(match self.file.mac {
                Some(mac) => vec![mac],
                None => self.device.ports().iter().map(|port| port.mac).collect(),
            }));
        }
        let unknown = || {
            format!(
                "{ip} is not reached: give it as a neighbour in the file, for no port is on an Ethernet where it could be asked for"
            )
        };
        if !self.device.has_neighbours() {
            say(&unknown());
            return Err(libc::EHOSTUNREACH);
        }
        self.device.reach(ip, &[]).map(Way::Found).map_err(|why| {
            say(&why);
            if matches!(why, NeighbourError::Gone { .. }) { libc::ETIMEDOUT } else { libc::EHOSTUNREACH }
        })
    }
}

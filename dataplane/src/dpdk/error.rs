//! What can go wrong on the way to a running port, told so that the reader knows what to do next.

use core::fmt;

/// The last lines that DPDK logged about a failure; empty when it said nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said(pub(crate) Vec<String>);

impl Said {
    /// The lines, oldest first.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    pub(crate) fn mentions(&self, what: &str) -> bool {
        self.0.iter().any(|line| line.contains(what))
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; DPDK said: {}", self.0.join(" / ")) }
    }
}

/// A failure of the live driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The second [`Eal::init`](super::Eal::init) of a process.
    #[error("DPDK was already started in this process: it starts once in each")]
    EalTwice,

    /// `rte_eal_init` failed.
    #[error("DPDK did not start: {why}{said}")]
    EalInit {
        /// The reason, and a way out where there is one.
        why: String,
        /// DPDK's own words.
        said: Said,
    },

    /// Hugepages were asked for and there are none that this user can have.
    #[error("no hugepages to be had: {why}; mount hugetlbfs and reserve pages, or run without them (no-huge)")]
    NoHugepages {
        /// What is missing.
        why: String,
    },

    /// A port was described in a way that can't be read.
    #[error("port {spec:?}: {why}")]
    BadSpec {
        /// The text.
        spec: String,
        /// What is wrong with it.
        why: String,
    },

    /// No driver of DPDK answers to the name.
    #[error(
        "port {spec}: DPDK has no driver for {name:?} here; install the drivers (Debian: libdpdk-dev, or librte-net-* for \
         one), or check the name"
    )]
    NoDriver {
        /// The port.
        spec: String,
        /// The device's name, whose beginning names the driver.
        name: String,
    },

    /// The driver refused its arguments.
    #[error("port {spec}: the driver refused its arguments{why}{said}")]
    BadDevice {
        /// The port.
        spec: String,
        /// The code that it gave, in words, if it tells anything.
        why: String,
        /// DPDK's own words.
        said: Said,
    },

    /// A port of that name is open already.
    #[error(
        "port {spec}: a device named {name:?} is already open; give each its own number, as in net_null0, net_null1"
    )]
    Duplicate {
        /// The port.
        spec: String,
        /// The device's name.
        name: String,
    },

    /// The network interface is not there.
    #[error("port {spec}: there is no network interface {interface:?}; `ip link` lists what is there")]
    NoInterface {
        /// The port.
        spec: String,
        /// The interface.
        interface: String,
    },

    /// A file or socket that the port needs can't be used.
    #[error("port {spec}: {path}: {why}")]
    File {
        /// The port.
        spec: String,
        /// The path.
        path: String,
        /// What is wrong with it.
        why: String,
    },

    /// The user lacks a right.
    #[error("port {spec}: not permitted: this needs {needs}; run as root, or `setcap {cap}+ep` on the program")]
    NoPermission {
        /// The port.
        spec: String,
        /// What is needed, in words.
        needs: &'static str,
        /// The capability as setcap(8) spells it.
        cap: &'static str,
    },

    /// No such PCI device, or it is not bound to a driver that DPDK can use.
    #[error(
        "port {address}: no such PCI device, or it is not bound to a driver for DPDK (`dpdk-devbind.py --status` tells){said}"
    )]
    NoPci {
        /// The address.
        address: String,
        /// DPDK's own words.
        said: Said,
    },

    /// More queues than the port has.
    #[error("port {spec}: {asked} queues asked for, the port has at most {max}; use fewer workers")]
    Queues {
        /// The port.
        spec: String,
        /// Asked for.
        asked: u16,
        /// What it has.
        max: u16,
    },

    /// The port can't carry the MTU.
    #[error("port {spec}: an MTU of {asked} bytes is not possible there: {why}")]
    Mtu {
        /// The port.
        spec: String,
        /// Asked for, in bytes.
        asked: u16,
        /// The limit, and where it comes from.
        why: String,
    },

    /// Not enough of DPDK's memory.
    #[error("not enough memory for {what} ({mib} MiB): give DPDK more, or ask for fewer or smaller buffers{said}")]
    NoMemory {
        /// What it was for.
        what: String,
        /// Its size in MiB.
        mib: usize,
        /// DPDK's own words.
        said: Said,
    },

    /// A step on the way to a running port failed.
    #[error("port {spec}: {step} failed: {why}{said}")]
    Port {
        /// The port.
        spec: String,
        /// The step.
        step: &'static str,
        /// The code's text.
        why: String,
        /// DPDK's own words.
        said: Said,
    },

    /// A core that this process may not run on.
    #[error("core {core} is not one this process may run on; there are: {available}")]
    NoCore {
        /// Asked for.
        core: usize,
        /// What there is.
        available: String,
    },

    /// A worker thread could not start.
    #[error("worker {worker} did not start: {why}")]
    Worker {
        /// The thread's name.
        worker: String,
        /// The reason.
        why: String,
    },

    /// A worker thread panicked; its lanes are lost, the others were stopped.
    #[error("worker {worker} died of a bug: {message}; please report it")]
    Panicked {
        /// The thread's name.
        worker: String,
        /// The panic's message.
        message: String,
    },
}

impl Error {
    /// True when another command line would have worked: a program exits with 2 then, and with 1 otherwise.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Error::BadSpec { .. }
            | Error::NoDriver { .. }
            | Error::BadDevice { .. }
            | Error::Duplicate { .. }
            | Error::NoInterface { .. }
            | Error::File { .. }
            | Error::NoPci { .. }
            | Error::Queues { .. }
            | Error::Mtu { .. }
            | Error::NoCore { .. } => true,
            Error::EalTwice
            | Error::EalInit { .. }
            | Error::NoHugepages { .. }
            | Error::NoPermission { .. }
            | Error::NoMemory { .. }
            | Error::Port { .. }
            | Error::Worker { .. }
            | Error::Panicked { .. } => false,
        }
    }
}

/// The text of a code that DPDK returned: an errno, of either sign.
pub(super) fn strerror(code: i32) -> String {
    std::io::Error::from_raw_os_error(code.saturating_abs())
        .to_string()
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// rte_errno of this thread.
pub(super) fn rte_errno() -> i32 {
    // SAFETY: reads a thread-local of DPDK's, which is there from load time on.
    unsafe { dpdk_sys::mrc_errno() }
}

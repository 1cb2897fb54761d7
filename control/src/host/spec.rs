//! What a device is made of.

use super::hook::HookMaker;
use crate::controller::PROBE_PERIOD;
use crate::error::Error;
use crate::neighbour::NeighbourSpec;
use crate::records::RecordSpec;
use dataplane::dpdk::{PortConfig, PortSpec};
use dataplane::nic::{NicParams, PORTS_MAX};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Workers of a device at most.
pub const WORKERS_MAX: usize = 64;
/// Requests that the ring to a worker takes at most.
pub const RING_MAX: usize = 1 << 16;
/// Requests that the ring to a worker takes where nothing is said.
const RING: usize = 4096;

/// What a device is made of, and how it behaves. The default has no port, which is one too few.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// What operators call it.
    pub name: String,
    /// Its ports, 1 to 8, each in a plane of its own.
    pub ports: Vec<PortSpec>,
    /// How each port is set up; it has a queue for each worker, whatever this says of queues.
    pub port: PortConfig,
    /// Workers, 1 to [`WORKERS_MAX`]: each has an engine, and queue i of each port.
    pub workers: usize,
    /// A core for each worker, which may be the same; without, the operating system chooses.
    pub cores: Option<Vec<usize>>,
    /// The engines. Their seed is `params.seed`, and one of its own for each worker.
    pub params: NicParams,
    /// Where the ports carry less than a full packet of `params.transport.mss`, the MSS is the largest of 4,096, 2,048, 1,024, 512 and 256
    /// that fits, rather than an error.
    pub fit_mss: bool,
    /// `ReliabilityProbePeriod` in ns, 1 to 8 s.
    pub probe_period_ns: u64,
    /// After so many turns without work a worker yields its core; 0 never does.
    pub idle_polls: u32,
    /// Requests that the ring to each worker takes, 1 to [`RING_MAX`].
    pub ring: usize,
    /// Where operators may ask (`mrcnic ctl`).
    pub ctl: Option<PathBuf>,
    /// What is recorded.
    pub records: RecordSpec,
    /// The NIC's number in records.
    pub node_id: u32,
    /// What it is among its neighbours: with it, it answers ARP, neighbour discovery and ping on ports that are on an Ethernet, and peers can be
    /// found there ([`super::Device::reach`]).
    pub neighbours: Option<NeighbourSpec>,
    /// What else runs on the workers.
    pub hooks: Option<HookMaker>,
}

/// A seed that no other start has.
#[must_use]
pub fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    now ^ u64::from(std::process::id()) << 40
}

impl Default for DeviceSpec {
    fn default() -> DeviceSpec {
        DeviceSpec {
            name: "a".into(),
            ports: Vec::new(),
            port: PortConfig::default(),
            workers: 1,
            cores: None,
            params: NicParams { merge_sacks: true, ..NicParams::default() },
            fit_mss: true,
            probe_period_ns: PROBE_PERIOD,
            idle_polls: 64,
            ring: RING,
            ctl: None,
            records: RecordSpec::default(),
            node_id: 0,
            neighbours: None,
            hooks: None,
        }
    }
}

impl DeviceSpec {
    /// What is wrong with it, as far as that shows without its ports.
    pub(super) fn check(&self, ports: usize) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::Usage(why));
        let DeviceSpec { workers, cores, ring, .. } = self;
        if ports == 0 || ports > PORTS_MAX {
            return wrong(format!("a NIC has 1 to {PORTS_MAX} ports, but {ports} were given"));
        }
        if !(1..=WORKERS_MAX).contains(workers) {
            return wrong(format!("{workers} workers: a NIC has 1 to {WORKERS_MAX}"));
        }
        if let Some(cores) = cores
            && cores.len() != *workers
        {
            return wrong(format!("{} cores for {workers} workers: name one for each, or none", cores.len()));
        }
        if !(1..=RING_MAX).contains(ring) {
            return wrong(format!("a ring of {ring} requests: it takes 1 to {RING_MAX}"));
        }
        Ok(())
    }
}

//! A device: ports, workers and control thread of one NIC.

use super::books::Books;
use super::bring_up::{self, eal_options, full_frame, longest_frame, port_infos, usual_mss};
use super::completion_queue::CompletionQueue;
use super::error::HostError;
use super::event::{AsyncEvent, Events};
use super::memory::ProtectionDomain;
use super::notify::Notify;
use super::reach::Reach;
use super::ring::WorkerRing;
use super::seat::Seat;
use super::spec::DeviceSpec;
use crate::controller::{CcBase, ControlThread, ControlledNic, Controller, Operator, Server};
use crate::error::Error;
use crate::neighbour::NeighbourError;
use crate::records::{Node, Recording};
use dataplane::Ns;
use dataplane::dpdk::{Clock, Dma, Eal, Impairments, Port, PortConfig, PortStats, Worker, WorkerOptions, Workers};
use dataplane::memory::{Domain, Keys};
use dataplane::nic::{Nic, NicParams, PortInfo, QpNumbers, Stats};
use dataplane::path::SprayingParams;
use dataplane::transport::TransportParams;
use dataplane::wire::MacAddr;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A NIC that runs. Clones are the same device, and every handle keeps it alive: its workers end when the last is gone.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) inner: Arc<Inner>,
}

/// What handles keep alive. Fields go in this order: operators, workers, records, control thread, ports.
pub(super) struct Inner {
    /// Told apart from other devices of the process by this.
    pub(super) number: u64,
    pub(super) workers: Vec<WorkerRing>,
    pub(super) keys: Mutex<Keys>,
    pub(super) numbers: Mutex<QpNumbers>,
    domains: AtomicU32,
    events: Arc<Events>,
    name: String,
    has_neighbours: bool,
    pub(super) params: NicParams,
    infos: Vec<PortInfo>,
    stats: Vec<Arc<Stats>>,
    clock: Clock,
    _server: Option<Server>,
    threads: Workers<Nic, Seat>,
    _recording: Option<Recording>,
    control: ControlThread,
    ports: Vec<Port>,
    /// Maps memory for those of them that need it.
    pub(super) dma: Dma,
}

impl Inner {
    /// What passes requests to the control thread, and what that calls this NIC.
    pub(super) fn operator(&self) -> Option<(Operator, String)> {
        Some((self.control.operator()?, self.name.clone()))
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({:?}, {} workers, {} ports)", self.name, self.workers.len(), self.ports.len())
    }
}

impl Device {
    /// Starts DPDK and brings the NIC up: its workers poll when this returns. DPDK starts once a process: further devices of one are
    /// made by [`Device::over`].
    ///
    /// # Errors
    /// [`Error::Usage`] or [`Error::Dpdk`] when the spec is wrong or names what is not there, and what else can't be brought up.
    pub fn open(spec: DeviceSpec) -> Result<Device, Error> {
        let eal = Device::start(&spec)?;
        Device::open_in(&eal, spec)
    }

    /// Starts DPDK, with as much memory as such a device needs. It may be done once in a process.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn start(spec: &DeviceSpec) -> Result<Eal, Error> {
        spec.check(spec.ports.len())?;
        let eal = Eal::init(&eal_options(&spec.ports, spec.ports.len(), &port_config(spec)))?;
        tracing::debug!(version = Eal::version(), cores = ?eal.cores(), "DPDK is up");
        Ok(eal)
    }

    /// As [`Device::open`], once DPDK has been started: a device that is gone may be opened again.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open_in(eal: &Eal, spec: DeviceSpec) -> Result<Device, Error> {
        spec.check(spec.ports.len())?;
        let config = port_config(&spec);
        let ports = spec.ports.iter().map(|port| Port::open(eal, port, &config));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        for port in &ports {
            tracing::info!(
                port = port.name(),
                max_frame = port.max_frame(),
                queues = port.queues(),
                payload = %port.lending(),
                "a port is open"
            );
        }
        Device::over(eal, ports, spec)
    }

    /// Brings a NIC up over ports that are open, each with a queue for each worker that nobody has taken; `spec.ports` is not looked at.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn over(eal: &Eal, mut ports: Vec<Port>, spec: DeviceSpec) -> Result<Device, Error> {
        static DEVICES: AtomicU64 = AtomicU64::new(1);
        spec.check(ports.len())?;
        if let Some(port) = ports.iter().find(|port| port.queues() < spec.workers) {
            let (name, queues, workers) = (port.name(), port.queues(), spec.workers);
            return Err(Error::Usage(format!(
                "port {name} has {queues} queues for {workers} workers: give it one for each"
            )));
        }
        let dma = Dma::new(&ports);
        let infos = port_infos(&ports);
        let params = params(&spec, longest_frame(&ports))?;
        let engine = |k: usize| Nic::new(NicParams { seed: params.seed.wrapping_add(k as u64), ..params }, &infos);
        let mut nics: Vec<Nic> =
            (0..spec.workers).map(engine).collect::<Result<_, _>>().map_err(|e| Error::Usage(e.to_string()))?;
        nics.iter_mut().for_each(Nic::lend_payload);
        let stats: Vec<Arc<Stats>> = nics.iter().map(|nic| Arc::clone(nic.stats())).collect();
        let clock = Clock::new(eal);
        let node = Node { id: spec.node_id, name: spec.name.as_str().into() };
        let (recording, ends) =
            Recording::of(&spec.records, vec![(node, spec.workers)], longest_frame(&ports), clock.now())?;
        let mut records = ends.into_iter().flatten();
        let mut control = ControlThread::start(move || clock.now())?;
        let (links, ends) = bring_up::links(spec.workers, &control);
        let links_of_ports = ports.iter().map(Port::link_watch).collect();
        let controller =
            Controller::new(spec.probe_period_ns, spec.workers, infos.len() as u8).with_congestion(CcBase::of(&params));
        let has_neighbours = bring_up::has_neighbours(spec.neighbours.as_ref(), &ports);
        let vicinity = bring_up::vicinity(spec.neighbours.as_ref(), &ports, &mut nics, &control);
        let name = spec.name.clone();
        let engines = stats.clone();
        control.control(vec![ControlledNic {
            name,
            controller,
            workers: ends,
            engines,
            links: links_of_ports,
            vicinity,
        }]);
        let stop = Arc::new(AtomicBool::new(false));
        let ring = |_| WorkerRing::new(spec.ring, Arc::clone(&stop));
        let workers: Vec<WorkerRing> = (0..spec.workers).map(ring).collect();
        let events: Arc<Events> = Arc::default();
        let seats = links.into_iter().zip(&workers).enumerate().map(|(k, (link, ring))| {
            let hooks = spec.hooks.as_ref().map(|maker| maker.hooks(k)).unwrap_or_default();
            let mut records = records.next();
            if let (Some(records), Some(nic)) = (&mut records, nics.get_mut(k)) {
                records.attach(nic);
            }
            Seat { link, jobs: ring.jobs(), books: Books::new(Arc::clone(&events)), records, hooks }
        });
        let seats: Vec<Seat> = seats.collect();
        let lanes = bring_up::lanes(&mut ports, nics, seats, |_| Impairments::default())?;
        let core = |k: usize| spec.cores.as_ref().and_then(|cores| cores.get(k).copied());
        let threads = lanes.into_iter().enumerate().map(|(k, lane)| Worker::new(core(k), vec![lane])).collect();
        let behaviour = WorkerOptions { idle_polls: spec.idle_polls };
        let threads = Workers::spawn(eal, clock, threads, behaviour, stop)?;
        tracing::info!(workers = workers.len(), cores = ?spec.cores, "workers poll");
        let server = match (&spec.ctl, control.operator()) {
            (Some(path), Some(operator)) => Some(Server::listen(path, operator)?),
            _ => None,
        };
        let inner = Inner {
            number: DEVICES.fetch_add(1, Ordering::Relaxed),
            workers,
            keys: Mutex::default(),
            numbers: Mutex::default(),
            domains: AtomicU32::new(1),
            events,
            name: spec.name,
            has_neighbours,
            params,
            infos,
            stats,
            clock,
            _server: server,
            threads,
            _recording: recording,
            control,
            ports,
            dma,
        };
        Ok(Device { inner: Arc::new(inner) })
    }

    /// A new protection domain.
    #[must_use]
    pub fn domain(&self) -> ProtectionDomain {
        let domain = Domain(self.inner.domains.fetch_add(1, Ordering::Relaxed));
        ProtectionDomain::new(Arc::clone(&self.inner), domain)
    }

    /// A new completion queue that holds `capacity` completions, 1 to [`super::COMPLETIONS_MAX`]. As many requests and receives may be posted
    /// that complete there, less those whose completions were not taken yet; one more is refused.
    ///
    /// # Errors
    /// [`HostError::Depth`].
    pub fn completion_queue(&self, capacity: usize) -> Result<CompletionQueue, HostError> {
        CompletionQueue::new(self.inner.number, capacity)
    }

    /// Takes the oldest event.
    #[must_use]
    pub fn poll_event(&self) -> Option<AsyncEvent> {
        self.inner.events.pop()
    }

    /// Has `notify` hear of each event; `false` when another one does already.
    pub fn hear_events(&self, notify: Arc<dyn Notify>) -> bool {
        self.inner.events.hear(notify)
    }

    /// Finds the way to a peer. Who is known is not asked for; on ports on an Ethernet others are, on each port that is in use, and this waits for
    /// the answers, three seconds at most. `known` are addresses that the peer told of itself, one for each port: they are taken for ports that
    /// are joined to another NIC's, where nobody is asked, and may be left out.
    ///
    /// # Errors
    /// [`NeighbourError`] says on which port nobody answered, and what else may be wrong.
    pub fn reach(&self, ip: IpAddr, known: &[MacAddr]) -> Result<Reach, NeighbourError> {
        let (operator, name) = self.inner.operator().ok_or(NeighbourError::Gone { ip })?;
        let macs = operator.reach(&name, ip, known.to_vec())?;
        Ok(Reach::new(operator, name, ip, macs))
    }

    /// Whether peers have to be found by asking: a port of it is on an Ethernet, and it has an address there.
    #[must_use]
    pub fn has_neighbours(&self) -> bool {
        self.inner.has_neighbours
    }

    /// What operators call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The parameters of its engines: the MSS is that which the ports carry.
    #[must_use]
    pub fn params(&self) -> &NicParams {
        &self.inner.params
    }

    /// Its ports: Ethernet address and longest frame of each.
    #[must_use]
    pub fn ports(&self) -> &[PortInfo] {
        &self.inner.infos
    }

    /// What each port counted.
    #[must_use]
    pub fn port_stats(&self) -> Vec<PortStats> {
        self.inner.ports.iter().map(Port::stats).collect()
    }

    /// The counters of each worker's engine.
    #[must_use]
    pub fn stats(&self) -> &[Arc<Stats>] {
        &self.inner.stats
    }

    /// Its workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.workers.len()
    }

    /// The time by its own clock, which counts from when it was opened.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.inner.clock.now()
    }

    /// Whether all its workers run. Once one has died no call succeeds any more.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.inner.threads.is_finished() && self.inner.workers.iter().all(|worker| !worker.is_gone())
    }

    /// Whether none of its workers runs any more: no memory that was registered with it is touched then.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.inner.threads.is_finished()
    }

    /// What passes an operator's requests on, for a socket of one's own; `None` when the control thread has died.
    #[must_use]
    pub fn operator(&self) -> Option<Operator> {
        self.inner.control.operator()
    }
}

/// A port of a device: a queue for each worker.
fn port_config(spec: &DeviceSpec) -> PortConfig {
    PortConfig { queues: spec.workers as u16, ..spec.port.clone() }
}

/// The parameters of the engines, over ports that carry frames of `longest` bytes.
fn params(spec: &DeviceSpec, longest: usize) -> Result<NicParams, Error> {
    let base = spec.params;
    // The longest that a QP may have: over IPv6.
    let of_full = |mss| full_frame(true, false, mss);
    let mss = base.transport.mss;
    let mss = if spec.fit_mss && of_full(mss) > longest { usual_mss(longest, of_full)? } else { mss };
    Ok(NicParams {
        transport: TransportParams { mss, ..base.transport },
        // The control thread probes what is assumed bad.
        spraying: SprayingParams { assumed_bad_ns: None, ..base.spraying },
        ..base
    })
}

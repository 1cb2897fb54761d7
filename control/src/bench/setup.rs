//! Ports, engines, QPs and workers of a bench.

use super::app::{Bench, Mailbox, Seat, Wires};
use super::fabric::{Between, far_config, own_core};
use super::side::{Side, connect, full_frame};
use super::{Error, FabricOptions, Link, Options};
use crate::controller::metrics::{MetricsAddress, MetricsServer};
use crate::controller::{ControlEnd, ControlThread, ControlledNic, Controller, Server, Waker, fabric_link};
use crate::error::say;
use crate::host::bring_up;
use crate::records::{Node, Recording, WorkerRecords};
use dataplane::congestion::profile::CcConfig;
use dataplane::dpdk::{
    Clock, DmaMap, Eal, EalOptions, FabricLane, Impairments, Lane, Port, PortConfig, Queue, Worker, WorkerOptions,
    Workers,
};
use dataplane::fabric::{Fabric, Plan};
use dataplane::nic::{Nic, NicParams, PacingParams, SendLimits, Stats};
use dataplane::path::SprayingParams;
use dataplane::transport::TransportParams;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How far a burst runs ahead of `--link-rate`, in ns: a worker comes round every few microseconds.
const PACING_BURST_NS: u64 = 20_000;
/// Frames that a ring between two ports holds: more than both windows together.
const RING_FRAMES: u32 = 8192;

/// A running bench.
pub(super) struct Running {
    pub(super) workers: Workers<Nic, Seat>,
    pub(super) control: ControlThread,
    /// Where operators ask; it goes first.
    pub(super) _server: Option<Server>,
    /// Where metrics are served; it goes with it.
    pub(super) _metrics: Option<MetricsServer>,
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
    /// Counters of each engine, NIC A's first.
    pub(super) stats: [Vec<Arc<Stats>>; 2],
    /// Ports of each NIC.
    pub(super) ports: [Vec<Port>; 2],
    pub(super) mss: u32,
    pub(super) worker_count: usize,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) fabric: Option<Between>,
    pub(super) recording: Option<Recording>,
    pub(super) clock: Clock,
    pub(super) eal: Eal,
    pub(super) cores: Vec<usize>,
    pub(super) config: PortConfig,
    /// Memory that devices read: it is unmapped once their ports are closed.
    pub(super) _maps: Vec<DmaMap>,
}

/// Ports, and what is behind them.
struct Opened {
    /// The ports of each NIC; none of NIC B where there is no such NIC.
    nics: [Vec<Port>; 2],
    /// The fabric's ends of them.
    far: Vec<Vec<Queue>>,
}

/// The MSS for ports that carry frames of `max` bytes: the one asked for, or the largest that fits.
fn choose_mss(options: &Options, max: usize) -> Result<u32, Error> {
    let full_frame = |mss| full_frame(options, mss);
    if let Some(mss) = options.mss {
        if full_frame(mss) > max {
            let fits = max.saturating_sub(full_frame(0)) & !3;
            return Err(Error::Usage(format!(
                "--mss {mss} makes frames of {} bytes, but the port carries {max}: use {fits} at most",
                full_frame(mss)
            )));
        }
        return Ok(mss);
    }
    bring_up::usual_mss(max, full_frame)
}

fn open_ports(eal: &Eal, options: &Options, config: &PortConfig) -> Result<Opened, Error> {
    let planes = usize::from(options.planes);
    if options.fabric.is_some() {
        let pairs = Port::ring_pairs(eal, RING_FRAMES, 2 * planes, [config, &far_config(config)])?;
        let (mut a, far): (Vec<Port>, Vec<Port>) = pairs.into_iter().unzip();
        let b = a.split_off(planes);
        let queues: Vec<Queue> = far.into_iter().filter_map(|mut port| port.take_queue(0)).collect();
        let mut queues = queues.into_iter();
        let far = [(); 2].map(|()| queues.by_ref().take(planes).collect()).into();
        return Ok(Opened { nics: [a, b], far });
    }
    let nics = match &options.link {
        Link::Ring => {
            let pairs = (0..planes).map(|_| Port::ring_pair(eal, RING_FRAMES, config));
            let (a, b) = pairs.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
            [a, b]
        }
        Link::Null(spec) => [vec![Port::open(eal, spec, config)?], Vec::new()],
        Link::Ports(a, b) => [vec![Port::open(eal, a, config)?], vec![Port::open(eal, b, config)?]],
    };
    Ok(Opened { nics, far: Vec::new() })
}

/// How many workers there are, and which core each runs on.
fn cores(options: &Options, available: &[usize]) -> Result<Vec<usize>, Error> {
    let single = matches!(options.link, Link::Null(_));
    let wanted = options.workers.unwrap_or(match (single, &options.cores) {
        (true, _) => 1,
        (false, Some(cores)) if options.fabric.is_some() => cores.len().min(2),
        (false, Some(cores)) => cores.len(),
        (false, None) => available.len().clamp(1, 2),
    });
    if single && wanted != 1 {
        return Err(Error::Usage("--workers: net_null has no other end, so one worker drives the one NIC".into()));
    }
    if wanted == 0 || (wanted > 1 && wanted % 2 == 1) {
        return Err(Error::Usage(format!(
            "--workers {wanted}: give 1 for both NICs together, or an even number, half for each NIC"
        )));
    }
    if options.fabric.is_some() && wanted > 2 {
        return Err(Error::Usage(format!("--workers {wanted}: with --fabric each NIC has one worker, so give 1 or 2")));
    }
    match &options.cores {
        Some(cores) if cores.len() == wanted => Ok(cores.clone()),
        // One more is the fabric's.
        Some(cores) if options.fabric.is_some() && cores.len() == wanted + 1 => Ok(cores[..wanted].to_vec()),
        Some(cores) => Err(Error::Usage(format!("--cores names {} cores for {wanted} workers", cores.len()))),
        None if wanted <= available.len() => Ok(available[..wanted].to_vec()),
        None => Err(Error::Usage(format!(
            "--workers {wanted}: this process may use {} cores ({}); to let workers share them, name a core for each with --cores",
            available.len(),
            available.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// What DPDK needs for the ports.
fn eal_options(options: &Options, config: &PortConfig) -> EalOptions {
    let named = match &options.link {
        Link::Ports(a, b) => vec![a, b],
        _ => Vec::new(),
    };
    let ports = 2 * usize::from(options.planes);
    let mut eal = bring_up::eal_options(named, ports, config);
    if options.fabric.is_some() {
        eal.need += ports * far_config(config).memory();
    }
    if options.anchors {
        eal.need += 2 * config.memory();
    }
    eal
}

/// The parameters of both NICs.
fn params(options: &Options, mss: u32) -> NicParams {
    let base = options.base;
    // NSCC computes with the link's rate, and then the active set does too; a constant window leaves it as it is.
    let (data_rate, base_rtt_ns) = match &options.congestion {
        CcConfig::Nscc(nscc) => (options.link_rate.unwrap_or(base.data_rate), nscc.config_base_rtt_ns),
        CcConfig::Fixed { .. } | CcConfig::None => (base.data_rate, base.base_rtt_ns),
    };
    let pacing = options.link_rate.map(|rate| PacingParams { rate, burst_ns: PACING_BURST_NS });
    NicParams {
        transport: TransportParams {
            mss,
            initial_ack_timeout_ns: u64::try_from(options.ack_timeout.as_nanos()).unwrap_or(u64::MAX),
            ..base.transport
        },
        // The control thread probes what is assumed bad.
        spraying: SprayingParams { assumed_bad_ns: None, ..base.spraying },
        congestion: options.congestion,
        data_rate,
        base_rtt_ns,
        limits: SendLimits { pacing: pacing.or(base.limits.pacing), ..base.limits },
        seed: options.seed,
        ..base
    }
}

/// All lanes on the one core, or each on its own.
fn on_cores(lanes: Vec<Lane<Nic, Seat>>, cores: &[usize]) -> Vec<Worker<Nic, Seat>> {
    match cores {
        &[core] => vec![Worker::new(Some(core), lanes)],
        _ => lanes.into_iter().zip(cores).map(|(lane, &core)| Worker::new(Some(core), vec![lane])).collect(),
    }
}

/// Brings everything up. The workers poll when this returns.
pub(super) fn start(options: &Options) -> Result<Running, Error> {
    // Pools are for each worker's frames in flight.
    let queues = options.workers.unwrap_or(2).div_ceil(2).clamp(1, 64) as u16;
    let mut config = PortConfig { queues, ..PortConfig::default() };
    let eal = Eal::init(&eal_options(options, &config))?;
    tracing::debug!(version = Eal::version(), cores = ?eal.cores(), "DPDK is up");
    let cores = cores(options, eal.cores())?;
    let pairs = (cores.len() / 2).max(1);
    config.queues = pairs as u16;
    let Opened { nics: mut ports, far } = open_ports(&eal, options, &config)?;
    for (nic, port) in ["a", "b"].iter().zip(&ports).flat_map(|(nic, ports)| ports.iter().map(move |port| (nic, port)))
    {
        let lending = port.lending();
        tracing::info!(nic, port = port.name(), max_frame = port.max_frame(), queues = port.queues(), payload = %lending, "a port is open");
    }
    let max_frame = bring_up::longest_frame(ports.iter().flatten());
    let mss = choose_mss(options, max_frame)?;
    let params = params(options, mss);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut mailboxes = Vec::new();
    let mut requesters = Vec::new();
    let mut responders = Vec::new();
    let mut a = Side::new(0, &ports[0], options, pairs, params)?;
    let has_b = !ports[1].is_empty();
    let mut b = has_b.then(|| Side::new(1, &ports[1], options, pairs, params)).transpose()?;
    let clock = Clock::new(&eal);
    let names = if has_b { &["a", "b"][..] } else { &["a"] };
    let node = |(id, name): (u32, &&str)| (Node { id, name: (*name).into() }, pairs);
    let nodes = (0..).zip(names).map(node).collect();
    let (recording, records) = Recording::of(&options.records, nodes, max_frame, clock.now())?;
    let engines = a.nics.iter_mut().chain(b.iter_mut().flat_map(|b| &mut b.nics));
    let mut records: Vec<WorkerRecords> = records.into_iter().flatten().collect();
    // Before the first QP: its opening is an event.
    engines.zip(&mut records).for_each(|(nic, records)| records.attach(nic));
    let mut records = records.into_iter();
    for k in 0..pairs {
        let mailbox = Mailbox::new();
        let (requester, responder) = connect(options, k, &mut a, b.as_mut(), &mut rng, &mailbox)?;
        requesters.push(Bench::Requester(Box::new(requester)));
        responders.push(responder);
        mailboxes.push(mailbox);
    }
    let stats_of = |side: &Side| side.nics.iter().map(|nic| Arc::clone(nic.stats())).collect::<Vec<_>>();
    let stats = [stats_of(&a), b.as_ref().map(stats_of).unwrap_or_default()];
    let maps = a.maps.into_iter().chain(b.iter_mut().flat_map(|b| b.maps.drain(..))).collect();
    let (b_controller, b_nics) = b.map(|b| (b.controller, b.nics)).unzip();
    let mut control = ControlThread::start(move || clock.now())?;
    let (requesters, a_links) = seats(requesters, &control, &mut records);
    let (responders, b_links) = seats(responders, &control, &mut records);
    let known = |name, controller, links, n: usize| controlled(name, controller, links, &stats[n], &ports[n], options);
    let mut controlled = vec![known("a", a.controller, a_links, 0)];
    controlled.extend(b_controller.map(|controller| known("b", controller, b_links, 1)));
    let (fabric_lane, fabric) = match &options.fabric {
        Some(FabricOptions { plan, .. }) => {
            let mbufs = ports.iter().flatten().count() * (config.small + config.large) as usize;
            let (lane, between) = fabric_lane(plan, options.seed, far, mbufs, control.waker())?;
            control.control_over(controlled, between.end.clone());
            (Some(lane), Some(between))
        }
        None => {
            control.control(controlled);
            (None, None)
        }
    };
    let server = match (&options.ctl, control.operator()) {
        (Some(path), Some(operator)) => Some(Server::listen(path, operator)?),
        _ => None,
    };
    let metrics = match (&options.metrics, control.operator()) {
        (Some(address), Some(operator)) => Some(MetricsServer::listen(address, operator)?),
        _ => None,
    };
    if let Some(MetricsAddress::Tcp(address)) =
        metrics.as_ref().map(MetricsServer::address).filter(|&address| Some(address) != options.metrics.as_ref())
    {
        // Any free port was asked for, and this is the one.
        say(&format!("metrics: http://{address}/metrics"));
    }
    let mut lanes = lanes(&mut ports[0], a.nics, requesters, options, 0)?;
    if let Some(nics) = b_nics {
        lanes.extend(self::lanes(&mut ports[1], nics, responders, options, 1)?);
    }
    let (of_a, of_b) = lanes.split_at_mut(pairs);
    let received = [&*of_a, &*of_b].map(|lanes| lanes.iter().map(Lane::stats).collect());
    let wires = Arc::new(Wires { engines: stats.clone(), lanes: received });
    if !of_b.is_empty() {
        of_a.iter_mut().for_each(|lane| lane.app.watch(&wires));
    }
    let worker_count = cores.len();
    let mut workers = on_cores(lanes, &cores);
    if let Some(lane) = fabric_lane {
        let core = own_core(options, worker_count, eal.cores());
        seat(&mut workers, lane, core);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let behaviour = WorkerOptions { idle_polls: options.idle_polls };
    let workers = Workers::spawn(&eal, clock, workers, behaviour, Arc::clone(&stop))?;
    tracing::info!(workers = worker_count, ?cores, "workers poll");
    Ok(Running {
        workers,
        control,
        _server: server,
        _metrics: metrics,
        mailboxes,
        stats,
        ports,
        mss,
        worker_count,
        stop,
        fabric,
        recording,
        clock,
        eal,
        cores,
        config,
        _maps: maps,
    })
}

/// Gives a fabric a worker of its own, or to the last one. A thread of its own on a core that is not would wait there for whole slices of
/// the scheduler, and each would look to the NICs like an outage; as a part of a worker it is polled in every turn.
fn seat(workers: &mut Vec<Worker<Nic, Seat>>, lane: FabricLane, own_core: Option<usize>) {
    if own_core.is_some() {
        workers.push(Worker::new(own_core, Vec::new()));
    }
    if let Some(last) = workers.last_mut() {
        last.fabric = Some(lane);
    }
}

/// The fabric of a plan over its ends of the ports; there are so many mbufs that may be inside.
fn fabric_lane(
    plan: &Plan,
    seed: u64,
    far: Vec<Vec<Queue>>,
    mbufs: usize,
    waker: Option<Waker>,
) -> Result<(FabricLane, Between), Error> {
    let fabric = Fabric::new(plan, seed).map_err(|e| Error::Usage(format!("--fabric: {e}")))?;
    let (overseer, end) = fabric_link(&fabric, waker);
    let lane = FabricLane::new(fabric, far, mbufs, Box::new(overseer));
    let lane = lane.ok_or_else(|| Error::Usage("--fabric: it is not for two NICs with a port on each plane".into()))?;
    let stats = lane.stats();
    Ok((lane, Between { end, stats }))
}

/// A NIC as the control thread knows it. Behind a fabric its links are the fabric's to tell: those of the rings are always up.
fn controlled(
    name: &str,
    controller: Controller,
    workers: Vec<ControlEnd>,
    engines: &[Arc<Stats>],
    ports: &[Port],
    options: &Options,
) -> ControlledNic {
    let links = if options.fabric.is_some() { Vec::new() } else { ports.iter().map(Port::link_watch).collect() };
    ControlledNic { name: name.into(), controller, workers, engines: engines.to_vec(), links, vicinity: None }
}

/// Links each role of a NIC to the control thread, and gives it what it carries for the records.
fn seats(
    roles: Vec<Bench>,
    control: &ControlThread,
    records: &mut impl Iterator<Item = WorkerRecords>,
) -> (Vec<Seat>, Vec<ControlEnd>) {
    let (workers, ends) = bring_up::links(roles.len(), control);
    let seat = |(role, link)| Seat { role, link, records: records.next() };
    (roles.into_iter().zip(workers).map(seat).collect(), ends)
}

/// A lane for each engine of a NIC, over its own queue of each port.
fn lanes(
    ports: &mut [Port],
    nics: Vec<Nic>,
    apps: Vec<Seat>,
    options: &Options,
    n: u64,
) -> Result<Vec<Lane<Nic, Seat>>, Error> {
    bring_up::lanes(ports, nics, apps, |k| {
        let seed = options.seed.wrapping_mul(31).wrapping_add(2 * k as u64 + n);
        Impairments { seed, ..options.impairments }
    })
}

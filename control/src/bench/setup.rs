//! Ports, engines, QPs and workers of a bench.

use super::app::{Bench, Mailbox, Peer, Requester, Seat, Wires};
use super::null::Acknowledger;
use super::receiver::{Ledger, Receiver};
use super::{Error, Link, Op, Options};
use crate::controller::{ControlEnd, ControlThread, ControlledNic, Controller, PROBE_PERIOD, Server, link};
use dataplane::Ns;
use dataplane::congestion::profile::CcConfig;
use dataplane::dpdk::{
    Clock, Eal, EalOptions, Impairments, Lane, Port, PortConfig, Queue, Steering, Worker, WorkerOptions, Workers,
};
use dataplane::memory::{Access, Buffer, Domain, Key, Keys, Region};
use dataplane::nic::{
    Advertised, Endpoint, Nic, NicParams, PathSpec, Placement, PortId, PortInfo, QpNumbers, QpSpec, QpState, Qpn, Stats,
};
use dataplane::path::SprayingParams;
use dataplane::transport::{Psn, TransportParams};
use dataplane::wire::{Addressing, MacAddr, Template, WriteHeaders, frame_len};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Frames that a ring between two ports holds: more than both windows together.
const RING_FRAMES: u32 = 8192;
/// Frames that wait for the worker that owns their source.
const STEERING_FRAMES: usize = 1024;
/// Segment sizes that are tried, from the largest, when none is given.
const MSS_DEFAULTS: [u32; 5] = [4096, 2048, 1024, 512, 256];
const DOMAIN: Domain = Domain(1);
/// QP number of the peer that `net_null` does not have.
const NOBODY_QPN: u32 = 0x01_0000;
/// Addresses of the two NICs: 10.77.0.0/16 and 10.78.0.0/16.
const NETWORKS: [u32; 2] = [0x0A4D_0000, 0x0A4E_0000];

/// A running bench.
pub(super) struct Running {
    pub(super) workers: Workers<Nic, Seat>,
    pub(super) control: ControlThread,
    /// Where operators ask; it goes first.
    pub(super) _server: Option<Server>,
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
    /// Counters of each engine, NIC A's first.
    pub(super) stats: [Vec<Arc<Stats>>; 2],
    pub(super) ports: Vec<Port>,
    pub(super) mss: u32,
    pub(super) worker_count: usize,
    pub(super) stop: Arc<AtomicBool>,
}

/// Engines, memory and QPs of one NIC, one engine a worker.
struct Side {
    nics: Vec<Nic>,
    ends: Vec<Endpoint>,
    numbers: QpNumbers,
    keys: Keys,
}

/// The address number `k` of a NIC, such that worker `k` of the peer's `workers` owns it.
fn address(network: u32, k: usize, workers: usize) -> IpAddr {
    let first = network + 1;
    let behind = (k + workers - first as usize % workers) % workers;
    IpAddr::V4(Ipv4Addr::from(first + behind as u32))
}

/// Length of the frame that a full packet of `mss` makes.
fn full_frame(mss: u32) -> usize {
    let headers = WriteHeaders { immediate: Some(0), ..WriteHeaders::default() }.len();
    frame_len(14 + 20 + 8, headers, mss as usize)
}

/// The MSS for ports that carry frames of `max` bytes: the one asked for, or the largest that fits.
fn choose_mss(asked: Option<u32>, max: usize) -> Result<u32, Error> {
    if let Some(mss) = asked {
        if full_frame(mss) > max {
            let fits = max.saturating_sub(full_frame(0)) & !3;
            return Err(Error::Usage(format!(
                "--mss {mss} makes frames of {} bytes, but the port carries {max}: use {fits} at most",
                full_frame(mss)
            )));
        }
        return Ok(mss);
    }
    MSS_DEFAULTS
        .into_iter()
        .find(|&mss| full_frame(mss) <= max)
        .ok_or_else(|| Error::Usage(format!("the port carries frames of {max} bytes only, too few for any MSS")))
}

fn open_ports(eal: &Eal, options: &Options, config: &PortConfig) -> Result<Vec<Port>, Error> {
    Ok(match &options.link {
        Link::Ring => {
            let (a, b) = Port::ring_pair(eal, RING_FRAMES, config)?;
            vec![a, b]
        }
        Link::Null(spec) => vec![Port::open(eal, spec, config)?],
        Link::Ports(a, b) => vec![Port::open(eal, a, config)?, Port::open(eal, b, config)?],
    })
}

impl Side {
    fn new(n: usize, port: &Port, pairs: usize, params: NicParams) -> Result<Side, Error> {
        let info = PortInfo { mac: MacAddr(port.mac()), max_frame: port.max_frame() };
        let seed = |k: usize| params.seed.wrapping_add((2 * k + n) as u64);
        let nics = (0..pairs).map(|k| Nic::new(NicParams { seed: seed(k), ..params }, &[info]));
        let ends = (0..pairs).map(|k| Endpoint { mac: info.mac, ip: address(NETWORKS[n], k, pairs) }).collect();
        let nics = nics.collect::<Result<_, _>>().map_err(|e| Error::Usage(e.to_string()))?;
        Ok(Side { nics, ends, numbers: QpNumbers::default(), keys: Keys::default() })
    }

    fn register(&mut self, k: usize, memory: &Arc<Buffer>) -> Key {
        let key = self.keys.allocate().expect("far fewer regions than keys");
        let access = Access { remote_write: true };
        self.nics[k].register(key, Region { domain: DOMAIN, access, iova: 0, memory: Arc::clone(memory) });
        key
    }

    fn number(&mut self) -> Result<Qpn, Error> {
        self.numbers.allocate().ok_or_else(|| Error::Usage("--qps: a NIC has 65536 QPs at most".into()))
    }

    fn open(
        &mut self,
        k: usize,
        qpn: Qpn,
        peer_qpn: u32,
        remote: Endpoint,
        psns: [Psn; 2],
        depth: usize,
    ) -> Result<(), Error> {
        let spec = QpSpec {
            qpn,
            state: QpState::Rts,
            port: PortId(0),
            local: self.ends[k],
            remote,
            vlan: None,
            peer_qpn,
            send_psn: psns[0],
            receive_psn: psns[1],
            peer: Advertised { window: u32::MAX, immediates: u32::MAX },
            receive_depth: depth,
            write_imm_limit: u32::MAX,
            domain: DOMAIN,
            send_depth: depth,
            placement: Placement::Keyed,
            path: PathSpec::default(),
            congestion: None,
        };
        self.nics[k].open(Ns::ZERO, spec).map_err(|e| Error::Usage(e.to_string()))
    }
}

/// How many workers there are, and which core each runs on.
fn cores(options: &Options, available: &[usize]) -> Result<Vec<usize>, Error> {
    let single = matches!(options.link, Link::Null(_));
    let wanted = options.workers.unwrap_or(match (single, &options.cores) {
        (true, _) => 1,
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
    match &options.cores {
        Some(cores) if cores.len() == wanted => Ok(cores.clone()),
        Some(cores) => Err(Error::Usage(format!("--cores names {} cores for {wanted} workers", cores.len()))),
        None if wanted <= available.len() => Ok(available[..wanted].to_vec()),
        None => Err(Error::Usage(format!(
            "--workers {wanted}: this process may use {} cores ({}); to let workers share them, name a core for each with --cores",
            available.len(),
            available.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Brings everything up. The workers poll when this returns.
pub(super) fn start(options: &Options) -> Result<Running, Error> {
    let mut config = PortConfig::default();
    let listed: Vec<_> = match &options.link {
        Link::Ports(a, b) => [a, b].into_iter().filter_map(|spec| spec.pci().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    // Pools are for each worker's frames in flight.
    config.queues = options.workers.unwrap_or(2).div_ceil(2).clamp(1, 64) as u16;
    let eal_options = EalOptions { pci: listed, ..EalOptions::for_ports(2, &config) };
    let eal = Eal::init(&eal_options)?;
    let cores = cores(options, eal.cores())?;
    let pairs = (cores.len() / 2).max(1);
    config.queues = pairs as u16;
    let mut ports = open_ports(&eal, options, &config)?;
    let max_frame = ports.iter().map(Port::max_frame).min().unwrap_or(0);
    let mss = choose_mss(options.mss, max_frame)?;
    let params = NicParams {
        transport: TransportParams { mss, ..TransportParams::default() },
        // The control thread probes what is assumed bad.
        spraying: SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() },
        congestion: CcConfig::Fixed { bytes: options.window },
        seed: options.seed,
        ..NicParams::default()
    };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut mailboxes = Vec::new();
    let mut requesters = Vec::new();
    let mut responders = Vec::new();
    let mut a = Side::new(0, &ports[0], pairs, params)?;
    let mut b = ports.get(1).map(|port| Side::new(1, port, pairs, params)).transpose()?;
    for k in 0..pairs {
        let mailbox = Mailbox::new();
        let (requester, responder) = connect(options, k, &mut a, b.as_mut(), &mut rng, &mailbox)?;
        requesters.push(Bench::Requester(Box::new(requester)));
        responders.push(responder);
        mailboxes.push(mailbox);
    }
    let stats_of = |side: &Side| side.nics.iter().map(|nic| Arc::clone(nic.stats())).collect::<Vec<_>>();
    let stats = [stats_of(&a), b.as_ref().map(stats_of).unwrap_or_default()];
    let clock = Clock::new(&eal);
    let mut control = ControlThread::start(move || clock.now())?;
    let (requesters, a_links) = seats(requesters, &control);
    let (responders, b_links) = seats(responders, &control);
    let controlled = [("a", a_links), ("b", b_links)].map(|(name, workers)| ControlledNic {
        name: name.into(),
        controller: Controller::new(PROBE_PERIOD),
        workers,
    });
    control.control(controlled.into());
    let server = match (&options.ctl, control.operator()) {
        (Some(path), Some(operator)) => Some(Server::listen(path, operator)?),
        _ => None,
    };
    let mut lanes = lanes(&mut ports[0], a.nics, requesters, options, 0)?;
    if let Some(b) = b {
        lanes.extend(self::lanes(&mut ports[1], b.nics, responders, options, 1)?);
    }
    let (of_a, of_b) = lanes.split_at_mut(pairs);
    let received = [&*of_a, &*of_b].map(|lanes| lanes.iter().map(Lane::stats).collect());
    let wires = Arc::new(Wires { engines: stats.clone(), lanes: received });
    if !of_b.is_empty() {
        of_a.iter_mut().for_each(|lane| lane.app.watch(&wires));
    }
    let worker_count = cores.len();
    let workers = if worker_count == 1 {
        vec![Worker { core: Some(cores[0]), lanes }]
    } else {
        lanes.into_iter().zip(&cores).map(|(lane, &core)| Worker { core: Some(core), lanes: vec![lane] }).collect()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let behaviour = WorkerOptions { idle_polls: options.idle_polls };
    let workers = Workers::spawn(&eal, clock, workers, behaviour, Arc::clone(&stop))?;
    Ok(Running { workers, control, _server: server, mailboxes, stats, ports, mss, worker_count, stop })
}

/// Links each role of a NIC to the control thread.
fn seats(roles: Vec<Bench>, control: &ControlThread) -> (Vec<Seat>, Vec<ControlEnd>) {
    let linked = roles.into_iter().map(|role| {
        let (worker, end) = link(control.waker());
        (Seat { role, link: worker }, end)
    });
    linked.unzip()
}

/// Registers memory for pair `k` and opens its QPs: the applications of both ends are what comes out.
fn connect(
    options: &Options,
    k: usize,
    a: &mut Side,
    mut b: Option<&mut Side>,
    rng: &mut Xoshiro256PlusPlus,
    mailbox: &Arc<Mailbox>,
) -> Result<(Requester, Bench), Error> {
    let largest = options.sizes.iter().copied().max().unwrap_or(0);
    let [source, target] = [0, 1].map(|_| Buffer::new(options.memory.max(largest)));
    let source_key = a.register(k, &source);
    // Without a peer the key is never looked at.
    let target_key = b.as_deref_mut().map_or(source_key, |b| b.register(k, &target));
    let mut qps = Vec::with_capacity(options.qps);
    let mut peers = Vec::with_capacity(options.qps);
    let mut acknowledger = None;
    for _ in 0..options.qps {
        let psns: [Psn; 2] = [0, 1].map(|_| Psn::new(rng.random()));
        let qpn = a.number()?;
        match b.as_deref_mut() {
            Some(b) => {
                let peer = b.number()?;
                a.open(k, qpn, peer.get(), b.ends[k], psns, options.depth)?;
                b.open(k, peer, qpn.get(), a.ends[k], [psns[1], psns[0]], options.depth)?;
                peers.push(peer);
            }
            None => {
                let nobody = Endpoint { mac: MacAddr([2, 0, 0, 0, 0, 0xFF]), ip: address(NETWORKS[1], k, 1) };
                a.open(k, qpn, NOBODY_QPN, nobody, psns, options.depth)?;
                acknowledger = Some(Acknowledger::new(reply_template(nobody, a.ends[k])?, qpn.get(), psns[0].get()));
            }
        }
        qps.push(qpn);
    }
    let (responder, ledger) = match (b.as_deref_mut(), options.op) {
        (Some(b), Op::WriteImm) => {
            let ledger = Arc::new(Ledger::default());
            let nic = &mut b.nics[k];
            // No more messages are in flight on a QP, so no more receives are needed; they are posted before the first is sent.
            let receives = options.depth.min(nic.params().transport.write_imm_limit as usize);
            let receiver = Receiver::new(nic, Arc::clone(&ledger), peers, receives).map_err(Error::Failure)?;
            (Bench::Receiver(receiver), Some(ledger))
        }
        _ => (Bench::Responder, None),
    };
    let peer = Peer {
        address: b.as_ref().map_or(address(NETWORKS[1], k, 1), |b| b.ends[k].ip),
        qps,
        depth: options.depth,
        source,
        source_key,
        target,
        target_key,
        ledger,
        stats: b.map(|b| Arc::clone(b.nics[k].stats())),
    };
    Ok((Requester::new(Arc::clone(mailbox), peer, acknowledger), responder))
}

/// Headers of frames from `from` to `to`.
fn reply_template(from: Endpoint, to: Endpoint) -> Result<Template, Error> {
    let params = NicParams::default();
    let addressing = Addressing {
        source_mac: from.mac,
        destination_mac: to.mac,
        vlan: None,
        source: from.ip,
        destination: to.ip,
        hop_limit: params.hop_limit,
        udp_port: params.udp_port,
    };
    Template::new(&addressing).map_err(|e| Error::Failure(e.to_string()))
}

/// A lane for each engine of a NIC, over its own queue of the port.
fn lanes(
    port: &mut Port,
    nics: Vec<Nic>,
    apps: Vec<Seat>,
    options: &Options,
    n: u64,
) -> Result<Vec<Lane<Nic, Seat>>, Error> {
    let steering = Steering::new([&*port], nics.len(), STEERING_FRAMES);
    let lanes = nics.into_iter().zip(apps).enumerate().map(|(k, (nic, app))| {
        let queue: Queue = port.take_queue(k as u16).expect("a queue for each worker");
        let seed = options.seed.wrapping_mul(31).wrapping_add(2 * k as u64 + n);
        let lane = Lane::new(nic, app, vec![queue]).with_steering(Arc::clone(&steering), k);
        lane.with_impairments(&Impairments { seed, ..options.impairments }).map_err(|e| Error::Usage(e.to_string()))
    });
    lanes.collect()
}

//! Engines, memory and QPs of the two NICs of a bench.

use super::app::{Bench, Mailbox, Peer, Requester};
use super::null::Acknowledger;
use super::receiver::{Ledger, Receiver};
use super::{Error, Op, Options, Spraying};
use crate::controller::{Controller, ProfileSpec};
use crate::host::bring_up;
use dataplane::Ns;
use dataplane::dpdk::{Dma, DmaMap, Port};
use dataplane::memory::{Access, Buffer, Domain, Key, Keys, Region};
use dataplane::nic::{
    Advertised, Endpoint, Nic, NicParams, PathSpec, Paths, Placement, PortId, QpNumbers, QpSpec, QpState, Qpn, owner,
};
use dataplane::path::profile::EvPool;
use dataplane::transport::Psn;
use dataplane::wire::{Addressing, MacAddr, Template};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const DOMAIN: Domain = Domain(1);
/// QP number of the peer that `net_null` does not have.
const NOBODY_QPN: u32 = 0x01_0000;
/// Addresses of the two NICs: 10.77.0.0/16 and 10.78.0.0/16, or fd00:77::/64 and fd00:78::/64.
const NETWORKS: [u32; 2] = [0x0A4D_0000, 0x0A4E_0000];
const NETWORKS_V6: [u16; 2] = [0x77, 0x78];
/// UDP source ports of QPs that have one of their own: those that are for anybody's use.
const OWN_PORTS: std::ops::RangeInclusive<u16> = 49_152..=u16::MAX;

/// Engines, memory and QPs of one NIC, one engine a worker.
pub(super) struct Side {
    pub(super) nics: Vec<Nic>,
    pub(super) controller: Controller,
    ends: Vec<Endpoint>,
    /// Ethernet address of each port.
    macs: Vec<MacAddr>,
    numbers: QpNumbers,
    keys: Keys,
    /// Maps memory for ports whose devices read by themselves, and what was mapped.
    dma: Dma,
    pub(super) maps: Vec<DmaMap>,
    /// The EV profile of all QPs.
    pool: Option<Arc<EvPool>>,
    /// QPs opened so far.
    opened: usize,
}

/// One end of a QP to be opened.
struct Opening<'a> {
    k: usize,
    qpn: Qpn,
    peer_qpn: u32,
    remote: Endpoint,
    next_hops: &'a [MacAddr],
    psns: [Psn; 2],
}

/// Address `k` of NIC `n`: the first one, after `k` others, that worker `k` of the peer's `workers` owns.
fn address(n: usize, v6: bool, k: usize, workers: usize) -> IpAddr {
    let nth = |host: u32| -> IpAddr {
        if v6 {
            let low = (host & 0xFFFF) as u16;
            return Ipv6Addr::new(0xFD00, NETWORKS_V6[n], 0, 0, 0, 0, (host >> 16) as u16, low).into();
        }
        Ipv4Addr::from(NETWORKS[n] + host).into()
    };
    let own = |address: &IpAddr| owner(*address, workers) == k;
    // Among as many neighbours as there are workers each owns one.
    (1..=0xFFFF).map(nth).find(own).unwrap_or_else(|| nth(1))
}

/// Length of the frame that a full packet of `mss` makes.
pub(super) fn full_frame(options: &Options, mss: u32) -> usize {
    let srv6 = options.profiles.iter().flatten().any(ProfileSpec::is_srv6);
    bring_up::full_frame(options.ipv6, srv6, mss)
}

impl Side {
    pub(super) fn new(
        n: usize,
        ports: &[Port],
        options: &Options,
        pairs: usize,
        params: NicParams,
    ) -> Result<Side, Error> {
        let infos = bring_up::port_infos(ports);
        let macs: Vec<MacAddr> = infos.iter().map(|info| info.mac).collect();
        let seed = |k: usize| params.seed.wrapping_add((2 * k + n) as u64);
        let nics = (0..pairs).map(|k| Nic::new(NicParams { seed: seed(k), ..params }, &infos));
        let mut nics = nics.collect::<Result<Vec<Nic>, _>>().map_err(|e| Error::Usage(e.to_string()))?;
        if !options.copy {
            nics.iter_mut().for_each(Nic::lend_payload);
        }
        let own = |k| match &options.fabric {
            Some(fabric) => super::fabric::address(&fabric.plan, options.ipv6, n),
            None => address(n, options.ipv6, k, pairs),
        };
        let end = |k| Endpoint { mac: macs[0], ip: own(k) };
        let ends = (0..pairs).map(end).collect();
        let mut controller = Controller::new(options.probe_period_ns, pairs, options.planes);
        let spec = options.profiles.as_ref().and_then(|profiles| profiles.get(n));
        let pool = spec.map(|spec| profile(&mut controller, spec, pairs * options.qps)).transpose()?;
        let (numbers, keys) = (QpNumbers::default(), Keys::default());
        let (dma, maps) = (Dma::new(if options.copy { &[] } else { ports }), Vec::new());
        Ok(Side { nics, controller, ends, macs, numbers, keys, dma, maps, pool, opened: 0 })
    }

    fn register(&mut self, k: usize, memory: &Arc<Buffer>) -> Key {
        let key = self.keys.allocate().expect("far fewer regions than keys");
        let access = Access { remote_write: true };
        self.nics[k].register(key, Region { domain: DOMAIN, access, iova: 0, memory: Arc::clone(memory) });
        let map = self.dma.map(memory);
        self.nics[k].set_mapped(key, map.mapped());
        self.maps.push(map);
        key
    }

    fn number(&mut self) -> Result<Qpn, Error> {
        self.numbers.allocate().ok_or_else(|| Error::Usage("--qps: a NIC has 65536 QPs at most".into()))
    }

    /// How the next QP's packets find their way.
    fn paths(&self, options: &Options) -> Paths {
        match (&self.pool, options.spraying) {
            (Some(pool), _) => Paths::Profile(Arc::clone(pool)),
            (None, Spraying::Default) => Paths::Sprayed,
            (None, Spraying::None) => {
                let own = self.opened % OWN_PORTS.len();
                Paths::Own { udp_port: OWN_PORTS.start() + own as u16 }
            }
        }
    }

    fn open(&mut self, options: &Options, opening: &Opening<'_>) -> Result<(), Error> {
        let Opening { k, qpn, peer_qpn, remote, next_hops, psns } = *opening;
        let spec = QpSpec {
            qpn,
            state: QpState::Rts,
            // Those that are not sprayed take the ports in turn.
            port: PortId((self.opened % self.macs.len()) as u8),
            local: self.ends[k],
            remote,
            vlan: None,
            peer_qpn,
            send_psn: psns[0],
            receive_psn: psns[1],
            peer: Advertised { window: u32::MAX, immediates: u32::MAX },
            receive_depth: options.depth,
            write_imm_limit: u32::MAX,
            domain: DOMAIN,
            send_depth: options.depth,
            placement: Placement::Keyed,
            path: PathSpec {
                paths: self.paths(options),
                next_hops: next_hops.to_vec(),
                encapsulation: None,
                follows: false,
            },
            congestion: None,
        };
        self.opened += 1;
        self.nics[k].open(Ns::ZERO, spec).map_err(|e| Error::Usage(e.to_string()))
    }
}

/// Creates the EV profile that was asked for, and lets `qps` QPs use it.
fn profile(controller: &mut Controller, spec: &ProfileSpec, qps: usize) -> Result<Arc<EvPool>, Error> {
    let wrong = |e: &dyn std::fmt::Display| Error::Usage(format!("--ev-profile: {e}"));
    let profiles = controller.profiles_mut();
    profiles.create(spec).map_err(|e| wrong(&e))?;
    profiles.online(spec.id).map_err(|e| wrong(&e))?;
    profiles.acquire(spec.id, qps).map_err(|e| wrong(&e))
}

/// Registers memory for pair `k` and opens its QPs: the applications of both ends are what comes out.
pub(super) fn connect(
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
                let (at_a, at_b) = (a.ends[k], b.ends[k]);
                let psns_b = [psns[1], psns[0]];
                a.open(options, &Opening { k, qpn, peer_qpn: peer.get(), remote: at_b, next_hops: &b.macs, psns })?;
                let next_hops = &a.macs;
                b.open(options, &Opening { k, qpn: peer, peer_qpn: qpn.get(), remote: at_a, next_hops, psns: psns_b })?;
                peers.push(peer);
            }
            None => {
                let nobody = Endpoint { mac: MacAddr([2, 0, 0, 0, 0, 0xFF]), ip: address(1, false, k, 1) };
                a.open(options, &Opening { k, qpn, peer_qpn: NOBODY_QPN, remote: nobody, next_hops: &[], psns })?;
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
        address: b.as_ref().map_or(address(1, false, k, 1), |b| b.ends[k].ip),
        own_paths: if options.spraying == Spraying::None { qps.len() } else { 0 },
        qps,
        depth: options.depth,
        post_list: options.post_list,
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

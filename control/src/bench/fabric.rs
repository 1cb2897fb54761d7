//! A fabric between the two NICs of a bench, and the entropy values that name its paths.

use super::{Error, Options};
use crate::controller::{EvSpec, FabricEnd, FabricReport, FormatKind, FormatSpec, Mode, ProfileSpec};
use dataplane::dpdk::{FabricLaneStats, PortConfig};
use dataplane::fabric::{EvBits, Fabric, Forwarding, NicId, Node, Plan, mac};
use dataplane::wire::{Addressing, Bth, Ext, Marks, Opcode, Template, UDP_PORT, WriteHeaders};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Number of the EV profile that follows from a plan.
const PROFILE: u64 = 1;
/// Bits that tell the planes of a Structured EV apart, and keep its UDP source port from being 0.
const PLANE_BITS: u32 = 4;
/// UDP source ports that hashed paths are sought among: those that are for anybody's use, and then the registered ones.
const HASHED_PORTS: [std::ops::Range<u32>; 2] = [49_152..65_536, 1_024..49_152];

/// The fabric's part of a report.
#[derive(Clone, Debug, Serialize)]
pub struct FabricPart {
    /// What it did.
    #[serde(flatten)]
    pub report: FabricReport,
    /// Frames that were copied, since others referred to them.
    pub copied: u64,
    /// Frames lost for want of an mbuf to copy them to.
    pub no_mbuf: u64,
    /// Frames lost because a NIC did not take them from its ring.
    pub ring_full: u64,
    /// Which entropy value takes which path, where the values follow from the plan.
    pub paths: Vec<PathEv>,
}

/// An entropy value and its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathEv {
    /// The NIC that sends on it, `a` or `b`.
    pub nic: &'static str,
    /// Its port, from 1.
    pub port: u8,
    /// The value.
    pub ev: u32,
    /// Destination of the outer IPv6 header, with SRv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<Ipv6Addr>,
    /// The switches on the way.
    pub via: Vec<String>,
}

impl FabricPart {
    pub(super) fn of(end: &FabricEnd, lane: &FabricLaneStats, paths: &[PathEv]) -> Option<FabricPart> {
        Some(FabricPart {
            report: end.last()?,
            copied: lane.copied.get(),
            no_mbuf: lane.no_mbuf.get(),
            ring_full: lane.ring_full.get(),
            paths: paths.to_vec(),
        })
    }
}

/// What a bench needs to know of a plan: the number of planes.
///
/// # Errors
/// The plan is not for two NICs.
pub fn planes(plan: &Plan) -> Result<u8, Error> {
    let fabric = Fabric::<Vec<u8>>::new(plan, 0).map_err(|e| Error::Usage(format!("--fabric: {e}")))?;
    match fabric.nics() {
        2 => Ok(fabric.ports()),
        nics => Err(Error::Usage(format!(
            "--fabric: it joins {nics} NICs, and a bench has two: give nics = 2, or two leaves of one NIC"
        ))),
    }
}

/// The fabric's own ends of the rings: they lend no mbufs but for copies.
pub(super) fn far_config(config: &PortConfig) -> PortConfig {
    PortConfig { small: 63, large: 255, ..config.clone() }
}

/// The address of NIC `n`.
pub(super) fn address(plan: &Plan, v6: bool, n: usize) -> IpAddr {
    let nic = NicId(n as u32);
    if v6 { plan.addresses.v6(nic).into() } else { plan.addresses.v4(nic).into() }
}

/// An EV profile for each NIC, with one value for each path of each port, so that all are used evenly; and what those values are.
///
/// # Errors
/// The plan has more paths than values, or does not leave the bits to name them.
pub fn profiles(plan: &Plan, v6: bool) -> Result<([ProfileSpec; 2], Vec<PathEv>), Error> {
    let wrong = |e: &dyn std::fmt::Display| Error::Usage(format!("--fabric: {e}"));
    let fabric = Fabric::<Vec<u8>>::new(plan, 0).map_err(|e| wrong(&e))?;
    let kind = match &plan.forwarding {
        Forwarding::Ecmp(_) | Forwarding::StructuredEv { bits: EvBits::Port, .. } => FormatKind::Udp,
        Forwarding::StructuredEv { bits: EvBits::LabelAndPort, .. } => FormatKind::Stev,
        Forwarding::Srv6 { .. } => FormatKind::Srv6,
    };
    let v6 = v6 || kind != FormatKind::Udp;
    let (mut specs, mut paths) = (Vec::new(), Vec::new());
    for (n, name) in [(0, "a"), (1, "b")] {
        let evs = Names { fabric: &fabric, from: NicId(n), to: NicId(1 - n), v6 }.all().map_err(|e| wrong(&e))?;
        let format = Some(FormatSpec { kind, widths: Vec::new() });
        let listed = evs.iter().map(|path| EvSpec { ev: path.ev, port: Some(path.port), segment: path.segment });
        specs.push(ProfileSpec {
            id: PROFILE,
            mode: Mode::Explicit,
            format,
            evs: listed.collect(),
            ..ProfileSpec::default()
        });
        paths.extend(evs.into_iter().map(|path| PathEv { nic: name, ..path }));
    }
    let [a, b] = <[ProfileSpec; 2]>::try_from(specs).map_err(|_| wrong(&"two NICs have two profiles"))?;
    Ok(([a, b], paths))
}

/// Names of the paths from one NIC to another.
struct Names<'a> {
    fabric: &'a Fabric<Vec<u8>>,
    from: NicId,
    to: NicId,
    v6: bool,
}

impl Names<'_> {
    fn all(&self) -> Result<Vec<PathEv>, String> {
        match &self.fabric.plan().forwarding {
            Forwarding::Ecmp(_) => self.hashed(),
            Forwarding::StructuredEv { bits, widths } => {
                let all: u32 = if *bits == EvBits::Port { 16 } else { 32 };
                self.structured(all - widths.iter().map(|&width| u32::from(width)).sum::<u32>())
            }
            Forwarding::Srv6 { .. } => self.each(|port, n| {
                let segment = self.fabric.usid_path(self.from, self.to, n).map(|path| path.destination());
                // It stands for the path in feedback, so it is another for each.
                Some((1 + u32::from(port) * self.count() + n, segment))
            }),
        }
    }

    fn count(&self) -> u32 {
        self.fabric.paths(self.from, self.to)
    }

    fn path(&self, port: u8, n: u32, ev: u32, segment: Option<Ipv6Addr>) -> Option<PathEv> {
        let way = self.fabric.way(self.from, self.to, port, n)?;
        let switches = way.into_iter().filter(|node| matches!(node, Node::Switch(_)));
        Some(PathEv { nic: "", port: port + 1, ev, segment, via: switches.map(|node| node.to_string()).collect() })
    }

    /// A name for each path of each port.
    fn each(&self, name: impl Fn(u8, u32) -> Option<(u32, Option<Ipv6Addr>)>) -> Result<Vec<PathEv>, String> {
        let all = (0..self.fabric.ports()).flat_map(|port| (0..self.count()).map(move |n| (port, n)));
        let named = all.map(|(port, n)| {
            let (ev, segment) = name(port, n)?;
            self.path(port, n, ev, segment)
        });
        named.collect::<Option<_>>().ok_or_else(|| "its paths have no names: give --ev-profile".into())
    }

    /// `free` bits of the EV are no switch's.
    fn structured(&self, free: u32) -> Result<Vec<PathEv>, String> {
        let planes = self.fabric.ports();
        if planes > 1 && free < PLANE_BITS {
            return Err(format!(
                "the fields of its Structured EV leave {free} bits, and telling {planes} planes apart takes {PLANE_BITS}: make them \
                 narrower, take bits = \"label-and-port\", or give --ev-profile"
            ));
        }
        self.each(|port, n| {
            let plane = if free < PLANE_BITS { 0 } else { u32::from(port) + 1 };
            Some((self.fabric.ev(self.from, self.to, n)? | plane, None))
        })
    }

    /// Asks the fabric where UDP source ports lead, until each path has one.
    fn hashed(&self) -> Result<Vec<PathEv>, String> {
        let slots = (0..self.fabric.ports()).flat_map(|port| (0..self.count()).map(move |n| (port, n)));
        let ways = slots.filter_map(|(port, n)| Some((self.fabric.way(self.from, self.to, port, n)?, (port, n))));
        let mut missing: BTreeMap<Vec<Node>, (u8, u32)> = ways.collect();
        let mut named = Vec::with_capacity(missing.len());
        let frame = self.frame()?;
        for ev in HASHED_PORTS.into_iter().flatten() {
            let head = frame(ev);
            let found = (0..self.fabric.ports()).find_map(|port| {
                let way = self.fabric.trace(self.from, port, &head).ok()?;
                missing.remove(&way)
            });
            named.extend(found.and_then(|(port, n)| self.path(port, n, ev, None)));
            if missing.is_empty() {
                named.sort_by_key(|path| (path.port, path.via.clone()));
                return Ok(named);
            }
        }
        Err(format!("no UDP source port leads over {} of its paths: give --ev-profile", missing.len()))
    }

    /// The headers of a frame with a given entropy value.
    fn frame(&self) -> Result<impl Fn(u32) -> Vec<u8>, String> {
        let plan = self.fabric.plan();
        let address = |nic: NicId| address(plan, self.v6, nic.0 as usize);
        let template = Template::new(&Addressing {
            source_mac: mac(self.from, 0),
            destination_mac: mac(self.to, 0),
            vlan: None,
            source: address(self.from),
            destination: address(self.to),
            hop_limit: 64,
            udp_port: UDP_PORT,
        })
        .map_err(|e| e.to_string())?;
        let (bth, ext) = (Bth::new(Opcode::WriteOnly, 1, 0), Ext::Write(WriteHeaders::default()));
        let dscp = plan.dscp.trimmable;
        Ok(move |ev| {
            let mut frame = vec![0; template.frame_len(ext.len(), 0)];
            // There is room for the headers.
            let _ = template.write_headers(&mut frame, Marks { ev, dscp, ecn: 2 }, &bth, &ext, 0);
            frame
        })
    }
}

/// The fabric of a running bench.
pub(super) struct Between {
    pub(super) end: FabricEnd,
    pub(super) stats: Arc<FabricLaneStats>,
}

/// Which core the fabric has for itself; `None`: it is the last worker's.
pub(super) fn own_core(options: &Options, workers: usize, available: &[usize]) -> Option<usize> {
    match &options.cores {
        Some(cores) => cores.get(workers).copied(),
        None => available.get(workers).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::fabric::{Hash, Topology};
    use std::collections::BTreeSet;

    fn topologies() -> [(Topology, usize); 3] {
        [
            (Topology::Paths { nics: 2, paths: 8 }, 8),
            (Topology::LeafSpine { planes: 3, leaves: 2, nics_per_leaf: 1, spines: 5 }, 15),
            (Topology::ThreeTier { planes: 2, pods: 2, leaves: 1, nics_per_leaf: 1, spines: 3, cores: 2 }, 12),
        ]
    }

    /// Each value leads where it is said to, and no two of a NIC are alike.
    fn check(plan: &Plan, paths: usize) {
        let (specs, named) = profiles(plan, false).unwrap();
        let fabric = Fabric::<Vec<u8>>::new(plan, 7).unwrap();
        let v6 = specs[0].needs_ipv6();
        for (n, nic) in [(0, "a"), (1, "b")] {
            let own: Vec<&PathEv> = named.iter().filter(|path| path.nic == nic).collect();
            let names = Names { fabric: &fabric, from: NicId(n), to: NicId(1 - n), v6 };
            assert_eq!((own.len(), specs[n as usize].evs.len()), (paths, paths), "{:?}", plan.forwarding);
            let values: BTreeSet<u32> = own.iter().map(|path| path.ev).collect();
            let ways: BTreeSet<(u8, &Vec<String>)> = own.iter().map(|path| (path.port, &path.via)).collect();
            assert_eq!((values.len(), ways.len()), (paths, paths));
            for path in own.iter().filter(|path| path.segment.is_none()) {
                let head = names.frame().unwrap()(path.ev);
                let way = fabric.trace(NicId(n), path.port - 1, &head).unwrap();
                let switches: Vec<String> = way[1..way.len() - 1].iter().map(ToString::to_string).collect();
                assert_eq!(switches, path.via, "{:#x}", path.ev);
            }
        }
    }

    #[test]
    fn each_path_of_each_port_has_an_ev_whatever_the_forwarding() {
        for (topology, paths) in topologies() {
            for forwarding in [
                Forwarding::Ecmp(Hash::default()),
                Forwarding::StructuredEv { bits: EvBits::Port, widths: vec![4, 3] },
                Forwarding::StructuredEv { bits: EvBits::LabelAndPort, widths: vec![3, 16] },
                Forwarding::Srv6 { locator: 0xFCBB_BBBB, others: Hash::default() },
            ] {
                check(&Plan { forwarding, ..Plan::new(topology) }, paths);
            }
        }
    }

    #[test]
    fn a_structured_ev_without_a_bit_to_spare_names_one_plane_and_no_more() {
        let forwarding = Forwarding::StructuredEv { bits: EvBits::Port, widths: vec![8, 8] };
        check(&Plan { forwarding: forwarding.clone(), ..Plan::new(topologies()[0].0) }, 8);
        let error = profiles(&Plan { forwarding, ..Plan::new(topologies()[1].0) }, false).unwrap_err().to_string();
        assert!(error.contains("leave 0 bits") && error.contains("--ev-profile"), "{error}");
    }

    #[test]
    fn more_paths_than_udp_source_ports_are_refused() {
        let many = Plan::new(Topology::LeafSpine { planes: 8, leaves: 2, nics_per_leaf: 1, spines: 4_096 });
        let error = profiles(&many, false).unwrap_err().to_string();
        assert!(error.contains("no UDP source port leads over"), "{error}");
    }

    #[test]
    fn a_bench_has_two_nics_and_the_planes_of_the_plan() {
        assert!(matches!(planes(&Plan::new(topologies()[1].0)), Ok(3)));
        let error = planes(&Plan::new(Topology::Paths { nics: 3, paths: 1 })).unwrap_err().to_string();
        assert!(error.contains("joins 3 NICs"), "{error}");
    }
}

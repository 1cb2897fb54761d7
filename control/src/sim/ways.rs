//! Which paths flows take: entropy values for the paths of a fabric, and how long a round trip on them takes.

use super::flows::Flow;
use crate::controller::{Controller, PROBE_PERIOD, ProfileSpec};
use dataplane::fabric::{EvBits, Fabric, Forwarding, Frame, LinkParams, NicId, Node};
use dataplane::nic::{PathSpec, Paths};
use dataplane::path::profile::{EVS_PER_PROFILE_MAX, Ev, EvPool, PoolKind, PortSet};
use std::sync::Arc;

/// Number of the profile that has an EV for each path.
const PATHS_PROFILE: u64 = 1;
/// First UDP source port of QPs that do not spray, and how many there are.
const OWN_PORTS: (u16, u16) = (0xC000, 0x4000);
/// Bytes of a full packet's frame beyond the MSS, and of a SACK's, over IPv4; over IPv6 20 more each.
const FRAME_OVERHEAD: u64 = 78;
const SACK: u64 = 94;
const IPV6_MORE: u64 = 20;

/// How packets find their way.
#[derive(Clone, Debug)]
pub(super) enum Ways {
    /// Over the NIC's own entropy values.
    Sprayed,
    /// Each QP by a UDP source port.
    Own,
    /// An EV for each path of the fabric between the two NICs.
    EachPath,
    /// An EV profile, the same at each NIC.
    Profile(Box<ProfileSpec>),
}

impl Ways {
    /// Tells each flow its paths; what is in the way otherwise.
    pub(super) fn lay<F: Frame>(
        &self,
        fabric: &Fabric<F>,
        ipv6: bool,
        seed: u64,
        flows: &mut [Flow],
    ) -> Result<(), String> {
        match self {
            Ways::Sprayed => {}
            Ways::Own => {
                for (n, flow) in flows.iter_mut().enumerate() {
                    let path = PathSpec { paths: Paths::Own { udp_port: own_port(seed, n) }, ..PathSpec::default() };
                    (flow.path, flow.back) = (path.clone(), path);
                }
            }
            Ways::EachPath => {
                needs_ipv6(fabric, ipv6)?;
                for flow in flows {
                    flow.path = each_path(fabric, flow.src, flow.dst)?;
                    flow.back = each_path(fabric, flow.dst, flow.src)?;
                }
            }
            Ways::Profile(spec) => {
                if spec.needs_ipv6() && !ipv6 {
                    return Err("its EVs need ipv6 = true: IPv4 carries 16 bits of an EV only".into());
                }
                let mut controller = Controller::new(PROBE_PERIOD, 1, fabric.ports());
                let profiles = controller.profiles_mut();
                profiles.create(spec).map_err(|error| error.to_string())?;
                profiles.online(spec.id).map_err(|error| error.to_string())?;
                let pool = profiles.acquire(spec.id, 1).map_err(|error| error.to_string())?;
                for flow in flows {
                    let path = PathSpec { paths: Paths::Profile(Arc::clone(&pool)), ..PathSpec::default() };
                    (flow.path, flow.back) = (path.clone(), path);
                }
            }
        }
        Ok(())
    }
}

/// The UDP source port of the `n`-th flow.
fn own_port(seed: u64, n: usize) -> u16 {
    let mixed = (seed ^ n as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    OWN_PORTS.0 + (mixed % u64::from(OWN_PORTS.1)) as u16
}

/// Whether the EVs of this fabric's paths are carried.
fn needs_ipv6<F: Frame>(fabric: &Fabric<F>, ipv6: bool) -> Result<(), String> {
    let why = match &fabric.plan().forwarding {
        Forwarding::Ecmp(_) => {
            return Err(
                "paths = true needs a fabric whose paths have names: forwarding \"structured-ev\" or \"srv6\"".into()
            );
        }
        Forwarding::Srv6 { .. } => "SRv6",
        Forwarding::StructuredEv { bits: EvBits::LabelAndPort, .. } => "EVs in flow label and port",
        Forwarding::StructuredEv { bits: EvBits::Port, .. } => return Ok(()),
    };
    if ipv6 { Ok(()) } else { Err(format!("{why} need ipv6 = true")) }
}

/// A profile with an EV for each path from one NIC to another, on each port.
fn each_path<F: Frame>(fabric: &Fabric<F>, from: NicId, to: NicId) -> Result<PathSpec, String> {
    let ports = fabric.ports();
    let paths = fabric.paths(from, to);
    let count = paths * u32::from(ports);
    if count > EVS_PER_PROFILE_MAX {
        return Err(format!("{count} paths are more than the {EVS_PER_PROFILE_MAX} EVs of a profile"));
    }
    check_low_bits(fabric)?;
    // Planes in turn, so that each has its share at any time.
    let ev = |at: u32| {
        let (n, port) = (at / u32::from(ports), (at % u32::from(ports)) as u8);
        let segment = fabric.usid_path(from, to, n).map(|path| path.destination());
        // Feedback names an EV by its value alone: it tells the planes apart, in bits that no switch reads.
        let value = fabric.ev(from, to, n).map_or(at, |ev| ev | u32::from(port));
        Ev { value, port: port + 1, segment }
    };
    let pool = EvPool {
        id: PATHS_PROFILE,
        kind: PoolKind::Explicit,
        evs: (0..count).map(ev).collect(),
        ports: PortSet::first(ports),
        min_active: 0,
    };
    Ok(PathSpec { paths: Paths::Profile(Arc::new(pool)), ..PathSpec::default() })
}

/// A Structured EV has room for the plane behind its fields.
fn check_low_bits<F: Frame>(fabric: &Fabric<F>) -> Result<(), String> {
    let Forwarding::StructuredEv { bits, widths } = &fabric.plan().forwarding else { return Ok(()) };
    let room: u32 = match bits {
        EvBits::Port => 16,
        EvBits::LabelAndPort => 32,
    };
    let fields: u32 = widths.iter().map(|&width| u32::from(width)).sum();
    let planes = u32::from(fabric.ports()).next_power_of_two().trailing_zeros();
    if fields + planes <= room {
        return Ok(());
    }
    Err(format!(
        "the fields of an EV have {fields} of {room} bits, and {planes} more are needed to tell the planes apart: \
         use narrower fields, or bits = \"label-and-port\""
    ))
}

/// The round-trip time of a full packet and its SACK between the first NIC and the last without load, in ns, computed: every link's
/// delay, and the time that it takes to send each, but for the packet's own departure, which timers do not see either.
pub(super) fn unloaded_rtt<F: Frame>(fabric: &Fabric<F>, mss: u32, ipv6: bool) -> Option<u64> {
    let plan = fabric.plan();
    let last = fabric.nics().checked_sub(1)?;
    let nodes = fabric.way(NicId(0), NicId(last), 0, 0)?;
    let more = if ipv6 { IPV6_MORE } else { 0 };
    let (packet, sack) = (u64::from(mss) + FRAME_OVERHEAD + more, SACK + more);
    let ps = |bytes: u64, link: &LinkParams| {
        u128::from(bytes + u64::from(link.overhead)) * 8_000_000_000_000 / u128::from(link.rate)
    };
    let mut total = 0;
    for (n, pair) in nodes.windows(2).enumerate() {
        let of_host = pair.iter().any(|node| matches!(node, Node::Nic(..)));
        let link = if of_host { &plan.host } else { &plan.fabric };
        total += 2 * u128::from(link.delay_ns) * 1_000 + ps(sack, link);
        if n > 0 {
            total += ps(packet, link);
        }
    }
    u64::try_from(total.div_ceil(1_000)).ok()
}

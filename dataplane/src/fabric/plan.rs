//! What a fabric is made of: topology, links, queues, forwarding and the schedule of faults.

use super::fault::Fault;
use super::shape::{Node, Shape};
use super::{NicId, Stage};
use crate::Ns;
use crate::wire::{DscpMap, MacAddr};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Fastest link, in bits per second.
pub const RATE_MAX: u64 = 10_000_000_000_000;
/// Longest delay of a link and longest lateness of a reordered frame, in ns: a minute.
pub const DELAY_MAX: u64 = 60 * crate::time::SEC;
/// Most bytes of one class of a queue.
pub const QUEUE_MAX: u32 = 1 << 30;

/// NICs and the switches between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// NICs with one port and a T0 switch each, and `paths` T1 switches between them: each is one path.
    Paths {
        /// NICs.
        nics: u32,
        /// Paths between any two.
        paths: u32,
    },
    /// Two tiers. Each plane is a fabric of its own, and each NIC has a port on each.
    LeafSpine {
        /// Planes.
        planes: u8,
        /// T0 switches of a plane.
        leaves: u32,
        /// NICs below a T0 switch.
        nics_per_leaf: u32,
        /// T1 switches of a plane.
        spines: u32,
    },
    /// Three tiers, as a fat tree: the n-th T1 switches of all pods share T2 switches of their own.
    ThreeTier {
        /// Planes.
        planes: u8,
        /// Pods of a plane.
        pods: u32,
        /// T0 switches of a pod.
        leaves: u32,
        /// NICs below a T0 switch.
        nics_per_leaf: u32,
        /// T1 switches of a pod.
        spines: u32,
        /// T2 switches above each T1 switch.
        cores: u32,
    },
}

/// A link, in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkParams {
    /// Bits per second, 1 to [`RATE_MAX`].
    pub rate: u64,
    /// Propagation, and the latency of the switch before it, in ns.
    pub delay_ns: u64,
    /// Share of frames that are lost.
    pub loss: f64,
    /// Share of frames in which a bit is flipped that no FCS catches.
    pub corrupt: f64,
    /// Share of frames that are late by up to `late_ns`.
    pub reorder: f64,
    /// How late at most, in ns.
    pub late_ns: u64,
    /// Bytes that each frame takes on the wire beside its own. On Ethernet 24: preamble and SFD 8, FCS 4, gap 12 (IEEE 802.3). The Scala
    /// MRC NIC documentation counts frames alone, 0.
    pub overhead: u8,
}

impl Default for LinkParams {
    /// 400 Gbps and 500 ns, without a flaw.
    fn default() -> Self {
        LinkParams {
            rate: 400_000_000_000,
            delay_ns: 500,
            loss: 0.0,
            corrupt: 0.0,
            reorder: 0.0,
            late_ns: 0,
            overhead: 24,
        }
    }
}

/// The queues of each link out of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueParams {
    /// Bytes of frames that wait in the data class.
    pub data: u32,
    /// Bytes of frames that wait in the control class. It is always served first (MRC paper: headers go on in a class of high priority).
    pub control: u32,
    /// Congestion marks; `None` for none.
    pub ecn: Option<EcnParams>,
    /// Trims what is trimmable and finds the data class full.
    pub trimming: bool,
}

impl Default for QueueParams {
    fn default() -> Self {
        QueueParams { data: 256 << 10, control: 128 << 10, ecn: Some(EcnParams::default()), trimming: true }
    }
}

/// When an ECN-capable frame is marked, by the bytes of data that wait when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnParams {
    /// Marks begin here.
    pub min: u32,
    /// From here every frame is marked; between the two, linearly more of them. Equal to `min`, it is a step.
    pub max: u32,
    /// Marks on the last hop too. Off by default: no other path avoids that queue, so a mark would make senders pass over sound ones.
    pub last_hop: bool,
}

impl Default for EcnParams {
    fn default() -> Self {
        EcnParams { min: 64 << 10, max: 192 << 10, last_hop: false }
    }
}

/// How a switch chooses among its links up. On the way down there is one link, and the destination address names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// By a hash.
    Ecmp(Hash),
    /// By Structured EV (OCP MRC 1.0): each tier has a field of the EV, the first hop's in the most significant bits.
    StructuredEv {
        /// Bits of the EV that the fields lie in: all 32, or the 16 of the UDP source port.
        bits: EvBits,
        /// Width of the field of T0, then of T1, 1 to 16. The choice is the field modulo the links up.
        widths: Vec<u8>,
    },
    /// By uSIDs (RFC 9800): a switch uses its own up and sends the frame to the neighbour that is then named, or, when none is left, down to
    /// the inner destination. Frames in no encapsulation are hashed.
    Srv6 {
        /// Locator block, bits 127:96 of the outer destination.
        locator: u32,
        /// For frames in no encapsulation.
        others: Hash,
    },
}

/// The bits of the EV that switches read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvBits {
    /// The low 16 bits: the UDP source port.
    Port,
    /// All 32: the low 16 bits of the flow label, then the UDP source port. For IPv6.
    LabelAndPort,
}

impl EvBits {
    pub(super) const fn count(self) -> u32 {
        match self {
            EvBits::Port => 16,
            EvBits::LabelAndPort => 32,
        }
    }
}

/// A hash over addresses, protocol and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// Makes it another hash. Each switch adds its own number, so that the tiers do not choose alike.
    pub salt: u64,
    /// Hashes the IPv6 flow label too.
    pub flow_label: bool,
    /// A link that looks down gets no frames: their flows move to others. Off, they are lost, as on a fabric with static routes.
    pub repair: bool,
}

/// The addresses of NICs: a base, and NIC n has the one that is n + 1 above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4: 10.0.0.0.
    pub v4: Ipv4Addr,
    /// IPv6: fd00::.
    pub v6: Ipv6Addr,
}

impl Default for Addresses {
    fn default() -> Self {
        Addresses { v4: Ipv4Addr::new(10, 0, 0, 0), v6: Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 0) }
    }
}

impl Addresses {
    /// The IPv4 address of a NIC, the same on all ports.
    #[must_use]
    pub const fn v4(&self, nic: NicId) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.v4.to_bits().wrapping_add(nic.0).wrapping_add(1))
    }

    /// The IPv6 address of a NIC, the same on all ports.
    #[must_use]
    pub const fn v6(&self, nic: NicId) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.v6.to_bits().wrapping_add(nic.0 as u128 + 1))
    }

    /// The NIC whose address it would be, if the fabric had so many.
    #[must_use]
    pub fn nic(&self, address: IpAddr) -> Option<NicId> {
        let above = match address {
            IpAddr::V4(address) => address.to_bits().wrapping_sub(self.v4.to_bits()).into(),
            IpAddr::V6(address) => address.to_bits().wrapping_sub(self.v6.to_bits()),
        };
        u32::try_from(above).ok()?.checked_sub(1).map(NicId)
    }
}

/// The Ethernet address of a NIC's port. The fabric does not look at it.
#[must_use]
pub const fn mac(nic: NicId, port: u8) -> MacAddr {
    let [_, a, b, c] = (nic.0 + 1).to_be_bytes();
    MacAddr([2, 0, port, a, b, c])
}

/// A fabric, before it is built.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// NICs and switches.
    pub topology: Topology,
    /// Links between NICs and switches.
    pub host: LinkParams,
    /// Links between switches.
    pub fabric: LinkParams,
    /// Bytes of frames of each class that wait at a NIC's port. A NIC neither marks nor trims.
    pub nic_queue: u32,
    /// Queues of the switches.
    pub queue: QueueParams,
    /// The choice of ways up.
    pub forwarding: Forwarding,
    /// Codepoints of the classes.
    pub dscp: DscpMap,
    /// Addresses of the NICs.
    pub addresses: Addresses,
    /// What breaks, and when.
    pub schedule: Vec<(Ns, Fault)>,
}

impl Plan {
    /// A sound fabric of 400 Gbps links with ECMP.
    #[must_use]
    pub fn new(topology: Topology) -> Plan {
        Plan {
            topology,
            host: LinkParams::default(),
            fabric: LinkParams::default(),
            nic_queue: 64 << 10,
            queue: QueueParams::default(),
            forwarding: Forwarding::Ecmp(Hash::default()),
            dscp: DscpMap::default(),
            addresses: Addresses::default(),
            schedule: Vec::new(),
        }
    }

    /// Says whether a fabric can be built of it.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        self.shape().map(|_| ())
    }

    /// Checks everything.
    pub(super) fn shape(&self) -> Result<Shape, PlanError> {
        let shape = Shape::new(&self.topology)?;
        self.host.check()?;
        self.fabric.check()?;
        self.check_queues()?;
        self.check_forwarding(&shape)?;
        let DscpMap { no_trim, trimmable, trimmable_retx, trimmed, trimmed_last_hop, control } = self.dscp;
        let result = [trimmed, trimmed_last_hop, control];
        if [no_trim, trimmable, trimmable_retx].iter().any(|class| result.contains(class)) {
            return Err(PlanError::Dscp);
        }
        if [no_trim, trimmable, trimmable_retx].iter().chain(&result).any(|&class| class > 63) {
            return Err(PlanError::Dscp);
        }
        for (_, fault) in &self.schedule {
            fault.check(&shape)?;
        }
        Ok(shape)
    }

    fn check_queues(&self) -> Result<(), PlanError> {
        let sizes = [self.nic_queue, self.queue.data, self.queue.control];
        if let Some(&bytes) = sizes.iter().find(|&&bytes| bytes == 0 || bytes > QUEUE_MAX) {
            return Err(PlanError::Queue(bytes));
        }
        match self.queue.ecn {
            Some(EcnParams { min, max, .. }) if min > max => Err(PlanError::Ecn { min, max }),
            _ => Ok(()),
        }
    }

    fn check_forwarding(&self, shape: &Shape) -> Result<(), PlanError> {
        let Forwarding::StructuredEv { bits, widths } = &self.forwarding else { return Ok(()) };
        let total: u32 = widths.iter().map(|&width| u32::from(width)).sum();
        if total > bits.count() || widths.iter().any(|width| !(1..=16).contains(width)) {
            return Err(PlanError::FieldWidths);
        }
        let tiers: &[u32] = if shape.t2 == 0 { &[shape.t1] } else { &[shape.t1, shape.t2] };
        for (tier, &links) in tiers.iter().enumerate() {
            let width = widths.get(tier).copied().unwrap_or(0);
            if links > 1 << width {
                return Err(PlanError::FieldTooNarrow { tier: tier as u8, width, links });
            }
        }
        Ok(())
    }

    pub(super) fn link(&self, stage: Stage) -> &LinkParams {
        match stage {
            Stage::FromNic | Stage::ToNic => &self.host,
            Stage::Between => &self.fabric,
        }
    }
}

impl LinkParams {
    fn check(&self) -> Result<(), PlanError> {
        if self.rate == 0 || self.rate > RATE_MAX {
            return Err(PlanError::Rate(self.rate));
        }
        if let Some(&ns) = [self.delay_ns, self.late_ns].iter().find(|&&ns| ns > DELAY_MAX) {
            return Err(PlanError::Delay(ns));
        }
        [self.loss, self.corrupt, self.reorder].into_iter().try_for_each(check_share)
    }
}

pub(super) fn check_share(share: f64) -> Result<(), PlanError> {
    if (0.0..=1.0).contains(&share) { Ok(()) } else { Err(PlanError::Share(share)) }
}

/// Why no fabric can be built of a plan.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A count of the topology is 0.
    #[error("a topology has at least one of everything")]
    Empty,
    /// Too many planes.
    #[error("{0} planes are more than the {max} ports of a NIC", max = super::PLANES_MAX)]
    Planes(u32),
    /// Too many NICs.
    #[error("{0} NICs are more than {max}", max = super::NICS_MAX)]
    Nics(u64),
    /// Too many switches.
    #[error("{0} switches of one tier are more than {max}", max = super::SWITCHES_MAX)]
    Switches(u64),
    /// Too many links.
    #[error("{0} links, each direction by itself, are more than {max}: take fewer NICs, switches or planes", max = super::LINKS_MAX)]
    Links(u64),
    /// No such rate.
    #[error("a rate of {0} bits per second is not within 1 to {RATE_MAX}")]
    Rate(u64),
    /// No such delay.
    #[error("a delay of {0} ns is longer than {DELAY_MAX} ns")]
    Delay(u64),
    /// No such share.
    #[error("a share of {0} is not within 0 to 1")]
    Share(f64),
    /// No such queue.
    #[error("a queue of {0} bytes is not within 1 to {QUEUE_MAX}")]
    Queue(u32),
    /// The thresholds are the wrong way round.
    #[error("ECN marks every frame from {max} bytes on, before marks begin at {min}")]
    Ecn {
        /// Where marks begin.
        min: u32,
        /// Where all are marked.
        max: u32,
    },
    /// The fields of a Structured EV do not fit.
    #[error("the fields of a Structured EV have 1 to 16 bits each, and 32, or the 16 of the UDP source port, together")]
    FieldWidths,
    /// Some links up have no value of the field.
    #[error("tier {tier} has {links} links up, and a field of {width} bits does not name them all")]
    FieldTooNarrow {
        /// The tier.
        tier: u8,
        /// Bits of its field.
        width: u8,
        /// Links up.
        links: u32,
    },
    /// Codepoints are above 63, or data could not be told from what was trimmed, or from control.
    #[error("DSCPs are 0 to 63, and those of data differ from those of trimmed packets and of control")]
    Dscp,
    /// A fault names what is not there.
    #[error("there is no link from {0} to {1}")]
    NoLink(Node, Node),
    /// A fault names what is not there.
    #[error("there is no switch {0}")]
    NoSwitch(super::SwitchId),
    /// A fault names what is not there.
    #[error("there is no plane {0}")]
    NoPlane(u8),
    /// A flap that never rests.
    #[error("a flap is down and up for at least 1 us each")]
    Flap,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_count_up_from_their_base_and_name_their_nic() {
        let addresses = Addresses::default();
        assert_eq!(addresses.v4(NicId(0)), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(addresses.v4(NicId(0x1_0203)), Ipv4Addr::new(10, 1, 2, 4));
        assert_eq!(addresses.v6(NicId(0xFFFF)), "fd00::1:0".parse::<Ipv6Addr>().unwrap());
        for nic in [0, 1, 1023, 65_535].map(NicId) {
            assert_eq!(addresses.nic(addresses.v4(nic).into()), Some(nic));
            assert_eq!(addresses.nic(addresses.v6(nic).into()), Some(nic));
        }
        assert_eq!(addresses.nic(addresses.v4.into()), None);
        assert_eq!(addresses.nic("fe80::1".parse().unwrap()), None);
        assert_eq!(mac(NicId(258), 3).to_string(), "02:00:03:00:01:03");
    }

    #[test]
    fn what_cannot_be_built_is_refused_by_name() {
        let spine = |spines| Topology::LeafSpine { planes: 1, leaves: 2, nics_per_leaf: 2, spines };
        let refused = |change: &dyn Fn(&mut Plan)| {
            let mut plan = Plan::new(spine(8));
            change(&mut plan);
            plan.check().unwrap_err()
        };
        assert_eq!(Plan::new(spine(8)).check(), Ok(()));
        assert_eq!(refused(&|p| p.topology = spine(0)), PlanError::Empty);
        assert_eq!(refused(&|p| p.topology = spine(5_000)), PlanError::Switches(5_000));
        assert_eq!(refused(&|p| p.host.rate = 0), PlanError::Rate(0));
        assert_eq!(refused(&|p| p.fabric.loss = 1.5), PlanError::Share(1.5));
        assert_eq!(refused(&|p| p.fabric.delay_ns = DELAY_MAX + 1), PlanError::Delay(DELAY_MAX + 1));
        assert_eq!(refused(&|p| p.queue.data = 0), PlanError::Queue(0));
        assert_eq!(refused(&|p| p.dscp.control = p.dscp.trimmable), PlanError::Dscp);
        assert_eq!(
            refused(&|p| p.queue.ecn = Some(EcnParams { min: 2, max: 1, last_hop: false })),
            PlanError::Ecn { min: 2, max: 1 }
        );
        let fields = |bits, widths: &[u8]| Forwarding::StructuredEv { bits, widths: widths.to_vec() };
        let narrow = PlanError::FieldTooNarrow { tier: 0, width: 2, links: 8 };
        assert_eq!(refused(&|p| p.forwarding = fields(EvBits::Port, &[2])), narrow);
        assert_eq!(refused(&|p| p.forwarding = fields(EvBits::Port, &[9, 8])), PlanError::FieldWidths);
        assert!(refused(&|p| p.forwarding = fields(EvBits::LabelAndPort, &[])).to_string().contains("0 bits"));
    }

    #[test]
    fn a_share_that_is_no_number_is_refused() {
        assert!(check_share(f64::NAN).is_err());
        assert!(check_share(-0.1).is_err());
    }
}

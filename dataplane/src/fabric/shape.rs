//! Which node stands where: planes, tiers, and the numbers of switches and links.
//!
//! All topologies are one shape. Each plane is a Clos of two or three tiers: T0 has the NICs below it, T1 joins the T0 of a pod, T2 joins
//! the pods. A pod's n-th T1 switch has T2 switches of its own (a fat tree), so the way down is always one. Links are numbered so that the
//! place of each follows from arithmetic; nothing is looked up in a table that grows with the number of NICs.

use super::{NicId, PlanError, Topology};
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

/// Most NICs of a fabric.
pub const NICS_MAX: u32 = 65_536;
/// Most planes, and so ports of a NIC (`nic` has as many).
pub const PLANES_MAX: u8 = 8;
/// Most switches of one tier of one plane: they have uSIDs of 12 bits below the tier.
pub const SWITCHES_MAX: u32 = 4_096;
/// Most links, each direction by itself: about 2 GiB.
pub const LINKS_MAX: u64 = 1 << 23;

/// An end of a link. As text `nic3.1` (NIC 3, port 1) or `p0.t1.2` (plane 0, tier 1, switch 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A port of a NIC; port n is on plane n.
    Nic(NicId, u8),
    /// A switch.
    Switch(SwitchId),
}

/// A switch by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId {
    /// The plane, from 0.
    pub plane: u8,
    /// 0 next to the NICs, then 1 and 2.
    pub tier: u8,
    /// Its number within plane and tier. Those of pod `p` follow those of pod `p - 1`; on tier 2, those that the pods' first T1
    /// switches reach come first.
    pub index: u32,
}

impl SwitchId {
    /// Its uSID, the same in every plane: the tier from 1 in the upper 4 bits, so that the uSIDs of a tier are a range.
    #[must_use]
    pub const fn usid(self) -> u16 {
        (self.tier as u16 + 1) << 12 | (self.index & 0x0FFF) as u16
    }
}

impl fmt::Display for SwitchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}.t{}.{}", self.plane, self.tier, self.index)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Nic(nic, port) => write!(f, "nic{}.{port}", nic.0),
            Node::Switch(switch) => fmt::Display::fmt(switch, f),
        }
    }
}

impl FromStr for SwitchId {
    type Err = ();

    fn from_str(text: &str) -> Result<SwitchId, ()> {
        let mut parts = text.strip_prefix('p').ok_or(())?.split('.');
        let plane = number(parts.next())?;
        let tier = number(parts.next().and_then(|part| part.strip_prefix('t')))?;
        let index = number(parts.next())?;
        parts.next().is_none().then_some(SwitchId { plane, tier, index }).ok_or(())
    }
}

impl FromStr for Node {
    type Err = ();

    fn from_str(text: &str) -> Result<Node, ()> {
        let Some(rest) = text.strip_prefix("nic") else { return text.parse().map(Node::Switch) };
        let (nic, port) = rest.split_once('.').ok_or(())?;
        Ok(Node::Nic(NicId(number(Some(nic))?), number(Some(port))?))
    }
}

fn number<T: FromStr>(text: Option<&str>) -> Result<T, ()> {
    text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).and_then(|text| text.parse().ok()).ok_or(())
}

/// The counts of which everything follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) planes: u32,
    pods: u32,
    /// T0 switches of a pod.
    leaves: u32,
    nics_per_leaf: u32,
    /// T1 switches of a pod: the uplinks of a T0.
    pub(super) t1: u32,
    /// T2 switches above each T1: its uplinks. 0 with two tiers.
    pub(super) t2: u32,
}

/// Where a switch's links are, and which NICs are below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) id: SwitchId,
    /// First NIC below.
    nics_from: u32,
    /// NICs below.
    nics: u32,
    /// NICs behind each link down.
    nics_per_link: u32,
    down_from: u32,
    up_from: u32,
    pub(super) up: u32,
}

impl Switch {
    /// The link down to `nic`, if it is below.
    #[inline]
    pub(super) fn down_to(&self, nic: u32) -> Option<u32> {
        let nth = nic.wrapping_sub(self.nics_from);
        (nth < self.nics).then(|| self.down_from + nth / self.nics_per_link)
    }

    /// The `n`-th link up.
    #[inline]
    pub(super) fn up_link(&self, n: u32) -> u32 {
        self.up_from + n
    }

    /// All links out of it.
    pub(super) fn links(&self) -> Range<u32> {
        self.down_from..self.up_from + self.up
    }
}

impl Shape {
    pub(super) fn new(topology: &Topology) -> Result<Shape, PlanError> {
        let shape = match *topology {
            Topology::Paths { nics, paths } => {
                Shape { planes: 1, pods: 1, leaves: nics, nics_per_leaf: 1, t1: paths, t2: 0 }
            }
            Topology::LeafSpine { planes, leaves, nics_per_leaf, spines } => {
                Shape { planes: planes.into(), pods: 1, leaves, nics_per_leaf, t1: spines, t2: 0 }
            }
            Topology::ThreeTier { planes, pods, leaves, nics_per_leaf, spines, cores } => {
                Shape { planes: planes.into(), pods, leaves, nics_per_leaf, t1: spines, t2: cores }
            }
        };
        let Shape { planes, pods, leaves, nics_per_leaf, t1, t2 } = shape;
        let three = matches!(topology, Topology::ThreeTier { .. });
        if [planes, pods, leaves, nics_per_leaf, t1].contains(&0) || (three && t2 == 0) {
            return Err(PlanError::Empty);
        }
        if planes > PLANES_MAX.into() {
            return Err(PlanError::Planes(planes));
        }
        let product = |of: &[u32]| of.iter().map(|&n| u64::from(n)).fold(1u64, u64::saturating_mul);
        let nics = product(&[pods, leaves, nics_per_leaf]);
        if nics > NICS_MAX.into() {
            return Err(PlanError::Nics(nics));
        }
        let most = [product(&[pods, leaves]), product(&[pods, t1]), product(&[t1, t2])].into_iter().max().unwrap_or(0);
        if most > SWITCHES_MAX.into() {
            return Err(PlanError::Switches(most));
        }
        // Each direction: NIC to T0, T0 to T1, T1 to T2.
        let up = [nics, product(&[pods, leaves, t1]), product(&[pods, t1, t2])];
        let links = up.iter().fold(0u64, |sum, &n| sum.saturating_add(n)).saturating_mul(2 * u64::from(planes));
        if links > LINKS_MAX {
            return Err(PlanError::Links(links));
        }
        Ok(shape)
    }

    pub(super) const fn nics(&self) -> u32 {
        self.pods * self.leaves * self.nics_per_leaf
    }

    /// T0 switches of a plane.
    const fn leaves(&self) -> u32 {
        self.pods * self.leaves
    }

    const fn tier_len(&self, tier: u8) -> u32 {
        match tier {
            0 => self.leaves(),
            1 => self.pods * self.t1,
            2 => self.t1 * self.t2,
            _ => 0,
        }
    }

    /// Links out of a switch of this tier: down, up.
    const fn ports(&self, tier: u8) -> (u32, u32) {
        match tier {
            0 => (self.nics_per_leaf, self.t1),
            1 => (self.leaves, self.t2),
            _ => (self.pods, 0),
        }
    }

    /// Links out of the switches of a tier.
    const fn tier_links(&self, tier: u8) -> u32 {
        let (down, up) = self.ports(tier);
        self.tier_len(tier) * (down + up)
    }

    /// Links out of NICs; they have the first numbers, NIC by NIC.
    const fn host_links(&self) -> u32 {
        self.nics() * self.planes
    }

    const fn plane_links(&self) -> u32 {
        self.tier_links(0) + self.tier_links(1) + self.tier_links(2)
    }

    /// All links out of the switches of a plane.
    pub(super) const fn links_of_plane(&self, plane: u32) -> Range<u32> {
        let from = self.host_links() + plane * self.plane_links();
        from..from + self.plane_links()
    }

    /// The link out of a NIC's port.
    #[inline]
    pub(super) fn host_link(&self, nic: u32, port: u8) -> Option<u32> {
        (nic < self.nics() && u32::from(port) < self.planes).then(|| nic * self.planes + u32::from(port))
    }

    pub(super) const fn switches_per_plane(&self) -> u32 {
        self.tier_len(0) + self.tier_len(1) + self.tier_len(2)
    }

    /// A switch's number among all.
    pub(super) fn number(&self, id: SwitchId) -> Option<u32> {
        let known = u32::from(id.plane) < self.planes && id.index < self.tier_len(id.tier);
        let before: u32 = (0..id.tier).map(|tier| self.tier_len(tier)).sum();
        known.then(|| u32::from(id.plane) * self.switches_per_plane() + before + id.index)
    }

    /// The T0 switch of a NIC in a plane.
    pub(super) const fn leaf(&self, nic: u32, plane: u8) -> SwitchId {
        SwitchId { plane, tier: 0, index: nic / self.nics_per_leaf }
    }

    const fn pod_of_leaf(&self, leaf: u32) -> u32 {
        leaf / self.leaves
    }

    /// The switches from one NIC to another in a plane, with these choices on the way up.
    pub(super) fn switches_between(&self, from: u32, to: u32, plane: u8, up: [u32; 2]) -> Vec<SwitchId> {
        let (first, last) = (self.leaf(from, plane), self.leaf(to, plane));
        let (from_pod, to_pod) = (self.pod_of_leaf(first.index), self.pod_of_leaf(last.index));
        let spine = |pod| SwitchId { plane, tier: 1, index: pod * self.t1 + up[0] };
        if first == last {
            vec![first]
        } else if from_pod == to_pod {
            vec![first, spine(from_pod), last]
        } else {
            let core = SwitchId { plane, tier: 2, index: up[0] * self.t2 + up[1] };
            vec![first, spine(from_pod), core, spine(to_pod), last]
        }
    }

    /// How many choices there are on each tier on the way from one NIC to another.
    pub(super) fn choices(&self, from: u32, to: u32) -> [u32; 2] {
        let (first, last) = (self.leaf(from, 0).index, self.leaf(to, 0).index);
        if first == last {
            [1, 1]
        } else if self.pod_of_leaf(first) == self.pod_of_leaf(last) {
            [self.t1, 1]
        } else {
            [self.t1, self.t2]
        }
    }

    pub(super) fn switch(&self, id: SwitchId) -> Switch {
        let (down, up) = self.ports(id.tier);
        let before: u32 = (0..id.tier).map(|tier| self.tier_links(tier)).sum();
        let down_from = self.links_of_plane(id.plane.into()).start + before + id.index * (down + up);
        let pod_nics = self.leaves * self.nics_per_leaf;
        let (nics_from, nics, nics_per_link) = match id.tier {
            0 => (id.index * self.nics_per_leaf, self.nics_per_leaf, 1),
            1 => (id.index / self.t1 * pod_nics, pod_nics, self.nics_per_leaf),
            _ => (0, self.nics(), pod_nics),
        };
        Switch { id, nics_from, nics, nics_per_link, down_from, up_from: down_from + down, up }
    }

    /// All switches in the order of their numbers.
    pub(super) fn switches(&self) -> impl Iterator<Item = SwitchId> + use<> {
        let shape = *self;
        (0..shape.planes as u8).flat_map(move |plane| {
            (0..3u8).flat_map(move |tier| (0..shape.tier_len(tier)).map(move |index| SwitchId { plane, tier, index }))
        })
    }

    /// The node behind the `n`-th link out of a switch, links down first.
    pub(super) fn neighbour(&self, from: SwitchId, n: u32) -> Node {
        let (down, _) = self.ports(from.tier);
        let at = |tier, index| Node::Switch(SwitchId { plane: from.plane, tier, index });
        match (from.tier, n.checked_sub(down)) {
            (0, None) => Node::Nic(NicId(from.index * self.nics_per_leaf + n), from.plane),
            (0, Some(up)) => at(1, self.pod_of_leaf(from.index) * self.t1 + up),
            (1, None) => at(0, from.index / self.t1 * self.leaves + n),
            (1, Some(up)) => at(2, from.index % self.t1 * self.t2 + up),
            _ => at(1, n * self.t1 + from.index / self.t2),
        }
    }

    /// The link from a switch to a neighbouring one of the same plane, given by tier and index.
    #[inline]
    pub(super) fn link_to(&self, from: &Switch, tier: u8, index: u32) -> Option<u32> {
        if index >= self.tier_len(tier) {
            return None;
        }
        let own = from.id.index;
        match (from.id.tier, tier) {
            (0, 1) => (self.pod_of_leaf(own) == index / self.t1).then(|| from.up_from + index % self.t1),
            (1, 0) => (own / self.t1 == self.pod_of_leaf(index)).then(|| from.down_from + index % self.leaves),
            (1, 2) => (own % self.t1 == index / self.t2).then(|| from.up_from + index % self.t2),
            (2, 1) => (own / self.t2 == index % self.t1).then(|| from.down_from + index / self.t1),
            _ => None,
        }
    }

    /// The link from one node to the next.
    pub(super) fn link(&self, from: Node, to: Node) -> Option<u32> {
        let switch = |id: SwitchId| self.number(id).map(|_| self.switch(id));
        match (from, to) {
            (Node::Nic(nic, port), Node::Switch(leaf)) => {
                let link = self.host_link(nic.0, port)?;
                (self.leaf(nic.0, port) == leaf).then_some(link)
            }
            (Node::Switch(leaf), Node::Nic(nic, port)) => {
                self.host_link(nic.0, port)?;
                (self.leaf(nic.0, port) == leaf).then(|| switch(leaf)?.down_to(nic.0))?
            }
            (Node::Switch(from), Node::Switch(to)) => {
                (from.plane == to.plane).then(|| self.link_to(&switch(from)?, to.tier, to.index))?
            }
            (Node::Nic(..), Node::Nic(..)) => None,
        }
    }

    /// The ends of all links, in the order of their numbers.
    pub(super) fn ends(&self) -> impl Iterator<Item = (Node, Node)> + use<> {
        let shape = *self;
        let hosts = (0..shape.nics()).flat_map(move |nic| {
            (0..shape.planes as u8).map(move |port| (Node::Nic(NicId(nic), port), Node::Switch(shape.leaf(nic, port))))
        });
        let switches = shape.switches().flat_map(move |id| {
            let (down, up) = shape.ports(id.tier);
            (0..down + up).map(move |n| (Node::Switch(id), shape.neighbour(id, n)))
        });
        hosts.chain(switches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> Vec<Shape> {
        [
            Topology::Paths { nics: 2, paths: 8 },
            Topology::LeafSpine { planes: 2, leaves: 3, nics_per_leaf: 4, spines: 5 },
            Topology::ThreeTier { planes: 2, pods: 3, leaves: 2, nics_per_leaf: 3, spines: 4, cores: 5 },
        ]
        .iter()
        .map(|topology| Shape::new(topology).unwrap())
        .collect()
    }

    #[test]
    fn a_links_number_is_found_from_its_ends_and_back() {
        for shape in shapes() {
            let ends: Vec<_> = shape.ends().collect();
            assert_eq!(ends.len() as u32, shape.links_of_plane(shape.planes - 1).end);
            for (number, (from, to)) in ends.into_iter().enumerate() {
                assert_eq!(shape.link(from, to), Some(number as u32), "{from} to {to}");
                assert!(shape.link(to, from).is_some(), "{to} to {from}");
                assert_eq!(from.to_string().parse(), Ok(from));
            }
        }
    }

    #[test]
    fn switches_have_numbers_in_order_and_usids_of_their_own() {
        for shape in shapes() {
            let switches: Vec<_> = shape.switches().collect();
            assert_eq!(switches.len() as u32, shape.planes * shape.switches_per_plane());
            for (number, &id) in switches.iter().enumerate() {
                assert_eq!(shape.number(id), Some(number as u32));
            }
            let usids: std::collections::BTreeSet<_> =
                switches.iter().filter(|id| id.plane == 0).map(|id| id.usid()).collect();
            assert_eq!(usids.len() as u32, shape.switches_per_plane());
        }
    }

    #[test]
    fn every_node_on_the_way_is_a_neighbour_of_the_next() {
        for shape in shapes() {
            for (from, to) in [(0, shape.nics() - 1), (0, 1), (1, 0)] {
                let way = shape.switches_between(from, to, 0, [1, 1]);
                let mut nodes = vec![Node::Nic(NicId(from), 0)];
                nodes.extend(way.into_iter().map(Node::Switch));
                nodes.push(Node::Nic(NicId(to), 0));
                assert!(nodes.windows(2).all(|pair| shape.link(pair[0], pair[1]).is_some()), "{nodes:?}");
            }
        }
    }

    #[test]
    fn what_is_no_node_is_not_read_as_one() {
        for text in ["", "nic", "nic1", "nic1.", "nic+1.0", "p0.t0", "p0.t0.1.2", "p0.1.2", "t0.p0.1", "nic1.0.0"] {
            assert!(text.parse::<Node>().is_err(), "{text}");
        }
        for text in ["nic9.0", "nic0.7", "p0.t2.0", "p7.t0.0", "p0.t0.99"] {
            let node: Node = text.parse().unwrap();
            assert_eq!(shapes()[0].link(node, Node::Nic(NicId(0), 0)), None, "{text}");
        }
    }
}

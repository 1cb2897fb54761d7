//! Where each frame leaves: its entropy value, its port, and its path in an outer header.

use super::qp::QpPath;
use super::{EvState, Nic, PortId, Qp, Whose, place, profile_evs};
use crate::Ns;
use crate::path::profile::{Ev, EvPool, PortSet};
use crate::path::{EvSet, NoPath, Pick, PortMask, Spraying};
use crate::wire::{LinkAddresses, Marks, OuterMarks, write_link};
use core::net::{IpAddr, Ipv6Addr};

/// A spraying state: that of the QPs to one destination that use one profile, or none.
#[derive(Debug)]
pub(super) struct Rotation {
    pub(super) destination: usize,
    pub(super) profile: Option<u64>,
    pub(super) spraying: Spraying,
    /// Open QPs; with none the state is forgotten.
    pub(super) qps: usize,
}

/// A frame's way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) route: Route,
    /// Its path in the outer header, where it has one of its own.
    pub(super) segment: Option<Ipv6Addr>,
}

/// A way, but for its path in an outer header, which few have. What it picks of a rotation is to be taken when the frame goes out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route(Pick);

impl Route {
    #[inline(always)]
    pub(super) const fn ev(&self) -> u32 {
        self.0.value
    }

    #[inline(always)]
    pub(super) const fn port(&self) -> PortId {
        engine_port(self.0.port())
    }

    /// All of it.
    pub(super) fn way(self, rotations: &[Rotation], path: QpPath) -> Way {
        let segment = match path {
            QpPath::Sprayed(rotation) => rotations[rotation].spraying.segment(&self.0),
            QpPath::Own(_) => None,
        };
        Way { route: self, segment }
    }
}

/// Where the routes of a QP come from.
pub(super) enum Routes<'a> {
    /// The next value of a rotation.
    Sprayed(&'a mut Spraying),
    /// A UDP port and a port of its own.
    Own(u16, PortId),
}

impl<'a> Routes<'a> {
    /// Those of a path, where `own` is the port of one that is not sprayed.
    #[inline(always)]
    pub(super) fn of(rotations: &'a mut [Rotation], path: QpPath, own: PortId) -> Routes<'a> {
        match path {
            QpPath::Sprayed(rotation) => Routes::Sprayed(&mut rotations[rotation].spraying),
            QpPath::Own(udp_port) => Routes::Own(udp_port, own),
        }
    }

    /// The next route. Nothing changes until it is taken.
    #[inline(always)]
    pub(super) fn next(&mut self, now: Ns, full: FullPorts) -> Result<Route, NoPath> {
        match self {
            Routes::Sprayed(spraying) => Ok(Route(spraying.choose(now, full.full)?)),
            Routes::Own(_, port) if full.has(*port) => Err(NoPath::PortsFull),
            Routes::Own(udp_port, port) => Ok(Route(Pick::fixed((*udp_port).into(), port.0 + 1))),
        }
    }

    /// A frame goes out by the route that came last.
    #[inline(always)]
    pub(super) fn take(&mut self, route: Route) {
        if let Routes::Sprayed(spraying) = self {
            spraying.take(&route.0);
        }
    }
}

/// Ports that take no more during one call of transmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FullPorts {
    full: PortMask,
    all: PortMask,
}

impl FullPorts {
    pub(super) const fn none_of(ports: usize) -> FullPorts {
        FullPorts { full: 0, all: all_ports(ports) }
    }

    pub(super) const fn add(&mut self, port: PortId) {
        self.full |= 1 << (port.0 & 7);
    }

    /// Nothing can be sent any more.
    pub(super) const fn is_everything(self) -> bool {
        self.full == self.all
    }

    pub(super) const fn has(self, port: PortId) -> bool {
        self.full >> (port.0 & 7) & 1 == 1
    }
}

/// The ports 0 to `ports` - 1.
pub(super) const fn all_ports(ports: usize) -> PortMask {
    if ports >= 8 { PortMask::MAX } else { (1 << ports) - 1 }
}

/// The engine's number of a port that profiles count from 1.
const fn engine_port(port: u8) -> PortId {
    PortId(port.saturating_sub(1))
}

impl Qp {
    /// The Ethernet addresses on a port, where they are not the template's.
    #[inline]
    pub(super) fn link(&self, port: PortId) -> Option<&LinkAddresses> {
        self.links.as_ref()?.get(usize::from(port.0))
    }

    /// Do its frames have other addresses than the template's?
    #[inline]
    pub(super) const fn is_addressed(&self) -> bool {
        self.links.is_some() || self.encapsulated
    }

    /// Puts the addresses of the frame's way into it, once its headers are written.
    #[inline]
    pub(super) fn address(&self, frame: &mut [u8], way: &Way, marks: Marks) {
        if let Some(link) = self.link(way.route.port()) {
            write_link(frame, link);
        }
        if let Some(segment) = way.segment.filter(|_| self.encapsulated) {
            // The template is encapsulated, so there is an outer header to write.
            let _ = self.template.write_outer(frame, &OuterMarks::to(segment, marks));
        }
    }
}

impl Nic {
    /// The way of a data packet or a cumulative ACK: the next value of the rotation, or the QP's own.
    #[inline]
    pub(super) fn way(
        &mut self,
        now: Ns,
        path: QpPath,
        port: PortId,
        at: usize,
        full: FullPorts,
    ) -> Result<Way, NoPath> {
        let own = self.port_of(path, port, at);
        Ok(Routes::of(&mut self.rotations, path, own).next(now, full)?.way(&self.rotations, path))
    }

    /// The port of a QP that is not sprayed, by [`Nic::own_port`]. Of one that is sprayed it has no meaning.
    #[inline]
    pub(super) fn port_of(&self, path: QpPath, own: PortId, at: usize) -> PortId {
        match path {
            QpPath::Sprayed(_) => own,
            QpPath::Own(_) => self.own_port(own, at),
        }
    }

    /// The frame that took a way goes out.
    #[inline]
    pub(super) fn take_way(&mut self, path: QpPath, way: &Way) {
        Routes::of(&mut self.rotations, path, way.route.port()).take(way.route);
    }

    /// The way of an answer that carries back the value `ev`: a port and a path of its own choice.
    #[inline]
    pub(super) fn reply_way(&mut self, qp: &ReplyFrom, ev: u32, full: FullPorts) -> Result<Way, NoPath> {
        if self.ports.len() == 1 && !qp.encapsulated {
            return if full.is_everything() { Err(NoPath::PortsFull) } else { Ok(Way::plain(ev, PortId(0))) };
        }
        match qp.path {
            QpPath::Own(_) => self.own_way(ev, qp.port, qp.destination, full),
            QpPath::Sprayed(rotation) => match self.rotations[rotation].spraying.reply_path(full.full) {
                Ok(path) => Ok(Way { segment: path.segment, ..Way::plain(ev, engine_port(path.port)) }),
                // What was received is acknowledged, though nothing of our own may be sent.
                Err(NoPath::Denied) => self.own_way(ev, qp.port, qp.destination, full),
                Err(NoPath::PortsFull) => Err(NoPath::PortsFull),
            },
        }
    }

    /// The way of a probe: that of the value that it tests. One that the rotation does not have goes as a reply does.
    pub(super) fn probe_way(&mut self, qp: &ReplyFrom, ev: u32, full: FullPorts) -> Result<Way, NoPath> {
        let known = match qp.path {
            QpPath::Sprayed(rotation) => self.rotations[rotation].spraying.find(ev),
            QpPath::Own(_) => None,
        };
        match known {
            Some(known) if full.has(engine_port(known.port)) => Err(NoPath::PortsFull),
            Some(known) => Ok(Way { segment: known.segment, ..Way::plain(ev, engine_port(known.port)) }),
            None => self.reply_way(qp, ev, full),
        }
    }

    /// The way of what belongs to no QP's data: the next path for replies, with its own value.
    pub(super) fn any_way(&mut self, qp: &ReplyFrom, full: FullPorts) -> Result<Way, NoPath> {
        match qp.path {
            QpPath::Own(udp_port) => self.own_way(udp_port.into(), qp.port, qp.destination, full),
            QpPath::Sprayed(rotation) => match self.rotations[rotation].spraying.reply_path(full.full) {
                Ok(path) => Ok(Way { segment: path.segment, ..Way::plain(path.value, engine_port(path.port)) }),
                // It is no data: with every value denied it goes all the same.
                Err(NoPath::Denied) => self.own_way(self.params.udp_port.into(), qp.port, qp.destination, full),
                Err(NoPath::PortsFull) => Err(NoPath::PortsFull),
            },
        }
    }

    /// The value that a probe of `ev` on a QP tests, with the port and the path that it has there.
    pub(super) fn probed(&self, path: QpPath, ev: u32) -> Ev {
        let known = match path {
            QpPath::Sprayed(rotation) => self.rotations[rotation].spraying.find(ev),
            QpPath::Own(_) => None,
        };
        known.unwrap_or(Ev::new(ev, 0))
    }

    /// A QP's own port, or the first that is in use at both ends where that one is not.
    fn own_way(&self, ev: u32, own: PortId, at: usize, full: FullPorts) -> Result<Way, NoPath> {
        let port = self.own_port(own, at);
        if full.has(port) { Err(NoPath::PortsFull) } else { Ok(Way::plain(ev, port)) }
    }

    /// The port of a QP that is not sprayed.
    pub(super) fn own_port(&self, own: PortId, at: usize) -> PortId {
        let out = self.ports_out | self.destinations[at].peer_ports_out;
        let is_in = |port: &PortId| out >> (port.0 & 7) & 1 == 0;
        let first_in = || (0..self.ports.len() as u8).map(PortId).find(is_in);
        if is_in(&own) { own } else { first_in().unwrap_or(own) }
    }

    /// The rotation of a destination for a profile's values, or for those that the NIC draws; a new one when no QP uses one.
    pub(super) fn rotation(&mut self, destination: usize, pool: Option<&EvPool>) -> usize {
        let profile = pool.map(|pool| pool.id);
        let rotations = &self.destinations[destination].rotations;
        if let Some(&at) = rotations.iter().find(|&&at| self.rotations[at].profile == profile) {
            return at;
        }
        let (params, bdp, full) = (&self.params.spraying, self.params.bdp(), self.params.transport.full());
        let set = match pool {
            Some(pool) => EvSet::of_profile(pool, params, bdp, full, &mut self.rng),
            None => {
                let ports = PortSet::first(self.ports.len() as u8);
                EvSet::drawn(params, bdp, full, ports, &mut self.rng)
            }
        };
        let mut spraying = Spraying::new(&set, params.assumed_bad_ns, &mut self.rng);
        let address = self.destinations[destination].address;
        for &(whom, ev) in &self.denied {
            if whom.is_none_or(|whom| whom == address) {
                spraying.deny(ev);
            }
        }
        if let Some(profile) = profile {
            for (ev, state) in profile_evs::marks_of(&self.marks, profile) {
                match state {
                    EvState::Denied => _ = spraying.deny(ev),
                    _ if spraying.assume_bad(ev, self.clock) => {
                        self.events.push(self.clock, address, Whose::Of(Some(profile)), ev, EvState::AssumedBad);
                    }
                    _ => {}
                }
            }
        }
        spraying.set_ports_out(self.ports_out | self.destinations[destination].peer_ports_out);
        let rotation = Rotation { destination, profile, spraying, qps: 0 };
        let at = place(&mut self.rotations, &mut self.free_rotations, rotation);
        self.destinations[destination].rotations.push(at);
        at
    }

    /// A QP no longer uses a rotation: with the last one it is forgotten.
    pub(super) fn leave_rotation(&mut self, at: usize) {
        let rotation = &mut self.rotations[at];
        rotation.qps -= 1;
        if rotation.qps == 0 {
            self.destinations[rotation.destination].rotations.retain(|&other| other != at);
            self.free_rotations.push(at);
        }
    }

    /// The rotations towards an address.
    pub(super) fn rotations_to(&self, remote: IpAddr) -> impl Iterator<Item = &Rotation> + '_ {
        let destination = self.destination_of.get(&remote).map(|&at| &self.destinations[at]);
        destination.into_iter().flat_map(|destination| destination.rotations.iter().map(|&at| &self.rotations[at]))
    }
}

/// What decides where a QP's answers leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyFrom {
    pub(super) path: QpPath,
    pub(super) port: PortId,
    pub(super) destination: usize,
    pub(super) encapsulated: bool,
}

impl ReplyFrom {
    pub(super) const fn qp(qp: &Qp) -> ReplyFrom {
        ReplyFrom { path: qp.path, port: qp.port, destination: qp.destination, encapsulated: qp.encapsulated }
    }
}

impl Way {
    const fn plain(ev: u32, port: PortId) -> Way {
        Way { route: Route(Pick::fixed(ev, port.0 + 1)), segment: None }
    }
}

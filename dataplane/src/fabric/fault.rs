//! What breaks.

use super::plan::{PlanError, RATE_MAX, check_share};
use super::shape::{Node, Shape, SwitchId};
use crate::time::US;

/// Links that a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// One link, in both directions.
    Link(Node, Node),
    /// One link, from the first node to the second alone.
    OneWay(Node, Node),
    /// All links of a switch, in both directions.
    Switch(SwitchId),
    /// All links of a plane, those of NICs included.
    Plane(u8),
}

/// Something that breaks, or is mended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Links go down: what waits on them and what travels is lost, and both ends see it.
    Down(Place),
    /// Links come back, whatever took them down but a reboot.
    Up(Place),
    /// Links go down and up again, the first time at once.
    Flap {
        /// Which.
        place: Place,
        /// Down for so long, in ns, at least 1 us.
        down_ns: u64,
        /// Then up for so long.
        up_ns: u64,
        /// How often.
        times: u32,
    },
    /// Links swallow every frame, and look up.
    BlackHole(Place),
    /// Links lose a share of their frames, 0 to 1.
    Loss(Place, f64),
    /// Links have another rate, in bits per second.
    Rate(Place, u64),
    /// Links are as planned again: up, with the planned rate and loss, and no black hole. A flap goes on.
    Heal(Place),
    /// A switch forgets its queues, and its links are down for so many ns.
    Reboot(SwitchId, u64),
}

impl Fault {
    pub(super) fn check(&self, shape: &Shape) -> Result<(), PlanError> {
        match *self {
            Fault::Down(place) | Fault::Up(place) | Fault::BlackHole(place) | Fault::Heal(place) => place.check(shape),
            Fault::Flap { down_ns, up_ns, .. } if down_ns < US || up_ns < US => Err(PlanError::Flap),
            Fault::Flap { place, .. } => place.check(shape),
            Fault::Loss(place, share) => check_share(share).and_then(|()| place.check(shape)),
            Fault::Rate(_, rate) if rate == 0 || rate > RATE_MAX => Err(PlanError::Rate(rate)),
            Fault::Rate(place, _) => place.check(shape),
            Fault::Reboot(switch, _) => Place::Switch(switch).check(shape),
        }
    }
}

impl Place {
    fn check(self, shape: &Shape) -> Result<(), PlanError> {
        match self {
            Place::Link(from, to) | Place::OneWay(from, to) => {
                shape.link(from, to).map(|_| ()).ok_or(PlanError::NoLink(from, to))
            }
            Place::Switch(id) => shape.number(id).map(|_| ()).ok_or(PlanError::NoSwitch(id)),
            Place::Plane(plane) if u32::from(plane) >= shape.planes => Err(PlanError::NoPlane(plane)),
            Place::Plane(_) => Ok(()),
        }
    }

    /// The numbers of its links.
    pub(super) fn links(self, shape: &Shape) -> Vec<u32> {
        match self {
            Place::Link(a, b) => shape.link(a, b).into_iter().chain(shape.link(b, a)).collect(),
            Place::OneWay(from, to) => shape.link(from, to).into_iter().collect(),
            Place::Switch(id) if shape.number(id).is_some() => {
                let out = shape.switch(id).links();
                let into = (0..out.len() as u32).map(|n| shape.link(shape.neighbour(id, n), Node::Switch(id)));
                out.clone().chain(into.flatten()).collect()
            }
            Place::Switch(_) => Vec::new(),
            Place::Plane(plane) if u32::from(plane) < shape.planes => {
                let hosts = (0..shape.nics()).filter_map(|nic| shape.host_link(nic, plane));
                hosts.chain(shape.links_of_plane(plane.into())).collect()
            }
            Place::Plane(_) => Vec::new(),
        }
    }
}

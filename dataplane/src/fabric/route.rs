//! Where a switch sends a frame.

use super::label::Label;
use super::plan::{Forwarding, Plan};
use super::shape::{Shape, Switch};
use super::{FabricDrop, Hash};
use crate::wire;
use core::net::Ipv6Addr;

/// Attempts to find a link that is up by hashing again, before the links are tried in a row.
const REHASHES: u64 = 4;

/// A field of a Structured EV.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    shift: u32,
    mask: u32,
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Hash(Hash),
    /// The field of each tier that has links up.
    Fields([Field; 2]),
    Usids {
        locator: u32,
        others: Hash,
    },
}

/// The forwarding of all switches.
pub(super) struct Router {
    pub(super) shape: Shape,
    choice: Choice,
    switches: Vec<Switch>,
}

/// Where a frame goes next, and what is left of its uSIDs if the switch used one up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) link: u32,
    pub(super) usids: Option<Ipv6Addr>,
}

impl Router {
    pub(super) fn new(plan: &Plan, shape: Shape) -> Router {
        let choice = match &plan.forwarding {
            Forwarding::Ecmp(hash) => Choice::Hash(*hash),
            Forwarding::StructuredEv { bits, widths } => {
                let mut fields = [Field::default(); 2];
                let mut left = bits.count();
                for (field, &width) in fields.iter_mut().zip(widths) {
                    left -= u32::from(width);
                    *field = Field { shift: left, mask: (1 << width) - 1 };
                }
                Choice::Fields(fields)
            }
            Forwarding::Srv6 { locator, others } => Choice::Usids { locator: *locator, others: *others },
        };
        Router { shape, choice, switches: shape.switches().map(|id| shape.switch(id)).collect() }
    }

    pub(super) fn switch(&self, number: u32) -> &Switch {
        &self.switches[number as usize]
    }

    /// The EV whose fields make these choices on the way up.
    pub(super) fn ev(&self, up: [u32; 2]) -> Option<u32> {
        let Choice::Fields(fields) = self.choice else { return None };
        Some(fields.iter().zip(up).fold(0, |ev, (field, choice)| ev | (choice & field.mask) << field.shift))
    }

    pub(super) fn locator(&self) -> Option<u32> {
        match self.choice {
            Choice::Usids { locator, .. } => Some(locator),
            _ => None,
        }
    }

    /// The link that the switch of this number sends the frame to. `usids` is its outer destination, if that is a path; `is_up` says which
    /// links look up.
    #[inline]
    pub(super) fn next(
        &self,
        number: u32,
        label: &Label,
        usids: Option<Ipv6Addr>,
        is_up: impl Fn(u32) -> bool,
    ) -> Result<Next, FabricDrop> {
        if let Some(refusal) = label.refusal {
            return Err(refusal);
        }
        let switch = self.switch(number);
        if let (Some(usids), Some(locator)) = (usids, self.locator()) {
            return self.by_usid(switch, label, usids, locator);
        }
        let to = label.to().ok_or(FabricDrop::UnknownDestination)?;
        if let Some(link) = switch.down_to(to) {
            return Ok(Next { link, usids: None });
        }
        if switch.up == 0 {
            return Err(FabricDrop::NoWay);
        }
        let nth = match self.choice {
            Choice::Hash(hash) | Choice::Usids { others: hash, .. } => {
                hashed(&hash, number, switch, label.choice, is_up)
            }
            Choice::Fields(fields) => {
                let field = fields.get(usize::from(switch.id.tier)).copied().unwrap_or_default();
                (label.choice as u32 >> field.shift & field.mask) % switch.up
            }
        };
        Ok(Next { link: switch.up_link(nth), usids: None })
    }

    fn by_usid(&self, switch: &Switch, label: &Label, usids: Ipv6Addr, locator: u32) -> Result<Next, FabricDrop> {
        let shifted = wire::at_switch(usids, locator, switch.id.usid());
        let first = (shifted.unwrap_or(usids).to_bits() >> 80) as u16;
        let link = if first == 0 {
            switch.down_to(label.to().ok_or(FabricDrop::UnknownDestination)?)
        } else {
            let tier = (first >> 12).checked_sub(1).ok_or(FabricDrop::NoWay)?;
            self.shape.link_to(switch, tier as u8, u32::from(first & 0x0FFF))
        };
        link.map(|link| Next { link, usids: shifted }).ok_or(FabricDrop::NoWay)
    }
}

/// Finishes a hash (SplitMix64).
#[inline]
fn finish(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The link up that a flow takes.
#[inline]
fn hashed(hash: &Hash, number: u32, switch: &Switch, key: u64, is_up: impl Fn(u32) -> bool) -> u32 {
    let own = finish(hash.salt ^ u64::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let choose = |attempt: u64| {
        let spread = finish(key ^ own.wrapping_add(attempt));
        (((spread >> 32) * u64::from(switch.up)) >> 32) as u32
    };
    let first = choose(0);
    if !hash.repair || is_up(switch.up_link(first)) {
        return first;
    }
    let again = (1..=REHASHES).map(choose);
    let row = (1..switch.up).map(|step| (first + step) % switch.up);
    again.chain(row).find(|&nth| is_up(switch.up_link(nth))).unwrap_or(first)
}

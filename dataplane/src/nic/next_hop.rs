//! Next hops that change while QPs live.

use super::{Nic, PortId};
use crate::wire::{MacAddr, link_addresses};
use core::net::IpAddr;

impl Nic {
    /// Sends to `mac` from now on what leaves by `port` for `destination`, on its QPs whose next hops follow what neighbours say
    /// ([`super::PathSpec::follows`]). How many there are. Frames that are written already go where they were to go.
    pub fn set_next_hop(&mut self, destination: IpAddr, port: PortId, mac: MacAddr) -> usize {
        let (Some(&at), Some(info)) =
            (self.destination_of.get(&destination), self.ports.get(usize::from(port.0)).copied())
        else {
            return 0;
        };
        let mut changed = 0;
        for &slot in &self.destinations[at].qps {
            let Some(qp) = self.qps.get_mut(slot as usize).and_then(|entry| entry.as_deref_mut()) else { continue };
            if !qp.follows {
                continue;
            }
            match &mut qp.links {
                Some(links) => {
                    let Some(link) = links.get_mut(usize::from(port.0)) else { continue };
                    *link = link_addresses(info.mac, mac);
                }
                // One port: the source may be another than the port's own.
                None => qp.template.set_destination(mac),
            }
            changed += 1;
        }
        // Its image may have the old address.
        self.alike.forget();
        changed
    }
}

//! Faults as they happen.

use super::events::What;
use super::link::{BROKEN, End, REBOOTING};
use super::stats::FabricDrop;
use super::{Fabric, Fault, Flap, Frame, Node, PS, Place, Stage, SwitchId};

impl<F: Frame> Fabric<F> {
    pub(super) fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Down(place) => self.each(place, |fabric, link| fabric.down(link, BROKEN, FabricDrop::LinkDown)),
            Fault::Up(place) => self.each(place, |fabric, link| fabric.up(link, BROKEN)),
            Fault::Flap { place, down_ns, up_ns, times } => {
                self.flaps.push(Flap { place, down_ns, up_ns, left: times, down: false });
                self.flap(self.flaps.len() as u32 - 1);
            }
            Fault::BlackHole(place) => self.each(place, |fabric, link| fabric.links[link as usize].black_hole = true),
            Fault::Loss(place, share) => self.each(place, |fabric, link| fabric.links[link as usize].loss = share),
            Fault::Rate(place, rate) => self.each(place, |fabric, link| fabric.links[link as usize].set_rate(rate)),
            Fault::Heal(place) => self.each(place, Fabric::heal),
            Fault::Reboot(switch, ns) => self.reboot(switch, ns),
        }
    }

    fn each(&mut self, place: Place, act: impl Fn(&mut Fabric<F>, u32)) {
        for link in place.links(&self.router.shape) {
            act(self, link);
        }
    }

    /// Takes a link down for one more reason; its queue is lost.
    fn down(&mut self, number: u32, why: u8, reason: FabricDrop) {
        let link = &mut self.links[number as usize];
        let was_up = link.is_up();
        link.down |= why;
        link.cut(self.now);
        while let Some(frame) = self.links[number as usize].pop(&self.store) {
            self.lose(number, frame, reason);
        }
        if was_up {
            self.tell(number);
        }
    }

    /// Lifts a reason for which a link is down.
    fn up(&mut self, number: u32, why: u8) {
        let link = &mut self.links[number as usize];
        let was_up = link.is_up();
        link.down &= !why;
        if link.is_up() && !was_up {
            self.tell(number);
        }
    }

    fn heal(&mut self, number: u32) {
        self.up(number, BROKEN);
        let link = &mut self.links[number as usize];
        let params = self.plan.link(link.stage);
        link.black_hole = false;
        link.loss = params.loss;
        link.set_rate(params.rate);
    }

    /// Notes that the state of a NIC's port has changed.
    fn tell(&mut self, number: u32) {
        let link = &self.links[number as usize];
        let host = match (link.stage, link.to) {
            (Stage::FromNic, _) => Some(number),
            (_, End::Nic(nic, port)) => self.router.shape.host_link(nic.0, port),
            _ => None,
        };
        if let Some(host) = host
            && !core::mem::replace(&mut self.links[host as usize].changed, true)
        {
            self.changed.push_back(host);
        }
    }

    /// A flapping place goes down or up.
    pub(super) fn flap(&mut self, number: u32) {
        let Some(flap) = self.flaps.get_mut(number as usize) else { return };
        let place = flap.place;
        let (fault, ns) = if flap.down {
            flap.down = false;
            (Fault::Up(place), flap.up_ns)
        } else if flap.left > 0 {
            flap.left -= 1;
            flap.down = true;
            (Fault::Down(place), flap.down_ns)
        } else {
            return;
        };
        self.strike(fault);
        self.calendar.push(self.now.saturating_add(ns.saturating_mul(PS)), What::Flap(number));
    }

    fn reboot(&mut self, id: SwitchId, ns: u64) {
        let Some(number) = self.router.shape.number(id) else { return };
        let at = self.now.saturating_add(ns.saturating_mul(PS));
        self.booted_at[number as usize] = at;
        let own = self.router.switch(number).links();
        for link in Place::Switch(id).links(&self.router.shape) {
            let reason = if own.contains(&link) { FabricDrop::Reboot } else { FabricDrop::LinkDown };
            self.down(link, REBOOTING, reason);
        }
        self.calendar.push(at, What::Booted(number));
    }

    /// A switch is up again, unless it was rebooted once more: then another event will come.
    pub(super) fn booted(&mut self, number: u32, at: u64) {
        if self.booted_at[number as usize] != at {
            return;
        }
        let shape = self.router.shape;
        let switch = self.router.switch(number);
        let (id, links) = (switch.id, switch.links());
        for (nth, out) in links.enumerate() {
            let neighbour = shape.neighbour(id, nth as u32);
            let other = match neighbour {
                Node::Switch(other) => shape.number(other),
                Node::Nic(..) => None,
            };
            // The link waits for both its ends.
            if other.is_some_and(|other| self.booted_at[other as usize] > at) {
                continue;
            }
            for link in shape.link(neighbour, Node::Switch(id)).into_iter().chain([out]) {
                self.up(link, REBOOTING);
            }
        }
    }
}

//! Names of paths: what a sender writes to take one, and which one a frame takes.

use super::route::Next;
use super::{Fabric, FabricDrop, Frame, NicId, Node};
use crate::wire::UsidPath;

impl<F: Frame> Fabric<F> {
    /// How many paths there are from one NIC to another in each plane; 0 when one of them is not there.
    #[must_use]
    pub fn paths(&self, from: NicId, to: NicId) -> u32 {
        let here = from.0.max(to.0) < self.nics();
        if here { self.router.shape.choices(from.0, to.0).iter().product() } else { 0 }
    }

    /// The choices on the way up that the `n`-th path is made of: the T1 switch, then the T2 above it.
    fn choices(&self, from: NicId, to: NicId, n: u32) -> Option<[u32; 2]> {
        let here = n < self.paths(from, to);
        here.then(|| self.router.shape.choices(from.0, to.0)).map(|[_, above]| [n / above, n % above])
    }

    /// The nodes of the `n`-th path from a NIC's port, the two NICs included.
    #[must_use]
    pub fn way(&self, from: NicId, to: NicId, port: u8, n: u32) -> Option<Vec<Node>> {
        let up = self.choices(from, to, n).filter(|_| port < self.ports())?;
        let switches = self.router.shape.switches_between(from.0, to.0, port, up);
        let mut nodes = vec![Node::Nic(from, port)];
        nodes.extend(switches.into_iter().map(Node::Switch));
        nodes.push(Node::Nic(to, port));
        Some(nodes)
    }

    /// The EV that names the `n`-th path, with zeros where no switch looks; `None` without Structured EV.
    #[must_use]
    pub fn ev(&self, from: NicId, to: NicId, n: u32) -> Option<u32> {
        self.router.ev(self.choices(from, to, n)?)
    }

    /// The uSIDs that name the `n`-th path, switch by switch; `None` without SRv6. All planes have the same. A path to a NIC of the same T0
    /// switch is that switch; elsewhere the switches on the way down may be left out, since the destination names them.
    #[must_use]
    pub fn usid_path(&self, from: NicId, to: NicId, n: u32) -> Option<UsidPath> {
        let locator = self.router.locator()?;
        let switches = self.router.shape.switches_between(from.0, to.0, 0, self.choices(from, to, n)?);
        let usids: Vec<u16> = switches.into_iter().map(|id| id.usid()).collect();
        UsidPath::new(locator, &usids).ok()
    }

    /// The nodes that a frame of a NIC's port would come to now, if no queue were full and no link lost it: for asking where a 5-tuple goes.
    ///
    /// # Errors
    /// Why a switch would drop it, or that a link on its way is down or a black hole.
    pub fn trace(&self, nic: NicId, port: u8, head: &[u8]) -> Result<Vec<Node>, FabricDrop> {
        let label = self.reader.read(head, head.len());
        let mut path = label.usids(head);
        let shape = &self.router.shape;
        let mut link = shape.host_link(nic.0, port).ok_or(FabricDrop::NoWay)?;
        let mut nodes = vec![Node::Nic(nic, port)];
        loop {
            let present = &self.links[link as usize];
            if !present.is_up() {
                return Err(FabricDrop::LinkDown);
            }
            if present.black_hole {
                return Err(FabricDrop::BlackHole);
            }
            match present.to {
                super::End::Nic(nic, port) => {
                    nodes.push(Node::Nic(nic, port));
                    return Ok(nodes);
                }
                super::End::Switch(number) => {
                    nodes.push(Node::Switch(self.router.switch(number).id));
                    let is_up = |link: u32| self.links[link as usize].is_up();
                    let Next { link: next, usids } = self.router.next(number, &label, path, is_up)?;
                    path = usids.or(path);
                    link = next;
                }
            }
        }
    }
}

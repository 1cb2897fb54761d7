//! A network in software: links, output-queued switches, topologies, and faults on a schedule.
//!
//! Sans-IO, as the engine is. A driver hands in the frames that NICs send, and the time; the fabric says when it wants to be asked again, and
//! hands out frames that have reached a NIC. In virtual time it joins thousands of NICs, and one seed gives one history, byte for byte. On a
//! core of its own it joins living ones.
//!
//! Links are store-and-forward. Inside, time is in picoseconds, and what a transmission takes beyond whole ones is carried to the next, so the
//! rate of a link is exact in the long run. Each switch has a queue for each link out of it, of two classes: control is served before data
//! (strict priority), and the DSCP says which a frame is in. ECN marks follow the data that waits when a frame comes. A trimmable frame that
//! finds the data class full is cut down to its headers and moves to the control class; any other is dropped. Switches change DSCP, ECN and
//! uSIDs, and leave Ethernet addresses and hop limits as they are.
//!
//! ```
//! use dataplane::fabric::{Delivery, Fabric, NicId, Plan, Topology};
//! use dataplane::Ns;
//!
//! let plan = Plan::new(Topology::Paths { nics: 2, paths: 8 });
//! let mut fabric: Fabric<Vec<u8>> = Fabric::new(&plan, 1)?;
//! let mut frame = vec![0; 60];
//! frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
//! frame[30..34].copy_from_slice(&plan.addresses.v4(NicId(1)).octets());
//! fabric.inject(Ns(0), NicId(0), 0, frame);
//! while let Some(next) = fabric.next_wake() {
//!     fabric.on_time(next);
//! }
//! // Four links of 500 ns each, and 84 bytes at 400 Gbps on each.
//! assert!(matches!(fabric.poll(), Some(Delivery { at: Ns(2_007), nic: NicId(1), port: 0, .. })));
//! # Ok::<(), dataplane::fabric::PlanError>(())
//! ```

mod events;
mod fault;
mod label;
mod link;
mod paths;
mod plan;
mod route;
mod shape;
mod stats;
mod store;
mod strike;
mod traffic;

#[cfg(test)]
mod tests;

pub use fault::{Fault, Place};
pub use plan::{
    Addresses, DELAY_MAX, EcnParams, EvBits, Forwarding, Hash, LinkParams, Plan, PlanError, QUEUE_MAX, QueueParams,
    RATE_MAX, Topology, mac,
};
pub use shape::{LINKS_MAX, NICS_MAX, Node, PLANES_MAX, SWITCHES_MAX, SwitchId};
pub use stats::{Drops, FabricDrop, LinkState, LinkStats, Totals};

use crate::Ns;
use events::{Calendar, What};
use label::{Class, Reader};
use link::{End, Link};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use route::Router;
use stats::Fate;
use std::collections::VecDeque;
use store::Store;

/// Longest frame, in bytes without FCS.
pub const FRAME_MAX: usize = 1 << 17;
/// Picoseconds of a nanosecond.
const PS: u64 = 1_000;

/// A NIC by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicId(pub u32);

/// A frame, as far as a fabric touches it.
pub trait Frame {
    /// Its first bytes in one piece: the headers, or all of it. Not fewer than [`wire::HEAD_MAX`](crate::wire::HEAD_MAX) if it is as long.
    fn bytes(&self) -> &[u8];
    /// The same, to write into.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// All its bytes, without FCS.
    fn len(&self) -> usize;
    /// Cuts it to `len` bytes, if it is longer.
    fn truncate(&mut self, len: usize);
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Frame for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn truncate(&mut self, len: usize) {
        Vec::truncate(self, len);
    }
}

/// A frame that has reached a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<F> {
    /// When its last bit came; fractions of a nanosecond count as one.
    pub at: Ns,
    /// The NIC.
    pub nic: NicId,
    /// Its port.
    pub port: u8,
    /// The frame.
    pub frame: F,
}

/// Whether the link of a NIC's port is up, as that port sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState {
    /// The NIC.
    pub nic: NicId,
    /// Its port.
    pub port: u8,
    /// Up in both directions.
    pub up: bool,
}

/// Where a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    FromNic,
    Between,
    ToNic,
}

/// A place that flaps.
#[derive(Clone, Copy, Debug)]
struct Flap {
    place: Place,
    down_ns: u64,
    up_ns: u64,
    /// How often it will still go down.
    left: u32,
    down: bool,
}

/// A network of links and switches, with frames inside.
pub struct Fabric<F> {
    plan: Plan,
    router: Router,
    reader: Reader,
    links: Vec<Link>,
    fates: Vec<Fate>,
    totals: Totals,
    store: Store<F>,
    calendar: Calendar,
    arrived: VecDeque<Delivery<F>>,
    /// Links out of NICs whose state has changed.
    changed: VecDeque<u32>,
    faults: Vec<Fault>,
    flaps: Vec<Flap>,
    /// Until when each switch starts anew, in ps.
    booted_at: Vec<u64>,
    rng: Xoshiro256PlusPlus,
    /// In ps.
    now: u64,
}

impl<F: Frame> Fabric<F> {
    /// Builds a fabric. Everything that is left to chance comes from `seed`.
    ///
    /// # Errors
    /// What is wrong with the plan.
    pub fn new(plan: &Plan, seed: u64) -> Result<Fabric<F>, PlanError> {
        let shape = plan.shape()?;
        let links: Vec<Link> = shape
            .ends()
            .map(|(from, to)| {
                let (end, stage) = match (from, to) {
                    (_, Node::Nic(nic, port)) => (End::Nic(nic, port), Stage::ToNic),
                    (Node::Nic(..), Node::Switch(id)) => (End::Switch(shape.number(id).unwrap_or(0)), Stage::FromNic),
                    (Node::Switch(_), Node::Switch(id)) => (End::Switch(shape.number(id).unwrap_or(0)), Stage::Between),
                };
                let params = plan.link(stage);
                Link::new(end, stage, params)
            })
            .collect();
        let mut calendar = Calendar::new(ahead(plan));
        for (number, (at, _)) in plan.schedule.iter().enumerate() {
            calendar.push(at.0.saturating_mul(PS), What::Fault(number as u32));
        }
        Ok(Fabric {
            router: Router::new(plan, shape),
            reader: Reader::new(plan, shape.nics()),
            fates: vec![Fate::default(); links.len()],
            links,
            totals: Totals::default(),
            store: Store::new(),
            calendar,
            arrived: VecDeque::new(),
            changed: VecDeque::new(),
            faults: plan.schedule.iter().map(|(_, fault)| *fault).collect(),
            flaps: Vec::new(),
            booted_at: vec![0; (shape.planes * shape.switches_per_plane()) as usize],
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            now: 0,
            plan: plan.clone(),
        })
    }

    /// Makes room for so many frames inside, so that none is allocated for later.
    pub fn reserve(&mut self, frames: usize) {
        self.store.reserve(frames);
        self.calendar.reserve(frames + self.links.len());
        self.arrived.reserve(frames);
    }

    /// What it was built of.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many NICs it joins.
    #[must_use]
    pub fn nics(&self) -> u32 {
        self.router.shape.nics()
    }

    /// How many ports each NIC has: one on each plane.
    #[must_use]
    pub fn ports(&self) -> u8 {
        self.router.shape.planes as u8
    }

    /// Lets time pass up to `now`. An earlier time changes nothing.
    pub fn on_time(&mut self, now: Ns) {
        let until = now.0.saturating_mul(PS);
        while let Some((at, what)) = self.calendar.pop(until) {
            self.now = self.now.max(at);
            self.totals.events += 1;
            match what {
                What::Arrive(frame) => self.arrive(frame),
                What::Serve(link) => self.serve(link, at),
                What::Fault(number) => {
                    if let Some(&fault) = self.faults.get(number as usize) {
                        self.strike(fault);
                    }
                }
                What::Flap(number) => self.flap(number),
                What::Booted(switch) => self.booted(switch, at),
            }
        }
        self.now = self.now.max(until);
    }

    /// When something happens inside next, beside what [`Fabric::poll`] still has; fractions of a nanosecond count as one.
    #[must_use]
    pub fn next_wake(&self) -> Option<Ns> {
        self.calendar.first().map(|at| Ns(at.div_ceil(PS)))
    }

    /// A frame leaves a NIC's port at `now`: it takes the link, or its place in the port's queue. Should it be lost there, that is counted.
    /// `false` when there is no such port: the frame was never there.
    pub fn inject(&mut self, now: Ns, nic: NicId, port: u8, frame: F) -> bool {
        self.on_time(now);
        let Some(link) = self.router.shape.host_link(nic.0, port) else { return false };
        self.enter(link, frame);
        true
    }

    /// Whether a frame of `len` bytes finds room in a port's queue, whichever class it is of. A driver that asks first loses nothing to a full
    /// queue.
    #[must_use]
    pub fn room(&self, nic: NicId, port: u8, len: usize) -> bool {
        let fits = |waiting: u32| waiting as usize + len.max(60) <= self.plan.nic_queue as usize;
        self.host(nic, port).is_some_and(|link| fits(link.waiting(Class::Data)) && fits(link.waiting(Class::Control)))
    }

    /// When a port will have sent all that it has, rounded down, so that a frame that is handed in then follows without a gap. `None` when it
    /// sends nothing.
    #[must_use]
    pub fn next_free(&self, nic: NicId, port: u8) -> Option<Ns> {
        self.host(nic, port).filter(|link| link.free_at > self.now).map(|link| Ns(link.drained_at() / PS))
    }

    /// Takes a frame that has reached a NIC, the earliest first.
    pub fn poll(&mut self) -> Option<Delivery<F>> {
        self.arrived.pop_front()
    }

    /// Whether the link of a port is up in both directions.
    #[must_use]
    pub fn port_up(&self, nic: NicId, port: u8) -> bool {
        let Some(out) = self.host(nic, port) else { return false };
        let End::Switch(leaf) = out.to else { return false };
        let into = self.router.switch(leaf).down_to(nic.0).map(|link| &self.links[link as usize]);
        out.is_up() && into.is_some_and(Link::is_up)
    }

    /// Takes a port whose link may have gone down or come up since it was last named, with its present state.
    pub fn poll_port(&mut self) -> Option<PortState> {
        let link = self.changed.pop_front()?;
        self.links[link as usize].changed = false;
        let ports = self.router.shape.planes;
        let (nic, port) = (NicId(link / ports), (link % ports) as u8);
        Some(PortState { nic, port, up: self.port_up(nic, port) })
    }

    /// Something breaks, or is mended, now.
    ///
    /// # Errors
    /// It names what is not there, or no possible value.
    pub fn apply(&mut self, now: Ns, fault: &Fault) -> Result<(), PlanError> {
        fault.check(&self.router.shape)?;
        self.on_time(now);
        self.strike(*fault);
        Ok(())
    }

    /// Every direction of every link: its ends, and what it has done.
    pub fn links(&self) -> impl Iterator<Item = (Node, Node, LinkStats)> {
        let stats = self.links.iter().zip(&self.fates).map(|(link, fate)| link.stats(fate));
        self.router.shape.ends().zip(stats).map(|((from, to), stats)| (from, to, stats))
    }

    /// One direction of one link.
    #[must_use]
    pub fn link(&self, from: Node, to: Node) -> Option<LinkStats> {
        let number = self.router.shape.link(from, to)? as usize;
        Some(self.links.get(number)?.stats(self.fates.get(number)?))
    }

    /// How one direction of a link is.
    #[must_use]
    pub fn link_state(&self, from: Node, to: Node) -> Option<LinkState> {
        let number = self.router.shape.link(from, to)?;
        self.links.get(number as usize).map(Link::state)
    }

    /// What the whole fabric has done.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Frames inside: those that wait, that travel, and that nobody has polled. Every frame that was injected is delivered, dropped, or inside
    /// and not yet delivered.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.store.len() + self.arrived.len()
    }

    fn host(&self, nic: NicId, port: u8) -> Option<&Link> {
        self.router.shape.host_link(nic.0, port).map(|link| &self.links[link as usize])
    }
}

/// How far ahead most events lie, in ps: the longest link, and a full frame on the slowest.
fn ahead(plan: &Plan) -> u64 {
    let one = |link: &LinkParams| {
        let frame = 9_216 * 8 * 1_000_000_000_000 / link.rate;
        link.delay_ns.saturating_mul(PS).saturating_add(frame)
    };
    one(&plan.host).max(one(&plan.fabric))
}

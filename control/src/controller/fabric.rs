//! The fabric of a live run: rings between its worker and the control thread, and what operators call its links.

use super::Waker;
use super::fabric_report::FabricReport;
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::dpdk::{LiveFabric, Overseer};
use dataplane::fabric::{Fault, Node, Place, Plan, PortState};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// Commands and events that a ring holds.
const RING: usize = 256;
/// What one turn of the fabric's worker takes or gives at most.
const BATCH: usize = 32;
/// Names that an error lists at most.
const NAMES_SHOWN: usize = 4;

/// What an operator does to a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkFault {
    /// It goes down, and its ends see it.
    Down,
    /// It comes back up.
    Up,
    /// It swallows every frame, and looks up.
    BlackHole,
    /// It is as planned again.
    Heal,
    /// It loses a share of its frames, 0 to 1.
    Loss(f64),
    /// It has another rate, in bits per second.
    Rate(u64),
}

impl LinkFault {
    const fn at(self, place: Place) -> Fault {
        match self {
            LinkFault::Down => Fault::Down(place),
            LinkFault::Up => Fault::Up(place),
            LinkFault::BlackHole => Fault::BlackHole(place),
            LinkFault::Heal => Fault::Heal(place),
            LinkFault::Loss(share) => Fault::Loss(place, share),
            LinkFault::Rate(rate) => Fault::Rate(place, rate),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Strike(Fault),
    Report,
}

/// What a fabric tells the control thread.
#[derive(Clone, Debug)]
pub(super) enum FabricEvent {
    /// The link of a NIC's port went down or came up.
    Port(PortState),
    /// All links, as was asked.
    Report(FabricReport),
}

#[derive(Debug)]
struct Shared {
    commands: ArrayQueue<Command>,
    events: ArrayQueue<FabricEvent>,
    last: OnceLock<FabricReport>,
}

/// The end on the fabric's worker.
#[derive(Debug)]
pub struct FabricOverseer {
    shared: Arc<Shared>,
    control: Option<Waker>,
    /// Reports that were asked for.
    owed: usize,
}

/// The control thread's end.
#[derive(Clone, Debug)]
pub struct FabricEnd {
    shared: Arc<Shared>,
    plan: Arc<Plan>,
    /// Both ends of each link, once.
    links: Arc<[(Node, Node)]>,
}

/// Joins a fabric's worker and the control thread, which is woken when there is something to hear.
#[must_use]
pub fn fabric_link(fabric: &LiveFabric, control: Option<Waker>) -> (FabricOverseer, FabricEnd) {
    let shared =
        Arc::new(Shared { commands: ArrayQueue::new(RING), events: ArrayQueue::new(RING), last: OnceLock::new() });
    let links = fabric.links().map(|(from, to, _)| (from, to)).filter(|(from, to)| from < to).collect();
    let end = FabricEnd { shared: Arc::clone(&shared), plan: Arc::new(fabric.plan().clone()), links };
    (FabricOverseer { shared, control, owed: 0 }, end)
}

impl FabricOverseer {
    /// There is room.
    fn tell(&self, event: FabricEvent) {
        let _ = self.shared.events.push(event);
        if let Some(control) = &self.control {
            control.wake_anyway();
        }
    }

    fn has_room(&self) -> bool {
        !self.shared.events.is_full()
    }
}

impl Overseer for FabricOverseer {
    #[inline]
    fn poll(&mut self, now: Ns, fabric: &mut LiveFabric) -> bool {
        let mut did = false;
        for _ in 0..BATCH {
            // As for the link of a worker: no fence for nothing.
            if self.shared.commands.is_empty() {
                break;
            }
            let Some(command) = self.shared.commands.pop() else { break };
            did = true;
            match command {
                // It was checked against the plan.
                Command::Strike(fault) => _ = fabric.apply(now, &fault),
                Command::Report => self.owed += 1,
            }
        }
        // States stay in the fabric, and reports owed, while there is no room to tell them.
        while self.has_room()
            && let Some(port) = fabric.poll_port()
        {
            self.tell(FabricEvent::Port(port));
            did = true;
        }
        while self.owed > 0 && self.has_room() {
            self.owed -= 1;
            // An operator asked: allocating for the answer is no matter.
            self.tell(FabricEvent::Report(FabricReport::of(fabric)));
        }
        did
    }

    fn end(&mut self, fabric: &LiveFabric) {
        // A worker ends once.
        let _ = self.shared.last.set(FabricReport::of(fabric));
    }
}

impl FabricEnd {
    /// Takes the oldest event.
    pub(super) fn poll(&self) -> Option<FabricEvent> {
        self.shared.events.pop()
    }

    /// Asks for a report of all links.
    pub(super) fn ask_report(&self) -> Result<(), String> {
        self.push(Command::Report)
    }

    /// What the fabric had done when its worker ended.
    #[must_use]
    pub fn last(&self) -> Option<FabricReport> {
        self.shared.last.get().cloned()
    }

    /// Does something to a link, or to one direction of it.
    ///
    /// # Errors
    /// There is no such link, or the value is out of range, in words.
    pub fn strike(&self, link: &str, fault: LinkFault) -> Result<(), String> {
        let fault = fault.at(self.place(link)?);
        let with_fault = Plan { schedule: vec![(Ns::ZERO, fault)], ..(*self.plan).clone() };
        with_fault.check().map_err(|e| e.to_string())?;
        self.push(Command::Strike(fault))
    }

    fn push(&self, command: Command) -> Result<(), String> {
        self.shared.commands.push(command).map_err(|_| "the fabric's ring is full: try again".to_owned())
    }

    /// The place that an operator names: `A-B` is a link, `A>B` one direction of it.
    fn place(&self, name: &str) -> Result<Place, String> {
        let ends = |by: char| {
            let (a, b) = name.split_once(by)?;
            Some((a.trim().parse().ok()?, b.trim().parse().ok()?))
        };
        let known = |(a, b): &(Node, Node)| self.links.contains(&(*a.min(b), *a.max(b)));
        let one_way = ends('>').filter(known).map(|(a, b)| Place::OneWay(a, b));
        let place = one_way.or_else(|| ends('-').filter(known).map(|(a, b)| Place::Link(a, b)));
        place.ok_or_else(|| self.unknown(name))
    }

    /// What is said of a name that no link has: those that are most like it.
    fn unknown(&self, name: &str) -> String {
        let by = if name.contains('>') { '>' } else { '-' };
        let both = |&(a, b): &(Node, Node)| [(a, b), (b, a)];
        let all = self.links.iter().flat_map(both).map(|(a, b)| format!("{a}{by}{b}"));
        let mut names: Vec<(usize, String)> = all.map(|other| (strsim::levenshtein(name, &other), other)).collect();
        names.sort();
        let near: Vec<String> = names.into_iter().take(NAMES_SHOWN).map(|(_, name)| name).collect();
        format!(
            "there is no link {name:?}: A-B is a link and A>B one direction of it, and most like it are {}",
            near.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::fabric::{Fabric, NicId, SwitchId, Topology};

    fn fabric() -> LiveFabric {
        Fabric::new(&Plan::new(Topology::Paths { nics: 2, paths: 8 }), 1).unwrap()
    }

    fn switch(tier: u8, index: u32) -> Node {
        Node::Switch(SwitchId { plane: 0, tier, index })
    }

    #[test]
    fn a_link_has_a_name_in_either_order_and_one_for_each_direction() {
        let (_, end) = fabric_link(&fabric(), None);
        let (leaf, spine) = (switch(0, 0), switch(1, 3));
        assert_eq!(end.place("p0.t0.0-p0.t1.3"), Ok(Place::Link(leaf, spine)));
        assert_eq!(end.place("p0.t1.3-p0.t0.0"), Ok(Place::Link(spine, leaf)));
        assert_eq!(end.place("p0.t1.3>p0.t0.0"), Ok(Place::OneWay(spine, leaf)));
        assert_eq!(end.place("nic1.0 - p0.t0.1"), Ok(Place::Link(Node::Nic(NicId(1), 0), switch(0, 1))));
    }

    #[test]
    fn a_name_that_no_link_has_is_answered_by_those_most_like_it() {
        let (_, end) = fabric_link(&fabric(), None);
        for (name, like) in [
            ("p0.t0.0-p0.t1.8", "p0.t0.0-p0.t1.0"),
            ("p0.t1.9>p0.t0.1", "p0.t1.0>p0.t0.1"),
            ("nic2.0-p0.t0.1", "nic1.0-p0.t0.1"),
            ("", "A-B is a link"),
            ("p0.t0.0-p0.t0.1", "p0.t0.0-p0.t1.1"),
        ] {
            let error = end.strike(name, LinkFault::Down).unwrap_err();
            assert!(error.contains(&format!("no link {name:?}")) && error.contains(like), "{error}");
        }
    }

    #[test]
    fn what_is_asked_is_done_and_ports_that_go_down_are_told() {
        let mut fabric = fabric();
        let (mut overseer, end) = fabric_link(&fabric, None);
        end.strike("p0.t0.0>nic0.0", LinkFault::Down).unwrap();
        end.strike("p0.t0.0-p0.t1.3", LinkFault::BlackHole).unwrap();
        end.strike("p0.t0.0>p0.t1.4", LinkFault::Loss(0.01)).unwrap();
        assert!(end.strike("p0.t0.0>p0.t1.4", LinkFault::Loss(1.01)).unwrap_err().contains("not within 0 to 1"));
        assert!(end.strike("p0.t0.0>p0.t1.4", LinkFault::Rate(0)).is_err());
        end.ask_report().unwrap();
        assert!(overseer.poll(Ns(7), &mut fabric) && !overseer.poll(Ns(7), &mut fabric));
        assert!(matches!(end.poll(), Some(FabricEvent::Port(PortState { nic: NicId(0), port: 0, up: false }))));
        let Some(FabricEvent::Report(report)) = end.poll() else { panic!("a report") };
        let state = |name: &str| report.links.iter().find(|link| link.name == name).unwrap().state;
        assert_eq!(state("p0.t0.0>nic0.0"), "down");
        assert_eq!((state("p0.t0.0>p0.t1.3"), state("p0.t1.3>p0.t0.0")), ("black_hole", "black_hole"));
        assert!(end.poll().is_none() && end.last().is_none());
        end.strike("p0.t0.0-nic0.0", LinkFault::Heal).unwrap();
        overseer.poll(Ns(8), &mut fabric);
        assert!(matches!(end.poll(), Some(FabricEvent::Port(PortState { up: true, .. }))));
        overseer.end(&fabric);
        assert_eq!(end.last().unwrap().links.len(), 4 + 32);
    }

    #[test]
    fn a_full_ring_says_so() {
        let (_overseer, end) = fabric_link(&fabric(), None);
        (0..RING).for_each(|_| end.ask_report().unwrap());
        assert!(end.ask_report().unwrap_err().contains("try again"));
    }
}

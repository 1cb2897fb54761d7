//! The control side of a NIC, sans-IO: which entropy values are probed, and which are denied.
//!
//! It takes events of the engines and the time, and gives commands for them; who carries them (rings, on a live NIC; a loop, in virtual
//! time) is not its business. Workers own the states of entropy values and the transitions that packets and timers cause; the
//! controller owns the schedule of probes and the denials.

mod link;
mod operator;
mod thread;

pub use link::{ControlEnd, LinkStats, Waker, WorkerEnd, link};
pub use operator::{Operator, Request, Server, ask};
pub use thread::{ControlReport, ControlThread, ControlledNic};

use dataplane::Ns;
use dataplane::nic::{EvEvent, EvReport, EvState};
use dataplane::time::US;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// `ReliabilityProbePeriod` at its default, in ns.
pub const PROBE_PERIOD: u64 = 150 * US;

/// What an engine is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send a reliability probe.
    Probe {
        /// To whom.
        destination: IpAddr,
        /// On which value.
        ev: u32,
    },
    /// Deny a value, or lift its denial.
    Deny {
        /// Towards whom; `None` is everybody.
        destination: Option<IpAddr>,
        /// The value.
        ev: u32,
        /// Whether it is denied from now on.
        denied: bool,
    },
    /// Tell again which values are not good: events were lost.
    Report,
    /// Tell all values.
    List,
}

/// The entropy values towards one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvList {
    /// The destination.
    pub destination: IpAddr,
    /// Each value, with the EV profile that it is of, if any.
    pub evs: Vec<(Option<u64>, EvReport)>,
}

/// What an engine tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A value changed its state.
    Ev(EvEvent),
    /// No QP is open with this destination any more: its values are forgotten.
    Gone(IpAddr),
    /// The values of all its destinations, as [`Command::List`] asked.
    Listed(Vec<EvList>),
}

/// The values of a destination that are assumed bad, in the order of their probes.
#[derive(Debug, Default)]
struct Suspects {
    values: VecDeque<u32>,
}

/// The controller of one NIC.
#[derive(Debug)]
pub struct Controller {
    probe_period_ns: u64,
    suspects: BTreeMap<IpAddr, Suspects>,
    denied: BTreeSet<(Option<IpAddr>, u32)>,
    next_probe: Option<Ns>,
    commands: VecDeque<Command>,
    events_dropped: u64,
    probes: u64,
}

impl Controller {
    /// A controller that probes every `probe_period_ns` (1 ns to 8 s; at the default 150 us).
    #[must_use]
    pub fn new(probe_period_ns: u64) -> Controller {
        Controller {
            probe_period_ns: probe_period_ns.max(1),
            suspects: BTreeMap::new(),
            denied: BTreeSet::new(),
            next_probe: None,
            commands: VecDeque::new(),
            events_dropped: 0,
            probes: 0,
        }
    }

    /// An engine told something.
    pub fn on_event(&mut self, now: Ns, event: Event) {
        match event {
            // Whoever asked for it takes it.
            Event::Listed(_) => {}
            Event::Gone(destination) => {
                self.suspects.remove(&destination);
            }
            Event::Ev(event) => {
                if event.dropped > self.events_dropped {
                    self.events_dropped = event.dropped;
                    self.commands.push_back(Command::Report);
                }
                self.on_state(now, event.destination, event.ev, event.state);
            }
        }
        if self.suspects.is_empty() {
            self.next_probe = None;
        }
    }

    fn on_state(&mut self, now: Ns, destination: IpAddr, ev: u32, state: EvState) {
        if state == EvState::AssumedBad {
            let values = &mut self.suspects.entry(destination).or_default().values;
            if !values.contains(&ev) {
                values.push_back(ev);
            }
            self.next_probe.get_or_insert(now + self.probe_period_ns);
            return;
        }
        if let Some(suspects) = self.suspects.get_mut(&destination) {
            suspects.values.retain(|&value| value != ev);
            if suspects.values.is_empty() {
                self.suspects.remove(&destination);
            }
        }
    }

    /// Time came: one probe to each destination that has a value assumed bad, its values in turn.
    pub fn on_time(&mut self, now: Ns) {
        let Some(due) = self.next_probe.filter(|&due| due <= now) else { return };
        for (&destination, suspects) in &mut self.suspects {
            if let Some(ev) = suspects.values.pop_front() {
                suspects.values.push_back(ev);
                self.commands.push_back(Command::Probe { destination, ev });
                self.probes += 1;
            }
        }
        // On the grid of the timer, but never in the past: a late controller does not send a salvo.
        let next = due + self.probe_period_ns;
        self.next_probe = Some(if next > now { next } else { now + self.probe_period_ns });
    }

    /// When [`Controller::on_time`] is to be called next; `None` while nothing is probed.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Ns> {
        self.next_probe
    }

    /// Denies a value towards a destination, or everybody, or lifts the denial. False when that is how it is already.
    pub fn deny(&mut self, destination: Option<IpAddr>, ev: u32, denied: bool) -> bool {
        let changed =
            if denied { self.denied.insert((destination, ev)) } else { self.denied.remove(&(destination, ev)) };
        if changed {
            self.commands.push_back(Command::Deny { destination, ev, denied });
        }
        changed
    }

    /// What is denied.
    pub fn denied(&self) -> impl Iterator<Item = (Option<IpAddr>, u32)> + '_ {
        self.denied.iter().copied()
    }

    /// Values assumed bad towards a destination, in the order of their probes.
    pub fn suspects(&self, destination: IpAddr) -> impl Iterator<Item = u32> + '_ {
        self.suspects.get(&destination).into_iter().flat_map(|suspects| suspects.values.iter().copied())
    }

    /// Probes asked for so far.
    #[must_use]
    pub const fn probes(&self) -> u64 {
        self.probes
    }

    /// Takes the oldest command.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Puts a command back that could not be carried: it is the next again.
    pub fn put_back(&mut self, command: Command) {
        self.commands.push_front(command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    fn event(destination: IpAddr, ev: u32, state: EvState) -> Event {
        Event::Ev(EvEvent { at: Ns::ZERO, destination, ev, state, dropped: 0 })
    }

    fn probes(controller: &mut Controller) -> Vec<(IpAddr, u32)> {
        let probe = |command| match command {
            Command::Probe { destination, ev } => (destination, ev),
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| controller.poll_command()).map(probe).collect()
    }

    #[test]
    fn with_three_values_bad_each_is_probed_every_450_us() {
        let mut controller = Controller::new(PROBE_PERIOD);
        for ev in [256, 300, 383] {
            controller.on_event(Ns(7), event(PEER, ev, EvState::AssumedBad));
        }
        let mut seen = Vec::new();
        while let Some(at) = controller.next_wake().filter(|at| at.0 < 1_000 * US) {
            controller.on_time(at);
            seen.extend(probes(&mut controller).into_iter().map(|(_, ev)| (at.0 - 7, ev)));
        }
        let expected = [(150, 256), (300, 300), (450, 383), (600, 256), (750, 300), (900, 383)];
        assert_eq!(seen, expected.map(|(us, ev)| (us * US, ev)));
    }

    #[test]
    fn each_destination_with_a_bad_value_gets_one_probe_a_period_and_probing_stops_when_none_is_left() {
        let mut controller = Controller::new(PROBE_PERIOD);
        controller.on_event(Ns::ZERO, event(PEER, 256, EvState::AssumedBad));
        controller.on_event(Ns::ZERO, event(OTHER, 257, EvState::AssumedBad));
        controller.on_time(Ns(PROBE_PERIOD));
        assert_eq!(probes(&mut controller), [(PEER, 256), (OTHER, 257)]);
        controller.on_event(Ns(PROBE_PERIOD), event(PEER, 256, EvState::Good));
        controller.on_event(Ns(PROBE_PERIOD), Event::Gone(OTHER));
        assert_eq!(controller.next_wake(), None);
        controller.on_event(Ns(500 * US), event(PEER, 258, EvState::AssumedBad));
        assert_eq!(controller.next_wake(), Some(Ns(650 * US)));
    }

    #[test]
    fn a_controller_that_comes_late_sends_one_probe_and_not_all_that_it_missed() {
        let mut controller = Controller::new(PROBE_PERIOD);
        controller.on_event(Ns::ZERO, event(PEER, 256, EvState::AssumedBad));
        controller.on_time(Ns(1_000 * US));
        assert_eq!(probes(&mut controller).len(), 1);
        assert_eq!(controller.next_wake(), Some(Ns(1_150 * US)));
    }

    #[test]
    fn lost_events_make_the_controller_ask_for_a_report() {
        let mut controller = Controller::new(PROBE_PERIOD);
        let lost = EvEvent { at: Ns::ZERO, destination: PEER, ev: 256, state: EvState::Good, dropped: 3 };
        controller.on_event(Ns::ZERO, Event::Ev(lost));
        assert_eq!(controller.poll_command(), Some(Command::Report));
        controller.on_event(Ns::ZERO, Event::Ev(lost));
        assert_eq!(controller.poll_command(), None);
    }

    #[test]
    fn a_denial_is_a_command_once() {
        let mut controller = Controller::new(PROBE_PERIOD);
        assert!(controller.deny(Some(PEER), 300, true));
        assert!(!controller.deny(Some(PEER), 300, true));
        assert_eq!(controller.poll_command(), Some(Command::Deny { destination: Some(PEER), ev: 300, denied: true }));
        assert_eq!(controller.denied().collect::<Vec<_>>(), [(Some(PEER), 300)]);
        assert!(controller.deny(Some(PEER), 300, false));
        assert_eq!(controller.poll_command(), Some(Command::Deny { destination: Some(PEER), ev: 300, denied: false }));
    }
}

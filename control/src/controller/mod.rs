//! The control side of a NIC, sans-IO: which entropy values are probed and which denied, EV profiles, and which ports are in use.
//!
//! It takes events of the engines and the time, and gives commands for them; who carries them (rings, on a live NIC; a loop, in virtual
//! time) is not its business. Workers own the states of entropy values and the transitions that packets and timers cause; the
//! controller owns the schedule of probes, the denials, the profiles, and the ports, of which it has peers told until they confirm.

mod cc_profiles;
mod desk;
mod ev_book;
mod ev_edit;
mod ev_profiles;
mod fabric;
mod fabric_report;
mod formats;
mod gather;
mod journal;
mod link;
mod member;
pub mod metrics;
mod operator;
mod ports;
mod profiles;
mod slow_link;
mod socket;
mod spec;
mod step;
mod survey;
mod thread;
mod vicinity;

pub use cc_profiles::{CcAlgorithm, CcBase, CcStep, CcView, NsccSettings};
pub use ev_book::{EvChange, EvEventMask, EvListener};
pub use ev_edit::{EvEdits, EvName, EvReplacement};
pub use ev_profiles::{EvProfileStep, EvProfileView};
pub use fabric::{FabricEnd, FabricOverseer, LinkFault, fabric_link};
pub use fabric_report::{FabricReport, LinkReport};
pub use formats::{FormatStep, FormatView};
pub use link::{ControlEnd, LinkStats, Waker, WorkerEnd, join, link};
pub use member::ControlledNic;
pub use operator::{Host, Operator, Request, WriteOrder};
pub use ports::PortStatus;
pub use profiles::{ProfileError, Profiles};
pub use slow_link::{SlowControlEnd, SlowWorkerEnd, slow_link};
pub use socket::{CONNECTIONS_MAX, Server, ask, follow};
pub use spec::{EvSpec, FieldSpec, FormatKind, FormatSpec, Mode, ProfileSpec};
pub use step::{Named, StepError};
pub use survey::{
    ControlCounters, DestinationReport, EvStates, EvView, GroupView, NEIGHBOURS_SHOWN, NeighbourReport, NeighbourView,
    NicReport, NsccView, PortReport, QpReport, QpStates, SurveyReport,
};
pub use thread::{ControlReport, ControlThread};
pub use vicinity::Vicinity;

use crate::neighbour::NextHop;
use dataplane::Ns;
use dataplane::nic::{EvEvent, EvProbeAnswer, EvReport, EvState, PortEvent, PortId, Survey, SurveyOf, Whose};
use dataplane::path::PortMask;
use dataplane::path::profile::{Copies, Ev, EvPool};
use dataplane::time::US;
use ev_book::EvBook;
use member::Member;
use ports::{Change, Ports};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// `ReliabilityProbePeriod` at its default, in ns.
pub const PROBE_PERIOD: u64 = 150 * US;
/// Notices that wait to be taken; the oldest ones beyond are counted and left out.
pub const NOTICES_MAX: usize = 1024;

/// What an engine is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send a reliability probe.
    Probe {
        /// To whom.
        destination: IpAddr,
        /// On which value.
        ev: u32,
    },
    /// Send an EV probe, which tells a path's round-trip time without a connection.
    EvProbe {
        /// To whom.
        destination: IpAddr,
        /// On which value; whichever comes next without one.
        ev: Option<u32>,
        /// Who asked; [`Event::EvProbe`] names it.
        token: u32,
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
    /// Replace a value of an EV profile.
    ReplaceEv {
        /// The profile.
        profile: u64,
        /// The value that goes.
        current: u32,
        /// What comes.
        new: Ev,
        /// In its first turn, or in all.
        copies: Copies,
    },
    /// Put a value of an EV profile into a state, for all QPs of the profile.
    SetEv {
        /// The profile.
        profile: u64,
        /// The value.
        ev: u32,
        /// Good, assumed bad or denied.
        state: EvState,
    },
    /// Forget such states of a profile.
    ForgetProfile(u64),
    /// Give an EV profile other values, its open QPs too.
    ChangePool(Arc<EvPool>),
    /// Take a port out of use, or into it, and tell all peers.
    Port {
        /// The port.
        port: PortId,
        /// Whether it is in use from now on.
        in_use: bool,
    },
    /// Tell the peers that have not confirmed which ports are in use, and how many these are.
    TellPorts,
    /// Tell again which values are not good, and what peers said of their ports: events were lost.
    Report,
    /// Send by another Ethernet address from now on.
    NextHop(NextHop),
    /// Tell all values.
    List,
    /// Tell what there is to see.
    Survey {
        /// What is listed.
        of: SurveyOf,
        /// Who asked; [`Event::Surveyed`] names it.
        token: u32,
    },
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
    /// Ports of a peer, or the NIC's own, went out of use or came back.
    Port(PortEvent),
    /// So many peers have not confirmed which ports are in use, as [`Command::TellPorts`] asked.
    Untold(usize),
    /// What each peer said of its ports, as [`Command::Report`] asked.
    Peers(Vec<(IpAddr, PortMask)>),
    /// No QP is open with this destination any more: its values are forgotten.
    Gone(IpAddr),
    /// What came of [`Command::EvProbe`]: the probe's number, or `None` when no QP is open with the destination or too many probes wait.
    EvProbe {
        /// Who asked.
        token: u32,
        /// The probe's number.
        id: Option<u16>,
    },
    /// An EV probe was answered.
    Answered(EvProbeAnswer),
    /// The values of all its destinations, as [`Command::List`] asked.
    Listed(Vec<EvList>),
    /// What there is to see, as [`Command::Survey`] asked.
    Surveyed {
        /// Who asked.
        token: u32,
        /// What there is.
        survey: Box<Survey>,
    },
}

/// Something that an operator may want to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// When.
    pub at: Ns,
    /// What happened.
    pub what: Happening,
    /// Events and notices that were left out before this one, since the NIC came up.
    pub dropped: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A value changed its state.
    Ev {
        /// Towards whom.
        destination: IpAddr,
        /// The value.
        ev: u32,
        /// Its state from then on.
        state: EvState,
    },
    /// A port of the NIC changed.
    Port {
        /// The port.
        port: PortId,
        /// How it is from then on.
        status: PortStatus,
    },
    /// A peer told of its ports.
    PeerPorts {
        /// The peer.
        destination: IpAddr,
        /// Bit i: its port i is out of use.
        out: PortMask,
    },
}

/// The values of a destination that are assumed bad, in the order of their probes.
#[derive(Debug, Default)]
struct Suspects {
    values: VecDeque<u32>,
}

/// Events that a worker left out, as it counted: of entropy values, and of ports.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    evs: u64,
    ports: u64,
}

/// The controller of one NIC.
#[derive(Debug)]
pub struct Controller {
    probe_period_ns: u64,
    suspects: BTreeMap<IpAddr, Suspects>,
    denied: BTreeSet<(Option<IpAddr>, u32)>,
    next_probe: Option<Ns>,
    ports: Ports,
    /// Ports that peers said are out.
    peers_out: BTreeMap<IpAddr, PortMask>,
    profiles: Profiles,
    /// Which values of EV profiles are not good, and who hears of it.
    book: EvBook,
    commands: VecDeque<Command>,
    notices: VecDeque<Notice>,
    notices_dropped: u64,
    events_dropped: Vec<Dropped>,
    probes: u64,
}

impl Controller {
    /// The controller of a NIC with `workers` workers and `ports` ports, 1 to 8, all in use. It probes every `probe_period_ns` (1 ns to 8 s;
    /// at the default 150 us), and a port status update is repeated after as long for the first time.
    #[must_use]
    pub fn new(probe_period_ns: u64, workers: usize, ports: u8) -> Controller {
        let probe_period_ns = probe_period_ns.max(1);
        Controller {
            probe_period_ns,
            suspects: BTreeMap::new(),
            denied: BTreeSet::new(),
            next_probe: None,
            ports: Ports::new(ports, workers, probe_period_ns),
            peers_out: BTreeMap::new(),
            profiles: Profiles::new(ports),
            book: EvBook::default(),
            commands: VecDeque::new(),
            notices: VecDeque::new(),
            notices_dropped: 0,
            events_dropped: vec![Dropped::default(); workers],
            probes: 0,
        }
    }

    /// Worker number `worker` told something.
    pub fn on_event(&mut self, now: Ns, worker: usize, event: Event) {
        match event {
            // Whoever asked for it takes it.
            Event::Listed(_) | Event::EvProbe { .. } | Event::Answered(_) | Event::Surveyed { .. } => {}
            Event::Gone(destination) => {
                self.suspects.remove(&destination);
                self.peers_out.remove(&destination);
                self.forget_destination(destination);
            }
            Event::Untold(count) => self.ports.untold(now, worker, count),
            Event::Peers(peers) => peers.into_iter().for_each(|(peer, out)| self.on_peer(now, peer, out)),
            Event::Port(event) => {
                self.count_dropped(worker, |dropped| &mut dropped.ports, event.dropped);
                // The NIC's own are known here first.
                if let Some(peer) = event.peer {
                    self.on_peer(event.at, peer, event.out);
                }
            }
            Event::Ev(event) => {
                self.count_dropped(worker, |dropped| &mut dropped.evs, event.dropped);
                let EvEvent { at, destination, whose, ev, state, .. } = event;
                self.on_state(now, destination, whose, ev, state);
                self.notice(at, Happening::Ev { destination, ev, state });
            }
        }
        if self.suspects.is_empty() {
            self.next_probe = None;
        }
    }

    /// What a worker left out it has to tell again.
    fn count_dropped(&mut self, worker: usize, of: fn(&mut Dropped) -> &mut u64, dropped: u64) {
        let Some(counted) = self.events_dropped.get_mut(worker).map(of) else { return };
        if dropped > *counted {
            *counted = dropped;
            self.commands.push_back(Command::Report);
        }
    }

    fn on_peer(&mut self, at: Ns, destination: IpAddr, out: PortMask) {
        let before =
            if out == 0 { self.peers_out.remove(&destination) } else { self.peers_out.insert(destination, out) };
        if before.unwrap_or(0) != out {
            self.notice(at, Happening::PeerPorts { destination, out });
        }
    }

    fn on_state(&mut self, now: Ns, destination: IpAddr, whose: Whose, ev: u32, state: EvState) {
        if self.enter(destination, whose, ev, state) {
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

    fn notice(&mut self, at: Ns, what: Happening) {
        if self.notices.len() == NOTICES_MAX {
            self.notices.pop_front();
            self.notices_dropped += 1;
        }
        let dropped = self.events_dropped.iter().map(|dropped| dropped.evs + dropped.ports).sum::<u64>();
        self.notices.push_back(Notice { at, what, dropped: dropped + self.notices_dropped });
    }

    /// Time came: one probe to each destination that has a value assumed bad, its values in turn; and peers are told of ports again.
    pub fn on_time(&mut self, now: Ns) {
        if self.ports.on_time(now) {
            self.commands.push_back(Command::TellPorts);
        }
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

    /// When [`Controller::on_time`] is to be called next; `None` while nothing is probed, and no peer has to be told of ports.
    #[must_use]
    pub fn next_wake(&self) -> Option<Ns> {
        [self.next_probe, self.ports.next()].into_iter().flatten().min()
    }

    /// When the next probe is due.
    pub(super) const fn next_probe(&self) -> Option<Ns> {
        self.next_probe
    }

    /// Denies a value towards a destination, or everybody, or lifts the denial. False when that is how it is already.
    pub fn deny(&mut self, destination: Option<IpAddr>, ev: u32, denied: bool) -> bool {
        let changed =
            if denied { self.denied.insert((destination, ev)) } else { self.denied.remove(&(destination, ev)) };
        if changed {
            self.commands.push_back(Command::Deny { destination, ev, denied });
            self.show_everywhere(ev);
        }
        changed
    }

    /// What is denied.
    pub fn denied(&self) -> impl Iterator<Item = (Option<IpAddr>, u32)> + '_ {
        self.denied.iter().copied()
    }

    /// The link of a port went up or down. True when that changed something.
    pub fn set_link(&mut self, now: Ns, port: PortId, up: bool) -> bool {
        self.set_port(now, port, |status| status.link = up)
    }

    /// An operator wants a port up or down. True when that changed something; a port that the NIC does not have does not change.
    pub fn set_admin(&mut self, now: Ns, port: PortId, up: bool) -> bool {
        self.set_port(now, port, |status| status.admin = up)
    }

    fn set_port(&mut self, now: Ns, port: PortId, change: impl FnOnce(&mut PortStatus)) -> bool {
        let change = self.ports.change(now, port, change).unwrap_or(Change::Nothing);
        let Some(&status) = self.ports.status().get(usize::from(port.0)).filter(|_| change != Change::Nothing) else {
            return false;
        };
        if change == Change::Use {
            self.commands.push_back(Command::Port { port, in_use: status.in_use() });
        }
        self.notice(now, Happening::Port { port, status });
        true
    }

    /// The NIC's ports.
    #[must_use]
    pub fn ports(&self) -> &[PortStatus] {
        self.ports.status()
    }

    /// Peers that had not confirmed which ports are in use, when workers told them last.
    #[must_use]
    pub fn untold_peers(&self) -> usize {
        self.ports.untold_peers()
    }

    /// Peers that said that ports are out, and which: bit i stands for port i.
    pub fn peers_out(&self) -> impl Iterator<Item = (IpAddr, PortMask)> + '_ {
        self.peers_out.iter().map(|(&peer, &out)| (peer, out))
    }

    /// The EV profiles.
    #[must_use]
    pub const fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// The EV profiles, to be changed.
    pub const fn profiles_mut(&mut self) -> &mut Profiles {
        &mut self.profiles
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

    /// Passes on what an operator asks of the engines.
    pub(super) fn pass_on(&mut self, command: Command) {
        self.commands.push_back(command);
    }

    /// Takes the oldest command. [`Command::Probe`] and a denial towards one destination are for the worker that owns it, all others for
    /// every worker.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Takes the oldest notice.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    fn event(destination: IpAddr, ev: u32, state: EvState) -> Event {
        Event::Ev(EvEvent { at: Ns::ZERO, destination, whose: Whose::Of(None), ev, state, dropped: 0 })
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
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        for ev in [256, 300, 383] {
            controller.on_event(Ns(7), 0, event(PEER, ev, EvState::AssumedBad));
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
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        controller.on_event(Ns::ZERO, 0, event(PEER, 256, EvState::AssumedBad));
        controller.on_event(Ns::ZERO, 0, event(OTHER, 257, EvState::AssumedBad));
        controller.on_time(Ns(PROBE_PERIOD));
        assert_eq!(probes(&mut controller), [(PEER, 256), (OTHER, 257)]);
        controller.on_event(Ns(PROBE_PERIOD), 0, event(PEER, 256, EvState::Good));
        controller.on_event(Ns(PROBE_PERIOD), 0, Event::Gone(OTHER));
        assert_eq!(controller.next_wake(), None);
        controller.on_event(Ns(500 * US), 0, event(PEER, 258, EvState::AssumedBad));
        assert_eq!(controller.next_wake(), Some(Ns(650 * US)));
    }

    #[test]
    fn a_controller_that_comes_late_sends_one_probe_and_not_all_that_it_missed() {
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        controller.on_event(Ns::ZERO, 0, event(PEER, 256, EvState::AssumedBad));
        controller.on_time(Ns(1_000 * US));
        assert_eq!(probes(&mut controller).len(), 1);
        assert_eq!(controller.next_wake(), Some(Ns(1_150 * US)));
    }

    #[test]
    fn lost_events_make_the_controller_ask_for_a_report() {
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        let lost = EvEvent {
            at: Ns::ZERO,
            destination: PEER,
            whose: Whose::Everybody,
            ev: 256,
            state: EvState::Good,
            dropped: 3,
        };
        controller.on_event(Ns::ZERO, 0, Event::Ev(lost));
        assert_eq!(controller.poll_command(), Some(Command::Report));
        controller.on_event(Ns::ZERO, 0, Event::Ev(lost));
        assert_eq!(controller.poll_command(), None);
    }

    #[test]
    fn a_denial_is_a_command_once() {
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        assert!(controller.deny(Some(PEER), 300, true));
        assert!(!controller.deny(Some(PEER), 300, true));
        assert_eq!(controller.poll_command(), Some(Command::Deny { destination: Some(PEER), ev: 300, denied: true }));
        assert_eq!(controller.denied().collect::<Vec<_>>(), [(Some(PEER), 300)]);
        assert!(controller.deny(Some(PEER), 300, false));
        assert_eq!(controller.poll_command(), Some(Command::Deny { destination: Some(PEER), ev: 300, denied: false }));
    }

    #[test]
    fn each_workers_lost_events_are_told_again_whatever_another_worker_lost() {
        let mut controller = Controller::new(PROBE_PERIOD, 2, 1);
        let lost = |dropped| Event::Port(PortEvent { at: Ns::ZERO, peer: Some(PEER), out: 1, dropped });
        controller.on_event(Ns::ZERO, 0, lost(5));
        assert_eq!(controller.poll_command(), Some(Command::Report));
        controller.on_event(Ns::ZERO, 1, lost(2));
        assert_eq!(controller.poll_command(), Some(Command::Report));
        controller.on_event(Ns::ZERO, 1, Event::Peers(vec![(PEER, 2), (OTHER, 0)]));
        assert_eq!(controller.peers_out().collect::<Vec<_>>(), [(PEER, 2)]);
        let notices: Vec<Notice> = std::iter::from_fn(|| controller.poll_notice()).collect();
        let expected =
            |out, dropped| Notice { at: Ns::ZERO, what: Happening::PeerPorts { destination: PEER, out }, dropped };
        assert_eq!(notices, [expected(1, 5), expected(2, 7)]);
    }

    #[test]
    fn a_port_is_a_command_when_its_use_changes_and_a_notice_whenever_it_changes() {
        let mut controller = Controller::new(PROBE_PERIOD, 1, 2);
        let port = PortId(1);
        assert!(controller.set_admin(Ns(3), port, false));
        assert_eq!(controller.poll_command(), Some(Command::Port { port, in_use: false }));
        assert!(controller.set_link(Ns(4), port, false));
        assert!(!controller.set_link(Ns(5), port, false));
        assert!(!controller.set_link(Ns(5), PortId(2), false));
        assert_eq!(controller.poll_command(), None);
        let notices: Vec<_> = std::iter::from_fn(|| controller.poll_notice()).map(|notice| notice.what).collect();
        let expected = [(true, false), (false, false)].map(|(link, admin)| PortStatus { link, admin });
        assert_eq!(notices, expected.map(|status| Happening::Port { port, status }));
        assert_eq!(controller.next_wake(), Some(Ns(3 + PROBE_PERIOD)));
    }

    #[test]
    fn notices_that_nobody_takes_are_counted_and_the_newest_are_kept() {
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        for n in 0..NOTICES_MAX as u64 + 3 {
            controller.set_link(Ns(n), PortId(0), n % 2 == 1);
        }
        let first = controller.poll_notice().unwrap();
        assert_eq!((first.at, first.dropped), (Ns(3), 0));
        let last = std::iter::from_fn(|| controller.poll_notice()).last().unwrap();
        assert_eq!(last.dropped, 3);
    }
}

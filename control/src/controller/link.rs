//! Rings between the control thread and a worker: neither side ever waits for the other.

use super::{Command, Controller, EvList, Event};
use crate::neighbour::NextHop;
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::nic::Nic;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::Thread;

/// Commands and events that a ring holds.
const RING: usize = 256;
/// What one turn of a worker takes or gives at most.
const BATCH: usize = 32;

/// How often a ring was full; what did not fit waited and went later.
#[derive(Debug, Default)]
pub struct LinkStats {
    /// Commands that waited at the control thread.
    pub commands_waited: AtomicU64,
    /// Probes left out because a worker had not yet taken what it was asked before.
    pub probes_left_out: AtomicU64,
    /// Times that a worker's events waited.
    pub events_waited: AtomicU64,
}

/// The control thread, as its workers know it.
#[derive(Clone, Debug)]
pub struct Waker {
    thread: Thread,
    asleep: Arc<AtomicBool>,
}

impl Waker {
    /// Wakes `thread` while `asleep` is set: a thread that looks soon by itself costs a worker no system call.
    #[must_use]
    pub const fn new(thread: Thread, asleep: Arc<AtomicBool>) -> Waker {
        Waker { thread, asleep }
    }

    /// Wakes the thread, whatever it does.
    pub(super) fn wake_anyway(&self) {
        self.thread.unpark();
    }

    pub(super) fn wake(&self) {
        if self.asleep.swap(false, SeqCst) {
            self.thread.unpark();
        }
    }
}

#[derive(Debug)]
struct Shared {
    commands: ArrayQueue<Command>,
    events: ArrayQueue<Event>,
    stats: LinkStats,
}

/// The worker's end.
#[derive(Debug)]
pub struct WorkerEnd {
    shared: Arc<Shared>,
    control: Option<Waker>,
    /// Events that found no room.
    waiting: VecDeque<Event>,
}

/// The control thread's end.
#[derive(Clone, Debug)]
pub struct ControlEnd {
    shared: Arc<Shared>,
}

/// Joins a worker and the control thread. `control` is woken when there is something to hear and it sleeps; without one it has to look.
#[must_use]
pub fn link(control: Option<Waker>) -> (WorkerEnd, ControlEnd) {
    let shared = Arc::new(Shared {
        commands: ArrayQueue::new(RING),
        events: ArrayQueue::new(RING),
        stats: LinkStats::default(),
    });
    (WorkerEnd { shared: Arc::clone(&shared), control, waiting: VecDeque::new() }, ControlEnd { shared })
}

impl WorkerEnd {
    /// Carries out what the control thread asks, and tells it what happened. True when there was anything.
    #[inline]
    pub fn exchange(&mut self, now: Ns, nic: &mut Nic) -> bool {
        let mut did = false;
        for _ in 0..BATCH {
            // A ring that is empty, as nearly always, is seen so without the fence of a pop.
            if self.shared.commands.is_empty() {
                break;
            }
            let Some(command) = self.shared.commands.pop() else { break };
            did = true;
            if let Some(event) = carry_out(now, nic, command) {
                self.waiting.push_back(event);
            }
        }
        did | self.tell(nic)
    }

    #[inline]
    fn tell(&mut self, nic: &mut Nic) -> bool {
        let mut told = false;
        for _ in 0..BATCH {
            let next = self.waiting.pop_front().or_else(|| next_of(nic));
            let Some(event) = next else { break };
            if let Err(event) = self.shared.events.push(event) {
                self.shared.stats.events_waited.fetch_add(1, Relaxed);
                self.waiting.push_front(event);
                break;
            }
            told = true;
        }
        if told && let Some(control) = &self.control {
            control.wake();
        }
        told
    }
}

/// The engine's next event; ports are few, and come first.
#[inline]
fn next_of(nic: &mut Nic) -> Option<Event> {
    let port = nic.poll_port_event().map(Event::Port);
    port.or_else(|| nic.poll_event().map(Event::Ev)).or_else(|| nic.poll_ev_probe().map(Event::Answered))
}

/// A controller and its one engine without rings between them, in virtual time: events one way, commands the other, until there are none.
pub fn join(now: Ns, controller: &mut Controller, nic: &mut Nic) {
    loop {
        while let Some(event) = next_of(nic) {
            controller.on_event(now, 0, event);
        }
        let Some(command) = controller.poll_command() else { break };
        if let Some(event) = carry_out(now, nic, command) {
            controller.on_event(now, 0, event);
        }
    }
}

/// Does what a command says; an event where the answer is not one of the engine's own.
pub(super) fn carry_out(now: Ns, nic: &mut Nic, command: Command) -> Option<Event> {
    match command {
        Command::Probe { destination, ev } => {
            // One that finds the queue full is not sent: the next comes in a period.
            let _ = nic.probe_destination(now, destination, ev);
            (!nic.is_open_with(destination)).then_some(Event::Gone(destination))
        }
        Command::EvProbe { destination, ev, token } => {
            let id = match ev {
                Some(ev) => nic.ev_probe(destination, ev),
                None => nic.ev_probe_any(destination),
            };
            Some(Event::EvProbe { token, id })
        }
        Command::Deny { destination, ev, denied } => {
            nic.deny(now, destination, ev, denied);
            None
        }
        Command::ReplaceEv { profile, current, new, copies } => {
            nic.replace_ev(now, profile, current, new, copies);
            None
        }
        Command::SetEv { profile, ev, state } => {
            nic.set_profile_ev(now, profile, ev, state);
            None
        }
        Command::ForgetProfile(profile) => {
            nic.forget_profile(profile);
            None
        }
        Command::ChangePool(pool) => {
            nic.change_pool(now, &pool);
            None
        }
        Command::Port { port, in_use } => {
            nic.set_port(now, port, in_use);
            None
        }
        Command::NextHop(NextHop { destination, port, mac }) => {
            nic.set_next_hop(destination, port, mac);
            None
        }
        Command::TellPorts => Some(Event::Untold(nic.tell_ports())),
        Command::Report => {
            nic.report_states(now);
            Some(Event::Peers(nic.destinations().map(|peer| (peer, nic.peer_ports_out(peer))).collect()))
        }
        // An operator asked: allocating for the answer is no matter.
        Command::List => {
            let list = |destination| EvList { destination, evs: nic.list_evs(destination).collect() };
            Some(Event::Listed(nic.destinations().map(list).collect()))
        }
        Command::Survey { of, token } => Some(Event::Surveyed { token, survey: Box::new(nic.survey(of)) }),
    }
}

impl ControlEnd {
    /// Takes the oldest event.
    pub fn poll(&self) -> Option<Event> {
        self.shared.events.pop()
    }

    /// Asks the worker for something; the command comes back when the ring is full.
    ///
    /// # Errors
    /// The command, to be tried again.
    pub fn ask(&self, command: Command) -> Result<(), Command> {
        self.shared.commands.push(command).inspect_err(|_| {
            self.shared.stats.commands_waited.fetch_add(1, Relaxed);
        })
    }

    /// Has the worker not taken yet what it was asked?
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.shared.commands.is_empty()
    }

    /// Counts a probe that was not asked for, since the worker is behind.
    pub(super) fn probe_left_out(&self) {
        self.shared.stats.probes_left_out.fetch_add(1, Relaxed);
    }

    /// How often either ring was full, and what was left out.
    #[must_use]
    pub fn stats(&self) -> &LinkStats {
        &self.shared.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::nic::{NicParams, PortInfo};
    use dataplane::wire::MacAddr;
    use std::net::{IpAddr, Ipv4Addr};

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn a_full_ring_gives_the_command_back_and_counts_it() {
        let (_worker, control) = link(None);
        for ev in 0..RING as u32 {
            control.ask(Command::Probe { destination: PEER, ev }).unwrap();
        }
        let one_more = Command::Probe { destination: PEER, ev: 9 };
        assert_eq!(control.ask(one_more.clone()), Err(one_more));
        assert_eq!(control.stats().commands_waited.load(Relaxed), 1);
    }

    #[test]
    fn a_probe_to_a_destination_without_a_qp_is_answered_by_its_going() {
        let port = PortInfo { mac: MacAddr::default(), max_frame: 9000 };
        let mut nic = Nic::new(NicParams::default(), &[port]).unwrap();
        let (mut worker, control) = link(None);
        control.ask(Command::Probe { destination: PEER, ev: 256 }).unwrap();
        assert!(worker.exchange(Ns::ZERO, &mut nic));
        assert_eq!(control.poll(), Some(Event::Gone(PEER)));
        assert!(!worker.exchange(Ns::ZERO, &mut nic));
    }
}

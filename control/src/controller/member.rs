//! A NIC of the control thread: its controller, its workers, and the links of its ports.

use super::{Command, ControlEnd, Controller, Event, Vicinity};
use crate::neighbour::NextHop;
use dataplane::Ns;
use dataplane::dpdk::LinkWatch;
use dataplane::nic::{PortId, Stats, owner};
use std::ops::Range;
use std::sync::Arc;

/// A NIC to control: its controller, and the links to its workers in their order.
#[derive(Debug)]
pub struct ControlledNic {
    /// What operators call it.
    pub name: String,
    /// What decides.
    pub controller: Controller,
    /// Worker i is at link i.
    pub workers: Vec<ControlEnd>,
    /// Counters of each worker's engine, which any thread may read.
    pub engines: Vec<Arc<Stats>>,
    /// Port i's link is watched by the one at place i; a port without one counts as linked.
    pub links: Vec<LinkWatch>,
    /// Its neighbours, where it asks for them and answers.
    pub vicinity: Option<Vicinity>,
}

/// The same, in the control thread.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) nic: ControlledNic,
    /// A command that found a ring full, and the workers that have not got it yet.
    waiting: Option<(Command, Range<usize>)>,
}

impl Member {
    pub(super) const fn new(nic: ControlledNic) -> Member {
        Member { nic, waiting: None }
    }

    /// When it has something to do by itself.
    pub(super) fn next_wake(&self) -> Option<Ns> {
        let of_neighbours = self.nic.vicinity.as_ref().and_then(Vicinity::next_wake);
        [self.nic.controller.next_wake(), of_neighbours].into_iter().flatten().min()
    }

    /// Looks at the links of the ports.
    pub(super) fn look_at_links(&mut self, now: Ns) {
        for (port, watch) in (0..).map(PortId).zip(&self.nic.links) {
            self.nic.controller.set_link(now, port, watch.link().is_some());
        }
    }

    /// Hears what happened, lets time pass, and passes commands on. What a worker was asked to tell goes to `told`, with the worker's number.
    pub(super) fn turn(&mut self, now: Ns, mut told: impl FnMut(usize, Event)) {
        for (n, worker) in self.nic.workers.iter().enumerate() {
            while let Some(event) = worker.poll() {
                match event {
                    event
                    @ (Event::Listed(_) | Event::EvProbe { .. } | Event::Answered(_) | Event::Surveyed { .. }) => {
                        told(n, event)
                    }
                    event => self.nic.controller.on_event(now, n, event),
                }
            }
        }
        self.nic.controller.on_time(now);
        let ControlledNic { name, controller, vicinity, .. } = &mut self.nic;
        if let Some(vicinity) = vicinity {
            vicinity.turn(now, name, controller);
        }
        // Before anything new is asked: a worker that is off its core has what it was asked before still to do.
        let behind: Vec<bool> = self.nic.workers.iter().map(ControlEnd::is_behind).collect();
        while let Some((command, workers)) = self.next_command() {
            if matches!(command, Command::Probe { .. }) && behind.get(workers.start).is_some_and(|&behind| behind) {
                // Its probes would only pile up, and then go out all at once.
                self.nic.workers[workers.start].probe_left_out();
                continue;
            }
            self.waiting = self.carry(command, workers);
            if self.waiting.is_some() {
                break;
            }
        }
    }

    fn next_command(&mut self) -> Option<(Command, Range<usize>)> {
        self.waiting.take().or_else(|| {
            let command = self.nic.controller.poll_command()?;
            let workers = recipients(&command, self.nic.workers.len());
            Some((command, workers))
        })
    }

    /// Asks each of `workers`, in their order. What comes back is for those from the first whose ring is full.
    fn carry(&self, command: Command, workers: Range<usize>) -> Option<(Command, Range<usize>)> {
        let full = |&n: &usize| self.nic.workers.get(n).is_some_and(|worker| worker.ask(command.clone()).is_err());
        let first = workers.clone().find(full);
        first.map(|n| (command, n..workers.end))
    }
}

/// The workers that a command is for.
fn recipients(command: &Command, workers: usize) -> Range<usize> {
    match *command {
        Command::Probe { destination, .. }
        | Command::EvProbe { destination, .. }
        | Command::NextHop(NextHop { destination, .. })
        | Command::Deny { destination: Some(destination), .. } => {
            let owner = owner(destination, workers);
            owner..owner + 1
        }
        Command::Deny { destination: None, .. }
        | Command::ReplaceEv { .. }
        | Command::SetEv { .. }
        | Command::ForgetProfile(_)
        | Command::ChangePool(_)
        | Command::Port { .. }
        | Command::TellPorts
        | Command::Report
        | Command::List
        | Command::Survey { .. } => 0..workers,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PROBE_PERIOD, WorkerEnd, link};
    use super::*;
    use dataplane::nic::{Nic, NicParams, PortInfo};
    use dataplane::wire::MacAddr;
    use std::net::{IpAddr, Ipv4Addr};

    fn two_workers() -> (Member, [WorkerEnd; 2], Nic) {
        let [(first, a), (second, b)] = [(); 2].map(|()| link(None));
        let controller = Controller::new(PROBE_PERIOD, 2, 1);
        let (workers, engines, links) = (vec![a, b], Vec::new(), Vec::new());
        let nic = ControlledNic { name: "a".into(), controller, workers, engines, links, vicinity: None };
        let port = PortInfo { mac: MacAddr::default(), max_frame: 9000 };
        (Member::new(nic), [first, second], Nic::new(NicParams::default(), &[port]).unwrap())
    }

    /// Turns of a worker until it finds nothing to do.
    fn turns(worker: &mut WorkerEnd, nic: &mut Nic) -> usize {
        std::iter::from_fn(|| worker.exchange(Ns::ZERO, nic).then_some(())).count()
    }

    #[test]
    fn commands_go_to_the_worker_that_owns_the_destination_and_wait_while_its_ring_is_full() {
        let (mut member, [mut first, mut second], mut nic) = two_workers();
        let peer = IpAddr::from(Ipv4Addr::new(10, 0, 0, 3));
        for ev in 0..300 {
            member.nic.controller.deny(Some(peer), ev, true);
        }
        member.turn(Ns::ZERO, |_, _| ());
        assert!(!first.exchange(Ns::ZERO, &mut nic), "the other worker owns 10.0.0.3");
        assert_eq!(turns(&mut second, &mut nic), 256 / 32);
        member.turn(Ns::ZERO, |_, _| ());
        assert!(second.exchange(Ns::ZERO, &mut nic), "what had found no room came now");
        assert_eq!(member.nic.controller.poll_command(), None);
    }

    #[test]
    fn a_command_for_all_workers_reaches_each_once_though_the_ring_of_one_was_full() {
        let (mut member, [mut first, mut second], mut nic) = two_workers();
        let peer = IpAddr::from(Ipv4Addr::new(10, 0, 0, 3));
        for ev in 0..256 {
            member.nic.controller.deny(Some(peer), ev, true);
        }
        member.nic.controller.pass_on(Command::List);
        let mut listed = [0; 2];
        for _ in 0..3 {
            member.turn(Ns::ZERO, |worker, _| listed[worker] += 1);
            turns(&mut first, &mut nic);
        }
        assert_eq!(listed, [1, 0]);
        turns(&mut second, &mut nic);
        for _ in 0..3 {
            member.turn(Ns::ZERO, |worker, _| listed[worker] += 1);
            turns(&mut second, &mut nic);
        }
        assert_eq!(listed, [1, 1]);
    }

    #[test]
    fn a_worker_that_is_behind_gets_no_more_probes_but_everything_else() {
        let (mut member, [_, mut second], mut nic) = two_workers();
        let peer = IpAddr::from(Ipv4Addr::new(10, 0, 0, 3));
        let bad = dataplane::nic::EvEvent {
            at: Ns::ZERO,
            destination: peer,
            whose: dataplane::nic::Whose::Of(None),
            ev: 300,
            state: dataplane::nic::EvState::AssumedBad,
            dropped: 0,
        };
        member.nic.controller.on_event(Ns::ZERO, 1, Event::Ev(bad));
        for tick in 1..=10 {
            member.turn(Ns(tick * PROBE_PERIOD), |_, _| ());
        }
        member.nic.controller.deny(Some(peer), 301, true);
        member.turn(Ns(10 * PROBE_PERIOD), |_, _| ());
        let stats = member.nic.workers[1].stats();
        assert_eq!(stats.probes_left_out.load(std::sync::atomic::Ordering::Relaxed), 9);
        assert!(second.exchange(Ns::ZERO, &mut nic));
        assert!(!member.nic.workers[1].is_behind(), "one probe and the denial");
    }
}

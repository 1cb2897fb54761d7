//! A NIC's own ports: which are in use, and telling peers of it until each has confirmed it.

use dataplane::Ns;
use dataplane::nic::PortId;
use dataplane::time::SEC;

/// Longest time in ns between two repeats of a port status update.
const REPEAT_MAX: u64 = SEC;

/// A port of a NIC, as the controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// The driver says that the link is up.
    pub link: bool,
    /// An operator wants it up.
    pub admin: bool,
}

impl PortStatus {
    /// A port is in use when its link is up and an operator wants it so.
    #[must_use]
    pub const fn in_use(self) -> bool {
        self.link && self.admin
    }
}

/// What a change of a port makes necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is as it was.
    Nothing,
    /// It changed, and is used or unused as before.
    Status,
    /// It went out of use, or into it.
    Use,
}

/// What a worker said of its peers.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Answers so far.
    answers: u64,
    /// Peers that had not confirmed when it was asked last.
    untold: usize,
    /// All have, since the last change.
    confirmed: bool,
}

/// The ports, and the schedule of repeats: updates get lost, so workers tell their peers again, each time after twice the wait, until
/// all have confirmed. While a port is out they go on at the longest wait, for the sake of peers that come later.
#[derive(Debug)]
pub(super) struct Ports {
    ports: Vec<PortStatus>,
    workers: Vec<Told>,
    period_ns: u64,
    wait_ns: u64,
    next: Option<Ns>,
    /// How often the workers were asked to tell their peers, and how often before the last change.
    asked: u64,
    asked_before: u64,
}

impl Ports {
    /// `ports` ports, all in use, of a NIC with `workers` workers. The first repeat comes after `period_ns`.
    pub(super) fn new(ports: u8, workers: usize, period_ns: u64) -> Ports {
        Ports {
            ports: vec![PortStatus { link: true, admin: true }; usize::from(ports)],
            workers: vec![Told { confirmed: true, ..Told::default() }; workers],
            period_ns,
            wait_ns: period_ns,
            next: None,
            asked: 0,
            asked_before: 0,
        }
    }

    pub(super) fn status(&self) -> &[PortStatus] {
        &self.ports
    }

    /// Changes a port; `None` when there is none of this number.
    pub(super) fn change(&mut self, now: Ns, port: PortId, change: impl FnOnce(&mut PortStatus)) -> Option<Change> {
        let status = self.ports.get_mut(usize::from(port.0))?;
        let before = *status;
        change(status);
        if *status == before {
            return Some(Change::Nothing);
        }
        if status.in_use() == before.in_use() {
            return Some(Change::Status);
        }
        self.asked_before = self.asked;
        for told in &mut self.workers {
            told.confirmed = false;
        }
        self.repeat_from(now);
        Some(Change::Use)
    }

    fn repeat_from(&mut self, now: Ns) {
        self.wait_ns = self.period_ns;
        self.next = Some(now + self.period_ns);
    }

    /// The longest wait on the grid of the period.
    const fn longest(&self) -> u64 {
        let periods = REPEAT_MAX / self.period_ns;
        if periods == 0 { self.period_ns } else { periods * self.period_ns }
    }

    /// Time came: true when the workers are to tell their peers again.
    pub(super) fn on_time(&mut self, now: Ns) -> bool {
        let Some(due) = self.next.filter(|&due| due <= now) else { return false };
        self.asked += 1;
        self.wait_ns = (2 * self.wait_ns).min(self.longest());
        let next = due + self.wait_ns;
        self.next = Some(if next > now { next } else { now + self.wait_ns });
        true
    }

    /// A worker told its peers; so many had not confirmed.
    pub(super) fn untold(&mut self, now: Ns, worker: usize, count: usize) {
        let Some(told) = self.workers.get_mut(worker) else { return };
        told.answers += 1;
        told.untold = count;
        // An answer to what was asked before the last change says nothing of it.
        if told.answers <= self.asked_before {
            return;
        }
        let before = std::mem::replace(&mut told.confirmed, count == 0);
        if count > 0 {
            if before {
                self.repeat_from(now);
            }
        } else if !before && self.workers.iter().all(|told| told.confirmed) {
            self.wait_ns = self.longest();
            let any_out = self.ports.iter().any(|port| !port.in_use());
            self.next = any_out.then(|| now + self.wait_ns);
        }
    }

    /// Peers that had not confirmed when last asked.
    pub(super) fn untold_peers(&self) -> usize {
        self.workers.iter().map(|told| told.untold).sum()
    }

    pub(super) const fn next(&self) -> Option<Ns> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::time::US;

    const PERIOD: u64 = 150 * US;

    fn out(ports: &mut Ports, at: Ns) {
        assert_eq!(ports.change(at, PortId(1), |port| port.admin = false), Some(Change::Use));
    }

    /// The next times at which peers are told again, in periods, while none confirms.
    fn times(ports: &mut Ports, count: usize) -> Vec<u64> {
        let one = |_| {
            let at = ports.next().unwrap();
            assert!(ports.on_time(at));
            at.0 / PERIOD
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn repeats_double_from_one_period_to_one_second_and_stay_on_the_grid() {
        let mut ports = Ports::new(2, 1, PERIOD);
        assert_eq!(ports.next(), None);
        out(&mut ports, Ns::ZERO);
        assert_eq!(times(&mut ports, 5), [1, 3, 7, 15, 31]);
        let late = times(&mut ports, 12);
        assert_eq!(late[11] - late[10], SEC / PERIOD);
    }

    #[test]
    fn once_every_worker_said_that_all_peers_confirmed_repeats_come_at_the_longest_wait_only_and_end_with_the_port_back()
     {
        let mut ports = Ports::new(2, 2, PERIOD);
        out(&mut ports, Ns::ZERO);
        assert!(ports.on_time(Ns(PERIOD)));
        ports.untold(Ns(PERIOD), 0, 0);
        ports.untold(Ns(PERIOD), 1, 3);
        assert_eq!((ports.next(), ports.untold_peers()), (Some(Ns(3 * PERIOD)), 3));
        assert!(ports.on_time(Ns(3 * PERIOD)));
        ports.untold(Ns(3 * PERIOD), 0, 0);
        ports.untold(Ns(3 * PERIOD), 1, 0);
        assert_eq!(ports.next(), Some(Ns(3 * PERIOD + ports.longest())));
        assert_eq!(ports.change(Ns(4 * PERIOD), PortId(1), |port| port.admin = true), Some(Change::Use));
        assert!(ports.on_time(Ns(5 * PERIOD)));
        for worker in 0..2 {
            ports.untold(Ns(5 * PERIOD), worker, 0);
        }
        assert_eq!(ports.next(), None);
    }

    #[test]
    fn an_answer_from_before_a_change_confirms_nothing() {
        let mut ports = Ports::new(2, 1, PERIOD);
        out(&mut ports, Ns::ZERO);
        assert!(ports.on_time(Ns(PERIOD)));
        ports.change(Ns(PERIOD), PortId(0), |port| port.link = false);
        ports.untold(Ns(PERIOD), 0, 0);
        assert_eq!(ports.next(), Some(Ns(2 * PERIOD)));
    }

    #[test]
    fn a_peer_that_comes_while_a_port_is_out_and_has_not_confirmed_is_told_at_the_pace_of_a_change() {
        let mut ports = Ports::new(2, 1, PERIOD);
        out(&mut ports, Ns::ZERO);
        assert!(ports.on_time(Ns(PERIOD)));
        ports.untold(Ns(PERIOD), 0, 0);
        let at = ports.next().unwrap();
        assert!(ports.on_time(at));
        ports.untold(at, 0, 1);
        assert_eq!(ports.next(), Some(at + PERIOD));
    }

    #[test]
    fn a_port_is_in_use_when_its_link_is_up_and_an_operator_wants_it_so() {
        let mut ports = Ports::new(2, 1, PERIOD);
        assert_eq!(ports.change(Ns::ZERO, PortId(1), |port| port.link = false), Some(Change::Use));
        assert_eq!(ports.change(Ns::ZERO, PortId(1), |port| port.admin = false), Some(Change::Status));
        assert_eq!(ports.change(Ns::ZERO, PortId(1), |port| port.link = true), Some(Change::Status));
        assert_eq!(ports.change(Ns::ZERO, PortId(1), |port| port.link = true), Some(Change::Nothing));
        assert_eq!(ports.change(Ns::ZERO, PortId(1), |port| port.admin = true), Some(Change::Use));
        assert_eq!(ports.change(Ns::ZERO, PortId(2), |port| port.link = false), None);
    }
}

//! The control thread of a live run: it sleeps until a worker has something to tell, or a probe is due.

use super::operator::{Ask, Operator, Request, refusal};
use super::{Command, ControlEnd, Controller, EvList, Event, Waker};
use crate::error::Error;
use dataplane::Ns;
use dataplane::nic::{EvState, owner};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Without anything to do the thread looks this often, so that it hears when to end.
const LOOK: Duration = Duration::from_millis(20);
/// Longest lateness that is told apart, in ns.
const LATENESS_MAX: u64 = 10_000_000_000;

/// A NIC to control: its controller, and the links to its workers in their order.
#[derive(Debug)]
pub struct ControlledNic {
    /// What operators call it.
    pub name: String,
    /// What decides.
    pub controller: Controller,
    /// Worker i is at link i.
    pub workers: Vec<ControlEnd>,
}

/// What the control thread did.
#[derive(Clone, Debug)]
pub struct ControlReport {
    /// Probes asked for.
    pub probes: u64,
    /// How late after its time each probe was asked for, in ns.
    pub lateness: Histogram<u64>,
}

/// A running control thread. It ends when it is told to, or when this is dropped.
#[derive(Debug)]
pub struct ControlThread {
    handle: Option<JoinHandle<ControlReport>>,
    stop: Arc<AtomicBool>,
    asleep: Arc<AtomicBool>,
    asks: mpsc::Sender<Ask>,
    nics: Option<mpsc::Sender<Vec<ControlledNic>>>,
}

impl ControlThread {
    /// Starts the thread. It waits for its NICs: the links to their workers need to know whom to wake.
    ///
    /// # Errors
    /// [`Error::Failure`] when there can be no more threads.
    pub fn start(clock: impl Fn() -> Ns + Send + 'static) -> Result<ControlThread, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (nics, wait) = mpsc::channel();
        let (asks, asked) = mpsc::channel();
        let asleep = Arc::new(AtomicBool::new(true));
        let (ended, sleeps) = (Arc::clone(&stop), Arc::clone(&asleep));
        let handle = Builder::new()
            .name("mrcnic-ctl".into())
            .spawn(move || control(&clock, wait.recv().unwrap_or_default(), &asked, &ended, &sleeps))
            .map_err(|e| Error::Failure(format!("the control thread can't be started: {e}")))?;
        Ok(ControlThread { handle: Some(handle), stop, asleep, asks, nics: Some(nics) })
    }

    /// What wakes the thread, for [`super::link`].
    #[must_use]
    pub fn waker(&self) -> Option<Waker> {
        self.handle.as_ref().map(|handle| Waker::new(handle.thread().clone(), Arc::clone(&self.asleep)))
    }

    /// What passes an operator's requests on.
    #[must_use]
    pub fn operator(&self) -> Option<Operator> {
        self.waker().map(|waker| Operator::new(self.asks.clone(), waker))
    }

    /// Hands over the NICs; once.
    pub fn control(&mut self, nics: Vec<ControlledNic>) {
        if let Some(sender) = self.nics.take() {
            // A thread that is gone needs none.
            let _ = sender.send(nics);
        }
    }

    fn end(&mut self) -> Option<ControlReport> {
        self.stop.store(true, Ordering::Relaxed);
        self.nics = None;
        let handle = self.handle.take()?;
        handle.thread().unpark();
        handle.join().ok()
    }

    /// Ends the thread, and returns what it did; `None` when it died.
    #[must_use]
    pub fn join(mut self) -> Option<ControlReport> {
        self.end()
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.end();
    }
}

fn control(
    clock: &dyn Fn() -> Ns,
    mut nics: Vec<ControlledNic>,
    asked: &mpsc::Receiver<Ask>,
    stop: &AtomicBool,
    asleep: &AtomicBool,
) -> ControlReport {
    let mut lateness = Histogram::new_with_bounds(1, LATENESS_MAX, 3).expect("constant bounds");
    let mut desk = Desk::default();
    while !stop.load(Ordering::Relaxed) {
        // Before it looks: an event that comes after the look finds the flag set, and wakes it from the sleep to come.
        asleep.store(nics.iter().all(|nic| nic.controller.next_wake().is_none()), Ordering::SeqCst);
        let now = clock();
        let mut next: Option<Ns> = None;
        while let Ok(ask) = asked.try_recv() {
            desk.take(ask, &mut nics);
        }
        for (n, ControlledNic { controller, workers, .. }) in nics.iter_mut().enumerate() {
            if let Some(due) = controller.next_wake().filter(|&due| due <= now) {
                lateness.saturating_record(now.since(due));
            }
            turn(now, controller, workers, |lists| desk.listed(n, lists));
            next = [next, controller.next_wake()].into_iter().flatten().min();
        }
        let wait = next.map_or(LOOK, |next| Duration::from_nanos(next.since(clock())));
        std::thread::park_timeout(wait.min(LOOK));
    }
    ControlReport { probes: nics.iter().map(|nic| nic.controller.probes()).sum(), lateness }
}

/// Hears what happened, lets time pass, and passes commands on.
fn turn(now: Ns, controller: &mut Controller, workers: &[ControlEnd], mut listed: impl FnMut(Vec<EvList>)) {
    for worker in workers {
        while let Some(event) = worker.poll() {
            match event {
                Event::Listed(lists) => listed(lists),
                event => controller.on_event(now, event),
            }
        }
    }
    controller.on_time(now);
    while let Some(command) = controller.poll_command() {
        let refused = match command {
            Command::Probe { destination, .. } | Command::Deny { destination: Some(destination), .. } => {
                ask_owner(workers, destination, command)
            }
            // Asked twice, a worker does the same again.
            Command::Report | Command::List | Command::Deny { destination: None, .. } => {
                workers.iter().all(|worker| worker.ask(command).is_ok()).then_some(()).ok_or(command)
            }
        };
        if let Err(command) = refused {
            controller.put_back(command);
            break;
        }
    }
}

/// Asks the worker that owns a destination.
fn ask_owner(workers: &[ControlEnd], destination: IpAddr, command: Command) -> Result<(), Command> {
    workers.get(owner(destination, workers.len())).map_or(Ok(()), |worker| worker.ask(command))
}

/// Requests of operators, and those that wait for the workers.
#[derive(Default)]
struct Desk {
    lists: Vec<Listing>,
}

/// A list that is being gathered: which NIC's, from how many workers still, for whom.
struct Listing {
    nic: usize,
    missing: usize,
    lists: Vec<EvList>,
    answer: mpsc::Sender<Value>,
}

impl Desk {
    fn take(&mut self, Ask { request, answer }: Ask, nics: &mut [ControlledNic]) {
        // Whoever asked may have gone: that is no matter of ours.
        match self.reply(request, &answer, nics) {
            Ok(None) => {}
            Ok(Some(reply)) => drop(answer.send(reply)),
            Err(why) => drop(answer.send(refusal(why))),
        }
    }

    fn reply(
        &mut self,
        request: Request,
        answer: &mpsc::Sender<Value>,
        nics: &mut [ControlledNic],
    ) -> Result<Option<Value>, String> {
        match request {
            Request::Status {} => Ok(Some(json!({ "ok": true, "nics": nics.iter().map(status).collect::<Vec<_>>() }))),
            Request::EvList { nic } => {
                let at = find(nics, &nic)?;
                let missing = nics[at].workers.iter().filter(|worker| worker.ask(Command::List).is_ok()).count();
                if missing < nics[at].workers.len() {
                    return Err("the ring to a worker is full; try again".into());
                }
                self.lists.push(Listing { nic: at, missing, lists: Vec::new(), answer: answer.clone() });
                Ok(None)
            }
            Request::EvDeny { nic, destination, ev, denied } => {
                let at = find(nics, &nic)?;
                let changed = nics[at].controller.deny(destination, ev, denied);
                Ok(Some(json!({ "ok": true, "changed": changed })))
            }
            Request::Probe { nic, destination, ev } => {
                let at = find(nics, &nic)?;
                let command = Command::Probe { destination, ev };
                ask_owner(&nics[at].workers, destination, command)
                    .map_err(|_| "the ring to the worker is full; try again".to_owned())?;
                Ok(Some(json!({ "ok": true })))
            }
        }
    }

    /// A worker of NIC `n` told its values.
    fn listed(&mut self, n: usize, lists: Vec<EvList>) {
        let Some(at) = self.lists.iter().position(|listing| listing.nic == n) else { return };
        let listing = &mut self.lists[at];
        listing.lists.extend(lists);
        listing.missing -= 1;
        if listing.missing == 0 {
            let Listing { lists, answer, .. } = self.lists.remove(at);
            let destinations: Vec<Value> = lists.iter().map(list_json).collect();
            let _ = answer.send(json!({ "ok": true, "destinations": destinations }));
        }
    }
}

fn find(nics: &[ControlledNic], name: &str) -> Result<usize, String> {
    nics.iter().position(|nic| nic.name == name).ok_or_else(|| {
        let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
        format!("there is no NIC {name:?}; there are: {}", names.join(", "))
    })
}

fn status(nic: &ControlledNic) -> Value {
    let denied = nic.controller.denied().map(|(destination, ev)| json!({ "destination": destination, "ev": ev }));
    let waited = |of: fn(&super::LinkStats) -> &AtomicU64| {
        nic.workers.iter().map(|worker| of(worker.stats()).load(Ordering::Relaxed)).sum::<u64>()
    };
    json!({
        "name": nic.name,
        "workers": nic.workers.len(),
        "probes": nic.controller.probes(),
        "denied": denied.collect::<Vec<_>>(),
        "commands_waited": waited(|stats| &stats.commands_waited),
        "events_waited": waited(|stats| &stats.events_waited),
    })
}

fn list_json(list: &EvList) -> Value {
    let state = |state| match state {
        EvState::Good => "good",
        EvState::Skip => "skip",
        EvState::AssumedBad => "assumed_bad",
        EvState::Denied => "denied",
    };
    let evs = list.evs.iter().map(|(profile, report)| {
        let mut entry = json!({
            "ev": report.ev.value,
            "port": report.ev.port,
            "state": state(report.state),
            "port_out": report.port_out,
            "sent": report.sent,
        });
        if let Some(profile) = profile {
            entry["profile"] = json!(profile);
        }
        if let Some(segment) = report.ev.segment {
            entry["segment"] = json!(segment);
        }
        entry
    });
    json!({ "destination": list.destination, "evs": evs.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::super::{PROBE_PERIOD, link};
    use super::*;
    use dataplane::nic::{EvEvent, Nic, NicParams, PortInfo};
    use dataplane::wire::MacAddr;
    use std::net::Ipv4Addr;
    use std::time::Instant;

    #[test]
    fn commands_go_to_the_worker_that_owns_the_destination_and_wait_while_its_ring_is_full() {
        let ends: Vec<_> = (0..2).map(|_| link(None)).collect();
        let workers: Vec<ControlEnd> = ends.iter().map(|(_, control)| control.clone()).collect();
        let mut controller = Controller::new(PROBE_PERIOD);
        let peer = IpAddr::from(Ipv4Addr::new(10, 0, 0, 3));
        for ev in 0..300 {
            controller.deny(Some(peer), ev, true);
        }
        turn(Ns::ZERO, &mut controller, &workers, |_| ());
        let port = PortInfo { mac: MacAddr::default(), max_frame: 9000 };
        let mut nic = Nic::new(NicParams::default(), &[port]).unwrap();
        let [(mut first, _), (mut second, _)] = <[_; 2]>::try_from(ends).unwrap();
        assert!(!first.exchange(Ns::ZERO, &mut nic), "the other worker owns 10.0.0.3");
        let turns = std::iter::from_fn(|| second.exchange(Ns::ZERO, &mut nic).then_some(())).count();
        assert_eq!(turns, 256 / 32);
        turn(Ns::ZERO, &mut controller, &workers, |_| ());
        assert!(second.exchange(Ns::ZERO, &mut nic), "what had found no room came now");
        assert_eq!(controller.poll_command(), None);
    }

    #[test]
    fn the_thread_asks_for_probes_of_what_it_is_told_and_ends_when_told_to() {
        let began = Instant::now();
        let mut thread = ControlThread::start(move || Ns(began.elapsed().as_nanos() as u64)).unwrap();
        let (_worker, end) = link(thread.waker());
        let mut controller = Controller::new(PROBE_PERIOD);
        let peer = IpAddr::from(Ipv4Addr::LOCALHOST);
        let bad = EvEvent { at: Ns::ZERO, destination: peer, ev: 300, state: EvState::AssumedBad, dropped: 0 };
        controller.on_event(Ns::ZERO, Event::Ev(bad));
        thread.control(vec![ControlledNic { name: "a".into(), controller, workers: vec![end] }]);
        std::thread::sleep(Duration::from_millis(30));
        let report = thread.join().unwrap();
        assert!(report.probes > 0);
        assert_eq!(report.lateness.len(), report.probes);
    }
}

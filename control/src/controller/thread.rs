//! The control thread of a live run: it sleeps until a worker has something to tell, or a probe is due.

use super::desk::Desk;
use super::fabric::{FabricEnd, FabricEvent};
use super::journal::Journal;
use super::member::Member;
use super::operator::{Ask, Operator};
use super::{ControlledNic, Waker};
use crate::error::Error;
use dataplane::Ns;
use dataplane::fabric::PortState;
use dataplane::nic::PortId;
use dataplane::time::MS;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Without anything to do the thread looks this often: at the links of ports, and whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// A thread that comes by itself within so many ns need not be woken.
const SOON_NS: u64 = MS;
/// Longest lateness that is told apart, in ns.
const LATENESS_MAX: u64 = 10_000_000_000;

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
    journal: Arc<Journal>,
    nics: Option<mpsc::Sender<Charge>>,
}

/// What a control thread is in charge of.
#[derive(Debug, Default)]
struct Charge {
    nics: Vec<ControlledNic>,
    fabric: Option<FabricEnd>,
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
        let journal: Arc<Journal> = Arc::default();
        let (ended, sleeps, kept) = (Arc::clone(&stop), Arc::clone(&asleep), Arc::clone(&journal));
        let handle = Builder::new()
            .name("mrcnic-ctl".into())
            .spawn(move || control(&clock, wait.recv().unwrap_or_default(), &asked, &kept, &ended, &sleeps))
            .map_err(|e| Error::Failure(format!("the control thread can't be started: {e}")))?;
        Ok(ControlThread { handle: Some(handle), stop, asleep, asks, journal, nics: Some(nics) })
    }

    /// What wakes the thread, for [`super::link`].
    #[must_use]
    pub fn waker(&self) -> Option<Waker> {
        self.handle.as_ref().map(|handle| Waker::new(handle.thread().clone(), Arc::clone(&self.asleep)))
    }

    /// What passes an operator's requests on.
    #[must_use]
    pub fn operator(&self) -> Option<Operator> {
        self.waker().map(|waker| Operator::new(self.asks.clone(), waker, Arc::clone(&self.journal)))
    }

    /// Hands over the NICs; once.
    pub fn control(&mut self, nics: Vec<ControlledNic>) {
        self.charge(Charge { nics, fabric: None });
    }

    /// Hands over NICs and the fabric between them, whose NIC n is the n-th; once. The fabric says which links of ports are down.
    pub fn control_over(&mut self, nics: Vec<ControlledNic>, fabric: FabricEnd) {
        self.charge(Charge { nics, fabric: Some(fabric) });
    }

    fn charge(&mut self, charge: Charge) {
        if let Some(sender) = self.nics.take() {
            // A thread that is gone needs none.
            let _ = sender.send(charge);
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
    Charge { nics, fabric }: Charge,
    asked: &mpsc::Receiver<Ask>,
    journal: &Arc<Journal>,
    stop: &AtomicBool,
    asleep: &AtomicBool,
) -> ControlReport {
    let mut lateness = Histogram::new_with_bounds(1, LATENESS_MAX, 3).expect("constant bounds");
    let mut desk = Desk::new(Arc::clone(journal), fabric.clone());
    let names: Vec<Arc<str>> = nics.iter().map(|nic| nic.name.as_str().into()).collect();
    let mut members: Vec<Member> = nics.into_iter().map(Member::new).collect();
    let mut looked: Option<Ns> = None;
    tracing::info!(nics = ?names, fabric = fabric.is_some(), "the control thread runs");
    while !stop.load(Ordering::Relaxed) {
        let now = clock();
        // Before it looks: an event that comes after the look finds the flag set, and wakes it from the sleep to come.
        let soon = members.iter().any(|member| member.next_wake().is_some_and(|at| at <= now + SOON_NS));
        asleep.store(!soon, Ordering::SeqCst);
        while let Ok(ask) = asked.try_recv() {
            desk.take(now, ask, &mut members);
        }
        if let Some(fabric) = &fabric {
            hear(now, fabric, &mut members, &mut desk);
        }
        let look = looked.is_none_or(|at| now.since(at) >= LOOK.as_nanos() as u64);
        if look {
            looked = Some(now);
        }
        let mut next: Option<Ns> = None;
        for (n, member) in members.iter_mut().enumerate() {
            if look {
                member.look_at_links(now);
            }
            if let Some(due) = member.nic.controller.next_probe().filter(|&due| due <= now) {
                lateness.saturating_record(now.since(due));
            }
            member.turn(now, |worker, event| desk.told(now, n, worker, event));
            while let Some(notice) = member.nic.controller.poll_notice() {
                journal.push(&names[n], notice);
            }
            next = [next, member.next_wake()].into_iter().flatten().min();
        }
        desk.give_up(now);
        desk.finish_surveys(now, &members);
        let wait = next.map_or(LOOK, |next| Duration::from_nanos(next.since(clock())));
        std::thread::park_timeout(wait.min(LOOK));
    }
    let probes = members.iter().map(|member| member.nic.controller.probes()).sum();
    tracing::debug!(probes, "the control thread ends");
    ControlReport { probes, lateness }
}

/// Hears what the fabric tells.
fn hear(now: Ns, fabric: &FabricEnd, members: &mut [Member], desk: &mut Desk) {
    while let Some(event) = fabric.poll() {
        match event {
            FabricEvent::Report(report) => desk.fabric_reported(&report),
            FabricEvent::Port(PortState { nic, port, up }) => {
                if let Some(member) = members.get_mut(nic.0 as usize) {
                    member.nic.controller.set_link(now, PortId(port), up);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Controller, Event, PROBE_PERIOD, link};
    use super::*;
    use dataplane::nic::{EvEvent, EvState, Whose};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Instant;

    #[test]
    fn the_thread_asks_for_probes_of_what_it_is_told_and_ends_when_told_to() {
        let began = Instant::now();
        let mut thread = ControlThread::start(move || Ns(began.elapsed().as_nanos() as u64)).unwrap();
        let (_worker, end) = link(thread.waker());
        let mut controller = Controller::new(PROBE_PERIOD, 1, 1);
        let peer = IpAddr::from(Ipv4Addr::LOCALHOST);
        let bad = EvEvent {
            at: Ns::ZERO,
            destination: peer,
            whose: Whose::Of(None),
            ev: 300,
            state: EvState::AssumedBad,
            dropped: 0,
        };
        controller.on_event(Ns::ZERO, 0, Event::Ev(bad));
        let (workers, engines, links) = (vec![end], Vec::new(), Vec::new());
        let vicinity = None;
        thread.control(vec![ControlledNic { name: "a".into(), controller, workers, engines, links, vicinity }]);
        std::thread::sleep(Duration::from_millis(30));
        let report = thread.join().unwrap();
        assert!(report.probes > 0);
        assert_eq!(report.lateness.len(), report.probes);
    }
}

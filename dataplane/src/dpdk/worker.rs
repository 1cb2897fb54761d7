//! Worker threads: each polls its lanes, and never waits.

use core::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use dpdk_sys as sys;

use super::clock::Clock;
use super::eal::Eal;
use super::error::{Error, rte_errno, strerror};
use super::fabric_lane::FabricLane;
use super::lane::{App, Engine, Lane, Poll};

/// One worker to start.
#[derive(Debug)]
pub struct Worker<E, A> {
    /// The core to run on; `None` leaves it to the operating system. Workers may share one.
    pub core: Option<usize>,
    /// What it drives.
    pub lanes: Vec<Lane<E, A>>,
    /// A fabric, polled after the lanes in every turn. Its worker runs until it is told to stop: others need the fabric.
    pub fabric: Option<FabricLane>,
}

impl<E, A> Worker<E, A> {
    /// A worker without a fabric.
    #[must_use]
    pub const fn new(core: Option<usize>, lanes: Vec<Lane<E, A>>) -> Worker<E, A> {
        Worker { core, lanes, fabric: None }
    }
}

/// How workers behave.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// After so many turns without work the core is offered to others, so that a control thread or a second worker on the
    /// same core gets its turn. 0 never does.
    pub idle_polls: u32,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions { idle_polls: 64 }
    }
}

/// Running workers. When dropped they are stopped, and waited for.
#[derive(Debug)]
pub struct Workers<E, A> {
    threads: Vec<JoinHandle<Vec<Lane<E, A>>>>,
    stop: Arc<AtomicBool>,
}

impl<E: Engine + 'static, A: App<E> + 'static> Workers<E, A> {
    /// Starts workers, named `mrcnic-w0` and so on. They run until `stop` is set, or until all their applications are done;
    /// a worker that dies sets `stop`.
    ///
    /// # Errors
    /// [`Error::NoCore`], or [`Error::Worker`]; none runs then.
    pub fn spawn(
        eal: &Eal,
        clock: Clock,
        workers: Vec<Worker<E, A>>,
        options: WorkerOptions,
        stop: Arc<AtomicBool>,
    ) -> Result<Workers<E, A>, Error> {
        for core in workers.iter().filter_map(|worker| worker.core) {
            eal.check_core(core)?;
        }
        let mut running = Workers { threads: Vec::with_capacity(workers.len()), stop: Arc::clone(&stop) };
        let (started, starts) = mpsc::channel();
        for (i, worker) in workers.into_iter().enumerate() {
            let (started, stop) = (started.clone(), Arc::clone(&stop));
            let thread = Builder::new().name(format!("mrcnic-w{i}")).spawn(move || {
                // The lanes go first, while the thread is still known to DPDK.
                let _dpdk = match enter(worker.core) {
                    Ok(registered) => registered,
                    Err(why) => {
                        let _ = started.send(Err(Error::Worker { worker: format!("mrcnic-w{i}"), why }));
                        return worker.lanes;
                    }
                };
                let _ = started.send(Ok(()));
                drop(started);
                let _alarm = Alarm(&stop);
                let (mut lanes, mut fabric) = (worker.lanes, worker.fabric);
                run(&mut lanes, fabric.as_mut(), clock, options, &stop);
                lanes
            });
            match thread {
                Ok(thread) => running.threads.push(thread),
                // Those that run are stopped by the drop.
                Err(e) => return Err(Error::Worker { worker: format!("mrcnic-w{i}"), why: e.to_string() }),
            }
        }
        drop(started);
        for start in starts {
            start?;
        }
        Ok(running)
    }

    /// Tells the workers to stop after the turn they are in.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// True when all workers have ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the workers to end, and returns their lanes in the order of the workers.
    ///
    /// # Errors
    /// [`Error::Panicked`] when one died; the others were stopped.
    pub fn join(mut self) -> Result<Vec<Vec<Lane<E, A>>>, Error> {
        let mut lanes = Vec::with_capacity(self.threads.len());
        let mut fault = None;
        for (i, thread) in core::mem::take(&mut self.threads).into_iter().enumerate() {
            match thread.join() {
                Ok(of_worker) => lanes.push(of_worker),
                Err(panic) => {
                    let message = message(panic.as_ref());
                    fault = fault.or(Some(Error::Panicked { worker: format!("mrcnic-w{i}"), message }));
                }
            }
        }
        fault.map_or(Ok(lanes), Err)
    }
}

impl<E, A> Drop for Workers<E, A> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.stop.store(true, Ordering::Relaxed);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it left no message").to_owned()
}

/// Stops all workers when the thread panics: a peer would wait for it for ever.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// This thread is known to DPDK, which gives it caches of its own.
struct Registered;

fn enter(core: Option<usize>) -> Result<Registered, String> {
    if let Some(id) = core
        && !core_affinity::set_for_current(core_affinity::CoreId { id })
    {
        return Err(format!("it could not be bound to core {id}"));
    }
    // SAFETY: EAL is up, and stays so; the thread is not registered yet.
    if unsafe { sys::rte_thread_register() } != 0 {
        return Err(format!("DPDK did not take the thread: {}", strerror(rte_errno())));
    }
    Ok(Registered)
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: registered by this thread.
        unsafe { sys::rte_thread_unregister() };
    }
}

fn run<E: Engine, A: App<E>>(
    lanes: &mut [Lane<E, A>],
    mut fabric: Option<&mut FabricLane>,
    clock: Clock,
    options: WorkerOptions,
    stop: &AtomicBool,
) {
    let mut idle = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        let (mut busy, mut done) = (false, fabric.is_none());
        for lane in lanes.iter_mut() {
            let poll = lane.turn(now);
            busy |= poll == Poll::Busy;
            done &= poll == Poll::Done;
        }
        if let Some(fabric) = &mut fabric {
            // Its links keep time by the clock: a lane's turn takes as long as many frames do.
            busy |= fabric.turn(clock.now()) == Poll::Busy;
        }
        if done {
            return;
        }
        if busy {
            idle = 0;
        } else {
            // The other thread of the core, if it has one, gets what an idle turn does not use.
            core::hint::spin_loop();
            idle += 1;
            if idle == options.idle_polls {
                idle = 0;
                std::thread::yield_now();
            }
        }
    }
    if let Some(fabric) = fabric {
        fabric.end();
    }
}

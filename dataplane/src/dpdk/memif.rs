//! `net_memif` wants some care: a client does not start before its server is there and does not come back by itself, and
//! the driver's own thread handles a peer that leaves at the same time as we do.

use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use dpdk_sys as sys;

use super::log::capture;

/// How often a client tries to reach its server.
const RETRY: Duration = Duration::from_millis(100);

/// Keeps the workers away from a client's port while it is stopped or started.
#[derive(Debug)]
pub(super) struct Gate {
    open: AtomicBool,
    /// A worker is within: two for each queue, receive and transmit.
    within: Vec<AtomicBool>,
    tried: Mutex<Instant>,
}

/// A worker within the gate.
pub(super) struct Within<'a>(&'a AtomicBool);

impl Drop for Within<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Gate {
    /// A gate, shut, for so many queues.
    pub(super) fn new(queues: u16) -> Gate {
        let within = (0..2 * usize::from(queues)).map(|_| AtomicBool::new(false)).collect();
        Gate { open: AtomicBool::new(false), within, tried: Mutex::new(Instant::now()) }
    }

    /// Lets the one user of a queue's direction in, while the port runs.
    #[inline]
    pub(super) fn enter(&self, queue: u16, transmit: bool) -> Option<Within<'_>> {
        let within = self.within.get(2 * usize::from(queue) + usize::from(transmit))?;
        // Either this sees the gate shut, or who shuts it sees this within.
        within.store(true, Ordering::SeqCst);
        let inside = Within(within);
        self.open.load(Ordering::SeqCst).then_some(inside)
    }

    /// Starts the port, or starts it again, unless that was tried just now.
    pub(super) fn restart(&self, port: u16) {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.elapsed() >= RETRY {
            self.shut();
            self.start(port);
            *tried = Instant::now();
        }
    }

    /// Starts the port; without its server that fails, and is tried again later.
    pub(super) fn start(&self, port: u16) {
        let (code, _) = capture(|| {
            on_interrupt_thread(move || {
                // SAFETY: the port is configured, and no worker is within. To stop one that does not run is no harm.
                unsafe {
                    sys::rte_eth_dev_stop(port);
                    sys::rte_eth_dev_start(port)
                }
            })
        });
        if code == 0 {
            self.open.store(true, Ordering::SeqCst);
        }
    }

    fn shut(&self) {
        self.open.store(false, Ordering::SeqCst);
        while self.within.iter().any(|within| within.load(Ordering::SeqCst)) {
            std::thread::yield_now();
        }
    }
}

/// Runs `step` on DPDK's own thread, which also handles the messages of peers, so that the two don't meet; waits for it.
pub(super) fn on_interrupt_thread<R: Send + 'static>(step: impl FnOnce() -> R + Send + 'static) -> R {
    type Job = Box<dyn FnOnce() + Send>;
    extern "C" fn run(job: *mut c_void) {
        // SAFETY: made below, and run once.
        let job = unsafe { Box::from_raw(job.cast::<Job>()) };
        job();
    }
    let (to, from) = mpsc::channel();
    let job: Job = Box::new(move || {
        let _ = to.send(step());
    });
    let job = Box::into_raw(Box::new(job)).cast::<c_void>();
    // SAFETY: EAL is up; the job outlives the call, which frees it.
    if unsafe { sys::rte_eal_alarm_set(1, Some(run), job) } != 0 {
        // No timer to be had: here, then.
        run(job);
    }
    from.recv().expect("the job sends its result before it ends")
}

//! Records of living workers: what they see goes over rings to a thread that writes it. Nobody waits: what finds no room is counted.

use super::recorder::{RecordCounts, RecordSpec, Recorder};
use super::rows::Node;
use super::tap::{Outlet, RecordTap};
use crate::error::Error;
use crossbeam::queue::ArrayQueue;
use dataplane::Ns;
use dataplane::nic::{FrameBytes, LifeEvent, Nic, NicSample, Seen};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Packets and events that a worker's ring holds.
const RING: usize = 16_384;
/// Packets of a worker whose bytes wait to be written.
const BUFFERS: usize = 2_048;
/// Samples that a worker's ring holds.
const SAMPLES: usize = 64;
/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(1);
/// How often what is held back is written, in looks.
const LOOKS_A_FLUSH: u32 = 200;

/// The time of day when a clock stood at 0 that shows `now`.
fn epoch(now: Ns) -> Duration {
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    today.saturating_sub(Duration::from_nanos(now.0))
}

/// What waits to be written.
enum Item {
    Packet {
        seen: Seen,
        row: bool,
        /// Its bytes, and how many of them count.
        kept: Option<(Box<[u8]>, usize)>,
    },
    Event(LifeEvent),
}

/// The rings of a worker.
struct Rings {
    items: ArrayQueue<Item>,
    /// Buffers to be used again: the worker allocates none.
    spare: ArrayQueue<Box<[u8]>>,
    samples: ArrayQueue<NicSample>,
    lost_packets: AtomicU64,
    lost_events: AtomicU64,
    lost_samples: AtomicU64,
}

/// The worker's end, for packets and events.
pub(super) struct RingEnd(Arc<Rings>);

impl RingEnd {
    pub(super) fn packet(&self, seen: &Seen, row: bool, kept: Option<usize>, frame: &dyn FrameBytes) {
        let buffer = kept.and_then(|len| Some((self.0.spare.pop()?, len)));
        if kept.is_some() && buffer.is_none() && !row {
            self.0.lost_packets.fetch_add(1, Relaxed);
            return;
        }
        let missed = kept.is_some() && buffer.is_none();
        let kept = buffer.map(|(mut buffer, len)| {
            let len = len.min(buffer.len());
            let copied = frame.copy_to(&mut buffer[..len]);
            (buffer, copied)
        });
        let pushed = self.0.items.push(Item::Packet { seen: *seen, row, kept });
        if let Err(Item::Packet { kept: Some((buffer, _)), .. }) = pushed {
            let _ = self.0.spare.push(buffer);
            self.0.lost_packets.fetch_add(1, Relaxed);
        } else if pushed.is_err() || missed {
            self.0.lost_packets.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn event(&self, event: &LifeEvent) {
        if self.0.items.push(Item::Event(*event)).is_err() {
            self.0.lost_events.fetch_add(1, Relaxed);
        }
    }
}

/// What a worker carries for the records: it is to be attached to its engine, and then called once a turn.
pub struct WorkerRecords {
    tap: Option<RecordTap>,
    rings: Arc<Rings>,
    /// Time between samples in ns, if there are any.
    every: Option<u64>,
    next: Ns,
}

impl WorkerRecords {
    /// Puts its tap into an engine, before it opens QPs.
    pub fn attach(&mut self, nic: &mut Nic) {
        if let Some(tap) = self.tap.take() {
            nic.set_tap(Some(Box::new(tap)));
        }
    }

    /// One turn of the worker: takes a sample, when its time has come.
    #[inline]
    pub fn turn(&mut self, now: Ns, nic: &mut Nic) {
        nic.tell_time(now);
        if self.every.is_some() && now >= self.next {
            self.sample(now, nic);
        }
    }

    /// The worker ends: what is left of the last interval has a row, too.
    pub fn end(&mut self, now: Ns, nic: &mut Nic) {
        if self.every.is_some() && self.rings.samples.push(nic.sample(now)).is_err() {
            self.rings.lost_samples.fetch_add(1, Relaxed);
        }
    }

    #[cold]
    fn sample(&mut self, now: Ns, nic: &mut Nic) {
        let Some(every) = self.every else { return };
        // The first row comes after one interval; a worker that was kept from its core leaves rows out.
        let first = self.next == Ns::ZERO;
        self.next = Ns((now.0 / every + 1) * every);
        if !first && self.rings.samples.push(nic.sample(now)).is_err() {
            self.rings.lost_samples.fetch_add(1, Relaxed);
        }
    }
}

/// A thread that writes records. It ends when it is told to, or when this is dropped.
pub struct Recording {
    handle: Option<JoinHandle<Result<RecordCounts, Error>>>,
    stop: Arc<AtomicBool>,
}

impl Recording {
    /// The same where anything is to be recorded; a clock shows `now`.
    ///
    /// # Errors
    /// As [`Recording::start`].
    pub fn of(
        spec: &RecordSpec,
        nodes: Vec<(Node, usize)>,
        max_frame: usize,
        now: Ns,
    ) -> Result<(Option<Recording>, Vec<Vec<WorkerRecords>>), Error> {
        if !spec.wants_anything() {
            return Ok((None, Vec::new()));
        }
        Recording::start(spec, nodes, max_frame, epoch(now)).map(|(recording, ends)| (Some(recording), ends))
    }

    /// Makes the files, and starts the thread, for NICs with so many workers each. `max_frame` is the longest frame in bytes, and `epoch` the
    /// time of day when the workers' clock stood at 0. What comes back is for the workers, NIC by NIC.
    ///
    /// # Errors
    /// [`Error::Usage`] names what cannot be written; [`Error::Failure`] when there can be no more threads.
    pub fn start(
        spec: &RecordSpec,
        nodes: Vec<(Node, usize)>,
        max_frame: usize,
        epoch: Duration,
    ) -> Result<(Recording, Vec<Vec<WorkerRecords>>), Error> {
        let totals = Arc::default();
        let worker = |n: usize, id: u32| {
            let rings = Arc::new(rings(spec, max_frame));
            let outlet = Outlet::Ring(RingEnd(Arc::clone(&rings)));
            let tap = RecordTap::new(spec, n, id, &totals, outlet);
            WorkerRecords { tap, rings, every: spec.stats_ns(), next: Ns::ZERO }
        };
        let workers: Vec<Vec<WorkerRecords>> = nodes
            .iter()
            .enumerate()
            .map(|(n, (node, workers))| (0..*workers).map(|_| worker(n, node.id)).collect())
            .collect();
        let rings: Vec<(usize, usize, Arc<Rings>)> = workers
            .iter()
            .enumerate()
            .flat_map(|(n, of_nic)| of_nic.iter().enumerate().map(move |(k, end)| (n, k, Arc::clone(&end.rings))))
            .collect();
        let recorder = Recorder::create(spec, nodes, epoch)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let handle = Builder::new()
            .name("mrcnic-rec".into())
            .spawn(move || record(recorder, &rings, &ended))
            .map_err(|e| Error::Failure(format!("the thread of the records can't be started: {e}")))?;
        Ok((Recording { handle: Some(handle), stop }, workers))
    }

    /// Ends the records, once the workers have stopped: what waits is still written.
    ///
    /// # Errors
    /// [`Error::Failure`], when something could not be written.
    pub fn finish(mut self) -> Result<RecordCounts, Error> {
        self.end().unwrap_or_else(|| Err(Error::Failure("the thread of the records died".into())))
    }

    fn end(&mut self) -> Option<Result<RecordCounts, Error>> {
        self.stop.store(true, Relaxed);
        let handle = self.handle.take()?;
        handle.thread().unpark();
        handle.join().ok()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        match self.end() {
            Some(Ok(counts)) => {
                if let Some(complaint) = counts.complaint() {
                    tracing::warn!("{complaint}");
                }
            }
            Some(Err(e)) => tracing::error!("{e}"),
            None => {}
        }
    }
}

fn rings(spec: &RecordSpec, max_frame: usize) -> Rings {
    let snaplen = spec.capture.as_ref().map(|capture| max_frame.min(capture.snaplen as usize));
    let spare = ArrayQueue::new(BUFFERS);
    if let Some(len) = snaplen {
        (0..BUFFERS).for_each(|_| drop(spare.push(vec![0; len].into_boxed_slice())));
    }
    Rings {
        items: ArrayQueue::new(RING),
        spare,
        samples: ArrayQueue::new(SAMPLES),
        lost_packets: AtomicU64::new(0),
        lost_events: AtomicU64::new(0),
        lost_samples: AtomicU64::new(0),
    }
}

fn record(
    mut recorder: Recorder,
    rings: &[(usize, usize, Arc<Rings>)],
    stop: &AtomicBool,
) -> Result<RecordCounts, Error> {
    let mut looks = 0;
    loop {
        // Before the rings are looked at: what was pushed before the stop is written.
        let ends = stop.load(Relaxed);
        for (n, worker, rings) in rings {
            drain(&mut recorder, *n, *worker, rings);
        }
        let lost = |of: fn(&Rings) -> &AtomicU64| rings.iter().map(|(.., rings)| of(rings).load(Relaxed)).sum();
        recorder.lost(lost(|r| &r.lost_packets), lost(|r| &r.lost_events), lost(|r| &r.lost_samples));
        if ends {
            return recorder.finish();
        }
        looks += 1;
        if looks == LOOKS_A_FLUSH {
            looks = 0;
            recorder.flush();
        }
        std::thread::park_timeout(LOOK);
    }
}

fn drain(recorder: &mut Recorder, n: usize, worker: usize, rings: &Rings) {
    while let Some(sample) = rings.samples.pop() {
        recorder.sample(n, worker, sample);
    }
    // No more than a ring full at a time: others have something to write, too.
    for _ in 0..RING {
        match rings.items.pop() {
            None => break,
            Some(Item::Event(event)) => recorder.event(n, &event),
            Some(Item::Packet { seen, row, kept }) => {
                let bytes = kept.as_ref().map(|(buffer, len)| &buffer[..*len]);
                recorder.packet(n, &seen, row, bytes);
                if let Some((buffer, _)) = kept {
                    let _ = rings.spare.push(buffer);
                }
            }
        }
    }
}

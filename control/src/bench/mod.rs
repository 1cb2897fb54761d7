//! `mrcnic bench`: two NICs, real ports, every byte checked.
//!
//! The requester runs as a hook on its worker, so that no third thread is busy; the control thread sleeps between its looks.

mod anchor;
mod app;
mod fabric;
mod null;
mod receiver;
mod report;
mod setup;
mod side;

pub use anchor::{Anchors, Bare};
pub use fabric::{FabricPart, PathEv, planes, profiles};
pub use report::{Latency, PortCounters, Report, SizeResult};

use crate::controller::ProfileSpec;
use crate::controller::metrics::MetricsAddress;
use crate::error::Error;
use crate::records::{RecordCounts, RecordSpec, Recording};
use anchor::Place;
use app::{Command, Mailbox, Measured};
use dataplane::congestion::profile::CcConfig;
use dataplane::dpdk::{Counter, Eal, Impairments, Lane, LaneStats, Port, PortSpec};
use dataplane::fabric::Plan;
use dataplane::memory::Buffer;
use dataplane::nic::NicParams;
use fabric::Between;
use setup::Running;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the control thread looks.
const LOOK: Duration = Duration::from_millis(20);
/// After an interrupt what is in flight gets so long to arrive.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes of the Write whose time is measured with no other in flight.
const WRITE_UNLOADED: usize = 64;

/// What joins the two NICs.
#[derive(Clone, Debug)]
pub enum Link {
    /// A pair of `net_ring` ports.
    Ring,
    /// One port that swallows what is sent: a bench of the transmit path, and of the receive path that drops.
    Null(PortSpec),
    /// Two ports that reach each other.
    Ports(PortSpec, PortSpec),
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Op {
    /// A Write: the target's application hears nothing
    Write,
    /// A Write with Immediate: it completes a receive of the target's application
    #[value(name = "write_imm")]
    WriteImm,
}

impl Op {
    /// The name that options and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Op::Write => "write",
            Op::WriteImm => "write_imm",
        }
    }
}

/// How packets are spread over paths, where no EV profile says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Spraying {
    /// Over UDP source ports that the NIC draws, and all its ports
    Default,
    /// Not at all: each QP has its own UDP source port, from 49152 on, and its own port
    None,
}

/// A fabric between the NICs.
#[derive(Clone, Debug)]
pub struct FabricOptions {
    /// The fabric; it has two NICs, and as many planes as they have ports.
    pub plan: Plan,
    /// Which value of the EV profiles takes which path, where that is known.
    pub paths: Vec<PathEv>,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// What each message is.
    pub op: Op,
    /// Message sizes in bytes, in this order.
    pub sizes: Vec<usize>,
    /// Time to send at each size.
    pub duration: Duration,
    /// QPs of each requester.
    pub qps: usize,
    /// Requests in flight on each QP.
    pub depth: usize,
    /// Requests that a QP gets before it is the next one's turn.
    pub post_list: usize,
    /// The ports.
    pub link: Link,
    /// Ports of each NIC, 1 to 8, each in a plane of its own; more than one over [`Link::Ring`] only.
    pub planes: u8,
    /// How packets are spread over paths.
    pub spraying: Spraying,
    /// The EV profiles of all QPs of NIC A and of NIC B, instead of that.
    pub profiles: Option<[ProfileSpec; 2]>,
    /// A fabric between the NICs, over [`Link::Ring`].
    pub fabric: Option<FabricOptions>,
    /// QPs have IPv6 addresses.
    pub ipv6: bool,
    /// Workers in all: 1 for both NICs, or an even number.
    pub workers: Option<usize>,
    /// A core for each worker; workers may share one.
    pub cores: Option<Vec<usize>>,
    /// What is done to received frames on purpose, on both NICs. Their seed is made from the other.
    pub impairments: Impairments,
    /// Seed of all that is random.
    pub seed: u64,
    /// Registered memory of each side in bytes.
    pub memory: usize,
    /// The NICs' parameters, where nothing else here says otherwise.
    pub base: NicParams,
    /// `ReliabilityProbePeriod` in ns.
    pub probe_period_ns: u64,
    /// How windows are found.
    pub congestion: CcConfig,
    /// Rate that each port keeps to, in bits a second; `None`: as fast as it is.
    pub link_rate: Option<u64>,
    /// `InitialAckTimeout`: how long an acknowledgement may take before a packet is sent again, 1 us to 8 s.
    pub ack_timeout: Duration,
    /// Payload of a packet; `None`: what the ports carry, 4,096 at most.
    pub mss: Option<u32>,
    /// Where operators may ask (`mrcnic ctl`).
    pub ctl: Option<PathBuf>,
    /// What is recorded; NIC A is node 0, NIC B node 1.
    pub records: RecordSpec,
    /// Where metrics are served over HTTP.
    pub metrics: Option<MetricsAddress>,
    /// Turns without work after which a worker yields its core.
    pub idle_polls: u32,
    /// What driver and machine allow is measured too.
    pub anchors: bool,
    /// Payload is copied into frames, also where a port could send it from where it lies.
    pub copy: bool,
}

impl Options {
    /// The name that JSON uses for how packets are spread.
    const fn paths_name(&self) -> &'static str {
        match (&self.profiles, self.spraying) {
            (Some(_), _) => "profile",
            (None, Spraying::Default) => "default",
            (None, Spraying::None) => "none",
        }
    }
}

/// Hears how a bench is going.
pub trait Watcher {
    /// `share` (0 to 1) of the time at size number `index` is over.
    fn progress(&mut self, index: usize, size: usize, share: f64);
}

/// Runs the bench. `interrupted` ends it early, with what was measured until then.
///
/// # Errors
/// What cannot be brought up, and a worker that died. A Write that fails is in the report.
pub fn run(options: &Options, interrupted: &Arc<AtomicBool>, watcher: &mut dyn Watcher) -> Result<Report, Error> {
    // Before the workers keep the cores busy.
    let memcpy_gbps = memcpy_gbps(options.memory);
    let running = setup::start(options)?;
    let mut results = Vec::new();
    let mut notes = notes(options, &running);
    for (index, &size) in options.sizes.iter().enumerate() {
        tracing::debug!(size, op = options.op.name(), "measuring a size");
        let measured = measure(&running, options, (size, options.depth), interrupted, &mut |share| {
            watcher.progress(index, size, share)
        })?;
        let result = SizeResult::of(options.op, size, &measured);
        let failed = result.fault.is_some();
        if let Some(why) = &result.fault {
            tracing::error!(size, why, "a size failed");
        }
        results.push(result);
        if failed {
            break;
        }
        if interrupted.load(Ordering::Relaxed) {
            notes.push("interrupted: the last size is not measured to its end".into());
            break;
        }
    }
    let unloaded = if options.anchors && !interrupted.load(Ordering::Relaxed) {
        Some(measure(&running, options, (WRITE_UNLOADED, 1), interrupted, &mut |_| {})?)
    } else {
        None
    };
    let place = (running.eal.clone(), running.clock, running.cores.clone(), running.config.clone());
    let mut report = finish(running, options, memcpy_gbps, results, notes)?;
    if let (Some(unloaded), (eal, clock, cores, config)) = (unloaded, place) {
        let cores = [cores.first(), cores.last()].map(|core| core.copied().unwrap_or(0));
        let place = Place { eal: &eal, clock, cores, config: &config, options };
        report.anchors = Some(anchors(&place, &report, &unloaded)?);
    }
    Ok(report)
}

/// Measures what driver and machine allow, once the workers of the NICs have gone.
fn anchors(place: &Place<'_>, report: &Report, unloaded: &[Measured]) -> Result<Anchors, Error> {
    let bare = |result: &SizeResult| {
        let payload = result.size.min(report.mss as usize);
        let frames_per_s = place.bare(payload)?;
        let goodput_gbps = frames_per_s * payload as f64 * 8.0 / 1e9;
        let (ratio, memcpy_ratio) = (result.goodput_gbps / goodput_gbps, result.goodput_gbps / report.memcpy_gbps);
        Ok(Bare { size: result.size, payload, frames_per_s, goodput_gbps, ratio, memcpy_ratio })
    };
    let bare = report.results.iter().filter(|result| result.size > 0).map(bare).collect::<Result<_, Error>>()?;
    let round_trip_us = Latency::of(&place.round_trips()?);
    let write_us = unloaded.first().map_or(Latency { p50: 0.0, p99: 0.0 }, |one| Latency::of(&one.latency));
    let round_trip_ratio = Latency { p50: write_us.p50 / round_trip_us.p50, p99: write_us.p99 / round_trip_us.p99 };
    Ok(Anchors { bare, round_trip_us, write_us, round_trip_ratio })
}

/// Measures one size with all requesters at once, with so many requests in flight on each QP.
fn measure(
    running: &Running,
    options: &Options,
    (size, depth): (usize, usize),
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Measured>, Error> {
    let ns = u64::try_from(options.duration.as_nanos()).unwrap_or(u64::MAX);
    for mailbox in &running.mailboxes {
        // One command at a time is asked for, so there is room.
        let _ = mailbox.commands.push(Command::Measure { size, depth, ns });
    }
    let mut last_words: Option<Instant> = None;
    let mut measured = Vec::with_capacity(running.mailboxes.len());
    for mailbox in &running.mailboxes {
        loop {
            if let Some(one) = mailbox.results.pop() {
                measured.push(*one);
                break;
            }
            if running.workers.is_finished() || running.stop.load(Ordering::Relaxed) {
                return Err(Error::Failure("a worker ended before its time".into()));
            }
            if interrupted.load(Ordering::Relaxed) {
                interrupt(&running.mailboxes);
                let since = *last_words.get_or_insert_with(Instant::now);
                if since.elapsed() > LAST_WORDS {
                    return Err(Error::Failure("interrupted; what is in flight did not arrive".into()));
                }
            }
            let done = mailbox.progress_ns.load(Ordering::Relaxed) as f64 / ns.max(1) as f64;
            progress(done.min(1.0));
            std::thread::sleep(LOOK);
        }
    }
    progress(1.0);
    Ok(measured)
}

fn interrupt(mailboxes: &[Arc<Mailbox>]) {
    for mailbox in mailboxes {
        mailbox.interrupted.store(true, Ordering::Relaxed);
    }
}

/// Stops the workers, and adds up what only they and the ports know.
fn finish(
    running: Running,
    options: &Options,
    memcpy_gbps: f64,
    results: Vec<SizeResult>,
    mut notes: Vec<String>,
) -> Result<Report, Error> {
    let Running { workers, control, mailboxes, stats, ports, mss, worker_count, fabric, recording, clock, .. } =
        running;
    for mailbox in &mailboxes {
        let _ = mailbox.commands.push(Command::Quit);
    }
    workers.stop();
    tracing::debug!("workers are told to stop");
    let mut lanes = workers.join()?;
    let now = clock.now();
    for Lane { engine, app, .. } in lanes.iter_mut().flatten() {
        if let Some(records) = &mut app.records {
            records.end(now, engine);
        }
    }
    let records = recording.map(Recording::finish).transpose()?;
    notes.extend(records.as_ref().and_then(RecordCounts::complaint));
    let control = control.join().ok_or_else(|| Error::Failure("the control thread died".into()))?;
    let injected =
        |of: fn(&LaneStats) -> &Counter| lanes.iter().flatten().map(|lane| of(&lane.stats()).get()).sum::<u64>();
    let mut drops = std::collections::BTreeMap::new();
    for (reason, count) in stats.iter().flatten().flat_map(|stats| stats.drop_reasons()) {
        *drops.entry(reason.name()).or_insert(0) += count;
    }
    let counters = |nic: &'static str, ports: &[Port]| {
        let one = |(number, port): (u8, &Port)| PortCounters::of(nic, number, port);
        (1..).zip(ports).map(one).collect::<Vec<_>>()
    };
    let port_counters = [counters("a", &ports[0]), counters("b", &ports[1])].concat();
    Ok(Report {
        schema: 1,
        dpdk_version: Eal::version(),
        vdev: match &options.link {
            Link::Ring => "net_ring".into(),
            Link::Null(spec) => spec.to_string(),
            Link::Ports(a, b) => format!("{a} - {b}"),
        },
        workers: worker_count,
        memcpy_gbps,
        results,
        ports: port_counters,
        planes: options.planes,
        spraying: options.paths_name(),
        ipv6: options.ipv6,
        mss,
        qps: options.qps,
        drops,
        injected_losses: injected(|stats| &stats.injected_losses),
        injected_duplicates: injected(|stats| &stats.injected_duplicates),
        injected_reorders: injected(|stats| &stats.injected_reorders),
        injected_trims: injected(|stats| &stats.injected_trims),
        probes: report::Probes::of(&control),
        fabric: fabric.and_then(|Between { end, stats }| {
            let paths = options.fabric.as_ref().map_or(&[][..], |fabric| &fabric.paths);
            FabricPart::of(&end, &stats, paths)
        }),
        records,
        anchors: None,
        notes,
    })
}

/// What a user should know before believing the figures.
fn notes(options: &Options, running: &Running) -> Vec<String> {
    let mut notes = Vec::new();
    if matches!(options.link, Link::Null(_)) {
        notes.push(
            "net_null has no other end: this is the transmit path alone, acknowledged by the bench itself, and the receive path that \
             drops what is no MRC; nothing arrives, so nothing is verified"
                .into(),
        );
    }
    if options.mss.is_none() && running.mss < 4096 {
        let max = running.ports.iter().flatten().map(Port::max_frame).min().unwrap_or(0);
        notes.push(format!("the ports carry frames of {max} bytes, so the MSS is {} instead of 4096", running.mss));
    }
    notes
}

/// Copies 4 KiB pieces through as much memory as a NIC has for a while, on this thread.
fn memcpy_gbps(memory: usize) -> f64 {
    const PIECE: usize = 4096;
    let set = memory.max(PIECE) / PIECE * PIECE;
    let (source, target) = (Buffer::new(set), Buffer::new(set));
    let mut copied = 0u64;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(100) {
        for at in (0..set).step_by(PIECE) {
            let copy = black_box(&target).copy(at, black_box(&source), at, PIECE);
            debug_assert!(copy.is_ok());
        }
        copied += set as u64;
    }
    copied as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e9
}

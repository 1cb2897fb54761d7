//! Traffic: flows of messages between NICs, and what became of each.

use super::world::{Completed, Link, World, WorldError};
use dataplane::Ns;
use dataplane::fabric::NicId;
use dataplane::memory::{Buffer, Key};
use dataplane::nic::{PathSpec, Status, WriteRequest};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// A flow: messages from one NIC to another, over a QP of its own.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Who sends.
    pub src: NicId,
    /// To whom.
    pub dst: NicId,
    /// Length of each message in bytes.
    pub message: usize,
    /// How many messages; `None` until the end.
    pub count: Option<u64>,
    /// Messages in flight at most, 1 to 512.
    pub outstanding: usize,
    /// When it begins.
    pub start: Ns,
    /// It begins when these flows have ended, by their numbers, if that is later.
    pub after: Vec<usize>,
    /// How its packets find their way.
    pub path: PathSpec,
    /// How answers find theirs.
    pub back: PathSpec,
}

impl Flow {
    /// Places of a message each that it needs at the receiver.
    #[must_use]
    pub fn places(&self) -> usize {
        let count = self.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        (self.outstanding + 1).min(count).max(1)
    }
}

/// A message that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The flow, by its number.
    pub flow: usize,
    /// When it was posted.
    pub posted: Ns,
    /// When it completed.
    pub at: Ns,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// Bytes of completed messages.
    pub bytes: u64,
    /// Bytes placed at the receiver, those of messages under way included.
    pub delivered: u64,
    /// Messages completed with success.
    pub messages: u64,
    /// When its first message was posted.
    pub began: Option<Ns>,
    /// When its last message completed, if all did.
    pub ended: Option<Ns>,
    /// When a message last completed.
    pub last: Option<Ns>,
    /// Packets sent again.
    pub retransmits: u64,
    /// Packets whose timers ran out.
    pub timeouts: u64,
    /// Requests that ended without success.
    pub errors: u64,
    /// Bytes that were not as they were sent.
    pub corrupt: u64,
}

struct Running {
    flow: Flow,
    link: Option<Link>,
    key: Key,
    /// Where its messages go at the receiver: places of one message each, one more than are in flight if there are so many.
    places: usize,
    base: usize,
    posted: u64,
    /// By work request number: when it was posted.
    times: HashMap<u64, Ns>,
    report: FlowReport,
    /// Flows that wait for this one.
    waiting: Vec<usize>,
    /// Flows that this one waits for.
    missing: usize,
}

/// Flows over a world.
pub struct Traffic {
    flows: Vec<Running>,
    by_qp: HashMap<(NicId, u32), usize>,
    starts: BinaryHeap<Reverse<(Ns, usize)>>,
    source: Arc<Buffer>,
    source_keys: HashMap<NicId, Key>,
    targets: HashMap<NicId, Arc<Buffer>>,
    open: usize,
    /// Compares every byte of every message.
    verify: bool,
    scratch: [Vec<u8>; 2],
}

/// Bytes that depend on their place.
fn pattern(buffer: &Buffer) {
    let words = (0..buffer.len().div_ceil(8) as u64).flat_map(|at| {
        let word = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // Never 0, so that what was not written shows.
        ((word ^ word >> 29) | 0x0101_0101_0101_0101).to_le_bytes()
    });
    let bytes: Vec<u8> = words.take(buffer.len()).collect();
    // It has this length.
    let _ = buffer.write(0, &bytes);
}

impl Traffic {
    /// Registers memory for the flows. Each opens its QP when it begins, and closes it when it has ended.
    ///
    /// # Errors
    /// [`WorldError`] of a NIC that has no key left.
    pub fn new(world: &mut World, flows: Vec<Flow>, verify: bool) -> Result<Traffic, WorldError> {
        let longest = flows.iter().map(|flow| flow.message).max().unwrap_or(0);
        let source = Buffer::new(longest.max(1));
        pattern(&source);
        let mut sizes: HashMap<NicId, usize> = HashMap::new();
        let mut bases = Vec::with_capacity(flows.len());
        for flow in &flows {
            let size = sizes.entry(flow.dst).or_default();
            bases.push(*size);
            *size += flow.message * flow.places();
        }
        let no_key = |id: NicId| WorldError::NoQpn(id.0);
        let mut ids: Vec<NicId> = sizes.keys().copied().collect();
        ids.sort_unstable();
        let (mut targets, mut target_keys) = (HashMap::new(), HashMap::new());
        for id in ids {
            let buffer = Buffer::new(sizes[&id].max(1));
            target_keys.insert(id, world.register(id, &buffer).ok_or(no_key(id))?);
            targets.insert(id, buffer);
        }
        let mut source_keys = HashMap::new();
        for flow in &flows {
            if let Entry::Vacant(entry) = source_keys.entry(flow.src) {
                entry.insert(world.register(flow.src, &source).ok_or(no_key(flow.src))?);
            }
        }
        let mut traffic = Traffic {
            by_qp: HashMap::new(),
            starts: BinaryHeap::new(),
            open: 0,
            source,
            source_keys,
            targets,
            verify,
            scratch: [vec![0; longest], vec![0; longest]],
            flows: Vec::with_capacity(flows.len()),
        };
        for (n, (flow, base)) in flows.into_iter().zip(bases).enumerate() {
            if flow.after.is_empty() {
                traffic.starts.push(Reverse((flow.start, n)));
            }
            traffic.flows.push(Running {
                link: None,
                key: target_keys[&flow.dst],
                places: flow.places(),
                base,
                posted: 0,
                times: HashMap::new(),
                report: FlowReport::default(),
                waiting: Vec::new(),
                missing: flow.after.len(),
                flow,
            });
        }
        for n in 0..traffic.flows.len() {
            for first in traffic.flows[n].flow.after.clone() {
                if let Some(first) = traffic.flows.get_mut(first) {
                    first.waiting.push(n);
                }
            }
        }
        Ok(traffic)
    }

    /// Lets time pass until `end`, or until every flow has ended. Calls `done` for each message.
    ///
    /// # Errors
    /// [`WorldError`] of a QP that could not be opened.
    pub fn run(&mut self, world: &mut World, end: Ns, mut done: impl FnMut(&World, Done)) -> Result<(), WorldError> {
        while world.now() < end && (self.open > 0 || !self.starts.is_empty()) {
            let next = self.starts.peek().map_or(end, |&Reverse((at, _))| at.min(end));
            if world.now() < next {
                world.advance(next);
            }
            self.begin(world)?;
            while let Some(completed) = world.poll() {
                if let Some(message) = self.complete(world, &completed) {
                    done(world, message);
                }
            }
        }
        Ok(())
    }

    /// The flows, and what has become of each so far.
    pub fn reports(&self, world: &World) -> Vec<(&Flow, FlowReport)> {
        self.flows.iter().map(|running| (&running.flow, running.report(world))).collect()
    }

    /// How many flows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.flows.len()
    }

    /// A flow by its number, and what has become of it so far; `None` when there is none of this number.
    #[must_use]
    pub fn flow(&self, world: &World, n: usize) -> Option<(&Flow, FlowReport)> {
        self.flows.get(n).map(|running| (&running.flow, running.report(world)))
    }

    /// The QP of a flow, by its number, while it is under way.
    #[must_use]
    pub fn link(&self, flow: usize) -> Option<&Link> {
        self.flows.get(flow)?.link.as_ref()
    }

    /// Have all flows ended that end?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.open == 0 && self.starts.is_empty()
    }

    /// Flows whose time has come open their QPs.
    fn begin(&mut self, world: &mut World) -> Result<(), WorldError> {
        while let Some(&Reverse((at, n))) = self.starts.peek()
            && at <= world.now()
        {
            self.starts.pop();
            let flow = &self.flows[n].flow;
            let link = world.connect(flow.src, flow.dst, |end, spec| {
                let next_hops = core::mem::take(&mut spec.path.next_hops);
                let path = if end == 0 { &flow.path } else { &flow.back };
                spec.path = PathSpec { next_hops, ..path.clone() };
                spec.send_depth = flow.outstanding.max(1);
                spec.receive_depth = 1;
            })?;
            self.by_qp.insert((link.from.0, link.from.1.get()), n);
            self.flows[n].link = Some(link);
            self.flows[n].report.began = Some(world.now());
            self.open += 1;
            self.post(world, n);
        }
        Ok(())
    }

    /// Posts as many messages as may be in flight.
    fn post(&mut self, world: &mut World, n: usize) {
        let now = world.now();
        let running = &mut self.flows[n];
        let Some(link) = running.link else { return };
        let left = |running: &Running| running.flow.count.is_none_or(|count| running.posted < count);
        while running.times.len() < running.flow.outstanding && left(running) {
            let place = (running.posted % running.places as u64) as usize;
            let request = WriteRequest {
                wr_id: running.posted,
                local_key: self.source_keys[&running.flow.src],
                local_va: 0,
                remote_key: running.key,
                remote_va: (running.base + place * running.flow.message) as u64,
                len: running.flow.message as u32,
                immediate: None,
                signaled: true,
            };
            if world.nic_mut(link.from.0).post_write(link.from.1, &request).is_err() {
                break;
            }
            running.times.insert(running.posted, now);
            running.posted += 1;
        }
    }

    /// A request ended: it is checked, and the next one posted.
    fn complete(&mut self, world: &mut World, completed: &Completed) -> Option<Done> {
        let n = *self.by_qp.get(&(completed.nic, completed.entry.qpn.get()))?;
        let wr_id = completed.entry.completion.wr_id;
        let corrupt = if self.verify { self.check(n, wr_id) } else { 0 };
        let running = &mut self.flows[n];
        let posted = running.times.remove(&wr_id)?;
        if completed.entry.completion.status != Status::Success {
            running.report.errors += 1;
            if running.times.is_empty() {
                self.end(world, n);
            }
            return None;
        }
        running.report.corrupt += corrupt;
        running.report.messages += 1;
        running.report.bytes += running.flow.message as u64;
        running.report.last = Some(completed.at);
        if running.flow.count == Some(running.report.messages) {
            running.report.ended = Some(completed.at);
            self.end(world, n);
        } else {
            self.post(world, n);
        }
        Some(Done { flow: n, posted, at: completed.at })
    }

    /// Bytes of a message that are not as they were sent. They are wiped, so that the next message has to write them.
    fn check(&mut self, n: usize, wr_id: u64) -> u64 {
        let running = &self.flows[n];
        let len = running.flow.message;
        let at = running.base + (wr_id % running.places as u64) as usize * len;
        let Some(target) = self.targets.get(&running.flow.dst) else { return 0 };
        let [sent, received] = &mut self.scratch;
        if self.source.read(0, &mut sent[..len]).is_err() || target.read(at, &mut received[..len]).is_err() {
            return len as u64;
        }
        let differ = if sent[..len] == received[..len] {
            0
        } else {
            sent[..len].iter().zip(&received[..len]).filter(|(a, b)| a != b).count() as u64
        };
        received[..len].fill(0);
        // It was just read.
        let _ = target.write(at, &received[..len]);
        differ
    }

    /// A flow is over: its QP is closed at both ends, and those that waited for it begin.
    fn end(&mut self, world: &mut World, n: usize) {
        self.flows[n].report = self.flows[n].report(world);
        let Some(link) = self.flows[n].link.take() else { return };
        self.by_qp.remove(&(link.from.0, link.from.1.get()));
        world.disconnect(&link);
        self.open -= 1;
        for waiting in core::mem::take(&mut self.flows[n].waiting) {
            let other = &mut self.flows[waiting];
            other.missing -= 1;
            if other.missing == 0 {
                self.starts.push(Reverse((other.flow.start.max(world.now()), waiting)));
            }
        }
    }
}

impl Running {
    fn report(&self, world: &World) -> FlowReport {
        let Some(link) = self.link else { return self.report };
        let stats = world.nic(link.from.0).qp_stats(link.from.1).unwrap_or_default();
        let delivered = world.nic(link.to.0).qp_stats(link.to.1).unwrap_or_default().delivered_bytes;
        FlowReport { retransmits: stats.retransmits, timeouts: stats.timeouts, delivered, ..self.report }
    }
}

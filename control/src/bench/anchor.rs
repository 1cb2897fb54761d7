//! What driver and machine allow, in the same run: the same frames over a pair of rings, without MRC. The sender writes headers that are ready,
//! payload and iCRC; the receiver checks the iCRC and copies the payload to its place. There is no key, no window, no acknowledgement and no
//! completion. Rounds are those of the bench, so that memory is in the same caches: the source is filled anew and the target checked between them, while
//! the clock stands still.

use super::report::Latency;
use super::{Error, Options};
use crate::pattern;
use dataplane::Ns;
use dataplane::dpdk::{App, Clock, Eal, Engine, Lane, Poll, Port, PortConfig, TxPorts, Worker, WorkerOptions, Workers};
use dataplane::memory::{
    Access, Buffer, Domain, Key, Keys, Loans, Region, RxFrame, Table, checksum, checksum_extent, read_bytes,
};
use dataplane::nic::{Pieces, PortId, TxBurst, lead};
use dataplane::wire::{
    Addressing, Bth, Ext, ICRC_LEN, Icrc, MacAddr, Marks, Meth, Opcode, Reth, Template, UDP_PORT, WriteHeaders, padding,
};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const DOMAIN: Domain = Domain(0);
/// Frames that a turn sends.
const BURST: usize = 32;
/// Frames that a ring holds: as DPDK's own rings do by default.
const RING: u32 = 1024;
/// Where IP and UDP begin in a frame over IPv4 without a tag.
const IP_AT: usize = 14;
const UDP_AT: usize = 34;
/// Longest round trip that is told apart.
const ROUND_TRIP_MAX_NS: u64 = 1_000_000_000;

/// What was measured beside the NICs.
#[derive(Debug, Serialize)]
pub struct Anchors {
    /// Bytes of a packet of each size without MRC, in the order of the sizes.
    pub bare: Vec<Bare>,
    /// A small frame to the other core and back, from turn to turn of the sender, in microseconds.
    pub round_trip_us: Latency,
    /// A Write of 64 bytes with no other in flight, from its post to its completion, in microseconds.
    pub write_us: Latency,
    /// The second to the first: of the medians, and of 99 in 100.
    pub round_trip_ratio: Latency,
}

/// Frames of one size without MRC.
#[derive(Debug, Serialize)]
pub struct Bare {
    /// Bytes of a message.
    pub size: usize,
    /// Bytes of payload in each frame: the message, or as much as a packet carries.
    pub payload: usize,
    /// Frames a second.
    pub frames_per_s: f64,
    /// Payload in Gbit/s.
    pub goodput_gbps: f64,
    /// The NICs' goodput at this size to that.
    pub ratio: f64,
    /// The NICs' goodput at this size to what copying 4 KiB pieces gives on one core.
    pub memcpy_ratio: f64,
}

/// An end of the rings.
enum End {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
    Asker(Box<Asker>),
    Answerer { owes: usize },
}

struct Ground {
    table: Table,
    key: Key,
    memory: Arc<Buffer>,
    template: Template,
    /// All headers of a frame, and where they end.
    headers: Vec<u8>,
    payload: usize,
    /// Where the next payload is.
    at: usize,
}

impl Ground {
    fn new(payload: usize, memory: Arc<Buffer>) -> Ground {
        let key = Keys::default().allocate().expect("the first key");
        let region =
            Region { domain: DOMAIN, access: Access { remote_write: true }, iova: 0, memory: Arc::clone(&memory) };
        let mut table = Table::default();
        table.insert(key, region);
        let addressing = Addressing {
            source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            vlan: None,
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
            hop_limit: 64,
            udp_port: UDP_PORT,
        };
        let template = Template::new(&addressing).expect("two addresses of one family");
        let reth = Reth { va: 0, rkey: key.0, dmalen: payload as u32 };
        let ext = Ext::Write(WriteHeaders { meth: Meth::default(), timestamp: None, reth, immediate: None });
        let mut frame = vec![0; template.frame_len(ext.len(), payload)];
        let marks = Marks { ev: 300, dscp: 4, ecn: 2 };
        let bth = Bth::new(Opcode::WriteOnly, 0x01_0000, 7);
        let end = template.write_headers(&mut frame, marks, &bth, &ext, payload).expect("a frame of that length");
        frame.truncate(end);
        Ground { table, key, memory, template, headers: frame, payload, at: 0 }
    }

    /// The next payload has another place.
    fn step(&mut self) {
        self.at = if self.at + 2 * self.payload > self.memory.len() { 0 } else { self.at + self.payload };
    }

    const fn frame_len(&self) -> usize {
        self.headers.len() + self.payload + padding(self.payload) + ICRC_LEN
    }
}

/// How far a sender is.
enum Phase {
    /// The memory is filled; the round begins at the next turn, with a fresh reading of the clock.
    Filled,
    /// Frames of the round are to be sent, or not received yet.
    Sending {
        began: Ns,
        left: u64,
    },
    Over,
}

struct Sender {
    ground: Ground,
    loans: Loans,
    target: Arc<Buffer>,
    /// Frames of a round: each has a place of its own in the memory.
    a_round: u64,
    /// Frames sent, and those that the receiver has placed.
    sent: u64,
    placed: Arc<AtomicU64>,
    phase: Phase,
    rounds: u64,
    sending_ns: u64,
    limit_ns: u64,
    verified: bool,
}

impl Sender {
    fn turn(&mut self, now: Ns, out: &mut TxPorts) -> usize {
        match self.phase {
            Phase::Filled => {
                self.phase = Phase::Sending { began: now, left: self.a_round };
                0
            }
            Phase::Sending { began, left: 0 } => {
                if self.placed.load(Ordering::Acquire) >= self.sent {
                    self.sending_ns += now.since(began);
                    self.end_round();
                }
                0
            }
            Phase::Sending { began, left } => {
                let most = left.min(BURST as u64);
                let sent = (0..most).take_while(|_| self.send(out)).count();
                self.sent += sent as u64;
                self.phase = Phase::Sending { began, left: left - sent as u64 };
                sent
            }
            Phase::Over => 0,
        }
    }

    fn end_round(&mut self) {
        let bytes = self.a_round as usize * self.ground.payload;
        self.verified &= pattern::holds(&self.target, 0, bytes, self.rounds);
        if self.sending_ns >= self.limit_ns || !self.verified {
            self.phase = Phase::Over;
            return;
        }
        self.rounds += 1;
        pattern::fill(&self.ground.memory, 0, bytes, self.rounds);
        self.phase = Phase::Filled;
    }

    fn frames_per_s(&self) -> f64 {
        self.sent as f64 * 1e9 / self.sending_ns.max(1) as f64
    }

    fn send(&mut self, out: &mut TxPorts) -> bool {
        let (port, va) = (PortId(0), self.ground.at as u64);
        let Ground { table, key, template, headers, payload, .. } = &self.ground;
        let (key, payload, end) = (*key, *payload, headers.len());
        let Ok(source) = table.local(DOMAIN, key, va, payload) else { return false };
        let lends = self.loans.is_allowed() && out.takes_pieces(port) == Pieces::All;
        let written = if let Some(lead) = lead(end, payload).filter(|_| lends) {
            let (rest, pad) = (source.skip(lead), padding(payload));
            let Some(id) = self.loans.take(key, &self.ground.memory) else { return false };
            let slot =
                self.loans.lend(id, &rest).and_then(|lent| out.slot_around(port, end + lead, lent, pad + ICRC_LEN));
            self.loans.abandon(id);
            let Some((head, tail)) = slot else { return false };
            head[..end].copy_from_slice(headers);
            source.copy_out(&mut head[end..]);
            template.icrc_over(head).is_some_and(|mut icrc| {
                checksum_extent(&rest.extent(), &mut icrc);
                Template::end(tail, icrc, pad)
            })
        } else {
            let Some(frame) = out.slot(port, self.ground.frame_len()) else { return false };
            frame[..end].copy_from_slice(headers);
            source.copy_out(&mut frame[end..end + payload]);
            template.seal(frame, end, payload)
        };
        if written {
            out.commit();
            self.ground.step();
        }
        written
    }
}

struct Receiver {
    ground: Ground,
    placed: Arc<AtomicU64>,
}

impl Receiver {
    /// Places a frame, if it is right; one that is not is missed by the sender.
    fn take<F: RxFrame>(&mut self, frame: &F) {
        let (end, icrc_at) = (self.ground.headers.len(), self.ground.frame_len() - ICRC_LEN);
        let known = frame.head().len().min(icrc_at);
        let holds = Icrc::over(&frame.head()[..known], IP_AT, UDP_AT).is_some_and(|mut icrc| {
            checksum(frame, known, icrc_at - known, &mut icrc);
            icrc.finish() == read_bytes::<ICRC_LEN, F>(frame, icrc_at)
        });
        let (va, key, payload) = (self.ground.at as u64, self.ground.key, self.ground.payload);
        if let (true, Ok(target)) = (holds, self.ground.table.remote_write(DOMAIN, key, va, payload)) {
            target.place(frame, end);
        }
        self.ground.step();
        // One writer.
        self.placed.store(self.placed.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

struct Asker {
    asked: Option<Ns>,
    /// A frame waits to be sent.
    asks: bool,
    until: Option<Ns>,
    duration_ns: u64,
    round_trips: Histogram<u64>,
}

impl Engine for End {
    fn receive<F: RxFrame>(&mut self, now: Ns, _port: PortId, frame: &F) {
        match self {
            End::Receiver(receiver) => receiver.take(frame),
            End::Answerer { owes } => *owes += 1,
            End::Asker(asker) => {
                if let Some(asked) = asker.asked.take() {
                    asker.round_trips.saturating_record(now.since(asked));
                }
                asker.asks = true;
            }
            End::Sender(_) => {}
        }
    }

    fn on_idle(&mut self, _now: Ns) {}

    fn on_time(&mut self, _now: Ns) {}

    fn transmit(&mut self, now: Ns, out: &mut TxPorts) -> usize {
        match self {
            End::Sender(sender) => sender.turn(now, out),
            End::Asker(asker) => {
                asker.until.get_or_insert(now + asker.duration_ns);
                let asks = core::mem::take(&mut asker.asks) && small_frame(out);
                if asks {
                    asker.asked = Some(now);
                }
                usize::from(asks)
            }
            End::Answerer { owes } => (0..core::mem::take(owes)).take_while(|_| small_frame(out)).count(),
            End::Receiver(_) => 0,
        }
    }

    fn sent(&mut self, _now: Ns, _port: PortId, _frames: usize) {}

    fn owner(_head: &[u8], _workers: usize) -> Option<usize> {
        None
    }
}

/// Sends a frame as long as that of a Write of 64 bytes.
fn small_frame(out: &mut TxPorts) -> bool {
    let Some(frame) = out.slot(PortId(0), 142) else { return false };
    frame.fill(1);
    out.commit();
    true
}

/// Ends both workers once the time of the one that begins is over.
struct UntilOver(Arc<AtomicBool>);

impl App<End> for UntilOver {
    fn poll(&mut self, now: Ns, end: &mut End) -> Poll {
        let over = match end {
            End::Sender(sender) => matches!(sender.phase, Phase::Over),
            End::Asker(asker) => asker.until.is_some_and(|until| now >= until),
            End::Receiver(_) | End::Answerer { .. } => self.0.load(Ordering::Relaxed),
        };
        if over {
            self.0.store(true, Ordering::Relaxed);
            return Poll::Done;
        }
        Poll::Busy
    }
}

/// Where the anchors are measured.
pub(super) struct Place<'a> {
    pub(super) eal: &'a Eal,
    pub(super) clock: Clock,
    pub(super) cores: [usize; 2],
    pub(super) config: &'a PortConfig,
    pub(super) options: &'a Options,
}

impl Place<'_> {
    /// Lets two ends work until the first says that it is over.
    fn run(&self, ends: [End; 2]) -> Result<[End; 2], Error> {
        let (a, b) = Port::ring_pair(self.eal, RING, self.config)?;
        let over = Arc::new(AtomicBool::new(false));
        let workers = [a, b].into_iter().zip(ends).zip(self.cores).map(|((mut port, end), core)| {
            let queues = port.take_queue(0).into_iter().collect();
            Worker::new(Some(core), vec![Lane::new(end, UntilOver(Arc::clone(&over)), queues)])
        });
        let options = WorkerOptions { idle_polls: self.options.idle_polls };
        let workers = Workers::spawn(self.eal, self.clock, workers.collect(), options, Arc::default())?;
        while !workers.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ends: Vec<End> = workers.join()?.into_iter().flatten().map(|lane| lane.engine).collect();
        <[End; 2]>::try_from(ends).map_err(|_| Error::Failure("a worker of the anchors has gone".into()))
    }

    fn duration_ns(&self) -> u64 {
        u64::try_from(self.options.duration.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Frames a second, each with `payload` bytes out of as much memory as the NICs have.
    pub(super) fn bare(&self, payload: usize) -> Result<f64, Error> {
        let a_round = (self.options.memory / payload.max(1)).max(1);
        let [source, target] = [(); 2].map(|()| Buffer::new(a_round * payload));
        pattern::fill(&source, 0, a_round * payload, 1);
        let placed: Arc<AtomicU64> = Arc::default();
        let receiver = Receiver { ground: Ground::new(payload, Arc::clone(&target)), placed: Arc::clone(&placed) };
        let sender = Sender {
            ground: Ground::new(payload, source),
            loans: if self.options.copy { Loans::default() } else { Loans::new() },
            target,
            a_round: a_round as u64,
            sent: 0,
            placed,
            phase: Phase::Filled,
            rounds: 1,
            sending_ns: 0,
            limit_ns: self.duration_ns(),
            verified: true,
        };
        let [sender, _] = self.run([End::Sender(Box::new(sender)), End::Receiver(Box::new(receiver))])?;
        match sender {
            End::Sender(sender) if sender.verified => Ok(sender.frames_per_s()),
            _ => Err(Error::Failure("the frames of the anchors did not carry what was sent".into())),
        }
    }

    /// Round trips of a small frame.
    pub(super) fn round_trips(&self) -> Result<Histogram<u64>, Error> {
        let round_trips = Histogram::new_with_bounds(1, ROUND_TRIP_MAX_NS, 3).expect("constant bounds");
        let asker = Asker { asked: None, asks: true, until: None, duration_ns: self.duration_ns(), round_trips };
        let [asker, _] = self.run([End::Asker(Box::new(asker)), End::Answerer { owes: 0 }])?;
        match asker {
            End::Asker(asker) => Ok(asker.round_trips),
            _ => Err(Error::Failure("a worker of the anchors has gone".into())),
        }
    }
}

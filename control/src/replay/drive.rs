//! The second pass: frames from a `net_pcap` port into the NIC, and its answers out. One thread, no worker.

use super::rate::Rate;
use super::scan::{Flow, Scan};
use super::{Error, Options};
use dataplane::Ns;
use dataplane::dpdk::{Clock, Eal, EalOptions, Port, PortConfig, PortSpec, Queue, TxPorts};
use dataplane::memory::{Buffer, Domain, Scratch};
use dataplane::nic::{
    Advertised, DropReason, Endpoint, Nic, NicParams, PathSpec, Placement, PortId, PortInfo, QpNumbers, QpSpec,
    QpState, QpStats, Qpn, RxFrame,
};
use dataplane::transport::{Psn, TransportParams};
use dataplane::wire::{MacAddr, Opcode, Rules, UDP_PORT, parse};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The port that everything goes through, as the NIC counts.
const PORT: PortId = PortId(0);
/// Where payload is placed, modulo its size. It stays in the cache, as a region in use would.
const SCRATCH: usize = 1 << 20;
/// A wait for the next packet that is longer is slept through, but for its last part.
const NAP: u64 = 200_000;
const AWAKE: u64 = 100_000;
/// Whoever interrupts a replay does not wait longer than this.
const LONGEST_NAP: u64 = 50_000_000;
/// Offers to a port that takes nothing before the rest is given up.
const PATIENCE: u32 = 10_000;

/// What a replay came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Frames that `net_pcap` handed on, all rounds.
    pub(super) packets: u64,
    /// Those that are MRC packets.
    pub(super) decoded: u64,
    /// How many of each opcode.
    pub(super) by_op: BTreeMap<&'static str, u64>,
    /// How many carried each entropy value.
    pub(super) evs: BTreeMap<u32, u64>,
    /// Dropped frames by reason.
    pub(super) drops: Vec<(DropReason, u64)>,
    /// Dropped acknowledgements that are for a requester, which only the capture had.
    pub(super) for_other_end: u64,
    /// What each QP did, in the order of the scan's.
    pub(super) qps: Vec<QpStats>,
    /// Answers that the port took.
    pub(super) responses: u64,
    /// Their bytes.
    pub(super) response_bytes: u64,
    /// Answers that were not written.
    pub(super) unsent: u64,
    /// How long it took.
    pub(super) seconds: f64,
    /// It ended before all rounds were done.
    pub(super) interrupted: bool,
}

/// Counts of received frames.
struct Tally {
    rules: Rules,
    packets: u64,
    decoded: u64,
    by_code: [u64; 256],
    evs: HashMap<u32, u64>,
    for_other_end: u64,
}

impl Tally {
    fn new(rules: &Rules) -> Tally {
        Tally { rules: *rules, packets: 0, decoded: 0, by_code: [0; 256], evs: HashMap::new(), for_other_end: 0 }
    }

    /// Counts a frame; gives its opcode.
    fn count<F: RxFrame>(&mut self, frame: &F) -> Option<Opcode> {
        self.packets += 1;
        let packet = parse(frame.head(), frame.len(), &self.rules).ok()?;
        self.decoded += 1;
        self.by_code[usize::from(packet.bth.opcode as u8)] += 1;
        *self.evs.entry(packet.ev()).or_default() += 1;
        Some(packet.bth.opcode)
    }
}

/// Sends the capture through a NIC.
///
/// # Errors
/// DPDK or a port failed. Whatever the frames are, they are counted.
pub(super) fn drive(options: &Options, rules: &Rules, scan: &Scan, stop: &AtomicBool) -> Result<Outcome, Error> {
    let config =
        PortConfig { rx_desc: 64, tx_desc: 64, small: 2_047, large: 255, rx: Some(2_047), ..PortConfig::default() };
    let eal = Eal::init(&EalOptions::for_ports(2, &config))?;
    // Answers take a port of their own: restarting the one that reads would empty the file that it writes.
    let mut port = Port::open(&eal, &PortSpec::pcap(0, Some(&options.file), None)?, &config)?;
    let sink = match &options.out {
        Some(out) => PortSpec::pcap(1, None, Some(out))?,
        None => "net_null1".parse()?,
    };
    let mut sink = Port::open(&eal, &sink, &config)?;
    tracing::info!(port = port.name(), answers = sink.name(), "the ports are open");
    let (Some(queue), Some(Queue { tx, .. })) = (port.take_queue(0), sink.take_queue(0)) else {
        return Err(Error::Nic("a port without a queue".into()));
    };
    let (nic, qpns) = nic(options, rules, scan, &sink)?;
    let mut run = Run { nic, out: TxPorts::new(vec![tx]), clock: Clock::new(&eal), sent: 0, tally: Tally::new(rules) };
    let start = run.clock.now();
    let mut queue = queue;
    for round in 0..options.rounds {
        if round > 0 {
            port.restart(&mut queue)?;
        }
        run.round(&mut queue, options.rate, start, stop);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let unsent = run.settle();
    let seconds = run.clock.now().since(start) as f64 / 1e9;
    let interrupted = stop.load(Ordering::Relaxed);
    Ok(Outcome { interrupted, ..run.outcome(&qpns, unsent, seconds) })
}

/// A NIC with the QPs that the capture's packets are for.
fn nic(options: &Options, rules: &Rules, scan: &Scan, port: &Port) -> Result<(Nic, Vec<Qpn>), Error> {
    let params = NicParams {
        transport: TransportParams { max_psn_range: options.window, ..TransportParams::default() },
        udp_port: scan.udp_port.unwrap_or(UDP_PORT),
        // They are limited in rate, so that what a replay answers would depend on its speed.
        endpoint_operations: false,
        ..NicParams::default()
    };
    let info = PortInfo { mac: MacAddr(port.mac()), max_frame: port.max_frame() };
    let mut nic = Nic::new(params, &[info]).map_err(|e| Error::Nic(e.to_string()))?;
    nic.set_udp_ports(rules.udp_ports);
    let scratch = Scratch(Buffer::new(SCRATCH));
    let mut numbers = QpNumbers::default();
    let mut qpns = Vec::with_capacity(scan.flows.len());
    for _ in &scan.flows {
        qpns.push(numbers.allocate().ok_or_else(|| Error::Nic("no QP number is left".into()))?);
    }
    // In the order of the engine's table: each then goes to its end.
    let mut order: Vec<(&Flow, Qpn)> = scan.flows.iter().zip(qpns.iter().copied()).collect();
    order.sort_unstable_by_key(|(flow, _)| (flow.source, flow.destination, flow.dqp));
    for (flow, qpn) in order {
        nic.open(Ns::ZERO, spec(flow, qpn, &scratch)).map_err(|e| Error::Nic(e.to_string()))?;
    }
    Ok((nic, qpns))
}

fn spec(flow: &Flow, qpn: Qpn, scratch: &Scratch) -> QpSpec {
    QpSpec {
        qpn,
        // It has nothing to send: acknowledgements for the capture's own requester are no business of it.
        state: QpState::Rtr,
        port: PORT,
        local: Endpoint { mac: flow.link.destination, ip: flow.destination },
        remote: Endpoint { mac: flow.link.source, ip: flow.source },
        vlan: flow.link.vlan,
        peer_qpn: flow.peer.unwrap_or(flow.dqp),
        send_psn: Psn::new(0),
        receive_psn: flow.first_psn,
        // The requester's, which sends nothing and needs no room.
        peer: Advertised { window: 1, immediates: 1 },
        receive_depth: 0,
        write_imm_limit: 1,
        domain: Domain(1),
        send_depth: 1,
        placement: Placement::Learned { dqp: flow.dqp, scratch: scratch.clone() },
        path: PathSpec::default(),
        congestion: None,
    }
}

struct Run {
    nic: Nic,
    out: TxPorts,
    clock: Clock,
    sent: u64,
    tally: Tally,
}

impl Run {
    /// Feeds the NIC until the file ends, or `stop` is set.
    fn round(&mut self, queue: &mut Queue, rate: Option<Rate>, start: Ns, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let batch = queue.rx.burst();
            let mut now = self.clock.now();
            if batch.is_empty() {
                self.nic.on_idle(now);
                self.turn(now);
                return;
            }
            for index in 0..batch.len() {
                if let Some(rate) = rate {
                    now = self.wait(start + rate.due(self.tally.packets), stop);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
                if let Some(frame) = batch.frame(index) {
                    let opcode = self.tally.count(&frame);
                    if let Err(reason) = self.nic.receive(now, PORT, &frame)
                        && is_for_requester(opcode, reason)
                    {
                        self.tally.for_other_end += 1;
                    }
                }
                if rate.is_some() {
                    self.turn(now);
                }
            }
            self.turn(now);
        }
    }

    /// Serves the NIC until `due`, or `stop` is set. Between two packets the line is idle.
    fn wait(&mut self, due: Ns, stop: &AtomicBool) -> Ns {
        let mut now = self.clock.now();
        if now < due {
            self.nic.on_idle(now);
        }
        while now < due && !stop.load(Ordering::Relaxed) {
            self.turn(now);
            let left = due.since(now);
            if left > NAP {
                std::thread::sleep(Duration::from_nanos((left - AWAKE).min(LONGEST_NAP)));
            } else {
                std::hint::spin_loop();
            }
            now = self.clock.now();
        }
        now
    }

    /// Handles timers, and sends all that is to be sent; false when the port took nothing of something.
    fn turn(&mut self, now: Ns) -> bool {
        self.nic.on_time(now);
        loop {
            let written = self.nic.transmit(now, &mut self.out);
            let (nic, mut taken) = (&mut self.nic, 0);
            self.out.flush(|port, frames| {
                nic.sent(now, port, frames);
                taken += frames;
            });
            self.sent += taken as u64;
            if written == 0 && taken == 0 {
                return self.out.queues().iter().all(|queue| queue.waiting() == 0);
            }
        }
    }

    /// After the last packet: all timers, and what is left to send. How many answers could not be.
    fn settle(&mut self) -> u64 {
        for _ in 0..PATIENCE {
            let now = self.clock.now();
            self.nic.on_idle(now);
            if self.turn(now) && self.nic.next_wake().is_none() {
                break;
            }
        }
        let stats = self.nic.stats();
        stats.tx_frames.get() - self.sent + stats.replies_dropped.get()
    }

    fn outcome(self, qpns: &[Qpn], unsent: u64, seconds: f64) -> Outcome {
        let stats = self.nic.stats();
        let by_op = Opcode::ALL.iter().map(|&op| (op.name(), self.tally.by_code[usize::from(op as u8)]));
        Outcome {
            packets: self.tally.packets,
            decoded: self.tally.decoded,
            by_op: by_op.filter(|&(_, count)| count > 0).collect(),
            evs: self.tally.evs.into_iter().collect(),
            drops: stats.drop_reasons().collect(),
            for_other_end: self.tally.for_other_end,
            qps: qpns.iter().map(|&qpn| self.nic.qp_stats(qpn).unwrap_or_default()).collect(),
            responses: self.sent,
            response_bytes: stats.tx_bytes.get(),
            unsent,
            seconds,
            interrupted: false,
        }
    }
}

/// True for an acknowledgement that was dropped because it is for the capture's requester: there is no such QP here, or the one
/// of that number was learned as a responder and has sent nothing.
fn is_for_requester(opcode: Option<Opcode>, reason: DropReason) -> bool {
    matches!(opcode, Some(Opcode::Sack | Opcode::Nack | Opcode::Ack))
        && matches!(reason, DropReason::UnknownQp | DropReason::QpState)
}

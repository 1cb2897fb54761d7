//! What happened within an interval: of flows and their windows, of links and their queues, and of entropy values.

use super::flows::Traffic;
use super::world::World;
use dataplane::Ns;
use dataplane::nic::EvState;
use serde::Serialize;

/// A look at everything, and what happened since the one before.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// When.
    pub at: Ns,
    /// Flows that were under way.
    pub flows: Vec<FlowSample>,
    /// Links that carried or hold something.
    pub links: Vec<LinkSample>,
    /// Entropy values of those flows, by port.
    pub evs: Vec<EvSample>,
}

/// A flow and its window.
#[derive(Clone, Debug, Serialize)]
pub struct FlowSample {
    /// Virtual time in us.
    pub time_us: f64,
    /// The flow, by its number.
    pub flow: usize,
    /// The NIC that sends.
    pub src: u32,
    /// The NIC that receives.
    pub dst: u32,
    /// Payload placed since the sample before, in Gbit/s.
    pub goodput_gbps: f64,
    /// Window towards the receiver in bytes; empty without a limit.
    pub cwnd_bytes: Option<u64>,
    /// Bytes in flight towards the receiver.
    pub inflight_bytes: u64,
    /// NSCC's base RTT in ns.
    pub base_rtt_ns: Option<u64>,
    /// NSCC's average queueing delay in ns.
    pub average_delay_ns: Option<u64>,
    /// What the last event did to the window, by NSCC.
    pub rule: Option<&'static str>,
    /// Packets sent again, since the flow began.
    pub retransmits: u64,
    /// Packets whose timers ran out, since the flow began.
    pub timeouts: u64,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkSample {
    /// Virtual time in us.
    pub time_us: f64,
    /// The link, by its number among all.
    #[serde(skip)]
    pub number: usize,
    /// Its name, `FROM>TO`.
    pub link: String,
    /// Bytes that wait in the data class.
    pub queue_bytes: u32,
    /// Bytes that wait in the control class.
    pub control_queue_bytes: u32,
    /// Share of the time since the sample before that it sent; a frame counts whole when it begins.
    pub used: f64,
    /// Bytes sent since then.
    pub bytes: u64,
    /// Frames marked since then.
    pub marked: u64,
    /// Frames trimmed since then.
    pub trimmed: u64,
    /// Frames lost since then.
    pub dropped: u64,
}

/// The entropy values of a flow's destination that leave by one port.
#[derive(Clone, Debug, Serialize)]
pub struct EvSample {
    /// Virtual time in us.
    pub time_us: f64,
    /// The flow, by its number.
    pub flow: usize,
    /// The port, and so the plane, from 0.
    pub port: u8,
    /// Values in the active set.
    pub evs: usize,
    /// Of these, those that packets may take now.
    pub good: usize,
    /// Packets that took them since the destination is known.
    pub sent: u64,
}

/// Counters of a link as they were.
#[derive(Clone, Copy, Debug, Default)]
struct Was {
    busy_ps: u64,
    bytes: u64,
    marked: u64,
    trimmed: u64,
    dropped: u64,
}

/// Takes samples.
#[derive(Debug)]
pub(super) struct Sampler {
    at: Ns,
    delivered: Vec<u64>,
    links: Vec<Was>,
    names: Vec<String>,
}

impl Sampler {
    pub(super) fn new(world: &World, traffic: &Traffic) -> Sampler {
        let names: Vec<String> = world.fabric().links().map(|(from, to, _)| format!("{from}>{to}")).collect();
        Sampler { at: Ns::ZERO, delivered: vec![0; traffic.count()], links: vec![Was::default(); names.len()], names }
    }

    pub(super) fn take(&mut self, world: &World, traffic: &Traffic) -> Sample {
        let now = world.now();
        let over = now.since(self.at).max(1);
        self.at = now;
        let mut sample = Sample { at: now, ..Sample::default() };
        for n in 0..traffic.count() {
            self.flow(n, over, world, traffic, &mut sample);
        }
        self.links(over, world, &mut sample);
        sample
    }

    fn flow(&mut self, n: usize, over: u64, world: &World, traffic: &Traffic, sample: &mut Sample) {
        let Some((flow, report)) = traffic.flow(world, n) else { return };
        let new = report.delivered - self.delivered[n];
        let link = traffic.link(n);
        if new == 0 && link.is_none() {
            return;
        }
        self.delivered[n] = report.delivered;
        let nic = world.nic(flow.src);
        let peer = world.address(flow.dst);
        let group = link.and_then(|link| nic.group_of(link.from.1));
        let nscc = group.as_ref().and_then(|group| group.nscc);
        let time_us = us(sample.at);
        sample.flows.push(FlowSample {
            time_us,
            flow: n,
            src: flow.src.0,
            dst: flow.dst.0,
            goodput_gbps: new as f64 * 8.0 / over as f64,
            cwnd_bytes: group.as_ref().map(|group| group.window).filter(|&window| window < u64::MAX),
            inflight_bytes: group.as_ref().map_or(0, |group| group.inflight),
            base_rtt_ns: nscc.map(|nscc| nscc.base_rtt_ns),
            average_delay_ns: nscc.map(|nscc| nscc.average_delay_ns),
            rule: nscc.map(|nscc| nscc.rule.name()),
            retransmits: report.retransmits,
            timeouts: report.timeouts,
        });
        let mut ports: [(usize, usize, u64); 8] = Default::default();
        for (_, report) in nic.list_evs(peer) {
            let (evs, good, sent) = &mut ports[usize::from(report.ev.port.saturating_sub(1) & 7)];
            *evs += 1;
            *good += usize::from(report.state == EvState::Good && !report.port_out);
            *sent += report.sent;
        }
        let used = ports.iter().enumerate().filter(|(_, (evs, ..))| *evs > 0);
        sample.evs.extend(used.map(|(port, &(evs, good, sent))| EvSample {
            time_us,
            flow: n,
            port: port as u8,
            evs,
            good,
            sent,
        }));
    }

    fn links(&mut self, over: u64, world: &World, sample: &mut Sample) {
        let time_us = us(sample.at);
        let known = self.links.iter_mut().zip(&self.names);
        for (number, ((_, _, stats), (was, name))) in world.fabric().links().zip(known).enumerate() {
            let is = Was {
                busy_ps: stats.busy_ps,
                bytes: stats.bytes,
                marked: stats.marked,
                trimmed: stats.trimmed,
                dropped: stats.dropped.total(),
            };
            let before = core::mem::replace(was, is);
            let idle = is.bytes == before.bytes && is.dropped == before.dropped;
            if idle && stats.data_bytes == 0 && stats.control_bytes == 0 {
                continue;
            }
            sample.links.push(LinkSample {
                time_us,
                number,
                link: name.clone(),
                queue_bytes: stats.data_bytes,
                control_queue_bytes: stats.control_bytes,
                used: (is.busy_ps - before.busy_ps) as f64 / (over as f64 * 1_000.0),
                bytes: is.bytes - before.bytes,
                marked: is.marked - before.marked,
                trimmed: is.trimmed - before.trimmed,
                dropped: is.dropped - before.dropped,
            });
        }
    }
}

/// A time in us.
pub(super) fn us(at: Ns) -> f64 {
    at.0 as f64 / 1_000.0
}

//! QPs come and go.

use super::destination::Destination;
use super::qp::LastArrival;
use super::qp::{Paths, QpPath};
use super::tap::Witness;
use super::{
    Advertised, Alias, CompletionEntry, Happening, Nic, OpenError, Outcome, Patience, Placement, Qp, QpSpec, QpState,
    QpStats, Qpn, TIMERS_PER_QP, place,
};
use crate::Ns;
use crate::transport::{
    Completion, Observer as _, Operation, Psn, Requester, Responder, RttMode, SEND_QUEUE_MAX, Status, TransportParams,
};
use crate::wire::{
    Addressing, Encapsulation, LinkAddresses, Template, Timestamp, UsidPath, WriteHeaders, link_addresses,
};
use core::net::{IpAddr, Ipv6Addr};

/// A requester that keeps to both ends' limits of Writes with Immediate.
fn requester(params: &TransportParams, psn: Psn, peer: Advertised, depth: usize) -> Requester {
    let immediates = peer.immediates.min(params.write_imm_limit);
    Requester::new(*params, psn, Advertised { immediates, ..peer }, depth)
}

/// Ends the posted receives of a QP.
pub(super) fn flush_receives(qp: &mut Qp, outcome: &mut Outcome<'_>) {
    qp.responder.flush_receives(|completion| outcome.completed(completion, true));
}

/// The outer header that a QP was given, or that its profile's paths need.
fn encapsulation(spec: &QpSpec) -> Option<Encapsulation> {
    let of_profile = || {
        let Paths::Profile(pool) = &spec.path.paths else { return None };
        let path = UsidPath::from_address(pool.first_segment()?).ok()?;
        // Over IPv4 the template is refused, with the reason.
        let source = if let IpAddr::V6(source) = spec.local.ip { source } else { Ipv6Addr::UNSPECIFIED };
        Some(Encapsulation { source, path, srh: false })
    };
    spec.path.encapsulation.or_else(of_profile)
}

impl Nic {
    /// Opens a QP.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, now: Ns, spec: QpSpec) -> Result<(), OpenError> {
        let slot = spec.qpn.slot();
        if self.qps.get(slot).is_some_and(Option::is_some) {
            return Err(OpenError::InUse(spec.qpn.get()));
        }
        for depth in [spec.send_depth, spec.receive_depth.max(1)] {
            if depth == 0 || depth > SEND_QUEUE_MAX {
                return Err(OpenError::Depth(depth));
            }
        }
        if usize::from(spec.port.0) >= self.ports.len() {
            return Err(OpenError::NoSuchPort(spec.port.0));
        }
        self.check_paths(&spec)?;
        let links = self.links(&spec)?;
        let encapsulation = encapsulation(&spec);
        let mut template = self.template(&spec, encapsulation.as_ref())?;
        if let ([port], [hop]) = (&self.ports[..], &spec.path.next_hops[..]) {
            template.set_link(link_addresses(port.mac, *hop));
        }
        let max_frame = self.ports.iter().map(|port| port.max_frame).min().unwrap_or(0);
        self.check_frame(&template, max_frame)?;
        let wire_qpn = match &spec.placement {
            Placement::Keyed => spec.qpn.get(),
            Placement::Learned { dqp, .. } => {
                let (source, destination) = (spec.remote.ip, spec.local.ip);
                let alias = Alias { source, destination, dqp: *dqp, slot };
                let at = self.aliases.partition_point(|a| a < &alias);
                self.aliases.insert(at, alias);
                *dqp
            }
        };
        let destination = self.destination(spec.remote.ip);
        self.destinations[destination].qps.push(slot as u32);
        let path = match &spec.path.paths {
            Paths::Own { udp_port } => QpPath::Own(*udp_port),
            Paths::Sprayed => QpPath::Sprayed(self.rotation(destination, None)),
            Paths::Profile(pool) => QpPath::Sprayed(self.rotation(destination, Some(pool))),
        };
        if let QpPath::Sprayed(at) = path {
            self.rotations[at].qps += 1;
        }
        let group = self.group(now, destination, slot as u32, spec.congestion.as_ref());
        self.groups[group].qps += 1;
        let limit = self.params.transport.write_imm_limit.min(spec.write_imm_limit).max(1);
        let transport = TransportParams { write_imm_limit: limit, ..self.params.transport };
        let qp = Qp {
            qpn: spec.qpn,
            wire_qpn,
            peer_qpn: spec.peer_qpn,
            state: spec.state,
            port: spec.port,
            local_ip: spec.local.ip,
            remote_ip: spec.remote.ip,
            template,
            path,
            links,
            follows: spec.path.follows,
            encapsulated: encapsulation.is_some(),
            domain: spec.domain,
            placement: spec.placement,
            destination,
            group,
            send_depth: spec.send_depth,
            write_imm_limit: limit,
            requester: requester(&transport, spec.send_psn, spec.peer, spec.send_depth),
            responder: Responder::new(spec.receive_psn, &transport, spec.receive_depth),
            stats: QpStats::default(),
            rcvd_bytes_seen: 0,
            ack_queued: false,
            sack_queued: false,
            sack_first: false,
            sack_around: None,
            in_resend: false,
            in_fresh: false,
            rests: false,
            idle_since: Ns::ZERO,
            in_owing: false,
            last_arrival: LastArrival { psn: spec.receive_psn, ev: 0, at: Ns::ZERO, timestamp: None },
            timer_at: None,
            busy_since: now,
            watched: false,
        };
        if self.qps.len() <= slot {
            self.qps.resize_with(slot + 1, || None);
        }
        self.wheel.reserve(self.qps.len() * TIMERS_PER_QP as usize);
        let (operation, status) = (Operation::Write, Status::Flushed);
        let any = CompletionEntry { qpn: spec.qpn, completion: Completion { wr_id: 0, operation, status, len: 0 } };
        self.completions.reserve(spec.send_depth + spec.receive_depth, any);
        Witness::of(&mut self.tap, &qp).tell(now, Happening::Opened);
        self.alike.forget();
        self.qps[slot] = Some(Box::new(qp));
        self.tell_new_destination(destination);
        Ok(())
    }

    /// A profile's values must be such as the QP's packets and the NIC's ports carry.
    fn check_paths(&self, spec: &QpSpec) -> Result<(), OpenError> {
        let Paths::Profile(pool) = &spec.path.paths else { return Ok(()) };
        if let (IpAddr::V4(_), Some(ev)) = (spec.local.ip, pool.beyond_ipv4()) {
            return Err(OpenError::WideEv { profile: pool.id, ev });
        }
        let ports = self.ports.len();
        let of_evs = pool.evs.iter().map(|ev| ev.port).chain(pool.ports.iter());
        match of_evs.into_iter().find(|&port| port == 0 || usize::from(port) > ports) {
            Some(port) => Err(OpenError::ProfilePort { profile: pool.id, port, ports }),
            None => Ok(()),
        }
    }

    /// The Ethernet addresses on each port, where there are several.
    fn links(&self, spec: &QpSpec) -> Result<Option<Box<[LinkAddresses]>>, OpenError> {
        let (ports, hops) = (self.ports.len(), &spec.path.next_hops);
        if !hops.is_empty() && hops.len() != ports {
            return Err(OpenError::NextHops { given: hops.len(), ports });
        }
        if ports == 1 {
            return Ok(None);
        }
        let hop = |n: usize| hops.get(n).copied().unwrap_or(spec.remote.mac);
        Ok(Some(self.ports.iter().enumerate().map(|(n, port)| link_addresses(port.mac, hop(n))).collect()))
    }

    fn template(&self, spec: &QpSpec, encapsulation: Option<&Encapsulation>) -> Result<Template, OpenError> {
        let addressing = Addressing {
            source_mac: spec.local.mac,
            destination_mac: spec.remote.mac,
            vlan: spec.vlan,
            source: spec.local.ip,
            destination: spec.remote.ip,
            hop_limit: self.params.hop_limit,
            udp_port: self.params.udp_port,
        };
        Ok(match encapsulation {
            None => Template::new(&addressing)?,
            Some(outer) => Template::encapsulated(&addressing, outer)?,
        })
    }

    /// A full packet must fit the port.
    fn check_frame(&self, template: &Template, max: usize) -> Result<(), OpenError> {
        let mss = self.params.transport.mss;
        let timestamp = (self.params.transport.rtt_mode == RttMode::WireTimestamp).then(Timestamp::default);
        let headers = WriteHeaders { immediate: Some(0), timestamp, ..WriteHeaders::default() }.len();
        let frame = template.frame_len(headers, mss as usize);
        if frame <= max {
            return Ok(());
        }
        let fits = max.saturating_sub(template.frame_len(headers, 0)) & !3;
        Err(OpenError::FrameTooLong { mss, frame, max, fits })
    }

    /// The destination for an address; a new one when no QP is open with it.
    fn destination(&mut self, address: IpAddr) -> usize {
        if let Some(&at) = self.destination_of.get(&address) {
            return at;
        }
        let destination = Destination::new(address);
        let at = place(&mut self.destinations, &mut self.free_destinations, destination);
        self.destination_of.insert(address, at);
        at
    }

    /// Takes a QP from RTR to RTS: its first packet will have `psn`, and the peer takes what `peer` says. `false` when there is no
    /// such QP in RTR.
    pub fn ready_to_send(&mut self, qpn: Qpn, psn: Psn, peer: Advertised) -> bool {
        self.ready_to_send_with(qpn, psn, peer, Patience::of(&self.params.transport))
    }

    /// As [`Nic::ready_to_send`], with a patience of the QP's own.
    pub fn ready_to_send_with(&mut self, qpn: Qpn, psn: Psn, peer: Advertised, patience: Patience) -> bool {
        let params = patience.apply(self.params.transport);
        let Some(qp) = self.qp_mut(qpn).filter(|qp| qp.state == QpState::Rtr) else { return false };
        qp.requester =
            requester(&TransportParams { write_imm_limit: qp.write_imm_limit, ..params }, psn, peer, qp.send_depth);
        qp.state = QpState::Rts;
        let now = self.clock;
        if let Some((_, mut outcome)) = self.with_outcome(now, qpn.slot()) {
            outcome.tap.tell(now, Happening::Ready);
        }
        true
    }

    /// Closes a QP: what is outstanding completes as flushed, and packets for it are dropped from now on. `false` when there is none.
    pub fn close(&mut self, now: Ns, qpn: Qpn) -> bool {
        let slot = qpn.slot();
        let Some(mut qp) = self.qps.get_mut(slot).and_then(|entry| entry.take_if(|qp| qp.qpn == qpn)) else {
            return false;
        };
        let mut outcome = Outcome {
            now,
            qpn,
            address: qp.remote_ip,
            window: &mut self.groups[qp.group].window,
            rotation: None,
            completions: &mut self.completions,
            events: &mut self.events,
            stats: &self.stats,
            loans: &mut self.loans,
            recall: &mut self.recall,
            timeouts: 0,
            tap: Witness::of(&mut self.tap, &qp),
        };
        qp.requester.flush(&mut outcome);
        flush_receives(&mut qp, &mut outcome);
        outcome.tap.tell(now, Happening::Closed);
        if qp.state != QpState::Error {
            self.out_of_order -= qp.responder.out_of_order();
            self.held_immediates -= qp.responder.held_immediates();
        }
        self.probes.forget(qpn);
        for timer in 0..TIMERS_PER_QP {
            self.wheel.disarm(slot as u32 * TIMERS_PER_QP + timer);
        }
        self.owing.retain(|&s| s as usize != slot);
        self.aliases.retain(|alias| alias.slot != slot);
        self.leave_group(qp.group, slot);
        if let QpPath::Sprayed(at) = qp.path {
            self.leave_rotation(at);
        }
        let destination = &mut self.destinations[qp.destination];
        destination.qps.retain(|&s| s as usize != slot);
        if destination.qps.is_empty() {
            self.destination_of.remove(&destination.address);
            self.free_destinations.push(qp.destination);
        }
        true
    }
}

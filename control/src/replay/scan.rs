//! The first pass over a capture: what it holds, and which QPs its packets are for.

use super::Error;
use super::peers::Peers;
use crate::records::capture::{Capture, CutTail, LinkType};
use dataplane::nic::QPS_MAX;
use dataplane::transport::Psn;
use dataplane::wire::{ENDPOINT_QPN, Link, Opcode, Packet, Rules, Trim, parse};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A QP that packets of the capture are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Who sends to it.
    pub(super) source: IpAddr,
    /// Its own address.
    pub(super) destination: IpAddr,
    /// Its number.
    pub(super) dqp: u32,
    /// Link layer of its first packet.
    pub(super) link: Link,
    /// The lowest PSN of its data packets; 0 where only probes came.
    pub(super) first_psn: Psn,
    /// The number of the QP that sends to it, if the capture tells.
    pub(super) peer: Option<u32>,
    /// Entropy values of its packets.
    pub(super) evs: usize,
}

/// What a capture holds.
#[derive(Debug)]
pub(super) struct Scan {
    /// The file, for messages.
    pub(super) name: String,
    /// Packets.
    pub(super) packets: u64,
    /// Packets of which the capture holds less than was on the wire.
    pub(super) cut_by_snaplen: u64,
    /// The longest that is kept of a packet, where some were cut.
    pub(super) kept: usize,
    /// Packets in blocks that are not read here.
    pub(super) obsolete: u64,
    /// The last record, if the file's end cuts it off.
    pub(super) cut_tail: Option<CutTail>,
    /// QPs, in the order in which they appear; as many as a NIC takes.
    pub(super) flows: Vec<Flow>,
    /// QPs beyond these.
    pub(super) left_out: usize,
    /// The UDP port that most requests were sent to; `None` without any.
    pub(super) udp_port: Option<u16>,
}

/// The lowest of PSNs that come nearly in order, however many: each is placed by its distance from the highest so far.
#[derive(Clone, Copy)]
struct Lowest {
    highest: (Psn, i64),
    lowest: (Psn, i64),
}

impl Lowest {
    fn new(psn: Psn) -> Lowest {
        Lowest { highest: (psn, 0), lowest: (psn, 0) }
    }

    fn see(&mut self, psn: Psn) {
        let at = self.highest.1 + i64::from(psn.distance(self.highest.0));
        if at > self.highest.1 {
            self.highest = (psn, at);
        }
        if at < self.lowest.1 {
            self.lowest = (psn, at);
        }
    }
}

struct Found {
    order: usize,
    link: Link,
    psns: Option<Lowest>,
    evs: HashSet<u32>,
}

/// Finds the QPs.
#[derive(Default)]
pub(super) struct Finder {
    found: HashMap<(IpAddr, IpAddr, u32), Found>,
    left_out: HashSet<(IpAddr, IpAddr, u32)>,
    peers: Peers,
    ports: BTreeMap<u16, u64>,
}

impl Finder {
    /// Takes a packet. `frame` is all of it, or a packet that a switch trimmed.
    pub(super) fn see(&mut self, packet: &Packet, frame: &[u8]) {
        let data = packet.bth.opcode.is_data();
        // A wrong iCRC may well mean a wrong PSN or a wrong QP. A trimmed packet has none to check.
        let sound = match packet.trim {
            Trim::Whole => packet.icrc_ok(frame),
            Trim::Trimmed | Trim::LastHop => data,
        };
        if !sound || packet.bth.dqp == ENDPOINT_QPN {
            return;
        }
        if packet.trim == Trim::Whole {
            self.peers.learn(packet);
        }
        if !data && packet.bth.opcode != Opcode::Probe {
            return;
        }
        let key = (packet.ip.source, packet.ip.destination, packet.bth.dqp);
        let order = self.found.len();
        if order >= QPS_MAX && !self.found.contains_key(&key) {
            self.left_out.insert(key);
            return;
        }
        *self.ports.entry(packet.udp_destination).or_default() += 1;
        let found = self.found.entry(key).or_insert_with(|| Found {
            order,
            link: packet.link,
            psns: None,
            evs: HashSet::new(),
        });
        found.evs.insert(packet.ev());
        if data {
            let psn = Psn::new(packet.bth.psn);
            found.psns.get_or_insert_with(|| Lowest::new(psn)).see(psn);
        }
    }

    /// The QPs in the order in which they appeared.
    pub(super) fn flows(&self) -> Vec<Flow> {
        let mut found: Vec<_> = self.found.iter().collect();
        found.sort_unstable_by_key(|(_, found)| found.order);
        let flow = |(&(source, destination, dqp), found): (&(IpAddr, IpAddr, u32), &Found)| Flow {
            source,
            destination,
            dqp,
            link: found.link,
            first_psn: found.psns.map_or(Psn::new(0), |psns| psns.lowest.0),
            peer: self.peers.of(source, destination, dqp),
            evs: found.evs.len(),
        };
        found.into_iter().map(flow).collect()
    }

    fn udp_port(&self) -> Option<u16> {
        self.ports.iter().max_by_key(|&(&port, &count)| (count, std::cmp::Reverse(port))).map(|(&port, _)| port)
    }
}

/// Reads the capture at `path` from end to end.
///
/// # Errors
/// The file is no capture, is damaged, or has packets that a `net_pcap` port would not hand on as they are.
pub(super) fn scan(path: &Path, rules: &Rules, stop: &AtomicBool) -> Result<Scan, Error> {
    let mut capture = Capture::open(path)?;
    let mut finder = Finder::default();
    let mut kept = 0;
    while let Some(captured) = capture.next_packet()? {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if captured.is_cut() {
            kept = kept.max(captured.bytes.len());
        }
        if captured.link_type.is_ethernet()
            && let Ok(packet) = parse(captured.bytes, captured.bytes.len(), rules)
        {
            finder.see(&packet, captured.bytes);
        }
    }
    let other = |link_type: LinkType| (!link_type.is_ethernet()).then_some(link_type);
    if let Some(other) = capture.facts().interfaces.iter().find_map(|interface| other(interface.link_type)) {
        return Err(Error::MixedLinkTypes { name: capture.name().to_owned(), other });
    }
    let seen = capture.observations();
    Ok(Scan {
        name: capture.name().to_owned(),
        packets: seen.packets,
        cut_by_snaplen: seen.cut_by_snaplen,
        kept,
        obsolete: seen.obsolete_packets,
        cut_tail: seen.cut_tail,
        flows: finder.flows(),
        left_out: finder.left_out.len(),
        udp_port: finder.udp_port(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, C, corrupt, packet, probe, sack, trimmed, write};
    use super::*;

    fn flows(frames: &[Vec<u8>]) -> Vec<Flow> {
        let mut finder = Finder::default();
        for frame in frames {
            finder.see(&packet(frame), frame);
        }
        finder.flows()
    }

    fn first_psns(frames: &[Vec<u8>]) -> Vec<u32> {
        flows(frames).iter().map(|flow| flow.first_psn.get()).collect()
    }

    #[test]
    fn a_qp_begins_at_its_lowest_psn_also_across_the_wrap() {
        let psns = [0xFF_FFFE, 0xFF_FFFF, 1, 0xFF_FFFD, 0];
        assert_eq!(first_psns(&psns.map(|psn| write(A, B, 0x01_0000, psn))), [0xFF_FFFD]);
    }

    #[test]
    fn a_long_capture_that_goes_round_the_psns_still_begins_where_it_began() {
        let mut lowest = Lowest::new(Psn::new(5));
        for step in 0..40 {
            lowest.see(Psn::new(5).plus(step * 1_000_000));
        }
        assert_eq!(lowest.lowest.0, Psn::new(5));
    }

    #[test]
    fn qps_are_told_apart_by_source_destination_and_number_and_keep_their_order() {
        let frames =
            [write(A, C, 9, 70), write(A, B, 9, 50), write(C, B, 9, 60), write(A, B, 8, 40), write(A, B, 9, 49)];
        let keys: Vec<_> = flows(&frames).iter().map(|f| (f.source, f.destination, f.dqp, f.first_psn.get())).collect();
        assert_eq!(keys, [(A, C, 9, 70), (A, B, 9, 49), (C, B, 9, 60), (A, B, 8, 40)]);
    }

    #[test]
    fn probes_alone_make_a_qp_that_begins_at_zero_and_beside_data_say_nothing() {
        assert_eq!(first_psns(&[probe(A, B, 7, 1), probe(A, B, 8, 1), write(A, B, 8, 4_000)]), [0, 4_000]);
    }

    #[test]
    fn a_packet_with_a_wrong_icrc_teaches_nothing_and_a_trimmed_one_its_psn() {
        let frames =
            [write(A, B, 7, 100), corrupt(write(A, B, 7, 3)), trimmed(write(A, B, 7, 99)), corrupt(probe(A, B, 9, 1))];
        assert_eq!(first_psns(&frames), [99]);
    }

    #[test]
    fn acknowledgements_and_endpoint_operations_make_no_qp() {
        assert_eq!(flows(&[sack(B, A, 7, 1, 5), write(A, B, ENDPOINT_QPN, 5)]), []);
    }

    #[test]
    fn answers_go_to_the_port_that_most_requests_were_sent_to() {
        let mut finder = Finder::default();
        assert_eq!(finder.udp_port(), None);
        for port in [4791, 4971, 4971] {
            let mut one = packet(&write(A, B, 7, 1));
            one.udp_destination = port;
            finder.see(&one, &write(A, B, 7, 1));
        }
        assert_eq!(finder.udp_port(), Some(4971));
    }
}

//! Which QPs are the two ends of one connection: what a capture tells of the number at the far end.
//!
//! A packet names the QP that it is sent to and no other. The number of the QP that sent it is known from what comes back, where
//! the capture holds both directions.

use dataplane::wire::{ENDPOINT_QPN, Ext, Packet};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// The packets from one address to another.
#[derive(Default)]
struct Direction {
    /// QPs that they were sent to.
    dqps: BTreeSet<u32>,
    /// Low half of a sender's number, and the QP that it sends to; how often.
    ties: BTreeMap<(u16, u32), u64>,
}

impl Direction {
    /// The most frequent of the ties that `pick` takes; the lowest of equals.
    fn most<T>(&self, pick: impl Fn(u16, u32) -> Option<T>) -> Option<T> {
        let mut best: Option<(u64, T)> = None;
        for (&(sender, dqp), &count) in &self.ties {
            if let Some(value) = pick(sender, dqp)
                && best.as_ref().is_none_or(|(most, _)| count > *most)
            {
                best = Some((count, value));
            }
        }
        best.map(|(_, value)| value)
    }
}

/// What a capture tells of who talks to whom.
#[derive(Default)]
pub(super) struct Peers {
    directions: HashMap<(IpAddr, IpAddr), Direction>,
}

impl Peers {
    /// Takes a packet whose iCRC is right.
    pub(super) fn learn(&mut self, packet: &Packet) {
        let dqp = packet.bth.dqp;
        let ends = match &packet.ext {
            Ext::Sack(sack) => Some((sack.spdcid, sack.dpdcid)),
            Ext::Nack(nack) => Some((nack.spdcid, nack.dpdcid)),
            Ext::Probe(probe) => Some((probe.spdcid, probe.dpdcid)),
            // Neither tells of its sender.
            Ext::Write(_) | Ext::Ack(_) => None,
            Ext::EndpointRequest(_) | Ext::EndpointResponse(_) | Ext::Cut => return,
        };
        if dqp == ENDPOINT_QPN {
            return;
        }
        let direction = self.directions.entry((packet.ip.source, packet.ip.destination)).or_default();
        direction.dqps.insert(dqp);
        // A stack that does not number them so ties nothing.
        if let Some((spdcid, dpdcid)) = ends
            && dpdcid == dqp as u16
        {
            *direction.ties.entry((spdcid, dqp)).or_default() += 1;
        }
    }

    /// The number of the QP at `source` that sends to `dqp` at `destination`, if the capture tells. In this order:
    ///
    /// 1. A SACK, NACK or probe that came back names its sender by the low 16 bits of `dqp`: the QP that it was sent to.
    /// 2. A SACK, NACK or probe to `dqp` gives the low 16 bits of its sender, and just one QP with these was sent to.
    /// 3. Between the two addresses, just one QP was sent to each way.
    pub(super) fn of(&self, source: IpAddr, destination: IpAddr, dqp: u32) -> Option<u32> {
        let back = self.directions.get(&(destination, source))?;
        if let Some(peer) = back.most(|sender, to| (sender == dqp as u16).then_some(to)) {
            return Some(peer);
        }
        let there = self.directions.get(&(source, destination))?;
        if let Some(low) = there.most(|sender, to| (to == dqp).then_some(sender)) {
            let mut fitting = back.dqps.iter().copied().filter(|&qpn| qpn as u16 == low);
            if let (Some(peer), None) = (fitting.next(), fitting.next()) {
                return Some(peer);
            }
        }
        match (there.dqps.len(), back.dqps.first()) {
            (1, Some(&peer)) if back.dqps.len() == 1 => Some(peer),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, C, packet, probe, sack, write};
    use super::*;

    fn peers(frames: &[Vec<u8>]) -> Peers {
        let mut peers = Peers::default();
        for frame in frames {
            peers.learn(&packet(frame));
        }
        peers
    }

    #[test]
    fn one_qp_each_way_is_a_pair_whatever_came_back() {
        let peers = peers(&[write(A, B, 0x01_0005, 1), write(B, A, 0x02_0007, 9), write(A, C, 0x01_0009, 1)]);
        assert_eq!(peers.of(A, B, 0x01_0005), Some(0x02_0007));
        assert_eq!(peers.of(B, A, 0x02_0007), Some(0x01_0005));
        assert_eq!(peers.of(A, C, 0x01_0009), None, "nothing came back");
    }

    #[test]
    fn sacks_tie_several_qps_of_two_addresses() {
        let peers = peers(&[
            write(A, B, 0x01_0005, 1),
            write(A, B, 0x01_0006, 1),
            sack(B, A, 0x02_0008, 0x0005, 1),
            sack(B, A, 0x03_0001, 0x0006, 1),
        ]);
        assert_eq!(peers.of(A, B, 0x01_0005), Some(0x02_0008));
        assert_eq!(peers.of(A, B, 0x01_0006), Some(0x03_0001));
        assert_eq!(peers.of(B, A, 0x02_0008), Some(0x01_0005), "the sender's low half fits one QP");
    }

    #[test]
    fn a_probe_gives_the_low_half_and_the_way_back_the_rest() {
        let peers = peers(&[
            probe(A, B, 0x01_0005, 0x0008),
            write(A, B, 0x01_0006, 1),
            write(B, A, 0x02_0008, 4),
            write(B, A, 0x02_0009, 4),
        ]);
        assert_eq!(peers.of(A, B, 0x01_0005), Some(0x02_0008));
        assert_eq!(peers.of(A, B, 0x01_0006), None, "two came back, and nothing ties it to either");
    }

    #[test]
    fn numbers_that_contradict_each_other_tie_nothing() {
        let mut odd = packet(&sack(B, A, 0x02_0008, 0x0005, 1));
        if let Ext::Sack(sack) = &mut odd.ext {
            sack.dpdcid = 0x1234;
        }
        let mut peers = peers(&[write(A, B, 0x01_0005, 1), write(A, B, 0x01_0006, 1)]);
        peers.learn(&odd);
        assert_eq!(peers.of(A, B, 0x01_0005), None);
    }
}

//! The neighbours of a NIC, as the control thread looks after them.

use super::slow_link::{SLOW_RING, SlowControlEnd};
use super::{Command, Controller};
use crate::neighbour::{NeighbourError, Neighbours, Resolved};
use dataplane::Ns;
use dataplane::nic::{PortId, SlowFrame};
use dataplane::time::SEC;
use dataplane::wire::MacAddr;
use std::net::IpAddr;
use std::sync::mpsc;

/// Frames of each worker that one turn of the control thread takes at most.
const A_TURN: usize = 2 * SLOW_RING;
/// Who uses the NIC's address is told of so often at most, in ns.
const CONFLICT_NS: u64 = 10 * SEC;

/// Who waits for an address.
#[derive(Debug)]
struct Asker {
    token: u32,
    ip: IpAddr,
    answer: mpsc::Sender<Resolved>,
}

/// The neighbours of a NIC, and the ways to its ports.
#[derive(Debug)]
pub struct Vicinity {
    neighbours: Neighbours,
    rings: Vec<SlowControlEnd>,
    askers: Vec<Asker>,
    warned: Option<Ns>,
}

impl Vicinity {
    /// The neighbours of a NIC whose worker i is at ring i.
    #[must_use]
    pub const fn new(neighbours: Neighbours, rings: Vec<SlowControlEnd>) -> Vicinity {
        Vicinity { neighbours, rings, askers: Vec::new(), warned: None }
    }

    /// The neighbours.
    #[must_use]
    pub const fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Sees which ports are in use.
    fn look_at_ports(&mut self, now: Ns, controller: &Controller) {
        for (port, status) in (0..).map(PortId).zip(controller.ports()) {
            self.neighbours.set_port(now, port, status.in_use());
        }
    }

    /// Asks for an address: `answer` gets it, and whoever has it releases it.
    pub(super) fn resolve(&mut self, now: Ns, ip: IpAddr, known: Vec<MacAddr>, answer: mpsc::Sender<Resolved>) {
        let token = self.neighbours.resolve(now, ip, known);
        self.askers.push(Asker { token, ip, answer });
    }

    /// One that was answered needs the address no more.
    pub(super) fn release(&mut self, ip: IpAddr) {
        self.neighbours.release(ip);
    }

    /// QPs with this address were opened.
    pub(super) fn repeat(&mut self, ip: IpAddr) {
        self.neighbours.repeat(ip);
    }

    /// When it has something to do by itself.
    pub(super) const fn next_wake(&self) -> Option<Ns> {
        self.neighbours.next_wake()
    }

    /// Hears what came, lets time pass, and passes on what is to be sent, and who was found.
    pub(super) fn turn(&mut self, now: Ns, name: &str, controller: &mut Controller) {
        self.look_at_ports(now, controller);
        for at in 0..self.rings.len() {
            for _ in 0..A_TURN {
                let Some(frame) = self.rings[at].poll() else { break };
                // It is counted, whatever becomes of it.
                let _ = self.neighbours.on_frame(now, frame.port, frame.bytes());
                // What it draws leaves by the worker that it came to.
                self.send(at);
            }
        }
        self.neighbours.on_time(now);
        self.send(0);
        while let Some(hop) = self.neighbours.poll_next_hop() {
            controller.pass_on(Command::NextHop(hop));
        }
        while let Some((token, resolved)) = self.neighbours.poll_resolved() {
            self.answer(token, resolved);
        }
        if let Some(mac) = self.neighbours.poll_conflict()
            && self.warned.is_none_or(|at| now.since(at) >= CONFLICT_NS)
        {
            self.warned = Some(now);
            tracing::warn!(nic = name, %mac, "somebody else uses the NIC's IP address: give one of the two another");
        }
    }

    fn send(&mut self, at: usize) {
        while let Some((port, bytes)) = self.neighbours.poll_frame() {
            let sent = SlowFrame::new(port, &bytes).zip(self.rings.get(at));
            if sent.is_none_or(|(frame, ring)| !ring.send(frame)) {
                self.neighbours.count_unsent();
            }
        }
    }

    fn answer(&mut self, token: u32, resolved: Resolved) {
        let Some(at) = self.askers.iter().position(|asker| asker.token == token) else { return };
        let Asker { ip, answer, .. } = self.askers.swap_remove(at);
        let found = resolved.is_ok();
        // Who has gone meanwhile needs it no more.
        if answer.send(resolved).is_err() && found {
            self.neighbours.release(ip);
        }
    }
}

/// What a NIC without neighbours says.
pub(super) fn no_neighbours(ip: IpAddr) -> Resolved {
    Err(NeighbourError::NoAddress { ip })
}

#[cfg(test)]
mod tests {
    use super::super::{PROBE_PERIOD, slow_link};
    use super::*;
    use crate::neighbour::{InterfaceAddress, NeighbourPort, NeighbourSpec};
    use dataplane::nic::{DropReason, Nic, NicParams, PortInfo, TxBurst};

    const MTU: usize = 1_514;

    /// A NIC without its threads.
    struct End {
        nic: Nic,
        controller: Controller,
        vicinity: Vicinity,
        sent: Vec<Vec<u8>>,
    }

    struct Out<'a>(&'a mut Vec<Vec<u8>>);

    impl TxBurst for Out<'_> {
        fn slot(&mut self, _: PortId, len: usize) -> Option<&mut [u8]> {
            self.0.push(vec![0; len]);
            self.0.last_mut().map(Vec::as_mut_slice)
        }

        fn commit(&mut self) {}
    }

    impl End {
        fn new(n: u8) -> End {
            let mac = MacAddr([2, 0, 0, 0, 0, n]);
            let mut nic = Nic::new(NicParams::default(), &[PortInfo { mac, max_frame: MTU }]).unwrap();
            let (worker, control) = slow_link(None);
            nic.set_slow_path(Some(Box::new(worker)));
            let spec = NeighbourSpec::new(InterfaceAddress::from(IpAddr::from([10, 0, 0, n])));
            let port = NeighbourPort { name: format!("net_tap{n}"), mac, on_ethernet: true };
            let vicinity = Vicinity::new(Neighbours::new(spec, vec![port]), vec![control]);
            let controller = Controller::new(PROBE_PERIOD, 1, 1);
            let mut end = End { nic, controller, vicinity, sent: Vec::new() };
            end.turn(Ns(1));
            assert_eq!(std::mem::take(&mut end.sent).len(), 1, "it tells its address");
            end
        }

        fn turn(&mut self, now: Ns) {
            self.vicinity.turn(now, "a", &mut self.controller);
            let sent = self.nic.transmit(now, &mut Out(&mut self.sent));
            self.nic.sent(now, PortId(0), sent);
        }

        fn hear(&mut self, now: Ns, other: &mut End) {
            for frame in other.sent.drain(..) {
                self.nic.receive(now, PortId(0), &frame.as_slice()).unwrap();
            }
        }
    }

    #[test]
    fn two_nics_find_each_other_through_their_engines_and_who_has_gone_holds_nothing() {
        let (mut a, mut b) = (End::new(1), End::new(2));
        let (answer, answers) = mpsc::channel();
        a.vicinity.resolve(Ns(2), IpAddr::from([10, 0, 0, 2]), Vec::new(), answer.clone());
        a.turn(Ns(2));
        b.hear(Ns(3), &mut a);
        b.turn(Ns(3));
        a.hear(Ns(4), &mut b);
        a.turn(Ns(4));
        assert_eq!(answers.try_recv().unwrap(), Ok(vec![MacAddr([2, 0, 0, 0, 0, 2])]));
        // One who does not wait for the answer holds nothing.
        let (gone, _) = mpsc::channel();
        a.vicinity.resolve(Ns(5), IpAddr::from([10, 0, 0, 2]), Vec::new(), gone);
        a.vicinity.release(IpAddr::from([10, 0, 0, 2]));
        for second in 1..200 {
            a.turn(Ns(second * SEC));
        }
        assert_eq!((a.vicinity.neighbours().table().count(), a.vicinity.next_wake()), (0, None));
    }

    #[test]
    fn a_flood_fills_the_ring_and_no_more_and_is_counted() {
        let mut a = End::new(1);
        let arp = [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 2, 8, 6], &[0; 28]].concat();
        for n in 0..100 {
            let taken = a.nic.receive(Ns(2), PortId(0), &arp.as_slice());
            assert_eq!(taken, if n < SLOW_RING { Ok(()) } else { Err(DropReason::SlowPathFull) });
        }
        assert_eq!(a.nic.stats().drops_by(DropReason::SlowPathFull), 100 - SLOW_RING as u64);
        a.turn(Ns(3));
        assert!(a.nic.receive(Ns(4), PortId(0), &arp.as_slice()).is_ok(), "there is room again");
    }
}

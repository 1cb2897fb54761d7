//! What an observer of the engine sees: each packet that it sends or receives, and the lives of QPs and requests.
//!
//! An engine without an observer pays a test for each packet. One with an observer looks at received frames twice.

use super::qp::QpPath;
use super::rotations::{Rotation, Way};
use super::{DropReason, Nic, PortId, Qp, RxFrame};
use crate::Ns;
use crate::memory::copy_bytes;
use crate::path::EvState;
use crate::transport::{Again, Completion, Fault, Operation, WriteRequest};
use crate::wire::{Ext, Opcode, Packet, Trim, parse};
use core::net::IpAddr;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sent for the first time.
    Tx,
    /// Data that is sent again, for this reason.
    Rtx(Again),
    /// Received.
    Rx,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Data of a Write.
    Write,
    /// A transport ACK or NAK.
    Ack,
    /// A SACK, the answer to a probe too.
    Sack,
    /// A NACK.
    Nack,
    /// A reliability probe.
    Probe,
    /// An endpoint operation, of no QP.
    Endpoint,
}

/// The two ends of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QpEnds {
    /// Address of this end.
    pub local: IpAddr,
    /// Number of this end, as it is on the wire.
    pub qpn: u32,
    /// Address of the other end.
    pub remote: IpAddr,
    /// Number of the other end.
    pub peer_qpn: u32,
}

impl QpEnds {
    pub(super) const fn of(qp: &Qp) -> QpEnds {
        QpEnds { local: qp.local_ip, qpn: qp.wire_qpn, remote: qp.remote_ip, peer_qpn: qp.peer_qpn }
    }
}

/// A packet, as the engine saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Ns,
    /// The port that it leaves or came by.
    pub port: PortId,
    /// Which way.
    pub direction: Direction,
    /// What it is; `None` for received bytes that are no MRC packet.
    pub kind: Option<PacketKind>,
    /// Its QP, where it has one here.
    pub qp: Option<QpEnds>,
    /// PSN of its BTH.
    pub psn: u32,
    /// Entropy value: of a packet sent the value that it is sent on, or that it carries back; of one received its UDP source port (over
    /// IPv6 with the bits of the flow label).
    pub ev: u32,
    /// State of that value towards the peer, where packets are sprayed and the value is one of the active set.
    pub ev_state: Option<EvState>,
    /// Bytes of the frame, without FCS.
    pub frame_len: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// ECN field, 0 to 3.
    pub ecn: u8,
    /// Whether a switch cut it.
    pub trim: Trim,
    /// Reason of a NACK.
    pub nack: Option<u8>,
    /// What became of it: a reason where it was received in vain.
    pub verdict: Result<(), DropReason>,
}

/// Something in the life of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeEvent {
    /// When.
    pub at: Ns,
    /// Whose.
    pub qp: QpEnds,
    /// What.
    pub what: Happening,
}

/// What happens in the life of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It was opened: ready to receive, or to send too.
    Opened,
    /// It is ready to send, after it was ready to receive.
    Ready,
    /// It went into the error state: for this reason, or because it refused a message of its peer.
    Failed(Option<Fault>),
    /// It was closed.
    Closed,
    /// A request was posted; a receive has no length yet.
    Posted {
        /// The number that its poster gave it.
        wr_id: u64,
        /// What it is; the immediate of a receive is not known yet.
        operation: Operation,
        /// Bytes.
        len: u32,
    },
    /// A request ended.
    Completed(Completion),
    /// The retransmission timer of a packet ran out, which had left on this value.
    TimedOut {
        /// The value.
        ev: u32,
    },
}

/// The bytes of a frame, for who wants to keep them.
pub trait FrameBytes {
    /// Copies the first bytes into `out`, as many as both have; how many.
    fn copy_to(&self, out: &mut [u8]) -> usize;
}

impl FrameBytes for &[u8] {
    fn copy_to(&self, out: &mut [u8]) -> usize {
        let count = self.len().min(out.len());
        out[..count].copy_from_slice(&self[..count]);
        count
    }
}

/// A received frame.
struct Received<'a, F>(&'a F);

impl<F: RxFrame> FrameBytes for Received<'_, F> {
    fn copy_to(&self, out: &mut [u8]) -> usize {
        copy_bytes(self.0, 0, out)
    }
}

/// Looks on. It runs on the worker, in the path of packets: it must not wait.
pub trait Tap: Send {
    /// A packet is about to be handed to its port, or was received and judged.
    fn packet(&mut self, seen: &Seen, frame: &dyn FrameBytes);
    /// Something happened to a QP or a request.
    fn event(&mut self, event: &LifeEvent);
}

/// Where an observer is put, or not.
pub(super) type TapSlot = Option<Box<dyn Tap>>;

/// Who is told what happens to a QP, if there is anybody.
pub(super) struct Witness<'a>(Option<(&'a mut (dyn Tap + 'static), QpEnds)>);

impl Witness<'_> {
    #[inline]
    pub(super) fn of<'a>(tap: &'a mut TapSlot, qp: &Qp) -> Witness<'a> {
        Witness(tap.as_deref_mut().map(|tap| (tap, QpEnds::of(qp))))
    }

    #[inline]
    pub(super) fn tell(&mut self, at: Ns, what: Happening) {
        if let Some((tap, qp)) = &mut self.0 {
            tap.event(&LifeEvent { at, qp: *qp, what });
        }
    }
}

/// What is told of a request that is posted.
pub(super) const fn posted(request: &WriteRequest) -> Happening {
    Happening::Posted { wr_id: request.wr_id, operation: request.operation(), len: request.len }
}

/// A packet of a QP that is written, as far as the QP does not tell.
pub(super) struct Leaving<'a> {
    pub(super) at: Ns,
    pub(super) way: &'a Way,
    pub(super) direction: Direction,
    pub(super) kind: PacketKind,
    pub(super) psn: u32,
    pub(super) payload: usize,
    pub(super) ecn: u8,
    pub(super) nack: Option<u8>,
    pub(super) frame: &'a [u8],
}

fn ev_state(rotations: &[Rotation], path: QpPath, ev: u32) -> Option<EvState> {
    match path {
        QpPath::Sprayed(at) => rotations.get(at)?.spraying.state(ev),
        QpPath::Own(_) => None,
    }
}

/// Shows an observer a packet that is written and not yet committed.
#[cold]
pub(super) fn show(tap: &mut dyn Tap, rotations: &[Rotation], qp: &Qp, leaving: &Leaving<'_>) {
    let Leaving { at, way, direction, kind, psn, payload, ecn, nack, frame } = *leaving;
    let seen = Seen {
        at,
        port: way.route.port(),
        direction,
        kind: Some(kind),
        qp: Some(QpEnds::of(qp)),
        psn,
        ev: way.route.ev(),
        ev_state: ev_state(rotations, qp.path, way.route.ev()),
        frame_len: frame.len() as u32,
        payload: payload as u32,
        ecn,
        trim: Trim::Whole,
        nack,
        verdict: Ok(()),
    };
    tap.packet(&seen, &frame);
}

/// Shows an observer a frame of no QP that is written and not yet committed.
#[cold]
pub(super) fn show_endpoint(tap: &mut dyn Tap, at: Ns, port: PortId, psn: u32, ev: u32, frame: &[u8]) {
    let seen = Seen {
        kind: Some(PacketKind::Endpoint),
        psn,
        ev,
        ..Seen::unknown(at, port, Direction::Tx, frame.len() as u32, Ok(()))
    };
    tap.packet(&seen, &frame);
}

impl Seen {
    const fn unknown(
        at: Ns,
        port: PortId,
        direction: Direction,
        frame_len: u32,
        verdict: Result<(), DropReason>,
    ) -> Seen {
        Seen {
            at,
            port,
            direction,
            kind: None,
            qp: None,
            psn: 0,
            ev: 0,
            ev_state: None,
            frame_len,
            payload: 0,
            ecn: 0,
            trim: Trim::Whole,
            nack: None,
            verdict,
        }
    }
}

const fn kind(opcode: Opcode) -> PacketKind {
    match opcode {
        Opcode::Ack => PacketKind::Ack,
        Opcode::Sack => PacketKind::Sack,
        Opcode::Nack => PacketKind::Nack,
        Opcode::Probe => PacketKind::Probe,
        Opcode::EndpointRequest | Opcode::EndpointResponse => PacketKind::Endpoint,
        _ => PacketKind::Write,
    }
}

impl Nic {
    /// Puts an observer into its place, or takes it out.
    pub fn set_tap(&mut self, tap: Option<Box<dyn Tap>>) {
        self.tap = tap;
    }

    /// Says what time it is: requests that are posted from now on are posted then. [`Nic::on_time`] says so too.
    pub const fn tell_time(&mut self, now: Ns) {
        self.clock = now;
    }

    /// Shows the observer a frame that was received and judged.
    #[cold]
    pub(super) fn show_received<F: RxFrame>(
        &mut self,
        now: Ns,
        port: PortId,
        frame: &F,
        verdict: Result<(), DropReason>,
    ) {
        let unknown = Seen::unknown(now, port, Direction::Rx, frame.len() as u32, verdict);
        let packet = parse(frame.head(), frame.len(), &self.rules).ok();
        let seen = packet.as_ref().map_or(unknown, |packet| self.seen(packet, unknown));
        if let Some(tap) = &mut self.tap {
            tap.packet(&seen, &Received(frame));
        }
    }

    fn seen(&self, packet: &Packet, unknown: Seen) -> Seen {
        let qp = self.find(packet).ok().and_then(|slot| self.qps[slot].as_deref());
        let ev = packet.ev();
        Seen {
            kind: Some(kind(packet.bth.opcode)),
            qp: qp.map(QpEnds::of),
            psn: packet.bth.psn,
            ev,
            ev_state: qp.and_then(|qp| ev_state(&self.rotations, qp.path, ev)),
            payload: packet.payload_len as u32,
            ecn: packet.ip.ecn,
            trim: packet.trim,
            nack: if let Ext::Nack(nack) = &packet.ext { Some(nack.reason) } else { None },
            ..unknown
        }
    }
}

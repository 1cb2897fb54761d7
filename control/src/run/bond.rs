//! The QPs with one peer, from the exchange of their numbers on.

use super::file::PeerTable;
use super::region::Room;
use crate::controller::WriteOrder;
use crate::host::{
    CompletionQueue, Device, Offer, QpOffer, QueuePair, Reach, RegionOffer, ToInit, ToRts, WriteRequest,
};
use dataplane::memory::Key;
use dataplane::nic::{PathSpec, Paths, PortId, Status};
use dataplane::transport::{MESSAGE_MAX, Psn};
use dataplane::wire::MacAddr;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Writes in flight on each QP.
const SEND_DEPTH: usize = 64;
/// Receives that wait on each QP.
pub(super) const RECEIVE_DEPTH: usize = 16;
/// How often a write that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(10);

/// What all bonds of a NIC are made with.
pub(super) struct Ways {
    pub(super) device: Device,
    /// Where all receives complete.
    pub(super) receive: CompletionQueue,
    pub(super) ip: IpAddr,
    /// The Ethernet address of each port.
    pub(super) macs: Vec<MacAddr>,
    pub(super) vlan: Option<u16>,
    /// How the packets of a QP find their way, with this UDP source port where they have one of their own.
    pub(super) paths: fn(u16) -> Paths,
}

/// QPs that the peer does not know yet.
pub(super) struct Prepared {
    pub(super) own: Offer,
    qps: Vec<QueuePair>,
    send: CompletionQueue,
    room: Arc<Room>,
}

/// QPs that are joined with a peer's.
#[derive(Debug)]
pub(super) struct Bond {
    pub(super) own: Offer,
    pub(super) other: Offer,
    pub(super) qps: Vec<QueuePair>,
    send: CompletionQueue,
    room: Arc<Room>,
    writer: Mutex<Writer>,
    /// A QP has failed: with others it would be well again.
    pub(super) broken: AtomicBool,
    /// Others have taken its place, or the peer is in the file no more.
    pub(super) parted: AtomicBool,
    /// Immediates received, and the last.
    pub(super) immediates: AtomicU64,
    pub(super) last_immediate: AtomicU32,
}

#[derive(Debug, Default)]
struct Writer {
    /// Number of the next request: those below are of orders that have ended.
    next: u64,
    /// The QP that is next.
    qp: usize,
}

/// What came of an order.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) messages: u64,
    /// Messages that did not succeed, by how they ended.
    pub(super) failed: BTreeMap<&'static str, u64>,
    /// Messages of which nothing was heard in time.
    pub(super) unheard: u64,
    pub(super) took: Duration,
    /// Why not all of them were posted.
    pub(super) cut: Option<String>,
}

/// Why an order ends before its time.
pub(super) enum Halt {
    /// No new messages: those in flight are waited for.
    Drain,
    /// At once.
    End,
}

impl Ways {
    /// Asks for a peer, where one is to be asked for: the NIC is on an Ethernet, and the file has no Ethernet addresses for it, neither as `hops` nor,
    /// where it has all its numbers (`told`), among these.
    pub(super) fn find(&self, other: &Offer, hops: &[MacAddr], told: bool) -> Result<Option<Reach>, String> {
        let asks = self.device.has_neighbours() && hops.is_empty() && (!told || other.macs.is_empty());
        asks.then(|| self.device.reach(other.ip, &other.macs)).transpose().map_err(|e| e.to_string())
    }
}

impl Prepared {
    /// Makes QPs, whose first PSNs `psn` gives.
    pub(super) fn new(
        ways: &Ways,
        room: &Arc<Room>,
        peer: &PeerTable,
        psn: impl Fn() -> u32,
    ) -> Result<Prepared, String> {
        let qps = peer.qps;
        let device = &ways.device;
        let transport = &device.params().transport;
        let said = |e: crate::host::HostError| e.to_string();
        let send = device.completion_queue(qps * SEND_DEPTH).map_err(said)?;
        let ports = device.ports().len();
        let mut made = Vec::with_capacity(qps);
        for n in 0..qps {
            let qp = room.domain.create_qp(&send, &ways.receive).map_err(said)?;
            qp.init(ToInit {
                // Those that are not sprayed take the ports in turn.
                port: PortId((n % ports) as u8),
                send_depth: SEND_DEPTH,
                receive_depth: RECEIVE_DEPTH,
                write_imm_limit: transport.write_imm_limit.min(RECEIVE_DEPTH as u32),
            })
            .map_err(said)?;
            if let Some(id) = peer.profile {
                qp.bind_profile(id).map_err(said)?;
            }
            qp.renew_receives(true);
            for wr_id in 0..RECEIVE_DEPTH as u64 {
                qp.post_recv(wr_id).map_err(said)?;
            }
            made.push(qp);
        }
        let own = Offer {
            ip: ways.ip,
            macs: ways.macs.clone(),
            mss: transport.mss,
            window: transport.max_psn_range,
            immediates: transport.write_imm_limit.min(RECEIVE_DEPTH as u32),
            qps: made.iter().map(|qp| QpOffer { qpn: qp.qpn().get(), psn: psn() }).collect(),
            region: Some(RegionOffer {
                key: room.region.key().0,
                address: room.region.address(),
                size: room.region.len() as u64,
            }),
        };
        Ok(Prepared { own, qps: made, send, room: Arc::clone(room) })
    }

    /// Brings the QPs to RTS. `hops` are the Ethernet addresses to send to, where the file has them; else those of `reach`, if the peer was asked
    /// for, or the peer's own.
    pub(super) fn join(
        self,
        ways: &Ways,
        other: Offer,
        hops: &[MacAddr],
        reach: Option<&Reach>,
    ) -> Result<Bond, String> {
        let Prepared { own, qps, send, room } = self;
        let said = |e: crate::host::HostError| e.to_string();
        let macs = reach.filter(|_| other.macs.is_empty()).map_or(other.macs, |reach| reach.macs().to_vec());
        let other = Offer { macs, ..other };
        own.check(&other)?;
        let next_hops = match (hops.is_empty(), own.macs.len()) {
            (false, _) => hops.to_vec(),
            (true, 1) => Vec::new(),
            (true, _) => other.macs.clone(),
        };
        for (n, qp) in qps.iter().enumerate() {
            let paths = (ways.paths)(49_152 + (n % 16_384) as u16);
            let path = PathSpec { paths, next_hops: next_hops.clone(), encapsulation: None, follows: false };
            let rtr = own.to_rtr(&other, n, path, ways.vlan, None).ok_or("an offer of too few QPs")?;
            match reach {
                Some(reach) => qp.rtr_by(&rtr, reach),
                None => qp.rtr(&rtr),
            }
            .map_err(said)?;
            let send_psn = Psn::new(own.qps[n].psn);
            qp.rts(ToRts { send_psn, peer: other.advertised() }).map_err(said)?;
        }
        Ok(Bond {
            own,
            other,
            qps,
            send,
            room,
            writer: Mutex::default(),
            broken: AtomicBool::new(false),
            parted: AtomicBool::new(false),
            immediates: AtomicU64::new(0),
            last_immediate: AtomicU32::new(0),
        })
    }
}

impl Bond {
    /// Whether an order stays within both regions.
    pub(super) fn check(&self, order: &WriteOrder) -> Result<(), String> {
        if order.size > MESSAGE_MAX {
            return Err(format!("a message of {} bytes: it has {MESSAGE_MAX} at most", order.size));
        }
        let Some(remote) = self.other.region else {
            return Err("the peer offers no region to write to".into());
        };
        let sides = [("local", order.local, self.room.region.len() as u64), ("remote", order.remote, remote.size)];
        for (what, at, size) in sides {
            if at.checked_add(order.size.into()).is_none_or(|end| end > size) {
                let len = order.size;
                return Err(format!(
                    "{len} bytes at {at} leave the {what} region, which has {size}: give --size and --{what} within it"
                ));
            }
        }
        Ok(())
    }

    /// Writes, and waits for all of it: one order at a time. `halt` says when it is to end before.
    pub(super) fn write(&self, order: &WriteOrder, halt: impl Fn() -> Option<Halt>) -> Written {
        let (began, patience) = (Instant::now(), order.patience());
        let (mut written, mut ended) = (Written::default(), 0);
        let mut writer = loop {
            match self.writer.try_lock() {
                Ok(writer) => break writer,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if began.elapsed() > patience || halt().is_some() => {
                    written.cut = Some("another write to this peer was not at its end yet".into());
                    return written;
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        };
        let first = writer.next;
        let sent_first = Instant::now();
        let mut last = sent_first;
        loop {
            let halted = if began.elapsed() > patience {
                written.cut.get_or_insert_with(|| format!("it took longer than {} s", patience.as_secs_f64()));
                Some(Halt::End)
            } else if self.parted.load(Ordering::SeqCst) {
                written.cut.get_or_insert_with(|| "the peer's QPs are others now, or it is in the file no more".into());
                Some(Halt::End)
            } else {
                halt()
            };
            if matches!(halted, Some(Halt::Drain)) {
                written.cut.get_or_insert_with(|| "the NIC is going down".into());
            }
            let posted = writer.next - first;
            let idle = match (&written.cut, posted < order.count) {
                (None, true) => !self.post(order, first, &mut writer, &mut written),
                _ => true,
            };
            while let Some(entry) = self.send.poll() {
                if entry.completion.wr_id < first {
                    // Of an order that was given up.
                    continue;
                }
                ended += 1;
                last = Instant::now();
                match entry.completion.status {
                    Status::Success => written.messages += 1,
                    status => {
                        *written.failed.entry(status.name()).or_insert(0) += 1;
                        written.cut.get_or_insert_with(|| "a message failed".into());
                    }
                }
            }
            let posted = writer.next - first;
            let done = ended == posted && (posted == order.count || written.cut.is_some());
            if done || matches!(halted, Some(Halt::End)) {
                written.unheard = posted - ended;
                written.took = last.saturating_duration_since(sent_first);
                return written;
            }
            if idle {
                // Whether there is one the next turn sees.
                let _ = self.send.wait(LOOK);
            }
        }
    }

    /// Posts as much as there is room for; whether that was anything.
    fn post(&self, order: &WriteOrder, first: u64, writer: &mut Writer, written: &mut Written) -> bool {
        let (Some(remote), before) = (self.other.region, writer.next) else { return false };
        let mut full = 0;
        while writer.next - first < order.count && full < self.qps.len() {
            let qp = &self.qps[writer.qp % self.qps.len()];
            writer.qp = writer.qp.wrapping_add(1);
            let request = WriteRequest {
                wr_id: writer.next,
                local_key: self.room.region.key(),
                local_va: self.room.region.address() + order.local,
                remote_key: Key(remote.key),
                remote_va: remote.address + order.remote,
                len: order.size,
                immediate: None,
                signaled: true,
            };
            let posted = match order.immediate {
                Some(immediate) => qp.post_write_imm(&request, immediate),
                None => qp.post_write(&request),
            };
            match posted {
                Ok(()) => {
                    writer.next += 1;
                    full = 0;
                }
                Err(e) if e.is_full() => full += 1,
                Err(e) => {
                    written.cut.get_or_insert_with(|| e.to_string());
                    break;
                }
            }
        }
        writer.next > before
    }

    /// A Write with Immediate came.
    pub(super) fn received(&self, immediate: u32) {
        self.immediates.fetch_add(1, Ordering::Relaxed);
        self.last_immediate.store(immediate, Ordering::Relaxed);
    }
}

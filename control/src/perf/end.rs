//! One end: its memory and QPs, and what its application does with them.

use super::line::Line;
use super::settings::Settings;
use crate::error::Error;
use crate::host::{
    AsyncEvent, COMPLETIONS_MAX, CompletionQueue, Device, DeviceFile, HostError, MemoryRegion, Offer, Patience,
    QpOffer, QueuePair, RegionOffer, ToInit, ToRts, WriteRequest,
};
use crate::pattern;
use dataplane::memory::{Access, Buffer, Key};
use dataplane::nic::{Operation, PathSpec, PortId, Status};
use dataplane::transport::{PSN_SPACE, Psn};
use dataplane::wire::MacAddr;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// With nothing completing for so long, something is wrong, whatever the QPs' patience.
const STALL: Duration = Duration::from_secs(10);
/// A QP's own UDP source port, where packets are not sprayed.
const FIRST_UDP_PORT: u16 = 49_152;
/// Messages until the next that is signaled, at most.
const SIGNAL_EVERY: usize = 32;
/// Messages with immediates that may come while the application does not look.
const RECEIVED: usize = 1 << 18;
/// The number of a request that is no part of a measurement.
const GREETING: u64 = u64::MAX;

/// An error of the host API on the way.
pub(super) fn failed(what: &str) -> impl Fn(HostError) -> Error {
    move |e| Error::Failure(format!("{what}: {e}"))
}

/// QPs that the other end does not know yet.
pub(super) struct Prepared {
    pub(super) own: Offer,
    end: End,
    patience: Option<Patience>,
    vlan: Option<u16>,
}

/// One end, joined with the other.
pub(super) struct End {
    // Closed in this order: QPs, then regions, then the device.
    qps: Vec<QueuePair>,
    source: MemoryRegion,
    target: MemoryRegion,
    send: CompletionQueue,
    receive: CompletionQueue,
    device: Device,
    remote: RegionOffer,
    settings: Settings,
    progress: Cell<Instant>,
}

fn memory(bytes: usize) -> Result<Arc<Buffer>, Error> {
    Buffer::try_new(bytes).ok_or_else(|| {
        Error::Failure(format!("there are no {bytes} bytes of memory: give fewer QPs (--qp) or smaller sizes (--size)"))
    })
}

impl Prepared {
    /// Makes QPs and memory, and brings the QPs to INIT.
    pub(super) fn new(
        device: &Device,
        file: &DeviceFile,
        settings: &Settings,
        patience: Option<Patience>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Prepared, Error> {
        let transport = device.params().transport;
        let domain = device.domain();
        let bytes = settings.area() * settings.qps;
        let say = failed("can't register memory");
        let source = domain.register(&memory(bytes)?, Access { remote_write: false }, None).map_err(&say)?;
        let target = domain.register(&memory(bytes)?, Access { remote_write: true }, None).map_err(&say)?;
        let say = failed("can't make QPs");
        let send = device.completion_queue((settings.qps * settings.depth + 1).min(COMPLETIONS_MAX)).map_err(&say)?;
        let immediates = (transport.write_imm_limit as usize).min(settings.depth);
        // Those that were received and those that are to come. A receive is posted again only where there is room for its completion, and one
        // that is missing ends the QP: there is room for what comes while this application does not have the core.
        let received = if settings.immediate { (4 * settings.qps * immediates).max(RECEIVED) } else { 1 };
        let receive = device.completion_queue(received.min(COMPLETIONS_MAX)).map_err(&say)?;
        let ports = device.ports().len();
        let mut qps = Vec::with_capacity(settings.qps);
        for n in 0..settings.qps {
            let qp = domain.create_qp(&send, &receive).map_err(&say)?;
            let receive_depth = if settings.immediate { immediates } else { 0 };
            let port = PortId((n % ports) as u8);
            // One more than is in flight: the greeting.
            let send_depth = settings.depth.max(2);
            qp.init(ToInit { port, send_depth, receive_depth, write_imm_limit: immediates as u32 }).map_err(&say)?;
            qp.renew_receives(true);
            for _ in 0..receive_depth {
                qp.post_recv(n as u64).map_err(&say)?;
            }
            qps.push(qp);
        }
        let own_macs = || device.ports().iter().map(|port| port.mac).collect();
        let own = Offer {
            ip: file.ip,
            macs: file.mac.map_or_else(own_macs, |mac| vec![mac; ports]),
            mss: transport.mss,
            window: transport.max_psn_range,
            immediates: immediates as u32,
            // Frames of an earlier run may still be on their way.
            qps: qps.iter().map(|qp| QpOffer { qpn: qp.qpn().get(), psn: rng.random_range(0..PSN_SPACE) }).collect(),
            region: Some(RegionOffer { key: target.key().0, address: target.address(), size: bytes as u64 }),
        };
        let remote = RegionOffer { key: 0, address: 0, size: 0 };
        let progress = Cell::new(Instant::now());
        let (device, settings) = (device.clone(), settings.clone());
        let end = End { qps, source, target, send, receive, device, remote, settings, progress };
        Ok(Prepared { own, end, patience, vlan: file.vlan })
    }

    /// Brings the QPs to RTS. The other end's offer must fit.
    pub(super) fn join(self, file: &DeviceFile, other: &Offer) -> Result<End, Error> {
        let Prepared { own, mut end, patience, vlan } = self;
        own.check(other).map_err(Error::Failure)?;
        let bytes = (end.settings.area() * end.settings.qps) as u64;
        end.remote = other.region.filter(|region| region.size >= bytes).ok_or_else(|| {
            Error::Failure("the other end offers less memory than messages of these sizes need".into())
        })?;
        let next_hops: Vec<MacAddr> = match file.neighbours.get(&other.ip) {
            Some(hops) => hops.clone(),
            None if own.macs.len() == 1 => Vec::new(),
            None => other.macs.clone(),
        };
        // On an Ethernet who is no neighbour of the file's is asked for.
        let asks = end.device.has_neighbours() && !file.neighbours.contains_key(&other.ip);
        let reach = asks.then(|| end.device.reach(other.ip, &other.macs)).transpose();
        let reach = reach.map_err(|e| Error::Failure(e.to_string()))?;
        let say = failed("can't join the QPs");
        for (n, qp) in end.qps.iter().enumerate() {
            let paths = file.paths(FIRST_UDP_PORT + n as u16);
            let path = PathSpec { paths, next_hops: next_hops.clone(), ..PathSpec::default() };
            let to_rtr = own.to_rtr(other, n, path, vlan, None);
            let to_rtr = to_rtr.ok_or_else(|| Error::Failure("the other end offers too few QPs".into()))?;
            match &reach {
                Some(reach) => qp.rtr_by(&to_rtr, reach),
                None => qp.rtr(&to_rtr),
            }
            .map_err(&say)?;
            let to_rts = ToRts { send_psn: Psn::new(own.qps[n].psn), peer: other.advertised() };
            match patience {
                Some(patience) => qp.rts_with(to_rts, patience),
                None => qp.rts(to_rts),
            }
            .map_err(&say)?;
        }
        Ok(end)
    }
}

/// How a request ended that did not succeed.
fn unsuccessful(status: Status) -> Error {
    let why = match status {
        Status::RetryExceeded => {
            "no acknowledgement came, however often it was sent: the other end's process has gone, or the ports of the two ends do not \
             reach each other"
                .to_owned()
        }
        status => format!("its status is {}", status.name()),
    };
    Error::Failure(format!("a Write failed: {why}"))
}

impl End {
    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn mss(&self) -> u32 {
        self.device.params().transport.mss
    }

    pub(super) const fn target(&self) -> &Arc<Buffer> {
        self.target.buffer()
    }

    pub(super) const fn source(&self) -> &Arc<Buffer> {
        self.source.buffer()
    }

    /// Something happened: from now on it is waited anew.
    pub(super) fn moved(&self) {
        self.progress.set(Instant::now());
    }

    /// Whether the NIC and the other end are there, and something happened not long ago.
    pub(super) fn check(&self, line: &Line) -> Result<(), Error> {
        self.check_idle(line)?;
        if self.progress.get().elapsed() > STALL {
            return Err(Error::Failure(format!(
                "nothing was acknowledged for {} s: the other end's process hangs, or the ports do not reach each other any more",
                STALL.as_secs()
            )));
        }
        Ok(())
    }

    /// The same, for an end that has nothing on its way.
    pub(super) fn check_idle(&self, line: &Line) -> Result<(), Error> {
        line.check()?;
        if !self.device.is_running() {
            return Err(Error::Failure("a worker of the NIC died".into()));
        }
        if let Some(AsyncEvent::QpError { cause, .. }) = self.device.poll_event() {
            return Err(
                cause.map_or_else(|| Error::Failure("a QP failed by what the other end sent".to_owned()), unsuccessful)
            );
        }
        Ok(())
    }

    /// Posts a Write on QP `n` from and to its place number `place`; `wr_id` comes back.
    #[inline]
    pub(super) fn post(
        &self,
        n: usize,
        place: usize,
        size: u32,
        wr_id: u64,
        immediate: u32,
        signaled: bool,
    ) -> Result<bool, Error> {
        let at = (n * self.settings.area() + place * size as usize) as u64;
        let request = WriteRequest {
            wr_id,
            local_key: self.source.key(),
            local_va: self.source.address() + at,
            remote_key: Key(self.remote.key),
            remote_va: self.remote.address.wrapping_add(at),
            len: size,
            immediate: None,
            signaled,
        };
        let posted = match self.settings.immediate && wr_id != GREETING {
            true => self.qps[n].post_write_imm(&request, immediate),
            false => self.qps[n].post_write(&request),
        };
        match posted {
            Ok(()) => Ok(true),
            Err(e) if e.is_full() => Ok(false),
            Err(e) => Err(failed("can't post a Write")(e)),
        }
    }

    /// Takes a completion of a Write, and gives its number.
    #[inline]
    pub(super) fn completed(&self) -> Result<Option<u64>, Error> {
        match self.send.poll() {
            None => Ok(None),
            Some(entry) if entry.completion.status == Status::Success => {
                self.moved();
                Ok(Some(entry.completion.wr_id))
            }
            Some(entry) => Err(unsuccessful(entry.completion.status)),
        }
    }

    /// Takes the immediate of a message that came.
    #[inline]
    pub(super) fn received(&self) -> Result<Option<u32>, Error> {
        let Some(entry) = self.receive.poll() else { return Ok(None) };
        match entry.completion.operation {
            Operation::Receive { immediate } if entry.completion.status == Status::Success => {
                self.moved();
                Ok(Some(immediate))
            }
            _ => Err(Error::Failure("a receive did not complete: its QP failed".into())),
        }
    }

    /// Sleeps until a message comes, for `patience` at most.
    pub(super) fn doze(&self, patience: Duration) {
        let _ = self.receive.wait(patience);
    }

    /// Sees to it that the ports reach each other: an empty Write goes there, and its acknowledgement comes back.
    pub(super) fn greet(&self, line: &Line) -> Result<(), Error> {
        self.moved();
        if !self.post(0, 0, 0, GREETING, 0, true)? {
            return Err(Error::Failure("there is no room for the first Write".into()));
        }
        let (mut ended, end) = (false, Instant::now() + STALL);
        while !ended {
            ended = match self.completed() {
                Ok(completed) => completed.is_some(),
                Err(e) => return Err(Error::Failure(format!("the first packet did not arrive. {e}"))),
            };
            line.check()?;
            if line.is_interrupted() {
                return Err(Error::Failure("interrupted before the first packet had arrived".into()));
            }
            if Instant::now() > end {
                return Err(Error::Failure(format!(
                    "the first packet did not arrive within {} s: the ports of the two ends do not reach each other",
                    STALL.as_secs()
                )));
            }
            if !ended {
                let _ = self.send.wait(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    /// Data packets sent again so far.
    pub(super) fn retransmits(&self) -> u64 {
        let of = |qp: &QueuePair| qp.stats().ok().flatten().map_or(0, |stats| stats.retransmits);
        self.qps.iter().map(of).sum()
    }

    /// Fills what is sent at a size.
    pub(super) fn fill(&self, size: u32, round: u64) {
        let bytes = self.settings.places(size) * size as usize;
        for n in 0..self.settings.qps {
            pattern::fill(self.source(), n * self.settings.area(), bytes, round);
        }
    }

    /// Whether what the other end filled and sent, so many messages of each QP, is here.
    pub(super) fn holds(&self, size: u32, round: u64, messages: &[u64]) -> bool {
        messages.len() == self.settings.qps
            && messages.iter().enumerate().all(|(n, &count)| {
                let places = usize::try_from(count).unwrap_or(usize::MAX).min(self.settings.places(size));
                pattern::holds(self.target(), n * self.settings.area(), places * size as usize, round)
            })
    }

    /// Messages until the next that is signaled.
    pub(super) fn signal_every(&self) -> usize {
        SIGNAL_EVERY.min(self.settings.depth.div_ceil(2))
    }
}

//! Two NICs in virtual time, joined by a channel that delays, loses, repeats and reorders frames.
//!
//! One seed gives one result. Time jumps from event to event, so seconds of protocol take milliseconds.

pub mod veth;

use dataplane::Ns;
use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::CcConfig;
use dataplane::memory::{Access, Buffer, Domain, Key, Keys, Region};
use dataplane::nic::{
    Advertised, CompletionEntry, Endpoint, Nic, NicParams, PathSpec, Placement, PortId, PortInfo, QpNumbers, QpSpec,
    QpState, Qpn, TxBurst, WriteRequest,
};
use dataplane::transport::Psn;
use dataplane::wire::{Addressing, Bth, Ext, MacAddr, Marks, Packet, Rules, Template, UDP_PORT, parse};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Where the regions of [`Pair`] begin, as requests name them.
pub const IOVA: u64 = 0x7000_0000;
const DOMAIN: Domain = Domain(1);

/// What the channel does to frames, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// One-way delay in ns.
    pub delay_ns: u64,
    /// Each frame is late by up to this many ns more, at random: it reorders.
    pub jitter_ns: u64,
    /// Share of frames that are lost.
    pub loss: f64,
    /// Share of frames that come twice.
    pub duplicate: f64,
    /// Share of frames in which a bit is flipped.
    pub corrupt: f64,
    /// Share of data packets that a switch marks (ECN).
    pub mark: f64,
    /// Share of data packets that a switch trims.
    pub trim: f64,
}

impl Default for Channel {
    fn default() -> Self {
        Channel { delay_ns: 1_000, jitter_ns: 0, loss: 0.0, duplicate: 0.0, corrupt: 0.0, mark: 0.0, trim: 0.0 }
    }
}

impl Channel {
    /// A channel with each fault or without it, at random; it loses less than the share `most_loss`.
    #[must_use]
    pub fn random<R: Rng>(rng: &mut R, most_loss: f64) -> Channel {
        let mut share = |most: f64| if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.0..most) };
        // In this order: a seed's histories depend on it.
        Channel {
            loss: share(most_loss),
            duplicate: share(0.2),
            corrupt: share(0.05),
            mark: share(0.3),
            trim: share(0.2),
            jitter_ns: (share(1.0) * 60_000.0) as u64,
            delay_ns: 1_000 + (share(1.0) * 20_000.0) as u64,
        }
    }
}

/// A window of a full packet or more, or NSCC.
#[must_use]
pub fn random_congestion<R: Rng>(rng: &mut R) -> CcConfig {
    match [1_000, 20_000, 450_000].get(rng.random_range(0..4)) {
        Some(&bytes) => CcConfig::Fixed { bytes },
        None => CcConfig::Nscc(NsccParams::default()),
    }
}

/// What a filter says of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The channel does with it what it does with any.
    Pass,
    /// It is lost.
    Drop,
    /// These bytes travel instead.
    Replace(Vec<u8>),
}

/// Sees each frame before the channel: when it was sent, by which NIC (0 or 1), and what it is.
pub type Filter = Box<dyn FnMut(Ns, usize, &Packet, &[u8]) -> Fate>;

/// Sees each frame with the port that it leaves by: true lets it go on.
pub type PortFilter = Box<dyn FnMut(Ns, usize, PortId, &Packet) -> bool>;

/// A QP of a [`Pair`], at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpPair {
    /// The number at each end.
    pub qpn: [Qpn; 2],
}

/// Frames that a NIC has written.
struct Outbox {
    frames: Vec<(PortId, Vec<u8>)>,
    open: (PortId, Vec<u8>),
    /// Ports that take nothing.
    full: u8,
}

impl TxBurst for Outbox {
    fn slot(&mut self, port: PortId, len: usize) -> Option<&mut [u8]> {
        if self.full >> port.0 & 1 == 1 {
            return None;
        }
        self.open = (port, vec![0xEE; len]);
        Some(&mut self.open.1)
    }

    fn commit(&mut self) {
        self.frames.push(std::mem::take(&mut self.open));
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    at: Ns,
    order: u64,
    to: usize,
    port: PortId,
    frame: Vec<u8>,
}

/// Two NICs and the channel between them.
pub struct Pair {
    /// The NICs.
    pub nics: [Nic; 2],
    /// Virtual time.
    pub now: Ns,
    /// The channel.
    pub channel: Channel,
    /// Looks at each frame before the channel.
    pub filter: Option<Filter>,
    /// Looks at each frame and its port after that.
    pub port_filter: Option<PortFilter>,
    /// Ports of each NIC, as bits, that take no frame.
    pub full_ports: [u8; 2],
    /// Ports of each NIC, as bits, that take frames and keep them: never sent, never reported as accepted.
    pub stuck_ports: [u8; 2],
    /// Registered memory of each NIC.
    pub memory: [Arc<Buffer>; 2],
    /// Its key.
    pub keys: [Key; 2],
    /// Until when each NIC sends nothing, as if its port took no more.
    pub held_until: [Ns; 2],
    /// Completions of each NIC in their order.
    pub completions: [Vec<CompletionEntry>; 2],
    numbers: [QpNumbers; 2],
    ends: [Endpoint; 2],
    planes: u8,
    queue: BinaryHeap<Reverse<InFlight>>,
    order: u64,
    rng: Xoshiro256PlusPlus,
}

/// The Ethernet address of a NIC's port.
fn port_mac(end: Endpoint, port: u8) -> MacAddr {
    let mut mac = end.mac;
    mac.0[1] = port;
    mac
}

/// A NIC with a port in each plane and one registered region.
fn nic(params: NicParams, end: Endpoint, planes: u8, key: Key, memory: &Arc<Buffer>) -> Nic {
    let ports: Vec<PortInfo> =
        (0..planes).map(|port| PortInfo { mac: port_mac(end, port), max_frame: 65_535 }).collect();
    let mut nic = Nic::new(params, &ports).expect("valid parameters");
    let access = Access { remote_write: true };
    nic.register(key, Region { domain: DOMAIN, access, iova: IOVA, memory: Arc::clone(memory) });
    nic
}

/// The addresses of the two NICs.
fn ends(v6: bool) -> [Endpoint; 2] {
    [1u8, 2].map(|n| {
        let ip = if v6 {
            IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, n.into()))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
        };
        Endpoint { mac: MacAddr([2, 0, 0, 0, 0, n]), ip }
    })
}

impl Pair {
    /// Two NICs with `bytes` of registered memory each, over IPv4.
    #[must_use]
    pub fn new(params: NicParams, bytes: usize, channel: Channel, seed: u64) -> Pair {
        Pair::over(false, params, bytes, channel, seed)
    }

    /// Two NICs over IPv6 or IPv4.
    #[must_use]
    pub fn over(v6: bool, params: NicParams, bytes: usize, channel: Channel, seed: u64) -> Pair {
        Pair::in_planes(1, v6, params, bytes, channel, seed)
    }

    /// Two NICs with a port in each of `planes` planes: port i of one is joined to port i of the other.
    #[must_use]
    pub fn in_planes(planes: u8, v6: bool, params: NicParams, bytes: usize, channel: Channel, seed: u64) -> Pair {
        let ends = ends(v6);
        let keys = [0, 1].map(|_| Keys::default().allocate().expect("a first key"));
        let memory = [Buffer::new(bytes), Buffer::new(bytes)];
        let nics = std::array::from_fn(|n| {
            nic(NicParams { seed: seed ^ n as u64, ..params }, ends[n], planes, keys[n], &memory[n])
        });
        Pair {
            nics,
            now: Ns::ZERO,
            channel,
            filter: None,
            port_filter: None,
            full_ports: [0; 2],
            stuck_ports: [0; 2],
            memory,
            keys,
            held_until: [Ns::ZERO; 2],
            completions: [Vec::new(), Vec::new()],
            numbers: Default::default(),
            ends,
            planes,
            queue: BinaryHeap::new(),
            order: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Opens a QP between the NICs, ready to send at both ends, that starts at `psn`.
    pub fn connect(&mut self, psn: u32) -> QpPair {
        self.connect_with(psn, |_, _| ())
    }

    /// The same, after `change` had its way with what each NIC (0, 1) is told.
    pub fn connect_with(&mut self, psn: u32, change: impl Fn(usize, &mut QpSpec)) -> QpPair {
        let qpn = [0, 1].map(|n: usize| self.numbers[n].allocate().expect("a free QP number"));
        for n in [0, 1] {
            let mut spec = QpSpec {
                qpn: qpn[n],
                state: QpState::Rts,
                port: PortId(0),
                local: self.ends[n],
                remote: self.ends[1 - n],
                vlan: None,
                peer_qpn: qpn[1 - n].get(),
                send_psn: Psn::new(psn),
                receive_psn: Psn::new(psn),
                peer: Advertised { window: u32::MAX, immediates: u32::MAX },
                receive_depth: 1024,
                write_imm_limit: u32::MAX,
                domain: DOMAIN,
                send_depth: 1024,
                placement: Placement::Keyed,
                path: PathSpec { next_hops: self.next_hops(n), ..PathSpec::default() },
                congestion: None,
            };
            change(n, &mut spec);
            self.nics[n].open(self.now, spec).expect("the QP opens");
        }
        QpPair { qpn }
    }

    /// Closes a QP at both ends, and opens it again in the same slots.
    pub fn reconnect(&mut self, old: &QpPair, psn: u32) -> QpPair {
        for n in [0, 1] {
            assert!(self.nics[n].close(self.now, old.qpn[n]), "the QP was open");
            self.numbers[n].release(old.qpn[n]);
        }
        self.connect(psn)
    }

    /// Replaces a NIC that has no QP yet by one with other parameters.
    pub fn replace_nic(&mut self, n: usize, params: NicParams) {
        self.nics[n] = nic(params, self.ends[n], self.planes, self.keys[n], &self.memory[n]);
    }

    /// The other NIC's Ethernet address in each plane.
    fn next_hops(&self, n: usize) -> Vec<MacAddr> {
        (0..self.planes).map(|port| port_mac(self.ends[1 - n], port)).collect()
    }

    /// The address of a NIC.
    #[must_use]
    pub fn address(&self, nic: usize) -> IpAddr {
        self.ends[nic].ip
    }

    /// A Write of NIC 0's bytes at `from` to NIC 1's at `to`.
    #[must_use]
    pub fn write(&self, wr_id: u64, from: usize, to: usize, len: usize) -> WriteRequest {
        WriteRequest {
            wr_id,
            local_key: self.keys[0],
            local_va: IOVA + from as u64,
            remote_key: self.keys[1],
            remote_va: IOVA + to as u64,
            len: len as u32,
            immediate: None,
            signaled: true,
        }
    }

    /// Fills NIC 0's memory with bytes that depend on their place and on `salt`.
    pub fn fill(&self, salt: u64) {
        self.memory[0].write(0, &pattern(self.memory[0].len(), salt)).expect("all of the buffer");
    }

    /// NIC `nic`'s bytes.
    #[must_use]
    pub fn bytes(&self, nic: usize, at: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.memory[nic].read(at, &mut out).expect("inside the buffer");
        out
    }

    /// A frame that NIC `from` might have sent to the other, on EV 300.
    #[must_use]
    pub fn frame(&self, from: usize, dscp: u8, bth: Bth, ext: &Ext, payload: &[u8]) -> Vec<u8> {
        let template = Template::new(&Addressing {
            source_mac: self.ends[from].mac,
            destination_mac: self.ends[1 - from].mac,
            vlan: None,
            source: self.address(from),
            destination: self.address(1 - from),
            hop_limit: 64,
            udp_port: UDP_PORT,
        })
        .expect("addresses of one family");
        let mut out = vec![0; template.frame_len(ext.len(), payload.len())];
        let marks = Marks { ev: 300, dscp, ecn: 2 };
        let at = template.write_headers(&mut out, marks, &bth, ext, payload.len()).expect("room for the headers");
        out[at..at + payload.len()].copy_from_slice(payload);
        assert!(template.seal(&mut out, at, payload.len()));
        out
    }

    /// Puts a frame onto the channel's end at NIC `to`, at once and untouched.
    pub fn inject(&mut self, to: usize, frame: Vec<u8>) {
        self.push(self.now, to, PortId(0), frame);
    }

    fn push(&mut self, at: Ns, to: usize, port: PortId, frame: Vec<u8>) {
        self.order += 1;
        self.queue.push(Reverse(InFlight { at, order: self.order, to, port, frame }));
    }

    /// Lets time pass until nothing is left to happen, or until `end`.
    pub fn run_until(&mut self, end: Ns) {
        loop {
            self.send_all();
            let wakes = self.nics.iter().filter_map(Nic::next_wake).min();
            let frame = self.queue.peek().map(|Reverse(frame)| frame.at);
            let held = self.held_until.into_iter().filter(|&until| until > self.now);
            let Some(next) = wakes.into_iter().chain(frame).chain(held).min() else { break };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.deliver();
            for nic in &mut self.nics {
                nic.on_time(self.now);
            }
        }
        self.now = self.now.max(end);
    }

    /// Lets `ns` pass.
    pub fn run_for(&mut self, ns: u64) {
        self.run_until(self.now + ns);
    }

    fn deliver(&mut self) {
        let mut received = [false; 2];
        while self.queue.peek().is_some_and(|Reverse(frame)| frame.at <= self.now) {
            let Some(Reverse(InFlight { to, port, frame, .. })) = self.queue.pop() else { break };
            // What a NIC refuses is in its counters.
            let _ = self.nics[to].receive(self.now, port, &frame.as_slice());
            received[to] = true;
        }
        for (nic, _) in self.nics.iter_mut().zip(received).filter(|(_, received)| *received) {
            nic.on_idle(self.now);
        }
    }

    fn send_all(&mut self) {
        for from in [0, 1] {
            let mut outbox = Outbox { frames: Vec::new(), open: Default::default(), full: self.full_ports[from] };
            while self.now >= self.held_until[from] && self.nics[from].transmit(self.now, &mut outbox) > 0 {
                let frames = std::mem::take(&mut outbox.frames);
                for (port, frame) in frames {
                    if self.stuck_ports[from] >> port.0 & 1 == 1 {
                        continue;
                    }
                    self.nics[from].sent(self.now, port, 1);
                    self.carry(from, port, frame);
                }
            }
            self.completions[from].extend(std::iter::from_fn(|| self.nics[from].poll()));
        }
    }

    /// One frame through the channel.
    fn carry(&mut self, from: usize, port: PortId, mut frame: Vec<u8>) {
        if let Some(filter) = &mut self.filter {
            let packet = parse(&frame, frame.len(), &Rules::default()).expect("a NIC sends MRC");
            match filter(self.now, from, &packet, &frame) {
                Fate::Pass => {}
                Fate::Drop => return,
                Fate::Replace(other) => frame = other,
            }
        }
        if let Some(filter) = &mut self.port_filter {
            let packet = parse(&frame, frame.len(), &Rules::default()).expect("a NIC sends MRC");
            if !filter(self.now, from, port, &packet) {
                return;
            }
        }
        let Channel { delay_ns, jitter_ns, loss, duplicate, corrupt, mark, trim } = self.channel;
        if self.rng.random_bool(loss) {
            return;
        }
        if is_data(&frame) {
            if self.rng.random_bool(mark) {
                frame = marked(&frame);
            }
            if self.rng.random_bool(trim) {
                frame = trimmed(&frame, 12);
            }
        }
        if self.rng.random_bool(corrupt) {
            let bit = self.rng.random_range(0..frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        let copies = 1 + usize::from(self.rng.random_bool(duplicate));
        for _ in 0..copies {
            let late = if jitter_ns == 0 { 0 } else { self.rng.random_range(0..=jitter_ns) };
            self.push(self.now + delay_ns + late, 1 - from, port, frame.clone());
        }
    }
}

fn is_data(frame: &[u8]) -> bool {
    parse(frame, frame.len(), &Rules::default()).is_ok_and(|packet| packet.bth.opcode.is_data())
}

/// The frame as a switch leaves it that marks congestion.
#[must_use]
pub fn marked(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    match frame[14] >> 4 {
        4 => frame[15] |= 3,
        _ => frame[15] |= 3 << 4,
    }
    frame
}

/// The frame as a switch leaves it that trims: cut after the RETH, the DSCP rewritten, the lengths as they were.
#[must_use]
pub fn trimmed(frame: &[u8], dscp: u8) -> Vec<u8> {
    let v4 = frame[14] >> 4 == 4;
    let tsh = parse(frame, frame.len(), &Rules::default()).is_ok_and(|packet| packet.bth.tsh);
    let keep = if v4 { 74 } else { 94 } + if tsh { 4 } else { 0 };
    let mut frame = frame[..keep.min(frame.len())].to_vec();
    if v4 {
        frame[15] = dscp << 2;
    } else {
        frame[14] = 0x60 | dscp >> 2;
        frame[15] = dscp << 6 | (frame[15] & 0x0F);
    }
    frame
}

/// `len` bytes that depend on their place and on `salt`.
#[must_use]
pub fn pattern(len: usize, salt: u64) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).flat_map(|at| {
        let word = (at ^ salt.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (word ^ word >> 29).to_le_bytes()
    });
    words.take(len).collect()
}

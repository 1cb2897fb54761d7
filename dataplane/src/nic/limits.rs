//! Rates and buffers of the port and of the host's link, as limits on what is sent and taken (Scala MRC NIC documentation, buffers and
//! host interface). Without them a software port is as fast as it is.

use super::PortId;
use super::rotations::FullPorts;
use crate::Ns;

/// Picoseconds in a second: at 400 Gbps a byte takes 20.
pub(super) const PS: u128 = 1_000_000_000_000;
/// Fastest rate in bits a second: below a picosecond a byte nothing is told apart.
pub const RATE_MAX: u64 = 8_000_000_000_000;
/// The data class has 90 % of a buffer, the control class 10 %.
const DATA_PERCENT: u64 = 90;

/// A port that sends at a rate, whatever its driver could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingParams {
    /// Bits a second of each port, 1 to [`RATE_MAX`]; frames count without FCS, preamble and gap.
    pub rate: u64,
    /// How far a burst may run ahead of the rate, in ns: 0 spaces frames exactly, and a worker that comes round every few microseconds
    /// needs as much to keep the rate.
    pub burst_ns: u64,
}

/// The host's link, as the NIC's requester uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchParams {
    /// `LaneCount` x `LaneBps` of the host side, in bits a second, 1 to [`RATE_MAX`]: payload is fetched at this rate.
    pub rate: u64,
    /// `ReadRequestSize`: bytes that each packet's request takes on the way to the host.
    pub read_request: u32,
}

/// Limits of the sending side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendLimits {
    /// `TotalBufferSize` of the egress buffer in bytes. A data packet takes its length from the start of its fetch until the port has sent
    /// it; when 90 % are taken, no more payload is fetched.
    pub egress_buffer: Option<u64>,
    /// The host's link.
    pub fetch: Option<FetchParams>,
    /// The port's rate.
    pub pacing: Option<PacingParams>,
}

impl SendLimits {
    /// What is wrong with the limits, if anything; `longest` are the lengths of the longest frames of data and of control.
    pub(super) fn fault(&self, longest: (u64, u64)) -> Option<&'static str> {
        let is_rate = |rate: u64| (1..=RATE_MAX).contains(&rate);
        if self.pacing.is_some_and(|pacing| !is_rate(pacing.rate))
            || self.fetch.is_some_and(|fetch| !is_rate(fetch.rate))
        {
            return Some("a rate is 1 bit/s to 8 Tbit/s");
        }
        if self.egress_buffer.map(pools).is_some_and(|(data, control)| data < longest.0 || control < longest.1) {
            return Some("90 % of the egress buffer hold a full packet at least, with all headers, and 10 % a SACK");
        }
        None
    }
}

/// Bytes of the data pool and of the control pool.
const fn pools(total: u64) -> (u64, u64) {
    let data = (total as u128 * DATA_PERCENT as u128 / 100) as u64;
    (data, total - data)
}

/// How long `bytes` take at `rate` bits a second, in ps.
#[inline]
pub(super) const fn takes_ps(bytes: u64, rate: u64) -> u128 {
    bytes as u128 * 8 * PS / rate as u128
}

/// Something that takes bytes at a rate: when it is free again.
#[derive(Clone, Copy, Debug)]
struct Meter {
    rate: u64,
    burst_ps: u128,
    /// When all that was taken is through, at the rate.
    free_at_ps: u128,
}

impl Meter {
    const fn new(rate: u64, burst_ns: u64) -> Meter {
        Meter { rate, burst_ps: burst_ns as u128 * 1_000, free_at_ps: 0 }
    }

    #[inline]
    const fn is_free(&self, now: Ns) -> bool {
        self.free_at_ps <= now.0 as u128 * 1_000 + self.burst_ps
    }

    #[inline]
    fn take(&mut self, now: Ns, bytes: u64) {
        let now_ps = u128::from(now.0) * 1_000;
        // Less than a nanosecond late is in time: the clock has no finer steps.
        let begin = if self.free_at_ps + 1_000 > now_ps { self.free_at_ps } else { now_ps };
        self.free_at_ps = begin + takes_ps(bytes, self.rate);
    }

    /// The first nanosecond at which it is free.
    fn free_at(&self) -> Ns {
        let at = self.free_at_ps.saturating_sub(self.burst_ps).div_ceil(1_000);
        Ns(u64::try_from(at).unwrap_or(u64::MAX))
    }
}

/// The limits of one engine, and what is taken of them.
#[derive(Debug)]
pub(super) struct Limits {
    pacing: Box<[Meter]>,
    fetch: Option<Meter>,
    data_pool: u64,
    control_pool: u64,
    data_held: u64,
    control_held: u64,
}

impl Limits {
    pub(super) fn new(limits: &SendLimits, ports: usize) -> Limits {
        let pace = |pacing: PacingParams| vec![Meter::new(pacing.rate, pacing.burst_ns); ports];
        let (data_pool, control_pool) = limits.egress_buffer.map_or((u64::MAX, u64::MAX), pools);
        Limits {
            pacing: limits.pacing.map_or_else(Vec::new, pace).into(),
            // A fetch that began is ahead of the port by as much as the pool holds.
            fetch: limits.fetch.map(|fetch| Meter::new(fetch.rate, 0)),
            data_pool,
            control_pool,
            data_held: 0,
            control_held: 0,
        }
    }

    /// Ports that are still busy with what they were given count as full.
    #[inline]
    pub(super) fn busy(&self, now: Ns, full: &mut FullPorts) {
        for (port, meter) in self.pacing.iter().enumerate() {
            if !meter.is_free(now) {
                full.add(PortId(port as u8));
            }
        }
    }

    /// May the payload of another packet be fetched, whose frame has `len` bytes?
    #[inline]
    pub(super) fn may_fetch(&self, now: Ns, len: u64) -> bool {
        self.data_held + len <= self.data_pool && self.fetch.is_none_or(|meter| meter.is_free(now))
    }

    /// Is there room for a packet of the control class?
    #[inline]
    pub(super) fn has_control_room(&self, len: u64) -> bool {
        self.control_held + len <= self.control_pool
    }

    /// Is there room for a probe, which is in the data class and fetches nothing?
    #[inline]
    pub(super) fn has_data_room(&self, len: u64) -> bool {
        self.data_held + len <= self.data_pool
    }

    /// A frame with `payload` bytes goes to its port.
    #[inline]
    pub(super) fn take(&mut self, now: Ns, port: PortId, len: u64, payload: u64, is_data: bool, full: &mut FullPorts) {
        let held = if is_data { &mut self.data_held } else { &mut self.control_held };
        *held += len;
        if let Some(fetch) = self.fetch.as_mut().filter(|_| payload > 0) {
            fetch.take(now, payload);
        }
        if let Some(meter) = self.pacing.get_mut(usize::from(port.0)) {
            meter.take(now, len);
            if !meter.is_free(now) {
                full.add(port);
            }
        }
    }

    /// The port has sent a frame.
    #[inline]
    pub(super) fn release(&mut self, len: u64, is_data: bool) {
        let held = if is_data { &mut self.data_held } else { &mut self.control_held };
        debug_assert!(*held >= len, "more was sent than was taken");
        *held = held.saturating_sub(len);
    }

    /// When a limit that holds something back ends, if time ends it.
    pub(super) fn next(&self, now: Ns) -> Option<Ns> {
        let waits = self.pacing.iter().chain(&self.fetch).filter(|meter| !meter.is_free(now));
        waits.map(Meter::free_at).min()
    }

    /// Bytes of the data class that the egress buffer holds.
    pub(super) const fn data_held(&self) -> u64 {
        self.data_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_egress_buffer_holds_55_full_packets_and_a_tenth_for_control() {
        let limits = SendLimits { egress_buffer: Some(256_000), ..SendLimits::default() };
        let mut limits = Limits::new(&limits, 1);
        let mut full = FullPorts::none_of(1);
        let mut held = 0;
        while limits.may_fetch(Ns(0), 4_174) {
            limits.take(Ns(0), PortId(0), 4_174, 4_096, true, &mut full);
            held += 1;
        }
        assert_eq!((held, limits.data_held()), (55, 229_570));
        assert!(!full.is_everything(), "the port itself takes more");
        assert!(limits.has_control_room(25_600) && !limits.has_control_room(25_601));
        limits.release(4_174, true);
        assert!(limits.may_fetch(Ns(0), 4_174));
    }

    #[test]
    fn a_paced_port_at_400_gbps_takes_a_full_packet_every_83_and_a_half_ns_in_the_long_run() {
        let pacing = PacingParams { rate: 400_000_000_000, burst_ns: 0 };
        let mut limits = Limits::new(&SendLimits { pacing: Some(pacing), ..SendLimits::default() }, 1);
        let mut now = Ns(0);
        for _ in 0..513 {
            let mut full = FullPorts::none_of(1);
            limits.busy(now, &mut full);
            assert!(!full.is_everything());
            limits.take(now, PortId(0), 4_174, 4_096, true, &mut full);
            assert!(full.is_everything());
            now = limits.next(now).unwrap();
        }
        // 42.8 us for 513 packets; each start is rounded up to a whole nanosecond, and the remainder is kept.
        assert_eq!(now, Ns(42_826));
    }

    #[test]
    fn a_burst_runs_ahead_of_the_rate_by_as_much_as_is_allowed_and_no_further() {
        // A byte a nanosecond.
        let pacing = PacingParams { rate: 8_000_000_000, burst_ns: 300 };
        let mut limits = Limits::new(&SendLimits { pacing: Some(pacing), ..SendLimits::default() }, 2);
        let mut sent = 0;
        let mut full = FullPorts::none_of(2);
        while !full.has(PortId(1)) {
            limits.take(Ns(1_000), PortId(1), 100, 0, false, &mut full);
            sent += 1;
        }
        assert_eq!(sent, 4);
        assert!(!full.has(PortId(0)), "each port has its own");
        assert_eq!(limits.next(Ns(1_000)), Some(Ns(1_100)));
    }

    #[test]
    fn payload_is_fetched_at_the_rate_of_the_hosts_lanes() {
        // 16 lanes of 31.52 Gbps.
        let fetch = FetchParams { rate: 504_320_000_000, read_request: 64 };
        let mut limits = Limits::new(&SendLimits { fetch: Some(fetch), ..SendLimits::default() }, 1);
        let mut full = FullPorts::none_of(1);
        limits.take(Ns(0), PortId(0), 4_174, 4_096, true, &mut full);
        assert!(!limits.may_fetch(Ns(64), 4_174));
        assert_eq!(limits.next(Ns(0)), Some(Ns(65)));
        assert!(limits.may_fetch(Ns(65), 4_174));
        limits.take(Ns(65), PortId(0), 94, 0, false, &mut full);
        assert!(limits.may_fetch(Ns(65), 4_174), "what has no payload fetches nothing");
    }

    #[test]
    fn limits_that_make_no_sense_are_named() {
        let fault = |limits: SendLimits| limits.fault((4_262, 182)).is_some();
        assert!(!fault(SendLimits::default()));
        assert!(fault(SendLimits { egress_buffer: Some(4_735), ..SendLimits::default() }));
        assert!(!fault(SendLimits { egress_buffer: Some(4_736), ..SendLimits::default() }));
        assert!(SendLimits { egress_buffer: Some(1_800), ..SendLimits::default() }.fault((400, 182)).is_some());
        assert!(fault(SendLimits { pacing: Some(PacingParams { rate: 0, burst_ns: 0 }), ..SendLimits::default() }));
        let fetch = FetchParams { rate: RATE_MAX + 1, read_request: 64 };
        assert!(fault(SendLimits { fetch: Some(fetch), ..SendLimits::default() }));
    }
}

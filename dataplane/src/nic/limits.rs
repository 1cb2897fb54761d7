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

/// Bytes that the header of one transfer takes of a header buffer of the host's link: four words of four bytes, a header with an address of
/// 64 bits. No digest follows it.
pub const TRANSFER_HEADER: u64 = 16;

/// What flow control by credits lets one direction of the host's link carry, however fast its lanes are. What the sender holds and the
/// receiver has announced room for can be under way; the room is announced again after a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Most bits of data a second, 1 or more; [`u64::MAX`] holds nothing back.
    pub rate: u64,
    /// The least time from one transfer to the next in ps, up to a second: its header waits for room. 0 holds nothing back.
    pub header_ps: u64,
}

impl Default for Credits {
    /// Without end: nothing is held back.
    fn default() -> Self {
        Credits { rate: u64::MAX, header_ps: 0 }
    }
}

impl Credits {
    /// The credits of a direction: `header` and `data` are bytes of the smaller one of the sender's and the receiver's buffer of each kind,
    /// and `round_trip_ps` is the time after which room is announced again, in ps. With 0 for that nothing is held back.
    ///
    /// A round trip carries at most `data` bytes; and as many transfers at most as headers of [`TRANSFER_HEADER`] bytes fit into `header`.
    ///
    /// # Errors
    /// A buffer that holds no header, or no byte of data, lets nothing through ever.
    pub fn of(header: u64, data: u64, round_trip_ps: u64) -> Result<Credits, NoCredits> {
        if round_trip_ps == 0 {
            return Ok(Credits::default());
        }
        if header < TRANSFER_HEADER {
            return Err(NoCredits::Header);
        }
        let round_trip = u128::from(round_trip_ps);
        let rate = u128::from(data) * 8 * PS / round_trip;
        let header_ps = (u128::from(TRANSFER_HEADER) * round_trip).div_ceil(header.into());
        match u64::try_from(rate).unwrap_or(u64::MAX) {
            0 => Err(NoCredits::Data),
            rate => Ok(Credits { rate, header_ps: u64::try_from(header_ps).unwrap_or(u64::MAX) }),
        }
    }

    /// What is wrong with them, if anything.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let sound = self.rate > 0 && u128::from(self.header_ps) <= PS;
        (!sound).then_some("credits let a bit a second through at least, and a header after a second at most")
    }
}

/// Why a direction of the host's link carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCredits {
    /// No header fits into the header buffer.
    #[error("a header buffer has no room for a header of 16 bytes")]
    Header,
    /// Not even a bit a second fits through the data buffer.
    #[error("a data buffer has no room for a byte, or its credits take too many seconds to come back")]
    Data,
}

/// The host's link, as the NIC's requester uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchParams {
    /// `LaneCount` x `LaneBps` of the host side, in bits a second, 1 to [`RATE_MAX`]: payload is fetched at this rate.
    pub rate: u64,
    /// `ReadRequestSize`: bytes that each packet's request takes on the way to the host.
    pub read_request: u32,
    /// The credits of the direction from the host: payload is fetched no faster than at their rate. Each fetch needs a header in either
    /// direction, so `header_ps` is that of the slower one.
    pub credits: Credits,
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
        if let Some(fault) = self.fetch.as_ref().and_then(|fetch| fetch.credits.fault()) {
            return Some(fault);
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
    /// Least time that anything takes.
    least_ps: u128,
    /// When all that was taken is through, at the rate.
    free_at_ps: u128,
}

impl Meter {
    const fn new(rate: u64, burst_ns: u64) -> Meter {
        Meter { rate, burst_ps: burst_ns as u128 * 1_000, least_ps: 0, free_at_ps: 0 }
    }

    /// Of what is fetched. It has no burst: a fetch that began is ahead of the port by as much as the egress buffer holds.
    fn of_fetches(fetch: &FetchParams) -> Meter {
        Meter { least_ps: fetch.credits.header_ps.into(), ..Meter::new(fetch.rate.min(fetch.credits.rate), 0) }
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
        self.free_at_ps = begin + takes_ps(bytes, self.rate).max(self.least_ps);
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
            fetch: limits.fetch.as_ref().map(Meter::of_fetches),
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

    /// How many data packets whose frames have `len` bytes may be sent one after the other, and counted together with [`Limits::hold`]: none where
    /// each is metered.
    #[inline]
    pub(super) fn room(&self, len: u64) -> u64 {
        if self.fetch.is_some() || !self.pacing.is_empty() {
            return 0;
        }
        self.data_pool.saturating_sub(self.data_held) / len
    }

    /// Frames of data packets go to their ports, `bytes` in all.
    #[inline]
    pub(super) fn hold(&mut self, bytes: u64) {
        self.data_held += bytes;
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
        let fetch = FetchParams { rate: 504_320_000_000, read_request: 64, credits: Credits::default() };
        let mut limits = Limits::new(&SendLimits { fetch: Some(fetch), ..SendLimits::default() }, 1);
        let mut full = FullPorts::none_of(1);
        limits.take(Ns(0), PortId(0), 4_174, 4_096, true, &mut full);
        assert!(!limits.may_fetch(Ns(64), 4_174));
        assert_eq!(limits.next(Ns(0)), Some(Ns(65)));
        assert!(limits.may_fetch(Ns(65), 4_174));
        limits.take(Ns(65), PortId(0), 94, 0, false, &mut full);
        assert!(limits.may_fetch(Ns(65), 4_174), "what has no payload fetches nothing");
    }

    /// When the fetch after `count` fetches of `payload` bytes begins, by itself, with these credits and 16 lanes.
    fn fetched(credits: Credits, payload: u64, count: usize) -> u64 {
        let fetch = FetchParams { rate: 504_320_000_000, read_request: 64, credits };
        let mut limits = Limits::new(&SendLimits { fetch: Some(fetch), ..SendLimits::default() }, 1);
        let mut now = Ns(0);
        for _ in 0..count {
            assert!(limits.may_fetch(now, payload + 78));
            limits.take(now, PortId(0), payload + 78, payload, true, &mut FullPorts::none_of(1));
            while !limits.may_fetch(now, payload + 78) {
                now = limits.next(now).unwrap();
            }
        }
        now.0
    }

    #[test]
    fn a_round_trip_of_credits_carries_what_the_smaller_buffers_hold() {
        // 256 KB in 500 ns are 4.096 Tbps, and 1,000 headers in 500 ns one each half a nanosecond.
        let default = Credits::of(16_000, 256_000, 500_000).unwrap();
        assert_eq!(default, Credits { rate: 4_096_000_000_000, header_ps: 500 });
        // 4 KB in 1 us are 32 Gbps; two headers in 1 us one each 500 ns; 24 bytes hold one and a half.
        assert_eq!(Credits::of(32, 4_000, 1_000_000), Ok(Credits { rate: 32_000_000_000, header_ps: 500_000 }));
        assert_eq!(Credits::of(24, 1, 1_000_000_000), Ok(Credits { rate: 8_000, header_ps: 666_666_667 }));
        assert_eq!(Credits::of(0, 0, 0), Ok(Credits::default()), "credits that are back at once hold nothing back");
        let most = Credits::of(u64::MAX, u64::MAX, 1).unwrap();
        assert_eq!((most.rate, most.header_ps), (u64::MAX, 1));
    }

    #[test]
    fn buffers_that_let_nothing_through_are_named() {
        assert_eq!(Credits::of(15, 256_000, 500_000), Err(NoCredits::Header));
        assert!(Credits::of(16, 256_000, 500_000).is_ok());
        assert_eq!(Credits::of(16_000, 0, 500_000), Err(NoCredits::Data));
        assert!(Credits::of(16_000, 1, 500_000).is_ok());
    }

    #[test]
    fn credits_of_data_slow_fetches_to_their_rate_and_those_of_headers_space_them() {
        // 1,000 full payloads take 64.97 us of 504.32 Gbps, with the defaults' credits as without any.
        let default = Credits::of(16_000, 256_000, 500_000).unwrap();
        assert_eq!(fetched(Credits::default(), 4_096, 1_000), 64_974);
        assert_eq!(fetched(default, 4_096, 1_000), 64_974);
        // 8 KB in 500 ns are 128 Gbps: a payload takes 256 ns.
        assert_eq!(fetched(Credits::of(16_000, 8_000, 500_000).unwrap(), 4_096, 1_000), 256_000);
        // 5 headers in 500 ns: a fetch takes 100 ns, a large one as long as its bytes.
        let headers = Credits::of(80, 256_000, 500_000).unwrap();
        assert_eq!(fetched(headers, 1, 1_000), 100_000);
        assert_eq!(fetched(headers, 8_192, 1_000), 129_949);
    }

    #[test]
    fn limits_that_make_no_sense_are_named() {
        let fault = |limits: SendLimits| limits.fault((4_262, 182)).is_some();
        assert!(!fault(SendLimits::default()));
        assert!(fault(SendLimits { egress_buffer: Some(4_735), ..SendLimits::default() }));
        assert!(!fault(SendLimits { egress_buffer: Some(4_736), ..SendLimits::default() }));
        assert!(SendLimits { egress_buffer: Some(1_800), ..SendLimits::default() }.fault((400, 182)).is_some());
        assert!(fault(SendLimits { pacing: Some(PacingParams { rate: 0, burst_ns: 0 }), ..SendLimits::default() }));
        let fetch = FetchParams { rate: RATE_MAX, read_request: 64, credits: Credits::default() };
        let of = |fetch: FetchParams| fault(SendLimits { fetch: Some(fetch), ..SendLimits::default() });
        assert!(!of(fetch) && of(FetchParams { rate: RATE_MAX + 1, ..fetch }));
        let of = |rate, header_ps| of(FetchParams { credits: Credits { rate, header_ps }, ..fetch });
        assert!(!of(1, 1_000_000_000_000) && of(0, 0) && of(1, 1_000_000_000_001));
    }
}

//! The host behind the responder: a buffer that received payload waits in, as its host takes it at a rate of its own.
//!
//! Placement itself is immediate; what is modelled is how much of it the host has taken. From the fill follow the penalty that a SACK
//! carries back (`rcv_cwnd_pen`), and a NACK for want of a buffer.

use super::limits::{Credits, PS, RATE_MAX, takes_ps};
use crate::Ns;

/// A receive buffer and the host that drains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBufferParams {
    /// Size in bytes.
    pub capacity: u64,
    /// What the host takes, in bits a second, 1 to [`RATE_MAX`].
    pub drain_rate: u64,
    /// The credits of the link to the host: it takes no more than their rate, and no transfer (a packet with its overhead, or a read request)
    /// in less time than their header's.
    pub credits: Credits,
    /// Fill in percent up to which there is no penalty.
    pub low_percent: u8,
    /// Fill in percent from which the penalty is the highest.
    pub high_percent: u8,
    /// The highest penalty, 1 to 127.
    pub max_penalty: u8,
    /// The sender may return to its window when the penalty ends (`restore_cwnd`).
    pub restore_cwnd: bool,
    /// What becomes of a packet that finds no room.
    pub when_full: WhenFull,
}

/// What becomes of a data packet that finds the receive buffer full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The buffer is the responder's: it refuses the packet (NO_PKT_BUFFER). Payload alone takes room.
    Nack,
    /// The buffer is the port's ingress pool: the packet is dropped and counted, before anybody looks at it. A frame takes room for all its
    /// bytes, and so many more of the link to the host as `overhead` says (for requests, completions and headers of the link).
    Drop {
        /// Bytes for each packet. With 194 a full packet of 4,174 bytes takes 4,368 of the link.
        overhead: u32,
    },
}

impl Default for HostBufferParams {
    fn default() -> Self {
        HostBufferParams {
            capacity: 3_600_000,
            drain_rate: 400_000_000_000,
            credits: Credits::default(),
            low_percent: 50,
            high_percent: 90,
            max_penalty: 127,
            restore_cwnd: true,
            when_full: WhenFull::Nack,
        }
    }
}

impl HostBufferParams {
    /// What is wrong with the parameters, if anything.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.capacity == 0 || self.drain_rate == 0 || self.drain_rate > RATE_MAX {
            return Some("capacity and drain rate are more than 0, and the rate is at most 8 Tbit/s");
        }
        if let Some(fault) = self.credits.fault() {
            return Some(fault);
        }
        let ordered = self.low_percent < self.high_percent && self.high_percent <= 100;
        if !ordered || self.max_penalty == 0 || self.max_penalty > 127 {
            return Some("low_percent < high_percent <= 100, and max_penalty is 1 to 127");
        }
        None
    }
}

/// The state of the buffer: when it would be empty if nothing more came.
#[derive(Clone, Debug)]
pub(super) struct HostBuffer {
    params: HostBufferParams,
    /// What the link to the host carries, in bits a second.
    rate: u64,
    /// The least time of a transfer.
    header_ps: u128,
    /// A `u64` of picoseconds ends after 213 days.
    empty_at_ps: u128,
    /// Of the time until then, what transfers wait for their headers' credits. No byte leaves meanwhile.
    waits_ps: u128,
    /// When that was reckoned.
    waits_at_ps: u128,
}

impl HostBuffer {
    pub(super) fn new(params: HostBufferParams) -> HostBuffer {
        HostBuffer {
            rate: params.drain_rate.min(params.credits.rate),
            header_ps: params.credits.header_ps.into(),
            params,
            empty_at_ps: 0,
            waits_ps: 0,
            waits_at_ps: 0,
        }
    }

    fn fill(&self, now: Ns) -> u64 {
        let now_ps = u128::from(now.0) * 1_000;
        let ahead = self.empty_at_ps.saturating_sub(now_ps);
        ((ahead - self.waits(now_ps)) * u128::from(self.rate) / (8 * PS)) as u64
    }

    /// Of the time until the buffer is empty, what transfers wait. Which of those that are left waited for a header is not kept: they share it.
    fn waits(&self, now_ps: u128) -> u128 {
        if self.waits_ps == 0 {
            return 0;
        }
        let (was, ahead) = (self.empty_at_ps - self.waits_at_ps, self.empty_at_ps.saturating_sub(now_ps));
        // Of the largest numbers the upper bits do.
        let shift = (u128::BITS - was.leading_zeros()).saturating_sub(63);
        let part = (self.waits_ps >> shift) * (ahead.min(was) >> shift) / (was >> shift).max(1);
        (part << shift).min(ahead)
    }

    /// Takes the frame of a data packet on its arrival, where the buffer is the port's; false when there is no room.
    pub(super) fn take_frame(&mut self, now: Ns, len: u64) -> bool {
        match self.params.when_full {
            WhenFull::Nack => true,
            WhenFull::Drop { overhead } => self.take(now, len, overhead.into()),
        }
    }

    /// Takes the payload of a packet that is to be placed, where the buffer is the responder's; false when there is no room.
    pub(super) fn take_payload(&mut self, now: Ns, len: u64) -> bool {
        match self.params.when_full {
            WhenFull::Nack => self.take(now, len, 0),
            WhenFull::Drop { .. } => true,
        }
    }

    fn take(&mut self, now: Ns, len: u64, overhead: u64) -> bool {
        if self.fill(now) + len > self.params.capacity {
            return false;
        }
        self.transfer(now, len, overhead);
        true
    }

    /// The link to the host is busy with a transfer of `len` bytes and `overhead` more.
    pub(super) fn transfer(&mut self, now: Ns, len: u64, overhead: u64) {
        let takes = takes_ps(len, self.rate) + takes_ps(overhead, self.rate);
        let now_ps = u128::from(now.0) * 1_000;
        if self.waits_ps > 0 || takes < self.header_ps {
            self.waits_ps = self.waits(now_ps) + self.header_ps.saturating_sub(takes);
            self.waits_at_ps = now_ps;
        }
        self.empty_at_ps = self.empty_at_ps.max(now_ps) + takes.max(self.header_ps);
    }

    /// The penalty that SACKs carry now, and whether the window may return when it ends.
    pub(super) fn penalty(&self, now: Ns) -> (u8, bool) {
        let HostBufferParams { capacity, low_percent, high_percent, max_penalty, restore_cwnd, .. } = self.params;
        let (low, high) = (capacity * u64::from(low_percent) / 100, capacity * u64::from(high_percent) / 100);
        let fill = self.fill(now).min(high);
        let above = fill.saturating_sub(low);
        let penalty = (u64::from(max_penalty) * above).div_ceil((high - low).max(1));
        (penalty.min(u64::from(max_penalty)) as u8, restore_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_penalty_rises_from_the_lower_to_the_upper_mark_and_falls_as_the_host_drains() {
        // 8 Gbit/s: a byte a nanosecond.
        let params = HostBufferParams { capacity: 1_000, drain_rate: 8_000_000_000, ..HostBufferParams::default() };
        let mut buffer = HostBuffer::new(params);
        let now = Ns(1_000_000);
        assert!(buffer.take(now, 500, 0));
        assert_eq!(buffer.penalty(now), (0, true));
        assert!(buffer.take(now, 200, 0));
        assert_eq!(buffer.penalty(now), (64, true));
        assert!(buffer.take(now, 300, 0));
        assert_eq!(buffer.penalty(now), (127, true));
        assert!(!buffer.take(now, 1, 0), "it is full");
        assert!(buffer.take(now + 1, 1, 0));
        assert_eq!(buffer.penalty(now + 300).0, 64);
        assert_eq!(buffer.penalty(now + 501), (0, true));
    }

    #[test]
    fn fourteen_lanes_place_a_full_stream_of_400_gbps_and_thirteen_do_not() {
        let dropped = |lanes: u64| {
            let when_full = WhenFull::Drop { overhead: 194 };
            let drain_rate = lanes * 31_520_000_000;
            let params = HostBufferParams { drain_rate, when_full, ..HostBufferParams::default() };
            let mut buffer = HostBuffer::new(params);
            // A full packet each 83.48 ns, for 20 ms.
            (0..240_000u64).filter(|i| !buffer.take_frame(Ns(i * 83_480 / 1_000), 4_174)).count()
        };
        assert_eq!(dropped(14), 0);
        assert!(dropped(13) > 0);
        assert!(dropped(8) > 80_000, "four in ten");
    }

    /// How many of `count` full packets at 400 Gbps find no room, with 16 lanes and these credits, and when the last of the others is placed.
    fn received(credits: Credits, count: u64) -> (usize, u128) {
        let (when_full, drain_rate) = (WhenFull::Drop { overhead: 194 }, 504_320_000_000);
        let mut buffer =
            HostBuffer::new(HostBufferParams { drain_rate, credits, when_full, ..HostBufferParams::default() });
        let dropped = (0..count).filter(|i| !buffer.take_frame(Ns(i * 83_480 / 1_000), 4_174)).count();
        (dropped, buffer.empty_at_ps)
    }

    #[test]
    fn buffers_of_the_defaults_hold_nothing_back_and_smaller_ones_do() {
        let credits = |header, data| Credits::of(header, data, 500_000).unwrap();
        let free = received(Credits::default(), 20_000);
        assert_eq!(free.0, 0);
        assert_eq!(received(credits(16_000, 256_000), 20_000), free, "to the picosecond");
        // 27 KB in 500 ns are 432 Gbps, which 400 Gbps of full packets need not; 25 KB are 400 Gbps, and they need 418.6.
        assert_eq!(received(credits(16_000, 27_000), 240_000).0, 0);
        assert!(received(credits(16_000, 25_000), 240_000).0 > 0);
        // Six headers in 500 ns let a packet through each 83.3 ns, which is as fast as they come; five let one through each 100 ns.
        assert_eq!(received(credits(96, 256_000), 240_000).0, 0);
        assert!(received(credits(80, 256_000), 240_000).0 > 0);
    }

    #[test]
    fn what_waits_for_a_header_takes_no_more_room_than_its_bytes() {
        // A byte a nanosecond, and a transfer each microsecond.
        let credits = Credits { rate: u64::MAX, header_ps: 1_000_000 };
        let (capacity, drain_rate) = (1_000, 8_000_000_000);
        let mut buffer =
            HostBuffer::new(HostBufferParams { capacity, drain_rate, credits, ..HostBufferParams::default() });
        let now = Ns(5_000);
        for n in 1..=10 {
            assert!(buffer.take(now, 100, 0));
            assert_eq!(buffer.fill(now), n * 100);
        }
        assert!(!buffer.take(now, 1, 0));
        // Half of them are through after 5 us, all after 10.
        assert_eq!(buffer.fill(now + 5_000), 500);
        assert!(buffer.take(now + 5_000, 100, 0));
        assert_eq!((buffer.fill(now + 5_000), buffer.empty_at_ps), (600, 16_000_000));
        assert_eq!(buffer.fill(now + 11_000), 0);
        buffer.transfer(now + 20_000, 5_000, 0);
        assert_eq!((buffer.fill(now + 20_000), buffer.empty_at_ps), (5_000, 30_000_000));
    }

    #[test]
    fn a_read_request_takes_a_header_of_the_link_to_the_host() {
        let credits = Credits { rate: 64_000_000_000, header_ps: 100_000 };
        let mut buffer = HostBuffer::new(HostBufferParams { credits, ..HostBufferParams::default() });
        buffer.transfer(Ns(0), 64, 0);
        assert_eq!(buffer.empty_at_ps, 100_000, "its 64 bytes take 8 ns, its header 100");
        buffer.transfer(Ns(0), 1_000, 0);
        assert_eq!(buffer.empty_at_ps, 225_000, "1,000 bytes take 125 ns of 64 Gbps");
    }

    #[test]
    fn times_beyond_any_clock_are_no_overflow() {
        let credits = Credits { rate: 1, header_ps: 1_000_000_000_000 };
        let capacity = u64::MAX >> 1;
        let mut buffer = HostBuffer::new(HostBufferParams { capacity, credits, ..HostBufferParams::default() });
        let waits = |buffer: &mut HostBuffer| {
            buffer.transfer(Ns(1), 0, 0);
            buffer.fill(Ns(1))
        };
        assert!(buffer.take(Ns(0), capacity / 2, 0));
        let full = waits(&mut buffer);
        assert!(full.abs_diff(capacity / 2) < 1_000, "{full}");
        assert!(buffer.take(Ns(2), 10, 0) && waits(&mut buffer) >= full);
    }

    #[test]
    fn a_year_of_nanoseconds_is_no_overflow() {
        let mut buffer = HostBuffer::new(HostBufferParams::default());
        let now = Ns(365 * 24 * 3_600 * crate::time::SEC);
        assert!(buffer.take_payload(now, 4096) && buffer.take_payload(now, 4096));
    }

    #[test]
    fn parameters_that_make_no_sense_are_named() {
        let wrong = |change: fn(&mut HostBufferParams)| {
            let mut params = HostBufferParams::default();
            change(&mut params);
            params.fault().is_some()
        };
        assert!(!wrong(|_| ()));
        assert!(wrong(|p| p.capacity = 0) && wrong(|p| p.drain_rate = 0) && wrong(|p| p.max_penalty = 128));
        assert!(wrong(|p| p.low_percent = 90) && wrong(|p| p.high_percent = 101));
        assert!(wrong(|p| p.drain_rate = RATE_MAX + 1) && wrong(|p| p.credits.rate = 0));
    }
}

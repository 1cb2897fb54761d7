//! The host behind the responder: a buffer that received payload waits in, as its host takes it at a rate of its own.
//!
//! Placement itself is immediate; what is modelled is how much of it the host has taken. From the fill follow the penalty that a SACK
//! carries back (`rcv_cwnd_pen`), and a NACK for want of a buffer.

use super::limits::{PS, RATE_MAX, takes_ps};
use crate::Ns;

/// A receive buffer and the host that drains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBufferParams {
    /// Size in bytes.
    pub capacity: u64,
    /// What the host takes, in bits a second.
    pub drain_rate: u64,
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
    /// A `u64` of picoseconds ends after 213 days.
    empty_at_ps: u128,
}

impl HostBuffer {
    pub(super) fn new(params: HostBufferParams) -> HostBuffer {
        HostBuffer { params, empty_at_ps: 0 }
    }

    fn fill(&self, now: Ns) -> u64 {
        let ahead = self.empty_at_ps.saturating_sub(u128::from(now.0) * 1_000);
        (ahead * u128::from(self.params.drain_rate) / (8 * PS)) as u64
    }

    /// Takes the frame of a data packet on its arrival, where the buffer is the port's; false when there is no room.
    pub(super) fn take_frame(&mut self, now: Ns, len: u64) -> bool {
        match self.params.when_full {
            WhenFull::Nack => true,
            WhenFull::Drop { overhead } => {
                let taken = self.take(now, len);
                if taken {
                    self.delay(now, overhead.into());
                }
                taken
            }
        }
    }

    /// Takes the payload of a packet that is to be placed, where the buffer is the responder's; false when there is no room.
    pub(super) fn take_payload(&mut self, now: Ns, len: u64) -> bool {
        match self.params.when_full {
            WhenFull::Nack => self.take(now, len),
            WhenFull::Drop { .. } => true,
        }
    }

    fn take(&mut self, now: Ns, len: u64) -> bool {
        if self.fill(now) + len > self.params.capacity {
            return false;
        }
        self.delay(now, len);
        true
    }

    /// The link to the host is busy with `len` bytes more.
    pub(super) fn delay(&mut self, now: Ns, len: u64) {
        let takes = takes_ps(len, self.params.drain_rate);
        self.empty_at_ps = self.empty_at_ps.max(u128::from(now.0) * 1_000) + takes;
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
        assert!(buffer.take(now, 500));
        assert_eq!(buffer.penalty(now), (0, true));
        assert!(buffer.take(now, 200));
        assert_eq!(buffer.penalty(now), (64, true));
        assert!(buffer.take(now, 300));
        assert_eq!(buffer.penalty(now), (127, true));
        assert!(!buffer.take(now, 1), "it is full");
        assert!(buffer.take(now + 1, 1));
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
    }
}

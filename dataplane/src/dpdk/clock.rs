//! Time from the TSC.

use crate::Ns;
use crate::time::SEC;

use super::Eal;

const SHIFT: u32 = 32;

/// Nanoseconds since the clock was made, from the CPU's time stamp counter. Copies agree with each other, on every core
/// (DPDK needs a TSC that is constant and the same on all cores).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    /// Nanoseconds a tick, in 1/2^32.
    mult: u64,
}

impl Clock {
    /// A clock that starts now. DPDK measured the counter's frequency when it came up.
    #[must_use]
    pub fn new(_eal: &Eal) -> Clock {
        // SAFETY: neither has a precondition beyond EAL being up.
        let (hz, start) = unsafe { (dpdk_sys::rte_get_tsc_hz(), dpdk_sys::mrc_rdtsc()) };
        Clock { start, mult: mult(hz) }
    }

    /// The time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Ns {
        // SAFETY: reads a register.
        let tsc = unsafe { dpdk_sys::mrc_rdtsc() };
        Ns(scale(tsc.saturating_sub(self.start), self.mult))
    }
}

fn mult(hz: u64) -> u64 {
    u64::try_from((u128::from(SEC) << SHIFT) / u128::from(hz.max(1))).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_possible_truncation)]
fn scale(ticks: u64, mult: u64) -> u64 {
    ((u128::from(ticks) * u128::from(mult)) >> SHIFT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_ticks_is_a_day_of_nanoseconds_to_a_millisecond() {
        for hz in [1_000_000_000, 2_099_998_000, 2_500_000_000, 3_700_000_001] {
            let day = 86_400;
            let ns = scale(hz * day, mult(hz));
            assert!(ns.abs_diff(day * SEC) < 1_000_000, "{hz} Hz: {ns}");
        }
    }
}

//! What governs reliable delivery.

use crate::time::{SEC, US};

/// Largest MSS: a jumbo frame's worth, and small enough for a frame to fit IPv4's length field many times.
pub const MSS_MAX: u32 = 16_384;
/// Largest `MaxPSNRange`.
pub const MPR_MAX: u32 = 32_640;
/// The cap of a retransmission timeout: 2^24 units of 1.024 us, about 17.18 s.
pub const TIMEOUT_CAP: u64 = (1 << 24) * 1_024;
/// `ExponentialRetryCount` that never gives up.
pub const RETRY_FOREVER: u8 = 25;
/// Largest message: 1 GiB.
pub const MESSAGE_MAX: u32 = 1 << 30;
/// Most messages that wait or are in flight on one QP.
pub const SEND_QUEUE_MAX: usize = 1 << 15;

/// Most Writes with Immediate in flight on a QP.
pub const WRITE_IMM_MAX: u32 = 1 << 12;

/// How a requester measures round-trip times (`RTTTimestampMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RttMode {
    /// From the send time that it stored.
    #[default]
    LocalDatabase,
    /// From a timestamp that each data packet carries and the SACK reflects; 4 bytes more a packet.
    WireTimestamp,
}

/// Parameters of both sides of a QP; names, defaults and ranges follow the Scala MRC NIC documentation, ScalaMrcQpManager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportParams {
    /// `MSS`: largest payload of a packet in bytes, 1 to [`MSS_MAX`].
    pub mss: u32,
    /// `MaxPSNRange`: how far new data goes beyond the cumulative ACK, and how far the responder takes packets; 1 to [`MPR_MAX`].
    pub max_psn_range: u32,
    /// `SACKLossMinRetxPkts`: reorder depth beyond which a gap is a loss.
    pub sack_loss_min_retx_pkts: u32,
    /// `InitialAckTimeout` in ns, 1 ns to 8 s. Whole microseconds count, one at least.
    pub initial_ack_timeout_ns: u64,
    /// `FixedRexmitTimeEnable`: timeouts never double.
    pub fixed_rexmit_time: bool,
    /// `LinearRetryCount`, 0 to 7.
    pub linear_retry_count: u8,
    /// `ExponentialRetryCount`, 0 to 25; 25 never gives up.
    pub exponential_retry_count: u8,
    /// How long a packet waits after a NACK for a shortage: one base RTT, in ns.
    pub nack_wait_ns: u64,
    /// `RTTTimestampMode`.
    pub rtt_mode: RttMode,
    /// The responder reports its service time, so that the requester can take it off.
    pub service_time: bool,
    /// Writes with Immediate that the responder takes in flight on a QP, and advertises; 1 to [`WRITE_IMM_MAX`].
    pub write_imm_limit: u32,
    /// Dynamic MPR: SACKs carry the responder's window, and the requester keeps to it.
    pub dynamic_mpr: bool,
}

impl Default for TransportParams {
    fn default() -> Self {
        TransportParams {
            mss: 4096,
            max_psn_range: 1024,
            sack_loss_min_retx_pkts: 512,
            initial_ack_timeout_ns: 150 * US,
            fixed_rexmit_time: false,
            linear_retry_count: 7,
            exponential_retry_count: RETRY_FOREVER,
            nack_wait_ns: 6 * US,
            rtt_mode: RttMode::LocalDatabase,
            service_time: true,
            write_imm_limit: 64,
            dynamic_mpr: false,
        }
    }
}

/// A parameter outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}, but may be {min} to {max}")]
pub struct OutOfRange {
    /// The attribute, as the documentation names it.
    pub name: &'static str,
    /// What was given.
    pub value: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
}

impl TransportParams {
    /// Checks all ranges.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let ranges = [
            ("MSS", u64::from(self.mss), 1, u64::from(MSS_MAX)),
            ("MaxPSNRange", u64::from(self.max_psn_range), 1, u64::from(MPR_MAX)),
            ("InitialAckTimeout in ns", self.initial_ack_timeout_ns, 1, 8 * SEC),
            ("LinearRetryCount", u64::from(self.linear_retry_count), 0, 7),
            ("write_imm_limit", u64::from(self.write_imm_limit), 1, u64::from(WRITE_IMM_MAX)),
            ("ExponentialRetryCount", u64::from(self.exponential_retry_count), 0, u64::from(RETRY_FOREVER)),
        ];
        for (name, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(OutOfRange { name, value, min, max });
            }
        }
        Ok(())
    }

    /// `InitialAckTimeout` as the timers take it: whole microseconds, one at least, in ns.
    #[must_use]
    pub fn ack_timeout(&self) -> u64 {
        (self.initial_ack_timeout_ns / US).max(1) * US
    }

    /// How often the completion of a message is asked for again, in ns.
    #[must_use]
    pub fn rerequest_period(&self) -> u64 {
        2 * self.ack_timeout()
    }

    /// Retransmissions of a packet before its QP gives up; `None` for ever.
    #[must_use]
    pub fn retry_budget(&self) -> Option<u32> {
        (self.exponential_retry_count < RETRY_FOREVER)
            .then(|| u32::from(self.linear_retry_count) + u32::from(self.exponential_retry_count))
    }

    /// How long a packet takes to spend its retry budget, from its first transmission to the timeout that ends its QP, in ns; `None` for
    /// ever.
    #[must_use]
    pub fn patience(&self) -> Option<u64> {
        self.retry_budget().map(|budget| (1..=budget + 1).map(|n| self.timeout(n).1).sum())
    }

    /// How often the `n`-th timeout (from 1) of a packet has doubled, and its length in ns.
    #[must_use]
    pub fn timeout(&self, n: u32) -> (usize, u64) {
        let doublings = if self.fixed_rexmit_time { 0 } else { n.saturating_sub(u32::from(self.linear_retry_count)) };
        let mut length = self.ack_timeout();
        let mut doubled = 0;
        while doubled < doublings && length < TIMEOUT_CAP {
            length *= 2;
            doubled += 1;
        }
        (doubled as usize, length.min(TIMEOUT_CAP))
    }

    /// A full packet's nominal size in bytes: the unit of the congestion window.
    #[must_use]
    pub const fn full(&self) -> u32 {
        self.mss + crate::wire::NOMINAL_OVERHEAD
    }

    /// What a data packet of `payload` bytes counts in window and accounting.
    #[must_use]
    pub const fn nominal(&self, payload: u32) -> u32 {
        let timestamp = match self.rtt_mode {
            RttMode::LocalDatabase => 0,
            RttMode::WireTimestamp => crate::wire::TSETH_LEN,
        };
        payload + crate::wire::NOMINAL_OVERHEAD + timestamp
    }

    /// Packets of a message of `len` bytes; one for an empty message.
    #[must_use]
    pub const fn packets(&self, len: u32) -> u32 {
        // Most messages of many are short, and to divide takes long.
        if len <= self.mss { 1 } else { len.div_ceil(self.mss) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(params: &TransportParams, count: u32) -> Vec<u64> {
        (1..=count).map(|n| params.timeout(n).1 / US).collect()
    }

    #[test]
    fn seven_timeouts_are_linear_and_each_later_one_doubles() {
        assert_eq!(lengths(&TransportParams::default(), 10), [150, 150, 150, 150, 150, 150, 150, 300, 600, 1200]);
    }

    #[test]
    fn without_linear_retries_the_first_timeout_already_doubles() {
        let params = TransportParams { linear_retry_count: 0, ..TransportParams::default() };
        assert_eq!(lengths(&params, 3), [300, 600, 1200]);
    }

    #[test]
    fn timeouts_are_capped_at_seventeen_seconds() {
        let params = TransportParams::default();
        assert_eq!(params.timeout(60).1, 17_179_869_184);
        assert!(params.timeout(u32::MAX).0 < 32);
    }

    #[test]
    fn patience_is_the_sum_of_all_timeouts() {
        let patience = |linear_retry_count, exponential_retry_count| {
            TransportParams { linear_retry_count, exponential_retry_count, ..TransportParams::default() }.patience()
        };
        assert_eq!(patience(7, 0), Some(1_350 * US));
        assert_eq!(patience(0, 0), Some(300 * US));
        assert_eq!(patience(3, 2), Some((3 * 150 + 300 + 600 + 1_200) * US));
        assert_eq!(patience(7, RETRY_FOREVER), None);
        assert!(patience(7, 24).is_some_and(|ns| ns < 600 * SEC));
    }

    #[test]
    fn a_fixed_timeout_never_doubles() {
        let params = TransportParams { fixed_rexmit_time: true, ..TransportParams::default() };
        assert_eq!(params.timeout(100), (0, 150 * US));
    }

    #[test]
    fn a_timeout_counts_in_whole_microseconds_and_in_one_at_least() {
        let timeout = |ns| TransportParams { initial_ack_timeout_ns: ns, ..TransportParams::default() }.ack_timeout();
        assert_eq!(timeout(1), US);
        assert_eq!(timeout(2_999), 2 * US);
    }

    #[test]
    fn values_outside_their_range_are_refused_by_name() {
        let refused = |params: TransportParams| params.validate().unwrap_err().to_string();
        let default = TransportParams::default();
        assert!(default.validate().is_ok());
        assert_eq!(refused(TransportParams { mss: 0, ..default }), "MSS is 0, but may be 1 to 16384");
        assert!(refused(TransportParams { max_psn_range: 32_641, ..default }).starts_with("MaxPSNRange is 32641"));
        assert!(refused(TransportParams { linear_retry_count: 8, ..default }).contains("LinearRetryCount"));
        assert!(refused(TransportParams { exponential_retry_count: 26, ..default }).contains("ExponentialRetryCount"));
        assert!(refused(TransportParams { initial_ack_timeout_ns: 0, ..default }).contains("InitialAckTimeout"));
    }
}

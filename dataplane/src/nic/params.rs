//! What governs an engine.

use super::host::HostBufferParams;
use super::limits::SendLimits;
use crate::congestion::profile::CcConfig;
use crate::congestion::{NsccError, NsccParams};
use crate::path::{SprayingError, SprayingParams};
use crate::transport::{OutOfRange, TransportParams};
use crate::wire::{DscpMap, MacAddr, UDP_PORT};

/// Most QPs of one NIC: a QPN holds 16 bits of slot.
pub const QPS_MAX: usize = 1 << 16;
/// Most ports of one NIC.
pub const PORTS_MAX: usize = 8;
/// Replies that wait for the port; what comes beyond is left out and counted.
pub const CONTROL_QUEUE_MAX: usize = 4096;
/// Frames that one call of [`super::Nic::transmit`] writes at most.
pub const TX_BURST: usize = 32;

/// Bytes of data after which a call of [`super::Nic::transmit`] ends.
pub const TX_BURST_BYTES: u64 = 32 * 1024;

/// A port of a NIC, as the engine needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// The longest frame that it carries, in bytes without FCS.
    pub max_frame: usize,
}

/// Parameters of an engine. Names and defaults follow the Scala MRC NIC documentation where it has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NicParams {
    /// Both sides of a QP.
    pub transport: TransportParams,
    /// Entropy values.
    pub spraying: SprayingParams,
    /// `DataRate` of the link in bits a second. It sizes the active set and does not follow what a virtual port reports.
    pub data_rate: u64,
    /// `ConfigBaseRTT` in ns.
    pub base_rtt_ns: u64,
    /// How windows are found, for QPs without a CC profile.
    pub congestion: CcConfig,
    /// `QPGroupsEnabled`: the QPs to one destination share a window and a turn; otherwise each has its own.
    pub qp_groups: bool,
    /// Rates and buffers of the sending side.
    pub limits: SendLimits,
    /// `TrimmingEnabled`: data is marked trimmable, and a trimmed packet is answered by a NACK.
    pub trimming: bool,
    /// `UseDistinctDSCPForRetransmit`.
    pub distinct_retransmit_dscp: bool,
    /// A SACK's SKIP_ONCE passes the EV over once.
    pub ecn_skip: bool,
    /// A SACK that waits to be sent stands for those that packets behind it draw, as far as its cumulative ACK and its bitmap report them: one for a
    /// burst, where frames come in bursts. Marked packets and retransmissions always draw their own.
    pub merge_sacks: bool,
    /// The NIC takes part in endpoint operations: it answers EV probes, and hears the answers to its own.
    pub endpoint_operations: bool,
    /// Packets that the NIC's responders hold out of order in all; one more is refused for want of a bitmap.
    pub out_of_order_limit: u32,
    /// Immediates that the NIC's responders keep in all for messages before theirs; one more is refused for want of a resource.
    pub held_immediates_limit: u32,
    /// The host behind the responder, where it is modelled.
    pub host_buffer: Option<HostBufferParams>,
    /// Codepoints.
    pub dscp: DscpMap,
    /// UDP destination port.
    pub udp_port: u16,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for NicParams {
    fn default() -> Self {
        NicParams {
            transport: TransportParams::default(),
            spraying: SprayingParams::default(),
            data_rate: 400_000_000_000,
            base_rtt_ns: 6_000,
            congestion: CcConfig::Nscc(NsccParams::default()),
            qp_groups: true,
            limits: SendLimits::default(),
            trimming: true,
            distinct_retransmit_dscp: true,
            ecn_skip: true,
            merge_sacks: false,
            endpoint_operations: true,
            out_of_order_limit: u32::MAX,
            held_immediates_limit: u32::MAX,
            host_buffer: None,
            dscp: DscpMap::default(),
            udp_port: UDP_PORT,
            hop_limit: 64,
            seed: 1,
        }
    }
}

/// Why parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ParamError {
    /// One of both sides of a QP.
    #[error(transparent)]
    Transport(#[from] OutOfRange),
    /// One of the entropy values.
    #[error(transparent)]
    Spraying(#[from] SprayingError),
    /// Congestion control.
    #[error(transparent)]
    Congestion(#[from] NsccError),
    /// Rates and buffers of the sending side.
    #[error("limits of the sending side: {0}")]
    Limits(&'static str),
    /// The host buffer.
    #[error("the host buffer: {0}")]
    HostBuffer(&'static str),
    /// No port, or more than [`PORTS_MAX`].
    #[error("a NIC has 1 to 8 ports, but {0} were given")]
    Ports(usize),
    /// A codepoint does not fit six bits.
    #[error("DSCP {0} is larger than 63")]
    Dscp(u8),
    /// A codepoint of trimmed packets has another use too.
    #[error("the DSCPs of trimmed packets are not their own: whole packets would be taken for trimmed ones")]
    TrimmedDscp,
    /// UDP port 0.
    #[error("the UDP destination port is 0")]
    UdpPort,
}

/// The longest frames of data and of control: over IPv6, in SRv6 with an SRH, with a VLAN tag, where a full packet counts `full` bytes.
const fn longest_frames(full: u32) -> (u64, u64) {
    let (ethernet, vlan, ipv6_more, srv6) = (18, 4, 20, 64);
    (full as u64 + ethernet + vlan + ipv6_more + srv6, 94 + vlan + ipv6_more + srv6)
}

impl NicParams {
    /// Checks all ranges.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    pub fn validate(&self) -> Result<(), ParamError> {
        self.transport.validate()?;
        self.spraying.validate()?;
        self.congestion.validate(self.trimming)?;
        if let Some(fault) = self.limits.fault(longest_frames(self.transport.full())) {
            return Err(ParamError::Limits(fault));
        }
        if let Some(fault) = self.host_buffer.as_ref().and_then(HostBufferParams::fault) {
            return Err(ParamError::HostBuffer(fault));
        }
        let d = &self.dscp;
        let codepoints = [d.no_trim, d.trimmable, d.trimmable_retx, d.trimmed, d.trimmed_last_hop, d.control];
        if let Some(&wrong) = codepoints.iter().find(|&&dscp| dscp > 63) {
            return Err(ParamError::Dscp(wrong));
        }
        let told_apart = [d.no_trim, d.trimmable, d.trimmable_retx, d.control];
        let trims = [d.trimmed, d.trimmed_last_hop];
        if trims[0] == trims[1] || trims.iter().any(|trim| told_apart.contains(trim)) {
            return Err(ParamError::TrimmedDscp);
        }
        if self.udp_port == 0 {
            return Err(ParamError::UdpPort);
        }
        Ok(())
    }

    /// Bandwidth-delay product of the link in bytes.
    #[must_use]
    pub fn bdp(&self) -> u64 {
        (u128::from(self.data_rate) * u128::from(self.base_rtt_ns) / 8_000_000_000) as u64
    }

    /// DSCP of a data packet.
    #[must_use]
    pub const fn data_dscp(&self, retransmission: bool) -> u8 {
        match (retransmission && self.distinct_retransmit_dscp, self.trimming) {
            (true, _) => self.dscp.trimmable_retx,
            (false, true) => self.dscp.trimmable,
            (false, false) => self.dscp.no_trim,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bandwidth_delay_product_at_the_defaults_is_300_000_bytes() {
        let params = NicParams::default();
        assert_eq!(params.bdp(), 300_000);
        assert_eq!(params.spraying.active_set_size(params.bdp(), params.transport.full()), 72);
    }

    #[test]
    fn a_codepoint_of_trimmed_packets_has_no_other_use() {
        let refused = |change: fn(&mut DscpMap)| {
            let mut params = NicParams::default();
            change(&mut params.dscp);
            params.validate()
        };
        assert_eq!(refused(|d| d.trimmed = d.control), Err(ParamError::TrimmedDscp));
        assert_eq!(refused(|d| d.trimmed_last_hop = d.trimmed), Err(ParamError::TrimmedDscp));
        assert_eq!(refused(|d| d.no_trim = 64), Err(ParamError::Dscp(64)));
        // These may be one: a network that does not tell them apart.
        assert_eq!(refused(|d| d.trimmable_retx = d.trimmable), Ok(()));
    }

    #[test]
    fn codepoints_follow_trimming_and_retransmission() {
        let params =
            |trimming, distinct| NicParams { trimming, distinct_retransmit_dscp: distinct, ..NicParams::default() };
        assert_eq!((params(true, true).data_dscp(false), params(true, true).data_dscp(true)), (4, 8));
        assert_eq!((params(false, true).data_dscp(false), params(false, true).data_dscp(true)), (0, 8));
        assert_eq!((params(true, false).data_dscp(false), params(true, false).data_dscp(true)), (4, 4));
        assert_eq!((params(false, false).data_dscp(false), params(false, false).data_dscp(true)), (0, 0));
    }
}

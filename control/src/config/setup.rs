//! A configuration as the engine, the control thread and the records take it.

use super::value::{QueueSize, SprayingType, TimeVal};
use super::{Config, Monitor, NsccComponent};
use dataplane::congestion::NsccParams;
use dataplane::congestion::profile::CcConfig;
use dataplane::nic::{Credits, FetchParams, HostBufferParams, NicParams, PacingParams, Paths, SendLimits, WhenFull};
use dataplane::path::SprayingParams;
use dataplane::transport::TransportParams;

/// Bytes that a received packet takes of the link to the host besides its own: with them 400 Gbps of full packets need 418.6 Gbps.
const HOST_OVERHEAD: u32 = 194;
/// The data class has this share of a buffer, in percent.
const DATA_PERCENT: u64 = 90;

/// A NIC that is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The engine of each worker.
    pub nic: NicParams,
    /// `PacketSprayingType`; [`Setup::paths`] is what QPs are opened with.
    pub spraying: SprayingType,
    /// `ReliabilityProbePeriod` in ns, for the controller.
    pub probe_period_ns: u64,
    /// `Delay` of the NIC's link in ns, for a fabric in virtual time.
    pub link_delay_ns: u64,
    /// What is recorded.
    pub records: RecordSettings,
}

/// Which records a NIC keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordSettings {
    /// Time between rows of `mrc-transport-stats` in ns, if there are any.
    pub transport_stats_ns: Option<u64>,
    /// Whether there is `mrc-events`.
    pub events: bool,
    /// What `mrc-monitor` has, if there is one.
    pub monitor: Option<Monitor>,
    /// The same, whether there is one or not: a capture has these packets.
    pub packets: Monitor,
}

impl Setup {
    /// How the packets of a QP find their way, whose own UDP source port is `udp_port`.
    #[must_use]
    pub const fn paths(&self, udp_port: u16) -> Paths {
        match self.spraying {
            SprayingType::None => Paths::Own { udp_port },
            SprayingType::Default => Paths::Sprayed,
        }
    }
}

/// A number for a field of the engine, whose range is checked apart.
fn narrow<T: TryFrom<u64>>(number: u64, most: T) -> T {
    T::try_from(number).unwrap_or(most)
}

impl Config {
    /// The setup, of a configuration that breaks no rule that stops.
    #[must_use]
    pub fn setup(&self) -> Setup {
        let Config { nic, qp_manager, .. } = self;
        let stats = nic.transport_stats_report_interval.ns();
        Setup {
            nic: self.params(),
            spraying: qp_manager.packet_spraying_type,
            probe_period_ns: qp_manager.reliability_probe_period.ns(),
            link_delay_ns: self.medium.delay.ns(),
            records: RecordSettings {
                transport_stats_ns: nic.enable_transport_stats.then_some(stats),
                events: nic.enable_event_logging,
                monitor: nic.enable_monitor.then(|| self.monitor.clone()),
                packets: self.monitor.clone(),
            },
        }
    }

    fn params(&self) -> NicParams {
        let base_rtt_ns = self.nscc.config_base_rtt.ns();
        let limited = self.model.limits;
        NicParams {
            transport: self.transport(base_rtt_ns),
            spraying: self.spraying(),
            data_rate: self.uplink.data_rate.0,
            base_rtt_ns,
            congestion: CcConfig::Nscc(self.nscc.params()),
            qp_groups: self.qp_manager.qp_groups_enabled,
            limits: if limited { self.send_limits() } else { SendLimits::default() },
            trimming: self.qp_manager.trimming_enabled,
            merge_sacks: !self.model.own_sacks,
            distinct_retransmit_dscp: self.qp_manager.use_distinct_dscp_for_retransmit,
            host_buffer: limited.then(|| self.host_buffer()),
            ..NicParams::default()
        }
    }

    fn transport(&self, base_rtt_ns: u64) -> TransportParams {
        let qps = &self.qp_manager;
        TransportParams {
            mss: narrow(qps.mss, u32::MAX),
            max_psn_range: narrow(qps.max_psn_range, u32::MAX),
            sack_loss_min_retx_pkts: narrow(qps.sack_loss_min_retx_pkts, u32::MAX),
            initial_ack_timeout_ns: qps.initial_ack_timeout.ns(),
            fixed_rexmit_time: qps.fixed_rexmit_time_enable,
            linear_retry_count: narrow(qps.linear_retry_count, u8::MAX),
            exponential_retry_count: narrow(qps.exponential_retry_count, u8::MAX),
            nack_wait_ns: base_rtt_ns,
            rtt_mode: qps.rtt_timestamp_mode,
            ..TransportParams::default()
        }
    }

    fn spraying(&self) -> SprayingParams {
        // With probes a value comes back on its answer.
        let default = SprayingParams { assumed_bad_ns: None, ..SprayingParams::default() };
        if self.qp_manager.packet_spraying_type == SprayingType::None {
            // A range that nobody draws from may be any.
            return default;
        }
        SprayingParams {
            entropy_mask_bits: narrow(self.packet_spraying.entropy_mask_bits, u8::MAX),
            starting_port_offset: narrow(self.packet_spraying.starting_port_offset, u16::MAX),
            active_ev_set_size: narrow(self.packet_spraying.active_ev_set_size, u32::MAX),
            ..default
        }
    }

    /// The credits of a direction of the host's link, whose sender and receiver have buffers of these sizes for headers, and for data.
    fn credits(&self, headers: [QueueSize; 2], data: [QueueSize; 2]) -> Credits {
        let least = |sizes: [QueueSize; 2]| sizes[0].min(sizes[1]).0;
        // Buffers that let nothing through are refused by name.
        Credits::of(least(headers), least(data), self.model.pcie_round_trip.0).unwrap_or_default()
    }

    fn credits_to_host(&self) -> Credits {
        let (nic, host) = (&self.nic_side, &self.host_side);
        let headers = [nic.tx_header_buffer_size, host.rx_header_buffer_size];
        self.credits(headers, [nic.tx_data_buffer_size, host.rx_data_buffer_size])
    }

    /// Those of payload that is fetched: its request goes the other way, and needs a header there.
    fn credits_from_host(&self) -> Credits {
        let (nic, host) = (&self.nic_side, &self.host_side);
        let headers = [host.tx_header_buffer_size, nic.rx_header_buffer_size];
        let credits = self.credits(headers, [host.tx_data_buffer_size, nic.rx_data_buffer_size]);
        Credits { header_ps: credits.header_ps.max(self.credits_to_host().header_ps), ..credits }
    }

    fn send_limits(&self) -> SendLimits {
        let host = &self.host_side;
        SendLimits {
            egress_buffer: Some(self.egress_buffer.total_buffer_size.0),
            fetch: Some(FetchParams {
                rate: host.lane_bps.0.saturating_mul(host.lane_count),
                read_request: narrow(self.nic_side.read_request_size.0, u32::MAX),
                credits: self.credits_from_host(),
            }),
            pacing: Some(PacingParams { rate: self.uplink.data_rate.0, burst_ns: self.model.burst.ns() }),
        }
    }

    fn host_buffer(&self) -> HostBufferParams {
        let nic = &self.nic_side;
        let size = u128::from(self.ingress_buffer.total_buffer_size.0);
        HostBufferParams {
            capacity: (size * u128::from(DATA_PERCENT) / 100) as u64,
            drain_rate: nic.lane_bps.0.saturating_mul(nic.lane_count),
            credits: self.credits_to_host(),
            when_full: WhenFull::Drop { overhead: HOST_OVERHEAD },
            ..HostBufferParams::default()
        }
    }
}

impl NsccComponent {
    fn params(&self) -> NsccParams {
        let time = |applies: bool, time: TimeVal| applies.then_some(time.ns());
        let window = narrow(self.max_congestion_window, u32::MAX);
        NsccParams {
            pass_through: self.pass_through,
            config_base_rtt_ns: self.config_base_rtt.ns(),
            alpha_multiplier: self.alpha_multiplier,
            fair_increase_multiplier: self.fair_increase_multiplier,
            fast_increase_multiplier: self.fast_increase_multiplier,
            eta_multiplier: self.eta_multiplier,
            delay_alpha: self.delay_alpha,
            quick_adapt_gate: narrow(self.quick_adapt_gate, u32::MAX),
            disable_quick_adapt: self.disable_quick_adapt,
            quick_adapt_threshold_ns: self.quick_adapt_threshold.ns(),
            override_max_window: self.override_spec_max_congestion_window.then_some(window),
            override_target_queue_delay_ns: time(self.override_spec_target_queue_delay, self.target_queue_delay),
            target_queue_delay_margin_ns: self.target_queue_delay_margin.ns(),
            reference_network_rtt_ns: self.reference_network_rtt.ns(),
            ..NsccParams::default()
        }
    }
}

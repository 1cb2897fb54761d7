//! Queue pairs: marks, segments, windows, loss, timers, and how packets are sprayed.

use super::table::{Acts, component};
use super::value::{SprayingType, TimeVal};
use dataplane::transport::RttMode;

component! {
    /// What governs the NIC's queue pairs.
    QpManager at qp_manager, "qp_manager";
    ["ScalaMrcQpManager"] {
        "TrimmingEnabled" trimming_enabled: bool = "true", Acts::Engine("trimming"),
            "Whether first transmissions and probes are marked as ones that a switch may trim, and whether a trimmed packet that comes is answered by a NACK. It also decides the target queue delay (three quarters of `ConfigBaseRTT`, or all of it) and what sets off Quick Adapt (NACKs of trimmed packets alone, or `QuickAdaptThreshold` too).";
        "UseDistinctDSCPForRetransmit" use_distinct_dscp_for_retransmit: bool = "true", Acts::Engine("distinct_retransmit_dscp"),
            "Whether retransmissions have a mark of their own, which lets switches trim them whatever `TrimmingEnabled` says. Otherwise a packet keeps the mark of its first transmission.";
        "MSS" mss: u64 = "4096" in ["1"], Acts::Engine("transport.mss"),
            "Most payload of a data packet, in bytes; a full packet is 78 bytes longer on the wire, or 82 with `WireTimestamp`, and counts 60 bytes more in windows. With 4096 or more each data packet draws a SACK; with less, one SACK may stand for several. This engine takes 16384 at most.";
        "MaxPSNRange" max_psn_range: u64 = "1024" in ["1", "32640"], Acts::Engine("transport.max_psn_range"),
            "How many PSNs new data may go beyond the cumulative ACK, and how far beyond it a responder takes packets; further ones are dropped and answered by a NACK.";
        "QPGroupsEnabled" qp_groups_enabled: bool = "true", Acts::Engine("qp_groups"),
            "Whether the queue pairs to one address share a window and a turn of the scheduler. The state of spraying is one for each destination in any case.";
        "PacketSprayingType" packet_spraying_type: SprayingType = "Default Packet Spraying", Acts::Engine("PathSpec.paths"),
            "How UDP source ports are chosen: `None`, each queue pair keeps to its own and learns nothing of paths; or `Default Packet Spraying`, over an active set, from which values are taken after a timeout until a probe on them is answered.";
        "SACKLossMinRetxPkts" sack_loss_min_retx_pkts: u64 = "512", Acts::Engine("transport.sack_loss_min_retx_pkts"),
            "A packet is presumed lost once a SACK tells of a PSN more than this far above it. At 0 any gap is a loss, reordered packets included; at `MaxPSNRange` - 1 or more none is.";
        "InitialAckTimeout" initial_ack_timeout: TimeVal = "150us" in ["1ns", "8s"], Acts::Engine("transport.initial_ack_timeout_ns"),
            "How long a packet waits for its acknowledgement before it is sent again; later waits double after `LinearRetryCount` of them, up to 17.18 s. Whole microseconds count, one at least. The completion of a message is asked for again at twice this.";
        "ReliabilityProbePeriod" reliability_probe_period: TimeVal = "150us" in ["1ns", "8s"], Acts::Control("`Controller::new`, time between probes"),
            "Each period every destination with values out of use is sent a probe on one of them, in turn. Used with `Default Packet Spraying` alone.";
        "FixedRexmitTimeEnable" fixed_rexmit_time_enable: bool = "false", Acts::Engine("transport.fixed_rexmit_time"),
            "Whether all waits are `InitialAckTimeout` long, without doubling. The number of retries is limited all the same.";
        "LinearRetryCount" linear_retry_count: u64 = "7" in ["0", "7"], Acts::Engine("transport.linear_retry_count"),
            "How many waits of a packet come before they double; part of the retry budget. At 0 the first wait is doubled already.";
        "ExponentialRetryCount" exponential_retry_count: u64 = "25" in ["0", "25"], Acts::Engine("transport.exponential_retry_count"),
            "The rest of the retry budget: after both counts of retransmissions by timeout, the next one ends the queue pair in its error state. NACKs have a budget of the same size. 25 never gives up.";
        "RTTTimestampMode" rtt_timestamp_mode: RttMode = "LocalDatabase", Acts::Engine("transport.rtt_mode"),
            "How round-trip times are measured: `LocalDatabase`, from send times that the sender keeps; or `WireTimestamp`, from a stamp in units of 128 ns that each data packet carries in 4 bytes more, and that SACKs reflect.";
    }
}

component! {
    /// The entropy values of Default Packet Spraying.
    PacketSpraying at packet_spraying, "packet_spraying";
    ["PacketSpraying", "DefaultPacketSpraying"] {
        "EntropyMaskBits" entropy_mask_bits: u64 = "7" in ["0", "8"], Acts::Engine("spraying.entropy_mask_bits"),
            "There are 2 to the power of this many UDP source ports to draw from. At 0 all packets take the first.";
        "StartingPortOffset" starting_port_offset: u64 = "256" in ["0", "65535"], Acts::Engine("spraying.starting_port_offset"),
            "The first of these ports. The last may be 65,535: at 7 bits the largest offset is 65,408, at 8 bits 65,280.";
        "ActiveEVSetSize" active_ev_set_size: u64 = "0", Acts::Engine("spraying.active_ev_set_size"),
            "How many of them a destination uses. At 0 as many as packets fit into a bandwidth-delay product, up to 100: 72 at the defaults. There are never more than ports in the range, and never less than one.";
    }
}
